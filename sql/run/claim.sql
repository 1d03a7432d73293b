-- Claiming a slice -----------------------------------------------------------------------

-- The first work of a run: a table and its slice if that was left by another session, 0 for a table
-- that begins, or no number if a slice can be cut.  If others are at all of it, what one of them is
-- at; if there is none, no table.
-- A slice whose lock is free was left by a session that died, or another session has chosen it
-- too and has yet to lock it, or it will be gone when run_work looks for it again.  run_work
-- locks it for the time of its work.
CREATE FUNCTION run_next(run bigint, OUT table_number integer, OUT number bigint, OUT busy boolean)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	slices run_slice[] := ARRAY(SELECT s FROM iblt_run_rows(NULL::run_slice, run) AS s);
BEGIN
	FOR table_number, number IN SELECT t.table_number, c.number
			FROM (SELECT x.* FROM iblt_run_rows(NULL::run_table, run) AS x
				WHERE x.status IS NULL ORDER BY x.table_number) AS t, LATERAL (
				SELECT 0 WHERE t.generation = 0
				UNION ALL
				SELECT s.number FROM unnest(slices) AS s WHERE s.table_number = t.table_number
				UNION ALL
				SELECT NULL WHERE t.generation > 0 AND NOT t.at_end) AS c(number) LOOP
		busy := number IS NOT NULL AND NOT iblt_run_lock(run, table_number, number, false);
		EXIT WHEN NOT busy;
	END LOOP;
END
$$;

-- Takes the lock of a slice until the transaction ends, and waits for it for a moment; false if
-- another session has it for longer.
-- A session that waits for a slice of another session (run_claim) gets its lock when that
-- session has claimed it and commits, and keeps it until the step ends.  If the other session did
-- not wait here, each of them would take the lock from the other one at each step, for ever.
CREATE FUNCTION run_lock_slice(run bigint, table_number integer, number bigint) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET lock_timeout = '200ms'
AS $$
BEGIN
	RETURN iblt_run_lock(run, table_number, number, true);
EXCEPTION WHEN lock_not_available THEN
	RETURN false;
END
$$;

-- What all slices of a table must have in common: what its differences rest on (run_basis), files,
-- and a hash of the rest; and what run_probe answers on both sides.  That is part of the protocol,
-- and a peer without iblt is asked for its body (plain_call).
-- All have the same columns and conditions, or the verdict would tell more of a table than some
-- have compared.
CREATE FUNCTION run_see(plan plan, OUT shape text[], OUT probes jsonb[])
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	call text := 'run_probe(pg_catalog.to_regclass(%L))';
BEGIN
	probes := ask_calls(places_of(plan), format(call, (plan.here).relation),
		format(call, (plan.there).relation))::jsonb[];
	shape := run_basis(plan) || ARRAY[probes[1] ->> 'file', probes[2] ->> 'file',
		audit_hash(convert_to(jsonb_build_array(order_text((slice_key(plan)).here), plan.columns,
			(plan.here).condition, (plan.there).condition)::text, getdatabaseencoding()))];
END
$$;

-- A table at its beginning, with the worker's shape; what was found before it was altered is
-- deleted.
CREATE FUNCTION run_start_table(w run_worker, t run_table, how text, whole boolean)
RETURNS run_table
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF t.generation > 0 THEN
		PERFORM run_clear(t.run, t.table_number);
	END IF;
	IF t.shape IS NOT NULL THEN
		PERFORM progress(w.progress,
			format('run %s: %s was %s, it starts again', t.run, t.relation,
				CASE t.shape WHEN w.shape THEN 'not read as a whole' ELSE 'altered' END));
	END IF;
	t.generation := t.generation + 1;
	t.peer_relation := ((w.plan).there).relation;
	t.shape := w.shape;
	t.how := how;
	t.frontier := NULL;
	t.at_end := false;
	t.slice_rows := CASE WHEN NOT whole
		THEN greatest(1000, least(10000, 10 * (w.options).slice_ms)) END;
	t.started_at := clock_timestamp();
	@each audit_counts: t.% := 0;@
	SELECT 0, 0, 0, 0, 0, 0 INTO t.cut, t.done, t.kept, t.bytes, t.work_ms, t.wall_ms;
	t.gone := NULL;
	RETURN t;
END
$$;

-- Makes the plan of a worker's table unless it has one, and cuts a slice unless it has one.
-- A table that begins is read as one slice or as more, whose indexes are checked.  That may take
-- long, so it comes before the lock of the run.  A lock of the table's own keeps two sessions from
-- doing it.
CREATE FUNCTION run_plan_and_cut(w run_worker) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	t run_table;
	started timestamptz := clock_timestamp();
	planned record;
	seen record;
	bound text[];
	problem text;
	how text;				-- a table that begins is read
