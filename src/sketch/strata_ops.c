/*-------------------------------------------------------------------------
 *
 * strata_ops.c
 *	  Estimators added, subtracted and compared.  Rows inserted and deleted one
 *	  at a time.  The estimate.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/strata_private.h"

#include "miscadmin.h"

#include "sketch/key.h"

/*
 * left + sign * right, not sealed.  The result has the key type of the operand
 * that has one.
 */
static struct varlena *
combine(IbltStrata *result, const IbltStrata *left, const IbltStrata *right,
		int sign)
{
	struct varlena *value;

	iblt_strata_check_match(&left->params, &right->params);
	if (left->params.table.kind != IBLT_KEY_UNTYPED)
		value = iblt_strata_copy(result, left);
	else
		value = iblt_strata_make(result, &right->params);
	iblt_strata_check_counts(iblt_core_strata_add(result, right, sign));
	return value;
}

/* The same for both arguments of an operator, sealed. */
static Datum
combine_arguments(FunctionCallInfo fcinfo, int sign)
{
	IbltStrata	left;
	IbltStrata	right;
	IbltStrata	result;
	struct varlena *value;

	iblt_strata_open(&left, PG_GETARG_DATUM(0));
	iblt_strata_open(&right, PG_GETARG_DATUM(1));
	value = combine(&result, &left, &right, sign);
	iblt_core_strata_seal(&result);
	return PointerGetDatum(value);
}

/* iblt_strata_add(iblt_strata, iblt_strata) -> iblt_strata: the operator + */
IBLT_FUNCTION(iblt_strata_add, combine_arguments(fcinfo, 1))

/* iblt_strata_subtract(iblt_strata, iblt_strata) -> iblt_strata: the operator - */
IBLT_FUNCTION(iblt_strata_subtract, combine_arguments(fcinfo, -1))

PG_FUNCTION_INFO_V1(iblt_strata_negate);

/* iblt_strata_negate(iblt_strata) -> iblt_strata: the unary operator - */
Datum
iblt_strata_negate(PG_FUNCTION_ARGS)
{
	IbltStrata	strata;
	IbltStrata	result;
	struct varlena *value;

	iblt_strata_open(&strata, PG_GETARG_DATUM(0));
	value = iblt_strata_copy(&result, &strata);
	iblt_strata_check_counts(iblt_core_strata_negate(&result));
	iblt_core_strata_seal(&result);
	PG_RETURN_POINTER(value);
}

/*
 * Do two estimators hold the same?  Both are sealed, so equal contents are
 * equal bytes.  An estimator without a type of key has no contents.
 */
static bool
same_contents(FunctionCallInfo fcinfo)
{
	IbltStrata	left;
	IbltStrata	right;

	iblt_strata_open(&left, PG_GETARG_DATUM(0));
	iblt_strata_open(&right, PG_GETARG_DATUM(1));
	iblt_strata_check_match(&left.params, &right.params);
	if (left.params.table.kind != right.params.table.kind)
		return iblt_core_strata_is_empty(&left) &&
			iblt_core_strata_is_empty(&right);
	return left.all.size == right.all.size &&
		memcmp(left.all.bytes, right.all.bytes, left.all.size) == 0;
}

/* iblt_strata_eq(iblt_strata, iblt_strata) -> boolean: the operator = */
IBLT_FUNCTION(iblt_strata_eq, BoolGetDatum(same_contents(fcinfo)))

/* iblt_strata_ne(iblt_strata, iblt_strata) -> boolean: the operator <> */
IBLT_FUNCTION(iblt_strata_ne, BoolGetDatum(!same_contents(fcinfo)))

/* --- one row at a time ------------------------------------------------------ */

/* A copy of the estimator with one row inserted or deleted. */
static Datum
change_row(FunctionCallInfo fcinfo, int sign)
{
	IbltKeyCoder *coder = iblt_key_coder_for_arg(fcinfo, 1);
	IbltStrata	strata;
	IbltStrata	result;
	IbltStrataParams params;
	IbltStatus	status;
	struct varlena *value;

	iblt_strata_open_arg(&strata, fcinfo, 0);
	iblt_require_arg(fcinfo, 1, "key of a row");
	iblt_require_arg(fcinfo, 2, "checksum of a row");
	iblt_key_encode(coder, PG_GETARG_DATUM(1));
	params = strata.params;
	iblt_key_set_params(coder, &params.table);
	value = strata.params.table.kind == IBLT_KEY_UNTYPED
		? iblt_strata_make(&result, &params)
		: iblt_strata_copy(&result, &strata);
	status = iblt_core_strata_add_row_checked(&result,
											  (uint8 *) coder->bytes.data,
											  coder->bytes.len,
											  (uint64) PG_GETARG_INT64(2),
											  sign);
	iblt_strata_check_counts(status);
	iblt_core_strata_seal(&result);
	return PointerGetDatum(value);
}

/* iblt_strata_insert(iblt_strata, anyelement, bigint) -> iblt_strata */
IBLT_FUNCTION(iblt_strata_insert, change_row(fcinfo, 1))

/* iblt_strata_delete(iblt_strata, anyelement, bigint) -> iblt_strata */
IBLT_FUNCTION(iblt_strata_delete, change_row(fcinfo, -1))

/* --- the estimate ----------------------------------------------------------- */

/* The number of keys in a difference, which is destroyed. */
static int64
estimate(IbltStrata *difference)
{
	IbltStrataDecoder *decoder = palloc(sizeof *decoder);
	size_t		size = iblt_core_strata_scratch_size(difference);
	IbltPeelResult result;
	uint64		keys;

	/* at most 4.25 bytes for each cell of 28: below 1 GB */
	iblt_core_strata_decode_start(decoder, difference, palloc(size));
	while (iblt_core_strata_decode_step(decoder))
		CHECK_FOR_INTERRUPTS();
	result = iblt_core_strata_result(decoder, &keys);
	if (result == IBLT_PEEL_INCONSISTENT)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("iblt_strata cells do not match the header"),
				 errdetail("The cells decode to rows that the header does not count or the strata cannot hold."),
				 errhint("Build the estimator again. This value was not made by inserting, deleting and adding.")));
	if (result == IBLT_PEEL_INCOMPLETE && keys == 0)
		ereport(ERROR,
				(errcode(ERRCODE_IBLT_INCOMPLETE),
				 errmsg("iblt_strata holds more keys than it can estimate"),
				 errdetail("Not even the highest of its %d strata, of %u cells, can be decoded.",
						   difference->params.strata, decoder->stratum.ncells),
				 errhint("Build both with more strata: iblt_strata_new(strata => %d).",
						 Max(IBLT_DEFAULT_STRATA,
							 Min(2 * difference->params.strata,
								 IBLT_MAX_STRATA)))));
	return (int64) keys;
}

PG_FUNCTION_INFO_V1(iblt_strata_estimate);

/* iblt_strata_estimate(iblt_strata [, iblt_strata]) -> bigint */
Datum
iblt_strata_estimate(PG_FUNCTION_ARGS)
{
	IbltStrata	left;
	IbltStrata	right;
	IbltStrata	difference;

	iblt_strata_open_arg(&left, fcinfo, 0);
	if (PG_NARGS() == 1)
		iblt_strata_copy(&difference, &left);
	else
	{
		iblt_strata_open_arg(&right, fcinfo, 1);
		combine(&difference, &left, &right, -1);
		/* the peeler needs sealed cells */
		iblt_core_strata_seal(&difference);
	}
	PG_RETURN_INT64(estimate(&difference));
}
