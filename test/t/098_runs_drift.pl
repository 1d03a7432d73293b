# Runs where something is wrong or moves: slices with too many differences, damaged
# indexes, and a subscriber under the load of pgbench, where a run tells exactly the keys
# that were made to differ.
#
#	IBLT_TEST_ROUNDS    how many rounds of load (3)
use IbltRuns;

random_seed();
my ($here, $there) = audit_servers();
my $peer = conninfo($there);
my $rounds = $ENV{IBLT_TEST_ROUNDS} || 3;

# --- slices with too many differences -----------------------------------------------------

# Also: a function of the extension is another one from now on, on both sides.
sub change { my @change = @_; changed($_, @change) foreach $here, $there; return }

both('CREATE TABLE many (id int PRIMARY KEY, v int); INSERT INTO many SELECT g, g FROM generate_series(1, 4000) g;
	CREATE TABLE pairs (a int, b text COLLATE "C", v int, PRIMARY KEY (a, b)); INSERT INTO pairs SELECT g % 3, g, g FROM generate_series(1, 3000) g;
	CREATE TABLE bare (v int); INSERT INTO bare SELECT g FROM generate_series(1, 300) g; CREATE TABLE zone (id int PRIMARY KEY)');
$there->safe_psql('postgres', 'UPDATE many SET v = -v WHERE id BETWEEN 1500 AND 1899; DELETE FROM many WHERE id BETWEEN 3001 AND 3300; INSERT INTO many SELECT -g, g FROM generate_series(1, 500) g;
	UPDATE pairs SET v = 0 WHERE a = 1; UPDATE bare SET v = -v');
# a slice can find 50 differences
change('run_begin', 'greatest(compare.max_differences, 100000)', '50');
{
	my $run = begin_run("'{many,pairs,bare,zone}', progress => false");
	my $rows = tables($run);
	foreach my $name (qw(many pairs))
	{
		my $row = $rows->{"public.$name"};
		is(found($run, $name), truth($name), "$name: slices with too many differences are halved until all are found");
		is(join(' ', @$row{qw(status rows_here rows_there)}), join(' ', 'differs', map { $_->safe_psql('postgres', "SELECT count(*) FROM $name") } $here, $there), 'each row was counted once');
		is($row->{missing} + $row->{extra} + $row->{changed}, lines(truth($name)), 'and each difference');
		cmp_ok($row->{slices}, '>=', lines(truth($name)) / 50, "slices: $row->{slices}");
	}
	is(join(' ', @{ $rows->{'public.bare'} }{qw(status sqlstate)}), 'differs IB002', 'one slice cannot be halved: that many differ');
	is($rows->{'public.zone'}{status}, 'equal', 'with which the run goes on');
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_slice, $run) WHERE table_number <> 3"), '0', 'and no slice is left over');
}
# statistics that are old may put far more rows into a slice than it was to have
{
	both('CREATE TABLE aged (id int PRIMARY KEY) WITH (autovacuum_enabled = off); INSERT INTO aged SELECT g * 10000 FROM generate_series(1, 4000) g; ANALYZE aged');
	$here->safe_psql('postgres', 'INSERT INTO aged SELECT 20000000 + g FROM generate_series(1, 3000) g');
	my $row = tables(scalar begin_run("'{aged}', slice_ms => 1, progress => false"))->{'public.aged'};
	is(join(' ', @$row{qw(status extra missing rows_here rows_there)}), 'differs 3000 0 7000 4000', 'with old statistics, each row is counted once');
	cmp_ok($row->{slices}, '<', 600, "and slices are not cut row by row: $row->{slices}");
}
# nor can it be where an index is damaged
{
	my @words = ('PERFORM read_begin(described)', q{IF query ~ 'OFFSET [0-9]{1,4} -' THEN RAISE EXCEPTION USING ERRCODE = 'XX002', MESSAGE = 'damaged'; END IF; PERFORM read_begin(described)});
	change('slice_bound', @words);
	my $rows = tables(scalar begin_run("'{many,zone}', progress => false"));
	is(join(' ', map { $_ // '-' } @{ $rows->{'public.many'} }{qw(status sqlstate)}), 'error XX002', 'an error where a slice is halved is one of its table');
	is($rows->{'public.zone'}{status}, 'equal', 'with which the run goes on');
	change('slice_bound', reverse @words);
}
change('run_begin', 'compare.max_differences := 50', 'compare.max_differences := greatest(compare.max_differences, 100000)');
{
	my $run = begin_run("'{many,pairs}', max_differences => 100, progress => false");
	my $row = tables($run)->{'public.many'};
	is(join(' ', @$row{qw(missing extra changed kept)}), '500 300 400 100', 'max_differences: all are counted, and that many kept');
	like($row->{detail}, qr/100 differences were kept, and the others counted \(max_differences\)/, 'and the detail says so');
}

# --- damaged indexes -----------------------------------------------------------------------

both('CREATE EXTENSION amcheck; CREATE TABLE weak (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off); INSERT INTO weak SELECT i, i FROM generate_series(1, 20000) AS i WHERE i <> 2345; ANALYZE weak');
my $verdict = sub { my ($run) = @_; return join(' ', map { $_ // '-' } @{ tables($run)->{'public.weak'} }{qw(status sqlstate rows_here rows_there)}) };
my $detail = sub { my ($run) = @_; return tables($run)->{'public.weak'}{detail} };

unnoticed($there, 'weak_pkey', "INSERT INTO weak SELECT i, '' FROM generate_series(30001, 33000) AS i");
$here->safe_psql('postgres', "INSERT INTO weak SELECT i, '' FROM generate_series(30001, 33000) AS i");
like(join(' ', map { ($verdict->($_), $detail->($_)) } scalar begin_run("'{weak}', progress => false")), qr/^error XX002 - - an index of public\.weak does not find rows that the table has \(there\): Of a sample/,
	'an index that lacks many rows: a sample finds it');
both('TRUNCATE weak; INSERT INTO weak SELECT i, i FROM generate_series(1, 20000) AS i WHERE i <> 2345; ANALYZE weak');
# the sample finds no single row
change('slice_guard', '> 0 THEN', '> 100000 THEN');
unnoticed($there, 'weak_pkey', "INSERT INTO weak VALUES (2345, 'v')");
$here->safe_psql('postgres', "INSERT INTO weak VALUES (2345, 'v')");
{
	my $run = begin_run("'{weak}', progress => false");
	is($verdict->($run), 'equal - 20000 20000', 'the index of one side lacks a row, which a scan counts: compared whole');
	is($detail->($run), 'compared in one slice: a scan did not count as many rows as the slices', 'and it is no difference');
	change('slice_may_count', '268435456', '0');
	$run = begin_run("'{weak}', progress => false");
	is($verdict->($run), 'differs - 20000 19999', 'in a large table, it is a difference');
	is($detail->($run), 'read by index public.weak_pkey (not checked) here, public.weak_pkey (not checked) there', 'and the detail says that nobody checked it');
	change('slice_may_count', '0 / 28', '268435456 / 28');
	$run = begin_run("'{weak}', check_indexes => true, progress => false");
	is($verdict->($run), 'error XX002 - -', 'check_indexes: an error');
	like($detail->($run), qr/^on the peer: index (public\.)?weak_pkey is damaged: amcheck: /, 'that names the index');
	$there->safe_psql('postgres', 'REINDEX TABLE weak');
	resume($run);
	is($verdict->($run), 'equal - 20000 20000', 'after REINDEX, the run goes on');
	is($detail->($run), 'read by index public.weak_pkey (checked) here, public.weak_pkey (checked) there', 'and its verdict says that it was checked');
}
both('DELETE FROM weak WHERE id = 2345');
unnoticed($_, 'weak_pkey', "INSERT INTO weak VALUES (2345, '${\ $_->name}')") foreach $here, $there;
both('VACUUM (INDEX_CLEANUP on) weak');	# the entries of the rows before it name its block, too
{
	my $run = begin_run("'{weak}', progress => false");
	like($verdict->($run), qr/^error XX002/, 'the indexes of both sides lack it: a scan counts one more');
	like($detail->($run), qr/an index of public\.weak does not find rows that the table has \(here\): One has the key \{"id": 2345\}/, 'and all rows are compared');
	change('slice_may_count', '268435456', '0');
	$run = begin_run("'{weak}', progress => false");
	is($verdict->($run) . ' ' . $detail->($run), 'equal - 19999 19999 read by index public.weak_pkey (not checked) here, public.weak_pkey (not checked) there',
		'a large table is not counted: the verdict is of what they have, and says so');
	change('slice_may_count', '0 / 28', '268435456 / 28');
	like($verdict->(begin_run("'{weak}', check_indexes => true, progress => false")), qr/^error XX002/, 'check_indexes: an error');
	$run = begin_run("'{weak}', progress => false");
	both('REINDEX TABLE weak');
	like(resume($run), qr/public\.weak was read by a damaged index, it starts again/, 'after REINDEX, the table starts again');
	is($verdict->($run) . ' ' . (tables($run)->{'public.weak'}{changed} // '-'), 'differs - 20000 20000 1', 'because slices before did not have all rows');
}

change('slice_guard', '> 100000 THEN', '> 0 THEN');

# Rows that the indexes of both sides lack, and that differ.
both('CREATE TABLE twice (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off); INSERT INTO twice SELECT i, i FROM generate_series(1, 100000) AS i');
unnoticed($_, 'twice_pkey', "INSERT INTO twice SELECT i, CASE WHEN i > 100500 THEN '${\ $_->name}' END FROM generate_series(100001, 120000) AS i") foreach $here, $there;
both('ANALYZE twice');
{
	my $said = sub { my ($run) = @_; return join(' ', map { $_ // '-' } @{ tables($run)->{'public.twice'} }{qw(status sqlstate detail)}) };
	like($said->(scalar begin_run("'{twice}', progress => false")), qr/^error XX002 an index of public\.twice does not find rows that the table has \(here\): Of a sample of \d+ rows, it does not find \d+; find the index with amcheck .*$/,
		'the guard looks a sample up');
	# without a guard
	change('slice_guard', '> 0 THEN', '> 100000 THEN');
	my $run = begin_run("'{twice}', progress => false");
	like($said->($run), qr/^error XX002 an index of public\.twice/, 'a run that has not read what the heap has is not equal');
	change('slice_guard', '> 100000 THEN', '> 0 THEN');
	# and one that writers have changed meanwhile
	both('REINDEX TABLE twice; DELETE FROM twice WHERE id > 100000');
	$run = begin_run("'{twice}', progress => false, max_load => 0.001, max_time => '0.1 s'");
	both("INSERT INTO twice VALUES (0, 'v')");
	resume($run, 'max_load => 1, progress => false');
	is($said->($run), 'equal - compared in one slice: a scan did not count as many rows as the slices', 'rows were added behind a run: compared once more');
	is(tables($run)->{'public.twice'}{slices}, 1, 'in one slice, which is not counted');
	$run = begin_run("'{twice}', progress => false, max_load => 0.001, max_time => '0.1 s'");
	both("INSERT INTO twice VALUES (-1, 'v')");
	$there->safe_psql('postgres', "UPDATE twice SET v = 'x' WHERE id IN (90000, 90001)");
	resume($run, 'max_load => 1, progress => false');
	is(join(' ', $said->($run), tables($run)->{'public.twice'}{changed}), 'differs - compared in one slice: a scan did not count as many rows as the slices 2', 'also if it differs');
	# a slice can find more than a comparison of all of it
	change('run_begin', 'greatest(compare.max_differences, 100000)', '1');
	change('run_work', 'plan.lo := s.lo', 'plan.max_differences := 1000; plan.lo := s.lo');
	$run = begin_run("'{twice}', progress => false, max_load => 0.001, max_time => '0.1 s'");
	both("INSERT INTO twice VALUES (-2, 'v')");
	resume($run, 'max_load => 1, progress => false');
	like($said->($run), qr/^differs - .*; a later scan counted 100003 rows here and 100003 there$/, 'or with another count, if that would find too many differences');
	change('run_work', 'plan.max_differences := 1000; plan.lo := s.lo', 'plan.lo := s.lo');
	change('run_begin', 'compare.max_differences := 1', 'compare.max_differences := greatest(compare.max_differences, 100000)');
	$there->safe_psql('postgres', "UPDATE twice SET v = id WHERE v = 'x'");
	both('DELETE FROM twice WHERE id < 1');
	# A row that its partition should not have, and that differs
	both("CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (50000) TO (90000);
		CREATE TABLE parts_1 (id int PRIMARY KEY, v text); INSERT INTO parts SELECT g, 'v' FROM generate_series(50000, 70000) AS g");
	$_->safe_psql('postgres', "INSERT INTO parts_1 SELECT g, 'v' FROM generate_series(1, 20000) AS g; INSERT INTO parts_1 VALUES (80000, '${\ $_->name}');
		ALTER TABLE parts_1 ADD CHECK (id IS NOT NULL AND id >= 0 AND id < 50000) NOT VALID; SET allow_system_table_mods = on;
		UPDATE pg_constraint SET convalidated = true WHERE conrelid = 'parts_1'::regclass AND contype = 'c';
		ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES FROM (0) TO (50000)") foreach $here, $there;
	$run = begin_run("'{parts}', progress => false");
	is(join(' ', @{ tables($run)->{'public.parts'} }{qw(status sqlstate)}), 'error XX002', 'a row that slices leave out, because its partition is not for it');
	like(tables($run)->{'public.parts'}{detail}, qr/does not find rows that the table has \((?:here\): One has the key \{"id": 80000\}|\w+\): Of a sample of \d+ rows, it does not find 1;)/, 'which a scan finds, or before it the sample');
	$run = begin_run("'{twice}', progress => false");
	like($said->($run), qr/^equal - read by index public\.twice_pkey \(not checked\) here, public\.twice_pkey \(not checked\) there; a scan counted as many rows$/,
		'and an equal one says that it has counted');
	is($here->safe_psql('postgres', "SELECT done > 1, cut - done, rows_here, rows_there, missing + extra + changed + unconfirmed FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_table, $run)"), 't|1|100000|100000|0', 'which is not one of its slices');
}

# Entries of each index lead to a row of another slice, and once more to one of their own, in place of two rows that the index lacks.
both('CREATE TABLE stale (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off); INSERT INTO stale SELECT 2 * i, i FROM generate_series(1, 30000) AS i; ANALYZE stale');
foreach my $node ($here, $there)
{
	unnoticed($node, 'stale_pkey', "INSERT INTO stale VALUES (60001, '${\ $node->name}'), (60003, '${\ $node->name}')",
		'DELETE FROM stale WHERE id IN (59990, 59992)', 'VACUUM stale', "UPDATE pg_class SET relhasindex = true WHERE oid = 'stale'::regclass");
	$node->safe_psql('postgres', "INSERT INTO stale SELECT i, repeat('v', 40) FROM unnest('{-1,59993}'::int[]) AS i");	# only the last page has room for these
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_indexonlyscan = off; SELECT id FROM stale WHERE id = 59990 UNION ALL SELECT id FROM stale WHERE id = 59992'),
		"-1\n59993", 'entries of rows that are gone lead to other ones');
}
change('slice_guard', '> 0 THEN', '> 100000 THEN');
is(join(' ', @{ tables(scalar begin_run("'{stale}', progress => false"))->{'public.stale'} }{qw(status sqlstate)}), 'error XX002', 'rows that are read twice do not make up for others that are not read');
change('slice_guard', '> 100000 THEN', '> 0 THEN');

# --- a peer that answers with what is not a bound ---------------------------------------------

both('CREATE TABLE bounded (a int, b int, PRIMARY KEY (a, b)); INSERT INTO bounded SELECT i / 1000, i FROM generate_series(1, 5000) AS i');
$there->safe_psql('postgres', 'DELETE FROM bounded WHERE a = 3');
{
	my $whole = $there->safe_psql('postgres', "SELECT pg_get_functiondef('iblt_internal.slice_bound'::regproc)");
	my $answered = sub {
		my ($bound) = @_;
		$there->safe_psql('postgres', $whole =~ s/RETURN answer;/SELECT text '$bound' AS bound INTO answer; RETURN answer;/r);
		my $row = tables(scalar begin_run("'{bounded}', slice_ms => 100, progress => false"))->{'public.bounded'};
		return join(' ', map { $_ // '-' } @$row{qw(status sqlstate detail)});
	};
	change('slice_may_count', '268435456', '0');
	is($answered->($_), 'error 22000 the peer answered with a bound that is not a key', "$_: rows would be in no slice") foreach '{3,NULL}', '{3}', '[0:1]={3,4}', '{{3,4}}', '{}';
	like($answered->('{0,1}'), qr/^error XX002 a bound of public\.bounded is not above the one before it: An index of the key is damaged, here or on the peer; find the index with amcheck/, 'a bound again: the run would not end');
	$there->safe_psql('postgres', $whole);
	change('slice_may_count', '0 / 28', '268435456 / 28');
}

# --- no index of the planner's --------------------------------------------------------------

both('CREATE TABLE nowhere (id int PRIMARY KEY) PARTITION BY RANGE (id)');
is(join(' ', map { $_->{status} . ' ' . $_->{detail} } tables(scalar begin_run("'{nowhere}', progress => false"))->{'public.nowhere'}), 'equal compared in one slice: the planner finds no index to cut a relation into slices', 'a table that cannot be cut, because the planner finds no index, is one slice');

# --- a subscriber under load -----------------------------------------------------------------

$there->safe_psql('postgres', 'ALTER ROLE CURRENT_USER SET search_path = public, "Their Iblt"');
# The load leaves the multiples of ten alone.
both('CREATE TABLE drift (id int PRIMARY KEY, v int); CREATE TABLE calm (id int PRIMARY KEY)');
$there->safe_psql('postgres', 'INSERT INTO drift SELECT g, g FROM generate_series(1, 20000) g; INSERT INTO calm SELECT g FROM generate_series(1, 100) g; ANALYZE;
	CREATE PUBLICATION drift FOR TABLE drift, calm');
$here->safe_psql('postgres', "CREATE SUBSCRIPTION drift CONNECTION ${\ conninfo($there)} PUBLICATION drift");
subscribed($here, 2);
my $load = start_load($there, '\set id random(0, 1999) * 10 + random(1, 9)
	\set gone random(0, 1999) * 10 + random(1, 9)
	INSERT INTO drift VALUES (:id, 1) ON CONFLICT (id) DO UPDATE SET v = drift.v + 1;
	DELETE FROM drift WHERE id = :gone;', '-c', 2, '-R', 150);

# Makes keys differ on the subscriber; they as lines of found(), for a run of that side.
sub plant
{
	my ($side) = @_;
	my @keys = map { 10 * (1 + int(rand(1999))) } 1 .. 2 + int(rand(30));
	my %kind = map { $keys[$_] => $_ % 2 ? 'update' : 'delete' } 0 .. $#keys;
	my %more = map { -1 - int(rand(1000)) => 1 } 1 .. int(rand(20));
	my $list = sub { return join(',', grep { $kind{$_} eq $_[0] } keys %kind) || 'NULL' };
	$here->safe_psql('postgres', "UPDATE drift SET v = -1 WHERE id IN (${\ $list->('update')}); DELETE FROM drift WHERE id IN (${\ $list->('delete')});"
		. join(';', map { "INSERT INTO drift VALUES ($_, 0)" } keys %more));
	my ($only_sub, $only_pub) = $side == $here ? ('here', 'there') : ('there', 'here');
	my @expected = ((map { qq({"id": $_}|) . ($kind{$_} eq 'update' ? 'both' : $only_pub) } keys %kind), map { qq({"id": $_}|$only_sub) } keys %more);
	return join("\n", sort @expected);
}

foreach my $round (1 .. $rounds)
{
	my $side = $round % 3 == 2 ? $there : $here;
	my $expected = plant($side);
	my ($run, $out, $err);
	my $text = "round $round";
	if ($round % 3 == 1)
	{
		$text .= ', the subscription';
		$run = begin_run("subscription => 'drift', slice_ms => 50, progress => false");
	}
	elsif ($round % 3 == 2)
	{
		$text .= ', the publication';
		$run = begin_run("publication => 'drift', slice_ms => 50, progress => false", node => $there);
	}
	else
	{
		$text .= ', the subscription by its own connection string, and two sessions';
		(my $first, $run) = start_run("subscription => 'drift', slice_ms => 50, progress => false", peer => 'NULL');
		my $second = background($here, "CALL iblt_audit_resume($run, progress => false)");
		finish($_) foreach $first, $second;
		is($first->{err} . $second->{err}, '', "$text: no error");
	}
	my $found = join("\n", sort split /\n/, $side->safe_psql('postgres', "SELECT key, side FROM iblt_audit_differences WHERE run = $run"));
	is($found, $expected, "$text: exactly the keys that were made to differ");
	my $rows = tables($run, node => $side);
	is(join(' ', map { $_ // '-' } @{ $rows->{'public.drift'} }{qw(status unconfirmed)}, $rows->{'public.calm'}{status}), 'differs 0 equal', 'all are confirmed')
		or diag($rows->{'public.drift'}{detail});
	$here->safe_psql('postgres', 'DELETE FROM drift WHERE id < 0; INSERT INTO drift SELECT 10 * g, 10 * g FROM generate_series(1, 2000) g ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE drift.v <> excluded.v');
}
{
	my $run = begin_run("subscription => 'drift', slice_ms => 50, progress => false");
	is(join(' ', map { $_->{status} } values %{ tables($run) }), 'equal equal', 'put right: equal');
}
stop_load($load, 'pgbench');

done_testing();
