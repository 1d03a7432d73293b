-- Linear algebra on sketches, and the paper's map: insert, delete, get, list.
\i test/sql/common.psql

CREATE TEMP TABLE s AS
SELECT iblt_agg(i, i * 3) FILTER (WHERE i <= 40) AS a,
	   iblt_agg(i, i * 3) FILTER (WHERE i BETWEEN 20 AND 60) AS b,
	   iblt_agg(i, i * 5) FILTER (WHERE i % 7 = 0) AS c,
	   iblt_agg(i, i * 3) FILTER (WHERE false) AS zero
FROM generate_series(1, 100) i;

SELECT a + b = b + a AS commutes, (a + b) + c = a + (b + c) AS associates, a - a = zero AS cancels,
	   a + zero = a AS neutral, - (- a) = a AS turns_back, a - b = - (b - a) AS turned, a + (- b) = a - b AS minus,
	   a <> b AS differ, a = b AS same, NOT (a <> a) AS not_differ, a + a <> a AS doubled
FROM s;

-- templates are empty sketches of any type of key
SELECT a + iblt_new() = a AS right_, iblt_new() + a = a AS left_, iblt_new() - a = - a AS minus,
	   iblt_new() = zero AS equal_zero, iblt_new() = a AS equal_a, iblt_new() <> a AS differs, iblt_new() = iblt_new() AS equal
FROM s;
SELECT (iblt_info(iblt_new() + iblt_new())).key_type;

-- parameters that differ are an error that names both
SELECT * FROM pg_temp.refusals('%s', 'iblt_new(10) + iblt_new(1000)', 'iblt_new(hashes => 3) = iblt_new(hashes => 4)',
	'iblt_new(seed => 1) - iblt_new(seed => -2)', 'iblt_new(with_values => true) <> iblt_new()', 'iblt_new(key_size => 16) = iblt_new(key_size => 24)',
	$$iblt_agg(1, 1) - iblt_agg('1'::text, 1)$$, $$iblt_agg('1'::text, 1) - iblt_agg(ROW('1'::text), 1)$$, $$iblt_agg('1'::text, 1) - iblt_agg(ARRAY['1'], 1)$$,
	$$iblt_agg(1, 1) - iblt_agg(md5('1')::uuid, 1)$$,
	$$iblt_agg('a'::text, 1) - iblt_new(key_size => 64)$$);
-- key_size is for keys of open length only
SELECT iblt_agg(1, 1) - iblt_new(key_size => 64) = iblt_agg(1, 1) AS same;

-- a NULL operand gives NULL, which decodes to an error
SELECT a + NULL IS NULL, a - NULL IS NULL, (a = NULL) IS NULL FROM s;

-- the paper's map
CREATE TEMP TABLE m AS SELECT iblt_new(20, with_values => true) AS m;
UPDATE m SET m = iblt_insert(m, 'one'::text, 1);
UPDATE m SET m = iblt_insert(m, 'minus one'::text, -1);
UPDATE m SET m = iblt_insert(m, 'least'::text, -9223372036854775808);
UPDATE m SET m = iblt_insert(iblt_insert(m, 'twice'::text, 2), 'twice'::text, 2);
UPDATE m SET m = iblt_insert(iblt_insert(m, 'two values'::text, 1), 'two values'::text, 2);
UPDATE m SET m = iblt_delete(m, 'never inserted'::text, 9);
UPDATE m SET m = iblt_delete(iblt_insert(m, 'gone'::text, 5), 'gone'::text, 5);
UPDATE m SET m = iblt_delete(iblt_insert(m, 'changed'::text, 5), 'changed'::text, 6);
SELECT x.* FROM m, iblt_decode(m, NULL::text) x ORDER BY key;
SELECT k, g.* FROM m, unnest(ARRAY['one', 'minus one', 'least', 'twice', 'two values', 'never inserted', 'gone',
	'changed', 'nobody']) k, iblt_get(m, k) g;
SELECT (iblt_info(m)).rows FROM m;

-- without values GET knows presence and count
SELECT k, g.* FROM (SELECT iblt_insert(iblt_insert(iblt_new(), 1, 5), 1, 5)) x(s), unnest(ARRAY[1, 2]) k, iblt_get(s, k) g;
-- an overfull sketch does not guess
SELECT status, count(*) FROM (SELECT iblt_agg(i, i, 1) FROM generate_series(1, 1000) i) x(s), unnest(ARRAY[5, 5000]) k, iblt_get(s, k)
GROUP BY status;
SELECT * FROM iblt_get(iblt_new(), 1);

SELECT * FROM pg_temp.refusals('%s', 'iblt_insert(NULL, 1, 1)', 'iblt_insert(iblt_new(), NULL::int, 1)', 'iblt_insert(iblt_new(), 1, NULL)',
	'iblt_delete(iblt_new(), 1, NULL)', 'iblt_get(NULL, 1)', 'iblt_get(iblt_new(), NULL::int)');

-- overload to a hundred times the capacity, and back to nothing
SELECT (s - s2) = iblt_new(10) AS empty, (s - s3) <> iblt_new(10) AS one_left, x.*
FROM (SELECT iblt_agg(i, i * 3, 10), iblt_agg(i, i * 3, 10 ORDER BY -i), iblt_agg(i, i * 3, 10) FILTER (WHERE i <> 77)
	  FROM generate_series(1, 2000) i) y(s, s2, s3), iblt_decode(s - s3) x;
