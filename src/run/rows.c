/*
 * rows.c
 *	  Reads and writes the rows of runs, for the functions in sql/run.
 *
 * The stores are materialized views that are never refreshed, as those of live digests are
 * (digest/store.h says why, and has the scans).  The type of an argument says which store is meant.  A role writes
 * rows of its own alone, and reads those of roles whose privileges it has.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "codec/version.h"
#include "digest/store.h"
#include "sketch/value.h"

/* The columns that all stores begin with: the role that began the run, its number, and so on. */
enum
{
	RUN_OWNER, RUN_RUN, RUN_TABLE_NUMBER, RUN_NUMBER, RUN_PREFIX
};

/* The numbers of locks of a run, without a table: see iblt_run_lock(), and new_number(). */
enum
{
	TO_WRITE, TO_WORK, TO_NUMBER
};

/* Which rows: those that have these numbers. */
typedef struct RunFilter
{
	enum
	{
		OWN,					/* of this role alone */
		SEEN,					/* of roles whose privileges it has */
		ALL
	}			owners;
	bool		given[RUN_PREFIX];
	int64		number[RUN_PREFIX];
} RunFilter;

typedef struct RunScan
{
	IbltStoreScan store;
	RunFilter	filter;
} RunScan;

/* The store of the runs themselves, and the others. */
static const char *const stores[] = {
	"run_head", "run_table", "run_slice", "run_difference", "run_range"
};

static Oid
store_oid(int n)
{
	return get_relname_relid(stores[n], get_namespace_oid("iblt_internal", false));
}

/* The store of a row type, to be locked.  ERROR if it is none. */
static Oid
store_of(Oid row_type, LOCKMODE lock)
{
	Oid			store = get_typ_typrelid(row_type);

	if (lock != AccessShareLock)
	{
		PreventCommandIfReadOnly("a run");
		PreventCommandDuringRecovery("a run");
	}
	for (int i = 0; i < (int) lengthof(stores); i++)
		if (OidIsValid(store) && store_oid(i) == store)
			return store;
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("type %s is not that of a store of runs", format_type_be(row_type))));
}

static int64
number_of(const Datum *values, int column)
{
	return column == RUN_TABLE_NUMBER ? DatumGetInt32(values[column])
		: DatumGetInt64(values[column]);
}

/* Is the row that was read last one of those? */
static bool
matches(const IbltStoreScan *scan, const RunFilter *filter)
{
	/* a number without a run has no owner */
	Oid			owner = DatumGetObjectId(scan->values[RUN_OWNER]);

	for (int i = RUN_RUN; i < RUN_PREFIX; i++)
		if (filter->given[i] && number_of(scan->values, i) != filter->number[i])
			return false;
	return filter->owners == ALL ||
		(filter->owners == OWN ? owner == GetUserId()
		 : OidIsValid(owner) && has_privs_of_role(GetUserId(), owner));
}

/* Scans a store in a snapshot of this moment, for all rows of these owners. */
static void
scan_begin(RunScan *scan, Oid store, int owners, LOCKMODE lock)
{
	if (!iblt_store_begin(&scan->store, store, InvalidOid, NULL, lock))
		elog(ERROR, "a store of runs is not a heap");
	memset(&scan->filter, 0, sizeof scan->filter);
	scan->filter.owners = owners;
}

/* The same with the store and the rows that the arguments say.  NULL matches every value. */
static void
scan_arguments(RunScan *scan, FunctionCallInfo fcinfo, LOCKMODE lock)
{
	scan_begin(scan, store_of(get_fn_expr_argtype(fcinfo->flinfo, 0), lock),
			   PG_ARGISNULL(4) || PG_GETARG_BOOL(4) ? OWN : SEEN, lock);
	for (int i = RUN_RUN; i < RUN_PREFIX; i++)
	{
		scan->filter.given[i] = !PG_ARGISNULL(i);
		if (!PG_ARGISNULL(i))
			scan->filter.number[i] = i == RUN_TABLE_NUMBER ? PG_GETARG_INT32(i) : PG_GETARG_INT64(i);
	}
}

/* The next row.  After the last one, the scan is over, and its lock on the store stays. */
static HeapTuple
scan_next(RunScan *scan)
{
	HeapTuple	tuple;

	while ((tuple = iblt_store_next(&scan->store)) != NULL)
		if (matches(&scan->store, &scan->filter))
			return tuple;
	iblt_store_end(&scan->store);
	return NULL;
}

PG_FUNCTION_INFO_V1(iblt_run_rows);

