# iblt_compare on real servers: what it reports must equal a full comparison,
# for every kind of key and table; on a standby, and without showing a password.
# 056_compare_replication.pl is about replication.
use List::Util qw(shuffle);

use IbltCompare;

random_seed();

# --- two servers ------------------------------------------------------------------

my ($here, $there) = awkward_servers([ "timezone = 'Asia/Kolkata'", "datestyle = 'German'" ], [ "bytea_output = 'escape'", "extra_float_digits = -5" ]);
my $peer = $there->connstr('postgres');

# --- shapes of tables -----------------------------------------------------------------

# IbltScenarios.pm has keys, tables and names of all kinds.
both('CREATE TABLE shape (id int PRIMARY KEY, a text, b int); INSERT INTO shape SELECT g, md5(g::text), g FROM generate_series(1, 1000) g');
$here->safe_psql('postgres', 'ALTER TABLE shape ADD only_here int');
$there->safe_psql('postgres', 'UPDATE shape SET b = -1 WHERE id = 77; ALTER TABLE shape ADD "only There" int');
{
	my ($rc, $out, $err) = $here->psql('postgres', "SELECT key FROM iblt_compare('shape', ${\ literal($peer)})");
	is($out, '{"id": 77}', 'extra columns do not matter');
	like($err, qr/WARNING:  columns on one side only are not compared \(only here: "only_here"; only on the peer: "only There"\)/, 'but are named');
	like(failure("SELECT * FROM iblt_compare('shape', ${\ literal($peer)}, extra_columns => 'error')"),
		qr/42703: columns exist on one side only.*only_here/s, 'extra_columns => error');
	like(failure("SELECT * FROM iblt_compare('shape', ${\ literal($peer)}, columns => '{a,only_here}')"),
		qr/42703: columns are not on the peer: "only_here"/, 'a column asked for must be on both sides');
}

# more columns than a function has arguments
my $many = join ', ', map { "c$_ int DEFAULT $_" } 1 .. 150;

