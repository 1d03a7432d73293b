-- Many small tables of a peer without iblt ---------------------------------------------
--
-- As in small.sql, but in two messages: one describes all tables, and one sums
-- them up.  A table whose sums are the same on both sides is equal.  All others, also those
-- with an error here, are compared alone.  After an error on the peer, all are.

-- The plan for a small table, as plain_relations_sql describes both sides; NULL if it must be
-- compared alone.
CREATE FUNCTION plain_plan_small(conns text[], small audit_small,
	mine jsonb, theirs jsonb) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	here side;
	there side;
BEGIN
	IF mine = 'null' OR theirs = 'null' OR small.here IS NULL AND
			greatest(mine #> '{size,bytes}', theirs #> '{size,bytes}')::bigint > 1048576 THEN
		RETURN NULL;
	END IF;
	PERFORM plain_check_options(conns, small.compare);
	-- where both are elsewhere, one may have iblt, but has not described itself
	here := side_of(coalesce(small.here, mine) || jsonb_build_object(
		'condition', (small.compare).condition), 'here', conns[1]);
	there := side_of(theirs || jsonb_build_object(
		'condition', (small.compare).peer_condition), 'there', conns[2]);
	here.bare := small.here IS NULL;
	there.bare := true;
	RETURN plain_plan(here, there, mine, theirs, small.compare);
EXCEPTION WHEN @on_error@ THEN
	-- an error shows again when the table is compared alone
	RETURN NULL;
END
$$;

-- The row for a small table whose sums are the same; NULL for one that must be compared
-- alone.
CREATE FUNCTION plain_judge_small(small audit_small,
	plan plan, mine text, theirs text, bytes bigint) RETURNS audit_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	-- each is the fingerprint, the number of rows, the sums and milliseconds
	IF (split_part(mine, ' ', 1) = (plan.here).fingerprint
			AND split_part(theirs, ' ', 1) = (plan.there).fingerprint
			AND split_part(mine, ' ', 2) = split_part(theirs, ' ', 2)
			AND split_part(mine, ' ', 3) = split_part(theirs, ' ', 3)) IS NOT TRUE THEN
		RETURN NULL;
	END IF;
	RETURN audit_equal_small(small, plan, split_part(mine, ' ', 2)::bigint, bytes);
EXCEPTION WHEN @on_error@ THEN
	-- an error shows again when the table is compared alone
	RETURN NULL;
END
$$;

-- The plans for small tables, NULL for those that must be compared alone.
CREATE FUNCTION plain_plans_small(conns text[], smalls audit_small[]) RETURNS plan[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answers text[] := ask_values(conns, ARRAY[
		plain_describe_many_sql(ARRAY(SELECT audit_name(s.item) FROM unnest(smalls) AS s)),
		plain_describe_many_sql(ARRAY(SELECT audit_peer_name(s.item) FROM unnest(smalls) AS s))],
		0.005, 'iblt_audit');
	mine jsonb := answers[1];
	theirs jsonb := answers[2];
	plans plan[];
BEGIN
	FOR i IN 1 .. cardinality(smalls) LOOP
		plans[i] := plain_plan_small(conns, smalls[i], mine -> (i - 1), theirs -> (i - 1));
	END LOOP;
	RETURN plans;
END
$$;

-- A query for the sums of all small tables of a side, NULL for those without a plan.
CREATE FUNCTION plain_sums_small_sql(plans plan[], side text) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
	SELECT format('SELECT ARRAY[%s]::text[]::text', string_agg(CASE WHEN p.buckets IS NULL
		THEN 'NULL' ELSE format('(%s)', plain_sums_sql(plans[i],
			CASE side WHEN 'here' THEN p.here ELSE p.there END)) END, ', ' ORDER BY i))
	FROM generate_subscripts(plans, 1) AS i,
	LATERAL (SELECT (plans[i]).buckets, (plans[i]).here, (plans[i]).there) AS p
$$;

-- What was described of both sides of all small tables with a plan.
CREATE FUNCTION plain_reads_small(plans plan[]) RETURNS described[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	p plan;
	result described[] := '{}';
BEGIN
	FOREACH p IN ARRAY plans LOOP
		IF p.buckets IS NOT NULL THEN
			result := result || reads(p.here, p.there);
		END IF;
	END LOOP;
	RETURN result;
END
$$;

-- The rows for those small tables that are equal, and NULL for the others; none if a side
-- could not answer.
CREATE FUNCTION plain_compare_small(conns text[], smalls audit_small[]) RETURNS audit_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	traffic record := iblt_traffic_take();
	plans plan[];
	sums text[];
	mine text[];
	theirs text[];
BEGIN
	BEGIN
		plans := plain_plans_small(conns, smalls);
		sums := ask_values(conns, ARRAY[plain_sums_small_sql(plans, 'here'),
				plain_sums_small_sql(plans, 'there')], 0.005, NULL,
			ROW('read_heap', NULL, NULL, NULL, plain_reads_small(plans))::reading);
		RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'summed up';
	EXCEPTION WHEN @on_error@ THEN
		IF SQLSTATE <> 'IB000' THEN
			PERFORM peers_close(conns);
			RETURN '{}';
		END IF;
	END;
	mine := sums[1];
	theirs := sums[2];
	traffic := iblt_traffic_take();
	RETURN ARRAY(SELECT plain_judge_small(smalls[i], plans[i], mine[i], theirs[i],
			(traffic.sent + traffic.received) / cardinality(smalls))
		FROM generate_subscripts(smalls, 1) AS i);
END
$$;
