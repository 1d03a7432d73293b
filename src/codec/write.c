/*
 * write.c
 *	  SQL values to canonical bytes.
 *
 * The bytes are those of the binary send functions of PostgreSQL 14 to 19,
 * but no OID is ever written, text is UTF-8, and each NaN is one NaN.  The
 * common types are written here without calling their send functions.
 *
 * Limits: the bytes of a container are moved once for each level of nesting
 * whose length takes more than one byte.
 */
#include "postgres.h"

#include <math.h>

#include "access/tupmacs.h"
#include "catalog/pg_enum.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/multirangetypes.h"
#include "utils/rangetypes.h"
#include "utils/syscache.h"

#include "codec/private.h"
#include "core/interrupt.h"

/* The stored form of a numeric, unchanged since PostgreSQL 9.1. */
#define NUMERIC_FLAGS		0xC000
#define NUMERIC_SHORT		0x8000
#define NUMERIC_SPECIAL		0xC000
#define NUMERIC_EXT_SIGN	0xF000

static void append_slow(StringInfo buf, IbltCodec *codec, Datum value);

/* PostgreSQL treats all NaNs as equal, and text can carry only one. */
#define CANONICAL_NAN4	UINT32_C(0x7fc00000)
#define CANONICAL_NAN8	UINT64_C(0x7ff8000000000000)

static pg_attribute_always_inline uint32
float4_bits(float4 value)
{
	uint32		bits;

	memcpy(&bits, &value, sizeof(bits));
	return isnan(value) ? CANONICAL_NAN4 : bits;
}

static pg_attribute_always_inline uint64
float8_bits(float8 value)
{
	uint64		bits;

	memcpy(&bits, &value, sizeof(bits));
	return isnan(value) ? CANONICAL_NAN8 : bits;
}

/*
 * Writes an item of a type whose values have a fixed width, and returns what
 * follows it.  There must be 32 bytes of room.  It is inlined: these are the
 * values that most rows are made of.
 */
static pg_attribute_always_inline char *
put_scalar(char *out, IbltCodec *codec, Datum value)
{
	switch (codec->kind)
	{
		case IBLT_KIND_BYTE:
			*out++ = 1 + 1;
			*out++ = DatumGetChar(value);
			return out;
		case IBLT_KIND_INT2:
			*out++ = 2 + 1;
			return put_int16(out, DatumGetUInt16(value));
		case IBLT_KIND_INT4:
			*out++ = 4 + 1;
			return put_int32(out, DatumGetUInt32(value));
		case IBLT_KIND_INT8:
			*out++ = 8 + 1;
			return put_int64(out, (uint64) DatumGetInt64(value));
		case IBLT_KIND_FLOAT4:
			*out++ = 4 + 1;
			return put_int32(out, float4_bits(DatumGetFloat4(value)));
		case IBLT_KIND_FLOAT8:
			*out++ = 8 + 1;
			return put_int64(out, float8_bits(DatumGetFloat8(value)));
		case IBLT_KIND_FIXED:
			*out++ = (char) (codec->typlen + 1);
			memcpy(out, DatumGetPointer(value), codec->typlen);
			return out + codec->typlen;
		default:
			return NULL;
	}
}

/*
 * Appends the bytes of numeric_send as an item, from len stored bytes: the number
 * of digits, weight, sign and display scale, and the digits, which NaN and the
 * infinities lack.
 */
