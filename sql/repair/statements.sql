-- The statements -------------------------------------------------------------------
--
-- What a peer says is quoted here.  Statements name everything with its schema, so that
-- they mean the same under any search_path.
--
-- One query makes the steps for all differences of a batch.  It has an expression for each
-- column, because a query over the columns for each row would take most of the time.

-- What has to change

-- What has to happen to rows with unique keys.
-- A unique key is inserted or deleted, or its columns are updated.
CREATE FUNCTION repair_unique_changes(differences difference[], target_side text,
	newest boolean) RETURNS SETOF repair_change
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT s.id, s.key, CASE WHEN s.source_rows IS NULL THEN 'delete'
			WHEN s.target_rows IS NULL THEN 'insert' ELSE 'update' END,
		s.source_rows -> 0 -> 1, s.target_rows -> 0 -> 1, 1::bigint,
		CASE WHEN s.source_rows #>> '{0,0}' <> '1' OR s.target_rows #>> '{0,0}' <> '1'
			OR jsonb_array_length(s.source_rows) <> 1 OR jsonb_array_length(s.target_rows) <> 1
		THEN 'several rows have this key although an index says that it is unique; see amcheck'
		WHEN newest THEN repair_tie(s.source_rows -> 0 -> 1, s.target_rows -> 0 -> 1) END,
		s.here_checksum, s.there_checksum
	FROM (SELECT d.id, d.key, repair_source_of(target_side, d.here, d.there) AS source_rows,
			repair_target_of(target_side, d.here, d.there) AS target_rows,
			repair_checksum(d.here_checksum, d.here, newest) AS here_checksum,
			repair_checksum(d.there_checksum, d.there, newest) AS there_checksum
		FROM unnest(differences) AS d) AS s
$$;

-- What has to happen to rows with keys that several rows may have.
-- Equal rows are counted.  The source has n rows more than the target, or fewer.
CREATE FUNCTION repair_counted_changes(differences difference[], target_side text,
	newest boolean) RETURNS SETOF repair_change
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT d.id, d.key, CASE WHEN c.n IS NULL THEN 'update'
			WHEN c.n > 0 THEN 'insert' ELSE 'delete' END,
		CASE WHEN c.n > 0 THEN c.texts END, CASE WHEN c.n < 0 THEN c.texts END,
		abs(c.n),
		CASE WHEN c.n IS NULL THEN 'differs in a value that has the same text on both sides' END,
		d.here_checksum, d.there_checksum
	FROM unnest(differences) AS d LEFT JOIN LATERAL (
		SELECT x.texts, sum(x.n)::bigint AS n
		FROM (VALUES (d.here, 'here'), (d.there, 'there')) AS s(rows, side),
		LATERAL jsonb_array_elements(s.rows) AS e,
		LATERAL (SELECT e -> 1, (e ->> 0)::bigint
			* CASE s.side WHEN repair_counted_changes.target_side
				THEN -1 ELSE 1 END) AS x(texts, n)
		GROUP BY x.texts HAVING sum(x.n) <> 0) AS c ON true
$$;

-- How it is written
--
-- The query of repair_steps_sql has a change x, the literals of its row on the source in v.n0,
-- v.n1, ... and on the target in v.o0, v.o1, ..., and the columns that an update sets in
-- w.columns.  Statements of rows that an index finds are made when they are shown or executed
-- (repair_statements), unless a long value is in them.

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

