/*-------------------------------------------------------------------------
 *
 * store.c
 *	  The relations that keep runs.
 *
 *-------------------------------------------------------------------------
 */
#include "run/store.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

const char *const iblt_run_stores[] = {
	"run_head", "run_table", "run_slice", "run_difference", "run_range"
};

Oid
iblt_run_store_oid(const char *name)
{
	Oid			schema = get_namespace_oid("iblt_internal", false);

	return get_relname_relid(name, schema);
}

Relation
iblt_run_store_open(Oid row_type, LOCKMODE lock)
{
	Oid			store = get_typ_typrelid(row_type);
	bool		found = false;
	Relation	relation;

	for (int i = 0; i < (int) lengthof(iblt_run_stores); i++)
		found |= OidIsValid(store) && iblt_run_store_oid(iblt_run_stores[i]) == store;
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("type %s is not that of a store of runs",
						format_type_be(row_type))));
	relation = relation_open(store, lock);
	if (relation->rd_rel->relkind != RELKIND_MATVIEW ||
		relation->rd_tableam != GetHeapamTableAmRoutine())
		elog(ERROR, "\"%s\" is not a heap", RelationGetRelationName(relation));
	return relation;
}

void
iblt_run_scan_begin(IbltRunScan *scan, Relation store,
					const IbltRunFilter *filter)
{
	scan->store = store;
	scan->filter = filter;
	scan->snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan->scan = table_beginscan_strat(store, scan->snapshot, 0, NULL, true, true);
}

bool
iblt_run_is_head(Relation store)
{
	return RelationGetRelid(store) == iblt_run_store_oid("run_head");
}

bool
iblt_run_matches(HeapTuple tuple, TupleDesc desc, const IbltRunFilter *filter)
{
	Oid			owner;
	bool		isnull;

	/* REFRESH MATERIALIZED VIEW leaves a row of nulls */
	if (heap_attisnull(tuple, RUN_RUN + 1, desc))
		return false;
#define PREFIX(n) heap_getattr(tuple, (n) + 1, desc, &isnull)
	/* a number without a run has no owner */
	owner = DatumGetObjectId(PREFIX(RUN_OWNER));
	return (filter->any_run ||
			DatumGetInt64(PREFIX(RUN_RUN)) == filter->run) &&
		(filter->any_table_number ||
		 DatumGetInt32(PREFIX(RUN_TABLE_NUMBER)) == filter->table_number) &&
		(filter->any_number ||
		 DatumGetInt64(PREFIX(RUN_NUMBER)) == filter->number) &&
		(filter->all || (filter->own ? owner == GetUserId()
						 : OidIsValid(owner) && has_privs_of_role(GetUserId(), owner)));
#undef PREFIX
}

HeapTuple
iblt_run_scan_next(IbltRunScan *scan)
{
	TupleDesc	desc = RelationGetDescr(scan->store);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan->scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (iblt_run_matches(tuple, desc, scan->filter))
			return tuple;
	}
	return NULL;
}

/* The lock on the store is kept until the transaction ends. */
void
iblt_run_scan_end(IbltRunScan *scan)
{
	table_endscan(scan->scan);
	UnregisterSnapshot(scan->snapshot);
}