static void
append_numeric_item(StringInfo buf, const char *data, Size len)
{
	uint16		header;
	uint16		sign;
	uint16		dscale;
	int16		weight = 0;
	Size		skip = sizeof(header);
	uint32		ndigits;
	char	   *out;

	memcpy(&header, data, sizeof(header));
	dscale = (header & 0x1F80) >> 7;
	if ((header & NUMERIC_FLAGS) == NUMERIC_SPECIAL)
		sign = header & NUMERIC_EXT_SIGN;
	else if ((header & NUMERIC_FLAGS) == NUMERIC_SHORT)
	{
		sign = (header & 0x2000) ? 0x4000 : 0;
		weight = (int16) ((header & 0x3F) - (header & 0x40));
	}
	else
	{
		sign = header & NUMERIC_FLAGS;
		dscale = header & 0x3FFF;
		memcpy(&weight, data + skip, sizeof(weight));
		skip += sizeof(weight);
	}
	ndigits = (header & NUMERIC_FLAGS) == NUMERIC_SPECIAL ? 0
		: (uint32) (len - skip) / sizeof(int16);
	ensure_room(buf, 5 + 8 + len);
	out = put_leb128(buf->data + buf->len, 8 + 2 * ndigits + 1);
	out = put_int16(out, (uint16) ndigits);
	out = put_int16(out, (uint16) weight);
	out = put_int16(out, sign);
	out = put_int16(out, dscale);
	for (uint32 i = 0; i < ndigits; i++)
	{
		uint16		digit;

		memcpy(&digit, data + skip + i * sizeof(digit), sizeof(digit));
		out = put_int16(out, digit);
	}
	buf->len = (int) (out - buf->data);
}

/* The variable-length kinds that are written from their stored form. */
static pg_attribute_always_inline void
append_varlena_item(StringInfo buf, IbltKind kind, Datum value)
{
	struct varlena *stored = (struct varlena *) DatumGetPointer(value);
	struct varlena *plain = stored;
	const char *data;
	Size		len;

	if (unlikely(VARATT_IS_EXTERNAL(stored) || VARATT_IS_COMPRESSED(stored)))
		plain = pg_detoast_datum_packed(stored);
	data = VARDATA_ANY(plain);
	len = VARSIZE_ANY_EXHDR(plain);
	if (kind == IBLT_KIND_BYTES)
		append_bytes_item(buf, data, len);
	else if (kind == IBLT_KIND_TEXT)
		iblt_append_text_item(buf, data, len);
	else
		append_numeric_item(buf, data, len);
	if (unlikely(plain != stored))
		pfree(plain);
}

/* Copies a few bytes, faster than a call of memcpy. */
static pg_attribute_always_inline char *
put_few(char *out, const char *data, Size len)
{
	if (len >= 16)
	{
		for (Size i = 0; i < len - 16; i += 16)
			memcpy(out + i, data + i, 16);
		memcpy(out + len - 16, data + len - 16, 16);
	}
	else if (len >= 4)
	{
		for (Size i = 0; i < len - 4; i += 4)
			memcpy(out + i, data + i, 4);
		memcpy(out + len - 4, data + len - 4, 4);
	}
	else
	{
		for (Size i = 0; i < len; i++)
			out[i] = data[i];
	}
	return out + len;
}

/*
 * Room for a scalar, or for bytes with a short header (126, and 1 for their
 * length).
 */
#define SHORT_ROOM		128

/*
 * Writes an item of the common kinds, which are a scalar, or bytes with a
 * short header.  There must be SHORT_ROOM bytes of room.  Returns NULL, with
 * nothing done, for other kinds.
 */
static pg_attribute_always_inline char *
put_item(char *out, IbltCodec *codec, Datum value, bool isnull)
{
	const struct varlena *stored;

	if (isnull)
	{
		*out++ = 0;
		return out;
	}
	if (codec->kind < IBLT_KIND_BYTES)
		return put_scalar(out, codec, value);
	stored = (const struct varlena *) DatumGetPointer(value);
	/* a pointer to an out-of-line value begins like a short header */
	if (codec->kind != IBLT_KIND_BYTES || !VARATT_IS_SHORT(stored) ||
		VARATT_IS_EXTERNAL(stored))
		return NULL;
	out = put_leb128(out, (uint32) VARSIZE_SHORT(stored) - VARHDRSZ_SHORT + 1);
	return put_few(out, VARDATA_SHORT(stored),
				   VARSIZE_SHORT(stored) - VARHDRSZ_SHORT);
}

static pg_attribute_always_inline void
append_item(StringInfo buf, IbltCodec *codec, Datum value, bool isnull)
{
	char	   *out;

	ensure_room(buf, SHORT_ROOM);
	out = put_item(buf->data + buf->len, codec, value, isnull);
	if (likely(out != NULL))
		buf->len = (int) (out - buf->data);
	else if (codec->kind == IBLT_KIND_BYTES)
		append_varlena_item(buf, IBLT_KIND_BYTES, value);
	else
		append_slow(buf, codec, value);
}

