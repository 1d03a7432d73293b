/*-------------------------------------------------------------------------
 *
 * wire.c
 *	  Sketches as they travel, and nothing twice.
 *
 * The wire form of a sketch is a text that begins with "iblt", the number of
 * the characters that follow, and a colon.  These are base64: of the sketch's
 * bytes, or of the cells alone if the receiver already has a fold of the
 * sketch.  If the fold has a divisor of the cells, the last cell of each run is
 * left out: it is the fold's cell less the others of the run.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "core/bytes.h"
#include "core/cell.h"
#include "core/meter.h"
#include "core/interrupt.h"
#include "core/sizing.h"
#include "compare/wire.h"

#define CHECKSUM_SIZE	8

/* "iblt", a number of characters, and a colon */
#define MARK_SIZE		16

/* --- bytes in characters --- */

static text *
frame(const uint8 *bytes, size_t size)
{
	char		mark[MARK_SIZE];
	int64		length = iblt_base64_length(size);
	int			n = snprintf(mark, sizeof mark, "iblt%d:", (int) length);
	text	   *wire;

	if (VARHDRSZ + n + length > (int64) MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("sketch of %zu bytes is too large to be sent", size)));
	wire = palloc(VARHDRSZ + n + length);
	SET_VARSIZE(wire, VARHDRSZ + n + length);
	memcpy(VARDATA(wire), mark, n);
	iblt_base64_encode((const char *) bytes, size, VARDATA(wire) + n);
	return wire;
}

/* The bytes, as a varlena. */
static struct varlena *
unframe(const text *wire)
{
	char	   *start = pnstrdup(VARDATA_ANY(wire),
								 Min(VARSIZE_ANY_EXHDR(wire), MARK_SIZE));
	struct varlena *value;
	int			offset = 0;
	int			length;
	int			size;

	if (sscanf(start, "iblt%d:%n", &length, &offset) != 1 ||
		offset == 0 || length != (int) VARSIZE_ANY_EXHDR(wire) - offset)
		iblt_refuse(IBLT_BAD_SIZE);
	value = iblt_value_alloc(length / 4 * 3);
	size = iblt_base64_decode(VARDATA_ANY(wire) + offset, length,
							  VARDATA(value));
	if (size < 0)
		iblt_refuse(IBLT_BAD_SIZE);
	SET_VARSIZE(value, VARHDRSZ + size);
	return value;
}

/* --- cells --- */

/* Cells in a run, or 0 if a fold to `known` cells spares none of `cells`. */
static uint32
run_of(uint32 cells, uint32 known)
{
	return cells % known == 0 ? cells / known : 0;
}

uint32
iblt_wire_cells(uint32 cells, uint32 known)
{
	return run_of(cells, known) > 0 ? cells - known : cells;
}

/* Is cell i the last one of its run?  Without runs, 0, none is. */
static bool
is_last(const IbltSketch *sketch, uint32 i, uint32 run)
{
	return run > 0 && i % sketch->params.subtable_cells % run == run - 1;
}

/* Sets the last cell of each run, which is still zero. */
static void
set_last_cells(IbltSketch *fine, const IbltSketch *coarse, uint32 run)
{
	for (uint32 i = 0; i < coarse->ncells; i++)
	{
		uint32		last = (i + 1) * run - 1;

		iblt_check_interrupts_at(i);
		iblt_core_add_cell(fine, last, iblt_cell(coarse, i), 1);
		for (uint32 j = i * run; j < last; j++)
			iblt_core_add_cell(fine, last, iblt_cell(fine, j), -1);
	}
}

/* --- folds for a receiver that has a smaller one --- */

/* The bytes that travel: the cells of a subtable, cells, and the checksum. */
static size_t
travelling_size(const IbltSketch *fold, uint32 known)
{
	size_t		subtables = fold->ncells / fold->params.subtable_cells;

	return 4 + subtables * iblt_wire_cells(fold->params.subtable_cells, known) *
		fold->cell_size + CHECKSUM_SIZE;
}

