/*-------------------------------------------------------------------------
 *
 * late.c
 *	  An extension that runs SQL while a transaction commits, for
 *	  test/t/089_digests_late.pl, and one that looks as if it committed, for
 *	  test/t/053_compare_settle.pl.
 *
 * Callbacks that are registered while the list of callbacks is walked are not
 * called in that walk.  So what is loaded by this SQL learns nothing of this
 * commit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

static char *late_sql = NULL;
static bool late_read_only = false;

static void
run_late(XactEvent event, void *arg)
{
	char	   *sql = late_sql;

	(void) arg;
	late_sql = NULL;
	if (sql == NULL || (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE))
		return;
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	if (SPI_execute(sql, late_read_only, 0) < 0)
		elog(ERROR, "the late statement failed");
	SPI_finish();
	PopActiveSnapshot();
}

PG_FUNCTION_INFO_V1(late);

/*
 * late(sql text, read_only boolean) -> void: runs it just before this
 * transaction commits, or is prepared
 */
Datum
late(PG_FUNCTION_ARGS)
{
	static bool registered = false;

	if (!registered)
		RegisterXactCallback(run_late, NULL);
	registered = true;
	late_read_only = PG_GETARG_BOOL(1);
	late_sql = MemoryContextStrdup(TopMemoryContext, text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(delay_checkpoints);

/*
 * delay_checkpoints(boolean) -> void: from now on, this transaction delays checkpoints,
 * as one does while it inserts and flushes its commit record, or it does not
 */
Datum
delay_checkpoints(PG_FUNCTION_ARGS)
{
#if PG_VERSION_NUM >= 150000
	if (PG_GETARG_BOOL(0))
		MyProc->delayChkptFlags |= DELAY_CHKPT_START;
	else
		MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
#else
	MyProc->delayChkpt = PG_GETARG_BOOL(0);
#endif
	PG_RETURN_VOID();
}
