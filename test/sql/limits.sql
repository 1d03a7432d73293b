-- What a sketch cannot keep or tell, and says so: keys that no description fits,
-- counts that would overflow, header and cells that contradict each other.
\i test/sql/common.psql
CREATE SCHEMA limits_test;
SET search_path = limits_test, public;

--
-- The description of a key's type has one entry for all elements of an array, and
-- records in it may have different columns.
--
SELECT * FROM pg_temp.refusals('%s', $$iblt_agg(ARRAY[ROW(1, 'a'), ROW(1.5, 2, 3)], 0, iblt_new(key_size => 64))$$,
	'iblt_agg(ROW(7, ARRAY[ROW(1)]), 0)', 'iblt_agg(ROW(ROW(ARRAY[NULL::record])), 0)', $$iblt_agg('{}'::record[], 0)$$,
	'iblt_agg(1, ARRAY[ROW(1)], iblt_new(with_values => true))', 'iblt_strata_agg(ARRAY[ROW(1)], 0)', 'iblt_insert(iblt_new(), ARRAY[ROW(1)], 0)',
	'iblt_get(iblt_new(), ARRAY[ROW(1)])', 'iblt_strata_insert(iblt_strata_new(), ARRAY[ROW(1)], 0)');
-- those of a named type have the same
CREATE TYPE pair AS (x int, y text);
CREATE TEMP VIEW pairs AS SELECT iblt_agg(ARRAY[ROW(1, 'a')::pair, NULL], 0, iblt_new(key_size => 64)) AS s;
SELECT key FROM pairs, iblt_decode(s);
SELECT key, pg_typeof(key) FROM pairs, iblt_decode(s, NULL::record[]);
SELECT key FROM pairs, iblt_decode(s, NULL::record);
-- checksums tell arrays of records apart
SELECT count(DISTINCT iblt_checksum(a)) FROM (VALUES (ARRAY[ROW(1, 'a'), ROW(1.5, 2, 3)]), (ARRAY[ROW(1.5, 2, 3), ROW(1, 'a')]),
	(ARRAY[ROW(1), ROW(date '2000-01-02')]), (ARRAY[ROW(1), ROW(1)])) v(a);

--
-- The longest and deepest descriptions that can be read back, and one beyond.
--
-- a row of n rows in each other, the innermost of a bigint
CREATE FUNCTION nested(n int) RETURNS text LANGUAGE sql AS $$ SELECT repeat('ROW(', n) || '7::bigint' || repeat(')', n) $$;
-- a row of n columns of numeric, each of which takes 8 bytes of description, and one of another type
CREATE FUNCTION wide(n int, other text) RETURNS text LANGUAGE sql AS $$ SELECT format('ROW(%sNULL::%s)', repeat('NULL::numeric,', n), other) $$;
SELECT what, pg_temp.outcome(format('SELECT (count(*), min(length((iblt_info(s)).key_type)), bool_and(key = %1$s))'
	' FROM (SELECT iblt_agg(%1$s, 0, iblt_new(key_size => 4096))) x(s), iblt_decode(s, NULL::record)', expression)) AS keys_bytes_same
FROM (VALUES ('63 rows in each other', nested(63)), ('64', nested(64)), ('200', nested(200)), ('1023 numerics and a float8', wide(1023, 'float8')), ('1024 numerics', wide(1023, 'numeric')),
	('1664', wide(1663, 'numeric')), ('as many columns as a row can have', format('ROW(%sNULL::oid)', repeat('NULL::oid,', 1663)))) AS v(what, expression);
-- wherever a key comes in, and at once
SELECT call, pg_temp.refusal('SELECT ' || format(call, nested(64))) AS deep, pg_temp.refusal('SELECT ' || format(call, wide(1663, 'numeric'))) AS wide
FROM unnest(ARRAY['iblt_agg(%s, 0)', 'iblt_strata_agg(%s, 0)', 'iblt_insert(iblt_new(), %s, 0)', 'iblt_delete(iblt_new(), %s, 0)',
	'iblt_get(iblt_new(), %s)', 'iblt_strata_insert(iblt_strata_new(), %s, 0)', 'iblt_strata_delete(iblt_strata_new(), %s, 0)']) AS call;
