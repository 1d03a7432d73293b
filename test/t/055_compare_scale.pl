# iblt_compare with many differences: all of them, in bounded bytes and memory,
# or an error that says about how many there are.
use IbltCompare;
use IbltProxy;

random_seed();

# Few shared buffers, since those a process touches count as its memory.
my ($here, $there, $peer) = two_servers();
inside($here, $there);

# --- a large table with large drift ---------------------------------------------------

# New rows lie between the old ones, so that a condition on id takes any share of
# each kind of difference.
my %drift = (changed => 40000, gone => 30000, new => 30000);
my $total = 100000;
my $rows = 150000;
both("CREATE TABLE big (id int PRIMARY KEY, n int, v text);
	INSERT INTO big SELECT 10 * g, g, md5(g::text) FROM generate_series(1, $rows) g; ANALYZE big");
$there->safe_psql('postgres', "SELECT setseed(${\ rand()});
	CREATE TABLE drift AS SELECT g, row_number() OVER (ORDER BY random()) AS r FROM generate_series(1, $rows) g;
	UPDATE big SET v = v || '!' FROM drift WHERE id = 10 * g AND r <= 20000;
	UPDATE big SET n = NULL FROM drift WHERE id = 10 * g AND r > 20000 AND r <= 40000;
	DELETE FROM big USING drift WHERE id = 10 * g AND r > 40000 AND r <= 70000;
	INSERT INTO big SELECT 10 * g + 5, g, 'new' FROM drift WHERE r > 70000 AND r <= 100000");

# A full comparison, into the table truth here.
$here->safe_psql('postgres', "CREATE TABLE full_there (LIKE big)");
{
	my $file = $here->basedir . '/big.copy';
	$there->safe_psql('postgres', "\\copy big TO '$file'");
	$here->safe_psql('postgres', "\\copy full_there FROM '$file'");
	unlink $file;
}
$here->safe_psql('postgres', "CREATE TABLE truth AS
	SELECT id, CASE WHEN t IS NULL THEN 'here' WHEN h IS NULL THEN 'there' ELSE 'both' END AS side,
		(h IS NOT NULL)::int::int8 AS here_count, (t IS NOT NULL)::int::int8 AS there_count, h AS here, t AS there
	FROM (SELECT id, to_jsonb(big) AS h FROM big) x FULL JOIN (SELECT id, to_jsonb(full_there) AS t FROM full_there) y USING (id)
	WHERE h IS DISTINCT FROM t");
is($here->safe_psql('postgres', 'SELECT side, count(*) FROM truth GROUP BY side ORDER BY side'),
	"both|$drift{changed}\nhere|$drift{gone}\nthere|$drift{new}", 'the drift is there');

# How many of iblt_compare's rows are not in the truth, and the other way round;
# or its error.  {scans} says how many times the relations were scanned.
sub wrong
{
	my ($session, $options, $where) = @_;
	my $columns = 'id, side, here_count, there_count' . ($options =~ /rows => true/ ? ', here, there' : '');
	my $out = $session->run("CREATE TEMP TABLE found AS SELECT * FROM iblt_compare('big', $options, progress => true)");
	$session->{scans} = 1 + (() = $session->{err} =~ /NOTICE:.*scanned again/g);
	return $1 if $session->{err} =~ /(ERROR: .*)/s;
	$out = $session->run("WITH f AS (SELECT $columns FROM (SELECT (key ->> 'id')::int AS id, * FROM found) AS x),
			t AS (SELECT $columns FROM truth WHERE $where)
		SELECT 'found ' || (SELECT count(*) FROM f), 'false ' || (SELECT count(*) FROM (TABLE f EXCEPT ALL TABLE t) AS x),
			'missed ' || (SELECT count(*) FROM (TABLE t EXCEPT ALL TABLE f) AS x)");
	$session->run('DROP TABLE found');
	return $out;
}

# The memory that a process has had at most, in kB.
sub peak
{
	my ($pid) = @_;
	return slurp_file("/proc/$pid/status") =~ /^VmHWM:\s*(\d+) kB/m ? $1 : die "no VmHWM of process $pid";
}

# --- all of 100,000 -------------------------------------------------------------------

# Bytes that sketches may take.  The sizing table has k = 4, whose threshold is
# 1.295 cells a key, with a margin that is below 1.36 at this capacity; master
# sizes are powers of two times 315 cells a subtable, so at most twice that.  A
# cell of integer keys is 28 bytes, and base64 makes 4 of 3.
#   The first scan has the master of 60,000, which may be sent whole, after the
# small message and perhaps one fold of it; the second one its own.
sub cells { my ($capacity) = @_; my $cells = 1260; $cells *= 2 while $cells < 1.36 * $capacity; return $cells }
sub text_bytes { my ($cells) = @_; return 65 / 64 * 8 / 7 * (26 * $cells + 1024) }
my $small = text_bytes(63);
my $bound = 2 * $small + text_bytes(cells(60000)) + text_bytes(cells($total));

my $proxy = IbltProxy->new($there);
my $through = literal($proxy->connstr);
{
	my $session = IbltTest::Session->new($here);
	my $wrong = wrong($session, $through, 'true');
	is($wrong, "found $total|false 0|missed 0", "$total differences in $rows rows: those of a full comparison");
	is($session->{scans}, 2, 'a second scan is needed above 60,000');
	my ($rows_here, $rows_there, $differences, $messages, $sent, $received, $sketches) =
	  split /\|/, $session->run('SELECT rows_here, rows_there, differences, messages, bytes_sent, bytes_received, sketch_bytes FROM iblt_compare_stats()');
	is("$rows_here $rows_there $differences", join(' ', $rows, $rows - $drift{gone} + $drift{new}, $total), 'figures: rows are counted once, though scanned twice');
	cmp_ok($sketches, '<=', $bound, sprintf 'at most %d bytes of sketches, %.1f a difference', $bound, $sketches / $total);
	cmp_ok($sketches, '>=', text_bytes(1.2 * $total), 'and no fewer than 100,000 keys take');
	$session->run('SELECT iblt_disconnect()');
	check_wire($proxy, $messages, $sent, $received, $sketches);
	$session->quit;
}

# What the figures say, against what passed the proxy.  Not counted are the
# protocol's own bytes: setting up (2 KB, most of it what the server reports of
# its settings), and 16 bytes around a query and some 220 around an answer, which
# are half of the messages each.
sub check_wire
{
	my ($through_proxy, $messages, $sent, $received, $sketches) = @_;
	my ($wire_sent, $wire_received, $wire_sketches, $sketches_sent) = $through_proxy->counted;
	note("sent $sent of $wire_sent, received $received of $wire_received, sketches $sketches, messages $messages");
	is($sketches, $wire_sketches, 'bytes of sketches are those on the wire');
	is($sketches_sent, 0, 'no sketch is sent to the peer');
	cmp_ok($wire_sent, '>=', $sent, 'bytes sent: no more than there were');
	cmp_ok($wire_sent - $sent, '<=', 2048 + 8 * $messages, 'and all but the protocol\'s own');
	cmp_ok($wire_received, '>=', $received, 'bytes received: no more than there were');
	cmp_ok($wire_received - $received, '<=', 2048 + 110 * $messages, 'and all but the protocol\'s own');
	return;
}

# --- what progress shows ----------------------------------------------------------------

{
	my $session = IbltTest::Session->new($here);
	my $condition = 'id <= ' . $here->safe_psql('postgres', 'SELECT id FROM truth ORDER BY id OFFSET 499 LIMIT 1');
	my ($h, $t) = map { $_->[0]->safe_psql('postgres', "SELECT count(*) FROM big WHERE $condition") } [$here], [$there];
	is(wrong($session, "$through, condition => '$condition', rows => true, recheck => 1", $condition),
		'found 500|false 0|missed 0', '500 differences');
	$session->run('SELECT iblt_disconnect()');
	$session->run("SELECT 1 FROM iblt_compare('big', $through, condition => '$condition', rows => true, recheck => 1, progress => true)");
	my @notices = $session->{err} =~ /^.*NOTICE: +(?:00000: +)?(.*)$/mg;
	is(shift @notices, 'comparing public.big with public.big: 3 columns, key (id)', 'progress: what is compared');
	my @sketches = grep { /^sketches/ } @notices;
	is(pop @sketches, "sketches of $h and $t rows: 500 keys differ", 'progress: what the sketches say');
	like($_, qr/^sketches of $h and $t rows: about \d+ keys differ, asking for larger parts of the sketches$/, 'progress: sketches before that') foreach @sketches;
	is_deeply([ grep { !/^sketches/ } @notices ], [ 'looking 500 keys up on both sides', 'waiting for replication, to look at 500 keys again' ],
		'progress: lookup and recheck');
	my ($messages, $sent, $received, $sketch_bytes) =
	  split /\|/, $session->run('SELECT messages, bytes_sent, bytes_received, sketch_bytes FROM iblt_compare_stats()');
	$proxy->counted;    # of the comparison before
	$session->run('SELECT iblt_disconnect()');
	check_wire($proxy, $messages, $sent, $received, $sketch_bytes);

	# ten seconds are too long for a test, so a message is due after each 65536 rows
	both('CREATE TABLE long (id int PRIMARY KEY, v int); INSERT INTO long SELECT g, g FROM generate_series(1, 300000) g; ANALYZE long');
	my $every = changed($here, 'progress_by_time', 10000, 0);
	foreach my $workers (0, 2)
	{
		$session->run("SET max_parallel_workers_per_gather = $workers; SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0");
		is($session->run("SELECT count(*) FROM iblt_compare('long', $peer, progress => true)"), 0, 'an equal table');
		my @percent = $session->{err} =~ /NOTICE: +(?:00000: +)?scanning public\.long: (\d+) % of its blocks$/mg;
		note("with $workers workers: @percent");
		cmp_ok(scalar @percent, '>=', $workers ? 1 : 4, "progress of a scan with $workers workers");
		is(scalar(grep { $percent[$_] > 99 || $_ > 0 && $percent[$_] < $percent[ $_ - 1 ] } 0 .. $#percent), 0, 'rises and stays below 100 %');
		is("@percent[0 .. 3]", join(' ', map { int($_ * 65536 / 3000) } 1 .. 4), 'and is the share of blocks that are read') unless $workers;
	}
	$session->run("SELECT count(*) FROM iblt_compare('long', $peer)");
	unlike($session->{err}, qr/scanning/, 'and nothing without progress => true');
	$session->run("CALL iblt_track('long')");
	unlike($session->{err}, qr/scanning/, 'nor the scan for a digest');
	$session->run("CALL iblt_untrack('long'); CALL iblt_track('long', progress => true)");
	like($session->{err}, qr/NOTICE: +(?:00000: +)?scanning public\.long: \d+ % of its blocks$/m, 'progress of the scan for a digest');
	$here->safe_psql('postgres', $every);
	$session->quit;
}
$proxy->stop;

# --- max_differences ----------------------------------------------------------------------

# The condition that has so many differences.
sub some
{
	my ($number) = @_;
	return 'id <= ' . $here->safe_psql('postgres', "SELECT max(id) FROM (SELECT * FROM truth ORDER BY id LIMIT $number) AS t");
}

{
	my $session = IbltTest::Session->new($here);
	# the least master holds 1849 keys, the next limit is that of the first scan
	foreach my $case ([ 1, 1 ], [ 1000, 1000 ], [ 59999, 60000 ], [ 60001, 60001 ], [ 99999, 100000 ])
	{
		my ($number, $most) = @$case;
		my $condition = some($number);
		is(wrong($session, "$peer, condition => '$condition', max_differences => $most", $condition),
			"found $number|false 0|missed 0", "$number differences, max_differences $most: all");
		is($session->{scans}, $number > 62000 ? 2 : 1, "$number differences: scans") unless $number > 60000 && $number < 62000;
	}
	foreach my $case (
		[ 1, 2 ], [ 1, 30 ], [ 1000, 1001 ], [ 1000, 2500 ], [ 100, 100000 ], [ 59999, 60000 ], [ 60000, 62000 ], [ 70000, 70001 ], [ 70000, 90000 ], [ 99999, 100000 ])
	{
		my ($most, $number) = @$case;
		my $condition = some($number);
		my $err = wrong($session, "$peer, condition => '$condition', max_differences => $most", $condition);
		my $text = "$number differences, max_differences $most";
		like($err, qr/ERROR:  IB002: too many differences: (about )?\d+ keys differ, and max_differences is $most\n/, "$text: an error") or next;
		my ($estimate, $about) = $err =~ /: (about )?(\d+) keys differ/;
		# it is the number decoded, or an estimate of standard deviation 9 to 16 %
		ok($estimate ? abs($about - $number) <= 4.5 * 0.16 * $number : $about == $number, "$text: " . ($estimate // '') . "$about of $number");
	}
	$session->quit;
	nothing_left('after errors');
}

# --- memory ---------------------------------------------------------------------------------

# The connection is kept until the test has looked at the peer's process.
$here->safe_psql('postgres', q{ALTER FUNCTION iblt_internal.peers_close(text[], boolean) RENAME TO peers_close_it;
	CREATE FUNCTION iblt_internal.peers_close(conns text[], kept boolean DEFAULT true) RETURNS void LANGUAGE plpgsql AS
	'BEGIN PERFORM pg_advisory_lock(7); PERFORM pg_advisory_unlock(7); PERFORM iblt_internal.peers_close_it(conns, kept); END'});
sub memory
{
	my ($options) = @_;
	my $lock = holding($here, 'SELECT pg_advisory_lock(7)');
	my $session = IbltTest::Session->new($here);
	$session->start("SELECT count(*) FROM iblt_compare('big', $peer$options)");
	$here->poll_query_until('postgres', "SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = $session->{pid}") or die 'it does not end';
	my $pid = $there->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'iblt_compare public.big'");
	my @peak = (peak($pid));
	$lock->run('SELECT pg_advisory_unlock(7)');
	my $count = $session->done;
	unshift @peak, peak($session->{pid});
	$_->quit foreach ($session, $lock);
	return ($count, @peak);
}
SKIP:
{
	skip 'the memory of a process is read from /proc', 3 unless -r '/proc/self/status';
	my (undef, @base) = memory(", condition => 'id < 0'");
	my ($count, @peak) = memory('');
	is($count, $total, 'the same with an eye on memory');
	my @used = map { int(($peak[$_] - $base[$_]) / 1024) } (0, 1);
	note("peak over an empty comparison: $used[0] MB here, $used[1] MB on the peer");
	# Here: the sketches (4.3 MB, base64 5.8 MB; both sides', their difference and
	# its copy that is decoded, as text and as values) and 100,000 differences, of
	# which each is in an array of composites (some 250 bytes with its jsonb key),
	# which PL/pgSQL copies from step to step, and the result.  There: the sketch
	# kept, its text, the keys in the query, and the answer's arrays.
	my $sketch = text_bytes(cells($total)) / 1048576;
	cmp_ok($used[0], '<=', 12 * $sketch + 10 * 250 * $total / 1048576, 'memory here: twelve times a sketch and ten times the differences');
	cmp_ok($used[1], '<=', 8 * $sketch + 4 * 250 * $total / 1048576, 'memory there: eight times a sketch and four times the rows');
}

# A peer that always answers with the same small fold does not keep the exchange going.
both('CREATE TABLE folds (id int PRIMARY KEY, v int); INSERT INTO folds SELECT g, g FROM generate_series(1, 3000) g');
$there->safe_psql('postgres', q{UPDATE folds SET v = 0 WHERE id % 10 = 0; ALTER FUNCTION iblt_internal.iblt_compare_fold(iblt, integer) RENAME TO fold_it;
	CREATE FUNCTION iblt_internal.iblt_compare_fold(s public.iblt, integer) RETURNS public.iblt LANGUAGE sql AS 'SELECT public.iblt_fold(s, 9, 0.1)'});
like(failure("SELECT count(*) FROM iblt_compare('folds', $peer)"), qr/22000: the peer answered with a sketch of another size/, 'a fold of another size than was asked for: an error');

done_testing();
