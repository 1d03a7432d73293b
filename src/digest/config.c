/*
 * config.c
 *	  How a table is tracked: its row in iblt_internal.tracked, and the beginning and
 *	  the end of tracking.
 *
 * Tracking begins and ends while the caller holds SHARE ROW EXCLUSIVE on the table and its
 * partitions.  So no transaction that has written to it is in progress.
 */
#include "digest/digest.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/objectaddress.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "codec/version.h"
#include "digest/store.h"
#include "relation/relation.h"

/* A copy of an array, which is an int2vector or oidvector. */
static void *
read_vector(Datum value, Oid type)
{
	ArrayType  *array = DatumGetArrayTypePCopy(value);

	if (ARR_NDIM(array) != 1 || ARR_HASNULL(array) || ARR_ELEMTYPE(array) != type)
		elog(ERROR, "unexpected array in iblt_internal.tracked");
	return array;
}

bool
iblt_config_read(IbltTrackConfig *config, Oid relid, Snapshot snapshot)
{
	IbltStoreScan scan;
	const Datum *values = scan.values;
	bool		found;

	if (!iblt_store_begin(&scan, iblt_store_tracked(), relid, snapshot,
						  AccessShareLock))
		return false;
	found = iblt_store_next(&scan) != NULL;
	if (found)
	{
		if (memchr(scan.nulls, true, TRACKED_WIDTH) != NULL)
			elog(ERROR, "unexpected null in iblt_internal.tracked");
		config->relid = relid;
		config->generation = DatumGetInt64(values[TRACKED_GENERATION]);
		config->version = DatumGetInt32(values[TRACKED_VERSION]);
		config->system = DatumGetInt64(values[TRACKED_SYSTEM]);
		config->database = DatumGetObjectId(values[TRACKED_DATABASE]);
		config->store = DatumGetObjectId(values[TRACKED_STORE]);
		config->nkeys = DatumGetInt32(values[TRACKED_KEYS]);
		config->columns = read_vector(values[TRACKED_COLUMNS], INT2OID);
		config->types = read_vector(values[TRACKED_TYPES], OIDOID);
		config->parts = read_vector(values[TRACKED_PARTS], OIDOID);
		if (config->columns->dim1 != config->types->dim1 ||
			config->nkeys < 1 || config->nkeys >= config->types->dim1)
			elog(ERROR, "unexpected columns in iblt_internal.tracked");
		config->trigger = DatumGetObjectId(values[TRACKED_OWN_TRIGGER]);
		config->all_columns = DatumGetBool(values[TRACKED_ALL_COLUMNS]);
		config->by_hash = DatumGetBool(values[TRACKED_BY_HASH]);
		config->from_peer = DatumGetBool(values[TRACKED_FROM_PEER]);
		config->capacity = DatumGetInt32(values[TRACKED_CAPACITY]);
		config->template = PG_DETOAST_DATUM_COPY(values[TRACKED_TEMPLATE]);
		config->shape.columns = (uint64) DatumGetInt64(values[TRACKED_SHAPE]);
		config->shape.triggers = (uint64) DatumGetInt64(values[TRACKED_TRIGGERS]);
		config->shape.files = (uint64) DatumGetInt64(values[TRACKED_FILES]);
	}
	iblt_store_end(&scan);
	return found;
}

/* Inserts a configuration. */
static void
write_config(const IbltTrackConfig *config)
{
	Datum		values[IBLT_STORE_WIDTH];
	bool		nulls[IBLT_STORE_WIDTH] = {false};

	values[TRACKED_RELATION] = ObjectIdGetDatum(config->relid);
	values[TRACKED_GENERATION] = Int64GetDatum(config->generation);
	values[TRACKED_VERSION] = Int32GetDatum(config->version);
	values[TRACKED_SYSTEM] = Int64GetDatum(config->system);
	values[TRACKED_DATABASE] = ObjectIdGetDatum(config->database);
	values[TRACKED_STORE] = ObjectIdGetDatum(config->store);
	values[TRACKED_KEYS] = Int32GetDatum(config->nkeys);
	values[TRACKED_COLUMNS] = PointerGetDatum(config->columns);
	values[TRACKED_TYPES] = PointerGetDatum(config->types);
	values[TRACKED_PARTS] = PointerGetDatum(config->parts);
	values[TRACKED_OWN_TRIGGER] = ObjectIdGetDatum(config->trigger);
	values[TRACKED_ALL_COLUMNS] = BoolGetDatum(config->all_columns);
	values[TRACKED_BY_HASH] = BoolGetDatum(config->by_hash);
	values[TRACKED_FROM_PEER] = BoolGetDatum(config->from_peer);
	values[TRACKED_CAPACITY] = Int32GetDatum(config->capacity);
	values[TRACKED_TEMPLATE] = PointerGetDatum(config->template);
	values[TRACKED_SHAPE] = Int64GetDatum((int64) config->shape.columns);
	values[TRACKED_TRIGGERS] = Int64GetDatum((int64) config->shape.triggers);
	values[TRACKED_FILES] = Int64GetDatum((int64) config->shape.files);
	iblt_store_insert(iblt_store_tracked(), TRACKED_WIDTH, values, nulls);
}

