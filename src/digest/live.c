/*-------------------------------------------------------------------------
 *
 * live.c
 *	  The digest of a tracked table as a sketch, its state, and what a scan has
 *	  shown of it.
 *
 * In any snapshot iblt_live is the sketch that iblt_agg gives over the table, byte
 * for byte: the base, the changes that the snapshot sees, and those that this
 * transaction still has in memory.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "access/relation.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "core/cell.h"
#include "core/sizing.h"
#include "digest/config.h"
#include "digest/digest.h"
#include "digest/merge.h"
#include "digest/pending.h"
#include "digest/shape.h"
#include "digest/store.h"
#include "relation/rights.h"

/*
 * Opens the table, and has the rows of its tree count as read.  ERROR if rows may have been
 * changed whose triggers have not fired yet.  They fire at the end of the statement that
 * changes the rows.  So there can be such rows only if this transaction has locked a table for
 * writing, and a trigger or a query that uses this table has not ended.
 */
static Relation
open_table(FunctionCallInfo fcinfo)
{
	bool		in_trigger = DatumGetInt32(DirectFunctionCall1(pg_trigger_depth,
															   (Datum) 0)) > 0;
	Relation	relation;
	ListCell   *lc;

	iblt_require_arg(fcinfo, 0, "relation", NULL);
	relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	if (relation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", PG_GETARG_OID(0))));
	/* a digest tells about all rows and all tracked columns */
	iblt_require_readable(relation, NIL);
	foreach(lc, iblt_shape_is_table(relation) ? iblt_shape_tree(relation) : NIL)
	{
		Relation	part = relation_open(lfirst_oid(lc), NoLock);
		int			own = lfirst_oid(lc) == RelationGetRelid(relation) ? 1 : 0;

		PredicateLockRelation(part, GetActiveSnapshot());
		if (CheckRelationLockedByMe(part, RowExclusiveLock, true) &&
			(in_trigger || part->rd_refcnt > 1 + own))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("digest of table \"%s\" cannot be read while a statement may be changing it",
							RelationGetRelationName(part)),
					 errhint("Read the digest in a statement of its own, outside of triggers.")));
		relation_close(part, NoLock);
	}
	return relation;
}

/* The table's configuration.  ERROR if it is not tracked. */
static void
require_config(IbltTrackConfig *config, Relation relation)
{
	const char *name;

	if (iblt_config_read(config, RelationGetRelid(relation),
						 GetActiveSnapshot()))
		return;
	name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
									  RelationGetRelationName(relation));
	if (OidIsValid(iblt_shape_own_trigger(relation)))
		ereport(ERROR,
				(errcode(ERRCODE_IBLT_NOT_TRUSTWORTHY),
				 errmsg("digest of table \"%s\" is not trustworthy, because this database has no record of it",
						RelationGetRelationName(relation)),
				 errhint("CALL iblt_track('%s'), with the options that it had.",
						 name)));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" is not tracked",
					RelationGetRelationName(relation)),
			 errhint("CALL iblt_track('%s');", name)));
}

PG_FUNCTION_INFO_V1(iblt_live);

/* iblt_live(relation regclass, capacity integer) -> iblt */
Datum
iblt_live(PG_FUNCTION_ARGS)
{
	Relation	relation = open_table(fcinfo);
	Snapshot	snapshot = GetActiveSnapshot();
	IbltTrackConfig config;
	IbltBase	base;
	IbltChanges changes;
	IbltParams	params;
	IbltSketch	sketch;
	struct varlena *value;
	bool		found;
	const char *problem;

	require_config(&config, relation);
	found = iblt_base_read(&base, &config, snapshot, true);
	problem = iblt_digest_problem(&config, found ? &base : NULL);
	if (problem == NULL && !base.fits)
	{
		problem = iblt_shape_problem(relation, &config);
		if (problem == NULL)
			problem = iblt_base_damaged;
	}
	if (problem != NULL)
		iblt_digest_refuse(relation, problem);
	sketch = base.sketch;
	value = base.value;
	params = base.sketch.params;
	if (!PG_ARGISNULL(1))
		params.subtable_cells = iblt_params_fold_cells(&params, PG_GETARG_INT32(1),
													   IBLT_DEFAULT_FAILURE);
	if (params.subtable_cells != base.sketch.params.subtable_cells)
	{
		value = iblt_make(&sketch, &params);
		iblt_core_fold(&sketch, &base.sketch);
	}
	iblt_changes_read(&changes, relation, &config, sketch.params.key.limbs, snapshot,
					  &sketch);
	problem = iblt_changes_problem(&changes);
	if (problem == NULL)
		problem = iblt_pending_apply(config.relid, snapshot, &sketch,
									 &changes.added);
	if (problem == NULL)
		problem = iblt_shape_problem(relation, &config);
	if (problem != NULL)
		iblt_digest_refuse(relation, problem);
	/* a base as it was stored is sealed */
	if (changes.added || value != base.value)
		iblt_core_seal(&sketch);
	iblt_launch_saw(changes.number);
	relation_close(relation, NoLock);
	PG_RETURN_POINTER(value);
}

