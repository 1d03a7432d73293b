-- Describing both sides ------------------------------------------------------------
--
-- describe() runs on the server that has the relation.  Here its answer becomes a row of
-- type side.

-- The error for a relation that is not what was described.
CREATE FUNCTION refuse_altered(relation text, side text, detail text DEFAULT '') RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'IB004', DETAIL = detail,
		MESSAGE = format('relation %s was altered while it was compared (%s)', relation, side),
		HINT = CASE WHEN current_setting('transaction_isolation') ~ '^read'
			THEN 'Compare when no other session alters, renames or drops it.'
			ELSE 'Begin another transaction. The snapshot of this one is older than the '
				'columns of the relation.' END;
END
$$;

-- An error unless both sides read what was described, as two fingerprints tell.
CREATE FUNCTION require_described(plan plan, here text, there text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF here IS DISTINCT FROM (plan.here).fingerprint THEN
		PERFORM refuse_altered((plan.here).relation, 'here');
	ELSIF there IS DISTINCT FROM (plan.there).fingerprint THEN
		PERFORM refuse_altered((plan.there).relation, 'there');
	END IF;
END
$$;

-- The answer of describe() as a row; NULL for NULL.
CREATE FUNCTION described(described jsonb, side text) RETURNS side
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN jsonb_populate_record(NULL::side,
		described || jsonb_build_object('side', side));
END
$$;

-- The error for a peer without iblt, or with another protocol.
CREATE FUNCTION refuse_protocol(protocol integer, version text) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	mine text := (SELECT extversion FROM pg_extension WHERE extname = 'iblt');
BEGIN
	IF version IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'extension iblt is not installed in the peer''s database',
			HINT = 'Run CREATE EXTENSION iblt there.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
		MESSAGE = format('iblt %s here and iblt %s on the peer cannot talk to each other',
			mine, version),
		DETAIL = format('This side has protocol %s, the peer has %s.', protocol(),
			coalesce('protocol ' || protocol, 'none')),
		HINT = 'Install the newer version on the other server as well, and run '
			'ALTER EXTENSION iblt UPDATE there.';
END
$$;

-- What hello() says on the peer, and describe_live if that is asked for.
CREATE FUNCTION hello_there(conn text, label text, relation text, condition text,
	live boolean) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answer record;
	found json;
BEGIN
	PERFORM peer_send(conn, format('SELECT hello(%s, %L, %L)',
			protocol(), relation, condition)
		|| CASE WHEN live THEN format(' || describe_live(%L)', relation)
			ELSE '' END, true, label);
	answer := peer_try(conn, 0.001);
	-- no such schema or function: of iblt, or of the condition
	IF (answer.problem).state IN ('3F000', '42883') THEN
		PERFORM peer_send(conn, 'SELECT pg_catalog.json_build_array(
			(SELECT extversion FROM pg_catalog.pg_extension
				WHERE extname OPERATOR(pg_catalog.=) ''iblt''),
			pg_catalog.to_regprocedure(''iblt_internal.hello(integer, text, text)'') IS NOT NULL)',
			false);
		found := peer_value(conn, 0.001, 0);
		IF NOT (found ->> 1)::boolean OR found ->> 0 IS NULL THEN
			PERFORM refuse_protocol(NULL, found ->> 0);
		END IF;
	END IF;
	IF (answer.problem).state IS NOT NULL THEN
		PERFORM peer_refuse(answer.problem);
	END IF;
	RETURN answer.value;
END
$$;

-- The error for a relation that the peer does not have.
CREATE FUNCTION refuse_no_relation(relation text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'undefined_table',
		MESSAGE = format('relation %s does not exist on the peer', relation),
		HINT = 'If it has another name there, give that as peer_relation, with its schema.';
END
$$;

-- The peer's relation; an error if there is none, or if the two servers do not speak one
-- protocol.
CREATE FUNCTION describe_there(conn text, label text, relation text, condition text,
	live boolean DEFAULT false) RETURNS side
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answer jsonb := hello_there(conn, label, relation, condition, live);
BEGIN
	IF (answer ->> 'protocol')::integer <> protocol() THEN
		PERFORM refuse_protocol((answer ->> 'protocol')::integer,
			answer ->> 'version');
	ELSIF answer -> 'side' = 'null' THEN
		PERFORM refuse_no_relation(relation);
	END IF;
	RETURN described((answer -> 'side')
		|| jsonb_build_object('live', answer -> 'live'), 'there');
END
$$;