/* The store of changes that the fewest tables use.  InvalidOid if there is none. */
static Oid
choose_store(void)
{
	Oid			chosen = InvalidOid;
	int			least = 0;

	for (int i = 1; i <= IBLT_CHANGE_STORES; i++)
	{
		Oid			store = iblt_store_changes(i);
		int			n = list_length(iblt_config_tables(store));

		if (OidIsValid(store) && (!OidIsValid(chosen) || n < least))
		{
			chosen = store;
			least = n;
		}
	}
	return chosen;
}

IbltKeyCoder *
iblt_config_params(const IbltTrackConfig *config, IbltParams *params)
{
	IbltSketch	template;
	IbltKeyCoder *coder;

	iblt_value_open(&iblt_type, &template, PointerGetDatum(config->template));
	*params = template.params;
	if (config->by_hash)
		coder = iblt_key_coder(INT8OID, CurrentMemoryContext);
	else if (config->nkeys == 1)
		coder = iblt_key_coder(config->types->values[0], CurrentMemoryContext);
	else
		coder = iblt_key_coder_for_columns(config->nkeys, config->types->values,
										   CurrentMemoryContext);
	iblt_key_set_params(coder, params);
	return coder;
}

bool
iblt_config_fits(const IbltTrackConfig *config, const IbltParams *params)
{
	IbltParams	own;

	for (int i = 0; i < config->nkeys; i++)
	{
		if (!SearchSysCacheExists1(TYPEOID,
								   ObjectIdGetDatum(config->types->values[i])))
			return false;
	}
	iblt_config_params(config, &own);
	return params->key.kind != IBLT_KEY_UNTYPED &&
		iblt_core_compatible(&own, params) == IBLT_OK;
}

void
iblt_config_require_fit(const IbltTrackConfig *config,
						const IbltParams *params)
{
	IbltParams	own;

	if (params->key.kind == IBLT_KEY_UNTYPED)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sketch of a tracked table must not be an empty template")));
	iblt_config_params(config, &own);
	iblt_params_check_match(&own, params);
}

void
iblt_config_require_owner(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!iblt_owns_relation(relid))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)), name);
}

List *
iblt_config_tables(Oid store)
{
	List	   *tables = NIL;
	IbltStoreScan scan;

	if (!iblt_store_begin(&scan, iblt_store_tracked(), InvalidOid, NULL, AccessShareLock))
		return NIL;
	while (iblt_store_next(&scan) != NULL)
		if (!OidIsValid(store) || DatumGetObjectId(scan.values[TRACKED_STORE]) == store)
			tables = lappend_oid(tables, DatumGetObjectId(scan.values[TRACKED_RELATION]));
	iblt_store_end(&scan);
	return tables;
}

/* Lets all sessions look up again how the table is tracked. */
static void
announce(Relation relation)
{
	ListCell   *lc;

	foreach(lc, iblt_shape_tree(relation))
		CacheInvalidateRelcacheByRelid(lfirst_oid(lc));
}

/* Sets the columns to those with these names, with their types. */
static void
set_columns(IbltTrackConfig *config, Relation relation, Datum names)
{
	Datum	   *items;
	bool	   *nulls;
	int			n = iblt_array_take(names, &items, &nulls);

	config->columns = buildint2vector(NULL, n);
	config->types = buildoidvector(NULL, n);
	for (int i = 0; i < n; i++)
	{
		char	   *name = nulls[i] ? "" : TextDatumGetCString(items[i]);
		AttrNumber	number = get_attnum(RelationGetRelid(relation), name);

		if (number <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of table \"%s\" does not exist",
							name, RelationGetRelationName(relation))));
		config->columns->values[i] = number;
		config->types->values[i] = TupleDescAttr(RelationGetDescr(relation),
												 number - 1)->atttypid;
	}
}

/* ERROR if there is a problem. */
static void
require_none(Relation relation, const char *problem)
{
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" cannot be tracked, because %s",
						RelationGetRelationName(relation), problem)));
}

/* Opens the table for a function of this file.  Only its owner may. */
static Relation
open_own(Oid relid)
{
	Relation	relation;

	iblt_config_require_owner(relid);
	relation = relation_open(relid, ShareRowExclusiveLock);
	/* it may have got another owner while the lock was waited for */
	iblt_config_require_owner(relid);
	if (!iblt_shape_is_table(relation))
		require_none(relation, "it is not a table");
	iblt_store_lock(relid, false);
	return relation;
}

