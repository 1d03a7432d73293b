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

-- The rows for those small tables that are equal, and NULL for the others; none if a side
-- could not answer.
CREATE FUNCTION plain_compare_small(conns text[], smalls audit_small[]) RETURNS audit_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	traffic record := iblt_traffic_take();
	answers text[];
	here jsonb;
	there jsonb;
	p plan;
	plans plan[];			-- NULL for those that must be compared alone
	asked text[] := '{}';	-- a query for the sums of each, here
	asked_there text[] := '{}';
	read described[] := '{}';
	mine text[];
	theirs text[];
BEGIN
	BEGIN
		answers := ask_values(conns, ARRAY[
			plain_describe_many_sql(ARRAY(SELECT audit_name(s.item) FROM unnest(smalls) AS s)),
			plain_describe_many_sql(ARRAY(SELECT audit_peer_name(s.item)
				FROM unnest(smalls) AS s))], 0.005, 'iblt_audit');
		here := answers[1];
		there := answers[2];
		FOR i IN 1 .. cardinality(smalls) LOOP
			p := plain_plan_small(conns, smalls[i], here -> (i - 1), there -> (i - 1));
			plans[i] := p;
			asked[i] := 'NULL';
			asked_there[i] := 'NULL';
			IF p.buckets IS NOT NULL THEN
				asked[i] := format('(%s)', plain_sums_sql(p, p.here));
				asked_there[i] := format('(%s)', plain_sums_sql(p, p.there));
				read := read || reads(p.here, p.there);
			END IF;
		END LOOP;
		answers := ask_values(conns, ARRAY[
				format('SELECT ARRAY[%s]::text[]::text', array_to_string(asked, ', ')),
				format('SELECT ARRAY[%s]::text[]::text', array_to_string(asked_there, ', '))],
			0.005, NULL, ROW('read_heap', NULL, NULL, NULL, read)::reading);
		RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'summed up';
	EXCEPTION WHEN @on_error@ THEN
		IF SQLSTATE <> 'IB000' THEN
			PERFORM peers_close(conns);
			RETURN '{}';
		END IF;
	END;
	mine := answers[1];
	theirs := answers[2];
	traffic := iblt_traffic_take();
	RETURN ARRAY(SELECT plain_judge_small(smalls[i], plans[i], mine[i], theirs[i],
			(traffic.sent + traffic.received) / cardinality(smalls))
		FROM generate_subscripts(smalls, 1) AS i);
END
$$;
