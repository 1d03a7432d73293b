-- Claiming a slice -----------------------------------------------------------------------

-- What a worker does next

-- Makes a worker pause before it claims again.
CREATE FUNCTION run_wait(w run_worker, seconds double precision) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	w.act := CASE WHEN seconds > 0.001 THEN 'pause' ELSE 'claim' END;
	w.until := clock_timestamp() + make_interval(secs => least(seconds, 1e6));
	RETURN w;
END
$$;

-- Are all tables of a run compared?
CREATE FUNCTION run_over(run bigint) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	open boolean[] := ARRAY(SELECT x.status IS NULL FROM iblt_run_rows(NULL::run_table, run) AS x);
BEGIN
	PERFORM run_require(run, open <> '{}');
	RETURN true <> ALL (open);
END
$$;

-- Pauses for a moment; the caller commits after each.
-- A pause holds no snapshot for longer than this, and ends with the run.
CREATE FUNCTION run_pause(w run_worker) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	left_over double precision := extract(epoch FROM w.until - clock_timestamp());
BEGIN
	PERFORM pg_sleep(greatest(least(left_over, 0.2), 0));
	IF clock_timestamp() >= w.until OR clock_timestamp() >= w.deadline OR run_over(w.run) THEN
		w.act := 'claim';
	END IF;
	RETURN w;
END
$$;

-- Ends the work of this session on a run.
CREATE FUNCTION run_end(w run_worker, message text) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM peers_close(w.conns);
	PERFORM progress(w.progress, format('run %s %s', w.run, message));
	w.done := true;
	RETURN w;
END
$$;

-- Notes why a run pauses, which the views show, or with NULL that it does not.
CREATE FUNCTION run_say_paused(w run_worker, reason text) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	head run_head;
BEGIN
	IF w.paused IS DISTINCT FROM reason THEN
		PERFORM run_write(w.run);
		head := run_head_of(w.run);
		head.paused := reason;
		PERFORM iblt_run_put(head);
		PERFORM progress(w.progress,
			format('run %s %s', w.run, coalesce('pauses: ' || reason, 'goes on')));
		w.paused := reason;
	END IF;
	RETURN w;
END
$$;

-- Which table

-- The first table with work, and its slice if that was left by another session; no table if
-- others are at all of it, but one of their slices (0: a table that is being begun).
-- A slice whose lock is free was left by a session that died, or will be gone when it is
-- looked for again.
CREATE FUNCTION run_next(run bigint, OUT t run_table, OUT number bigint, OUT busy run_slice)
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s run_slice;
	slices run_slice[] := ARRAY(SELECT x
		FROM iblt_run_rows(NULL::run_slice, run) AS x);
BEGIN
	FOR t IN SELECT x.* FROM iblt_run_rows(NULL::run_table, run) AS x
			WHERE x.status IS NULL ORDER BY x.item LOOP
		IF t.generation = 0 AND NOT iblt_run_lock(run, t.item, 0, false) THEN
			busy.item := t.item;
			busy.number := 0;
			CONTINUE;
		END IF;
		FOR s IN SELECT x.* FROM unnest(slices) AS x
				WHERE x.item = t.item ORDER BY x.number LOOP
			IF iblt_run_lock(run, s.item, s.number, false) THEN
				number := s.number;
				RETURN;
			END IF;
			busy := s;
		END LOOP;
		IF NOT t.at_end THEN
			RETURN;
		END IF;
	END LOOP;
	t := NULL;
END
$$;

-- Waits until another session has done a slice, but for a moment only, as a pause does.
CREATE FUNCTION run_await(w run_worker, busy run_slice) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET lock_timeout = '200ms'
AS $$
DECLARE
	done boolean;
BEGIN
	done := iblt_run_lock(w.run, busy.item, busy.number, true);
	RETURN run_wait(w, CASE WHEN done THEN 0 ELSE 0.2 END);
EXCEPTION WHEN lock_not_available THEN
	RETURN run_wait(w, 0);
END
$$;

-- Its slice

-- What a worker's table is on both sides now.
CREATE FUNCTION run_see(w run_worker) RETURNS run_seen
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan := w.plan;
	probes jsonb[] := run_probes(plan);
	here jsonb := probes[1];
	there jsonb := probes[2];
	seen run_seen;
BEGIN
	-- a slice by key is compared at once, but sketches of slices by blocks are added up, so all
	-- must be made in the same way, and on the same server
	seen.shape := concat_ws(' ', (plan.here).fingerprint, here ->> 'file',
		(plan.there).fingerprint, there ->> 'file', md5(slice_order(plan)),
		CASE WHEN (w.options).slice_by = 'blocks' THEN md5(concat_ws(E'\n',
			here ->> 'started', there ->> 'started', run_key(plan),
			plan.columns::text, (plan.here).condition, (plan.there).condition)) END);
	seen.estimate := greatest((here ->> 'rows')::bigint, (there ->> 'rows')::bigint);
	seen.histogram := here ->> 'histogram';
	RETURN seen;
