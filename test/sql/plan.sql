-- What iblt_compare takes for a key, what it compares and how, before it reads a row:
-- a key that is none would read different tables as equal.
\i test/sql/common.psql
SET client_min_messages = warning;
CREATE SCHEMA plans;
SET search_path = plans, public, iblt_internal;

-- the plan of two relations
CREATE FUNCTION plan_of(here regclass, there regclass, options jsonb DEFAULT '{}') RETURNS iblt_internal.plan LANGUAGE sql AS $$
	SELECT iblt_internal.make_plan(iblt_internal.described(iblt_internal.describe(here), 'here'), iblt_internal.described(iblt_internal.describe(there), 'there'),
		jsonb_populate_record(NULL::iblt_internal.options, '{"content": "none", "cast_types": true, "extra_columns": "ignore", "method": "sketch"}' || options))
$$;
-- names, uniqueness and form of the key of two relations
CREATE FUNCTION key_of(here regclass, there regclass, options jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', array_to_string(iblt_internal.iblt_field(p.key), ','),
		CASE WHEN p.whole_row THEN 'whole row' END, CASE WHEN p.is_unique THEN 'unique' END,
		CASE WHEN p.by_hash THEN 'by hash' ELSE 'of ' || p.key_size || ' bytes' END)
	FROM plan_of(here, there, options) AS p
$$;

-- which unique indexes tell rows apart
CREATE TABLE keys (a int NOT NULL, b int NOT NULL, c int, d int NOT NULL, e int NOT NULL, f int NOT NULL, g text NOT NULL, PRIMARY KEY (b, d));
CREATE UNIQUE INDEX of_nulls ON keys (c);
CREATE UNIQUE INDEX of_nulls_too ON keys (a, c);
CREATE UNIQUE INDEX partial ON keys (e) WHERE a > 0;
CREATE UNIQUE INDEX expression ON keys ((e + 1));
CREATE UNIQUE INDEX column_and_expression ON keys (e, (a + 1));
CREATE UNIQUE INDEX including ON keys (a) INCLUDE (b, c);
CREATE UNIQUE INDEX invalid ON keys (f);
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'invalid'::regclass;
CREATE INDEX not_unique ON keys (e);
ALTER TABLE keys ADD EXCLUDE USING hash (e WITH =);
SELECT jsonb_path_query_array(iblt_internal.describe('keys') -> 'keys', '$[*].columns') AS keys;
ALTER TABLE keys DROP CONSTRAINT keys_pkey;
SELECT jsonb_path_query_array(iblt_internal.describe('keys') -> 'keys', '$[*].columns') AS without_the_primary_key;

-- a key must be unique on both sides, and all of it be common
CREATE TABLE one (id int PRIMARY KEY, v text);
CREATE TABLE two (id int, v text, PRIMARY KEY (id, v));
CREATE TABLE none (id int, v text);
CREATE TABLE other (v text PRIMARY KEY, x int);
CREATE TABLE only_v (v text, x int);
SELECT key_of('one', 'one') AS one, key_of('one', 'two') AS one_two, key_of('two', 'one') AS two_one, key_of('one', 'none') AS one_none, key_of('none', 'one') AS none_one, key_of('none', 'none') AS none;
SELECT key_of('two', 'other') AS not_all_of_it, key_of('two', 'only_v') AS nor_there, key_of('one', 'other') AS another, key_of('one', 'one', '{"key_columns": ["v"]}') AS asked_for,
	   key_of('two', 'two', '{"key_columns": ["id"]}') AS part, key_of('two', 'two', '{"key_columns": ["v", "id"]}') AS another_order, key_of('one', 'one', '{"columns": ["v"]}') AS with_columns;
-- which are kept as they are: of fixed width, one form for each value, never null
SELECT type, key_of('k_' || n::text, 'k_' || n::text)
FROM (SELECT n, type FROM unnest('{smallint,int,bigint,uuid,date,timestamptz,time,timetz,boolean,oid,text,numeric,float8,interval,char(3),bytea,inet}'::text[]) WITH ORDINALITY AS t(type, n)) AS t,
	 LATERAL (SELECT pg_temp.refusal(format('CREATE TABLE IF NOT EXISTS plans.k_%s (id %s PRIMARY KEY)', n, type))) AS made;
CREATE TABLE wide_1 (a uuid, b int, PRIMARY KEY (a, b));
CREATE TABLE wide_2 (a uuid, b uuid, PRIMARY KEY (a, b));
CREATE TABLE big (id bigint PRIMARY KEY, v text);
CREATE TABLE num (id numeric PRIMARY KEY, v text);
CREATE TABLE old (id int PRIMARY KEY, v text);
CREATE TABLE young () INHERITS (old);
CREATE VIEW seen AS SELECT * FROM one;
SELECT key_of('wide_1', 'wide_1') AS pair, key_of('wide_2', 'wide_2') AS too_wide, key_of('one', 'big') AS int_bigint, key_of('one', 'num') AS int_numeric,
	   key_of('old', 'one') AS parent, key_of('one', 'old') AS parent_there, key_of('one', 'seen') AS view;
