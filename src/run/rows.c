/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Reads and writes the rows of runs, for the functions in sql/run.
 *
 * The type of an argument says which store is meant.
 *
 *-------------------------------------------------------------------------
 */
#include "run/store.h"

#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "commands/sequence.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/utility.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

#if PG_VERSION_NUM >= 160000
#include "access/tableam.h"
#endif

/* The filter in arguments first and on; NULL matches every value. */
static void
filter_args(IbltRunFilter *filter, FunctionCallInfo fcinfo, int first)
{
	filter->any_run = PG_ARGISNULL(first);
	filter->run = filter->any_run ? 0 : PG_GETARG_INT64(first);
	filter->any_item = PG_ARGISNULL(first + 1);
	filter->item = filter->any_item ? 0 : PG_GETARG_INT32(first + 1);
	filter->any_number = PG_ARGISNULL(first + 2);
	filter->number = filter->any_number ? 0 : PG_GETARG_INT64(first + 2);
	filter->own = PG_ARGISNULL(first + 3) || PG_GETARG_BOOL(first + 3);
}

static void
require_writable(void)
{
	PreventCommandIfReadOnly("a run");
	PreventCommandDuringRecovery("a run");
}

/* An empty result of a function that returns rows of a store. */
static Tuplestorestate *
begin_result(FunctionCallInfo fcinfo, TupleDesc desc)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext old;

	if (rsinfo == NULL || !IsA(rsinfo, ReturnSetInfo) ||
		(rsinfo->allowedModes & SFRM_Materialize) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	old = MemoryContextSwitchTo(rsinfo->econtext->ecxt_per_query_memory);
	rsinfo->returnMode = SFRM_Materialize;
	rsinfo->setResult = tuplestore_begin_heap(false, false, work_mem);
	rsinfo->setDesc = CreateTupleDescCopy(desc);
	MemoryContextSwitchTo(old);
	return rsinfo->setResult;
}

PG_FUNCTION_INFO_V1(iblt_run_rows);

/*
 * iblt_run_rows(store anyelement, run bigint, item integer, number bigint, own
 * boolean) -> setof anyelement: rows of this role's runs, or of all runs that
 * it may see
 */
Datum
iblt_run_rows(PG_FUNCTION_ARGS)
{
	Relation	store = iblt_run_store_open(get_fn_expr_argtype(fcinfo->flinfo, 0),
											AccessShareLock);
	TupleDesc	desc = RelationGetDescr(store);
	Tuplestorestate *result = begin_result(fcinfo, desc);
	IbltRunFilter filter;
	IbltRunScan scan;
	HeapTuple	tuple;

	filter_args(&filter, fcinfo, 1);
	iblt_run_scan_begin(&scan, store, &filter);
	while ((tuple = iblt_run_scan_next(&scan)) != NULL)
	{
		HeapTuple	flat = toast_flatten_tuple(tuple, desc);

		tuplestore_puttuple(result, flat);
		heap_freetuple(flat);
	}
	iblt_run_scan_end(&scan);
	relation_close(store, NoLock);
	return (Datum) 0;
}

/*
 * Makes a tuple of a store from argument 0, of this role's, and the filter
 * that finds it.
 */
static HeapTuple
tuple_arg(FunctionCallInfo fcinfo, Relation store, IbltRunFilter *filter)
{
	HeapTupleHeader header = PG_GETARG_HEAPTUPLEHEADER(0);
	TupleDesc	desc = RelationGetDescr(store);
	HeapTupleData row;
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);

	row.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&row.t_self);
	row.t_tableOid = InvalidOid;
	row.t_data = header;
	heap_deform_tuple(&row, desc, values, nulls);
	values[RUN_OWNER] = ObjectIdGetDatum(GetUserId());
	nulls[RUN_OWNER] = false;
	for (int i = 0; i < RUN_PREFIX; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("run, item and number of a row of \"%s\" must not be null",
							RelationGetRelationName(store))));
	}
	memset(filter, 0, sizeof *filter);
	filter->own = true;
	filter->run = DatumGetInt64(values[RUN_RUN]);
	filter->item = DatumGetInt32(values[RUN_ITEM]);
	filter->number = DatumGetInt64(values[RUN_NUMBER]);
	return heap_form_tuple(desc, values, nulls);
}

static Relation
open_for_write(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("row of a run must not be null")));
	require_writable();
	return iblt_run_store_open(get_fn_expr_argtype(fcinfo->flinfo, 0),
							   RowExclusiveLock);
}

