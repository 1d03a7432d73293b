-- The claim of what a sketch has named ----------------------------------------------------
--
-- If nothing replicates, and an index finds the rows, a repair that is applied looks at each key
-- once: under the locks.  The checksums of its rows then tell whether they are the rows of the
-- scans, because the key has their weight in the difference.  Texts travel in lists by column.

-- May the keys that find_keys has found be claimed at once?
CREATE FUNCTION repair_at_once(plan repair_plan) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (plan.asked).apply AND (plan.asked).winner = 'source' AND repair_finds_by_index(plan)
		AND (plan.compared).recheck = 0 AND (plan.compared).buckets IS NULL
		AND (plan.compared).from_digests IS NOT TRUE;
END
$$;

-- Are the target's rows locked for an action? A lock takes the right to update, which others must
-- not ask for.
CREATE FUNCTION repair_locks(asked repair_options, action text) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE action WHEN 'update' THEN asked.updates WHEN 'delete' THEN asked.deletes
		ELSE false END
$$;

-- The rows of keys of one action on target and source, those of the target locked, with the texts
-- that its statement takes.
-- The target is read first, because it may have to wait for a lock.  The rows are many, so they
-- are not copied to what is here and there.
-- Relies on: what lookups rely on, under its locks.
CREATE FUNCTION repair_find_rows(plan repair_plan, keys text[], action text,
	OUT target found_rows, OUT source found_rows) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
	how reading := reading_of(compared, keys, true);
	s side := repair_target(plan);
	f finder := finder(compared, s);
	found found_rows[];
BEGIN
	compared.content := CASE action WHEN 'update' THEN 'lists' WHEN 'delete' THEN 'key lists'
		ELSE 'none' END;
	found := find_rows(ARRAY[s.place], ARRAY[lookup_by_key_sql(compared, s, f,
		repair_locks(plan.asked, action))], how);
	target := found[1];
	PERFORM require_side_described(s, target.fingerprint),
		require_unique(compared, s, target.checksum, keys);
	s := repair_source(plan);
	compared.content := CASE action WHEN 'delete' THEN 'none' ELSE 'lists' END;
	found := find_rows(ARRAY[s.place], ARRAY[(finder(compared, s)).lookup], how);
	source := found[1];
	PERFORM require_side_described(s, source.fingerprint),
		require_unique(compared, s, source.checksum, keys);
END
$$;

-- The steps for keys of one action that are read once more, because rows are too long for lists:
-- with the hashes of long values, and without texts for keys that are equal; the checksums of the
-- rows, and whether some steps must not be made.
CREATE FUNCTION repair_long_steps(plan repair_plan, keys text[], action text,
	OUT steps repair_step[], OUT problems boolean, OUT here bigint[], OUT there bigint[])
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
	found record;
	made repair_made;
BEGIN
	compared.content := 'texts';
	found := find_both(compared, keys);
	here := (found.here).checksum;
	there := (found.there).checksum;
	EXECUTE repair_steps_sql(plan) INTO made
		USING differing(compared, found.here, found.there, keys), plan.secret;
	EXECUTE repair_listed_sql(plan, action) INTO steps, problems
		USING ARRAY(SELECT unnest(keys) EXCEPT SELECT s.id
			FROM unnest(made.deletes || made.updates || made.inserts) AS s),
			NULL::bigint[], NULL::bigint[], NULL::text[], NULL::text[];
	steps := made.deletes || made.updates || made.inserts || steps;
	-- the second query has no texts, so it sees a problem in each update of rows that are equal
	problems := made.problems;
END
$$;

-- The steps for keys of one action, which have these weights in a difference, without those of
-- rows that have changed since the scans; the keys whose rows an index may hide, because a side has
-- a row that it had not in the scans, or has none that it had; and how many keys are equal by now.
CREATE FUNCTION repair_claim_keys(plan repair_plan, keys text[], weights bigint[], action text,
	OUT steps repair_step[], OUT doubtful text[], OUT gone integer) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	target_side text := (plan.asked).target_side;
	x record := repair_find_rows(plan, keys, action);
	here bigint[] := CASE target_side WHEN 'here' THEN (x.target).checksum
		ELSE (x.source).checksum END;
	there bigint[] := CASE target_side WHEN 'here' THEN (x.source).checksum
		ELSE (x.target).checksum END;
	long boolean := action <> 'insert' AND (x.target).columns IS NULL
		OR action <> 'delete' AND (x.source).columns IS NULL;
	problems boolean;
	places integer[];
	equal text[];
	changed text[];
