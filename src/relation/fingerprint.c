/*
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
 * The snapshot may also be newer than what is read.  The planner looks the
 * partitions up, and waits for a lock on each.  The transaction that it waits
 * for may move rows to another partition and attach that.  Then the snapshot
 * sees that rows have gone, and the statement does not read where they are.
 * So what the planner will find is looked up before, and must be what the
 * snapshot sees.
 */
#include "relation/relation.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/*
 * One line for a column.  The length before the name keeps one name from
 * looking like several columns.
 */
text *
iblt_fingerprint(Oid relid, char kind, Oid am, List *columns)
{
	StringInfoData buf;
	ListCell   *lc;
	Datum		hash;

	initStringInfo(&buf);
	appendStringInfo(&buf, "%u %c %u", relid, kind, am);
	foreach(lc, columns)
	{
		Form_pg_attribute att = lfirst(lc);

		appendStringInfo(&buf, "\n%d %u %d %u %d %d %d %d %s",
						 att->attnum, att->atttypid, att->atttypmod, att->attcollation,
						 att->attnotnull ? 1 : 0, att->attidentity, att->attgenerated,
						 (int) strlen(NameStr(att->attname)), NameStr(att->attname));
	}
	hash = DirectFunctionCall1(sha256_bytea,
							   PointerGetDatum(cstring_to_text_with_len(buf.data, buf.len)));
	return DatumGetTextPP(DirectFunctionCall2(binary_encode, hash,
											  CStringGetTextDatum("hex")));
}

char *
iblt_server_started(void)
{
	Datum		started = DirectFunctionCall2(extract_timestamptz, CStringGetTextDatum("epoch"),
											  TimestampTzGetDatum(PgStartTime));

	return DatumGetCString(DirectFunctionCall1(numeric_out, started));
}

List *
iblt_catalog_rows(Oid catalog, Oid index, AttrNumber column, Oid value,
				  Snapshot snapshot)
{
	Relation	relation = table_open(catalog, AccessShareLock);
	List	   *rows = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(value));
	scan = systable_beginscan(relation, index, true, snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		rows = lappend(rows, heap_copytuple(tuple));
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return rows;
}

List *
iblt_catalog_children(Oid parent, Snapshot snapshot)
{
	List	   *rows = iblt_catalog_rows(InheritsRelationId, InheritsParentIndexId,
										 Anum_pg_inherits_inhparent, parent, snapshot);
	List	   *found = NIL;
	ListCell   *lc;

	foreach(lc, rows)
		found = lappend_oid(found, ((Form_pg_inherits) GETSTRUCT((HeapTuple) lfirst(lc)))->inhrelid);
	list_free_deep(rows);
	list_sort(found, list_oid_cmp);
	return found;
}

bool
iblt_catalog_class(Oid relid, Snapshot snapshot, FormData_pg_class *class)
{
	List	   *rows = iblt_catalog_rows(RelationRelationId, ClassOidIndexId,
										 Anum_pg_class_oid, relid, snapshot);
	bool		found = rows != NIL;

	if (found)
		memcpy(class, GETSTRUCT((HeapTuple) linitial(rows)), CLASS_TUPLE_SIZE);
	/* a view that names another one twice, and so on, has many */
	list_free_deep(rows);
	return found;
}

static bool
collect_relations(Node *node, void *context)
{
	List	  **found = context;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		if (((RangeTblEntry *) node)->rtekind == RTE_RELATION)
			*found = lappend(*found, node);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, collect_relations, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, collect_relations, context);
}

List *
iblt_view_relations(Relation view)
{
	List	   *found = NIL;
	List	   *others = NIL;
	ListCell   *lc;

	(void) collect_relations((Node *) get_view_query(view), &found);
	/* before PostgreSQL 16, the query of a view names the view itself */
	foreach(lc, found)
		if (((RangeTblEntry *) lfirst(lc))->relid != RelationGetRelid(view))
			others = lappend(others, lfirst(lc));
	return others;
}

