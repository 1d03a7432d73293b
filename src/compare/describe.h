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

#include "access/genam.h"
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
} Described;

/*
 * Begins to read the rows of a catalog that have an OID in a column, under the
 * snapshot of the statement.
 */
extern SysScanDesc iblt_catalog_scan(Relation catalog, Oid index,
									 AttrNumber column, Oid value);

/* Appends the field "keys". */
extern void iblt_describe_keys(StringInfo json, Described *d);

#endif							/* IBLT_COMPARE_DESCRIBE_H */
