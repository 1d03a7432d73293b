# Cases at the edge of iblt_repair, in which it could do damage.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IbltTest qw(server sides both literal failure);

my ($here, $there) = (server('here'), server('there'));
sides($here, $there);
both('CREATE EXTENSION iblt');
$here->safe_psql('postgres', 'CREATE EXTENSION dblink');
my $peer = literal($there->connstr('postgres'));

# "action key status", a line each
sub repair
{
	my ($table, $options) = @_;
	my $out = $here->safe_psql('postgres', "SELECT concat_ws(' ', action, key, status) FROM iblt_repair('$table', $peer, $options)");
	return join "\n", sort split /\n/, $out;
}

sub rows { my ($node, $table) = @_; return $node->safe_psql('postgres', "SELECT string_agg(t::text, ' ' ORDER BY t) FROM $table AS t") }

# --- conditions -------------------------------------------------------------------------

# Row 3 has changed, and by its contents the condition leaves it out there.
foreach my $type ('int', 'text')
{
	both("CREATE TABLE slice_$type (id $type PRIMARY KEY, v int); INSERT INTO slice_$type SELECT g, 20 FROM generate_series(1, 6) g");
	my $table = "slice_$type";
	my $q = $type eq 'text' ? '"' : '';
	$there->safe_psql('postgres', "UPDATE $table SET v = 5 WHERE id = '3'; DELETE FROM $table WHERE id = '4'; UPDATE $table SET v = 30 WHERE id = '5'");
	$here->safe_psql('postgres', "UPDATE $table SET v = 5 WHERE id = '6'");
	my $changed = "delete {\"id\": ${q}3${q}} skipped\ninsert {\"id\": ${q}6${q}} skipped";
	is(repair($table, "direction => 'pull', condition => 'v > 10'"), join("\n", sort split(/\n/, $changed), "delete {\"id\": ${q}4${q}} preview", "update {\"id\": ${q}5${q}} preview"),
		"$type key: rows that the condition leaves out on one side are shown as skipped");
	is(repair($table, "direction => 'pull', condition => 'v > 10', apply => true"), join("\n", sort split(/\n/, $changed), "delete {\"id\": ${q}4${q}} applied", "update {\"id\": ${q}5${q}} applied"), 'and so they are');
	is(rows($here, $table), '(1,20) (2,20) (3,20) (5,30) (6,5)', 'a row that the source has was not deleted');
	is(repair($table, "direction => 'push', condition => 'v > 10', apply => true"), join("\n", sort "insert {\"id\": ${q}3${q}} skipped", "delete {\"id\": ${q}6${q}} skipped"), 'nor by a push');
	is(repair($table, "direction => 'pull', peer_condition => 'v > 10', apply => true"), join("\n", sort "delete {\"id\": ${q}3${q}} applied", "update {\"id\": ${q}6${q}} applied"),
		'where the source alone has a condition, its other rows are not wanted');
	is(rows($here, $table), $there->safe_psql('postgres', "SELECT string_agg(t::text, ' ' ORDER BY t) FROM $table AS t WHERE v > 10"), 'as with a row filter');
}

# --- a search_path in which operators are not PostgreSQL's own -----------------------------

both(q{CREATE TABLE parts (a int, v text) PARTITION BY LIST (a); CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE parts_0 PARTITION OF parts DEFAULT;
	INSERT INTO parts VALUES (1, 'x'), (1, 'x'), (2, 'y'), (2, 'y'), (3, NULL)});
$there->safe_psql('postgres', q{DELETE FROM parts WHERE ctid = '(0,1)'});
$here->safe_psql('postgres', q{CREATE SCHEMA evil; CREATE FUNCTION evil.never(oid, oid) RETURNS boolean LANGUAGE sql AS 'SELECT false'; CREATE FUNCTION evil.never(tid, tid) RETURNS boolean LANGUAGE sql AS 'SELECT false';
	CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.never); CREATE OPERATOR evil.= (LEFTARG = tid, RIGHTARG = tid, FUNCTION = evil.never)});
my $sql = $here->safe_psql('postgres', "SELECT sql FROM iblt_repair('parts', $peer, direction => 'pull')");
is($here->safe_psql('postgres', "BEGIN; SET search_path = evil, pg_catalog; $sql SELECT count(*) FROM public.parts; ROLLBACK"), '3', 'a preview of a partitioned table without a key means the same there');

done_testing();