BEGIN
	IF w.planned IS NULL THEN
		planned := audit_plan(w.conns, w.item, (w.options).compare);
		w.item := planned.item;
		w.plan := planned.plan;
		w.planned := started;
		seen := run_see(w.plan);
		w.shape := seen.shape;
		IF (run_table_of(w.run, w.table_number)).shape IS DISTINCT FROM w.shape
				AND iblt_run_lock(w.run, w.table_number, 0, false)
				AND (run_table_of(w.run, w.table_number)).shape IS DISTINCT FROM w.shape THEN
			problem := 'compared in one slice: ' || (slice_key(w.plan)).problem;
			how := coalesce(problem, slice_guard(w.plan, (w.options).check_indexes, seen.probes));
		END IF;
	END IF;
	PERFORM iblt_run_lock(w.run);
	t := run_table_of(w.run, w.table_number);
	IF t.status IS NOT NULL THEN
		RETURN w;
	ELSIF t.shape IS DISTINCT FROM w.shape AND how IS NULL THEN
		-- another session begins the table
		RETURN run_wait_then_claim(w, 0.2);
	ELSIF t.shape IS DISTINCT FROM w.shape THEN
		t.estimate := greatest((seen.probes[1] ->> 'rows')::bigint,
			(seen.probes[2] ->> 'rows')::bigint);
		t := run_start_table(w, t, how, problem IS NOT NULL);
		w.number := NULL;
	END IF;
	IF w.number IS NULL AND NOT t.at_end THEN
		IF t.slice_rows IS NOT NULL THEN
			BEGIN
				bound := slice_next(w.plan, t.frontier, t.slice_rows, w.uneven OR t.cut = 0,
					t.estimate);
			EXCEPTION WHEN feature_not_supported THEN
				-- slice_key does not know which index the planner takes
				IF t.frontier IS NOT NULL THEN
					RAISE;
				END IF;
				-- takes what the other side still answers
				PERFORM iblt_peer_fetch(place, ''::text) FROM unnest(places_of(w.plan)) AS place
				WHERE place IS NOT NULL;
				t.slice_rows := NULL;
				t.how := 'compared in one slice: ' || SQLERRM;
			END;
		END IF;
		t.cut := t.cut + 1;		-- its number
		PERFORM iblt_run_add(ROW(NULL, t.run, t.table_number, t.cut, t.generation, t.frontier,
			bound, t.slice_rows, false)::run_slice);
		t.frontier := bound;
		t.at_end := bound IS NULL;
		w.number := t.cut;
		PERFORM iblt_run_put(t);
	END IF;
	w.act := CASE WHEN w.number IS NULL THEN 'claim' ELSE 'work' END;
	RETURN w;
END
$$;

-- Claims a slice, or pauses, or ends; a worker without a slice claims again.
-- To describe both sides costs as much as to compare some ten thousand rows.  So a worker keeps
-- the plan of its table for a moment: each statement tells whether it reads the columns that were
-- described (require_side_described), and run_work() looks at the files at the end.
CREATE FUNCTION run_claim(w run_worker) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	small record;
	next record;
	t run_table;
	pause double precision;
	leaves text;
	e failure;
BEGIN
	w.began := clock_timestamp();
	IF run_over(w.run) THEN
		w := run_say_paused(w, NULL);
		leaves := 'is finished';
	ELSIF w.began >= w.deadline THEN
		leaves := format('has stopped at max_time; CALL iblt_audit_resume(%s) continues it',
			w.run);
	END IF;
	IF leaves IS NOT NULL THEN
		PERFORM peers_close(w.conns);
		PERFORM progress(w.progress, format('run %s %s', w.run, leaves));
		w.act := NULL;
		RETURN w;
	END IF;
	w := run_connect(w);
	IF run_lagging(w.conns, (w.options).max_lag) THEN
		w := run_say_paused(w, 'replication lags by more than ' || (w.options).max_lag);
		RETURN run_wait_then_claim(w, 0.5);
	END IF;
	w := run_say_paused(w, NULL);
	small := run_try_small(w);
	w := small.w;
	IF small.rows IS NOT NULL THEN
		pause := run_pause_seconds(w.options, ms(w.began) / 1000, small.rows);
		w.last := clock_timestamp() + make_interval(secs => pause);
		RETURN run_wait_then_claim(w, pause);
	ELSIF NOT run_is_connected(w.conns) THEN
		RETURN run_wait_then_claim(w, 1);
	END IF;
	next := run_next(w.run);
	IF next.busy THEN
		-- waits until another session has done the slice, but for a moment only, as in a pause
		PERFORM run_lock_slice(w.run, next.table_number, next.number);
		RETURN run_wait_then_claim(w);
	ELSIF next.table_number IS NULL THEN
		-- the last slice has ended meanwhile, or REFRESH has removed it
		PERFORM iblt_run_lock(w.run);
		PERFORM run_require_stored(w.run,
			(run_next(w.run)).table_number IS NOT NULL OR run_over(w.run));
		RETURN run_wait_then_claim(w, 0.2);
	END IF;
	t := run_table_of(w.run, next.table_number);
	IF w.table_number IS DISTINCT FROM t.table_number THEN
		w.table_number := t.table_number;
		w.uneven := false;
		w.planned := NULL;
	ELSIF clock_timestamp() > w.planned + interval '5 s' OR t.shape IS DISTINCT FROM w.shape THEN
		w.planned := NULL;
	END IF;
	IF w.planned IS NULL THEN
		w.plan := NULL;
		w.item := jsonb_populate_record(NULL::audit_item, t.item);
	END IF;
	w.number := nullif(next.number, 0);
	IF (w.item).problem IS NOT NULL OR (w.item).absent THEN
		RETURN run_fail_table(w, NULL);
	END IF;
	BEGIN
		RETURN run_plan_and_cut(w);
	EXCEPTION WHEN @on_error@ THEN
		@take_failure@;
	END;
	RETURN run_after_error(w, e);
END
$$;
