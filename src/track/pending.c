/*-------------------------------------------------------------------------
 *
 * pending.c
 *	  The changes of tracked tables in this transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "track/pending.h"

#include "access/xact.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "core/fold.h"
#include "track/launch.h"
#include "track/packed.h"
#include "track/store.h"

/* Bytes of changes in one row of the store, so that a row fits in a page. */
#define ROW_BYTES		7900

/* A list begins with room for this. */
#define LIST_BYTES		1024

/* One table's changes at one level of savepoints. */
typedef struct Pending
{
	dlist_node	node;
	IbltTrackTarget target;
	int			level;			/* of nested transactions */
	CommandId	last;			/* of the last change */
	const char *broken;			/* why the digest is not trustworthy, or NULL */
	Size		most;			/* bytes of the list before it becomes a sketch */
	uint8	   *list;			/* packed changes */
	Size		used;
	Size		size;
	int32		number;			/* of changes */
	struct varlena *value;		/* of the sketch, or NULL */
	IbltSketch	sketch;
} Pending;

/* All of them, the last used first.  They live in pending_context. */
static dlist_head pending_all = DLIST_STATIC_INIT(pending_all);
static MemoryContext pending_context = NULL;

/* Have the changes of this transaction gone to the store already? */
static bool pending_flushed = false;

static void
pending_free(Pending *pending)
{
	dlist_delete(&pending->node);
	if (pending->list != NULL)
		pfree(pending->list);
	if (pending->value != NULL)
		pfree(pending->value);
	pfree(pending);
}

static Pending *
pending_find(Oid relid, int level)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pending_all)
	{
		Pending    *pending = dlist_container(Pending, node, iter.cur);

		if (pending->target.relid == relid && pending->level == level)
			return pending;
	}
	return NULL;
}

static Pending *
pending_make(const IbltTrackTarget *target, int level)
{
	MemoryContext old = MemoryContextSwitchTo(pending_context);
	Pending    *pending = palloc0(sizeof *pending);
	IbltParams *params = &pending->target.params;

	pending->target = *target;
	if (params->description_size > 0)
	{
		uint8	   *copy = palloc(params->description_size);

		memcpy(copy, params->description, params->description_size);
		params->description = copy;
	}
	pending->level = level;
	pending->most = iblt_core_size(params);
	dlist_push_head(&pending_all, &pending->node);
	MemoryContextSwitchTo(old);
	return pending;
}

/* A sketch's value, which must not be seen if this fails. */
static struct varlena *
make_sketch(IbltSketch *sketch, const IbltParams *params)
{
	MemoryContext old = MemoryContextSwitchTo(pending_context);
	struct varlena *value = iblt_make(sketch, params);

	MemoryContextSwitchTo(old);
	return value;
}

static void
drop_changes(Pending *pending)
{
	if (pending->list != NULL)
		pfree(pending->list);
	if (pending->value != NULL)
		pfree(pending->value);
	pending->list = NULL;
	pending->value = NULL;
	pending->used = pending->size = 0;
}

/* From now on only the reason counts. */
static void
pending_break(Pending *pending, const char *reason)
{
	if (pending->broken == NULL)
		pending->broken = reason;
	drop_changes(pending);
}

static const char unkept[] = "a row has a key that the sketch cannot keep";

/* Puts the list into the sketch, which is made if there is none. */
static void
list_to_sketch(Pending *pending)
{
	if (pending->value == NULL)
		pending->value = make_sketch(&pending->sketch, &pending->target.params);
	if (!iblt_packed_apply(&pending->sketch, pending->list, pending->used))
		pending_break(pending, unkept);
	else if (pending->list != NULL)
	{
		pfree(pending->list);
		pending->list = NULL;
		pending->used = pending->size = 0;
	}
}

/*
 * Makes room for more bytes in the list.  False if the changes belong into the
 * sketch.
 */
static bool
list_room(Pending *pending, Size more)
{
	Size		need = pending->used + more;

	if (pending->value != NULL || need > pending->most)
		return false;
	if (need <= pending->size)
		return true;
	need = Min(Max(Max(need, 2 * pending->size), LIST_BYTES),
			   Max(pending->most, need));
	if (pending->list == NULL)
		pending->list = MemoryContextAllocHuge(pending_context, need);
	else
		pending->list = repalloc_huge(pending->list, need);
	pending->size = need;
	return true;
}

