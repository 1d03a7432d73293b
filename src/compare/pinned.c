/*-------------------------------------------------------------------------
 *
 * pinned.c
 *	  What does not change between two reads of a comparison.
 *
 *-------------------------------------------------------------------------
 */
#include "compare/pinned.h"

#include "access/transam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "codec/codec.h"

/*
 * Built-in functions that are stable because of settings which the drivers
 * pin.
 */
static const char *const pinned_functions[] = {
	"date", "date_cmp_timestamptz", "date_eq_timestamptz",
	"date_ge_timestamptz", "date_gt_timestamptz", "date_le_timestamptz",
	"date_lt_timestamptz", "date_ne_timestamptz", "date_part", "date_trunc",
	"extract", "interval_pl_timestamptz", "make_timestamptz", "money",
	"numeric", "time", "timestamp", "timestamp_cmp_timestamptz",
	"timestamp_eq_timestamptz", "timestamp_ge_timestamptz",
	"timestamp_gt_timestamptz", "timestamp_le_timestamptz",
	"timestamp_lt_timestamptz", "timestamp_ne_timestamptz", "timestamptz",
	"timestamptz_cmp_date", "timestamptz_cmp_timestamp",
	"timestamptz_eq_date", "timestamptz_eq_timestamp", "timestamptz_ge_date",
	"timestamptz_ge_timestamp", "timestamptz_gt_date",
	"timestamptz_gt_timestamp", "timestamptz_le_date",
	"timestamptz_le_timestamp", "timestamptz_lt_date",
	"timestamptz_lt_timestamp", "timestamptz_mi_interval",
	"timestamptz_ne_date", "timestamptz_ne_timestamp",
	"timestamptz_pl_interval", "timetz", "to_char", "to_date", "to_number",
	"to_timestamp", "xml", NULL
};

/* Built-in functions that are stable because they make text of any type. */
static const char *const textual_functions[] = {
	"anytextcat", "array_to_string", "concat", "concat_ws", "format",
	"textanycat", NULL
};

/*
 * Built-in functions on text whose result does not depend on the collation if
 * it is deterministic.  A function that is missing here counts as dependent.
 */
static const char *const collation_free_functions[] = {
	"anytextcat", "array_eq", "array_length", "array_ne", "array_to_string",
	"arraycontained", "arraycontains", "arrayoverlap", "bpchar", "bpchareq",
	"bpcharlike", "bpcharne", "bpcharnlike", "btrim", "cardinality",
	"char_length", "character_length", "concat", "concat_ws", "date_part",
	"date_trunc", "extract", "json_extract_path", "json_extract_path_text",
	"json_object_field", "json_object_field_text", "jsonb_exists",
	"jsonb_exists_all", "jsonb_exists_any", "jsonb_extract_path",
	"jsonb_extract_path_text", "jsonb_object_field",
	"jsonb_object_field_text", "left", "length", "like", "lpad", "ltrim",
	"md5", "name", "nameeq", "nameeqtext", "namelike", "namene",
	"namenetext", "namenlike", "notlike", "octet_length", "position",
	"repeat", "replace", "reverse", "right", "rpad", "rtrim", "split_part",
	"starts_with", "strpos", "substr", "text", "textanycat", "textcat",
	"texteq", "texteqname", "textlike", "textne", "textnename", "textnlike",
	"timezone", "to_char", "to_date", "to_number", "to_timestamp",
	"translate", "varchar", NULL
};

/*
 * Those of them that fold the case of months and days if the format asks for
 * their names in the language of lc_time, by TM.
 */
static const char *const format_functions[] = {
	"to_char", "to_date", "to_timestamp", NULL
};

/* Those that compare elements of arrays, which an extension's type may order. */
static const char *const element_functions[] = {
	"array_eq", "array_ne", "arraycontained", "arraycontains", "arrayoverlap",
	NULL
};

