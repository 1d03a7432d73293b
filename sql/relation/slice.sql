-- Slices -------------------------------------------------------------------------------
--
-- A plan with bounds compares a slice of a relation: the rows with lo < key AND key <= hi.
-- Both sides must sort the key by the same order, or a row could be in two slices or in
-- none.  slice_key() decides which columns in which order the bounds are of.
--
-- Bounds are contents of rows, so no statement has them in its text.  A query has keys as its
-- parameter $1, and bounds as $2 and $3.  Plain queries to a peer are the exception: nothing there
-- could hand parameters on.

-- Has a plan bounds?
CREATE FUNCTION has_bounds(plan plan) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN plan.lo IS NOT NULL OR plan.hi IS NOT NULL;

-- The columns of an index and the orders that they are sorted by, NULL for no index.
CREATE FUNCTION order_text(index unique_key) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT '(' || string_agg(concat_ws(' ', format('%I', x.name),
			'by ' || nullif(x.sorted, '')), ', ' ORDER BY x.n) || ')'
		FROM unnest(index.columns, index.orders) WITH ORDINALITY AS x(name, sorted, n));

-- The columns that slices are ranges of, and an index of each side on them in the same order;
-- without columns if there is none.
CREATE FUNCTION slice_key(plan plan) RETURNS slice_key
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	names text[] := iblt_field(plan.key);
	mine unique_key[] := (plan.here).keys;
	theirs unique_key[] := (plan.there).keys;
	result slice_key;
BEGIN
	SELECT mine[h], theirs[t] INTO result.here, result.there
	FROM generate_subscripts(mine, 1) AS h, generate_subscripts(theirs, 1) AS t
	WHERE mine[h].columns = theirs[t].columns AND mine[h].columns @> names
	AND mine[h].columns <@ names AND mine[h].unordered IS NULL AND theirs[t].unordered IS NULL
	AND mine[h].orders = theirs[t].orders ORDER BY h, t LIMIT 1;
	result.columns := ARRAY(SELECT c
		FROM unnest((result.here).columns) WITH ORDINALITY AS n(name, i)
		JOIN unnest(plan.key) AS c ON c.name = n.name ORDER BY n.i);
	result.problem := CASE WHEN (plan.here).distributed OR (plan.there).distributed
		THEN 'a table of Citus, which is read whole'
	WHEN plan.is_unique IS NOT TRUE THEN
		CASE WHEN NOT (plan.here).ordinary THEN 'not an ordinary or partitioned table (here)'
			WHEN NOT (plan.there).ordinary THEN 'not an ordinary or partitioned table (there)'
			ELSE 'no unique index without nulls on the key on both sides' END
	WHEN order_text(result.here) IS NULL THEN
		coalesce((SELECT format('index %s: %s (%s)', k.index, k.unordered, s.side)
				FROM unnest(ARRAY[plan.here, plan.there]) WITH ORDINALITY AS s, unnest(s.keys)
					WITH ORDINALITY AS k(columns, index, collations, orders, unordered, n)
				WHERE k.columns @> names AND k.columns <@ names AND k.unordered IS NOT NULL
				ORDER BY s.ordinality, k.n LIMIT 1),
			(SELECT format('the sides order the key differently: %s here, %s there',
					min(o.sorted) FILTER (WHERE o.side = 'here'),
					min(o.sorted) FILTER (WHERE o.side = 'there'))
				FROM (SELECT s.side, (SELECT order_text(k) FROM unnest(s.keys) AS k
						WHERE k.columns @> names AND k.columns <@ names LIMIT 1) AS sorted
					FROM unnest(ARRAY[plan.here, plan.there]) AS s) AS o))
	-- Compared as one of these types, values have the order of their column.  Bounds are cast to
	-- types of this database (range_key), and the OID that other servers say may be any type here.
	ELSE (SELECT format('key column %I has types that are compared as %s', c.name,
			coalesce(nullif(c.cast_to, ''), c.type_here))
		FROM unnest(plan.key) AS c WHERE NOT (c.cast_to IN ('int8', 'float8')
			OR c.cast_to = '' AND c.base < 16384
			OR c.cast_to = 'numeric' AND c.base = 1700 AND c.base_there = 1700
			OR c.cast_to = 'text' AND c.base IN (25, 1043) AND c.base_there IN (25, 1043)) LIMIT 1)
	END;
	RETURN result;
END
$$;

-- The same; an error if the relations of a plan cannot be compared in slices.
CREATE FUNCTION require_slice_key(plan plan) RETURNS slice_key
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	k slice_key := slice_key(plan);
BEGIN
	IF k.problem IS NOT NULL THEN
		RAISE feature_not_supported USING DETAIL = k.problem,
			MESSAGE = format('cannot compare %s in slices', (plan.here).relation);
	END IF;
	RETURN k;
END
$$;

-- The columns of a key as an index sorts them.
CREATE FUNCTION slice_row_sql(k slice_key, index unique_key) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN ARRAY(SELECT format('t.%I', (k.columns[i]).name)
			|| coalesce(' COLLATE ' || index.collations[i], '')
		FROM generate_subscripts(k.columns, 1) AS i ORDER BY i);

