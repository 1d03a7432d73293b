/*
 * kbf_size.h
 *		How often a key-value Bloom filter fails, and how large it has to be.
 *
 * Let the load be the number of keys divided by the cells of a subtable.  The
 * other keys in a key's cell are Poisson distributed with this mean.  The field
 * elements in a cell are independent and uniform, because each key turns its
 * value.  The formulas count the cells of a key by what they say, and the wrong
 * values that all of them leave.
 *
 * The paper's formula for the failures of keys in the filter counts the key
 * itself as one of the others, and leaves out equal values.  This one does
 * neither.
 *
 * The rates depend on the machine's mathematical library in the last digits.
 * They are for people to read.  Nothing that is stored may depend on them.
 *
 * Sizes come from a table, kbf_size_table.h, that `make kbf-sizing-table`
 * computes and checks by simulation.  doc/kbf/kbf.md describes how.  The
 * rest is arithmetic of integers.  So all machines choose the same parameters,
 * and filters of the same arguments can be added.
 *
 * A size keeps the rate of false positives at a hundredth of that of unknown
 * keys, because a false positive cannot be noticed.
 */
#ifndef IBLT_CORE_KBF_SIZE_H
#define IBLT_CORE_KBF_SIZE_H

#include "kbf.h"

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

/* What to expect of a look-up. */
typedef struct IbltKbfRates
{
	double		unknown;		/* a key in the filter is unknown */
	double		false_positive; /* a key not in the filter gets a value */
	double		absent_unknown; /* a key not in the filter is unknown */
} IbltKbfRates;

/*
 * The rates of a filter with this load.  Only the codes' parameters, the number
 * of values and that of hashes matter.
 */
extern void iblt_core_kbf_rates(const IbltKbfParams *params, double load,
								IbltKbfRates *rates);

/*
 * The chance that a key that is not in the filter gets a value because it has
 * two cells or more in common with one of the keys.  It adds to the rate of
 * false positives, which takes the cells as independent.  In subtables of more
 * than 1,000 cells it does not matter.
 */
extern double iblt_core_kbf_shared(const IbltKbfParams *params, double keys,
								   double subtable_cells);

#endif
