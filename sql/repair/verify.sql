-- The last look ------------------------------------------------------------------------
--
-- Before a repair says that it was applied, it makes sure that the rows are as they were to
-- become.  Triggers, rules and generated columns may have made others of them.  It also makes sure
-- that its statements have met the relations that were described, as they were described.
--
-- Statements for many rows see what they write (repair_execute_steps).  Since then, only this
-- transaction can have changed these rows, and nobody can have inserted one of a key that was
-- deleted.  So if such statements have seen all rows, and the statistics of the transaction have
-- as many changes of the relation, there was no other change, and the rows need not be read again.

-- How many rows of the target this transaction has inserted, updated and deleted, and some that
-- others before it have; NULL for a server without iblt.  A server that does not count says 0.
CREATE FUNCTION repair_changes(plan repair_plan) RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN CASE WHEN (plan.target).bare IS NOT TRUE THEN ask_one((plan.target).place, format(
		'SELECT pg_catalog.sum(pg_stat_get_xact_tuples_inserted(r) +'
			' pg_stat_get_xact_tuples_updated(r) + pg_stat_get_xact_tuples_deleted(r))'
			' FROM pg_catalog.unnest(%L::pg_catalog.oid[] || %L::pg_catalog.regclass::oid) AS r',
		(plan.described).partitions, (plan.target).relation))::bigint END;

-- Reads the rows of a relation once more unless its statements have seen them all, and makes sure
-- that each statement has met what was described; an error if rows are not what the repair was to
-- write; the work with the ids of rows that differ again, because the source has changed since, if
-- that is asked for.
-- A source that answers for a key with the texts of another row would have that one written.  Each
-- statement changes as many rows as it has steps, so if all keys have become what they were to, it
-- has changed no others.  So nothing that the source says by now counts.
-- Relies on: what lookups rely on, in the transaction that has changed the rows.
CREATE FUNCTION repair_verify(INOUT work repair_work, seen boolean) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	compared plan := plan.compared;
	steps repair_step[];
	ids text[];
	wanted text[];			-- checksums of their rows
	place integer;
	rows found_rows;
	found text[];
	others text[];			-- ids
	number bigint := 0;
	wrong text;
BEGIN
	compared.content := 'none';
	compared.versions := false;
	FOR n IN 1 .. CASE WHEN seen AND work.differ IS NULL THEN 0
			ELSE cardinality(work.parts) END LOOP
		PERFORM repair_progress(work, 'reading the rows once more', n);
		steps := repair_batch(work, n);
		CONTINUE WHEN steps = '{}';
		ids := iblt_field(steps, 'id');
		wanted := iblt_field(steps, 'source_checksum');
		IF (plan.asked).winner = 'newest' THEN
			wanted := ARRAY(SELECT split_part(w, ' ', 1) FROM unnest(wanted) AS w);
		END IF;
		FOREACH place IN ARRAY CASE WHEN work.differ IS NOT NULL THEN ARRAY[3 - plan.place] END
				|| plan.place LOOP
			rows := (find_sides(compared, CASE WHEN plan.indexed THEN ids
				ELSE keys_of_ids(compared, ids) END, place))[1];
			found := CASE WHEN plan.indexed THEN rows.checksum::text[] ELSE ARRAY(SELECT f.checksum
				FROM unnest(ids) WITH ORDINALITY AS k(id, n)
				LEFT JOIN unnest(rows.id, rows.rows_checksum) AS f(id, checksum) USING (id)
				ORDER BY k.n) END;
			CONTINUE WHEN found = wanted;
			others := ARRAY(SELECT DISTINCT d.id
				FROM unnest(ids, wanted, found) AS d(id, wanted, found)
				WHERE d.found IS DISTINCT FROM d.wanted);
			IF place = plan.place THEN
				number := number + cardinality(others);
				wrong := coalesce(wrong, (SELECT min(u.key::text) FROM unnest(steps) AS u
					WHERE u.id = ANY (others)));
			ELSE
				work.differ := work.differ || others;
			END IF;
		END LOOP;
	END LOOP;
	IF work.keys > 0 THEN
		PERFORM repair_describe_sides(plan, true);
	END IF;
	IF number > 0 THEN
		RAISE triggered_data_change_violation USING
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
-- row that is not there, unless the key is not unique: then the claim has locked the table.  What
-- it brings from now on waits for the rows.  The source may not show yet what replication has
-- brought, so it settles first (waiting.sql, test/sim/sim_recheck.c).
-- Rows that refer to an inserted row may have been there before, where replication checks no
-- foreign keys.  They must not go with it, even if the caller has allowed that of deletes.
-- Relies on: what lookups rely on, in the transaction that has inserted the rows.
CREATE FUNCTION repair_take_back(work repair_work) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	settled boolean := false;
	steps repair_step[];
	ids text[];
	now record;
	changed text[];
	back repair_work;		-- the deletes
BEGIN
	FOR n IN 1 .. CASE WHEN plan.links <> '{}' AND (plan.compared).is_unique
			THEN cardinality(work.parts) ELSE 0 END LOOP
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
		back := ROW(plan, NULL, '{}', 0, NULL, NULL, NULL, NULL)::repair_work;
		back.plan.secret := gen_random_uuid();
		back.plan.asked."cascade" := false;
		back := repair_add(back, ARRAY(
			SELECT jsonb_populate_record(x, '{"action": "delete"}') FROM unnest(steps) AS x
			WHERE x.id = ANY (changed)));
		IF NOT (plan.asked).as_replica THEN
			PERFORM repair_cascades(back);
		END IF;
		PERFORM repair_send((plan.target).place, 'left', (repair_execute_steps(plan, 'delete',
			repair_batch(back, 1), false)).rest, (plan.asked).apply_search_path);
		PERFORM repair_skip_kept(work, n, n, changed, 'changed since it was compared');
	END LOOP;
END
$$;
