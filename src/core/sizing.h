/*
 * sizing.h
 *		How many cells decode how many differences, and with what certainty.
 *
 * A sketch has k subtables ("hashes") of s cells each.  Every key lies in one
 * uniformly random cell of each subtable.  Peeling removes keys that are alone
 * in some cell, as long as there are any.  A sketch decodes if peeling removes
 * all keys.  What counts is the number of distinct keys left in a sketch after
 * subtraction, not the number of rows.
 *
 * The answers come from a table, sizing_table.h, that `make sizing-table`
 * computes by simulation.  doc/internals/mathematics.md says how, and how far each
 * number can be trusted.  The table holds the largest number of keys for each
 * k, for each subtable size on the ladder and for a few failure probabilities.
 *
 * The ladder is the set of allowed subtable sizes: the divisors of
 * 2^24 * 3^2 * 5 * 7 that are at most 2^24.  From 14 upward neighbours differ
 * by a factor of 7/6 at most, and most sizes have many divisors to fold to.
 *
 * Nothing here takes memory, fails, or depends on anything but its arguments.
 */
#ifndef IBLT_CORE_SIZING_H
#define IBLT_CORE_SIZING_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The casts matter if constants have more precision than a double (x87).
 * There (double) 0.1 is larger than 0.1.
 */

/* the probability of an incomplete decode that sizes are chosen for */
#define IBLT_DEFAULT_FAILURE ((double) 1e-4)

/* the range of `failure`, which is refused outside it */
#define IBLT_MIN_FAILURE ((double) 1e-5)
#define IBLT_MAX_FAILURE ((double) 1e-1)

/* the largest subtable size on the ladder, in cells */
#define IBLT_LADDER_MAX (UINT32_C(1) << 24)

/*
 * The smallest allowed subtable size, in cells, with which `capacity` keys (or
 * fewer) decode with a probability of failure of at most `failure`.  The whole
 * sketch has `hashes` times as many cells.
 *
 * Returns 0, which is not a size, if `capacity` is 0 or larger than any size
 * on the ladder can decode, `hashes` is not in 3..8, or `failure` is not in
 * IBLT_MIN_FAILURE..IBLT_MAX_FAILURE.  A failure probability between those in
 * the table (1e-2, 1e-3, 1e-4 and 1e-5) counts as the next smaller one.
 *
 * A larger capacity or a smaller failure probability never gives fewer cells.
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
 * The smallest allowed subtable size that is at least s, and 1 for s = 0.
 * Returns 0 if s is above IBLT_LADDER_MAX.
 */
extern uint32_t iblt_core_ladder_at_least(uint32_t s);

/*
 * The smallest size of at least `least` cells that subtables of `cells` cells
 * can be folded to.  That is cells itself if there is no smaller one, and 0 if
 * least > cells.
 */
extern uint32_t iblt_core_fold_cells(uint32_t cells, uint32_t least);

#endif							/* IBLT_CORE_SIZING_H */
