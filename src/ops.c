/*-------------------------------------------------------------------------
 *
 * ops.c
 *	  Sketches added, subtracted and compared; rows inserted, deleted and
 *	  looked up one at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "key.h"

/* left + sign * right; an untyped template counts as empty. */
static Datum
combine(FunctionCallInfo fcinfo, int sign)
{
	IbltSketch	left;
	IbltSketch	right;
	IbltSketch	result;
	IbltParams	params;
	struct varlena *value;

	iblt_open(&left, PG_GETARG_DATUM(0));
	iblt_open(&right, PG_GETARG_DATUM(1));
	iblt_params_check_match(&left.params, &right.params);
	if (left.params.kind != IBLT_KEY_UNTYPED)
		value = iblt_copy(&result, &left);
	else
	{
		params = left.params;
		iblt_params_set_key(&params, &right.params);
		value = iblt_make(&result, &params);
	}
	if (right.params.kind != IBLT_KEY_UNTYPED)
		iblt_core_add_sketch(&result, &right, sign);
	iblt_core_seal(&result);
	return PointerGetDatum(value);
}

PG_FUNCTION_INFO_V1(iblt_add);

/* iblt_add(iblt, iblt) -> iblt: the operator + */
Datum
iblt_add(PG_FUNCTION_ARGS)
{
	return combine(fcinfo, 1);
}

PG_FUNCTION_INFO_V1(iblt_subtract);

/* iblt_subtract(iblt, iblt) -> iblt: the operator - */
Datum
iblt_subtract(PG_FUNCTION_ARGS)
{
	return combine(fcinfo, -1);
}

PG_FUNCTION_INFO_V1(iblt_negate);

/* iblt_negate(iblt) -> iblt: the unary operator - */
Datum
iblt_negate(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	result;
	struct varlena *value;

	iblt_open(&sketch, PG_GETARG_DATUM(0));
	value = iblt_copy(&result, &sketch);
	iblt_core_negate(&result);
	iblt_core_seal(&result);
	PG_RETURN_POINTER(value);
}

/*
 * Do two sketches hold the same?  Both are sealed, so equal contents are equal
 * bytes; what an untyped template lacks is taken from the other first.
 */
static bool
same_contents(FunctionCallInfo fcinfo)
{
	IbltSketch	left;
	IbltSketch	right;
	IbltSketch	empty;
	IbltSketch *typed;

	iblt_open(&left, PG_GETARG_DATUM(0));
	iblt_open(&right, PG_GETARG_DATUM(1));
	iblt_params_check_match(&left.params, &right.params);
	if (left.params.kind == right.params.kind)
		return left.size == right.size &&
			memcmp(left.bytes, right.bytes, left.size) == 0;

	typed = left.params.kind == IBLT_KEY_UNTYPED ? &right : &left;
	iblt_make(&empty, &typed->params);
	iblt_core_seal(&empty);
	return memcmp(typed->bytes, empty.bytes, empty.size) == 0;
}

PG_FUNCTION_INFO_V1(iblt_eq);

/* iblt_eq(iblt, iblt) -> boolean: the operator = */
Datum
iblt_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(same_contents(fcinfo));
}

PG_FUNCTION_INFO_V1(iblt_ne);

/* iblt_ne(iblt, iblt) -> boolean: the operator <> */
Datum
iblt_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!same_contents(fcinfo));
}

/* ERROR for a NULL key or value: to skip the row would hide it. */
static void
require_row(FunctionCallInfo fcinfo)
{
	int			i;

	for (i = 1; i < PG_NARGS(); i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s of a row must not be null",
							i == 1 ? "key" : "value")));
}

/* A copy of the sketch with one row put in or taken out. */
static Datum
change_row(FunctionCallInfo fcinfo, int sign)
{
	IbltKeyCoder *coder = iblt_key_coder_for_arg(fcinfo, 1);
	IbltSketch	sketch;
	IbltSketch	result;
	IbltParams	params;
	IbltStatus	status;
	struct varlena *value;

	iblt_open_arg(&sketch, fcinfo, 0);
	require_row(fcinfo);
	iblt_key_encode(coder, PG_GETARG_DATUM(1));
	params = sketch.params;
	iblt_key_set_params(coder, &params);
	value = sketch.params.kind == IBLT_KEY_UNTYPED
		? iblt_make(&result, &params) : iblt_copy(&result, &sketch);
	status = iblt_core_add_row(&result, iblt_key_padded(coder, params.limbs),
							   (uint64) PG_GETARG_INT64(2), sign);
	if (status != IBLT_OK)
		iblt_refuse_row(status);
	iblt_core_seal(&result);
	return PointerGetDatum(value);
}

PG_FUNCTION_INFO_V1(iblt_insert);

/* iblt_insert(iblt, anyelement, bigint) -> iblt: the paper's INSERT */
Datum
iblt_insert(PG_FUNCTION_ARGS)
{
	return change_row(fcinfo, 1);
}

PG_FUNCTION_INFO_V1(iblt_delete);

/* iblt_delete(iblt, anyelement, bigint) -> iblt: the paper's DELETE */
Datum
iblt_delete(PG_FUNCTION_ARGS)
{
	return change_row(fcinfo, -1);
}

PG_FUNCTION_INFO_V1(iblt_get);

/* iblt_get(iblt, anyelement) -> (status, count, value): the paper's GET */
Datum
iblt_get(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"absent", "present", "unknown"};
	IbltKeyCoder *coder = iblt_key_coder_for_arg(fcinfo, 1);
	IbltPresence presence = IBLT_ABSENT;
	IbltSketch	sketch;
	IbltParams	params;
	IbltEntry	entry;
	TupleDesc	tupdesc;
	Datum		values[3] = {0};
	bool		nulls[3] = {false, true, true};

	iblt_open_arg(&sketch, fcinfo, 0);
	require_row(fcinfo);
	iblt_key_encode(coder, PG_GETARG_DATUM(1));
	params = sketch.params;
	iblt_key_set_params(coder, &params);
	if (sketch.params.kind != IBLT_KEY_UNTYPED)
		presence = iblt_core_get(&sketch, iblt_key_padded(coder, params.limbs),
								 &entry);

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "iblt_get must return a row");
	values[0] = CStringGetTextDatum(names[presence]);
	if (presence == IBLT_PRESENT)
	{
		nulls[1] = false;
		values[1] = Int32GetDatum(entry.count);
		nulls[2] = !entry.has_value;
		values[2] = Int64GetDatum((int64) entry.value);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
}
