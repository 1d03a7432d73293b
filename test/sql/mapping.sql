-- Columns under other names on the peer, and expressions in place of columns: iblt_compare must say what
-- it says of views that have these names and expressions.
\i test/sql/common.psql
SET client_min_messages = warning;
CREATE SCHEMA mapping;
SET search_path = mapping, public;
CREATE TYPE pair AS (x int, y text);
CREATE TABLE a (id int PRIMARY KEY, price numeric, email text, n int, p pair, ts timestamptz);
CREATE TABLE b (email_address text, item int PRIMARY KEY, "Unit ""price" numeric, p pair, n bigint, id int, ts timestamp);
INSERT INTO a SELECT i, i * 1.234, 'User' || i, nullif(i % 7, 0), ROW(i, 'y'::text)::pair, '2026-01-01 UTC'::timestamptz + i * interval '1 hour' FROM generate_series(1, 500) i;
INSERT INTO b SELECT lower(email), id, round(price, 2), p, n, 0, ts AT TIME ZONE 'UTC' FROM a;
UPDATE b SET n = 99 WHERE item = 7;
UPDATE b SET "Unit ""price" = 0 WHERE item = 8;
UPDATE b SET email_address = 'x' WHERE item = 9;
DELETE FROM b WHERE item = 10;
INSERT INTO b VALUES ('new', 1000);
CREATE VIEW a_v AS SELECT id, round(price, 2) AS price, lower(email) AS email, n::bigint AS n, p, ts AT TIME ZONE 'UTC' AS ts FROM a;
CREATE VIEW b_v AS SELECT item AS id, "Unit ""price" AS price, email_address AS email, n, p, ts FROM b;
\set names '''{"id": "item", "price": "Unit \\"price", "email": "email_address", "spare": "id"}'''
\set made '''{"price": "round(price, 2)", "email": "lower(email)", "n": "n::bigint", "ts": "ts AT TIME ZONE ''''UTC''''"}'''
SELECT * FROM iblt_compare('a', NULL, 'b', peer_columns => :names, expressions => :made, peer_expressions => '{}', exclude => '{spare}', rows => 'changed') ORDER BY key;
SELECT (iblt_compare_stats()).columns;
CREATE FUNCTION agrees(more text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	found text;
	truth text;
BEGIN
	EXECUTE format($q$SELECT string_agg(c::text, E'\n' ORDER BY key) FROM iblt_compare('a', NULL, 'b', rows => true, exclude => '{spare}',
		peer_columns => '{"id": "item", "price": "Unit \"price", "email": "email_address", "spare": "id"}', peer_expressions => '{}',
		expressions => '{"price": "round(price, 2)", "email": "lower(email)", "n": "n::bigint", "ts": "ts AT TIME ZONE ''UTC''"}' %s) AS c$q$, more) INTO found;
	EXECUTE format($q$SELECT string_agg(c::text, E'\n' ORDER BY key) FROM iblt_compare('a_v', NULL, 'b_v', rows => true %s) AS c$q$,
		CASE WHEN more LIKE '%key\_columns%' THEN '' ELSE ', key_columns => ''{id}''' END
			|| replace(replace(replace(more, 'upper(email_address)', 'upper(email)'), '"Unit ""price"', 'price'), 'round(price, 2) < 100', 'price < 100')) INTO truth;
	RETURN CASE WHEN found = truth THEN 'as the views: ' || array_length(string_to_array(found, E'\n'), 1) ELSE concat_ws(' / ', found, truth) END;
END $$;
-- only these types have their length in a comparison, and plain queries know the texts of some
SET search_path = mapping, public, iblt_internal;
SELECT c.key, c.value ->> 'type' AS type, (c.value ->> 'text')::oid::regtype AS text FROM iblt_internal.made_columns('a', '{"expressions": {"bits": "n::bit(3)", "char": "email::char(3)", "numeric": "price::numeric(10,2)", "varchar": "email::varchar(3)", "ts": "ts::timestamptz(3)", "pair": "p"}}') AS m, jsonb_each(m -> 'columns') AS c ORDER BY 1;
SET search_path = mapping, public;
SELECT agrees();
SELECT agrees(', key_columns => ''{email}''');	-- no index is on an expression
SELECT agrees(', key_columns => ''{n,id}''');
SELECT agrees(', columns => ''{n}''');
SELECT agrees(', condition => ''round(price, 2) < 100'', peer_condition => ''upper(email_address) <> ''''USER9'''' AND "Unit ""price" < 100''') ~ '^as' AS conditions_have_the_names_of_their_relation;
-- names exchanged
CREATE TABLE c (id int PRIMARY KEY, x int, y int);
CREATE TABLE d (id int PRIMARY KEY, x int, y int);
INSERT INTO c SELECT i, i, -i FROM generate_series(1, 50) i;
INSERT INTO d SELECT id, y, x FROM c;
UPDATE d SET x = 0 WHERE id = 3;
SELECT key, differs FROM iblt_compare('c', NULL, 'd', peer_columns => '{"x": "y", "y": "x"}', rows => 'columns');
SELECT differs FROM iblt_compare('c', NULL, 'd', peer_columns => '{"x": "y", "y": "x"}', rows => 'columns');
SELECT count(*) FROM iblt_compare('c', NULL, 'd', expressions => '{"x": "x + y", "y": "abs(y) + abs(x)"}');
-- with a row's version, and without a key
SELECT key, differs, confirmed FROM iblt_compare('c', NULL, 'd', peer_columns => '{"x": "y", "y": "x"}', rows => 'columns', recheck => 1, timeout => '5 s');
ALTER TABLE d DROP CONSTRAINT d_pkey;
ALTER TABLE c DROP CONSTRAINT c_pkey;
SELECT key, side FROM iblt_compare('c', NULL, 'd', peer_columns => '{"x": "y", "y": "x"}') ORDER BY side;
-- repairs change the columns of the relation's own names
CREATE TABLE target (item int PRIMARY KEY, "Unit price" numeric, made int GENERATED ALWAYS AS (item + 1) STORED);
CREATE TABLE refers (item int REFERENCES target ON DELETE CASCADE);
INSERT INTO target SELECT id, id FROM a WHERE id < 5;
INSERT INTO target VALUES (600, 1);
INSERT INTO refers VALUES (600);
CREATE TABLE source (id int PRIMARY KEY, price numeric, made int);
INSERT INTO source SELECT id, CASE id WHEN 2 THEN 22 ELSE id END, id + 1 FROM a WHERE id BETWEEN 2 AND 6;
\set names '''{"id": "item", "price": "Unit price"}'''
SELECT action, sql, status, detail FROM iblt_repair('source', NULL, 'target', direction => 'push', peer_columns => :names, "cascade" => true) ORDER BY sql;
SELECT action, key, status FROM iblt_repair('source', NULL, 'target', direction => 'push', peer_columns => :names, "cascade" => true, apply => true) ORDER BY key;
SELECT count(*) FROM iblt_compare('source', NULL, 'target', peer_columns => :names);
SELECT * FROM target ORDER BY item;
SELECT count(*) FROM refers;
UPDATE target SET "Unit price" = 7 WHERE item = 3;
SELECT sql FROM iblt_repair('source', NULL, 'target', direction => 'pull', peer_columns => :names, apply => true);
SELECT * FROM source WHERE id = 3;
-- what is referred to has a name that stands for another column
BEGIN;
ALTER TABLE target ADD former int DEFAULT 0;
ALTER TABLE source ADD item int;
INSERT INTO target VALUES (601, 1);
INSERT INTO refers VALUES (601);
UPDATE target SET "Unit price" = 0 WHERE item = 5;
SELECT action, key, detail FROM iblt_repair('source', NULL, 'target', direction => 'push', peer_columns => '{"id": "item", "price": "Unit price", "item": "former"}', exclude => '{item}');
ROLLBACK;
-- live digests are of the columns themselves
CREATE TABLE e AS TABLE c;
CREATE TABLE f AS TABLE c;
ALTER TABLE e ADD PRIMARY KEY (id);
ALTER TABLE f ADD PRIMARY KEY (id);
-- an expression in place of the key: rows have it twice, though the column is unique
BEGIN;
DELETE FROM f WHERE id = 7;
UPDATE f SET x = 0 WHERE id = 20;
SELECT key, side, here_count, there_count FROM iblt_compare('e', NULL, 'f', key_columns => '{id}', expressions => '{"id": "id / 2"}') ORDER BY key;
SELECT key, side, here_count, there_count FROM iblt_compare('e', NULL, 'f', expressions => '{"id": "id / 2"}') ORDER BY key;
ROLLBACK;
CALL iblt_track('e', capacity => 100);
CALL iblt_track('f', peer_relation => 'e', capacity => 100);
SELECT count(*) FROM iblt_compare('e', NULL, 'f', live => 'require');
SELECT count(*), (iblt_compare_stats()).live FROM iblt_compare('e', NULL, 'f', live => 'auto', expressions => '{"x": "abs(x)", "y": "y + 1"}', peer_expressions => '{}') GROUP BY 2;
\set VERBOSITY terse
SELECT count(*) FROM iblt_compare('e', NULL, 'f', live => 'require', peer_columns => '{"x": "y", "y": "x"}');
-- errors
SELECT * FROM iblt_repair('a', NULL, 'b', direction => 'push', peer_columns => '{"id": "item", "price": "email_address", "email": "Unit \"price", "spare": "id"}', exclude => '{spare,price,email,ts}', cast_types => true) LIMIT 0;
SELECT * FROM pg_temp.refusals('%s', $$* FROM iblt_repair('c', NULL, 'd', direction => 'push', peer_columns => '{"x": "y", "y": "x"}')$$,
	$$* FROM iblt_compare('a', NULL, 'b', peer_columns => '{"id": "nowhere"}')$$,
	$$* FROM iblt_compare('a', NULL, 'b', peer_columns => '{"n": "item", "id": "item"}')$$,
	$$* FROM iblt_compare('a', NULL, 'b', peer_columns => '{"n": "item"}')$$, $$* FROM iblt_compare('c', NULL, 'd', expressions => '{"xmin": "id"}')$$, $$* FROM iblt_compare('a', NULL, 'b', peer_columns => '[]')$$,
	$$* FROM iblt_compare('a', NULL, 'b', expressions => '{"n": 1}')$$, $$* FROM iblt_compare('c', NULL, 'd', expressions => '{"x": "random()"}')$$,
	$$* FROM iblt_compare('c', NULL, 'd', expressions => '{"x": "(SELECT 1)"}')$$,
	$$* FROM iblt_compare('c', NULL, 'd', expressions => '{"x": "x) FROM c; --"}')$$,
	$$* FROM iblt_compare('c', NULL, 'd', expressions => '{"x": "x, y"}')$$, $$* FROM iblt_compare('c', NULL, 'd', expressions => '{"x": "ctid"}')$$,
	$$* FROM iblt_compare('c', NULL, 'd', expressions => '{"x": "nothing"}')$$,
	$$* FROM iblt_compare('c', NULL, 'd', expressions => '{"x": "sum(x)"}')$$,
	$$* FROM iblt_compare('c', NULL, 'd', expressions => '{"x": "1 + generate_series(1, 0)"}')$$,
	$$* FROM iblt_compare('c', NULL, 'd', expressions => '{"x": "x::text"}', peer_expressions => '{}')$$);
-- the bytes of these records are the same
SELECT count(*) FROM iblt_compare('c', NULL, 'd', columns => '{id,z}', key_columns => '{id}', expressions => '{"z": "ROW(id)"}', peer_expressions => '{"z": "ROW(date ''2000-01-01'' + id)"}');
SELECT count(*) FROM iblt_compare('c', NULL, 'd', columns => '{id,z}', key_columns => '{id}', expressions => '{"z": "ARRAY[ROW(id)]"}');
-- a comment, a constant of no type, and a function of all columns
SELECT count(*) FROM iblt_compare('c', NULL, 'd', columns => '{id,z}', key_columns => '{id}', expressions => '{"z": "''one'' -- two"}');
SELECT count(*) FROM iblt_compare('c', NULL, 'd', columns => '{id,z}', key_columns => '{id}', expressions => '{"z": "t.x + t.y"}');
-- rows that are summed up on other servers
CREATE FUNCTION refused(here text, there text, own_rows text DEFAULT '') RETURNS text LANGUAGE plpgsql SET search_path = iblt_internal, mapping AS $$
BEGIN
	PERFORM checked_plan(described(describe('c') || format('{%s}', here)::jsonb, 'here'), described(describe('d') || format('{%s}', there)::jsonb, 'there'),
		('(,,,,,,,,100,none,f,ignore,0,"1 minute",1,f,,off,,sketch,f,' || own_rows || ',,)')::options);
	RETURN NULL;
EXCEPTION WHEN feature_not_supported THEN
	RETURN SQLERRM;
END $$;
SELECT here, there, refused(here, there) FROM (VALUES
	('"mapped": true', '"remote": true'), ('"mapped": true, "remote": true', '"mapped": false'), ('"mapped": true, "remote": false, "distributed": true', '"mapped": false'),
	('"mapped": false', '"mapped": true, "remote": true, "distributed": false'), ('"mapped": true, "remote": false, "distributed": false', '"mapped": true, "remote": false, "distributed": false')) AS v(here, there);
-- of a table whose children are elsewhere, but not of its own rows
SELECT own_rows, refused('"mapped": true, "remote": true, "ordinary": false', '"mapped": false', own_rows) FROM unnest('{"",always}'::text[]) AS own_rows;
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE far (z int) SERVER nowhere;
SELECT count(*) FROM iblt_compare('c', NULL, 'far', peer_columns => '{"id": "z"}', columns => '{id}');
DROP FOREIGN DATA WRAPPER nowhere CASCADE;
DROP SCHEMA mapping CASCADE;
