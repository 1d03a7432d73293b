/*-------------------------------------------------------------------------
 *
 * entry.h
 *	  What a trigger needs to know about its table, cached for each trigger of a
 *	  table or partition, and how it turns a row into a key and a checksum.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_DIGEST_ENTRY_H
#define IBLT_DIGEST_ENTRY_H

#include "digest/pending.h"

#include "executor/tuptable.h"
#include "lib/stringinfo.h"
#include "utils/rel.h"

#include "codec/checksum.h"
#include "codec/codec.h"

typedef struct IbltTrackEntry
{
	Oid			trigger;		/* the hash key */
	Oid			relid;			/* its table or partition */
	bool		valid;			/* false once the catalogs may have changed */
	bool		tracked;
	bool		guarded;		/* reading a row runs functions that are not
								 * built in */
	bool		reading;		/* a guarded function is reading a row */
	const char *problem;		/* why rows cannot be read, or NULL */
	MemoryContext context;		/* of all that follows */
	IbltTrackTarget target;
	int			nkeys;
	int			ncolumns;
	AttrNumber *numbers;		/* of the keys, then of the columns */
	bool	   *varlena;		/* can a value be out of line?  Like numbers */
	AttrNumber	last;			/* the highest number */
	NullableDatum *values;		/* working space, like numbers */
	IbltRowHash *row_hash;
	IbltRowHash *key_hash;		/* NULL if keys are kept as they are */
	Oid			key_type;		/* of a single key column, below domains */
	IbltCodec **key_codecs;
	StringInfoData key;
} IbltTrackEntry;

/* A row as a change has it. */
typedef struct IbltTrackRow
{
	uint8		key[8 * IBLT_MAX_LIMBS];
	uint64		sum;
} IbltTrackRow;

/*
 * The entry of a trigger that has fired, valid until the next call.  NULL if no
 * digest relies on it.
 */
extern IbltTrackEntry *iblt_entry_find(FunctionCallInfo fcinfo);

/*
 * Reads a row.  Returns why it cannot be recorded, or NULL.  Raises errors
 * only for a cancelled statement and the like.
 */
extern const char *iblt_entry_read(IbltTrackEntry *entry,
								   TupleTableSlot *slot, IbltTrackRow *row);

#endif							/* IBLT_DIGEST_ENTRY_H */