/* iblt_run_rows(store, run, table_number, number, own) -> rows */
Datum
iblt_run_rows(PG_FUNCTION_ARGS)
{
	RunScan		scan;
	TupleDesc	desc;
	Tuplestorestate *result;
	HeapTuple	tuple;

	scan_arguments(&scan, fcinfo, AccessShareLock);
	desc = RelationGetDescr(scan.store.store);
	result = iblt_value_rows(fcinfo, desc);
	while ((tuple = scan_next(&scan)) != NULL)
	{
		HeapTuple	flat = toast_flatten_tuple(tuple, desc);

		tuplestore_puttuple(result, flat);
		heap_freetuple(flat);
	}
	return (Datum) 0;
}

/*
 * Takes a lock of a run until the transaction ends.  False if another session has it.
 * No statement of SQL takes a lock of this type.  The tag has the number of the run, for which
 * iblt_run_lock() requires its owner.  So if the rest of two tags is the same by chance, they
 * are of one role.
 */
static bool
lock_run(int64 run, int32 table_number, int64 number, bool wait)
{
	bool		shared = table_number == 0 && number == TO_WORK;
	LOCKTAG		tag = {
		.locktag_field1 = MyDatabaseId,
		.locktag_field2 = (uint32) run,
		.locktag_field3 = (uint32) number,
		.locktag_field4 = table_number == 0 ? 0 : 1 + (uint32) table_number % PG_UINT16_MAX,
		.locktag_type = LOCKTAG_USERLOCK,
		.locktag_lockmethodid = DEFAULT_LOCKMETHOD
	};

	return LockAcquire(&tag, shared ? AccessShareLock : ExclusiveLock, false,
					   !wait) != LOCKACQUIRE_NOT_AVAIL;
}

/* ERROR unless one run of this role has that number. */
static void
require_run(int64 run)
{
	RunScan		scan;
	int			n = 0;

	scan_begin(&scan, store_oid(0), OWN, AccessShareLock);
	scan.filter.given[RUN_RUN] = true;
	scan.filter.number[RUN_RUN] = run;
	while (scan_next(&scan) != NULL)
		n++;
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no run " INT64_FORMAT " of this role", run),
				 errhint("See iblt_audit_runs. Only the role that began a run can continue it.")));
	if (n > 1)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("run number " INT64_FORMAT " is not unique", run),
				 errhint("Begin another run. iblt_audit_prune deletes these.")));
}

/* The largest number of a run in a store, of whatever role. */
static int64
largest_run(Oid store)
{
	int64		largest = 0;
	RunScan		scan;

	scan_begin(&scan, store, ALL, AccessShareLock);
	while (scan_next(&scan) != NULL)
		largest = Max(largest, number_of(scan.store.values, RUN_RUN));
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
		for (int i = 0; i < (int) lengthof(stores); i++)
			last = Max(last, largest_run(store_oid(i)));

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
		} while (!lock_run(number, 0, TO_NUMBER, false));
	}
}

/*
 * Makes a tuple of a store from a row, of this role's, and the filter that finds it.  A run
 * that is not 0 takes the place of the row's.
 */
static HeapTuple
tuple_of(Datum row, Relation store, int64 run, RunFilter *filter)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(row);
	TupleDesc	desc = RelationGetDescr(store);
	HeapTupleData given = {.t_len = HeapTupleHeaderGetDatumLength(header), .t_data = header};
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);

	heap_deform_tuple(&given, desc, values, nulls);
	values[RUN_OWNER] = ObjectIdGetDatum(GetUserId());
	nulls[RUN_OWNER] = false;
	if (run != 0)
		values[RUN_RUN] = Int64GetDatum(run);
	nulls[RUN_RUN] &= run == 0;
	for (int i = 0; i < RUN_PREFIX; i++)
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("run, table number and number of a row of \"%s\" must not be null",
							RelationGetRelationName(store))));
	*filter = (RunFilter) {.owners = OWN};
	for (int i = RUN_RUN; i < RUN_PREFIX; i++)
	{
		filter->given[i] = true;
		filter->number[i] = number_of(values, i);
	}
	return heap_form_tuple(desc, values, nulls);
}

/* Puts tuples in place of the rows that their filters find.  NULL stays where that was done. */
static void
replace(Oid store, HeapTuple *tuples, const RunFilter *filters, int n)
{
	RunScan		scan;
	HeapTuple	old;

	scan_begin(&scan, store, OWN, RowExclusiveLock);
	while ((old = scan_next(&scan)) != NULL)
	{
		int			i = 0;

		while (i < n && (tuples[i] == NULL ||
						 !matches(&scan.store, &filters[i])))
			i++;
		if (i == n)
			continue;
		iblt_heap_update(scan.store.store, &old->t_self, tuples[i]);
		tuples[i] = NULL;
	}
}