static void
insert_tuple(Relation store, HeapTuple tuple)
{
	heap_insert(store, tuple, GetCurrentCommandId(true), HEAP_INSERT_NO_LOGICAL,
				NULL);
}

static void
update_tuple(Relation store, ItemPointer old, HeapTuple tuple)
{
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes indexes;

	simple_heap_update(store, old, tuple, &indexes);
#else
	simple_heap_update(store, old, tuple);
#endif
}

PG_FUNCTION_INFO_V1(iblt_run_add);

/* iblt_run_add(row anyelement) -> void: a new row */
Datum
iblt_run_add(PG_FUNCTION_ARGS)
{
	Relation	store = open_for_write(fcinfo);
	IbltRunFilter filter;

	insert_tuple(store, tuple_arg(fcinfo, store, &filter));
	relation_close(store, NoLock);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(iblt_run_put);

/* iblt_run_put(row anyelement) -> void: in place of the row with its numbers */
Datum
iblt_run_put(PG_FUNCTION_ARGS)
{
	Relation	store = open_for_write(fcinfo);
	IbltRunFilter filter;
	HeapTuple	tuple = tuple_arg(fcinfo, store, &filter);
	IbltRunScan scan;
	HeapTuple	old;

	iblt_run_scan_begin(&scan, store, &filter);
	old = iblt_run_scan_next(&scan);
	if (old != NULL)
		update_tuple(store, &old->t_self, tuple);
	else
		insert_tuple(store, tuple);
	iblt_run_scan_end(&scan);
	relation_close(store, NoLock);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(iblt_run_remove);

/*
 * iblt_run_remove(store anyelement, run bigint, item integer, number bigint,
 * own boolean) -> bigint: deletes rows, and returns how many
 */
Datum
iblt_run_remove(PG_FUNCTION_ARGS)
{
	Relation	store;
	IbltRunFilter filter;
	IbltRunScan scan;
	HeapTuple	tuple;
	int64		n = 0;

	require_writable();
	store = iblt_run_store_open(get_fn_expr_argtype(fcinfo->flinfo, 0),
								RowExclusiveLock);
	filter_args(&filter, fcinfo, 1);
	iblt_run_scan_begin(&scan, store, &filter);
	while ((tuple = iblt_run_scan_next(&scan)) != NULL)
	{
		simple_heap_delete(store, &tuple->t_self);
		n++;
	}
	iblt_run_scan_end(&scan);
	relation_close(store, NoLock);
	CommandCounterIncrement();
	PG_RETURN_INT64(n);
}

PG_FUNCTION_INFO_V1(iblt_run_number);

/* iblt_run_number() -> bigint: of a new run, which no other ever has */
Datum
iblt_run_number(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	require_writable();
	PG_RETURN_INT64(nextval_internal(iblt_run_store_oid("run_number"), false));
}

PG_FUNCTION_INFO_V1(iblt_run_lock);

/*
 * iblt_run_lock(run bigint, item integer, number bigint, wait boolean) ->
 * boolean: takes a lock until the transaction ends.  Without an item, the lock
 * of those who write the run if the number is 0, and the one that all who work
 * on it share if it is 1; otherwise that of a slice.
 */
Datum
iblt_run_lock(PG_FUNCTION_ARGS)
{
	int64		run = PG_GETARG_INT64(0);
	int32		item = PG_GETARG_INT32(1);
	int64		number = PG_GETARG_INT64(2);
	bool		wait = PG_GETARG_BOOL(3);
	bool		shared = item == 0 && number == 1;
	IbltRunFilter filter = {.run = run, .own = true};
	Relation	store = relation_open(iblt_run_store_oid("run_head"), AccessShareLock);
	IbltRunScan scan;
	LOCKTAG		tag;
	bool		mine;

	iblt_run_scan_begin(&scan, store, &filter);
	mine = iblt_run_scan_next(&scan) != NULL;
	iblt_run_scan_end(&scan);
	if (!mine)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no run " INT64_FORMAT " of this role", run)));
	if (item == 0)
		SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationGetRelid(store),
						   (Oid) run, shared ? 1 : 0);
	else
		SET_LOCKTAG_OBJECT(tag, MyDatabaseId, iblt_run_store_oid("run_slice"),
						   (Oid) (run * 2654435761U + item * 40503U + number), 0);
	relation_close(store, NoLock);
	PG_RETURN_BOOL(LockAcquire(&tag, shared ? AccessShareLock : ExclusiveLock,
							   false, !wait) != LOCKACQUIRE_NOT_AVAIL);
}
