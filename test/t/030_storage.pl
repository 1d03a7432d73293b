# Sketches as stored values: dump and restore, COPY in both formats, TOAST, the
# memory of aggregates, large sketches, interrupts and parallel plans.
use IbltTest;

my $node = server('storage', 'max_parallel_workers_per_gather = 0');

sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]); }

# One sketch of each kind of key, of sizes from a template to several pages.
sql(q{
	CREATE EXTENSION iblt;
	CREATE TYPE mood AS ENUM ('sad', 'ok');
	CREATE TABLE sketch (name text PRIMARY KEY, s iblt, template iblt DEFAULT iblt_new(50, seed => -3));
	INSERT INTO sketch VALUES
		('template', iblt_new()),
		('integer', (SELECT iblt_agg(i, i) FROM generate_series(1, 1000) i)),
		('large', (SELECT iblt_agg(i, i, 20000) FROM generate_series(1, 1000) i)),
		('uuid', (SELECT iblt_agg(md5(i::text)::uuid, i) FROM generate_series(1, 1000) i)),
		('enum', (SELECT iblt_agg('ok'::mood, i) FROM generate_series(1, 3) i)),
		('row', (SELECT iblt_agg(ROW(i, 'é' || i), i) FROM generate_series(1, 1000) i)),
		('values', iblt_insert(iblt_new(with_values => true), 7, 42)),
		('null', NULL);
});
my $digest = q{SELECT string_agg(name || md5(coalesce(s::bytea, '')) || md5(template::bytea), ',' ORDER BY name) FROM sketch};
my $truth = sql($digest);

