-- Queries on the peer ----------------------------------------------------------------
--
-- peer_send starts a query, and peer_value waits for its single value.  An error that the
-- peer reports is raised here, and says so.  What is asked of both sides goes through
-- ask (ask.sql).

-- The two statements that go before each query on the peer; a label is its application_name
-- from then on, and what is to be shown takes the place of the message in its log.
-- Behind a pooler the next query may meet another session, so the settings go with each
-- query and end with it.  A condition is read as it is here, also a date such as
-- 01/02/2024.  In READ COMMITTED the query has a snapshot of its own, taken under its locks.
-- The first statement of a message would take it in any other isolation level.
CREATE FUNCTION peer_settings(label text DEFAULT NULL, shown text DEFAULT NULL) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ' || peer_trust_sql(
		format('PERFORM %s', peer_pin_sql(label, shown)))
$$;

-- A statement that does something if the schema iblt_internal of the peer is a superuser's, and
-- otherwise ends in an error.
-- Where iblt is not, anybody may make a schema of that name.  Its functions would run as the
-- role that asks.  A superuser has the rights of all roles, of OID 10 too.  A view of iblt is
-- locked, so that the role that has installed it does not drop it before the message ends.
CREATE FUNCTION peer_trust_sql(act text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT format('DO %L; ', format($q$BEGIN LOCK iblt_internal.installed IN ACCESS SHARE MODE;
IF (SELECT NOT pg_catalog.pg_has_role(nspowner, 10, 'USAGE') FROM pg_catalog.pg_namespace
WHERE nspname OPERATOR(pg_catalog.=) 'iblt_internal')
THEN RAISE 'schema iblt_internal does not belong to a superuser' USING ERRCODE = '3F000';
END IF; %s; END$q$, act))
$$;

-- The expression that pins the settings.
CREATE FUNCTION peer_pin_sql(label text, shown text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT format(CASE WHEN shown IS NULL THEN '%s'
			ELSE 'pg_catalog.concat(iblt_internal.iblt_peer_show(%2$L), %1$s)' END,
		format('iblt_internal.iblt_peer_settings(%L, %L, %L, %L)', current_setting('DateStyle'),
			current_setting('IntervalStyle'), current_setting('timezone_abbreviations'),
			left(label, 63)), shown)
$$;

-- Starts a query on the peer, and does not wait for it; true.
CREATE FUNCTION peer_send(conn text, query text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	problem text;
BEGIN
	IF NOT iblt_peer_send(conn, query) THEN
		EXECUTE format('SELECT %s.dblink_error_message($1)', iblt_peer_dblink())
			INTO problem USING conn;
		RAISE EXCEPTION USING ERRCODE = 'connection_failure',
			MESSAGE = 'could not send a query to ' || peer_title(conn),
			DETAIL = coalesce(problem, '');
	END IF;
	RETURN true;
END
$$;

-- The row that a query over the peer's answer gives, when the answer is there, or without a query
-- its single value.
-- "before" is the number of results before the one that is wanted: as a rule 2, of the
-- settings.  The connection is free once an empty result has been fetched.
CREATE FUNCTION peer_fetch(conn text, query text, pause double precision,
	before integer) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	result record;
BEGIN
	BEGIN
		IF query IS NULL THEN
			RETURN ROW(iblt_peer_answer(conn, pause, before));
		END IF;
		PERFORM iblt_peer_take(conn, pause, before);
		EXECUTE query INTO result USING conn;
	EXCEPTION WHEN datatype_mismatch THEN
		-- a connection that was lost between two results first gives one without columns
		PERFORM iblt_peer_take(conn, pause, 1);
		RAISE;
	END;
	PERFORM iblt_peer_wait(conn, pause), iblt_peer_take(conn, pause, 1);
	RETURN result;
END
$$;

-- An error that was caught while the peer's answer was fetched.
-- A cancel of this side's statement is not an error of the peer's.  Its SQLSTATE and
-- message are those of a cancel there, but dblink's context names the connection.  After
-- an error of the peer's, the connection is made free for the next query.
CREATE FUNCTION peer_caught(conn text, e failure) RETURNS failure
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	-- what dblink says of the error, before the query over the answer or its function
	said text := regexp_replace(split_part(split_part(e.context, 'dblink_get_result(', 1),
		'peer_fetch(', 1), '[^\n]*$', '');
BEGIN
	e.reported := strpos(said, conn) > 0;
	IF e.state <> '57014' OR e.reported THEN
		BEGIN
			IF iblt_peer_wait(conn, 0.001, clock_timestamp() + interval '2 s') THEN
				PERFORM iblt_peer_take(conn, 0.001, 1);
			END IF;
		EXCEPTION WHEN @on_error@ THEN
			-- a connection that was lost is found out by the next query
			NULL;
		END;
	END IF;
	RETURN e;
END
$$;

-- Raises an error that a query on the peer ended with, with IB005 for one that was cancelled
-- there; the message tells the peer's errors from those of this side.
CREATE FUNCTION peer_refuse(conn text, e failure) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	-- a cancel there is not a cancel of the caller's statement
	e.state := CASE e.state WHEN '57014' THEN 'IB005' ELSE e.state END;
	-- what was altered there is told as what was altered here
	e.message := CASE WHEN e.reported AND e.state <> 'IB004'
		THEN format('on %s: ', peer_title(conn)) ELSE '' END || e.message;
	e.secret := true;
	PERFORM iblt_raise(e);
END
$$;

-- The row that a query over the peer's answer gives, or without a query its single value; an error
-- of the peer's is raised here.
CREATE FUNCTION peer_result(conn text, query text, pause double precision,
	before integer DEFAULT 2) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	e failure;
BEGIN
	-- a PERFORM would be planned for each message
	e.reported := NOT iblt_peer_wait(conn, pause);
	BEGIN
		RETURN peer_fetch(conn, query, pause, before);
	EXCEPTION WHEN @on_any_error@ THEN
		@take_failure@;
		e := peer_caught(conn, e);
		IF e.state = '57014' AND NOT e.reported THEN
			RAISE;
		END IF;
		PERFORM peer_refuse(conn, e);
	END;
END
$$;

-- The single value that a query sent to the peer gives, or the error that the peer answered
-- with.
CREATE FUNCTION peer_try(conn text, pause double precision,
	before integer DEFAULT 2, OUT value text, OUT e failure) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answer record;
BEGIN
	PERFORM iblt_peer_wait(conn, pause);
	BEGIN
		answer := peer_fetch(conn, NULL, pause, before);
		value := answer.f1;
	EXCEPTION WHEN @on_any_error@ THEN
		@take_failure@;
		e := peer_caught(conn, e);
		IF e.state = '57014' AND NOT e.reported THEN
			RAISE;
		END IF;
	END;
END
$$;

-- The single value that a query sent to the peer gives.
CREATE FUNCTION peer_value(conn text, pause double precision DEFAULT 0.001,
	before integer DEFAULT 2) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answer record := peer_result(conn, NULL, pause, before);
BEGIN
	RETURN answer.f1;
END
$$;
