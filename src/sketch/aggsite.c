/*
 * aggsite.c
 *	  The call sites of the aggregates over rows, and the values of groups
 *	  without rows.
 */
#include "sketch/aggsite.h"

#include "catalog/pg_aggregate.h"
#include "executor/executor.h"
#include "executor/nodeAgg.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "codec/checksum.h"

/* --- what the support functions can learn about their call ----------------- */

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
		HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(call->winfnoid));
		Oid			final = InvalidOid;
		Expr	   *argument;

		if (HeapTupleIsValid(tuple))
		{
			final = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggfinalfn;
			ReleaseSysCache(tuple);
		}
		if (final != fcinfo->flinfo->fn_oid || n >= list_length(call->args))
			continue;
		argument = list_nth(call->args, n);
		if (found != NULL && !equal(found, argument))
			return NULL;
		found = argument;
	}
	return found;
}

/*
 * Argument n of the aggregate, counted from 0, or NULL if it cannot be known.
 * It cannot be known in the final step of a parallel plan, or in a window that
 * calls the aggregate several times with different arguments.
 */
static Expr *
agg_argument(FunctionCallInfo fcinfo, int n)
{
	AggState   *state = (AggState *) fcinfo->context;
	Aggref	   *aggref = NULL;

	if (state != NULL && IsA(state, WindowAggState))
		return window_argument(fcinfo, n);
	if (state == NULL || !IsA(state, AggState))
		return NULL;
	/* serialization functions do not get it, and are found by their call structure */
	for (int i = 0; i < state->numtrans && aggref == NULL; i++)
		if (state->pertrans[i].serialfn_fcinfo == fcinfo)
			aggref = state->pertrans[i].aggref;
	if (aggref == NULL)
		aggref = AggGetAggref(fcinfo);
	if (aggref == NULL || n >= list_length(aggref->args))
		return NULL;
	return ((TargetEntry *) list_nth(aggref->args, n))->expr;
}

/* Is the expression the same for all rows of all scans? */
static bool
is_constant(const Expr *argument)
{
	return argument != NULL &&
		(IsA(argument, Const) ||
		 (IsA(argument, Param) &&
		  ((const Param *) argument)->paramkind == PARAM_EXTERN));
}

/* Can the expression not be evaluated without a row? */
static bool
needs_row(Expr *argument)
{
	/* a SubPlan would leave a pointer to short-lived memory in the plan */
	return argument == NULL || contain_var_clause((Node *) argument) ||
		contain_subplans((Node *) argument);
}

/* --- call sites ------------------------------------------------------------- */

void
iblt_agg_refuse_null_third(const char *name, bool is_template)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s of %s must not be null",
					is_template ? "template" : "capacity", name)));
}

/* Which form of the aggregate is called, given the third argument's type? */
static IbltThirdArgument
third_argument(Oid type)
{
	return !OidIsValid(type) ? IBLT_THIRD_NONE
		: type == INT4OID ? IBLT_THIRD_CAPACITY : IBLT_THIRD_TEMPLATE;
}

/* The type of argument n of the support function, if there is one. */
static Oid
type_of_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_NARGS() <= n ? InvalidOid : get_fn_expr_argtype(fcinfo->flinfo, n);
}

void
iblt_agg_refuse_null(FunctionCallInfo fcinfo, const IbltAggKind *kind)
{
	bool		key = PG_ARGISNULL(1);

	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s of a row must not be null", key ? "key" : "checksum or value"),
			 errdetail("Skipping the row would hide it from the comparison."),
			 key
			 ? errhint("Use a key that is never null, or the whole row as the key: %s(t.*, 0).",
					   kind->type->aggregate)
			 : errhint("Use iblt_checksum(...), which never returns null, or as the value a row, ROW(value), whose columns may be null.")));
}

/*
 * ERROR for argument n, counted from 0, a key or value, that is a column but may be meant as a
 * row.
 */
