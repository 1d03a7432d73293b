-- iblt_compare_nodes -----------------------------------------------------------------------

CREATE FUNCTION @extschema@.iblt_compare_nodes(
	relation text,
	nodes text[],
	@iblt_compare: columns exclude key_columns condition max_differences@
	rows boolean DEFAULT false,
	without text DEFAULT 'error',
	@iblt_compare: recheck timeout seed progress method@
	live text DEFAULT 'off')
RETURNS TABLE (key jsonb, verdict text, agree text[], deviate text[], missing text[],
	confirmed boolean, node_rows jsonb)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
AS $$
DECLARE
	content text := CASE rows WHEN true THEN 'rows' WHEN false THEN 'none' END;
	extra_columns text := 'ignore';
	a attempt := first_attempt(nodes, @arguments options@, coalesce(without, ''));
	done record;
	names text[];
BEGIN
	done := nodes_drive(relation, a, NULL, NULL);
	names := iblt_field(((done.compared).plan).sides, 'side');
	RETURN QUERY SELECT d.key, v.verdict, v.agree, v.deviate, v.missing, d.confirmed,
			CASE WHEN rows THEN (SELECT jsonb_object_agg(name, node_row)
				FROM unnest(names, d.contents) AS u(name, node_row)) END
		FROM unnest((done.compared).differences) AS d,
			nodes_verdict(names, ((done.compared).plan).named, d.checksums) AS v;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_compare_nodes IS
'the keys on which a relation differs between up to 16 nodes: which of them agree, and which '
'deviate';
