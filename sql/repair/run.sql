-- Repairing what a run found ---------------------------------------------------------------
--
-- iblt_repair(run => ...) calls run_repair.  A person has reviewed the differences of a run,
-- so these are repaired and no others.  Each is looked at again.  Only if that shows what the run
-- has kept, there is a statement for it.  From then on it is a repair as any other (sql/repair), of
-- several tables in one transaction.

-- The steps for the differences of a table that a run has kept, those of each seed together, which
-- are looked at again and are the same.
CREATE FUNCTION run_repair_find(w run_worker, t run_table, options options,
	asked repair_options) RETURNS repair_work[]
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
	found record;
	reviewed boolean := ((w.options).compare).content <> 'none';
	judged record;
	doubtful text[];
	number bigint := 0;
	result repair_work[] := '{}';
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
		work := ROW(plan, NULL, '{}', 0, '{}', t.table_number, planned.item, NULL)::repair_work;
		doubtful := '{}';
		number := number + cardinality(kept);
		FOR i IN 1 .. cardinality(kept) BY size LOOP
			part := kept[i : i + size - 1];
			ids := ARRAY(SELECT k.id FROM unnest(part) AS k);
			found := recheck(compared, ids);
			-- what has become of them, in the order in which rows are locked: the same difference,
			-- or a step that says why it is left
			SELECT array_agg(j.same ORDER BY (j.same).id COLLATE "C")
					FILTER (WHERE (j.same).id IS NOT NULL) AS same,
				array_agg(j.aside) FILTER (WHERE (j.aside).id IS NOT NULL) AS aside INTO judged
			FROM (SELECT CASE WHEN x.reason IS NULL THEN f END AS same,
					CASE WHEN x.reason IS NOT NULL THEN jsonb_populate_record(NULL::repair_step,
						jsonb_build_object('id', k.id, 'key', k.key,
							'action', CASE coalesce(f.side, k.side) WHEN 'both' THEN 'update'
								WHEN asked.target_side THEN 'delete' ELSE 'insert' END,
							'detail', x.reason)) END AS aside
				FROM unnest(part) AS k LEFT JOIN unnest(found.differences) AS f USING (id),
				LATERAL (SELECT CASE WHEN f.side IS NULL THEN 'equal by now'
					WHEN (f.side, f.here_count, f.there_count)
							IS DISTINCT FROM (k.side, k.here_count, k.there_count)
						OR reviewed AND (f.here_checksum, f.there_checksum)
							IS DISTINCT FROM (k.here_checksum, k.there_checksum)
					THEN 'differs in another way than the run found' END) AS x(reason)
				ORDER BY k.number) AS j;
			IF judged.same IS NOT NULL THEN
				work := repair_add_steps(work, judged.same, found.problem);
			END IF;
			PERFORM iblt_repair_put(plan.secret || '/skipped', NULL, judged.aside);
			doubtful := doubtful || found.doubtful;
		END LOOP;
		PERFORM check_index(compared, doubtful);
		IF NOT asked.apply THEN
			PERFORM repair_show(work,
				(ARRAY[t.rows_here, t.rows_there])[plan.place]);
		END IF;
		result := array_append(result, work);
	END LOOP;
	-- a run that goes on keeps more of them meanwhile
	PERFORM run_require_stored(t.run, t.kept <= number);
	RETURN result;
END
$$;

