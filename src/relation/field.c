/*
 * field.c
 *	  A field of each row of an array.
 *
 * In PL/pgSQL this takes a loop, or a query, which a new session plans.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(iblt_field);

/* iblt_field(rows anyarray, field text) -> text[], '{}' for NULL */
Datum
iblt_field(PG_FUNCTION_ARGS)
{
	ArrayType  *rows;
	char	   *name;
	Oid			relid;
	AttrNumber	number = InvalidAttrNumber;
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int			lbound = 1;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(TEXTOID));
	rows = PG_GETARG_ARRAYTYPE_P(0);
	name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	relid = get_typ_typrelid(ARR_ELEMTYPE(rows));
	if (OidIsValid(relid))
		number = get_attnum(relid, name);
	if (number <= 0 || get_atttype(relid, number) != TEXTOID)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
						errmsg("rows have no field \"%s\" of type text", name)));
	deconstruct_array(rows, ARR_ELEMTYPE(rows), -1, false, TYPALIGN_DOUBLE,
					  &values, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!nulls[i])
			values[i] = GetAttributeByNum(DatumGetHeapTupleHeader(values[i]), number,
										  &nulls[i]);
	}
	if (n == 0)
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(TEXTOID));
	PG_RETURN_ARRAYTYPE_P(construct_md_array(values, nulls, 1, &n, &lbound, TEXTOID,
											 -1, false, TYPALIGN_INT));
}
