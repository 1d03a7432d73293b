# What a role can do to others: functions of the extension called with positions, OIDs and
# numbers that nobody gave it, calls that would go on without end, and locks that others need.
use IbltTest;

IbltTest::share_sessions(0);

my $node = server('roles', 'fsync = off', 'autovacuum = off', 'track_commit_timestamp = on', 'log_error_verbosity = verbose', 'restart_after_crash = on');
my $secret = 'hush' . random_seed();

$node->safe_psql('postgres', qq{CREATE EXTENSION dblink; ${\ create_extensions('') } CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE mallory LOGIN;
	CREATE SCHEMA theirs; GRANT USAGE ON SCHEMA theirs TO mallory;
	CREATE TABLE theirs.hidden (id int PRIMARY KEY, v text); INSERT INTO theirs.hidden SELECT g, '$secret' FROM generate_series(1, 300) g;
	CREATE INDEX by_v ON theirs.hidden (v); CREATE SEQUENCE theirs.number; CREATE VIEW theirs.seen AS SELECT * FROM theirs.hidden;
	CREATE MATERIALIZED VIEW theirs.stored AS SELECT * FROM theirs.hidden; CREATE TYPE theirs.pair AS (id int, v text);
	CREATE TABLE theirs.parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
	CREATE TABLE theirs.part PARTITION OF theirs.parts FOR VALUES FROM (0) TO (1000); INSERT INTO theirs.parts VALUES (1, '$secret');
	CREATE TABLE theirs.above (id int PRIMARY KEY, v text); CREATE TABLE theirs.child () INHERITS (theirs.above); INSERT INTO theirs.child VALUES (1, '$secret'); GRANT SELECT ON theirs.above TO mallory;
	CREATE TABLE theirs.shown (id int PRIMARY KEY, v text); INSERT INTO theirs.shown SELECT g, 'x' FROM generate_series(1, 300) g; GRANT SELECT ON theirs.shown TO mallory;
	CREATE TABLE theirs.columns (id int PRIMARY KEY, v text); INSERT INTO theirs.columns VALUES (1, '$secret'); GRANT SELECT (id, tableoid, ctid, xmin) ON theirs.columns TO mallory;
	CREATE TABLE theirs.partly (id int PRIMARY KEY, v text); INSERT INTO theirs.partly VALUES (1, '$secret'); GRANT SELECT (id) ON theirs.partly TO mallory;
	CREATE TABLE theirs.policed (id int PRIMARY KEY, v text); INSERT INTO theirs.policed VALUES (1, '$secret'); GRANT SELECT ON theirs.policed TO mallory;
	ALTER TABLE theirs.policed ENABLE ROW LEVEL SECURITY;
	CREATE SCHEMA mine AUTHORIZATION mallory; SET ROLE mallory; CREATE TABLE mine.t (id int PRIMARY KEY, v text); INSERT INTO mine.t SELECT g, 'x' FROM generate_series(1, 300) g;
	CREATE TABLE mine.gone (id int); CREATE TABLE mine.tracked (id int PRIMARY KEY, v text); CALL iblt_track('mine.tracked', capacity => 100); RESET ROLE});
my $gone = $node->safe_psql('postgres', q{SELECT 'mine.gone'::regclass::oid; DROP TABLE mine.gone});
my $standby = standby($node, 'after', 'restart_after_crash = on');

# --- when a row was committed --------------------------------------------------------------------

