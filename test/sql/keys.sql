-- Which keys are decoded: those of types of pg_catalog.  Keys of other types are shown as
-- bytes, so decoding runs nobody's code.
\i test/sql/common.psql
CREATE SCHEMA keys_test;
SET search_path = keys_test, public;
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';

--
-- A description runs nobody's code: a check that runs says so.
--
CREATE FUNCTION spy(anyelement) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE 'the check runs';
	RETURN true;
END $$;
CREATE DOMAIN watched AS int CHECK (spy(VALUE));
CREATE TYPE watched_row AS (a watched, b watched[]);
CREATE TYPE watched_range AS RANGE (subtype = watched);
CREATE TYPE watched_row_range AS RANGE (subtype = watched_row);
SET client_min_messages = warning;
CREATE TEMP TABLE foreign_keys AS SELECT
	iblt_agg(watched_range(1::watched, 5::watched), 0) AS domain,
	iblt_agg(ROW(ROW(1, watched_range(1::watched, 5::watched))), 0, iblt_new(key_size => 64)) AS nested,
	iblt_agg(watched_row_range(ROW(1, '{2,3}')::watched_row, NULL), 0, iblt_new(key_size => 64)) AS row,
	iblt_agg(1::watched, 0) AS plain,
	iblt_agg(ROW(1::watched, ARRAY[2::watched]), 0) AS columns
FROM generate_series(1, 1);
RESET client_min_messages;
SELECT key FROM foreign_keys, iblt_decode(domain);
SELECT key FROM foreign_keys, iblt_decode(nested);
SELECT key FROM foreign_keys, iblt_decode(nested, NULL::record[]);
SELECT key FROM foreign_keys, iblt_decode(row);
SELECT key FROM foreign_keys, iblt_decode(plain);
SELECT key FROM foreign_keys, iblt_decode(columns);
SELECT key FROM foreign_keys, iblt_decode(columns, NULL::record);
DO $$
DECLARE
	found text;
BEGIN
	IF current_setting('server_version_num')::int >= 140000 THEN
		SET LOCAL client_min_messages = warning;
		CREATE TEMP TABLE several AS SELECT iblt_agg(watched_multirange(watched_range(1::watched, 5::watched)), 0) AS s;
		SET LOCAL client_min_messages = notice;
		SELECT key INTO STRICT found FROM several, iblt_decode(s);
		ASSERT found LIKE '\\x%';
	END IF;
END $$;
-- nor the functions of a range
CREATE FUNCTION compare(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT btint4cmp($2, $1)';
CREATE OPERATOR CLASS backwards FOR TYPE int USING btree AS
	OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 compare(int, int);
CREATE TYPE backwards_range AS RANGE (subtype = int, subtype_opclass = backwards);
SELECT key FROM iblt_decode((SELECT iblt_agg(backwards_range(5, 1), 0)));
SELECT key FROM iblt_decode((SELECT iblt_agg(ARRAY[backwards_range(5, 1)], 0)));
-- some trusted languages let anybody make a canonical function
CREATE TYPE canonical_range AS RANGE (subtype = int);
CREATE FUNCTION canonical(canonical_range) RETURNS canonical_range LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RAISE NOTICE 'the canonical function runs';
	RETURN $1;
END $$;
UPDATE pg_range SET rngcanonical = 'canonical'::regproc WHERE rngtypid = 'canonical_range'::regtype;
SELECT iblt_agg(canonical_range(1, 5), 0) AS s \gset
SELECT key FROM iblt_decode(:'s'::iblt);
UPDATE pg_range SET rngcanonical = 0 WHERE rngtypid = 'canonical_range'::regtype;
SELECT key FROM iblt_decode((SELECT iblt_agg(int4range(1, 5), 0)));

--
-- Types that can be asked for.
--
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (x int, y text);
CREATE TYPE mood AS ENUM ('sad', 'so so', 'happy');
CREATE TYPE moody AS (id int, m mood);
CREATE TYPE mood_range AS RANGE (subtype = mood);
SELECT * FROM pg_temp.refusals('key FROM iblt_decode((SELECT iblt_agg(%s)', '1, 0)), NULL::positive', 'ARRAY[1], 0)), NULL::positive[]',
	$$ROW(1, 'a'::text), 0)), NULL::pair$$, $$'sad'::mood, 0)), NULL::mood$$);
