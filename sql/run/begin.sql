-- Beginning a run ------------------------------------------------------------------------
--
-- The procedures (80) commit after each step, so a step is a function with settings and a
-- handler of its own.  A session claims a slice (40): it takes one that was left by a
-- session that died, or cuts the next one, and commits.  Then it compares the slice and
-- stores what it found in one transaction (50).  A slice that is under way has a lock, which
-- ends with its session.  So no slice is lost or counted twice.

-- Limits of the lag

-- max_lag as one of the two that it may be.
CREATE FUNCTION iblt_internal.run_lag_limit(max_lag text, OUT bytes numeric, OUT seconds numeric)
RETURNS record
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF max_lag ~* '^\s*\d+(\.\d+)?\s*(b|bytes|kb|mb|gb|tb)\s*$' THEN
		bytes := pg_size_bytes(max_lag);
	ELSE
		seconds := extract(epoch FROM max_lag::interval);
	END IF;
EXCEPTION WHEN OTHERS THEN
	RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
		MESSAGE = 'max_lag must be an interval or a number of bytes',
		HINT = 'Write ''30 s'' or ''64 MB'', for example.';
END
$$;

-- Does a follower of either side lag behind by more than that?
CREATE FUNCTION iblt_internal.run_lagging(conn text, max_lag text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	allowed record := iblt_internal.run_lag_limit(max_lag);
	side text;
	lag jsonb;
BEGIN
	FOREACH side IN ARRAY ARRAY['here', 'there'] LOOP
		lag := iblt_internal.peer_call(conn, side, 'run_lag()');
		IF (lag ->> 'hidden')::boolean THEN
			RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
				MESSAGE = format('permission denied to see how replication lags (%s)', side),
				HINT = 'max_lag needs the privileges of pg_monitor on both sides.';
		ELSIF (lag ->> 'bytes')::numeric > allowed.bytes
				OR (lag ->> 'seconds')::numeric > allowed.seconds THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END
$$;

-- Arguments

-- The one of the four that is not null.
CREATE FUNCTION iblt_internal.run_make_target(tables regclass[], schema text, publication text,
	subscription text) RETURNS iblt_internal.audit_target
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ROW(CASE WHEN num_nonnulls(tables, schema, publication, subscription) <> 1 THEN NULL
			WHEN subscription IS NOT NULL THEN 'subscription' WHEN tables IS NOT NULL THEN 'tables'
			WHEN schema IS NOT NULL THEN 'schema' ELSE 'publication' END,
		coalesce(schema, publication, subscription), tables)::iblt_internal.audit_target
$$;

-- An error for arguments of a run that do not fit.
CREATE FUNCTION iblt_internal.run_check(options iblt_internal.run_options) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	problem text := CASE
		WHEN coalesce(options.slice_ms, 0) NOT BETWEEN 1 AND 86400000
			THEN 'slice_ms must be between 1 and 86400000'
		WHEN coalesce(options.slice_by, '') NOT IN ('key', 'blocks')
			THEN 'slice_by must be key or blocks'
		WHEN options.check_indexes IS NULL THEN 'check_indexes must not be null'
		WHEN coalesce(options.most_kept, 0) NOT BETWEEN 1 AND 2147483647
			THEN 'max_differences must be between 1 and 2147483647'
		WHEN options.max_load NOT BETWEEN 0.001 AND 1 THEN 'max_load must be between 0.001 and 1'
		WHEN options.max_rate < 1 THEN 'max_rate must be at least 1' END;
BEGIN
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = problem;
	ELSIF current_setting('transaction_isolation') !~ '^read' THEN
		RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction',
			MESSAGE = 'a run needs isolation level READ COMMITTED',
			HINT = 'SET default_transaction_isolation = ''read committed'';';
	END IF;
	PERFORM iblt_internal.run_lag_limit(options.max_lag);
END
$$;

-- The arguments of a run.
-- Slices are small enough to find all that differs in them, so a comparison has a limit of
-- its own, and max_differences limits what is kept of a table.
CREATE FUNCTION iblt_internal.run_make_options(audit iblt_internal.audit_options,
	slice_ms integer, slice_by text, rows boolean, check_indexes boolean,
	max_load double precision, max_rate bigint, max_lag text) RETURNS iblt_internal.run_options
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	compare iblt_internal.options := audit.compare;
	most_kept bigint := compare.max_differences;
BEGIN
	compare.max_differences := greatest(compare.max_differences, 100000);
	compare.content := CASE rows WHEN true THEN 'rows' WHEN false THEN 'none' END;
	compare.seed := coalesce(compare.seed, iblt_internal.random_seed());
	compare.progress := false;
	audit.compare := compare;
	RETURN ROW(audit, slice_ms, slice_by, check_indexes, most_kept, max_load, max_rate, max_lag);
END
$$;

-- The peer

-- What tells the peer's database from others, also when the server has been restarted.
CREATE FUNCTION iblt_internal.run_identity(conn text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	there iblt_internal.side := iblt_internal.audit_greet(conn, 'iblt_audit_run');
BEGIN
	RETURN concat_ws(' ', there.system, iblt_internal.peer_ask(conn, 'there',
		'SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()'));
END
$$;

-- Until the transaction ends, the peer of a run is asked as its method says.
-- All runs of a session have the same connection, so this comes before each question.
CREATE FUNCTION iblt_internal.run_say_bare(w iblt_internal.run_worker) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM iblt_internal.peer_bare(
		CASE (((w.options).audit).compare).method WHEN 'plain' THEN w.conn ELSE '' END);
END
$$;

-- Decides how the peer of a new run is compared with: its method is sketch or plain from now
-- on.
CREATE FUNCTION iblt_internal.run_set_method(w iblt_internal.run_worker)
RETURNS iblt_internal.run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	options iblt_internal.run_options := w.options;
	audit iblt_internal.audit_options := options.audit;
	compare iblt_internal.options := audit.compare;
BEGIN
	compare.method := iblt_internal.plain_method(w.conn, compare.method);
	IF compare.method = 'plain' THEN
		PERFORM iblt_internal.plain_refuse(CASE
			WHEN options.slice_by = 'blocks' THEN 'slices by blocks are not supported'
			WHEN options.check_indexes THEN 'indexes of the peer are not checked' END,
			'Leave the option out, or use method => ''sketch'' with iblt on both sides.');
	END IF;
	audit.compare := compare;
	options.audit := audit;
	w.options := options;
	RETURN w;
END
$$;

-- Makes the connection to the peer, unless there is one; an error if the run has another
-- peer.
CREATE FUNCTION iblt_internal.run_connect(w iblt_internal.run_worker)
RETURNS iblt_internal.run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	expected text;
BEGIN
	IF iblt_internal.peer_is_open(w.conn) THEN
		RETURN w;
	END IF;
	w.conn := iblt_internal.peer_connect(w.peer, w.conn);
	IF w.run IS NOT NULL THEN
		PERFORM iblt_internal.run_say_bare(w);
		expected := (iblt_internal.run_head_of(w.run)).identity;
		IF iblt_internal.run_identity(w.conn) IS DISTINCT FROM expected THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
				MESSAGE = format('run %s was begun with another peer', w.run),
				HINT = 'Give the same database as peer, or begin another run.';
		END IF;
	END IF;
	RETURN w;
END
$$;

-- The list

-- Adds a table to a run.
CREATE FUNCTION iblt_internal.run_add_table(run bigint, item integer,
	entry iblt_internal.audit_item) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	t iblt_internal.run_table;
BEGIN
	t.run := run;
	t.item := item;
	t.number := 0;
	t.relid := entry.relid;
	t.relation := iblt_internal.audit_name(entry);
	t.estimate := (iblt_internal.run_probe(entry.relid) ->> 'rows')::bigint;
	t.generation := 0;
	t.at_end := false;
	t.kept := 0;
	entry.relid := NULL;
	t.entry := to_jsonb(entry);
	PERFORM iblt_internal.iblt_run_add(t);
END
$$;

-- Adds a run with its tables.
CREATE FUNCTION iblt_internal.run_add(w iblt_internal.run_worker,
	target iblt_internal.audit_target, kept_peer text) RETURNS iblt_internal.run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	items iblt_internal.audit_item[] := iblt_internal.audit_list(w.conn, target);
	head iblt_internal.run_head;
BEGIN
	head.run := 0;	-- it gets its number
	head.item := 0;
	head.number := 0;
	head.peer := kept_peer;
	head.subscription := CASE target.kind WHEN 'subscription' THEN target.name END;
	head.identity := iblt_internal.run_identity(w.conn);
	head.target := concat_ws(' ', target.kind, coalesce(target.name, target.tables::text));
	head.options := to_jsonb(w.options);
	head.started_at := clock_timestamp();
	w.run := iblt_internal.iblt_run_begin(head);
	FOR n IN 1 .. cardinality(items) LOOP
		PERFORM iblt_internal.run_add_table(w.run, n, items[n]);
	END LOOP;
	PERFORM iblt_internal.progress(w.progress,
		format('run %s has %s tables', w.run, cardinality(items)));
	RETURN w;
END
$$;

-- A session that begins to work on a run.
CREATE FUNCTION iblt_internal.run_worker_of(peer text, progress boolean)
RETURNS iblt_internal.run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	w iblt_internal.run_worker;
BEGIN
	w.peer := peer;
	w.conn := 'iblt_run';
	w.progress := coalesce(progress, false);
	w.done := false;
	w.act := 'claim';
	w.lost := 0;
	w.last := clock_timestamp();
	w.told := w.last;
	RETURN w;
END
$$;

-- Checks what is asked, and adds the run.
CREATE FUNCTION iblt_internal.run_make(w iblt_internal.run_worker,
	target iblt_internal.audit_target) RETURNS iblt_internal.run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given text := w.peer;
	kept text;
BEGIN
	IF target.kind IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'exactly one of tables, schema, publication and subscription must be given';
	END IF;
	PERFORM iblt_internal.audit_check(given IS NULL, target, ((w.options).audit).compare);
	PERFORM iblt_internal.run_check(w.options);
	IF target.kind = 'subscription' THEN
		w.peer := iblt_internal.audit_peer(target.name, w.peer);
	END IF;
	-- a run that was cancelled between two steps leaves it open
	PERFORM iblt_internal.peer_close(w.conn);
	w := iblt_internal.run_set_method(iblt_internal.run_connect(w));
	PERFORM iblt_internal.audit_check_peer(w.conn);
	IF (w.options).max_lag IS NOT NULL THEN
		PERFORM iblt_internal.run_lagging(w.conn, (w.options).max_lag);
	END IF;
	kept := CASE WHEN NOT iblt_internal.peer_is_string(given) THEN given END;
	RETURN iblt_internal.run_add(w, target, kept);
END
$$;

-- Going on

-- The options of a run for one session, which may be gentler or less so.
CREATE FUNCTION iblt_internal.run_override(options iblt_internal.run_options,
	max_load double precision, max_rate bigint, max_lag text) RETURNS iblt_internal.run_options
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	options.max_load := coalesce(max_load, options.max_load);
	options.max_rate := coalesce(max_rate, options.max_rate);
	options.max_lag := coalesce(max_lag, options.max_lag);
	PERFORM iblt_internal.run_check(options);
	RETURN options;
END
$$;

-- Lets a run go on with the tables that ended with an error, where they ended.
CREATE FUNCTION iblt_internal.run_reopen(run bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	t iblt_internal.run_table;
BEGIN
	PERFORM iblt_internal.run_write(run);
	FOR t IN SELECT x.* FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_table, run) AS x
			WHERE x.status IN ('error', 'not comparable') AND x.sqlstate IS NOT NULL LOOP
		-- blocks that were written to are not those of its mark any more
		t.shape := CASE t.sqlstate WHEN 'IB009' THEN '' ELSE t.shape END;
		t.status := NULL;
		t.detail := NULL;
		t.sqlstate := NULL;
		t.finished_at := NULL;
		PERFORM iblt_internal.iblt_run_put(t);
	END LOOP;
END
$$;

-- Connects a session to the peer of a run that there is.
CREATE FUNCTION iblt_internal.run_open(w iblt_internal.run_worker, run bigint)
RETURNS iblt_internal.run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	head iblt_internal.run_head := iblt_internal.run_head_of(run);
BEGIN
	w.run := run;
	w.options := iblt_internal.run_options_of(head);
	PERFORM iblt_internal.run_check(w.options);
	w.peer := coalesce(w.peer, head.peer);
	IF w.peer IS NULL AND head.subscription IS NOT NULL THEN
		w.peer := iblt_internal.audit_peer(head.subscription, NULL);
	ELSIF w.peer IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
			MESSAGE = format('the connection string of the peer of run %s was not kept', run),
			DETAIL = 'It may hold a password.',
			HINT = 'Give it again as peer. The name of a foreign server is kept.';
	END IF;
	PERFORM iblt_internal.peer_close(w.conn);
	RETURN iblt_internal.run_connect(w);
END
$$;