/* Adds packed changes. */
static void
add_packed(Pending *pending, const uint8 *bytes, Size size, int32 number)
{
	if (pending->broken != NULL)
		return;
	if (list_room(pending, size))
	{
		memcpy(pending->list + pending->used, bytes, size);
		pending->used += size;
	}
	else
	{
		if (pending->value == NULL)
			list_to_sketch(pending);
		if (pending->broken != NULL)
			return;
		if (!iblt_packed_apply(&pending->sketch, bytes, size))
			pending_break(pending, unkept);
	}
	pending->number = (int32) Min((int64) pending->number + number,
								  PG_INT32_MAX);
}

/*
 * Adds what a level of savepoints collected to the level above.  Takes memory
 * before it changes anything.
 */
static void
pending_absorb(Pending *outer, Pending *inner)
{
	outer->last = inner->last;
	if (inner->broken != NULL)
		pending_break(outer, inner->broken);
	if (outer->broken != NULL)
		return;
	if (inner->value == NULL)
	{
		add_packed(outer, inner->list, inner->used, inner->number);
		return;
	}
	if (outer->value == NULL)
		list_to_sketch(outer);
	if (outer->broken == NULL &&
		iblt_core_add_sketch(&outer->sketch, &inner->sketch, 1) != IBLT_OK)
		pending_break(outer, unkept);
	outer->number = (int32) Min((int64) outer->number + inner->number,
								PG_INT32_MAX);
}

/* Writes a list in rows that fit in a page each. */
static BlockNumber
write_list(const Pending *pending)
{
	const IbltTrackTarget *target = &pending->target;
	struct varlena *bytes = palloc(VARHDRSZ + ROW_BYTES);
	BlockNumber block = 0;
	Size		done = 0;

	while (done < pending->used)
	{
		int32		number;
		Size		size = iblt_packed_prefix(pending->list + done,
											  pending->used - done,
											  target->params.limbs, ROW_BYTES,
											  &number);

		/* keys of 4,096 bytes fit, and the sketch has no longer ones */
		Assert(size > 0);
		SET_VARSIZE(bytes, VARHDRSZ + size);
		memcpy(VARDATA(bytes), pending->list + done, size);
		block = iblt_store_insert_change(target->store, target->relid,
										 IBLT_CHANGES_PACKED, number,
										 PointerGetDatum(bytes), (Datum) 0);
		done += size;
	}
	pfree(bytes);
	return block;
}

/* Writes a collection to the store. */
static void
pending_write(Pending *pending)
{
	const IbltTrackTarget *target = &pending->target;
	BlockNumber block;

	if (pending->broken != NULL)
		block = iblt_store_insert_change(target->store, target->relid,
										 IBLT_CHANGES_BROKEN, 0,
										 CStringGetTextDatum(pending->broken),
										 (Datum) 0);
	else if (pending->value == NULL)
		block = write_list(pending);
	else
	{
		/* large values go out of line, which looks at a snapshot */
		PushActiveSnapshot(GetTransactionSnapshot());
		iblt_core_seal(&pending->sketch);
		block = iblt_store_insert_change(target->store, target->relid,
										 IBLT_CHANGES_SKETCH, pending->number,
										 (Datum) 0,
										 PointerGetDatum(pending->value));
		PopActiveSnapshot();
	}
	iblt_launch_note(block, pending->number);
}

/* Writes all collections to the store. */
static void
pending_flush(void)
{
	pending_flushed = true;
	while (!dlist_is_empty(&pending_all))
	{
		Pending    *pending = dlist_head_element(Pending, node, &pending_all);

		pending_write(pending);
		pending_free(pending);
	}
}

/* The memory goes with the transaction. */
static void
pending_forget(void)
{
	dlist_init(&pending_all);
	pending_context = NULL;
	pending_flushed = false;
}

static void
at_transaction(XactEvent event, void *arg)
{
	(void) arg;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			pending_flush();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			/*
			 * Only where this library was loaded by another extension's
			 * callback for this event
			 */
			if (!dlist_is_empty(&pending_all))
				elog(WARNING, "iblt has lost changes of tracked tables");
			pending_forget();
			iblt_launch_if_due();
			break;
		case XACT_EVENT_ABORT:
			pending_forget();
			iblt_launch_forget();
			break;
		default:
			break;
	}
}

/*
 * The same at a point where the savepoint is as good as released.  An error
 * there would roll it back after a part of it was merged.
 */
