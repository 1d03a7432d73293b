-- Linear algebra on filters, folds, and pairs inserted, updated and deleted one at a time.
\i test/sql/common.psql

CREATE TEMP TABLE s AS
SELECT kbf_agg(i, i, 300) FILTER (WHERE i <= 100) AS a,
	   kbf_agg(i, i, 300) FILTER (WHERE i BETWEEN 101 AND 150) AS b,
	   kbf_agg(i, i, 300) FILTER (WHERE i > 150) AS c,
	   kbf_agg(i, i, 300) AS every,
	   kbf_agg(i, i, 300) FILTER (WHERE false) AS zero
FROM generate_series(1, 200) i;

SELECT a + b = b + a AS commutes, (a + b) + c = a + (b + c) AS associates, a + b + c = every AS whole, every - b - c = a AS part,
	   every - (b + c) = a AS parts, a - a = zero AS cancels, a + zero = a AS neutral, a - zero = a AS neutral_minus,
	   a <> b AS differ, a = b AS same, NOT (a <> a) AS not_differ, a + a <> a AS doubled
FROM s;
-- templates are empty filters of any type of key
SELECT a + kbf_new(300) = a AS right_, kbf_new(300) + a = a AS left_, a - kbf_new(300) = a AS minus, kbf_new(300) - zero = zero AS template_minus,
	   kbf_new(300) = zero AS equal_zero, zero = kbf_new(300) AS zero_equal, kbf_new(300) = a AS equal_a, kbf_new(300) <> a AS differs,
	   kbf_new(300) = kbf_new(300) AS equal
FROM s;
SELECT (kbf_info(kbf_new(300) + kbf_new(300))).key_type;
SELECT a + NULL IS NULL, a - NULL IS NULL, (a = NULL) IS NULL FROM s;

-- what is not a part is refused, by the cells or by the number of keys
SELECT * FROM pg_temp.refusals('%s', 'a - b FROM s', 'a - every FROM s', 'kbf_new(300) - a FROM s',
	'a - (SELECT kbf_agg(i, i + 1, 300) FROM generate_series(1, 50) i) FROM s');

-- parameters that differ are an error that names both
SELECT * FROM pg_temp.refusals('%s', 'kbf_new(100) + kbf_new(100, seed => -2)', 'kbf_new(100) - kbf_new(100, 254)', 'kbf_new(100, 7, 0.03) + kbf_new(100, 7, 0.1)',
	'kbf_new(100, 15, 0.001, 1) <> kbf_new(100, 15, 0.001, 2)',
	$$kbf_new(100, labels => '{a,b}') = kbf_new(100, labels => '{a,c}')$$, $$kbf_new(100, labels => '{a,b}') = kbf_new(100, 2)$$,
	$$kbf_insert(kbf_new(100), 1, 1) <> kbf_insert(kbf_new(100), '1'::text, 1)$$);

-- folds: the filter of the same keys in fewer cells, for the capacity asked for
CREATE TEMP TABLE large AS SELECT kbf_agg(i, i, 16384) AS s FROM generate_series(1, 200) i;
CREATE TEMP TABLE folded AS SELECT c, kbf_fold(s, c) AS f, s FROM large, unnest(ARRAY[200, 201, 1000, 4000]) c;
SELECT c AS folded_to, length(f::bytea) < length(s::bytea) AS smaller, (kbf_info(f)).keys, (kbf_info(f)).capacity >= c AS capacity,
	   (SELECT count(*) FROM generate_series(1, 200) i WHERE kbf_get(f, i, -1) = i) > 195 AS right_,
	   (SELECT count(*) FROM generate_series(1, 200) i WHERE kbf_get(f, i, -1) NOT IN (i, -1)) AS wrong,
	   f = (SELECT kbf_agg(i, i, f) FROM generate_series(1, 200) i) AS as_built, kbf_fold(s, f) = f AS as_template
FROM folded ORDER BY c;
SELECT kbf_fold(s, 16384) = s AS as_it_is, kbf_fold(s, s) = s AS like_itself, length(kbf_fold(s, 200, 0.1)::bytea) <= length(kbf_fold(s, 200)::bytea) AS failure
FROM large;
-- compaction: two filters that became nearly empty are one of half the cells
SELECT kbf_fold(kbf_fold(x, 8192) + kbf_fold(y, 8192), 8192) = kbf_fold(x + y, 8192) AS same
FROM (SELECT kbf_agg(i, i, 16384) FILTER (WHERE i < 20), kbf_agg(i, i, 16384) FILTER (WHERE i > 20) FROM generate_series(1, 40) i) z(x, y);
SELECT pg_temp.refusal(format('SELECT kbf_fold(s, %s) FROM large', arguments)) AS refusal, arguments
FROM unnest(ARRAY['199', '0', '-1', '2000000', 'NULL::int', '200, NULL', '200, 0', '200, ''NaN''', 'NULL::kbf', 'kbf_new(16384, seed => 1)']) arguments;
SELECT pg_temp.refusal('SELECT kbf_fold(kbf_new(10), kbf_new(16384))') LIKE '22023 kbf values cannot be combined: numbers of % differ%' AS refused;
SELECT pg_temp.refusal('SELECT kbf_fold(NULL, 1)');

-- one pair at a time; the argument is never changed
CREATE TEMP TABLE m AS SELECT kbf_new(100, labels => ARRAY['new', 'open', 'done']) AS s;
CREATE TEMP TABLE before AS SELECT kbf_insert(kbf_insert(s, 'one'::text, 'new'), 'two'::text, 2) AS s FROM m;
SELECT k, kbf_get(s, k), kbf_get_label(s, k) FROM before, unnest(ARRAY['one', 'two', 'three']) k;
SELECT kbf_get_label(u, 'one'::text) AS one, kbf_get_label(u, 'two'::text) AS two, u = kbf_update(s, 'one'::text, 'new', 'done') AS with_old,
	   u = kbf_update(s, 'one'::text, 1, 3) AS as_numbers, (kbf_info(u)).keys, kbf_update(u, 'one'::text, 'done', 'new') = s AS and_back
