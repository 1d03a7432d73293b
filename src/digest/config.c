/*-------------------------------------------------------------------------
 *
 * config.c
 *	  How a table is tracked: its row in iblt_internal.tracked.
 *
 *-------------------------------------------------------------------------
 */
#include "digest/config.h"

#include "catalog/objectaddress.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "digest/store.h"

/* The items of an array of int2 or oid. */
static void *
read_items(Datum value, Oid type, int *n)
{
	ArrayType  *array = DatumGetArrayTypePCopy(value);

	*n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	if (ARR_HASNULL(array) || ARR_ELEMTYPE(array) != type)
		elog(ERROR, "unexpected array in iblt_internal.tracked");
	return ARR_DATA_PTR(array);
}

static Datum
write_items(const void *items, Oid type, int n)
{
	bool		oids = type == OIDOID;
	Datum	   *values = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		values[i] = oids ? ObjectIdGetDatum(((const Oid *) items)[i])
			: Int16GetDatum(((const int16 *) items)[i]);
	return PointerGetDatum(construct_array(values, n, type, oids ? 4 : 2, true,
										   oids ? 'i' : 's'));
}

bool
iblt_config_read(IbltTrackConfig *config, Oid relid, Snapshot snapshot)
{
	IbltStoreScan scan;
	const Datum *values = scan.values;
	bool		found;
	int			ntypes;

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
		config->keys = read_items(values[TRACKED_KEYS], INT2OID,
								  &config->nkeys);
		config->columns = read_items(values[TRACKED_COLUMNS], INT2OID,
									 &config->ncolumns);
		config->types = read_items(values[TRACKED_TYPES], OIDOID, &ntypes);
		config->parts = read_items(values[TRACKED_PARTS], OIDOID,
								   &config->nparts);
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

void
iblt_config_write(const IbltTrackConfig *config)
{
	Datum		values[IBLT_STORE_WIDTH];
	bool		nulls[IBLT_STORE_WIDTH] = {false};

	values[TRACKED_RELATION] = ObjectIdGetDatum(config->relid);
	values[TRACKED_GENERATION] = Int64GetDatum(config->generation);
	values[TRACKED_VERSION] = Int32GetDatum(config->version);
	values[TRACKED_SYSTEM] = Int64GetDatum(config->system);
	values[TRACKED_DATABASE] = ObjectIdGetDatum(config->database);
	values[TRACKED_STORE] = ObjectIdGetDatum(config->store);
	values[TRACKED_KEYS] = write_items(config->keys, INT2OID, config->nkeys);
	values[TRACKED_COLUMNS] = write_items(config->columns, INT2OID,
										  config->ncolumns);
	values[TRACKED_TYPES] = write_items(config->types, OIDOID,
										config->nkeys + config->ncolumns);
	values[TRACKED_PARTS] = write_items(config->parts, OIDOID, config->nparts);
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

Oid
iblt_config_choose_store(void)
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

	iblt_open(&template, PointerGetDatum(config->template));
	*params = template.params;
	if (config->by_hash)
		coder = iblt_key_coder(INT8OID, CurrentMemoryContext);
	else if (config->nkeys == 1)
		coder = iblt_key_coder(config->types[0], CurrentMemoryContext);
	else
		coder = iblt_key_coder_for_columns(config->nkeys, config->types,
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
								   ObjectIdGetDatum(config->types[i])))
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
