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
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/utility.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#include "sketch/value.h"

/* The numbers of locks of a run, without a table: see iblt_run_lock(), and new_number(). */
enum
{
	TO_WRITE, TO_WORK, TO_NUMBER
};

/* The filter in arguments first and on; NULL matches every value. */
static void
filter_args(IbltRunFilter *filter, FunctionCallInfo fcinfo, int first)
{
	filter->any_run = PG_ARGISNULL(first);
	filter->run = filter->any_run ? 0 : PG_GETARG_INT64(first);
	filter->any_table_number = PG_ARGISNULL(first + 1);
	filter->table_number = filter->any_table_number ? 0 : PG_GETARG_INT32(first + 1);
	filter->any_number = PG_ARGISNULL(first + 2);
	filter->number = filter->any_number ? 0 : PG_GETARG_INT64(first + 2);
	filter->own = PG_ARGISNULL(first + 3) || PG_GETARG_BOOL(first + 3);
	filter->all = false;
}

static void
require_writable(void)
{
	PreventCommandIfReadOnly("a run");
	PreventCommandDuringRecovery("a run");
}

PG_FUNCTION_INFO_V1(iblt_run_rows);

/*
 * iblt_run_rows(store anyelement, run bigint, table_number integer, number
 * bigint, own boolean) -> setof anyelement: rows of this role's runs, or of all
 * runs that it may see
 */
Datum
iblt_run_rows(PG_FUNCTION_ARGS)
{
	Relation	store = iblt_run_store_open(get_fn_expr_argtype(fcinfo->flinfo, 0),
											AccessShareLock);
	TupleDesc	desc = RelationGetDescr(store);
	Tuplestorestate *result = iblt_value_rows(fcinfo, desc);
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

/* Makes a tuple of a store from a row, of this role's, and the filter that finds it. */
static HeapTuple
tuple_of(Datum row, Relation store, IbltRunFilter *filter)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(row);
	TupleDesc	desc = RelationGetDescr(store);
	HeapTupleData given;
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);

	given.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&given.t_self);
	given.t_tableOid = InvalidOid;
	given.t_data = header;
	heap_deform_tuple(&given, desc, values, nulls);
	values[RUN_OWNER] = ObjectIdGetDatum(GetUserId());
	nulls[RUN_OWNER] = false;
	for (int i = 0; i < RUN_PREFIX; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("run, table number and number of a row of \"%s\" must not be null",
							RelationGetRelationName(store))));
	}
	memset(filter, 0, sizeof *filter);
	filter->own = true;
	filter->run = DatumGetInt64(values[RUN_RUN]);
	filter->table_number = DatumGetInt32(values[RUN_TABLE_NUMBER]);
	filter->number = DatumGetInt64(values[RUN_NUMBER]);
	return heap_form_tuple(desc, values, nulls);
}

static void
require_row(bool isnull)
{
	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("row of a run must not be null")));
}

static Relation
open_for_write(FunctionCallInfo fcinfo, Oid type)
{
	require_row(PG_ARGISNULL(0));
	require_writable();
	return iblt_run_store_open(type, RowExclusiveLock);
}

static void
insert_tuple(Relation store, HeapTuple tuple)
{
	heap_insert(store, tuple, GetCurrentCommandId(true), HEAP_INSERT_NO_LOGICAL,
				NULL);
}

/* ERROR unless one run of this role has that number. */
static void
require_run(int64 run)
{
	Relation	heads = relation_open(iblt_run_store_oid("run_head"), AccessShareLock);
	IbltRunFilter filter = {.run = run, .own = true};
	IbltRunScan scan;
	int			n = 0;

	iblt_run_scan_begin(&scan, heads, &filter);
	while (iblt_run_scan_next(&scan) != NULL)
		n++;
	iblt_run_scan_end(&scan);
	relation_close(heads, NoLock);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no run " INT64_FORMAT " of this role", run)));
	if (n > 1)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("run number " INT64_FORMAT " is not unique", run),
				 errhint("Begin another run. iblt_audit_prune deletes these.")));
}

/*
 * Adds a row to a run of this role.  A number belongs to one run, and
 * iblt_run_add_head() gives it.  Rows of another role's run would be counted with
 * its own where both are seen.
 */
static void
add_row(Relation store, HeapTuple tuple, int64 run)
{
	if (iblt_run_is_head(store))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("a run is not added as a row")));
	require_run(run);
	insert_tuple(store, tuple);
}

PG_FUNCTION_INFO_V1(iblt_run_add);

