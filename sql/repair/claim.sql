-- The claim ------------------------------------------------------------------------
--
-- Before a repair changes rows, it locks them and looks at them again, and skips those that have
-- changed since they were compared.  If an index finds them, this look brings their texts, in lists
-- by column.  A preview takes the same look without locks.
--
-- If nothing replicates, a repair that is applied does not look at such keys before
-- (repair_find).  The checksums of the rows then tell whether they are the rows of the
-- scans, because the key has their weight in the difference.

-- Says what is done with the steps of a batch: of the first one, and later by time.
CREATE FUNCTION repair_progress(work repair_work, what text, n integer) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	shown boolean := ((work.plan).compared).progress;
	message text := format('%s of %s keys%s', what, work.keys, CASE WHEN n > 1
		THEN format(', %s of %s batches are done', n - 1, cardinality(work.parts)) END);
BEGIN
	IF n = 1 THEN
		PERFORM progress(shown, message), progress_by_time(shown);
	ELSE
		PERFORM progress_timely(message);
	END IF;
END
$$;

-- The checksums of the rows of keys on source and target, in their order.  Where rows are equal,
-- both may be NULL.
-- Checksums tell what has changed.  The rows themselves may be large.
CREATE FUNCTION repair_look(plan repair_plan, ids text[], stamps boolean,
	OUT source text[], OUT target text[])
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
BEGIN
	compared.content := CASE WHEN stamps THEN 'stamp' ELSE 'none' END;
	compared.versions := false;
	SELECT array_agg(x.of_sides[3 - plan.place] ORDER BY k.n),
		array_agg(x.of_sides[plan.place] ORDER BY k.n) INTO source, target
	FROM unnest(ids) WITH ORDINALITY AS k(id, n)
	LEFT JOIN unnest(look_at_ids(compared, ids)) AS d USING (id),
	LATERAL (SELECT ARRAY[repair_checksum(d.here_checksum, d.here, stamps),
		repair_checksum(d.there_checksum, d.there, stamps)]) AS x(of_sides);
END
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
	compared.links := plan.links;
	problem := settle_all(compared, clock_timestamp() + compared.timeout);
	IF problem IS NOT NULL THEN
		RAISE lock_not_available USING
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
	OUT target found_rows, OUT source found_rows)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
BEGIN
	compared.versions := false;
	compared.content := CASE action WHEN 'update' THEN 'lists' WHEN 'delete' THEN 'key lists'
		ELSE 'none' END;
	target := (find_sides(compared, keys, plan.place, lock))[1];
	IF lock THEN
		PERFORM repair_settle(plan);
	END IF;
	compared.content := CASE action WHEN 'delete' THEN 'none' ELSE 'lists' END;
	source := (find_sides(compared, keys, 3 - plan.place))[1];
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
	keys text[] := iblt_field(steps, 'id');
	-- the checksums of their rows when they were compared, and if they were not looked up then,
	-- their weights in the difference
	was_source text[] := iblt_field(steps, 'source_checksum');
	was_target text[] := iblt_field(steps, 'target_checksum');
	weights bigint[] := ARRAY(SELECT (u.s).weight FROM (SELECT unnest(steps) AS s) AS u);
	-- a lock takes the right to update, which others must not ask for
	lock boolean := asked.apply AND EXISTS (SELECT FROM unnest(steps) AS s
		WHERE CASE s.action WHEN 'update' THEN asked.updates WHEN 'delete' THEN asked.deletes END);
	x record;				-- the rows of target and source, if an index finds them
	now record;
	source text[] := was_source;
	target text[] := was_target;
	names text[] := iblt_field((plan.compared).columns);
	listed text[];			-- expressions of texts, from lists of them (lookup_by_key_sql)
	number integer;			-- of steps
	special boolean := true;
	places integer[] := '{}';
	equal text[];
	changed text[];
	doubtful text[] := '{}';
