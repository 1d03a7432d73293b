# A peer that goes away in each stage of iblt_compare: an error that says so, no
# connection left on either side, and a session that goes on.  046_hostile_servers.pl has peers that
# go away while they are connected to.
#
# A stage is held by a lock, and its beginning is seen in pg_stat_activity, so
# that nothing depends on how long anything takes.
use IbltCompare;
use IbltProxy;

IbltTest::share_sessions(0);

random_seed();

my ($here, $there) = two_servers();
both(q{CREATE TABLE staged (id int PRIMARY KEY, v text); INSERT INTO staged SELECT g, md5(g::text) FROM generate_series(1, 2000) g;
	-- waits where the lock of its stage is held: 1 for a scan, 2 for a lookup
	-- (conditions take immutable functions only)
	CREATE FUNCTION gate(id int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		IF id = 2 THEN
			PERFORM pg_advisory_xact_lock_shared(CASE WHEN current_query() LIKE '%unnest(%AS iblt_k %' THEN 2 ELSE 1 END);
		END IF;
		RETURN true;
	END $$;});
# more than the first message can decode
$there->safe_psql('postgres', "UPDATE staged SET v = 'x' WHERE id % 10 = 2");
my $truth = truth('staged', 't.id');
is(lines($truth), 200, 'there are differences');

# A step of the extension that waits for a lock before it does its work.
sub hold_step
{
	my ($node, $schema, $name, $arguments, $returns, $lock) = @_;
	my $numbers = join ', ', map { "\$$_" } 1 .. 1 + ($arguments =~ tr/,//);
	$node->safe_psql('postgres', "ALTER FUNCTION $schema.$name RENAME TO ${name}_it;
		CREATE FUNCTION $schema.$name($arguments) RETURNS $returns LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_catalog.pg_advisory_xact_lock_shared($lock); RETURN $schema.${name}_it($numbers); END'");
	return;
}
hold_step($there, 'iblt_internal', 'iblt_session_get', 'text', 'public.iblt', 3);
hold_step($here, 'iblt_internal', 'find_sides', 'iblt_internal.plan, text[], integer DEFAULT NULL, boolean DEFAULT false', 'iblt_internal.found_rows[]', 4);
hold_step($here, 'iblt_internal', 'pass', 'iblt_internal.plan, timestamptz', 'iblt_internal.waited', 5);

# What the peer's process does while it is held; "held" is the server that holds.
my $waits = "wait_event = 'advisory' AND query LIKE";
my @stages = (
	{ name => 'describing', held => $there, lock => 'LOCK TABLE staged', peer => "wait_event_type = 'Lock' AND query LIKE '%hello(%'" },
	{ name => 'scanning', held => $there, lock => 'SELECT pg_advisory_xact_lock(1)', peer => "$waits '%scan_answer(%'" },
	{ name => 'scanning here, after the first message', held => $here, lock => 'SELECT pg_advisory_xact_lock(1)', peer => "state = 'idle' AND query LIKE '%scan_answer(%'" },
	{ name => 'the second message', held => $there, lock => 'SELECT pg_advisory_xact_lock(3)', peer => "$waits '%iblt_session_get(%'" },
	{ name => 'the pause before the lookup', held => $here, lock => 'SELECT pg_advisory_xact_lock(4)', peer => "state = 'idle' AND query LIKE '%iblt_session_get(%'" },
	{ name => 'lookup', held => $there, lock => 'SELECT pg_advisory_xact_lock(2)', peer => "$waits '%array_agg(checksum%'" },
	{ name => 'the wait before the recheck', held => $here, lock => 'SELECT pg_advisory_xact_lock(5)', peer => "state = 'idle' AND query LIKE '%array_agg(checksum%'" },
);

# As a connection string it has a password, which nobody asks for.
my $proxy = IbltProxy->new($there);
my %peers = (terminate => $there->connstr('postgres') . ' password=s3cr3t', cut => $proxy->connstr . ' password=s3cr3t');

sub compare_sql
{
	my ($peer) = @_;
	return "SELECT count(*) FROM iblt_compare('staged', ${\ literal($peer)}, condition => 'public.gate(id)', recheck => 1)";
}

# After the error: the session has no connection and compares as if nothing had been.
sub as_before
{
	my ($session, $text) = @_;
	is($session->run('SELECT txid_current_if_assigned()'), '', "$text: the session has no transaction");
	my $out = $session->run("SELECT concat_ws(' ', key, side, here_count, there_count) FROM iblt_compare('staged', ${\ conninfo($there)})");
	is(join("\n", sort split /\n/, $out), $truth, "$text: the session compares as before") or diag($session->{err});
	$session->run('SELECT iblt_disconnect()');
	return;
}

sub check_error
{
	my ($session, $text) = @_;
	is($session->done, '', "$text: no rows");
	my ($error) = $session->{err} =~ /ERROR: +(.*)/;
	like($error // '', qr/^(08\d{3}|57P0\d): .*\bpeer\b/, "$text: an error of the connection to the peer");
	unlike($session->{err}, qr/s3cr3t/, "$text: which does not show the password");
	note($error // $session->{err});
	return;
}

my ($holding_here, $holding_there) = map { IbltTest::Session->new($_) } ($here, $there);
my $session = IbltTest::Session->new($here);
my $log_start = -s $here->logfile;
my $running = "application_name = 'iblt_compare public.staged'";
foreach my $stage (@stages)
{
	foreach my $how (qw(terminate cut))
	{
		my $text = "$stage->{name}, $how";
		my $holding = $stage->{held} == $here ? $holding_here : $holding_there;
		$holding->run("BEGIN; $stage->{lock}");
		$session->start(compare_sql($peers{$how}));
		# both sides are where they should be: the peer as the stage says, this one held
		ok($there->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE $running AND $stage->{peer}"),
			"$text: the stage is reached");
		if ($stage->{held} == $here)
		{
			$here->poll_query_until('postgres', "SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = $session->{pid}") or die 'it is not held';
		}
		if ($how eq 'cut') { $proxy->cut; $proxy->counted }
		else { $there->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $running") }
		# a peer that is gone is seen at once where it is being waited for
		if ($stage->{held} == $there)
		{
			check_error($session, $text);
			nothing_left($text) if $how eq 'terminate' || $^O eq 'linux';
			$holding->run('COMMIT');
		}
		else
		{
			nothing_left($text);
			$holding->run('COMMIT');
			check_error($session, $text);
		}
		nothing_left("$text, at last");
		as_before($session, $text);
	}
}

# No log shows the password, but for what the server itself logs of a statement
# that was sent to it, which is nothing here.
unlike(slurp_file($here->logfile, $log_start), qr/s3cr3t/, 'no password in the log');

$_->quit foreach ($session, $holding_here);

done_testing();
