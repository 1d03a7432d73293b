/*-------------------------------------------------------------------------
 *
 * view.c
 *	  May a view run code of other roles that guard.c does not see?
 *
 * The functions of a view run as the role that reads it.  guard.c refuses those of
 * other roles when they are called.  An aggregate is not called, only its
 * functions are, and they may be any of PostgreSQL's or of an extension, such as
 * dblink_exec.  The same is true of the constraints of a domain.  PostgreSQL takes
 * every aggregate for immutable, and does not look into domains.
 *
 * What belongs to a superuser or to the role itself is trusted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "relation/view.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "codec/version.h"
#include "relation/guard.h"

/*
 * These read whatever relation they are given, perhaps a foreign table or a view,
 * and are not volatile.
 */
static const Oid readers[] = {
	F_TABLE_TO_XML, F_TABLE_TO_XML_AND_XMLSCHEMA, F_SCHEMA_TO_XML, F_SCHEMA_TO_XML_AND_XMLSCHEMA,
	F_DATABASE_TO_XML, F_DATABASE_TO_XML_AND_XMLSCHEMA
};

static bool
is_reader(Oid function)
{
	for (int i = 0; i < (int) lengthof(readers); i++)
		if (function == readers[i])
			return true;
	return false;
}

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
		return !own && (func_volatile(function) == PROVOLATILE_VOLATILE || is_reader(function));
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
	if (form.typtype == TYPTYPE_DOMAIN)
		return type_runs_code(form.typbasetype);
	if (form.typtype == TYPTYPE_RANGE)
		return type_runs_code(get_range_subtype(type));
	if (form.typtype == TYPTYPE_MULTIRANGE)
		return type_runs_code(get_multirange_range(type));
	if (form.typtype == TYPTYPE_COMPOSITE)
	{
		TupleDesc	columns = lookup_rowtype_tupdesc_copy(type, -1);

		for (int i = 0; i < columns->natts; i++)
			if (!TupleDescAttr(columns, i)->attisdropped &&
				type_runs_code(TupleDescAttr(columns, i)->atttypid))
				return true;
	}
	return OidIsValid(form.typelem) && type_runs_code(form.typelem);
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

bool
iblt_view_runs_code(Query *query, bool own)
{
	return runs_code((Node *) query, &own);
}
