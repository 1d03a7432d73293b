-- The script of the extension iblt: the types, checksums, and what a server answers that is
-- compared.  The Makefile puts the parts together (SQL_PARTS_iblt).  A release adds
-- sql/iblt--A--B.sql, with what changed since the release before.

\echo Use "CREATE EXTENSION iblt" to load this file. \quit

-- The script runs as superuser, and the schema that users call may belong to anybody.  So the
-- script looks nothing up there.  It searches pg_catalog first, creates in iblt_internal what
-- has no schema, and names everything in the other schema with it.  Functions that users call,
-- and those that a view or a procedure without settings calls, pin search_path in the same way.
-- All others are called by these and have no path of their own.

SET LOCAL search_path = iblt_internal, pg_temp;

-- What the reference does not document is in a schema of its own.  Functions of types,
-- operators and aggregates run as the caller, so everybody may use the schema.

CREATE SCHEMA iblt_internal;
COMMENT ON SCHEMA iblt_internal IS
'parts of the extension iblt that are not documented: they can change in every release';
GRANT USAGE ON SCHEMA iblt_internal TO PUBLIC;
