-- Parts of statements ----------------------------------------------------------------
--
-- Statements consist of quoted identifiers and literals, and run under search_path
-- pg_catalog on both sides.  t is a row of the relation.  Names of our own begin with
-- iblt_, and stand where no column of the relation can be meant.

-- The values of columns as they are compared, with commas between them; NULL for no columns.
-- Both sides convert in the same way, so it takes either type.  A cast of a floating-point number
-- to numeric has 15 or 6 digits only.  Its text has the fewest digits that read back as the number.
-- Beyond 2^53 these are not those of the integer that it is, which a cast to bigint gives.
-- The text of an array of numbers has zeros at the end of decimals before a comma or brace.
CREATE FUNCTION values_sql(VARIADIC columns plan_column[]) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	c plan_column;
	bases bigint[];
	by_text text;
	list text;
BEGIN
	FOREACH c IN ARRAY columns LOOP
		IF c.cast_to = '' THEN
			list := concat(list || ', ', format('t.%I', c.name));
			CONTINUE;
		END IF;
		by_text := 'pg_catalog.trim_scale(%1$s::pg_catalog.text::pg_catalog.numeric)';
		bases := ARRAY[c.base, c.base_there];
		list := concat(list || ', ', format(CASE c.cast_to WHEN 'numeric' THEN CASE
				WHEN NOT bases && '{700,701}' THEN 'pg_catalog.trim_scale(%s::pg_catalog.numeric)'
				WHEN 1700 = ANY (bases) THEN by_text
				ELSE 'CASE WHEN %1$s::pg_catalog.float8 OPERATOR(pg_catalog.=)'
					' pg_catalog.trunc(%1$s::pg_catalog.float8) AND %1$s::pg_catalog.float8'
					' OPERATOR(pg_catalog.>=) ''-9223372036854775808''::pg_catalog.float8'
					' AND %1$s::pg_catalog.float8'
					' OPERATOR(pg_catalog.<) ''9223372036854775808''::pg_catalog.float8'
					' THEN %1$s::pg_catalog.int8::pg_catalog.numeric ELSE ' || by_text || ' END' END
			WHEN 'numeric[]' THEN 'pg_catalog.regexp_replace(%1$s::pg_catalog.text'
				' COLLATE pg_catalog."C", %3$L, %4$L, ''g'')::pg_catalog.numeric[]'
			ELSE '%s::pg_catalog.%s' END,
			format('t.%I', c.name), c.cast_to, '(\.[0-9]*[1-9])0+(?=[,}])|\.0+(?=[,}])', '\1'));
	END LOOP;
	RETURN list;
END
$$;

-- The expression of a checksum of columns.
-- A function takes 100 arguments; a row has room for more columns.  A sole column is in
-- a row too, because it may bear the name t.  Without columns, all rows are the same.
CREATE FUNCTION checksum_sql(columns plan_column[], seed bigint) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format(CASE WHEN cardinality(columns) BETWEEN 2 AND 90
			THEN 'iblt_internal.iblt_checksum_seeded(%L::pg_catalog.int8, %s)'
			ELSE 'iblt_internal.iblt_checksum_seeded(%L::pg_catalog.int8, ROW(%s))' END,
		seed, coalesce(values_sql(VARIADIC columns), 'NULL::pg_catalog.text'));

