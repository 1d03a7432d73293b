# Replication in both directions.  A follower may remove a row that it has just received from
# the source, and send that back.  Then the source still shows the row, in one version all the
# time, and the follower never does.  That is a row in flight.
use IbltTest;

my $west = server('west');
my $east = server('east');
sides($west, $east);
# Inserts flow from west to east, and deletes from east to west.
both('CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION dblink; CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE other (id int PRIMARY KEY);
	INSERT INTO t SELECT g, 0 FROM generate_series(100, 200) g; INSERT INTO other SELECT generate_series(1, 9)');
$west->safe_psql('postgres', "CREATE PUBLICATION pub FOR TABLE t WITH (publish = 'insert')");
$east->safe_psql('postgres', "CREATE PUBLICATION pub FOR TABLE t, other WITH (publish = 'delete')");
$east->safe_psql('postgres', "CREATE SUBSCRIPTION from_west CONNECTION ${\ conninfo($west)} PUBLICATION pub WITH (copy_data = false)");
$west->safe_psql('postgres', "CREATE SUBSCRIPTION from_east CONNECTION ${\ conninfo($east)} PUBLICATION pub WITH (copy_data = false)");
subscribed($west, 2);
subscribed($east, 1);

my %call = (iblt_compare => "SELECT key ->> 'id', confirmed FROM iblt_compare('t', ${\ conninfo($east)}, recheck => 1, progress => true)",
	iblt_compare_nodes => "SELECT key ->> 'id', confirmed FROM iblt_compare_nodes('public.t', ARRAY[NULL, ${\ conninfo($east)}], recheck => 1, progress => true)");
my ($receiving, $removing) = map { IbltTest::Session->new($east) } 1 .. 2;
my ($keeping, $delaying, $comparing) = map { IbltTest::Session->new($west) } 1 .. 3;
my $id = 0;

# When the comparison asks east again and again how far west has come; or it has ended.
sub waits_for_west
{
	my ($since) = @_;
	my %asked;
	until ($comparing->ended || keys %asked > 5)
	{
		my $at = $east->safe_psql('postgres', "SELECT query_start FROM pg_stat_activity WHERE application_name LIKE 'iblt_compare%'
			AND query LIKE '%slot_applied(''from_east'')%' AND query_start > '$since'");
		$asked{$at} = 1 if $at ne '';
	}
	return;
}
sub now { return $east->safe_psql('postgres', 'SELECT clock_timestamp()') }

foreach my $function (sort keys %call)
{
	$id++;
	# east receives the row when this session ends its transaction
	$receiving->run("BEGIN; INSERT INTO t VALUES ($id, 0)");
	$west->safe_psql('postgres', "INSERT INTO t VALUES ($id, 1)");
	# west receives a delete when these two have ended theirs
	$delaying->run("BEGIN; SELECT FROM other WHERE id = $id FOR UPDATE");
	$east->safe_psql('postgres', "DELETE FROM other WHERE id = $id");
	$keeping->run("BEGIN; SELECT FROM t WHERE id = $id FOR UPDATE");

	my $since = now();
	$comparing->start($call{$function});
	$comparing->seen(qr/waiting .*, to look at 1 keys again/);
	$receiving->run('ROLLBACK');
	waits_for_west($since);
	$removing->run("BEGIN; LOCK TABLE t; DELETE FROM t WHERE id = $id");
	$delaying->run('COMMIT');
	wait_for($east, "SELECT count(*) > 0 FROM pg_locks WHERE relation = 't'::regclass AND NOT granted");
	$since = now();
	$removing->run('COMMIT');
	waits_for_west($since);
	is($west->safe_psql('postgres', "SELECT count(*) FROM t WHERE id = $id"), '1', "$function: west still has the row");
	$keeping->run('COMMIT');
	is($comparing->done, '', "$function: a row that east had and has removed is no difference");
	unlike($comparing->{err}, qr/WARNING|ERROR/, "$function: and nothing is said");
	$comparing->{err} = '';
	wait_for($west, "SELECT count(*) = 0 FROM t WHERE id = $id");
}

$west->safe_psql('postgres', 'DELETE FROM t WHERE id = 150');
foreach my $function (sort keys %call)
{
	is($west->safe_psql('postgres', $call{$function}), '150|t', "$function: what differs indeed is confirmed");
}
$_->quit foreach ($receiving, $removing, $keeping, $delaying, $comparing);

done_testing();
