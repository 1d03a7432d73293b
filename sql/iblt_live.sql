-- The script of the extension iblt_live: live digests of the tables of this database.
-- Its parts are in the schema of iblt's, and sql/iblt.sql says what its path is for.

\echo Use "CREATE EXTENSION iblt_live" to load this file. \quit

SET LOCAL search_path = iblt_internal, pg_temp;
