# Tables without columns: their rows are all the same, and there are more of them or
# fewer.  And tables whose columns are all generated, whose rows need no values.
use IbltCompare qw(compare);
use IbltRepair;

my ($here, $there) = repair_servers();
my $peer = conninfo($there);

sub fill
{
	my ($node, $number) = @_;
	$node->safe_psql('postgres', "TRUNCATE bare; INSERT INTO bare SELECT FROM generate_series(1, $number)");
	return;
}

sub rows_of { my ($node, $table) = @_; return $node->safe_psql('postgres', "SELECT count(*) FROM $table") }

sub audited
{
	return join ', ', split /\n/, $here->safe_psql('postgres', "SELECT concat_ws(' ', relation, status, rows_here, rows_there, missing, extra, changed)
		FROM iblt_audit($peer, tables => '{bare}')");
}

both('CREATE TABLE bare ()');
is(compare("'bare'"), '', 'no rows on either side: equal');
is(audited(), 'public.bare equal 0 0 0 0 0', 'an audit says so');
foreach my $case ([ 1, 1, '' ], [ 7, 7, '' ], [ 1, 0, '{} here 1 0', '0 1 0' ], [ 0, 3, '{} there 0 3', '1 0 0' ], [ 5, 4, '{} both 5 4', '0 0 1' ],
	[ 2, 30000, '{} both 2 30000', '0 0 1' ], [ 70000, 3, '{} both 70000 3', '0 0 1' ])
{
	my ($mine, $theirs, $differences, $counts) = @$case;
	fill($here, $mine);
	fill($there, $theirs);
	is(compare("'bare'"), $differences, "$mine and $theirs rows");
	is(compare("'bare'", 'rows => true, recheck => 1'), $differences, 'looked at again, and with the rows');
	is(audited(), $differences ? "public.bare differs $mine $theirs $counts" : "public.bare equal $mine $theirs 0 0 0", 'in an audit');
}
is($here->safe_psql('postgres', "SELECT key, here, there, confirmed FROM iblt_compare('bare', $peer, rows => true, recheck => 1)"), '{}|{}|{}|t', 'the row that they share is {}');
is(compare("'bare'", "condition => 'false', peer_condition => 'false'"), '', 'a condition that is true of no row');
is(compare("'bare'", "condition => 'false', peer_condition => 'true'"), '{} there 0 3', 'a condition on one side');

foreach my $case ([ 4, 9 ], [ 9, 4 ], [ 4, 5 ], [ 5, 4 ], [ 0, 1 ], [ 1, 0 ])
{
	foreach my $direction (qw(pull push))
	{
		fill($here, $$case[0]);
		fill($there, $$case[1]);
		like(repair('bare', $direction, 'apply => true'), qr/^(insert|delete) \{\} applied$/, "$direction, @$case");
		is(join(' ', map { rows_of($_, 'bare') } ($here, $there)), join(' ', ($$case[ $direction eq 'pull' ]) x 2), 'as many rows on both sides');
	}
}
fill($_, 4) foreach ($here, $there);
is(repair('bare', 'pull', 'apply => true'), '', 'nothing to repair');

both('CREATE TABLE made (v int GENERATED ALWAYS AS (7) STORED); CREATE TABLE made_key (v int GENERATED ALWAYS AS (7) STORED PRIMARY KEY)');
$there->safe_psql('postgres', 'INSERT INTO made_key DEFAULT VALUES; INSERT INTO made DEFAULT VALUES; INSERT INTO made DEFAULT VALUES; INSERT INTO made DEFAULT VALUES');
like(repair('made_key', 'pull', 'apply => true'), qr/^insert \{"v": 7\} applied$/, 'a row whose key is generated');
same('made_key', 'is inserted');
like(repair('made', 'pull', 'apply => true'), qr/^insert \{"v": 7\} applied$/, 'rows of generated columns only');
same('made', 'are inserted');

# and what is not such a table
my $refused = qr/42703: the relations have no columns to compare/;
both('CREATE TABLE filled (a int, b text); INSERT INTO filled VALUES (1, \'x\')');
like(failure("SELECT * FROM iblt_compare('filled', $peer, exclude => '{a,b}')"), $refused, 'columns that are all excluded');
foreach my $side ($here, $there)
{
	my $other = $side == $here ? $there : $here;
	$side->safe_psql('postgres', 'ALTER TABLE bare ADD c int');
	like(failure("SELECT * FROM iblt_compare('bare', $peer, extra_columns => 'ignore')"), $refused, 'no columns on ' . $other->name . ' only');
	like(failure("SELECT * FROM iblt_compare('bare', $peer, exclude => '{c}')"), $refused, 'also if the others are excluded');
	unlike($here->safe_psql('postgres', "SELECT status FROM iblt_audit($peer, tables => '{bare}')"), qr/equal|differs/, 'an audit cannot tell');
	$side->safe_psql('postgres', 'ALTER TABLE bare DROP c');
}
is(compare("'bare'"), '', 'columns that were dropped are none');

nothing_open('at the end');

done_testing();
