/*-------------------------------------------------------------------------
 *
 * refine.c
 *	  Sketches of many sizes: a template that can be folded to the largest
 *	  number of them, and the size of the next fold that a peer sends.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "core/sizing.h"

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
	int			i;
	uint32		cells = TEMPLATE_CELLS;

	for (i = 0; i < 3; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("capacity, key_size and seed must not be null")));
	/* refuses what is out of range */
	iblt_params_make(&params, PG_GETARG_INT32(0), TEMPLATE_HASHES,
					 PG_GETARG_INT32(1), 0, (uint64) PG_GETARG_INT64(2));
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
	IbltParams	params;
	int32		cells = PG_GETARG_INT32(1);

	iblt_open_arg(&sketch, fcinfo, 0);
	params = sketch.params;
	if ((int64) params.subtable_cells == cells)
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	if (cells < 1 || params.subtable_cells % cells != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("subtables of %u cells cannot be folded to %d",
						params.subtable_cells, cells)));
	params.subtable_cells = (uint32) cells;
	PG_RETURN_POINTER(iblt_make_fold(&fold, &params, &sketch));
}

PG_FUNCTION_INFO_V1(iblt_compare_next);

/*
 * iblt_compare_next(iblt, known, wanted) -> integer: the cells of a subtable of
 * the smallest fold that decodes `wanted` keys and is at least twice the one
 * to `known` cells, or of the whole sketch.
 */
Datum
iblt_compare_next(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	uint32		whole;
	uint32		known = (uint32) Max(PG_GETARG_INT32(1), 1);
	uint32		cells;

	iblt_open_arg(&sketch, fcinfo, 0);
	whole = sketch.params.subtable_cells;
	cells = iblt_core_subtable_cells((uint32) Max(PG_GETARG_INT32(2), 1),
									 TEMPLATE_HASHES, FOLD_FAILURE);
	if (cells == 0 || known > whole / 2)
		PG_RETURN_INT32((int32) whole);
	for (cells = iblt_core_ladder_at_least(Max(cells, 2 * known));
		 cells != 0 && cells < whole;
		 cells = iblt_core_ladder_at_least(cells + 1))
		if (whole % cells == 0)
			PG_RETURN_INT32((int32) cells);
	PG_RETURN_INT32((int32) whole);
}
