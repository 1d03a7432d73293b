/*
 * trigger.c
 *	  The triggers of tracked tables.
 *
 * What they cannot record makes the digest untrustworthy.  They fail a statement
 * only if the store is not found (iblt_store_require).
 *
 * What a trigger needs to know about its table or partition is cached.  A table's
 * configuration changes only under a lock that no writer shares, and with an
 * invalidation of the table's and its partitions' relation cache.  So a writer,
 * which has locked the table after that, finds the new one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "mb/pg_wchar.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "codec/checksum.h"
#include "digest/digest.h"
#include "digest/pending.h"
#include "digest/store.h"

typedef struct Entry
{
	Oid			trigger;		/* the hash key */
	Oid			relid;			/* its table or partition */
	bool		valid;			/* false once the catalogs may have changed */
	bool		tracked;
	bool		guarded;		/* reading a row runs functions that are not
								 * built in */
	bool		reading;		/* guard() is at work on it */
	const char *problem;		/* why rows cannot be read, or NULL */
	MemoryContext context;		/* of all that follows */
	IbltTrackTarget target;
	int			nkeys;
	int			ncolumns;		/* with the keys, which come first */
	AttrNumber *numbers;
	AttrNumber	last;			/* the highest number */
	NullableDatum *values;		/* working space, like numbers */
	IbltRowHash *row_hash;
	IbltRowHash *key_hash;		/* NULL if keys are kept as they are */
	IbltKeyCoder *key_coder;
} Entry;

/* A row as a change has it. */
typedef struct Row
{
	uint8		key[8 * IBLT_MAX_LIMBS];
	uint64		sum;
	const char *problem;		/* why it cannot be recorded, or NULL */
} Row;

static HTAB *entries = NULL;

/* The entry that was used last, or NULL.  Entries stay where they are. */
static Entry *last_entry = NULL;

/* The catalogs may have changed for a relation, or for all. */
static void
invalidate(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	Entry	   *entry;

	(void) arg;
	hash_seq_init(&status, entries);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (!OidIsValid(relid) || entry->relid == relid)
			entry->valid = false;
	}
}

/* A step that guard() calls for an entry, with what it reads and what it makes. */
typedef void (*Step) (Entry *entry, const void *from, void *to);

/*
 * Calls a step in a subtransaction.  Returns false, with everything undone
 * that a subtransaction undoes, if it raised an error.  A cancelled statement
 * or an ending session still is an error, after which the transaction may go on
 * at a savepoint.  After any error the entry is filled again.
 */
static bool
guard(Step step, Entry *entry, const void *from, void *to)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool passed = true;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	entry->reading = true;
	PG_TRY();
	{
		step(entry, from, to);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		entry->reading = false;
		entry->valid = false;
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		/* no statement survives these, such as ERRCODE_QUERY_CANCELED */
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION)
			ReThrowError(error);
		FreeErrorData(error);
		passed = false;
	}
	PG_END_TRY();
	entry->reading = false;
	return passed;
}

/*
 * The numbers of the tracked columns in this table.  False if one is missing
 * or has another type than at the start.  Its type may be changed back later,
 * but what is recorded now would not fit.
 */
static bool
map_columns(Entry *entry, Relation relation,
			const IbltTrackConfig *config)
{
	int			n = config->columns->dim1;

	entry->nkeys = config->nkeys;
	entry->ncolumns = n;
	entry->numbers = palloc(sizeof(AttrNumber) * n);
	entry->values = palloc0(sizeof(NullableDatum) * n);
	for (int i = 0; i < n; i++)
	{
		AttrNumber	number = config->columns->values[i];
		char	   *name = get_attname(config->relid, number, true);
		Form_pg_attribute att;
		Oid			base;

		if (name == NULL)
			return false;
		if (config->relid != RelationGetRelid(relation))
			number = get_attnum(RelationGetRelid(relation), name);
		if (number < 1 || number > RelationGetDescr(relation)->natts)
			return false;
		att = TupleDescAttr(RelationGetDescr(relation), number - 1);
		if (att->atttypid != config->types->values[i])
			return false;
		entry->numbers[i] = number;
		entry->last = Max(entry->last, number);

		/*
		 * Errors may be raised while a value is read, other than for values out of line, by
		 * functions that are not built in and conversions of text.
		 */
		base = getBaseType(att->atttypid);
		entry->guarded |= base >= FirstNormalObjectId ||
			(GetDatabaseEncoding() != PG_UTF8 &&
			 GetDatabaseEncoding() != PG_SQL_ASCII && !get_typbyval(base));
	}
	return true;
}

