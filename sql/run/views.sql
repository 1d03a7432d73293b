-- The views of runs ----------------------------------------------------------------------
--
-- The functions that they read from show the runs of those roles whose privileges the
-- caller has.

-- The sessions that are at work on runs.
CREATE FUNCTION run_workers() RETURNS TABLE (run bigint, pids integer[])
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
	SELECT h.run, array_agg(l.pid ORDER BY l.pid)
	FROM iblt_run_rows(NULL::run_head, own => false) AS h
	JOIN pg_locks l ON l.locktype = 'userlock' AND l.granted AND l.objid = 1 AND l.objsubid = 0
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND l.classid = (h.run % 4294967296)::oid
	GROUP BY h.run
$$;

@own@
CREATE VIEW @extschema@.iblt_audit_table_stats WITH (security_barrier) AS
	SELECT t.run, t.table_number, t.relation, t.peer_relation,
		coalesce(t.status, CASE WHEN t.generation > 0 THEN 'under way' ELSE 'waiting' END)
			AS status,
		t.detail, t.sqlstate, @each audit_counts: t.%,@ t.kept, t.bytes,
		CASE WHEN t.status IS NOT NULL AND t.sqlstate IS NULL THEN 100
			ELSE round(100.0 * x.rows / greatest(x.rows, t.estimate, 1), 1) END AS percent,
		x.rows, greatest(x.rows, t.estimate) AS rows_estimated,
		round(1000 * x.rows / nullif(t.wall_ms, 0))::bigint AS rows_per_second,
		CASE WHEN t.status IS NULL THEN make_interval(secs => round(t.wall_ms / 1000
			* greatest(t.estimate - x.rows, 0) / nullif(x.rows, 0))) END AS time_left,
		t.done AS slices, t.slice_rows, t.work_ms, t.wall_ms, t.started_at, t.finished_at
	FROM iblt_run_rows(NULL::run_table, own => false) AS t,
	LATERAL (SELECT coalesce(greatest(t.rows_here, t.rows_there), 0)) AS x(rows);

COMMENT ON VIEW @extschema@.iblt_audit_table_stats IS
'the tables of the runs of iblt_audit_run, with all that is known of each and how far it is';

CREATE VIEW @extschema@.iblt_audit_tables WITH (security_barrier) AS
	SELECT run, relation, status, @each audit_counts: %,@ detail
	FROM iblt_audit_table_stats ORDER BY run, table_number;
COMMENT ON VIEW @extschema@.iblt_audit_tables IS
'the tables of the runs of iblt_audit_run: the status of each, as iblt_audit gives it';

CREATE VIEW @extschema@.iblt_audit_run_stats WITH (security_barrier) AS
	SELECT h.run, pg_get_userbyid(h.owner) AS owner, h.peers[1] AS here, h.peers[2] AS peer,
		h.target,
		CASE WHEN x.open = 0 THEN 'finished' WHEN w.pids IS NULL THEN 'stopped'
			WHEN h.paused IS NOT NULL THEN 'paused: ' || h.paused ELSE 'running' END AS state,
		coalesce(w.pids, '{}') AS workers,
		x.tables, x.tables - x.open AS tables_done, x.differing AS tables_that_differ,
		x.failed AS tables_not_compared,
		x.missing, x.extra, x.changed, x.unconfirmed, x.rows,
		CASE WHEN x.open = 0 THEN 100 ELSE round(100.0 * x.rows
			/ greatest(x.rows, x.estimated, 1), 1) END AS percent,
		round(1000 * x.rows / x.wall_ms * greatest(cardinality(w.pids), 1))::bigint
			AS rows_per_second,
		CASE WHEN x.open > 0 THEN make_interval(secs => round(x.wall_ms / 1000
			* (x.estimated - x.rows) / nullif(x.rows, 0) / greatest(cardinality(w.pids), 1)))
			END AS time_left,
		h.started_at, CASE WHEN x.open = 0 THEN x.finished_at END AS finished_at
	FROM iblt_run_rows(NULL::run_head, own => false) AS h
	JOIN (SELECT t.run, count(*) AS tables,
			count(*) FILTER (WHERE t.status IN ('waiting', 'under way')) AS open,
			count(*) FILTER (WHERE t.status = 'differs') AS differing,
			count(*) FILTER (WHERE t.status IN ('error', 'not comparable')) AS failed,
			sum(t.missing)::bigint AS missing, sum(t.extra)::bigint AS extra,
			sum(t.changed)::bigint AS changed, sum(t.unconfirmed)::bigint AS unconfirmed,
			sum(t.rows)::bigint AS rows, nullif(sum(t.wall_ms), 0) AS wall_ms,
			sum(CASE WHEN t.status IN ('waiting', 'under way') THEN t.rows_estimated
				ELSE t.rows END) AS estimated,
			max(t.finished_at) AS finished_at
		FROM iblt_audit_table_stats t GROUP BY t.run) AS x ON x.run = h.run
	LEFT JOIN run_workers() AS w ON w.run = h.run;
