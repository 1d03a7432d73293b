# The extension at its work: a publisher, a subscriber with real logical
# replication, drift behind replication's back, and one value that finds it.
# What is decoded must equal, to the key, the side and the count, what a full
# comparison of both tables finds.
#
# Further: plans that really are parallel or partition-wise, whose results must
# be the same bytes, and a hot standby.

use strict;
use warnings;

use IbltTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

random_seed();
IbltTest::share_sessions();

# How to make the tables, name them by key, fill them and spoil a row.  The key
# is an expression over the alias t; "type" is what a key is decoded to.
my @tables = (
	{
		name => 'by_int',
		columns => 'id int PRIMARY KEY, v text, n numeric',
		row => "g, 'row ' || g, g / 7.0",
		key => 't.id',
		type => 'int',
		fresh => "-g, 'fresh', NULL",
		spoil => "v = v || ' '",
	},
	{
		name => 'by_bigint',
		columns => 'id bigint PRIMARY KEY, at timestamptz, a int[]',
		row =>
		  "g * 10000000019, '2026-01-01 UTC'::timestamptz + g * interval '1 s', ARRAY[g, NULL]",
		key => 't.id',
		type => 'bigint',
		fresh => "g * -10000000019, NULL, '{}'",
		spoil => "a = a || 1",
	},
	{
		name => 'by_uuid',
		columns => 'id uuid PRIMARY KEY, v jsonb',
		row => "md5(g::text)::uuid, jsonb_build_object('g', g)",
		key => 't.id',
		type => 'uuid',
		fresh => "md5('fresh' || g)::uuid, NULL",
		spoil => "v = v || '{\"spoilt\": true}'",
	},
	{
		name => 'by_text',
		columns => 'id text PRIMARY KEY, v float8, b bytea',
		row => "U&'k\\00E9y ' || g, sqrt(g), int4send(g)",
		key => 't.id',
		type => 'text',
		fresh => "'fresh ' || g, 'NaN', ''",
		spoil => "v = nullif(v, v)",
	},
	{
		name => 'by_pair',
		columns => 'a int, b text, v text, PRIMARY KEY (a, b)',
		row => "g % 50, 'b' || g, NULLIF('v' || g % 3, 'v0')",
		key => 'ROW(t.a, t.b)',
		fresh => "g, 'fresh', ''",
		spoil => "v = coalesce(v || '!', '')",
	},
	{
		name => 'by_content',
		columns => 'a int, b text',
		row => "g % 400, 'dup ' || g % 200",
		key => 'iblt_checksum(t.*)',
		type => 'bigint',
		fresh => "g, 'fresh'",
		spoil => "b = b || '?'",
		full => 1,
	},);

my $publisher = server('publisher');
# Settings that change how values look, and must not change what they are.
my $subscriber = server('subscriber', "timezone = 'Asia/Kolkata'", "datestyle = 'German'", "extra_float_digits = -5", "bytea_output = 'escape'");

# The value of one side, as the text that travels.
sub sketch
{
	my ($node, $table, $capacity) = @_;
	my $more = defined $capacity ? ", $capacity" : '';
	return $node->safe_psql('postgres',
		"SELECT iblt_agg($table->{key}, iblt_checksum(t.*)$more) FROM $table->{name} t"
	);
}

# Both servers at the same point of the publisher's history.
sub catch_up
{
	$publisher->wait_for_catchup('sub');
	return;
}

