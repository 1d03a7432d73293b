/*
 * checksum.h
 *	  The row checksum for callers in C, and columns that have the name of their
 *	  relation.
 *
 * SQL reads a bare name t as a column t if there is one, and otherwise as the
 * row of a relation t.  If one column takes the place of the row, different
 * tables read as equal.
 */
#ifndef IBLT_CODEC_CHECKSUM_H
#define IBLT_CODEC_CHECKSUM_H

#include "postgres.h"

#include "fmgr.h"
#include "nodes/parsenodes.h"

/* Hashes rows of certain columns.  Serves one call site. */
typedef struct IbltRowHash IbltRowHash;

/*
 * For columns of these types.  ERROR for a type whose values have no bytes,
 * and if there is no column.
 */
extern IbltRowHash *iblt_row_hash_make(int ncolumns, const Oid *types,
									   uint64 seed, MemoryContext context);

/* What iblt_checksum_seeded(seed, ROW(values)) returns. */
extern uint64 iblt_row_hash(IbltRowHash *hash, const NullableDatum *values);

/* Is this function of the library one of those that SQL calls iblt_checksum, with a seed or without? */
extern bool iblt_is_checksum(PGFunction function);

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

#endif							/* IBLT_CODEC_CHECKSUM_H */
