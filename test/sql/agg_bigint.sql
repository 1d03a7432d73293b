-- iblt_agg_bigint: the same bytes as iblt_agg, except over no rows.  test/t/097_distributed.pl
-- calls it as Citus does.
\i test/sql/common.psql
CREATE SCHEMA agg_bigint;
SET search_path = agg_bigint, public;
CREATE TABLE k (id bigint, g int, c bigint) WITH (parallel_workers = 2);
INSERT INTO k SELECT (i - 10000) * 7919, i % 5, hashint8extended(i, 0) FROM generate_series(1, 20000) i;
INSERT INTO k VALUES (9223372036854775807, 1, -9223372036854775808), (-9223372036854775808, 2, 0), (0, 3, -1);
CREATE TABLE templates AS SELECT iblt_new(300, seed => 5, key_size => 8) AS t;
ANALYZE k;

-- templates of small sketches and of such as take rows through a queue
CREATE VIEW forms AS
	SELECT iblt_agg(id, c) AS a1, iblt_agg_bigint(id, c, iblt_new()) AS b1,
		iblt_agg(id, c, iblt_new(70000, seed => -5, hashes => 5)) AS a2,
		iblt_agg_bigint(id, c, iblt_new(70000, seed => -5, hashes => 5)) AS b2,
		iblt_agg(id, c, (SELECT t FROM templates)) AS a3, iblt_agg_bigint(id, c, (SELECT t FROM templates)) AS b3,
		iblt_agg(id, c, iblt_insert(iblt_new(), 1, 1)) AS a4, iblt_agg_bigint(id, c, iblt_insert(iblt_new(), 1, 1)) AS b4
	FROM k;
SELECT a1::bytea = b1::bytea AS plain, a2::bytea = b2::bytea AS large, a3::bytea = b3::bytea AS subquery, a4::bytea = b4::bytea AS typed FROM forms;
-- templates of columns.  Groups, filters, windows, partitions and workers are in aggregates.sql.
SELECT iblt_agg_bigint(g, 1, iblt_new()) = iblt_agg(g, 1) AS cast_key FROM k;
SELECT iblt_agg_bigint(id, c, t) = iblt_agg(id, c, t) AS column_template FROM k, templates WHERE id < 100000;
SELECT iblt_agg_bigint(id, c, CASE WHEN id > 0 THEN iblt_new(7) ELSE iblt_new(7) END) = iblt_agg(id, c, 7) AS computed FROM k;

-- no rows
SELECT iblt_agg_bigint(id, c, iblt_new()) IS NULL AS none, coalesce(iblt_agg_bigint(id, c, iblt_new()), iblt_new()) = iblt_new() AS coalesced FROM k WHERE g = 77;
SELECT iblt_decode(iblt_agg_bigint(id, c, iblt_new())) FROM k WHERE g = 77;

-- what is refused
SELECT * FROM pg_temp.refusals('iblt_agg_bigint(%s) FROM k', 'nullif(g, 3), c, iblt_new()', 'id, nullif(c, -1), iblt_new()', 'id, c, NULL',
	'id, c, iblt_new(with_values => true)',
	$$id, c, iblt_insert(iblt_new(), 'x'::text, 1)$$);
\set VERBOSITY sqlstate
SELECT iblt_internal.iblt_agg_bigint_trans(NULL, 1, 2, iblt_new());
SELECT iblt_internal.iblt_agg_bigint_combine(iblt_new(), iblt_new());
\set VERBOSITY default

-- another aggregate may begin with a sketch, which is not changed
DO $$
BEGIN
	EXECUTE format('CREATE AGGREGATE more(bigint, bigint, iblt) (SFUNC = iblt_internal.iblt_agg_bigint_trans, STYPE = iblt, INITCOND = %L)',
		iblt_insert(iblt_new(), 42, 43)::text);
	EXECUTE format('CREATE AGGREGATE begun(bigint, bigint, iblt) (SFUNC = iblt_internal.iblt_agg_bigint_trans, STYPE = iblt, INITCOND = %L)',
		iblt_new()::text);
END
$$;
SELECT more(id, c, iblt_new())::bytea = (iblt_agg(id, c) + iblt_insert(iblt_new(), 42, 43))::bytea AS begun,
	begun(id, c, iblt_new())::bytea = iblt_agg(id, c)::bytea AS untyped FROM k;

-- what Citus asks for before it pushes an aggregate down
SELECT a.aggfnoid::regprocedure, a.aggcombinefn <> 0 AND a.aggkind = 'n' AND t.typtype = 'b' AND NOT EXISTS (
	SELECT FROM unnest(p.proargtypes) AS x JOIN pg_type ON oid = x WHERE typtype = 'p') AS pushed
FROM pg_aggregate a JOIN pg_type t ON t.oid = a.aggtranstype JOIN pg_proc p ON p.oid = a.aggfnoid
WHERE p.proname IN ('iblt_agg', 'iblt_agg_bigint') ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA agg_bigint CASCADE;
RESET client_min_messages;
