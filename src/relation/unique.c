/*-------------------------------------------------------------------------
 *
 * unique.c
 *	  The unique indexes that tell the rows of a relation apart, for its
 *	  description.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "relation/describe.h"
#include "relation/fingerprint.h"

#include "access/htup_details.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

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

void
iblt_describe_keys(StringInfo json, Described *d)
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
