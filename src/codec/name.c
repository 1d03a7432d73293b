/*
 * name.c
 *	  Portable descriptions of types: "text", "int4[]", "(int4,text)",
 *	  "public.mood".
 *
 *		type = row | name | type "[]"
 *		row  = "(" [type {"," type}] ")"
 *		name = [schema "."] typname
 *
 * Types of pg_catalog have no schema, all others have one.  A part is quoted
 * as an SQL identifier unless it consists of a-z, 0-9 and _ and does not begin
 * with a digit.  Keywords are not quoted, because they differ between versions.
 *
 * A description may come from an attacker.  It is bounded in length, depth
 * and columns.  Reading it resolves no name through search_path and runs
 * nothing.  Only the spelling that is written here is accepted.
 */
#include "postgres.h"

#include "catalog/pg_namespace.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "codec/private.h"

#define MAX_NAME	(NAMEDATALEN * MAX_CONVERSION_GROWTH)

/* Where the parser is, how deep in rows, and whether a type is not of pg_catalog. */
typedef struct Parser
{
	const char *p;
	int			depth;
	bool		foreign;
} Parser;

static Oid	parse_type(Parser *parser, int32 *typmod);

static void
append_identifier(StringInfo out, const char *name)
{
	StringInfoData utf8;

	if (*name != '\0' && !(*name >= '0' && *name <= '9') &&
		name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0')
	{
		appendStringInfoString(out, name);
		return;
	}
	initStringInfo(&utf8);
	iblt_append_utf8(&utf8, name, strlen(name));
	appendStringInfoChar(out, '"');
	for (int i = 0; i < utf8.len; i++)
	{
		if (utf8.data[i] == '"')
			appendStringInfoChar(out, '"');
		appendStringInfoChar(out, utf8.data[i]);
	}
	appendStringInfoChar(out, '"');
	pfree(utf8.data);
}

static void
append_type_name(StringInfo out, Oid type)
{
	FormData_pg_type form;

	if (type == VARCHAROID || type == UNKNOWNOID)
		type = TEXTOID;
	(void) iblt_type_form(type, false, &form);
	if (form.typnamespace != PG_CATALOG_NAMESPACE)
	{
		char	   *schema = get_namespace_name(form.typnamespace);

		if (schema == NULL)
			elog(ERROR, "cache lookup failed for namespace %u",
				 form.typnamespace);
		append_identifier(out, schema);
		appendStringInfoChar(out, '.');
	}
	append_identifier(out, NameStr(form.typname));
}

static void
refuse_long_description(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("description of the key type is too long"),
			 errdetail("The names of its columns' types take more than %d bytes.",
					   IBLT_MAX_DESCRIPTION),
			 errhint("Use fewer columns, or use iblt_checksum(key) as the key and look rows up by it.")));
}

/*
 * Appends the description of a type at a level of nesting, counted as
 * parse_type counts.
 */
static void
append_description(StringInfo out, IbltCodec *codec, int level)
{
	IbltRow    *row = iblt_codec_own_row(codec);

	check_stack_depth();
	if (level > IBLT_MAX_DESCRIPTION_DEPTH)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("rows in the key are nested too deeply"),
				 errdetail("Rows can be nested up to %d levels deep.",
						   IBLT_MAX_DESCRIPTION_DEPTH - 1),
				 errhint("Use iblt_checksum(key) as the key and look rows up by it.")));
	if (out->len > IBLT_MAX_DESCRIPTION)
		refuse_long_description();
	if (codec->kind == IBLT_KIND_ARRAY && codec->base != INT2VECTOROID &&
		codec->base != OIDVECTOROID)
	{
		bool		records = codec->element->base == RECORDOID && codec->element->typmod < 0;

		/*
		 * SQL has arrays of arrays only through a domain, and descriptions do not name domains.
		 * Anonymous rows in an array may differ in their columns, and a description has one
		 * entry for all of them.
		 */
		if (records || !OidIsValid(get_array_type(codec->element->base)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("array of %s cannot be a key",
							records ? "records" : "domains over arrays"),
					 errdetail("The array has elements of type %s.",
							   format_type_be(codec->element->type)),
					 errhint("Use key::text or iblt_checksum(key) as the key.")));
		append_description(out, codec->element, level);
		appendStringInfoString(out, "[]");
		return;
	}
	if (row == NULL)
	{
		if (codec->base == RECORDOID)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("columns of a record in the key are unknown"),
					 errdetail("The record is null."),
					 errhint("Cast it to a named row type, such as NULL::mytype.")));
		append_type_name(out, codec->base);
		return;
	}
	appendStringInfoChar(out, '(');
	for (int i = 0; i < row->ncolumns; i++)
	{
		if (i > 0)
			appendStringInfoChar(out, ',');
		append_description(out, row->columns[i], level + 1);
	}
	appendStringInfoChar(out, ')');
}

