-- The peer -----------------------------------------------------------------------
--
-- dblink makes the connection.  It may be in any schema, or not be there, so it is
-- looked for when it is needed.  No error and no log shows a connection string.

-- The schema of dblink, quoted; an error without dblink.
CREATE FUNCTION iblt_peer_dblink() RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;

-- These call functions of dblink, as the caller.

-- Is a connection of this name open?
CREATE FUNCTION iblt_peer_is_open(conn text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Opens a connection of this name, which it returns.
CREATE FUNCTION iblt_peer_open(conn text, peer text) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Sends a query over a connection, and counts it; false if it could not.
CREATE FUNCTION iblt_peer_send(conn text, query text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Waits for the peer's answer, with pauses of up to that many seconds (0 for a large answer),
-- and says whether it is there.
-- dblink_get_result cannot be interrupted in all releases, and the socket is dblink's own.  Each
-- look takes in what has arrived.  A large answer needs many, because a socket holds a part
-- only: if the longest pause is 0, pauses stay short for 20 ms.
CREATE FUNCTION iblt_peer_wait(conn text, longest double precision,
	until timestamptz DEFAULT 'infinity') RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Takes so many results over a connection, waits behind each as iblt_peer_wait does, and gives
-- the value of the last one; NULL without a row.
CREATE FUNCTION iblt_peer_take(conn text, longest double precision, number integer) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- The value behind so many results, which it counts as a message; then the connection is free.
CREATE FUNCTION iblt_peer_answer(conn text, longest double precision, before integer) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Counts messages and bytes between this session and a peer.
CREATE FUNCTION iblt_traffic_add(messages bigint, sent bigint, received bigint,
	sketches bigint DEFAULT 0) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The messages and bytes counted since this was called last.
CREATE FUNCTION iblt_traffic_take(OUT messages bigint, OUT sent bigint,
	OUT received bigint, OUT sketches bigint) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Is it a connection string, which messages must not show? Otherwise it is a foreign server.
-- auto_explain logs the plans of nested statements with their parameters, so PL/pgSQL
-- hands a connection string on in assignments alone, which do not run the executor:
-- never in PERFORM, EXECUTE ... USING or a query.
CREATE FUNCTION iblt_peer_is_string(peer text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- Is one of these a connection string, or is there none? Within this database, an error is told
-- without the statements and functions of iblt, too.
-- No query may have one among its values, so this is a loop.
CREATE FUNCTION peers_secret(peers text[]) RETURNS boolean
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	secret boolean := num_nonnulls(VARIADIC peers) = 0;
	peer text;
BEGIN
	FOREACH peer IN ARRAY coalesce(peers, '{}') LOOP	-- whatever its dimensions and bounds are
		secret := secret OR coalesce(iblt_peer_is_string(peer), false);
	END LOOP;
	RETURN secret;
END
$$;

-- What is known of the connections of this transaction: their "titles", and which are "bare".
CREATE FUNCTION peers_known(field text) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT nullif(current_setting('iblt.peers', true), '')::jsonb -> field
$$;

-- Changes one of these.
CREATE FUNCTION peers_know(field text, value jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM set_config('iblt.peers', (coalesce(nullif(current_setting('iblt.peers', true), ''),
		'{}')::jsonb || jsonb_build_object(field, value))::text, true);
END
$$;

-- What messages call the other end of a connection: by its name where there are several
-- (nodes_title).
CREATE FUNCTION peer_title(conn text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT coalesce('"' || (peers_known('titles') ->> conn) || '"', 'the peer')
$$;

-- May a message about this connection string be shown?
-- libpq's messages are in the language of lc_messages, so their text tells nothing.  Of a string
-- that is not as it should be, a message may repeat any part, and a part of a password may be taken
-- for another option.  So it may only if all of the string is what libpq takes it for, with options
-- that libpq knows up to PostgreSQL 19 ("ssl" is of URIs), and no password is in the message.  A
-- value that looks like a connection string may hold a password.  In a URI, a password with an @, a
-- / or a ? would end elsewhere than its author thinks, so there may be one @, before all of these.
CREATE FUNCTION peer_may_tell(peer text, message text) RETURNS boolean
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	WITH word(pattern) AS (
		SELECT $r$([^ \t\n\r\f\v=]+)[ \t\n\r\f\v]*=[ \t\n\r\f\v]*$r$
			|| $r$(?:'((?:[^'\\]|\\.)*)'|((?:[^ \t\n\r\f\v'\\]|\\.)(?:[^ \t\n\r\f\v\\]|\\.)*))$r$
			|| $r$(?:[ \t\n\r\f\v]+|$)$r$
	), string AS (
		SELECT pattern, peer ~ '^postgres(ql)?://' AS is_uri,
			regexp_match(peer, $r$^postgres(?:ql)?://(?:([^@/?:]*)(?::([^@/?]*))?@)?$r$
				|| $r$([^@/?]*)(?:/([^@?]*))?(?:\?([^@]*))?\Z$r$) AS part FROM word
	), given(name, value, plain) AS (
		SELECT m[1], coalesce(m[2], m[3]), convert_to(regexp_replace(coalesce(m[2], m[3]),
			$r$\\(.)$r$, $r$\1$r$, 'g'), getdatabaseencoding())
		FROM string, regexp_matches(peer, pattern, 'g') AS m WHERE NOT is_uri
		UNION ALL
		SELECT name, value, (SELECT decode(string_agg(CASE WHEN m[1] ~ '^%.' THEN right(m[1], 2)
				ELSE encode(convert_to(m[1], getdatabaseencoding()), 'hex') END, '' ORDER BY n),
				'hex')
			FROM regexp_matches(value, '%[[:xdigit:]]{2}|.', 'g') WITH ORDINALITY AS c(m, n))
		FROM (SELECT u.name, u.value FROM string,
				unnest('{user,password,host,dbname}'::text[], part[1:4]) AS u(name, value)
				WHERE u.value <> ''
			UNION ALL
			SELECT split_part(p, '=', 1), substring(p FROM '^[^=]*=([^=]*)$')
			FROM string, regexp_split_to_table(part[5], '&') AS p WHERE p <> '') AS u(name, value)
	)
	SELECT CASE WHEN is_uri THEN part IS NOT NULL AND peer !~ '%(?![[:xdigit:]]{2})|%00'
			ELSE peer ~ ($r$^[ \t\n\r\f\v]*(?:$r$ || pattern || ')*$') END
		AND (SELECT coalesce(bool_and(coalesce(CASE WHEN name IN ('password',
				'sslpassword', 'scram_client_key', 'scram_server_key', 'oauth_client_secret')
			THEN value = '' OR strpos(message, value) = 0
				AND position(plain IN convert_to(message, getdatabaseencoding())) = 0
			ELSE position('://'::bytea IN plain) = 0
				AND (name = 'options' OR position('='::bytea IN plain) = 0) AND name = ANY
				('{application_name,authtype,channel_binding,client_encoding,connect_timeout,'
				'dbname,fallback_application_name,gssdelegation,gssencmode,gsslib,host,'
				'hostaddr,keepalives,keepalives_count,keepalives_idle,keepalives_interval,'
				'krbsrvname,load_balance_hosts,max_protocol_version,min_protocol_version,'
				'oauth_client_id,oauth_issuer,oauth_scope,options,passfile,port,replication,'
				'require_auth,requirepeer,service,servicefile,ssl,sslcert,sslcertmode,'
				'sslcompression,sslcrl,sslcrldir,sslkey,sslkeylogfile,ssl_max_protocol_version,'
				'ssl_min_protocol_version,sslmode,sslnegotiation,sslrootcert,sslsni,'
				'target_session_attrs,tcp_user_timeout,tty,user}'::text[]) END, false)), true)
			FROM given)
	FROM string
$$;

-- The name of the connection to a peer: the peer itself if it is an open one, or a new name.
-- A caller may have lent a connection of dblink's: both sessions stay warm, and the functions
-- need not be read again.  The name of a foreign server goes before that of a connection,
-- because anybody may open one of that name.
CREATE FUNCTION peer_conn(peer text, lent boolean DEFAULT true) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF peer IS NULL THEN
		RETURN NULL;
	ELSIF lent AND strpos(peer, '=') = 0 AND strpos(peer, '://') = 0 AND iblt_peer_is_string(peer)
			-- an error without dblink
			AND iblt_peer_dblink() IS NOT NULL AND peer_is_lent(peer)
			AND iblt_peer_is_open(peer) THEN
		RETURN peer;
	END IF;
	RETURN concat('iblt_', gen_random_uuid());
END
$$;

-- Was a connection opened by the caller, and not by a driver?
-- Runs have one name, so that the next run closes what a cancelled one has left.
CREATE FUNCTION peer_is_lent(conn text) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN conn !~ '^iblt_([0-9a-f]{8}-[0-9a-f-]{27}|run|run_here)$';
END
$$;

-- Is the peer asked by plain queries, because nothing of iblt is there?
-- That is a property of the connection, which has this name in this transaction only.
CREATE FUNCTION peer_is_bare(conn text) RETURNS boolean
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN coalesce(peers_known('bare') ? conn, false);
END
$$;

-- From now on, the peers of these connections are asked by plain queries, and no others.
CREATE FUNCTION peers_bare(conns text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM peers_know('bare', to_jsonb(conns));
END
$$;

-- Gives connections so many seconds, before PostgreSQL 16 only those that name no
-- connect_timeout; NULL takes that back, and says whether the time was over.
CREATE FUNCTION iblt_peer_patience(seconds integer) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- How many seconds a connection to a peer may take to be made, for a caller who has that timeout.
-- libpq does not take less than two seconds.  From PostgreSQL 16 on dblink heeds no
-- connect_timeout, and of several hosts it may wait for the first one for minutes.
CREATE FUNCTION peer_patience(peer text, timeout interval) RETURNS integer
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	o text := peer;
BEGIN
	IF NOT iblt_peer_is_string(peer) THEN
		o := (SELECT array_to_string(s.srvoptions, ' ') FROM pg_foreign_server AS s
			WHERE s.srvname = peer);
	END IF;
	RETURN greatest(2, coalesce(
		nullif(substring(o FROM 'connect_timeout\s*=\s*''?(\d{1,5})'), '0')::integer,
		least(CASE WHEN o ~ ',' THEN NULL ELSE 10 END, ceil(extract(epoch FROM least(timeout,
			nullif(current_setting('statement_timeout')::interval, '0')))))))::integer;
END
$$;

-- Opens a connection to the peer under a name, which it returns; a peer of that name is one
-- that the caller opened, and without a name there is none.
CREATE FUNCTION peer_connect(peer text, conn text, timeout interval DEFAULT NULL) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	is_string boolean := iblt_peer_is_string(peer);
	late boolean;
	e failure;
BEGIN
	IF conn IS NULL THEN
		RETURN NULL;
	ELSIF conn = peer THEN
		IF NOT iblt_peer_is_open(conn) THEN
			RAISE EXCEPTION USING ERRCODE = 'connection_does_not_exist',
				MESSAGE = format('the connection to %s is closed', peer_title(conn)),
				HINT = 'Open it again with dblink_connect.';
		END IF;
		PERFORM peer_send(conn, 'SELECT pg_catalog.transaction_timestamp()'
			' OPERATOR(pg_catalog.=) pg_catalog.statement_timestamp()');
		IF NOT peer_value(conn, 0.001, 0)::boolean THEN
			PERFORM refuse_transaction(conn);
		END IF;
		RETURN conn;
	ELSIF is_string AND strpos(peer, '=') = 0 AND strpos(peer, '://') = 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = CASE peer_title(conn)
				WHEN '"here"' THEN 'here_peer is neither a foreign server nor a connection string'
				ELSE 'peer is neither a foreign server nor a connection string' END,
			HINT = 'Give the name of a foreign server, or a string'
				' such as ''host=node_b dbname=shop''.';
	END IF;
	PERFORM iblt_peer_dblink();
	IF is_string THEN
		PERFORM iblt_hide_statement();
	END IF;
	BEGIN
		late := iblt_peer_patience(peer_patience(peer, timeout));
		conn := iblt_peer_open(conn, peer);
		PERFORM iblt_peer_patience(NULL);
	EXCEPTION WHEN @on_any_error@ THEN
		late := iblt_peer_patience(NULL);
		GET STACKED DIAGNOSTICS e.state = RETURNED_SQLSTATE, e.detail = PG_EXCEPTION_DETAIL;
		IF e.state = '57014' AND NOT late THEN
			RAISE;
		ELSIF e.state = '57014' THEN
			e.state := '08001';
			e.detail := 'connection to server failed: timeout expired';
		END IF;
		e.message := 'could not connect to ' || peer_title(conn);
		-- dblink gives libpq's message with 08001, in any language, and says itself with 2F003 what
		-- non-superusers must do
		IF e.state NOT IN ('08001', '2F003')
				OR e.state = '08001' AND is_string AND NOT peer_may_tell(peer, e.detail) THEN
			e.detail := '';
		END IF;
		IF is_string THEN
			NULL;
		ELSIF NOT has_server_privilege(peer, 'USAGE') THEN
			e.detail := 'You lack the USAGE privilege on the foreign server.';
		ELSIF NOT EXISTS (SELECT FROM pg_user_mappings m
				WHERE m.srvname = peer AND m.usename IN (current_user, 'public')) THEN
			e.detail := format('The foreign server has no user mapping for %I.', current_user);
		END IF;
		e.hint := 'Check the foreign server, its user mapping or the connection string.'
			' Non-superusers must supply a password.';
		e.secret := true;
		PERFORM iblt_raise(e);
	END;
	RETURN conn;
END
$$;

-- Closes a connection to the peer, if it is open; one that the caller opened stays open if it
-- is free.  Forgets the sketches of both sides, which this session keeps after an error.
-- A cancel over dblink waits for the peer without a limit before PostgreSQL 17, and nothing
-- interrupts it.  So it is left out: client_connection_check_interval ends what runs there.
CREATE FUNCTION peer_close(conn text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	e failure;
BEGIN
	PERFORM iblt_session_drop('iblt here'), iblt_session_drop('iblt there');
	IF conn IS NULL THEN
		RETURN;
	ELSIF peer_is_lent(conn) THEN
		BEGIN
			IF peer_is_bare(conn) THEN
				RETURN;
			END IF;
			PERFORM peer_send(conn, peer_trust_sql(
				format('PERFORM iblt_internal.session_forget(%L)', conn)));
			IF iblt_peer_wait(conn, 0.001, clock_timestamp() + interval '2 s') THEN
				PERFORM peer_value(conn, 0.001, 0);
				RETURN;
			END IF;
		EXCEPTION WHEN @on_any_error@ THEN
			-- it is still at work, or its transaction is not over
			@take_failure@;
			IF e.state = '57014' THEN
				-- the handler of a driver may have called this
				e.secret := true;
				PERFORM iblt_raise(e);
			END IF;
		END;
	END IF;
	IF iblt_peer_is_open(conn) THEN
		EXECUTE format('SELECT %s.dblink_disconnect($1)', iblt_peer_dblink()) USING conn;
	END IF;
END
$$;

-- The peers of a comparison
--
-- A driver has the peers of both sides, NULL for this database, and the names of the
-- connections to them.  Both sides may be relations of one peer, over one connection.

-- The names of the connections to peers, NULL for this database: new ones, or those that the caller
-- may have lent.
CREATE FUNCTION peer_conns(peers text[], lent boolean DEFAULT true) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	conns text[] := '{}';
BEGIN
	FOR n IN 1 .. coalesce(cardinality(peers), 0) LOOP
		conns[n] := CASE WHEN n = 2 AND peers[2] = peers[1] THEN conns[1]
			ELSE peer_conn(peers[n], lent) END;
	END LOOP;
	RETURN conns;
END
$$;

-- Begins an attempt of a driver: with counters at 0, and a connection to each side that is not
-- here.
-- Messages call nodes by these names.  Of two sides they call a foreign server, or a connection of
-- the caller's, by its name, and a peer of a connection string by its side.
-- "borrow" is false for a driver whose first question asks whether a connection that the caller
-- opened is in a transaction (ask_sql).  "again" leaves connections that are open as they are.
CREATE FUNCTION connect(peers text[], conns text[], timeout interval DEFAULT NULL,
	borrow boolean DEFAULT true, names text[] DEFAULT NULL, again boolean DEFAULT false)
RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	traffic record := iblt_traffic_take();
BEGIN
	IF names IS NULL AND conns[1] IS NOT NULL THEN
		names := '{here,there}';
		FOR n IN 1 .. 2 LOOP
			IF conns[n] = peers[n] OR NOT iblt_peer_is_string(peers[n]) THEN
				names[n] := peers[n];
			END IF;
		END LOOP;
	END IF;
	IF names IS NOT NULL THEN
		PERFORM nodes_title(names, conns);
	END IF;
	FOR n IN 1 .. cardinality(conns) LOOP
		CONTINUE WHEN conns[n] IS NULL OR n = 2 AND conns[2] = conns[1]
			OR (again OR conns[n] = peers[n] AND NOT borrow) AND iblt_peer_is_open(conns[n]);
		conns[n] := peer_connect(peers[n], conns[n], timeout);
	END LOOP;
	RETURN conns;
END
$$;

-- Closes the connections of all sides, as peer_close does.  Where no sketch was kept, those that
-- the caller opened stay as they are, which saves a message.
CREATE FUNCTION peers_close(conns text[], kept boolean DEFAULT true) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	FOR n IN 1 .. coalesce(cardinality(conns), 0) LOOP
		IF (kept OR peer_is_lent(conns[n]) IS NOT TRUE)
				AND (conns[n] = ANY (conns[: n - 1])) IS NOT TRUE THEN
			PERFORM peer_close(conns[n]);
		END IF;
	END LOOP;
END
$$;

-- Closes connections after an error, and gives what iblt_raise is to raise for the driver:
-- nothing if the driver is to raise the error again as it is, with its context.
CREATE FUNCTION peers_fail(conns text[], secret boolean, e failure) RETURNS failure
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM peers_close(conns);
	e.secret := coalesce(secret, false);
	IF e.state IN ('IB002', 'IB003') THEN
		e.datatype_name := NULL;		-- see told_too_many
	END IF;
	IF NOT (e.secret OR failure_is_own(e)) THEN
		RETURN NULL;
	END IF;
	RETURN e;
END
$$;

-- From now on, messages call connections by the names of their nodes.
CREATE FUNCTION nodes_title(names text[], conns text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM peers_know('titles', (SELECT coalesce(jsonb_object_agg(conn, name), '{}')
		FROM unnest(conns, names) AS u(conn, name) WHERE conn IS NOT NULL));
END
$$;

-- The error for a connection of the caller's that is in a transaction.
CREATE FUNCTION refuse_transaction(conn text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction',
		MESSAGE = format('the connection to %s is in a transaction', peer_title(conn)),
		HINT = 'COMMIT there, or open a connection for iblt_compare alone.';
END
$$;
