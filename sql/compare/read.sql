-- Reading -------------------------------------------------------------------------------
--
-- Every statement that decides is run by a function that says how it may read.  The peer is
-- asked for read_heap, read_planned, read_slice and query_keys, which are part of the protocol.
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

-- The row that a query gives, perhaps of keys, by whatever index the planner takes.
-- Where that decides, check_index asks the tables too, or the caller asked for by_index.
CREATE FUNCTION read_planned(query text, keys text[] DEFAULT NULL) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
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

-- The function that reads for a plan, perhaps keys that an index finds.
-- Bounds and conditions must hide nothing.  A slice trusts an index, which slice_guard
-- checks, a key is looked up by one, which check_index checks, and by_index trusts one.
CREATE FUNCTION reader(plan plan, indexed boolean DEFAULT false) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN CASE WHEN in_slice(plan) THEN 'read_slice'
		WHEN indexed OR plan.by_index IS TRUE THEN 'read_planned'
		ELSE 'read_heap' END;
END
$$;

-- The row that a query of a plan gives here.
CREATE FUNCTION read_here(plan plan, query text,
	keys text[] DEFAULT NULL, indexed boolean DEFAULT false) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	function text := reader(plan, indexed);
BEGIN
	IF function = 'read_slice' THEN
		RETURN read_slice(query, keys, plan.lo, plan.hi);
	ELSIF function = 'read_planned' THEN
		RETURN read_planned(query, keys);
	END IF;
	RETURN read_heap(query, keys);
END
$$;

-- The query by which the peer reads a row with these columns in the same way.
CREATE FUNCTION read_there_sql(plan plan, query text, columns text,
	keys text[] DEFAULT NULL, indexed boolean DEFAULT false) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN format('SELECT * FROM %s(%L, %L%s) AS iblt_r(%s)', reader(plan, indexed), query, keys,
		CASE WHEN in_slice(plan) THEN format(', %L, %L', plan.lo, plan.hi) END, columns);
END
$$;