foreach my $side ($node, $standby)
{
	my $name = $side->name;
	my $time = sub { my ($table) = @_; my ($rc, $out, $err) = $side->psql('postgres', "\\set VERBOSITY sqlstate\n$table", extra_params => [ '-U', 'mallory' ]); return $out . $err =~ s/.*ERROR:\s+//sr };
	# the position and the transaction of a real row, which the role is not told of
	my $call = sub {
		my ($table) = @_;
		return $time->('SELECT iblt_internal.iblt_row_time(' . $side->safe_psql('postgres', "SELECT concat_ws(', ', tableoid, quote_literal(ctid), quote_literal(xmin)) FROM $table LIMIT 1") . ') IS NOT NULL');
	};
	is($call->($_), 't', "$name: a row of $_, which the role may read") foreach qw(mine.t theirs.shown theirs.columns theirs.child);
	is($call->($_), '42501', "$name: none of $_") foreach qw(theirs.hidden theirs.part theirs.partly theirs.policed pg_authid);
	$node->safe_psql('postgres', 'GRANT SELECT ON theirs.parts TO mallory');
	replayed($node, $standby);
	is($call->('theirs.part'), 't', "$name: a row of a partition whose parent the role may read");
	is($time->('SELECT count(iblt_internal.iblt_row_time(tableoid, ctid, xmin)) FROM theirs.parts'), '1', "$name: as it reads it");
	$node->safe_psql('postgres', 'REVOKE SELECT ON theirs.parts FROM mallory');
	replayed($node, $standby);
}

# --- positions, OIDs and numbers ------------------------------------------------------------------

# Each function with an argument of such a type is called with each relation and each position.
my %forged = (
	tid => [ map {; "'$_'" } '(4294967295,1)', '(4294967295,0)', '(4294967294,1)', '(4294967295,65535)', '(2147483648,1)', '(0,0)', '(0,1)', '(0,65535)', '(1,1)', '(2,1)', '(1000000,1)' ],
	xid => [ map {; "'$_'" } 0, 2, 3, 4294967295 ],
	bigint => [ 1, -1, 4294967295, 4294967296, 9223372036854775807, '(-9223372036854775808)' ],
	integer => [ 1, -1, 0, 2147483647, '(-2147483648)' ],
	'double precision' => [ 0, 0.5, "'NaN'", 1e300, -1 ],
	boolean => [ 'true', 'false' ],
	text => [ q{'id'}, q{'id > 0'}, q{''}, q{'{}'} ],
	'text[]' => [ q{'{id}'}, q{'{v}'}, q{'{xmin}'}, q{'{}'} ],
	jsonb => [ q{'{}'} ], 'timestamp with time zone' => ['now()'], '"char"' => [q{'r'}],
	'smallint[]' => [q{'{1,-1}'}], interval => [q{'1 s'}],
	iblt => [ 'iblt_new(10)', '(SELECT iblt_agg(1, 1))' ]);
my @relations = map({; "'$_'::regclass" } qw(theirs.hidden theirs.hidden_pkey theirs.by_v theirs.number theirs.seen theirs.stored theirs.pair theirs.parts theirs.part theirs.child theirs.shown theirs.columns theirs.partly
		theirs.policed pg_class pg_authid pg_class_oid_index pg_toast.pg_toast_1255 pg_locks pg_statistic iblt_internal.run_head iblt_internal.tracked)),
	map({; "(SELECT reltoastrelid FROM pg_class WHERE oid = 'theirs.$_'::regclass)::regclass" } qw(hidden shown)), map {; "$_\::oid::regclass" } 0, 4294967295, $gone;

my @functions = map { my ($name, $types) = split /\|/; { name => $name, types => [ split /;/, $types ] } } split /\n/, $node->safe_psql('postgres', q{
	SELECT p.oid::regproc, array_to_string(ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS x(t, i) ORDER BY i), ';')
	FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid AND } . of_extensions() . q{
	WHERE p.prokind = 'f' AND p.proargtypes::oid[] && '{oid,regclass,oid[],regclass[],regtype,tid,xid,xid8,pg_lsn}'::regtype[]::oid[]
	AND NOT p.proargtypes::oid[] && '{internal}'::regtype[]::oid[] ORDER BY 1});
cmp_ok(scalar @functions, '>', 50, 'the catalog has functions of such arguments');
is(scalar(grep { $_->{name} =~ /iblt_row_time/ } @functions), 1, 'that which took a block number from its caller is among them');

