/*
 * sums.c
 *		What a whole sketch tells without decoding.
 */
#include "meter.h"
#include "pause.h"
#include "sums.h"

/* The sums over one subtable.  At most 2^27 counts of 32 bits do not wrap. */
typedef struct Sums
{
	int64_t		count;
	uint64_t	field[IBLT_MAX_FIELDS];
} Sums;

/* Sums up sealed cells.  Is any of them not zero? */
static bool
sum_subtable(const IbltSketch *sketch, uint32_t first, Sums *sums)
{
	bool		any = false;
	uint32_t	i;
	unsigned	f;

	sums->count = 0;
	memset(sums->field, 0, sketch->fields * sizeof *sums->field);
	for (i = 0; i < sketch->params.subtable_cells; i++)
	{
		const uint8_t *cell = iblt_cell(sketch, first + i);
		uint64_t	bits = iblt_load32(cell);

		iblt_pause_at(i);
		sums->count += iblt_cell_count(cell);
		for (f = 0; f < sketch->fields; f++)
		{
			uint64_t	element = iblt_cell_field(cell, f);

			sums->field[f] = fp_add_lazy(sums->field[f], element);
			bits |= element;
		}
		any |= bits != 0;
	}
	for (f = 0; f < sketch->fields; f++)
		sums->field[f] = fp_reduce(sums->field[f]);
	return any;
}

IbltSums
iblt_core_sums(const IbltSketch *sketch)
{
	uint32_t	cells = sketch->params.subtable_cells;
	bool		wrapped = false;
	bool		any = false;
	uint32_t	first;
	Sums		sums;
	Sums		other;

	for (first = 0; first < sketch->ncells; first += cells)
	{
		Sums	   *these = first == 0 ? &sums : &other;

		any |= sum_subtable(sketch, first, these);
		wrapped |= these->count != sketch->rows;
		if ((uint32_t) these->count != (uint32_t) sketch->rows ||
			memcmp(these->field, sums.field,
				   sketch->fields * sizeof *sums.field) != 0)
			return IBLT_SUMS_CONTRADICT;
	}
	if (!any &&
		(sketch->rows != 0 || !iblt_core_meter_is_zero(sketch->meter)))
		return IBLT_SUMS_CONTRADICT;
	return wrapped ? IBLT_SUMS_WRAPPED : IBLT_SUMS_AGREE;
}

bool
iblt_core_inserted_fit(const IbltSketch *sketch)
{
	uint64_t	subtables = (uint64_t) iblt_core_subtable_count(&sketch->params);
	uint64_t	sum = 0;
	uint32_t	i;

	/* a count is at most the number of rows */
	if (sketch->rows >= 0 && sketch->rows <= INT32_MAX)
		return true;
	for (i = 0; i < sketch->ncells; i++)
	{
		int32_t		count = iblt_cell_count(iblt_cell(sketch, i));

		iblt_pause_at(i);
		if (count < 0)
			return false;
		sum += (uint64_t) count;
	}
	/* at most 2^27 counts of 31 bits, so the sum itself does not wrap */
	return sketch->rows >= 0 && sum % subtables == 0 &&
		sum / subtables == (uint64_t) sketch->rows;
}
