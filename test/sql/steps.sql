-- The steps of a comparison, one by one, with plans that are hard to get from relations:
-- what a step refuses, and what it says.
\i test/sql/common.psql
SET client_min_messages = warning;
CREATE SCHEMA steps;
SET search_path = steps, public, iblt_internal;

CREATE FUNCTION options_of(relation regclass, fields jsonb DEFAULT '{}') RETURNS iblt_internal.options LANGUAGE sql AS $$
	SELECT jsonb_populate_record(NULL::iblt_internal.options, jsonb_build_object('relation_name', iblt_internal.relation_name(relation), 'seed', iblt_internal.random_seed()) || '{"max_differences": 100000, "content": "none",
		"cast_types": true, "extra_columns": "ignore", "timeout": "1 minute", "progress": false, "live": "off", "method": "sketch", "by_index": false}' || fields)
$$;
CREATE FUNCTION plan_of(here regclass, there regclass, options jsonb DEFAULT '{}') RETURNS iblt_internal.plan LANGUAGE sql AS $$
	SELECT iblt_internal.prepare('{NULL,NULL}', here, there::text,
		jsonb_populate_record(options_of(here, '{"seed": 4711}'), options))
$$;
-- a plan with some fields of its own
CREATE FUNCTION changed(plan iblt_internal.plan, fields jsonb) RETURNS iblt_internal.plan LANGUAGE sql AS $$
	SELECT jsonb_populate_record(plan, fields || CASE WHEN fields ? 'here' THEN jsonb_build_object('here', to_jsonb(plan.here) || (fields -> 'here')) ELSE '{}' END
		|| CASE WHEN fields ? 'there' THEN jsonb_build_object('there', to_jsonb(plan.there) || (fields -> 'there')) ELSE '{}' END)
$$;

CREATE TABLE mine (id int PRIMARY KEY, v text);
CREATE TABLE theirs (id int PRIMARY KEY, v text);
INSERT INTO mine SELECT i, 'v' || i FROM generate_series(1, 5) AS i;
INSERT INTO theirs TABLE mine;
UPDATE theirs SET v = 'x' WHERE id = 2;
DELETE FROM theirs WHERE id = 3;
DELETE FROM mine WHERE id = 4;

-- options
SELECT * FROM pg_temp.refusals($$* FROM iblt_compare('mine', NULL, 'theirs', %s)$$, 'max_differences => 2147483648', $$columns => '{id,NULL}'$$,
	$$exclude => '{NULL}'$$);
SELECT pg_temp.refusal($$SELECT steps.plan_of('steps.mine', 'steps.theirs', '{"relation_name": "steps.renamed"}')$$);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pg_temp.refusal($$SELECT * FROM iblt_compare('mine', NULL, 'theirs', recheck => 1)$$);
COMMIT;

