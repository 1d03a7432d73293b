-- Questions to a server without iblt ----------------------------------------------------------

-- The statements that go before each plain query on the peer, with the settings that the driver has
-- pinned here, and those of the function that runs such a query here, if that has any of its own,
-- and with locks on what it reads; a label is its application_name.
-- What locks finds the catalogs by indexes, which that function may do without.
-- What asks does not read views of users, and what writes may, in triggers.
-- With "writes" the server's default_transaction_read_only decides whether it may.  Without, a
-- message that begins its transaction only reads.  That of a repair has begun before.
CREATE FUNCTION plain_settings(label text DEFAULT NULL, as_of text DEFAULT NULL,
	described described[] DEFAULT NULL, writes boolean DEFAULT false,
	asks boolean DEFAULT false) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
	SELECT 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ' || CASE WHEN described IS NULL
		THEN format('SELECT pg_catalog.concat(%s, %s); ', settings, restricts)
		ELSE format('DO %L; ', format('BEGIN PERFORM %s, %s;%s%s END', settings, restricts,
			plain_lock_sql(described), ' PERFORM ' || of_reader || ';')) END
	FROM (SELECT 'pg_catalog.concat('
		|| string_agg(setting, ', ') FILTER (WHERE described IS NULL OR value IS NOT NULL)
		|| $q$, CASE WHEN pg_catalog.current_setting('client_connection_check_interval', true)
			IS NOT NULL AND pg_catalog.version() OPERATOR(pg_catalog.~) 'linux'
			THEN pg_catalog.set_config('client_connection_check_interval', '1000', true) END$q$
		|| CASE WHEN writes THEN '' ELSE $q$,
			CASE WHEN pg_catalog.transaction_timestamp() OPERATOR(pg_catalog.=)
				pg_catalog.statement_timestamp()
			THEN pg_catalog.set_config('transaction_read_only', 'on', true) END$q$ END || ')',
		string_agg(setting, ', ') FILTER (WHERE value IS NULL)
	FROM (SELECT x, current_setting(x) FROM unnest('{row_security,enable_indexonlyscan,
			constraint_exclusion,array_nulls,quote_all_identifiers,jit,DateStyle,IntervalStyle,
			TimeZone,extra_float_digits,bytea_output,lc_monetary,lc_numeric,lc_time,xmloption,
			transform_null_equals,gin_fuzzy_search_limit,xmlbinary,timezone_abbreviations
			}'::text[]) AS x
		UNION ALL VALUES ('search_path', 'pg_catalog, pg_temp'),
			('application_name', left(label, 63))) AS s(name, value)
	FULL JOIN (SELECT split_part(c, '=', 1), substr(c, strpos(c, '=') + 1)
		FROM pg_proc p, unnest(p.proconfig) AS c
		WHERE p.pronamespace = 'iblt_internal'::regnamespace AND p.proname = as_of)
		AS own(name, other) USING (name),
	LATERAL (SELECT format('pg_catalog.set_config(%L, %L, %s)', name, coalesce(other, value),
		CASE name WHEN 'application_name' THEN 'false' ELSE 'true' END)) AS f(setting)
	WHERE coalesce(other, value) IS NOT NULL) AS s(settings, of_reader),
	-- a server which can do so refuses views and foreign tables that do not come with PostgreSQL
	LATERAL (SELECT format($q$CASE
			WHEN pg_catalog.current_setting('restrict_nonsystem_relation_kind', true) IS NOT NULL
			THEN pg_catalog.set_config('restrict_nonsystem_relation_kind', %L, true) END$q$,
		CASE WHEN CASE WHEN described IS NULL THEN asks
				ELSE (SELECT NOT bool_or(d.views) FROM unnest(described) AS d) END
			THEN 'view, foreign-table' ELSE '' END)) AS r(restricts)
$$;

