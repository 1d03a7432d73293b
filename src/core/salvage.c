/*
 * salvage.c
 *		A damaged sketch from the subtables that are left.
 */
#include "interrupt.h"
#include "salvage.h"

void
iblt_core_salvage_start(IbltSketch *whole, unsigned lost,
						const IbltSketch *other)
{
	size_t		size = (size_t) whole->params.subtable_cells *
		whole->cell_size;
	size_t		at = 0;
	int			i;

	for (i = 0; i < whole->params.hashes; i++)
	{
		if ((whole->params.subtables >> i & 1) == 0)
			continue;
		if ((lost >> i & 1) != 0 && other != NULL)
			memcpy(whole->cells + at, other->cells + at, size);
		else if ((lost >> i & 1) != 0)
			iblt_core_clear(whole->cells + at, size);
		at += size;
	}
}

void
iblt_core_salvage_key(IbltSketch *whole, unsigned lost, const IbltEntry *entry)
{
	uint32_t	index[IBLT_MAX_HASHES];
	int			n = 0;
	int			i;

	(void) iblt_core_key_cells(whole, entry->key, index);
	for (i = 0; i < whole->params.hashes; i++)
	{
		if ((whole->params.subtables >> i & 1) == 0)
			continue;
		if ((lost >> i & 1) != 0)
			iblt_core_add_cell(whole, index[n], entry->cell, 1);
		n++;
	}
}

bool
iblt_core_salvage_proven(IbltSketch *whole)
{
	const uint8_t *checksum = whole->bytes + whole->size - sizeof(uint64_t);
	uint64_t	sealed = iblt_load64(checksum);

	iblt_core_seal(whole);
	return iblt_load64(checksum) == sealed;
}
