-- iblt_compare within one database, its options and errors.  Live peers are
-- tested in test/t.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt;
CREATE TABLE cmp_a (id int PRIMARY KEY, v text, n numeric(8,2));
INSERT INTO cmp_a SELECT g, 'row ' || g, g * 1.5 FROM generate_series(1, 500) g;
CREATE TABLE cmp_b (n numeric(8,2), id int PRIMARY KEY, v text);
INSERT INTO cmp_b SELECT n, id, v FROM cmp_a;

SELECT count(*) FROM iblt_compare('cmp_a', NULL, 'cmp_b');
DELETE FROM cmp_b WHERE id = 10;
UPDATE cmp_b SET v = 'changed' WHERE id = 20;
INSERT INTO cmp_b VALUES (0, 1000, NULL);
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', rows => true) ORDER BY key;
SELECT relation, peer_relation, rows_here, rows_there, differences, unconfirmed, settled, key_columns, columns, messages
FROM iblt_compare_stats();
-- the other way round
SELECT key, side FROM iblt_compare('cmp_b', peer_relation => 'cmp_a') ORDER BY key;
-- options
SELECT key, side FROM iblt_compare('cmp_a', NULL, 'cmp_b', columns => '{n}') ORDER BY key;
SELECT key, side FROM iblt_compare('cmp_a', NULL, 'cmp_b', exclude => '{v}') ORDER BY key;
SELECT key, side FROM iblt_compare('cmp_a', NULL, 'cmp_b', condition => 'id < 15') ORDER BY key;
SELECT key, side, here_count, there_count FROM iblt_compare('cmp_a', NULL, 'cmp_b', key_columns => '{v}') ORDER BY key;
SELECT count(*) FROM iblt_compare('cmp_a', NULL, 'cmp_a', condition => 'id <= 5', peer_condition => 'id <= 3');
SELECT key, side, confirmed FROM iblt_compare('cmp_a', NULL, 'cmp_b', recheck => 1, timeout => '5 s', condition => 'id < 15');

-- NULLs in a key, and no key at all
CREATE TABLE cmp_null_a (a int, b text);
INSERT INTO cmp_null_a VALUES (1, NULL), (NULL, 'x'), (NULL, NULL), (NULL, NULL);
CREATE TABLE cmp_null_b AS TABLE cmp_null_a;
SELECT count(*) FROM iblt_compare('cmp_null_a', NULL, 'cmp_null_b');
INSERT INTO cmp_null_b VALUES (NULL, NULL), (2, '');
SELECT key, side, here_count, there_count FROM iblt_compare('cmp_null_a', NULL, 'cmp_null_b') ORDER BY key;
SELECT key, side, here_count, there_count FROM iblt_compare('cmp_null_a', NULL, 'cmp_null_b', key_columns => '{a}') ORDER BY key;

-- errors
\set VERBOSITY terse
SELECT * FROM iblt_compare(NULL);
SELECT * FROM iblt_compare('cmp_a');
SELECT * FROM iblt_compare('cmp_a', NULL, 'nowhere');
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', columns => '{nothing}');
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', exclude => '{nothing}');
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', columns => '{v}', exclude => '{v}');
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', columns => '{}');
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', max_differences => 0);
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', max_differences => 2);
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', recheck => -1);
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', extra_columns => 'maybe');
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', rows => NULL);
SELECT * FROM iblt_compare('cmp_a', 'no_such_server');
ALTER TABLE cmp_b ALTER n TYPE text, ADD extra int;
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', exclude => '{extra}');
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', extra_columns => 'error', cast_types => true);
SELECT key, side FROM iblt_compare('cmp_a', NULL, 'cmp_b', cast_types => true) ORDER BY key;

-- sketches kept by the session
SELECT iblt_session_keep('mine', s) = s AS same FROM iblt_insert(iblt_new(), 7, 1) AS s;
SELECT key FROM iblt_decode(iblt_session_get('mine'));
SELECT (iblt_session_keep('mine', iblt_new())) IS NOT NULL AS replaced;
SELECT count(*) FROM iblt_decode(iblt_session_get('mine'));
-- a fold, and half of the cells of one twice its size, make that one
SELECT iblt_session_keep('mine', s) = s AS same FROM (SELECT iblt_agg(i, i, iblt_internal.iblt_compare_template(100, 8, 1)) FROM generate_series(1, 50) i) AS x(s);
SELECT c.cells AS coarse, f.cells AS fine, e.cells AS evens, iblt_internal.iblt_compare_refine(coarse, evens) = fine AS same
FROM (SELECT iblt_fold(s, 40, 0.1), iblt_fold(s, 100, 0.1), iblt_internal.iblt_session_evens('mine', 42) FROM iblt_session_get('mine') AS s)
	AS x(coarse, fine, evens), iblt_info(coarse) AS c, iblt_info(fine) AS f, iblt_info(evens) AS e;