# All positions for each relation; of what has none, each value of its longest list of values at least once.
sub calls
{
	my ($function, @on) = @_;
	my @calls;
	foreach my $relation (@on)
	{
		my @lists = map { /^(?:oid|regclass|regtype)$/ ? [$relation] : /^(?:oid|regclass)\[\]$/ ? ["ARRAY[$relation]"] : $forged{$_} // ["NULL::$_"] } @{ $function->{types} };
		my @most = map { scalar @$_ } @lists;
		my $n = 1;
		$n = $_ > $n ? $_ : $n foreach @most;
		$n *= 4 if grep { $_ eq 'tid' } @{ $function->{types} };
		foreach my $i (0 .. $n - 1)
		{
			my $j = $i;
			push @calls, "SELECT $function->{name}(" . join(', ', map { my $value = $lists[$_][ $j % $most[$_] ]; $j = int($i / $most[$_]) if $function->{types}[$_] eq 'tid'; "$value\::$function->{types}[$_]" } 0 .. $#lists) . ')';
		}
	}
	return @calls;
}

my $sizes = q{SELECT oid::regclass, fork, pg_relation_size(oid, fork) FROM pg_class, unnest('{main,fsm,vm}'::text[]) AS fork WHERE relkind IN ('r', 'i', 'S', 't', 'm') AND relpersistence = 'p' ORDER BY 1, 2};

# Calls them in one session.  Errors are in the server's log.  Compiling the queries of some would take until the timeout.
sub run_as_mallory
{
	my ($side, @statements) = @_;
	my $file = $side->basedir . '/forged.sql';
	unlink $file;
	append_to_file($file, join(";\n", q{SET client_min_messages = error; SET statement_timeout = '5s'; SET jit = off; SET search_path = iblt_internal, public}, @statements) . ";\n");
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-U', 'mallory', '-d', $side->connstr('postgres'), '-f', $file ], '>', \$out, '2>', \$err, IPC::Run::timeout(10 * $PostgreSQL::Test::Utils::timeout_default));
	unlike("$out$err", qr/\Q$secret/, $side->name . ': nothing of what the role may not read is in an answer');
	unlike($err, qr/connection to server was lost|server closed the connection/, $side->name . ': the session goes on');
	return $err;
}

my @calls = map { calls($_, @relations) } @functions;
note(scalar(@calls) . ' calls of ' . scalar(@functions) . ' functions');
foreach my $side ($node, $standby)
{
	my $name = $side->name;
	my $before = $side->safe_psql('postgres', $sizes);
	my $log = length slurp_file($side->logfile);
	# a tracked table of the role's own can be written on the primary
	my $err = run_as_mallory($side, @calls, $side == $standby ? map { calls($_, "'mine.tracked'::regclass") } @functions : ());
	is($side->safe_psql('postgres', $sizes), $before, "$name: no relation has grown");
	my $said = substr slurp_file($side->logfile), $log;
	my %internal = map { $_ => 1 } $said =~ /(?:ERROR|PANIC|FATAL):  (XX00[01]: .*)/g;
	is(join("\n", sort keys %internal), '', "$name: no error is an internal one");
	is(join("\n", $said =~ /.*(?:terminated by signal|TRAP).*/g), '', "$name: the server goes on");
}

# Of tables of its own, a role may begin to track them; but nothing else is written.
{
	my $others = q{SELECT oid::regclass, pg_relation_size(oid) FROM pg_class WHERE relnamespace::regnamespace::text IN ('mine', 'theirs') AND relkind IN ('r', 'i', 'S', 't', 'm') ORDER BY 1};
	my $before = $node->safe_psql('postgres', $others);
	run_as_mallory($node, map { calls($_, "'mine.t'::regclass") } @functions);
	is($node->safe_psql('postgres', $others), $before, 'nor has one of the role, by calls for it');
}
$node->safe_psql('postgres', 'INSERT INTO theirs.shown VALUES (1000)');
replayed($node, $standby);
is($standby->safe_psql('postgres', 'SELECT count(*) FROM theirs.shown'), '301', 'the standby replays');
$standby->stop;

# --- calls without end ------------------------------------------------------------------------------

my $conninfo = conninfo($node);

# More results, literals or seconds than anybody has.
$node->safe_psql('postgres', q{CREATE TABLE long AS SELECT string_agg('v = ''x''', ' OR ') AS condition FROM generate_series(1, 400000)});
my %endless = (
	'a long condition' => "SELECT iblt_internal.iblt_compare_check_expression('theirs.shown', condition, true) FROM long",
	'a long wait' => "SELECT iblt_internal.iblt_peer_send('c', 'SELECT pg_sleep(1000)'), iblt_internal.iblt_peer_wait('c')",
	'a late answer' => "SELECT iblt_internal.iblt_peer_send('c', 'SELECT pg_sleep(1000)'), iblt_internal.iblt_peer_fetch('c', ''::text)");
foreach my $name (sort keys %endless)
{
	foreach my $how ('cancel', $name =~ /condition/ ? () : 'terminate')
	{
		my $run = background($node, "SELECT iblt_internal.iblt_peers_open('{c}', ARRAY[$conninfo], 60); /* endless */ $endless{$name}");
		wait_for($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%/* endless */%' AND pid <> pg_backend_pid() AND EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' OR state = 'idle')});
		$node->safe_psql('postgres', "SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%/* endless */%' AND pid <> pg_backend_pid()");
		# a session that does not look for interrupts is still there after the test's time
		ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE '%/* endless */%' AND pid <> pg_backend_pid()}), "$name: $how ends it") or last;
		$run->{run}->finish;
		like($run->{err}, $how eq 'cancel' ? qr/canceling statement due to user request/ : qr/terminating connection due to administrator command/, 'and says so');
	}
}
{
	my $session = IbltTest::Session->new($node);
	$session->run("SET statement_timeout = '2s'; SELECT iblt_internal.iblt_peers_open(array_agg('c' || g), array_agg(NULL::text), 1) FROM generate_series(1, 1000000) AS g");
	like($session->{err}, qr/canceling statement due to statement timeout/, 'a million names of connections');
	$session->quit;
}

