/*
 * rights.h
 *	  May a role read a relation that a caller names by its OID?
 */
#ifndef IBLT_COMPARE_RIGHTS_H
#define IBLT_COMPARE_RIGHTS_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/rel.h"

/* Has this role SELECT on the columns of a relation, which are names, or on all of it? */
extern bool iblt_has_rights(Oid relid, List *columns);

/*
 * May this role read the columns of a relation, which are names, or without names all columns, of
 * all its rows?  So may a query that names a table above a partition or a child, whose policies
 * count then.
 */
extern bool iblt_is_readable(Oid relid, List *columns);

/* ERROR unless it may. */
extern void iblt_require_readable(Relation relation, List *columns);

#endif
