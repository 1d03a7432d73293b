/*
 * kbf_agg.c
 *	  The aggregates kbf_agg and kbf_sum.
 *
 * As in agg.c, the state of a group is the value that the aggregate will
 * return, behind a view of it.  Insertions and sums give the same bytes in any
 * order and grouping (core/kbf_cell.h).  So the result does not depend on the
 * order of rows or the number of workers.
 *
 * There are no inverse transition functions.  A cell that became full has
 * forgotten its pairs, so taking a row out again would not give the filter of
 * the other rows.  A window with a moving frame computes each frame from its
 * rows.
 */
#include "kbf/kbf_private.h"

#include "sketch/aggsite.h"

#define CACHED_LABELS	64	/* a power of 2 */

/* What a call site of the transition function keeps between rows. */
typedef struct IbltKbfSite
{
	IbltAggSite base;
	IbltKbfValueKind value_kind;
	IbltKbfParams params;		/* untyped, or typed by the template, of the last new group */
	uint64	   *codes[IBLT_GF_MAX_DEGREE + 1][IBLT_GF_MAX_TERMS + 1];
	struct
	{
		Oid			label;		/* a value of an enum type, or 0 */
		unsigned	value;
	}			cache[CACHED_LABELS];	/* if all groups have these params */
} IbltKbfSite;

/*
 * The parameters that the third argument stands for, with labels in
 * CurrentMemoryContext.  Values of an enum type bring their labels along, with
 * a template those that the type got at its end.
 */
static void
take_third(IbltAggSite *base, Datum value)
{
	IbltKbfSite *site = (IbltKbfSite *) base;
	IbltKbfParams *params = &site->params;
	Oid			value_type = base->value_type;
	IbltKbf		template;

	memset(params, 0, sizeof *params);
	params->values = IBLT_KBF_DEFAULT_VALUES;
	site->value_kind = base->third == IBLT_THIRD_NONE ? IBLT_KBF_INTEGER
		: iblt_kbf_value_kind(value_type);
	if (base->third == IBLT_THIRD_TEMPLATE)
	{
		iblt_value_open(&iblt_kbf_type, &template, value);
		*params = template.params;
		if (site->value_kind == IBLT_KBF_ENUM)
			iblt_kbf_labels_follow(params, value_type);
		return;
	}
	if (site->value_kind == IBLT_KBF_ENUM)
		iblt_kbf_labels_from_enum(params, value_type);
	else if (site->value_kind == IBLT_KBF_TEXT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("kbf_agg of labels needs a template with these labels"),
				 errhint("Pass kbf_new(capacity, labels => ...) in place of the capacity.")));
	iblt_kbf_params_make(params, base->third == IBLT_THIRD_NONE
						 ? IBLT_KBF_DEFAULT_CAPACITY : DatumGetInt32(value),
						 IBLT_KBF_DEFAULT_FAILURE,
						 IBLT_KBF_DEFAULT_SUPERPOSED, 0);
}

static struct varlena *
make_empty(IbltAggSite *base)
{
	IbltKbfSite *site = (IbltKbfSite *) base;

	if (base->coder != NULL)
		iblt_kbf_set_key(base->coder, &site->params);
	return iblt_kbf_make_empty(&site->params);
}

/* The state of one group.  The filter's bytes follow. */
typedef struct IbltKbfState
{
	IbltKbf		kbf;
	uint64		version;		/* of site and coder at the last check */
	const uint64 *codes;		/* of the site, once a row was checked */
	bool		queued;			/* large enough for pairs to go through the
								 * queue */
	IbltKbfQueue queue;			/* exists only if queued */
} IbltKbfState;

