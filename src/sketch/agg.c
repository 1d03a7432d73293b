/*-------------------------------------------------------------------------
 *
 * agg.c
 *	  The aggregates iblt_agg, iblt_strata_agg and iblt_sum.
 *
 * The arithmetic is exact, in a field.  So the result does not depend on the
 * order of rows or on how workers share them.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "utils/memutils.h"

#include "sketch/aggsite.h"
#include "sketch/aggstate.h"
#include "sketch/progress.h"
#include "core/strata.h"

IbltAggState *
iblt_state_make(const IbltParams *params, MemoryContext context)
{
	IbltAggState *state;
	bool		queued;
	size_t		head;

	iblt_check_params(params);
	queued = params->strata == 0 &&
		iblt_core_size(params) >= IBLT_QUEUE_MIN_SIZE;
	head = MAXALIGN(queued ? sizeof(IbltAggState)
					: offsetof(IbltAggState, queue));
	/* the largest sketch fits in a value, but not with this in front */
	state = MemoryContextAllocExtended(context,
									   head + iblt_core_size(params),
									   MCXT_ALLOC_HUGE);
	memset(state, 0, head);
	iblt_core_init(&state->sketch, params, (uint8 *) state + head);
	state->adder = iblt_core_row_adder(params);
	state->queued = queued;
	return state;
}

IbltSketch *
iblt_state_sketch(IbltAggState *state)
{
	if (state->queued)
		iblt_core_queue_flush(&state->queue, &state->sketch);
	if (state->inserted && !iblt_core_inserted_fit(&state->sketch))
		iblt_check_counts(&state->sketch.params, IBLT_COUNT_OVERFLOW);
	return &state->sketch;
}

struct varlena *
iblt_state_value(void *state)
{
	IbltSketch *sketch = iblt_state_sketch(state);

	iblt_core_seal(sketch);
	return iblt_value_copy(sketch->bytes, sketch->size);
}

IbltAggState *
iblt_state_add(IbltAggState *state, const IbltSketch *sketch, int sign,
			   MemoryContext context)
{
	IbltParams	params = sketch->params;

	if (state != NULL)
		iblt_params_check_match(&state->sketch.params, &sketch->params);
	if (state == NULL || (state->sketch.params.key.kind == IBLT_KEY_UNTYPED &&
						  sketch->params.key.kind != IBLT_KEY_UNTYPED))
		state = iblt_state_make(&params, context);
	iblt_check_counts(&sketch->params,
					  iblt_core_add_sketch(&state->sketch, sketch, sign));
	return state;
}

static void
take_third(IbltAggSite *site, Datum value)
{
	IbltSketch	template;

	if (site->third == IBLT_THIRD_TEMPLATE)
	{
		iblt_open_as(&template, value, site->kind->is_strata);
		site->params = template.params;
	}
	else if (site->kind->is_strata)
		iblt_strata_params_make(&site->params, IBLT_DEFAULT_STRATA,
								IBLT_DEFAULT_STRATUM_CELLS,
								IBLT_DEFAULT_HASHES, 0);
	else
		iblt_params_make(&site->params, site->third == IBLT_THIRD_CAPACITY
						 ? DatumGetInt32(value) : IBLT_DEFAULT_CAPACITY,
						 IBLT_DEFAULT_HASHES, IBLT_DEFAULT_KEY_SIZE, 0, 0);
}

static struct varlena *
make_empty(IbltAggSite *site)
{
	if (site->coder != NULL && site->value != NULL)
	{
		site->value->of_value = true;
		iblt_key_set_row_params(site->coder, site->value, &site->params);
	}
	return iblt_make_empty(&site->params);
}

const IbltAggKind iblt_agg_kind = {
	"iblt_agg", sizeof(IbltAggSite), false, true, take_third, make_empty, iblt_state_value
};

static const IbltAggKind kind_strata = {
	"iblt_strata_agg", sizeof(IbltAggSite), true, true, take_third, make_empty, iblt_state_value
};

/*
 * The state for this row.  The first row of a group gets a new one.  For a
 * later row, ERROR unless the state's parameters are those of the row.
 */
static IbltAggState *
state_check(IbltAggState *state, IbltAggSite *site, FunctionCallInfo fcinfo)
{
	IbltParams	params = site->params;
	uint64		version = site->value->version;

	iblt_key_set_row_params(site->coder, site->value, &params);
	/* states that have seen another type of value must be checked again */
	site->version += site->value->version - version;
	if (state == NULL)
		state = iblt_state_make(&params, iblt_agg_context(fcinfo));
	else
		iblt_params_check_match(&state->sketch.params, &params);
	state->version = iblt_agg_site_version(site);
	state->inserted = true;
	return state;
}

/*
 * Adds or removes a row whose second argument is not a bigint: an integer
 * checksum, or a value of any type.
 */
