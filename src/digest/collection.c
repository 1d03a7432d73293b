/*
 * collection.c
 *	  Packed changes, and those of one tracked table in memory.
 */
#include "digest/pending.h"

#include "miscadmin.h"

#include "core/interrupt.h"

/* Bytes of one change. */
static inline Size
packed_size(unsigned flags, unsigned limbs)
{
	return 1 + 8 * (Size) limbs + (flags & IBLT_CHANGE_OLD ? 8 : 0) +
		(flags & IBLT_CHANGE_NEW ? 8 : 0);
}

uint8 *
iblt_packed_put(uint8 *out, unsigned flags, unsigned limbs, const uint8 *key,
				uint64 old_sum, uint64 new_sum)
{
	*out++ = (uint8) flags;
	memcpy(out, key, 8 * (Size) limbs);
	out += 8 * (Size) limbs;
	if (flags & IBLT_CHANGE_OLD)
	{
		iblt_store64(out, old_sum);
		out += 8;
	}
	if (flags & IBLT_CHANGE_NEW)
	{
		iblt_store64(out, new_sum);
		out += 8;
	}
	return out;
}

static inline bool
add_row(IbltApplier *applier, const uint8 *key, uint64 sum, int sign)
{
	applier->rows += sign;
	if (applier->sketch == NULL)
		return true;
	return (applier->adder == NULL
			? iblt_core_add_row(applier->sketch, key, sum, sign)
			: applier->adder->queue(&applier->queue, applier->sketch, key, sum,
									sign)) == IBLT_OK;
}

void
iblt_applier_begin(IbltApplier *applier, IbltSketch *sketch, unsigned limbs)
{
	memset(applier, 0, sizeof *applier);
	applier->sketch = sketch;
	applier->limbs = limbs;
	if (sketch != NULL)
		applier->adder = iblt_core_row_adder(&sketch->params);
}

int64
iblt_applier_add(IbltApplier *applier, const uint8 *bytes, Size size)
{
	IbltSketch *sketch = applier->sketch;
	int64		number = 0;
	Size		one;

	if (sketch != NULL && (sketch->ncells == 0 || sketch->params.value.limbs > 0))
		return -1;
	for (; size > 0; bytes += one, size -= one)
	{
		const uint8 *key = bytes + 1;
		const uint8 *sums = key + 8 * (Size) applier->limbs;

		if (bytes[0] < 1 || bytes[0] > 3)
			return -1;
		one = packed_size(bytes[0], applier->limbs);
		if (one > size)
			return -1;
		if (bytes[0] & IBLT_CHANGE_OLD)
		{
			if (!add_row(applier, key, iblt_load64(sums), -1))
				return -1;
			sums += 8;
		}
		if ((bytes[0] & IBLT_CHANGE_NEW) && !add_row(applier, key, iblt_load64(sums), 1))
			return -1;
		iblt_check_interrupts_at((uint32) number++);
	}
	return number;
}

void
iblt_applier_end(IbltApplier *applier)
{
	if (applier->sketch != NULL)
		iblt_core_queue_flush(&applier->queue, applier->sketch);
}

int64
iblt_packed_apply(IbltSketch *sketch, const uint8 *bytes, Size size)
{
	IbltApplier applier;
	int64		number;

	iblt_applier_begin(&applier, sketch, sketch->params.key.limbs);
	number = iblt_applier_add(&applier, bytes, size);
	iblt_applier_end(&applier);
	return number;
}

Size
iblt_packed_prefix(const uint8 *bytes, Size size, unsigned limbs, Size most)
{
	Size		taken = 0;
	Size		one;

	while (taken < size)
	{
		one = packed_size(bytes[taken], limbs);
		if (taken + one > most)
			break;
		taken += one;
	}
	return taken;
}

/* A list begins with room for this. */
#define LIST_BYTES		1024

/* Once there is a sketch, a list of this many bytes goes into it. */
#define BATCH_BYTES		4096

IbltCollection *
iblt_collection_make(const IbltTrackTarget *target, int level,
					 MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	IbltCollection *collection = palloc(sizeof *collection);
	IbltParams *params = &collection->target.params;
	uint8	   *description;

	/* most never have a sketch, which is larger than all else */
	memset(collection, 0, offsetof(IbltCollection, sketch));
	collection->target = *target;
	description = palloc(params->key.description_size);
	iblt_store_text(description, params->key.description, params->key.description_size);
	params->key.description = description;
	collection->level = level;
	collection->context = context;
	MemoryContextSwitchTo(old);
	return collection;
}

