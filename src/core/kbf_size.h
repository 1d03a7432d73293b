/*
 * kbf_size.h
 *		How large a key-value Bloom filter has to be, and how often it fails.
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
 */
#ifndef IBLT_CORE_KBF_SIZE_H
#define IBLT_CORE_KBF_SIZE_H

#include "kbf.h"

/*
 * Sizes keep the rate of false positives this much below that of unknown keys,
 * because a false positive cannot be noticed.
 */
#define IBLT_KBF_FALSE_POSITIVE_SHARE ((double) 0.01)

/*
 * The formulas take the cells of a key as independent, which they are not quite
 * for small fields and for few cells.  So sizes aim at this part of the failure.
 * Subtables have at least so many cells.  They also have enough that the chance
 * of a key to have all cells in common with one of the others is below the rate
 * of false positives.
 */
#define IBLT_KBF_MARGIN			((double) 0.8)
#define IBLT_KBF_LEAST_CELLS	32

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
 * The largest load at which at most `failure` of the keys in the filter are
 * unknown, and at most IBLT_KBF_FALSE_POSITIVE_SHARE of that of other keys get
 * a value.  0 if there is none.
 */
extern double iblt_core_kbf_load(const IbltKbfParams *params, double failure);

/*
 * Chooses degree, hashes and subtable_cells for `capacity` keys, from values
 * and superposed in params, so that the filter takes the fewest bits.  Does not
 * touch the other parameters.  A number of cells above 127 has at least one
 * factor 2 for each doubling, so that it can be folded.
 *
 * Returns IBLT_BAD_VALUES if values is not 1 to 4095 or superposed not 1 to 3,
 * and IBLT_BAD_CELLS if capacity is 0, failure is not in IBLT_MIN_FAILURE ..
 * IBLT_MAX_FAILURE or no filter is large enough.
 */
extern IbltStatus iblt_core_kbf_choose(IbltKbfParams *params,
									   uint64_t capacity, double failure);

#endif