-- keys of a domain, as keys of the base type, and rows as text that can be cast
SELECT key, pg_typeof(key) FROM iblt_decode((SELECT iblt_agg(7::positive, 0)), NULL::int);
SELECT (key::pair).y FROM iblt_decode((SELECT iblt_agg(ROW(1, 'a'), 0)));

--
-- Types of other schemas, perhaps within others, are shown as bytes.
--
CREATE TEMP TABLE moods AS SELECT
	iblt_agg(m, 0) AS one,
	iblt_agg(ROW(1, m), 0) AS row,
	iblt_agg(ARRAY[m, NULL], 0) AS list,
	iblt_agg(ROW(1, ARRAY[ROW(2, m)::moody]), 0, iblt_new(key_size => 64)) AS nested,
	iblt_agg(mood_range(m, m, '[]'), 0) AS range
FROM unnest(enum_range(NULL::mood)) m WHERE m <> 'happy';
SELECT * FROM (SELECT 'one' AS what, key FROM moods, iblt_decode(one) UNION ALL SELECT 'row', key FROM moods, iblt_decode(row)
	UNION ALL SELECT 'list', key FROM moods, iblt_decode(list) UNION ALL SELECT 'nested', key FROM moods, iblt_decode(nested)
	UNION ALL SELECT 'range', key FROM moods, iblt_decode(range)) AS x ORDER BY what, key COLLATE "C";
SELECT key FROM moods, iblt_decode(row, NULL::record);
-- the same bytes where the type is not, and whatever the size of a key; no zeros behind them
ALTER TYPE mood RENAME TO moods_of_others;
SELECT key FROM moods, iblt_decode(one) ORDER BY key COLLATE "C";
SELECT key FROM iblt_decode((SELECT iblt_agg(ROW('sad'::moods_of_others, NULL::int), 0, iblt_new(key_size => 128))));
-- the rows of such keys
SELECT m, status FROM moods, unnest(enum_range(NULL::moods_of_others)) AS m, iblt_get((SELECT iblt_agg(m, 0) FROM unnest('{sad,so so}'::moods_of_others[]) AS m), m);

--
-- Records of unknown columns, and keys of another kind than a record.
--
SELECT * FROM pg_temp.refusals('%s', $$key FROM iblt_decode((SELECT iblt_agg('a'::text, 0)), NULL::record)$$,
	'key FROM iblt_decode((SELECT iblt_agg(1, 0)), NULL::record)', 'key FROM iblt_decode((SELECT iblt_agg(1, 0) WHERE false), NULL::record)',
	'key FROM iblt_decode((SELECT iblt_agg(x::text, 0) FROM generate_series(1, 0) x), NULL::record)',
	$$key FROM iblt_decode((SELECT iblt_agg(ROW(1, 'a'::text), 0)), NULL::record[])$$, 'iblt_agg(ROW(1, NULL::record), 0)',
	'iblt_insert(iblt_new(), ROW(1, NULL::record), 0)');
SELECT key FROM iblt_decode((SELECT iblt_agg(ROW(1, NULL::pair), 0)));
SELECT key FROM iblt_decode((SELECT iblt_agg(ROW(1, ROW(2, 'a'::text)), 0)));
-- without a key nothing is wrong yet, and the sketch goes with any
SELECT (iblt_info(iblt_agg(ROW(i, NULL::record), 0))).key_type FROM generate_series(1, 0) i;
SELECT key FROM iblt_decode((SELECT iblt_agg(ROW(i, ROW(2, 3)), 0) FROM generate_series(1, 1) i)
	- (SELECT iblt_agg(ROW(i, ROW(2, 3)), 0) FROM generate_series(1, 0) i));

--
-- Arrays of domains over arrays have no name that a description could say.
--
CREATE DOMAIN words AS text[];
CREATE DOMAIN vector AS int2vector;
SELECT iblt_agg(ARRAY['{a}'::words], 0);
SELECT iblt_agg(ROW(1, ARRAY['{a}'::words]), 0);
SELECT iblt_checksum(ARRAY['{a}'::words]) IS NOT NULL AS has_checksum;
SELECT key FROM iblt_decode((SELECT iblt_agg('{a}'::words, 0)));
SELECT key FROM iblt_decode((SELECT iblt_agg(ARRAY['1 2'::vector], 0)));

--
-- A name that must be quoted.
--
CREATE TYPE "A ""type" AS ENUM ('x');
SELECT (iblt_info(iblt_agg('x'::"A ""type", 0))).key_type;

SET client_min_messages = warning;
DROP SCHEMA keys_test CASCADE;
RESET client_min_messages;