static void
check_ambiguous(FunctionCallInfo fcinfo, int n, const char *role)
{
	const Expr *argument = agg_argument(fcinfo, n);
	EState	   *estate;
	ListCell   *lc;

	if (argument == NULL || IsA(argument, RowExpr))
		return;
	estate = ((PlanState *) fcinfo->context)->state;
	if (IsA(argument, Var))
	{
		const Var  *var = (const Var *) argument;
		RangeTblEntry *rte;

		/* the relation in the query, which the planner keeps */
		if (var->varnosyn < 1 || var->varattnosyn < 1 ||
			(int) var->varnosyn > list_length(estate->es_range_table))
			return;
		rte = exec_rt_fetch(var->varnosyn, estate);
		if (iblt_has_column_of_its_name(rte, var->varattnosyn))
			iblt_refuse_column_of_its_name(rte, role);
	}
	/* the planner may have replaced the column by an expression */
	foreach(lc, estate->es_range_table)
	{
		RangeTblEntry *rte = lfirst(lc);

		if (rte->rtekind == RTE_SUBQUERY && iblt_has_column_of_its_name(rte, 0))
			iblt_refuse_column_of_its_name(rte, role);
	}
}

void *
iblt_agg_site_make(FunctionCallInfo fcinfo, const IbltAggKind *kind)
{
	MemoryContext context = fcinfo->flinfo->fn_mcxt;
	IbltAggSite *site = MemoryContextAllocZero(context, kind->site_size);
	Oid			value_type = get_fn_expr_argtype(fcinfo->flinfo, 2);
	Expr	   *second;
	Expr	   *third;

	/* everything is checked before any state is trusted */
	iblt_agg_context(fcinfo);
	second = agg_argument(fcinfo, 1);
	site->kind = kind;
	site->coder = iblt_key_coder(get_fn_expr_argtype(fcinfo->flinfo, 1), context);
	site->value_type = getBaseType(value_type);
	if (kind->encodes_values)
	{
		site->value = iblt_key_coder(value_type, context);
		site->value->of_value = true;
	}
	/* with a constant checksum or value, nothing but the key would tell rows apart */
	if (second != NULL && IsA(second, Const))
		check_ambiguous(fcinfo, 0, "key");
	/* an integer or uuid is not meant as a row */
	else if (site->value != NULL && site->value->kind == IBLT_KEY_CANONICAL)
		check_ambiguous(fcinfo, 1, "value");
	third = agg_argument(fcinfo, 2);
	site->third = third_argument(type_of_argument(fcinfo, 3));
	site->third_is_constant = site->third == IBLT_THIRD_NONE || is_constant(third);
	site->third_varies = site->third != IBLT_THIRD_NONE &&
		(needs_row(third) || contain_volatile_functions((Node *) third));
	if (site->value_type == INT8OID && (third == NULL || IsA(third, Const) || IsA(third, Param)))
		site->page = iblt_page_make(fcinfo);
	fcinfo->flinfo->fn_extra = site;
	return site;
}

void
iblt_agg_site_see_third(IbltAggSite *site, FunctionCallInfo fcinfo)
{
	struct varlena *template;

	/* iblt_agg_site_take_third refuses NULL */
	if (PG_ARGISNULL(3))
		site->third_seen = 0;
	else if (site->third == IBLT_THIRD_CAPACITY)
		site->third_seen = iblt_hash_word((uint64) PG_GETARG_INT32(3), 0);
	else
	{
		template = PG_GETARG_VARLENA_PP(3);
		site->third_seen = XXH3_64bits(VARDATA_ANY(template), VARSIZE_ANY_EXHDR(template));
	}
}

bool
iblt_agg_site_take_third(IbltAggSite *site, FunctionCallInfo fcinfo, bool first)
{
	MemoryContext old = CurrentMemoryContext;
	bool		given = site->third != IBLT_THIRD_NONE;

	if (!first && !site->third_varies)
		return false;
	if (site->has_params && site->third_is_constant)
		return true;
	if (given && PG_ARGISNULL(3))
		iblt_agg_refuse_null_third(site->kind->type->aggregate,
								   site->third == IBLT_THIRD_TEMPLATE);
	if (site->third_is_constant)
		MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	site->kind->take_third(site, given ? PG_GETARG_DATUM(3) : (Datum) 0);
	MemoryContextSwitchTo(old);
	site->has_params = true;
	return true;
}

/* --- groups without rows ----------------------------------------------------- */

/*
 * A coder of argument n, counted from 0, when there was no row.  NULL if it
 * needs one, or the type is not known.
 */
static IbltKeyCoder *
coder_without_row(FunctionCallInfo fcinfo, int n, Oid type)
{
	Expr	   *argument = agg_argument(fcinfo, n);
	Oid		   *types;
	int			ncolumns = 0;
	ListCell   *lc;

	if (!OidIsValid(type))
		return NULL;
	if (type != RECORDOID)
		return iblt_key_coder(type, CurrentMemoryContext);
	if (argument == NULL || !IsA(argument, RowExpr))
		return NULL;
	types = palloc(sizeof(Oid) * (list_length(((RowExpr *) argument)->args) + 1));
	foreach(lc, ((RowExpr *) argument)->args)
		types[ncolumns++] = exprType(lfirst(lc));
	return iblt_key_coder_for_columns(ncolumns, types, CurrentMemoryContext);
}

