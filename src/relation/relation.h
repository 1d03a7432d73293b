/*
 * relation.h
 *	  What the files of src/relation offer: fields of rows, catalogs, what types
 *	  are made of, rights, and the guard.
 */
#ifndef IBLT_RELATION_RELATION_H
#define IBLT_RELATION_RELATION_H

#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/nodes.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* field.c: arguments, and rows of the types of iblt in SQL */

/* A field of a row, or 0 for null. */
extern Datum iblt_field_of(Datum row, const char *name);

/* The same of a text, or "otherwise", of a bigint, and of a boolean. */
extern const char *iblt_text_field(Datum row, const char *name, const char *otherwise);
extern int64 iblt_bigint_field(Datum row, const char *name);
extern bool iblt_flag_field(Datum row, const char *name);

/* The rows of an array of a composite type, of which those that are null are 0; none for 0. */
extern Datum *iblt_rows_of(Datum array, int *n);

/* An array of values of a type by reference, of which those that are 0 are null. */
extern Datum iblt_array_of(Datum *values, int n, Oid type);

/* The type of the rows that a function returns an array of. */
extern Oid	iblt_row_type(FunctionCallInfo fcinfo);

/* An argument that is a text, or "otherwise". */
extern const char *iblt_text_arg(FunctionCallInfo fcinfo, int n, const char *otherwise);

/* The texts of an argument that is an array, none for NULL. */
extern char **iblt_texts_of(FunctionCallInfo fcinfo, int arg, int *n);

/* fingerprint.c: the text that a fingerprint is a hash of, and reading of catalogs */

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

/* parts.c */

/* Appends what side_column in SQL has of a type, as fields of a JSON object. */
extern void iblt_append_type(StringInfo json, Oid type, int32 typmod);

/* collation.c */

/* The type that values, or the elements of arrays, are of, below domains. */
extern Oid	iblt_base_type(Oid type);

/* The operator of a call, of rows that of their first columns.  InvalidOid for all else. */
extern Oid	iblt_call_operator(Node *call);

/*
 * Adds the OIDs of the collations that what a node does with its arguments depends
 * on, InvalidOid if it depends on the encoding of text, and the OIDs of the enums
 * whose order of labels it may depend on.
 */
extern void iblt_call_depends(Node *call, List **collations, List **enums);

/* rights.c: may a role read a relation that a caller names by its OID? */

/* Has this role SELECT on the columns of a relation, which are names, or on all of it? */
extern bool iblt_has_rights(Oid relid, List *columns);

/*
 * May this role read the columns of a relation, which are names, or without names all columns, of
 * all its rows?  So may a query that names a table above a partition or a child, whose policies
 * count then.
 */
extern bool iblt_is_readable(Oid relid, List *columns);

/* ERROR unless it may. */
extern void iblt_require_readable(Relation relation, List *columns);

/* guard.c: keeps comparisons from running code of other roles */

/* Once, when a session loads the library. */
extern void iblt_guard_register(void);

/* From now on, code of other roles is refused, as iblt_guard says. */
extern void iblt_guard_begin(void);

/*
 * The same, and says that statements read tables only, or foreign tables and
 * iblt_guard_allow's views, too.  Until the calling function ends, if that has a SET
 * clause.
 */
extern void iblt_guard_read(bool views);
extern void iblt_guard_allow(Oid view);

/* Does this role trust what another role owns? */
extern bool iblt_guard_trusts(Oid owner);

/*
 * From now on, functions of all roles may run, for what a repair writes.
 * AtEOXact_GUC(true, result) ends it, and so does an error.  ERROR while a
 * statement reads.
 */
extern int	iblt_guard_open(void);

#endif							/* IBLT_RELATION_RELATION_H */
