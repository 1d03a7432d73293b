/*-------------------------------------------------------------------------
 *
 * strata.c
 *	  The type iblt_strata: the strata estimator of the Difference Digest.
 *
 * It tells how many keys differ, from a value that is as small for a billion
 * rows as for ten.  The answer is exact up to some tens of differences, and has
 * an error of some 11 % beyond.  The algorithm is in core/strata.h.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/strata_private.h"

#include "utils/builtins.h"

#include "core/sizing.h"
#include "sketch/value.h"

static IbltStatus
validate(uint8 *bytes, size_t size)
{
	IbltStrata	strata;

	return iblt_core_strata_open(&strata, bytes, size);
}

static const IbltValueType type_strata = {
	"iblt_strata", "iblt_strata_agg", IBLT_SKETCH_NULL, validate,
	iblt_core_strata_status_text
};

void
iblt_strata_open(IbltStrata *strata, Datum value)
{
	struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);
	IbltStatus	status = iblt_core_strata_open(strata,
											   (uint8 *) VARDATA_ANY(bytes),
											   VARSIZE_ANY_EXHDR(bytes));

	if (status != IBLT_OK)
		iblt_value_refuse(&type_strata, status);
}

void
iblt_strata_open_arg(IbltStrata *strata, FunctionCallInfo fcinfo, int n)
{
	iblt_strata_open(strata, iblt_value_arg(fcinfo, n, &type_strata));
}

void
iblt_strata_check_counts(IbltStatus status)
{
	iblt_value_check_counts(&type_strata, status);
}

struct varlena *
iblt_strata_make(IbltStrata *strata, const IbltStrataParams *params)
{
	struct varlena *value;

	iblt_strata_check_params(params);
	value = iblt_value_alloc(iblt_core_strata_size(params));
	iblt_core_strata_init(strata, params, (uint8 *) VARDATA(value));
	return value;
}

struct varlena *
iblt_strata_make_empty(const IbltStrataParams *params)
{
	IbltStrata	strata;
	struct varlena *value = iblt_strata_make(&strata, params);

	iblt_core_strata_seal(&strata);
	return value;
}

struct varlena *
iblt_strata_copy(IbltStrata *copy, const IbltStrata *strata)
{
	struct varlena *value = iblt_value_copy(strata->all.bytes, strata->all.size);

	iblt_core_strata_view_copy(copy, strata, (uint8 *) VARDATA(value));
	return value;
}

IBLT_VALUE_FUNCTIONS(iblt_strata, type_strata)

/* --- parameters --------------------------------------------------------- */

/* ERROR for cells that do not make whole subtables of an allowed size. */
static void
refuse_cells(int cells, int hashes)
{
	int			next = hashes *
		(int) iblt_core_ladder_at_least((cells + hashes - 1) / hashes);

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("cells of an iblt_strata cannot be %d", cells),
			 errdetail("A stratum has one subtable for each hash. The number of cells in a subtable must divide 2^24 * 3^2 * 5 * 7."),
			 errhint("Use %d cells, the next possible number with %d hashes.",
					 next, hashes)));
}

void
iblt_strata_params_make(IbltStrataParams *params, int strata, int cells,
						int hashes, uint64 seed)
{
	if (strata < 1 || strata > IBLT_MAX_STRATA)
		iblt_value_refuse_argument("an iblt_strata", "strata", strata, 1, IBLT_MAX_STRATA);
	if (hashes < IBLT_MIN_HASHES || hashes > IBLT_MAX_HASHES)
		iblt_value_refuse_argument("an iblt_strata", "hashes", hashes, IBLT_MIN_HASHES, IBLT_MAX_HASHES);
	if (cells < hashes || cells > hashes * (int) IBLT_LADDER_MAX)
		iblt_value_refuse_argument("an iblt_strata", "cells", cells, hashes, hashes * IBLT_LADDER_MAX);
	if (cells % hashes != 0 || !iblt_core_ladder_has(cells / hashes))
		refuse_cells(cells, hashes);
	memset(params, 0, sizeof *params);
	params->strata = strata;
	params->table.hashes = hashes;
	params->table.subtables = (1U << hashes) - 1;
	params->table.subtable_cells = cells / hashes;
	params->table.kind = IBLT_KEY_UNTYPED;
	params->table.limbs = 1;
	params->table.seed = seed;
}

