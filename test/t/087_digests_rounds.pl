# A publisher and a subscriber that both track, while pgbench writes and replication
# lags, is interrupted and goes on: in each round the two digests tell exactly the keys
# that were made to differ, no more and no fewer.
#
# Each round changes rows of the subscriber.  Under the load, iblt_compare has to confirm
# these from the digests alone.  Then the writers are held, the subscriber catches up, and
# the digests are compared with the rows themselves.
#
#	IBLT_TEST_ROUNDS    how many rounds (5)
use IbltTest;
use Time::HiRes qw(time);

my $seed = random_seed();
my $rounds = $ENV{IBLT_TEST_ROUNDS} || 5;
my @settings = ('fsync = off', 'autovacuum_naptime = 1s', 'deadlock_timeout = 100ms', 'logical_decoding_work_mem = 64kB');
my ($publisher, $subscriber) = map { ready($_, @settings) } 'publisher', 'subscriber';
inside($publisher, $subscriber);
sides($subscriber, $publisher);

# --- pgbench's tables on both sides ---------------------------------------------------------

my $bench = 'pgbench_history, pgbench_accounts, pgbench_tellers, pgbench_branches';
my @tables = split /, /, $bench;
my %key = (pgbench_accounts => 'aid', pgbench_tellers => 'tid', pgbench_branches => 'bid');
my %balance = (pgbench_accounts => 'abalance', pgbench_tellers => 'tbalance', pgbench_branches => 'bbalance');

both('CREATE TABLE marker (id int PRIMARY KEY, n int)');
foreach my $node ($publisher, $subscriber)
{
	$node->command_ok([ 'pgbench', '-i', '-q', '-I', $node == $publisher ? 'dtgp' : 'dtp', $node->connstr('postgres') ], 'the tables of pgbench on ' . $node->name);
}
# from 50,001 on, pgbench does not touch rows, and churn comes at 1,000,000
$publisher->safe_psql('postgres', q{DELETE FROM pgbench_accounts WHERE aid > 20000;
	INSERT INTO pgbench_accounts SELECT g, 1, 0, '' FROM generate_series(50001, 52000) g;
	INSERT INTO pgbench_tellers SELECT g, 1, 0, '' FROM generate_series(50001, 50200) g;
	INSERT INTO pgbench_branches SELECT g, 0, '' FROM generate_series(50001, 50200) g;
	INSERT INTO marker VALUES (1, 0); CREATE SEQUENCE churn START 1000000;
	CALL iblt_track('pgbench_history', key_columns => '{tid,bid,aid,mtime}', capacity => 4000);
	CALL iblt_track('pgbench_accounts', capacity => 4000);
	CALL iblt_track('pgbench_tellers', capacity => 300);
	CALL iblt_track('pgbench_branches', capacity => 300);
	CREATE PUBLICATION bench FOR TABLE marker, } . $bench);

# pgbench's own transaction, with some rows more often than others
my $random = q{\set aid random_exponential(1, 20000, 20)
\set tid random(1, 10)
\set delta random(-5000, 5000)
};
my %script = (bench => $random . q{BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = 1;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, 1, :aid, :delta, CURRENT_TIMESTAMP);
END;
},
	# rows that come and go, savepoints that are kept and rolled back
	churn => $random . q{BEGIN;
INSERT INTO pgbench_accounts VALUES (nextval('churn'), :tid, :delta, 'churn');
SAVEPOINT a;
DELETE FROM pgbench_accounts WHERE aid = currval('churn') - 4000;
UPDATE pgbench_accounts SET filler = repeat('x', :tid) WHERE aid = :aid;
RELEASE a;
SAVEPOINT b;
UPDATE pgbench_accounts SET abalance = 0 WHERE aid BETWEEN :aid AND :aid + 50;
DELETE FROM pgbench_tellers;
ROLLBACK TO b;
INSERT INTO pgbench_tellers VALUES (:tid, 1, 1, '') ON CONFLICT (tid) DO UPDATE SET tbalance = pgbench_tellers.tbalance + 1;
COMMIT;
},
	# more changes than a list has room for, and a transaction that is streamed
	large => $random . q{BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid BETWEEN :aid AND :aid + 400;
SAVEPOINT a;
UPDATE pgbench_accounts SET abalance = abalance + 1, filler = 'large' WHERE aid BETWEEN :aid + 300 AND :aid + 500;
ROLLBACK TO a;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid BETWEEN :aid + 300 AND :aid + 450;
COMMIT;
});
my $dir = $publisher->basedir;
append_to_file("$dir/$_.sql", $script{$_}) foreach keys %script;
my $load = start_load($publisher, $script{bench}, '-c', 3, '-R', 300, "--random-seed=$seed", '-f', "$dir/bench.sql\@60", '-f', "$dir/churn.sql\@30", '-f', "$dir/large.sql\@1");

