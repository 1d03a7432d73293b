/*
 * key_size.c
 *	  Which keys go into a sketch as they are.
 */
#include "relation/relation.h"

#include "catalog/pg_type.h"

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
