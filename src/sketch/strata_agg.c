/*-------------------------------------------------------------------------
 *
 * strata_agg.c
 *	  The aggregate iblt_strata_agg.
 *
 * As in agg.c, the state of a group is the value that the aggregate will
 * return, behind a view of it.  The arithmetic is exact, so the result does
 * not depend on the order of rows or the number of workers.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/strata_private.h"

#include "utils/memutils.h"

#include "sketch/aggcall.h"
#include "sketch/aggsite.h"
#include "core/sums.h"

/* The state of one group.  The estimator's bytes follow. */
typedef struct IbltStrataState
{
	IbltStrata	strata;
	uint64		version;		/* of the site at the last check */
} IbltStrataState;

/*
 * ERROR if a count wrapped while rows were inserted one by one.  This can be
 * seen because the state holds no rows but its group's.
 */
static const IbltStrata *
state_strata(const IbltStrataState *state)
{
	if (!iblt_core_inserted_fit(&state->strata.all))
		iblt_strata_check_counts(IBLT_COUNT_OVERFLOW);
	return &state->strata;
}

/* The parameters that the third argument stands for. */
static void
strata_params(IbltStrataParams *params, IbltThirdArgument third, Datum value)
{
	IbltStrata	template;

	if (third == IBLT_THIRD_TEMPLATE)
	{
		iblt_strata_open(&template, value);
		*params = template.params;
	}
	else
		iblt_strata_params_make(params, IBLT_DEFAULT_STRATA,
								IBLT_DEFAULT_STRATUM_CELLS,
								IBLT_DEFAULT_HASHES, 0);
}

static const IbltAggKind kind_strata = {"iblt_strata_agg", strata_params};

/* An empty state for these parameters that lives as long as the group. */
static IbltStrataState *
state_make(const IbltStrataParams *params, MemoryContext context)
{
	IbltStrataState *state;
	size_t		head = MAXALIGN(sizeof(IbltStrataState));

	iblt_strata_check_params(params);
	/* the largest estimator fits in a value, but not with this in front */
	state = MemoryContextAllocExtended(context,
									   head + iblt_core_strata_size(params),
									   MCXT_ALLOC_HUGE);
	memset(state, 0, head);
	iblt_core_strata_init(&state->strata, params, (uint8 *) state + head);
	return state;
}

/* The sealed value of a state, which is not changed. */
static struct varlena *
state_value(const IbltStrataState *state)
{
	IbltStrata	strata;
	struct varlena *value = iblt_strata_copy(&strata, state_strata(state));

	iblt_core_strata_seal(&strata);
	return value;
}

/* Adds an estimator.  A state without a type of key takes the other's. */
static IbltStrataState *
state_add(IbltStrataState *state, const IbltStrata *strata,
		  MemoryContext context)
{
	if (state != NULL)
		iblt_strata_check_match(&state->strata.params, &strata->params);
	/* a state without a type of key has no rows that could be lost */
	if (state == NULL ||
		state->strata.params.table.kind == IBLT_KEY_UNTYPED)
		state = state_make(&strata->params, context);
	iblt_strata_check_counts(iblt_core_strata_add(&state->strata, strata, 1));
	return state;
}

/*
 * The state for this row.  The first row of a group gets a new one.  For a
 * later row, ERROR unless the state's parameters are those of the row.
 */
static IbltStrataState *
state_check(IbltStrataState *state, IbltAggSite *site,
			FunctionCallInfo fcinfo)
{
	IbltStrataParams params = site->params;

	iblt_key_set_params(site->coder, &params.table);
	if (state == NULL)
		state = state_make(&params, iblt_agg_context(fcinfo));
	else
		iblt_strata_check_match(&state->strata.params, &params);
	state->version = iblt_agg_site_version(site);
	return state;
}

/* Adds a row (sign +1) or removes it (sign -1). */
static pg_attribute_always_inline Datum
transition(FunctionCallInfo fcinfo, int sign)
{
	IbltAggSite *site = iblt_agg_site(fcinfo, &kind_strata);
	IbltStrataState *state = iblt_agg_state(fcinfo, 0);
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
	iblt_core_strata_add_row(&state->strata, key, size,
							 (uint64) PG_GETARG_INT64(2), sign);
	PG_RETURN_POINTER(state);
}

/* iblt_strata_agg_trans(internal, anyelement, bigint [, iblt_strata]) */
IBLT_FUNCTION(iblt_strata_agg_trans, transition(fcinfo, 1))

/* iblt_strata_agg_inverse(internal, anyelement, bigint [, iblt_strata]) */
IBLT_FUNCTION(iblt_strata_agg_inverse, transition(fcinfo, -1))

PG_FUNCTION_INFO_V1(iblt_strata_agg_final);

/* iblt_strata_agg_final(internal, anyelement, bigint [, iblt_strata]) -> iblt_strata */
Datum
iblt_strata_agg_final(PG_FUNCTION_ARGS)
{
	IbltStrataParams params;

	iblt_agg_context(fcinfo);
	if (!PG_ARGISNULL(0))
		PG_RETURN_POINTER(state_value((IbltStrataState *) PG_GETARG_POINTER(0)));
	iblt_agg_empty_params(&params, fcinfo, &kind_strata);
	PG_RETURN_POINTER(iblt_strata_make_empty(&params));
}

PG_FUNCTION_INFO_V1(iblt_strata_agg_serial);

/*
 * iblt_strata_agg_serial(internal) -> bytea: the value's bytes, or NULL if
 * unknown
 */
Datum
iblt_strata_agg_serial(PG_FUNCTION_ARGS)
{
	IbltStrataParams params;

	iblt_agg_context(fcinfo);
	if (!PG_ARGISNULL(0))
		PG_RETURN_BYTEA_P(state_value((IbltStrataState *) PG_GETARG_POINTER(0)));
	if (!iblt_agg_partial_params(&params, fcinfo, &kind_strata))
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(iblt_strata_make_empty(&params));
}

PG_FUNCTION_INFO_V1(iblt_strata_agg_deserial);

/* iblt_strata_agg_deserial(bytea, internal) -> internal */
Datum
iblt_strata_agg_deserial(PG_FUNCTION_ARGS)
{
	IbltStrata	strata;

	iblt_agg_context(fcinfo);
	iblt_strata_open(&strata, PG_GETARG_DATUM(0));
	PG_RETURN_POINTER(state_add(NULL, &strata, CurrentMemoryContext));
}

PG_FUNCTION_INFO_V1(iblt_strata_agg_combine);

/* iblt_strata_agg_combine(internal, internal) -> internal */
Datum
iblt_strata_agg_combine(PG_FUNCTION_ARGS)
{
	MemoryContext context = iblt_agg_context(fcinfo);
	IbltStrataState *state = iblt_agg_state(fcinfo, 0);

	if (!PG_ARGISNULL(1))
		state = state_add(state,
						  state_strata((IbltStrataState *) PG_GETARG_POINTER(1)),
						  context);
	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(state);
}
