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

CREATE FUNCTION iblt_internal.plain_found(query text, keys text[], rows text[])
RETURNS iblt_internal.found_rows
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found iblt_internal.found_rows;
BEGIN
	EXECUTE query INTO found USING keys, rows;
	IF (SELECT coalesce(sum(n), 0) FROM unnest(found.n) AS n) <> cardinality(rows) THEN
		PERFORM iblt_internal.plain_refuse('a key of the peer has another text or hash here',
			'Install iblt on the peer, and use method => ''sketch''.');
	END IF;
	RETURN found;
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_found(text, text[], text[]) IS
'what the lookup query of a finder gives for rows of the peer''s; an error unless it takes all';

CREATE FUNCTION iblt_internal.plain_find_both(conn text, plan iblt_internal.plan, keys text[],
	in_buckets boolean, OUT here iblt_internal.found_rows, OUT there iblt_internal.found_rows)
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer text;
	space integer;
BEGIN
	PERFORM iblt_internal.plain_ask(conn, iblt_internal.plain_rows_sql(plan, keys, in_buckets));
	here := iblt_internal.find_rows(
		(iblt_internal.plain_finder(plan, plan.here, in_buckets)).lookup, keys);
	answer := iblt_internal.peer_value(conn, 0, 2);
	space := strpos(answer, ' ');
	PERFORM iblt_internal.require_described(plan, here.fingerprint, left(answer, space - 1));
	there := iblt_internal.plain_found(
		(iblt_internal.plain_finder(plan, plan.there, in_buckets)).lookup, keys,
		substr(answer, space + 1)::text[]);
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_find_both(text, iblt_internal.plan, text[], boolean) IS
'the rows on both sides whose keys have these hashes, or are in these buckets';

CREATE FUNCTION iblt_internal.plain_look(conn text, plan iblt_internal.plan, buckets integer[])
RETURNS iblt_internal.difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	rows record;
BEGIN
	PERFORM iblt_internal.progress(plan.progress, format('reading the rows of %s buckets on both'
		' sides', cardinality(buckets)));
	rows := iblt_internal.plain_find_both(conn, plan, buckets::text[], true);
	RETURN iblt_internal.differing(plan, rows.here, rows.there, NULL);
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_look(text, iblt_internal.plan, integer[]) IS
'the differences among the rows of buckets, each side seen in one snapshot';

CREATE FUNCTION iblt_internal.plain_count(plan iblt_internal.plan, differences bigint,
	all_of_them boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF differences > plan.max_differences THEN
		RAISE EXCEPTION USING ERRCODE = 'IB002', MESSAGE = format(
				'too many differences: %s%s keys differ, and max_differences is %s',
				CASE WHEN all_of_them THEN '' ELSE 'at least ' END, differences,
				plan.max_differences), DETAIL = 'No differences are returned.',
			HINT = 'Raise max_differences, or install iblt on the peer.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_count(iblt_internal.plan, bigint, boolean) IS
'an error if more keys differ than max_differences';

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
	looked iblt_internal.difference[];
	batches iblt_internal.held[] := '{}';
	d iblt_internal.difference;
	found bigint := 0;
	differences bigint := 0;
	unconfirmed bigint := 0;
BEGIN
	PERFORM iblt_internal.plain_too_many(plan, figures, number);
	FOR done IN 0 .. number - 1 BY size LOOP
		looked := iblt_internal.plain_look(conn, plan, summed.buckets[done + 1 : done + size]);
		found := found + cardinality(looked);
		PERFORM iblt_internal.plain_count(plan, found, done + size >= number);
		IF plan.recheck > 0 THEN
			batches := iblt_internal.kept(batches, iblt_internal.hold(looked), number > size);
		ELSE
			RETURN QUERY SELECT * FROM unnest(looked);
		END IF;
	END LOOP;
	figures.lookup_ms := CASE WHEN number > 0 THEN iblt_internal.ms(started) END;
	started := clock_timestamp();
	FOR d IN SELECT * FROM iblt_internal.recheck_batches(conn, plan, batches) LOOP
		differences := differences + 1;
		unconfirmed := unconfirmed + (NOT d.confirmed)::integer;
		RETURN NEXT d;
	END LOOP;
	figures.recheck_ms := CASE WHEN batches <> '{}' THEN iblt_internal.ms(started) END;
	PERFORM iblt_internal.keep_figures(iblt_internal.all_figures(plan, figures, found,
		CASE WHEN plan.recheck > 0 THEN differences ELSE found END, unconfirmed));
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_differences(text, iblt_internal.plan) IS
'compares as a plan of plain_prepare says; at the end, the figures are kept';