/* An empty state for these parameters that lives as long as the group. */
static IbltKbfState *
state_make(const IbltKbfParams *params, MemoryContext context)
{
	IbltKbfState *state;
	bool		queued;
	size_t		head;

	iblt_value_check(&iblt_kbf_type, iblt_core_kbf_check_params(params));
	queued = iblt_core_kbf_size(params) >= IBLT_KBF_QUEUE_MIN_SIZE;
	head = MAXALIGN(queued ? sizeof(IbltKbfState)
					: offsetof(IbltKbfState, queue));
	/* the largest filter fits in a value, but not with this in front */
	state = MemoryContextAllocExtended(context,
									   head + iblt_core_kbf_size(params),
									   MCXT_ALLOC_HUGE);
	memset(state, 0, head);
	iblt_core_kbf_init(&state->kbf, params, (uint8 *) state + head);
	state->queued = queued;
	return state;
}

/* The state's filter with all pairs in its cells. */
static IbltKbf *
state_kbf(IbltKbfState *state)
{
	if (state->queued)
		iblt_core_kbf_queue_flush(&state->queue, &state->kbf);
	return &state->kbf;
}

/* The sealed value of a state.  The state can still be used. */
static struct varlena *
state_value(void *state)
{
	IbltKbf    *kbf = state_kbf(state);

	iblt_core_kbf_seal(kbf);
	return iblt_value_copy(kbf->bytes, kbf->size);
}

/*
 * The state with more labels or a type of key, if the parameters have them.
 * ERROR unless both go together.
 */
static IbltKbfState *
state_widen(IbltKbfState *state, const IbltKbfParams *params,
			MemoryContext context)
{
	IbltKbfParams widened = state->kbf.params;
	IbltKbfState *wide;

	iblt_kbf_check_match(&state->kbf.params, params);
	if (!iblt_core_kbf_widen(&widened, params))
		return state;
	wide = state_make(&widened, context);
	iblt_kbf_check_change(iblt_core_kbf_add(&wide->kbf, state_kbf(state)));
	pfree(state);
	return wide;
}

/*
 * Adds a filter.  A state without a type of key takes the other's.  Nothing is subtracted,
 * because there are no inverse functions.
 */
static void *
state_add(void *to, const void *view, int sign, MemoryContext context)
{
	IbltKbfState *state = to;
	const IbltKbf *kbf = view;

	(void) sign;
	if (state == NULL)
		state = state_make(&kbf->params, context);
	else
		state = state_widen(state, &kbf->params, context);
	iblt_kbf_check_change(iblt_core_kbf_add(&state->kbf, kbf));
	return state;
}

static const IbltAggKind kind_kbf = {
	&iblt_kbf_type, sizeof(IbltKbfSite), false, take_third, make_empty, state_value, state_add
};

/*
 * The state for this row.  The first row of a group gets a new one.  For a
 * later row, ERROR unless the state's parameters are those of the row.
 */
static IbltKbfState *
state_check(IbltKbfState *state, IbltKbfSite *site, FunctionCallInfo fcinfo)
{
	IbltKbfParams params = iblt_agg_site_take_third(&site->base, fcinfo, state == NULL)
		? site->params : state->kbf.params;
	uint64	  **codes = &site->codes[params.degree][params.superposed];

	iblt_kbf_set_key(site->base.coder, &params);
	if (state == NULL)
		state = state_make(&params, iblt_agg_context(fcinfo));
	else
		state = state_widen(state, &params, iblt_agg_context(fcinfo));
	/* they live as long as the site */
	if (*codes == NULL)
	{
		*codes = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(uint64) << params.degree);
		iblt_core_kbf_codes(&params, *codes);
	}
	state->codes = *codes;
	state->version = iblt_agg_site_version(&site->base);
	return state;
}

/* Inserts a pair whose value is in range. */
static pg_attribute_always_inline void
state_insert(IbltKbfState *state, const uint8 *key, size_t size,
			 unsigned value)
{
	if (state->queued)
		iblt_core_kbf_queue_insert(&state->queue, &state->kbf, state->codes,
								   key, size, value);
	else
		iblt_core_kbf_insert_with(&state->kbf, state->codes, key, size, value);
}

