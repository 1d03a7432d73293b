-- Audits of structures -------------------------------------------------------------------
--
-- iblt_audit_structure puts one statement (kinds.sql) to both sides, and joins the objects
-- here.  The statement has built-in functions only, under settings that pin the text of
-- names and expressions.  So the peer needs nothing, and is asked once.

-- What a side has.
CREATE TYPE structure_object AS (
	kind text,
	object text,			-- unique in its kind
	parent text,			-- the relation, or "publication" and which, that it is a part of
	severity text,			-- of its absence, and of most properties
	facts jsonb				-- property: value
);

-- The answers of both sides.
CREATE TYPE structure AS (
	here structure_object[],
	there structure_object[],
	version_here integer,
	version_there integer,
	one_system boolean		-- is one a standby of the other, or of the same server?
);

-- The severities of a difference in structure, the worst one first.
CREATE FUNCTION structure_severities() RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN '{danger,unknown,change}'::text[];

-- The statement that tells what a side has in a schema, or in all of them, of some kinds or
-- of all, perhaps with owners and grants.
-- Not every owner of a table has MAINTAIN, because there is none before PostgreSQL 17.
CREATE FUNCTION structure_sql(schema text, rights boolean, chosen text[]) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT format($q$
		WITH members AS MATERIALIZED (
			SELECT d.classid, d.objid FROM pg_depend d WHERE d.deptype = 'e'
		), spaces AS MATERIALIZED (
			SELECT n.oid, quote_ident(n.nspname) AS name, n.nspowner, n.nspacl FROM pg_namespace n
			WHERE CASE WHEN %1$L IS NULL THEN n.nspname !~ '^(pg_|information_schema$)'
				ELSE n.nspname = %1$L END
		), tools AS MATERIALIZED (
			SELECT e.oid, e.extnamespace FROM pg_extension e
			WHERE e.extname IN ('iblt', 'iblt_live', 'iblt_audit', 'dblink')
		), relations AS MATERIALIZED (
			SELECT c.*, s.name || '.' || quote_ident(c.relname) AS object
			FROM pg_class c JOIN spaces s ON s.oid = c.relnamespace
			WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm', 'c', 'S')
			AND ('pg_class'::regclass, c.oid) NOT IN (TABLE members)
			AND ('pg_type'::regclass, c.reltype) NOT IN (TABLE members)
		), types AS MATERIALIZED (
			SELECT t.*, s.name || '.' || quote_ident(t.typname) AS object
			FROM pg_type t JOIN spaces s ON s.oid = t.typnamespace
			WHERE ('pg_type'::regclass, t.oid) NOT IN (TABLE members)
		), objects (kind, object, parent, severity, facts) AS (%2$s)
		SELECT jsonb_build_object('version', current_setting('server_version_num')::integer,
			'identity', concat_ws(' ', pg_postmaster_start_time(),
				(SELECT oid FROM pg_database WHERE datname = current_database())),
			'system', CASE WHEN has_function_privilege('pg_control_system()', 'execute') THEN
				query_to_xml('SELECT system_identifier, (SELECT oid FROM pg_database'
					' WHERE datname = current_database()) FROM pg_control_system()',
					false, false, '')::text END,
			'schemas', (SELECT count(*) FROM spaces),
			'objects', (SELECT coalesce(jsonb_agg(jsonb_build_object('kind', kind,
					'object', object, 'parent', parent, 'severity', severity,
					'facts', jsonb_strip_nulls(facts))), '[]') FROM objects))::text$q$,
		schema, string_agg(replace(replace(CASE WHEN rights THEN
				regexp_replace(regexp_replace(regexp_replace(k.query,
				'\{owned (\S+) (\S+) (\w)\}', '{owner \2}, {granted \1 \2 \3}', 'g'),
				'\{owner (\S+)\}', $q$'owner', pg_get_userbyid(\1)$q$, 'g'),
				'\{granted (\S+) (\S+) (\w)\}',
				$q$'rights', (SELECT jsonb_object_agg(g.role, g.rights) FROM (
					SELECT CASE g.grantee WHEN 0 THEN 'PUBLIC' WHEN \2 THEN 'the owner'
							ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
						jsonb_agg(DISTINCT
							g.privilege_type || CASE WHEN g.is_grantable THEN '*' ELSE '' END)
					FROM aclexplode(coalesce(\1, acldefault('\3', \2))) AS g
					WHERE g.privilege_type <> 'MAINTAIN' OR g.grantee <> \2
					GROUP BY g.grantee) AS g(role, rights))$q$, 'g')
			ELSE regexp_replace(k.query, ',\s*\{(owned|owner|granted) [^}]*\}', '', 'g') END,
				'{code c.oid}',
			'(' || plain_code_sql('c.oid') || ')'), '{encoding}',
			quote_literal(getdatabaseencoding())), ' UNION ALL '))
	FROM structure_kinds k
	WHERE (k.kinds = ANY (chosen) OR chosen IS NULL) AND (schema IS NULL OR NOT k.whole)
	AND (rights OR k.kinds <> 'default rights')
