-- Walking an index ----------------------------------------------------------------------
--
-- The next slice ends at the key that is so many rows on.  Both sides walk their index to
-- it at the same time, and the smaller key counts, so that no slice has more rows than
-- that on either side.  A walk counts rows of the relation, and not only those that the
-- condition is true of, because a slice reads those too.

-- A query for the key so many rows behind a bound, or from the beginning, NULL if there are
-- not so many; the bound is $2, unless it is a plain query.
CREATE FUNCTION walk_sql(plan plan, s side, lo text[], rows bigint) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	k slice_key := require_slice_key(plan);
	row_of text[] := slice_row_sql(k,
		CASE s.side WHEN 'here' THEN k.here ELSE k.there END);
BEGIN
	s.condition := NULL;
	-- no text is made of the keys that are passed over
	RETURN format('SELECT (SELECT ARRAY[%s]::text[]::text FROM (SELECT %s FROM %s%s'
			' ORDER BY %s LIMIT 1 OFFSET %s - 1) AS t)',
		(SELECT string_agg(value_sql(k.columns[i]) || '::text', ', ' ORDER BY i)
			FROM generate_subscripts(k.columns, 1) AS i),
		(SELECT string_agg(format('t.%I', c.name), ', ') FROM unnest(k.columns) AS c),
		from_sql(plan, s),
		CASE WHEN lo IS NULL THEN '' ELSE ' WHERE ' || above_sql(row_of,
			bound_sql(plan, s, k, '$2', lo), 1) END,
		array_to_string(row_of, ', '), rows);
END
$$;

-- The row that the query of walk_sql gives; an error if it would read more than an index.
-- The key is enough, so an index alone will do: a bound need not be exact.
CREATE FUNCTION slice_bound(query text, keys text[], lo text[], hi text[],
	described described[] DEFAULT NULL) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET enable_indexonlyscan = on
	SET enable_indexscan = on
	SET enable_seqscan = off
	SET enable_bitmapscan = off
	SET enable_sort = off
	SET enable_incremental_sort = off
	SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
	explained jsonb;
	answer record;
BEGIN
	PERFORM read_begin(described);
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO explained USING keys, lo, hi;
	IF jsonb_path_exists(explained, '$.**."Node Type" ? (@ like_regex "Seq Scan|Sort|Bitmap")') THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = 'the planner finds no index to cut a relation into slices',
			HINT = 'Check that each partition has a valid index on the key, '
				'whose columns are all in one direction.';
	END IF;
	EXECUTE query INTO answer USING keys, lo, hi;
	RETURN answer;
END
$$;

-- How this database orders a column of the key as the index here does: what to write behind it,
-- NULL if it may not know how.
CREATE FUNCTION slice_collation(plan plan, k slice_key, i integer) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN (plan.here).place IS NULL
			THEN coalesce(' COLLATE ' || (k.here).collations[i], '')
		WHEN (k.here).orders[i] = '' THEN ''
		WHEN (k.here).orders[i] = 'C ' || getdatabaseencoding() THEN ' COLLATE "C"' END
$$;

-- The smaller one of two bounds that are not null.
CREATE FUNCTION smaller_bound(plan plan, k slice_key, a text[], b text[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s side := plan.here;
	collations text[] := ARRAY(SELECT slice_collation(plan, k, i)
		FROM generate_subscripts(k.columns, 1) AS i ORDER BY i);
	answers boolean[];
BEGIN
	IF a IS NULL OR b IS NULL THEN
		RETURN coalesce(a, b);
	END IF;
	IF array_position(collations, NULL) IS NULL THEN
		s.place := NULL;
	END IF;
	answers := ask_values(ARRAY[s.place], ARRAY[format('SELECT ((%s) <= (%s))::text',
			(SELECT string_agg(concat(x, coalesce(collations[i],
					' COLLATE ' || (k.here).collations[i])), ', ' ORDER BY i)
				FROM unnest(bound_sql(plan, s, k, '$2', a)) WITH ORDINALITY AS u(x, i)),
			array_to_string(bound_sql(plan, s, k, '$3', b), ', '))],
		how => ROW('read_planned', NULL, a, b, NULL)::reading);
	RETURN CASE WHEN answers[1] THEN a ELSE b END;
END
$$;

-- The upper bound of the slice after lo (NULL: the first one) that has so many rows on the
-- side with more of them; NULL if the slice goes to the end.
CREATE FUNCTION slice_next(plan plan, lo text[], rows bigint) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	bounds text[] := ask_values(places_of(plan), ARRAY[walk_sql(plan, plan.here, lo, rows),
		walk_sql(plan, plan.there, lo, rows)], how => ROW('slice_bound', NULL, lo, NULL,
			reads(plan.here, plan.there))::reading);
BEGIN
	RETURN smaller_bound(plan, slice_key(plan), bounds[1]::text[], bounds[2]::text[]);
END
$$;

-- The same, or why the relation cannot be cut.
-- Only the first bound may find that an index does not serve, which slice_problem() does not know.
CREATE FUNCTION slice_end(plan plan, lo text[], rows bigint, OUT hi text[], OUT problem text)
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	problem := slice_problem(plan);
	IF problem IS NULL THEN
		hi := slice_next(plan, lo, rows);
	END IF;
EXCEPTION WHEN feature_not_supported THEN
	IF lo IS NOT NULL THEN
		RAISE;
	END IF;
	GET STACKED DIAGNOSTICS problem = MESSAGE_TEXT;
	PERFORM ask_discard(places_of(plan));
END
$$;
