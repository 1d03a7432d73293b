-- The peer -----------------------------------------------------------------------
--
-- Connections to other servers, by libpq (src/peer).  A driver makes up a name for each of its
-- connections.  No error and no log shows a connection string.

-- An error for an option of a foreign server or a user mapping that is none of libpq's for it.
CREATE FUNCTION iblt_fdw_validator(options text[], catalog oid) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

-- A wrapper for foreign servers that are peers.  Nobody has USAGE on it at first.
CREATE FOREIGN DATA WRAPPER iblt_fdw VALIDATOR iblt_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER iblt_fdw IS 'servers that iblt compares, by libpq';

-- Opens connections to peers under these names, all at the same time, within so many seconds,
-- unless they are open, or kept from before and good; NULL if all are then, or what has failed, and
-- NULL for what has not.
CREATE FUNCTION iblt_peers_open(conns text[], peers text[], timeout double precision)
RETURNS failure[]
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Is a connection of this name open?
CREATE FUNCTION iblt_peer_is_open(conn text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Host and port of a connection as this side calls them; NULL if it is not open, or if its string
-- may hold a password where libpq finds a host.
CREATE FUNCTION iblt_peer_address(conn text) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Sends a query over a connection, and counts it; false if it could not.
CREATE FUNCTION iblt_peer_send(conn text, query text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Waits for the peer's answer, and says whether it is there.
CREATE FUNCTION iblt_peer_wait(conn text, until timestamptz DEFAULT 'infinity') RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Waits for the peer's answer, the first row of the last statement, and counts it; a value of the
-- type of "answer", NULL without a row.  The connection is free then.
-- The failure is an error that the query ended with there, or a lost connection.  An error if it is
-- not there by then.
CREATE FUNCTION iblt_peer_fetch(conn text, INOUT answer anyelement,
	until timestamptz DEFAULT 'infinity', OUT e failure)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Ends the use of the connections of all sides, and forgets the sketches that this session keeps.
-- The session keeps connections over which no rows were written, and whose last question did not
-- fail.  The other session keeps its last sketch until the next one takes its place.
CREATE FUNCTION peers_close(conns text[], keep boolean DEFAULT true) RETURNS void
	AS 'MODULE_PATHNAME', 'iblt_peers_close' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION @extschema@.iblt_disconnect() RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.iblt_disconnect IS
'closes the connections that this session keeps for the calling role, and counts them';

-- The messages and bytes between this session and peers since this was called last.
CREATE FUNCTION iblt_traffic_take(OUT messages bigint, OUT sent bigint, OUT received bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Is it a connection string, which messages must not show? Otherwise it is a foreign server.
-- auto_explain logs the plans of nested statements with their parameters, so PL/pgSQL
-- hands a connection string on in assignments alone, which do not run the executor:
-- never in PERFORM, EXECUTE ... USING or a query.
CREATE FUNCTION iblt_peer_is_string(peer text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- Is one of these a connection string, or is there none? Within this database, an error is told
-- without the statements and functions of iblt, too.
CREATE FUNCTION peers_secret(peers text[]) RETURNS boolean
	AS 'MODULE_PATHNAME', 'iblt_peers_secret' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- What is known of the connections of this transaction: their "titles", and which are "bare".
CREATE FUNCTION peers_known(field text) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN nullif(current_setting('iblt.peers', true), '')::jsonb -> field;

-- Changes one of these.
CREATE FUNCTION peers_know(field text, value jsonb) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN set_config('iblt.peers', (coalesce(nullif(current_setting('iblt.peers', true), ''),
		'{}')::jsonb || jsonb_build_object(field, value))::text, true);

-- What messages call the other end of a connection: by its name where there are several (connect).
CREATE FUNCTION peer_title(conn text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN coalesce('"' || (peers_known('titles') ->> conn) || '"', 'the peer');

-- Is the peer asked by plain queries, because nothing of iblt is there?
-- That is a property of the connection, which has this name in this transaction only.
CREATE FUNCTION peer_is_bare(conn text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'iblt_peer_is_bare' LANGUAGE C STABLE PARALLEL SAFE;

-- From now on, the peers of these connections are asked by plain queries, and no others.
CREATE FUNCTION peers_bare(conns text[]) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN peers_know('bare', to_jsonb(conns));

-- New names for connections to peers, NULL for this database.
-- Both sides may be relations of one peer, over one connection.
CREATE FUNCTION peer_conns(peers text[]) RETURNS text[]
	AS 'MODULE_PATHNAME', 'iblt_peer_conns' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Opens connections to peers that are not open, and returns their names; an error for the first
-- that cannot be made.  With several, it begins an attempt of a driver, with counters at 0.
-- Messages call nodes by these names.  Of two sides they call a foreign server by its name, and a
-- peer of a connection string by its side.
CREATE FUNCTION connect(peers text[], conns text[], timeout interval DEFAULT NULL,
	names text[] DEFAULT NULL) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	traffic record;
	failures failure[];
	e failure;
BEGIN
	IF cardinality(conns) > 1 THEN
		traffic := iblt_traffic_take();
		IF names IS NULL AND conns[1] IS NOT NULL THEN
			names := '{here,there}';
			FOR n IN 1 .. 2 LOOP
				IF NOT iblt_peer_is_string(peers[n]) THEN
					names[n] := peers[n];
				END IF;
			END LOOP;
		END IF;
	END IF;
	IF names IS NOT NULL THEN
		PERFORM peers_know('titles', (SELECT coalesce(jsonb_object_agg(conn, name), '{}')
			FROM unnest(conns, names) AS u(conn, name) WHERE conn IS NOT NULL));
	END IF;
	failures := iblt_peers_open(conns, peers, coalesce(extract(epoch FROM timeout), 'infinity'));
	FOR n IN 1 .. coalesce(cardinality(failures), 0) LOOP
		e := failures[n];
		CONTINUE WHEN e.state IS NULL;
		IF e.message IS NOT NULL THEN
			e.message := CASE peer_title(conns[n]) WHEN '"here"' THEN 'here_peer'
				WHEN '"there"' THEN 'peer' WHEN 'the peer' THEN 'peer'
				ELSE peer_title(conns[n]) END || ' ' || e.message;
			e.hint := 'Give the name of a foreign server, or a string'
				' such as ''host=node_b dbname=shop''.';
		ELSE
			e.message := 'could not connect to ' || peer_title(conns[n])
				|| CASE WHEN names IS NULL AND NOT iblt_peer_is_string(peers[n])
					THEN format(', foreign server %I', peers[n]) ELSE '' END;
			e.hint := 'Check the foreign server, its user mapping or the connection string.'
				' Non-superusers must supply a password.';
		END IF;
		e.secret := true;
		PERFORM iblt_raise(e);
	END LOOP;
	RETURN conns;
END
$$;

-- Closes connections after an error, and gives what iblt_raise is to raise for the driver:
-- nothing if the driver is to raise the error again as it is, with its context.
CREATE FUNCTION peers_fail(conns text[], secret boolean, e failure) RETURNS failure
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM peers_close(conns, false);
	e.secret := coalesce(secret, false);
	IF e.state IN ('IB002', 'IB003') THEN
		e.datatype_name := NULL;		-- see told_too_many
	END IF;
	RETURN CASE WHEN (e.secret OR failure_is_own(e)) IS NOT FALSE THEN e END;
END
$$;
