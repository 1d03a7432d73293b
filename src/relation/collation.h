/*
 * collation.h
 *	  The collations, and the orders of enums, that a call depends on.
 */
#ifndef IBLT_COMPARE_COLLATION_H
#define IBLT_COMPARE_COLLATION_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "nodes/pg_list.h"

/* The type that values, or the elements of arrays, are of, below domains. */
extern Oid	iblt_base_type(Oid type);

/* The operator of a call, of rows that of their first columns.  InvalidOid for all else. */
extern Oid	iblt_call_operator(Node *call);

/*
 * Adds the OIDs of the collations that what a node does with its arguments depends
 * on, InvalidOid if it depends on the encoding of text, and the OIDs of the enums
 * whose order of labels it may depend on.
 */
extern void iblt_call_depends(Node *call, List **collations, List **enums);

#endif							/* IBLT_COMPARE_COLLATION_H */
