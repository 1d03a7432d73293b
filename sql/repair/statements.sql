-- The statements -------------------------------------------------------------------
--
-- What a peer says is quoted here.  Statements name everything with its schema, so that
-- they mean the same under any search_path.
--
-- One query makes the steps for all rows of a batch, and another one their statements when they are
-- executed or shown.  Both have an expression for each column, because a query over the columns for
-- each row would take most of the time.

-- What has to change
--
-- An action for n rows of a key, with the texts of the row on both sides, why it must not be made,
-- the checksums of all rows of the key, and that of the row that is written or deleted.

-- What has to happen to rows with unique keys.
-- A unique key is inserted or deleted, or its columns are updated.  If the newest row wins, the
-- last text of a row is its stamp.
-- Relies on: a row and its stamp from one statement, and the claim that looks at both again.
CREATE FUNCTION repair_unique_changes(differences difference[], place integer, newest boolean)
RETURNS TABLE (id text, key jsonb, action text, source_texts jsonb, target_texts jsonb, n bigint,
	problem text, source_checksum text, target_checksum text, checksum text)
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT d.id, d.key, CASE WHEN s.source_checksum IS NULL THEN 'delete'
			WHEN s.target_checksum IS NULL THEN 'insert' ELSE 'update' END,
		s.source #> '{0,1}', s.target #> '{0,1}', 1::bigint,
		CASE WHEN greatest(d.here_count, d.there_count) > 1
		THEN 'several rows have this key although an index says that it is unique; see amcheck'
		WHEN newest AND num_nulls(s.source_checksum, s.target_checksum) = 0
		THEN (SELECT CASE WHEN num_nulls(x.source_stamp, x.target_stamp) > 0
				THEN 'a tie: it is not known which row is newer'
				WHEN x.source_stamp = x.target_stamp THEN 'a tie: no row is newer'
				WHEN x.source_stamp < x.target_stamp THEN 'the row of the target is newer' END
			FROM (SELECT (s.source #>> '{0,1,-1}')::numeric, (s.target #>> '{0,1,-1}')::numeric)
				AS x(source_stamp, target_stamp)) END,
		repair_checksum(s.source_checksum, s.source, newest),
		repair_checksum(s.target_checksum, s.target, newest),
		coalesce(s.source, s.target) #>> '{0,2}'
	FROM unnest(differences) AS d,
	LATERAL (SELECT ARRAY[d.here_checksum, d.there_checksum], ARRAY[d.here, d.there])
		AS x(checksums, rows),
	LATERAL (SELECT x.checksums[3 - place], x.checksums[place], x.rows[3 - place], x.rows[place])
		AS s(source_checksum, target_checksum, source, target)
$$;

-- What has to happen to rows with keys that several rows may have.
-- Equal rows are counted.  The source has n rows more than the target, or fewer.
CREATE FUNCTION repair_counted_changes(differences difference[], place integer, newest boolean)
RETURNS TABLE (id text, key jsonb, action text, source_texts jsonb, target_texts jsonb, n bigint,
	problem text, source_checksum text, target_checksum text, checksum text)
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT d.id, d.key, CASE WHEN c.n IS NULL THEN 'update'
			WHEN c.n > 0 THEN 'insert' ELSE 'delete' END,
		CASE WHEN c.n > 0 THEN c.texts END, CASE WHEN c.n < 0 THEN c.texts END,
		abs(c.n),
		CASE WHEN c.n IS NULL THEN 'differs in a value that has the same text on both sides' END,
		(ARRAY[d.here_checksum, d.there_checksum])[3 - place],
		(ARRAY[d.here_checksum, d.there_checksum])[place], c.checksum
	FROM unnest(differences) AS d LEFT JOIN LATERAL (
		SELECT e.r -> 1 AS texts, sum(e.n)::bigint AS n,
			(array_agg(e.r ->> 2 ORDER BY e.n * sign(e.total) DESC))[1] AS checksum
		FROM (SELECT r, x.n, sum(x.n) OVER (PARTITION BY r -> 1) AS total
			FROM (VALUES (d.here, 1), (d.there, 2)) AS s(rows, place),
			LATERAL jsonb_array_elements(s.rows) AS r, LATERAL (SELECT (r ->> 0)::bigint
				* CASE s.place WHEN repair_counted_changes.place THEN -1 ELSE 1 END) AS x(n)) AS e
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
	RETURN (SELECT string_agg(format(form, c.i), ', ' ORDER BY c.i) FROM unnest(columns) AS c);

-- The expression of the texts that a list of expressions gives, without those that are NULL,
-- with something between them; NULL without expressions.
-- A function takes 100 arguments, and an array has room for more.
CREATE FUNCTION repair_joined_sql(expressions text, separator text) RETURNS text
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN format('array_to_string(ARRAY[%s]::text[], %L)', expressions, separator);

-- The beginning of a statement that inserts.
CREATE FUNCTION repair_insert_into(plan repair_plan, alias text DEFAULT '') RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT format('INSERT INTO %s%s%s%s ', (plan.target).relation, alias,
		' (' || string_agg(c.identifier, ', ' ORDER BY c.i) FILTER (WHERE NOT c.generated) || ')',
		CASE WHEN bool_or(c.always) THEN ' OVERRIDING SYSTEM VALUE' END)
	FROM unnest(plan.columns) AS c);

-- The query that makes the steps, all of them to be executed, for an item of FROM that gives x and
-- v; "action" is theirs if they have one, and "checksum" the expression of a row's checksum.  It
-- tells, too, whether some of them are special: they have a problem or a long value.
CREATE FUNCTION repair_steps_sql(plan repair_plan, item text, action text, checksum text)
RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	changed text := 'NULL::text[]';		-- the columns that an update sets
	problem text := 'x.problem';
	updates boolean := coalesce(action, 'update') = 'update' AND (plan.compared).is_unique;
	texts text;
	long text;
BEGIN
	SELECT string_agg(t, ', ' ORDER BY c.i), coalesce(string_agg(format('is_long(%s)', t), ' OR ')
			FILTER (WHERE action IS DISTINCT FROM 'delete'
				AND NOT is_short(((plan.compared).columns)[c.i + 1])
				AND short_text_sql(plan.compared, 'iblt_x') <> 'iblt_x'), 'false')
	INTO texts, long
	FROM unnest(plan.columns) AS c,
	LATERAL (SELECT CASE WHEN action = 'delete' AND NOT c.key THEN 'NULL'
			WHEN action = 'delete' THEN 'v.o' || c.i WHEN action IS NOT NULL THEN 'v.n' || c.i
			ELSE format('CASE x.action WHEN ''delete'' THEN v.o%1$s ELSE v.n%1$s END', c.i) END)
		AS e(t);
	IF updates THEN
		-- the names of the columns whose texts differ
		SELECT format('CASE x.action WHEN ''update'' THEN'
				' nullif(array_remove(ARRAY[%s]::text[], NULL), ''{}'') END OFFSET 0',
				string_agg(format(d.form, c.name), ', ' ORDER BY c.i)
					FILTER (WHERE NOT c.generated)),
			format('CASE WHEN x.problem IS NOT NULL OR x.action <> ''update'' THEN x.problem'
				' WHEN %1$s <> '''' THEN'
				' ''differs in a column that is GENERATED ALWAYS AS IDENTITY: '' || %1$s'
				' WHEN w.columns IS NOT NULL THEN NULL WHEN %2$s <> '''''
				' THEN ''differs only in generated columns: '' || %2$s'
				' ELSE ''differs in a value that has the same text on both sides'' END OFFSET 0',
				coalesce(repair_joined_sql(string_agg(format(d.form, c.identifier), ', '
					ORDER BY c.i) FILTER (WHERE c.always), ', '), ''''''),
				coalesce(repair_joined_sql(string_agg(format(d.form, c.identifier), ', '
					ORDER BY c.i) FILTER (WHERE c.generated), ', '), ''''''))
		INTO changed, problem
		FROM unnest(plan.columns) AS c, LATERAL (SELECT format(
			'CASE WHEN v.n%1$s IS DISTINCT FROM v.o%1$s THEN %%L END', c.i)) AS d(form);
	END IF;
	RETURN format('SELECT coalesce(array_agg(ROW(x.id, x.key, x.action, p.problem, x.n,'
			' w.columns, ARRAY[%1$s]::text[], CASE WHEN %2$s THEN %3$s END, x.source_checksum,'
			' x.target_checksum, NULL)::repair_step%4$s), ''{}'') AS steps,'
			' coalesce(bool_or(p.problem IS NOT NULL OR %2$s), false) AS special FROM %5$s,'
			' LATERAL (SELECT %6$s) AS w(columns), LATERAL (SELECT %7$s) AS p(problem)',
		texts, long, checksum,
		-- keys that a scan finds are in the order of rows
		CASE WHEN action IS NULL THEN format(' ORDER BY x.key, ARRAY[%s]::text[]', texts)
			ELSE '' END, item, changed, problem);
END
$$;

-- The expression of the statement of a step x, and an item of FROM for the steps in $1.
-- A statement that is shown has its long values.  One that is executed takes them from the file, in
-- a subquery, so that this happens once.
CREATE FUNCTION repair_shown_sql(plan repair_plan, shown boolean, OUT statement text,
	OUT item text)
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	s side := plan.target;
	inserts text := (SELECT format('concat(%L, CASE x.n WHEN 1 THEN %s ELSE concat(''SELECT '', %s,'
			' '' FROM pg_catalog.generate_series(1, '', x.n, '')'') END)',
		repair_insert_into(plan),
		coalesce('concat(''VALUES ('', ' || v.list || ', '')'')', '''DEFAULT VALUES'''),
		coalesce(v.list, ''''''))
		FROM (SELECT repair_joined_sql(string_agg(format('v.n%s || %L', c.i, c.suffix), ', '
			ORDER BY c.i), ', ') FROM unnest(plan.columns) AS c WHERE NOT c.generated) AS v(list));
BEGIN
	IF (plan.compared).is_unique THEN
		SELECT format('CASE x.action WHEN ''delete'' THEN concat(%L, %s)'
				' WHEN ''insert'' THEN %s ELSE concat(%L, %s, '' WHERE '', %2$s) END',
			format('DELETE FROM %s WHERE ', relation_sql(s)),
			-- that a row has the key
			repair_joined_sql(string_agg(format('concat(%L, v.n%s, %L)', format('%s %s ',
					c.identifier, coalesce(c.equal, 'OPERATOR(pg_catalog.=)')), c.i, c.suffix),
				', ' ORDER BY c.i) FILTER (WHERE c.key), ' AND '),
			inserts, format('UPDATE %s SET ', relation_sql(s)),
			coalesce(repair_joined_sql(string_agg(format('CASE WHEN %L = ANY (x.columns)'
				' THEN concat(%L, '' = '', v.n%s, %L) END', c.name, c.identifier, c.i, c.suffix),
				', ' ORDER BY c.i) FILTER (WHERE NOT c.generated), ', '), 'NULL'))
		INTO statement FROM unnest(plan.columns) AS c;
	ELSE
		-- The statement deletes as many equal rows as there are too many.  The image operator *=
		-- finds a row by its bytes, whatever its types, NULLs too.  "=" is there for indexes.
		SELECT format('CASE x.action WHEN ''delete'' THEN concat(%L, %s, %L, %s, %L, x.n, %L)'
				' WHEN ''insert'' THEN %s END',
			format(CASE WHEN k.parted THEN 'DELETE FROM %1$s WHERE (tableoid, ctid)'
					' OPERATOR(pg_catalog.=) ANY (SELECT tableoid, ctid FROM %1$s AS t WHERE '
				ELSE 'DELETE FROM %1$s WHERE ctid OPERATOR(pg_catalog.=)'
					' ANY (ARRAY(SELECT ctid FROM %1$s AS t WHERE ' END, relation_sql(s)),
			coalesce(p.indexed, ''''''),
			format('ROW(%s)::pg_catalog.record OPERATOR(pg_catalog.*=) ROW(', p.names),
			coalesce(p.literals, ''''''),
			concat(')::pg_catalog.record', ' AND (' || s.condition || E'\n)', ' LIMIT '),
			CASE WHEN k.parted THEN ')' ELSE '))' END, inserts)
		INTO statement
		FROM (SELECT (plan.described).kind = 'partitioned table') AS k(parted),
		(SELECT repair_joined_sql(string_agg(format('CASE v.n%1$s WHEN ''NULL'' THEN %2$L'
					' ELSE concat(%3$L, v.n%1$s, %4$L) END', c.i,
					concat('t.', c.identifier, ' IS NULL AND '),
					concat('t.', c.identifier, ' ', c.equal, ' '), c.suffix || ' AND '),
				', ' ORDER BY c.i) FILTER (WHERE c.equal IS NOT NULL), '') AS indexed,
			string_agg('t.' || c.identifier, ', ' ORDER BY c.i) AS names,
			repair_joined_sql(string_agg(format('v.n%s || %L', c.i, c.suffix), ', '
				ORDER BY c.i), ', ') AS literals
			FROM unnest(plan.columns) AS c) AS p;
	END IF;
	item := format('unnest($1) AS x, LATERAL (SELECT %s) AS v(%s)', concat_ws(', ',
		repair_each_sql(plan.columns, 'CASE WHEN x.long IS NULL OR is_long(x.texts[%1$s + 1])'
			' IS NOT TRUE THEN quote_nullable(x.texts[%1$s + 1]) ELSE ' || CASE WHEN shown
				THEN 'quote_literal(repair_value(x.texts[%1$s + 1]))'
				ELSE 'format(''(SELECT iblt_internal.repair_value(%%L))'', x.texts[%1$s + 1])' END
			|| ' END'), '0'),
		concat_ws(', ', repair_each_sql(plan.columns, 'n%s'), 'more'));
END
$$;
