-- Decoding: keys of all kinds come back, on the right side, with their count.
\i test/sql/common.psql

-- missing, extra and changed rows told apart
CREATE TEMP TABLE a AS SELECT i AS id, 'row ' || i AS t FROM generate_series(1, 1000) i;
CREATE TEMP TABLE b AS TABLE a;
DELETE FROM b WHERE id IN (10, 20);
INSERT INTO b VALUES (-1, 'new'), (2000000000, 'new');
UPDATE b SET t = t || ' ' WHERE id IN (30, 40, 50);
CREATE TEMP TABLE d AS
SELECT (SELECT iblt_agg(id, iblt_checksum(a.*)) FROM a) - (SELECT iblt_agg(id, iblt_checksum(b.*)) FROM b) AS s;
SELECT x.* FROM d, iblt_decode(s) x ORDER BY key COLLATE "C";
SELECT x.*, pg_typeof(key) FROM d, iblt_decode(s, NULL::int) x ORDER BY key;
SELECT pg_typeof(key), count(*) FROM d, iblt_decode(s, NULL::bigint) GROUP BY 1;
SELECT x.* FROM d, iblt_decode_status(s) x;
SELECT x.* FROM d, iblt_decode(- s, NULL::int) x WHERE side <> 'both' ORDER BY key;
-- a key beyond the type asked for
SELECT x.* FROM d, iblt_decode(s, NULL::smallint) x;
-- another type of key than the sketch has
SELECT x.* FROM d, iblt_decode(s, NULL::text) x;
SELECT x.* FROM d, iblt_decode(s, NULL::uuid) x;

-- no difference
SELECT count(*) FROM (SELECT iblt_agg(id, 1) FROM a) x(s), iblt_decode(s - s);
SELECT x.* FROM d, iblt_decode_status(s - s) x;
-- a template has no rows
SELECT * FROM iblt_decode(iblt_new());
SELECT * FROM iblt_decode(iblt_new(), NULL::text);
SELECT * FROM iblt_decode_status(iblt_new());
-- what is not there is not equal
SELECT * FROM pg_temp.refusals('%s', '* FROM iblt_decode(NULL)', '* FROM iblt_decode(NULL, NULL::int)', '* FROM iblt_decode_status(NULL)',
	'* FROM iblt_decode((SELECT s - NULL FROM d))', '* FROM iblt_info(NULL)', '* FROM iblt_decode(iblt_new(), allow_partial => NULL)');

-- too small: an error with its own SQLSTATE, with what to do
SELECT y.* FROM (SELECT iblt_agg(id, 1, 10) FROM a) x(s), iblt_decode(s) y;
SELECT complete, recovered < 1000 AS not_all, rows_estimated BETWEEN 600 AND 1400 AS near,
	   recommended_capacity BETWEEN 1000 AND 2000 AS enough
FROM (SELECT iblt_agg(id, 1, 10) FROM a) x(s), iblt_decode_status(s);
-- the capacity it recommends does it
SELECT count(*) FROM (
	SELECT iblt_agg(id, 1, (SELECT recommended_capacity
							FROM (SELECT iblt_agg(id, 1, 10) FROM a) x(s), iblt_decode_status(s)))
	FROM a) x(s), iblt_decode(s);
-- a changed row is one key, and takes a capacity of one
SELECT recommended_capacity BETWEEN 1000 AND 1700 AS enough, rows_estimated BETWEEN 1500 AND 2500 AS rows
FROM (SELECT iblt_agg(id, 1, 10) - iblt_agg(id, 2, 10) FROM a) x(s), iblt_decode_status(s);
SELECT count(*) FROM (
	SELECT iblt_agg(id, 1, n) - iblt_agg(id, 2, n)
	FROM a, (SELECT recommended_capacity FROM (SELECT iblt_agg(id, 1, 10) - iblt_agg(id, 2, 10) FROM a) x(s), iblt_decode_status(s)) c(n)) x(s),
	iblt_decode(s);
-- part of the keys, on demand and not without a warning; each is right
SELECT count(*) > 0 AS some, bool_and(key BETWEEN 1 AND 160 AND side = 'left' AND count = 1) AS right
FROM (SELECT iblt_agg(id, 1, 40) FROM a WHERE id <= 160) x(s), iblt_decode(s, NULL::int, allow_partial => true);
DO $$
BEGIN
	PERFORM * FROM iblt_decode((SELECT iblt_agg(id, 1, 10) FROM a));
EXCEPTION WHEN SQLSTATE 'IB001' THEN
	RAISE NOTICE 'caught by its SQLSTATE';
END $$;

