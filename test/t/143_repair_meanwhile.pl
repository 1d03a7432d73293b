# DDL of other sessions between the description of a target and COMMIT: no repair writes to another
# relation than it described, and none says "applied" where something may change rows after it.
use strict;
use warnings;

use IbltTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

IbltTest::share_sessions();

# bare has no iblt
my ($here, $there, $bare) = (server('here'), server('there'), server('bare'));
sides($here, $there);
both('CREATE EXTENSION iblt; CREATE EXTENSION dblink');
foreach my $node ($there, $bare)
{
	my $name = $node->name;
	$here->safe_psql('postgres', "CREATE SERVER $name FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '${\ $node->host}', port '${\ $node->port}', dbname 'postgres'); CREATE USER MAPPING FOR CURRENT_USER SERVER $name");
}
sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }

# Whether a repair of live.t waits on that server for one of these sessions.
sub waits
{
	my ($node, $holder) = @_;
	my $pid = $holder->{pid};
	return $node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND $pid = ANY (pg_blocking_pids(pid))");
}

my $swap = 'ALTER SCHEMA live RENAME TO old; ALTER SCHEMA next RENAME TO live';
my $swap_back = 'ALTER SCHEMA live RENAME TO next; ALTER SCHEMA old RENAME TO live';
my $rows = 3000;	# a statement has 1,000

# Each placement: its name, target, source, and a repair of live.t there.
my @placements = (
	[ 'pull', $here, $there, "iblt_repair('live.t', 'there', direction => 'pull', apply => true)" ],
	[ 'push', $there, $here, "iblt_repair('live.t', 'there', direction => 'push', apply => true)" ],
	[ 'nodes', $there, $here, "iblt_repair_nodes('live.t', '{NULL,there}', source => 'here', apply => true)" ],
	[ 'a node here', $here, $there, "iblt_repair_nodes('live.t', '{NULL,there}', source => 'there', apply => true)" ],
	[ 'a run', $there, $here, "iblt_repair(run => %s, direction => 'push', apply => true)" ],
	[ 'plain', $bare, $here, "iblt_repair('live.t', 'bare', direction => 'push', apply => true, method => 'plain')" ],
	[ 'elsewhere', $there, $bare, "iblt_repair(NULL, 'there', 'live.t', here_peer => 'bare', here_relation => 'live.t', direction => 'push', apply => true, method => 'plain')" ]);

