-- What iblt_compare_nodes and iblt_repair_nodes do ------------------------------------------
--
-- Both connect, describe, compare and, after a node has failed, begin again.  A repair goes on to
-- what it is for.

-- The comparison of nodes, and of a repair, which asks for something, its rows.
CREATE FUNCTION nodes_drive(relation text, a attempt, asked repair_options, source text,
	OUT compared batch, OUT rows node_repair_row[])
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	repairs boolean := asked.target_side IS NOT NULL;
	plan plan;
	s plan;					-- of a repair: that of the comparison, with the names of the nodes
	names text[];
	pairs node_pair[];
	e failure;
BEGIN
	LOOP
		BEGIN
			plan := NULL;
			IF a.conns IS NULL THEN
				a.conns := peer_conns(a.peers);
				a.names := nodes_names(a.peers, a.without);
			END IF;
			IF repairs THEN
				PERFORM repair_check_options(asked);
			END IF;
			a := begin_attempt(a, CASE WHEN repairs THEN 'iblt_repair_nodes'
				ELSE 'iblt_compare_nodes' END, NULL, relation);
			IF source <> ALL (a.names) THEN		-- or was left out
				RAISE invalid_parameter_value USING MESSAGE = format(
					'source "%s" is not one of the nodes: %s', source, quoted(a.names)),
					HINT = 'Name it as the answers do. This database is "here".';
			END IF;
			plan := prepare(a.conns, NULL, NULL, a.options, a.names, a.named);
			compared := comparison_of(find_keys(plan));
			PERFORM live_notice(compared.plan), iblt_tell('notice', by_index_note(plan));
			IF repairs THEN
				-- nothing begins again once nodes may have been changed
				a.without := 'error';
				a.number := 3;
				plan := NULL;
				s := compared.plan;
				names := iblt_field(s.sides, 'side');
				-- Rows here that this transaction has changed, or sees as they were before, would
				-- have a vote, and the other nodes commit before they do.
				FOR n IN 1 .. CASE WHEN asked.apply THEN cardinality(names) ELSE 0 END LOOP
					CONTINUE WHEN (s.sides[n]).place IS NOT NULL;
					PERFORM repair_require_apart(true, s.sides[n]);
				END LOOP;
				IF source IS NULL THEN
					PERFORM nodes_check_standby(s.sides);
				END IF;
				FOR pairs IN SELECT array_agg(ROW(p.*)::node_pair ORDER BY p.source)
						FROM nodes_pairs(names, s.named, compared.differences, source) AS p
						GROUP BY p.target ORDER BY names[p.target] = 'here', p.target LOOP
					rows := rows || nodes_repair_target(a.peers, s, pairs, asked, source);
				END LOOP;
				rows := rows || ARRAY(SELECT r FROM nodes_left(names, s.named,
					compared.differences, source, (compared.waited).problem) AS r);
			END IF;
			PERFORM peers_close(a.conns);
			RETURN;
		EXCEPTION WHEN @on_any_error@ THEN
			@take_failure@;
			a := begin_again(a, plan, e);
			IF a.number IS NULL THEN
				RAISE;
			END IF;
		END;
	END LOOP;
END
$$;
