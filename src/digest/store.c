/*
 * store.c
 *	  The relations that keep live digests.
 */
#include "digest/store.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/extension.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lock.h"
#include "storage/predicate.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "codec/version.h"
#include "core/interrupt.h"

Oid
iblt_store_oid(const char *name, const char *column)
{
	Oid			schema = get_namespace_oid("iblt_internal", true);
	Oid			store = OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
	Oid			extension = get_extension_oid("iblt_live", true);

	if (!OidIsValid(store) || !OidIsValid(extension) ||
		getExtensionOfObject(RelationRelationId, store) != extension ||
		get_attnum(store, column) == InvalidAttrNumber)
		return InvalidOid;
	return store;
}

Relation
iblt_store_open(Oid store, LOCKMODE lock)
{
	Relation	relation;

	if (!OidIsValid(store))
		return NULL;
	relation = try_relation_open(store, lock);
	if (relation != NULL &&
		(relation->rd_rel->relkind != RELKIND_MATVIEW ||
		 relation->rd_tableam != GetHeapamTableAmRoutine() ||
		 RelationGetDescr(relation)->natts > IBLT_STORE_WIDTH))
	{
		relation_close(relation, lock);
		return NULL;
	}
	return relation;
}

/* A change that is not recorded would leave a digest wrong, and trusted. */
void
iblt_store_require(Oid store)
{
	Relation	relation = iblt_store_open(store, AccessShareLock);

	if (relation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("changes of tracked tables cannot be recorded"),
				 errdetail("A relation in schema iblt_internal has another name or access method, or another relation has its name."),
				 errhint("Undo that change, or drop the triggers whose names begin with iblt_track.")));
	relation_close(relation, NoLock);
}

bool
iblt_store_begin(IbltStoreScan *scan, Oid store, Oid relid, Snapshot snapshot,
				 LOCKMODE lock)
{
	scan->relid = relid;
	scan->latest = NULL;
	scan->reads = NULL;
	scan->store = iblt_store_open(store, lock);
	if (scan->store == NULL)
		return false;
	if (snapshot == NULL)
		snapshot = scan->latest = RegisterSnapshot(GetLatestSnapshot());
	scan->snapshot = IsolationIsSerializable() ? snapshot : NULL;
	scan->scan = table_beginscan_strat(scan->store, scan->snapshot == NULL ? snapshot
									   : SnapshotAny, 0, NULL, true, true);
	return true;
}

void
iblt_store_written(Oid relid)
{
	Relation	table;

	if (!IsolationIsSerializable())
		return;
	/* no lock, because the transaction may have that of a partition only */
	table = RelationIdGetRelation(relid);
	if (table == NULL)
		return;
	CheckForSerializableConflictIn(table, NULL, InvalidBlockNumber);
	RelationClose(table);
}

HeapTuple
iblt_store_next(IbltStoreScan *scan)
{
	TupleDesc	desc = RelationGetDescr(scan->store);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan->scan, ForwardScanDirection)) != NULL)
	{
		Buffer		buffer = ((HeapScanDesc) scan->scan)->rs_cbuf;
		bool		visible = true;
		bool		isnull;
		Oid			relid = DatumGetObjectId(heap_getattr(tuple, 1, desc, &isnull));

		iblt_check_interrupts();
		if (isnull || (OidIsValid(scan->relid) && relid != scan->relid))
			continue;
		/* does the snapshot of a serializable transaction see the row? */
		if (scan->snapshot != NULL)
		{
			LockBuffer(buffer, BUFFER_LOCK_SHARE);
			visible = HeapTupleSatisfiesVisibility(tuple, scan->snapshot, buffer);
			if (scan->reads != NULL)
				HeapCheckForSerializableConflictOut(visible, scan->reads, tuple, buffer,
													scan->snapshot);
			LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		}
		if (!visible)
			continue;
		heap_deform_tuple(tuple, desc, scan->values, scan->nulls);
		memset(scan->nulls + desc->natts, true, IBLT_STORE_WIDTH - desc->natts);
		memset(scan->values + desc->natts, 0, sizeof(Datum) * (IBLT_STORE_WIDTH - desc->natts));
		return tuple;
	}
	return NULL;
}

/* The lock is kept until the transaction ends if the rows may be written. */
void
iblt_store_end(IbltStoreScan *scan)
{
	table_endscan(scan->scan);
	if (scan->latest != NULL)
		UnregisterSnapshot(scan->latest);
	relation_close(scan->store, NoLock);
}

