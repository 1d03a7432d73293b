/*
 * strata.c
 *	  The type iblt_strata: the strata estimator of the Difference Digest.
 *
 * It tells how many keys differ, from a value that is as small for a billion
 * rows as for ten.  The answer is exact up to some tens of differences, and has
 * an error of some 11 % beyond.  The algorithm is in core/strata.h.  An
 * estimator is a sketch with strata, so most of what makes and combines its
 * values is what does that for sketches.
 */
#include "sketch/iblt.h"

#include "core/sizing.h"
#include "core/strata.h"

void
iblt_strata_params_make(IbltParams *params, int strata, int cells,
						int hashes, uint64 seed)
{
	iblt_check_range("strata of an iblt_strata", strata, 1, IBLT_MAX_STRATA);
	iblt_check_range("hashes of an iblt_strata", hashes, IBLT_MIN_HASHES, IBLT_MAX_HASHES);
	iblt_check_range("cells of an iblt_strata", cells, hashes, hashes * IBLT_LADDER_MAX);
	if (cells % hashes != 0 || !iblt_core_ladder_has(cells / hashes))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cells of an iblt_strata cannot be %d", cells),
				 errdetail("A stratum has one subtable for each hash. The number of cells in a subtable must divide 2^24 * 3^2 * 5 * 7."),
				 errhint("Use %d cells, the next possible number with %d hashes.",
						 hashes * (int) iblt_core_ladder_at_least((cells + hashes - 1) / hashes),
						 hashes)));
	memset(params, 0, sizeof *params);
	params->strata = strata;
	params->hashes = hashes;
	params->subtables = (1U << hashes) - 1;
	params->subtable_cells = cells / hashes;
	params->key.kind = IBLT_KEY_UNTYPED;
	params->key.limbs = 1;
	params->seed = seed;
}

PG_FUNCTION_INFO_V1(iblt_strata_new);

/* iblt_strata_new(strata, cells, hashes, seed) -> iblt_strata */
Datum
iblt_strata_new(PG_FUNCTION_ARGS)
{
	IbltParams	params;
	IbltParams	typed;

	iblt_strata_params_make(&params,
							DatumGetInt32(iblt_require_arg(fcinfo, 0, "strata of an iblt_strata", IBLT_HAS_DEFAULT)),
							DatumGetInt32(iblt_require_arg(fcinfo, 1, "cells of an iblt_strata", IBLT_HAS_DEFAULT)),
							DatumGetInt32(iblt_require_arg(fcinfo, 2, "hashes of an iblt_strata", IBLT_HAS_DEFAULT)),
							(uint64) DatumGetInt64(iblt_require_arg(fcinfo, 3, "seed of an iblt_strata", IBLT_HAS_DEFAULT)));
	/* a template must be usable */
	typed = params;
	typed.key.kind = IBLT_KEY_INTEGER;
	iblt_check_params(&typed);
	PG_RETURN_POINTER(iblt_make_empty(&params));
}

PG_FUNCTION_INFO_V1(iblt_strata_info);

/* iblt_strata_info(iblt_strata) -> record */
Datum
iblt_strata_info(PG_FUNCTION_ARGS)
{
	IbltSketch	strata;
	const IbltParams *params = &strata.params;
	IbltRow		row = {0};

	iblt_value_open_arg(&iblt_strata_type, &strata, fcinfo, 0);
	iblt_column(&row, Int32GetDatum(IBLT_FORMAT_VERSION), false);
	iblt_column(&row, Int32GetDatum(params->strata), false);
	iblt_column(&row, Int32GetDatum(params->hashes * (int32) params->subtable_cells), false);
	iblt_column(&row, Int32GetDatum(params->hashes), false);
	iblt_column_text(&row, iblt_params_type_name(&params->key));
	iblt_column(&row, Int64GetDatum((int64) params->seed), false);
	iblt_column(&row, Int64GetDatum(strata.rows), false);
	iblt_column(&row, Int64GetDatum((int64) strata.size), false);
	return iblt_value_row(fcinfo, &row);
}

PG_FUNCTION_INFO_V1(iblt_strata_estimate);

/* iblt_strata_estimate(iblt_strata [, iblt_strata]) -> bigint */
Datum
iblt_strata_estimate(PG_FUNCTION_ARGS)
{
	IbltSketch	left;
	IbltSketch	right;
	IbltSketch	difference;
	IbltPeelResult result;
	uint64		keys;

	iblt_value_open_arg(&iblt_strata_type, &left, fcinfo, 0);
	if (PG_NARGS() == 1)
		iblt_copy(&difference, &left);
	else
	{
		iblt_value_open_arg(&iblt_strata_type, &right, fcinfo, 1);
		iblt_combine(&difference, &left, &right, -1);
	}
	/* at most 4.25 bytes for each cell of 28: below 1 GB */
	result = iblt_core_strata_estimate(&difference, palloc(sizeof(IbltPeeler)),
									   palloc(iblt_core_strata_scratch_size(&difference)),
									   &keys);
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
						   difference.params.strata,
						   difference.params.hashes * difference.params.subtable_cells),
				 errhint("Build both with more strata: iblt_strata_new(strata => %d).",
						 Max(IBLT_DEFAULT_STRATA,
							 Min(2 * difference.params.strata,
								 IBLT_MAX_STRATA)))));
	PG_RETURN_INT64((int64) keys);
}
