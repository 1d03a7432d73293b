/*-------------------------------------------------------------------------
 *
 * ops.c
 *	  Sketches added, subtracted and compared.  Rows inserted and deleted one
 *	  at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "utils/builtins.h"

#include "sketch/key.h"

/* Folds an open sketch to subtables of this many cells, if it has more. */
static void
fold_to(IbltSketch *sketch, uint32 cells)
{
	IbltParams	params = sketch->params;
	IbltSketch	folded;

	if (params.subtable_cells == cells)
		return;
	params.subtable_cells = cells;
	iblt_make_fold(&folded, &params, sketch);
	*sketch = folded;
}

/* Opens both operands, and folds the larger to the size of the smaller. */
static void
open_operands(FunctionCallInfo fcinfo, IbltSketch *left, IbltSketch *right)
{
	uint32		cells;

	iblt_open(left, PG_GETARG_DATUM(0));
	iblt_open(right, PG_GETARG_DATUM(1));
	cells = iblt_params_match_folded(&left->params, &right->params);
	fold_to(left, cells);
	fold_to(right, cells);
}

/* left + sign * right.  An untyped template counts as empty. */
static Datum
combine(FunctionCallInfo fcinfo, int sign)
{
	IbltSketch	left;
	IbltSketch	right;
	IbltSketch	result;
	IbltParams	params;
	struct varlena *value;

	open_operands(fcinfo, &left, &right);
	if (left.params.kind != IBLT_KEY_UNTYPED)
		value = iblt_copy(&result, &left);
	else
	{
		params = left.params;
		iblt_params_set_types(&params, &right.params);
		value = iblt_make(&result, &params);
	}
	if (right.params.kind != IBLT_KEY_UNTYPED)
		iblt_check_counts(iblt_core_add_sketch(&result, &right, sign));
	iblt_core_seal(&result);
	return PointerGetDatum(value);
}

/* iblt_add(iblt, iblt) -> iblt: the operator + */
IBLT_FUNCTION(iblt_add, combine(fcinfo, 1))

/* iblt_subtract(iblt, iblt) -> iblt: the operator - */
IBLT_FUNCTION(iblt_subtract, combine(fcinfo, -1))

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
	iblt_check_counts(iblt_core_negate(&result));
	iblt_core_seal(&result);
	PG_RETURN_POINTER(value);
}

/*
 * Do two sketches hold the same?  Both are sealed, so equal contents are equal
 * bytes.  What an untyped template lacks is first taken from the other.
 */
static bool
same_contents(FunctionCallInfo fcinfo)
{
	IbltSketch	left;
	IbltSketch	right;
	IbltSketch *typed;

	open_operands(fcinfo, &left, &right);
	if (left.params.kind == right.params.kind)
		return left.size == right.size &&
			memcmp(left.bytes, right.bytes, left.size) == 0;

	typed = left.params.kind == IBLT_KEY_UNTYPED ? &right : &left;
	return memcmp(typed->bytes, VARDATA(iblt_make_empty(&typed->params)),
				  typed->size) == 0;
}

/* iblt_eq(iblt, iblt) -> boolean: the operator = */
IBLT_FUNCTION(iblt_eq, BoolGetDatum(same_contents(fcinfo)))

/* iblt_ne(iblt, iblt) -> boolean: the operator <> */
IBLT_FUNCTION(iblt_ne, BoolGetDatum(!same_contents(fcinfo)))

PG_FUNCTION_INFO_V1(iblt_fold);

/* iblt_fold(iblt, capacity, failure) -> iblt */
Datum
iblt_fold(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	result;
	IbltParams	params;

	iblt_open_arg(&sketch, fcinfo, 0);
	iblt_require_arg(fcinfo, 1, "capacity");
	iblt_require_arg(fcinfo, 2, "failure");
	params = sketch.params;
	params.subtable_cells = iblt_params_fold_cells(&sketch.params,
												   PG_GETARG_INT32(1),
												   PG_GETARG_FLOAT8(2));
	PG_RETURN_POINTER(iblt_make_fold(&result, &params, &sketch));
}

PG_FUNCTION_INFO_V1(iblt_fold_like);

/* iblt_fold(iblt, template) -> iblt: to the size of another */
Datum
iblt_fold_like(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	template;
	IbltSketch	result;
	IbltParams	params;
	uint32		cells;

	iblt_open_arg(&sketch, fcinfo, 0);
	iblt_open_arg(&template, fcinfo, 1);
	cells = iblt_params_match_folded(&sketch.params, &template.params);
	if (cells != template.params.subtable_cells)
		iblt_params_check_match(&sketch.params, &template.params);
	params = sketch.params;
	params.subtable_cells = cells;
	PG_RETURN_POINTER(iblt_make_fold(&result, &params, &sketch));
}

PG_FUNCTION_INFO_V1(iblt_drop_subtable);

/* iblt_drop_subtable(iblt, i) -> iblt: without the subtable of hash i */
Datum
iblt_drop_subtable(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	result;
	IbltParams	params;

	iblt_open_arg(&sketch, fcinfo, 0);
	iblt_require_arg(fcinfo, 1, "number of the subtable");
	params = sketch.params;
	params.subtables &= ~iblt_params_subtable(&params, PG_GETARG_INT32(1));
	if (params.subtables == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the last subtable of an iblt cannot be dropped")));
	PG_RETURN_POINTER(iblt_make_fold(&result, &params, &sketch));
}

/* ERROR for a NULL key or value, because skipping the row would hide it. */
static void
require_row(FunctionCallInfo fcinfo)
{
	for (int i = 1; i < PG_NARGS(); i++)
		iblt_require_arg(fcinfo, i, i == 1 ? "key of a row" : "value of a row");
}

/* A copy of the sketch with one row inserted or deleted. */
static Datum
change_row(FunctionCallInfo fcinfo, int sign)
{
	IbltKeyCoder *key = iblt_key_coder_for_arg(fcinfo, 1);
	IbltKeyCoder *value = iblt_key_coder_for_arg(fcinfo, 2);
	IbltSketch	sketch;
	IbltSketch	result;
	IbltParams	params;
	IbltStatus	status;
	const uint8 *bytes;
	struct varlena *changed;

	value->of_value = true;
	iblt_open_arg(&sketch, fcinfo, 0);
	require_row(fcinfo);
	iblt_key_encode(key, PG_GETARG_DATUM(1));
	iblt_key_encode(value, PG_GETARG_DATUM(2));
	params = sketch.params;
	iblt_key_set_row_params(key, value, &params);
	changed = sketch.params.kind == IBLT_KEY_UNTYPED
		? iblt_make(&result, &params) : iblt_copy(&result, &sketch);
	bytes = iblt_key_padded(key, params.limbs);
	if (params.value.limbs == 0)
		status = iblt_core_add_row_checked(&result, bytes,
										   iblt_key_checksum(value), sign);
	else
		status = iblt_core_add_pair_checked(&result, bytes,
											iblt_key_padded(value, params.value.limbs),
											sign);
	if (status != IBLT_OK)
		iblt_refuse_row(status);
	iblt_core_seal(&result);
	return PointerGetDatum(changed);
}

/* iblt_insert(iblt, anyelement, anycompatible) -> iblt: the paper's INSERT */
IBLT_FUNCTION(iblt_insert, change_row(fcinfo, 1))

/* iblt_delete(iblt, anyelement, anycompatible) -> iblt: the paper's DELETE */
IBLT_FUNCTION(iblt_delete, change_row(fcinfo, -1))
