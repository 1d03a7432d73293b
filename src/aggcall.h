/*-------------------------------------------------------------------------
 *
 * aggcall.h
 *	  What an aggregate's support functions can learn about their call: the
 *	  memory for their state, and the arguments as expressions.
 *
 * Expressions are needed where there was no row: an aggregate over no rows
 * still has to return a sketch of the right size and key type.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_AGGCALL_H
#define IBLT_AGGCALL_H

#include "postgres.h"

#include "fmgr.h"
#include "nodes/primnodes.h"

/* Memory that lives as long as the group; ERROR outside of an aggregate. */
extern MemoryContext iblt_agg_context(FunctionCallInfo fcinfo);

/*
 * Argument n of the aggregate, counting from 0, or NULL if it cannot be known:
 * in the finishing step of a parallel plan, and in a window that calls the
 * aggregate several times with different arguments.
 */
extern Expr *iblt_agg_argument(FunctionCallInfo fcinfo, int n);

/* Is it the same for all rows of all scans? */
extern bool iblt_agg_argument_is_constant(const Expr *argument);

/*
 * Its value, if that takes no row to know; false if it does.
 */
extern bool iblt_agg_argument_value(FunctionCallInfo fcinfo, Expr *argument,
									Datum *value, bool *isnull);

#endif							/* IBLT_AGGCALL_H */