both('CREATE TABLE wire (id int PRIMARY KEY, v int); INSERT INTO wire SELECT g, g FROM generate_series(1, 50000) g');
$there->safe_psql('postgres', 'UPDATE wire SET v = -v WHERE id % 1500 = 0; DELETE FROM wire WHERE id % 1500 = 1; INSERT INTO wire SELECT -g, g FROM generate_series(1, 33) g');
is($here->safe_psql('postgres', "CREATE TABLE wire_b AS TABLE wire; ALTER TABLE wire_b ADD PRIMARY KEY (id); DELETE FROM wire_b WHERE id = 9;
	SELECT key, side FROM iblt_compare('wire', NULL, 'wire_b')"), '{"id": 9}|here', 'both relations in this database');
is($here->safe_psql('postgres', "DO \$\$ BEGIN PERFORM FROM iblt_compare('wire', ${\ literal($peer)}, max_differences => 1); EXCEPTION WHEN SQLSTATE 'IB002' THEN NULL; END \$\$;
	SELECT count(*) FROM iblt_compare('wire', NULL, 'wire', peer_condition => 'true'); SELECT messages, bytes_sent, bytes_received, sketch_bytes FROM iblt_compare_stats()"), "0\n0|0|0|0",
	'a comparison after one that failed counts its own messages alone');

# --- parallel plans -------------------------------------------------------------------------

{
	my $parallel = "session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 -c auto_explain.log_analyze=on"
	  . " -c auto_explain.log_nested_statements=on -c min_parallel_table_scan_size=0 -c parallel_setup_cost=0 -c parallel_tuple_cost=0";
	my ($here_log, $there_log) = (-s $here->logfile, -s $there->logfile);
	local $ENV{PGOPTIONS} = "-c $parallel";
	my $string = literal("$peer options='-c $parallel'");
	$here->safe_psql('postgres', "SELECT * FROM iblt_compare('wire', $string)");
	foreach my $side ([ $here, $here_log, 'here' ], [ $there, $there_log, 'there' ])
	{
		my $log = slurp_file($side->[0]->logfile, $side->[1]);
		like($log, qr/Finalize Aggregate.*?Gather.*?Workers Launched: [12].*?Parallel Seq Scan on (public\.)?wire/s, "the scan $side->[2] is parallel");
	}
}

# --- rights, search_path, RLS -----------------------------------------------------------------

both("CREATE ROLE reader LOGIN PASSWORD 'right'; GRANT SELECT ON wire TO reader");
foreign_server($here, 'node b', $there, 'reader', 'right');
$here->safe_psql('postgres', 'GRANT USAGE ON SCHEMA "db ""link" TO reader');
$there->safe_psql('postgres', 'GRANT USAGE ON SCHEMA "Their Iblt" TO reader');
{
	my ($rc, $out, $err) = $here->psql('postgres', "SELECT count(*) FROM iblt_compare('wire', 'node b')", extra_params => [ '-U', 'reader' ]);
	cmp_ok($out, '>=', 99, 'a user with SELECT only, through a foreign server');

	# rights to some columns alone
	my $columns = 'REVOKE SELECT ON wire FROM reader; GRANT SELECT (id, v) ON wire TO reader';
	my $some = "SELECT count(*) FROM iblt_compare('wire', 'node b', columns => '{v}'";
	$there->safe_psql('postgres', "$columns; GRANT SELECT (tableoid, ctid, xmin) ON wire TO reader");
	is($here->psql('postgres', "$some, recheck => 1)", extra_params => [ '-U', 'reader' ]), 0, 'rights to row versions, too, let a role confirm differences');
	$here->safe_psql('postgres', $columns);
	like(failure("$some, recheck => 1)", user => 'reader'), qr/42501: permission denied for row versions of public\.wire \(here\)/, 'on both sides');
	both('GRANT SELECT ON wire TO reader');
}
my $wire_truth = truth('wire', 't.id');
both(q{CREATE SCHEMA evil; CREATE FUNCTION evil.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql AS 'SELECT 1/0; SELECT $1';
	CREATE FUNCTION evil.count_it(int, int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	CREATE OPERATOR evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.count_it);
	CREATE FUNCTION evil.to_jsonb(anyelement) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	ALTER DATABASE postgres SET search_path = evil, pg_catalog, public;});
is(compare("'wire'", 'rows => true'), $wire_truth, 'a hostile search_path on both sides');
both('ALTER DATABASE postgres RESET search_path; DROP SCHEMA evil CASCADE');

# --- passwords --------------------------------------------------------------------------------

{
	like(failure("ALTER USER MAPPING FOR reader SERVER \"node b\" OPTIONS (SET password 's3cr3t')"), qr/^$/, 'a wrong mapping');
	my $before = -s $here->logfile;
	like(failure("SELECT * FROM iblt_compare('wire', 'node b')", user => 'reader'), qr/could not connect to the peer.*password authentication failed/s, 'a wrong password in a mapping');
	unlike(slurp_file($here->logfile, $before), qr/s3cr3t/, 'is not in the log');
}
# --- what is missing -----------------------------------------------------------------------------

$here->safe_psql('postgres', 'CREATE DATABASE bare');
$here->safe_psql('bare', 'CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE TABLE wire (id int PRIMARY KEY, v int)');
is($here->safe_psql('bare', "SELECT count(*) > 0 FROM iblt_compare('wire', ${\ literal($peer)})"), 't', 'without dblink');
$there->safe_psql('postgres', "UPDATE pg_extension SET extversion = '9.9' WHERE extname = 'iblt'");
is(failure("SELECT count(*) FROM iblt_compare('wire', ${\ literal($peer)})"), '', 'another version there that has the same protocol will do');
$there->safe_psql('postgres', "UPDATE pg_extension SET extversion = '0.1.0' WHERE extname = 'iblt'");

# --- a physical standby, both ways --------------------------------------------------------------------

both("CREATE TABLE by_text (id text PRIMARY KEY, v int); INSERT INTO by_text SELECT 'k' || g, g FROM generate_series(1, 3000) g");
$there->safe_psql('postgres', "DELETE FROM by_text WHERE v % 300 = 7; UPDATE by_text SET v = 0 WHERE v % 300 = 8; INSERT INTO by_text VALUES ('new', 1)");

# rows => true gives both rows; where a key has several, all of them
is($here->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE c.here IS DISTINCT FROM to_jsonb(t) OR (c.there IS NULL) <> (c.side = 'here'))
	FROM iblt_compare('by_text', ${\ literal($peer)}, rows => true) AS c LEFT JOIN by_text AS t ON t.id = c.key ->> 'id'"), '21|0', 'rows => true: the rows are those of the table');
both("CREATE TABLE several (k int, v text); INSERT INTO several VALUES (1, 'a'), (1, 'a'), (1, 'b'), (2, 'x')");
$there->safe_psql('postgres', "DELETE FROM several WHERE v = 'b'; INSERT INTO several VALUES (2, 'x')");
like($here->safe_psql('postgres', "SELECT key, side, here_count, there_count, jsonb_array_length(here), jsonb_typeof(there)
	FROM iblt_compare('several', ${\ literal($peer)}, key_columns => '{k}', rows => true) WHERE key = '{\"k\": 1}'"),
	qr/^\{"k": 1\}\|both\|3\|2\|2\|object$/, 'several rows of a key: the different ones are shown, with their count');
my $standby = standby($there, 'standby', 'hot_standby_feedback = on', 'max_standby_streaming_delay = -1');
is(compare("'by_text'", undef, peer => conninfo($standby)), truth('by_text', 't.id'), 'a hot standby as peer, keys by hash');
$there->safe_psql('postgres', 'CREATE EXTENSION dblink');
replayed($there, $standby);
# it finds its functions in no search_path of its own
my $qualified = sub {
	my ($node, $args) = @_;
	return $node->safe_psql('postgres', qq(SELECT count(*), count(*) FILTER (WHERE confirmed) FROM "Their Iblt".iblt_compare($args)));
};
is($qualified->($standby, "'wire', ${\ conninfo($there)}"), '0|0', 'a standby compares itself with its primary');
is($qualified->($standby, "'wire', ${\ conninfo($here)}"), lines(truth('wire', 't.id')) . '|0', 'and with another server');
# lag: rows that are on their way are no differences
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$there->safe_psql('postgres', 'UPDATE wire SET v = 0 WHERE id BETWEEN 300 AND 330');
{
	my $sql = qq(SELECT count(*), count(*) FILTER (WHERE confirmed) FROM "Their Iblt".iblt_compare('wire', ${\ conninfo($standby)}));
	is($there->safe_psql('postgres', $sql =~ s/\)$/, timeout => '1 s')/r), '31|0', 'a standby that does not replay: all is unconfirmed');
	my $session = IbltTest::Session->new($there)->start($sql =~ s/\)$/, progress => true)/r);
	$session->seen(qr/waiting for replication/);
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	is($session->done, '0|0', 'once it replays, nothing differs');
	$session->quit;
}
$standby->stop;
# --- which columns differ ------------------------------------------------------------------------

