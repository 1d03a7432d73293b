-- The statements -------------------------------------------------------------------
--
-- What a peer says is quoted here.  Statements name everything with its schema, so that
-- they mean the same under any search_path.
--
-- One query makes the steps for all rows of a batch, and another one their statements when they are
-- executed or shown.  Both have an expression for each column, because a query over the columns for
-- each row would take most of the time.

-- What has to change

-- What has to happen to rows with unique keys.
-- A unique key is inserted or deleted, or its columns are updated.
CREATE FUNCTION repair_unique_changes(differences difference[], target_side text,
	newest boolean) RETURNS SETOF repair_change
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT d.id, d.key, CASE WHEN s.source_checksum IS NULL THEN 'delete'
			WHEN s.target_checksum IS NULL THEN 'insert' ELSE 'update' END,
		s.source_row -> 1, s.target_row -> 1, 1::bigint,
		CASE WHEN greatest(d.here_count, d.there_count) > 1
		THEN 'several rows have this key although an index says that it is unique; see amcheck'
		WHEN newest AND num_nulls(s.source_checksum, s.target_checksum) = 0
		THEN repair_tie(s.source_row -> 1, s.target_row -> 1) END,
		repair_checksum(d.here_checksum, d.here, newest),
		repair_checksum(d.there_checksum, d.there, newest),
		coalesce(s.source_row, s.target_row) ->> 2
	FROM unnest(differences) AS d,
	LATERAL (SELECT repair_source_of(target_side, d.here_checksum, d.there_checksum),
			repair_target_of(target_side, d.here_checksum, d.there_checksum),
			repair_source_of(target_side, d.here, d.there) -> 0,
			repair_target_of(target_side, d.here, d.there) -> 0)
		AS s(source_checksum, target_checksum, source_row, target_row)
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
		d.here_checksum, d.there_checksum, c.checksum
	FROM unnest(differences) AS d LEFT JOIN LATERAL (
		SELECT e.r -> 1 AS texts, sum(e.n)::bigint AS n,
			(array_agg(e.r ->> 2 ORDER BY e.n * sign(e.total) DESC))[1] AS checksum
		FROM (SELECT r, x.n, sum(x.n) OVER (PARTITION BY r -> 1) AS total
			FROM (VALUES (d.here, 'here'), (d.there, 'there')) AS s(rows, side),
			LATERAL jsonb_array_elements(s.rows) AS r,
			LATERAL (SELECT (r ->> 0)::bigint * CASE s.side
				WHEN repair_counted_changes.target_side THEN -1 ELSE 1 END) AS x(n)) AS e
		GROUP BY e.r -> 1 HAVING sum(e.n) <> 0) AS c ON true
$$;

-- How it is written
--
-- The queries have a change or a step x, the texts or the literals of its row on the source in
-- v.n0, v.n1, ... and on the target in v.o0, v.o1, ..., and the columns that an update sets in
-- w.columns.  Statements are made of v.n0, v.n1, ... alone: the texts of the row that is written,
-- or for a delete of that on the target.