-- Repairs, or previews, what a run has kept, over connections of these names; what is repaired goes
-- from the run.
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
	of_run options;
	tables run_table[];
	t run_table;
	works repair_work[] := '{}';
	work repair_work;
	gone text[];			-- ids of keys whose rows were equal, or have become so
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
		RAISE invalid_parameter_value USING
			MESSAGE = 'arguments that do not go with run: ' || given,
			HINT = 'Leave them out. A run is repaired as it was compared.';
	END IF;
	w.peers := peers;
	w.conns := conns;
	w := run_open(w, run);
	IF asked.apply THEN
		PERFORM iblt_run_lock(run);
	END IF;
	of_run := (w.options).compare;
	of_run.content := 'texts';
	of_run.extra_columns := 'ignore';	-- the columns have to be those of the run
	of_run.recheck := coalesce(options.recheck, of_run.recheck);
	of_run.timeout := options.timeout;
	of_run.progress := options.progress;
	tables := ARRAY(SELECT x FROM iblt_run_rows(NULL::run_table, run) AS x
		WHERE (run_repair.relation IS NULL OR x.item ->> 'relid' = run_repair.relation::oid::text)
			AND (name IS NULL OR x.relation = name)
		ORDER BY x.table_number);
	IF tables = '{}' AND (relation IS NOT NULL OR name IS NOT NULL) THEN
		RAISE invalid_parameter_value USING
			MESSAGE = format('run %s has no table %s', run, coalesce(name, relation::text)),
			HINT = 'See iblt_audit_tables.';
	END IF;
	FOREACH t IN ARRAY tables LOOP
		-- what is to begin again is left to the warning
		IF t.kept > 0 AND t.shape IS NOT NULL THEN
			works := works || run_repair_find(w, t, of_run, asked);
		END IF;
	END LOOP;
	IF asked.apply AND works <> '{}' THEN
		PERFORM repair_claim(VARIADIC works);
		-- before the commit, and behind the last look that finds some equal
		FOR i IN 1 .. cardinality(works) LOOP
			work := works[i];
			work.gone := run_gone((work.plan).compared, run_table_of(run, work.table_number),
				ARRAY(SELECT d FROM iblt_run_rows(NULL::run_difference, run, work.table_number) AS d
				WHERE d.seed = ((work.plan).compared).seed AND d.id IN (SELECT k.id
					FROM repair_skipped((work.plan).secret) AS k WHERE k.detail = 'equal by now')));
			works[i] := work;
		END LOOP;
		works := repair_apply(works);
		FOREACH work IN ARRAY works LOOP
			w.item := work.item;
			w.plan := (work.plan).compared;
			gone := ARRAY(SELECT s.id
				FROM (SELECT b.id, true AS equal FROM generate_subscripts(work.parts, 1) AS n,
						unnest(repair_batch(work, n)) AS b
					UNION ALL
					SELECT k.id, k.detail = 'equal by now'
					FROM repair_skipped((work.plan).secret) AS k) AS s
				GROUP BY s.id HAVING bool_and(s.equal) EXCEPT SELECT unnest(work.differ));
			CONTINUE WHEN gone = '{}';
			t := run_table_of(run, work.table_number);
			PERFORM run_replace(w, t, ARRAY(SELECT d
					FROM iblt_run_rows(NULL::run_difference, t.run, t.table_number) AS d
					WHERE d.seed <> (w.plan).seed OR d.id <> ALL (gone) ORDER BY d.number),
				format('%s differences are equal since iblt_repair', cardinality(gone)), work.gone);
		END LOOP;
	END IF;
	-- why the run may not have all differences of a table
	rest := array_remove(ARRAY(SELECT CASE
			WHEN u.status IS NULL THEN u.relation || ': not compared to its end'
			WHEN u.sqlstate IS NOT NULL OR u.missing IS NULL
			THEN concat_ws(': ', u.relation, u.status, u.detail)
			ELSE u.relation || ': ' || run_unkept(u) END
		FROM unnest(tables) AS u), NULL);
	IF rest <> '{}' THEN
		PERFORM iblt_tell('warning',
			format('run %s does not have all differences of %s tables', run, cardinality(rest)),
			array_to_string(rest[1 : 10], E'\n')
				|| CASE WHEN cardinality(rest) > 10 THEN E'\n...' ELSE '' END,
			format('Begin another run after the repair, or CALL iblt_audit_resume(%s) if it is '
				'not finished.', run));
	END IF;
	RETURN works;
END
$$;