PG_FUNCTION_INFO_V1(iblt_track_begin);

/*
 * iblt_track_begin(regclass, columns text[], keys integer, all_columns boolean,
 * by_hash boolean, from_peer boolean, capacity integer, template iblt) -> bigint:
 * the generation.  From the commit of this transaction on, changes are recorded.
 */
Datum
iblt_track_begin(PG_FUNCTION_ARGS)
{
	Relation	relation = open_own(PG_GETARG_OID(0));
	List	   *parts = iblt_shape_tree(relation);
	IbltTrackConfig config;
	IbltSketch	template;
	IbltParams	params;

	iblt_store_forget(PG_GETARG_OID(0));
	if (!pg_strong_random(&config.generation, sizeof config.generation))
		elog(ERROR, "could not generate a random number");
	config.version = IBLT_TRACK_VERSION;
	config.system = (int64) GetSystemIdentifier();
	config.database = MyDatabaseId;
	config.relid = PG_GETARG_OID(0);
	config.store = choose_store();
	iblt_store_require(iblt_store_tracked());
	iblt_store_require(config.store);
	set_columns(&config, relation, PG_GETARG_DATUM(1));
	config.nkeys = PG_GETARG_INT32(2);
	config.parts = buildoidvector(NULL, list_length(parts));
	for (int i = 0; i < list_length(parts); i++)
		config.parts->values[i] = list_nth_oid(parts, i);
	config.trigger = iblt_shape_own_trigger(relation);
	config.all_columns = PG_GETARG_BOOL(3);
	config.by_hash = PG_GETARG_BOOL(4);
	config.from_peer = PG_GETARG_BOOL(5);
	config.capacity = PG_GETARG_INT32(6);
	config.template = PG_GETARG_VARLENA_P(7);
	/* the owner may call this with options that no plan of a comparison has */
	iblt_value_open(&iblt_type, &template, PointerGetDatum(config.template));
	if (template.params.key.kind != IBLT_KEY_UNTYPED || template.params.value.limbs > 0 ||
		iblt_core_subtable_count(&template.params) != template.params.hashes)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a digest needs an empty template without values, with all subtables")));
	if (config.nkeys < 1 || config.nkeys >= config.columns->dim1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a digest needs key columns and columns")));
	iblt_config_params(&config, &params);
	iblt_check_params(&params);
	require_none(relation, iblt_shape_take(relation, &config, &config.shape));
	write_config(&config);
	iblt_store_insert_bytes(config.store, config.relid,
							IBLT_CHANGES_START, &config.generation,
							sizeof config.generation);
	announce(relation);
	relation_close(relation, NoLock);
	PG_RETURN_INT64(config.generation);
}

PG_FUNCTION_INFO_V1(iblt_track_end);

/* iblt_track_end(regclass) -> void */
Datum
iblt_track_end(PG_FUNCTION_ARGS)
{
	Relation	relation = open_own(PG_GETARG_OID(0));

	iblt_store_forget(PG_GETARG_OID(0));
	announce(relation);
	relation_close(relation, NoLock);
	PG_RETURN_VOID();
}

/* The names that these columns have now, NULL for those that are gone. */
static Datum
column_names(const int16 *numbers, int n, Oid relid)
{
	Datum	   *names = palloc0(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		HeapTuple	tuple = SearchSysCacheCopyAttNum(relid, numbers[i]);

		/* not for a column that was dropped */
		if (tuple != NULL)
			names[i] = CStringGetTextDatum(NameStr(((Form_pg_attribute) GETSTRUCT(tuple))->attname));
	}
	return iblt_array_of(names, n, TEXTOID);
}

PG_FUNCTION_INFO_V1(iblt_live_options);

/*
 * iblt_live_options(regclass) -> tracking: how the table is tracked.  NULL if it
 * is not, or if the caller neither owns it nor may read the digest, which has
 * the seed too.
 */
Datum
iblt_live_options(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	IbltTrackConfig config;
	IbltRow		row = {0};

	if ((!iblt_owns_relation(relid) && !iblt_is_readable(relid, NIL)) ||
		!iblt_config_read(&config, relid, GetActiveSnapshot()))
		PG_RETURN_NULL();
	iblt_column(&row, Int64GetDatum(config.generation), false);
	iblt_column(&row, column_names(config.columns->values, config.nkeys, relid), false);
	iblt_column(&row, column_names(config.columns->values + config.nkeys,
								   config.columns->dim1 - config.nkeys, relid), false);
	iblt_column(&row, BoolGetDatum(config.all_columns), false);
	iblt_column(&row, BoolGetDatum(config.by_hash), false);
	iblt_column(&row, BoolGetDatum(config.from_peer), false);
	iblt_column(&row, Int32GetDatum(config.capacity), false);
	iblt_column(&row, PointerGetDatum(config.template), false);
	return iblt_value_row(fcinfo, &row);
}
