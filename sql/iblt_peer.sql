-- The peer ---------------------------------------------------------------------
--
-- What the live drivers share: the connection, which is dblink's (found when it
-- is needed, for it may be in any schema or not there), sketches kept in a
-- session, errors that keep connection strings to themselves, and figures.

CREATE FUNCTION iblt_session_keep(name text, s iblt) RETURNS iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_session_keep(text, iblt) IS
'keeps a sketch in this session under a name, beyond transactions, and returns it';

CREATE FUNCTION iblt_session_get(name text) RETURNS iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_session_get(text) IS 'the sketch that this session keeps under a name';

CREATE FUNCTION iblt_session_evens(name text, subtable_cells integer) RETURNS iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_session_evens(text, integer) IS
'the even cells of a kept sketch folded to so many cells a subtable: no sketch, but what iblt_compare_refine takes';

CREATE FUNCTION iblt_session_drop(name text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_session_drop(text) IS 'forgets a sketch that this session keeps; was there one?';

CREATE FUNCTION iblt_peer_raise(sqlstate text, message text, detail text, hint text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_peer_raise(text, text, text, text) IS
'raises an error whose statement is not written to the log, since it may hold a password';

CREATE FUNCTION iblt_peer_show(label text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_peer_show(text) IS
'makes the log and pg_stat_activity show a label in place of the message under way, since it may hold rows';

CREATE FUNCTION iblt_peer_note(figures jsonb, start boolean DEFAULT false) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	noted jsonb := coalesce(nullif(current_setting('iblt.compare_stats', true), ''), '{}')::jsonb;
BEGIN
	IF start THEN
		noted := '{}';
	END IF;
	SELECT noted || coalesce(jsonb_object_agg(e.key, CASE
		WHEN jsonb_typeof(e.value) = 'number' AND jsonb_typeof(noted -> e.key) = 'number'
		THEN to_jsonb((noted ->> e.key)::numeric + (e.value #>> '{}')::numeric)
		ELSE e.value END), '{}')
	INTO noted FROM jsonb_each(figures) AS e;
	PERFORM set_config('iblt.compare_stats', noted::text, false);
END
$$;
COMMENT ON FUNCTION iblt_peer_note(jsonb, boolean) IS
'adds numbers to the figures of the comparison under way, and replaces those given as text';

CREATE FUNCTION iblt_peer_dblink() RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found text := (SELECT quote_ident(n.nspname) FROM pg_extension e
		JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'dblink');
BEGIN
	IF found IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'extension dblink is not installed in this database',
			DETAIL = 'The connection to a peer is made by dblink.',
			HINT = 'CREATE EXTENSION dblink; for relations of this database, leave peer NULL.';
	END IF;
	RETURN found;
END
$$;
COMMENT ON FUNCTION iblt_peer_dblink() IS 'the schema of dblink, quoted';

-- A connection string may hold a password, and auto_explain logs the plans of
-- nested statements with their parameters.  So the string is handed on in
-- assignments alone, which PL/pgSQL evaluates without the executor: never in
-- PERFORM, EXECUTE ... USING or a query.
CREATE FUNCTION iblt_peer_is_string(peer text) RETURNS boolean
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	servers text[] := ARRAY(SELECT srvname::text FROM pg_foreign_server);
BEGIN
	RETURN peer <> ALL (servers);
END
$$;
COMMENT ON FUNCTION iblt_peer_is_string(text) IS
'is it a connection string, to be kept out of messages? Otherwise it is a foreign server';

-- The same form of every value on both sides, no row that a policy hides, nothing
-- written but by iblt_repair (which sets iblt.writing in its transaction), and no
-- index alone, for it may lack rows.  Behind a pooler the next query may meet another
-- session, and the next client this one: so the settings go with each query, and end
-- with it.  Operators of the session's own search_path must not be used here.
-- A condition is read on the peer as it is here, also a date such as 01/02/2024, and so
-- that no index gives only some of its rows.
CREATE FUNCTION iblt_peer_settings(conn text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format($q$SELECT pg_catalog.count(pg_catalog.set_config(n, v, true)) FROM (VALUES ('search_path', 'pg_catalog, pg_temp'),
('transaction_read_only', CASE WHEN pg_catalog.current_setting('iblt.writing', true) OPERATOR(pg_catalog.=) 'on' THEN 'off' ELSE 'on' END),
('row_security', 'off'), ('enable_indexonlyscan', 'off'), ('array_nulls', 'on'), ('quote_all_identifiers', 'off'), ('jit', 'off'),
('DateStyle', %L), ('IntervalStyle', '%s'), ('TimeZone', 'UTC'), ('extra_float_digits', '1'), ('bytea_output', 'hex'),
('xmlbinary', 'base64'), ('xmloption', 'content'), ('lc_monetary', 'C'), ('lc_numeric', 'C'), ('lc_time', 'C'),
('timezone_abbreviations', %L), ('transform_null_equals', 'off'), ('gin_fuzzy_search_limit', '0')) AS s(n, v)
WHERE pg_catalog.current_setting(n) OPERATOR(pg_catalog.<>) v;
$q$, current_setting('DateStyle'), CASE WHEN starts_with(conn, 'iblt_repair') THEN 'iso_8601' ELSE 'postgres' END,
		current_setting('timezone_abbreviations'))
$$;
COMMENT ON FUNCTION iblt_peer_settings(text) IS 'the statement that goes before each query on the peer';

CREATE FUNCTION iblt_peer_send(conn text, query text, settings boolean DEFAULT true) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	schema text := @extschema@.iblt_peer_dblink();
	sent integer;
	problem text;
BEGIN
	IF settings THEN
		query := @extschema@.iblt_peer_settings(conn) || query;
	END IF;
	EXECUTE format('SELECT %s.dblink_send_query($1, $2)', schema) INTO sent USING conn, query;
	IF sent <> 1 THEN
		EXECUTE format('SELECT %s.dblink_error_message($1)', schema) INTO problem USING conn;
		RAISE EXCEPTION USING ERRCODE = 'connection_failure',
			MESSAGE = 'could not send a query to the peer', DETAIL = coalesce(problem, '');
	END IF;
	PERFORM @extschema@.iblt_peer_note(jsonb_build_object('messages', 1, 'bytes_sent', octet_length(query)));
END
$$;
COMMENT ON FUNCTION iblt_peer_send(text, text, boolean) IS 'starts a query on the peer, with the settings, and this side goes on meanwhile';

-- dblink_get_result cannot be interrupted in all releases; this can.  No pause is
-- shorter than a millisecond, so that there is none at first.  Each look takes in
-- what has arrived, and a large answer, of which a socket holds a part only, wants
-- many: for 20 ms there is no pause, if it is said to be 0.
CREATE FUNCTION iblt_peer_wait(conn text, longest double precision) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	query text := format('SELECT %s.dblink_is_busy($1)', @extschema@.iblt_peer_dblink());
	hasty timestamptz := clock_timestamp() + CASE WHEN longest > 0 THEN interval '2 ms' ELSE interval '20 ms' END;
	pause double precision := 0.001;
	busy integer;
BEGIN
	LOOP
		EXECUTE query INTO busy USING conn;
		EXIT WHEN busy = 0;
		IF clock_timestamp() > hasty THEN
			PERFORM pg_sleep(pause);
			pause := least(pause * 1.2, greatest(longest, 0.001));
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_peer_wait(text, double precision) IS
'waits until the peer''s answer is there, with pauses of up to so many seconds; 0 for a large answer';

-- The results before the one that is wanted: of the settings, as a rule.
CREATE FUNCTION iblt_peer_result(conn text, query text, pause double precision, before integer DEFAULT 1, OUT result record) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	state text;
	message text;
	detail text;
	hint text;
	context text;
	pass text := format('SELECT count(*) FROM %s.dblink_get_result($1) AS t(nothing text)', @extschema@.iblt_peer_dblink());
BEGIN
	PERFORM @extschema@.iblt_peer_wait(conn, pause);
	BEGIN
		FOR i IN 1 .. before LOOP
			EXECUTE pass USING conn;
			PERFORM @extschema@.iblt_peer_wait(conn, pause);
		END LOOP;
		BEGIN
			EXECUTE query INTO result USING conn;
		EXCEPTION WHEN datatype_mismatch THEN
			-- a connection that was lost between two results first gives one without columns
			EXECUTE pass USING conn;
			RAISE;
		END;
		-- the connection is free once an empty result has been fetched
		EXECUTE pass USING conn;
	EXCEPTION WHEN query_canceled OR OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
			hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
		-- a cancel may have been meant for this side
		IF state = '57014' AND strpos(context, conn) = 0 THEN
			RAISE;
		END IF;
		PERFORM @extschema@.iblt_peer_raise(state, 'on the peer: ' || message, detail, hint);
	END;
END
$$;
COMMENT ON FUNCTION iblt_peer_result(text, text, double precision, integer) IS
'the one row that a query over the peer''s answer gives; what goes wrong there is an error that says so';

CREATE FUNCTION iblt_peer_value(conn text, pause double precision DEFAULT 0.001, before integer DEFAULT 1) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer record;
BEGIN
	answer := @extschema@.iblt_peer_result(conn, format(
		'SELECT value FROM %s.dblink_get_result($1) AS t(value text)', @extschema@.iblt_peer_dblink()), pause, before);
	PERFORM @extschema@.iblt_peer_note(jsonb_build_object(
		'messages', 1, 'bytes_received', coalesce(octet_length(answer.value), 0)));
	RETURN answer.value;
END
$$;
COMMENT ON FUNCTION iblt_peer_value(text, double precision, integer) IS 'the single value that a query sent to the peer gives';

CREATE FUNCTION iblt_peer_ask(conn text, side text, query text, pause double precision DEFAULT 0.001) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	value text;
BEGIN
	IF side = 'there' AND conn IS NOT NULL THEN
		PERFORM @extschema@.iblt_peer_send(conn, query);
		RETURN @extschema@.iblt_peer_value(conn, pause);
	END IF;
	EXECUTE query INTO value;
	RETURN value;
END
$$;
COMMENT ON FUNCTION iblt_peer_ask(text, text, text, double precision) IS 'the single value that a query gives on a side, waited for with such pauses';

-- Queries with keys
--
-- An error tells of the statements under way, and the log shows them with it, also
-- those of parallel workers.  So keys and rows are no part of a query: it has them
-- as its parameter $1.

CREATE FUNCTION iblt_peer_run(query text, keys text[]) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	value text;
BEGIN
	EXECUTE query INTO value USING keys;
	RETURN value;
END
$$;
COMMENT ON FUNCTION iblt_peer_run(text, text[]) IS 'the single value that a query of keys gives';

-- dblink knows no parameters: the peer gets them in a message that it does not show.
CREATE FUNCTION iblt_peer_send_keys(conn text, schema text, label text, query text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM @extschema@.iblt_peer_send(conn, format('SELECT %s.iblt_peer_show(%L); %s%s',
		schema, label, @extschema@.iblt_peer_settings(conn), query), false);
END
$$;
COMMENT ON FUNCTION iblt_peer_send_keys(text, text, text, text) IS
'starts a query on the peer whose log shows the label in its place; two results go before its own';

CREATE FUNCTION iblt_peer_ask_keys(conn text, schema text, side text, query text, keys text[]) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF side = 'there' AND conn IS NOT NULL THEN
		PERFORM @extschema@.iblt_peer_send_keys(conn, schema, query, format('SELECT %s.iblt_peer_run(%L, %L)', schema, query, keys));
		RETURN @extschema@.iblt_peer_value(conn, 0.01, 2);
	END IF;
	RETURN @extschema@.iblt_peer_run(query, keys);
END
$$;
COMMENT ON FUNCTION iblt_peer_ask_keys(text, text, text, text, text[]) IS 'the single value that a query of keys gives on a side';

-- Large, so that it is read as what it is, and not passed on as text before.
CREATE FUNCTION iblt_peer_sketch(conn text, query text) RETURNS @extschema@.iblt
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer record;
	length bigint;
BEGIN
	PERFORM @extschema@.iblt_peer_send(conn, query);
	answer := @extschema@.iblt_peer_result(conn, format('SELECT value FROM %s.dblink_get_result($1) AS t(value %s.iblt)',
		@extschema@.iblt_peer_dblink(), '@extschema@'), 0);
	length := ((@extschema@.iblt_info(answer.value)).bytes + 2) / 3 * 4;	-- of its text, which is base64
	PERFORM @extschema@.iblt_peer_note(jsonb_build_object('messages', 1, 'bytes_received', length, 'sketch_bytes', length));
	RETURN answer.value;
END
$$;
COMMENT ON FUNCTION iblt_peer_sketch(text, text) IS 'the sketch that a query gives on the peer';

CREATE FUNCTION iblt_peer_connect(peer text, conn text, label text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	schema text := @extschema@.iblt_peer_dblink();
	held text;
	state text;
	detail text;
BEGIN
	IF @extschema@.iblt_peer_is_string(peer) AND strpos(peer, '=') = 0 AND strpos(peer, '://') = 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = 'peer is neither a foreign server nor a connection string',
			HINT = 'Give the name of a foreign server, or a string such as ''host=node_b dbname=shop''.';
	END IF;
	BEGIN
		held := set_config('iblt.peer', peer, true);
		EXECUTE format('SELECT %s.dblink_connect($1, pg_catalog.current_setting(''iblt.peer''))', schema) USING conn;
		held := set_config('iblt.peer', '', true);
	EXCEPTION WHEN OTHERS THEN
		-- a message of any other kind may repeat a part of the connection string
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
		IF detail !~ '^(connection to server|could not connect to server|FATAL:|Non-superuser)' THEN
			detail := '';
		END IF;
		IF @extschema@.iblt_peer_is_string(peer) THEN
			NULL;
		ELSIF NOT has_server_privilege(peer, 'USAGE') THEN
			detail := 'The right to use the foreign server is missing.';
		ELSIF NOT EXISTS (SELECT FROM pg_user_mappings m WHERE m.srvname = peer AND m.usename IN (current_user, 'public')) THEN
			detail := format('The foreign server has no user mapping for %I.', current_user);
		END IF;
		PERFORM @extschema@.iblt_peer_raise(state, 'could not connect to the peer', detail,
			'See that the foreign server, its user mapping or the connection string is right; whoever is no superuser needs a password in it.');
	END;
	-- no harm to whom a pooler gives the session next
	EXECUTE format('SELECT %s.dblink_exec($1, $2)', schema) USING conn, format(
		'SELECT pg_catalog.set_config(''client_connection_check_interval'', ''2s'', false)
			WHERE pg_catalog.current_setting(''server_version_num'')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 140000
			AND pg_catalog.version() OPERATOR(pg_catalog.~~) ''%%linux%%'';
		SET application_name = %L', left(label, 63));
	RETURN conn;
END
$$;
COMMENT ON FUNCTION iblt_peer_connect(text, text, text) IS
'opens a connection to the peer under that name; no error and no log shows the connection string';

CREATE FUNCTION iblt_peer_close(conn text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	schema text := (SELECT quote_ident(n.nspname) FROM pg_extension e
		JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'dblink');
	names text[];
	busy integer;
BEGIN
	IF conn IS NULL OR schema IS NULL THEN
		RETURN;
	END IF;
	EXECUTE format('SELECT %s.dblink_get_connections()', schema) INTO names;
	IF names IS NULL OR NOT conn = ANY (names) THEN
		RETURN;
	END IF;
	BEGIN
		EXECUTE format('SELECT %s.dblink_is_busy($1)', schema) INTO busy USING conn;
		IF busy = 1 THEN
			EXECUTE format('SELECT %s.dblink_cancel_query($1)', schema) USING conn;
		END IF;
	EXCEPTION WHEN OTHERS THEN
		-- it is closed all the same
		NULL;
	END;
	EXECUTE format('SELECT %s.dblink_disconnect($1)', schema) USING conn;
END
$$;
COMMENT ON FUNCTION iblt_peer_close(text) IS 'ends a connection to the peer and what runs there';

-- For the handler of a driver, which raises the error again if this did not.
CREATE FUNCTION iblt_peer_fail(conn text, secret boolean, state text, message text, detail text, hint text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM @extschema@.iblt_peer_close(conn);
	IF secret THEN
		PERFORM @extschema@.iblt_peer_raise(state, message, detail, hint);
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_peer_fail(text, boolean, text, text, text, text) IS
'ends a connection after an error; where the statement may hold a connection string, raises the error so that no log shows it';
