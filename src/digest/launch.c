/*-------------------------------------------------------------------------
 *
 * launch.c
 *	  Starts a background worker that merges, when many changes have gathered.
 *
 * No shared memory is needed.  The number of a block that a transaction writes
 * to tells how full the store is, and each session counts its own changes.
 *
 *-------------------------------------------------------------------------
 */
#include "digest/launch.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "utils/timestamp.h"

/* A store with more blocks than this has changes to merge, or needs vacuum. */
#define FULL_BLOCKS		100

/* A session starts a worker at most once in this time, in milliseconds. */
#define PAUSE_MS		5000

static int64 launch_changes = 0;	/* of this session, since it last started one */
static int64 launch_noted = 0;	/* of this transaction */
static bool launch_full = false;

void
iblt_launch_note(BlockNumber block, int32 changes)
{
	launch_noted += changes;
	if (block >= FULL_BLOCKS)
		launch_full = true;
}

void
iblt_launch_forget(void)
{
	launch_noted = 0;
	launch_full = false;
}

/* False if no slot for a worker is free. */
static bool
launch(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof worker);
	snprintf(worker.bgw_name, BGW_MAXLEN, "iblt merge");
	snprintf(worker.bgw_type, BGW_MAXLEN, "iblt merge");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(worker.bgw_library_name, sizeof worker.bgw_library_name, "iblt");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "iblt_merge_worker");
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

static void
launch_if_due(TimestampTz now)
{
	static TimestampTz last = 0;

	if (now - last < (TimestampTz) PAUSE_MS * 1000)
		return;
	/* the next transaction tries again */
	if (!launch())
		return;
	last = now;
	launch_changes = 0;
	launch_full = false;
}

void
iblt_launch_saw(int64 changes)
{
	if (changes < IBLT_MERGE_CHANGES || RecoveryInProgress())
		return;
	launch_full = true;
	launch_if_due(GetCurrentTimestamp());
}

/*
 * The time of a transaction's end is known, so it costs nothing.  Until a
 * worker has merged, each transaction with changes asks for it.
 */
void
iblt_launch_at_end(void)
{
	launch_changes += launch_noted;
	launch_noted = 0;
	if (launch_full || launch_changes >= IBLT_MERGE_CHANGES)
		launch_if_due(GetCurrentTransactionStopTimestamp());
}
