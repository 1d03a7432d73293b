/*
 * pending.h
 *	  The changes of tracked tables in this transaction, which are kept in
 *	  memory until it commits.
 *
 * There is one collection for each tracked table and level of savepoints.  It
 * is a list of changes, or a sketch once the list would be larger than that.
 * RELEASE merges a collection into the level above, and ROLLBACK TO drops it.
 * Before the transaction commits or is prepared, its changes go to the store,
 * as rows of the same transaction.
 */
#ifndef IBLT_DIGEST_PENDING_H
#define IBLT_DIGEST_PENDING_H

#include "sketch/iblt.h"

#include "lib/ilist.h"
#include "storage/itemptr.h"
#include "utils/snapshot.h"

#include "core/row.h"

/* collection.c: packed changes, and those of one tracked table */

/*
 * A change is packed as a byte of flags, the key (8 * limbs bytes) and the checksum of the old
 * row, of the new row, or of both, in little-endian order.
 */
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
	uint8	   *list;			/* packed changes that are not in the sketch */
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

/* pending.c */

/* Has the end of transactions and savepoints noticed.  To be called once. */
extern void iblt_pending_register(void);

/* Records one change.  Flags as above. */
extern void iblt_pending_add(const IbltTrackTarget *target, unsigned flags,
							 const uint8 *key, uint64 old_sum,
							 uint64 new_sum);

/* Records that the digest is no longer trustworthy.  Reason is a constant. */
extern void iblt_pending_break(const IbltTrackTarget *target,
							   const char *reason);

/*
 * Adds this transaction's own changes of a table to a sketch, for a reader
 * with this snapshot.  Sets added if there are any.  Returns why it cannot, or NULL: the reason of
 * iblt_pending_break.  ERROR if changes are newer than the snapshot.
 */
extern const char *iblt_pending_apply(Oid relid, Snapshot snapshot,
									  IbltSketch *sketch, bool *added);

/* A worker merges a table that has this number of changes. */
#define IBLT_MERGE_CHANGES	10000

/*
 * This session saw a table with so many changes that are not merged.  Starts a
 * worker if that is enough.
 */
extern void iblt_launch_saw(int64 changes);

#endif							/* IBLT_DIGEST_PENDING_H */
