# Runs by blocks: tables at rest get the answer of a full comparison, with and without a key.
# Where a block is not as it was when the run began with the table, nothing is equal.
use strict;
use warnings;

use IbltRuns;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

IbltTest::share_sessions();

random_seed();
my ($here, $there) = audit_servers();
my $peer = conninfo($there);
my $fast = 'max_load => 1';

both("CREATE TABLE drift (id uuid PRIMARY KEY, v text); INSERT INTO drift SELECT md5(g::text)::uuid, g FROM generate_series(1, 4000) g;
	CREATE TABLE bare (v int, w text); INSERT INTO bare SELECT g % 700, g % 900 FROM generate_series(1, 2000) g; CREATE TABLE vacant (id int PRIMARY KEY);
	CREATE VIEW seen AS SELECT id, v FROM drift; CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
	CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9000); INSERT INTO parts SELECT g FROM generate_series(1, 2000) g");
foreach my $node ($here, $there)
{
	my $some = "IN (SELECT id FROM drift ORDER BY md5(id::text || ${\ int(rand(1e6))}) LIMIT ${\ (1 + int(rand(30)))})";
	$node->safe_psql('postgres', "DELETE FROM drift WHERE id $some; UPDATE drift SET v = '${\ $node->name}' WHERE id $some");
}
$there->safe_psql('postgres', 'DELETE FROM bare WHERE v = 9; DELETE FROM part WHERE id % 800 = 5');

# Rows of 7000 bytes fit into the empty blocks at the beginning alone.
both("CREATE TABLE rest (id int PRIMARY KEY, v text, room text DEFAULT repeat('x', 200)) WITH (autovacuum_enabled = off); ALTER TABLE rest ALTER room SET STORAGE PLAIN;
	CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY); CREATE TABLE crowd (v int);
	CREATE TABLE shuffled (v int, w text) WITH (autovacuum_enabled = off)");