/* Built-in functions on text whose result depends on its bytes in the database. */
static const char *const encoded_functions[] = {
	"ascii", "bit_length", "chr", "hashtext", "hashtextextended",
	"md5", "octet_length", NULL
};

/* Built-in functions that tell whether values are equal, and not their order. */
static const char *const equality_functions[] = {
	"array_eq", "array_ne", "jsonb_eq", "jsonb_ne", "multirange_eq",
	"multirange_ne", "range_eq", "range_ne", "record_eq", "record_ne", NULL
};

/* Of the functions on jsonb, those that order its strings, in the database's collation. */
static const char *const jsonb_functions[] = {
	"jsonb_cmp", "jsonb_ge", "jsonb_gt", "jsonb_le", "jsonb_lt", NULL
};

/* Those with a path, whose like_regex has the database's collation. */
static const char *const path_functions[] = {
	"jsonb_path_exists", "jsonb_path_exists_opr", "jsonb_path_match",
	"jsonb_path_match_opr", "jsonb_path_query_array", "jsonb_path_query_first",
	NULL
};

/* Those that split text into words by the database's collation. */
static const char *const word_functions[] = {
	"json_to_tsvector", "jsonb_to_tsvector", "phraseto_tsquery",
	"plainto_tsquery", "to_tsquery", "to_tsvector", "ts_headline", "ts_lexize",
	"websearch_to_tsquery", NULL
};

