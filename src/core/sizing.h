/*
 * sizing.h
 *		How many cells decode how many differences, and with what certainty.
 *
 * A sketch has k subtables ("hashes") of s cells each.  Every key lies in one
 * uniformly random cell of each subtable.  A sketch decodes when peeling, that
 * is removing keys which are alone in some cell for as long as there are any,
 * removes them all.  The number of distinct keys left in a sketch after
 * subtraction is what counts, not the number of rows.
 *
 * The answers come from a table, sizing_table.h, that `make sizing-table`
 * computes by simulation; test/sim/sizing.c says how, and how far each number
 * can be trusted.  The table holds, for each k, for each subtable size on the
 * ladder and for a few failure probabilities, the largest number of keys.
 *
 * The ladder is the set of allowed subtable sizes: the divisors of
 * 2^24 * 3^2 * 5 * 7 that are at most 2^24.  Neighbours from 14 upward differ
 * by a factor of 7/6 at most, and most sizes have many divisors to fold to.
 *
 * Nothing here takes memory, fails, or depends on anything but its arguments.
 */
#ifndef IBLT_CORE_SIZING_H
#define IBLT_CORE_SIZING_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The casts matter where constants have more precision than a double (x87):
 * there (double) 0.1 is larger than 0.1.
 */

/* the probability of an incomplete decode that sizes are chosen for */
#define IBLT_DEFAULT_FAILURE ((double) 1e-4)

/* the range of `failure`; a value outside it is refused */
#define IBLT_MIN_FAILURE ((double) 1e-5)
#define IBLT_MAX_FAILURE ((double) 1e-1)

/* the largest subtable size on the ladder, in cells */
#define IBLT_LADDER_MAX (UINT32_C(1) << 24)

/*
 * The smallest allowed subtable size, in cells, with which `capacity` keys (or
 * fewer) decode with a probability of failure of at most `failure`.  The whole
 * sketch has `hashes` times as many cells.
 *
 * Returns 0, which is no size, when `capacity` is 0 or larger than any size on
 * the ladder can decode, `hashes` is not in 3..8, or `failure` is not in
 * IBLT_MIN_FAILURE..IBLT_MAX_FAILURE.  A failure probability between those
 * tabulated (1e-2, 1e-3, 1e-4 and 1e-5) is taken as the next stricter one.
 *
 * More capacity never gives fewer cells, nor does a smaller failure.
 */
extern uint32_t iblt_core_subtable_cells(uint32_t capacity, int hashes,
										 double failure);

/*
 * The inverse: the largest number of distinct keys that `hashes` subtables of
 * `subtable_cells` cells decode with a probability of failure of at most
 * `failure`.  A size between two on the ladder counts as the lower one.
 *
 * Returns 0 when `subtable_cells` is 0 or above IBLT_LADDER_MAX, or `hashes`
 * or `failure` is refused as above.  One key always decodes, so that 0 means
 * nothing else.
 *
 * For every c, s, k, f that is not refused,
 *		iblt_core_capacity(iblt_core_subtable_cells(c, k, f), k, f) >= c and
 *		iblt_core_subtable_cells(iblt_core_capacity(s, k, f), k, f) <= s.
 */
extern uint32_t iblt_core_capacity(uint32_t subtable_cells, int hashes,
								   double failure);

/*
 * Is s an allowed subtable size?
 */
extern bool iblt_core_ladder_has(uint32_t s);

/*
 * The smallest allowed subtable size that is at least s; 1 for s = 0.  Returns
 * 0 when s is above IBLT_LADDER_MAX.
 */
extern uint32_t iblt_core_ladder_at_least(uint32_t s);

#endif							/* IBLT_CORE_SIZING_H */
