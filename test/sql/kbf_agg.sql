-- The aggregates kbf_agg and kbf_sum.
\i test/sql/common.psql

CREATE TYPE kbf_mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE kbf_rows WITH (parallel_workers = 2, autovacuum_enabled = off) AS
SELECT i AS id, 1 + (i * 7919) % 255 AS v, i % 10 AS g, (enum_range(NULL::kbf_mood))[1 + i % 3] AS m FROM generate_series(1, 20000) i;
CREATE TEMP VIEW r AS SELECT * FROM kbf_rows WHERE id <= 1000;

-- every key has its value, in each form
SELECT count(*) FILTER (WHERE kbf_get(s, id) = v) AS right_, count(*) AS all_
FROM (SELECT kbf_agg(id, v, 3000) FROM r) x(s), r;
SELECT count(*) FILTER (WHERE kbf_get(s, id) = v) AS right_, count(*) AS all_
FROM (SELECT kbf_agg(id, v, kbf_new(3000, 300, 0.01, 2, seed => 7)) FROM r) x(s), r;
-- any filter serves as template: only its parameters are taken
SELECT kbf_agg(id, v, (SELECT kbf_agg(id, v, 500) FROM r WHERE id < 50)) = kbf_agg(id, v, 500) AS same FROM r;

-- a template and a type of key that change with the same row
SELECT pg_temp.refusal('SELECT kbf_agg(CASE i WHEN 1 THEN ROW(1) ELSE ROW(''a''::text) END, 1, kbf_new(100, 5, seed => i)) FROM generate_series(1, 2) AS i');
-- or the type alone
SELECT pg_temp.refusal('SELECT kbf_agg(CASE i WHEN 3 THEN ROW(''a''::text, 2) ELSE ROW(i, 2) END, 1, 100) FROM generate_series(1, 4) AS i');

-- values of every type: integers of any width, labels as text, values of an enum type
SELECT kbf_agg(id, v::smallint, 1000) = kbf_agg(id, v, 1000) AS smallint, kbf_agg(id, v::bigint, 1000) = kbf_agg(id, v, 1000) AS bigint
FROM r;
CREATE DOMAIN pg_temp.rating AS integer CHECK (VALUE BETWEEN 1 AND 255);
SELECT kbf_agg(id, v::pg_temp.rating, 1000) = kbf_agg(id, v, 1000) AS domain FROM r;
CREATE TEMP TABLE moods AS SELECT kbf_new(1000, labels => enum_range(NULL::kbf_mood)::text[]) AS t;
SELECT enum = labelled AS enum_brings_labels, a = enum AS text, b = enum AS varchar, c = enum AS char, d = enum AS name, e = enum AS numbers
FROM (SELECT kbf_agg(id, m, 1000), kbf_agg(id, m, t), kbf_agg(id, m::text, t), kbf_agg(id, m::text::varchar(9), t),
			 kbf_agg(id, m::text::char(9), t), kbf_agg(id, m::text::name, t), kbf_agg(id, 1 + id % 3, t)
	  FROM r, moods) x(enum, labelled, a, b, c, d, e);
SELECT count(*) FILTER (WHERE kbf_get_label(s, id) = m::text) AS right_ FROM (SELECT kbf_agg(id, m, 3000) FROM r) x(s), r;

-- the width of an integer key is of no account
SELECT kbf_agg(id::smallint, v, 1000)::bytea = kbf_agg(id::bigint, v, 1000)::bytea AS same FROM r;

-- inserting one by one makes the same bytes, also of cells that become full
CREATE FUNCTION pg_temp.one_by_one(template kbf) RETURNS kbf LANGUAGE plpgsql AS $$
DECLARE row record;
BEGIN
	FOR row IN SELECT * FROM r ORDER BY v, id LOOP
		template := kbf_insert(template, row.id, row.v);
	END LOOP;
	RETURN template;
END $$;
SELECT pg_temp.one_by_one(kbf_new(1000))::bytea = kbf_agg(id, v, 1000)::bytea AS same,
	   pg_temp.one_by_one(kbf_new(1))::bytea = kbf_agg(id, v, 1)::bytea AS overfull FROM r;

-- keys of every type
SELECT kbf_get(kbf_agg(md5(id::text)::uuid, v, 1000), md5('5')::uuid) AS uuid, kbf_get(kbf_agg(id::text, v, 1000), '5'::text) AS text,
	   kbf_get(kbf_agg(ROW(id, m), v, 1000), ROW(5, 'happy'::kbf_mood)) AS row, kbf_get(kbf_agg(m, v, 1000) FILTER (WHERE id = 5), 'happy'::kbf_mood) AS enum,
	   min(v) FILTER (WHERE id = 5) AS truth FROM r;
SELECT key_type FROM (SELECT kbf_agg(ROW(id, m), v, 1000) FROM r) x(s), kbf_info(s);

