# iblt_audit of a subscription on real servers: the answer has every table of the
# subscription, with the counts of a full comparison, and what is on its way is no
# difference (088_compare_live.pl and 098_runs_drift.pl have a load); who may call it; and the rows that a publication lets through.
use IbltAudit;

my ($here, $there) = audit_servers();
inside($here, $there);
my $version = $here->safe_psql('postgres', 'SHOW server_version_num');
my $mine = "extra_columns => 'warn'";    # the subscriber has a column of its own
# another database has a subscription of the same name, which leads nowhere
$there->safe_psql('postgres', 'CREATE DATABASE other');
$there->safe_psql('other', q{CREATE SUBSCRIPTION "Sub" CONNECTION 'host=/nonexistent' PUBLICATION none WITH (connect = false, slot_name = NONE)});

# --- what is found -------------------------------------------------------------------------------
#
# The subscriber is "there"; its tables begin empty.

$here->safe_psql('postgres', "CREATE ROLE repl REPLICATION LOGIN PASSWORD 'pa55word'; GRANT pg_read_all_data TO repl");
hba($here, 'local all repl scram-sha-256', 'local replication repl scram-sha-256');
my $conninfo = "host=${\ $here->host} port=${\ $here->port} dbname=postgres user=repl password=pa55word";

both('CREATE SCHEMA r; CREATE TABLE r.a (id int PRIMARY KEY, v text); CREATE TABLE r.b (id int PRIMARY KEY, v text);
	CREATE TABLE r."C ""c" (id uuid PRIMARY KEY, v text); CREATE TABLE r.later (id int PRIMARY KEY); CREATE TABLE r.gone (id int PRIMARY KEY)');
$here->safe_psql('postgres', q{INSERT INTO r.a SELECT g, md5(g::text) FROM generate_series(1, 5000) g; INSERT INTO r.b SELECT g, 'b' FROM generate_series(1, 300) g;
	INSERT INTO r."C ""c" SELECT md5(g::text)::uuid, 'c' FROM generate_series(1, 300) g;
	CREATE PUBLICATION "First" FOR TABLE r.a, r.b, r.gone; CREATE PUBLICATION second FOR TABLE r."C ""c", r.b});
$there->safe_psql('postgres', qq{ALTER TABLE r.b ADD "mine" int DEFAULT 1; CREATE SUBSCRIPTION "Sub" CONNECTION ${\ literal($conninfo)} PUBLICATION "First", second WITH (slot_name = sub)});
subscribed($there, 4, 'Sub');
{
	my ($got, $err) = audit_subscription("'Sub', $mine");
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'r.a' => 'equal 5000 5000 0 0 0 0', 'r.b' => 'equal 300 300 0 0 0 0',
			'r."C ""c"' => 'equal 300 300 0 0 0 0', 'r.gone' => 'equal 0 0 0 0 0 0' }, 'a subscription to two publications, all ready');
	is($got->{'r.b'}{detail}, 'columns only here: "mine"', 'a column that is not replicated is named');
	is($err, '', 'and there are no warnings');
}
# drift on the subscriber
$there->safe_psql('postgres', q{DELETE FROM r.a WHERE id % 1000 = 1; UPDATE r.a SET v = 'drift' WHERE id % 500 = 2; INSERT INTO r.a SELECT -g FROM generate_series(1, 4) g;
	UPDATE r."C ""c" SET v = NULL WHERE id = (SELECT min(id::text)::uuid FROM r."C ""c")});
{
	my ($got) = audit_subscription("'Sub', $mine");
	is(line($got->{'r.a'}), 'differs 4999 5000 5 4 10 0', 'injected drift is counted');
	is(line($got->{'r.a'}), counts('r.a', node => $there), 'as by a full comparison');
	is(line($got->{'r."C ""c"'}), 'differs 300 300 0 0 1 0', 'in the other publication, too');
	is(line($got->{'r.b'}), 'equal 300 300 0 0 0 0', 'and nowhere else');
	($got) = audit_subscription("'Sub'");
	is(line($got->{'r.b'}), 'not comparable - - - - - -', 'a column of the subscriber alone is an error unless it may be there');
	($got) = audit("publication => 'First', $mine");
	is(line($got->{'r.a'}), counts('r.a'), 'iblt_audit on the publisher finds the same');
}
# published, but not refreshed; subscribed, but not published any more
$here->safe_psql('postgres', 'ALTER PUBLICATION "First" ADD TABLE r.later; ALTER PUBLICATION "First" DROP TABLE r.gone; CREATE TABLE r.unknown (id int PRIMARY KEY); ALTER PUBLICATION second ADD TABLE r.unknown');
{
	my ($got) = audit_subscription("'Sub', $mine");
	is($got->{"r.$_"}{status}, 'not comparable', "r.$_") foreach qw(later gone unknown);
	is($got->{'r.later'}{detail}, 'published, but not subscribed: ALTER SUBSCRIPTION "Sub" REFRESH PUBLICATION', 'not subscribed, with what to do');
	is($got->{'r.unknown'}{detail}, "$got->{'r.later'}{detail}; the table does not exist here", 'and not here');
	like($got->{'r.gone'}{detail}, qr/^subscribed, but not published by the peer/, 'not published');
	is(line($got->{'r.a'}), counts('r.a', node => $there), 'the others are compared');
}
# a table whose copy fails, again and again
$there->safe_psql('postgres', 'INSERT INTO r.later VALUES (1); CREATE TABLE r.unknown (id int PRIMARY KEY)');
$here->safe_psql('postgres', 'INSERT INTO r.later VALUES (1)');
$there->safe_psql('postgres', 'ALTER SUBSCRIPTION "Sub" REFRESH PUBLICATION');
wait_for($there, q{SELECT srsubstate = 'r' FROM pg_subscription_rel WHERE srrelid = 'r.unknown'::regclass});
{
	my ($got) = audit_subscription("'Sub', $mine");
	ok(!$got->{'r.gone'}, 'after a refresh, a table that is not published is not subscribed');
	is($got->{'r.later'}{status}, 'not comparable', 'a table that could not be copied');
	like($got->{'r.later'}{detail}, qr/^the subscription is not ready for this table: state "[id]", /, 'with its state');
	is(line($got->{'r.unknown'}), 'equal 0 0 0 0 0 0', 'the other one is there now');
}
$there->safe_psql('postgres', 'TRUNCATE r.later');
subscribed($there, 5, 'Sub');