SELECT name, d ->> 'ordinary' AS ordinary, d ->> 'versions' AS versions, d ->> 'kind' AS kind
FROM unnest('{one,old,young,seen}'::text[]) AS name, LATERAL (SELECT iblt_internal.describe(name::regclass)) AS x(d);

-- a parent whose key does not cover its children, and a view
INSERT INTO one VALUES (1, 'a');
INSERT INTO old VALUES (1, 'a');
INSERT INTO young VALUES (1, 'b');
SELECT key, side, here_count, there_count FROM iblt_compare('old', NULL, 'one');
SELECT key, side, here_count, there_count FROM iblt_compare('one', NULL, 'old', key_columns => '{id}');
SELECT count(*) FROM iblt_compare('one', NULL, 'seen');

-- types in which both sides are compared
CREATE TABLE types_here (id int PRIMARY KEY, a smallint, b int, c float4, d text, e date, f numeric(8,2));
CREATE TABLE types_there (id int PRIMARY KEY, a bigint, b numeric, c float8, d varchar(9), e timestamp, f numeric(9,3));
SELECT c.name, c.cast_to AS "cast" FROM plan_of('types_here', 'types_there') AS p, unnest(p.columns) AS c;
INSERT INTO types_here VALUES (1, 1, 2, 0.5, 'x', NULL, 1.50), (2, -1, 2, 1, 'x', NULL, 7);
INSERT INTO types_there VALUES (1, 1, 2.000, 0.5, 'x', NULL, 1.500), (2, 5000000000, 2.0001, 1, 'x', NULL, 7);
SELECT key, side, here, there FROM iblt_compare('types_here', NULL, 'types_there', cast_types => true, rows => true);
SELECT pg_temp.refusal($$SELECT * FROM iblt_compare('types_here', NULL, 'types_there')$$);

-- columns
CALL pg_temp.pair('more', 'id int PRIMARY KEY, v text, gone int, mine int', NULL, NULL, 'id int PRIMARY KEY, theirs int, gone int, v text');
ALTER TABLE more DROP gone;
ALTER TABLE more_there DROP gone;
INSERT INTO more VALUES (1, 'a', 1), (2, 'b', 2);
INSERT INTO more_there VALUES (1, 1, 'a'), (2, 2, 'c');
SELECT pg_temp.refusal(format($$SELECT * FROM iblt_compare('more', NULL, 'more_there', %s)$$, options)), options
FROM unnest(ARRAY[$$extra_columns => 'error'$$, $$extra_columns => 'error', exclude => '{mine,theirs}'$$, $$columns => '{mine}'$$, $$columns => '{theirs}'$$, $$key_columns => '{theirs}'$$,
	$$exclude => '{nobody}'$$, $$columns => '{v}', exclude => '{v}'$$, $$exclude => '{id,v}', extra_columns => 'ignore'$$, $$max_differences => 0$$, $$max_differences => NULL$$,
	$$recheck => -1$$, $$timeout => '-1 s'$$, $$extra_columns => 'never'$$, $$columns => '{}'$$, $$rows => NULL$$, $$max_differences => 1, extra_columns => 'ignore'$$]) AS options;
SELECT key, side FROM iblt_compare('more', NULL, 'more_there', extra_columns => 'ignore');
SELECT count(*) FROM iblt_compare('more', NULL, 'more_there', extra_columns => 'ignore', exclude => '{v}');
SELECT pg_temp.refusal($$SELECT * FROM iblt_compare('more', NULL, 'plans.more')$$), pg_temp.refusal($$SELECT * FROM iblt_compare('more', NULL, 'a.b.c')$$), pg_temp.refusal($$SELECT * FROM iblt_compare('more', NULL, 'nothing')$$);

-- conditions: in parentheses, with a comment, of each side alone
SELECT key, side FROM iblt_compare('more', NULL, 'more_there', extra_columns => 'ignore', condition => 'id = 1 OR id = 2 -- both');
SELECT key, side FROM iblt_compare('more', NULL, 'more_there', extra_columns => 'ignore', condition => 'id = 1', peer_condition => 'id < 3') ORDER BY key::text;
SELECT key, side FROM iblt_compare('more', NULL, 'more_there', extra_columns => 'ignore', peer_condition => 'id = 1 OR false');
SELECT count(*) FROM iblt_compare('more', NULL, 'more_there', extra_columns => 'ignore', condition => 'v = ''c'' OR v = ''a''', peer_condition => 'v = ''a''');

