/*
 * get_size.h
 *		How often looking up a key succeeds, and how many cells that takes.
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
#ifndef IBLT_CORE_GET_SIZE_H
#define IBLT_CORE_GET_SIZE_H

#include "sketch.h"

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
