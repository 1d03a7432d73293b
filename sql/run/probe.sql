-- What a table is on a side --------------------------------------------------------------

-- A side is asked for run_probe.  It is part of the protocol, and a peer without iblt is asked
-- for its body (plain_call).

-- What a relation is now: "file", which changes when the relation is rewritten, and is a hash of
-- the files of a partitioned table's partitions; "started", when the server started; "rows", as
-- the planner estimates; "histogram", values of a column that cut the table into equal parts, if
-- it has changed little since ANALYZE.
CREATE FUNCTION run_probe(relation regclass, "column" text) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL RESTRICTED
AS $$
	SELECT jsonb_build_object('file', CASE count(*) WHEN 1 THEN pg_relation_filenode(relation)::text
			ELSE left(encode(sha256(string_agg(concat(c.oid, ' ', pg_relation_filenode(c.oid)), ', '
				ORDER BY c.oid)::bytea), 'hex'), 32) END,
		'started', pg_postmaster_start_time(),
		'rows', coalesce(sum(CASE WHEN c.reltuples > 0 AND c.relpages > 0
			THEN c.reltuples / c.relpages * size
				/ current_setting('block_size')::integer
			ELSE size / 100 END), 0)::bigint,
		'histogram', CASE WHEN "column" IS NOT NULL THEN (SELECT s.histogram_bounds::text
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname
				AND s.attname = "column" AND NOT s.inherited
			WHERE c.oid = relation AND c.relkind = 'r'
			-- pg_stat_all_tables would read all tables
			AND greatest(pg_stat_get_last_analyze_time(c.oid),
				pg_stat_get_last_autoanalyze_time(c.oid)) IS NOT NULL
			AND pg_stat_get_mod_since_analyze(c.oid) <= c.reltuples / 10) END)
	FROM (SELECT relation::oid UNION SELECT relid FROM pg_partition_tree(relation)) AS p(oid),
	LATERAL (SELECT k.*, CASE WHEN k.relkind IN ('r', 'm')
			THEN coalesce(pg_relation_size(k.oid), 0) ELSE 0 END AS size
		FROM pg_class k WHERE k.oid = p.oid OFFSET 0) AS c
$$;

-- What run_probe answers on both sides of a plan.
CREATE FUNCTION run_probes(plan plan) RETURNS jsonb[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	key text[] := iblt_field((slice_key(plan)).columns);
	call text := 'run_probe(pg_catalog.to_regclass(%L), %L)';
	answers text[] := ask_calls(places_of(plan), format(call, (plan.here).relation,
		CASE WHEN cardinality(key) = 1 THEN key[1] END), format(call, (plan.there).relation, NULL));
BEGIN
	RETURN ARRAY[answers[1]::jsonb, answers[2]::jsonb];
END
$$;
