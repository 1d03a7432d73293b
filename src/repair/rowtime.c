/*
 * rowtime.c
 *	  When a row was committed, where the server keeps that.
 *
 * pg_xact_commit_timestamp(xmin) may be wrong: a row that VACUUM has frozen
 * still shows the transaction that wrote it, and once transaction IDs have
 * wrapped around, another transaction has the same number.
 */
#include "sketch/iblt.h"

#include "access/commit_ts.h"
#include "access/heapam.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "executor/tuptable.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "relation/relation.h"

/* Is it the transaction that wrote a row, for certain? */
static bool
is_writer(Relation rel, ItemPointer tid, TransactionId xmin)
{
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	bool		result = false;

	if (table_tuple_fetch_row_version(rel, tid, SnapshotAny, slot) &&
		TTS_IS_BUFFERTUPLE(slot))
	{
		HeapTupleHeader row = ((BufferHeapTupleTableSlot *) slot)->base.tuple->t_data;

		result = TransactionIdEquals(HeapTupleHeaderGetRawXmin(row), xmin) &&
			(!HeapTupleHeaderXminFrozen(row) ||
			 EpochFromFullTransactionId(ReadNextFullTransactionId()) == 0);
	}
	ExecDropSingleTupleTableSlot(slot);
	return result;
}

PG_FUNCTION_INFO_V1(iblt_row_time);

/*
 * iblt_row_time(tableoid, ctid, xmin) -> the time, or NULL if it is not known.  ERROR if
 * this role may not read these columns of all rows, as a query over them would raise.
 */
Datum
iblt_row_time(PG_FUNCTION_ARGS)
{
	ItemPointer tid = (ItemPointer) PG_GETARG_POINTER(1);
	TransactionId xmin = PG_GETARG_TRANSACTIONID(2);
	TimestampTz time;
	Relation	rel;
	bool		known;

	if (!track_commit_timestamp)
		PG_RETURN_NULL();
	rel = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	if (rel == NULL)
		PG_RETURN_NULL();
	iblt_require_readable(rel, list_make3("tableoid", "ctid", "xmin"));

	/*
	 * A row of another server, or one that a caller made up, is not looked at.  The buffer
	 * manager would take it: block 4294967295 would extend the relation.
	 */
	known = rel->rd_rel->relkind == RELKIND_RELATION &&
		rel->rd_tableam == GetHeapamTableAmRoutine() && ItemPointerIsValid(tid) &&
		ItemPointerGetBlockNumber(tid) < RelationGetNumberOfBlocks(rel) &&
		is_writer(rel, tid, xmin) &&
		TransactionIdGetCommitTsData(xmin, &time, NULL);
	relation_close(rel, AccessShareLock);
	if (!known)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(time);
}
