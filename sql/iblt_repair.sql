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

CREATE TYPE iblt_repair_step AS (
	id text,
	key jsonb,
	action text,
	sql text,
	status text,
	detail text,
	n bigint,		-- rows that the statement must change
	columns text[]	-- that an update sets
);
COMMENT ON TYPE iblt_repair_step IS 'a statement of a repair, or why there is none';

-- What is to be written

-- A value of these types is read and written through another type, whose text
-- depends on no locale, is unambiguous, or is of the encoding.
CREATE FUNCTION iblt_repair_via(c jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE c ->> 'cast' WHEN '' THEN 'pg_catalog.' || ('{"18": "int4", "1002": "int4[]",
		"24": "regprocedure", "1008": "regprocedure[]", "2203": "regoperator", "2208": "regoperator[]",
		"790": "numeric", "791": "numeric[]", "142": "text", "143": "text[]"}'::jsonb ->> (c ->> 'base')) END
$$;
COMMENT ON FUNCTION iblt_repair_via(jsonb) IS
'the type through which values of a column are read and written, if its own text would not do';

CREATE FUNCTION iblt_repair_content_sql(plan jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	-- format uses the type's output; a cast to text would lose the blanks of a
	-- character(n).  IS NULL is also true of a row of nulls.
	SELECT format('to_jsonb(ARRAY[%s]::text[])', string_agg(format('CASE num_nulls(%1$s) WHEN 0 THEN format(''%%s'', %1$s) END', coalesce(
		format('t.%I::', c ->> 'name') || @extschema@.iblt_repair_via(c), @extschema@.iblt_compare_expression(c))), ', ' ORDER BY position))
	FROM jsonb_array_elements(plan -> 'columns') WITH ORDINALITY AS a(c, position)
$$;
COMMENT ON FUNCTION iblt_repair_content_sql(jsonb) IS 'the expression of a row of t as a jsonb array of texts';

CREATE FUNCTION iblt_repair_type(type oid) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format(CASE WHEN e.oid IS NULL THEN '%I.%I' ELSE '%I.%I[]' END, n.nspname, coalesce(e.typname, t.typname))
	FROM pg_type t LEFT JOIN pg_type e ON e.typarray = t.oid
	JOIN pg_namespace n ON n.oid = coalesce(e.typnamespace, t.typnamespace) WHERE t.oid = type
$$;
COMMENT ON FUNCTION iblt_repair_type(oid) IS 'a type''s name with its schema';

CREATE FUNCTION iblt_repair_equal(type oid) RETURNS text
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
COMMENT ON FUNCTION iblt_repair_equal(oid) IS 'the operator by which an index finds a value of a type';

-- Foreign keys whose actions may change what refers to a changed row, or whose rows
-- may come to refer to none where replication does not check them.
CREATE FUNCTION iblt_repair_foreign(relation regclass) RETURNS jsonb
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
COMMENT ON FUNCTION iblt_repair_foreign(regclass) IS 'the foreign keys that refer to a relation, and their actions';

-- It runs on the target's side, by the copy of the extension there.
CREATE FUNCTION iblt_repair_describe(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('kind', CASE
			WHEN c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = relation) THEN 'a table that others inherit from'
			ELSE '{"r": "table", "p": "partitioned table", "v": "a view", "m": "a materialized view", "f": "a foreign table",
				"S": "a sequence"}'::jsonb ->> c.relkind::text END,
		'foreign', @extschema@.iblt_repair_foreign(relation),
		-- their triggers do not fire there
		'deferrable', (SELECT coalesce(jsonb_agg(DISTINCT quote_ident(k.conname)), '[]') FROM pg_constraint k
			WHERE k.contype IN ('p', 'u', 'x') AND k.condeferrable
			AND k.conrelid IN (SELECT relation UNION SELECT relid FROM pg_partition_tree(relation))),
		'replica', current_setting('session_replication_role') = 'replica',
		'columns', (SELECT jsonb_object_agg(a.attname, jsonb_build_object('type', @extschema@.iblt_repair_type(a.atttypid),
				'equal', @extschema@.iblt_repair_equal(a.atttypid), 'generated', a.attgenerated <> '', 'always', a.attidentity = 'a'))
			FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped))
	FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION iblt_repair_describe(regclass) IS 'what iblt_repair has to know of the relation to be changed';

-- The plan

CREATE FUNCTION iblt_repair_check_options(direction text, flags boolean[]) RETURNS void
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
COMMENT ON FUNCTION iblt_repair_check_options(text, boolean[]) IS 'an error for options that make no sense';

CREATE FUNCTION iblt_repair_check_target(conn text, plan jsonb, target text, kind text, apply boolean) RETURNS void
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
COMMENT ON FUNCTION iblt_repair_check_target(text, jsonb, text, text, boolean) IS 'an error for what cannot be repaired';

-- Where constraints are deferrable, it is a trigger that finds equal values.
CREATE FUNCTION iblt_repair_check_replica(name text, repair jsonb, described jsonb) RETURNS void
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
COMMENT ON FUNCTION iblt_repair_check_replica(text, jsonb, jsonb) IS
'an error for unique and exclusion constraints that session_replication_role = replica turns off';

-- It runs on the target's side.
CREATE FUNCTION iblt_repair_check_session(path text, as_replica boolean) RETURNS void
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
COMMENT ON FUNCTION iblt_repair_check_session(text, boolean) IS 'an error if this session cannot run a repair under a search_path, or as replication does';

-- The compared columns, in their order, as the target's.
CREATE FUNCTION iblt_repair_columns(plan jsonb, described jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_agg(d || jsonb_build_object('name', c ->> 'name', 'column', quote_ident(c ->> 'name'),
		'suffix', concat('::' || @extschema@.iblt_repair_via(c), '::', d ->> 'type'),
		'key', NOT (plan ->> 'whole_row')::boolean AND (plan -> 'key') @> jsonb_build_array(jsonb_build_object('name', c -> 'name')))
		ORDER BY position), '[]')
	FROM jsonb_array_elements(plan -> 'columns') WITH ORDINALITY AS a(c, position),
		LATERAL (SELECT described -> 'columns' -> (c ->> 'name')) AS b(d)
$$;
COMMENT ON FUNCTION iblt_repair_columns(jsonb, jsonb) IS 'how the columns of a plan are written in statements on the target';

CREATE FUNCTION iblt_repair_prepare(conn text, relation regclass, peer_relation text, options jsonb, repair jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	target text := repair ->> 'target';
	plan jsonb;
	described jsonb;
BEGIN
	plan := @extschema@.iblt_compare_prepare(conn, relation, peer_relation, options || '{"rows": true, "texts": true}');
	described := @extschema@.iblt_peer_ask(conn, target, format('SELECT %s.iblt_repair_describe(%L)',
		plan -> target ->> 'schema', plan -> target ->> 'relation'), 0.01);
	repair := repair || jsonb_build_object('as_replica', (repair ->> 'as_replica')::boolean OR (described ->> 'replica')::boolean);
	PERFORM @extschema@.iblt_repair_check_target(conn, plan, target, described ->> 'kind', (repair ->> 'apply')::boolean),
		@extschema@.iblt_repair_check_replica(plan -> target ->> 'relation', repair, described);
	IF repair ->> 'search_path' IS NOT NULL OR (repair ->> 'as_replica')::boolean THEN
		PERFORM @extschema@.iblt_peer_ask(conn, target, format('SELECT %s.iblt_repair_check_session(%L, %L)', plan -> target ->> 'schema',
			repair ->> 'search_path', (repair ->> 'as_replica')::boolean AND (repair ->> 'apply')::boolean), 0.01);
	END IF;
	RETURN plan || jsonb_build_object('repair', repair || jsonb_build_object('relation', plan -> target -> 'relation',
		'partitioned', described ->> 'kind' <> 'table', 'foreign', described -> 'foreign',
		'columns', @extschema@.iblt_repair_columns(plan, described)));
END
$$;
COMMENT ON FUNCTION iblt_repair_prepare(text, regclass, text, jsonb, jsonb) IS 'the plan of a comparison and of the repair';

-- The statements

-- Where a key is unique: it is inserted, deleted, or its columns are updated.
CREATE FUNCTION iblt_repair_unique_steps(plan jsonb, differences @extschema@.iblt_difference[]) RETURNS @extschema@.iblt_repair_step[]
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	WITH col AS MATERIALIZED (
		SELECT position::integer - 1 AS i, x.* FROM jsonb_array_elements(plan -> 'repair' -> 'columns') WITH ORDINALITY AS a(c, position),
			jsonb_to_record(c) AS x(name text, "column" text, suffix text, equal text, key boolean, generated boolean, always boolean)
	), changed AS (
		SELECT d.id, d.key, s.source -> 0 -> 1 AS source, s.target -> 0 -> 1 AS target,
			CASE WHEN s.source IS NULL THEN 'delete' WHEN s.target IS NULL THEN 'insert' ELSE 'update' END AS action,
			s.source #>> '{0,0}' <> '1' OR s.target #>> '{0,0}' <> '1'
				OR jsonb_array_length(s.source) <> 1 OR jsonb_array_length(s.target) <> 1 AS several
		FROM unnest(differences) AS d, LATERAL (SELECT
			CASE plan -> 'repair' ->> 'target' WHEN 'here' THEN d.there ELSE d.here END,
			CASE plan -> 'repair' ->> 'target' WHEN 'here' THEN d.here ELSE d.there END) AS s(source, target)
	)
	SELECT coalesce(array_agg(ROW(x.id, x.key, x.action, CASE x.action
			WHEN 'delete' THEN format('DELETE FROM %s WHERE %s', plan -> 'repair' ->> 'relation', p.this)
			WHEN 'update' THEN format('UPDATE %s SET %s WHERE %s', plan -> 'repair' ->> 'relation', p.changes, p.this)
			ELSE format('INSERT INTO %s%s%s %s', plan -> 'repair' ->> 'relation', ' (' || p.names || ')',
				CASE WHEN p.always THEN ' OVERRIDING SYSTEM VALUE' END, coalesce('VALUES (' || p.vals || ')', 'DEFAULT VALUES')) END, 'preview',
		CASE WHEN x.several THEN 'several rows have this key although an index says that it is unique; see amcheck'
			WHEN x.action = 'update' AND p.fixed IS NOT NULL THEN 'differs in a column that is GENERATED ALWAYS AS IDENTITY: ' || p.fixed
			WHEN x.action = 'update' AND p.changes IS NULL AND p.made IS NOT NULL THEN 'differs only in generated columns: ' || p.made
			WHEN x.action = 'update' AND p.changes IS NULL THEN 'differs in a value that has the same text on both sides' END,
		1, p.changed)::@extschema@.iblt_repair_step), '{}')
	FROM changed AS x, LATERAL (SELECT
		string_agg(concat("column", ' ', coalesce(equal, 'OPERATOR(pg_catalog.=)'), ' ', old, suffix), ' AND ' ORDER BY i) FILTER (WHERE key) AS this,
		string_agg(concat("column", ' = ', new, suffix), ', ' ORDER BY i) FILTER (WHERE NOT generated AND new <> old) AS changes,
		array_agg(name) FILTER (WHERE NOT generated AND new <> old) AS changed,
		string_agg("column", ', ' ORDER BY i) FILTER (WHERE generated AND new <> old) AS made,
		string_agg("column", ', ' ORDER BY i) FILTER (WHERE always AND new <> old) AS fixed,
		bool_or(always) AS always,
		string_agg("column", ', ' ORDER BY i) FILTER (WHERE NOT generated) AS names,
		string_agg(new || suffix, ', ' ORDER BY i) FILTER (WHERE NOT generated) AS vals
		FROM col, LATERAL (SELECT quote_nullable(x.source ->> i), quote_nullable(x.target ->> i)) AS literal(new, old)) AS p
$$;
COMMENT ON FUNCTION iblt_repair_unique_steps(jsonb, iblt_difference[]) IS 'the statements for keys that are unique';

-- Where it is not: rows are deleted and inserted, as many as it takes.  The image
-- operator finds a row by its bytes, whatever its types, NULLs too; "=" is there
-- for indexes.
CREATE FUNCTION iblt_repair_counted_steps(plan jsonb, differences @extschema@.iblt_difference[]) RETURNS @extschema@.iblt_repair_step[]
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	WITH col AS MATERIALIZED (
		SELECT position::integer - 1 AS i, x.* FROM jsonb_array_elements(plan -> 'repair' -> 'columns') WITH ORDINALITY AS a(c, position),
			jsonb_to_record(c) AS x("column" text, suffix text, equal text, generated boolean, always boolean)
	), changed AS (
		SELECT d.id, d.key, c.texts, coalesce(c.n, 0) AS n
		FROM unnest(differences) AS d LEFT JOIN LATERAL (
			SELECT e -> 1 AS texts, sum(sign * (e ->> 0)::bigint)::bigint AS n
			FROM (VALUES (d.here, 1), (d.there, -1)) AS s(rows, sign), jsonb_array_elements(s.rows) AS e
			GROUP BY e -> 1 HAVING sum(sign * (e ->> 0)::bigint) <> 0) AS c ON true
	), wanted AS (
		SELECT id, key, texts, abs(n) AS n, CASE WHEN n = 0 THEN 'update'
			WHEN (n > 0) = (plan -> 'repair' ->> 'target' = 'here') THEN 'delete' ELSE 'insert' END AS action FROM changed
	)
	SELECT coalesce(array_agg(ROW(x.id, x.key, x.action, CASE x.action
			WHEN 'delete' THEN format(CASE WHEN (plan -> 'repair' ->> 'partitioned')::boolean
				THEN 'DELETE FROM %1$s WHERE (tableoid, ctid) OPERATOR(pg_catalog.=) ANY (SELECT tableoid, ctid FROM %1$s AS t WHERE %2$s%3$s LIMIT %4$s)'
				ELSE 'DELETE FROM %1$s WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT ctid FROM %1$s AS t WHERE %2$s%3$s LIMIT %4$s))' END,
				plan -> 'repair' ->> 'relation', p.this, coalesce(' AND (' || (plan -> (plan -> 'repair' ->> 'target') ->> 'condition') || E'\n)', ''), x.n)
			WHEN 'insert' THEN format('INSERT INTO %s%s%s %s', plan -> 'repair' ->> 'relation', ' (' || p.names || ')',
				CASE WHEN p.always THEN ' OVERRIDING SYSTEM VALUE' END, CASE x.n WHEN 1 THEN coalesce('VALUES (' || p.vals || ')', 'DEFAULT VALUES')
				ELSE format('SELECT %s FROM pg_catalog.generate_series(1, %s)', p.vals, x.n) END) END, 'preview',
		CASE x.action WHEN 'update' THEN 'differs in a value that has the same text on both sides' END,
		x.n, NULL)::@extschema@.iblt_repair_step), '{}')
	FROM wanted AS x, LATERAL (SELECT
		concat(string_agg(CASE WHEN x.texts ->> i IS NULL THEN concat('t.', "column", ' IS NULL AND ')
			ELSE concat('t.', "column", ' ', equal, ' ', literal, suffix, ' AND ') END, '' ORDER BY i) FILTER (WHERE equal IS NOT NULL),
			'ROW(', string_agg('t.' || "column", ', ' ORDER BY i), ')::pg_catalog.record OPERATOR(pg_catalog.*=) ROW(',
			string_agg(literal || suffix, ', ' ORDER BY i), ')::pg_catalog.record') AS this,
		bool_or(always) AS always,
		string_agg("column", ', ' ORDER BY i) FILTER (WHERE NOT generated) AS names,
		string_agg(literal || suffix, ', ' ORDER BY i) FILTER (WHERE NOT generated) AS vals
		FROM col, LATERAL quote_nullable(x.texts ->> i) AS literal) AS p
$$;
COMMENT ON FUNCTION iblt_repair_counted_steps(jsonb, iblt_difference[]) IS 'the statements for keys that several rows may have';

-- The steps of a repair in the order in which they are run, and those that are not
-- run behind them.  Rows of a key that is not unique are repaired all or none.
CREATE FUNCTION iblt_repair_steps(plan jsonb, differences @extschema@.iblt_difference[]) RETURNS @extschema@.iblt_repair_step[]
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	WITH step AS (
		SELECT (s).*, bool_or((s).action = 'delete' AND NOT (plan -> 'repair' ->> 'deletes')::boolean) OVER of_key AS no_delete,
			bool_or((s).action = 'insert' AND NOT (plan -> 'repair' ->> 'inserts')::boolean) OVER of_key AS no_insert,
			(s).action = 'update' AND NOT (plan -> 'repair' ->> 'updates')::boolean AS no_update
		FROM unnest(CASE WHEN (plan ->> 'unique')::boolean THEN @extschema@.iblt_repair_unique_steps(plan, differences)
			ELSE @extschema@.iblt_repair_counted_steps(plan, differences) END) AS s
		WINDOW of_key AS (PARTITION BY (s).id)
	), judged AS (
		SELECT step.*, CASE WHEN d.confirmed = false THEN 'not confirmed: its rows kept changing, or replication did not pass in time'
			WHEN step.no_delete THEN 'deletes => false' WHEN step.no_insert THEN 'inserts => false'
			WHEN step.no_update THEN 'updates => false' ELSE step.detail END AS reason
		FROM step JOIN unnest(differences) AS d USING (id)
	)
	SELECT coalesce(array_agg(ROW(id, key, action, CASE WHEN reason IS NULL THEN sql END,
			CASE WHEN reason IS NULL THEN 'preview' ELSE 'skipped' END, reason, n, columns)::@extschema@.iblt_repair_step
		ORDER BY reason IS NOT NULL, array_position('{delete,update,insert}', action), key, sql), '{}')
	FROM judged
$$;
COMMENT ON FUNCTION iblt_repair_steps(jsonb, iblt_difference[]) IS 'the steps that make the rows of keys on the target like the source''s';

-- Under a condition on columns that differ, a changed row is on one side only: what
-- the other side has outside of the condition would be deleted here, or inserted
-- twice.  (Where the source alone has a condition, its other rows are not wanted.)
CREATE FUNCTION iblt_repair_outside(conn text, plan jsonb, steps @extschema@.iblt_repair_step[]) RETURNS @extschema@.iblt_repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ids text[] := ARRAY(SELECT DISTINCT s.id FROM unnest(steps) AS s WHERE s.status = 'preview' AND s.action <> 'update');
BEGIN
	IF ids = '{}' OR NOT (plan ->> 'unique')::boolean OR plan -> (plan -> 'repair' ->> 'target') ->> 'condition' IS NULL THEN
		RETURN steps;
	END IF;
	ids := ARRAY(SELECT unnest(ids) EXCEPT SELECT a.id FROM unnest(@extschema@.iblt_compare_look(conn,
		plan || jsonb_build_object('here', (plan -> 'here') - 'condition', 'there', (plan -> 'there') - 'condition'),
		@extschema@.iblt_compare_id_keys(plan, ids))) AS a WHERE a.side <> 'both');
	RETURN ARRAY(SELECT ROW(s.id, s.key, s.action, CASE WHEN NOT x.outside THEN s.sql END, CASE WHEN x.outside THEN 'skipped' ELSE s.status END,
			CASE WHEN x.outside THEN 'both sides have a row of this key, but the condition is true of one only' ELSE s.detail END,
			s.n, s.columns)::@extschema@.iblt_repair_step
		FROM unnest(steps) WITH ORDINALITY AS s, LATERAL (SELECT s.status = 'preview' AND s.id = ANY (ids)) AS x(outside)
		ORDER BY x.outside OR s.status = 'skipped', s.ordinality);
END
$$;
COMMENT ON FUNCTION iblt_repair_outside(text, jsonb, iblt_repair_step[]) IS
'the steps, of which those are skipped whose rows are outside of a condition on the other side';

-- What refers to the rows

CREATE FUNCTION iblt_repair_rows_sql(plan jsonb, more text[] DEFAULT '{}') RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('%s JOIN %s ON %s', @extschema@.iblt_compare_keys_sql(plan),
		@extschema@.iblt_compare_rows_sql(plan, target, more), @extschema@.iblt_compare_match_sql(plan, target))
	FROM (SELECT plan -> 'repair' ->> 'target') AS side(target)
$$;
COMMENT ON FUNCTION iblt_repair_rows_sql(jsonb, text[]) IS
'the target''s rows t of the keys in $1, as a FROM clause; with columns beside those compared if they are named';

CREATE FUNCTION iblt_repair_referring_sql(plan jsonb, foreign_key jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('WITH iblt_d AS MATERIALIZED (SELECT t.tableoid AS iblt_o, t.ctid AS iblt_c, %s FROM %s)'
		' SELECT count(*) FROM %s AS r JOIN iblt_d ON %s WHERE NOT EXISTS (SELECT FROM iblt_d AS x WHERE x.iblt_o = r.tableoid AND x.iblt_c = r.ctid)',
		string_agg(format('t.%I AS iblt_r%s', c ->> 'referenced', position), ', ' ORDER BY position),
		@extschema@.iblt_repair_rows_sql(plan, '{tableoid,ctid}' || array_agg(c ->> 'referenced')), foreign_key ->> 'table',
		string_agg(format('iblt_d.iblt_r%s %s r.%I', position, c ->> 'equal', c ->> 'referring'), ' AND ' ORDER BY position))
	FROM jsonb_array_elements(foreign_key -> 'columns') WITH ORDINALITY AS a(c, position)
$$;
COMMENT ON FUNCTION iblt_repair_referring_sql(jsonb, jsonb) IS
'a query that counts the rows that refer to rows of the keys in $1, and are none of them';

CREATE FUNCTION iblt_repair_ask(conn text, plan jsonb, query text, ids text[]) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	target text := plan -> 'repair' ->> 'target';
BEGIN
	RETURN @extschema@.iblt_peer_ask_keys(conn, plan -> target ->> 'schema', target, query, @extschema@.iblt_compare_id_keys(plan, ids));
END
$$;
COMMENT ON FUNCTION iblt_repair_ask(text, jsonb, text, text[]) IS 'the single value that a query of keys gives on the target''s side';

-- (No row can begin to refer to one that iblt_repair_lock has locked.)
CREATE FUNCTION iblt_repair_referring(conn text, plan jsonb, steps @extschema@.iblt_repair_step[], action text) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- nobody checks it there
	every boolean := plan -> 'repair' ->> 'as_replica';
	k jsonb;
	ids text[];
	found bigint;
	problems text[] := '{}';
BEGIN
	FOR k IN SELECT e FROM jsonb_array_elements(plan -> 'repair' -> 'foreign') AS e
		WHERE every OR e ->> action NOT IN ('NO ACTION', 'RESTRICT')
	LOOP
		ids := ARRAY(SELECT DISTINCT s.id FROM unnest(steps) AS s WHERE s.status = 'preview' AND s.action = iblt_repair_referring.action
			AND (s.action = 'delete' OR EXISTS (SELECT FROM unnest(s.columns) AS c
				WHERE (k -> 'columns') @> jsonb_build_array(jsonb_build_object('referenced', c)))));
		CONTINUE WHEN ids = '{}';
		IF NOT (k ->> 'readable')::boolean THEN
			problems := problems || format('rows of %s, which may not be read, may refer to such rows by constraint %s ON %s %s',
				k ->> 'table', k ->> 'name', upper(action), k ->> action);
			CONTINUE;
		END IF;
		found := @extschema@.iblt_repair_ask(conn, plan, @extschema@.iblt_repair_referring_sql(plan, k), ids);
		IF found > 0 THEN
			problems := problems || format('%s %s of %s %s to such rows by constraint %s ON %s %s', found,
				CASE found WHEN 1 THEN 'row' ELSE 'rows' END, k ->> 'table', CASE found WHEN 1 THEN 'refers' ELSE 'refer' END,
				k ->> 'name', upper(action), k ->> action);
		END IF;
	END LOOP;
	RETURN problems;
END
$$;
COMMENT ON FUNCTION iblt_repair_referring(text, jsonb, iblt_repair_step[], text) IS
'what foreign keys would change besides, or what would violate them, if the rows of all steps of a kind were changed';

-- In a preview, the steps tell what would be changed besides; what is to be applied
-- is refused then, unless asked for.
CREATE FUNCTION iblt_repair_cascades(conn text, plan jsonb, steps @extschema@.iblt_repair_step[]) RETURNS @extschema@.iblt_repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	deletes text := array_to_string(@extschema@.iblt_repair_referring(conn, plan, steps, 'delete'), '; ');
	updates text := array_to_string(@extschema@.iblt_repair_referring(conn, plan, steps, 'update'), '; ');
	problem text := concat_ws('; ', nullif(deletes, ''), nullif(updates, ''));
	as_replica boolean := plan -> 'repair' ->> 'as_replica';
BEGIN
	IF problem <> '' AND (plan -> 'repair' ->> 'apply')::boolean AND NOT (plan -> 'repair' ->> 'cascade')::boolean THEN
		RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist',
			MESSAGE = CASE WHEN as_replica THEN 'the repair would leave rows that refer to missing rows'
				ELSE 'the repair would change rows beyond those compared' END, DETAIL = format('Of the rows to be deleted or updated: %s.', problem),
			HINT = 'Nothing was changed. Repair those tables first, or allow it by cascade => true.';
	END IF;
	RETURN ARRAY(SELECT ROW(s.id, s.key, s.action, s.sql, s.status, CASE WHEN x.also = '' THEN s.detail
			WHEN as_replica THEN 'foreign keys are not enforced, for all such rows: ' || x.also
			ELSE 'with all such rows: ' || x.also END, s.n, s.columns)::@extschema@.iblt_repair_step
		FROM unnest(steps) WITH ORDINALITY AS s, LATERAL (SELECT CASE WHEN s.status <> 'preview' THEN ''
			WHEN s.action = 'delete' THEN deletes WHEN s.action = 'update' THEN updates ELSE '' END) AS x(also)
		ORDER BY s.ordinality);
END
$$;
COMMENT ON FUNCTION iblt_repair_cascades(text, jsonb, iblt_repair_step[]) IS
'says in the steps, or in an error, what foreign keys would change besides';

-- What runs on the target's side

-- Errors are caught here to tell of their row and of no others: the statements of a
-- repair are in no query's text, and an error that is raised again has no other context.

CREATE FUNCTION iblt_repair_raise(sqlstate text, message text, detail text, hint text, schema_name text, table_name text,
	column_name text, datatype_name text, constraint_name text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION iblt_repair_raise(text, text, text, text, text, text, text, text, text) IS
'raises an error that was caught, with another detail and hint';

CREATE TYPE iblt_repair_error AS (
	state text,
	message text,
	detail text,
	hint text,
	context text,
	schema_name text,
	table_name text,
	column_name text,
	datatype_name text,
	constraint_name text
);
COMMENT ON TYPE iblt_repair_error IS 'all that an error told';

-- Of the context, what is inside of the statement is kept: it is of triggers and the like.
CREATE FUNCTION iblt_repair_fail(e @extschema@.iblt_repair_error, sql text, key text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	inside text := regexp_replace(left(e.context, strpos(e.context, sql)), '\n?[^\n]*$', '');
BEGIN
	PERFORM @extschema@.iblt_repair_raise(e.state, e.message,
		concat_ws(E'\n', nullif(e.detail, ''), format('The row has the key %s.', left(key, 1000)), 'Context: ' || nullif(inside, '')),
		e.hint, e.schema_name, e.table_name, e.column_name, e.datatype_name, e.constraint_name);
END
$$;
COMMENT ON FUNCTION iblt_repair_fail(iblt_repair_error, text, text) IS 'raises the error of a statement again, with the key of its row';

-- Only the statement runs under the path, with the triggers, defaults and checks in it:
-- the names of this function are PostgreSQL's own.
CREATE FUNCTION iblt_repair_statement(sql text, n bigint, at_most boolean, path text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	changed bigint;
BEGIN
	IF path IS NOT NULL THEN
		PERFORM pg_catalog.set_config('search_path', path, true);
	END IF;
	EXECUTE sql;
	GET DIAGNOSTICS changed = ROW_COUNT;
	IF path IS NOT NULL THEN
		PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	END IF;
	IF changed <> n AND NOT (at_most AND changed < n) THEN
		RAISE EXCEPTION USING ERRCODE = 'triggered_data_change_violation',
			MESSAGE = format('a statement of the repair changed %s rows instead of %s', changed, n), DETAIL = left(sql, 1000),
			HINT = 'Nothing was changed. A trigger, a rule or another session may be the reason; or, without a unique key, '
				'a value whose bytes are not those of its text: a row of a type that was altered, or a NaN of another sign.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_repair_statement(text, bigint, boolean, text) IS
'runs a statement, which must change so many rows, under a search_path if one is given';

CREATE FUNCTION iblt_repair_try(statements text[], n bigint[], at_most boolean[], path text,
	OUT failed integer, OUT e @extschema@.iblt_repair_error) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	current integer;
BEGIN
	FOR i IN 1 .. cardinality(statements) LOOP
		current := i;
		PERFORM @extschema@.iblt_repair_statement(statements[i], n[i], at_most[i], path);
	END LOOP;
EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
	GET STACKED DIAGNOSTICS e.state = RETURNED_SQLSTATE, e.message = MESSAGE_TEXT, e.detail = PG_EXCEPTION_DETAIL,
		e.hint = PG_EXCEPTION_HINT, e.context = PG_EXCEPTION_CONTEXT, e.schema_name = SCHEMA_NAME, e.table_name = TABLE_NAME,
		e.column_name = COLUMN_NAME, e.datatype_name = PG_DATATYPE_NAME, e.constraint_name = CONSTRAINT_NAME;
	IF path IS NULL AND e.state IN ('42P01', '42883', '42704', '3F000') THEN
		e.hint := concat_ws(E'\n', nullif(e.hint, ''), 'Set apply_search_path if a trigger, a default or a check names objects without their schema.');
	END IF;
	failed := current;
END
$$;
COMMENT ON FUNCTION iblt_repair_try(text[], bigint[], boolean[], text) IS
'runs all statements; or none, and returns the number of the first that failed and its error';

-- Errors that another order of the statements may avoid.
CREATE FUNCTION iblt_repair_is_order(state text) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	-- foreign_key_violation, restrict_violation, unique_violation, exclusion_violation
	SELECT state IN ('23503', '23001', '23505', '23P01')
$$;
COMMENT ON FUNCTION iblt_repair_is_order(text) IS 'may a statement with that error succeed behind others?';

-- Statements that only another order allows (a table that refers to itself, values
-- that must be unique) are tried again after the others, until none succeeds.  The
-- order turns each time, so that neither direction of a chain takes many rounds.
CREATE FUNCTION iblt_repair_execute_passes(statements text[], n bigint[], at_most boolean[], keys text[], path text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	remaining integer[] := ARRAY(SELECT i FROM generate_subscripts(statements, 1) AS i);
	failed integer[];
	i integer;
	e @extschema@.iblt_repair_error;
BEGIN
	WHILE remaining <> '{}' LOOP
		failed := '{}';
		FOREACH i IN ARRAY remaining LOOP
			e := (@extschema@.iblt_repair_try(statements[i:i], n[i:i], at_most[i:i], path)).e;
			CONTINUE WHEN e.state IS NULL;
			IF NOT @extschema@.iblt_repair_is_order(e.state) THEN
				PERFORM @extschema@.iblt_repair_fail(e, statements[i], keys[i]);
			END IF;
			failed := failed || i;
			IF cardinality(failed) = cardinality(remaining) THEN
				e.hint := 'Nothing was changed, for no order of the statements would do. '
					'A row referred to may be missing in another table, or rows exchange values that must be unique.';
				PERFORM @extschema@.iblt_repair_fail(e, statements[i], keys[i]);
			END IF;
		END LOOP;
		remaining := ARRAY(SELECT f FROM unnest(failed) WITH ORDINALITY AS x(f, position) ORDER BY position DESC);
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_repair_execute_passes(text[], bigint[], boolean[], text[], text) IS
'runs statements in an order that foreign keys and unique indexes allow';

CREATE FUNCTION iblt_repair_check_deferred(path text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	sql text := 'SET CONSTRAINTS ALL IMMEDIATE';
	try record := @extschema@.iblt_repair_try(ARRAY[sql], '{0}', '{f}', path);
BEGIN
	IF try.failed IS NOT NULL THEN
		PERFORM @extschema@.iblt_repair_fail(try.e, sql, NULL);
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_repair_check_deferred(text) IS 'runs all triggers and checks that are deferred';

-- As replication does: what the caller had deferred before is checked first, as it was meant.
CREATE FUNCTION iblt_repair_execute(statements text[], n bigint[], at_most boolean[], keys text[], path text, as_replica boolean)
RETURNS integer
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	role text := current_setting('session_replication_role');
	change boolean := as_replica AND role <> 'replica';
	try record;
BEGIN
	IF change THEN
		PERFORM @extschema@.iblt_repair_check_deferred(path);
		PERFORM set_config('session_replication_role', 'replica', true);
	END IF;
	SET CONSTRAINTS ALL DEFERRED;
	try := @extschema@.iblt_repair_try(statements, n, at_most, path);
	IF @extschema@.iblt_repair_is_order((try.e).state) THEN
		PERFORM @extschema@.iblt_repair_execute_passes(statements, n, at_most, keys, path);
	ELSIF try.failed IS NOT NULL THEN
		PERFORM @extschema@.iblt_repair_fail(try.e, statements[try.failed], keys[try.failed]);
	END IF;
	-- before anybody is told that it was applied
	PERFORM @extschema@.iblt_repair_check_deferred(path);
	IF change THEN
		PERFORM set_config('session_replication_role', role, true);
	END IF;
	RETURN cardinality(statements);
END
$$;
COMMENT ON FUNCTION iblt_repair_execute(text[], bigint[], boolean[], text[], text, boolean) IS
'runs the statements of a repair, each of which must change a number of rows';

-- Applying

CREATE FUNCTION iblt_repair_lock(conn text, plan jsonb, ids text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM @extschema@.iblt_compare_progress(plan, format('locking the rows of %s keys', cardinality(ids)));
	PERFORM @extschema@.iblt_repair_ask(conn, plan, format('SELECT count(*) FROM (SELECT FROM %s FOR UPDATE OF t) AS l',
		@extschema@.iblt_repair_rows_sql(plan)), ids);
END
$$;
COMMENT ON FUNCTION iblt_repair_lock(text, jsonb, text[]) IS 'locks the target''s rows of keys';

-- Steps of keys whose rows are as they were compared; the others are skipped.
CREATE FUNCTION iblt_repair_unchanged(steps @extschema@.iblt_repair_step[], before @extschema@.iblt_difference[],
	again @extschema@.iblt_difference[]) RETURNS @extschema@.iblt_repair_step[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(ROW(s.id, s.key, s.action, CASE WHEN x.reason IS NULL THEN s.sql END,
		CASE WHEN x.reason IS NULL THEN s.status ELSE 'skipped' END, coalesce(x.reason, s.detail), s.n, s.columns)::@extschema@.iblt_repair_step
		ORDER BY x.reason IS NOT NULL OR s.status = 'skipped', s.ordinality), '{}')
	FROM unnest(steps) WITH ORDINALITY AS s LEFT JOIN unnest(before) AS b ON b.id = s.id LEFT JOIN unnest(again) AS a ON a.id = s.id,
		LATERAL (SELECT CASE WHEN s.status = 'skipped' THEN NULL WHEN a.id IS NULL THEN 'equal by now'
			WHEN a.here IS DISTINCT FROM b.here OR a.there IS DISTINCT FROM b.there THEN 'changed since it was compared' END) AS x(reason)
$$;
COMMENT ON FUNCTION iblt_repair_unchanged(iblt_repair_step[], iblt_difference[], iblt_difference[]) IS
'the steps, of which those are skipped whose rows have changed';

-- A row of the source may have changed again meanwhile; the target's must be what was to be written.
CREATE FUNCTION iblt_repair_verify(conn text, plan jsonb, ids text[], wanted @extschema@.iblt_difference[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	pull boolean := plan -> 'repair' ->> 'target' = 'here';
	wrong text;
	found bigint;
BEGIN
	SELECT min(a.key::text), count(*) INTO wrong, found
	FROM unnest(@extschema@.iblt_compare_look(conn, plan, @extschema@.iblt_compare_id_keys(plan, ids))) AS a LEFT JOIN unnest(wanted) AS w USING (id)
	WHERE CASE WHEN pull THEN a.here IS DISTINCT FROM w.there OR a.there IS NOT DISTINCT FROM w.there
		ELSE a.there IS DISTINCT FROM w.here OR a.here IS NOT DISTINCT FROM w.here END;
	IF found > 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'triggered_data_change_violation',
			MESSAGE = format('after the repair, the rows of %s keys are not as on the source', found), DETAIL = 'One is ' || wrong,
			HINT = 'Nothing was changed. A trigger, a rule, or a column that is generated by another expression may be the reason.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_repair_verify(text, jsonb, text[], iblt_difference[]) IS 'an error if the rows of keys did not become what they should';

CREATE FUNCTION iblt_repair_run(conn text, plan jsonb, steps @extschema@.iblt_repair_step[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	target text := plan -> 'repair' ->> 'target';
	schema text := plan -> target ->> 'schema';
	path text := plan -> 'repair' ->> 'search_path';
	as_replica boolean := plan -> 'repair' ->> 'as_replica';
	-- a row may have gone with the row it referred to
	cascades boolean := NOT as_replica AND jsonb_path_exists(plan, '$.repair.foreign[*] ? (@.self == true && @.delete == "CASCADE")');
	statements text[];
	n bigint[];
	at_most boolean[];
	keys text[];
	done integer;
BEGIN
	SELECT coalesce(array_agg(s.sql ORDER BY s.ordinality), '{}'), array_agg(s.n ORDER BY s.ordinality),
		array_agg(cascades AND s.action = 'delete' ORDER BY s.ordinality), array_agg(s.key::text ORDER BY s.ordinality)
	INTO statements, n, at_most, keys FROM unnest(steps) WITH ORDINALITY AS s WHERE s.status = 'preview';
	PERFORM @extschema@.iblt_compare_progress(plan, format('changing %s: %s statements', plan -> 'repair' ->> 'relation', cardinality(statements)));
	IF target = 'there' AND conn IS NOT NULL THEN
		PERFORM @extschema@.iblt_peer_send_keys(conn, schema, format('iblt_repair_execute of %s statements', cardinality(statements)),
			format('SELECT %s.iblt_repair_execute(%L, %L, %L, %L, %L, %L)', schema, statements, n, at_most, keys, path, as_replica));
		done := @extschema@.iblt_peer_value(conn, 0.01, 2);
	ELSE
		done := @extschema@.iblt_repair_execute(statements, n, at_most, keys, path, as_replica);
	END IF;
	IF done IS DISTINCT FROM cardinality(statements) THEN
		RAISE EXCEPTION USING ERRCODE = 'connection_failure', MESSAGE = 'the peer''s answer was lost', DETAIL = 'Nothing was changed.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_repair_run(text, jsonb, iblt_repair_step[]) IS 'runs the statements on the target, in one message';

-- From here on, the transaction that changes the target has a lock on it: it stays what
-- was described.
CREATE FUNCTION iblt_repair_claim(conn text, plan jsonb, differences @extschema@.iblt_difference[],
	INOUT steps @extschema@.iblt_repair_step[], OUT again @extschema@.iblt_difference[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ids text[] := ARRAY(SELECT DISTINCT s.id FROM unnest(steps) AS s WHERE s.status = 'preview');	-- sorted, as locks should be
BEGIN
	IF conn IS NOT NULL AND plan -> 'repair' ->> 'target' = 'there' THEN
		PERFORM @extschema@.iblt_peer_send(conn, 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;'
			' SELECT pg_catalog.set_config(''iblt.writing'', ''on'', true)', false), @extschema@.iblt_peer_value(conn);
	END IF;
	IF ids = '{}' THEN
		RETURN;
	END IF;
	-- a lock takes the right to update, which inserting must not ask for
	IF EXISTS (SELECT FROM unnest(steps) AS s WHERE s.status = 'preview' AND s.action <> 'insert') THEN
		PERFORM @extschema@.iblt_repair_lock(conn, plan, ids);
	END IF;
	again := @extschema@.iblt_compare_look(conn, plan, @extschema@.iblt_compare_id_keys(plan, ids));
	steps := @extschema@.iblt_repair_outside(conn, plan, @extschema@.iblt_repair_unchanged(steps, differences, again));
	IF EXISTS (SELECT FROM unnest(steps) AS s WHERE s.status = 'preview') THEN
		steps := @extschema@.iblt_repair_cascades(conn, plan, steps);
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_repair_claim(text, jsonb, iblt_difference[], iblt_repair_step[]) IS
'locks the rows and looks at them again: the steps that are still to be run, and the differences there are now';

-- All but the peer's COMMIT.
CREATE FUNCTION iblt_repair_apply(conn text, plan jsonb, again @extschema@.iblt_difference[], steps @extschema@.iblt_repair_step[])
RETURNS @extschema@.iblt_repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ids text[] := ARRAY(SELECT DISTINCT s.id FROM unnest(steps) AS s WHERE s.status = 'preview');
BEGIN
	IF ids = '{}' THEN
		RETURN steps;
	END IF;
	PERFORM @extschema@.iblt_repair_run(conn, plan, steps);
	PERFORM @extschema@.iblt_compare_progress(plan, format('reading the rows of %s keys once more', cardinality(ids)));
	PERFORM @extschema@.iblt_repair_verify(conn, plan, ids, again);
	RETURN ARRAY(SELECT ROW(s.id, s.key, s.action, s.sql, CASE s.status WHEN 'preview' THEN 'applied' ELSE s.status END,
		s.detail, s.n, s.columns)::@extschema@.iblt_repair_step FROM unnest(steps) WITH ORDINALITY AS s ORDER BY s.ordinality);
END
$$;
COMMENT ON FUNCTION iblt_repair_apply(text, jsonb, iblt_difference[], iblt_repair_step[]) IS
'changes the rows that were claimed, and reads them once more';

CREATE FUNCTION iblt_repair_find(conn text, INOUT plan jsonb, OUT steps @extschema@.iblt_repair_step[], OUT again @extschema@.iblt_difference[])
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	differences @extschema@.iblt_difference[] := @extschema@.iblt_compare_run(conn, plan);
BEGIN
	-- with another seed, keys would have other hashes
	plan := plan || jsonb_build_object('seed', (current_setting('iblt.compare_stats')::jsonb ->> 'seed')::bigint);
	steps := @extschema@.iblt_repair_outside(conn, plan, @extschema@.iblt_repair_steps(plan, differences));
	IF (plan -> 'repair' ->> 'apply')::boolean THEN
		SELECT c.steps, c.again INTO steps, again FROM @extschema@.iblt_repair_claim(conn, plan, differences, steps) AS c;
	ELSE
		steps := @extschema@.iblt_repair_cascades(conn, plan, steps);
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_repair_find(text, jsonb) IS
'compares, and previews, or claims the rows that are to be changed; and the plan with the seed used';

CREATE FUNCTION iblt_repair_commit(conn text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer text;
BEGIN
	PERFORM @extschema@.iblt_peer_send(conn, 'COMMIT', false);
	answer := @extschema@.iblt_peer_value(conn, 0.01, 0);
	IF answer = 'ROLLBACK' THEN
		RAISE EXCEPTION USING ERRCODE = 'transaction_rollback', MESSAGE = 'on the peer: the transaction was rolled back';
	ELSIF answer IS DISTINCT FROM 'COMMIT' THEN
		RAISE EXCEPTION USING ERRCODE = 'connection_failure', MESSAGE = 'the connection was lost';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_repair_commit(text) IS 'commits on the peer';

-- Only an error that the peer itself reports says that it did not commit.
CREATE FUNCTION iblt_repair_unknown(state text, message text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN message LIKE 'on the peer: %' AND left(state, 2) NOT IN ('08', '57') THEN message
		ELSE 'the outcome is unknown: the peer''s answer to COMMIT was lost (' || message || ')' END
$$;
COMMENT ON FUNCTION iblt_repair_unknown(text, text) IS 'what an error during the COMMIT of the peer means';

CREATE FUNCTION iblt_repair(
	relation regclass,
	peer text,
	direction text,
	peer_relation text DEFAULT NULL,
	columns text[] DEFAULT NULL,
	exclude text[] DEFAULT NULL,
	key_columns text[] DEFAULT NULL,
	condition text DEFAULT NULL,
	peer_condition text DEFAULT NULL,
	max_differences integer DEFAULT 100000,
	cast_types boolean DEFAULT false,
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	inserts boolean DEFAULT true,
	updates boolean DEFAULT true,
	deletes boolean DEFAULT true,
	"cascade" boolean DEFAULT false,
	apply boolean DEFAULT false,
	progress boolean DEFAULT false,
	apply_search_path text DEFAULT NULL,
	as_replica boolean DEFAULT false)
RETURNS TABLE (key jsonb, action text, sql text, status text, detail text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	SET search_path = pg_catalog, pg_temp
	SET row_security = off
	SET enable_indexonlyscan = off
	SET array_nulls = on
	SET quote_all_identifiers = off
	SET jit = off
	SET DateStyle = 'ISO'
	SET IntervalStyle = 'iso_8601'
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
	options jsonb := @extschema@.iblt_compare_defaults() || jsonb_strip_nulls(jsonb_build_object('columns', columns, 'exclude', exclude,
		'key_columns', key_columns, 'condition', condition, 'peer_condition', coalesce(peer_condition, condition), 'recheck', recheck))
		|| jsonb_build_object('max_differences', max_differences, 'cast_types', cast_types, 'timeout', timeout, 'progress', progress,
			'name', @extschema@.iblt_compare_peer_name(relation, NULL));
	repair jsonb := jsonb_build_object('target', CASE direction WHEN 'pull' THEN 'here' ELSE 'there' END,
		'inserts', inserts, 'updates', updates, 'deletes', deletes, 'cascade', "cascade", 'apply', apply,
		'search_path', apply_search_path, 'as_replica', as_replica);
	conn text := CASE WHEN peer IS NOT NULL THEN 'iblt_repair_' || gen_random_uuid() END;
	committing boolean := false;
	plan jsonb;
	found record;
	restart boolean;
	steps @extschema@.iblt_repair_step[];
	secret boolean;
	state text;
	message text;
	problem text;
	hint text;
BEGIN
	BEGIN
		PERFORM @extschema@.iblt_repair_check_options(direction, ARRAY[inserts, updates, deletes, "cascade", apply, as_replica]);
		PERFORM @extschema@.iblt_compare_check_options(relation, options);
		FOR attempt IN 1 .. 3 LOOP
			BEGIN
				plan := NULL;
				PERFORM @extschema@.iblt_peer_note('{}', true);
				IF conn IS NOT NULL THEN
					conn := @extschema@.iblt_peer_connect(peer, conn, 'iblt_repair ' || relation::text);
				END IF;
				plan := @extschema@.iblt_repair_prepare(conn, relation, peer_relation, options, repair);
				found := @extschema@.iblt_repair_find(conn, plan);
				EXIT;
			EXCEPTION WHEN OTHERS THEN
				GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
				restart := @extschema@.iblt_compare_restart(conn, peer, plan, attempt, state, message);
				IF NOT restart THEN
					RAISE;
				END IF;
				PERFORM @extschema@.iblt_compare_progress(options, 'a relation was altered, the repair starts again');
			END;
		END LOOP;
		-- from the first statement that changes rows on, nothing starts again
		steps := CASE WHEN apply THEN @extschema@.iblt_repair_apply(conn, found.plan, found.again, found.steps) ELSE found.steps END;
		committing := apply AND conn IS NOT NULL AND direction = 'push';
		IF committing THEN
			PERFORM @extschema@.iblt_repair_commit(conn);
		END IF;
		PERFORM @extschema@.iblt_peer_close(conn);
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
			problem = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		IF committing THEN
			PERFORM @extschema@.iblt_peer_close(conn);
			PERFORM @extschema@.iblt_peer_raise(state, @extschema@.iblt_repair_unknown(state, message), problem, hint);
		END IF;
		secret := @extschema@.iblt_peer_is_string(peer);
		PERFORM @extschema@.iblt_peer_fail(conn, secret, state, message, problem, hint);
		RAISE;
	END;
	PERFORM @extschema@.iblt_peer_note(jsonb_build_object('total_ms', @extschema@.iblt_compare_ms(started), 'finished_at', clock_timestamp()));
	RETURN QUERY SELECT s.key, s.action, s.sql || ';', s.status, s.detail FROM unnest(steps) WITH ORDINALITY AS s ORDER BY s.ordinality;
END
$$;
COMMENT ON FUNCTION iblt_repair(regclass, text, text, text, text[], text[], text[], text, text, integer, boolean, integer, interval, boolean, boolean, boolean, boolean, boolean, boolean, text, boolean) IS
'the statements that make one side like the other, which are run only with apply => true';