# a subscription that is disabled
$there->safe_psql('postgres', 'ALTER SUBSCRIPTION "Sub" DISABLE');
{
	my ($got, $err) = audit_subscription("'Sub', $mine");
	is($got->{'r.a'}{status}, 'not comparable', 'a disabled subscription cannot confirm differences');
	is(line($got->{'r.a'}), counts('r.a', node => $there) =~ s/differs/not comparable/r =~ s/0$/19/r, 'which are shown as unconfirmed');
	like($got->{'r.a'}{detail}, qr/^differences cannot be confirmed: .*; the subscription is disabled$/, 'and why');
	is("$got->{'r.b'}{status}: $got->{'r.b'}{detail}", 'equal: columns only here: "mine"; the subscription is disabled', 'what is equal is equal');
	is($err, '', 'without warnings');
	($got) = audit_subscription("'Sub', recheck => 0, $mine");
	is(line($got->{'r.a'}), counts('r.a', node => $there), 'recheck => 0: not tested, so it differs');
	# what a run has found is not repaired either
	my $run = $there->safe_psql('postgres', q{CALL "Their Iblt".iblt_audit_run(subscription => 'Sub', progress => false)});
	is($there->safe_psql('postgres', qq{SELECT DISTINCT confirmed FROM "Their Iblt".iblt_audit_differences WHERE run = $run AND relation = 'r.a'}), 'f', 'a run does not confirm them either');
	is($there->safe_psql('postgres', qq{SELECT count(*), status, detail FROM "Their Iblt".iblt_repair(run => $run, relation => 'r.a', direction => 'pull', apply => true) GROUP BY 2, 3}),
		'19|skipped|not confirmed: replication of this relation is not ready', 'and iblt_repair skips those that a run has kept');
}
$there->safe_psql('postgres', 'ALTER SUBSCRIPTION "Sub" ENABLE');

