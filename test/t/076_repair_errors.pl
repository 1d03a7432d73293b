# An error of a repair, its context and the logs of both servers tell of the row that
# failed, and of no other row: not in the statements of a repair, and not in the lists
# of keys by which it looks rows up and locks them.
use IbltTest;

my @settings = ('log_lock_waits = on', "deadlock_timeout = '50ms'", 'log_min_error_statement = info');
my ($here, $there) = (ready('here', @settings), server('there', @settings));
sides($here, $there);
foreign_server($here, 'node b', $there);
$there->safe_psql('postgres', 'CREATE SCHEMA "Their Iblt"; CREATE EXTENSION iblt_audit SCHEMA "Their Iblt" CASCADE; CREATE EXTENSION iblt_live SCHEMA "Their Iblt"');
# a connection string hides statements from the log of this side; a foreign server does not
my @peers = (conninfo($there), "'node b'");

# Every row is known by its number: its key is 7700001 and so on, and its text has it, too.
my $marks = qr/(?<!\d)77\d{5}(?!\d)/;

sub node { return $_[0] eq 'pull' ? $here : $there }
sub source { return $_[0] eq 'pull' ? $there : $here }
sub call { my ($table, $direction, $options, $peer) = @_; return "SELECT count(*) FROM iblt_repair('$table', " . ($peer // $peers[1]) . ", direction => '$direction', $options)" }
sub contents { return $_[0]->safe_psql('postgres', "SELECT md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM $_[1] AS t") }

# 1,000 rows on the source, of which the target lacks 500, and 300 are others there
sub drift
{
	my ($direction, $table) = @_;
	$_->safe_psql('postgres', "TRUNCATE $table") foreach ($here, $there);
	source($direction)->safe_psql('postgres', "INSERT INTO $table SELECT 7700000 + g, 'person ' || 7700000 + g FROM generate_series(1, 1000) g");
	node($direction)->safe_psql('postgres', "INSERT INTO $table SELECT 7700000 + g, CASE WHEN g <= 700 THEN 'person ' || 7700000 + g ELSE 'drift ' || g END FROM generate_series(501, 1000) g");
	return;
}

# Runs something that writes to the logs: all that it wrote.
sub told
{
	my ($run) = @_;
	my @from = map { -s $_->logfile } ($here, $there);
	my $err = $run->();
	# backends that were ended write to the log after their client has gone
	nothing_left('afterwards');
	return ($err, $err . slurp_file($here->logfile, $from[0]) . slurp_file($there->logfile, $from[1]));
}

# A test: no row is told of but those.
sub tells_of
{
	my ($told, $text, @rows) = @_;
	my $text_of_rows = $told =~ s/"iblt_[0-9a-f-]{36}"//gr;	# a connection's random name can look like a row
	my %found = map { $_ => 1 } $text_of_rows =~ /($marks)/g;
	delete $found{$_} foreach @rows;
	is(scalar(keys %found), 0, "$text: no other row is told of") or diag(substr($told, 0, 5000));
	return;
}

# --- a statement that fails -------------------------------------------------------------

both('CREATE TABLE people (id bigint PRIMARY KEY, v text)');
my @refusals = (
	[ 'a CHECK constraint', q{ALTER TABLE people ADD CONSTRAINT refused CHECK (v <> 'person 7700123') NOT VALID}, 'ALTER TABLE people DROP CONSTRAINT refused',
		qr/23514: .*violates check constraint "refused".*DETAIL:  Failing row contains \(7700123, person 7700123\)\.\nThe row has the key \{"id": 7700123\}\./s, 7700123 ],
	[ 'a trigger', q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.id = 7700900 THEN RAISE EXCEPTION ''not that one''; END IF; RETURN NEW; END';
		CREATE TRIGGER refuse BEFORE UPDATE ON people FOR EACH ROW EXECUTE FUNCTION refuse()}, 'DROP FUNCTION refuse CASCADE',
		qr/P0001: .*not that one.*DETAIL:  The row has the key \{"id": 7700900\}\.\nContext: PL\/pgSQL function public\.refuse\(\) line 1 at RAISE/s, 7700900 ],
	[ 'a failed ASSERT', q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN ASSERT NEW.id <> 7700900, ''asserted''; RETURN NEW; END';
		CREATE TRIGGER refuse BEFORE UPDATE ON people FOR EACH ROW EXECUTE FUNCTION refuse()}, 'DROP FUNCTION refuse CASCADE', qr/P0004: .*asserted.*DETAIL:  The row has the key \{"id": 7700900\}/s, 7700900 ],
	[ 'a trigger that suppresses a row', q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN CASE WHEN NEW.id <> 7700010 THEN NEW END; END';
		CREATE TRIGGER refuse BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION refuse()}, 'DROP FUNCTION refuse CASCADE',
		qr/27000: .*changed 0 rows instead of 1.*DETAIL:  INSERT INTO .*\nThe row has the key \{"id": 7700010\}\./s, 7700010 ],
	[ 'a trigger that changes a row', q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.id = 7700010 THEN NEW.v = ''other''; END IF; RETURN NEW; END';
		CREATE TRIGGER refuse BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION refuse()}, 'DROP FUNCTION refuse CASCADE', qr/27000: .*DETAIL:  One key is \{"id": 7700010\}/s, 7700010 ],
	[ 'a warning for each row, and then an error', q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE WARNING ''a row''; IF NEW.id = 7700003 THEN RAISE division_by_zero; END IF; RETURN NEW; END';
		CREATE TRIGGER refuse BEFORE INSERT ON people FOR EACH ROW WHEN (NEW.id <= 7700003) EXECUTE FUNCTION refuse()}, 'DROP FUNCTION refuse CASCADE',
		qr/22012: .*DETAIL:  The row has the key \{"id": 7700003\}/s, 7700001 .. 7700003 ],
);
foreach my $direction ('pull', 'push')
{
	my $node = node($direction);
	foreach my $refusal (@refusals)
	{
		my ($what, $create, $drop, $error, @rows) = @$refusal;
		drift($direction, 'people');
		$node->safe_psql('postgres', $create);
		my $before = contents($node, 'people');
		foreach my $peer (@peers)
		{
			my ($err, $told) = told(sub { failure(call('people', $direction, 'apply => true', $peer)) });
			like($err, $error, "$direction, $what: the error tells of the row");
			tells_of($told, "$direction, $what", @rows);
		}
		is(contents($node, 'people'), $before, 'and nothing was changed');
		$node->safe_psql('postgres', $drop);
	}
	is($here->safe_psql('postgres', call('people', $direction, 'apply => true')), '800', "$direction: without them it is repaired");
}

