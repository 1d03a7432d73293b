/*
 * read.c
 *	  Canonical bytes back to SQL values.
 *
 * The bytes may come from an attacker.  Lengths and counts are checked against
 * the bytes at hand before memory is taken.  The type's receive or input
 * function makes each value.  The value is then written again and compared, so
 * that no two byte strings show as the same value.
 *
 * Limits: some values are not written again, because their functions need not
 * be inverses of each other: xml, and those that have only output text.
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/multirangetypes.h"
#include "utils/rangetypes.h"

#include "codec/private.h"

/* The remaining bytes. */
typedef struct Reader
{
	const uint8 *p;
	const uint8 *end;
} Reader;

static Datum read_item(IbltCodec *codec, Reader *reader, bool *isnull);

static void
malformed(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("malformed canonical bytes: %s", what)));
}

static Size
bytes_left(const Reader *reader)
{
	return (Size) (reader->end - reader->p);
}

/* Takes n bytes.  ERROR if there are fewer. */
static const uint8 *
take(Reader *reader, Size n)
{
	const uint8 *p = reader->p;

	if (n > bytes_left(reader))
		malformed("they end too early");
	reader->p += n;
	return p;
}

static int32
take_int32(Reader *reader)
{
	uint32		value;

	memcpy(&value, take(reader, sizeof(value)), sizeof(value));
	return (int32) pg_ntoh32(value);
}

/*
 * Takes an item's header.  Returns false for NULL.  Otherwise sets content to
 * the item's bytes, and the reader stands after them.
 */
static bool
take_item(Reader *reader, Reader *content)
{
	uint64		n = 0;
	uint8		byte;
	int			shift = 0;

	do
	{
		byte = *take(reader, 1);
		n |= (uint64) (byte & 0x7F) << shift;
		shift += 7;
	} while ((byte & 0x80) && shift < 35);

	/* the shortest form ends with 0 only if it is that one byte */
	if ((byte & 0x80) || (byte == 0 && shift > 7))
		malformed("a length is not in its shortest form");
	if (n == 0)
		return false;
	content->p = take(reader, (Size) (n - 1));
	content->end = reader->p;
	return true;
}

/*
 * Calls the receive function, which must use all bytes.  Some allocate memory for a count
 * before they read on.  So the bytes at hand must be able to hold that many things.
 */
static Datum
receive(IbltCodec *codec, Reader *content)
{
	StringInfoData buf;
	volatile Datum value = (Datum) 0;
	int			saved;

	if (!OidIsValid(codec->read.fn_oid))
		elog(ERROR, "type %u has no receive function", codec->base);
	if (codec->min_bits > 0)
	{
		Reader		probe = *content;
		int32		count;

		(void) take(&probe, (Size) codec->count_offset);
		count = take_int32(&probe);
		if (count < 0 ||
			(uint64) count * codec->min_bits > (uint64) bytes_left(&probe) * 8 + 7)
			malformed("a count is too large for the bytes");
	}

	/* receive functions expect a zero byte after the end */
	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, (const char *) content->p,
						   (int) bytes_left(content));
	saved = iblt_pin_encoding(iblt_pinned_encoding());
	PG_TRY();
	{
		value = ReceiveFunctionCall(&codec->read, &buf, codec->ioparam, -1);
	}
	PG_FINALLY();
	{
		iblt_unpin_encoding(saved);
	}
	PG_END_TRY();
	if (buf.cursor != buf.len)
		malformed("a value has bytes after its end");
	content->p = content->end;
	pfree(buf.data);
	return value;
}

/* Output text that was written under pinned settings. */
static Datum
read_text_form(IbltCodec *codec, Reader *content)
{
	char	   *text = iblt_utf8_to_server((const char *) content->p,
										   (int) bytes_left(content));
	int			level = iblt_pin_settings(codec->names_only);
	Datum		value = InputFunctionCall(&codec->read, text, codec->ioparam, -1);

	AtEOXact_GUC(true, level);
	content->p = content->end;
	return value;
}

/*
 * Makes an int2vector or oidvector.  They have one dimension and no NULLs, which
 * shows when they are written again.
 */
static Datum
make_vector(Oid type, const Datum *values, int n)
{
	int16	   *ints = palloc(sizeof(int16) * Max(n, 1));
	Oid		   *oids = palloc(sizeof(Oid) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		if (type == OIDVECTOROID)
			oids[i] = DatumGetObjectId(values[i]);
		else
			ints[i] = DatumGetInt16(values[i]);
	}
	if (type == OIDVECTOROID)
		return PointerGetDatum(buildoidvector(oids, n));
	return PointerGetDatum(buildint2vector(ints, n));
}

