# Parallel plans: for a table with few groups, and not for many groups of few rows,
# each of which would cost a state for each worker.
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

$node->stop;
done_testing();
