/*
 * plan.c
 *	  Steps of a plan, for which a new session would plan queries if they were
 *	  functions in SQL.
 */
#include "relation/field.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

/* Is a text among these? */
static bool
has_text(char **texts, int n, const char *wanted)
{
	for (int i = 0; i < n; i++)
		if (texts[i] != NULL && strcmp(texts[i], wanted) == 0)
			return true;
	return false;
}

/* --- options ------------------------------------------------------------------- */

/* Options that are one of these texts. */
static const struct
{
	const char *name;
	const char *texts[3];
}			choices[] = {
	{"extra_columns", {"warn", "error", "ignore"}},
	{"live", {"off", "auto", "require"}},
	{"method", {"sketch", "plain", "auto"}}
};

/* Is a time from 0 to a year? */
static bool
is_timeout(Datum value)
{
	Interval	zero = {0};
	Interval	year = {.month = MONTHS_PER_YEAR};

	return DatumGetBool(DirectFunctionCall2(interval_ge, value, IntervalPGetDatum(&zero))) &&
		DatumGetBool(DirectFunctionCall2(interval_le, value, IntervalPGetDatum(&year)));
}

/* What does not fit, or NULL. */
static const char *
options_problem(Datum options, int64 most)
{
	static const char *const lists[] = {"columns", "exclude", "key_columns"};
	static const char *const flags[] = {"content", "cast_types", "progress", "by_index"};
	Datum		value = iblt_field_of(options, "max_differences");

	if (DatumGetInt64(value) < 1 || DatumGetInt64(value) > most)
		return psprintf("max_differences must be between 1 and " INT64_FORMAT, most);
	/* NULL is 0, which is allowed */
	if ((uint32) DatumGetInt32(iblt_field_of(options, "recheck")) > 1000)
		return "recheck must be between 0 and 1000";
	value = iblt_field_of(options, "timeout");
	if (value == 0 || !is_timeout(value))
		return "timeout must be between 0 and 1 year";
	for (int i = 0; i < (int) lengthof(lists); i++)
	{
		value = iblt_field_of(options, lists[i]);
		if (value == 0)
			continue;
		if (array_contains_nulls(DatumGetArrayTypeP(value)))
			return "columns, exclude and key_columns must not contain nulls";
		if (i != 1 && ARR_NDIM(DatumGetArrayTypeP(value)) == 0)
			return "columns and key_columns must not be empty";
	}
	for (int i = 0; i < (int) lengthof(flags); i++)
	{
		bool		isnull;

		(void) GetAttributeByName(DatumGetHeapTupleHeader(options), flags[i], &isnull);
		if (isnull)
			return "rows, cast_types, progress and by_index must not be null";
	}
	if (*iblt_text_field(options, "content", "") == '\0')
		return "rows must be false, columns, changed or true";
	for (int i = 0; i < (int) lengthof(choices); i++)
	{
		const char *const *texts = choices[i].texts;
		const char *given = iblt_text_field(options, choices[i].name, "");

		if (strcmp(given, texts[0]) != 0 && strcmp(given, texts[1]) != 0 && strcmp(given, texts[2]) != 0)
			return psprintf("%s must be %s, %s or %s", choices[i].name, texts[0], texts[1], texts[2]);
	}
	return NULL;
}

PG_FUNCTION_INFO_V1(iblt_check_options);

