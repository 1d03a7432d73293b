-- Queries on the peer ----------------------------------------------------------------
--
-- peer_send starts a query, and peer_value waits for its single value.  What is asked of both
-- sides goes through ask (ask.sql).

-- A statement that does something if the schema iblt_internal of the peer is a superuser's, and
-- otherwise ends in an error.
-- Where iblt is not, anybody may make a schema of that name.  Its functions would run as the
-- role that asks.  A superuser has the rights of all roles, of OID 10 too.  A view of iblt is
-- locked, so that the role that has installed it does not drop it before the message ends.
CREATE FUNCTION peer_trust_sql(act text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format('DO %L; ', format($q$BEGIN LOCK iblt_internal.installed IN ACCESS SHARE MODE;
IF (SELECT NOT pg_catalog.pg_has_role(nspowner, 10, 'USAGE') FROM pg_catalog.pg_namespace
WHERE nspname OPERATOR(pg_catalog.=) 'iblt_internal')
THEN RAISE 'schema iblt_internal does not belong to a superuser' USING ERRCODE = '3F000';
END IF; %s; END$q$, act));

-- The two statements that go before each query on the peer; a label is its application_name
-- from then on, and what is to be shown takes the place of the message in its log.
-- Behind a pooler the next query may meet another session, so the settings go with each
-- query and end with it.  A condition is read as it is here, also a date such as
-- 01/02/2024.  In READ COMMITTED the query has a snapshot of its own, taken under its locks.
-- The first statement of a message would take it in any other isolation level.
CREATE FUNCTION peer_settings(label text DEFAULT NULL, shown text DEFAULT NULL) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ' || peer_trust_sql(
		format(CASE WHEN shown IS NULL THEN 'PERFORM %s'
				ELSE 'PERFORM pg_catalog.concat(iblt_internal.iblt_peer_show(%2$L), %1$s)' END,
			format('iblt_internal.iblt_peer_settings(%L, %L, %L, %L)', current_setting('DateStyle'),
				current_setting('IntervalStyle'), current_setting('timezone_abbreviations'),
				left(label, 63)), shown));

-- The error for a query that could not be sent.
CREATE FUNCTION peer_unsent(conn text) RETURNS boolean
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'connection_failure',
		MESSAGE = 'could not send a query to ' || peer_title(conn);
END
$$;

-- Starts a query on the peer, and does not wait for it; true.
CREATE FUNCTION peer_send(conn text, query text) RETURNS boolean
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN iblt_peer_send(conn, query) OR peer_unsent(conn);

-- Raises an error that a query on the peer ended with; the message says so.
CREATE FUNCTION peer_refuse(conn text, e failure) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	-- a cancel there is not a cancel of the caller's statement
	e.state := CASE e.state WHEN '57014' THEN 'IB005' ELSE e.state END;
	-- what was altered there is told as what was altered here
	e.message := CASE WHEN e.state = 'IB004' AND e.message LIKE 'relation %' THEN ''
		ELSE format('on %s: ', peer_title(conn)) END || e.message;
	e.secret := true;
	PERFORM iblt_raise(e);
	RAISE EXCEPTION 'unknown error';
END
$$;

-- The single value that a query sent to the peer gives, in the result behind so many (as a rule 2,
-- of the settings); an error of the peer's is raised here, and says so.
CREATE FUNCTION peer_value(conn text, before integer DEFAULT 2) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	fetched record := iblt_peer_fetch(conn, before, NULL::text);
BEGIN
	IF (fetched.e).state IS NOT NULL THEN
		PERFORM peer_refuse(conn, fetched.e);
	END IF;
	RETURN fetched.answer;
END
$$;
