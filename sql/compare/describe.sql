-- Describing both sides ------------------------------------------------------------
--
-- hello() runs on the server that has the relation.  Here its answer becomes a row of type
-- side.

-- An error if a side read another relation than it described, as the fingerprint tells.
CREATE FUNCTION require_side_described(s side, fingerprint text) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN (SELECT CASE WHEN fingerprint IS DISTINCT FROM s.fingerprint
		THEN refuse_altered(s.relation, s.side) END);

-- The error for a place without iblt, or with another protocol.
CREATE FUNCTION refuse_protocol(place text, protocol integer, version text) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	mine text := (SELECT extversion FROM pg_extension WHERE extname = 'iblt');
BEGIN
	IF version IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('extension iblt is not installed in %s''s database',
				peer_title(place)),
			HINT = 'Run CREATE EXTENSION iblt there.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
		MESSAGE = format('iblt %s here and iblt %s on %s cannot talk to each other',
			mine, version, peer_title(place)),
		DETAIL = format('This side has protocol %s, %s has %s.', protocol(),
			peer_title(place), coalesce('protocol ' || protocol, 'none')),
		HINT = 'Install the newer version on the other server as well, and run '
			'ALTER EXTENSION iblt UPDATE there.';
END
$$;

-- The relations of these names, or OIDs, as their places describe them; an error if a server
-- does not speak this protocol.  A relation that is not there is NULL, in this database an
-- error.  A small fold of the digest here goes to other servers, as a parameter, for it has keys
-- in it.
CREATE FUNCTION describe_sides(places text[], relations text[], conditions text[], live boolean,
	label text, small text DEFAULT NULL, subtable_cells integer DEFAULT NULL,
	mappings jsonb[] DEFAULT '{}') RETURNS side[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	place text;
	queries text[];
	answers text[];
	answer jsonb;
	result side[];
BEGIN
	FOR n IN 1 .. cardinality(places) LOOP
		queries[n] := format(CASE WHEN small IS NULL OR places[n] IS NULL
				THEN 'SELECT iblt_internal.hello(%s, %s, %L, %L, %6$L)'
				ELSE 'SELECT jsonb_set(hello_live(%s, %s, %L, $1[1], %5$s), '
					'''{side,live,ms}'', to_jsonb(ms(statement_timestamp())))::text' END,
			protocol(), format(CASE WHEN places[n] IS NULL THEN '%L::regclass'
				ELSE 'pg_catalog.to_regclass(%L)' END, relations[n]), conditions[n], live,
			subtable_cells, mappings[n]);
	END LOOP;
	BEGIN
		answers := ask_values(places, queries, label, CASE WHEN small IS NOT NULL
			THEN ROW('read_planned', ARRAY[small], NULL, NULL, NULL)::reading END);
	EXCEPTION WHEN invalid_schema_name OR undefined_function THEN
		-- of iblt, or of the condition
		IF SQLERRM LIKE 'on %: %' THEN
			PERFORM ask_discard(places);
			FOREACH place IN ARRAY array_remove(places, NULL) LOOP
				PERFORM peer_send(place, 'SELECT pg_catalog.json_build_array('
					'(SELECT extversion FROM pg_catalog.pg_extension'
					' WHERE extname OPERATOR(pg_catalog.=) ''iblt''),'
					' pg_catalog.to_regprocedure(''iblt_internal'
					'.hello(integer, regclass, text, boolean, jsonb)'') IS NOT NULL)');
				answer := peer_value(place, 0);
				IF NOT (answer ->> 1)::boolean OR answer ->> 0 IS NULL THEN
					PERFORM refuse_protocol(place, NULL, answer ->> 0);
				END IF;
			END LOOP;
		END IF;
		RAISE;
	END;
	FOR n IN 1 .. cardinality(places) LOOP
		answer := answers[n];
		IF (answer ->> 'protocol')::integer <> protocol() THEN
			PERFORM refuse_protocol(places[n], (answer ->> 'protocol')::integer,
				answer ->> 'version');
		END IF;
		result[n] := described(nullif(answer -> 'side', 'null'),
			CASE n WHEN 1 THEN 'here' ELSE 'there' END, places[n]);
	END LOOP;
	RETURN result;
END
$$;