/* iblt_run_add(row anyelement) -> void: a new row of a run of this role */
Datum
iblt_run_add(PG_FUNCTION_ARGS)
{
	Relation	store = open_for_write(fcinfo, get_fn_expr_argtype(fcinfo->flinfo, 0));
	IbltRunFilter filter;
	HeapTuple	tuple = tuple_of(PG_GETARG_DATUM(0), store, &filter);

	add_row(store, tuple, filter.run);
	relation_close(store, NoLock);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(iblt_run_put);

/*
 * iblt_run_put(VARIADIC rows anyarray) -> void: each in place of the row with its numbers.
 * One scan finds them all.
 */
Datum
iblt_run_put(PG_FUNCTION_ARGS)
{
	Relation	store = open_for_write(fcinfo,
									   get_element_type(get_fn_expr_argtype(fcinfo->flinfo, 0)));
	IbltRunFilter all = {.any_run = true, .any_table_number = true, .any_number = true, .own = true};
	IbltRunFilter *filters;
	IbltRunScan scan;
	HeapTuple  *rows;
	HeapTuple	old;
	Datum	   *datums;
	bool	   *nulls;
	int			n;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), store->rd_rel->reltype, -1, false,
					  TYPALIGN_DOUBLE, &datums, &nulls, &n);
	filters = palloc(sizeof(IbltRunFilter) * n);
	rows = palloc(sizeof(HeapTuple) * n);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		require_row(nulls[i]);
		rows[i] = tuple_of(datums[i], store, &filters[i]);
	}
	iblt_run_scan_begin(&scan, store, &all);
	while ((old = iblt_run_scan_next(&scan)) != NULL)
	{
		int			i = 0;

		while (i < n && (rows[i] == NULL ||
						 !iblt_run_matches(old, RelationGetDescr(store), &filters[i])))
			i++;
		if (i == n)
			continue;
		iblt_heap_update(store, &old->t_self, rows[i]);
		rows[i] = NULL;
	}
	iblt_run_scan_end(&scan);
	for (int i = 0; i < n; i++)
		if (rows[i] != NULL)
			add_row(store, rows[i], filters[i].run);
	relation_close(store, NoLock);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}

/*
 * Takes a lock of a run until the transaction ends.  False if another session has it.
 * No statement of SQL takes a lock of this type.  The tag has the number of the run, for which
 * iblt_run_lock() requires its owner.  So if the rest of two tags is the same by chance, they
 * are of one role.
 */
