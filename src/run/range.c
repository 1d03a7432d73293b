/*-------------------------------------------------------------------------
 *
 * range.c
 *	  A method of TABLESAMPLE: the rows of a range of a key.
 *
 * An index scan reads the rows of a range through the shared buffers, and
 * leaves nothing of what others had there.  Here an index tells the blocks only.
 * They are read in order, each as a whole and through the few buffers that a
 * large scan has.  Rows of other keys in these blocks are passed over.  That
 * takes a tenth of what a condition in the statement does, because a condition
 * is evaluated with each row taken apart.
 *
 * A row version that a snapshot sees has an index entry, and vacuum does not
 * remove it while the snapshot is there.  The entry may lead to another version
 * of the row, but in the same block.  Where no index will do, all blocks are
 * read.
 *
 * What a run takes of the CPU in comparison with an audit, with 2 million rows:
 *
 *	  rows, and their key			as here		by the planner
 *	  128 bytes, serial				1.1			1.4
 *	  two integers, serial			1.6			1.8
 *	  128 bytes, random uuids		1.9			2.8
 *
 * With 5 million rows of 128 bytes and a serial key it is 1.2.  How the planner
 * does there was not measured.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/typcache.h"

#include "run/index.h"
#include "run/sample.h"

PG_FUNCTION_INFO_V1(iblt_slice_rows);

/* The arguments: the column, and its bounds as arrays, without elements if open. */
enum
{
	ARG_COLUMN, ARG_LO, ARG_HI
};

/* Values above lo and not above hi. */
typedef struct Range
{
	AttrNumber	column;			/* of the relation */
	Oid			type;			/* without domains */
	FmgrInfo   *compare;
	bool		above;			/* is there a lo? */
	bool		limited;		/* and a hi? */
	Datum		lo;
	Datum		hi;
} Range;

typedef struct RangeSample
{
	IbltSample	sample;
	Range		range;
	uint8	   *marked;			/* a bit for each block; NULL for all */
	BlockNumber number;			/* of blocks */
	int			row;			/* of the visible ones in the block */
} RangeSample;

static inline int
compare(const Range *range, Datum a, Datum b)
{
	return DatumGetInt32(FunctionCall2Coll(range->compare, InvalidOid, a, b));
}

static inline bool
in_range(const Range *range, Datum value)
{
	return (!range->above || compare(range, value, range->lo) > 0) &&
		(!range->limited || compare(range, value, range->hi) <= 0);
}

/* Reads a bound: an array with its text, or without elements.  Is there one? */
static bool
read_bound(Oid type, Datum array, Datum *bound)
{
	Oid			input;
	Oid			typioparam;
	Datum	   *values;
	int			number;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT,
					  &values, NULL, &number);
	if (number == 0)
		return false;
	getTypeInputInfo(type, &input, &typioparam);
	*bound = OidInputFunctionCall(input, TextDatumGetCString(values[0]), typioparam, -1);
	return true;
}

static void
make_range(Range *range, Relation heap, Datum *params)
{
	const char *name = TextDatumGetCString(params[ARG_COLUMN]);
	TypeCacheEntry *type;

	range->column = get_attnum(RelationGetRelid(heap), name);
	/* of the relation's own; iblt_sample_require() has asked the one that is named */
	if (range->column <= 0 || range->column > RelationGetDescr(heap)->natts)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						name, RelationGetRelationName(heap))));
	range->type = getBaseType(TupleDescAttr(RelationGetDescr(heap),
											range->column - 1)->atttypid);
	type = lookup_type_cache(range->type, TYPECACHE_CMP_PROC_FINFO);
	if (!OidIsValid(type->cmp_proc) || OidIsValid(get_typcollation(range->type)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" has no single order", name)));
	range->above = read_bound(range->type, params[ARG_LO], &range->lo);
	range->limited = read_bound(range->type, params[ARG_HI], &range->hi);
	range->compare = &type->cmp_proc_finfo;
}

static bool
is_marked(const RangeSample *blocks, BlockNumber block)
{
	return blocks->marked == NULL ||
		(block < blocks->number && (blocks->marked[block / 8] & (1 << (block % 8))) != 0);
}

/* Is the first column of an index in the order that > and <= have? */
static bool
in_default_order(Relation index)
{
	TypeCacheEntry *type = lookup_type_cache(index->rd_opcintype[0],
											 TYPECACHE_BTREE_OPFAMILY);

	return type->btree_opf == index->rd_opfamily[0] &&
		!OidIsValid(index->rd_indcollation[0]);
}

/* An index of all rows by that column first, in the default order of its type. */
static bool
index_serves(Relation index, AttrNumber column)
{
	return iblt_index_is_whole(index) && index->rd_index->indkey.values[0] == column &&
		in_default_order(index);
}

static Relation
find_index(Relation heap, AttrNumber column)
{
	List	   *indexes = RelationGetIndexList(heap);
	Relation	found = NULL;
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		if (found == NULL && index_serves(index, column))
			found = index;
		else
			index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return found;
}