# all fields of an error are kept
drift('pull', 'people');
$here->safe_psql('postgres', $refusals[0][1]);
like(failure(call('people', 'pull', 'apply => true')), qr/SCHEMA NAME:  public\nTABLE NAME:  people\nCONSTRAINT NAME:  refused\n/, 'an error names its table and constraint');
$here->safe_psql('postgres', $refusals[0][2]);

# rows that exchange values which exclude each other: the statements are tried in other orders
both('CREATE TABLE uniq (id bigint PRIMARY KEY, v text, EXCLUDE USING btree (v WITH =))');
foreach my $direction ('pull', 'push')
{
	my $node = node($direction);
	drift($direction, 'uniq');
	$node->safe_psql('postgres', "UPDATE uniq SET v = 'x' WHERE id = 7700555; UPDATE uniq SET v = 'person 7700555' WHERE id = 7700666; UPDATE uniq SET v = 'person 7700666' WHERE id = 7700555");
	my $before = contents($node, 'uniq');
	# an error in the middle of that
	$node->safe_psql('postgres', "ALTER TABLE uniq ADD CONSTRAINT refused CHECK (v <> 'person 7700123') NOT VALID");
	my ($err, $told) = told(sub { failure(call('uniq', $direction, 'apply => true')) });
	like($err, qr/23514: .*The row has the key \{"id": 7700123\}/s, "$direction, values that rows exchange: the error tells of a row");
	tells_of($told, "$direction, a CHECK constraint in another order", 7700123);
	is(contents($node, 'uniq'), $before, 'and nothing was changed');
	$node->safe_psql('postgres', 'ALTER TABLE uniq DROP CONSTRAINT refused');
}

