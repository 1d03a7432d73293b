/*
 * ops.c
 *	  Sketches and estimators added, subtracted and compared.  Rows inserted and
 *	  deleted one at a time.  The folds that comparisons send.
 */
#include "sketch/iblt.h"

#include "core/sizing.h"
#include "core/strata.h"

/*
 * The cells of a subtable after the larger of two sketches is folded to the size of the smaller.
 * ERROR unless they can be added then.
 */
static uint32
match_folded(const IbltParams *left, const IbltParams *right)
{
	uint32		cells = Min(left->subtable_cells, right->subtable_cells);
	IbltParams	folded_left = *left;
	IbltParams	folded_right = *right;

	if (left->subtable_cells % cells != 0 || right->subtable_cells % cells != 0)
	{
		iblt_params_check_match(left, right);
		return 0;
	}
	folded_left.subtable_cells = cells;
	folded_right.subtable_cells = cells;
	iblt_params_check_match(&folded_left, &folded_right);
	return cells;
}

/* Folds an open sketch to subtables of this many cells, if it has more. */
static void
fold_to(IbltSketch *sketch, uint32 cells)
{
	IbltSketch	folded;

	if (sketch->params.subtable_cells == cells)
		return;
	iblt_make_fold(&folded, sketch, cells, sketch->params.subtables);
	*sketch = folded;
}

/* Opens both operands, and folds the larger sketch to the size of the smaller. */
static void
open_operands(FunctionCallInfo fcinfo, IbltSketch *left, IbltSketch *right)
{
	uint32		cells;

	iblt_open_either(left, PG_GETARG_DATUM(0));
	iblt_open_either(right, PG_GETARG_DATUM(1));
	if (left->params.strata > 0)
	{
		iblt_params_check_match(&left->params, &right->params);
		return;
	}
	cells = match_folded(&left->params, &right->params);
	fold_to(left, cells);
	fold_to(right, cells);
}

struct varlena *
iblt_combine(IbltSketch *result, const IbltSketch *left,
			 const IbltSketch *right, int sign)
{
	IbltParams	params = left->params;
	struct varlena *value;

	iblt_params_check_match(&left->params, &right->params);
	if (params.key.kind != IBLT_KEY_UNTYPED)
		value = iblt_copy(result, left);
	else
	{
		params.key = right->params.key;
		params.value = right->params.value;
		value = iblt_make(result, &params);
	}
	iblt_check_counts(&params, iblt_core_add_sketch(result, right, sign));
	iblt_core_seal(result);
	return value;
}

static Datum
combine_arguments(FunctionCallInfo fcinfo, int sign)
{
	IbltSketch	left;
	IbltSketch	right;
	IbltSketch	result;

	open_operands(fcinfo, &left, &right);
	return PointerGetDatum(iblt_combine(&result, &left, &right, sign));
}

/*
 * The operators have the same functions for estimators.
 *
 * iblt_add(iblt, iblt) -> iblt: the operator +
 */
IBLT_FUNCTION(iblt_add, combine_arguments(fcinfo, 1))

/* iblt_subtract(iblt, iblt) -> iblt: the operator - */
IBLT_FUNCTION(iblt_subtract, combine_arguments(fcinfo, -1))

PG_FUNCTION_INFO_V1(iblt_negate);

/* iblt_negate(iblt) -> iblt: the unary operator - */
Datum
iblt_negate(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	result;
	struct varlena *value;

	iblt_open_either(&sketch, PG_GETARG_DATUM(0));
	value = iblt_make(&result, &sketch.params);
	iblt_check_counts(&sketch.params, iblt_core_add_sketch(&result, &sketch, -1));
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
	if (left.params.key.kind == right.params.key.kind)
		return left.size == right.size &&
			memcmp(left.bytes, right.bytes, left.size) == 0;

	typed = left.params.key.kind == IBLT_KEY_UNTYPED ? &right : &left;
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
	int			capacity;
	double		failure;

	iblt_value_open_arg(&iblt_type, &sketch, fcinfo, 0);
	capacity = DatumGetInt32(iblt_require_arg(fcinfo, 1, "capacity", NULL));
	failure = DatumGetFloat8(iblt_require_arg(fcinfo, 2, "failure", IBLT_HAS_DEFAULT));
	PG_RETURN_POINTER(iblt_make_fold(&result, &sketch,
									 iblt_params_fold_cells(&sketch.params, capacity, failure),
									 sketch.params.subtables));
}

PG_FUNCTION_INFO_V1(iblt_fold_like);

/* iblt_fold(iblt, template) -> iblt: to the size of another */
Datum
iblt_fold_like(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	template;
	IbltSketch	result;
	uint32		cells;

	iblt_value_open_arg(&iblt_type, &sketch, fcinfo, 0);
	iblt_value_open_arg(&iblt_type, &template, fcinfo, 1);
	cells = match_folded(&sketch.params, &template.params);
	if (cells != template.params.subtable_cells)
		iblt_params_check_match(&sketch.params, &template.params);
	PG_RETURN_POINTER(iblt_make_fold(&result, &sketch, cells, sketch.params.subtables));
}

PG_FUNCTION_INFO_V1(iblt_drop_subtable);

