-- Finders ----------------------------------------------------------------------------
--
-- The rows of keys are found in one of two ways.  A unique key of fixed width is in the
-- sketch as it is, and an index finds its row.  Any other key is in the sketch as a hash,
-- and a scan finds the rows of that hash.  finder() makes the choice.  plain_find()
-- is the third way, for a peer without iblt.
--
-- A key is looked up by one word: the text of its column, of an array of its columns
-- (types of fixed width have one text for each value), or of its hash.

-- The columns of a key, and the expression of each from the key in one word, in the column
-- id.
CREATE FUNCTION key_parts(key plan_column[])
RETURNS TABLE ("position" integer, name text, type text, value text)
	LANGUAGE sql STABLE PARALLEL SAFE ROWS 4
AS $$
	SELECT i, (key[i]).name, type, format('%s::%s', CASE cardinality(key) WHEN 1 THEN 'id'
		ELSE format('(id::text[])[%s]', i) END, type)
	FROM generate_subscripts(key, 1) AS i, LATERAL key_type(key[i]) AS type
$$;

-- The expression of a key as jsonb, from the key in one word, in the column id.
-- An integer's text is also that in json, which is faster to read than what
-- jsonb_build_object makes of a value.
CREATE FUNCTION key_json_sql(key plan_column[]) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE WHEN cardinality(key) = 1
			AND key_type(key[1]) IN ('smallint', 'integer', 'bigint', 'int8')
		THEN format('(%L || id || ''}'')::jsonb', format('{%s: ', to_json((key[1]).name)))
		ELSE (SELECT format('jsonb_build_object(%s)',
				string_agg(format('%L, %s', name, value), ', ' ORDER BY position))
			FROM key_parts(key)) END;

-- A query for the rows of the unique keys in $1 on a side.
-- One line a key, found or not.  A damaged index may lead to the row of another key, which does
-- not count: PostgreSQL does not compare the row itself with the key.  Lines come in the order
-- of the keys, and an ORDER BY in the aggregates would sort them once more.  "lock" locks the
-- rows, one key after the other, and gives them as they are then.
-- Relies on: an index that check_index checks, in one snapshot under its lock.
CREATE FUNCTION lookup_by_key_sql(plan plan, s side, f finder, lock boolean) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	rows text := rows_sql(plan, s);
	-- texts in a list for each column: all for a statement that writes a row, and those of the
	-- key for one that deletes it
	listed plan_column[] := CASE plan.content WHEN 'lists' THEN plan.columns
		WHEN 'key lists' THEN plan.key ELSE '{}' END;
	found_sql text := format('CASE WHEN %s THEN ', f.matches);
	mark text := CASE WHEN plan.versions THEN format(', %s::text AS mark', mark_sql(plan)) END;
	-- a repair reads texts in lists, and of a row the stamp only
	content text := ', ' || found_sql || CASE
		WHEN plan.content IN ('texts', 'stamp', 'lists', 'key lists')
		THEN 'jsonb_build_array(jsonb_build_array(1, ' || stamp_sql(plan) || '))'
		WHEN plan.content <> 'none' THEN content_sql(plan) END || ' END AS content';
	columns text := CASE WHEN names_columns(plan)
		THEN concat(', ', found_sql, column_checksums_sql(plan), ' END AS columns') END;
	texts text;				-- of the listed columns
	lists text;
BEGIN
	IF listed <> '{}' THEN
		SELECT string_agg(format(', %s AS iblt_c%s', text_sql(listed[i]), i), '' ORDER BY i),
			format('ARRAY[%s]', string_agg(format('array_agg(%s)',
				CASE WHEN is_short(listed[i]) THEN 'iblt_c' || i
				ELSE short_text_sql(plan, 'iblt_c' || i) END), ', ' ORDER BY i))
		INTO texts, lists FROM generate_subscripts(listed, 1) AS i;
	END IF;
	IF lock THEN
		rows := format('LATERAL (SELECT %s FROM %s WHERE %s FOR UPDATE OF t) AS t',
			(SELECT string_agg(format('t.%I', name), ', ')
				FROM unnest(used_columns(plan, '{}')) AS name), rows, f.matches);
		f.matches := 'true';
	END IF;
	RETURN format('SELECT NULL::text[], NULL::jsonb[], NULL::bigint[], NULL::text[],'
			' array_agg(checksum), %s, %s, %s, %s FROM (SELECT %s END AS checksum%s'
			' FROM %s LEFT JOIN %s ON %s ORDER BY iblt_k.iblt_n) AS iblt_l',
		CASE WHEN mark IS NULL THEN 'NULL::text[]' ELSE 'array_agg(mark)' END,
		CASE WHEN content IS NULL THEN 'NULL::jsonb[]' ELSE 'array_agg(content)' END,
		CASE WHEN columns IS NOT NULL THEN 'array_agg(columns)'
			ELSE coalesce(lists, 'NULL::text[]') END,
		fingerprint_sql(s), found_sql || checksum_sql(plan.columns, plan.seed),
		concat(mark, content, columns, texts), f.keys, rows, f.matches);
END
$$;

