/*
 * pending.c
 *	  The changes of tracked tables in this transaction, and when a worker is
 *	  started that merges them.
 */
#include "digest/pending.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "digest/store.h"

/*
 * All of them, inner levels of savepoints first, and of a level the last used
 * first.  Changes are of the innermost level, and a level that ends is that
 * one.  So only its collections are looked at, however many levels there are.
 * They live in pending_context, which is empty between transactions.  It stays, because to make and delete it takes
 * longer than all else that is done in memory for one change.
 */
static dlist_head pending_all = DLIST_STATIC_INIT(pending_all);
static MemoryContext pending_context = NULL;

/* Have the changes of this transaction gone to the store already? */
static bool pending_flushed = false;

/*
 * Were our callbacks registered in this transaction?  Then they may not be
 * called before it commits.  This is so if another extension's callback loads
 * this library while the list of callbacks is walked.  There, a fence stands
 * for the changes in memory.  If they are lost, it stays.
 */
static bool registered_now = false;

/* What this transaction has written so far: so many changes, up to this block. */
static int64 written_changes = 0;
static BlockNumber written_block = 0;

/* --- when a worker is started ------------------------------------------------ */

/*
 * No shared memory is needed.  The number of a block that a transaction writes
 * to tells how full the store is, and each session counts its own changes.
 */

/* A store with more blocks than this has changes to merge, or needs vacuum. */
#define FULL_BLOCKS		100

/* A session starts a worker at most once in this time, in milliseconds. */
#define PAUSE_MS		5000

static int64 launch_changes = 0;	/* of this session, since it last started one */
static bool launch_full = false;

static void
launch_if_due(TimestampTz now)
{
	static TimestampTz last = 0;
	BackgroundWorker worker;

	if (now - last < (TimestampTz) PAUSE_MS * 1000)
		return;
	memset(&worker, 0, sizeof worker);
	snprintf(worker.bgw_name, BGW_MAXLEN, "iblt merge");
	snprintf(worker.bgw_type, BGW_MAXLEN, "iblt merge");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(worker.bgw_library_name, sizeof worker.bgw_library_name, "iblt");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "iblt_merge_worker");
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	/* where no slot for a worker is free, the next transaction tries again */
	if (!RegisterDynamicBackgroundWorker(&worker, NULL))
		return;
	last = now;
	launch_changes = 0;
	launch_full = false;
}

void
iblt_launch_saw(int64 changes)
{
	if (changes < IBLT_MERGE_CHANGES || RecoveryInProgress())
		return;
	launch_full = true;
	launch_if_due(GetCurrentTimestamp());
}

/* --- the changes of a transaction -------------------------------------------- */

static IbltCollection *
pending_find(Oid relid, int level)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pending_all)
	{
		IbltCollection *pending = dlist_container(IbltCollection, node, iter.cur);

		if (pending->level < level)
			break;
		if (pending->target.relid == relid && pending->level == level)
			return pending;
	}
	return NULL;
}

/* Writes a collection: why it is broken, its sketch, or its list in rows that fit in a page each. */
static void
pending_write(IbltCollection *pending)
{
	Oid			store = pending->target.store;
	Oid			relid = pending->target.relid;
	Size		left = pending->used;
	ItemPointerData row;

	if (pending->value != NULL)
		iblt_collection_finish(pending);
	if (pending->broken != NULL)
		row = iblt_store_insert_change(store, relid, IBLT_CHANGES_BROKEN, 0,
									   CStringGetTextDatum(pending->broken), (Datum) 0);
	else if (pending->value != NULL)
		row = iblt_store_insert_change(store, relid, IBLT_CHANGES_SKETCH, pending->number,
									   (Datum) 0, PointerGetDatum(pending->value));
	else
	{
		do
		{
			const uint8 *bytes = pending->list + pending->used - left;
			Size		size = left;

			if (left > IBLT_STORE_BYTES)
				size = iblt_packed_prefix(bytes, left, pending->target.params.key.limbs,
										  IBLT_STORE_BYTES);
			/* keys of 4,096 bytes fit, and the sketch has no longer ones */
			Assert(size > 0);
			row = iblt_store_insert_bytes(store, relid, IBLT_CHANGES_PACKED, bytes, size);
			left -= size;
		} while (left > 0);
	}
	iblt_store_written(relid);
	written_changes += pending->number;
	written_block = Max(written_block, ItemPointerGetBlockNumberNoCheck(&row));
}

/*
 * Writes all collections to the store.  Then there are none.  PostgreSQL writes
 * to a relation whose values may go out of line under a snapshot only, and at
 * the end of a transaction there is none.
 */
static void
pending_flush(void)
{
	dlist_iter	iter;

	PushActiveSnapshot(GetTransactionSnapshot());
	dlist_foreach(iter, &pending_all)
	{
		IbltCollection *pending = dlist_container(IbltCollection, node, iter.cur);

		pending_write(pending);
		/* the command is a later one; if the store was rewritten since, the fence may stay */
		if (OidIsValid(pending->fence_file) &&
			iblt_store_file(pending->target.store, NULL) == pending->fence_file)
			iblt_store_take_back(pending->target.store, &pending->fence_row);
	}
	PopActiveSnapshot();
	dlist_init(&pending_all);
	MemoryContextReset(pending_context);
}

/*
 * All that is left belongs to the transaction that ends.  Each transaction ends
 * with a call of this, also one that registered the callbacks.
 */
static void
pending_forget(void)
{
	dlist_init(&pending_all);
	if (pending_context != NULL)
		MemoryContextReset(pending_context);
	pending_flushed = false;
	registered_now = false;
	written_changes = 0;
	written_block = 0;
}

