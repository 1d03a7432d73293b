/*-------------------------------------------------------------------------
 *
 * agg.c
 *	  The aggregates iblt_agg and iblt_sum.
 *
 * The state of a group is the value that the aggregate will return, behind a
 * view of it.  It takes one allocation of the value's size and some 350 bytes,
 * whatever the number of rows.  The arithmetic is exact, in a field.  So the
 * result does not depend on the order of rows or on how workers share them.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "utils/memutils.h"

#include "aggcall.h"
#include "aggsite.h"
#include "core/row.h"
#include "core/sums.h"

/* The state of one group.  The sketch's bytes follow. */
typedef struct IbltAggState
{
	IbltSketch	sketch;
	uint64		version;		/* of site and coder at the last check */
	const IbltRowAdder *adder;	/* for a plain sketch, or NULL */
	bool		queued;			/* large enough for rows to go through the
								 * queue */
	bool		inserted;		/* rows were inserted without checking counts */
	IbltQueue	queue;			/* exists only if queued */
} IbltAggState;

/* An empty state for these parameters that lives as long as the group. */
static IbltAggState *
state_make(const IbltParams *params, MemoryContext context)
{
	IbltAggState *state;
	bool		queued;
	size_t		head;

	iblt_check_params(params);
	queued = iblt_core_size(params) >= IBLT_QUEUE_MIN_SIZE;
	head = MAXALIGN(queued ? sizeof(IbltAggState)
					: offsetof(IbltAggState, queue));
	/* the largest sketch fits in a value, but not with this in front */
	state = MemoryContextAllocExtended(context,
									   head + iblt_core_size(params),
									   MCXT_ALLOC_HUGE);
	iblt_core_init(&state->sketch, params, (uint8 *) state + head);
	state->version = 0;
	state->adder = iblt_core_row_adder(params);
	state->inserted = false;
	state->queued = queued;
	if (queued)
		memset(&state->queue, 0, sizeof state->queue);
	return state;
}

/*
 * The state's sketch with all rows in its cells.  ERROR if a count wrapped
 * while rows were inserted one by one.  This can be seen because the state
 * holds no rows but its group's.
 */
static const IbltSketch *
state_sketch(IbltAggState *state)
{
	if (state->queued)
		iblt_core_queue_flush(&state->queue, &state->sketch);
	if (state->inserted && !iblt_core_inserted_fit(&state->sketch))
		iblt_check_counts(IBLT_COUNT_OVERFLOW);
	return &state->sketch;
}

/* The sealed value of a state.  The state can still be used. */
static struct varlena *
state_value(IbltAggState *state)
{
	IbltSketch	sketch;
	struct varlena *value = iblt_copy(&sketch, state_sketch(state));

	iblt_core_seal(&sketch);
	return value;
}

/*
 * Adds a sketch to the state, or subtracts it.  An untyped state takes the key
 * type of the sketch.
 */
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
		iblt_check_counts(iblt_core_add_sketch(&state->sketch, sketch, sign));
	return state;
}

/* The parameters that the third argument of iblt_agg stands for. */
static void
agg_params(IbltStrataParams *params, IbltThirdArgument third, Datum value)
{
	IbltSketch	template;

	if (third == IBLT_THIRD_TEMPLATE)
	{
		iblt_open(&template, value);
		params->table = template.params;
	}
	else
		iblt_params_make(&params->table, third == IBLT_THIRD_CAPACITY
						 ? DatumGetInt32(value) : IBLT_DEFAULT_CAPACITY,
						 IBLT_DEFAULT_HASHES, IBLT_DEFAULT_KEY_SIZE, 0, 0);
}

static const IbltAggKind kind_agg = {"iblt_agg", agg_params};

/*
 * The state for this row.  The first row of a group gets a new one.  For a
 * later row, ERROR unless the state's parameters are those of the row.
 */
static IbltAggState *
state_check(IbltAggState *state, IbltAggSite *site, FunctionCallInfo fcinfo)
{
	IbltParams	params = site->params.table;

	iblt_agg_site_set_types(site, &params);
	if (state == NULL)
		state = state_make(&params, iblt_agg_context(fcinfo));
	else
		iblt_params_check_match(&state->sketch.params, &params);
	state->version = iblt_agg_site_version(site);
	state->inserted = true;
	return state;
}

/* Adds a key and its checksum to a state. */
static pg_attribute_always_inline IbltStatus
state_insert(IbltAggState *state, const uint8 *key, uint64 y)
{
	if (unlikely(state->adder == NULL))
		return iblt_core_add_row(&state->sketch, key, y, 1);
	if (state->queued)
		return state->adder->queue(&state->queue, &state->sketch, key, y);
	return state->adder->add(&state->sketch, key, y);
}

/* Adds a row, or removes it, that has a checksum and no other value. */
static pg_attribute_always_inline IbltStatus
state_change(IbltAggState *state, const uint8 *key, uint64 y, int sign)
{
	return sign > 0 ? state_insert(state, key, y)
		: iblt_core_add_row(&state->sketch, key, y, sign);
}

/*
 * The common case, inlined and without lookups: an integer key, and a state in
 * step with its site.  Returns false, with nothing done, in all other cases.
 */
