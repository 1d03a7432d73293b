/*
 * value.c
 *	  What types whose values are validated bytes have in common.
 */
#include "sketch/value.h"

#include "access/detoast.h"
#include "common/base64.h"
#include "funcapi.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "codec/version.h"

/* One message for a bad value, however it came in. */
#define INVALID_VALUE(type, status) \
	(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), \
	 errmsg("invalid value of type %s", (type)->name), \
	 errdetail("The value is refused because %s.", iblt_core_status_text(status)))

#define WHITE_SPACE	" \t\r\n"

struct varlena *
iblt_value_alloc(size_t size)
{
	struct varlena *value = palloc(VARHDRSZ + size);

	SET_VARSIZE(value, VARHDRSZ + size);
	return value;
}

void
iblt_value_check(const IbltValueType *type, IbltStatus status)
{
	if (status != IBLT_OK)
		ereport(ERROR, INVALID_VALUE(type, status));
}

void
iblt_check_range(const char *name, int value, int least, int most)
{
	if (value < least || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s cannot be %d", name, value),
				 errhint("Choose a value between %d and %d.", least, most)));
}

void
iblt_check_failure(const char *name, double failure, double least, double most)
{
	/* written so that NaN is refused */
	if (!(failure >= least && failure <= most))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s cannot be %g", name, failure),
				 errhint("Choose a probability between %g and %g.", least, most)));
}

struct varlena *
iblt_value_copy(const void *bytes, size_t size)
{
	struct varlena *value = iblt_value_alloc(size);

	memcpy(VARDATA(value), bytes, size);
	return value;
}

Datum
iblt_require_arg(FunctionCallInfo fcinfo, int n, const char *name,
				 const char *hint)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name),
				 hint == NULL ? 0 : errhint("%s", hint)));
	return PG_GETARG_DATUM(n);
}

void
iblt_value_refuse_null(const IbltValueType *type)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s value must not be null", type->name),
			 errdetail("%s", type->null_detail),
			 errhint("Look for the outer join or subquery that returns NULL. %s never does.",
					 type->aggregate)));
}

Datum
iblt_value_arg(FunctionCallInfo fcinfo, int n, const IbltValueType *type)
{
	if (PG_ARGISNULL(n))
		iblt_value_refuse_null(type);
	return PG_GETARG_DATUM(n);
}

void
iblt_value_open(const IbltValueType *type, void *view, Datum value)
{
	struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);

	iblt_value_check(type, type->open(view, (uint8 *) VARDATA_ANY(bytes),
									  VARSIZE_ANY_EXHDR(bytes)));
}

void
iblt_value_open_arg(const IbltValueType *type, void *view, FunctionCallInfo fcinfo,
					int n)
{
	iblt_value_open(type, view, iblt_value_arg(fcinfo, n, type));
}

/* Bytes that the first slice should have, because they cost no more. */
#define FIRST_SLICE	((size_t) 1900)

/*
 * Values of at most this many bytes are fetched as a whole.  One scan over
 * eight chunks costs as much as slices of two or three.
 */
#define WHOLE_SIZE	16000

uint8 *
iblt_slices_open(IbltSlices *slices, Datum value,
				 size_t (*header_size) (const uint8 *bytes), size_t *size)
{
	struct varlena *stored = (struct varlena *) DatumGetPointer(value);
	uint8	   *bytes;

	slices->value = value;
	slices->whole = NULL;
	slices->size = toast_raw_datum_size(value) - VARHDRSZ;
	/* what takes fewer bytes out of line is compressed */
	if (slices->size <= WHOLE_SIZE || !VARATT_IS_EXTERNAL_ONDISK(stored) ||
		toast_datum_size(value) < slices->size)
	{
		stored = PG_DETOAST_DATUM_PACKED(value);
		slices->whole = (uint8 *) VARDATA_ANY(stored);
		*size = slices->size = VARSIZE_ANY_EXHDR(stored);
		return slices->whole;
	}
	*size = FIRST_SLICE;
	bytes = iblt_slices_get(slices, 0, *size);
	if (header_size(bytes) <= *size)
		return bytes;
	*size = Min(slices->size, header_size(bytes));
	return iblt_slices_get(slices, 0, *size);
}

uint8 *
iblt_slices_get(const IbltSlices *slices, size_t from, size_t to)
{
	struct varlena *slice;

	if (from > to || to > slices->size)
		elog(ERROR, "slice from %zu to %zu of a value of %zu bytes",
			 from, to, slices->size);
	if (slices->whole != NULL)
		return slices->whole + from;
	slice = PG_DETOAST_DATUM_SLICE(slices->value, from, to - from);
	if (VARSIZE_ANY_EXHDR(slice) != to - from)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("stored value is shorter than its size")));
	return (uint8 *) VARDATA_ANY(slice);
}