# replication that hangs: what is on its way is not known to differ
{
	my $holder = holding($there, 'BEGIN; LOCK TABLE r."C ""c" IN SHARE MODE');
	$here->safe_psql('postgres', q{UPDATE r."C ""c" SET v = 'new'});
	my ($got) = audit_subscription("'Sub', timeout => '1 s', $mine");
	is(line($got->{'r."C ""c"'}), 'not comparable 300 300 0 0 300 300', 'replication that does not pass in time: could not tell');
	like($got->{'r."C ""c"'}{detail}, qr/^300 differences could not be confirmed: replication did not pass in time \(subscription "Sub" has an apply worker, the slot is \d+ \w+ behind\)/, 'and why');
	# the two that differ behind it, r.a and r.b, do not wait for the same position
	$there->safe_psql('postgres', q{UPDATE r.b SET v = 'drift' WHERE id < 4});
	($got, my $err) = audit_subscription("'Sub', timeout => '2 s', progress => true, $mine");
	is(scalar(() = $err =~ /replication has not moved, and is not waited for again/g), 2, 'a stuck subscriber is waited for once, and not once a table');
	like(line($got->{'r.b'}), qr/^not comparable (\d+) \1 0 0 3 3$/, 'whose differences are not confirmed then');
	like($got->{'r.b'}{detail}, qr/replication did not pass in time \(subscription "Sub" has/, 'for that cause');
	($got, $err) = audit_subscription("'Sub', timeout => '2 s', progress => true, max_differences => 2, $mine");
	is(scalar(() = $err =~ /replication has not moved, and is not waited for again/g), 2, 'also where too many rows differ');
	(undef, undef, $err) = $there->psql('postgres', qq{CALL "Their Iblt".iblt_audit_run(subscription => 'Sub', timeout => '2 s', $mine)});
	is(scalar(() = $err =~ /replication did not pass in time, and is not waited for again before it moves/g), 1, 'nor once a table in a run');
	(undef, undef, $err) = $there->psql('postgres', qq{SELECT FROM "Their Iblt".iblt_audit_nodes(ARRAY[NULL, ${\ conninfo($here)}], tables => ARRAY['r."C ""c"', 'r.a'], timeout => '2 s', progress => true)});
	is(scalar(() = $err =~ /replication has not moved, and is not waited for again/g), 1, 'nor once a table of nodes');
	# a run adds up slices, which may have had several causes
	my $hung = $there->safe_psql('postgres', qq{CALL "Their Iblt".iblt_audit_run(${\ conninfo($here)}, tables => '{r.b}', timeout => '1 s', progress => false, $mine)});
	like($there->safe_psql('postgres', qq{SELECT detail FROM "Their Iblt".iblt_audit_table_stats WHERE run = $hung}), qr/^3 differences could not be confirmed: rows kept changing, or replication did not pass in time/, 'a run does not say which cause');
	$holder->run('COMMIT');
	$holder->quit;
	$here->wait_for_catchup('Sub');
	$here->safe_psql('postgres', q{UPDATE r.b SET v = 'b' WHERE id < 4});
	$here->wait_for_catchup('Sub');
	($got) = audit_subscription("'Sub', $mine");
	is(line($got->{'r."C ""c"'}), 'equal 300 300 0 0 0 0', 'once it has passed, it is equal (and the drift was overwritten)');
}

# an apply worker that a conflict has stopped
{
	my $retry = sub { $there->safe_psql('postgres', "ALTER SYSTEM SET wal_retrieve_retry_interval = '$_[0]'"); $there->reload; wait_for($there, "SELECT current_setting('wal_retrieve_retry_interval') = '$_[0]'") };
	$retry->('1h');
	$there->safe_psql('postgres', q{INSERT INTO r.b (id) VALUES (9000)});
	$here->safe_psql('postgres', q{INSERT INTO r.b (id) VALUES (9000), (9001)});
	wait_for($there, q{SELECT count(*) = 0 FROM pg_stat_subscription WHERE subname = 'Sub' AND pid IS NOT NULL});
	my ($got) = audit_subscription("'Sub', timeout => '1 s', $mine");
	like($got->{'r.b'}{detail}, qr/^\d differences could not be confirmed: replication did not pass in time \(subscription "Sub" has no apply worker, and the log of its server says why, nothing is connected to the slot, which is \d+ \w+ behind\)/, 'a worker that has ended is named as the cause');
	$there->safe_psql('postgres', 'DELETE FROM r.b WHERE id = 9000');
	$retry->('1s');
	$here->wait_for_catchup('Sub');
	($got) = audit_subscription("'Sub', $mine");
	is($got->{'r.b'}{status}, 'equal', 'and when it runs again, the table is equal');
}

# partitions: the root is published for a plain table, leaves for plain tables
{
	both('CREATE TABLE r.root (id int, v int) PARTITION BY RANGE (id)');
	$there->safe_psql('postgres', 'DROP TABLE r.root; CREATE TABLE r.root (id int, v int); CREATE TABLE r.low (v int, id int); CREATE TABLE r.high (id int, v int) PARTITION BY LIST (v);
		CREATE TABLE r.any PARTITION OF r.high DEFAULT');
	$here->safe_psql('postgres', 'CREATE TABLE r.low PARTITION OF r.root FOR VALUES FROM (MINVALUE) TO (100); CREATE TABLE r.high PARTITION OF r.root FOR VALUES FROM (100) TO (MAXVALUE);
		INSERT INTO r.root SELECT g, g FROM generate_series(1, 300) g; CREATE PUBLICATION by_root FOR TABLE r.root WITH (publish_via_partition_root = true); CREATE PUBLICATION by_leaf FOR TABLE r.root');
	$there->safe_psql('postgres', "CREATE SUBSCRIPTION by_root CONNECTION ${\ literal($conninfo)} PUBLICATION by_root; CREATE SUBSCRIPTION by_leaf CONNECTION ${\ literal($conninfo)} PUBLICATION by_leaf");
	subscribed($there, 1, 'by_root');
	subscribed($there, 2, 'by_leaf');
	$there->safe_psql('postgres', 'DELETE FROM r.root WHERE id IN (3, 4); DELETE FROM r.high WHERE v = 200; INSERT INTO r.high VALUES (7, 7)');
	my ($got) = audit_subscription("'by_root'");
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'r.root' => 'differs 298 300 2 0 0 0' }, 'a partitioned root and a plain table');
	($got) = audit_subscription("'by_leaf'");
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'r.low' => 'equal 99 99 0 0 0 0', 'r.high' => 'differs 201 201 1 1 0 0' }, 'leaves, of which one is partitioned here');
	$there->safe_psql('postgres', "DROP SUBSCRIPTION by_$_") foreach qw(root leaf);
}