BEGIN
	IF long THEN
		SELECT s.* INTO steps, problems, here, there
		FROM repair_long_steps(plan, keys, action) AS s;
	ELSE
		EXECUTE repair_listed_sql(plan, action) INTO steps, problems
			USING keys, here, there, (x.source).columns, (x.target).columns;
	END IF;
	places := iblt_compare_changed((plan.compared).seed, weights, here, there);
	doubtful := '{}';
	gone := 0;
	IF places <> '{}' THEN
		SELECT array_agg(k.id) FILTER (WHERE k.here IS NOT DISTINCT FROM k.there),
			array_agg(k.id) FILTER (WHERE k.here IS DISTINCT FROM k.there),
			coalesce(array_agg(k.id) FILTER (WHERE (repair_target_of(target_side, k.here,
				k.there) IS NULL) <> (action = 'insert') OR (repair_source_of(target_side, k.here,
				k.there) IS NULL) <> (action = 'delete')), '{}')
		INTO equal, changed, doubtful
		FROM unnest(keys, here, there) WITH ORDINALITY AS k(id, here, there, n)
		WHERE k.n = ANY (places);
		changed := changed || repair_unequal(plan, equal, repair_locks(plan.asked, action));
		equal := ARRAY(SELECT unnest(equal) EXCEPT SELECT unnest(changed));
		gone := cardinality(equal);
		steps := repair_skip(repair_skip(steps, changed, 'changed since it was compared'), equal,
			'equal by now');
	END IF;
	steps := repair_judged(plan, steps, '{}', problems);
	IF (repair_target(plan)).condition IS NOT NULL THEN
		steps := repair_outside(plan, steps);
	END IF;
	IF long THEN
		steps := repair_fill(plan, steps);
	END IF;
END
$$;

-- Claims the keys of a difference: locks both sides, and makes the steps for the rows as they are
-- under the locks.
CREATE FUNCTION repair_claim_found(INOUT work repair_work, figures figures, list bytea,
	number bigint, sample @extschema@.iblt) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	compared plan := plan.compared;
	started timestamptz := clock_timestamp();
	size integer := batch_size(compared);
	batch record;
	part text;
	due record;
	claimed record;
	doubtful text[] := '{}';
	differences bigint := number;
	message text := format('locking the rows of %s keys', number);
BEGIN
	PERFORM repair_begin(ARRAY[plan], CASE WHEN number = 0 THEN '{}' ELSE ARRAY[plan] END);
	IF number > 0 THEN
		PERFORM progress(compared.progress, message), progress_by_time(compared.progress);
	END IF;
	FOR done IN 0 .. number - 1 BY size LOOP
		PERFORM progress_timely(format('%s, %s are done', message, done));
		batch := iblt_compare_keys(sample, list, done::integer, size);
		FOREACH part IN ARRAY '{both,here,there}'::text[] LOOP
			SELECT array_agg(b.id) AS keys, array_agg(b.weight) AS weights INTO due
			FROM (SELECT unnest(batch.keys) AS id, unnest(batch.sides) AS side,
				unnest(batch.weights) AS weight) AS b WHERE b.side = part;
			CONTINUE WHEN due.keys IS NULL;
			claimed := repair_claim_keys(plan, due.keys, due.weights,
				CASE part WHEN 'both' THEN 'update' WHEN (plan.asked).target_side THEN 'delete'
				ELSE 'insert' END);
			work := repair_add(work, claimed.steps);
			doubtful := doubtful || claimed.doubtful;
			differences := differences - claimed.gone;
		END LOOP;
	END LOOP;
	PERFORM check_index(compared, doubtful), repair_absent(work), repair_cascades(work);
	figures.lookup_ms := CASE WHEN number > 0 THEN ms(started) END;
	PERFORM keep_figures(all_figures(compared, figures, number, differences, 0));
	work.figures := compare_stats();
END
$$;
