# iblt_compare_nodes: random tables on 2 to 8 nodes of two servers, with what Perl says of the same rows; more
# differences than a small fold tells; and what a node may do to the others: be gone, lack the
# table, have another one, fail in the middle, or have a damaged index.
#
# IbltScenarios.pm has rows in flight.
#
# IBLT_TEST_ROUNDS   the number of random rounds (14, two for each kind of key, one of them by both methods)
use IbltCompare qw(batch_size);
use IbltTest;

random_seed();
my $rounds = $ENV{IBLT_TEST_ROUNDS} || 14;

# The nodes n1 to n8 are databases of two servers, and "here" is the one that conducts.
my @servers = (ready('one'), ready('two'));
my %nodes = ('here' => [ $servers[0], 'postgres' ], map { ("n$_" => [ $servers[ $_ % 2 ], "n$_" ]) } 1 .. 8);
my @names = sort keys %nodes;
sides($servers[0], $servers[0]);

sub sql { my ($name, $sql) = @_; my ($server, $db) = @{ $nodes{$name} }; return $server->safe_psql($db, $sql) }
sub all { my ($sql) = @_; sql($_, $sql) foreach @names; return }

$nodes{$_}[0]->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE postgres") foreach grep { $_ ne 'here' } @names;
all('CREATE SCHEMA shop');
sql('here', 'CREATE EXTENSION postgres_fdw');
foreach my $name (grep { $_ ne 'here' } @names)
{
	my ($server, $db) = @{ $nodes{$name} };
	sql('here', sprintf("CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %s, port '%s', dbname '$db');
		CREATE USER MAPPING FOR CURRENT_USER SERVER $name", literal($server->host), $server->port));
}

sub list { return "'{" . join(',', map { $_ eq 'here' ? 'NULL' : $_ } @_) . "}'" }

# The lines "key verdict agree deviate missing confirmed", sorted.
my $notices;
sub compare
{
	my ($relation, $nodes, $options, $more) = @_;
	my ($rc, $out, $err) = $servers[0]->psql('postgres', "SET client_min_messages = notice; SELECT concat_ws(' ', key, verdict, agree, deviate, missing, confirmed" . ($more // '')
		  . ") FROM iblt_compare_nodes('$relation', " . list(@$nodes) . ($options ? ", $options" : '') . ')');
	$notices = join "\n", $err =~ /((?:NOTICE|WARNING): .*(?:\nDETAIL: .*)?)/g;
	return $err =~ /(ERROR: .*(?:\n(?:DETAIL|HINT): .*)*)/ ? $1 : join "\n", sort split /\n/, $out;
}

# --- random rounds ---------------------------------------------------------------------

# A row is [ key, value ], both SQL.  What a kind says of its key: its type, the columns of the key, whether it is
# unique, and keys by number.
my @kinds = (
	{ name => 'int', table => 'k int PRIMARY KEY, v text', unique => 1, key => sub { $_[0] - 10 } },
	{ name => 'int8 and two columns', table => 'k int8 NOT NULL, l date NOT NULL, v text, PRIMARY KEY (l, k)', unique => 1, key => sub { $_[0] . "000000000, '2026-01-" . (1 + $_[0] % 28) . "'" } },
	{ name => 'uuid', table => 'k uuid PRIMARY KEY, v text', unique => 1, key => sub { "md5('$_[0]')::uuid" } },
	{ name => 'text', table => 'k text PRIMARY KEY, v text', unique => 1, key => sub { "'key " . ($_[0] % 3 ? '' : 'é') . "$_[0]'" } },
	{ name => 'no key', table => 'k int, v text', key => sub { $_[0] % 7 ? $_[0] : 'NULL' } },
	{ name => 'a key with several rows', table => 'k int, v text', options => "key_columns => '{k}'", of => 'k', key => sub { $_[0] % 9 } },
	{ name => 'unique on some nodes', table => 'k int NOT NULL, v text', options => "key_columns => '{k}'", of => 'k', index => 1, key => sub { $_[0] } },
);

# The rows of each node: those of all, of which a group of nodes has some otherwise.  Nodes with an
# index have a key once.
sub random_rows
{
	my ($kind, $indexed, @nodes) = @_;
	my %rows;
	my $n = int rand 30;
	my @common = map { [ $kind->{key}->($_), 'v' . int rand 3 ] } 1 .. $n;
	push @common, @common[ map { int rand @common } 1 .. 3 ] if @common && !$kind->{unique};
	$rows{$_} = [@common] foreach @nodes;
	foreach my $change (1 .. int rand 8)
	{
		my @wrong = grep { rand() < 0.4 } @nodes;
		my $what = int rand 4;
		my $at = int rand($n + 1);
		my $new = 'new' . int rand 2;
		foreach my $rows (@rows{@wrong})
		{
			splice @$rows, $at, 1 if $what == 0 && $at < @$rows;
			$rows->[$at] = [ $rows->[$at][0], $new ] if $what == 1 && $at < @$rows;
			push @$rows, [ $kind->{key}->(100 + $at), $new ] if $what == 2;
			push @$rows, ($rows->[$at]) x (1 + int rand 3) if $what == 3 && $at < @$rows && !$kind->{unique};
		}
	}
	foreach my $name ($kind->{unique} ? @nodes : @$indexed)
	{
		my %seen;
		$rows{$name} = [ grep { !$seen{ $_->[0] }++ } @{ $rows{$name} } ];
	}
	return \%rows;
}

# Makes the tables of these nodes.  Returns the nodes on which an index says that keys are unique.
sub fill
{
	my ($kind, @nodes) = @_;
	my @indexed = grep { $kind->{index} && rand() < 0.7 } @nodes;
	my $rows = random_rows($kind, \@indexed, @nodes);
	foreach my $name (@nodes)
	{
		my @values = map { "($_->[0], '$_->[1]')" } @{ $rows->{$name} };
		sql($name, "DROP TABLE IF EXISTS shop.r; CREATE TABLE shop.r ($kind->{table});" . (@values ? 'INSERT INTO shop.r VALUES ' . join(', ', @values) . ';' : '')
			  . (grep({ $_ eq $name } @indexed) ? 'CREATE UNIQUE INDEX ON shop.r (k)' : ''));
	}
	return @indexed;
}

# The lines that are expected of rows as the nodes tell them: { node => { key => { row => count } } }.
sub expected
{
	my ($told, $shown, @nodes) = @_;
	my %keys = map { map { ($_ => 1) } keys %$_ } values %$told;
	my @lines;
	foreach my $key (keys %keys)
	{
		my %groups;
		foreach my $i (0 .. $#nodes)
		{
			my $rows = $told->{ $nodes[$i] }{$key} // {};
			push @{ $groups{ join ' ', map { "$_ * $rows->{$_}" } sort keys %$rows } }, $i;
		}
		next if keys %groups == 1;
		my ($largest) = sort { @$b <=> @$a || $a->[0] <=> $b->[0] } values %groups;
		my %agree = map { ($_ => 1) } @$largest;
		my $array = sub { '{' . join(',', map { $nodes[$_] } @_) . '}' };
		push @lines, join ' ', $key, (2 * @$largest > @nodes ? 'majority' : 'tie'), $array->(@$largest), $array->(grep { !$agree{$_} } 0 .. $#nodes), $array->(@{ $groups{''} // [] });
	}
	return join "\n", sort @lines;
}

sub told
{
	my ($kind, @nodes) = @_;
	my %told;
	my $key = $kind->{of} // ($kind->{unique} ? $kind->{table} =~ /l date/ ? 'l, k' : 'k' : 'k, v');
	foreach my $name (@nodes)
	{
		foreach my $line (split /\n/, sql($name, "SELECT (SELECT to_jsonb(j) FROM (SELECT $key) AS j), to_jsonb(t) FROM shop.r AS t"))
		{
			my ($k, $row) = split /\|/, $line, 2;
			$told{$name}{$k}{$row}++;
		}
	}
	return \%told;
}

my %failed;
my $disagreements = 0;
# Of so few keys there are several batches.
batch_size(2);
my $batch = 'iblt_internal.plain_batch(plan iblt_internal.plan, figures iblt_internal.figures)';
my $whole = sql('here', "SELECT pg_get_functiondef('iblt_internal.plain_batch'::regproc)");
sql('here', "CREATE OR REPLACE FUNCTION $batch RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 3'");
# No two comparisons keep their sketches under the same names.
my $kept = changed($servers[0], 'kept_name', 'concat(', 'concat(1 / ((plan).kept IS NOT NULL)::integer, ');
foreach my $round (1 .. $rounds)
{
	my $kind = $kinds[ $round % @kinds ];
	my @nodes = (sort { rand() <=> 0.5 } @names)[ 0 .. 1 + int rand 7 ];
	fill($kind, @nodes);
	my $expected = expected(told($kind, @nodes), undef, @nodes);
	$disagreements += lines($expected);
	foreach my $method ('sketch', $round % 2 ? () : 'plain')
	{
		my $answer = compare('shop.r', \@nodes, join ', ', "recheck => 0, method => '$method'", $kind->{options} // ());
		next if $answer eq $expected;
		diag("round $round, $kind->{name}, nodes @nodes, $method");
		is($answer, $expected, "round $round") unless $failed{ $kind->{name} }++;
	}
}
is(join(', ', sort keys %failed), '', "$rounds rounds: all answers are those of a full comparison");
cmp_ok($disagreements, '>', $rounds, "$disagreements keys on which nodes disagreed were among them");

# --- many differences ------------------------------------------------------------------

batch_size(10000);
sql('here', $_) foreach $whole, $kept;
# The base is the node from which the others differ least, wherever it is in the list.
my @three = qw(n1 n2 n3);
all('DROP TABLE IF EXISTS shop.r; CREATE TABLE shop.t (id int PRIMARY KEY, v text)');
sql($_, "INSERT INTO shop.t SELECT g, 'row ' || g FROM generate_series(1, 12000) g") foreach @three, 'here';
sql('n1', 'DELETE FROM shop.t WHERE id % 4 = 0');
sql('n2', "UPDATE shop.t SET v = 'other' WHERE id % 100 = 1");
foreach my $order ([qw(n1 n2 n3)], [qw(n3 here n1 n2)], [qw(here n1)])
{
	foreach my $options ("recheck => 0", "recheck => 0, key_columns => '{id}', condition => 'id % 2 < 2'")
	{
		my $truth = join ', ', 3000 + (grep({ $_ eq 'n2' } @$order) ? 120 : 0), grep { $_ ne 'n1' } @$order;
		is(sql('here', "SELECT count(*) || ', ' || string_agg(DISTINCT array_to_string(agree, ', '), '; ') FILTER (WHERE deviate = '{n1}') FROM iblt_compare_nodes('shop.t', ${\ list(@$order)}, $options)"),
			@$order == 2 ? '3000, here' : $truth, "3000 keys of one node and 120 of another: @$order, $options") if @$order > 2;
		is(sql('here', "SELECT count(*) || verdict FROM iblt_compare_nodes('shop.t', ${\ list(@$order)}, $options) GROUP BY verdict"), '3000tie', "two nodes are a tie: $options") if @$order == 2;
	}
}
like(compare('shop.t', \@three, 'max_differences => 3119'), qr/ERROR:  too many differences: 3120 keys differ, and max_differences is 3119/, 'the keys of all nodes together are too many');
sql('n1', "INSERT INTO shop.t SELECT g, 'row ' || g FROM generate_series(4, 12000, 4) g");
sql('n2', 'UPDATE shop.t SET v = \'row \' || id');
is(compare('shop.t', [ @three, 'here' ]), '', 'nodes that are equal again');

# More differences than the first sketches are for, whose size is that of two empty nodes: the next ones have another
# seed, and so do hashes of keys.
sql($_, 'CREATE TABLE shop.big (id text PRIMARY KEY)') foreach @three;
sql('n3', 'INSERT INTO shop.big SELECT generate_series(1, 3000)');
is(sql('here', "SELECT count(*), bool_and(confirmed), min(verdict), max(verdict) FROM iblt_compare_nodes('shop.big', '{n1,n3,n2}')"), '3000|t|majority|majority', 'nodes that are scanned twice');
is(sql('here', "SELECT node, action, status, count(*) FROM iblt_repair_nodes('shop.big', '{n1,n3,n2}', recheck => 0) GROUP BY 1, 2, 3"), 'n3|delete|preview|3000', 'and a repair of them');
sql($_, 'DROP TABLE shop.big') foreach @three;

# --- answers ----------------------------------------------------------------------------

batch_size(2);
sql('n1', "UPDATE shop.t SET v = 'one' WHERE id IN (1, 2); DELETE FROM shop.t WHERE id = 3");
sql('n2', "UPDATE shop.t SET v = 'one' WHERE id = 2; INSERT INTO shop.t VALUES (-1, 'more')");
is(compare('shop.t', [qw(n1 n2 n3)], 'rows => true', ', node_rows'), join("\n",
	'{"id": -1} majority {n1,n3} {n2} {n1,n3} t {"n1": null, "n2": {"v": "more", "id": -1}, "n3": null}',
	'{"id": 1} majority {n2,n3} {n1} {} t {"n1": {"v": "one", "id": 1}, "n2": {"v": "row 1", "id": 1}, "n3": {"v": "row 1", "id": 1}}',
	'{"id": 2} majority {n1,n2} {n3} {} t {"n1": {"v": "one", "id": 2}, "n2": {"v": "one", "id": 2}, "n3": {"v": "row 2", "id": 2}}',
	'{"id": 3} majority {n2,n3} {n1} {n1} t {"n1": null, "n2": {"v": "row 3", "id": 3}, "n3": {"v": "row 3", "id": 3}}'), 'rows by node');
batch_size(10000);

# --- nodes that cannot be compared --------------------------------------------------------

sql('n4', 'DROP TABLE shop.t; CREATE TABLE shop.t (id int PRIMARY KEY, v text, more int); INSERT INTO shop.t SELECT g, $$row $$ || g FROM generate_series(1, 11993) g');
sql('n6', 'DROP TABLE shop.t');
sql('n7', 'DROP EXTENSION iblt CASCADE');
like(compare('shop.t', [qw(n3 here n4)]), qr/ERROR:  columns are not on all nodes\nDETAIL:  Missing: "more" on "n3", "here"\.\nHINT:  Exclude them/, 'a column that one node has');
is(lines(compare('shop.t', [qw(n3 here n4)], "exclude => '{more}', recheck => 0")), 7, 'it may be excluded');
like(compare('shop.t', [qw(n3 here n4)], "exclude => '{more,nothing}'"), qr/ERROR:  excluded columns are on no node: "nothing"/, 'a column that no node has may not');
like(compare('shop.t', [qw(n3 here n4)], "exclude => '{id,more}', key_columns => '{id}'"), qr/ERROR:  .*columns are both asked for and excluded: "id"/, 'nor one of the key');
like(compare('shop.t', [qw(n3 n7 here)]), qr/ERROR:  extension iblt is not installed in "n7"'s database\nHINT:  Run CREATE EXTENSION iblt there, or use method => 'auto'\./, 'a node without iblt');
sql('here', "ALTER SERVER n8 OPTIONS (SET port '1')");
my $wrong = join "\n", '{"id": -1} tie {here,n1} {n2} {here,n1}', '{"id": 1} tie {here,n2} {n1} {}', '{"id": 2} tie {n1,n2} {here} {}', '{"id": 3} tie {here,n2} {n1} {n1}';
is(compare('shop.t', [qw(here n6 n1 n2)], "without => 'skip', recheck => 0"), $wrong, 'without it: two of three are no majority of four');
like($notices, qr/WARNING:  node "n6" is left out\nDETAIL:  on "n6": relation shop.t does not exist/, 'and a warning');
is(compare('shop.t', [qw(n7 here n8 n1 n6 n2)], "without => 'skip', recheck => 0"), $wrong, 'without three nodes');
is(join(' ', sort $notices =~ /node "(\w+)" is left out/g), 'n6 n7 n8', 'with a warning for each');
like(compare('shop.t', [qw(n3 n8)], "without => 'skip'"), qr/ERROR:  could not connect to "n8"/, 'one node alone is not compared');
sql('here', "ALTER SERVER n8 OPTIONS (SET dbname 'n1', SET port '" . $servers[1]->port . "')");
like(compare('shop.t', [qw(n1 n2 n8)]), qr/ERROR:  nodes "n1" and "n8" are the same database/, 'a node under two names');

# --- audits ----------------------------------------------------------------------------------

# The rows "relation status differences ties missing extra changed unconfirmed detail".
sub audit
{
	my ($nodes, $options) = @_;
	my ($rc, $out, $err) = $servers[0]->psql('postgres', "SET client_min_messages = notice; SELECT concat_ws(' ', relation, status, differences, ties, missing, extra, changed, unconfirmed, detail)
		FROM iblt_audit_nodes(" . list(@$nodes) . ", $options)");
	$notices = join "\n", $err =~ /((?:NOTICE|WARNING): .*(?:\nDETAIL: .*)?)/g;
	return $err =~ /(ERROR: .*(?:\n(?:DETAIL|HINT): .*)*)/ ? $1 : $out;
}

my @audited = qw(here n1 n2 n3);
sql($_, q{CREATE TABLE shop.a (k int, v text); INSERT INTO shop.a VALUES (1, 'x'), (1, 'x'), (2, NULL); CREATE TABLE shop."B b" (id uuid PRIMARY KEY)}) foreach @audited;
sql('n1', "INSERT INTO shop.a VALUES (1, 'x'), (3, 'more'); CREATE TABLE shop.only_one (id int)");
is(audit(\@audited, "schema => 'shop', recheck => 0"), join("\n", 'shop."B b" equal 0 0 {} {} {} 0', 'shop.a differs 2 0 {} {"n1": 1} {"n1": 1} 0',
	'shop.only_one not comparable on "here": relation shop.only_one does not exist; create it there', 'shop.t differs 4 1 {"n1": 1} {"n2": 1} {"n1": 1} 0'), 'an audit of a schema');
is(audit(\@audited, "tables => ARRAY['shop.t', 'shop.\"B b\"']"), join("\n", 'shop.t differs 4 1 {"n1": 1} {"n2": 1} {"n1": 1} 0', 'shop."B b" equal 0 0 {} {} {} 0'), 'an audit of tables, in their order');
is(audit([ @audited, 'n4' ], "tables => ARRAY['shop.\"B b\"'], without => 'skip'"), 'shop."B b" not comparable 0 0 {} {} {} 0 4 of 5 nodes were compared; without "n4": on "n4": relation shop."B b" does not exist',
	'nodes that are equal without one are not called equal');
is(audit([ @audited, 'n4' ], "tables => ARRAY['shop.\"B b\"', 'shop.a']"), join("\n", 'shop."B b" not comparable on "n4": relation shop."B b" does not exist; create it there', 'shop.a not comparable on "n4": relation shop.a does not exist; create it there'), 'and without leave nothing is');
is(audit([ qw(n3 n7 here) ], "tables => '{shop.a}', without => 'skip'"), 'shop.a not comparable 0 0 {} {} {} 0 2 of 3 nodes were compared', 'a node without iblt, which is left out from the beginning');
like($notices, qr/WARNING:  node "n7" is left out\nDETAIL:  extension iblt is not installed in "n7"'s database/, 'with a warning');
like(audit([ qw(n3 n7 here) ], "tables => '{shop.a}'"), qr/^ERROR:  extension iblt is not installed in "n7"'s database/, 'or an error');
like(audit(\@audited, "schema => 'nothing'"), qr/^ERROR:  schema "nothing" exists on no node/, 'no such schema');
is(audit([qw(n1 n2)], "tables => ARRAY['shop.\"B b\"', 'shop.\"B b\"']"), 'shop."B b" equal 0 0 {} {} {} 0', 'a table that is named twice is compared once');
like(audit(\@audited, "tables => '{shop.a}', schema => 'shop'"), qr/^ERROR:  exactly one of tables and schema must be given/, 'two kinds of tables');
# A foreign table may lead to another node's table, which would then be compared with itself.
sql('n1', 'CREATE SCHEMA far; CREATE TABLE far.t (id int PRIMARY KEY, v text); INSERT INTO far.t VALUES (1, 1)');
sql('n2', sprintf("CREATE EXTENSION postgres_fdw; CREATE SERVER n1 FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %s, port '%s', dbname 'n1'); CREATE USER MAPPING FOR CURRENT_USER SERVER n1;
	CREATE SCHEMA far; CREATE FOREIGN TABLE far.t (id int NOT NULL, v text) SERVER n1", literal($nodes{n1}[0]->host), $nodes{n1}[0]->port));
is(audit([qw(n1 n2)], "schema => 'far', recheck => 0"), 'far.t not comparable it is a foreign table on "n2": Its rows may be elsewhere. Name it in tables to compare it all the same.', 'a foreign table that is not named');
is(audit([qw(n1 n2)], "tables => '{far.t}', recheck => 0"), 'far.t equal 0 0 {} {} {} 0', 'or is');
like(compare('far.t', [qw(n1 n2)], "method => 'plain', recheck => 0"), qr/ERROR:  .*cannot compare by plain queries: rows of far.t \(n2\) are on other servers/, 'which plain queries do not read on any node');
sql('n1', 'UPDATE far.t SET v = 2');
like(failure("SELECT * FROM iblt_repair_nodes('far.t', '{n1,n2}')"), qr/22023: node "n2" reads rows of other servers\nDETAIL:  Its rows may come from another node, and both would have a vote for them\./, 'which has no vote of its own in a repair');
is(sql('here', "SELECT count(*) FROM iblt_repair_nodes('far.t', '{n1,n2}', source => 'n1')"), '0', 'unless a source is named');
# A view that asks another node by a function, a materialized view, and a view of a table.
sql('n2', 'DROP FOREIGN TABLE far.t; CREATE TABLE far.t (id int PRIMARY KEY, v text); INSERT INTO far.t VALUES (1, 3)');
sql('n3', 'CREATE SCHEMA far; CREATE TABLE far.u (id int, v text)');
my $asks = "SELECT * FROM dblink(${\ literal($nodes{n2}[0]->connstr('n2'))}, 'SELECT id, v FROM far.t') AS x(id int, v text)";
foreach my $case ([ 'a view that asks another node', "VIEW far.t AS $asks" ], [ 'a materialized view that has asked it', "MATERIALIZED VIEW far.t AS $asks" ], [ 'a view of a table', 'VIEW far.t AS SELECT id, v FROM far.u' ])
{
	my ($text, $view) = @$case;
	sql('n3', "CREATE $view");
	foreach my $method (qw(sketch plain))
	{
		my $options = "key_columns => '{id}', recheck => 0, method => '$method'";
		like(failure("SELECT * FROM iblt_repair_nodes('far.t', '{n1,n2,n3}', apply => true, $options)"), qr/22023: relation far\.t of node "n3" is not a table\nDETAIL:  Its rows may come from another node, and both would have a vote for them\.\nHINT:  Leave that node out, or name a source\./, "$method: $text has no vote in a repair");
		is(sql('n1', 'SELECT v FROM far.t'), 2, 'and outvotes nobody');
		is(sql('here', "SELECT node, status FROM iblt_repair_nodes('far.t', '{n1,n2}', source => 'n2', $options)"), 'n1|preview', 'with a source, nobody votes');
	}
	sql('n3', 'DROP ' . $view =~ s/ far.*//r . ' far.t');
}
sql($_, 'DROP SCHEMA far CASCADE') foreach qw(n1 n2 n3);
# an error of one table does not keep the next one from being compared; and locks are freed
sql('n3', 'ALTER TABLE shop.a RENAME v TO w');
sql('here', 'CREATE VIEW held AS SELECT count(*) AS n FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = \'shop\'');
like(sql('here', "BEGIN; SELECT concat_ws(' ', relation, status, detail) FROM iblt_audit_nodes(${\ list(@audited)}, tables => ARRAY['shop.\"B b\"', 'shop.a', 'shop.t'], recheck => 0); SELECT n FROM held; COMMIT"),
	qr/^shop."B b" equal\nshop.a not comparable columns are not on all nodes: .*\nshop.t differs\n0$/, 'an error is of one table, and no lock is kept');

# --- nodes without iblt --------------------------------------------------------------------------

sql('n7', "CREATE TABLE IF NOT EXISTS shop.t (id int PRIMARY KEY, v text); TRUNCATE shop.t; INSERT INTO shop.t SELECT g, 'row ' || g FROM generate_series(1, 12000) g; DELETE FROM shop.t WHERE id = 1");
my $plain = join "\n", '{"id": -1} majority {here,n1,n7} {n2} {here,n1,n7} t', '{"id": 1} tie {here,n2} {n1,n7} {n7} t', '{"id": 2} tie {here,n7} {n1,n2} {} t', '{"id": 3} majority {here,n2,n7} {n1} {n1} t';
is(compare('shop.t', [qw(here n1 n2 n7)], "method => 'auto'"), $plain, 'a node without iblt: plain queries');
like($notices, qr/NOTICE:  nodes "n7" have no extension iblt, so all are compared by plain queries/, 'and a notice');
is(compare('shop.t', [qw(n7 n1 n2)], "method => 'auto', recheck => 0, rows => true", ', node_rows'), join("\n",
	'{"id": -1} majority {n7,n1} {n2} {n7,n1} {"n1": null, "n2": {"v": "more", "id": -1}, "n7": null}',
	'{"id": 1} tie {n7} {n1,n2} {n7} {"n1": {"v": "one", "id": 1}, "n2": {"v": "row 1", "id": 1}, "n7": null}',
	'{"id": 2} majority {n1,n2} {n7} {} {"n1": {"v": "one", "id": 2}, "n2": {"v": "one", "id": 2}, "n7": {"v": "row 2", "id": 2}}',
	'{"id": 3} majority {n7,n2} {n1} {n1} {"n1": null, "n2": {"v": "row 3", "id": 3}, "n7": {"v": "row 3", "id": 3}}'), 'and none of them is here');
is(compare('shop.t', [qw(n7 n1 n2 here)], "method => 'auto', recheck => 0, condition => 'id < 3 AND v IS NOT NULL'"), join("\n",
	'{"id": -1} majority {n7,n1,here} {n2} {n7,n1,here}', '{"id": 1} tie {n2,here} {n7,n1} {n7}', '{"id": 2} tie {n7,here} {n1,n2} {}'), 'a condition');
like(compare('shop.t', [qw(n7 n1 n2)], "method => 'auto', condition => 'id < 3'"), qr/ERROR:  .*cannot compare by plain queries: there is a condition, and no side is asked through iblt/, 'for which a node must be here');
is(compare('shop.t', [qw(here n1 n2)], "method => 'auto', recheck => 0"), $wrong =~ s/tie (\{here)/majority $1/gr =~ s/tie (\{n1,n2)/majority $1/gr, 'all nodes have iblt: no plain queries');
is($notices, '', 'and nothing to say');
is(audit([qw(here n1 n2 n7)], "tables => '{shop.t}', method => 'auto'"), 'shop.t differs 4 2 {"n1": 1} {"n2": 1} {} 0 compared by plain queries', 'an audit of such nodes');
like(audit([qw(n7 n1 n2)], "schema => 'shop', method => 'auto', recheck => 0"), qr/^shop."B b" not comparable .*\nshop.a not comparable .*\nshop.only_one not comparable .*\nshop.t differs 4 1 \{"n1": 1\} \{"n2": 1\} \{"n7": 1\} 0 compared by plain queries; differences were not rechecked, so they may be rows in flight$/s, 'and of none here');

sql($_, q{CREATE TYPE shop.mood AS ENUM ('sad', 'ok'); CREATE TABLE shop.m (id int PRIMARY KEY, m tsquery, e shop.mood); INSERT INTO shop.m VALUES (1, 'a', 'sad')}) foreach qw(here n1 n2);
like(compare('shop.m', [qw(here n1 n2)], "method => 'plain'"), qr/ERROR:  "here" \(here\) and "n1" \(the peer\): cannot compare by plain queries: .*: "m" is tsquery/, 'a type whose text does not tell its values apart');
is(compare('shop.m', [qw(here n1 n2)], "method => 'plain', exclude => '{m}'"), '', 'without it');
sql('n2', "UPDATE shop.m SET e = 'ok'");
is(compare('shop.m', [qw(n1 n2)], "method => 'plain', exclude => '{m}', rows => true", ', node_rows'), '{"id": 1} tie {n1} {n2} {} t {"n1": {"e": "sad", "id": 1}, "n2": {"e": "ok", "id": 1}}', 'a type that is not here');

# --- live digests -------------------------------------------------------------------------------

# n1 and n2 have digests of two sizes, made as those here; n3 has none at first, and n6 one of its own.
sql($_, 'CREATE TABLE shop.live (id int PRIMARY KEY, v text)') foreach qw(here n1 n2 n3 n6);
sql($_, "INSERT INTO shop.live SELECT g, 'row ' || g FROM generate_series(1, 3000) g") foreach qw(here n1 n2 n3);
sql($_, "CALL iblt_track('shop.live', capacity => 4000)") foreach 'here', 'n6';
my %size = (n1 => 4000, n2 => 1000, n3 => 2000);
sub track { my ($name) = @_; sql($name, "CALL iblt_track('shop.live', peer => ${\ conninfo($servers[0])}, capacity => $size{$name})"); return }
track($_) foreach 'n1', 'n2';
# no node can scan
my $scan = 'iblt_internal.sketch_sql(iblt_internal.plan, iblt_internal.side, integer)';
sub scans
{
	sql('here', $_[0] ? "DROP FUNCTION $scan; ALTER FUNCTION ${\ ($scan =~ s/sketch_sql/kept_back/r)} RENAME TO sketch_sql"
		: "ALTER FUNCTION $scan RENAME TO kept_back; CREATE FUNCTION $scan RETURNS text LANGUAGE plpgsql AS \$\$BEGIN RAISE EXCEPTION 'a scan'; END\$\$");
	return;
}
scans(0);
is(compare('shop.live', [qw(here n1 n2)], "live => 'require'"), '', 'digests of equal nodes');
sql('n1', "UPDATE shop.live SET v = 'one' WHERE id = 1; DELETE FROM shop.live WHERE id = 2");
sql('n2', "INSERT INTO shop.live VALUES (-1, 'more'); UPDATE shop.live SET v = 'one' WHERE id = 1");
my $differ = join "\n", '{"id": -1} majority {here,n1} {n2} {here,n1} t', '{"id": 1} majority {n1,n2} {here} {} t', '{"id": 2} majority {here,n2} {n1} {n1} t';
is(compare('shop.live', [qw(here n1 n2)], "live => 'require'"), $differ, 'and of nodes that differ, which have three sizes');
is(compare('shop.live', [qw(n1 n2)], "live => 'require', recheck => 0"), "{\"id\": -1} tie {n1} {n2} {n1}\n{\"id\": 2} tie {n1} {n2} {n1}", 'none of them is here');
sql('n2', "UPDATE shop.live SET v = 'many' WHERE id BETWEEN 100 AND 600");
is(sql('here', "SELECT count(*), min(deviate::text), max(deviate::text) FROM iblt_compare_nodes('shop.live', '{n1,NULL,n2}', live => 'require', recheck => 0) WHERE (key ->> 'id')::int BETWEEN 100 AND 600"), '501|{n2}|{n2}', 'more than a small fold tells');
like(compare('shop.live', [qw(here n1 n2 n3)], "live => 'require'"), qr/ERROR:  "here" \(here\) and "n3" \(the peer\): live digests cannot be used: shop.live is not tracked \(n3\)/, 'a node without a digest');
like(compare('shop.live', [qw(here n3 n1)], "live => 'require', without => 'skip'"), qr/ERROR:  .*is not tracked/, 'which is not left out');
like(compare('shop.live', [qw(here n1 n6)], "live => 'require'"), qr/ERROR:  .*the two digests were not made to be compared/, 'a digest of another seed');
like(audit([qw(here n1 n2)], "tables => '{shop.live}', live => 'require'"), qr/^shop.live differs 504 0 \{"n1": 1\} \{"n2": 1\} \{"n2": 501, "here": 1\} 0 from live digests, last verified by a scan at \d\S+ \S+ UTC on "here" and at .* UTC on "n1" and at .* UTC on "n2"$/, 'an audit');
scans(1);
sql('n2', "UPDATE shop.live SET v = 'row ' || id WHERE id > 1");
is(compare('shop.live', [qw(here n1 n2 n3)], "live => 'auto', recheck => 0"), join("\n", '{"id": -1} majority {here,n1,n3} {n2} {here,n1,n3}', '{"id": 1} tie {here,n3} {n1,n2} {}', '{"id": 2} majority {here,n2,n3} {n1} {n1}'), 'auto: a scan of all if one has none');
like($notices, qr/NOTICE:  live digests are not used: shop.live is not tracked \(n3\)/, 'which a notice says');
is(audit([qw(here n3)], "tables => '{shop.live}', live => 'auto', recheck => 0"), 'shop.live equal 0 0 {} {} {} 0 live digests are not used: shop.live is not tracked (n3)', 'and the row of an audit');
like(($servers[0]->psql('postgres', "SET client_min_messages = notice; SELECT FROM iblt_repair_nodes('shop.live', '{NULL,n3}', live => 'auto', recheck => 0)"))[2], qr/NOTICE:  live digests are not used: shop.live is not tracked \(n3\)/, 'and a repair');
track('n3');
sql('n3', "SET session_replication_role = replica; ALTER TABLE shop.live DISABLE TRIGGER USER; UPDATE shop.live SET v = 'unseen' WHERE id = 5; ALTER TABLE shop.live ENABLE TRIGGER USER");
is(compare('shop.live', [qw(here n3)], "live => 'auto', recheck => 0"), '{"id": 5} tie {here} {n3} {}', 'auto finds what it has missed');
# a change that it has not seen, and one that it has: the rows are equal, and the digest says that they differ
sql('n2', "SET session_replication_role = replica; SET allow_system_table_mods = on; UPDATE pg_class SET relhastriggers = $_->[0] WHERE relname = 'live'; $_->[1]")
  foreach ([ 'false', '' ], [ 'false', "UPDATE shop.live SET v = 'drift' WHERE id = 7" ], [ 'true', '' ]);
sql('n2', "UPDATE shop.live SET v = 'row 7' WHERE id = 7");
my $against = 'they contradict the rows that an index finds';
like(compare('shop.live', [qw(here n1 n2)], "live => 'require'"), qr/ERROR:  live digests cannot be used: \Q$against\E/, 'a digest that is wrong');
is(compare('shop.live', [qw(here n1 n2)], "live => 'auto'"), $differ, 'auto: a scan');
like($notices, qr/NOTICE:  live digests are not used: \Q$against\E/, 'and a notice');
sql('n2', "CALL iblt_live_rebuild('shop.live')");
# it is found out only when it is read
my $read = 'text, bigint, integer';
sql('n1', "ALTER FUNCTION iblt_internal.live_read($read) RENAME TO kept_back; CREATE FUNCTION iblt_internal.live_read($read) RETURNS public.iblt LANGUAGE plpgsql AS \$\$BEGIN RAISE EXCEPTION USING ERRCODE = 'IB008', MESSAGE = 'the digest is gone'; END\$\$");
is(compare('shop.live', [qw(here n1 n2)], "live => 'auto', without => 'skip'"), $differ, 'a digest that is lost when it is read: a scan, and no node is left out');
like($notices, qr/^NOTICE:  live digests are not used: on "n1": the digest is gone$/, 'a notice says so');
is(audit([qw(here n1 n2)], "tables => '{shop.live}', live => 'auto', without => 'skip'"), 'shop.live differs 3 0 {"n1": 1} {"n2": 1} {"here": 1} 0 live digests are not used: on "n1": the digest is gone', 'so does an audit');
like(compare('shop.live', [qw(here n1 n2)], "live => 'require', without => 'skip'"), qr/ERROR:  on "n1": the digest is gone/, 'or an error');
sql('n1', "DROP FUNCTION iblt_internal.live_read($read); ALTER FUNCTION iblt_internal.kept_back($read) RENAME TO live_read");
# more than the digests tell
sql('n1', "UPDATE shop.live SET v = 'all'");
like(compare('shop.live', [qw(here n1 n2)], "live => 'require'"), qr/ERROR:  too many differences: about \d+ keys differ, more than live digests of this capacity can tell/, 'more than digests can tell');
is(sql('here', "SELECT count(*) FROM iblt_compare_nodes('shop.live', '{n1,NULL,n2}', live => 'auto', recheck => 0)"), '3001', 'auto: a scan');
sql($_, "CALL iblt_untrack('shop.live')") foreach qw(here n1 n2 n3 n6);
sql($_, 'DROP TABLE shop.live') foreach qw(here n1 n2 n3 n6);

# --- repairs ------------------------------------------------------------------------------------

# The lines "node key action status detail" of a repair, sorted, or its error.
sub repaired
{
	my ($relation, $nodes, $options) = @_;
	my ($rc, $out, $err) = $servers[0]->psql('postgres', "SET client_min_messages = notice; SELECT replace(concat_ws(' ', node, key, action, status, detail), E'\\n', ' ') FROM iblt_repair_nodes('$relation', " . list(@$nodes) . ", $options)");
	$notices = join "\n", $err =~ /((?:NOTICE|WARNING): .*(?:\n(?:DETAIL|HINT): .*)*)/g;
	return $err =~ /(ERROR: .*(?:\n(?:DETAIL|HINT): .*)*)/ ? $1 : join "\n", sort split /\n/, $out;
}

# What the nodes are to tell after a repair: each key as the majority has it, or as the source.
sub wanted
{
	my ($told, $source, @nodes) = @_;
	my %wanted;
	foreach my $key (keys %{ { map { map { ($_ => 1) } keys %$_ } values %$told } })
	{
		my %groups;
		my $form = sub { my $rows = $told->{ $_[0] }{$key} // {}; return join ' ', map { "$_ * $rows->{$_}" } sort keys %$rows };
		push @{ $groups{ $form->($_) } }, $_ foreach @nodes;
		my ($largest) = sort { @$b <=> @$a } values %groups;
		my $like = $source // (2 * @$largest > @nodes ? $largest->[0] : undef);
		foreach my $name (@nodes)
		{
			my $rows = $told->{ $like // $name }{$key};
			$wanted{$name}{$key} = $rows if $rows;
		}
	}
	return \%wanted;
}
sub as_text { my ($told) = @_; return join "\n", map { my $n = $_; map { my $k = $_; map { "$n $k $_ $told->{$n}{$k}{$_}" } sort keys %{ $told->{$n}{$k} } } sort keys %{ $told->{$n} } } sort keys %$told }

batch_size(2);
my %wrong_repairs;
my $repairs = 1 + int($rounds / 2);
foreach my $round (1 .. $repairs)
{
	my $kind = $kinds[ $round % @kinds ];
	my @nodes = (sort { rand() <=> 0.5 } qw(here n1 n2 n3 n4))[ 0 .. 2 + int rand 3 ];
	my @indexed = fill($kind, @nodes);
	# of a key with several rows on one node, an index on another one leaves no room
	my $source = $round % 4 ? undef : $nodes[-1];
	$source = undef if @indexed && @indexed < @nodes;
	my $before = told($kind, @nodes);
	my $wanted = wanted($before, $source, @nodes);
	my $options = join ', ', 'recheck => 0', $kind->{options} // (), $source ? "source => '$source'" : ();
	my $preview = repaired('shop.r', \@nodes, $options);
	my $unchanged = as_text(told($kind, @nodes)) eq as_text($before);
	my $applied = repaired('shop.r', \@nodes, "$options, apply => true");
	my @failed = grep { /^(\w+) .* failed / } split /\n/, $applied;
	next if @failed && !grep { !/duplicate key value/ } @failed and @indexed && @indexed < @nodes;
	my $text = join "\n", map { "round $round, $kind->{name}, nodes @nodes, $options: $_" } $unchanged ? () : 'a preview has changed rows',
	  $preview eq $applied =~ s/\bapplied\b/preview/gr ? () : "a preview of\n$preview\nand\n$applied", as_text(told($kind, @nodes)) eq as_text($wanted) ? () : "$applied\nwas told of\n" . as_text($before);
	diag($text) if $text;
	$wrong_repairs{ $kind->{name} } = 1 if $text;
}
is(join(', ', sort keys %wrong_repairs), '', "$repairs rounds: after a repair all nodes are as the majority or the source, and ties are as they were");
all('DROP TABLE IF EXISTS shop.r');
batch_size(10000);

sub fill_nodes
{
	sql($_, "DROP TABLE IF EXISTS shop.f; CREATE TABLE shop.f (id int PRIMARY KEY, v text); INSERT INTO shop.f SELECT g, 'all' FROM generate_series(1, 9) g") foreach qw(here n1 n2 n3 n5);
	sql('n1', "UPDATE shop.f SET v = 'one' WHERE id = 1");
	sql('n2', "DELETE FROM shop.f WHERE id = 2");
	sql('n3', "INSERT INTO shop.f VALUES (30, 'three')");
	return;
}
sub contents { my ($name) = @_; return sql($name, "SELECT string_agg(id || v, ' ' ORDER BY id) FROM shop.f WHERE id IN (1, 2, 3, 30) OR v <> 'all'") }
my $sound = '1all 2all 3all';
fill_nodes();
sql('n7', "CREATE TABLE shop.f (id int PRIMARY KEY, v text); INSERT INTO shop.f SELECT g, 'all' FROM generate_series(2, 9) g");
is(repaired('shop.f', [qw(here n2 n3 n7)], "recheck => 0, method => 'auto', apply => true"), join("\n", 'n2 {"id": 2} insert applied', 'n3 {"id": 30} delete applied', 'n7 {"id": 1} insert applied'), 'a node without iblt');
is(repaired('shop.f', [qw(n1 n7)], "recheck => 0, source => 'n7', method => 'plain', apply => true"), 'n1 {"id": 1} update applied', 'which others become like');
is(contents($_), $sound, "$_ is repaired") foreach qw(n1 n2 n3 n7);
fill_nodes();
sql('here', "UPDATE shop.f SET v = 'tie' WHERE id = 3; UPDATE shop.f SET v = 'here' WHERE id = 4");
sql('n1', "UPDATE shop.f SET v = 'tie' WHERE id = 3");
is(repaired('shop.f', [qw(here n1 n2 n3)], 'recheck => 0'), join("\n", 'here {"id": 4} update preview', 'n1 {"id": 1} update preview', 'n2 {"id": 2} insert preview', 'n3 {"id": 30} delete preview', '{"id": 3} skipped a tie: no majority of the nodes agrees'), 'a preview');
like($notices, qr/^NOTICE:  the repair will delete 1 rows of shop.f \(n3\)$/m, 'what will be lost');
is(join("\n", grep { /"id": (2|30)\}/ } split /\n/, repaired('shop.f', [qw(here n1 n2 n3)], "recheck => 0, inserts => NULL, deletes => NULL")), "n2 {\"id\": 2} insert preview\nn3 {\"id\": 30} delete preview", 'inserts and deletes are part of it unless one is false');
is(sql('here', "BEGIN; SELECT count(*) FROM iblt_repair_nodes('shop.f', ${\ list(qw(here n1 n2 n3))}, recheck => 0, apply => true); ROLLBACK; SELECT v FROM shop.f WHERE id = 4"), "5\nhere", 'this database is repaired in the transaction that calls');
is(contents('n2'), $sound, 'the others are done');
like(failure("BEGIN; UPDATE shop.f SET v = 'not committed' WHERE id = 5; SELECT * FROM iblt_repair_nodes('shop.f', '{n1,NULL,n3}', recheck => 0, apply => true)"), qr/25001: cannot repair another server: this transaction has changed shop.f/, 'rows that are not committed have no vote');
like(failure("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM iblt_repair_nodes('shop.f', '{n1,n3,NULL}', recheck => 0, apply => true)"), qr/25001: cannot apply a repair in a REPEATABLE READ or SERIALIZABLE transaction/, 'nor have rows of a snapshot from before');

# A node of the majority tells of another row when its rows are fetched, and then votes with the others.
sql($_, "CREATE TABLE shop.told (id int PRIMARY KEY, v text); INSERT INTO shop.told VALUES (1, 'all')") foreach qw(n1 n2 n3);
sql('n3', "UPDATE shop.told SET v = 'three'");
sql('n1', q{CREATE TABLE shop.lie (id int PRIMARY KEY, v text); INSERT INTO shop.lie VALUES (1, 'lie');
	ALTER FUNCTION iblt_internal.read_planned RENAME TO read_honestly;
	CREATE FUNCTION iblt_internal.read_planned(query text, keys text[], lo text[], hi text[], described iblt_internal.described[]) RETURNS record LANGUAGE plpgsql SET row_security = off AS $$
		DECLARE
			call integer := coalesce(nullif(current_setting('iblt.calls', true), ''), '0')::integer + 1;
		BEGIN
			PERFORM set_config('iblt.calls', call::text, false);
			RETURN iblt_internal.read_honestly(CASE WHEN call IN (2, 3) THEN replace(query, 'shop.told AS t', 'shop.lie AS t') ELSE query END, keys, lo, hi, described);
		END $$});
is(repaired('shop.told', [qw(n1 n2 n3)], 'recheck => 0, apply => true'), 'n3 {"id": 1} update skipped changed since it was compared', 'a row that the majority does not have');
is(sql('n3', 'SELECT v FROM shop.told'), 'three', 'is not written');
sql('n1', 'DROP FUNCTION iblt_internal.read_planned; ALTER FUNCTION iblt_internal.read_honestly RENAME TO read_planned');
is(repaired('shop.told', [qw(n1 n2 n3)], 'recheck => 0, apply => true'), 'n3 {"id": 1} update applied', 'and that of the majority is');

is(repaired('shop.f', [qw(here n1 n2 n3)], 'apply => true'), "here {\"id\": 4} update applied\n{\"id\": 3} skipped a tie: no majority of the nodes agrees", 'which the next call shows');
is(repaired('shop.f', [qw(n1 here n2 n3)], "source => 'n1', apply => true, condition => 'id = 3'"), "n2 {\"id\": 3} update applied\nn3 {\"id\": 3} update applied", 'a tie, like a node that is named');
sql('here', 'DELETE FROM shop.f WHERE id = 6; INSERT INTO shop.f VALUES (31)');
is(repaired('shop.f', [qw(n1 here n2 n3)], 'recheck => 0, apply => true'), "here {\"id\": 31} delete applied\nhere {\"id\": 6} insert applied", 'rows that this database lacks and has alone');

# A node that fails does not undo the others.
sql('n2', q{CREATE FUNCTION shop.fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF TG_ARGV[0] = 'end' THEN PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid()), pg_catalog.pg_sleep(5); END IF; RAISE 'the disk is full'; END$$});
foreach my $how ([ 'error', qr/on "n2": the disk is full/ ], [ 'end', qr/"n2"/ ])
{
	fill_nodes();
	sql('n2', "CREATE TRIGGER fail BEFORE INSERT ON shop.f FOR EACH ROW EXECUTE FUNCTION shop.fail('$how->[0]')");
	my $answer = repaired('shop.f', [qw(n1 n2 n3 n5)], 'recheck => 0, apply => true');
	like($answer, qr/^n1 \{"id": 1\} update applied\nn2 \{"id": 2\} insert failed .*\nn3 \{"id": 30\} delete applied$/, "$how->[0]: which nodes were done");
	like($answer, $how->[1], 'and why one was not');
	like($notices, qr/WARNING:  node "n2" is not repaired\nDETAIL:  .*$how->[1]/, 'which a warning says');
	is(join('; ', map { contents($_) } qw(n1 n2 n3)), "$sound; 1all 3all; $sound", 'that is so');
}
sql('n2', 'DROP FUNCTION shop.fail CASCADE');
is(repaired('shop.f', [qw(n1 n2 n3)], 'recheck => 0, apply => true'), 'n2 {"id": 2} insert applied', 'the rest');
fill_nodes();
sql('n1', "SELECT pg_replication_origin_create('repair')");
like(repaired('shop.f', [qw(n1 n2 n3)], "recheck => 0, apply => true, origin => 'repair'"), qr/^n1 \{"id": 1\} update applied\nn2 .* (failed|applied)/, 'and one that a node has');
is(repaired('shop.f', [qw(here n1 n4 n2)], "recheck => 0, without => 'skip'"), '{"id": 2} skipped a tie: no majority of the nodes agrees', 'a node that is left out has a vote that nobody gets');
like($notices, qr/WARNING:  node "n4" is left out/, 'and a warning');
like(repaired('shop.f', [qw(here n1 n4)], "source => 'n4', without => 'skip'"), qr/ERROR:  source "n4" is not one of the nodes: "here", "n1"/, 'but it cannot be the source');
like(repaired('shop.f', [qw(here n1)], "source => 'n2'"), qr/ERROR:  source "n2" is not one of the nodes: "here", "n1"/, 'nor can another');
like(repaired('shop.f', [qw(here n7 n1)], 'recheck => 0'), qr/ERROR:  extension iblt is not installed in "n7"'s database/, 'all need iblt');

# The nodes that agreed do not any more when the rows are locked.
fill_nodes();
sql('here', q{ALTER FUNCTION iblt_internal.repair_begin(iblt_internal.repair_plan[], iblt_internal.repair_plan[]) RENAME TO repair_begin_it; CREATE FUNCTION iblt_internal.repair_begin(iblt_internal.repair_plan[], iblt_internal.repair_plan[]) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN PERFORM public.dblink_exec('n2', 'UPDATE shop.f SET v = ''later'' WHERE id = 1'); PERFORM iblt_internal.repair_begin_it($1, $2); END$$});
is(repaired('shop.f', [qw(n3 n2 n1)], "recheck => 0, apply => true, condition => 'id = 1'"), 'n1 {"id": 1} update skipped changed since it was compared', 'a majority that is gone by then');
is(contents('n1'), '1one 2all 3all', 'nothing is changed');
sql('here', q{DROP FUNCTION iblt_internal.repair_begin(iblt_internal.repair_plan[], iblt_internal.repair_plan[]); ALTER FUNCTION iblt_internal.repair_begin_it(iblt_internal.repair_plan[], iblt_internal.repair_plan[]) RENAME TO repair_begin});
sql($_, 'DROP TABLE shop.f') foreach qw(here n1 n2 n3 n5);
nothing_left('after repairs', @servers);

# --- nodes that fail in the middle ------------------------------------------------------------

foreach my $step ([ 'its scan', 'scan_answer(text, iblt, text, numeric)', 'iblt_internal.scanned' ], [ 'the lookup', 'read_planned(text, text[], text[], text[], iblt_internal.described[])', 'record' ])
{
	my ($text, $function, $returns) = @$step;
	my ($name) = $function =~ /^(\w+)/;
	my $arguments = $function =~ s/.*?\(|\)//gr =~ s/\biblt\b/public.iblt/r;
	foreach my $how ([ 'an error', q{RAISE EXCEPTION 'the disk is full'}, qr/ERROR:  on "n3": the disk is full/ ],
		[ 'the end of its session', 'PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid()), pg_catalog.pg_sleep(5)', qr/ERROR:  (on|could not send a query to) "n3"/ ])
	{
		my ($what, $statement, $error) = @$how;
		sql('n3', "ALTER FUNCTION iblt_internal.$name($arguments) RENAME TO kept_back; CREATE FUNCTION iblt_internal.$name(${\ ($arguments =~ s/boolean/boolean DEFAULT true/r)}) RETURNS $returns LANGUAGE plpgsql AS \$\$BEGIN $statement; END\$\$");
		like(compare('shop.t', [qw(here n1 n3 n2)], 'recheck => 0'), $error, "$text ends with $what: an error that names the node");
		is(compare('shop.t', [qw(here n3 n1 n2)], "without => 'skip', recheck => 0"), $wrong, "$text ends with $what: the other nodes");
		like($notices, qr/WARNING:  node "n3" is left out/, 'and a warning');
		sql('n3', "DROP FUNCTION iblt_internal.$name($arguments); ALTER FUNCTION iblt_internal.kept_back($arguments) RENAME TO $name");
	}
}
nothing_left('after errors', @servers);

# A node whose column is gone when it is scanned is described again, and is not left out.
my $planned = 'text[], iblt_internal.side[], iblt_internal.options, jsonb[]';
sql('here', qq{ALTER FUNCTION iblt_internal.nodes_plan($planned) RENAME TO nodes_plan_it; CREATE FUNCTION iblt_internal.nodes_plan($planned) RETURNS iblt_internal.plan LANGUAGE plpgsql AS '
	DECLARE p iblt_internal.plan := iblt_internal.nodes_plan_it(\$1, \$2, \$3, \$4); BEGIN PERFORM public.dblink_exec(''n1'', ''ALTER TABLE shop.t RENAME v TO w''); RETURN p; END'});
foreach my $without ('error', 'skip')
{
	like(compare('shop.t', [qw(here n2 n1)], "recheck => 0, without => '$without'"), qr/ERROR:  columns are not on all nodes\nDETAIL:  Missing: "v" on "n1", "w" on "here", "n2"/, "a column that is gone, without => '$without'");
	unlike($notices, qr/is left out/, 'and no node is left out');
	sql('n1', 'ALTER TABLE shop.t RENAME w TO v');
	like(audit([qw(here n2 n1)], "tables => '{shop.t}', recheck => 0, without => '$without'"), qr/^shop.t not comparable columns are not on all nodes: Missing: "v" on "n1"/, 'an audit');
	sql('n1', 'ALTER TABLE shop.t RENAME w TO v');
}
sql('here', "DROP FUNCTION iblt_internal.nodes_plan($planned); ALTER FUNCTION iblt_internal.nodes_plan_it($planned) RENAME TO nodes_plan");

# --- connection strings ------------------------------------------------------------------------------

my $string = $nodes{n2}[0]->connstr('n2') . ' application_name=secret_of_mine';
my ($rc, $out, $err) = $servers[0]->psql('postgres', "SELECT concat_ws(' ', key, agree, deviate) FROM iblt_compare_nodes('shop.t', ARRAY[NULL, ${\ literal($string)}, 'n1'], recheck => 0) ORDER BY 1");
like($out, qr/^\{"id": -1\} \{here,n1\} \{"node 2"\}\n/, 'a connection string has the name of its place');
($rc, $out, $err) = $servers[0]->psql('postgres', "SELECT * FROM iblt_compare_nodes('shop.nothing', ARRAY['n1', ${\ literal($string)}])");
like($err, qr/ERROR:  on "n1": relation shop.nothing does not exist/, 'an error');
# and wrong arguments, also of functions with one peer
my ($peer, $two) = (literal($string), "ARRAY['n1', ${\ literal($string)}]");
foreach (
	[ "iblt_compare_nodes('t', $two)", 'relation must be a name with its schema' ], [ "iblt_compare_nodes('shop.t', $two, without => 'x')", 'without must be' ],
	[ "iblt_compare_nodes('shop.t', $two || text 'nobody')", '"node 3" is neither' ],
	[ "iblt_compare_nodes('shop.t', NULL)", 'nodes must be a list' ], [ "iblt_audit_nodes($two)", 'exactly one of tables and schema' ], [ "iblt_audit_nodes(NULL, schema => 'shop')", 'nodes must be a list' ],
	[ "iblt_repair_nodes('shop.t', $two, updates => NULL)", 'updates, cascade' ], [ "iblt_compare('shop.t', $peer, peer_columns => '[]')", 'peer_columns and expressions must be' ],
	[ "iblt_repair('shop.t', $peer, direction => 'pull', peer_columns => '[]')", 'peer_columns and expressions must be' ], [ "iblt_audit($peer, schema => 'shop', mappings => '[]')", 'mappings must be' ],
	[ "iblt_audit($peer, schema => 'shop', mappings => '{\"shop.t\": {}, \"shop.T\": {}}')", 'mappings names a table twice' ],
	[ "iblt_audit($peer, schema => 'shop', mappings => '{\"shop.my t\": {}}')", 'mappings must name tables: string is not a valid identifier: "shop.my t"' ],
	[ "iblt_compare_nodes('shop.t', ARRAY[$two])", 'nodes must be a list' ], [ "iblt_audit_nodes(ARRAY[$two], schema => 'shop')", 'nodes must be a list' ],
	# "here" and n2, if the first one was not looked at
	[ "iblt_compare_nodes('shop.t', '[0:1]={n1,n2}')", 'nodes must be a list' ],
	# an error after the node with the string was left out
	[ "iblt_compare_nodes('shop.t', ARRAY[NULL, 'n1', ${\ literal($string =~ s/port=\d+/port=1/r)}], without => 'skip', recheck => 0, columns => '{nothing}')", '.*nothing' ])
{
	(undef, undef, my $wrong) = $servers[0]->psql('postgres', "SELECT * FROM $_->[0]");
	like($wrong, qr/ERROR:  $_->[1]/, $_->[0] =~ s/\Q$peer\E/.../r);
	$err .= $wrong;
}
foreach my $call ("iblt_audit_run($peer, schema => 'shop')", "iblt_audit_resume(1, $peer)", "iblt_track('shop.t', $peer)", "iblt_track_all($peer, schema => 'shop')")
{
	(undef, undef, my $wrong) = $servers[0]->psql('postgres', "BEGIN; CALL $call");
	like($wrong, qr/ERROR:  iblt_\w+ cannot run inside a transaction block/, 'in a transaction block: ' . $call =~ s/\Q$peer\E/.../r);
	$err .= $wrong;
}
# an error when the rows of a repair are shown
sql('here', 'ALTER FUNCTION iblt_internal.repair_shown_sql(iblt_internal.repair_plan, boolean) RENAME TO nobody_knows');
(undef, undef, my $late) = $servers[0]->psql('postgres', "SELECT * FROM iblt_repair('shop.t', $peer, direction => 'pull', recheck => 0)");
like($late, qr/ERROR:  function repair_shown_sql\(repair_plan, boolean\) does not exist/, 'an error after a repair');
sql('here', 'ALTER FUNCTION iblt_internal.nobody_knows(iblt_internal.repair_plan, boolean) RENAME TO repair_shown_sql');
unlike($err . $late . slurp_file($servers[0]->logfile), qr/secret_of_mine/, 'shows no connection string, nor does the log');
nothing_left('at the end', @servers);

done_testing();
