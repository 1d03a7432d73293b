-- The claim ------------------------------------------------------------------------
--
-- Before a repair changes rows, it locks them and looks at them again, and skips those that have
-- changed since they were compared.  claim_found.sql does it in one look, where that is possible.

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

-- Locks the target's rows of keys.
CREATE FUNCTION repair_lock(plan repair_plan, ids text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM repair_ask(plan, format(
		'SELECT count(*)::text FROM (SELECT FROM %s FOR UPDATE OF t) AS l',
		repair_rows_sql(plan, ids)), ids);
END
$$;

-- The checksums of the rows of keys on both sides, at least of the keys whose rows differ now.
-- "lock" locks the target's rows first.  "stamps" adds the stamps of rows, if the newer one wins.
-- Checksums tell what has changed.  The rows themselves may be large.
CREATE FUNCTION repair_look(plan repair_plan, INOUT ids text[], stamps boolean, lock boolean,
	OUT here text[], OUT there text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
	newest boolean := stamps AND (plan.asked).winner = 'newest';
	found record;
BEGIN
	compared.content := CASE WHEN newest THEN 'stamp' ELSE 'none' END;
	compared.versions := false;
	IF repair_finds_by_index(plan) AND NOT newest THEN
		-- in the order of the steps, in which rows are locked
		found := find_both(compared, ids, CASE WHEN lock THEN (plan.asked).target_side END);
		here := (found.here).checksum;
		there := (found.there).checksum;
		RETURN;
	ELSIF lock THEN
		PERFORM repair_lock(plan, ids);
	END IF;
	SELECT array_agg(d.id), array_agg(repair_checksum(d.here_checksum, d.here, newest)),
		array_agg(repair_checksum(d.there_checksum, d.there, newest))
	INTO ids, here, there FROM unnest(look_at_ids(compared, ids)) AS d;
END
$$;

-- Those of the keys whose rows are not equal after all, if they were found under locks.
-- A row that came while one was locked is not in the snapshot of the lock.
CREATE FUNCTION repair_unequal(plan repair_plan, ids text[], lock boolean) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	now record;
BEGIN
	IF NOT lock OR coalesce(ids, '{}') = '{}' THEN
		RETURN '{}';
	END IF;
	now := repair_look(plan, ids, false, false);
	RETURN ARRAY(SELECT n.id FROM unnest(now.ids, now.here, now.there) AS n(id, here, there)
		WHERE n.here IS DISTINCT FROM n.there);
END
$$;

-- The steps of a batch, without those of rows that have changed since they were compared, which
-- are skipped, and the keys whose rows an index may hide.
-- repair_begin has locked both relations, so what is seen here is as other repairs have
-- left it.
-- Relies on: what lookups rely on, under its locks.
CREATE FUNCTION repair_claim_batch(plan repair_plan, INOUT steps repair_step[],
	OUT doubtful text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	-- a lock takes the right to update, which inserting must not ask for
	lock boolean := EXISTS (SELECT FROM (SELECT unnest(steps) AS s) AS u
		WHERE (u.s).status = 'due' AND (u.s).action <> 'insert');
	before record := repair_compared(steps);
	now record := repair_look(plan, repair_ids(plan, steps), true, lock);
	equal text[];
	changed text[];
BEGIN
	doubtful := '{}';
	IF now IS DISTINCT FROM before THEN
		SELECT array_agg(DISTINCT b.id) FILTER (WHERE n.here IS NOT DISTINCT FROM n.there),
			array_agg(DISTINCT b.id) FILTER (WHERE n.here IS DISTINCT FROM n.there)
		INTO equal, changed
		FROM unnest(before.ids, before.here, before.there) AS b(id, here, there)
		LEFT JOIN unnest(now.ids, now.here, now.there) AS n(id, here, there) USING (id)
		WHERE n.here IS NOT DISTINCT FROM n.there
			OR n.here IS DISTINCT FROM b.here OR n.there IS DISTINCT FROM b.there;
		changed := changed || repair_unequal(plan, equal, lock);
		doubtful := doubtfully_equal(plan.compared, ARRAY(SELECT unnest(equal)
			EXCEPT SELECT unnest(changed)), '{}');
		steps := repair_skip(repair_skip(steps, changed, 'changed since it was compared'),
			equal, 'equal by now');
	END IF;
	steps := repair_fill(plan, repair_outside(plan, steps));
END
$$;

-- Locks the rows and looks at them again, batch by batch, those to be updated first.
CREATE FUNCTION repair_claim(work repair_work) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	batches integer[] := ARRAY(SELECT p.n FROM unnest(work.parts) WITH ORDINALITY AS p(part, n)
		ORDER BY array_position('{update,insert,delete}'::text[], p.part), p.n);
	steps repair_step[];
	claimed record;
	doubtful text[] := '{}';
BEGIN
	FOR n IN 1 .. work.batches LOOP
		PERFORM repair_progress(work, 'locking the rows', n);
		steps := repair_batch(work, batches[n]);
		CONTINUE WHEN repair_status(steps, 1) <> 'due';
		claimed := repair_claim_batch(plan, steps);
		doubtful := doubtful || claimed.doubtful;
		PERFORM iblt_repair_put(plan.secret, batches[n], claimed.steps);
	END LOOP;
	PERFORM check_index(plan.compared, doubtful);
	PERFORM repair_absent(work), repair_cascades(work);
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
