-- Columns of other names, and expressions --------------------------------------------------
--
-- make_mapping (sql/compare/prepare.sql) checks what a user asks for.

-- OIDs of the types whose values plain queries compare by their texts: bool, bytea, name, int8,
-- int2, int4, text, oid, json, points and the like, cidr, floats, circle, macaddr8, macaddr, inet,
-- char(n), varchar, dates, times, bits, numeric, uuid, pg_lsn, tsvector, jsonb, ranges and
-- multiranges.
CREATE FUNCTION plain_types() RETURNS bigint[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN '{16, 17, 19, 20, 21, 23, 25, 26, 114, 600, 601, 602, 603, 604, 628, 650, 700, 701, 718,
		774, 829, 869, 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1266, 1560, 1562, 1700, 2950,
		3220, 3614, 3802, 3904, 3906, 3908, 3910, 3912, 3926, 4451, 4532, 4533, 4534, 4535,
		4536}'::bigint[];

-- The name that a mapping has for a column of the relation.
CREATE FUNCTION mapped_name(mapping jsonb, name text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN coalesce((SELECT key FROM jsonb_each_text(mapping -> 'columns') WHERE value = name
		LIMIT 1), name);

-- What stands for the expressions of a mapping on a relation: "columns" by their names, and lists
-- of the "collations" and "enums" that they depend on.
CREATE FUNCTION made_columns(relation regclass, mapping jsonb) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL RESTRICTED
	RETURN (SELECT jsonb_build_object('collations', coalesce(jsonb_agg(v.collations), '[]'),
			'enums', coalesce(jsonb_agg(v.enums), '[]'), 'columns', coalesce(jsonb_object_agg(e.key,
				coalesce(d.described, '{}') || jsonb_strip_nulls(jsonb_build_object(
				'name', e.key, 'expression', e.value, 'not_null', false,
				-- for plain queries
				'text', CASE WHEN (d.described ->> 'base')::bigint = ANY (plain_types())
					THEN d.described ->> 'base' END))), '{}'))
		FROM jsonb_each_text(mapping -> 'expressions') AS e,
		LATERAL iblt_compare_check_expression(relation, e.value, false) AS v,
		LATERAL iblt_describe_type(v.type, v.typmod) AS d(described));

-- A described relation with the columns of a mapping, of which made_columns has told; an error for
-- names that it does not have, or has twice.
-- An expression stands in the place of a column of its name, or behind all others.  No index is on
-- its values.
CREATE FUNCTION map_columns(described jsonb, mapping jsonb, made jsonb) RETURNS jsonb
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	expressions jsonb := made -> 'columns';
	columns jsonb := (SELECT coalesce(jsonb_agg(c || CASE WHEN new <> c ->> 'name'
			THEN jsonb_build_object('name', new, 'source', c -> 'name') ELSE '{}' END
			ORDER BY n), '[]')
		FROM jsonb_array_elements(described -> 'columns') WITH ORDINALITY AS x(c, n),
		LATERAL mapped_name(mapping, c ->> 'name') AS new);
	missing text := (SELECT string_agg(format('"%s"', value), ', ')
		FROM jsonb_each_text(mapping -> 'columns')
		WHERE NOT jsonb_path_exists(described, '$.columns[*] ? (@.name == $n)',
			jsonb_build_object('n', value)));
	-- rows have versions, which are read by the names of system columns
	twice text := coalesce((SELECT min(c ->> 'name') FROM jsonb_array_elements(columns) AS c
		GROUP BY c ->> 'name' HAVING count(*) > 1 LIMIT 1),
		(SELECT min(x) FROM unnest('{tableoid,ctid,xmin}'::text[]) AS x WHERE expressions ? x));
BEGIN
	IF missing IS NOT NULL OR (SELECT count(DISTINCT value) <> count(*)
			FROM jsonb_each_text(mapping -> 'columns')) THEN
		RAISE undefined_column USING
			MESSAGE = CASE WHEN missing IS NULL THEN 'peer_columns names a column twice'
				ELSE format('relation %s does not have columns: %s',
					described ->> 'relation', missing) END,
			HINT = 'peer_columns gives the name of a column there for a name here. '
				'Names are case-sensitive.';
	ELSIF twice IS NOT NULL THEN
		RAISE duplicate_column USING
			MESSAGE = format('relation %s has a column "%s", and another is to be compared '
				'under this name', described ->> 'relation', twice),
			HINT = 'Give the former another name in peer_columns as well, and exclude it.';
	END IF;
	RETURN described || jsonb_build_object('mapped', true, 'columns', (
			SELECT coalesce(jsonb_agg(u.c ORDER BY n, u.c ->> 'name'), '[]') FROM (
				SELECT coalesce(expressions -> (c ->> 'name'), c), n
				FROM jsonb_array_elements(columns) WITH ORDINALITY AS x(c, n)
				UNION ALL
				SELECT m.value, 100000 FROM jsonb_each(expressions) AS m
				WHERE NOT jsonb_path_exists(columns, '$[*] ? (@.name == $n)',
					jsonb_build_object('n', m.key))) AS u(c, n)),
		'keys', (SELECT coalesce(jsonb_agg(k || jsonb_build_object('columns', mapped.names)
				ORDER BY n), '[]')
			FROM jsonb_array_elements(described -> 'keys') WITH ORDINALITY AS x(k, n),
			LATERAL (SELECT jsonb_agg(mapped_name(mapping, name) ORDER BY i)
				FROM jsonb_array_elements_text(k -> 'columns') WITH ORDINALITY AS c(name, i))
				AS mapped(names)
			WHERE NOT EXISTS (SELECT FROM jsonb_array_elements_text(mapped.names) AS name
				WHERE expressions ? name)));
END
$$;
