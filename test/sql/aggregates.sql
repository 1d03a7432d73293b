-- Every aggregate in every way that PostgreSQL calls it: rows in any order, filters, groups, windows, partitions,
-- and workers, of which some or all see no row.  The bytes must be those of one process that reads all rows.
\i test/sql/common.psql
CREATE TYPE agg_mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE agg_plain WITH (parallel_workers = 0) AS
SELECT i AS id, i % 10 AS g, hashint8(i)::bigint AS c, 'key ' || i AS t, 1 + (i * 7919) % 255 AS v, (enum_range(NULL::agg_mood))[1 + i % 3] AS m FROM generate_series(1, 2000) i;
CREATE TABLE agg_wide WITH (parallel_workers = 2, autovacuum_enabled = off) AS TABLE agg_plain;
CREATE TABLE agg_parts (LIKE agg_plain) PARTITION BY LIST (g);
CREATE TABLE agg_parts_1 PARTITION OF agg_parts FOR VALUES IN (0, 1, 2);
CREATE TABLE agg_parts_2 PARTITION OF agg_parts DEFAULT;
CREATE TABLE agg_parts_3 PARTITION OF agg_parts FOR VALUES IN (-1);
INSERT INTO agg_parts TABLE agg_plain;
CREATE TABLE agg_templates AS SELECT iblt_new(250, seed => 9) AS t, iblt_strata_new(8, seed => 9) AS s, kbf_new(2000, labels => '{sad,ok,happy}') AS f;
ANALYZE agg_plain, agg_parts;
SET enable_partitionwise_aggregate = on;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 1;
SET cpu_operator_cost = 0; -- to combine states costs more than so few rows save
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;

