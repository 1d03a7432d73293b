-- Live comparison ------------------------------------------------------------------
--
-- Functions named iblt_compare_* and iblt_peer_* are the steps of iblt_compare.
-- A plan (jsonb, of iblt_compare_plan) says what is compared and how; every
-- step is given the plan and the name of the connection to the peer, which is
-- NULL when both relations are in this database.  "here" and "there" are the
-- sides.  Statements are made of quoted identifiers and literals, and run under
-- search_path pg_catalog on both sides.

CREATE FUNCTION iblt_compare_template(capacity integer, key_size integer, seed bigint) RETURNS iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_compare_template(integer, integer, bigint) IS
'an empty sketch of at least that capacity, with as many sizes to fold to as there can be';

CREATE FUNCTION iblt_compare_refine(s iblt, evens iblt) RETURNS iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_compare_refine(iblt, iblt) IS
'a sketch with twice the cells, from a fold of it by two and its even cells (iblt_session_evens)';

CREATE FUNCTION iblt_compare_decode(s iblt, OUT complete boolean, OUT recovered bigint, OUT estimated bigint, OUT keys text[], OUT sides text[]) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_compare_decode(iblt) IS
'as iblt_decode_status, but "estimated" are keys; and, if complete, the keys in order, each once and in one word (the text of the key, or of an array of its columns), and the sides that they are on, of a difference "here - there"';

-- Arrays of equal length, of which some are NULL where they say nothing: one
-- large value is made while the other side makes its own, and parsed at once.
CREATE TYPE iblt_compare_rows AS (
	id text[],		-- hash and key in one word; NULL if the lines are the keys asked for, in order
	key jsonb[],	-- NULL then, too
	n bigint[],		-- rows with this key; NULL then, too
	digest text[],	-- of their contents; NULL then, too
	checksum bigint[],	-- then, of the row; NULL otherwise
	mark text[],	-- of their row versions
	content jsonb[],
	fingerprint text	-- of the relation that they are of (iblt_compare_fingerprint)
);
COMMENT ON TYPE iblt_compare_rows IS 'the rows of given keys on one side, one element a key';

CREATE TYPE iblt_difference AS (
	id text,
	key jsonb,
	side text,
	here jsonb,
	there jsonb,
	here_count bigint,
	there_count bigint,
	mark text,
	confirmed boolean
);
COMMENT ON TYPE iblt_difference IS 'a key whose rows differ, as the steps of iblt_compare hand it on';

-- Figures and progress

CREATE FUNCTION iblt_compare_stats(
	OUT relation text,
	OUT peer_relation text,
	OUT rows_here bigint,
	OUT rows_there bigint,
	OUT differences bigint,
	OUT unconfirmed bigint,
	OUT settled bigint,
	OUT key_columns text[],
	OUT columns text[],
	OUT columns_left_out text[],
	OUT messages bigint,
	OUT bytes_sent bigint,
	OUT bytes_received bigint,
	OUT sketch_bytes bigint,
	OUT scan_here_ms numeric,
	OUT scan_there_ms numeric,
	OUT scan_ms numeric,
	OUT lookup_ms numeric,
	OUT recheck_ms numeric,
	OUT total_ms numeric,
	OUT finished_at timestamptz)
RETURNS record
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	noted jsonb := nullif(current_setting('iblt.compare_stats', true), '')::jsonb;
BEGIN
	IF noted IS NULL OR NOT noted ? 'finished_at' THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'no iblt_compare has finished in this session';
	END IF;
	relation := noted ->> 'relation';
	peer_relation := noted ->> 'peer_relation';
	rows_here := noted ->> 'rows_here';
	rows_there := noted ->> 'rows_there';
	differences := noted ->> 'differences';
	unconfirmed := noted ->> 'unconfirmed';
	settled := noted ->> 'settled';
	key_columns := ARRAY(SELECT jsonb_array_elements_text(noted -> 'key_columns'));
	columns := ARRAY(SELECT jsonb_array_elements_text(noted -> 'columns'));
	columns_left_out := ARRAY(SELECT jsonb_array_elements_text(noted -> 'columns_left_out'));
	messages := coalesce(noted ->> 'messages', '0');
	bytes_sent := coalesce(noted ->> 'bytes_sent', '0');
	bytes_received := coalesce(noted ->> 'bytes_received', '0');
	sketch_bytes := coalesce(noted ->> 'sketch_bytes', '0');
	scan_here_ms := noted ->> 'scan_here_ms';
	scan_there_ms := noted ->> 'scan_there_ms';
	scan_ms := noted ->> 'scan_ms';
	lookup_ms := coalesce(noted ->> 'lookup_ms', '0');
	recheck_ms := coalesce(noted ->> 'recheck_ms', '0');
	total_ms := noted ->> 'total_ms';
	finished_at := noted ->> 'finished_at';
END
$$;
COMMENT ON FUNCTION iblt_compare_stats() IS
'figures of the last iblt_compare that finished in this session: rows, differences, messages, bytes, times';

CREATE FUNCTION iblt_compare_progress(plan jsonb, message text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (plan ->> 'progress')::boolean THEN
		RAISE NOTICE '%', message;
	ELSE
		RAISE DEBUG '%', message;
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_compare_progress(jsonb, text) IS 'says where a comparison is';

CREATE FUNCTION iblt_compare_ms(since timestamptz) RETURNS numeric
	LANGUAGE sql VOLATILE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT round(1000 * extract(epoch FROM clock_timestamp() - since)::numeric, 1)
$$;
COMMENT ON FUNCTION iblt_compare_ms(timestamptz) IS 'milliseconds since then';

-- What is compared

-- to_jsonb looks for casts to json of elements and fields too, a cast to text for
-- one of the column's type.  A superuser's functions are trusted, and one's own.
CREATE FUNCTION iblt_compare_cast_code(type oid, target regtype) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (WITH RECURSIVE part(oid) AS (
			SELECT type
			UNION
			SELECT x.oid FROM part JOIN pg_type t ON t.oid = part.oid, LATERAL (
				SELECT t.typbasetype WHERE t.typtype = 'd'
				UNION ALL
				SELECT t.typelem WHERE target = 'json'::regtype
				UNION ALL
				SELECT a.atttypid FROM pg_attribute a WHERE target = 'json'::regtype AND t.typtype = 'c'
					AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) AS x(oid)
			WHERE x.oid >= 16384
		)
		SELECT min(p.oid::regprocedure::text)
		FROM part JOIN pg_cast c ON c.castsource = part.oid AND c.casttarget = target
		JOIN pg_proc p ON p.oid = c.castfunc JOIN pg_roles r ON r.oid = p.proowner
		WHERE NOT r.rolsuper AND r.rolname <> current_user);
END
$$;
COMMENT ON FUNCTION iblt_compare_cast_code(oid, regtype) IS
'a function of another user that a value of the type would run on its way to json or text';

-- A checksum takes these types' text, and where they have a send function, what that
-- makes.  An extension may have one in some of its versions only (cube: from 1.5 on).
CREATE FUNCTION iblt_compare_textual(type oid) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (WITH RECURSIVE part(oid) AS (
			SELECT type
			UNION
			SELECT x.oid FROM part JOIN pg_type t ON t.oid = part.oid, LATERAL (
				SELECT t.typbasetype
				UNION ALL
				SELECT t.typelem
				UNION ALL
				SELECT a.atttypid FROM pg_attribute a WHERE t.typtype = 'c'
					AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
				UNION ALL
				-- PostgreSQL 13 has no multiranges
				SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN (r.rngtypid, (to_jsonb(r) ->> 'rngmultitypid')::oid)) AS x(oid)
			WHERE x.oid >= 16384
		)
		SELECT coalesce(jsonb_agg(DISTINCT t.typname), '[]')
		FROM part JOIN pg_type t ON t.oid = part.oid WHERE t.typtype = 'b' AND t.typsend = 0);
END
$$;
COMMENT ON FUNCTION iblt_compare_textual(oid) IS 'types without a send function that values of the type are made of';

-- What describes a relation runs on both sides, each with its own copy of the extension,
-- and in PL/pgSQL, which plans it once for all tables of an audit.
CREATE FUNCTION iblt_compare_describe_columns(relation regclass) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (SELECT coalesce(jsonb_agg(jsonb_build_object(
			'name', a.attname,
			'type', format_type(a.atttypid, CASE WHEN a.atttypid IN (1042, 1560, 1700) THEN a.atttypmod ELSE -1 END),
			'base', (WITH RECURSIVE base AS (
					SELECT oid, typtype, typbasetype FROM pg_type WHERE oid = a.atttypid
					UNION ALL
					SELECT t.oid, t.typtype, t.typbasetype FROM base JOIN pg_type t ON t.oid = base.typbasetype
						WHERE base.typtype = 'd')
				SELECT oid::bigint FROM base WHERE typtype <> 'd'),
			-- built-in types have only what PostgreSQL itself brings
			'textual', CASE WHEN a.atttypid >= 16384 THEN @extschema@.iblt_compare_textual(a.atttypid) ELSE '[]' END,
			'to_json', CASE WHEN a.atttypid >= 16384 THEN @extschema@.iblt_compare_cast_code(a.atttypid, 'json') END,
			'to_text', CASE WHEN a.atttypid >= 16384 THEN @extschema@.iblt_compare_cast_code(a.atttypid, 'text') END,
			'notnull', a.attnotnull) ORDER BY a.attnum), '[]')
		FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped);
END
$$;
COMMENT ON FUNCTION iblt_compare_describe_columns(regclass) IS 'columns of a relation, their types and what code these would run';

CREATE FUNCTION iblt_compare_describe_keys(relation regclass) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (SELECT coalesce(jsonb_agg(to_jsonb(u.columns) ORDER BY u.indisprimary DESC,
			cardinality(u.columns), u.indexrelid), '[]')
		FROM (SELECT i.indisprimary, i.indexrelid, ARRAY(
				SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS x(attnum, position)
				JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = x.attnum AND a.attnotnull
					-- from PostgreSQL 18 on, a constraint NOT VALID sets attnotnull
					AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = i.indrelid
						AND k.contype = 'n' AND NOT k.convalidated AND a.attnum = ANY (k.conkey))
				WHERE x.position <= i.indnkeyatts ORDER BY x.position) AS columns, i.indnkeyatts
			FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
			WHERE i.indrelid = relation AND i.indisunique AND i.indisvalid AND m.amname = 'btree'
			AND i.indpred IS NULL AND i.indexprs IS NULL) AS u
		WHERE cardinality(u.columns) = u.indnkeyatts);
END
$$;
COMMENT ON FUNCTION iblt_compare_describe_keys(regclass) IS 'columns of the unique indexes that can tell the rows of a relation apart, the best first';

CREATE FUNCTION iblt_compare_describe_replication(relation regclass) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (WITH RECURSIVE tree AS (
			SELECT relation::oid AS relid
			UNION
			SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.relid
		)
		SELECT jsonb_build_object(
			-- a standby's copies of its primary's slots (from 17 on) say nothing of itself
			'slots', (SELECT coalesce(jsonb_agg(s.slot_name), '[]') FROM pg_replication_slots s
				WHERE s.slot_type = 'logical' AND s.database = current_database()
				AND NOT (pg_is_in_recovery() AND coalesce((to_jsonb(s) ->> 'synced')::boolean, false))),
			'subscriptions', (SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object(
					'slot', s.subslotname, 'ready', r.srsubstate = 'r' AND s.subenabled)), '[]')
				FROM pg_subscription_rel r
				JOIN pg_stat_subscription st ON st.subid = r.srsubid
				JOIN pg_subscription s ON s.subname = st.subname AND s.subslotname IS NOT NULL
					AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
				WHERE r.srrelid IN (SELECT relid FROM tree UNION ALL SELECT relid FROM pg_partition_ancestors(relation)))));
END
$$;
COMMENT ON FUNCTION iblt_compare_describe_replication(regclass) IS
'slots of this database, and the subscriptions that feed a relation or a part of it';

-- DDL in flight
--
-- Describing a relation does not lock it, so another session may alter it, or give its
-- name to another one, before it is read.  Each statement that reads a relation
-- therefore returns the fingerprint of what it read as well, and if that is not the
-- fingerprint of what was described, the driver starts again.

CREATE FUNCTION iblt_compare_fingerprint(relation regclass) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION iblt_compare_fingerprint(regclass) IS
'a hash of the identity of a relation and of its columns, as the statement that calls it reads them';

-- The same from the catalogs: it is of the snapshot that the rest of a description is of.
CREATE FUNCTION iblt_compare_describe_fingerprint(relation regclass) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (SELECT encode(sha256(convert_to(concat(format('%s %s %s', c.oid, c.relkind, c.relam),
			(SELECT string_agg(concat(E'\n', concat_ws(' ', a.attnum, a.atttypid, a.atttypmod, a.attnotnull::integer,
				ascii(a.attidentity::text), ascii(a.attgenerated::text), octet_length(a.attname::text), a.attname)), '' ORDER BY a.attnum)
			FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)), getdatabaseencoding())), 'hex')
		FROM pg_class c WHERE c.oid = relation);
END
$$;
COMMENT ON FUNCTION iblt_compare_describe_fingerprint(regclass) IS
'what iblt_compare_fingerprint gives, as of the snapshot in which the relation is described';

