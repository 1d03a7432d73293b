-- Rows that an aggregate takes from heap pages itself (src/sketch/page.c).  The executor gives
-- all rows if there is another aggregate, so both ways are compared, of random tables.
\i test/sql/common.psql
CREATE SCHEMA page_test;
SET search_path = page_test, public;
SET parallel_setup_cost = 0;
SET min_parallel_table_scan_size = 0;

\if :{?tables} \else \set tables 40 \endif
\if :{?seed} \else \set seed 1 \endif
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN code AS varchar(10);

-- A value as text.  Some are NULL, and some so long that they are stored elsewhere.
CREATE FUNCTION random_text(type text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n int := (random() * 30000)::int - 15000;
	long text := CASE WHEN random() < 0.01 THEN (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 100))
		WHEN random() < 0.03 THEN repeat(md5(n::text), 100) ELSE left(md5(n::text), abs(n) % 33) END;
BEGIN
	RETURN CASE WHEN random() < 0.1 THEN NULL ELSE CASE type
		WHEN 'bool' THEN (n % 2 = 0)::text WHEN 'char' THEN chr(65 + abs(n) % 26) WHEN 'mood' THEN 'ok'
		WHEN 'numeric' THEN (n / 7.0 ^ (abs(n) % 9))::text WHEN 'date' THEN (date '2000-01-01' + n)::text
		WHEN 'timestamptz' THEN (now() + n * interval '1 s')::text WHEN 'uuid' THEN gen_random_uuid()::text
		WHEN 'jsonb' THEN jsonb_build_object('a', n, 'b', long)::text WHEN '_text' THEN ARRAY[long, NULL, 'x']::text
		WHEN 'int4range' THEN int4range(-n * n, n * n)::text WHEN 'pair' THEN ROW(n, long)::text
		WHEN 'inet' THEN '10.0.0.0'::inet + abs(n) || '' WHEN 'interval' THEN n || ' min'
		WHEN 'bytea' THEN '\x' || md5(long) WHEN 'bpchar' THEN left(long, 5) WHEN 'code' THEN left(long, 10)
		WHEN 'text' THEN long ELSE abs(n)::text END END;
END
$$;

-- Fills a table or a partition, with dead rows and holes among those that are there.
CREATE FUNCTION fill(t regclass, first int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE (SELECT format('INSERT INTO %s (id, %s) SELECT %s + g, %s FROM generate_series(0, %s) g', t,
		string_agg(quote_ident(attname), ', '), first,
		string_agg(format('random_text(%L)::%s', typname, format_type(atttypid, atttypmod)), ', '), (random() * 80)::int)
		FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
		WHERE attrelid = t AND attnum > 0 AND NOT attisdropped AND attname <> 'id');
	EXECUTE format('DELETE FROM %s WHERE random() < 0.1', t);
	EXECUTE format('UPDATE %s SET id = id WHERE random() < 0.1', t);
END
$$;

CREATE FUNCTION random_columns(n int) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('c%s %s', g, (ARRAY['int2', 'int4', 'int8', 'bool', '"char"', 'mood', 'numeric', 'date',
		'timestamptz', 'uuid', 'jsonb', 'text[]', 'int4range', 'pair', 'inet', 'interval', 'bytea', 'char(5)', 'code',
		'text', 'float8', 'name', 'oid'])[1 + floor(random() * 23)]), ', ' ORDER BY random()) FROM generate_series(1, n) g
$$;

CREATE FUNCTION make_table() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	columns text := random_columns(2 + (random() * 8)::int);
	parts boolean := random() < 0.3;
BEGIN
	DROP TABLE IF EXISTS t CASCADE;
	IF parts THEN
		EXECUTE format('CREATE TABLE t (id int8, %s) PARTITION BY RANGE (id)', columns);
		CREATE TABLE first PARTITION OF t FOR VALUES FROM (0) TO (1000);
		-- other columns have been there before, or the same are in another order
		EXECUTE format('CREATE TABLE last (gone text, %s, id int8)', columns);
		ALTER TABLE last DROP gone;
		ALTER TABLE t ATTACH PARTITION last FOR VALUES FROM (1000) TO (3000);
		PERFORM fill('first', 1), fill('last', 1000);
	ELSE
		EXECUTE format('CREATE TABLE t (%s)', CASE WHEN random() < 0.5 THEN 'id int8, ' || columns
			ELSE columns || ', id int8' END);
		PERFORM fill('t', 1);
	END IF;
	IF random() < 0.5 THEN
		ALTER TABLE t ADD later text DEFAULT 'later', ADD empty int;
		IF NOT parts THEN
			PERFORM fill('t', 1000);
		END IF;
	END IF;
	IF random() < 0.3 THEN
		ALTER TABLE t DROP c1;
		IF parts THEN
			PERFORM fill('first', 200);
		END IF;
	END IF;
	IF NOT parts AND random() < 0.2 THEN
		CREATE TABLE child (more int) INHERITS (t);
		PERFORM fill('child', 2000);
	END IF;
