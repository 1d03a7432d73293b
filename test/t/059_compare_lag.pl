# More rows in flight than max_differences: iblt_compare, audits and repair wait for
# replication and compare once more before they say that too many rows differ.  Where
# replication does not pass, nobody can know, and the error is another one (IB003).
use IbltCompare;

# So few buffers that scans of these tables join others, and begin where those are.
my $publisher = server('publisher', 'shared_buffers = 1MB');
my $subscriber = server('subscriber', 'shared_buffers = 1MB');
sides($subscriber, $publisher);
both('CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE EXTENSION dblink;
	CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE by_text (id text PRIMARY KEY, v int)');
$publisher->safe_psql('postgres', 'INSERT INTO t SELECT g, 0 FROM generate_series(1, 20000) g;
	INSERT INTO by_text SELECT g, 0 FROM generate_series(1, 20000) g; CREATE PUBLICATION pub FOR TABLE t, by_text');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION ${\ conninfo($publisher)} PUBLICATION pub");
subscribed($subscriber, 2);
my %peer = ($subscriber => $publisher, $publisher => $subscriber);
my ($holder, $other) = map { IbltTest::Session->new($subscriber) } 1 .. 2;

# The apply worker of the subscriber waits for this session until it ends its transaction.
sub hold { my ($table) = @_; $holder->run("BEGIN; LOCK TABLE $table IN SHARE MODE"); return }
sub release { $holder->run('COMMIT'); $publisher->wait_for_catchup('sub'); return }

sub call
{
	my ($node, $table, $options) = @_;
	return "SELECT key ->> 'id', side, confirmed FROM iblt_compare('$table', ${\ conninfo($peer{$node})}, max_differences => 1000" . ($options ? ", $options" : '') . ')';
}

sub rows_of { my ($table) = @_; return $subscriber->safe_psql('postgres', "SELECT md5(string_agg(x::text, ',' ORDER BY id)) FROM $table AS x") }

# The number in an error is exact, or it is an estimate: of changed rows, its standard
# deviation is 9 %, and it is less than 16 % of others.
sub number_is
{
	my ($error, $number, $deviation, $text) = @_;
	my ($found) = $error =~ /: about (\d+) keys differ, and max_differences is 1000$/m;
	return ok(defined $found && abs($found - $number) < 5 * $deviation * $number, "$text: about $number") || diag($error);
}

# --- replication passes while it is waited for ---------------------------------------------

my @changes = (
	[ 't', 'UPDATE t SET v = v + 1', '20,000 updates' ],
	[ 't', 'INSERT INTO t SELECT g, 0 FROM generate_series(20001, 40000) g', '20,000 inserts' ],
	[ 't', 'DELETE FROM t WHERE id > 20000', '20,000 deletes' ],
	[ 'by_text', 'UPDATE by_text SET v = v + 1', '20,000 updates by text' ]);
foreach my $node ($subscriber, $publisher)
{
	foreach my $change (@changes)
	{
		my ($table, $sql, $text) = @$change;
		$text .= ' in flight, from the ' . $node->name;
		hold($table);
		$publisher->safe_psql('postgres', $sql);
		my $session = IbltTest::Session->new($node)->start(call($node, $table, 'progress => true'));
		$session->seen(qr/more than 1000 keys differ: waiting for replication, to compare once more/);
		release();
		is($session->done, '', "$text: no difference");
		unlike($session->{err}, qr/ERROR/, "$text: no error");
		my ($estimated) = $session->{err} =~ /: about (\d+) keys differ/;
		cmp_ok(abs($estimated - 20000), '<', 5 * 0.16 * 20000, "$text: the progress says how many keys differed");
		is($session->run('SELECT differences, settled, rows_here = rows_there FROM iblt_compare_stats()'), '0|0|t', "$text: the figures are those of the end");
		$session->quit;
	}
}

# What differs besides is found and confirmed, and a repair changes this alone.
$subscriber->safe_psql('postgres', 'UPDATE t SET v = -1 WHERE id = 5; DELETE FROM t WHERE id = 6; INSERT INTO t VALUES (50000, 0)');
foreach my $repair (0, 1)
{
	hold('t');
	$publisher->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id > 6');
	my $session = IbltTest::Session->new($subscriber);
	$session->start($repair
		? "SELECT key ->> 'id', action, status FROM iblt_repair('t', ${\ conninfo($publisher)}, direction => 'pull', max_differences => 1000, apply => true, progress => true)"
		: call($subscriber, 't', 'progress => true'));
	$session->seen(qr/waiting for replication, to compare once more/);
	release();
	is(join(', ', sort split /\n/, $session->done), $repair ? '50000|delete|applied, 5|update|applied, 6|insert|applied' : '50000|here|t, 5|both|t, 6|there|t',
		$repair ? 'a repair waits, too, and changes what differs' : 'what differs besides is confirmed');
	$session->quit;
}
is($subscriber->safe_psql('postgres', call($subscriber, 't')), '', 'after it, nothing differs');

# An audit goes the same way.
{
	hold('t');
	$publisher->safe_psql('postgres', 'UPDATE t SET v = v + 1');
	my $session = IbltTest::Session->new($subscriber)->start('SELECT status, missing, extra, changed, sqlstate FROM ' . audit_stats(q{iblt_audit(subscription => 'sub', max_differences => 1000, progress => true)}) . q{ AS a WHERE relation = 'public.t'});
	$session->seen(qr/waiting for replication, to compare once more/);
	release();
	is($session->done, 'equal|0|0|0|', 'an audit: equal');
	$session->quit;
}

# --- replication does not pass ---------------------------------------------------------------

my @audit = map { "SELECT status, sqlstate, detail FROM ${\ audit_stats($_)} AS a WHERE relation = 'public.t'" }
  ("iblt_audit(subscription => 'sub', max_differences => 1000, timeout => '1 s')", "iblt_audit(${\ conninfo($publisher)}, '{t}', max_differences => 1000, timeout => '1 s')");
my $repair = "SELECT * FROM iblt_repair('t', ${\ conninfo($publisher)}, direction => 'pull', max_differences => 1000, apply => true, timeout => '1 s')";

hold('t');
$publisher->safe_psql('postgres', 'UPDATE t SET v = v + 1');
my $before = rows_of('t');
foreach my $node ($subscriber, $publisher)
{
	my $error = failure(call($node, 't', "timeout => '1 s'"), node => $node);
	my $text = 'replication does not pass, from the ' . $node->name;
	like($error, qr/ERROR:  IB003: too many differences to confirm: about/, "$text: an error of its own");
	like($error, qr/DETAIL:  These may be rows in flight. iblt did not see replication pass within the timeout \(00:00:01\): replication did not pass in time \(subscription "sub" has an apply worker, the slot is .* behind\)\./, "$text: why");
	number_is($error, 20000, 0.09, $text);
}
like($subscriber->safe_psql('postgres', $_), qr/^not comparable\|IB003\|too many differences to confirm: about \d+ keys differ, and max_differences is 1000: These may be rows in flight/,
	'replication does not pass: an audit could not tell') foreach @audit;
like(failure($repair), qr/IB003: too many differences to confirm/, 'replication does not pass: nor could a repair');
is(rows_of('t'), $before, 'and it changed nothing');
# Who does not want to wait is told at once.
like(failure(call($subscriber, 't', 'recheck => 0')), qr/IB002: too many differences: about/, 'recheck => 0: too many');
like($subscriber->safe_psql('postgres', $audit[0] =~ s/timeout/recheck => 0, timeout/r), qr/^differs\|IB002\|/, 'recheck => 0: an audit says "differs"');
release();

# A subscription that is disabled is not waited for, and nothing is scanned twice.
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION sub DISABLE');
$publisher->safe_psql('postgres', 'UPDATE t SET v = v + 1');
{
	my $error = failure(call($subscriber, 't', "timeout => '1 year', progress => true"));
	like($error, qr/ERROR:  IB003: too many differences to confirm: about/, 'a disabled subscription: too many to confirm');
	like($error, qr/DETAIL:  These may be rows in flight. Replication of this relation is not ready\. /, 'the detail says why');
	is(scalar(() = $error =~ /NOTICE: .*sketches of/g), 1, 'one scan');
	like($subscriber->safe_psql('postgres', $_), qr/^not comparable\|IB003\|/, 'an audit could not tell') foreach @audit;
	$before = rows_of('t');
	like(failure($repair), qr/IB003: too many differences to confirm/, 'nor could a repair');
	is(rows_of('t'), $before, 'which changed nothing');
}
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION sub ENABLE');
$publisher->wait_for_catchup('sub');
is($subscriber->safe_psql('postgres', call($subscriber, 't')), '', 'enabled again: no difference');

# --- other rows are in flight each time ------------------------------------------------------

# The second transaction is visible on the publisher as soon as the first has reached
# the subscriber: that the rows of both differ says nothing.
{
	my $writer = IbltTest::Session->new($publisher);
	my $peer = "FROM pg_stat_activity WHERE application_name = 'iblt_compare public.t'";
	hold('t');
	$publisher->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id <= 10000');
	my $session = IbltTest::Session->new($subscriber)->start(call($subscriber, 't', "progress => true"));
	$session->seen(qr/waiting for replication, to compare once more/);
	# it waits for a position when it has asked for the slot's several times
	my %asked;
	while (keys %asked < 6)
	{
		my $at = $publisher->safe_psql('postgres', "SELECT query_start $peer AND query LIKE '%slot_applied(%'");
		$asked{$at} = 1 if $at ne '';
	}
	$writer->run('BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; UPDATE t SET v = v + 1 WHERE id > 10000');
	$holder->run('COMMIT');
	wait_for($publisher, "SELECT count(*) = 1 $peer AND wait_event_type = 'Lock'");
	wait_for($subscriber, "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $session->{pid}");
	hold('t');
	$writer->run('COMMIT');
	is($session->done, '', 'other rows in flight: none is returned');
	like($session->{err}, qr/ERROR:  IB003: too many differences to confirm: about \d+ keys differ/, 'other rows in flight: too many to confirm');
	like($session->{err}, qr/DETAIL:  These may be rows in flight. Most of them did not differ before replication passed\./, 'the detail says why');
	release();
	$_->quit foreach ($session, $writer);
}

# --- too many, indeed ------------------------------------------------------------------------

# [ what makes them, which table, how many keys, standard deviation of the estimate ]
foreach my $case (
	[ 'UPDATE t SET v = -1 WHERE id <= 20000', 't', 20000, 0.09 ],
	[ 'DELETE FROM t WHERE id <= 18000', 't', 20000, 0.16 ],
	[ 'UPDATE by_text SET v = -1', 'by_text', 20000, 0.09 ])
{
	my ($sql, $table, $number, $deviation) = @$case;
	$subscriber->safe_psql('postgres', $sql);
	$before = rows_of($table);
	foreach my $node ($subscriber, $publisher)
	{
		my $error = failure(call($node, $table, 'progress => true'), node => $node);
		my $text = "$sql, from the " . $node->name;
		like($error, qr/ERROR:  IB002: too many differences: about/, "$text: too many differences");
		like($error, qr/DETAIL:  No differences are returned\. .*Replication had passed before the relations were compared once more\./, "$text: after replication has passed");
		number_is($error =~ s/^.*NOTICE.*\n//mgr, $number, $deviation, $text);
		my $scans = () = $error =~ /waiting for replication, to compare once more/g;
		is($scans, 1, "$text: compared once more");
	}
	is($subscriber->safe_psql('postgres', "SELECT status, sqlstate FROM ${\ audit_stats(q{iblt_audit(subscription => 'sub', max_differences => 1000)})} AS a WHERE relation = 'public.$table'"), 'differs|IB002', "$sql: an audit says that it differs");
	like(failure($repair =~ s/'t'/'$table'/r), qr/IB002: too many differences: about/, "$sql: a repair refuses");
	is(rows_of($table), $before, "$sql: and changes nothing");
}

# A number that is known is no estimate.
$publisher->safe_psql('postgres', 'TRUNCATE t; INSERT INTO t SELECT g, 0 FROM generate_series(1, 3000) g');
$publisher->wait_for_catchup('sub');
$subscriber->safe_psql('postgres', 'UPDATE t SET v = 1 WHERE id <= 1001');
like(failure(call($subscriber, 't')), qr/IB002: too many differences: 1001 keys differ, and max_differences is 1000\nDETAIL:  No differences are returned\. Replication had passed/,
	'one more than max_differences');
$subscriber->safe_psql('postgres', 'UPDATE t SET v = 0 WHERE id = 1');
is(lines($subscriber->safe_psql('postgres', call($subscriber, 't') . ' WHERE confirmed')), 1000, 'and as many');

nothing_left('after all of it', $subscriber, $publisher);
$_->quit foreach ($holder, $other);

done_testing();