# a foreign key that is checked at the end
both('CREATE TABLE child (id bigint PRIMARY KEY, v text)');
foreach my $direction ('pull', 'push')
{
	my $node = node($direction);
	drift($direction, 'child');
	$node->safe_psql('postgres', "CREATE TABLE parent AS SELECT 'person ' || 7700000 + g AS v FROM generate_series(1, 1000) g UNION ALL SELECT 'drift ' || g FROM generate_series(1, 1000) g;
		DELETE FROM parent WHERE v = 'person 7700321'; ALTER TABLE parent ADD UNIQUE (v);
		ALTER TABLE child ADD CONSTRAINT late FOREIGN KEY (v) REFERENCES parent (v) DEFERRABLE INITIALLY DEFERRED");
	my $before = contents($node, 'child');
	my ($err, $told) = told(sub { failure(call('child', $direction, 'apply => true')) });
	like($err, qr/23503: .*violates foreign key constraint "late".*Key \(v\)=\(person 7700321\) is not present/s, "$direction, a deferred foreign key: the error tells of the row");
	tells_of($told, "$direction, a deferred foreign key", 7700321);
	is(contents($node, 'child'), $before, 'and nothing was changed');
	$node->safe_psql('postgres', 'DROP TABLE parent CASCADE');
}

# --- an error while rows are locked, or looked up -----------------------------------------

my $waits = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%iblt%'";
foreach my $direction ('pull', 'push')
{
	my $node = node($direction);
	drift($direction, 'people');
	my $before = contents($node, 'people');
	my $holder = holding($node, "BEGIN; SELECT FROM people WHERE v = 'drift 777' FOR UPDATE");
	foreach my $timeout ([ 'lock_timeout', '55P03' ], [ 'statement_timeout', '57014' ])
	{
		my ($setting, $state) = @$timeout;
		$there->safe_psql('postgres', "ALTER DATABASE postgres SET $setting = '2s'") if $direction eq 'push';
		my ($err, $told) = told(sub { failure(($direction eq 'pull' ? "SET $setting = '2s'; " : '') . call('people', $direction, 'apply => true')) });
		# a cancel on the peer is not a cancel of the caller's statement
		$state = 'IB005' if $direction eq 'push' && $state eq '57014';
		like($err, qr/$state: .*timeout/, "$direction, $setting while rows are locked: an error");
		tells_of($told, "$direction, $setting");
		is(contents($node, 'people'), $before, 'and nothing was changed');
		$there->safe_psql('postgres', "ALTER DATABASE postgres RESET $setting") if $direction eq 'push';
	}

	# a deadlock, which the holder finds, for the repair does not look for one: the log
	# tells of both statements
	$node->safe_psql('postgres', "ALTER DATABASE postgres SET deadlock_timeout = '1h'");
	my $repair = background($here, call('people', $direction, 'apply => true'));
	wait_for($node, "SELECT count(*) > 0 $waits");
	like($node->safe_psql('postgres', "SELECT query $waits"),
		$direction eq 'pull' ? qr/^SELECT count\(\*\) FROM iblt_repair/ : qr/^iblt: SELECT .*array_agg\(checksum\).*FOR UPDATE OF t/, "$direction: what pg_stat_activity shows");
	my ($err, $told) = told(sub {
		$holder->run("SELECT FROM people WHERE v = 'drift 701' FOR UPDATE");
		my $error = $holder->{err};
		$holder->run('ROLLBACK');
		finish($repair);
		return $error;
	});
	like($err, qr/40P01: deadlock detected/, "$direction: a deadlock");
	like($told, qr/Process \d+: (iblt: |SELECT count\(\*\) FROM iblt_repair)/, 'of which the log tells');
	tells_of($told, "$direction, a deadlock");
	is($repair->{out}, "800\n", 'the repair goes on');
	$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET deadlock_timeout');
	$holder->quit;
}

# a statement that waits, of which the log tells
foreach my $direction ('pull', 'push')
{
	my $node = node($direction);
	drift($direction, 'people');
	my $holder = holding($node, "BEGIN; INSERT INTO people VALUES (7700123, 'other')");
	my ($out, $told) = told(sub {
		my $from = -s $node->logfile;
		my $repair = background($here, call('people', $direction, 'apply => true'));
		wait_for($node, "SELECT count(*) > 0 $waits");
		select undef, undef, undef, 0.05 while slurp_file($node->logfile, $from) !~ /still waiting for/;
		$holder->run('ROLLBACK');
		finish($repair);
		return $repair->{out};
	});
	is($out, "800\n", "$direction: a statement that waits");
	like($told, qr/still waiting for/, 'of which the log tells');
	tells_of($told, "$direction, a statement that waits");
	$holder->quit;
}

# A condition that fails when keys are looked up, not in the scan: on the peer it
# knows the query, here it counts the rows.  It says that it is immutable.
both(q{CREATE FUNCTION in_lookup(bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN IF current_query() LIKE ''%iblt_k%'' THEN RAISE EXCEPTION ''in the lookup''; END IF; RETURN true; END';
	CREATE SEQUENCE rows_seen; CREATE FUNCTION counted(bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE SET search_path = public AS
	'BEGIN IF nextval(''rows_seen'') > (SELECT count(*) FROM people) THEN RAISE EXCEPTION ''in the lookup''; END IF; RETURN true; END'});
foreach my $where ([ 'there', 'true', 'public.in_lookup(id)' ], [ 'here', 'public.counted(id)', 'true' ])
{
	my ($name, @conditions) = @$where;
	drift('pull', 'people');
	my $options = "condition => '$conditions[0]', peer_condition => '$conditions[1]'";
	foreach my $query ("SELECT count(*) FROM iblt_compare('people', $peers[1], $options, rows => true)", call('people', 'pull', $options))
	{
		$here->safe_psql('postgres', 'ALTER SEQUENCE rows_seen RESTART');
		my ($err, $told) = told(sub { failure($query) });
		like($err, qr/P0001: .*in the lookup/, "$name: an error when rows are looked up");
		tells_of($told, $name);
	}
}

# --- cancels, and sessions that end -----------------------------------------------------------

my $sleeps = "FROM pg_stat_activity a WHERE wait_event = 'PgSleep' AND query LIKE '%iblt%'"
  . " AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.mode = 'RowExclusiveLock' AND l.relation = 'people_pkey'::regclass)";
both("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.id = 7700900 THEN PERFORM pg_sleep(600); END IF; RETURN NEW; END'");
foreach my $direction ('pull', 'push')
{
	my $node = node($direction);
	drift($direction, 'people');
	$node->safe_psql('postgres', 'CREATE TRIGGER slow BEFORE UPDATE ON people FOR EACH ROW EXECUTE FUNCTION slow()');
	my $before = contents($node, 'people');
	foreach my $how ('pg_cancel_backend', 'pg_terminate_backend')
	{
		my ($err, $told) = told(sub {
			my $repair = background($here, call('people', $direction, 'apply => true'));
			wait_for($node, "SELECT count(*) > 0 $sleeps");
			$node->safe_psql('postgres', "SELECT $how(pid) $sleeps");
			finish($repair);
			return $repair->{err};
		});
		like($err, $how =~ /cancel/ ? qr/canceling statement.*The row has the key \{"id": 7700900\}/s : qr/connection/, "$direction, $how: an error");
		like($told, qr/STATEMENT:  iblt: iblt_repair_execute of 300 statements/, 'the log tells what it was') if $direction eq 'push' && $how !~ /cancel/;
		tells_of($told, "$direction, $how", 7700900);
		is(contents($node, 'people'), $before, 'and nothing was changed');
	}
	$node->safe_psql('postgres', 'DROP TRIGGER slow ON people');
}

done_testing();
