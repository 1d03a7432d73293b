-- The strata estimator: type, algebra, aggregates, estimates.
\i test/sql/common.psql

CREATE TEMP TABLE r AS
SELECT i AS id, i % 7 AS g, (i * 7919) % 1000003 - 500000::bigint AS c FROM generate_series(1, 2000) i;

-- estimates: missing, extra and changed keys are one difference each
SELECT iblt_strata_estimate(a, b) AS none_, iblt_strata_estimate(a, c) AS missing, iblt_strata_estimate(c, a) AS extra,
	   iblt_strata_estimate(a, d) AS changed, iblt_strata_estimate(c, d) AS both_, iblt_strata_estimate(a - d) AS difference,
	   iblt_strata_estimate(a - a) AS nothing
FROM (SELECT iblt_strata_agg(id, c), iblt_strata_agg(id, c ORDER BY c), iblt_strata_agg(id, c) FILTER (WHERE id % 100 <> 0),
			 iblt_strata_agg(id, c + (id % 200 = 1)::int) FROM r) x(a, b, c, d);
-- a key with several rows is one difference, too
SELECT iblt_strata_estimate(iblt_strata_agg(id % 10, c)) AS keys FROM r;
-- many differences are estimated
SELECT iblt_strata_estimate(iblt_strata_agg(id, c)) BETWEEN 1000 AND 3000 AS about FROM r;
SELECT count(*), bool_and(e BETWEEN 1000 AND 3000) AS about, avg(e) BETWEEN 1800 AND 2200 AS mean
FROM generate_series(1, 40) seed, LATERAL (SELECT iblt_strata_estimate(iblt_strata_agg(id, c, iblt_strata_new(seed => seed)))
	FROM r) x(e);

-- NULL is never "0"
SELECT * FROM pg_temp.refusals('%s', 'iblt_strata_estimate(NULL, iblt_strata_new())', 'iblt_strata_estimate(iblt_strata_new(), NULL)',
	'iblt_strata_estimate(NULL)', 'iblt_strata_estimate(iblt_strata_new() - NULL)', 'iblt_strata_info(NULL)');

-- the forms, and every kind of key
CREATE TEMP TABLE kind AS
SELECT * FROM (VALUES
	('template', iblt_strata_new()),
	('integer', (SELECT iblt_strata_agg(id, c) FROM r)),
	('uuid', (SELECT iblt_strata_agg(md5(id::text)::uuid, c) FROM r)),
	('text', (SELECT iblt_strata_agg('key ' || id, c) FROM r)),
	('long text', (SELECT iblt_strata_agg(repeat('key ', 100) || id, c) FROM r)),
	('row', (SELECT iblt_strata_agg(ROW(id, 'key ' || id), c) FROM r)),
	('whole row', (SELECT iblt_strata_agg(x.*, 0) FROM (SELECT id, c FROM r) x)),
	('numeric', (SELECT iblt_strata_agg(id::numeric / 7, c) FROM r)),
	('small', (SELECT iblt_strata_agg(id, c, iblt_strata_new(4, 9, 3, -7)) FROM r)),
	('deleted', iblt_strata_delete(iblt_strata_new(), 1, 1))) v(name, s);
SELECT name, i.* FROM kind, iblt_strata_info(s) i;
SELECT name, s::text::iblt_strata = s AS text_form, s::bytea::iblt_strata = s AS bytea_form,
	   length(s::bytea) = (iblt_strata_info(s)).bytes AS size_told,
	   regexp_replace(s::text, '(.{60})', E'\\1 \n\t', 'g')::iblt_strata = s AS with_white_space,
	   s::text ~ '^[A-Za-z0-9+/]+=*$' AS one_token, left(s::text, 5) AS begins
FROM kind;
-- one row less is one difference, whatever the key
SELECT name, iblt_strata_estimate(s, iblt_strata_delete(s, 5, 1)) FROM kind WHERE name IN ('integer', 'deleted')
UNION ALL SELECT name, iblt_strata_estimate(s, iblt_strata_delete(s, md5('5')::uuid, 1)) FROM kind WHERE name = 'uuid'
UNION ALL SELECT name, iblt_strata_estimate(s, iblt_strata_delete(s, 'key 5'::text, 1)) FROM kind WHERE name = 'text'
UNION ALL SELECT name, iblt_strata_estimate(s, iblt_strata_insert(s, ROW(5, 'key 5'::text), 1)) FROM kind WHERE name = 'row';
SELECT attstorage FROM pg_attribute WHERE attrelid = 'kind'::regclass AND attname = 's';

