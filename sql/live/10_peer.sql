-- The peer -----------------------------------------------------------------------
--
-- dblink makes the connection.  It may be in any schema, or not be there, so it is
-- looked for when it is needed.  No error and no log shows a connection string.

-- Sketches kept in a session

CREATE FUNCTION iblt_session_keep(name text, s iblt) RETURNS iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_session_keep(text, iblt) IS
'keeps a sketch in this session under a name, across transactions, and returns it';

CREATE FUNCTION iblt_session_get(name text) RETURNS iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_session_get(text) IS 'the sketch that this session keeps under a name';

CREATE FUNCTION iblt_session_drop(name text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_session_drop(text) IS
'forgets a sketch that this session keeps, and returns whether there was one';

-- Errors, logs and counters

CREATE FUNCTION iblt_internal.iblt_peer_raise(sqlstate text, message text, detail text, hint text)
RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_internal.iblt_peer_raise(text, text, text, text) IS
'raises an error whose statement is not written to the log, because it may hold a password';

CREATE FUNCTION iblt_internal.iblt_peer_show(label text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_internal.iblt_peer_show(text) IS
'makes the log and pg_stat_activity show a label in place of this message, which may hold rows';

CREATE FUNCTION iblt_internal.iblt_traffic_add(messages bigint, sent bigint, received bigint,
	sketches bigint DEFAULT 0) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_internal.iblt_traffic_add(bigint, bigint, bigint, bigint) IS
'counts messages and bytes between this session and a peer';

CREATE FUNCTION iblt_internal.iblt_traffic_take(OUT messages bigint, OUT sent bigint,
	OUT received bigint, OUT sketches bigint) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_internal.iblt_traffic_take() IS
'the messages and bytes counted since this was called last';

-- The connection

CREATE FUNCTION iblt_internal.peer_dblink() RETURNS text
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
COMMENT ON FUNCTION iblt_internal.peer_dblink() IS 'the schema of dblink, quoted';

-- auto_explain logs the plans of nested statements with their parameters, so PL/pgSQL
-- hands a connection string on in assignments alone, which do not run the executor:
-- never in PERFORM, EXECUTE ... USING or a query.
CREATE FUNCTION iblt_internal.peer_is_string(peer text) RETURNS boolean
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	servers text[] := ARRAY(SELECT srvname::text FROM pg_foreign_server);
BEGIN
	RETURN peer <> ALL (servers);
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_is_string(text) IS
'is it a connection string, which messages must not show? Otherwise it is a foreign server';

-- A message of any other kind may repeat a part of the connection string.
CREATE FUNCTION iblt_internal.peer_connect_detail(peer text, detail text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF detail !~ '^(connection to server|could not connect to server|FATAL:|Non-superuser)' THEN
		detail := '';
	END IF;
	IF iblt_internal.peer_is_string(peer) THEN
		RETURN detail;
	ELSIF NOT has_server_privilege(peer, 'USAGE') THEN
		RETURN 'You lack the USAGE privilege on the foreign server.';
	ELSIF NOT EXISTS (SELECT FROM pg_user_mappings m
			WHERE m.srvname = peer AND m.usename IN (current_user, 'public')) THEN
		RETURN format('The foreign server has no user mapping for %I.', current_user);
	END IF;
	RETURN detail;
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_connect_detail(text, text) IS
'why a connection could not be made, without what may be secret';

CREATE FUNCTION iblt_internal.peer_connect(peer text, conn text, label text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	schema text := iblt_internal.peer_dblink();
	held text;
	state text;
	detail text;
BEGIN
	IF iblt_internal.peer_is_string(peer) AND strpos(peer, '=') = 0 AND strpos(peer, '://') = 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = 'peer is neither a foreign server nor a connection string',
			HINT = 'Give the name of a foreign server, or a string'
				' such as ''host=node_b dbname=shop''.';
	END IF;
	BEGIN
		held := set_config('iblt.peer', peer, true);
		EXECUTE format('SELECT %s.dblink_connect($1, pg_catalog.current_setting(''iblt.peer''))',
			schema) USING conn;
		held := set_config('iblt.peer', '', true);
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
		detail := iblt_internal.peer_connect_detail(peer, detail);
		PERFORM iblt_internal.iblt_peer_raise(state, 'could not connect to the peer', detail,
			'Check the foreign server, its user mapping or the connection string.'
			' Non-superusers must supply a password.');
	END;
	-- the next client of a pooler is not harmed by either
	EXECUTE format('SELECT %s.dblink_exec($1, $2)', schema) USING conn, format(
		'SELECT pg_catalog.set_config(''client_connection_check_interval'', ''2s'', false)
			WHERE pg_catalog.current_setting(''server_version_num'')::pg_catalog.int4
				OPERATOR(pg_catalog.>=) 140000
			AND pg_catalog.version() OPERATOR(pg_catalog.~~) ''%%linux%%'';
		SET application_name = %L', left(label, 63));
	RETURN conn;
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_connect(text, text, text) IS
'opens a connection to the peer under a name, which it returns; a label is its application_name';

CREATE FUNCTION iblt_internal.peer_close(conn text) RETURNS void
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
COMMENT ON FUNCTION iblt_internal.peer_close(text) IS
'closes a connection to the peer, if it is open, and cancels what runs there';

CREATE FUNCTION iblt_internal.peer_is_open(conn text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	names text[];
BEGIN
	EXECUTE format('SELECT %s.dblink_get_connections()', iblt_internal.peer_dblink()) INTO names;
	RETURN coalesce(conn = ANY (names), false);
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_is_open(text) IS 'is a connection of this name open?';

CREATE FUNCTION iblt_internal.peer_fail(conn text, secret boolean, state text, message text,
	detail text, hint text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM iblt_internal.peer_close(conn);
	IF secret THEN
		PERFORM iblt_internal.iblt_peer_raise(state, message, detail, hint);
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_fail(text, boolean, text, text, text, text) IS
'closes a connection after an error, and raises the error if the driver''s statement may hold a '
'secret; otherwise the driver raises it again';

-- Queries

-- Every value has the same form on both sides, no policy hides a row, and no index
-- gives only some of the rows.  Only iblt_repair writes (it sets iblt.writing in its
-- transaction).  A condition is read as it is here, also a date such as 01/02/2024.
-- Behind a pooler the next query may meet another session, and the next client this
-- session, so the settings go with each query and end with it.  The statement must not
-- use operators of the session's own search_path.
CREATE FUNCTION iblt_internal.peer_settings() RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format($q$SELECT pg_catalog.count(pg_catalog.set_config(n, v, true)) FROM (VALUES
('search_path', 'pg_catalog, pg_temp'), ('transaction_read_only', CASE
WHEN pg_catalog.current_setting('iblt.writing', true) OPERATOR(pg_catalog.=) 'on'
THEN 'off' ELSE 'on' END),
('row_security', 'off'), ('enable_indexonlyscan', 'off'), ('array_nulls', 'on'),
('quote_all_identifiers', 'off'), ('jit', 'off'), ('DateStyle', %L), ('IntervalStyle', %L),
('TimeZone', 'UTC'), ('extra_float_digits', '1'), ('bytea_output', 'hex'),
('xmlbinary', 'base64'), ('xmloption', 'content'), ('lc_monetary', 'C'), ('lc_numeric', 'C'),
('lc_time', 'C'), ('timezone_abbreviations', %L), ('transform_null_equals', 'off'),
('gin_fuzzy_search_limit', '0')) AS s(n, v)
WHERE pg_catalog.current_setting(n) OPERATOR(pg_catalog.<>) v;
$q$, current_setting('DateStyle'), current_setting('IntervalStyle'),
		current_setting('timezone_abbreviations'))
$$;
COMMENT ON FUNCTION iblt_internal.peer_settings() IS
'the statement that goes before each query on the peer';

CREATE FUNCTION iblt_internal.peer_send(conn text, query text, settings boolean DEFAULT true)
RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	schema text := iblt_internal.peer_dblink();
	sent integer;
	problem text;
BEGIN
	IF settings THEN
		query := iblt_internal.peer_settings() || query;
	END IF;
	EXECUTE format('SELECT %s.dblink_send_query($1, $2)', schema) INTO sent USING conn, query;
	IF sent <> 1 THEN
		EXECUTE format('SELECT %s.dblink_error_message($1)', schema) INTO problem USING conn;
		RAISE EXCEPTION USING ERRCODE = 'connection_failure',
			MESSAGE = 'could not send a query to the peer', DETAIL = coalesce(problem, '');
	END IF;
	PERFORM iblt_internal.iblt_traffic_add(1, octet_length(query), 0);
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_send(text, text, boolean) IS
'starts a query on the peer, with the settings, and does not wait for it';

-- dblink_get_result cannot be interrupted in all releases; this can.  No pause is
-- shorter than a millisecond, so there is none at first.  Each look takes in what has
-- arrived.  A large answer needs many, because a socket holds a part only: if the longest
-- pause is 0, there is none for 20 ms.
CREATE FUNCTION iblt_internal.peer_wait(conn text, longest double precision) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	query text := format('SELECT %s.dblink_is_busy($1)', iblt_internal.peer_dblink());
	hasty timestamptz := clock_timestamp()
		+ CASE WHEN longest > 0 THEN interval '2 ms' ELSE interval '20 ms' END;
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
COMMENT ON FUNCTION iblt_internal.peer_wait(text, double precision) IS
'waits for the peer''s answer, with pauses of up to so many seconds; 0 for a large answer';

-- "before" is the number of results before the one that is wanted: as a rule 1, of the
-- settings.  The connection is free once an empty result has been fetched.
CREATE FUNCTION iblt_internal.peer_fetch(conn text, query text, pause double precision,
	before integer) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result record;
	pass text := format('SELECT count(*) FROM %s.dblink_get_result($1) AS t(nothing text)',
		iblt_internal.peer_dblink());
BEGIN
	FOR i IN 1 .. before LOOP
		EXECUTE pass USING conn;
		PERFORM iblt_internal.peer_wait(conn, pause);
	END LOOP;
	BEGIN
		EXECUTE query INTO result USING conn;
	EXCEPTION WHEN datatype_mismatch THEN
		-- a connection that was lost between two results first gives one without columns
		EXECUTE pass USING conn;
		RAISE;
	END;
	EXECUTE pass USING conn;
	RETURN result;
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_fetch(text, text, double precision, integer) IS
'the row that a query over the peer''s answer gives, when the answer is there';

CREATE TYPE iblt_internal.peer_error AS (
	state text,
	message text,
	detail text,
	hint text,
	reported boolean		-- over the connection; otherwise it arose on this side
);
COMMENT ON TYPE iblt_internal.peer_error IS 'an error that a query on the peer ended with';

-- A cancel of this side's statement is not an error of the peer's.  Its SQLSTATE and
-- message are those of a cancel there, but dblink's context names the connection.  After
-- an error of the peer's, the connection is free for the next query.
CREATE FUNCTION iblt_internal.peer_try(conn text, query text, pause double precision,
	before integer, OUT result record, OUT problem iblt_internal.peer_error) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	context text;
	pass text := format('SELECT count(*) FROM %s.dblink_get_result($1) AS t(nothing text)',
		iblt_internal.peer_dblink());
BEGIN
	PERFORM iblt_internal.peer_wait(conn, pause);
	BEGIN
		result := iblt_internal.peer_fetch(conn, query, pause, before);
	EXCEPTION WHEN query_canceled OR OTHERS THEN
		GET STACKED DIAGNOSTICS problem.state = RETURNED_SQLSTATE,
			problem.message = MESSAGE_TEXT, problem.detail = PG_EXCEPTION_DETAIL,
			problem.hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
		problem.reported := strpos(context, conn) > 0;
		IF problem.state = '57014' AND NOT problem.reported THEN
			RAISE;
		END IF;
		BEGIN
			EXECUTE pass USING conn;
		EXCEPTION WHEN OTHERS THEN
			-- a connection that was lost is found out by the next query
			NULL;
		END;
	END;
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_try(text, text, double precision, integer) IS
'the row that a query over the peer''s answer gives, or the error that the peer answered with';

CREATE FUNCTION iblt_internal.peer_refuse(problem iblt_internal.peer_error) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- a cancel there is not a cancel of the caller's statement
	PERFORM iblt_internal.iblt_peer_raise(
		CASE problem.state WHEN '57014' THEN 'IB005' ELSE problem.state END,
		'on the peer: ' || problem.message, problem.detail, problem.hint);
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_refuse(iblt_internal.peer_error) IS
'raises an error of the peer''s here, with IB005 for a statement that was cancelled there';

CREATE FUNCTION iblt_internal.peer_result(conn text, query text, pause double precision,
	before integer DEFAULT 1, OUT result record) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer record := iblt_internal.peer_try(conn, query, pause, before);
BEGIN
	IF (answer.problem).state IS NOT NULL THEN
		PERFORM iblt_internal.peer_refuse(answer.problem);
	END IF;
	result := answer.result;
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_result(text, text, double precision, integer) IS
'the row that a query over the peer''s answer gives; an error of the peer''s is raised here';

CREATE FUNCTION iblt_internal.peer_value(conn text, pause double precision DEFAULT 0.001,
	before integer DEFAULT 1) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer record;
BEGIN
	answer := iblt_internal.peer_result(conn, format(
		'SELECT value FROM %s.dblink_get_result($1) AS t(value text)', iblt_internal.peer_dblink()),
		pause, before);
	PERFORM iblt_internal.iblt_traffic_add(1, 0, octet_length(answer.value));
	RETURN answer.value;
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_value(text, double precision, integer) IS
'the single value that a query sent to the peer gives';

CREATE FUNCTION iblt_internal.peer_ask(conn text, side text, query text,
	pause double precision DEFAULT 0.001) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	value text;
BEGIN
	IF side = 'there' AND conn IS NOT NULL THEN
		PERFORM iblt_internal.peer_send(conn, query);
		RETURN iblt_internal.peer_value(conn, pause);
	END IF;
	EXECUTE query INTO value;
	RETURN value;
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_ask(text, text, text, double precision) IS
'the single value that a query gives on a side';

-- A sketch is large, so it is read as what it is, and not as text first.
CREATE FUNCTION iblt_internal.peer_sketch(conn text, query text) RETURNS @extschema@.iblt
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer record;
	length bigint;
BEGIN
	PERFORM iblt_internal.peer_send(conn, query);
	answer := iblt_internal.peer_result(conn,
		format('SELECT value FROM %s.dblink_get_result($1) AS t(value %s.iblt)',
		iblt_internal.peer_dblink(), '@extschema@'), 0);
	-- of its text, which is base64
	length := ((@extschema@.iblt_info(answer.value)).bytes + 2) / 3 * 4;
	PERFORM iblt_internal.iblt_traffic_add(1, 0, length, length);
	RETURN answer.value;
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_sketch(text, text) IS
'the sketch that a query gives on the peer';

-- Queries with keys
--
-- An error names the statements under way, and the log shows them with it, also those
-- of parallel workers.  So keys and rows are not part of a query: it has them as its
-- parameter $1.  dblink has no parameters, so the peer gets them in a message that it
-- does not show.

CREATE FUNCTION iblt_internal.peer_send_keys(conn text, label text, query text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM iblt_internal.peer_send(conn, format('SELECT iblt_internal.iblt_peer_show(%L); %s%s',
		label, iblt_internal.peer_settings(), query), false);
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_send_keys(text, text, text) IS
'starts a query on the peer, whose log shows a label in its place; its result is the third';

CREATE FUNCTION iblt_internal.peer_ask_keys(conn text, side text, query text, keys text[])
RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF side = 'there' AND conn IS NOT NULL THEN
		PERFORM iblt_internal.peer_send_keys(conn, query,
			format('SELECT iblt_internal.run_keys(%L, %L)', query, keys));
		RETURN iblt_internal.peer_value(conn, 0.01, 2);
	END IF;
	RETURN iblt_internal.run_keys(query, keys);
END
$$;
COMMENT ON FUNCTION iblt_internal.peer_ask_keys(text, text, text, text[]) IS
'the single value that a query of keys gives on a side';