/* Reads base64 and skips white space in it, which a copy and paste may have added. */
Datum
iblt_value_in(FunctionCallInfo fcinfo, const IbltValueType *type)
{
	char	   *text = PG_GETARG_CSTRING(0);
	struct varlena *value;
	IbltAnyView view;
	IbltStatus	status;
	size_t		length = strcspn(text, WHITE_SPACE);
	int			size;

	if (text[length] != '\0')
	{
		char	   *copy = pstrdup(text);

		for (size_t i = length; text[i] != '\0'; i++)
			if (strchr(WHITE_SPACE, text[i]) == NULL)
				copy[length++] = text[i];
		text = copy;
	}
	value = iblt_value_alloc(length / 4 * 3);
	size = pg_b64_decode(text, (int) length, (void *) VARDATA(value), (int) (length / 4 * 3));
	if (size < 0)
		ereturn(fcinfo->context, (Datum) 0,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid value of type %s", type->name),
				 errdetail("The text form is base64, and this text is not."),
				 errhint("Look for a value that was cut short or changed on its way.")));
	SET_VARSIZE(value, VARHDRSZ + size);
	status = type->open(&view, (uint8 *) VARDATA(value), size);
	if (status != IBLT_OK)
		ereturn(fcinfo->context, (Datum) 0, INVALID_VALUE(type, status));
	PG_RETURN_POINTER(value);
}

Datum
iblt_value_out(FunctionCallInfo fcinfo, const IbltValueType *type)
{
	struct varlena *value = PG_GETARG_VARLENA_PP(0);
	int			size = VARSIZE_ANY_EXHDR(value);
	int64		length = ((int64) size + 2) / 3 * 4;
	char	   *text;

	if (length + 1 > (int64) MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s of %d bytes is too large for its text form",
						type->name, size),
				 errhint("Use the binary form: COPY ... WITH (FORMAT binary), or a cast to bytea.")));
	text = palloc(length + 1);
	if (pg_b64_encode((void *) VARDATA_ANY(value), size, text, (int) length) < 0)
		elog(ERROR, "base64 text did not fit its own bound");
	text[length] = '\0';
	PG_RETURN_CSTRING(text);
}

/* Makes a value from bytes of any origin, or raises an ERROR. */
static Datum
value_from_bytes(void *bytes, size_t size, const IbltValueType *type)
{
	IbltAnyView view;

	/* in place first, so that no memory is taken for bad bytes */
	iblt_value_check(type, type->open(&view, bytes, size));
	return PointerGetDatum(iblt_value_copy(bytes, size));
}

Datum
iblt_value_recv(FunctionCallInfo fcinfo, const IbltValueType *type)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int			size = buf->len - buf->cursor;

	return value_from_bytes(unconstify(char *, pq_getmsgbytes(buf, size)),
							size, type);
}

Datum
iblt_value_from_bytea(FunctionCallInfo fcinfo, const IbltValueType *type)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);

	return value_from_bytes(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), type);
}

Datum
iblt_value_bytes(FunctionCallInfo fcinfo)
{
	struct varlena *bytes = PG_GETARG_VARLENA_PP(0);

	PG_RETURN_BYTEA_P(iblt_value_copy(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)));
}

Datum
iblt_array_make(Datum *values, bool *nulls, int n, Oid type)
{
	int			lower = 1;
	int16		length;
	bool		by_value;
	char		align;

	if (n == 0)
		return PointerGetDatum(construct_empty_array(type));
	get_typlenbyvalalign(type, &length, &by_value, &align);
	return PointerGetDatum(construct_md_array(values, nulls, 1, &n, &lower, type, length,
											  by_value, align));
}

int
iblt_array_take(Datum array, Datum **values, bool **nulls)
{
	ArrayType  *elements;
	int16		length;
	bool		by_value;
	char		align;
	int			n;

	if (array == 0)
		return 0;
	elements = DatumGetArrayTypeP(array);
	get_typlenbyvalalign(ARR_ELEMTYPE(elements), &length, &by_value, &align);
	deconstruct_array(elements, ARR_ELEMTYPE(elements), length, by_value, align, values, nulls, &n);
	return n;
}

Datum
iblt_value_oids(const List *list)
{
	Datum	   *oids = palloc(sizeof(Datum) * Max(list_length(list), 1));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, list)
		oids[n++] = ObjectIdGetDatum(lfirst_oid(lc));
	return iblt_array_make(oids, NULL, n, OIDOID);
}

/* Only PostgreSQL 15 and later have one call for this. */
Tuplestorestate *
iblt_value_rows(FunctionCallInfo fcinfo, TupleDesc desc)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext old;

	if (rsinfo == NULL || !IsA(rsinfo, ReturnSetInfo) ||
		(rsinfo->allowedModes & SFRM_Materialize) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	if (desc == NULL && get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "function %u must return rows", fcinfo->flinfo->fn_oid);
	old = MemoryContextSwitchTo(rsinfo->econtext->ecxt_per_query_memory);
	rsinfo->returnMode = SFRM_Materialize;
	rsinfo->setDesc = CreateTupleDescCopy(desc);
	rsinfo->setResult = tuplestore_begin_heap((rsinfo->allowedModes & SFRM_Materialize_Random) != 0,
											  false, work_mem);
	MemoryContextSwitchTo(old);
	return rsinfo->setResult;
}

Datum
iblt_value_row(FunctionCallInfo fcinfo, IbltRow *row)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "function %u must return a row", fcinfo->flinfo->fn_oid);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  row->values, row->nulls)));
}

void
iblt_column_text(IbltRow *row, const char *text)
{
	iblt_column(row, text == NULL ? (Datum) 0 : CStringGetTextDatum(text), text == NULL);
}
