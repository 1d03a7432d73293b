/*
 * read.c
 *	  Locks what a statement is about to read.
 *
 * Everything is checked under the lock, which lasts until the transaction ends:
 * that the relation is the one that was described, and of a view that another
 * role owns, that it calls no volatile function.  Almost all functions of
 * PostgreSQL that write files, connect to servers or change settings are volatile.
 * guard.c refuses the functions of other roles when they are called.
 */
#include "sketch/iblt.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "rewrite/rewriteHandler.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

#include "codec/version.h"
#include "relation/fingerprint.h"
#include "relation/guard.h"

/* --- may a view run code of other roles that guard.c does not see? --------------- */

/*
 * The functions of a view run as the role that reads it.  guard.c refuses those of
 * other roles when they are called.  An aggregate is not called, only its
 * functions are, and they may be any of PostgreSQL's or of an extension, such as
 * dblink_exec.  The same is true of the constraints of a domain.  PostgreSQL takes
 * every aggregate for immutable, and does not look into domains.
 *
 * What belongs to a superuser or to the role itself is trusted.
 */

/*
 * These read whatever relation they are given, perhaps a foreign table or a view,
 * and are not volatile.
 */
static const Oid readers[] = {
	F_TABLE_TO_XML, F_TABLE_TO_XML_AND_XMLSCHEMA, F_SCHEMA_TO_XML, F_SCHEMA_TO_XML_AND_XMLSCHEMA,
	F_DATABASE_TO_XML, F_DATABASE_TO_XML_AND_XMLSCHEMA
};

/*
 * No other function of PostgreSQL that is not volatile runs what it is given.  One of
 * an extension may, as crosstab does, unless it is immutable.
 */
static bool
is_risky(Oid function, void *context)
{
	bool		own = *(bool *) context;
	HeapTuple	tuple;
	Form_pg_proc proc;
	bool		risky;

	if (function < FirstNormalObjectId)
	{
		risky = func_volatile(function) == PROVOLATILE_VOLATILE;
		for (int i = 0; i < (int) lengthof(readers); i++)
			risky |= function == readers[i];
		return !own && risky;
	}
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return true;
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	risky = (!own && proc->provolatile != PROVOLATILE_IMMUTABLE) ||
		((proc->prokind == PROKIND_AGGREGATE || proc->prokind == PROKIND_WINDOW) &&
		 !iblt_guard_trusts(proc->proowner));
	ReleaseSysCache(tuple);
	return risky;
}

/*
 * Could making a value of the type run code of another role?  No lock keeps what a
 * domain or a composite type is now, so its owner may still give it a constraint.
 */
static bool
type_runs_code(Oid type)
{
	HeapTuple	tuple;
	FormData_pg_type form;
	Oid			part;

	check_stack_depth();
	if (type < FirstNormalObjectId)
		return false;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		return true;
	form = *(Form_pg_type) GETSTRUCT(tuple);
	ReleaseSysCache(tuple);
	if ((form.typtype == TYPTYPE_DOMAIN || form.typtype == TYPTYPE_COMPOSITE) &&
		!iblt_guard_trusts(form.typowner))
		return true;
	if (form.typtype == TYPTYPE_COMPOSITE)
	{
		TupleDesc	columns = lookup_rowtype_tupdesc_copy(type, -1);

		for (int i = 0; i < columns->natts; i++)
			if (!TupleDescAttr(columns, i)->attisdropped &&
				type_runs_code(TupleDescAttr(columns, i)->atttypid))
				return true;
	}
	part = form.typtype == TYPTYPE_DOMAIN ? form.typbasetype : iblt_codec_type_part(type);
	return OidIsValid(part) && type_runs_code(part);
}

static bool
types_run_code(List *types)
{
	ListCell   *lc;

	foreach(lc, types)
		if (type_runs_code(lfirst_oid(lc)))
			return true;
	return false;
}