# Dump and restore, plain and custom.
my $dir = $node->basedir;
foreach my $format ('plain', 'custom')
{
	my @where = ('-h', $node->host, '-p', $node->port);
	sql("CREATE DATABASE restored_$format");
	$node->command_ok([ 'pg_dump', @where, '-F', $format, '-f', "$dir/dump.$format", 'postgres' ], "pg_dump, $format");
	$node->command_ok(
		$format eq 'plain'
		? [ 'psql', @where, '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/dump.plain", "restored_$format" ]
		: [ 'pg_restore', @where, '-e', '-d', "restored_$format", "$dir/dump.custom" ],
		"restore, $format");
	is(sql($digest, "restored_$format"), $truth, "the same bytes after a $format dump and restore");
}

# COPY.
foreach my $format ('text', 'csv', 'binary')
{
	sql(qq{
		CREATE TABLE copy_$format (LIKE sketch);
		COPY sketch TO '$dir/copy.$format' (FORMAT $format);
		COPY copy_$format FROM '$dir/copy.$format' (FORMAT $format);
	});
	is(sql($digest =~ s/FROM sketch/FROM copy_$format/r), $truth, "the same bytes after COPY in $format format");
}

# Out of line and not compressed, as STORAGE external says, and read in part or whole.
is(sql(q{SELECT pg_column_size(s) = (iblt_info(s)).bytes FROM sketch WHERE name = 'large'}),
	't', 'a large sketch is stored out of line, as it is');
is(sql(q{SELECT count(*) FROM iblt_decode((SELECT s FROM sketch WHERE name = 'large'))}), '1000',
	'a sketch out of line decodes');
is(sql(q{SELECT count(*) FROM iblt_decode((SELECT s - s FROM sketch WHERE name = 'large'))}), '0',
	'a sketch out of line subtracts');
sql(q{UPDATE sketch SET s = iblt_delete(iblt_insert(s, 1, 1), 1, 1) WHERE name = 'large'});
is(sql($digest), $truth, 'rows in and out again leave the stored bytes as they were');
# Compressed inline, as a user may ask for.
sql(q{CREATE TABLE compressed (s iblt); ALTER TABLE compressed ALTER s SET STORAGE main; INSERT INTO compressed SELECT iblt_insert(iblt_new(), 1, 1)});
is(sql(q{SELECT pg_column_size(s) < 0.5 * (iblt_info(s)).bytes, s = iblt_insert(iblt_new(), 1, 1), iblt_delete(s, 1, 1) = iblt_new() FROM compressed}),
	't|t|t', 'compressed values are read right');

# Memory: a group takes what its value takes, and a hash aggregate that has
# less spills.  At most 10 % on top for the hash table and the allocator.
sub memory_per_group
{
	my ($capacity, $groups) = @_;
	my $plan = sql(qq{
		SET work_mem = '1GB'; SET hash_mem_multiplier = 2; SET enable_sort = off;
		EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
		SELECT i % $groups, iblt_agg(i, i, $capacity) FROM generate_series(1, 5 * $groups) i GROUP BY 1});
	my ($kb) = $plan =~ /Batches: 1  Memory Usage: (\d+)kB/ or die "no memory in: $plan";
	return $kb * 1024 / $groups;
}
foreach my $capacity (100, 1000)
{
	my $bytes = sql("SELECT (iblt_info(iblt_agg(1, 1, $capacity))).bytes");
	my $memory = memory_per_group($capacity, 1000);
	cmp_ok($memory, '<', 1.1 * $bytes, sprintf('capacity %d: %.0f bytes a group for a value of %d', $capacity, $memory, $bytes));
}
my ($spilled) = sql(q{
	SET work_mem = '4MB'; SET enable_sort = off;
	EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
	SELECT i % 5000, iblt_agg(i, i) FROM generate_series(1, 20000) i GROUP BY 1}) =~ /Batches: (\d+)/;
cmp_ok($spilled, '>', 1, 'a hash aggregate over many groups spills');
is(sql(q{
	SET work_mem = '4MB'; SET enable_sort = off;
	SELECT count(*), bool_and(rows = 4) FROM (SELECT i % 5000, iblt_agg(i, i) FROM generate_series(1, 20000) i GROUP BY 1) g(k, s), iblt_info(s)}),
	'5000|t', 'and gives the right sketches');

# Rows of changing types elsewhere in the query take no memory at each row.
{
	sql(q{CREATE FUNCTION memory() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT sum(used_bytes)::bigint FROM pg_backend_memory_contexts'});
	my $grown = sql(q{
		SELECT memory[2] - memory[1] FROM (SELECT
				iblt_agg(i::text, iblt_checksum(CASE WHEN i % 2 = 0 THEN ROW(i) ELSE ROW(i::text) END)),
				array_agg(memory()) FILTER (WHERE i IN (1000, 21000))
			FROM generate_series(1, 21000) i) x(s, memory) WHERE s IS NOT NULL});
	cmp_ok($grown, '<', 1e6, 'rows of two types by turns');
}

# Workers that see no row, where the capacity is a column: they cannot know it,
# and need not, if another one does.
my $parallel = q{SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;};
sql(q{CREATE TABLE capped AS SELECT i AS id, 300 AS capacity FROM generate_series(1, 100000) i; ANALYZE capped});
my ($launched) = sql("$parallel EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT iblt_agg(id, 1, capacity) FROM capped WHERE id < 10") =~ /Workers Launched: (\d+)/;
cmp_ok($launched, '>=', 1, 'a parallel plan with workers that see no row');
is(sql("$parallel SELECT rows FROM (SELECT iblt_agg(id, 1, capacity) FROM capped WHERE id < 10) x(s), iblt_info(s)"),
	'9', 'a capacity from a column, and workers without a row');
is(sql("$parallel SELECT rows, key_type, seed FROM (SELECT iblt_agg(ROW(id, 'a'), 1, iblt_new(50, seed => 3)) FROM capped WHERE id < 0) x(s), iblt_info(s)"),
	'0|(int4,text)|3', 'no worker sees a row: type and parameters are known all the same');
my ($ret, $out, $err) = $node->psql('postgres', "$parallel SELECT iblt_agg(id, 1, capacity) FROM capped WHERE id < 0");
like($err, qr/does not depend on a row/, 'a capacity from a column is an error over no rows');

# A sketch of half a gigabyte builds, and its text form of nearly 1 GB is written and read.  One
# beyond 1 GB is refused before memory is taken.
my ($text, $sketch) = split /\|/, sql(q{
	SELECT (length(t) > 7e8 AND t::iblt = s)::text, rows = 1000 AND bytes > 4e8
	FROM (SELECT s, s::text AS t FROM (SELECT iblt_agg(i, i, 16500000) FROM generate_series(1, 1000) i) x(s) OFFSET 0) y, iblt_info(s)});
is($text, 'true', 'a text form of more than 700 MB is written and read');
is($sketch, 't', 'a sketch of more than 400 MB');
($ret, $out, $err) = $node->psql('postgres', q{SELECT iblt_agg(i::text, i, iblt_new(2000000, key_size => 4096)) FROM generate_series(1, 10) i});
like($err, qr/iblt would be larger than \d+ bytes/, 'a sketch beyond 1 GB is refused');
($ret, $out, $err) = $node->psql('postgres', q{SELECT length(iblt_agg(i, i, 24000000)::text) FROM generate_series(1, 10) i});
like($err, qr/too large for its text form/, 'a text form beyond 1 GB is refused');

# --- cancels --------------------------------------------------------------------------------

# Work on a large sketch can be cancelled in the middle of each long step, except for its text form and
# copies.  test/unit/test_interrupt.c shows it of the loops of src/core.
#
# One session keeps the sketch: nothing is read from a table.
my $session = IbltTest::Session->new($node);
my $template = 'iblt_new(4000000)';
$session->run("SELECT count(iblt_session_keep('large', iblt_delete(iblt_insert($template, 1, 1), 1, 1)))");

# Milliseconds of the processor that a query takes, and its error.  The clock would tell how busy the machine is.
sub timed
{
	my ($query, $timeout) = @_;
	my $now = "coalesce(split_part(pg_read_file('/proc/self/schedstat', 0, 100, true), ' ', 1)::numeric / 1000000, extract(epoch FROM clock_timestamp()) * 1000)";
	my $out = $session->run("SET statement_timeout = $timeout;\nSELECT $now AS begin \\gset\n$query;\nRESET statement_timeout;\nSELECT $now - :begin");
	my ($took) = $out =~ /([\d.]+)\s*\z/;
	return ($took, $session->{err});
}

# Cancelled after a third of the time it takes, a query must not run for most of
# it.  A busy machine may need another try.
sub cancelled
{
	my ($query, $name) = @_;
	my ($full, $took, $err);

	foreach my $try (1 .. 4)
	{
		($full, $err) = timed($query, 0);
		is($err, '', "$name: done") if $try == 1;
		($took, $err) = timed($query, int($full / 3) || 1);
		last if $err =~ /canceling statement/ && $took < 0.75 * $full;
	}
	like($err, qr/canceling statement due to statement timeout/, "$name: cancelled");
	cmp_ok($took, '<', 0.75 * $full, sprintf('%s: %.0f of %.0f ms', $name, $took, $full));
	return;
}

my $large = "iblt_session_get('large')";
cancelled("SELECT count(*) FROM iblt_decode($large)", 'decoding');
cancelled("SELECT iblt_fold($large, 1000) IS NULL", 'folding');

$session->quit;

is($node->safe_psql('postgres', 'SELECT 1'), '1', 'the server lives');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'no backend died');

# --- parallel plans ------------------------------------------------------------------------

# For a table with few groups, and not for many groups of few rows, each of which would cost a
# state for each worker.  Whatever the plan, the sketch has the same bytes: in parts by workers,
# by partitions, and in any order of the rows.
sql('ALTER SYSTEM SET max_parallel_workers_per_gather = 2');
$node->reload;
wait_for($node, "SELECT current_setting('max_parallel_workers_per_gather') = '2'");
$node->safe_psql('postgres', q{
	CREATE UNLOGGED TABLE many WITH (parallel_workers = 2) AS
		SELECT i AS id, i % 8000 AS g, i % 4 AS few FROM generate_series(1, 600000) i;
	CREATE UNLOGGED TABLE sketches WITH (parallel_workers = 2) AS
		SELECT iblt_insert(iblt_new(20), i, i) AS s FROM generate_series(1, 5000) i;
	ANALYZE;
});

# Is the aggregate computed in parts?
sub in_parts
{
	my ($query) = @_;
	my $plan = $node->safe_psql('postgres', "EXPLAIN (COSTS OFF) $query");
	note($plan);
	return $plan =~ /\bPartial (?:Hash|Group)?Aggregate/ ? 1 : 0;
}

foreach my $aggregate ('iblt_agg(id, iblt_checksum(id, g))', 'iblt_agg(id, 0, 100)', 'iblt_strata_agg(id, 0)')
{
	is(in_parts("SELECT $aggregate FROM many"), 1, "$aggregate of a table: in parts");
	is(in_parts("SELECT few, $aggregate FROM many GROUP BY few"), 1, "$aggregate of four groups: in parts");
	is(in_parts("SELECT g, $aggregate FROM many GROUP BY g"), 0, "$aggregate of 8000 groups: alone");
}
is(in_parts('SELECT iblt_sum(s) FROM sketches'), 1, 'a sum of sketches: in parts');

$node->safe_psql('postgres', q{
	CREATE TABLE numbers AS SELECT g AS id, md5(g::text) AS v, CASE WHEN g % 7 > 0 THEN g * 1.5 END AS n FROM generate_series(1, 60000) g;
	CREATE TABLE shuffled AS SELECT * FROM numbers ORDER BY md5(v);
	CREATE TABLE parts (LIKE numbers) PARTITION BY HASH (id);
	CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 0);
	CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 1);
	CREATE TABLE parts2 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 2);
	INSERT INTO parts TABLE shuffled;
	ANALYZE;
});
sub with_workers { my ($workers) = @_; return "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = $workers;" }
my $bytes = "SELECT encode((iblt_agg(id, iblt_checksum(t.*)))::bytea, 'hex') FROM";
my $serial = $node->safe_psql('postgres', with_workers(0) . "$bytes numbers t");
like($node->safe_psql('postgres', with_workers(2) . "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $bytes numbers t"),
	qr/Finalize Aggregate.*Gather.*Workers Launched: [12].*Partial Aggregate.*Parallel Seq Scan/s, 'a plan with workers');
foreach my $relation (qw(numbers shuffled parts))
{
	is($node->safe_psql('postgres', with_workers($_) . "$bytes $relation t"), $serial, "$relation with $_ workers: the same bytes") foreach 0, 1, 2;
}
# The leader that only gathers has empty states of its own to combine.
is($node->safe_psql('postgres', with_workers(2) . "SET parallel_leader_participation = off; $bytes numbers t"), $serial, 'the same bytes when only workers read');
my $partitionwise = with_workers(0) . 'SET enable_partitionwise_aggregate = on;';
is(scalar(() = $node->safe_psql('postgres', $partitionwise . "EXPLAIN (COSTS OFF) $bytes parts t") =~ /Partial Aggregate/g), 3, 'each partition is aggregated by itself');
is($node->safe_psql('postgres', "$partitionwise $bytes parts t"), $serial, 'partition-wise: the same bytes');

done_testing();
