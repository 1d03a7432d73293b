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

/* What a text is for. */
typedef enum IbltTextKind
{
	IBLT_CONDITION,
	IBLT_VALUE
} IbltTextKind;

/*
 * Parses a text as one expression, before names are looked up.  ERROR if it is
 * anything else.  The expression means the same in parentheses, which it must
 * not close.
 */
extern Node *iblt_parse_expression(IbltTextKind kind, const char *text);

/*
 * Looks up the names of a parsed expression in a relation, which it may call
 * "t".  The caller assigns collations.
 */
extern Node *iblt_analyse_expression(IbltTextKind kind, ParseState *pstate,
									 Relation relation, Node *parsed);

#endif							/* IBLT_COMPARE_EXPRESSION_H */
