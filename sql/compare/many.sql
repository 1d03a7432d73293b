-- Too many differences --------------------------------------------------------------
--
-- find_keys calls search (sketch.sql).  If more keys differ than max_differences, it
-- compares once more when replication has passed, and then refuses them or takes a sample.

-- What such an error says that was caught, NULL for any other one.
CREATE FUNCTION told_too_many(e failure, OUT rows_here bigint, OUT rows_there bigint,
	OUT stuck text)
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT nullif(m[1], '')::bigint, nullif(m[2], '')::bigint, nullif(m[3], '')
	FROM (SELECT CASE WHEN e.state IN ('IB002', 'IB003')
		THEN regexp_match(e.datatype_name, '^(\d*) (\d*) (.*)$') END) AS x(m)
$$;

-- Did most of what differs now differ before, in the same way?  Of several nodes, on the one that
-- differs most from the base now.  All sketches have one seed.
-- Rows of "before" and "after" cancel if both differences have them: of n and m rows
-- with c in common, n + m - 2c are left.  Fewer than n if c is more than half of m.
CREATE FUNCTION persist(before found_keys, after found_keys) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	b declared.sketch%TYPE := before.sample;
	a declared.sketch%TYPE := after.sample;
	now declared.sketch%TYPE;
	cells integer;
BEGIN
	FOR n IN 1 .. coalesce(cardinality(after.small), 0) LOOP
		now := iblt_subtract(after.small[after.base], after.small[n]);
		IF n = 1 OR (iblt_estimate(now)).rows > (iblt_estimate(a)).rows THEN
			a := now;
			b := iblt_subtract(before.small[after.base], before.small[n]);
		END IF;
	END LOOP;
	cells := gcd((iblt_header(b)).cells / (iblt_header(b)).hashes,
		(iblt_header(a)).cells / (iblt_header(a)).hashes);
	-- folds of digests have many sizes; the estimate is that of the meter, whatever the size
	RETURN (iblt_estimate(iblt_subtract(iblt_compare_fold(a, cells),
			iblt_compare_fold(b, cells)))).rows
		< (iblt_estimate(b)).rows;
END
$$;

-- Where about "number" keys differ, those in a part of the keys, and the plan of that part; an
-- error if a sample is not wanted, if it is too large, or if there is a problem, which leaves open
-- whether they are rows in flight.
-- An audit takes the numbers of rows from it, and where replication is stuck (told_too_many).
-- A hash chooses the keys, so each has the same chance to be in the sample.  Of few, the
-- estimate of the sketches is the better one.  If a single key is wanted, a part has more than
-- one of them with a chance of 19 %, and after three attempts still of 2 %.
CREATE FUNCTION take_sample(plan plan, before found_keys, waited waited) RETURNS found_keys
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	wanted integer := least(plan.max_differences, 5000);
	found found_keys := before;
	digests boolean;		-- more than these can tell, and perhaps not more than max_differences
	e found_keys;
	how_many text;
	estimate text;
	told text;
