
-- The statements

-- Where a key is unique: it is inserted, deleted, or its columns are updated.
CREATE FUNCTION iblt_internal.repair_unique_steps(plan jsonb, differences iblt_internal.difference[]) RETURNS iblt_internal.repair_step[]
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
		1, p.changed)::iblt_internal.repair_step), '{}')
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
COMMENT ON FUNCTION iblt_internal.repair_unique_steps(jsonb, iblt_internal.difference[]) IS 'the statements for keys that are unique';

-- Where it is not: rows are deleted and inserted, as many as it takes.  The image
-- operator finds a row by its bytes, whatever its types, NULLs too; "=" is there
-- for indexes.
CREATE FUNCTION iblt_internal.repair_counted_steps(plan jsonb, differences iblt_internal.difference[]) RETURNS iblt_internal.repair_step[]
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
		x.n, NULL)::iblt_internal.repair_step), '{}')
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
COMMENT ON FUNCTION iblt_internal.repair_counted_steps(jsonb, iblt_internal.difference[]) IS 'the statements for keys that several rows may have';

-- The steps of a repair in the order in which they are run, and those that are not
-- run behind them.  Rows of a key that is not unique are repaired all or none.
CREATE FUNCTION iblt_internal.repair_steps(plan jsonb, differences iblt_internal.difference[]) RETURNS iblt_internal.repair_step[]
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	WITH step AS (
		SELECT (s).*, bool_or((s).action = 'delete' AND NOT (plan -> 'repair' ->> 'deletes')::boolean) OVER of_key AS no_delete,
			bool_or((s).action = 'insert' AND NOT (plan -> 'repair' ->> 'inserts')::boolean) OVER of_key AS no_insert,
			(s).action = 'update' AND NOT (plan -> 'repair' ->> 'updates')::boolean AS no_update
		FROM unnest(CASE WHEN (plan ->> 'unique')::boolean THEN iblt_internal.repair_unique_steps(plan, differences)
			ELSE iblt_internal.repair_counted_steps(plan, differences) END) AS s
		WINDOW of_key AS (PARTITION BY (s).id)
	), judged AS (
		SELECT step.*, CASE WHEN d.confirmed = false THEN 'not confirmed: its rows kept changing, or replication did not pass in time'
			WHEN step.no_delete THEN 'deletes => false' WHEN step.no_insert THEN 'inserts => false'
			WHEN step.no_update THEN 'updates => false' ELSE step.detail END AS reason
		FROM step JOIN unnest(differences) AS d USING (id)
	)
	SELECT coalesce(array_agg(ROW(id, key, action, CASE WHEN reason IS NULL THEN sql END,
			CASE WHEN reason IS NULL THEN 'preview' ELSE 'skipped' END, reason, n, columns)::iblt_internal.repair_step
		ORDER BY reason IS NOT NULL, array_position('{delete,update,insert}', action), key, sql), '{}')
	FROM judged
$$;
COMMENT ON FUNCTION iblt_internal.repair_steps(jsonb, iblt_internal.difference[]) IS 'the steps that make the rows of keys on the target like the source''s';

-- Under a condition on columns that differ, a changed row is on one side only: what
-- the other side has outside of the condition would be deleted here, or inserted
-- twice.  (Where the source alone has a condition, its other rows are not wanted.)
CREATE FUNCTION iblt_internal.repair_outside(conn text, plan jsonb, steps iblt_internal.repair_step[]) RETURNS iblt_internal.repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ids text[] := ARRAY(SELECT DISTINCT s.id FROM unnest(steps) AS s WHERE s.status = 'preview' AND s.action <> 'update');
BEGIN
	IF ids = '{}' OR NOT (plan ->> 'unique')::boolean OR plan -> (plan -> 'repair' ->> 'target') ->> 'condition' IS NULL THEN
		RETURN steps;
	END IF;
	ids := ARRAY(SELECT unnest(ids) EXCEPT SELECT a.id FROM unnest(iblt_internal.compare_look(conn,
		plan || jsonb_build_object('here', (plan -> 'here') - 'condition', 'there', (plan -> 'there') - 'condition'),
		iblt_internal.compare_id_keys(plan, ids))) AS a WHERE a.side <> 'both');
	RETURN ARRAY(SELECT ROW(s.id, s.key, s.action, CASE WHEN NOT x.outside THEN s.sql END, CASE WHEN x.outside THEN 'skipped' ELSE s.status END,
			CASE WHEN x.outside THEN 'both sides have a row of this key, but the condition is true of one only' ELSE s.detail END,
			s.n, s.columns)::iblt_internal.repair_step
		FROM unnest(steps) WITH ORDINALITY AS s, LATERAL (SELECT s.status = 'preview' AND s.id = ANY (ids)) AS x(outside)
		ORDER BY x.outside OR s.status = 'skipped', s.ordinality);