-- The bounds in $2 and $3 and the part that is scanned, as a WHERE clause or an empty text.
-- Keys are in parts by a hash that has a seed of its own.
-- An entry of a damaged index may lead to a row of another slice.  Where rows are counted, that
-- would make up for a row that the index lacks, so the row itself is compared with the bounds.
-- So is the condition on a table of Citus, for it is not in a subquery (from_sql).
CREATE FUNCTION condition_sql(plan plan, s side) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN coalesce(' WHERE ' || nullif(concat_ws(' AND ',
		CASE WHEN s.distributed THEN '(' || s.condition || E'\n)' END,
		CASE WHEN has_bounds(plan) THEN format(CASE WHEN slice_may_count(plan)
				THEN '%1$s AND CASE WHEN %1$s THEN true END' ELSE '%s' END,
			slice_condition_sql(plan, s)) END,
		CASE WHEN plan.parts > 1 THEN format('(%s & 9223372036854775807) %% %s = %s',
			checksum_sql(plan.key, plan.seed # 2), plan.parts, plan.part) END), ''), '');

-- What the relation of a side calls columns of the plan.
CREATE FUNCTION own_names(s side, columns plan_column[]) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN ARRAY(SELECT coalesce((SELECT o.source FROM unnest(s.columns) AS o
			WHERE o.name = (columns[i]).name), (columns[i]).name)
		FROM generate_subscripts(columns, 1) AS i ORDER BY i);

-- A side's relation as statements read and change it.
CREATE FUNCTION relation_sql(s side) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN s.own_rows THEN 'ONLY ' ELSE '' END || s.relation;

-- The rows of a side's relation that its condition is true of, as an item t of FROM, with columns
-- by the names that the plan has for them, and with more of its own by their own names.
-- The planner pulls the subquery up.  The condition is in it, because it has the relation's own
-- names, and may name any column without its table.  Only the columns in use are listed: there may
-- be no right to read the others.  The line break ends a comment in a condition.
-- In a slice, the condition is written so that no index can serve it.  Then only the indexes of the
-- key hide rows, and the guard checks those.
CREATE FUNCTION from_sql(plan plan, s side, more text[] DEFAULT '{}') RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF s.mapped IS NOT TRUE AND (s.condition IS NULL OR s.distributed) THEN
		RETURN relation_sql(s) || ' AS t';
	END IF;
	RETURN format('(SELECT %s FROM %s AS t%s) AS t',
		(SELECT string_agg(format('%s AS %I', coalesce('(' || c.expression || E'\n)',
				format('t.%I', coalesce(c.source, used.name))), used.name), ', ')
			FROM unnest(used_columns(plan, more)) AS used(name)
			LEFT JOIN unnest(s.columns) AS c ON c.name = used.name
				AND c.name = ANY (iblt_field(plan.columns))),
		relation_sql(s), coalesce(' WHERE ' || CASE WHEN has_bounds(plan)
			THEN 'CASE WHEN (' || s.condition || E'\n) THEN true END'
			ELSE '(' || s.condition || E'\n)' END, ''));
END
$$;

-- The columns of rows that statements use: those compared, others that are named, and those of
-- row versions.
CREATE FUNCTION used_columns(plan plan, more text[]) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT array_agg(name) FROM (SELECT c.name FROM unnest(plan.columns) AS c UNION
		SELECT unnest(more || plan.stamp_columns
			|| CASE WHEN plan.versions THEN '{tableoid,ctid,xmin}'::text[] END))
		AS used(name));

-- Those of these rows that are in the slice, as an item t of FROM.
CREATE FUNCTION rows_sql(plan plan, s side, more text[] DEFAULT '{}') RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF has_bounds(plan) OR s.distributed AND s.condition IS NOT NULL THEN
		RETURN format('(SELECT %s FROM %s%s%s) AS t',
			(SELECT string_agg(format('t.%I', name), ', ')
				FROM unnest(used_columns(plan, more)) AS name),
			from_sql(plan, s, more), condition_sql(plan, s),
			CASE WHEN s.distributed THEN ' OFFSET 0' ELSE '' END);
	END IF;
	RETURN from_sql(plan, s, more);
END
$$;

-- The expression of the fingerprint of a side's relation, for a statement that has it in FROM.
-- The parser looks the name up once it has the lock on the relation in FROM.
CREATE FUNCTION fingerprint_sql(s side) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format(CASE WHEN s.distributed THEN 'NULL::pg_catalog.text'	-- see find_distributed
		ELSE 'iblt_internal.iblt_compare_fingerprint(%L::pg_catalog.regclass)' END, s.relation);

-- The expression, NULL on another server than the one that has described the side.
-- Behind a pooler, each query may meet another one.  read_begin sees to that where it locks the
-- relation.
CREATE FUNCTION on_server_sql(s side, expression text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format('CASE WHEN %L = extract(epoch FROM pg_postmaster_start_time())::text THEN %s END',
		split_part(s.identity, ' ', 1), expression);

-- The expression of a row's version, as a number.
CREATE FUNCTION mark_sql(plan plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE WHEN plan.versions
		THEN 'hashtextextended(concat(t.tableoid, t.ctid, t.xmin), 0)' ELSE '0' END;

-- The contents of rows

-- Columns of t as a jsonb object.
CREATE FUNCTION json_sql(columns plan_column[], as_compared boolean) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT format('(SELECT to_jsonb(iblt_j.*) FROM (SELECT %s) AS iblt_j)',
		string_agg(format('%s AS %I', CASE WHEN as_compared THEN values_sql(columns[i])
			ELSE format('t.%I', (columns[i]).name) END, (columns[i]).name), ', ' ORDER BY i))
	FROM generate_subscripts(columns, 1) AS i);

-- The type through which values of a column are read and written as text; NULL for their own.
-- A value of these types is read and written through another type, whose text does not
-- depend on a locale, is unambiguous, or is of the encoding.
CREATE FUNCTION text_type(c plan_column) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE c.cast_to WHEN '' THEN 'pg_catalog.' || ('{"18": "int4", "1002": "int4[]",
		"24": "regprocedure", "1008": "regprocedure[]",
		"2203": "regoperator", "2208": "regoperator[]", "790": "numeric", "791": "numeric[]",
		"142": "text", "143": "text[]"}'::jsonb
		->> c.base::text) END;

-- Are the texts of a column's values short? These types are numbers, times and uuid.
CREATE FUNCTION is_short(c plan_column) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN c.cast_to = '' AND c.base = ANY ('{20,21,23,26,700,701,1082,1114,1184,2950}'::bigint[]);

-- The expression of the text of a column of t.
-- A cast takes a quarter of the time that format takes, which uses the type's output as it is; a
-- cast would lose the blanks of a character(n), and say true for t.  IS NULL is also true of a
-- row of nulls.
CREATE FUNCTION text_sql(c plan_column) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN is_short(c) OR c.cast_to = '' AND c.base IN (25, 1043)
		THEN format('t.%I::pg_catalog.text', c.name)
		ELSE format('CASE num_nulls(%1$s) WHEN 0 THEN format(''%%s'', %1$s) END',
			coalesce(format('t.%I::', c.name) || text_type(c), values_sql(c))) END;

-- Is it what stands for a long value in the texts of a row (short_text_sql)? So is a value that
-- begins like that.
CREATE FUNCTION is_long(value text) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN starts_with(value, 'iblt long ');

-- The expression of a text, or of what stands for a long one: a checksum, which tells whether two
-- long values differ.
-- Which values are long must not depend on the encoding of a side.  Rows that plain queries read
-- are here as a whole, and those of Citus elsewhere.
CREATE FUNCTION short_text_sql(plan plan, value text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN format(CASE WHEN plan.buckets IS NOT NULL OR (plan.here).distributed
			OR (plan.there).distributed THEN '%1$s'
		ELSE 'CASE WHEN octet_length(%1$s) > 65536 AND length(%1$s) > 65536'
			' THEN concat(''iblt long '', iblt_checksum_seeded(%2$L, %1$s)) ELSE %1$s END' END,
		value, plan.seed);

-- The expression of an array of the number that tells how new a row is (repair/winner.sql), NULL
-- unless the plan asks for it.
CREATE FUNCTION stamp_sql(plan plan) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN 'jsonb_build_array((' || plan.stamp || ')::text)';

-- The expression of a row's contents, in the form that the plan asks for.
CREATE FUNCTION content_sql(plan plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE plan.content
		WHEN 'texts' THEN concat_ws(' || ', (
			SELECT format('(SELECT jsonb_agg(%s) FROM unnest(ARRAY[%s]::text[]) AS iblt_x)',
				short_text_sql(plan, 'iblt_x'), string_agg(text_sql(columns[i]), ', ' ORDER BY i))
			FROM (SELECT plan.columns) AS p(columns), generate_subscripts(columns, 1) AS i),
			stamp_sql(plan))
		WHEN 'stamp' THEN stamp_sql(plan)
		WHEN 'rows' THEN json_sql(plan.columns, false)
		WHEN 'changed' THEN json_sql(plan.columns, false)
		ELSE 'NULL::jsonb' END;

-- Does a plan tell in which columns rows differ?
CREATE FUNCTION names_columns(plan plan) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN plan.content IN ('columns', 'changed', 'rows');

-- The columns in which two rows with the same key can differ.
CREATE FUNCTION other_columns(plan plan) RETURNS plan_column[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN ARRAY(SELECT c FROM unnest(plan.columns) AS c
		WHERE c.name <> ALL (iblt_field(plan.key)));

-- The expression of the checksums of these columns, as the text of an array.
-- The checksum of the row is made in the same way, so two rows with different checksums have a
-- column with different ones.
CREATE FUNCTION column_checksums_sql(plan plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT format('ARRAY[%s]::int8[]::text',
			string_agg(checksum_sql(ARRAY[columns[i]], plan.seed), ', ' ORDER BY i))
		FROM other_columns(plan) AS o(columns), generate_subscripts(columns, 1) AS i);

-- The expression of a row's key, as it goes into the sketch.
-- The hash that stands for a key too wide for a cell has a seed of its own.
CREATE FUNCTION key_sql(plan plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE WHEN plan.by_hash THEN checksum_sql(plan.key, plan.seed # 1)
		ELSE format(CASE cardinality(plan.key) WHEN 1 THEN '%s' ELSE 'ROW(%s)' END,
			values_sql(VARIADIC plan.key)) END;

-- The sketch of a side, or its digest, and the fingerprint, as the rest of a SELECT.
-- Of shards it is the sum.  Then the relation itself is not scanned, but locked.  A partition that
-- was attached or detached meanwhile reads as another relation.  A fingerprint is one word.
-- Relies on: read_heap, or a slice, in one snapshot under its lock.
CREATE FUNCTION sketch_sql(plan plan, s side, capacity integer) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	shard side;
	name text;
	parts text[];
	condition text;
	template text := format('iblt_internal.iblt_compare_template(%s, %s, %L)', capacity,
		plan.key_size, plan.seed);
BEGIN
	IF plan.from_digests THEN
		RETURN format('live_read(%L, %L, %L), %s', s.relation, (s.live).generation, plan.live_cells,
			on_server_sql(s, fingerprint_sql(s)));
	ELSIF cardinality(s.shards) > 0 THEN
		shard := s;
		shard.shards := '{}';
		FOREACH name IN ARRAY s.shards LOOP
			shard.relation := name;
			parts := array_append(parts, 'SELECT ' || sketch_sql(plan, shard, capacity));
		END LOOP;
		RETURN format('iblt_sum(iblt_s), (SELECT CASE WHEN shards(%L::pg_catalog.regclass)'
				' = %L::pg_catalog.text[] THEN %s ELSE ''other_partitions'' END'
				' FROM (SELECT pg_catalog.count(*) FROM %s AS t WHERE false) AS iblt_c)'
				' FROM (%s) AS iblt_u(iblt_s, iblt_f)',
			s.relation, s.shards, fingerprint_sql(s), s.relation,
			array_to_string(parts, ' UNION ALL '));
	ELSIF s.distributed THEN
		RETURN format('sketch, fingerprint FROM sum_distributed(%L, %L, %s)',
			format('SELECT iblt_internal.iblt_agg_bigint(%s, %s, %s) FROM %s AS t%s',
				key_sql(plan), checksum_sql(plan.columns, plan.seed), template, s.relation,
				condition_sql(plan, s)), s.relation, template);
	END IF;
	IF plan.parts > 1 OR has_bounds(plan) THEN
		condition := condition_sql(plan, s);
	END IF;
	RETURN format('iblt_agg(%s, %s, %s), %s FROM %s%s', key_sql(plan),
		checksum_sql(plan.columns, plan.seed), template, fingerprint_sql(s), from_sql(plan, s),
		condition);
END
$$;