char *
iblt_codec_description(IbltCodec *codec)
{
	StringInfoData out;

	initStringInfo(&out);
	append_description(&out, codec, 1);
	if (out.len > IBLT_MAX_DESCRIPTION)
		refuse_long_description();
	for (int i = 0; i < out.len; i++)
		if ((unsigned char) out.data[i] < ' ' || out.data[i] == 0x7f)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("type whose name contains a control character cannot be a key"),
					 errhint("Rename the type, or use key::text as the key.")));
	return out.data;
}

bool
iblt_codec_is_known(IbltCodec *codec)
{
	IbltRow    *row = iblt_codec_own_row(codec);

	check_stack_depth();
	if (codec->kind == IBLT_KIND_ARRAY)
		return iblt_codec_is_known(codec->element);
	if (row == NULL)
		return codec->kind != IBLT_KIND_ROW;
	for (int i = 0; i < row->ncolumns; i++)
	{
		if (!iblt_codec_is_known(row->columns[i]))
			return false;
	}
	return true;
}

static void
malformed(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("malformed type description")));
}

/* Reads an identifier.  Returns it in the server's encoding. */
static char *
next_name(Parser *parser)
{
	char		name[MAX_NAME];
	bool		quoted = *parser->p == '"';
	bool		closed = !quoted;
	int			len = 0;

	if (quoted)
		parser->p++;
	for (;; parser->p++)
	{
		char		c = *parser->p;

		if (quoted && c == '"')
		{
			parser->p++;
			closed = *parser->p != '"';
			if (closed)
				break;
		}
		else if (c == '\0' || (!quoted && strchr("(),.[]\"", c) != NULL))
			break;
		if (len >= MAX_NAME)
			malformed();
		name[len++] = c;
	}
	if (len == 0 || !closed)
		malformed();
	return iblt_utf8_to_server(name, len);
}

/* A type of pg_catalog by its name, or bytea for one of another schema. */
static Oid
parse_name(Parser *parser)
{
	char	   *name = next_name(parser);
	Oid			type = InvalidOid;

	if (*parser->p == '.')
	{
		parser->p++;
		(void) next_name(parser);
		parser->foreign = true;
		return BYTEAOID;
	}
	if (strlen(name) < NAMEDATALEN)
		type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
							   CStringGetDatum(name),
							   ObjectIdGetDatum(PG_CATALOG_NAMESPACE));
	if (type == RECORDOID)
		malformed();
	if (!OidIsValid(type) || !get_typisdefined(type))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("type \"%s\" does not exist in this database", name),
				 errhint("Decode in a release of PostgreSQL that has the type.")));
	return type;
}

/* A row type: RECORDOID, and the typmod under which its columns are known. */
static int32
parse_row(Parser *parser)
{
	Oid		   *types = palloc(sizeof(Oid) * IBLT_MAX_COLUMNS);
	int32	   *typmods = palloc(sizeof(int32) * IBLT_MAX_COLUMNS);
	int32		typmod;
	int			n = 0;

	parser->p++;
	while (*parser->p != ')')
	{
		if (n > 0 && *parser->p++ != ',')
			malformed();
		if (n >= IBLT_MAX_COLUMNS)
			malformed();
		types[n] = parse_type(parser, &typmods[n]);
		n++;
	}
	parser->p++;
	typmod = iblt_codec_row_typmod(n, types, typmods);
	pfree(types);
	pfree(typmods);
	return typmod;
}

/* Reads a type, and the typmod that tells anonymous rows apart. */
static Oid
parse_type(Parser *parser, int32 *typmod)
{
	Oid			type;

	if (++parser->depth > IBLT_MAX_DESCRIPTION_DEPTH)
		malformed();
	*typmod = -1;
	if (*parser->p == '(')
	{
		*typmod = parse_row(parser);
		type = RECORDOID;
	}
	else
		type = parse_name(parser);
	parser->depth--;

	while (*parser->p == '[')
	{
		if (parser->p[1] != ']')
			malformed();
		parser->p += 2;
		type = get_array_type(type);
		if (!OidIsValid(type))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("array type in the key's type description does not exist"),
					 errdetail("Arrays of domains over arrays cannot be decoded.")));
	}
	return type;
}

IbltCodec *
iblt_codec_from_description(const char *description, MemoryContext cxt)
{
	Parser		parser = {description, 0, false};
	IbltCodec  *codec;
	Oid			type;
	int32		typmod;

	if (strnlen(description, IBLT_MAX_DESCRIPTION + 1) > IBLT_MAX_DESCRIPTION)
		malformed();
	type = parse_type(&parser, &typmod);
	if (*parser.p != '\0')
		malformed();
	if (parser.foreign)
		return NULL;
	codec = iblt_codec_build(type, typmod, cxt);
	if (strcmp(description, iblt_codec_description(codec)) != 0)
		malformed();
	return codec;
}