-- what is too deep or too wide for a key has a checksum
DO $$
BEGIN
	EXECUTE format('SELECT iblt_checksum(%s, %s)', nested(200), wide(1663, 'numeric'));
END $$;
-- a type whose name no description can hold
CREATE TYPE "two
lines" AS ENUM ('a');
SELECT iblt_agg('a'::"two
lines", 0);
SELECT iblt_strata_agg('a'::"two
lines", 0);

--
-- Counts that do not fit: an error, where a sum modulo 2^32 could look like "equal".
--
-- two keys 2^32 times on opposite sides would read as counts of 0 and the rows add up
SELECT pg_temp.refusal('SELECT pg_temp.doubled(iblt_insert(iblt_delete(iblt_new(), 2, 0), 1, 0), 32)');
CREATE TEMP TABLE counted AS SELECT
	pg_temp.doubled(iblt_insert(iblt_new(), 1, 0), 30) AS large,
	pg_temp.doubled(iblt_delete(iblt_new(), 1, 0), 31) AS least,
	pg_temp.doubled(iblt_strata_insert(iblt_strata_new(), 1, 0), 30) AS large_strata,
	pg_temp.doubled(iblt_strata_delete(iblt_strata_new(), 1, 0), 31) AS least_strata;
ALTER TABLE counted ADD most iblt, ADD most_strata iblt_strata;
UPDATE counted SET most = iblt_delete(large, 1, 0) + large, most_strata = iblt_strata_delete(large_strata, 1, 0) + large_strata;
SELECT d.* FROM counted, iblt_decode(most) d;
SELECT d.* FROM counted, iblt_decode(least) d;
SELECT d.* FROM counted, iblt_decode(large - large) d;
SELECT * FROM pg_temp.refusals('%s', 'large + large FROM counted', 'large - (- large) FROM counted', '- least FROM counted',
	'least - large FROM counted', 'iblt_sum(s) FROM counted, LATERAL (VALUES (large), (large)) v(s)', 'iblt_insert(most, 1, 0) FROM counted',
	'iblt_delete(least, 1, 0) FROM counted');
SELECT (iblt_info(iblt_delete(most, 1, 0))).rows FROM counted;
SELECT * FROM pg_temp.refusals('%s', 'large_strata + large_strata FROM counted', 'large_strata - (- large_strata) FROM counted',
	'- least_strata FROM counted', 'iblt_strata_insert(most_strata, 1, 0) FROM counted', 'iblt_strata_delete(least_strata, 1, 0) FROM counted',
	'least_strata - large_strata FROM counted');
SELECT iblt_strata_estimate(most_strata), iblt_strata_estimate(least_strata) FROM counted;
SELECT iblt_strata_estimate(least_strata, large_strata) FROM counted;

--
-- Header and cells that contradict each other: decoding refuses such a value.  This
-- is a sketch of the keys 7 and 8 whose header says 3 rows.
--
CREATE TEMP TABLE contradiction AS SELECT ('SUJMVAEDBwABAAEAAQAAAAEAAAAAAAAAAw' || repeat('A', 185) || 'B' || repeat('A', 306) || 'E' || repeat('A', 210)
	|| 'gAAAMV0ahKG2nazpEex8z7k9mYq8Tph29KD7wIAAADFdGoShtp2s6RHsfM+5PZmKvE6YdvSg+8CAAAAxXRqEobadrOkR7HzPuT2ZirxOmHb0oPvP9LBskNZJKM=')::iblt AS s;
SELECT count(*) FROM iblt_decode((SELECT s FROM contradiction), allow_partial => true);
SELECT * FROM iblt_decode_status((SELECT s FROM contradiction));

SET client_min_messages = warning;
DROP SCHEMA limits_test CASCADE;
RESET client_min_messages;
