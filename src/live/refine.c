/*-------------------------------------------------------------------------
 *
 * refine.c
 *	  Sketches of many sizes: a template that can be folded to most of them,
 *	  and a sketch refined to twice its cells with the missing half.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "core/fold.h"
#include "core/sizing.h"
#include "live/kept.h"

/* The hashes of the template, and the smallest of its subtables. */
#define TEMPLATE_HASHES		4
#define TEMPLATE_CELLS		630 /* 2 * 3^2 * 5 * 7, to be doubled */

PG_FUNCTION_INFO_V1(iblt_compare_template);

/*
 * iblt_compare_template(capacity, key_size, seed) -> iblt: an empty sketch of
 * at least that capacity that can be folded to the largest number of sizes.
 */
Datum
iblt_compare_template(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltParams	params;
	struct varlena *value;
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
	value = iblt_make(&sketch, &params);
	iblt_core_seal(&sketch);
	PG_RETURN_POINTER(value);
}

/* Folds a sketch, if its subtables can have this number of cells. */
static void
fold_to(IbltSketch *to, const IbltSketch *from, int32 subtable_cells)
{
	IbltParams	params = from->params;

	if (subtable_cells < 1 || params.subtable_cells % subtable_cells != 0 ||
		!iblt_core_ladder_has((uint32) subtable_cells))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("subtables of %u cells cannot be folded to %d",
						params.subtable_cells, subtable_cells)));
	params.subtable_cells = (uint32) subtable_cells;
	iblt_make(to, &params);
	iblt_core_fold(to, from);
}

PG_FUNCTION_INFO_V1(iblt_session_evens);

/*
 * iblt_session_evens(name, subtable_cells) -> iblt: the even cells of the kept
 * sketch, folded to subtables of this size, for iblt_compare_refine.
 */
Datum
iblt_session_evens(PG_FUNCTION_ARGS)
{
	struct varlena *kept = iblt_kept_arg(fcinfo);
	IbltSketch	sketch;
	IbltSketch	folded;
	IbltSketch	evens;
	IbltParams	params;
	struct varlena *value;

	if (PG_ARGISNULL(1) || PG_GETARG_INT32(1) % 2 != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("subtable_cells must be an even number")));
	iblt_open(&sketch, PointerGetDatum(kept));
	fold_to(&folded, &sketch, PG_GETARG_INT32(1));
	params = folded.params;
	params.subtable_cells /= 2;
	value = iblt_make(&evens, &params);
	iblt_core_evens(&evens, &folded);
	iblt_core_seal(&evens);
	PG_RETURN_POINTER(value);
}

PG_FUNCTION_INFO_V1(iblt_compare_refine);

/* iblt_compare_refine(iblt, evens iblt) -> iblt: the sketch of twice the cells */
Datum
iblt_compare_refine(PG_FUNCTION_ARGS)
{
	IbltSketch	coarse;
	IbltSketch	evens;
	IbltSketch	fine;
	IbltParams	params;
	struct varlena *value;

	iblt_open_arg(&coarse, fcinfo, 0);
	iblt_open_arg(&evens, fcinfo, 1);
	iblt_params_check_match(&coarse.params, &evens.params);
	/* a template matches a sketch, but has no cells to read */
	if (coarse.params.kind != evens.params.kind)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot refine a sketch with an empty template")));
	params = coarse.params;
	params.subtable_cells *= 2;
	iblt_check_params(&params);
	value = iblt_make(&fine, &params);
	iblt_core_refine(&fine, &coarse, &evens);
	iblt_core_seal(&fine);
	PG_RETURN_POINTER(value);
}
