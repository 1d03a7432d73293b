# What a statement reads under a snapshot that is older than its locks, here and on the
# peer: in REPEATABLE READ and SERIALIZABLE, which may be a mere default.  A table that
# was truncated or rewritten meanwhile reads as empty there, though it never was.
use strict;
use warnings;

use IbltCompare;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $here = server('here');
my $there = server('there');
sides($here, $there);
both('CREATE EXTENSION dblink; CREATE EXTENSION iblt');
my $peer = conninfo($there);
my $session = IbltTest::Session->new($here);

# A message and its SQLSTATE, or the number of rows.
sub answer { my ($out) = @_; return ($session->{err} =~ /ERROR: +(\w+: .*)/)[0] // $out }

# --- here ------------------------------------------------------------------------------

# On each side 1,000 rows, committed at every moment, of which all differ.  The names
# are those of the two sides, which are both here unless a case is about the peer.
my $tables = q{CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (id int PRIMARY KEY, v int); INSERT INTO a SELECT g, 1 FROM generate_series(1, 1000) g; INSERT INTO b SELECT g, 2 FROM generate_series(1, 1000) g;
	CREATE TABLE pa (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE pb (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
	CREATE TABLE pa1 PARTITION OF pa FOR VALUES FROM (0) TO (2000); CREATE TABLE pb1 PARTITION OF pb FOR VALUES FROM (0) TO (2000); INSERT INTO pa TABLE a; INSERT INTO pb TABLE b;
	CREATE TABLE ia (id int, v int); CREATE TABLE ia1 () INHERITS (ia); CREATE TABLE ib (id int, v int); CREATE TABLE ib1 () INHERITS (ib); INSERT INTO ia1 TABLE a; INSERT INTO ib1 TABLE b;
	CREATE VIEW va AS SELECT x.id, x.v FROM (SELECT * FROM a WHERE EXISTS (SELECT FROM pa)) AS x;
	CREATE VIEW vc AS WITH w AS MATERIALIZED (TABLE b) TABLE w; CREATE VIEW vb AS TABLE vc;
	CREATE MATERIALIZED VIEW ma AS TABLE a; CREATE MATERIALIZED VIEW mb AS TABLE b};
both($tables);
my %reload = map { my $t = $_; $t => "TRUNCATE $t; INSERT INTO $t SELECT g, " . ($t =~ /a/ ? 1 : 2) . ' FROM generate_series(1, 1000) g' } qw(a b pa1 pb1 ia1 ib1);
foreach my $case (
	[ 'TRUNCATE', 'a', 'b', "$reload{a}; $reload{b}" ],
	[ 'SET UNLOGGED', 'a', 'b', 'ALTER TABLE a SET UNLOGGED; ALTER TABLE b SET UNLOGGED; ALTER TABLE a SET LOGGED; ALTER TABLE b SET LOGGED' ],
	[ 'two ALTER TYPE', 'pa', 'pb', join '; ', map { my $t = $_; map { "ALTER TABLE $t ALTER v TYPE $_" } qw(bigint int) } qw(pa pb) ],
	[ 'TRUNCATE of partitions', 'pa', 'pb', "$reload{pa1}; $reload{pb1}" ],
	[ 'another partition', 'pa', 'pb', join '; ', map { "ALTER TABLE p$_ DETACH PARTITION p${_}1; CREATE TABLE p${_}2 (LIKE p$_ INCLUDING ALL); INSERT INTO p${_}2 TABLE p${_}1; DROP TABLE p${_}1;
		ALTER TABLE p${_}2 RENAME TO p${_}1; ALTER TABLE p$_ ATTACH PARTITION p${_}1 FOR VALUES FROM (0) TO (2000)" } qw(a b) ],
	[ 'rows moved to the parent', 'ia', 'ib', join '; ', map { "ALTER TABLE i${_}1 NO INHERIT i$_; INSERT INTO i$_ TABLE i${_}1" } qw(a b) ],
	[ 'children that come back', 'ia', 'ib', join '; ', map { "TRUNCATE i$_; ALTER TABLE i${_}1 INHERIT i$_" } qw(a b) ],
	[ 'TRUNCATE of children', 'ia', 'ib', "$reload{ia1}; $reload{ib1}" ],
	[ 'TRUNCATE under views', 'va', 'vb', "$reload{a}; $reload{b}" ],
	[ 'REFRESH', 'ma', 'mb', 'REFRESH MATERIALIZED VIEW ma; REFRESH MATERIALIZED VIEW mb' ])
{
	my ($what, $left, $right, $ddl) = @$case;
	my $key = $left =~ /^[ap]/ ? '' : ", key_columns => '{id}'";
	my $compare = "SELECT count(*) FROM iblt_compare('$left', NULL, '$right', recheck => 0, max_differences => 5000$key)";
	foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
	{
		$session->run("BEGIN ISOLATION LEVEL $level; SELECT 1");
		$here->safe_psql('postgres', "BEGIN; $ddl; COMMIT");
		is(answer($session->run($compare)), "IB004: relation public.$left was altered while it was compared (here)", "$what, $level: an error");
		like($session->{err}, qr/HINT: +Begin another transaction/, "$what, $level: a hint");
		$session->run("ROLLBACK; BEGIN ISOLATION LEVEL $level");
		is(answer($session->run($compare)), '1000', "$what, $level: the rows in a transaction that begins later");
		$session->run('ROLLBACK');
		last if $what ne 'TRUNCATE';
	}
}

# Only the second side, by plain queries, and an audit.
foreach my $case ([ 'there', "SELECT count(*) FROM iblt_compare('pa', NULL, 'b', recheck => 0)", 'IB004: relation public.b was altered while it was compared (there)' ],
	[ 'plain', "SELECT count(*) FROM iblt_compare('b', $peer, 'pa', recheck => 0, method => 'plain')", 'IB004: relation public.b was altered while it was compared (here)' ],
	[ 'an audit', "SELECT string_agg(concat_ws(' ', relation, status, sqlstate), ', ') FROM iblt_audit($peer, tables => '{a,b}', recheck => 0)", 'public.a equal, public.b not comparable IB004' ])
{
	my ($what, $sql, $expected) = @$case;
	$there->safe_psql('postgres', 'DELETE FROM b');
	$session->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$here->safe_psql('postgres', "BEGIN; $reload{b}; COMMIT");
	is(answer($session->run($sql)), $expected, "$what: an error");
	$session->run('ROLLBACK');
}

# What one transaction does itself, and DDL that leaves the files alone, are no matter.
my $count = "SELECT count(*) FROM iblt_compare('a', NULL, 'pb', recheck => 0)";
$session->run("BEGIN ISOLATION LEVEL REPEATABLE READ; $reload{a}; $reload{pb1}; CREATE TABLE pb3 PARTITION OF pb FOR VALUES FROM (3000) TO (4000)");
is(answer($session->run($count)), '1000', 'its own TRUNCATE: the rows');
$session->run('ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$here->safe_psql('postgres', "ALTER TABLE a ALTER v SET DEFAULT 3, SET (fillfactor = 90); CREATE INDEX ON pb1 (v); GRANT SELECT ON a TO public; VACUUM a; ANALYZE a");
is(answer($session->run($count)), '1000', 'harmless DDL: the rows');
$session->run('ROLLBACK');

# --- the peer ----------------------------------------------------------------------------

# There, statements wait for a lock while a table gets its rows anew.  Here it is empty.
both('CREATE TABLE w (id int PRIMARY KEY, v int); CREATE TABLE x (id int PRIMARY KEY, v int)');
my $altering = IbltTest::Session->new($there);
foreach my $level ('repeatable read', 'serializable')
{
	$there->safe_psql('postgres', "ALTER DATABASE postgres SET default_transaction_isolation = '$level'; TRUNCATE w; INSERT INTO w SELECT g, 2 FROM generate_series(1, 1000) g");
	foreach my $ddl ('TRUNCATE w; INSERT INTO w SELECT g, 2 FROM generate_series(1, 1000) g', $level eq 'serializable' ? () : ('ALTER TABLE w SET UNLOGGED; ALTER TABLE w SET LOGGED', 'ALTER TABLE w ALTER v TYPE bigint; ALTER TABLE w ALTER v TYPE int'))
	{
		foreach my $case ([ 'iblt_compare', "SELECT count(*) FROM iblt_compare('w', $peer)", '1000' ], [ 'plain', "SELECT count(*) FROM iblt_compare('w', $peer, method => 'plain')", '1000' ],
			[ 'iblt_audit', "SELECT string_agg(concat_ws(' ', relation, status, missing), ', ') FROM iblt_audit($peer, tables => '{w,x}')", 'public.w differs 1000, public.x equal 0' ])
		{
			my ($what, $sql, $expected) = @$case;
			$altering->run("BEGIN; $ddl");
			$session->start($sql);
			wait_for($there, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'w'::regclass");
			$altering->run('COMMIT');
			is(answer($session->done), $expected, "the peer is $level, $ddl: $what finds the rows");
		}
	}
}
$there->safe_psql('postgres', 'ALTER DATABASE postgres RESET default_transaction_isolation');

$_->quit foreach ($session, $altering);
done_testing();
