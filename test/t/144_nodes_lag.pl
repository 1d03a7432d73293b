# Rows in flight between nodes that replicate in a chain and as a star, of which a server in between is not compared, and what a
# repair changes.  Also what it says of views that have a vote.
# IbltScenarios.pm has the rest.
use IbltTest;

# The rows flow from a on the first server to b and d on the second, and from b to c there.
# The database "postgres" of the second conducts.
my @servers = (ready('one'), ready('two'));
my %nodes = (a => $servers[0], b => $servers[1], c => $servers[1], d => $servers[1]);
sides($servers[1], $servers[0]);

sub sql { my ($name, $sql) = @_; return $nodes{$name}->safe_psql($name, $sql) }
sub here { my ($sql) = @_; return $servers[1]->safe_psql('postgres', $sql) }

foreach my $name (sort keys %nodes)
{
	my $server = $nodes{$name};
	$server->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE postgres");
	sql($name, 'CREATE SCHEMA shop; CREATE TABLE shop.t (id int PRIMARY KEY, v int); CREATE TABLE shop.u (id int PRIMARY KEY); CREATE TABLE shop.other (id int PRIMARY KEY)');
	here(sprintf("CREATE SERVER $name FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host %s, port '%s', dbname '$name'); CREATE USER MAPPING FOR CURRENT_USER SERVER $name", literal($server->host), $server->port));
}
sql('a', 'INSERT INTO shop.t SELECT g, g FROM generate_series(1, 20) g; INSERT INTO shop.u VALUES (1)');

# A slot that is made before does not wait for the transaction that creates the subscription.
sub feed
{
	my ($from, $to, $copy) = @_;
	sql($from, "SELECT pg_create_logical_replication_slot('${from}_$to', 'pgoutput')");
	sql($to, "CREATE SUBSCRIPTION ${from}_$to CONNECTION ${\ literal($nodes{$from}->connstr($from))} PUBLICATION pub WITH (create_slot = false, slot_name = ${from}_$to)");
	$nodes{$to}->poll_query_until($to, q{SELECT count(*) = 2 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel}) or die "$to is not fed";
	return;
}
sql($_, 'CREATE PUBLICATION pub FOR TABLE shop.t, shop.u') foreach qw(a b);
feed('a', 'b');
feed('a', 'd');
feed('b', 'c');

sub wait_on { my ($name, $query) = @_; return $nodes{$name}->poll_query_until($name, $query) || die "not so on $name: $query" }
sub caught_up { my ($query) = @_; wait_on($_, $query) foreach qw(a b c d); return }
sub list { return "'{" . join(',', @_) . "}'" }

# The lines "id deviate confirmed", in order, on one line.
my $notices;
sub compare
{
	my ($nodes, $options) = @_;
	my ($rc, $out, $err) = $servers[1]->psql('postgres', "SET client_min_messages = notice; SELECT concat_ws(' ', key ->> 'id', deviate, confirmed) FROM iblt_compare_nodes('shop.t', " . list(@$nodes) . ($options ? ", $options" : '') . ") ORDER BY key");
	$notices = $err;
	return $err =~ /(ERROR: .*(?:\n(?:DETAIL|HINT): .*)*)/ ? $1 : join ', ', split /\n/, $out;
}

# How often an audit of two tables says that replication has not moved since it waited.
sub waited_once
{
	my ($rc, $out, $err) = $servers[1]->psql('postgres', "SELECT FROM iblt_audit_nodes('{a,d}', tables => '{shop.t,shop.u}', timeout => '1.5 s', progress => true)");
	return scalar(() = $err =~ /replication has not moved, and is not waited for again/g);
}

# A session that keeps a node from applying.
sub blocking
{
	my ($name) = @_;
	my $session = IbltTest::Session->new($nodes{$name}, $name);
	$session->run('BEGIN; LOCK TABLE shop.t IN SHARE MODE');
	return $session;
}

# --- what is confirmed --------------------------------------------------------------------

