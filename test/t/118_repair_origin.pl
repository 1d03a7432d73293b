# A repair under a replication origin: each change that it writes names the origin, no other
# change of the session does, and subscriptions with origin = none do not send it back.
use strict;
use warnings;

use IbltRepair;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($here, $there) = repair_servers();
foreach my $node ($here, $there)
{
	$node->append_conf('postgresql.conf', "wal_level = logical\nmax_replication_slots = 10\nmax_wal_senders = 10\n");
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

# Rights
both("CREATE ROLE fixer LOGIN PASSWORD 'right'; GRANT ALL ON t, fired TO fixer; GRANT USAGE ON SCHEMA public TO fixer");
sql($here, qq{GRANT USAGE ON SCHEMA "db ""link" TO fixer; CREATE SERVER other FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '${\ $there->host}', port '${\ $there->port}', dbname 'postgres');
	GRANT USAGE ON FOREIGN SERVER other TO fixer; CREATE USER MAPPING FOR fixer SERVER other OPTIONS (user 'fixer', password 'right')});
sql($there, 'GRANT USAGE ON SCHEMA "Their Iblt" TO fixer');
hba($there, 'local all fixer scram-sha-256');
foreach my $direction ('pull', 'push')
{
	my $target = $direction eq 'pull' ? $here : $there;
	drift($target);
	like(failure(all('t', $direction, "origin => 'no such', apply => true")), qr/42704: ${\ prefix($direction)}replication origin "no such" does not exist.*HINT:  SELECT pg_replication_origin_create\('no such'\)/s, "$direction: an origin that does not exist");
	like(failure(all('t', $direction, "origin => 'repair', apply => true", "'other'"), user => 'fixer'), qr/42501: ${\ prefix($direction)}permission denied to write under a replication origin.*HINT:  GRANT EXECUTE ON FUNCTION pg_replication_origin_session_setup/s,
		'a role without the right');
	sql($target, 'GRANT EXECUTE ON FUNCTION pg_replication_origin_session_setup(text), pg_replication_origin_session_reset() TO fixer');
	is(repair('t', $direction, "origin => 'repair', apply => true", user => 'fixer', peer => "'other'"), "delete {\"id\": 20} applied\ninsert {\"id\": 3} applied\nupdate {\"id\": 2} applied", 'and with it');
	same('t', "$direction by that role");
}

# Two servers that replicate to each other
SKIP:
{
	skip 'subscriptions have no origin before PostgreSQL 16', 8 if major_version() < 16;
	sql($_, 'ALTER TABLE t DISABLE TRIGGER fire; TRUNCATE t; CREATE PUBLICATION pub FOR TABLE t') foreach $here, $there;
	sql($here, "CREATE SUBSCRIPTION from_there CONNECTION ${\ conninfo($there)} PUBLICATION pub WITH (origin = none, copy_data = false)");
	sql($there, "CREATE SUBSCRIPTION from_here CONNECTION ${\ conninfo($here)} PUBLICATION pub WITH (origin = none, copy_data = false)");
	subscribed($_->[0], 1, $_->[1]) foreach [ $here, 'from_there' ], [ $there, 'from_here' ];
	sql($here, 'INSERT INTO t SELECT g, g FROM generate_series(1, 9) g');
	$here->wait_for_catchup('from_here');
	foreach my $direction ('pull', 'push')
	{
		my ($target, $source) = $direction eq 'pull' ? ($here, $there) : ($there, $here);
		sql($target, "SET session_replication_role = replica; BEGIN; SELECT pg_replication_origin_session_setup('repair'); UPDATE t SET v = 'drift' WHERE id = 2; DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (20, 'extra'); COMMIT");
		is(repair('t', $direction, "origin => 'repair', apply => true"), "delete {\"id\": 20} applied\ninsert {\"id\": 3} applied\nupdate {\"id\": 2} applied", "$direction between two that replicate to each other");
		# what comes behind the repair has been applied, so the repair has been passed over
		sql($target, "UPDATE t SET v = 'after $direction' WHERE id = 9");
		$target->wait_for_catchup($direction eq 'pull' ? 'from_here' : 'from_there');
		same('t', 'after replication has passed');
		is(sql($source, "SELECT count(*) FROM pg_stat_subscription_stats WHERE apply_error_count > 0"), '0', 'no conflict stops replication');
		unlike(slurp_file($source->logfile), qr/conflict|duplicate key/, 'and none is logged');
	}
}
nothing_open('at the end');
$_->stop('immediate') foreach ($here, $there);
done_testing();
