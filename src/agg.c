/*-------------------------------------------------------------------------
 *
 * agg.c
 *	  The aggregates iblt_agg and iblt_sum.
 *
 * The state of a group is the value it will return, with a view upon it in
 * front: one allocation of the value's size and some 200 bytes, whatever the
 * number of rows.  Everything is exact arithmetic in a field, so the result
 * does not depend on the order of rows or on how workers share them.
 *
 * Arguments that do not vary between rows (capacity, template) are those of
 * the group's first row; later rows are checked against it.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "aggcall.h"
#include "key.h"

/* What follows the key and the checksum. */
typedef enum ThirdArgument
{
	THIRD_NONE,
	THIRD_CAPACITY,
	THIRD_TEMPLATE
} ThirdArgument;

/* What a call site of a transition function keeps between rows. */
typedef struct IbltAggSite
{
	IbltKeyCoder *coder;
	ThirdArgument third;
	bool		third_is_constant;
	bool		has_params;
	int32		capacity;		/* last seen */
	struct varlena *template;	/* last seen, a copy */
	IbltParams	params;			/* untyped, or typed by the template */
	uint64		version;		/* rises when params change */
} IbltAggSite;

/* The state of one group; the sketch's bytes follow. */
typedef struct IbltAggState
{
	IbltSketch	sketch;
	uint64		version;		/* of site and coder when last checked */
} IbltAggState;

/* An empty state for these parameters, for as long as the group lives. */
static IbltAggState *
state_make(const IbltParams *params, MemoryContext context)
{
	IbltAggState *state;
	size_t		head = MAXALIGN(sizeof(IbltAggState));

	iblt_check_params(params);
	/* a sketch of the largest size fits a value, but not with this in front */
	state = MemoryContextAllocExtended(context,
									   head + iblt_core_size(params),
									   MCXT_ALLOC_HUGE);
	iblt_core_init(&state->sketch, params, (uint8 *) state + head);
	state->version = 0;
	return state;
}

/* The sealed value of a state, which stays as it is. */
static struct varlena *
state_value(const IbltAggState *state)
{
	IbltSketch	sketch;
	struct varlena *value = iblt_copy(&sketch, &state->sketch);

	iblt_core_seal(&sketch);
	return value;
}

/* sketch +/- into the state; an untyped state takes the other's key type. */
static IbltAggState *
state_add(IbltAggState *state, const IbltSketch *sketch, int sign,
		  MemoryContext context)
{
	IbltParams	params = sketch->params;

	if (state != NULL)
		iblt_params_check_match(&state->sketch.params, &sketch->params);
	if (state == NULL || (state->sketch.params.kind == IBLT_KEY_UNTYPED &&
						  sketch->params.kind != IBLT_KEY_UNTYPED))
		state = state_make(&params, context);
	if (sketch->params.kind != IBLT_KEY_UNTYPED)
		iblt_core_add_sketch(&state->sketch, sketch, sign);
	return state;
}

/* The parameters that iblt_agg's third argument stands for. */
static void
params_from_third(IbltParams *params, ThirdArgument third, Datum value,
				  bool isnull)
{
	if (third == THIRD_TEMPLATE && !isnull)
	{
		IbltSketch	template;

		iblt_open(&template, value);
		*params = template.params;
		return;
	}
	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s of iblt_agg must not be null",
						third == THIRD_TEMPLATE ? "template" : "capacity")));
	iblt_params_make(params, third == THIRD_CAPACITY ? DatumGetInt32(value)
					 : IBLT_DEFAULT_CAPACITY, IBLT_DEFAULT_HASHES,
					 IBLT_DEFAULT_KEY_SIZE, false, 0);
}

/* Which form of iblt_agg is it, by argument n of the support function? */
static ThirdArgument
third_argument(FunctionCallInfo fcinfo, int n)
{
	if (PG_NARGS() <= n)
		return THIRD_NONE;
	return get_fn_expr_argtype(fcinfo->flinfo, n) == INT4OID
		? THIRD_CAPACITY : THIRD_TEMPLATE;
}

static IbltAggSite *
site_make(FunctionCallInfo fcinfo)
{
	MemoryContext context = fcinfo->flinfo->fn_mcxt;
	IbltAggSite *site = MemoryContextAllocZero(context, sizeof *site);
	Oid			key_type = get_fn_expr_argtype(fcinfo->flinfo, 1);

	/* all is checked before any state is trusted */
	iblt_agg_context(fcinfo);
	if (!OidIsValid(key_type))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("could not determine the type of the key")));
	site->coder = iblt_key_coder(key_type, context);
	site->third = third_argument(fcinfo, 3);
	site->third_is_constant = site->third == THIRD_NONE ||
		iblt_agg_argument_is_constant(iblt_agg_argument(fcinfo, 2));
	fcinfo->flinfo->fn_extra = site;
	return site;
}

/* Keeps a copy of a template and its parameters, if it is not the last one. */
static void
site_see_template(IbltAggSite *site, Datum value, MemoryContext context)
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
	params_from_third(&site->params, THIRD_TEMPLATE, PointerGetDatum(copy),
					  false);
	if (site->template != NULL)
		pfree(site->template);
	site->template = copy;
	site->version++;
}

