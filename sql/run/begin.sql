-- Beginning a run ------------------------------------------------------------------------

-- An error for arguments of a run that do not fit.
CREATE FUNCTION run_check_options(options run_options) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
AS $$
DECLARE
	problem text := CASE
		WHEN coalesce(options.slice_ms, 0) NOT BETWEEN 1 AND 86400000
			THEN 'slice_ms must be between 1 and 86400000'
		WHEN options.check_indexes IS NULL THEN 'check_indexes must not be null'
		WHEN coalesce(options.most_kept, 0) NOT BETWEEN 1 AND 2147483647
			THEN 'max_differences must be between 1 and 2147483647'
		WHEN options.max_load NOT BETWEEN 0.001 AND 1 THEN 'max_load must be between 0.001 and 1'
		WHEN options.max_rate < 1 THEN 'max_rate must be at least 1' END;
BEGIN
	IF problem IS NOT NULL THEN
		RAISE invalid_parameter_value USING MESSAGE = problem;
	ELSIF current_setting('transaction_isolation') !~ '^read' THEN
		RAISE active_sql_transaction USING MESSAGE = 'a run needs isolation level READ COMMITTED',
			HINT = 'SET default_transaction_isolation = ''read committed'';';
	END IF;
	PERFORM run_lag_limit(options.max_lag);
END
$$;

-- Are the connections to all sides that are not here open?
CREATE FUNCTION run_is_connected(conns text[]) RETURNS boolean
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	RETURN iblt_peer_is_open(conns[2]) AND (conns[1] IS NULL OR iblt_peer_is_open(conns[1]));

-- Makes the connections to peers, unless there are some; an error if the run has others.  The
-- method of a run is sketch or plain from now on.
-- The system and the OID of a database tell it from others, also when its server has been
-- restarted.  The identity of a relation ends with that OID and its own.
CREATE FUNCTION run_connect(w run_worker) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	head run_head;
	sides side[];
	given text[] := '{here_peer,peer}';
	compare options := (w.options).compare;
BEGIN
	IF run_is_connected(w.conns) THEN
		RETURN w;
	END IF;
	w.conns := connect(w.peers, w.conns);
	compare.method := plain_method(w.conns, compare.method);
	w.said := current_setting('iblt.peers', true);
	IF compare.method = 'plain' THEN
		PERFORM plain_check(CASE WHEN (w.options).check_indexes
				THEN 'indexes of the peer are not checked' END,
			'Leave the option out, or use method => ''sketch'' with iblt on both sides.');
	END IF;
	w.options.compare := compare;
	head := CASE WHEN w.run IS NOT NULL THEN run_head_of(w.run) END;
	sides := audit_check_peers(w.conns, 'iblt_audit_run');
	FOR n IN 1 .. 2 LOOP
		w.identities[n] := CASE WHEN n = 2 OR w.conns[1] IS NOT NULL THEN
			concat_ws(' ', sides[n].system, split_part(sides[n].identity, ' ', -2)) END;
		IF w.identities[n] <> head.identities[n] THEN
			RAISE invalid_parameter_value USING
				MESSAGE = format('run %s was begun with another %s', w.run, given[n]),
				HINT = format('Give the same database as %s, or begin another run.', given[n]);
		END IF;
	END LOOP;
	RETURN w;
END
$$;

-- A session that begins to work on a run, until so long has passed.
CREATE FUNCTION run_worker_of(here_peer text, peer text, progress boolean, act text DEFAULT NULL,
	max_time interval DEFAULT NULL) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
DECLARE
	w run_worker;
BEGIN
	w.peers := ARRAY[here_peer, peer];
	w.conns := ARRAY[CASE WHEN here_peer IS NOT NULL THEN 'iblt_run_here' END, 'iblt_run'];
	w.progress := coalesce(progress, false);
	w.act := act;
	w.tried := 0;
	w.failures := 0;
	w.last := clock_timestamp();
	w.told := w.last;
	w.deadline := w.last + max_time;
	RETURN w;
END
$$;

-- Checks what is asked, and adds the run with its tables.
CREATE FUNCTION run_begin(w run_worker) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	target audit_target := w.target;
	compare options := (w.options).compare;
	elsewhere boolean := w.conns[1] IS NOT NULL;
	items audit_item[];
	probes text[];
