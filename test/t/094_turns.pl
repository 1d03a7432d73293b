# How many questions and bytes it takes, as a proxy between the servers counts them.
# Seeds are fixed, since how many cells it takes depends on chance.
use strict;
use warnings;

use IbltCompare;
use IbltProxy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $here = server('here');
my $there = server('there');
sides($here, $there);
$here->safe_psql('postgres', 'CREATE EXTENSION dblink');
both('CREATE EXTENSION iblt; CREATE TABLE equal (id int PRIMARY KEY, a text, b timestamptz, c numeric);
	INSERT INTO equal SELECT g, md5(g::text), timestamptz \'2026-01-01 00:00+00\' + g * interval \'1 s\', g / 7.0 FROM generate_series(1, 1000) g;
	CREATE UNLOGGED TABLE large AS SELECT g::bigint AS id, 7 * g AS v FROM generate_series(1, 1000000) g; ALTER TABLE large ADD PRIMARY KEY (id)');
$there->safe_psql('postgres', 'CREATE UNLOGGED TABLE hundred AS SELECT id, CASE id % 10000 WHEN 7 THEN 0 ELSE v END AS v FROM large; ALTER TABLE hundred ADD PRIMARY KEY (id);
	CREATE UNLOGGED TABLE thousands AS SELECT id, CASE id % 100 WHEN 7 THEN 0 ELSE v END AS v FROM large; ALTER TABLE thousands ADD PRIMARY KEY (id)');

my $proxy = IbltProxy->new($there);

# What a comparison takes: its rows, all bytes with those of connecting, bytes of sketches, questions.
sub taken
{
	my ($arguments) = @_;
	my $count = $here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare($arguments)" =~ s/PEER/literal($proxy->connstr)/er);
	my ($sent, $received, $sketches, undef, $questions) = $proxy->counted;
	note("$arguments: $sent bytes sent, $received received, $sketches of sketches, $questions questions");
	return ($count, $sent + $received, $sketches, $questions);
}

my ($count, $bytes, $sketches, $questions) = taken(q('equal', PEER));
is("$count $questions", '0 2', 'an equal table takes two questions');
cmp_ok($bytes, '<=', 4096, 'and at most 4 KB, with those of connecting');

foreach my $seed (1 .. 3)
{
	($count, $bytes, $sketches, $questions) = taken("'large', PEER, 'hundred', seed => $seed");
	is("$count $questions", '100 4', "100 of a million rows take four questions (seed $seed)");
	cmp_ok($sketches, '<=', 8192, 'and at most 8 KB of sketches');
	($count, $bytes, $sketches, $questions) = taken("'large', PEER, 'thousands', seed => $seed");
	is("$count $questions", '10000 5', "10,000 of a million rows take one more (seed $seed)");
	cmp_ok($sketches, '<=', 450000, 'and at most 450 KB of sketches');
}

# --- rows on one side only, and keys that are hashes ------------------------------------------

both('CREATE TABLE texts AS SELECT md5(g::text) AS id, g AS v FROM generate_series(1, 20000) g; ALTER TABLE texts ADD PRIMARY KEY (id)');
$there->safe_psql('postgres', 'DELETE FROM texts WHERE v % 4 = 0; UPDATE texts SET v = -v WHERE v % 100 = 1; INSERT INTO texts SELECT \'new \' || g, g FROM generate_series(1, 300) g');
my $truth = truth('texts', 't.id');
foreach my $options ('seed => 1', "seed => 2, condition => 'v <= 7000'", "seed => 3, condition => 'v <= 700'", "seed => 4, condition => 'v <= 7'")
{
	my $where = $options =~ /'(.*)'/ ? $1 : 'true';
	is(compare(q('texts'), $options), truth('texts', 't.id', where => $where), "the differences of a full comparison ($options)");
}
($count, $bytes, $sketches, $questions) = taken(q('texts', PEER, seed => 5));
is("$count $questions", lines($truth) . ' 5', 'thousands on one side only take five questions');
cmp_ok($sketches, '<=', 46 * lines($truth), 'and at most 46 bytes of sketches each');

# A peer that is empty has a sketch without cells.
$there->safe_psql('postgres', 'TRUNCATE texts');
is(lines(compare(q('texts'), 'seed => 6')), 20000, 'all rows, if the peer has none');
is(lines(compare(q('texts'), 'seed => 7', node => $there, peer => conninfo($here))), 20000, 'and the other way round') if $there->safe_psql('postgres', 'CREATE EXTENSION dblink; SELECT 1');

$proxy->stop;
$_->stop foreach ($here, $there);
done_testing();
