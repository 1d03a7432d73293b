-- The steps of a comparison, one by one, with plans that are hard to get from relations:
-- what a step refuses, and what it says.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt;
CREATE SCHEMA steps;
SET search_path = steps, public, iblt_internal;

CREATE FUNCTION options_of(relation regclass, fields jsonb DEFAULT '{}') RETURNS iblt_internal.options LANGUAGE sql AS $$
	SELECT iblt_internal.compare_options('a test', relation, false, NULL, jsonb_populate_record(NULL::iblt_internal.options, '{"max_differences": 100000, "content": "none",
		"cast_types": true, "extra_columns": "ignore", "timeout": "1 minute", "progress": false, "live": "off", "method": "sketch", "by_index": false}' || fields))
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
CREATE FUNCTION outcome(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' ', sqlstate, sqlerrm, nullif('(' || detail || ')', '()'));
END $$;

CREATE TABLE mine (id int PRIMARY KEY, v text);
CREATE TABLE theirs (id int PRIMARY KEY, v text);
INSERT INTO mine SELECT i, 'v' || i FROM generate_series(1, 5) AS i;
INSERT INTO theirs TABLE mine;
UPDATE theirs SET v = 'x' WHERE id = 2;
DELETE FROM theirs WHERE id = 3;
DELETE FROM mine WHERE id = 4;

-- options
SELECT outcome($$SELECT * FROM iblt_compare('mine', NULL, 'theirs', max_differences => 2147483648)$$);
SELECT outcome($$SELECT * FROM iblt_compare('mine', NULL, 'theirs', columns => '{id,NULL}')$$);
SELECT outcome($$SELECT * FROM iblt_compare('mine', NULL, 'theirs', exclude => '{NULL}')$$);
SELECT (options_of('mine', '{"seed": 7}')).seed,
	(options_of('mine', '{"condition": "a", "peer_condition": "b"}')).peer_condition,
	(options_of('mine', '{"condition": "a"}')).peer_condition AS by_default;
SELECT outcome($$SELECT steps.plan_of('steps.mine', 'steps.theirs', '{"relation_name": "steps.renamed"}')$$);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outcome($$SELECT * FROM iblt_compare('mine', NULL, 'theirs', recheck => 1)$$);
COMMIT;

-- the first question of another server: only one of the same protocol is told more
SELECT n AS protocol, a -> 'protocol' AS has, a -> 'version' = to_jsonb(extversion) AS version, a ? 'side' AS told, a #>> '{side,relation}' AS side
FROM generate_series(0, 2) AS n, LATERAL (SELECT iblt_internal.hello(n, 'steps.mine', NULL, false)) AS x(a), pg_extension WHERE extname = 'iblt';

-- what describe_more tells of is not left out, and of a table without any of that it tells what iblt_describe tells
CREATE DOMAIN steps.own AS int;
CREATE TABLE of_own (id int, v own);
CREATE TABLE of_text (id text PRIMARY KEY);
CREATE TABLE parent (id int);
CREATE TABLE child () INHERITS (parent);
CREATE VIEW looked AS TABLE mine;
SELECT relation, condition, mapping, describe(relation::regclass, condition, mapping) -> 'more' AS more
FROM (VALUES ('mine', NULL, NULL::jsonb), ('mine', 'id > 0', NULL), ('mine', NULL, '{"columns": {"w": "v"}, "expressions": {}}'),
	('of_own', NULL, NULL), ('of_text', NULL, NULL), ('parent', NULL, NULL), ('looked', NULL, NULL), ('pg_class', NULL, NULL)) AS x(relation, condition, mapping);
SELECT describe('mine') - '{more,condition}'::text[] = describe('mine', 'id > 0') - '{more,condition}'::text[] AS same;
DROP TABLE of_own, child, parent, of_text;
DROP VIEW looked;

-- a field of each row
SELECT iblt_field('{"(s,a,t)",NULL,"(s,,f)"}'::subscribed[], 'slot') AS texts, iblt_field('{}'::subscribed[], 'slot') AS none, iblt_field(NULL::subscribed[], 'slot') AS no_array,
	outcome('SELECT iblt_internal.iblt_field(''{}''::iblt_internal.live_digest[])') AS no_field, outcome('SELECT iblt_internal.iblt_field(''{}''::iblt_internal.subscribed[], ''ready'')') AS no_text,
	outcome('SELECT iblt_internal.iblt_field(''{1}''::int[])') AS no_row;

-- types: a domain of one name, or a type with a send function on one side
SELECT title, iblt_internal.column_cast(ROW('c', h_type, h_base, h_textual, NULL, NULL, true, h_parts, NULL, NULL), ROW('c', t_type, t_base, t_textual, NULL, NULL, true, t_parts, NULL, NULL)) AS "cast"
FROM (VALUES ('the same', 'd', 23, '{}'::text[], 'integer', 'd', 23, '{}'::text[], 'integer'), ('a domain over another type', 'd', 25, '{}', 'text', 'd', 23, '{}', 'integer'),
	('over another type of a user', 'd', 16400, '{}', '(a)', 'd', 16500, '{}', '(a)'), ('over one of a user there', 'd', 25, '{}', 'text', 'd', 16500, '{}', '(a)'),
	('made of others', 'd', 16400, '{}', '(a)', 'd', 16500, '{}', '(b)'), ('not known there', 'd', 16400, '{}', '(a)', 'd', 16500, '{}', NULL),
	('without a send function here', 'c', 16400, '{c}', 'c', 'c', 16500, '{}', 'c'), ('without a send function', 'c', 16400, '{c}', 'c', 'c', 16500, '{c}', 'c'),
	('two names', 'd', 16400, '{}', 'c', 'e', 16400, '{}', 'c')) AS x(title, h_type, h_base, h_textual, h_parts, t_type, t_base, t_textual, t_parts);
-- what types are made of
CREATE DOMAIN steps.number AS int;
CREATE TYPE steps.mood AS ENUM ('sad', 'ok');
CREATE TYPE steps.span AS RANGE (subtype = steps.number);
CREATE TYPE steps.made AS ("A b" steps.number[], c varchar(3), d steps.span[], e steps.mood);
SET search_path = iblt_internal;
SELECT title, iblt_internal.describe_parts(title::regtype) FROM unnest('{numeric,steps.number,steps.number[],steps.span,steps.made,steps.made[]}'::text[]) AS title;
SET search_path = steps, public, iblt_internal;
-- a column may be null if it may be on either side
SELECT h, t, (SELECT c.not_null FROM unnest(iblt_internal.common_columns(one.s, two.s, NULL)) AS c)
FROM (VALUES (true, true), (true, false), (false, true), (false, false)) AS x(h, t),
	LATERAL (SELECT jsonb_populate_record(NULL::iblt_internal.side, jsonb_build_object('columns', jsonb_build_array(jsonb_build_object('name', 'c', 'base', 23, 'type', 'integer', 'textual', '[]'::jsonb, 'not_null', h))))) AS one(s),
	LATERAL (SELECT jsonb_populate_record(NULL::iblt_internal.side, jsonb_build_object('columns', jsonb_build_array(jsonb_build_object('name', 'c', 'base', 23, 'type', 'integer', 'textual', '[]'::jsonb, 'not_null', t))))) AS two(s);
-- the texts of a row: as a whole for plain queries and for tables of Citus, else with what stands for long ones
SELECT fields, iblt_internal.short_texts_sql(jsonb_populate_record(NULL::iblt_internal.plan, fields || '{"columns": []}')) ~ 'repair_texts' AS long
FROM (VALUES ('{}'::jsonb), ('{"here": {"distributed": true}}'), ('{"there": {"distributed": true}}'), ('{"buckets": 1}')) AS x(fields);
-- which columns a sketch can have as they are
SELECT title, iblt_internal.key_size(ARRAY[ROW('c', "cast", base, base_there, NULL, NULL, true, not_null, NULL)::iblt_internal.plan_column]) AS bytes
FROM (VALUES ('an integer', '', 23, 23, true), ('that may be null', '', 23, 23, false), ('of another base there', '', 23, 16400, true),
	('cast', 'int8', 23, 20, true), ('cast, that may be null', 'int8', 23, 20, false), ('as text', 'text', 23, 25, true), ('a text', '', 25, 25, true)) AS x(title, "cast", base, base_there, not_null);

-- a condition that depends on a collation names it
SELECT condition, iblt_internal.describe('mine', condition) -> 'collations' = '[]' AS none FROM unnest(ARRAY['id > 1', 'v = ''m''', 'v < ''m''', 'v < ''m'' COLLATE "POSIX"']) AS condition;
-- text in rows, ranges and jsonb is ordered, too, and a call does not say by which collation
CREATE TYPE steps.words AS RANGE (subtype = text);
SELECT condition, iblt_internal.describe('mine', condition) -> 'collations' = '[]' AS none
FROM unnest(ARRAY['ROW(v) = ROW(''m''::text)', 't = ROW(1, ''m''::text)', 't > ROW(1, ''m''::text)', 'GREATEST(ROW(v), ROW(''m''::text)) = ROW(v)', 'ARRAY[ROW(v)] < ARRAY[ROW(''m''::text)]',
	'''[a,m)''::steps.words && ''[b,c)''::steps.words', '''[a,m)''::steps.words = ''[b,c)''::steps.words', '''"a"''::jsonb < ''"b"''', 'GREATEST(''"a"''::jsonb, ''"b"'') IS NULL', '''{"a": 1}''::jsonb ? v', '''{"a": 1}''::jsonb @> ''{}''', '''"a"''::jsonb = ANY(ARRAY[''"b"''::jsonb])', 'steps.span(id, 3) && steps.span(1, 2)', 'isempty(steps.span(id, 3))']) AS condition;
DROP TYPE steps.words;
-- and some functions depend on its bytes, which the encoding decides
SELECT condition, iblt_internal.describe('mine', condition) -> 'collations' ? ('encoding ' || getdatabaseencoding()) AS encoding
FROM unnest(ARRAY['md5(v) = ''8''', 'v::varchar = ''8''', 'v::bytea IS NULL', 'v LIKE ''a%''']) AS condition;
-- rows are looked up under locks on those of one side, and the answers stay in their places
BEGIN;
SELECT locked, ARRAY(SELECT c IS NOT NULL FROM unnest(f[1].checksum) AS c) AS here, ARRAY(SELECT c IS NOT NULL FROM unnest(f[2].checksum) AS c) AS there
FROM unnest('{there,here}'::text[]) AS locked, LATERAL (SELECT iblt_internal.find_locked(plan_of('mine', 'theirs'), CASE locked WHEN 'here' THEN '{1,3,4}'::text[] ELSE '{1,4}' END, locked)) AS x(f);
SELECT ARRAY(SELECT id FROM mine WHERE xmax <> 0 ORDER BY id) AS locked_here, ARRAY(SELECT id FROM theirs WHERE xmax <> 0 ORDER BY id) AS locked_there;
ROLLBACK;

-- what a plan must not do
SELECT h, t, outcome(format('SELECT iblt_internal.check_collations(%L, %L)', h, t)) FROM (VALUES ('{}', '{}'), ('{C}', '{}'), ('{}', '{C}'), ('{C}', '{C}'), ('{"c en_US 2.36"}', '{"c en_US 2.37"}')) AS x(h, t);
CREATE FUNCTION code(fields jsonb, to_json boolean, to_text boolean) RETURNS text LANGUAGE sql AS $$
	SELECT outcome(format('SELECT iblt_internal.check_code(%L)', changed(plan_of('mine', 'theirs'), fields || jsonb_build_object('there', jsonb_build_object('columns',
		jsonb_build_array(jsonb_build_object('name', 'id', 'to_json', CASE WHEN to_json THEN 'to_json()' END, 'to_text', CASE WHEN to_text THEN 'to_text()' END)))))))
$$;
SELECT title, code(fields, to_json, to_text) FROM (VALUES ('a key as it is', '{}'::jsonb, true, true), ('a hash', '{"by_hash": true}', true, false), ('a hash, no code', '{"by_hash": true}', false, true), ('rows', '{"content": "rows"}', true, false), ('texts', '{"content": "texts"}', true, false),
	('cast to text', '{"columns": [{"name": "id", "cast_to": "text"}]}', false, true), ('cast to another', '{"columns": [{"name": "id", "cast_to": "int8"}]}', false, true), ('another column', '{"columns": [{"name": "v", "cast_to": "text"}], "content": "rows"}', true, true)) AS x(title, fields, to_json, to_text);
SELECT outcome(format('SELECT iblt_internal.require_version_rights(%L)', changed(plan_of('mine', 'theirs'), fields))) AS version_rights
FROM (VALUES ('{"versions": true}'::jsonb), ('{"versions": true, "here": {"version_rights": false}}'),
	('{"versions": true, "there": {"version_rights": false}}'), ('{"versions": false, "here": {"version_rights": false}}')) AS x(fields);

-- columns of one side alone
CREATE TABLE wider (id int PRIMARY KEY, v text, w text);
SELECT outcome($$SELECT * FROM iblt_compare('mine', NULL, 'wider', extra_columns => 'error')$$), outcome($$SELECT * FROM iblt_compare('wider', NULL, 'mine', extra_columns => 'error')$$);

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
CREATE TABLE t (t int PRIMARY KEY);
CREATE TABLE t_there (t int PRIMARY KEY);
INSERT INTO t VALUES (1), (2);
INSERT INTO t_there VALUES (2), (3);
SELECT key, side FROM iblt_compare('t', NULL, 't_there') ORDER BY key;
SELECT key, side FROM iblt_compare('t', NULL, 't_there', key_columns => '{t}', recheck => 1, timeout => '0 s') ORDER BY key;
CREATE TABLE named (id int PRIMARY KEY, t int NOT NULL, v int);
CREATE TABLE named_there (id int PRIMARY KEY, t int NOT NULL, v int);
INSERT INTO named VALUES (1, 7, 1), (2, 8, 2);
INSERT INTO named_there VALUES (1, 7, 2), (2, 9, 2);
SELECT key, side FROM iblt_compare('named', NULL, 'named_there', key_columns => '{t}', columns => '{t}') ORDER BY key;
CREATE TABLE t_text (t text);
CREATE TABLE t_text_there (t text);
INSERT INTO t_text VALUES ('a'), ('a'), ('b');
INSERT INTO t_text_there VALUES ('a'), ('b');
SELECT key, side, here_count, there_count FROM iblt_compare('t_text', NULL, 't_text_there');

-- what follows a condition does not become a part of it
CREATE FUNCTION rows_of(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE query INTO n;
	RETURN n;
END $$;
SELECT rows_of('SELECT count(*) FROM mine AS t' || iblt_internal.condition_sql(p, p.here) || ' AND id = 5')
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
CREATE TABLE pair (a int, b int, v text, PRIMARY KEY (a, b));
CREATE TABLE pair_there (a int, b int, v text, PRIMARY KEY (a, b));
INSERT INTO pair SELECT 1, i, 'v' FROM generate_series(1, 3) AS i;
INSERT INTO pair_there SELECT 1, i, CASE i WHEN 1 THEN 'v' ELSE 'w' END FROM generate_series(1, 3) AS i;
CREATE TABLE word (w text PRIMARY KEY);
CREATE TABLE word_there (w text PRIMARY KEY);
INSERT INTO word VALUES ('a'), ('b b');
SELECT relation, (iblt_internal.finder(p, (p).here)).indexed, (iblt_internal.finder(p, (p).there)).matches
FROM (VALUES ('mine', 'theirs', '{}'::jsonb), ('pair', 'pair_there', '{}'), ('mine', 'theirs', '{"key_columns": ["v"], "columns": ["v"]}')) AS x(relation, peer, options), LATERAL (SELECT plan_of(relation::regclass, peer::regclass, options)) AS y(p)
WHERE NOT (p).by_hash;
SELECT relation, (iblt_internal.finder(p, (p).here)).indexed FROM (VALUES ('word', 'word_there', '{}'::jsonb), ('t_text', 't_text_there', '{}'), ('mine', 'theirs', '{"key_columns": ["v"]}')) AS x(relation, peer, options),
	LATERAL (SELECT plan_of(relation::regclass, peer::regclass, options)) AS y(p) WHERE (p).by_hash;
SELECT key, side FROM iblt_compare('pair', NULL, 'pair_there') ORDER BY key;
SELECT key, side FROM iblt_compare('word', NULL, 'word_there') ORDER BY key;
SELECT iblt_internal.keys_of_ids(plan_of('mine', 'theirs'), '{3,1,2}') AS keys, iblt_internal.keys_of_ids(plan_of('word', 'word_there'), ARRAY['12 {"w": "a b"}', '-3 {"w": "c"}']) AS hashes;
-- a hash alone is not the key: two keys may have one
SELECT substr(x.id, strpos(x.id, ' ') + 1) AS key FROM (SELECT plan_of('word', 'word_there')) AS p(p), LATERAL (SELECT iblt_internal.finder(p, (p).here)) AS f(f),
	LATERAL (SELECT array_agg(h) FROM (SELECT rows_of(format('SELECT %s FROM word AS t WHERE w = %L', (f).key, w))::text AS h FROM unnest('{a,b b,none}'::text[]) AS w) AS x WHERE h IS NOT NULL) AS h(hashes),
	LATERAL iblt_internal.read_planned((f).lookup, hashes) AS r(id text[], key jsonb[], n bigint[], digest text[], checksum bigint[], mark text[], content jsonb[], columns text[], fingerprint text),
	LATERAL unnest(r.id) AS x(id) ORDER BY 1;
-- one answer for each key
SELECT title, outcome(format('SELECT iblt_internal.require_unique(%1$L, (%1$L::iblt_internal.plan).here, %2$L, %3$L)', changed(plan_of('mine', 'theirs'), jsonb_build_object('by_hash', NOT indexed)), answers, '{1,2}'))
FROM (VALUES ('as many', true, '{7,NULL}'), ('more', true, '{7,7,NULL}'), ('fewer', true, '{7}'), ('none', true, NULL), ('by hash', false, NULL)) AS x(title, indexed, answers);

-- scans: rows are those of the last one, times are added up
SELECT (s.figures).rows_here, (s.figures).rows_there, (s.figures).scan_here_ms > 1e6 AS here, (s.figures).scan_there_ms > 1e6 AS there, (s.figures).scan_ms > 1e6 AS both
FROM iblt_internal.exchange(plan_of('mine', 'n_there', '{"columns": ["id"]}'), 10, jsonb_populate_record(NULL::iblt_internal.figures, '{"rows_here": 7, "rows_there": 7, "scan_here_ms": 1e6, "scan_there_ms": 1e6, "scan_ms": 1e6}')) AS s;
SELECT most, here, there, iblt_internal.first_capacity(changed(plan_of('mine', 'theirs'), jsonb_build_object('max_differences', most, 'here', jsonb_build_object('most_rows', here), 'there', jsonb_build_object('most_rows', there))))
FROM (VALUES (100000, 5000, 1), (100000, 10, 10), (100000, 1000000, 1000000), (100000, NULL, 10), (5000, NULL, NULL), (5000, 10, 5000), (1, 10, 10)) AS x(most, here, there);
CREATE TABLE large (id int PRIMARY KEY);
CREATE TABLE large_there (id int PRIMARY KEY);
INSERT INTO large SELECT generate_series(1, 12000);
-- a first sketch that is too small: the next one has another seed
SELECT s.exact, s.number, (s.plan).seed = 4711 AS same_seed, (s.figures).rows_here, (length(s.keys) - 4) / 24 AS keys
FROM iblt_internal.search(changed(plan_of('large', 'large_there'), '{"here": {"most_rows": 0}, "there": {"most_rows": 0}}'), NULL) AS s;
-- parts of the keys, most of which have no rows
SELECT parts, e.number, (e.figures).rows_here, (e.figures).rows_there, k.keys, k.sides
FROM unnest('{1,2,50}'::integer[]) AS parts, LATERAL iblt_internal.exchange_parts(changed(plan_of('mine', 'theirs'), jsonb_build_object('parts', parts)), 100, NULL) AS e, LATERAL iblt_internal.iblt_compare_keys(e.sample, e.keys, 0, 100) AS k;
SELECT e.number, (e.figures).rows_here, k.keys
FROM iblt_internal.exchange_parts(changed(plan_of('mine', 'theirs', '{"condition": "id > 10", "peer_condition": "id > 10"}'), '{"parts": 3}'), 100, NULL) AS e, LATERAL iblt_internal.iblt_compare_keys(e.sample, e.keys, 0, 100) AS k;
-- and parts that a sketch cannot tell: about how many there are in all
SELECT e.keys, e.number BETWEEN 6000 AND 24000 AS about FROM iblt_internal.exchange_parts(changed(plan_of('large', 'large_there'), '{"parts": 3}'), 1000, NULL) AS e;
SELECT is_unique, estimated, iblt_internal.surely_more(changed(plan_of('mine', 'theirs'), jsonb_build_object('is_unique', is_unique)), estimated, 100) FROM (VALUES (true, 160::bigint), (true, 161), (false, 1000)) AS x(is_unique, estimated);
SELECT outcome(format('SELECT iblt_internal.refuse_too_many(%L, 7, %L, %L)', changed(plan_of('mine', 'theirs'), jsonb_build_object('is_unique', is_unique)), exact, problem))
FROM (VALUES (true, true, NULL), (true, false, NULL), (false, false, NULL), (true, true, 'A problem.')) AS x(is_unique, exact, problem);

-- marks: of the contents and versions of both sides
CREATE FUNCTION differences() RETURNS iblt_internal.difference[] LANGUAGE sql AS $$
	SELECT iblt_internal.look(plan_of('mine', 'theirs', '{"recheck": 1}'), '{1,2,3,4,5}')
$$;
CREATE TABLE looks (n int, d iblt_internal.difference[]);
INSERT INTO looks SELECT 1, differences();
UPDATE mine SET v = v WHERE id = 2;
INSERT INTO looks SELECT 2, differences();
UPDATE theirs SET v = v WHERE id = 2;
INSERT INTO looks SELECT 3, differences();
INSERT INTO looks SELECT 4, differences();
SELECT id, side, array_agg(a.mark = b.mark ORDER BY l.n) AS same_as_in_the_next FROM looks AS l JOIN looks AS m ON m.n = l.n + 1, LATERAL unnest(l.d) AS a JOIN LATERAL unnest(m.d) AS b USING (id, side) GROUP BY 1, 2 ORDER BY 1;
-- settling: the mark stays if it is what it was
CREATE FUNCTION linked() RETURNS iblt_internal.plan LANGUAGE sql AS $$
	SELECT changed(plan_of('mine', 'theirs', '{"recheck": 1}'), '{"links": [{"source": "here", "follower": "there", "ready": true}, {"source": "there", "follower": "here", "ready": true}]}')
$$;
SELECT n, s.id, s.mark IS NOT NULL AS steady FROM looks, LATERAL (SELECT iblt_internal.steady(linked(), ARRAY[iblt_internal.hold(d)], clock_timestamp() + interval '1 minute')) AS h(held), LATERAL unnest((held[1]).ids, (held[1]).marks) AS s(id, mark) ORDER BY 1, 2;
-- a round before, and what is the same; the rest is judged again
SELECT l.n, verdict, j.id, j.confirmed, array_position((iblt_internal.rest(h)).ids, j.id) AS rest
FROM looks AS l JOIN looks AS m ON m.n = l.n + 1, LATERAL (SELECT iblt_internal.hold(m.d, iblt_internal.hold(l.d))) AS x(h), unnest('{true,false}'::boolean[]) AS verdict, LATERAL unnest(iblt_internal.judged(h, verdict)) AS j ORDER BY 1, 3;
-- marks of two looks of a round, and of the round before: all three must be the same
SELECT a, b, c, settled, h.marks[1] IS NOT NULL AS steady, h.same[1] FROM unnest('{a,b,NULL}'::text[]) AS a, unnest('{a,b,NULL}'::text[]) AS b, unnest('{a,b,NULL}'::text[]) AS c, unnest('{true,false}'::boolean[]) AS settled,
	LATERAL (SELECT ARRAY[ROW('1', NULL, 'here', NULL, NULL, 1, 0, a, NULL, NULL, NULL, NULL)::iblt_internal.difference], ARRAY[ROW('1', NULL, 'here', NULL, NULL, 1, 0, b, NULL, NULL, NULL, NULL)::iblt_internal.difference], ARRAY[ROW('1', NULL, 'here', NULL, NULL, 1, 0, c, NULL, NULL, NULL, NULL)::iblt_internal.difference]) AS d(x, y, z),
	LATERAL iblt_internal.hold(d.z, iblt_internal.hold(d.y, iblt_internal.hold(d.x)), settled) AS h WHERE h.marks[1] IS NOT NULL OR h.same[1] ORDER BY 1, 2, 3, 4;
-- waiting: each link must have been passed
SELECT title, iblt_internal.passed(changed(linked(), jsonb_build_object('links', links)), clock_timestamp() + interval '0.1 s') FROM (VALUES
	('both', '[{"source": "here", "follower": "there", "ready": true}, {"source": "there", "follower": "here", "ready": true}]'::jsonb),
	('not the second', '[{"source": "here", "follower": "there", "ready": true}, {"source": "there", "follower": "here", "slot": "iblt_nowhere", "ready": true}]')) AS x(title, links);
-- and the whole: with replication that has passed, and with a time that is over
SELECT timeout, r.id, r.confirmed FROM unnest('{1 minute,0 s}'::text[]) AS timeout, looks, LATERAL unnest(iblt_internal.recheck(changed(linked(), jsonb_build_object('timeout', timeout)), d)) AS r WHERE n = 1 ORDER BY 1, 2;
SELECT key, confirmed FROM iblt_compare('mine', NULL, 'theirs', recheck => 1, timeout => '0 s') ORDER BY key;

-- keys of which an index says something else than the scans
SELECT iblt_internal.doubtful('{1,2,3,4}', '{here,there,both,here}', ARRAY[ROW('1', NULL, 'here', NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, NULL), ROW('2', NULL, 'both', NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, NULL), ROW('3', NULL, 'both', NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, NULL)]::iblt_internal.difference[]) AS doubtful,
	iblt_internal.doubtful('{1,2}', '{here,both}', ARRAY[ROW('1', NULL, 'here', NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, NULL), ROW('2', NULL, 'both', NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, NULL)]::iblt_internal.difference[]) AS none;
SELECT here, there, (iblt_internal.index_plan(changed(plan_of('mine', 'theirs'), jsonb_build_object('here', here, 'there', there)))).versions
FROM (VALUES ('{}'::jsonb, '{}'::jsonb), ('{"versions": false}', '{}'), ('{"version_rights": false}', '{}'), ('{}', '{"versions": false}'), ('{}', '{"version_rights": false}')) AS x(here, there);

-- a relation that was altered: what was read is not what was described
SELECT title, outcome(format('SELECT iblt_internal.require_described(%L, %L, %L)', p, h, t))
FROM (SELECT plan_of('mine', 'theirs')) AS y(p), LATERAL (VALUES ('as it was', ((p).here).fingerprint, ((p).there).fingerprint), ('another here', 'x', ((p).there).fingerprint), ('another there', ((p).here).fingerprint, 'x'), ('none there', ((p).here).fingerprint, NULL)) AS x(title, h, t);
-- also of a relation that only a row tells
SELECT iblt_internal.iblt_compare_fingerprint(r[1], NULL) = iblt_internal.iblt_compare_fingerprint('mine', NULL) AS same FROM (SELECT array_agg(oid::regclass) FROM pg_class WHERE oid = 'mine'::regclass) AS x(r);
-- a pooler has sent the query to another server
SELECT side, outcome(format('SELECT iblt_internal.look(%L, %L)', changed(plan_of('mine', 'theirs'), jsonb_build_object(side, '{"identity": "1 2 3"}'::jsonb)), '{1}'))
FROM unnest('{here,there,none}'::text[]) AS side;
SELECT bare, fields, outcome(format('SELECT 1 / (%s IS NOT NULL)::integer', iblt_internal.read_fingerprint_sql((changed(plan_of('mine', 'theirs'), jsonb_build_object('here', jsonb_build_object('bare', bare) || fields))).here, '''mine''::regclass')))
FROM unnest('{false,true}'::boolean[]) AS bare, unnest(ARRAY['{}', '{"identity": "1 2 3"}']::jsonb[]) AS fields;
SELECT title, attempt, state, outcome(format('SELECT 1 / iblt_internal.restarts(NULL, NULL, %L, %s, %L)::integer', CASE title WHEN 'no plan' THEN NULL ELSE changed(plan_of('mine', 'theirs'), fields) END, attempt, jsonb_populate_record(NULL::iblt_internal.failure, jsonb_build_object('state', state, 'message', 'what it said'))))
FROM (VALUES ('as it was', '{}'::jsonb), ('altered here', '{"here": {"fingerprint": "x"}}'), ('altered there', '{"there": {"fingerprint": "x"}}'), ('no plan', '{}')) AS x(title, fields), unnest('{IB004,42703,22P02,57014}'::text[]) AS state, (VALUES (1), (3)) AS y(attempt)
WHERE title <> 'no plan' OR state = '42703' ORDER BY title COLLATE "C", state COLLATE "C", attempt;

-- figures
SELECT recheck, f.relation, f.peer_relation, f.key_columns, f.columns, f.differences, f.settled, f.unconfirmed, f.lookup_ms, f.recheck_ms
FROM generate_series(0, 1) AS recheck, LATERAL iblt_internal.all_figures(changed(plan_of('mine', 'theirs'), jsonb_build_object('recheck', recheck)), NULL, 5, 3, 2 * recheck) AS f;
CREATE VIEW clock AS SELECT id, clock_timestamp() AS v FROM mine;
SELECT max(here ->> 'v') AS looked FROM iblt_compare('clock', NULL, 'clock', key_columns => '{id}', condition => 'id > 0', peer_condition => 'id > -1', rows => true, recheck => 1, timeout => '0 s') \gset
SELECT finished_at > :'looked'::timestamptz AS finished_later, lookup_ms > 0 AS lookup, recheck_ms > 0 AS recheck, total_ms >= scan_ms + lookup_ms + recheck_ms - 1 AS total, scan_here_ms <= scan_ms + 0.1 AS here, scan_there_ms <= scan_ms + 0.1 AS there FROM iblt_compare_stats();
SELECT count(*) FROM iblt_compare('mine', NULL, 'mine', peer_condition => 'true', method => 'auto', on_too_many => 'sample');
SELECT differences, unconfirmed, settled, messages, bytes_sent, bytes_received, sketch_bytes, lookup_ms, recheck_ms FROM iblt_compare_stats();
-- those of a comparison that was undone are gone
\c -
SET search_path = steps, public, iblt_internal;
BEGIN;
SELECT count(*) FROM iblt_compare('mine', NULL, 'theirs');
ROLLBACK;
SELECT outcome('SELECT * FROM iblt_compare_stats()');

SET client_min_messages = warning;
DROP SCHEMA steps CASCADE;
