/*-------------------------------------------------------------------------
 *
 * wire.c
 *	  Sketches as they travel: in few characters, and nothing twice.
 *
 * The wire form of a sketch is a text that begins with "iblt", the number of
 * the characters that follow, and a colon.  These carry bytes, seven bits in a
 * character: a text must not contain a zero byte, and may contain all others
 * below 128 in every encoding.  Counts and the meter are written as the
 * differences from what is expected, in as many bytes as they need.
 *
 * A receiver that already has a fold of the sketch gets the cells alone.  If
 * the fold has a divisor of the cells, the last cell of each run is left out:
 * it is the fold's cell less the others of the run.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "core/cell.h"
#include "core/fold.h"
#include "core/meter.h"
#include "core/pause.h"
#include "core/sizing.h"
#include "live/wire.h"

/* Values of seven bits from here on take a second character. */
#define FIRST_LONG		126
#define LONG_MARK		127

#define CHECKSUM_SIZE	8
#define METER_OFFSET	(IBLT_HEADER_SIZE - 2 * IBLT_METER_BUCKETS)

/* --- bytes in characters --- */

typedef struct Writer
{
	StringInfoData text;
	uint32		bits;			/* that are not written yet, the first lowest */
	int			nbits;
} Writer;

static void
put_bits(Writer *to, uint32 seven)
{
	if (seven < FIRST_LONG)
		appendStringInfoCharMacro(&to->text, (char) (seven + 1));
	else
	{
		appendStringInfoCharMacro(&to->text, (char) LONG_MARK);
		appendStringInfoCharMacro(&to->text, (char) (seven - FIRST_LONG + 1));
	}
}

static void
put_byte(Writer *to, uint8 byte)
{
	to->bits |= (uint32) byte << to->nbits;
	for (to->nbits += 8; to->nbits >= 7; to->nbits -= 7)
	{
		put_bits(to, to->bits & 127);
		to->bits >>= 7;
	}
}

static void
put_bytes(Writer *to, const uint8 *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		put_byte(to, bytes[i]);
}

/* Seven bits in a byte, the lowest first.  The last byte is below 128. */
static void
put_number(Writer *to, uint32 x)
{
	for (; x >= 128; x >>= 7)
		put_byte(to, (uint8) (x | 128));
	put_byte(to, (uint8) x);
}

/* A number near 0 modulo 2^32: small ones of both signs in one byte. */
static void
put_signed(Writer *to, uint32 x)
{
	put_number(to, x >> 31 ? ~(x << 1) : x << 1);
}

/* The wire form. */
static text *
finish(Writer *from)
{
	StringInfoData wire;

	if (from->nbits > 0)
		put_bits(from, from->bits);
	initStringInfo(&wire);
	appendStringInfo(&wire, "iblt%d:", from->text.len);
	appendBinaryStringInfo(&wire, from->text.data, from->text.len);
	return cstring_to_text_with_len(wire.data, wire.len);
}

typedef struct Reader
{
	const char *at;
	const char *end;
	uint32		bits;
	int			nbits;
} Reader;

static uint32
get_bits(Reader *from)
{
	uint32		c;

	if (from->at == from->end)
		iblt_refuse(IBLT_BAD_SIZE);
	c = (uint8) *from->at++;
	if (c != LONG_MARK)
		return (c - 1) & 127;
	if (from->at == from->end)
		iblt_refuse(IBLT_BAD_SIZE);
	return ((uint8) *from->at++ - 1 + FIRST_LONG) & 127;
}

static uint8
get_byte(Reader *from)
{
	uint8		byte;

	while (from->nbits < 8)
	{
		from->bits |= get_bits(from) << from->nbits;
		from->nbits += 7;
	}
	byte = (uint8) from->bits;
	from->bits >>= 8;
	from->nbits -= 8;
	return byte;
}

static void
get_bytes(Reader *from, uint8 *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = get_byte(from);
}

static uint32
get_number(Reader *from)
{
	uint32		x = 0;
	int			shift;

	for (shift = 0; shift < 32; shift += 7)
	{
		uint8		byte = get_byte(from);

		x |= (uint32) (byte & 127) << shift;
		if (byte < 128)
			return x;
	}
	iblt_refuse(IBLT_BAD_SIZE);
	return 0;
}

