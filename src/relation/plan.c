/*
 * plan.c
 *	  Steps of a plan, for which a new session would plan queries if they were
 *	  functions in SQL.
 */
#include "relation/field.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "utils/array.h"
#include "utils/fmgrprotos.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

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
	int64		differences = iblt_bigint_field(options, "max_differences");
	Datum		value;

	if (differences < 1 || differences > most)
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
	int64		base = iblt_bigint_field(column, "base");

	if (strcmp(cast_to, "int8") == 0)
		base = INT8OID;
	else if (*cast_to != '\0' || base != iblt_bigint_field(column, "base_there"))
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