/* Prepares to read rows of a relation.  The memory goes into the entry's context. */
static void
prepare(Entry *entry, const void *from, void *to)
{
	const IbltTrackConfig *config = from;
	bool		is_part = false;
	MemoryContext old = MemoryContextSwitchTo(entry->context);

	/*
	 * Was it there at the start?  Rows of a partition that comes and goes would stay in the
	 * digest, and a reader could not see that it was there.
	 */
	for (int i = 0; i < config->parts->dim1; i++)
		is_part |= config->parts->values[i] == entry->relid;
	if (!is_part)
		entry->problem = "a partition that it did not have was written to";
	else if (map_columns(entry, (Relation) to, config))
	{
		IbltParams *params = &entry->target.params;
		int			n = entry->nkeys;

		entry->key_coder = iblt_config_params(config, params);
		if (config->by_hash)
			entry->key_hash = iblt_row_hash_make(n, config->types->values, params->seed ^ 1,
												 entry->context);
		entry->target.most = iblt_core_size(params);
		entry->row_hash = iblt_row_hash_make(entry->ncolumns - n, config->types->values + n,
											 params->seed, entry->context);
	}
	else
		entry->problem = "its columns or their types have changed";
	MemoryContextSwitchTo(old);
}

/*
 * Fills a cleared entry.  An error while the configuration or the store is
 * looked for fails the statement, because nothing else could keep the digest
 * right.
 */
static void
fill(Entry *entry, const TriggerData *data)
{
	MemoryContext old = MemoryContextSwitchTo(entry->context);
	Oid			relid = RelationGetRelid(data->tg_relation);
	Oid			trigger = data->tg_trigger->tgoid;
	IbltTrackConfig config;

	iblt_store_require(iblt_store_tracked());

	/*
	 * The configuration is that of the table whose changes the trigger records.  For a
	 * partition's copy of a trigger this is the one that has the original.  The catalogs of
	 * partitions do not tell, because a transaction with an old snapshot may write to a partition
	 * that is being detached.  A second trigger of somebody else must not record changes twice.
	 */
	if (data->tg_relation->rd_rel->relispartition)
		trigger = iblt_shape_root_trigger(trigger, &relid);
	if (OidIsValid(trigger) && iblt_config_read(&config, relid, NULL) &&
		(trigger == config.trigger || TRIGGER_FIRED_BY_TRUNCATE(data->tg_event)))
	{
		entry->target.relid = config.relid;
		entry->target.store = config.store;
		iblt_store_require(entry->target.store);
		entry->tracked = true;
	}
	MemoryContextSwitchTo(old);
	/* an invalidation from now on must not be lost */
	entry->valid = true;
	if (entry->tracked && !guard(prepare, entry, &config, data->tg_relation))
		entry->problem = "its columns cannot be read";
}

/* The entry of a trigger that has fired, until the next call.  NULL if no digest relies on it. */
static Entry *
entry_find(FunctionCallInfo fcinfo)
{
	const TriggerData *data = (TriggerData *) fcinfo->context;
	Oid			trigger = data->tg_trigger->tgoid;
	Entry	   *entry;
	bool		found;

	if (last_entry != NULL && last_entry->trigger == trigger && last_entry->valid)
		return last_entry->tracked ? last_entry : NULL;
	if (entries == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(Oid), .entrysize = sizeof(Entry),
		.hcxt = TopMemoryContext};

		entries = hash_create("iblt triggers", 64, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
	}
	entry = hash_search(entries, &trigger, HASH_ENTER, &found);
	if (!found)
	{
		entry->relid = InvalidOid;
		entry->context = NULL;
		entry->valid = false;
		entry->reading = false;
	}
	last_entry = entry;
	/* while a row is read, the entry must stay as it is */
	if (entry->valid || entry->reading)
		return entry->tracked ? entry : NULL;
	if (entry->context != NULL)
		MemoryContextDelete(entry->context);
	memset(entry, 0, sizeof *entry);
	entry->trigger = trigger;
	entry->relid = RelationGetRelid(data->tg_relation);
	entry->context = AllocSetContextCreate(TopMemoryContext, "iblt tracked table",
										   ALLOCSET_SMALL_SIZES);
	fill(entry, data);
	return entry->tracked ? entry : NULL;
}

/*
 * Makes key and checksum of the values.  Sets the row's problem if they cannot be
 * recorded.
 */
