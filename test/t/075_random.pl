# Random tables of random shapes with random drift: iblt_audit's counts are those
# of a full comparison, and after iblt_repair, applied or its preview pasted into
# psql, the target has the source's rows, and has kept those that were equal.  Some repairs
# are made by plain queries, as where the peer has no iblt.
use Time::HiRes qw(time);
use IbltTest;

random_seed();
my $rounds = $ENV{IBLT_TEST_ROUNDS} || 15;

# --- what a table is made of --------------------------------------------------------

# Values as SQL.  Those of some types are equal to an index, and yet not the same.
my %values = (
	int2 => [ qw(0 1 -1 32767) ],
	int4 => [ qw(0 1 2 3 4 5 6 7 8 9 '-2147483648' 2147483647) ],
	int8 => [ qw(0 1 2 3 4 5 '-9223372036854775808' 9223372036854775807) ],
	text => [ qw('' 'a' 'b' 'A' 'c''d' 'NULL' 'null'), q{E'\\\\'}, q{E'x\\ny'}, q{'é €'}, q{'{}'}, q{':a %s $1'}, q{repeat('long ', 900)} ],
	'text COLLATE blind' => [ qw('a' 'b' 'A' 'é' 'É' '') ],
	'varchar(6)' => [ qw('a' 'b' 'abcdef'), q{'a  '}, q{''} ],
	'char(4)' => [ qw('a' 'b' 'abcd'), q{''} ],
	'"char"' => [ qw('a' 'b' '' '''') ],
	name => [ qw('a' 'b'), q{'c "d'} ],
	bool => [ qw(true false) ],
	numeric => [ qw(0 1 1.0 1.00 -1 1e30 0.000001 'NaN'), q{'-0.0'} ],
	'numeric(9,2)' => [ qw(0 1 1.5 9999999.99) ],
	float4 => [ qw('0' '-0' '0.1' '1e30' 'NaN' '-Infinity') ],
	float8 => [ qw('0' '-0' '0.1' '1e300' 'NaN' 'Infinity') ],
	date => [ q{'2026-01-02'}, q{'0044-03-15 BC'}, q{'infinity'}, q{'-infinity'}, q{'2026-01-03'} ],
	timestamptz => [ q{'2026-01-02 03:04:05.678+01'}, q{'2026-01-02 02:04:05.678+00'}, q{'infinity'}, q{'0044-03-15 BC'} ],
	timetz => [ q{'12:00+00'}, q{'13:00+01'}, q{'24:00-05'} ],
	interval => [ q{'1 day'}, q{'24:00:00'}, q{'1 mon -1 day'}, q{'-00:00:00.000001'} ],
	uuid => [ map { "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1$_'" } 0 .. 9 ],
	bytea => [ q{'\x'}, q{'\x00'}, q{'\x5c27'}, q{'\xff'} ],
	inet => [ q{'1.2.3.4'}, q{'1.2.3.4/8'}, q{'::1'} ],
	'bit(3)' => [ q{B'101'}, q{B'000'} ],
	mood => [ q{'sad'}, q{'it''s'}, q{'"ok"'} ],
	short => [ q{'x'}, q{'y'} ],
	pair => [ q{ROW(1, 'a')}, q{ROW(NULL, '')}, q{ROW(1, NULL)}, q{ROW(NULL, NULL)} ],
	'int4[]' => [ q{'{}'}, q{'{1,NULL}'}, q{'[0:1]={1,2}'}, q{'{{1},{2}}'}, q{array_remove('{1,NULL,2}'::int4[], NULL)} ],
	'text[]' => [ q{'{"NULL",NULL}'}, q{ARRAY['a,b', '"', E'\\\\']}, q{'{}'} ],
	numrange => [ q{'[1,2)'}, q{'[1.0,2)'}, q{'empty'}, q{'(,)'} ],
	jsonb => [ q{'{"a": 1.0}'}, q{'{"a": 1}'}, q{'null'}, q{'[]'} ],
	json => [ q{'{"a":1}'}, q{'{"a": 1}'}, q{'null'} ],
	point => [ q{'(0,-0)'}, q{'(0,0)'}, q{'(1,NaN)'} ],
	money => [ q{1.5::numeric::money}, q{0::numeric::money} ],
	xml => [ q{XMLPARSE(CONTENT '<a/>')}, q{XMLPARSE(CONTENT ' x ')} ],
	xid => [ q{'7'}, q{'8'} ],
	tsvector => [ q{'a:1 b'}, q{'b'} ],
	regtype => [ q{'int4'}, q{'pair'}, q{'"char"'} ],
);
my %no_key = map { $_ => 1 } qw(json point xml xid);
my @types = sort keys %values;
my @names = ('a', 'B b', 'c"', 'id', 't', 'key', 'n', 'iblt_k1', 'select', 'digest', "d'e", 'f.g', '%s');

sub shuffled { my @a = @_; for (my $i = @a; --$i > 0;) { my $j = int(rand($i + 1)); @a[ $i, $j ] = @a[ $j, $i ] } return @a }
sub quoted { my ($name) = @_; return '"' . $name =~ s/"/""/gr . '"' }

# A table: its columns, which of them are the key, and whether an index says so.
sub random_table
{
	my ($name) = @_;
	my @column_names = shuffled(@names);
	my $how = pick('primary', 'primary', 'primary', 'unique', 'none', 'none');
	my @key = $how eq 'none' ? () : map { pick(grep { !$no_key{$_} } @types) } 1 .. pick(1, 1, 1, 2, 3);
	my @all = map { { name => quoted(shift @column_names), type => $_ } } @key, map { pick(@types) } 1 .. pick(0 .. 5);
	push @all, { name => quoted(shift @column_names), type => 'int4' } unless @all;
	return { name => $name, how => $how, columns => \@all, key => [ map { $_->{name} } @all[ 0 .. $#key ] ] };
}

# Each side has columns in its own order, some that were dropped, and its own partitions.
sub create
{
	my ($table) = @_;
	my @columns = map { my $c = $_; "$c->{name} $c->{type}" . ((grep { $_ eq $c->{name} } @{ $table->{key} }) ? ' NOT NULL' : '') } @{ $table->{columns} };
	@columns = shuffled(@columns, map { "dropped$_ int" } 1 .. pick(0, 0, 2));
	my $key = join ', ', @{ $table->{key} };
	my ($by) = grep { $_->{type} =~ /^(int|text$|uuid|bool|date|mood|bytea)/ && $_->{type} !~ /\[/ } @{ $table->{columns} }[ 0 .. (@{ $table->{key} } || @{ $table->{columns} }) - 1 ];
	my $parts = $by && rand() < 0.3 ? pick(1 .. 3) : 0;
	my $sql = "CREATE TABLE $table->{name} (" . join(', ', @columns) . ')' . ($parts ? " PARTITION BY HASH ($by->{name})" : '') . ";\n";
	foreach my $n (0 .. $parts - 1)
	{
		# a leaf whose columns stand in another order
		my @leaf = shuffled(@columns);
		$sql .= "CREATE TABLE $table->{name}_$n (" . join(', ', @leaf) . "); ALTER TABLE $table->{name} ATTACH PARTITION $table->{name}_$n FOR VALUES WITH (MODULUS $parts, REMAINDER $n);\n";
	}
	$sql .= "ALTER TABLE $table->{name} DROP COLUMN $_;\n" foreach grep { s/^(dropped\d).*/$1/ } map { "$_" } @columns;
	$sql .= $table->{how} eq 'primary' ? "ALTER TABLE $table->{name} ADD PRIMARY KEY ($key);\n" : "CREATE UNIQUE INDEX ON $table->{name} ($key);\n" if $key;
	return $sql;
}

sub value { my ($column, $null) = @_; return $null && rand() < 0.25 ? 'NULL' : pick(@{ $values{ $column->{type} } }) . "::$column->{type}" =~ s/ COLLATE \w+//r }

sub is_key { my ($table, $column) = @_; return scalar grep { $_ eq $column->{name} } @{ $table->{key} } }

sub insert
{
	my ($table) = @_;
	my @columns = @{ $table->{columns} };
	return "INSERT INTO $table->{name} (" . join(', ', map { $_->{name} } @columns) . ') SELECT '
	  . join(', ', map { value($_, !is_key($table, $_)) } @columns) . ($table->{how} eq 'none' ? ' FROM generate_series(1, ' . pick(1, 1, 1, 3) . ')' : '')
	  . ' ON CONFLICT DO NOTHING';
}

# Any row will do, for both sides are compared by a full comparison.
sub drift
{
	my ($table) = @_;
	my $row = "(tableoid, ctid) IN (SELECT tableoid, ctid FROM $table->{name} ORDER BY md5(concat(" . int(rand(1e6)) . ", ctid, tableoid)) LIMIT " . pick(1, 1, 3) . ')';
	my $column = pick(@{ $table->{columns} });
	my $sql = pick("DELETE FROM $table->{name} WHERE $row", insert($table),
		"UPDATE $table->{name} SET $column->{name} = " . value($column, !is_key($table, $column)) . " WHERE $row");
	return "DO \$do\$ BEGIN $sql; EXCEPTION WHEN unique_violation THEN NULL; END \$do\$;\n";
}

# --- the truth -----------------------------------------------------------------------

my $settings = "SET datestyle = ISO; SET intervalstyle = postgres; SET timezone = UTC; SET extra_float_digits = 1; SET bytea_output = hex; SET lc_monetary = 'C'; SET xmlbinary = base64;";
my %session;

# The rows of a table: key, all columns as text, version, a line each.
sub contents
{
	my ($side, $table) = @_;
	my $text = sub { 'array_to_json(ARRAY[' . join(', ', map { "CASE num_nulls($_) WHEN 0 THEN format('%s', $_) END" } @_) . ']::text[])' };
	my @all = map { $_->{name} } @{ $table->{columns} };
	my $out = $session{$side}->run("$settings SELECT concat(" . $text->(@{ $table->{key} } ? @{ $table->{key} } : @all) . ", chr(1), " . $text->(@all)
		  . ", chr(1), tableoid, ctid, xmin) FROM $table->{name}");
	return [ map { [ split /\x01/, $_, 3 ] } split /\n/, $out ];
}

# Of a full comparison: missing extra changed, and the rows that are to be kept.
sub truth
{
	my ($here, $there) = @_;
	my (%rows, %count);
	foreach my $side ([ $here, 0 ], [ $there, 1 ])
	{
		foreach my $row (@{ $side->[0] })
		{
			$rows{ $row->[0] }{ $row->[1] } += $side->[1] ? -1 : 1;
			$count{ $row->[0] }[ $side->[1] ]++;
		}
	}
	my ($missing, $extra, $changed) = (0, 0, 0);
	foreach my $key (keys %rows)
	{
		next unless grep { $_ } values %{ $rows{$key} };
		my ($h, $t) = @{ $count{$key} };
		$h ? $t ? $changed++ : $extra++ : $missing++;
	}
	return "$missing $extra $changed";
}

sub sorted_rows { my ($rows) = @_; return join "\n", sort map { $_->[1] } @$rows }

# --- rounds --------------------------------------------------------------------------

my ($here, $there) = two_servers();
both(q{CREATE TYPE mood AS ENUM ('sad', 'it''s', '"ok"'); CREATE DOMAIN short AS varchar(3) CHECK (VALUE <> 'z'); CREATE TYPE pair AS (i int, t text);
	CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false)});
%session = (here => IbltTest::Session->new($here), there => IbltTest::Session->new($there));

# What an audit and a repair must come to, for a table that has drifted.
sub check
{
	my ($table, $text) = @_;
	my %rows = map { $_ => contents($_, $table) } qw(here there);
	my $truth = truth($rows{here}, $rows{there});
	my $scan = pick('', ' options=-cenable_seqscan=off');
	my $peer = literal($there->connstr('postgres') . $scan);
	my $setup = $scan && rand() < 0.5 ? 'SET enable_seqscan = off' : 'RESET enable_seqscan';
	$session{here}->run($setup);
	my $audit = $session{here}->run("SELECT status, missing, extra, changed FROM iblt_audit($peer, ARRAY['$table->{name}'::regclass])");
	my $expected = join('|', ($truth eq '0 0 0' ? 'equal' : 'differs'), split ' ', $truth);
	is($audit, $expected, "$text: audit") or note($session{here}{err}, $session{here}->run("SELECT * FROM iblt_audit($peer, ARRAY['$table->{name}'::regclass])"));

	my $direction = pick('pull', 'push');
	my ($source, $target) = $direction eq 'pull' ? qw(there here) : qw(here there);
	my $apply = pick('true', 'false');
	my ($sql, $error);
	# by plain queries, the peer is one without iblt; they do not take all types
	foreach my $method (pick('plain', 'sketch'), 'sketch')
	{
		$sql = $session{here}->run("SELECT sql FROM iblt_repair('$table->{name}', $peer, direction => '$direction', apply => $apply, method => '$method')");
		$error = $session{here}{err};
		$text .= ", $method";
		last unless $error =~ /cannot compare by plain queries: their text does not tell all values/;
	}
	$error =~ s/^\S+ NOTICE:  00000: the repair will delete [1-9]\d* of the \d+ rows of public\.$table->{name} \($target\)\nLOCATION.*\n//m if $sql =~ /^DELETE/m;
	if ($apply eq 'false')
	{
		$session{$target}->run("BEGIN; @{[ before(19, 'SET standard_conforming_strings = off;') ]} SET datestyle = 'German'; SET intervalstyle = sql_standard; SET timezone = 'Asia/Kolkata'; SET bytea_output = escape;\n$sql\nCOMMIT;
			RESET standard_conforming_strings");
		$error .= $session{$target}{err} =~ s/WARNING:.*\n(?:LINE.*\n.*\n)?(?:HINT.*\n)?(?:LOCATION.*\n)?//gr;
	}
	is($error, '', "$text: $direction, apply => $apply") or note($sql);
	my %after = map { $_ => contents($_, $table) } qw(here there);
	is(sorted_rows($after{$target}), sorted_rows($rows{$source}), "$text: the target is as the source was");
	is(join("\n", sort map { "@$_" } @{ $after{$source} }), join("\n", sort map { "@$_" } @{ $rows{$source} }), "$text: no row of the source was touched");

	# rows that are the same on both sides keep their versions
	my (%wanted, %kept);
	$wanted{ $_->[1] }++ foreach @{ $rows{$source} };
	my %had = map { ("$_->[1]\x01$_->[2]" => 1) } @{ $rows{$target} };
	my $keep = 0;
	foreach my $row (@{ $rows{$target} }) { $keep++ if $wanted{ $row->[1] } && $wanted{ $row->[1] }-- > 0 }
	is(scalar(grep { $had{"$_->[1]\x01$_->[2]"} } @{ $after{$target} }), $keep, "$text: and no row of the target that was right");
	return;
}

my $began = time();
foreach my $round (1 .. $rounds)
{
	my $table = random_table("r$round");
	$session{$_}->run(create($table)) foreach qw(here there);
	my $problem = $session{here}{err} . $session{there}{err};
	my $rows = join ";\n", map { insert($table) } 1 .. pick(0, 5, 20, 40);
	foreach my $side (qw(here there))
	{
		$session{$side}->run($rows);
		$problem .= $session{$side}{err};
	}
	foreach my $side (grep { pick(0, 1, 1) } qw(here there))
	{
		$session{$side}->run(join '', map { drift($table) } 1 .. pick(1 .. 8));
		$problem .= $session{$side}{err};
	}
	my $text = "round $round: $table->{how} (" . join(', ', map { $_->{type} . (is_key($table, $_) ? '*' : '') } @{ $table->{columns} }) . ')';
	is($problem, '', "$text: it was made") or next;
	check($table, $text);
}
note(sprintf('%.1f s for %s rounds', time() - $began, $rounds));
$_->quit foreach values %session;
done_testing();
