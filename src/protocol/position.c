/*-------------------------------------------------------------------------
 *
 * position.c
 *	  A position in the WAL behind all that is visible now.
 *
 * Replication reaches it without delay.  Not every record is flushed at once:
 * the WAL writer writes whole pages, and what transactions have written that
 * have ended.  The comparison itself writes records when it prunes, and its
 * transaction does not end while it waits.  No follower receives such a record
 * until something flushes it, perhaps 15 seconds later.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "fmgr.h"
#include "replication/walreceiver.h"
#include "utils/pg_lsn.h"

#include "codec/version.h"

PG_FUNCTION_INFO_V1(iblt_wal_position);

/* iblt_wal_position() -> pg_lsn: flushed, so a crash does not lose it any more */
Datum
iblt_wal_position(PG_FUNCTION_ARGS)
{
	XLogRecPtr	lsn;

	(void) fcinfo;
	/* a commit may be visible before its record counts as replayed */
	if (RecoveryInProgress())
		PG_RETURN_LSN(iblt_replay_position());
	/* the end of the last record: at the beginning of a page, the page's header is behind it */
	lsn = GetXLogInsertRecPtr();
	if (XLogSegmentOffset(lsn, wal_segment_size) == SizeOfXLogLongPHD)
		lsn -= SizeOfXLogLongPHD;
	else if (lsn % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		lsn -= SizeOfXLogShortPHD;
	XLogFlush(lsn);
	PG_RETURN_LSN(lsn);
}
