-- What a table is on a side --------------------------------------------------------------

-- A side is asked for run_probe.  It is part of the protocol, and a peer without iblt is asked
-- for its body (plain_call).

-- What a relation is now: "file", which changes when the relation is rewritten, and is a hash of
-- the files of a partitioned table's partitions; "rows", as the planner estimates; "blocks", how
-- many of them it has.
CREATE FUNCTION run_probe(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL RESTRICTED
AS $$
	SELECT jsonb_build_object('file', CASE count(*) WHEN 1 THEN pg_relation_filenode(relation)::text
			ELSE left(encode(sha256(string_agg(concat(c.oid, ' ', pg_relation_filenode(c.oid)), ', '
				ORDER BY c.oid)::bytea), 'hex'), 32) END,
		'rows', coalesce(sum(CASE WHEN c.reltuples > 0 AND c.relpages > 0
			THEN c.reltuples / c.relpages * size
				/ current_setting('block_size')::integer
			ELSE size / 100 END), 0)::bigint,
		'blocks', sum(size)::bigint / current_setting('block_size')::integer)
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
	call text := 'run_probe(pg_catalog.to_regclass(%L))';
	answers text[] := ask_calls(places_of(plan), format(call, (plan.here).relation),
		format(call, (plan.there).relation));
BEGIN
	RETURN ARRAY[answers[1]::jsonb, answers[2]::jsonb];
END
$$;
