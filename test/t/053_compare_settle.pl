# For which transactions iblt_compare waits before it confirms a difference: those that
# may have written to the relation and are not visible yet, though a subscriber may
# show their rows already.  Which locks tell them, of which relations, and which of them have
# committed.  And rows in flight that iblt_compare must not confirm as differences: commits that wait
# for a synchronous standby, as a physical standby shows them, in both directions, and if their rows are
# gone at once, and slots that have the name of another subscription's.
use IbltTest;

my ($publisher, $subscriber) = map { ready($_, 'max_prepared_transactions = 5') } qw(publisher subscriber);
inside($publisher, $subscriber);
sides($subscriber, $publisher);

# Statements, each a transaction of its own, that wait for a synchronous standby; once they do.
sub hanging
{
	my ($node, @statements) = @_;
	synchronous($node, 'nosuch');
	my @runs = map { background($node, $_) } @statements;
	my $number = @statements;
	wait_for($node, "SELECT count(*) = $number FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'");
	return @runs;
}

sub visible
{
	my ($run) = @_;
	synchronous($publisher, '');
	finish($run);
	$publisher->wait_for_catchup('sub');
	return;
}

sub compare_sql
{
	my ($table, $peer, $options) = @_;
	return "SELECT key ->> 'id', side, confirmed FROM iblt_compare('$table', ${\ conninfo($peer)}" . ($options ? ", $options" : '') . ')';
}

# The differences as a list "id side confirmed", in order, on one line.
sub compared
{
	my ($node, $table, $peer, $options, $where) = @_;
	return join ', ', sort map { s/\|/ /gr } split /\n/, $node->safe_psql('postgres', compare_sql($table, $peer, $options) . ($where ? " WHERE $where" : ''));
}
sub compare { my ($node, $table, $options) = @_; return compared($node, $table, $node == $publisher ? $subscriber : $publisher, $options) }

# Has the publisher transactions that may have written to a relation?
sub writers
{
	my ($relation) = @_;
	return $publisher->safe_psql('postgres', "SELECT cardinality(iblt_internal.writers('$relation'))");
}

# --- locks -----------------------------------------------------------------------------------

