-- Orders of indexes --------------------------------------------------------------------
--
-- describe_order says by which order an index is sorted, so that servers can tell whether
-- they sort alike.  Text is sorted by a library, whose order may change with its version.
-- An index keeps the order of the version that built it.  No catalog records that for an
-- index; PostgreSQL records it for a collation, and since 15 for a database.

-- OIDs of the types that sort alike on all servers, with their default operator class: integers,
-- numbers, dates and times, network addresses, bit strings, bytea, uuid, pg_lsn and xid8.
-- Text does by the same collation.  An enum's order is a matter of its database.
CREATE FUNCTION ordered_types() RETURNS oid[]
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN '{16,17,19,20,21,23,25,26,700,701,774,829,869,1042,1082,1083,1114,1184,1186,1266,1560,'
		'1562,1700,2950,3220,5069}'::oid[];

-- The order of a collation in one word, why an index may not have it, and all that values depend
-- on that are compared by it.
-- The database's own collation has OID 100.  Some columns have other names, or are not there, in
-- other releases.
-- "C", "POSIX" and all that PostgreSQL 17 and later bring themselves sort by bytes, which in UTF-8
-- and LATIN1 is the order of characters in Unicode.  libc's "C.UTF-8" does not change, says
-- PostgreSQL, which gives it no version.
CREATE FUNCTION collation_order(coll oid, OUT sorted text, OUT problem text, OUT described text)
RETURNS record
	LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
AS $$
DECLARE
	own jsonb := (SELECT to_jsonb(d) FROM pg_database d WHERE d.datname = current_database());
	c jsonb := (SELECT to_jsonb(p) FROM pg_collation p WHERE p.oid = coll);
	r jsonb := CASE coll WHEN 100 THEN own ELSE c END;
	provider text := coalesce(r ->> 'datlocprovider', r ->> 'collprovider', 'c');
	locale text := coalesce(r ->> CASE provider WHEN 'c' THEN 'datcollate' END,
		r ->> 'datlocale', r ->> 'daticulocale', r ->> 'colllocale', r ->> 'colliculocale',
		r ->> 'collcollate');
	folds text := CASE provider WHEN 'c' THEN coalesce(r ->> 'datctype', r ->> 'collctype')
		ELSE locale END;
	actual text;
	-- before PostgreSQL 15, nothing is recorded for a database, but for its collations of the same
	-- locale when the server was initialised, or when they were made
	recorded text := CASE coll WHEN 100 THEN coalesce(own ->> 'datcollversion', (
			SELECT min(p.collversion) FROM pg_collation p WHERE NOT own ? 'datcollversion'
			AND p.collprovider = 'c' AND p.collcollate = own ->> 'datcollate'))
		ELSE r ->> 'collversion' END;
	encoding text := getdatabaseencoding();
	rules text := coalesce(r ->> 'daticurules', r ->> 'collicurules');
BEGIN
	IF coll <> 100 THEN
		actual := pg_collation_actual_version(coll);
	ELSIF current_setting('server_version_num')::integer >= 150000 THEN
		actual := pg_database_collation_actual_version((own ->> 'oid')::oid);
	ELSE
		actual := (SELECT max(pg_collation_actual_version(p.oid)) FROM pg_collation p
			WHERE p.collprovider = 'c' AND p.collcollate = own ->> 'datcollate');
	END IF;
	sorted := CASE WHEN provider = 'b' OR provider = 'c' AND upper(locale) IN ('C', 'POSIX')
		THEN 'C'
		ELSE regexp_replace(concat_ws(' ', provider, locale, actual, rules),
			'utf-?8', 'UTF-8', 'gi') END;
	problem := CASE WHEN NOT (c ->> 'collisdeterministic')::boolean
			THEN format('collation %I is not deterministic', c ->> 'collname')
		WHEN sorted = 'C' OR provider = 'c' AND locale ILIKE 'C.%' THEN NULL
		WHEN actual IS NULL OR recorded IS NULL
			THEN format('the version of collation %I is not known', c ->> 'collname')
		WHEN recorded <> actual
			THEN format('collation %I had version %s when it was recorded, and has %s now',
				c ->> 'collname', recorded, actual) END;
	sorted := concat_ws(' ', sorted, encoding);
	described := CASE WHEN locale IN ('C', 'POSIX') AND folds IN ('C', 'POSIX')
		THEN concat_ws(' ', 'C', nullif(nullif(encoding, 'UTF8'), 'LATIN1'))
		ELSE regexp_replace(concat_ws(' ', provider, locale, nullif(folds, locale), actual, rules,
			CASE r ->> 'collisdeterministic' WHEN 'false' THEN 'nondeterministic' END),
			'utf-?8', 'UTF-8', 'gi') END;
END
$$;

-- By which order an index is sorted, as fields of unique_key.
CREATE FUNCTION describe_order(index oid) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (SELECT jsonb_strip_nulls(jsonb_build_object(
			'index', format('%I.%I', min(n.nspname), min(x.relname)),
			'collations', CASE WHEN count(o.other) > 0 THEN jsonb_agg(o.other ORDER BY k.n) END,
			'orders', jsonb_agg(coalesce(o.sorted, '') ORDER BY k.n),
			'unordered', coalesce(min(o.problem), CASE WHEN count(DISTINCT k.flags & 1) > 1
				THEN 'its columns are sorted in different directions' END)))
		FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
		JOIN pg_namespace n ON n.oid = x.relnamespace,
		unnest(i.indkey::int2[], i.indcollation::oid[], i.indclass::oid[], i.indoption::int2[])
			WITH ORDINALITY AS k(attnum, coll, class, flags, n)
		JOIN pg_attribute a ON a.attnum = k.attnum,
		LATERAL (SELECT coalesce((SELECT CASE WHEN NOT c.opcdefault
						THEN format('operator class %s is not the default of its type', c.opcname)
						WHEN c.opcintype <> ALL (ordered_types())
						THEN format('type %s may sort differently elsewhere', c.opcintype::regtype)
						END FROM pg_opclass c WHERE c.oid = k.class), f.problem), f.sorted,
				CASE WHEN k.coll <> 100 OR a.attcollation <> 100 THEN (
					SELECT format('%I.%I', s.nspname, c.collname) FROM pg_collation c
					JOIN pg_namespace s ON s.oid = c.collnamespace WHERE c.oid = k.coll) END
			FROM collation_order(nullif(k.coll, 0)) AS f) AS o(problem, sorted, other)
		WHERE i.indexrelid = index AND a.attrelid = i.indrelid AND k.n <= i.indnkeyatts);
END
$$;
