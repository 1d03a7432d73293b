-- The claim ------------------------------------------------------------------------
--
-- Before a repair changes rows, it locks them and looks at them again, and skips those that have
-- changed since they were compared.  If an index finds them, this look brings their texts, in lists
-- by column.  A preview takes the same look without locks.
--
-- If nothing replicates, a repair that is applied does not look at such keys before
-- (repair_claim_found).  The checksums of the rows then tell whether they are the rows of the
-- scans, because the key has their weight in the difference.

-- Says what is done with the steps of a batch: of the first one, and later by time.
CREATE FUNCTION repair_progress(work repair_work, what text, n integer) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	shown boolean := ((work.plan).compared).progress;
	message text := format('%s of %s keys%s', what, work.keys,
		CASE WHEN n > 1 THEN format(', %s of %s batches are done', n - 1, work.batches) END);
BEGIN
	IF n = 1 THEN
		PERFORM progress(shown, message), progress_by_time(shown);
	ELSE
		PERFORM progress_timely(message);
	END IF;
END
$$;

-- The checksums of the rows of keys on both sides, at least of the keys whose rows differ now.
-- Checksums tell what has changed.  The rows themselves may be large.
CREATE FUNCTION repair_look(plan repair_plan, INOUT ids text[], stamps boolean,
	OUT here text[], OUT there text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
	found found_rows[];
BEGIN
	compared.content := CASE WHEN stamps THEN 'stamp' ELSE 'none' END;
	compared.versions := false;
	IF repair_finds_by_index(plan) THEN
		found := find_sides(compared, ids);
		here := (found[1]).checksum;
		there := (found[2]).checksum;
		RETURN;
	END IF;
	SELECT array_agg(d.id), array_agg(repair_checksum(d.here_checksum, d.here, stamps)),
		array_agg(repair_checksum(d.there_checksum, d.there, stamps))
	INTO ids, here, there FROM unnest(look_at_ids(compared, ids)) AS d;
END
$$;

-- The steps, without those of keys whose rows are equal by now or have changed, which are skipped,
-- and how many are equal.
-- A row that came while one was locked is not in the snapshot of the lock, so keys that are equal
-- in it are looked at once more.
CREATE FUNCTION repair_pass_over(plan repair_plan, INOUT steps repair_step[], equal text[],
	changed text[], lock boolean, OUT gone integer) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	now record;
BEGIN
	IF lock AND equal <> '{}' THEN
		now := repair_look(plan, equal, false);
		changed := changed || ARRAY(SELECT n.id
			FROM unnest(now.ids, now.here, now.there) AS n(id, here, there)
			WHERE n.here IS DISTINCT FROM n.there);
		equal := ARRAY(SELECT unnest(equal) EXCEPT SELECT unnest(changed));
	END IF;
	gone := coalesce(cardinality(equal), 0);
	steps := repair_skip(repair_skip(steps, changed, 'changed since it was compared'), equal,
		'equal by now');
END
$$;

-- What replicates from the source of a repair.
CREATE FUNCTION repair_links(plan repair_plan) RETURNS link[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT ARRAY(SELECT l FROM unnest((plan.compared).links) AS l
		WHERE l.source = (repair_source(plan)).side)
$$;

-- Waits until the source shows what replication may have brought to the target already
-- (waiting.sql, test/sim/sim_recheck.c); an error if that takes too long.
CREATE FUNCTION repair_settle(plan repair_plan) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
	problem text;
BEGIN
	compared.links := repair_links(plan);
	problem := settle_all(compared, clock_timestamp() + compared.timeout);
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
			MESSAGE = 'could not find out which rows the source still has',
			DETAIL = problem || '. Nothing was changed.',
			HINT = 'Repair when these transactions have ended, or give a longer timeout.';
	END IF;
END
$$;

-- The rows of keys of one action on target and source, with the texts that its statement takes.
-- The target is read first, because it may have to wait for a lock.  What replication has brought
-- before the lock may make its row what it was when it was compared, and the source shows that once
-- it has settled.  The rows are many, so they are not copied to what is here and there.
-- Relies on: what lookups rely on, under its locks.
CREATE FUNCTION repair_find_rows(plan repair_plan, keys text[], action text, lock boolean,
	OUT target found_rows, OUT source found_rows) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
	how reading;
	s side := repair_target(plan);
	f finder;
	found found_rows[];
BEGIN
	compared.versions := false;
	compared.content := CASE action WHEN 'update' THEN 'lists' WHEN 'delete' THEN 'key lists'
		ELSE 'none' END;
	how := reading_of(compared, keys, true);
	f := finder(compared, s);
	found := find_rows(ARRAY[s.place], ARRAY[CASE WHEN lock
		THEN lookup_by_key_sql(compared, s, f, true) ELSE f.lookup END], how);
	target := found[1];
	PERFORM require_side_described(s, target.fingerprint),
		require_unique(compared, s, target.checksum, keys);
	IF lock THEN
		PERFORM repair_settle(plan);
	END IF;
	s := repair_source(plan);
	compared.content := CASE action WHEN 'delete' THEN 'none' ELSE 'lists' END;
	found := find_rows(ARRAY[s.place], ARRAY[(finder(compared, s)).lookup], how);
	source := found[1];
	PERFORM require_side_described(s, source.fingerprint),
		require_unique(compared, s, source.checksum, keys);
END
$$;

-- The steps for keys of one action that an index finds, without those of rows that have changed
-- since they were compared: they had these checksums, or have these weights in a difference.  Also
-- the keys whose rows an index may hide, because a side has a row that it had not, or has none that
-- it had; and how many keys are equal by now.
CREATE FUNCTION repair_claim_keys(plan repair_plan, keys text[], action text, weights bigint[],
	was_here text[], was_there text[], OUT steps repair_step[], OUT doubtful text[],
	OUT gone integer) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	target_side text := (plan.asked).target_side;
	-- a lock takes the right to update, which others must not ask for
	lock boolean := (plan.asked).apply AND CASE action WHEN 'update' THEN (plan.asked).updates
		WHEN 'delete' THEN (plan.asked).deletes ELSE false END;
	x record := repair_find_rows(plan, keys, action, lock);
	target text[] := (x.target).checksum::text[];
	source text[] := (x.source).checksum::text[];
	here text[];
	there text[];
	names text[] := iblt_field((plan.compared).columns);
	listed text[];			-- expressions of texts, from lists of them (lists_sql)
	problems boolean;
	places integer[] := '{}';
	equal text[];
	changed text[];
BEGIN
	IF (plan.asked).winner = 'newest' THEN
		target := ARRAY(SELECT repair_checksum(r.checksum, r.content, true)
			FROM unnest(target, (x.target).content) WITH ORDINALITY AS r(checksum, content, n)
			ORDER BY r.n);
		source := ARRAY(SELECT repair_checksum(r.checksum, r.content, true)
			FROM unnest(source, (x.source).content) WITH ORDINALITY AS r(checksum, content, n)
			ORDER BY r.n);
	END IF;
	here := repair_target_of(target_side, target, source);
	there := repair_source_of(target_side, target, source);
	IF action <> 'delete' THEN
		listed := listed || repair_each_sql(plan.columns,
			'unnest(($4)[%1$s + 1 : %1$s + 1]) AS n%1$s');
	END IF;
	IF action <> 'insert' THEN
		listed := listed || (SELECT string_agg(format('unnest(($5)[%1$s : %1$s]) AS o%2$s',
				CASE action WHEN 'update' THEN c.i + 1 ELSE array_position(
					iblt_field((plan.compared).key), names[c.i + 1]) END, c.i), ', ')
			FROM unnest(plan.columns) AS c WHERE c.key OR action = 'update');
	END IF;
	EXECUTE repair_steps_sql(plan, format('(SELECT unnest($1) AS id,'
			' unnest($2) AS here_checksum, unnest($3) AS there_checksum, %s) AS v,'
			' LATERAL (SELECT v.id, %s, %L::text, NULL::text, 1::bigint, v.here_checksum,'
			' v.there_checksum) AS x(id, key, action, problem, n, here_checksum, there_checksum)',
			array_to_string(listed, ', '), key_json_sql((plan.compared).key), action), action,
		repair_source_of(target_side, text 'x.here_checksum', 'x.there_checksum'))
	INTO steps, problems USING keys, here, there, (x.source).columns, (x.target).columns;
	IF cardinality(steps) <> cardinality(keys) THEN
		RAISE EXCEPTION USING ERRCODE = 'data_exception',
			MESSAGE = 'a side answered with rows of other keys than it was asked for';
	ELSIF weights IS NOT NULL THEN
		places := iblt_compare_changed((plan.compared).seed, weights,
			repair_target_of(target_side, (x.target).checksum, (x.source).checksum),
			repair_source_of(target_side, (x.target).checksum, (x.source).checksum));
	ELSIF here IS DISTINCT FROM was_here OR there IS DISTINCT FROM was_there THEN
		places := ARRAY(SELECT k.n
			FROM unnest(here, there, was_here, was_there) WITH ORDINALITY
				AS k(here, there, was_here, was_there, n)
			WHERE k.here IS DISTINCT FROM k.was_here OR k.there IS DISTINCT FROM k.was_there);
	END IF;
	doubtful := '{}';
	gone := 0;
	IF places <> '{}' THEN
		SELECT array_agg(k.id) FILTER (WHERE k.target IS NOT DISTINCT FROM k.source),
			array_agg(k.id) FILTER (WHERE k.target IS DISTINCT FROM k.source),
			coalesce(array_agg(k.id) FILTER (WHERE (k.target IS NULL) <> (action = 'insert')
				OR (k.source IS NULL) <> (action = 'delete')), '{}')
		INTO equal, changed, doubtful
		FROM unnest(keys, (x.target).checksum, (x.source).checksum) WITH ORDINALITY
			AS k(id, target, source, n)
		WHERE k.n = ANY (places);
		SELECT p.* INTO steps, gone FROM repair_pass_over(plan, steps, equal, changed, lock) AS p;
	END IF;
	steps := repair_fill(plan, repair_outside(plan,
		repair_judged(plan, steps, '{}', NULL, problems)));
END
$$;

-- Claims or shows the rows batch by batch, those to be updated first, as far as they have not
-- changed.
-- repair_begin has locked both relations, so what is seen here is as other repairs have
-- left it.
-- Relies on: what lookups rely on, under its locks.
CREATE FUNCTION repair_claim(work repair_work) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	batches integer[] := ARRAY(SELECT p.n FROM unnest(work.parts) WITH ORDINALITY AS p(part, n)
		ORDER BY array_position('{update,insert,delete}'::text[], p.part), p.n);
	steps repair_step[];
	before record;
	now record;
	claimed record;
	lock boolean;
	ids text[];
	equal text[];
	changed text[];
	doubtful text[] := '{}';		-- keys whose rows an index may hide
BEGIN
	FOR n IN 1 .. work.batches LOOP
		PERFORM repair_progress(work, CASE WHEN (plan.asked).apply THEN 'locking the rows'
			ELSE 'reading the rows' END, n);
		steps := repair_batch(work, batches[n]);
		-- those that are skipped come last
		CONTINUE WHEN (steps[1]).status <> 'due';
		before := repair_compared(steps);
		IF repair_finds_by_index(plan) THEN
			claimed := repair_claim_keys(plan, before.ids, (steps[1]).action, NULL, before.here,
				before.there);
			doubtful := doubtful || claimed.doubtful;
			steps := claimed.steps || ARRAY(SELECT u.s FROM (SELECT unnest(steps) AS s) AS u
				WHERE (u.s).status = 'skipped');
		ELSE
			IF (plan.asked).apply THEN
				-- a lock takes the right to update, which inserting must not ask for
				lock := EXISTS (SELECT FROM unnest(steps) AS s
					WHERE s.status = 'due' AND s.action <> 'insert');
				ids := repair_ids(plan, steps);
				IF lock THEN
					PERFORM repair_ask(plan, format(
						'SELECT count(*)::text FROM (SELECT FROM %s FOR UPDATE OF t) AS l',
						repair_rows_sql(plan, ids)), ids);
					PERFORM repair_settle(plan);
				END IF;
				now := repair_look(plan, ids, (plan.asked).winner = 'newest');
				SELECT array_agg(DISTINCT b.id) FILTER (WHERE n.here IS NOT DISTINCT FROM n.there),
					array_agg(DISTINCT b.id) FILTER (WHERE n.here IS DISTINCT FROM n.there)
				INTO equal, changed
				FROM unnest(before.ids, before.here, before.there) AS b(id, here, there)
				LEFT JOIN unnest(now.ids, now.here, now.there) AS n(id, here, there) USING (id)
				WHERE n.here IS NOT DISTINCT FROM n.there
					OR n.here IS DISTINCT FROM b.here OR n.there IS DISTINCT FROM b.there;
				steps := (repair_pass_over(plan, steps, equal, changed, lock)).steps;
			END IF;
			steps := repair_fill(plan, repair_outside(plan, steps));
		END IF;
		PERFORM iblt_repair_put(plan.secret, batches[n], steps);
	END LOOP;
	IF (plan.asked).apply THEN
		PERFORM check_index(plan.compared, doubtful), repair_absent(work);
	END IF;
	PERFORM repair_cascades(work);
END
$$;

-- Locks what is to be changed of one relation or several, and claims the rows.
CREATE FUNCTION repair_claim_all(works repair_work[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM repair_begin(ARRAY(SELECT w.plan FROM unnest(works) AS w),
		ARRAY(SELECT w.plan FROM unnest(works) AS w WHERE w.keys > 0));
	FOR i IN 1 .. cardinality(works) LOOP
		PERFORM repair_claim(works[i]);
	END LOOP;
END
$$;

-- Claims the keys of a difference at once.
CREATE FUNCTION repair_claim_found(INOUT work repair_work, found found_keys) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	compared plan := plan.compared;
	figures figures := found.figures;
	started timestamptz := clock_timestamp();
	size integer := batch_size(compared);
	batch record;
	part text;
	due record;
	claimed record;
	doubtful text[] := '{}';
	differences bigint := found.number;
	message text := format('locking the rows of %s keys', found.number);
BEGIN
	PERFORM repair_begin(ARRAY[plan], CASE WHEN found.number = 0 THEN '{}' ELSE ARRAY[plan] END);
	IF found.number > 0 THEN
		PERFORM progress(compared.progress, message), progress_by_time(compared.progress);
	END IF;
	FOR done IN 0 .. found.number - 1 BY size LOOP
		PERFORM progress_timely(format('%s, %s are done', message, done));
		batch := iblt_compare_keys(found.sample, found.keys, done::integer, size);
		FOREACH part IN ARRAY '{both,here,there}'::text[] LOOP
			SELECT array_agg(b.id) AS keys, array_agg(b.weight) AS weights INTO due
			FROM (SELECT unnest(batch.keys) AS id, unnest(batch.sides) AS side,
				unnest(batch.weights) AS weight) AS b WHERE b.side = part;
			CONTINUE WHEN due.keys IS NULL;
			claimed := repair_claim_keys(plan, due.keys, CASE part WHEN 'both' THEN 'update'
				WHEN (plan.asked).target_side THEN 'delete' ELSE 'insert' END, due.weights, NULL,
				NULL);
			work := repair_add(work, claimed.steps);
			doubtful := doubtful || claimed.doubtful;
			differences := differences - claimed.gone;
		END LOOP;
	END LOOP;
	PERFORM check_index(compared, doubtful), repair_absent(work), repair_cascades(work);
	figures.lookup_ms := CASE WHEN found.number > 0 THEN ms(started) END;
	work.figures := all_figures(compared, figures, found.number, differences, 0);
END
$$;