/* iblt_check_options(relation, options, of_nodes) -> void: an error for options that do not fit */
Datum
iblt_check_options(PG_FUNCTION_ARGS)
{
	const char *problem = PG_ARGISNULL(0) ? "relation must not be null"
		: PG_ARGISNULL(1) ? "options must not be null"
		: options_problem(PG_GETARG_DATUM(1),
						  PG_GETARG_BOOL(2) ? 200000 : PG_INT32_MAX);

	if (problem != NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg_internal("%s", problem)));
	if (!SearchSysCacheExists1(RELOID, PG_GETARG_DATUM(0)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", PG_GETARG_OID(0))));
	PG_RETURN_VOID();
}

/* --- columns ------------------------------------------------------------------- */

/* A column of a side. */
typedef struct Column
{
	const char *name;
	const char *type;
	const char *parts;			/* NULL for a built-in type */
	const char *textual;		/* an array's text */
	int64		base;			/* 0: not known */
	bool		not_null;
} Column;

/* The schema of a name in SQL, as that of a type has it before a dot, or "". */
static const char *
schema_of(const char *relation)
{
	List	   *names = relation == NULL ? NIL : textToQualifiedNameList(cstring_to_text(relation));

	return list_length(names) < 2 ? "" : psprintf("%s.", quote_identifier(strVal(linitial(names))));
}

/* The name of a type with another schema, also within parentheses and behind blanks. */
static const char *
with_schema(const char *type, const char *schema, const char *other)
{
	StringInfoData name;
	const char *found;
	const char *from = type;

	if (type == NULL || *schema == '\0' || strcmp(schema, other) == 0)
		return type;
	initStringInfo(&name);
	while ((found = strstr(from, schema)) != NULL)
	{
		bool		begins = found == type || found[-1] == ' ' || found[-1] == '(';
		size_t		length = begins ? 0 : strlen(schema);

		appendBinaryStringInfo(&name, from, (int) (found - from + length));
		if (begins)
			appendStringInfoString(&name, other);
		from = found + strlen(schema);
	}
	appendStringInfoString(&name, from);
	return name.data;
}

/* The columns of a side. */
static Column *
columns_of(Datum side, int *n)
{
	int			all;
	Datum	   *rows = iblt_rows_of(iblt_field_of(side, "columns"), &all);
	Column	   *columns = palloc(sizeof(Column) * Max(all, 1));

	*n = 0;
	for (int i = 0; i < all; i++)
	{
		Column	   *c = &columns[*n];
		Datum		textual;

		if (rows[i] == 0 || (c->name = iblt_text_field(rows[i], "name", NULL)) == NULL)
			continue;
		c->type = iblt_text_field(rows[i], "type", NULL);
		c->parts = iblt_text_field(rows[i], "parts", NULL);
		c->base = DatumGetInt64(iblt_field_of(rows[i], "base"));
		c->not_null = iblt_flag_field(rows[i], "not_null");
		textual = iblt_field_of(rows[i], "textual");
		c->textual = textual == 0 ? NULL : OidOutputFunctionCall(F_ARRAY_OUT, textual);
		(*n)++;
	}
	return columns;
}

/* Are both types among these? */
static bool
both_in(const Column *here, const Column *there, const Oid *types)
{
	bool		a = false;
	bool		b = false;

	for (; OidIsValid(*types); types++)
	{
		a = a || here->base == (int64) *types;
		b = b || there->base == (int64) *types;
	}
	return a && b;
}

/* The type to compare in; values_sql converts. */
static const char *
common_type(const Column *here, const Column *there)
{
	static const struct
	{
		const char *type;
		Oid			of[7];
	}			common[] = {
		{"int8", {INT8OID, INT2OID, INT4OID}},
		{"float8", {FLOAT4OID, FLOAT8OID}},
		{"numeric", {INT8OID, INT2OID, INT4OID, FLOAT4OID, FLOAT8OID, NUMERICOID}},
		{"numeric[]", {INT2ARRAYOID, INT4ARRAYOID, INT8ARRAYOID, NUMERICARRAYOID}},
		{"text[]", {TEXTARRAYOID, BPCHARARRAYOID, VARCHARARRAYOID}}
	};

	for (int i = 0; i < (int) lengthof(common); i++)
		if (both_in(here, there, common[i].of))
			return common[i].type;
	return "text";
}

static bool
same(const char *a, const char *b)
{
	return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* A column of both sides as a plan_column. */
static Datum
plan_column(const Column *here, const Column *there, const Column *renamed, TupleDesc desc)
{
	bool		other_parts = here->parts != NULL && renamed->parts != NULL && strcmp(here->parts, renamed->parts) != 0;
	bool		is_same = same(here->type, renamed->type) && !other_parts && same(here->textual, there->textual) &&
		here->base != 0 && (here->base == there->base || Min(here->base, there->base) >= (int64) FirstNormalObjectId);
	bool		made_of = same(here->type, renamed->type) && other_parts;	/* what they are made of differs */
	Datum		values[9] = {
		CStringGetTextDatum(here->name),
		CStringGetTextDatum(is_same ? "" : common_type(here, there)),
		Int64GetDatum(here->base), Int64GetDatum(there->base), 0, 0, BoolGetDatum(same(here->textual, there->textual)),
		BoolGetDatum(here->not_null && there->not_null)
	};
	bool		nulls[9] = {
		false, false, here->base == 0, there->base == 0, here->type == NULL, there->type == NULL,
		here->textual == NULL || there->textual == NULL, false, true
	};
	const Column *sides[] = {here, there};

	for (int i = 0; i < 2; i++)
		if (!nulls[i + 4])
			values[i + 4] = CStringGetTextDatum(made_of
				? psprintf("%s (made of %s)", sides[i]->type, sides[i]->parts) : sides[i]->type);
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

PG_FUNCTION_INFO_V1(iblt_common_columns);

/*
 * iblt_common_columns(here side, there side, exclude text[]) -> plan_column[]: the columns of both
 * sides without those excluded, in the order of this side.  A schema may have another name on the
 * peer, and the types in it.  A type of one name may be made of different types; plain_plan knows
 * the rest of parts.
 */
Datum
iblt_common_columns(PG_FUNCTION_ARGS)
{
	Oid			type = iblt_row_type(fcinfo);
	TupleDesc	desc = lookup_rowtype_tupdesc_copy(type, -1);
	const char *schemas[2];
	Column	   *columns[2];
	int			n[2];
	int			excluded;
	char	  **exclude = iblt_texts_of(fcinfo, 2, &excluded);
	Datum	   *rows;
	int			kept = 0;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	for (int i = 0; i < 2; i++)
	{
		schemas[i] = schema_of(iblt_text_field(PG_GETARG_DATUM(i), "relation", NULL));
		columns[i] = columns_of(PG_GETARG_DATUM(i), &n[i]);
	}
	rows = palloc(sizeof(Datum) * Max(n[0], 1));
	for (int i = 0; i < n[0]; i++)
	{
		const Column *here = &columns[0][i];
		int			k = 0;
		Column		renamed;

		CHECK_FOR_INTERRUPTS();
		while (k < n[1] && strcmp(columns[1][k].name, here->name) != 0)
			k++;
		if (k == n[1] || has_text(exclude, excluded, here->name))
			continue;
		renamed = columns[1][k];
		renamed.type = with_schema(renamed.type, schemas[1], schemas[0]);
		renamed.parts = with_schema(renamed.parts, schemas[1], schemas[0]);
		rows[kept++] = plan_column(here, &columns[1][k], &renamed, desc);
	}
	return iblt_array_of_rows(rows, kept, type);
}

/* --- keys ---------------------------------------------------------------------- */

/*
 * Types whose values have one width and one representation each (unlike -0 and 0
 * of floating-point types), and are found through an index whatever its collation.
 */
static const struct
{
	Oid			type;
	int			size;			/* of the canonical bytes */
}			key_types[] = {
	{BOOLOID, 2}, {CHAROID, 2}, {INT2OID, 3}, {INT4OID, 5}, {INT8OID, 9}, {OIDOID, 5},
	{DATEOID, 5}, {TIMEOID, 9}, {TIMESTAMPOID, 9}, {TIMESTAMPTZOID, 9}, {TIMETZOID, 13},
	{MACADDROID, 7}, {MACADDR8OID, 9}, {UUIDOID, 17}
};

/* Bytes of a column of a key, 0 if its values do not have one width. */
static int
column_size(Datum column)
{
	const char *cast_to = iblt_text_field(column, "cast_to", "none");
	int64		base = DatumGetInt64(iblt_field_of(column, "base"));

	if (strcmp(cast_to, "int8") == 0)
		base = INT8OID;
	else if (*cast_to != '\0' || base != DatumGetInt64(iblt_field_of(column, "base_there")))
		return 0;
	for (int i = 0; i < (int) lengthof(key_types); i++)
		if ((int64) key_types[i].type == base && iblt_flag_field(column, "not_null"))
			return key_types[i].size;
	return 0;
}

PG_FUNCTION_INFO_V1(iblt_key_size);

/* iblt_key_size(plan_column[]) -> integer: bytes of a canonical key, NULL if it must be hashed */
Datum
iblt_key_size(PG_FUNCTION_ARGS)
{
	int			n;
	Datum	   *columns = iblt_rows_of(PG_GETARG_DATUM(0), &n);
	int			size = 0;

	for (int i = 0; i < n; i++)
	{
		int			one = columns[i] == 0 ? 0 : column_size(columns[i]);

		if (one == 0)
			PG_RETURN_NULL();
		size += one;
	}
	if (n == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT32(size);
}
