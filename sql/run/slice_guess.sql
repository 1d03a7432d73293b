-- Bounds from statistics ------------------------------------------------------------------
--
-- A bound need not be exact, so where this side has a fresh histogram of the key, it tells
-- the next one.  What lies beyond its last value is walked to.
--
-- With walks alone, a run takes 1.3 times the processor time of an audit for 2 million rows of
-- 128 bytes, and 1.4 times for 5 million.  With this it takes 1.1 and 1.2 times.  For 2 million
-- rows of two integers it is 2.0 and 1.6.

-- As slice_next, for relations of about so many rows, and without a walk where a histogram of the
-- key, as run_probe gives it, will do.
CREATE FUNCTION slice_guess(plan plan, histogram text[], lo text[], rows bigint, estimate bigint)
RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	k slice_key := slice_key(plan);
	c plan_column := k.columns[1];
	integers boolean := c.base IN (20, 21, 23) AND c.base_there IN (20, 21, 23);
	collated text := slice_collation(plan, k, 1);
	most integer := CASE WHEN collated IS NOT NULL THEN cardinality(histogram) END;
	reached numeric;	-- by lo: the number of values up to it, and a fraction between two integers
	target numeric;
	n integer;
	hi numeric;
BEGIN
	IF most > 1 THEN
		EXECUTE format('SELECT array_agg(v ORDER BY %1$s), count(*) FILTER (WHERE %1$s <= %2$s)'
				' FROM unnest($2) AS v',
			concat('v::', key_type(c), collated),
			(bound_parameter_sql(k, '$1'))[1])
		INTO histogram, reached USING lo, histogram;
		IF integers AND reached BETWEEN 1 AND most - 1 THEN
			reached := reached + (lo[1]::numeric - histogram[reached]::numeric)
				/ (histogram[reached + 1]::numeric - histogram[reached]::numeric);
		END IF;
		target := greatest(reached, 1) + rows::numeric * (most - 1) / greatest(estimate, 1);
		IF target >= most AND reached < most THEN
			-- so near to the end, it may be all that is left
			RETURN slice_next(plan, histogram[most :], ceil(rows / 10.0)::bigint);
		ELSIF target < most THEN
			n := trunc(target);
			IF integers THEN
				hi := histogram[n]::numeric
					+ trunc((target - n) * (histogram[n + 1]::numeric - histogram[n]::numeric));
				IF hi > lo[1]::numeric OR lo IS NULL THEN
					RETURN ARRAY[hi::text];
				END IF;
			ELSIF n > reached THEN
				RETURN ARRAY[histogram[n]];
			END IF;
		END IF;
	END IF;
	RETURN slice_next(plan, lo, rows);
END
$$;
