/*-------------------------------------------------------------------------
 *
 * aggsite.c
 *	  The call sites of the aggregates over rows, and the parameters of groups
 *	  without rows.
 *
 *-------------------------------------------------------------------------
 */
#include "aggsite.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"

#include "aggcall.h"
#include "ambiguous.h"

void
iblt_agg_refuse_null(const IbltAggKind *kind, bool key_is_null)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s of a row must not be null",
					key_is_null ? "key" : "checksum"),
			 errdetail("Skipping the row would hide it from the comparison."),
			 key_is_null
			 ? errhint("Use a key that is never null, or the whole row as the key: %s(t.*, 0).",
					   kind->name)
			 : errhint("Use iblt_checksum(...), which never returns null.")));
}

/* The parameters that the third argument stands for. */
static void
params_from_third(IbltStrataParams *params, const IbltAggKind *kind,
				  IbltThirdArgument third, Datum value, bool isnull)
{
	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s of %s must not be null",
						third == IBLT_THIRD_TEMPLATE ? "template" : "capacity",
						kind->name)));
	kind->params(params, third, value);
}

/* Which form of the aggregate is called, given the third argument's type? */
static IbltThirdArgument
third_argument(Oid type)
{
	return !OidIsValid(type) ? IBLT_THIRD_NONE
		: type == INT4OID ? IBLT_THIRD_CAPACITY : IBLT_THIRD_TEMPLATE;
}

/* The same for argument n of the support function. */
static IbltThirdArgument
third_of_call(FunctionCallInfo fcinfo, int n)
{
	return third_argument(PG_NARGS() <= n ? InvalidOid
						  : get_fn_expr_argtype(fcinfo->flinfo, n));
}

void
iblt_agg_refuse_ambiguous_key(FunctionCallInfo fcinfo)
{
	Expr	   *key = iblt_agg_argument(fcinfo, 0);
	Expr	   *checksum = iblt_agg_argument(fcinfo, 1);
	EState	   *estate;
	ListCell   *lc;

	if (key == NULL || checksum == NULL || !IsA(checksum, Const) ||
		IsA(key, RowExpr))
		return;
	estate = ((PlanState *) fcinfo->context)->state;
	if (IsA(key, Var))
	{
		Var		   *var = (Var *) key;
		RangeTblEntry *rte;

		/* the relation in the query, which the planner keeps */
		if (var->varnosyn < 1 || var->varattnosyn < 1 ||
			(int) var->varnosyn > list_length(estate->es_range_table))
			return;
		rte = exec_rt_fetch(var->varnosyn, estate);
		if (iblt_has_column_of_its_name(rte, var->varattnosyn))
			iblt_refuse_column_of_its_name(rte, "key");
	}
	/* the planner may have replaced the column by an expression */
	foreach(lc, estate->es_range_table)
	{
		RangeTblEntry *rte = lfirst(lc);

		if (rte->rtekind == RTE_SUBQUERY && iblt_has_column_of_its_name(rte, 0))
			iblt_refuse_column_of_its_name(rte, "key");
	}
}

IbltAggSite *
iblt_agg_site_make(FunctionCallInfo fcinfo, const IbltAggKind *kind)
{
	MemoryContext context = fcinfo->flinfo->fn_mcxt;
	IbltAggSite *site = MemoryContextAllocZero(context, sizeof *site);
	Oid			key_type = get_fn_expr_argtype(fcinfo->flinfo, 1);

	/* everything is checked before any state is trusted */
	iblt_agg_context(fcinfo);
	if (!OidIsValid(key_type))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("could not determine the type of the key")));
	iblt_agg_refuse_ambiguous_key(fcinfo);
	site->kind = kind;
	site->coder = iblt_key_coder(key_type, context);
	site->third = third_of_call(fcinfo, 3);
	site->third_is_constant = site->third == IBLT_THIRD_NONE ||
		iblt_agg_argument_is_constant(iblt_agg_argument(fcinfo, 2));
	fcinfo->flinfo->fn_extra = site;
	return site;
}

