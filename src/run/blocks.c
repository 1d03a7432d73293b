/*-------------------------------------------------------------------------
 *
 * blocks.c
 *	  A method of TABLESAMPLE: a range of blocks, with the proof that they are as
 *	  they were at a moment before.
 *
 * That moment is told (sql/run/blocks.sql) by the xmin of a snapshot, then a
 * position in the WAL, then the number of blocks.  A block is as it was at that
 * moment if its last WAL record is not behind that position, and if no
 * transaction has left anything in it that was not over before.  Its rows are
 * then those of that moment for every later snapshot.
 *
 * Each block is looked at before the scan reads it, and after the snapshot of
 * the scan was taken.  What is written to it in between is not visible to that
 * snapshot, and vacuum removes nothing that is.  So it does no harm.
 *
 * Changes of hint bits have no WAL record, or one that looks like a change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/transam.h"
#include "access/xlog.h"
#if PG_VERSION_NUM >= 150000
#include "access/xlogrecovery.h"
#endif
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "run/sample.h"

#define ERRCODE_IBLT_ALTERED MAKE_SQLSTATE('I', 'B', '0', '0', '4')
#define ERRCODE_IBLT_WRITTEN MAKE_SQLSTATE('I', 'B', '0', '0', '9')

/* Transaction IDs of 32 bits are compared, so the moment must not be longer ago than this. */
#define MAX_AGE (UINT64CONST(1) << 30)

PG_FUNCTION_INFO_V1(iblt_blocks_at_rest);

/* The arguments: lo <= block < hi, and that moment. */
enum
{
	ARG_LO, ARG_HI, ARG_FILE, ARG_STARTED, ARG_LSN, ARG_XMIN, ARGS
};

typedef struct BlockSample
{
	IbltSample	sample;
	BlockNumber end;
	XLogRecPtr	lsn;
	TransactionId xmin;
	BufferAccessStrategy strategy;
} BlockSample;

static void
refuse(Relation heap, const char *detail, BlockNumber block)
{
	ereport(ERROR,
			(errcode(ERRCODE_IBLT_WRITTEN),
			 errmsg("relation \"%s\" was written to while a run read its blocks",
					RelationGetRelationName(heap)),
			 errdetail(detail, block),
			 errhint("Compare it by key, or when nothing writes to it. VACUUM (FREEZE) it first.")));
}

/*
 * Has a transaction that was not over at that moment left something in a row?
 * Permanent transaction IDs come before all others.
 */
static bool
is_recent(HeapTupleHeader row, TransactionId xmin)
{
	uint16		mask = row->t_infomask;
	TransactionId xid;

	if (!HeapTupleHeaderXminFrozen(row) && !HeapTupleHeaderXminInvalid(row))
	{
		xid = HeapTupleHeaderGetRawXmin(row);
		if (TransactionIdFollowsOrEquals(xid, xmin))
			return true;
	}
	if ((mask & HEAP_XMAX_INVALID) != 0 || HEAP_XMAX_IS_LOCKED_ONLY(mask))
		return false;
	xid = HeapTupleHeaderGetUpdateXid(row);
	return TransactionIdFollowsOrEquals(xid, xmin);
}

static bool
has_recent_row(Page page, TransactionId xmin)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	for (OffsetNumber i = FirstOffsetNumber; i <= max; i = OffsetNumberNext(i))
	{
		ItemId		item = PageGetItemId(page, i);

		if (ItemIdIsNormal(item) && is_recent((HeapTupleHeader) PageGetItem(page, item), xmin))
			return true;
	}
	return false;
}

/* An error unless a block is as it was at that moment. */
static void
check_block(Relation heap, const BlockSample *blocks, BlockNumber block)
{
	Buffer		buffer = ReadBufferExtended(heap, MAIN_FORKNUM, block, RBM_NORMAL,
											blocks->strategy);
	Page		page;
	bool		changed;
	bool		recent;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	changed = PageGetLSN(page) > blocks->lsn;
	recent = !PageIsNew(page) && has_recent_row(page, blocks->xmin);
	UnlockReleaseBuffer(buffer);
	if (changed)
		refuse(heap, "Block %u was changed after the run had begun with it.", block);
	if (recent)
		refuse(heap, "A transaction that wrote to block %u was not over when the run began with "
			   "it.", block);
}

