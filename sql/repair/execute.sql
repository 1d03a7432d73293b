-- Executing the statements ---------------------------------------------------------
--
-- repair_execute_bulk, _each and _left (apply.sql has the tree of calls) run on the target's
-- side.  They catch errors, to tell of the row that failed and of no others: the statements of a
-- repair are in no query's text, and an error that is raised again has no other context.  For a
-- server without iblt they run where the repair is called, with its connection, and
-- plain_execute_statements sends the statements (sql/plain).

-- Raises the error of a statement again, with the key of its row.
-- The context of what ran inside of the statement is kept, such as that of triggers.
CREATE FUNCTION repair_fail(e failure, sql text, kept text, key text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	inside text := regexp_replace(left(e.context,
		strpos(e.context, coalesce(sql, iblt_repair_kept(kept)))), '\n?[^\n]*$', '');
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

-- The failure of a statement that changed other rows than it must.
CREATE FUNCTION repair_miscounted(sql text, n bigint, changed bigint) RETURNS failure
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	e failure;
BEGIN
	e.state := '27000';		-- triggered_data_change_violation
	e.message := format('a statement of the repair changed %s rows instead of %s', changed, n);
	e.detail := left(sql, 1000) || E'\nNothing was changed.';
	e.hint := 'Look for a trigger, a rule or another session that changes such rows. '
		'Without a unique key, look for a value whose bytes are not those of its text: '
		'a row of a type that was altered, or a NaN of another sign.';
	RETURN e;
END
$$;

-- Executes all statements, or none and says which one failed and why.  Each must change n rows, or
-- at most n.
-- Triggers, defaults and checks of users must not find iblt_internal, so a statement runs under
-- the path that is given, or under PostgreSQL's own.  The session keeps a statement that has a name
-- in "kept".  A server without iblt runs the body of this function, and there "kept" is NULL.
CREATE FUNCTION repair_execute_statements(statements text[], kept text[], n bigint[],
	at_most boolean[], path text, OUT answer jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	own text := current_setting('search_path');
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
	IF kept IS NULL THEN
		PERFORM set_config('iblt.statements', '', true);
	END IF;
	FOR i IN 1 .. cardinality(statements) LOOP
		current := i;
		IF kept IS NOT NULL THEN
			PERFORM progress_timely('running statements');
		END IF;
		PERFORM set_config('search_path', coalesce(path, 'pg_catalog, pg_temp'), true);
		IF kept IS NULL THEN
			EXECUTE statements[i];
			GET DIAGNOSTICS changed = ROW_COUNT;
		ELSE
			changed := iblt_internal.iblt_repair_execute(statements[i], kept[i]);
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
CREATE FUNCTION repair_execute_together(statements text[], kept text[], n bigint[],
	at_most boolean[], path text, conn text, OUT failed integer, OUT e failure) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answer jsonb := CASE WHEN conn IS NULL
		THEN repair_execute_statements(statements, kept, n, at_most, path)
		ELSE plain_execute_statements(conn, statements, n, at_most, path) END;
BEGIN
	failed := answer ->> 'failed';
	IF failed IS NULL THEN
		RETURN;
	ELSIF answer ->> 'changed' IS NOT NULL THEN
		e := repair_miscounted(coalesce(statements[failed], iblt_repair_kept(kept[failed])),
			n[failed], (answer ->> 'changed')::bigint);
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

-- Executes statements for many rows each, by itself; the numbers of those that failed, which have
-- changed nothing.
-- Why they failed is found out row by row.  A cancel is not tried again.
CREATE FUNCTION repair_execute_bulk(statements text[], n bigint[], at_most boolean, path text,
	conn text DEFAULT NULL) RETURNS integer[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	failed integer[] := '{}';
	e failure;
BEGIN
	FOR i IN 1 .. cardinality(statements) LOOP
		e := (repair_execute_together(statements[i:i], '{NULL}', n[i:i], ARRAY[at_most], path,
			conn)).e;
		IF e.state IN ('57014', 'IB005', 'P0004') THEN
			PERFORM repair_fail(e, statements[i], NULL, NULL);
		ELSIF e.state IS NOT NULL THEN
			failed := failed || i;
		END IF;
	END LOOP;
	RETURN failed;
END
$$;

-- Executes the remaining ones of some statements once, each by itself; the numbers of those that
-- may succeed behind others, and the error of the last one.
CREATE FUNCTION repair_execute_apart(statements text[], kept text[], n bigint[], at_most boolean[],
	keys text[], path text, conn text, INOUT remaining integer[], OUT e failure) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	failed integer[] := '{}';
	i integer;
	tried failure;
BEGIN
	FOREACH i IN ARRAY remaining LOOP
		tried := (repair_execute_together(statements[i:i], kept[i:i], n[i:i], at_most[i:i], path,
			conn)).e;
		IF repair_is_order(tried.state) THEN
			failed := failed || i;
			e := tried;
		ELSIF tried.state IS NOT NULL THEN
			PERFORM repair_fail(tried, statements[i], kept[i], keys[i]);
		END IF;
	END LOOP;
	remaining := failed;
END
$$;

-- Executes statements for a row each; the numbers of those that may succeed behind others.
CREATE FUNCTION repair_execute_each(statements text[], kept text[], n bigint[], at_most boolean[],
	keys text[], path text, conn text DEFAULT NULL) RETURNS integer[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	together record := repair_execute_together(statements, kept, n, at_most, path, conn);
	i integer := together.failed;
BEGIN
	IF i IS NULL THEN
		RETURN '{}';
	ELSIF NOT repair_is_order((together.e).state) THEN
		PERFORM repair_fail(together.e, statements[i], kept[i], keys[i]);
	END IF;
	RETURN (repair_execute_apart(statements, kept, n, at_most, keys, path, conn,
		ARRAY(SELECT generate_subscripts(statements, 1)))).remaining;
END
$$;

-- Executes what repair_execute_each has left, until none is left.
-- Some statements succeed in another order only (a table that refers to itself, values
-- that must be unique).  They are tried again behind the others, until none succeeds.  The
-- order turns each time, so that neither direction of a chain takes many rounds.
CREATE FUNCTION repair_execute_left(statements text[], kept text[], n bigint[], at_most boolean[],
	keys text[], path text, conn text DEFAULT NULL) RETURNS integer[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	remaining integer[] := ARRAY(SELECT generate_subscripts(statements, 1));
	apart record;
	e failure;
	i integer;
BEGIN
	WHILE remaining <> '{}' LOOP
		apart := repair_execute_apart(statements, kept, n, at_most, keys, path, conn,
			ARRAY(SELECT f FROM unnest(remaining) WITH ORDINALITY AS x(f, position)
				ORDER BY position DESC));
		IF cardinality(apart.remaining) = cardinality(remaining) THEN
			e := apart.e;
			i := apart.remaining[cardinality(remaining)];
			e.detail := concat_ws(E'\n', nullif(e.detail, ''),
				'Nothing was changed, because no statement order satisfies all constraints.');
			e.hint := CASE WHEN e.state IN ('23505', '23P01') THEN 'If rows exchange values '
				'that must be unique, make the constraint DEFERRABLE.' END;
			PERFORM repair_fail(e, statements[i], kept[i], keys[i]);
		END IF;
		remaining := apart.remaining;
	END LOOP;
	RETURN remaining;
END
$$;

-- Runs all triggers and checks that are deferred.
CREATE FUNCTION repair_execute_deferred(path text, conn text DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sql text := 'SET CONSTRAINTS ALL IMMEDIATE';
	tried record := repair_execute_together(ARRAY[sql], '{NULL}', '{0}', '{f}', path, conn);
BEGIN
	IF tried.failed IS NOT NULL THEN
		PERFORM repair_fail(tried.e, sql, NULL, NULL);
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
