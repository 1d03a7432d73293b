/*-------------------------------------------------------------------------
 *
 * aggcall.c
 *	  What an aggregate's support functions can learn about their call.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/aggcall.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "executor/executor.h"
#include "executor/nodeAgg.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/syscache.h"

MemoryContext
iblt_agg_context(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (!AggCheckCallContext(fcinfo, &context))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function %u called in non-aggregate context",
						fcinfo->flinfo->fn_oid),
				 errhint("Use an aggregate of iblt, such as iblt_agg.")));
	return context;
}

/*
 * The Aggref that is being evaluated.  PostgreSQL does not pass it to
 * serialization functions, which are found by their call structure.
 */
static Aggref *
current_aggref(FunctionCallInfo fcinfo)
{
	AggState   *state = (AggState *) fcinfo->context;
	int			i;

	for (i = 0; i < state->numtrans; i++)
		if (state->pertrans[i].serialfn_fcinfo == fcinfo)
			return state->pertrans[i].aggref;
	return AggGetAggref(fcinfo);
}

static bool
has_final_function(Oid aggregate, Oid final)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	Form_pg_aggregate form;
	bool		has;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	has = form->aggfinalfn == final;
	ReleaseSysCache(tuple);
	return has;
}

/*
 * Argument n of the window's calls of the aggregate if all calls agree on it.
 * PostgreSQL does not tell a final function which of them it is called for.
 */
static Expr *
window_argument(FunctionCallInfo fcinfo, int n)
{
	WindowAggState *state = (WindowAggState *) fcinfo->context;
	Expr	   *found = NULL;
	ListCell   *lc;

	foreach(lc, state->funcs)
	{
		WindowFunc *call = ((WindowFuncExprState *) lfirst(lc))->wfunc;
		Expr	   *argument;

		if (!has_final_function(call->winfnoid, fcinfo->flinfo->fn_oid) ||
			n >= list_length(call->args))
			continue;
		argument = list_nth(call->args, n);
		if (found != NULL && !equal(found, argument))
			return NULL;
		found = argument;
	}
	return found;
}

Expr *
iblt_agg_argument(FunctionCallInfo fcinfo, int n)
{
	Aggref	   *aggref;

	if (fcinfo->context != NULL && IsA(fcinfo->context, WindowAggState))
		return window_argument(fcinfo, n);
	if (fcinfo->context == NULL || !IsA(fcinfo->context, AggState))
		return NULL;
	aggref = current_aggref(fcinfo);
	if (aggref == NULL || n >= list_length(aggref->args))
		return NULL;
	return ((TargetEntry *) list_nth(aggref->args, n))->expr;
}

bool
iblt_agg_argument_is_constant(const Expr *argument)
{
	return argument != NULL &&
		(IsA(argument, Const) ||
		 (IsA(argument, Param) &&
		  ((const Param *) argument)->paramkind == PARAM_EXTERN));
}

bool
iblt_agg_argument_value(FunctionCallInfo fcinfo, Expr *argument,
						Datum *value, bool *isnull)
{
	PlanState  *plan = (PlanState *) fcinfo->context;
	ExprState  *state;

	/* a SubPlan would leave a pointer to short-lived memory in the plan */
	if (argument == NULL || contain_var_clause((Node *) argument) ||
		contain_subplans((Node *) argument))
		return false;
	/* without the plan as parent, no code is compiled for each empty group */
	state = ExecInitExpr(argument, NULL);
	*value = ExecEvalExprSwitchContext(state, plan->ps_ExprContext, isnull);
	return true;
}
