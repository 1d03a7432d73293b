-- The script of the extension iblt_audit: the server that compares, audits and repairs.
-- Its parts are in the schema of iblt's, and sql/iblt.sql says what its path is for.

\echo Use "CREATE EXTENSION iblt_audit" to load this file. \quit

SET LOCAL search_path = iblt_internal, pg_temp;
