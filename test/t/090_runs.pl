# Runs on real servers: audits in slices give the answer of a full comparison, can be
# stopped, watched and gone on with by several sessions, and hold no old snapshot.
# IBLT_TEST_KILLS is how often a run is killed (6).
use IbltRuns;
use Time::HiRes qw(usleep);

random_seed();
my ($here, $there) = audit_servers();
my $peer = conninfo($there);
my $slow = 'slice_ms => 1, max_load => 0.2, progress => false';
my $fast = 'max_load => 1';

# The ranges of each table of a run have as many differences as the table.
sub ranges_fit
{
	my ($run) = @_;
	is($here->safe_psql('postgres', "SELECT relation, sum(missing), sum(extra), sum(changed), sum(unconfirmed) FROM iblt_audit_ranges WHERE run = $run GROUP BY 1 ORDER BY 1"),
		$here->safe_psql('postgres', "SELECT relation, missing, extra, changed, unconfirmed FROM iblt_audit_tables WHERE run = $run AND missing + extra + changed > 0 ORDER BY 1"), 'the counts of all ranges of a table are those of the table');
	return;
}

# --- every type of key against the truth -------------------------------------------------

my %keys = (
	t_bigint => [ 'id bigint', 'g * 3' ],
	t_uuid => [ 'id uuid', 'md5(g::text)::uuid' ],
	t_text => [ 'id text COLLATE "C"', q('k ' || md5(g::text)) ]);