-- The parser looks the name up once it has the lock on the relation in FROM.
CREATE FUNCTION iblt_compare_fingerprint_sql(plan jsonb, side text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('%s.iblt_compare_fingerprint(%L::pg_catalog.regclass)', plan -> side ->> 'schema', plan -> side ->> 'relation')
$$;
COMMENT ON FUNCTION iblt_compare_fingerprint_sql(jsonb, text) IS
'the expression of a fingerprint, for a statement that has the side''s relation in FROM';

CREATE FUNCTION iblt_compare_refuse_altered(relation text, side text, detail text DEFAULT '') RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'IB004', DETAIL = detail,
		MESSAGE = format('relation %s was altered while it was compared (%s)', relation, side),
		HINT = CASE current_setting('transaction_isolation') WHEN 'read committed' THEN 'Compare when no other session alters, renames or drops it.'
			ELSE 'Begin another transaction. This one sees the columns of its snapshot, and reads those that the relation has now.' END;
END
$$;
COMMENT ON FUNCTION iblt_compare_refuse_altered(text, text, text) IS 'the error for a relation that is not what was described';

CREATE FUNCTION iblt_compare_require_described(plan jsonb, here text, there text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF here IS DISTINCT FROM plan -> 'here' ->> 'fingerprint' THEN
		PERFORM @extschema@.iblt_compare_refuse_altered(plan -> 'here' ->> 'relation', 'here');
	ELSIF there IS DISTINCT FROM plan -> 'there' ->> 'fingerprint' THEN
		PERFORM @extschema@.iblt_compare_refuse_altered(plan -> 'there' ->> 'relation', 'there');
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_compare_require_described(jsonb, text, text) IS
'an error unless the fingerprints of what was read on both sides are those of what was described';

-- A comparison reads a relation several times, and on two servers.
CREATE FUNCTION iblt_compare_check_condition(relation regclass, condition text) RETURNS oid[]
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION iblt_compare_check_condition(regclass, text) IS
'an error unless a condition is a property of the row alone; the collations that it depends on';

-- The database's own collation is that of OID 100.  "C" and "POSIX" order by bytes
-- everywhere.  Some columns have other names, or are not there, in other releases.
CREATE FUNCTION iblt_compare_describe_collations(collations oid[]) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	own jsonb := (SELECT to_jsonb(d) FROM pg_database d WHERE d.datname = current_database());
	own_version text;
BEGIN
	IF collations = '{}' THEN
		RETURN '[]';
	ELSIF current_setting('server_version_num')::integer >= 150000 THEN
		own_version := pg_database_collation_actual_version((own ->> 'oid')::oid);
	ELSE
		own_version := (SELECT max(pg_collation_actual_version(c.oid)) FROM pg_collation c
			WHERE c.collprovider = 'c' AND c.collcollate = own ->> 'datcollate');
	END IF;
	RETURN (SELECT coalesce(jsonb_agg(DISTINCT CASE WHEN sorts IN ('C', 'POSIX') AND folds IN ('C', 'POSIX') THEN 'C'
			ELSE regexp_replace(concat_ws(' ', provider, sorts, nullif(folds, sorts), version), 'utf-?8', 'UTF-8', 'gi') END), '[]')
		FROM unnest(collations) AS o(id) JOIN pg_collation c ON c.oid = o.id,
		LATERAL (SELECT CASE o.id WHEN 100 THEN own ELSE to_jsonb(c) END) AS r(j),
		LATERAL (SELECT coalesce(j ->> 'datlocprovider', j ->> 'collprovider', 'c'),
			coalesce(j ->> 'datlocale', j ->> 'daticulocale', j ->> 'colllocale', j ->> 'colliculocale'),
			CASE o.id WHEN 100 THEN own_version ELSE pg_collation_actual_version(o.id) END) AS x(provider, locale, version),
		LATERAL (SELECT coalesce(locale, j ->> 'datcollate', j ->> 'collcollate'),
			coalesce(locale, j ->> 'datctype', j ->> 'collctype')) AS y(sorts, folds));
END
$$;
COMMENT ON FUNCTION iblt_compare_describe_collations(oid[]) IS 'provider, locale and version of collations';

CREATE FUNCTION iblt_compare_check_collations(here jsonb, there jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF here <> '[]' AND there <> '[]' AND here <> there THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = 'the condition depends on collations that differ between the sides',
			DETAIL = format('%s here, %s on the peer.', here, there),
			HINT = 'Write COLLATE "C" behind the columns that it compares.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_compare_check_collations(jsonb, jsonb) IS 'an error if the conditions of both sides depend on collations, and not on the same';

CREATE FUNCTION iblt_compare_describe(relation regclass, condition text DEFAULT NULL) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (WITH RECURSIVE tree AS (
			SELECT relation::oid AS relid
			UNION
			SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.relid
		), leaf AS (
			SELECT l.oid, am.amname FROM tree JOIN pg_class l ON l.oid = tree.relid AND l.relkind <> 'p'
				LEFT JOIN pg_am am ON am.oid = l.relam
		)
		SELECT jsonb_build_object(
			'relation', format('%I.%I', n.nspname, c.relname),
			'schema', '@extschema@',
			'system', CASE WHEN has_function_privilege('pg_control_system()', 'execute')
				THEN (SELECT system_identifier::text FROM pg_control_system()) END,
			'recovery', pg_is_in_recovery(),
			-- the same for this relation of this server alone
			'identity', concat_ws(' ', pg_postmaster_start_time(), (SELECT oid FROM pg_database WHERE datname = current_database()), c.oid),
			'fingerprint', @extschema@.iblt_compare_describe_fingerprint(relation),
			'kind', c.relkind,
			'plain', c.relkind IN ('r', 'p') AND NOT (c.relkind = 'r' AND c.relhassubclass),
			'versions', NOT EXISTS (SELECT FROM leaf WHERE amname IS DISTINCT FROM 'heap'),
			-- rights to columns alone are no rights to these (which views do not have); without
			-- any right it is reading that says what is missing
			'version_rights', c.relkind IN ('r', 'p') AND (NOT has_any_column_privilege(relation, 'SELECT')
				OR (SELECT bool_and(has_column_privilege(relation, name, 'SELECT')) FROM unnest('{tableoid,ctid,xmin}'::text[]) AS name)),
			-- a heap page holds at most a tuple for each 28 bytes
			'most_rows', (SELECT CASE WHEN bool_and(coalesce(amname = 'heap', false))
				THEN sum(pg_relation_size(oid) / 28) END FROM leaf),
			'columns', @extschema@.iblt_compare_describe_columns(relation),
			'keys', @extschema@.iblt_compare_describe_keys(relation),
			'collations', CASE WHEN condition IS NULL THEN '[]'
				ELSE @extschema@.iblt_compare_describe_collations(@extschema@.iblt_compare_check_condition(relation, condition)) END)
			|| @extschema@.iblt_compare_describe_replication(relation)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
END
$$;
COMMENT ON FUNCTION iblt_compare_describe(regclass, text) IS
'columns, keys, size and replication of a relation, as iblt_compare wants to know them of both sides; an error for a condition that looks beyond the row';

CREATE FUNCTION iblt_compare_describe_peer(conn text, relation text, condition text DEFAULT NULL) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mine text := (SELECT extversion FROM pg_extension WHERE extname = 'iblt');
	schema text;
	version text;
	answer text;
BEGIN
	answer := @extschema@.iblt_peer_ask(conn, 'there', format(
		'SELECT pg_catalog.json_build_array(pg_catalog.quote_ident(n.nspname), e.extversion, pg_catalog.to_regclass(%L)::pg_catalog.oid)
		FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = ''iblt''',
		relation));
	schema := answer::json ->> 0;
	version := answer::json ->> 1;
	IF version IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'extension iblt is not installed in the peer''s database',
			HINT = 'CREATE EXTENSION iblt there as well.';
	ELSIF version <> mine THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('extension iblt is version %s here and version %s on the peer', mine, version),
			HINT = 'ALTER EXTENSION iblt UPDATE on the side with the older one.';
	ELSIF answer::json ->> 2 IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_table',
			MESSAGE = format('relation %s does not exist on the peer', relation),
			HINT = 'If its name is another one there, give it as peer_relation, with its schema.';
	END IF;
	RETURN @extschema@.iblt_peer_ask(conn, 'there', format('SELECT %s.iblt_compare_describe(%s::pg_catalog.oid, %L)',
		schema, answer::json ->> 2, condition));
END
$$;
COMMENT ON FUNCTION iblt_compare_describe_peer(text, text, text) IS
'the peer''s relation, after a look at the version of iblt there';

-- The type that both sides' values are cast to; '' if that is not needed.
CREATE FUNCTION iblt_compare_cast(here jsonb, there jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE
		-- a domain of one name may be over different types
		WHEN here -> 'type' = there -> 'type' AND (h = t OR least(h, t) >= 16384)
			AND here -> 'textual' = there -> 'textual' THEN ''
		WHEN h IN (20, 21, 23) AND t IN (20, 21, 23) THEN 'int8'
		WHEN h IN (20, 21, 23, 1700) AND t IN (20, 21, 23, 1700) THEN 'numeric'
		WHEN h IN (700, 701) AND t IN (700, 701) THEN 'float8'
		ELSE 'text' END
	FROM (SELECT (here ->> 'base')::bigint AS h, (there ->> 'base')::bigint AS t) AS base
$$;
COMMENT ON FUNCTION iblt_compare_cast(jsonb, jsonb) IS
'the type in which values of two columns can be compared without a loss';

CREATE FUNCTION iblt_compare_refuse_names(names text[], message text, hint text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF cardinality(names) > 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_column', HINT = hint,
			MESSAGE = format(message, (SELECT string_agg(format('"%s"', name), ', ') FROM unnest(names) AS name));
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_compare_refuse_names(text[], text, text) IS 'an error that names columns, if there are any';

-- The columns of both, in the order of this side, but for those excluded.
CREATE FUNCTION iblt_compare_common(here jsonb, there jsonb, options jsonb) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	excluded text[] := ARRAY(SELECT jsonb_array_elements_text(coalesce(options -> 'exclude', '[]')));
	asked text[] := ARRAY(SELECT jsonb_array_elements_text(
		coalesce(options -> 'columns', '[]') || coalesce(options -> 'key_columns', '[]')));
	mine text[] := ARRAY(SELECT c ->> 'name' FROM jsonb_array_elements(here -> 'columns') AS c);
	theirs text[] := ARRAY(SELECT c ->> 'name' FROM jsonb_array_elements(there -> 'columns') AS c);
BEGIN
	PERFORM @extschema@.iblt_compare_refuse_names(
		ARRAY(SELECT x FROM unnest(excluded) AS x WHERE x <> ALL (mine) AND x <> ALL (theirs)),
		'excluded columns are on neither side: %s', 'Names are case-sensitive.');
	PERFORM @extschema@.iblt_compare_refuse_names(
		ARRAY(SELECT x FROM unnest(asked) AS x WHERE x <> ALL (mine)), 'columns are not here: %s', 'Names are case-sensitive.');
	PERFORM @extschema@.iblt_compare_refuse_names(
		ARRAY(SELECT x FROM unnest(asked) AS x WHERE x <> ALL (theirs)), 'columns are not on the peer: %s', 'Names are case-sensitive; what is compared must be on both sides.');
	PERFORM @extschema@.iblt_compare_refuse_names(
		ARRAY(SELECT x FROM unnest(asked) AS x WHERE x = ANY (excluded)), 'columns are both asked for and excluded: %s', 'Name them in one of the lists.');
	RETURN (SELECT coalesce(jsonb_agg(jsonb_build_object('name', h ->> 'name', 'here', h ->> 'type', 'there', t ->> 'type',
			'base', h -> 'base', 'peer_base', t -> 'base', 'textual', h -> 'textual', 'peer_textual', t -> 'textual',
			'cast', @extschema@.iblt_compare_cast(h, t),
			'notnull', (h ->> 'notnull')::boolean AND (t ->> 'notnull')::boolean) ORDER BY position), '[]')
		FROM jsonb_array_elements(here -> 'columns') WITH ORDINALITY AS a(h, position)
		JOIN jsonb_array_elements(there -> 'columns') AS b(t) ON h ->> 'name' = t ->> 'name'
		WHERE h ->> 'name' <> ALL (excluded));
END
$$;
COMMENT ON FUNCTION iblt_compare_common(jsonb, jsonb, jsonb) IS 'the columns that both relations have';

-- Columns on one side only: named in an error or a warning, unless told otherwise.
CREATE FUNCTION iblt_compare_extra(here jsonb, there jsonb, options jsonb) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	extra jsonb;
	message text;
BEGIN
	IF options -> 'columns' IS NOT NULL THEN
		RETURN '[]';
	END IF;
	SELECT coalesce(jsonb_agg(name), '[]'),
		concat_ws('; ', 'only here: ' || string_agg(format('"%s"', name), ', ') FILTER (WHERE mine),
			'only on the peer: ' || string_agg(format('"%s"', name), ', ') FILTER (WHERE NOT mine))
	INTO extra, message FROM (
		SELECT name, bool_or(mine) AS mine FROM (
			SELECT c ->> 'name' AS name, true AS mine FROM jsonb_array_elements(here -> 'columns') AS c
			UNION ALL
			SELECT c ->> 'name', false FROM jsonb_array_elements(there -> 'columns') AS c) AS each
		GROUP BY name HAVING count(*) = 1) AS single
	WHERE NOT coalesce(options -> 'exclude', '[]') ? name;
	IF extra <> '[]' AND options ->> 'extra_columns' = 'error' THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_column',
			MESSAGE = 'columns exist on one side only', DETAIL = message,
			HINT = 'Exclude them, or set extra_columns => ''warn'' or ''ignore''.';
	ELSIF extra <> '[]' AND options ->> 'extra_columns' = 'warn' THEN
		RAISE WARNING USING MESSAGE = format('columns on one side only are not compared (%s)', message),
			HINT = 'extra_columns => ''error'' or ''ignore'' makes this an error, or silences it.';
	END IF;
	RETURN extra;
END
$$;
COMMENT ON FUNCTION iblt_compare_extra(jsonb, jsonb, jsonb) IS 'columns that only one relation has';

-- Names of the key's columns: as asked, or of a unique index here or there, or none.
CREATE FUNCTION iblt_compare_key_names(here jsonb, there jsonb, common jsonb, asked jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(asked, (
		SELECT names FROM (
			SELECT key, position, 1 FROM jsonb_array_elements(here -> 'keys') WITH ORDINALITY AS h(key, position)
			UNION ALL
			SELECT key, position, 2 FROM jsonb_array_elements(there -> 'keys') WITH ORDINALITY AS t(key, position)
		) AS candidate(names, position, side)
		WHERE (SELECT bool_and(common @> jsonb_build_array(jsonb_build_object('name', name)))
			FROM jsonb_array_elements_text(names) AS name)
		ORDER BY side, position LIMIT 1))
$$;
COMMENT ON FUNCTION iblt_compare_key_names(jsonb, jsonb, jsonb, jsonb) IS
'the columns that identify a row; NULL for a whole row';

-- bare: neither relation has a column, so they are equal if they have as many rows.
CREATE FUNCTION iblt_compare_check_types(columns jsonb, cast_types boolean, bare boolean) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	problems text := (SELECT string_agg(format('"%s" is %s here and %s on the peer%s', c ->> 'name', c ->> 'here', c ->> 'there',
		CASE WHEN c -> 'here' <> c -> 'there' THEN ''
			WHEN c -> 'textual' <> c -> 'peer_textual' THEN ', which has a send function on one side only'
			ELSE ', which is made of another type there' END), '; ')
		FROM jsonb_array_elements(columns) AS c WHERE c ->> 'cast' <> '');
BEGIN
	IF columns = '[]' AND NOT bare THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_column', MESSAGE = 'the relations have no columns to compare';
	ELSIF problems IS NOT NULL AND NOT cast_types THEN
		RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch',
			MESSAGE = 'column types differ: ' || problems,
			HINT = 'With cast_types => true, numbers are compared by value and all else as text; exclude leaves a column out.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_compare_check_types(jsonb, boolean, boolean) IS 'an error that names the columns of different types';

-- Bytes of a canonical key of these columns, if every one has a fixed width, one
-- representation for each value (unlike -0 and 0 of floating-point types),
-- and can be looked up through an index whatever its collation; or NULL.
CREATE FUNCTION iblt_compare_key_size(key jsonb) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN bool_and(width IS NOT NULL) THEN sum(width)::integer END FROM (
		SELECT CASE WHEN NOT (c ->> 'notnull')::boolean THEN NULL
			WHEN c ->> 'cast' = 'int8' THEN 9
			WHEN c ->> 'cast' = '' AND c -> 'base' = c -> 'peer_base' THEN
				('{"16": 2, "18": 2, "20": 9, "21": 3, "23": 5, "26": 5, "774": 9, "829": 7,
				"1082": 5, "1083": 9, "1114": 9, "1184": 9, "1266": 13, "2950": 17}'::jsonb
				->> (c ->> 'base'))::integer END
		FROM jsonb_array_elements(key) AS c) AS column_of(width)
$$;
COMMENT ON FUNCTION iblt_compare_key_size(jsonb) IS 'bytes that a key of these columns takes in a sketch, if it can be kept there';

-- What connects the sides: a list of directions in which changes flow.
CREATE FUNCTION iblt_compare_links(here jsonb, there jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	WITH direction(source, follower, from_side, to_side) AS (
		VALUES ('here', 'there', here, there), ('there', 'here', there, here)
	), link AS (
		SELECT jsonb_build_object('source', source, 'follower', follower, 'slot', s -> 'slot',
			'ready', (s ->> 'ready')::boolean AND NOT (to_side ->> 'recovery')::boolean) AS l
		FROM direction, jsonb_array_elements(to_side -> 'subscriptions') AS s
		WHERE from_side -> 'slots' ? (s ->> 'slot')
		UNION ALL
		-- It may be a standby of the publisher, which the subscriber may be ahead of.
		SELECT jsonb_build_object('source', source, 'follower', follower, 'slot', s -> 'slot', 'ready', false)
		FROM direction, jsonb_array_elements(to_side -> 'subscriptions') AS s
		WHERE (from_side ->> 'recovery')::boolean AND NOT from_side -> 'slots' ? (s ->> 'slot')
			AND coalesce(from_side ->> 'system' <> to_side ->> 'system', true)
		UNION ALL
		SELECT jsonb_build_object('source', source, 'follower', follower, 'slot', NULL, 'ready', true)
		FROM direction WHERE from_side ->> 'system' = to_side ->> 'system' AND (to_side ->> 'recovery')::boolean
	)
	SELECT coalesce(jsonb_agg(DISTINCT l), '[]') FROM link
$$;
COMMENT ON FUNCTION iblt_compare_links(jsonb, jsonb) IS
'logical subscriptions and physical replication between the sides of a comparison';

CREATE FUNCTION iblt_compare_refuse_code(plan jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	problems text := (SELECT string_agg(format('"%s" runs %s (%s)', c ->> 'name', x.code, side), ', ')
		FROM unnest('{here,there}'::text[]) AS side, jsonb_array_elements(plan -> side -> 'columns') AS c
		JOIN jsonb_array_elements(plan -> 'columns') AS used ON used ->> 'name' = c ->> 'name',
		LATERAL (SELECT coalesce(CASE WHEN used ->> 'cast' = 'text' THEN c ->> 'to_text' END,
			CASE WHEN (plan ->> 'rows')::boolean OR (plan ->> 'by_hash')::boolean AND plan -> 'key' @> jsonb_build_array(used)
				THEN c ->> 'to_json' END)) AS x(code)
		WHERE x.code IS NOT NULL);
BEGIN
	IF problems IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'columns would run code of other users: ' || problems,
			HINT = 'Exclude them; or, if they are no part of the key, do without rows => true and cast_types => true.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_compare_refuse_code(jsonb) IS 'an error that names columns whose way to json or text is not to be trusted';

CREATE FUNCTION iblt_compare_require_version_rights(plan jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	side text;
BEGIN
	FOREACH side IN ARRAY ARRAY['here', 'there'] LOOP
		IF NOT (plan -> side ->> 'version_rights')::boolean THEN
			RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
				MESSAGE = format('permission denied for row versions of %s (%s)', plan -> side ->> 'relation', side),
				DETAIL = 'To confirm differences, the system columns tableoid, ctid and xmin are read.',
				HINT = 'Grant SELECT on the table, or on these columns, too; or use recheck => 0.';
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_compare_require_version_rights(jsonb) IS 'an error if a side''s row versions may not be read';

CREATE FUNCTION iblt_compare_plan(here jsonb, there jsonb, options jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	common jsonb := @extschema@.iblt_compare_common(here, there, options);
	names jsonb := @extschema@.iblt_compare_key_names(here, there, common, options -> 'key_columns');
	extra jsonb := @extschema@.iblt_compare_extra(here, there, options);
	links jsonb := @extschema@.iblt_compare_links(here, there);
	columns jsonb;
	key jsonb;
	size integer;
	looks integer := coalesce((options ->> 'recheck')::integer, CASE WHEN links = '[]' THEN 0 ELSE 5 END);
	is_unique boolean;
BEGIN
	SELECT coalesce(jsonb_agg(c ORDER BY position), '[]') INTO columns
		FROM jsonb_array_elements(common) WITH ORDINALITY AS a(c, position)
		WHERE options -> 'columns' IS NULL OR (options -> 'columns') ? (c ->> 'name') OR names ? (c ->> 'name');
	PERFORM @extschema@.iblt_compare_check_types(columns, (options ->> 'cast_types')::boolean,
		here -> 'columns' = '[]' AND there -> 'columns' = '[]');
	SELECT jsonb_agg(c ORDER BY n.position) INTO key
		FROM jsonb_array_elements_text(names) WITH ORDINALITY AS n(name, position)
		JOIN jsonb_array_elements(columns) AS c ON c ->> 'name' = n.name;
	is_unique := (here ->> 'plain')::boolean AND (there ->> 'plain')::boolean
		AND EXISTS (SELECT FROM jsonb_array_elements(here -> 'keys') AS k WHERE k @> names AND k <@ names)
		AND EXISTS (SELECT FROM jsonb_array_elements(there -> 'keys') AS k WHERE k @> names AND k <@ names);
	size := CASE WHEN is_unique THEN @extschema@.iblt_compare_key_size(key) END;
	options := options || jsonb_build_object('here', here || jsonb_build_object('condition', options -> 'condition'),
		'there', there || jsonb_build_object('condition', options -> 'peer_condition'),
		'columns', columns, 'key', coalesce(key, columns), 'whole_row', key IS NULL, 'extra', extra,
		'unique', is_unique, 'links', links, 'recheck', looks,
		'by_hash', size IS NULL OR size > 32, 'key_size', least(coalesce(size, 8), 32),
		'versions', looks > 0 AND (here ->> 'versions')::boolean AND (there ->> 'versions')::boolean);
	PERFORM @extschema@.iblt_compare_refuse_code(options);
	RETURN options;
END
$$;
COMMENT ON FUNCTION iblt_compare_plan(jsonb, jsonb, jsonb) IS
'what iblt_compare is to do: columns and their casts, key, replication between the sides, options';

-- The statements

CREATE FUNCTION iblt_compare_expression(c jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE c ->> 'cast'
		WHEN '' THEN format('t.%I', c ->> 'name')
		WHEN 'numeric' THEN format('pg_catalog.trim_scale(t.%I::pg_catalog.numeric)', c ->> 'name')
		ELSE format('t.%I::pg_catalog.%s', c ->> 'name', c ->> 'cast') END
$$;
COMMENT ON FUNCTION iblt_compare_expression(jsonb) IS 'a column''s value as it is compared';

-- A function takes 100 arguments; a row has room for more columns.  A sole column
-- is in a row, too, for it may bear the name t.  Without columns, all rows are the same.
CREATE FUNCTION iblt_compare_checksum(plan jsonb, side text, columns jsonb, seed bigint) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format(CASE WHEN count(*) NOT BETWEEN 2 AND 90 THEN '%s.iblt_checksum_seeded(%L::pg_catalog.int8, ROW(%s))'
			ELSE '%s.iblt_checksum_seeded(%L::pg_catalog.int8, %s)' END, plan -> side ->> 'schema', seed,
		coalesce(string_agg(@extschema@.iblt_compare_expression(c), ', ' ORDER BY position), 'NULL::pg_catalog.text'))
	FROM jsonb_array_elements(columns) WITH ORDINALITY AS a(c, position)
$$;
COMMENT ON FUNCTION iblt_compare_checksum(jsonb, text, jsonb, bigint) IS 'the expression of a checksum of columns';

CREATE FUNCTION iblt_compare_content_checksum(plan jsonb, side text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT @extschema@.iblt_compare_checksum(plan, side, plan -> 'columns', (plan ->> 'seed')::bigint)
$$;
COMMENT ON FUNCTION iblt_compare_content_checksum(jsonb, text) IS 'the expression of a row''s checksum';

-- The hash that stands for a key too wide for a cell has a seed of its own.
CREATE FUNCTION iblt_compare_key_hash(plan jsonb, side text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT @extschema@.iblt_compare_checksum(plan, side, plan -> 'key', (plan ->> 'seed')::bigint # 1)
$$;
COMMENT ON FUNCTION iblt_compare_key_hash(jsonb, text) IS 'the expression of a key''s hash';

CREATE FUNCTION iblt_compare_condition(plan jsonb, side text, word text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	-- the line break ends a comment in the condition
	SELECT coalesce(' ' || word || ' (' || (plan -> side ->> 'condition') || E'\n)', '')
$$;
COMMENT ON FUNCTION iblt_compare_condition(jsonb, text, text) IS 'the condition on the rows of a side, behind WHERE or AND';

-- A condition may name any column without its table, so it stands in a subquery of
-- its own, where it sees no column but the relation's.  The planner pulls that up.
-- Only the columns in use are listed: there may be no right to read the others.
CREATE FUNCTION iblt_compare_rows_sql(plan jsonb, side text, more text[] DEFAULT '{}') RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN plan -> side ->> 'condition' IS NULL THEN format('%s AS t', plan -> side ->> 'relation')
	ELSE format('(SELECT %s FROM %s AS t%s) AS t', (SELECT string_agg(format('t.%I', name), ', ') FROM (
			SELECT c ->> 'name' FROM jsonb_array_elements(plan -> 'columns') AS c
			UNION
			SELECT unnest(CASE WHEN (plan ->> 'versions')::boolean THEN '{tableoid,ctid,xmin}' || more ELSE more END)) AS used(name)),
		plan -> side ->> 'relation', @extschema@.iblt_compare_condition(plan, side, 'WHERE')) END
$$;
COMMENT ON FUNCTION iblt_compare_rows_sql(jsonb, text, text[]) IS
'the rows t of a side that its condition is true of, as an item of FROM; with system columns and others if they are named';

CREATE FUNCTION iblt_compare_sketch_sql(plan jsonb, side text, capacity integer) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('%1$s.iblt_agg(%2$s, %3$s, %1$s.iblt_compare_template(%4$s, %5$s, %6$L)), %9$s FROM %7$s AS t%8$s',
		plan -> side ->> 'schema',
		CASE WHEN (plan ->> 'by_hash')::boolean THEN @extschema@.iblt_compare_key_hash(plan, side)
			WHEN jsonb_array_length(plan -> 'key') = 1 THEN @extschema@.iblt_compare_expression(plan -> 'key' -> 0)
			ELSE (SELECT format('ROW(%s)', string_agg(@extschema@.iblt_compare_expression(c), ', ' ORDER BY position))
				FROM jsonb_array_elements(plan -> 'key') WITH ORDINALITY AS a(c, position)) END,
		@extschema@.iblt_compare_content_checksum(plan, side), capacity, plan ->> 'key_size', plan ->> 'seed',
		plan -> side ->> 'relation', @extschema@.iblt_compare_condition(plan, side, 'WHERE'),
		@extschema@.iblt_compare_fingerprint_sql(plan, side))
$$;
COMMENT ON FUNCTION iblt_compare_sketch_sql(jsonb, text, integer) IS
'the sketch of a side and the fingerprint, as the rest of a SELECT';

CREATE FUNCTION iblt_compare_key_type(c jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE c ->> 'cast' WHEN '' THEN format_type((c ->> 'base')::oid, -1) ELSE c ->> 'cast' END
$$;
COMMENT ON FUNCTION iblt_compare_key_type(jsonb) IS 'the type that values of a key column are given as';

CREATE FUNCTION iblt_compare_json_sql(columns jsonb, as_compared boolean) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('(SELECT to_jsonb(iblt_j.*) FROM (SELECT %s) AS iblt_j)', string_agg(format('%s AS %I',
		CASE WHEN as_compared THEN @extschema@.iblt_compare_expression(c) ELSE format('t.%I', c ->> 'name') END,
		c ->> 'name'), ', ' ORDER BY position))
	FROM jsonb_array_elements(columns) WITH ORDINALITY AS a(c, position)
$$;
COMMENT ON FUNCTION iblt_compare_json_sql(jsonb, boolean) IS 'columns of t as a jsonb object';

CREATE FUNCTION iblt_compare_key_parts(plan jsonb) RETURNS TABLE ("position" bigint, name text, type text, value text)
	LANGUAGE sql STABLE PARALLEL SAFE ROWS 4
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT position, name, type, format('%s::%s', CASE width WHEN 1 THEN 'id' ELSE format('(id::text[])[%s]', position) END, type)
	FROM (SELECT c ->> 'name', @extschema@.iblt_compare_key_type(c), position, jsonb_array_length(plan -> 'key')
		FROM jsonb_array_elements(plan -> 'key') WITH ORDINALITY AS a(c, position)) AS column_of(name, type, position, width)
$$;
COMMENT ON FUNCTION iblt_compare_key_parts(jsonb) IS 'the columns of a key, and the expression of each from the key in one word, in the column id';

-- Keys are looked up by one word each: the text of the key's column, of an array
-- of its columns (types of fixed width have one text for each value), or of its
-- hash.  The planner knows nothing of the values in an array, and would read the
-- whole relation for a few per cent of its rows.  Of groups, and of an array that
-- a subquery gives, it expects few: it takes the index, or hashes the keys, and not
-- the relation, where there is none.  Keys are in order already, and hashes may be
-- there more than once.
CREATE FUNCTION iblt_compare_keys_sql(plan jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN (plan ->> 'by_hash')::boolean THEN
		'(SELECT id::int8 AS iblt_k1, min(n) AS iblt_n FROM unnest($1) WITH ORDINALITY AS iblt_u(id, n)'
			' GROUP BY 1 ORDER BY 1) AS iblt_k'
	WHEN count(*) = 1 THEN format('unnest((SELECT $1::%s[])) WITH ORDINALITY AS iblt_k (iblt_k1, iblt_n)', min(type))
	ELSE format('(SELECT %s, n AS iblt_n FROM unnest((SELECT $1)) WITH ORDINALITY AS iblt_u(id, n)) AS iblt_k',
		string_agg(format('%s AS iblt_k%s', value, position), ', ' ORDER BY position)) END
	FROM @extschema@.iblt_compare_key_parts(plan)
$$;
COMMENT ON FUNCTION iblt_compare_keys_sql(jsonb) IS
'the keys in $1 as a table iblt_k (iblt_k1, ..., iblt_n): values of their columns, or hashes, and their places in the list';

-- Of an answer's id, the key is the first word where it is a hash.  Other keys are
-- put into an order that is always the same, since rows are locked in it.
CREATE FUNCTION iblt_compare_id_keys(plan jsonb, ids text[]) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN (plan ->> 'by_hash')::boolean THEN ARRAY(SELECT split_part(id, ' ', 1) FROM unnest(ids) AS id)
		ELSE ARRAY(SELECT id FROM unnest(ids) AS id ORDER BY id COLLATE "C") END
$$;
COMMENT ON FUNCTION iblt_compare_id_keys(jsonb, text[]) IS 'what keys of answers are looked up by';

CREATE FUNCTION iblt_compare_match_sql(plan jsonb, side text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN (plan ->> 'by_hash')::boolean THEN @extschema@.iblt_compare_key_hash(plan, side) || ' = iblt_k.iblt_k1'
		ELSE string_agg(format('t.%I = iblt_k.iblt_k%s', c ->> 'name', position), ' AND ' ORDER BY position) END
	FROM jsonb_array_elements(plan -> 'key') WITH ORDINALITY AS a(c, position)
$$;
COMMENT ON FUNCTION iblt_compare_match_sql(jsonb, text) IS 'the condition that a row t is of a key in iblt_k';

-- The jsonb of a key, in the column id.  An integer's text is that in json, too,
-- which is faster to read than what jsonb_build_object makes of a value.
CREATE FUNCTION iblt_compare_id_json_sql(plan jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN count(*) = 1 AND min(type) IN ('smallint', 'integer', 'bigint', 'int8') THEN
		format('(%L || id || ''}'')::jsonb', format('{%s: ', to_json(min(name))))
	ELSE format('jsonb_build_object(%s)', string_agg(format('%L, %s', name, value), ', ' ORDER BY position)) END
	FROM @extschema@.iblt_compare_key_parts(plan)
$$;
COMMENT ON FUNCTION iblt_compare_id_json_sql(jsonb) IS 'the expression of a key as jsonb, from the key in one word';

CREATE FUNCTION iblt_compare_mark_sql(plan jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN (plan ->> 'versions')::boolean
		THEN 'hashtextextended(concat(t.tableoid, t.ctid, t.xmin), 0)' ELSE '0' END
$$;
COMMENT ON FUNCTION iblt_compare_mark_sql(jsonb) IS 'the expression of a row''s version, as a number';

CREATE FUNCTION iblt_compare_content_sql(plan jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN plan ? 'texts' THEN @extschema@.iblt_repair_content_sql(plan)
		WHEN (plan ->> 'rows')::boolean THEN @extschema@.iblt_compare_json_sql(plan -> 'columns', false)
		ELSE 'NULL::jsonb' END
$$;
COMMENT ON FUNCTION iblt_compare_content_sql(jsonb) IS
'the expression of a row''s contents for the answer, or as iblt_repair wants them';

-- Keys that are unique and kept as they are: one line each, found or not.  A
-- column of such a key is not null, so null says that there is no row.
CREATE FUNCTION iblt_compare_unique_sql(plan jsonb, side text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SELECT CASE WHEN %1$s IS NOT NULL THEN %2$s END AS digest, %3$s::text AS mark,'
			' CASE WHEN %1$s IS NOT NULL THEN %4$s END AS content FROM %5$s LEFT JOIN %6$s ON %7$s ORDER BY iblt_k.iblt_n',
		format('t.%I', plan -> 'key' -> 0 ->> 'name'), @extschema@.iblt_compare_content_checksum(plan, side),
		@extschema@.iblt_compare_mark_sql(plan),
		format(CASE WHEN plan ? 'texts' THEN 'jsonb_build_array(jsonb_build_array(1, %s))' ELSE '%s' END,
			@extschema@.iblt_compare_content_sql(plan)),
		@extschema@.iblt_compare_keys_sql(plan), @extschema@.iblt_compare_rows_sql(plan, side),
		@extschema@.iblt_compare_match_sql(plan, side))
$$;
COMMENT ON FUNCTION iblt_compare_unique_sql(jsonb, text) IS
'a query for the rows of the unique keys in $1 on a side, one line a key, found or not';

-- Other keys, found by their hash: a line for each key that has rows.  Equal rows
-- are counted, and different ones of a key are digested in order.
CREATE FUNCTION iblt_compare_groups_sql(plan jsonb, side text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SELECT id, key, sum(n)::bigint AS n, encode(sha256(string_agg(concat(checksum, ''*'', n), '','''
			' ORDER BY checksum)::bytea), ''hex'') AS digest, sum(mark)::text AS mark,'
			' %s AS content'
			' FROM (SELECT concat(hash, '' '', key) AS id, key, checksum, count(*) AS n, sum(mark) AS mark, (array_agg(content))[1] AS content'
			' FROM (SELECT iblt_k.iblt_k1 AS hash, iblt_j.iblt_key AS key, %s AS checksum, %s AS mark, %s AS content'
			' FROM %s JOIN %s ON %s, LATERAL (SELECT %s AS iblt_key) AS iblt_j) AS iblt_a'
			' GROUP BY hash, key, checksum) AS iblt_b GROUP BY id, key',
		CASE WHEN plan ? 'texts' THEN 'jsonb_agg(jsonb_build_array(n, content) ORDER BY checksum)'
			ELSE 'CASE count(*) WHEN 1 THEN (array_agg(content))[1] ELSE jsonb_agg(content ORDER BY checksum) END' END,
		@extschema@.iblt_compare_content_checksum(plan, side), @extschema@.iblt_compare_mark_sql(plan),
		@extschema@.iblt_compare_content_sql(plan), @extschema@.iblt_compare_keys_sql(plan), @extschema@.iblt_compare_rows_sql(plan, side),
		@extschema@.iblt_compare_match_sql(plan, side), @extschema@.iblt_compare_json_sql(plan -> 'key', true))
$$;
COMMENT ON FUNCTION iblt_compare_groups_sql(jsonb, text) IS
'a query for the rows of keys with the hashes in $1 on a side, one line a key that is there';

-- The lines are collected where they are, into the columns of iblt_compare_rows;
-- those of unique keys come in order, which an ORDER BY here would sort once more.
CREATE FUNCTION iblt_compare_lookup_sql(plan jsonb, side text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SELECT %s, %s, %s, %s FROM (%s) AS iblt_l',
		CASE WHEN by_hash THEN 'array_agg(id), array_agg(key), array_agg(n), array_agg(digest), NULL::bigint[]'
			ELSE 'NULL::text[], NULL::jsonb[], NULL::bigint[], NULL::text[], array_agg(digest)' END,
		CASE WHEN (plan ->> 'versions')::boolean THEN 'array_agg(mark)' ELSE 'NULL::text[]' END,
		CASE WHEN (plan ->> 'rows')::boolean THEN 'array_agg(content)' ELSE 'NULL::jsonb[]' END,
		@extschema@.iblt_compare_fingerprint_sql(plan, side),
		CASE WHEN by_hash THEN @extschema@.iblt_compare_groups_sql(plan, side)
			ELSE @extschema@.iblt_compare_unique_sql(plan, side) END)
	FROM (SELECT (plan ->> 'by_hash')::boolean) AS how(by_hash)
$$;
COMMENT ON FUNCTION iblt_compare_lookup_sql(jsonb, text) IS
'a query for the rows of the keys in $1 on a side, as one iblt_compare_rows';

CREATE FUNCTION iblt_compare_lookup(query text, keys text[]) RETURNS @extschema@.iblt_compare_rows
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	rows @extschema@.iblt_compare_rows;
BEGIN
	EXECUTE query INTO rows USING keys;
	RETURN rows;
END
$$;
COMMENT ON FUNCTION iblt_compare_lookup(text, text[]) IS 'what a query of iblt_compare_lookup_sql gives for keys';

-- The steps

-- Both sides' sketches of capacity at least `capacity`.  The peer keeps its own;
-- the first message is a small fold of it, which carries the meter.
CREATE FUNCTION iblt_compare_scan(conn text, plan jsonb, capacity integer, OUT mine @extschema@.iblt, OUT theirs @extschema@.iblt) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	query text := @extschema@.iblt_compare_sketch_sql(plan, 'there', capacity);
	answer json;
	here text;	-- fingerprints
	there text;
BEGIN
	IF conn IS NOT NULL THEN
		PERFORM @extschema@.iblt_peer_send(conn, format('SELECT json_build_array(%1$s.iblt_fold(%1$s.iblt_session_keep(%2$L, s), 10, 0.1),'
			' 1000 * extract(epoch FROM clock_timestamp() - statement_timestamp()), f) FROM (SELECT %3$s OFFSET 0) AS q(s, f)',
			plan -> 'there' ->> 'schema', conn, query));
	END IF;
	EXECUTE 'SELECT ' || @extschema@.iblt_compare_sketch_sql(plan, 'here', capacity) INTO mine, here;
	-- numbers of rows are noted as text: those of two scans are not to be added
	PERFORM @extschema@.iblt_peer_note(jsonb_build_object('rows_here', (@extschema@.iblt_info(mine)).rows::text,
		'scan_here_ms', @extschema@.iblt_compare_ms(started)));
	IF conn IS NULL THEN
		EXECUTE 'SELECT ' || query INTO theirs, there;
		PERFORM @extschema@.iblt_peer_note(jsonb_build_object('scan_there_ms', @extschema@.iblt_compare_ms(started)));
	ELSE
		answer := @extschema@.iblt_peer_value(conn, 0.005);
		theirs := answer ->> 0;
		there := answer ->> 2;
		PERFORM @extschema@.iblt_peer_note(jsonb_build_object('sketch_bytes', length(answer ->> 0),
			'scan_there_ms', round((answer ->> 1)::numeric, 1)));
	END IF;
	PERFORM @extschema@.iblt_compare_require_described(plan, here, there);
	PERFORM @extschema@.iblt_peer_note(jsonb_build_object('rows_there', (@extschema@.iblt_info(theirs)).rows::text,
		'scan_ms', @extschema@.iblt_compare_ms(started)));
END
$$;
COMMENT ON FUNCTION iblt_compare_scan(text, jsonb, integer) IS 'scans both sides at the same time; the sketch here, and a fold of the one there';

CREATE FUNCTION iblt_compare_cells(s @extschema@.iblt, wanted integer) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN wanted < i.capacity THEN (@extschema@.iblt_info(@extschema@.iblt_fold(s, wanted, 0.01))).cells ELSE i.cells END
	FROM @extschema@.iblt_info(s) AS i
$$;
COMMENT ON FUNCTION iblt_compare_cells(iblt, integer) IS 'cells of the fold for a capacity, which has it in 99 of 100 cases';

-- A fold that could not be decoded is made larger: to twice its cells, for which
-- half of these are sent, or else to the size that the estimate of keys asks for.
CREATE FUNCTION iblt_compare_larger(conn text, plan jsonb, mine @extschema@.iblt, theirs @extschema@.iblt, estimated numeric)
RETURNS @extschema@.iblt
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	schema text := plan -> 'there' ->> 'schema';
	most record := @extschema@.iblt_info(mine);
	have record := @extschema@.iblt_info(theirs);
	wanted integer := least(most.capacity, greatest(1.1 * estimated, 10));
	needed integer;
BEGIN
	needed := @extschema@.iblt_compare_cells(mine, wanted);
	IF needed <= 2 * have.cells AND most.cells % (2 * have.cells) = 0 THEN
		theirs := @extschema@.iblt_compare_refine(theirs, @extschema@.iblt_peer_sketch(conn,
			format('SELECT %s.iblt_session_evens(%L, %s)', schema, conn, 2 * have.cells / have.hashes)));
	ELSE
		-- it must become larger, or it would be asked for again and again
		WHILE needed < 2 * have.cells AND needed < most.cells LOOP
			wanted := least(most.capacity, wanted + wanted::bigint / 4 + 1);
			needed := @extschema@.iblt_compare_cells(mine, wanted);
		END LOOP;
		theirs := @extschema@.iblt_peer_sketch(conn, CASE WHEN needed = most.cells
			THEN format('SELECT %s.iblt_session_get(%L)', schema, conn)
			ELSE format('SELECT %1$s.iblt_fold(%1$s.iblt_session_get(%2$L), %3$s, 0.01)', schema, conn, wanted) END);
	END IF;
	RETURN theirs;
END
$$;
COMMENT ON FUNCTION iblt_compare_larger(text, jsonb, iblt, iblt, numeric) IS 'a larger fold of the peer''s sketch';

-- The estimate of keys is above 1.6 times their number in one case of a million.  Rows
-- of a key that is not unique may count more than once in it.
CREATE FUNCTION iblt_compare_surely(plan jsonb, estimated bigint, most bigint) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT (plan ->> 'unique')::boolean AND estimated > 1.6 * most
$$;
COMMENT ON FUNCTION iblt_compare_surely(jsonb, bigint, bigint) IS 'do surely more keys differ than so many, by the estimate?';

-- "number" is that of the keys, or an estimate.  "sample" is a small fold of the difference.
CREATE FUNCTION iblt_compare_exchange(conn text, plan jsonb, capacity integer,
	OUT keys text[], OUT sides text[], OUT number bigint, OUT sample @extschema@.iblt) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mine @extschema@.iblt;
	theirs @extschema@.iblt;
	difference @extschema@.iblt;
	most record;
	status record;
BEGIN
	SELECT s.mine, s.theirs INTO mine, theirs FROM @extschema@.iblt_compare_scan(conn, plan, capacity) AS s;
	most := @extschema@.iblt_info(mine);
	LOOP
		difference := mine OPERATOR(@extschema@.-) theirs;
		SELECT * INTO status FROM @extschema@.iblt_compare_decode(difference);
		PERFORM @extschema@.iblt_compare_progress(plan, format('sketches of %s and %s rows: about %s keys differ, %s decoded, %s',
			most.rows, (@extschema@.iblt_info(theirs)).rows, status.estimated, status.recovered,
			CASE WHEN status.complete THEN 'complete' ELSE 'not all' END));
		sample := coalesce(sample, @extschema@.iblt_fold(difference, 10, 0.1));
		keys := status.keys;
		sides := status.sides;
		number := CASE WHEN status.complete THEN status.recovered ELSE status.estimated END;
		EXIT WHEN status.complete OR (@extschema@.iblt_info(theirs)).cells = most.cells
			OR @extschema@.iblt_compare_surely(plan, number, most.capacity);
		theirs := @extschema@.iblt_compare_larger(conn, plan, mine, theirs, status.estimated);
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_compare_exchange(text, jsonb, integer) IS
'the keys that differ and their sides, of folds of the size it takes; NULL if more differ than sketches of that capacity can tell';

-- A large sketch slows a parallel scan down, so the first one is for at most 60000
-- differences (four subtables of 20160 cells), and no larger than the relations.
-- If that was not enough, the next try is larger and has another seed.  An estimate
-- from cells of full capacity is 1.2 times the number of keys in two cases of a
-- hundred, and these cells fail to decode so many once in 10,000 times.
CREATE FUNCTION iblt_compare_search(conn text, INOUT plan jsonb,
	OUT keys text[], OUT sides text[], OUT number bigint, OUT exact boolean, OUT sample @extschema@.iblt) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	most integer := plan ->> 'max_differences';
	capacity integer := greatest(4000, least(most, 60000, coalesce((plan -> 'here' ->> 'most_rows')::numeric
		+ (plan -> 'there' ->> 'most_rows')::numeric, most)));
	e record;
BEGIN
	FOR attempt IN 1 .. 3 LOOP
		e := @extschema@.iblt_compare_exchange(conn, plan, capacity);
		exact := e.keys IS NOT NULL;
		number := e.number;
		sample := coalesce(sample, e.sample);
		IF exact AND number <= most THEN
			keys := e.keys;
			sides := e.sides;
		END IF;
		EXIT WHEN exact OR attempt = 3 OR @extschema@.iblt_compare_surely(plan, number, most)
			OR capacity >= most AND number > 1.2 * most;
		PERFORM @extschema@.iblt_compare_progress(plan, 'the sketches were too small, the relations are scanned again');
		capacity := least(most::bigint, greatest(16::bigint * capacity, 4 * least(number, most)));
		plan := plan || jsonb_build_object('seed', @extschema@.iblt_compare_random());
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_compare_search(text, jsonb) IS
'the keys that differ, their sides and the plan with the seed used; or no keys, and about how many there are, if these are more than max_differences';

CREATE FUNCTION iblt_compare_too_many(plan jsonb, number bigint, exact boolean, problem text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	how_many text := format('%s%s keys differ, and max_differences is %s', CASE WHEN exact THEN '' ELSE 'about ' END, number, plan ->> 'max_differences');
	estimate text := CASE WHEN exact THEN NULL
		WHEN (plan ->> 'unique')::boolean THEN 'The number is an estimate, with a standard deviation of about 10 %.'
		ELSE 'The number is an estimate, in which a key with several rows may count more than once.' END;
BEGIN
	IF problem IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'IB002', MESSAGE = 'too many differences: ' || how_many,
			DETAIL = concat_ws(' ', 'No differences are returned.', estimate, CASE WHEN (plan ->> 'recheck')::integer > 0 AND plan -> 'links' <> '[]'
				THEN 'Replication had passed before the relations were compared once more.' END),
			HINT = 'Raise max_differences, or compare a part of the rows by a condition.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'IB003', MESSAGE = 'too many differences to confirm: ' || how_many,
		DETAIL = concat_ws(' ', 'These may be rows in flight.', problem, estimate),
		HINT = 'Compare again when replication has caught up, or raise max_differences or timeout.';
END
$$;
COMMENT ON FUNCTION iblt_compare_too_many(jsonb, bigint, boolean, text) IS
'the error for more differences than were allowed; another one if a problem forbids to tell them from rows in flight';

-- Rows of "before" and "after" cancel if both differences have them: of n and m rows
-- with c in common, n + m - 2c are left.  Fewer than n if c is more than half of m.
CREATE FUNCTION iblt_compare_persist(before @extschema@.iblt, after @extschema@.iblt) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT (@extschema@.iblt_estimate(after OPERATOR(@extschema@.-) before)).estimated < (@extschema@.iblt_estimate(before)).estimated
$$;
COMMENT ON FUNCTION iblt_compare_persist(iblt, iblt) IS
'did most of what differs now differ before, in the same way? Both sketches have one seed and size';

-- Too many differences are not looked at again one by one, and may be as many rows in
-- flight.  When replication has passed, all is compared once more, with the seed of the
-- first time.
CREATE FUNCTION iblt_compare_difference(conn text, INOUT plan jsonb, OUT keys text[], OUT sides text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result record := @extschema@.iblt_compare_search(conn, plan);
	before @extschema@.iblt := result.sample;
	deadline timestamptz;
	problem text;
BEGIN
	IF result.keys IS NULL AND @extschema@.iblt_compare_unready(plan) THEN
		problem := 'Replication of this relation is not ready: the subscription is disabled or still copies the relation, or there is a standby between the sides.';
	ELSIF result.keys IS NULL AND (plan ->> 'recheck')::integer > 0 THEN
		PERFORM @extschema@.iblt_compare_progress(plan, format('more than %s keys differ: waiting for replication, to compare once more', plan ->> 'max_differences'));
		deadline := clock_timestamp() + (plan ->> 'timeout')::interval;
		IF @extschema@.iblt_compare_settled(conn, plan, deadline) AND @extschema@.iblt_compare_wait(conn, plan, deadline) THEN
			plan := plan || jsonb_build_object('timeout', greatest(deadline - clock_timestamp(), '0 s'));
			result := @extschema@.iblt_compare_search(conn, plan);
			problem := CASE WHEN NOT @extschema@.iblt_compare_persist(before, result.sample)
				THEN 'Most of them did not differ before replication passed.' END;
		ELSE
			problem := format('iblt_compare did not see replication pass within the timeout (%s).', plan ->> 'timeout');
		END IF;
	END IF;
	IF result.keys IS NULL THEN
		PERFORM @extschema@.iblt_compare_too_many(plan, result.number, result.exact, problem);
	END IF;
	plan := result.plan;
	keys := result.keys;
	sides := result.sides;
END
$$;
COMMENT ON FUNCTION iblt_compare_difference(text, jsonb) IS
'the keys that differ and their sides, no more than max_differences, and the plan with the seed used; if there are more, after a wait for what is in flight';

CREATE FUNCTION iblt_compare_random() RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ('x' || left(md5(gen_random_uuid()::text), 16))::bit(64)::bigint
$$;
COMMENT ON FUNCTION iblt_compare_random() IS 'a random seed that nobody can foresee';

CREATE FUNCTION iblt_compare_rows_of_peer(conn text) RETURNS @extschema@.iblt_compare_rows
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer record;
BEGIN
	answer := @extschema@.iblt_peer_result(conn, format(
		'SELECT * FROM %s.dblink_get_result($1) AS t(id text, key text, n text, digest text, checksum text, mark text, content text, fingerprint text)',
		@extschema@.iblt_peer_dblink()), 0, 2);
	PERFORM @extschema@.iblt_peer_note(jsonb_build_object('messages', 1, 'bytes_received', octet_length(
		concat(answer.id, answer.key, answer.n, answer.digest, answer.checksum, answer.mark, answer.content, answer.fingerprint))));
	RETURN ROW(answer.id::text[], answer.key::jsonb[], answer.n::bigint[], answer.digest::text[],
		answer.checksum::bigint[], answer.mark::text[], answer.content::jsonb[], answer.fingerprint);
END
$$;
COMMENT ON FUNCTION iblt_compare_rows_of_peer(text) IS 'the peer''s answer to a lookup';

-- What both sides say of a key, on one line; $1, $2: their iblt_compare_rows, $3: the keys.
CREATE FUNCTION iblt_compare_pairs_sql(plan jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN (plan ->> 'by_hash')::boolean THEN
		'SELECT id, coalesce(h.key, t.key) AS key, h.n AS h_n, t.n AS t_n, h.digest AS h_digest, t.digest AS t_digest,'
		' h.mark AS h_mark, t.mark AS t_mark, h.content AS h_content, t.content AS t_content'
		' FROM unnest($1.id, $1.key, $1.n, $1.digest, $1.mark, $1.content) AS h(id, key, n, digest, mark, content)'
		' FULL JOIN unnest($2.id, $2.key, $2.n, $2.digest, $2.mark, $2.content) AS t(id, key, n, digest, mark, content) USING (id)'
	ELSE format('SELECT id, %s AS key, (h_digest IS NOT NULL)::integer AS h_n, (t_digest IS NOT NULL)::integer AS t_n,'
		' h_digest, t_digest, h_mark, t_mark, h_content, t_content'
		-- in step, and not kept as a function in FROM would be
		' FROM (SELECT unnest($3) AS id, unnest($1.checksum) AS h_digest, unnest($2.checksum) AS t_digest, unnest($1.mark) AS h_mark,'
		' unnest($2.mark) AS t_mark, unnest($1.content) AS h_content, unnest($2.content) AS t_content) AS u',
		@extschema@.iblt_compare_id_json_sql(plan)) END
$$;
COMMENT ON FUNCTION iblt_compare_pairs_sql(jsonb) IS 'a query that puts the answers of both sides to a lookup together';

-- Two rows of a unique key would move the answers for the keys behind it.
CREATE FUNCTION iblt_compare_require_unique(answers bigint[], keys text[], side text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF cardinality(answers) IS DISTINCT FROM cardinality(keys) THEN
		RAISE EXCEPTION USING ERRCODE = 'cardinality_violation',
			MESSAGE = format('rows have the same key (%s), although it is unique', side),
			DETAIL = 'Either a unique index is damaged, or this transaction has violated a deferred constraint.',
			HINT = 'pg_amcheck finds damaged indexes.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_compare_require_unique(bigint[], text[], text) IS 'an error unless there is one answer for each key';

CREATE FUNCTION iblt_compare_both(conn text, plan jsonb, keys text[], OUT here @extschema@.iblt_compare_rows, OUT there @extschema@.iblt_compare_rows)
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	query text := @extschema@.iblt_compare_lookup_sql(plan, 'there');
	schema text := plan -> 'there' ->> 'schema';
BEGIN
	IF conn IS NOT NULL THEN
		PERFORM @extschema@.iblt_peer_send_keys(conn, schema, query,
			format('SELECT * FROM %s.iblt_compare_lookup(%L, %L)', schema, query, keys));
	END IF;
	EXECUTE @extschema@.iblt_compare_lookup_sql(plan, 'here') INTO here USING keys;
	IF conn IS NULL THEN
		EXECUTE query INTO there USING keys;
	ELSE
		there := @extschema@.iblt_compare_rows_of_peer(conn);
	END IF;
	PERFORM @extschema@.iblt_compare_require_described(plan, here.fingerprint, there.fingerprint);
END
$$;
COMMENT ON FUNCTION iblt_compare_both(text, jsonb, text[]) IS 'the rows of keys on both sides';

-- Looks the rows of given keys up on both sides, and returns those that differ.
CREATE FUNCTION iblt_compare_look(conn text, plan jsonb, keys text[]) RETURNS @extschema@.iblt_difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	rows record := @extschema@.iblt_compare_both(conn, plan, keys);
	result @extschema@.iblt_difference[];
BEGIN
	IF NOT (plan ->> 'by_hash')::boolean THEN
		PERFORM @extschema@.iblt_compare_require_unique((rows.here).checksum, keys, 'here');
		PERFORM @extschema@.iblt_compare_require_unique((rows.there).checksum, keys, 'there');
	END IF;
	EXECUTE format($q$
		SELECT coalesce(array_agg(ROW(id, key,
			CASE WHEN t_digest IS NULL THEN 'here' WHEN h_digest IS NULL THEN 'there' ELSE 'both' END,
			h_content, t_content, coalesce(h_n, 0), coalesce(t_n, 0),
			CASE WHEN $4 THEN concat(h_digest, ' ', h_mark, ' ', t_digest, ' ', t_mark) END,
			NULL)::%s.iblt_difference), '{}')
		FROM (%s) AS pair WHERE h_digest IS DISTINCT FROM t_digest$q$, '@extschema@', @extschema@.iblt_compare_pairs_sql(plan))
	INTO result USING rows.here, rows.there, keys, (plan ->> 'recheck')::integer > 0;
	RETURN result;
END
$$;
COMMENT ON FUNCTION iblt_compare_look(text, jsonb, text[]) IS
'those of the keys whose rows differ now, each side seen in one snapshot';

-- Replication
--
-- The sides are looked at in turn with their replication: look, settle, look, wait,
-- look, settle, look.  To settle is to wait until what the follower may already
-- show is visible on the source, too; to wait is to do so until what the source
-- shows is on the follower.  A difference is confirmed if its row versions are the
-- same in all four.  If the source has the row, it had it from the second look to
-- the fourth: the follower of the third has it from the source, as well as all
-- that it shows of what came later, of which there was nothing, since the fourth
-- look would have seen it.  If only the follower has the row, it had it from the
-- first look to the third: whoever made it was visible to the second, and what
-- removed it before the second had reached the follower by the third.

-- A number, since arithmetic on pg_lsn is not in all releases.  Where the next
-- record would begin behind a page header, the last one ended before it.  A
-- standby shows a commit shortly before it counts as replayed.
CREATE FUNCTION iblt_compare_position(flushed boolean) RETURNS numeric
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT p - CASE WHEN p % current_setting('wal_block_size')::numeric IN (24, 40)
		THEN p % current_setting('wal_block_size')::numeric ELSE 0 END
	FROM (SELECT CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_replay_lsn(), pg_last_wal_receive_lsn())
		WHEN flushed THEN pg_current_wal_flush_lsn()
		ELSE pg_current_wal_insert_lsn() END - '0/0'::pg_lsn) AS w(p)
$$;
COMMENT ON FUNCTION iblt_compare_position(boolean) IS
'a position in this server''s WAL behind all that is visible now';

CREATE FUNCTION iblt_compare_passed("position" numeric) RETURNS boolean
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() - '0/0'::pg_lsn >= $1
$$;
COMMENT ON FUNCTION iblt_compare_passed(numeric) IS 'has this standby passed a position?';

CREATE FUNCTION iblt_compare_applied(slot text) RETURNS numeric
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots s
	WHERE s.slot_name = slot AND s.database = current_database()
$$;
COMMENT ON FUNCTION iblt_compare_applied(text) IS 'the position up to which a slot''s subscriber has applied everything';

-- Several subscriptions may be of slots of one name, on different publishers.
CREATE FUNCTION iblt_compare_received(slot text) RETURNS numeric[]
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(st.received_lsn - '0/0'::pg_lsn), '{}')
	FROM pg_subscription s JOIN pg_stat_subscription st ON st.subname = s.subname
	WHERE s.subslotname = slot AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND st.subid IN (SELECT srsubid FROM pg_subscription_rel)
		AND st.relid IS NULL AND st.received_lsn IS NOT NULL
$$;
COMMENT ON FUNCTION iblt_compare_received(text) IS 'the positions that subscriptions of a slot have received';

-- A slot's name is no identity, for in a chain all may have the same; positions are
-- as good as one.  A subscriber has received what its slot was told is applied, and
-- no more than its publisher has written.
CREATE FUNCTION iblt_compare_reached(conn text, plan jsonb, link jsonb, target numeric) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	source text := plan -> (link ->> 'source') ->> 'schema';
	follower text := plan -> (link ->> 'follower') ->> 'schema';
	applied numeric;
	received numeric[];
	written numeric;
BEGIN
	IF link ->> 'slot' IS NULL THEN
		RETURN @extschema@.iblt_peer_ask(conn, link ->> 'follower', format('SELECT %s.iblt_compare_passed(%s)', follower, target));
	END IF;
	applied := @extschema@.iblt_peer_ask(conn, link ->> 'source', format('SELECT %s.iblt_compare_applied(%L)', source, link ->> 'slot'));
	IF applied IS NULL OR applied < target THEN
		RETURN false;
	END IF;
	received := @extschema@.iblt_peer_ask(conn, link ->> 'follower', format('SELECT %s.iblt_compare_received(%L)', follower, link ->> 'slot'));
	IF received = '{}' THEN
		RETURN false;
	END IF;
	written := @extschema@.iblt_peer_ask(conn, link ->> 'source', format('SELECT %s.iblt_compare_position(false)', source));
	-- the position is one before a page header, which has at most 40 bytes
	RETURN nullif(EXISTS (SELECT FROM unnest(received) AS r WHERE r BETWEEN applied AND written + 40), false);
END
$$;
COMMENT ON FUNCTION iblt_compare_reached(text, jsonb, jsonb, numeric) IS
'has the follower of a link applied everything up to a position? NULL if the slot''s subscriber seems to be another one';

CREATE FUNCTION iblt_compare_wait_position(conn text, plan jsonb, link jsonb, target numeric, deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	schema text := plan -> (link ->> 'source') ->> 'schema';
	started timestamptz := clock_timestamp();
	fitted timestamptz := started;
	reached boolean;
	grace interval := greatest('1 s', 5 * @extschema@.iblt_peer_ask(conn, link ->> 'source',
		'SELECT pg_catalog.current_setting(''wal_writer_delay'')')::interval);
	pause double precision := 0.01;
BEGIN
	LOOP
		reached := @extschema@.iblt_compare_reached(conn, plan, link, target);
		IF reached THEN
			RETURN true;
		ELSIF reached IS NULL AND clock_timestamp() > fitted + interval '2 s' THEN
			-- a subscriber shows what it has received within microseconds of its answer to the slot
			RAISE WARNING USING MESSAGE = format('replication slot "%s" is another subscriber''s, differences cannot be confirmed', link ->> 'slot'),
				DETAIL = 'There is a subscription with a slot of this name, but it has received other positions than the slot was told.',
				HINT = 'Compare a subscriber with its own publisher.';
			RETURN false;
		ELSIF clock_timestamp() > deadline THEN
			RETURN false;
		END IF;
		fitted := CASE WHEN reached IS NULL THEN fitted ELSE clock_timestamp() END;
		-- WAL that the source has not even flushed by now is of no commit that was visible
		IF grace IS NOT NULL AND clock_timestamp() - started > grace THEN
			target := least(target, @extschema@.iblt_peer_ask(conn, link ->> 'source',
				format('SELECT %s.iblt_compare_position(true)', schema))::numeric);
			grace := NULL;
		END IF;
		PERFORM pg_sleep(pause);
		pause := least(pause * 1.5, 0.1);
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_compare_wait_position(text, jsonb, jsonb, numeric, timestamptz) IS
'waits until the follower of a link has applied everything up to a position; false if that takes too long';

-- That positions fit is seen twice, the second time beyond all there was the first
-- time: on a busy source, the range in which they fit is not so small.
CREATE FUNCTION iblt_compare_wait_link(conn text, plan jsonb, link jsonb, deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	query text := format('SELECT %s.iblt_compare_position(false)', plan -> (link ->> 'source') ->> 'schema');
BEGIN
	IF link ->> 'slot' IS NOT NULL AND NOT @extschema@.iblt_compare_wait_position(conn, plan, link, 0, deadline) THEN
		RETURN false;
	END IF;
	RETURN @extschema@.iblt_compare_wait_position(conn, plan, link,
		@extschema@.iblt_peer_ask(conn, link ->> 'source', query)::numeric, deadline);
END
$$;
COMMENT ON FUNCTION iblt_compare_wait_link(text, jsonb, jsonb, timestamptz) IS
'waits until what one side shows now has reached the other; false if that takes too long';

CREATE FUNCTION iblt_compare_wait(conn text, plan jsonb, deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	link jsonb;
BEGIN
	IF plan -> 'links' = '[]' THEN
		PERFORM pg_sleep(least(1, greatest(0, extract(epoch FROM deadline - clock_timestamp()))));
		RETURN clock_timestamp() <= deadline;
	END IF;
	FOR link IN SELECT jsonb_array_elements(plan -> 'links') LOOP
		IF NOT @extschema@.iblt_compare_wait_link(conn, plan, link, deadline) THEN
			RETURN false;
		END IF;
	END LOOP;
	RETURN true;
END
$$;
COMMENT ON FUNCTION iblt_compare_wait(text, jsonb, timestamptz) IS
'waits until all that either side shows now has reached the other; false if that takes too long';

-- A transaction keeps its locks until it is visible, long after its WAL was sent if
-- it waits for a synchronous standby.  A snapshot would not do: it does not name the
-- latest transactions.  A partition attached in the same transaction is not in the
-- tree yet; its parent is locked in a weaker mode.
CREATE FUNCTION iblt_compare_writers(target regclass) RETURNS text[]
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
	WITH RECURSIVE tree AS (
		SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = target
		UNION
		SELECT c.oid, c.relkind FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid JOIN pg_class c ON c.oid = i.inhrelid
	)
	SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}')
	FROM pg_locks l LEFT JOIN tree ON tree.oid = l.relation
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND NOT pg_is_in_recovery()
	AND CASE WHEN EXISTS (SELECT FROM tree WHERE relkind NOT IN ('r', 'p', 'm'))
		THEN l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'
		ELSE l.locktype = 'relation' AND (tree.relkind = 'p' AND l.mode = 'ShareUpdateExclusiveLock'
			OR tree.oid IS NOT NULL AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')) END
$$;
COMMENT ON FUNCTION iblt_compare_writers(regclass) IS
'the transactions under way that may have written to a relation of this primary; for a view, all that have written anything';

-- Without synchronous replication, nothing but a page of pg_xact keeps a commit that
-- was sent from being visible, and whoever still runs after a second has not committed.
CREATE FUNCTION iblt_compare_settle(conn text, plan jsonb, source text, deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	query text := format('SELECT %s.iblt_compare_writers(%L::pg_catalog.regclass)', plan -> source ->> 'schema',
		plan -> source ->> 'relation');
	writers text[] := @extschema@.iblt_peer_ask(conn, source, query);
	synchronous boolean;
	pause double precision := 0.002;
BEGIN
	WHILE writers <> '{}' LOOP
		synchronous := coalesce(synchronous, @extschema@.iblt_peer_ask(conn, source,
			'SELECT pg_catalog.current_setting(''synchronous_standby_names'')') <> '');
		IF NOT synchronous AND clock_timestamp() > started + interval '1 s' THEN
			RETURN true;
		ELSIF clock_timestamp() > deadline THEN
			RETURN false;
		END IF;
		PERFORM pg_sleep(pause);
		pause := least(pause * 1.5, 0.1);
		writers := ARRAY(SELECT unnest(writers) INTERSECT SELECT unnest(@extschema@.iblt_peer_ask(conn, source, query)::text[]));
	END LOOP;
	RETURN true;
END
$$;
COMMENT ON FUNCTION iblt_compare_settle(text, jsonb, text, timestamptz) IS
'waits until what a source has sent is visible on it, too; false if that takes too long';

CREATE FUNCTION iblt_compare_settled(conn text, plan jsonb, deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	source text;
	settled boolean := true;
BEGIN
	FOR source IN SELECT DISTINCT l ->> 'source' FROM jsonb_array_elements(plan -> 'links') AS l LOOP
		settled := @extschema@.iblt_compare_settle(conn, plan, source, deadline) AND settled;
	END LOOP;
	RETURN settled;
END
$$;
COMMENT ON FUNCTION iblt_compare_settled(text, jsonb, timestamptz) IS
'waits until what the sources have sent is visible on them, too; false if that takes too long';

CREATE FUNCTION iblt_compare_again(conn text, plan jsonb, differences @extschema@.iblt_difference[])
RETURNS @extschema@.iblt_difference[]
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT @extschema@.iblt_compare_look(conn, plan,
		@extschema@.iblt_compare_id_keys(plan, ARRAY(SELECT d.id FROM unnest(differences) AS d)))
$$;
COMMENT ON FUNCTION iblt_compare_again(text, jsonb, iblt_difference[]) IS 'those of the differences that still are some';

-- The mark of a row that did not stand still is NULL.
CREATE FUNCTION iblt_compare_steady(conn text, plan jsonb, differences @extschema@.iblt_difference[], deadline timestamptz)
RETURNS @extschema@.iblt_difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	settled boolean;
BEGIN
	IF plan -> 'links' = '[]' OR differences = '{}' THEN
		RETURN differences;
	END IF;
	settled := @extschema@.iblt_compare_settled(conn, plan, deadline);
	RETURN ARRAY(SELECT ROW(a.id, a.key, a.side, a.here, a.there, a.here_count, a.there_count,
			CASE WHEN settled AND a.mark = d.mark THEN a.mark END, NULL)::@extschema@.iblt_difference
		FROM unnest(@extschema@.iblt_compare_again(conn, plan, differences)) AS a LEFT JOIN unnest(differences) AS d USING (id));
END
$$;
COMMENT ON FUNCTION iblt_compare_steady(text, jsonb, iblt_difference[], timestamptz) IS
'looks at differences again when what replication had shown early is visible on its source';

-- A plan that looks at nothing again may still be "unready" (iblt_audit_plan).
CREATE FUNCTION iblt_compare_unready(plan jsonb) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ((plan ->> 'recheck')::integer > 0 OR plan ? 'unready') AND jsonb_path_exists(plan -> 'links', '$[*] ? (@.ready == false)')
$$;
COMMENT ON FUNCTION iblt_compare_unready(jsonb) IS 'is it to be waited for replication, and cannot be?';

CREATE FUNCTION iblt_compare_ready(plan jsonb) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT @extschema@.iblt_compare_unready(plan) THEN
		RETURN true;
	END IF;
	RAISE WARNING USING MESSAGE = 'replication of this relation is not ready, differences cannot be confirmed',
		DETAIL = 'The subscription is disabled or still copies the relation, or there is a standby between the sides.';
	RETURN false;
END
$$;
COMMENT ON FUNCTION iblt_compare_ready(jsonb) IS 'can it be waited for replication? With a warning if not';

-- A difference is confirmed when its rows on both sides stood still while
-- replication passed by.
CREATE FUNCTION iblt_compare_recheck(conn text, plan jsonb, differences @extschema@.iblt_difference[])
RETURNS @extschema@.iblt_difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	deadline timestamptz := clock_timestamp() + (plan ->> 'timeout')::interval;
	confirmed @extschema@.iblt_difference[] := '{}';
	again @extschema@.iblt_difference[];
BEGIN
	IF @extschema@.iblt_compare_ready(plan) THEN
		differences := @extschema@.iblt_compare_steady(conn, plan, differences, deadline);
		FOR round IN 1 .. (plan ->> 'recheck')::integer LOOP
			EXIT WHEN differences = '{}';
			PERFORM @extschema@.iblt_compare_progress(plan,
				format('waiting for replication, to look at %s keys again', cardinality(differences)));
			EXIT WHEN NOT @extschema@.iblt_compare_wait(conn, plan, deadline);
			again := @extschema@.iblt_compare_steady(conn, plan, @extschema@.iblt_compare_again(conn, plan, differences), deadline);
			again := ARRAY(SELECT ROW(a.id, a.key, a.side, a.here, a.there, a.here_count, a.there_count, a.mark,
					coalesce(a.mark = d.mark, false))::@extschema@.iblt_difference
				FROM unnest(again) AS a LEFT JOIN unnest(differences) AS d USING (id));
			confirmed := confirmed || ARRAY(SELECT a FROM unnest(again) AS a WHERE a.confirmed);
			differences := ARRAY(SELECT a FROM unnest(again) AS a WHERE NOT a.confirmed);
		END LOOP;
	END IF;
	RETURN confirmed || ARRAY(SELECT ROW(d.id, d.key, d.side, d.here, d.there, d.here_count, d.there_count, d.mark,
		false)::@extschema@.iblt_difference FROM unnest(differences) AS d);
END
$$;
COMMENT ON FUNCTION iblt_compare_recheck(text, jsonb, iblt_difference[]) IS
'looks at differences again, without those that replication removes, and says which are confirmed';

-- Damaged indexes
--
-- A key whose rows differed in the scans, and of which an index finds nothing that
-- differs, or rows on other sides, was in flight; or the index lacks rows.  So its
-- rows are looked up by a scan, too: one that is there before and after the index was
-- asked, in the same version, and was not found by it, is proof of damage.

-- Differences are in the order of the keys.
CREATE FUNCTION iblt_compare_doubtful(keys text[], sides text[], differences @extschema@.iblt_difference[]) RETURNS text[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- nearly always, and quick to see
	IF sides = ARRAY(SELECT d.side FROM unnest(differences) AS d) AND keys = ARRAY(SELECT d.id FROM unnest(differences) AS d) THEN
		RETURN '{}';
	END IF;
	RETURN ARRAY(SELECT k.id FROM unnest(keys, sides) AS k(id, side) LEFT JOIN unnest(differences) AS d ON d.id = k.id
		WHERE d.side IS DISTINCT FROM k.side);
END
$$;
COMMENT ON FUNCTION iblt_compare_doubtful(text[], text[], iblt_difference[]) IS 'keys of which an index found rows on other sides than the scans did';

CREATE FUNCTION iblt_compare_key_hashes(plan jsonb, keys text[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	hashes text[];
BEGIN
	EXECUTE format('SELECT ARRAY(SELECT %s::text FROM (SELECT %s FROM unnest($1) AS u(id)) AS t)',
		@extschema@.iblt_compare_key_hash(plan, 'here'),
		(SELECT string_agg(format('%s AS %I', value, name), ', ' ORDER BY position) FROM @extschema@.iblt_compare_key_parts(plan)))
	INTO hashes USING keys;
	RETURN hashes;
END
$$;
COMMENT ON FUNCTION iblt_compare_key_hashes(jsonb, text[]) IS 'the hashes of keys that a plan looks up by themselves';

-- The index's answers are in the order of the hashes, and are of one row each.  Where
-- row versions cannot be read, there are no marks.
CREATE FUNCTION iblt_compare_unfound(scanned @extschema@.iblt_compare_rows, indexed @extschema@.iblt_compare_rows, hashes text[]) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT s.id FROM unnest(scanned.id, scanned.n, scanned.mark) AS s(id, n, mark)
		JOIN unnest(hashes, indexed.checksum, indexed.mark) AS i(hash, checksum, mark) ON i.hash = split_part(s.id, ' ', 1)
		WHERE i.checksum IS NULL OR s.n > 1 OR i.mark <> s.mark)
$$;
COMMENT ON FUNCTION iblt_compare_unfound(iblt_compare_rows, iblt_compare_rows, text[]) IS 'ids of rows that a scan finds, and an index does not';

CREATE FUNCTION iblt_compare_stood(ids text[], before @extschema@.iblt_compare_rows, after @extschema@.iblt_compare_rows) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT b.id FROM unnest(before.id, before.digest, before.mark) AS b(id, digest, mark)
		JOIN unnest(after.id, after.digest, after.mark) AS a(id, digest, mark) ON a.id = b.id AND a.digest = b.digest
			AND a.mark IS NOT DISTINCT FROM b.mark
		WHERE b.id = ANY (ids))
$$;
COMMENT ON FUNCTION iblt_compare_stood(text[], iblt_compare_rows, iblt_compare_rows) IS 'those of the ids whose rows are the same in two scans';

CREATE FUNCTION iblt_compare_check_index(conn text, plan jsonb, keys text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	by_index jsonb := (plan || jsonb_build_object('rows', false, 'versions',
		(plan -> 'here' ->> 'versions')::boolean AND (plan -> 'here' ->> 'version_rights')::boolean
		AND (plan -> 'there' ->> 'versions')::boolean AND (plan -> 'there' ->> 'version_rights')::boolean)) - 'texts';
	by_scan jsonb := by_index || '{"by_hash": true}';
	hashes text[];
	scanned record;
	indexed record;
	again record;
	here text[];
	there text[];
BEGIN
	IF keys = '{}' THEN
		RETURN;
	END IF;
	hashes := @extschema@.iblt_compare_key_hashes(plan, keys);
	scanned := @extschema@.iblt_compare_both(conn, by_scan, hashes);
	indexed := @extschema@.iblt_compare_both(conn, by_index, keys);
	PERFORM @extschema@.iblt_compare_require_unique((indexed.here).checksum, keys, 'here'),
		@extschema@.iblt_compare_require_unique((indexed.there).checksum, keys, 'there');
	here := @extschema@.iblt_compare_unfound(scanned.here, indexed.here, hashes);
	there := @extschema@.iblt_compare_unfound(scanned.there, indexed.there, hashes);
	IF here || there = '{}' THEN
		RETURN;
	END IF;
	again := @extschema@.iblt_compare_both(conn, by_scan, @extschema@.iblt_compare_id_keys(by_scan, here || there));
	PERFORM @extschema@.iblt_compare_refuse_index(plan, 'here', @extschema@.iblt_compare_stood(here, scanned.here, again.here)),
		@extschema@.iblt_compare_refuse_index(plan, 'there', @extschema@.iblt_compare_stood(there, scanned.there, again.there));
END
$$;
COMMENT ON FUNCTION iblt_compare_check_index(text, jsonb, text[]) IS 'an error if a side''s index does not find rows of these keys that the table has';

CREATE FUNCTION iblt_compare_refuse_index(plan jsonb, side text, ids text[]) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF ids <> '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'index_corrupted',
			MESSAGE = format('an index of %s does not find rows that the table has (%s)', plan -> side ->> 'relation', side),
			DETAIL = format('One has the key %s, of %s.', (SELECT min(substr(id, strpos(id, ' ') + 1)) FROM unnest(ids) AS id), cardinality(ids)),
			HINT = 'amcheck (bt_index_check with heapallindexed) tells which one; REINDEX makes it anew.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_compare_refuse_index(jsonb, text, text[]) IS 'the error for rows that an index does not find, if there are any';

-- All steps after the plan was made.
CREATE FUNCTION iblt_compare_run(conn text, plan jsonb) RETURNS @extschema@.iblt_difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	started timestamptz;
	keys text[];
	sides text[];
	decoded integer;
	differences @extschema@.iblt_difference[] := '{}';
BEGIN
	IF (plan ->> 'versions')::boolean THEN
		PERFORM @extschema@.iblt_compare_require_version_rights(plan);
	END IF;
	SELECT d.plan, d.keys, d.sides INTO plan, keys, sides FROM @extschema@.iblt_compare_difference(conn, plan) AS d;
	decoded := cardinality(keys);
	IF decoded > 0 THEN
		PERFORM @extschema@.iblt_compare_progress(plan, format('looking %s keys up on both sides', decoded));
		started := clock_timestamp();
		differences := @extschema@.iblt_compare_look(conn, plan, keys);
		IF NOT (plan ->> 'by_hash')::boolean THEN
			PERFORM @extschema@.iblt_compare_check_index(conn, plan, @extschema@.iblt_compare_doubtful(keys, sides, differences));
		END IF;
		PERFORM @extschema@.iblt_peer_note(jsonb_build_object('lookup_ms', @extschema@.iblt_compare_ms(started)));
	END IF;
	IF (plan ->> 'recheck')::integer > 0 AND differences <> '{}' THEN
		started := clock_timestamp();
		differences := @extschema@.iblt_compare_recheck(conn, plan, differences);
		PERFORM @extschema@.iblt_peer_note(jsonb_build_object('recheck_ms', @extschema@.iblt_compare_ms(started)));
	END IF;
	-- (as text, for figures that are numbers are added up)
	PERFORM @extschema@.iblt_peer_note(jsonb_build_object('seed', plan ->> 'seed', 'differences', cardinality(differences),
		'settled', greatest(decoded - cardinality(differences), 0),
		'unconfirmed', CASE WHEN (plan ->> 'recheck')::integer > 0
			THEN (SELECT count(*) FROM unnest(differences) AS d WHERE NOT d.confirmed) ELSE 0 END));
	RETURN differences;
END
$$;
COMMENT ON FUNCTION iblt_compare_run(text, jsonb) IS 'compares as a plan says';

-- The peer's relation as schema.name, quoted: in the schema of the relation here
-- unless it names another.
CREATE FUNCTION iblt_compare_peer_name(relation regclass, peer_relation text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	parts text[] := parse_ident(peer_relation);
BEGIN
	IF cardinality(parts) > 2 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'peer_relation has too many parts',
			HINT = 'Give it as name or schema.name; the database is that of the peer.';
	ELSIF cardinality(parts) = 2 THEN
		RETURN format('%I.%I', parts[1], parts[2]);
	END IF;
	RETURN (SELECT format('%I.%I', n.nspname, coalesce(parts[1], c.relname))
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
END
$$;
COMMENT ON FUNCTION iblt_compare_peer_name(regclass, text) IS 'the name of the peer''s relation, with its schema';

CREATE FUNCTION iblt_compare_defaults() RETURNS jsonb
	LANGUAGE sql VOLATILE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('max_differences', 100000, 'rows', false, 'cast_types', false, 'extra_columns', 'warn',
		'timeout', interval '1 minute', 'progress', false, 'seed', @extschema@.iblt_compare_random())
$$;
COMMENT ON FUNCTION iblt_compare_defaults() IS
'the options of a comparison for drivers that do not ask for all of them, with a new seed';

CREATE FUNCTION iblt_compare_check_options(relation regclass, options jsonb) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	problem text := CASE
		WHEN relation IS NULL THEN 'relation must not be null'
		WHEN coalesce((options ->> 'max_differences')::integer, 0) < 1 THEN 'max_differences must be at least 1'
		WHEN coalesce((options ->> 'recheck')::integer, 0) NOT BETWEEN 0 AND 1000 THEN 'recheck must be between 0 and 1000'
		WHEN coalesce(options ->> 'extra_columns', '') NOT IN ('warn', 'error', 'ignore')
			THEN 'extra_columns must be warn, error or ignore'
		WHEN coalesce((options ->> 'timeout')::interval, '-1 s') NOT BETWEEN '0 s' AND '1 year' THEN 'timeout must be between 0 and 1 year'
		WHEN options -> 'columns' = '[]' OR options -> 'key_columns' = '[]' THEN 'columns and key_columns must not be empty'
		WHEN options -> 'rows' IS NULL OR options -> 'cast_types' IS NULL OR options -> 'progress' IS NULL
			THEN 'rows, cast_types and progress must not be null' END;
BEGIN
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = problem;
	ELSIF NOT EXISTS (SELECT FROM pg_class WHERE oid = relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = format('relation with OID %s does not exist', relation::oid);
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_compare_check_options(regclass, jsonb) IS 'an error for options that make no sense';

-- A plan for a relation and its peer.
CREATE FUNCTION iblt_compare_prepare(conn text, relation regclass, peer_relation text, options jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name text := @extschema@.iblt_compare_peer_name(relation, peer_relation);
	here jsonb := @extschema@.iblt_compare_describe(relation, options ->> 'condition');
	there jsonb;
	plan jsonb;
BEGIN
	-- by another name, it may have another peer
	IF here ->> 'relation' IS DISTINCT FROM options ->> 'name' THEN
		PERFORM @extschema@.iblt_compare_refuse_altered(options ->> 'name', 'here');
	END IF;
	there := CASE WHEN conn IS NULL THEN @extschema@.iblt_compare_describe(name::regclass, options ->> 'peer_condition')
		ELSE @extschema@.iblt_compare_describe_peer(conn, name, options ->> 'peer_condition') END;
	IF there IS NULL THEN
		PERFORM @extschema@.iblt_compare_refuse_altered(name, 'there');
	END IF;
	PERFORM @extschema@.iblt_compare_check_collations(here -> 'collations', there -> 'collations');
	-- a wrong port or name of a server would otherwise make it equal
	IF here -> 'identity' = there -> 'identity' AND options -> 'condition' IS NOT DISTINCT FROM options -> 'peer_condition' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'a relation cannot be compared with itself',
			HINT = CASE WHEN conn IS NULL THEN 'Give a peer, or another peer_relation of this database.'
				ELSE 'See that the peer leads to the other server.' END;
	END IF;
	plan := @extschema@.iblt_compare_plan(here, there, options);
	IF (plan ->> 'recheck')::integer > 0 AND current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction',
			MESSAGE = 'rows cannot be looked at again in a transaction that sees one snapshot',
			HINT = 'Use isolation level READ COMMITTED, or recheck => 0.';
	END IF;
	PERFORM @extschema@.iblt_peer_note(jsonb_build_object('relation', here -> 'relation', 'peer_relation', there -> 'relation',
		'key_columns', jsonb_path_query_array(plan -> 'key', '$[*].name'),
		'columns', jsonb_path_query_array(plan -> 'columns', '$[*].name'), 'columns_left_out', plan -> 'extra'));
	PERFORM @extschema@.iblt_compare_progress(plan, format('comparing %s with %s: %s columns, key (%s)',
		here ->> 'relation', there ->> 'relation', jsonb_array_length(plan -> 'columns'),
		CASE WHEN (plan ->> 'whole_row')::boolean THEN 'the whole row'
			ELSE (SELECT string_agg(c ->> 'name', ', ') FROM jsonb_array_elements(plan -> 'key') AS c) END));
	RETURN plan;
END
$$;
COMMENT ON FUNCTION iblt_compare_prepare(text, regclass, text, jsonb) IS
'describes both relations and makes the plan of a comparison';

-- Starting again

CREATE FUNCTION iblt_compare_altered(conn text, peer text, plan jsonb) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	side text;
	found text;
BEGIN
	IF conn IS NOT NULL THEN
		conn := @extschema@.iblt_peer_connect(peer, conn, 'iblt_compare');
	END IF;
	FOREACH side IN ARRAY ARRAY['here', 'there'] LOOP
		found := @extschema@.iblt_peer_ask(conn, side, format('SELECT %s.iblt_compare_fingerprint(pg_catalog.to_regclass(%L))',
			plan -> side ->> 'schema', plan -> side ->> 'relation'));
		IF found IS DISTINCT FROM plan -> side ->> 'fingerprint' THEN
			RETURN side;
		END IF;
	END LOOP;
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	-- the error before this one is to be told
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION iblt_compare_altered(text, text, jsonb) IS
'the side whose relation is not what was described any more, asked over a new connection; or NULL';

-- For the handler of a driver, which raises the error again if this gives false.  A
-- statement may also fail because a column is not there any more, or is of another type.
CREATE FUNCTION iblt_compare_restart(conn text, peer text, plan jsonb, attempt integer, state text, message text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	altered text;
BEGIN
	IF state = 'IB004' THEN
		PERFORM @extschema@.iblt_peer_close(conn);
		RETURN attempt < 3;
	ELSIF plan IS NULL OR left(state, 2) NOT IN ('0A', '22', '3F', '42', 'XX') THEN
		RETURN false;
	END IF;
	PERFORM @extschema@.iblt_peer_close(conn);
	altered := @extschema@.iblt_compare_altered(conn, peer, plan);
	PERFORM @extschema@.iblt_peer_close(conn);
	IF altered IS NOT NULL AND attempt = 3 THEN
		PERFORM @extschema@.iblt_compare_refuse_altered(plan -> altered ->> 'relation', altered, message);
	END IF;
	RETURN altered IS NOT NULL;
END
$$;
COMMENT ON FUNCTION iblt_compare_restart(text, text, jsonb, integer, text, text) IS
'after an error: is a driver to start again, because a relation was altered? After three attempts, an error that says so';

CREATE FUNCTION iblt_compare(
	relation regclass,
	peer text DEFAULT NULL,
	peer_relation text DEFAULT NULL,
	columns text[] DEFAULT NULL,
	exclude text[] DEFAULT NULL,
	key_columns text[] DEFAULT NULL,
	condition text DEFAULT NULL,
	peer_condition text DEFAULT NULL,
	max_differences integer DEFAULT 100000,
	rows boolean DEFAULT false,
	cast_types boolean DEFAULT false,
	extra_columns text DEFAULT 'warn',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	seed bigint DEFAULT NULL,
	progress boolean DEFAULT false)
RETURNS TABLE (key jsonb, side text, here jsonb, there jsonb, confirmed boolean, here_count bigint, there_count bigint)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	SET search_path = pg_catalog, pg_temp
	SET row_security = off
	SET enable_indexonlyscan = off
	SET array_nulls = on
	SET quote_all_identifiers = off
	SET jit = off
	SET DateStyle = 'ISO'
	SET IntervalStyle = 'postgres'
	SET TimeZone = 'UTC'
	SET extra_float_digits = 1
	SET bytea_output = 'hex'
	SET xmlbinary = 'base64'
	SET xmloption = 'content'
	SET lc_monetary = 'C'
	SET lc_numeric = 'C'
	SET lc_time = 'C'
	SET transform_null_equals = off
	SET standard_conforming_strings = on
	SET gin_fuzzy_search_limit = 0
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	options jsonb := jsonb_strip_nulls(jsonb_build_object('columns', columns, 'exclude', exclude, 'key_columns', key_columns,
		'condition', condition, 'peer_condition', coalesce(peer_condition, condition), 'max_differences', max_differences,
		'rows', rows, 'cast_types', cast_types, 'extra_columns', extra_columns, 'recheck', recheck, 'timeout', timeout,
		'seed', coalesce(seed, @extschema@.iblt_compare_random()), 'progress', progress,
		'name', @extschema@.iblt_compare_peer_name(relation, NULL)));
	conn text := CASE WHEN peer IS NOT NULL THEN 'iblt_' || gen_random_uuid() END;
	plan jsonb;
	found @extschema@.iblt_difference[];
	restart boolean;
	secret boolean;
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	BEGIN
		PERFORM @extschema@.iblt_compare_check_options(relation, options);
		FOR attempt IN 1 .. 3 LOOP
			BEGIN
				plan := NULL;
				PERFORM @extschema@.iblt_peer_note('{}', true);
				IF conn IS NOT NULL THEN
					conn := @extschema@.iblt_peer_connect(peer, conn, 'iblt_compare ' || relation::text);
				END IF;
				plan := @extschema@.iblt_compare_prepare(conn, relation, peer_relation, options);
				found := @extschema@.iblt_compare_run(conn, plan);
				EXIT;
			EXCEPTION WHEN OTHERS THEN
				GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
				restart := @extschema@.iblt_compare_restart(conn, peer, plan, attempt, state, message);
				IF NOT restart THEN
					RAISE;
				END IF;
				PERFORM @extschema@.iblt_compare_progress(options, 'a relation was altered, the comparison starts again');
			END;
		END LOOP;
		PERFORM @extschema@.iblt_peer_close(conn);
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
			detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		secret := @extschema@.iblt_peer_is_string(peer);
		PERFORM @extschema@.iblt_peer_fail(conn, secret, state, message, detail, hint);
		RAISE;
	END;
	PERFORM @extschema@.iblt_peer_note(jsonb_build_object('total_ms', @extschema@.iblt_compare_ms(started),
		'finished_at', clock_timestamp()));
	RETURN QUERY SELECT d.key, d.side, d.here, d.there, d.confirmed, d.here_count, d.there_count FROM unnest(found) AS d;
END
$$;
COMMENT ON FUNCTION iblt_compare(regclass, text, text, text[], text[], text[], text, text, integer, boolean, boolean, text, integer, interval, bigint, boolean) IS
'the rows that differ between a relation here and one on a peer, or in this database: key, side, both rows';
