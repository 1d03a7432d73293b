-- Describing both sides ------------------------------------------------------------
--
-- describe() runs on the server that has the relation.  Here its answer becomes a row of
-- type side.

-- The error for a relation that is not what was described.
CREATE FUNCTION iblt_internal.refuse_altered(relation text, side text, detail text DEFAULT '')
RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'IB004', DETAIL = detail,
		MESSAGE = format('relation %s was altered while it was compared (%s)', relation, side),
		HINT = CASE WHEN current_setting('transaction_isolation') ~ '^read'
			THEN 'Compare when no other session alters, renames or drops it.'
			ELSE 'Begin another transaction. This one sees the columns of its snapshot, '
				'and reads those that the relation has now.' END;
END
$$;

-- An error unless both sides read what was described, as two fingerprints tell.
CREATE FUNCTION iblt_internal.require_described(plan iblt_internal.plan, here text, there text)
RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF here IS DISTINCT FROM (plan.here).fingerprint THEN
		PERFORM iblt_internal.refuse_altered((plan.here).relation, 'here');
	ELSIF there IS DISTINCT FROM (plan.there).fingerprint THEN
		PERFORM iblt_internal.refuse_altered((plan.there).relation, 'there');
	END IF;
END
$$;

-- The answer of describe() as a row; NULL for NULL.
CREATE FUNCTION iblt_internal.described(described jsonb, side text) RETURNS iblt_internal.side
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN jsonb_populate_record(NULL::iblt_internal.side,
		described || jsonb_build_object('side', side));
END
$$;

-- The error for a peer without iblt, or with another protocol.
CREATE FUNCTION iblt_internal.refuse_protocol(protocol integer, version text) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mine text := (SELECT extversion FROM pg_extension WHERE extname = 'iblt');
BEGIN
	IF version IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'extension iblt is not installed in the peer''s database',
			HINT = 'CREATE EXTENSION iblt there as well.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
		MESSAGE = format('iblt %s here and iblt %s on the peer cannot talk to each other',
			mine, version),
		DETAIL = format('This side has protocol %s, the peer has %s.', iblt_internal.protocol(),
			coalesce('protocol ' || protocol, 'none')),
		HINT = 'Install the newer version on the other server as well, and run '
			'ALTER EXTENSION iblt UPDATE there.';
END
$$;

-- What hello() says on the peer, and describe_live if that is asked for.
CREATE FUNCTION iblt_internal.hello_there(conn text, label text, relation text, condition text,
	live boolean) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer record;
	found json;
BEGIN
	PERFORM iblt_internal.peer_send(conn, format('SELECT iblt_internal.hello(%s, %L, %L)',
			iblt_internal.protocol(), relation, condition)
		|| CASE WHEN live THEN format(' || iblt_internal.describe_live(%L)', relation)
			ELSE '' END, true, label);
	answer := iblt_internal.peer_try(conn, 0.001);
	-- no such schema or function: of iblt, or of the condition
	IF (answer.problem).state IN ('3F000', '42883') THEN
		PERFORM iblt_internal.peer_send(conn, 'SELECT pg_catalog.json_build_array(
			(SELECT extversion FROM pg_catalog.pg_extension
				WHERE extname OPERATOR(pg_catalog.=) ''iblt''),
			pg_catalog.to_regprocedure(''iblt_internal.hello(integer, text, text)'') IS NOT NULL)',
			false);
		found := iblt_internal.peer_value(conn, 0.001, 0);
		IF NOT (found ->> 1)::boolean OR found ->> 0 IS NULL THEN
			PERFORM iblt_internal.refuse_protocol(NULL, found ->> 0);
		END IF;
	END IF;
	IF (answer.problem).state IS NOT NULL THEN
		PERFORM iblt_internal.peer_refuse(answer.problem);
	END IF;
	RETURN answer.value;
END
$$;

-- The error for a relation that the peer does not have.
CREATE FUNCTION iblt_internal.refuse_no_relation(relation text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'undefined_table',
		MESSAGE = format('relation %s does not exist on the peer', relation),
		HINT = 'If it has another name there, give that as peer_relation, with its schema.';
END
$$;

-- The peer's relation; an error if there is none, or if the two servers do not speak one
-- protocol.
CREATE FUNCTION iblt_internal.describe_there(conn text, label text, relation text, condition text,
	live boolean DEFAULT false) RETURNS iblt_internal.side
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer jsonb := iblt_internal.hello_there(conn, label, relation, condition, live);
BEGIN
	IF (answer ->> 'protocol')::integer <> iblt_internal.protocol() THEN
		PERFORM iblt_internal.refuse_protocol((answer ->> 'protocol')::integer,
			answer ->> 'version');
	ELSIF answer -> 'side' = 'null' THEN
		PERFORM iblt_internal.refuse_no_relation(relation);
	END IF;
	RETURN iblt_internal.described((answer -> 'side')
		|| jsonb_build_object('live', answer -> 'live'), 'there');
END
$$;
