/*
 * kbf_size.h
 *		How large a key-value Bloom filter has to be.
 *
 * The answers come from a table, kbf_size_table.h, that `make kbf-sizing-table`
 * computes and checks by simulation.  test/sim/kbf_sizing.c describes how.  The
 * rest is arithmetic of integers.  So all machines choose the same parameters,
 * and filters of the same arguments can be added.
 *
 * A size keeps the rate of false positives at a hundredth of that of unknown
 * keys, because a false positive cannot be noticed.
 */
#ifndef IBLT_CORE_KBF_SIZE_H
#define IBLT_CORE_KBF_SIZE_H

#include "kbf.h"
#include "kbf_rates.h"

/* The range of `failure`.  For the casts see sizing.h. */
#define IBLT_KBF_MIN_FAILURE ((double) 1e-6)
#define IBLT_KBF_MAX_FAILURE ((double) 1e-1)

/* Failures for each false positive. */
#define IBLT_KBF_FALSE_POSITIVE_SHARE 100

/*
 * Subtables have at least so many cells.  They also have enough that the chance
 * of a key to have all cells in common with one of the others is below a part
 * of the rate of false positives.
 */
#define IBLT_KBF_LEAST_CELLS	32
#define IBLT_KBF_APART			4	/* that part is one by this */

/*
 * Chooses degree, hashes and subtable_cells for `capacity` keys, from values
 * and superposed in params, so that the filter takes the fewest bits.  At that
 * number of keys at most `failure` of the keys in the filter are unknown, and
 * at most a hundredth of that of other keys get a value.  Does not touch the
 * other parameters.  A number of cells above 127 has at least one factor 2 for
 * each doubling, so that it can be folded.
 *
 * A failure between those in the table (1, 2 and 5 times a power of ten) counts
 * as the next smaller one, and a number of values as the next 2^n - 1.  A larger
 * capacity never gives fewer bits.
 *
 * Returns IBLT_BAD_VALUES if values is not 1 to 4095 or superposed not 1 to 3,
 * and IBLT_BAD_CELLS if capacity is 0, failure is not in IBLT_KBF_MIN_FAILURE
 * .. IBLT_KBF_MAX_FAILURE or no filter is large enough.
 */
extern IbltStatus iblt_core_kbf_choose(IbltKbfParams *params,
									   uint64_t capacity, double failure);

#endif
