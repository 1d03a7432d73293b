-- Cases at the edge: NULLs behind the first row, negative keys of all widths, values
-- that no door has let in, decodings that are partial, and what they recommend.
-- The numbers that depend on hashes are not shown.
\i test/sql/common.psql
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.state(query text) RETURNS text LANGUAGE sql AS $$SELECT split_part(pg_temp.refusal(query), ' ', 1)$$;

-- a NULL is an error in every row, not only in the first
SELECT pg_temp.state('SELECT iblt_agg(id, 1) FROM (VALUES (1), (2), (NULL)) v(id)') AS key,
	   pg_temp.state('SELECT iblt_agg(1, c) FROM (VALUES (1::bigint), (2), (NULL)) v(c)') AS checksum,
	   pg_temp.state('SELECT iblt_agg(id::text, 1) FROM (VALUES (1), (2), (NULL)) v(id)') AS text_key,
	   pg_temp.state('SELECT iblt_strata_agg(id, 1) FROM (VALUES (1), (2), (NULL)) v(id)') AS strata;

-- the width of an integer is of no account, also of a negative one
SELECT iblt_agg(i::smallint, 1)::bytea = iblt_agg(i::bigint, 1)::bytea AS small,
	   iblt_agg(i::integer, 1)::bytea = iblt_agg(i::bigint, 1)::bytea AS medium,
	   iblt_strata_agg(i::smallint, 1)::bytea = iblt_strata_agg(i::bigint, 1)::bytea AS strata,
	   iblt_insert(iblt_new(), (-7)::smallint, 1)::bytea = iblt_insert(iblt_new(), (-7)::bigint, 1)::bytea AS inserted
FROM generate_series(-20, 20) i;

-- bytes that are no sketch, from a function that does not look at them
CREATE FUNCTION pg_temp.unseen(bytea) RETURNS iblt LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION pg_temp.unseen_strata(bytea) RETURNS iblt_strata LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
SELECT pg_temp.state($$SELECT iblt_info(pg_temp.unseen('\x00'))$$) AS short,
	   pg_temp.state($$SELECT iblt_info(pg_temp.unseen(set_byte(iblt_agg(1, 1)::bytea, 600, 99)))$$) AS damaged,
	   pg_temp.state($$SELECT iblt_decode(pg_temp.unseen(set_byte(iblt_agg(1, 1)::bytea, 600, 99)))$$) AS decoded,
	   pg_temp.state($$SELECT iblt_strata_info(pg_temp.unseen_strata(set_byte(iblt_strata_agg(1, 1)::bytea, 60, 99)))$$) AS strata,
	   pg_temp.state($$SELECT iblt_info(pg_temp.unseen(iblt_agg(1, 1)::bytea))$$) AS sound;
SELECT pg_temp.refusal($$SELECT - pg_temp.unseen('IBLT')$$) AS iblt, pg_temp.refusal($$SELECT - pg_temp.unseen_strata('IBLS')$$) AS strata;

-- white space of all kinds in the text form is passed over
SELECT bool_and((replace(regexp_replace(s::text, '(.{76})', '\1 ', 'g'), ' ', space))::iblt = s) AS same
FROM (SELECT iblt_agg(1, 1)) AS x(s), unnest(ARRAY[' ', E'\n', E'\r\n', E'\t']) AS space;

-- to a larger sketch, that could be folded to this one
SELECT pg_temp.state('SELECT iblt_fold(iblt_fold(iblt_new(60000), 100), iblt_new(60000))') AS larger;

-- A decoding of some keys is an error, unless it is asked for; of none it is always.
SET client_min_messages = error;
CREATE TEMP TABLE s AS
SELECT s AS part, (SELECT iblt_agg(i, 1, 40) FROM generate_series(1, 3000) i) AS none
FROM generate_series(100, 500, 10) n, LATERAL (SELECT iblt_agg(i, 1, 40) FROM generate_series(1, n) i) AS x(s), iblt_decode_status(s) d
WHERE d.recovered > 0 AND NOT d.complete LIMIT 1;
SELECT (iblt_decode_status(part)).recovered > 0 AS recovered_part, (iblt_decode_status(part)).complete AS complete,
	   pg_temp.state('SELECT iblt_decode(part) FROM s') AS unasked, pg_temp.state('SELECT iblt_decode(part, NULL::int) FROM s') AS typed,
	   pg_temp.state('SELECT iblt_decode(part, true) FROM s') AS asked, pg_temp.state('SELECT iblt_decode(part, NULL::int, true) FROM s') AS asked_typed
FROM s;
SELECT (iblt_decode_status(none)).recovered AS recovered, pg_temp.state('SELECT iblt_decode(none) FROM s') AS unasked,
	   pg_temp.state('SELECT iblt_decode(none, true) FROM s') AS asked, pg_temp.state('SELECT iblt_decode(none, NULL::int, true) FROM s') AS asked_typed
