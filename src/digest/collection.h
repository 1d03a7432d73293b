/*-------------------------------------------------------------------------
 *
 * collection.h
 *	  Changes of one tracked table in memory: a list, or a sketch once the list
 *	  would be larger than that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_DIGEST_COLLECTION_H
#define IBLT_DIGEST_COLLECTION_H

#include "sketch/iblt.h"

#include "lib/ilist.h"
#include "storage/itemptr.h"

/* Where changes go. */
typedef struct IbltTrackTarget
{
	Oid			relid;			/* the tracked table */
	Oid			store;			/* of its changes */
	IbltParams	params;			/* of its digest, typed */
	Size		most;			/* bytes of a list before it becomes a sketch */
} IbltTrackTarget;

typedef struct IbltCollection
{
	dlist_node	node;
	IbltTrackTarget target;
	int			level;			/* of nested transactions */
	CommandId	last;			/* of the last change */
	Oid			fence_file;		/* of the store, InvalidOid without a fence: a row
								 * that makes the digest not trustworthy, unless
								 * the transaction removes it again */
	ItemPointerData fence_row;
	const char *broken;			/* why the digest is not trustworthy, or NULL */
	MemoryContext context;		/* of all that follows */
	uint8	   *list;			/* packed changes (packed.h) that are not in
								 * the sketch */
	Size		used;
	Size		size;
	int32		number;			/* of changes */
	struct varlena *value;		/* of the sketch, or NULL */
	IbltSketch	sketch;
} IbltCollection;

/* An empty collection in context. */
extern IbltCollection *iblt_collection_make(const IbltTrackTarget *target,
											int level, MemoryContext context);
extern void iblt_collection_free(IbltCollection *collection);

/* Adds packed changes. */
extern void iblt_collection_add(IbltCollection *collection,
								const uint8 *bytes, Size size, int32 number);

/* From now on only the reason, a constant, counts. */
extern void iblt_collection_break(IbltCollection *collection,
								  const char *reason);

/*
 * Adds what an inner level of savepoints collected, which must not be used any
 * more.  Never fails.  Without memory, the outer collection is broken.
 */
extern void iblt_collection_absorb(IbltCollection *outer,
								   IbltCollection *inner);

/*
 * Adds a sketch of changes to one that may have fewer cells.  False if the sketch
 * does not take these changes.  Then it must not be used.
 */
extern bool iblt_collection_add_sketch(IbltSketch *sketch, const IbltSketch *changes);

/*
 * Puts all changes into the sketch of a collection that has one, and seals it.
 * Call it before the sketch is written.
 */
extern void iblt_collection_finish(IbltCollection *collection);

#endif							/* IBLT_DIGEST_COLLECTION_H */
