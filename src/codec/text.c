/*
 * text.c
 *	  Text in UTF-8, and whatever else must not depend on the session: pinned
 *	  client encoding, pinned settings, and the types that order their parts by
 *	  bytes in the server's encoding.
 *
 * In SQL_ASCII databases nothing is known about text, and its bytes are taken
 * as they are.  Everything here also works in parallel workers.
 *
 * Limits: two server characters with the same character in Unicode are the
 * same here.  It is an ERROR if that makes two keys of one jsonb equal.
 */
#include "postgres.h"

#include "catalog/pg_conversion.h"
#include "catalog/pg_namespace.h"
#include "utils/guc.h"
#include "utils/jsonb.h"

#include "codec/private.h"

#define HIGH_BITS	UINT64_C(0x8080808080808080)

/* One entry of a tsvector or hstore: its sort key, and all of it. */
typedef struct SortedEntry
{
	const char *key;
	int			keylen;
	const char *data;
	int			len;
} SortedEntry;

/* Is server text canonical without conversion? */
bool
iblt_text_is_raw(void)
{
	int			encoding = GetDatabaseEncoding();

	return encoding == PG_UTF8 || encoding == PG_SQL_ASCII;
}

static bool
is_ascii(const char *text, Size len)
{
	uint64		chunk;

	for (; len >= sizeof(chunk); text += sizeof(chunk), len -= sizeof(chunk))
	{
		memcpy(&chunk, text, sizeof(chunk));
		if (chunk & HIGH_BITS)
			return false;
	}
	for (; len > 0; text++, len--)
	{
		if (IS_HIGHBIT_SET(*text))
			return false;
	}
	return true;
}

/*
 * Appends server text as UTF-8, without a length or a final NUL.  The conversion must be in
 * pg_catalog, because one found through search_path could be anybody's.
 */
void
iblt_append_utf8(StringInfo buf, const char *text, Size len)
{
	static FmgrInfo conversion;
	char	   *out;

	if (iblt_text_is_raw() || is_ascii(text, len))
	{
		iblt_append_binary(buf, text, len);
		return;
	}
	if (len >= MaxAllocSize / MAX_CONVERSION_GROWTH)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("text of %zu bytes is too long to convert to UTF-8",
						len)));
	if (!OidIsValid(conversion.fn_oid))
	{
		Oid			function = FindDefaultConversion(PG_CATALOG_NAMESPACE,
													 GetDatabaseEncoding(), PG_UTF8);

		if (!OidIsValid(function))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("default conversion function for encoding \"%s\" to \"%s\" does not exist",
							GetDatabaseEncodingName(), "UTF8")));
		fmgr_info_cxt(function, &conversion, TopMemoryContext);
	}
	enlargeStringInfo(buf, (int) len * MAX_CONVERSION_GROWTH + 1);
	out = buf->data + buf->len;
	FunctionCall6(&conversion, Int32GetDatum(GetDatabaseEncoding()),
				  Int32GetDatum(PG_UTF8), CStringGetDatum(text),
				  CStringGetDatum(out), Int32GetDatum((int) len),
				  BoolGetDatum(false));
	buf->len += (int) strlen(out);
}

/* Server text as an item in UTF-8. */
void
iblt_append_text_item(StringInfo buf, const char *text, Size len)
{
	int			start;

	if (iblt_text_is_raw() || is_ascii(text, len))
	{
		append_bytes_item(buf, text, len);
		return;
	}
	start = iblt_item_begin(buf);
	iblt_append_utf8(buf, text, len);
	iblt_item_end(buf, start);
}

/*
 * The inverse, palloc'd and NUL-terminated.  ERROR if the bytes are not valid
 * text, contain a NUL, or have no equivalent in this database's encoding.
 */
char *
iblt_utf8_to_server(const char *text, int len)
{
	char	   *copy = pnstrdup(text, len);

	if ((int) strlen(copy) != len)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("canonical text contains a zero byte")));
	return pg_any_to_server(copy, len, iblt_pinned_encoding());
}

/* The client encoding with which send and receive functions use UTF-8. */
int
iblt_pinned_encoding(void)
{
	return GetDatabaseEncoding() == PG_SQL_ASCII ? PG_SQL_ASCII : PG_UTF8;
}