-- every door refuses the same bytes with the same words
SELECT damage,
	   pg_temp.refusal(format('SELECT %L::bytea::iblt_strata', bad)) AS as_bytea,
	   pg_temp.refusal(format('SELECT %L::bytea::iblt_strata', bad)) =
	   pg_temp.refusal(format('SELECT %L::iblt_strata', translate(encode(bad, 'base64'), E'\n', ''))) AS as_text_the_same
FROM (SELECT s::bytea AS b FROM kind WHERE name = 'small') AS good,
	LATERAL (VALUES ('nothing', ''::bytea), ('noise', decode(repeat('5a', 1000), 'hex')), ('an iblt', iblt_new()::bytea), ('one byte less', substring(b FROM 1 FOR length(b) - 1)),
	('one byte more', b || '\x00'), ('version', set_byte(b, 4, 2)), ('hashes', set_byte(b, 5, 9)), ('strata', set_byte(b, 7, 65)), ('fewer strata', set_byte(b, 7, 3)), ('no strata', set_byte(b, 7, 0)),
	('strata of an iblt', set_byte(b, 3, ascii('T'))), ('more hashes', set_byte(b, 5, 4)), ('a subtable less', set_byte(b, 6, 3)), ('reserved', set_byte(b, 38, 1)), ('kind of key', set_byte(b, 8, 9)), ('no kind', set_byte(b, 8, 0)),
	('a text', set_byte(b, 8, 3)), ('description', set_byte(b, 32, 1)), ('limbs', set_byte(b, 10, 2)), ('values', set_byte(set_byte(b, 34, 1), 9, 1)), ('cells', set_byte(b, 12, 11)), ('a cell', set_byte(b, 100, get_byte(b, 100) # 1)),
	('the checksum', set_byte(b, length(b) - 1, get_byte(b, length(b) - 1) # 1))) v(damage, bad);
SELECT pg_temp.refusal($$SELECT 'not base64!'::iblt_strata$$);
SELECT pg_temp.refusal($$SELECT iblt_strata_new()::bytea::iblt$$);

-- parameters
SELECT arguments, pg_temp.refusal(format('SELECT iblt_strata_new(%s)', arguments)) AS refusal
FROM unnest(ARRAY['0', '65', 'cells => 0', 'cells => 3', 'cells => 82', 'cells => 81', 'cells => 44', 'cells => 88, hashes => 8',
				  'cells => 2147483647', 'hashes => 2', 'hashes => 9', 'NULL', 'cells => NULL', 'hashes => NULL', 'seed => NULL',
				  'cells => 67108864', 'cells => 67108865', '1, 37748736, 3', '2, 37748736, 3', '64, 134217728, 8']) arguments;
SELECT strata, cells, hashes, bytes FROM (VALUES (iblt_strata_new(1, 4)), (iblt_strata_new(64, 8, 8)), (iblt_strata_new(16, 120, 3))) v(s),
	iblt_strata_info(s);

-- linear algebra
SELECT a + b = b + a AS commutes, (a + b) + c = a + (b + c) AS associates, a - a = zero AS cancels, a + zero = a AS neutral,
	   - (- a) = a AS turns_back, a - b = - (b - a) AS turned, a + (- b) = a - b AS minus, a <> b AS differ,
	   NOT (a <> a) AS not_differ, a + a <> a AS doubled,
	   a + t = a AND t + a = a AS template_is_neutral, t - a = - a AS template_minus, t = zero AS template_is_empty, t <> a AS template_is_not_a
FROM (SELECT iblt_strata_agg(id, c) FILTER (WHERE g < 4), iblt_strata_agg(id, c) FILTER (WHERE g > 2),
			 iblt_strata_agg(id, -c) FILTER (WHERE g = 0), iblt_strata_agg(id, c) FILTER (WHERE false), iblt_strata_new()
	  FROM r) x(a, b, c, zero, t);
SELECT (iblt_strata_info(iblt_strata_new() + iblt_strata_new())).key_type;
-- parameters that differ are an error that names both
SELECT * FROM pg_temp.refusals('%s', 'iblt_strata_new() - iblt_strata_new(16)', 'iblt_strata_new() + iblt_strata_new(cells => 96)',
	'iblt_strata_new() = iblt_strata_new(hashes => 5)', 'iblt_strata_estimate(iblt_strata_new(), iblt_strata_new(seed => 1))',
	$$iblt_strata_estimate(iblt_strata_agg(1, 1), iblt_strata_agg('1'::text, 1))$$, $$iblt_strata_agg(1, 1) = iblt_strata_agg(md5('1')::uuid, 1)$$, $$iblt_strata_insert(iblt_strata_agg(1, 1), '1'::text, 1)$$,
	$$iblt_strata_agg('1'::text, 1, iblt_strata_insert(iblt_strata_new(), 1, 1))$$);

-- a row at a time makes the same bytes
CREATE FUNCTION pg_temp.one_by_one(sign int) RETURNS iblt_strata LANGUAGE plpgsql AS $$
DECLARE s iblt_strata := iblt_strata_new(); row record;
BEGIN
	FOR row IN SELECT * FROM r WHERE id <= 100 LOOP
		s := CASE sign WHEN 1 THEN iblt_strata_insert(s, row.id, row.c) ELSE iblt_strata_delete(s, row.id, row.c) END;
	END LOOP;
	RETURN s;
END $$;
SELECT pg_temp.one_by_one(1)::bytea = iblt_strata_agg(id, c)::bytea AS inserted,
	   pg_temp.one_by_one(-1)::bytea = (- iblt_strata_agg(id, c))::bytea AS deleted
FROM r WHERE id <= 100;
SELECT * FROM pg_temp.refusals('%s', 'iblt_strata_insert(iblt_strata_new(), NULL::int, 1)', 'iblt_strata_delete(iblt_strata_new(), 1, NULL)',
	'iblt_strata_insert(NULL, 1, 1)');

-- no rows: an empty estimator of the right key type and parameters, never NULL
SELECT key_type, rows FROM (SELECT iblt_strata_agg(id, c) FROM r WHERE false) x(s), iblt_strata_info(s);
SELECT key_type, rows FROM (SELECT iblt_strata_agg(ROW(id, id::text), c) FROM r WHERE false) x(s), iblt_strata_info(s);
SELECT key_type, strata, seed FROM (SELECT iblt_strata_agg(id::text, c, iblt_strata_new(8, seed => 3)) FROM r WHERE false) x(s),
	iblt_strata_info(s);
CREATE TEMP TABLE template AS SELECT iblt_strata_new(8, seed => 9) AS t;
SELECT strata, seed FROM (SELECT iblt_strata_agg(id, c, (SELECT t FROM template)) FROM r WHERE false) x(s), iblt_strata_info(s);
SELECT iblt_strata_agg(id, c, t) FROM r, template WHERE false;
-- an empty side against a full one: every key differs
SELECT iblt_strata_estimate(iblt_strata_agg(id, c) FILTER (WHERE false), iblt_strata_agg(id, c)) FROM r WHERE id <= 40;

-- NULLs are errors: to skip a row would hide it
SELECT * FROM pg_temp.refusals('iblt_strata_agg(%s)', 'NULL::int, 1', '1, NULL', '1, 1, NULL');

-- groups
SELECT g, seed, rows FROM (SELECT g, iblt_strata_agg(id, c, iblt_strata_new(seed => g)) FROM r GROUP BY g) x(g, s), iblt_strata_info(s)
ORDER BY g;

-- more keys than the strata can tell: an error, never 0
SELECT pg_temp.refusal('SELECT iblt_strata_estimate(iblt_strata_agg(id, c, iblt_strata_new(1))) FROM r');
SELECT iblt_strata_estimate(iblt_strata_agg(id, c, iblt_strata_new(1, 4))) FROM r WHERE id <= 1;
SELECT pg_temp.refusal('SELECT iblt_strata_estimate(iblt_strata_agg(id, c, iblt_strata_new(1, 4))) FROM r WHERE id <= 2');
SELECT count(*), min(e) > 0 AS never_0
FROM generate_series(1, 200) seed, LATERAL (SELECT iblt_strata_estimate(iblt_strata_agg(id, c, iblt_strata_new(20, 3, 3, seed)))
	FROM r WHERE id <= 3) x(e);

-- what it is for: an estimate, then one sketch of the right size
SELECT d, (SELECT count(*) FROM iblt_decode(a - b)) AS decoded
FROM (SELECT iblt_strata_estimate(iblt_strata_agg(id, c), iblt_strata_agg(id, c + (id % 50 = 0)::int)) FROM r) e(d),
	LATERAL (SELECT iblt_agg(id, c, 2 * d::int), iblt_agg(id, c + (id % 50 = 0)::int, 2 * d::int) FROM r) x(a, b);
