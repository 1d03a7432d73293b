-- The statements -------------------------------------------------------------------
--
-- What a peer says is quoted here.  Statements name everything with its schema, so that
-- they mean the same under any search_path.
--
-- Rows may be large.  What a function in FROM gives is kept, in a file if need be, and what
-- unnest() gives in a list of SELECT is not.

-- What has to change

-- What has to happen to rows with unique keys.
-- A unique key is inserted or deleted, or its columns are updated.
CREATE FUNCTION repair_unique_changes(plan repair_plan,
	differences difference[]) RETURNS repair_change[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT ARRAY(SELECT ROW(s.id, s.key, CASE WHEN s.source IS NULL THEN 'delete'
				WHEN s.target IS NULL THEN 'insert' ELSE 'update' END,
			repair_wanted(plan, s.source -> 0 -> 1, s.target -> 0 -> 1), s.target -> 0 -> 1, 1,
			CASE WHEN s.source #>> '{0,0}' <> '1' OR s.target #>> '{0,0}' <> '1'
				OR jsonb_array_length(s.source) <> 1 OR jsonb_array_length(s.target) <> 1
			THEN 'several rows have this key although an index says that it is unique; see amcheck'
			ELSE repair_tie(plan, s.source -> 0 -> 1, s.target -> 0 -> 1) END)::repair_change
		FROM (SELECT (u.d).id, (u.d).key,
				CASE (plan.asked).target WHEN 'here' THEN (u.d).there ELSE (u.d).here END AS source,
				CASE (plan.asked).target WHEN 'here' THEN (u.d).here ELSE (u.d).there END AS target
			FROM (SELECT unnest(differences) AS d) AS u) AS s)
$$;

-- What has to happen to rows with keys that several rows may have.
-- Equal rows are counted.  The source has n rows more than the target, or fewer.
CREATE FUNCTION repair_counted_changes(plan repair_plan,
	differences difference[]) RETURNS repair_change[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT ARRAY(SELECT ROW(d.id, d.key, CASE WHEN c.n IS NULL THEN 'update'
				WHEN c.n > 0 THEN 'insert' ELSE 'delete' END,
			CASE WHEN c.n > 0 THEN c.texts END, CASE WHEN c.n < 0 THEN c.texts END,
			abs(coalesce(c.n, 0)),
			CASE WHEN c.n IS NULL THEN 'differs in a value that has the same text on both sides' END
			)::repair_change
		FROM unnest(differences) AS d LEFT JOIN LATERAL (
			SELECT x.texts, sum(x.n)::bigint AS n
			FROM (VALUES (d.here, 'here'), (d.there, 'there')) AS s(rows, side),
			LATERAL jsonb_array_elements(s.rows) AS e,
			LATERAL (SELECT e -> 1, (e ->> 0)::bigint
				* CASE s.side WHEN (plan.asked).target THEN -1 ELSE 1 END) AS x(texts, n)
			GROUP BY x.texts HAVING sum(x.n) <> 0) AS c ON true)
$$;

-- How it is written

-- A value as a literal, or what stands for a long one: its column and its hash, with the
-- secret before and behind it.
-- Rows cannot have the secret in them: they were read before anybody else knew it.
CREATE FUNCTION repair_literal(secret text, texts jsonb, i integer) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT CASE jsonb_typeof(texts -> i)
		WHEN 'object' THEN concat(secret, i, ' ', texts -> i ->> 'sha256', secret)
		ELSE quote_nullable(texts ->> i) END
$$;

-- The statements that insert rows.
CREATE FUNCTION repair_inserts(plan repair_plan, changes repair_change[]) RETURNS repair_step[]
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT ARRAY(SELECT ROW(x.id, x.key, x.action,
			format('INSERT INTO %s%s%s %s', s.relation, ' (' || p.names || ')',
				CASE WHEN p.always THEN ' OVERRIDING SYSTEM VALUE' END,
				CASE x.n WHEN 1 THEN coalesce('VALUES (' || p.vals || ')', 'DEFAULT VALUES')
				ELSE format('SELECT %s FROM pg_catalog.generate_series(1, %s)', p.vals, x.n) END),
			'preview', x.problem, x.n, NULL, NULL)::repair_step
		FROM repair_side(plan) AS s,
		(SELECT (u.x).* FROM (SELECT unnest(changes) AS x) AS u) AS x, LATERAL (SELECT
			bool_or(c.always) AS always,
			string_agg(c.identifier, ', ' ORDER BY c.i) FILTER (WHERE NOT c.generated) AS names,
			string_agg(repair_literal(plan.secret, x.source, c.i) || c.suffix, ', ' ORDER BY c.i)
				FILTER (WHERE NOT c.generated) AS vals
			FROM unnest(plan.columns) AS c) AS p
		WHERE x.action = 'insert')
$$;

-- The statements that update and delete rows by a unique key.
CREATE FUNCTION repair_unique_steps(plan repair_plan, changes repair_change[]) RETURNS repair_step[]
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT ARRAY(SELECT ROW(x.id, x.key, x.action, CASE x.action
				WHEN 'delete' THEN format('DELETE FROM %s WHERE %s', s.relation, p.this)
				ELSE format('UPDATE %s SET %s WHERE %s', s.relation, p.changes, p.this) END,
			'preview',
			CASE WHEN x.problem IS NOT NULL OR x.action = 'delete' THEN x.problem
				WHEN p.fixed IS NOT NULL
				THEN 'differs in a column that is GENERATED ALWAYS AS IDENTITY: ' || p.fixed
				WHEN p.changes IS NOT NULL THEN NULL
				WHEN p.made IS NOT NULL THEN 'differs only in generated columns: ' || p.made
				ELSE 'differs in a value that has the same text on both sides' END,
			1, p.changed, NULL)::repair_step
		FROM repair_side(plan) AS s,
		(SELECT (u.x).* FROM (SELECT unnest(changes) AS x) AS u) AS x, LATERAL (SELECT
			string_agg(concat(c.identifier, ' ', coalesce(c.equal, 'OPERATOR(pg_catalog.=)'), ' ',
				v.old, c.suffix), ' AND ' ORDER BY c.i) FILTER (WHERE c.key) AS this,
			string_agg(concat(c.identifier, ' = ', v.new, c.suffix), ', ' ORDER BY c.i)
				FILTER (WHERE NOT c.generated AND v.new <> v.old) AS changes,
			array_agg(c.name) FILTER (WHERE NOT c.generated AND v.new <> v.old) AS changed,
			string_agg(c.identifier, ', ' ORDER BY c.i)
				FILTER (WHERE c.generated AND v.new <> v.old) AS made,
			string_agg(c.identifier, ', ' ORDER BY c.i)
				FILTER (WHERE c.always AND v.new <> v.old) AS fixed
			FROM unnest(plan.columns) AS c,
			LATERAL (SELECT repair_literal(plan.secret, x.source, c.i),
				repair_literal(plan.secret, x.target, c.i) OFFSET 0) AS v(new, old)) AS p
		WHERE x.action <> 'insert')
$$;

-- The statements that delete as many equal rows as there are too many.
-- The image operator *= finds a row by its bytes, whatever its types, NULLs too.  "=" is
-- there for indexes.
CREATE FUNCTION repair_counted_steps(plan repair_plan,
	changes repair_change[]) RETURNS repair_step[]
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT ARRAY(SELECT ROW(x.id, x.key, x.action, CASE x.action WHEN 'delete' THEN format(
				CASE (plan.target).kind WHEN 'partitioned table'
				THEN 'DELETE FROM %1$s WHERE (tableoid, ctid) OPERATOR(pg_catalog.=)'
					' ANY (SELECT tableoid, ctid FROM %1$s AS t WHERE %2$s%3$s LIMIT %4$s)'
				ELSE 'DELETE FROM %1$s WHERE ctid OPERATOR(pg_catalog.=)'
					' ANY (ARRAY(SELECT ctid FROM %1$s AS t WHERE %2$s%3$s LIMIT %4$s))' END,
				s.relation, p.this, ' AND (' || s.condition || E'\n)', x.n) END,
			'preview', x.problem, x.n, NULL, NULL)::repair_step
		FROM repair_side(plan) AS s, unnest(changes) AS x, LATERAL (SELECT
			concat(string_agg(CASE WHEN x.target ->> c.i IS NULL
					THEN concat('t.', c.identifier, ' IS NULL AND ')
					ELSE concat('t.', c.identifier, ' ', c.equal, ' ', literal, c.suffix, ' AND ')
					END, '' ORDER BY c.i) FILTER (WHERE c.equal IS NOT NULL),
				'ROW(', string_agg('t.' || c.identifier, ', ' ORDER BY c.i),
				')::pg_catalog.record OPERATOR(pg_catalog.*=) ROW(',
				string_agg(literal || c.suffix, ', ' ORDER BY c.i), ')::pg_catalog.record') AS this
			FROM unnest(plan.columns) AS c,
			LATERAL repair_literal(plan.secret, x.target, c.i) AS literal) AS p
		WHERE x.action <> 'insert')
$$;

-- The statements that make the rows of keys on the target like those of the source.
CREATE FUNCTION repair_all_steps(plan repair_plan, differences difference[]) RETURNS repair_step[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	changes repair_change[];
BEGIN
	IF (plan.compared).is_unique THEN
		changes := repair_unique_changes(plan, differences);
		RETURN repair_inserts(plan, changes)
			|| repair_unique_steps(plan, changes);
	END IF;
	changes := repair_counted_changes(plan, differences);
	RETURN repair_inserts(plan, changes)
		|| repair_counted_steps(plan, changes);
END
$$;
