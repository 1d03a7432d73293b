-- iblt_compare_nodes -----------------------------------------------------------------------

-- The nodes of a comparison, described.
CREATE FUNCTION nodes_prepare(names text[], named integer, conns text[], relation text,
	options options) RETURNS node_set
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	result node_set;
	described record;
BEGIN
	result.names := names;
	result.named := named;
	options.method := nodes_method(conns, names, options.method);
	IF options.method = 'plain' THEN
		IF options.live = 'require' THEN
			PERFORM plain_refuse('live digests are not read', 'Leave live out.');
		END IF;
		options.live := 'off';
		described := nodes_plain_sides(conns, names, relation, options);
		result.sides := described.sides;
		result.plan := nodes_plan(names, result.sides, options, described.told);
	ELSE
		result.sides := nodes_sides(conns, names, relation, options);
		result.plan := nodes_plan(names, result.sides, options, NULL);
	END IF;
	-- see reads_by_index
	IF options.condition IS NOT NULL AND EXISTS (SELECT FROM unnest(result.sides) AS s
			WHERE s.remote OR s.distributed) THEN
		RAISE NOTICE '%', by_index_note(true);
	END IF;
	RETURN result;
END
$$;

-- The keys on which nodes disagree, and the nodes with the plan by which these were found.
CREATE FUNCTION nodes_differences(INOUT nodes node_set, OUT differences node_difference[])
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	found record;
BEGIN
	IF (nodes.plan).buckets IS NOT NULL THEN
		differences := ARRAY(SELECT d FROM nodes_plain_look(nodes) AS d);
	ELSE
		found := nodes_find(nodes);
		nodes := found.nodes;	-- with the seed that hashes have
		differences := ARRAY(SELECT d FROM nodes_first_look(nodes, found.base, found.said,
			found.list, found.sample, found.number) AS d);
	END IF;
	IF (nodes.plan).recheck > 0 THEN
		differences := ARRAY(SELECT d FROM nodes_recheck(nodes, differences) AS d);
	END IF;
END
$$;

-- The options of a comparison of nodes, checked, with a label.
CREATE FUNCTION nodes_options(options options, label text) RETURNS options
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF coalesce(options.max_differences, 0) NOT BETWEEN 1 AND 200000 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'max_differences must be between 1 and 200000',
			DETAIL = 'The sketches and keys of all nodes are in memory.';
	END IF;
	-- any relation: that of the nodes may not be here
	PERFORM check_options('pg_catalog.pg_class', options);
	options.label := label;
	RETURN options;
END
$$;

-- What iblt_raise is to raise for a driver of a list of nodes.
CREATE FUNCTION nodes_fail(nodes text[], e failure) RETURNS failure
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	secret boolean := peers_secret(nodes);
BEGIN
	RETURN peer_fail(NULL, secret, e);
END
$$;

-- The warning for a node that is left out.
CREATE FUNCTION nodes_warn(name text, message text, detail text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RAISE WARNING USING MESSAGE = format('node "%s" is left out', name),
		DETAIL = concat_ws(' ', message || '.', nullif(detail, ''));
END
$$;

-- The SQLSTATE with which digests cannot be used and all nodes are scanned instead, or NULL.
CREATE FUNCTION nodes_rescan(options options) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN options.live = 'auto' AND options.live_problem IS NULL THEN 'IB008' END
$$;

-- For the handler of a driver of nodes: the number of the next attempt, with the nodes, their
-- names and the options to begin it with; NULL for none, and then e is what iblt_raise is to
-- raise.  A node that is left out does not count as an attempt.
-- A digest that is not trustworthy any more does not fail a node.
CREATE FUNCTION nodes_again(without text, INOUT attempt integer, INOUT nodes text[],
	INOUT names text[], INOUT options options, INOUT e failure) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	failed integer := CASE WHEN e.state <> 'IB008' THEN nodes_failed(names, e.message) END;
BEGIN
	IF without = 'skip' AND failed IS NOT NULL AND cardinality(names) > 2 THEN
		PERFORM nodes_warn(names[failed], e.message, e.detail);
		nodes := nodes[: failed - 1] || nodes[failed + 1 :];
		names := names[: failed - 1] || names[failed + 1 :];
	ELSIF e.state IN ('IB004', nodes_rescan(options)) AND attempt < 3 THEN
		options := live_again(options, e.state, e.message);
		attempt := attempt + 1;
	ELSE
		attempt := NULL;
		e := nodes_fail(nodes, e);
	END IF;
END
$$;

CREATE FUNCTION @extschema@.iblt_compare_nodes(
	relation text,
	nodes text[],
	columns text[] DEFAULT NULL,
	exclude text[] DEFAULT NULL,
	key_columns text[] DEFAULT NULL,
	condition text DEFAULT NULL,
	max_differences bigint DEFAULT 100000,
	rows boolean DEFAULT false,
	without text DEFAULT 'error',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	seed bigint DEFAULT NULL,
	progress boolean DEFAULT false,
	method text DEFAULT 'sketch',
	live text DEFAULT 'off')
RETURNS TABLE (key jsonb, verdict text, agree text[], deviate text[], missing text[],
	confirmed boolean, node_rows jsonb)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
AS $$
DECLARE
	options options := nodes_options(make_options(NULL, columns, exclude, key_columns, condition,
		NULL, max_differences, CASE rows WHEN true THEN 'rows' WHEN false THEN 'none' END, false,
		'ignore', recheck, timeout, seed, progress, live, method),
		'iblt_compare_nodes ' || nodes_relation(relation));
	conns text[] := nodes_conns(nodes, true);
	names text[] := nodes_names(nodes, conns);
	named integer := cardinality(nodes);
	dimensions integer := array_ndims(nodes);
	prepared node_set;
	again record;
	attempt integer := 1;
	e failure;
BEGIN
	PERFORM nodes_check(names, dimensions, without);
	LOOP
		BEGIN
			conns := nodes_conns(nodes, true);
			conns := nodes_connect(nodes, names, conns, timeout, true);
			prepared := nodes_prepare(names, named, conns, nodes_relation(relation), options);
			PERFORM live_notice(prepared.plan);
			RETURN QUERY SELECT d.key, v.verdict, v.agree, v.deviate, v.missing, d.confirmed,
					CASE WHEN rows THEN nodes_contents(names, d.contents) END
				FROM unnest((nodes_differences(prepared)).differences) AS d,
					nodes_verdict(names, named, d.digests) AS v;
			PERFORM nodes_close(conns);
			EXIT;
		EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
			GET STACKED DIAGNOSTICS e.state = RETURNED_SQLSTATE, e.message = MESSAGE_TEXT,
				e.detail = PG_EXCEPTION_DETAIL, e.hint = PG_EXCEPTION_HINT,
				e.context = PG_EXCEPTION_CONTEXT;
			PERFORM nodes_close(conns);
			again := nodes_again(without, attempt, nodes, names, options, e);
			IF again.attempt IS NULL THEN
				e := iblt_raise(again.e);
				RAISE;
			END IF;
			attempt := again.attempt;
			nodes := again.nodes;
			names := again.names;
			options := again.options;
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_compare_nodes(text, text[], text[], text[], text[], text, bigint, boolean,
	text, integer, interval, bigint, boolean, text, text) IS
'the keys on which a relation differs between up to 16 nodes: which of them agree, and which '
'deviate';
