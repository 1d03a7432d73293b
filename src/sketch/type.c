/*-------------------------------------------------------------------------
 *
 * type.c
 *	  The type iblt: its text and binary forms, its casts, its memory.
 *
 * A value is a varlena header and the bytes of doc/internals/format.md.  Everything that
 * comes in from outside (text, binary, bytea, or a stored value passed to a
 * function) goes through iblt_core_open.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "core/fold.h"
#include "sketch/value.h"

static IbltStatus
validate(uint8 *bytes, size_t size)
{
	IbltSketch	sketch;

	return iblt_core_open(&sketch, bytes, size);
}

static const IbltValueType type_iblt = {
	"iblt", "iblt_agg", IBLT_SKETCH_NULL, validate, iblt_core_status_text
};

void
iblt_open(IbltSketch *sketch, Datum value)
{
	struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);
	IbltStatus	status = iblt_core_open(sketch, (uint8 *) VARDATA_ANY(bytes),
										VARSIZE_ANY_EXHDR(bytes));

	if (status != IBLT_OK)
		iblt_value_refuse(&type_iblt, status);
}

void
iblt_open_arg(IbltSketch *sketch, FunctionCallInfo fcinfo, int n)
{
	iblt_open(sketch, iblt_value_arg(fcinfo, n, &type_iblt));
}

void
iblt_open_header_arg(IbltSketch *sketch, IbltSlices *slices,
					 FunctionCallInfo fcinfo, int n)
{
	const uint8 *bytes;
	size_t		size;
	IbltStatus	status;

	iblt_slices_open(slices, iblt_value_arg(fcinfo, n, &type_iblt));
	bytes = iblt_slices_header(slices, iblt_core_header_size, &size);
	status = iblt_core_open_header(sketch, unconstify(uint8 *, bytes), size,
								   slices->size);
	if (status != IBLT_OK)
		iblt_refuse(status);
}

void
iblt_refuse(IbltStatus status)
{
	iblt_value_refuse(&type_iblt, status);
}

Datum
iblt_require_arg(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
	return PG_GETARG_DATUM(n);
}

void
iblt_check_params(const IbltParams *params)
{
	IbltStatus	status = iblt_core_check_params(params);

	if (status == IBLT_BAD_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("iblt would be larger than %zu bytes",
						IBLT_MAX_BYTES),
				 errhint("Choose a smaller capacity, key_size or value_size, or compare the table in parts.")));
	if (status != IBLT_OK)
		iblt_value_refuse(&type_iblt, status);
}

void
iblt_check_counts(IbltStatus status)
{
	iblt_value_check_counts(&type_iblt, status);
}

void
iblt_refuse_contradiction(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("iblt cells do not match the header"),
			 errdetail("No rows have both these cells and this header."),
			 errhint("Build the sketch again. This value was not made by inserting, deleting and adding.")));
}

void
iblt_refuse_row(IbltStatus status)
{
	if (status == IBLT_COUNT_OVERFLOW)
		iblt_check_counts(status);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("row cannot be kept in the iblt"),
			 errdetail("By a chance of about 3 in 10^18, %s.",
					   iblt_core_status_text(status)),
			 errhint("Build both sketches with another seed: iblt_new(seed => ...).")));
}

struct varlena *
iblt_make(IbltSketch *sketch, const IbltParams *params)
{
	struct varlena *value;

	iblt_check_params(params);
	value = iblt_value_alloc(iblt_core_size(params));
	iblt_core_init(sketch, params, (uint8 *) VARDATA(value));
	return value;
}

struct varlena *
iblt_make_empty(const IbltParams *params)
{
	IbltSketch	sketch;
	struct varlena *value = iblt_make(&sketch, params);

	iblt_core_seal(&sketch);
	return value;
}

struct varlena *
iblt_copy(IbltSketch *copy, const IbltSketch *sketch)
{
	struct varlena *value = iblt_value_copy(sketch->bytes, sketch->size);

	iblt_core_view_copy(copy, sketch, (uint8 *) VARDATA(value));
	return value;
}

struct varlena *
iblt_make_fold(IbltSketch *fold, const IbltParams *params,
			   const IbltSketch *sketch)
{
	struct varlena *value = iblt_make(fold, params);

	iblt_core_fold(fold, sketch);
	iblt_core_seal(fold);
	return value;
}

IBLT_VALUE_FUNCTIONS(iblt, type_iblt)
