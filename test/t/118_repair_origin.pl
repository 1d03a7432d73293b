# Repairs between servers that both write.  Which row wins: the newer one, by a column or by commit
# times, or values in place of NULL.  And a repair under a replication origin: each change that
# it writes names the origin, no other change of the session does, and subscriptions with
# origin = none do not send it back.
use IbltRepair;

random_seed();
my ($here, $there) = repair_servers();
foreach my $node ($here, $there)
{
	$node->append_conf('postgresql.conf', "wal_level = logical\nmax_replication_slots = 10\nmax_wal_senders = 10\ntrack_commit_timestamp = on\n");
	$node->restart;
	$node->safe_psql('postgres', "SELECT pg_replication_origin_create('repair')");
}
sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }
sub prefix { return $_[0] eq 'pull' ? '' : 'on the peer: ' }
sub all { return 'SELECT * FROM ' . call(@_) }

both('CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE fired (id int); CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.fired VALUES (1); RETURN NULL; END $$;
	CREATE TRIGGER fire AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION fire(); ALTER TABLE t DISABLE TRIGGER fire');
sub drift
{
	my ($node) = @_;
	sql($_, 'TRUNCATE t, fired; INSERT INTO t SELECT g, g FROM generate_series(1, 9) g') foreach $here, $there;
	sql($node, "UPDATE t SET v = 'drift' WHERE id = 2; DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (20, 'extra')");
	return;
}

# The changes that a slot has, all of them or those without an origin.
sub changes
{
	my ($node, $slot, $local) = @_;
	return sql($node, "SELECT string_agg(substring(data FROM '^table public[.]([a-z]+: [A-Z]+)'), ', ') FROM pg_logical_slot_get_changes('$slot', NULL, NULL, 'only-local', '$local') WHERE data LIKE 'table %'");
}

foreach my $direction ('pull', 'push')
{
	my $target = $direction eq 'pull' ? $here : $there;
	drift($target);
	sql($_, 'ALTER TABLE t ENABLE TRIGGER fire') foreach $here, $there;
	sql($target, "SELECT pg_create_logical_replication_slot(s, 'test_decoding') FROM unnest('{whole,own}'::text[]) AS s");
	is(repair('t', $direction, "origin => 'repair'"), "delete {\"id\": 20} preview\ninsert {\"id\": 3} preview\nupdate {\"id\": 2} preview", "$direction: a preview");
	is(repair('t', $direction, "origin => 'repair', apply => true"), "delete {\"id\": 20} applied\ninsert {\"id\": 3} applied\nupdate {\"id\": 2} applied", 'it is repaired');
	same('t', $direction);
	is(changes($target, 'whole', 0), 't: DELETE, t: UPDATE, t: INSERT, fired: INSERT', 'the log has the changes, and those of triggers');
	is(changes($target, 'own', 1), '', 'none of them without an origin');
	drift($target);
	changes($target, 'own', 1);
	repair('t', $direction, 'apply => true');
	is(changes($target, 'own', 1), 't: DELETE, t: UPDATE, t: INSERT, fired: INSERT', 'but without the option, all of them');
	sql($target, "SELECT pg_drop_replication_slot(s) FROM unnest('{whole,own}'::text[]) AS s");
}

# The session has its own origin again, whatever happens.
drift($here);
sql($here, "SELECT pg_create_logical_replication_slot('own', 'test_decoding')");
is(sql($here, 'BEGIN; INSERT INTO t VALUES (50, 50); SELECT count(*) FROM ' . call('t', 'pull', "origin => 'repair', apply => true, condition => 'id < 40'") . "; INSERT INTO t VALUES (51, 51); SELECT pg_replication_origin_session_is_setup(); COMMIT"),
	"3\nf", 'a pull in a transaction that writes more');
is(changes($here, 'own', 1), 't: INSERT, fired: INSERT, t: INSERT, fired: INSERT', 'only the changes of the repair have the origin');
sql($_, 'TRUNCATE t; ALTER TABLE t ADD CONSTRAINT short CHECK (length(v) < 9) NOT VALID') foreach $here;
sql($there, "INSERT INTO t VALUES (60, 'longer than that') ON CONFLICT DO NOTHING");
my $session = IbltTest::Session->new($here);
$session->run(all('t', 'pull', "origin => 'repair', apply => true"));
like($session->{err}, qr/"short"/, 'a repair that fails');
like($session->run('SELECT pg_replication_origin_session_is_setup()'), qr/^f$/m, 'leaves no origin in the session');
$session->run("SELECT pg_replication_origin_session_setup('repair')");
$session->run(all('t', 'pull', "origin => 'repair', apply => true"));
like($session->{err}, qr/replication origin is already set up|already setup/, 'nor takes that of the session');
like($session->run('SELECT pg_replication_origin_session_is_setup()'), qr/^t$/m, 'which keeps it');
$session->quit;
sql($here, 'ALTER TABLE t DROP CONSTRAINT short');

# --- which row wins ----------------------------------------------------------------

# All rows of w on a side: { id => [ columns, undef for NULL ] }.
my @columns = qw(a b at);
sub rows
{
	my ($node) = @_;
	my %rows;
	foreach my $line (split /\n/, sql($node, "SELECT id, coalesce(a, '-'), coalesce(b::text, '-'), coalesce(at::text, '-') FROM w"))
	{
		my ($id, @values) = split /\|/, $line;
		$rows{$id} = [ map { $_ eq '-' ? undef : $_ } @values ];
	}
	return \%rows;
}
sub alike { my ($x, $y) = @_; return join('|', map { $_ // '-' } @$x) eq join('|', map { $_ // '-' } @$y) }
sub shown { my ($rows) = @_; return join "\n", map { my $id = $_; join ' ', $id, map { $_ // '-' } @{ $rows->{$id} } } sort { $a <=> $b } keys %$rows }

# What Perl makes of the target's rows; "newer" says whether the source's row of an id is newer.
sub newest
{
	my ($source, $target, $newer) = @_;
	return { map { my $s = $source->{$_}; ($_ => $s && $newer->($_, $s, $target->{$_}) ? $s : $target->{$_}) } keys %$target };
}
sub by_column { my ($id, $s, $t) = @_; return defined $s->[2] && defined $t->[2] && $s->[2] > $t->[2] }

both("CREATE TABLE w (id int PRIMARY KEY, a text, b numeric, at int, ${\ 'sum'} text GENERATED ALWAYS AS (coalesce(a, '') || coalesce(at::text, '')) STORED)");
sub random_rows
{
	my @lines = map { my $id = $_; "($id, " . join(', ', map { rand() < 0.3 ? 'NULL' : $_ } "'v" . int(rand 2) . "'", int(rand 2), 10 + int rand 3) . ')' } grep { rand() < 0.9 } 1 .. 40;
	return 'TRUNCATE w; INSERT INTO w VALUES ' . join ', ', @lines;
}
foreach my $round (1 .. ($ENV{IBLT_TEST_ROUNDS} || 3))
{
	{
		my $options = "winner => 'newest', newest_by => 'at'";
		sql($_, random_rows()) foreach $here, $there;
		foreach my $direction (rand() < 0.5 ? ('pull', 'push') : ('push', 'pull'))
		{
			my ($target, $source) = $direction eq 'pull' ? ($here, $there) : ($there, $here);
			my ($s, $t) = (rows($source), rows($target));
			my $result = newest($s, $t, \&by_column);
			my @done = map { "update {\"id\": $_} applied" } grep { !alike($result->{$_}, $t->{$_}) } keys %$t;
			my $preview = repair('w', $direction, $options);
			my @told = grep { /preview|applied/ } split /\n/, my $told = repair('w', $direction, "$options, apply => true");
			is(join("\n", @told), join("\n", sort @done), "round $round, $direction, $options: what is done");
			is($preview, $told =~ s/applied/preview/gr, 'is what the preview says');
			is(shown(rows($target)), shown($result), 'the rows are those of the winners');
			is(shown(rows($source)), shown($s), 'and the source is as it was');
			is(lines($told), scalar(grep { !$s->{$_} || !$t->{$_} || !alike($s->{$_}, $t->{$_}) } keys %{ { %$s, %$t } }), 'each difference is told');
		}
	}
}

# What is told of rows that are left
sql($here, "TRUNCATE w; INSERT INTO w VALUES (1, 'old', 1, 10), (2, 'same', 1, 10), (3, 'null', 1, NULL), (4, 'mine', 1, 10), (5, NULL, 2, 10), (6, 'x', NULL, 10), (7, NULL, 1, NULL)");
sql($there, "TRUNCATE w; INSERT INTO w VALUES (1, 'new', 1, 11), (2, 'time', 1, 10), (3, 'other', 1, 11), (9, 'theirs', 1, 10), (5, 'y', 1, 10), (6, NULL, NULL, 10), (7, 'z', NULL, NULL)");
my $by = "winner => 'newest', newest_by => 'at'";
is(repair('w', 'pull', "$by, condition => 'id IN (1, 2, 3, 4, 9)'"), join("\n", 'delete {"id": 4} skipped one side lacks the row, so none wins: deletes => false', 'insert {"id": 9} skipped one side lacks the row, so none wins: inserts => false',
	'update {"id": 1} preview', 'update {"id": 2} skipped a tie: no row is newer', 'update {"id": 3} skipped a tie: it is not known which row is newer'), 'newest: what a pull leaves');
like(repair('w', 'push', "$by, condition => 'id = 1'"), qr/^update \{"id": 1\} skipped the row of the target is newer$/, 'and the row that loses');
is(repair('w', 'pull', "$by, inserts => true, condition => 'id IN (4, 9)', apply => true"), "delete {\"id\": 4} skipped one side lacks the row, so none wins: deletes => false\ninsert {\"id\": 9} applied", 'missing rows are inserted on demand');
is(repair('w', 'pull', "$by, deletes => true, condition => 'id IN (4, 9)', apply => true"), 'delete {"id": 4} applied', 'and deleted');

# By commit time
sql($_, "TRUNCATE w; INSERT INTO w SELECT g, 'both', g FROM generate_series(1, 8) g") foreach $here, $there;
sql($here, "UPDATE w SET a = 'here' WHERE id <= 4");
sql($there, "UPDATE w SET a = 'there' WHERE id BETWEEN 3 AND 6");
sql($here, "UPDATE w SET a = 'late' WHERE id = 4; UPDATE w SET a = 'and later' WHERE id = 5");
is(repair('w', 'pull', "winner => 'newest', apply => true"), join("\n", 'update {"id": 1} skipped the row of the target is newer', 'update {"id": 2} skipped the row of the target is newer', 'update {"id": 3} applied',
	'update {"id": 4} skipped the row of the target is newer', 'update {"id": 5} skipped the row of the target is newer', 'update {"id": 6} applied'), 'newest by commit time: pull');
is(repair('w', 'push', "winner => 'newest', apply => true"), join("\n", map { "update {\"id\": $_} applied" } 1, 2, 4, 5), 'and push');
is(sql($_, "SELECT string_agg(a, ' ' ORDER BY id) FROM w"), 'here here there late and later there both both', 'the newest rows are on both sides') foreach $here, $there;
is(sql($here, "BEGIN; UPDATE w SET a = 'not committed' WHERE id = 1; SELECT status, detail FROM " . call('w', 'pull', "winner => 'newest'") . '; ROLLBACK'), 'skipped|a tie: it is not known which row is newer', 'a transaction of which nobody knows when it commits');

# Of what a run found, and of two sides of which none is here
my $found = "TRUNCATE w; INSERT INTO w VALUES (1, 'x', 1), (2, 'y', 2)";
sql($_, $found) foreach $here, $there;
sql($here, "UPDATE w SET a = 'here' WHERE id = 1");
sql($there, "UPDATE w SET a = 'there'");
sql($here, "UPDATE w SET a = 'here' WHERE id = 2");
my $run = sql($here, "CALL iblt_audit_run(${\ conninfo($there)}, tables => '{w}', progress => false)");
my $told = "SELECT concat_ws(' ', action, key, status, detail) FROM iblt_repair(run => $run, peer => ${\ conninfo($there)}, direction => 'pull', winner => 'newest', apply => true)";
is(sql($here, $told), "update {\"id\": 1} applied\nupdate {\"id\": 2} skipped the row of the target is newer", 'a run');
is(sql($here, "SELECT concat_ws(' ', action, key, status, detail) FROM iblt_repair(here_peer => ${\ conninfo($here)}, here_relation => 'public.w', peer => ${\ conninfo($there)}, direction => 'push', winner => 'newest', apply => true)"),
	'update {"id": 2} applied', 'and both sides elsewhere');
same('w', 'the newest rows');

# The winner is the one of the rows that are locked, though their contents are as they were compared.
my $args = 'iblt_internal.repair_plan[], iblt_internal.repair_plan[]';
foreach my $case ([ 'pull', $here, 'here' ], [ 'pull', $there, 'there' ], [ 'push', $here, 'here' ], [ 'push', $there, 'there' ])
{
	my ($direction, $node, $name) = @$case;
	my ($target, $source) = $direction eq 'pull' ? ($here, $there) : ($there, $here);
	sql($_, "TRUNCATE w; INSERT INTO w VALUES (1, 'mine', 1)") foreach $target;
	sql($_, "TRUNCATE w; INSERT INTO w VALUES (1, 'wins', 1)") foreach $source;
	sql($here, qq{ALTER FUNCTION iblt_internal.repair_begin($args) RENAME TO repair_begin_it; CREATE FUNCTION iblt_internal.repair_begin($args) RETURNS void LANGUAGE plpgsql AS \$\$
		BEGIN PERFORM "db ""link".dblink_exec(${\ conninfo($node)}, 'UPDATE w SET a = a'); PERFORM repair_begin_it(\$1, \$2); END\$\$});
	is(repair('w', $direction, "winner => 'newest', apply => true"), 'update {"id": 1} skipped changed since it was compared', "$direction, and the row is written again $name");
	is(sql($target, 'SELECT a FROM w'), 'mine', 'the row is left');
	is(repair('w', $direction, "apply => true"), 'update {"id": 1} applied', 'which does not matter where the source wins');
	sql($here, "DROP FUNCTION iblt_internal.repair_begin($args); ALTER FUNCTION iblt_internal.repair_begin_it($args) RENAME TO repair_begin");
}

# Arguments and rights
sql($here, "TRUNCATE w; INSERT INTO w VALUES (1, NULL, 5, 1)");
sql($there, "TRUNCATE w; INSERT INTO w VALUES (1, 'fill', NULL, 1)");
both("CREATE TABLE bare (id int, at int); INSERT INTO bare VALUES (1, ${\ '1'}); CREATE TABLE odd (id int PRIMARY KEY, t text, f float8, at bigint, d date, n numeric); INSERT INTO odd VALUES (1)");
sql($here, "ALTER TABLE odd ALTER at TYPE int; INSERT INTO odd VALUES (2, 'x', 1, 4, 'infinity', 'NaN')");
sql($there, "INSERT INTO odd VALUES (2, 'y', 1, 5, '2026-01-01', 1)");
like(failure(all('w', 'pull', $_->[0])), $_->[1], "an error: $_->[0]") foreach [ "winner => 'oldest'", qr/22023: winner must be source or newest/ ], [ 'winner => NULL', qr/22023: winner must be source/ ],
	[ "newest_by => 'at'", qr/22023: newest_by needs winner => 'newest'/ ], [ "winner => 'newest', newest_by => 'At'", qr/42703: newest_by is not a compared column: "At"/ ],
	[ "winner => 'newest', newest_by => 'at', exclude => '{at}'", qr/42703: newest_by is not a compared column/ ], [ "winner => 'newest', newest_by => 'a'", qr/42804: column "a" does not tell which row is newer/ ];
like(failure(all('bare', 'pull', "winner => 'newest'")), qr/0A000: winner => 'newest' needs a unique key/, 'without a unique key');
like(failure(all('odd', 'pull', "winner => 'newest', exclude => '{at}', newest_by => 'f'")), qr/42804: column "f" does not/, 'a number that is not exact');
is(repair('odd', 'pull', "winner => 'newest', cast_types => true, newest_by => 'at'"), 'update {"id": 2} preview', 'integers of two types');
is(repair('odd', 'push', "winner => 'newest', exclude => '{at}', newest_by => '$_'"), 'update {"id": 2} preview', "infinity, and what is no number: $_") foreach 'd', 'n';
is(repair('w', 'pull', "method => 'plain', winner => 'newest', newest_by => 'at'"), 'update {"id": 1} skipped a tie: no row is newer', 'by plain queries: a column');
like(failure(all('w', 'pull', "method => 'plain', winner => 'newest'")), qr/0A000: the commit times of the rows of public.w cannot be read \(here\)/, 'but not the commit time');

# Rights
both("CREATE ROLE fixer LOGIN PASSWORD 'right'; GRANT ALL ON t, fired TO fixer; GRANT USAGE ON SCHEMA public TO fixer");
foreign_server($here, 'other', $there, 'fixer', 'right');
sql($here, 'GRANT USAGE ON SCHEMA "db ""link" TO fixer');
sql($there, 'GRANT USAGE ON SCHEMA "Their Iblt" TO fixer');
foreach my $direction ('pull', 'push')
{
	my $target = $direction eq 'pull' ? $here : $there;
	drift($target);
	like(failure(all('t', $direction, "origin => 'no such', apply => true")), qr/42704: ${\ prefix($direction)}replication origin "no such" does not exist/, "$direction: an origin that does not exist");
	like(failure(all('t', $direction, "origin => 'repair', apply => true", "'other'"), user => 'fixer'), qr/42501: ${\ prefix($direction)}permission denied for function pg_replication_origin_session_setup/,
		'a role without the right');
	sql($target, 'GRANT EXECUTE ON FUNCTION pg_replication_origin_session_setup(text), pg_replication_origin_session_reset() TO fixer');
	is(repair('t', $direction, "origin => 'repair', apply => true", user => 'fixer', peer => "'other'"), "delete {\"id\": 20} applied\ninsert {\"id\": 3} applied\nupdate {\"id\": 2} applied", 'and with it');
	same('t', "$direction by that role");
}

sql($_, 'GRANT SELECT (id, a, b, at, sum) ON w TO fixer') foreach $here, $there;
like(failure(all('w', 'pull', "winner => 'newest'", "'other'"), user => 'fixer'), qr/42501: permission denied for row versions of public.w \(here\).*HINT:  Grant SELECT on the table/s, 'a role that may not read the version of a row');
sql($_, 'GRANT SELECT (tableoid, ctid, xmin) ON w TO fixer') foreach $here, $there;
is(repair('w', 'pull', "winner => 'newest'", user => 'fixer', peer => "'other'"), 'update {"id": 1} preview', 'and one that may');

# Two servers that replicate to each other
if (major_version() >= 16)
{
	sql($_, 'ALTER TABLE t DISABLE TRIGGER fire; TRUNCATE t; CREATE PUBLICATION pub FOR TABLE t') foreach $here, $there;
	sql($here, "CREATE SUBSCRIPTION from_there CONNECTION ${\ conninfo($there)} PUBLICATION pub WITH (origin = none, copy_data = false)");
	sql($there, "CREATE SUBSCRIPTION from_here CONNECTION ${\ conninfo($here)} PUBLICATION pub WITH (origin = none, copy_data = false)");
	subscribed($_->[0], 1, $_->[1]) foreach [ $here, 'from_there' ], [ $there, 'from_here' ];
	sql($here, 'INSERT INTO t SELECT g, g FROM generate_series(1, 9) g');
	$here->wait_for_catchup('from_here');
	foreach my $direction ('pull', 'push')
	{
		my ($target, $source) = $direction eq 'pull' ? ($here, $there) : ($there, $here);
		sql($target, "SET session_replication_role = replica; BEGIN; SELECT pg_replication_origin_session_setup('repair'); UPDATE t SET v = 'drift' WHERE id = 2; DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (20, 'extra'); COMMIT; SELECT pg_replication_origin_session_reset()");
		is(repair('t', $direction, "origin => 'repair', apply => true"), "delete {\"id\": 20} applied\ninsert {\"id\": 3} applied\nupdate {\"id\": 2} applied", "$direction between two that replicate to each other");
		# what comes behind the repair has been applied, so the repair has been passed over; with
		# commit times, an update of a row that the other side wrote last would be logged as a conflict
		sql($target, "INSERT INTO t VALUES (${\ ($direction eq 'pull' ? 91 : 92)}, 'after')");
		$target->wait_for_catchup($direction eq 'pull' ? 'from_here' : 'from_there');
		same('t', 'after replication has passed');
		is(sql($source, "SELECT count(*) FROM pg_stat_subscription_stats WHERE apply_error_count > 0"), '0', 'no conflict stops replication');
		unlike(slurp_file($source->logfile), qr/conflict|duplicate key/, 'and none is logged');
	}
	sql(@$_) foreach [ $here, 'DROP SUBSCRIPTION from_there' ], [ $there, 'DROP SUBSCRIPTION from_here' ];
}

# A row that VACUUM has frozen, on a server whose transaction IDs have wrapped around: its number may
# be that of a later transaction.  Without tracking, nothing is known.
nothing_open('before the restarts');
$_->stop foreach $here, $there;
PostgreSQL::Test::Utils::system_or_bail('pg_resetwal', '-e', '1', $there->data_dir);
$here->append_conf('postgresql.conf', "track_commit_timestamp = off\n");
$_->start foreach $here, $there;
sql($_, "TRUNCATE w; INSERT INTO w VALUES (1, 'x', 1, 1), (2, 'y', 1, 1)") foreach $here, $there;
sql($there, "VACUUM FREEZE w; UPDATE w SET a = 'new' WHERE id = 2");
my $time = "SELECT id, iblt_internal.iblt_row_time(tableoid, ctid, xmin) IS NULL FROM w ORDER BY id";
is(sql($there, $time), "1|t\n2|f", 'a frozen row of another epoch has no time, and a row that is not frozen has');
is(sql($here, $time), "1|t\n2|t", 'nor has any without tracking');
my ($rc, $out, $err) = $here->psql('postgres', 'SELECT status, detail FROM ' . call('w', 'pull', "winner => 'newest', apply => true"));
is($out, 'skipped|a tie: it is not known which row is newer', 'which is a tie');
like($err, qr/WARNING:  commit times are not tracked \(here\)\nDETAIL:  It is not known which rows are newer/, 'and a warning says why');
nothing_open('at the end');

done_testing();