# a standby of the publisher as the peer, which does not have the slot
{
	my $standby = standby($here, 'standby');
	my ($got) = audit_subscription("'Sub', peer => ${\ conninfo($standby)}, $mine");
	is(line($got->{'r.a'}), counts('r.a', node => $there) =~ s/differs/not comparable/r =~ s/0$/19/r, 'a standby of the publisher');
	like($got->{'r.a'}{detail}, qr/^differences cannot be confirmed: .* or there is a standby between them\)$/, 'with what it cannot do');
	is(line($got->{'r.b'}), counts('r.b', node => $there, columns => 'id, v'), 'and where rows are equal');
	$standby->stop;
}
like(failure(q(BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM "Their Iblt".iblt_audit(subscription => 'Sub')), node => $there), qr/25001: cannot recheck differences/,
	'a subscription is not audited within one snapshot');
like(failure(q(SELECT * FROM "Their Iblt".iblt_audit(subscription => 'sub')), node => $there), qr/42704: subscription "sub" does not exist in this database/, 'a subscription that does not exist');
like(failure(q(SELECT * FROM "Their Iblt".iblt_audit(subscription => NULL)), node => $there), qr/22004: peer must not be null/, 'or none');

# --- rights and passwords ----------------------------------------------------------------------------

{
	$there->safe_psql('postgres', 'CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA r, "Their Iblt" TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA r TO reader');
	my $call = q{SELECT count(*) FROM "Their Iblt".iblt_audit(subscription => 'Sub'};
	my $err = failure("$call)", node => $there, user => 'reader');
	like($err, qr/42501: permission denied to read the connection string of subscription "Sub"/, 'without a right to read the connection string: an error');
	like($err, qr/GRANT SELECT \(subconninfo\) ON pg_catalog.pg_subscription TO reader .*or give peer/, 'with what to do');
	is($there->safe_psql('postgres', "$call, peer => ${\ literal($conninfo)})", extra_params => [ '-U', 'reader' ]), '5', 'with a peer, the right is not needed');
	$there->safe_psql('postgres', 'GRANT SELECT (subconninfo) ON pg_catalog.pg_subscription TO reader');
	is($there->safe_psql('postgres', "$call)", extra_params => [ '-U', 'reader' ]), '5', 'with the right granted');
	$there->safe_psql('postgres', 'REVOKE SELECT (subconninfo) ON pg_catalog.pg_subscription FROM reader');
	like(failure("$call)", node => $there, user => 'reader'), qr/42501: permission denied to read/, 'without it again');
	$there->safe_psql('postgres', 'GRANT pg_read_all_data TO reader');
	is($there->safe_psql('postgres', "$call)", extra_params => [ '-U', 'reader' ]), '5', 'as a member of pg_read_all_data');
	$there->safe_psql('postgres', 'REVOKE pg_read_all_data FROM reader');
	# one table may not be read, one has row-level security
	$there->safe_psql('postgres', 'REVOKE SELECT ON r.b FROM reader; ALTER TABLE r.a ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON r.a USING (id > 0)');
	my ($got) = audit_subscription("'Sub', peer => ${\ literal($conninfo)}, $mine", user => 'reader');
	is("$got->{'r.b'}{status} $got->{'r.b'}{sqlstate} " . ($got->{'r.b'}{detail} =~ /^(permission denied for table b)/)[0], 'error 42501 permission denied for table b', 'a table that may not be read is an error');
	is("$got->{'r.a'}{status} $got->{'r.a'}{sqlstate}", 'error 42501', 'and so is one whose rows a policy would hide');
	is($got->{$_}{status}, 'equal', "$_ is compared") foreach ('r.later', 'r.unknown', 'r."C ""c"');
	$there->safe_psql('postgres', 'ALTER TABLE r.a DISABLE ROW LEVEL SECURITY');
	$here->safe_psql('postgres', 'CREATE ROLE few LOGIN PASSWORD \'pa55word\'; GRANT USAGE ON SCHEMA r TO few; GRANT SELECT ON r.a, r.later, r.unknown TO few');
	($got) = audit_subscription("'Sub', peer => ${\ literal($conninfo =~ s/user=repl/user=few/r)}, $mine");
	is("$got->{'r.b'}{status} $got->{'r.b'}{sqlstate}: $got->{'r.b'}{detail}", 'error 42501: on the peer: permission denied for table b; columns only here: "mine"' =~ s/;.*//r, 'no right on a table there');
	is(line($got->{'r.a'}), counts('r.a', node => $there), 'the others are compared');
}
{
	my $before = -s $there->logfile;
	my $before_here = -s $here->logfile;
	my $wrong = $conninfo =~ s/pa55word/s3cr3t/r;
	$there->safe_psql('postgres', qq(ALTER SUBSCRIPTION "Sub" DISABLE; ALTER SUBSCRIPTION "Sub" CONNECTION ${\ literal($wrong)}));
	my $err = failure(q(SELECT * FROM "Their Iblt".iblt_audit(subscription => 'Sub')), node => $there);
	like($err, qr/could not connect to the peer.*password authentication failed/s, 'a wrong password in the subscription');
	unlike($err, qr/s3cr3t/, 'is not in the error');
	$there->safe_psql('postgres', qq(ALTER SUBSCRIPTION "Sub" CONNECTION ${\ literal($conninfo)}; ALTER SUBSCRIPTION "Sub" ENABLE));
	# errors further on, with a right password
	failure(qq(SELECT * FROM "Their Iblt".iblt_audit(${\ literal($conninfo)}, schema => 'no such')), node => $there);
	both('CREATE TABLE typed (id int PRIMARY KEY)');
	$here->safe_psql('postgres', 'ALTER TABLE typed ALTER id TYPE bigint');
	audit("tables => '{typed}'", node => $there, peer => literal($conninfo));
	unlike(slurp_file($there->logfile, $before) . slurp_file($here->logfile, $before_here), qr/s3cr3t|pa55word/, 'nor do the logs show a password');
	nothing_left('after errors with passwords', $here, $there);
}
# What auto_explain logs of nested statements, with plans and parameters, does not
# have the string; what it logs of the statement that was sent has it, if it was in there.
{
	my $explain = "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
		SET auto_explain.log_verbose = on;";
	my $string = literal($conninfo);
	foreach my $call ("iblt_compare('r.a', $string)", "iblt_audit($string, '{r.a}')", "iblt_audit(subscription => 'Sub', peer => $string)",
		"iblt_repair('r.a', $string, direction => 'pull')", "iblt_audit(subscription => 'Sub')",
		"iblt_compare_nodes('r.a', ARRAY[NULL, $string])", "iblt_audit_nodes(ARRAY[NULL, $string], '{r.a}')")
	{
		my $name = $call =~ s/\(.*//r;
		my $before = -s $there->logfile;
		$there->safe_psql('postgres', qq($explain SELECT count(*) AS as_sent FROM "Their Iblt".$call));
		my @entries = split /^(?=\d{4}-\d\d-\d\d )/m, slurp_file($there->logfile, $before);
		my ($nested, $sent) = map { join '', @$_ } [ grep { !/as_sent/ } @entries ], [ grep { /as_sent/ } @entries ];
		like($nested, qr/Query Text: SELECT [^\n]*peers_close\(/, "$name: auto_explain logs nested statements");
		unlike($nested, qr/pa55word/, "$name: without the password");
		like($sent, qr/pa55word/, "$name: which the log has, where it was sent") if $call =~ /pa55word/;
		unlike($sent, qr/pa55word/, "$name: nor does the log have it at all, where it was not sent") if $call !~ /pa55word/;
	}
}

# --- row filters of subscriptions ------------------------------------------------------------------------

if ($version >= 150000)
{
	both('CREATE TABLE r.f (id int PRIMARY KEY, v text, key int); CREATE TABLE r.g (id int PRIMARY KEY, v text); CREATE TABLE r.g2 (LIKE r.g INCLUDING ALL); CREATE TABLE r.h (id int PRIMARY KEY, v text, w text)');
	$here->safe_psql('postgres', q{INSERT INTO r.f SELECT g, 'v', g FROM generate_series(1, 1000) g; INSERT INTO r.g SELECT g, 'v' FROM generate_series(1, 1000) g; INSERT INTO r.h SELECT g, 'v', 'w' || g FROM generate_series(1, 1000) g;
		CREATE PUBLICATION f1 FOR TABLE r.f WHERE (id <= 100), r.h (id, v) WHERE (id > 900); CREATE PUBLICATION f2 FOR TABLE r.f WHERE (id > 800);
		CREATE PUBLICATION g1 FOR TABLE r.g WHERE (id % 2 = 0), r.g2 WHERE (id = 0); CREATE PUBLICATION g2 FOR TABLE r.g WHERE (id % 2 = 1), r.g2 WHERE (id = 1)});
	$there->safe_psql('postgres', qq{CREATE SUBSCRIPTION s_f CONNECTION ${\ literal($conninfo)} PUBLICATION f1, f2;
		CREATE SUBSCRIPTION s_g1 CONNECTION ${\ literal($conninfo)} PUBLICATION g1; CREATE SUBSCRIPTION s_g2 CONNECTION ${\ literal($conninfo)} PUBLICATION g2});
	subscribed($there, 2, 's_f');
	subscribed($there, 2, "s_g$_") foreach (1, 2);
	my ($got) = audit_subscription("'s_f'");
	is(line($got->{'r.f'}), 'equal 300 300 0 0 0 0', 'two publications with row filters: rows of either');
	is($got->{'r.f'}{detail}, 'row filter ((id <= 100)) OR ((id > 800))', 'as the detail says');
	is(line($got->{'r.h'}), 'equal 100 100 0 0 0 0', 'a row filter with a column list');
	like($got->{'r.h'}{detail}, qr/^columns not published: "w"; row filter \(\(id > 900\)\)$/, 'as the detail says');
	$there->safe_psql('postgres', "INSERT INTO r.f VALUES (500, 'no such row', 1), (501, 'v', 501); UPDATE r.f SET v = 'x' WHERE id = 7; DELETE FROM r.h WHERE id = 999; UPDATE r.h SET w = 'own'");
	($got) = audit_subscription("'s_f'");
	is(line($got->{'r.f'}), 'differs 302 300 0 2 1 0', 'rows that the filter does not let through are extra on the subscriber');
	is(line($got->{'r.f'}), counts('r.f', node => $there, peer_where => 'id <= 100 OR id > 800'), 'as in a full comparison');
	is(line($got->{'r.h'}), 'differs 99 100 1 0 0 0', 'columns that are not published do not count');
	($got) = audit("publication => 'f1'");
	is(line($got->{'r.f'}), 'differs 100 100 0 0 1 0', 'one publication of two: its rows on both sides');
	is(line($got->{'r.h'}), 'differs 100 99 0 1 0 0', 'a table that only this one has: all rows of the subscriber');
	($got) = audit_subscription("'s_g1'");
	is("$got->{'r.g'}{status} $got->{'r.g'}{detail}", 'not comparable refusing to run the peer\'s row filter here: Rows here may come from elsewhere, so the filter must select them. '
		. 'Set trust_filters => true to run this condition: (((id % 2) = 0))', 'two subscriptions feed a table: what a peer says is not run');
	foreach my $method (qw(sketch plain))
	{
		($got) = audit_subscription("'s_g1', method => '$method'");
		is(join(' ', map { $got->{$_}{status} } qw(r.g r.g2)), 'not comparable not comparable', "and none is left to be compared together with others ($method)");
	}
	($got) = audit_subscription("'s_g1', trust_filters => true");
	is(line($got->{'r.g'}), 'equal 500 500 0 0 0 0', 'two subscriptions feed a table: rows of the one');
	is($got->{'r.g'}{detail}, 'row filter (((id % 2) = 0)) on both sides, since rows of the subscriber may be from elsewhere; fed by subscriptions "s_g1", "s_g2"', 'as the detail says');
	$there->safe_psql('postgres', "UPDATE r.g SET v = 'x' WHERE id IN (5, 6, 8)");
	($got) = audit_subscription("'s_g2', trust_filters => true");
	is(line($got->{'r.g'}), 'differs 500 500 0 0 1 0', 'and of the other');
	# a filter on a text, with names that could be taken for others
	both('CREATE TABLE r.k (id text PRIMARY KEY, key int, t int)');
	$here->safe_psql('postgres', "INSERT INTO r.k SELECT 'k' || g, g, g FROM generate_series(1, 100) g; CREATE PUBLICATION k FOR TABLE r.k WHERE (id <> 'k5' AND t > 0)");
	$there->safe_psql('postgres', qq(CREATE SUBSCRIPTION s_k CONNECTION ${\ literal($conninfo)} PUBLICATION k));
	subscribed($there, 1, 's_k');
	$there->safe_psql('postgres', q(UPDATE r.k SET key = 0 WHERE id = 'k7'));
	($got) = audit_subscription("'s_k'");
	is(line($got->{'r.k'}), 'differs 99 99 0 0 1 0', 'a textual key and a column named t');
	# a published column that the subscriber lacks
	$there->safe_psql('postgres', 'ALTER SUBSCRIPTION s_k DISABLE; ALTER TABLE r.k DROP key');
	($got) = audit_subscription("'s_k'");
	is("$got->{'r.k'}{status} $got->{'r.k'}{detail}", q(not comparable published columns are not here: "key"; add them to the subscriber. Logical replication needs them there; the subscription is disabled), 'a published column that is not here');
	$there->safe_psql('postgres', "DROP SUBSCRIPTION $_") foreach qw(s_f s_g1 s_g2 s_k);
	# each publication of a table adds rows and columns
	$here->safe_psql('postgres', q{CREATE TABLE r.several (id int PRIMARY KEY, v int, twice int GENERATED ALWAYS AS (v * 2) STORED); CREATE PUBLICATION n_all FOR TABLE r.several;
		CREATE PUBLICATION n_1 FOR TABLE r.several WHERE (id > 1); CREATE PUBLICATION n_2 FOR TABLE r.several WHERE (id > 2); CREATE PUBLICATION n_3 FOR TABLE r.several WHERE (id > 1);
		CREATE PUBLICATION n_v FOR TABLE r.several (v) WITH (publish = 'insert'); CREATE PUBLICATION n_id FOR TABLE r.several (id) WITH (publish = 'insert')});
	is($here->safe_psql('postgres', q{SELECT p, t ->> 'filter', jsonb_path_query_array(t, '$.unpublished[*].name') FROM unnest('{n_1,"n_2,n_1,n_3","n_1,n_all",n_all,n_v,"n_v,n_id","n_v,n_all"}'::text[]) AS p,
		jsonb_array_elements(iblt_internal.audit_published(string_to_array(p, ',')) -> 'tables') AS t}),
		join("\n", 'n_1|((id > 1))|["twice"]', 'n_2,n_1,n_3|((id > 1)) OR ((id > 2))|["twice"]', 'n_1,n_all||["twice"]', 'n_all||["twice"]', 'n_v||["id", "twice"]', 'n_v,n_id||["twice"]', 'n_v,n_all||["twice"]'), 'filters and columns of several publications');
	$there->safe_psql('postgres', qq(CREATE TABLE r.several (id int PRIMARY KEY, v int, twice int); CREATE SUBSCRIPTION s_n CONNECTION ${\ literal($conninfo)} PUBLICATION n_all));
	$here->safe_psql('postgres', 'INSERT INTO r.several SELECT g, g FROM generate_series(1, 10) g');
	subscribed($there, 1, 's_n');
	($got) = audit_subscription("'s_n'");
	is(line($got->{'r.several'}) . ": $got->{'r.several'}{detail}", 'equal 10 10 0 0 0 0: columns not published: "twice"', 'a generated column does not travel');
}

# --- what the peer does not have ---------------------------------------------------------------------------

$there->safe_psql('postgres', 'ALTER SUBSCRIPTION "Sub" SET PUBLICATION "First", ghost, second WITH (refresh = false)');
{
	my ($got) = audit_subscription("'Sub', recheck => 0, $mine");
	is($got->{$_}{detail} =~ s/.*; //r, 'publication "ghost" does not exist on the peer', "$_: a publication that the peer does not have is named") foreach ('r.a', 'r.b');
}
$there->safe_psql('postgres', 'ALTER SUBSCRIPTION "Sub" SET PUBLICATION "First", second WITH (refresh = false); ALTER SUBSCRIPTION "Sub" DISABLE; ALTER SUBSCRIPTION "Sub" SET (slot_name = elsewhere)');
{
	my ($got, $err) = audit_subscription("'Sub', progress => true, $mine");
	is(line($got->{'r.a'}), counts('r.a', node => $there), 'a peer that does not have the slot: what differs stays');
	like($err, qr/comparing r\.a with r\.a.*waiting for replication, to look at 19 keys again.*table \d of 5, r\.a: differs/s, 'and was looked at again');
	is($got->{'r.a'}{detail}, "the subscription is disabled; the peer does not have the subscription's slot, so the audit did not wait for replication", 'as the detail says');
}
$there->safe_psql('postgres', 'ALTER SUBSCRIPTION "Sub" SET (slot_name = sub); ALTER SUBSCRIPTION "Sub" ENABLE');

# --- PostgreSQL 19: what a publication of all tables leaves out, and sequences ------------------------------

if ($version >= 190000)
{
	foreach my $node ($here, $there)
	{
		$node->safe_psql('postgres', 'CREATE DATABASE nineteen');
		$node->safe_psql('nineteen', 'CREATE EXTENSION dblink; CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY);
			CREATE TABLE left_out (id int PRIMARY KEY); CREATE SEQUENCE counter');
	}
	$here->safe_psql('nineteen', q{INSERT INTO a VALUES (1); INSERT INTO left_out VALUES (1); SELECT setval('counter', 100);
		CREATE PUBLICATION every FOR ALL TABLES EXCEPT (TABLE left_out), ALL SEQUENCES});
	$there->safe_psql('nineteen', "CREATE SUBSCRIPTION every CONNECTION ${\ literal($here->connstr('nineteen'))} PUBLICATION every");
	$there->poll_query_until('nineteen', "SELECT count(*) = 3 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel") or die 'no subscription';
	my $listed = sub { my ($node, $what) = @_; return $node->safe_psql('nineteen', "SELECT relation, status, rows_here FROM iblt_audit($what) ORDER BY relation") };
	is($listed->($there, q{subscription => 'every'}), "public.a|equal|1\npublic.b|equal|0", 'a subscription of all tables but one, and of sequences');
	is($listed->($here, literal($there->connstr('nineteen')) . q{, publication => 'every'}), "public.a|equal|1\npublic.b|equal|0", 'and its publication');
	$here->safe_psql('nineteen', "SELECT setval('counter', 200)");
	my $structure = "SELECT kind, object, property, here, there FROM iblt_audit_structure(${\ literal($here->connstr('nineteen'))}) WHERE kind IN ('sequence', 'table')";
	is($there->safe_psql('nineteen', $structure), 'sequence|public.counter|next value|101|201', 'the sequence is told of by an audit of the structure');
	$there->safe_psql('nineteen', 'ALTER SUBSCRIPTION every REFRESH SEQUENCES');
	$there->poll_query_until('nineteen', "SELECT last_value = 200 FROM counter") or die 'not refreshed';
	is($there->safe_psql('nineteen', $structure), '', 'until it is refreshed');
	# what the subscription has from before is told, not compared
	$here->safe_psql('nineteen', 'ALTER PUBLICATION every SET ALL TABLES EXCEPT (TABLE left_out, b), ALL SEQUENCES');
	is($listed->($there, q{subscription => 'every'}), "public.a|equal|1\npublic.b|not comparable|", 'a table that is left out later');
	$there->safe_psql('nineteen', 'DROP SUBSCRIPTION every');
}

$there->safe_psql('postgres', 'DROP SUBSCRIPTION "Sub"');
nothing_left('in the end', $here, $there);

done_testing();