-- the columns of a condition for plain queries, and of one on a relation that is gone
SELECT (iblt_internal.iblt_compare_check_expression('more', 'v = ''a'' AND id < 3', true, true)).columns, iblt_internal.iblt_compare_check_expression(1::regclass, 'true', true, true) AS gone;
CALL pg_temp.pair('several', 'id int PRIMARY KEY, v int', 'SELECT i, i FROM generate_series(1, 4) i', 'SELECT i, -i FROM generate_series(1, 4) i');
SELECT key, side FROM iblt_compare('several', NULL, 'several_there', condition => 'id = 2 OR id = 3 OR id = 4') ORDER BY key::text;

-- figures of a comparison that has not finished are not shown
SELECT (iblt_compare_stats()).relation;
SELECT pg_temp.refusal($$SELECT * FROM iblt_compare('several', NULL, 'several_there', max_differences => 1)$$);
SELECT (iblt_compare_stats()).relation;
SELECT count(*) FROM iblt_compare('one', NULL, 'one', peer_condition => 'true');
SELECT (iblt_compare_stats()).relation;

-- types without a send function, alone and in others
CREATE TYPE mute;
CREATE FUNCTION mute_in(cstring) RETURNS mute LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION mute_out(mute) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE mute (INPUT = mute_in, OUTPUT = mute_out, LIKE = int4);
CREATE TYPE holds AS (m mute, n int);
CREATE TYPE holds_last AS (gone int, n int, m mute);
ALTER TYPE holds_last DROP ATTRIBUTE gone;
CREATE DOMAIN muted AS mute;
SELECT type, d -> 'textual' AS textual, d ->> 'parts' AS parts FROM unnest('{mute,mute[],holds,holds[],holds_last,muted,int4}'::text[]) AS type, LATERAL iblt_describe_type(type::regtype, -1) AS d;

-- What is described in C, a second way.
-- (autovacuum may change a relation's size meanwhile)
CREATE TEMPORARY TABLE described AS SELECT c.oid, c.relkind, size, d FROM pg_class c, LATERAL (SELECT CASE WHEN relkind IN ('r', 'm', 't') THEN pg_relation_size(c.oid) END AS size OFFSET 0) AS s, iblt_internal.describe(c.oid) AS d WHERE relkind <> 'i';
SELECT oid::regclass FROM described WHERE d -> 'columns' <> (SELECT coalesce(jsonb_agg(jsonb_build_object('name', attname, 'type', format_type(atttypid,
		CASE WHEN atttypid IN ('char(1)'::regtype, 'bit'::regtype, 'numeric'::regtype) THEN atttypmod ELSE -1 END),
		'base', CASE WHEN typtype = 'd' THEN typbasetype ELSE atttypid END::bigint, 'not_null', attnotnull)
		|| (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(d -> 'columns' -> (n - 1)::int) WHERE key IN ('textual', 'parts')) ORDER BY n), '[]')
	FROM (SELECT *, row_number() OVER (ORDER BY attnum) AS n FROM pg_attribute WHERE attrelid = described.oid AND attnum > 0 AND NOT attisdropped) AS a JOIN pg_type t ON t.oid = atttypid);
SELECT oid::regclass FROM described WHERE (d -> 'keys') IS DISTINCT FROM (SELECT coalesce(jsonb_agg(jsonb_build_object('columns', columns) || iblt_internal.describe_order(indexrelid)
		ORDER BY indisprimary DESC, cardinality(columns), indexrelid), '[]')
	FROM pg_index i, LATERAL (SELECT array_agg(attname::text ORDER BY n) AS columns, bool_and(attnotnull) AS not_null FROM unnest(indkey) WITH ORDINALITY AS k(attnum, n)
		JOIN pg_attribute a ON attrelid = indrelid AND a.attnum = k.attnum WHERE n <= indnkeyatts) AS k
	WHERE indrelid = described.oid AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL AND not_null AND pg_get_indexdef(indexrelid) LIKE '% USING btree %');
SELECT oid::regclass FROM described WHERE relkind IN ('r', 'm', 't') AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent = oid)
	AND ((d ->> 'most_rows')::bigint BETWEEN SYMMETRIC size / 28 AND pg_relation_size(oid) / 28) IS NOT TRUE OR (relkind IN ('r', 'm', 't', 'p')) <> (d ->> 'versions')::boolean;
SELECT count(*) > 100 AS many, count(*) FILTER (WHERE d -> 'keys' <> '[]') > 50 AS with_keys FROM described;

DROP SCHEMA plans CASCADE;
