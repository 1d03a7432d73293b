-- Live digests: the functions of the user ---------------------------------------------

-- The columns of a row as one value, or with a seed their checksum, as src/digest computes it for a
-- changed row.
CREATE FUNCTION track_value_sql(columns text[], seed text DEFAULT NULL) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format(CASE WHEN seed IS NOT NULL THEN 'iblt_internal.iblt_checksum_seeded(%2$s, '
			|| CASE WHEN cardinality(columns) BETWEEN 2 AND 90 THEN '%1$s)' ELSE 'ROW(%1$s))' END
			WHEN cardinality(columns) = 1 THEN '%s' ELSE 'ROW(%s)' END,
		(SELECT string_agg(format('t.%I', name), ', ' ORDER BY n)
		FROM unnest(columns) WITH ORDINALITY AS c(name, n)), seed);

-- What a scan of a table gives: its sketch, or the base of a digest of it.
-- As read_heap: an index-only scan would do where all columns are in an index.  A stable function
-- reads in the snapshot of the statement that calls it.
-- Relies on: a scan, in one snapshot with the digest or the changes.
CREATE FUNCTION track_sketch(relation regclass, options tracking, base boolean)
RETURNS @extschema@.iblt
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
	SET row_security = off
	SET jit = off
	SET enable_seqscan = on
	SET enable_indexscan = off
	SET enable_indexonlyscan = off
	SET enable_bitmapscan = off
AS $$
DECLARE
	seed bigint := (iblt_info(options.template)).seed;
	key text := track_value_sql(options.key_columns, CASE WHEN options.by_hash THEN '$3' END);
	sketch declared.sketch%TYPE;
BEGIN
	EXECUTE format(CASE WHEN base THEN 'SELECT iblt_live_base(%1$L::regclass, s)'
			ELSE 'SELECT s' END || ' FROM (SELECT iblt_agg(%2$s, %3$s, $1) FROM %1$s AS t) AS q(s)',
			relation, key, track_value_sql(options.columns, '$2'))
		INTO sketch USING options.template, seed, seed # 1;
	RETURN sketch;
END
$$;

-- The second transaction of iblt_track: writers go on while it reads the table.
CREATE FUNCTION track_scan(relation regclass, generation bigint, progress boolean DEFAULT false)
RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
	SELECT progress_by_time(progress);
	SELECT iblt_read_lock(relation_name(relation), NULL, NULL, false);
	SELECT iblt_track_set_base(relation, generation,
		track_sketch(relation, iblt_live_options(relation), true))
$$;

-- Procedures, because each commits before it scans.  They have no SET clause for that
-- reason, and name everything with its schema.

CREATE PROCEDURE @extschema@.iblt_track(
	relation regclass,
	columns text[] DEFAULT NULL,
	key_columns text[] DEFAULT NULL,
	capacity integer DEFAULT NULL,
	peer_relation text DEFAULT NULL,
	progress boolean DEFAULT false)
	LANGUAGE plpgsql
AS $$
DECLARE
	generation pg_catalog.int8;
BEGIN
	PERFORM iblt_internal.iblt_require_no_block('iblt_track');
	generation := iblt_internal.track_start(relation, key_columns, columns, capacity, NULL,
		peer_relation);
	COMMIT;
	PERFORM iblt_internal.track_scan(relation, generation, progress);
END
$$;
COMMENT ON PROCEDURE @extschema@.iblt_track(regclass, text[], text[], integer, text, boolean) IS
'starts to keep a digest of a table, with its own options or those of a table of this database';

CREATE PROCEDURE @extschema@.iblt_live_rebuild(relation regclass)
	LANGUAGE plpgsql
AS $$
DECLARE
	generation pg_catalog.int8;
BEGIN
	PERFORM iblt_internal.iblt_require_no_block('iblt_live_rebuild');
	generation := iblt_internal.track_restart(relation);
	COMMIT;
	PERFORM iblt_internal.track_scan(relation, generation);
END
$$;
COMMENT ON PROCEDURE @extschema@.iblt_live_rebuild IS
'rescans a tracked table so that its digest can be trusted again';

CREATE PROCEDURE @extschema@.iblt_untrack(relation regclass)
	LANGUAGE sql
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
	SELECT track_stop(relation)
$$;
COMMENT ON PROCEDURE @extschema@.iblt_untrack(regclass) IS
'stops tracking a table, and drops its digest';

CREATE FUNCTION @extschema@.iblt_live(relation regclass, capacity integer DEFAULT NULL)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.iblt_live IS
'the digest of a tracked table in this snapshot, folded to a capacity';

CREATE FUNCTION @extschema@.iblt_live_merge(relation regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.iblt_live_merge IS
'merges the recorded changes of a table into its digest, and returns their number';

-- Does a scan of a table give its digest, byte for byte?  Both are read in one snapshot.
CREATE FUNCTION live_is_right(relation regclass, options tracking) RETURNS boolean
	LANGUAGE sql STABLE PARALLEL UNSAFE
AS $$
	SELECT iblt_read_lock(relation_name(relation), NULL, NULL, false);
	SELECT track_sketch(relation, options, false)::bytea = iblt_live(relation)::bytea
$$;

CREATE FUNCTION @extschema@.iblt_live_verify(relation regclass) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
DECLARE
	begun timestamptz := clock_timestamp();
	equal boolean;
BEGIN
	-- an error if it is not tracked, or not trustworthy
	PERFORM iblt_live(relation);
	equal := live_is_right(relation, iblt_live_options(relation));
	IF NOT pg_is_in_recovery() THEN
		PERFORM iblt_live_note_scan(relation, equal, begun);
	END IF;
	RETURN equal;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_live_verify IS
'compares a digest with a scan of its table; if they differ, the digest is no longer trustworthy';

-- How a table is tracked here: 'live', 'not trustworthy', or NULL if it is not.
CREATE FUNCTION track_state(relation text) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN (SELECT CASE WHEN s.unmerged IS NOT NULL
		THEN CASE WHEN s.reason IS NULL THEN 'live' ELSE 'not trustworthy' END END
	FROM iblt_live_state(to_regclass(relation)) AS s);

CREATE FUNCTION @extschema@.iblt_live_status(OUT relation regclass, OUT state text, OUT reason text,
	OUT rows bigint, OUT unmerged bigint, OUT bytes bigint, OUT verified_at timestamptz,
	OUT store_bytes bigint)
RETURNS SETOF record
	LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 10
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
	WITH tracked AS (SELECT unnest(iblt_live_tables()) AS relid)
	SELECT relid::regclass, CASE WHEN reason IS NULL THEN 'live' ELSE 'not trustworthy' END,
		reason, rows, unmerged, bytes, verified_at, store_bytes
	FROM (SELECT t.relid, s.*
			FROM tracked AS t, LATERAL iblt_live_state(t.relid) AS s
			WHERE s.unmerged IS NOT NULL
		UNION ALL
		-- a dump has the triggers only
		SELECT tgrelid, 'this database has no record of it', NULL, NULL, NULL, NULL, NULL
			FROM pg_trigger
			WHERE tgfoid = 'iblt_internal.iblt_track_row()'::regprocedure AND tgparentid = 0
				AND tgrelid NOT IN (SELECT t.relid FROM tracked AS t)
			GROUP BY tgrelid) AS s
	WHERE has_table_privilege(relid, 'SELECT') AND NOT row_security_active(relid)
	ORDER BY relid::regclass::text
$$;
COMMENT ON FUNCTION @extschema@.iblt_live_status IS
'the tracked tables that the caller can read, and whether their digests are trustworthy';
