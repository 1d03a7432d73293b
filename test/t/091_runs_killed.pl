# A run that is killed at random moments, on either side, loses a slice at most, counts
# nothing twice, and ends with the right answer.  IBLT_TEST_KILLS is how often (6).
use IbltRuns;
use Time::HiRes qw(usleep);

random_seed();
my ($here, $there) = audit_servers();
my $kills = $ENV{IBLT_TEST_KILLS} // 6;

both('CREATE TABLE large (id bigint PRIMARY KEY, v text); INSERT INTO large SELECT g, md5(g::text) FROM generate_series(1, 9000) g;
	CREATE TABLE pair (a uuid, b int, v int, PRIMARY KEY (a, b)); INSERT INTO pair SELECT md5((g % 500)::text)::uuid, g, g FROM generate_series(1, 5000) g;
	CREATE TABLE plain (v int); INSERT INTO plain SELECT g FROM generate_series(1, 3000) g');
$there->safe_psql('postgres', "UPDATE large SET v = 'drift' WHERE id % 700 = 5; DELETE FROM large WHERE id % 900 = 7; INSERT INTO large VALUES (0, ''), (-77, '');
	DELETE FROM pair WHERE b % 600 = 9; UPDATE pair SET v = 0 WHERE b % 611 = 9; INSERT INTO plain VALUES (-1)");
my @names = qw(large pair plain);
my %truth = map { $_ => truth($_) } @names;
my %rows = map { my $name = $_; ($name => join ' ', map { $_->safe_psql('postgres', "SELECT count(*) FROM $name") } $here, $there) } @names;

sub crash
{
	my ($node) = @_;
	$node->stop('immediate');
	$node->start;
	return;
}

my %victims = (
	'the own session' => sub { my ($pid) = @_; $here->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") },
	'a cancel' => sub { my ($pid) = @_; $here->safe_psql('postgres', "SELECT pg_cancel_backend($pid)") },
	"the peer's session" => sub { $there->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'iblt_audit%'}) },
	'this server' => sub { crash($here) },
	'the peer' => sub { crash($there) });

my $killed = 0;
while ($killed < $kills)
{
	my $run = begin_run("tables => '{large,pair,plain}', slice_ms => 1, max_time => '0'");
	my $goes_on = 1;
	my $done = 0;
	while ($goes_on && $killed < $kills)
	{
		my $session = background($here, "CALL iblt_audit_resume($run, ${\ conninfo($there)}, max_load => 0.5, progress => false)");
		wait_for($here, "SELECT workers <> '{}' OR state = 'finished' FROM iblt_audit_runs WHERE run = $run");
		usleep(rand(400_000));
		my $row = run_row($run);
		last if $row->{state} eq 'finished' && finish($session) . $session->{err} eq '';
		my ($victim) = (sort keys %victims)[ $killed % keys %victims ];
		$victims{$victim}->($row->{workers}[0] // 0);
		$killed++;
		# without its peer's session, it goes on by itself
		$here->psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL iblt_audit_resume%'") if rand() < 0.5;
		eval { finish($session) };
		my $tables = tables($run);
		my $slices = 0;
		$slices += $_->{slices} // 0 foreach values %$tables;
		cmp_ok($slices, '>=', $done, "$victim: no slice that was stored is lost");
		cmp_ok($here->safe_psql('postgres', "SELECT count(*) FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_slice, $run)"), '<=', 1, 'and one at most is to be done again');
		$done = $slices;
		$goes_on = run_row($run)->{state} ne 'finished';
	}
	resume($run, 'max_load => 1, progress => false');
	my $tables = tables($run);
	is(run_row($run)->{state}, 'finished', "the run ends after $killed kills");
	foreach my $name (@names)
	{
		is(found($run, $name), $truth{$name}, "$name: the differences of a full comparison");
		my $row = $tables->{"public.$name"};
		is("$row->{rows_here} $row->{rows_there} $row->{kept}", "$rows{$name} ${\ lines($truth{$name})}", 'and each row was counted once');
	}
	nothing_left('after it');
}

# --- two sessions, one of which dies: the other one does its slice ---------------------------

{
	my ($first, $run) = start_run("'{large,pair}', slice_ms => 1, max_load => 0.3, progress => false");
	my $second = background($here, "CALL iblt_audit_resume($run, ${\ conninfo($there)}, progress => false)");
	wait_for($here, "SELECT cardinality(workers) = 2 OR state = 'finished' FROM iblt_audit_runs WHERE run = $run");
	$here->safe_psql('postgres', "SELECT pg_terminate_backend(workers[1]) FROM iblt_audit_runs WHERE run = $run AND workers <> '{}'");
	eval { finish($_) } foreach $first, $second;
	is(run_row($run)->{state}, 'finished', 'the other session ends the run');
	is(found($run, $_), $truth{$_}, "$_: the differences of a full comparison") foreach qw(large pair);
	is(join(' ', @{ tables($run)->{"public.$_"} }{qw(rows_here rows_there)}), $rows{$_}, 'and each row was counted once') foreach qw(large pair);
}

# --- small tables, which are compared together: none counts before all are stored ------------

both("CREATE SCHEMA small; DO \$\$ BEGIN FOR i IN 1 .. 8 LOOP EXECUTE format('CREATE TABLE small.t%s (id int PRIMARY KEY, v int); INSERT INTO small.t%1\$s SELECT g, g FROM generate_series(1, 10) g', i); END LOOP; END \$\$");
$there->safe_psql('postgres', 'UPDATE small.t3 SET v = 0 WHERE id = 7');
my $stored = "SELECT count(*) FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_table) AS t WHERE generation > 0 AND run =";
foreach my $second (0, 1)
{
	my $lock = background($there, q{SET application_name = 'small lock'; BEGIN; LOCK TABLE small.t6 IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(1000)});
	wait_for($there, q{SELECT count(*) = 1 FROM pg_locks WHERE relation = 'small.t6'::regclass AND granted AND mode = 'AccessExclusiveLock'});
	my ($first, $run) = start_run("schema => 'small', progress => false");
	wait_for($there, q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'small.t6'::regclass AND NOT granted});
	my $other = background($here, "CALL iblt_audit_resume($run, ${\ conninfo($there)}, progress => false)") if $second;
	wait_for($here, "SELECT cardinality(workers) = 2 FROM iblt_audit_runs WHERE run = $run") if $second;
	ok(wait_for($here, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE query LIKE 'CALL iblt_audit_resume($run,%'"), 'a session without a slice waits for that of another one, and not for a time') if $second;
	is($here->safe_psql('postgres', "$stored $run"), '0', 'while small tables are compared together, none is stored');
	$here->safe_psql('postgres', "SELECT pg_terminate_backend(l.pid) FROM pg_stat_activity AS l WHERE query LIKE 'CALL iblt_audit_run(%small%'");
	eval { finish($first) };
	is($here->safe_psql('postgres', "$stored $run"), '0', 'nor after the session has died') unless $second;
	$there->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'small lock'});
	eval { finish($lock) };
	$second ? finish($other) : resume($run, 'progress => false');
	my $rows = tables($run);
	is(join(' ', map { "$_->{status}:$_->{rows_here}:$_->{rows_there}:$_->{slices}" } map { $rows->{"small.t$_"} } 1 .. 8), join(' ', map { ($_ == 3 ? 'differs' : 'equal') . ':10:10:1' } 1 .. 8), 'each table is compared once' . ($second ? ', by the other session' : ''));
	is($rows->{'small.t1'}{detail}, 'compared whole, together with other small tables', 'and the detail says how');
	unlike($rows->{'small.t3'}{detail}, qr/together/, 'and a table that differs was compared alone');
	is($here->safe_psql('postgres', "SELECT relation, key, side FROM iblt_audit_differences WHERE run = $run"), 'small.t3|{"id": 7}|both', 'with its difference');
}

done_testing();
