-- Live repair ------------------------------------------------------------------
--
-- Functions named iblt_repair_* are the steps of iblt_repair.  It compares as
-- iblt_compare does, with a plan that has two entries more: "texts" makes a
-- lookup give rows as arrays of their values' texts, [[count, [text, ...]], ...],
-- and "repair" says which side is the target and how its columns are written.
-- What a peer says is quoted here, where the statements are made.
-- Statements name everything with its schema, so that they mean the same under
-- any search_path; and literals are of the target's types but without their
-- modifiers: a cast to varchar(3) would cut a value that an assignment refuses.

CREATE TYPE iblt_internal.repair_step AS (
	id text,
	key jsonb,
	action text,
	sql text,
	status text,
	detail text,
	n bigint,		-- rows that the statement must change
	columns text[]	-- that an update sets
);
COMMENT ON TYPE iblt_internal.repair_step IS 'a statement of a repair, or why there is none';

-- What is to be written

-- A value of these types is read and written through another type, whose text
-- depends on no locale, is unambiguous, or is of the encoding.
CREATE FUNCTION iblt_internal.repair_via(c jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE c ->> 'cast' WHEN '' THEN 'pg_catalog.' || ('{"18": "int4", "1002": "int4[]",
		"24": "regprocedure", "1008": "regprocedure[]", "2203": "regoperator", "2208": "regoperator[]",
		"790": "numeric", "791": "numeric[]", "142": "text", "143": "text[]"}'::jsonb ->> (c ->> 'base')) END
$$;
COMMENT ON FUNCTION iblt_internal.repair_via(jsonb) IS
'the type through which values of a column are read and written, if its own text would not do';

CREATE FUNCTION iblt_internal.repair_content_sql(plan jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	-- format uses the type's output; a cast to text would lose the blanks of a
	-- character(n).  IS NULL is also true of a row of nulls.
	SELECT format('to_jsonb(ARRAY[%s]::text[])', string_agg(format('CASE num_nulls(%1$s) WHEN 0 THEN format(''%%s'', %1$s) END', coalesce(
		format('t.%I::', c ->> 'name') || iblt_internal.repair_via(c), iblt_internal.compare_expression(c))), ', ' ORDER BY position))
	FROM jsonb_array_elements(plan -> 'columns') WITH ORDINALITY AS a(c, position)
$$;
COMMENT ON FUNCTION iblt_internal.repair_content_sql(jsonb) IS 'the expression of a row of t as a jsonb array of texts';

CREATE FUNCTION iblt_internal.repair_type(type oid) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format(CASE WHEN e.oid IS NULL THEN '%I.%I' ELSE '%I.%I[]' END, n.nspname, coalesce(e.typname, t.typname))
	FROM pg_type t LEFT JOIN pg_type e ON e.typarray = t.oid
	JOIN pg_namespace n ON n.oid = coalesce(e.typnamespace, t.typnamespace) WHERE t.oid = type
$$;
COMMENT ON FUNCTION iblt_internal.repair_type(oid) IS 'a type''s name with its schema';

CREATE FUNCTION iblt_internal.repair_equal(type oid) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	WITH RECURSIVE base AS (
		SELECT oid, typtype, typbasetype FROM pg_type WHERE oid = type
		UNION ALL
		SELECT t.oid, t.typtype, t.typbasetype FROM base JOIN pg_type t ON t.oid = base.typbasetype WHERE base.typtype = 'd')
	SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname)
	FROM base JOIN pg_opclass k ON k.opcintype = CASE base.oid WHEN 'varchar'::regtype THEN 'text'::regtype ELSE base.oid END
	JOIN pg_am a ON a.oid = k.opcmethod AND a.amname = 'btree'
	JOIN pg_amop m ON m.amopfamily = k.opcfamily AND m.amoplefttype = k.opcintype AND m.amoprighttype = k.opcintype AND m.amopstrategy = 3
	JOIN pg_operator o ON o.oid = m.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
	WHERE k.opcdefault AND base.typtype <> 'd' LIMIT 1
$$;
COMMENT ON FUNCTION iblt_internal.repair_equal(oid) IS 'the operator by which an index finds a value of a type';

-- Foreign keys whose actions may change what refers to a changed row, or whose rows
-- may come to refer to none where replication does not check them.
CREATE FUNCTION iblt_internal.repair_foreign(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	WITH tree AS (SELECT relation::oid AS relid UNION SELECT relid FROM pg_partition_tree(relation))
	SELECT coalesce(jsonb_agg(jsonb_build_object('name', quote_ident(k.conname), 'table', format('%I.%I', n.nspname, c.relname),
		'self', k.conrelid = k.confrelid, 'readable', has_table_privilege(k.conrelid, 'SELECT'),
		'delete', action.name ->> k.confdeltype::text, 'update', action.name ->> k.confupdtype::text,
		'columns', (SELECT jsonb_agg(jsonb_build_object('referenced', u.attname, 'referring', r.attname,
				'equal', format('OPERATOR(%I.%s)', m.nspname, o.oprname)) ORDER BY x.position)
			FROM unnest(k.confkey, k.conkey, k.conpfeqop) WITH ORDINALITY AS x(referenced, referring, operator, position)
			JOIN pg_attribute u ON u.attrelid = k.confrelid AND u.attnum = x.referenced
			JOIN pg_attribute r ON r.attrelid = k.conrelid AND r.attnum = x.referring
			JOIN pg_operator o ON o.oid = x.operator JOIN pg_namespace m ON m.oid = o.oprnamespace))), '[]')
	FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace,
		LATERAL (SELECT '{"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}'::jsonb) AS action(name)
	WHERE k.contype = 'f' AND k.confrelid IN (SELECT relid FROM tree)
	AND NOT EXISTS (SELECT FROM pg_constraint p WHERE p.oid = k.conparentid AND p.confrelid IN (SELECT relid FROM tree))
$$;
COMMENT ON FUNCTION iblt_internal.repair_foreign(regclass) IS 'the foreign keys that refer to a relation, and their actions';

-- It runs on the target's side, by the copy of the extension there.
CREATE FUNCTION iblt_internal.repair_describe(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('kind', CASE
			WHEN c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = relation) THEN 'a table that others inherit from'
			ELSE '{"r": "table", "p": "partitioned table", "v": "a view", "m": "a materialized view", "f": "a foreign table",
				"S": "a sequence"}'::jsonb ->> c.relkind::text END,
		'foreign', iblt_internal.repair_foreign(relation),
		-- their triggers do not fire there
		'deferrable', (SELECT coalesce(jsonb_agg(DISTINCT quote_ident(k.conname)), '[]') FROM pg_constraint k
			WHERE k.contype IN ('p', 'u', 'x') AND k.condeferrable
			AND k.conrelid IN (SELECT relation UNION SELECT relid FROM pg_partition_tree(relation))),
		'replica', current_setting('session_replication_role') = 'replica',
		'columns', (SELECT jsonb_object_agg(a.attname, jsonb_build_object('type', iblt_internal.repair_type(a.atttypid),
				'equal', iblt_internal.repair_equal(a.atttypid), 'generated', a.attgenerated <> '', 'always', a.attidentity = 'a'))
			FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped))
	FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION iblt_internal.repair_describe(regclass) IS 'what iblt_repair has to know of the relation to be changed';

-- The plan

CREATE FUNCTION iblt_internal.repair_check_options(direction text, flags boolean[]) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF direction IS NULL OR direction NOT IN ('pull', 'push') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'direction must be pull or push',
			HINT = 'pull: the peer''s rows win, and this side is changed. push: this side''s rows win, and the peer is changed.';
	ELSIF array_position(flags, NULL) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'inserts, updates, deletes, cascade, apply and as_replica must not be null';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.repair_check_options(text, boolean[]) IS 'an error for options that make no sense';

CREATE FUNCTION iblt_internal.repair_check_target(conn text, plan jsonb, target text, kind text, apply boolean) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name text := plan -> target ->> 'relation';
BEGIN
	IF kind NOT IN ('table', 'partitioned table') THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('%s cannot be repaired: it is %s', name, kind),
			HINT = 'The relation to be changed must be a table or a partitioned table.';
	ELSIF conn IS NULL AND plan -> 'here' -> 'relation' = plan -> 'there' -> 'relation' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'a relation cannot be repaired from itself';
	ELSIF NOT (plan ->> 'unique')::boolean AND jsonb_path_exists(plan, '$.columns[*] ? (@.cast != "")') THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = 'rows without a unique key cannot be repaired where column types differ',
			HINT = 'Exclude those columns, or create a unique index on columns that are not null on both sides.';
	ELSIF apply AND (plan -> target ->> 'recovery')::boolean THEN
		RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction', MESSAGE = format('%s cannot be repaired: %s is a standby', name,
			CASE WHEN target = 'there' AND conn IS NOT NULL THEN 'the peer' ELSE 'this server' END), HINT = 'Repair its primary.';
	ELSIF apply AND current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction',
			MESSAGE = 'a repair cannot be applied in a transaction that sees one snapshot', HINT = 'Use isolation level READ COMMITTED.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.repair_check_target(text, jsonb, text, text, boolean) IS 'an error for what cannot be repaired';

