/*
 * sums.h
 *		What can be told of a whole sketch without decoding it.
 *
 * A row adds the same terms to one cell of each subtable.  So whatever rows went
 * in or out, the sum of a field over a subtable is the same for all subtables,
 * and the sum of the counts is the number of rows.
 */
#ifndef IBLT_CORE_SUMS_H
#define IBLT_CORE_SUMS_H

#include "sketch.h"

typedef enum IbltSums
{
	IBLT_SUMS_AGREE,
	IBLT_SUMS_WRAPPED,			/* but for counts, modulo 2^32: a fold of more
								 * rows than its counts can hold, or none */
	IBLT_SUMS_CONTRADICT		/* no rows make this sketch */
} IbltSums;

/*
 * Do header and cells contradict each other in a way that takes no decoding to
 * see?  They do where sums differ, and where all cells are zero and the number
 * of rows or the meter is not.  The sketch must be sealed.
 *
 * The validator does not ask this: the even cells of a sketch (fold.h) are bytes
 * of a sketch whose sums differ.
 */
extern IbltSums iblt_core_sums(const IbltSketch *sketch);

/*
 * Do the counts of a sketch, or of all strata together, tell the true numbers?
 * That cannot be seen of any sketch, but of one into which rows were inserted
 * and from which only such rows were deleted: no true count is negative, so
 * where one wrapped, a count is negative or their sum is too small.
 */
extern bool iblt_core_inserted_fit(const IbltSketch *sketch);

#endif
