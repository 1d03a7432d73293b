-- Values of any type: iblt as a table from keys to values.
\i test/sql/common.psql

CREATE TABLE country (code text PRIMARY KEY, name text, area numeric, id uuid);
INSERT INTO country VALUES
	('de', 'Germany', 357592.5, md5('de')::uuid), ('fr', 'France', 643801.00, md5('fr')::uuid),
	('it', 'Italy', -0.001, md5('it')::uuid), ('xx', '', 0, md5('xx')::uuid);

-- a value of each kind comes out as it went in, as text and as its type
SELECT iblt_agg(code, name, iblt_new(20, value_size => 16)) AS names FROM country \gset
SELECT key_type, key_size, with_values, value_type, value_size, rows, bytes FROM iblt_info(:'names');
SELECT * FROM iblt_decode(:'names'::iblt) ORDER BY key;
SELECT key, value, pg_typeof(value) FROM iblt_decode(:'names'::iblt, NULL::text, NULL::text) ORDER BY key;
SELECT c.code, (iblt_get(:'names'::iblt, c.code, NULL::text)).*
FROM (SELECT code FROM country UNION ALL SELECT 'yy') c ORDER BY code;

SELECT key, value, pg_typeof(value)
FROM iblt_decode((SELECT iblt_agg(code, area, iblt_new(20, with_values => true)) FROM country),
	NULL::text, NULL::numeric) ORDER BY key;
SELECT key, value, pg_typeof(value)
FROM iblt_decode((SELECT iblt_agg(code, id, iblt_new(20, with_values => true)) FROM country),
	NULL::text, NULL::uuid) ORDER BY key;
SELECT key, value, pg_typeof(value)
FROM iblt_decode((SELECT iblt_agg(id, ROW(code, area), iblt_new(20, value_size => 24)) FROM country),
	NULL::uuid, NULL::record) ORDER BY value;
SELECT count(*), bool_and(value = c.*)
FROM iblt_decode((SELECT iblt_agg(code, c.*, iblt_new(20, value_size => 48)) FROM country c),
	NULL::text, NULL::record) JOIN country c ON code = key;
SELECT key, value
FROM iblt_decode((SELECT iblt_agg(code, ARRAY[name, NULL], iblt_new(20, value_size => 32)) FROM country),
	NULL::text, NULL::text[]) ORDER BY key;
-- a row of no value at all
SELECT key, value FROM iblt_decode(iblt_insert(iblt_new(value_size => 8), 1, ROW(NULL::text)));

-- integers are one type of value, and take 8 bytes whatever the template says
SELECT iblt_insert(iblt_new(value_size => 64), 1, 42::smallint) = iblt_insert(iblt_new(value_size => 64), 1, 42::bigint) AS same,
	value_type, value_size FROM iblt_info(iblt_insert(iblt_new(value_size => 64), 1, 42));
SELECT key, value, pg_typeof(value)
FROM iblt_decode((SELECT iblt_agg(g, g::smallint, iblt_new(20, with_values => true)) FROM generate_series(-1, 1) g),
	NULL::int, NULL::int) ORDER BY key;
SELECT * FROM iblt_decode((SELECT iblt_agg(g, g * 10, iblt_new(20, with_values => true)) FROM generate_series(1, 3) g),
	NULL::int) ORDER BY key;
SELECT * FROM iblt_get(iblt_insert(iblt_new(with_values => true), 7, 42), 7);
SELECT * FROM iblt_decode(iblt_insert(iblt_new(with_values => true), 1, 100000), NULL::int, NULL::smallint);

-- the forms of iblt_get: a boolean without a name is list
SELECT iblt_insert(iblt_new(with_values => true), 1, 42) AS i, iblt_insert(iblt_new(value_size => 8), 1, 'abc'::text) AS t,
	iblt_insert(iblt_new(value_size => 8), 1, true) AS b \gset
SELECT iblt_get(:'i', 1), iblt_get(:'i', 1, true), iblt_get(:'i', 1, list => true), iblt_get(:'i', 1, 0::smallint), iblt_get(s => :'i', key => 1, list => true);
SELECT iblt_get(:'t', 1, NULL::text), iblt_get(:'t', 1, NULL::text, true), iblt_get(:'t', 1, NULL::text, list => true), iblt_get(:'t', 1, value_type => NULL::text);
SELECT iblt_get(:'b', 1, value_type => NULL::boolean), iblt_get(:'b', 1, NULL::boolean, true), iblt_get(:'b', 1, value_type => NULL::boolean, list => true);
SELECT iblt_get(:'b', 1, NULL::boolean);
SELECT iblt_get(:'b', 1, true);
SELECT iblt_get(:'t', 1, NULL::text, NULL);
SELECT iblt_get(iblt_new(), 1, NULL::boolean, true), iblt_get(iblt_new(value_size => 8), 1, NULL::text);