FROM s;

SET client_min_messages = warning;

-- A sketch added to itself often enough has a meter that says nothing.  If rows cancel
-- too, it was large enough for the estimate, and a larger one is recommended.
SELECT i.rows, d.complete, d.rows_estimated, d.recommended_capacity > i.capacity AS larger
FROM (SELECT pg_temp.doubled(iblt_agg(i, 1, 40) FILTER (WHERE i <= 300) - iblt_agg(i, 1, 40) FILTER (WHERE i > 300), 16)
	FROM generate_series(1, 600) i) AS x(s), iblt_info(s) i, iblt_decode_status(s) d;
-- what no sketch can hold has no recommendation
SELECT i.rows, d.complete, d.rows_estimated, d.recommended_capacity
FROM (SELECT pg_temp.doubled(iblt_agg(i, 1, 40), 24) FROM generate_series(1, 3000) i) AS x(s), iblt_info(s) i, iblt_decode_status(s) d;

-- the planner's shortcut of iblt_checksum(t): rows of the outer query, and of a type
-- that has lost a column
CREATE TEMP TABLE t (id int PRIMARY KEY, gone int, v text);
INSERT INTO t SELECT i, i, 'v' || i FROM generate_series(1, 3) i;
SELECT bool_and((SELECT iblt_checksum(o) FROM t AS u WHERE u.id = 1) = iblt_checksum(o.id, o.gone, o.v)) AS of_the_outer_query FROM t AS o;
ALTER TABLE t DROP gone;
SELECT bool_and(iblt_checksum(ROW(t.id, t.v)::t) = iblt_checksum(t.id, t.v)) AS of_a_row_constructor, bool_and(iblt_checksum(t) = iblt_checksum(t.id, t.v)) AS of_a_row
FROM t;

-- the length of an item at each turn of its own length
SELECT bool_and(iblt_checksum(ARRAY[repeat('x', n)]) = iblt_checksum('\x010000000100000001'::bytea || header || convert_to(repeat('x', n), 'UTF8'))) AS lengths
FROM (VALUES (126, '\x7f'::bytea), (127, '\x8001'), (128, '\x8101'), (16382, '\xff7f'), (16383, '\x808001'), (16384, '\x818001')) AS v(n, header);
-- NULLs in an array, behind the first eight elements too
SELECT bool_and(iblt_checksum(a) = (SELECT iblt_checksum('\x01'::bytea || int4send(n) || int4send(1)
	|| string_agg(coalesce('\x05'::bytea || int4send(x), '\x00'), ''::bytea ORDER BY position)) FROM unnest(a) WITH ORDINALITY AS u(x, position))) AS nulls
FROM generate_series(1, 40) AS n, LATERAL (SELECT array_agg(nullif(i, n - 1)) FROM generate_series(1, n) i) AS x(a);

-- a text of more than one step of a megabyte
SELECT octet_length(s::text) > 3 * 1024 * 1024 AS long, s::text::iblt = s AS same FROM (SELECT iblt_agg(i, i, 80000) FROM generate_series(1, 10) AS i) AS x(s);
-- a sketch that is kept may go while what was got of it is in use
SELECT (iblt_info(iblt_session_keep('kept', iblt_agg(i, 1, 20000)))).rows FROM generate_series(1, 30) i;
SELECT (iblt_info(a)).rows, dropped, (iblt_info(b)).rows AS rows_of_the_next
FROM (SELECT iblt_session_get('kept') AS a, iblt_session_drop('kept') AS dropped, iblt_session_keep('kept', iblt_agg(i, 1, 20000)) AS b
	FROM generate_series(1, 7) i OFFSET 0) AS x;
SELECT iblt_session_drop('kept') AS dropped;

-- an integer that is too small for the type asked for
SELECT pg_temp.state('SELECT iblt_decode(iblt_agg(-40000, 1), NULL::smallint)') AS below, pg_temp.state('SELECT iblt_decode(iblt_agg(40000, 1), NULL::smallint)') AS above,
	   pg_temp.state('SELECT iblt_decode(iblt_agg(-2147483649, 1), NULL::int)') AS below_integer;

-- anonymous rows of several types in one column
SELECT pg_temp.state($$SELECT iblt_agg(CASE i WHEN 3 THEN ROW('a'::text, 2) ELSE ROW(i, 2) END, 1) FROM generate_series(1, 4) i$$) AS types,
	   pg_temp.state($$SELECT iblt_strata_agg(CASE i WHEN 3 THEN ROW('a'::text, 2) ELSE ROW(i, 2) END, 1) FROM generate_series(1, 4) i$$) AS strata;
