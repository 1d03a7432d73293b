/*
 * sizing.c
 *		How many cells decode how many differences: a table lookup.
 *
 * Contracts are in sizing.h.  Each row of the table holds the capacities of
 * one k and one failure probability in the order of the ladder, and never
 * decreases along it.  So both directions are one binary search, and are
 * inverse to each other whatever the numbers are.
 */
#include "sizing.h"

#include <stddef.h>

#include "sizing_table.h"

#define LADDER_PRODUCT UINT64_C(5284823040) /* 2^24 * 3^2 * 5 * 7 */

/*
 * The first index of an ascending array whose element is at least x, or n.
 */
static int
lower_bound(const uint32_t *array, int n, uint32_t x)
{
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (array[middle] < x)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The row of the table for k and a failure probability, or NULL if refused. */
static const uint32_t *
capacity_row(int hashes, double failure)
{
	int			column = 0;

	if (hashes < SIZING_MIN_HASHES || hashes > SIZING_MAX_HASHES)
		return NULL;
	/* written so that NaN is refused */
	if (!(failure >= IBLT_MIN_FAILURE && failure <= IBLT_MAX_FAILURE))
		return NULL;
	while (column < SIZING_FAILURES - 1 && sizing_failure[column] > failure)
		column++;
	return sizing_capacity[hashes - SIZING_MIN_HASHES][column];
}

uint32_t
iblt_core_subtable_cells(uint32_t capacity, int hashes, double failure)
{
	const uint32_t *row = capacity_row(hashes, failure);
	int			i;

	if (row == NULL || capacity == 0)
		return 0;
	i = lower_bound(row, SIZING_LADDER_SIZES, capacity);
	return i < SIZING_LADDER_SIZES ? sizing_ladder[i] : 0;
}

uint32_t
iblt_core_capacity(uint32_t subtable_cells, int hashes, double failure)
{
	const uint32_t *row = capacity_row(hashes, failure);

	if (row == NULL || subtable_cells == 0 || subtable_cells > IBLT_LADDER_MAX)
		return 0;
	/* the last size that is below subtable_cells + 1 */
	return row[lower_bound(sizing_ladder, SIZING_LADDER_SIZES,
						   subtable_cells + 1) - 1];
}

bool
iblt_core_ladder_has(uint32_t s)
{
	return s >= 1 && s <= IBLT_LADDER_MAX && LADDER_PRODUCT % s == 0;
}

uint32_t
iblt_core_ladder_at_least(uint32_t s)
{
	if (s > IBLT_LADDER_MAX)
		return 0;
	return sizing_ladder[lower_bound(sizing_ladder, SIZING_LADDER_SIZES, s)];
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
