/*-------------------------------------------------------------------------
 *
 * aggcall.h
 *	  What an aggregate's support functions can learn about their call: the
 *	  memory for their state, and the arguments as expressions.
 *
 * Expressions are needed when there was no row.  An aggregate over no rows
 * must still return a sketch of the right size and key type.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_SKETCH_AGGCALL_H
#define IBLT_SKETCH_AGGCALL_H

#include "postgres.h"

#include "fmgr.h"
#include "nodes/primnodes.h"

/* Memory that lives as long as the group.  ERROR outside an aggregate. */
extern MemoryContext iblt_agg_context(FunctionCallInfo fcinfo);

/* Argument n of a function of the aggregate, a state.  NULL at first. */
static inline void *
iblt_agg_state(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : PG_GETARG_POINTER(n);
}

/*
 * Argument n of the aggregate, counted from 0, or NULL if it cannot be known.
 * It cannot be known in the final step of a parallel plan, or in a window that
 * calls the aggregate several times with different arguments.
 */
extern Expr *iblt_agg_argument(FunctionCallInfo fcinfo, int n);

/* Is the expression the same for all rows of all scans? */
extern bool iblt_agg_argument_is_constant(const Expr *argument);

/* Evaluates the expression if that needs no row.  Returns false if it does. */
extern bool iblt_agg_argument_value(FunctionCallInfo fcinfo, Expr *argument,
									Datum *value, bool *isnull);

#endif							/* IBLT_SKETCH_AGGCALL_H */
