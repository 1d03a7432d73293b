/*-------------------------------------------------------------------------
 *
 * index.h
 *	  Indexes that slices are read by.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_RUN_INDEX_H
#define IBLT_RUN_INDEX_H

#include "postgres.h"

#include "access/genam.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* A btree index of all rows that snapshots of this moment may use? */
extern bool iblt_index_is_whole(Relation index);

extern IndexScanDesc iblt_index_begin(Relation heap, Relation index, Snapshot snapshot,
									  int nkeys);

#endif							/* IBLT_RUN_INDEX_H */
