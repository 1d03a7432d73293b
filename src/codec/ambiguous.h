/*-------------------------------------------------------------------------
 *
 * ambiguous.h
 *	  Columns that have the name of their relation.
 *
 * SQL reads a bare name t as a column t if there is one, and otherwise as the
 * row of a relation t.  If one column takes the place of the row, different
 * tables read as equal.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_CODEC_AMBIGUOUS_H
#define IBLT_CODEC_AMBIGUOUS_H

#include "nodes/parsenodes.h"

/*
 * Does a relation of a query have the name of its column n, or of any of its
 * columns (n = 0)?  False for a relation of one column, which is the row.
 */
extern bool iblt_has_column_of_its_name(const RangeTblEntry *rte, int n);

/*
 * ERROR for such a column if the row may be meant.  role is "checksum" or
 * "key".
 */
extern void iblt_refuse_column_of_its_name(const RangeTblEntry *rte,
										   const char *role);

#endif							/* IBLT_CODEC_AMBIGUOUS_H */
