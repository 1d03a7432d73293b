-- iblt_agg_bigint: the same bytes as iblt_agg, except over no rows.  test/t/096_fresh_calls.pl
-- calls it as Citus does.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt;
RESET client_min_messages;
CREATE SCHEMA agg_bigint;
SET search_path = agg_bigint, public;
CREATE TABLE k (id bigint, g int, c bigint) WITH (parallel_workers = 2);
INSERT INTO k SELECT (i - 10000) * 7919, i % 5, hashint8extended(i, 0) FROM generate_series(1, 20000) i;
INSERT INTO k VALUES (9223372036854775807, 1, -9223372036854775808), (-9223372036854775808, 2, 0), (0, 3, -1);
CREATE TABLE templates AS SELECT iblt_new(300, seed => 5, key_size => 8) AS t;
ANALYZE k;

-- forms, with small sketches and with such as take rows through a queue
CREATE VIEW forms AS
	SELECT iblt_agg(id, c) AS a1, iblt_agg_bigint(id, c) AS b1,
		iblt_agg(id, c, 7000) AS a2, iblt_agg_bigint(id, c, 7000) AS b2,
		iblt_agg(id, c, iblt_new(70000, seed => -5, hashes => 5)) AS a3,
		iblt_agg_bigint(id, c, iblt_new(70000, seed => -5, hashes => 5)) AS b3,
		iblt_agg(id, c, (SELECT t FROM templates)) AS a4, iblt_agg_bigint(id, c, (SELECT t FROM templates)) AS b4,
		iblt_agg(id, c, iblt_insert(iblt_new(), 1, 1)) AS a5, iblt_agg_bigint(id, c, iblt_insert(iblt_new(), 1, 1)) AS b5
	FROM k;
SELECT a1::bytea = b1::bytea AS plain, a2::bytea = b2::bytea AS capacity, a3::bytea = b3::bytea AS template,
	a4::bytea = b4::bytea AS subquery, a5::bytea = b5::bytea AS typed FROM forms;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT a1::bytea = b1::bytea AS plain, a2::bytea = b2::bytea AS capacity, a3::bytea = b3::bytea AS template,
	a4::bytea = b4::bytea AS subquery, a5::bytea = b5::bytea AS typed FROM forms;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;

-- groups, filters, and values that differ from row to row
SELECT g, iblt_agg_bigint(id, c)::bytea = iblt_agg(id, c)::bytea AS same, (iblt_info(iblt_agg_bigint(id, c))).rows FROM k GROUP BY g ORDER BY g;
SET enable_hashagg = off;
SELECT g, iblt_agg_bigint(id, c, 5)::bytea = iblt_agg(id, c, 5)::bytea AS same FROM k GROUP BY g ORDER BY g;
RESET enable_hashagg;
SELECT iblt_agg_bigint(id, c) FILTER (WHERE g = 1) = iblt_agg(id, c) FILTER (WHERE g = 1) AS filtered,
	iblt_agg_bigint(DISTINCT id, c) = iblt_agg(id, c) AS distinct_rows, iblt_agg_bigint(g, 1) = iblt_agg(g, 1) AS cast_key FROM k;
SELECT iblt_agg_bigint(id, c, t) = iblt_agg(id, c, t) AS column_template FROM k, templates WHERE id < 100000;
SELECT iblt_agg_bigint(id, c, CASE WHEN id > 0 THEN 7 ELSE 7 END) = iblt_agg(id, c, 7) AS computed FROM k;
SELECT iblt_sum(s) = (SELECT iblt_agg(id, c) FROM k) AS summed FROM (SELECT iblt_agg_bigint(id, c) AS s FROM k GROUP BY g) AS groups;

