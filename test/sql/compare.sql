-- iblt_compare within one database, its options and errors.  Peers are
-- tested in test/t.
\i test/sql/common.psql
SET client_min_messages = warning;
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
-- options
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
SELECT * FROM pg_temp.refusals('* FROM iblt_compare(%s)', 'NULL', $$'cmp_a'$$, $$'cmp_a', NULL, 'nowhere'$$,
	$$'cmp_a', NULL, 'cmp_b', columns => '{nothing}'$$, $$'cmp_a', NULL, 'cmp_b', max_differences => 2$$, $$'cmp_a', 'no_such_server'$$);
ALTER TABLE cmp_b ALTER n TYPE text, ADD extra int;
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', exclude => '{extra}');
SELECT * FROM iblt_compare('cmp_a', NULL, 'cmp_b', extra_columns => 'error', cast_types => true);
SELECT key, side FROM iblt_compare('cmp_a', NULL, 'cmp_b', cast_types => true) ORDER BY key;

-- sketches kept by the session
SELECT iblt_session_keep('mine', s) = s AS same FROM iblt_insert(iblt_new(), 7, 1) AS s;
SELECT key FROM iblt_decode(iblt_session_get('mine'));
SELECT (iblt_session_keep('mine', iblt_new())) IS NOT NULL AS replaced;
SELECT count(*) FROM iblt_decode(iblt_session_get('mine'));
-- the next fold: the smallest that suffices, and at least twice the one before
CREATE TEMP TABLE travelling AS SELECT iblt_agg(i, i, iblt_internal.iblt_compare_template(4000, 8, 1)) AS s FROM generate_series(1, 5000) i;
SELECT known, wanted, iblt_internal.iblt_compare_next((i.cells / i.hashes)::integer, known, wanted)
FROM travelling, iblt_info(s) AS i, (VALUES (8, 1), (8, 100), (9, 100), (9, 150), (40, 100), (40, 121), (840, 2000), (840, 4000), (840, 1000000), (2520, 1), (0, 0), (-1, -1), (2147483647, 1), (1, 2147483647)) AS n(known, wanted);
SELECT bool_and(iblt_internal.iblt_compare_fold(s, n) = iblt_fold(s, iblt_internal.iblt_compare_fold(s, n))) AS folds, count(*) AS sizes
FROM travelling, iblt_info(s) AS i, generate_series(1, i.cells / i.hashes) AS n WHERE i.cells / i.hashes % n = 0;
SELECT iblt_internal.iblt_compare_fold(s, 11) FROM travelling;
SELECT iblt_internal.iblt_compare_fold(s, 0) FROM travelling;
SELECT iblt_internal.iblt_compare_next(NULL, 8, 1), iblt_internal.iblt_compare_next(2520, 8, NULL);
-- rows of keys that are not as they differed
SELECT iblt_internal.iblt_compare_changed(1, '{0,0,0,0,NULL,1,0,1}', '{NULL,7,8,NULL,7,7,-1,NULL}', '{NULL,7,7,7,7,7,-1,NULL}'), iblt_internal.iblt_compare_changed(1, '{}', '{}', '{}');
SELECT iblt_internal.iblt_compare_changed(1, '{0}', '{7,7}', '{7}');
SELECT iblt_internal.iblt_compare_changed(1, '{0}', '{7}', '{7,7}');
SELECT iblt_internal.iblt_describe('pg_class', '{23}') ->> 'system' = system_identifier::text AS system FROM pg_control_system();
SELECT * FROM pg_temp.refusals($$iblt_internal.iblt_describe('pg_class', %s)$$, $$'{}'$$, $$'{23,NULL}'$$, $$'{{23},{25}}'$$);
DROP TABLE travelling;
-- an error that was caught is raised again as it was
CREATE FUNCTION pg_temp.raised(f jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	e iblt_internal.failure;
BEGIN
	RETURN concat('none: ', iblt_internal.iblt_raise(jsonb_populate_record(e, f)) IS NULL);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS e.message = MESSAGE_TEXT, e.detail = PG_EXCEPTION_DETAIL, e.hint = PG_EXCEPTION_HINT, e.schema_name = SCHEMA_NAME, e.table_name = TABLE_NAME,
		e.column_name = COLUMN_NAME, e.datatype_name = PG_DATATYPE_NAME, e.constraint_name = CONSTRAINT_NAME;
	RETURN sqlstate || e::text;
END $$;
SELECT iblt_internal.iblt_raise(NULL) IS NULL AS none, pg_temp.raised('{"message": "no state"}'), pg_temp.raised('{"state": "IB999"}'), pg_temp.raised('{"state": "1234567", "message": "m"}');
SELECT pg_temp.raised('{"state": "IB999", "message": "m", "detail": "d", "hint": "h", "schema_name": "s", "table_name": "t", "column_name": "c", "datatype_name": "i", "constraint_name": "k"}');
SELECT iblt_session_drop('mine'), iblt_session_drop('mine');
SELECT iblt_session_get('mine');
-- a sketch belongs to the role that has kept it
CREATE ROLE regress_iblt_keeper;
SELECT count(iblt_session_keep('mine', s)) FROM iblt_insert(iblt_new(), 8, 1) AS s;
SET ROLE regress_iblt_keeper;
SELECT iblt_session_get('mine');
SELECT iblt_session_drop('mine') AS dropped, iblt_session_keep('mine', iblt_new()) = iblt_new() AS own;
RESET ROLE;
SELECT key FROM iblt_decode(iblt_session_get('mine'));
SET ROLE regress_iblt_keeper;
SELECT iblt_session_drop('mine') AS dropped;
RESET ROLE;
SELECT iblt_session_drop('mine') AS dropped;
DROP ROLE regress_iblt_keeper;
-- behind a tab, a name of one comparison: it does not get what another one keeps
SELECT iblt_session_keep(E'mine\t1', iblt_new()) IS NOT NULL AS kept, iblt_session_keep(E'mine\t2', iblt_new()) IS NOT NULL AS by_another;
SELECT iblt_session_get(E'mine\t1');
SELECT iblt_session_get(E'mine\t2') = iblt_new() AS own, iblt_session_drop('mine') AS dropped;
SELECT iblt_session_keep(NULL, iblt_new());
SELECT iblt_session_keep('x', NULL);
SELECT cells, capacity >= 60000 AS enough FROM iblt_info(iblt_internal.iblt_compare_template(60000, 8, 1));
SELECT iblt_internal.iblt_compare_template(0, 8, 1);

-- the keys of a difference, each as one word: all of them in order, or none
CREATE FUNCTION keys_of(s iblt, first integer, number integer, OUT complete boolean, OUT recovered bigint, OUT estimated bigint, OUT keys text[], OUT sides text[]) LANGUAGE sql AS $$
	SELECT d.complete, d.recovered, d.estimated, k.keys, k.sides FROM iblt_internal.iblt_compare_decode(s) AS d LEFT JOIN LATERAL iblt_internal.iblt_compare_keys(s, d.keys, first, number) AS k ON true
$$;
SELECT d.* FROM (SELECT iblt_agg(i, i) FROM unnest('{30,-7,4,-9223372036854775808,9223372036854775807,100}'::bigint[]) AS i) AS x(s), keys_of(s, 0, 6) AS d;
SELECT d.* FROM (SELECT iblt_agg(u, 1) FROM unnest('{cccccccc-0000-0000-0000-000000000000,00000000-0000-0000-0000-0000000000ff}'::uuid[]) AS u) AS x(s), keys_of(s, 0, 100) AS d;
SELECT keys FROM (SELECT iblt_agg(u, 1) FROM unnest('{2026-03-01,2001-01-01}'::date[]) AS u) AS x(s), keys_of(s, 0, 2);
SELECT keys, (keys[1]::text[])[2]::timestamp FROM (SELECT iblt_agg(ROW(i, timestamp '2026-01-01 10:00' + i * interval '1 day', true), i) FROM generate_series(1, 2) AS i) AS x(s),
	keys_of(s, 0, 2);
SELECT complete, recovered < 5000 AS not_all, estimated > 4000 AS many, keys FROM (SELECT iblt_agg(i, i, 100) FROM generate_series(1, 5000) AS i) AS x(s), iblt_internal.iblt_compare_decode(s);
SELECT * FROM keys_of(iblt_new(), 0, 10);
SELECT * FROM iblt_internal.iblt_compare_decode(NULL);
-- as iblt_decode shows them
SELECT keys = ARRAY(SELECT key FROM iblt_decode(s) ORDER BY key::bigint) AS same_keys,
	sides = ARRAY(SELECT CASE side WHEN 'left' THEN 'here' WHEN 'right' THEN 'there' ELSE side END FROM iblt_decode(s) ORDER BY key::bigint) AS same_sides,
	cardinality(keys), (SELECT count(DISTINCT side) FROM unnest(sides) AS side) AS sides
FROM (SELECT a - b FROM (SELECT iblt_agg(i * 7919 % 20011 - 10000, i, 4000) FROM generate_series(1, 3000) AS i) AS x(a),
	(SELECT iblt_agg(i * 7919 % 20011 - 10000, i + (i % 3 = 0)::int, 4000) FROM generate_series(1000, 4000) AS i) AS y(b)) AS z(s), keys_of(s, 0, 10000);
-- in parts, from a fold of the difference, and no further than the last one
SELECT first, number, k.keys, k.sides
FROM (SELECT iblt_agg(i, 1, 1000) - iblt_agg(i, 1, 1000) FILTER (WHERE i % 2 = 0) FROM generate_series(1, 9) AS i) AS x(s), iblt_internal.iblt_compare_decode(s) AS d,
	(VALUES (0, 2), (2, 2), (4, 1), (4, 7), (5, 7), (2147483647, 2147483647), (0, 0)) AS part(first, number), iblt_internal.iblt_compare_keys(iblt_fold(s, 10), d.keys, first, number) AS k;
-- what is not such a list
SELECT iblt_internal.iblt_compare_keys(s, d.keys, -1, 1) FROM (SELECT iblt_agg(i, i) FROM generate_series(1, 2) AS i) AS x(s), iblt_internal.iblt_compare_decode(s) AS d;
SELECT iblt_internal.iblt_compare_keys(s, d.keys, 1, -1) FROM (SELECT iblt_agg(i, i) FROM generate_series(1, 2) AS i) AS x(s), iblt_internal.iblt_compare_decode(s) AS d;
SELECT iblt_internal.iblt_compare_keys(s, '', 0, 1) FROM (SELECT iblt_agg(i, i) FROM generate_series(1, 2) AS i) AS x(s);
SELECT iblt_internal.iblt_compare_keys(s, substr(d.keys, 1, 4 + 15), 0, 1) FROM (SELECT iblt_agg(i, i) FROM generate_series(1, 2) AS i) AS x(s), iblt_internal.iblt_compare_decode(s) AS d;
SELECT iblt_internal.iblt_compare_keys(s, d.keys, 0, 1) FROM (SELECT iblt_agg(i, i), iblt_agg(i::text, i) FROM generate_series(1, 2) AS i) AS x(other, s), iblt_internal.iblt_compare_decode(other) AS d;
DROP FUNCTION keys_of(iblt, integer, integer);

DROP TABLE cmp_a, cmp_b, cmp_null_a, cmp_null_b;
