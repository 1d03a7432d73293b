-- Parallel plans without any row: the leader, which combines the workers' states, and
-- every worker have to know type and parameters without having seen a row.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt;
RESET client_min_messages;
-- (PostgreSQL 13 scans a table without pages alone)
CREATE TABLE no_rows (id int, t text, c bigint) WITH (parallel_workers = 2, autovacuum_enabled = off);
CREATE TABLE some_rows (id int, t text, c bigint) WITH (parallel_workers = 2, autovacuum_enabled = off);
INSERT INTO some_rows SELECT g, g::text, g FROM generate_series(1, 10000) g;
INSERT INTO no_rows TABLE some_rows;
DELETE FROM no_rows;
CREATE TABLE templates AS SELECT iblt_new(250, seed => 9) AS t;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 1;
SET cpu_operator_cost = 0; -- to combine states costs more than so few rows save
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;

-- Is the plan a partial aggregate in workers, finalized here?
CREATE FUNCTION pg_temp.is_parallel(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; plan text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP plan := plan || line || E'\n'; END LOOP;
	RETURN plan ~ 'Finalize Aggregate.*Gather.*Workers Planned: [12].*Partial Aggregate.*Parallel Seq Scan';
END $$;
-- What such a query gives, with and without the leader among those that scan.
CREATE FUNCTION pg_temp.sketches(arguments text) RETURNS TABLE (rows_of text, is_parallel boolean, rows bigint, key_type text, capacity integer, seed bigint)
LANGUAGE plpgsql AS $$
DECLARE query text;
BEGIN
	FOREACH rows_of IN ARRAY '{no_rows,"some_rows WHERE id < 0"}'::text[] LOOP
		query := format('SELECT iblt_agg(%s) AS s FROM %s', arguments, rows_of);
		is_parallel := pg_temp.is_parallel(query);
		FOR i IN 1 .. 2 LOOP
			PERFORM set_config('parallel_leader_participation', CASE i WHEN 1 THEN 'on' ELSE 'off' END, true);
			EXECUTE format('SELECT i.rows, i.key_type, i.capacity, i.seed FROM (%s) AS q, iblt_info(s) AS i', query)
				INTO rows, key_type, capacity, seed;
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
SELECT * FROM pg_temp.sketches('id, c');
SELECT * FROM pg_temp.sketches('id, c, 300');
SELECT * FROM pg_temp.sketches('t, c, 5000');
SELECT * FROM pg_temp.sketches('id, c, iblt_new(777, seed => 3)');
SELECT * FROM pg_temp.sketches('ROW(id, t), c, iblt_new(50, seed => 4)');
SELECT * FROM pg_temp.sketches('id::bigint, c, iblt_internal.iblt_compare_template(4000, 8, 5)');

-- a template that a subquery gives, which the workers are handed
SELECT * FROM pg_temp.sketches('t, c, (SELECT t FROM templates)');
-- a parameter
SET plan_cache_mode = force_generic_plan;
PREPARE capacity(int) AS SELECT iblt_agg(t, c, $1) AS s FROM no_rows;
SELECT pg_temp.is_parallel('EXECUTE capacity(300)');
CREATE TABLE answer AS EXECUTE capacity(300);
SELECT rows, key_type, capacity FROM answer, iblt_info(s);
RESET plan_cache_mode;

-- several aggregates in one query, each with its own parameters
SELECT pg_temp.is_parallel('SELECT iblt_agg(id, c, 100), iblt_agg(t, c, 2000), iblt_agg(ROW(t, id), c, iblt_new(30, seed => 6)) FROM no_rows');
SELECT n, rows, key_type, capacity, seed FROM (SELECT iblt_agg(id, c, 100) AS a, iblt_agg(t, c, 2000) AS b,
	iblt_agg(ROW(t, id), c, iblt_new(30, seed => 6)) AS d FROM no_rows) q, unnest(ARRAY[a, b, d]) WITH ORDINALITY AS u(s, n), iblt_info(s) ORDER BY n;

-- an empty side against a full one: every row differs
SELECT count(*), min(side) FROM (SELECT (SELECT iblt_agg(id, c, 12000) FROM no_rows) - (SELECT iblt_agg(id, c, 12000) FROM some_rows)) x(s), iblt_decode(s);
-- what only a row could tell is an error
SELECT iblt_agg(id, c, id) FROM no_rows;

-- strata, too
SELECT pg_temp.is_parallel('SELECT iblt_strata_agg(t, c, iblt_strata_new(seed => 5)) FROM no_rows');
SELECT key_type, rows, seed FROM (SELECT iblt_strata_agg(t, c, iblt_strata_new(seed => 5)) FROM no_rows) x(s), iblt_strata_info(s);
SELECT pg_temp.is_parallel('SELECT iblt_strata_agg(id, c) FROM some_rows WHERE id < 0');
SELECT key_type, rows FROM (SELECT iblt_strata_agg(id, c) FROM some_rows WHERE id < 0) x(s), iblt_strata_info(s);
SELECT pg_temp.is_parallel('SELECT iblt_strata_agg(id, c, iblt_strata_new(seed => id)) FROM no_rows');
SELECT iblt_strata_agg(id, c, iblt_strata_new(seed => id)) FROM no_rows;
DROP TABLE no_rows, some_rows, templates, answer;