-- A list with an expression for each of some columns, in whose form %1$s is the column's place.
CREATE FUNCTION repair_each_sql(columns repair_column[], form text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT string_agg(format(form, c.i), ', ' ORDER BY c.i) FROM unnest(columns) AS c
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
CREATE FUNCTION repair_insert_into(plan repair_plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT format('INSERT INTO %s%s%s ', (repair_target(plan)).relation,
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
	(SELECT repair_joined_sql(string_agg(format('CASE v.n%1$s WHEN ''NULL'' THEN %2$L'
				' ELSE concat(%3$L, v.n%1$s, %4$L) END', c.i,
				concat('t.', c.identifier, ' IS NULL AND '),
				concat('t.', c.identifier, ' ', c.equal, ' '), c.suffix || ' AND '),
			', ' ORDER BY c.i) FILTER (WHERE c.equal IS NOT NULL), '') AS indexed,
		string_agg('t.' || c.identifier, ', ' ORDER BY c.i) AS names,
		repair_joined_sql(string_agg(format('v.n%s || %L', c.i, c.suffix), ', '
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

-- The query that makes the steps, all of them to be executed, for an item of FROM that gives x and
-- v; "action" is theirs if they have one, and "checksum" the expression of a row's checksum.
CREATE FUNCTION repair_steps_sql(plan repair_plan, item text, action text, checksum text)
RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	written repair_column[] := ARRAY(SELECT c FROM unnest(plan.columns) AS c WHERE NOT c.generated);
	made repair_column[] := ARRAY(SELECT c FROM unnest(plan.columns) AS c WHERE c.generated);
	fixed repair_column[] := ARRAY(SELECT c FROM unnest(plan.columns) AS c WHERE c.always);
	nothing text := 'nullif(%s, '''')';
	changed text := 'NULL::text[]';		-- the columns that an update sets
	problem text := 'x.problem';
	updates boolean := coalesce(action, 'update') = 'update' AND (plan.compared).is_unique;
	texts text := (SELECT string_agg(CASE WHEN action = 'delete' AND NOT c.key THEN 'NULL'
			WHEN action = 'delete' THEN 'v.o' || c.i WHEN action IS NOT NULL THEN 'v.n' || c.i
			ELSE format('CASE x.action WHEN ''delete'' THEN v.o%1$s ELSE v.n%1$s END', c.i) END,
			', ' ORDER BY c.i)
		FROM unnest(plan.columns) AS c);
	long text := (SELECT string_agg(format('is_long(y.texts[%s])', i), ' OR ')
		FROM generate_subscripts((plan.compared).columns, 1) AS i
		WHERE NOT is_short((plan.compared).columns[i]));
BEGIN
	IF updates THEN
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
	END IF;
	RETURN format('SELECT coalesce(array_agg(ROW(x.id, x.key, x.action, ''due'', p.problem, x.n,'
			' w.columns, y.texts, %s, x.here_checksum, x.there_checksum)::repair_step%s), ''{}'')'
			' AS steps, coalesce(bool_or(p.problem IS NOT NULL), false) AS problems FROM %s,'
			' LATERAL (SELECT ARRAY[%s]::text[] OFFSET 0) AS y(texts),'
			' LATERAL (SELECT %s OFFSET 0) AS w(columns),'
			' LATERAL (SELECT %s OFFSET 0) AS p(problem)',
		CASE WHEN long IS NULL OR action = 'delete' THEN 'NULL'
			ELSE format('CASE WHEN %s THEN %s END', long, checksum) END,
		-- keys that a scan finds are in the order of rows
		CASE WHEN action IS NULL THEN ' ORDER BY x.key, y.texts' ELSE '' END, item, texts, changed,
		problem);
END
$$;

-- The steps for differences of keys that a scan finds.
CREATE FUNCTION repair_scanned_steps(plan repair_plan, differences difference[]) RETURNS repair_made
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	made repair_made;
BEGIN
	EXECUTE repair_steps_sql(plan, format('%s($1, %L, %L) AS x, LATERAL (SELECT %s OFFSET 0)'
			' AS v(%s)', CASE WHEN (plan.compared).is_unique THEN 'repair_unique_changes'
			ELSE 'repair_counted_changes' END,
		(plan.asked).target_side, (plan.asked).winner = 'newest',
		concat_ws(', ', repair_each_sql(plan.columns, 'x.source_texts ->> %s'),
			repair_each_sql(plan.columns, 'x.target_texts ->> %s'), '0'),
		concat_ws(', ', repair_each_sql(plan.columns, 'n%s'),
			repair_each_sql(plan.columns, 'o%s'), 'more')), NULL, 'x.checksum')
	INTO made USING differences;
	RETURN made;
END
$$;

-- The steps for keys of one action that an index finds, whose rows have these checksums, from lists
-- (lists_sql) of their texts on the source and on the target.
CREATE FUNCTION repair_listed_steps(plan repair_plan, keys text[], action text, here text[],
	there text[], source text[], target text[]) RETURNS repair_made
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	names text[] := iblt_field((plan.compared).columns);
	listed text[];
	made repair_made;
BEGIN
	IF action <> 'delete' THEN
		listed := listed || repair_each_sql(plan.columns,
			'unnest(($4)[%1$s + 1 : %1$s + 1]) AS n%1$s');
	END IF;
	IF action <> 'insert' THEN
		listed := listed || (SELECT string_agg(format('unnest(($5)[%1$s : %1$s]) AS o%2$s',
				CASE action WHEN 'update' THEN c.i + 1 ELSE array_position(
					iblt_field((plan.compared).key), names[c.i + 1]) END, c.i), ', ')
			FROM unnest(plan.columns) AS c WHERE c.key OR action = 'update');
	END IF;
	EXECUTE repair_steps_sql(plan, format('(SELECT unnest($1) AS id,'
			' unnest($2) AS here_checksum, unnest($3) AS there_checksum, %s) AS v,'
			' LATERAL (SELECT v.id, %s, %L::text, NULL::text, 1::bigint, v.here_checksum,'
			' v.there_checksum) AS x(id, key, action, problem, n, here_checksum, there_checksum)',
			array_to_string(listed, ', '), key_json_sql((plan.compared).key), action), action,
		repair_source_of((plan.asked).target_side, text 'x.here_checksum', 'x.there_checksum'))
	INTO made USING keys, here, there, source, target;
	RETURN made;
END
$$;

-- The expression of the statement of a step x, and an item of FROM for the steps in $1.
-- A statement that is shown has its long values.  One that is executed has them in an array, which
-- is its parameter.
CREATE FUNCTION repair_shown_sql(plan repair_plan, shown boolean, OUT statement text,
	OUT item text) RETURNS record
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	statement := (
		SELECT CASE WHEN NOT (plan.compared).is_unique
			THEN format('CASE x.action WHEN ''delete'' THEN %s WHEN ''insert'' THEN %s END',
				repair_counted_delete_sql(plan), repair_insert_sql(plan))
			ELSE format('CASE x.action WHEN ''delete'' THEN concat(%L, %s)'
				' WHEN ''insert'' THEN %s ELSE concat(%L, %s, '' WHERE '', %2$s) END',
			format('DELETE FROM %s WHERE ', relation_sql(repair_target(plan))),
			-- that a row has the key
			(SELECT repair_joined_sql(string_agg(format('concat(%L, v.n%s, %L)', format('%s %s ',
					k.identifier, coalesce(k.equal, 'OPERATOR(pg_catalog.=)')), k.i, k.suffix),
				', ' ORDER BY k.i), ' AND ')
				FROM unnest(plan.columns) AS k WHERE k.key),
			repair_insert_sql(plan), format('UPDATE %s SET ', relation_sql(repair_target(plan))),
			coalesce(repair_joined_sql(string_agg(format('CASE WHEN %L = ANY (x.columns)'
				' THEN concat(%L, '' = '', v.n%s, %L) END', c.name, c.identifier, c.i, c.suffix),
				', ' ORDER BY c.i), ', '), 'NULL')) END
		FROM unnest(plan.columns) AS c WHERE NOT c.generated);
	item := format('unnest($1) AS x, LATERAL (SELECT %s) AS v(%s)', concat_ws(', ',
		repair_each_sql(plan.columns, 'CASE WHEN x.long IS NULL OR is_long(x.texts[%1$s + 1])'
			' IS NOT TRUE THEN quote_nullable(x.texts[%1$s + 1]) ELSE ' || CASE WHEN shown
				THEN 'quote_literal(repair_value(x.texts[%1$s + 1]))'
				ELSE 'concat(''($1)['', %1$s + 1, '']'')' END || ' END'), '0'),
		concat_ws(', ', repair_each_sql(plan.columns, 'n%s'), 'more'));
END
$$;

-- The statements of steps, each for the rows of one step.
CREATE FUNCTION repair_statements(plan repair_plan, steps repair_step[], at_most boolean)
RETURNS repair_statement[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	made record := repair_shown_sql(plan, false);
	result repair_statement[];
BEGIN
	EXECUTE format('SELECT coalesce(array_agg(ROW(%s, CASE WHEN x.long IS NOT NULL'
			' THEN ARRAY(SELECT CASE WHEN is_long(t) THEN t END FROM unnest(x.texts) AS t)::text'
			' END, x.n, $2, x.key::text)::repair_statement), ''{}'') FROM %s',
		made.statement, made.item)
	INTO result USING steps, at_most;
	RETURN result;
END
$$;

-- Many rows at once
--
-- One statement changes many rows as so many statements would: it has the texts of each
-- column as one literal of an array, and the elements are read as literals are.

-- Statements for steps of an action, and the places of the steps that each is for.
-- Updates that set columns which few of the others set are not in one, nor are steps with long
-- values or of several rows.
-- unnest() of an array that a subquery gives has the planner take the index.
CREATE FUNCTION repair_many(plan repair_plan, action text, steps repair_step[])
RETURNS TABLE (sql text, members bigint[])
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	relation text := relation_sql(repair_target(plan));
	columns text[];
	x record;
BEGIN
	FOR columns IN SELECT NULL WHERE action <> 'update' UNION ALL
			SELECT (u.s).columns FROM (SELECT unnest(steps) AS s WHERE action = 'update') AS u
			GROUP BY 1 HAVING count(*) >= cardinality(steps) / 20 LOOP
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
		FROM (SELECT u.i, u.identifier, u.suffix, u.list, u.name, u.key,
				coalesce(u.equal, 'OPERATOR(pg_catalog.=)') AS equal,
				u.i = min(u.i) OVER () AS first FROM unnest(plan.columns) AS u
			WHERE CASE action WHEN 'insert' THEN NOT u.generated
				ELSE u.key OR u.name = ANY (columns) END) AS c;
		-- otherwise a statement cannot have several rows
		CONTINUE WHEN x.possible IS NOT TRUE
			OR action <> 'insert' AND NOT (plan.compared).is_unique;
		RETURN QUERY EXECUTE format('SELECT array_to_string(ARRAY[%L, %s, %L], '''') AS sql,'
				' array_agg(s.ordinality) AS members'
				' FROM unnest($1) WITH ORDINALITY AS s'
				' WHERE s.long IS NULL AND s.n = 1 AND s.columns IS NOT DISTINCT FROM $2'
				' GROUP BY (s.ordinality - 1) / 1000',
			CASE action WHEN 'insert' THEN format('%sSELECT %s FROM ROWS FROM (',
					repair_insert_into(plan), x.vals)
				WHEN 'delete' THEN format('DELETE FROM %s AS t USING ROWS FROM (', relation)
				ELSE format('UPDATE %s AS t SET %s FROM ROWS FROM (', relation, x.sets) END,
			x.lists,
			format(') AS iblt_v(%s)', x.names)
				|| CASE action WHEN 'insert' THEN '' ELSE ' WHERE ' || x.this END)
		USING steps, columns;
	END LOOP;
END
$$;
