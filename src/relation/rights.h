/*
 * rights.h
 *	  May a role read a relation that a caller names by its OID?
 */
#ifndef IBLT_COMPARE_RIGHTS_H
#define IBLT_COMPARE_RIGHTS_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/rel.h"

/*
 * ERROR unless this role may read the columns of a relation, which are names, of all
 * its rows.  The right to the table above a partition or a child will do.
 */
extern void iblt_require_readable(Relation relation, List *columns);

#endif