-- no rows: an empty filter of the right key type and parameters, never NULL
SELECT key_type, keys, labels FROM (SELECT kbf_agg(id, v, 100) FROM r WHERE false) x(s), kbf_info(s)
UNION ALL SELECT key_type, keys, labels FROM (SELECT kbf_agg(id::text, m, 100) FROM r WHERE false) x(s), kbf_info(s)
UNION ALL SELECT key_type, keys, labels FROM (SELECT kbf_agg(ROW(id, m), v, 100) FROM r WHERE false) x(s), kbf_info(s)
UNION ALL SELECT key_type, keys, labels FROM (SELECT kbf_agg(id, 'b'::text, kbf_new(1, labels => '{a,b}')) FILTER (WHERE false) FROM r) x(s), kbf_info(s)
UNION ALL SELECT key_type, keys, labels FROM (SELECT kbf_agg(id, m, (SELECT t FROM moods)) FROM r WHERE false) x(s), kbf_info(s);
SELECT kbf_agg(id, v, 100) FILTER (WHERE false) = kbf_new(100) AS empty FROM r;
PREPARE none(int) AS SELECT (kbf_info(kbf_agg(id, v, $1))).keys FROM r WHERE false;
EXECUTE none(300);
SET plan_cache_mode = force_generic_plan;
EXECUTE none(300);
RESET plan_cache_mode;
SELECT kbf_agg(id, m, t) FROM r, moods WHERE false;
SELECT (kbf_info(kbf_sum(s))).keys FROM (SELECT kbf_new(1) WHERE false) x(s);

-- what is refused
SELECT arguments, pg_temp.refusal(format('SELECT kbf_agg(%s)', arguments)) AS refusal
FROM unnest(ARRAY['NULL::int, 1, 10', '1, NULL::int, 10', '1, 1, NULL::int', '1, 1, NULL::kbf', '1, 0, 10', '1, -1, 10', '1, 256, 10',
	'1, 2147483648, 10', '1, 1.5, 10', '1, true, 10', '1, ''a''::text, 10', '1, ''a''::text, kbf_new(10)', '1, ''c''::text, kbf_new(10, labels => ''{a,b}'')',
	'1, ''sad''::kbf_mood, kbf_new(10, labels => ''{a,b}'')', '1, 3, kbf_new(10, labels => ''{a,b}'')', '1, 1, 0', '1, 1, 2147483647',
	'1, 1, kbf_insert(kbf_new(10), ''a''::text, 1)', '''a'', 1, 10']) arguments;
-- also in a later row, which takes a shorter way
SELECT * FROM pg_temp.refusals('%s', 'kbf_agg(i, 253 + i, 10) FROM generate_series(1, 3) i', 'kbf_agg(i, 2 - i, 10) FROM generate_series(1, 3) i',
	'kbf_agg(i, 4294967296 * (i - 1) + 1, 10) FROM generate_series(1, 3) i', 'kbf_agg(i, nullif(i, 3), 10) FROM generate_series(1, 3) i',
	'kbf_agg(nullif(i, 3), i, 10) FROM generate_series(1, 3) i', 'kbf_sum(NULL)',
	'kbf_sum(s) FROM (VALUES (kbf_new(10)), (kbf_new(10, seed => 1))) x(s)',
	$$kbf_sum(s) FROM (VALUES (kbf_insert(kbf_new(10), 1, 1)), (kbf_insert(kbf_new(10), 'a'::text, 1))) x(s)$$);
-- one capacity for all rows of a group, which takes turns with another one
SELECT pg_temp.refusal($$SELECT kbf_agg(CASE i WHEN 1 THEN ROW(1, 2) ELSE ROW(1, 'a'::text) END, 1, CASE i WHEN 1 THEN 100 ELSE 200 END) FROM generate_series(1, 3) i GROUP BY i % 2$$);
SELECT count(*), bool_and(s = (SELECT kbf_agg(id, m, 100 * (x.g + 1)) FROM r WHERE r.g = x.g AND id <= 30)) AS same
FROM (SELECT g, kbf_agg(id, m, 100 * (g + 1)) FROM r WHERE g < 3 AND id <= 30 GROUP BY g) x(g, s);
-- a template of a column, in groups that take turns
SELECT count(*), bool_and(s = (SELECT kbf_agg(id, v, kbf_new(100, seed => x.g)) FROM r WHERE r.g = x.g)) AS same
FROM (SELECT g, kbf_agg(id, v, t) FROM r JOIN (SELECT i, kbf_new(100, seed => i) FROM generate_series(0, 9) i OFFSET 0) y(g, t) USING (g) GROUP BY g) x(g, s);

-- labels in another order in each group
SELECT x.g, count(*) FILTER (WHERE kbf_get_label(s, id) = m::text) AS right_, count(*) FILTER (WHERE kbf_get(s, id) = 1 + id % 3) AS as_enum
FROM (SELECT g, kbf_agg(id, m, t) FROM r JOIN (VALUES (1, kbf_new(500, labels => '{sad,ok,happy}')), (2, kbf_new(500, labels => '{ok,happy,sad}'))) y(g, t)
	  USING (g) GROUP BY g) x(g, s) JOIN r USING (g) GROUP BY x.g ORDER BY x.g;

-- the sum of parts is the filter of the whole
SELECT (SELECT kbf_sum(s) FROM (SELECT kbf_agg(id, v, 1000) FROM r GROUP BY g) x(s)) = kbf_agg(id, v, 1000) AS same FROM r;
SELECT kbf_sum(s) = (SELECT kbf_agg(id, v, 1000) FROM r) AS same
FROM (SELECT kbf_new(1000) UNION ALL SELECT kbf_agg(id, v, 1000) FROM r UNION ALL SELECT kbf_new(1000)) x(s);

DROP VIEW r;
DROP TABLE kbf_rows;
DROP TYPE kbf_mood;