BEGIN
	-- Slices are small enough to find all that differs in them, so a comparison has a limit of its
	-- own, and max_differences limits what is kept of a table.
	w.options.most_kept := compare.max_differences;
	compare.max_differences := greatest(compare.max_differences, 100000);
	compare.content := content_of((w.options).rows);
	compare.seed := coalesce(compare.seed, random_seed());
	compare.progress := false;
	w.options.compare := compare;
	PERFORM audit_check(w.peers[2] IS NULL, elsewhere, target, compare);
	PERFORM run_check_options(w.options);
	IF target.kind = 'subscription' AND NOT elsewhere THEN
		w.peers[2] := audit_peer(target.name, w.peers[2]);
	END IF;
	-- a run that was cancelled between two steps leaves them open
	PERFORM peers_close(w.conns);
	w := run_connect(w);
	PERFORM run_lagging(w.conns, (w.options).max_lag);
	items := audit_list(w.conns, target, compare.mappings);
	probes := audit_ask_each(w.conns[1], items, 'run_probe(c.oid::regclass)');
	w.run := iblt_run_add(ROW(NULL, 0, 0, 0,
		ARRAY[CASE WHEN NOT iblt_peer_is_string(w.peers[1]) THEN w.peers[1] END,
			CASE WHEN NOT iblt_peer_is_string(w.peers[2]) THEN w.peers[2] END],
		CASE WHEN target.kind = 'subscription' AND NOT elsewhere THEN target.name END,
		w.identities, concat_ws(' ', target.kind, coalesce(target.name, target.tables::text,
			target.here_tables::text), '(' || target.peer_schema || ' on the peer)'),
		to_jsonb(w.options), NULL, clock_timestamp())::run_head);
	PERFORM iblt_run_add(VARIADIC ARRAY(SELECT jsonb_populate_record(NULL::run_table,
			jsonb_build_object('run', w.run, 'table_number', n, 'number', 0, 'generation', 0,
				'at_end', false, 'kept', 0, 'relation', audit_name(items[n]),
				'item', to_jsonb(items[n]) || jsonb_build_object('relid',
					(items[n]).relid::oid::text),
				'estimate', probes[n]::jsonb -> 'rows'))
		FROM generate_subscripts(items, 1) AS n));
	PERFORM progress(w.progress, format('run %s has %s tables', w.run, cardinality(items)));
	w.act := 'claim';
	RETURN w;
END
$$;

-- Lets a run go on with the tables that ended with an error, where they ended.
CREATE FUNCTION run_reopen(run bigint, shown boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	t run_table;
BEGIN
	PERFORM iblt_run_lock(run);
	FOR t IN SELECT x.* FROM iblt_run_rows(NULL::run_table, run) AS x
			WHERE x.status IN ('error', 'not comparable') AND x.sqlstate IS NOT NULL LOOP
		-- a damaged index may have hidden rows from the slices before
		IF t.shape IS NOT NULL AND (t.sqlstate = 'XX002' OR t.gone IS NOT NULL) THEN
			t.shape := NULL;
			t.at_end := false;
			PERFORM progress(shown, format('run %s: %s %s, it starts again', run, t.relation,
				CASE t.sqlstate WHEN 'XX002' THEN 'was read by a damaged index'
					ELSE 'has changed since it was compared' END));
		END IF;
		t.status := NULL;
		t.detail := NULL;
		t.sqlstate := NULL;
		t.finished_at := NULL;
		PERFORM iblt_run_put(t);
	END LOOP;
END
$$;

-- Connects a session to the peers of a run that there is.  The caller may have given some, and how
-- gentle the run is from now on; an error for a peer that was not kept.
CREATE FUNCTION run_open(w run_worker, run bigint) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	head run_head := run_head_of(run);
	given run_options := w.options;
BEGIN
	w.run := run;
	w.options := jsonb_populate_record(NULL::run_options, head.options);
	w.options.max_load := coalesce(given.max_load, (w.options).max_load);
	w.options.max_rate := coalesce(given.max_rate, (w.options).max_rate);
	w.options.max_lag := coalesce(given.max_lag, (w.options).max_lag);
	PERFORM run_check_options(w.options);
	IF w.peers[1] IS NOT NULL AND head.identities[1] IS NULL THEN
		RAISE invalid_parameter_value USING
			MESSAGE = format('run %s compares tables of this database', run),
			HINT = 'Leave here_peer out, or begin another run.';
	END IF;
	w.peers[2] := coalesce(w.peers[2], head.peers[2],
		CASE WHEN head.subscription IS NOT NULL THEN audit_peer(head.subscription, NULL) END);
	w.peers[1] := coalesce(w.peers[1], head.peers[1]);
	FOR n IN REVERSE 2 .. 1 LOOP
		IF w.peers[n] IS NULL AND head.identities[n] IS NOT NULL THEN
			RAISE null_value_not_allowed USING
				MESSAGE = format('the connection string of %s of run %s was not kept',
					CASE n WHEN 1 THEN 'here' ELSE 'the peer' END, run),
				DETAIL = 'It may hold a password.',
				HINT = format('Give it again as %s. The name of a foreign server is kept.',
					CASE n WHEN 1 THEN 'here_peer' ELSE 'peer' END);
		END IF;
	END LOOP;
	w.conns[1] := CASE WHEN w.peers[1] IS NOT NULL
		THEN coalesce(w.conns[1], 'iblt_run_here') END;
	PERFORM peers_close(w.conns);
	RETURN run_connect(w);
END
$$;
