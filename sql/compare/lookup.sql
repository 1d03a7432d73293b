-- Lookups ----------------------------------------------------------------------------
--
-- The rows of keys are looked up on both sides at the same time, and those that differ
-- become differences.

-- An error if an index finds several rows of one of these unique keys; with "sure" also if it does
-- not any more, without a key.
-- A join would take the first row only, as the planner trusts a unique index.  For a table of
-- Citus, each lookup is a statement of its own.  The drivers begin again with keys as hashes
-- (options_again), which counts these rows.
CREATE FUNCTION check_several(plan plan, s side, keys text[], sure boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	f finder := finder(plan, s);
	place integer;
	key jsonb;
BEGIN
	IF NOT s.distributed THEN
		plan.lo := NULL;	-- as in finder
		plan.hi := NULL;
		place := (ask_values(ARRAY[s.place], ARRAY[format('SELECT min(n)::text FROM (SELECT'
				' iblt_k.iblt_n AS n FROM %s, LATERAL (SELECT count(*) FROM %s WHERE %s)'
				' AS iblt_c(n) WHERE iblt_c.n > 1) AS iblt_d',
			f.keys, rows_sql(plan, s), f.matches)], NULL, reading_of(plan, keys, true)))[1];
	END IF;
	IF place IS NOT NULL THEN
		EXECUTE format('SELECT %s FROM (SELECT $1) AS iblt_u(id)', key_json_sql(plan.key))
			INTO key USING keys[place];
	ELSIF NOT sure THEN
		RETURN;
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'cardinality_violation',
		MESSAGE = format('rows have the same key (%s), although it is unique', s.side),
		DETAIL = concat('One such key is ' || key::text || '. ', 'Either a unique index is '
			'damaged, or this transaction has violated a deferred constraint.'),
		HINT = 'Delete the rows that are too many, and REINDEX. '
			'Until then, name more columns in key_columns to tell these rows apart.';
END
$$;

-- An error unless a lookup by key has one answer for each key.
-- Two rows of a unique key would move the answers for the keys behind it.
CREATE FUNCTION require_unique(plan plan, s side, answers bigint[], keys text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF NOT plan.by_hash AND plan.buckets IS NULL
			AND cardinality(answers) IS DISTINCT FROM cardinality(keys) THEN
		PERFORM check_several(plan, s, keys, true);
	END IF;
END
$$;

-- What queries for the rows of keys answer.
CREATE FUNCTION find_rows(places text[], queries text[], how reading) RETURNS found_rows[]
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN ask_values(places, queries, NULL, how, NULL::found_rows);

-- The rows of keys on each side.
CREATE FUNCTION find_sides(plan plan, keys text[]) RETURNS found_rows[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sides side[] := sides_of(plan);
	queries text[];
	found found_rows[];
BEGIN
	IF plan.buckets IS NOT NULL THEN
		RETURN plain_find(plan, keys, false);
	END IF;
	FOR n IN 1 .. cardinality(sides) LOOP
		queries[n] := (finder(plan, sides[n])).lookup;
	END LOOP;
	found := find_rows(places_of(plan), queries, reading_of(plan, keys, NOT plan.by_hash));
	FOR n IN 1 .. cardinality(sides) LOOP
		PERFORM require_side_described(sides[n], found[n].fingerprint),
			require_unique(plan, sides[n], found[n].checksum, keys);
	END LOOP;
	RETURN found;
END
$$;

-- Those of the keys whose rows, which were found on several nodes, are not the same on all.
CREATE FUNCTION nodes_differing(plan plan, rows found_rows[], keys text[]) RETURNS difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	result difference[];
BEGIN
	EXECUTE format($q$
		WITH iblt_f AS (
			SELECT * FROM unnest($1) WITH ORDINALITY AS f(id, key, n, rows_checksum, checksum, mark,
				content, columns, fingerprint, node)
		), line AS (%s)
		SELECT coalesce(array_agg(ROW(id, key, NULL, NULL, NULL, NULL, NULL, mark, NULL, NULL, NULL,
			NULL, checksums, contents)::difference), '{}')
		FROM (SELECT id, (array_agg(key) FILTER (WHERE key IS NOT NULL))[1] AS key,
				array_agg(checksum ORDER BY node) AS checksums,
				array_agg(content ORDER BY node) AS contents, hashtextextended(
					string_agg(concat(checksum, ' ', mark), ',' ORDER BY node), 0)::text AS mark
			FROM (SELECT DISTINCT id FROM line) AS i CROSS JOIN generate_series(1, $3) AS g(node)
			LEFT JOIN line USING (id, node) GROUP BY id
			HAVING count(checksum) BETWEEN 1 AND $3 - 1 OR min(checksum) <> max(checksum)) AS d
		$q$, CASE WHEN plan.by_hash
			THEN 'SELECT r.id, r.key, f.node, r.checksum, r.mark, r.content FROM iblt_f AS f,'
				' unnest(f.id, f.key, f.rows_checksum, f.mark, f.content)'
				' AS r(id, key, checksum, mark, content)'
			ELSE format('SELECT id, %s AS key, node, checksum::text, mark, content'
				' FROM (SELECT node, unnest($2) AS id, unnest(checksum) AS checksum,'
				' unnest(mark) AS mark, unnest(content) AS content FROM iblt_f) AS r',
				key_json_sql(plan.key)) END)
	INTO result USING rows, keys, cardinality(plan.sides);
	RETURN result;
END
$$;

-- Those of the keys whose rows, which were found on the sides, differ.
-- The rows of both sides are joined by the id of the key, or line by line with the keys, in step
-- and not kept, as a function in FROM would be.  With 'changed', rows that differ in some columns
-- have only these and the key.
CREATE FUNCTION differing(plan plan, rows found_rows[], keys text[]) RETURNS difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	result difference[];
BEGIN
	IF plan.sides IS NOT NULL THEN
		RETURN nodes_differing(plan, rows, keys);
	END IF;
	EXECUTE format($q$
		SELECT coalesce(array_agg(ROW(id, key,
			CASE WHEN t_checksum IS NULL THEN 'here' WHEN h_checksum IS NULL THEN 'there'
				ELSE 'both' END,
			CASE WHEN shown IS NOT NULL THEN (SELECT jsonb_object_agg(c.key, c.value)
				FROM jsonb_each(h_content) AS c WHERE c.key = ANY (shown)) ELSE h_content END,
			CASE WHEN shown IS NOT NULL THEN (SELECT jsonb_object_agg(c.key, c.value)
				FROM jsonb_each(t_content) AS c WHERE c.key = ANY (shown)) ELSE t_content END,
			coalesce(h_n, 0), coalesce(t_n, 0),
			CASE WHEN $4 THEN concat(h_checksum, ' ', h_mark, ' ', t_checksum, ' ', t_mark) END,
			NULL, h_checksum, t_checksum, differs, NULL, NULL)::difference), '{}')
		FROM (%s) AS pair, %s
		WHERE h_checksum IS DISTINCT FROM t_checksum$q$,
		CASE WHEN plan.by_hash OR plan.buckets IS NOT NULL
			THEN 'SELECT id, coalesce(h.key, t.key) AS key, h.n AS h_n, t.n AS t_n,'
			' h.checksum AS h_checksum, t.checksum AS t_checksum, h.mark AS h_mark,'
			' t.mark AS t_mark, h.content AS h_content, t.content AS t_content,'
			' h.columns AS h_columns, t.columns AS t_columns'
			' FROM unnest($1.id, $1.key, $1.n, $1.rows_checksum, $1.mark, $1.content, $1.columns)'
			' AS h(id, key, n, checksum, mark, content, columns)'
			' FULL JOIN unnest($2.id, $2.key, $2.n, $2.rows_checksum, $2.mark, $2.content,'
			' $2.columns) AS t(id, key, n, checksum, mark, content, columns) USING (id)'
			ELSE format('SELECT id, %s AS key, (h_checksum IS NOT NULL)::integer AS h_n,'
			' (t_checksum IS NOT NULL)::integer AS t_n,'
			' h_checksum, t_checksum, h_mark, t_mark, h_content, t_content, h_columns, t_columns'
			' FROM (SELECT unnest($3) AS id,'
			' unnest($1.checksum) AS h_checksum, unnest($2.checksum) AS t_checksum,'
			' unnest($1.mark) AS h_mark, unnest($2.mark) AS t_mark,'
			' unnest($1.content) AS h_content, unnest($2.content) AS t_content,'
			' unnest($1.columns) AS h_columns, unnest($2.columns) AS t_columns) AS u',
				key_json_sql(plan.key)) END,
		CASE WHEN names_columns(plan)
		THEN $q$LATERAL (SELECT CASE WHEN num_nulls(h_columns, t_columns) = 0
			THEN nullif(ARRAY(SELECT c.name
				FROM unnest($5, h_columns::int8[], t_columns::int8[]) WITH ORDINALITY
					AS c(name, h, t, n) WHERE h <> t ORDER BY n), '{}') END OFFSET 0) AS a(differs),
		LATERAL (SELECT CASE WHEN $6 IS NOT NULL AND differs IS NOT NULL
			THEN differs || $6 END) AS b(shown)$q$
		ELSE '(SELECT NULL::text[], NULL::text[]) AS a(differs, shown)' END)
	INTO result USING rows[1], rows[2], keys, plan.recheck > 0,
		CASE WHEN names_columns(plan) THEN iblt_field(other_columns(plan)) END,
		CASE plan.content WHEN 'changed' THEN iblt_field(plan.key) END;
	RETURN result;
END
$$;

-- Those of the keys with these ids whose rows differ now, each side seen in one snapshot.
CREATE FUNCTION look_at_ids(plan plan, ids text[]) RETURNS difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	keys text[] := keys_of_ids(plan, ids);
BEGIN
	RETURN differing(plan, find_sides(plan, keys), keys);
END
$$;

-- Batches
--
-- Keys are looked up in batches, so that the memory for their rows is bounded.  Where
-- there is no index, each batch is a scan of both relations, and so larger.

-- That number of keys of a list that iblt_compare_decode made, behind the first ones: each in
-- one word (the text of the key, or of an array of its columns), the sides that they are on,
-- and their weights; s is any fold of the difference.
CREATE FUNCTION iblt_compare_keys(s @extschema@.iblt, list bytea, first integer,
	number integer, OUT keys text[], OUT sides text[], OUT weights bigint[]) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- The places of the keys of such weights whose rows, which have these checksums, are not the ones
-- of a difference with that seed.
CREATE FUNCTION iblt_compare_changed(seed bigint, weights bigint[], here bigint[], there bigint[])
RETURNS integer[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- How many keys are looked up at a time.
CREATE FUNCTION batch_size(plan plan) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN plan.by_hash THEN 100000 ELSE 10000 END;
