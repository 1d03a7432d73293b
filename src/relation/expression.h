/*-------------------------------------------------------------------------
 *
 * expression.h
 *	  A text parsed as one expression of SQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_COMPARE_EXPRESSION_H
#define IBLT_COMPARE_EXPRESSION_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "parser/parse_node.h"
#include "utils/rel.h"

/*
 * Parses a text as one expression, before names are looked up.  ERROR if it is
 * anything else.  The expression means the same in parentheses, which it must
 * not close.
 */
extern Node *iblt_parse_expression(bool is_condition, const char *text);

/*
 * Looks up the names of a parsed expression in a relation, which it may call
 * "t".  If it is portable, its columns have no collations of their own, because
 * those of another server may differ.
 */
extern Node *iblt_analyse_expression(bool is_condition, bool portable, ParseState *pstate,
									 Relation relation, Node *parsed);

#endif							/* IBLT_COMPARE_EXPRESSION_H */
