/*
 * salvage.h
 *		A damaged sketch from the subtables that are left.
 *
 * Goodrich & Mitzenmacher list the keys of a table that has lost subblocks from
 * those that are left.  Each key that is listed says what the lost cells had.
 * So once all keys are listed, the sketch can be put together again, and its own
 * checksum proves that it is what it was.
 *
 * The keys need not be all those of the sketch.  With an undamaged sketch of
 * nearly the same rows, those by which they differ are enough.
 */
#ifndef IBLT_CORE_SALVAGE_H
#define IBLT_CORE_SALVAGE_H

#include "cell.h"

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
