-- iblt_audit_nodes ---------------------------------------------------------------------------

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
	a attempt := first_attempt(nodes, @arguments options@, coalesce(without, ''));
	target audit_target := audit_make_target(NULL, schema, NULL, NULL, NULL, tables);
	done record;
	e failure;
BEGIN
	BEGIN
		PERFORM nodes_check_options(a.options);
		a.conns := peer_conns(nodes);
		a.names := nodes_names(nodes, a.conns, a.without);
		IF num_nonnulls(tables, schema) <> 1 THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
				MESSAGE = 'exactly one of tables and schema must be given';
		ELSIF coalesce(recheck, 1) > 0 AND 'here' = ANY (a.names)
				AND current_setting('transaction_isolation') !~ '^read' THEN
			RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction', MESSAGE =
				'cannot recheck differences in a REPEATABLE READ or SERIALIZABLE transaction',
				HINT = 'Use isolation level READ COMMITTED, or recheck => 0.';
		END IF;
		done := audit_drive(a, target, ROW(a.options, false, NULL)::audit_options, 'iblt_audit_nodes');
		RETURN QUERY SELECT r.* FROM unnest(done.nodes) AS r;
	EXCEPTION WHEN @on_any_error@ THEN
		@take_failure@;
		e := iblt_raise(peers_fail(a.conns, a.secret, e));
		RAISE;
	END;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_nodes IS
'compares many tables between up to 16 nodes: one row a table, with what each node lacks, has too '
'much and has otherwise';
