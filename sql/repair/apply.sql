-- Applying -------------------------------------------------------------------------
--
-- repair_apply executes the statements for what was claimed:
--
--	repair_execute_session	all deletes before the updates and inserts
--	  repair_execute_steps	of one relation and action
--	    repair_send		statements for many rows, and for one
--	  repair_send		and what succeeds behind others only
--	  repair_exchange	and what no order helps (exchange.sql)
--	  repair_take_back	what was inserted and has changed on the source (verify.sql)
--	  repair_verify		the last look (verify.sql)
--
-- repair_run calls repair_execute_statements (repair_execute.sql) on the target's side.

-- Raises the error of a statement again, with the key of its row.
-- The context of what ran inside of the statement is kept, such as that of triggers.
CREATE FUNCTION repair_fail(e failure, sql text, key text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	inside text := regexp_replace(left(e.context, strpos(e.context, sql)), '\n?[^\n]*$', '');
BEGIN
	e.detail := concat_ws(E'\n', nullif(e.detail, ''),
		'The row has the key ' || left(key, 1000) || '.', 'Context: ' || nullif(inside, ''));
	IF e.state IN ('23503', '23001') THEN
		e.hint := concat_ws(E'\n', nullif(e.hint, ''), 'Repair all tables that refer to each '
			'other in one transaction: CALL iblt_audit_run(...), and then '
			'iblt_repair(run => ...).');
	END IF;
	PERFORM iblt_raise(e);
END
$$;

-- Executes statements where the target is, all or none, or separately; those that failed and why.
CREATE FUNCTION repair_run(conn text, statements repair_statement[], path text,
	separately boolean DEFAULT false) RETURNS TABLE (failed integer, e failure)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 1
AS $$
DECLARE
	sql text[] := iblt_field(statements, 'sql');
	n bigint[] := ARRAY(SELECT (u.s).n FROM (SELECT unnest(statements) AS s) AS u);
	at_most boolean[] := ARRAY(SELECT (u.s).at_most FROM (SELECT unnest(statements) AS s) AS u);
	many text := cardinality(statements) || ' statements';
	answers jsonb;
	answer jsonb;
BEGIN
	IF conn IS NULL THEN
		answers := repair_execute_statements(false, sql, n, at_most, path, separately);
	ELSIF peer_is_bare(conn) THEN
		-- A block of PL/pgSQL runs them, so an error takes back its statement alone, and is caught
		-- before the server logs the rows.  A block takes no parameters.  They are an array in the
		-- setting iblt.block, so its text is always the same.  The readers of a comparison have
		-- switched indexes off until the transaction ends.
		PERFORM peer_send(conn, plain_settings() || format(
			'SELECT octet_length(concat(%s, set_config(''iblt.block'', %L, true))); %s;'
				' SELECT current_setting(''iblt.block'')',
			(SELECT string_agg(format('set_config(%L, NULL, true)', split_part(c, '=', 1)), ', ')
				FROM pg_proc AS p, unnest(p.proconfig) AS c WHERE p.proname = 'read_heap'
				AND p.pronamespace = 'iblt_internal'::regnamespace),
			ARRAY[sql::text, n::text, at_most::text, path, separately::text],
			plain_call($q$repair_execute_statements(true,
				(current_setting('iblt.block')::text[])[1]::text[],
				(current_setting('iblt.block')::text[])[2]::bigint[],
				(current_setting('iblt.block')::text[])[3]::boolean[],
				(current_setting('iblt.block')::text[])[4],
				(current_setting('iblt.block')::text[])[5]::boolean)$q$)));
	ELSE
		PERFORM peer_send(conn, peer_settings(NULL, 'iblt_repair_execute of ' || many)
			|| format('SELECT iblt_internal.repair_execute_statements(false, %L, %L, %L, %L, %L)',
				sql, n, at_most, path, separately));
	END IF;
	IF conn IS NOT NULL THEN
		WHILE NOT iblt_peer_wait(conn, clock_timestamp() + interval '10 s') LOOP
			PERFORM progress_timely('running ' || many);
		END LOOP;
		answers := peer_value(conn);
		IF answers IS NULL THEN
			RAISE connection_failure USING
				MESSAGE = format('%s''s answer was lost', peer_title(conn)),
				DETAIL = 'Nothing was changed.';
		END IF;
	END IF;
	FOR answer IN SELECT jsonb_array_elements(answers) LOOP
		failed := answer ->> 'failed';
		e := jsonb_populate_record(NULL::failure, answer);
		IF answer ->> 'changed' IS NOT NULL THEN
			e := NULL;
			e.state := '27000';		-- triggered_data_change_violation
			e.message := format('a statement of the repair changed %s rows instead of %s',
				answer ->> 'changed', n[failed]);
			e.detail := left(sql[failed], 1000) || E'\nNothing was changed.';
			e.hint := 'Look for a trigger, a rule or another session that changes such rows. '
				'Without a unique key, look for a value whose bytes are not those of its text: '
				'a row of a type that was altered, or a NaN of another sign.';
		END IF;
		IF conn IS NOT NULL THEN
			-- a cancel there is not a cancel of the caller's statement, and no state is no error
			e.state := CASE e.state WHEN '57014' THEN 'IB005'
				ELSE coalesce(nullif(e.state, ''), 'XX000') END;
			e.message := format('on %s: %s', peer_title(conn), e.message);
		END IF;
		IF path IS NULL AND e.state IN ('42P01', '42883', '42704', '3F000') THEN
			e.hint := concat_ws(E'\n', nullif(e.hint, ''), 'Set apply_search_path if a trigger, '
				'a default or a check names objects without their schema.');
		END IF;
		RETURN NEXT;
	END LOOP;
END
$$;

-- Executes statements where the target is; the places of those that failed, and of these with what
-- must be unique.
-- With "how" 'bulk' they are for many rows each, and are executed each by itself.  Why one failed
-- is found out row by row, but a cancel is not tried again.
-- With 'all' they are executed together.
-- With 'each' they are for a row each, and are executed together, or if that fails each by itself.
-- Those that fail may succeed behind others (a table that refers to itself, values that must be
-- unique), which is what 'left' is for.  It tries the statements again behind the others until none
-- succeeds.  The order turns each time, so that neither direction of a chain takes many rounds.  It
-- is an error if only foreign keys keep them from it, or if no update may give away a value.
CREATE FUNCTION repair_send(conn text, how text, statements repair_statement[], path text,
	OUT failed integer[], OUT uniques integer[])
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	remaining integer[] := ARRAY(SELECT i FROM generate_subscripts(statements, 1) AS i
		ORDER BY CASE how WHEN 'left' THEN - i ELSE i END);
	-- foreign_key_violation, restrict_violation, unique_violation, exclusion_violation: a statement
	-- with one of these may succeed behind others
	of_order CONSTANT text[] := '{23503,23001,23505,23P01}';
	x record;
	e failure;
BEGIN
	failed := '{}';		-- the last one first
	IF statements = '{}' THEN
		RETURN;
	END IF;
	IF how IN ('all', 'each') THEN
		SELECT * INTO x FROM repair_run(conn, statements, path);
		IF x.failed IS NULL THEN
			RETURN;
		ELSIF how = 'all' OR (x.e).state <> ALL (of_order) THEN
			PERFORM repair_fail(x.e, (statements[x.failed]).sql, (statements[x.failed]).key);
		END IF;
	END IF;
	WHILE remaining <> '{}' LOOP
		failed := '{}';
		uniques := '{}';
		FOR x IN SELECT remaining[r.failed] AS i, r.e FROM repair_run(conn,
				ARRAY(SELECT statements[i] FROM unnest(remaining) WITH ORDINALITY AS u(i, n)
					ORDER BY n), path, true) AS r LOOP
			IF how = 'bulk' AND (x.e).state IN ('57014', 'IB005', 'P0004')
					OR how <> 'bulk' AND (x.e).state <> ALL (of_order) THEN
				PERFORM repair_fail(x.e, (statements[x.i]).sql, (statements[x.i]).key);
			END IF;
			failed := x.i || failed;
			IF (x.e).state IN ('23505', '23P01') THEN
				uniques := uniques || x.i;
			END IF;
			e := x.e;
		END LOOP;
		EXIT WHEN how <> 'left';
		IF failed <> '{}' AND cardinality(failed) >= cardinality(remaining) THEN
			EXIT WHEN EXISTS (SELECT FROM unnest(uniques) AS i
				WHERE (statements[i]).sql LIKE 'UPDATE %');
			e.detail := concat_ws(E'\n', nullif(e.detail, ''),
				'Nothing was changed, because no statement order satisfies all constraints.');
			e.hint := NULL;
			PERFORM repair_fail(e, (statements[failed[1]]).sql, (statements[failed[1]]).key);
		END IF;
		remaining := failed;
	END LOOP;
	failed := ARRAY(SELECT f FROM unnest(failed) AS f ORDER BY 1);
END
$$;

-- Executes steps of an action, many rows at once where that does what single statements do; the
-- statements that may succeed behind others, and the number of rows if the statements have seen
-- that all of them became what they were to become (verify.sql).
-- Triggers of users could tell the difference, so they get a statement for each row.  So do updates
-- that set columns which few of the others set, and steps with long values or of several rows.
-- A statement for many rows has the texts of each column as one literal of an array, and the
-- elements are read as literals are.  unnest() of an array that a subquery gives has the planner
-- take the index.
-- If a statement sees the rows that it writes, it answers a row for each, or none unless their
-- checksums have the sum of those of the source.  A source may have answered with texts of other
-- keys, of which that tells nothing.
CREATE FUNCTION repair_execute_steps(plan repair_plan, action text, steps repair_step[],
	at_most boolean, OUT rest repair_statement[], OUT seen bigint)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	target side := plan.target;
	sees boolean := plan.indexed AND NOT at_most AND target.bare IS NOT TRUE
		AND target.condition IS NULL AND target.mapped IS NOT TRUE AND NOT (plan.described).rules;
	returns boolean := sees AND action <> 'delete';
	conn text := target.place;
	path text := (plan.asked).apply_search_path;
	relation text := relation_sql(target);
	key text := (SELECT CASE count(*) WHEN 1 THEN min(t.x)
			ELSE format('ARRAY[%s]::text', string_agg(t.x, ', ' ORDER BY k.n)) END
		FROM unnest(iblt_field((plan.compared).key)) WITH ORDINALITY AS k(name, n),
		LATERAL (SELECT format('s.texts[%s]',
			array_position(iblt_field((plan.compared).columns), k.name))) AS t(x));
	shown record;
	columns text[];
	made record;
	sql text;
	places bigint[];				-- of the steps of a statement
	same boolean;					-- their texts have their keys
	many repair_statement[] := '{}';
	members bigint[] := '{}';		-- those of all statements
	statement_of integer[] := '{}';	-- of each member
	failed integer[];
BEGIN
	IF repair_triggers(plan, ARRAY[action]) IS NULL THEN
		FOR columns IN SELECT NULL WHERE action <> 'update' UNION ALL
				SELECT (u.s).columns FROM (SELECT unnest(steps) AS s WHERE action = 'update') AS u
				GROUP BY 1 HAVING count(*) >= cardinality(steps) / 20 LOOP
			SELECT string_agg(format('%L, quote_literal(array_agg(s.texts[%s])), %L',
					CASE WHEN c.first THEN '' ELSE ', ' END || 'pg_catalog.unnest((SELECT ',
					c.i + 1, format('::%s))', c.list)), ', ' ORDER BY c.i) AS lists,
				string_agg('c' || c.i, ', ' ORDER BY c.i) AS names,
				string_agg(format('iblt_v.c%s%s', c.i, c.suffix), ', ' ORDER BY c.i) AS vals,
				string_agg(format('%s = iblt_v.c%s%s', c.identifier, c.i, c.suffix), ', '
					ORDER BY c.i) FILTER (WHERE c.name = ANY (columns)) AS sets,
				string_agg(format('t.%s %s iblt_v.c%s%s', c.identifier, c.equal, c.i, c.suffix),
					' AND ' ORDER BY c.i) FILTER (WHERE c.key) AS this,
				bool_and(c.list IS NOT NULL) AND NOT coalesce(
					bool_or(c.key AND c.name = ANY (columns)), false) AS possible INTO made
			FROM (SELECT u.i, u.identifier, u.suffix, u.list, u.name, u.key,
					coalesce(u.equal, 'OPERATOR(pg_catalog.=)') AS equal,
					u.i = min(u.i) OVER () AS first FROM unnest(plan.columns) AS u
				WHERE CASE action WHEN 'insert' THEN NOT u.generated
					ELSE u.key OR u.name = ANY (columns) END) AS c;
			-- otherwise a statement cannot have several rows
			CONTINUE WHEN made.possible IS NOT TRUE
				OR action <> 'insert' AND NOT (plan.compared).is_unique;
			FOR sql, places, same IN EXECUTE format('SELECT array_to_string(ARRAY[%L, %s, %L, %s],'
					' ''''), array_agg(s.ordinality), bool_and(%s = s.id)'
					' FROM unnest($1) WITH ORDINALITY AS s'
					' WHERE s.long IS NULL AND s.n = 1 AND s.columns IS NOT DISTINCT FROM $2'
					' GROUP BY (s.ordinality - 1) / 1000',
				CASE WHEN returns THEN 'WITH iblt_w(c) AS (' ELSE '' END
					|| CASE action WHEN 'insert' THEN format('%sSELECT %s FROM ROWS FROM (',
						repair_insert_into(plan, ' AS t'), made.vals)
					WHEN 'delete' THEN format('DELETE FROM %s AS t USING ROWS FROM (', relation)
					ELSE format('UPDATE %s AS t SET %s FROM ROWS FROM (', relation, made.sets) END,
				made.lists,
				format(') AS iblt_v(%s)', made.names)
					|| CASE action WHEN 'insert' THEN '' ELSE ' WHERE ' || made.this END,
				CASE WHEN returns THEN format(
					'%L, sum(split_part(s.source_checksum, '' '', 1)::bigint)::text, ''::numeric''',
					format(' RETURNING %s) SELECT FROM iblt_w WHERE'
						' (SELECT pg_catalog.sum(c) FROM iblt_w) OPERATOR(pg_catalog.=) ',
						checksum_sql((plan.compared).columns, (plan.compared).seed)))
					ELSE 'NULL' END, CASE WHEN sees THEN key ELSE 'NULL' END)
			USING steps, columns LOOP
				many := array_append(many, ROW(sql, cardinality(places), at_most,
					NULL, NULL, NULL)::repair_statement);
				sees := sees AND same;
				members := members || places;
				statement_of := statement_of
					|| array_fill(cardinality(many), ARRAY[cardinality(places)]);
			END LOOP;
		END LOOP;
		failed := (repair_send(conn, 'bulk', many, path)).failed;
		IF failed = '{}' AND cardinality(members) = cardinality(steps) THEN
			rest := '{}';
			seen := CASE WHEN sees THEN cardinality(steps) END;
			RETURN;
		END IF;
	END IF;
	shown := repair_shown_sql(plan, false);
	EXECUTE format('SELECT coalesce(array_agg(ROW(%s, x.n, $2, x.key::text, x.id, %L)'
		'::repair_statement), ''{}'') FROM %s', shown.statement, plan.secret, shown.item)
	INTO rest USING ARRAY(SELECT s.step
		FROM (SELECT unnest(steps) AS step, generate_subscripts(steps, 1) AS i) AS s
		LEFT JOIN unnest(members, statement_of) AS x(member, statement) ON x.member = s.i
		WHERE x.member IS NULL OR x.statement = ANY (failed) ORDER BY s.i), at_most;
	failed := (repair_send(conn, 'each', rest, path)).failed;
	rest := ARRAY(SELECT rest[i] FROM unnest(failed) AS i);
