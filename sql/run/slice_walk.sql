-- Walking an index ----------------------------------------------------------------------
--
-- The next slice ends at the key that is so many rows on.  Both sides walk their index to
-- it at the same time, and the smaller key counts, so that no slice has more rows than
-- that on either side.  A walk counts rows of the relation, and not only those that the
-- condition is true of, because a slice reads those too.

-- A query for the key so many rows behind a bound, or from the beginning; the number is $1
-- and the bound $2, unless it is a plain query.
CREATE FUNCTION walk_sql(plan plan, s side, lo text[], rows bigint) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	k slice_key := require_slice_key(plan);
	row_of text[] := slice_row_sql(k,
		CASE s.side WHEN 'here' THEN k.here ELSE k.there END);
BEGIN
	-- no text is made of the keys that are passed over
	RETURN format('SELECT ARRAY[%s]::text[] FROM (SELECT %s FROM %s AS t%s ORDER BY %s'
			' LIMIT 1 OFFSET %s - 1) AS t',
		(SELECT string_agg(value_sql(k.columns[i]) || '::text', ', ' ORDER BY i)
			FROM generate_subscripts(k.columns, 1) AS i),
		(SELECT string_agg(format('t.%I', c.name), ', ') FROM unnest(k.columns) AS c),
		s.relation,
		CASE WHEN lo IS NULL THEN '' ELSE ' WHERE ' || above_sql(row_of,
			bound_sql(plan, s, k, '$2', lo), 1) END,
		array_to_string(row_of, ', '), parameter_sql(plan, s, '$1', rows::text));
END
$$;

-- The key that the query of walk_sql gives, NULL if there are not so many rows; an error if
-- it would read more than an index.
-- The key is enough, so an index alone will do: a bound need not be exact.
CREATE FUNCTION slice_bound(query text, rows bigint, lo text[]) RETURNS text[]
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
	bound text[];
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO explained USING rows, lo;
	IF jsonb_path_exists(explained, '$.**."Node Type" ? (@ like_regex "Seq Scan|Sort|Bitmap")') THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = 'the planner finds no index to cut a relation into slices',
			HINT = 'Check that each partition has a valid index on the key, '
				'whose columns are all in one direction.';
	END IF;
	EXECUTE query INTO bound USING rows, lo;
	RETURN bound;
END
$$;

-- The smaller one of two bounds that are not null.
CREATE FUNCTION smaller_bound(k slice_key, a text[], b text[]) RETURNS text[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	result text[];
BEGIN
	IF a IS NULL OR b IS NULL THEN
		RETURN coalesce(a, b);
	END IF;
	EXECUTE format('SELECT CASE WHEN (%s) <= (%s) THEN $1 ELSE $2 END',
		(SELECT string_agg(concat(x, ' COLLATE ' || (k.here).collations[i]), ', ' ORDER BY i)
			FROM unnest(slice_bound_sql(k, '$1')) WITH ORDINALITY AS u(x, i)),
		array_to_string(slice_bound_sql(k, '$2'), ', '))
	INTO result USING a, b;
	RETURN result;
END
$$;

-- The upper bound of the slice after lo (NULL: the first one) that has so many rows on the
-- side with more of them; NULL if the slice goes to the end.
CREATE FUNCTION slice_next(conn text, plan plan, lo text[], rows bigint) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	query text := walk_sql(plan, plan.there, lo, rows);
	here text[];
	there text[];
BEGIN
	IF plan.buckets IS NOT NULL THEN
		PERFORM plain_ask(conn, format('SELECT (%s)', query), NULL, 'slice_bound');
	ELSIF conn IS NOT NULL THEN
		PERFORM peer_send_keys(conn, query,
			format('SELECT slice_bound(%L, %s, %L)', query, rows, lo));
	END IF;
	here := slice_bound(walk_sql(plan, plan.here, lo, rows), rows, lo);
	IF conn IS NULL THEN
		there := slice_bound(query, rows, lo);
	ELSE
		there := peer_value(conn, 0.001);
	END IF;
	RETURN smaller_bound(slice_key(plan), here, there);
END
$$;