$_->safe_psql('postgres', "INSERT INTO rest SELECT g, 'v' FROM generate_series(1, 6000) g ORDER BY g <= 130 DESC, g ${\ ($_ == $here ? '' : 'DESC')}") foreach $here, $there;
both('DELETE FROM rest WHERE id <= 130');
both('VACUUM (FREEZE, ANALYZE, INDEX_CLEANUP on) rest');
$_->safe_psql('postgres', "INSERT INTO shuffled SELECT g % 700, g FROM generate_series(1, 5000) g ORDER BY md5(g || '${\ $_->name}')") foreach $here, $there;
$there->safe_psql('postgres', "INSERT INTO crowd SELECT g FROM generate_series(1, 3000) g");
my $blocks = "slice_by => 'blocks', slice_ms => 1, max_differences => 300, progress => false";
# one slice, and then a pause that is longer than the run
my $one = "max_load => 0.001, max_time => '0.1 s'";
my $rest = sub { my ($run, @more) = @_; return join(' ', map { $_ // '-' } @{ tables($run)->{'public.rest'} }{qw(status sqlstate), @more}) };
my $written = qr/^(on the peer: )?relation "rest" was written to while a run read its blocks: /;
{
	my $run = begin_run("'{drift,bare,vacant,seen,parts,part,shuffled,rest,unlogged,crowd}', $blocks");
	my $rows = tables($run);
	foreach my $name (qw(drift bare vacant part shuffled rest))
	{
		my $row = $rows->{"public.$name"};
		is(found($run, $name), truth($name), "$name: the differences of a full comparison");
		is(join(' ', @$row{qw(status rows_here rows_there)}), join(' ', truth($name) ? 'differs' : 'equal', map { $_->safe_psql('postgres', "SELECT count(*) FROM $name") } $here, $there),
			'and each row was counted once');
		like($row->{detail}, qr/^read by blocks, as they were when the run began with it/, 'and the detail says how it was read');
	}
	cmp_ok($rows->{'public.rest'}{slices}, '>', 3, "slices: $rows->{'public.rest'}{slices}");
	is($rows->{'public.shuffled'}{status}, 'equal', 'no key, and another order of rows');
	like($rows->{'public.seen'}{detail}, qr/^compared in one slice: not an ordinary table \(here\)$/, 'a view is one slice');
	like($here->safe_psql('postgres', "SELECT iblt_audit_report($run, 'html')"), qr/What differs.*public\.drift/s, 'a page shows it, without the ranges that such slices do not have');
	my $said = sub { my ($name) = @_; return join(' ', @{ $rows->{"public.$name"} }{qw(status sqlstate detail)}) };
	like($said->('parts'), qr/^not comparable 0A000 a partitioned table is not compared by blocks \(here\): Name its partitions/, 'a partitioned table');
	like($said->('unlogged'), qr/^not comparable 0A000 blocks of (public\.)?unlogged cannot be proved to be at rest/, 'an unlogged one');
	like($said->('crowd'), qr/^differs IB002 too many differences: about \d+ keys differ, and a run by blocks can find 300 in this table/, 'too many differences');
}
{
	# one slice is done, and then a row moves to it from one that is to come, on both sides
	my $run = begin_run("'{rest}', $blocks, $one");
	is($rest->($run, 'slices'), 'under way - 1', 'a run by blocks stops');
	$_->safe_psql('postgres', "UPDATE rest SET v = 'moved on ${\ $_->name}', room = repeat('y', 7000) WHERE id = 5000") foreach $here, $there;
	is($_->safe_psql('postgres', "SELECT ctid < '(3,0)' FROM rest WHERE id = 5000"), 't', 'a row moves to a block that is done on ' . $_->name) foreach $here, $there;
	resume($run, $fast);
	is($rest->($run), 'not comparable IB009', 'which is not equal');
	like(tables($run)->{'public.rest'}{detail}, $written, 'and the detail says why');
	like(resume($run, $fast), qr/public\.rest was written to, it starts again/, 'it starts again');
	is($rest->($run, 'changed'), 'differs - 1', 'and finds it');
	$there->safe_psql('postgres', "UPDATE rest SET v = 'moved on ${\ $here->name}' WHERE id = 5000");
}
{
	# deleted and vacuumed away
	my $run = begin_run("'{rest}', $blocks, $one");
	$there->safe_psql('postgres', 'DELETE FROM rest WHERE id = 200');
	$there->safe_psql('postgres', 'VACUUM rest');
	resume($run, $fast);
	is($rest->($run), 'not comparable IB009', 'a block that vacuum has cleaned');
	like(tables($run)->{'public.rest'}{detail}, qr/Block \d+ was changed after the run had begun with it/, 'and the detail says so');
	$there->safe_psql('postgres', "INSERT INTO rest VALUES (200, 'v')");
}
{
	# what is behind the run does not matter, also new blocks
	my $run = begin_run("'{rest}', $blocks, $one");
	$there->safe_psql('postgres', "UPDATE rest SET v = 'later' WHERE id = 5000; INSERT INTO rest SELECT g, 'v', repeat('z', 7000) FROM generate_series(7000, 7010) g");
	is($there->safe_psql('postgres', "SELECT ctid < '(3,0)' FROM rest WHERE id = 5000"), 't', 'a row moves among blocks that are done');
	resume($run, $fast);
	is($rest->($run, 'rows_there'), 'equal - 5870', 'the answer is that of the moment when the run began with the table');
	is($here->safe_psql('postgres', 'SELECT count(*) FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_sketch, ' . $run . ')'), '0', 'and no sketch is left');
	$there->safe_psql('postgres', "DELETE FROM rest WHERE id >= 7000; UPDATE rest SET v = 'moved on ${\ $here->name}' WHERE id = 5000");
}
{
	# a transaction that wrote before the run, and is not over
	my $run;
	foreach my $sql ('DELETE FROM rest WHERE id = 3000', "INSERT INTO rest VALUES (3000, 'v')")
	{
		my $writer = IbltTest::Session->new($there);
		$writer->run("BEGIN; $sql");
		$run = begin_run("'{rest}', $blocks");
		$writer->run('COMMIT');
		$writer->quit;
		is($rest->($run), 'not comparable IB009', "a transaction that was not over: $sql");
		like(tables($run)->{'public.rest'}{detail}, qr/A transaction that wrote to block \d+ was not over when the run began with it/, 'and the detail says so');
	}
	resume($run, $fast);
	is($rest->($run), 'equal -', 'when it is over, they are equal');
}
{
	# mended when all blocks have been read, and before the differences are looked up
	$there->safe_psql('postgres', "UPDATE rest SET v = 'mended' WHERE id = 3001");
	my $run = begin_run("'{rest}', $blocks, $one");
	foreach (1 .. 100)
	{
		last if $rest->($run, 'rows_here', 'rows_there') =~ /5870 5870$/;
		resume($run, $one);
	}
	is($rest->($run, 'rows_here', 'rows_there'), 'under way - 5870 5870', 'all blocks have been read');
	$here->safe_psql('postgres', "UPDATE rest SET v = 'mended' WHERE id = 3001");
	resume($run, $fast);
	is($rest->($run), 'not comparable IB009', 'what is mended before the lookup was not equal');
	like(tables($run)->{'public.rest'}{detail}, qr/was written to after a run had read its blocks: Keys that differed, and differ no longer: 1; /, 'and the detail says so');
	like(resume($run, $fast), qr/public\.rest was written to, it starts again/, 'it starts again');
	is($rest->($run), 'equal -', 'and is equal now');
}
{
	my $run = begin_run("'{rest}', $blocks, $one");
	# the first slice had this row there, but not here
	$there->safe_psql('postgres', 'DELETE FROM rest WHERE id = 5900');
	$there->restart;
	like(resume($run, $fast), qr/public\.rest was altered, it starts again/, 'after a restart the table starts again');
	is($rest->($run, 'extra'), 'differs - 1', 'with nothing of what was found before');
	$there->safe_psql('postgres', "INSERT INTO rest VALUES (5900, 'v')");
	my ($session, $two) = start_run("'{rest,drift}', $blocks, max_load => 0.05");
	wait_for($here, "SELECT slices > 1 FROM iblt_audit_table_stats WHERE run = $two AND table_number = 1");
	my @more = map { background($here, "CALL iblt_audit_resume($two, $peer, max_load => 1)") } (1, 2);
	finish($_) foreach @more, $session;
	is($rest->($two, 'rows_here', 'rows_there'), 'equal - 5870 5870', 'three sessions count each row once');
	is(found($two, 'drift'), truth('drift'), 'and find what differs');
	my $standby = standby($there, 'standby');
	$run = begin_run("'{rest,drift}', $blocks", peer => literal($standby->connstr('postgres')));
	is($rest->($run, 'rows_there'), 'equal - 5870', 'a standby as the peer');
	is(found($run, 'drift'), truth('drift'), 'with the differences of a full comparison');
	$run = begin_run("'{rest}', $blocks, $one", peer => literal($standby->connstr('postgres')));
	$there->safe_psql('postgres', "UPDATE rest SET v = 'on the primary' WHERE id = 300");
	replayed($there, $standby);
	resume($run, $fast, peer => literal($standby->connstr('postgres')));
	is($rest->($run), 'not comparable IB009', 'which sees what its primary writes');
	$there->safe_psql('postgres', "UPDATE rest SET v = 'v' WHERE id = 300");
	begin_run("'{rest}', $blocks, $one");
	$here->safe_psql('postgres', "SELECT iblt_audit_prune('0 s')");
	is($here->safe_psql('postgres', 'SELECT count(*) FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_sketch, own => false)'), '0', 'pruning deletes sketches, too');
}

nothing_left('after all');
done_testing();
