# A repair inserts a row that a subscriber has lost.  Meanwhile the publisher deletes or changes
# it, and replication brings that to a subscriber that does not have the row yet.  The repair must
# not bring back what the publisher has no longer.  Or it updates a row, and replication has brought
# what is there just before the repair has locked it.
use IbltTest;

my ($publisher, $subscriber) = map { ready($_) } 'publisher', 'subscriber';
sides($subscriber, $publisher);
both('CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE); CREATE TABLE keyless (k int, v text); ALTER TABLE keyless REPLICA IDENTITY FULL');
$publisher->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE t, child, keyless');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION ${\ conninfo($publisher)} PUBLICATION pub");
subscribed($subscriber, 3);
# an insert of the repair waits here, and one of replication does not
$subscriber->safe_psql('postgres', "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NEW; END';
	CREATE TRIGGER wait BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION wait(); CREATE TRIGGER wait BEFORE INSERT ON keyless FOR EACH ROW EXECUTE FUNCTION wait()");
# a run keeps no connection string
foreign_server($subscriber, 'publisher', $publisher);
my ($holder, $repair) = (IbltTest::Session->new($subscriber));

my ($there, $here) = (conninfo($publisher), conninfo($subscriber));
my $options = 'apply => true';
my @placements = (
	[ 'pull', $subscriber, "iblt_repair('t', $there, direction => 'pull', $options)" ],
	[ 'push', $publisher, "iblt_repair('t', $here, direction => 'push', $options)" ],
	[ 'nodes', $subscriber, "iblt_repair_nodes('public.t', ARRAY[NULL, $there], source => 'node 2', $options)" ],
	[ 'a run', $subscriber, "iblt_repair(run => %s, direction => 'pull', $options)" ]);

my $first = 0;
foreach my $placement (@placements)
{
	my ($name, $node, $call) = @$placement;
	my ($stays, $goes, $changes) = map { $first + $_ } 1 .. 3;
	$first += 10;
	$publisher->safe_psql('postgres', "INSERT INTO t SELECT g, 0 FROM generate_series($stays, $changes) g");
	$publisher->wait_for_catchup('sub');
	$subscriber->safe_psql('postgres', "DELETE FROM t WHERE id >= $stays");
	$call = sprintf $call, $node->safe_psql('postgres', "CALL iblt_audit_run('publisher', tables => '{public.t}', progress => false)") if $name eq 'a run';

	$holder->run('SELECT pg_advisory_lock(42)');
	$repair = IbltTest::Session->new($node)->start("SELECT key ->> 'id', action, status, detail FROM $call");
	wait_for($subscriber, "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted");
	$publisher->safe_psql('postgres', "DELETE FROM t WHERE id = $goes; UPDATE t SET v = 1 WHERE id = $changes");
	$publisher->wait_for_catchup('sub');
	$holder->run('SELECT pg_advisory_unlock(42)');
	is(join("\n", sort split /\n/, $repair->done), "$stays|insert|applied|\n$goes|insert|skipped|changed since it was compared\n$changes|insert|skipped|changed since it was compared", "$name: a row that was deleted or changed meanwhile is skipped");
	is($repair->{err} =~ s/NOTICE.*\n//r, '', "$name: nothing else is said");
	$repair->quit;
	is($subscriber->safe_psql('postgres', "SELECT id FROM t WHERE id BETWEEN $stays AND $changes"), $stays, "$name: and it is not there");
	$subscriber->safe_psql('postgres', "INSERT INTO t VALUES ($changes, 1)");
}
# Rows that refer to it are there although it was not.  They do not go with it.
$publisher->safe_psql('postgres', 'INSERT INTO t VALUES (90, 0); INSERT INTO child VALUES (1, 90)');
$publisher->wait_for_catchup('sub');
$subscriber->safe_psql('postgres', 'SET session_replication_role = replica; DELETE FROM t WHERE id = 90');
foreach my $cascade ('', ', "cascade" => true')
{
	$holder->run('SELECT pg_advisory_lock(42)');
	$repair = IbltTest::Session->new($subscriber)->start("SELECT status FROM iblt_repair('t', $there, direction => 'pull', $options$cascade)");
	wait_for($subscriber, "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted");
	$publisher->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 90');
	$publisher->wait_for_catchup('sub');
	$holder->run('SELECT pg_advisory_unlock(42)');
	is($repair->done, '', "a row that is to be taken back and has rows that refer to it$cascade: nothing was applied");
	like($repair->{err}, qr/ERROR.*rows beyond those compared\n.* 1 row of public.child refers to such rows by constraint child_t_fkey ON DELETE CASCADE/, 'an error');
	$repair->quit;
	is($subscriber->safe_psql('postgres', 'SELECT (SELECT count(*) FROM t WHERE id = 90), (SELECT count(*) FROM child)'), '0|1', 'and they are still there');
}
$publisher->safe_psql('postgres', 'DELETE FROM child; DELETE FROM t WHERE id = 90');

# Without a unique key, the table is locked, so nothing is taken back, and no row that was replaced is lost.
$publisher->safe_psql('postgres', q{INSERT INTO keyless VALUES (1, 'published')});
$publisher->wait_for_catchup('sub');
$subscriber->safe_psql('postgres', q{UPDATE keyless SET v = 'own'});
$holder->run('SELECT pg_advisory_lock(42)');
$repair = IbltTest::Session->new($subscriber)->start("SELECT action, status FROM iblt_repair('keyless', $there, key_columns => '{k}', direction => 'pull', $options)");
wait_for($subscriber, "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted");
$publisher->safe_psql('postgres', q{UPDATE keyless SET v = 'changed'});
$holder->run('SELECT pg_advisory_unlock(42)');
is($repair->done, "delete|applied\ninsert|applied", 'without a unique key: the row of then is applied');
$repair->quit;
$publisher->wait_for_catchup('sub');
is($subscriber->safe_psql('postgres', 'SELECT v FROM keyless'), 'changed', 'and replication brings what it has become');

# A delete that waits for a synchronous standby reaches the subscriber, and the publisher still
# shows the row.  The repair waits until it does not.
$publisher->safe_psql('postgres', 'INSERT INTO t VALUES (100, 0)');
$publisher->wait_for_catchup('sub');
$subscriber->safe_psql('postgres', 'DELETE FROM t WHERE id = 100');
$holder->run('SELECT pg_advisory_lock(42)');
$repair = IbltTest::Session->new($subscriber)->start("SELECT key ->> 'id', action, status, detail FROM $placements[0][2]");
wait_for($subscriber, "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted");
synchronous($publisher, 'nobody');
my $deleting = background($publisher, 'DELETE FROM t WHERE id = 100');
wait_for($publisher, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
$publisher->wait_for_catchup('sub');
$holder->run('SELECT pg_advisory_unlock(42)');
# until it has asked for what commits, or has ended
until ($repair->ended || $publisher->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'iblt_repair%' AND query LIKE '%iblt_committing(%'")) { }
is($publisher->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id = 100'), '1', 'a commit that hangs: the publisher shows the row');
synchronous($publisher, '');
finish($deleting);
is($repair->done, '100|insert|skipped|changed since it was compared', 'the repair waits for it');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id = 100'), '0', 'and does not bring back the row');
$_->quit foreach ($repair, $holder);

# A subscriber has another content than the publisher, which changes its own to just that.  The commit
# waits for a standby, and the subscriber has it.  The repair waits for the lock of another row.
my $stale = join ', ', map { "($_, 0)" } 200 .. 219;
$publisher->safe_psql('postgres', "INSERT INTO t VALUES $stale");
$publisher->wait_for_catchup('sub');
$subscriber->safe_psql('postgres', 'UPDATE t SET v = 5 WHERE id BETWEEN 200 AND 219');
# The same with a third node, from which the rows would come because most nodes agree with it.
my $third = literal($publisher->connstr('third'));
$publisher->safe_psql('postgres', 'CREATE DATABASE third');
$publisher->safe_psql('third', "CREATE EXTENSION iblt_audit CASCADE; CREATE TABLE t (id int PRIMARY KEY, v int)");
foreach my $case ([ 'two nodes', "iblt_repair('t', $there, direction => 'pull', seed => 1, $options)", 'equal by now' ],
	[ 'a majority', "iblt_repair_nodes('public.t', ARRAY[$third, $there, NULL], seed => 1, $options)", 'changed since it was compared' ])
{
	my ($name, $call, $detail) = @$case;
	if ($name eq 'a majority')
	{
		$publisher->safe_psql('postgres', "UPDATE t SET v = 0; INSERT INTO t VALUES $stale ON CONFLICT DO NOTHING");
		$publisher->wait_for_catchup('sub');
		$subscriber->safe_psql('postgres', "DELETE FROM t; INSERT INTO t VALUES " . $publisher->safe_psql('postgres', "SELECT string_agg(format('(%s,%s)', id, v), ',') FROM t"));
		$publisher->safe_psql('third', 'INSERT INTO t VALUES ' . $publisher->safe_psql('postgres', "SELECT string_agg(format('(%s,%s)', id, v), ',') FROM t"));
		$subscriber->safe_psql('postgres', 'UPDATE t SET v = 5 WHERE id BETWEEN 200 AND 219');
	}
	$holder = holding($subscriber, 'BEGIN; SELECT FROM t WHERE id = 210 FOR UPDATE');
	$repair = IbltTest::Session->new($subscriber)->start("SELECT key ->> 'id', action, status, detail FROM $call");
	wait_for($subscriber, 'SELECT count(*) > 0 FROM pg_locks WHERE NOT granted');
	my ($id) = split /\n/, $subscriber->safe_psql('postgres', 'SELECT id FROM t WHERE id BETWEEN 200 AND 219 AND id <> 210 ORDER BY id FOR UPDATE SKIP LOCKED');
	synchronous($publisher, 'nobody');
	my $updating = background($publisher, "UPDATE t SET v = 5 WHERE id = $id");
	wait_for($publisher, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
	$publisher->wait_for_catchup('sub');
	$holder->run('COMMIT');
	until ($repair->ended || $publisher->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'iblt_repair%' AND query LIKE '%iblt_committing(%'")) { }
	synchronous($publisher, '');
	finish($updating);
	like($repair->done, qr/^$id\|update\|skipped\|$detail$/m, "$name: a row that the publisher makes what it was on the subscriber is skipped");
	is($subscriber->safe_psql('postgres', "SELECT v FROM t WHERE id = $id"), '5', "$name: and does not get what the publisher had");
	$_->quit foreach ($repair, $holder);
}

# --- replication in both directions ------------------------------------------------------------

# Inserts flow from west (the subscriber) to east, and deletes from east to west.  A follower may remove a
# row that it has just received from the source, and send that back.  Then the source still shows the row,
# in one version all the time, and the follower never does.  That is a row in flight.
both('CREATE TABLE way (id int PRIMARY KEY, v int); CREATE TABLE other (id int PRIMARY KEY);
	INSERT INTO way SELECT g, 0 FROM generate_series(100, 200) g; INSERT INTO other SELECT generate_series(1, 9)');
$subscriber->safe_psql('postgres', "CREATE PUBLICATION ways FOR TABLE way WITH (publish = 'insert')");
$publisher->safe_psql('postgres', "CREATE PUBLICATION ways FOR TABLE way, other WITH (publish = 'delete')");
$publisher->safe_psql('postgres', "CREATE SUBSCRIPTION from_west CONNECTION ${\ conninfo($subscriber)} PUBLICATION ways WITH (copy_data = false)");
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION from_east CONNECTION ${\ conninfo($publisher)} PUBLICATION ways WITH (copy_data = false)");
subscribed($subscriber, 2, 'from_east');
subscribed($publisher, 1, 'from_west');

my %call = (iblt_compare => "SELECT key ->> 'id', confirmed FROM iblt_compare('way', ${\ conninfo($publisher)}, recheck => 1, progress => true)",
	iblt_compare_nodes => "SELECT key ->> 'id', confirmed FROM iblt_compare_nodes('public.way', ARRAY[NULL, ${\ conninfo($publisher)}], recheck => 1, progress => true)");
my ($receiving, $removing) = map { IbltTest::Session->new($publisher) } 1 .. 2;
my ($keeping, $delaying, $comparing) = map { IbltTest::Session->new($subscriber) } 1 .. 3;
my $id = 0;

# When the comparison asks east again and again how far west has come; or it has ended.
sub waits_for_west
{
	my ($since) = @_;
	my %asked;
	until ($comparing->ended || keys %asked > 5)
	{
		my $at = $publisher->safe_psql('postgres', "SELECT query_start FROM pg_stat_activity WHERE application_name LIKE 'iblt_compare%'
			AND query LIKE '%slot_applied(''from_east'')%' AND query_start > '$since'");
		$asked{$at} = 1 if $at ne '';
	}
	return;
}
sub now { return $publisher->safe_psql('postgres', 'SELECT clock_timestamp()') }

foreach my $function (sort keys %call)
{
	$id++;
	# east receives the row when this session ends its transaction
	$receiving->run("BEGIN; INSERT INTO way VALUES ($id, 0)");
	$subscriber->safe_psql('postgres', "INSERT INTO way VALUES ($id, 1)");
	# west receives a delete when these two have ended theirs
	$delaying->run("BEGIN; SELECT FROM other WHERE id = $id FOR UPDATE");
	$publisher->safe_psql('postgres', "DELETE FROM other WHERE id = $id");
	$keeping->run("BEGIN; SELECT FROM way WHERE id = $id FOR UPDATE");

	my $since = now();
	$comparing->start($call{$function});
	$comparing->seen(qr/waiting .*, to look at 1 keys again/);
	$receiving->run('ROLLBACK');
	waits_for_west($since);
	$removing->run("BEGIN; LOCK TABLE way; DELETE FROM way WHERE id = $id");
	$delaying->run('COMMIT');
	wait_for($publisher, "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'way'::regclass AND NOT granted");
	$since = now();
	$removing->run('COMMIT');
	waits_for_west($since);
	is($subscriber->safe_psql('postgres', "SELECT count(*) FROM way WHERE id = $id"), '1', "$function: west still has the row");
	$keeping->run('COMMIT');
	is($comparing->done, '', "$function: a row that east had and has removed is no difference");
	unlike($comparing->{err}, qr/WARNING|ERROR/, "$function: and nothing is said");
	$comparing->{err} = '';
	wait_for($subscriber, "SELECT count(*) = 0 FROM way WHERE id = $id");
}

$subscriber->safe_psql('postgres', 'DELETE FROM way WHERE id = 150');
foreach my $function (sort keys %call)
{
	is($subscriber->safe_psql('postgres', $call{$function}), '150|t', "$function: what differs indeed is confirmed");
}
$_->quit foreach ($receiving, $removing, $keeping, $delaying, $comparing);

# Rows that do not live until they are looked up.  Nobody knows whether the other side would have got them.
both('CREATE TABLE queue (id int PRIMARY KEY, v text); CREATE TABLE beat (at text)');
$publisher->safe_psql('postgres', "INSERT INTO queue SELECT g, 'job' FROM generate_series(1, 20) AS g; INSERT INTO beat VALUES ('-')");
# before each lookup
sub turns
{
	my ($sql, $node) = @_;
	my $turn = "turned text := public.dblink_exec(${\ conninfo($node // $publisher)}, ${\ literal($sql)});\n\tsides side[]";
	return map { changed($subscriber, $_, 'sides side[]', $turn) } 'find_sides', 'plain_find';
}
my @before = turns(q{UPDATE queue SET id = id + 100; UPDATE beat SET at = at || '-'});
like(failure("SELECT * FROM iblt_compare('$_', $there)"), qr/IB003: rows kept changing: what differed was gone when it was looked up/, "a $_ whose rows do not live until they are looked up") foreach qw(queue beat);
like(failure("SELECT * FROM iblt_compare('queue', $there, recheck => 2)"), qr/IB003: rows kept changing/, 'when they are looked at again');
$publisher->safe_psql('third', 'CREATE TABLE queue (id int PRIMARY KEY, v text)');
like(failure("SELECT * FROM iblt_compare_nodes('public.queue', ARRAY[NULL, $there, $third])"), qr/IB003: rows kept changing/, 'on nodes');
is($subscriber->safe_psql('postgres', "SELECT string_agg(concat_ws(' ', relation, status, rows_here, rows_there, split_part(detail, ':', 1)), ', ' ORDER BY relation) FROM iblt_audit($there, tables => '{public.queue,public.beat}')"),
	'public.beat not comparable 0 1 rows kept changing, public.queue not comparable 0 20 rows kept changing', 'an audit cannot tell');
foreach my $table (qw(queue beat))
{
	my ($rc, $out) = $subscriber->psql('postgres', "SELECT count(*) FROM iblt_compare('$table', $there, method => 'plain')");
	ok($rc != 0 || $out > 0, "a $table by plain queries");
}
$subscriber->safe_psql('postgres', $_) foreach @before;
# gone is gone: the next scan has nothing
@before = turns('TRUNCATE queue');
is($subscriber->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('queue', $there)"), 0, 'rows that are deleted, and none come');
$publisher->safe_psql('postgres', "INSERT INTO queue SELECT g, 'job' FROM generate_series(1, 20) AS g");
is($subscriber->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('queue', $there, method => 'plain')"), 0, 'by plain queries, too');
$subscriber->safe_psql('postgres', $_) foreach @before;
$publisher->safe_psql('postgres', "INSERT INTO queue SELECT g, 'job' FROM generate_series(1, 20) AS g");
# rows that a subscriber makes itself are no deletes in flight
both('CREATE TABLE own (id int PRIMARY KEY, v text)');
$publisher->safe_psql('postgres', 'ALTER PUBLICATION pub ADD TABLE own');
$subscriber->safe_psql('postgres', "ALTER SUBSCRIPTION sub REFRESH PUBLICATION; INSERT INTO own SELECT g, 'own' FROM generate_series(1, 20) AS g");
subscribed($subscriber, 4, 'sub');
@before = turns('UPDATE own SET id = id + 100', $subscriber);
like(failure("SELECT * FROM iblt_compare('own', $there)"), qr/IB003: rows kept changing/, 'rows of the subscriber that do not live until they are looked up');
{
	my ($rc, $out) = $subscriber->psql('postgres', "SELECT count(*) FROM iblt_compare('own', $there, method => 'plain')");
	ok($rc != 0 || $out > 0, 'by plain queries');
}
$subscriber->safe_psql('postgres', $_) foreach @before;
# rows that arrive are equal, and all is not read again in vain
@before = turns(q{INSERT INTO queue VALUES (1000, 'x') ON CONFLICT DO NOTHING});
$subscriber->safe_psql('postgres', "INSERT INTO queue SELECT g, 'job' FROM generate_series(1, 20) AS g; INSERT INTO queue VALUES (1000, 'x')");
is($subscriber->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('queue', $there, method => '$_')"), 0, "a row that arrives ($_)") && $publisher->safe_psql('postgres', 'DELETE FROM queue WHERE id = 1000') foreach qw(sketch plain);
$subscriber->safe_psql('postgres', $_) foreach @before;

# What a run has found, when it is looked at again
foreach my $case (map { my $method = $_; map { [ $_, $method ] } qw(queue jobs) } qw(sketch plain))
{
	my ($table, $method) = @$case;
	both("DROP TABLE IF EXISTS $table; CREATE TABLE $table (id int @{[ $table eq 'queue' ? 'PRIMARY KEY' : '' ]}, v text)");
	my ($turn, $run) = ("UPDATE $table SET id = id + 100");
	my $tables = "SELECT status, missing, split_part(detail, ':', 1) FROM iblt_audit_tables WHERE run = ";
	my $gone = "rows that differed are gone (20 keys), and others may have come";
	foreach my $again ('iblt_audit_recheck(%s)', "iblt_repair(run => %s, direction => 'pull', apply => true)")
	{
		$publisher->safe_psql('postgres', "TRUNCATE $table; INSERT INTO $table SELECT g, 'job' FROM generate_series(1, 20) AS g");
		$run = $subscriber->safe_psql('postgres', "CALL iblt_audit_run('publisher', tables => '{public.$table}', method => '$method', progress => false)");
		$publisher->safe_psql('postgres', $turn);
		$subscriber->safe_psql('postgres', 'SELECT count(*) FROM ' . sprintf $again, $run);
		is($subscriber->safe_psql('postgres', "$tables $run"), "not comparable|0|$gone", "$table, $method: a run of which all is gone ($again)");
		$subscriber->safe_psql('postgres', "CALL iblt_audit_resume($run, progress => false)");
		like($subscriber->safe_psql('postgres', "$tables $run"), qr/^differs\|20\|/, 'it begins again');
	}
	$subscriber->safe_psql('postgres', "SELECT count(*) FROM iblt_repair(run => $run, direction => 'pull', apply => true)");
	like($subscriber->safe_psql('postgres', "$tables $run"), qr/^equal\|0\|/, 'what a repair has changed is not gone');
}

# It goes while a repair waits for its locks.
foreach my $direction ('push', 'pull')
{
	my ($target, $lock) = $direction eq 'push' ? ($publisher, 'UPDATE queue SET id = id + 100') : ($subscriber, 'LOCK TABLE queue IN EXCLUSIVE MODE');
	$subscriber->safe_psql('postgres', 'TRUNCATE queue');
	$publisher->safe_psql('postgres', "TRUNCATE queue; INSERT INTO queue SELECT g, 'job' FROM generate_series(1, 20) AS g");
	my $run = $subscriber->safe_psql('postgres', "CALL iblt_audit_run('publisher', tables => '{public.queue}', progress => false)");
	$holder = IbltTest::Session->new($target);
	$holder->run("BEGIN; $lock");
	$repair = IbltTest::Session->new($subscriber)->start("SELECT DISTINCT status, detail FROM iblt_repair(run => $run, direction => '$direction', apply => true)");
	wait_for($target, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted");
	$publisher->safe_psql('postgres', 'UPDATE queue SET id = id + 100') if $direction eq 'pull';
	$holder->run('COMMIT');
	is($repair->done, 'skipped|equal by now', "$direction: rows that go while the repair waits");
	$_->quit foreach ($repair, $holder);
	is($subscriber->safe_psql('postgres', "SELECT status, missing FROM iblt_audit_tables WHERE run = $run"), 'not comparable|0', 'the table is not equal by that');
}

# One of two equal rows goes.
both('DROP TABLE jobs; CREATE TABLE jobs (id int, v text)');
$publisher->safe_psql('postgres', "INSERT INTO jobs VALUES (1, 'job'), (1, 'job')");
$subscriber->safe_psql('postgres', "INSERT INTO jobs VALUES (1, 'job')");
my $copy = 'UPDATE jobs SET id = 101 WHERE ctid = (SELECT max(ctid) FROM jobs WHERE id = 1) AND NOT EXISTS (SELECT FROM jobs WHERE id = 101)';
{
	my $run = $subscriber->safe_psql('postgres', "CALL iblt_audit_run('publisher', tables => '{public.jobs}', progress => false)");
	@before = turns($copy);
	is($subscriber->safe_psql('postgres', "SELECT key ->> 'id' FROM iblt_compare('jobs', $there, method => '$_')"), 101, "one of two equal rows goes before it is looked up ($_)")
		&& $publisher->safe_psql('postgres', 'UPDATE jobs SET id = 1') foreach qw(sketch plain);
	$subscriber->safe_psql('postgres', $_) foreach @before;
	$publisher->safe_psql('postgres', $copy);
	$subscriber->safe_psql('postgres', "SELECT count(*) FROM iblt_audit_recheck($run)");
	is($subscriber->safe_psql('postgres', "SELECT status, missing FROM iblt_audit_tables WHERE run = $run"), 'not comparable|0', 'or before a run looks again');
	$subscriber->safe_psql('postgres', "INSERT INTO jobs VALUES (101, 'job'); CALL iblt_audit_resume($run, progress => false)");
	is($subscriber->safe_psql('postgres', "SELECT status FROM iblt_audit_tables WHERE run = $run"), 'equal', 'which compares again');
}

# Tables lose more than the rows that differed.
foreach my $again ('iblt_audit_recheck(%s)', "iblt_repair(run => %s, direction => 'pull', apply => true)")
{
	foreach my $case ([ 'whole', 'TRUNCATE whole; INSERT INTO whole VALUES (5, 5)' ], [ 'part', 'ALTER TABLE part DETACH PARTITION part_2; UPDATE part SET v = 5 WHERE id = 5' ])
	{
		my ($table, $change) = @$case;
		both('DROP TABLE IF EXISTS whole, part, part_2; CREATE TABLE whole (id int PRIMARY KEY, v int); INSERT INTO whole SELECT g, g FROM generate_series(1, 1000) g; CREATE TABLE part (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
			CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (500); CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (500) TO (2000); INSERT INTO part SELECT g, g FROM generate_series(1, 1000) g');
		$publisher->safe_psql('postgres', "UPDATE $table SET v = 0 WHERE id = 5");
		my $run = $subscriber->safe_psql('postgres', "CALL iblt_audit_run('publisher', tables => '{public.$table}', progress => false)");
		$publisher->safe_psql('postgres', $change);
		$subscriber->safe_psql('postgres', 'SELECT count(*) FROM ' . sprintf $again, $run);
		my $tables = "SELECT status, split_part(detail, ':', 1) FROM iblt_audit_tables WHERE run = $run";
		is($subscriber->safe_psql('postgres', $tables), 'not comparable|it was truncated or rewritten, or its partitions changed', "$table: what is left is not all ($again)");
		$subscriber->safe_psql('postgres', "CALL iblt_audit_resume($run, progress => false)");
		like($subscriber->safe_psql('postgres', $tables), qr/^differs\|/, 'it is compared again');
	}
}

done_testing();
