-- Comparing the structures of two sides ---------------------------------------------------

-- May a sequence that has a next value here be behind the peer's, of which a standby says that the
-- next value is b or up to 32 steps before?
CREATE FUNCTION structure_unsure(a jsonb, b jsonb, theirs jsonb) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN coalesce(theirs @> '{"logged ahead": true}' AND jsonb_typeof(a) = 'number'
		AND jsonb_typeof(b) = 'number' AND (b::numeric - a::numeric)
			/ (theirs ->> 'increment')::numeric BETWEEN 0 AND 32, false);

-- How much it matters that a property is a here and b on the peer, where the absence of the
-- object would be "absence".
CREATE FUNCTION structure_severity(property text, a jsonb, b jsonb, absence text, falling boolean,
	cycle boolean, theirs jsonb DEFAULT NULL) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN 'object' IN (jsonb_typeof(a), jsonb_typeof(b)) THEN 'unknown'
		WHEN property = 'next value' AND cycle IS NOT TRUE AND structure_unsure(a, b, theirs)
			THEN 'unknown'
		WHEN property = 'next value' AND (cycle OR falling AND a < b OR NOT falling AND a > b)
			THEN 'change'
		WHEN property = ANY ('{owner,tablespace,access method,storage,compression,statistics,'
				'options,inherited,clustered,cost,rows,support,parallel,cache,start}'::text[])
			OR starts_with(property, 'rights of ') THEN 'change'
		WHEN property = 'view options' THEN 'danger'
		ELSE absence END;

-- Are two expressions the same, but for what a dump and a restore change? Or two texts of one
-- query of a view, one as PostgreSQL prints it up to 15?
-- From 16 on, columns of the only relation of a query have no qualifier.  Those of subqueries
-- have one in all releases, so a text without one qualifier, which names a relation of it, can be
-- read in one way only.
CREATE FUNCTION structure_same(a text, b text, qualified boolean) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN x.a = x.b THEN true ELSE qualified AND EXISTS (
		SELECT FROM regexp_matches(x.a || x.b, '(?<![\w$".])(\w+|"(?:[^"]|"")+")\.', 'g') AS m
		WHERE x.a ~ ('(^|[ .])' || structure_literal(m[1]) || '( |$)')
			AND structure_renamed(x.a, m[1], '') = structure_renamed(x.b, m[1], '')) END
	FROM (SELECT structure_restored(a), structure_restored(b)) AS x(a, b)
$$;

-- What a list has and another one has not, as text; NULL if there is nothing.
CREATE FUNCTION structure_without(list jsonb, other jsonb) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT to_jsonb(string_agg(item, ', ' ORDER BY n))
		FROM jsonb_array_elements_text(list) WITH ORDINALITY AS l(item, n)
		WHERE other ? item IS NOT TRUE);