/* An error unless the relation and the server are those of that moment. */
static void
check_same(Relation heap, Oid file, TimestampTz started)
{
	if (heap->rd_rel->relam != HEAP_TABLE_AM_OID ||
		heap->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("only permanent tables of access method heap can be proved to be at rest")));
	if (heap->rd_rel->relfilenode != file || PgStartTime != started)
		ereport(ERROR,
				(errcode(ERRCODE_IBLT_ALTERED),
				 errmsg("relation \"%s\" was altered while it was compared",
						RelationGetRelationName(heap)),
				 errdetail("It has another file, or the server was restarted.")));
}

/*
 * An error unless the snapshot sees all transactions that were over at the
 * moment.  A standby that has crashed may show an earlier state.
 */
static void
check_snapshot(Relation heap, const BlockSample *blocks, Snapshot snapshot, FullTransactionId xmin)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	if (next - U64FromFullTransactionId(xmin) > MAX_AGE ||
		!IsMVCCSnapshot(snapshot) || TransactionIdPrecedes(snapshot->xmin, blocks->xmin) ||
		(RecoveryInProgress() && GetXLogReplayRecPtr(NULL) < blocks->lsn))
		refuse(heap, "Block %u cannot be read as it was when the run began with it.", blocks->sample.next);
}

/* A number of 64 bits that is cut off would be that of another block. */
static BlockNumber
block_number(Datum param)
{
	int64		number = DatumGetInt64(param);

	if (number < 0 || number > MaxBlockNumber)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("there is no block " INT64_FORMAT, number)));
	return (BlockNumber) number;
}

static void
begin_sample(SampleScanState *node, Datum *params, int nparams pg_attribute_unused(),
			 uint32 seed pg_attribute_unused())
{
	Relation	heap = node->ss.ss_currentRelation;
	FullTransactionId xmin = DatumGetFullTransactionId(params[ARG_XMIN]);
	BlockSample *blocks = iblt_sample_begin(node, sizeof(*blocks));
	MemoryContext old = MemoryContextSwitchTo(blocks->sample.context);

	/* how old a block is tells that of its rows */
	iblt_sample_require(node, "xmin");
	blocks->sample.next = block_number(params[ARG_LO]);
	blocks->end = block_number(params[ARG_HI]);
	blocks->lsn = DatumGetLSN(params[ARG_LSN]);
	blocks->xmin = XidFromFullTransactionId(xmin);
	blocks->strategy = GetAccessStrategy(BAS_BULKREAD);
	check_same(heap, DatumGetObjectId(params[ARG_FILE]),
			   DatumGetTimestampTz(params[ARG_STARTED]));
	check_snapshot(heap, blocks, node->ss.ps.state->es_snapshot, xmin);
	MemoryContextSwitchTo(old);
}

static BlockNumber
next_block(SampleScanState *node, BlockNumber nblocks)
{
	BlockSample *blocks = node->tsm_state;
	Relation	heap = node->ss.ss_currentRelation;

	if (blocks->sample.next >= blocks->end)
		return InvalidBlockNumber;
	CHECK_FOR_INTERRUPTS();
	if (blocks->sample.next >= nblocks)
		refuse(heap, "Block %u is not there any more.", blocks->sample.next);
	check_block(heap, blocks, blocks->sample.next);
	return iblt_sample_take(&blocks->sample);
}

/*
 * iblt_blocks_at_rest(internal) -> tsm_handler, of (lo, hi, file, start of the
 * server, position in the WAL, xmin)
 */
Datum
iblt_blocks_at_rest(PG_FUNCTION_ARGS)
{
	List	   *parameters = list_make4_oid(INT8OID, INT8OID, OIDOID, TIMESTAMPTZOID);

	(void) fcinfo;
	parameters = lappend_oid(lappend_oid(parameters, LSNOID), XID8OID);
	Assert(list_length(parameters) == ARGS);
	PG_RETURN_POINTER(iblt_sample_method(parameters, false, begin_sample, next_block));
}