-- window frames
WITH w AS (
	SELECT id, iblt_agg_bigint(id, c) OVER moving AS b, iblt_agg(id, c) OVER moving AS a,
		iblt_agg_bigint(id, c, 20) OVER growing AS b2, iblt_agg(id, c, 20) OVER growing AS a2,
		iblt_agg_bigint(id, c, 20) OVER moving AS b4, iblt_agg(id, c, 20) OVER moving AS a4,
		iblt_agg_bigint(id, c, iblt_new(9, seed => 2)) OVER moving AS b3, iblt_agg(id, c, iblt_new(9, seed => 2)) OVER moving AS a3
	FROM (SELECT * FROM k ORDER BY id LIMIT 300) AS k
	WINDOW moving AS (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING), growing AS (ORDER BY id)
) SELECT count(*), bool_and(a::bytea = b::bytea) AS moving, bool_and(a2::bytea = b2::bytea) AS growing, bool_and(a3::bytea = b3::bytea) AS template,
	bool_and(a4::bytea = b4::bytea) AS capacity FROM w;
SELECT id, (iblt_info(coalesce(iblt_agg_bigint(id, c) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING), iblt_new()))).rows
FROM k WHERE id > 79180000 ORDER BY id;

-- no rows
SELECT iblt_agg_bigint(id, c) IS NULL AS none, iblt_agg_bigint(id, c, 9) IS NULL AS capacity, iblt_agg_bigint(id, c, iblt_new()) IS NULL AS template,
	coalesce(iblt_agg_bigint(id, c), iblt_new()) = iblt_new() AS coalesced FROM k WHERE g = 77;
SELECT iblt_decode(iblt_agg_bigint(id, c)) FROM k WHERE g = 77;

-- what is refused
SELECT iblt_agg_bigint(nullif(g, 3), c) FROM k;
SELECT iblt_agg_bigint(id, nullif(c, -1)) FROM k;
SELECT iblt_agg_bigint(id, c, NULL::int) FROM k;
SELECT iblt_agg_bigint(id, c, NULL::iblt) FROM k;
SELECT iblt_agg_bigint(id, c, 0) FROM k;
SELECT iblt_agg_bigint(id, c, CASE WHEN id < 0 THEN 7 ELSE 7000 END) FROM k;
SELECT iblt_agg_bigint(id, c, CASE WHEN id < 0 THEN iblt_new(seed => 1) ELSE iblt_new(seed => 2) END) FROM k;
SELECT iblt_agg_bigint(id, c, iblt_new(with_values => true)) FROM k;
SELECT iblt_agg_bigint(id, c, iblt_insert(iblt_new(), 'x'::text, 1)) FROM k;
\set VERBOSITY sqlstate
SELECT iblt_internal.iblt_agg_bigint_trans(NULL, 1, 2);
SELECT iblt_internal.iblt_agg_bigint_combine(iblt_new(), iblt_new());
\set VERBOSITY default

-- another aggregate may begin with a sketch, which is not changed
DO $$
BEGIN
	EXECUTE format('CREATE AGGREGATE more(bigint, bigint) (SFUNC = iblt_internal.iblt_agg_bigint_trans, STYPE = iblt, INITCOND = %L)',
		iblt_insert(iblt_new(), 42, 43)::text);
	EXECUTE format('CREATE AGGREGATE begun(bigint, bigint) (SFUNC = iblt_internal.iblt_agg_bigint_trans, STYPE = iblt, INITCOND = %L)',
		iblt_new()::text);
END
$$;
SELECT more(id, c)::bytea = (iblt_agg(id, c) + iblt_insert(iblt_new(), 42, 43))::bytea AS begun,
	begun(id, c)::bytea = iblt_agg(id, c)::bytea AS untyped FROM k;

-- what Citus asks for before it pushes an aggregate down
SELECT a.aggfnoid::regprocedure, a.aggcombinefn <> 0 AND a.aggkind = 'n' AND t.typtype = 'b' AND NOT EXISTS (
	SELECT FROM unnest(p.proargtypes) AS x JOIN pg_type ON oid = x WHERE typtype = 'p') AS pushed
FROM pg_aggregate a JOIN pg_type t ON t.oid = a.aggtranstype JOIN pg_proc p ON p.oid = a.aggfnoid
WHERE p.proname IN ('iblt_agg', 'iblt_agg_bigint') ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA agg_bigint CASCADE;
RESET client_min_messages;