/*
 * The number of dimensions, each dimension's length and lower bound, and the
 * elements.  An array without elements has no shape, as in its text form.
 */
static void
append_array(StringInfo buf, IbltCodec *codec, Datum value)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	IbltCodec  *element = codec->element;
	int			nitems = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	int			ndim = nitems == 0 ? 0 : ARR_NDIM(array);
	char	   *p = ARR_DATA_PTR(array);
	uint8	   *bitmap = ARR_NULLBITMAP(array);

	ensure_room(buf, 1 + 8 * MAXDIM);
	buf->data[buf->len++] = (char) ndim;
	for (int i = 0; i < ndim; i++)
	{
		iblt_append_int32(buf, (uint32) ARR_DIMS(array)[i]);
		iblt_append_int32(buf, (uint32) ARR_LBOUND(array)[i]);
	}
	for (int i = 0; i < nitems; i++)
	{
		iblt_check_interrupts_at((uint32) i);
		if (bitmap && !(bitmap[i / 8] & (1 << (i % 8))))
		{
			append_item(buf, element, (Datum) 0, true);
			continue;
		}
		append_item(buf, element,
					fetch_att(p, element->typbyval, element->typlen), false);
		p = att_addlength_pointer(p, element->typlen, p);
		p = (char *) att_align_nominal(p, element->typalign);
	}
}

static void
append_range(StringInfo buf, IbltCodec *codec, Datum value)
{
	RangeType  *range = DatumGetRangeTypeP(value);
	char		flags = range_get_flags(range);
	RangeBound	lower;
	RangeBound	upper;
	bool		empty;

	flags &= RANGE_EMPTY | RANGE_LB_INC | RANGE_LB_INF |
		RANGE_UB_INC | RANGE_UB_INF;
	iblt_append_binary(buf, &flags, 1);
	range_deserialize(codec->range, range, &lower, &upper, &empty);
	if (RANGE_HAS_LBOUND(flags))
		append_item(buf, codec->element, lower.val, false);
	if (RANGE_HAS_UBOUND(flags))
		append_item(buf, codec->element, upper.val, false);
}

static void
append_multirange(StringInfo buf, IbltCodec *codec, Datum value)
{
	MultirangeType *multirange = DatumGetMultirangeTypeP(value);
	RangeType **ranges;
	int32		nranges;

	multirange_deserialize(codec->range, multirange, &nranges, &ranges);
	iblt_append_int32(buf, (uint32) nranges);
	for (int i = 0; i < nranges; i++)
		append_item(buf, codec->element, RangeTypePGetDatum(ranges[i]), false);
}

static void
append_enum(StringInfo buf, Datum value)
{
	HeapTuple	tuple = SearchSysCache1(ENUMOID, value);
	const char *label;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid internal value for enum: %u",
						DatumGetObjectId(value))));
	label = NameStr(((Form_pg_enum) GETSTRUCT(tuple))->enumlabel);
	iblt_append_utf8(buf, label, strlen(label));
	ReleaseSysCache(tuple);
}

/* Output text, for types that have no send function or send OIDs. */
static void
append_output(StringInfo buf, IbltCodec *codec, Datum value)
{
	int			level = iblt_pin_settings(codec->names_only);
	char	   *text = OutputFunctionCall(&codec->write, value);

	AtEOXact_GUC(true, level);
	iblt_append_utf8(buf, text, strlen(text));
}

/* The output of the send function, with any float8 in it made canonical. */
static void
append_sent(StringInfo buf, IbltCodec *codec, Datum value)
{
	bytea	   *sent = iblt_call_send(codec, value, iblt_pinned_encoding());
	int			start = buf->len;

	iblt_append_binary(buf, VARDATA(sent), VARSIZE(sent) - VARHDRSZ);
	if (codec->kind != IBLT_KIND_FLOATS)
		return;
	for (int i = start + codec->float_offset; i + 8 <= buf->len; i += 8)
	{
		uint64		bits;
		float8		number;

		memcpy(&bits, buf->data + i, sizeof(bits));
		bits = pg_ntoh64(bits);
		memcpy(&number, &bits, sizeof(number));
		put_int64(buf->data + i, float8_bits(number));
	}
}

