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

/*
 * Parses a condition as one expression, before names are looked up.  ERROR if
 * it is anything else.  The expression means the same in parentheses, which it
 * must not close.  Sets *source to the text that locations refer to.
 */
extern Node *iblt_parse_expression(const char *text, const char **source);

#endif							/* IBLT_COMPARE_EXPRESSION_H */
