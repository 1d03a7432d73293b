-- Repairing a server without iblt -------------------------------------------------------
--
-- The statements of a repair travel as texts.  A block of PL/pgSQL runs them there, so an error
-- takes back its statement alone, and is caught before the server logs the rows.  What else a
-- repair asks its target are plain queries and the bodies of functions (plain_call).

-- Runs all statements; or none, and says which one failed and why.  Each must change that many
-- rows.
-- As repair_try and repair_statement do.  Its body runs on the server without iblt.
CREATE FUNCTION plain_attempt(statements text[], n bigint[], at_most boolean[], path text,
	OUT answer jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	pinned text := 'pg_catalog, pg_temp';
	current integer := 1;	-- an error before the first one is not that of none
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
	PERFORM pg_catalog.set_config('iblt.statements', '', true);
	FOR i IN 1 .. cardinality(statements) LOOP
		current := i;
		PERFORM pg_catalog.set_config('search_path', coalesce(path, pinned), true);
		EXECUTE statements[i];
		GET DIAGNOSTICS changed = ROW_COUNT;
		PERFORM pg_catalog.set_config('search_path', pinned, true);
		IF changed <> n[i] AND NOT (at_most[i] AND changed < n[i]) THEN
			miscounted := changed;
			RAISE EXCEPTION 'miscounted';
		END IF;
	END LOOP;
EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT,
		schema_name = SCHEMA_NAME, table_name = TABLE_NAME, column_name = COLUMN_NAME,
		datatype_name = PG_DATATYPE_NAME, constraint_name = CONSTRAINT_NAME;
	answer := pg_catalog.jsonb_build_object('failed', current, 'changed', miscounted,
		'state', state, 'message', message, 'detail', detail, 'hint', hint, 'context', context,
		'schema_name', schema_name, 'table_name', table_name, 'column_name', column_name,
		'datatype_name', datatype_name, 'constraint_name', constraint_name);
END
$$;

-- Runs all statements over a connection; or none, and returns the number of the first that
-- failed and its error.
-- They are values of settings, so the text of the block is always the same.  The readers of a
-- comparison have switched indexes off until the transaction ends.
CREATE FUNCTION plain_try(conn text, statements text[], n bigint[], at_most boolean[], path text,
	OUT failed integer, OUT e failure) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answer jsonb;
BEGIN
	PERFORM peer_send(conn, plain_settings() || format(
		'SELECT octet_length(concat(%s, set_config(''iblt.statements'', %L, true),'
			' set_config(''iblt.rows'', %L, true), set_config(''iblt.at_most'', %L, true),'
			' set_config(''iblt.path'', %L, true))); %s; SELECT current_setting(''iblt.answer'')',
		(SELECT string_agg(format('set_config(%L, NULL, true)', split_part(c, '=', 1)), ', ')
			FROM pg_proc AS p, unnest(p.proconfig) AS c WHERE p.proname = 'read_heap'
			AND p.pronamespace = 'iblt_internal'::regnamespace),
		statements, n, at_most, coalesce(path, ''),
		plain_call($q$plain_attempt(current_setting('iblt.statements')::text[],
			current_setting('iblt.rows')::bigint[], current_setting('iblt.at_most')::boolean[],
			nullif(current_setting('iblt.path'), ''))$q$)));
	answer := repair_answer(conn, 'running statements', 4);
	failed := answer ->> 'failed';
	IF failed IS NULL THEN
		RETURN;
	ELSIF answer ->> 'changed' IS NOT NULL THEN
		e := repair_miscounted(statements[failed], n[failed], (answer ->> 'changed')::bigint);
	ELSE
		e := jsonb_populate_record(NULL::failure, answer);
	END IF;
	-- a cancel there is not a cancel of the caller's statement, and no state would be no error
	e.state := CASE e.state WHEN '57014' THEN 'IB005' ELSE coalesce(e.state, 'XX000') END;
	e.message := format('on %s: %s', peer_title(conn), e.message);
END
$$;

-- Prepares the session of a connection for the statements of a repair.
-- Its transaction has deferred nothing yet, and with it ends what is set here.
CREATE FUNCTION plain_open(conn text, as_replica boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM ask_call(conn, 'repair_flushed()');
	IF as_replica THEN
		PERFORM ask_one(conn, 'SELECT set_config(''session_replication_role'', ''replica'', true)');
	END IF;
	PERFORM ask_one(conn, 'SET CONSTRAINTS ALL DEFERRED');
END
$$;