END
$$;

-- Arguments of aggregates.  The system column of the last one is not taken from pages.
CREATE TABLE call (n serial, arguments text);
INSERT INTO call (arguments) VALUES ('id, iblt_checksum(t.*), 200'), ('iblt_checksum(t.*), iblt_checksum_seeded(7, id, id), 200'),
	('ROW(id, id), iblt_checksum_seeded(5, t.*), iblt_new(200, key_size => 24)'), ('id, id'),
	('ROW(id, tableoid::oid), iblt_checksum(t.*), 200');

-- What both ways say that is not the same, and tables whose rows were not taken.  Every fifth table
-- is read by workers, too, which can leave this process no rows.
CREATE FUNCTION differences(tables int, OUT different text[]) LANGUAGE plpgsql AS $$
DECLARE
	c call;
	a record;
	b record;
BEGIN
	different := '{}';
	FOR i IN 1 .. tables LOOP
		PERFORM make_table();
		PERFORM set_config('max_parallel_workers_per_gather', (i % 5 / 4 * 2)::text, true);
		FOR c IN SELECT * FROM call LOOP
			EXECUTE format('SELECT iblt_agg(%s)::text AS s, (SELECT count(*) FROM pg_backend_memory_contexts'
				' WHERE name = ''iblt page'') AS pages FROM t', c.arguments) INTO a;
			EXECUTE format('SELECT iblt_agg(%s)::text AS s, count(*) AS rows FROM t', c.arguments) INTO b;
			IF a.s IS DISTINCT FROM b.s OR (iblt_info(a.s::iblt)).rows <> b.rows THEN
				different := different || format('%s of %s rows of table %s', c.arguments, b.rows, i);
			END IF;
			IF a.pages = 0 AND b.rows > 0 AND c.n < 5 AND i % 5 < 4 THEN
				different := different || format('%s of table %s: not taken', c.arguments, i);
			END IF;
		END LOOP;
	END LOOP;
END
$$;
SET client_min_messages = warning;
SELECT setseed(:seed / 1000.0);
SELECT different FROM differences(:tables);

-- What the scan has to evaluate is evaluated for each row, though nobody wants its value.
CREATE TABLE rows AS SELECT g AS id, g AS v FROM generate_series(1::bigint, 1000) g;
CREATE SEQUENCE calls;
SELECT (iblt_info(iblt_agg(id, v))).rows FROM (SELECT id, v, nextval('calls') FROM rows OFFSET 0) AS s;
SELECT last_value FROM calls;
-- Each row is read once by each scan of it, and by EXPLAIN ANALYZE.
SELECT (SELECT (iblt_info(iblt_agg(id, v, 10 + x))).rows FROM rows) FROM generate_series(1, 3) AS x;
CREATE FUNCTION explained(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query;
END
$$;
SET max_parallel_workers_per_gather = 0;
SELECT substring(line, 'rows=\d+') FROM explained('SELECT iblt_agg(id, v) FROM rows') AS line WHERE line ~ 'Scan';
-- A key that is NULL, in the middle of a page.
UPDATE rows SET id = NULL WHERE id = 500;
SELECT pg_temp.outcome('SELECT iblt_agg(id, v) FROM rows');
SELECT pg_temp.outcome('SELECT iblt_agg(v, id) FROM rows');
-- A function that somebody has made strict, and one whose calls are counted, are called as the
-- executor calls them.  So is a capacity that is not constant.  A condition leaves all rows to it.
CREATE FUNCTION strict_checksum(VARIADIC "any") RETURNS bigint AS '$libdir/iblt', 'iblt_checksum'
	LANGUAGE C STABLE STRICT;
SELECT pg_temp.outcome('SELECT iblt_agg(v, strict_checksum(id, v)) FROM rows');
CREATE FUNCTION capacity() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN PERFORM nextval(''calls''); RETURN 10; END';
SELECT setval('calls', 1);
SELECT (iblt_info(iblt_agg(v, v, capacity()))).rows FROM rows;
SELECT last_value FROM calls;
SET track_functions = 'all';
SELECT iblt_agg(v, iblt_checksum(v)) IS NULL AS empty,
	(SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'iblt page') AS taken FROM rows;
RESET track_functions;
SELECT iblt_agg(v, iblt_checksum(v)) IS NULL AS empty,
	(SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'iblt page') AS taken FROM rows;
SELECT (iblt_info(iblt_agg(v, iblt_checksum(v)))).rows,
	(SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'iblt page') AS taken FROM rows WHERE v <> 500;
-- A cursor gives rows of a table that changes meanwhile as its snapshot has them.
BEGIN;
DECLARE c CURSOR FOR SELECT (iblt_info(iblt_agg(v, v))).rows FROM rows;
DELETE FROM rows;
FETCH c;
ROLLBACK;
