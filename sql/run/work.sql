-- A slice at work ------------------------------------------------------------------------

-- How many rows the next slice is to have.
-- A slice grows to ten times the last at most, and is not to find more than half the
-- differences that a comparison can.  What a slice costs beside its rows (messages, commits)
-- would make small ones smaller still.
CREATE FUNCTION run_next_rows(s run_slice, seen bigint,
	differences bigint, most bigint, wanted_ms integer, took_ms double precision) RETURNS bigint
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN s.rows IS NULL THEN NULL ELSE greatest(
		CASE WHEN took_ms < 4 * wanted_ms + 1000 THEN 1000 ELSE 10 END, least(10 * s.rows,
		greatest(seen, s.rows / 10) * wanted_ms / greatest(took_ms, 0.1),
		CASE WHEN differences > 0 THEN seen * most / 2 / differences END))::bigint END;

-- What there is to say if not all differences were kept.
CREATE FUNCTION run_unkept(t run_table) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN t.kept < t.missing + t.extra + t.changed
		THEN format('%s differences were kept, and the others counted (max_differences)', t.kept)
		END;

-- A table all of whose slices are compared.
CREATE FUNCTION run_finish_table(w run_worker, t run_table) RETURNS run_table
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	r audit_row;
BEGIN
	@each audit_counts: r.% := t.%;@
	r := audit_verdict(w.item, w.plan, NULL, r);
	IF r.status = 'equal' AND t.gone IS NOT NULL THEN
		r.status := 'not comparable';
		t.sqlstate := 'IB003';
		r.detail := t.gone || ': call iblt_audit_resume to compare again';
	END IF;
	t.status := r.status;
	t.detail := nullif(concat_ws('; ', r.detail, run_unkept(t), t.how), '');
	t.finished_at := clock_timestamp();
	PERFORM progress(w.progress, format('run %s: %s: %s%s', t.run, t.relation, t.status,
		': ' || nullif(concat_ws('; ', report_counts(t.missing, t.extra, t.changed, 0),
			t.detail), '')));
	RETURN t;
END
$$;

-- A bound as a key, NULL for none.
CREATE FUNCTION range_key(plan plan, bound text[]) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	result jsonb;
BEGIN
	IF bound IS NOT NULL THEN
		EXECUTE format('SELECT %s FROM (SELECT $1) AS iblt_k(id)',
			key_json_sql((require_slice_key(plan)).columns))
		INTO result USING CASE cardinality(bound) WHEN 1 THEN bound[1] ELSE bound::text END;
	END IF;
	RETURN result;
END
$$;

-- Stores what a slice has shown, or a count of all rows, unless its table was altered meanwhile:
-- its differences as long as the table has no more than max_differences.  Tells the caller now and
-- then how far the table is.
CREATE FUNCTION run_store(w run_worker, s run_slice, compared batch, counted bigint[],
	took_ms double precision) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	most bigint := ((w.options).compare).max_differences;
	r audit_row;
	seen bigint := 0;
	differences bigint;
	t run_table;
	kept run_difference[];
	read bigint;
	pause double precision;
