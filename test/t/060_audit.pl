# iblt_audit on real servers: the answer has every table, with the counts of a
# full comparison; and says why where it has none.
use IbltAudit;
use JSON::PP;

random_seed();
my ($here, $there) = audit_servers();
my $peer = conninfo($there);
my $version = $here->safe_psql('postgres', 'SHOW server_version_num');

# --- a list of tables against the truth ------------------------------------------------

my @names;
foreach my $n (1 .. 8)
{
	my $size = (0, 1, 50, 700, 3000)[ int(rand(5)) ];
	my ($key, $value) = @{ ([ 'int', 'g' ], [ 'uuid', 'md5(g::text)::uuid' ], [ 'text', q('k ' || g) ]) [ int(rand(3)) ] };
	push @names, "t$n";
	both("CREATE TABLE t$n (id $key PRIMARY KEY, v text, at timestamptz);
		INSERT INTO t$n SELECT $value, md5(g::text), '2026-01-01 UTC'::timestamptz + g * interval '1 s' FROM generate_series(1, $size) g");
	next if $n == 1 || rand() < 0.25;
	my $random = rand();
	foreach my $node ($here, $there)
	{
		my $where = sub { 'id IN (SELECT id FROM (SELECT id FROM t' . $n . ' ORDER BY id) AS i ORDER BY random() LIMIT ' . int(rand(20)) . ')' };
		$node->safe_psql('postgres', "SELECT setseed(${\ rand()}); DELETE FROM t$n WHERE ${\ $where->()};
			UPDATE t$n SET v = 'drift on ${\ $node->name}' WHERE ${\ $where->()}; UPDATE t$n SET at = NULL WHERE ${\ $where->()}");
	}
}
{
	my $list = "tables => '{" . join(',', reverse(@names), $names[2]) . "}'";
	my $log = -s $there->logfile;
	my ($got, $err, $rows) = audit($list);
	is(scalar(() = slurp_file($there->logfile, $log) =~ /connection authorized/g), 1, 'one connection for all');
	is(join(' ', map { $_->{relation} } @$rows), join(' ', map { "public.$_" } reverse @names), 'one row a table, in the order given, none twice');
	foreach my $name (@names)
	{
		my $row = $got->{"public.$name"};
		is(line($row), counts($name), "$name: status and counts are those of a full comparison");
		is($row->{peer_relation}, "public.$name", 'with its name there');
		ok($row->{bytes} > 100 && $row->{bytes} < 100000 && $row->{total_ms} > 0, 'bytes and total_ms are of this table alone')
		  or note("$row->{bytes} $row->{total_ms}");
		is($row->{detail} // $row->{sqlstate}, undef, 'and nothing more to say');
	}
	is($err, '', 'no notices');
}
{
	my ($got, $err) = audit("tables => '{t1,t2}', progress => true");
	like($err, qr/NOTICE:  comparing public\.t1 with.*NOTICE:  table 1 of 2, public\.t1: equal.*NOTICE:  table 2 of 2, public\.t2/s, 'progress => true');
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('t1', $peer); SELECT count(*) FROM iblt_audit($peer, '{t2}');
		SELECT relation FROM iblt_compare_stats(); SELECT count(*), count(differences) FROM iblt_audit_stats()"), "0\n1\npublic.t1\n1|0", 'iblt_compare_stats() still speaks of the last iblt_compare, and no row is kept unless it is asked for');
	my $log = -s $there->logfile;
	audit("tables => '{t2}', seed => 4711", peer => literal($there->connstr('postgres') . " options='-c log_statement=all'"));
	like(slurp_file($there->logfile, $log), qr/iblt_compare_template\(\d+, \d+, '+4711'+\)/, 'seed => 4711');
	my $session = IbltTest::Session->new($here);
	is($session->run("SELECT count(*) FROM iblt_audit($peer, '{t2}')"), '1', 'an audit in a session that goes on');
	nothing_left('after it', $there);
	$session->quit;
	($got) = audit("tables => '{t2,t3}'", node => $there);
	is(line($got->{"public.$_"}), counts($_, node => $there), "$_ from the other side") foreach qw(t2 t3);
}

# --- what cannot be compared --------------------------------------------------------------

both('CREATE TABLE typed (id int PRIMARY KEY, v int); CREATE TABLE wide (id int PRIMARY KEY, v int); CREATE TABLE much (id int PRIMARY KEY, v int);
	CREATE TABLE no_here (id int PRIMARY KEY); CREATE TABLE no_there (id int PRIMARY KEY); CREATE TABLE narrow (id int PRIMARY KEY); CREATE TABLE other_kind (id int);
	INSERT INTO wide SELECT g, g FROM generate_series(1, 100) g; INSERT INTO typed TABLE wide; INSERT INTO much SELECT g, g FROM generate_series(1, 3000) g');
$here->safe_psql('postgres', 'DROP TABLE no_here; ALTER TABLE wide ADD "Only here" int DEFAULT 7');
$there->safe_psql('postgres', 'DROP TABLE no_there; ALTER TABLE wide ADD z int, ADD "y\'" int; ALTER TABLE typed ALTER v TYPE bigint; UPDATE much SET v = -v;
	UPDATE wide SET v = 0 WHERE id = 9; DROP TABLE other_kind; CREATE TABLE for_index (id int); CREATE INDEX other_kind ON for_index (id)');
my $odd = "tables => '{typed,wide,no_there,much,other_kind,t1}', max_differences => 1000";
{
	my ($got, $err) = audit("$odd, extra_columns => 'warn'");
	is(join(' ', map { s/public\.//r } sort keys %$got), 'much no_there other_kind t1 typed wide', 'a row for each');
	is($err, '', 'and no warnings');
	is(line($got->{'public.typed'}) . " $got->{'public.typed'}{sqlstate}", 'not comparable - - - - - - 42804', 'another type');
	is($got->{'public.typed'}{detail}, 'column types differ: "v" is integer here and bigint on the peer; set cast_types => true, or leave the columns out by iblt_compare', 'which is named, with what to do');
	is(line($got->{'public.wide'}), 'differs 100 100 0 0 1 0', 'columns on one side only are left out');
	is($got->{'public.wide'}{differences}, undef, 'and the row that differs is not kept, because no rows were asked for');
	is($got->{'public.wide'}{detail}, 'columns only here: "Only here"; columns only on the peer: "y\'", "z"', 'and named in the detail');
	is(line($got->{'public.no_there'}) . " $got->{'public.no_there'}{sqlstate}", 'not comparable - - - - - - 42P01', 'no such table there');
	is($got->{'public.no_there'}{peer_relation}, undef, 'so it has no name there');
	is(line($got->{'public.much'}) . " $got->{'public.much'}{sqlstate}", 'differs 3000 3000 - - - - IB002', 'too many differences: it differs, and the rows were counted');
	is(line((audit("tables => '{much}', max_differences => 1000, method => 'plain'"))[0]->{'public.much'}), 'differs 3000 3000 - - - -', 'by plain queries, too');
	like($got->{'public.much'}{detail}, qr/^too many differences: (about )?\d{4} keys differ, and max_differences is 1000/, 'how many is in the detail');
	is("$got->{'public.other_kind'}{status} $got->{'public.other_kind'}{sqlstate}", 'not comparable 42809', 'an index there')
	  or note($got->{'public.other_kind'}{detail});
	is(line($got->{'public.t1'}), counts('t1'), 'the last one is compared in spite of all');
	my ($alone) = audit("tables => '{t1}', max_differences => 1000");
	cmp_ok($got->{'public.t1'}{bytes} - $alone->{'public.t1'}{bytes}, '<', 1000, 'and its bytes are not those of a table that failed before it')
	  or note("$got->{'public.t1'}{bytes} $alone->{'public.t1'}{bytes}");
	($got) = audit("$odd, cast_types => true");
	is(line($got->{'public.typed'}), 'equal 100 100 0 0 0 0', 'cast_types => true');
	is(line($got->{'public.wide'}) . " $got->{'public.wide'}{sqlstate}", 'not comparable - - - - - - 42703', 'columns on one side only, unless they may be there');
	like($got->{'public.wide'}{detail}, qr/only here: "Only here"; only on the peer: /, 'which are named');
	($got) = audit("tables => ARRAY[4000000000::oid::regclass, 't1']");
	is($got->{'"4000000000"'}{status}, 'not comparable', 'a table that does not exist is a row');
	is(line($got->{'public.t1'}), counts('t1'), 'and the next one is compared');
}

like(failure("SELECT * FROM iblt_audit($peer, '{t1}', 'public')"), qr/22023: at most one of tables, schema, publication and subscription/, 'two things to audit are an error');
like(failure("SELECT * FROM iblt_audit(NULL, '{t1}')"), qr/22004: peer must not be null.*iblt_compare/s, 'no peer is an error');
like(failure("SELECT * FROM iblt_audit($peer, '{t1,NULL}')"), qr/22004: tables must not contain nulls/, 'a NULL among the tables is an error');
like(failure("SELECT * FROM iblt_audit($peer, '{}')"), qr/P0002: there are no tables to audit/, 'no tables are an error, not an empty answer');
like(failure("CREATE SCHEMA nothing; SELECT * FROM iblt_audit($peer, schema => 'nothing')"), qr/P0002: there are no tables to audit in schema "nothing"/, 'an empty schema, too');
like(failure("SELECT * FROM iblt_audit($peer, schema => 'no such')"), qr/3F000: schema "no such" exists neither here nor on the peer/, 'a schema that does not exist');
$there->safe_psql('postgres', 'CREATE SCHEMA theirs; CREATE TABLE theirs.t (id int PRIMARY KEY); CREATE SCHEMA nothing');
foreach my $method (qw(sketch plain))
{
	my ($got) = audit("schema => 'theirs', method => '$method'");
	is(join(' ', map { "$_ $got->{$_}{status}: $got->{$_}{detail}" } sort keys %$got), 'theirs.t not comparable: the table does not exist here', "$method: a schema that only the peer has");
	($got) = audit("schema => 'theirs', method => '$method'", node => $there, peer => conninfo($here));
	like(join(' ', map { "$_ $got->{$_}{status}: $got->{$_}{detail}" } sort keys %$got), qr/^theirs\.t not comparable: relation theirs\.t does not exist on the peer/, "$method: or only this side");
}
like(failure("SELECT * FROM iblt_audit($peer, schema => 'nothing')"), qr/there are no tables to audit in schema "nothing"/, 'an empty one that only the peer has');
$there->safe_psql('postgres', 'DROP SCHEMA theirs CASCADE; DROP SCHEMA nothing');
like(failure("SELECT * FROM iblt_audit($peer, publication => 'no such')"), qr/42704: publication "no such" exists neither here nor on the peer/, 'a publication that does not exist');
like(failure("CREATE PUBLICATION nothing; SELECT * FROM iblt_audit($peer, publication => 'nothing')"), qr/P0002: there are no tables to audit in publication "nothing"/, 'one without tables');
like(failure("SELECT * FROM iblt_audit($peer, '{t1}', extra_columns => 'x')"), qr/22023: extra_columns must be/, 'options are checked first');
like(failure("SELECT * FROM iblt_audit(${\ literal($there->connstr('template1'))}, '{t1}')"), qr/55000: extension iblt is not installed in the peer/, 'and so is one without iblt');
nothing_left('after errors', $here, $there);

# --- a peer that goes away, cancels ----------------------------------------------------------

both('CREATE TABLE slow (id int PRIMARY KEY)');
$there->safe_psql('postgres', q{DROP TABLE slow; CREATE FUNCTION public.wait_here(id int) RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN id; END';
	CREATE TABLE one AS SELECT 1 AS id; CREATE VIEW slow AS SELECT public.wait_here(id) AS id FROM one});
my $sleeping = "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'iblt_audit public.slow' AND wait_event = 'PgSleep'";
foreach my $what ('pg_terminate_backend', 'pg_cancel_backend')
{
	my $job = background($here, 'SELECT to_json(a) FROM ' . audit_stats("iblt_audit($peer, '{t2,slow,t3,t4}')") . ' AS a');
	ok($there->poll_query_until('postgres', $sleeping), 'application_name says which table is at work');
	is($here->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE relation = 't2'::regclass AND mode = 'AccessShareLock'"), '0', 'a table that was compared is not locked any more');
	$there->safe_psql('postgres', "SELECT $what(pid) FROM pg_stat_activity WHERE application_name LIKE 'iblt_audit%'");
	finish($job);
	my %got = map { my $r = JSON::PP->new->decode($_); ($r->{relation} => $r) } split /\n/, $job->{out};
	is($got{'public.slow'}{status}, 'error', "$what there: this table is an error");
	like($got{'public.slow'}{detail}, qr/^on the peer: /, 'which says so');
	is(line($got{"public.$_"}), counts($_), "$_, before or after, is compared") foreach qw(t2 t3 t4);
	is($job->{err}, '', 'and nothing else');
	nothing_left("after $what there", $here, $there);
}
{
	my ($got) = audit("tables => '{t2,slow,t3}'", peer => literal($there->connstr('postgres') . " options='-c statement_timeout=2s'"));
	is("$got->{'public.slow'}{status} $got->{'public.slow'}{sqlstate}", 'error IB005', 'the peer\'s statement_timeout ends one table');
	is(line($got->{"public.$_"}), counts($_), "and $_ is compared") foreach qw(t2 t3);
}

# a peer that does not come back
{
	# equal ones would be compared together with t2
	both('CREATE TABLE u3 (id int PRIMARY KEY); CREATE TABLE u4 (id int PRIMARY KEY)');
	$here->safe_psql('postgres', 'INSERT INTO u3 VALUES (1); INSERT INTO u4 VALUES (1)');
	my $job = background($here, 'SELECT to_json(a) FROM ' . audit_stats("iblt_audit($peer, '{t2,slow,u3,u4}')") . ' AS a');
	my $t2 = counts('t2');
	ok($there->poll_query_until('postgres', $sleeping), 'once more');
	$there->stop('fast');
	finish($job);
	$there->start;
	my %got = map { my $r = JSON::PP->new->decode($_); ($r->{relation} => $r) } split /\n/, $job->{out};
	is(line($got{'public.t2'}), $t2, 'a peer that is shut down: what was compared before is in the answer');
	is($got{"public.$_"}{status}, 'error', "$_ is an error") foreach qw(slow u3 u4);
	like($got{'public.u4'}{detail}, qr/^could not connect to the peer/, 'which says why');
	is($got{'public.u4'}{rows_here} // $got{'public.u4'}{missing}, undef, 'and no counts');
	nothing_left('after a peer that was shut down', $here, $there);
	both('DROP TABLE u3, u4');
}

# --- schemas --------------------------------------------------------------------------------

both(q{CREATE SCHEMA s; CREATE SCHEMA apart;
	CREATE TABLE s.root (id int, k int) PARTITION BY LIST (k); CREATE TABLE s.leaf1 PARTITION OF s.root FOR VALUES IN (1);
	CREATE TABLE s.leaf2 PARTITION OF s.root FOR VALUES IN (2) PARTITION BY RANGE (id); CREATE TABLE s.leaf2a PARTITION OF s.leaf2 DEFAULT;
	CREATE TABLE apart.root (id int, k int) PARTITION BY LIST (k); CREATE TABLE s.stray PARTITION OF apart.root DEFAULT;
	INSERT INTO s.root SELECT g, 1 + g % 2 FROM generate_series(1, 200) g; INSERT INTO apart.root SELECT g, g FROM generate_series(1, 10) g;
	CREATE TABLE s.plain_there (id int, k int) PARTITION BY LIST (k); CREATE TABLE s.plain_leaf PARTITION OF s.plain_there DEFAULT;
	CREATE TABLE s.view_there (id int); CREATE VIEW s.a_view AS SELECT 1 AS id; CREATE SEQUENCE s.a_sequence; CREATE TABLE s.here_a_partition (id int, k int);
	CREATE TABLE s.parent (id int); CREATE TABLE s.child () INHERITS (s.parent); INSERT INTO s.child VALUES (1)});
$here->safe_psql('postgres', 'CREATE TABLE s.only_here (id int); DROP TABLE s.here_a_partition; CREATE TABLE s.here_a_partition PARTITION OF s.root DEFAULT');
$there->safe_psql('postgres', 'CREATE TABLE s.only_there (id int); DROP TABLE s.plain_there; CREATE TABLE s.plain_there (id int, k int); DROP TABLE s.view_there; CREATE VIEW s.view_there AS SELECT 1 AS id;
	DELETE FROM s.root WHERE id IN (3, 4, 5); INSERT INTO apart.root VALUES (11, 11); INSERT INTO s.here_a_partition VALUES (1, 1)');
my %schema = (root => 'differs 200 197 0 3 0 0', stray => 'differs 10 11 1 0 0 0', plain_there => 'equal 0 0 0 0 0 0', view_there => 'not comparable - - - - - -',
	only_here => 'not comparable - - - - - -', only_there => 'not comparable - - - - - -', here_a_partition => 'differs 0 1 1 0 0 0',
	parent => 'equal 1 1 0 0 0 0', child => 'equal 1 1 0 0 0 0');
{
	my ($got) = audit("schema => 's'");
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { map { ("s.$_" => $schema{$_}) } keys %schema },
		'a schema: every table of either side, and a partition only where its root is elsewhere');
	is("$got->{'s.only_there'}{detail}, " . ($got->{'s.only_there'}{relation} // 'NULL'), 'the table does not exist here, s.only_there', 'one that is only there');
	($got) = audit("schema => 's'", node => $there);
	is_deeply([ sort keys %$got ], [ sort map { "s.$_" } grep { $_ ne '' } keys %schema ], 'and the same tables from the other side');
	is("$got->{'s.only_here'}{detail}, $got->{'s.only_here'}{relation}", 'the table does not exist here, s.only_here', 'where it is the other that does not exist');
}

# --- publications ---------------------------------------------------------------------------

both('CREATE TABLE pub_a (id int PRIMARY KEY, v int, hidden int, twice int GENERATED ALWAYS AS (v * 2) STORED, key text);
	CREATE TABLE pub_b (id int PRIMARY KEY, v int); CREATE TABLE pub_root (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
	CREATE TABLE pub_low PARTITION OF pub_root FOR VALUES FROM (MINVALUE) TO (100); CREATE TABLE pub_high PARTITION OF pub_root FOR VALUES FROM (100) TO (MAXVALUE)');
both("INSERT INTO pub_a (id, v, hidden, key) SELECT g, g, g, 'k' FROM generate_series(1, 200) g; INSERT INTO pub_b SELECT g, g FROM generate_series(1, 200) g; INSERT INTO pub_root TABLE pub_b");
$here->safe_psql('postgres', 'UPDATE pub_a SET hidden = -1 WHERE id < 50');
$there->safe_psql('postgres', 'UPDATE pub_a SET v = -1 WHERE id IN (150, 3); DELETE FROM pub_b WHERE id IN (7, 8); DELETE FROM pub_root WHERE id IN (7, 107, 108)');
$here->safe_psql('postgres', q{CREATE PUBLICATION leaves FOR TABLE pub_b, pub_root WITH (publish = 'insert, truncate');
	CREATE PUBLICATION via_root FOR TABLE pub_root WITH (publish_via_partition_root = true)});
foreach my $node ($here, $there)
{
	my ($low, $high, $all, $b) = $node == $here ? ('0 1 0 0', '0 2 0 0', '0 3 0 0', '0 2 0 0') : ('1 0 0 0', '2 0 0 0', '3 0 0 0', '2 0 0 0');
	my $turn = sub { my ($mine, $theirs) = @_; return $node == $here ? "$mine $theirs" : "$theirs $mine" };
	my ($got) = audit("publication => 'leaves'", node => $node);
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'public.pub_b' => "differs ${\ $turn->(200, 198)} $b",
			'public.pub_low' => "differs ${\ $turn->(99, 98)} $low", 'public.pub_high' => "differs ${\ $turn->(101, 99)} $high" },
		'a publication, from ' . $node->name);
	is($got->{'public.pub_b'}{detail}, 'not published: update, delete', 'which does not publish all operations');
	($got) = audit("publication => 'via_root'", node => $node);
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'public.pub_root' => "differs ${\ $turn->(200, 197)} $all" }, 'publish_via_partition_root');
}
if ($version >= 150000)
{
	$here->safe_psql('postgres', q{CREATE PUBLICATION part FOR TABLE pub_a (id, v) WHERE (id <= 100), pub_b WHERE (id % 2 = 0);
		CREATE PUBLICATION part2 FOR TABLE pub_b WHERE (id < 20 AND id <> 11)});
	my ($got) = audit("publication => 'part'");
	is(line($got->{'public.pub_a'}), counts('pub_a', columns => 'id, v', where => 'id <= 100', peer_where => 'id <= 100'), 'a column list and a row filter');
	is(line($got->{'public.pub_a'}), 'differs 100 100 0 0 1 0', 'which leave one difference');
	is($got->{'public.pub_a'}{detail}, 'columns not published: "hidden", "key"; row filter ((id <= 100)) on both sides, since rows of the subscriber may be from elsewhere', 'as the detail says');
	is(line($got->{'public.pub_b'}), 'differs 100 99 0 1 0 0', 'a row filter alone');
	($got) = audit("publication => 'part'", node => $there);
	is("$got->{'public.pub_b'}{status} $got->{'public.pub_b'}{sqlstate}", 'not comparable 0A000', 'from the other side: its filter is not run here');
	($got) = audit("publication => 'part', trust_filters => true", node => $there);
	is(line($got->{'public.pub_b'}), 'differs 99 100 1 0 0 0', 'from the other side');
	$here->safe_psql('postgres', 'CREATE PUBLICATION schema_too FOR TABLES IN SCHEMA s, TABLE pub_a WHERE (id = 99)');
	($got) = audit("publication => 'schema_too'");
	is(line($got->{'public.pub_a'}), 'equal 1 1 0 0 0 0', 'tables in a schema beside a table');
	is($got->{'s.only_here'}{status}, 'not comparable', 'of which one does not exist there');
	$here->safe_psql('postgres', 'DROP PUBLICATION schema_too');
}

# --- a hostile search_path ---------------------------------------------------------------------------------

# names and operators that hide those of pg_catalog
both(q{CREATE SCHEMA evil; CREATE FUNCTION evil.format(text, VARIADIC text[]) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	CREATE FUNCTION evil.hijack(int, int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	CREATE OPERATOR evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.hijack); CREATE OPERATOR evil.> (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.hijack);
	CREATE VIEW evil.pg_subscription AS SELECT 'x'::name AS subname; CREATE VIEW evil.pg_class AS SELECT 1 AS oid;
	ALTER DATABASE postgres SET search_path = evil, pg_catalog, public});
{
	my ($got) = audit("tables => '{t2,t3}'");
	is(line($got->{"public.$_"}), counts($_), "$_, with a hostile search_path on both sides") foreach qw(t2 t3);
	($got) = audit("schema => 's'");
	is(line($got->{'s.root'}), $schema{root}, 'and a schema');
}
both('ALTER DATABASE postgres RESET search_path');

nothing_left('in the end', $here, $there);

done_testing();
