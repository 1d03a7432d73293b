/*-------------------------------------------------------------------------
 *
 * merge.h
 *	  Puts the changes of a tracked table into its base.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_DIGEST_MERGE_H
#define IBLT_DIGEST_MERGE_H

#include "postgres.h"

/*
 * Merges the changes that are visible now, if there are at least this many.
 * Returns their number, or -1 if another session merges and no_wait is set.
 * Readers with older snapshots still see base and changes as they were.  Of a
 * table that was dropped, all is removed.
 */
extern int64 iblt_merge_table(Oid relid, int64 least, bool no_wait);

#endif							/* IBLT_DIGEST_MERGE_H */
