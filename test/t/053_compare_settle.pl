# For which transactions iblt_compare waits before it confirms a difference: those that
# may have written to the relation and are not visible yet, though a subscriber may
# show their rows already.  Which locks tell them, of which relations, and which of them have
# committed.
use IbltTest;
use IPC::Run;

my ($publisher, $subscriber) = map { server($_, 'max_prepared_transactions = 5') } qw(publisher subscriber);
inside($publisher, $subscriber);
sides($subscriber, $publisher);
$_->safe_psql('postgres', 'CREATE EXTENSION dblink; CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live') foreach ($publisher, $subscriber);

# A transaction of the publisher that waits for a synchronous standby, once it does.
sub hanging
{
	my ($sql) = @_;
	synchronous($publisher, 'nosuch');
	my $run = background($publisher, $sql);
	wait_for($publisher, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'");
	return $run;
}

sub visible
{
	my ($run) = @_;
	synchronous($publisher, '');
	finish($run);
	$publisher->wait_for_catchup('sub');
	return;
}

# The differences as a list "id side confirmed", in order, on one line.
sub compare
{
	my ($node, $relation, $options) = @_;
	my $peer = conninfo($node == $publisher ? $subscriber : $publisher);
	return join ', ', sort split /\n/, $node->safe_psql('postgres', "SELECT concat_ws(' ', key ->> 'id', side, confirmed) FROM iblt_compare('$relation', $peer" . ($options ? ", $options" : '') . ')');
}

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
{
	# the same OIDs in another database
	my ($out, $err);
	my $other = IPC::Run::start([ 'psql', '-XAtq', '-d', $publisher->connstr('twin'), '-c', 'BEGIN; LOCK TABLE plain; SELECT pg_sleep(600)' ], '<', \'', '>', \$out, '2>', \$err);
	wait_for($publisher, "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = 'twin' AND wait_event = 'PgSleep'");
	is(writers('plain'), '0', 'a lock in another database is no matter');
	$publisher->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'twin'");
	$other->finish;
}
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

# Longer than a second: a commit that waits for a synchronous standby does not end by itself.
{
	my $waiting = hanging('UPDATE plain SET v = -1 WHERE id = 7');
	wait_for($subscriber, 'SELECT v = -1 FROM plain WHERE id = 7');
	is(compare($_, 'plain', "timeout => '3 s'") =~ s/ (here|there)//r, '3 both f, 7 both f', $_->name . ': a commit that waits for longer than a second confirms nothing') foreach ($subscriber, $publisher);
	like($publisher->safe_psql('postgres', q{SET search_path = iblt_internal; SELECT settle_all(jsonb_populate_record(NULL::plan, jsonb_build_object('links', '[{"source": "here", "relation": "public.plain"}]'::jsonb)),
		clock_timestamp() + interval '3 s')}), qr/^transactions that have committed did not become visible in time/, 'it is waited for until the deadline, and the cause says so');
	is($publisher->safe_psql('postgres', sprintf($settle, 'family')), 't', 'but not where it did not write');
	visible($waiting);
	is(compare($subscriber, 'plain'), '3 both t', 'once it is visible, what differs is confirmed');
}

# --- who has committed ----------------------------------------------------------------------------

my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
chomp(my $include = `$pg_config --includedir-server`);
my $library = $publisher->basedir . '/late.so';
command_ok([ 'cc', '-shared', '-fPIC', "-I$include", '-o', $library, 'test/late/late.c' ], 'an extension that delays checkpoints is built');
$publisher->safe_psql('postgres', "CREATE FUNCTION delay_checkpoints(boolean) RETURNS void AS '$library' LANGUAGE C STRICT");

# What has written for long is not waited for, as long as it does not commit.
foreach my $mode (qw(on off))
{
	synchronous($publisher, 'nosuch') if $mode eq 'on';
	my $writer = IbltTest::Session->new($publisher);
	$writer->run("SET synchronous_commit = $mode; BEGIN; UPDATE plain SET v = -1 WHERE id = 8; SAVEPOINT s; UPDATE plain SET v = -1 WHERE id = 9");
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
	my $other = IbltTest::Session->new($publisher);
	$other->run('BEGIN; SELECT delay_checkpoints(true)');
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
	my $waiting = hanging($sql);
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
	my $writer = IbltTest::Session->new($publisher);
	$writer->run('BEGIN; UPDATE plain SET v = -1 WHERE id = 8');
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
	my $waiting = hanging('BEGIN; ALTER TABLE parent ATTACH PARTITION high FOR VALUES FROM (100) TO (200); INSERT INTO high VALUES (150, 0), (151, 1); COMMIT');
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
	my $waiting = hanging('INSERT INTO heir VALUES (50, 0)');
	wait_for($subscriber, 'SELECT count(*) = 1 FROM family WHERE id = 50');
	is(compare($subscriber, 'family', "$view, timeout => '3 s'"), '3 both f, 50 here f', 'a view of several tables: nothing is confirmed while a commit to one of them waits');
	visible($waiting);
	is(compare($subscriber, 'family', $view), '3 both t', 'once it is visible, what differs is confirmed');
}

# TRUNCATE: nobody can read the table meanwhile, and so the comparison waits, too.
SKIP:
{
	skip 'before PostgreSQL 14, a subscriber gets a TRUNCATE only when the publisher shows it', 2 if major_version() < 14;
	my $waiting = hanging('TRUNCATE plain');
	wait_for($subscriber, 'SELECT count(*) = 0 FROM plain');
	is(writers('plain'), '1', 'a TRUNCATE that waits is waited for');
	$subscriber->safe_psql('postgres', 'INSERT INTO plain VALUES (60, 0)');
	my $run = background($subscriber, "SELECT concat_ws(' ', key ->> 'id', side, confirmed) FROM iblt_compare('plain', ${\ conninfo($publisher)})");
	wait_for($publisher, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'iblt_compare public.plain' AND wait_event_type = 'Lock'");
	visible($waiting);
	is(finish($run), "60 here t\n", 'and what it removed is no difference');
}

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub');

done_testing();
