-- Filters that get more labels, and that get a successor when they are full.
\i test/sql/common.psql
CREATE TEMP TABLE m AS SELECT kbf_new(300, labels => '{new,open}') AS s;

-- more labels leave all cells as they are; those that are there already are left out
CREATE TEMP TABLE f AS
SELECT kbf_agg(i, CASE i % 2 WHEN 0 THEN 'new' ELSE 'open' END, (SELECT s FROM m)) AS old FROM generate_series(1, 200) i;
ALTER TABLE f ADD wide kbf;
UPDATE f SET wide = kbf_add_labels(old, '{open,done,green}');
SELECT (kbf_info(old)).labels AS old, (kbf_info(wide)).labels AS wide, (kbf_info(wide)).distinct_values, old = wide AS same, wide = old AS either_way, old::bytea = wide::bytea AS same_bytes,
	   kbf_add_labels(wide, '{}')::bytea = wide::bytea AND kbf_add_labels(wide, '{new,done}')::bytea = wide::bytea AS nothing_new FROM f;
SELECT count(*) FILTER (WHERE kbf_get_label(wide, i, '?') = CASE i % 2 WHEN 0 THEN 'new' ELSE 'open' END) >= 198 AS right_,
	   count(*) FILTER (WHERE kbf_get_label(wide, i, 'new') <> CASE i % 2 WHEN 0 THEN 'new' ELSE kbf_get_label(wide, i, 'new') END) AS wrong FROM f, generate_series(1, 200) i;
SELECT kbf_lookup(kbf_insert(wide, 1001, 'green'::text), 1001), pg_temp.outcome('SELECT kbf_insert(old, 1001, ''done''::text) FROM f') AS old FROM f;
-- they go together, in either order, in sums, differences, folds, aggregates and look-ups
CREATE TEMP TABLE g AS SELECT kbf_agg(i, 'done'::text, (SELECT wide FROM f)) AS more FROM generate_series(301, 350) i;
SELECT (old + more)::bytea = (wide + more)::bytea AS sum, (more + old)::bytea = (wide + more)::bytea AS commutes, (old + more - more)::bytea = wide::bytea AS difference, (wide - old)::bytea = (kbf_add_labels(old, '{done,green}') - wide)::bytea AS all_gone,
	   pg_temp.outcome('SELECT old - more FROM f, g') AS not_in_it, kbf_fold(wide, old)::bytea = wide::bytea AS folds, (kbf_info(old - old + more)).labels FROM f, g;
SELECT (SELECT kbf_sum(s)::bytea FROM (VALUES (old), (more), (s0)) v(s)) = (old + more)::bytea AS sum, (SELECT kbf_sum(s)::bytea FROM (VALUES (more), (s0), (old)) v(s)) = (old + more)::bytea AS either_way
FROM f, g, (SELECT s FROM m) x(s0);
SELECT l.*, m2.* FROM f, g, kbf_lookup(ARRAY[old, more], 301) l, kbf_lookup(ARRAY[more, old], 2) m2;
SELECT (SELECT kbf_agg(i, 'open'::text, CASE WHEN i < 5 THEN old ELSE wide END)::bytea FROM generate_series(1, 9) i) = (SELECT kbf_agg(i, 'open'::text, wide)::bytea FROM generate_series(1, 9) i) AS template_grows FROM f;
-- other labels after the same beginning, other ones at all, or none: not together
SELECT call, pg_temp.outcome('SELECT ' || call || ' FROM f, g, m') AS outcome
FROM unnest(ARRAY['wide + kbf_add_labels(old, ''{done,rot}'')', 'kbf_lookup(ARRAY[wide, kbf_add_labels(old, ''{green}'')], 1)', 'old + kbf_new(300, 2)', 'kbf_lookup(ARRAY[old, kbf_new(300, 2)], 1)',
	'kbf_add_labels(kbf_new(300, 2), ''{a}'')', 'kbf_add_labels(old, NULL)', 'kbf_add_labels(old, ''{NULL}'')', 'kbf_add_labels(old, ''{""}'')', 'kbf_add_labels(NULL, ''{a}'')', 'kbf_add_labels(old, ''{{a},{b}}'')']) call;
-- up to the room of the codes, and then all can be told apart
SELECT degree, pg_temp.outcome(format('SELECT kbf_add_labels(old, ARRAY(SELECT i::text FROM generate_series(3, %s) i)) FROM f', 2 ^ degree)) AS too_many,
	   (kbf_info(kbf_add_labels(old, ARRAY(SELECT i::text FROM generate_series(3, (2 ^ degree)::int - 1) i)))).distinct_values = 2 ^ degree - 1 AS all_of_them
FROM f, kbf_info(old);
SELECT count(*) FILTER (WHERE kbf_get(t, i, -1) = 1 + i % most) >= 297 AS right_, count(*) FILTER (WHERE kbf_get(t, i, -1) NOT IN (-1, 1 + i % most)) AS wrong
FROM (SELECT most, kbf_agg(i, 1 + i % most, w.s) FROM f, kbf_info(old), LATERAL (SELECT (2 ^ degree)::int - 1) d(most), LATERAL (SELECT kbf_add_labels(old, ARRAY(SELECT i::text FROM generate_series(3, most) i))) w(s), generate_series(1, 300) i GROUP BY most) x(most, t), generate_series(1, 300) i;