static uint32
get_signed(Reader *from)
{
	uint32		x = get_number(from);

	return x & 1 ? ~(x >> 1) : x >> 1;
}

/* --- parts of a sketch --- */

/* Rows in a cell if they are spread evenly, modulo 2^32. */
static uint32
mean_count(const IbltSketch *sketch)
{
	return (uint32) (sketch->rows / (int64) sketch->params.subtable_cells);
}

/* Is cell i the last one of its run?  Without runs, 0, none is. */
static bool
is_last(const IbltSketch *sketch, uint32 i, uint32 run)
{
	return run > 0 && i % sketch->params.subtable_cells % run == run - 1;
}

static void
put_cells(Writer *to, const IbltSketch *sketch, uint32 run)
{
	uint32		mean = mean_count(sketch);

	for (uint32 i = 0; i < sketch->ncells; i++)
	{
		const uint8 *cell = iblt_cell(sketch, i);

		iblt_pause_at(i);
		if (is_last(sketch, i, run))
			continue;
		put_signed(to, iblt_load32(cell) - mean);
		put_bytes(to, cell + 4, sketch->cell_size - 4);
	}
}

static void
get_cells(Reader *from, IbltSketch *sketch, uint32 run)
{
	uint32		mean = mean_count(sketch);

	for (uint32 i = 0; i < sketch->ncells; i++)
	{
		uint8	   *cell = iblt_cell(sketch, i);

		iblt_pause_at(i);
		if (is_last(sketch, i, run))
			continue;
		iblt_store32(cell, mean + get_signed(from));
		get_bytes(from, cell + 4, sketch->cell_size - 4);
	}
}

/* Sets the last cell of each run, which is still zero. */
static void
get_last_cells(IbltSketch *fine, const IbltSketch *coarse, uint32 run)
{
	for (uint32 i = 0; i < coarse->ncells; i++)
	{
		uint32		last = (i + 1) * run - 1;

		iblt_pause_at(i);
		iblt_core_add_cell(fine, last, iblt_cell(coarse, i), 1);
		for (uint32 j = i * run; j < last; j++)
			iblt_core_add_cell(fine, last, iblt_cell(fine, j), -1);
	}
}

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

static void
put_meter(Writer *to, const uint8 *meter)
{
	for (int i = 0; i < IBLT_METER_BUCKETS; i++)
	{
		uint32		x = iblt_load16(meter + 2 * i);

		put_signed(to, x >> 15 ? x | 0xffff0000 : x);
	}
}

/* --- whole sketches --- */

static text *
whole(const IbltSketch *sketch)
{
	Writer		to = {0};

	initStringInfo(&to.text);
	put_number(&to, (uint32) sketch->size);
	put_bytes(&to, sketch->bytes, METER_OFFSET);
	put_bytes(&to, sketch->bytes + IBLT_HEADER_SIZE,
			  sketch->cells - sketch->bytes - IBLT_HEADER_SIZE);
	put_meter(&to, sketch->meter);
	put_cells(&to, sketch, 0);
	put_bytes(&to, sketch->bytes + sketch->size - CHECKSUM_SIZE, CHECKSUM_SIZE);
	return finish(&to);
}

/*
 * A whole sketch, validated.  No wire form is shorter than half of its sketch,
 * so that a short one cannot ask for much memory.
 */
static struct varlena *
read_whole(Reader *from)
{
	size_t		length = from->end - from->at;
	size_t		size = get_number(from);
	size_t		header;
	struct varlena *value;
	uint8	   *bytes;
	IbltSketch	sketch;
	IbltStatus	status;

	if (size > IBLT_MAX_BYTES || size > 2 * length ||
		size < IBLT_HEADER_SIZE + CHECKSUM_SIZE)
		iblt_refuse(IBLT_BAD_SIZE);
	value = iblt_value_alloc(size);
	bytes = (uint8 *) VARDATA(value);
	get_bytes(from, bytes, METER_OFFSET);
	header = iblt_core_header_size(bytes);
	if (header > size - CHECKSUM_SIZE)
		iblt_refuse(IBLT_BAD_SIZE);
	get_bytes(from, bytes + IBLT_HEADER_SIZE, header - IBLT_HEADER_SIZE);
	for (int i = 0; i < IBLT_METER_BUCKETS; i++)
		iblt_store16(bytes + METER_OFFSET + 2 * i, (uint16) get_signed(from));
	status = iblt_core_open_header(&sketch, bytes, header, size);
	if (status != IBLT_OK)
		iblt_refuse(status);
	get_cells(from, &sketch, 0);
	get_bytes(from, bytes + size - CHECKSUM_SIZE, CHECKSUM_SIZE);
	iblt_open(&sketch, PointerGetDatum(value));
	return value;
}

