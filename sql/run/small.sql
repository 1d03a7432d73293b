-- Small tables of a run --------------------------------------------------------------------
--
-- A run compares small tables together, as an audit does (sql/audit/small.sql), in one step.
-- The step keeps a lock on each of them that nobody has begun, and stores those that are equal
-- before it commits.  So after a crash, none of them counts as compared.  All others, also
-- those with an error, have slices of their own.

-- Compares small tables that nobody has begun together, and stores those that are equal; how many
-- rows these have, NULL if none is equal.
-- The lock keeps other sessions from beginning the tables.  Each table takes some milliseconds, and
-- all together take about as long as a slice.
CREATE FUNCTION run_try_small(INOUT w run_worker, OUT rows bigint)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	most integer := least((w.options).slice_ms / 10, 100);
	tables run_table[];
	places integer[];
	items audit_item[];
	equal audit_row[];
	t run_table;
	r audit_row;
	stored run_table[] := '{}';
	how constant text := 'compared whole, together with other small tables';
BEGIN
	IF most < 2 OR (w.options).check_indexes THEN
		RETURN;		-- with check_indexes, the caller asks for more than a scan
	END IF;
	tables := ARRAY(SELECT u.x FROM (SELECT x FROM iblt_run_rows(NULL::run_table, w.run) AS x
			WHERE x.status IS NULL AND x.generation = 0 AND x.table_number > w.tried
			ORDER BY x.table_number) AS u
		WHERE iblt_run_lock(w.run, (u.x).table_number, 0, false) LIMIT most);
	IF cardinality(tables) < 2 THEN
		RETURN;
	END IF;
	items := ARRAY(SELECT jsonb_populate_record(NULL::audit_item, u.item) FROM unnest(tables) AS u);
	w.tried := tables[cardinality(tables)].table_number;
	equal := audit_batch(w.conns, w.peers, items, 1, cardinality(tables), (w.options).compare);
	IF equal IS NULL THEN
		RETURN;
	END IF;
	-- each is read again under the lock of the run, as another session may have ended it
	places := ARRAY(SELECT u.table_number FROM unnest(tables) AS u);
	PERFORM iblt_run_lock(w.run);
	FOR t IN SELECT x.* FROM iblt_run_rows(NULL::run_table, w.run) AS x ORDER BY x.table_number LOOP
		r := equal[array_position(places, t.table_number)];
		IF r.status = 'equal' AND t.status IS NULL AND t.generation = 0 THEN
			t := jsonb_populate_record(t, to_jsonb(r) || jsonb_build_object(
				'how', how, 'detail', concat_ws('; ', r.detail, how), 'done', 1,
				'work_ms', r.total_ms, 'wall_ms', r.total_ms, 'started_at', w.began,
				'finished_at', clock_timestamp()));
			stored := array_append(stored, t);
			PERFORM progress(w.progress, format('run %s: %s: %s', t.run, t.relation, t.status));
			rows := coalesce(rows, 0) + greatest(t.rows_here, t.rows_there);
		END IF;
	END LOOP;
	PERFORM iblt_run_put(VARIADIC stored);
END
$$;
