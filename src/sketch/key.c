/*
 * key.c
 *	  Keys as SQL values, and as the bytes that a sketch keeps.
 */
#include "sketch/iblt.h"

#include "catalog/pg_namespace.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/uuid.h"

/* codec is that of canonical keys, or NULL. */
static IbltKeyCoder *
coder_alloc(Oid type, IbltKeyKind kind, IbltCodec *codec, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	IbltKeyCoder *coder = palloc0(sizeof *coder);

	coder->type = getBaseType(type);
	coder->asked = type;
	coder->kind = kind;
	coder->codec = codec;
	coder->context = context;
	initStringInfo(&coder->bytes);
	MemoryContextSwitchTo(old);
	return coder;
}

static Oid
require_known(Oid type)
{
	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("could not determine the type of the key")));
	return type;
}

Oid
iblt_key_type_asked(FunctionCallInfo fcinfo, int n)
{
	return require_known(get_fn_expr_argtype(fcinfo->flinfo, n));
}

IbltKeyCoder *
iblt_key_coder(Oid type, MemoryContext context)
{
	switch (getBaseType(require_known(type)))
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return coder_alloc(type, IBLT_KEY_INTEGER, NULL, context);
		case UUIDOID:
			return coder_alloc(type, IBLT_KEY_UUID, NULL, context);
		default:
			return coder_alloc(type, IBLT_KEY_CANONICAL,
							   iblt_codec_build(type, -1, context), context);
	}
}

IbltKeyCoder *
iblt_key_coder_for_columns(int ncolumns, const Oid *types,
						   MemoryContext context)
{
	return coder_alloc(RECORDOID, IBLT_KEY_CANONICAL,
					   iblt_codec_for_columns(ncolumns, types, context), context);
}

IbltKeyCoder *
iblt_key_coder_for_params(const IbltParams *params, bool of_value)
{
	const IbltTyping *typing = of_value ? &params->value : &params->key;
	IbltKeyCoder *coder;

	if (typing->kind != IBLT_KEY_CANONICAL)
		coder = iblt_key_coder(typing->kind == IBLT_KEY_UUID ? UUIDOID : INT8OID,
							   CurrentMemoryContext);
	else
	{
		char	   *description = pnstrdup((const char *) typing->description,
										   typing->description_size);
		IbltCodec  *codec = iblt_codec_from_description(description, CurrentMemoryContext);

		coder = coder_alloc(codec == NULL ? BYTEAOID : iblt_codec_type(codec),
							IBLT_KEY_CANONICAL, codec, CurrentMemoryContext);
	}
	coder->of_value = of_value;
	return coder;
}

/* The coder of a type that fn_extra keeps in place n, 1 or 2. */
static IbltKeyCoder *
kept_coder(FunctionCallInfo fcinfo, int n, Oid type)
{
	FmgrInfo   *flinfo = fcinfo->flinfo;
	IbltKeyCoder **kept = flinfo->fn_extra;

	if (kept == NULL)
		flinfo->fn_extra = kept = MemoryContextAllocZero(flinfo->fn_mcxt,
														 2 * sizeof *kept);
	kept += n - 1;
	if (*kept == NULL || (*kept)->asked != type)
		*kept = iblt_key_coder(type, flinfo->fn_mcxt);
	return *kept;
}

IbltKeyCoder *
iblt_key_coder_for_arg(FunctionCallInfo fcinfo, int n)
{
	return kept_coder(fcinfo, n, get_fn_expr_argtype(fcinfo->flinfo, n));
}

void
iblt_key_encode(IbltKeyCoder *coder, Datum key)
{
	int64		integer = 0;

	resetStringInfo(&coder->bytes);
	if (coder->kind == IBLT_KEY_INTEGER)
	{
		/* initStringInfo has taken more bytes than that */
		(void) iblt_key_integer(coder->type, key, &integer);
		iblt_store64((uint8 *) coder->bytes.data, (uint64) integer);
		coder->bytes.len = sizeof integer;
	}
	else if (coder->kind == IBLT_KEY_UUID)
		appendBinaryStringInfo(&coder->bytes, (char *) DatumGetUUIDP(key)->data, UUID_LEN);
	else if (iblt_codec_is_row(coder->codec))
		iblt_codec_append_columns(&coder->bytes, coder->codec, key);
	else
		iblt_codec_append(&coder->bytes, coder->codec, key, false);
}