BEGIN
	PERFORM iblt_run_lock(w.run);
	t := run_table_of(w.run, w.table_number);
	IF t.status IS NOT NULL OR t.shape IS NULL OR t.generation IS DISTINCT FROM s.generation THEN
		RETURN w;
	END IF;
	PERFORM iblt_run_remove(NULL::run_slice, w.run, w.table_number, s.number);
	IF counted = ARRAY[t.rows_here, t.rows_there] THEN
		t.how := concat_ws('; ', t.how, 'a scan counted as many rows');
	ELSIF s.final AND t.missing + t.extra + t.changed <= most THEN
		t := run_start_table(w, t,
			'compared in one slice: a scan did not count as many rows as the slices', true);
	ELSIF s.final THEN
		t.how := concat_ws('; ', t.how, format('a later scan counted %s rows here and %s there',
			counted[1], counted[2]));
	ELSE
		r := audit_verdict(w.item, compared.plan, compared.figures,
			audit_count(compared.differences, NULL));
		differences := r.missing + r.extra + r.changed;
		seen := greatest(r.rows_here, r.rows_there);
		kept := ARRAY(SELECT ROW(NULL, t.run, t.table_number, t.kept + d.n, d.id,
				(compared.plan).seed, d.key, d.side, d.here, d.there, d.confirmed, d.here_count,
				d.there_count, clock_timestamp(), d.differs, s.number,
				d.here_checksum, d.there_checksum)::run_difference
			FROM (SELECT u.*, row_number() OVER () AS n FROM unnest(compared.differences) AS u) AS d
			WHERE t.kept + d.n <= (w.options).most_kept);
		PERFORM iblt_run_add(VARIADIC kept);
		IF differences > 0 THEN
			PERFORM iblt_run_add(ROW(NULL, s.run, s.table_number, s.number,
				range_key(w.plan, s.lo), range_key(w.plan, s.hi),
				@each audit_counts: r.%,@ clock_timestamp())::run_range);
		END IF;
		t.kept := t.kept + cardinality(kept);
		t.done := t.done + 1;
		@each audit_counts: t.% := t.% + r.%;@
		t.slice_rows := run_next_rows(s, seen, differences, most, (w.options).slice_ms, took_ms);
		t.bytes := t.bytes + r.bytes;
	END IF;
	t.work_ms := t.work_ms + ms(w.began)::double precision;
	IF t.at_end AND NOT EXISTS (SELECT FROM iblt_run_rows(
			NULL::run_slice, w.run, w.table_number) AS x) THEN
		PERFORM run_require_stored(w.run, t.done + s.final::integer >= t.cut);
		-- A final slice counts the rows by a scan.  A table of one slice needs none, because a
		-- scan has read it.
		IF NOT s.final AND t.cut > 1 AND NOT (w.options).check_indexes
				AND slice_may_count(w.plan) THEN
			t.cut := t.cut + 1;
			PERFORM iblt_run_add(ROW(NULL, t.run, t.table_number, t.cut, t.generation, NULL,
				NULL, NULL, true)::run_slice);
		ELSE
			t := run_finish_table(w, t);
		END IF;
	END IF;
	-- none behind the last table
	pause := CASE WHEN t.status IS NULL OR EXISTS (SELECT
			FROM iblt_run_rows(NULL::run_table, t.run) AS x
			WHERE x.status IS NULL AND x.table_number <> t.table_number)
		THEN run_pause_seconds(w.options, ms(w.began) / 1000, seen) ELSE 0 END;
	t.wall_ms := t.wall_ms + ms(w.last) + 1000 * pause;
	PERFORM iblt_run_put(t);
	w.last := clock_timestamp() + make_interval(secs => pause);
	w.failures := 0;
	w.uneven := w.uneven OR seen > 4 * s.rows;
	IF t.status IS NULL AND w.progress AND clock_timestamp() > w.told + interval '10 s' THEN
		w.told := clock_timestamp();
		read := greatest(t.rows_here, t.rows_there);
		PERFORM progress(true, format('run %s: %s: %s rows (%s %%)%s, %s differences', t.run,
			t.relation, read, read * 100 / greatest(t.estimate, read, 1),
			', ' || round(1000 * nullif(read, 0) / nullif(t.wall_ms, 0)) || ' rows a second, '
				|| make_interval(secs => round(t.wall_ms / 1000 * greatest(t.estimate - read, 0)
				/ nullif(read, 0))) || ' left', t.missing + t.extra + t.changed));
	END IF;
	RETURN run_wait_then_claim(w, pause);
END
$$;

-- Ends a table with an error, with which the run goes on; its slices stay, to go on with.
CREATE FUNCTION run_fail_table(w run_worker, e failure) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	r audit_row := audit_failed(w.item, e);
	t run_table;
BEGIN
	PERFORM iblt_run_lock(w.run);
	t := run_table_of(w.run, w.table_number);
	IF t.status IS NULL THEN
		t.status := r.status;
		t.detail := concat_ws('; ', r.detail, CASE WHEN t.done > 0
			THEN format('%s slices were compared before', t.done) END);
		t.sqlstate := r.sqlstate;
		t.peer_relation := coalesce(t.peer_relation, r.peer_relation);
		t.finished_at := clock_timestamp();
		PERFORM iblt_run_put(t);
		PERFORM progress(w.progress, format('run %s: %s: %s%s', t.run, t.relation,
			t.status, ': ' || t.detail));
	END IF;
	w.act := 'claim';
	w.failures := 0;
	RETURN w;
END
$$;

-- Cuts the slice of a worker, with too many differences for one comparison, in two; false if
-- that cannot be done.  The rest may have far more rows than was expected of all, so as many are
-- expected of it.
CREATE FUNCTION run_split(w run_worker) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s run_slice;
	half run_slice;		-- its first part
	t run_table;
BEGIN
	s := (SELECT x FROM iblt_run_rows(NULL::run_slice, w.run, w.table_number, w.number) AS x);
	half := s;
	WHILE half.hi IS NOT DISTINCT FROM s.hi LOOP
		IF (half.rows > 1) IS NOT TRUE THEN
			RETURN false;
		END IF;
		half.rows := half.rows / 2;
		half.hi := smaller_bound(w.plan, s.hi, slice_next(w.plan, s.lo, half.rows));
	END LOOP;
	PERFORM iblt_run_lock(w.run);
	t := run_table_of(w.run, w.table_number);
	IF t.status IS NULL AND t.generation = s.generation THEN
		t.cut := t.cut + 1;
		t.slice_rows := least(t.slice_rows, half.rows);
		half.number := t.cut;
		s.lo := half.hi;
		PERFORM iblt_run_add(half), iblt_run_put(s), iblt_run_put(t);
	END IF;
	RETURN true;
