/*-------------------------------------------------------------------------
 *
 * aggsite.c
 *	  The call sites of the aggregates over rows, and the parameters of groups
 *	  without rows.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/aggsite.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"

#include "sketch/aggcall.h"
#include "codec/ambiguous.h"

#define NAME(is_strata)	((is_strata) ? "iblt_strata_agg" : "iblt_agg")

void
iblt_agg_refuse_null_third(const char *name, bool is_template)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s of %s must not be null",
					is_template ? "template" : "capacity", name)));
}

/* The parameters that the third argument stands for. */
static void
params_from_third(IbltParams *params, bool is_strata, IbltThirdArgument third,
				  Datum value, bool isnull)
{
	IbltSketch	template;

	if (isnull)
		iblt_agg_refuse_null_third(NAME(is_strata), third == IBLT_THIRD_TEMPLATE);
	if (third == IBLT_THIRD_TEMPLATE)
	{
		if (is_strata)
			iblt_strata_open(&template, value);
		else
			iblt_open(&template, value);
		*params = template.params;
	}
	else if (is_strata)
		iblt_strata_params_make(params, IBLT_DEFAULT_STRATA,
								IBLT_DEFAULT_STRATUM_CELLS,
								IBLT_DEFAULT_HASHES, 0);
	else
		iblt_params_make(params, third == IBLT_THIRD_CAPACITY
						 ? DatumGetInt32(value) : IBLT_DEFAULT_CAPACITY,
						 IBLT_DEFAULT_HASHES, IBLT_DEFAULT_KEY_SIZE, 0, 0);
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
iblt_agg_refuse_null(FunctionCallInfo fcinfo, bool is_strata)
{
	bool		key = PG_ARGISNULL(1);
	bool		value = false;
	IbltParams	params;

	if (!key && third_of_call(fcinfo, 3) == IBLT_THIRD_TEMPLATE)
	{
		params_from_third(&params, is_strata, IBLT_THIRD_TEMPLATE,
						  PG_GETARG_DATUM(3), PG_ARGISNULL(3));
		value = params.value.limbs > 0;
	}
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s of a row must not be null",
					key ? "key" : value ? "value" : "checksum"),
			 errdetail("Skipping the row would hide it from the comparison."),
			 key
			 ? errhint("Use a key that is never null, or the whole row as the key: %s(t.*, 0).",
					   NAME(is_strata))
			 : value
			 ? errhint("Use a row as the value, ROW(value), whose columns may be null.")
			 : errhint("Use iblt_checksum(...), which never returns null.")));
}

/*
 * ERROR for a key or value that is a column but may be meant as a row.
 */