# differs, rows => 'changed'.  Columns of random types are changed on one side, and differs must be
# exactly these, between two servers, in one database and by plain queries.
$peer = conninfo($there);
sub found { my ($sql) = @_; return $here->safe_psql('postgres', $sql) }

# --- random tables ----------------------------------------------------------

# Values of each type, as literals, that differ from each other as row checksums see it.
my @plain = ([ 'boolean', qw(t f) ], [ 'integer', 0, 1, -1 ], [ 'bigint', 0, '9223372036854775807' ], [ 'double precision', qw(0 -0 NaN Infinity 0.1 0.30000000000000004 0.3) ],
	[ 'real', qw(0 -0 NaN 1.5) ], [ 'numeric', qw(1 1.0 1.00 NaN -7e30) ], [ 'text', '', ' ', 'NULL', 'null', 'a', 'A', "it''s", '{}', '\\', "e\x{cc}\x{81}", "\x{c3}\x{a9}" ],
	[ 'char(4)', 'a', 'A', '' ], [ 'bytea', '', '\x00', '\x0001' ], [ 'date', '2026-01-02', '2026-02-01', 'infinity' ], [ 'timestamptz', '2026-01-02 03:04:05.000001+00', '2026-01-02 03:04:05+00' ],
	[ 'interval', '1 month', '30 days', '720 hours' ], [ 'jsonb', '1', '1.0', 'null', '{"a": 1}', '[]', '{}' ], [ 'json', '1', '{"a":1}', '{"a": 1}', '{"a":1,"a":1}' ],
	[ 'integer[]', '{}', '{1}', '{NULL}', '{{1}}', '[0:0]={1}' ], [ 'text[]', '{}', '{NULL}', '{"NULL"}', '{""}' ], [ 'int4range', 'empty', '[1,2)', '[1,3)' ],
	[ 'mood', 'sad', 'ok' ], [ 'uuid', '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000001' ]);
