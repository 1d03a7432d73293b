/*
 * position.c
 *	  A position in the WAL behind all that is visible now, and which transactions
 *	  have committed and are not visible yet.
 *
 * A transaction commits in this order (RecordTransactionCommit in xact.c, for
 * COMMIT PREPARED RecordTransactionCommitPrepared in twophase.c):
 *
 *	1. It begins to delay checkpoints.
 *	2. It inserts its commit record, and flushes it, or leaves that to the WAL
 *	   writer (synchronous_commit = off).  Once the record is flushed, followers
 *	   may show its rows.
 *	3. It notes in pg_xact that it has committed.
 *	4. It no longer delays checkpoints.
 *	5. It waits for synchronous standbys.
 *	6. It leaves the array of running processes.  Now this server shows its rows.
 *	7. It releases its locks.
 *
 * So a checkpoint waits for what is between 1 and 4, and so does this function.
 * Later, every transaction whose record was inserted before the call is
 * committed by pg_xact, and is in the array for as long as it is not visible.
 * COMMIT PREPARED delays checkpoints in another process than the one that
 * the array has for the transaction, so nobody knows which transaction a process
 * commits, and this waits for all of them.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "miscadmin.h"
#include "replication/walreceiver.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/pg_lsn.h"

#include "codec/version.h"
#include "sketch/value.h"

/* They last as long as the WAL takes to flush.  The caller may ask again. */
#define LONGEST_WAIT_MS	1000

PG_FUNCTION_INFO_V1(iblt_committing);

/* Waits until the commits under way are in pg_xact; false if that takes too long. */
static bool
wait_for_commits(void)
{
	int			number;
	VirtualTransactionId *vxids = iblt_delaying_checkpoints(&number);
	bool		wait = number > 0;

	for (int ms = 0; wait && ms < LONGEST_WAIT_MS; ms++)
	{
		CHECK_FOR_INTERRUPTS();
		wait = iblt_still_delay(vxids, number);
		if (wait)
			pg_usleep(1000);
	}
	pfree(vxids);
	return !wait;
}

/*
 * iblt_committing(xids xid[]) -> xid[]: those of running transactions that may have
 * inserted their commit records before the call
 */
Datum
iblt_committing(PG_FUNCTION_ARGS)
{
	Datum	   *xids;
	bool	   *nulls;
	int			number = iblt_array_take(PG_GETARG_DATUM(0), &xids, &nulls);
	int			left = 0;
	bool		known = number == 0 || wait_for_commits();

	for (int i = 0; i < number; i++)
	{
		TransactionId xid = nulls[i] ? InvalidTransactionId : DatumGetTransactionId(xids[i]);

		CHECK_FOR_INTERRUPTS();

		/*
		 * Has it committed, and is it not visible yet?  Of a transaction ID that was not
		 * assigned yet, pg_xact may have no page.
		 */
		if (!nulls[i] && (!known ||
						  (TransactionIdIsNormal(xid) &&
						   TransactionIdPrecedes(xid, ReadNextTransactionId()) &&
						   TransactionIdIsInProgress(xid) && TransactionIdDidCommit(xid))))
			xids[left++] = xids[i];
	}
	return iblt_array_make(xids, NULL, left, XIDOID);
}

PG_FUNCTION_INFO_V1(iblt_wal_position);

/*
 * iblt_wal_position() -> pg_lsn: flushed, so a crash does not lose it any more.
 *
 * Replication reaches it without delay.  Not every record is flushed at once:
 * the WAL writer writes whole pages, and what transactions have written that
 * have ended.  The comparison itself writes records when it prunes, and its
 * transaction does not end while it waits.  No follower receives such a record
 * until something flushes it, perhaps 15 seconds later.
 */
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
