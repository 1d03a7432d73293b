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

-- The types without a send function in a type.
-- A checksum takes the text of their values, and elsewhere what that function makes.  An extension
-- may have one in some of its versions only (cube: from 1.5 on).
CREATE FUNCTION textual_types(type oid) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (WITH RECURSIVE part AS (
			SELECT type AS oid
			UNION
			SELECT x.oid FROM part JOIN pg_type t ON t.oid = part.oid, LATERAL (
				SELECT t.typbasetype
				UNION ALL
				SELECT t.typelem
				UNION ALL
				SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = t.typrelid
				UNION ALL
				SELECT r.rngsubtype FROM pg_range r
					WHERE t.oid IN (r.rngtypid, r.rngmultitypid)) AS x(oid)
			WHERE x.oid >= 16384
		)
		SELECT coalesce(jsonb_agg(DISTINCT t.typname), '[]') FROM part JOIN pg_type t USING (oid)
		WHERE t.typtype = 'b' AND t.typsend = 0);
END
$$;