/*
 * The value of no rows, given the types of the arguments.  NULL if the third
 * argument depends on a row.
 */
static struct varlena *
value_without_row(FunctionCallInfo fcinfo, const IbltAggKind *kind,
				  Oid key_type, Oid value_type, Oid third_type)
{
	IbltAggSite *site = palloc0(kind->site_size);
	Datum		third = (Datum) 0;
	bool		isnull = false;

	site->kind = kind;
	site->third = third_argument(third_type);
	if (site->third != IBLT_THIRD_NONE)
	{
		Expr	   *argument = agg_argument(fcinfo, 2);

		if (needs_row(argument))
			return NULL;
		/* without the plan as parent, no code is compiled for each empty group */
		third = ExecEvalExprSwitchContext(ExecInitExpr(argument, NULL),
										  ((PlanState *) fcinfo->context)->ps_ExprContext, &isnull);
	}
	if (isnull)
		iblt_agg_refuse_null_third(kind->type->aggregate, site->third == IBLT_THIRD_TEMPLATE);
	site->value_type = OidIsValid(value_type) ? getBaseType(value_type) : InvalidOid;
	kind->take_third(site, third);
	site->coder = coder_without_row(fcinfo, 0, key_type);
	if (kind->encodes_values)
		site->value = coder_without_row(fcinfo, 1, value_type);
	return kind->make_empty(site);
}

Datum
iblt_agg_final_value(FunctionCallInfo fcinfo, const IbltAggKind *kind)
{
	struct varlena *value;

	iblt_agg_context(fcinfo);
	if (!PG_ARGISNULL(0))
		PG_RETURN_POINTER(kind->make_value(PG_GETARG_POINTER(0)));
	value = value_without_row(fcinfo, kind, type_of_argument(fcinfo, 1),
							  type_of_argument(fcinfo, 2),
							  type_of_argument(fcinfo, 3));
	if (value == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s over no rows needs a capacity or template that does not depend on a row",
						kind->type->aggregate),
				 errhint("Pass a constant, a parameter or a scalar subquery, the same in all calls over one window.")));
	PG_RETURN_POINTER(value);
}

Datum
iblt_agg_serial_value(FunctionCallInfo fcinfo, const IbltAggKind *kind)
{
	Oid			types[3] = {InvalidOid};
	struct varlena *value;

	iblt_agg_context(fcinfo);
	if (!PG_ARGISNULL(0))
		PG_RETURN_BYTEA_P(kind->make_value(PG_GETARG_POINTER(0)));
	for (int i = 0; i < 3; i++)
	{
		Expr	   *argument = agg_argument(fcinfo, i);

		types[i] = argument == NULL ? InvalidOid : exprType((Node *) argument);
	}
	/* a sum has no second one */
	if (!OidIsValid(types[1]))
		PG_RETURN_NULL();
	value = value_without_row(fcinfo, kind, types[0], types[1], types[2]);
	if (value == NULL)
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(value);
}

/* --- states of several values ------------------------------------------------- */

Datum
iblt_agg_deserial_value(FunctionCallInfo fcinfo, const IbltAggKind *kind)
{
	IbltAnyView *view;

	iblt_agg_context(fcinfo);
	view = palloc(sizeof(IbltAnyView));
	iblt_value_open(kind->type, view, PG_GETARG_DATUM(0));
	PG_RETURN_POINTER(view);
}

Datum
iblt_agg_combine_states(FunctionCallInfo fcinfo, const IbltAggKind *kind)
{
	MemoryContext context = iblt_agg_context(fcinfo);
	void	   *state = iblt_agg_state(fcinfo, 0);

	if (!PG_ARGISNULL(1))
		state = kind->add(state, PG_GETARG_POINTER(1), 1, context);
	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(state);
}

Datum
iblt_agg_sum(FunctionCallInfo fcinfo, const IbltAggKind *kind, int sign)
{
	MemoryContext context = iblt_agg_context(fcinfo);
	IbltAnyView view;

	iblt_value_open_arg(kind->type, &view, fcinfo, 1);
	PG_RETURN_POINTER(kind->add(iblt_agg_state(fcinfo, 0), &view, sign, context));
}
