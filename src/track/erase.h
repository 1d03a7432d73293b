/*-------------------------------------------------------------------------
 *
 * erase.h
 *	  Deletes many rows of a store, for a fold.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_TRACK_ERASE_H
#define IBLT_TRACK_ERASE_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "utils/rel.h"

/*
 * Deletes rows that a snapshot sees which is still registered.  ERROR if
 * another transaction has changed one, so the caller holds the fold lock of
 * their relation.  The transaction is READ COMMITTED.
 */
extern void iblt_erase(Relation store, ItemPointerData *rows, int n);

#endif							/* IBLT_TRACK_ERASE_H */
