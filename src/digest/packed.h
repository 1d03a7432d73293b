/*-------------------------------------------------------------------------
 *
 * packed.h
 *	  Changes of rows as bytes, one after the other.
 *
 * A change is a byte of flags, the key (8 * limbs bytes) and the checksum of
 * the old row, of the new row, or of both, in little-endian order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_DIGEST_PACKED_H
#define IBLT_DIGEST_PACKED_H

#include "sketch/iblt.h"

#include "core/row.h"

#define IBLT_CHANGE_OLD		1
#define IBLT_CHANGE_NEW		2

/* Writes one change and returns the end of it. */
extern uint8 *iblt_packed_put(uint8 *out, unsigned flags, unsigned limbs,
							  const uint8 *key, uint64 old_sum,
							  uint64 new_sum);

/*
 * Reads changes: adds them to a sketch whose keys have the same size, or only
 * counts them if that is NULL.  It does not wait for cells that are not in the
 * processor's cache (core/row.h).
 */
typedef struct IbltApplier
{
	IbltSketch *sketch;
	unsigned	limbs;			/* of a key */
	int64		rows;			/* inserted less deleted */
	const IbltRowAdder *adder;	/* NULL if the sketch is not plain */
	IbltQueue	queue;
} IbltApplier;

extern void iblt_applier_begin(IbltApplier *applier, IbltSketch *sketch,
							   unsigned limbs);

/*
 * Returns the number of changes.  -1 if the bytes are malformed, or a row cannot
 * be kept in the sketch, which may be a template.  Then it must not be used.
 */
extern int64 iblt_applier_add(IbltApplier *applier, const uint8 *bytes,
							  Size size);

/* Call it before the cells of the sketch are read. */
extern void iblt_applier_end(IbltApplier *applier);

/* iblt_applier_begin(), iblt_applier_add() and iblt_applier_end(). */
extern int64 iblt_packed_apply(IbltSketch *sketch, const uint8 *bytes,
							   Size size);

/* As many whole changes from the front as take at most `most` bytes. */
extern Size iblt_packed_prefix(const uint8 *bytes, Size size, unsigned limbs,
							   Size most);

#endif							/* IBLT_DIGEST_PACKED_H */
