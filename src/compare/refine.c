/*-------------------------------------------------------------------------
 *
 * refine.c
 *	  Sketches of many sizes: a template that can be folded to most of them,
 *	  and the size of the next fold that a peer sends.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "core/sizing.h"
#include "compare/wire.h"

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
	int32		cells = PG_GETARG_INT32(1);

	iblt_open_arg(&sketch, fcinfo, 0);
	if ((int64) sketch.params.subtable_cells == cells)
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	PG_RETURN_POINTER(iblt_fold_to(&fold, &sketch, cells));
}

/*
 * The cells of a subtable of the next fold: of those sizes that decode
 * `wanted` keys and are at least twice what there is, the one for which the
 * fewest cells travel.
 */
static uint32
next_cells(const IbltParams *most, uint32 known, uint32 wanted)
{
	uint32		least = iblt_core_subtable_cells(wanted, TEMPLATE_HASHES,
												 FOLD_FAILURE);
	uint32		best = most->subtable_cells;
	uint32		fewest = iblt_wire_cells(best, known);
	uint32		cells;

	if (least == 0)
		return best;
	for (cells = iblt_core_ladder_at_least(Max(least, 2 * known));
		 cells != 0 && cells < most->subtable_cells;
		 cells = iblt_core_ladder_at_least(cells + 1))
	{
		if (most->subtable_cells % cells == 0 &&
			iblt_wire_cells(cells, known) < fewest)
		{
			best = cells;
			fewest = iblt_wire_cells(cells, known);
		}
	}
	return best;
}

PG_FUNCTION_INFO_V1(iblt_compare_next);

/*
 * iblt_compare_next(mine iblt, theirs iblt, wanted) -> integer: the cells of a
 * subtable of the next fold that the peer is asked for.  mine has the size of
 * the peer's whole sketch, and theirs is what is here of it.
 */
Datum
iblt_compare_next(PG_FUNCTION_ARGS)
{
	IbltSketch	mine;
	IbltSketch	theirs;

	iblt_open_arg(&mine, fcinfo, 0);
	iblt_open_arg(&theirs, fcinfo, 1);
	iblt_require_arg(fcinfo, 2, "wanted");
	PG_RETURN_INT32((int32) next_cells(&mine.params,
									   theirs.params.subtable_cells,
									   (uint32) Max(PG_GETARG_INT32(2), 1)));
}

PG_FUNCTION_INFO_V1(iblt_compare_marks);

/*
 * iblt_compare_marks(iblt, subtable_cells) -> text: a character for each cell
 * of the first subtable, after a fold to that many.  Cells with the same rows
 * have the same one, and two others in one case of 64.  It begins like a wire
 * form.
 */
Datum
iblt_compare_marks(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	fold;
	StringInfoData marks;
	uint32		cells;

	iblt_open_arg(&sketch, fcinfo, 0);
	iblt_require_arg(fcinfo, 1, "subtable_cells");
	iblt_fold_to(&fold, &sketch, PG_GETARG_INT32(1));
	cells = Min(fold.ncells, fold.params.subtable_cells);
	initStringInfo(&marks);
	appendStringInfo(&marks, "iblt%u:", cells);
	for (uint32 i = 0; i < cells; i++)
		appendStringInfoChar(&marks,
							 ';' + iblt_cell_field(iblt_cell(&fold, i),
												   IBLT_FIELD_WEIGHT) % 64);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(marks.data, marks.len));
}

PG_FUNCTION_INFO_V1(iblt_compare_same_marks);

/*
 * iblt_compare_same_marks(text, text) -> integer: how many marks of
 * iblt_compare_marks are equal, NULL if their numbers differ.
 */
Datum
iblt_compare_same_marks(PG_FUNCTION_ARGS)
{
	text	   *a = PG_GETARG_TEXT_PP(0);
	text	   *b = PG_GETARG_TEXT_PP(1);
	int			size = (int) VARSIZE_ANY_EXHDR(a);
	const char *mark = memchr(VARDATA_ANY(a), ':', size);
	int			same = 0;
	int			i;

	if (mark == NULL || size != (int) VARSIZE_ANY_EXHDR(b))
		PG_RETURN_NULL();
	for (i = (int) (mark + 1 - VARDATA_ANY(a)); i < size; i++)
		same += VARDATA_ANY(a)[i] == VARDATA_ANY(b)[i];
	PG_RETURN_INT32(same);
}
