/*-------------------------------------------------------------------------
 *
 * index.c
 *	  Looks whether indexes have entries for rows that the heap has.
 *
 * Slices of a key are read by indexes, and which of them is a matter of the
 * planner and of range.c.  So a sample of rows is looked up by each index that
 * they may take.  The rows come from blocks at equal distances, so that a part
 * of the table without entries is met if it is larger than such a distance.
 *
 * A row is looked up by all columns of an index, and its entry leads to the
 * block of the row.  Indexes of expressions and partial ones are left out,
 * because to look a row up there would run code of the table's owner.
 *
 *-------------------------------------------------------------------------
 */
#include "run/index.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "compare/rights.h"
#include "sketch/value.h"

PG_FUNCTION_INFO_V1(iblt_index_sample);

/* A row with so many entries before its own, of the same values, counts as found. */
#define MAX_ENTRIES 10000

typedef struct Probe
{
	Relation	index;
	IndexInfo  *info;
	IndexScanDesc scan;
	ScanKeyData keys[INDEX_MAX_KEYS];
	int			nkeys;
} Probe;

typedef struct Sample
{
	Relation	heap;
	Snapshot	snapshot;
	List	   *probes;
	TupleTableSlot *row;
	TupleTableSlot *found;
	int			most;			/* rows of a block, about */
	int			step;			/* each how many rows of a block */
	int64		rows;
	int64		lost;
	Oid			index;			/* the first that lacks a row */
} Sample;

bool
iblt_index_is_whole(Relation index)
{
	Form_pg_index form = index->rd_index;

	return index->rd_rel->relam == BTREE_AM_OID && form->indisvalid &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL) &&
		(!form->indcheckxmin ||
		 TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data),
							   TransactionXmin));
}

IndexScanDesc
iblt_index_begin(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 190000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

static List *
names_of(ArrayType *array)
{
	List	   *names = NIL;
	Datum	   *values;
	bool	   *nulls;
	int			n;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			names = lappend(names, TextDatumGetCString(values[i]));
	return names;
}

/* Is one of its columns among the names?  Never if one is an expression. */
static bool
has_column(Relation heap, Relation index, List *names, bool any)
{
	bool		found = any;

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		AttrNumber	column = index->rd_index->indkey.values[i];
		ListCell   *cell;

		if (column == 0)
			return false;
		foreach(cell, names)
			found |= get_attnum(RelationGetRelid(heap), lfirst(cell)) == column;
	}
	return found;
}

static Probe *
make_probe(Relation heap, Relation index, Snapshot snapshot)
{
	Probe	   *probe = palloc0(sizeof(*probe));

	probe->index = index;
	probe->info = BuildIndexInfo(index);
	probe->nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	probe->scan = iblt_index_begin(heap, index, snapshot, probe->nkeys);
	for (int i = 0; i < probe->nkeys; i++)
	{
		Oid			type = index->rd_opcintype[i];
		Oid			op = get_opfamily_member(index->rd_opfamily[i], type, type,
											 BTEqualStrategyNumber);

		ScanKeyEntryInitialize(&probe->keys[i], 0, i + 1, BTEqualStrategyNumber, InvalidOid,
							   index->rd_indcollation[i], get_opcode(op), (Datum) 0);
	}
	return probe;
}

/* Opens the indexes with one of these columns, or with any. */
static void
open_probes(Sample *sample, List *names, bool any)
{
	ListCell   *cell;

	foreach(cell, RelationGetIndexList(sample->heap))
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		if (iblt_index_is_whole(index) && has_column(sample->heap, index, names, any))
			sample->probes = lappend(sample->probes,
									 make_probe(sample->heap, index, sample->snapshot));
		else
			index_close(index, AccessShareLock);
	}
}

static void
close_probes(Sample *sample)
{
	ListCell   *cell;

	foreach(cell, sample->probes)
	{
		Probe	   *probe = lfirst(cell);

		index_endscan(probe->scan);
		index_close(probe->index, NoLock);
	}
}

