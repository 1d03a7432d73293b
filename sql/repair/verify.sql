-- The last look ------------------------------------------------------------------------
--
-- Before a repair says that it was applied, it makes sure that the rows are as they were to
-- become.  Triggers, rules and generated columns may have made others of them.  It also makes sure
-- that its statements have met the relations that were described, as they were described.

-- The keys of steps whose rows differ again, because the source has changed since, and of those
-- whose rows are not what the repair was to write, the number and one of them; without "again",
-- the source is asked only if the target's rows are not.
-- Relies on: what lookups rely on, in the transaction that has changed the rows.
CREATE FUNCTION repair_verify(plan repair_plan, steps repair_step[], again boolean,
	OUT differ text[], OUT number bigint, OUT wrong text) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	target_side text := (plan.asked).target_side;
	compared plan := plan.compared;
	s side := repair_target(plan);
	found found_rows[];
	before record := repair_compared(steps);
	now record;
	wanted text[] := repair_source_of(target_side, before.here, before.there);
BEGIN
	IF (plan.asked).winner = 'newest' THEN
		wanted := ARRAY(SELECT split_part(w, ' ', 1) FROM unnest(wanted) AS w);
	END IF;
	number := 0;
	IF NOT again AND repair_finds_by_index(plan) THEN
		compared.content := 'none';
		compared.versions := false;
		found := find_rows(ARRAY[s.place], ARRAY[(finder(compared, s)).lookup],
			reading_of(compared, before.ids, true));
		PERFORM require_side_described(s, found[1].fingerprint);
		IF found[1].checksum::text[] = wanted THEN
			RETURN;
		END IF;
	END IF;
	now := repair_look(plan, repair_ids(plan, steps), false);
	SELECT array_agg(DISTINCT n.id), count(DISTINCT n.id) FILTER (WHERE x.wrong),
		min(n.id) FILTER (WHERE x.wrong)
	INTO differ, number, wrong
	FROM unnest(now.ids, now.here, now.there) AS n(id, here, there)
	LEFT JOIN unnest(before.ids, wanted) AS b(id, wanted) USING (id),
	LATERAL (SELECT repair_target_of(target_side, n.here, n.there) IS DISTINCT FROM b.wanted
		OR repair_source_of(target_side, n.here, n.there) IS NOT DISTINCT FROM b.wanted) AS x(wrong)
	WHERE n.here IS DISTINCT FROM n.there;
	wrong := (SELECT min(u.key::text) FROM unnest(steps) AS u WHERE u.id = wrong);
END
$$;

-- Reads the rows of a relation once more, and makes sure that each statement has met what was
-- described; the work with the ids of rows that differ again, if that is asked for.
CREATE FUNCTION repair_verify_all(INOUT work repair_work) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	steps repair_step[];
	x record;
	number bigint := 0;
	wrong text;
BEGIN
	FOR n IN 1 .. work.batches LOOP
		PERFORM repair_progress(work, 'reading the rows once more', n);
		steps := repair_batch(work, n);
		CONTINUE WHEN (steps[1]).status <> 'due';
		x := repair_verify(work.plan, steps, work.differ IS NOT NULL);
		work.differ := work.differ || x.differ;
		number := number + x.number;
		wrong := coalesce(wrong, x.wrong);
	END LOOP;
	IF work.keys > 0 THEN
		PERFORM repair_require_described(work.plan);
	END IF;
	IF number > 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'triggered_data_change_violation',
			MESSAGE = format('after the repair, the rows of %s keys are not as on the source',
				number),
			DETAIL = format('One key is %s. Nothing was changed.', wrong),
			HINT = 'Look for a trigger, a rule, a column that another expression generates, '
				'or one that the condition names and the repair leaves out.'
				|| coalesce(E'\nColumns whose type on the target may not have the values: '
					|| quoted(ARRAY(SELECT c.name FROM unnest(((work.plan).compared).columns) AS c
					WHERE c.cast_to <> '')) || '.', '')
				|| coalesce(E'\nTriggers of the table: '
					|| repair_triggers(work.plan, '{insert,update}')
					|| '. Set as_replica => true to repair as replication does.', '');
	END IF;
END
$$;
