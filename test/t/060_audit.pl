# iblt_audit and iblt_audit_subscription on real servers: the answer has every
# table, with the counts of a full comparison; and says why where it has none.
use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{IBLT_TEST_SEED} || (time() ^ $$) % 1000000;
srand($seed);
note("seed $seed");

# --- two servers and what is asked of them ------------------------------------------

sub server
{
	my ($name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 'logical', extra => [ '-E', 'UTF8', '--no-locale' ]);
	$node->append_conf('postgresql.conf', join("\n", "max_worker_processes = 20", "max_logical_replication_workers = 12",
			"max_replication_slots = 12", "max_wal_senders = 14", "wal_retrieve_retry_interval = 100ms",
			"log_statement = none", "log_min_messages = warning", "wal_receiver_status_interval = 1s", @settings) . "\n");
	$node->start;
	return $node;
}

my $here = server('here', "timezone = 'Asia/Kolkata'", "datestyle = 'German'");
my $there = server('there', "bytea_output = 'escape'", 'log_connections = on');
my $version = $here->safe_psql('postgres', 'SHOW server_version_num');

# The extensions are in schemas that no search_path has, with awkward names.
$here->safe_psql('postgres', q{CREATE SCHEMA "db ""link"; CREATE EXTENSION dblink SCHEMA "db ""link"; CREATE EXTENSION iblt});
$there->safe_psql('postgres', q{CREATE EXTENSION dblink; CREATE SCHEMA "Their Iblt"; CREATE EXTENSION iblt SCHEMA "Their Iblt"});

sub both
{
	my ($sql) = @_;
	$_->safe_psql('postgres', $sql) foreach ($here, $there);
	return;
}

sub literal
{
	my ($text) = @_;
	$text =~ s/'/''/g;
	return "'$text'";
}

sub function
{
	my ($node, $name) = @_;
	return $node == $there ? qq("Their Iblt".$name) : $name;
}

sub other { my ($node) = @_; return $node == $here ? $there : $here }

my $peer = literal($there->connstr('postgres'));

# The rows of an audit, by name; and what it wrote beside them.
sub rows
{
	my ($sql, %how) = @_;
	my ($rc, $out, $err) = ($how{node} // $here)->psql('postgres', ($how{setup} // '') . "SELECT to_json(a) FROM $sql AS a",
		extra_params => [ '-q', $how{user} ? ('-U', $how{user}) : () ]);
	die "$sql: $err" if $rc != 0;
	my @rows = map { JSON::PP->new->utf8->decode($_) } split /\n/, $out;
	my %by_name;
	foreach my $row (@rows)
	{
		my $name = $row->{relation} // $row->{peer_relation};
		die "$name is there twice" if $by_name{$name};
		$by_name{$name} = $row;
	}
	return (\%by_name, $err, \@rows);
}

