# Rows in flight that iblt_compare must not confirm as differences: commits that wait for a synchronous
# standby, as a physical standby shows them, in both directions, and if their rows are gone at once, and slots
# that have the name of another subscription's.  IbltScenarios.pm has the plain case.
use IbltTest;

sub compare_sql
{
	my ($table, $peer, $options) = @_;
	return "SELECT key ->> 'id', side, confirmed FROM iblt_compare('$table', ${\ conninfo($peer)}" . ($options ? ", $options" : '') . ')';
}

# The differences as a list "id side confirmed", in order, on one line.
sub compare
{
	my ($node, $table, $peer, $options, $where) = @_;
	return join ', ', sort map { s/\|/ /gr } split /\n/, $node->safe_psql('postgres', compare_sql($table, $peer, $options) . ($where ? " WHERE $where" : ''));
}

# Statements, each a transaction of its own, that wait for a synchronous standby; once they do.
sub hanging
{
	my ($node, @statements) = @_;
	my @runs = map { background($node, $_) } @statements;
	my $number = @statements;
	wait_for($node, "SELECT count(*) = $number FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'");
	return @runs;
}

# A session of a comparison that waits for commits on its peer by now.
sub settling
{
	my ($node, $table, $peer, $options) = @_;
	my $session = IbltTest::Session->new($node)->start(compare_sql($table, $peer, $options));
	wait_for($peer, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'iblt_compare public.$table' AND query LIKE '%committing(%'");
	return $session;
}

# A session that keeps the subscriber from applying.
sub blocking
{
	my ($node, $table) = @_;
	my $session = IbltTest::Session->new($node);
	$session->run("BEGIN; LOCK TABLE $table IN SHARE MODE");
	return $session;
}

# --- a publisher and its subscriber -----------------------------------------------------

my ($publisher, $subscriber, $last) = map { server($_) } qw(publisher subscriber last);
$_->safe_psql('postgres', 'CREATE EXTENSION dblink; CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live') foreach ($publisher, $subscriber, $last);
foreach my $table (qw(t by_text))
{
	my $type = $table eq 't' ? 'int' : 'text';
	$_->safe_psql('postgres', "CREATE TABLE $table (id $type PRIMARY KEY, v int)") foreach ($publisher, $subscriber);
	$publisher->safe_psql('postgres', "INSERT INTO $table SELECT g, g FROM generate_series(1, 10) g");
}
$publisher->safe_psql('postgres', 'CREATE TABLE other (id int); CREATE VIEW v AS SELECT * FROM t; CREATE PUBLICATION pub FOR TABLE t, by_text');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION ${\ conninfo($publisher)} PUBLICATION pub");
subscribed($subscriber, 2);
$publisher->wait_for_catchup('sub');
$subscriber->safe_psql('postgres', "UPDATE $_ SET v = 0 WHERE id = '3'; DELETE FROM $_ WHERE id = '4'; INSERT INTO $_ VALUES ('5000', 0)") foreach (qw(t by_text));

my @pairs = ([ $subscriber, $publisher, '3 both t, 4 there t, 5000 here t' ], [ $publisher, $subscriber, '3 both t, 4 here t, 5000 there t' ]);
foreach my $pair (@pairs)
{
	my ($node, $peer) = @$pair;
	is($node->safe_psql('postgres', "SET client_min_messages = error; SELECT count(*) FROM iblt_compare('t', ${\ conninfo($peer)}, timeout => '1 year'); SELECT recheck_ms < 60000 FROM iblt_compare_stats()"),
		"3\nt", $node->name . ': differences are confirmed without using up the timeout');
}

# What is asked of the peer takes no right but SELECT on the table.
$publisher->safe_psql('postgres', 'CREATE ROLE auditor LOGIN; GRANT SELECT ON t TO auditor');
$subscriber->safe_psql('postgres', 'CREATE ROLE auditor LOGIN; GRANT SELECT ON t TO auditor');
foreach my $pair (@pairs)
{
	my ($node, $peer, $all) = @$pair;
	my $sql = "SELECT key ->> 'id', side, confirmed FROM iblt_compare('t', ${\ literal($peer->connstr('postgres') . ' user=auditor')})";
	is(join(', ', sort map { s/\|/ /gr } split /\n/, $node->safe_psql('postgres', $sql)), $all, $peer->name . ' is asked by a user without rights');
}

# --- commits that wait for a synchronous standby ------------------------------------------

foreach my $table (qw(t by_text))
{
	synchronous($publisher, 'nosuch');
	my ($unrelated) = hanging($publisher, 'INSERT INTO other VALUES (2)');
	is(compare(@$_[0], $table, @$_[1]), @$_[2], @$_[0]->name . ", $table: a commit of another relation that waits is no matter") foreach (@pairs);
	is(compare(@$_[0], $table, @$_[1], "condition => 'coalesce(v, 0) >= 0'"), @$_[2], 'nor with a condition, which reads no other relation') foreach (@pairs);
	synchronous($publisher, '');
	finish($unrelated);
}

# A row that the subscriber had early is gone from the publisher as soon as it would
# be visible there: it is on neither look at the publisher, and always on the subscriber.
foreach my $table (qw(t by_text))
{
	synchronous($publisher, 'nosuch');
	my ($waiting) = hanging($publisher, "INSERT INTO $table VALUES ('30', 0)");
	wait_for($subscriber, "SELECT count(*) = 1 FROM $table WHERE id = '30'");
	my $blocking = blocking($subscriber, $table);
	my $session = settling($subscriber, $table, $publisher, "timeout => '5 s'");
	my $gone = background($publisher, "SET synchronous_commit = local; DO \$\$ BEGIN
		LOOP DELETE FROM $table WHERE id = '30'; EXIT WHEN FOUND; PERFORM pg_sleep(0.0002); END LOOP; END \$\$");
	synchronous($publisher, '');
	finish($_) foreach ($waiting, $gone);
	unlike($session->done, qr/^30\|here\|t/m, "$table: a row that was removed meanwhile is not confirmed");
	$_->quit foreach ($session, $blocking);
	$publisher->wait_for_catchup('sub');
	is(compare($subscriber, $table, $publisher), $pairs[0][2], 'and vanishes');
}

# --- a physical standby ---------------------------------------------------------------------

my $standby = standby($publisher, 'standby');
synchronous($publisher, 'nosuch');
{
	my @waiting = hanging($publisher, 'UPDATE t SET v = -3 WHERE id = 7', 'DELETE FROM t WHERE id = 9', 'INSERT INTO t VALUES (21, 0)');
	wait_for($standby, 'SELECT count(*) FILTER (WHERE id = 7 AND v = -3) = 1 AND count(*) FILTER (WHERE id = 9) = 0 AND count(*) FILTER (WHERE id = 21) = 1 FROM t');
	foreach my $pair ([ $publisher, $standby ], [ $standby, $publisher ])
	{
		my ($node, $peer) = @$pair;
		is(compare($node, 't', $peer, "timeout => '2 s'", 'NOT confirmed'), $node == $publisher ? '21 there f, 7 both f, 9 here f' : '21 here f, 7 both f, 9 there f',
			$node->name . ': what only the standby shows is not confirmed');
	}
	synchronous($publisher, '');
	finish($_) foreach (@waiting);
	is(compare($publisher, 't', $standby), '', 'and vanishes');
}
# A role that may not ask which server it is: the standby may be of any, so its old rows do not
# come back to the primary.
$publisher->safe_psql('postgres', 'CREATE ROLE reader LOGIN; GRANT SELECT, UPDATE ON t TO reader; REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public');
replayed($publisher, $standby);
is($standby->safe_psql('postgres', 'SELECT pg_last_wal_replay_lsn() <= iblt_internal.iblt_wal_position() AND iblt_internal.iblt_wal_position() <= pg_last_wal_receive_lsn()'), 't', 'the position of a standby');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$publisher->safe_psql('postgres', 'UPDATE t SET v = 99 WHERE id = 7');
is($publisher->safe_psql('postgres', "SELECT status, detail FROM iblt_repair('t', ${\ literal($standby->connstr('postgres') . ' user=reader')}, direction => 'pull', apply => true)"),
	'skipped|not confirmed: rows kept changing, or replication did not pass in time', 'an old row of a standby that may be of another server is not pulled');
is($publisher->safe_psql('postgres', 'SELECT v FROM t WHERE id = 7'), 99, 'and does not come back');
$publisher->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION pg_control_system() TO public; DROP OWNED BY reader; DROP ROLE reader; UPDATE t SET v = -3 WHERE id = 7');
$standby->stop;

# --- both directions --------------------------------------------------------------------------

SKIP:
{
	skip 'a publication of a part of the rows takes PostgreSQL 15', 1 if $publisher->safe_psql('postgres', 'SHOW server_version_num') < 150000;
	$_->safe_psql('postgres', 'CREATE TABLE mutual (site int, id int, v int, PRIMARY KEY (site, id)); INSERT INTO mutual SELECT s, 10 * s + g, 0 FROM generate_series(1, 2) s, generate_series(1, 9) g')
	  foreach ($publisher, $subscriber);
	my $site = 0;
	foreach my $pair (@pairs)
	{
		my ($node, $from) = @$pair;
		$site++;
		$from->safe_psql('postgres', "CREATE PUBLICATION mutual_$site FOR TABLE mutual WHERE (site = $site)");
		$node->safe_psql('postgres', "CREATE SUBSCRIPTION mutual_$site CONNECTION ${\ conninfo($from)} PUBLICATION mutual_$site WITH (copy_data = false)");
	}
	wait_for($_, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel WHERE srrelid = 'mutual'::regclass}) foreach ($publisher, $subscriber);
	# the rows of the other site are not published
	$publisher->safe_psql('postgres', 'DELETE FROM mutual WHERE site = 2 AND id = 21');
	$subscriber->safe_psql('postgres', 'DELETE FROM mutual WHERE site = 1 AND id = 11');
	is(compare($publisher, 'mutual', $subscriber), '11 here t, 21 there t', 'both directions: differences are confirmed');
	my $number = 0;
	foreach my $pair (@pairs)
	{
		my ($other, $node) = @$pair;
		$number++;
		synchronous($node, 'nosuch');
		my @waiting = hanging($node, "UPDATE mutual SET v = 7 WHERE site = $number AND id % 10 = 7", "INSERT INTO mutual VALUES ($number, 40, 0)");
		wait_for($other, "SELECT count(*) = 2 FROM mutual WHERE site = $number AND (v = 7 OR id = 40)");
		is(compare($node, 'mutual', $other, "timeout => '2 s'", 'confirmed'), '', 'commits wait on ' . $node->name . ': nothing is confirmed there');
		is(compare($other, 'mutual', $node, "timeout => '2 s'", 'confirmed'), '', 'nor on ' . $other->name);
		synchronous($node, '');
		finish($_) foreach (@waiting);
	}
	is(compare($publisher, 'mutual', $subscriber), '11 here t, 21 there t', 'both directions: once they are visible, what differs is confirmed');
	$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION mutual_1');
	$publisher->safe_psql('postgres', 'DROP SUBSCRIPTION mutual_2');
}

# --- a chain whose subscriptions have one name --------------------------------------------------

$_->safe_psql('postgres', 'CREATE TABLE link (id int PRIMARY KEY, v int)') foreach ($publisher, $subscriber, $last);
$publisher->safe_psql('postgres', 'INSERT INTO link SELECT g, g FROM generate_series(1, 10) g');
foreach my $pair ([ $publisher, $subscriber ], [ $subscriber, $last ])
{
	my ($from, $to) = @$pair;
	$from->safe_psql('postgres', 'CREATE PUBLICATION link FOR TABLE link');
	$to->safe_psql('postgres', "CREATE SUBSCRIPTION chain CONNECTION ${\ conninfo($from)} PUBLICATION link");
	subscribed($to, 1, 'chain');
	$from->wait_for_catchup('chain');
}
$last->safe_psql('postgres', 'UPDATE link SET v = 0 WHERE id = 3');
is(compare($last, 'link', $subscriber), '3 both t', 'in a chain, a difference from the next server is confirmed');
is(compare($subscriber, 'link', $publisher), '', 'the link before it is complete');
{
	my $blocking = blocking($last, 'link');
	$publisher->safe_psql('postgres', 'UPDATE link SET v = -1 WHERE id = 7');
	$publisher->wait_for_catchup('chain');
	wait_for($subscriber, 'SELECT v = -1 FROM link WHERE id = 7');
	foreach my $pair ([ $last, $publisher ], [ $publisher, $last ])
	{
		my ($node, $peer) = @$pair;
		my ($rc, $out, $err) = $node->psql('postgres', compare_sql('link', $peer, "timeout => '10 s'"));
		is(join(', ', sort split /\n/, $out), '3|both|f, 7|both|f', $node->name . ': a slot of the same name confirms nothing for another subscriber');
		like($err, qr/WARNING:  replication slot "chain" is another subscriber's, differences cannot be confirmed/, 'with a warning');
	}
	$blocking->quit;
}

# Beside it, a subscription of its own to the first publisher with that slot's namesake.
$last->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v int)');
foreach my $from ($publisher, $subscriber)
{
	$from->safe_psql('postgres', "CREATE PUBLICATION more FOR TABLE t");
	$from->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('twin', 'pgoutput')");
	my $name = 'of_' . $from->name;
	$last->safe_psql('postgres', "CREATE SUBSCRIPTION $name CONNECTION ${\ conninfo($from)} PUBLICATION more WITH (create_slot = false, slot_name = twin, copy_data = false)");
}
wait_for($last, q{SELECT count(*) = 2 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel WHERE srrelid = 't'::regclass});
$last->safe_psql('postgres', 'INSERT INTO t SELECT g, 0 FROM generate_series(100, 102) g');
is(compare($last, 't', $publisher, "condition => 'id >= 100 AND id < 1000'"), '100 here t, 101 here t, 102 here t', 'slots of one name on two publishers');
# The first server replicates to both others: a row that only one of them has got replicates over no link of the two.
{
	my $blocking = blocking($subscriber, 't');
	$publisher->safe_psql('postgres', 'INSERT INTO t VALUES (150, 0)');
	wait_for($last, 'SELECT count(*) = 1 FROM t WHERE id = 150');
	foreach my $pair ([ $last, $subscriber, 'here' ], [ $subscriber, $last, 'there' ])
	{
		my ($node, $peer, $side) = @$pair;
		my ($rc, $out, $err) = $node->psql('postgres', compare_sql('t', $peer, "condition => 'id >= 100 AND id < 1000'"));
		is(join(', ', sort split /\n/, $out), join(', ', map { "$_|$side|f" } 100, 101, 102, 150), $node->name . ': a row on its way from a third server is not confirmed');
		like($err, qr/WARNING:  replication of this relation is not ready, differences cannot be confirmed/, 'with a warning');
	}
	$blocking->quit;
}

$last->safe_psql('postgres', "ALTER SUBSCRIPTION $_ DISABLE; ALTER SUBSCRIPTION $_ SET (slot_name = NONE); DROP SUBSCRIPTION $_") foreach (qw(of_publisher of_subscriber chain));

done_testing();
