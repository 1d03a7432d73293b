# What a run trusts, on one server: indexes, numbers, the snapshot of a slice.
use strict;
use warnings;

use IbltTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = server('trust', 'autovacuum = off', major_version() < 17 ? 'old_snapshot_threshold = 0' : ());
$node->safe_psql('postgres', 'CREATE EXTENSION dblink; CREATE EXTENSION iblt');

# --- a snapshot that is too old ------------------------------------------------------------

SKIP:
{
	skip 'no snapshot is too old from PostgreSQL 17 on', 2 if major_version() >= 17;
	$node->safe_psql('postgres', "CREATE TABLE old (id int PRIMARY KEY, room text DEFAULT repeat('x', 100)); ALTER TABLE old ALTER room SET STORAGE PLAIN;
		INSERT INTO old SELECT 2 * g FROM generate_series(1, 20000) g; VACUUM old; CREATE TABLE other ()");
	my $session = IbltTest::Session->new($node);
	my $sampled = q{SELECT count(*) FROM old TABLESAMPLE iblt_internal.iblt_slice_rows('id', '{}', '{15000}')};
	is($session->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other; $sampled"), "0\n7500", 'a snapshot');
	# a later leaf page of the slice, from which vacuum may remove entries now, and none of its blocks
	$node->safe_psql('postgres', "INSERT INTO old VALUES (15001, repeat('y', 7000))");
	# a snapshot is too old after five seconds at the least
	for (my $try = 0; $try < 120 && $session->{err} eq ''; $try++)
	{
		$node->safe_psql('postgres', 'CREATE TABLE next (); DROP TABLE next');
		$node->safe_psql('postgres', 'VACUUM old');
		$session->run($sampled);
		usleep(100_000);
	}
	like($session->{err}, qr/72000: snapshot too old/, 'that is too old for the index of a slice');
	$session->quit;
}

$node->stop;
done_testing();