caught_up('SELECT count(*) = 20 FROM shop.t');
sql('d', 'DELETE FROM shop.u');
{
	my $blocking = blocking('d');
	sql('a', 'INSERT INTO shop.t VALUES (30, 0)');
	wait_on('c', 'SELECT count(*) = 1 FROM shop.t WHERE id = 30');
	is(waited_once(), 1, 'an audit of two tables does not wait for the same again');
	is(here("SELECT string_agg(DISTINCT status, ' ') FROM iblt_repair_nodes('shop.t', '{a,b,c,d}', apply => true, method => '$_', timeout => '1 s')"), 'skipped', "$_: what is held up is not repaired") foreach qw(sketch plain);
	$blocking->quit;
	caught_up('SELECT count(*) = 1 FROM shop.t WHERE id = 30');
}

# A server that is not a node stands between two nodes, or feeds both.  Nobody can wait for it.
sql('c', 'UPDATE shop.t SET v = 0 WHERE id = 3');
foreach my $case ([ 'a chain without its middle', [qw(a c)], 'c', '3 {c} f, 50 {c} f' ], [ 'a star without its hub', [qw(b d)], 'd', '51 {d} f' ])
{
	my ($text, $compared, $held, $expected) = @$case;
	my ($id) = $expected =~ /(5\d)/;
	my $blocking = blocking($held);
	sql('a', "INSERT INTO shop.t VALUES ($id, 0)");
	wait_on('b', "SELECT count(*) = 1 FROM shop.t WHERE id = $id");
	is(compare($compared), $expected, "$text: nothing is confirmed");
	like($notices, qr/WARNING:  replication of this relation is not ready, differences cannot be confirmed\nDETAIL:  .*or servers that are not compared replicate to these/, 'with a warning');
	like(here("SELECT concat_ws(' ', status, differences, unconfirmed, detail) FROM iblt_audit_nodes(" . list(@$compared) . ", tables => '{shop.t}')"),
		qr/^not comparable (\d) \1 differences cannot be confirmed: replication of this table is not ready \(.* or servers that are not compared replicate to these/, "$text: an audit says why");
	$blocking->quit;
	caught_up("SELECT count(*) = 1 FROM shop.t WHERE id = $id");
}
is(compare([qw(a c)], 'recheck => 0'), '3 {c}', 'without a recheck, nothing is claimed');
is(compare([qw(b c)]), '3 {c} t', 'what the first of two nodes is fed with is no matter to the second');
is(compare([qw(a b)]), '', 'two that are equal');
is($notices, '', 'without a warning');
sql('c', 'UPDATE shop.t SET v = 3 WHERE id = 3');

# --- who has a vote -------------------------------------------------------------------------------

# A view that asks another node by a function, a materialized view, and a view of a table.
sql($_, 'CREATE SCHEMA far; CREATE TABLE far.t (id int PRIMARY KEY, v int); INSERT INTO far.t VALUES (1, 1)') foreach qw(a b);
sql('c', 'CREATE SCHEMA far');
my $asks = "SELECT * FROM dblink(${\ literal($nodes{b}->connstr('b'))}, 'SELECT id, v FROM far.t') AS x(id int, v int)";
sql('b', 'UPDATE far.t SET v = 2');
foreach my $case ([ 'a view that asks another node', "CREATE VIEW far.t AS $asks" ], [ 'a materialized view that has asked it', "CREATE MATERIALIZED VIEW far.t AS $asks" ], [ 'a view of a table', 'CREATE TABLE far.u (id int, v int); CREATE VIEW far.t AS TABLE far.u' ])
{
	my ($text, $make) = @$case;
	sql('c', $make);
	foreach my $method (qw(sketch plain))
	{
		my $options = "key_columns => '{id}', recheck => 0, method => '$method'";
		like(failure("SELECT * FROM iblt_repair_nodes('far.t', '{a,b,c}', apply => true, $options)"), qr/22023: relation far\.t of node "c" is not a table\nDETAIL:  Its rows may come from another node, and both would have a vote for them\.\nHINT:  Leave that node out, or name a source\./, "$method: $text has no vote in a repair");
		is(sql('a', 'SELECT v FROM far.t'), 1, 'and outvotes nobody');
		is(here("SELECT node, status FROM iblt_repair_nodes('far.t', '{a,b}', source => 'b', $options)"), 'a|preview', 'with a source, nobody votes');
	}
	sql('c', 'DROP ' . ($make =~ /MATERIALIZED/ ? 'MATERIALIZED ' : '') . 'VIEW far.t');
}
nothing_left('at the end', @servers);

sql('c', 'DROP SUBSCRIPTION b_c');
sql($_, "DROP SUBSCRIPTION a_$_") foreach qw(b d);

done_testing();
