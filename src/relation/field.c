/*
 * field.c
 *	  Fields of rows.
 *
 * In PL/pgSQL a field of each row of an array takes a loop, or a query, which a
 * new session plans.
 */
#include "relation/relation.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "sketch/value.h"

Datum
iblt_field_of(Datum row, const char *name)
{
	bool		isnull;
	Datum		value = GetAttributeByName(DatumGetHeapTupleHeader(row), name, &isnull);

	return isnull ? 0 : value;
}

const char *
iblt_text_field(Datum row, const char *name, const char *otherwise)
{
	Datum		value = iblt_field_of(row, name);

	return value == 0 ? otherwise : TextDatumGetCString(value);
}

/* A bigint may be by reference. */
int64
iblt_bigint_field(Datum row, const char *name)
{
	Datum		value = iblt_field_of(row, name);

	return value == 0 ? 0 : DatumGetInt64(value);
}

bool
iblt_flag_field(Datum row, const char *name)
{
	return DatumGetBool(iblt_field_of(row, name));
}

Datum *
iblt_rows_of(Datum array, int *n)
{
	Datum	   *rows = NULL;
	bool	   *nulls;

	*n = iblt_array_take(array, &rows, &nulls);
	for (int i = 0; i < *n; i++)
		if (nulls[i])
			rows[i] = 0;
	return rows;
}

Datum
iblt_array_of(Datum *values, int n, Oid type)
{
	bool	   *nulls = palloc(Max(n, 1));

	for (int i = 0; i < n; i++)
		nulls[i] = values[i] == 0;
	return iblt_array_make(values, nulls, n, type);
}

Oid
iblt_row_type(FunctionCallInfo fcinfo)
{
	return get_element_type(get_func_rettype(fcinfo->flinfo->fn_oid));
}

const char *
iblt_text_arg(FunctionCallInfo fcinfo, int n, const char *otherwise)
{
	return PG_ARGISNULL(n) ? otherwise : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

char	  **
iblt_texts_of(FunctionCallInfo fcinfo, int arg, int *n)
{
	Datum	   *values;
	bool	   *nulls;
	char	  **texts;

	*n = iblt_array_take(PG_ARGISNULL(arg) ? 0 : PG_GETARG_DATUM(arg), &values, &nulls);
	texts = palloc0(sizeof(char *) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
		texts[i] = nulls[i] ? NULL : TextDatumGetCString(values[i]);
	return texts;
}

/* The rows of an array, which have a field of type text with this name; an error for any other array. */
static Datum *
rows_with_text(Datum array, const char *name, int *n)
{
	Oid			relid = get_typ_typrelid(ARR_ELEMTYPE(DatumGetArrayTypeP(array)));
	AttrNumber	number = OidIsValid(relid) ? get_attnum(relid, name) : InvalidAttrNumber;

	if (number <= 0 || get_atttype(relid, number) != TEXTOID)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
						errmsg("rows have no field \"%s\" of type text", name)));
	return iblt_rows_of(array, n);
}

PG_FUNCTION_INFO_V1(iblt_field);

/* iblt_field(rows anyarray, field text) -> text[], '{}' for NULL */
Datum
iblt_field(PG_FUNCTION_ARGS)
{
	const char *name = iblt_text_arg(fcinfo, 1, NULL);
	Datum	   *values;
	int			n;

	if (PG_ARGISNULL(0) || name == NULL)
		return iblt_array_of(NULL, 0, TEXTOID);
	values = rows_with_text(PG_GETARG_DATUM(0), name, &n);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (values[i] != 0)
			values[i] = iblt_field_of(values[i], name);
	}
	return iblt_array_of(values, n, TEXTOID);
}

PG_FUNCTION_INFO_V1(iblt_rows_named);

/* iblt_rows_named(rows anyarray, names text[]) -> anyarray: a row of each name, or NULL */
Datum
iblt_rows_named(PG_FUNCTION_ARGS)
{
	int			n;
	int			m;
	Datum	   *rows = rows_with_text(PG_GETARG_DATUM(0), "name", &n);
	char	  **names = iblt_texts_of(fcinfo, 1, &m);
	Datum	   *found = palloc0(sizeof(Datum) * Max(m, 1));

	for (int i = 0; i < m; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int k = 0; k < n && found[i] == 0 && names[i] != NULL; k++)
			if (rows[k] != 0 && strcmp(iblt_text_field(rows[k], "name", ""), names[i]) == 0)
				found[i] = rows[k];
	}
	return iblt_array_of(found, m, ARR_ELEMTYPE(PG_GETARG_ARRAYTYPE_P(0)));
}
