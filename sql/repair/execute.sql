-- Executing the statements ---------------------------------------------------------
--
-- repair_execute_rows (apply.sql has the tree of calls) runs on the target's
-- side.  It catches errors, to tell of the row that failed and of no others: the statements of a
-- repair are in no query's text, and an error that is raised again has no other context.  For a
-- server without iblt it runs where the repair is called, with its connection, and
-- plain_execute_statements sends the statements (sql/plain).

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

-- Executes all statements, or none and says which one failed and why.  Each must change n rows, or
-- at most n.
-- Triggers, defaults and checks of users must not find iblt_internal, so a statement runs under
-- the path that is given, or under PostgreSQL's own.  "texts" say where the parameters of
-- statements are kept.  A server without iblt runs the body of this function, and there "texts"
-- is NULL.
CREATE FUNCTION repair_execute_statements(statements text[], texts text[], n bigint[],
	at_most boolean[], path text, OUT answer jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	own text := current_setting('search_path');
	kept text[];
	current integer := 1;	-- an error on the way to the first one is also a failure
	changed bigint;
	miscounted bigint;
	state text;
	message text;
	detail text;
	hint text;
	context text;
	schema_name text;
	table_name text;
	column_name text;
	datatype_name text;
	constraint_name text;
BEGIN
	answer := '{}';
	IF texts IS NULL THEN
		PERFORM set_config('iblt.block', '', true);
	END IF;
	FOR i IN 1 .. cardinality(statements) LOOP
		current := i;
		IF texts IS NOT NULL THEN
			PERFORM progress_timely('running statements');
		END IF;
		IF texts[i] IS NOT NULL THEN
			kept := ARRAY(SELECT repair_value(t) FROM unnest(texts[i]::text[]) AS t);
		END IF;
		PERFORM set_config('search_path', coalesce(path, 'pg_catalog, pg_temp'), true);
		IF texts IS NULL THEN
			EXECUTE statements[i];
			GET DIAGNOSTICS changed = ROW_COUNT;
		ELSE
			changed := iblt_internal.iblt_repair_execute(statements[i],
				CASE WHEN texts[i] IS NULL THEN '{}' ELSE kept END);
		END IF;
		PERFORM pg_catalog.set_config('search_path', own, true);
		IF changed <> n[i] AND NOT (at_most[i] AND changed < n[i]) THEN
			miscounted := changed;
			RAISE EXCEPTION 'miscounted';
		END IF;
	END LOOP;
EXCEPTION WHEN @on_any_error@ THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT,
		schema_name = SCHEMA_NAME, table_name = TABLE_NAME, column_name = COLUMN_NAME,
		datatype_name = PG_DATATYPE_NAME, constraint_name = CONSTRAINT_NAME;
	answer := jsonb_build_object('failed', current, 'changed', miscounted,
		'state', state, 'message', message, 'detail', detail, 'hint', hint, 'context', context,
		'schema_name', schema_name, 'table_name', table_name, 'column_name', column_name,
		'datatype_name', datatype_name, 'constraint_name', constraint_name);
END
$$;

-- Executes all statements, or none and returns the number of the first that failed and its error.
CREATE FUNCTION repair_execute_together(statements repair_statement[], path text, conn text,
	OUT failed integer, OUT e failure) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sql text[] := iblt_field(statements, 'sql');
	n bigint[] := ARRAY(SELECT (u.s).n FROM (SELECT unnest(statements) AS s) AS u);
	at_most boolean[] := ARRAY(SELECT (u.s).at_most FROM (SELECT unnest(statements) AS s) AS u);
	answer jsonb := CASE WHEN conn IS NULL
		THEN repair_execute_statements(sql, iblt_field(statements, 'texts'), n, at_most, path)
		ELSE plain_execute_statements(conn, sql, n, at_most, path) END;
BEGIN
	failed := answer ->> 'failed';
	IF failed IS NULL THEN
		RETURN;
	ELSIF answer ->> 'changed' IS NOT NULL THEN
		e.state := '27000';		-- triggered_data_change_violation
		e.message := format('a statement of the repair changed %s rows instead of %s',
			answer ->> 'changed', n[failed]);
		e.detail := left(sql[failed], 1000) || E'\nNothing was changed.';
		e.hint := 'Look for a trigger, a rule or another session that changes such rows. '
			'Without a unique key, look for a value whose bytes are not those of its text: '
			'a row of a type that was altered, or a NaN of another sign.';
	ELSE
		e := jsonb_populate_record(NULL::failure, answer);
	END IF;
	IF conn IS NOT NULL THEN
		-- a cancel there is not a cancel of the caller's statement, and no state would be no error
		e.state := CASE e.state WHEN '57014' THEN 'IB005'
			ELSE coalesce(nullif(e.state, ''), 'XX000') END;
		e.message := format('on %s: %s', peer_title(conn), e.message);
	END IF;
	IF path IS NULL AND e.state IN ('42P01', '42883', '42704', '3F000') THEN
		e.hint := concat_ws(E'\n', nullif(e.hint, ''), 'Set apply_search_path if a trigger, '
			'a default or a check names objects without their schema.');
	END IF;
END
$$;

-- May a statement with that error succeed behind others?
-- foreign_key_violation, restrict_violation, unique_violation, exclusion_violation
CREATE FUNCTION repair_is_order(state text) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT state IN ('23503', '23001', '23505', '23P01')
$$;

-- Executes statements; the numbers of those that failed and have changed nothing.
-- With "how" 'bulk' they are for many rows each, and are executed each by itself.  Why one failed
-- is found out row by row, but a cancel is not tried again.
-- With 'each' they are for a row each, and are executed together, or if that fails each by itself.
-- Those that fail may succeed behind others (a table that refers to itself, values that must be
-- unique), which is what 'left' is for.  It tries the statements again behind the others until none
-- succeeds.  The order turns each time, so that neither direction of a chain takes many rounds.
CREATE FUNCTION repair_execute_rows(how text, statements repair_statement[], path text,
	conn text DEFAULT NULL) RETURNS integer[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	remaining integer[] := ARRAY(SELECT i FROM generate_subscripts(statements, 1) AS i
		ORDER BY CASE how WHEN 'left' THEN - i ELSE i END);
	together record;
	failed integer[] := '{}';	-- the last one first
	i integer;
	tried failure;
	e failure;
BEGIN
	IF how = 'each' THEN
		together := repair_execute_together(statements, path, conn);
		i := together.failed;
		IF i IS NULL THEN
			RETURN '{}';
		ELSIF NOT repair_is_order((together.e).state) THEN
			PERFORM repair_fail(together.e, (statements[i]).sql, (statements[i]).key);
		END IF;
	END IF;
	WHILE remaining <> '{}' LOOP
		failed := '{}';
		FOREACH i IN ARRAY remaining LOOP
			tried := (repair_execute_together(statements[i:i], path, conn)).e;
			CONTINUE WHEN tried.state IS NULL;
			IF how = 'bulk' AND tried.state IN ('57014', 'IB005', 'P0004')
					OR how <> 'bulk' AND NOT repair_is_order(tried.state) THEN
				PERFORM repair_fail(tried, (statements[i]).sql, (statements[i]).key);
			END IF;
			failed := i || failed;
			e := tried;
		END LOOP;
		EXIT WHEN how <> 'left';
		IF failed <> '{}' AND cardinality(failed) = cardinality(remaining) THEN
			e.detail := concat_ws(E'\n', nullif(e.detail, ''),
				'Nothing was changed, because no statement order satisfies all constraints.');
			e.hint := CASE WHEN e.state IN ('23505', '23P01') THEN 'If rows exchange values '
				'that must be unique, make the constraint DEFERRABLE.' END;
			PERFORM repair_fail(e, (statements[failed[1]]).sql, (statements[failed[1]]).key);
		END IF;
		remaining := failed;
	END LOOP;
	RETURN ARRAY(SELECT f FROM unnest(failed) AS f ORDER BY 1);
END
$$;

-- Runs all triggers and checks that are deferred.
CREATE FUNCTION repair_execute_deferred(path text, conn text DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sql text := 'SET CONSTRAINTS ALL IMMEDIATE';
	tried record := repair_execute_together(
		ARRAY[ROW(sql, NULL, 0, false, NULL)::repair_statement], path, conn);
BEGIN
	IF tried.failed IS NOT NULL THEN
		PERFORM repair_fail(tried.e, sql, NULL);
	END IF;
END
$$;

-- Lets the transaction wait until its commit is on disk, if it would not.
-- Who is told that a repair was applied must find it so after a crash.
CREATE FUNCTION repair_flushed() RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'local', true);
	END IF;
END
$$;

-- Prepares a session for the statements of a repair; the role of its triggers before.
-- session_replication_role also decides what becomes of checks that are deferred.  Those
-- that the caller deferred before run first, under the role that they were meant for.
CREATE FUNCTION repair_open(path text, as_replica boolean) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	role text := current_setting('session_replication_role');
BEGIN
	PERFORM repair_flushed();
	IF as_replica AND role <> 'replica' THEN
		PERFORM repair_execute_deferred(path);
		PERFORM set_config('session_replication_role', 'replica', true);
	END IF;
	SET CONSTRAINTS ALL DEFERRED;
	RETURN role;
END
$$;

-- Ends the statements of a repair: runs what is deferred, before anyone is told that the repair
-- was applied.
CREATE FUNCTION repair_close(path text, role text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM repair_execute_deferred(path);
	IF role <> current_setting('session_replication_role') THEN
		PERFORM set_config('session_replication_role', role, true);
	END IF;
END
$$;