/* Brings the site's parameters up to date with this row's third argument. */
static void
site_see_third(IbltAggSite *site, FunctionCallInfo fcinfo)
{
	bool		isnull = site->third != THIRD_NONE && PG_ARGISNULL(3);

	if (site->third == THIRD_TEMPLATE && !isnull)
		site_see_template(site, PG_GETARG_DATUM(3), fcinfo->flinfo->fn_mcxt);
	else if (!site->has_params || isnull ||
			 site->capacity != PG_GETARG_INT32(3))
	{
		params_from_third(&site->params, site->third,
						  site->third == THIRD_NONE ? (Datum) 0
						  : PG_GETARG_DATUM(3), isnull);
		if (site->third == THIRD_CAPACITY)
			site->capacity = PG_GETARG_INT32(3);
		site->version++;
	}
	site->has_params = true;
}

/*
 * The state to put this row in: a new one for the group's first row, else the
 * group's, whose parameters must be what this row asks for.
 */
static IbltAggState *
state_check(IbltAggState *state, IbltAggSite *site, FunctionCallInfo fcinfo)
{
	IbltParams	params = site->params;

	iblt_key_set_params(site->coder, &params);
	if (state == NULL)
		state = state_make(&params, iblt_agg_context(fcinfo));
	else
		iblt_params_check_match(&state->sketch.params, &params);
	state->version = site->version + site->coder->version;
	return state;
}

/* The key of this row in the form that the sketch keeps. */
static inline const uint8 *
row_key(IbltAggSite *site, Datum key, uint64 *room)
{
	switch (site->coder->type)
	{
		case INT8OID:
			iblt_store64((uint8 *) room, (uint64) DatumGetInt64(key));
			return (uint8 *) room;
		case INT4OID:
			iblt_store64((uint8 *) room, (uint64) (int64) DatumGetInt32(key));
			return (uint8 *) room;
		default:
			iblt_key_encode(site->coder, key);
			return NULL;
	}
}

static void
refuse_null(bool key_is_null)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s of a row must not be null",
					key_is_null ? "key" : "checksum"),
			 errdetail("To skip the row would hide it from the comparison."),
			 errhint("%s", key_is_null
					 ? "Without a key that is never null, use the whole row as key: iblt_agg(t, 0)."
					 : "iblt_checksum(...) is never null, whatever its arguments.")));
}

/* A row in (sign +1) or out again (sign -1). */
static Datum
transition(FunctionCallInfo fcinfo, int sign)
{
	IbltAggSite *site = fcinfo->flinfo->fn_extra;
	IbltAggState *state;
	IbltStatus	status;
	const uint8 *key;
	uint64		room;

	if (unlikely(PG_ARGISNULL(1) || PG_ARGISNULL(2)))
		refuse_null(PG_ARGISNULL(1));
	if (unlikely(site == NULL))
		site = site_make(fcinfo);
	if (unlikely(!site->has_params || !site->third_is_constant))
		site_see_third(site, fcinfo);
	state = PG_ARGISNULL(0) ? NULL : (IbltAggState *) PG_GETARG_POINTER(0);
	key = row_key(site, PG_GETARG_DATUM(1), &room);
	if (unlikely(key == NULL && iblt_key_type_changed(site->coder)) ||
		unlikely(state == NULL ||
				 state->version != site->version + site->coder->version))
		state = state_check(state, site, fcinfo);
	if (key == NULL)
		key = iblt_key_padded(site->coder, state->sketch.params.limbs);
	status = iblt_core_add_row(&state->sketch, key,
							   (uint64) PG_GETARG_INT64(2), sign);
	if (unlikely(status != IBLT_OK))
		iblt_refuse_row(status);
	PG_RETURN_POINTER(state);
}

PG_FUNCTION_INFO_V1(iblt_agg_trans);

/* iblt_agg_trans(internal, anyelement, bigint [, integer | iblt]) */
Datum
iblt_agg_trans(PG_FUNCTION_ARGS)
{
	return transition(fcinfo, 1);
}

PG_FUNCTION_INFO_V1(iblt_agg_inverse);

/* iblt_agg_inverse(internal, anyelement, bigint [, integer | iblt]) */
Datum
iblt_agg_inverse(PG_FUNCTION_ARGS)
{
	return transition(fcinfo, -1);
}

/* The coder of keys that no row has shown, or NULL if that takes a row. */
static IbltKeyCoder *
coder_without_row(FunctionCallInfo fcinfo, Oid type)
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
 * The value of a group without rows.  key_type is InvalidOid when it cannot be
 * known; the sketch is then untyped, and goes with any type of key.
 */
