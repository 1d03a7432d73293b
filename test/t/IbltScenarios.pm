# IbltScenarios.pm
#	The table of scenarios.  Each is written once, and runs in every placement of IbltPlacements.pm.
#
#	scenarios(GROUP)   runs a group of the table: a test for each cell.  A cell that a placement
#	                   cannot have is skipped, and says why.
#
#	A scenario has some of these.  In SQL, %s is the relation.
#
#	name, group
#	table    the columns of its table.  The default is a key id and a text v.
#	fill     the SELECT of the rows that all sides have.  The default is 200 rows.
#	here, there    SQL that changes that side.  A third node is as this side.
#	of_there       SQL that makes the relation there, instead of table and fill
#	stale          an index there has an entry of a row that is gone, 19990, which leads to another one
#	lacks, by      SQL of which no index is told, and the side of it (there)
#	options        of the call, those of iblt_compare
#	first, user, string, itself    a statement before the call, and what the peer's connection string is
#	locked         DDL there that the calls have to wait for
#	stopped        what ends the call while it waits: cancel, timeout, lost
#	flow     a table that is replicated on from there, back to there, or in a chain (there, here, third), with drift on the
#	         followers.  What is held is in flight, and arrives once the calls wait for it (then: what a follower does
#	         before it), or not.  at: the one follower that drifts and applies nothing; passed: what the others have by then.
#	         hangs: a commit there that the followers have, and nobody can see there.  disabled: the subscriptions are.
#	         later: the rows when all of it has passed.  deviates: the node, if it is not the second one.  site: the nodes that are
#	         compared, of which others feed some
#	notes    a pattern of the notes.  kept: the rows that a run keeps, if they are told otherwise
#	standby  the peer is a standby
#	rows     what is expected: a list of "key side confirmed"
#	error    the same as a pattern
#	of       rows that some placements tell instead: a name, a form or a method => rows.  Plain queries read no row by an
#	         index, or count them besides
#	not      placements, forms or methods that cannot have it: name => why
package IbltScenarios;

use IbltPlacements;

our @ISA = qw(IbltTest);
our @EXPORT = (@IbltPlacements::EXPORT, qw(scenarios));

my $number = 0;
my $plain_table = '(id int PRIMARY KEY, v text)';
my $indexed = "SELECT g, 'row ' || g FROM generate_series(1, 20000) AS g";
my $plain_fill = "SELECT g, 'row ' || g FROM generate_series(1, 200) AS g";
my %late = (on => 'there', back => 'here');	# where a row is that has not come yet
my %early = (on => 'here', back => 'there');
my $all_rights = 'a digest takes a right to the whole table';
my $whole = 'a digest is of the columns that are tracked';
my $kept = 'a run keeps so many differences, and counts the others';
my $ends = 'DDL ends a digest';
my $unseen = qr/replication of this (?:relation|table) is not ready(?s:.*) or servers that are not compared replicate to these/;
my $unproven = 'an index that lacks rows is found by a look at the table, which digests do not take';

# The same with rows that flow in either direction.
sub in_flight
{
	my ($way, $how) = @_;
	return map { +{ group => 'flight', flow => $way, %$_, name => $_->{name} . $how } } (
		{ name => "a row in flight is no difference", drift => "UPDATE %s SET v = 'drift' WHERE id = '3'", held => "UPDATE %s SET v = 'new' WHERE id = '7'", arrives => 1, rows => ['3 both t'] },
		{ name => "rows that come late confirm nothing", drift => "UPDATE %s SET v = 'drift' WHERE id = '3'", held => "INSERT INTO %s VALUES ('1000', 'late')", options => { timeout => "'1 s'" }, rows => [ "1000 $late{$way} f", '3 both f' ] },
		# a commit that waits for a synchronous standby
		{ name => "a row that is applied before it can be seen", drift => "UPDATE %s SET v = 'drift' WHERE id = '3'", hangs => "BEGIN; INSERT INTO %s VALUES ('1000', 'early'); UPDATE %1\$s SET v = 'early' WHERE id = '7'; DELETE FROM %1\$s WHERE id = '8'; COMMIT",
			options => { timeout => "'1 s'" }, rows => [ "1000 $early{$way} f", '3 both f', '7 both f', "8 $late{$way} f" ], later => ['3 both t'] },
		{ name => "a subscription that is disabled", drift => "UPDATE %s SET v = 'drift' WHERE id = '3'", disabled => 1, rows => ['3 both f'], notes => qr/replication of this relation is not ready|differences (?:cannot|could not) be confirmed/ },
		(map { +{ name => "$_->[0] in flight", held => $_->[1], arrives => 1, options => { max_differences => 20 }, rows => [] } }
			[ 'too many changes', "UPDATE %s SET v = 'newer' WHERE id::int > 100" ], [ 'too many new rows', "INSERT INTO %s SELECT g, 'new' FROM generate_series(201, 300) AS g" ], [ 'too many deletes', 'DELETE FROM %s WHERE id::int > 100' ]),
		{ name => "others differ when those in flight have come", held => "UPDATE %s SET v = 'newer' WHERE id::int > 150", arrives => 1, then => "UPDATE %s SET v = 'other' WHERE id::int <= 50", options => { max_differences => 20 },
			error => qr/^IB003: too many differences to confirm: .*Most of them did not differ before|^IB003: .*Perhaps most of them did not differ before/s, not => { run => $kept } },
		{ name => "too many that come late", held => "UPDATE %s SET v = 'newest' WHERE id::int > 100", options => { max_differences => 20, timeout => "'1 s'" },
			error => qr/^IB003: too many differences to confirm: .*(?:rows in flight|did not see replication pass)/s, not => { run => $kept } },
		{ name => "too many over a subscription that is disabled", drift => "UPDATE %s SET v = 'drift'", disabled => 1, options => { max_differences => 20 }, error => qr/^IB003: too many differences to confirm: .*Replication of this relation is not ready/s, not => { run => $kept } },
		{ name => "too many that do differ", drift => "UPDATE %s SET v = 'drift'", options => { max_differences => 20 }, error => qr/^IB002: too many differences: .*(?:Replication had passed|$)/s, not => { run => $kept } });
}