FROM before, LATERAL (SELECT kbf_update(s, 'one'::text, 'done')) x(u);
SELECT kbf_get_label(d, 'one'::text) AS one, kbf_get_label(d, 'two'::text) AS two, d = kbf_delete(s, 'one'::text, 'new') AS with_value,
	   (kbf_info(d)).keys, kbf_insert(d, 'one'::text, 'new') = s AS and_back
FROM before, LATERAL (SELECT kbf_delete(s, 'one'::text)) x(d);
SELECT before.s = kbf_insert(kbf_insert(m.s, 'one'::text, 'new'), 'two'::text, 2) AS unchanged FROM before, m;
-- values of an enum type, and keys that are rows
CREATE TYPE pg_temp.state AS ENUM ('done', 'new');
SELECT kbf_get_label(kbf_update(kbf_insert(s, ROW(1, 'a'::text), 'new'::state), ROW(1, 'a'::text), 'done'::state), ROW(1, 'a'::text)) FROM m;

-- never a guess: a key that the filter does not determine is an error of its own
CREATE TEMP TABLE twice AS SELECT kbf_insert(kbf_insert(kbf_new(100), 1, 1), 1, 2) AS s;
SELECT pg_temp.refusal(format('SELECT %s FROM twice', call)) AS refusal, call
FROM unnest(ARRAY['kbf_update(s, 1, 3)', 'kbf_delete(s, 1)', 'kbf_get(s, 1)', 'kbf_get_label(s, 1)']) call;
SELECT kbf_get(kbf_delete(s, 1, 1), 1) AS second, kbf_get(kbf_delete(s, 1, 2), 1) AS first, kbf_get(kbf_delete(kbf_update(s, 1, 1, 3), 1, 2), 1) AS changed
FROM twice;
-- twice with one value is unknown as well, among other keys, too; of 15 times nothing comes back
SELECT others, same, status, count(*), count(*) FILTER (WHERE (kbf_lookup(kbf_delete(s, k, 7), k)).value = CASE WHEN same THEN 7 ELSE 9 END) > 190 AS other_is_left
FROM (VALUES (1), (100)) n(others), (VALUES (true), (false)) v(same), LATERAL (SELECT kbf_agg(i, 1 + i % 255, 100) FROM generate_series(1, others) i) f(s1),
	 generate_series(1001, 1200) k, LATERAL (SELECT kbf_insert(kbf_insert(s1, k, 7), k, CASE WHEN same THEN 7 ELSE 9 END)) t(s), kbf_lookup(s, k)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT times, (kbf_lookup(s, 1)).status, (kbf_lookup(s - less, 1)).*, (kbf_info(s - less)).keys, (kbf_info(s - less)).full_cells = (kbf_info(s)).hashes AS filled
FROM unnest(ARRAY[2, 14, 15]) times, LATERAL (SELECT kbf_agg(1, 5, 100), kbf_agg(1, 5, 100) FILTER (WHERE i > 1) FROM generate_series(1, times) i) x(s, less);
-- what is not there is an error, too
SELECT pg_temp.refusal(format('SELECT %s FROM before', call)) AS refusal, call
FROM unnest(ARRAY['kbf_update(s, ''three''::text, ''new'')', 'kbf_delete(s, ''three''::text)', 'kbf_delete(s, ''three''::text, ''new'')',
	'kbf_delete(s, ''one''::text, ''open'')', 'kbf_update(s, ''one''::text, ''open'', ''done'')', 'kbf_delete(kbf_new(10), ''one''::text)',
	'kbf_delete(kbf_new(10), 1, 1)', 'kbf_delete(kbf_delete(s, ''one''::text), ''one''::text)']) call;
-- other arguments that are refused
SELECT pg_temp.refusal(format('SELECT %s FROM before', call)) AS refusal, call
FROM unnest(ARRAY['kbf_insert(s, ''a''::text, ''lost'')', 'kbf_insert(s, ''a''::text, 4)', 'kbf_insert(s, ''a''::text, 0)', 'kbf_insert(s, ''a''::text, 1.5)',
	'kbf_insert(s, 1, 1)', 'kbf_insert(NULL, 1, 1)', 'kbf_insert(s, NULL::text, 1)', 'kbf_insert(s, ''a''::text, NULL)', 'kbf_insert(s, ''a''::text, NULL::int)',
	'kbf_update(s, ''one''::text, ''lost'')', 'kbf_update(s, ''one''::text, ''lost'', ''new'')', 'kbf_update(s, ''one''::text, NULL, ''new'')',
	'kbf_update(s, ''one''::text, ''new'', 9)', 'kbf_delete(s, NULL::text)', 'kbf_delete(s, ''one''::text, NULL)', 'kbf_delete(NULL, 1)']) call;

-- overload to ten times the capacity, and back: no wrong value on the way
CREATE TEMP TABLE overload AS
SELECT kbf_agg(i, 1 + i % 255, 100) AS s, kbf_agg(i, 1 + i % 255, 100) FILTER (WHERE i > 50) AS part FROM generate_series(1, 400) i;
SELECT count(*) FILTER (WHERE kbf_get(s, i, -1) NOT IN (1 + i % 255, -1) OR kbf_get(s - part, i, -1) NOT IN (1 + i % 255, -1)) AS wrong, count(*) FILTER (WHERE kbf_get(s - part, i, -1) = 1 + i % 255) > 45 AS right_
FROM overload, generate_series(1, 50) i;