void
iblt_strata_check_params(const IbltStrataParams *params)
{
	IbltStatus	status = iblt_core_strata_check_params(params);

	if (status == IBLT_BAD_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("iblt_strata would be larger than %zu bytes",
						IBLT_MAX_BYTES),
				 errhint("Choose fewer cells or strata.")));
	if (status != IBLT_OK)
		iblt_value_refuse(&type_strata, status);
}

/* All parameters in one line, for messages. */
static char *
params_text(const IbltStrataParams *params)
{
	const IbltParams *table = &params->table;
	char	   *key_type = iblt_params_key_type(table);

	return psprintf("%d strata of %u cells, %d hashes, seed " INT64_FORMAT ", %s%s",
					params->strata, table->hashes * table->subtable_cells,
					table->hashes, (int64) table->seed,
					key_type == NULL ? "no key type yet" : "key type ",
					key_type == NULL ? "" : key_type);
}

void
iblt_strata_check_match(const IbltStrataParams *left,
						const IbltStrataParams *right)
{
	IbltStatus	status = iblt_core_strata_compatible(left, right);

	if (status == IBLT_OK)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("iblt_strata values cannot be combined: %s",
					iblt_core_strata_status_text(status)),
			 errdetail("One has %s. The other has %s.",
					   params_text(left), params_text(right)),
			 errhint("%s", status == IBLT_OTHER_KEY_TYPE
					 ? "Cast the key to one type on both sides, as in iblt_strata_agg(key::text, ...)."
					 : "Build both from one template: iblt_strata_agg(key, checksum, iblt_strata_new(...)).")));
}

PG_FUNCTION_INFO_V1(iblt_strata_new);

/* iblt_strata_new(strata, cells, hashes, seed) -> iblt_strata */
Datum
iblt_strata_new(PG_FUNCTION_ARGS)
{
	IbltStrataParams params;

	iblt_strata_params_make(&params,
							DatumGetInt32(iblt_value_option(fcinfo, 0, "an iblt_strata", "strata")),
							DatumGetInt32(iblt_value_option(fcinfo, 1, "an iblt_strata", "cells")),
							DatumGetInt32(iblt_value_option(fcinfo, 2, "an iblt_strata", "hashes")),
							(uint64) DatumGetInt64(iblt_value_option(fcinfo, 3, "an iblt_strata", "seed")));
	PG_RETURN_POINTER(iblt_strata_make_empty(&params));
}

/* The columns of iblt_strata_info. */
enum
{
	INFO_VERSION, INFO_STRATA, INFO_CELLS, INFO_HASHES, INFO_KEY_TYPE,
	INFO_SEED, INFO_ROWS, INFO_BYTES, INFO_COLUMNS
};

PG_FUNCTION_INFO_V1(iblt_strata_info);

/* iblt_strata_info(iblt_strata) -> record */
Datum
iblt_strata_info(PG_FUNCTION_ARGS)
{
	IbltStrata	strata;
	const IbltParams *table = &strata.params.table;
	Datum		values[INFO_COLUMNS];
	bool		nulls[INFO_COLUMNS] = {false};
	char	   *key_type;

	iblt_strata_open_arg(&strata, fcinfo, 0);
	key_type = iblt_params_key_type(table);
	values[INFO_VERSION] = Int32GetDatum(IBLT_STRATA_VERSION);
	values[INFO_STRATA] = Int32GetDatum(strata.params.strata);
	values[INFO_CELLS] = Int32GetDatum(table->hashes *
									   (int32) table->subtable_cells);
	values[INFO_HASHES] = Int32GetDatum(table->hashes);
	nulls[INFO_KEY_TYPE] = key_type == NULL;
	values[INFO_KEY_TYPE] = key_type == NULL ? (Datum) 0
		: CStringGetTextDatum(key_type);
	values[INFO_SEED] = Int64GetDatum((int64) table->seed);
	values[INFO_ROWS] = Int64GetDatum(strata.all.rows);
	values[INFO_BYTES] = Int64GetDatum((int64) strata.all.size);
	return iblt_value_row(fcinfo, values, nulls);
}
