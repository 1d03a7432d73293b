/*-------------------------------------------------------------------------
 *
 * expression.h
 *	  A text parsed as one expression of SQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_EXPRESSION_H
#define IBLT_EXPRESSION_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * The one expression that a condition is, before names are looked up; ERROR if
 * it is anything else.  Alone it means what it means in parentheses, which it
 * must not close.  *source is what locations refer to.
 */
extern Node *iblt_parse_expression(const char *text, const char **source);

#endif							/* IBLT_EXPRESSION_H */