static void
at_transaction(XactEvent event, void *arg)
{
	(void) arg;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			/* all changes are written before the transaction ends */
			if (!dlist_is_empty(&pending_all))
			{
				/* only a later command can remove fences */
				if (registered_now)
					CommandCounterIncrement();
				pending_flush();
				/* what follows sees what was written */
				CommandCounterIncrement();
			}
			pending_flushed = true;
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			/* only where another extension's callback has loaded this library */
			if (!dlist_is_empty(&pending_all))
				elog(WARNING, "iblt has lost changes of tracked tables");
			launch_changes += written_changes;
			launch_full |= written_block >= FULL_BLOCKS;

			/*
			 * The time of a transaction's end is known, so it costs nothing.  Until a worker has
			 * merged, each transaction with changes asks for it.
			 */
			if (launch_full || launch_changes >= IBLT_MERGE_CHANGES)
				launch_if_due(GetCurrentTransactionStopTimestamp());
			pending_forget();
			break;
		case XACT_EVENT_ABORT:
			pending_forget();
			break;
		default:
			break;
	}
}

/* RELEASE merges a level into the one above, and ROLLBACK TO drops it. */
static void
at_subtransaction(SubXactEvent event, SubTransactionId mine,
				  SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	bool		commit = event == SUBXACT_EVENT_COMMIT_SUB;
	dlist_mutable_iter iter;

	(void) mine;
	(void) parent;
	(void) arg;
	if (!commit && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	dlist_foreach_modify(iter, &pending_all)
	{
		IbltCollection *inner = dlist_container(IbltCollection, node, iter.cur);
		IbltCollection *outer = NULL;

		if (inner->level < level)
			break;
		if (commit)
			outer = pending_find(inner->target.relid, level - 1);
		if (commit && outer == NULL)
		{
			inner->level = level - 1;
			continue;
		}
		/* it has no fence, because one of a level above covered it */
		if (outer != NULL)
			iblt_collection_absorb(outer, inner);
		dlist_delete(&inner->node);
		iblt_collection_free(inner);
	}
}

void
iblt_pending_register(void)
{
	RegisterXactCallback(at_transaction, NULL);
	RegisterSubXactCallback(at_subtransaction, NULL);
	registered_now = IsTransactionState();
}

/*
 * Does a new collection need a fence?  That of a level above will do, because
 * it commits if this level does.  The outermost collection of a table has it.
 */
static bool
needs_fence(Oid relid)
{
	dlist_iter	iter;

	if (!registered_now || pending_flushed)
		return false;
	dlist_reverse_foreach(iter, &pending_all)
	{
		IbltCollection *pending = dlist_container(IbltCollection, node, iter.cur);

		if (pending->target.relid == relid && OidIsValid(pending->fence_file))
			return false;
	}
	return true;
}

/*
 * The collection for a change.  The change gets the current command ID, and
 * makes the next command have another one, so that a reader can tell whether
 * its snapshot is newer.
 */
static IbltCollection *
pending_for(const IbltTrackTarget *target)
{
	int			level = GetCurrentTransactionNestLevel();
	IbltCollection *pending;

	if (pending_context == NULL)
		pending_context = AllocSetContextCreate(TopMemoryContext,
												"iblt changes",
												ALLOCSET_DEFAULT_SIZES);
	pending = pending_find(target->relid, level);
	if (pending == NULL)
	{
		pending = iblt_collection_make(target, level, pending_context);
		/* without a store there is no fence */
		if (needs_fence(target->relid))
		{
			Datum		reason = CStringGetTextDatum("changes of a transaction were lost");

			pending->fence_row = iblt_store_insert_change(target->store, target->relid,
														  IBLT_CHANGES_FENCE, 0, reason, (Datum) 0);
			if (ItemPointerIsValid(&pending->fence_row))
				pending->fence_file = iblt_store_file(target->store, NULL);
			pfree(DatumGetPointer(reason));
		}
		dlist_push_head(&pending_all, &pending->node);
	}
	else
		dlist_move_head(&pending_all, &pending->node);
	pending->last = GetCurrentCommandId(true);
	return pending;
}

void
iblt_pending_add(const IbltTrackTarget *target, unsigned flags,
				 const uint8 *key, uint64 old_sum, uint64 new_sum)
{
	IbltCollection *pending = pending_for(target);
	uint8		packed[1 + 8 * IBLT_MAX_LIMBS + 16];
	uint8	   *end = iblt_packed_put(packed, flags, target->params.key.limbs, key,
									  old_sum, new_sum);

	iblt_collection_add(pending, packed, end - packed, 1);
	if (pending_flushed)
		pending_flush();
}

void
iblt_pending_break(const IbltTrackTarget *target, const char *reason)
{
	iblt_collection_break(pending_for(target), reason);
	if (pending_flushed)
		pending_flush();
}

const char *
iblt_pending_apply(Oid relid, Snapshot snapshot, IbltSketch *sketch,
				   bool *added)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pending_all)
	{
		IbltCollection *pending = dlist_container(IbltCollection, node, iter.cur);

		if (pending->target.relid != relid)
			continue;
		if (snapshot->curcid <= pending->last)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("digest cannot be read in a snapshot that is older than this transaction's changes"),
					 errhint("Read the digest in a statement of its own, after the changes.")));
		if (pending->broken != NULL)
			return pending->broken;
		*added = true;
		if ((pending->value != NULL && !iblt_collection_add_sketch(sketch, &pending->sketch)) ||
			iblt_packed_apply(sketch, pending->list, pending->used) < 0)
			return "a change of this transaction cannot be kept in the sketch";
	}
	return NULL;
}