-- A list with an expression for each of some columns, in whose form %1$s is the column's place.
CREATE FUNCTION repair_each_sql(columns repair_column[], form text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT string_agg(format(form, c.i), ', ' ORDER BY c.i) FROM unnest(columns) AS c
$$;

-- The names n0, n1, ..., o0, o1, ... for some columns, and one more, because a table may have none.
CREATE FUNCTION repair_names_sql(columns repair_column[]) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT concat_ws(', ', repair_each_sql(columns, 'n%s'), repair_each_sql(columns, 'o%s'), 'more')
$$;

-- The expression of the texts that a list of expressions gives, without those that are NULL,
-- with something between them; NULL without expressions.
-- A function takes 100 arguments, and an array has room for more.
CREATE FUNCTION repair_joined_sql(expressions text, separator text) RETURNS text
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
	SELECT format('array_to_string(ARRAY[%s]::text[], %L)', expressions, separator)
$$;

-- The beginning of a statement that inserts.
CREATE FUNCTION repair_insert_into(plan repair_plan, alias text DEFAULT '') RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT format('INSERT INTO %s%s%s%s ', (repair_target(plan)).relation, alias,
		' (' || string_agg(c.identifier, ', ' ORDER BY c.i) FILTER (WHERE NOT c.generated) || ')',
		CASE WHEN bool_or(c.always) THEN ' OVERRIDING SYSTEM VALUE' END)
	FROM unnest(plan.columns) AS c
$$;

-- The expression of the statement that inserts rows.
CREATE FUNCTION repair_insert_sql(plan repair_plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT format('concat(%L, CASE x.n WHEN 1 THEN %s ELSE concat(''SELECT '', %s,'
			' '' FROM pg_catalog.generate_series(1, '', x.n, '')'') END)',
		repair_insert_into(plan),
		coalesce('concat(''VALUES ('', ' || v.list || ', '')'')', '''DEFAULT VALUES'''),
		coalesce(v.list, ''''''))
	FROM (SELECT repair_joined_sql(string_agg(format('v.n%s || %L', c.i, c.suffix), ', '
		ORDER BY c.i), ', ') FROM unnest(plan.columns) AS c WHERE NOT c.generated) AS v(list)
$$;

-- The operator by which a column of a unique key is found.
CREATE FUNCTION repair_key_equal(c repair_column) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT coalesce(c.equal, 'OPERATOR(pg_catalog.=)')
$$;

-- The expression of the condition that a row has a unique key.
CREATE FUNCTION repair_key_sql(plan repair_plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT repair_joined_sql(string_agg(format('concat(%L, v.o%s, %L)', format('%s %s ',
		c.identifier, repair_key_equal(c)), c.i, c.suffix), ', ' ORDER BY c.i), ' AND ')
	FROM unnest(plan.columns) AS c WHERE c.key
$$;

-- The expression of the statement that deletes as many equal rows as there are too many.
-- The image operator *= finds a row by its bytes, whatever its types, NULLs too.  "=" is
-- there for indexes.
CREATE FUNCTION repair_counted_delete_sql(plan repair_plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT format('concat(%L, %s, %L, %s, %L, x.n, %L)',
		format(CASE WHEN k.parted THEN 'DELETE FROM %1$s WHERE (tableoid, ctid)'
				' OPERATOR(pg_catalog.=) ANY (SELECT tableoid, ctid FROM %1$s AS t WHERE '
			ELSE 'DELETE FROM %1$s WHERE ctid OPERATOR(pg_catalog.=)'
				' ANY (ARRAY(SELECT ctid FROM %1$s AS t WHERE ' END, relation_sql(s)),
		coalesce(p.indexed, ''''''),
		format('ROW(%s)::pg_catalog.record OPERATOR(pg_catalog.*=) ROW(', p.names),
		coalesce(p.literals, ''''''),
		concat(')::pg_catalog.record', ' AND (' || s.condition || E'\n)', ' LIMIT '),
		CASE WHEN k.parted THEN ')' ELSE '))' END)
	FROM repair_target(plan) AS s,
	(SELECT (plan.described).kind = 'partitioned table') AS k(parted),
	(SELECT repair_joined_sql(string_agg(format('CASE v.o%1$s WHEN ''NULL'' THEN %2$L'
				' ELSE concat(%3$L, v.o%1$s, %4$L) END', c.i,
				concat('t.', c.identifier, ' IS NULL AND '),
				concat('t.', c.identifier, ' ', c.equal, ' '), c.suffix || ' AND '),
			', ' ORDER BY c.i) FILTER (WHERE c.equal IS NOT NULL), '') AS indexed,
		string_agg('t.' || c.identifier, ', ' ORDER BY c.i) AS names,
		repair_joined_sql(string_agg(format('v.o%s || %L', c.i, c.suffix), ', '
			ORDER BY c.i), ', ') AS literals
		FROM unnest(plan.columns) AS c) AS p
$$;

-- A list of the names of some columns whose texts differ, as expressions; quoted or not.
CREATE FUNCTION repair_differing_sql(columns repair_column[], quoted boolean) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT string_agg(format('CASE WHEN v.n%1$s IS DISTINCT FROM v.o%1$s THEN %2$L END',
		c.i, CASE WHEN quoted THEN c.identifier ELSE c.name END), ', ' ORDER BY c.i)
	FROM unnest(columns) AS c
$$;

-- The expression of the statement for a unique key.
CREATE FUNCTION repair_statement_sql(plan repair_plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT format('CASE x.action WHEN ''delete'' THEN concat(%L, %s)'
			' WHEN ''insert'' THEN %s ELSE concat(%L, %s, '' WHERE '', %2$s) END',
		format('DELETE FROM %s WHERE ', relation_sql(repair_target(plan))), repair_key_sql(plan),
		repair_insert_sql(plan), format('UPDATE %s SET ', relation_sql(repair_target(plan))),
		coalesce(repair_joined_sql(string_agg(format('CASE WHEN %L = ANY (w.columns)'
			' THEN concat(%L, '' = '', v.n%s, %L) END', c.name, c.identifier, c.i, c.suffix),
			', ' ORDER BY c.i), ', '), 'NULL'))
	FROM unnest(plan.columns) AS c WHERE NOT c.generated
$$;

-- The expressions of the problem of an update of a unique key, and of the columns that it sets.
CREATE FUNCTION repair_unique_sql(plan repair_plan, OUT problem text, OUT changed text)
RETURNS record
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	written repair_column[] := ARRAY(SELECT c FROM unnest(plan.columns) AS c WHERE NOT c.generated);
	made repair_column[] := ARRAY(SELECT c FROM unnest(plan.columns) AS c WHERE c.generated);
	fixed repair_column[] := ARRAY(SELECT c FROM unnest(plan.columns) AS c WHERE c.always);
	nothing text := 'nullif(%s, '''')';
BEGIN
	changed := format('CASE x.action WHEN ''update'' THEN'
		' nullif(array_remove(ARRAY[%s]::text[], NULL), ''{}'') END',
		repair_differing_sql(written, false));
	problem := format('CASE WHEN x.problem IS NOT NULL OR x.action <> ''update'' THEN x.problem'
			' WHEN %1$s IS NOT NULL THEN'
			' ''differs in a column that is GENERATED ALWAYS AS IDENTITY: '' || %1$s'
			' WHEN w.columns IS NOT NULL THEN NULL WHEN %2$s IS NOT NULL'
			' THEN ''differs only in generated columns: '' || %2$s'
			' ELSE ''differs in a value that has the same text on both sides'' END',
		format(nothing, coalesce(repair_joined_sql(repair_differing_sql(fixed, true), ', '),
			'''''')),
		format(nothing, coalesce(repair_joined_sql(repair_differing_sql(made, true), ', '),
			'''''')));
END
$$;

-- The query that makes the steps, all of them to be executed, for the differences in $1.
-- $2 is the secret.
CREATE FUNCTION repair_steps_sql(plan repair_plan) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	is_unique boolean := (plan.compared).is_unique;
	sql text;
	problem text;
	changed text;
	aggregate text := 'coalesce(array_agg(y.step) FILTER (WHERE y.action = %L), ''{}'') AS %ss';
BEGIN
	IF is_unique THEN
		SELECT u.* INTO problem, changed FROM repair_unique_sql(plan) AS u;
		sql := repair_statement_sql(plan);
		IF repair_finds_by_index(plan) THEN
			sql := format('CASE WHEN x.source_texts @> ''[{}]'' OR x.target_texts @> ''[{}]'''
				' THEN %s END', sql);
		END IF;
	ELSE
		sql := format('CASE x.action WHEN ''delete'' THEN %s WHEN ''insert'' THEN %s END',
			repair_counted_delete_sql(plan), repair_insert_sql(plan));
		problem := 'x.problem';
		changed := 'NULL::text[]';
	END IF;
	RETURN format('SELECT %s, coalesce(bool_or(y.problem IS NOT NULL), false) AS problems'
			' FROM (SELECT x.action, p.problem, ROW(x.id, x.key, x.action, %s,'
			' ''due'', p.problem, x.n, w.columns, NULL,'
			' ARRAY(SELECT jsonb_array_elements_text('
			'CASE x.action WHEN ''delete'' THEN x.target_texts ELSE x.source_texts END)),'
			' x.here_checksum, x.there_checksum)::repair_step AS step'
			' FROM %s($1, %L, %L) AS x,'
			' LATERAL (SELECT %s OFFSET 0) AS v(%s),'
			' LATERAL (SELECT %s OFFSET 0) AS w(columns),'
			' LATERAL (SELECT %s OFFSET 0) AS p(problem)%s OFFSET 0) AS y',
		concat_ws(', ', format(aggregate, 'delete', 'delete'),
			format(aggregate, 'update', 'update'), format(aggregate, 'insert', 'insert')), sql,
		CASE WHEN is_unique THEN 'repair_unique_changes' ELSE 'repair_counted_changes' END,
		(plan.asked).target_side, (plan.asked).winner = 'newest',
		concat_ws(', ', repair_each_sql(plan.columns, 'repair_literal($2, x.source_texts, %s)'),
			repair_each_sql(plan.columns, 'repair_literal($2, x.target_texts, %s)'), '0'),
		repair_names_sql(plan.columns), changed, problem,
		-- other keys are in the order of rows
		CASE WHEN (plan.compared).by_hash THEN ' ORDER BY x.key, v' ELSE '' END);
END
$$;

-- The query that makes the steps for the keys in $1, whose rows have the checksums in $2 here and
-- in $3 there, from lists (lists_sql) of the texts on the source in $4 and on the target in $5; all
-- are of one action.
CREATE FUNCTION repair_listed_sql(plan repair_plan, action text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	columns repair_column[] := plan.columns;
	key repair_column[] := ARRAY(SELECT c FROM unnest(columns) AS c WHERE c.key);
	made record := repair_unique_sql(plan);
	source_sql text := ', '
		|| repair_each_sql(columns, 'unnest(($4)[%1$s + 1 : %1$s + 1]) AS n%1$s');
	target_sql text := ', '
		|| repair_each_sql(columns, 'unnest(($5)[%1$s + 1 : %1$s + 1]) AS o%1$s');
BEGIN
	IF action = 'delete' THEN
		target_sql := (SELECT string_agg(format(', unnest(($5)[%1$s : %1$s]) AS o%2$s',
				array_position(iblt_field((plan.compared).key),
					(((plan.compared).columns)[c.i + 1]).name), c.i), '')
			FROM unnest(key) AS c);
	END IF;
	RETURN format('SELECT coalesce(array_agg(ROW(v.id, %s, %L, NULL, ''due'', %s, 1, %s, NULL,'
			' ARRAY[%s], v.h, v.t)::repair_step), ''{}'') AS steps, %s AS problems FROM (SELECT'
			' unnest($1) AS id, unnest($2::text[]) AS h, unnest($3::text[]) AS t%s) AS v%s',
		key_json_sql((plan.compared).key), action,
		CASE action WHEN 'update' THEN 'p.problem' ELSE 'NULL' END,
		CASE action WHEN 'update' THEN 'w.columns' ELSE 'NULL' END,
		CASE action WHEN 'delete' THEN (SELECT string_agg(CASE WHEN c.key THEN 'v.o' || c.i
				ELSE 'NULL' END, ', ' ORDER BY c.i) FROM unnest(columns) AS c)
			ELSE repair_each_sql(columns, 'v.n%s') END,
		CASE action WHEN 'update' THEN 'coalesce(bool_or(p.problem IS NOT NULL), false)'
			ELSE 'false' END,
		CASE action WHEN 'insert' THEN source_sql WHEN 'delete' THEN target_sql
			ELSE source_sql || target_sql END,
		CASE action WHEN 'update' THEN format(', LATERAL (SELECT %L AS action, NULL AS problem)'
			' AS x, LATERAL (SELECT %s OFFSET 0) AS w(columns), LATERAL (SELECT %s OFFSET 0)'
			' AS p(problem)', action, made.changed, made.problem) END);
END
$$;

-- The expression of the statement of a step x, NULL if the session keeps it, and an item of FROM
-- for the steps in $1.
CREATE FUNCTION repair_shown_sql(plan repair_plan, OUT statement text, OUT item text) RETURNS record
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	literals text := repair_each_sql(plan.columns, 'quote_nullable(x.texts[%s + 1])');
BEGIN
	statement := CASE WHEN repair_finds_by_index(plan) THEN format('CASE WHEN x.sql IS NULL'
		' AND x.status = ''due'' AND x.kept IS NULL THEN %s ELSE x.sql END',
		repair_statement_sql(plan)) ELSE 'x.sql' END;
	item := format('unnest($1) AS x, LATERAL (SELECT %s) AS v(%s),'
		' LATERAL (SELECT x.columns) AS w(columns)', concat_ws(', ', literals, literals, '0'),
		repair_names_sql(plan.columns));
END
$$;

-- The statements of steps, as far as the session does not keep them.
CREATE FUNCTION repair_statements(plan repair_plan, steps repair_step[]) RETURNS text[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	shown record := repair_shown_sql(plan);
	result text[];
BEGIN
	EXECUTE format('SELECT array_agg(%s) FROM %s', shown.statement, shown.item)
	INTO result USING steps;
	RETURN result;
END
$$;

-- Many rows at once
--
-- One statement changes many rows as so many statements would: it has the texts of each
-- column as one literal of an array, and the elements are read as literals are.

-- Does a statement for many rows see what becomes of them? Not if something else may change them
-- later, a rule writes something else and returns what the statement had, or a condition may leave
-- them out, which may name columns that are not compared.
CREATE FUNCTION repair_sees(plan repair_plan) RETURNS boolean
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT repair_finds_by_index(plan) AND (plan.asked).winner = 'source'
		AND (repair_target(plan)).condition IS NULL
		AND (repair_target(plan)).mapped IS NOT TRUE AND (repair_target(plan)).remote IS NOT TRUE
		AND coalesce(cardinality((plan.described).triggers), 0) = 0 AND NOT (plan.described).rules
		AND NOT EXISTS (SELECT FROM unnest((plan.described).foreign_keys) AS k
			WHERE k.on_delete NOT IN ('NO ACTION', 'RESTRICT')
				OR k.on_update NOT IN ('NO ACTION', 'RESTRICT'))
$$;

-- The end of a statement that sees what it has written, as an expression of a query of its steps:
-- it answers a row for each, or none unless their checksums have the sum of those of the source.
CREATE FUNCTION repair_returning_sql(plan repair_plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT format('concat(%L, sum(s.%s::bigint), %L)', format(' RETURNING %s) SELECT FROM iblt_w'
			' WHERE (SELECT pg_catalog.sum(c) FROM iblt_w) OPERATOR(pg_catalog.=) ',
			row_checksum_sql(plan.compared)),
		repair_source_of((plan.asked).target_side, text 'here_checksum', 'there_checksum'),
		'::pg_catalog.numeric')
$$;

-- The query that makes statements of steps in $1, of an action and with columns that are set,
-- which are to be executed; NULL if a statement cannot have several rows.
-- unnest() of an array that a subquery gives has the planner take the index.
CREATE FUNCTION repair_many_sql(plan repair_plan, action text, columns text[]) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	relation text := relation_sql(repair_target(plan));
	sees boolean := action <> 'delete' AND repair_sees(plan);
	x record;
BEGIN
	SELECT string_agg(format('%L, quote_literal(array_agg(s.texts[%s])), %L',
			CASE WHEN c.first THEN '' ELSE ', ' END || 'pg_catalog.unnest((SELECT ', c.i + 1,
			format('::%s))', c.list)), ', ' ORDER BY c.i) AS lists,
		string_agg('c' || c.i, ', ' ORDER BY c.i) AS names,
		string_agg(format('iblt_v.c%s%s', c.i, c.suffix), ', ' ORDER BY c.i) AS vals,
		string_agg(format('%s = iblt_v.c%s%s', c.identifier, c.i, c.suffix), ', ' ORDER BY c.i)
			FILTER (WHERE c.name = ANY (columns)) AS sets,
		string_agg(format('t.%s %s iblt_v.c%s%s', c.identifier, c.equal, c.i, c.suffix),
			' AND ' ORDER BY c.i) FILTER (WHERE c.key) AS this,
		bool_and(c.list IS NOT NULL) AND NOT coalesce(bool_or(c.key AND c.name = ANY (columns)),
			false) AS possible INTO x
	FROM (SELECT u.i, u.identifier, u.suffix, u.list, u.name, u.key, repair_key_equal(u) AS equal,
			u.i = min(u.i) OVER () AS first FROM unnest(plan.columns) AS u
		WHERE CASE action WHEN 'insert' THEN NOT u.generated
			ELSE u.key OR u.name = ANY (columns) END) AS c;
	IF x.possible IS NOT TRUE OR action <> 'insert' AND NOT (plan.compared).is_unique THEN
		RETURN NULL;
	END IF;
	RETURN format('SELECT array_to_string(ARRAY[%L, %s, %L, %s], ''''), array_agg(s.ordinality)'
			' FROM unnest($1) WITH ORDINALITY AS s'
			' WHERE s.kept IS NULL AND s.n = 1 AND s.columns IS NOT DISTINCT FROM $2'
			' GROUP BY (s.ordinality - 1) / 1000',
		CASE WHEN sees THEN 'WITH iblt_w(c) AS (' ELSE '' END
			|| CASE action WHEN 'insert' THEN format('%sSELECT %s FROM ROWS FROM (',
				repair_insert_into(plan, ' AS t'), x.vals)
			WHEN 'delete' THEN format('DELETE FROM %s AS t USING ROWS FROM (', relation)
			ELSE format('UPDATE %s AS t SET %s FROM ROWS FROM (', relation, x.sets) END,
		x.lists,
		format(') AS iblt_v(%s)', x.names)
			|| CASE action WHEN 'insert' THEN '' ELSE ' WHERE ' || x.this END,
		CASE WHEN sees THEN repair_returning_sql(plan) ELSE 'NULL' END);
END
$$;

-- Statements for steps of an action, and the places of the steps that each is for.
-- Updates that set columns which few of the others set are not in one, nor are steps with long
-- values or of several rows.
CREATE FUNCTION repair_many(plan repair_plan, action text, steps repair_step[])
RETURNS SETOF repair_statement
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	columns text[];
	query text;
BEGIN
	FOR columns IN SELECT NULL WHERE action <> 'update' UNION ALL
			SELECT s.columns FROM unnest(CASE action WHEN 'update' THEN steps END) AS s
			GROUP BY 1 HAVING count(*) >= cardinality(steps) / 20 LOOP
		query := repair_many_sql(plan, action, columns);
		IF query IS NOT NULL THEN
			RETURN QUERY EXECUTE query USING steps, columns;
		END IF;
	END LOOP;
END
$$;
