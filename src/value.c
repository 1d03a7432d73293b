/*-------------------------------------------------------------------------
 *
 * value.c
 *	  What types whose values are validated bytes have in common.
 *
 *-------------------------------------------------------------------------
 */
#include "value.h"

#include "access/htup_details.h"
#include "common/base64.h"
#include "funcapi.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* Soft errors came with PostgreSQL 16. */
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#define iblt_ereturn(context, ...)	ereturn(context, (Datum) 0, __VA_ARGS__)
#else
#define iblt_ereturn(context, ...)	ereport(ERROR, __VA_ARGS__)
#endif

/* One message for a bad value, whichever door it came through. */
#define INVALID_VALUE(type, status) \
	(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), \
	 errmsg("invalid value of type %s", (type)->name), \
	 errdetail("The value is refused because %s.", \
			   (type)->status_text(status)))

struct varlena *
iblt_value_alloc(size_t size)
{
	struct varlena *value = palloc(VARHDRSZ + size);

	SET_VARSIZE(value, VARHDRSZ + size);
	return value;
}

void
iblt_value_refuse(const IbltValueType *type, IbltStatus status)
{
	ereport(ERROR, INVALID_VALUE(type, status));
}

Datum
iblt_value_arg(FunctionCallInfo fcinfo, int n, const IbltValueType *type)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s value must not be null", type->name),
				 errdetail("Without a sketch there is nothing to say about the rows; NULL must not read as \"equal\"."),
				 errhint("%s never returns NULL; look for the outer join or subquery that does.",
						 type->aggregate)));
	return PG_GETARG_DATUM(n);
}

/*
 * The text without white space, which a paste may have put in: the text itself
 * if it has none.
 */
static char *
without_white_space(char *text)
{
	char	   *to;
	char	   *copy;

	if (strpbrk(text, " \t\r\n") == NULL)
		return text;
	copy = to = palloc(strlen(text) + 1);
	for (; *text != '\0'; text++)
		if (strchr(" \t\r\n", *text) == NULL)
			*to++ = *text;
	*to = '\0';
	return copy;
}

/* From base64; white space in it is passed over. */
Datum
iblt_value_in(FunctionCallInfo fcinfo, const IbltValueType *type)
{
	char	   *text = without_white_space(PG_GETARG_CSTRING(0));
	int			length = (int) strlen(text);
	int			room = (int) ((int64) length * 3 / 4);
	struct varlena *value;
	IbltStatus	status;
	int			size;

	/* decoded in place: room is an upper bound of the decoded size */
	value = iblt_value_alloc(room);
	size = pg_b64_decode(text, length, (void *) VARDATA(value), room);
	if (size < 0)
		iblt_ereturn(fcinfo->context,
					 (errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					  errmsg("invalid value of type %s", type->name),
					  errdetail("The text form is one base64 token; this text is not base64."),
					  errhint("Look for a value that was cut short or changed on its way.")));
	SET_VARSIZE(value, VARHDRSZ + size);
	status = type->validate((uint8 *) VARDATA(value), size);
	if (status != IBLT_OK)
		iblt_ereturn(fcinfo->context, INVALID_VALUE(type, status));
	PG_RETURN_POINTER(value);
}

Datum
iblt_value_out(FunctionCallInfo fcinfo, const IbltValueType *type)
{
	struct varlena *value = PG_GETARG_VARLENA_PP(0);
	int			size = VARSIZE_ANY_EXHDR(value);
	int64		room = ((int64) size + 2) / 3 * 4 + 1;
	char	   *text;
	int			length;

	if (room > (int64) MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s of %d bytes is too large for its text form",
						type->name, size),
				 errhint("Use the binary form: COPY ... WITH (FORMAT binary), or a cast to bytea.")));
	text = palloc(room);
	length = pg_b64_encode((void *) VARDATA_ANY(value), size, text,
						   (int) room - 1);
	if (length < 0)
		elog(ERROR, "base64 text did not fit its own bound");
	text[length] = '\0';
	PG_RETURN_CSTRING(text);
}

/* A value from bytes of any origin, or an ERROR. */
static Datum
value_from_bytes(void *bytes, size_t size, const IbltValueType *type)
{
	/* a look at the original first: no memory is taken for bad bytes */
	IbltStatus	status = type->validate(bytes, size);
	struct varlena *value;

	if (status != IBLT_OK)
		iblt_value_refuse(type, status);
	value = iblt_value_alloc(size);
	memcpy(VARDATA(value), bytes, size);
	return PointerGetDatum(value);
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
	PG_RETURN_BYTEA_P(PG_GETARG_BYTEA_P_COPY(0));
}

Datum
iblt_value_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "function %u must return a row", fcinfo->flinfo->fn_oid);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
}
