-- Small tables of a run --------------------------------------------------------------------
--
-- A run compares small tables together, as an audit does (sql/audit/small.sql), in one step.
-- The step keeps a lock on each of them that nobody has begun, and stores those that are equal
-- before it commits.  So after a crash, none of them counts as compared.  All others, also
-- those with an error, have slices of their own.

-- Tables that nobody has begun, behind those that this session has already tried.
-- The lock keeps other sessions from beginning them.  Each table takes some milliseconds, and all
-- together take about as long as a slice.  With check_indexes, the caller asks for more than a
-- scan.
CREATE FUNCTION run_unbegun(w run_worker) RETURNS run_table[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	most integer := CASE WHEN NOT (w.options).check_indexes
		THEN least((w.options).slice_ms / 10, 100) ELSE 0 END;
	t run_table;
	result run_table[] := '{}';
BEGIN
	IF most > 1 THEN
		FOR t IN SELECT x.* FROM iblt_run_rows(NULL::run_table, w.run) AS x
				WHERE x.status IS NULL AND x.generation = 0 AND x.table_number > w.tried
				ORDER BY x.table_number LOOP
			EXIT WHEN cardinality(result) = most;
			IF run_lock_to_start_table(w.run, t.table_number) THEN
				result := result || t;
			END IF;
		END LOOP;
	END IF;
	RETURN result;
END
$$;

-- A table that was found to be equal together with others.
CREATE FUNCTION run_equal(t run_table, r audit_row, began timestamptz) RETURNS run_table
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	t.relation := r.relation;
	t.peer_relation := r.peer_relation;
	t.status := r.status;
	t.how := 'compared whole, together with other small tables';
	t.detail := concat_ws('; ', r.detail, t.how);
	@each audit_counts: t.% := 0;@
	SELECT 0, 0, 0 INTO t.done, t.bytes, t.work_ms;
	t := run_add_counts(t, r, r.total_ms);
	t.wall_ms := r.total_ms;
	t.started_at := began;
	t.finished_at := clock_timestamp();
	RETURN t;
END
$$;

-- Stores the tables that are equal, of those that were tried; their rows, NULL if none is.
-- Under the lock of the run, each is read again, as another session may have ended it.
CREATE FUNCTION run_store_small(w run_worker, tried run_table[], equal audit_row[]) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	r audit_row;
	t run_table;
	places integer[] := ARRAY(SELECT u.table_number FROM unnest(tried) AS u);
	rows bigint;
	stored run_table[] := '{}';
BEGIN
	PERFORM run_lock_to_write(w.run);
	FOR t IN SELECT x.* FROM iblt_run_rows(NULL::run_table, w.run) AS x ORDER BY x.table_number LOOP
		r := equal[array_position(places, t.table_number)];
		IF r.status = 'equal' AND t.status IS NULL AND t.generation = 0 THEN
			t := run_equal(t, r, w.began);
			stored := array_append(stored, t);
			PERFORM progress(w.progress, format('run %s: %s: %s', t.run, t.relation, t.status));
			rows := coalesce(rows, 0) + greatest(t.rows_here, t.rows_there);
		END IF;
	END LOOP;
	PERFORM iblt_run_put(VARIADIC stored);
	RETURN rows;
END
$$;

-- Compares small tables that nobody has begun together; how many rows the equal ones have,
-- NULL if none is equal.
CREATE FUNCTION run_try_small(INOUT w run_worker, OUT rows bigint) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	tables run_table[] := run_unbegun(w);
	items audit_item[];
	batch record;
BEGIN
	IF cardinality(tables) < 2 THEN
		RETURN;
	END IF;
	items := ARRAY(SELECT run_item_of(t) FROM unnest(tables) AS t);
	batch := audit_batch(w.conns, w.peers, items, 1, (w.options).audit,
		cardinality(tables));
	w.tried := tables[batch.last].table_number;
	IF batch.equal IS NOT NULL THEN
		rows := run_store_small(w, tables, batch.equal);
	END IF;
END
$$;
