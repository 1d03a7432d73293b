/*-------------------------------------------------------------------------
 *
 * expression.c
 *	  A text parsed as one expression of SQL.
 *
 *-------------------------------------------------------------------------
 */
#include "compare/expression.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_clause.h"
#include "parser/parse_coerce.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"

static void
refuse_form(IbltTextKind kind)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg(kind == IBLT_CONDITION ? "condition must be one expression"
					: "a value must be one expression")));
}

Node *
iblt_parse_expression(IbltTextKind kind, const char *text)
{
	List	   *statements;
	SelectStmt *select;
	SelectStmt *plain = makeNode(SelectStmt);
	ResTarget  *target;

	statements = raw_parser(text, RAW_PARSE_PLPGSQL_EXPR);
	if (list_length(statements) != 1)
		refuse_form(kind);
	select = (SelectStmt *) linitial_node(RawStmt, statements)->stmt;
	if (!IsA(select, SelectStmt) || list_length(select->targetList) != 1)
		refuse_form(kind);
	/* there must not be a FROM or anything else */
	plain->targetList = select->targetList;
	target = linitial_node(ResTarget, select->targetList);
	if (!equal(plain, select) || target->name != NULL)
		refuse_form(kind);
	/*
	 * "*" is not an expression, and parse analysis does not expect it as one
	 */
	if (IsA(target->val, ColumnRef) &&
		IsA(linitial(((ColumnRef *) target->val)->fields), A_Star))
		refuse_form(kind);
	return target->val;
}

Node *
iblt_analyse_expression(IbltTextKind kind, ParseState *pstate, Relation relation, Node *parsed)
{
	ParseNamespaceItem *item =
		addRangeTableEntryForRelation(pstate, relation, AccessShareLock,
									  makeAlias("t", NIL), true, true);

	addNSItemToQuery(pstate, item, true, true, true);
	if (kind == IBLT_CONDITION)
		return transformWhereClause(pstate, parsed, EXPR_KIND_WHERE, "condition");
	parsed = transformExpr(pstate, parsed, EXPR_KIND_SELECT_TARGET);
	return exprType(parsed) != UNKNOWNOID ? parsed :
		coerce_type(pstate, parsed, UNKNOWNOID, TEXTOID, -1, COERCION_IMPLICIT,
					COERCE_IMPLICIT_CAST, -1);
}
