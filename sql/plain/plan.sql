-- The plan of a plain comparison -------------------------------------------------------

-- The method for two sides, or for nodes of these names, sketch or plain, and with auto a notice of
-- the latter; from now on, peers are asked as it says.
-- A peer without iblt makes all sides be compared by plain queries.  If both sides are elsewhere,
-- one that has iblt is asked by its functions all the same: it checks conditions and repairs.
CREATE FUNCTION plain_method(conns text[], method text, names text[] DEFAULT NULL) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	bare text[] := conns;
	answers boolean[];
BEGIN
	IF method = 'auto' OR method = 'plain' AND names IS NULL AND conns[1] IS NOT NULL THEN
		PERFORM peers_bare(bare);
		answers := ask_values(bare, array_fill(text 'SELECT NOT EXISTS (SELECT FROM pg_extension'
			' WHERE extname = ''iblt'')', ARRAY[cardinality(bare)]))::boolean[];
		bare := ARRAY(SELECT CASE WHEN u.is_bare THEN u.conn END
			FROM unnest(bare, answers) WITH ORDINALITY AS u(conn, is_bare, n) ORDER BY u.n);
	END IF;
	IF method = 'auto' AND num_nonnulls(VARIADIC bare) = 0 THEN
		method := 'sketch';
	ELSIF method = 'auto' THEN
		PERFORM iblt_tell('notice', CASE WHEN names IS NULL
			THEN format('%s has no extension iblt, and is compared by plain queries',
				peer_title(coalesce(bare[1], bare[2])))
			ELSE format('nodes %s have no extension iblt, so all are compared by plain queries',
				quoted(ARRAY(SELECT u.name FROM unnest(bare, names) WITH ORDINALITY
					AS u(conn, name, n) WHERE u.conn IS NOT NULL ORDER BY u.n))) END);
		method := 'plain';
		bare := CASE WHEN names IS NULL THEN bare ELSE conns END;
	END IF;
	PERFORM peers_bare(CASE method WHEN 'plain' THEN bare ELSE '{}' END);
	RETURN method;
END
$$;

-- An error if there is a problem.
CREATE FUNCTION plain_check(problem text,
	hint text DEFAULT 'Install iblt on the peer, and use method => ''sketch''.') RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF problem IS NOT NULL THEN
		RAISE feature_not_supported USING
			MESSAGE = 'cannot compare by plain queries: ' || problem, HINT = hint;
	END IF;
END
$$;

-- Into how many buckets the rows are put, of which there are about so many.
-- Sums of more buckets are more to send, and of fewer buckets more rows.
CREATE FUNCTION plain_buckets(row_number bigint) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN greatest(16, least(row_number / 80, 65536), least(row_number / 1500, 131072))::integer;