-- The type that values of a key column are given as.
CREATE FUNCTION key_type(c plan_column) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE c.cast_to WHEN '' THEN format_type(c.base::oid, -1) ELSE c.cast_to END;

-- The values of a bound in a query on a side: as a parameter, or itself in a plain query.
CREATE FUNCTION bound_sql(plan plan, s side,
	k slice_key, parameter text, bound text[]) RETURNS text[]
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN ARRAY(SELECT format('(%s)[%s]::%s',
			CASE WHEN plan.buckets IS NULL OR s.place IS NULL THEN parameter
				ELSE format('%L::text[]', bound) END, i, key_type(k.columns[i]))
		FROM generate_subscripts(k.columns, 1) AS i ORDER BY i);

-- The condition that the columns of a key from that one on are above a bound.
-- A row comparison is one condition for a btree index.  What it says of its first column
-- is said again, because partitions are pruned by that.
CREATE FUNCTION above_sql(row_of text[], bound text[], first integer) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN first = cardinality(row_of) THEN format('%s > %s', row_of[first], bound[first])
		ELSE format('(%s) > (%s) AND %s >= %s', array_to_string(row_of[first :], ', '),
			array_to_string(bound[first :], ', '), row_of[first], bound[first]) END;

-- The condition that a row t is in the slice of a plan, NULL if there is none.
-- An index scan begins at a row comparison, but it ends only where its first column does:
-- it would read on to the last row with hi's first value.  So (a, b) <= (x, y) is
-- a < x OR a = x AND b <= y, of which each part ends where it should.
CREATE FUNCTION slice_condition_sql(plan plan, s side) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	k slice_key := require_slice_key(plan);
	row_of text[] := slice_row_sql(k, CASE s.side WHEN 'here' THEN k.here ELSE k.there END);
	lo text[] := bound_sql(plan, s, k, '$2', plan.lo);
	hi text[] := bound_sql(plan, s, k, '$3', plan.hi);
	equal integer := 0;		-- columns in which the bounds begin alike, without the last one
	same boolean := plan.lo IS NOT NULL;
BEGIN
	IF plan.hi IS NULL THEN
		RETURN above_sql(row_of, lo, 1);
	END IF;
	WHILE same AND equal < cardinality(row_of) - 1 LOOP
		EXECUTE format('SELECT %s = %s', lo[equal + 1], hi[equal + 1]) INTO same
		USING NULL::text[], plan.lo, plan.hi;
		equal := equal + same::integer;
	END LOOP;
	RETURN (SELECT format('(%s)', string_agg(concat_ws(' AND ',
			(SELECT string_agg(format('%s = %s', row_of[j], hi[j]), ' AND ' ORDER BY j)
				FROM generate_series(1, i - 1) AS j),
			CASE WHEN i = equal + 1 AND plan.lo IS NOT NULL
				THEN above_sql(row_of, lo, i) END,
			format('%s %s %s', row_of[i],
				CASE WHEN i = cardinality(row_of) THEN '<=' ELSE '<' END, hi[i])),
			' OR ' ORDER BY i))
		FROM generate_series(equal + 1, cardinality(row_of)) AS i);
END
$$;

-- Are both relations so small that a scan may count their rows?
-- They have at most 256 MB each, and a heap page holds at most a row for each 28 bytes.
CREATE FUNCTION slice_may_count(plan plan) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN coalesce(CASE WHEN plan.buckets IS NOT NULL THEN plan.bytes <= 268435456
		ELSE (plan.here).most_rows <= 268435456 / 28
			AND (plan.there).most_rows <= 268435456 / 28 END, false);

-- Queries of slices
--
-- The planner may believe that a slice has many rows.  To read all of a relation for each
-- slice would cost more than anything that an index scan can.
--
-- Workers would begin with each slice anew: they take a quarter more of the processors for
-- the same work.  Several sessions on one run do better.

-- The row that a query of bounds gives, perhaps of keys.
-- A bitmap has a row once, however many entries of an index lead to it.
-- Relies on: an index that the guard checks, in one snapshot under its lock.
CREATE FUNCTION read_slice(query text, keys text[], lo text[], hi text[],
	described described[] DEFAULT NULL) RETURNS record
	AS 'MODULE_PATHNAME', 'iblt_read' LANGUAGE C VOLATILE PARALLEL UNSAFE
	SET enable_seqscan = off
	SET enable_indexscan = off
	SET enable_bitmapscan = on
	SET max_parallel_workers_per_gather = 0;

-- Walking an index
--
-- The next slice ends at the key that is so many rows on.  This side walks its index to it.  At
-- the beginning and the end of a table, and after a slice with far more rows there, both sides do
-- so at the same time, and the smaller key counts.  A walk counts rows of the relation, and not
-- only those that the condition is true of, because a slice reads those too.

-- The row that a query of slice_next gives; an error if it would read more than an index.
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
		RAISE feature_not_supported USING
			MESSAGE = 'the planner finds no index to cut a relation into slices',
			HINT = 'Check that each partition has a valid index on the key, '
				'whose columns are all in one direction.';
	END IF;
	EXECUTE query INTO answer USING keys, lo, hi;
	RETURN answer;
END
$$;
