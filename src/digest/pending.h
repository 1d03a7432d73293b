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

#include "utils/snapshot.h"

#include "digest/collection.h"

/* Has the end of transactions and savepoints noticed.  To be called once. */
extern void iblt_pending_register(void);

/* Records one change.  Flags as in collection.h. */
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