END
$$;

-- After an error in a slice: it is done again, in two, or its table ends.
-- A cancel of this side does not come here.
CREATE FUNCTION run_after_error(w run_worker, e failure) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	again boolean;
BEGIN
	w.act := 'claim';
	w.failures := w.failures + 1;
	w.planned := NULL;
	IF e.state IN ('IB002', 'IB003') THEN
		-- also where to cut may be an error, which must not keep the run from its other tables
		BEGIN
			again := run_split(w);
			w.failures := 0;
		EXCEPTION WHEN @on_error@ THEN
			@take_failure@;
		END;
	END IF;
	IF again IS NULL THEN
		PERFORM peers_close(w.conns);
		IF left(e.state, 2) = '08' OR e.state IN ('57P01', '57P02', '57P03', '57P05') THEN
			-- a lost connection, also because a pause was longer than idle_session_timeout of the
			-- peer: the slice is taken again, with an error the second time
			IF w.failures > 1 THEN
				RAISE EXCEPTION USING ERRCODE = e.state, MESSAGE = e.message,
					DETAIL = coalesce(e.detail, '');
			END IF;
			PERFORM progress(w.progress, format('run %s lost its connection', w.run));
			RETURN run_wait_then_claim(w, 1);
		END IF;
		-- after a conflict with recovery, on a standby, or a deadlock, too
		again := w.failures < 3 AND (left(e.state, 2) = '40'
			OR restarts(w.conns, w.peers, w.plan, 1, e));
	END IF;
	RETURN CASE WHEN again THEN w ELSE run_fail_table(w, e) END;
END
$$;

-- Compares the slice that a worker has claimed, unless another one has done so meanwhile, or counts
-- the rows after the last one: if the slices read another number, an index lacks rows.
-- Relies on: read_heap for that, in a later snapshot than those of the slices.
CREATE FUNCTION run_work(w run_worker) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s run_slice;
	t run_table;
	plan plan := w.plan;
	started timestamptz := clock_timestamp();
	compared batch;
	counted bigint[];
	e failure;
	late text;
BEGIN
	w.act := 'claim';
	IF NOT run_lock_slice(w.run, w.table_number, w.number) THEN
		RETURN w;
	END IF;
	s := (SELECT x FROM iblt_run_rows(NULL::run_slice, w.run, w.table_number, w.number) AS x);
	t := run_table_of(w.run, w.table_number);
	-- without a shape, it is to begin again
	IF s.number IS NULL OR t.status IS NOT NULL OR t.shape IS NULL
			OR t.generation <> s.generation THEN
		RETURN w;
	END IF;
	BEGIN
		PERFORM iblt_traffic_take();
		-- nothing is left to cut, so the table has to be what it was when its plan was made
		IF t.at_end AND w.planned < w.began
				AND (run_see(plan)).shape IS DISTINCT FROM t.shape THEN
			RAISE SQLSTATE 'IB004' USING
				MESSAGE = format('relation %s was altered while it was compared', t.relation);
		END IF;
		plan.stuck := w.stuck;
		IF s.final THEN
			counted := ask_values(places_of(plan), ARRAY(SELECT format('SELECT count(*)::text FROM'
					' %s%s', from_sql(plan, x), condition_sql(plan, x))
				FROM unnest(sides_of(plan)) AS x), NULL, reading_of(plan))::bigint[];
		ELSE
			plan.lo := s.lo;
			plan.hi := s.hi;
			IF plan.buckets IS NOT NULL AND s.rows IS NOT NULL THEN
				-- as a relation of its size
				plan.buckets := plain_buckets(s.rows);
				plan.bytes := plan.bytes * least(1, s.rows / greatest(t.estimate, 1)::float8);
			END IF;
			compared := comparison_of(find_keys(plan));
		END IF;
		late := (compared.waited).stuck;
	EXCEPTION WHEN @on_error@ THEN
		@take_failure@;
		late := (told_too_many(e)).stuck;
	END;
	IF late IS NOT NULL THEN
		w.stuck := late;
		PERFORM progress(w.progress, format('run %s: replication did not pass in time, and is not '
			'waited for again before it moves', w.run));
	END IF;
	IF e.state IS NOT NULL THEN
		RETURN run_after_error(w, e);
	END IF;
	RETURN run_store(w, s, compared, counted, ms(started)::double precision);
END
$$;

-- A number for people.
CREATE FUNCTION grouped(n bigint) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN to_char(n, 'FM9,999,999,999,999,999,990');

-- How many rows of a table differ, as words, or NULL.
CREATE FUNCTION report_counts(missing bigint, extra bigint, changed bigint, unconfirmed bigint)
RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN nullif(concat_ws(', ', grouped(nullif(missing, 0)) || ' missing',
		grouped(nullif(extra, 0)) || ' extra', grouped(nullif(changed, 0)) || ' changed',
		grouped(nullif(unconfirmed, 0)) || ' of these unconfirmed'), '');
