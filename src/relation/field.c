/*
 * field.c
 *	  A field of each row of an array.
 *
 * In PL/pgSQL this takes a loop, or a query, which a new session plans.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

/* The rows of an array of a composite type, which has a field of type text with this name. */
static Datum *
rows_of(ArrayType *array, text *field, AttrNumber *number, bool **nulls, int *n)
{
	Datum	   *rows;
	char	   *name = text_to_cstring(field);
	Oid			relid = get_typ_typrelid(ARR_ELEMTYPE(array));

	*number = OidIsValid(relid) ? get_attnum(relid, name) : InvalidAttrNumber;
	if (*number <= 0 || get_atttype(relid, *number) != TEXTOID)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
						errmsg("rows have no field \"%s\" of type text", name)));
	deconstruct_array(array, ARR_ELEMTYPE(array), -1, false, TYPALIGN_DOUBLE, &rows, nulls, n);
	return rows;
}

/* An array, which has one dimension unless it is empty. */
static Datum
array_of(Datum *values, bool *nulls, int n, Oid type, char align)
{
	int			lbound = 1;

	if (n == 0)
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(type));
	PG_RETURN_ARRAYTYPE_P(construct_md_array(values, nulls, 1, &n, &lbound, type, -1, false, align));
}

PG_FUNCTION_INFO_V1(iblt_field);

/* iblt_field(rows anyarray, field text) -> text[], '{}' for NULL */
Datum
iblt_field(PG_FUNCTION_ARGS)
{
	AttrNumber	number;
	Datum	   *values;
	bool	   *nulls;
	int			n;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(TEXTOID));
	values = rows_of(PG_GETARG_ARRAYTYPE_P(0), PG_GETARG_TEXT_PP(1), &number, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!nulls[i])
			values[i] = GetAttributeByNum(DatumGetHeapTupleHeader(values[i]), number,
										  &nulls[i]);
	}
	return array_of(values, nulls, n, TEXTOID, TYPALIGN_INT);
}

PG_FUNCTION_INFO_V1(iblt_rows_named);

/* iblt_rows_named(rows anyarray, names text[]) -> anyarray: a row of each name, or NULL */
Datum
iblt_rows_named(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	AttrNumber	number;
	Datum	   *rows;
	Datum	   *names;
	Datum	   *found;
	bool	   *nulls;
	bool	   *missing;
	int			n;
	int			m;

	rows = rows_of(array, cstring_to_text("name"), &number, &nulls, &n);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), TEXTOID, -1, false, TYPALIGN_INT, &names, &missing, &m);
	found = palloc0(m * sizeof(Datum));
	for (int i = 0; i < m; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int k = 0; k < n && found[i] == 0 && !missing[i]; k++)
		{
			bool		isnull = true;
			Datum		name = nulls[k] ? 0
				: GetAttributeByNum(DatumGetHeapTupleHeader(rows[k]), number, &isnull);

			if (!isnull && DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, name, names[i])))
				found[i] = rows[k];
		}
		missing[i] = found[i] == 0;
	}
	return array_of(found, missing, m, ARR_ELEMTYPE(array), TYPALIGN_DOUBLE);
}
