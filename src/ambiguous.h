/*-------------------------------------------------------------------------
 *
 * ambiguous.h
 *	  Columns that bear the name of their relation.
 *
 * SQL reads a bare name t as a column t where there is one, and only else as
 * the row of a relation t.  One column in place of the row would make
 * different tables read as equal.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_AMBIGUOUS_H
#define IBLT_AMBIGUOUS_H

#include "nodes/parsenodes.h"

/*
 * Whether a relation of a query goes by the name of its column n, or of any of
 * its columns (n = 0).  False for a relation of one column, which is the row.
 */
extern bool iblt_has_column_of_its_name(const RangeTblEntry *rte, int n);

/* ERROR for such a column where the row may be meant; role: "checksum", "key". */
extern void iblt_refuse_column_of_its_name(const RangeTblEntry *rte,
										   const char *role);

#endif							/* IBLT_AMBIGUOUS_H */
