-- What types are made of -----------------------------------------------------------------
--
-- The canonical bytes of a row are those of its columns, and the bytes of a date may be those
-- of an integer.  So values of types that have one name, but are made of different types, could
-- be taken for equal.

-- Types whose canonical bytes depend on the type's modifier, and their arrays: char, bit and
-- numeric.
CREATE FUNCTION modified_types() RETURNS bigint[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN '{1042,1014,1560,1561,1700,1231}'::bigint[];

-- The columns, elements and bounds that values of a type with that modifier have, with their types.
-- Domains count as what they are over, and an enum's labels show in its values.
CREATE FUNCTION describe_parts(type oid, modifier integer DEFAULT -1) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (SELECT CASE
			WHEN t.oid < 16384 THEN format_type(t.oid,
				CASE WHEN t.oid::bigint = ANY (modified_types()) THEN modifier END)
			WHEN t.typtype = 'd' THEN describe_parts(t.typbasetype, t.typtypmod)
			WHEN e.oid IS NOT NULL THEN describe_parts(e.oid) || '[]'
			WHEN r.rngsubtype IS NOT NULL THEN concat(format_type(t.oid, NULL), ' of ',
				describe_parts(r.rngsubtype))
			WHEN t.typtype = 'c' THEN (
				SELECT concat('(', string_agg(concat(to_json(a.attname::text), ' ',
					describe_parts(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum), ')')
				FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0
				AND NOT a.attisdropped)
			ELSE concat(format_type(t.oid, NULL), CASE t.typtype WHEN 'e' THEN ' enum' END) END
		FROM pg_type t LEFT JOIN pg_type e ON e.typarray = t.oid
		LEFT JOIN pg_range r ON t.oid IN (r.rngtypid, r.rngmultitypid)
		WHERE t.oid = type);
END
$$;

-- What values of a type run, as fields of side_column: the types in it without a send function, and
-- a function of another user that a value would run on its way to json or to text.
-- A checksum takes the text of types without a send function, and elsewhere what that function
-- makes.  An extension may have one in some of its versions only (cube: from 1.5 on).
-- to_jsonb looks for casts to json of elements and fields too, and a cast to text for
-- one of the column's type.  A superuser's functions are trusted, and one's own.
CREATE FUNCTION describe_type(type oid) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (WITH RECURSIVE part(oid, casts) AS (
			SELECT type, '{json,text}'::regtype[]
			UNION
			SELECT x.oid, x.casts FROM part JOIN pg_type t ON t.oid = part.oid, LATERAL (
				SELECT t.typbasetype, part.casts
				UNION ALL
				SELECT t.typelem, array_remove(part.casts, 'text')
				UNION ALL
				SELECT a.atttypid, array_remove(part.casts, 'text')
					FROM pg_attribute a WHERE a.attrelid = t.typrelid
				UNION ALL
				SELECT r.rngsubtype, '{}' FROM pg_range r
					WHERE t.oid IN (r.rngtypid, r.rngmultitypid)) AS x(oid, casts)
			WHERE x.oid >= 16384
		), code(target, name) AS (
			SELECT c.casttarget, p.oid::regprocedure::text
			FROM part JOIN pg_cast c ON c.castsource = part.oid
				AND c.casttarget = ANY (part.casts::oid[])
			JOIN pg_proc p ON p.oid = c.castfunc JOIN pg_roles r ON r.oid = p.proowner
			WHERE NOT r.rolsuper AND r.rolname <> current_user
		)
		SELECT jsonb_build_object(
			'textual', (SELECT coalesce(jsonb_agg(DISTINCT t.typname), '[]')
				FROM part JOIN pg_type t ON t.oid = part.oid
				WHERE t.typtype = 'b' AND t.typsend = 0),
			'to_json', (SELECT min(name) FROM code WHERE target = 'json'::regtype),
			'to_text', (SELECT min(name) FROM code WHERE target = 'text'::regtype)));
END
$$;
