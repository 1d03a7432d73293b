/*
 * decode.h
 *	  A sketch decoded key by key, and the verdict on the result.
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