static Datum
pair_transition(FunctionCallInfo fcinfo, IbltAggSite *site, int sign)
{
	IbltAggState *state = iblt_agg_state(fcinfo, 0);
	const uint8 *key = iblt_agg_site_key(site, PG_GETARG_DATUM(1));
	const IbltParams *params;
	IbltStatus	status;

	iblt_key_encode(site->value, PG_GETARG_DATUM(2));
	if (state == NULL || !iblt_agg_site_in_step(site, key, state->version) ||
		iblt_key_type_changed(site->value))
		state = state_check(state, site, fcinfo);
	params = &state->sketch.params;
	if (key == NULL)
		key = iblt_key_padded(site->coder, params->key.limbs);
	if (params->value.limbs == 0)
		status = iblt_state_change(state, key, iblt_key_checksum(site->value), sign);
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
	IbltAggSite *site = iblt_agg_site(fcinfo, &iblt_agg_kind);
	IbltAggState *state;
	IbltStatus	status;
	const uint8 *key;

	if (unlikely(site->value_type != INT8OID))
		return pair_transition(fcinfo, site, sign);
	state = iblt_agg_state(fcinfo, 0);
	key = iblt_agg_site_key(site, PG_GETARG_DATUM(1));
	if (unlikely(state == NULL) ||
		!iblt_agg_site_in_step(site, key, state->version))
		state = state_check(state, site, fcinfo);
	if (key == NULL)
		key = iblt_key_padded(site->coder, state->sketch.params.key.limbs);
	status = iblt_state_change(state, key, (uint64) PG_GETARG_INT64(2), sign);
	if (unlikely(status != IBLT_OK))
		iblt_refuse_row(status);
	iblt_progress_row(fcinfo, state->sketch.rows);
	PG_RETURN_POINTER(state);
}

/* iblt_agg_trans(internal, anyelement, bigint [, integer | iblt]) */
IBLT_FUNCTION(iblt_agg_trans, transition(fcinfo, 1))

/* iblt_agg_inverse(internal, anyelement, bigint [, integer | iblt]) */
IBLT_FUNCTION(iblt_agg_inverse, transition(fcinfo, -1))

/* The same for an estimator, whose row has a key of any size and a bigint. */
static pg_attribute_always_inline Datum
strata_transition(FunctionCallInfo fcinfo, int sign)
{
	IbltAggSite *site = iblt_agg_site(fcinfo, &kind_strata);
	IbltAggState *state = iblt_agg_state(fcinfo, 0);
	const uint8 *key = iblt_agg_site_key(site, PG_GETARG_DATUM(1));
	size_t		size = sizeof(uint64);

	if (unlikely(state == NULL) ||
		!iblt_agg_site_in_step(site, key, state->version))
		state = state_check(state, site, fcinfo);
	if (key == NULL)
	{
		key = (uint8 *) site->coder->bytes.data;
		size = site->coder->bytes.len;
	}
	iblt_core_strata_add_row(&state->sketch, key, size,
							 (uint64) PG_GETARG_INT64(2), sign);
	PG_RETURN_POINTER(state);
}

/* iblt_strata_agg_trans(internal, anyelement, bigint [, iblt_strata]) */
IBLT_FUNCTION(iblt_strata_agg_trans, strata_transition(fcinfo, 1))

/* iblt_strata_agg_inverse(internal, anyelement, bigint [, iblt_strata]) */
IBLT_FUNCTION(iblt_strata_agg_inverse, strata_transition(fcinfo, -1))

/* iblt_agg_final(internal, anyelement, bigint [, integer | iblt]) -> iblt */
IBLT_FUNCTION(iblt_agg_final, iblt_agg_final_value(fcinfo, &iblt_agg_kind))

/* iblt_strata_agg_final(internal, anyelement, bigint [, iblt_strata]) -> iblt_strata */
IBLT_FUNCTION(iblt_strata_agg_final, iblt_agg_final_value(fcinfo, &kind_strata))

/* iblt_agg_serial(internal) -> bytea */
IBLT_FUNCTION(iblt_agg_serial, iblt_agg_serial_value(fcinfo, &iblt_agg_kind))

/* iblt_strata_agg_serial(internal) -> bytea */
IBLT_FUNCTION(iblt_strata_agg_serial, iblt_agg_serial_value(fcinfo, &kind_strata))

PG_FUNCTION_INFO_V1(iblt_agg_deserial);

/* iblt_agg_deserial(bytea, internal) -> internal, of iblt_strata_agg too */
Datum
iblt_agg_deserial(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;

	iblt_agg_context(fcinfo);
	iblt_open_either(&sketch, PG_GETARG_DATUM(0));
	PG_RETURN_POINTER(iblt_state_add(NULL, &sketch, 1, CurrentMemoryContext));
}

PG_FUNCTION_INFO_V1(iblt_agg_combine);

/* iblt_agg_combine(internal, internal) -> internal, of iblt_strata_agg too */
Datum
iblt_agg_combine(PG_FUNCTION_ARGS)
{
	MemoryContext context = iblt_agg_context(fcinfo);
	IbltAggState *state = iblt_agg_state(fcinfo, 0);

	if (!PG_ARGISNULL(1))
		state = iblt_state_add(state,
						  iblt_state_sketch((IbltAggState *) PG_GETARG_POINTER(1)),
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
	IbltAggState *state = iblt_agg_state(fcinfo, 0);
	IbltSketch	sketch;

	iblt_open_arg(&sketch, fcinfo, 1);
	PG_RETURN_POINTER(iblt_state_add(state, &sketch, sign, context));
}

/* iblt_sum_trans(internal, iblt) */
IBLT_FUNCTION(iblt_sum_trans, sum_transition(fcinfo, 1))

/* iblt_sum_inverse(internal, iblt) */
IBLT_FUNCTION(iblt_sum_inverse, sum_transition(fcinfo, -1))

/* iblt_sum_final(internal) -> iblt: over no sketches, an empty template */
IBLT_FUNCTION(iblt_sum_final, iblt_agg_final_value(fcinfo, &iblt_agg_kind))
