-- The sketch as a lookup table: keys looked up in stored values by slices, listing
-- where the cells of a key do not tell, and sizes for it.
\i test/sql/common.psql
CREATE FUNCTION pg_temp.state(query text) RETURNS text LANGUAGE sql AS $$SELECT split_part(pg_temp.outcome(query), ' ', 1)$$;

--
-- Every form in which a value is stored gives the answer that one in memory gives.
--
CREATE TEMP TABLE stored (name text, storage text, s iblt);
CREATE FUNCTION pg_temp.store(a text, b iblt) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	kind text;
BEGIN
	FOREACH kind IN ARRAY ARRAY['external', 'extended', 'main'] LOOP
		EXECUTE 'ALTER TABLE stored ALTER s SET STORAGE ' || kind;
		INSERT INTO stored VALUES (a, kind, b);
	END LOOP;
END $$;
SELECT count(pg_temp.store(name, s)) FROM (VALUES
	('short', (SELECT iblt_agg(i, i * 7, iblt_new(1, hashes => 3, with_values => true)) FROM generate_series(1, 2) i)),
	('few chunks', (SELECT iblt_agg(i, i * 7, iblt_new(100, with_values => true)) FROM generate_series(1, 70) i)),
	('sliced', (SELECT iblt_agg(i, i * 7, iblt_new(1000, with_values => true)) FROM generate_series(1, 150) i)),
	('large', (SELECT iblt_agg(i, i * 7, iblt_new(20000, with_values => true)) FROM generate_series(1, 5000) i)),
	('hidden', (SELECT iblt_agg(i, i * 7, iblt_new(1000, hashes => 3, with_values => true)) FROM generate_series(1, 5000) i)),
	('8 hashes, less 2', (SELECT iblt_drop_subtable(iblt_drop_subtable(iblt_agg(i, i * 7, iblt_new(2000, hashes => 8, with_values => true)), 3), 8) FROM generate_series(1, 150) i)),
	('fold', (SELECT iblt_fold(iblt_agg(i, i * 7, iblt_new(20000, with_values => true)), 1000) FROM generate_series(1, 1500) i)),
	('template', iblt_new(1000, with_values => true))) v(name, s);
WITH stored AS MATERIALIZED (SELECT name, storage, s, - (- s) AS memory FROM stored)
SELECT name, storage, count(*) AS keys, count(*) FILTER (WHERE g.status = 'unknown') BETWEEN 1 AND 199 AS some_unknown,
	   count(*) FILTER (WHERE g IS DISTINCT FROM m) AS other_than_in_memory,
	   count(*) FILTER (WHERE g.status = 'present' AND (k > rows OR g.count <> 1 OR g.value <> k * 7) OR g.status = 'absent' AND k <= rows) AS wrong
FROM stored, LATERAL (SELECT rows FROM iblt_info(s)) r, generate_series(1, 200) k, iblt_get(s, k) g, iblt_get(memory, k) m
GROUP BY name, storage ORDER BY name, storage;