$publisher->safe_psql('postgres', 'CREATE TABLE plain (id int PRIMARY KEY, v int); CREATE TABLE child () INHERITS (plain); CREATE TABLE parent (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
	CREATE TABLE part PARTITION OF parent FOR VALUES FROM (0) TO (1000) PARTITION BY RANGE (id); CREATE TABLE leaf PARTITION OF part FOR VALUES FROM (0) TO (100);
	CREATE TABLE unrelated (id int); CREATE MATERIALIZED VIEW kept AS SELECT 1 AS id; CREATE DATABASE twin TEMPLATE postgres');
my %writes = map { $_ => 1 } ('ROW EXCLUSIVE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE');
my $session = IbltTest::Session->new($publisher);
foreach my $mode ('ACCESS SHARE', 'ROW SHARE', 'ROW EXCLUSIVE', 'SHARE UPDATE EXCLUSIVE', 'SHARE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE')
{
	foreach my $case ([ 'plain', 'plain' ], [ 'child', 'plain' ], [ 'parent', 'parent' ], [ 'part', 'parent' ], [ 'leaf', 'parent' ], [ 'leaf', 'part' ])
	{
		my ($locked, $relation) = @$case;
		$session->run("BEGIN; LOCK TABLE ONLY $locked IN $mode MODE");
		# a partition is attached under this one
		my $expected = $writes{$mode} || $mode eq 'SHARE UPDATE EXCLUSIVE' && $locked =~ /^pa/ ? 1 : 0;
		is(writers($relation), $expected, "$mode on $locked, compared is $relation: " . ($expected ? '' : 'not ') . 'waited for');
		$session->run('COMMIT');
	}
	$session->run("BEGIN; LOCK TABLE unrelated IN $mode MODE");
	is(writers($_), '0', "$mode on another table is no matter for $_") foreach ('plain', 'parent');
	$session->run('COMMIT');
}
$session->run('BEGIN; REFRESH MATERIALIZED VIEW kept');
is(writers('kept'), '1', 'a materialized view that is refreshed is waited for');
$session->run('COMMIT');
$session->quit;
# the same OIDs in another database
my $twin = holding($publisher, 'BEGIN; LOCK TABLE plain', 'twin');
is(writers('plain'), '0', 'a lock in another database is no matter');
$twin->quit;
$publisher->safe_psql('postgres', 'DROP TABLE plain, child, parent, unrelated; DROP MATERIALIZED VIEW kept');

# --- commits that hang, in earnest ----------------------------------------------------------------

foreach my $node ($publisher, $subscriber)
{
	$node->safe_psql('postgres', 'CREATE TABLE parent (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE low PARTITION OF parent FOR VALUES FROM (0) TO (100);
		CREATE TABLE plain (id int PRIMARY KEY, v int); CREATE TABLE family (id int PRIMARY KEY, v int)');
}
$publisher->safe_psql('postgres', 'INSERT INTO parent SELECT g, g FROM generate_series(1, 20) g; INSERT INTO plain TABLE parent; INSERT INTO family TABLE parent; CREATE TABLE high (id int PRIMARY KEY, v int);
	CREATE TABLE heir (id int PRIMARY KEY, v int); CREATE VIEW all_of_them AS TABLE family UNION ALL TABLE heir;
	CREATE PUBLICATION pub FOR TABLE parent, plain, family, heir WITH (publish_via_partition_root = true)');
$subscriber->safe_psql('postgres', "CREATE TABLE rest PARTITION OF parent DEFAULT; CREATE TABLE heir (PRIMARY KEY (id)) INHERITS (family);
	CREATE SUBSCRIPTION sub CONNECTION ${\ conninfo($publisher)} PUBLICATION pub");
subscribed($subscriber, 4);
$publisher->wait_for_catchup('sub');
$subscriber->safe_psql('postgres', "UPDATE $_ SET v = 0 WHERE id = 3") foreach (qw(parent plain family));
my $view = "peer_relation => 'all_of_them', key_columns => '{id}'";
is(compare($subscriber, $_), '3 both t', "$_: a difference is confirmed") foreach (qw(parent plain));
is(compare($subscriber, 'family', $view), '3 both t', 'as is one from a view');

my $settle = q{SELECT iblt_internal.settle_all(jsonb_populate_record(NULL::iblt_internal.plan, '{"links": [{"relation": "public.%s"}]}'), clock_timestamp() + interval '0.5 s') IS NULL};

# --- who has committed ----------------------------------------------------------------------------

my $library = compiled('test/late/late.c', $publisher->basedir);
$publisher->safe_psql('postgres', "CREATE FUNCTION delay_checkpoints(boolean) RETURNS void AS '$library' LANGUAGE C STRICT");

# What has written for long is not waited for, as long as it does not commit.
foreach my $mode (qw(on off))
{
	synchronous($publisher, 'nosuch') if $mode eq 'on';
	my $writer = holding($publisher, "SET synchronous_commit = $mode; BEGIN; UPDATE plain SET v = -1 WHERE id = 8; SAVEPOINT s; UPDATE plain SET v = -1 WHERE id = 9");
	is($publisher->safe_psql('postgres', sprintf($settle, 'plain')), 't', 'a transaction that has written and not committed is not waited for');
	is(compare($_, 'plain'), '3 both t', $_->name . ': and what differs is confirmed') foreach ($subscriber, $publisher);
	$writer->run('SELECT delay_checkpoints(true)');
	is($publisher->safe_psql('postgres', sprintf($settle, 'plain')), 'f', 'one that may have inserted its commit record is');
	$writer->run('SELECT delay_checkpoints(false)');
	is($publisher->safe_psql('postgres', sprintf($settle, 'plain')), 't', 'until it has not');
	$writer->run('ROLLBACK');
	$writer->quit;
	synchronous($publisher, '') if $mode eq 'on';
}
# A prepared transaction is committed by another process.
{
	$publisher->safe_psql('postgres', "BEGIN; UPDATE plain SET v = -1 WHERE id = 8; PREPARE TRANSACTION 'p'");
	is($publisher->safe_psql('postgres', sprintf($settle, 'plain')), 't', 'a prepared transaction is not waited for');
	my $other = holding($publisher, 'BEGIN; SELECT delay_checkpoints(true)');
	is($publisher->safe_psql('postgres', sprintf($settle, 'plain')), 'f', 'if another process may be about to commit it, it is');
	is($publisher->safe_psql('postgres', sprintf($settle, 'family')), 't', 'where nobody writes, that is no matter');
	$other->run('SELECT delay_checkpoints(false); COMMIT');
	$other->quit;
	$publisher->safe_psql('postgres', "ROLLBACK PREPARED 'p'");
}
is($publisher->safe_psql('postgres', "SELECT iblt_internal.iblt_committing(ARRAY(SELECT x::text FROM unnest('{NULL,0,1,2,3}'::bigint[]) AS x UNION ALL
	SELECT ((pg_current_xact_id()::text::bigint + x) % 4294967296)::text FROM unnest('{0,1,1000000,2000000000,2147483647,3000000000}'::bigint[]) AS x)::xid[])"), '{}', 'transactions that do not run, or not yet');

# Between its commit record and its end a process may be held up for any time, also if nothing
# waits for a standby.  Here it is stopped while it waits for one.
foreach my $case ([ 'a transaction', 'INSERT INTO plain VALUES (40, 0)' ], [ 'with savepoints', 'BEGIN; SAVEPOINT s; INSERT INTO plain VALUES (40, 0); RELEASE s; COMMIT' ], [ 'a prepared transaction', "COMMIT PREPARED 'p'" ])
{
	my ($text, $sql) = @$case;
	$publisher->safe_psql('postgres', "BEGIN; INSERT INTO plain VALUES (40, 0); PREPARE TRANSACTION 'p'") if $sql =~ /PREPARED/;
	my ($waiting) = hanging($publisher, $sql);
	my $pid = $publisher->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
	kill 'STOP', $pid;
	synchronous($publisher, '');
	wait_for($subscriber, 'SELECT count(*) = 1 FROM plain WHERE id = 40');
	is($publisher->safe_psql('postgres', 'SELECT count(*) FROM plain WHERE id = 40'), '0', "$text: a commit that the subscriber shows, and the publisher does not");
	is(compare($_, 'plain', "timeout => '1 s'") =~ s/ (here|there)//r, '3 both f, 40 f', "$text, " . $_->name . ': nothing is confirmed while the process is stopped') foreach ($subscriber, $publisher);
	is($subscriber->safe_psql('postgres', "SELECT key ->> 'id', status FROM iblt_repair('plain', ${\ conninfo($publisher)}, direction => 'pull', apply => true, timeout => '1 s') ORDER BY 1"), "3|skipped\n40|skipped", "$text: and no repair deletes its row");
	like(failure("SELECT * FROM iblt_compare('plain', ${\ conninfo($publisher)}, max_differences => 1, timeout => '1 s')"), qr/IB003: .*\nDETAIL:  .*: transactions that have committed did not become visible in time\./, "$text: too many may be in flight")
		if $sql =~ /PREPARED/;
	kill 'CONT', $pid;
	finish($waiting);
	is(compare($subscriber, 'plain'), '3 both t', "$text: when it goes on, the row is no difference");
	$publisher->safe_psql('postgres', 'DELETE FROM plain WHERE id = 40');
	$publisher->wait_for_catchup('sub');
}

# Without iblt on the publisher nobody knows who has committed.
{
	my $writer = holding($publisher, 'BEGIN; UPDATE plain SET v = -1 WHERE id = 8');
	is(compare($subscriber, 'plain', "method => 'plain', timeout => '1 s'"), '3 both f', 'plain queries: nothing is confirmed while a transaction writes');
	is($subscriber->safe_psql('postgres', "SELECT detail FROM iblt_repair('plain', ${\ conninfo($publisher)}, direction => 'pull', method => 'plain', timeout => '1 s')"),
		'not confirmed: transactions that write to the relation did not end in time, and without iblt on their server nothing tells whether they have committed', 'and the cause says so');
	$writer->run('ROLLBACK');
	$writer->quit;
	is(compare($subscriber, 'plain', "method => 'plain'"), '3 both t', 'once it has ended, what differs is confirmed');
}

# ATTACH PARTITION: the partition is not in the tree of the others yet, and its parent
# has a weak lock only.  The subscriber has the rows of the parent's publication.
{
	my ($waiting) = hanging($publisher, 'BEGIN; ALTER TABLE parent ATTACH PARTITION high FOR VALUES FROM (100) TO (200); INSERT INTO high VALUES (150, 0), (151, 1); COMMIT');
	wait_for($subscriber, 'SELECT count(*) = 2 FROM parent WHERE id IN (150, 151)');
	is($publisher->safe_psql('postgres', 'SELECT count(*) FROM parent WHERE id >= 100'), '0', 'the subscriber shows rows of a partition that is not attached yet');
	foreach my $node ($subscriber, $publisher)
	{
		my $side = $node == $subscriber ? 'here' : 'there';
		is(compare($node, 'parent', "timeout => '3 s'"), "150 $side f, 151 $side f, 3 both f", $node->name . ': nothing is confirmed while its commit waits');
	}
	visible($waiting);
	is(compare($_, 'parent'), '3 both t', $_->name . ': once it is attached, what differs is confirmed') foreach ($subscriber, $publisher);
}

# A view that reads another relation than the one that replication is known of.
{
	my ($waiting) = hanging($publisher, 'INSERT INTO heir VALUES (50, 0)');
	wait_for($subscriber, 'SELECT count(*) = 1 FROM family WHERE id = 50');
	is(compare($subscriber, 'family', "$view, timeout => '3 s'"), '3 both f, 50 here f', 'a view of several tables: nothing is confirmed while a commit to one of them waits');
	visible($waiting);
	is(compare($subscriber, 'family', $view), '3 both t', 'once it is visible, what differs is confirmed');
}

# TRUNCATE: nobody can read the table meanwhile, and so the comparison waits, too.
{
	my ($waiting) = hanging($publisher, 'TRUNCATE plain');
	wait_for($subscriber, 'SELECT count(*) = 0 FROM plain');
	is(writers('plain'), '1', 'a TRUNCATE that waits is waited for');
	$subscriber->safe_psql('postgres', 'INSERT INTO plain VALUES (60, 0)');
	my $run = background($subscriber, "SELECT concat_ws(' ', key ->> 'id', side, confirmed) FROM iblt_compare('plain', ${\ conninfo($publisher)})");
	wait_for($publisher, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'iblt_compare public.plain' AND wait_event_type = 'Lock'");
	visible($waiting);
	is(finish($run), "60 here t\n", 'and what it removed is no difference');
}

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub');

# A session of a comparison that waits for commits on its peer by now.
sub settling
{
	my ($node, $table, $peer, $options) = @_;
	my $session = IbltTest::Session->new($node)->start(compare_sql($table, $peer, $options));
	wait_for($peer, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'iblt_compare public.$table' AND query LIKE '%committing(%'");
	return $session;
}

# --- a publisher and its subscriber -----------------------------------------------------

my $last = ready('last');
foreach my $table (qw(t by_text))
{
	my $type = $table eq 't' ? 'int' : 'text';
	$_->safe_psql('postgres', "CREATE TABLE $table (id $type PRIMARY KEY, v int)") foreach ($publisher, $subscriber);
	$publisher->safe_psql('postgres', "INSERT INTO $table SELECT g, g FROM generate_series(1, 10) g");
}
$publisher->safe_psql('postgres', 'CREATE TABLE other (id int); DROP PUBLICATION pub; CREATE PUBLICATION pub FOR TABLE t, by_text');
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
	my ($unrelated) = hanging($publisher, 'INSERT INTO other VALUES (2)');
	is(compared(@$_[0], $table, @$_[1]), @$_[2], @$_[0]->name . ", $table: a commit of another relation that waits is no matter") foreach (@pairs);
	is(compared(@$_[0], $table, @$_[1], "condition => 'coalesce(v, 0) >= 0'"), @$_[2], 'nor with a condition, which reads no other relation') foreach (@pairs);
	synchronous($publisher, '');
	finish($unrelated);
}

# A row that the subscriber had early is gone from the publisher as soon as it would
# be visible there: it is on neither look at the publisher, and always on the subscriber.
foreach my $table (qw(t by_text))
{
	my ($waiting) = hanging($publisher, "INSERT INTO $table VALUES ('30', 0)");
	wait_for($subscriber, "SELECT count(*) = 1 FROM $table WHERE id = '30'");
	my $blocking = holding($subscriber, "BEGIN; LOCK TABLE $table IN SHARE MODE");
	my $session = settling($subscriber, $table, $publisher, "timeout => '5 s'");
	my $gone = background($publisher, "SET synchronous_commit = local; DO \$\$ BEGIN
		LOOP DELETE FROM $table WHERE id = '30'; EXIT WHEN FOUND; PERFORM pg_sleep(0.0002); END LOOP; END \$\$");
	synchronous($publisher, '');
	finish($_) foreach ($waiting, $gone);
	unlike($session->done, qr/^30\|here\|t/m, "$table: a row that was removed meanwhile is not confirmed");
	$_->quit foreach ($session, $blocking);
	$publisher->wait_for_catchup('sub');
	is(compared($subscriber, $table, $publisher), $pairs[0][2], 'and vanishes');
}

# --- a physical standby ---------------------------------------------------------------------

my $standby = standby($publisher, 'standby');
{
	my @waiting = hanging($publisher, 'UPDATE t SET v = -3 WHERE id = 7', 'DELETE FROM t WHERE id = 9', 'INSERT INTO t VALUES (21, 0)');
	wait_for($standby, 'SELECT count(*) FILTER (WHERE id = 7 AND v = -3) = 1 AND count(*) FILTER (WHERE id = 9) = 0 AND count(*) FILTER (WHERE id = 21) = 1 FROM t');
	foreach my $pair ([ $publisher, $standby ], [ $standby, $publisher ])
	{
		my ($node, $peer) = @$pair;
		is(compared($node, 't', $peer, "timeout => '2 s'", 'NOT confirmed'), $node == $publisher ? '21 there f, 7 both f, 9 here f' : '21 here f, 7 both f, 9 there f',
			$node->name . ': what only the standby shows is not confirmed');
	}
	synchronous($publisher, '');
	finish($_) foreach (@waiting);
	is(compared($publisher, 't', $standby), '', 'and vanishes');
}
# A role that may not ask which server it is: the standby may be of any, so its old rows do not
# come back to the primary.
$publisher->safe_psql('postgres', 'CREATE ROLE reader LOGIN; GRANT SELECT, UPDATE ON t TO reader; REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public');
replayed($publisher, $standby);
is($standby->safe_psql('postgres', 'SELECT pg_last_wal_replay_lsn() <= iblt_internal.iblt_wal_position() AND iblt_internal.iblt_wal_position() <= pg_last_wal_receive_lsn()'), 't', 'the position of a standby');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$publisher->safe_psql('postgres', 'UPDATE t SET v = 99 WHERE id = 7');
is($publisher->safe_psql('postgres', "SELECT status, detail FROM iblt_repair('t', ${\ literal($standby->connstr('postgres') . ' user=reader')}, direction => 'pull', apply => true)"),
	'skipped|not confirmed: replication of this relation is not ready', 'an old row of a standby that may be of another server is not pulled');
is($publisher->safe_psql('postgres', 'SELECT v FROM t WHERE id = 7'), 99, 'and does not come back');
$publisher->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION pg_control_system() TO public; DROP OWNED BY reader; DROP ROLE reader; UPDATE t SET v = -3 WHERE id = 7');
$standby->stop;

# --- both directions --------------------------------------------------------------------------

if (major_version() >= 15)    # publications of a part of the rows
{
	$_->safe_psql('postgres', 'CREATE TABLE mutual (site int, id int, v int, PRIMARY KEY (site, id)); INSERT INTO mutual SELECT s, 10 * s + g, 0 FROM generate_series(1, 2) s, generate_series(1, 9) g') foreach ($publisher, $subscriber);
	foreach my $site (1, 2)
	{
		my ($node, $from) = @{ $pairs[ $site - 1 ] };
		$from->safe_psql('postgres', "CREATE PUBLICATION mutual_$site FOR TABLE mutual WHERE (site = $site)");
		$node->safe_psql('postgres', "CREATE SUBSCRIPTION mutual_$site CONNECTION ${\ conninfo($from)} PUBLICATION mutual_$site WITH (copy_data = false)");
	}
	wait_for($_, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel WHERE srrelid = 'mutual'::regclass}) foreach ($publisher, $subscriber);
	# the rows of the other site are not published
	$publisher->safe_psql('postgres', 'DELETE FROM mutual WHERE site = 2 AND id = 21');
	$subscriber->safe_psql('postgres', 'DELETE FROM mutual WHERE site = 1 AND id = 11');
	foreach my $site (1, 2)
	{
		my ($other, $node) = @{ $pairs[ $site - 1 ] };
		my @waiting = hanging($node, "UPDATE mutual SET v = 7 WHERE site = $site AND id % 10 = 7", "INSERT INTO mutual VALUES ($site, 40, 0)");
		wait_for($other, "SELECT count(*) = 2 FROM mutual WHERE site = $site AND (v = 7 OR id = 40)");
		is(compared($publisher, 'mutual', $subscriber, "timeout => '1 s'", 'confirmed'), '', 'commits wait on ' . $node->name . ': nothing is confirmed');
		synchronous($node, '');
		finish($_) foreach (@waiting);
	}
	is(compared($publisher, 'mutual', $subscriber), '11 here t, 21 there t', 'both directions: once they are visible, what differs is confirmed');
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
is(compared($last, 'link', $subscriber), '3 both t', 'in a chain, a difference from the next server is confirmed');
is(compared($subscriber, 'link', $publisher), '', 'the link before it is complete');
{
	my $blocking = holding($last, 'BEGIN; LOCK TABLE link IN SHARE MODE');
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
is(compared($last, 't', $publisher, "condition => 'id >= 100 AND id < 1000'"), '100 here f, 101 here f, 102 here f', 'slots of one name on two publishers, and the first one feeds the other');
# The first server replicates to both others: a row that only one of them has got replicates over no link of the two.
{
	my $blocking = holding($subscriber, 'BEGIN; LOCK TABLE t IN SHARE MODE');
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