/* --- the functions --- */

void
iblt_fold_to(IbltSketch *to, const IbltSketch *from, int32 subtable_cells)
{
	IbltParams	params = from->params;

	if (subtable_cells < 1 || params.subtable_cells % subtable_cells != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("subtables of %u cells cannot be folded to %d",
						params.subtable_cells, subtable_cells)));
	params.subtable_cells = (uint32) subtable_cells;
	iblt_make(to, &params);
	iblt_core_fold(to, from);
	iblt_core_seal(to);
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
	Writer		to = {0};

	iblt_open_arg(&sketch, fcinfo, 0);
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_TEXT_P(whole(&sketch));
	if (PG_GETARG_INT32(2) < 1)
		iblt_value_refuse_argument("an iblt", "known", PG_GETARG_INT32(2), 1,
								   IBLT_LADDER_MAX);
	iblt_fold_to(&fold, &sketch, PG_GETARG_INT32(1));
	initStringInfo(&to.text);
	put_number(&to, fold.params.subtable_cells);
	put_cells(&to, &fold, run_of(fold.params.subtable_cells,
								 (uint32) PG_GETARG_INT32(2)));
	put_bytes(&to, fold.bytes + fold.size - CHECKSUM_SIZE, CHECKSUM_SIZE);
	PG_RETURN_TEXT_P(finish(&to));
}

/* A fold of more cells than that of the same sketch which is known. */
static struct varlena *
read_fold(Reader *from, const IbltSketch *known)
{
	size_t		length = from->end - from->at;
	IbltParams	params = known->params;
	IbltSketch	fold;
	struct varlena *value;
	uint8		checksum[CHECKSUM_SIZE];
	uint32		run;

	params.subtable_cells = get_number(from);
	iblt_check_params(&params);
	run = run_of(params.subtable_cells, known->params.subtable_cells);
	/* a run leaves out at most half of the cells */
	if (iblt_core_size(&params) / 4 > length + IBLT_HEADER_SIZE + known->size)
		iblt_refuse(IBLT_BAD_SIZE);
	value = iblt_make(&fold, &params);
	fold.rows = known->rows;
	iblt_core_meter_add_all(fold.meter, known->meter, 1);
	get_cells(from, &fold, run);
	if (run > 0)
		get_last_cells(&fold, known, run);
	iblt_core_seal(&fold);
	get_bytes(from, checksum, CHECKSUM_SIZE);
	if (memcmp(checksum, fold.bytes + fold.size - CHECKSUM_SIZE,
			   CHECKSUM_SIZE) != 0)
		iblt_refuse(IBLT_BAD_CHECKSUM);
	return value;
}

PG_FUNCTION_INFO_V1(iblt_wire_read);

/*
 * iblt_wire_read(text, known iblt) -> iblt: the sketch.  `known` is the fold
 * of which iblt_wire_write was told, or NULL.
 */
Datum
iblt_wire_read(PG_FUNCTION_ARGS)
{
	text	   *wire;
	char	   *start;
	IbltSketch	known;
	Reader		from = {0};
	int			length;
	int			offset = 0;

	iblt_require_arg(fcinfo, 0, "wire");
	wire = PG_GETARG_TEXT_PP(0);
	start = pnstrdup(VARDATA_ANY(wire),
					 Min((int) VARSIZE_ANY_EXHDR(wire), 20));
	if (sscanf(start, "iblt%d:%n", &length, &offset) != 1 ||
		offset == 0 || length != (int) VARSIZE_ANY_EXHDR(wire) - offset)
		iblt_refuse(IBLT_BAD_SIZE);
	from.at = VARDATA_ANY(wire) + offset;
	from.end = from.at + length;
	if (PG_ARGISNULL(1))
		PG_RETURN_POINTER(read_whole(&from));
	iblt_open_arg(&known, fcinfo, 1);
	PG_RETURN_POINTER(read_fold(&from, &known));
}
