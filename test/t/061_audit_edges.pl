# Cases at the edge of audits, in which "equal" would be wrong: rows that an index
# lacks, publications that are not what they seem, settings that change what is
# read; and cases in which "differs" would be.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FindBin;
use lib $FindBin::RealBin;
use IbltCompare qw(compare_server sides both literal failure);

my ($here, $there) = (compare_server('here'), compare_server('there'));
sides($here, $there);
both('CREATE EXTENSION iblt');
$here->safe_psql('postgres', 'CREATE EXTENSION dblink');
my $peer = literal($there->connstr('postgres'));

# "status missing extra changed unconfirmed" of each table, a line each.
sub audit
{
	my ($what, %how) = @_;
	return ($how{node} // $here)->safe_psql('postgres', ($how{setup} // '')
		  . "SELECT concat_ws(' ', coalesce(relation, peer_relation), status, missing, extra, changed, unconfirmed) FROM $what ORDER BY 1");
}

sub detail
{
	my ($what, %how) = @_;
	return ($how{node} // $here)->safe_psql('postgres', "SELECT concat_ws(' ', sqlstate, detail) FROM $what");
}

# --- damaged indexes ----------------------------------------------------------------

# Runs SQL whose rows the index is not told of.
sub unnoticed
{
	my ($node, $index, $sql) = @_;
	my $set = "UPDATE pg_index SET indisready = %s, indisvalid = %1\$s WHERE indexrelid = '$index'::regclass";
	$node->safe_psql('postgres', $_) foreach (sprintf($set, 'false'), $sql, sprintf($set, 'true'));
	return;
}

both('CREATE TABLE damaged (id int PRIMARY KEY, v text); INSERT INTO damaged SELECT g, g FROM generate_series(1, 100000) g; VACUUM ANALYZE damaged;
	CREATE TABLE damaged_pair (id int, n date, v text, PRIMARY KEY (id, n)); INSERT INTO damaged_pair SELECT g, \'2026-01-01\', g FROM generate_series(1, 100000) g; VACUUM ANALYZE damaged_pair');
unnoticed($here, 'damaged_pkey', "INSERT INTO damaged VALUES (200000, 'x'), (200001, 'x')");
unnoticed($there, 'damaged_pair_pkey', "INSERT INTO damaged_pair VALUES (200000, '2026-02-03', 'x')");
is($here->safe_psql('postgres', 'SELECT count(*) FROM damaged; SELECT count(*) FROM damaged WHERE id >= 200000'), "100002\n0", 'rows that the index does not find');
is(audit("iblt_audit($peer, '{damaged,damaged_pair}')"), "public.damaged error\npublic.damaged_pair error", 'a table with such rows is not equal');
is(detail("iblt_audit($peer, '{damaged}')"), 'XX002 an index of public.damaged does not find rows that the table has (here): One has the key {"id": 200000}, of 2.',
	'the detail says why');
like(failure("SELECT * FROM iblt_compare('damaged_pair', $peer)"), qr/XX002: an index of public\.damaged_pair does not find rows that the table has \(there\).*DETAIL:  One has the key \{"n": "2026-02-03", "id": 200000\}, of 1.*HINT:  .*amcheck/s,
	'nor does iblt_compare find no difference');
like(failure("SELECT * FROM iblt_repair('damaged', $peer, 'pull')"), qr/XX002/, 'nor iblt_repair');

# Rows that have come and gone meanwhile are no damage: they are not in the same version before and after.
both('CREATE TABLE restless (id int PRIMARY KEY, v int); INSERT INTO restless SELECT g, 0 FROM generate_series(1, 2000) g');
{
	my $script = "DO \$\$ BEGIN FOR i IN 1 .. 100000 LOOP UPDATE restless SET v = i WHERE id BETWEEN 1 + i * 7 % 1990 AND 11 + i * 7 % 1990; "
	  . "DELETE FROM restless WHERE id = 1 + i % 2000; COMMIT; INSERT INTO restless VALUES (1 + i % 2000, 0); COMMIT; END LOOP; END \$\$";
	my $load = IPC::Run::start([ 'psql', '-XAtq', '-d', $there->connstr('postgres'), '-c', $script ], '<', \'', '>', \my $out, '2>', \my $err);
	my $failed = join '', map { failure("SELECT * FROM iblt_compare('restless', $peer)") } 1 .. 15;
	$load->signal('TERM');
	eval { $load->finish };
	is($failed, '', 'rows that come and go under a load are no damage');
}

# A scan of a table's index alone would not see rows that it lacks.
both('CREATE TABLE pairs (a int, b int, PRIMARY KEY (a, b)) WITH (fillfactor = 20); INSERT INTO pairs SELECT g, g FROM generate_series(1, 20000) g');
unnoticed($here, 'pairs_pkey', 'INSERT INTO pairs VALUES (0, 1), (0, 2)');
both('VACUUM ANALYZE pairs');
like($here->safe_psql('postgres', 'EXPLAIN SELECT sum(a + b) FROM pairs'), qr/Index Only Scan/, 'the planner would read the index alone');
is(audit("iblt_audit($peer, '{pairs}')"), 'public.pairs error', 'but the table is read');
is(audit("iblt_audit(${\ literal($here->connstr('postgres'))}, '{pairs}')", node => do { $there->safe_psql('postgres', 'CREATE EXTENSION dblink'); $there }), 'public.pairs error', 'on the peer, too');

# --- settings -------------------------------------------------------------------------

both('CREATE TABLE arrays (id int PRIMARY KEY, v int[]); INSERT INTO arrays VALUES (1, \'{1}\')');
$here->safe_psql('postgres', "INSERT INTO arrays VALUES (2, '{2}')");
$there->safe_psql('postgres', "INSERT INTO arrays VALUES (3, '{3,NULL}')");
is(audit("iblt_audit($peer, '{arrays}')", setup => 'SET array_nulls = off; '), 'public.arrays differs 1 1 0 0', 'array_nulls = off');
is($here->safe_psql('postgres', "SET array_nulls = off; BEGIN; SELECT action, status FROM iblt_repair('arrays', $peer, 'pull', apply => true); SELECT v FROM arrays WHERE id = 3; ROLLBACK"),
	"delete|applied\ninsert|applied\n{3,NULL}", 'in a repair');
is($here->safe_psql('postgres', "SET array_nulls = off; SELECT count(*) FROM iblt_repair('arrays', ${\ literal($there->connstr('postgres') . ' options=-carray_nulls=off')}, 'push', apply => true)"), '2', 'and there');

done_testing();
