/*-------------------------------------------------------------------------
 *
 * store.h
 *	  The relations that keep runs: runs, their tables, slices under way, and
 *	  differences.
 *
 * They are materialized views that are never refreshed, as the stores of live
 * digests are (digest/store.h says why).  The first columns of each are the
 * same: the role that began the run, the run, the number of the table in it,
 * and a number of the row.  A role writes rows of its own alone, and reads
 * those of roles whose privileges it has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_RUN_STORE_H
#define IBLT_RUN_STORE_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tableam.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

enum
{
	RUN_OWNER, RUN_RUN, RUN_TABLE_NUMBER, RUN_NUMBER, RUN_PREFIX
};

/* Which rows: those that have these values. */
typedef struct IbltRunFilter
{
	bool		any_run;
	bool		any_table_number;
	bool		any_number;
	bool		own;			/* those of this role alone */
	bool		all;			/* of whatever role */
	int64		run;
	int32		table_number;
	int64		number;
} IbltRunFilter;

typedef struct IbltRunScan
{
	Relation	store;
	TableScanDesc scan;
	Snapshot	snapshot;
	const IbltRunFilter *filter;
} IbltRunScan;

/* The names of the stores. */
#define IBLT_RUN_STORES 5
extern const char *const iblt_run_stores[IBLT_RUN_STORES];

/* The store of a row type.  ERROR if it is none. */
extern Relation iblt_run_store_open(Oid row_type, LOCKMODE lock);

/* Is a store that of the runs themselves? */
extern bool iblt_run_is_head(Relation store);

/* The OID of a store by its name. */
extern Oid	iblt_run_store_oid(const char *name);

/* Does a filter find a row of a store? */
extern bool iblt_run_matches(HeapTuple tuple, TupleDesc desc, const IbltRunFilter *filter);

/* Scans an open store in a snapshot of this moment. */
extern void iblt_run_scan_begin(IbltRunScan *scan, Relation store,
								const IbltRunFilter *filter);
extern HeapTuple iblt_run_scan_next(IbltRunScan *scan);
extern void iblt_run_scan_end(IbltRunScan *scan);

#endif							/* IBLT_RUN_STORE_H */
