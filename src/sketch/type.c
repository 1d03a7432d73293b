/*
 * type.c
 *	  The types iblt and iblt_strata: their text and binary forms, their casts,
 *	  their memory.
 *
 * A value is a varlena header and the bytes of doc/internals/format.md.  Everything that
 * comes in from outside (text, binary, bytea, or a stored value passed to a
 * function) goes through iblt_core_open.
 */
#include "sketch/iblt.h"

#define TYPE_OF(params)	((params)->strata > 0 ? &iblt_strata_type : &iblt_type)

static IbltStatus
open_sketch(void *view, uint8 *bytes, size_t size)
{
	IbltStatus	status = iblt_core_open(view, bytes, size);

	return status == IBLT_OK && ((IbltSketch *) view)->params.strata > 0
		? IBLT_BAD_MAGIC : status;
}

static IbltStatus
open_strata(void *view, uint8 *bytes, size_t size)
{
	IbltStatus	status = iblt_core_open(view, bytes, size);

	return status == IBLT_OK && ((IbltSketch *) view)->params.strata == 0
		? IBLT_BAD_MAGIC : status;
}

#define SKETCH_NULL \
	"Without a sketch nothing is known about the rows. NULL must not be taken for \"equal\"."

const IbltValueType iblt_type = {"iblt", "iblt_agg", SKETCH_NULL, open_sketch};
const IbltValueType iblt_strata_type = {
	"iblt_strata", "iblt_strata_agg", SKETCH_NULL, open_strata
};

void
iblt_open_either(IbltSketch *sketch, Datum value)
{
	struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);
	bool		is_strata = VARSIZE_ANY_EXHDR(bytes) >= 4 &&
		memcmp(VARDATA_ANY(bytes), IBLT_STRATA_MAGIC, 4) == 0;

	iblt_value_open(is_strata ? &iblt_strata_type : &iblt_type, sketch, PointerGetDatum(bytes));
}

void
iblt_open_header_arg(IbltSketch *sketch, IbltSlices *slices,
					 FunctionCallInfo fcinfo, int n)
{
	size_t		size;
	uint8	   *bytes = iblt_slices_open(slices, iblt_value_arg(fcinfo, n, &iblt_type),
										 iblt_core_header_size, &size);

	iblt_value_check(&iblt_type, iblt_core_open_header(sketch, bytes, size, slices->size));
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
	iblt_value_check(TYPE_OF(params), status);
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

IBLT_VALUE_FUNCTIONS(iblt, iblt_type)
IBLT_VALUE_FUNCTIONS(iblt_strata, iblt_strata_type)
