/*
 * merge.c
 *	  Puts the changes of a tracked table into its base, and the background
 *	  worker that does so for the tables of one database.
 *
 * A merge sees the base and the changes in a snapshot that it takes under the
 * merge lock.  It deletes just these changes.  So no change is lost or counted
 * twice, whatever commits meanwhile.
 *
 * A session starts the worker when many changes have gathered.  It merges each
 * table that has many changes, once, and ends.  It reads and writes the stores
 * only, and runs no code of users.  A table whose merge fails does not keep the
 * others from being merged.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "core/interrupt.h"
#include "digest/digest.h"
#include "digest/pending.h"
#include "digest/store.h"

/* Writes a base in place of the one that a snapshot sees, and its fold. */
static void
write_base(Oid relid, int64 generation, const IbltSketch *sketch, struct varlena *value,
		   TimestampTz verified, Snapshot snapshot)
{
	Datum		values[IBLT_STORE_WIDTH];
	bool		nulls[IBLT_STORE_WIDTH] = {false};
	uint32		cells = iblt_base_fold_cells(sketch->params.subtable_cells);
	IbltSketch	fold;

	iblt_store_purge(iblt_store_base(), relid, snapshot);
	values[BASE_RELATION] = ObjectIdGetDatum(relid);
	values[BASE_GENERATION] = Int64GetDatum(generation);
	values[BASE_SKETCH] = PointerGetDatum(value);
	values[BASE_VERIFIED] = TimestampTzGetDatum(verified);
	nulls[BASE_FOLD] = cells == 0;
	if (cells != 0)
		values[BASE_FOLD] = PointerGetDatum(iblt_make_fold(&fold, sketch, cells, sketch->params.subtables));
	iblt_store_insert(iblt_store_base(), BASE_WIDTH, values, nulls);
	/* the next statement of this transaction must see it */
	CommandCounterIncrement();
}

/* merge() under the lock and in a snapshot. */
static int64
merge_in(Oid relid, int64 least, Snapshot snapshot)
{
	IbltTrackConfig config;
	IbltBase	base;
	IbltChanges changes;
	Relation	store;

	if (!iblt_config_read(&config, relid, snapshot) ||
		config.version != IBLT_TRACK_VERSION)
		return 0;
	iblt_base_read(&base, &config, snapshot, IBLT_BASE_WHOLE);
	if (base.generation != config.generation || !base.fits)
		return 0;
	iblt_changes_read(&changes, NULL, &config, base.sketch.params.key.limbs, snapshot,
					  &base.sketch);
	/* what cannot be read must stay, and so must what tells of it */
	if (iblt_changes_problem(&changes) != NULL ||
		(changes.number == 0 && changes.verified == 0) || changes.number < least)
		return 0;
	store = iblt_store_open(config.store, RowExclusiveLock);
	if (store == NULL)
		return 0;
	/* nobody else deletes them, because of the merge lock */
	for (uint64 i = 0; i < changes.nmerged; i++)
	{
		iblt_check_interrupts();
		simple_heap_delete(store, &changes.merged[i]);
	}
	relation_close(store, NoLock);
	iblt_core_seal(&base.sketch);
	write_base(relid, config.generation, &base.sketch, base.value,
			   Max(base.verified, changes.verified), snapshot);
	return changes.number;
}

/*
 * Merges the changes that are visible now, if there are at least this many.
 * Returns their number, or -1 if another session merges and no_wait is set.
 * Readers with older snapshots still see base and changes as they were.  Of a
 * table that was dropped, all is removed.
 */
static int64
merge(Oid relid, int64 least, bool no_wait)
{
	int64		number;

	/* such a transaction would see its new base with changes that its snapshot does not see */
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("digests cannot be written in a REPEATABLE READ or SERIALIZABLE transaction"),
				 errhint("Begin the transaction with ISOLATION LEVEL READ COMMITTED.")));
	if (!iblt_store_lock(relid, no_wait))
		return -1;
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
	{
		iblt_store_forget(relid);
		return 0;
	}
	PushActiveSnapshot(GetLatestSnapshot());
	number = merge_in(relid, least, GetActiveSnapshot());
	PopActiveSnapshot();
	return number;
}