-- A property as users see it.  Of what may have a password they see that it differs.
CREATE FUNCTION structure_said(property text, value jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE WHEN jsonb_typeof(value) = 'object' THEN 'unknown: ' || (value ->> 'unknown')
		WHEN jsonb_typeof(value) = 'array' THEN (
			SELECT string_agg(quote_ident(name), ', ' ORDER BY n)
			FROM jsonb_array_elements_text(value) WITH ORDINALITY AS u(name, n))
		WHEN starts_with(property, 'setting ') AND property ~* 'passw|pwd|secret|token|api_?key'
				OR value #>> '{}' ~* 'passw|pwd|secret|token|://[^ ]*@'
			THEN CASE WHEN value IS NOT NULL THEN 'not shown' END
		ELSE value #>> '{}' END;

-- The differences of two structures.
-- Where one side lacks a relation or a publication, its parts are not named.
CREATE FUNCTION structure_differences(s structure)
RETURNS TABLE (kind text, object text, property text, here text, there text, severity text)
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	WITH h AS MATERIALIZED (SELECT *, structure_unquoted(object) AS name FROM unnest(s.here)),
		t AS MATERIALIZED (SELECT *, structure_unquoted(object) AS name FROM unnest(s.there)),
		-- the names by which parts of the objects call them
		mine AS MATERIALIZED (SELECT CASE kind WHEN 'publication' THEN 'publication ' ELSE '' END
			|| name FROM h),
		theirs AS MATERIALIZED (SELECT CASE kind WHEN 'publication' THEN 'publication ' ELSE '' END
			|| name FROM t),
	pair AS (
		SELECT kind, coalesce(h.object, t.object) AS object, h.facts AS mine, t.facts AS theirs,
			CASE WHEN 'danger' IN (h.severity, t.severity) THEN 'danger' ELSE 'change' END
				AS absence, coalesce(h.facts, t.facts) AS facts
		FROM h FULL JOIN t USING (kind, name)
		WHERE (t.facts IS NOT NULL OR h.parent IS NULL
			OR structure_unquoted(h.parent) IN (TABLE theirs))
		AND (h.facts IS NOT NULL OR t.parent IS NULL
			OR structure_unquoted(t.parent) IN (TABLE mine))
	)
	SELECT p.kind, p.object, x.property,
		CASE WHEN p.mine ? w.text AND p.theirs ? w.text AND jsonb_typeof(y.b) <> 'object'
			THEN p.mine ->> w.text ELSE structure_said(x.property, y.a) END,
		CASE WHEN p.mine ? w.text AND p.theirs ? w.text AND jsonb_typeof(y.b) <> 'object'
			THEN p.theirs ->> w.text ELSE structure_said(x.property, y.b) END
			|| CASE WHEN x.property = 'next value' AND structure_unsure(y.a, y.b, p.theirs)
			THEN ', or up to 32 steps before, as a standby says' ELSE '' END,
		structure_severity(x.property, y.a, y.b,
			-- a view that is there may show other rows, and nobody notices
			CASE WHEN p.kind ~ 'view$' AND x.property IN ('definition', 'not populated')
				THEN 'danger' ELSE p.absence END,
			(p.facts ->> 'increment')::numeric < 0,
			'true' IN (p.mine ->> 'cycle', p.theirs ->> 'cycle'), p.theirs)
	FROM pair AS p,
	LATERAL jsonb_object_keys(coalesce(p.mine, '{}') || coalesce(p.theirs, '{}')) AS x(property),
	LATERAL (SELECT x.property || ' text') AS w(text),
	LATERAL (SELECT nullif(p.mine -> x.property, 'false'), nullif(p.theirs -> x.property, 'false'))
		AS v(m, t),
	LATERAL (SELECT v.m, v.t WHERE x.property !~ '^(column order$|rights of )'
		UNION ALL
		-- the rights that the other side lacks
		SELECT structure_without(v.m, v.t), structure_without(v.t, v.m)
		WHERE starts_with(x.property, 'rights of ')
		UNION ALL
		-- of the columns that both have
		SELECT v.m - ARRAY(SELECT jsonb_array_elements_text(v.m - ARRAY(
				SELECT jsonb_array_elements_text(v.t)))),
			v.t - ARRAY(SELECT jsonb_array_elements_text(v.t - ARRAY(
				SELECT jsonb_array_elements_text(v.m))))
		WHERE x.property = 'column order') AS y(a, b)
	WHERE x.property NOT IN ('reached', 'numbers', 'tools', 'logged', 'logged ahead',
		'naming', 'rights', 'source text')
	AND NOT (x.property = 'next value' AND coalesce(s.one_system AND p.mine -> 'logged'
		= p.theirs -> 'logged' AND 'true' IN (p.mine ->> 'logged ahead',
			p.theirs ->> 'logged ahead'), false))
	AND NOT (x.property = 'exists' AND p.facts @> '{"tools": true}')
	AND (x.property = 'behind its column' OR 'object' IN (jsonb_typeof(y.a), jsonb_typeof(y.b))
		OR y.a IS DISTINCT FROM y.b
		AND (x.property = 'exists' OR p.mine IS NOT NULL AND p.theirs IS NOT NULL)
		AND NOT (x.property = ANY ('{definition,default,generated,where,columns,using,check,body,'
				'inherits,owned by}') AND structure_same(y.a #>> '{}', y.b #>> '{}',
				p.kind IN ('view', 'materialized view')
				AND (s.version_here < 160000) <> (s.version_there < 160000))))
$$;

-- The answer of this side, under the path that the peer's answer has.
CREATE FUNCTION structure_here(query text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE query INTO answer;
	RETURN answer;
END
$$;

-- The structures of both sides, over connections of those names, which are asked by plain queries
-- from now on; an error if both are one, or if no side has the schema.
CREATE FUNCTION structure_of(conns text[], peers text[], schema text, peer_schema text,
	rights boolean, chosen text[] DEFAULT NULL) RETURNS structure
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	other text;				-- the name of the schema there, if it is another one
	query text;
	answers jsonb[];
BEGIN
	schema := nullif(schema, '*');
	other := nullif(peer_schema, schema);
	IF peers[2] IS NULL THEN
		RAISE null_value_not_allowed USING MESSAGE = 'peer must not be null';
	ELSIF schema IS NULL AND peer_schema IS NOT NULL THEN
		RAISE invalid_parameter_value USING MESSAGE = 'peer_schema can only be given with schema';
	END IF;
	conns := connect(peers, conns);
	query := structure_sql(schema, rights, chosen);
	PERFORM peers_bare(conns);
	answers := ask_values(conns, ARRAY[CASE WHEN conns[1] IS NULL
			THEN format('SELECT iblt_internal.structure_here(%L)', query) ELSE query END,
		structure_sql(coalesce(peer_schema, schema), rights, chosen)],
		'iblt_audit_structure')::jsonb[];
	IF answers[1] -> 'identity' = answers[2] -> 'identity' AND other IS NULL THEN
		PERFORM refuse_one_database(conns[1]);
	ELSIF schema IS NOT NULL AND '{"schemas": 0}' <@ ALL (answers) THEN
		RAISE invalid_schema_name USING
			MESSAGE = format('schema "%s" exists neither here nor on the peer', schema);
	END IF;
	RETURN ROW(structure_objects(answers[1], NULL, NULL), structure_objects(answers[2],
			quote_ident(other), quote_ident(schema)), (answers[1] -> 'version')::integer,
		(answers[2] -> 'version')::integer, answers[1] ->> 'system' = answers[2] ->> 'system');
END
$$;

CREATE FUNCTION @extschema@.iblt_audit_structure(
	peer text,
	@iblt_audit: schema peer_schema@
	rights boolean DEFAULT false,
	here_peer text DEFAULT NULL)
RETURNS TABLE (kind text, object text, property text, here text, there text, severity text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@driver conns; peers_secret(peers)@
AS $$
DECLARE
	peers text[] := ARRAY[here_peer, peer];
	conns text[] := peer_conns(peers);
	answer structure;
BEGIN
	answer := structure_of(conns, peers, schema, peer_schema, rights);
	PERFORM peers_close(conns);
	RETURN QUERY SELECT d.* FROM structure_differences(answer) AS d
		ORDER BY array_position(structure_severities(), d.severity), d.kind COLLATE "C",
			d.object COLLATE "C", d.property COLLATE "C";
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_structure IS
'compares what two databases consist of, apart from rows: one row a property that differs';