static void
read_row(Entry *entry, const void *from, void *to)
{
	Size		size = 8 * (Size) entry->target.params.key.limbs;
	IbltKeyCoder *coder = entry->key_coder;
	Row		   *row = to;

	(void) from;
	for (int i = 0; entry->key_hash == NULL && i < entry->nkeys; i++)
		if (entry->values[i].isnull)
			row->problem = "a key was null";
	if (row->problem != NULL)
		return;
	if (entry->key_hash != NULL)
		iblt_key_encode(coder, Int64GetDatum((int64) iblt_row_hash(entry->key_hash,
																  entry->values)));
	else if (entry->nkeys == 1)
		iblt_key_encode(coder, entry->values[0].value);
	else
		iblt_key_encode_columns(coder, entry->values);
	if ((Size) coder->bytes.len > size)
	{
		row->problem = "a key was too long";
		return;
	}
	memcpy(row->key, iblt_key_padded(coder, entry->target.params.key.limbs), size);
	row->sum = iblt_row_hash(entry->row_hash, entry->values + entry->nkeys);
}

/*
 * Reads a row.  Returns why it cannot be recorded, or NULL.  Raises errors only for a cancelled
 * statement and the like.
 */
static const char *
entry_read(Entry *entry, TupleTableSlot *slot, Row *row)
{
	static const char unread[] = "a value could not be read";
	bool		guarded = entry->guarded;

	row->problem = entry->problem;
	/* a function that reads another row of the table has fired the trigger */
	if (row->problem == NULL && entry->reading)
		row->problem = unread;
	if (row->problem != NULL)
		return row->problem;
	slot_getsomeattrs(slot, entry->last);
	for (int i = 0; i < entry->ncolumns; i++)
	{
		int			n = entry->numbers[i] - 1;

		entry->values[i].value = slot->tts_values[n];
		entry->values[i].isnull = slot->tts_isnull[n];
		/* to read a value that is out of line may raise an error */
		if (!slot->tts_isnull[n] &&
			TupleDescAttr(slot->tts_tupleDescriptor, n)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(slot->tts_values[n])))
			guarded = true;
	}
	if (!guarded)
		read_row(entry, NULL, row);
	else if (!guard(read_row, entry, NULL, row))
		row->problem = unread;
	return row->problem;
}

/* The trigger's data.  ERROR if the function was called in another way. */
static TriggerData *
trigger_data(FunctionCallInfo fcinfo)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function was not called by a trigger")));
	return (TriggerData *) fcinfo->context;
}

PG_FUNCTION_INFO_V1(iblt_track_row);

/* iblt_track_row() -> trigger: AFTER INSERT OR UPDATE OR DELETE FOR EACH ROW */
Datum
iblt_track_row(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo);
	bool		update = TRIGGER_FIRED_BY_UPDATE(data->tg_event);
	bool		insert = TRIGGER_FIRED_BY_INSERT(data->tg_event);
	Entry	   *entry;
	Row			row;
	Row			new_row;
	const char *problem;

	/* somebody else can make other triggers of this function */
	if (!TRIGGER_FIRED_AFTER(data->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		return PointerGetDatum(update ? data->tg_newtuple : data->tg_trigtuple);
	entry = entry_find(fcinfo);
	if (entry == NULL)
		return PointerGetDatum(NULL);
	problem = entry_read(entry, data->tg_trigslot, &row);
	if (problem == NULL && update)
		problem = entry_read(entry, data->tg_newslot, &new_row);
	if (problem != NULL)
		iblt_pending_break(&entry->target, problem);
	else if (!update)
		iblt_pending_add(&entry->target,
						 insert ? IBLT_CHANGE_NEW : IBLT_CHANGE_OLD, row.key,
						 row.sum, row.sum);
	else if (memcmp(row.key, new_row.key, 8 * (Size) entry->target.params.key.limbs) != 0)
	{
		iblt_pending_add(&entry->target, IBLT_CHANGE_OLD, row.key, row.sum, 0);
		iblt_pending_add(&entry->target, IBLT_CHANGE_NEW, new_row.key, 0, new_row.sum);
	}
	/* what the digest does not cover is not a change */
	else if (row.sum != new_row.sum)
		iblt_pending_add(&entry->target, IBLT_CHANGE_OLD | IBLT_CHANGE_NEW, row.key,
						 row.sum, new_row.sum);
	return PointerGetDatum(NULL);
}

PG_FUNCTION_INFO_V1(iblt_track_truncate);

/* iblt_track_truncate() -> trigger: AFTER TRUNCATE FOR EACH STATEMENT */
Datum
iblt_track_truncate(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo);
	Entry	   *entry;

	if (!TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		return PointerGetDatum(NULL);
	entry = entry_find(fcinfo);
	if (entry != NULL)
		iblt_pending_break(&entry->target, "it was truncated");
	return PointerGetDatum(NULL);
}