/* Does an index lead to the row in a slot? */
static bool
finds(Sample *sample, Probe *probe)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	ItemPointer tid;
	int			entries = 0;

	FormIndexDatum(probe->info, sample->row, NULL, values, nulls);
	for (int i = 0; i < probe->nkeys; i++)
	{
		probe->keys[i].sk_flags = nulls[i] ? SK_ISNULL | SK_SEARCHNULL : 0;
		probe->keys[i].sk_argument = nulls[i] ? (Datum) 0 : values[i];
	}
	index_rescan(probe->scan, probe->keys, probe->nkeys, NULL, 0);
	while ((tid = index_getnext_tid(probe->scan, ForwardScanDirection)) != NULL)
	{
		if (++entries > MAX_ENTRIES)
			return true;
		/* an entry leads to the block of its row, and the snapshot to the version */
		if (ItemPointerGetBlockNumber(tid) == ItemPointerGetBlockNumber(&sample->row->tts_tid) &&
			index_fetch_heap(probe->scan, sample->found) &&
			ItemPointerEquals(&sample->found->tts_tid, &sample->row->tts_tid))
			return true;
	}
	return false;
}

static void
look_up(Sample *sample)
{
	bool		lost = false;
	ListCell   *cell;

	CHECK_FOR_INTERRUPTS();
	foreach(cell, sample->probes)
	{
		Probe	   *probe = lfirst(cell);

		if (finds(sample, probe))
			continue;
		lost = true;
		if (!OidIsValid(sample->index))
			sample->index = RelationGetRelid(probe->index);
	}
	sample->rows++;
	sample->lost += lost;
}

/* Looks rows of a block up.  How many it has tells how many are passed over in the next. */
static void
sample_block(Sample *sample, BlockNumber block)
{
	TableScanDesc scan = table_beginscan_strat(sample->heap, sample->snapshot, 0, NULL,
											   true, false);
	int			n = 0;

	CHECK_FOR_INTERRUPTS();
	heap_setscanlimits(scan, block, 1);
	while (table_scan_getnextslot(scan, ForwardScanDirection, sample->row))
		if (n++ % sample->step == 0)
			look_up(sample);
	table_endscan(scan);
	sample->step = 1 + n / sample->most;
}

static void
sample_heap(Sample *sample, List *names, bool any, int64 blocks, double place)
{
	BlockNumber all = RelationGetNumberOfBlocks(sample->heap);

	blocks = Min(Max(blocks, 0), all);
	sample->row = table_slot_create(sample->heap, NULL);
	sample->found = table_slot_create(sample->heap, NULL);
	open_probes(sample, names, any);
	for (int64 i = 0; i < blocks && sample->probes != NIL; i++)
		sample_block(sample, (BlockNumber) ((i + place) / blocks * all));
	close_probes(sample);
	ExecDropSingleTupleTableSlot(sample->row);
	ExecDropSingleTupleTableSlot(sample->found);
}

/*
 * iblt_index_sample(relation regclass, columns text[], any boolean, blocks bigint, most
 * integer, place float8) -> record (rows bigint, lost bigint, index regclass): looks about
 * "most" rows of each of so many blocks up by the indexes with one of the columns, or with
 * any.  0 <= place < 1 says where the first block is.  A relation that is not a heap has
 * no rows here, nor has a partition that was dropped since it was listed.
 */
Datum
iblt_index_sample(PG_FUNCTION_ARGS)
{
	List	   *names = names_of(PG_GETARG_ARRAYTYPE_P(1));
	double		place = PG_GETARG_FLOAT8(5);
	Sample		sample = {.most = Max(PG_GETARG_INT32(4), 1), .step = 1};
	Datum		values[3];
	bool		nulls[3] = {false};

	if (names == NIL || !(place >= 0 && place < 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a sample needs a column and a place from 0 on, and below 1")));
	sample.heap = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	if (sample.heap != NULL)
	{
		iblt_require_readable(sample.heap, names);
		if (sample.heap->rd_tableam == GetHeapamTableAmRoutine())
		{
			sample.snapshot = RegisterSnapshot(GetActiveSnapshot());
			sample_heap(&sample, names, PG_GETARG_BOOL(2), PG_GETARG_INT64(3), place);
			UnregisterSnapshot(sample.snapshot);
		}
		relation_close(sample.heap, NoLock);
	}
	values[0] = Int64GetDatum(sample.rows);
	values[1] = Int64GetDatum(sample.lost);
	values[2] = ObjectIdGetDatum(sample.index);
	nulls[2] = !OidIsValid(sample.index);
	return iblt_value_row(fcinfo, values, nulls);
}
