/*-------------------------------------------------------------------------
 *
 * merge.h
 *	  Starts a background worker that merges, when many changes have gathered.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_DIGEST_MERGE_H
#define IBLT_DIGEST_MERGE_H

#include "postgres.h"

#include "storage/block.h"

/* A worker merges a table that has this number of changes. */
#define IBLT_MERGE_CHANGES	10000

/*
 * This session saw a table with so many changes that are not merged.  Starts a
 * worker if that is enough.
 */
extern void iblt_launch_saw(int64 changes);

/*
 * The transaction has committed, and wrote so many changes, the furthest to this
 * block of a store.  Starts a worker if one is due.  Fails silently.
 */
extern void iblt_launch_at_end(int64 changes, BlockNumber block);

#endif							/* IBLT_DIGEST_MERGE_H */
