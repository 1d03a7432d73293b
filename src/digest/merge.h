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

/* This transaction wrote so many changes, the last of them to this block. */
extern void iblt_launch_note(BlockNumber block, int32 changes);

/* This session saw a table with so many changes that are not merged.  Starts a
 * worker if that is enough. */
extern void iblt_launch_saw(int64 changes);

/* The transaction was rolled back. */
extern void iblt_launch_forget(void);

/* The transaction has ended.  Starts a worker if one is due.  Fails silently. */
extern void iblt_launch_at_end(void);

#endif							/* IBLT_DIGEST_MERGE_H */