# Puts the tables as they are before a repair, and returns it.
sub prepare
{
	my ($placement, $more) = @_;
	my ($name, $target, $source, $repair) = @$placement;
	foreach my $node ($target, $source)
	{
		sql($node, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS live CASCADE; DROP SCHEMA IF EXISTS next CASCADE; DROP SCHEMA IF EXISTS old CASCADE; CREATE SCHEMA live; CREATE SCHEMA next;
			CREATE TABLE live.t (id int PRIMARY KEY, v text)" . ($more // '') . "; CREATE TABLE next.t (LIKE live.t INCLUDING ALL)");
	}
	sql($source, "INSERT INTO live.t SELECT g, g FROM generate_series(1, $rows) g");
	my $run = $name eq 'a run' ? sql($here, "CALL iblt_audit_run('there', tables => '{live.t}', progress => false)") : '';
	return 'SELECT status, detail FROM ' . sprintf($repair, $run);
}

# A repair that says so has not been applied, and its error is that of an altered relation.
sub refused
{
	my ($run, $text) = @_;
	finish($run);
	like($run->{out} . $run->{err}, qr/relation live\.t was altered while it was compared/, "$text: an error");
	unlike($run->{out}, qr/applied/, "$text: nothing was applied");
	return;
}

foreach my $placement (@placements)
{
	my ($name, $target) = @$placement;
	my $held = "INSERT INTO %s SELECT g, 'held' FROM generate_series(1, $rows) g";

	# another table takes the name while the first statement waits
	my $repair = prepare($placement);
	my $holder = IbltTest::Session->new($target);
	$holder->run('BEGIN; ' . sprintf($held, 'live.t'));
	my $run = background($here, $repair);
	ok(waits($target, $holder), "$name: the first statement waits");
	sql($target, $swap);
	$holder->run('ROLLBACK');
	refused($run, "$name, another table has the name");
	is(sql($target, 'SELECT (SELECT count(*) FROM live.t), (SELECT count(*) FROM old.t)'), '0|0', "$name: neither table has changed");

	# and gives it back while the second one waits
	$repair = prepare($placement);
	my $other = IbltTest::Session->new($target);
	$holder->run('BEGIN; ' . sprintf($held, 'live.t'));
	$other->run('BEGIN; ' . sprintf($held, 'next.t'));
	$run = background($here, $repair);
	ok(waits($target, $holder), "$name: the first statement waits again");
	sql($target, $swap);
	$holder->run('ROLLBACK');
	ok(waits($target, $other), "$name: the second one waits in the other table");
	sql($target, $swap_back);
	$other->run('ROLLBACK');
	refused($run, "$name, another table had the name");
	is(sql($target, 'SELECT (SELECT count(*) FROM live.t), (SELECT count(*) FROM next.t)'), '0|0', "$name: neither table has changed");

	# the source's name means another table
	my $source = $placement->[2];
	$repair = prepare($placement);
	$holder->run('BEGIN; ' . sprintf($held, 'live.t'));
	$run = background($here, $repair);
	ok(waits($target, $holder), "$name: the first statement waits once more");
	sql($source, $swap);
	$holder->run('ROLLBACK');
	refused($run, "$name, another source has the name");
	is(sql($target, 'SELECT count(*) FROM live.t'), '0', "$name: the target has not changed");
	$_->quit foreach $holder, $other;
}

# A partition comes with a trigger that changes rows, or a child, while the first statement waits.
# Both take SHARE UPDATE EXCLUSIVE, which does not wait for the lock of a repair.
foreach my $placement (@placements)
{
	my ($name, $target, $source) = @$placement;
	sql($_, 'SET client_min_messages = warning; DROP SCHEMA IF EXISTS live CASCADE; DROP SCHEMA IF EXISTS next CASCADE; DROP SCHEMA IF EXISTS old CASCADE; CREATE SCHEMA live;
		CREATE TABLE live.t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE live.p1 PARTITION OF live.t FOR VALUES FROM (1) TO (1001)') foreach $target, $source;
	sql($source, "CREATE TABLE live.p2 PARTITION OF live.t FOR VALUES FROM (1001) TO (2001); INSERT INTO live.t SELECT g, g FROM generate_series(1, 2000) g");
	sql($target, q{CREATE TABLE live.p2 (LIKE live.t INCLUDING ALL);
		CREATE FUNCTION live.change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE live.p2 SET v = ''changed'' WHERE id = NEW.id; RETURN NULL; END';
		CREATE TRIGGER change AFTER INSERT ON live.p2 FOR EACH ROW EXECUTE FUNCTION live.change()});
	my $run = $name eq 'a run' ? sql($here, "CALL iblt_audit_run('there', tables => '{live.t}', progress => false)") : '';
	my $holder = IbltTest::Session->new($target);
	$holder->run("BEGIN; INSERT INTO live.t SELECT g, 'held' FROM generate_series(1, 1000) g");
	my $repair = background($here, 'SELECT status, detail FROM ' . sprintf($placement->[3], $run));
	ok(waits($target, $holder), "$name: a statement waits");
	sql($target, 'ALTER TABLE live.t ATTACH PARTITION live.p2 FOR VALUES FROM (1001) TO (2001)');
	$holder->run('ROLLBACK');
	refused($repair, "$name, a partition with a trigger");
	is(sql($target, 'SELECT count(*) FROM live.t'), '0', "$name: nothing was changed");
	$holder->quit;
}
{
	my $repair = prepare($placements[1]);
	my $holder = IbltTest::Session->new($there);
	$holder->run("BEGIN; INSERT INTO live.t SELECT g, 'held' FROM generate_series(1, $rows) g");
	my $run = background($here, $repair);
	ok(waits($there, $holder), 'a statement waits');
	sql($there, 'CREATE TABLE live.child () INHERITS (live.t)');
	$holder->run('ROLLBACK');
	refused($run, 'a child');
	$holder->quit;
}

# --- whose triggers they are -----------------------------------------------------------------------

# PostgreSQL 14 has tgisinternal for triggers that a partition has from its parent.
both(q{CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (100);
	CREATE TABLE other (id int PRIMARY KEY); CREATE TABLE refers (id int PRIMARY KEY REFERENCES other, v text UNIQUE DEFERRABLE);
	CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE public.part SET v = ''changed'' WHERE id = NEW.id; RETURN NULL; END';
	CREATE TRIGGER change AFTER INSERT ON parted FOR EACH ROW EXECUTE FUNCTION change();
	UPDATE pg_trigger SET tgisinternal = true WHERE tgparentid <> 0});
sql($there, "ALTER TABLE parted DISABLE TRIGGER change; INSERT INTO parted SELECT g, g FROM generate_series(1, 9) g");
like(($here->psql('postgres', "SELECT count(*) FROM iblt_repair('part', 'there', direction => 'pull')"))[2], qr/NOTICE:  triggers of public\.part will fire \(here\): change \(INSERT\)/, 'a preview names a trigger that a partition has from its parent');
like(failure("SELECT * FROM iblt_repair('part', 'there', direction => 'pull', apply => true)"), qr/27000: after the repair, the rows of 9 keys are not as on the source/, 'a repair notices what it does');
is(sql($here, 'SELECT count(*) FROM part'), '0', 'and changes nothing');
sql($there, 'INSERT INTO other VALUES (1); INSERT INTO refers VALUES (1, 1)');
sql($here, 'INSERT INTO other VALUES (1)');
is(($here->psql('postgres', "SELECT status FROM iblt_repair('refers', 'there', direction => 'pull', apply => true)"))[2], '', 'triggers of constraints are not those of a user');

nothing_left('at the end');
$_->stop foreach $here, $there, $bare;
done_testing();
