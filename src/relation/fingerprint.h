/*
 * fingerprint.h
 *	  The text that a fingerprint is a hash of, and reading of catalogs.
 */
#ifndef IBLT_COMPARE_FINGERPRINT_H
#define IBLT_COMPARE_FINGERPRINT_H

#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* A hash of a relation and of its columns that are not dropped, Form_pg_attribute in order. */
extern text *iblt_fingerprint(Oid relid, char kind, Oid am, List *columns);

/* That of a relation that is open and locked. */
extern text *iblt_fingerprint_now(Relation relation);

/*
 * Copies of the rows of a catalog that have an OID in a column, as HeapTuple.  Here
 * and below, the snapshot NULL means those of now.
 */
extern List *iblt_catalog_rows(Oid catalog, Oid index, AttrNumber column,
							   Oid value, Snapshot snapshot);

/* The partitions and children that a snapshot sees. */
extern List *iblt_catalog_children(Oid parent, Snapshot snapshot);

/* The RangeTblEntry of each relation that the query of a view names, in order. */
extern List *iblt_view_relations(Relation view);

/* When this server was started, in seconds. */
extern char *iblt_server_started(void);

/* Reads what the catalog says of a relation.  False if it does not exist. */
extern bool iblt_catalog_class(Oid relid, Snapshot snapshot,
							   FormData_pg_class *class);

#endif							/* IBLT_COMPARE_FINGERPRINT_H */
