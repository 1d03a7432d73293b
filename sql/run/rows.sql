-- Rows of a run ------------------------------------------------------------------------
--
-- They are read as they are at this moment.  Who writes one takes the lock of the run
-- first, and reads it under the lock.

-- Takes the lock of those who write a run, until the transaction ends.
CREATE FUNCTION run_lock_to_write(run bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM iblt_run_lock(run, 0, 0, true);
END
$$;

-- Takes the lock of the session that starts a table, until the transaction ends; false if
-- another one has it.
CREATE FUNCTION run_lock_to_start_table(run bigint, table_number integer) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RETURN iblt_run_lock(run, table_number, 0, false);
END
$$;

-- An error unless what a run has stored is there.
-- REFRESH MATERIALIZED VIEW empties a store, and what was in it must not look done.
CREATE FUNCTION run_require_stored(run bigint, stored boolean) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF stored IS NOT TRUE THEN
		RAISE EXCEPTION USING ERRCODE = 'data_corrupted',
			MESSAGE = format('a part of run %s is not in its store any more', run),
			DETAIL = 'REFRESH MATERIALIZED VIEW removes it.',
			HINT = 'Begin another run, and leave out schema iblt_internal where you refresh '
				'all materialized views.';
	END IF;
END
$$;

-- A run of this role; an error if there is none.
CREATE FUNCTION run_head_of(run bigint) RETURNS run_head
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	heads run_head[] := ARRAY(SELECT h
		FROM iblt_run_rows(NULL::run_head, run) AS h);
BEGIN
	IF run IS NULL THEN
		-- it would stand for any run, without locks
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'run must not be null';
	ELSIF cardinality(heads) > 1 THEN
		RAISE EXCEPTION USING ERRCODE = 'data_corrupted',
			MESSAGE = format('run number %s is not unique', run),
			HINT = 'Begin another run. iblt_audit_prune deletes these.';
	ELSIF heads = '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = format('there is no run %s of this role', run),
			HINT = 'See iblt_audit_runs. The role that began a run goes on with it.';
	END IF;
	RETURN heads[1];
END
$$;

-- A table of a run.
CREATE FUNCTION run_table_of(run bigint, table_number integer) RETURNS run_table
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	t run_table;
BEGIN
	SELECT x.* INTO t
	FROM iblt_run_rows(NULL::run_table, run, table_number) AS x;
	RETURN t;
END
$$;

-- A slice that is not compared yet, or NULL.
CREATE FUNCTION run_slice_of(run bigint, table_number integer, number bigint) RETURNS run_slice
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s run_slice;
BEGIN
	SELECT x.* INTO s
	FROM iblt_run_rows(NULL::run_slice, run, table_number, number) AS x;
	RETURN s;
END
$$;

-- Deletes what a run has stored of its slices, of a table or of all.
CREATE FUNCTION run_clear(run bigint, table_number integer DEFAULT NULL, own boolean DEFAULT true)
RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM iblt_run_remove(NULL::run_slice, run, table_number, own => own),
		iblt_run_remove(NULL::run_difference, run, table_number, own => own),
		iblt_run_remove(NULL::run_range, run, table_number, own => own),
		iblt_run_remove(NULL::run_sketch, run, table_number, own => own);
END
$$;

-- The item of an audit that a table of a run is.
-- The name of a table may mean another one by now, its OID cannot.
CREATE FUNCTION run_item_of(t run_table) RETURNS audit_item
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	item audit_item := jsonb_populate_record(NULL::audit_item, t.item);
BEGIN
	item.relid := t.relid;
	RETURN item;
END
$$;

-- A side is asked for these.  They are part of the protocol, and a peer without iblt is
-- asked for their bodies (plain_call).

-- The file of a relation, or a hash of its partitions and their files, another one once it is
-- rewritten, and about how many rows it has.
-- A partitioned table has the files of its partitions.  The rows are as many as the planner
-- would take them for.
-- Also an array of values of a column that cut the table into equal parts, if it has changed
-- little since ANALYZE.
CREATE FUNCTION run_probe(relation regclass, "column" text) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL RESTRICTED
AS $$
	SELECT jsonb_build_object('file', CASE count(*) WHEN 1 THEN pg_relation_filenode(relation)::text
			ELSE md5(string_agg(concat(c.oid, ' ', pg_relation_filenode(c.oid)), ', '
				ORDER BY c.oid)) END,
		'started', pg_postmaster_start_time(),
		'rows', coalesce(sum(CASE WHEN c.reltuples > 0 AND c.relpages > 0
			THEN c.reltuples / c.relpages * size
				/ current_setting('block_size')::integer
			ELSE size / 100 END), 0)::bigint,
		'histogram', CASE WHEN "column" IS NOT NULL THEN (SELECT s.histogram_bounds::text
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname
				AND s.attname = "column" AND NOT s.inherited
			WHERE c.oid = relation AND c.relkind = 'r'
			-- their view reads all tables
			AND greatest(pg_stat_get_last_analyze_time(c.oid),
				pg_stat_get_last_autoanalyze_time(c.oid)) IS NOT NULL
			AND pg_stat_get_mod_since_analyze(c.oid) <= c.reltuples / 10) END)
	FROM (SELECT relation::oid UNION SELECT relid FROM pg_partition_tree(relation)) AS p(oid),
	LATERAL (SELECT k.*, CASE WHEN k.relkind IN ('r', 'm')
			THEN coalesce(pg_relation_size(k.oid), 0) ELSE 0 END AS size
		FROM pg_class k WHERE k.oid = p.oid OFFSET 0) AS c
$$;

-- What run_probe answers on both sides of a plan.
CREATE FUNCTION run_probes(plan plan) RETURNS jsonb[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	key text[] := iblt_field((slice_key(plan)).columns);
	call text := 'run_probe(pg_catalog.to_regclass(%L), %L)';
	answers text[] := ask_calls(places_of(plan), format(call, (plan.here).relation,
		CASE WHEN cardinality(key) = 1 THEN key[1] END), format(call, (plan.there).relation, NULL));
BEGIN
	RETURN ARRAY[answers[1]::jsonb, answers[2]::jsonb];
END
$$;

-- How far the followers of this server are behind it, and this standby behind what it
-- received.
CREATE FUNCTION run_lag() RETURNS jsonb
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT jsonb_build_object(
		'hidden', coalesce(bool_or(r.pid IS NOT NULL AND r.state IS NULL), false),
		'bytes', greatest(max(behind), max(pg_wal_lsn_diff(reached, r.replay_lsn)), 0),
		'seconds', greatest(max(extract(epoch FROM r.replay_lag)), 0,
			CASE WHEN max(behind) > 0 THEN
				extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END))
	FROM (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
			ELSE pg_current_wal_lsn() END AS reached OFFSET 0) AS w,
	LATERAL (SELECT CASE WHEN pg_is_in_recovery()
		THEN greatest(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), reached), 0)
		ELSE 0 END AS behind) AS b
	LEFT JOIN pg_stat_replication r ON true
$$;