# --- what the subscriber knows -----------------------------------------------------------------

# One table is tracked before its initial copy, the others afterwards, all under the load.
$subscriber->safe_psql('postgres', "CALL iblt_track('pgbench_accounts', peer => ${\ conninfo($publisher)})");
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION bench CONNECTION ${\ conninfo($publisher)} PUBLICATION bench WITH (streaming = on)");
subscribed($subscriber, 5);
$subscriber->safe_psql('postgres', "CALL iblt_track('$_', peer => ${\ conninfo($publisher)})") foreach grep { $_ ne 'pgbench_accounts' } @tables;

my $row_key = join ' ', 'CASE t', map({ "WHEN '$_' THEN '$key{$_}'" } sort keys %key),
	q{ELSE format('iblt_checksum_seeded(%s, tid, bid, aid, mtime)', (iblt_info((iblt_internal.iblt_live_options(t::regclass)).template)).seed # 1) END};
$subscriber->safe_psql('postgres', qq{
	-- the key of a row as the digest has it: that of pgbench_history is a hash
	CREATE FUNCTION row_key(t text) RETURNS text LANGUAGE sql STABLE AS \$\$ SELECT $row_key \$\$;
	-- there first, so that what has arrived here has been sent by then
	CREATE FUNCTION differing(t text) RETURNS TABLE (k text, side text) LANGUAGE plpgsql VOLATILE AS \$\$
	DECLARE
		there iblt := (SELECT s FROM dblink('pub', format('SELECT iblt_live(%L)', t)) AS r(s iblt));
		difference iblt := iblt_live(t::regclass) - there;
	BEGIN
		IF t = 'pgbench_history' THEN RETURN QUERY SELECT d.key::text, d.side FROM iblt_decode(difference, NULL::bigint) AS d;
		ELSE RETURN QUERY SELECT d.key::text, d.side FROM iblt_decode(difference, NULL::int) AS d;
		END IF;
	END \$\$;
	-- the same without digests
	CREATE FUNCTION truth(t text) RETURNS TABLE (k text, side text) LANGUAGE plpgsql VOLATILE AS \$\$
	DECLARE rows text := format('SELECT (%s)::text AS k, x::text AS v FROM %I AS x', row_key(t), t);
	BEGIN
		RETURN QUERY EXECUTE format('SELECT k, CASE WHEN there.v IS NULL THEN ''left'' WHEN here.v IS NULL THEN ''right'' ELSE ''both'' END
			FROM (%s) AS here FULL JOIN dblink(''pub'', %L) AS there(k text, v text) USING (k) WHERE here.v IS DISTINCT FROM there.v', rows, rows);
	END \$\$;
	-- waits until what has been committed there is here
	CREATE FUNCTION pass() RETURNS void LANGUAGE plpgsql VOLATILE AS \$\$
	DECLARE
		sent int := (SELECT n FROM dblink('pub', 'UPDATE marker SET n = n + 1 RETURNING n') AS r(n int));
		late timestamptz := clock_timestamp() + '3 min';
	BEGIN
		WHILE (SELECT n FROM marker) < sent LOOP
			IF clock_timestamp() > late THEN RAISE 'replication does not pass'; END IF;
			PERFORM pg_sleep(0.005);
		END LOOP;
	END \$\$;
	-- while nobody writes
	CREATE FUNCTION all_right(t text) RETURNS boolean LANGUAGE sql VOLATILE AS \$\$
		SELECT iblt_internal.live_is_right(t::regclass, iblt_internal.iblt_live_options(t::regclass))
			AND r FROM dblink('pub', format('SELECT iblt_internal.live_is_right(%1\$L, iblt_internal.iblt_live_options(%1\$L))', t)) AS x(r boolean) \$\$;
	CREATE FUNCTION heal(t text) RETURNS void LANGUAGE plpgsql VOLATILE AS \$\$
	DECLARE keys text[] := ARRAY(SELECT k FROM truth(t));
	BEGIN
		EXECUTE format('DELETE FROM %I WHERE (%s)::text = ANY (\$1)', t, row_key(t)) USING keys;
		EXECUTE format('INSERT INTO %I SELECT (json_populate_record(NULL::%1\$I, r.row)).* FROM dblink(''pub'', %L) AS r(row json)', t,
			format('SELECT row_to_json(x) FROM %I AS x WHERE (%s)::text = ANY (%L)', t, row_key(t), keys));
	END \$\$});
is($subscriber->safe_psql('postgres', q{SELECT string_agg(row_key(t), ' ') FROM unnest('{pgbench_accounts,pgbench_tellers}'::text[]) t}), 'aid tid', 'keys of rows');

# --- drift -----------------------------------------------------------------------------------------

# SQL that changes one row of the subscriber, and returns its table, its key and what is
# known of it: "sure" to differ from then on, "busy" if the publisher's row changes, and
# "perhaps" if such a change puts it right again.
my $fresh = 100000;
sub drift
{
	my ($table) = @_;
	return drift_history() if $table eq 'pgbench_history';
	my ($key, $balance, $hot) = ($key{$table}, $balance{$table}, rand() < 0.4);
	my $row = $hot ? { pgbench_accounts => int(rand(300)) + 1, pgbench_tellers => int(rand(10)) + 1, pgbench_branches => 1 }->{$table} : 50001 + int(rand(200));
	my $other = ++$fresh;
	my $kind = pick('update', 'update', 'delete', 'insert', 'key', 'undone');
	my $one = "WITH d AS (%s RETURNING $key) SELECT '$table', $key, '%s' FROM d";
	my $gone = $hot ? 'busy' : 'sure';
	return sprintf($one, "DELETE FROM $table WHERE $key = $row", $gone) if $kind eq 'delete';
	return sprintf($one, "INSERT INTO $table ($key, $balance) VALUES ($other, 7)", 'sure') if $kind eq 'insert';
	return "WITH d AS (UPDATE $table SET $key = $other WHERE $key = $row RETURNING 1) SELECT '$table', k, how FROM d, (VALUES ($row, '$gone'), ($other, 'sure')) AS v(k, how)" if $kind eq 'key';
	return "SAVEPOINT s; DELETE FROM $table WHERE $key % 3 = 1; ROLLBACK TO s; RELEASE s" if $kind eq 'undone';
	return sprintf($one, "UPDATE $table SET $balance = $balance + 1000003 WHERE $key = $row", $hot ? 'perhaps' : 'sure');
}

sub drift_history
{
	my $hash = $subscriber->{history_key};
	my $row = 'ctid = (SELECT ctid FROM pgbench_history ORDER BY mtime DESC OFFSET ' . int(rand(100)) . ' LIMIT 1)';
	my $change = pick("DELETE FROM pgbench_history WHERE $row", "UPDATE pgbench_history SET delta = delta + 1000003 WHERE $row",
		"INSERT INTO pgbench_history VALUES (${\ ++$fresh}, 1, 1, 1, '2020-01-01')");
	return "WITH d AS ($change RETURNING tid, bid, aid, mtime) SELECT 'pgbench_history', $hash, 'sure' FROM d";
}

# --- rounds ---------------------------------------------------------------------------------------

$subscriber->{history_key} = $subscriber->safe_psql('postgres', q{SELECT row_key('pgbench_history')});
my ($session, $holder);
my ($changed, $too_many) = (0, 0);
sub connect_all
{
	$holder = IbltTest::Session->new($publisher);
	$session = IbltTest::Session->new($subscriber);
	$session->run("SELECT dblink_connect('pub', ${\ conninfo($publisher)}); SET client_min_messages = warning");
	return;
}

sub run { return $session->checked(@_) }

# Of a query's rows "table|key|...", those of a table, as one line in order.
sub of_table { my ($table, $out) = @_; return join ' ', sort map { /^\Q$table\E\|(.*)/ ? $1 : () } split /\n/, $out }

my $each = "FROM unnest('{" . join(',', @tables) . "}'::text[]) AS t";

# Nobody writes any more, and the subscriber has all.
sub hold
{
	$holder->run("BEGIN; LOCK TABLE pgbench_accounts, pgbench_tellers, pgbench_branches, pgbench_history IN SHARE ROW EXCLUSIVE MODE");
	run('SELECT pass()');
	return;
}
sub release { $holder->run('COMMIT'); return }

# The digests tell what the rows tell.
sub compared
{
	my ($text, $sure, $perhaps) = @_;
	my $found = run("SELECT t, k, side $each, differing(t)");
	my $truth = run("SELECT t, k, side $each, truth(t)");
	my %right = map { split /\|/ } split /\n/, run("SELECT t, all_right(t) $each");
	foreach my $table (@tables)
	{
		my $keys = of_table($table, $found);
		is($keys, of_table($table, $truth), "$text, $table: the digests tell what the rows tell");
		is($right{$table}, 't', "$text, $table: both are those of scans");
		exactly("$text, $table", $sure->{$table}, $perhaps->{$table}, map { s/\|.*//r } split / /, $keys);
	}
	return;
}

# All of the sure keys were found, and others only if they may have been.
sub exactly
{
	my ($text, $sure, $perhaps, @found) = @_;
	my %found = map { $_ => 1 } @found;
	is(join(' ', grep { !$found{$_} } sort keys %$sure), '', "$text: nothing is missed");
	is(join(' ', grep { !$sure->{$_} && !$perhaps->{$_} } @found), '', "$text: nothing is found that was not changed");
	return;
}

# What iblt_compare confirms.
sub compare
{
	my ($table) = @_;
	my $columns = $key{$table} // 'tid,bid,aid,mtime';
	return sprintf(q{SELECT (%s)::text FROM iblt_compare('%s', %s, key_columns => '{%s}', live => 'require') AS c, jsonb_populate_record(NULL::%2$s, c.key) AS x WHERE confirmed},
		$key{$table} // $subscriber->{history_key}, $table, conninfo($publisher), $columns);
}

# What happens to replication and to the digests under the load.
my $blocker;
my @events = (
	# the apply worker waits while the publisher goes on
	[ 'lag', sub {
		$blocker = holding($subscriber, 'BEGIN; LOCK TABLE pgbench_accounts IN SHARE MODE');
		wait_for($publisher, 'SELECT count(*) >= 50 + ' . $publisher->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history') . ' FROM pgbench_history') } ],
	[ 'merges', sub { both("SELECT iblt_live_merge(t::regclass) $each") } ],
	[ 'a broken connection', sub { $publisher->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM pg_stat_replication') } ],
	[ 'rebuilds', sub { pick($publisher, $subscriber)->safe_psql('postgres', "CALL iblt_live_rebuild('$_')") foreach @tables } ],
	[ 'a pause', sub { $subscriber->safe_psql('postgres', "ALTER SUBSCRIPTION bench $_") foreach ('DISABLE', 'ENABLE') } ],
	[ 'nothing', sub { } ]);

sub round
{
	my ($number) = @_;
	my ($event, $happen) = @{ $events[ ($number - 1) % @events ] };
	my $text = "round $number, $event";
	my %drift = map { $_ => {} } qw(sure busy perhaps);
	my $changes = $number % 5 == 0 ? 0 : 1 + int(rand(6));
	my $drift = join ";\n", map { drift(pick(@tables)) } 1 .. $changes;
	# the apply worker locks rows in another order, and a transaction that was chosen to give way has changed nothing
	my $drifted = "BEGIN;\n$drift" . ($drift ? ";\n" : '') . 'COMMIT';
	my $lines = $session->run($drifted);
	for (my $n = 0; $session->{err} =~ /deadlock detected/ && $n < 20; $n++)
	{
		$lines = $session->run($drifted);
	}
	die "$drifted: $session->{err}" if $session->{err} =~ /ERROR/;
	foreach my $line (split /\n/, $lines)
	{
		my ($table, $key, $how) = split /\|/, $line;
		$drift{$how}{$table}{$key} = 1;
	}
	$happen->();
	if ($event eq 'lag')
	{
		my $behind = $session->run("SELECT count(*) FROM differing('pgbench_history')");
		cmp_ok($session->{err} =~ /IB001/ ? 10000 : $behind, '>=', 50, "$text: changes are on their way");
		$blocker->run('COMMIT');
		$blocker->quit;
	}
	foreach my $table (@tables)
	{
		my ($sure, $busy, $perhaps) = map { $drift{$_}{$table} // {} } qw(sure busy perhaps);
		my $found = $session->run(compare($table));
		for (my $n = 0; $session->{err} =~ /IB00[23]/ && $n < 20; $n++)
		{
			run('SELECT pass()');
			$found = $session->run(compare($table));
			$too_many++;
		}
		unlike($session->{err}, qr/ERROR/, "$text, $table: the digests can be compared");
		exactly("$text, $table, under load", $sure, { %$busy, %$perhaps }, split /\n/, $found);
	}
	hold();
	my %sure = map { $_ => { %{ $drift{sure}{$_} // {} }, %{ $drift{busy}{$_} // {} } } } @tables;
	compared("$text, at rest", \%sure, $drift{perhaps});
	run("SELECT heal(t) $each");
	compared("$text, healed", {}, {});
	release();
	$changed += keys %$_ foreach map { values %$_ } values %drift;
	return;
}

# The subscriber's last commits are not on disk yet, and come once more.
sub crash
{
	$_->quit foreach ($session, $holder);
	$subscriber->stop('immediate');
	$subscriber->start;
	connect_all();
	return;
}

connect_all();
my $began = time();
foreach my $number (1 .. $rounds)
{
	round($number);
	crash() if $number % 40 == 3;
}
note(sprintf('%d rounds in %.0f s: %d keys were changed, %d times too many', $rounds, time() - $began, $changed, $too_many));
stop_load($load, 'at the end');
is($publisher->safe_psql('postgres', "SELECT count(*) FROM iblt_live_status() WHERE state = 'live'"), 4, 'all digests are live');
cmp_ok($publisher->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history'), '>', 50, 'pgbench has worked');
$_->quit foreach ($session, $holder);

done_testing();
