/*
 * kbf_rates.h
 *		How often a key-value Bloom filter fails, by a formula.
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
 * The results depend on the machine's mathematical library in the last digits.
 * They are for people to read.  Nothing that is stored may depend on them.
 */
#ifndef IBLT_CORE_KBF_RATES_H
#define IBLT_CORE_KBF_RATES_H

#include "kbf.h"

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