/* The condition that the column is above or not above a bound. */
static void
make_key(ScanKey key, Relation index, StrategyNumber strategy, Datum bound)
{
	Oid			type = index->rd_opcintype[0];
	Oid			op = get_opfamily_member(index->rd_opfamily[0], type, type, strategy);

	ScanKeyEntryInitialize(key, 0, 1, strategy, type, InvalidOid, get_opcode(op), bound);
}

/* Marks the blocks of the index's entries in the range. */
static void
mark_blocks(RangeSample *blocks, Relation heap, Relation index, Snapshot snapshot)
{
	const Range *range = &blocks->range;
	ScanKeyData keys[2];
	IndexScanDesc scan;
	ItemPointer tid;
	int			n = 0;

	if (range->above)
		make_key(&keys[n++], index, BTGreaterStrategyNumber, range->lo);
	if (range->limited)
		make_key(&keys[n++], index, BTLessEqualStrategyNumber, range->hi);
	scan = iblt_index_begin(heap, index, snapshot, n);
	index_rescan(scan, keys, n, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		BlockNumber block = ItemPointerGetBlockNumber(tid);

		/* what has been added since the snapshot is not for it */
		if (block < blocks->number)
			blocks->marked[block / 8] |= 1 << (block % 8);
	}
	index_endscan(scan);
}

/* Marks the blocks with rows of the range, as far as an index tells. */
static void
find_blocks(RangeSample *blocks, Relation heap, Snapshot snapshot)
{
	Relation	index = find_index(heap, blocks->range.column);

	if (index == NULL)
		return;
	blocks->number = RelationGetNumberOfBlocks(heap);
	blocks->marked = MemoryContextAllocExtended(CurrentMemoryContext,
												(Size) blocks->number / 8 + 1,
												MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	mark_blocks(blocks, heap, index, snapshot);
	index_close(index, NoLock);
}

static void
begin_sample(SampleScanState *node, Datum *params, int nparams pg_attribute_unused(),
			 uint32 seed pg_attribute_unused())
{
	Relation	heap = node->ss.ss_currentRelation;
	RangeSample *blocks = iblt_sample_begin(node, sizeof(*blocks));
	MemoryContext old = MemoryContextSwitchTo(blocks->sample.context);

	iblt_sample_require(node, TextDatumGetCString(params[ARG_COLUMN]));
	/* next_row() looks into its scan */
	if (heap->rd_tableam != GetHeapamTableAmRoutine())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read slices of \"%s\"", RelationGetRelationName(heap)),
				 errdetail("Its access method is not heap."),
				 errhint("Compare it as a whole, with iblt_audit.")));
	make_range(&blocks->range, heap, params);
	find_blocks(blocks, heap, node->ss.ps.state->es_snapshot);
	MemoryContextSwitchTo(old);
}

static BlockNumber
next_block(SampleScanState *node, BlockNumber nblocks)
{
	RangeSample *blocks = node->tsm_state;
	IbltSample *sample = &blocks->sample;

	blocks->row = 0;
	for (; sample->next < nblocks; sample->next++)
		if (is_marked(blocks, sample->next))
			return iblt_sample_take(sample);
	return InvalidBlockNumber;
}

/*
 * The next row of a block in the range.  The scan has pinned the block and found
 * the visible rows, which do not change.  Others might be half written.
 */
static OffsetNumber
next_row(SampleScanState *node, BlockNumber blockno pg_attribute_unused(),
		 OffsetNumber maxoffset pg_attribute_unused())
{
	RangeSample *blocks = node->tsm_state;
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;
	TupleDesc	columns = RelationGetDescr(scan->rs_base.rs_rd);
	Page		page = BufferGetPage(scan->rs_cbuf);

	if (unlikely((scan->rs_base.rs_flags & SO_ALLOW_PAGEMODE) == 0))
		elog(ERROR, "a slice is not read page by page");
	while (blocks->row < (int) scan->rs_ntuples)
	{
		OffsetNumber offset = scan->rs_vistuples[blocks->row++];
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleData row;
		Datum		value;
		bool		isnull;

		row.t_data = (HeapTupleHeader) PageGetItem(page, item);
		row.t_len = ItemIdGetLength(item);
		value = heap_getattr(&row, blocks->range.column, columns, &isnull);
		if (!isnull && in_range(&blocks->range, value))
			return offset;
	}
	return InvalidOffsetNumber;
}

/* iblt_slice_rows(internal) -> tsm_handler, of (name of the column, lo, hi) */
Datum
iblt_slice_rows(PG_FUNCTION_ARGS)
{
	TsmRoutine *routine =
		iblt_sample_method(list_make3_oid(TEXTOID, TEXTARRAYOID, TEXTARRAYOID), true,
						   begin_sample, next_block);

	(void) fcinfo;
	routine->NextSampleTuple = next_row;
	PG_RETURN_POINTER(routine);
}
