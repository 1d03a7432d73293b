/*-------------------------------------------------------------------------
 *
 * expression.c
 *	  A text parsed as one expression of SQL.
 *
 *-------------------------------------------------------------------------
 */
#include "relation/expression.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_clause.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"

static void
refuse_form(bool is_condition)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg(is_condition ? "condition must be one expression"
					: "a value must be one expression")));
}

Node *
iblt_parse_expression(bool is_condition, const char *text)
{
	List	   *statements = raw_parser(text, RAW_PARSE_PLPGSQL_EXPR);
	SelectStmt *plain = makeNode(SelectStmt);
	SelectStmt *select;
	ResTarget  *target;

	if (list_length(statements) != 1)
		refuse_form(is_condition);
	select = (SelectStmt *) linitial_node(RawStmt, statements)->stmt;
	if (!IsA(select, SelectStmt) || list_length(select->targetList) != 1)
		refuse_form(is_condition);
	/* there must not be a FROM or anything else */
	plain->targetList = select->targetList;
	target = linitial_node(ResTarget, select->targetList);
	if (!equal(plain, select) || target->name != NULL)
		refuse_form(is_condition);
	/* parse analysis does not expect "*" as an expression */
	if (IsA(target->val, ColumnRef) &&
		IsA(linitial(((ColumnRef *) target->val)->fields), A_Star))
		refuse_form(is_condition);
	return target->val;
}

/* Gives all columns the same collation: those of another server may differ. */
static bool
forget_collations(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) && OidIsValid(((Var *) node)->varcollid))
		((Var *) node)->varcollid = DEFAULT_COLLATION_OID;
	return expression_tree_walker(node, forget_collations, context);
}

Node *
iblt_analyse_expression(bool is_condition, bool portable, ParseState *pstate,
						Relation relation, Node *parsed)
{
	Node	   *result;

	addNSItemToQuery(pstate,
					 addRangeTableEntryForRelation(pstate, relation, AccessShareLock,
												   makeAlias("t", NIL), true, true),
					 true, true, true);
	if (is_condition)
		result = transformWhereClause(pstate, parsed, EXPR_KIND_WHERE, "condition");
	else
	{
		result = transformExpr(pstate, parsed, EXPR_KIND_INDEX_EXPRESSION);
		if (exprType(result) == UNKNOWNOID)
			result = coerce_type(pstate, result, UNKNOWNOID, TEXTOID, -1,
								 COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1);
	}
	if (portable)
		forget_collations(result, NULL);
	assign_expr_collations(pstate, result);
	return result;
}