static void
drop_changes(IbltCollection *collection)
{
	if (collection->list != NULL)
		pfree(collection->list);
	if (collection->value != NULL)
		pfree(collection->value);
	collection->list = NULL;
	collection->value = NULL;
	collection->used = collection->size = 0;
}

void
iblt_collection_free(IbltCollection *collection)
{
	drop_changes(collection);
	pfree((void *) collection->target.params.key.description);
	pfree(collection);
}

void
iblt_collection_break(IbltCollection *collection, const char *reason)
{
	if (collection->broken == NULL)
		collection->broken = reason;
	drop_changes(collection);
}

static const char unkept[] = "a row has a key that the sketch cannot keep";

static void
sketch_add(IbltCollection *collection, const uint8 *bytes, Size size)
{
	if (iblt_packed_apply(&collection->sketch, bytes, size) < 0)
		iblt_collection_break(collection, unkept);
}

/* Puts the list into the sketch, which is made if there is none. */
static void
list_to_sketch(IbltCollection *collection)
{
	if (collection->value == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(collection->context);

		collection->value = iblt_make(&collection->sketch, &collection->target.params);
		MemoryContextSwitchTo(old);
	}
	sketch_add(collection, collection->list, collection->used);
	collection->used = 0;
	if (collection->size > BATCH_BYTES)
	{
		pfree(collection->list);
		collection->list = NULL;
		collection->size = 0;
	}
}

/*
 * Makes room for more bytes in the list.  False if it would be too large.
 */
static bool
list_room(IbltCollection *collection, Size more)
{
	Size		need = collection->used + more;
	Size		most = collection->value == NULL ? collection->target.most : BATCH_BYTES;

	if (need <= collection->size)
		return true;
	if (need > most)
		return false;
	need = Min(Max(Max(need, 2 * collection->size), LIST_BYTES), most);
	if (collection->list == NULL)
		collection->list = MemoryContextAllocHuge(collection->context, need);
	else
		collection->list = repalloc_huge(collection->list, need);
	collection->size = need;
	return true;
}

void
iblt_collection_add(IbltCollection *collection, const uint8 *bytes, Size size,
					int32 number)
{
	bool		room;

	if (collection->broken != NULL)
		return;
	room = list_room(collection, size);
	if (!room)
	{
		list_to_sketch(collection);
		/* without the sketch, if that did not take them */
		if (collection->broken != NULL)
			return;
		room = list_room(collection, size);
	}
	if (room)
	{
		memcpy(collection->list + collection->used, bytes, size);
		collection->used += size;
	}
	else
		sketch_add(collection, bytes, size);
	collection->number = (int32) Min((int64) collection->number + number,
								  PG_INT32_MAX);
}

/*
 * The savepoint is as good as released.  An error there would roll it back after
 * a part of it was merged.
 */
void
iblt_collection_absorb(IbltCollection *outer, IbltCollection *inner)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;

	PG_TRY();
	{
		HOLD_INTERRUPTS();
		outer->last = inner->last;
		if (inner->broken != NULL)
			iblt_collection_break(outer, inner->broken);
		if (inner->value != NULL && outer->value == NULL && outer->broken == NULL)
			list_to_sketch(outer);
		if (inner->value != NULL && outer->broken == NULL &&
			iblt_core_add_sketch(&outer->sketch, &inner->sketch, 1) != IBLT_OK)
			iblt_collection_break(outer, unkept);
		iblt_collection_add(outer, inner->list, inner->used, inner->number);
	}
	PG_CATCH();
	{
		/* nothing but taking memory can fail, so there is nothing to undo */
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		iblt_collection_break(outer,
							  "there was not enough memory for its changes");
	}
	PG_END_TRY();
	/* an error resets it */
	InterruptHoldoffCount = holdoff;
}

bool
iblt_collection_add_sketch(IbltSketch *sketch, const IbltSketch *changes)
{
	IbltParams	params = changes->params;
	IbltSketch	folded;
	struct varlena *value = NULL;

	params.subtable_cells = sketch->params.subtable_cells;
	if (iblt_core_compatible(&sketch->params, &params) != IBLT_OK ||
		changes->params.subtable_cells % params.subtable_cells != 0)
		return false;
	if (changes->params.subtable_cells != params.subtable_cells)
	{
		value = iblt_make(&folded, &params);
		iblt_core_fold(&folded, changes);
		changes = &folded;
	}
	iblt_check_counts(&sketch->params, iblt_core_add_sketch(sketch, changes, 1));
	if (value != NULL)
		pfree(value);
	return true;
}

void
iblt_collection_finish(IbltCollection *collection)
{
	list_to_sketch(collection);
	if (collection->broken == NULL)
		iblt_core_seal(&collection->sketch);
}
