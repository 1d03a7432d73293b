# iblt_compare where the differences take several lookups: each is answered exactly once
# and in order, all wait for replication together, and what fails in the middle leaves
# nothing.  The number of keys that are looked up at a time is lowered, so that few rows
# take many lookups.
use IbltCompare;

random_seed();

my ($here, $there, $peer) = two_servers();

# --- every kind of key -----------------------------------------------------------------

my %keys = (by_int => 'g AS id', by_two => "g % 7 AS a, (timestamp '2026-01-01' + g * interval '1 minute') AS b",
	by_uuid => q{md5(g::text)::uuid AS id}, by_text => q{'key ' || g AS id}, by_none => undef);
my %columns = (by_int => 'id', by_two => 'a, b', by_uuid => 'id', by_text => 'id');
foreach my $table (sort keys %keys)
{
	my $rows = defined $keys{$table} ? "$keys{$table}, g AS n, md5(g::text) AS v" : 'g / 3 AS n, md5((g / 3)::text) AS v';
	both("CREATE TABLE $table AS SELECT $rows FROM generate_series(1, 3000) AS g;"
		  . ($columns{$table} ? "ALTER TABLE $table ADD PRIMARY KEY ($columns{$table})" : ''));
	$there->safe_psql('postgres', "UPDATE $table SET v = 'x' WHERE n % 5 = 1; DELETE FROM $table WHERE n % 5 = 2");
	$here->safe_psql('postgres', "DELETE FROM $table WHERE n % 50 = 3");
}