static void
absorb_safely(Pending *outer, Pending *inner)
{
	MemoryContext caller = CurrentMemoryContext;

	HOLD_INTERRUPTS();
	PG_TRY();
	{
		pending_absorb(outer, inner);
	}
	PG_CATCH();
	{
		/* nothing but taking memory can fail, so there is nothing to undo */
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		pending_break(outer, "there was not enough memory for its changes");
	}
	PG_END_TRY();
	RESUME_INTERRUPTS();
}

/* Merges the collections of a level into the level above. */
static void
merge_level(int level)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pending_all)
	{
		Pending    *inner = dlist_container(Pending, node, iter.cur);
		Pending    *outer;

		if (inner->level != level)
			continue;
		outer = pending_find(inner->target.relid, level - 1);
		if (outer == NULL)
			inner->level = level - 1;
		else
		{
			absorb_safely(outer, inner);
			pending_free(inner);
		}
	}
}

static void
drop_level(int level)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pending_all)
	{
		Pending    *pending = dlist_container(Pending, node, iter.cur);

		if (pending->level >= level)
			pending_free(pending);
	}
}

static void
at_subtransaction(SubXactEvent event, SubTransactionId mine,
				  SubTransactionId parent, void *arg)
{
	(void) mine;
	(void) parent;
	(void) arg;
	if (pending_context == NULL)
		return;
	if (event == SUBXACT_EVENT_COMMIT_SUB)
		merge_level(GetCurrentTransactionNestLevel());
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		drop_level(GetCurrentTransactionNestLevel());
}

/*
 * The collection for a change.  The change gets the current command ID, and
 * makes the next command have another one, so that a reader can tell whether
 * its snapshot is newer.
 */
static Pending *
pending_for(const IbltTrackTarget *target)
{
	static bool registered = false;
	int			level = GetCurrentTransactionNestLevel();
	Pending    *pending;

	if (!registered)
	{
		RegisterXactCallback(at_transaction, NULL);
		RegisterSubXactCallback(at_subtransaction, NULL);
		registered = true;
	}
	if (pending_context == NULL)
		pending_context = AllocSetContextCreate(TopTransactionContext,
												"iblt changes",
												ALLOCSET_DEFAULT_SIZES);
	pending = pending_find(target->relid, level);
	if (pending == NULL)
		pending = pending_make(target, level);
	else
		dlist_move_head(&pending_all, &pending->node);
	pending->last = GetCurrentCommandId(true);
	return pending;
}

void
iblt_pending_add(const IbltTrackTarget *target, unsigned flags,
				 const uint8 *key, uint64 old_sum, uint64 new_sum)
{
	Pending    *pending = pending_for(target);
	uint8		packed[1 + 8 * IBLT_MAX_LIMBS + 16];
	uint8	   *end = iblt_packed_put(packed, flags, target->params.limbs, key,
									  old_sum, new_sum);

	add_packed(pending, packed, end - packed, 1);
	if (pending_flushed)
		pending_flush();
}

void
iblt_pending_break(const IbltTrackTarget *target, const char *reason)
{
	pending_break(pending_for(target), reason);
	if (pending_flushed)
		pending_flush();
}

/* Adds a collection to a sketch that may have fewer cells. */
static void
apply_one(const Pending *pending, IbltSketch *sketch)
{
	IbltSketch	folded;
	struct varlena *value;

	if (pending->value == NULL)
	{
		if (!iblt_packed_apply(sketch, pending->list, pending->used))
			iblt_refuse_row(IBLT_KEY_NOT_REPRESENTABLE);
		return;
	}
	value = iblt_make(&folded, &sketch->params);
	iblt_core_fold(&folded, &pending->sketch);
	iblt_check_counts(iblt_core_add_sketch(sketch, &folded, 1));
	pfree(value);
}

const char *
iblt_pending_apply(Oid relid, Snapshot snapshot, IbltSketch *sketch)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pending_all)
	{
		Pending    *pending = dlist_container(Pending, node, iter.cur);

		if (pending->target.relid != relid)
			continue;
		if (snapshot->curcid <= pending->last)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("digest cannot be read in a snapshot that is older than this transaction's changes"),
					 errhint("Read the digest in a statement of its own, after the changes.")));
		if (pending->broken != NULL)
			return pending->broken;
		apply_one(pending, sketch);
	}
	return NULL;
}