void
iblt_key_encode_columns(IbltKeyCoder *coder, const NullableDatum *columns)
{
	resetStringInfo(&coder->bytes);
	iblt_codec_append_values(&coder->bytes, coder->codec, columns);
}

const uint8 *
iblt_key_padded(IbltKeyCoder *coder, unsigned limbs)
{
	StringInfo	bytes = &coder->bytes;
	int			size = 8 * (int) limbs;
	const char *what = coder->of_value ? "value" : "key";

	if (bytes->len > size)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s is too long for the iblt", what),
				 errdetail("The %s takes %d bytes, and the sketch keeps %ss of up to %d bytes.",
						   what, bytes->len, what, size),
				 bytes->len > 8 * IBLT_MAX_LIMBS
				 ? errhint("Use iblt_checksum(%s) in its place and look rows up by it.", what)
				 : errhint("Build all sketches with a template such as iblt_new(%s_size => %d), or use iblt_checksum(%s) in its place and look rows up by it.",
						   what, (bytes->len + 7) / 8 * 8, what)));
	enlargeStringInfo(bytes, size - bytes->len);
	memset(bytes->data + bytes->len, 0, size - bytes->len);
	bytes->len = size;
	return (uint8 *) bytes->data;
}

bool
iblt_key_type_changed(const IbltKeyCoder *coder)
{
	return coder->kind == IBLT_KEY_CANONICAL &&
		(coder->description == NULL ||
		 coder->generation != iblt_codec_generation());
}

/* Gets the codec's description, unless no row type has changed since. */
static void
refresh_description(IbltKeyCoder *coder)
{
	char	   *description;

	if (!iblt_key_type_changed(coder))
		return;
	/* before the first key this is not an error yet */
	if (coder->bytes.len == 0 && !iblt_codec_is_known(coder->codec))
		return;

	description = iblt_codec_description(coder->codec);
	coder->generation = iblt_codec_generation();
	/* another type may have changed, and may do so at each row */
	if (coder->description == NULL ||
		strcmp(description, coder->description) != 0)
	{
		char	   *copy = MemoryContextStrdup(coder->context, description);

		if (coder->description != NULL)
			pfree(coder->description);
		coder->description = copy;
		coder->description_size = strlen(copy);
		coder->version++;
	}
	pfree(description);
}

/* ERROR for a key or value whose type is not the sketch's. */
static void
refuse_type(const char *type, const IbltTyping *typing, bool of_value,
			const char *advice)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 of_value
			 ? errmsg("value type %s does not match the sketch's value type %s",
					  type, iblt_params_type_name(typing))
			 : errmsg("key type %s does not match the sketch's key type %s",
					  type, iblt_params_type_name(typing)),
			 errhint("%s the type of the sketch's %ss.", advice,
					 of_value ? "value" : "key")));
}

void
iblt_key_set_typing(IbltKeyCoder *coder, IbltTyping *typing,
					const char *advice)
{
	IbltTyping	typed = *typing;

	refresh_description(coder);
	if (coder->kind == IBLT_KEY_CANONICAL && coder->description == NULL)
		return;
	typed.kind = coder->kind;
	if (coder->kind == IBLT_KEY_INTEGER)
		typed.limbs = 1;
	else if (coder->kind == IBLT_KEY_UUID)
		typed.limbs = 2;
	typed.description = (const uint8 *) coder->description;
	typed.description_size = coder->description_size;
	if (typing->kind != IBLT_KEY_UNTYPED &&
		!iblt_core_same_type(typing, &typed))
		refuse_type(iblt_params_type_name(&typed), typing, coder->of_value,
					advice);
	*typing = typed;
}

void
iblt_key_set_params(IbltKeyCoder *coder, IbltParams *params)
{
	if (coder->of_value)
		iblt_key_set_typing(coder, &params->value, "Cast the value to");
	else
		iblt_key_set_typing(coder, &params->key, "Cast the key to");
	/* an estimator has hashes of keys */
	if (params->strata > 0)
		params->key.limbs = 1;
}