# A full comparison: for each key whose rows differ as multisets, the line
# "key|side|count".
sub truth
{
	my ($table) = @_;
	my (%rows, %net, @lines);
	my @nodes = ([ $publisher, 1 ], [ $subscriber, -1 ]);

	foreach my $pair (@nodes)
	{
		my ($node, $sign) = @$pair;
		my $text = $node->safe_psql('postgres',
			"SET timezone = 'UTC'; SET datestyle = 'ISO'; SET extra_float_digits = 1;
			 SET bytea_output = 'hex';
			 SELECT ($table->{key})::text, t::text FROM $table->{name} t");
		foreach my $line (split /\n/, $text)
		{
			my ($key, $row) = split /\|/, $line, 2;
			$rows{$key}{$row} += $sign;
			$net{$key} += $sign;
		}
	}
	foreach my $key (keys %rows)
	{
		next unless grep { $_ != 0 } values %{ $rows{$key} };
		my $side = $net{$key} > 0 ? 'left' : $net{$key} < 0 ? 'right' : 'both';
		push @lines, "$key|$side|$net{$key}";
	}
	return join("\n", sort @lines);
}

# What the difference of two values decodes to, in the same lines.  The
# subscriber decodes; all it gets of the publisher is the value.
sub decoded
{
	my ($a, $b, $type) = @_;
	my $typed = defined $type ? ", NULL::$type" : '';
	my $text = $subscriber->safe_psql('postgres',
		"SELECT key, side, count FROM iblt_decode('$a'::iblt - '$b'::iblt$typed)"
	);
	return join("\n", sort split /\n/, $text);
}

# Change, delete and insert rows on the subscriber alone.
sub let_drift
{
	my ($table) = @_;
	my $name = $table->{name};
	my $random = rand();

	$subscriber->safe_psql('postgres', <<"SQL");
SELECT setseed($random);
BEGIN;
UPDATE $name SET $table->{spoil}
	WHERE ctid IN (SELECT ctid FROM $name ORDER BY random() LIMIT 12);
DELETE FROM $name
	WHERE ctid IN (SELECT ctid FROM $name ORDER BY random() LIMIT 9);
INSERT INTO $name SELECT $table->{fresh} FROM generate_series(900001, 900008) g;
COMMIT;
SQL
	return;
}

# Take the rows with the decoded keys from the publisher, and no others.
sub repair
{
	my ($table, $lines) = @_;
	my $name = $table->{name};
	my @keys = map { (split /\|/, $_)[0] } split /\n/, $lines;
	my $list = join(', ', map { (my $k = $_) =~ s/'/''/g; "'$k'" } @keys);
	my $where = "WHERE ($table->{key})::text IN ($list)";
	my $inserts = $publisher->safe_psql('postgres',
		"SELECT format('INSERT INTO $name SELECT (%L::$name).*;', t::text) FROM $name t $where"
	);

	$subscriber->safe_psql('postgres',
		"SET datestyle = 'ISO'; BEGIN; DELETE FROM $name t $where; $inserts COMMIT;");
	return;
}

foreach my $node ($publisher, $subscriber)
{
	$node->safe_psql('postgres', 'CREATE EXTENSION iblt');
	foreach my $table (@tables)
	{
		$node->safe_psql('postgres', "CREATE TABLE $table->{name} ($table->{columns})");
		$node->safe_psql('postgres', "ALTER TABLE $table->{name} REPLICA IDENTITY FULL")
		  if $table->{full};
	}
}
$publisher->safe_psql('postgres',
	"INSERT INTO $_->{name} SELECT $_->{row} FROM generate_series(1, 2000) g")
  foreach @tables;
$publisher->safe_psql('postgres', 'CREATE PUBLICATION pub FOR ALL TABLES');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION ${\ conninfo($publisher)} PUBLICATION pub");
subscribed($subscriber, scalar @tables);

# Real replication before anything goes wrong: some rows change and some go.
foreach my $table (@tables)
{
	my $name = $table->{name};
	$publisher->safe_psql('postgres', <<"SQL");
UPDATE $name SET $table->{spoil} WHERE ctid IN (SELECT ctid FROM $name LIMIT 5);
DELETE FROM $name WHERE ctid IN (SELECT ctid FROM $name LIMIT 5 OFFSET 100);
INSERT INTO $name SELECT $table->{fresh} FROM generate_series(800001, 800005) g;
SQL
}
catch_up();

foreach my $table (@tables)
{
	my $name = $table->{name};
	my $a = sketch($publisher, $table);
	my $b = sketch($subscriber, $table);
	ok($a eq $b, "$name: replicated tables have the same value")
	  or diag(decoded($a, $b), "\n", truth($table));

	let_drift($table);
	my $truth = truth($table);
	my $differences = () = $truth =~ /\n/g;
	cmp_ok($differences, '>', 10, "$name: drift happened");

	$b = sketch($subscriber, $table);
	ok($a ne $b, "$name: the values differ now");
	is(decoded($a, $b), $truth, "$name: the decoded keys are the truth");
	is(decoded($a, $b, $table->{type}), $truth, "$name: so they are with the key's type")
	  if defined $table->{type};

	# The other way round, left and right change places.
	my %mirror = (left => 'right', right => 'left', both => 'both');
	my $mirrored = join "\n", sort map {
		my ($key, $side, $count) = /^(.*)\|(\w+)\|(-?\d+)$/;
		join '|', $key, $mirror{$side}, -$count
	} split /\n/, $truth;
	is(decoded($b, $a), $mirrored, "$name: the opposite difference mirrors it");

	repair($table, $truth);
	is(truth($table), '', "$name: repaired");
	$b = sketch($subscriber, $table);
	is(decoded($a, $b), '', "$name: the difference decodes to no rows");
	is( $subscriber->safe_psql('postgres', "SELECT '$a'::iblt = '$b'::iblt"),
		't', "$name: the values are equal");
}

# More drift than the capacity: an error, never a wrong answer; and the
# capacity that it recommends does.
{
	my $table = $tables[0];
	$subscriber->safe_psql('postgres', 'DELETE FROM by_int WHERE id BETWEEN 1 AND 600');
	my $a = sketch($publisher, $table);
	my $b = sketch($subscriber, $table);
	my ($rc, $out, $err) = $subscriber->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT * FROM iblt_decode('$a'::iblt - '$b'::iblt)");
	isnt($rc, 0, 'too much drift for the capacity is an error');
	is($out, '', 'no rows come with it');
	like($err, qr/IB001/, 'its SQLSTATE is IB001');

	my ($complete, $capacity) = split /\|/, $subscriber->safe_psql('postgres',
		"SELECT complete, recommended_capacity FROM iblt_decode_status('$a'::iblt - '$b'::iblt)"
	);
	is($complete, 'f', 'iblt_decode_status says incomplete');
	cmp_ok($capacity, '>=', 300, "it recommends a capacity ($capacity)");
	is( decoded(sketch($publisher, $table, $capacity),
			sketch($subscriber, $table, $capacity)),
		truth($table), 'with that capacity all is found');
	repair($table, truth($table));
}

# --- plans that are parallel ---------------------------------------------------

$publisher->safe_psql('postgres', <<'SQL');
CREATE TABLE big AS
	SELECT g AS id, md5(g::text) AS v, CASE WHEN g % 7 > 0 THEN g * 1.5 END AS n
	FROM generate_series(1, 60000) g;
CREATE TABLE shuffled1 AS SELECT * FROM big ORDER BY random();
CREATE TABLE shuffled2 AS SELECT * FROM big ORDER BY md5(v);
CREATE TABLE parts (LIKE big) PARTITION BY HASH (id);
CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO parts SELECT * FROM shuffled1;
ANALYZE;
SQL

sub with_workers
{
	my ($workers) = @_;
	return <<"SQL";
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET max_parallel_workers_per_gather = $workers;
SQL
}

my $query = 'SELECT iblt_agg(id, iblt_checksum(t.*)) FROM';
my $plan = $publisher->safe_psql('postgres',
	with_workers(2) . "EXPLAIN (COSTS OFF) $query big t");
like($plan, qr/Finalize Aggregate/, 'the plan finalizes');
like($plan, qr/Gather/, 'the plan gathers');
like($plan, qr/Partial Aggregate/, 'the plan aggregates partially');
like($plan, qr/Parallel Seq Scan/, 'the scan is parallel');

$plan = $publisher->safe_psql('postgres',
	with_workers(2) . "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query big t");
like($plan, qr/Workers Launched: [12]/, 'workers were launched');

my $bytes = "SELECT encode((iblt_agg(id, iblt_checksum(t.*)))::bytea, 'hex') FROM";
my $serial = $publisher->safe_psql('postgres', with_workers(0) . "$bytes big t");
cmp_ok(length($serial), '>', 1000, 'the serial result is a sketch');
foreach my $relation (qw(big shuffled1 shuffled2 parts))
{
	foreach my $workers (0, 1, 2)
	{
		my $result = $publisher->safe_psql('postgres',
			with_workers($workers) . "$bytes $relation t");
		ok($result eq $serial, "$relation with $workers workers: the same bytes");
	}
}

# The leader that only gathers has empty states of its own to combine.
ok( $publisher->safe_psql('postgres',
		with_workers(2) . "SET parallel_leader_participation = off; $bytes big t") eq
	  $serial,
	'the same bytes when only workers read');

# --- partition-wise -------------------------------------------------------------

my $partitionwise = with_workers(0) . "SET enable_partitionwise_aggregate = on;\n";
$plan = $publisher->safe_psql('postgres', $partitionwise . "EXPLAIN (COSTS OFF) $query parts t");
my $partials = () = $plan =~ /Partial Aggregate/g;
is($partials, 3, 'each partition is aggregated by itself');
ok( $publisher->safe_psql('postgres', $partitionwise . "$bytes parts t") eq $serial,
	'partition-wise: the same bytes');

# --- a hot standby -----------------------------------------------------------------

my $standby = standby($publisher, 'standby');

is($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't', 'a standby');
ok(sketch($standby, $tables[0]) eq sketch($publisher, $tables[0]),
	'the standby makes the same value');
ok($standby->safe_psql('postgres', with_workers(2) . "$bytes big t") eq $serial,
	'also with workers');

my $before = sketch($standby, $tables[0]);
$publisher->safe_psql('postgres', "UPDATE by_int SET v = 'moved on' WHERE id = 1000");
replayed($publisher, $standby);
my $after = sketch($standby, $tables[0]);
is( $standby->safe_psql('postgres',
		"SELECT key, side, count FROM iblt_decode('$before'::iblt - '$after'::iblt)"),
	'1000|both|0',
	'the standby decodes');

$standby->stop;
$subscriber->stop;
$publisher->stop;

done_testing();
