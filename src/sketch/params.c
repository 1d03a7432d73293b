/*
 * params.c
 *	  Parameters of sketches: read from SQL arguments, shown in messages, and
 *	  compared.  iblt_new and iblt_info.
 */
#include "sketch/iblt.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"

#include "core/get.h"
#include "core/sizing.h"

/*
 * Cells of a subtable for a capacity and probability of failure.  ERROR, with
 * a hint, if either is out of range.
 */
static uint32
cells_for(int capacity, int hashes, double failure)
{
	uint32		cells = 0;

	iblt_check_failure("failure of an iblt", failure, IBLT_MIN_FAILURE, IBLT_MAX_FAILURE);
	if (capacity > 0)
		cells = iblt_core_subtable_cells(capacity, hashes, failure);
	if (cells == 0)
		iblt_check_range("capacity of an iblt", capacity, 1,
						 (int) Min(iblt_core_capacity(IBLT_LADDER_MAX, hashes, failure),
								   PG_INT32_MAX));
	return cells;
}

void
iblt_params_make(IbltParams *params, int capacity, double failure, int hashes,
				 int key_size, int value_size, uint64 seed)
{
	int			most = 8 * IBLT_MAX_LIMBS;

	iblt_check_range("hashes of an iblt", hashes, IBLT_MIN_HASHES, IBLT_MAX_HASHES);
	iblt_check_range("key_size of an iblt", key_size, 1, most);
	iblt_check_range("value_size of an iblt", value_size, 0, most);
	memset(params, 0, sizeof *params);
	params->hashes = hashes;
	params->subtables = (1U << hashes) - 1;
	params->key.kind = IBLT_KEY_UNTYPED;
	params->key.limbs = (key_size + 7) / 8;
	params->value.limbs = (value_size + 7) / 8;
	params->seed = seed;
	params->subtable_cells = cells_for(capacity, hashes, failure);
}

uint32
iblt_params_capacity(const IbltParams *params)
{
	return iblt_core_capacity(params->subtable_cells,
							  iblt_core_subtable_count(params),
							  IBLT_DEFAULT_FAILURE);
}

uint32
iblt_params_fold_cells(const IbltParams *params, int capacity, double failure)
{
	uint32		least = cells_for(capacity,
								  Max(iblt_core_subtable_count(params),
									  IBLT_MIN_HASHES), failure);
	uint32		cells = iblt_core_fold_cells(params->subtable_cells, least);

	if (cells == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("iblt cannot be folded to capacity %d", capacity),
				 errdetail("The sketch has capacity %u, and folding only makes a sketch smaller.",
						   iblt_params_capacity(params)),
				 errhint("Build it with a larger capacity.")));
	return cells;
}

void
iblt_require_fold(const IbltParams *params, int32 cells)
{
	if (cells < 1 || params->subtable_cells % (uint32) cells != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("subtables of %u cells cannot be folded to %d",
						params->subtable_cells, cells)));
}

char *
iblt_params_type_name(const IbltTyping *typing)
{
	switch (typing->kind)
	{
		case IBLT_KEY_INTEGER:
			return pstrdup("bigint");
		case IBLT_KEY_UUID:
			return pstrdup("uuid");
		case IBLT_KEY_CANONICAL:
			{
				int			size = (int) typing->description_size;
				char	   *text = pnstrdup((const char *) typing->description,
											size);

				return pg_any_to_server(text, size, PG_UTF8);
			}
		case IBLT_KEY_UNTYPED:
			break;
	}
	return NULL;
}

/* The form of keys or values, for messages. */
static char *
typing_text(const char *what, const IbltTyping *typing)
{
	char	   *type = iblt_params_type_name(typing);

	return typing->limbs == 0 ? psprintf("no %s", what)
		: psprintf("%s of %s%s in %u bytes", what, type == NULL ? "no type yet" : "type ",
				   type == NULL ? "" : type, 8 * typing->limbs);
}

