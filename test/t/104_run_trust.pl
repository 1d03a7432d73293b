# What a run trusts, on one server: its numbers and its stores.
use IbltTest;
use JSON::PP;

my $node = ready('trust', 'autovacuum = off');

# --- parallel plans -------------------------------------------------------------------------

{
	my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;';
	$node->safe_psql('postgres', 'CREATE TABLE big AS SELECT generate_series(1, 20000) AS id; ANALYZE big');
	foreach my $view (qw(iblt_audit_runs iblt_audit_run_stats iblt_audit_tables iblt_audit_table_stats iblt_audit_differences iblt_audit_ranges), 'iblt_internal.iblt_run_rows(NULL::iblt_internal.run_slice)')
	{
		my (undef, $out, $err) = $node->psql('postgres', "$parallel SELECT count(*) FROM big CROSS JOIN $view");
		is("$out$err", '0', "$view beside a table that workers could read");
	}
	is($node->safe_psql('postgres', "SELECT string_agg(proname, ' ') FROM pg_proc WHERE proname LIKE 'iblt\\_run\\_%' AND proparallel <> 'u'"), '', 'no function of runs is for a parallel plan');
}

# --- numbers of runs -----------------------------------------------------------------------

$node->safe_psql('postgres', 'CREATE DATABASE peer');
$node->safe_psql('peer', 'CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live');
my $peer = literal($node->connstr('peer'));

