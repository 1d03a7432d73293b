/*-------------------------------------------------------------------------
 *
 * checksum.h
 *	  The row checksum for callers in C.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_CODEC_CHECKSUM_H
#define IBLT_CODEC_CHECKSUM_H

#include "postgres.h"

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

#endif							/* IBLT_CODEC_CHECKSUM_H */