static pg_attribute_always_inline bool
add_integer(FunctionCallInfo fcinfo)
{
	IbltAggSite *site = fcinfo->flinfo->fn_extra;
	IbltAggState *state = (IbltAggState *) PG_GETARG_POINTER(0);
	uint8		key[8];

	if (unlikely(PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2)) ||
		unlikely(site == NULL || !site->plain) ||
		unlikely(state->version != iblt_agg_site_version(site)))
		return false;
	if (site->coder->type == INT8OID)
		iblt_store64(key, (uint64) PG_GETARG_INT64(1));
	else if (site->coder->type == INT4OID)
		iblt_store64(key, (uint64) (int64) PG_GETARG_INT32(1));
	else
		return false;
	return state_insert(state, key, (uint64) PG_GETARG_INT64(2)) == IBLT_OK;
}

/*
 * Adds or removes a row whose second argument is not a bigint: an integer
 * checksum, or a value of any type.
 */
static Datum
pair_transition(FunctionCallInfo fcinfo, IbltAggSite *site, int sign)
{
	IbltAggState *state = PG_ARGISNULL(0) ? NULL
		: (IbltAggState *) PG_GETARG_POINTER(0);
	const uint8 *key = iblt_agg_site_key(site, PG_GETARG_DATUM(1));
	const IbltParams *params;
	IbltStatus	status;

	iblt_key_encode(site->value, PG_GETARG_DATUM(2));
	if (state == NULL || !iblt_agg_site_in_step(site, key, state->version) ||
		iblt_key_type_changed(site->value))
		state = state_check(state, site, fcinfo);
	params = &state->sketch.params;
	if (key == NULL)
		key = iblt_key_padded(site->coder, params->limbs);
	if (params->value.limbs == 0)
		status = state_change(state, key, iblt_key_checksum(site->value), sign);
	else
		status = iblt_core_add_pair(&state->sketch, key,
									iblt_key_padded(site->value, params->value.limbs),
									sign);
	if (status != IBLT_OK)
		iblt_refuse_row(status);
	PG_RETURN_POINTER(state);
}

/* Adds a row (sign +1) or removes it (sign -1). */
static pg_attribute_always_inline Datum
transition(FunctionCallInfo fcinfo, int sign)
{
	IbltAggSite *site = iblt_agg_site(fcinfo, &kind_agg);
	IbltAggState *state;
	IbltStatus	status;
	const uint8 *key;

	if (unlikely(!site->bigint))
		return pair_transition(fcinfo, site, sign);
	state = PG_ARGISNULL(0) ? NULL : (IbltAggState *) PG_GETARG_POINTER(0);
	key = iblt_agg_site_key(site, PG_GETARG_DATUM(1));
	if (unlikely(state == NULL) ||
		!iblt_agg_site_in_step(site, key, state->version))
		state = state_check(state, site, fcinfo);
	if (key == NULL)
		key = iblt_key_padded(site->coder, state->sketch.params.limbs);
	status = state_change(state, key, (uint64) PG_GETARG_INT64(2), sign);
	if (unlikely(status != IBLT_OK))
		iblt_refuse_row(status);
	PG_RETURN_POINTER(state);
}

PG_FUNCTION_INFO_V1(iblt_agg_trans);

/* iblt_agg_trans(internal, anyelement, bigint [, integer | iblt]) */
Datum
iblt_agg_trans(PG_FUNCTION_ARGS)
{
	if (likely(add_integer(fcinfo)))
		return PG_GETARG_DATUM(0);
	return transition(fcinfo, 1);
}

PG_FUNCTION_INFO_V1(iblt_agg_inverse);

/* iblt_agg_inverse(internal, anyelement, bigint [, integer | iblt]) */
Datum
iblt_agg_inverse(PG_FUNCTION_ARGS)
{
	return transition(fcinfo, -1);
}

/* The value of a group without rows. */
static struct varlena *
empty_value(const IbltParams *params)
{
	IbltSketch	sketch;
	struct varlena *value = iblt_make(&sketch, params);

	iblt_core_seal(&sketch);
	return value;
}

PG_FUNCTION_INFO_V1(iblt_agg_final);

/* iblt_agg_final(internal, anyelement, bigint [, integer | iblt]) -> iblt */
Datum
iblt_agg_final(PG_FUNCTION_ARGS)
{
	IbltStrataParams params;

	iblt_agg_context(fcinfo);
	if (!PG_ARGISNULL(0))
		PG_RETURN_POINTER(state_value((IbltAggState *) PG_GETARG_POINTER(0)));
	iblt_agg_empty_params(&params, fcinfo, &kind_agg);
	PG_RETURN_POINTER(empty_value(&params.table));
}

PG_FUNCTION_INFO_V1(iblt_agg_serial);

/* iblt_agg_serial(internal) -> bytea: the value's bytes, or NULL if unknown */
Datum
iblt_agg_serial(PG_FUNCTION_ARGS)
{
	IbltStrataParams params;

	iblt_agg_context(fcinfo);
	if (!PG_ARGISNULL(0))
		PG_RETURN_BYTEA_P(state_value((IbltAggState *) PG_GETARG_POINTER(0)));
	if (!iblt_agg_partial_params(&params, fcinfo, &kind_agg))
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(empty_value(&params.table));
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
						  state_sketch((IbltAggState *) PG_GETARG_POINTER(1)),
						  1, context);
	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(state);
}

/* Adds a sketch (sign +1) or removes it (sign -1). */
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
	IbltStrataParams params;

	iblt_agg_context(fcinfo);
	if (!PG_ARGISNULL(0))
		PG_RETURN_POINTER(state_value((IbltAggState *) PG_GETARG_POINTER(0)));
	agg_params(&params, IBLT_THIRD_NONE, (Datum) 0);
	PG_RETURN_POINTER(empty_value(&params.table));
}
