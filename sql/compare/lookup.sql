-- Lookups ----------------------------------------------------------------------------
--
-- The rows of keys are looked up on both sides at the same time, and those that differ
-- become differences.

-- An error if an index finds several rows of one of these unique keys; with "sure" also if it does
-- not any more, without a key.
-- A join would take the first row only, as the planner trusts a unique index.  For a table of
-- Citus, each lookup is a statement of its own.
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
	RAISE cardinality_violation USING
		MESSAGE = format('rows have the same key (%s), although it is unique', s.side),
		DETAIL = concat('One such key is ' || key::text || '. ', 'A unique index is damaged '
			'or was dropped meanwhile, or this transaction has violated a deferred constraint.'),
		HINT = 'If the index is there, delete the rows that are too many, and REINDEX. '
			'Until then, name more columns in key_columns to tell these rows apart.';
END
$$;

-- The rows of keys on each side, or on the one at a place, where "lock" locks those that an index
-- finds.
-- Two rows of a unique key would move the answers for the keys behind it.
CREATE FUNCTION find_sides(plan plan, keys text[], place integer DEFAULT NULL,
	lock boolean DEFAULT false) RETURNS found_rows[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sides side[] := sides_of(plan);
	queries text[];
	found found_rows[];
BEGIN
	IF plan.buckets IS NOT NULL THEN
		found := plain_find(plan, keys, false);
		RETURN CASE WHEN place IS NULL THEN found ELSE found[place : place] END;
	ELSIF place IS NOT NULL THEN
		sides := sides[place : place];
	END IF;
	FOR n IN 1 .. cardinality(sides) LOOP
		queries[n] := (finder(plan, sides[n], lock)).lookup;
	END LOOP;
	found := ask_values(iblt_field(sides, 'place'), queries, NULL,
		reading_of(plan, keys, NOT plan.by_hash), NULL::found_rows);
	FOR n IN 1 .. cardinality(sides) LOOP
		PERFORM require_side_described(sides[n], found[n].fingerprint);
		IF NOT plan.by_hash
				AND cardinality(found[n].checksum) IS DISTINCT FROM cardinality(keys) THEN
			PERFORM check_several(plan, sides[n], keys, true);
		END IF;
	END LOOP;
	RETURN found;
END
$$;

-- Those of the keys whose rows, which were found on the sides, are not the same on all.
-- The rows of the sides are joined by the id of the key, or line by line with the keys, in step
-- and not kept, as a function in FROM would be.  OFFSET keeps the planner from copying the rows.
-- With 'changed', rows that differ in some columns have only these and the key.
CREATE FUNCTION differing(plan plan, rows found_rows[], keys text[]) RETURNS difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	by_id boolean := plan.by_hash OR plan.buckets IS NOT NULL;
	-- of a side, whose number stands for each %
	item text := CASE WHEN by_id THEN 'unnest((f[%]).id, (f[%]).key, (f[%]).n,'
			' (f[%]).rows_checksum, (f[%]).mark, (f[%]).content, (f[%]).columns)'
			' AS s%(id, k%, n%, c%, m%, r%, x%)'
		ELSE 'unnest((f[%]).n) AS n%, unnest((f[%]).checksum) AS c%, unnest((f[%]).mark) AS m%,'
			' unnest((f[%]).content) AS r%, unnest((f[%]).columns) AS x%' END;
	shown text := CASE plan.content WHEN 'changed' THEN 'CASE WHEN differs IS NULL THEN r% ELSE'
			' (SELECT jsonb_object_agg(c.key, c.value) FROM jsonb_each(r%) AS c'
			' WHERE c.key = ANY (differs || $4)) END' ELSE 'r%' END;
	every record;			-- texts of all sides
	result difference[];
BEGIN
	SELECT string_agg(replace(item, '%', n::text), CASE WHEN by_id THEN ' NATURAL FULL JOIN '
			ELSE ', ' END ORDER BY n) AS items, string_agg('k' || n, ', ' ORDER BY n) AS keys,
		string_agg('c' || n, ', ' ORDER BY n) AS checksums,
		string_agg('r' || n, ', ' ORDER BY n) AS contents,
		string_agg(format('c%s, '' '', m%1$s', n), ', '' '', ' ORDER BY n) AS marks,
		string_agg('c1 IS DISTINCT FROM c' || n, ' OR ' ORDER BY n) AS differ
	INTO every FROM generate_subscripts(rows, 1) AS n;
	EXECUTE format('SELECT coalesce(array_agg(ROW(id, %s, %s)::difference), ''{}'')'
			' FROM (SELECT $1 AS f OFFSET 0) AS q, LATERAL (SELECT %s) AS u,'
			' LATERAL (SELECT %s) AS d(differs) WHERE %s',
		CASE WHEN by_id THEN format('coalesce(%s)', every.keys) ELSE key_json_sql(plan.key) END,
		format(CASE WHEN plan.sides IS NULL
				THEN 'CASE WHEN c2 IS NULL THEN ''here'' WHEN c1 IS NULL THEN ''there'''
					' ELSE ''both'' END, %2$s, %3$s, coalesce(n1, num_nonnulls(c1)),'
					' coalesce(n2, num_nonnulls(c2)), %1$s, NULL, c1, c2, differs, NULL, NULL'
				ELSE 'NULL, NULL, NULL, NULL, NULL, %1$s, NULL, NULL, NULL, NULL,'
					' ARRAY[%4$s]::text[], ARRAY[%5$s]' END,
			CASE WHEN plan.recheck > 0 THEN format('concat(%s)', every.marks) ELSE 'NULL' END,
			replace(shown, '%', '1'), replace(shown, '%', '2'), every.checksums, every.contents),
		CASE WHEN by_id THEN '* FROM ' ELSE 'unnest($2) AS id, ' END || every.items,
		CASE WHEN plan.sides IS NULL AND names_columns(plan)
			THEN 'CASE WHEN num_nulls(x1, x2) = 0 THEN nullif(ARRAY(SELECT c.name'
				' FROM unnest($3, x1::int8[], x2::int8[]) WITH ORDINALITY AS c(name, a, b, n)'
				' WHERE a <> b ORDER BY n), ''{}'') END OFFSET 0'
			ELSE 'NULL::text[]' END, every.differ)
	INTO result USING rows, keys,
		CASE WHEN names_columns(plan) THEN iblt_field(other_columns(plan)) END,
		iblt_field(plan.key);
	RETURN result;
END
$$;

-- Is a relation so small that scanning it ten times costs little?
CREATE FUNCTION is_small(figures figures) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN greatest(figures.rows_here, figures.rows_there) <= 20000;

-- How many of the keys, of which some do not differ any more, have no row on any side.
-- A delete in flight looks like rows that a follower makes and deletes itself.  Without a unique
-- key, one of several copies may be gone, or another may have come: in a small relation, the next
-- scan tells.
CREATE FUNCTION keys_gone(plan plan, figures figures, keys text[], rows found_rows[])
RETURNS bigint
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE WHEN NOT plan.is_unique AND is_small(figures) THEN cardinality(keys)
		WHEN plan.by_hash THEN (
			SELECT count(*) FROM unnest(keys) AS k(key) WHERE k.key NOT IN (
				SELECT split_part(i.id, ' ', 1) FROM unnest(rows) AS r, unnest(r.id) AS i(id)))
		ELSE (SELECT count(*) FROM (SELECT FROM unnest(rows) AS r,
				unnest(r.checksum) WITH ORDINALITY AS c(checksum, place)
			GROUP BY c.place HAVING count(c.checksum) = 0) AS g) END;

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
	number integer) RETURNS key_sides
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
