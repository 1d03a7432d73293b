-- Reading -------------------------------------------------------------------------------
--
-- Every statement that decides is run by a function that says how it may read.  The peer is
-- asked for read_heap, query_keys and find_rows, which are part of the protocol.
-- doc/internals/walk.md has the list of these statements.

-- The row that a query gives, perhaps of keys, which must not trust an index.
-- An index that lacks an entry, or a partition or a constraint that a row does not keep to,
-- would hide the row from a condition.  So what decides reads all tables whole: the planner
-- has no other way.  (Before PostgreSQL 18 it has one where a scan costs more than 10^10.)
-- Workers may help, as the settings are not those of the statement that they are set in.
-- The drivers pin enable_indexonlyscan and constraint_exclusion for all statements.
CREATE FUNCTION read_heap(query text, keys text[] DEFAULT NULL) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET enable_seqscan = on
	SET enable_indexscan = off
	SET enable_bitmapscan = off
	SET enable_partition_pruning = off
AS $$
DECLARE
	answer record;
BEGIN
	EXECUTE query INTO answer USING keys;
	RETURN answer;
END
$$;

-- The single value that a query of keys gives.
CREATE FUNCTION query_keys(query text, keys text[]) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	value text;
BEGIN
	EXECUTE query INTO value USING keys;
	RETURN value;
END
$$;

-- What the lookup query of a finder gives for keys.
CREATE FUNCTION find_rows(query text, keys text[]) RETURNS found_rows
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	rows found_rows;
BEGIN
	EXECUTE query INTO rows USING keys;
	RETURN rows;
END
$$;

-- The row that a query of a plan gives here, perhaps of keys that an index finds.
-- Bounds and conditions must hide nothing.  A slice trusts an index, which slice_guard
-- checks, a key is looked up by one, which check_index checks, and by_index trusts one.
CREATE FUNCTION read_here(plan plan, query text,
	keys text[] DEFAULT NULL, indexed boolean DEFAULT false) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answer record;
BEGIN
	IF in_slice(plan) THEN
		RETURN read_slice(query, keys, plan.lo, plan.hi);
	ELSIF NOT indexed AND plan.by_index IS NOT TRUE THEN
		RETURN read_heap(query, keys);
	END IF;
	EXECUTE query INTO answer USING keys;
	RETURN answer;
END
$$;
