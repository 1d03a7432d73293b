/*-------------------------------------------------------------------------
 *
 * fingerprint.c
 *	  Tells whether a relation is still as iblt_compare has described it.
 *
 * A description is read from the catalogs under a snapshot.  The parser and
 * the planner do not use that snapshot.  They see the columns as of the last
 * ALTER TABLE that was committed.  So this function does not use it either.
 * It reads the relation cache under a lock, as they do.
 *
 * A statement that has the relation in FROM holds a lock on it until the
 * transaction ends.  What this function returns in such a statement is true of
 * the rows that the statement reads.
 *
 * Rows are read under the statement's snapshot, which may be older than the
 * lock: in REPEATABLE READ and SERIALIZABLE as a rule.  If the table was
 * truncated or rewritten in between, the snapshot sees none of its new rows,
 * though the table was never empty.  So the files of the relation and of all
 * that is read with it must be those that the snapshot sees.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "compare/fingerprint.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

void
iblt_fingerprint_begin(StringInfo buf, Oid relid, char kind, Oid am)
{
	initStringInfo(buf);
	appendStringInfo(buf, "%u %c %u", relid, kind, am);
}

/*
 * One line for a column.  The length before the name keeps one name from
 * looking like several columns.
 */
void
iblt_fingerprint_column(StringInfo buf, Form_pg_attribute att)
{
	appendStringInfo(buf, "\n%d %u %d %d %d %d %d %s",
					 att->attnum, att->atttypid, att->atttypmod,
					 att->attnotnull ? 1 : 0, att->attidentity, att->attgenerated,
					 (int) strlen(NameStr(att->attname)), NameStr(att->attname));
}

text *
iblt_fingerprint_end(StringInfo buf)
{
	Datum		bytes = PointerGetDatum(cstring_to_text_with_len(buf->data, buf->len));
	Datum		hash = DirectFunctionCall1(sha256_bytea, bytes);

	return DatumGetTextPP(DirectFunctionCall2(binary_encode, hash,
											  CStringGetTextDatum("hex")));
}

static bool is_current(Oid relid);

/*
 * Does a query read a relation that is not current?  That of a view names the
 * view itself before PostgreSQL 16.
 */
static bool
reads_stale(Node *node, void *context)
{
	Oid		   *view = context;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		return rte->rtekind == RTE_RELATION && rte->relid != *view &&
			!is_current(rte->relid);
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_stale, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_stale, context);
}

static bool
view_is_current(Oid relid)
{
	Relation	view = try_relation_open(relid, AccessShareLock);
	bool		current;

	if (view == NULL)
		return false;
	current = !reads_stale((Node *) get_view_query(view), &relid);
	relation_close(view, AccessShareLock);
	return current;
}

SysScanDesc
iblt_catalog_scan(Relation catalog, Oid index, AttrNumber column, Oid value,
				  Snapshot snapshot)
{
	ScanKeyData key;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(value));
	return systable_beginscan(catalog, index, true, snapshot, 1, &key);
}

List *
iblt_catalog_children(Oid parent, Snapshot snapshot)
{
	Relation	catalog = table_open(InheritsRelationId, AccessShareLock);
	SysScanDesc scan = iblt_catalog_scan(catalog, InheritsParentIndexId,
										 Anum_pg_inherits_inhparent, parent,
										 snapshot);
	List	   *found = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = lappend_oid(found, ((Form_pg_inherits) GETSTRUCT(tuple))->inhrelid);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/*
 * Are the partitions and children that the snapshot sees current?  In READ
 * COMMITTED another one may be attached after the snapshot was taken.  That
 * was after the statement was planned, so the statement does not read it.
 */
static bool
children_are_current(Oid parent)
{
	List	   *seen = iblt_catalog_children(parent, GetActiveSnapshot());
	ListCell   *lc;

	if (IsolationUsesXactSnapshot())
	{
		List	   *now = iblt_catalog_children(parent, NULL);

		if (list_difference_oid(now, seen) != NIL ||
			list_difference_oid(seen, now) != NIL)
			return false;
	}
	foreach(lc, seen)
		if (!is_current(lfirst_oid(lc)))
			return false;
	return true;
}

bool
iblt_catalog_class(Oid relid, Snapshot snapshot, FormData_pg_class *class)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = iblt_catalog_scan(catalog, ClassOidIndexId,
										 Anum_pg_class_oid, relid, snapshot);
	HeapTuple	tuple = systable_getnext(scan);

	if (HeapTupleIsValid(tuple))
		memcpy(class, GETSTRUCT(tuple), CLASS_TUPLE_SIZE);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return HeapTupleIsValid(tuple);
}

/*
 * Has a relation, with all that is read with it, the files that the
 * statement's snapshot sees?  A table that was created later has none of
 * these.
 */
static bool
is_current(Oid relid)
{
	FormData_pg_class now;
	FormData_pg_class seen;

	CHECK_FOR_INTERRUPTS();
	check_stack_depth();
	if (!iblt_catalog_class(relid, NULL, &now) ||
		!iblt_catalog_class(relid, GetActiveSnapshot(), &seen) ||
		now.relfilenode != seen.relfilenode || now.relkind != seen.relkind)
		return false;
	if (now.relkind == RELKIND_VIEW)
		return view_is_current(relid);
	if (now.relkind == RELKIND_RELATION || now.relkind == RELKIND_FOREIGN_TABLE ||
		now.relkind == RELKIND_PARTITIONED_TABLE)
		return children_are_current(relid);
	return true;
}

PG_FUNCTION_INFO_V1(iblt_compare_fingerprint);

/*
 * iblt_compare_fingerprint(regclass) -> text: a hash of what a comparison
 * relies on, as iblt_describe makes it from the catalogs.
 * NULL if the relation does not exist, and another text if the statement's
 * snapshot does not see the files that it reads.
 */
Datum
iblt_compare_fingerprint(PG_FUNCTION_ARGS)
{
	Relation	relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	StringInfoData buf;
	int			i;

	if (relation == NULL)
		PG_RETURN_NULL();
	iblt_fingerprint_begin(&buf, RelationGetRelid(relation),
						   relation->rd_rel->relkind, relation->rd_rel->relam);
	for (i = 0; i < RelationGetDescr(relation)->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(relation), i);

		if (!att->attisdropped)
			iblt_fingerprint_column(&buf, att);
	}
	relation_close(relation, AccessShareLock);
	if (!is_current(PG_GETARG_OID(0)))
		PG_RETURN_TEXT_P(cstring_to_text("rewritten"));
	PG_RETURN_TEXT_P(iblt_fingerprint_end(&buf));
}