END
$$;

-- Is a table that begins one slice, and what is there to say of how it is read? Nothing, if
-- another session begins it.
-- To check an index may take long, so this comes before the lock of the run.  A lock of the
-- table's own keeps two sessions from doing it.
CREATE FUNCTION run_how(w run_worker, seen run_seen) RETURNS run_seen
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	t run_table;
	refusal text;
BEGIN
	IF NOT iblt_run_lock(w.run, w.item, 0, false) THEN
		RETURN seen;
	END IF;
	t := run_table_of(w.run, w.item);
	IF t.shape IS DISTINCT FROM seen.shape AND (w.options).slice_by = 'blocks' THEN
		RETURN blocks_begin(w, seen);
	ELSIF t.shape IS DISTINCT FROM seen.shape THEN
		refusal := slice_refusal(w.plan);
		seen.whole := refusal IS NOT NULL;
		seen.how := CASE WHEN seen.whole THEN 'compared in one slice: ' || refusal
			ELSE slice_guard(w.plan, (w.options).check_indexes,
				seen.estimate) END;
	END IF;
	RETURN seen;
END
$$;

-- A table at its beginning; what was found before it was altered is deleted.
CREATE FUNCTION run_start_table(w run_worker, t run_table, seen run_seen) RETURNS run_table
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF t.shape IS NOT NULL THEN
		PERFORM iblt_run_remove(NULL::run_slice, t.run, t.item);
		PERFORM iblt_run_remove(NULL::run_difference, t.run, t.item);
		PERFORM iblt_run_remove(NULL::run_range, t.run, t.item);
		PERFORM iblt_run_remove(NULL::run_sketch, t.run, t.item);
		PERFORM progress(w.progress,
			format('run %s: %s was %s, it starts again', t.run, t.relation,
				CASE t.shape WHEN '' THEN 'written to' WHEN seen.shape THEN 'not read as a whole'
					ELSE 'altered' END));
	END IF;
	t.generation := t.generation + 1;
	t.relation := ((w.plan).here).relation;
	t.peer_relation := ((w.plan).there).relation;
	t.shape := seen.shape;
	t.key := run_key(w.plan);
	t.estimate := seen.estimate;
	t.whole := seen.whole;
	t.marks := seen.marks;
	t.how := seen.how;
	t.frontier := NULL;
	t.at_end := false;
	t.slice_rows := CASE WHEN NOT seen.whole
		THEN greatest(1000, least(10000, 10 * (w.options).slice_ms)) END;
	t.started_at := clock_timestamp();
	@each audit_counts: t.% := 0;@
	SELECT 0, 0, 0, 0, 0, 0 INTO t.cut, t.done, t.kept, t.bytes, t.work_ms, t.wall_ms;
	t.recent_rows := NULL;
	t.recent_ms := NULL;
	t.left_ms := NULL;
	RETURN t;
END
$$;

-- The upper bound of the next slice, or why the table cannot be cut.
CREATE FUNCTION run_bound(w run_worker, t run_table, OUT hi text[], OUT problem text) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF t.marks IS NOT NULL THEN
		hi := blocks_bound(t);
	ELSIF NOT t.whole AND t.cut > 0 AND NOT w.walks THEN
		hi := slice_guess(w.plan, w.histogram, t.frontier, t.slice_rows, t.estimate);
	ELSIF NOT t.whole THEN
		SELECT x.hi, x.problem INTO hi, problem
		FROM slice_end(w.plan, t.frontier, t.slice_rows) AS x;
	END IF;
END
$$;

-- Adds a slice to a table; its number is how many were cut.
CREATE FUNCTION run_add_slice(t run_table, lo text[], hi text[], rows bigint) RETURNS run_table
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s run_slice;
BEGIN
	t.cut := t.cut + 1;
	s.run := t.run;
	s.item := t.item;
	s.number := t.cut;
	s.generation := t.generation;
	s.lo := lo;
	s.hi := hi;
	s.rows := rows;
	PERFORM iblt_run_add(s);
	RETURN t;
END
$$;

-- Cuts the next slice of a table.
CREATE FUNCTION run_cut(w run_worker, INOUT t run_table, OUT number bigint) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	bound record := run_bound(w, t);
BEGIN
	IF bound.problem IS NOT NULL THEN
		t.whole := true;
		t.slice_rows := NULL;
		t.how := 'compared in one slice: ' || bound.problem;
	END IF;
	t := run_add_slice(t, t.frontier, bound.hi, t.slice_rows);
	t.frontier := bound.hi;
	t.at_end := bound.hi IS NULL;
	number := t.cut;
