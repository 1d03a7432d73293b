/*-------------------------------------------------------------------------
 *
 * key.c
 *	  Keys as SQL values, and as the bytes that a sketch keeps.
 *
 *-------------------------------------------------------------------------
 */
#include "key.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

static IbltKeyCoder *
coder_alloc(Oid type, IbltKeyKind kind, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	IbltKeyCoder *coder = palloc0(sizeof *coder);

	coder->type = getBaseType(type);
	coder->asked = type;
	coder->kind = kind;
	coder->context = context;
	initStringInfo(&coder->bytes);
	MemoryContextSwitchTo(old);
	return coder;
}

/*
 * A coder of canonical keys.  Its description must be right for all of a key.
 */
static IbltKeyCoder *
canonical_coder(Oid type, IbltCodec *codec, MemoryContext context)
{
	IbltKeyCoder *coder = coder_alloc(type, IBLT_KEY_CANONICAL, context);

	iblt_codec_require_uniform(codec);
	coder->codec = codec;
	return coder;
}

IbltKeyCoder *
iblt_key_coder(Oid type, MemoryContext context)
{
	switch (getBaseType(type))
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return coder_alloc(type, IBLT_KEY_INTEGER, context);
		case UUIDOID:
			return coder_alloc(type, IBLT_KEY_UUID, context);
		default:
			return canonical_coder(type, iblt_codec_for_type(type, context),
								   context);
	}
}

IbltKeyCoder *
iblt_key_coder_for_columns(int ncolumns, const Oid *types,
						   MemoryContext context)
{
	return canonical_coder(RECORDOID,
						   iblt_codec_for_columns(ncolumns, types, context),
						   context);
}

/* A coder for the keys of a sketch, by the type that the sketch names. */
static IbltKeyCoder *
coder_from_params(const IbltParams *params, bool labels_as_text,
				  MemoryContext context)
{
	IbltCodec  *codec;
	char	   *description;

	if (params->kind == IBLT_KEY_INTEGER)
		return iblt_key_coder(INT8OID, context);
	if (params->kind == IBLT_KEY_UUID)
		return iblt_key_coder(UUIDOID, context);
	description = pnstrdup((const char *) params->description,
						   params->description_size);
	codec = iblt_codec_from_description(description, labels_as_text, context);
	return canonical_coder(iblt_codec_type(codec), codec, context);
}

IbltKeyCoder *
iblt_key_coder_for_params(const IbltParams *params, MemoryContext context)
{
	return coder_from_params(params, true, context);
}

IbltKeyCoder *
iblt_key_coder_as_described(const IbltParams *params, MemoryContext context)
{
	return coder_from_params(params, false, context);
}

IbltKeyCoder *
iblt_key_coder_for_arg(FunctionCallInfo fcinfo, int n)
{
	IbltKeyCoder *coder = fcinfo->flinfo->fn_extra;
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, n);

	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("could not determine the type of the key")));
	if (coder == NULL || coder->type != getBaseType(type))
		coder = iblt_key_coder(type, fcinfo->flinfo->fn_mcxt);
	fcinfo->flinfo->fn_extra = coder;
	return coder;
}

/* An integer of any width, as 64 bits in little-endian order. */
static void
encode_integer(IbltKeyCoder *coder, Datum key)
{
	int64		integer = coder->type == INT8OID ? DatumGetInt64(key)
		: coder->type == INT4OID ? DatumGetInt32(key) : DatumGetInt16(key);

	/* initStringInfo has taken more than eight bytes */
	iblt_store64((uint8 *) coder->bytes.data, (uint64) integer);
	coder->bytes.len = sizeof(uint64);
}

void
iblt_key_encode(IbltKeyCoder *coder, Datum key)
{
	resetStringInfo(&coder->bytes);
	switch (coder->kind)
	{
		case IBLT_KEY_INTEGER:
			encode_integer(coder, key);
			break;
		case IBLT_KEY_UUID:
			appendBinaryStringInfo(&coder->bytes,
								   (const char *) DatumGetUUIDP(key)->data,
								   UUID_LEN);
			break;
		default:
			if (iblt_codec_is_row(coder->codec))
				iblt_codec_append_columns(&coder->bytes, coder->codec, key);
			else
				iblt_codec_append(&coder->bytes, coder->codec, key, false);
			break;
	}
}