# --- locks of runs ----------------------------------------------------------------------------------

my $head = q{iblt_internal.iblt_run_add(jsonb_populate_record(NULL::iblt_internal.run_head, '{"run": 0, "table_number": 0, "number": 0, "options": {}, "started_at": "2000-01-01"}'))};
my %session = map { my $session = IbltTest::Session->new($node); $session->run("SET ROLE $_; SET lock_timeout = '10s'"); $_ => $session } qw(ann bob);
my $ann = sub { my $out = $session{ann}->run(@_); is($session{ann}{err}, '', 'ann'); return $out };
my $bob = sub { my $out = $session{bob}->run(@_); is($session{bob}{err}, '', 'bob does not wait'); return $out };

my $first = $ann->("BEGIN; SELECT $head");
is($bob->("BEGIN; SELECT $head"), $first + 1, 'two transactions begin a run');
is($ann->("SELECT $head; COMMIT"), $first + 2, 'and one of them another');
is($bob->("ROLLBACK; SELECT $head"), $first + 3, 'a number that was given back is behind those that are taken');
is($ann->("BEGIN; SAVEPOINT s; SELECT $head; ROLLBACK TO s; SELECT $head"), join("\n", ($first + 4) x 2), 'also in a subtransaction');
is($bob->("SELECT $head"), $first + 5, 'others take the next one');
$ann->('COMMIT');

# of those that are deleted, too
$ann->("BEGIN; SELECT iblt_audit_prune('0 s')");
is($bob->("SELECT $head"), $first + 6, 'while somebody deletes runs');
is($bob->("SELECT iblt_audit_prune('0 s') > 0; SELECT $head"), "t\n" . ($first + 7), 'and when all of the role are deleted');
$ann->('COMMIT');
is($node->safe_psql('postgres', "SELECT iblt_audit_prune('0 s') > 0; SELECT $head"), "t\n" . ($first + 8), 'or all');

# The key of a lock was a hash, in which a role could choose the number.
my ($hers, $his) = ($ann->("SELECT $head"), $bob->("SELECT $head"));
my $same = (($his - $hers) * 2654435761 + 5) % 4294967296;
is($ann->("BEGIN; SELECT iblt_internal.iblt_run_lock($hers, 1, $same, false), iblt_internal.iblt_run_lock($hers, 1, 5, false), iblt_internal.iblt_run_lock($hers, 0, 0, false)"), 't|t|t', 'a role locks a slice of its run');
is($bob->("SELECT iblt_internal.iblt_run_lock($his, 1, 5, false), iblt_internal.iblt_run_lock($his, 0, 0, false), iblt_internal.iblt_run_lock($his, 0, 1, false)"), 't|t|t', 'and none of another run');
is($bob->("SELECT iblt_internal.iblt_run_lock($his, 1, $_, false)"), 't', "number $_ neither") foreach -1, $hers, 4294967296 + 5, 9223372036854775807;
$session{bob}->run("SELECT iblt_internal.iblt_run_lock($hers, 1, 5, false)");
like($session{bob}{err}, qr/there is no run $hers of this role/, 'that of another role, it cannot lock');
$ann->('COMMIT');

# All keys that SQL can lock, of what is locked.
$bob->("BEGIN; SELECT iblt_internal.iblt_run_lock($his, 1, 5, false), iblt_internal.iblt_run_lock($his, 0, 0, false)");
my $keys = $node->safe_psql('postgres', "SELECT string_agg(DISTINCT format('pg_advisory_xact_lock(%s, %s), pg_advisory_xact_lock(%s)', classid::bigint, objid::bigint, (classid::bigint << 32) | objid::bigint), ', ') FROM pg_locks WHERE locktype = 'userlock' AND pid = $session{bob}{pid}");
like($keys, qr/\($his, 5\)/, 'the locks of a run show whose they are');
$bob->('ROLLBACK');
$ann->("BEGIN; SELECT $keys");
is($bob->("SELECT iblt_internal.iblt_run_lock($his, 1, 5, false), iblt_internal.iblt_run_lock($his, 0, 0, false)"), 't|t', 'an advisory lock with the same numbers is another one');
$_->quit foreach values %session;

done_testing();
