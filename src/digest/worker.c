/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker that merges the tables of one database.
 *
 * launch.c starts it.  It merges each table that has many changes, once, and
 * ends.  It reads and writes the stores only, and runs no code of users.  A
 * table whose merge fails does not keep the others from being merged.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "core/interrupt.h"
#include "digest/config.h"
#include "digest/merge.h"
#include "digest/launch.h"

extern PGDLLEXPORT void iblt_merge_worker(Datum arg);

/* Checks for interrupts between two looks at the lock. */
#define CHECKS			256

/*
 * Ends the worker if a session needs the database without others.  DROP DATABASE
 * and the like hold the lock that a new session needs, and wait for all others
 * to leave, but not longer than five seconds.
 */
static void
leave_if_wanted(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&tag, RowExclusiveLock, false, true) ==
		LOCKACQUIRE_NOT_AVAIL)
		proc_exit(0);
	LockRelease(&tag, RowExclusiveLock, false);
}

/* In all long loops of a merge. */
static void
check_interrupts(void)
{
	static int	checks = 0;

	CHECK_FOR_INTERRUPTS();
	if (++checks % CHECKS == 0 && INTERRUPTS_CAN_BE_PROCESSED())
		leave_if_wanted();
}

/* The tracked tables, in memory that outlives the transaction. */
static List *
list_tables(void)
{
	List	   *tables;
	MemoryContext old;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	tables = iblt_config_tables(InvalidOid);
	old = MemoryContextSwitchTo(TopMemoryContext);
	tables = list_copy(tables);
	MemoryContextSwitchTo(old);
	PopActiveSnapshot();
	CommitTransactionCommand();
	return tables;
}

/* Merges a table in a transaction of its own.  Returns the error that this ended with, or NULL. */
static ErrorData *
merge_table(Oid relid)
{
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		StartTransactionCommand();
		pgstat_report_activity(STATE_RUNNING, "iblt merges changes");
		leave_if_wanted();
		(void) iblt_merge_table(relid, IBLT_MERGE_CHANGES, true);
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(TopMemoryContext);
		error = CopyErrorData();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	return error;
}

void
iblt_merge_worker(Datum arg)
{
	ListCell   *cell;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg),
											  InvalidOid, 0);
	SetConfigOption("default_transaction_isolation", "read committed",
					PGC_SUSET, PGC_S_OVERRIDE);
	iblt_core_check_interrupts = check_interrupts;
	foreach(cell, list_tables())
	{
		ErrorData  *error = merge_table(lfirst_oid(cell));

		if (error == NULL)
			continue;
		/* that ends the worker, as it would end a query */
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			ReThrowError(error);
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not merge changes of relation %u into its digest: %s",
						lfirst_oid(cell), error->message),
				 error->detail == NULL ? 0
				 : errdetail_internal("%s", error->detail)));
	}
	pgstat_report_activity(STATE_IDLE, NULL);
}