static bool
lock_run(int64 run, int32 table_number, int64 number, LOCKMODE mode, bool wait)
{
	LOCKTAG		tag = {
		.locktag_field1 = MyDatabaseId,
		.locktag_field2 = (uint32) run,
		.locktag_field3 = (uint32) number,
		.locktag_field4 = table_number == 0 ? 0 : 1 + (uint32) table_number % PG_UINT16_MAX,
		.locktag_type = LOCKTAG_USERLOCK,
		.locktag_lockmethodid = DEFAULT_LOCKMETHOD
	};

	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

static int64
run_of(Relation store, HeapTuple tuple)
{
	bool		isnull;

	return DatumGetInt64(heap_getattr(tuple, RUN_RUN + 1, RelationGetDescr(store), &isnull));
}

/* The largest number of a run in a store, of whatever role. */
static int64
largest_run(Relation store)
{
	IbltRunFilter filter = {.any_run = true, .any_table_number = true, .any_number = true, .all = true};
	int64		largest = 0;
	IbltRunScan scan;
	HeapTuple	tuple;

	iblt_run_scan_begin(&scan, store, &filter);
	while ((tuple = iblt_run_scan_next(&scan)) != NULL)
		largest = Max(largest, run_of(store, tuple));
	iblt_run_scan_end(&scan);
	return largest;
}

/*
 * The number of a new run, larger than those of all runs and of those that were deleted.
 * A lock of the number keeps it from other transactions, which take the next one then and
 * do not wait.  A sequence would not do: anybody who sets all sequences of a database back
 * would make numbers come twice.
 */
static int64
new_number(void)
{
	int64		number = 0;

	for (;;)
	{
		int64		last = 0;

		/*
		 * The largest number that a run has or had.  REFRESH MATERIALIZED VIEW may have emptied
		 * run_head, and rows of a run before must not be taken for those of the next.
		 */
		for (int i = 0; i < IBLT_RUN_STORES; i++)
		{
			Relation	store = relation_open(iblt_run_store_oid(iblt_run_stores[i]),
											  AccessShareLock);

			last = Max(last, largest_run(store));
			relation_close(store, NoLock);
		}

		/* it was free before, and the one that had its lock has committed */
		if (number > last)
			return number;
		number = last;
		do
		{
			CHECK_FOR_INTERRUPTS();
			if (number == PG_INT64_MAX)
				elog(ERROR, "there are no more numbers of runs");
			number++;
		} while (!lock_run(number, 0, TO_NUMBER, ExclusiveLock, false));
	}
}

/*
 * Leaves nothing of a run that is deleted, except its number, in a row that has no owner.
 * Few runs are the largest when they are deleted, so these rows are few.
 */
static void
keep_number(Relation store, HeapTuple head, int64 run)
{
	TupleDesc	desc = RelationGetDescr(store);
	Datum	   *values = palloc0(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);

	for (int i = 0; i < desc->natts; i++)
		nulls[i] = i >= RUN_PREFIX;
	values[RUN_RUN] = Int64GetDatum(run);
	iblt_heap_update(store, &head->t_self, heap_form_tuple(desc, values, nulls));
}

PG_FUNCTION_INFO_V1(iblt_run_remove);

/*
 * iblt_run_remove(store anyelement, run bigint, table_number integer, number
 * bigint, own boolean) -> bigint: deletes rows, and returns how many
 */
Datum
iblt_run_remove(PG_FUNCTION_ARGS)
{
	Relation	store;
	IbltRunFilter filter;
	IbltRunScan scan;
	HeapTuple	tuple;
	int64		last;
	int64		n = 0;

	require_writable();
	store = iblt_run_store_open(get_fn_expr_argtype(fcinfo->flinfo, 0),
								RowExclusiveLock);
	filter_args(&filter, fcinfo, 1);
	last = iblt_run_is_head(store) ? largest_run(store) : 0;
	iblt_run_scan_begin(&scan, store, &filter);
	for (; (tuple = iblt_run_scan_next(&scan)) != NULL; n++)
		if (run_of(store, tuple) == last)
			keep_number(store, tuple, last);
		else
			simple_heap_delete(store, &tuple->t_self);
	iblt_run_scan_end(&scan);
	relation_close(store, NoLock);
	CommandCounterIncrement();
	PG_RETURN_INT64(n);
}

PG_FUNCTION_INFO_V1(iblt_run_add_head);

/*
 * iblt_run_add_head(head run_head) -> bigint: adds a run, and gives its number, which no other
 * has or had
 */
Datum
iblt_run_add_head(PG_FUNCTION_ARGS)
{
	Relation	store = open_for_write(fcinfo, get_fn_expr_argtype(fcinfo->flinfo, 0));
	IbltRunFilter filter;
	HeapTuple	head;
	Datum	   *values = palloc0(sizeof(Datum) * RelationGetDescr(store)->natts);
	bool	   *nulls = palloc0(sizeof(bool) * RelationGetDescr(store)->natts);
	bool	   *replace = palloc0(sizeof(bool) * RelationGetDescr(store)->natts);
	int64		run;

	if (!iblt_run_is_head(store))
		elog(ERROR, "a run begins with a row of \"run_head\"");
	run = new_number();
	head = tuple_of(PG_GETARG_DATUM(0), store, &filter);
	values[RUN_RUN] = Int64GetDatum(run);
	replace[RUN_RUN] = true;
	insert_tuple(store, heap_modify_tuple(head, RelationGetDescr(store), values, nulls, replace));
	relation_close(store, NoLock);
	CommandCounterIncrement();
	PG_RETURN_INT64(run);
}

PG_FUNCTION_INFO_V1(iblt_run_lock);

/*
 * iblt_run_lock(run bigint, table_number integer, number bigint, wait boolean)
 * -> boolean: takes a lock of a run of this role until the transaction ends.
 * Without a table (0), the lock of those who write the run if the number is 0,
 * and the one that all who work on it share if it is 1.  With one, the lock to
 * begin the table if the number is 0, otherwise that of a slice.
 */
Datum
iblt_run_lock(PG_FUNCTION_ARGS)
{
	int64		run = PG_GETARG_INT64(0);
	int32		table_number = PG_GETARG_INT32(1);
	int64		number = PG_GETARG_INT64(2);
	bool		shared = table_number == 0 && number == TO_WORK;

	require_run(run);
	PG_RETURN_BOOL(lock_run(run, table_number, number, shared ? AccessShareLock : ExclusiveLock,
							PG_GETARG_BOOL(3)));
}