/* All parameters in one line, for messages. */
static char *
params_text(const IbltParams *params)
{
	int			subtables = iblt_core_subtable_count(params);

	return psprintf("%s%d hashes, %u cells%s, seed " INT64_FORMAT ", %s, %s",
					params->strata == 0 ? "" : psprintf("%d strata, ", params->strata),
					params->hashes, subtables * params->subtable_cells,
					subtables == params->hashes ? ""
					: psprintf(" in subtables of mask %u", params->subtables),
					(int64) params->seed, typing_text("keys", &params->key),
					typing_text("values", &params->value));
}

void
iblt_params_check_match(const IbltParams *left, const IbltParams *right)
{
	IbltParams	typed = *left;
	const char *type = left->strata > 0 ? "iblt_strata" : "iblt";
	IbltStatus	status;

	if (left->key.kind == IBLT_KEY_UNTYPED && right->key.kind != IBLT_KEY_UNTYPED)
	{
		/*
		 * A template takes the types, in its own sizes.  Integers and uuids have their own size,
		 * whatever the template's size is.  Values or none, that stays.
		 */
		typed.key = right->key;
		typed.value = right->value;
		if (right->key.kind == IBLT_KEY_CANONICAL)
			typed.key.limbs = left->key.limbs;
		if (right->value.kind == IBLT_KEY_CANONICAL ||
			(right->value.limbs == 0) != (left->value.limbs == 0))
			typed.value.limbs = left->value.limbs;
	}
	else if (right->key.kind == IBLT_KEY_UNTYPED &&
			 left->key.kind != IBLT_KEY_UNTYPED)
	{
		iblt_params_check_match(right, left);
		return;
	}
	status = iblt_core_compatible(&typed, right);
	if (status == IBLT_OK)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s values cannot be combined: %s", type,
					iblt_core_status_text(status)),
			 errdetail("One has %s. The other has %s.",
					   params_text(left), params_text(right)),
			 status == IBLT_OTHER_KEY_TYPE
			 ? errhint("Cast the key to one type on both sides, as in %s_agg(key::text, ...).", type)
			 : status == IBLT_OTHER_VALUE_TYPE
			 ? errhint("Cast the value to one type on both sides, as in iblt_agg(key, value::text, ...).")
			 : errhint("Build both from one template: %s_agg(key, checksum, %s_new(...)).", type, type)));
}

PG_FUNCTION_INFO_V1(iblt_new);

/*
 * iblt_new(capacity, key_size, failure, with_values, value_size, get_success,
 *          hashes, seed)
 * -> iblt
 */
Datum
iblt_new(PG_FUNCTION_ARGS)
{
	IbltParams	params;
	int			capacity = DatumGetInt32(iblt_require_arg(fcinfo, 0, "capacity of an iblt", IBLT_HAS_DEFAULT));
	int			key_size = DatumGetInt32(iblt_require_arg(fcinfo, 1, "key_size of an iblt", IBLT_HAS_DEFAULT));
	int64		seed = DatumGetInt64(iblt_require_arg(fcinfo, 7, "seed of an iblt", IBLT_HAS_DEFAULT));
	double		failure = DatumGetFloat8(iblt_require_arg(fcinfo, 2, "failure of an iblt", IBLT_HAS_DEFAULT));
	bool		with_values = DatumGetBool(iblt_require_arg(fcinfo, 3, "with_values of an iblt", IBLT_HAS_DEFAULT));
	int			value_size = DatumGetInt32(iblt_require_arg(fcinfo, 4, "value_size of an iblt", IBLT_HAS_DEFAULT));

	if (value_size == 0 && with_values)
		value_size = IBLT_DEFAULT_VALUE_SIZE;
	iblt_params_make(&params, capacity, failure, PG_ARGISNULL(6) ? IBLT_DEFAULT_HASHES
					 : PG_GETARG_INT32(6), key_size, value_size, (uint64) seed);
	if (!PG_ARGISNULL(5))
	{
		double		get_success = PG_GETARG_FLOAT8(5);

		/* written so that NaN is refused */
		if (!(get_success > 0 && get_success < 1))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("get_success of an iblt cannot be %g", get_success),
					 errhint("Choose a probability between 0 and 1, such as 0.99.")));
		if (PG_ARGISNULL(6))
			params.hashes = 0;	/* to be chosen */
		params.subtable_cells = iblt_core_get_choose(capacity, &params.hashes, failure,
													 get_success);
		if (params.subtable_cells == 0)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("no iblt is large enough to find %d keys with probability %g",
							capacity, get_success),
					 errhint("Choose a smaller capacity, a smaller get_success or more hashes.")));
		params.subtables = (1U << params.hashes) - 1;
	}
	PG_RETURN_POINTER(iblt_make_empty(&params));
}

