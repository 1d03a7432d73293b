-- What iblt_compare_nodes and iblt_repair_nodes do ------------------------------------------
--
-- Both connect, describe, compare and, after a node has failed, begin again.  A repair goes on to
-- what it is for.

-- The comparison of nodes, and of a repair, which asks for something, its rows.
-- A comparison may use connections of the caller's, over which nothing is written.  The arguments
-- are checked in the block with the handler: it keeps the statement, and the passwords of
-- connection strings in it, out of the log.
CREATE FUNCTION nodes_drive(relation text, nodes text[], options options, without text,
	asked repair_options, source text, OUT compared comparison, OUT rows node_repair_row[])
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	lent boolean := asked.target_side IS NULL;
	dblink boolean := EXISTS (SELECT FROM pg_extension WHERE extname = 'dblink');
	conns text[] := '{}';
	names text[];
	named integer := cardinality(nodes);
	plan plan;
	again record;
	attempt integer := 1;
	secret boolean := peers_secret(nodes);	-- also of those that will be left out
	e failure;
BEGIN
	LOOP
		BEGIN
			plan := NULL;
			conns := peer_conns(nodes, lent AND dblink);
			IF names IS NULL THEN
				relation := nodes_relation(relation);
				options := nodes_options(options, CASE WHEN lent THEN 'iblt_compare_nodes '
					ELSE 'iblt_repair_nodes ' END || relation);
				IF NOT lent THEN
					PERFORM repair_check_options(asked);
				END IF;
				names := nodes_names(nodes, conns, without);
			END IF;
			IF source <> ALL (names) THEN	-- or was left out
				RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format(
					'source "%s" is not one of the nodes: %s', source, quoted(names)),
					HINT = 'Name it as the answers do. This database is "here".';
			END IF;
			conns := connect(nodes, conns, options.timeout, names => names);
			plan := nodes_prepare(names, named, conns, relation, options);
			PERFORM live_notice(plan);
			compared := comparison_of(find_keys(plan));
			IF plan.from_digests THEN
				PERFORM live_notice(compared.plan);
			END IF;
			IF asked.target_side IS NOT NULL THEN
				-- nothing begins again once nodes may have been changed
				without := 'error';
				attempt := 3;
				plan := NULL;
				rows := nodes_repair(nodes, compared, asked, source);
			END IF;
			PERFORM peers_close(conns);
			RETURN;
		EXCEPTION WHEN @on_any_error@ THEN
			@take_failure@;
			PERFORM peers_close(conns);
			BEGIN
				again := nodes_again(without, plan, e, attempt, nodes, names, conns, options);
			EXCEPTION WHEN @on_any_error@ THEN
				@take_failure@;
				PERFORM iblt_raise(peers_fail('{}', true, e), true);
			END;
			IF again.attempt IS NULL THEN
				e := peers_fail('{}', secret OR again.e IS DISTINCT FROM e, again.e);
				PERFORM iblt_raise(e, true);
				RAISE;
			ELSIF again.failed IS NOT NULL THEN
				PERFORM nodes_warn(again.failed, e);
			ELSE
				PERFORM warn_not_unique(e);
			END IF;
			attempt := again.attempt;
			nodes := again.nodes;
			names := again.names;
			options := again.options;
		END;
	END LOOP;
END
$$;