static struct varlena *
empty_value(FunctionCallInfo fcinfo, Oid key_type, ThirdArgument third)
{
	IbltParams	params;
	IbltSketch	sketch;
	IbltKeyCoder *coder = NULL;
	struct varlena *value;
	Datum		argument = (Datum) 0;
	bool		isnull = false;

	if (third != THIRD_NONE &&
		!iblt_agg_argument_value(fcinfo, iblt_agg_argument(fcinfo, 2),
								 &argument, &isnull))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("iblt_agg over no rows needs a capacity or template that does not depend on a row"),
				 errhint("Pass a constant, a parameter or a scalar subquery.")));
	params_from_third(&params, third, argument, isnull);
	if (OidIsValid(key_type))
		coder = coder_without_row(fcinfo, key_type);
	if (coder != NULL)
		iblt_key_set_params(coder, &params);
	value = iblt_make(&sketch, &params);
	iblt_core_seal(&sketch);
	return value;
}

PG_FUNCTION_INFO_V1(iblt_agg_final);

/* iblt_agg_final(internal, anyelement, bigint [, integer | iblt]) -> iblt */
Datum
iblt_agg_final(PG_FUNCTION_ARGS)
{
	iblt_agg_context(fcinfo);
	if (PG_ARGISNULL(0))
		PG_RETURN_POINTER(empty_value(fcinfo,
									  get_fn_expr_argtype(fcinfo->flinfo, 1),
									  third_argument(fcinfo, 3)));
	PG_RETURN_POINTER(state_value((IbltAggState *) PG_GETARG_POINTER(0)));
}

/*
 * A worker that saw no row speaks for the aggregate all the same: the
 * finishing step can no longer see the arguments, so the worker evaluates
 * them.  Its arguments are found through the aggregate call; iblt_sum has one.
 */
static struct varlena *
empty_partial(FunctionCallInfo fcinfo)
{
	Expr	   *key = iblt_agg_argument(fcinfo, 0);
	Expr	   *checksum = iblt_agg_argument(fcinfo, 1);
	Expr	   *third = iblt_agg_argument(fcinfo, 2);

	if (key == NULL || checksum == NULL)
		return NULL;
	return empty_value(fcinfo, exprType((Node *) key),
					   third == NULL ? THIRD_NONE
					   : exprType((Node *) third) == INT4OID
					   ? THIRD_CAPACITY : THIRD_TEMPLATE);
}

PG_FUNCTION_INFO_V1(iblt_agg_serial);

/* iblt_agg_serial(internal) -> bytea: the value's bytes; NULL if unknown */
Datum
iblt_agg_serial(PG_FUNCTION_ARGS)
{
	struct varlena *value;

	iblt_agg_context(fcinfo);
	value = PG_ARGISNULL(0) ? empty_partial(fcinfo)
		: state_value((IbltAggState *) PG_GETARG_POINTER(0));
	if (value == NULL)
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(value);
}

PG_FUNCTION_INFO_V1(iblt_agg_deserial);

/* iblt_agg_deserial(bytea, internal) -> internal */
Datum
iblt_agg_deserial(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;

	iblt_agg_context(fcinfo);
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	iblt_open(&sketch, PG_GETARG_DATUM(0));
	PG_RETURN_POINTER(state_add(NULL, &sketch, 1, CurrentMemoryContext));
}

PG_FUNCTION_INFO_V1(iblt_agg_combine);

/* iblt_agg_combine(internal, internal) -> internal */
Datum
iblt_agg_combine(PG_FUNCTION_ARGS)
{
	MemoryContext context = iblt_agg_context(fcinfo);
	IbltAggState *state = PG_ARGISNULL(0) ? NULL
		: (IbltAggState *) PG_GETARG_POINTER(0);

	if (!PG_ARGISNULL(1))
		state = state_add(state,
						  &((IbltAggState *) PG_GETARG_POINTER(1))->sketch,
						  1, context);
	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(state);
}

/* A sketch in (sign +1) or out again (sign -1). */
static Datum
sum_transition(FunctionCallInfo fcinfo, int sign)
{
	MemoryContext context = iblt_agg_context(fcinfo);
	IbltAggState *state = PG_ARGISNULL(0) ? NULL
		: (IbltAggState *) PG_GETARG_POINTER(0);
	IbltSketch	sketch;

	iblt_open_arg(&sketch, fcinfo, 1);
	PG_RETURN_POINTER(state_add(state, &sketch, sign, context));
}

PG_FUNCTION_INFO_V1(iblt_sum_trans);

/* iblt_sum_trans(internal, iblt) */
Datum
iblt_sum_trans(PG_FUNCTION_ARGS)
{
	return sum_transition(fcinfo, 1);
}

PG_FUNCTION_INFO_V1(iblt_sum_inverse);

/* iblt_sum_inverse(internal, iblt) */
Datum
iblt_sum_inverse(PG_FUNCTION_ARGS)
{
	return sum_transition(fcinfo, -1);
}

PG_FUNCTION_INFO_V1(iblt_sum_final);

/* iblt_sum_final(internal) -> iblt: over no sketches, an empty template */
Datum
iblt_sum_final(PG_FUNCTION_ARGS)
{
	iblt_agg_context(fcinfo);
	if (PG_ARGISNULL(0))
		PG_RETURN_POINTER(empty_value(fcinfo, InvalidOid, THIRD_NONE));
	PG_RETURN_POINTER(state_value((IbltAggState *) PG_GETARG_POINTER(0)));
}
