/*-------------------------------------------------------------------------
 *
 * type.c
 *	  The type iblt: its text and binary forms, its casts, its memory.
 *
 * The bytes of a value are the format of doc/format.md, behind a varlena
 * header.  Whatever comes in from outside (text, binary, bytea, or a stored
 * value handed to a function) goes through iblt_core_open.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "common/base64.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

/* Soft errors came with PostgreSQL 16. */
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#define iblt_ereturn(context, ...)	ereturn(context, (Datum) 0, __VA_ARGS__)
#else
#define iblt_ereturn(context, ...)	ereport(ERROR, __VA_ARGS__)
#endif

/* One message for a bad value, whichever door it came through. */
#define INVALID_VALUE(status) \
	(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), \
	 errmsg("invalid value of type iblt"), \
	 errdetail("The value is refused because %s.", \
			   iblt_core_status_text(status)))

static IbltStatus
open_varlena(IbltSketch *sketch, struct varlena *value)
{
	return iblt_core_open(sketch, (uint8 *) VARDATA_ANY(value),
						  VARSIZE_ANY_EXHDR(value));
}

void
iblt_open(IbltSketch *sketch, Datum value)
{
	IbltStatus	status = open_varlena(sketch, PG_DETOAST_DATUM_PACKED(value));

	if (status != IBLT_OK)
		ereport(ERROR, INVALID_VALUE(status));
}

void
iblt_open_arg(IbltSketch *sketch, FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("iblt value must not be null"),
				 errdetail("Without a sketch there is nothing to say about the rows; NULL must not read as \"equal\"."),
				 errhint("iblt_agg never returns NULL; look for the outer join or subquery that does.")));
	iblt_open(sketch, PG_GETARG_DATUM(n));
}

void
iblt_check_params(const IbltParams *params)
{
	IbltStatus	status = iblt_core_check_params(params);

	if (status == IBLT_BAD_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("iblt would be larger than %zu bytes",
						IBLT_MAX_BYTES),
				 errhint("Choose a smaller capacity or key_size, or compare the table in parts.")));
	if (status != IBLT_OK)
		ereport(ERROR, INVALID_VALUE(status));
}

void
iblt_refuse_row(IbltStatus status)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("row cannot be kept in the iblt"),
			 errdetail("By a chance of about 3 in 10^18, %s.",
					   iblt_core_status_text(status)),
			 errhint("Build both sketches with another seed: iblt_new(seed => ...).")));
}

/* The varlena that is to hold a sketch of so many bytes. */
static struct varlena *
alloc_value(size_t size)
{
	struct varlena *value = palloc(VARHDRSZ + size);

	SET_VARSIZE(value, VARHDRSZ + size);
	return value;
}

struct varlena *
iblt_make(IbltSketch *sketch, const IbltParams *params)
{
	struct varlena *value;

	iblt_check_params(params);
	value = alloc_value(iblt_core_size(params));
	iblt_core_init(sketch, params, (uint8 *) VARDATA(value));
	return value;
}

struct varlena *
iblt_copy(IbltSketch *copy, const IbltSketch *sketch)
{
	struct varlena *value = alloc_value(sketch->size);

	memcpy(VARDATA(value), sketch->bytes, sketch->size);
	iblt_core_view_copy(copy, sketch, (uint8 *) VARDATA(value));
	return value;
}

/* A value from bytes of any origin, or NULL and why not. */
static struct varlena *
value_from_bytes(void *bytes, size_t size, IbltStatus *status)
{
	IbltSketch	sketch;
	struct varlena *value;

	/* a look at the original first: no memory is taken for bad bytes */
	*status = iblt_core_open(&sketch, bytes, size);
	if (*status != IBLT_OK)
		return NULL;
	value = alloc_value(size);
	memcpy(VARDATA(value), bytes, size);
	return value;
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

PG_FUNCTION_INFO_V1(iblt_in);

/* iblt_in(cstring) -> iblt: base64; white space in it is passed over. */
Datum
iblt_in(PG_FUNCTION_ARGS)
{
	char	   *text = without_white_space(PG_GETARG_CSTRING(0));
	int			length = (int) strlen(text);
	int			room = pg_b64_dec_len(length);
	struct varlena *value;
	IbltSketch	sketch;
	IbltStatus	status;
	int			size;

	/* decoded in place: room is an upper bound of the decoded size */
	value = alloc_value(room);
	size = pg_b64_decode(text, length, (void *) VARDATA(value), room);
	if (size < 0)
		iblt_ereturn(fcinfo->context,
					 (errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					  errmsg("invalid value of type iblt"),
					  errdetail("The text form is one base64 token; this text is not base64."),
					  errhint("Look for a value that was cut short or changed on its way.")));
	SET_VARSIZE(value, VARHDRSZ + size);
	status = open_varlena(&sketch, value);
	if (status != IBLT_OK)
		iblt_ereturn(fcinfo->context, INVALID_VALUE(status));
	PG_RETURN_POINTER(value);
}

PG_FUNCTION_INFO_V1(iblt_out);

/* iblt_out(iblt) -> cstring */
Datum
iblt_out(PG_FUNCTION_ARGS)
{
	struct varlena *value = PG_GETARG_VARLENA_PP(0);
	int			size = VARSIZE_ANY_EXHDR(value);
	int64		room = ((int64) size + 2) / 3 * 4 + 1;
	char	   *text;
	int			length;

	if (room > (int64) MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("iblt of %d bytes is too large for its text form",
						size),
				 errhint("Use the binary form: COPY ... WITH (FORMAT binary), or a cast to bytea.")));
	text = palloc(room);
	length = pg_b64_encode((void *) VARDATA_ANY(value), size, text,
						   (int) room - 1);
	if (length < 0)
		elog(ERROR, "base64 text did not fit its own bound");
	text[length] = '\0';
	PG_RETURN_CSTRING(text);
}

/* A value from outside, or an ERROR. */
static Datum
value_or_error(void *bytes, size_t size)
{
	IbltStatus	status;
	struct varlena *value = value_from_bytes(bytes, size, &status);

	if (value == NULL)
		ereport(ERROR, INVALID_VALUE(status));
	return PointerGetDatum(value);
}

PG_FUNCTION_INFO_V1(iblt_recv);

/* iblt_recv(internal) -> iblt */
Datum
iblt_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int			size = buf->len - buf->cursor;

	return value_or_error(unconstify(char *, pq_getmsgbytes(buf, size)), size);
}

PG_FUNCTION_INFO_V1(iblt_send);

/* iblt_send(iblt) -> bytea */
Datum
iblt_send(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(PG_GETARG_BYTEA_P_COPY(0));
}

PG_FUNCTION_INFO_V1(iblt_from_bytea);

/* iblt_from_bytea(bytea) -> iblt: the cast */
Datum
iblt_from_bytea(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);

	return value_or_error(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
}

PG_FUNCTION_INFO_V1(iblt_to_bytea);

/* iblt_to_bytea(iblt) -> bytea: the cast */
Datum
iblt_to_bytea(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(PG_GETARG_BYTEA_P_COPY(0));
}
