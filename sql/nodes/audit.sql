-- iblt_audit_nodes ---------------------------------------------------------------------------

CREATE FUNCTION @extschema@.iblt_audit_nodes(
	nodes text[],
	tables text[] DEFAULT NULL,
	schema text DEFAULT NULL,
	max_differences bigint DEFAULT 100000,
	without text DEFAULT 'error',
	@iblt_compare: recheck timeout seed progress method@
	live text DEFAULT 'off')
RETURNS SETOF node_audit_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@driver a.conns; peers_secret(a.peers)@
AS $$
DECLARE
	content text := 'none';
	extra_columns text := 'ignore';
	a attempt := first_attempt(nodes, @arguments options@, coalesce(without, ''));
	target audit_target := audit_make_target(NULL, schema, NULL, NULL, NULL, tables);
	rows audit_row[];
BEGIN
	a.conns := peer_conns(nodes);
	a.names := nodes_names(nodes, a.without);
	PERFORM audit_check(false, 'here' <> ALL (a.names), target, a.options, true);
	rows := audit_drive(a, target, 'iblt_audit_nodes');
	RETURN QUERY SELECT n.* FROM unnest(rows) AS r, jsonb_populate_record(
		NULL::node_audit_row, to_jsonb(r) || coalesce(r.differences, '{}')) AS n;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_nodes IS
'compares many tables between up to 16 nodes: one row a table, with what each node lacks, has too '
'much and has otherwise';
