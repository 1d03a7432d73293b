-- Describing both sides ------------------------------------------------------------
--
-- hello() runs on the server that has the relation.  Here its answer becomes a row of type
-- side.

-- An error if a side read another relation than it described, as the fingerprint tells.
CREATE FUNCTION require_side_described(s side, fingerprint text) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN CASE WHEN fingerprint IS DISTINCT FROM s.fingerprint
		THEN refuse_altered(s.relation, s.side) END;

-- The relations of these names, or OIDs, as their places describe them, as sides of these names,
-- and what plain queries were told of each; an error if a server does not speak this protocol.
-- A relation that is not there is NULL, in this database an error, except by plain queries.
-- A small fold of the digest here goes to other servers as a parameter, because it has keys.
-- Relies on: what describe relies on.
CREATE FUNCTION describe_sides(places text[], relations text[], conditions text[],
	mappings jsonb[], label text, plain boolean, names text[] DEFAULT '{here,there}',
	live boolean DEFAULT false, small text DEFAULT NULL, subtable_cells integer DEFAULT NULL,
	OUT sides side[], OUT told jsonb[])
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	queries text[];
	plain_sql text := CASE WHEN plain THEN plain_relations_sql() END;
	answers text[];
	answer jsonb;
BEGIN
	FOR n IN 1 .. cardinality(places) LOOP
		IF plain THEN
			queries[n] := format('SELECT coalesce((%s WHERE c.oid = to_regclass(%L))::text,'
				' ''null'')', plain_sql, relations[n]);
			CONTINUE;
		END IF;
		queries[n] := format('SELECT iblt_internal.hello(%s, %s, %L, %L, %L%s)::text', protocol(),
			format(CASE WHEN places[n] IS NULL THEN '%L::regclass'
				ELSE 'pg_catalog.to_regclass(%L)' END, relations[n]), conditions[n],
			live AND (small IS NULL OR places[n] IS NOT NULL), mappings[n],
			CASE WHEN num_nonnulls(small, places[n]) = 2
				THEN format(', $1[1], %s', subtable_cells) END);
	END LOOP;
	BEGIN
		answers := ask_values(places, queries, label, CASE WHEN small IS NOT NULL
			THEN ROW('read_planned', ARRAY[small], NULL, NULL, NULL)::reading END);
	EXCEPTION WHEN invalid_schema_name THEN
		FOR n IN 1 .. cardinality(places) LOOP
			-- not a schema that a condition names
			IF starts_with(SQLERRM, format('on %s: ', peer_title(places[n])))
					AND SQLERRM ~ '[^ ]iblt_internal[^ ]' THEN
				RAISE object_not_in_prerequisite_state USING
					MESSAGE = format('extension iblt is not installed in %s''s database',
						peer_title(places[n])),
					HINT = 'Run CREATE EXTENSION iblt there, or use method => ''auto''.';
			END IF;
		END LOOP;
		RAISE;
	END;
	FOR n IN 1 .. cardinality(places) LOOP
		answer := answers[n];
		IF plain THEN
			answer := nullif(answer, 'null');
			told[n] := answer;
			-- a side with iblt describes itself
			IF answer IS NOT NULL AND NOT peer_is_bare(places[n]) THEN
				answer := ask_call(places[n], format('describe(pg_catalog.to_regclass(%L), %L, %L)',
					relations[n], conditions[n], mappings[n]));
			END IF;
			answer := jsonb_build_object('protocol', protocol(), 'side', answer
				|| jsonb_build_object('condition', conditions[n], 'bare', peer_is_bare(places[n])));
		END IF;
		IF (answer ->> 'protocol')::integer <> protocol() THEN
			RAISE object_not_in_prerequisite_state USING
				MESSAGE = format('iblt %s here and iblt %s on %s cannot talk to each other',
					(SELECT extversion FROM pg_extension WHERE extname = 'iblt'),
					answer ->> 'version', peer_title(places[n])),
				DETAIL = format('This side has protocol %s, %s has protocol %s.', protocol(),
					peer_title(places[n]), answer ->> 'protocol'),
				HINT = 'Install the newer version on the other server as well, and run '
					'ALTER EXTENSION iblt UPDATE there.';
		END IF;
		sides[n] := described(nullif(answer -> 'side', 'null'), names[n], places[n]);
	END LOOP;
END
$$;
