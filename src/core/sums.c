/*
 * sums.c
 *		What a whole sketch tells without decoding, and a damaged one put
 *		together again.
 */
#include "meter.h"
#include "interrupt.h"
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

		iblt_check_interrupts_at(i);
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

/*
 * What a subtable's sums come to, in one word.  False if they cannot be those
 * of a sketch with so many rows.
 */
static bool
subtable_sums(const IbltSketch *sketch, uint32_t first, uint64_t *word)
{
	Sums		sums;
	uint32_t	i;

	for (i = 0; i < sketch->params.subtable_cells; i++)
	{
		iblt_check_interrupts_at(i);
		if (!iblt_core_cell_is_canonical(sketch, iblt_cell(sketch, first + i)))
			return false;
	}
	(void) sum_subtable(sketch, first, &sums);
	*word = XXH3_64bits(sums.field, sketch->fields * sizeof *sums.field);
	return (uint32_t) sums.count == (uint32_t) sketch->rows;
}

int
iblt_core_agreeing(const IbltSketch *sketch, unsigned among, unsigned *groups)
{
	uint64_t	word[IBLT_MAX_HASHES];
	unsigned	left = 0;
	uint32_t	first = 0;
	int			n = 0;
	int			i;
	int			j;

	for (i = 0; i < sketch->params.hashes && sketch->ncells > 0; i++)
	{
		if ((sketch->params.subtables >> i & 1) == 0)
			continue;
		if ((among >> i & 1) != 0 && subtable_sums(sketch, first, &word[i]))
			left |= 1U << i;
		first += sketch->params.subtable_cells;
	}
	for (i = 0; i < sketch->params.hashes; i++)
	{
		unsigned	group = 0;

		if ((left >> i & 1) == 0)
			continue;
		for (j = i; j < sketch->params.hashes; j++)
			if ((left >> j & 1) != 0 && word[j] == word[i])
				group |= 1U << j;
		left &= ~group;
		/* its place is behind those that are not smaller */
		for (j = n++; j > 0 && iblt_mask_count(groups[j - 1]) < iblt_mask_count(group); j--)
			groups[j] = groups[j - 1];
		groups[j] = group;
	}
	return n;
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

		iblt_check_interrupts_at(i);
		if (count < 0)
			return false;
		sum += (uint64_t) count;
	}
	/* at most 2^27 counts of 31 bits, so the sum itself does not wrap */
	return sketch->rows >= 0 && sum % subtables == 0 &&
		sum / subtables == (uint64_t) sketch->rows;
}

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
