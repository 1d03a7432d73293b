/*-------------------------------------------------------------------------
 *
 * entry.c
 *	  What a row trigger needs to know about its table.
 *
 * A table's configuration changes only under a lock that no writer shares, and
 * with an invalidation of the table's and its partitions' relation cache.  So
 * a writer, which has locked the table after that, finds the new one.
 *
 *-------------------------------------------------------------------------
 */
#include "digest/entry.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "sketch/key.h"
#include "digest/config.h"
#include "digest/shape.h"
#include "digest/store.h"

static HTAB *entries = NULL;

/* The entry that was used last, or NULL.  Entries stay where they are. */
static IbltTrackEntry *last_entry = NULL;

/* The catalogs may have changed for a relation, or for all. */
static void
invalidate(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	IbltTrackEntry *entry;

	(void) arg;
	hash_seq_init(&status, entries);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (!OidIsValid(relid) || entry->relid == relid)
			entry->valid = false;
	}
}

/*
 * Calls a function in a subtransaction.  Returns false, with everything undone
 * that a subtransaction undoes, if it raised an error.  A cancelled statement
 * or an ending session still is an error.
 */
static bool
guard(void (*function) (void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool passed = true;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		function(arg);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;

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
	return passed;
}

/*
 * Finds the configuration of the table that a trigger records changes of.  For
 * a partition's copy of a trigger this is the one that has the original.  The
 * catalogs of partitions do not tell, because a transaction with an old
 * snapshot may write to a partition that is being detached.  A second trigger
 * of somebody else must not record changes twice.
 */
static bool
find_config(IbltTrackConfig *config, const TriggerData *data)
{
	Oid			relid = RelationGetRelid(data->tg_relation);
	Oid			trigger = data->tg_trigger->tgoid;

	if (data->tg_relation->rd_rel->relispartition)
		trigger = iblt_shape_root_trigger(trigger, &relid);
	return OidIsValid(trigger) && iblt_config_read(config, relid, NULL) &&
		(trigger == config->trigger || TRIGGER_FIRED_BY_TRUNCATE(data->tg_event));
}

/*
 * The numbers of the tracked columns in this table.  False if one is missing
 * or has another type than at the start.  Its type may be changed back later,
 * but what is recorded now would not fit.
 */
static bool
map_columns(IbltTrackEntry *entry, Relation relation,
			const IbltTrackConfig *config)
{
	int			n = config->nkeys + config->ncolumns;

	entry->nkeys = config->nkeys;
	entry->ncolumns = config->ncolumns;
	entry->numbers = palloc(sizeof(AttrNumber) * n);
	entry->varlena = palloc(sizeof(bool) * n);
	entry->values = palloc0(sizeof(NullableDatum) * n);
	for (int i = 0; i < n; i++)
	{
		AttrNumber	number = i < config->nkeys ? config->keys[i]
			: config->columns[i - config->nkeys];
		char	   *name = get_attname(config->relid, number, true);
		Form_pg_attribute att;

		if (name == NULL)
			return false;
		if (config->relid != RelationGetRelid(relation))
			number = get_attnum(RelationGetRelid(relation), name);
		if (number < 1 || number > RelationGetDescr(relation)->natts)
			return false;
		att = TupleDescAttr(RelationGetDescr(relation), number - 1);
		if (att->atttypid != config->types[i])
			return false;
		entry->numbers[i] = number;
		entry->varlena[i] = att->attlen == -1;
		entry->last = Max(entry->last, number);
	}
	return true;
}

/*
 * The types of the columns, from the first one on.  Errors may be raised while a value is read,
 * other than for values out of line, by functions that are not built in and conversions of text.
 */
static Oid *
types_of(IbltTrackEntry *entry, Relation relation, int first, int n)
{
	Oid		   *types = palloc(sizeof(Oid) * n);

	for (int i = 0; i < n; i++)
	{
		Oid			base;

		types[i] = TupleDescAttr(RelationGetDescr(relation),
								 entry->numbers[first + i] - 1)->atttypid;
		base = getBaseType(types[i]);
		entry->guarded |= base >= FirstNormalObjectId ||
			(GetDatabaseEncoding() != PG_UTF8 &&
			 GetDatabaseEncoding() != PG_SQL_ASCII && !get_typbyval(base));
	}
	return types;
}

/*
 * Decides how keys become bytes.  The types are those of the configuration.
 */
static void
prepare_key(IbltTrackEntry *entry, const IbltTrackConfig *config, Oid *types)
{
	IbltParams *params = &entry->target.params;
	int			n = entry->nkeys;

	iblt_config_params(config, params);
	entry->key_type = n == 1 ? getBaseType(types[0]) : RECORDOID;
	if (config->by_hash)
		entry->key_hash = iblt_row_hash_make(n, types, params->seed ^ 1, entry->context);
	entry->target.most = iblt_core_size(params);
	initStringInfo(&entry->key);
	entry->key_codecs = palloc(sizeof(IbltCodec *) * n);
	for (int i = 0; i < n; i++)
		entry->key_codecs[i] = iblt_codec_for_type(types[i], entry->context);
}

/* Arguments of prepare. */
typedef struct Preparation
{
	IbltTrackEntry *entry;
	Relation	relation;
	const IbltTrackConfig *config;
} Preparation;

/* Prepares to read rows.  The memory goes into the entry's context. */
static void
prepare(void *arg)
{
	const Preparation *preparation = arg;
	IbltTrackEntry *entry = preparation->entry;
	const IbltTrackConfig *config = preparation->config;
	Relation	relation = preparation->relation;
	bool		is_part = false;
	MemoryContext old = MemoryContextSwitchTo(entry->context);

	/*
	 * Was it there at the start?  Rows of a partition that comes and goes would stay in the
	 * digest, and a reader could not see that it was there.
	 */
	for (int i = 0; i < config->nparts; i++)
		is_part |= config->parts[i] == entry->relid;
	if (!is_part)
		entry->problem = "a partition that it did not have was written to";
	else if (map_columns(entry, relation, config))
	{
		Oid		   *types = types_of(entry, relation, 0, entry->nkeys);

		prepare_key(entry, config, types);
		types = types_of(entry, relation, entry->nkeys, entry->ncolumns);
		entry->row_hash = iblt_row_hash_make(entry->ncolumns, types,
											 entry->target.params.seed,
											 entry->context);
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
fill(IbltTrackEntry *entry, const TriggerData *data)
{
	MemoryContext old = MemoryContextSwitchTo(entry->context);
	IbltTrackConfig config;
	Preparation preparation = {entry, data->tg_relation, &config};

	iblt_store_require(iblt_store_tracked());
	if (find_config(&config, data))
	{
		entry->target.relid = config.relid;
		entry->target.store = config.store;
		iblt_store_require(entry->target.store);
		entry->tracked = true;
	}
	MemoryContextSwitchTo(old);
	/* an invalidation from now on must not be lost */
	entry->valid = true;
	if (entry->tracked && !guard(prepare, &preparation))
	{
		entry->problem = "its columns cannot be read";
		entry->valid = false;
	}
}

IbltTrackEntry *
iblt_entry_find(FunctionCallInfo fcinfo)
{
	const TriggerData *data = (TriggerData *) fcinfo->context;
	Oid			trigger = data->tg_trigger->tgoid;
	IbltTrackEntry *entry;
	bool		found;

	if (last_entry != NULL && last_entry->trigger == trigger && last_entry->valid)
		return last_entry->tracked ? last_entry : NULL;
	if (entries == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(Oid), .entrysize = sizeof(IbltTrackEntry),
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

/* Puts the columns of a row into values.  Is one of them out of line? */
static bool
take_values(IbltTrackEntry *entry, TupleTableSlot *slot)
{
	bool		external = false;

	slot_getsomeattrs(slot, entry->last);
	for (int i = 0; i < entry->nkeys + entry->ncolumns; i++)
	{
		int			n = entry->numbers[i] - 1;

		entry->values[i].value = slot->tts_values[n];
		entry->values[i].isnull = slot->tts_isnull[n];
		if (entry->varlena[i] && !slot->tts_isnull[n] &&
			VARATT_IS_EXTERNAL(DatumGetPointer(slot->tts_values[n])))
			external = true;
	}
	return external;
}

/* Arguments of read_row, and its answer. */
typedef struct Reading
{
	IbltTrackEntry *entry;
	IbltTrackRow *row;
	const char *problem;
} Reading;

/* Makes key and checksum of the values. */
static void
read_row(void *arg)
{
	Reading    *reading = arg;
	IbltTrackEntry *entry = reading->entry;
	Size		size = 8 * (Size) entry->target.params.key.limbs;
	IbltTrackRow *row = reading->row;

	if (entry->key_hash != NULL)
		iblt_store64(row->key, iblt_row_hash(entry->key_hash, entry->values));
	else
	{
		resetStringInfo(&entry->key);
		for (int i = 0; i < entry->nkeys; i++)
			if (entry->values[i].isnull)
				reading->problem = "a key was null";
		if (reading->problem != NULL)
			return;
		entry->key.len = iblt_key_fixed(entry->key_type, entry->values[0].value,
										entry->key.data);
		if (entry->key.len == 0)
			iblt_codec_append_args(&entry->key, entry->key_codecs,
								   entry->values, entry->nkeys);
		if ((Size) entry->key.len > size)
			reading->problem = "a key was too long";
		if (reading->problem != NULL)
			return;
		memcpy(row->key, entry->key.data, entry->key.len);
		memset(row->key + entry->key.len, 0, size - entry->key.len);
	}
	row->sum = iblt_row_hash(entry->row_hash, entry->values + entry->nkeys);
}

static const char unread[] = "a value could not be read";

/* read_row() with errors caught: what failed, or NULL. */
static const char *
read_guarded(Reading *reading)
{
	IbltTrackEntry *entry = reading->entry;
	bool		passed;

	entry->reading = true;
	PG_TRY();
	{
		passed = guard(read_row, reading);
	}
	PG_CATCH();
	{
		/* the transaction may go on after a savepoint */
		entry->reading = false;
		entry->valid = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
	entry->reading = false;
	if (passed)
		return reading->problem;
	/* what the error left behind in the codecs is not used again */
	entry->valid = false;
	return unread;
}

const char *
iblt_entry_read(IbltTrackEntry *entry, TupleTableSlot *slot, IbltTrackRow *row)
{
	Reading		reading = {entry, row, NULL};

	if (entry->problem != NULL)
		return entry->problem;
	/* a function that reads another row of the table has fired the trigger */
	if (entry->reading)
		return unread;
	if (take_values(entry, slot) || entry->guarded)
		return read_guarded(&reading);
	read_row(&reading);
	return reading.problem;
}
