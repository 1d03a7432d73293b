-- Reading -------------------------------------------------------------------------------
--
-- Every statement that decides is run by a function that says how it may read: read_heap,
-- read_planned, read_slice and slice_bound, which are part of the protocol.  Keys are $1 in
-- the query, and bounds $2 and $3.  doc/internals/walk.md has the list of these statements.
--
-- Each of them first locks what the query reads, and makes sure that it is what was described.
-- The query itself names its relation again.  A schema can be renamed in between, so until the
-- function ends the server refuses code of other roles (src/relation/guard.c).

-- Locks a relation of this name until the transaction ends, and sets what may be read from now
-- on; false unless it is what was described.  Without a fingerprint, any relation will do.
CREATE FUNCTION iblt_read_lock(relation text, server text, fingerprint text, views boolean)
RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- What was described of sides, for a statement that reads them.
-- A place that has iblt may have been described by plain queries, whose fingerprints are others.
-- Then only the fingerprint that comes with the rows is compared.  "plain" are the places that are
-- asked by plain queries.
CREATE FUNCTION reads(sides side[], plain jsonb DEFAULT NULL) RETURNS described[]
	AS 'MODULE_PATHNAME', 'iblt_reads' LANGUAGE C STABLE PARALLEL SAFE;

-- Begins to read relations; an error if one is not what was described.
-- Its caller has a SET clause, because what may be read is said until that ends.
CREATE FUNCTION read_begin(described described[]) RETURNS void
	AS 'MODULE_PATHNAME', 'iblt_read_begin' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The row that a query gives, which must not trust an index.
-- An index that lacks an entry, or a partition or a constraint that a row does not keep to,
-- would hide the row from a condition.  So what decides reads all tables whole: the planner
-- has no other way.  (Before PostgreSQL 18 it has one where a scan costs more than 10^10.)
-- Workers may help, as the settings are not those of the statement that they are set in.
-- The drivers pin enable_indexonlyscan and constraint_exclusion for all statements.
CREATE FUNCTION read_heap(query text, keys text[] DEFAULT NULL, lo text[] DEFAULT NULL,
	hi text[] DEFAULT NULL, described described[] DEFAULT NULL) RETURNS record
	AS 'MODULE_PATHNAME', 'iblt_read' LANGUAGE C VOLATILE PARALLEL UNSAFE
	SET enable_seqscan = on
	SET enable_indexscan = off
	SET enable_bitmapscan = off
	SET enable_partition_pruning = off;

-- The row that a query gives, by whatever index the planner takes.
-- Where that decides, check_index asks the tables too, or the caller asked for by_index.
CREATE FUNCTION read_planned(query text, keys text[] DEFAULT NULL, lo text[] DEFAULT NULL,
	hi text[] DEFAULT NULL, described described[] DEFAULT NULL) RETURNS record
	AS 'MODULE_PATHNAME', 'iblt_read' LANGUAGE C VOLATILE PARALLEL UNSAFE
	SET row_security = off;

-- Refuses code of other roles until the calling function ends, if it has a SET clause, or the
-- transaction.  Every driver begins with it (assemble.awk), because it must not be a SET clause:
-- what SET can switch on, a function in a view could switch off.
CREATE FUNCTION iblt_guard() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