void
iblt_key_set_row_params(IbltKeyCoder *key, IbltKeyCoder *value,
						IbltParams *params)
{
	IbltParams	typed = *params;

	iblt_key_set_params(key, &typed);
	if (typed.value.limbs > 0)
		iblt_key_set_params(value, &typed);
	else if (value->kind != IBLT_KEY_INTEGER)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("checksum of type %s in an iblt without values",
						format_type_be(value->asked)),
				 errdetail("A checksum is an integer. Other values are kept only in a sketch with values."),
				 errhint("Use iblt_checksum(...) for the checksum, or a template such as iblt_new(with_values => true).")));
	if (typed.value.limbs == 0 ||
		(typed.key.kind == IBLT_KEY_UNTYPED) == (typed.value.kind == IBLT_KEY_UNTYPED))
		*params = typed;
}

uint64
iblt_key_checksum(const IbltKeyCoder *value)
{
	return iblt_load64((const uint8 *) value->bytes.data);
}

IbltKeyCoder *
iblt_key_coder_as_asked(FunctionCallInfo fcinfo, Oid type,
						const IbltParams *params, bool of_value)
{
	IbltTyping	typing = of_value ? params->value : params->key;
	IbltKeyCoder *coder;
	FormData_pg_type form;

	(void) iblt_type_form(type, false, &form);
	/* the functions of any other type could be anybody's */
	if (form.typnamespace != PG_CATALOG_NAMESPACE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot decode as type %s", format_type_be(type)),
				 errdetail("iblt decodes only types of schema pg_catalog."),
				 errhint("Decode as text, with iblt_decode(s), and cast the text.")));
	if (type == RECORDOID || type == RECORDARRAYOID)
	{
		coder = iblt_key_coder_for_params(params, of_value);
		if (coder->type != type)
			refuse_type(format_type_be(type), &typing, of_value,
						"Decode with");
		return coder;
	}
	coder = kept_coder(fcinfo, of_value ? 2 : 1, type);
	coder->of_value = of_value;
	iblt_key_set_typing(coder, &typing, of_value ? "Name" : "Cast the key to");
	return coder;
}

Datum
iblt_key_decode(IbltKeyCoder *coder, const uint8 *bytes, unsigned limbs)
{
	int64		least = coder->type == INT4OID ? PG_INT32_MIN : PG_INT16_MIN;
	int64		most = coder->type == INT4OID ? PG_INT32_MAX : PG_INT16_MAX;
	const uint8 *end = bytes + 8 * (size_t) limbs;
	int64		integer;

	if (coder->kind == IBLT_KEY_UUID)
		return UUIDPGetDatum(memcpy(palloc(UUID_LEN), bytes, UUID_LEN));
	if (coder->kind == IBLT_KEY_CANONICAL && coder->codec == NULL)
	{
		while (end > bytes && end[-1] == 0)
			end--;
		return PointerGetDatum(iblt_value_copy(bytes, end - bytes));
	}
	if (coder->kind == IBLT_KEY_CANONICAL)
	{
		bool		isnull;
		Datum		key = iblt_codec_read(coder->codec, &bytes, end, &isnull);

		/* everything after the last item must be padding */
		while (bytes < end && *bytes == 0)
			bytes++;
		if (isnull || bytes < end)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("%s in the iblt does not match its declared type",
							coder->of_value ? "value" : "key"),
					 errdetail("The declared type is %s.", format_type_be(coder->type))));
		return key;
	}
	integer = (int64) iblt_load64(bytes);
	if (coder->type == INT8OID)
		return Int64GetDatum(integer);
	if (integer < least || integer > most)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s " INT64_FORMAT " is out of range for type %s",
						coder->of_value ? "value" : "key", integer,
						format_type_be(coder->type)),
				 errhint("Decode with NULL::bigint.")));
	return coder->type == INT4OID ? Int32GetDatum((int32) integer)
		: Int16GetDatum((int16) integer);
}