my @other = ([ 'pair', '(,)', '(1,)', '(,"")', '(0,a)', '(,a)', '(0,A)' ], [ 'pair[]', '{}', '{"(,)"}', '{"(1,)"}' ], [ 'positive', 1, 2 ], [ 'money', 0, 1 ],
	[ 'text COLLATE no_case', 'a', 'A', '' ]);
# Each is [the type of the key, its nth value].
my @keys = ([ 'integer', sub { $_[0] } ], [ 'text', sub { "key $_[0]" } ], [ 'numeric', sub { "$_[0].50" } ], [ 'double precision', sub { $_[0] / 3 } ], [ 'uuid', sub { sprintf '%032d', $_[0] } ]);
both(q{CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a integer, b text); CREATE DOMAIN positive AS integer CHECK (value > 0);
	CREATE COLLATION no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)});
$here->safe_psql('postgres', 'CREATE SCHEMA copy');
my @names = ('a', 'b', 't', 'id', 'key', 'B', 'c "quoted"', "it's", 'h', 'columns', 'iblt_j', 'hash', 'differs', 'n', '%s', '$1', "\x{c3}\x{a9}");

sub quote { my ($name) = @_; return '"' . ($name =~ s/"/""/gr) . '"' }
sub sql_value { my ($value, $type) = @_; return defined $value ? 'E\'' . ($value =~ s/\\/\\\\/gr) . "'" : 'NULL' }

# The rows are [n, value, ...], each value the place of one in the list of its type.
sub make
{
	my ($name, $key, $columns, $rows, $order, $extra) = @_;
	my @order = map { $columns->[$_] } @$order;
	my $definition = join ', ', map({ quote($_->{name}) . " $_->{type}" } @order), $extra // ();
	return "DROP TABLE IF EXISTS $name; CREATE TABLE $name (k $key->[0] PRIMARY KEY, $definition); INSERT INTO $name VALUES "
	  . join(', ', map { my ($n, @values) = @$_;
		'(' . join(', ', sql_value($key->[1]->($n)), map { sql_value($columns->[$_]{values}[ $values[$_] ]) } @$order) . ')' } @$rows) . ';';
}

foreach my $round (1 .. ($ENV{IBLT_TEST_ROUNDS} || 12))
{
	my $only_plain = $round % 2;
	my $key = pick(@keys);
	my @free = shuffle(@names);
	my @columns = map { my ($type, @values) = @{ pick(@plain, $only_plain ? () : (@other, @other)) }; { name => shift(@free), type => $type, values => [ undef, @values ] } } 1 .. 2 + int(rand(8));
	my $value = sub { int(rand(@{ $columns[ $_[0] ]{values} })) };
	my @rows = map { my $n = $_; [ $n, map { $value->($_) } 0 .. $#columns ] } 1 .. 60;
	# changed, missing and extra rows
	my (%truth, @changed);
	foreach my $row (@rows)
	{
		my ($n, @values) = @$row;
		my %set = map { $_ => 1 } $n <= 40 ? map { int(rand(@columns)) } 1 .. 1 + int(rand(3)) : ();
		foreach my $c (keys %set)
		{
			my $old = $values[$c];
			$values[$c] = $value->($c) while $values[$c] == $old;
		}
		push @changed, [ $n, @values ] if $n <= 55;
		$truth{$n} = '{' . join(',', map { $columns[$_]{name} } sort { $a <=> $b } keys %set) . '}' if %set;
		$truth{$n} = '' if $n > 55;
	}
	push @changed, [ 99, map { $value->($_) } 0 .. $#columns ];
	$truth{99} = '';

	$here->safe_psql('postgres', make('made', $key, \@columns, \@rows, [ 0 .. $#columns ], 'only_here integer') . make('copy.made', $key, \@columns, \@changed, [ shuffle(0 .. $#columns) ]));
	$there->safe_psql('postgres', make('made', $key, \@columns, \@changed, [ shuffle(0 .. $#columns) ]));
	my $text = "round $round: $key->[0], " . join(', ', map { "$_->{name} $_->{type}" } @columns);
	my $truth = join "\n", map { "$_ $truth{$_}" } sort { $a <=> $b } keys %truth;
	my $number = found("SELECT string_agg(format('(%s, %L)', n, k), ', ') FROM (VALUES " . join(', ', map { "($_, " . sql_value($key->[1]->($_)) . ')' } 1 .. 60, 99) . ') AS v(n, k)');
	foreach my $how ([ 'servers', "$peer, 'made'" ], [ 'one database', "NULL, 'copy.made'" ], $only_plain ? [ 'plain', "$peer, 'made', method => 'plain'" ] : (),
		$round % 4 == 2 ? [ 'rechecked', "$peer, 'made', recheck => 1, timeout => '2 s'" ] : ())
	{
		my ($name, $arguments) = @$how;
		my $rows = pick("'columns'", "'changed'", 'true');
		my $got = found("SET client_min_messages = error; SELECT v.n || ' ' || coalesce('{' || array_to_string(c.differs, ',') || '}', '') FROM iblt_compare('made', $arguments, rows => $rows) AS c
			LEFT JOIN (VALUES $number) AS v(n, k) ON v.k::$key->[0] = (c.key ->> 'k')::$key->[0] ORDER BY v.n");
		is($got, $truth, "$text ($name, rows => $rows)") or diag($got);
	}
	is(found("SET client_min_messages = error; SELECT count(*), bool_and(
			CASE WHEN c.differs IS NULL THEN c.here IS NOT DISTINCT FROM r.here AND c.there IS NOT DISTINCT FROM r.there
			ELSE c.here = (SELECT jsonb_object_agg(key, value) FROM jsonb_each(r.here) WHERE key = ANY (text 'k' || r.differs))
			AND c.there = (SELECT jsonb_object_agg(key, value) FROM jsonb_each(r.there) WHERE key = ANY (text 'k' || r.differs)) END)
		FROM iblt_compare('made', $peer, rows => 'changed', seed => 1) AS c JOIN iblt_compare('made', $peer, rows => true, seed => 2) AS r USING (key)"),
		keys(%truth) . '|t', "rows => 'changed' has only the key and the columns that differ");
}

# --- what cannot be told --------------------------------------------------------------------------

both('CREATE TABLE bag (a integer, b text); INSERT INTO bag SELECT g, g FROM generate_series(1, 20) g; INSERT INTO bag SELECT 50, g FROM generate_series(1, 2) g');
$there->safe_psql('postgres', "UPDATE bag SET b = 'new' WHERE a = 3; INSERT INTO bag VALUES (4, '4'), (50, 'third')");
foreach my $method ('sketch', 'plain')
{
	is(found("SELECT side, count(*), count(differs) FROM iblt_compare('bag', $peer, rows => 'changed', method => '$method') GROUP BY 1 ORDER BY 1"), "both|1|0\nhere|1|0\nthere|2|0",
		"without a key, there is no changed row ($method)");
	is(found("SELECT key ->> 'a', differs, jsonb_typeof(here), jsonb_typeof(there), here_count, there_count FROM iblt_compare('bag', $peer, key_columns => '{a}', rows => 'changed', method => '$method')
		ORDER BY (key ->> 'a')::int"), "3|{b}|object|object|1|1\n4||object|object|1|2\n50||array|array|2|3", "several rows with a key are shown whole, and no columns ($method)");
}
is(found("SELECT count(differs), count(here) FROM iblt_compare('bag', $peer, key_columns => '{a}')"), '0|0', 'without rows, no columns');

# --- casts and left-out columns -------------------------------------------------------------------

$here->safe_psql('postgres', q{CREATE TABLE typed (id integer PRIMARY KEY, i integer, n numeric, f real, s text, x integer); INSERT INTO typed SELECT g, g, g + 0.00, g / 2.0, g, g FROM generate_series(1, 9) g});
$there->safe_psql('postgres', q{CREATE TABLE typed (id bigint PRIMARY KEY, s varchar(9), f double precision, i bigint, n integer, x integer); INSERT INTO typed SELECT g, g, g / 2.0, g, g, -g FROM generate_series(1, 9) g;
	UPDATE typed SET i = 70 WHERE id = 1; UPDATE typed SET n = 70 WHERE id = 2; UPDATE typed SET f = 70 WHERE id = 3; UPDATE typed SET s = '70' WHERE id = 4; UPDATE typed SET s = '70', i = NULL WHERE id = 5;
	UPDATE typed SET id = 3000000000 WHERE id = 6});
is(found("SELECT key ->> 'id', differs FROM iblt_compare('typed', $peer, cast_types => true, exclude => '{x}', rows => 'columns') ORDER BY 1"), "1|{i}\n2|{n}\n3|{f}\n3000000000|\n4|{s}\n5|{i,s}\n6|",
	'cast_types: values that are equal after the cast are not named, and neither is a column left out');
is(found("SELECT key ->> 'id', differs FROM iblt_compare('typed', $peer, cast_types => true, columns => '{s,n}', rows => 'columns') ORDER BY 1"), "2|{n}\n3000000000|\n4|{s}\n5|{s}\n6|", 'columns: only these');

# --- runs -----------------------------------------------------------------------------------------

both('CREATE TABLE ran (id integer PRIMARY KEY, a text, b text, c text); INSERT INTO ran SELECT g, g, g, g FROM generate_series(1, 9) g');
batch_size(2);	# of five differences
foreach my $rows ("'changed'", "'columns'", 'true', 'false')
{
	$there->safe_psql('postgres', "UPDATE ran SET a = id, b = id, c = id; UPDATE ran SET a = 'x' WHERE id IN (1, 2, 3); UPDATE ran SET c = 'x' WHERE id IN (2, 4); DELETE FROM ran WHERE id = 5");
	$here->safe_psql('postgres', 'INSERT INTO ran VALUES (5, 5, 5, 5) ON CONFLICT DO NOTHING');
	my $recheck = $rows eq 'true' ? 1 : 0;
	my $run = found("CALL iblt_audit_run($peer, tables => '{ran}', rows => $rows, recheck => $recheck, progress => false)");
	my $told = $rows eq 'false' ? "1|\n2|\n3|\n4|\n5|" : "1|{a}\n2|{a,c}\n3|{a}\n4|{c}\n5|";
	is(found("SELECT key ->> 'id', differs FROM iblt_audit_differences WHERE run = $run ORDER BY 1"), $told, "a run keeps which columns differ (rows => $rows)");
	is(found("SELECT here, there FROM iblt_audit_differences WHERE run = $run AND key ->> 'id' = '1'"),
		{ "'changed'" => '{"a": "1", "id": 1}|{"a": "x", "id": 1}', true => '{"a": "1", "b": "1", "c": "1", "id": 1}|{"a": "x", "b": "1", "c": "1", "id": 1}' }->{$rows} // '|', 'and their values if these were asked for');
	is(found("SELECT column_name, rows FROM iblt_audit_columns WHERE run = $run AND relation = 'public.ran' ORDER BY 1"), $rows eq 'false' ? '|5' : "a|3\nc|2\n|1", 'and counts them');
	$there->safe_psql('postgres', "UPDATE ran SET b = 'x' WHERE id = 3");
	is(found("SELECT concat_ws(' ', key ->> 'id', status, detail) FROM iblt_repair(run => $run, peer => $peer, direction => 'push', deletes => false) ORDER BY 1"),
		"1 preview\n2 preview\n" . ($rows eq 'false' ? '3 preview' : '3 skipped differs in another way than the run found') . "\n4 preview\n5 preview", 'a repair leaves rows that differ in other columns by now');
	is(found("SELECT before, after FROM iblt_audit_recheck($run, $peer); SELECT differs, confirmed FROM iblt_audit_differences WHERE run = $run AND key ->> 'id' = '3'"), "5|5\n" . ($rows eq 'false' ? '' : '{a,b}') . ($recheck ? '|t' : '|'),
		'and iblt_audit_recheck shows them, confirmed if the run was to confirm them');
}
batch_size(10000);
like(failure("CALL iblt_audit_run($peer, tables => '{ran}', rows => 'all')"), qr/22023: rows must be false, columns, changed or true/, 'another value is an error');

# --- wide tables, many differences, odd arguments -------------------------------------------------

both("CREATE TABLE wide (id integer PRIMARY KEY, $many); INSERT INTO wide SELECT g FROM generate_series(1, 20) g; CREATE TABLE keys (a integer, b integer, PRIMARY KEY (b, a)); INSERT INTO keys SELECT g, g FROM generate_series(1, 9) g;
	CREATE TABLE much (id integer PRIMARY KEY, v integer, w integer); INSERT INTO much SELECT g, g, g FROM generate_series(1, 12000) g");
$there->safe_psql('postgres', 'UPDATE wide SET c150 = NULL, c7 = 0 WHERE id = 3; DELETE FROM keys WHERE a = 2; UPDATE much SET v = -v; UPDATE much SET w = 0 WHERE id % 100 = 0');
is(found("SELECT key, differs FROM iblt_compare('wide', $peer, rows => 'columns')"), '{"id": 3}|{c7,c150}', '151 columns');
is(found("SELECT key, differs FROM iblt_compare('keys', $peer, rows => 'changed')"), '{"a": 2, "b": 2}|', 'a table of a key alone');
is(found("SELECT differs, count(*) FROM iblt_compare('much', $peer, rows => 'columns', $_) GROUP BY 1 ORDER BY 2"), "{v,w}|120\n{v}|11880", "12,000 differences ($_)") foreach 'recheck => 0', "recheck => 1, timeout => '2 s'";
is(found("SELECT count(*) FROM iblt_compare('keys', $peer, rows => $_)"), '1', "rows => $_") foreach 'true', 'false', "'true'", "'off'", "'t'::text", "'columns'::varchar";
like(failure("SELECT * FROM iblt_compare('keys', $peer, rows => $_)"), qr/22023: rows must be false, columns, changed or true/, "rows => $_ is an error") foreach "'changes'", '5', "'texts'", "''";

# Types whose way to json runs code of another user have columns, too.
both(q{CREATE ROLE other; CREATE TYPE sly AS ENUM ('x', 'y'); CREATE FUNCTION sly_json(sly) RETURNS json LANGUAGE sql AS $$ SELECT '1'::json $$;
	ALTER FUNCTION sly_json OWNER TO other; CREATE CAST (sly AS json) WITH FUNCTION sly_json(sly); CREATE TABLE bait (id integer PRIMARY KEY, v sly); INSERT INTO bait VALUES (1, 'x')});
$there->safe_psql('postgres', "UPDATE bait SET v = 'y'");
is(found("SELECT key, differs FROM iblt_compare('bait', $peer, rows => 'columns')"), '{"id": 1}|{v}', 'the columns run no code of other users');
like(failure("SELECT * FROM iblt_compare('bait', $peer, rows => 'changed')"), qr/42501: refusing to run function public\.sly_json\(public\.sly\) of role "other"/, 'which is an error for their values');

nothing_left('at the end');

done_testing();
