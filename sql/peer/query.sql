-- Queries on the peer ----------------------------------------------------------------
--
-- peer_send starts a query, and peer_value waits for its single value.  What is asked of both
-- sides goes through ask_values (ask.sql).

-- Statements that end in an error unless the schema iblt_internal of the peer is a superuser's.
CREATE FUNCTION peer_trust_sql() RETURNS text
	AS 'MODULE_PATHNAME', 'iblt_peer_trust_sql' LANGUAGE C STABLE PARALLEL SAFE;

-- The statements that go before each query on the peer; a label is its application_name
-- from then on, and what is to be shown takes the place of the message in its log.
CREATE FUNCTION peer_settings(label text DEFAULT NULL, shown text DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME', 'iblt_peer_settings_sql' LANGUAGE C STABLE PARALLEL SAFE;

-- The error for a query that could not be sent.
CREATE FUNCTION peer_unsent(conn text) RETURNS boolean
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RAISE connection_failure USING MESSAGE = 'could not send a query to ' || peer_title(conn);
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

-- The single value that a query sent to the peer gives; an error of the peer's is raised here, and
-- says so.
CREATE FUNCTION peer_value(conn text, until timestamptz DEFAULT 'infinity') RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	fetched record := iblt_peer_fetch(conn, NULL::text, until);
BEGIN
	IF (fetched.e).state IS NOT NULL THEN
		PERFORM peer_refuse(conn, fetched.e);
	END IF;
	RETURN fetched.answer;
END
$$;
