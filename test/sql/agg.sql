-- The aggregates iblt_agg and iblt_sum.
\i test/sql/common.psql

CREATE TEMP TABLE r AS
SELECT i AS id, i % 10 AS g, hashint8(i)::bigint AS c FROM generate_series(1, 1000) i;

-- the three forms
SELECT (iblt_info(iblt_agg(id, c))).* FROM r;
SELECT (iblt_info(iblt_agg(id, c, 1000))).* FROM r;
SELECT (iblt_info(iblt_agg(id, c, iblt_new(20, hashes => 5, seed => 7)))).* FROM r;
-- any sketch serves as template: only its parameters are taken
SELECT iblt_agg(id, c, (SELECT iblt_agg(id, c, 500) FROM r WHERE id < 50)) = iblt_agg(id, c, 500) AS same FROM r;

-- nor is a domain of account
CREATE DOMAIN pg_temp.positive AS integer CHECK (VALUE > 0);
SELECT iblt_agg(id::pg_temp.positive, c)::bytea = iblt_agg(id, c)::bytea AS same FROM r;

-- inserting one by one makes the same bytes
CREATE FUNCTION pg_temp.one_by_one(sign int) RETURNS iblt LANGUAGE plpgsql AS $$
DECLARE s iblt := iblt_new(); row record;
BEGIN
	FOR row IN SELECT * FROM r WHERE id <= 100 LOOP
		s := CASE sign WHEN 1 THEN iblt_insert(s, row.id, row.c) ELSE iblt_delete(s, row.id, row.c) END;
	END LOOP;
	RETURN s;
END $$;
SELECT pg_temp.one_by_one(1)::bytea = iblt_agg(id, c)::bytea AS inserted,
	   pg_temp.one_by_one(-1)::bytea = (- iblt_agg(id, c))::bytea AS deleted
FROM r WHERE id <= 100;

-- no rows: an empty sketch of the right key type and parameters, never NULL
SELECT (iblt_info(iblt_agg(id, c))).* FROM r WHERE false;
SELECT key_type, rows FROM (SELECT iblt_agg(id::text, c) FROM r WHERE false) x(s), iblt_info(s);
SELECT key_type, rows FROM (SELECT iblt_agg(ROW(id, id::text), c) FROM r WHERE false) x(s), iblt_info(s);
SELECT key_type, rows FROM (SELECT iblt_agg(r, c) FROM r WHERE false) x(s), iblt_info(s);
SELECT key_type, rows FROM (SELECT iblt_agg(id, c) FILTER (WHERE id < 0) FROM r) x(s), iblt_info(s);
SELECT capacity, seed FROM (SELECT iblt_agg(id, c, iblt_new(777, seed => 3)) FROM r WHERE false) x(s), iblt_info(s);
-- an empty side against a full one: every row differs
SELECT count(*), min(side) FROM (SELECT iblt_agg(id, c, 2000) FILTER (WHERE false) - iblt_agg(id, c, 2000) FROM r) x(s),
	iblt_decode(s);

-- NULLs are errors: to skip a row would hide it
SELECT * FROM pg_temp.refusals('%s', 'iblt_agg(NULL::int, 1)', 'iblt_agg(1, NULL)', 'iblt_agg(1, 1, NULL::int)', 'iblt_agg(1, 1, NULL::iblt)',
	'iblt_sum(NULL)');

-- each group its own template
SELECT g, capacity, rows
FROM (SELECT g, iblt_agg(id, c, 10 * (g + 1)) FROM r GROUP BY g) x(g, s), iblt_info(s) ORDER BY g;
SELECT o, (SELECT capacity FROM iblt_info((SELECT iblt_agg(id, c, o) FROM r))) AS capacity FROM (VALUES (10), (1000)) AS v(o);
SELECT o, (SELECT seed FROM iblt_info((SELECT iblt_agg(id, c, t) FROM r))) AS seed FROM generate_series(1, 2) AS o, iblt_new(seed => o) AS t;

-- the sum of parts is the sketch of the whole
SELECT (SELECT iblt_sum(s) FROM (SELECT iblt_agg(id, c) FROM r GROUP BY g) x(s)) = iblt_agg(id, c) AS same FROM r;
SELECT (iblt_info(iblt_sum(s))).rows FROM (SELECT iblt_new() WHERE false) x(s);
SELECT iblt_sum(s) FROM (VALUES (iblt_new(10)), (iblt_new(1000))) x(s);
-- and so is one of deletions
SELECT iblt_sum(s) = (SELECT - iblt_agg(id, c) FROM r) AS same FROM (SELECT - iblt_agg(id, c) FROM r GROUP BY g) x(s);
-- an empty template among them takes their key type
SELECT iblt_sum(s) = (SELECT iblt_agg(id, c) FROM r) AS same
FROM (SELECT iblt_new() UNION ALL SELECT iblt_agg(id, c) FROM r UNION ALL SELECT iblt_new()) x(s);

--
-- Expressions that LLVM compiles.
--
CREATE TEMP TABLE interpreted AS SELECT iblt_agg(i, iblt_checksum(t.*), 50) AS s, sum(iblt_checksum_seeded(7, t.*)) AS sum
FROM (SELECT i, i::text AS v FROM generate_series(1, 1000) i) t;
SET jit = on;
SET jit_above_cost = 0;
SELECT iblt_agg(i, iblt_checksum(t.*), 50) = (SELECT s FROM interpreted) AS same, sum(iblt_checksum_seeded(7, t.*)) = (SELECT sum FROM interpreted) AS same_sum
FROM (SELECT i, i::text AS v FROM generate_series(1, 1000) i) t;
RESET jit;
RESET jit_above_cost;
