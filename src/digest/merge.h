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

/*
 * Notes in the store that a merge failed with this error, until one succeeds.
 * False if that is noted already.
 */
extern bool iblt_merge_note_failure(Oid relid, int sqlstate);

#endif							/* IBLT_DIGEST_MERGE_H */