/*
 * Writes the rows in argument 0, new ones or those in place of others, and returns the number
 * of a new run.  Rows of another role's run would be counted with its own where both are seen.
 */
static int64
write_rows(FunctionCallInfo fcinfo, bool add)
{
	Oid			oid = store_of(get_element_type(get_fn_expr_argtype(fcinfo->flinfo, 0)),
							   RowExclusiveLock);
	Relation	store = iblt_store_open(oid, RowExclusiveLock);
	bool		head = oid == store_oid(0);
	int64		run = add && head ? new_number() : 0;
	const RunFilter *last = NULL;	/* of a run that is there */
	HeapTuple  *tuples;
	RunFilter  *filters;
	Datum	   *rows;
	bool	   *nulls;
	int			n;

	if (store == NULL)
		elog(ERROR, "a store of runs is not a heap");
	n = iblt_array_take(PG_ARGISNULL(0) ? 0 : PG_GETARG_DATUM(0), &rows, &nulls);
	tuples = palloc(sizeof(HeapTuple) * n);
	filters = palloc(sizeof(RunFilter) * n);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("row of a run must not be null")));
		tuples[i] = tuple_of(rows[i], store, run, &filters[i]);
	}
	if (!add)
		replace(oid, tuples, filters, n);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (tuples[i] == NULL)
			continue;
		if (head && (!add || n > 1))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("a run is not added as a row")));
		if (!head && (last == NULL || last->number[RUN_RUN] != filters[i].number[RUN_RUN]))
			require_run(filters[i].number[RUN_RUN]);
		last = &filters[i];
		heap_insert(store, tuples[i], GetCurrentCommandId(true), HEAP_INSERT_NO_LOGICAL, NULL);
	}
	relation_close(store, NoLock);
	CommandCounterIncrement();
	return run;
}

/* iblt_run_add(VARIADIC rows) -> bigint, 0 unless it adds a run */
IBLT_FUNCTION(iblt_run_add, Int64GetDatum(write_rows(fcinfo, true)))

/* iblt_run_put(VARIADIC rows): each in place of the row with its numbers */
IBLT_FUNCTION(iblt_run_put, (write_rows(fcinfo, false), (Datum) 0))

PG_FUNCTION_INFO_V1(iblt_run_remove);

/* iblt_run_remove(store, run, table_number, number, own) -> bigint: deletes rows: how many */
Datum
iblt_run_remove(PG_FUNCTION_ARGS)
{
	int64		last;
	int64		n = 0;
	RunScan		scan;
	HeapTuple	tuple;

	scan_arguments(&scan, fcinfo, RowExclusiveLock);
	last = RelationGetRelid(scan.store.store) == store_oid(0) ? largest_run(store_oid(0)) : 0;
	for (; (tuple = scan_next(&scan)) != NULL; n++)
		if (number_of(scan.store.values, RUN_RUN) != last)
			simple_heap_delete(scan.store.store, &tuple->t_self);
		else
		{
			/* its number stays, in a row that has no owner, and nothing else of it */
			TupleDesc	desc = RelationGetDescr(scan.store.store);
			Datum	   *values = palloc0(sizeof(Datum) * desc->natts);
			bool	   *nulls = palloc(sizeof(bool) * desc->natts);

			for (int i = 0; i < desc->natts; i++)
				nulls[i] = i >= RUN_PREFIX;
			values[RUN_RUN] = Int64GetDatum(last);
			iblt_heap_update(scan.store.store, &tuple->t_self, heap_form_tuple(desc, values, nulls));
		}
	CommandCounterIncrement();
	PG_RETURN_INT64(n);
}

/*
 * iblt_run_lock(run, table_number, number, wait) -> boolean: takes a lock of a run of this role
 * until the transaction ends.  Without a table (0), the lock of those who write the run if the
 * number is 0, and the one that all who work on it share if it is 1.  With one, the lock to
 * begin the table if the number is 0, otherwise that of a slice.
 */
IBLT_FUNCTION(iblt_run_lock,
			  (require_run(PG_GETARG_INT64(0)),
			   BoolGetDatum(lock_run(PG_GETARG_INT64(0), PG_GETARG_INT32(1), PG_GETARG_INT64(2),
									 PG_GETARG_BOOL(3)))))
