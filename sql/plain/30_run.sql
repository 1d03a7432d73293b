-- Carrying out a plain comparison ------------------------------------------------------

CREATE FUNCTION iblt_internal.plain_sums(conn text, plan iblt_internal.plan,
	OUT figures iblt_internal.figures, OUT buckets integer[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	mine text;
	theirs text;
BEGIN
	PERFORM iblt_internal.progress(plan.progress, format('summing the rows up on both sides'
		' in %s buckets', plan.buckets));
	PERFORM iblt_internal.plain_ask(conn, iblt_internal.plain_sums_sql(plan, plan.there));
	EXECUTE iblt_internal.plain_sums_sql(plan, plan.here) INTO mine;
	figures.scan_here_ms := iblt_internal.ms(started);
	theirs := iblt_internal.peer_value(conn, 0, 2);
	figures.scan_there_ms := iblt_internal.ms(started);
	figures.scan_ms := iblt_internal.ms(started);
	PERFORM iblt_internal.require_described(plan, split_part(mine, ' ', 1),
		split_part(theirs, ' ', 1));
	figures.rows_here := split_part(mine, ' ', 2);
	figures.rows_there := split_part(theirs, ' ', 2);
	buckets := ARRAY(SELECT (n - 1)::integer FROM unnest(split_part(mine, ' ', 3)::numeric[],
		split_part(theirs, ' ', 3)::numeric[]) WITH ORDINALITY AS u(h, t, n)
		WHERE h IS DISTINCT FROM t ORDER BY n);
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_sums(text, iblt_internal.plan) IS
'the buckets whose rows differ';

-- If d of n buckets differ, about -n ln(1 - d/n) keys do.  If all of them differ, no more
-- is known than that they are many.
CREATE FUNCTION iblt_internal.plain_too_many(plan iblt_internal.plan, figures iblt_internal.figures,
	differing integer) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	n double precision := plan.buckets;
	few boolean := greatest(figures.rows_here, figures.rows_there) < 200000;
	about bigint := CASE WHEN differing < n THEN round(-n * ln(1 - differing / n)) END;
BEGIN
	IF differing > plan.max_differences OR NOT few
			AND coalesce(about, round(n * ln(n))) > plan.max_differences THEN
		RAISE EXCEPTION USING ERRCODE = 'IB002', MESSAGE = format(
				'too many differences: %s %s keys differ, and max_differences is %s',
				CASE WHEN about IS NULL THEN 'at least' ELSE 'about' END,
				coalesce(about, differing), plan.max_differences),
			DETAIL = format('No differences are returned. Rows of %s among %s buckets differ.',
				differing, n),
			HINT = 'Raise max_differences, or install iblt on the peer.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_too_many(iblt_internal.plan, iblt_internal.figures, integer)
IS 'an error if more keys differ than max_differences, as the number of buckets tells';

-- The rows of a batch are in memory on both sides, as texts: about 100 MB.
CREATE FUNCTION iblt_internal.plain_batch(plan iblt_internal.plan, figures iblt_internal.figures)
RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT greatest(1, least(plan.buckets, least(100e6 * plan.buckets / greatest(plan.bytes, 1),
		5e5 * plan.buckets / greatest(figures.rows_here, figures.rows_there, 1))))::integer
$$;
COMMENT ON FUNCTION iblt_internal.plain_batch(iblt_internal.plan, iblt_internal.figures) IS
'of how many buckets rows are read at a time';

CREATE FUNCTION iblt_internal.plain_look(conn text, plan iblt_internal.plan, buckets integer[])
RETURNS iblt_internal.difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	theirs text;
	space integer;
	fingerprint text;
	result iblt_internal.difference[];
BEGIN
	PERFORM iblt_internal.progress(plan.progress, format('reading the rows of %s buckets on both'
		' sides', cardinality(buckets)));
	PERFORM iblt_internal.plain_ask(conn, iblt_internal.plain_rows_sql(plan, buckets));
	theirs := iblt_internal.peer_value(conn, 0, 2);
	space := strpos(theirs, ' ');
	EXECUTE iblt_internal.plain_pairs_sql(plan, buckets) INTO fingerprint, result
		USING substr(theirs, space + 1)::text[];
	PERFORM iblt_internal.require_described(plan, fingerprint, left(theirs, space - 1));
	RETURN result;
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_look(text, iblt_internal.plan, integer[]) IS
'the differences among the rows of buckets, each side seen in one snapshot';

CREATE FUNCTION iblt_internal.plain_differences(conn text, plan iblt_internal.plan)
RETURNS SETOF iblt_internal.difference
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	summed record := iblt_internal.plain_sums(conn, plan);
	figures iblt_internal.figures := summed.figures;
	started timestamptz := clock_timestamp();
	number integer := cardinality(summed.buckets);
	size integer := iblt_internal.plain_batch(plan, figures);
	batch iblt_internal.difference[];
	differences bigint := 0;
BEGIN
	PERFORM iblt_internal.plain_too_many(plan, figures, number);
	FOR done IN 0 .. number - 1 BY size LOOP
		batch := iblt_internal.plain_look(conn, plan, summed.buckets[done + 1 : done + size]);
		differences := differences + cardinality(batch);
		IF differences > plan.max_differences THEN
			RAISE EXCEPTION USING ERRCODE = 'IB002', MESSAGE = format(
					'too many differences: %s %s keys differ, and max_differences is %s',
					CASE WHEN done + size < number THEN 'at least' ELSE '' END, differences,
					plan.max_differences), DETAIL = 'No differences are returned.',
				HINT = 'Raise max_differences, or install iblt on the peer.';
		END IF;
		RETURN QUERY SELECT * FROM unnest(batch);
	END LOOP;
	figures.lookup_ms := CASE WHEN number > 0 THEN iblt_internal.ms(started) END;
	figures := iblt_internal.all_figures(plan, figures, differences, differences, 0);
	PERFORM iblt_internal.keep_figures(figures);
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_differences(text, iblt_internal.plan) IS
'compares as a plan of plain_prepare says; at the end, the figures are kept';
