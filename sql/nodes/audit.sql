-- iblt_audit_nodes ---------------------------------------------------------------------------
--
-- Compares many tables over the same connections, one after the other.  The work of each is
-- rolled back, which frees its locks, as in audit_table (audit/table.sql).

-- Compares one table, of a list without nodes that fail if these may be left out, and again if
-- it is altered meanwhile: its row, and where replication is stuck.
-- What is missing, extra or changed is so for the majority, so a tie blames no node.
CREATE FUNCTION nodes_audit_table(nodes text[], names text[], named integer, conns text[],
	relation text, options options, listed boolean, without text, INOUT stuck text,
	OUT result node_audit_row) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	notes text[] := '{}';
	attempt integer := 1;
	plan plan;
	compared comparison;
	waited waited;
	kinds text;
	again record;
	e failure;
	problem audit_row;
BEGIN
	LOOP
		result := NULL;
		plan := NULL;
		BEGIN
			conns := connect(nodes, conns, options.timeout, names => names, again => true);
			plan := nodes_prepare(names, named, conns, relation, options);
			-- as in audit_adjust_plan
			kinds := (SELECT string_agg(format('%s on "%s"', foreign_kind(s), s.side), ' and ')
				FROM unnest(plan.sides) AS s WHERE foreign_kind(s) IS NOT NULL);
			IF listed AND kinds IS NOT NULL THEN
				RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = 'it is ' || kinds,
					DETAIL = 'Its rows are elsewhere. Name it in tables to compare it all the '
						'same.';
			END IF;
			plan.stuck := stuck;
			compared := comparison_of(find_keys(plan));
			waited := compared.waited;
			stuck := coalesce(waited.stuck, stuck);
			plan := compared.plan;	-- which may scan after all
			WITH d AS MATERIALIZED (
				SELECT d.confirmed, v.verdict, v.agree, v.deviate, v.missing
				FROM unnest(compared.differences) AS d,
					nodes_verdict(names, named, d.checksums) AS v
			), n AS (
				SELECT CASE WHEN name = ANY (d.missing) THEN 'missing'
					WHEN d.agree[1] = ANY (d.missing) THEN 'extra' ELSE 'changed' END AS kind,
					name, count(*) AS number
				FROM d, unnest(d.deviate) AS name WHERE d.verdict = 'majority' GROUP BY 1, 2
			), k AS (
				SELECT kind, jsonb_object_agg(name, number) AS numbers FROM n GROUP BY kind
			)
			SELECT count(*), count(*) FILTER (WHERE d.verdict = 'tie'),
				count(*) FILTER (WHERE d.confirmed IS FALSE),
				coalesce((SELECT numbers FROM k WHERE kind = 'missing'), '{}'),
				coalesce((SELECT numbers FROM k WHERE kind = 'extra'), '{}'),
				coalesce((SELECT numbers FROM k WHERE kind = 'changed'), '{}')
			INTO result.differences, result.ties, result.unconfirmed, result.missing, result.extra,
				result.changed
			FROM d;
			result.detail := audit_detail(NULL, plan, result.unconfirmed, result.differences,
				waited.problem);
			-- the last one, because the handler takes it for the end
			result.status := audit_status(result.differences, result.unconfirmed);
			RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'compared';
		EXCEPTION WHEN @on_error@ THEN
			EXIT WHEN result.status IS NOT NULL;
			@take_failure@;
			PERFORM peers_close(conns);
		END;
		stuck := coalesce((told_too_many(e)).stuck, stuck);
		again := nodes_again(without, plan, e, attempt, nodes, names, conns, options);
		IF again.attempt IS NULL THEN
			problem := audit_failed(NULL, again.e);
			result := NULL;
			result.status := problem.status;
			result.detail := problem.detail;
			result.sqlstate := problem.sqlstate;
			EXIT;
		ELSIF again.failed IS NOT NULL THEN
			notes := notes || format('without "%s": %s', again.failed, e.message);
		ELSIF said_not_unique(e) IS NOT NULL THEN
			notes := notes || said_not_unique(e);
		END IF;
		attempt := again.attempt;
		nodes := again.nodes;
		names := again.names;
		conns := again.conns;
		options := again.options;
	END LOOP;
	result.relation := relation;
	-- nodes may be equal without one that is not
	IF result.status = 'equal' AND cardinality(names) < named THEN
		result.status := 'not comparable';
	END IF;
	result.detail := nullif(concat_ws('; ', CASE WHEN cardinality(names) < named
			THEN format('%s of %s nodes were compared', cardinality(names), named) END,
		result.detail, nullif(array_to_string(notes, '; '), '')), '');
	result.total_ms := ms(started);
