-- Bounds from statistics ------------------------------------------------------------------
--
-- To walk costs a quarter of a slice.  A bound need not be exact, so where this side has a
-- fresh histogram of the key, it tells the next one.  Between two values of a histogram,
-- integers are interpolated.  What lies beyond the last value is walked to.

-- Values of a column that cut a table into equal parts, if it has changed little since
-- ANALYZE.
CREATE FUNCTION slice_histogram(relation regclass, name text) RETURNS text[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (SELECT s.histogram_bounds::text::text[]
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname
			AND s.attname = name AND NOT s.inherited
		JOIN pg_stat_all_tables u ON u.relid = c.oid
		WHERE c.oid = relation AND c.relkind = 'r'
		AND greatest(u.last_analyze, u.last_autoanalyze) IS NOT NULL
		AND u.n_mod_since_analyze <= c.reltuples / 10);
END
$$;

-- Are values of a key, of one column, of type smallint, integer or bigint?
CREATE FUNCTION slice_is_integer(k slice_key) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN k.columns[1].base IN (20, 21, 23) AND k.columns[1].base_there IN (20, 21, 23);
END
$$;

-- The values of a histogram in the order of a key, and where lo is among them: 0 is before
-- the first, and fractions are between two.
CREATE FUNCTION slice_place(k slice_key, lo text[],
	INOUT marks text[], OUT place numeric) RETURNS record
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	EXECUTE format('SELECT array_agg(v ORDER BY %1$s), count(*) FILTER (WHERE %1$s <= %2$s)'
			' FROM unnest($2) AS v',
		concat('v::', key_type(k.columns[1]),
			' COLLATE ' || (k.here).collations[1]),
		(slice_bound_sql(k, '$1'))[1])
	INTO marks, place USING lo, marks;
	IF place BETWEEN 1 AND cardinality(marks) - 1 AND slice_is_integer(k) THEN
		place := place + (lo[1]::numeric - marks[place]::numeric)
			/ (marks[place + 1]::numeric - marks[place]::numeric);
	END IF;
END
$$;

-- The value at a place of a histogram, or one before it.
CREATE FUNCTION slice_mark(k slice_key, marks text[], place numeric) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	n integer := trunc(place);
BEGIN
	RETURN CASE WHEN NOT slice_is_integer(k) THEN marks[n]
		ELSE (marks[n]::numeric + trunc((place - n)
			* (marks[n + 1]::numeric - marks[n]::numeric)))::text END;
END
$$;

-- As slice_next, for relations of about so many rows, and without a walk where statistics
-- will do.
CREATE FUNCTION slice_guess(conn text, plan plan, lo text[],
	rows bigint, estimate bigint) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	k slice_key := slice_key(plan);
	marks text[] := CASE WHEN cardinality(k.columns) = 1 THEN slice_histogram(
		(plan.here).relation::regclass, k.columns[1].name) END;
	placed record;
	target numeric;
	hi text;
BEGIN
	IF cardinality(marks) > 1 THEN
		placed := slice_place(k, lo, marks);
		target := greatest(placed.place, 1)
			+ rows::numeric * (cardinality(marks) - 1) / greatest(estimate, 1);
		IF target < cardinality(marks) THEN
			hi := slice_mark(k, placed.marks, target);
			IF (slice_place(k, ARRAY[hi], marks)).place > placed.place THEN
				RETURN ARRAY[hi];
			END IF;
		ELSIF placed.place < cardinality(marks) THEN
			-- so near to the end, it may be all that is left
			RETURN slice_next(conn, plan,
				placed.marks[cardinality(marks) :], ceil(rows / 10.0)::bigint);
		END IF;
	END IF;
	RETURN slice_next(conn, plan, lo, rows);
END
$$;
