/*-------------------------------------------------------------------------
 *
 * describe.h
 *	  What the files that describe a relation share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_COMPARE_DESCRIBE_H
#define IBLT_COMPARE_DESCRIBE_H

#include "postgres.h"

#include "catalog/pg_class.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/array.h"

/* What is described, and what has been read of it. */
typedef struct Described
{
	Oid			relid;
	FormData_pg_class class;
	List	   *columns;		/* of Form_pg_attribute */
	ArrayType  *ordered;		/* types that sort alike on all servers */
	bool		more;			/* does describe() look further? */
} Described;

/* Appends the field "keys". */
extern void iblt_describe_keys(StringInfo json, Described *d);

#endif							/* IBLT_COMPARE_DESCRIBE_H */