END
$$;

CREATE FUNCTION @extschema@.iblt_audit_nodes(
	nodes text[],
	tables text[] DEFAULT NULL,
	schema text DEFAULT NULL,
	max_differences bigint DEFAULT 100000,
	without text DEFAULT 'error',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	seed bigint DEFAULT NULL,
	progress boolean DEFAULT false,
	method text DEFAULT 'sketch',
	live text DEFAULT 'off')
RETURNS SETOF node_audit_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
AS $$
DECLARE
	content text := 'none';
	extra_columns text := 'ignore';
	options options := @arguments options@;
	dblink boolean := EXISTS (SELECT FROM pg_extension WHERE extname = 'dblink');
	conns text[] := '{}';
	names text[];
	named integer;
	secret boolean := peers_secret(nodes);	-- also of those that will be left out
	sides side[];
	again record;
	list text[] := '{}';
	compared record;
	stuck text;
	result node_audit_row;
	results node_audit_row[] := '{}';
	e failure;
BEGIN
	BEGIN
		options := nodes_options(options, 'iblt_audit_nodes');
		conns := peer_conns(nodes, dblink);
		names := nodes_names(nodes, conns, without);
		PERFORM nodes_title(names, conns);
		IF num_nonnulls(tables, schema) <> 1 THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
				MESSAGE = 'exactly one of tables and schema must be given';
		ELSIF coalesce(recheck, 1) > 0 AND 'here' = ANY (names)
				AND current_setting('transaction_isolation') !~ '^read' THEN
			RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction', MESSAGE =
				'cannot recheck differences in a REPEATABLE READ or SERIALIZABLE transaction',
				HINT = 'Use isolation level READ COMMITTED, or recheck => 0.';
		END IF;
		named := cardinality(names);
		LOOP
			BEGIN
				conns := connect(nodes, conns, timeout, names => names);
				PERFORM peers_bare(CASE method WHEN 'sketch' THEN '{}' ELSE conns END);
				sides := audit_greet(conns, options.label);
				EXIT;
			EXCEPTION WHEN @on_error@ THEN
				@take_failure@;
				again := nodes_again(without, NULL, e, 3, nodes, names, conns, options);
				IF again.failed IS NULL THEN
					RAISE;
				END IF;
				PERFORM nodes_warn(again.failed, e), peers_close(conns);
				nodes := again.nodes;
				names := again.names;
				conns := again.conns;
			END;
		END LOOP;
		FOR n IN 1 .. cardinality(names) LOOP
			sides[n].side := names[n];
		END LOOP;
		PERFORM nodes_check_pairs(sides);
		options.method := plain_method(conns, options.method, names);
		IF schema IS NOT NULL THEN
			list := ARRAY(SELECT format('%I.%I', schema, t.name)
				FROM (SELECT DISTINCT pair ->> 1 FROM unnest(ask_calls(conns, VARIADIC array_fill(
						format('audit_tables(%L)', schema), ARRAY[cardinality(conns)]))) AS answer,
					jsonb_array_elements(answer::jsonb) AS pair) AS t(name)
				ORDER BY t.name COLLATE "C");
		ELSE
			list := ARRAY(SELECT nodes_relation(name, 'tables') FROM unnest(tables)
				WITH ORDINALITY AS u(name, n) GROUP BY 1 ORDER BY min(n));
		END IF;
		IF list = '{}' THEN
			RAISE EXCEPTION USING ERRCODE = 'no_data_found',
				MESSAGE = 'there are no tables to audit on these nodes';
		END IF;
		FOR i IN 1 .. cardinality(list) LOOP
			compared := nodes_audit_table(nodes, names, named, conns, list[i], options,
				schema IS NOT NULL, without, stuck);
			stuck := compared.stuck;
			result := compared.result;
			PERFORM progress(options.progress, format('table %s of %s, %s: %s%s', i,
				cardinality(list), result.relation, result.status, ': ' || result.detail));
			results[i] := result;
		END LOOP;
		PERFORM peers_close(conns);
		RETURN QUERY SELECT r.* FROM unnest(results) AS r;
	EXCEPTION WHEN @on_any_error@ THEN
		@take_failure@;
		e := iblt_raise(peers_fail(conns, secret, e));
		RAISE;
	END;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_nodes IS
'compares many tables between up to 16 nodes: one row a table, with what each node lacks, has too '
'much and has otherwise';
