/*-------------------------------------------------------------------------
 *
 * floor.c
 *	  A row trigger that computes nothing, and inserts one row of 40 bytes for
 *	  each table before the commit: what any tracking by row triggers costs.
 *	  test/bench/track.sh compiles this.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(floor_row);

#define STORES			4
#define CHANGE			40

static Oid	store_of[STORES];
static bool changed[STORES];

static void
insert_row(Oid store)
{
	static char change[VARHDRSZ + CHANGE];
	Relation	relation = table_open(store, RowExclusiveLock);
	Datum		values[2] = {ObjectIdGetDatum(store), PointerGetDatum(change)};
	bool		nulls[2] = {false, false};
	HeapTuple	row;

	SET_VARSIZE(change, sizeof(change));
	row = heap_form_tuple(RelationGetDescr(relation), values, nulls);
	heap_insert(relation, row, GetCurrentCommandId(true), 0, NULL);
	heap_freetuple(row);
	table_close(relation, NoLock);
}

static void
at_transaction(XactEvent event, void *arg)
{
	(void) arg;
	for (int i = 0; i < STORES; i++)
	{
		if (changed[i] && event == XACT_EVENT_PRE_COMMIT)
			insert_row(store_of[i]);
		changed[i] = false;
	}
}

/* A trigger whose argument is the number of a table floor_<number> */
Datum
floor_row(PG_FUNCTION_ARGS)
{
	static bool registered = false;
	TriggerData *data = (TriggerData *) fcinfo->context;
	int			number = data->tg_trigger->tgargs[0][0] - '0';

	if (!registered)
		RegisterXactCallback(at_transaction, NULL);
	registered = true;
	if (!OidIsValid(store_of[number]))
		store_of[number] = RelnameGetRelid(psprintf("floor_%d", number));
	changed[number] = true;
	PG_RETURN_POINTER(NULL);
}
