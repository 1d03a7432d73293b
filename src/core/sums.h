/*
 * sums.h
 *		What a whole sketch tells without decoding, and a damaged one put
 *		together again.
 *
 * A row adds the same terms to one cell of each subtable.  So whatever rows
 * were added or removed, the sum of a field over a subtable is the same for
 * all subtables, and the sum of the counts is the number of rows.
 *
 * Goodrich & Mitzenmacher list the keys of a table that has lost subblocks from
 * those that are left.  Each key that is listed says what the lost cells had.
 * So once all keys are listed, the sketch can be put together again, and its own
 * checksum proves that it is what it was.
 *
 * The keys need not be all those of the sketch.  With an undamaged sketch of
 * nearly the same rows, those by which they differ are enough.
 */
#ifndef IBLT_CORE_SUMS_H
#define IBLT_CORE_SUMS_H

#include "cell.h"

typedef enum IbltSums
{
	IBLT_SUMS_AGREE,
	IBLT_SUMS_WRAPPED,			/* counts agree only modulo 2^32: a fold of
								 * more rows than its counts can hold, or no
								 * rows make this sketch */
	IBLT_SUMS_CONTRADICT		/* no rows make this sketch */
} IbltSums;

/*
 * Do header and cells contradict each other in a way that shows without
 * decoding?  They do if sums differ.  They also do if all cells are zero, and
 * the number of rows or the meter is not.  The sketch must be sealed.
 *
 * The validator does not check this, because the even cells of a sketch
 * (cell.h) form a sketch whose sums differ.
 */
extern IbltSums iblt_core_sums(const IbltSketch *sketch);

/*
 * Puts the subtables of a damaged sketch, as far as they are in the mask
 * `among`, into groups whose sums agree.  Each group is a mask, and its counts
 * add up to the number of rows.  Subtables with a field that is none are left
 * out.  The largest group comes first, and of equal ones the one with the first
 * subtable.  Returns the number of groups, at most IBLT_MAX_HASHES.
 *
 * A group need not be undamaged: cells that changed places leave the sums as
 * they were, and so does a whole subtable of another time.
 */
extern int	iblt_core_agreeing(const IbltSketch *sketch, unsigned among,
							   unsigned *groups);

/*
 * Are the counts of a sketch, or of all strata together, the true numbers?
 * This can be answered only if rows were inserted and only such rows were
 * deleted.  Then no true count is negative, so if one wrapped, a count is
 * negative or their sum is too small.
 */
extern bool iblt_core_inserted_fit(const IbltSketch *sketch);

/*
 * Makes `whole`, a copy of a damaged sketch, ready for iblt_core_salvage_key:
 * the lost subtables, a mask, get the cells of `other`, or zeros if it is NULL.
 * The parameters of both must be the same.
 */
extern void iblt_core_salvage_start(IbltSketch *whole, unsigned lost,
									const IbltSketch *other);

/* Adds the rows of one key to the lost subtables. */
extern void iblt_core_salvage_key(IbltSketch *whole, unsigned lost,
								  const IbltEntry *entry);

/*
 * Is the sketch, after the last key, what was sealed once?  Seals it.  False
 * also if the damage is in the header or in the checksum.  A sketch that is not
 * what it was passes with probability 2^-64.
 */
extern bool iblt_core_salvage_proven(IbltSketch *whole);

#endif