/* iblt_live_merge(regclass) -> bigint: the number of changes */
IBLT_FUNCTION(iblt_live_merge,
			  (iblt_config_require_owner(PG_GETARG_OID(0)),
			   Int64GetDatum(merge(PG_GETARG_OID(0), 0, false))))

PG_FUNCTION_INFO_V1(iblt_track_set_base);

/*
 * iblt_track_set_base(regclass, generation bigint, base iblt) -> void: the first
 * base of a generation.  ERROR if tracking starts again meanwhile.
 */
Datum
iblt_track_set_base(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	int64		generation = PG_GETARG_INT64(1);
	IbltTrackConfig config;
	IbltSketch	base;
	Snapshot	snapshot;

	iblt_config_require_owner(relid);
	iblt_value_open_arg(&iblt_type, &base, fcinfo, 2);
	iblt_store_lock(relid, false);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	if (!iblt_config_read(&config, relid, snapshot) ||
		config.generation != generation)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tracking of the table was started or ended by another session")));
	iblt_config_require_fit(&config, &base.params);
	write_base(relid, generation, &base, iblt_value_copy(base.bytes, base.size),
			   GetCurrentTransactionStartTimestamp(), snapshot);
	UnregisterSnapshot(snapshot);
	PG_RETURN_VOID();
}

/* --- the worker ----------------------------------------------------------------- */

extern PGDLLEXPORT void iblt_merge_worker(Datum arg);

/* Checks for interrupts between two looks at the lock. */
#define CHECKS			256

/*
 * Ends the worker if a session needs the database without others.  DROP DATABASE
 * and the like hold the lock that a new session needs, and wait for all others
 * to leave, but not longer than five seconds.
 */
static void
leave_if_wanted(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&tag, RowExclusiveLock, false, true) ==
		LOCKACQUIRE_NOT_AVAIL)
		proc_exit(0);
	LockRelease(&tag, RowExclusiveLock, false);
}

/* In all long loops of a merge. */
static void
check_interrupts(void)
{
	static int	checks = 0;

	CHECK_FOR_INTERRUPTS();
	if (++checks % CHECKS == 0 && INTERRUPTS_CAN_BE_PROCESSED())
		leave_if_wanted();
}

/* Merges a table in a transaction of its own.  An error is only a warning. */
static void
merge_table(Oid relid)
{
	ErrorData  *error;

	PG_TRY();
	{
		StartTransactionCommand();
		pgstat_report_activity(STATE_RUNNING, "iblt merges changes");
		leave_if_wanted();
		(void) merge(relid, IBLT_MERGE_CHANGES, true);
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(TopMemoryContext);
		error = CopyErrorData();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
		/* that ends the worker, as it would end a query */
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			ReThrowError(error);
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not merge changes of relation %u into its digest: %s",
						relid, error->message),
				 error->detail == NULL ? 0
				 : errdetail_internal("%s", error->detail)));
	}
	PG_END_TRY();
}

void
iblt_merge_worker(Datum arg)
{
	List	   *tables;
	ListCell   *cell;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg),
											  InvalidOid, 0);
	SetConfigOption("default_transaction_isolation", "read committed",
					PGC_SUSET, PGC_S_OVERRIDE);
	iblt_core_check_interrupts = check_interrupts;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	/* the list outlives the transaction */
	MemoryContextSwitchTo(TopMemoryContext);
	tables = iblt_config_tables(InvalidOid);
	PopActiveSnapshot();
	CommitTransactionCommand();
	foreach(cell, tables)
		merge_table(lfirst_oid(cell));
	pgstat_report_activity(STATE_IDLE, NULL);
}
