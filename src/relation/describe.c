/*
 * describe.c
 *	  What the catalogs say of a relation that is compared.
 *
 * In SQL this takes a dozen statements.  Each session plans them before its
 * first comparison, which takes longer than all else in it.
 *
 * The rows of the catalogs that decide are read under the statement's
 * snapshot, as a query would read them, and not from the caches.  Every later
 * statement returns a fingerprint that must be the one of these rows.
 */
#include "sketch/iblt.h"

#include "relation/relation.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_subscription_rel.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* What is described, and what has been read of it. */
typedef struct Described
{
	Oid			relid;
	FormData_pg_class class;
	List	   *columns;		/* of Form_pg_attribute, in the order of their numbers */
	ArrayType  *ordered;		/* types that sort alike on all servers */
	bool		more;			/* does describe() look further? */
} Described;

/* Keys: the unique indexes that tell the rows of a relation apart */

/* A unique index on columns that are not null. */
typedef struct UniqueKey
{
	HeapTuple	index;			/* of pg_index */
	List	   *columns;		/* of Form_pg_attribute */
} UniqueKey;

/*
 * May a column hold nulls, although it is NOT NULL?  From PostgreSQL 18 on, a
 * constraint NOT VALID sets attnotnull.
 */
static bool
may_hold_nulls(Form_pg_attribute att)
{
	bool		found = false;
#if PG_VERSION_NUM >= 180000
	ListCell   *lc;

	foreach(lc, iblt_catalog_rows(ConstraintRelationId, ConstraintRelidTypidNameIndexId,
								  Anum_pg_constraint_conrelid, att->attrelid,
								  GetActiveSnapshot()))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT((HeapTuple) lfirst(lc));

		if (form->contype == CONSTRAINT_NOTNULL && !form->convalidated &&
			extractNotNullColumn(lfirst(lc)) == att->attnum)
			found = true;
	}
#endif
	return found || !att->attnotnull;
}

/* The columns of an index, NIL if one may hold nulls or is not a column. */
static List *
key_columns(Described *d, Form_pg_index index)
{
	List	   *found = NIL;

	for (int i = 0; i < index->indnkeyatts; i++)
	{
		ListCell   *lc;

		foreach(lc, d->columns)
			if (((Form_pg_attribute) lfirst(lc))->attnum == index->indkey.values[i] &&
				!may_hold_nulls(lfirst(lc)))
				found = lappend(found, lfirst(lc));
		if (list_length(found) != i + 1)
			return NIL;
	}
	return found;
}

/* The best first: the primary key, and then few columns. */
static int
by_merit(const ListCell *a, const ListCell *b)
{
	const UniqueKey *x = lfirst(a);
	const UniqueKey *y = lfirst(b);
	Form_pg_index i = (Form_pg_index) GETSTRUCT(x->index);
	Form_pg_index j = (Form_pg_index) GETSTRUCT(y->index);

	if (i->indisprimary != j->indisprimary)
		return i->indisprimary ? -1 : 1;
	if (list_length(x->columns) != list_length(y->columns))
		return list_length(x->columns) - list_length(y->columns);
	return i->indexrelid < j->indexrelid ? -1 : 1;
}

/* Is it a default operator class, of a type that sorts alike everywhere? */
static bool
sorts_alike(Described *d, Oid class)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(class));
	Oid			type = InvalidOid;
	const Oid  *types = (const Oid *) ARR_DATA_PTR(d->ordered);

	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_opclass) GETSTRUCT(tuple))->opcdefault)
		type = ((Form_pg_opclass) GETSTRUCT(tuple))->opcintype;
	ReleaseSysCache(tuple);
	for (int i = 0; i < ARR_DIMS(d->ordered)[0]; i++)
		if (types[i] == type)
			return true;
	return false;
}

/* A vector of pg_index behind indkey.  It is never null. */
static void *
index_vector(HeapTuple index, AttrNumber number)
{
	bool		isnull;

	return DatumGetPointer(SysCacheGetAttr(INDEXRELID, index, number, &isnull));
}

/* Are all columns of an index sorted in an order that needs no words? */
static bool
is_ordered(Described *d, UniqueKey *key)
{
	const oidvector *classes = index_vector(key->index, Anum_pg_index_indclass);
	const oidvector *collations = index_vector(key->index, Anum_pg_index_indcollation);
	const int2vector *flags = index_vector(key->index, Anum_pg_index_indoption);

	for (int i = 0; i < list_length(key->columns); i++)
		if (OidIsValid(collations->values[i]) ||
			(flags->values[i] & INDOPTION_DESC) != (flags->values[0] & INDOPTION_DESC) ||
			!sorts_alike(d, classes->values[i]))
			return false;
	return true;
}

/*
 * An index as unique_key in SQL.  Of any other order than that of numbers and
 * the like, where there is the number "own", describe_order tells more.
 */