/* An array's shape, and its elements, of which each takes at least one byte. */
static Datum
read_array(IbltCodec *codec, Reader *content)
{
	IbltCodec  *element = codec->element;
	int			ndim = *take(content, 1);
	int			dims[MAXDIM];
	int			lbs[MAXDIM];
	uint64		n = ndim == 0 ? 0 : 1;
	Datum	   *values;
	bool	   *nulls;

	if (ndim > MAXDIM)
		malformed("an array has too many dimensions");
	for (int i = 0; i < ndim; i++)
	{
		dims[i] = take_int32(content);
		lbs[i] = take_int32(content);
		if (dims[i] <= 0 || (int64) lbs[i] + dims[i] > PG_INT32_MAX)
			malformed("an array has impossible bounds");
		n *= (uint64) dims[i];
		if (n > bytes_left(content))
			malformed("an array has more elements than bytes");
	}
	values = palloc(sizeof(Datum) * Max(n, 1));
	nulls = palloc(sizeof(bool) * Max(n, 1));
	for (uint64 i = 0; i < n; i++)
		values[i] = read_item(element, content, &nulls[i]);
	if (codec->base == INT2VECTOROID || codec->base == OIDVECTOROID)
		return make_vector(codec->base, values, (int) n);
	return PointerGetDatum(construct_md_array(values, nulls, ndim, dims, lbs,
											  element->type, element->typlen,
											  element->typbyval,
											  element->typalign));
}

static Datum
read_bound(IbltCodec *codec, Reader *content)
{
	bool		isnull;
	Datum		value = read_item(codec->element, content, &isnull);

	if (isnull)
		malformed("a range bound is null");
	return value;
}

/*
 * make_range checks the order of the bounds, and makes empty ranges empty.  A bound that is
 * neither there nor infinite would be a null pointer to it.
 */
static Datum
read_range(IbltCodec *codec, Reader *content)
{
	uint8		flags = *take(content, 1);
	RangeBound	lower = {0};
	RangeBound	upper = {0};

	if (flags & (RANGE_LB_NULL | RANGE_UB_NULL))
		malformed("a range has impossible flags");
	lower.lower = true;
	lower.infinite = (flags & RANGE_LB_INF) != 0;
	lower.inclusive = (flags & RANGE_LB_INC) != 0;
	upper.infinite = (flags & RANGE_UB_INF) != 0;
	upper.inclusive = (flags & RANGE_UB_INC) != 0;
	if (RANGE_HAS_LBOUND(flags))
		lower.val = read_bound(codec, content);
	if (RANGE_HAS_UBOUND(flags))
		upper.val = read_bound(codec, content);
	return RangeTypePGetDatum(iblt_make_range(codec->range, &lower, &upper,
											  (flags & RANGE_EMPTY) != 0));
}

static Datum
read_multirange(IbltCodec *codec, Reader *content)
{
	int32		n = take_int32(content);
	RangeType **ranges;

	if (n < 0 || (Size) n > bytes_left(content))
		malformed("a multirange has more ranges than bytes");
	ranges = palloc(sizeof(RangeType *) * Max(n, 1));
	for (int i = 0; i < n; i++)
		ranges[i] = DatumGetRangeTypeP(read_bound(codec, content));
	return MultirangeTypePGetDatum(make_multirange(codec->base, codec->range,
												   n, ranges));
}

/* The columns of an anonymous row, one after the other. */
static Datum
read_columns(IbltCodec *codec, Reader *content)
{
	IbltRow    *row = iblt_codec_own_row(codec);
	Datum	   *values;
	bool	   *nulls;

	if (row == NULL)
		elog(ERROR, "columns of an anonymous row type are unknown");
	values = palloc(sizeof(Datum) * Max(row->ncolumns, 1));
	nulls = palloc(sizeof(bool) * Max(row->ncolumns, 1));
	for (int i = 0; i < row->ncolumns; i++)
		values[i] = read_item(row->columns[i], content, &nulls[i]);
	return HeapTupleGetDatum(heap_form_tuple(row->desc, values, nulls));
}

static Datum
read_value(IbltCodec *codec, Reader *content)
{
	switch (codec->kind)
	{
		case IBLT_KIND_ARRAY:
			return read_array(codec, content);
		case IBLT_KIND_ROW:
			return read_columns(codec, content);
		case IBLT_KIND_RANGE:
			return read_range(codec, content);
		case IBLT_KIND_MULTIRANGE:
			return read_multirange(codec, content);
		case IBLT_KIND_OUTPUT:
			return read_text_form(codec, content);
		default:
			return receive(codec, content);
	}
}

static Datum
read_item(IbltCodec *codec, Reader *reader, bool *isnull)
{
	Reader		content;
	const uint8 *start = reader->p;
	Datum		value = (Datum) 0;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	*isnull = !take_item(reader, &content);
	if (!*isnull)
	{
		value = read_value(codec, &content);
		if (content.p != content.end)
			malformed("a value has bytes after its end");
		if (codec->exact)
		{
			StringInfoData again;

			initStringInfo(&again);
			iblt_codec_append(&again, codec, value, false);
			if (again.len != reader->p - start || memcmp(again.data, start, again.len) != 0)
				malformed("they are not the canonical form of their value");
			pfree(again.data);
		}
	}
	return value;
}

Datum
iblt_codec_read(IbltCodec *codec, const uint8 **pos, const uint8 *end,
				bool *isnull)
{
	Reader		reader = {*pos, end};
	Datum		value;

	*isnull = false;
	value = codec->kind == IBLT_KIND_ROW ? read_columns(codec, &reader)
		: read_item(codec, &reader, isnull);
	*pos = reader.p;
	return value;
}