BEGIN
	IF waited.problem IS NULL AND plan.sample
			AND (plan.from_digests AND plan.live = 'require') IS NOT TRUE THEN
		IF plan.from_digests THEN
			plan := live_give_up(plan, 'a sample is of a part of the keys');
		END IF;
		plan.part := 0;
		plan.parts := greatest(2, ceil(before.number / (0.8 * wanted)));
		FOR attempt IN 1 .. 10 LOOP
			PERFORM progress(plan.progress, format('about %s keys differ: comparing one of %s '
				'parts of them', before.number, plan.parts));
			e := exchange(plan, greatest(4000, 2 * wanted), found.figures);
			found.figures := e.figures;
			IF e.keys IS NOT NULL AND e.number <= plan.max_differences THEN
				found.plan := plan;
				found.figures.rows_here := (before.figures).rows_here;
				found.figures.rows_there := (before.figures).rows_there;
				found.figures.estimated := CASE WHEN before.exact OR e.number < 200
					THEN before.number ELSE e.number * plan.parts END;
				found.keys := e.keys;
				found.number := e.number;
				found.exact := true;
				found.sample := e.sample;
				RETURN found;
			END IF;
			plan.parts := 2 * plan.parts;
		END LOOP;
	END IF;
	digests := plan.from_digests AND NOT before.exact AND before.number <= plan.max_differences;
	how_many := format(CASE WHEN digests THEN '%s%s keys differ, more than live digests of this '
			'capacity can tell' ELSE '%s%s keys differ, and max_differences is %s' END,
		CASE before.exact WHEN true THEN '' WHEN false THEN 'about ' ELSE 'at least ' END,
		before.number, plan.max_differences);
	estimate := CASE WHEN before.exact IS NOT FALSE THEN NULL
		WHEN plan.buckets IS NOT NULL THEN 'The number is an estimate.' WHEN plan.is_unique
		THEN 'The number is an estimate, with a standard deviation of about 10 %.'
		ELSE 'The number is an estimate. A key with several rows may count more than once.' END;
	told := concat((before.figures).rows_here, ' ', (before.figures).rows_there, ' ', waited.stuck);
	IF waited.problem IS NOT NULL THEN
		RAISE SQLSTATE 'IB003' USING DATATYPE = told,
			MESSAGE = 'too many differences to confirm: ' || how_many,
			DETAIL = concat_ws(' ', 'These may be rows in flight.', waited.problem, estimate),
			HINT = 'Compare again when replication has caught up, or raise max_differences or '
				'timeout.';
	END IF;
	RAISE SQLSTATE 'IB002' USING DATATYPE = told,
		MESSAGE = 'too many differences: ' || how_many,
		DETAIL = concat_ws(' ', 'No differences are returned.', estimate,
			CASE WHEN plan.recheck > 0 AND plan.links <> '{}'
			THEN 'Replication had passed before the relations were compared once more.' END),
		HINT = CASE WHEN digests THEN 'CALL iblt_track with a larger capacity on both sides, or '
				'compare by a scan, with live => ''auto''.'
			ELSE 'Raise max_differences, compare a part of the rows by a condition, or '
				|| CASE WHEN plan.buckets IS NULL THEN 'take a sample (on_too_many).'
				ELSE 'install iblt on the peer.' END END;
END
$$;

-- The keys that differ, at most max_differences, how many these are, a fold of the
-- difference, and the plan with the seed used; if there are more, after a wait for what is in
-- flight, an error or a sample.  With "many", what was found before has turned out to be too many.
-- Too many differences are not rechecked one by one, and may all be rows in flight.  When
-- replication has passed, everything is compared once more, with the seed of the first time.
CREATE FUNCTION find_keys(plan plan, many found_keys DEFAULT NULL) RETURNS found_keys
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	found found_keys;
	before found_keys;
	deadline timestamptz;
	waited waited;
BEGIN
	IF many.number IS NOT NULL THEN
		found := many;
	ELSE
		IF plan.versions THEN
			PERFORM require_version_rights(plan);
		END IF;
		found := search(plan, NULL);
	END IF;
	IF found.keys IS NOT NULL THEN
		IF found.number > 0 THEN
			-- what this session keeps may be large
			PERFORM iblt_session_drop('iblt here'), iblt_session_drop('iblt there');
		END IF;
		RETURN found;
	END IF;
	plan.found := NULL;
	plan.from_digests := (found.plan).from_digests;
	IF found.sums_before IS NULL THEN
		deadline := clock_timestamp() + plan.timeout;
		waited.problem := 'Replication of this relation is not ready. ' || unready(plan);
		IF waited.problem IS NULL AND plan.recheck > 0 THEN
			PERFORM progress(plan.progress, format(
				'more than %s keys differ: waiting for replication, to compare once more',
				plan.max_differences));
			waited.problem := settle_all(plan, deadline);
			IF waited.problem IS NULL THEN
				waited := pass(plan, deadline);
			END IF;
			waited.problem := 'iblt did not see replication pass within the timeout ('
				|| plan.timeout || '): ' || waited.problem || '.';
		END IF;
		IF waited.problem IS NULL AND plan.recheck > 0 THEN
			before := found;
			plan.timeout := greatest(deadline - clock_timestamp(), '0 s');
			found := search(plan, found.figures);
			found.sums_before := before.sums;
			IF found.keys IS NOT NULL THEN
				RETURN found;
			END IF;
		END IF;
	END IF;
	waited.problem := coalesce(waited.problem, CASE
		WHEN (found.plan).from_digests IS DISTINCT FROM plan.from_digests
		THEN 'Live digests could tell the keys at first, and could not any more.'
		WHEN found.sums_before IS NOT NULL THEN CASE
			WHEN NOT plain_persist(found.sums_before, found.sums)
			THEN 'Perhaps most of them did not differ before replication passed.' END
		WHEN before.number IS NOT NULL AND NOT persist(before, found)
		THEN 'Most of them did not differ before replication passed.' END);
	RETURN take_sample(plan, found, waited);
END
$$;