static bool
is_listed(Oid function, const char *const *names)
{
	char	   *name;

	if (function >= FirstGenbkiObjectId)
		return false;
	name = get_func_name(function);
	for (; name != NULL && *names != NULL; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

bool
iblt_function_is_pinned(Oid function)
{
	return is_listed(function, pinned_functions);
}

bool
iblt_function_shows_encoding(Oid function)
{
	return is_listed(function, encoded_functions);
}

bool
iblt_function_makes_text(Oid function)
{
	return is_listed(function, textual_functions);
}

/* Is a format a literal without TM? */
static bool
is_plain_format(const Node *format)
{
	const Const *literal = (const Const *) format;
	char	   *string;

	if (exprType(format) != TEXTOID || !IsA(format, Const))
		return false;
	string = literal->constisnull ? "" : TextDatumGetCString(literal->constvalue);
	return strstr(string, "TM") == NULL && strstr(string, "tm") == NULL;
}

static bool
has_built_in_elements(const Node *array)
{
	Oid			element = get_base_element_type(exprType(array));

	return !OidIsValid(element) || getBaseType(element) < FirstNormalObjectId;
}

static List *
args_of(const Node *call)
{
	switch (nodeTag(call))
	{
		case T_FuncExpr:
			return ((const FuncExpr *) call)->args;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return ((const OpExpr *) call)->args;
		case T_ScalarArrayOpExpr:
			return ((const ScalarArrayOpExpr *) call)->args;
		default:
			return NIL;
	}
}

bool
iblt_call_ignores_collation(Oid function, const Node *call)
{
	List	   *args = args_of(call);

	if (!is_listed(function, collation_free_functions))
		return false;
	if (is_listed(function, format_functions))
		return args != NIL && is_plain_format(llast(args));
	return !is_listed(function, element_functions) ||
		(args != NIL && has_built_in_elements(linitial(args)));
}

/*
 * A test of a type that is not made of others.  text is a literal of it, or
 * NULL.
 */
typedef bool (*TypeTest) (Oid type, const char *text);

static bool every_part(Oid type, TypeTest test, const char *text);

static bool
every_column(Oid type, TypeTest test, const char *text)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(type, -1);
	bool		result = true;
	int			i;

	for (i = 0; result && i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			result = every_part(TupleDescAttr(desc, i)->atttypid, test, text);
	ReleaseTupleDesc(desc);
	return result;
}

/* Does a type pass, or do all the types that it is made of? */
static bool
every_part(Oid type, TypeTest test, const char *text)
{
	Oid			part;

	check_stack_depth();
	type = getBaseType(type);
	part = iblt_codec_type_part(type);
	if (OidIsValid(part))
		return every_part(part, test, text);
	if (get_typtype(type) == TYPTYPE_COMPOSITE)
		return every_column(type, test, text);
	return test(type, text);
}

/* The columns of an anonymous record are not known. */
static bool
has_no_text(Oid type, const char *text)
{
	(void) text;
	return type != RECORDOID && type != JSONBOID &&
		!OidIsValid(get_typcollation(type));
}

/*
 * May the order of a value depend on a collation that the expression does not
 * tell, because text is in a row, a range or a jsonb of it?
 */
static bool
order_hides_collation(const Node *value)
{
	return !OidIsValid(exprCollation(value)) &&
		!every_part(exprType(value), has_no_text, NULL);
}

/* May a value be a path with a like_regex? */
static bool
may_match_regex(const Node *value)
{
	const Const *literal = (const Const *) value;

	if (exprType(value) != JSONPATHOID)
		return false;
	if (!IsA(value, Const))
		return true;
	return !literal->constisnull &&
		strstr(OidOutputFunctionCall(F_JSONPATH_OUT, literal->constvalue), "like_regex") != NULL;
}

Oid
iblt_order_collation(const Node *minmax)
{
	return order_hides_collation(minmax) ? DEFAULT_COLLATION_OID
		: exprInputCollation(minmax);
}

bool
iblt_call_hides_collation(Oid function, const Node *call)
{
	ListCell   *lc;

	if (is_listed(function, equality_functions))
		return false;
	if (is_listed(function, word_functions))
		return true;
	foreach(lc, args_of(call))
	{
		if (is_listed(function, path_functions) && may_match_regex(lfirst(lc)))
			return true;
		if (order_hides_collation(lfirst(lc)) &&
			(getBaseType(exprType(lfirst(lc))) != JSONBOID ||
			 is_listed(function, jsonb_functions)))
			return true;
	}
	return false;
}

/*
 * Would a date or time be read from the clock?  Quotes of containers are
 * skipped.
 */
static bool
reads_clock(const char *text)
{
	static const char *const words[] = {"now", "today", "tomorrow", "yesterday"};
	char		word[16];
	size_t		length = 0;
	size_t		i;

	for (;; text++)
	{
		if (*text == '"' || *text == '\\')
			continue;
		if ((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z'))
		{
			if (length < sizeof(word) - 1)
				word[length++] = pg_tolower((unsigned char) *text);
			continue;
		}
		word[length] = '\0';
		for (i = 0; i < lengthof(words); i++)
			if (strcmp(word, words[i]) == 0)
				return true;
		length = 0;
		if (*text == '\0')
			return false;
	}
}

static bool
literal_is_pinned(Oid type, const char *text)
{
	Oid			function;
	Oid			param;

	switch (type)
	{
		case DATEOID:
		case TIMEOID:
		case TIMETZOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return text != NULL && !reads_clock(text);
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return text != NULL;
		case INTERVALOID:
		case CASHOID:
		case XMLOID:
			return true;
	}
	if (type_is_enum(type))
		return true;
	getTypeInputInfo(type, &function, &param);
	return func_volatile(function) == PROVOLATILE_IMMUTABLE;
}

static bool
text_is_pinned(Oid type, const char *text)
{
	Oid			function;
	bool		varlena;

	/*
	 * The text of an interval is not, because iblt_repair sets IntervalStyle
	 * itself.  PostgreSQL 13 calls interval_out immutable.
	 */
	(void) text;
	switch (type)
	{
		case INTERVALOID:
			return false;
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case CASHOID:
			return true;
	}
	if (type_is_enum(type))
		return true;
	getTypeOutputInfo(type, &function, &varlena);
	return func_volatile(function) == PROVOLATILE_IMMUTABLE;
}

bool
iblt_input_is_pinned(Oid type, const char *literal)
{
	return every_part(type, literal_is_pinned, literal);
}

bool
iblt_output_is_pinned(Oid type)
{
	return every_part(type, text_is_pinned, NULL);
}