-- A slice reads few blocks of a value of any size.
CREATE FUNCTION pg_temp.blocks(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || query INTO plan;
	RETURN (SELECT sum(value::int) FROM jsonb_each_text(plan -> 0 -> 'Plan') WHERE key ~ '(Hit|Read) Blocks');
END $$;
SELECT pg_temp.blocks($$SELECT iblt_get(s, 7) FROM stored WHERE name = 'large' AND storage = 'external'$$) < 60 AS few,
	   pg_temp.blocks($$SELECT iblt_info(s) FROM stored WHERE name = 'large' AND storage = 'external'$$) > 100 AS whole;

-- Descriptions that the first slice does not hold, of the key, the value, or both: rows of 300 columns.
CREATE FUNCTION pg_temp.wide(number text, query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE replace(query, 'WIDE', format('ROW(%s, %s)', number, (SELECT string_agg('NULL::numeric', ',') FROM generate_series(1, 300))));
END $$;
CREATE TEMP TABLE wide (s iblt);
INSERT INTO wide SELECT u::iblt FROM pg_temp.wide('i', $$SELECT iblt_agg(WIDE, i, iblt_new(1000, key_size => 400))::text FROM generate_series(1, 300) i
	UNION ALL SELECT iblt_agg(i, WIDE, iblt_new(1000, value_size => 320))::text FROM generate_series(1, 150) i
	UNION ALL SELECT iblt_agg(WIDE, WIDE, iblt_new(1000, key_size => 320, value_size => 320))::text FROM generate_series(1, 150) i$$) AS u;
SELECT length(key_type), length(value_type) FROM wide, iblt_info(s);
SELECT told, count(*) FROM pg_temp.wide('i', $$SELECT 'key ' || (i <= 300) || ' ' || (iblt_get(s, WIDE)).status FROM generate_series(1, 320) i, wide WHERE (iblt_info(s)).value_type IS NULL
	UNION ALL SELECT concat_ws(' ', 'value', i <= 150, g.status, g.value = WIDE) FROM generate_series(1, 300) i, wide, iblt_get(s, i, NULL::record) g WHERE (iblt_info(s)).key_type = 'bigint'
	UNION ALL SELECT concat_ws(' ', 'both', i <= 150, g.status, g.value = WIDE) FROM generate_series(1, 300) i, wide, iblt_get(s, WIDE, NULL::record) g
	WHERE (iblt_info(s)).key_type <> 'bigint' AND (iblt_info(s)).value_type IS NOT NULL$$) AS u(told) GROUP BY told ORDER BY told;

--
-- What is trusted.  Bytes that no function has validated, as a damaged disk could
-- return them: iblt_get refuses damage to the header and to the field elements of
-- the cells that it reads, and does not see damage elsewhere.
--
CREATE FUNCTION pg_temp.unseen(bytea) RETURNS iblt LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE TEMP TABLE damaged (what text, bytes bytea, s iblt);
ALTER TABLE damaged ALTER s SET STORAGE external;
INSERT INTO damaged
SELECT what, bytes, pg_temp.unseen(bytes) FROM (SELECT iblt_agg(i, i, 1000)::bytea FROM generate_series(1, 100) i) b(b), LATERAL (VALUES
	('00 nothing', b), ('01 magic', set_byte(b, 0, 0)), ('02 version', set_byte(b, 4, 9)), ('03 hashes', set_byte(b, 5, 5)),
	('04 no subtables', set_byte(b, 6, 0)), ('05 a subtable less', set_byte(b, 6, 7)), ('06 reserved', set_byte(b, 7, 255)),
	('07 values', set_byte(b, 34, 1)), ('08 kind', set_byte(b, 8, 2)), ('09 kind', set_byte(b, 8, 77)), ('10 limbs', set_byte(b, 11, 1)),
	('11 cells', set_byte(b, 14, 1)), ('12 cells', set_byte(b, 12, 105)), ('13 description', set_byte(b, 32, 8)), ('14 reserved', set_byte(b, 39, 1)),
	('15 too short', substr(b, 1, length(b) - 1)), ('16 too long', b || '\x00'), ('17 header alone', substr(b, 1, 552)), ('18 less', substr(b, 1, 39)), ('19 no byte', ''),
	('20 more cells than bytes', overlay(b PLACING '\x00000001' FROM 13)), ('21 template', set_byte(b, 8, 0)), ('21 estimator', iblt_strata_insert(iblt_strata_new(1, 4), 7, 7)::bytea),
	('21 kind of value', set_byte(b, 9, 1)), ('21 integers', set_byte(set_byte(b, 9, 1), 34, 1)), ('21 description of values', set_byte(b, 36, 8)),
	-- every word of every cell is above p
	('22 elements', overlay(b PLACING (SELECT string_agg('\xffffffffffffffff'::bytea, '') FROM generate_series(1, (length(b) - 560) / 8)) FROM 553)),
	-- what is not read, or cannot be seen
	('23 checksum', set_byte(b, length(b) - 1, 255 - get_byte(b, length(b) - 1))), ('24 meter', set_byte(b, 40, 255 - get_byte(b, 40))),
	('25 rows', set_byte(b, 24, 7)), ('26 more rows than counted', set_byte(b, 30, 7))) d(what, bytes);
SELECT what, pg_temp.state(format('SELECT (iblt_get(s, 7)).status FROM damaged WHERE what = %L', what)) AS stored,
	   pg_temp.state(format('SELECT (iblt_get(pg_temp.unseen(bytes), 7)).status FROM damaged WHERE what = %L', what)) AS in_memory,
	   pg_temp.state(format('SELECT (iblt_info(s)).version FROM damaged WHERE what = %L', what)) AS whole
FROM damaged ORDER BY what;
-- One cell after the other.  Two tell the same here, and no other cell is read.
TRUNCATE damaged;
INSERT INTO damaged
SELECT cell, '', pg_temp.unseen(overlay(b PLACING '\xffffffffffffffff' FROM 1 + 552 + 28 * cell + 4))
FROM (SELECT iblt_agg(i, i, 1000)::bytea FROM generate_series(1, 100) i) b(b), generate_series(0, 1439) cell;
SELECT pg_temp.state(format('SELECT (iblt_get(s, 7)).status FROM damaged WHERE what = %L', what)) AS stored, count(*)
FROM damaged GROUP BY 1 ORDER BY 1;

-- Header and cells that contradict each other are found by listing alone.  This
-- is a sketch of the keys 7 and 8 whose header says 3 rows.
CREATE TEMP TABLE contradiction AS SELECT ('SUJMVAEDBwABAAEAAQAAAAEAAAAAAAAAAw' || repeat('A', 185) || 'B' || repeat('A', 306) || 'E' || repeat('A', 210)
	|| 'gAAAMV0ahKG2nazpEex8z7k9mYq8Tph29KD7wIAAADFdGoShtp2s6RHsfM+5PZmKvE6YdvSg+8CAAAAxXRqEobadrOkR7HzPuT2ZirxOmHb0oPvP9LBskNZJKM=')::iblt AS s;
SELECT status FROM iblt_get((SELECT s FROM contradiction), 7);
SELECT status FROM iblt_get((SELECT s FROM contradiction), 7, list => true);

--
-- Listing, where the cells of the key do not tell.
--
CREATE TEMP TABLE listed AS
SELECT n, iblt_agg(i, i * 7, iblt_new(1000, with_values => true)) AS s
FROM unnest(ARRAY[1000, 1090, 5000]) n, generate_series(1, n) i GROUP BY n;
SELECT n, complete, k <= n AS there, count(*) FILTER (WHERE g.status = 'unknown') > 0 AS some_unknown, l.status, count(*) = 50 AS all,
	   bool_and(g.status IN ('unknown', l.status)) AS agree, bool_and(l.status <> 'present' OR l.count = 1 AND l.value = k * 7) AS right
FROM listed, iblt_decode_status(s), LATERAL (SELECT i % 50 + i / 50 * n AS k FROM generate_series(1, 99) i) k,
	 iblt_get(s, k) g, iblt_get(s, k, list => true) l
WHERE k > 0 GROUP BY n, complete, there, l.status ORDER BY 1, 2, 3 DESC, l.status;
-- rows of a difference, left, changed and right
SELECT k / 100 AS part, l.status, l.count, count(*) = 100 AS all, bool_or(g.status = 'unknown') AS some_unknown, bool_and(g.status = 'unknown' OR g = l) AS agree
FROM (SELECT iblt_agg(i, i, 350) FILTER (WHERE i < 200) - iblt_agg(i, i + 1, 350) FILTER (WHERE i >= 100) FROM generate_series(0, 299) i) x(s),
	 generate_series(0, 299) k, iblt_get(s, k) g, iblt_get(s, k, list => true) l
GROUP BY part, l.status, l.count ORDER BY part;
-- values of any type
CREATE TEMP TABLE texts AS SELECT iblt_agg(i, 'value ' || i, iblt_new(1000, value_size => 16)) AS s FROM generate_series(1, 1000) i;
SELECT k <= 1000 AS there, g.status, count(*), bool_and(g.value = 'value ' || k) AS right, l.status AS listed, bool_and(l.count = 1 AND l.value = 'value ' || k) AS right
FROM texts, generate_series(1, 1200, 7) k, iblt_get(s, k, NULL::text) g, iblt_get(s, k, NULL::text, list => true) l
GROUP BY there, g.status, l.status ORDER BY 1, 2, 5;
-- a key of several rows
SELECT k, l.* FROM (SELECT iblt_agg(i % 6, i % 12 / 6 * (i % 3)::numeric / 4, iblt_new(5, hashes => 4, value_size => 16)) FROM generate_series(0, 11) i) x(s),
	 generate_series(0, 6) k, iblt_get(s, k, NULL::numeric, list => true) l ORDER BY k;
-- text and row keys
SELECT k, l.status FROM (SELECT iblt_agg(ROW(i, i::text), i, iblt_new(8, hashes => 4)) FROM generate_series(1, 8) i) x(s), generate_series(7, 9) k, iblt_get(s, ROW(k, k::text), list => true) l;
SELECT iblt_get(iblt_new(), 1, list => NULL);
SELECT iblt_get(iblt_new(), 1, true), iblt_get(NULL::iblt, 1, true);

-- More rows than a count can hold: the counts of a fold may have wrapped, so the
-- whole sketch is read.
CREATE TEMP TABLE many AS SELECT pg_temp.doubled(iblt_agg(i, 1, 1000), 30) AS s FROM generate_series(1, 3) i;
SELECT c AS folded_to, rows > 2147483647 AS many, g.*, l.status AS listed, l.count
FROM many m, unnest(ARRAY[1000, 8, 1]) c, LATERAL (SELECT iblt_fold(m.s, c)) f(s), iblt_info(f.s), iblt_get(f.s, 2) g, iblt_get(f.s, 2, list => true) l;

-- A key that a partial listing returns from such a fold is not believed either.
CREATE TEMP TABLE more AS SELECT pg_temp.doubled(iblt_agg(i, 1, iblt_new(20000, hashes => 3, seed => 1)), 30) AS s FROM generate_series(1, 12) i;
SET client_min_messages = error;
SELECT bool_or(complete) AS complete, count(*) AS listed, bool_and(g.status = 'unknown') AS unknown
FROM more m, LATERAL (SELECT iblt_fold(m.s, 2, 0.1)) f(s), iblt_decode_status(f.s), iblt_decode(f.s, NULL::int, true) l, iblt_get(f.s, l.key, list => true) g;
RESET client_min_messages;

--
-- Sizes for GET.
--
SELECT keys, success, hashes, cells, capacity >= keys AS lists
FROM unnest(ARRAY[1, 10, 100, 1000, 10000, 100000]) keys, unnest(ARRAY[0.5, 0.9, 0.99, 0.99999]) success,
	 iblt_info(iblt_new(keys, get_success => success)) ORDER BY 1, 2;
SELECT hashes, cells FROM generate_series(3, 8) k, iblt_info(iblt_new(1000, hashes => k, get_success => 0.99));
SELECT iblt_new(1000, get_success => NULL, hashes => NULL) = iblt_new(1000, hashes => 4) AS as_without;
SELECT * FROM pg_temp.refusals('iblt_new(%s)', '100, get_success => 1', '100, get_success => 0', $$100, get_success => 'NaN'$$,
	'1000000, hashes => 3, get_success => 0.99999', '-1, get_success => 0.9', '1, hashes => 9, get_success => 0.9');

-- iblt_info tells it as it is now.  Rows that are there twice, changed or deleted
-- do not mislead it.  The bound is that of the keys found, which are not quite
-- independent, with room.
SELECT keys, round(get_success::numeric, 2) AS get_success, abs(found::float8 / keys - get_success) <= 8 * sqrt(0.25 / keys) AS as_now
FROM unnest(ARRAY[50, 200, 500, 1000]) keys,
	 LATERAL (SELECT iblt_agg(i, i, 1000) + iblt_agg(i, i, 1000) - iblt_agg(i, i + 1, 1000) FROM generate_series(1, keys) i) x(s), iblt_info(s),
	 LATERAL (SELECT count(*) FILTER (WHERE g.status = 'present') FROM generate_series(1, keys) k, iblt_get(s, k) g) f(found);
SELECT (iblt_info(iblt_new())).get_success AS template, (iblt_info(iblt_insert(iblt_new(2), 1, 1))).get_success AS one_key, (iblt_info(iblt_agg(i, i, 1))).get_success AS full_,
	(iblt_info(iblt_insert(iblt_new(1), 1, 1))).get_success AS one_cell, (SELECT min((iblt_info(s - s)).get_success) FROM unnest(ARRAY[1, 2]) n, iblt_insert(iblt_new(n), 1, 1) s) AS no_row
FROM generate_series(1, 2) i;