/* Does a node other than a function say that values of a type are to be made? */
static bool
makes_values(Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
		case T_OpExpr:
		case T_CoerceViaIO:
		case T_CoerceToDomain:
		case T_Aggref:
		case T_WindowFunc:
			return type_runs_code(exprType(node));
		case T_RangeTblFunction:
			return types_run_code(((RangeTblFunction *) node)->funccoltypes);
		case T_TableFunc:
			return types_run_code(((TableFunc *) node)->coltypes);
		default:
			return (iblt_is_json_query(node) || iblt_is_json_constructor(node)) &&
				type_runs_code(exprType(node));
	}
}

static bool
runs_code(Node *node, void *context)
{
	if (node == NULL)
		return false;
	check_stack_depth();
	if (check_functions_in_node(node, is_risky, context) || makes_values(node))
		return true;
	if (!*(bool *) context && IsA(node, NextValueExpr))
		return true;
	if (IsA(node, RangeTblEntry))
	{
		ListCell   *lc;

		foreach(lc, ((RangeTblEntry *) node)->functions)
			if (makes_values(lfirst(lc)))
				return true;
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, runs_code, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, runs_code, context);
}

/* --- locks ---------------------------------------------------------------------- */

/*
 * Before a relation is locked: may the role read it at all?  A lock that waits for
 * the right to read would hold up others.
 */
static void
check_rights(const RangeVar *name, Oid relid, Oid old, void *arg)
{
	AclResult	result;

	(void) old;
	(void) arg;
	if (!OidIsValid(relid))
		return;
	result = pg_class_aclcheck(relid, GetUserId(), ACL_SELECT);
	if (result != ACLCHECK_OK)
		result = pg_attribute_aclcheck_all(relid, GetUserId(), ACL_SELECT, ACLMASK_ANY);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)), name->relname);
}

/* Of a fingerprint, only these are sent. */
#define DIGITS 32

/* Closes a view that is locked, and lets it be read.  Locks the views that it reads. */
static void
lock_view(Relation view)
{
	bool		own = iblt_guard_trusts(view->rd_rel->relowner);
	ListCell   *lc;

	check_stack_depth();
	if (view->rd_rel->relkind == RELKIND_VIEW)
	{
		if (runs_code((Node *) get_view_query(view), &own))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("refusing to read view \"%s\" of role \"%s\"",
							RelationGetRelationName(view),
							GetUserNameFromId(view->rd_rel->relowner, true)),
					 errdetail("It would run code of another role as role \"%s\".",
							   GetUserNameFromId(GetUserId(), true)),
					 errhint("Compare as its owner, or compare the tables that it reads.")));
		iblt_guard_allow(RelationGetRelid(view));
		foreach(lc, iblt_view_relations(view))
		{
			const RangeTblEntry *rte = lfirst(lc);
			Relation	inner = rte->relkind != RELKIND_VIEW ? NULL
				: try_relation_open(rte->relid, AccessShareLock);

			if (inner != NULL)
				lock_view(inner);
		}
	}
	relation_close(view, NoLock);
}

PG_FUNCTION_INFO_V1(iblt_read_lock);

/* iblt_read_lock(relation, server, fingerprint, views) -> boolean */
Datum
iblt_read_lock(PG_FUNCTION_ARGS)
{
	Relation	relation = NULL;
	text	   *found;
	Oid			relid = InvalidOid;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	iblt_guard_read(!PG_ARGISNULL(3) && PG_GETARG_BOOL(3));
	/* behind a pooler there may be several servers */
	if (PG_ARGISNULL(1) ||
		strcmp(text_to_cstring(PG_GETARG_TEXT_PP(1)), iblt_server_started()) == 0)
		relid = RangeVarGetRelidExtended(makeRangeVarFromNameList(
										 textToQualifiedNameList(PG_GETARG_TEXT_PP(0))),
										 AccessShareLock, RVR_MISSING_OK, check_rights, NULL);
	if (OidIsValid(relid))
		relation = try_relation_open(relid, NoLock);
	if (relation == NULL)
		PG_RETURN_BOOL(false);
	found = iblt_fingerprint_now(relation);
	if (!PG_ARGISNULL(2) && strncmp(text_to_cstring(found), text_to_cstring(PG_GETARG_TEXT_PP(2)), DIGITS) != 0)
	{
		relation_close(relation, NoLock);
		PG_RETURN_BOOL(false);
	}
	lock_view(relation);
	PG_RETURN_BOOL(true);
}
