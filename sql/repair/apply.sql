-- Applying -------------------------------------------------------------------------
--
-- repair_apply executes the statements for what was claimed, and reads the rows once more:
--
--	repair_exchange		what no order of updates can do (exchange.sql)
--	repair_execute		under a replication origin
--	  repair_execute_session	in a session that is prepared for it
--	    repair_execute_works	all deletes before the updates and inserts
--	      repair_execute_steps	of one relation and action
--	        repair_send		statements for many rows, and for one
--	      repair_send		and what succeeds behind others only
--	repair_verify_all	(verify.sql)
--
-- repair_send calls repair_execute_rows (execute.sql) on the target's side.

-- A text that a server takes: before PostgreSQL 15, the text of a "char" may be half a
-- character.
CREATE FUNCTION repair_valid(key text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM convert_to(key, getdatabaseencoding());
	RETURN key;
EXCEPTION WHEN character_not_in_repertoire THEN
	RETURN '(not valid text)';
END
$$;

-- What the target's server answers behind so many results; says by time how far the repair has
-- come.
CREATE FUNCTION repair_answer(conn text, message text, before integer) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answer text;
BEGIN
	WHILE NOT iblt_peer_wait(conn, 0.01, clock_timestamp() + interval '10 s') LOOP
		PERFORM progress_timely(message);
	END LOOP;
	answer := peer_value(conn, 0.01, before);
	IF answer IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'connection_failure',
			MESSAGE = format('%s''s answer was lost', peer_title(conn)),
			DETAIL = 'Nothing was changed.';
	END IF;
	RETURN answer;
END
$$;

-- Executes statements where the target is; the places of those that failed.
CREATE FUNCTION repair_send(conn text, how text, statements repair_statement[], path text)
RETURNS integer[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	many text := format('%s statements%s', cardinality(statements),
		CASE how WHEN 'bulk' THEN ' for many rows' ELSE '' END);
	s repair_statement;
BEGIN
	IF statements = '{}' THEN
		RETURN '{}';
	ELSIF conn IS NULL OR peer_is_bare(conn) THEN
		RETURN repair_execute_rows(how, statements, path, conn);
	END IF;
	FOR i IN 1 .. cardinality(statements) LOOP
		s := statements[i];
		IF s.texts IS NOT NULL AND how <> 'left' THEN
			PERFORM repair_send_kept(conn, s.texts);
		END IF;
		IF current_setting('server_version_num')::integer < 150000 AND s.key IS NOT NULL THEN
			s.key := repair_valid(s.key);
			statements[i] := s;
		END IF;
	END LOOP;
	PERFORM peer_send(conn, peer_settings(NULL, 'iblt_repair_execute of ' || many)
		|| format('SELECT iblt_internal.repair_execute_rows(%L, %L, %L)', how, statements, path));
	RETURN repair_answer(conn, 'running ' || many, 2);
END
$$;

-- Executes steps of an action, many rows at once where that does what single statements do; the
-- statements that may succeed behind others.
-- Triggers of users could tell the difference, so they get a statement for each row.
CREATE FUNCTION repair_execute_steps(plan repair_plan, action text, steps repair_step[],
	at_most boolean) RETURNS repair_statement[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	conn text := (repair_target(plan)).place;
	path text := (plan.asked).apply_search_path;
	m record;
	many repair_statement[] := '{}';
	members bigint[] := '{}';		-- places of steps
	statement_of integer[] := '{}';	-- of each member
	failed integer[];
	rest repair_statement[];
BEGIN
	IF NOT EXISTS (SELECT FROM unnest((plan.described).triggers) AS t
			WHERE repair_fires(t, ARRAY[action], (plan.asked).as_replica)) THEN
		FOR m IN SELECT * FROM repair_many(plan, action, steps) LOOP
			many := array_append(many, ROW(m.sql, NULL, cardinality(m.members), at_most,
				NULL)::repair_statement);
			members := members || m.members;
			statement_of := statement_of
				|| array_fill(cardinality(many), ARRAY[cardinality(m.members)]);
		END LOOP;
		failed := repair_send(conn, 'bulk', many, path);
		IF failed = '{}' AND cardinality(members) = cardinality(steps) THEN
			RETURN '{}';
		END IF;
	END IF;
	rest := repair_statements(plan, ARRAY(SELECT s.step
		FROM (SELECT unnest(steps) AS step, generate_subscripts(steps, 1) AS i) AS s
		LEFT JOIN unnest(members, statement_of) AS x(member, statement) ON x.member = s.i
		WHERE x.member IS NULL OR x.statement = ANY (failed) ORDER BY s.i), at_most);
	failed := repair_send(conn, 'each', rest, path);
	RETURN ARRAY(SELECT rest[i] FROM unnest(failed) AS i);
END
$$;

-- Executes the steps for several relations, all deletes before the updates and inserts.
CREATE FUNCTION repair_execute_works(works repair_work[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	size CONSTANT integer := 10000;		-- steps at a time
	work repair_work;
	action text;
	may_go boolean;
	steps repair_step[];
	rest repair_statement[] := '{}';
BEGIN
	FOREACH action IN ARRAY '{delete,update,insert}'::text[] LOOP
		FOREACH work IN ARRAY works LOOP
			-- a row may go with the row that it refers to
			may_go := action = 'delete' AND NOT ((work.plan).asked).as_replica AND EXISTS (
				SELECT FROM unnest(((work.plan).described).foreign_keys) AS k
				WHERE k.self AND k.on_delete = 'CASCADE');
			FOR n IN 1 .. work.batches LOOP
				PERFORM repair_progress(work, format('running statements (%s)', action), n);
				steps := repair_due(work, n, action);
				FOR i IN 1 .. cardinality(steps) BY size LOOP
					rest := rest || repair_execute_steps(work.plan, action,
						steps[i : i + size - 1], may_go);
				END LOOP;
			END LOOP;
		END LOOP;
	END LOOP;
	PERFORM repair_send((repair_target(work.plan)).place, 'left', rest,
		((work.plan).asked).apply_search_path);
END
$$;

-- Executes the steps for several relations, in a session of the target's that is prepared for it.
-- The transaction on a server without iblt has deferred nothing yet, and with it ends what is set.
CREATE FUNCTION repair_execute_session(works repair_work[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := (works[1]).plan;
	asked repair_options := plan.asked;
	conn text := (repair_target(plan)).place;
	role text := 'SELECT set_config(''session_replication_role'', %L, true)';
	sets_role boolean := asked.as_replica AND NOT (plan.described).replica;
BEGIN
	IF NOT peer_is_bare(conn) THEN
		role := ask_call(conn, format('repair_open(%L, %L)', asked.apply_search_path,
			asked.as_replica));
		PERFORM repair_execute_works(works);
		PERFORM ask_call(conn, format('repair_close(%L, %L)', asked.apply_search_path, role));
		RETURN;
	END IF;
	PERFORM ask_call(conn, 'repair_flushed()');
	IF sets_role THEN
		PERFORM ask_one(conn, format(role, 'replica'));
	END IF;
	PERFORM ask_one(conn, 'SET CONSTRAINTS ALL DEFERRED'), repair_execute_works(works),
		repair_execute_deferred(asked.apply_search_path, conn);
	IF sets_role THEN
		PERFORM ask_one(conn, format(role, NULL));
	END IF;
END
$$;

-- Executes the steps for several relations, under a replication origin if one is given.
-- The origin belongs to the session and not to the transaction.  Each change that is written
-- under it names it in the log.  After an error, the session of a peer ends.
CREATE FUNCTION repair_execute(works repair_work[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	origin text := (((works[1]).plan).asked).origin;
	conn text := (repair_target((works[1]).plan)).place;
	reset text := 'SELECT pg_catalog.pg_replication_origin_session_reset()';
BEGIN
	IF NOT EXISTS (SELECT FROM unnest(works) AS w WHERE w.keys > 0) THEN
		RETURN;
	ELSIF origin IS NULL THEN
		PERFORM repair_execute_session(works);
		RETURN;
	END IF;
	PERFORM ask_one(conn, format('SELECT pg_catalog.pg_replication_origin_session_setup(%L)',
		origin));
	BEGIN
		PERFORM repair_execute_session(works);
	EXCEPTION WHEN @on_any_error@ THEN
		IF conn IS NULL THEN
			PERFORM ask_one(conn, reset);
		END IF;
		RAISE;
	END;
	PERFORM ask_one(conn, reset);
END
$$;

-- Changes the rows that were claimed, of one relation or several, and takes the last look at them;
-- the peer has yet to commit.
CREATE FUNCTION repair_apply(works repair_work[]) RETURNS repair_work[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	FOR i IN 1 .. cardinality(works) LOOP
		works[i] := repair_exchange(works[i]);
	END LOOP;
	PERFORM repair_execute(works);
	FOR i IN 1 .. cardinality(works) LOOP
		works[i] := repair_verify_all(works[i]);
	END LOOP;
	RETURN works;
END
$$;
