-- Pauses and slices, the arguments of a run, and what its store has.
SET extra_float_digits = 0;
\i test/sql/common.psql
SET client_min_messages = warning;
SET search_path = iblt_internal, public;

CREATE FUNCTION pg_temp.options(slice_ms integer, max_load float8, max_rate bigint)
RETURNS run_options LANGUAGE sql AS $$
	SELECT jsonb_populate_record(NULL::run_options, jsonb_build_object('slice_ms', slice_ms,
		'max_load', max_load, 'max_rate', max_rate))
$$;

-- There is no pause without limits, one in proportion to max_load, and one up to the rate.
SELECT run_pause_seconds(pg_temp.options(1000, NULL, NULL), 2, 1000) AS none,
	run_pause_seconds(pg_temp.options(1000, 0.25, NULL), 2, 1000) AS load,
	run_pause_seconds(pg_temp.options(1000, NULL, 100), 2, 1000) AS rate,
	run_pause_seconds(pg_temp.options(1000, NULL, 1000), 2, 1000) AS slow;

-- How many rows the next slice has: ten times as many at most, as many as take slice_ms, and not with too many differences.
SELECT rows, seen, differences, took_ms, run_next_rows(jsonb_populate_record(NULL::run_slice, jsonb_build_object('rows', rows)), seen, differences, 1000, 100, took_ms) AS next
FROM (VALUES (NULL::bigint, 5000, 0, 10.0), (5000, 5000, 0, 1), (5000, 5000, 0, 100), (5000, 5000, 0, 1399), (5000, 5000, 0, 1400), (5000, 5000, 0, 140000), (50000, 100, 0, 10), (5000, 5000, 500, 1), (5000, 5000, 1, 1), (5000, 5000, 0, 0))
	AS v(rows, seen, differences, took_ms);
SELECT seconds, (w).act, (w).until - clock_timestamp() > interval '5 s' AS long FROM unnest('{0,0.001,0.002,10,Infinity}'::float8[]) AS seconds, LATERAL (SELECT run_wait_then_claim(NULL, seconds) AS w OFFSET 0) AS x;

-- What a query says, or its error.
CREATE FUNCTION pg_temp.a_table(j jsonb) RETURNS run_table LANGUAGE sql AS 'SELECT jsonb_populate_record(NULL::iblt_internal.run_table, j)';

-- Arguments
SELECT change, pg_temp.outcome(format('SELECT run_check_options(jsonb_populate_record(NULL::run_options, %L))', '{"slice_ms": 1000, "check_indexes": false, "most_kept": 100}'::jsonb || change)) AS said
FROM unnest(ARRAY['{}', '{"slice_ms": 1}', '{"slice_ms": 86400000}', '{"slice_ms": 0}', '{"slice_ms": 86400001}', '{"slice_ms": null}', '{"check_indexes": null}',
	'{"most_kept": 1}', '{"most_kept": 2147483647}', '{"most_kept": 0}', '{"most_kept": 2147483648}', '{"most_kept": null}', '{"max_load": 0.001}', '{"max_load": 1}', '{"max_load": 0.0009}', '{"max_load": 1.01}',
	'{"max_rate": 1}', '{"max_rate": 0}', '{"max_lag": "64 MB"}', '{"max_lag": "soon"}']::jsonb[]) AS change;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pg_temp.outcome('SELECT run_check_options(jsonb_populate_record(NULL::run_options, ''{"slice_ms": 1000, "check_indexes": false, "most_kept": 100}''))');
COMMIT;
SELECT max_lag, l.* FROM unnest('{64 MB," 1.5gb ",7 bytes,1 tb,30 s,1 day,NULL}'::text[]) AS max_lag, run_lag_limit(max_lag) AS l;

-- A run in its store
SELECT iblt_run_add(jsonb_populate_record(NULL::run_head, '{"run": 0, "table_number": 0, "number": 0, "target": "tables", "started_at": "2020-01-01"}')) AS run \gset
SELECT count(iblt_run_add(pg_temp.a_table('{"number": 0, "generation": 1, "at_end": false, "kept": 0, "missing": 0, "extra": 0, "changed": 0, "unconfirmed": 0, "done": 0, "shape": ["s"], "started_at": "2020-01-01"}' || t::jsonb || jsonb_build_object('run', :run))))
FROM unnest(ARRAY['{"table_number": 1, "status": "equal"}', '{"table_number": 2, "status": "error", "sqlstate": "XX000", "detail": "why", "finished_at": "2020-01-01"}', '{"table_number": 3, "status": "not comparable", "sqlstate": "XX002"}', '{"table_number": 4, "status": "not comparable"}',
	'{"table_number": 5, "status": "differs", "kept": 3, "missing": 2, "extra": 1, "changed": 1, "unconfirmed": 1}']) AS t;
