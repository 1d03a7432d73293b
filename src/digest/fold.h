/*-------------------------------------------------------------------------
 *
 * fold.h
 *	  Puts the changes of a tracked table into its base.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_TRACK_FOLD_H
#define IBLT_TRACK_FOLD_H

#include "postgres.h"

/*
 * Folds the changes that are visible now, if there are at least this many.
 * Returns their number, or -1 if another session folds and no_wait is set.
 * Readers with older snapshots still see base and changes as they were.  Of a
 * table that was dropped, all is removed.
 */
extern int64 iblt_fold_table(Oid relid, int64 least, bool no_wait);

/*
 * Notes in the store that a fold failed with this error, until one succeeds.
 * False if that is noted already.
 */
extern bool iblt_fold_failed(Oid relid, int sqlstate);

/* The tracked tables. */
extern Oid *iblt_fold_tables(int *n);

#endif							/* IBLT_TRACK_FOLD_H */
