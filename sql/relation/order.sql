-- Orders of indexes --------------------------------------------------------------------
--
-- describe_order says by which order an index is sorted, so that servers can tell whether
-- they sort alike.  Text is sorted by a library, whose order may change with its version.
-- An index keeps the order of the version that built it.  No catalog records that for an
-- index; PostgreSQL records it for a collation, and since 15 for a database.

-- A server without iblt is asked for the bodies of these functions (plain_call).

-- OIDs of the types that sort alike on all servers, with their default operator class: integers,
-- numbers, dates and times, network addresses, bit strings, bytea, uuid, pg_lsn and xid8.
-- Text does by the same collation.  An enum's order is a matter of its database.
CREATE FUNCTION ordered_types() RETURNS oid[]
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT '{16,17,19,20,21,23,25,26,700,701,774,829,869,1042,1082,1083,1114,1184,1186,1266,1560,'
		'1562,1700,2950,3220,5069}'::oid[]
$$;

-- The order of a collation in one word ("sorted"), why an index may not have it ("problem"), and
-- all that values depend on that are compared by it ("described").
-- The database's own collation has OID 100.  Some columns and functions have other names, or are
-- not there, in other releases.  Before PostgreSQL 15, nothing is recorded for a database, but for
-- its collations of the same locale when the server was initialised, or when they were made.
-- "C", "POSIX" and all that PostgreSQL 17 and later bring themselves sort by bytes, which in UTF-8
-- and LATIN1 is the order of characters in Unicode.  libc's "C.UTF-8" does not change, says
-- PostgreSQL, which gives it no version.
CREATE FUNCTION collation_order(coll oid) RETURNS jsonb
	LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE
AS $$
BEGIN
	RETURN (SELECT jsonb_build_object('sorted', concat_ws(' ', sorted, encoding), 'problem',
			CASE WHEN NOT (c ->> 'collisdeterministic')::boolean
				THEN format('collation %I is not deterministic', c ->> 'collname')
			WHEN sorted = 'C' OR provider = 'c' AND locale ILIKE 'C.%' THEN NULL
			WHEN actual IS NULL OR recorded IS NULL
				THEN format('the version of collation %I is not known', c ->> 'collname')
			WHEN recorded <> actual
				THEN format('collation %I had version %s when it was recorded, and has %s now',
					c ->> 'collname', recorded, actual) END, 'described',
			CASE WHEN locale IN ('C', 'POSIX') AND folds IN ('C', 'POSIX')
			THEN concat_ws(' ', 'C', nullif(nullif(encoding, 'UTF8'), 'LATIN1'))
			ELSE regexp_replace(concat_ws(' ', provider, locale, nullif(folds, locale), actual,
				rules, CASE r ->> 'collisdeterministic' WHEN 'false' THEN 'nondeterministic' END),
				'utf-?8', 'UTF-8', 'gi') END)
		FROM (SELECT to_jsonb(d), to_jsonb(p), CASE coll WHEN 100 THEN to_jsonb(d)
				ELSE to_jsonb(p) END, getdatabaseencoding()
			FROM pg_database d, pg_collation p
			WHERE d.datname = current_database() AND p.oid = coll) AS catalogs(own, c, r, encoding),
		LATERAL (SELECT coalesce(r ->> 'datlocprovider', r ->> 'collprovider', 'c'),
			coalesce(r ->> 'daticurules', r ->> 'collicurules')) AS kind(provider, rules),
		LATERAL (SELECT coalesce(r ->> CASE provider WHEN 'c' THEN 'datcollate' END,
			r ->> 'datlocale', r ->> 'daticulocale', r ->> 'colllocale', r ->> 'colliculocale',
			r ->> 'collcollate')) AS named(locale),
		LATERAL (SELECT CASE provider WHEN 'c' THEN coalesce(r ->> 'datctype', r ->> 'collctype')
				ELSE locale END,
			CASE WHEN coll <> 100 THEN pg_collation_actual_version(coll)
				WHEN current_setting('server_version_num')::integer >= 150000
				THEN substring(query_to_xml(format(
					'SELECT pg_catalog.pg_database_collation_actual_version(%s) AS v',
					own ->> 'oid'), false, false, '')::text FROM '<v>(.*)</v>')
				ELSE (SELECT max(pg_collation_actual_version(p.oid)) FROM pg_collation p
					WHERE p.collprovider = 'c' AND p.collcollate = own ->> 'datcollate') END,
			CASE coll WHEN 100 THEN coalesce(own ->> 'datcollversion', (
					SELECT min(p.collversion) FROM pg_collation p WHERE NOT own ? 'datcollversion'
					AND p.collprovider = 'c' AND p.collcollate = own ->> 'datcollate'))
				ELSE r ->> 'collversion' END) AS versions(folds, actual, recorded),
		LATERAL (SELECT CASE WHEN provider = 'b'
				OR provider = 'c' AND upper(locale) IN ('C', 'POSIX') THEN 'C'
			ELSE regexp_replace(concat_ws(' ', provider, locale, actual, rules),
				'utf-?8', 'UTF-8', 'gi') END) AS orders(sorted));
END
$$;

-- By which order an index is sorted, as fields of unique_key.
CREATE FUNCTION describe_order(index oid) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
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
		LATERAL (SELECT CASE WHEN k.coll <> 0 THEN collation_order(k.coll) END) AS f(ordered),
		LATERAL (SELECT coalesce((SELECT CASE WHEN NOT c.opcdefault
						THEN format('operator class %s is not the default of its type', c.opcname)
						WHEN c.opcintype <> ALL (ordered_types()::oid[])
						THEN format('type %s may sort differently elsewhere', c.opcintype::regtype)
						END FROM pg_opclass c WHERE c.oid = k.class), f.ordered ->> 'problem'),
				f.ordered ->> 'sorted',
				CASE WHEN k.coll <> 100 OR a.attcollation <> 100 THEN (
					SELECT format('%I.%I', s.nspname, c.collname) FROM pg_collation c
					JOIN pg_namespace s ON s.oid = c.collnamespace WHERE c.oid = k.coll) END)
			AS o(problem, sorted, other)
		WHERE i.indexrelid = index AND a.attrelid = i.indrelid AND k.n <= i.indnkeyatts);
END
$$;
