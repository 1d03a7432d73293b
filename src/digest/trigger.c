/*-------------------------------------------------------------------------
 *
 * trigger.c
 *	  The triggers of tracked tables.
 *
 * What they cannot record makes the digest untrustworthy.  They fail a statement
 * only if the store is not found (iblt_store_require).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"

#include "digest/entry.h"
#include "digest/packed.h"

/* The trigger's data.  ERROR if the function was called in another way. */
static TriggerData *
trigger_data(FunctionCallInfo fcinfo)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function was not called by a trigger")));
	return (TriggerData *) fcinfo->context;
}

PG_FUNCTION_INFO_V1(iblt_track_row);

/* iblt_track_row() -> trigger: AFTER INSERT OR UPDATE OR DELETE FOR EACH ROW */
Datum
iblt_track_row(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo);
	bool		update = TRIGGER_FIRED_BY_UPDATE(data->tg_event);
	bool		insert = TRIGGER_FIRED_BY_INSERT(data->tg_event);
	IbltTrackEntry *entry;
	IbltTrackRow row;
	IbltTrackRow new_row;
	const char *problem;

	/* somebody else can make other triggers of this function */
	if (!TRIGGER_FIRED_AFTER(data->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		return PointerGetDatum(update ? data->tg_newtuple : data->tg_trigtuple);
	entry = iblt_entry_find(fcinfo);
	if (entry == NULL)
		return PointerGetDatum(NULL);
	problem = iblt_entry_read(entry, data->tg_trigslot, &row);
	if (problem == NULL && update)
		problem = iblt_entry_read(entry, data->tg_newslot, &new_row);
	if (problem != NULL)
		iblt_pending_break(&entry->target, problem);
	else if (!update)
		iblt_pending_add(&entry->target,
						 insert ? IBLT_CHANGE_NEW : IBLT_CHANGE_OLD, row.key,
						 row.sum, row.sum);
	else if (memcmp(row.key, new_row.key, 8 * (Size) entry->target.params.limbs) != 0)
	{
		iblt_pending_add(&entry->target, IBLT_CHANGE_OLD, row.key, row.sum, 0);
		iblt_pending_add(&entry->target, IBLT_CHANGE_NEW, new_row.key, 0, new_row.sum);
	}
	/* what the digest does not cover is not a change */
	else if (row.sum != new_row.sum)
		iblt_pending_add(&entry->target, IBLT_CHANGE_OLD | IBLT_CHANGE_NEW, row.key,
						 row.sum, new_row.sum);
	return PointerGetDatum(NULL);
}

PG_FUNCTION_INFO_V1(iblt_track_truncate);

/* iblt_track_truncate() -> trigger: AFTER TRUNCATE FOR EACH STATEMENT */
Datum
iblt_track_truncate(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo);
	IbltTrackEntry *entry;

	if (!TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		return PointerGetDatum(NULL);
	entry = iblt_entry_find(fcinfo);
	if (entry != NULL)
		iblt_pending_break(&entry->target, "it was truncated");
	return PointerGetDatum(NULL);
}
