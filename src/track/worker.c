/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker that folds the tables of one database.
 *
 * It folds each table that has many changes, once, and ends.  It reads and
 * writes the stores only, and runs no code of users.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "track/fold.h"
#include "track/launch.h"

extern PGDLLEXPORT void iblt_fold_worker(Datum arg);

/* The tracked tables, in memory that outlives the transaction. */
static Oid *
list_tables(int *n)
{
	Oid		   *tables;
	Oid		   *copy;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	tables = iblt_fold_tables(n);
	copy = MemoryContextAlloc(TopMemoryContext, sizeof(Oid) * Max(*n, 1));
	memcpy(copy, tables, sizeof(Oid) * *n);
	PopActiveSnapshot();
	CommitTransactionCommand();
	return copy;
}

void
iblt_fold_worker(Datum arg)
{
	Oid		   *tables;
	int			n;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg),
											  InvalidOid, 0);
	SetConfigOption("default_transaction_isolation", "read committed",
					PGC_SUSET, PGC_S_OVERRIDE);
	tables = list_tables(&n);
	for (int i = 0; i < n; i++)
	{
		StartTransactionCommand();
		pgstat_report_activity(STATE_RUNNING, "iblt folds changes");
		(void) iblt_fold_table(tables[i], IBLT_FOLD_CHANGES, true);
		CommitTransactionCommand();
	}
	pgstat_report_activity(STATE_IDLE, NULL);
}