unsigned
iblt_params_subtable(const IbltParams *params, int number)
{
	if (number < 1 || number > params->hashes ||
		(params->subtables >> (number - 1) & 1) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("iblt has no subtable %d", number),
				 errhint("Choose a subtable from 1 to %d that has not been dropped yet.",
						 params->hashes)));
	return 1U << (number - 1);
}

Datum
iblt_params_subtables(unsigned mask)
{
	Datum		hashes[IBLT_MAX_HASHES];
	int			n = 0;
	int			i;

	for (i = 0; i < IBLT_MAX_HASHES; i++)
		if ((mask >> i & 1) != 0)
			hashes[n++] = Int32GetDatum(i + 1);
	return iblt_array_make(hashes, NULL, n, INT4OID);
}

/* Adds the columns hashes, cells and capacity, of which the last may be NULL. */
static void
size_columns(IbltRow *row, const IbltParams *params)
{
	int			subtables = iblt_core_subtable_count(params);
	uint32		capacity = iblt_params_capacity(params);

	iblt_column(row, Int32GetDatum(subtables), false);
	iblt_column(row, Int32GetDatum(subtables * params->subtable_cells), false);
	iblt_column(row, Int32GetDatum((int32) capacity), capacity == 0);
}

PG_FUNCTION_INFO_V1(iblt_info);

/* iblt_info(iblt) -> record */
Datum
iblt_info(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	const IbltParams *params = &sketch.params;
	IbltRow		row = {0};
	bool		has_values;

	iblt_value_open_arg(&iblt_type, &sketch, fcinfo, 0);
	has_values = params->value.limbs > 0;
	iblt_column(&row, Int32GetDatum(IBLT_FORMAT_VERSION), false);
	size_columns(&row, params);
	iblt_column_text(&row, iblt_params_type_name(&params->key));
	iblt_column(&row, Int32GetDatum(8 * params->key.limbs), false);
	iblt_column(&row, BoolGetDatum(has_values), false);
	iblt_column_text(&row, iblt_params_type_name(&params->value));
	iblt_column(&row, Int32GetDatum(8 * params->value.limbs), !has_values);
	iblt_column(&row, Int64GetDatum((int64) params->seed), false);
	iblt_column(&row, Int64GetDatum(sketch.rows), false);
	iblt_column(&row, Int64GetDatum((int64) sketch.size), false);
	/* an estimate, of which more digits mean nothing */
	iblt_column(&row, Float8GetDatum(rint(iblt_core_get_success_now(&sketch) * 1e6) / 1e6),
				false);
	iblt_column(&row, iblt_params_subtables(params->subtables), false);
	return iblt_value_row(fcinfo, &row);
}

PG_FUNCTION_INFO_V1(iblt_header);

/* iblt_header(iblt) -> record: what the drivers ask for, from the header alone. */
Datum
iblt_header(PG_FUNCTION_ARGS)
{
	IbltSlices	slices;
	IbltSketch	sketch;
	IbltRow		row = {0};

	iblt_open_header_arg(&sketch, &slices, fcinfo, 0);
	size_columns(&row, &sketch.params);
	iblt_column(&row, Int64GetDatum(sketch.rows), false);
	return iblt_value_row(fcinfo, &row);
}