$$;

-- A pattern that matches a text.
CREATE FUNCTION structure_literal(text text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT regexp_replace(text, '(\W)', '\\\1', 'g')
$$;

-- An expression in which names that a schema or an alias qualifies have another, or none if
-- that is empty.
-- In string constants, only those of regclass and the like are names.
CREATE FUNCTION structure_renamed(expression text, qualifier text, other text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT coalesce(string_agg(CASE WHEN m[1] ~ '^''.*''$' THEN m[1]
		ELSE regexp_replace(m[1],
			'(?<![\w$".])' || structure_literal(qualifier) || '\.',
			replace(other, '\', '\\'), 'g') END, '' ORDER BY n), expression)
	FROM regexp_matches(expression, '''(?:[^'']|'''')*''(?:::reg\w+)?|[^'']+|''', 'g')
		WITH ORDINALITY AS t(m, n)
$$;

-- A pattern for a name, as quote_ident gives it, that has no quotes in a function's source, where
-- it may be in capitals.
CREATE FUNCTION structure_pattern(name text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN name ~ '^"' THEN structure_literal(name)
		ELSE (SELECT string_agg(CASE WHEN c ~ '[a-z]' THEN format('[%s%s]', c, upper(c))
			ELSE structure_literal(c) END, '')
			FROM regexp_split_to_table(name, '') AS c) END
$$;

-- A function's source in which names that a schema qualifies have another one, with quotes where
-- the schema had them.
CREATE FUNCTION structure_resourced(source text, qualifier text, other text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT regexp_replace(regexp_replace(source,
			format('(?<![\w$".])"%s"\.', structure_literal(qualifier)),
			regexp_replace(replace(other, '\', '\\'), '([\w$]+)$', '"\1"') || '.', 'g'),
		format('(?<![\w$".])%s\.', structure_pattern(qualifier)),
		replace(other, '\', '\\') || '.', 'g')
$$;

-- A text of the peer, whose schema "theirs" has the name "mine" here, with names of that schema as
-- they are here.  What is called "mine" there is another schema.
CREATE FUNCTION structure_as_here(expression text, theirs text, mine text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN structure_renamed(structure_renamed(expression, mine, 'peer.' || mine || '.'), theirs,
		mine || '.');

-- The same of a property of an object.  Where a name may be that of a schema or not, nobody knows
-- what it says.
CREATE FUNCTION structure_moved(kind text, property text, value jsonb, facts jsonb, theirs text,
	mine text) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	source boolean := property IN ('source', 'source text');
	said text := CASE WHEN source THEN facts ->> 'source text' ELSE value #>> '{}' END;
	a text := structure_literal(mine);
	b text := structure_literal(theirs);
	-- as what replaces a pattern
	named text := replace(mine, '\', '\\');
	-- a name that no dot follows
	alone text := format('(?<![\w$"])(?:%s|%s)(?![\w$".])', a, b);
BEGIN
	IF jsonb_typeof(value) <> 'string' THEN
		RETURN value;
	ELSIF source THEN
		alone := format('(?<![\w$])"?(?:%s|%s)"?(?![\w$".])', structure_pattern(mine),
			structure_pattern(theirs));
		IF property = 'source' AND (said ~ alone) IS NOT FALSE THEN
			RETURN '{"unknown": "the source may name schemas, or is long or may have a password"}';
		END IF;
		said := structure_resourced(structure_resourced(said, mine, 'peer.' || mine), theirs, mine);
		RETURN to_jsonb(CASE property WHEN 'source' THEN
			left(encode(sha256(convert_to(said, 'UTF8')), 'hex'), 32) ELSE said END);
	ELSIF property = 'settings' THEN
		-- one ends where the next one begins
		said := (SELECT string_agg(CASE WHEN m[1] ~ '^(, )?search_path=' THEN regexp_replace(
				regexp_replace(m[1], '(?<![\w$".])' || a || '(?![\w$".])', 'peer.' || named, 'g'),
				'(?<![\w$".])' || b || '(?![\w$".])', named, 'g') ELSE m[1] END, '' ORDER BY n)
			FROM regexp_matches(said, '(?:^|, )[^=, ]+=(?:(?!, [^=, ]+=).)*', 'g')
				WITH ORDINALITY AS s(m, n));
	ELSIF (kind ~ 'view$' OR kind IN ('rule', 'policy') OR property = 'body')
			AND regexp_replace(said, '''(?:[^'']|'''')*''', '', 'g') ~ alone
		OR ARRAY[theirs, mine] && '{old,new}' AND (kind = 'rule' OR said ~ ' WHEN \(')
	THEN
		RETURN '{"unknown": "a name in it may be that of a schema, or of something else"}';
	END IF;
	RETURN to_jsonb(structure_as_here(said, theirs, mine));
END
$$;

-- A name without the quotes that PostgreSQL puts around these words only from 16 or 17 on, where
-- they are keywords.  A quote within a quoted name is doubled, so only whole names match.
CREATE FUNCTION structure_unquoted(name text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT regexp_replace(name, '(?<!["\w$])"(json|json_(?:array|arrayagg|exists|object|objectagg'
		'|query|scalar|serialize|table|value)|merge_action|system_user)"(?!")', '\1', 'g')
$$;

-- An expression as it would be after a dump and a restore, to be compared.
-- The parser flattens (a AND b) AND c, as BETWEEN makes it.  It casts the elements of an array
-- of constants that is cast, as IN makes it for varchar.  AND and OR are associative, so no
-- other expression has the same form.
CREATE FUNCTION structure_restored(expression text) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	elements text := '((?:''(?:[^'']|'''')*''::[a-z ]+(?:, )?)+)';
	name text := '(?:\w+|"(?:[^"]|"")*")';
	casted text[];
	tokens text[];
	depth integer := 0;
	opened integer[];
	joins text[];			-- what joins the operands in each parenthesis: AND, OR, or both
	first integer;
BEGIN
	LOOP
		casted := regexp_match(expression, '\(ARRAY\[' || elements || '\]\)::([a-z]+)\[\]');
		EXIT WHEN casted IS NULL;
		expression := replace(expression, format('(ARRAY[%s])::%s[]', casted[1], casted[2]),
			format('ARRAY[%s]', regexp_replace(casted[1], '(''(?:[^'']|'''')*''::[a-z ]+)',
				format('(\1)::%s', casted[2]), 'g')));
	END LOOP;
	tokens := ARRAY(SELECT CASE WHEN m[1] ~ '^''' THEN m[1] ELSE structure_unquoted(m[1]) END
		FROM regexp_matches(expression,
		format('''(?:[^'']|'''')*''|%1$s(?:\.%1$s)*|[^\s\w]', name), 'g')
		WITH ORDINALITY AS t(m, n) ORDER BY n);
	FOR i IN 1 .. cardinality(tokens) LOOP
		IF tokens[i] = '(' THEN
			depth := depth + 1;
			opened[depth] := i;
			joins[depth] := '';
		ELSIF tokens[i] IN ('AND', 'OR') AND depth > 0 AND joins[depth] <> tokens[i] THEN
			joins[depth] := joins[depth] || tokens[i];
		ELSIF tokens[i] = ')' AND depth > 0 THEN
			first := opened[depth];
			IF joins[depth] IN (tokens[first - 1], tokens[i + 1])
					AND tokens[first - 1] IN ('(', joins[depth])
					AND tokens[i + 1] IN (')', joins[depth]) THEN
				tokens[first] := '';
				tokens[i] := '';
			END IF;
			depth := depth - 1;
		END IF;
	END LOOP;
	RETURN array_to_string(array_remove(tokens, ''), ' ');
END
$$;

-- The objects of an answer, with names of schema, unless that is NULL, as those of another one.
-- A sequence is behind its column if the column may have the next value already.
CREATE FUNCTION structure_objects(answer jsonb, schema text, other text)
RETURNS structure_object[]
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT coalesce(array_agg(ROW(o.kind, o.object, o.parent, o.severity,
		'{"exists": true}' || o.facts || (SELECT coalesce(jsonb_object_agg('rights of ' || r.key,
			r.value), '{}') FROM jsonb_each(o.facts -> 'rights') AS r)
		|| jsonb_strip_nulls(jsonb_build_object(
			'behind its column', CASE
				WHEN o.facts -> 'reached' IS NULL OR o.facts @> '{"cycle": true}' THEN NULL
				WHEN jsonb_typeof(o.facts -> 'reached') = 'object' THEN o.facts -> 'reached'
				WHEN jsonb_typeof(o.facts -> 'next value') <> 'object' AND sign((o.facts
						->> 'increment')::numeric) * ((o.facts ->> 'next value')::numeric
						- (o.facts ->> 'reached')::numeric) <= 0 THEN to_jsonb(
					format('%s has %s', o.facts ->> 'numbers', o.facts ->> 'reached')) END)))
			::structure_object), '{}')
	FROM jsonb_populate_recordset(NULL::structure_object, answer -> 'objects') AS p,
	LATERAL (SELECT p.kind, p.object, p.parent, p.severity, p.facts WHERE schema IS NULL
		UNION ALL
		SELECT p.kind, CASE p.kind WHEN 'schema' THEN other
			ELSE structure_as_here(p.object, schema, other) END,
			structure_as_here(p.parent, schema, other), p.severity,
			(SELECT coalesce(jsonb_object_agg(f.key, structure_moved(p.kind, f.key, f.value,
				p.facts, schema, other)), '{}') FROM jsonb_each(p.facts) AS f)
		WHERE schema IS NOT NULL) AS o);
