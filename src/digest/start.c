/*-------------------------------------------------------------------------
 *
 * start.c
 *	  The beginning and the end of tracking a table.
 *
 * Both run while the caller holds SHARE ROW EXCLUSIVE on the table and its
 * partitions.  So no transaction that has written to it is in progress.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "digest/config.h"
#include "digest/shape.h"
#include "digest/store.h"
#include "codec/version.h"
#include "relation/rights.h"

/* Lets all sessions look up again how the table is tracked. */
static void
announce(Relation relation)
{
	ListCell   *lc;

	foreach(lc, iblt_shape_tree(relation))
		CacheInvalidateRelcacheByRelid(lfirst_oid(lc));
}

/* The numbers of the columns with these names. */
static AttrNumber *
column_numbers(Relation relation, Datum names, int *n)
{
	AttrNumber *numbers;
	Datum	   *items;
	bool	   *nulls;

	deconstruct_array(DatumGetArrayTypeP(names), TEXTOID, -1, false, 'i',
					  &items, &nulls, n);
	numbers = palloc(sizeof(AttrNumber) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
	{
		char	   *name = nulls[i] ? "" : TextDatumGetCString(items[i]);

		numbers[i] = get_attnum(RelationGetRelid(relation), name);
		if (numbers[i] <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of table \"%s\" does not exist",
							name, RelationGetRelationName(relation))));
	}
	return numbers;
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

/*
 * ERROR for options that no plan of a comparison has: the owner may call
 * iblt_track_begin with any.
 */
static void
check_options(const IbltTrackConfig *config)
{
	IbltSketch	template;
	IbltParams	params;

	iblt_open(&template, PointerGetDatum(config->template));
	if (template.params.key.kind != IBLT_KEY_UNTYPED ||
		template.params.value.limbs > 0 ||
		iblt_core_subtable_count(&template.params) != template.params.hashes)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a digest needs an empty template without values, with all subtables")));
	if (config->nkeys == 0 || config->ncolumns == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a digest needs key columns and columns")));
	iblt_config_params(config, &params);
	iblt_check_params(&params);
}

PG_FUNCTION_INFO_V1(iblt_track_begin);

/*
 * iblt_track_begin(regclass, key_columns text[], columns text[], all_columns
 * boolean, by_hash boolean, from_peer boolean, capacity integer, template
 * iblt) -> bigint: the generation.  From the commit of this transaction on,
 * changes are recorded.
 */
Datum
iblt_track_begin(PG_FUNCTION_ARGS)
{
	Relation	relation = open_own(PG_GETARG_OID(0));
	List	   *parts = iblt_shape_tree(relation);
	IbltTrackConfig config;

	iblt_store_forget(PG_GETARG_OID(0));
	if (!pg_strong_random(&config.generation, sizeof config.generation))
		elog(ERROR, "could not generate a random number");
	config.version = IBLT_TRACK_VERSION;
	config.system = (int64) GetSystemIdentifier();
	config.database = MyDatabaseId;
	config.relid = PG_GETARG_OID(0);
	config.store = iblt_config_choose_store();
	iblt_store_require(iblt_store_tracked());
	iblt_store_require(config.store);
	config.keys = column_numbers(relation, PG_GETARG_DATUM(1), &config.nkeys);
	config.columns = column_numbers(relation, PG_GETARG_DATUM(2),
									&config.ncolumns);
	config.types = palloc(sizeof(Oid) * Max(config.nkeys + config.ncolumns, 1));
	for (int i = 0; i < config.nkeys + config.ncolumns; i++)
		config.types[i] = TupleDescAttr(RelationGetDescr(relation),
										(i < config.nkeys ? config.keys[i]
										 : config.columns[i - config.nkeys]) - 1)->atttypid;
	config.nparts = list_length(parts);
	config.parts = palloc(sizeof(Oid) * config.nparts);
	for (int i = 0; i < config.nparts; i++)
		config.parts[i] = list_nth_oid(parts, i);
	config.trigger = iblt_shape_own_trigger(relation);
	config.all_columns = PG_GETARG_BOOL(3);
	config.by_hash = PG_GETARG_BOOL(4);
	config.from_peer = PG_GETARG_BOOL(5);
	config.capacity = PG_GETARG_INT32(6);
	config.template = PG_GETARG_VARLENA_P(7);
	check_options(&config);
	require_none(relation, iblt_shape_take(relation, &config, &config.shape));
	iblt_config_write(&config);
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
column_names(const AttrNumber *numbers, int n, Oid relid)
{
	Datum	   *names = palloc(sizeof(Datum) * Max(n, 1));
	bool	   *nulls = palloc0(sizeof(bool) * Max(n, 1));
	int			lower = 1;

	for (int i = 0; i < n; i++)
	{
		HeapTuple	tuple = SearchSysCacheCopyAttNum(relid, numbers[i]);

		/* not for a column that was dropped */
		nulls[i] = tuple == NULL;
		names[i] = tuple == NULL ? (Datum) 0
			: CStringGetTextDatum(NameStr(((Form_pg_attribute) GETSTRUCT(tuple))->attname));
	}
	return PointerGetDatum(construct_md_array(names, nulls, 1, &n, &lower,
											  TEXTOID, -1, false, 'i'));
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
	Datum		values[8];
	bool		nulls[8] = {false};

	if ((!iblt_owns_relation(relid) && !iblt_is_readable(relid, NIL)) ||
		!iblt_config_read(&config, relid, GetActiveSnapshot()))
		PG_RETURN_NULL();
	values[0] = Int64GetDatum(config.generation);
	values[1] = column_names(config.keys, config.nkeys, relid);
	values[2] = column_names(config.columns, config.ncolumns, relid);
	values[3] = BoolGetDatum(config.all_columns);
	values[4] = BoolGetDatum(config.by_hash);
	values[5] = BoolGetDatum(config.from_peer);
	values[6] = Int32GetDatum(config.capacity);
	values[7] = PointerGetDatum(config.template);
	return iblt_value_row(fcinfo, values, nulls);
}