/*
 * The common case, inlined and without lookups: an integer key, an integer
 * value in range, and a state in step with its site.  Returns false, with
 * nothing done, in all other cases.
 */
static pg_attribute_always_inline bool
add_integer(FunctionCallInfo fcinfo)
{
	IbltKbfSite *site = fcinfo->flinfo->fn_extra;
	IbltKbfState *state = (IbltKbfState *) PG_GETARG_POINTER(0);
	int64		integer;
	uint8		key[8];
	uint32		value;

	if (unlikely(PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2)) ||
		unlikely(site == NULL || site->base.third_varies) ||
		unlikely(state->version != iblt_agg_site_version(&site->base)) ||
		site->base.value_type != INT4OID)
		return false;
	value = PG_GETARG_UINT32(2);
	if (unlikely(value - 1 >= state->kbf.params.values))
		return false;
	if (!iblt_key_integer(site->base.coder->type, PG_GETARG_DATUM(1), &integer))
		return false;
	iblt_store64(key, (uint64) integer);
	state_insert(state, key, sizeof key, value);
	return true;
}

PG_FUNCTION_INFO_V1(kbf_agg_trans);

/* kbf_agg_trans(internal, anyelement, anycompatible, integer | kbf) */
Datum
kbf_agg_trans(PG_FUNCTION_ARGS)
{
	IbltKbfSite *site;
	IbltKbfState *state;
	IbltKeyCoder *coder;
	Datum		key;
	Datum		value;
	unsigned	slot;
	bool		cached;

	if (likely(add_integer(fcinfo)))
		return PG_GETARG_DATUM(0);
	key = iblt_kbf_key_arg(fcinfo);
	value = iblt_kbf_value_arg(fcinfo, 2);
	site = (IbltKbfSite *) iblt_agg_site(fcinfo, &kind_kbf);
	coder = site->base.coder;
	state = iblt_agg_state(fcinfo, 0);
	iblt_key_encode(coder, key);
	if (unlikely(state == NULL) ||
		unlikely(state->version != iblt_agg_site_version(&site->base)) ||
		unlikely(iblt_key_type_changed(coder)))
		state = state_check(state, site, fcinfo);
	slot = DatumGetObjectId(value) % CACHED_LABELS;
	cached = site->value_kind == IBLT_KBF_ENUM && site->base.third_is_constant;
	if (!cached || site->cache[slot].label != DatumGetObjectId(value))
	{
		site->cache[slot].value = iblt_kbf_value(&state->kbf.params, site->base.value_type, value);
		site->cache[slot].label = cached ? DatumGetObjectId(value) : InvalidOid;
	}
	state_insert(state, (const uint8 *) coder->bytes.data, coder->bytes.len,
				 site->cache[slot].value);
	PG_RETURN_POINTER(state);
}

/* kbf_agg_final(internal, anyelement, anycompatible, integer | kbf) -> kbf */
IBLT_FUNCTION(kbf_agg_final, iblt_agg_final_value(fcinfo, &kind_kbf))

/* kbf_agg_serial(internal) -> bytea */
IBLT_FUNCTION(kbf_agg_serial, iblt_agg_serial_value(fcinfo, &kind_kbf))

/* kbf_agg_deserial(bytea, internal) -> internal */
IBLT_FUNCTION(kbf_agg_deserial, iblt_agg_deserial_value(fcinfo, &kind_kbf))

/* kbf_agg_combine(internal, internal) -> internal */
IBLT_FUNCTION(kbf_agg_combine, iblt_agg_combine_states(fcinfo, &kind_kbf))

/* kbf_sum_trans(internal, kbf) */
IBLT_FUNCTION(kbf_sum_trans, iblt_agg_sum(fcinfo, &kind_kbf, 1))

/* kbf_sum_final(internal) -> kbf: over no filters, an empty template */
IBLT_FUNCTION(kbf_sum_final, iblt_agg_final_value(fcinfo, &kind_kbf))
