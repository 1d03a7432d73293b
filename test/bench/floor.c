/*-------------------------------------------------------------------------
 *
 * floor.c
 *	  A row trigger that does nothing: what PostgreSQL takes for any tracking by
 *	  row triggers.  test/bench/digest.sh compiles this.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(floor_row);

Datum
floor_row(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(NULL);
}
