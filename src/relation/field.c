/*-------------------------------------------------------------------------
 *
 * field.c
 *	  A field of each row of an array.
 *
 * In PL/pgSQL this takes a loop, or a query, which a new session plans.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/typcache.h"

/* The number of a field of type text; an error if there is none. */
static AttrNumber
find_field(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && att->atttypid == TEXTOID &&
			strcmp(NameStr(att->attname), name) == 0)
			return att->attnum;
	}
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
					errmsg("rows have no field \"%s\" of type text", name)));
}

PG_FUNCTION_INFO_V1(iblt_field);

/* iblt_field(rows anyarray, field text) -> text[], '{}' for NULL */
Datum
iblt_field(PG_FUNCTION_ARGS)
{
	ArrayType  *rows;
	TupleDesc	desc;
	AttrNumber	number;
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int			lbound = 1;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(TEXTOID));
	rows = PG_GETARG_ARRAYTYPE_P(0);
	desc = lookup_rowtype_tupdesc_copy(ARR_ELEMTYPE(rows), -1);
	number = find_field(desc, text_to_cstring(PG_GETARG_TEXT_PP(1)));
	deconstruct_array(rows, ARR_ELEMTYPE(rows), -1, false, TYPALIGN_DOUBLE,
					  &values, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		HeapTupleData tuple = {0};

		CHECK_FOR_INTERRUPTS();
		if (nulls[i])
			continue;
		tuple.t_data = DatumGetHeapTupleHeader(values[i]);
		tuple.t_len = HeapTupleHeaderGetDatumLength(tuple.t_data);
		values[i] = heap_getattr(&tuple, number, desc, &nulls[i]);
	}
	if (n == 0)
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(TEXTOID));
	PG_RETURN_ARRAYTYPE_P(construct_md_array(values, nulls, 1, &n, &lbound, TEXTOID,
											 -1, false, TYPALIGN_INT));
}
