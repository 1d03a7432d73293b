-- Comparisons of slices: ranges of the key, which an index cuts.  What all slices of a
-- relation find is what one comparison of the whole finds.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt;
CREATE SCHEMA slices;
SET search_path = slices, public;
SELECT setseed(0.4711);

CREATE FUNCTION plan_of(here regclass, there regclass, options jsonb DEFAULT '{}') RETURNS iblt_internal.plan LANGUAGE sql AS $$
	SELECT iblt_internal.prepare(NULL, here, there::text,
		jsonb_populate_record(iblt_internal.make_options(here, NULL, NULL, NULL, NULL, NULL, 100000, 'none', true, 'ignore', 0, '1 minute', NULL, false), options))
$$;
CREATE FUNCTION refusal(here regclass, there regclass, options jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
	SELECT iblt_internal.slice_refusal(plan_of(here, there, options))
$$;
CREATE FUNCTION outcome(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' ', sqlstate, sqlerrm, nullif('(' || detail || ')', '()'));
END $$;

-- the slices of about that many rows, and what each finds
CREATE FUNCTION sliced(here regclass, there regclass, size bigint, options jsonb DEFAULT '{}')
RETURNS TABLE (lo text[], hi text[], rows_here bigint, rows_there bigint, differences text[])
	LANGUAGE plpgsql
	SET DateStyle = 'ISO' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC' SET extra_float_digits = 1
AS $$
DECLARE
	plan iblt_internal.plan := slices.plan_of(here, there, options);
	r iblt_internal.comparison;
BEGIN
	LOOP
		hi := iblt_internal.slice_next(NULL, plan, lo, size);
		plan.lo := lo;
		plan.hi := hi;
		r := iblt_internal.run(NULL, plan);
		rows_here := (r.figures).rows_here;
		rows_there := (r.figures).rows_there;
		differences := ARRAY(SELECT concat_ws(' ', d.key, d.side, d.here_count, d.there_count) FROM unnest(r.differences) AS d);
		RETURN NEXT;
		EXIT WHEN hi IS NULL;
		lo := hi;
	END LOOP;
END $$;
-- Do slices find what one comparison finds, and read each row once?  Have they the size that was asked for?
CREATE FUNCTION same(here regclass, there regclass, size bigint, options jsonb DEFAULT '{}', OUT slices bigint, OUT differ bigint,
	OUT all_found boolean, OUT each_once boolean, OUT not_larger boolean)
	LANGUAGE plpgsql AS $$
DECLARE
	whole iblt_internal.comparison := iblt_internal.run(NULL, slices.plan_of(here, there, options));
	found text[];
	lines text;
BEGIN
	found := ARRAY(SELECT concat_ws(' ', d.key, d.side, d.here_count, d.there_count) FROM unnest(whole.differences) AS d ORDER BY 1);
	differ := cardinality(found);
	SELECT count(*), (whole.figures).rows_here = sum(s.rows_here) AND (whole.figures).rows_there = sum(s.rows_there),
		bool_and(greatest(s.rows_here, s.rows_there) <= size),
		string_agg(array_to_string(s.differences, E'\n'), E'\n') FILTER (WHERE s.differences <> '{}')
	INTO slices, each_once, not_larger, lines
	FROM slices.sliced(here, there, size, options) AS s;
	all_found := found = ARRAY(SELECT u FROM unnest(string_to_array(lines, E'\n')) AS u ORDER BY 1);
END $$;

CREATE TABLE mine (id int PRIMARY KEY, v text);
CREATE TABLE theirs (id bigint PRIMARY KEY, v text);
INSERT INTO mine SELECT i, 'v' || i FROM generate_series(1, 1000) AS i;
INSERT INTO theirs TABLE mine;
DELETE FROM mine WHERE id IN (1, 100, 500, 1000);
DELETE FROM theirs WHERE id IN (2, 200, 501, 999);
UPDATE theirs SET v = 'x' WHERE id IN (3, 300, 502, 998);

SELECT * FROM sliced('mine', 'theirs', 300);
SELECT * FROM same('mine', 'theirs', 300);
SELECT * FROM same('mine', 'theirs', 1000000);
SELECT * FROM same('mine', 'theirs', 70, '{"condition": "id % 3 <> 0 -- every"}');
SELECT * FROM same('theirs', 'mine', 1);
-- one side is empty
CREATE TABLE none (LIKE mine INCLUDING ALL);
SELECT lo, hi, rows_here, rows_there, cardinality(differences) FROM sliced('none', 'mine', 400);
CREATE TABLE nothing (LIKE mine INCLUDING ALL);
SELECT lo, hi, rows_here, rows_there FROM sliced('none', 'nothing', 400);
