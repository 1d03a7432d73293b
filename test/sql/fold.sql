-- Folding, dropping subtables, estimates, and completing a failed decoding.
\i test/sql/common.psql

CREATE TEMP TABLE r AS
SELECT i AS id, hashint8(i)::bigint AS c FROM generate_series(1, 20000) i;
CREATE TEMP TABLE master AS
SELECT iblt_agg(id, c, 60000) AS a, iblt_agg(id, c + (id % 400 = 0)::int, 60000) AS b FROM r;

-- a fold is, bit for bit, the sketch that would have been built smaller
SELECT capacity, iblt_fold(a, capacity)::bytea = (SELECT iblt_agg(id, c, capacity)::bytea FROM r) AS same
FROM master, unnest(ARRAY[1, 5, 50, 100, 1000, 10000, 60000]) capacity;
-- of keys and values of all shapes, in steps as in one
CREATE TEMP TABLE shapes AS
SELECT l.s, l.small
FROM generate_series(3, 8) hashes, unnest(ARRAY[true, false]) v,
	 iblt_new(60000, hashes => hashes, with_values => v, seed => -hashes) t,
	 LATERAL (SELECT iblt_agg(ROW(id, id::text), c, t), iblt_agg(ROW(id, id::text), c, iblt_fold(t, 30)) FROM r WHERE id <= 500) l(s, small);
SELECT count(*), bool_and(iblt_fold(s, small)::bytea = small::bytea) AS same,
	   bool_and(iblt_fold(iblt_fold(s, 5000), 30) = s) AS in_steps
FROM shapes;
-- folding is linear
SELECT iblt_fold(a - b, 100)::bytea = (iblt_fold(a, 100) - iblt_fold(b, 100))::bytea AS same FROM master;
-- sketches that differ by a fold can be combined and compared
SELECT (a - iblt_fold(b, 100))::bytea = iblt_fold(a - b, 100)::bytea AS minus,
	   (iblt_fold(a, 100) + b)::bytea = iblt_fold(a + b, 100)::bytea AS plus,
	   a = iblt_fold(a, 100) AS equal, a = iblt_fold(b, 100) AS not_equal, iblt_fold(a, 100) <> b AS differ
FROM master;
-- a template folds like what is built from it
SELECT iblt_fold(iblt_new(60000), 100) = iblt_new(100) AS same;
-- a failure probability can be asked for
SELECT (iblt_info(iblt_fold(a, 1000, failure))).cells FROM master, unnest(ARRAY[0.1, 0.0001, 0.00001]) failure;
SELECT failure, (iblt_info(iblt_new(100, failure => failure))).cells FROM unnest(ARRAY[0.1, 0.01, 0.001, 0.0001, 0.00001]) failure;

-- folded as small as the difference allows, it still decodes
SELECT count(*), min(side), bool_and(key % 400 = 0) AS right
FROM master, iblt_decode(iblt_fold(a, 50) - iblt_fold(b, 50), NULL::int);

-- what cannot be folded
SELECT * FROM pg_temp.refusals('%s', 'iblt_fold(iblt_new(100), 1000)', 'iblt_fold(iblt_new(100), iblt_new(1000))',
	'iblt_fold(iblt_new(1000), iblt_new(100))', 'iblt_fold(iblt_new(60000), iblt_new(100, seed => 1))', 'iblt_fold(iblt_new(), 0)',
	'iblt_fold(iblt_new(), 10, 0.9)', $$iblt_fold(iblt_new(), 10, 'NaN')$$, 'iblt_fold(NULL, 10)', 'iblt_fold(iblt_new(), NULL::int)',
	'iblt_fold(iblt_new(), NULL::iblt)', 'iblt_new(failure => 0)');

-- without a subtable: the same rows, decoded from the others, in which a row is once each
SELECT dropped, i.hashes, i.subtables, i.cells, i.capacity > 0 AS has_capacity, i.rows,
	   (SELECT count(*) FROM iblt_decode(iblt_drop_subtable(s, dropped)))
FROM (SELECT iblt_agg(id, c, 1000) FROM r WHERE id <= 500) x(s), generate_series(1, 4) dropped,
	 iblt_info(iblt_drop_subtable(s, dropped)) i;
SELECT hashes, subtables, cells, capacity, n
FROM (SELECT iblt_agg(id, c, 1000) FROM r WHERE id <= 100) x(s), iblt_drop_subtable(iblt_drop_subtable(s, 1), 3) two,
	 iblt_info(two), LATERAL (SELECT count(*) FROM iblt_decode(two)) d(n);
SELECT iblt_fold(iblt_drop_subtable(s, 1), 10)::bytea = iblt_drop_subtable(iblt_fold(s, iblt_new(cells)), 1)::bytea AS folds_alike
FROM (SELECT iblt_agg(id, c, 1000) FROM r WHERE id <= 100) x(s), LATERAL (
	SELECT c AS cells FROM generate_series(1, 1000) c
	WHERE (iblt_info(iblt_new(c))).cells / 4 = (iblt_info(iblt_fold(iblt_drop_subtable(s, 1), 10))).cells / 3 LIMIT 1) y;