CREATE VIEW pg_temp.tables AS SELECT t.* FROM iblt_run_rows(NULL::run_table) AS t;
SELECT run_over(:run) AS over;
SELECT iblt_run_lock(:run), run_reopen(:run, false);
SELECT table_number, status, sqlstate, detail, shape, finished_at FROM pg_temp.tables WHERE run = :run ORDER BY table_number;
SELECT run_over(:run) AS over;
-- a page has the details of some tables of a run
SELECT count(iblt_run_add(pg_temp.a_table(jsonb_build_object('run', :run, 'table_number', g, 'number', 0, 'generation', 1, 'relation', 't' || g, 'status', 'differs', 'at_end', true, 'kept', 0, 'missing', 1, 'extra', 0, 'changed', 0, 'unconfirmed', 0, 'started_at', '2020-01-01')))) AS tables FROM generate_series(11, 31) AS g;
SELECT array(SELECT DISTINCT m[1] FROM regexp_matches(iblt_audit_report(run => :run, form => 'html'), 'The page shows ([^<]*)', 'g') AS m ORDER BY 1) AS left_out;
-- a number that is null is that of no run
SELECT pg_temp.outcome('SELECT iblt_audit_recheck(NULL)') AS recheck, pg_temp.outcome('SELECT run_open(jsonb_populate_record(NULL::run_worker, ''{"peers": [null, null]}''), NULL)') AS open;
-- a report says when a run ended, and not when somebody asked for it
BEGIN;
SELECT count(iblt_run_put(pg_temp.a_table(to_jsonb(t) || '{"status": "equal", "finished_at": "2020-01-01T01:02:03Z"}'))) AS tables FROM pg_temp.tables AS t WHERE run = :run;
CREATE VIEW pg_temp.ended AS SELECT run, form, substring(iblt_audit_report(run => run, form => form), '(?:finished": "|seconds\{[^}]*\} |ended at )([^"<|\n,]*)') AS ended FROM (SELECT DISTINCT run FROM pg_temp.tables) AS r, unnest('{json,prometheus,html,nagios}'::text[]) AS form;
SELECT form, ended FROM pg_temp.ended WHERE run = :run;
SELECT iblt_run_add(jsonb_populate_record(NULL::run_range, jsonb_build_object('run', :run, 'table_number', 11, 'number', 1, 'missing', 1, 'extra', 0, 'changed', 0, 'unconfirmed', 0)));
SELECT (t).status, (t).finished_at FROM (SELECT run_replace(jsonb_populate_record(NULL::run_worker, '{}'), pg_temp.a_table(to_jsonb(x)), '{}', NULL, NULL) AS t FROM pg_temp.tables AS x WHERE run = :run AND table_number = 11 OFFSET 0) AS y;
SELECT count(iblt_run_put(pg_temp.a_table(to_jsonb(t) || '{"status": null, "finished_at": null}'))) FROM pg_temp.tables AS t WHERE run = :run AND table_number = 11;
SELECT form, extract(epoch FROM CASE form WHEN 'json' THEN ended::timestamptz WHEN 'prometheus' THEN to_timestamp(ended::float8) END) > extract(epoch FROM now()) - 60 AS now FROM pg_temp.ended WHERE run = :run;
ROLLBACK;
-- runs that did not get further for so long are deleted, unless a session works on them
SELECT iblt_run_put(pg_temp.a_table(to_jsonb(t) || jsonb_build_object('finished_at', now()))) FROM pg_temp.tables AS t WHERE run = :run AND table_number = 3;
SELECT iblt_audit_prune('1 day') AS pruned, (SELECT count(*) FROM pg_temp.tables WHERE run = :run) AS tables;
SELECT count(iblt_run_put(pg_temp.a_table(to_jsonb(t) || '{"finished_at": null, "started_at": "2020-01-02"}'))) AS tables FROM pg_temp.tables AS t WHERE run = :run;
SELECT iblt_audit_prune(now() - '2020-01-01 12:00') AS pruned, (SELECT count(*) FROM pg_temp.tables WHERE run = :run) AS tables;
SELECT iblt_run_add(jsonb_populate_record(NULL::run_head, jsonb_build_object('run', 0, 'table_number', 0, 'number', 0, 'target', 'tables', 'started_at', now()))) - :run AS next;
BEGIN;
SELECT iblt_run_lock(:run, 0, 1, true);
SELECT w.run = :run AS this, w.pids = ARRAY[pg_backend_pid()] AS we FROM run_workers() AS w;
SELECT iblt_audit_prune('1 day') AS pruned, (SELECT count(*) FROM run_workers() AS w WHERE w.run = :run + 1) AS others;
COMMIT;
SELECT iblt_audit_prune('1 day') AS pruned, (SELECT count(*) FROM pg_temp.tables WHERE run = :run) AS rows;