BEGIN
	IF steps = '{}' THEN
		RETURN '{}';
	ELSIF action = '' THEN
		IF lock THEN
			PERFORM repair_ask(plan, keys, 'SELECT count(*)::text FROM (SELECT FROM ',
				' FOR UPDATE OF t) AS l');
		END IF;
		IF asked.apply THEN
			PERFORM repair_settle(plan);
			now := repair_look(plan, keys, newest);
			source := now.source;
			target := now.target;
		END IF;
	ELSE
		x := repair_find_rows(plan, keys, action, lock);
		source := (x.source).checksum;
		target := (x.target).checksum;
		IF newest THEN
			SELECT array_agg(repair_checksum(r.source, r.source_content, true) ORDER BY r.n),
				array_agg(repair_checksum(r.target, r.target_content, true) ORDER BY r.n)
			INTO source, target
			FROM unnest(source, target, (x.source).content, (x.target).content)
				WITH ORDINALITY AS r(source, target, source_content, target_content, n);
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
		-- the steps go to their file from there, because each variable would have a copy of them
		EXECUTE format('SELECT cardinality(q.steps), q.special,'
			' iblt_repair_put(%L, %s, q.steps) FROM (%s OFFSET 0) AS q', plan.secret, batch,
			repair_steps_sql(plan, format('(SELECT unnest($1) AS id,'
				' unnest($2) AS source_checksum, unnest($3) AS target_checksum, %s) AS v,'
				' LATERAL (SELECT v.id, %s, %L::text, NULL::text, 1::bigint, v.source_checksum,'
				' v.target_checksum)'
				' AS x(id, key, action, problem, n, source_checksum, target_checksum)',
				array_to_string(listed, ', '), key_json_sql((plan.compared).key), action), action,
			'x.source_checksum'))
		INTO number, special
		USING keys, source, target, (x.source).columns, (x.target).columns;
		IF number <> cardinality(keys) THEN
			RAISE data_exception USING
				MESSAGE = 'a side answered with rows of other keys than it was asked for';
		END IF;
	END IF;
	IF weights[1] IS NOT NULL THEN
		places := iblt_compare_changed((plan.compared).seed, weights,
			(CASE plan.place WHEN 1 THEN target ELSE source END)::bigint[],
			(CASE plan.place WHEN 1 THEN source ELSE target END)::bigint[]);
	ELSIF ROW(source, target) IS DISTINCT FROM ROW(was_source, was_target) THEN
		places := ARRAY(SELECT k.n
			FROM unnest(source, target, was_source, was_target) WITH ORDINALITY
				AS k(source, target, was_source, was_target, n)
			WHERE ROW(k.source, k.target) IS DISTINCT FROM ROW(k.was_source, k.was_target));
	END IF;
	IF places <> '{}' THEN
		SELECT array_agg(k.id) FILTER (WHERE c.source IS NOT DISTINCT FROM c.target),
			array_agg(k.id) FILTER (WHERE c.source IS DISTINCT FROM c.target),
			coalesce(array_agg(k.id) FILTER (WHERE action <> '' AND
				((c.target IS NULL) <> (action = 'insert')
				OR (c.source IS NULL) <> (action = 'delete'))), '{}')
		INTO equal, changed, doubtful
		FROM unnest(keys, source, target) WITH ORDINALITY AS k(id, source, target, n),
		LATERAL (SELECT split_part(k.source, ' ', 1), split_part(k.target, ' ', 1))
			AS c(source, target)
		WHERE k.n = ANY (places);
		IF lock AND equal <> '{}' THEN
			now := repair_look(plan, equal, false);
			changed := changed || ARRAY(SELECT n.id
				FROM unnest(equal, now.source, now.target) AS n(id, source, target)
				WHERE n.source IS DISTINCT FROM n.target);
			equal := ARRAY(SELECT unnest(equal) EXCEPT SELECT unnest(changed));
		END IF;
		PERFORM repair_skip_kept(work, batch, batch, changed, 'changed since it was compared'),
			repair_skip_kept(work, batch, batch, equal, 'equal by now');
	END IF;
	IF special OR NOT (asked.deletes AND asked.inserts AND asked.updates) THEN
		PERFORM iblt_repair_put(plan.secret, batch, repair_fill(plan,
			repair_judged(plan, repair_batch(work, batch), '{}', NULL, special)));
	END IF;
	RETURN doubtful;
END
$$;

-- Claims or shows the rows of one relation or several batch by batch, those to be updated first.
-- If the repair is applied, repair_begin has locked the relations, so what is seen here is as other
-- repairs have left it.
-- Relies on: what lookups rely on, under its locks.
CREATE FUNCTION repair_claim(VARIADIC works repair_work[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	apply boolean := (((works[1]).plan).asked).apply;
	work repair_work;
	batches integer[];
	doubtful text[];
BEGIN
	IF apply THEN
		PERFORM repair_begin(ARRAY(SELECT w.plan FROM unnest(works) AS w),
			ARRAY(SELECT w.plan FROM unnest(works) AS w WHERE w.keys > 0));
	END IF;
	FOREACH work IN ARRAY works LOOP
		batches := ARRAY(SELECT p.n FROM unnest(work.parts) WITH ORDINALITY AS p(part, n)
			ORDER BY array_position('{update,insert,delete}'::text[], p.part), p.n);
		doubtful := '{}';
		FOR n IN 1 .. cardinality(work.parts) LOOP
			PERFORM repair_progress(work, CASE WHEN apply THEN 'locking the rows'
				ELSE 'reading the rows' END, n);
			doubtful := doubtful || repair_claim_batch(work, batches[n]);
		END LOOP;
		IF apply THEN
			PERFORM check_index((work.plan).compared, doubtful);
		END IF;
		-- a scan has found the keys of a preview, unless they are those of a run
		IF apply OR work.differ IS NOT NULL OR ((work.plan).target).condition IS NOT NULL THEN
			PERFORM repair_absent(work);
		END IF;
		PERFORM repair_cascades(work);
	END LOOP;
END
$$;
