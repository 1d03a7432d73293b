/*-------------------------------------------------------------------------
 *
 * range.c
 *	  A method of TABLESAMPLE: the blocks that have rows of a range of a key.
 *
 * An index scan reads the rows of a range one by one, and through the shared
 * buffers: it takes half as long again as a scan of the same rows, and leaves
 * nothing of what others had in the buffers.  Here an index tells the blocks
 * only.  They are read in order, each as a whole and through the few buffers
 * that a large scan has.  The statement has the condition again, for the other
 * rows of these blocks.
 *
 * A row version that a snapshot sees has an index entry, and vacuum removes
 * none of them while the snapshot is there.  The entry may lead to another
 * version of the row, but in the same block.  Where no index will do, all
 * blocks are read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/relscan.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/typcache.h"

#include "run/sample.h"

PG_FUNCTION_INFO_V1(iblt_slice_blocks);

/* The arguments: the column, and its bounds as arrays, without elements if open. */
enum
{
	ARG_COLUMN, ARG_LO, ARG_HI
};

typedef struct Blocks
{
	IbltSample	sample;
	uint8	   *marked;			/* a bit for each block; NULL for all */
	BlockNumber number;			/* of blocks */
} Blocks;

static bool
is_marked(const Blocks *blocks, BlockNumber block)
{
	return blocks->marked == NULL ||
		(blocks->marked[block / 8] & (1 << (block % 8))) != 0;
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
	Form_pg_index form = index->rd_index;

	return index->rd_rel->relkind == RELKIND_INDEX &&
		index->rd_rel->relam == BTREE_AM_OID && form->indisvalid &&
		form->indkey.values[0] == column && in_default_order(index) &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL) &&
		(!form->indcheckxmin ||
		 TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data),
							   TransactionXmin));
}

static Relation
find_index(Relation heap, const char *name)
{
	AttrNumber	column = get_attnum(RelationGetRelid(heap), name);
	List	   *indexes = RelationGetIndexList(heap);
	Relation	found = NULL;
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		if (found == NULL && column > 0 && index_serves(index, column))
			found = index;
		else
			index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return found;
}

/* Adds the condition that the column is above or not above a bound, if there is one. */
static int
add_key(ScanKeyData *keys, int n, Relation index, ArrayType *bound, StrategyNumber strategy)
{
	Oid			type = index->rd_opcintype[0];
	Oid			op = get_opfamily_member(index->rd_opfamily[0], type, type, strategy);
	Oid			input;
	Oid			typioparam;
	Datum	   *values;
	int			number;

	deconstruct_array(bound, TEXTOID, -1, false, TYPALIGN_INT, &values, NULL, &number);
	if (number == 0)
		return n;
	getTypeInputInfo(type, &input, &typioparam);
	ScanKeyEntryInitialize(&keys[n], 0, 1, strategy, type, InvalidOid, get_opcode(op),
						   OidInputFunctionCall(input, TextDatumGetCString(values[0]),
												typioparam, -1));
	return n + 1;
}

static IndexScanDesc
begin_scan(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

static void
mark_blocks(Blocks *blocks, IndexScanDesc scan)
{
	ItemPointer tid;

	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		BlockNumber block = ItemPointerGetBlockNumber(tid);

		CHECK_FOR_INTERRUPTS();
		/* what has been added since is not for the snapshot */
		if (block < blocks->number)
			blocks->marked[block / 8] |= 1 << (block % 8);
	}
}

static void
begin_sample(SampleScanState *node, Datum *params, int nparams pg_attribute_unused(),
			 uint32 seed pg_attribute_unused())
{
	Relation	heap = node->ss.ss_currentRelation;
	Relation	index = find_index(heap, TextDatumGetCString(params[ARG_COLUMN]));
	Blocks	   *blocks = palloc0(sizeof(*blocks));
	ScanKeyData keys[2];
	IndexScanDesc scan;
	int			n = 0;

	node->tsm_state = blocks;
	if (index == NULL)
		return;
	blocks->number = RelationGetNumberOfBlocks(heap);
	blocks->marked = MemoryContextAllocExtended(CurrentMemoryContext,
												(Size) blocks->number / 8 + 1,
												MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	n = add_key(keys, n, index, DatumGetArrayTypeP(params[ARG_LO]), BTGreaterStrategyNumber);
	n = add_key(keys, n, index, DatumGetArrayTypeP(params[ARG_HI]),
				BTLessEqualStrategyNumber);
	scan = begin_scan(heap, index, node->ss.ps.state->es_snapshot, n);
	index_rescan(scan, keys, n, NULL, 0);
	mark_blocks(blocks, scan);
	index_endscan(scan);
	index_close(index, NoLock);
}

static BlockNumber
next_block(SampleScanState *node, BlockNumber nblocks)
{
	Blocks	   *blocks = node->tsm_state;
	IbltSample *sample = &blocks->sample;

	for (; sample->next < nblocks; sample->next++)
	{
		if (blocks->marked != NULL && sample->next >= blocks->number)
			break;
		if (is_marked(blocks, sample->next))
			return iblt_sample_take(sample);
	}
	return InvalidBlockNumber;
}

/* iblt_slice_blocks(internal) -> tsm_handler, of (name of the column, lo, hi) */
Datum
iblt_slice_blocks(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	PG_RETURN_POINTER(iblt_sample_method(list_make3_oid(TEXTOID, TEXTARRAYOID, TEXTARRAYOID),
										 true, begin_sample, next_block));
}