static void
check_ambiguous(FunctionCallInfo fcinfo, const Expr *argument,
				 const char *role)
{
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

void
iblt_agg_check_ambiguous_key(FunctionCallInfo fcinfo)
{
	Expr	   *checksum = iblt_agg_argument(fcinfo, 1);

	if (checksum != NULL && IsA(checksum, Const))
		check_ambiguous(fcinfo, iblt_agg_argument(fcinfo, 0), "key");
}

/* The same for a value.  One that is an integer or uuid is not meant as a row. */
static void
check_ambiguous_value(FunctionCallInfo fcinfo, const IbltKeyCoder *value)
{
	Expr	   *argument = iblt_agg_argument(fcinfo, 1);

	if (argument != NULL && !IsA(argument, Const) &&
		value->kind == IBLT_KEY_CANONICAL)
		check_ambiguous(fcinfo, argument, "value");
}

IbltAggSite *
iblt_agg_site_make(FunctionCallInfo fcinfo, bool is_strata)
{
	MemoryContext context = fcinfo->flinfo->fn_mcxt;
	IbltAggSite *site = MemoryContextAllocZero(context, sizeof *site);

	/* everything is checked before any state is trusted */
	iblt_agg_context(fcinfo);
	site->is_strata = is_strata;
	site->coder = iblt_key_coder(get_fn_expr_argtype(fcinfo->flinfo, 1), context);
	site->value = iblt_key_coder(get_fn_expr_argtype(fcinfo->flinfo, 2), context);
	site->value->of_value = true;
	iblt_agg_check_ambiguous_key(fcinfo);
	check_ambiguous_value(fcinfo, site->value);
	site->third = third_of_call(fcinfo, 3);
	site->third_is_constant = site->third == IBLT_THIRD_NONE ||
		iblt_agg_argument_is_constant(iblt_agg_argument(fcinfo, 2));
	site->bigint = site->value->type == INT8OID;
	fcinfo->flinfo->fn_extra = site;
	return site;
}

void
iblt_agg_site_set_types(IbltAggSite *site, IbltParams *params)
{
	uint64		version = site->value->version;

	iblt_key_set_row_params(site->coder, site->value, params);
	/* states that have seen another type of value must be checked again */
	site->version += site->value->version - version;
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
	params_from_third(&site->params, site->is_strata, IBLT_THIRD_TEMPLATE,
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
		params_from_third(&site->params, site->is_strata, site->third,
						  site->third == IBLT_THIRD_NONE ? (Datum) 0
						  : PG_GETARG_DATUM(3), isnull);
		if (site->third == IBLT_THIRD_CAPACITY)
			site->capacity = PG_GETARG_INT32(3);
		site->version++;
	}
	site->has_params = true;
}

IbltKeyCoder *
iblt_agg_coder_without_row(FunctionCallInfo fcinfo, int n, Oid type)
{
	Expr	   *argument = iblt_agg_argument(fcinfo, n);
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
 * The parameters when there was no row.  If the key's type cannot be known,
 * the parameters are untyped and match any type of key.  False if the third
 * argument depends on a row.
 */
static bool
params_without_row(IbltParams *params, FunctionCallInfo fcinfo,
				   bool is_strata, Oid key_type, Oid value_type,
				   IbltThirdArgument third)
{
	IbltKeyCoder *key;
	IbltKeyCoder *value;
	Datum		argument = (Datum) 0;
	bool		isnull = false;

	if (third != IBLT_THIRD_NONE &&
		!iblt_agg_argument_value(fcinfo, iblt_agg_argument(fcinfo, 2),
								 &argument, &isnull))
		return false;
	params_from_third(params, is_strata, third, argument, isnull);
	key = iblt_agg_coder_without_row(fcinfo, 0, key_type);
	value = iblt_agg_coder_without_row(fcinfo, 1, value_type);
	if (key == NULL || value == NULL)
		return true;
	value->of_value = true;
	iblt_key_set_row_params(key, value, params);
	return true;
}

void
iblt_agg_refuse_no_rows(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s over no rows needs a capacity or template that does not depend on a row",
					name),
			 errhint("Pass a constant, a parameter or a scalar subquery, the same in all calls over one window.")));
}

void
iblt_agg_empty_params(IbltParams *params, FunctionCallInfo fcinfo,
					  bool is_strata)
{
	if (!params_without_row(params, fcinfo, is_strata,
							get_fn_expr_argtype(fcinfo->flinfo, 1),
							get_fn_expr_argtype(fcinfo->flinfo, 2),
							third_of_call(fcinfo, 3)))
		iblt_agg_refuse_no_rows(NAME(is_strata));
}

bool
iblt_agg_partial_params(IbltParams *params, FunctionCallInfo fcinfo,
						bool is_strata)
{
	Expr	   *key = iblt_agg_argument(fcinfo, 0);
	Expr	   *checksum = iblt_agg_argument(fcinfo, 1);
	Expr	   *third = iblt_agg_argument(fcinfo, 2);

	/* without it, the key is not there either */
	if (checksum == NULL)
		return false;
	return params_without_row(params, fcinfo, is_strata, exprType((Node *) key),
							  exprType((Node *) checksum),
							  third_argument(third == NULL ? InvalidOid
											 : exprType((Node *) third)));
}
