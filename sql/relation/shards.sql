-- Shards -----------------------------------------------------------------------------------
--
-- Partitions that are foreign tables, and tables of Citus, sum up their own rows.

-- The partitions that hold the rows of a partitioned table, if some of them are foreign
-- tables and all can be read by name.
-- The rights to a partition and its policies count only where it is named.  Statements
-- name it only if there is a right and no policy.
CREATE FUNCTION shards(relation regclass) RETURNS text[]
	LANGUAGE sql STABLE PARALLEL RESTRICTED
	RETURN (WITH RECURSIVE tree(oid) AS (
			SELECT c.oid FROM pg_class c WHERE c.oid = relation AND c.relkind = 'p'
			UNION
			SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid
				AND NOT i.inhdetachpending
		), part AS (
			SELECT c.oid, c.relkind, c.relrowsecurity, format('%I.%I', n.nspname, c.relname) AS name
			FROM tree JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
		)
		SELECT CASE WHEN bool_or(relkind = 'f') AND NOT bool_or(relrowsecurity)
				AND bool_and(relkind = 'p' OR has_table_privilege(oid, 'SELECT'))
			THEN array_agg(name ORDER BY oid) FILTER (WHERE relkind <> 'p') ELSE '{}' END
		FROM part);

-- The sketch that a query of a table of Citus gives, and the fingerprint of the table.
CREATE FUNCTION sum_distributed(query text, relation text, template @extschema@.iblt,
	OUT sketch @extschema@.iblt, OUT fingerprint text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	EXECUTE query INTO sketch;
	fingerprint := iblt_compare_fingerprint(relation::regclass);
	-- over no rows
	IF sketch IS NULL THEN
		sketch := (SELECT iblt_agg(n, 0, template)
			FROM generate_series(1::bigint, 0) AS n);
	END IF;
END
$$;

-- What the lookup query of a finder gives for keys of a table of Citus.
CREATE FUNCTION find_distributed(query text, keys text[], relation text) RETURNS found_rows
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	rows found_rows;
BEGIN
	EXECUTE query INTO rows USING keys;
	rows.fingerprint := iblt_compare_fingerprint(relation::regclass);
	RETURN rows;
END
$$;
