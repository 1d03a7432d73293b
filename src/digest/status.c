/*-------------------------------------------------------------------------
 *
 * status.c
 *	  The state of a tracked table, and the result of a verification.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "access/relation.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "digest/config.h"
#include "digest/digest.h"
#include "digest/shape.h"
#include "digest/store.h"
#include "relation/rights.h"

/* iblt_live_tables() -> oid[]: the tracked tables */
IBLT_FUNCTION(iblt_live_tables, ((void) fcinfo, iblt_value_oids(iblt_config_tables(InvalidOid))))

/* The columns of iblt_live_state. */
enum
{
	STATE_REASON, STATE_ROWS, STATE_UNMERGED, STATE_BYTES, STATE_VERIFIED,
	STATE_STORE_BYTES, STATE_COLUMNS
};

static void
fill_state(Relation relation, const IbltTrackConfig *config, Datum *values,
		   bool *nulls)
{
	Snapshot	snapshot = GetActiveSnapshot();
	IbltBase	base = {0};
	bool		has_base = iblt_base_read(&base, config, snapshot, false);
	const char *reason = iblt_digest_problem(config, has_base ? &base : NULL);
	IbltChanges changes;

	iblt_changes_read(&changes, relation, config, base.limbs, snapshot, NULL);
	if (reason == NULL)
		reason = iblt_changes_problem(&changes);
	if (reason == NULL)
		reason = iblt_shape_problem(relation, config);
	if (reason == NULL && !base.fits)
		reason = iblt_base_damaged;
	nulls[STATE_REASON] = reason == NULL;
	if (reason != NULL)
		values[STATE_REASON] = CStringGetTextDatum(reason);
	nulls[STATE_ROWS] = !has_base;
	values[STATE_ROWS] = Int64GetDatum(base.rows + changes.rows);
	values[STATE_UNMERGED] = Int64GetDatum(changes.number);
	values[STATE_BYTES] = Int64GetDatum((int64) (base.bytes + changes.bytes));
	base.verified = Max(base.verified, changes.verified);
	nulls[STATE_VERIFIED] = base.verified == 0;
	values[STATE_VERIFIED] = TimestampTzGetDatum(base.verified);
	values[STATE_STORE_BYTES] =
		Int64GetDatum(iblt_store_size(config->store));
}

PG_FUNCTION_INFO_V1(iblt_live_state);

/*
 * iblt_live_state(oid) -> record: the state of a tracked table.  NULL if it is
 * not tracked, has been dropped, or must not be read.
 */
Datum
iblt_live_state(PG_FUNCTION_ARGS)
{
	Relation	relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	Datum		values[STATE_COLUMNS];
	bool		nulls[STATE_COLUMNS] = {false};
	IbltTrackConfig config;

	if (relation == NULL)
		PG_RETURN_NULL();
	if (!iblt_is_readable(PG_GETARG_OID(0), NIL) ||
		!iblt_config_read(&config, PG_GETARG_OID(0), GetActiveSnapshot()))
	{
		relation_close(relation, AccessShareLock);
		PG_RETURN_NULL();
	}
	fill_state(relation, &config, values, nulls);
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