/*
 * Appends the files of a relation, as a snapshot sees them or as they are now, and those of
 * all that is read with it: partitions, children, and what a view reads.
 */
static void
append_relation(StringInfo text, Oid relid, Snapshot snapshot)
{
	FormData_pg_class class = {0};
	ListCell   *lc;

	CHECK_FOR_INTERRUPTS();
	check_stack_depth();
	(void) iblt_catalog_class(relid, snapshot, &class);
	appendStringInfo(text, " %u %u %d", relid, class.relfilenode, class.relkind);
	if (class.relkind == RELKIND_VIEW)
	{
		Relation	view = try_relation_open(relid, AccessShareLock);

		if (view == NULL)
			return;
		foreach(lc, iblt_view_relations(view))
			append_relation(text, ((RangeTblEntry *) lfirst(lc))->relid, snapshot);
		relation_close(view, AccessShareLock);
	}
	else if (class.relhassubclass)
	{
		appendStringInfoChar(text, '(');
		foreach(lc, iblt_catalog_children(relid, snapshot))
			append_relation(text, lfirst_oid(lc), snapshot);
		appendStringInfoChar(text, ')');
	}
}

/* What a statement with a relation in FROM reads, as a text. */
static char *
what_is_read(Oid relid, Snapshot snapshot)
{
	StringInfoData text;

	initStringInfo(&text);
	append_relation(&text, relid, snapshot);
	return text.data;
}

PG_FUNCTION_INFO_V1(iblt_compare_fingerprint_support);

/*
 * Planner support of iblt_compare_fingerprint: its second argument becomes
 * what the relation is made of, before the planner looks that up.
 */
Datum
iblt_compare_fingerprint_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	FuncExpr   *call;
	Const	   *relation;
	char	   *text;

	if (!IsA(request, SupportRequestSimplify))
		PG_RETURN_POINTER(NULL);
	call = ((SupportRequestSimplify *) request)->fcall;
	relation = linitial(call->args);
	if (!IsA(relation, Const) || relation->constisnull ||
		!IsA(lsecond(call->args), Const) || !((Const *) lsecond(call->args))->constisnull)
		PG_RETURN_POINTER(NULL);
	text = what_is_read(DatumGetObjectId(relation->constvalue), NULL);
	call = copyObject(call);
	lsecond(call->args) = makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1,
									CStringGetTextDatum(text), false, false);
	PG_RETURN_POINTER(call);
}

text *
iblt_fingerprint_now(Relation relation)
{
	TupleDesc	desc = RelationGetDescr(relation);
	List	   *columns = NIL;

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			columns = lappend(columns, TupleDescAttr(desc, i));
	return iblt_fingerprint(RelationGetRelid(relation), relation->rd_rel->relkind,
							relation->rd_rel->relam, columns);
}

PG_FUNCTION_INFO_V1(iblt_compare_fingerprint);

/*
 * iblt_compare_fingerprint(regclass, planned text) -> text: a hash of what a
 * comparison relies on, as iblt_describe makes it from the catalogs.
 * NULL if the relation does not exist, and another text if the statement's
 * snapshot does not see what the planner has found, or without that, what is
 * there now.
 */
Datum
iblt_compare_fingerprint(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0);
	Relation	relation = try_relation_open(relid, AccessShareLock);
	text	   *fingerprint;
	const char *planned;

	if (relation == NULL)
		PG_RETURN_NULL();
	fingerprint = iblt_fingerprint_now(relation);
	relation_close(relation, AccessShareLock);
	planned = PG_ARGISNULL(1) ? what_is_read(relid, NULL) : text_to_cstring(PG_GETARG_TEXT_PP(1));
	if (strcmp(planned, what_is_read(relid, GetActiveSnapshot())) != 0)
		PG_RETURN_TEXT_P(cstring_to_text("rewritten"));
	PG_RETURN_TEXT_P(fingerprint);
}
