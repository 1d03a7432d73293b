-- Where differences are ------------------------------------------------------------------
--
-- iblt_compare_ranges cuts the key into ranges, as runs do (sql/run/slice.sql), and compares
-- one after the other.  In a range with few differences all are found, looked up and
-- rechecked.  With many, only a sample is (many.sql), and the counts are estimates.  Ranges
-- are read by an index, so slice_guard looks up a sample of rows first.

-- A range of keys, and how many differ.
CREATE TYPE compare_range AS (
	range integer,
	after jsonb,			-- keys above this one, or from the first key
	up_to jsonb,			-- and not above this one, or to the last key
	rows_here bigint,
	rows_there bigint,
	differences bigint,
	missing bigint,			-- NULL if the sample is empty
	extra bigint,
	changed bigint,
	unconfirmed bigint,
	exact boolean,			-- or estimates?
	example jsonb
);

-- A bound as a key, NULL for none.
CREATE FUNCTION range_key(plan plan, bound text[]) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	key plan_column[];
	result jsonb;
BEGIN
	IF bound IS NULL THEN
		RETURN NULL;
	END IF;
	key := (require_slice_key(plan)).columns;
	EXECUTE format('SELECT %s FROM (SELECT $1) AS iblt_k(id)', key_json_sql(key))
	INTO result USING CASE cardinality(bound) WHEN 1 THEN bound[1] ELSE bound::text END;
	RETURN result;
END
$$;

-- What a comparison of a range has shown.
-- The estimate of a sample counts what a recheck has settled.
CREATE FUNCTION range_of(plan plan, range integer, compared comparison) RETURNS compare_range
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	figures figures := compared.figures;
	result compare_range;
	n numeric := figures.differences;
	times numeric;			-- more than were found
BEGIN
	result.range := range;
	result.after := range_key(plan, plan.lo);
	result.up_to := range_key(plan, plan.hi);
	result.rows_here := figures.rows_here;
	result.rows_there := figures.rows_there;
	result.exact := figures.complete;
	result.differences := CASE WHEN figures.complete THEN n
		ELSE figures.estimated * coalesce(n / nullif(n + figures.settled, 0), 1) END;
	times := CASE WHEN figures.complete THEN 1 ELSE result.differences / nullif(n, 0) END;
	SELECT count(*) FILTER (WHERE d.side = 'there') * times,
		count(*) FILTER (WHERE d.side = 'here') * times,
		count(*) FILTER (WHERE d.side = 'both') * times,
		count(*) FILTER (WHERE NOT d.confirmed) * times
	INTO result.missing, result.extra, result.changed, result.unconfirmed
	FROM unnest(compared.differences) AS d;
	result.example := (compared.differences)[1].key;
	RETURN result;
END
$$;

-- How many rows each range is to have, by the planner's estimates.
CREATE FUNCTION range_rows(plan plan, ranges integer) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	probes jsonb[] := run_probes(plan);
BEGIN
	-- one more, or the last range would be empty
	RETURN greatest((probes[1] ->> 'rows')::bigint, (probes[2] ->> 'rows')::bigint) / ranges + 1;
END
$$;

-- Compares one range of the key after the other, over connections of these names.
-- Ranges grow where the planner's estimate is much too small.
CREATE FUNCTION compare_ranges(conns text[], relation regclass, peer_relation text,
	options options, ranges integer) RETURNS SETOF compare_range
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan;
	rows bigint;
	bound record;
	n integer := 0;
	stats text := coalesce(current_setting('iblt.compare_stats', true), '');
BEGIN
	plan := prepare(conns, relation, peer_relation, options);
	plan.sample := true;
	rows := range_rows(plan, ranges);
	LOOP
		n := n + 1;
		bound := slice_end(plan, plan.lo, rows);
		IF bound.problem IS NOT NULL THEN
			PERFORM iblt_tell('notice', 'compared as one range: ' || bound.problem);
		ELSIF n = 1 AND bound.hi IS NOT NULL THEN
			PERFORM slice_guard(plan, false, rows * ranges);
		END IF;
		plan.hi := bound.hi;
		RETURN NEXT range_of(plan, n, comparison_of(plan));
		EXIT WHEN plan.hi IS NULL;
		plan.lo := plan.hi;
		rows := CASE WHEN n >= ranges THEN 2 * rows ELSE rows END;
	END LOOP;
	-- not those of the last range
	PERFORM set_config('iblt.compare_stats', stats, false);
END
$$;

CREATE FUNCTION @extschema@.iblt_compare_ranges(
	relation regclass,
	peer text DEFAULT NULL,
	peer_relation text DEFAULT NULL,
	ranges integer DEFAULT 20,
	columns text[] DEFAULT NULL,
	exclude text[] DEFAULT NULL,
	key_columns text[] DEFAULT NULL,
	condition text DEFAULT NULL,
	peer_condition text DEFAULT NULL,
	max_differences bigint DEFAULT 10000,
	cast_types boolean DEFAULT false,
	extra_columns text DEFAULT 'warn',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	seed bigint DEFAULT NULL,
	progress boolean DEFAULT false)
RETURNS SETOF compare_range
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 20
	@pinned_settings@
AS $$
DECLARE
	content text := 'none';
	options options := @arguments options@;
	peers text[] := ARRAY[NULL, peer];
	conns text[];
	e failure;
BEGIN
	LOOP
		BEGIN
			conns := peer_conns(peers);
			IF coalesce(ranges, 0) NOT BETWEEN 1 AND 10000 THEN
				RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
					MESSAGE = 'ranges must be between 1 and 10000';
			END IF;
			options := compare_options('iblt_compare_ranges', relation, false, NULL, options);
			conns := connect(peers, conns, options.timeout);
			RETURN QUERY SELECT * FROM compare_ranges(conns, relation, peer_relation, options,
				ranges);
			PERFORM peers_close(conns);
			EXIT;
		EXCEPTION WHEN @on_any_error@ THEN
			@take_failure@;
			IF said_not_unique(e) IS NULL OR options.not_unique IS NOT NULL THEN
				e := iblt_raise(peers_fail(conns, peers_secret(peers), e));
				RAISE;
			END IF;
			PERFORM peers_close(conns), warn_not_unique(e);
			options := options_again(options, e);
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_compare_ranges IS
'how many keys differ in each range of the key, even if there are too many for iblt_compare';
