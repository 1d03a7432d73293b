/*-------------------------------------------------------------------------
 *
 * fence.h
 *	  A row that makes a digest not trustworthy, unless the transaction that
 *	  wrote it removes it again.
 *
 * The callback that writes a transaction's changes to the store may not be
 * called in the transaction that registers it.  This is so if another
 * extension's callback loads this library while the list of callbacks is
 * walked.  There, a fence stands for the changes in memory.  If they are lost,
 * it stays.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_DIGEST_FENCE_H
#define IBLT_DIGEST_FENCE_H

#include "postgres.h"

#include "storage/itemptr.h"

typedef struct IbltFence
{
	Oid			file;			/* of the store, or InvalidOid without fence */
	ItemPointerData row;
} IbltFence;

/* Writes a fence of a tracked table.  Without a store there is none. */
extern void iblt_fence_put(IbltFence *fence, Oid store, Oid relid);

/*
 * Removes it.  The command must be a later one.  If the store was rewritten
 * since, a fence may stay.
 */
extern void iblt_fence_remove(IbltFence *fence, Oid store);

#endif							/* IBLT_DIGEST_FENCE_H */