-- a condition that depends on a collation names it
SELECT condition, iblt_internal.describe('mine', condition) -> 'collations' = '[]' AS none FROM unnest(ARRAY['id > 1', 'v = ''m''', 'v < ''m''', 'v < ''m'' COLLATE "POSIX"']) AS condition;
-- text in rows, ranges and jsonb is ordered, too, and a call does not say by which collation
CREATE TYPE steps.words AS RANGE (subtype = text);
SELECT condition, iblt_internal.describe('mine', condition) -> 'collations' = '[]' AS none
FROM unnest(ARRAY['ROW(v) = ROW(''m''::text)', 't = ROW(1, ''m''::text)', 't > ROW(1, ''m''::text)', 'GREATEST(ROW(v), ROW(''m''::text)) = ROW(v)', 'ARRAY[ROW(v)] < ARRAY[ROW(''m''::text)]',
	'''[a,m)''::steps.words && ''[b,c)''::steps.words', '''[a,m)''::steps.words = ''[b,c)''::steps.words', '''"a"''::jsonb < ''"b"''', 'GREATEST(''"a"''::jsonb, ''"b"'') IS NULL', '''{"a": 1}''::jsonb ? v', '''{"a": 1}''::jsonb @> ''{}''', '''"a"''::jsonb = ANY(ARRAY[''"b"''::jsonb])', 'int4range(id, 3) && int4range(1, 2)', 'isempty(int4range(id, 3))']) AS condition;
DROP TYPE steps.words;
-- and some functions depend on its bytes, which the encoding decides
SELECT condition, iblt_internal.describe('mine', condition) -> 'collations' ? ('encoding ' || getdatabaseencoding()) AS encoding
FROM unnest(ARRAY['md5(v) = ''8''', 'v::varchar = ''8''', 'v::bytea IS NULL', 'v LIKE ''a%''']) AS condition;

-- what a plan must not do
SELECT h, t, pg_temp.refusal(format('SELECT iblt_internal.check_collations(jsonb_populate_record(NULL::iblt_internal.side, %L), jsonb_populate_record(NULL::iblt_internal.side, %L))',
	jsonb_build_object('collations', h::text[]), jsonb_build_object('collations', t::text[]))) FROM (VALUES ('{}', '{}'), ('{C}', '{}'), ('{}', '{C}'), ('{C}', '{C}'), ('{"c en_US 2.36"}', '{"c en_US 2.37"}')) AS x(h, t);
-- many columns, one that has the name of a row, and none
DO $$
BEGIN
	EXECUTE (SELECT format('CREATE TABLE many (id int PRIMARY KEY, %s)', string_agg(format('c%s int DEFAULT %s', i, i), ', ')) FROM generate_series(1, 120) AS i);
END $$;
CREATE TABLE many_there (LIKE many INCLUDING ALL);
INSERT INTO many SELECT generate_series(1, 3);
INSERT INTO many_there TABLE many;
UPDATE many_there SET c120 = 0 WHERE id = 2;
SELECT key, side FROM iblt_compare('many', NULL, 'many_there');
CALL pg_temp.pair('t', 't int PRIMARY KEY', 'VALUES (1), (2)', 'VALUES (2), (3)');
SELECT key, side FROM iblt_compare('t', NULL, 't_there') ORDER BY key;
SELECT key, side FROM iblt_compare('t', NULL, 't_there', key_columns => '{t}', recheck => 1, timeout => '0 s') ORDER BY key;
CALL pg_temp.pair('named', 'id int PRIMARY KEY, t int NOT NULL, v int', 'VALUES (1, 7, 1), (2, 8, 2)', 'VALUES (1, 7, 2), (2, 9, 2)');
SELECT key, side FROM iblt_compare('named', NULL, 'named_there', key_columns => '{t}', columns => '{t}') ORDER BY key;
CALL pg_temp.pair('t_text', 't text', $$VALUES ('a'), ('a'), ('b')$$, $$VALUES ('a'), ('b')$$);
SELECT key, side, here_count, there_count FROM iblt_compare('t_text', NULL, 't_text_there');

-- what follows a condition does not become a part of it
CREATE FUNCTION rows_of(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE query INTO n;
	RETURN n;
END $$;
SELECT rows_of('SELECT count(*) FROM ' || iblt_internal.from_sql(p, p.here) || ' WHERE id = 5')
FROM changed(plan_of('mine', 'theirs'), '{"here": {"condition": "id = 1 OR v = ''v5'' -- two"}}') AS p;
-- the condition of each side, in lookups by key and by hash, also where row versions are read
CREATE TABLE n_here (id int PRIMARY KEY, k text, v text, n int);
CREATE TABLE n_there (id int PRIMARY KEY, k text, v text, n int);
INSERT INTO n_here VALUES (1, 'a', '1', 1), (2, 'a', '2', 2), (3, 'b', '3', 1);
INSERT INTO n_there VALUES (1, 'a', '1', 1), (2, 'a', '2', 2), (3, 'b', '3', 2);
SELECT * FROM iblt_compare('n_here', NULL, 'n_there', condition => 'n = 1', peer_condition => 'n = 2', exclude => '{n}', rows => true) ORDER BY key;
SELECT * FROM iblt_compare('n_here', NULL, 'n_there', condition => 'n = 1', peer_condition => 'n = 2', columns => '{v}', key_columns => '{k}', rows => true, recheck => 1, timeout => '0 s') ORDER BY key;
SELECT key, side, confirmed FROM iblt_compare('n_here', NULL, 'n_there', condition => 'id < 3', peer_condition => 'id = 1', recheck => 1);

-- a row version: another for each table, place and transaction
CREATE TABLE parts (id int) PARTITION BY LIST (id);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2);
INSERT INTO parts VALUES (1), (2), (2);
CREATE FUNCTION mark_count(relation text) RETURNS bigint LANGUAGE sql AS $$
	SELECT rows_of(format('SELECT count(DISTINCT %s) FROM %s AS t', iblt_internal.mark_sql(changed(plan_of('mine', 'theirs'), '{"versions": true}')), relation))
$$;
SELECT (SELECT count(DISTINCT (ctid, xmin::text)) FROM parts) AS places, mark_count('parts');
CREATE TABLE marks (mark bigint);
CREATE FUNCTION note_mark() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('INSERT INTO marks SELECT %s FROM t_text AS t', iblt_internal.mark_sql(changed(plan_of('mine', 'theirs'), '{"versions": true}')));
END $$;
TRUNCATE t_text;
INSERT INTO t_text VALUES ('c');
SELECT note_mark(), note_mark();
TRUNCATE t_text;
INSERT INTO t_text VALUES ('c');
SELECT note_mark();
SELECT count(*), count(DISTINCT mark) FROM marks;

-- how rows are found
CALL pg_temp.pair('pair', 'a int, b int, v text, PRIMARY KEY (a, b)', $$SELECT 1, i, 'v' FROM generate_series(1, 3) AS i$$,
	$$SELECT 1, i, CASE i WHEN 1 THEN 'v' ELSE 'w' END FROM generate_series(1, 3) AS i$$);
CALL pg_temp.pair('word', 'w text PRIMARY KEY', $$VALUES ('a'), ('b b')$$);
SELECT key, side FROM iblt_compare('pair', NULL, 'pair_there') ORDER BY key;
SELECT key, side FROM iblt_compare('word', NULL, 'word_there') ORDER BY key;
-- a hash alone is not the key: two keys may have one
SELECT substr(x.id, strpos(x.id, ' ') + 1) AS key FROM (SELECT plan_of('word', 'word_there')) AS p(p), LATERAL (SELECT iblt_internal.finder(p, (p).here)) AS f(f),
	LATERAL (SELECT array_agg(h) FROM (SELECT rows_of(format('SELECT %s FROM word AS t WHERE w = %L', iblt_internal.key_sql(p), w))::text AS h FROM unnest('{a,b b,none}'::text[]) AS w) AS x WHERE h IS NOT NULL) AS h(hashes),
	LATERAL iblt_internal.read_planned((f).lookup, hashes) AS r(id text[], key jsonb[], n bigint[], digest text[], checksum bigint[], mark text[], content jsonb[], columns text[], fingerprint text),
	LATERAL unnest(r.id) AS x(id) ORDER BY 1;

SELECT is_unique, estimated, iblt_internal.surely_more(changed(plan_of('mine', 'theirs'), jsonb_build_object('is_unique', is_unique)), estimated, 100) FROM (VALUES (true, 160::bigint), (true, 161), (false, 1000)) AS x(is_unique, estimated);
-- marks: of the contents and versions of both sides
CREATE FUNCTION differences() RETURNS iblt_internal.difference[] LANGUAGE sql AS $$
	SELECT iblt_internal.look_at_ids(plan_of('mine', 'theirs', '{"recheck": 1}'), '{1,2,3,4,5}')
$$;
CREATE TABLE looks (n int, d iblt_internal.difference[]);
INSERT INTO looks SELECT 1, differences();
UPDATE mine SET v = v WHERE id = 2;
INSERT INTO looks SELECT 2, differences();
UPDATE theirs SET v = v WHERE id = 2;
INSERT INTO looks SELECT 3, differences();
CREATE FUNCTION linked() RETURNS iblt_internal.plan LANGUAGE sql AS $$
	SELECT changed(plan_of('mine', 'theirs', '{"recheck": 1}'), '{"links": [{"source": "here", "follower": "there", "ready": true}, {"source": "there", "follower": "here", "ready": true}]}')
$$;
-- marks of two looks of a round, and of the round before: all three must be the same
SELECT a, b, c, settled, h.marks[1] IS NOT NULL AS steady, h.waits[1] > 0 AS same FROM unnest('{a,b,NULL}'::text[]) AS a, unnest('{a,b,NULL}'::text[]) AS b, unnest('{a,b,NULL}'::text[]) AS c, unnest('{true,false}'::boolean[]) AS settled,
	LATERAL (SELECT ARRAY[ROW('1', NULL, 'here', NULL, NULL, 1, 0, a, NULL, NULL, NULL, NULL, NULL, NULL)::iblt_internal.difference], ARRAY[ROW('1', NULL, 'here', NULL, NULL, 1, 0, b, NULL, NULL, NULL, NULL, NULL, NULL)::iblt_internal.difference], ARRAY[ROW('1', NULL, 'here', NULL, NULL, 1, 0, c, NULL, NULL, NULL, NULL, NULL, NULL)::iblt_internal.difference]) AS d(x, y, z),
	LATERAL iblt_internal.hold(d.z, iblt_internal.hold(d.y, iblt_internal.hold(d.x)), settled) AS h WHERE h.marks[1] IS NOT NULL OR h.waits[1] > 0 ORDER BY 1, 2, 3, 4;
-- waiting: each link must have been passed
SELECT title, iblt_internal.pass(changed(linked(), jsonb_build_object('links', links)), clock_timestamp() + interval '0.1 s') FROM (VALUES
	('both', '[{"source": "here", "follower": "there", "ready": true}, {"source": "there", "follower": "here", "ready": true}]'::jsonb),
	('not the second', '[{"source": "here", "follower": "there", "ready": true}, {"source": "there", "follower": "here", "slot": "iblt_nowhere", "ready": true}]')) AS x(title, links);
-- and the whole: with replication that has passed, and with a time that is over
SELECT timeout, r.id, r.confirmed FROM unnest('{1 minute,0 s}'::text[]) AS timeout, looks, LATERAL iblt_internal.recheck_batches(changed(linked(), jsonb_build_object('timeout', timeout)), ARRAY[iblt_internal.hold(d)]) AS c, LATERAL unnest(c.differences) AS r WHERE n = 1 ORDER BY 1, 2;
SELECT key, confirmed FROM iblt_compare('mine', NULL, 'theirs', recheck => 1, timeout => '0 s') ORDER BY key;

-- plain queries: the sum of a bucket ends with its number of rows.  Of two buckets, what differed has arrived, or was deleted
SELECT title, iblt_internal.plain_arrived(jsonb_populate_record(NULL::iblt_internal.found_keys, '{"buckets": ["0", "2"], "first": [200001, 100001, null], "sums": ["{0,0,0}", "{-300001,0,699999.5}"]}'),
	jsonb_populate_record(NULL::iblt_internal.found_keys, '{"buckets": []}' || after)) AS arrived FROM (VALUES
	('both arrived', '{"first": [500002, 100001, -699999]}'::jsonb), ('another one differs now', '{"first": [500002, 100001, -699999], "buckets": ["1"]}'), ('one still differs', '{"first": [500002, 100001, -699999], "buckets": ["0"]}'),
	('one was deleted', '{"first": [200001, 100001, -699999]}'), ('the other one was', '{"first": [500002, 100001, null]}'), ('one changed', '{"first": [900002, 100001, -699999]}'),
	('the other one did', '{"first": [500002, 100001, 99901]}'), ('nothing is known', '{"first": []}')) AS x(title, after);
-- a pooler has sent the query to another server
SELECT side, pg_temp.refusal(format('SELECT iblt_internal.look_at_ids(%L, %L)', changed(plan_of('mine', 'theirs'), jsonb_build_object(side, '{"identity": "1 2 3"}'::jsonb)), '{1}'))
FROM unnest('{here,there,none}'::text[]) AS side;
-- figures
CREATE VIEW clock AS SELECT id, clock_timestamp() AS v FROM mine;
SELECT max(here ->> 'v') AS looked FROM iblt_compare('clock', NULL, 'clock', key_columns => '{id}', condition => 'id > 0', peer_condition => 'id > -1', rows => true, recheck => 1, timeout => '0 s') \gset
SELECT finished_at > :'looked'::timestamptz AS finished_later, lookup_ms > 0 AS lookup, recheck_ms > 0 AS recheck, total_ms >= scan_ms + lookup_ms + recheck_ms - 1 AS total, scan_here_ms <= scan_ms + 0.1 AS here, scan_there_ms <= scan_ms + 0.1 AS there FROM iblt_compare_stats();
SELECT count(*) FROM iblt_compare('mine', NULL, 'mine', peer_condition => 'true', method => 'auto', on_too_many => 'sample');
SELECT differences, unconfirmed, settled, messages, bytes_sent, bytes_received, sketch_bytes, lookup_ms, recheck_ms FROM iblt_compare_stats();
-- those of a comparison that was undone are gone
\c -
\i test/sql/common.psql
SET search_path = steps, public, iblt_internal;
BEGIN;
SELECT count(*) FROM iblt_compare('mine', NULL, 'theirs');
ROLLBACK;
SELECT pg_temp.refusal('SELECT * FROM iblt_compare_stats()');

SET client_min_messages = warning;
DROP SCHEMA steps CASCADE;
