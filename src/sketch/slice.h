/*-------------------------------------------------------------------------
 *
 * slice.h
 *	  A few bytes of a stored value, without fetching all of it.
 *
 * A value that TOAST keeps out of line and not compressed is in chunks of some
 * 2,000 bytes, which have an index.  A slice of it costs the look-up of one or
 * two chunks, whatever the size of the value.  A function that needs a header
 * and a few cells calls
 *
 *		iblt_slices_open(&slices, PG_GETARG_DATUM(0));
 *		head = iblt_slices_get(&slices, 0, Min(slices.size, 40));
 *		cell = iblt_slices_get(&slices, offset, offset + 8);
 *
 * Any other value is taken as a whole: one in memory as it is, without a copy,
 * and a compressed one decompressed.  So is one of few chunks, for which
 * slices would cost more.
 *
 * The bytes are as they are stored.  Nothing here validates them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_SKETCH_SLICE_H
#define IBLT_SKETCH_SLICE_H

#include "postgres.h"

/* A value that is read in slices. */
typedef struct IbltSlices
{
	Datum		value;			/* as given */
	size_t		size;			/* bytes of the value, without varlena header */
	const uint8 *whole;			/* all of them, or NULL if slices are fetched */
} IbltSlices;

/* Bytes that the first slice should have, because they cost no more. */
#define IBLT_SLICE_FIRST	((size_t) 1900)

/*
 * Begins to read a datum of a varlena type.  The slices are valid as long as
 * the datum and CurrentMemoryContext are.
 */
extern void iblt_slices_open(IbltSlices *slices, Datum value);

/*
 * The bytes [from, to) of the value, to be read only.  They may have any
 * alignment.  The caller must not ask beyond slices->size.  ERROR if TOAST
 * does not have them.
 */
extern const uint8 *iblt_slices_get(const IbltSlices *slices, size_t from,
									size_t to);

/*
 * The first bytes of the value, with its whole header as far as it is there,
 * and their number.  header_size tells the header's size from its first
 * IBLT_SLICE_FIRST bytes.
 */
extern const uint8 *iblt_slices_header(const IbltSlices *slices,
									   size_t (*header_size) (const uint8 *bytes),
									   size_t *size);

#endif							/* IBLT_SKETCH_SLICE_H */