-- an enum that got a value at its end is followed, by insertions and by templates; one that got it elsewhere is not
CREATE TYPE pg_temp.state AS ENUM ('new', 'open');
CREATE TEMP TABLE e AS SELECT kbf_agg(i, (enum_range(NULL::state))[1 + i % 2], 300) AS before FROM generate_series(1, 100) i;
ALTER TYPE pg_temp.state ADD VALUE 'closed';
SELECT (kbf_info(kbf_insert(before, 101, 'open'::state))).labels AS known, (kbf_info(kbf_insert(before, 101, 'closed'::state))).labels AS first_seen,
	   kbf_get_label(kbf_insert(before, 101, 'closed'::state), 101) AS inserted, kbf_get_label(kbf_update(before, 5, 'closed'::state), 5) AS updated, pg_temp.outcome('SELECT kbf_delete(before, 5, ''closed''::state) FROM e') AS deleted FROM e;
CREATE TEMP TABLE e2 AS SELECT kbf_agg(i, 'closed'::state, (SELECT before FROM e)) AS after FROM generate_series(201, 250) i;
SELECT (kbf_info(after)).labels AS template, (kbf_info(before + after)).labels AS sum, (kbf_info((SELECT kbf_agg(1, 'new'::state, (SELECT before FROM e)) WHERE false))).labels AS no_rows,
	   (SELECT count(*) FROM generate_series(1, 250) i WHERE coalesce(kbf_get_label(before + after, i, ''), 'absent') NOT IN ('', CASE WHEN i <= 100 THEN (enum_range(NULL::state))[1 + i % 2]::text WHEN i > 200 THEN 'closed' END)) AS wrong FROM e, e2;
ALTER TYPE pg_temp.state ADD VALUE 'draft' BEFORE 'new';
SELECT pg_temp.outcome('SELECT kbf_insert(before, 101, ''draft''::state) FROM e') AS in_front, (kbf_info(kbf_insert(kbf_add_labels(before, enum_range(NULL::state)::text[]), 101, 'draft'::state))).labels AS by_hand FROM e;

-- a successor takes what a full filter has no room for
CREATE TEMP TABLE t AS SELECT kbf_new(100) AS s;
CREATE FUNCTION pg_temp.grown(batches integer, size integer) RETURNS kbf[] LANGUAGE plpgsql AS $$
DECLARE
	filters kbf[] := '{}';
BEGIN
	FOR b IN 0 .. batches - 1 LOOP
		filters := kbf_append(filters, (SELECT kbf_agg(i, 1 + i % 255, (SELECT s FROM t)) FROM generate_series(b * size + 1, (b + 1) * size) i));
	END LOOP;
	RETURN filters;
END
$$;
SELECT size, batches, cardinality(g) AS filters, (SELECT sum((kbf_info(x)).keys) FROM unnest(g) x) AS keys, (SELECT bool_and((kbf_info(x)).keys <= (kbf_info(x)).capacity) FROM unnest(g) x) AS within,
	   (SELECT count(*) FROM generate_series(1, size * batches) i, kbf_lookup(g, i) l WHERE l.status = 'absent' OR l.value <> 1 + i % 255) AS wrong, (SELECT count(*) FROM generate_series(1, size * batches) i, kbf_lookup(g, i) l WHERE l.status = 'unknown') <= 5 AS few_unknown
FROM (VALUES (10, 30), (60, 5), (1, 3)) v(size, batches), LATERAL (SELECT pg_temp.grown(batches, size)) x(g);
SELECT cardinality(kbf_append(ARRAY[s], s)) AS empty, cardinality(kbf_append(ARRAY[s], many)) AS into_empty, cardinality(kbf_append(ARRAY[many], s)) AS nothing_more, cardinality(kbf_append(ARRAY[many], few)) AS full_, cardinality(kbf_append(ARRAY[many], kbf_insert(s, 1001, 1))) AS one_more,
	   cardinality(kbf_append(ARRAY[few], few2)) AS room, cardinality(kbf_append(ARRAY[few], few2, failure => 1e-6)) AS less_room
FROM t, LATERAL (SELECT kbf_agg(i, 1, s), kbf_agg(i, 1, s) FILTER (WHERE i <= 40), kbf_agg(i, 1, s) FILTER (WHERE i BETWEEN 41 AND 80) FROM generate_series(1, 1000) i) x(many, few, few2);
SELECT (kbf_info((kbf_append(ARRAY[old], more))[1])).labels AS labels_grow FROM f, g;
SELECT call, pg_temp.outcome('SELECT ' || call || ' FROM t') AS outcome
FROM unnest(ARRAY['kbf_append(NULL, s)', 'kbf_append(ARRAY[s], NULL)', 'kbf_append(ARRAY[s, NULL], s)', 'kbf_append(ARRAY[s], s, NULL)', 'kbf_append(ARRAY[s], s, 2)', 'kbf_append(ARRAY[s], kbf_new(100, seed => 1))']) call;
