/*
 * store.h
 *	  The relations that keep live digests: what is tracked, the base of each
 *	  digest, and the changes since the base was made.
 *
 * They are materialized views that are never refreshed, as are the stores of runs.  Only
 * store.c, merge.c and run/rows.c write them, with the table access method heap.  So
 * publications FOR ALL TABLES leave them out, users' INSERT, UPDATE, DELETE and TRUNCATE
 * are errors, and WAL, MVCC and VACUUM work as for any table.  They have no indexes.
 */
#ifndef IBLT_DIGEST_STORE_H
#define IBLT_DIGEST_STORE_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tableam.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* Stores of changes, iblt_internal.changes_1 and so on. */
#define IBLT_CHANGE_STORES	8

/*
 * The first column of each store is the relation's OID.  Later versions of iblt may
 * add columns at the end.
 */
enum
{
	TRACKED_RELATION, TRACKED_GENERATION, TRACKED_VERSION, TRACKED_SYSTEM,
	TRACKED_DATABASE, TRACKED_STORE, TRACKED_KEYS, TRACKED_COLUMNS,
	TRACKED_TYPES, TRACKED_PARTS, TRACKED_OWN_TRIGGER,
	TRACKED_ALL_COLUMNS, TRACKED_BY_HASH, TRACKED_FROM_PEER,
	TRACKED_CAPACITY, TRACKED_TEMPLATE, TRACKED_SHAPE, TRACKED_TRIGGERS,
	TRACKED_FILES, TRACKED_WIDTH
};

enum
{
	BASE_RELATION, BASE_GENERATION, BASE_VERIFIED, BASE_SKETCH, BASE_FOLD, BASE_WIDTH
};

enum
{
	CHANGE_RELATION, CHANGE_NUMBER, CHANGE_KIND, CHANGE_BYTES, CHANGE_SKETCH,
	CHANGE_WIDTH
};

/* Room for a row of any store, and for columns of later versions. */
#define IBLT_STORE_WIDTH	48

/* What a row of a store of changes is. */
typedef enum IbltChangeKind
{
	IBLT_CHANGES_START = 'g',	/* kept while the digest lives: its generation */
	IBLT_CHANGES_PACKED = 'c',	/* changes one after the other (pending.h) */
	IBLT_CHANGES_SKETCH = 's',	/* changes summed up in a sketch */
	IBLT_CHANGES_BROKEN = 'b',	/* why the digest is not trustworthy */
	IBLT_CHANGES_FENCE = 'f',	/* the same, except for its own transaction */
	IBLT_CHANGES_VERIFIED = 'v'	/* when a scan last found the same digest */
} IbltChangeKind;

/*
 * The store of a name, which has this column.  InvalidOid if it does not exist,
 * or if another relation has its name for a moment: that is not a member of the
 * extension, and another store does not have the column.
 */
extern Oid	iblt_store_oid(const char *name, const char *column);

#define iblt_store_tracked()	iblt_store_oid("tracked", "template")
#define iblt_store_base()		iblt_store_oid("base", "verified_at")
#define iblt_store_changes(number) \
	iblt_store_oid(psprintf("changes_%d", number), "kind")

/*
 * Opens a store.  NULL if it does not exist, or is not ours: it must be a heap without indexes
 * whose rows fit.
 */
extern Relation iblt_store_open(Oid store, LOCKMODE lock);

/* ERROR unless a store is there and can be written. */
extern void iblt_store_require(Oid store);

/* Rows of one relation, or of all for InvalidOid, that a snapshot sees. */
typedef struct IbltStoreScan
{
	Relation	store;
	TableScanDesc scan;
	Oid			relid;
	Snapshot	latest;			/* the scan's own, or NULL */
	Snapshot	snapshot;		/* of a serializable transaction, or NULL */
	Relation	reads;			/* what it reads then, or NULL */
	Datum		values[IBLT_STORE_WIDTH];	/* of the last row */
	bool		nulls[IBLT_STORE_WIDTH];
} IbltStoreScan;

/*
 * A serializable transaction must not conflict with all that use the store.
 * So the scan leaves no trace of a read of the store.  If the caller sets
 * scan.reads to the tracked table, rows of other transactions that the snapshot
 * does not see count as changes of that table.  Those who write later look for
 * readers with iblt_store_written.
 */

/*
 * The snapshot NULL means one of this moment, which lasts as long as the scan.
 * False if the store does not exist.  Then the scan must not be used.
 */
extern bool iblt_store_begin(IbltStoreScan *scan, Oid store, Oid relid,
							 Snapshot snapshot, LOCKMODE lock);

/* A serializable transaction has written changes of a table to its store. */
extern void iblt_store_written(Oid relid);

/*
 * The next row, or NULL.  Its columns are in the scan.  Those that the store
 * lacks are null.
 */
extern HeapTuple iblt_store_next(IbltStoreScan *scan);
extern void iblt_store_end(IbltStoreScan *scan);

/*
 * Inserts a row of "width" columns, in arrays of IBLT_STORE_WIDTH, and returns where
 * it is.  ERROR if the store has fewer.  The store is locked until the
 * transaction ends.  It may have gone with the extension.  Then nothing is
 * inserted, and the place is not valid.
 */
extern ItemPointerData iblt_store_insert(Oid store, int width, Datum *values,
										 bool *nulls);

/*
 * The same for another row of a store of changes.  The number and either value
 * can be 0, for NULL.
 */
extern ItemPointerData iblt_store_insert_change(Oid store, Oid relid,
												IbltChangeKind kind,
												int32 number, Datum bytes,
												Datum sketch);

/* At most this many bytes fit in a row, and it in a page. */
#define IBLT_STORE_BYTES	7900

/* The same for a row of bytes. */
extern ItemPointerData iblt_store_insert_bytes(Oid store, Oid relid,
											   IbltChangeKind kind,
											   const void *bytes, Size size);

/*
 * Deletes a row that an earlier command of this transaction has inserted.  It
 * may be gone already.
 */
extern void iblt_store_take_back(Oid store, ItemPointer row);

/*
 * The file that a store is in now, which can change, and its bytes unless NULL, which each reader
 * goes through.  InvalidOid and 0 without it.
 */
extern Oid	iblt_store_file(Oid store, int64 *bytes);

/* Deletes the rows of a relation that a snapshot sees from one store. */
extern void iblt_store_purge(Oid store, Oid relid, Snapshot snapshot);

/* Deletes all that is kept of a relation.  The caller holds the merge lock. */
extern void iblt_store_forget(Oid relid);

/*
 * Takes the lock of those who write a digest's base, until the transaction
 * ends.  With no_wait, returns false if somebody else has it.
 */
extern bool iblt_store_lock(Oid relid, bool no_wait);

#endif							/* IBLT_DIGEST_STORE_H */