ItemPointerData
iblt_store_insert(Oid store, int width, Datum *values, bool *nulls)
{
	Relation	relation = iblt_store_open(store, RowExclusiveLock);
	ItemPointerData row;
	HeapTuple	tuple;

	ItemPointerSetInvalid(&row);
	if (relation == NULL)
		return row;
	PreventCommandDuringRecovery("a change of a digest");
	if (RelationGetDescr(relation)->natts < width)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the installed iblt needs newer objects in this database"),
				 errhint("Run ALTER EXTENSION iblt_live UPDATE.")));
	memset(nulls + width, true, IBLT_STORE_WIDTH - width);
	tuple = heap_form_tuple(RelationGetDescr(relation), values, nulls);
	heap_insert(relation, tuple, GetCurrentCommandId(true),
				HEAP_INSERT_NO_LOGICAL, NULL);
	row = tuple->t_self;
	heap_freetuple(tuple);
	relation_close(relation, NoLock);
	return row;
}

ItemPointerData
iblt_store_insert_change(Oid store, Oid relid, IbltChangeKind kind,
						 int32 number, Datum bytes, Datum sketch)
{
	Datum		values[IBLT_STORE_WIDTH];
	bool		nulls[IBLT_STORE_WIDTH] = {false};

	values[CHANGE_RELATION] = ObjectIdGetDatum(relid);
	values[CHANGE_KIND] = CharGetDatum((char) kind);
	values[CHANGE_NUMBER] = Int32GetDatum(number);
	values[CHANGE_BYTES] = bytes;
	values[CHANGE_SKETCH] = sketch;
	nulls[CHANGE_NUMBER] = number == 0;
	nulls[CHANGE_BYTES] = bytes == (Datum) 0;
	nulls[CHANGE_SKETCH] = sketch == (Datum) 0;
	return iblt_store_insert(store, CHANGE_WIDTH, values, nulls);
}

ItemPointerData
iblt_store_insert_bytes(Oid store, Oid relid, IbltChangeKind kind,
						const void *bytes, Size size)
{
	PGAlignedBlock value;

	Assert(size <= IBLT_STORE_BYTES);
	SET_VARSIZE(value.data, VARHDRSZ + size);
	memcpy(VARDATA(value.data), bytes, size);
	return iblt_store_insert_change(store, relid, kind, 0,
									PointerGetDatum(value.data), (Datum) 0);
}

Oid
iblt_store_file(Oid store, int64 *bytes)
{
	Relation	relation = iblt_store_open(store, AccessShareLock);
	Oid			file = InvalidOid;

	if (bytes != NULL)
		*bytes = 0;
	if (relation == NULL)
		return file;
	file = iblt_file_number(relation);
	if (bytes != NULL)
		*bytes = (int64) RelationGetNumberOfBlocks(relation) * BLCKSZ;
	relation_close(relation, NoLock);
	return file;
}

void
iblt_store_take_back(Oid store, ItemPointer row)
{
	Relation	relation = iblt_store_open(store, RowExclusiveLock);
	TupleTableSlot *slot;

	if (relation == NULL)
		return;
	slot = table_slot_create(relation, NULL);
	/* iblt_untrack may have been called since */
	if (table_tuple_fetch_row_version(relation, row, SnapshotSelf, slot))
		simple_heap_delete(relation, row);
	ExecDropSingleTupleTableSlot(slot);
	relation_close(relation, NoLock);
}

void
iblt_store_purge(Oid store, Oid relid, Snapshot snapshot)
{
	IbltStoreScan scan;
	HeapTuple	tuple;

	if (!iblt_store_begin(&scan, store, relid, snapshot, RowExclusiveLock))
		return;
	while ((tuple = iblt_store_next(&scan)) != NULL)
		simple_heap_delete(scan.store, &tuple->t_self);
	iblt_store_end(&scan);
}

void
iblt_store_forget(Oid relid)
{
	iblt_store_purge(iblt_store_tracked(), relid, NULL);
	iblt_store_purge(iblt_store_base(), relid, NULL);
	for (int i = 1; i <= IBLT_CHANGE_STORES; i++)
		iblt_store_purge(iblt_store_changes(i), relid, NULL);
	CommandCounterIncrement();
}

bool
iblt_store_lock(Oid relid, bool no_wait)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, iblt_store_tracked(), relid, 0);
	return LockAcquire(&tag, ExclusiveLock, false, no_wait) !=
		LOCKACQUIRE_NOT_AVAIL;
}
