/*
 * parts.c
 *	  What types are made of.
 *
 * The canonical bytes of a row are those of its columns, and the bytes of a date may be those of an
 * integer.  So values of types that have one name, but are made of different types, could be taken
 * for equal.  Without a send function, a checksum takes the text of values.  An extension may have
 * one in some of its versions only (cube: from 1.5 on).
 */
#include "relation/relation.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "codec/codec.h"

/* The type below all domains, InvalidOid if one of them has been dropped. */
static Oid
base_type(Oid type)
{
	FormData_pg_type form;

	while (iblt_type_form(type, true, &form))
	{
		if (form.typtype != TYPTYPE_DOMAIN)
			return type;
		type = form.typbasetype;
	}
	return InvalidOid;
}

/* Do the canonical bytes of values depend on the modifier of the type? */
static bool
is_modified(Oid type)
{
	return type == BPCHAROID || type == BPCHARARRAYOID || type == BITOID || type == BITARRAYOID ||
		type == NUMERICOID || type == NUMERICARRAYOID;
}

static void append_parts(StringInfo parts, List **textual, Oid type, int32 typmod);

/* The columns of a composite type. */
static void
append_columns(StringInfo parts, List **textual, Oid relid)
{
	const char *before = "(";
	ListCell   *lc;

	foreach(lc, iblt_catalog_rows(AttributeRelationId, AttributeRelidNumIndexId,
								  Anum_pg_attribute_attrelid, relid, GetActiveSnapshot()))
	{
		Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT((HeapTuple) lfirst(lc));

		if (att->attnum <= 0 || att->attisdropped)
			continue;
		appendStringInfoString(parts, before);
		escape_json(parts, NameStr(att->attname));
		appendStringInfoChar(parts, ' ');
		append_parts(parts, textual, att->atttypid, att->atttypmod);
		before = ", ";
	}
	appendStringInfoString(parts, *before == '(' ? "()" : ")");
}

/*
 * The columns, elements and bounds that values of a type with that modifier have, with their
 * types, and the names of those types that have no send function.  Domains count as what they are
 * over, and an enum's labels show in its values.
 */
static void
append_parts(StringInfo parts, List **textual, Oid type, int32 typmod)
{
	FormData_pg_type form;
	char	   *name = format_type_extended(type, is_modified(type) ? typmod : -1,
											(is_modified(type) ? FORMAT_TYPE_TYPEMOD_GIVEN : 0) |
											FORMAT_TYPE_ALLOW_INVALID);

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (type < FirstNormalObjectId || !iblt_type_form(type, true, &form))
	{
		appendStringInfoString(parts, name);
		return;
	}
	if (form.typtype == TYPTYPE_BASE && !OidIsValid(form.typsend))
		*textual = lappend(*textual, pstrdup(NameStr(form.typname)));
	if (form.typtype == TYPTYPE_DOMAIN)
		append_parts(parts, textual, form.typbasetype, form.typtypmod);
	else if (OidIsValid(form.typelem) && get_array_type(form.typelem) == type)
	{
		append_parts(parts, textual, form.typelem, -1);
		appendStringInfoString(parts, "[]");
	}
	else if (form.typtype == TYPTYPE_RANGE || form.typtype == TYPTYPE_MULTIRANGE)
	{
		appendStringInfo(parts, "%s of ", name);
		append_parts(parts, textual, get_range_subtype(form.typtype == TYPTYPE_RANGE
														   ? type : get_multirange_range(type)), -1);
	}
	else if (form.typtype == TYPTYPE_COMPOSITE)
		append_columns(parts, textual, form.typrelid);
	else
	{
		StringInfoData unused;

		/* a type that somebody made with elements, and no array */
		initStringInfo(&unused);
		if (OidIsValid(form.typelem))
			append_parts(&unused, textual, form.typelem, -1);
		appendStringInfo(parts, "%s%s", name, form.typtype == TYPTYPE_ENUM ? " enum" : "");
	}
}

static int
by_name(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

void
iblt_append_type(StringInfo json, Oid type, int32 typmod)
{
	Oid			base = base_type(type);
	const char *last = "";
	List	   *textual = NIL;
	ListCell   *lc;
	StringInfoData parts;

	appendStringInfoString(json, "\"type\": ");
	escape_json(json, format_type_extended(type, is_modified(type) ? typmod : -1,
										   FORMAT_TYPE_TYPEMOD_GIVEN |
										   FORMAT_TYPE_ALLOW_INVALID));
	if (OidIsValid(base))
		appendStringInfo(json, ", \"base\": %u", base);
	if (type >= FirstNormalObjectId)
	{
		initStringInfo(&parts);
		append_parts(&parts, &textual, type, -1);
		appendStringInfoString(json, ", \"parts\": ");
		escape_json(json, parts.data);
	}
	appendStringInfoString(json, ", \"textual\": [");
	list_sort(textual, by_name);
	foreach(lc, textual)
	{
		if (strcmp(last, lfirst(lc)) == 0)
			continue;
		appendStringInfoString(json, *last == '\0' ? "" : ", ");
		last = lfirst(lc);
		escape_json(json, last);
	}
	appendStringInfoChar(json, ']');
}

PG_FUNCTION_INFO_V1(iblt_describe_type);

/* iblt_describe_type(type, modifier) -> jsonb */
Datum
iblt_describe_type(PG_FUNCTION_ARGS)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	iblt_append_type(&json, PG_GETARG_OID(0), PG_GETARG_INT32(1));
	appendStringInfoChar(&json, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}
