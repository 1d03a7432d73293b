-- The plan of a plain comparison -------------------------------------------------------

-- Which method

-- The method for this peer, sketch or plain, and with auto a notice of the latter; from now
-- on, the peer is asked as it says.
CREATE FUNCTION plain_method(conn text, method text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF method = 'auto' AND conn IS NOT NULL AND NOT peer_is_lent(conn) THEN
		PERFORM peer_send(conn, plain_settings() || 'SELECT NOT EXISTS (SELECT FROM pg_extension'
			' WHERE extname = ''iblt'')');
		IF peer_value(conn, 0.001)::boolean THEN
			RAISE NOTICE USING
				MESSAGE = 'the peer has no extension iblt, and is compared by plain queries';
			method := 'plain';
		END IF;
	END IF;
	IF method = 'plain' THEN
		PERFORM peer_bare(conn);
		RETURN 'plain';
	END IF;
	RETURN 'sketch';
END
$$;

-- What is refused

-- An error if there is a problem.
CREATE FUNCTION plain_refuse(problem text, hint text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = 'cannot compare by plain queries: ' || problem, HINT = hint;
	END IF;
END
$$;

-- An error for options that plain queries cannot follow.
CREATE FUNCTION plain_check_options(conn text, options options) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM plain_refuse(CASE
		WHEN conn IS NULL THEN 'there is no peer'
		-- it may be in a transaction
		WHEN peer_is_lent(conn) THEN 'the peer is a connection that is open'
		WHEN options.live = 'require' THEN 'live digests are not read'
		WHEN options.lo IS NOT NULL OR options.hi IS NOT NULL THEN 'slices are not supported' END,
		'Leave the option out, or use method => ''sketch'' with iblt on both sides.');
END
$$;

-- An error for sides that plain queries cannot compare, as plain_describe_sql described both.
CREATE FUNCTION plain_check_sides(here side, mine jsonb, theirs jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM plain_refuse(CASE
		WHEN least((mine ->> 'version')::integer, (theirs ->> 'version')::integer) < 140000
			THEN 'both servers must have PostgreSQL 14 or later'
		-- the same bytes may be other characters
		WHEN mine -> 'encoding' <> theirs -> 'encoding'
			THEN format('the encoding is %s here and %s on the peer', mine ->> 'encoding',
				theirs ->> 'encoding')
		-- all rows would travel, and their keys not be found again
		WHEN mine -> 'hash' <> theirs -> 'hash'
			THEN 'the peer hashes texts differently, perhaps because of its byte order'
		WHEN here.remote OR here.distributed
			THEN 'rows of the relation here are on other servers' END,
		'Install iblt on the peer, and use method => ''sketch''.');
END
$$;

-- An error that names the columns whose values texts do not compare safely.
CREATE FUNCTION plain_check_types(plan plan, mine jsonb, theirs jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	problems text := (SELECT string_agg(CASE
			WHEN c.type_here = c.type_there THEN format('"%s" is %s', c.name, c.type_here)
			ELSE format('"%s" is %s here and %s on the peer', c.name, c.type_here, c.type_there)
			END, ', ')
		FROM unnest(plan.columns) AS c
		LEFT JOIN jsonb_to_recordset(mine -> 'columns') AS h(name text, text text) USING (name)
		LEFT JOIN jsonb_to_recordset(theirs -> 'columns') AS t(name text, text text) USING (name)
		WHERE c.cast_to <> '' OR (h.text = t.text) IS NOT TRUE);
BEGIN
	PERFORM plain_refuse(CASE WHEN plan.columns = '{}' THEN 'there are no columns'
		ELSE 'their text does not tell all values of some columns apart: ' || problems END,
		'Exclude these columns, or use method => ''sketch'' with iblt on both sides.');
END
$$;

-- Conditions
--
-- The peer cannot check a condition.  So that of the peer is checked on the relation here,
-- and must mean the same there: it may consist of what PostgreSQL itself has, and of
-- columns that both sides have with the same types.

-- An error unless a condition means the same on any server whose columns have the same types;
-- the columns that it names.
CREATE FUNCTION iblt_plain_check_condition(relation regclass, condition text) RETURNS text[]
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
	SET search_path = iblt_internal, pg_catalog, pg_temp;

-- An error for a condition that may mean something else on the peer.
CREATE FUNCTION plain_check_condition(relation text, condition text, mine jsonb,
	theirs jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	used text[];
	problems text;
BEGIN
	PERFORM iblt_compare_check_condition(relation::regclass, condition);
	used := iblt_plain_check_condition(relation::regclass, condition);
	SELECT string_agg(format('"%s"', name), ', ') INTO problems
	FROM unnest(used) AS name
	LEFT JOIN jsonb_to_recordset(mine -> 'columns') AS h(name text, text text) USING (name)
	LEFT JOIN jsonb_to_recordset(theirs -> 'columns') AS t(name text, text text, vague boolean)
		USING (name)
	WHERE NOT coalesce(h.text = t.text AND NOT t.vague, false);
	PERFORM plain_refuse('the condition may mean something else on the peer, because'
			' of columns that it names: ' || problems,
		'Compare columns that both sides have, of the same built-in types or enums.');
END
$$;

-- The plan

-- Into how many buckets the rows are put, of which there are about so many.
-- Sums of more buckets are more to send, and of fewer buckets more rows.
CREATE FUNCTION plain_buckets(row_number bigint) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT greatest(16, least(row_number / 80, 65536), least(row_number / 1500, 131072))::integer
$$;

-- The plan for two relations, as plain_describe_sql described both.
CREATE FUNCTION plain_plan(conn text, here side, mine jsonb, theirs jsonb, options options)
RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan;
BEGIN
	PERFORM plain_check_sides(here, mine, theirs);
	options.live := 'off';
	-- the peer's rows are looked at here, with functions of this side's schema
	plan := checked_plan(here, described(theirs || jsonb_build_object(
		'schema', '@extschema@', 'condition', options.peer_condition), 'there', conn), options);
	PERFORM plain_check_types(plan, mine, theirs);
	IF options.peer_condition IS NOT NULL THEN
		PERFORM plain_check_condition(here.relation, options.peer_condition, mine, theirs);
	END IF;
	plan.by_hash := true;
	plan.buckets := plain_buckets(greatest((mine -> 'size' ->> 'rows')::bigint,
		(theirs -> 'size' ->> 'rows')::bigint, 0));
	plan.bytes := greatest((mine -> 'size' ->> 'bytes')::bigint,
		(theirs -> 'size' ->> 'bytes')::bigint, 0);
	RETURN plan;
END
$$;

-- The plan for a slice of about so many rows, of relations of about as many as estimated.
-- A slice is compared as a relation of its size.
CREATE FUNCTION plain_slice(plan plan, slice_rows bigint, estimate bigint) RETURNS plan
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF plan.buckets IS NOT NULL AND slice_rows IS NOT NULL THEN
		plan.buckets := plain_buckets(slice_rows);
		plan.bytes := plan.bytes * least(1, slice_rows / greatest(estimate, 1)::float8);
	END IF;
	RETURN plan;
END
$$;

-- Describes the peer's relation without anything of iblt there, and makes the plan.
CREATE FUNCTION plain_prepare(conn text, relation regclass, name text, options options)
RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	here side := described(describe(relation, options.condition), 'here');
	answers text[];
BEGIN
	-- by another name, it may have another peer
	IF here.relation IS DISTINCT FROM options.relation THEN
		PERFORM refuse_altered(options.relation, 'here');
	END IF;
	PERFORM plain_check_options(conn, options);
	answers := ask_values(ARRAY[NULL, conn], ARRAY[plain_describe_sql(here.relation),
		plain_describe_sql(name)], 0.001, options.label);
	IF answers[1] = 'null' THEN
		PERFORM refuse_altered(here.relation, 'here');
	ELSIF answers[2] = 'null' THEN
		PERFORM refuse_no_relation(name);
	END IF;
	RETURN plain_plan(conn, here, answers[1]::jsonb, answers[2]::jsonb, options);
END
$$;
