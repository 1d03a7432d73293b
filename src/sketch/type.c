/*-------------------------------------------------------------------------
 *
 * type.c
 *	  The types iblt and iblt_strata: their text and binary forms, their casts,
 *	  their memory.
 *
 * A value is a varlena header and the bytes of doc/internals/format.md.  Everything that
 * comes in from outside (text, binary, bytea, or a stored value passed to a
 * function) goes through iblt_core_open.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "core/cell.h"
#include "core/strata.h"
#include "sketch/value.h"

#define TYPE_OF(params)	((params)->strata > 0 ? &type_strata : &type_iblt)

static const IbltValueType type_iblt;
static const IbltValueType type_strata;

static IbltStatus
validate(const IbltValueType *type, uint8 *bytes, size_t size)
{
	IbltSketch	sketch;
	IbltStatus	status = iblt_core_open(&sketch, bytes, size);

	return status == IBLT_OK && TYPE_OF(&sketch.params) != type
		? IBLT_BAD_MAGIC : status;
}

#define SKETCH_NULL \
	"Without a sketch nothing is known about the rows. NULL must not be taken for \"equal\"."

static const IbltValueType type_iblt = {
	"iblt", "iblt_agg", SKETCH_NULL, validate
};

static const IbltValueType type_strata = {
	"iblt_strata", "iblt_strata_agg", SKETCH_NULL, validate
};

void
iblt_open_either(IbltSketch *sketch, Datum value)
{
	struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);
	IbltStatus	status;

	sketch->params.strata = 0;
	status = iblt_core_open(sketch, (uint8 *) VARDATA_ANY(bytes),
							VARSIZE_ANY_EXHDR(bytes));
	if (status != IBLT_OK)
		iblt_value_refuse(TYPE_OF(&sketch->params), status);
}

void
iblt_open_as(IbltSketch *sketch, Datum value, bool is_strata)
{
	const IbltValueType *type = is_strata ? &type_strata : &type_iblt;

	iblt_open_either(sketch, value);
	if (TYPE_OF(&sketch->params) != type)
		iblt_value_refuse(type, IBLT_BAD_MAGIC);
}

void
iblt_open(IbltSketch *sketch, Datum value)
{
	iblt_open_as(sketch, value, false);
}

void
iblt_open_arg(IbltSketch *sketch, FunctionCallInfo fcinfo, int n)
{
	iblt_open_as(sketch, iblt_value_arg(fcinfo, n, &type_iblt), false);
}

void
iblt_strata_open_arg(IbltSketch *strata, FunctionCallInfo fcinfo, int n)
{
	iblt_open_as(strata, iblt_value_arg(fcinfo, n, &type_strata), true);
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

void
iblt_check_params(const IbltParams *params)
{
	IbltStatus	status = iblt_core_check_params(params);

	if (status == IBLT_BAD_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s would be larger than %zu bytes",
						TYPE_OF(params)->name, IBLT_MAX_BYTES),
				 errhint("%s", params->strata > 0 ? "Choose fewer cells or strata."
						 : "Choose a smaller capacity, key_size or value_size, or compare the table in parts.")));
	if (status != IBLT_OK)
		iblt_value_refuse(TYPE_OF(params), status);
}

void
iblt_check_counts(const IbltParams *params, IbltStatus status)
{
	if (status == IBLT_OK)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("count of rows in an %s is out of range", TYPE_OF(params)->name),
			 errdetail("A cell counts from %d to %d rows.",
					   PG_INT32_MIN, PG_INT32_MAX),
			 errhint("Use more cells, or compare the rows in parts.")));
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
iblt_make_fold(IbltSketch *fold, const IbltSketch *sketch, uint32 cells,
			   unsigned subtables)
{
	IbltParams	params = sketch->params;
	struct varlena *value;

	params.subtable_cells = cells;
	params.subtables = subtables;
	value = iblt_make(fold, &params);
	iblt_core_fold(fold, sketch);
	iblt_core_seal(fold);
	return value;
}

IBLT_VALUE_FUNCTIONS(iblt, type_iblt)
IBLT_VALUE_FUNCTIONS(iblt_strata, type_strata)