END
$$;
COMMENT ON FUNCTION iblt_internal.repair_outside(text, jsonb, iblt_internal.repair_step[]) IS
'the steps, of which those are skipped whose rows are outside of a condition on the other side';

-- What refers to the rows

CREATE FUNCTION iblt_internal.repair_rows_sql(plan jsonb, more text[] DEFAULT '{}') RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('%s JOIN %s ON %s', iblt_internal.compare_keys_sql(plan),
		iblt_internal.compare_rows_sql(plan, target, more), iblt_internal.compare_match_sql(plan, target))
	FROM (SELECT plan -> 'repair' ->> 'target') AS side(target)
$$;
COMMENT ON FUNCTION iblt_internal.repair_rows_sql(jsonb, text[]) IS
'the target''s rows t of the keys in $1, as a FROM clause; with columns beside those compared if they are named';

CREATE FUNCTION iblt_internal.repair_referring_sql(plan jsonb, foreign_key jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('WITH iblt_d AS MATERIALIZED (SELECT t.tableoid AS iblt_o, t.ctid AS iblt_c, %s FROM %s)'
		' SELECT count(*) FROM %s AS r JOIN iblt_d ON %s WHERE NOT EXISTS (SELECT FROM iblt_d AS x WHERE x.iblt_o = r.tableoid AND x.iblt_c = r.ctid)',
		string_agg(format('t.%I AS iblt_r%s', c ->> 'referenced', position), ', ' ORDER BY position),
		iblt_internal.repair_rows_sql(plan, '{tableoid,ctid}' || array_agg(c ->> 'referenced')), foreign_key ->> 'table',
		string_agg(format('iblt_d.iblt_r%s %s r.%I', position, c ->> 'equal', c ->> 'referring'), ' AND ' ORDER BY position))
	FROM jsonb_array_elements(foreign_key -> 'columns') WITH ORDINALITY AS a(c, position)
$$;
COMMENT ON FUNCTION iblt_internal.repair_referring_sql(jsonb, jsonb) IS
'a query that counts the rows that refer to rows of the keys in $1, and are none of them';

CREATE FUNCTION iblt_internal.repair_ask(conn text, plan jsonb, query text, ids text[]) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	target text := plan -> 'repair' ->> 'target';
BEGIN
	RETURN iblt_internal.peer_ask_keys(conn, plan -> target ->> 'schema', target, query, iblt_internal.compare_id_keys(plan, ids));
END
$$;
COMMENT ON FUNCTION iblt_internal.repair_ask(text, jsonb, text, text[]) IS 'the single value that a query of keys gives on the target''s side';

-- (No row can begin to refer to one that iblt_repair_lock has locked.)
CREATE FUNCTION iblt_internal.repair_referring(conn text, plan jsonb, steps iblt_internal.repair_step[], action text) RETURNS text[]
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
		found := iblt_internal.repair_ask(conn, plan, iblt_internal.repair_referring_sql(plan, k), ids);
		IF found > 0 THEN
			problems := problems || format('%s %s of %s %s to such rows by constraint %s ON %s %s', found,
				CASE found WHEN 1 THEN 'row' ELSE 'rows' END, k ->> 'table', CASE found WHEN 1 THEN 'refers' ELSE 'refer' END,
				k ->> 'name', upper(action), k ->> action);
		END IF;
	END LOOP;
	RETURN problems;
END
$$;
COMMENT ON FUNCTION iblt_internal.repair_referring(text, jsonb, iblt_internal.repair_step[], text) IS
'what foreign keys would change besides, or what would violate them, if the rows of all steps of a kind were changed';

-- In a preview, the steps tell what would be changed besides; what is to be applied
-- is refused then, unless asked for.
CREATE FUNCTION iblt_internal.repair_cascades(conn text, plan jsonb, steps iblt_internal.repair_step[]) RETURNS iblt_internal.repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	deletes text := array_to_string(iblt_internal.repair_referring(conn, plan, steps, 'delete'), '; ');
	updates text := array_to_string(iblt_internal.repair_referring(conn, plan, steps, 'update'), '; ');
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
			ELSE 'with all such rows: ' || x.also END, s.n, s.columns)::iblt_internal.repair_step
		FROM unnest(steps) WITH ORDINALITY AS s, LATERAL (SELECT CASE WHEN s.status <> 'preview' THEN ''
			WHEN s.action = 'delete' THEN deletes WHEN s.action = 'update' THEN updates ELSE '' END) AS x(also)
		ORDER BY s.ordinality);
END
$$;
COMMENT ON FUNCTION iblt_internal.repair_cascades(text, jsonb, iblt_internal.repair_step[]) IS
'says in the steps, or in an error, what foreign keys would change besides';
