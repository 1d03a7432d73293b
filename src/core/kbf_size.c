/*
 * kbf_size.c
 *		How large a key-value Bloom filter has to be: a table look-up.
 */
#include "kbf_size.h"

#include "kbf_size_table.h"

/* Does base^exponent reach n? */
static bool
power_reaches(uint64_t base, int exponent, uint64_t n)
{
	uint64_t	power = 1;

	for (; exponent > 0; exponent--)
	{
		if (power > UINT64_MAX / base)
			return true;
		power *= base;
	}
	return power >= n;
}

/* The least number from 1 whose power reaches n, which that of the limit does. */
static uint32_t
root_above(uint64_t n, int exponent)
{
	uint32_t	low = 1;
	uint32_t	high = IBLT_KBF_MAX_CELLS;

	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (power_reaches(middle, exponent, n))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/*
 * The least number of cells of a subtable, with seven significant bits, or 0.
 * The products do not overflow: capacity is below 2^27, and apart below 2^29.
 */
static uint32_t
cells_for(uint64_t capacity, const KbfSize *size, int hashes, uint32_t apart)
{
	uint64_t	cells = (capacity * KBF_SIZE_ONE + size->load - 1) / size->load +
		size->extra;
	uint32_t	least = root_above(capacity * apart, hashes);
	uint32_t	step = 1;

	if (cells < least)
		cells = least;
	if (cells < IBLT_KBF_LEAST_CELLS)
		cells = IBLT_KBF_LEAST_CELLS;
	if (cells > IBLT_KBF_MAX_CELLS)
		return 0;
	while (cells / step > 127)
		step *= 2;
	return (uint32_t) ((cells + step - 1) / step * step);
}

/* Tries all numbers of hashes, and keeps what takes the fewest bits. */
static IbltStatus
choose_hashes(IbltKbfParams *params, const KbfSize *row, uint64_t capacity,
			  uint32_t apart)
{
	uint64_t	fewest = UINT64_MAX;
	int			hashes;

	for (hashes = KBF_SIZE_MIN_HASHES; hashes <= KBF_SIZE_MAX_HASHES; hashes++)
	{
		const KbfSize *size = &row[hashes - KBF_SIZE_MIN_HASHES];
		uint32_t	cells;
		uint64_t	bits;

		if (size->load == 0)
			continue;
		cells = cells_for(capacity, size, hashes, apart);
		bits = (uint64_t) cells * (unsigned) hashes *
			(unsigned) (IBLT_KBF_COUNTER_BITS + size->degree * params->superposed);
		if (cells == 0 || bits >= fewest)
			continue;
		fewest = bits;
		params->hashes = hashes;
		params->degree = size->degree;
		params->subtable_cells = cells;
	}
	return fewest == UINT64_MAX ? IBLT_BAD_CELLS : IBLT_OK;
}

IbltStatus
iblt_core_kbf_choose(IbltKbfParams *params, uint64_t capacity, double failure)
{
	int			column = 0;
	int			bits = 1;

	if (params->values < 1 || params->values > gf_values(IBLT_GF_MAX_DEGREE) ||
		params->superposed < 1 || params->superposed > IBLT_GF_MAX_TERMS)
		return IBLT_BAD_VALUES;
	/* written so that NaN is refused */
	if (!(failure >= IBLT_KBF_MIN_FAILURE && failure <= IBLT_KBF_MAX_FAILURE))
		return IBLT_BAD_CELLS;
	if (capacity == 0 || capacity >= (UINT64_C(1) << 27))
		return IBLT_BAD_CELLS;
	while (column < KBF_SIZE_FAILURES - 1 && kbf_size_failure[column] > failure)
		column++;
	while (params->values > gf_values(bits))
		bits++;
	return choose_hashes(params,
						 kbf_size[column][params->superposed - 1][bits - 1],
						 capacity, kbf_size_apart[column]);
}