sub audit
{
	my ($options, %how) = @_;
	my $node = $how{node} // $here;
	return rows(function($node, 'iblt_audit') . '(' . ($how{peer} // literal(other($node)->connstr('postgres'))) . ", $options)", %how);
}

sub audit_subscription
{
	my ($options, %how) = @_;
	return rows(function($how{node} // $there, 'iblt_audit_subscription') . "($options)", node => $there, %how);
}

# A row in one line: status, rows here and there, missing, extra, changed, unconfirmed.
sub line
{
	my ($row) = @_;
	return 'no such row' unless $row;
	return join ' ', map { $_ // '-' } @$row{qw(status rows_here rows_there missing extra changed unconfirmed)};
}

# The same from a full comparison.  Without a key column, whole rows are counted.
sub truth
{
	my ($table, %how) = @_;
	my $node = $how{node} // $here;
	my $key = $how{key} // 'id';
	my $columns = $how{columns} // '*';
	my (@count, %all, %rows);
	foreach my $side (0, 1)
	{
		my $where = $side ? $how{peer_where} : $how{where};
		my $text = ($side ? other($node) : $node)->safe_psql('postgres', "SET timezone = 'UTC'; SET bytea_output = 'hex';
			SELECT to_json(t.$key), to_jsonb(t) FROM (SELECT $columns FROM $table" . ($where ? " WHERE $where" : '') . ') AS t');
		foreach my $line (split /\n/, $text)
		{
			my ($k, $row) = split /\|/, $line, 2;
			$count[$side]++;
			$all{$k} = 1;
			$rows{$k}[$side] = $row;
		}
	}
	my @differ = grep { ($rows{$_}[0] // '') ne ($rows{$_}[1] // '') } keys %all;
	my ($missing, $extra) = map { my $side = $_; scalar grep { !defined $rows{$_}[$side] } @differ } (0, 1);
	return join ' ', @differ ? 'differs' : 'equal', $count[0] // 0, $count[1] // 0, $missing, $extra, @differ - $missing - $extra, 0;
}

# What goes wrong, as one text; '' if nothing does.
sub failure
{
	my ($sql, %how) = @_;
	my ($rc, $out, $err) = ($how{node} // $here)->psql('postgres', "\\set VERBOSITY verbose\n$sql",
		($how{user} ? (extra_params => [ '-U', $how{user} ]) : ()));
	return $rc == 0 ? '' : $err;
}

sub nothing_left
{
	my ($text) = @_;
	foreach my $node ($here, $there)
	{
		ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'iblt%'"),
			"$text: no connection is left on " . $node->name);
	}
	return;
}

sub in_background
{
	my ($node, $sql) = @_;
	my %job = (out => '', err => '');
	$job{run} = IPC::Run::start([ 'psql', '-X', '-At', '-q', '-d', $node->connstr('postgres'), '-c', $sql ],
		'<', \'', '>', \$job{out}, '2>', \$job{err});
	return \%job;
}

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
	is(join(' ', map { $_->{relation} } @$rows), join(' ', map { "public.$_" } reverse @names), 'one row a table, in the order given, none twice');
	foreach my $name (@names)
	{
		my $row = $got->{"public.$name"};
		is(line($row), truth($name), "$name: status and counts are those of a full comparison");
		is($row->{peer_relation}, "public.$name", 'with its name there');
		ok($row->{bytes} > 100 && $row->{bytes} < 100000 && $row->{seconds} >= 0, 'bytes and seconds are of this table alone')
		  or note("$row->{bytes} $row->{seconds}");
		is($row->{detail} // $row->{sqlstate}, undef, 'and nothing more to say');
	}
	is($err, '', 'no notices');
	is(scalar(() = slurp_file($there->logfile, $log) =~ /connection authorized/g), 1 + @names, 'one connection for all (and one a table by this test)');
}
{
	my ($got, $err) = audit("tables => '{t1,t2}', progress => true");
	like($err, qr/NOTICE:  comparing public\.t1 with.*NOTICE:  table 1 of 2, public\.t1: equal.*NOTICE:  table 2 of 2, public\.t2/s, 'progress => true');
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('t1', $peer); SELECT count(*) FROM iblt_audit($peer, '{t2}');
		SELECT relation FROM iblt_compare_stats()"), "0\n1\npublic.t1", 'iblt_compare_stats() still speaks of the last iblt_compare');
	($got) = audit("tables => '{t2,t3}'", node => $there);
	is(line($got->{"public.$_"}), truth($_, node => $there), "$_ from the other side") foreach qw(t2 t3);
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
	my ($got, $err) = audit($odd);
	is(join(' ', map { s/public\.//r } sort keys %$got), 'much no_there other_kind t1 typed wide', 'a row for each');
	is($err, '', 'and no warnings');
	is(line($got->{'public.typed'}) . " $got->{'public.typed'}{sqlstate}", 'not comparable - - - - - - 42804', 'another type');
	is($got->{'public.typed'}{detail}, 'column types differ: "v" is integer here and bigint on the peer', 'which is named');
	is(line($got->{'public.wide'}), 'differs 100 100 0 0 1 0', 'columns on one side only are left out');
	is($got->{'public.wide'}{detail}, 'columns only here: "Only here"; columns only on the peer: "y\'", "z"', 'and named in the detail');
	is(line($got->{'public.no_there'}) . " $got->{'public.no_there'}{sqlstate}", 'not comparable - - - - - - 42P01', 'no such table there');
	is($got->{'public.no_there'}{peer_relation}, undef, 'so it has no name there');
	is(line($got->{'public.much'}) . " $got->{'public.much'}{sqlstate}", 'differs - - - - - - IB002', 'too many differences: it differs');
	like($got->{'public.much'}{detail}, qr/^too many differences: about \d{4}, and max_differences is 1000/, 'about how many is in the detail');
	is("$got->{'public.other_kind'}{status} $got->{'public.other_kind'}{sqlstate}", 'not comparable 42809', 'an index there')
	  or note($got->{'public.other_kind'}{detail});
	is(line($got->{'public.t1'}), truth('t1'), 'the last one is compared in spite of all');
	($got) = audit("$odd, cast_types => true, extra_columns => 'error'");
	is(line($got->{'public.typed'}), 'equal 100 100 0 0 0 0', 'cast_types => true');
	is(line($got->{'public.wide'}) . " $got->{'public.wide'}{sqlstate}", 'not comparable - - - - - - 42703', 'extra_columns => error');
	like($got->{'public.wide'}{detail}, qr/only here: "Only here"; only on the peer: /, 'which are named');
	($got) = audit("tables => ARRAY[4000000000::oid::regclass, 't1']");
	is($got->{'"4000000000"'}{status}, 'not comparable', 'a table that does not exist is a row');
	is(line($got->{'public.t1'}), truth('t1'), 'and the next one is compared');
}

like(failure("SELECT * FROM iblt_audit($peer)"), qr/22023: exactly one of tables, schema and publication/, 'nothing to audit is an error');
like(failure("SELECT * FROM iblt_audit($peer, '{t1}', 'public')"), qr/22023: exactly one of tables, schema and publication/, 'and so are two things');
like(failure("SELECT * FROM iblt_audit(NULL, '{t1}')"), qr/22004: peer must not be null.*iblt_compare/s, 'no peer is an error');
like(failure("SELECT * FROM iblt_audit($peer, '{t1,NULL}')"), qr/22004: tables must not contain nulls/, 'a NULL among the tables is an error');
like(failure("SELECT * FROM iblt_audit($peer, '{}')"), qr/P0002: there are no tables to audit/, 'no tables are an error, not an empty answer');
like(failure("CREATE SCHEMA nothing; SELECT * FROM iblt_audit($peer, schema => 'nothing')"), qr/P0002: there are no tables to audit in schema "nothing"/, 'an empty schema, too');
like(failure("SELECT * FROM iblt_audit($peer, schema => 'no such')"), qr/3F000: schema "no such" does not exist here/, 'a schema that does not exist');
like(failure("SELECT * FROM iblt_audit($peer, publication => 'no such')"), qr/42704: publication "no such" exists neither here nor on the peer/, 'a publication that does not exist');
like(failure("CREATE PUBLICATION nothing; SELECT * FROM iblt_audit($peer, publication => 'nothing')"), qr/P0002: there are no tables to audit in publication "nothing"/, 'one without tables');
like(failure("SELECT * FROM iblt_audit($peer, '{t1}', extra_columns => 'x')"), qr/22023: extra_columns must be/, 'options are checked first');
like(failure("SELECT * FROM iblt_audit($peer, '{t1}', max_differences => NULL)"), qr/22023: max_differences must be/, 'and must not be null');
like(failure("SELECT * FROM iblt_audit('host=/nonexistent port=1', '{t1}')"), qr/could not connect to the peer/, 'a peer that cannot be reached is an error of the whole');
like(failure("SELECT * FROM iblt_audit(${\ literal($there->connstr('template1'))}, '{t1}')"), qr/55000: extension iblt is not installed in the peer/, 'and so is one without iblt');
like(failure("SELECT * FROM iblt_audit(${\ literal($here->connstr('postgres'))}, '{t1}')"), qr/22023: the peer is this database itself/, 'and so is a peer that is this database');
like(failure("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM iblt_audit($peer, '{t1}', recheck => 2)"), qr/25001: rows cannot be looked at again/, 'no recheck within one snapshot');
nothing_left('after errors');

# --- a peer that goes away, cancels ----------------------------------------------------------

both('CREATE TABLE slow (id int PRIMARY KEY)');
$there->safe_psql('postgres', q{DROP TABLE slow; CREATE FUNCTION public.wait_here(id int) RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN id; END';
	CREATE TABLE one AS SELECT 1 AS id; CREATE VIEW slow AS SELECT public.wait_here(id) AS id FROM one});
my $sleeping = "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'iblt_audit public.slow' AND wait_event = 'PgSleep'";
foreach my $what ('pg_terminate_backend', 'pg_cancel_backend')
{
	my $job = in_background($here, "SELECT to_json(a) FROM iblt_audit($peer, '{t2,slow,t3,t4}') AS a");
	ok($there->poll_query_until('postgres', $sleeping), 'application_name says which table is at work');
	is($here->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE relation = 't2'::regclass"), '0', 'a table that was compared is not locked any more');
	$there->safe_psql('postgres', "SELECT $what(pid) FROM pg_stat_activity WHERE application_name LIKE 'iblt_audit%'");
	$job->{run}->finish;
	my %got = map { my $r = JSON::PP->new->decode($_); ($r->{relation} => $r) } split /\n/, $job->{out};
	is($got{'public.slow'}{status}, 'error', "$what there: this table is an error");
	like($got{'public.slow'}{detail}, qr/^on the peer: /, 'which says so');
	is(line($got{"public.$_"}), truth($_), "$_, before or after, is compared") foreach qw(t2 t3 t4);
	is($job->{err}, '', 'and nothing else');
	nothing_left("after $what there");

	$job = in_background($here, "SELECT to_json(a) FROM iblt_audit($peer, '{t2,slow,t3,t4}') AS a");
	ok($there->poll_query_until('postgres', $sleeping), 'again');
	$here->safe_psql('postgres', "SELECT $what(pid) FROM pg_stat_activity WHERE query LIKE '%iblt_audit%' AND pid <> pg_backend_pid()");
	$job->{run}->finish;
	like($job->{err}, $what =~ /cancel/ ? qr/canceling statement due to user request/ : qr/terminating connection/, "$what here ends it all");
	is($job->{out}, '', 'without an answer');
	nothing_left("after $what here");
}
like(failure("SET statement_timeout = '1s'; SELECT * FROM iblt_audit($peer, '{t2,slow,t3}')"), qr/57014: canceling statement due to statement timeout/, 'a statement_timeout ends it all');
nothing_left('after a statement_timeout');
{
	my ($got) = audit("tables => '{t2,slow,t3}'", peer => literal($there->connstr('postgres') . " options='-c statement_timeout=2s'"));
	is("$got->{'public.slow'}{status} $got->{'public.slow'}{sqlstate}", 'error 57014', 'the peer\'s statement_timeout ends one table');
	is(line($got->{"public.$_"}), truth($_), "and $_ is compared") foreach qw(t2 t3);
}

# a peer that does not come back
{
	my $job = in_background($here, "SELECT to_json(a) FROM iblt_audit($peer, '{t2,slow,t3,t4}') AS a");
	my $t2 = truth('t2');
	ok($there->poll_query_until('postgres', $sleeping), 'once more');
	$there->stop('fast');
	$job->{run}->finish;
	$there->start;
	my %got = map { my $r = JSON::PP->new->decode($_); ($r->{relation} => $r) } split /\n/, $job->{out};
	is(line($got{'public.t2'}), $t2, 'a peer that is shut down: what was compared before is in the answer');
	is($got{"public.$_"}{status}, 'error', "$_ is an error") foreach qw(slow t3 t4);
	like($got{'public.t4'}{detail}, qr/^could not connect to the peer/, 'which says why');
	is($got{'public.t4'}{rows_here} // $got{'public.t4'}{missing}, undef, 'and no counts');
	nothing_left('after a peer that was shut down');
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
my %schema = (root => 'differs 200 197 0 3 0 0', stray => 'differs 10 11 1 0 0 0', plain_there => 'equal 0 0 0 0 0 0', view_there => 'differs 0 1 1 0 0 0',
	only_here => 'not comparable - - - - - -', only_there => 'not comparable - - - - - -', here_a_partition => 'differs 0 1 1 0 0 0',
	parent => 'equal 1 1 0 0 0 0', child => 'equal 1 1 0 0 0 0');
{
	my ($got) = audit("schema => 's'");
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { map { ("s.$_" => $schema{$_}) } keys %schema },
		'a schema: every table of either side, and a partition only where its root is elsewhere');
	is("$got->{'s.only_there'}{detail}, " . ($got->{'s.only_there'}{relation} // 'NULL'), 'the table does not exist here, NULL', 'one that is only there');
	($got) = audit("schema => 's'", node => $there);
	is_deeply([ sort keys %$got ], [ sort map { "s.$_" } grep { $_ ne '' } keys %schema ], 'and the same tables from the other side');
	is($got->{'s.only_here'}{relation}, undef, 'where it is the other that does not exist');
}
{
	my $odd_name = qq{"Sch\x{c3}\x{a9}ma ""x'"."t %I \\ \$1"};
	both(qq{CREATE SCHEMA "Sch\x{c3}\x{a9}ma ""x'"; CREATE TABLE $odd_name ("ID key" int PRIMARY KEY, "caf\x{c3}\x{a9}'s" text); INSERT INTO $odd_name SELECT g, 'v' FROM generate_series(1, 100) g});
	$there->safe_psql('postgres', "UPDATE $odd_name SET \"caf\x{c3}\x{a9}'s\" = NULL WHERE \"ID key\" = 5; DELETE FROM $odd_name WHERE \"ID key\" > 98");
	my ($got, $err, $rows) = audit(qq{schema => 'Sch\x{c3}\x{a9}ma "x'''});
	is(line($rows->[0]), 'differs 100 98 0 2 1 0', 'names with quotes, spaces, upper case, non-ASCII');
	my $again = $rows->[0]{relation};
	utf8::encode($again);
	is($again, $odd_name, 'are shown quoted');
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
SKIP:
{
	skip 'column lists and row filters are of PostgreSQL 15', 1 if $version < 150000;
	$here->safe_psql('postgres', q{CREATE PUBLICATION part FOR TABLE pub_a (id, v) WHERE (id <= 100), pub_b WHERE (id % 2 = 0);
		CREATE PUBLICATION part2 FOR TABLE pub_b WHERE (id < 20 AND id <> 11)});
	my ($got) = audit("publication => 'part'");
	is(line($got->{'public.pub_a'}), truth('pub_a', columns => 'id, v', where => 'id <= 100', peer_where => 'id <= 100'), 'a column list and a row filter');
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

# --- subscriptions ------------------------------------------------------------------------------
#
# The subscriber is "there"; its tables begin empty.

sub ready
{
	my ($subscription, $tables) = @_;
	$there->poll_query_until('postgres', "SELECT count(*) = $tables AND bool_and(srsubstate = 'r') FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
		WHERE s.subname = '$subscription'") or die "no initial copy of $subscription";
	return;
}

$here->safe_psql('postgres', "CREATE ROLE repl REPLICATION LOGIN PASSWORD 'pa55word'; GRANT pg_read_all_data TO repl") if $version >= 140000;
$here->safe_psql('postgres', "CREATE ROLE repl SUPERUSER LOGIN PASSWORD 'pa55word'") if $version < 140000;
{
	my $hba = $here->data_dir . '/pg_hba.conf';
	my $old = slurp_file($hba);
	unlink $hba;
	append_to_file($hba, "local all repl scram-sha-256\nlocal replication repl scram-sha-256\n$old");
	$here->reload;
}
my $conninfo = "host=${\ $here->host} port=${\ $here->port} dbname=postgres user=repl password=pa55word";

both('CREATE SCHEMA r; CREATE TABLE r.a (id int PRIMARY KEY, v text); CREATE TABLE r.b (id int PRIMARY KEY, v text);
	CREATE TABLE r."C ""c" (id uuid PRIMARY KEY, v text); CREATE TABLE r.later (id int PRIMARY KEY); CREATE TABLE r.gone (id int PRIMARY KEY)');
$here->safe_psql('postgres', q{INSERT INTO r.a SELECT g, md5(g::text) FROM generate_series(1, 5000) g; INSERT INTO r.b SELECT g, 'b' FROM generate_series(1, 300) g;
	INSERT INTO r."C ""c" SELECT md5(g::text)::uuid, 'c' FROM generate_series(1, 300) g;
	CREATE PUBLICATION "First" FOR TABLE r.a, r.b, r.gone; CREATE PUBLICATION second FOR TABLE r."C ""c", r.b});
$there->safe_psql('postgres', qq{ALTER TABLE r.b ADD "mine" int DEFAULT 1; CREATE SUBSCRIPTION "Sub" CONNECTION ${\ literal($conninfo)} PUBLICATION "First", second WITH (slot_name = sub)});
ready('Sub', 4);
{
	my ($got, $err) = audit_subscription("'Sub'");
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'r.a' => 'equal 5000 5000 0 0 0 0', 'r.b' => 'equal 300 300 0 0 0 0',
			'r."C ""c"' => 'equal 300 300 0 0 0 0', 'r.gone' => 'equal 0 0 0 0 0 0' }, 'a subscription to two publications, all ready');
	is($got->{'r.b'}{detail}, 'columns only here: "mine"', 'a column that is not replicated is named');
	is($err, '', 'and there are no warnings');
}
# drift on the subscriber
$there->safe_psql('postgres', q{DELETE FROM r.a WHERE id % 1000 = 1; UPDATE r.a SET v = 'drift' WHERE id % 500 = 2; INSERT INTO r.a SELECT -g FROM generate_series(1, 4) g;
	UPDATE r."C ""c" SET v = NULL WHERE id = (SELECT min(id::text)::uuid FROM r."C ""c")});
{
	my ($got) = audit_subscription("'Sub'");
	is(line($got->{'r.a'}), 'differs 4999 5000 5 4 10 0', 'injected drift is counted');
	is(line($got->{'r.a'}), truth('r.a', node => $there), 'as by a full comparison');
	is(line($got->{'r."C ""c"'}), 'differs 300 300 0 0 1 0', 'in the other publication, too');
	is(line($got->{'r.b'}), 'equal 300 300 0 0 0 0', 'and nowhere else');
	($got) = audit("publication => 'First'");
	is(line($got->{'r.a'}), truth('r.a'), 'iblt_audit on the publisher finds the same');
}
# a load, whose rows are no differences
{
	my $load = $here->basedir . '/load.sql';
	append_to_file($load, <<'SQL');
\set id random(3, 300)
UPDATE r.a SET v = v || 'x' WHERE id = :id AND id % 1000 <> 1 AND id % 500 <> 2;
UPDATE r.b SET v = v || 'x' WHERE id = :id;
INSERT INTO r.b SELECT 1000 + count(*) FROM r.b ON CONFLICT DO NOTHING;
DELETE FROM r.b WHERE id = :id AND :id % 20 = 0;
SQL
	# a slow subscriber, so that there always are rows on their way
	$there->safe_psql('postgres', q{CREATE FUNCTION r.delay() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END';
		CREATE TRIGGER delay BEFORE UPDATE ON r.b FOR EACH ROW EXECUTE FUNCTION r.delay(); ALTER TABLE r.b ENABLE REPLICA TRIGGER delay});
	my ($out, $err) = ('', '');
	my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-c', '2', '-T', '200', '-R', '200', '-f', $load, $here->connstr('postgres') ], '<', \'', '>', \$out, '2>', \$err);
	$here->poll_query_until('postgres', "SELECT count(*) > 20 FROM r.b WHERE v LIKE '%x'") or die 'pgbench does not run';
	foreach my $round (1 .. 6)
	{
		my $node = $round % 2 ? $there : $here;
		my ($got) = $round % 2 ? audit_subscription("'Sub'") : audit("publication => 'First'", node => $here);
		is(join(' ', (split ' ', line($got->{'r.a'}))[ 0, 3 .. 6 ]), $round % 2 ? 'differs 5 4 10 0' : 'differs 4 5 10 0', "round $round, under a load: the drift and no more");
		is(join(' ', (split ' ', line($got->{'r.b'}))[ 0, 3 .. 6 ]), 'equal 0 0 0 0', 'rows on their way are no differences') or note($got->{'r.b'}{detail});
	}
	cmp_ok($here->safe_psql('postgres', "SELECT count(*) FROM r.b WHERE v LIKE '%xx'"), '>', 10, 'the load was at work');
	$pgbench->signal('INT');
	$pgbench->finish;
	$here->wait_for_catchup("Sub");
}

# published, but not refreshed; subscribed, but not published any more
$here->safe_psql('postgres', 'ALTER PUBLICATION "First" ADD TABLE r.later; ALTER PUBLICATION "First" DROP TABLE r.gone; CREATE TABLE r.unknown (id int PRIMARY KEY); ALTER PUBLICATION second ADD TABLE r.unknown');
{
	my ($got) = audit_subscription("'Sub'");
	is($got->{"r.$_"}{status}, 'not comparable', "r.$_") foreach qw(later gone unknown);
	is($got->{'r.later'}{detail}, 'published, but not subscribed: ALTER SUBSCRIPTION "Sub" REFRESH PUBLICATION', 'not subscribed, with what to do');
	is($got->{'r.unknown'}{detail}, "$got->{'r.later'}{detail}; the table does not exist here", 'and not here');
	like($got->{'r.gone'}{detail}, qr/^subscribed, but not published by the peer/, 'not published');
	is(line($got->{'r.a'}), truth('r.a', node => $there), 'the others are compared');
}
# a table whose copy fails, again and again
$there->safe_psql('postgres', 'INSERT INTO r.later VALUES (1); CREATE TABLE r.unknown (id int PRIMARY KEY)');
$here->safe_psql('postgres', 'INSERT INTO r.later VALUES (1)');
$there->safe_psql('postgres', 'ALTER SUBSCRIPTION "Sub" REFRESH PUBLICATION');
$there->poll_query_until('postgres', q{SELECT srsubstate = 'r' FROM pg_subscription_rel WHERE srrelid = 'r.unknown'::regclass}) or die 'no copy';
{
	my ($got) = audit_subscription("'Sub'");
	ok(!$got->{'r.gone'}, 'after a refresh, a table that is not published is not subscribed');
	is($got->{'r.later'}{status}, 'not comparable', 'a table that could not be copied');
	like($got->{'r.later'}{detail}, qr/^the subscription is not ready for this table: state "[id]", /, 'with its state');
	is(line($got->{'r.unknown'}), 'equal 0 0 0 0 0 0', 'the other one is there now');
}
$there->safe_psql('postgres', 'TRUNCATE r.later');
ready('Sub', 5);

# a subscription that is disabled
$there->safe_psql('postgres', 'ALTER SUBSCRIPTION "Sub" DISABLE');
{
	my ($got, $err) = audit_subscription("'Sub'");
	is($got->{'r.a'}{status}, 'not comparable', 'a disabled subscription cannot confirm differences');
	is(line($got->{'r.a'}), truth('r.a', node => $there) =~ s/differs/not comparable/r =~ s/0$/19/r, 'which are shown as unconfirmed');
	like($got->{'r.a'}{detail}, qr/^differences cannot be confirmed: .*; the subscription is disabled$/, 'and why');
	is("$got->{'r.b'}{status}: $got->{'r.b'}{detail}", 'equal: columns only here: "mine"; the subscription is disabled', 'what is equal is equal');
	is($err, '', 'without warnings');
	($got) = audit_subscription("'Sub', recheck => 0");
	is(line($got->{'r.a'}), truth('r.a', node => $there), 'recheck => 0: not tested, so it differs');
}
$there->safe_psql('postgres', 'ALTER SUBSCRIPTION "Sub" ENABLE');

# replication that hangs: what is on its way is not known to differ
{
	my $lock = in_background($there, 'BEGIN; LOCK TABLE r."C ""c" IN SHARE MODE; SELECT pg_sleep(6); COMMIT');
	$there->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE mode = 'ShareLock' AND granted AND relation = 'r."C ""c"'::regclass});
	$here->safe_psql('postgres', q{UPDATE r."C ""c" SET v = 'new'});
	my ($got) = audit_subscription("'Sub', timeout => '1 s'");
	is(line($got->{'r."C ""c"'}), 'not comparable 300 300 0 0 300 300', 'replication that does not pass in time: could not tell');
	like($got->{'r."C ""c"'}{detail}, qr/^300 differences could not be confirmed: rows kept changing, or replication did not pass in time/, 'and why');
	$lock->{run}->finish;
	$here->wait_for_catchup("Sub");
	($got) = audit_subscription("'Sub'");
	is(line($got->{'r."C ""c"'}), 'equal 300 300 0 0 0 0', 'once it has passed, it is equal (and the drift was overwritten)');
}

# partitions: the root is published for a plain table, leaves for plain tables
{
	both('CREATE TABLE r.root (id int, v int) PARTITION BY RANGE (id)');
	$there->safe_psql('postgres', 'DROP TABLE r.root; CREATE TABLE r.root (id int, v int); CREATE TABLE r.low (v int, id int); CREATE TABLE r.high (id int, v int) PARTITION BY LIST (v);
		CREATE TABLE r.any PARTITION OF r.high DEFAULT');
	$here->safe_psql('postgres', 'CREATE TABLE r.low PARTITION OF r.root FOR VALUES FROM (MINVALUE) TO (100); CREATE TABLE r.high PARTITION OF r.root FOR VALUES FROM (100) TO (MAXVALUE);
		INSERT INTO r.root SELECT g, g FROM generate_series(1, 300) g; CREATE PUBLICATION by_root FOR TABLE r.root WITH (publish_via_partition_root = true); CREATE PUBLICATION by_leaf FOR TABLE r.root');
	$there->safe_psql('postgres', "CREATE SUBSCRIPTION by_root CONNECTION ${\ literal($conninfo)} PUBLICATION by_root; CREATE SUBSCRIPTION by_leaf CONNECTION ${\ literal($conninfo)} PUBLICATION by_leaf");
	ready('by_root', 1);
	ready('by_leaf', 2);
	$there->safe_psql('postgres', 'DELETE FROM r.root WHERE id IN (3, 4); DELETE FROM r.high WHERE v = 200; INSERT INTO r.high VALUES (7, 7)');
	my ($got) = audit_subscription("'by_root'");
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'r.root' => 'differs 298 300 2 0 0 0' }, 'a partitioned root and a plain table');
	($got) = audit_subscription("'by_leaf'");
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'r.low' => 'equal 99 99 0 0 0 0', 'r.high' => 'differs 201 201 1 1 0 0' }, 'leaves, of which one is partitioned here');
	$there->safe_psql('postgres', "DROP SUBSCRIPTION by_$_") foreach qw(root leaf);
}

# a standby of the publisher as the peer, which does not have the slot
{
	$here->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($here, 'base', has_streaming => 1);
	$standby->start;
	$here->wait_for_catchup($standby, 'replay', $here->lsn('write'));
	my ($got) = audit_subscription("'Sub', ${\ literal($standby->connstr('postgres'))}");
	is(line($got->{'r.a'}), truth('r.a', node => $there) =~ s/differs/not comparable/r =~ s/0$/19/r, 'a standby of the publisher');
	like($got->{'r.a'}{detail}, qr/^differences cannot be confirmed: .* or there is a standby between the sides\)$/, 'with what it cannot do');
	is(line($got->{'r.b'}), truth('r.b', node => $there, columns => 'id, v'), 'and where rows are equal');
	$standby->stop;
}
like(failure(q(BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM "Their Iblt".iblt_audit_subscription('Sub')), node => $there), qr/25001: rows cannot be looked at again/,
	'a subscription is not audited within one snapshot');
like(failure(q(SELECT * FROM "Their Iblt".iblt_audit_subscription('sub')), node => $there), qr/42704: subscription "sub" does not exist in this database/, 'a subscription that does not exist');
like(failure(q(SELECT * FROM "Their Iblt".iblt_audit_subscription(NULL)), node => $there), qr/22023: subscription must not be null/, 'or none');

# --- rights and passwords ----------------------------------------------------------------------------

{
	$there->safe_psql('postgres', 'CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA r, "Their Iblt" TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA r TO reader');
	my $call = q{SELECT count(*) FROM "Their Iblt".iblt_audit_subscription('Sub'};
	my $err = failure("$call)", node => $there, user => 'reader');
	like($err, qr/42501: permission denied to read the connection string of subscription "Sub"/, 'without a right to read the connection string: an error');
	like($err, qr/GRANT SELECT \(subconninfo\) ON pg_catalog.pg_subscription TO reader .*or give peer/, 'with what to do');
	is($there->safe_psql('postgres', "$call, ${\ literal($conninfo)})", extra_params => [ '-U', 'reader' ]), '5', 'with a peer, the right is not needed');
	$there->safe_psql('postgres', 'GRANT SELECT (subconninfo) ON pg_catalog.pg_subscription TO reader');
	is($there->safe_psql('postgres', "$call)", extra_params => [ '-U', 'reader' ]), '5', 'with the right granted');
	$there->safe_psql('postgres', 'REVOKE SELECT (subconninfo) ON pg_catalog.pg_subscription FROM reader');
	like(failure("$call)", node => $there, user => 'reader'), qr/42501: permission denied to read/, 'without it again');
	if ($version >= 140000)
	{
		$there->safe_psql('postgres', 'GRANT pg_read_all_data TO reader');
		is($there->safe_psql('postgres', "$call)", extra_params => [ '-U', 'reader' ]), '5', 'as a member of pg_read_all_data');
		$there->safe_psql('postgres', 'REVOKE pg_read_all_data FROM reader');
	}
	# one table may not be read, one has row-level security
	$there->safe_psql('postgres', 'REVOKE SELECT ON r.b FROM reader; ALTER TABLE r.a ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON r.a USING (id > 0)');
	my ($got) = audit_subscription("'Sub', ${\ literal($conninfo)}", user => 'reader');
	is("$got->{'r.b'}{status} $got->{'r.b'}{sqlstate} " . ($got->{'r.b'}{detail} =~ /^(permission denied for table b)/)[0], 'error 42501 permission denied for table b', 'a table that may not be read is an error');
	is("$got->{'r.a'}{status} $got->{'r.a'}{sqlstate}", 'error 42501', 'and so is one whose rows a policy would hide');
	is($got->{$_}{status}, 'equal', "$_ is compared") foreach ('r.later', 'r.unknown', 'r."C ""c"');
	$there->safe_psql('postgres', 'ALTER TABLE r.a DISABLE ROW LEVEL SECURITY');
	$here->safe_psql('postgres', 'CREATE ROLE few LOGIN PASSWORD \'pa55word\'; GRANT USAGE ON SCHEMA r TO few; GRANT SELECT ON r.a, r.later, r.unknown TO few');
	($got) = audit_subscription("'Sub', ${\ literal($conninfo =~ s/user=repl/user=few/r)}");
	is("$got->{'r.b'}{status} $got->{'r.b'}{sqlstate}: $got->{'r.b'}{detail}", 'error 42501: on the peer: permission denied for table b; columns only here: "mine"' =~ s/;.*//r, 'no right on a table there');
	is(line($got->{'r.a'}), truth('r.a', node => $there), 'the others are compared');
}
{
	my $before = -s $there->logfile;
	my $before_here = -s $here->logfile;
	my $wrong = $conninfo =~ s/pa55word/s3cr3t/r;
	my @calls = ("iblt_audit_subscription('Sub', ${\ literal($wrong)})", "iblt_audit(${\ literal($wrong)}, '{r.a}')", "iblt_audit(${\ literal($wrong)})",
		"iblt_audit_subscription('nobody', ${\ literal($wrong)})", "iblt_audit(${\ literal($wrong)}, '{r.a}', max_differences => -1)", "iblt_audit(${\ literal(qq($wrong x=1))}, '{r.a}')");
	foreach my $call (@calls)
	{
		my $err = failure(qq(SELECT * FROM "Their Iblt".$call), node => $there);
		isnt($err, '', 'an error');
		unlike($err =~ s/^LINE.*//mrg, qr/s3cr3t/, 'which does not show the password');
	}
	$there->safe_psql('postgres', qq(ALTER SUBSCRIPTION "Sub" DISABLE; ALTER SUBSCRIPTION "Sub" CONNECTION ${\ literal($wrong)}));
	my $err = failure(q(SELECT * FROM "Their Iblt".iblt_audit_subscription('Sub')), node => $there);
	like($err, qr/could not connect to the peer.*password authentication failed/s, 'a wrong password in the subscription');
	unlike($err, qr/s3cr3t/, 'is not in the error');
	$there->safe_psql('postgres', qq(ALTER SUBSCRIPTION "Sub" CONNECTION ${\ literal($conninfo)}; ALTER SUBSCRIPTION "Sub" ENABLE));
	# errors further on, with a right password
	failure(qq(SELECT * FROM "Their Iblt".iblt_audit(${\ literal($conninfo)}, schema => 'no such')), node => $there);
	audit("tables => '{typed}'", node => $there, peer => literal($conninfo));
	unlike(slurp_file($there->logfile, $before) . slurp_file($here->logfile, $before_here), qr/s3cr3t|pa55word/, 'nor do the logs show a password');
	nothing_left('after errors with passwords');
}
# What auto_explain logs of nested statements, with plans and parameters, does not
# have the string; what it logs of the statement that was sent has it, if it was in there.
{
	my $explain = "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
		SET auto_explain.log_verbose = on;";
	my $string = literal($conninfo);
	foreach my $call ("iblt_compare('r.a', $string)", "iblt_audit($string, '{r.a}')", "iblt_audit_subscription('Sub', $string)",
		"iblt_repair('r.a', $string, 'pull')", "iblt_audit_subscription('Sub')")
	{
		my $name = $call =~ s/\(.*//r;
		my $before = -s $there->logfile;
		$there->safe_psql('postgres', qq($explain SELECT count(*) AS as_sent FROM "Their Iblt".$call));
		my @entries = split /^(?=\d{4}-\d\d-\d\d )/m, slurp_file($there->logfile, $before);
		my ($nested, $sent) = map { join '', @$_ } [ grep { !/as_sent/ } @entries ], [ grep { /as_sent/ } @entries ];
		like($nested, qr/Query Text: SELECT "?[^\n]*dblink_connect\(/, "$name: auto_explain logs nested statements");
		unlike($nested, qr/pa55word/, "$name: without the password");
		like($sent, qr/pa55word/, "$name: which the log has, where it was sent") if $call =~ /pa55word/;
		unlike($sent, qr/pa55word/, "$name: nor does the log have it at all, where it was not sent") if $call !~ /pa55word/;
	}
}

# --- row filters of subscriptions ------------------------------------------------------------------------

SKIP:
{
	skip 'row filters are of PostgreSQL 15', 1 if $version < 150000;
	both('CREATE TABLE r.f (id int PRIMARY KEY, v text, key int); CREATE TABLE r.g (id int PRIMARY KEY, v text); CREATE TABLE r.h (id int PRIMARY KEY, v text, w text)');
	$here->safe_psql('postgres', q{INSERT INTO r.f SELECT g, 'v', g FROM generate_series(1, 1000) g; INSERT INTO r.g SELECT g, 'v' FROM generate_series(1, 1000) g; INSERT INTO r.h SELECT g, 'v', 'w' || g FROM generate_series(1, 1000) g;
		CREATE PUBLICATION f1 FOR TABLE r.f WHERE (id <= 100), r.h (id, v) WHERE (id > 900); CREATE PUBLICATION f2 FOR TABLE r.f WHERE (id > 800);
		CREATE PUBLICATION g1 FOR TABLE r.g WHERE (id % 2 = 0); CREATE PUBLICATION g2 FOR TABLE r.g WHERE (id % 2 = 1)});
	$there->safe_psql('postgres', qq{CREATE SUBSCRIPTION s_f CONNECTION ${\ literal($conninfo)} PUBLICATION f1, f2;
		CREATE SUBSCRIPTION s_g1 CONNECTION ${\ literal($conninfo)} PUBLICATION g1; CREATE SUBSCRIPTION s_g2 CONNECTION ${\ literal($conninfo)} PUBLICATION g2});
	ready('s_f', 2);
	ready("s_g$_", 1) foreach (1, 2);
	my ($got) = audit_subscription("'s_f'");
	is(line($got->{'r.f'}), 'equal 300 300 0 0 0 0', 'two publications with row filters: rows of either');
	is($got->{'r.f'}{detail}, 'row filter ((id <= 100)) OR ((id > 800))', 'as the detail says');
	is(line($got->{'r.h'}), 'equal 100 100 0 0 0 0', 'a row filter with a column list');
	like($got->{'r.h'}{detail}, qr/^columns not published: "w"; row filter \(\(id > 900\)\)$/, 'as the detail says');
	$there->safe_psql('postgres', "INSERT INTO r.f VALUES (500, 'no such row', 1), (501, 'v', 501); UPDATE r.f SET v = 'x' WHERE id = 7; DELETE FROM r.h WHERE id = 999; UPDATE r.h SET w = 'own'");
	($got) = audit_subscription("'s_f'");
	is(line($got->{'r.f'}), 'differs 302 300 0 2 1 0', 'rows that the filter does not let through are extra on the subscriber');
	is(line($got->{'r.f'}), truth('r.f', node => $there, peer_where => 'id <= 100 OR id > 800'), 'as in a full comparison');
	is(line($got->{'r.h'}), 'differs 99 100 1 0 0 0', 'columns that are not published do not count');
	($got) = audit("publication => 'f1'");
	is(line($got->{'r.f'}), 'differs 100 100 0 0 1 0', 'one publication of two: its rows on both sides');
	is(line($got->{'r.h'}), 'differs 100 99 0 1 0 0', 'a table that only this one has: all rows of the subscriber');
	($got) = audit_subscription("'s_g1'");
	is("$got->{'r.g'}{status} $got->{'r.g'}{detail}", 'not comparable rows here may be from elsewhere, and only the peer\'s row filter tells which are its own: '
		. 'trust_filters => true would run this condition here: (((id % 2) = 0))', 'two subscriptions feed a table: what a peer says is not run');
	($got) = audit_subscription("'s_g1', trust_filters => true");
	is(line($got->{'r.g'}), 'equal 500 500 0 0 0 0', 'two subscriptions feed a table: rows of the one');
	is($got->{'r.g'}{detail}, 'row filter (((id % 2) = 0)) on both sides, since rows of the subscriber may be from elsewhere; fed by subscriptions "s_g1", "s_g2"', 'as the detail says');
	$there->safe_psql('postgres', "UPDATE r.g SET v = 'x' WHERE id IN (5, 6, 8)");
	($got) = audit_subscription("'s_g2', trust_filters => true");
	is(line($got->{'r.g'}), 'differs 500 500 0 0 1 0', 'and of the other');
	# a filter on a text, with names that could be taken for others
	both('CREATE TABLE r.k (id text PRIMARY KEY, key int, t int)');
	$here->safe_psql('postgres', "INSERT INTO r.k SELECT 'k' || g, g, g FROM generate_series(1, 100) g; CREATE PUBLICATION k FOR TABLE r.k WHERE (id <> 'k5' AND t > 0)");
	$there->safe_psql('postgres', qq(CREATE SUBSCRIPTION s_k CONNECTION ${\ literal($conninfo)} PUBLICATION k));
	ready('s_k', 1);
	$there->safe_psql('postgres', q(UPDATE r.k SET key = 0 WHERE id = 'k7'));
	($got) = audit_subscription("'s_k'");
	is(line($got->{'r.k'}), 'differs 99 99 0 0 1 0', 'a textual key and a column named t');
	# a published column that the subscriber lacks
	$there->safe_psql('postgres', 'ALTER SUBSCRIPTION s_k DISABLE; ALTER TABLE r.k DROP key');
	($got) = audit_subscription("'s_k'");
	is("$got->{'r.k'}{status} $got->{'r.k'}{detail}", q(not comparable published columns are not here: "key"; the subscription is disabled), 'a published column that is not here');
	$there->safe_psql('postgres', "DROP SUBSCRIPTION $_") foreach qw(s_f s_g1 s_g2 s_k);
}

# --- a hostile search_path ---------------------------------------------------------------------------------

both(q{CREATE SCHEMA evil; CREATE FUNCTION evil.format(text, VARIADIC text[]) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	CREATE FUNCTION evil.hijack(int, int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	CREATE OPERATOR evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.hijack); CREATE OPERATOR evil.> (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.hijack);
	CREATE VIEW evil.pg_subscription AS SELECT 'x'::name AS subname; CREATE VIEW evil.pg_class AS SELECT 1 AS oid;
	ALTER DATABASE postgres SET search_path = evil, pg_catalog, public});
{
	my ($got) = audit("tables => '{t2,t3}'");
	is(line($got->{"public.$_"}), truth($_), "$_, with a hostile search_path on both sides") foreach qw(t2 t3);
	($got) = audit_subscription("'Sub'");
	is($got->{'r.a'}{status}, 'differs', 'and a subscription');
	($got) = audit("schema => 's'");
	is(line($got->{'s.root'}), $schema{root}, 'and a schema');
}
both('ALTER DATABASE postgres RESET search_path');

$there->safe_psql('postgres', 'DROP SUBSCRIPTION "Sub"');
nothing_left('in the end');
$_->stop foreach ($here, $there);
done_testing();
