-- What a side has --------------------------------------------------------------------
--
-- An audit asks these functions of both sides.  They answer jsonb, which reads the same
-- on all servers.

-- What places publish in publications.
CREATE FUNCTION audit_ask_published(places text[], publications text[]) RETURNS published[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	call text := format('audit_published(%L::pg_catalog.text[])', publications);
BEGIN
	RETURN ARRAY(SELECT jsonb_populate_record(NULL::published, answer::jsonb)
		FROM unnest(ask_calls(places, VARIADIC array_fill(call, ARRAY[cardinality(places)])))
			WITH ORDINALITY AS u(answer, n) ORDER BY n);
END
$$;

-- What calls of functions answer of the table of each item, c, at a place, each time as an array of
-- jsonb; without calls, its OID.
CREATE FUNCTION audit_ask_each(place text, items audit_item[], calls text[] DEFAULT '{}')
RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	asked text := CASE WHEN calls = '{}' THEN 'c.oid' ELSE format('jsonb_build_array(%s)',
		(SELECT string_agg(format('(%s)', CASE WHEN peer_is_bare(place) THEN plain_call(call)
			ELSE 'SELECT iblt_internal.' || call END), ', ' ORDER BY n)
		FROM unnest(calls) WITH ORDINALITY AS u(call, n))) END;
BEGIN
	RETURN ask_one(place, format('SELECT ARRAY(SELECT %s'
			' FROM unnest(%L::text[], %L::text[]) WITH ORDINALITY AS u(schema, name, n)'
			' LEFT JOIN pg_namespace AS s ON s.nspname = u.schema'
			' LEFT JOIN pg_class AS c ON c.relnamespace = s.oid AND c.relname = u.name'
			' ORDER BY u.n)::text', asked,
		ARRAY(SELECT i.schema FROM unnest(items) WITH ORDINALITY AS i ORDER BY i.ordinality),
		ARRAY(SELECT i.name FROM unnest(items) WITH ORDINALITY AS i ORDER BY i.ordinality)));
END
$$;