static void
append_key(StringInfo json, Described *d, UniqueKey *key)
{
	Oid			index = ((Form_pg_index) GETSTRUCT(key->index))->indexrelid;
	ListCell   *lc;

	appendStringInfoString(json, "{\"columns\": [");
	foreach(lc, key->columns)
	{
		appendStringInfoString(json, foreach_current_index(lc) == 0 ? "" : ", ");
		escape_json(json, NameStr(((Form_pg_attribute) lfirst(lc))->attname));
	}
	appendStringInfoChar(json, ']');
	if (is_ordered(d, key))
	{
		FormData_pg_class class;

		iblt_catalog_class(index, GetActiveSnapshot(), &class);
		appendStringInfoString(json, ", \"index\": ");
		escape_json(json, quote_qualified_identifier(get_namespace_name(class.relnamespace),
													 NameStr(class.relname)));
		appendStringInfoString(json, ", \"orders\": [\"\"");
		for (int i = 1; i < list_length(key->columns); i++)
			appendStringInfoString(json, ", \"\"");
		appendStringInfoString(json, "]}");
	}
	else
	{
		d->more = true;
		appendStringInfo(json, ", \"own\": %u}", index);
	}
}

/* Appends the field "keys". */
static void
append_keys(StringInfo json, Described *d)
{
	List	   *keys = NIL;
	ListCell   *lc;

	foreach(lc, iblt_catalog_rows(IndexRelationId, IndexIndrelidIndexId,
								  Anum_pg_index_indrelid, d->relid,
								  GetActiveSnapshot()))
	{
		HeapTuple	tuple = lfirst(lc);
		Form_pg_index index = (Form_pg_index) GETSTRUCT(tuple);
		List	   *columns = key_columns(d, index);
		FormData_pg_class class;

		if (columns != NIL && index->indisunique && index->indisvalid &&
			heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
			heap_attisnull(tuple, Anum_pg_index_indexprs, NULL) &&
			iblt_catalog_class(index->indexrelid, GetActiveSnapshot(), &class) &&
			class.relam == BTREE_AM_OID)
		{
			UniqueKey  *key = palloc(sizeof(UniqueKey));

			key->index = tuple;
			key->columns = columns;
			keys = lappend(keys, key);
		}
	}
	list_sort(keys, by_merit);
	appendStringInfoString(json, ", \"keys\": [");
	foreach(lc, keys)
	{
		appendStringInfoString(json, foreach_current_index(lc) == 0 ? "" : ", ");
		append_key(json, d, lfirst(lc));
	}
	appendStringInfoChar(json, ']');
}

/* Storage */

/* At most so many rows.  A heap page holds at most a tuple for each 28 bytes. */
static int64
most_rows(Oid relid)
{
	Relation	relation = try_relation_open(relid, AccessShareLock);
	int64		size = 0;

	if (relation == NULL)
		return 0;
	if (RELKIND_HAS_STORAGE(relation->rd_rel->relkind))
		size = (int64) RelationGetNumberOfBlocks(relation) * BLCKSZ;
	relation_close(relation, AccessShareLock);
	return size / 28;
}

/* Has this server a replication slot or a subscription? */
static bool
replicates(void)
{
	Relation	catalog;
	SysScanDesc scan;
	bool		any = false;

	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots; i++)
		any |= ReplicationSlotCtl->replication_slots[i].in_use;
	LWLockRelease(ReplicationSlotControlLock);
	if (any)
		return true;
	catalog = table_open(SubscriptionRelRelationId, AccessShareLock);
	scan = systable_beginscan(catalog, InvalidOid, false, GetActiveSnapshot(), 0, NULL);
	any = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return any;
}

/*
 * Whether rows have versions, and an upper bound of their number, from all
 * relations of the tree that have rows.  And whether unique indexes are of all
 * rows.
 */
static void
append_storage(StringInfo json, Described *d)
{
	List	   *tree = list_make1_oid(d->relid);
	int			leaves = 0;
	bool		versions = true;
	bool		ordinary;
	int64		rows = 0;

	for (int i = 0; i < list_length(tree); i++)
	{
		Oid			relid = list_nth_oid(tree, i);
		FormData_pg_class class;

		CHECK_FOR_INTERRUPTS();
		if (!iblt_catalog_class(relid, GetActiveSnapshot(), &class))
			continue;
		tree = list_concat_unique_oid(tree, iblt_catalog_children(relid, GetActiveSnapshot()));
		if (class.relkind == RELKIND_PARTITIONED_TABLE)
			continue;
		leaves++;
		versions &= class.relam == HEAP_TABLE_AM_OID;
		if (versions)
			rows += most_rows(relid);
	}
	appendStringInfo(json, ", \"versions\": %s, \"most_rows\": ", versions ? "true" : "false");
	if (leaves > 0 && versions)
		appendStringInfo(json, INT64_FORMAT, rows);
	else
		appendStringInfoString(json, "null");
	/* relhassubclass stays true when the last child goes */
	ordinary = d->class.relkind == RELKIND_PARTITIONED_TABLE ||
		(d->class.relkind == RELKIND_RELATION && list_length(tree) == 1);
	appendStringInfo(json, ", \"ordinary\": %s", ordinary ? "true" : "false");
	/*
	 * Of replication and other servers, what is true of a table without children where there is
	 * no slot, no subscription and no Citus.  Otherwise describe() tells of them, by queries that
	 * take long to plan.
	 */
	if (!ordinary || d->class.relkind != RELKIND_RELATION || replicates() ||
		OidIsValid(get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE)))
		d->more = true;
	appendStringInfoString(json, ", \"remote\": false, \"shards\": [], \"distributed\": false"
						   ", \"slots\": [], \"subscriptions\": [], \"collations\": []");
}