/*
 * Sets the client encoding without the GUC, which parallel workers must not
 * change.  Returns the argument for iblt_unpin_encoding, which the caller
 * calls even after an error.
 */
int
iblt_pin_encoding(int encoding)
{
	int			saved = pg_get_client_encoding();

	if (saved == encoding || SetClientEncoding(encoding) >= 0)
		return saved;
	if (PrepareClientEncoding(encoding) < 0 || SetClientEncoding(encoding) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("conversion between %s and %s is not supported",
						pg_encoding_to_char(encoding),
						GetDatabaseEncodingName())));
	return saved;
}

void
iblt_unpin_encoding(int saved)
{
	if (saved != pg_get_client_encoding() && SetClientEncoding(saved) < 0)
		elog(ERROR, "could not restore client encoding %d", saved);
}

/* Calls the codec's send function under a client encoding. */
bytea *
iblt_call_send(IbltCodec *codec, Datum value, int encoding)
{
	bytea	   *volatile sent = NULL;
	int			saved;

	if (pg_get_client_encoding() == encoding)
		return SendFunctionCall(&codec->write, value);
	saved = iblt_pin_encoding(encoding);
	PG_TRY();
	{
		sent = SendFunctionCall(&codec->write, value);
	}
	PG_FINALLY();
	{
		iblt_unpin_encoding(saved);
	}
	PG_END_TRY();
	return sent;
}

/*
 * Pins the settings that output and input functions depend on, as a function's
 * SET clause does.  AtEOXact_GUC(true, result) ends it, and so does an error.
 * pg_temp is named so that temporary objects cannot hide those of pg_catalog.
 */
int
iblt_pin_settings(bool names_only)
{
	static const struct
	{
		const char *name;
		const char *value;
		bool		for_names;
	}			pins[] = {
		{"search_path", "pg_catalog, pg_temp", true},
		{"quote_all_identifiers", "off", true},
		{"DateStyle", "ISO, YMD", false},
		{"IntervalStyle", "postgres", false},
		{"TimeZone", "UTC", false},
		{"extra_float_digits", "1", false},
		{"bytea_output", "hex", false},
		{"xmlbinary", "base64", false},
		{"lc_monetary", "C", false},
		{"lc_numeric", "C", false},
		{"lc_time", "C", false},
	};
	int			level = NewGUCNestLevel();

	for (int i = 0; i < (int) lengthof(pins); i++)
	{
		if (names_only && !pins[i].for_names)
			continue;
		(void) set_config_option(pins[i].name, pins[i].value, PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
								 false);
	}
	return level;
}

/*
 * The bytes that jsonb_send gives in a UTF8 database, for a database of any
 * other known encoding.  The text keeps its length when members are reordered,
 * unless two keys became equal.
 */
void
iblt_append_jsonb(StringInfo buf, Datum value)
{
	Jsonb	   *jsonb = DatumGetJsonbP(value);
	const char	version = 1;
	char	   *text = JsonbToCString(NULL, &jsonb->root, VARSIZE(jsonb));
	JsonbIterator *it = JsonbIteratorInit(&jsonb->root);
	JsonbInState state = {0};
	JsonbValue	part;
	JsonbIteratorToken token;
	StringInfoData plain;

	iblt_append_binary(buf, &version, 1);
	if (is_ascii(text, strlen(text)))
	{
		iblt_append_binary(buf, text, strlen(text));
		return;
	}
	initStringInfo(&plain);
	iblt_append_utf8(&plain, text, strlen(text));
	/* the constructor of jsonb orders keys by length and bytes, as in a UTF8 database */
	while ((token = JsonbIteratorNext(&it, &part, false)) != WJB_DONE)
	{
		bool		scalar = token == WJB_KEY || token == WJB_VALUE || token == WJB_ELEM;
		bool		raw = token == WJB_BEGIN_ARRAY && part.val.array.rawScalar;

		if (scalar && part.type == jbvString)
		{
			StringInfoData utf8;

			initStringInfo(&utf8);
			iblt_append_utf8(&utf8, part.val.string.val, part.val.string.len);
			part.val.string.val = utf8.data;
			part.val.string.len = utf8.len;
		}
		iblt_push_jsonb(&state, token, scalar || raw ? &part : NULL);
	}
	jsonb = JsonbValueToJsonb(state.result);
	text = JsonbToCString(NULL, &jsonb->root, VARSIZE(jsonb));
	if ((int) strlen(text) != plain.len)
		ereport(ERROR,
				(errcode(ERRCODE_UNTRANSLATABLE_CHARACTER),
				 errmsg("different keys of a jsonb value are equal in UTF-8")));
	iblt_append_binary(buf, text, plain.len);
}