/* All kinds that are not worth a place in the inlined path. */
static void
append_slow(StringInfo buf, IbltCodec *codec, Datum value)
{
	MemoryContext caller;
	int			start;

	if (codec->kind == IBLT_KIND_TEXT || codec->kind == IBLT_KIND_NUMERIC)
		append_varlena_item(buf, codec->kind, value);
	else if (codec->kind == IBLT_KIND_CSTRING)
		iblt_append_text_item(buf, DatumGetCString(value), strlen(DatumGetCString(value)));
	if (codec->kind < IBLT_KIND_SEND)
		return;

	/* send functions leave garbage, and arrays can have millions of elements */
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (codec->scratch == NULL)
		codec->scratch = AllocSetContextCreate(codec->cxt, "iblt codec scratch",
											   ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(codec->scratch);
	start = iblt_item_begin(buf);
	switch (codec->kind)
	{
		case IBLT_KIND_JSONB:
			iblt_append_jsonb(buf, value);
			break;
		case IBLT_KIND_TSVECTOR:
			iblt_append_tsvector(buf, codec, value);
			break;
		case IBLT_KIND_HSTORE:
			iblt_append_hstore(buf, codec, value);
			break;
		case IBLT_KIND_OUTPUT:
			append_output(buf, codec, value);
			break;
		case IBLT_KIND_ENUM:
			append_enum(buf, value);
			break;
		case IBLT_KIND_ARRAY:
			append_array(buf, codec, value);
			break;
		case IBLT_KIND_ROW:
			iblt_codec_append_columns(buf, codec, value);
			break;
		case IBLT_KIND_RANGE:
			append_range(buf, codec, value);
			break;
		case IBLT_KIND_MULTIRANGE:
			append_multirange(buf, codec, value);
			break;
		default:
			append_sent(buf, codec, value);
	}
	iblt_item_end(buf, start);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(codec->scratch);
}

void
iblt_codec_append(StringInfo buf, IbltCodec *codec, Datum value, bool isnull)
{
	append_item(buf, codec, value, isnull);
}

/*
 * The position is kept in a register, which the written bytes cannot change.
 */
void
iblt_codec_append_args(StringInfo buf, IbltCodec **codecs,
					   const NullableDatum *args, int n)
{
	char	   *out = buf->data + buf->len;

	for (int i = 0; i < n; i++)
	{
		char	   *next = NULL;

		if (likely(buf->data + buf->maxlen - out >= SHORT_ROOM))
			next = put_item(out, codecs[i], args[i].value, args[i].isnull);
		if (unlikely(next == NULL))
		{
			buf->len = (int) (out - buf->data);
			append_item(buf, codecs[i], args[i].value, args[i].isnull);
			next = buf->data + buf->len;
		}
		out = next;
	}
	buf->len = (int) (out - buf->data);
}

void
iblt_codec_append_values(StringInfo buf, IbltCodec *codec, const NullableDatum *values)
{
	IbltRow    *row = iblt_codec_own_row(codec);

	iblt_codec_append_args(buf, row->columns, values, row->ncolumns);
}

void
iblt_codec_append_columns(StringInfo buf, IbltCodec *codec, Datum value)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(value);
	IbltRow    *row = iblt_codec_follow(codec,
										HeapTupleHeaderGetTypeId(header),
										HeapTupleHeaderGetTypMod(header));
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header), .t_data = header};

	heap_deform_tuple(&tuple, row->desc, row->values, row->nulls);
	for (int i = 0; i < row->ncolumns; i++)
	{
		int			attribute = row->attributes[i];

		append_item(buf, row->columns[i], row->values[attribute],
					row->nulls[attribute]);
	}
	if ((Pointer) header != DatumGetPointer(value))
		pfree(header);
}
