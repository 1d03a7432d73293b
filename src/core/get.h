/*
 * get.h
 *		One key looked up: the GET of Goodrich & Mitzenmacher.
 *
 * A key is in one cell of each subtable, so looking it up takes k cells of a
 * sketch of any size.  They tell that the key is present if one of them holds
 * only its rows.  They tell that it is absent if one of them is empty, or holds
 * only another key.  If each of them holds several keys, they tell nothing.
 *
 * A key that is there is found if it is alone in one of its cells.  With n keys
 * in subtables of s cells, another key is not in a given cell with probability
 * 1 - 1/s.  So the key is alone there with probability (1 - 1/s)^(n-1), and is
 * found in one of k subtables with 1 - (1 - (1 - 1/s)^(n-1))^k.  (Goodrich &
 * Mitzenmacher 2011 have 1 - k/m, for k different cells out of m without
 * subtables.)  It is 99 % at about 10 cells a key, while listing all keys takes
 * 1.3 to 1.7.
 *
 * Two servers must choose the same size, so sizes are computed with integers
 * alone.
 */
#ifndef IBLT_CORE_GET_H
#define IBLT_CORE_GET_H

#include "cell.h"

/* Gives cell i of a sketch, sealed, whose bytes are anywhere. */
typedef const uint8_t *(*IbltCellFetch) (const IbltSketch *sketch, uint32_t i,
										 void *source);

/*
 * Looks a key up in its own cells, until this many of them have told whether it
 * is there.  Fills entry, except its key, if it is.  entry->cell is one of
 * the cells.  A contradiction is one between them.  The view may be one of
 * iblt_core_open_header.
 *
 * All else is trusted.  Two cells that tell are enough, because they have
 * confirmed each other.  A count that is told may have wrapped if the sketch is
 * made of folds, and only if a key has more than 2^31 - 1 rows.
 */
extern IbltPresence iblt_core_get_cells(const IbltSketch *sketch,
										const uint8_t *key, int enough,
										IbltCellFetch fetch, void *source,
										IbltEntry *entry);

/*
 * Looks a key up in a whole sealed sketch, from all of its cells.  A
 * contradiction is also one that iblt_core_sums (sums.h) finds.  If counts may
 * have wrapped, the answer is IBLT_UNKNOWN.
 */
extern IbltPresence iblt_core_get(const IbltSketch *sketch,
								  const uint8_t *key, IbltEntry *entry);

/*
 * The probability that one of the keys of a sealed sketch is found as it is now,
 * however many rows each has.  It is estimated from the share of empty cells in
 * each subtable.
 */
extern double iblt_core_get_success_now(const IbltSketch *sketch);

/*
 * Chooses the number of hashes and the cells of a subtable with the fewest
 * cells in all, so that `capacity` keys are found with probability get_success
 * and listed with a probability of failure of at most `failure`.  *hashes is
 * given, or 0 to be chosen too.
 *
 * Returns the cells of a subtable.  Returns 0 if no size is large enough, or
 * get_success is not between 0 and 1, or iblt_core_subtable_cells refuses the
 * other arguments.
 */
extern uint32_t iblt_core_get_choose(uint32_t capacity, int *hashes,
									 double failure, double get_success);

#endif