/* By the bytes of the keys, and before that by their length, if so asked. */
static int
compare_entries(const void *a, const void *b, void *by_length)
{
	const SortedEntry *x = a;
	const SortedEntry *y = b;
	int			order = 0;

	if (!*(bool *) by_length || x->keylen == y->keylen)
		order = memcmp(x->key, y->key, Min(x->keylen, y->keylen));
	return order != 0 ? order : x->keylen - y->keylen;
}

static void
append_sorted(StringInfo buf, SortedEntry *entries, uint32 n, bool by_length)
{
	qsort_arg(entries, n, sizeof(SortedEntry), compare_entries, &by_length);
	iblt_append_int32(buf, n);
	for (uint32 i = 0; i < n; i++)
		iblt_append_binary(buf, entries[i].data, entries[i].len);
}

static uint32
get_int32(const char *p)
{
	uint32		value;

	memcpy(&value, p, sizeof(value));
	return pg_ntoh32(value);
}

/* The entries of tsvectorsend, ordered by the UTF-8 bytes of the lexemes. */
void
iblt_append_tsvector(StringInfo buf, IbltCodec *codec, Datum value)
{
	bytea	   *sent = iblt_call_send(codec, value, PG_UTF8);
	const char *p = VARDATA(sent);
	uint32		n = get_int32(p);
	SortedEntry *entries = palloc(n * sizeof(SortedEntry));

	p += 4;
	for (uint32 i = 0; i < n; i++)
	{
		uint16		npositions;

		entries[i].key = entries[i].data = p;
		entries[i].keylen = (int) strlen(p);
		p += entries[i].keylen + 1;
		memcpy(&npositions, p, sizeof(npositions));
		p += 2 + 2 * pg_ntoh16(npositions);
		entries[i].len = (int) (p - entries[i].data);
	}
	append_sorted(buf, entries, n, false);
}

/* Appends a length and the text in UTF-8.  Returns where the text begins. */
static int
append_counted_utf8(StringInfo buf, const char *text, uint32 len)
{
	int			start = buf->len;
	uint32		width;

	iblt_append_int32(buf, 0);
	iblt_append_utf8(buf, text, len);
	width = pg_hton32((uint32) (buf->len - start - 4));
	memcpy(buf->data + start, &width, sizeof(width));
	return start + 4;
}

/*
 * The pairs of hstore_send, ordered by length and bytes of the UTF-8 keys.
 * hstore_send counts bytes in the server's encoding even if it converts.  So
 * it sends in that encoding, and the texts are converted here.
 */
void
iblt_append_hstore(StringInfo buf, IbltCodec *codec, Datum value)
{
	bytea	   *sent = iblt_call_send(codec, value, GetDatabaseEncoding());
	const char *p = VARDATA(sent);
	uint32		n = get_int32(p);
	SortedEntry *entries = palloc(n * sizeof(SortedEntry));

	p += 4;
	for (uint32 i = 0; i < n; i++)
	{
		StringInfoData pair;
		uint32		len = get_int32(p);
		int			key;

		initStringInfo(&pair);
		key = append_counted_utf8(&pair, p + 4, len);
		entries[i].keylen = pair.len - key;
		p += 4 + len;
		len = get_int32(p);
		p += 4;
		if (len == PG_UINT32_MAX)
			iblt_append_int32(&pair, len);
		else
		{
			append_counted_utf8(&pair, p, len);
			p += len;
		}
		entries[i].key = pair.data + key;
		entries[i].data = pair.data;
		entries[i].len = pair.len;
	}
	append_sorted(buf, entries, n, true);
}