static text *
write_fold(const IbltSketch *fold, uint32 known)
{
	uint32		run = run_of(fold->params.subtable_cells, known);
	size_t		size = travelling_size(fold, known);
	uint8	   *bytes = palloc(size);
	uint8	   *to = bytes + 4;

	iblt_store32(bytes, fold->params.subtable_cells);
	for (uint32 i = 0; i < fold->ncells; i++)
	{
		iblt_check_interrupts_at(i);
		if (is_last(fold, i, run))
			continue;
		memcpy(to, iblt_cell(fold, i), fold->cell_size);
		to += fold->cell_size;
	}
	memcpy(to, fold->bytes + fold->size - CHECKSUM_SIZE, CHECKSUM_SIZE);
	return frame(bytes, size);
}

static void
read_cells(IbltSketch *fold, const uint8 *from, uint32 run)
{
	for (uint32 i = 0; i < fold->ncells; i++)
	{
		iblt_check_interrupts_at(i);
		if (is_last(fold, i, run))
			continue;
		memcpy(iblt_cell(fold, i), from, fold->cell_size);
		from += fold->cell_size;
	}
}

static struct varlena *
read_fold(const uint8 *bytes, size_t size, const IbltSketch *known)
{
	IbltParams	params = known->params;
	IbltSketch	fold;
	struct varlena *value;
	uint32		run;

	if (size < 4 + CHECKSUM_SIZE)
		iblt_refuse(IBLT_BAD_SIZE);
	params.subtable_cells = iblt_load32(bytes);
	iblt_check_params(&params);
	/* at least half of the cells travel, so few bytes do not ask for much memory */
	if (iblt_core_size(&params) / 2 > size + known->size)
		iblt_refuse(IBLT_BAD_SIZE);
	run = run_of(params.subtable_cells, known->params.subtable_cells);
	value = iblt_make(&fold, &params);
	if (size != travelling_size(&fold, known->params.subtable_cells))
		iblt_refuse(IBLT_BAD_SIZE);
	fold.rows = known->rows;
	iblt_core_meter_add_all(fold.meter, known->meter, 1);
	read_cells(&fold, bytes + 4, run);
	if (run > 0)
		set_last_cells(&fold, known, run);
	iblt_core_seal(&fold);
	if (memcmp(bytes + size - CHECKSUM_SIZE,
			   fold.bytes + fold.size - CHECKSUM_SIZE, CHECKSUM_SIZE) != 0)
		iblt_refuse(IBLT_BAD_CHECKSUM);
	return value;
}

/* --- the functions --- */

struct varlena *
iblt_fold_to(IbltSketch *to, const IbltSketch *from, int32 subtable_cells)
{
	IbltParams	params = from->params;

	if (subtable_cells < 1 || params.subtable_cells % subtable_cells != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("subtables of %u cells cannot be folded to %d",
						params.subtable_cells, subtable_cells)));
	params.subtable_cells = (uint32) subtable_cells;
	return iblt_make_fold(to, &params, from);
}

PG_FUNCTION_INFO_V1(iblt_wire_write);

/*
 * iblt_wire_write(iblt, subtable_cells, known) -> text: the fold to that many
 * cells, for a receiver that has the fold to `known` cells.  Without these two,
 * the whole sketch.
 */
Datum
iblt_wire_write(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	fold;

	iblt_open_arg(&sketch, fcinfo, 0);
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_TEXT_P(frame(sketch.bytes, sketch.size));
	if (PG_GETARG_INT32(2) < 1)
		iblt_value_refuse_argument("an iblt", "known", PG_GETARG_INT32(2), 1,
								   IBLT_LADDER_MAX);
	iblt_fold_to(&fold, &sketch, PG_GETARG_INT32(1));
	PG_RETURN_TEXT_P(write_fold(&fold, (uint32) PG_GETARG_INT32(2)));
}

PG_FUNCTION_INFO_V1(iblt_wire_read);

/*
 * iblt_wire_read(text, known iblt) -> iblt: the sketch.  `known` is the fold
 * of which iblt_wire_write was told, or NULL.
 */
Datum
iblt_wire_read(PG_FUNCTION_ARGS)
{
	struct varlena *bytes;
	IbltSketch	sketch;

	iblt_require_arg(fcinfo, 0, "wire");
	bytes = unframe(PG_GETARG_TEXT_PP(0));
	if (PG_ARGISNULL(1))
	{
		iblt_open(&sketch, PointerGetDatum(bytes));
		PG_RETURN_POINTER(bytes);
	}
	iblt_open_arg(&sketch, fcinfo, 1);
	PG_RETURN_POINTER(read_fold((uint8 *) VARDATA(bytes),
								VARSIZE(bytes) - VARHDRSZ, &sketch));
}