# The differences and the messages that they took.
sub differences
{
	my ($table, $options) = @_;
	my ($rows, $messages) = $here->safe_psql('postgres', "SET client_min_messages = error;
		SELECT string_agg(concat_ws(' ', key, side, here_count, there_count, here, there, confirmed), E'\\n' ORDER BY n)
			FROM iblt_compare('$table', $peer, $options) WITH ORDINALITY AS c(key, side, here, there, confirmed, here_count, there_count, n);
		SELECT 'messages', messages, 'figures', differences, settled, unconfirmed FROM iblt_compare_stats()") =~ /^(.*)\nmessages\|(.*)\z/s;
	return ($rows, split /\|/, $messages);
}

foreach my $table (sort keys %keys)
{
	my $by_hash = $table =~ /text|none/;
	my $options = "rows => true, seed => 4711, recheck => 0";
	batch_size(1000000);
	my ($whole, $one, @figures) = differences($table, $options);
	my $key = $columns{$table} // 'n, v';
	my $number = lines(truth($table, $key));
	is(lines($whole), $number, "$table: $number differences in one lookup");
	my $size = 101;
	batch_size($size);
	my ($rows, $messages, @same) = differences($table, $options);
	is($by_hash ? join("\n", sort split /\n/, $rows) : $rows, $by_hash ? join("\n", sort split /\n/, $whole) : $whole,
		"$table, $size at a time: the same rows" . ($by_hash ? '' : ', in the same order'));
	is("@same", "@figures", "$table, $size at a time: the same figures");
	my $lookups = int(($number + $size - 1) / $size);
	is($messages, $one + 2 * ($lookups - 1), "$table, $size at a time: $lookups lookups");
}

# --- an index that lacks a row of the first lookup -------------------------------------------

# What an index hides is checked after the last lookup.
both('CREATE TABLE hidden (id int PRIMARY KEY, v int); INSERT INTO hidden SELECT g, g FROM generate_series(1, 20000) g; ANALYZE hidden');
$there->safe_psql('postgres', 'UPDATE hidden SET v = -v WHERE id % 100 = 0; INSERT INTO hidden VALUES (0, 0)');
unnoticed($here, 'hidden_pkey', 'INSERT INTO hidden VALUES (0, 1)');
like(failure("SELECT FROM iblt_compare('hidden', $peer, recheck => 0)"), qr/XX002: an index of public\.hidden does not find rows that the table has \(here\)/,
	'an index that lacks a row of the first of many lookups: an error');

# --- parts of the keys ---------------------------------------------------------------------

# A comparison with sketches that hold few keys takes the keys in parts.  The least
# sketch of a scan holds 1849 keys.
batch_size(1000);
both(q{CREATE TABLE parted (id int PRIMARY KEY, v int); CREATE TABLE parted_text (id text, v int); CREATE TABLE parted_few (id int, v int);
	INSERT INTO parted SELECT g, g FROM generate_series(1, 12000) g; INSERT INTO parted_text SELECT 'key ' || g / 2, g FROM generate_series(1, 12000) g;
	INSERT INTO parted_few SELECT g % 2, g FROM generate_series(1, 12000) g});
$there->safe_psql('postgres', "UPDATE $_ SET v = -v WHERE v % 3 > 0 AND v % 1000 <> 0; DELETE FROM $_ WHERE v % 1000 = 0") foreach (qw(parted parted_text));
$there->safe_psql('postgres', 'UPDATE parted_few SET v = -v WHERE v % 3 > 0');
my $search = changed($here, 'search', 950000, 1500);
foreach my $case ([ 'parted', 'id', '' ], [ 'parted_text', 'id', ", key_columns => '{id}'" ], [ 'parted_few', 'id, v', '' ])
{
	my ($table, $key, $options) = @$case;
	my $session = IbltTest::Session->new($here);
	my $out = $session->run("SELECT concat_ws(' ', key, side, here_count, there_count) FROM iblt_compare('$table', $peer, recheck => 0, progress => true$options) AS c");
	my $truth = truth($table, $key);
	is(join("\n", sort split /\n/, $out), $truth, "$table ($key): all " . lines($truth) . ' differences, in parts');
	my $notices = $session->{err};
	my $scans = () = $notices =~ /NOTICE: .*sketches of /g;
	my ($rows) = $here->safe_psql('postgres', "SELECT count(*) FROM $table");
	is($session->run('SELECT rows_here FROM iblt_compare_stats()'), $rows, "$table: rows are counted once");
	cmp_ok(scalar(() = $notices =~ /scanned again/g), '>=', 1, "$table: in $scans looks at sketches");
	if ($table eq 'parted')
	{
		my @parts = $notices =~ /sketches of (\d+) and \d+ rows: \d+ keys differ$/gm;
		cmp_ok(scalar(@parts), '>=', 4, 'in ' . @parts . ' parts');
		like($session->run("SELECT FROM iblt_compare('$table', $peer, max_differences => 7990)") . $session->{err}, qr/IB002: too many differences: (about )?\d+ keys differ, and max/, 'more than max_differences are an error');
	}
	$session->quit;
}
$here->safe_psql('postgres', $search);

# --- rechecks ------------------------------------------------------------------------------

# Real replication: rows in flight disappear, and all wait together.
$here->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE by_two');
$there->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION ${\ conninfo($here)} PUBLICATION pub WITH (copy_data = false)");
subscribed($there, 1);
{
	batch_size(100);
	my $drift = truth('by_two', 'a, b');
	my $lock = holding($there, 'BEGIN; LOCK TABLE by_two IN SHARE MODE');
	$here->safe_psql('postgres', "UPDATE by_two SET v = 'in flight' WHERE n % 5 = 0");
	my $session = IbltTest::Session->new($here);
	$session->start("SELECT concat_ws(' ', key, side, here_count, there_count) || CASE WHEN confirmed THEN '' ELSE ' unconfirmed' END FROM iblt_compare('by_two', $peer, progress => true) AS c");
	$session->seen(qr/waiting for replication/);
	$lock->run('COMMIT');
	is(join("\n", sort split /\n/, $session->done), $drift, 'rows in flight are no differences, and all others are confirmed');
	my ($looked, $waited) = $session->{err} =~ /looking \d+ keys up on both sides, 1[0-9]00 of (\d+) are done.*waiting for replication, to look at (\d+) keys/s;
	is($waited, $looked, 'all of them waited');
	is(scalar(() = $session->{err} =~ /waiting for replication/g), 1, 'once');

	# The WAL writer writes whole pages, and what transactions have written that have ended.  The
	# rest of a record of another one stays in memory.
	my $size = q{current_setting('wal_block_size')::int};
	$here->safe_psql('postgres', 'SET synchronous_commit = off; SELECT pg_current_xact_id()');
	$lock = holding($here, "BEGIN; SELECT pg_logical_emit_message(false, '', repeat('x', $size))");
	wait_for($here, "SELECT pg_current_wal_flush_lsn() - '0/0' >= trunc((pg_current_wal_insert_lsn() - '0/0') / $size) * $size");
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('by_two', $peer, timeout => '5 s') WHERE confirmed"), lines($drift), 'nor is a record that is not flushed as a whole waited for');
	$_->quit foreach ($lock, $session);
	$there->safe_psql('postgres', 'DROP SUBSCRIPTION sub');
}

# --- samples ---------------------------------------------------------------------------------

# 30,000 keys of 40,000 differ.  A sample has all differences among some of the keys,
# which a hash chose, so their number is binomial.
both(q{CREATE TABLE sampled (id int PRIMARY KEY, v int); CREATE TABLE sampled_text (id text PRIMARY KEY, v int);
	INSERT INTO sampled SELECT g, g FROM generate_series(1, 40000) g; INSERT INTO sampled_text SELECT 'key ' || g, v FROM sampled s(g, v)});
$there->safe_psql('postgres', "UPDATE $_ SET v = -v WHERE v % 4 > 0; DELETE FROM $_ WHERE v % 40 = -1; INSERT INTO $_ SELECT 50000 + g, g FROM generate_series(1, 1000) g") foreach (qw(sampled sampled_text));
batch_size(1000);
foreach my $table (qw(sampled sampled_text))
{
	my %differs = map { $_ => 1 } split /\n/, truth($table, 'id');
	my $total = keys %differs;
	foreach my $most ($table eq 'sampled' ? (1, 30, 1000, 10000) : 1000)
	{
		my $text = "$table, max_differences $most";
		my $seed = int(rand(2**31));
		my $query = "SELECT concat_ws(' ', key, side, here_count, there_count) FROM iblt_compare('$table', $peer, recheck => 0, max_differences => $most, seed => $seed%s) AS c";
		my $session = IbltTest::Session->new($here);
		$session->run(sprintf $query, '');
		like($session->{err}, qr/ERROR: +IB002: too many differences/, "$text, seed $seed: an error by default");
		my @found = split /\n/, $session->run(sprintf $query, ", on_too_many => 'sample'");
		my ($few, $about) = $session->{err} =~ /WARNING: +01000: too many differences: these (\d+) are a sample of about (\d+)/;
		is($few, scalar(@found), "$text: a warning says that this is a sample");
		is_deeply([ grep { !$differs{$_} } @found ], [], "$text: all of them differ");
		is(scalar(keys %{ { map { $_ => 1 } @found } }), scalar(@found), "$text: each once");
		cmp_ok(scalar(@found), '<=', $most, "$text: not more than asked for");
		my ($complete, $parts, $estimated, $differences, $rows) = split /\|/, $session->run('SELECT complete, parts, estimated, differences, rows_here FROM iblt_compare_stats()');
		is("$complete $estimated $differences $rows", "f $about $few 40000", "$text: the figures say so too");
		my ($mean, $variance) = ($total / $parts, $total / $parts * (1 - 1 / $parts));
		cmp_ok(abs(@found - $mean), '<=', 5 * sqrt($variance) + 1, "$text: " . @found . " of $total in one of $parts parts");
		# an estimate of the sketches has a deviation of up to 16 %
		my $deviation = @found < 200 ? 0.16 : 1 / sqrt($mean);
		cmp_ok(abs($estimated - $total), '<=', 5 * $deviation * $total, "$text: about $estimated of $total");
		is(join("\n", sort @found), join("\n", sort split /\n/, $session->run(sprintf $query, ", on_too_many => 'sample'")), "$text: the same sample for the same seed") if $most == 1000;
		$session->quit;
	}
	my $session = IbltTest::Session->new($here);
	is(lines($session->run("SELECT key FROM iblt_compare('$table', $peer, max_differences => 40000, on_too_many => 'sample', recheck => 0)")), $total, "$table: all, if they are not too many");
	is($session->{err}, '', "$table: without a warning");
	is($session->run('SELECT complete, parts, estimated = differences FROM iblt_compare_stats()'), 't||t', "$table: complete");
	$session->quit;
}
# With this seed, three parts in turn, each half as large as the one before, have more than one of them.
cmp_ok(lines($here->safe_psql('postgres', "SET client_min_messages = error; SELECT key FROM iblt_compare('sampled', $peer, max_differences => 1, on_too_many => 'sample', recheck => 0, seed => 94)")), '<=', 1, 'a sample of one');
# Rows that may be in flight are not sampled.
like(failure("SELECT * FROM iblt_compare('sampled', $peer, on_too_many => 'sample', max_differences => 1000, recheck => 1, timeout => '0 s')"), qr/IB003: too many differences to confirm/, 'rows that may be in flight are an error');
like(failure("SELECT * FROM iblt_compare('sampled', $peer, on_too_many => 'some')"), qr/22023: on_too_many must be error or sample/, 'what is not an answer to too many');

# --- the middle of many lookups ----------------------------------------------------------

# A lookup of key 1500 waits for a lock.
$here->safe_psql('postgres', q{ALTER FUNCTION iblt_internal.find_sides RENAME TO find_sides_it;
	CREATE FUNCTION iblt_internal.find_sides(plan iblt_internal.plan, keys text[], place int DEFAULT NULL, lock boolean DEFAULT false) RETURNS iblt_internal.found_rows[] LANGUAGE plpgsql AS
	'BEGIN
		IF keys @> ''{1501}'' THEN PERFORM pg_catalog.pg_advisory_xact_lock_shared(4); END IF;
		RETURN iblt_internal.find_sides_it(plan, keys, place, lock);
	END'});
my $all = truth('by_int', 'id');
foreach my $case (
	[ 'a cancel', sub { $here->safe_psql('postgres', "SELECT pg_cancel_backend($_[0])") }, qr/ERROR: +57014/ ],
	[ 'a peer that goes away', sub { $there->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'iblt_compare%'") }, qr/ERROR: +(57P01|08\w+|\w+): / ],
	[ 'a table that is altered', sub { $there->safe_psql('postgres', 'ALTER TABLE by_int ADD COLUMN more int') }, undef ])
{
	my ($title, $do, $error) = @$case;
	my $lock = IbltTest::Session->new($here);
	my $session = IbltTest::Session->new($here);
	$session->run("SET client_min_messages = error; SELECT count(*) FROM iblt_compare('by_two', $peer, recheck => 0)");
	my $before = $session->run('SELECT f FROM iblt_compare_stats() AS f');
	$lock->run('SELECT pg_advisory_lock(4)');
	$session->start("SELECT concat_ws(' ', key, side, here_count, there_count) FROM iblt_compare('by_int', $peer, recheck => 0) AS c");
	wait_for($here, "SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = $session->{pid}");
	$do->($session->{pid});
	$lock->run('SELECT pg_advisory_unlock(4)');
	my $out = $session->done;
	if ($error)
	{
		like($session->{err}, $error, "$title in the middle: an error");
		is($out, '', "$title: no rows");
		is($session->run('SELECT f FROM iblt_compare_stats() AS f'), $before, "$title: the figures are those of the comparison before");
	}
	else
	{
		is(join("\n", sort split /\n/, $out), $all, "$title in the middle: all differences, each once");
	}
	nothing_left($title);
	is(lines($session->run("SELECT key FROM iblt_compare('by_int', $peer, recheck => 0)")), lines($all), "$title: the session goes on");
	$_->quit foreach ($lock, $session);
}

done_testing();
