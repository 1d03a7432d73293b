/*-------------------------------------------------------------------------
 *
 * plain_condition.c
 *	  Does a condition mean the same on a server without iblt?
 *
 * That server cannot check a condition.  So it is checked here, on this side's
 * relation, after condition.c has found that it depends on the row alone.  It
 * may hold only
 *
 *	- functions, operators and types that every PostgreSQL has,
 *	- enums, if they are compared by = and <>: labels may have another order,
 *	- no collation but "C", unless nothing depends on it.
 *
 * What it says of the columns' own collations does not count: those of the
 * other server may be different.  The driver compares the columns' types.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/transam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_collate.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compare/expression.h"
#include "compare/pinned.h"

/* What is known about a condition while its nodes are visited. */
typedef struct Portable
{
	Bitmapset  *columns;		/* their numbers */
	Node	   *call;			/* whose functions are being visited */
} Portable;

static bool check_node(Node *node, void *context);

static void
refuse(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot compare by plain queries: an expression may mean something else on the peer, because of %s",
					what),
			 errhint("Use functions, operators and types of PostgreSQL itself, and write COLLATE \"C\" behind texts whose order matters.")));
}

static bool
is_built_in(Oid type)
{
	return getBaseType(type) < FirstNormalObjectId;
}

static void
check_type(Oid type)
{
	if (OidIsValid(type) && !is_built_in(type))
		refuse(psprintf("type %s", format_type_be(type)));
}

static void
check_collation(Oid collation)
{
	if (OidIsValid(collation) && collation != C_COLLATION_OID)
		refuse("a collation");
}

/* Callback of check_functions_in_node. */
static bool
check_function(Oid function, void *context)
{
	Portable   *condition = context;

	if (function >= FirstGenbkiObjectId)
		refuse(psprintf("function %s", get_func_name(function)));
	if (iblt_call_hides_collation(function, condition->call))
		refuse("the order of rows, ranges or jsonb with text");
	if (!iblt_call_ignores_collation(function, condition->call))
		check_collation(exprInputCollation(condition->call));
	return false;
}

static void
add_column(Portable *condition, Var *column)
{
	if (column->varattno <= 0)
		refuse("a whole row");
	condition->columns = bms_add_member(condition->columns, column->varattno);
}

/* Is a node an enum that is compared by = or <>?  Notes its columns. */
static bool
compares_labels(Portable *condition, Node *node)
{
	List	   *args = NIL;
	Oid			function = InvalidOid;
	ListCell   *lc;

	if (IsA(node, OpExpr) || IsA(node, DistinctExpr))
	{
		args = ((OpExpr *) node)->args;
		function = ((OpExpr *) node)->opfuncid;
	}
	else if (IsA(node, ScalarArrayOpExpr))
	{
		args = ((ScalarArrayOpExpr *) node)->args;
		function = ((ScalarArrayOpExpr *) node)->opfuncid;
	}
	if (function != F_ENUM_EQ && function != F_ENUM_NE)
		return false;
	foreach(lc, args)
	{
		Node	   *arg = lfirst(lc);

		if (IsA(arg, Var))
			add_column(condition, (Var *) arg);
		else if (!IsA(arg, Const) && !IsA(arg, ArrayExpr))
			return false;
	}
	return true;
}

static bool
check_node(Node *node, void *context)
{
	Portable   *condition = context;
	ListCell   *lc;

	CHECK_FOR_INTERRUPTS();
	if (node == NULL || compares_labels(condition, node))
		return false;
	if (IsA(node, List) || IsA(node, CaseWhen))
		return expression_tree_walker(node, check_node, context);
	if (IsA(node, Var))
		add_column(condition, (Var *) node);
	if (IsA(node, CoerceToDomain) || IsA(node, XmlExpr))
		refuse("a domain or xml");
	check_type(exprType(node));
	condition->call = node;
	check_functions_in_node(node, check_function, condition);
	if (IsA(node, MinMaxExpr))
		check_collation(iblt_order_collation(node));
	if (IsA(node, RowCompareExpr))
	{
		foreach(lc, ((RowCompareExpr *) node)->inputcollids)
			check_collation(lfirst_oid(lc));
	}
	return expression_tree_walker(node, check_node, context);
}

/* Gives all columns the same collation, which nothing may depend on. */
static bool
forget_collations(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) && OidIsValid(((Var *) node)->varcollid))
		((Var *) node)->varcollid = DEFAULT_COLLATION_OID;
	return expression_tree_walker(node, forget_collations, context);
}

static Node *
analyse(IbltTextKind kind, Relation relation, const char *text)
{
	ParseState *pstate = make_parsestate(NULL);
	Node	   *expression = iblt_parse_expression(kind, text);

	pstate->p_sourcetext = text;
	expression = iblt_analyse_expression(kind, pstate, relation, expression);
	if (pstate->p_hasSubLinks)
		refuse("a subquery");
	forget_collations(expression, NULL);
	assign_expr_collations(pstate, expression);
	free_parsestate(pstate);
	return expression;
}

PG_FUNCTION_INFO_V1(iblt_plain_check_expression);

/*
 * iblt_plain_check_expression(relation, expression, is_condition) -> text[]:
 * the columns that it names.  ERROR unless it means the same on another server whose
 * columns have the same types.  NULL if the relation does not exist any more.
 */
Datum
iblt_plain_check_expression(PG_FUNCTION_ARGS)
{
	char	   *source = text_to_cstring(PG_GETARG_TEXT_PP(1));
	Portable	condition = {0};
	Relation	relation;
	Datum	   *names;
	int			column = -1;
	int			n = 0;

	if (strchr(source, '\\') != NULL)
		refuse("a backslash, which depends on standard_conforming_strings");
	relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	if (relation == NULL)
		PG_RETURN_NULL();
	check_node(analyse(PG_GETARG_BOOL(2) ? IBLT_CONDITION : IBLT_VALUE, relation, source),
			   &condition);
	names = palloc(sizeof(Datum) * Max(bms_num_members(condition.columns), 1));
	while ((column = bms_next_member(condition.columns, column)) >= 0)
		names[n++] = CStringGetTextDatum(get_attname(RelationGetRelid(relation),
													 column, false));
	relation_close(relation, AccessShareLock);
	PG_RETURN_ARRAYTYPE_P(construct_array(names, n, TEXTOID, -1, false,
										  TYPALIGN_INT));
}
