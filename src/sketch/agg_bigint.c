/*-------------------------------------------------------------------------
 *
 * agg_bigint.c
 *	  The aggregate iblt_agg_bigint: iblt_agg for bigint keys, checksums and a
 *	  template, with declared types alone.
 *
 * Citus lets its workers do an aggregate's work if the state is of a type that
 * a table could have.  Here it is an iblt, kept in memory as an expanded
 * object, which becomes bytes only at the end.  Citus looks functions up for
 * each row, so nothing is kept in fn_extra.  It also calls them for an
 * aggregate of its own, whose arguments say nothing about this one.  So over no
 * rows the result is NULL.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#include "sketch/aggsite.h"
#include "sketch/aggstate.h"

/* The parameters of a template: the header of doc/internals/format.md up to the meter. */
#define TEMPLATE_HEAD	40

/* A state that is a datum of type iblt. */
typedef struct Expanded
{
	ExpandedObjectHeader header;
	IbltAggState *state;
	bool		seen;			/* has a row been checked? */
	Size		template_size;	/* of the last row */
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
	IbltSketch *sketch = iblt_state_sketch(((Expanded *) header)->state);

	Assert(size == VARHDRSZ + sketch->size);
	iblt_core_seal(sketch);
	SET_VARSIZE(result, size);
	iblt_value_copy_bytes(VARDATA(result), sketch->bytes, sketch->size);
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
		iblt_open(&sketch, value);
	object->state = iblt_state_add(object->state, other == NULL ? &sketch
								   : iblt_state_sketch(other->state), 1,
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
	struct varlena *template;

	if (!object->seen || PG_ARGISNULL(3))
		return false;
	template = (struct varlena *) PG_GETARG_POINTER(3);
	return !VARATT_IS_EXTENDED(template) &&
		VARSIZE(template) == object->template_size &&
		memcmp(VARDATA(template), object->template, TEMPLATE_HEAD) == 0;
}

/*
 * Takes the parameters of the first row of a group.  For a later row, ERROR
 * unless they are the same.
 */
static void
see_template(Expanded *object, FunctionCallInfo fcinfo)
{
	struct varlena *template;
	IbltSketch	sketch;
	IbltParams	params;

	if (PG_ARGISNULL(3))
		iblt_agg_refuse_null_third("iblt_agg_bigint", true);
	template = PG_GETARG_VARLENA_PP(3);
	iblt_open(&sketch, PointerGetDatum(template));
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
		object->state = iblt_state_make(&params, object->header.eoh_context);
		object->state->inserted = true;
	}
	object->seen = true;
	object->template_size = VARSIZE_ANY_EXHDR(template) + VARHDRSZ;
	memcpy(object->template, VARDATA_ANY(template), TEMPLATE_HEAD);
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
		iblt_agg_refuse_null(fcinfo, &iblt_agg_kind);
	if (unlikely(object == NULL))
		object = expanded_make(iblt_agg_context(fcinfo));
	if (unlikely(!template_is_known(object, fcinfo)))
		see_template(object, fcinfo);
	iblt_store64(key, (uint64) PG_GETARG_INT64(1));
	status = iblt_state_insert(object->state, key, (uint64) PG_GETARG_INT64(2));
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
	PG_RETURN_POINTER(iblt_state_value(object->state));
}
