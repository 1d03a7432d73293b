-- The claim ------------------------------------------------------------------------
--
-- Before a repair changes rows, it locks them and looks at them again, and skips those that have
-- changed since they were compared.  If an index finds them, this look brings their texts, in lists
-- by column.  A preview takes the same look without locks.
--
-- If nothing replicates, a repair that is applied does not look at such keys before
-- (repair_add_found).  The checksums of the rows then tell whether they are the rows of the
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

-- The checksums of the rows of keys on both sides, in their order.  Where rows are equal, both may
-- be NULL.
-- Checksums tell what has changed.  The rows themselves may be large.
CREATE FUNCTION repair_look(plan repair_plan, ids text[], stamps boolean,
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
	SELECT array_agg(repair_checksum(d.here_checksum, d.here, stamps) ORDER BY k.n),
		array_agg(repair_checksum(d.there_checksum, d.there, stamps) ORDER BY k.n)
	INTO here, there
	FROM unnest(ids) WITH ORDINALITY AS k(id, n)
	LEFT JOIN unnest(look_at_ids(compared, ids)) AS d USING (id);
END
$$;

-- What replicates from any side but the target: from the source of a repair, and from other nodes,
-- which have a vote.
CREATE FUNCTION repair_links(plan repair_plan) RETURNS link[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT ARRAY(SELECT l FROM unnest((plan.compared).links) AS l
		WHERE l.source <> (repair_target(plan)).side)
$$;

-- Waits until the sources show what replication may have brought to the target already
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

-- Claims or shows the rows of a batch, as far as they have not changed since they were compared.
-- Returns the keys whose rows an index may hide, because a side has a row that it had not, or has
-- none that it had.
-- A row that came while one was locked is not in the snapshot of the lock, so keys that are equal
-- in it are looked at once more.
CREATE FUNCTION repair_claim_batch(work repair_work, batch integer) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	asked repair_options := plan.asked;
	newest boolean := asked.winner = 'newest';
	steps repair_step[] := repair_batch(work, batch);
	action text := work.parts[batch];	-- '' for several
	before record := repair_compared(steps);
	-- a lock takes the right to update, which others must not ask for
	lock boolean := asked.apply AND EXISTS (SELECT FROM unnest(steps) AS s WHERE s.status = 'due'
		AND CASE s.action WHEN 'update' THEN asked.updates WHEN 'delete' THEN asked.deletes END);
	ids text[];
	x record;				-- the rows of target and source, if an index finds them
	now record;
	here text[] := before.here;
	there text[] := before.there;
	names text[] := iblt_field((plan.compared).columns);
	listed text[];			-- expressions of texts, from lists of them (lists_sql)
	made repair_step[];
	problems boolean := false;
	places integer[] := '{}';
	equal text[];
	changed text[];
	doubtful text[] := '{}';
BEGIN
	IF (steps[1]).status <> 'due' THEN	-- those that are skipped come last
		RETURN '{}';
	ELSIF action = '' THEN
		IF lock THEN
			ids := repair_ids(plan, steps);
			PERFORM repair_ask(plan, format(
				'SELECT count(*)::text FROM (SELECT FROM %s FOR UPDATE OF t) AS l',
				repair_rows_sql(plan, ids)), ids);
			PERFORM repair_settle(plan);
		END IF;
		IF asked.apply THEN
			now := repair_look(plan, before.ids, newest);
			here := now.here;
			there := now.there;
		END IF;
	ELSE
		x := repair_find_rows(plan, before.ids, action, lock);
		here := repair_target_of(asked.target_side, (x.target).checksum, (x.source).checksum);
		there := repair_source_of(asked.target_side, (x.target).checksum, (x.source).checksum);
		IF newest THEN
			SELECT array_agg(repair_checksum(r.here, r.here_content, true) ORDER BY r.n),
				array_agg(repair_checksum(r.there, r.there_content, true) ORDER BY r.n)
			INTO here, there
			FROM unnest(here, there,
				repair_target_of(asked.target_side, (x.target).content, (x.source).content),
				repair_source_of(asked.target_side, (x.target).content, (x.source).content))
				WITH ORDINALITY AS r(here, there, here_content, there_content, n);
		END IF;
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
				' v.there_checksum)'
				' AS x(id, key, action, problem, n, here_checksum, there_checksum)',
				array_to_string(listed, ', '), key_json_sql((plan.compared).key), action), action,
			repair_source_of(asked.target_side, text 'x.here_checksum', 'x.there_checksum'))
		INTO made, problems
		USING before.ids, here, there, (x.source).columns, (x.target).columns;
		IF cardinality(made) <> cardinality(before.ids) THEN
			RAISE EXCEPTION USING ERRCODE = 'data_exception',
				MESSAGE = 'a side answered with rows of other keys than it was asked for';
		END IF;
		steps := made || ARRAY(SELECT u.s FROM (SELECT unnest(steps) AS s) AS u
			WHERE (u.s).status = 'skipped');
	END IF;
	IF before.weights IS NOT NULL THEN
		places := iblt_compare_changed((plan.compared).seed, before.weights, here::bigint[],
			there::bigint[]);
	ELSIF here IS DISTINCT FROM before.here OR there IS DISTINCT FROM before.there THEN
		places := ARRAY(SELECT k.n
			FROM unnest(here, there, before.here, before.there) WITH ORDINALITY
				AS k(here, there, was_here, was_there, n)
			WHERE k.here IS DISTINCT FROM k.was_here OR k.there IS DISTINCT FROM k.was_there);
	END IF;
	IF places <> '{}' THEN
		SELECT array_agg(k.id) FILTER (WHERE c.here IS NOT DISTINCT FROM c.there),
			array_agg(k.id) FILTER (WHERE c.here IS DISTINCT FROM c.there),
			coalesce(array_agg(k.id) FILTER (WHERE action <> '' AND (
				(repair_target_of(asked.target_side, c.here, c.there) IS NULL)
					<> (action = 'insert')
				OR (repair_source_of(asked.target_side, c.here, c.there) IS NULL)
					<> (action = 'delete'))), '{}')
		INTO equal, changed, doubtful
		FROM unnest(before.ids, here, there) WITH ORDINALITY AS k(id, here, there, n),
		LATERAL (SELECT split_part(k.here, ' ', 1), split_part(k.there, ' ', 1)) AS c(here, there)
		WHERE k.n = ANY (places);
		IF lock AND equal <> '{}' THEN
			now := repair_look(plan, equal, false);
			changed := changed || ARRAY(SELECT n.id
				FROM unnest(equal, now.here, now.there) AS n(id, here, there)
				WHERE n.here IS DISTINCT FROM n.there);
			equal := ARRAY(SELECT unnest(equal) EXCEPT SELECT unnest(changed));
		END IF;
		steps := repair_skip(repair_skip(steps, changed, 'changed since it was compared'), equal,
			'equal by now');
	END IF;
	PERFORM iblt_repair_put(plan.secret, batch, repair_fill(plan, repair_outside(plan,
		repair_judged(plan, steps, '{}', NULL, problems))));
	RETURN doubtful;
END
$$;

-- Claims or shows the rows batch by batch, those to be updated first.
-- repair_begin has locked both relations, so what is seen here is as other repairs have
-- left it.
-- Relies on: what lookups rely on, under its locks.
CREATE FUNCTION repair_claim(work repair_work) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	apply boolean := ((work.plan).asked).apply;
	batches integer[] := ARRAY(SELECT p.n FROM unnest(work.parts) WITH ORDINALITY AS p(part, n)
		ORDER BY array_position('{update,insert,delete}'::text[], p.part), p.n);
	doubtful text[] := '{}';
BEGIN
	FOR n IN 1 .. work.batches LOOP
		PERFORM repair_progress(work, CASE WHEN apply THEN 'locking the rows'
			ELSE 'reading the rows' END, n);
		doubtful := doubtful || repair_claim_batch(work, batches[n]);
	END LOOP;
	IF apply THEN
		PERFORM check_index((work.plan).compared, doubtful), repair_absent(work);
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
