/*-------------------------------------------------------------------------
 *
 * show.h
 *	  Keys and values of a sketch as columns of a result.
 *
 * Each is shown as text, or as a type that the caller asks for.  That type must
 * be the sketch's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_SKETCH_SHOW_H
#define IBLT_SKETCH_SHOW_H

#include "sketch/iblt.h"

#include "sketch/key.h"

/* How one column is shown. */
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

/* A key of the sketch. */
extern Datum iblt_show_key(const IbltShown *shown, const IbltSketch *sketch,
						   const IbltEntry *entry);

/* The value of all rows of a key.  Sets isnull if there is no such value. */
extern Datum iblt_show_value(const IbltShown *shown, const IbltSketch *sketch,
							 const IbltEntry *entry, bool *isnull);

#endif							/* IBLT_SKETCH_SHOW_H */