SELECT iblt_internal.iblt_session_evens('mine', 7);
SELECT iblt_internal.iblt_session_evens('mine', 64);
SELECT iblt_internal.iblt_session_evens('mine', NULL);
SELECT iblt_internal.iblt_session_evens('none', 2);
SELECT iblt_internal.iblt_compare_refine(iblt_session_get('mine'), iblt_new());
-- of the same size, but without the cells
SELECT iblt_internal.iblt_compare_refine(s, iblt_internal.iblt_compare_template(100, 8, 1)) FROM iblt_session_get('mine') AS s;
SELECT iblt_internal.iblt_compare_refine(iblt_internal.iblt_compare_template(100, 8, 1), s) FROM iblt_session_get('mine') AS s;
SELECT i.cells, i.rows FROM iblt_info(iblt_internal.iblt_compare_refine(iblt_internal.iblt_compare_template(100, 8, 1), iblt_internal.iblt_compare_template(100, 8, 1))) AS i;
SELECT iblt_session_drop('mine'), iblt_session_drop('mine');
SELECT iblt_session_get('mine');
SELECT iblt_session_keep(NULL, iblt_new());
SELECT iblt_session_keep('x', NULL);
SELECT cells, capacity >= 60000 AS enough FROM iblt_info(iblt_internal.iblt_compare_template(60000, 8, 1));
SELECT iblt_internal.iblt_compare_template(0, 8, 1);

-- the keys of a difference, each as one word: all of them in order, or none
SELECT d.* FROM (SELECT iblt_agg(i, i) FROM unnest('{30,-7,4,-9223372036854775808,9223372036854775807,100}'::bigint[]) AS i) AS x(s), iblt_internal.iblt_compare_decode(s) AS d;
SELECT d.* FROM (SELECT iblt_agg(u, 1) FROM unnest('{cccccccc-0000-0000-0000-000000000000,00000000-0000-0000-0000-0000000000ff}'::uuid[]) AS u) AS x(s), iblt_internal.iblt_compare_decode(s) AS d;
SELECT keys FROM (SELECT iblt_agg(u, 1) FROM unnest('{2026-03-01,2001-01-01}'::date[]) AS u) AS x(s), iblt_internal.iblt_compare_decode(s);
SELECT keys, (keys[1]::text[])[2]::timestamp FROM (SELECT iblt_agg(ROW(i, timestamp '2026-01-01 10:00' + i * interval '1 day', true), i) FROM generate_series(1, 2) AS i) AS x(s),
	iblt_internal.iblt_compare_decode(s);
SELECT complete, recovered < 5000 AS not_all, estimated > 4000 AS many, keys FROM (SELECT iblt_agg(i, i, 100) FROM generate_series(1, 5000) AS i) AS x(s), iblt_internal.iblt_compare_decode(s);
SELECT * FROM iblt_internal.iblt_compare_decode(iblt_new());
SELECT * FROM iblt_internal.iblt_compare_decode(NULL);
-- as iblt_decode shows them
SELECT keys = ARRAY(SELECT key FROM iblt_decode(s) ORDER BY key::bigint) AS same_keys,
	sides = ARRAY(SELECT CASE side WHEN 'left' THEN 'here' WHEN 'right' THEN 'there' ELSE side END FROM iblt_decode(s) ORDER BY key::bigint) AS same_sides,
	cardinality(keys), (SELECT count(DISTINCT side) FROM unnest(sides) AS side) AS sides
FROM (SELECT a - b FROM (SELECT iblt_agg(i * 7919 % 20011 - 10000, i, 4000) FROM generate_series(1, 3000) AS i) AS x(a),
	(SELECT iblt_agg(i * 7919 % 20011 - 10000, i + (i % 3 = 0)::int, 4000) FROM generate_series(1000, 4000) AS i) AS y(b)) AS z(s), iblt_internal.iblt_compare_decode(s);

DROP TABLE cmp_a, cmp_b, cmp_null_a, cmp_null_b;