-- The ways in which an aggregate is planned as it says and gives the same bytes.
CREATE FUNCTION pg_temp.ways(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	workers CONSTANT text := 'Finalize Aggregate.*Gather.*Workers Planned: [12].*Partial Aggregate.*Parallel Seq Scan';
	whole bytea;
	none bytea;
	way text;
	query text;
	pattern text;
	line text;
	plan text;
	same boolean;
	held text[] := '{}';
BEGIN
	EXECUTE format('SELECT (%s)::bytea FROM agg_plain', call) INTO whole;
	EXECUTE format('SELECT (%s)::bytea FROM agg_plain WHERE false', call) INTO none;
	FOR way, query, pattern IN VALUES
		('order', 'SELECT (%2$s)::bytea = $1 FROM agg_plain', 'Aggregate'),
		('filter', 'SELECT (%1$s FILTER (WHERE id > 0))::bytea = $1 AND (%1$s FILTER (WHERE id < 0))::bytea IS NOT DISTINCT FROM $2 FROM agg_plain', 'Aggregate'),
		('groups', 'SELECT count(*) = 10 AND bool_and(s = (SELECT (%1$s)::bytea FROM agg_plain p WHERE p.g = x.g)) FROM (SELECT g, (%1$s)::bytea FROM agg_plain GROUP BY g) x(g, s)', 'Group Key'),
		('windows', 'SELECT bool_and(w IS NOT DISTINCT FROM (SELECT (%1$s)::bytea FROM agg_plain p WHERE p.id BETWEEN x.id - 7 AND x.id - 3))
			FROM (SELECT id, (%1$s OVER (ORDER BY id ROWS BETWEEN 7 PRECEDING AND 3 PRECEDING))::bytea FROM agg_plain WHERE id <= 40) x(id, w)', 'WindowAgg'),
		('growing windows', 'SELECT bool_and(w = (SELECT (%1$s)::bytea FROM agg_plain p WHERE p.id <= x.id)) FROM (SELECT id, (%1$s OVER (ORDER BY id))::bytea FROM agg_plain WHERE id <= 40) x(id, w)', 'WindowAgg'),
		('partitions', 'SELECT (%1$s)::bytea = $1 FROM agg_parts', 'Finalize Aggregate.*Append.*Partial Aggregate'),
		('partitions without rows', 'SELECT (%1$s)::bytea IS NOT DISTINCT FROM $2 FROM agg_parts WHERE id < 0', 'Append'),
		('groups of partitions', 'SELECT bool_and(s = (SELECT (%1$s)::bytea FROM agg_plain p WHERE p.g = x.g)) FROM (SELECT g, (%1$s)::bytea FROM agg_parts GROUP BY g) x(g, s)', 'Append.*Group Key'),
		('workers', 'SELECT (%1$s)::bytea = $1 FROM agg_wide', workers),
		('workers without rows', 'SELECT (%1$s)::bytea IS NOT DISTINCT FROM $2 FROM agg_wide WHERE id < 0', workers),
		('some without rows', 'SELECT (%1$s)::bytea = (SELECT (%1$s)::bytea FROM agg_plain WHERE id <= 7) FROM agg_wide WHERE id <= 7', workers)
	LOOP
		query := format(query, call, regexp_replace(call, '\)$', ' ORDER BY t)'));
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query USING whole, none LOOP
			plan := plan || line;
		END LOOP;
		EXECUTE query INTO same USING whole, none;
		IF same AND plan ~ pattern THEN
			held := held || way;
		END IF;
	END LOOP;
	RETURN array_to_string(held, ', ');
END $$;
CREATE TEMP TABLE calls AS SELECT * FROM unnest(ARRAY['iblt_agg(id, c)', 'iblt_agg(id, c, 300)', 'iblt_agg(t, c, iblt_new(50, seed => 4))', 'iblt_agg(ROW(id, t), c)', 'iblt_agg(id, c, (SELECT t FROM agg_templates))',
	'iblt_agg(id::bigint, c, iblt_internal.iblt_compare_template(4000, 8, 5))', 'iblt_agg(id, t, iblt_new(50, value_size => 16))', 'iblt_agg_bigint(id, c, iblt_new())', 'iblt_agg_bigint(id, c, iblt_new(70000, seed => -5, hashes => 5))',
	'iblt_agg_bigint(id, c, (SELECT t FROM agg_templates))', 'iblt_strata_agg(id, c)', 'iblt_strata_agg(t, c, iblt_strata_new(seed => 5))', 'iblt_strata_agg(ROW(id, g), c)', 'iblt_strata_agg(id, c, (SELECT s FROM agg_templates))',
	'kbf_agg(id, v, 2000)', 'kbf_agg(id, m, 1)', 'kbf_agg(ROW(id, t), m, 100)', 'kbf_agg(t, m::text, (SELECT f FROM agg_templates))']) WITH ORDINALITY AS u(call, n);
SELECT call, pg_temp.ways(call) FROM calls ORDER BY n;
SET parallel_leader_participation = off;
SELECT call, pg_temp.ways(call) LIKE '%, workers, workers without rows, some without rows' AS without_leader FROM calls ORDER BY n;

-- a parameter, and several aggregates in one query, each with its own parameters
SET plan_cache_mode = force_generic_plan;
PREPARE capacity(int) AS SELECT iblt_agg(t, c, $1) AS s FROM agg_wide WHERE id < 0;
CREATE TABLE agg_answer AS EXECUTE capacity(300);
RESET plan_cache_mode;
SELECT rows, key_type, capacity FROM agg_answer, iblt_info(s);
SELECT n, rows, key_type, capacity, seed FROM (SELECT iblt_agg(id, c, 100) AS a, iblt_agg(t, c, 2000) AS b,
	iblt_agg(ROW(t, id), c, iblt_new(30, seed => 6)) AS d FROM agg_wide WHERE id < 0) q, unnest(ARRAY[a, b, d]) WITH ORDINALITY AS u(s, n), iblt_info(s) ORDER BY n;
-- what only a row could tell is an error, and a column will do where there is a row
SELECT * FROM pg_temp.refusals('%s FROM agg_wide WHERE id < 0', 'iblt_agg(id, c, id)', 'iblt_agg(id, c, iblt_new(seed => id))', 'iblt_strata_agg(id, c, iblt_strata_new(seed => id))', 'kbf_agg(id, v, id)');
SELECT rows, capacity FROM (SELECT iblt_agg(id, c, 300 + g - g) FROM agg_parts) x(s), iblt_info(s);
-- a later row, or another partition, has other parameters
SELECT argument, array_agg(DISTINCT split_part(refusal, ' (', 1)) AS refusal FROM unnest('{agg_plain,agg_parts}'::text[]) AS t, pg_temp.refusals('%s FROM ' || t,
	'iblt_agg(id, c, 300 + 1000 * (g > 2)::int)', 'iblt_agg(id, c, CASE WHEN g < 3 THEN 300 END)', 'iblt_agg(t, c, iblt_new(seed => (g > 2)::int))', 'iblt_agg(id, t, iblt_new(value_size => 16, seed => (g > 2)::int))',
	'iblt_agg_bigint(id, c, iblt_new(seed => (g > 2)::int))', 'iblt_strata_agg(id, c, iblt_strata_new(seed => (g > 2)::int))', 'iblt_strata_agg(id, c, CASE WHEN g < 3 THEN iblt_strata_new() END)',
	'kbf_agg(id, v, 300 + 1000 * (g > 2)::int)', 'kbf_agg(id, v, CASE WHEN g < 3 THEN 300 END)', $$kbf_agg(t, m, kbf_new(2000, labels => ARRAY['sad', 'ok', 'happy', (g > 2)::text]))$$) GROUP BY 1 ORDER BY 1;
-- sums in windows
SELECT bool_and(w = (SELECT iblt_sum(s) FROM (SELECT iblt_agg(id, c) FROM agg_plain WHERE id BETWEEN x.id AND x.id + 2) y(s))) AS iblt,
	bool_and(f = (SELECT kbf_agg(id, v, 100) FROM agg_plain WHERE id BETWEEN x.id AND x.id + 2)) AS kbf
FROM (SELECT id, iblt_sum(s) OVER frame, kbf_sum(k) OVER frame FROM (SELECT id, iblt_agg(id, c), kbf_agg(id, v, 100) FROM agg_plain WHERE id <= 30 GROUP BY id) y(id, s, k)
	WINDOW frame AS (ORDER BY id ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING)) x(id, w, f) WHERE id <= 28;
-- where a frame is empty, all calls over one window must agree on the size
SELECT pg_temp.refusal('SELECT iblt_agg(id, c, 10) OVER w, iblt_agg(id, c, 20) OVER w FROM agg_plain WHERE id <= 3 WINDOW w AS (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)');
DROP TABLE agg_plain, agg_wide, agg_parts, agg_templates, agg_answer;
DROP TYPE agg_mood;