-- without values, integers of any width are checksums, and nothing else is
SELECT iblt_agg(g, g, iblt_new(20)) = iblt_agg(g, g::bigint, 20) AS same,
	iblt_agg(g, g::smallint, iblt_new(20)) = iblt_agg(g, g::bigint, 20) AS small,
	iblt_agg(g::text, g, iblt_new(20)) = iblt_agg(g::text, g::bigint, 20) AS texts
FROM generate_series(1, 500) g;
SELECT * FROM pg_temp.refusals('%s', 'iblt_agg(code, name, iblt_new(20)) FROM country',
	'iblt_agg(code, area, iblt_new(20)) FROM country WHERE false', $$iblt_insert(iblt_new(), 1, 'a'::text)$$, 'iblt_delete(iblt_new(), 1, 1.5)');
-- the rest of the message is not the same in all releases
\set VERBOSITY terse
SELECT iblt_agg(code, name, 20) FROM country;
\set VERBOSITY default
SELECT * FROM iblt_decode(iblt_insert(iblt_new(), 1, 5), NULL::int, NULL::text);
SELECT * FROM iblt_get(iblt_insert(iblt_new(), 1, 5), 1, NULL::text);

-- several rows of a key: a value is shown only if it is that of all of them
WITH rows (key, value, c) AS (VALUES
	(1, 'one', 1), (1, 'one', 1), (2, 'a', 1), (2, 'c', 1), (3, 'a', 1), (3, 'b', 1), (3, 'c', 1),
	(4, 'same', 1), (4, 'other', 1), (4, 'other', -1), (5, 'gone', -1), (5, 'gone', -1),
	(6, 'old', -1), (6, 'new', 1), (7, 'x', 1), (7, 'x', 1), (7, 'y', -1), (8, '', 1), (8, '', 1)),
sketch AS (
	SELECT iblt_agg(key, value, iblt_new(20, value_size => 8)) FILTER (WHERE c = 1)
		- iblt_agg(key, value, iblt_new(20, value_size => 8)) FILTER (WHERE c = -1) AS s FROM rows)
SELECT d.*, g.status, g.count = d.count AS count, g.value IS NOT DISTINCT FROM d.value AS value
FROM sketch, iblt_decode(s, NULL::int, NULL::text) AS d, iblt_get(s, d.key, NULL::text) AS g ORDER BY d.key;

-- the type of the value belongs to the sketch
SELECT * FROM iblt_get(:'names'::iblt, 'de'::text);
SELECT * FROM iblt_get(:'names'::iblt, 'de'::text, NULL::numeric);
SELECT * FROM iblt_get(:'names'::iblt, 'yy'::text, NULL::record);
SELECT * FROM iblt_decode(:'names'::iblt, NULL::text);
SELECT * FROM iblt_decode(:'names'::iblt, NULL::text, NULL::bytea);
SELECT * FROM iblt_decode(:'names'::iblt, NULL::int, NULL::text);
SELECT iblt_insert(:'names'::iblt, 'yy'::text, 1.5);
SELECT iblt_agg(code, area, :'names'::iblt) FROM country;
SELECT iblt_agg(code, x.v, iblt_new(value_size => 40))
FROM country, LATERAL (SELECT CASE code WHEN 'de' THEN ROW(1) ELSE ROW('a'::text) END) x(v);
SELECT iblt_agg(i, CASE i WHEN 1 THEN ROW(1) ELSE ROW('a'::text) END, iblt_new(value_size => 16)) FROM generate_series(1, 2) AS i;
-- also where another group has seen the second type before
SET enable_sort = off;
SELECT part, iblt_agg(id, x.v, iblt_new(value_size => 40))
FROM (VALUES (1, 1), (2, 2), (1, 3)) t(part, id),
	LATERAL (SELECT CASE id WHEN 1 THEN ROW(1) ELSE ROW('a'::text) END) x(v) GROUP BY part;
RESET enable_sort;
SELECT :'names'::iblt - iblt_insert(iblt_new(20, value_size => 16), 'de'::text, 1);
SELECT :'names'::iblt - iblt_insert(iblt_new(20, value_size => 24), 'de'::text, 'Germany'::text);
SELECT :'names'::iblt - iblt_agg(code, 1, 20) FROM country;
SELECT :'names'::iblt - iblt_new(20, value_size => 24);
SELECT iblt_insert(iblt_new(20), 1, 5) - iblt_new(20, with_values => true);
SELECT iblt_new(20) + :'names';
SELECT iblt_new(20, with_values => true) = iblt_new(20);
SELECT :'names'::iblt - iblt_new(20, value_size => 16) = :'names' AS same,
	iblt_new(20, value_size => 16) + :'names' = :'names' AS sum;