/* Keeps a copy of a template and its parameters, unless it is the last one. */
static void
see_template(IbltAggSite *site, Datum value, MemoryContext context)
{
	struct varlena *template = PG_DETOAST_DATUM_PACKED(value);
	Size		size = VARSIZE_ANY_EXHDR(template);
	struct varlena *copy;

	if (site->template != NULL && VARSIZE_ANY_EXHDR(site->template) == size &&
		memcmp(VARDATA_ANY(site->template), VARDATA_ANY(template), size) == 0)
		return;
	copy = MemoryContextAlloc(context, VARHDRSZ + size);
	SET_VARSIZE(copy, VARHDRSZ + size);
	memcpy(VARDATA(copy), VARDATA_ANY(template), size);
	params_from_third(&site->params, site->kind, IBLT_THIRD_TEMPLATE,
					  PointerGetDatum(copy), false);
	if (site->template != NULL)
		pfree(site->template);
	site->template = copy;
	site->version++;
}

void
iblt_agg_site_see_third(IbltAggSite *site, FunctionCallInfo fcinfo)
{
	bool		isnull = site->third != IBLT_THIRD_NONE && PG_ARGISNULL(3);

	if (site->third == IBLT_THIRD_TEMPLATE && !isnull)
		see_template(site, PG_GETARG_DATUM(3), fcinfo->flinfo->fn_mcxt);
	else if (!site->has_params || isnull ||
			 site->capacity != PG_GETARG_INT32(3))
	{
		params_from_third(&site->params, site->kind, site->third,
						  site->third == IBLT_THIRD_NONE ? (Datum) 0
						  : PG_GETARG_DATUM(3), isnull);
		if (site->third == IBLT_THIRD_CAPACITY)
			site->capacity = PG_GETARG_INT32(3);
		site->version++;
	}
	site->has_params = true;
}

IbltKeyCoder *
iblt_agg_coder_without_row(FunctionCallInfo fcinfo, Oid type)
{
	Expr	   *argument = iblt_agg_argument(fcinfo, 0);
	Oid		   *types;
	int			n = 0;
	ListCell   *lc;

	if (type != RECORDOID)
		return iblt_key_coder(type, CurrentMemoryContext);
	if (argument == NULL || !IsA(argument, RowExpr))
		return NULL;
	types = palloc(sizeof(Oid) * (list_length(((RowExpr *) argument)->args) + 1));
	foreach(lc, ((RowExpr *) argument)->args)
		types[n++] = exprType(lfirst(lc));
	return iblt_key_coder_for_columns(n, types, CurrentMemoryContext);
}

/*
 * The parameters when there was no row.  If the key's type cannot be known,
 * the parameters are untyped and match any type of key.  False if the third
 * argument depends on a row.
 */
static bool
params_without_row(IbltStrataParams *params, FunctionCallInfo fcinfo,
				   const IbltAggKind *kind, Oid key_type,
				   IbltThirdArgument third)
{
	IbltKeyCoder *coder = NULL;
	Datum		argument = (Datum) 0;
	bool		isnull = false;

	if (third != IBLT_THIRD_NONE &&
		!iblt_agg_argument_value(fcinfo, iblt_agg_argument(fcinfo, 2),
								 &argument, &isnull))
		return false;
	params_from_third(params, kind, third, argument, isnull);
	if (OidIsValid(key_type))
		coder = iblt_agg_coder_without_row(fcinfo, key_type);
	if (coder != NULL)
		iblt_key_set_params(coder, &params->table);
	return true;
}

void
iblt_agg_empty_params(IbltStrataParams *params, FunctionCallInfo fcinfo,
					  const IbltAggKind *kind)
{
	if (!params_without_row(params, fcinfo, kind,
							get_fn_expr_argtype(fcinfo->flinfo, 1),
							third_of_call(fcinfo, 3)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s over no rows needs a capacity or template that does not depend on a row",
						kind->name),
				 errhint("Pass a constant, a parameter or a scalar subquery, the same in all calls over one window.")));
}

bool
iblt_agg_partial_params(IbltStrataParams *params, FunctionCallInfo fcinfo,
						const IbltAggKind *kind)
{
	Expr	   *key = iblt_agg_argument(fcinfo, 0);
	Expr	   *checksum = iblt_agg_argument(fcinfo, 1);
	Expr	   *third = iblt_agg_argument(fcinfo, 2);

	if (key == NULL || checksum == NULL)
		return false;
	return params_without_row(params, fcinfo, kind, exprType((Node *) key),
							  third_argument(third == NULL ? InvalidOid
											 : exprType((Node *) third)));
}