END
$$;

-- Makes the plan of a worker's table.
CREATE FUNCTION run_plan(w run_worker, t run_table) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	planned record := audit_plan(w.conns, run_entry_of(t), (w.options).audit);
BEGIN
	w.entry := planned.item;
	w.plan := planned.plan;
	w.planned := started;
	RETURN w;
END
$$;

-- Makes the plan of a worker's table unless it has one, and cuts a slice unless it has one.
CREATE FUNCTION run_take(w run_worker) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	t run_table := run_table_of(w.run, w.item);
	seen run_seen;
	cut record;
BEGIN
	seen.shape := w.shape;
	IF w.planned IS NULL OR t.shape IS DISTINCT FROM w.shape THEN
		w := run_plan(w, t);
		seen := run_see(w);
		w.shape := seen.shape;
		w.histogram := seen.histogram;
		IF t.shape IS DISTINCT FROM seen.shape THEN
			seen := run_how(w, seen);
		END IF;
	END IF;
	PERFORM run_write(w.run);
	t := run_table_of(w.run, w.item);
	IF t.status IS NOT NULL THEN
		RETURN w;
	ELSIF t.shape IS DISTINCT FROM seen.shape AND seen.whole IS NULL THEN
		RETURN run_wait(w, 0.2);
	ELSIF t.shape IS DISTINCT FROM seen.shape THEN
		t := run_start_table(w, t, seen);
		w.number := NULL;
	END IF;
	IF w.number IS NULL AND NOT t.at_end THEN
		cut := run_cut(w, t);
		t := cut.t;
		w.number := cut.number;
		PERFORM iblt_run_put(t);
	END IF;
	w.act := CASE WHEN w.number IS NULL THEN 'claim' ELSE 'work' END;
	RETURN w;
END
$$;

-- Claims a slice of a table; a worker without one claims again.
-- To describe both sides costs as much as to compare some ten thousand rows.  So a worker keeps
-- the plan of its table for a moment: each statement tells whether it reads the columns that were
-- described (require_described), and run_work() looks at the files at the end.
CREATE FUNCTION run_claim_of(w run_worker, t run_table, number bigint) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	e failure;
BEGIN
	IF w.item IS DISTINCT FROM t.item THEN
		w.item := t.item;
		w.walks := false;
		w.planned := NULL;
	ELSIF clock_timestamp() > w.planned + interval '5 s' THEN
		w.planned := NULL;
	END IF;
	IF w.planned IS NULL THEN
		w.plan := NULL;
		w.entry := run_entry_of(t);
	END IF;
	w.number := number;
	IF (w.entry).problem IS NOT NULL OR (w.entry).absent THEN
		RETURN run_fail_table(w, NULL);
	END IF;
	BEGIN
		RETURN run_take(w);
	EXCEPTION WHEN assert_failure OR OTHERS THEN
		@take_failure@;
	END;
	RETURN run_failed(w, e);
END
$$;

-- Claims a slice, or pauses, or ends.
CREATE FUNCTION run_claim(w run_worker) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	small record;
	next record;
	pause double precision;
BEGIN
	w.began := clock_timestamp();
	IF run_over(w.run) THEN
		w := run_say_paused(w, NULL);
		RETURN run_end(w, 'is finished');
	ELSIF w.began >= w.deadline THEN
		RETURN run_end(w, format('stops, since max_time is over; '
			'CALL iblt_audit_resume(%s) goes on', w.run));
	END IF;
	w := run_connect(w);
	IF (w.options).max_lag IS NOT NULL
			AND run_lagging(w.conns, (w.options).max_lag) THEN
		w := run_say_paused(w,
			format('replication lags by more than %s', (w.options).max_lag));
		RETURN run_wait(w, 0.5);
	END IF;
	w := run_say_paused(w, NULL);
	small := run_try_small(w);
	w := small.w;
	IF small.rows IS NOT NULL THEN
		pause := run_pause_after(w.options, ms(w.began) / 1000, small.rows);
		pause := CASE WHEN pause > 0 AND run_over(w.run) THEN 0 ELSE pause END;
		w.last := clock_timestamp() + make_interval(secs => pause);
		RETURN run_wait(w, pause);
	ELSIF NOT iblt_peer_is_open(w.conns[2]) THEN
		RETURN run_wait(w, 1);
	END IF;
	next := run_next(w.run);
	IF (next.t).item IS NOT NULL THEN
		RETURN run_claim_of(w, next.t, next.number);
	END IF;
	RETURN run_await(w, next.busy);
END
$$;
