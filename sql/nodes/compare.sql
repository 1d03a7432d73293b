-- iblt_compare_nodes -----------------------------------------------------------------------

-- The nodes of a comparison, described.
CREATE FUNCTION nodes_prepare(names text[], named integer, conns text[], relation text,
	options options) RETURNS node_set
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	result node_set;
BEGIN
	result.names := names;
	result.named := named;
	result.sides := nodes_sides(conns, names, relation, options);
	result.plan := nodes_plan(names, result.sides, options);
	RETURN result;
END
$$;

-- The keys on which nodes disagree.
CREATE FUNCTION nodes_differences(nodes node_set) RETURNS SETOF node_difference
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	found record := nodes_find(nodes);
	differences node_difference[];
BEGIN
	IF (nodes.plan).recheck = 0 THEN
		RETURN QUERY SELECT * FROM nodes_first_look(found.nodes, found.base, found.said,
			found.list, found.sample, found.number);
	ELSE
		differences := ARRAY(SELECT d FROM nodes_first_look(found.nodes, found.base,
			found.said, found.list, found.sample, found.number) AS d);
		RETURN QUERY SELECT * FROM nodes_recheck(found.nodes, differences);
	END IF;
END
$$;

-- The options of a comparison of nodes, checked.
CREATE FUNCTION nodes_options(options options, relation text) RETURNS options
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	-- any relation: that of the nodes may not be here
	PERFORM check_options('pg_catalog.pg_class', options);
	IF options.max_differences > 200000 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'max_differences must be between 1 and 200000',
			DETAIL = 'The sketches and keys of all nodes are in memory.';
	END IF;
	options.label := 'iblt_compare_nodes ' || relation;
	RETURN options;
END
$$;

-- For the handler of iblt_compare_nodes, which raises the error again unless this gives a
-- number: the place of a node to go on without, or 0 to begin again with all.
CREATE FUNCTION nodes_again(nodes text[], names text[], without text, attempt integer,
	state text, message text, detail text, hint text) RETURNS integer
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	failed integer := nodes_failed(names, message);
	secret boolean := false;
BEGIN
	IF without = 'skip' AND failed IS NOT NULL AND cardinality(names) > 2 THEN
		RAISE WARNING USING MESSAGE = format('node "%s" is left out', names[failed]),
			DETAIL = concat_ws(' ', message || '.', detail);
		RETURN failed;
	ELSIF state = 'IB004' AND attempt < 3 THEN
		RETURN 0;
	END IF;
	FOR n IN 1 .. cardinality(nodes) LOOP
		secret := secret OR coalesce(peer_is_string(nodes[n]), false);
	END LOOP;
	PERFORM peer_fail(NULL, secret, state, message, detail, hint);
	RETURN NULL;
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
	progress boolean DEFAULT false)
RETURNS TABLE (key jsonb, verdict text, agree text[], deviate text[], missing text[],
	confirmed boolean, node_rows jsonb)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
AS $$
DECLARE
	options options := nodes_options(make_options(NULL, columns, exclude, key_columns, condition,
		NULL, max_differences, CASE rows WHEN true THEN 'rows' WHEN false THEN 'none' END, false,
		'ignore', recheck, timeout, seed, progress), nodes_relation(relation));
	names text[] := nodes_names(nodes);
	named integer := cardinality(nodes);
	dimensions integer := array_ndims(nodes);
	conns text[];
	found node_set;
	again integer;
	attempt integer := 1;
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	PERFORM nodes_check(names, dimensions, without);
	LOOP
		BEGIN
			conns := nodes_conns(nodes);
			conns := nodes_connect(nodes, names, conns, timeout);
			found := nodes_prepare(names, named, conns, nodes_relation(relation), options);
			RETURN QUERY SELECT d.key, v.verdict, v.agree, v.deviate, v.missing, d.confirmed,
					CASE WHEN rows THEN nodes_contents(names, d.contents) END
				FROM nodes_differences(found) AS d,
					nodes_verdict(names, named, d.digests) AS v;
			PERFORM nodes_close(conns);
			EXIT;
		EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
			GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
				detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
			PERFORM nodes_close(conns);
			again := nodes_again(nodes, names, without, attempt, state, message, detail, hint);
			IF again IS NULL THEN
				RAISE;
			ELSIF again = 0 THEN
				attempt := attempt + 1;
			ELSE
				nodes := nodes[: again - 1] || nodes[again + 1 :];
				names := names[: again - 1] || names[again + 1 :];
			END IF;
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_compare_nodes(text, text[], text[], text[], text[], text, bigint, boolean,
	text, integer, interval, bigint, boolean) IS
'the keys on which a relation differs between up to 16 nodes: which of them agree, and which '
'deviate';
