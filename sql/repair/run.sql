-- Repairing what a run found ---------------------------------------------------------------
--
-- iblt_repair(run => ...) calls run_repair.  A person has reviewed the differences of a run,
-- so these are repaired and no others.  Each is looked at again, first as a repair does it
-- and then as the run did.  Only if the second look shows what the run has kept, there is a
-- statement for it.  From then on it is a repair as any other (sql/repair), of several
-- tables in one transaction.

-- What was reviewed

-- The keys with these ids whose rows differ now, as a run sees them.
-- The settings of a run, for contents and ids to have the form that it has kept.
CREATE FUNCTION run_repair_look(plan plan, ids text[]) RETURNS difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET IntervalStyle = 'postgres'
AS $$
BEGIN
	RETURN look_at_ids(plan, ids);
END
$$;

-- What the key with an id is looked up by.
-- Ids that begin with a hash have the key behind it in the form that the settings give it.
CREATE FUNCTION run_repair_word(by_hash boolean, id text) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN CASE WHEN by_hash THEN split_part(id, ' ', 1) ELSE id END;
END
$$;

-- The steps for the differences of a table that a run has kept, those of each seed together, which
-- are looked at again and are the same.
CREATE FUNCTION run_repair_find(w run_worker, t run_table, options audit_options,
	asked repair_options) RETURNS run_table_repair[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	planned record := audit_plan(w.conns,
		jsonb_populate_record(NULL::audit_item, t.item), options);
	compared plan := planned.plan;
	plan repair_plan;
	size integer := batch_size(compared);
	work repair_work;
	kept run_difference[];
	part run_difference[];
	ids text[];
	found difference[];
	now difference[];
	seen plan;				-- as the run saw the rows
	again record;
	cause text;
	judged record;
	doubtful text[];		-- keys without a row in an index of a side
	result run_table_repair[] := '{}';
BEGIN
	-- it has to be as it was when the run compared it
	PERFORM run_require_same(t, compared);
	plan := repair_plan_of(compared, asked);
	compared := plan.compared;
	FOR kept IN SELECT array_agg(x ORDER BY x.number) FROM iblt_run_rows(
			NULL::run_difference, t.run, t.table_number) AS x GROUP BY x.seed LOOP
		compared.seed := kept[1].seed;
		plan.compared := compared;
		plan.secret := gen_random_uuid();
		work := ROW(plan, NULL, 0, '{}', 0, '{}')::repair_work;
		doubtful := '{}';
		FOR i IN 1 .. cardinality(kept) BY size LOOP
			part := kept[i : i + size - 1];
			ids := ARRAY(SELECT k.id FROM unnest(part) AS k);
			found := look_at_ids(compared, ids);
			cause := NULL;
			IF compared.recheck > 0 AND found <> '{}' THEN
				again := recheck(compared, found);
				found := again.differences;
				cause := (again.waited).problem;
			ELSIF (planned.item).unready THEN
				found := ARRAY(SELECT jsonb_populate_record(d, '{"confirmed": false}')
					FROM unnest(found) AS d);
			END IF;
			seen := compared;
			seen.content := (((w.options).audit).compare).content;
			now := run_repair_look(seen, ids);
			-- what has become of them, in the order in which rows are locked: the same difference,
			-- or a step that says why it is left
			SELECT array_agg(j.same ORDER BY (j.same).id COLLATE "C")
					FILTER (WHERE (j.same).id IS NOT NULL) AS same,
				array_agg(j.aside) FILTER (WHERE (j.aside).id IS NOT NULL) AS aside INTO judged
			FROM (SELECT CASE WHEN x.reason IS NULL THEN f.found END AS same,
					CASE WHEN x.reason IS NOT NULL THEN jsonb_populate_record(NULL::repair_step,
						jsonb_build_object('id', k.id, 'key', k.key,
							'action', CASE coalesce(n.side, k.side) WHEN 'both' THEN 'update'
								WHEN asked.target_side THEN 'delete' ELSE 'insert' END,
							'detail', x.reason)) END AS aside
				FROM (SELECT u.*, run_repair_word(compared.by_hash, u.id) AS word
					FROM unnest(part) AS u) AS k
				LEFT JOIN unnest(now) AS n ON n.id = k.id
				LEFT JOIN (SELECT (array_agg(v.found))[1] AS found, v.word
					FROM (SELECT u AS found, run_repair_word(compared.by_hash, u.id) AS word
						FROM unnest(found) AS u) AS v
					GROUP BY v.word HAVING count(*) = 1) AS f USING (word),
				LATERAL (SELECT CASE WHEN n.id IS NULL THEN 'equal by now'
					WHEN f.word IS NULL
						OR (n.side, n.here_count, n.there_count, n.here, n.there, n.differs)
						IS DISTINCT FROM
						(k.side, k.here_count, k.there_count, k.here, k.there, k.differs)
					THEN 'differs in another way than the run found' END) AS x(reason)
				ORDER BY k.number) AS j;
			IF judged.same IS NOT NULL THEN
				work := repair_add_steps(work, judged.same, cause);
			END IF;
			PERFORM iblt_repair_put(plan.secret || '/skipped', NULL, judged.aside);
			doubtful := doubtful || doubtfully_equal(seen, ids, now);
		END LOOP;
		PERFORM check_index(compared, doubtful);
		IF NOT asked.apply THEN
			work := repair_show(work,
				repair_target_of(asked.target_side, t.rows_here, t.rows_there));
		END IF;
		result := array_append(result, ROW(t, planned.item, work, kept, NULL)::run_table_repair);
	END LOOP;
	-- a run that goes on keeps more of them meanwhile
	PERFORM run_require_stored(t.run,
		t.kept <= (SELECT sum(cardinality(u.kept)) FROM unnest(result) AS u));
	RETURN result;
END
$$;

-- Applying

-- Runs the statements, and takes what they repaired from the run.
CREATE FUNCTION run_repair_apply(w run_worker, repairs run_table_repair[])
RETURNS run_table_repair[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	works repair_work[] := ARRAY(SELECT u.work FROM unnest(repairs) WITH ORDINALITY AS u
		ORDER BY u.ordinality);
	by_hash boolean;
	r run_table_repair;
	x record;
	t run_table;
BEGIN
	PERFORM repair_claim_all(works);
	works := repair_apply(works);
	FOR i IN 1 .. cardinality(repairs) LOOP
		r := repairs[i];
		r.work := works[i];
		by_hash := (((r.work).plan).compared).by_hash;
		-- a key without a difference was equal when its rows were looked at, or has been made so
		r.gone := ARRAY(SELECT k.number FROM unnest(r.kept) AS k
			WHERE run_repair_word(by_hash, k.id) IN (SELECT run_repair_word(by_hash, s.id)
				FROM (SELECT b.id, true AS equal FROM generate_series(1, (r.work).batches) AS n,
						unnest(repair_batch(r.work, n)) AS b
					UNION ALL
					SELECT k.id, k.detail = 'equal by now'
					FROM repair_skipped((r.work).plan) AS k) AS s
				GROUP BY 1 HAVING bool_and(s.equal)
				EXCEPT SELECT run_repair_word(by_hash, unnest((r.work).differ))));
		repairs[i] := r;
	END LOOP;
	FOR x IN SELECT min(u.ordinality) AS first, array_agg(g.number) AS gone
			FROM unnest(repairs) WITH ORDINALITY AS u, unnest(u.gone) AS g(number)
			GROUP BY (u.t).table_number LOOP
		r := repairs[x.first];
		t := run_table_of(w.run, (r.t).table_number);
		w.item := r.item;
		w.plan := ((r.work).plan).compared;
		PERFORM run_replace(w, t, ARRAY(SELECT d
				FROM iblt_run_rows(NULL::run_difference, t.run, t.table_number) AS d
				LEFT JOIN unnest(x.gone) AS g(number) USING (number) WHERE g.number IS NULL
				ORDER BY d.number),
			format('%s differences are equal since iblt_repair', cardinality(x.gone)));
	END LOOP;
	RETURN repairs;
END
$$;

-- Repairs, or previews, what a run has kept, over connections of these names.
-- If the rows are changed, the lock keeps the run from going on meanwhile.
CREATE FUNCTION run_repair(conns text[], peers text[], run bigint, relation regclass,
	here_relation text, peer_relation text, options options, asked repair_options)
RETURNS repair_work[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	w run_worker := run_worker_of(NULL, NULL, options.progress);
	name text := CASE WHEN here_relation IS NOT NULL
		THEN nodes_relation(here_relation, 'here_relation') END;
	of_run audit_options;
	tables run_table[];
	repairs run_table_repair[] := '{}';
	rest text[];
	-- arguments that say what to compare
	given text := concat_ws(', ', CASE WHEN peer_relation IS NOT NULL THEN 'peer_relation' END,
		(SELECT string_agg(CASE o.key WHEN 'peer_mapping' THEN 'peer_columns' ELSE o.key END, ', '
				ORDER BY o.ordinality)
		FROM json_each_text(to_json(options)) WITH ORDINALITY AS o
		JOIN json_each_text(to_json(@arguments options@)) AS d USING (key)
		WHERE o.value IS DISTINCT FROM d.value
			AND o.key <> ALL ('{recheck,timeout,progress,content,own_rows}'::text[])));
BEGIN
	IF given <> '' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'arguments that do not go with run: ' || given,
			HINT = 'Leave them out. A run is repaired as it was compared.';
	END IF;
	w.peers := peers;
	w.conns := conns;
	w := run_open(w, run);
	IF asked.apply THEN
		PERFORM run_lock_to_write(run);
	END IF;
	of_run := (w.options).audit;
	of_run.compare.content := 'texts';
	of_run.compare.extra_columns := 'ignore';	-- the columns have to be those of the run
	of_run.compare.recheck := coalesce(options.recheck, (of_run.compare).recheck);
	of_run.compare.timeout := options.timeout;
	of_run.compare.progress := options.progress;
	tables := ARRAY(SELECT x FROM iblt_run_rows(NULL::run_table, run) AS x
		WHERE (run_repair.relation IS NULL OR x.item ->> 'relid' = run_repair.relation::oid::text)
			AND (name IS NULL OR x.relation = name)
		ORDER BY x.table_number);
	IF tables = '{}' AND (relation IS NOT NULL OR name IS NOT NULL) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = format('run %s has no table %s', run, coalesce(name, relation::text)),
			HINT = 'See iblt_audit_tables.';
	END IF;
	FOR i IN 1 .. cardinality(tables) LOOP
		-- what is to begin again is left to the warning
		IF tables[i].kept > 0 AND tables[i].shape IS NOT NULL THEN
			repairs := repairs || run_repair_find(w, tables[i], of_run, asked);
		END IF;
	END LOOP;
	IF asked.apply AND repairs <> '{}' THEN
		repairs := run_repair_apply(w, repairs);
	END IF;
	-- why the run may not have all differences of a table
	rest := array_remove(ARRAY(SELECT CASE
			WHEN t.status IS NULL THEN t.relation || ': not compared to its end'
			WHEN t.sqlstate IS NOT NULL OR t.missing IS NULL
			THEN concat_ws(': ', t.relation, t.status, t.detail)
			WHEN t.kept < t.missing + t.extra + t.changed
			THEN concat_ws(': ', t.relation, run_unkept(t)) END
		FROM unnest(tables) AS t), NULL);
	IF rest <> '{}' THEN
		PERFORM iblt_tell('warning',
			format('run %s does not have all differences of %s tables', run, cardinality(rest)),
			array_to_string(rest[1 : 10], E'\n')
				|| CASE WHEN cardinality(rest) > 10 THEN E'\n...' ELSE '' END,
			format('Begin another run after the repair, or CALL iblt_audit_resume(%s) if it is '
				'not finished.', run));
	END IF;
	RETURN ARRAY(SELECT r.work FROM unnest(repairs) WITH ORDINALITY AS r ORDER BY r.ordinality);
END
$$;