SELECT iblt_drop_subtable(s, 2) - iblt_drop_subtable(s, 2) = iblt_drop_subtable(s - s, 2) AS linear
FROM (SELECT iblt_agg(id, c) FROM r) x(s);
SELECT * FROM pg_temp.refusals('iblt_drop_subtable(%s)', 's, 2) - s FROM (SELECT iblt_agg(id, c) FROM r) x(s',
	'iblt_drop_subtable(iblt_new(), 2), 2', 'iblt_new(), 5', 'iblt_new(), 0',
	'iblt_drop_subtable(iblt_drop_subtable(iblt_drop_subtable(iblt_new(), 1), 2), 3), 4', 'iblt_new(), NULL', 'NULL, 1');

-- the estimate of rows does not depend on the number of cells; a changed row is two, and one key
SELECT e.*, rows BETWEEN 70 AND 130 AS near, keys BETWEEN 40 AND 60 AS keys_near FROM master, iblt_estimate(a - b) e;
SELECT e.keys BETWEEN 400 AND 650 AS keys_near, keys_upper_bound BETWEEN 500 AND 800 AS bound_near, rows BETWEEN 750 AND 1250 AS rows_near
FROM (SELECT iblt_agg(id, c) - iblt_agg(id, c + 1) FROM r WHERE id <= 500) x(s), iblt_estimate(s) e;
SELECT bool_and(x.e = y.e) AS the_same FROM master, iblt_estimate(a - b) x(e), iblt_estimate(iblt_fold(a, 1) - iblt_fold(b, 1)) y(e);
SELECT * FROM iblt_estimate(iblt_new());
SELECT * FROM iblt_estimate(NULL);
-- counters of the meter wrap where a row occurs 32,768 times or more: the
-- estimate never says 0 then, nor less than the net number of rows
SELECT n, e.* FROM unnest(ARRAY[65536, 131072, 40000]) n, LATERAL (SELECT iblt_agg(1, 0) FROM generate_series(1, n)) x(s), iblt_estimate(s) e ORDER BY n;
SELECT e.* FROM (SELECT iblt_agg(1, 0) - iblt_agg(2, 0) FROM generate_series(1, 65536)) x(s), iblt_estimate(s) e;
-- as many rows as a cell can count
WITH RECURSIVE doubled(n, s) AS (SELECT 0, iblt_delete(iblt_new(10), 1, 1) UNION ALL SELECT n + 1, s + s FROM doubled WHERE n < 31)
SELECT i.rows, e.* FROM doubled, iblt_info(s) AS i, iblt_estimate(s) AS e WHERE n IN (30, 31) ORDER BY n;
SELECT rows_estimated >= 200 * 65536 AS at_least_the_rows, complete
FROM (SELECT iblt_sum(s + s) FROM (SELECT iblt_agg(i % 200, 0, 10) FROM generate_series(1, 200 * 2048) i) x(s), generate_series(1, 16)) y(s), iblt_decode_status(s);

-- A decoding that failed keeps what it recovered.  Taking those keys out of a
-- second sketch with another seed leaves what that can decode.
CREATE TEMP TABLE r2 AS SELECT id, c + (id % 4 = 0)::int AS c FROM r WHERE id <= 840 AND id % 16 <> 1;
INSERT INTO r2 SELECT -i, i FROM generate_series(1, 20) i;
CREATE TEMP TABLE two AS
SELECT (SELECT iblt_agg(id, c, iblt_new(100, seed => 1)) FROM r WHERE id <= 840) - (SELECT iblt_agg(id, c, iblt_new(100, seed => 1)) FROM r2) AS d1,
	   (SELECT iblt_agg(id, c, iblt_new(100, seed => 2)) FROM r WHERE id <= 840) - (SELECT iblt_agg(id, c, iblt_new(100, seed => 2)) FROM r2) AS d2;
SELECT s1.complete, s2.complete FROM two, iblt_decode_status(d1) s1, iblt_decode_status(d2) s2;
SET client_min_messages = error;
CREATE TEMP TABLE found AS SELECT x.key, side FROM two, iblt_decode(d1, NULL::int, allow_partial => true) x;
RESET client_min_messages;
SELECT count(*) BETWEEN 1 AND 280 AS some FROM found;
INSERT INTO found
SELECT x.key, side FROM two, iblt_decode(
	d2 - (SELECT iblt_agg(id, c, iblt_new(100, seed => 2)) FROM r WHERE id IN (SELECT key FROM found))
	   + (SELECT iblt_agg(id, c, iblt_new(100, seed => 2)) FROM r2 WHERE id IN (SELECT key FROM found)), NULL::int) x;
SELECT count(*) AS wrong FROM found FULL JOIN (
	SELECT id, CASE WHEN r2.id IS NULL THEN 'left' WHEN r.id IS NULL THEN 'right' ELSE 'both' END AS side
	FROM (SELECT * FROM r WHERE id <= 840) r FULL JOIN r2 USING (id) WHERE r.c IS DISTINCT FROM r2.c) t ON t.id = found.key AND t.side = found.side
WHERE t.id IS NULL OR found.key IS NULL;
SELECT side, count(*) FROM found GROUP BY side ORDER BY side;
