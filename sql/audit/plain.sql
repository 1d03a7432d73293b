-- Many small tables of a peer without iblt ---------------------------------------------
--
-- As in small.sql, but in two messages: one describes all tables, and one sums
-- them up.  A table whose sums are the same on both sides is equal.  All others, also those
-- with an error here, are compared alone.  After an error on the peer, all are.

-- The plan for a small table, as plain_relations_sql describes both sides; NULL if it must be
-- compared alone.
CREATE FUNCTION plain_plan_small(conn text, small audit_small,
	mine jsonb, theirs jsonb) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF mine = 'null' OR theirs = 'null' THEN
		RETURN NULL;
	END IF;
	PERFORM plain_check_options(conn, small.compare);
	RETURN plain_plan(described(small.here, 'here'), mine, theirs,
		small.compare);
EXCEPTION WHEN OTHERS THEN
	-- an error shows again when the table is compared alone
	RETURN NULL;
END
$$;

-- What plain_sums_sql gives here, without the locks; NULL after an error.
CREATE FUNCTION plain_sum_small(plan plan) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answer record;
	sums text;
BEGIN
	IF plan.buckets IS NULL THEN
		RETURN NULL;
	END IF;
	BEGIN
		answer := read_heap(plain_sums_sql(plan, plan.here));
		sums := answer.iblt_value;
		RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'summed up';
	EXCEPTION WHEN OTHERS THEN
		-- an error shows again when the table is compared alone
		RETURN sums;
	END;
END
$$;

-- The row for a small table whose sums are the same; NULL for one that must be compared
-- alone.
CREATE FUNCTION plain_judge_small(small audit_small,
	plan plan, mine text, theirs text, bytes bigint) RETURNS audit_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	-- each is the fingerprint, the number of rows, and the sums
	IF (split_part(mine, ' ', 1) = (plan.here).fingerprint
			AND split_part(theirs, ' ', 1) = (plan.there).fingerprint
			AND substr(mine, strpos(mine, ' ')) = substr(theirs, strpos(theirs, ' ')))
			IS NOT TRUE THEN
		RETURN NULL;
	END IF;
	RETURN audit_equal_small(small, plan, split_part(mine, ' ', 2)::bigint, bytes);
EXCEPTION WHEN OTHERS THEN
	-- an error shows again when the table is compared alone
	RETURN NULL;
END
$$;

-- The plans for small tables, NULL for those that must be compared alone, or the peer's
-- error.
CREATE FUNCTION plain_ask_small(conn text, smalls audit_small[],
	OUT plans plan[], OUT problem peer_error) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	query text := plain_describe_many_sql(
		ARRAY(SELECT s.here ->> 'relation' FROM unnest(smalls) AS s));
	mine jsonb;
	tried record;
BEGIN
	PERFORM plain_ask(conn, query, 'iblt_audit');
	mine := peer_ask(conn, 'here', query);
	tried := peer_try(conn, 0.005);
	problem := tried.problem;
	FOR i IN 1 .. CASE WHEN problem.state IS NULL THEN cardinality(smalls) ELSE 0 END LOOP
		plans[i] := plain_plan_small(conn, smalls[i], mine -> (i - 1),
			tried.value::jsonb -> (i - 1));
	END LOOP;
END
$$;

-- The rows for those small tables that are equal, and NULL for the others; none if the peer
-- could not answer.
CREATE FUNCTION plain_compare_small(conn text, smalls audit_small[]) RETURNS audit_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	traffic record := iblt_traffic_take();
	asked record := plain_ask_small(conn, smalls);
	plans plan[] := asked.plans;
	problem peer_error := asked.problem;
	mine text[];
	tried record;
BEGIN
	IF problem.state IS NULL THEN
		PERFORM plain_ask(conn, format('SELECT ARRAY[%s]::text[]',
			(SELECT string_agg(CASE WHEN p.buckets IS NULL THEN 'NULL'
				ELSE format('(%s)', plain_sums_sql(plans[i], p.there)) END,
				', ' ORDER BY i)
			FROM generate_subscripts(plans, 1) AS i,
			LATERAL (SELECT (plans[i]).buckets, (plans[i]).there) AS p)), NULL, 'read_heap');
		FOR i IN 1 .. cardinality(smalls) LOOP
			mine[i] := plain_sum_small(plans[i]);
		END LOOP;
		tried := peer_try(conn, 0.005);
		problem := tried.problem;
	END IF;
	IF problem.state IS NOT NULL THEN
		PERFORM peer_close(conn);
		RETURN '{}';
	END IF;
	traffic := iblt_traffic_take();
	RETURN ARRAY(SELECT plain_judge_small(smalls[i], plans[i], mine[i],
			(tried.value::text[])[i],
			(traffic.sent + traffic.received) / cardinality(smalls))
		FROM generate_subscripts(smalls, 1) AS i);
END
$$;
