/*
 * agg.c
 *	  The aggregates iblt_agg, iblt_strata_agg, iblt_agg_bigint and iblt_sum.
 *
 * The arithmetic is exact, in a field.  So the result does not depend on the
 * order of rows or on how workers share them.
 *
 * A state is the value that the aggregate will return, behind a view of it.
 * It takes one allocation of the value's size and some 350 bytes, whatever the
 * number of rows.
 */
#include "sketch/iblt.h"

#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#include "core/row.h"
#include "core/sizing.h"
#include "core/strata.h"
#include "core/sums.h"
#include "sketch/aggsite.h"

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

/* An empty state for these parameters that lives as long as the context. */
static IbltAggState *
state_make(const IbltParams *params, MemoryContext context)
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
	state->adder = params->strata > 0 ? NULL : iblt_core_row_adder(params);
	state->queued = queued;
	return state;
}

/*
 * The state's sketch with all rows in its cells.  ERROR if a count wrapped
 * while rows were inserted one by one.  This can be seen because the state
 * holds no rows but its group's.
 */
static IbltSketch *
state_sketch(IbltAggState *state)
{
	if (state->queued)
		iblt_core_queue_flush(&state->queue, &state->sketch);
	if (state->inserted && !iblt_core_inserted_fit(&state->sketch))
		iblt_check_counts(&state->sketch.params, IBLT_COUNT_OVERFLOW);
	return &state->sketch;
}

/* The sealed value of a state.  The state can still be used. */
static struct varlena *
state_value(void *state)
{
	IbltSketch *sketch = state_sketch(state);

	iblt_core_seal(sketch);
	return iblt_value_copy(sketch->bytes, sketch->size);
}

/*
 * Adds a sketch to the state, or subtracts it.  An untyped state takes the key
 * type of the sketch, and then another state is returned, as for NULL.
 */
static void *
state_add(void *to, const void *view, int sign, MemoryContext context)
{
	IbltAggState *state = to;
	const IbltSketch *sketch = view;

	if (state != NULL)
		iblt_params_check_match(&state->sketch.params, &sketch->params);
	if (state == NULL || (state->sketch.params.key.kind == IBLT_KEY_UNTYPED &&
						  sketch->params.key.kind != IBLT_KEY_UNTYPED))
		state = state_make(&sketch->params, context);
	iblt_check_counts(&sketch->params, iblt_core_add_sketch(&state->sketch, sketch, sign));
	return state;
}