-- limits
SELECT iblt_insert(iblt_new(value_size => 8), 1, 'seven b'::text) IS NOT NULL AS fits;
SELECT iblt_insert(iblt_new(value_size => 8), 1, 'eight by'::text);
SELECT iblt_agg(1, repeat('x', 4095), iblt_new(value_size => 4096));
SELECT iblt_agg(g, repeat('x', 4094), iblt_new(1, value_size => 4096)) IS NOT NULL AS fits FROM generate_series(1, 2) g;
SELECT * FROM pg_temp.refusals('iblt_new(%s)', 'value_size => -1', 'value_size => 4097', 'value_size => NULL');
SELECT iblt_new(10000000, value_size => 4096) IS NOT NULL AS template;
SELECT iblt_insert(iblt_new(10000000, value_size => 4096), 1, 'a'::text);
SELECT with_values, value_type, value_size FROM iblt_info(iblt_new(value_size => 33));
SELECT with_values, value_type, value_size FROM iblt_info(iblt_new(with_values => true));
SELECT * FROM pg_temp.refusals('%s', 'iblt_agg(code, NULL::text, iblt_new(value_size => 8)) FROM country',
	'iblt_agg(code, NULL::int, iblt_new(value_size => 8)) FROM country', 'iblt_agg(code, NULL::int, iblt_new()) FROM country',
	'iblt_insert(iblt_new(value_size => 8), 1, NULL::text)');

-- a column with the name of its table is not taken for the row
CREATE TABLE status (id int, status text);
INSERT INTO status VALUES (1, 'new');
SELECT iblt_agg(id, status, iblt_new(value_size => 32)) FROM status;
SELECT value FROM status, iblt_decode((SELECT iblt_agg(id, status, iblt_new(value_size => 32)) FROM status t));

CREATE TABLE pair AS SELECT g AS id, 'value ' || g AS value FROM generate_series(1, 2000) g;
SELECT iblt_sum(s) = (SELECT iblt_agg(id, value, iblt_new(50, value_size => 16)) FROM pair) AS sums
FROM (SELECT iblt_agg(id, value, iblt_new(50, value_size => 16)) FROM pair GROUP BY id % 7) part(s);
-- over no rows the types are known, too
SELECT key_type, value_type, value_size, rows
FROM iblt_info((SELECT iblt_agg(code, area, iblt_new(value_size => 8)) FROM country WHERE false));
SELECT key_type, value_type, value_size, rows
FROM iblt_info((SELECT iblt_agg(ROW(code), ROW(area, id), iblt_new(value_size => 8)) FROM country WHERE false));
SELECT key_type, value_type, value_size, rows
FROM iblt_info((SELECT iblt_agg(code, x.v, iblt_new(value_size => 8)) FROM country, LATERAL (SELECT ROW(area) WHERE random() < 2) x(v) WHERE false));

-- with room for iblt_get
SELECT hashes, cells, value_size FROM iblt_info(iblt_new(1000, get_success => 0.99, value_size => 100));
SELECT get_success > 0.98 AS success, s.bytes > 10080 * (4 + 8 * (3 + 13)) AS bytes, found > 970 AS found, right_
FROM (SELECT iblt_agg(g, repeat('x', g % 100), iblt_new(1000, get_success => 0.99, value_size => 100)) FROM generate_series(1, 1000) g) x(v), iblt_info(v) s,
	LATERAL (SELECT count(*) FILTER (WHERE status = 'present'), bool_and(status = 'unknown' OR value = repeat('x', g % 100))
		FROM generate_series(1, 1000) g, iblt_get(v, g, NULL::text)) y(found, right_);

-- text and binary, folds, and stored
CREATE TABLE kept (s iblt);
INSERT INTO kept VALUES (:'names'::iblt), ((:'names'::iblt)::bytea::iblt), (iblt_fold(:'names'::iblt, 5)), (-(- :'names'::iblt));
SELECT count(*), min(iblt_get(s, 'fr'::text, NULL::text)::text), max(iblt_get(s, 'fr'::text, NULL::text)::text) FROM kept;

-- types that need care: enum labels, domains, types of others
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN short AS text CHECK (length(value) < 4);
SELECT iblt_insert(iblt_new(value_size => 16), 1, 'glad'::mood) AS moods \gset
SELECT key, value FROM iblt_decode(:'moods'::iblt);
SELECT key, value FROM iblt_decode(:'moods'::iblt, NULL::int, NULL::mood);
SELECT value_type FROM iblt_info(iblt_insert(iblt_new(value_size => 16), 1, 'abc'::short));
SELECT value FROM iblt_get(iblt_insert(iblt_new(value_size => 16), 1, 'abc'::text), 1, NULL::short);

DROP TABLE country, status, pair, kept;
DROP TYPE mood;
DROP DOMAIN short;