/* iblt_drop_subtable(iblt, i) -> iblt: without the subtable of hash i */
Datum
iblt_drop_subtable(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	result;
	unsigned	left;

	iblt_value_open_arg(&iblt_type, &sketch, fcinfo, 0);
	iblt_require_arg(fcinfo, 1, "number of the subtable", NULL);
	left = sketch.params.subtables &
		~iblt_params_subtable(&sketch.params, PG_GETARG_INT32(1));
	if (left == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the last subtable of an iblt cannot be dropped")));
	PG_RETURN_POINTER(iblt_make_fold(&result, &sketch, sketch.params.subtable_cells, left));
}

/* A copy of the sketch or estimator with one row inserted or deleted. */
static Datum
change_row(FunctionCallInfo fcinfo, const IbltValueType *type, int sign)
{
	IbltKeyCoder *key = iblt_key_coder_for_arg(fcinfo, 1);
	IbltKeyCoder *value = iblt_key_coder_for_arg(fcinfo, 2);
	IbltSketch	sketch;
	IbltSketch	result;
	IbltParams	params;
	IbltStatus	status = IBLT_OK;
	struct varlena *changed;

	value->of_value = true;
	iblt_value_open_arg(type, &sketch, fcinfo, 0);
	/* skipping the row would hide it */
	iblt_require_arg(fcinfo, 1, "key of a row", NULL);
	iblt_require_arg(fcinfo, 2, "checksum or value of a row", NULL);
	iblt_key_encode(key, PG_GETARG_DATUM(1));
	iblt_key_encode(value, PG_GETARG_DATUM(2));
	params = sketch.params;
	iblt_key_set_row_params(key, value, &params);
	changed = iblt_make(&result, &params);
	if (params.strata > 0)
		iblt_core_strata_add_row(&result, (uint8 *) key->bytes.data, key->bytes.len,
								 iblt_key_checksum(value), sign);
	else if (params.value.limbs == 0)
		status = iblt_core_add_row(&result, iblt_key_padded(key, params.key.limbs),
								   iblt_key_checksum(value), sign);
	else
		status = iblt_core_add_pair(&result, iblt_key_padded(key, params.key.limbs),
									iblt_key_padded(value, params.value.limbs), sign);
	if (status != IBLT_OK)
		iblt_refuse_row(status);
	iblt_check_counts(&params, iblt_core_add_sketch(&result, &sketch, 1));
	iblt_core_seal(&result);
	return PointerGetDatum(changed);
}

/* iblt_insert(iblt, anyelement, anycompatible) -> iblt: the paper's INSERT */
IBLT_FUNCTION(iblt_insert, change_row(fcinfo, &iblt_type, 1))

/* iblt_delete(iblt, anyelement, anycompatible) -> iblt: the paper's DELETE */
IBLT_FUNCTION(iblt_delete, change_row(fcinfo, &iblt_type, -1))

/* iblt_strata_insert(iblt_strata, anyelement, bigint) -> iblt_strata */
IBLT_FUNCTION(iblt_strata_insert, change_row(fcinfo, &iblt_strata_type, 1))

/* iblt_strata_delete(iblt_strata, anyelement, bigint) -> iblt_strata */
IBLT_FUNCTION(iblt_strata_delete, change_row(fcinfo, &iblt_strata_type, -1))

/* --- what comparisons send: folds of one sketch, each larger than the last --- */

/* The hashes of the template, and the smallest of its subtables. */
#define TEMPLATE_HASHES		4
#define TEMPLATE_CELLS		630 /* 2 * 3^2 * 5 * 7, to be doubled */

/* The probability that a fold fails to decode the keys that it is for. */
#define FOLD_FAILURE		((double) 0.01)

PG_FUNCTION_INFO_V1(iblt_compare_template);

/*
 * iblt_compare_template(capacity, key_size, seed) -> iblt: an empty sketch of
 * at least that capacity that can be folded to the largest number of sizes.
 */
Datum
iblt_compare_template(PG_FUNCTION_ARGS)
{
	IbltParams	params;
	uint32		cells = TEMPLATE_CELLS;

	/* refuses what is out of range */
	iblt_params_make(&params, DatumGetInt32(iblt_require_arg(fcinfo, 0, "capacity", NULL)),
					 IBLT_DEFAULT_FAILURE, TEMPLATE_HASHES, DatumGetInt32(iblt_require_arg(fcinfo, 1, "key_size", NULL)), 0,
					 (uint64) DatumGetInt64(iblt_require_arg(fcinfo, 2, "seed", NULL)));
	while (cells < params.subtable_cells)
		cells *= 2;
	if (iblt_core_ladder_has(cells))
		params.subtable_cells = cells;
	PG_RETURN_POINTER(iblt_make_empty(&params));
}

PG_FUNCTION_INFO_V1(iblt_compare_fold);

/* iblt_compare_fold(iblt, subtable_cells) -> iblt */
Datum
iblt_compare_fold(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	fold;
	int32		cells = PG_GETARG_INT32(1);

	iblt_value_open_arg(&iblt_type, &sketch, fcinfo, 0);
	if ((int64) sketch.params.subtable_cells == cells)
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	iblt_require_fold(&sketch.params, cells);
	PG_RETURN_POINTER(iblt_make_fold(&fold, &sketch, cells, sketch.params.subtables));
}

PG_FUNCTION_INFO_V1(iblt_compare_next);

/*
 * iblt_compare_next(whole, known, wanted) -> integer: the cells of a subtable of
 * the smallest fold that decodes `wanted` keys and is at least twice the one
 * to `known` cells, or `whole`, those of the sketch.
 */
Datum
iblt_compare_next(PG_FUNCTION_ARGS)
{
	uint32		whole = (uint32) Max(PG_GETARG_INT32(0), 1);
	uint32		known = (uint32) Max(PG_GETARG_INT32(1), 1);
	uint32		cells;

	cells = iblt_core_subtable_cells((uint32) Max(PG_GETARG_INT32(2), 1),
									 TEMPLATE_HASHES, FOLD_FAILURE);
	if (cells == 0 || known > whole / 2)
		PG_RETURN_INT32((int32) whole);
	cells = iblt_core_fold_cells(whole, Max(cells, 2 * known));
	PG_RETURN_INT32((int32) (cells == 0 ? whole : cells));
}