/* Rights and the server */

/*
 * May the role read row versions?  A right to columns is not a right to these,
 * which views do not have.  Without any right, reading says what is missing.
 */
static bool
version_rights(Described *d)
{
	return (d->class.relkind == RELKIND_RELATION || d->class.relkind == RELKIND_MATVIEW ||
			d->class.relkind == RELKIND_PARTITIONED_TABLE) &&
		(pg_attribute_aclcheck_all(d->relid, GetUserId(), ACL_SELECT, ACLMASK_ANY) != ACLCHECK_OK ||
		 iblt_has_rights(d->relid, list_make3("tableoid", "ctid", "xmin")));
}

PG_FUNCTION_INFO_V1(iblt_relation_name);

/* iblt_relation_name(relation) -> text: its name with its schema, quoted; NULL if it does not exist */
Datum
iblt_relation_name(PG_FUNCTION_ARGS)
{
	char	   *name = get_rel_name(PG_GETARG_OID(0));
	char	   *schema = name == NULL ? NULL : get_namespace_name(get_rel_namespace(PG_GETARG_OID(0)));

	if (schema == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(quote_qualified_identifier(schema, name)));
}

PG_FUNCTION_INFO_V1(iblt_describe);

/* iblt_describe(relation, ordered_types) -> jsonb */
Datum
iblt_describe(PG_FUNCTION_ARGS)
{
	Described	d = {.relid = PG_GETARG_OID(0), .ordered = PG_GETARG_ARRAYTYPE_P(1)};
	StringInfoData json;
	ListCell   *lc;
	char	   *schema;

	if (ARR_NDIM(d.ordered) != 1 || ARR_HASNULL(d.ordered) ||
		ARR_ELEMTYPE(d.ordered) != OIDOID)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("types must be a list of OIDs")));
	if (!iblt_catalog_class(d.relid, GetActiveSnapshot(), &d.class) ||
		(schema = get_namespace_name(d.class.relnamespace)) == NULL)
		PG_RETURN_NULL();
	foreach(lc, iblt_catalog_rows(AttributeRelationId, AttributeRelidNumIndexId,
								  Anum_pg_attribute_attrelid, d.relid, GetActiveSnapshot()))
	{
		Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT((HeapTuple) lfirst(lc));

		if (att->attnum > 0 && !att->attisdropped)
			d.columns = lappend(d.columns, att);
	}
	initStringInfo(&json);
	appendStringInfoString(&json, "{\"relation\": ");
	escape_json(&json, quote_qualified_identifier(schema, NameStr(d.class.relname)));
	/* standbys have their primary's identifier */
	appendStringInfo(&json, ", \"kind\": \"%c\", \"version_rights\": %s, \"recovery\": %s"
					 ", \"identity\": \"%s %u %u\"",
					 d.class.relkind, version_rights(&d) ? "true" : "false",
					 RecoveryInProgress() ? "true" : "false",
					 iblt_server_started(), MyDatabaseId, d.relid);
	if (iblt_function_aclcheck(F_PG_CONTROL_SYSTEM) == ACLCHECK_OK)
		appendStringInfo(&json, ", \"system\": \"" INT64_FORMAT "\"",
						 (int64) GetSystemIdentifier());
	else
		appendStringInfoString(&json, ", \"system\": null");
	appendStringInfo(&json, ", \"fingerprint\": \"%s\", \"columns\": [",
					 text_to_cstring(iblt_fingerprint(d.relid, d.class.relkind, d.class.relam,
													  d.columns)));
	foreach(lc, d.columns)
	{
		Form_pg_attribute att = lfirst(lc);

		/* as side_column in SQL */
		appendStringInfo(&json, "%s{\"name\": ", foreach_current_index(lc) == 0 ? "" : ", ");
		escape_json(&json, NameStr(att->attname));
		appendStringInfoString(&json, ", ");
		iblt_append_type(&json, att->atttypid, att->atttypmod);
		appendStringInfo(&json, ", \"not_null\": %s}", att->attnotnull ? "true" : "false");
	}
	appendStringInfoChar(&json, ']');
	append_keys(&json, &d);
	append_storage(&json, &d);
	appendStringInfo(&json, ", \"more\": %s}", d.more ? "true" : "false");
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data)));
}