-- keys of all kinds, as text and as their own type
CREATE FUNCTION pg_temp.there_and_back(key_type text, literal text) RETURNS TABLE (typename text, key text, same boolean)
LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format(
		'SELECT %L::text, t.key, y.key::text = %L::%s::text
		 FROM (SELECT iblt_agg(%2$L::%3$s, 5, iblt_new(key_size => 64))) x(s),
			  iblt_decode(s) t, iblt_decode(s, key_type => NULL::%3$s) y', key_type, literal, key_type);
END $$;
SET DateStyle = 'ISO, MDY'; SET TimeZone = 'UTC'; SET IntervalStyle = 'postgres';
SELECT x.* FROM (VALUES
	('smallint', '-32768'), ('integer', '-1'), ('bigint', '-9223372036854775808'),
	('bigint', '9223372036854775807'), ('uuid', '00112233-4455-6677-8899-aabbccddeeff'),
	('text', ''), ('text', 'Ünïcödé'), ('varchar(10)', 'abc'), ('char(5)', 'abc'), ('name', 'abc'),
	('bytea', '\x00ff'), ('boolean', 'true'), ('numeric', '1.500'), ('numeric', 'NaN'),
	('real', '1.5'), ('double precision', '-0'), ('date', '2026-11-21'), ('date', 'infinity'),
	('timestamp', '2026-11-21 12:34:56.789'), ('timestamptz', '2026-11-21 12:34:56+02'),
	('time', '12:34:56'), ('timetz', '12:34:56+02'), ('interval', '1 year -2 days 03:04:05'),
	('inet', '192.168.1.0/24'), ('macaddr', '08:00:2b:01:02:03'), ('"char"', 'x'), ('oid', '4000000000'),
	('money', '12.34'), ('bit(5)', '10101'), ('varbit', '101'), ('point', '(1,2)'),
	('path', '((0,1),(2,3))'), ('path', '[(0,1)]'), ('polygon', '((0,1),(2,3))'), ('box', '(3,4),(1,2)'), ('lseg', '[(1,2),(3,4)]'), ('line', '{1,2,3}'), ('circle', '<(1,2),3>'),
	('tsvector', '''a'':1A ''b'''), ('tsquery', '''a'' & !''b'''), ('xid8', '5'), ('pg_lsn', '16/B374D848'),
	('json', '{"a" : 1}'), ('jsonb', '{"b":2,"a":[1,null]}'), ('int[]', '{1,2,NULL}'), ('int[]', '[0:1]={1,2}'),
	('text[]', '{{a,b},{c,d}}'), ('int4range', '[1,5)'), ('tstzrange', '(,)'),
	('regclass', 'pg_class')) v(t, l),
	pg_temp.there_and_back(t, l) x;
-- which names are quoted in the description of a type
CREATE SCHEMA odd;
CREATE FUNCTION pg_temp.described(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	description text;
BEGIN
	EXECUTE format('CREATE TYPE odd.%I AS ENUM (''x'')', name);
	EXECUTE format('SELECT (iblt_info(iblt_agg(''x''::odd.%I, 1))).key_type', name) INTO description;
	RETURN description;
END $$;
SELECT string_agg(pg_temp.described(name), ' ' ORDER BY n) AS described FROM unnest('{az,a09,a_,_a,0a,9a,A,Z,aZ,a`b,"a{b",a/b,a:b,a@b,a[b}'::text[]) WITH ORDINALITY AS x(name, n);
SET client_min_messages = warning;
DROP SCHEMA odd CASCADE;
RESET client_min_messages;
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 140000 THEN
		ASSERT (SELECT key = '{[1,2),[5,6)}' AND same FROM pg_temp.there_and_back('int4multirange', '{[1,2),[5,6)}'));
	END IF;
END $$;

-- rows as keys
SELECT y.* FROM (SELECT iblt_agg(ROW(1, 'a'::text, NULL::date), 5)) x(s), iblt_decode(s) y;
SELECT key, pg_typeof(key) FROM (SELECT iblt_agg(ROW(1, 'a'::text), 5)) x(s), iblt_decode(s, NULL::record);

-- no primary key: the whole row is the key, and duplicates have their count
CREATE TEMP TABLE log_a (at date, what text);
INSERT INTO log_a VALUES ('2026-01-01', 'x'), ('2026-01-01', 'x'), ('2026-01-01', 'x'), ('2026-01-02', NULL), (NULL, 'z');
CREATE TEMP TABLE log_b AS TABLE log_a;
INSERT INTO log_b VALUES ('2026-01-01', 'x'), ('2026-01-01', 'x'), ('2026-01-03', 'y');
DELETE FROM log_b WHERE what IS NULL;
SELECT x.* FROM iblt_decode((SELECT iblt_agg(log_a, 0) FROM log_a) - (SELECT iblt_agg(log_b, 0) FROM log_b)) x
ORDER BY key;

-- the same row 2, 3, 4 and 8 times on one side
SELECT x.* FROM iblt_decode((SELECT iblt_agg(n, n * 7) FROM unnest(ARRAY[2, 3, 4, 8]) n, generate_series(1, n))) x ORDER BY count;
-- the same row more than once on both
SELECT x.* FROM iblt_decode((SELECT iblt_agg(n, 7) FROM unnest(ARRAY[2, 3, 4, 8]) n, generate_series(1, n))
						  - (SELECT iblt_agg(n, 7) FROM unnest(ARRAY[2, 3, 4, 8]) n, generate_series(1, 4))) x ORDER BY count, key;

-- keys that are too long, or not of the sketch's type
SELECT iblt_agg(repeat('x', 32), 1);
SELECT (iblt_info(iblt_agg(repeat('x', 31), 1))).key_size;
SELECT * FROM pg_temp.refusals('%s', $$iblt_agg(repeat('x', 5000), 1, iblt_new(key_size => 4096))$$,
	$$iblt_insert(iblt_insert(iblt_new(), 1, 1), 'a'::text, 1)$$, 'iblt_insert(iblt_insert(iblt_new(), ROW(1, 2), 1), ROW(1, 2::bigint), 1)',
	$$iblt_get(iblt_insert(iblt_new(), 1, 1), 'a'::text)$$);

-- in a select list
SELECT x.key FROM d, LATERAL (SELECT (iblt_decode(s)).key FROM d LIMIT 1) x;
