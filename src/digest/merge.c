/*-------------------------------------------------------------------------
 *
 * merge.c
 *	  Puts the changes of a tracked table into its base.
 *
 * A merge sees the base and the changes in a snapshot that it takes under the
 * merge lock.  It deletes just these changes.  So no change is lost or counted
 * twice, whatever commits meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "digest/merge.h"

#include "access/heapam.h"
#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "core/interrupt.h"
#include "digest/digest.h"
#include "digest/store.h"

/* Writes a base in place of the one that a snapshot sees. */
static void
write_base(Oid relid, int64 generation, const IbltSketch *sketch,
		   struct varlena *value, TimestampTz verified, Snapshot snapshot)
{
	Datum		values[IBLT_STORE_WIDTH];
	bool		nulls[IBLT_STORE_WIDTH] = {false};

	iblt_store_purge(iblt_store_base(), relid, snapshot);
	values[BASE_RELATION] = ObjectIdGetDatum(relid);
	values[BASE_GENERATION] = Int64GetDatum(generation);
	values[BASE_SKETCH] = PointerGetDatum(value);
	values[BASE_ROWS] = Int64GetDatum(sketch->rows);
	values[BASE_LIMBS] = Int32GetDatum((int32) sketch->params.key.limbs);
	values[BASE_VERIFIED] = TimestampTzGetDatum(verified);
	iblt_store_insert(iblt_store_base(), BASE_WIDTH, values, nulls);
	/* the next statement of this transaction must see it */
	CommandCounterIncrement();
}

/*
 * A transaction that keeps one snapshot would see its own new base with
 * changes that its snapshot does not see.
 */
static void
require_read_committed(void)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("digests cannot be written in a REPEATABLE READ or SERIALIZABLE transaction"),
				 errhint("Begin the transaction with ISOLATION LEVEL READ COMMITTED.")));
}

/* Replaces changes by a base that has them now. */
static void
replace_changes(const IbltTrackConfig *config, IbltChanges *changes,
				IbltBase *base, Snapshot snapshot)
{
	IbltStoreScan scan;

	if (!iblt_store_begin(&scan, config->store,
						  config->relid, snapshot, RowExclusiveLock))
		return;
	/* nobody else deletes them, because of the merge lock */
	for (int i = 0; i < changes->nmerged; i++)
	{
		iblt_check_interrupts();
		simple_heap_delete(scan.store, &changes->merged[i]);
	}
	iblt_store_end(&scan);
	iblt_core_seal(&base->sketch);
	write_base(config->relid, config->generation, &base->sketch, base->value,
			   Max(base->verified, changes->verified), snapshot);
}

/* iblt_merge_table() under the lock and in a snapshot. */
static int64
merge_in(Oid relid, int64 least, Snapshot snapshot)
{
	IbltTrackConfig config;
	IbltBase	base;
	IbltChanges changes;

	if (!iblt_config_read(&config, relid, snapshot) ||
		config.version != IBLT_TRACK_VERSION ||
		!iblt_base_read(&base, &config, snapshot, true) ||
		base.generation != config.generation || !base.fits)
		return 0;
	iblt_changes_read(&changes, NULL, &config, base.sketch.params.key.limbs, snapshot,
					  &base.sketch);
	/* what cannot be read must stay, and so must what tells of it */
	if (iblt_changes_problem(&changes) == NULL && changes.nmerged > 0 &&
		changes.number >= least)
		replace_changes(&config, &changes, &base, snapshot);
	else
		changes.number = 0;
	return changes.number;
}

int64
iblt_merge_table(Oid relid, int64 least, bool no_wait)
{
	Snapshot	snapshot;
	int64		number;

	require_read_committed();
	if (!iblt_store_lock(relid, no_wait))
		return -1;
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
	{
		iblt_store_forget(relid);
		return 0;
	}
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(snapshot);
	number = merge_in(relid, least, snapshot);
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
	return number;
}

PG_FUNCTION_INFO_V1(iblt_live_merge);

/* iblt_live_merge(regclass) -> bigint: the number of changes */
Datum
iblt_live_merge(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);

	iblt_config_require_owner(relid);
	PG_RETURN_INT64(iblt_merge_table(relid, 0, false));
}

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
	IbltSketch	copy;
	struct varlena *value;
	Snapshot	snapshot;

	iblt_config_require_owner(relid);
	iblt_open_arg(&base, fcinfo, 2);
	iblt_store_lock(relid, false);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	if (!iblt_config_read(&config, relid, snapshot) ||
		config.generation != generation)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tracking of the table was started or ended by another session")));
	iblt_config_require_fit(&config, &base.params);
	value = iblt_copy(&copy, &base);
	write_base(relid, generation, &copy, value,
			   GetCurrentTransactionStartTimestamp(), snapshot);
	UnregisterSnapshot(snapshot);
	PG_RETURN_VOID();
}