END
$$;

-- Executes the steps for several relations, all deletes before the updates and inserts, in a
-- session of the target's that is prepared for it.
-- Those checks that the caller deferred before run first, under the role that they were meant
-- for.  What is deferred runs at the end, before anyone is told that the repair was applied.
CREATE FUNCTION repair_execute_session(INOUT works repair_work[]) RETURNS repair_work[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := (works[1]).plan;
	asked repair_options := plan.asked;
	conn text := (plan.target).place;
	sets_role boolean := asked.as_replica AND NOT (plan.described).replica;
	-- the session of a peer ends with the repair
	role text := CASE WHEN conn IS NULL THEN current_setting('session_replication_role')
		ELSE 'origin' END;
	-- runs all triggers and checks that are deferred
	deferred repair_statement[] := ARRAY[ROW('SET CONSTRAINTS ALL IMMEDIATE', 0, false, NULL, NULL,
		NULL)::repair_statement];
	size CONSTANT integer := 10000;		-- steps at a time
	work repair_work;
	action text;
	may_go boolean;
	steps repair_step[];
	changes bigint[];		-- of each relation, before the statements
	-- how many rows the statements of each relation have changed; NULL unless they have seen all
	seen bigint[] := array_fill(0, ARRAY[cardinality(works)]);
	rest repair_statement[] := '{}';
	x record;
BEGIN
	IF sets_role AND conn IS NULL THEN
		PERFORM repair_send(conn, 'all', deferred, asked.apply_search_path);
	END IF;
	PERFORM ask_call(conn, format('repair_open(%L)', asked.as_replica));
	FOR i IN 1 .. cardinality(works) LOOP
		changes[i] := repair_changes((works[i]).plan);
	END LOOP;
	FOREACH action IN ARRAY '{delete,update,insert}'::text[] LOOP
		FOR w IN 1 .. cardinality(works) LOOP
			work := works[w];
			-- a row may go with the row that it refers to
			may_go := action = 'delete' AND NOT ((work.plan).asked).as_replica AND EXISTS (
				SELECT FROM unnest(((work.plan).described).foreign_keys) AS k
				WHERE k.self AND k.on_delete = 'CASCADE');
			FOR n IN 1 .. cardinality(work.parts) LOOP
				PERFORM repair_progress(work, format('running statements (%s)', action), n);
				steps := repair_due(work, n, action);
				FOR i IN 1 .. cardinality(steps) BY size LOOP
					x := repair_execute_steps(work.plan, action, CASE WHEN cardinality(steps) > size
						THEN steps[i : i + size - 1] ELSE steps END, may_go);
					rest := rest || x.rest;
					seen[w] := seen[w] + x.seen;
				END LOOP;
			END LOOP;
		END LOOP;
	END LOOP;
	WHILE rest <> '{}' LOOP
		x := repair_send(conn, 'left', rest, asked.apply_search_path);
		works := repair_exchange(works, ARRAY(SELECT rest[i] FROM unnest(x.uniques) AS i));
		rest := ARRAY(SELECT rest[i] FROM unnest(x.failed) AS i WHERE i <> ALL (x.uniques));
	END LOOP;
	FOREACH work IN ARRAY works LOOP
		PERFORM repair_take_back(work);
	END LOOP;
	PERFORM repair_send(conn, 'all', deferred, asked.apply_search_path);
	IF sets_role THEN
		PERFORM ask_one(conn, format('SELECT set_config(''session_replication_role'', %L, true)',
			role));
	END IF;
	FOR i IN 1 .. cardinality(works) LOOP
		work := works[i];
		works[i] := repair_verify(work, repair_changes(work.plan) = changes[i] + seen[i]);
	END LOOP;
END
$$;

-- Changes the rows that were claimed, of one relation or several, under a replication origin if one
-- is given; the peer has yet to commit.
-- The origin belongs to the session and not to the transaction.  Each change that is written
-- under it names it in the log.  After an error, the session of a peer ends.
CREATE FUNCTION repair_apply(works repair_work[]) RETURNS repair_work[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	origin text := (((works[1]).plan).asked).origin;
	conn text := (((works[1]).plan).target).place;
	reset text := 'SELECT pg_catalog.pg_replication_origin_session_reset()';
BEGIN
	IF NOT EXISTS (SELECT FROM unnest(works) AS w WHERE w.keys > 0) THEN
		RETURN works;
	ELSIF origin IS NULL THEN
		RETURN repair_execute_session(works);
	END IF;
	PERFORM ask_one(conn, format('SELECT pg_catalog.pg_replication_origin_session_setup(%L)',
		origin));
	BEGIN
		works := repair_execute_session(works);
	EXCEPTION WHEN @on_any_error@ THEN
		IF conn IS NULL THEN
			PERFORM ask_one(conn, reset);
		END IF;
		RAISE;
	END;
	PERFORM ask_one(conn, reset);
	RETURN works;
END
$$;