COMMENT ON VIEW @extschema@.iblt_audit_run_stats IS
'the runs of iblt_audit_run, with all that is known of each';

CREATE VIEW @extschema@.iblt_audit_runs WITH (security_barrier) AS
	SELECT run, left(target, 17) || CASE WHEN length(target) > 20 THEN '...'
			ELSE substr(target, 18) END AS target,
		split_part(state, ':', 1) AS state, tables, tables_done AS done,
		tables_that_differ AS differ,
		tables_not_compared AS not_compared, percent, time_left,
		to_char(started_at, 'YYYY-MM-DD HH24:MI') AS started
	FROM @extschema@.iblt_audit_run_stats ORDER BY run;
COMMENT ON VIEW @extschema@.iblt_audit_runs IS
'the runs of iblt_audit_run: how far each is, and how many tables differ';

CREATE VIEW @extschema@.iblt_audit_differences WITH (security_barrier) AS
	SELECT d.run, t.table_number, t.relation, d.key, d.side, d.differs, d.here, d.there,
		d.confirmed, d.here_count, d.there_count, d.found_at
	FROM iblt_run_rows(NULL::run_difference, own => false) AS d
	JOIN iblt_run_rows(NULL::run_table, own => false) AS t
		ON t.owner = d.owner AND t.run = d.run AND t.table_number = d.table_number;
COMMENT ON VIEW @extschema@.iblt_audit_differences IS
'the rows that runs of iblt_audit_run found to differ, as iblt_compare gives them';

CREATE VIEW @extschema@.iblt_audit_ranges WITH (security_barrier) AS
	SELECT r.run, t.table_number, t.relation, r.after, r.up_to,
		@each audit_counts: r.%,@ r.found_at
	FROM iblt_run_rows(NULL::run_range, own => false) AS r
	JOIN iblt_run_rows(NULL::run_table, own => false) AS t
		ON t.owner = r.owner AND t.run = r.run AND t.table_number = r.table_number;
COMMENT ON VIEW @extschema@.iblt_audit_ranges IS
'the ranges of keys in which runs of iblt_audit_run found differences, and how many';

CREATE VIEW @extschema@.iblt_audit_columns WITH (security_barrier) AS
	SELECT d.run, d.table_number, d.relation, c.column_name, count(*) AS rows
	FROM @extschema@.iblt_audit_differences AS d
	LEFT JOIN LATERAL unnest(d.differs) AS c(column_name) ON true
	GROUP BY d.run, d.table_number, d.relation, c.column_name;
COMMENT ON VIEW @extschema@.iblt_audit_columns IS
'in how many of the rows that runs of iblt_audit_run have kept each column differs';

GRANT SELECT ON iblt_audit_table_stats, @extschema@.iblt_audit_runs,
	@extschema@.iblt_audit_run_stats, @extschema@.iblt_audit_tables,
	@extschema@.iblt_audit_table_stats, @extschema@.iblt_audit_differences,
	@extschema@.iblt_audit_ranges, @extschema@.iblt_audit_columns TO PUBLIC;