/* ERROR for a key that takes more bytes than the sketch keeps. */
static void
refuse_long_key(int length, int size)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("key is too long for the iblt"),
			 errdetail("The key takes %d bytes, and the sketch keeps keys of up to %d bytes.",
					   length, size),
			 length <= 8 * IBLT_MAX_LIMBS
			 ? errhint("Build both sketches with a template such as iblt_new(key_size => %d), or use iblt_checksum(key) as the key and look rows up by it.",
					   (length + 7) / 8 * 8)
			 : errhint("Use iblt_checksum(key) as the key and look rows up by it.")));
}

const uint8 *
iblt_key_padded(IbltKeyCoder *coder, unsigned limbs)
{
	StringInfo	bytes = &coder->bytes;
	int			size = 8 * (int) limbs;

	if (bytes->len == size)
		return (uint8 *) bytes->data;
	if (bytes->len > size)
		refuse_long_key(bytes->len, size);
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

void
iblt_key_set_params(IbltKeyCoder *coder, IbltParams *params)
{
	IbltParams	typed = *params;

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
	if (params->kind != IBLT_KEY_UNTYPED &&
		iblt_core_compatible(params, &typed) != IBLT_OK)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("key type %s does not match the sketch's key type %s",
						iblt_params_key_type(&typed),
						iblt_params_key_type(params)),
				 errhint("Cast the key to the type of the sketch's keys.")));
	*params = typed;
}

/*
 * Canonical bytes to a value.  Everything after the last item must be padding.
 */
static Datum
decode_canonical(IbltKeyCoder *coder, const uint8 *bytes, const uint8 *end)
{
	bool		isnull = false;
	Datum		key;

	if (iblt_codec_is_row(coder->codec))
		key = iblt_codec_read_columns(coder->codec, &bytes, end);
	else
		key = iblt_codec_read(coder->codec, &bytes, end, &isnull);
	while (bytes < end && *bytes == 0)
		bytes++;
	if (isnull || bytes < end)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("key in the iblt does not match its declared type"),
				 errdetail("The declared type is %s.", format_type_be(coder->type))));
	return key;
}

/* A 64-bit integer as the coder's type, or an ERROR if it does not fit. */
static Datum
decode_integer(const IbltKeyCoder *coder, int64 integer)
{
	int64		least = coder->type == INT4OID ? PG_INT32_MIN : PG_INT16_MIN;
	int64		most = coder->type == INT4OID ? PG_INT32_MAX : PG_INT16_MAX;

	if (coder->type == INT8OID)
		return Int64GetDatum(integer);
	if (integer < least || integer > most)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("key " INT64_FORMAT " is out of range for type %s",
						integer, format_type_be(coder->type)),
				 errhint("Decode with NULL::bigint.")));
	return coder->type == INT4OID ? Int32GetDatum((int32) integer)
		: Int16GetDatum((int16) integer);
}

static Datum
decode_uuid(const uint8 *bytes)
{
	pg_uuid_t  *uuid = palloc(sizeof *uuid);

	memcpy(uuid->data, bytes, UUID_LEN);
	return UUIDPGetDatum(uuid);
}

Datum
iblt_key_decode(IbltKeyCoder *coder, const uint8 *bytes, unsigned limbs)
{
	Datum		key;

	/* a codec checks its domain by itself */
	if (coder->kind == IBLT_KEY_CANONICAL)
		return decode_canonical(coder, bytes, bytes + 8 * (size_t) limbs);
	key = coder->kind == IBLT_KEY_UUID ? decode_uuid(bytes)
		: decode_integer(coder, (int64) iblt_load64(bytes));
	if (coder->asked != coder->type)
		domain_check(key, false, coder->asked, &coder->domain_cache,
					 coder->context);
	return key;
}

Oid
iblt_key_type(const IbltKeyCoder *coder)
{
	return coder->asked;
}
