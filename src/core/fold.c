/*
 * fold.c
 *		Smaller sketches without a new scan of the rows.
 */
#include "cell.h"
#include "fold.h"
#include "meter.h"
#include "interrupt.h"
#include "sizing.h"

uint32_t
iblt_core_common_cells(uint32_t a, uint32_t b)
{
	if (a % b == 0)
		return b;
	return b % a == 0 ? a : 0;
}

uint32_t
iblt_core_fold_cells(uint32_t cells, uint32_t least)
{
	uint32_t size;

	for (size = iblt_core_ladder_at_least(least); size != 0 && size <= cells;
		 size = iblt_core_ladder_at_least(size + 1))
		if (cells % size == 0)
			return size;
	return 0;
}

/* Adds each run of neighbouring cells of a subtable into one cell. */
static void
fold_subtable(IbltSketch *to, uint32_t to_base, const IbltSketch *from,
			  uint32_t from_base)
{
	uint32_t cells = from->params.subtable_cells;
	uint32_t run = cells / to->params.subtable_cells;
	uint32_t i;

	for (i = 0; i < cells; i++)
	{
		iblt_check_interrupts_at(i);
		iblt_core_add_cell(to, to_base + i / run,
						   iblt_cell(from, from_base + i), 1);
	}
}

void
iblt_core_fold(IbltSketch *to, const IbltSketch *from)
{
	uint32_t from_base = 0;
	uint32_t to_base = 0;
	int i;

	for (i = 0; i < from->params.hashes && from->ncells > 0; i++)
	{
		if ((from->params.subtables >> i & 1) == 0)
			continue;
		if ((to->params.subtables >> i & 1) != 0)
		{
			fold_subtable(to, to_base, from, from_base);
			to_base += to->params.subtable_cells;
		}
		from_base += from->params.subtable_cells;
	}
	iblt_core_meter_add_all(to->meter, from->meter, 1);
	to->rows = from->rows;
}
