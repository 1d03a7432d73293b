-- What a run says of the time that is left, from 10 % of the run on, against what it then takes.
-- The slices are simulated: of each, the time is known.
SET extra_float_digits = 0;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt;
SET search_path = iblt_internal, public;

-- The largest error of the expected end, in percent of the length of a run that begins with
-- "begun" ms for an index, and takes "fixed" ms for a slice and that many microseconds for a row,
-- up to a third more or less.
CREATE FUNCTION pg_temp.worst(begun float8, fixed float8, each_us float8, total bigint,
	options run_options, seed float8) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	t run_table;
	s run_slice;
	r audit_row;
	took float8;
	spent float8;
	seen bigint;
	at float8[] := '{}';
	expected float8[] := '{}';
	n integer := 0;
BEGIN
	PERFORM setseed(seed);
	SELECT 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 INTO t.done, t.rows_here, t.rows_there, t.missing,
		t.extra, t.changed, t.unconfirmed, t.bytes, t.work_ms, t.wall_ms;
	t.estimate := total;
	t.slice_rows := 10000;
	SELECT 0, 0, 0, 0, 0 INTO r.missing, r.extra, r.changed, r.unconfirmed, r.bytes;
	WHILE t.rows_here < total LOOP
		s.rows := t.slice_rows;
		seen := least(s.rows, total - t.rows_here);
		took := fixed + seen * each_us / 1000 * (0.67 + 0.66 * random());
		r.rows_here := seen;
		r.rows_there := seen;
		spent := took + CASE n WHEN 0 THEN begun ELSE 0 END;
		t := run_count(t, r, spent);
		t.slice_rows := run_next_rows(s, seen, 0, 100000, options.slice_ms, took);
		t := run_timed(t, seen, spent + 1000 * CASE WHEN t.rows_here < total
			THEN run_pause_after(options, spent / 1000, seen) ELSE 0 END);
		n := n + 1;
		at[n] := t.wall_ms;
		expected[n] := t.wall_ms + t.left_ms;
	END LOOP;
	RETURN (SELECT max(abs(e - at[n])) / at[n] * 100 FROM unnest(at, expected) AS x(a, e)
		WHERE a >= at[n] / 10);
END $$;

CREATE FUNCTION pg_temp.options(slice_ms integer, max_load float8, max_rate bigint)
RETURNS run_options LANGUAGE sql AS $$
	SELECT jsonb_populate_record(NULL::run_options, jsonb_build_object('slice_ms', slice_ms,
		'max_load', max_load, 'max_rate', max_rate))
$$;

-- With and without max_load and max_rate, an index that takes long to check, and slices that
-- cost much beside their rows.
SELECT load, rate, begun, fixed, max(worst) > 0 AS measured, max(worst) <= 20 AS ok
FROM (VALUES (NULL::float8, NULL::bigint), (0.25, NULL), (NULL, 40000), (0.5, 100000)) AS o(load, rate),
	(VALUES (0), (5000)) AS b(begun), (VALUES (5), (200)) AS f(fixed),
	generate_series(1, 5) AS seed,
	LATERAL pg_temp.worst(begun, fixed, 10, 8000000, pg_temp.options(1000, load, rate), seed / 10.0)
		AS worst
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;

-- There is no pause without limits, one in proportion to max_load, and one up to the rate.
SELECT run_pause_after(pg_temp.options(1000, NULL, NULL), 2, 1000) AS none,
	run_pause_after(pg_temp.options(1000, 0.25, NULL), 2, 1000) AS load,
	run_pause_after(pg_temp.options(1000, NULL, 100), 2, 1000) AS rate,
	run_pause_after(pg_temp.options(1000, NULL, 1000), 2, 1000) AS slow;
