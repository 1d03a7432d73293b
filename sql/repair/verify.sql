-- The last look ------------------------------------------------------------------------
--
-- Before a repair says that it was applied, it makes sure that the rows are as they were to
-- become.  Triggers, rules and generated columns may have made others of them.  It also makes sure
-- that its statements have met the relations that were described, as they were described.

-- Reads the rows of a relation once more, and makes sure that each statement has met what was
-- described; an error if rows are not what the repair was to write; the work with the ids of rows
-- that differ again, because the source has changed since, if that is asked for.  Otherwise the
-- source is asked only if the target's rows are not as they were to become.
-- Relies on: what lookups rely on, in the transaction that has changed the rows.
CREATE FUNCTION repair_verify(INOUT work repair_work) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	compared plan := plan.compared;
	s side := plan.target;
	found found_rows[];
	steps repair_step[];
	ids text[];
	now record;
	wanted text[];
	x record;
	number bigint := 0;
	wrong text;
BEGIN
	compared.content := 'none';
	compared.versions := false;
	FOR n IN 1 .. work.batches LOOP
		PERFORM repair_progress(work, 'reading the rows once more', n);
		steps := repair_batch(work, n);
		CONTINUE WHEN steps = '{}';
		ids := iblt_field(steps, 'id');
		wanted := iblt_field(steps, 'source_checksum');
		IF (plan.asked).winner = 'newest' THEN
			wanted := ARRAY(SELECT split_part(w, ' ', 1) FROM unnest(wanted) AS w);
		END IF;
		IF work.differ IS NULL AND plan.indexed THEN
			found := find_rows(ARRAY[s.place], ARRAY[(finder(compared, s)).lookup],
				reading_of(compared, ids, true));
			PERFORM require_side_described(s, found[1].fingerprint);
			CONTINUE WHEN found[1].checksum::text[] = wanted;
		END IF;
		now := repair_look(plan, ids, false);
		SELECT array_agg(DISTINCT d.id) AS differ,
			count(DISTINCT d.id) FILTER (WHERE j.wrong) AS number,
			min(d.id) FILTER (WHERE j.wrong) AS wrong
		INTO x
		FROM unnest(ids, wanted, now.source, now.target) AS d(id, wanted, source, target),
		LATERAL (SELECT d.target IS DISTINCT FROM d.wanted
			OR d.source IS NOT DISTINCT FROM d.wanted) AS j(wrong)
		WHERE d.source IS DISTINCT FROM d.target;
		work.differ := work.differ || x.differ;
		number := number + x.number;
		wrong := coalesce(wrong, (SELECT min(u.key::text) FROM unnest(steps) AS u
			WHERE u.id = x.wrong));
	END LOOP;
	IF work.keys > 0 THEN
		PERFORM repair_require_described(plan);
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

-- Deletes inserted rows again that the source has changed or deleted meanwhile, and skips their
-- steps; an error if the source does not settle.
-- Replication may have brought that change while the target had no such row, and nothing locks a
-- row that is not there, unless the key is not unique: then the claim has locked the table.  What it
-- brings from now on waits for the rows.  The source may not show yet what replication has brought,
-- so it settles first (waiting.sql, test/sim/sim_recheck.c).
-- Rows that refer to an inserted row may have been there before, where replication checks no foreign
-- keys.  They must not go with it, even if the caller has allowed that of deletes.
-- Relies on: what lookups rely on, in the transaction that has inserted the rows.
CREATE FUNCTION repair_take_back(work repair_work) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	conn text := (plan.target).place;
	path text := (plan.asked).apply_search_path;
	settled boolean := false;
	steps repair_step[];
	ids text[];
	now record;
	changed text[];
	back repair_work;		-- the deletes
BEGIN
	FOR n IN 1 .. CASE WHEN plan.links <> '{}' AND (plan.compared).is_unique THEN work.batches
			ELSE 0 END LOOP
		steps := repair_due(work, n, 'insert');
		CONTINUE WHEN steps = '{}';
		IF NOT settled THEN
			PERFORM repair_settle(plan);
			settled := true;
		END IF;
		PERFORM repair_progress(work, 'reading the rows of the source once more', n);
		ids := iblt_field(steps, 'id');
		now := repair_look(plan, ids, false);
		-- a row that was updated by a delete and an insert (exchange.sql) was locked
		changed := ARRAY(SELECT DISTINCT d.id
			FROM unnest(ids, iblt_field(steps, 'source_checksum'),
					iblt_field(steps, 'target_checksum'), now.source, now.target)
				AS d(id, was_source, was_target, source, target)
			WHERE d.source IS DISTINCT FROM d.target
			AND d.source IS DISTINCT FROM split_part(d.was_source, ' ', 1)
			AND d.was_target IS NULL);
		CONTINUE WHEN changed = '{}';
		back := ROW(plan, NULL, 0, '{}', 0, NULL)::repair_work;
		back.plan.secret := gen_random_uuid();
		back.plan.asked."cascade" := false;
		back := repair_add(back, ARRAY(
			SELECT jsonb_populate_record(x, '{"action": "delete"}') FROM unnest(steps) AS x
			WHERE x.id = ANY (changed)));
		IF NOT (plan.asked).as_replica THEN
			PERFORM repair_cascades(back);
		END IF;
		PERFORM repair_send(conn, 'left', repair_execute_steps(plan, 'delete',
			repair_batch(back, 1), false), path);
		PERFORM iblt_repair_put(plan.secret, n, repair_skip(plan, repair_batch(work, n), changed,
			'changed since it was compared'));
	END LOOP;
END
$$;
