# Parallel plans: for a table with few groups, and not for many groups of few rows,
# each of which would cost a state for each worker.  Whatever the plan, the sketch has the
# same bytes: in parts by workers, by partitions, and in any order of the rows.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('plans');
$node->init;
# settings that the planner's choice depends on, as they are by default
$node->append_conf('postgresql.conf', "jit = off\nmax_parallel_workers_per_gather = 2\nwork_mem = '4MB'\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION iblt;
	CREATE UNLOGGED TABLE many WITH (parallel_workers = 2) AS
		SELECT i AS id, i % 8000 AS g, i % 4 AS few FROM generate_series(1, 600000) i;
	CREATE UNLOGGED TABLE sketches WITH (parallel_workers = 2) AS
		SELECT iblt_insert(iblt_new(20), i, i) AS s FROM generate_series(1, 5000) i;
	ANALYZE;
});

# Is the aggregate computed in parts?
sub in_parts
{
	my ($query) = @_;
	my $plan = $node->safe_psql('postgres', "EXPLAIN (COSTS OFF) $query");
	note($plan);
	return $plan =~ /\bPartial (?:Hash|Group)?Aggregate/ ? 1 : 0;
}

foreach my $aggregate ('iblt_agg(id, iblt_checksum(id, g))', 'iblt_agg(id, 0, 100)', 'iblt_strata_agg(id, 0)')
{
	is(in_parts("SELECT $aggregate FROM many"), 1, "$aggregate of a table: in parts");
	is(in_parts("SELECT few, $aggregate FROM many GROUP BY few"), 1, "$aggregate of four groups: in parts");
	is(in_parts("SELECT g, $aggregate FROM many GROUP BY g"), 0, "$aggregate of 8000 groups: alone");
}
is(in_parts('SELECT iblt_sum(s) FROM sketches'), 1, 'a sum of sketches: in parts');

$node->safe_psql('postgres', q{
	CREATE TABLE big AS SELECT g AS id, md5(g::text) AS v, CASE WHEN g % 7 > 0 THEN g * 1.5 END AS n FROM generate_series(1, 60000) g;
	CREATE TABLE shuffled AS SELECT * FROM big ORDER BY md5(v);
	CREATE TABLE parts (LIKE big) PARTITION BY HASH (id);
	CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 0);
	CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 1);
	CREATE TABLE parts2 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 2);
	INSERT INTO parts TABLE shuffled;
	ANALYZE;
});
sub with_workers { my ($workers) = @_; return "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = $workers;" }
my $bytes = "SELECT encode((iblt_agg(id, iblt_checksum(t.*)))::bytea, 'hex') FROM";
my $serial = $node->safe_psql('postgres', with_workers(0) . "$bytes big t");
like($node->safe_psql('postgres', with_workers(2) . "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $bytes big t"),
	qr/Finalize Aggregate.*Gather.*Workers Launched: [12].*Partial Aggregate.*Parallel Seq Scan/s, 'a plan with workers');
foreach my $relation (qw(big shuffled parts))
{
	is($node->safe_psql('postgres', with_workers($_) . "$bytes $relation t"), $serial, "$relation with $_ workers: the same bytes") foreach 0, 1, 2;
}
# The leader that only gathers has empty states of its own to combine.
is($node->safe_psql('postgres', with_workers(2) . "SET parallel_leader_participation = off; $bytes big t"), $serial, 'the same bytes when only workers read');
my $partitionwise = with_workers(0) . 'SET enable_partitionwise_aggregate = on;';
is(scalar(() = $node->safe_psql('postgres', $partitionwise . "EXPLAIN (COSTS OFF) $bytes parts t") =~ /Partial Aggregate/g), 3, 'each partition is aggregated by itself');
is($node->safe_psql('postgres', "$partitionwise $bytes parts t"), $serial, 'partition-wise: the same bytes');

done_testing();
