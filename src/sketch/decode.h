/*-------------------------------------------------------------------------
 *
 * decode.h
 *	  A sketch decoded key by key, the verdict on the result, and keys and
 *	  values as columns of a result.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_SKETCH_DECODE_H
#define IBLT_SKETCH_DECODE_H

#include "sketch/iblt.h"

#include "sketch/key.h"

/* A decoding in progress. */
typedef struct IbltDecoding
{
	IbltSketch	original;		/* as given, not changed */
	IbltSketch	work;			/* the copy that is peeled */
	IbltPeeler *peeler;
} IbltDecoding;

/* How a decoding ended, and how large the difference is. */
typedef struct IbltVerdict
{
	bool		complete;
	uint32		recovered;		/* keys */
	uint64		rows;			/* estimate of those that differ */
	uint64		keys;			/* estimate of those that differ */
	uint64		bound;			/* bound of the keys, with 99 % certainty */
	uint32		capacity;		/* of the sketch, or 0 if it has none */
	uint64		recommended;	/* capacity to use */
} IbltVerdict;

/*
 * Begins to decode decoding->original, which is open, in a copy.
 * iblt_core_peel_next gives the keys.
 */
extern void iblt_decoding_start(IbltDecoding *decoding);

/*
 * Judges a decoding after its last key.  ERROR if header and cells contradict
 * each other.
 */
extern void iblt_decoding_finish(IbltDecoding *decoding, IbltVerdict *verdict);

/*
 * How one column is shown: as text, or as a type that the caller asks for.  That
 * type must be the sketch's.
 */
typedef struct IbltShown
{
	IbltKeyCoder *coder;		/* NULL for values of a sketch without values */
	bool		as_text;
	FmgrInfo	output;			/* if as text */
} IbltShown;

/*
 * Shows keys, or values, as a type, or as text for InvalidOid.  The coder of a
 * type is kept for the next call of the function, except for that of an
 * anonymous row.
 */
extern void iblt_show(IbltShown *shown, FunctionCallInfo fcinfo, Oid type,
					  const IbltParams *params, bool of_value);

/* The value of all rows of a key.  Sets isnull if there is no such value. */
extern Datum iblt_show_value(const IbltShown *shown, const IbltSketch *sketch,
							 const IbltEntry *entry, bool *isnull);

/*
 * Decodes an open sketch into the result of a function that returns the rows of
 * iblt_decode.  If key_type is InvalidOid, keys and values are shown as text.
 * ERROR if header and cells contradict each other.
 */
extern void iblt_decode_into(FunctionCallInfo fcinfo, const IbltSketch *sketch,
							 Oid key_type, Oid value_type,
							 IbltVerdict *verdict);

/*
 * A number of rows as bigint, or the largest bigint.  A sketch that is added to
 * itself again and again can exceed it.
 */
extern Datum iblt_rows_datum(uint64 rows);

#endif							/* IBLT_SKETCH_DECODE_H */