static void
take_third(IbltAggSite *site, Datum value)
{
	IbltSketch	template;

	if (site->third == IBLT_THIRD_TEMPLATE)
	{
		iblt_value_open(site->kind->type, &template, value);
		site->params = template.params;
	}
	else if (site->kind->type == &iblt_strata_type)
		iblt_strata_params_make(&site->params, IBLT_DEFAULT_STRATA,
								IBLT_DEFAULT_STRATUM_CELLS,
								IBLT_DEFAULT_HASHES, 0);
	else
		iblt_params_make(&site->params, site->third == IBLT_THIRD_CAPACITY
						 ? DatumGetInt32(value) : IBLT_DEFAULT_CAPACITY, IBLT_DEFAULT_FAILURE,
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

static const IbltAggKind kind_iblt = {
	&iblt_type, sizeof(IbltAggSite), true, take_third, make_empty, state_value, state_add
};

static const IbltAggKind kind_strata = {
	&iblt_strata_type, sizeof(IbltAggSite), true, take_third, make_empty, state_value, state_add
};

/*
 * Adds a key and its checksum to a state, or removes them.  The key is padded, except
 * for an estimator.
 */
static IbltStatus
state_add_row(IbltAggState *state, const uint8 *key, size_t size, uint64 y, int sign)
{
	if (state->sketch.params.strata == 0)
		return iblt_core_add_row(&state->sketch, key, y, sign);
	iblt_core_strata_add_row(&state->sketch, key, size, y, sign);
	return IBLT_OK;
}

/* Adds them. */
static pg_attribute_always_inline IbltStatus
state_insert(IbltAggState *state, const uint8 *key, size_t size, uint64 y)
{
	if (unlikely(state->adder == NULL))
		return state_add_row(state, key, size, y, 1);
	if (state->queued)
		return state->adder->queue(&state->queue, &state->sketch, key, y, 1);
	return state->adder->add(&state->sketch, key, y, 1);
}

/*
 * Adds a row, or removes it, that has a checksum and no other value.  The key is
 * NULL if it is not an integer.  An estimator takes it without padding.
 */
static pg_attribute_always_inline IbltStatus
change(IbltAggState *state, IbltKeyCoder *coder, const uint8 *key, uint64 y, int sign)
{
	size_t		size = sizeof(uint64);

	if (key == NULL && state->sketch.params.strata > 0)
	{
		key = (uint8 *) coder->bytes.data;
		size = coder->bytes.len;
	}
	else if (key == NULL)
		key = iblt_key_padded(coder, state->sketch.params.key.limbs);
	return sign > 0 ? state_insert(state, key, size, y)
		: state_add_row(state, key, size, y, sign);
}

/*
 * The state for this row.  The first row of a group gets a new one.  For a
 * later row, ERROR unless the state's parameters are those of the row.
 */
static IbltAggState *
state_check(IbltAggState *state, IbltAggSite *site, FunctionCallInfo fcinfo)
{
	IbltParams	params = iblt_agg_site_take_third(site, fcinfo, state == NULL)
		? site->params : state->sketch.params;

	iblt_key_set_row_params(site->coder, site->value, &params);
	if (state == NULL)
		state = state_make(&params, iblt_agg_context(fcinfo));
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
	if (params->value.limbs == 0)
		status = change(state, site->coder, key, iblt_key_checksum(site->value), sign);
	else
		status = iblt_core_add_pair(&state->sketch, key != NULL ? key
									: iblt_key_padded(site->coder, params->key.limbs),
									iblt_key_padded(site->value, params->value.limbs),
									sign);
	if (status != IBLT_OK)
		iblt_refuse_row(status);
	PG_RETURN_POINTER(state);
}

/*
 * Adds the row of a call (sign +1) or removes it (sign -1), and those of its page that the site
 * can take itself.
 */
static pg_attribute_always_inline Datum
transition(FunctionCallInfo fcinfo, const IbltAggKind *kind, int sign)
{
	IbltAggSite *site = iblt_agg_site(fcinfo, kind);
	IbltAggState *state;
	const uint8 *key;

	if (unlikely(site->value_type != INT8OID))
		return pair_transition(fcinfo, site, sign);
	state = iblt_agg_state(fcinfo, 0);
	key = iblt_agg_site_key(site, PG_GETARG_DATUM(1));
	iblt_page_begin(site->page);
	do
	{
		IbltStatus	status;

		if (unlikely(state == NULL) || !iblt_agg_site_in_step(site, key, state->version))
			state = state_check(state, site, fcinfo);
		status = change(state, site->coder, key, (uint64) PG_GETARG_INT64(2), sign);
		if (unlikely(status != IBLT_OK))
			iblt_refuse_row(status);
		if (unlikely((state->sketch.rows & 0xffff) == 0))
			iblt_progress_say(fcinfo);
	} while (iblt_agg_site_next(site, fcinfo, &key));
	PG_RETURN_POINTER(state);
}

/* trans and inverse(internal, anyelement, bigint [, integer | template]) */
IBLT_FUNCTION(iblt_agg_trans, transition(fcinfo, &kind_iblt, 1))
IBLT_FUNCTION(iblt_agg_inverse, transition(fcinfo, &kind_iblt, -1))
IBLT_FUNCTION(iblt_strata_agg_trans, transition(fcinfo, &kind_strata, 1))
IBLT_FUNCTION(iblt_strata_agg_inverse, transition(fcinfo, &kind_strata, -1))

/* final(internal, anyelement, bigint [, integer | template]) */
IBLT_FUNCTION(iblt_agg_final, iblt_agg_final_value(fcinfo, &kind_iblt))
IBLT_FUNCTION(iblt_strata_agg_final, iblt_agg_final_value(fcinfo, &kind_strata))

/* serial(internal) -> bytea, deserial(bytea, internal), and for both kinds combine(internal, internal) */
IBLT_FUNCTION(iblt_agg_serial, iblt_agg_serial_value(fcinfo, &kind_iblt))
IBLT_FUNCTION(iblt_strata_agg_serial, iblt_agg_serial_value(fcinfo, &kind_strata))
IBLT_FUNCTION(iblt_agg_deserial, iblt_agg_deserial_value(fcinfo, &kind_iblt))
IBLT_FUNCTION(iblt_strata_agg_deserial, iblt_agg_deserial_value(fcinfo, &kind_strata))
IBLT_FUNCTION(iblt_agg_combine, iblt_agg_combine_states(fcinfo, &kind_iblt))

/* iblt_sum_trans(internal, iblt) */
IBLT_FUNCTION(iblt_sum_trans, iblt_agg_sum(fcinfo, &kind_iblt, 1))

/* iblt_sum_inverse(internal, iblt) */
IBLT_FUNCTION(iblt_sum_inverse, iblt_agg_sum(fcinfo, &kind_iblt, -1))

/* iblt_sum_final(internal) -> iblt: over no sketches, an empty template */
IBLT_FUNCTION(iblt_sum_final, iblt_agg_final_value(fcinfo, &kind_iblt))

/*
 * --- iblt_agg_bigint: for bigint keys, checksums and a template, with declared types alone ---
 *
 * Citus lets its workers do an aggregate's work if the state is of a type that
 * a table could have.  Here it is an iblt, kept in memory as an expanded
 * object, which becomes bytes only at the end.  Citus looks functions up for
 * each row, so nothing is kept in fn_extra.  It also calls them for an
 * aggregate of its own, whose arguments say nothing about this one.  So over no
 * rows the result is NULL.
 */

/* The parameters of a template: the header of doc/internals/format.md up to the meter. */
#define TEMPLATE_HEAD	40

/* A state that is a datum of type iblt. */
typedef struct Expanded
{
	ExpandedObjectHeader header;
	IbltAggState *state;
	Size		template_size;	/* of the last row that was checked, 0 at first */
	uint8		template[TEMPLATE_HEAD];
} Expanded;

static Size
flat_size(ExpandedObjectHeader *header)
{
	return VARHDRSZ + ((Expanded *) header)->state->sketch.size;
}

static void
flatten(ExpandedObjectHeader *header, void *result, Size size)
{
	IbltSketch *sketch = state_sketch(((Expanded *) header)->state);

	Assert(size == VARHDRSZ + sketch->size);
	iblt_core_seal(sketch);
	SET_VARSIZE(result, size);
	memcpy(VARDATA(result), sketch->bytes, sketch->size);
}

static const ExpandedObjectMethods methods = {flat_size, flatten};

/* The object of a datum, or NULL if its bytes are elsewhere. */
static inline Expanded *
expanded(Datum value)
{
	ExpandedObjectHeader *header;

	if (!VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		return NULL;
	header = DatumGetEOHP(value);
	return header->eoh_methods == &methods ? (Expanded *) header : NULL;
}

/*
 * An object without a state, in a context of its own below the group's, where
 * the executor leaves it.
 */
static Expanded *
expanded_make(MemoryContext group)
{
	MemoryContext context = AllocSetContextCreate(group, "iblt state",
												  ALLOCSET_SMALL_SIZES);
	Expanded   *object = MemoryContextAllocZero(context, sizeof *object);

	EOH_init_header(&object->header, &methods, context);
	return object;
}

/* Adds the rows of a datum to an object. */
static void
add_datum(Expanded *object, Datum value)
{
	Expanded   *other = expanded(value);
	IbltSketch	sketch;

	if (other == NULL)
		iblt_value_open(&iblt_type, &sketch, value);
	object->state = state_add(object->state, other == NULL ? &sketch
								   : state_sketch(other->state), 1,
								   object->header.eoh_context);
}

/* The object of argument 0, to be changed.  NULL for NULL. */
static inline Expanded *
state_arg(FunctionCallInfo fcinfo)
{
	Datum		value = PG_GETARG_DATUM(0);
	Expanded   *object;

	if (PG_ARGISNULL(0))
		return NULL;
	object = expanded(value);
	if (likely(object != NULL) &&
		likely(VARATT_IS_EXTERNAL_EXPANDED_RW(DatumGetPointer(value))))
		return object;
	object = expanded_make(iblt_agg_context(fcinfo));
	add_datum(object, value);
	return object;
}

/* Is the template what it was for the last row? */
static inline bool
template_is_known(const Expanded *object, FunctionCallInfo fcinfo)
{
	struct varlena *template = (struct varlena *) PG_GETARG_POINTER(3);

	return !PG_ARGISNULL(3) && !VARATT_IS_EXTENDED(template) &&
		VARSIZE(template) == object->template_size &&
		memcmp(VARDATA(template), object->template, TEMPLATE_HEAD) == 0;
}

/*
 * Takes the parameters of the first row that is seen.  ERROR unless a state that is there
 * already has them.
 */
static void
see_template(Expanded *object, FunctionCallInfo fcinfo)
{
	IbltSketch	sketch;
	IbltParams	params;

	if (PG_ARGISNULL(3))
		iblt_agg_refuse_null_third("iblt_agg_bigint", true);
	iblt_value_open(&iblt_type, &sketch, PG_GETARG_DATUM(3));
	params = sketch.params;
	if (params.value.limbs > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("iblt_agg_bigint cannot keep values"),
				 errhint("Use iblt_agg, or a template without values.")));
	iblt_key_set_params(iblt_key_coder(INT8OID, CurrentMemoryContext), &params);
	if (object->state != NULL)
		iblt_params_check_match(&object->state->sketch.params, &params);
	if (object->state == NULL ||
		object->state->sketch.params.key.kind == IBLT_KEY_UNTYPED)
	{
		object->state = state_make(&params, object->header.eoh_context);
		object->state->inserted = true;
	}
	object->template_size = VARHDRSZ + sketch.size;
	memcpy(object->template, sketch.bytes, TEMPLATE_HEAD);
}

PG_FUNCTION_INFO_V1(iblt_agg_bigint_trans);

/* iblt_agg_bigint_trans(iblt, bigint, bigint, iblt) -> iblt */
Datum
iblt_agg_bigint_trans(PG_FUNCTION_ARGS)
{
	Expanded   *object = state_arg(fcinfo);
	uint8		key[8];
	IbltStatus	status;

	if (unlikely(PG_ARGISNULL(1) || PG_ARGISNULL(2)))
		iblt_agg_refuse_null(fcinfo, &kind_iblt);
	if (unlikely(object == NULL))
		object = expanded_make(iblt_agg_context(fcinfo));
	if (unlikely(!template_is_known(object, fcinfo)))
		see_template(object, fcinfo);
	iblt_store64(key, (uint64) PG_GETARG_INT64(1));
	status = state_insert(object->state, key, sizeof key, (uint64) PG_GETARG_INT64(2));
	if (unlikely(status != IBLT_OK))
		iblt_refuse_row(status);
	return EOHPGetRWDatum(&object->header);
}

PG_FUNCTION_INFO_V1(iblt_agg_bigint_combine);

/* iblt_agg_bigint_combine(iblt, iblt) -> iblt */
Datum
iblt_agg_bigint_combine(PG_FUNCTION_ARGS)
{
	MemoryContext group = iblt_agg_context(fcinfo);
	Expanded   *object = state_arg(fcinfo);

	if (PG_ARGISNULL(1) && object == NULL)
		PG_RETURN_NULL();
	if (object == NULL)
		object = expanded_make(group);
	if (!PG_ARGISNULL(1))
		add_datum(object, PG_GETARG_DATUM(1));
	return EOHPGetRWDatum(&object->header);
}

PG_FUNCTION_INFO_V1(iblt_agg_bigint_final);

/* iblt_agg_bigint_final(iblt) -> iblt: the value's bytes */
Datum
iblt_agg_bigint_final(PG_FUNCTION_ARGS)
{
	Expanded   *object = expanded(PG_GETARG_DATUM(0));

	if (object == NULL)
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	PG_RETURN_POINTER(state_value(object->state));
}