-- What gives, or does, what a call of a function does, where the function is not there.
-- A function in SQL that names nothing but what PostgreSQL has, and such functions of iblt, is
-- asked for by its body, whose arguments are columns of that name.  So is one in PL/pgSQL that only
-- returns an expression.  Another one becomes a block, which answers by an argument OUT.  The
-- setting iblt.block has that then.
CREATE FUNCTION plain_call(call text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	p pg_proc := (SELECT p FROM pg_proc p
		WHERE p.oid = ('iblt_internal.' || split_part(call, '(', 1))::regproc);
	given text := regexp_replace(call, '^[^(]*\((.*)\)$', '\1');
	named text := (SELECT string_agg(quote_ident(a), ', ' ORDER BY i)
		FROM unnest(p.proargnames[:p.pronargs]) WITH ORDINALITY AS u(a, i));
	expression text := substring(p.prosrc FROM '^\s*BEGIN\s+RETURN (.*);\s+END\s*$');
	body text := coalesce(expression, p.prosrc);
	inner_call text;
BEGIN
	ASSERT p.prosqlbody IS NULL, format('%s has no body to be sent', p.proname);
	IF expression IS NOT NULL
			OR p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'sql') THEN
		FOR inner_call IN SELECT DISTINCT m[1]
				FROM regexp_matches(body, '(\m(\w+)\([^()]*\))', 'g') AS m
				JOIN pg_proc ON proname = m[2]
					AND pronamespace = 'iblt_internal'::regnamespace LOOP
			body := replace(body, inner_call, '(' || plain_call(inner_call) || ')');
		END LOOP;
		RETURN format(CASE p.pronargs WHEN 0 THEN 'SELECT (%s)'
			ELSE 'SELECT (%s) FROM (SELECT %s) AS %I (%s)' END, body, given, p.proname, named);
	END IF;
	RETURN format('DO %L', format('<<%I>> DECLARE %sBEGIN %s%s;%s END', p.proname,
		(SELECT string_agg(format('%I %s; ', p.proargnames[i], format_type(a.type, NULL)), ''
			ORDER BY i) FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]))
			WITH ORDINALITY AS a(type, i)),
		'SELECT ' || nullif(given, '') || ' INTO ' || named || '; ',
		body, (SELECT format(' PERFORM pg_catalog.set_config(''iblt.block'', %I::text, true);',
			p.proargnames[i]) FROM unnest(p.proargmodes) WITH ORDINALITY AS m(mode, i)
			WHERE m.mode = 'o')));
END
$$;

-- A query for a hash of the identity and the columns of the relations whose OIDs meet a condition,
-- by built-in functions, as columns id and fingerprint.
-- Not that of iblt_compare_fingerprint, which the peer does not have.  It has the partitions
-- and what a view reads, because a statement may not read what its snapshot sees (fingerprint.c).
-- It joins the columns, for the settings of a reading statement have no use for an index.
CREATE FUNCTION plain_fingerprints_sql(condition text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format($q$SELECT iblt_f.oid AS id, encode(sha256(convert_to(concat(iblt_f.oid, ' ',
			iblt_f.relkind, iblt_f2.columns, (%1$s)), getdatabaseencoding())), 'hex') AS fingerprint
		FROM pg_class AS iblt_f LEFT JOIN (
			SELECT attrelid, string_agg(concat_ws(' ', '', attnum, atttypid, atttypmod,
				attcollation, attnotnull, octet_length(attname::text), attname), '' ORDER BY attnum)
			FROM pg_attribute WHERE attrelid %2$s AND attnum > 0 AND NOT attisdropped
			GROUP BY attrelid) AS iblt_f2(id, columns) ON iblt_f2.id = iblt_f.oid
		WHERE iblt_f.oid %2$s$q$,
		plain_call('relation_sources(ARRAY[iblt_f.oid::regclass])'), condition);

-- The expression of that of one relation, whose OID is the expression id.
CREATE FUNCTION plain_fingerprint_sql(id text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format('(SELECT fingerprint FROM (%s) AS iblt_f3)', plain_fingerprints_sql('= ' || id));