my @scenarios = (
	{ group => 'rest', name => 'equal', rows => [] },
	{ group => 'rest', name => 'both empty', fill => 'SELECT 1 WHERE false', rows => [] },
	{ group => 'rest', name => 'empty here', here => 'DELETE FROM %s', rows => [ map { "$_ there" } 1 .. 200 ] },
	{ group => 'rest', name => 'empty there', there => 'DELETE FROM %s', rows => [ map { "$_ here" } 1 .. 200 ] },
	{ group => 'rest', name => 'missing, extra and changed', there => "DELETE FROM %s WHERE id = 3; INSERT INTO %1\$s VALUES (0, 'new'); UPDATE %1\$s SET v = NULL WHERE id = 7", rows => [ '3 here', '0 there', '7 both' ] },
	{ group => 'rest', name => 'a NULL and an empty text', there => "UPDATE %s SET v = '' WHERE id = 7", here => 'UPDATE %s SET v = NULL WHERE id = 7', rows => ['7 both'] },
	{ group => 'rest', name => 'more than a small fold', fill => "SELECT g, 'row ' || g FROM generate_series(1, 5000) AS g", there => "UPDATE %s SET v = 'other' WHERE id <= 3000; DELETE FROM %1\$s WHERE id > 4990",
		rows => [ (map { "$_ both" } 1 .. 3000), map { "$_ here" } 4991 .. 5000 ] },
	{ group => 'rest', name => 'too many', there => "UPDATE %s SET v = 'other' WHERE id <= 60", options => { max_differences => 50, recheck => 0 },
		error => qr/^IB002: too many differences: (?:about |at least |more than )?\d+ keys .*max_differences is 50/, not => { run => $kept } },
	{ group => 'rest', name => 'not one too many', there => "UPDATE %s SET v = 'other' WHERE id <= 50", options => { max_differences => 50 }, rows => [ map { "$_ both" } 1 .. 50 ] },
	{ group => 'rest', name => 'a key of two columns', table => '(b text, a int, v text, PRIMARY KEY (a, b))', fill => "SELECT 'b' || g %% 3, g, 'x' FROM generate_series(1, 90) AS g", there => "DELETE FROM %s WHERE a = 7; UPDATE %1\$s SET v = '' WHERE a = 8",
		rows => [ '7,b1 here', '8,b2 both' ] },
	{ group => 'rest', name => 'no primary key', table => '(a int, b text)', fill => "SELECT g %% 20, nullif('b' || g %% 3, 'b2') FROM generate_series(1, 60) AS g", there => "DELETE FROM %s WHERE a = 5 AND b IS NULL; INSERT INTO %1\$s VALUES (4, 'b1'), (NULL, NULL)",
		rows => [ '5,null here', '4,b1 both', 'null,null there' ], not => { digests => 'a digest needs a unique key' } },
	{ group => 'rest', name => 'several rows of a key', table => '(k int, v text)', fill => "SELECT g %% 10, 'v' || g FROM generate_series(1, 40) AS g", options => { key_columns => q('{k}') }, there => "DELETE FROM %s WHERE v = 'v11'; INSERT INTO %1\$s VALUES (2, 'v2'), (NULL, 'x')",
		rows => [ '1 both', '2 both', 'null there' ], not => { digests => 'a digest needs a unique key' } },
	{ group => 'rest', name => 'some columns', there => "UPDATE %s SET v = 'other'; DELETE FROM %1\$s WHERE id = 7", options => { columns => q('{id}') }, rows => ['7 here'], not => { digests => $whole } },
	{ group => 'rest', name => 'a column left out', there => "UPDATE %s SET v = 'other'; DELETE FROM %1\$s WHERE id = 7", options => { exclude => q('{v}') }, rows => ['7 here'], not => { digests => $whole } },
	{ group => 'rest', name => 'a condition', there => 'DELETE FROM %s WHERE id IN (7, 77)', options => { condition => q('id < 50') }, rows => ['7 here'], not => { 'elsewhere, without iblt' => 'no side checks what a condition means', 'nodes without iblt' => 'no condition that a node without iblt would have to check' } },
	{ group => 'rest', name => 'columns in another order', of_there => "CREATE TABLE %s (v text, gone int, id int PRIMARY KEY); ALTER TABLE %1\$s DROP gone; INSERT INTO %1\$s SELECT 'row ' || g, g FROM generate_series(1, 200) AS g", there => "UPDATE %s SET v = '' WHERE id = 7", rows => ['7 both'] },
	{ group => 'rest', name => 'partitions there', table => '(id int, v text, PRIMARY KEY (id))', of_there => "CREATE TABLE %s (v text, id int, PRIMARY KEY (id)) PARTITION BY HASH (id); CREATE TABLE %1\$s_0 (id int NOT NULL, gone int, v text); ALTER TABLE %1\$s_0 DROP gone; CREATE TABLE %1\$s_1 (LIKE %1\$s);
			ALTER TABLE %1\$s ATTACH PARTITION %1\$s_0 FOR VALUES WITH (MODULUS 2, REMAINDER 0); ALTER TABLE %1\$s ATTACH PARTITION %1\$s_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1); INSERT INTO %1\$s SELECT 'row ' || g, g FROM generate_series(1, 200) AS g",
		there => "UPDATE %s SET v = '' WHERE id = 7; DELETE FROM %1\$s WHERE id = 8", rows => [ '7 both', '8 here' ] },
	{ group => 'rest', name => 'names that need quotes, and many types', table => q{("K ""k" int8, l date, v text, m shop.mood[], j jsonb, n numeric, "t %%" timestamptz, w int GENERATED ALWAYS AS (length(v)) STORED, PRIMARY KEY (l, "K ""k"))},
		fill => q{("K ""k", l, v, m, j, n, "t %%") SELECT g * 1000000000::int8, '2026-01-01'::date + g %% 28, repeat('long ' || g, 1000), '{sad}', '{"a": 1}', g / 7.0, '2026-01-01 12:00+03' FROM generate_series(1, 40) AS g},
		there => q{UPDATE %s SET m = '{ok}' WHERE "K ""k" = 7000000000; UPDATE %1$s SET "t %%" = '2026-01-01 12:00+02' WHERE "K ""k" = 8000000000; UPDATE %1$s SET j = 'null' WHERE "K ""k" = 9000000000; DELETE FROM %1$s WHERE "K ""k" = 10000000000},
		rows => [ '2026-01-08,7000000000 both', '2026-01-09,8000000000 both', '2026-01-10,9000000000 both', '2026-01-11,10000000000 here' ] },
	{ group => 'rest', name => 'other types', of_there => 'CREATE TABLE %s (id bigint PRIMARY KEY, v text)', error => qr/^42804: .*column types differ: "id" is integer here and bigint/ },
	{ group => 'rest', name => 'arrays of another modifier', table => '(id int PRIMARY KEY, v numeric(10,2)[])', fill => "SELECT g, ARRAY[g] FROM generate_series(1, 200) AS g", of_there => 'CREATE TABLE %s (id int PRIMARY KEY, v numeric(12,4)[])',
		error => qr/^42804: .*column types differ: "v" is numeric\(10,2\)\[\] here and numeric\(12,4\)\[\] on the peer/ },
	{ group => 'rest', name => 'not there', of_there => 'SELECT', error => qr/^42P01: relation shop\.\w+ does not exist/, not => { digests => 'nothing is tracked' } },
	{ group => 'rest', name => 'no right there', user => 'stranger', error => qr/^42501: permission denied for (?:schema shop|table|the digest)/ },
	{ group => 'rest', name => 'rights to the columns compared', there => 'DELETE FROM %s WHERE id = 7; GRANT SELECT (id, v) ON %1$s TO reader', user => 'reader', rows => ['7 here'], not => { digests => $all_rights } },
	{ group => 'rest', name => 'no right to row versions', there => 'DELETE FROM %s WHERE id = 7; GRANT SELECT (id, v) ON %1$s TO reader', user => 'reader', options => { recheck => 1 }, error => qr/^42501: permission denied for row versions of shop/, not => { digests => $all_rights } },
	{ group => 'rest', name => 'row security there', there => 'ALTER TABLE %s ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON %1$s USING (id < 100); GRANT SELECT ON %1$s TO reader', user => 'reader',
		error => qr/^42501: .*(?:row-level security|row security)|^IB008: .*permission denied for the digest/ },
	{ group => 'rest', name => 'a wrong password', user => 'sealed password=s3cr3t', error => qr/could not connect to (?:the peer|"[^"]+")/ },
	(map { { group => 'rest', name => "a string that is none, as $_->[0]", string => $_->[1], error => qr/could not connect to (?:the peer|"[^"]+")|neither a foreign server nor/ } } [ 'an option', '%s bogus=s3cr3t' ], [ 'a quote', "%s 's3cr3t" ],
		[ 'a URI', 'postgresql://reader:s3cr3t@[nohost:1/x' ], [ 'a port', '%s port=1 password=s3cr3t' ], [ 'a word', 's3cr3t' ]),
	{ group => 'rest', name => 'a row that an index there lacks', fill => $indexed, there => 'DELETE FROM %s WHERE id = 7', lacks => "INSERT INTO %s VALUES (30000, 'hidden')", of => { plain => [ '7 here', '30000 there' ] }, error => qr/^XX002: an index of shop\.\w+ does not find rows that the table has/, not => { digests => $unproven } },
	{ group => 'rest', name => 'a row that an index here lacks', fill => $indexed, lacks => "INSERT INTO %s VALUES (30000, 'hidden')", by => 'here', of => { plain => ['30000 here'] }, error => qr/^XX002: an index of shop\.\w+ does not find rows that the table has/, not => { digests => $unproven } },
	{ group => 'rest', name => 'a second row of a unique key', fill => $indexed, lacks => "INSERT INTO %s VALUES (7, 'again')", of => { plain => ['7 both'] }, error => qr/^XX002: an index of shop\.\w+ does not find rows that the table has/, not => { digests => $unproven } },
	{ group => 'rest', name => 'a second row of a unique key on both sides', fill => $indexed, here => "UPDATE %s SET v = 'a' WHERE id = 7", lacks => 'INSERT INTO %s VALUES (7, current_database())', by => 'both', of => { plain => ['7 both'] },
		error => qr/^XX002: an index of shop\.\w+ does not find rows that the table has/, not => { digests => $unproven } },
	{ group => 'rest', name => 'an entry of an index that leads to another row', fill => $indexed, here => "INSERT INTO %s VALUES (-1, repeat('v', 40))", stale => 1, rows => ['19990 here'], not => { digests => $unproven } },
	(map { my ($option, $value) = @$_; { group => 'rest', name => "$option => $value", options => { $option => $value }, error => qr/^22(?:023|004): $option must (?:not )?be/, not => $option eq 'live' ? { run => 'a run has no such option' } : {} } }
		[ 'max_differences', 0 ], [ 'max_differences', 'NULL' ], [ 'recheck', -1 ], [ 'timeout', "'-1 s'" ], [ 'timeout', "'1 year 1 day'" ], [ 'timeout', 'NULL' ], [ 'method', "'other'" ], [ 'method', 'NULL' ], [ 'live', "'other'" ], [ 'live', 'NULL' ]),
	{ group => 'rest', name => 'the other side is this one', itself => 1, error => qr/^22023: (?:a relation cannot be compared with itself|the peer is this database itself|.*are the same database|node "node 2" is named twice)/ },
	{ group => 'rest', name => 'a server that is not there', string => 'host=/nonexistent port=1 password=s3cr3t', error => qr/^08001: could not connect to/ },
	{ group => 'rest', name => 'one snapshot', first => 'BEGIN ISOLATION LEVEL REPEATABLE READ', options => { recheck => 1 }, there => 'DELETE FROM %s WHERE id = 7', error => qr/^25001: (?:.*cannot recheck differences in a REPEATABLE READ|iblt_audit_run cannot run inside)/,
		of => { map { ($_ => ['7 here t']) } 'elsewhere', 'elsewhere, without iblt', 'nodes elsewhere', 'audit elsewhere', 'audit elsewhere, without iblt' } },

	in_flight('on', ''), in_flight('back', ' from here'),
	{ group => 'flight', name => 'held up in the middle of a chain', flow => 'chain', at => 'here', held => "INSERT INTO %s VALUES (1000, 'late')", options => { timeout => "'1 s'" }, rows => ['1000 there f'], later => [] },
	{ group => 'flight', name => 'held up at the end of a chain', flow => 'chain', at => 'third', deviates => 'node 3', drift => "UPDATE %s SET v = 'drift' WHERE id = '3'", held => "INSERT INTO %s VALUES (1000, 'late')", passed => 'SELECT count(*) = 1 FROM %s WHERE id = 1000',
		options => { timeout => "'1 s'" }, rows => [ '1000 here f', '3 both f' ], later => ['3 both t'] },
	# nobody can wait for a server that is not compared, and an audit of two nodes counts ties
	{ group => 'flight', name => 'a chain without its middle', flow => 'chain', at => 'third', site => [qw(there third)], drift => "UPDATE %s SET v = 'drift' WHERE id = '3'", held => "INSERT INTO %s VALUES (1000, 'late')", passed => 'SELECT count(*) = 1 FROM %s WHERE id = 1000',
		rows => [ '1000 here f', '3 both f' ], of => { audit_nodes => [ '1000 both f', '3 both f' ] }, notes => $unseen },
	{ group => 'flight', name => 'a star without its hub', flow => 'on', at => 'third', site => [qw(here third)], held => "INSERT INTO %s VALUES (1000, 'late')", passed => 'SELECT count(*) = 1 FROM %s WHERE id = 1000', rows => ['1000 here f'], of => { audit_nodes => ['1000 both f'] }, notes => $unseen },
	{ group => 'flight', name => 'a chain without its beginning', flow => 'chain', at => 'third', site => [qw(here third)], drift => "UPDATE %s SET v = 'drift' WHERE id = '3'", rows => ['3 both t'] },
	{ group => 'flight', name => 'altered meanwhile, to the same', options => { recheck => 0 }, there => 'DELETE FROM %s WHERE id = 7', locked => 'ALTER TABLE %s ADD x int; ALTER TABLE %1$s DROP x', rows => ['7 here'] },
	{ group => 'flight', name => 'altered meanwhile, to another type', locked => 'ALTER TABLE %s ALTER id TYPE bigint', error => qr/^42804: .*column types differ/, not => { digests => $ends } },
	{ group => 'flight', name => 'altered meanwhile, to another type, cast', options => { recheck => 0, cast_types => 'true' }, there => 'DELETE FROM %s WHERE id = 7', locked => 'ALTER TABLE %s ALTER id TYPE bigint', rows => ['7 here'], not => { digests => $ends, plain => 'plain queries do not cast' } },
	{ group => 'flight', name => 'a column less meanwhile', options => { recheck => 0, extra_columns => "'ignore'" }, there => "UPDATE %s SET v = 'other'; DELETE FROM %1\$s WHERE id = 7", locked => 'ALTER TABLE %s DROP v', rows => ['7 here'], not => { digests => $ends } },
	{ group => 'flight', name => 'a column more meanwhile', options => { extra_columns => "'error'" }, locked => 'ALTER TABLE %s ADD x int DEFAULT 5', error => qr/^42703: columns exist on one side only/, not => { digests => $ends } },
	{ group => 'flight', name => 'no key any more meanwhile', options => { recheck => 0 }, locked => 'ALTER TABLE %s DROP CONSTRAINT %2$s_pkey, ALTER id DROP NOT NULL; INSERT INTO %1$s VALUES (NULL, NULL)', rows => ['null there'], not => { digests => $ends } },
	{ group => 'flight', name => 'another table has the name meanwhile', options => { recheck => 0 }, locked => 'ALTER TABLE %s RENAME TO %2$s_gone; CREATE TABLE %1$s (LIKE %1$s_gone INCLUDING ALL); INSERT INTO %1$s SELECT * FROM %1$s_gone WHERE id <= 198', rows => [ '199 here', '200 here' ], not => { digests => 'a digest is found by its table' } },
	{ group => 'flight', name => 'dropped meanwhile', locked => 'DROP TABLE %s', error => qr/^42P01: .*does not exist/, not => { digests => 'a digest is found by its table' } },
	{ group => 'flight', name => 'cancelled while the peer works', stopped => 'cancel', error => qr/^57014: canceling statement due to user request/ },
	{ group => 'flight', name => 'statement_timeout while the peer works', stopped => 'timeout', error => qr/^57014: canceling statement due to statement timeout/ },
	{ group => 'flight', name => 'a connection that is lost', stopped => 'lost', of => { run => [] }, error => qr/^(?:57P01|08\w+|IB00\d): / },
	{ group => 'flight', name => 'a standby as the peer', there => 'DELETE FROM %s WHERE id = 7', standby => 1, rows => ['7 here'], not => { digests => 'a digest is written where it is read' } },
);

# --- set-up ---------------------------------------------------------------------------------

sub make
{
	my ($s) = @_;
	my $name = 't' . ++$number;
	my $relation = "shop.$name";
	my $text = sub { no warnings 'redundant'; return sprintf($_[0], $relation, $name) };
	my $made = 'CREATE TABLE %s ' . ($s->{table} // $plain_table) . '; INSERT INTO %1$s ' . ($s->{fill} // $plain_fill);
	on('here', $text->($made));
	on('there', $text->($s->{of_there} // $made));
	return ($relation, $name, $text);
}

sub track
{
	my ($relation) = @_;
	sql('there', "CALL iblt_track('$relation')");
	sql('here', "CALL iblt_track('$relation', peer => ${\ literal(string('there'))})");
	return;
}

# The table of a scenario.  All that only read it share one.
my $shared;

sub made
{
	my ($s) = @_;
	my $own = grep { $s->{$_} } qw(table fill of_there here there lacks stale locked);
	return $shared if !$own && $shared;
	my @made = make($s);
	track($made[0]) if !$s->{not}{digests} && !$s->{of_there};
	$shared = \@made if !$own;
	return \@made;
}

# An index is not told of a row.
sub unnoticed_by
{
	my ($role, $relation, @sql) = @_;
	my $set = "UPDATE pg_index SET indisready = %s, indisvalid = %1\$s WHERE indexrelid = '${relation}_pkey'::regclass";
	on($role, $_) foreach sprintf($set, 'false'), @sql, sprintf($set, 'true');
	return;
}

# An entry of an index leads to the row that has got the place of the one that is gone.
sub stale_entry
{
	my ($relation) = @_;
	unnoticed_by('there', $relation, "DELETE FROM $relation WHERE id = 19990", "VACUUM $relation", "UPDATE pg_class SET relhasindex = true WHERE oid = '$relation'::regclass");
	on('there', "INSERT INTO $relation VALUES (-1, repeat('v', 40))");
	is(sql($_, "SET enable_seqscan = off; SET enable_indexonlyscan = off; SELECT id FROM $relation WHERE id = 19990"), '-1', "$_ has such an entry") foreach qw(there far);
	return;
}

# --- cells ----------------------------------------------------------------------------------

sub check
{
	my ($s, $p, $got) = @_;
	my $text = "$s->{name}, $p->{name}";
	my $right;
	my ($of) = grep { $_ } @{ $s->{of} // {} }{ $p->{name}, $p->{form}, $p->{method} // '' };
	if ($of)
	{
		# a run looks up a sample of the rows first, which now and then has the one that the index lacks
		my $sampled = $s->{lacks} && $p->{form} eq 'run' && $got->{error} ne '';
		$s = { %$s, error => $sampled ? $s->{error} : undef, rows => $of };
	}
	if ($s->{error}) { $right = like($got->{error}, $s->{error}, $text) }
	elsif ($got->{error} ne '') { $right = is("error $got->{error}", 'no error', $text) }
	else
	{
		my $expected = expected($p, @{ $p->{form} eq 'run' && $s->{kept} || $s->{rows} });
		$right = length($expected) > 500 ? ok($got->{rows} eq $expected, $text) : is($got->{rows}, $expected, $text);
		$right &&= like($got->{notes}, $s->{notes}, "$text: its notes") if $s->{notes};
		$right &&= is($got->{counts}, expected({ form => 'audit' }, @{ $s->{rows} }), "$text: its counts") if $got->{counts};
	}
	note("rows $got->{rows}; notes $got->{notes}\n$got->{raw}") if !$right;
	unlike($got->{raw}, qr/s3cr3t/, "$text: no password") if $got->{raw} =~ /s3cr3t/;
	return;
}

# How rows flow: which database feeds which one.  A third element says that what is fed is passed on.
my %pairs = (on => [ [qw(there here)], [qw(there third)], [qw(far near)] ], back => [ [qw(here there)], [qw(near far)] ], chain => [ [qw(there here)], [qw(here third passes)] ]);

sub poll { my ($db, $query) = @_; return server_of($db)->poll_query_until($db, $query) || die "not so in $db: $query" }

sub caught_up
{
	my ($way) = @_;
	foreach my $pair (@{ $pairs{$way} })
	{
		my $server = server_of($pair->[0]);
		# what a subscription has applied there may not be written yet, and is to be passed on
		$server->wait_for_catchup("${way}_$pair->[0]_$pair->[1]", 'replay', $server->lsn('insert'));
	}
	return;
}

# The table of all scenarios that flow in this way.  Its key is a number or a text.
sub flow
{
	my ($way) = @_;
	my @made = make($way eq 'back' ? { table => '(id text PRIMARY KEY, v text)' } : {});
	my $relation = $made[0];
	track($relation) if $way ne 'chain';
	sql($_, "CREATE PUBLICATION flow_$way FOR TABLE $relation") foreach keys %{ { map { ($_->[0] => 1) } @{ $pairs{$way} } } };
	foreach my $pair (@{ $pairs{$way} })
	{
		my ($source, $follower) = @$pair;
		# a slot that is made before does not wait for the transaction that makes the subscription, here on the same server
		sql($source, "SELECT pg_create_logical_replication_slot('${way}_${source}_$follower', 'pgoutput')");
		sql($follower, "CREATE SUBSCRIPTION ${way}_${source}_$follower CONNECTION ${\ literal(string($source))} PUBLICATION flow_$way WITH (create_slot = false, copy_data = false)");
		poll($follower, "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel");
	}
	return \@made;
}

# Waits until these calls have ended, or wait for a lock on the other server.
sub wait_there
{
	my ($since, @sessions) = @_;
	foreach (1 .. 1000)
	{
		my $waiting = $IbltTest::there->safe_psql('postgres', "SELECT count(DISTINCT coalesce(leader_pid, pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query_start > '$since'");
		return if $waiting >= grep { !$_->ended } @sessions;
		select undef, undef, undef, 0.02;
	}
	die 'the calls neither wait for the lock nor end';
}

# The table is locked there, while the calls are made.
sub with_lock
{
	my ($s, $text, $call, @cells) = @_;
	my @holders = map { session($_, 'holds') } qw(there far);
	my $stopped = $s->{stopped} // '';
	my $since = $IbltTest::there->safe_psql('postgres', 'SELECT clock_timestamp()');
	$_->run('BEGIN; ' . $text->($s->{locked} // 'LOCK TABLE %s')) foreach @holders;
	my @sessions = map { $call->($_) } @cells;
	wait_there($since, @sessions);
	$IbltTest::here->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM unnest(ARRAY[" . join(', ', map { $_->{pid} } @sessions) . ']) AS pid') if $stopped eq 'cancel';
	$IbltTest::there->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'iblt%' AND wait_event_type = 'Lock'") if $stopped eq 'lost';
	# a call that is stopped ends before the lock does
	my @got = $stopped =~ /cancel|timeout/ ? map { answer($_) } @cells : ();
	nothing_left($s->{name}) if @got;
	$_->run('COMMIT') foreach @holders;
	check($s, $_, shift(@got) // answer($_)) foreach @cells;
	return;
}

# What the other side writes cannot be applied here until the calls wait for it, or not at all.  Or it is applied before it
# can be seen there.
sub with_replication
{
	my ($s, $text, $call, @cells) = @_;
	my @pairs = @{ $pairs{ $s->{flow} } };
	my @followers = map { $_->[1] } @pairs;
	my %sources = map { ($_->[0] => 1) } grep { !$_->[2] } @pairs;
	my @drifting = $s->{at} ? $s->{at} : @followers;
	my $server = server_of($pairs[0][0]);
	if ($s->{drift}) { sql($_, $text->($s->{drift})) foreach @drifting }
	if ($s->{disabled}) { sql($_->[1], "ALTER SUBSCRIPTION $s->{flow}_$_->[0]_$_->[1] DISABLE") foreach @pairs }
	my @holders = $s->{hangs} ? () : map { session($_, 'holds') } @drifting;
	$_->run($text->('BEGIN; LOCK TABLE %s IN SHARE MODE')) foreach @holders;
	if ($s->{held}) { sql($_, $text->($s->{held})) foreach keys %sources }
	poll('here', $text->($s->{passed})) if $s->{passed};
	my @hanging;
	if ($s->{hangs})
	{
		synchronous($server, 'nosuch');
		@hanging = map { session($_, 'holds')->start($text->($s->{hangs})) } keys %sources;
		poll($_, $text->('SELECT count(*) = 1 FROM %s WHERE id = \'1000\'')) foreach @followers;
	}
	my @sessions = map { $call->($_) } @cells;
	if ($s->{arrives})
	{
		foreach my $i (0 .. $#cells)
		{
			my $session = $sessions[$i];
			# a run tells nothing of it
			if ($cells[$i]{form} eq 'run') { $IbltTest::here->poll_query_until('postgres', "SELECT wait_event IS NOT DISTINCT FROM 'PgSleep' FROM pg_stat_activity WHERE pid = $session->{pid}") }
			else { $session->{psql}->pump until $session->ended || $session->{err} =~ /waiting for replication/ }
		}
		$_->run(($s->{then} ? $text->($s->{then}) . '; ' : '') . 'COMMIT') foreach @holders;
	}
	check($s, $_, answer($_)) foreach @cells;
	$_->run('COMMIT') foreach @holders;
	synchronous($server, '') if @hanging;
	$_->done foreach @hanging;
	if ($s->{disabled}) { sql($_->[1], "ALTER SUBSCRIPTION $s->{flow}_$_->[0]_$_->[1] ENABLE") foreach @pairs }
	caught_up($s->{flow});
	if ($s->{later})
	{
		delete local $s->{options}{timeout};    # a second would do on a quiet machine
		$call->($_) foreach @cells;
		check({ name => "$s->{name}, later", rows => $s->{later} }, $_, answer($_)) foreach @cells;
	}
	sql($_, $text->("DELETE FROM %s WHERE id::int > 200; INSERT INTO %1\$s SELECT g, '' FROM generate_series(1, 200) AS g ON CONFLICT DO NOTHING; UPDATE %1\$s SET v = 'row ' || id WHERE v <> 'row ' || id")) foreach keys %sources;
	caught_up($s->{flow});
	sql($_, $text->("UPDATE %s SET v = 'row ' || id WHERE v <> 'row ' || id")) foreach @followers;
	return;
}

# Starts the call of a cell, of which several may be made at a time.
sub start
{
	my ($s, $p, $relation, $standby) = @_;
	my %how = (together => $s->{group} eq 'flight', deviates => $s->{deviates}, first => $s->{first}, site => $s->{site});
	$how{there} = sub { "$_[0] user=$s->{user}" } if $s->{user};
	$how{there} = sub { sprintf "$s->{string}", $_[0] } if $s->{string};
	$how{there} = sub { $standby->connstr($_[1]) } if $s->{standby};
	$how{there} = sub { string($p->{site}[0]) } if $s->{itself};
	$how{first} = "SET statement_timeout = '300 ms'" if ($s->{stopped} // '') eq 'timeout';
	# or a run would itself wait for a standby
	$how{first} = 'SET synchronous_commit = local' if $s->{hangs};
	my %options = ($s->{group} eq 'rest' || $s->{standby} ? (recheck => 0) : (), $s->{flow} ? (timeout => "'20 s'", progress => 'true') : (), %{ $s->{options} // {} });
	return call($p, $relation, \%options, %how);
}

sub why_not_here
{
	my ($s, $p) = @_;
	return 'others are compared, all of them elsewhere' if $s->{site} && $p->{name} !~ /^(?:nodes elsewhere|audit of nodes)$/;
	return $s->{not}{ $p->{name} } // $s->{not}{ $p->{form} } // $s->{not}{ $p->{method} // '' } // why_not($p, $s->{options}) // ($p->{live} && $s->{of_there} ? 'digests of such tables are of another kind' : undef)
	  // (($s->{flow} // '') eq 'chain' && !grep({ $_ eq 'third' } @{ $p->{site} }) ? 'a chain is of three sides' : undef)
	  // (($s->{flow} // '') eq 'back' && grep({ $_ eq 'third' } @{ $p->{site} }) ? 'the third node gets no rows from the first' : undef);
}

sub scenarios
{
	my ($group) = @_;
	my @servers = servers_of_placements();
	my ($standby, %flow);
	$_->safe_psql('postgres', "CREATE ROLE stranger LOGIN; CREATE ROLE reader LOGIN; CREATE ROLE sealed LOGIN PASSWORD 'right'") foreach @servers;
	on('both', q{GRANT USAGE ON SCHEMA shop TO reader; CREATE TYPE shop.mood AS ENUM ('sad', 'ok')});
	hba($servers[1], 'local all sealed scram-sha-256');
	my $only = $ENV{IBLT_TEST_SCENARIO} ? qr/$ENV{IBLT_TEST_SCENARIO}/ : qr/./;
	foreach my $s (grep { $_->{group} eq $group && $_->{name} =~ $only } @scenarios)
	{
		my ($relation, $name, $text) = @{ $s->{flow} ? $flow{ $s->{flow} } //= flow($s->{flow}) : made($s) };
		if (!$s->{flow}) { on($_, $text->($s->{$_})) foreach grep { $s->{$_} } qw(here there) }
		if ($s->{lacks})
		{
			on('both', $_) foreach "VACUUM $relation", "ANALYZE $relation";
			unnoticed_by($s->{by} // 'there', $relation, $text->($s->{lacks}));
		}
		stale_entry($relation) if $s->{stale};
		if ($s->{standby})
		{
			$standby //= standby($servers[1], 'standby', 'hot_standby_feedback = on');
			replayed($servers[1], $standby);
		}
		my @cells;
		foreach my $p (placements())
		{
			my $why = why_not_here($s, $p);
			push @cells, $p if !$why;
		  SKIP:
			{
				skip("$s->{name}, $p->{name}: $why", 1) if $why;
			}
		}
		my $call = sub { start($s, $_[0], $relation, $standby) };
		if ($s->{flow}) { with_replication($s, $text, $call, @cells) }
		elsif ($s->{locked} || $s->{stopped}) { with_lock($s, $text, $call, @cells) }
		else
		{
			foreach my $p (@cells)
			{
				$call->($p);
				check($s, $p, answer($p));
				$p->{session}->run('ROLLBACK') if $s->{first};
			}
		}
		if ($s->{stopped} || $s->{hangs}) { $_->{session}->run('RESET ALL') foreach @cells }
	}
	nothing_left('at the end', @servers);
	unlike(slurp_file($_->logfile), qr/s3cr3t/, 'no password in the log') foreach @servers;
	return;
}

1;
