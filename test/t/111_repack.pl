# REPACK, also CONCURRENTLY, puts the rows of a table into other files while others write it.
# No comparison, audit, run or digest beside it gives a wrong answer: each is right, or an
# error that says why.
use IbltRuns;

IbltTest::share_sessions(0);

plan skip_all => 'REPACK came with PostgreSQL 19' if major_version() < 19;
my $rounds = $ENV{IBLT_TEST_ROUNDS} || 100;

my ($there, $here) = (ready('there'), ready('here'));
sides($here, $there);
my $peer = conninfo($there);
both('CREATE SCHEMA s; CREATE TABLE s.item (id int PRIMARY KEY, v int);
	CREATE TABLE s.drift (id int PRIMARY KEY, v int); INSERT INTO s.drift SELECT g, g FROM generate_series(1, 3000) g');
$here->safe_psql('postgres', 'DELETE FROM s.drift WHERE id = 7; UPDATE s.drift SET v = 0 WHERE id = 8; INSERT INTO s.drift VALUES (0, 0)');
my $drift = "0 here\n7 there\n8 both";
$there->safe_psql('postgres', 'INSERT INTO s.item SELECT g, g FROM generate_series(1, 3000) g; CREATE PUBLICATION p FOR TABLE s.item');
$here->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION ${\ conninfo($there)} PUBLICATION p");
subscribed($here, 1);

# --- under an older snapshot, which sees no row of a table in new files ---------------------------

foreach my $how ('REPACK s.drift', 'REPACK (CONCURRENTLY) s.drift')
{
	my $session = holding($here, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
	$here->safe_psql('postgres', $how);
	$session->run("SELECT key, side FROM iblt_compare('s.drift', $peer)");
	like($session->{err}, qr/IB004/, "an older snapshot and $how: an error");
	$session->run('ROLLBACK');
}

# --- a digest ------------------------------------------------------------------------------------

$here->safe_psql('postgres', "CALL iblt_track('s.drift')");
foreach my $how ('REPACK s.drift', 'REPACK (CONCURRENTLY) s.drift')
{
	$here->safe_psql('postgres', $how);
	like(failure("SELECT iblt_live('s.drift')"), qr/IB008: .*\n?.*rewritten, by .*REPACK/, "the digest after $how: an error that names it");
	$here->safe_psql('postgres', "CALL iblt_live_rebuild('s.drift')");
	is($here->safe_psql('postgres', "SELECT iblt_live_verify('s.drift')"), 't', 'a rebuild heals it');
}
$here->safe_psql('postgres', "CALL iblt_untrack('s.drift')");

# --- beside writers and a loop of REPACK on both sides -------------------------------------------

my $writers = start_load($there, <<'SQL', '-c', '2', '-R', '100');
\set id random(1, 3000)
UPDATE s.item SET v = v + 1 WHERE id = :id;
DELETE FROM s.item WHERE id = :id + 1;
INSERT INTO s.item VALUES (:id + 1, :id) ON CONFLICT DO NOTHING;
SQL
my @loops = map { start_load($_, <<'SQL', '-R', '3') } ($here, $there);
REPACK (CONCURRENTLY) s.item;
REPACK (CONCURRENTLY) s.drift;
REPACK s.drift;
SQL
# A comparison that waits for replication keeps REPACK from its lock, and REPACK keeps the apply
# worker from its own.  So it may find nothing out in time, which it says.
my ($right, %refused) = (0);
foreach my $round (1 .. $rounds)
{
	foreach my $case ([ 's.item', '' ], [ 's.drift', $drift ])
	{
		my ($table, $wanted) = @$case;
		my ($rc, $out, $err) = $here->psql('postgres', "\\set VERBOSITY verbose
			SELECT key ->> 'id' || ' ' || CASE WHEN confirmed IS FALSE THEN 'unconfirmed' ELSE side END
			FROM iblt_compare('$table', $peer, timeout => '1 s') ORDER BY (key ->> 'id')::int");
		my $refusal = $rc != 0 && $err =~ /ERROR: +(IB003|IB004)/ ? $1 : $out =~ /unconfirmed/ ? 'unconfirmed' : '';
		$refused{$refusal}++ if $refusal;
		$right++ if $rc == 0 && $out eq $wanted;
		is($rc == 0 ? $out =~ s/^.* unconfirmed\n?//mgr =~ s/\n$//r : $err, $wanted, "round $round: $table") unless $refusal =~ /IB/;
	}
	next if $round % 10;
	my ($run) = begin_run("schema => 's', slice_ms => 1, timeout => '1 s'");
	my $tables = tables($run);
	like($tables->{'s.item'}{status}, qr/^(?:equal|not comparable)$/, "round $round: a run finds no differences of s.item");
	like($tables->{'s.drift'}{status}, qr/^(?:differs|not comparable)$/, "round $round: a run does not find s.drift equal");
}
note("$right right, " . join(', ', map { "$refused{$_} $_" } sort keys %refused));
cmp_ok($right, '>', $rounds, 'most comparisons had an answer');
stop_load($_, 'REPACK') foreach @loops;
stop_load($writers, 'writers');
$there->wait_for_catchup('sub');
is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('s.item', $peer)"), '0', 'and at rest they are equal');

done_testing();