-- A query for the rows of keys with the hashes in $1 on a side; "rows" are the rows t in
-- place of those of rows_sql.
-- A line for each key that has rows.  Equal rows are counted, and the checksums of all rows of a
-- key are hashed in order.
-- Relies on: read_heap, or a slice, in one snapshot under its lock.
CREATE FUNCTION lookup_by_hash_sql(plan plan, s side, f finder, rows text DEFAULT NULL) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format('SELECT array_agg(id), array_agg(key), array_agg(n), array_agg(checksum),'
			' NULL::bigint[], %s, %s, %s, %s FROM (SELECT id, key, sum(n)::bigint AS n,'
			' encode(sha256(string_agg(concat(checksum, ''*'', n), '','''
			' ORDER BY checksum)::bytea), ''hex'') AS checksum, sum(mark)::text AS mark,'
			' %s AS content, CASE sum(n) WHEN 1 THEN min(columns) END AS columns'
			' FROM (SELECT concat(hash, '' '', key) AS id, key, checksum, count(*) AS n,'
			' sum(mark) AS mark, (array_agg(content))[1] AS content, min(columns) AS columns'
			' FROM (SELECT %s AS hash, iblt_j.iblt_key AS key, %s AS checksum,'
			' %s AS mark, %s AS content, %s AS columns FROM %s JOIN %s ON %s,'
			' LATERAL (SELECT %s AS iblt_key) AS iblt_j) AS iblt_a'
			' GROUP BY hash, key, checksum) AS iblt_b GROUP BY id, key) AS iblt_l',
		CASE WHEN plan.versions THEN 'array_agg(mark)' ELSE 'NULL::text[]' END,
		CASE WHEN plan.content <> 'none' THEN 'array_agg(content)' ELSE 'NULL::jsonb[]' END,
		CASE WHEN names_columns(plan) THEN 'array_agg(columns)' ELSE 'NULL::text[]' END,
		fingerprint_sql(s),
		CASE WHEN plan.content IN ('texts', 'stamp')
			THEN 'jsonb_agg(jsonb_build_array(n, content, checksum::text) ORDER BY checksum)'
			ELSE 'CASE count(*) WHEN 1 THEN (array_agg(content))[1]'
				' ELSE jsonb_agg(content ORDER BY checksum) END' END,
		CASE WHEN plan.buckets IS NULL THEN 'iblt_k.iblt_k1' ELSE plain_key_sql(plan) END,
		checksum_sql(plan.columns, plan.seed), mark_sql(plan),
		content_sql(plan),
		CASE WHEN names_columns(plan) THEN column_checksums_sql(plan) ELSE 'NULL::text' END,
		f.keys, coalesce(rows, rows_sql(plan, s)), f.matches,
		json_sql(plan.key, true));

-- How the rows of keys are found on a side, where "lock" locks those that an index finds.
-- An index finds unique keys that are kept as they are.  Rows of other servers come by a condition,
-- which is sent to them, and a join with the keys is not.
-- The planner knows nothing of the values in an array, and would read the whole relation
-- for a few per cent of its rows.  Of an array that a subquery gives it expects few: it
-- takes the index, or hashes the keys, and not the relation, where there is none.
CREATE FUNCTION finder(plan plan, s side, lock boolean DEFAULT false) RETURNS finder
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	f finder;
	key text := key_sql(plan);
	named text;
BEGIN
	IF plan.buckets IS NOT NULL THEN
		RETURN ROW('(SELECT 1) AS iblt_k', plain_matches_sql(plan, '$1', false), NULL)::finder;
	END IF;
	IF NOT plan.by_hash THEN
		plan.lo := NULL;	-- the index finds them without
		plan.hi := NULL;
		SELECT CASE WHEN count(*) > 1 THEN format('(SELECT %s, n AS iblt_n'
				' FROM unnest((SELECT $1)) WITH ORDINALITY AS iblt_u(id, n)) AS iblt_k',
				string_agg(format('%s AS iblt_k%s', value, position), ', ' ORDER BY position))
			ELSE format('unnest((SELECT $1::%s[])) WITH ORDINALITY AS iblt_k (iblt_k1, iblt_n)',
				min(type)) END,
			string_agg(format('t.%I = iblt_k.iblt_k%s', name, position), ' AND ' ORDER BY position),
			min(format('t.%I = ANY ($1::%s[])', name, type)) FILTER (WHERE position = 1)
		INTO f.keys, f.matches, named FROM key_parts(plan.key);
	ELSE
		-- hashes may be there more than once
		f.keys := '(SELECT id::int8 AS iblt_k1, min(n) AS iblt_n'
			' FROM unnest($1) WITH ORDINALITY AS iblt_u(id, n) GROUP BY 1 ORDER BY 1) AS iblt_k';
		f.matches := key || ' = iblt_k.iblt_k1';
		named := key || ' = ANY ($1::int8[])';
	END IF;
	IF s.remote OR s.distributed THEN
		s.condition := concat_ws(' AND ', '(' || s.condition || E'\n)', named);
	END IF;
	f.lookup := CASE WHEN plan.by_hash THEN lookup_by_hash_sql(plan, s, f)
		ELSE lookup_by_key_sql(plan, s, f, lock) END;
	IF s.distributed THEN
		f.lookup := format('SELECT * FROM find_distributed(%L, $1, %L)', f.lookup,
			s.relation);
	END IF;
	RETURN f;
END
$$;

-- What the keys with these ids are looked up by.
-- In an id the hash comes first.  Other keys are put into an order that is always the
-- same, because rows are locked in it.
CREATE FUNCTION keys_of_ids(plan plan, ids text[]) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN plan.by_hash THEN ARRAY(SELECT split_part(id, ' ', 1) FROM unnest(ids) AS id)
		ELSE ARRAY(SELECT id FROM unnest(ids) AS id ORDER BY id COLLATE "C") END;