-- Where constraints are deferrable, it is a trigger that finds equal values.
CREATE FUNCTION iblt_internal.repair_check_replica(name text, repair jsonb, described jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (repair ->> 'as_replica')::boolean AND described -> 'deferrable' <> '[]' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s cannot be repaired as replication does', name),
			DETAIL = format('Nothing would check constraints that are deferrable: %s.',
				(SELECT string_agg(k, ', ') FROM jsonb_array_elements_text(described -> 'deferrable') AS k)),
			HINT = 'Repair it with as_replica => false and session_replication_role = origin, or make them NOT DEFERRABLE.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.repair_check_replica(text, jsonb, jsonb) IS
'an error for unique and exclusion constraints that session_replication_role = replica turns off';

-- It runs on the target's side.
CREATE FUNCTION iblt_internal.repair_check_session(path text, as_replica boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	role text := current_setting('session_replication_role');
BEGIN
	IF path IS NOT NULL THEN
		PERFORM set_config('search_path', path, true), set_config('search_path', 'pg_catalog, pg_temp', true);
	END IF;
	IF as_replica AND role <> 'replica' THEN
		PERFORM set_config('session_replication_role', 'replica', true), set_config('session_replication_role', role, true);
	END IF;
EXCEPTION
	WHEN invalid_parameter_value THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'apply_search_path is not a list of schemas',
			HINT = 'Give it as in SET search_path: names with commas between them, in double quotes where needed.';
	WHEN insufficient_privilege THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'permission denied to set session_replication_role',
			DETAIL = 'as_replica sets it on the side to be changed.',
			HINT = 'Repair as a superuser there, or from PostgreSQL 15 on as a role that was granted SET ON PARAMETER session_replication_role.';
END
$$;
COMMENT ON FUNCTION iblt_internal.repair_check_session(text, boolean) IS 'an error if this session cannot run a repair under a search_path, or as replication does';

-- The compared columns, in their order, as the target's.
CREATE FUNCTION iblt_internal.repair_columns(plan jsonb, described jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_agg(d || jsonb_build_object('name', c ->> 'name', 'column', quote_ident(c ->> 'name'),
		'suffix', concat('::' || iblt_internal.repair_via(c), '::', d ->> 'type'),
		'key', NOT (plan ->> 'whole_row')::boolean AND (plan -> 'key') @> jsonb_build_array(jsonb_build_object('name', c -> 'name')))
		ORDER BY position), '[]')
	FROM jsonb_array_elements(plan -> 'columns') WITH ORDINALITY AS a(c, position),
		LATERAL (SELECT described -> 'columns' -> (c ->> 'name')) AS b(d)
$$;
COMMENT ON FUNCTION iblt_internal.repair_columns(jsonb, jsonb) IS 'how the columns of a plan are written in statements on the target';

CREATE FUNCTION iblt_internal.repair_prepare(conn text, relation regclass, peer_relation text, options jsonb, repair jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	target text := repair ->> 'target';
	plan jsonb;
	described jsonb;
BEGIN
	plan := iblt_internal.compare_prepare(conn, relation, peer_relation, options || '{"rows": true, "texts": true}');
	described := iblt_internal.peer_ask(conn, target, format('SELECT iblt_internal.repair_describe(%L)',
		plan -> target ->> 'relation'), 0.01);
	repair := repair || jsonb_build_object('as_replica', (repair ->> 'as_replica')::boolean OR (described ->> 'replica')::boolean);
	PERFORM iblt_internal.repair_check_target(conn, plan, target, described ->> 'kind', (repair ->> 'apply')::boolean),
		iblt_internal.repair_check_replica(plan -> target ->> 'relation', repair, described);
	IF repair ->> 'search_path' IS NOT NULL OR (repair ->> 'as_replica')::boolean THEN
		PERFORM iblt_internal.peer_ask(conn, target, format('SELECT iblt_internal.repair_check_session(%L, %L)',
			repair ->> 'search_path', (repair ->> 'as_replica')::boolean AND (repair ->> 'apply')::boolean), 0.01);
	END IF;
	RETURN plan || jsonb_build_object('repair', repair || jsonb_build_object('relation', plan -> target -> 'relation',
		'partitioned', described ->> 'kind' <> 'table', 'foreign', described -> 'foreign',
		'columns', iblt_internal.repair_columns(plan, described)));
END
$$;
COMMENT ON FUNCTION iblt_internal.repair_prepare(text, regclass, text, jsonb, jsonb) IS 'the plan of a comparison and of the repair';