{
	$node->safe_psql('postgres', 'CREATE ROLE ann SUPERUSER LOGIN; CREATE TABLE num (id int PRIMARY KEY); CREATE SEQUENCE counts');
	$node->safe_psql('peer', 'CREATE TABLE num (id int PRIMARY KEY)');
	my $call = sub { my ($user) = @_; return $node->safe_psql('postgres', "SET statement_timeout = '20 s'; CALL iblt_audit_run($peer, '{num}', progress => false)",
		extra_params => [ '-U', $user // $node->safe_psql('postgres', 'SELECT current_user') ]) };
	my $back = q{SELECT count(setval(quote_ident(schemaname) || '.' || quote_ident(sequencename), 1, false)) FROM pg_sequences};
	$node->safe_psql('postgres', "SELECT iblt_audit_prune('0 s')");
	my @runs = ($call->());
	$node->safe_psql('postgres', $back);
	push @runs, $call->(), $call->('ann');
	$node->safe_psql('postgres', $back);
	# also where nothing is left of the last one
	is($node->safe_psql('postgres', "SELECT iblt_audit_prune('0 s')"), 3, 'all runs are pruned');
	push @runs, $call->();
	is(join(' ', @runs), '1 2 3 4', 'no number is given twice, also where sequences are set back');
	is($node->safe_psql('postgres', 'SELECT string_agg(run || state, chr(32)) FROM iblt_audit_run_stats'), '4finished', 'a run is finished');
	my $forged = q{jsonb_populate_record(NULL::iblt_internal.run_head, '{"run": 9223372036854775807, "table_number": 0, "number": 0, "started_at": "2020-01-01"}')};
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT iblt_internal.iblt_run_put($forged)");
	like($err, qr/ERROR:  a run is not added as a row/, 'iblt_run_put makes no run');
	is($node->safe_psql('postgres', "SELECT iblt_internal.iblt_run_add($forged)"), 5, 'iblt_run_add gives it the next number');
	is($call->(), 6, 'so that all numbers are there');
	# damage
	$node->safe_psql('postgres', q{CREATE TEMP TABLE again AS SELECT * FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_head, 5);
		SET allow_system_table_mods = on; UPDATE pg_class SET relkind = 'r' WHERE oid = 'iblt_internal.run_head'::regclass;
		INSERT INTO iblt_internal.run_head TABLE again; UPDATE pg_class SET relkind = 'm' WHERE oid = 'iblt_internal.run_head'::regclass});
	foreach my $used ("CALL iblt_audit_resume(5, $peer)", "SELECT * FROM iblt_audit_recheck(5, $peer)", 'SELECT iblt_internal.iblt_run_lock(5, 0, 1, true)')
	{
		($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '20 s'; $used");
		like($err, qr/ERROR:  run number 5 is not unique/, 'a run that is there twice is an error: ' . ($used =~ /(iblt_\w+)\(/)[0]);
	}
	is($node->safe_psql('postgres', "SELECT iblt_audit_prune('0 s') > 0, (SELECT count(*) FROM iblt_audit_run_stats)"), 't|0', 'and can be pruned');
	is($call->(), 7, 'which gives no number free');
}

# --- stores that were refreshed --------------------------------------------------------------

{
	$node->safe_psql($_, 'CREATE TABLE stored (id int PRIMARY KEY); INSERT INTO stored SELECT generate_series(1, 3000)') foreach 'postgres', 'peer';
	# all, or one slice of several, and the rest of them later
	my $begin = sub { return $node->safe_psql('postgres', "CALL iblt_audit_run($peer, '{stored}', slice_ms => 1, max_load => 0.001, max_time => '0.1 s', progress => false)") };
	my $resumed = sub { my ($run) = @_; my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '20 s'; CALL iblt_audit_resume($run, $peer, max_load => 1)"); return $err };
	my $state = sub { my ($run) = @_; return $node->safe_psql('postgres', "SELECT concat_ws(' ', status, slices) FROM iblt_audit_table_stats WHERE run = $run") };
	foreach my $case ([ 'tables', 'REFRESH MATERIALIZED VIEW iblt_internal.run_table', '' ],
		[ 'a slice', q{DO $$ DECLARE t iblt_internal.run_table; BEGIN SELECT x.* INTO t FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_table, %d) AS x; t.cut := t.cut + 1; PERFORM iblt_internal.iblt_run_put(t); END $$}, 'under way' ],
		[ 'the last slices', q{DO $$ DECLARE t iblt_internal.run_table; BEGIN SELECT x.* INTO t FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_table, %d) AS x; t.at_end := true; PERFORM iblt_internal.iblt_run_put(t); END $$}, 'under way' ])
	{
		my ($name, $sql, $after) = @$case;
		my $run = $begin->();
		is($state->($run), 'under way 1', "$name: a run that stopped after a slice");
		$node->safe_psql('postgres', sprintf $sql, $run);
		is($node->safe_psql('postgres', 'SELECT count(*) FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_table, own => false) WHERE run IS NULL'), '0', 'REFRESH leaves no row');
		like($resumed->($run), qr/: +a part of run $run is not in its store any more/, "$name of a run that is gone from its store");
		is($state->($run) =~ s/ \d+$//r, $after, 'does not count as compared');
	}
	$node->safe_psql('peer', 'DELETE FROM stored WHERE id IN (7, 8)');
	my $run = $node->safe_psql('postgres', "CALL iblt_audit_run($peer, '{stored}', progress => false)");
	# as if the run had kept one of them since the repair has read what it knows of the table
	$node->safe_psql('postgres', "DO \$\$ DECLARE t iblt_internal.run_table; BEGIN SELECT x.* INTO t FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_table, $run) AS x; t.kept := 1; PERFORM iblt_internal.iblt_run_put(t); END \$\$");
	is($node->safe_psql('postgres', "SELECT count(*) FROM iblt_repair(run => $run, peer => $peer, direction => 'pull')"), '2', 'differences that a run has kept meanwhile are no damage');
	$node->safe_psql('postgres', 'REFRESH MATERIALIZED VIEW iblt_internal.run_difference');
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT * FROM iblt_repair(run => $run, peer => $peer, direction => 'pull', apply => true)");
	like($err, qr/ERROR:  a part of run $run is not in its store any more/, 'nor are differences repaired that are gone from their store');
}

# --- numbers after a refresh -----------------------------------------------------------------

# Rows of a run that has lost its head stay, and no later run gets its number.
{
	$node->safe_psql($_, 'CREATE TABLE num_b AS SELECT 1 AS id') foreach 'postgres', 'peer';
	my $call = sub { return $node->safe_psql('postgres', "CALL iblt_audit_run($peer, '{stored,num_b}', max_time => '30 s', progress => false)") };
	my $last = $call->();
	$node->safe_psql('postgres', 'REFRESH MATERIALIZED VIEW iblt_internal.run_head');
	my $next = $call->();
	cmp_ok($next, '>', $last, 'REFRESH of the runs gives no number free');
	is($node->safe_psql('postgres', "SELECT state FROM iblt_audit_run_stats WHERE run = $next"), 'finished', 'and the next run ends');
	is($node->safe_psql('postgres', "SELECT count(*), count(DISTINCT relation) FROM iblt_audit_tables WHERE run = $next"), '2|2', 'with one row for a table');
	$node->safe_psql('postgres', "SELECT iblt_audit_prune('0 s')");
	is($call->(), $next + 1, 'from then on, the last number is kept again');
}

# --- what a role has forged -------------------------------------------------------------------

# A report of another role's run connects nowhere by a string that is in it.
{
	$node->safe_psql('peer', 'CREATE SUBSCRIPTION forged CONNECTION $$dbname=postgres$$ PUBLICATION p WITH (connect = false, slot_name = NONE)');
	$node->safe_psql('postgres', 'CREATE ROLE mallory LOGIN');
	my $forged = sub { my ($type, %row) = @_; return "jsonb_populate_record(NULL::iblt_internal.$type, " . literal(encode_json({ table_number => 0, number => 0, %row })) . ')' };
	my $run = $node->safe_psql('postgres', 'SET ROLE mallory; SELECT iblt_internal.iblt_run_add(' . $forged->('run_head', peers => [ $node->connstr('peer'), undef ]) . ')');
	$node->safe_psql('postgres', 'SET ROLE mallory; SELECT iblt_internal.iblt_run_add('
			. $forged->('run_table', run => $run, relation => 'x', status => 'differs', generation => 1, item => { subscription => 'forged' }) . ')');
	my $report = sub { return $node->safe_psql('postgres', "SELECT iblt_audit_report(run => $run, form => 'summary'$_[0])") };
	like($report->(', here_peer => ' . literal($node->connstr('peer'))), qr/subscription "forged" has no slot/, 'a report asks the database that it is given');
	unlike($report->(''), qr/forged/, 'and not one whose string a run has');
	$node->safe_psql('postgres', "SELECT iblt_audit_prune('-1 s'); DROP ROLE mallory");
	$node->safe_psql('peer', 'DROP SUBSCRIPTION forged');
}

# --- sessions that wait for one slice -----------------------------------------------------------

# A session that waits for a slice has its lock for a moment, just when the session that has
# claimed it wants to compare it.  That one must not claim it again, or both would take the lock
# from each other for ever.
{
	my $run = $node->safe_psql('postgres', "CALL iblt_audit_run($peer, '{num_b}', max_time => '0', progress => false)");
	my ($works, $waits) = map { IbltTest::Session->new($node) } 1, 2;
	my $step = 'UPDATE worker SET w = iblt_internal.run_step(w) RETURNING (w).act';
	$works->run("DO \$\$ DECLARE w iblt_internal.run_worker; BEGIN w := iblt_internal.run_worker_of(NULL, $peer, false, 'resume');
		w.run := $run; CREATE TEMP TABLE worker AS SELECT w; END \$\$; $step");
	is($works->run($step), 'work', 'a slice is claimed');
	my $steps = 0;
	my $done = 0;
	# 200 ms may be over before the other session is done
	while (!$done && $steps < 20)
	{
		$steps++;
		$works->run("UPDATE worker SET w.act = 'claim'; BEGIN; $step");
		$waits->start("BEGIN; SELECT iblt_internal.iblt_run_lock($run, 1, 1, true)");
		wait_for($node, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $waits->{pid}");
		$works->run('COMMIT');
		$waits->done;
		$works->start($step);
		wait_for($node, "SELECT wait_event_type = 'Lock' OR state = 'idle' FROM pg_stat_activity WHERE pid = $works->{pid} AND query LIKE 'UPDATE worker%'");
		$waits->run('COMMIT');
		$works->done;
		$done = $node->safe_psql('postgres', "SELECT slices FROM iblt_audit_table_stats WHERE run = $run");
	}
	is($done, 1, 'the slice is compared though another session waits for it');
	note("after $steps steps");
	$_->quit foreach $works, $waits;
}

# --- tables that have got another name -----------------------------------------------------------

# Small tables, which are compared together. What has the name now was not compared.
foreach my $method ('sketch', 'plain')
{
	$node->safe_psql($_, 'CREATE TABLE swapped AS SELECT 1 AS id; CREATE TABLE beside AS SELECT 1 AS id') foreach 'postgres', 'peer';
	my $run = $node->safe_psql('postgres', "CALL iblt_audit_run($peer, '{swapped,beside}', method => '$method', max_time => '0', progress => false)");
	$node->safe_psql('postgres', 'ALTER TABLE swapped RENAME TO before; CREATE TABLE swapped AS SELECT 2 AS id');
	$node->safe_psql('postgres', "CALL iblt_audit_resume($run, $peer, progress => false)");
	is($node->safe_psql('postgres', "SELECT relation, status, sqlstate FROM iblt_audit_table_stats WHERE run = $run ORDER BY 1"),
		"public.beside|equal|\npublic.swapped|not comparable|IB004", "$method: a small table that was renamed before a run came to it");
	$node->safe_psql('postgres', 'DROP TABLE swapped, before, beside');
	$node->safe_psql('peer', 'DROP TABLE swapped, beside');
}

done_testing();