PG_FUNCTION_INFO_V1(iblt_live_base);

/*
 * iblt_live_base(regclass, iblt) -> iblt: a sketch of the table less the
 * changes that this snapshot sees.  The sketch of a scan in the same statement
 * gives a base.
 */
Datum
iblt_live_base(PG_FUNCTION_ARGS)
{
	Relation	relation = open_table(fcinfo);
	IbltTrackConfig config;
	IbltChanges changes;
	IbltSketch	scanned;
	IbltSketch	sum;
	IbltSketch	base;
	struct varlena *value;
	const char *problem;

	require_config(&config, relation);
	iblt_open_arg(&scanned, fcinfo, 1);
	iblt_config_require_fit(&config, &scanned.params);
	iblt_make(&sum, &scanned.params);
	iblt_changes_read(&changes, relation, &config, sum.params.key.limbs,
					  GetActiveSnapshot(), &sum);
	problem = iblt_changes_problem(&changes);
	/* the scan may have read a partition or child that is gone again later */
	if (problem == NULL)
		problem = iblt_shape_problem(relation, &config);
	if (problem != NULL)
		iblt_digest_refuse(relation, problem);
	value = iblt_copy(&base, &scanned);
	iblt_check_counts(&base.params, iblt_core_add_sketch(&base, &sum, -1));
	iblt_core_seal(&base);
	relation_close(relation, NoLock);
	PG_RETURN_POINTER(value);
}

/* iblt_live_tables() -> oid[]: the tracked tables */
IBLT_FUNCTION(iblt_live_tables, ((void) fcinfo, iblt_value_oids(iblt_config_tables(InvalidOid))))

/* The columns of iblt_live_state. */
enum
{
	STATE_REASON, STATE_ROWS, STATE_UNMERGED, STATE_BYTES, STATE_VERIFIED,
	STATE_STORE_BYTES, STATE_COLUMNS
};

PG_FUNCTION_INFO_V1(iblt_live_state);

/*
 * iblt_live_state(oid) -> record: the state of a tracked table.  NULL if it is
 * not tracked, has been dropped, or must not be read.
 */
Datum
iblt_live_state(PG_FUNCTION_ARGS)
{
	Relation	relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	Snapshot	snapshot = GetActiveSnapshot();
	Datum		values[STATE_COLUMNS];
	bool		nulls[STATE_COLUMNS] = {false};
	IbltTrackConfig config;
	IbltBase	base;
	IbltChanges changes;
	bool		has_base;
	const char *reason;

	if (relation == NULL)
		PG_RETURN_NULL();
	if (!iblt_is_readable(PG_GETARG_OID(0), NIL) ||
		!iblt_config_read(&config, PG_GETARG_OID(0), snapshot))
	{
		relation_close(relation, AccessShareLock);
		PG_RETURN_NULL();
	}
	has_base = iblt_base_read(&base, &config, snapshot, false);
	reason = iblt_digest_problem(&config, has_base ? &base : NULL);
	iblt_changes_read(&changes, relation, &config, base.fits ? base.sketch.params.key.limbs : 0,
					  snapshot, NULL);
	if (reason == NULL)
		reason = iblt_changes_problem(&changes);
	if (reason == NULL)
		reason = iblt_shape_problem(relation, &config);
	if (reason == NULL && !base.fits)
		reason = iblt_base_damaged;
	nulls[STATE_REASON] = reason == NULL;
	if (reason != NULL)
		values[STATE_REASON] = CStringGetTextDatum(reason);
	nulls[STATE_ROWS] = !base.fits;
	values[STATE_ROWS] = Int64GetDatum(base.sketch.rows + changes.rows);
	values[STATE_UNMERGED] = Int64GetDatum(changes.number);
	values[STATE_BYTES] = Int64GetDatum((int64) (base.bytes + changes.bytes));
	base.verified = Max(base.verified, changes.verified);
	nulls[STATE_VERIFIED] = base.verified == 0;
	values[STATE_VERIFIED] = TimestampTzGetDatum(base.verified);
	values[STATE_STORE_BYTES] = Int64GetDatum(iblt_store_size(config.store));
	relation_close(relation, AccessShareLock);
	return iblt_value_row(fcinfo, values, nulls);
}

PG_FUNCTION_INFO_V1(iblt_live_note_scan);

/*
 * iblt_live_note_scan(regclass, equal boolean, at timestamptz) -> void: notes
 * that a scan has found the same digest, or another one.
 */
Datum
iblt_live_note_scan(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	TimestampTz at = PG_GETARG_TIMESTAMPTZ(2);
	IbltTrackConfig config;

	iblt_config_require_owner(relid);
	if (!iblt_config_read(&config, relid, NULL))
		PG_RETURN_VOID();
	if (PG_GETARG_BOOL(1))
		iblt_store_insert_bytes(config.store, relid,
								IBLT_CHANGES_VERIFIED, &at, sizeof at);
	else
		iblt_store_insert_change(config.store, relid,
								 IBLT_CHANGES_BROKEN, 0,
								 CStringGetTextDatum("a scan has found other rows"),
								 (Datum) 0);
	PG_RETURN_VOID();
}
