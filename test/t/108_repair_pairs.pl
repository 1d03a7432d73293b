# Two repairs at the same time, a repair and an ordinary writer, damaged indexes, and large
# values: a repair does what it says once, or not at all.
use IbltTest;

my ($here, $there) = two_servers();
my %peer = ($here->name => conninfo($there), $there->name => conninfo($here));
foreign_server($_, 'other', other($_)) foreach $here, $there;

sub other { my ($node) = @_; return $node == $here ? $there : $here }

# What has become of the steps, as "status: number" or "status, detail: number".
sub repair_sql
{
	my ($table, $direction, $options) = @_;
	return "SELECT concat_ws(', ', status, detail) || ': ' || count(*) FROM iblt_repair($table direction => '$direction', apply => true" . ($options ? ', ' . $options =~ s/^, //r : '') . ') GROUP BY status, detail ORDER BY 1';
}

# Statements on a table wait in its trigger until they may go on, as in the middle of a repair.
both(q{CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END'});

sub hold
{
	my ($table, @nodes) = @_;
	my @holders;
	foreach my $node (@nodes)
	{
		$node->safe_psql('postgres', "CREATE TRIGGER hold BEFORE INSERT OR UPDATE OR DELETE ON $table FOR EACH STATEMENT EXECUTE FUNCTION hold()");
		push @holders, holding($node, 'SELECT pg_advisory_lock(42)');
	}
	return @holders;
}

# Waits until that number of sessions of both servers wait for locks.
sub waiting
{
	my ($number, $text) = @_;
	my $found = 0;
	foreach (1 .. 200)
	{
		$found = 0;
		$found += $_->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") foreach $here, $there;
		last if $found >= $number;
		select(undef, undef, undef, 0.1);
	}
	return is($found, $number, $text);
}

sub rows { my ($node, $table) = @_; return $node->safe_psql('postgres', "SELECT string_agg(t::text, ' ' ORDER BY t) FROM $table AS t") }
sub number { my ($node, $table) = @_; return $node->safe_psql('postgres', "SELECT count(*), count(DISTINCT t) FROM $table AS t") }

# --- two repairs of one target ---------------------------------------------------------

my @shapes = (
	[ 'none', 'id int, v int', 'id int, v int', '' ],
	[ 'sources', 'id int PRIMARY KEY, v int', 'id int, v int', '' ],
	[ 'named', 'id int, v int', 'id int, v int', ", key_columns => '{v}'" ],
	[ 'parts', 'id int, v int) PARTITION BY RANGE (id', 'id int, v int) PARTITION BY RANGE (id', '' ],
	[ 'keyed', 'id int PRIMARY KEY, v int', 'id int PRIMARY KEY, v int', '' ],
);
foreach my $shape (@shapes)
{
	my ($name, $source, $target, $options) = @$shape;
	foreach my $direction ('pull', 'push')
	{
		my $table = "${name}_$direction";
		my ($from, $to) = $direction eq 'pull' ? ($there, $here) : ($here, $there);
		$from->safe_psql('postgres', "CREATE TABLE $table ($source)");
		$to->safe_psql('postgres', "CREATE TABLE $table ($target)");
		both("CREATE TABLE ${table}_1 PARTITION OF $table FOR VALUES FROM (0) TO (100); CREATE TABLE ${table}_2 PARTITION OF $table DEFAULT") if $name eq 'parts';
		$from->safe_psql('postgres', "INSERT INTO $table SELECT g, g % 10 FROM generate_series(1, 200) g");
		my ($holder) = hold($table, $to);
		my $sql = repair_sql("'$table', $peer{here},", $direction, $options);
		my $first = background($here, $sql);
		waiting(1, "$table: a repair is in the middle");
		if ($name eq 'keyed')
		{
			is(failure_on($to, "SET lock_timeout = '100ms'; SET session_replication_role = replica; BEGIN; INSERT INTO $table VALUES (1000, 0); ROLLBACK"), '', 'a writer of another key goes on');
		}
		else
		{
			like(failure_on($to, "SET lock_timeout = '100ms'; SET session_replication_role = replica; INSERT INTO $table VALUES (1, 1)"), qr/55P03/, 'a writer waits');
		}
		my $second = background($here, $sql);
		waiting(2, 'and so does another repair');
		$holder->quit;
		finish($_) foreach $first, $second;
		is($first->{out} . $first->{err}, "applied: 200\n", "$table: the first one applies");
		is($second->{out} . $second->{err}, "skipped, equal by now: 200\n", 'the second one has nothing left to do');
		is(number($to, $table), '200|200', 'and no row is there twice');
	}
}

sub failure_on
{
	my ($node, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql", on_error_stop => 0);
	return $err;
}

# --- opposing repairs -------------------------------------------------------------------

both('CREATE TABLE swap (id int PRIMARY KEY, v text); CREATE VIEW swap_v AS SELECT * FROM swap');
foreach my $round ([ $here, 'pull', 'pull' ], [ $there, 'pull', 'pull' ], [ $here, 'push', 'push' ], [ $there, 'pull', 'push' ], [ $here, 'pull', 'pull', 'swap_v' ], [ $there, 'pull', 'pull', undef, ", method => 'plain'" ])
{
	my ($one, $first_does, $second_does, $source, $method) = @$round;
	my $two = other($one);
	both('DROP TRIGGER IF EXISTS hold ON swap');
	$_->safe_psql('postgres', "TRUNCATE swap; INSERT INTO swap SELECT g, '${\ $_->name}' FROM generate_series(1, 5) g") foreach $here, $there;
	my @holders = hold('swap', $here, $there);
	my $text = $one->name . " $first_does, " . $two->name . " $second_does" . ($source ? ' from a view' : '') . ($method // '');
	# The second one takes the first one's target for its source.
	my $second_node = $first_does eq $second_does ? $two : $one;
	my $first = background($one, repair_sql("'swap', 'other', peer_relation => '${\ ($source // 'swap')}', " . ($source ? "key_columns => '{id}'," : ''), $first_does, $method));
	waiting(1, "$text: the first is in the middle");
	my $second = background($second_node, repair_sql("'swap', 'other', peer_relation => '${\ ($source // 'swap')}', " . ($source ? "key_columns => '{id}'," : ''), $second_does, $method));
	waiting(2, 'the second waits');
	$_->quit foreach @holders;
	finish($_) foreach $first, $second;
	is($first->{err} . $second->{err}, '', 'no error');
	is(rows($here, 'swap'), rows($there, 'swap'), 'both sides are equal');
	is($second->{out}, 'skipped, equal by now: ' . ($source ? 10 : 5) . "\n", 'as the second one says');
}

my $guard = "BEGIN; SELECT pg_advisory_xact_lock(1768057972, ('swap'::regclass::oid::int8 - 2147483648)::int4)";
# A lock that another server does not give back ends by the repair's own timeout.
{
	my $holder = holding($there, $guard);
	$there->safe_psql('postgres', "UPDATE swap SET v = 'drift' WHERE id = 1");
	is($here->safe_psql('postgres', "SET lock_timeout = '7s'; SELECT count(*) FROM iblt_repair('swap', 'other', direction => 'pull'); SHOW lock_timeout"), "1\n7s", 'a preview takes no lock');
	$holder->quit;
	is($here->safe_psql('postgres', "SET lock_timeout = '7s'; BEGIN; SELECT count(*) FROM iblt_repair('swap', 'other', direction => 'pull', apply => true); SHOW lock_timeout; COMMIT"), "1\n7s", 'the lock_timeout is as before');
	$there->safe_psql('postgres', q{ALTER DATABASE postgres SET lock_timeout = '9s'; CREATE TABLE patience (v text);
		CREATE FUNCTION patience() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.patience VALUES (current_setting('lock_timeout')); RETURN NULL; END$$;
		CREATE TRIGGER patience AFTER UPDATE ON swap EXECUTE FUNCTION patience(); UPDATE swap SET v = 'other' WHERE id = 1; TRUNCATE patience});
	is($here->safe_psql('postgres', "SELECT status FROM iblt_repair('swap', 'other', direction => 'push', apply => true, timeout => '3 s')"), 'applied', 'a push');
	is($there->safe_psql('postgres', 'SELECT v FROM patience; ALTER DATABASE postgres RESET lock_timeout; DROP FUNCTION patience CASCADE'), '9s', 'nor does the peer keep that of the repair');
}

# A foreign key that comes after the target was described.
foreach my $direction ('pull', 'push')
{
	my $target = $direction eq 'pull' ? $here : $there;
	$target->safe_psql('postgres', 'INSERT INTO swap VALUES (100); CREATE TABLE child AS SELECT 100 AS id');
	my $holder = holding($target, $guard);
	my $repair = background($here, "SELECT key, status FROM iblt_repair('swap', 'other', direction => '$direction', apply => true)");
	waiting(1, "$direction: the repair waits for a lock");
	$target->safe_psql('postgres', 'ALTER TABLE child ADD FOREIGN KEY (id) REFERENCES swap ON DELETE CASCADE');
	$holder->quit;
	finish($repair);
	like($repair->{err}, qr/the repair would change rows beyond those compared/, 'a foreign key that came meanwhile is seen');
	is($target->safe_psql('postgres', 'SELECT count(*) FROM child; DROP TABLE child; DELETE FROM swap WHERE id = 100'), '1', 'and deletes nothing');
}

# --- a push of what is not committed -----------------------------------------------------

both('CREATE TABLE sent (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE sent_1 PARTITION OF sent DEFAULT; CREATE VIEW sent_v AS SELECT * FROM sent');
my $push = "SELECT concat_ws(' ', action, key, status) FROM iblt_repair('sent', 'other', direction => 'push', apply => true);";
my $refused = qr/25001: cannot repair another server: this transaction has changed public\.sent(_v)?\b/;
like(failure("BEGIN; INSERT INTO sent VALUES (1, 'mine'); $push"), $refused, 'a push does not send what this transaction has inserted');
like(failure("BEGIN; INSERT INTO sent_1 VALUES (1, 'mine'); $push"), $refused, 'into a partition');
like(failure("BEGIN; TRUNCATE sent; $push"), $refused, 'nor what it has truncated');
like(failure("BEGIN; INSERT INTO sent VALUES (1, 'mine'); " . $push =~ s/'sent', 'other'/'sent_v', 'other', 'sent', key_columns => '{id}'/r), $refused, 'through a view');
is($there->safe_psql('postgres', 'SELECT count(*) FROM sent'), '0', 'nothing was sent');
is(failure("BEGIN; INSERT INTO sent VALUES (1, 'mine'); " . $push =~ s/, apply => true//r), '', 'a preview shows it');
is($here->safe_psql('postgres', "BEGIN; SAVEPOINT s; INSERT INTO sent VALUES (1, 'mine'); ROLLBACK TO s; CREATE TEMP TABLE t (); LOCK sent IN SHARE MODE; $push COMMIT"), '', 'what was rolled back does no harm');
is($here->safe_psql('postgres', "BEGIN; INSERT INTO sent VALUES (1, 'mine'); SELECT count(*) FROM iblt_repair('sent', 'other', direction => 'pull', apply => true); COMMIT"), '1', 'nor does a pull');
$here->safe_psql('postgres', "INSERT INTO sent VALUES (1, 'mine')");
is($here->safe_psql('postgres', "BEGIN; $push COMMIT"), 'insert {"id": 1} applied', 'what is committed is pushed');

# --- a damaged index -----------------------------------------------------------------------

my $damaged = sub { my ($side) = @_; return qr/an index of public\.\w+ does not find rows that the table has \($side\).*One has the key \{"id": 777\}/s };

# After a run, the index of the side that lacked the row lacks the row that was inserted.
both('CREATE TABLE weak (id int PRIMARY KEY, v int); INSERT INTO weak SELECT i, i FROM generate_series(1, 20000) AS i WHERE i <> 777; ANALYZE weak');
foreach my $node ($here, $there)
{
	my $side = $node == $here ? 'here' : 'there';
	other($node)->safe_psql('postgres', 'INSERT INTO weak VALUES (777, 777)');
	my $run = $here->safe_psql('postgres', "CALL iblt_audit_run('other', tables => '{weak}', progress => false)");
	is($here->safe_psql('postgres', "SELECT key, side FROM iblt_audit_differences WHERE run = $run"), '{"id": 777}|' . ($side eq 'here' ? 'there' : 'here'), "a run finds the row that is missing $side");
	unnoticed($node, 'weak_pkey', 'INSERT INTO weak VALUES (777, 777)');
	foreach my $direction ('pull', 'push')
	{
		like(failure("SET enable_seqscan = off; SELECT * FROM iblt_repair(run => $run, direction => '$direction'$_)"), $damaged->($side), "$direction$_: a repair does not trust the index that lacks it") foreach '', ', apply => true';
	}
	is($_->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), count(*) FILTER (WHERE id = 777) FROM weak'), '20000|1', 'nothing was changed') foreach $here, $there;
	both('DELETE FROM weak WHERE v = 777; REINDEX TABLE weak');
}

# An index begins to lack a row while a repair waits.
foreach my $round ([ 'pull', 'there' ], [ 'pull', 'here' ], [ 'push', 'here' ], [ 'push', 'there' ])
{
	my ($direction, $side) = @$round;
	my ($node, $target) = ($side eq 'here' ? $here : $there, $direction eq 'pull' ? $here : $there);
	both('TRUNCATE weak; INSERT INTO weak SELECT i, i FROM generate_series(1, 20000) AS i WHERE i <> 777');
	$target->safe_psql('postgres', 'UPDATE weak SET v = 0 WHERE id = 5');
	other($node)->safe_psql('postgres', 'INSERT INTO weak VALUES (777, 777)');
	my $holder = holding($target, 'BEGIN; SELECT FROM weak WHERE id = 5 FOR UPDATE');
	my $repair = background($here, "SELECT action, key FROM iblt_repair('weak', 'other', direction => '$direction', apply => true)");
	waiting(1, "$direction: the repair waits");
	unnoticed($node, 'weak_pkey', 'INSERT INTO weak VALUES (777, 777)');
	$holder->quit;
	finish($repair);
	like($repair->{err}, $damaged->($side), "$direction: the index $side lacks a row by then");
	is($_->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), count(*) FILTER (WHERE id = 777) FROM weak'), '20000|1', 'nothing was changed') foreach $here, $there;
	both('DELETE FROM weak WHERE v = 777; REINDEX TABLE weak');
}
# A row to be deleted seems to be gone, or a row to be updated on both sides.
foreach my $round ([ 'pull', '' ], [ 'push', '' ], [ 'pull', ", winner => 'newest', newest_by => 'v'" ])
{
	my ($direction, $winner) = @$round;
	my $target = $direction eq 'pull' ? $here : $there;
	both('ALTER DATABASE postgres SET enable_seqscan = off');
	both('TRUNCATE weak; INSERT INTO weak SELECT i, i FROM generate_series(1, 2000) AS i WHERE i <> 777');
	$target->safe_psql('postgres', 'UPDATE weak SET v = 0 WHERE id = 5; INSERT INTO weak VALUES (777, 777)');
	other($target)->safe_psql('postgres', 'INSERT INTO weak VALUES (777, 778)') if $winner;
	my $holder = holding($target, 'BEGIN; SELECT FROM weak WHERE id = 5 FOR UPDATE');
	my $repair = background($here, "SELECT key, status, detail FROM iblt_repair('weak', 'other', direction => '$direction', apply => true$winner)");
	waiting(1, "$direction$winner: the repair waits");
	unnoticed($_, 'weak_pkey', 'DELETE FROM weak WHERE id = 777', 'INSERT INTO weak VALUES (777, 777)') foreach $winner ? ($here, $there) : $target;
	$holder->quit;
	finish($repair);
	like($repair->{err}, $damaged->($target == $here ? 'here' : 'there'), "$direction$winner: what an index does not find is not equal by now");
	both('ALTER DATABASE postgres RESET enable_seqscan');
	both('DELETE FROM weak WHERE v = 777; REINDEX TABLE weak');
}
# The newer row is chosen under a lock on the row of the target.
{
	both('TRUNCATE weak; INSERT INTO weak VALUES (5, 5)');
	$here->safe_psql('postgres', 'UPDATE weak SET v = 0');
	my $writer = holding($here, 'BEGIN; UPDATE weak SET v = 1');
	my $repair = background($here, "SELECT concat_ws(' ', status, detail) FROM iblt_repair('weak', 'other', direction => 'pull', apply => true, winner => 'newest', newest_by => 'v')");
	waiting(1, "winner => 'newest': the repair waits for a writer");
	$writer->run('COMMIT');
	finish($repair);
	is($repair->{out} . $repair->{err}, "skipped changed since it was compared\n", 'and leaves what it wrote');
	$writer->quit;
}

done_testing();