foreach my $name (sort keys %keys)
{
	my ($column, $value) = @{ $keys{$name} };
	both("CREATE TABLE $name ($column PRIMARY KEY, v text, at timestamptz);
		INSERT INTO $name SELECT $value, md5(g::text), '2026-01-01 UTC'::timestamptz + g * interval '1 s' FROM generate_series(1, 4000) g");
}
both("CREATE TABLE t_pair (a text COLLATE \"C\", b int, v int, PRIMARY KEY (b, a)); INSERT INTO t_pair SELECT g % 97, g / 97, g FROM generate_series(1, 4000) g;
	CREATE TABLE t_none (v int); INSERT INTO t_none SELECT g % 700 FROM generate_series(1, 2000) g; CREATE VIEW t_view AS SELECT id, v FROM t_bigint;
	CREATE TABLE t_parts (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
	CREATE TABLE t_parts_1 PARTITION OF t_parts FOR VALUES FROM (0) TO (1700); CREATE TABLE t_parts_2 PARTITION OF t_parts FOR VALUES FROM (1700) TO (9000);
	INSERT INTO t_parts SELECT g, g FROM generate_series(1, 4000) g; CREATE TABLE t_empty (id int PRIMARY KEY)");
my @tables = (sort(keys %keys), qw(t_pair t_parts t_none t_view));
foreach my $node ($here, $there)
{
	foreach my $name (sort keys %keys)
	{
		my $some = 'id IN (SELECT id FROM ' . $name . ' ORDER BY md5(id::text || ' . int(rand(1e6)) . ') LIMIT ' . int(rand(30)) . ')';
		$node->safe_psql('postgres', "DELETE FROM $name WHERE $some; UPDATE $name SET v = 'drift on ${\ $node->name}' WHERE " . ($some =~ s/ORDER BY md5/ORDER BY sha224/r =~ s/sha224\((.*?)\) LIMIT/sha224(($1)::bytea) LIMIT/r));
	}
}
$there->safe_psql('postgres', 'UPDATE t_pair SET v = -v WHERE v % 500 = 7; DELETE FROM t_pair WHERE v % 500 = 9; DELETE FROM t_parts WHERE id % 800 = 5;
	DELETE FROM t_none WHERE v = 9; INSERT INTO t_empty VALUES (1), (7)');
my $list = "tables => '{" . join(',', @tables, 't_empty') . "}'";
{
	my ($out, $err) = begin_run("$list, slice_ms => 1");
	my $run = $out;
	like($run, qr/^\d+$/, 'CALL iblt_audit_run gives the number of the run');
	my $rows = tables($run);
	foreach my $name (@tables)
	{
		is(found($run, $name), truth($name), "$name: the differences of a full comparison");
		my $row = $rows->{"public.$name"};
		is($row->{kept}, $row->{missing} + $row->{extra} + $row->{changed}, 'which are as many as were counted');
		is($row->{status}, $row->{kept} ? 'differs' : 'equal', 'status');
		is($row->{rows_here}, $here->safe_psql('postgres', "SELECT count(*) FROM $name"), 'and every row was counted once');
		is($row->{rows_there}, $there->safe_psql('postgres', "SELECT count(*) FROM $name"), 'there too');
		my $whole = $name =~ /none|view/;
		ok($whole ? $row->{slices} == 1 : $row->{slices} >= 3, "slices: $row->{slices}");
		like($row->{detail}, $whole ? qr/compared in one slice: / : qr/read by index/, 'and the detail says how it was read');
		like($err, qr/NOTICE:  run $run: public\.$name: $row->{status}/, 'a NOTICE for the caller');
	}
	is(found($run, 't_empty'), truth('t_empty'), 'empty here');
	ranges_fit($run);
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_audit_differences AS d JOIN iblt_audit_ranges AS r USING (run, relation) WHERE run = $run AND relation = 'public.t_bigint'
		AND coalesce((d.key ->> 'id')::bigint > (r.after ->> 'id')::bigint, true) AND coalesce((d.key ->> 'id')::bigint <= (r.up_to ->> 'id')::bigint, true)"), $rows->{'public.t_bigint'}{kept}, 'iblt_audit_ranges: each difference is in one range');
	my $total = run_row($run);
	is("$total->{state} $total->{percent} $total->{tables} $total->{tables_done} @{$total->{workers}}", 'finished 100 8 8 ', 'iblt_audit_run_stats');
	# (psql's own table, of which the pool knows nothing)
	my ($shown) = run_command([ 'psql', '-X', '-d', $here->connstr('postgres'), '-c', 'TABLE iblt_audit_runs' ]);
	like($shown, qr/\| tables \| done \| differ \| not_compared \| percent \|.*\| finished \| +8 \| +8 \|/s, 'iblt_audit_runs');
	is(scalar(grep { length($_) > 120 } split /\n/, $shown), 0, 'iblt_audit_runs: fits 120 columns') or note($shown);
	is($total->{missing} + $total->{extra} + $total->{changed},
		$here->safe_psql('postgres', "SELECT count(*) FROM iblt_audit_differences WHERE run = $run"), 'the sums of all tables');
	nothing_left('after it');
}

# --- what a run does with errors, and with a list that iblt_audit knows --------------------

both('CREATE SCHEMA odd; CREATE TABLE odd.a (id int PRIMARY KEY); CREATE TABLE odd.typed (id int PRIMARY KEY, v int); CREATE TABLE odd.z (id int PRIMARY KEY, v int);
	INSERT INTO odd.z SELECT g, g FROM generate_series(1, 100) g; CREATE TABLE odd.there (id int)');
$here->safe_psql('postgres', 'DROP TABLE odd.there; ALTER TABLE odd.a ADD more int');
$there->safe_psql('postgres', 'ALTER TABLE odd.typed ALTER v TYPE bigint; UPDATE odd.z SET v = 0 WHERE id = 7');
{
	my $run = begin_run("schema => 'odd', rows => true, recheck => 1");
	my $rows = tables($run);
	my %audit = %{ (audit("schema => 'odd'"))[0] };
	foreach my $name (sort keys %audit)
	{
		my ($mine, $row) = ($rows->{$name}, $audit{$name});
		is(join(' ', map { $_ // '-' } @$mine{qw(status sqlstate missing changed)}), join(' ', map { $_ // '-' } @$row{qw(status sqlstate missing changed)}), "$name: as iblt_audit says it");
		like($mine->{detail} // '', qr/^\Q${\ ($row->{detail} \/\/ '')}\E/, 'with its detail');
	}
	is($here->safe_psql('postgres', "SELECT here->>'v', there->>'v', side FROM iblt_audit_differences WHERE run = $run"), '7|0|both', 'rows => true keeps both rows');
	is($here->safe_psql('postgres', "SELECT * FROM iblt_audit_recheck($run, $peer); SELECT confirmed FROM iblt_audit_differences WHERE run = $run"), "odd.z|1|1|differs\nt", 'recheck => 1 confirms it, also when it is looked at again');
	my $state = run_row($run);
	is("$state->{state} $state->{tables_not_compared} $state->{tables_that_differ}", 'finished 3 1', 'and the run is finished');
	$there->safe_psql('postgres', 'ALTER TABLE odd.typed ALTER v TYPE int; UPDATE odd.z SET v = 7 WHERE id = 7');
	is(resume($run) =~ s/^.*NOTICE.*\n?//mgr, '', 'iblt_audit_resume');
	is(tables($run)->{'odd.typed'}{status}, 'equal', 'takes up again what ended with an error');
	is(tables($run)->{'odd.z'}{status}, 'differs', 'but not what was compared');
	is($here->safe_psql('postgres', "SELECT * FROM iblt_audit_recheck($run, $peer)"), 'odd.z|1|0|equal', 'iblt_audit_recheck looks again');
	ranges_fit($run);
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_audit_differences WHERE run = $run"), '0', 'and drops what is gone');
}
{
	my $error = sub { my ($call) = @_; return failure("CALL iblt_audit_run($call)") };
	like($error->("$peer, '{t_bigint}', schema => 'odd'"), qr/22023.*at most one of tables, schema, publication and subscription/, 'two things to audit');
	like($error->("NULL, schema => 'odd'"), qr/22004.*peer must not be null/, 'no peer');
	like($error->("$peer, schema => 'odd', slice_ms => 0"), qr/22023.*slice_ms/, 'slice_ms');
	like($error->("$peer, schema => 'odd', max_load => 2"), qr/22023.*max_load/, 'max_load');
	like($error->("$peer, schema => 'odd', max_lag => 'much'"), qr/22023.*max_lag/, 'max_lag');
	like(failure("BEGIN; CALL iblt_audit_run($peer, schema => 'odd')"), qr/25001: iblt_audit_run cannot run inside a transaction block or a function/, 'in a transaction block');
	like(failure("CREATE FUNCTION pg_temp.caller() RETURNS void LANGUAGE plpgsql AS \$\$BEGIN CALL iblt_audit_resume(987654, $peer); END\$\$; SELECT pg_temp.caller()"), qr/25001: iblt_audit_resume cannot run inside a transaction block or a function/, 'or in a function');
	like(failure("CALL iblt_audit_resume(987654)"), qr/42704.*there is no run 987654/, 'no such run');
	# also an error that iblt does not raise, since the connection string may hold a password
	$here->safe_psql('postgres', 'ALTER FUNCTION iblt_internal.run_lag_limit(text) RENAME TO nobody_knows');
	my $unknown = $error->("$peer, schema => 'odd'");
	like($unknown, qr/42883: function run_lag_limit\(text\) does not exist/, 'another error');
	unlike($unknown, qr/PL\/pgSQL function (?!iblt_)|SQL statement/, 'without the context of private functions');
	$here->safe_psql('postgres', 'ALTER FUNCTION iblt_internal.nobody_knows(text) RENAME TO run_lag_limit');
	is($here->safe_psql('postgres', 'SELECT count(*) FROM iblt_audit_run_stats'), '2', 'and no run is left of these');
}

# --- whose runs they are --------------------------------------------------------------------

$_->safe_psql('postgres', 'CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE boss LOGIN; GRANT ann TO boss; GRANT SELECT ON t_bigint TO ann') foreach $here, $there;
$here->safe_psql('postgres', 'GRANT USAGE ON SCHEMA "db ""link" TO PUBLIC');
{
	my $mine = begin_run("'{t_bigint}', progress => false");
	my $see = sub { my ($user, $sql) = @_; my ($rc, $out, $err) = $here->psql('postgres', $sql, extra_params => [ '-U', $user ]); return $out . $err };
	foreach my $view (qw(iblt_audit_runs iblt_audit_run_stats iblt_audit_tables iblt_audit_table_stats iblt_audit_differences iblt_audit_ranges))
	{
		is($see->('bob', "SELECT count(*) FROM $view"), '0', "another role sees nothing in $view");
		like($see->('boss', "SELECT count(*) FROM $view"), qr/^0$/, 'nor does one that is no member');
	}
	like($see->('bob', "CALL iblt_audit_resume($mine)"), qr/there is no run $mine of this role/, 'nor can it go on with it');
	is($see->('bob', "SELECT iblt_internal.iblt_run_remove(NULL::iblt_internal.run_table, $mine, own => false)"), '0', 'nor delete its rows');
	like($see->('bob', "SELECT iblt_internal.iblt_run_lock($mine, 0, 0, true)"), qr/there is no run/, 'nor lock it');
	like($see->('bob', 'SELECT * FROM iblt_internal.run_head'), qr/permission denied/, 'nor read the store');
	my $differing = "ROW((SELECT oid FROM pg_roles WHERE rolname = 'postgres'), $mine, 1, 0, 'x', 1, '1', 'here', NULL, NULL, NULL, 1, 0, now(), NULL, 1, NULL, NULL)::iblt_internal.run_difference";
	my $table = qq{jsonb_populate_record(NULL::iblt_internal.run_table, '{"run": $mine, "table_number": 2, "number": 0, "relation": "x", "status": "equal"}')};
	foreach my $call (map { ("iblt_run_add($_)", "iblt_run_put($_)") } $differing, $table)
	{
		like($see->('bob', "SELECT iblt_internal.$call"), qr/there is no run $mine of this role/, 'nor add rows to it: ' . substr($call, 0, 12));
	}
	is($here->safe_psql('postgres', "SELECT tables, (SELECT count(*) FROM iblt_audit_tables WHERE run = $mine), (SELECT count(*) FROM iblt_audit_differences WHERE run = $mine) FROM iblt_audit_run_stats WHERE run = $mine"),
		'1|1|' . lines(truth('t_bigint')), 'also not as a superuser sees it');
	like($see->('ann', 'REFRESH MATERIALIZED VIEW iblt_internal.run_head'), qr/must be owner|permission denied/, 'nor refresh it');
	is($here->safe_psql('postgres', "SELECT peer IS NULL FROM iblt_audit_run_stats WHERE run = $mine"), 't', 'a connection string is not kept');
	like(failure("CALL iblt_audit_resume($mine)"), qr/22004.*the connection string of the peer of run $mine was not kept/, 'so it is asked for');
	like(failure("CALL iblt_audit_resume($mine, ${\ literal($there->connstr('template1'))})"), qr/iblt is not installed/, 'another database');
	$there->safe_psql('postgres', 'CREATE DATABASE other TEMPLATE template0');
	$there->safe_psql('other', 'CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE TABLE t_bigint (id bigint PRIMARY KEY, v text, at timestamptz)');
	like(failure("CALL iblt_audit_resume($mine, ${\ literal($there->connstr('other'))})"), qr/22023.*run $mine was begun with another peer/, 'also one that has iblt');
	is($here->safe_psql('postgres', join(';', map { "CALL iblt_audit_run($_, '{t_bigint}', progress => false)" } $peer, literal($there->connstr('other')))
				. '; SELECT 1') =~ s/\d+\n(?!\z)//gr, '1', 'two runs of one session');
	is($here->safe_psql('postgres', "SELECT DISTINCT rows_there FROM iblt_audit_tables WHERE run > $mine ORDER BY 1"), "0\n" . $there->safe_psql('postgres', 'SELECT count(*) FROM t_bigint'),
		'and each has read the peer that it was given');
	$here->safe_psql('postgres', 'CREATE PUBLICATION every FOR ALL TABLES');
	is($here->safe_psql('postgres', "SELECT count(*) FROM pg_publication_tables WHERE schemaname = 'iblt_internal'"), '0', 'no publication carries runs elsewhere');
	$here->safe_psql('postgres', 'DROP PUBLICATION every');
}

# --- stopping, going on, and several sessions ------------------------------------------------

both('CREATE TABLE large (id int PRIMARY KEY, v int); INSERT INTO large SELECT g, g FROM generate_series(1, 12000) g; VACUUM ANALYZE large');
$there->safe_psql('postgres', 'UPDATE large SET v = -1 WHERE id % 1000 = 3; DELETE FROM large WHERE id % 1000 = 4; INSERT INTO large SELECT -g, g FROM generate_series(1, 5) g');
my $large = lines(truth('large'));
{
	my $run = begin_run("'{large}', slice_ms => 1, max_time => '0'");
	is(run_row($run)->{state}, 'stopped', 'max_time');
	my $calls = 0;
	while (run_row($run)->{state} eq 'stopped' && $calls++ < 200)
	{
		resume($run, "max_time => '0.7 s'");
	}
	is(run_row($run)->{state}, 'finished', "goes on, each time for less than a second ($calls times)");
	is(join(' ', @{ tables($run)->{'public.large'} }{qw(rows_here rows_there kept)}), "12000 11993 $large", 'and every row was counted once');
}
{
	my $workers = 3;
	my ($first, $run) = start_run("'{large,t_uuid,t_pair}', slice_ms => 1, max_load => 0.3, progress => false");
	my @others = map { background($here, "CALL iblt_audit_resume($run, $peer, progress => false)") } 2 .. $workers;
	my $most = 0;
	while ((my $row = run_row($run))->{state} ne 'finished')
	{
		$most = @{ $row->{workers} } if @{ $row->{workers} } > $most;
	}
	is($_->{err}, '', 'a session ends without an error') foreach ($first, map { finish($_); $_ } @others);
	finish($first);
	cmp_ok($most, '>', 1, "$workers sessions on one run ($most seen at once)");
	is(found($run, $_), truth($_), "$_: the differences of a full comparison") foreach qw(large t_uuid t_pair);
	is(join(' ', @{ tables($run)->{'public.large'} }{qw(rows_here rows_there kept)}), "12000 11993 $large", 'and every row was counted once');
}

# --- no snapshot older than a slice ------------------------------------------------------------

{
	# so slow that it is not over before it is cancelled, also where all else takes long
	my ($session, $run) = start_run("'{large}', ${\ ($slow =~ s/0\.2/0.03/r)}");
	wait_for($here, "SELECT slices > 1 FROM iblt_audit_table_stats WHERE run = $run");
	like(run_row($run)->{state}, qr/running/, 'it runs');
	like(run_row($run)->{percent}, qr/^[1-9]\d?(\.\d)?$/, 'and shows how far it is');
	is($here->safe_psql('postgres', "SELECT bool_and(t.time_left > '0 s' AND abs(extract(epoch FROM t.time_left) - t.wall_ms / 1000 * (t.rows_estimated - t.rows) / t.rows) < 1 AND r.time_left >= t.time_left)
		FROM iblt_audit_table_stats AS t JOIN iblt_audit_run_stats AS r USING (run) WHERE run = $run"), 't', 'and how long it will take at this pace');
	foreach my $node ($here, $there)
	{
		$node->safe_psql('postgres', 'CREATE TABLE dead (id int) WITH (autovacuum_enabled = off); INSERT INTO dead SELECT g FROM generate_series(1, 100) g; DELETE FROM dead');
	}
	my $slices = tables($run)->{'public.large'}{slices};
	wait_for($here, "SELECT slices > $slices + 1 FROM iblt_audit_table_stats WHERE run = $run");
	foreach my $node ($here, $there)
	{
		my (undef, undef, $err) = $node->psql('postgres', 'VACUUM (VERBOSE) dead');
		like($err, qr/100 removed|removed 100|found 100 removable/, 'vacuum removes what died two slices ago on ' . $node->name);
	}
	is(run_row($run)->{state}, 'running', 'while the run is at work');
	$here->safe_psql('postgres', "SELECT pg_cancel_backend((SELECT workers[1] FROM iblt_audit_run_stats WHERE run = $run))");
	finish($session);
	like($session->{err}, qr/canceling statement due to user request.*CALL iblt_audit_resume\($run\) continues the run/s, 'a cancel, with how to go on');
	is(run_row($run)->{state}, 'stopped', 'stops it');
	nothing_left('after a cancel');
	resume($run, $fast);
	is(found($run, 'large'), truth('large'), 'and it goes on');
	is(run_row($run)->{time_left}, undef, 'until no time is left');
}

# --- altered in the middle -----------------------------------------------------------------------

foreach my $change ([ 'VACUUM FULL large', $there ], [ 'ALTER TABLE large ADD w int DEFAULT 5', $here, $there ],
	[ 'TRUNCATE large', $there ])
{
	my ($sql, @nodes) = @$change;
	# the first session may see it, before it is cancelled
	my ($session, $run) = start_run("'{large}', ${\ ($slow =~ s/progress => false/progress => true/r)}");
	wait_for($here, "SELECT slices > 1 FROM iblt_audit_table_stats WHERE run = $run");
	$_->safe_psql('postgres', $sql) foreach @nodes;
	$here->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM (SELECT unnest(workers) AS pid FROM iblt_audit_run_stats WHERE run = $run) AS w");
	finish($session);
	my $err = $session->{err} . resume($run, $fast);
	like($err, qr/public\.large was altered, it starts again/, "$sql: the table starts again");
	is(found($run, 'large'), truth('large'), 'and its differences are those of a full comparison');
	is(join(' ', @{ tables($run)->{'public.large'} }{qw(status rows_here)}), 'differs 12000', 'each row was counted once');
	ranges_fit($run);
}

# A partitioned table has partitions, on either side: another one in the middle, and one that is another file.
foreach my $change ([ 'VACUUM FULL t_parts_2', $here ], [ 'CREATE TABLE t_parts_3 PARTITION OF t_parts FOR VALUES FROM (9000) TO (9999)', $there ],
	[ 'ALTER TABLE t_parts DETACH PARTITION t_parts_3', $there ])
{
	my ($sql, $node) = @$change;
	my $run = begin_run("'{t_parts}', slice_ms => 1, max_load => 0.001, max_time => '0.5 s', progress => false");
	is(join(' ', @{ tables($run)->{'public.t_parts'} }{qw(status slices)}), 'under way 1', 'a run stops behind a slice');
	$node->safe_psql('postgres', $sql);
	like(resume($run, $fast), qr/public\.t_parts was altered, it starts again/, "$sql: the table starts again");
	is(found($run, 't_parts'), truth('t_parts'), 'and its differences are those of a full comparison');
	is(tables($run)->{'public.t_parts'}{rows_here}, 4000, 'each row was counted once');
}

# --- gentle ------------------------------------------------------------------------------------------

my $standby = standby($there, 'standby');
{
	my $row = tables(begin_run("'{t_bigint}', slice_ms => 1, max_load => 0.25, progress => false"))->{'public.t_bigint'};
	cmp_ok($row->{work_ms} / $row->{wall_ms}, '<', 0.5, 'max_load');
	# a pause after it would be 999 times as long
	$row = tables(begin_run("'{t_none}', max_load => 0.001, progress => false"))->{'public.t_none'};
	cmp_ok($row->{wall_ms} / $row->{work_ms}, '<', 100, 'no pause after the last slice');
	# also behind other tables: a pause would take an hour
	both('CREATE TABLE t_zero (id int PRIMARY KEY)');
	$row = tables(begin_run("'{t_bigint}', max_time => '0 s', progress => false"))->{'public.t_bigint'};
	is("$row->{status} " . ($row->{rows_estimated} > 1000 ? 'estimated' : $row->{rows_estimated}), 'waiting estimated', 'a table that waits says how many rows it may have');
	my $several = begin_run("'{t_zero,t_none}', slice_ms => 10, max_rate => 1, progress => false");
	is(run_row($several)->{state}, 'finished', 'nor after that of the last of several tables');
	cmp_ok(tables($several)->{'public.t_none'}{wall_ms}, '<', 60000, 'which does not count one');
	replayed($there, $standby);
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$there->safe_psql('postgres', 'CREATE TABLE filler AS SELECT g FROM generate_series(1, 40000) g');
	my ($session, $paused) = start_run("'{t_bigint}', max_lag => '1 MB'");
	wait_for($here, "SELECT state LIKE 'paused: replication lags by more than 1 MB' FROM iblt_audit_run_stats WHERE run = $paused");
	pass('max_lag pauses, and says so');
	is($standby->safe_psql('postgres', "SELECT (iblt_internal.run_lag() ->> 'seconds')::numeric > 0"), 't', 'a standby that has received more than it replayed is late');
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	finish($session);
	like($session->{err}, qr/pauses: replication lags.*goes on.*is finished/s, 'until it has caught up');
	replayed($there, $standby);
	# a record may come at any moment
	is($standby->safe_psql('postgres', "SELECT bool_or(iblt_internal.run_lag() ->> 'seconds' = '0') FROM generate_series(1, 100)"), 't', 'a standby that has replayed all does not lag, however long ago that was');
	my $other = IbltTest::Session->new($here);
	my $waiting = begin_run("'{t_bigint,t_none}', max_time => '0 s', progress => false");
	$other->run("BEGIN; SELECT iblt_internal.iblt_run_lock($waiting, 1, 0, true)");
	is($here->safe_psql('postgres', "SET lock_timeout = '1s'; SET search_path = iblt_internal, public; SELECT n.table_number, n.busy FROM run_next($waiting) AS n"), '2|f', 'a session goes past a table that another one begins');
	$other->quit;
}

# --- pruning ---------------------------------------------------------------------------------------------

is($here->safe_psql('postgres', "SELECT iblt_audit_prune()"), '0', 'iblt_audit_prune spares what is young');
cmp_ok($here->safe_psql('postgres', "SELECT iblt_audit_prune('0 s')"), '>', 5, 'and deletes what is not');
is($here->safe_psql('postgres', q{SELECT format('SELECT count(*) FROM (%s) AS r', string_agg(format('SELECT FROM iblt_internal.iblt_run_rows(NULL::%s, own => false)', oid::regclass), ' UNION ALL '))
	FROM pg_class WHERE relnamespace = 'iblt_internal'::regnamespace AND relkind = 'm' AND relname LIKE 'run\_%' \gexec}), '0', 'with all that is of it in any store');

# --- runs that are killed ------------------------------------------------------------------------

# At random moments, on either side, a run loses a slice at most, counts nothing twice, and ends with the right answer.
$standby->stop;
my $kills = $ENV{IBLT_TEST_KILLS} // 6;

both('DROP TABLE large; CREATE TABLE large (id bigint PRIMARY KEY, v text); INSERT INTO large SELECT g, md5(g::text) FROM generate_series(1, 9000) g;
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
		wait_for($here, "SELECT workers <> '{}' OR state = 'finished' FROM iblt_audit_run_stats WHERE run = $run");
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
	wait_for($here, "SELECT cardinality(workers) = 2 FROM iblt_audit_run_stats WHERE run = $run") if $second;
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
