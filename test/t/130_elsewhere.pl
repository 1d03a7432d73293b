# Two sides that are both elsewhere, conducted from a database that has nothing of theirs: what is special to that.
# IbltScenarios.pm and IbltRepairs.pm have what such sides share with others.
use IbltTest;

# The conductor is "postgres" of the first server.  The sides are a and b, and c and d, which have no iblt.  All are
# foreign servers of these names.
my @servers = (server('one'), ready('two'));
my %db = (desk => [ $servers[0], 'postgres' ], a => [ $servers[0], 'a' ], b => [ $servers[1], 'b' ], c => [ $servers[0], 'c' ], d => [ $servers[1], 'd' ]);
sides($servers[0], $servers[0]);

sub sql { my ($name, $sql) = @_; my ($server, $db) = @{ $db{$name} }; return $server->safe_psql($db, $sql) }
sub each_of { my ($names, $sql) = @_; sql($_, $sql) foreach split //, $names; return }
sub string { my ($name) = @_; my ($server, $db) = @{ $db{$name} }; return literal($server->connstr($db)) }

sql('desk', 'CREATE SCHEMA ext; CREATE EXTENSION iblt_audit SCHEMA ext CASCADE; CREATE EXTENSION iblt_live SCHEMA ext; CREATE EXTENSION dblink SCHEMA ext; CREATE EXTENSION postgres_fdw SCHEMA ext; ALTER DATABASE postgres SET search_path = public, ext');
foreach my $name (qw(a b c d))
{
	my ($server, $db) = @{ $db{$name} };
	$server->safe_psql('postgres', "CREATE DATABASE $db" . ($db eq 'b' ? ' TEMPLATE postgres' : ''));
	sql('desk', sprintf("CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %s, port '%s', dbname '$db'); CREATE USER MAPPING FOR CURRENT_USER SERVER $name",
		literal($server->host), $server->port));
}
sql('a', 'CREATE SCHEMA "Their Iblt"; CREATE EXTENSION iblt_audit SCHEMA "Their Iblt" CASCADE; CREATE EXTENSION iblt_live SCHEMA "Their Iblt"; CREATE EXTENSION dblink; ALTER DATABASE a SET search_path = public, "Their Iblt"');
each_of('abcd', q{CREATE SCHEMA shop; CREATE TYPE shop.mood AS ENUM ('sad', 'ok')});
my ($notices, $errors);

# The rows of a call, sorted, with their errors.
sub call
{
	my ($from, $sql) = @_;
	my ($server, $db) = @{ $db{$from} };
	my ($rc, $out, $err) = $server->psql($db, "SET client_min_messages = notice; $sql");
	$errors = $err;
	$notices = join "\n", $err =~ /((?:NOTICE|WARNING): .*(?:\nDETAIL: .*)?)/g;
	return $err =~ /(ERROR: .*(?:\n(?:DETAIL|HINT): .*)*)/ ? $1 : join "\n", sort split /\n/, $out;
}
my $rows = "SELECT concat_ws(' ', key, side, differs, here, there, here_count, there_count, confirmed) FROM iblt_compare";
my $short = "SELECT concat_ws(' ', key, side, here_count, there_count) FROM iblt_compare";
my $sum = "SELECT count(*) FROM iblt_compare";
sub both_of { my ($a, $relation, $b) = @_; return "(here_peer => '$a', here_relation => '$relation', peer => '$b'" }

# Rows of a table as one value.
sub contents { my ($node, $name) = @_; return sql($node, "SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM $name AS t") }

# --- many differences ---------------------------------------------------------------------

each_of('abcd', "CREATE TABLE shop.t (id int PRIMARY KEY, v text); CREATE FUNCTION shop.mine(int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT true'");
each_of('abcd', "INSERT INTO shop.t SELECT g, 'row ' || g FROM generate_series(1, 10000) AS g");
each_of('bd', "UPDATE shop.t SET v = 'other' WHERE id <= 3000; DELETE FROM shop.t WHERE id = 7000; INSERT INTO shop.t VALUES (0, 'new')");
like(call('desk', "SET iblt.x = ''; $sum" . both_of('a', 'shop.t', 'b') . ', progress => true); SELECT messages, sketch_bytes > 0, rows_here, rows_there FROM iblt_compare_stats()'), qr/\|t\|10000\|10000\n/, 'and its figures');
like($notices, qr/asking for larger parts of the sketches/, 'which progress shows');
is(call('desk', $sum . both_of('a', 'shop.t', 'd') . ", method => 'auto')"), 3002, 'where one has iblt');
is($notices, 'NOTICE:  "d" has no extension iblt, and is compared by plain queries', 'and a notice');
{
	my $silent = "IF s.side = 'here' THEN RETURN format('SELECT concat_ws('' '', %s, 10)', read_fingerprint_sql(s, format('%L::regclass', s.relation))); END IF;\n";
	my $was = changed($servers[0], 'plain_sums_sql', "\nBEGIN\n", "\nBEGIN\n$silent");
	is(call('desk', $sum . both_of('c', 'shop.t', 'd') . ", method => 'plain')"), 3002, 'a server that answers without sums is not equal');
	sql('desk', $was);
}
like(call('desk', $sum . both_of('c', 'shop.t', 'b') . ')'), qr/^ERROR:  extension iblt is not installed in "c"'s database\nHINT:  Run CREATE EXTENSION iblt there, or use method => 'auto'\./, 'which sketches need');
like(call('desk', "SELECT count(*) BETWEEN 20 AND 100, bool_and((key ->> 'id')::int <= 3000 OR (key ->> 'id')::int = 7000) FROM iblt_compare" . both_of('a', 'shop.t', 'b') . ", max_differences => 100, on_too_many => 'sample')"), qr/^t\|t$/, 'or a sample');
foreach my $pair ([qw(a d)], [qw(c b)])
{
	is(call('desk', $short . both_of($pair->[0], 'shop.t', $pair->[1]) . ", method => 'auto', condition => 'id NOT BETWEEN 1 AND 3000')"), "{\"id\": 0} there 0 1\n{\"id\": 7000} here 1 0", "a condition that $pair->[0] or $pair->[1] checks for the other one");
	like(call('desk', $short . both_of($pair->[0], 'shop.t', $pair->[1]) . ", method => 'auto', condition => 'shop.mine(id)')"), qr/^ERROR:  .*mine/, 'and refuses');
}
like(call('desk', $short . both_of('c', 'shop.t', 'd') . ", method => 'auto', condition => 'id > 7')"), qr/^ERROR:  cannot compare by plain queries: there is a condition, and no side is asked through iblt, which checks it/, 'and none that nobody checks');

# --- one database, and this one ---------------------------------------------------------------

sql('a', 'CREATE TABLE shop.copy AS SELECT * FROM shop.t WHERE id <> 7');
my $both = call('desk', "$short" . both_of('a', 'shop.t', 'a') . ", peer_relation => 'copy', seed => 7)");
is($both, '{"id": 7} here 1 0', 'two relations of one database');
is(call('desk', "$short(here_peer => ${\ string('a')}, here_relation => 'shop.t', peer => ${\ string('a')}, peer_relation => 'copy')"), $both, 'the same by connection strings');
sql('a', "CREATE TABLE shop.many (id int PRIMARY KEY, v text); INSERT INTO shop.many SELECT id, v || id % 2 FROM shop.t");
is(call('desk', "$sum" . both_of('a', 'shop.t', 'a') . ", peer_relation => 'many')"), 10000, 'with larger folds of both');
sql('c', 'CREATE TABLE shop.copy AS SELECT * FROM shop.t WHERE id <> 7');
is(call('desk', "$short" . both_of($_, 'shop.t', $_) . ", peer_relation => 'copy', method => 'auto')"), $both, "of $_, perhaps by plain queries") foreach qw(a c);
my $messages = 'SELECT messages FROM iblt_compare_stats()';
my $two = call('desk', "$sum" . both_of('a', 'shop.t', 'a') . ", peer_relation => 'copy', condition => 'id < 7'); $messages");
is($two, "0\n4", 'in one statement a step');
is(call('desk', "$sum" . both_of('a', 'shop.t', 'b') . ", condition => 'id > 3000 AND id < 7000'); $messages"), "0\n8", 'and two for two databases');
like(call('desk', "$sum(here_peer => 'a', here_relation => 'shop.t', peer => ${\ string('a')})"), qr/^ERROR:  a relation cannot be compared with itself/, 'a relation with itself, by another name');
sql('desk', "CREATE SCHEMA shop; CREATE TABLE shop.t (id int PRIMARY KEY, v text); INSERT INTO shop.t SELECT g, 'row ' || g FROM generate_series(1, 10000) AS g WHERE g <> 8");
foreach my $method ('sketch', 'plain')
{
	is(call('desk', "$short(here_peer => 'a', here_relation => 'shop.t', method => '$method')"), '{"id": 8} here 1 0', "without a peer, the other side is this database: $method");
}
is(call('desk', "$sum(here_peer => 'b', here_relation => 'shop.t')"), 3002, 'with many differences');
is(call('desk', "$short(here_peer => 'c', here_relation => 'shop.t', method => 'auto', condition => 'id > 7 AND id < 10')"), '{"id": 8} here 1 0', 'or of one without iblt');
sql('desk', 'DROP SCHEMA shop CASCADE');

# --- arguments ----------------------------------------------------------------------------------

like(call('desk', "$sum(here_peer => 'a', peer => 'b')"), qr/^ERROR:  with here_peer, here_relation names the relation, and not relation\nHINT:  Give here_relation => 'shop.items'\./, 'no relation');
like(call('desk', "$sum('pg_class', here_peer => 'a', here_relation => 'shop.t', peer => 'b')"), qr/^ERROR:  with here_peer, here_relation names the relation/, 'two relations');
like(call('desk', "$sum('pg_class', 'b', here_relation => 'shop.t')"), qr/^ERROR:  here_relation needs here_peer/, 'no peer');
like(call('desk', "$sum(here_peer => 'a', here_relation => 't', peer => 'b')"), qr/^ERROR:  here_relation must be a name with its schema\nHINT:  Write it as 'shop.items'/, 'no schema');
like(call('desk', "$sum(here_peer => 'nobody', here_relation => 'shop.t', peer => 'b')"), qr/^ERROR:  here_peer is neither a foreign server nor a connection string/, 'no server');
like(call('desk', "$sum(peer => 'b')"), qr/^ERROR:  relation must not be null/, 'nothing');
like(call('desk', $sum . both_of('a', 'shop.nothing', 'b') . ')'), qr/^ERROR:  relation shop.nothing does not exist on "a"\nHINT:  Give its name there as here_relation, with its schema\./, 'a relation that is not there');
like(call('desk', $sum . both_of('a', 'shop.t', 'b') . ", peer_relation => 'nothing')"), qr/^ERROR:  relation shop.nothing does not exist on "b"\nHINT:  If it has another name there/, 'nor on the other side');
like(call('desk', $sum . both_of('a', 'shop.t', 'b') . ", condition => 'nothing(id) > 0')"), qr/^ERROR:  on "a": function nothing\(\w+\) does not exist/, 'a condition of which the first side knows no function');
like(call('desk', $sum . both_of('a', 'shop.t', 'b') . ", exclude => '{nothing}')"), qr/^ERROR:  excluded columns are on neither side: "nothing"/, 'a column that is nowhere');

# --- live digests --------------------------------------------------------------------------------

each_of('ab', 'CREATE TABLE shop.l (id int PRIMARY KEY, v int); CREATE TABLE shop.h (id text PRIMARY KEY, v int)');
each_of('ab', "INSERT INTO shop.l SELECT g, g FROM generate_series(1, 5000) AS g; INSERT INTO shop.h SELECT 'k' || g, g FROM generate_series(1, 5000) AS g");
foreach my $table (qw(l h))
{
	sql('a', "CALL iblt_track('shop.$table')");
	sql('b', "CALL iblt_track('shop.$table', peer => ${\ string('a')})");
	is(call('desk', $sum . both_of('a', "shop.$table", 'b') . ", live => 'require'); SELECT live FROM iblt_compare_stats()"), "0\nt", "live digests of both: no difference in $table");
	sql('b', "UPDATE shop.$table SET v = -v WHERE v IN (7, 4000)");
	is(call('desk', "SELECT count(*), string_agg(key ->> 'id', ' ' ORDER BY key) FROM iblt_compare" . both_of('a', "shop.$table", 'b') . ", live => 'require')"), $table eq 'l' ? '2|7 4000' : '2|k4000 k7', 'two');
	sql('b', "UPDATE shop.$table SET v = -v WHERE v BETWEEN 1000 AND 2999");
	is(call('desk', $sum . both_of('a', "shop.$table", 'b') . ", live => 'require'); SELECT live FROM iblt_compare_stats()"), "2002\nt", 'more than small folds tell');
}
sql('b', "CALL iblt_untrack('shop.l')");
like(call('desk', $sum . both_of('a', 'shop.l', 'b') . ", live => 'require')"), qr/^ERROR:  live digests cannot be used: shop.l is not tracked \(there\)\nHINT:  On "b", CALL iblt_track/, 'a digest that is not there');
is(call('desk', $sum . both_of('a', 'shop.l', 'b') . ", live => 'auto')"), 2002, 'is done without');

# --- what goes wrong in the middle -----------------------------------------------------------------

foreach my $node (qw(a b))
{
	foreach my $how ([ 'an error', q{RAISE EXCEPTION 'the disk is full'}, qr/^ERROR:  on "$node": the disk is full/ ],
		[ 'the end of its session', 'PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid()), pg_catalog.pg_sleep(5)', qr/^ERROR:  (on|could not send a query to) "$node"/ ])
	{
		my ($what, $statement, $error) = @$how;
		my $iblt = $node eq 'a' ? '"Their Iblt".iblt' : 'public.iblt';
		sql($node, "ALTER FUNCTION iblt_internal.scan_answer(text, $iblt, text, numeric) RENAME TO kept_back;
			CREATE FUNCTION iblt_internal.scan_answer(text, $iblt, text, numeric) RETURNS iblt_internal.scanned LANGUAGE plpgsql AS \$\$BEGIN $statement; END\$\$");
		like(call('desk', $sum . both_of('a', 'shop.t', 'b') . ')'), $error, "$what of $node in its scan names it");
		sql($node, "DROP FUNCTION iblt_internal.scan_answer(text, $iblt, text, numeric); ALTER FUNCTION iblt_internal.kept_back(text, $iblt, text, numeric) RENAME TO scan_answer");
	}
}
nothing_left('after errors', @servers);

# --- repairs ---------------------------------------------------------------------------------------

sub dump_of { my ($name, $table) = @_; return contents($name, "shop.$table") }
my $repair = "SELECT concat_ws(' ', key ->> 'id', action, status) FROM iblt_repair";
each_of('abcd', "CREATE TABLE shop.g (id int PRIMARY KEY, v text, m shop.mood); CREATE TABLE shop.child (id int PRIMARY KEY, g int REFERENCES shop.g DEFERRABLE INITIALLY DEFERRED)");
sub fill
{
	each_of('abcd', "TRUNCATE shop.g, shop.child; INSERT INTO shop.g SELECT g, 'row ' || g, 'ok' FROM generate_series(1, 50) AS g");
	each_of('bd', "DELETE FROM shop.g WHERE id = 3; INSERT INTO shop.g VALUES (77, NULL, 'sad'); UPDATE shop.g SET v = repeat('long', 30000), m = 'sad' WHERE id = 4");
	return;
}
fill();
my ($was_a, $was_b) = (dump_of('a', 'g'), dump_of('b', 'g'));
sql('b', "CREATE FUNCTION shop.seen() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'; CREATE TRIGGER seen BEFORE INSERT ON shop.g FOR EACH ROW EXECUTE FUNCTION shop.seen()");
is(call('desk', $repair . both_of('a', 'shop.g', 'b') . ", direction => 'push')"), "3 insert preview\n4 update preview\n77 delete preview", 'a preview of a push');
is($notices, "NOTICE:  the repair will delete 1 of the 50 rows of shop.g (there)\nNOTICE:  triggers of shop.g will fire (there): seen (INSERT)", 'with what it would do');
fill();
is(call('desk', "BEGIN; $repair" . both_of('a', 'shop.g', 'b') . ", direction => 'pull', apply => true); ROLLBACK"), "3 delete applied\n4 update applied\n77 insert applied", 'a pull in a transaction that is rolled back');
is(dump_of('a', 'g'), $was_b, 'is committed where it is');
sql('a', 'CREATE TABLE shop.other (LIKE shop.g INCLUDING ALL)');
is(call('desk', "SELECT count(*) FROM iblt_repair" . both_of('a', 'shop.other', 'a') . ", peer_relation => 'g', direction => 'pull', apply => true)"), 50, 'a repair within one database elsewhere');
is(dump_of('a', 'other'), $was_b, 'makes it the same');
sql('c', 'CREATE TABLE shop.other (LIKE shop.g INCLUDING ALL)');
is(call('desk', "SELECT count(*) FROM iblt_repair" . both_of('c', 'shop.other', 'c') . ", peer_relation => 'g', direction => 'pull', apply => true, method => 'auto')"), 50, 'also of one without iblt');
is(contents('c', 'shop.other'), contents('c', 'shop.g'), 'and so it is there');

# --- repairs of a side without iblt -------------------------------------------------------------------

my $plain = ", method => 'auto'";
fill();
sql('d', "CREATE FUNCTION shop.seen() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'; CREATE TRIGGER seen BEFORE INSERT ON shop.g FOR EACH ROW EXECUTE FUNCTION shop.seen()");
is(call('desk', $repair . both_of('a', 'shop.g', 'd') . ", direction => 'push'$plain)"), "3 insert preview\n4 update preview\n77 delete preview", 'a preview for a side without iblt');
is($notices, "NOTICE:  \"d\" has no extension iblt, and is compared by plain queries\nNOTICE:  the repair will delete 1 of the 50 rows of shop.g (there)\nNOTICE:  triggers of shop.g will fire (there): seen (INSERT)", 'with what it would do');
is(contents('d', 'shop.g'), $was_b, 'nothing has changed');
sql('d', 'DROP FUNCTION shop.seen() CASCADE');
foreach my $pair ([qw(c d push)], [qw(c b push)], [qw(c b pull)])
{
	my ($first, $second, $direction) = @$pair;
	fill();
	my $wanted = $direction eq 'push' ? $was_a : $was_b;
	is(call('desk', $repair . both_of($first, 'shop.g', $second) . ", direction => '$direction', apply => true$plain)"),
		$direction eq 'push' ? "3 insert applied\n4 update applied\n77 delete applied" : "3 delete applied\n4 update applied\n77 insert applied", "between $first and $second: $direction");
	is(contents($first, 'shop.g') . contents($second, 'shop.g'), $wanted . $wanted, 'makes both the same');
}

# what a trigger does
each_of('cd', 'CREATE TABLE shop.s ("Id" int PRIMARY KEY, k text)');
sub sorts { my ($options) = @_; return call('desk', "SELECT concat_ws(' ', action, status, count(*)) FROM iblt_repair" . both_of('c', 'shop.s', 'd') . ", apply => true$plain, $options) GROUP BY action, status") }
sql('c', 'CREATE FUNCTION public.nothing() RETURNS void LANGUAGE sql AS $$SELECT$$');
sql('d', q{INSERT INTO shop.s ("Id", k) VALUES (4, 'secret 4'), (5, 'secret 5'), (6, 'secret 6')});
my $before = contents('c', 'shop.s');
sql('c', q{CREATE FUNCTION shop.does() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF new."Id" = 5 THEN PERFORM nothing(); END IF; RETURN new; END$$; CREATE TRIGGER does BEFORE INSERT ON shop.s FOR EACH ROW EXECUTE FUNCTION shop.does()});
sorts("direction => 'pull'");
like($errors, qr/ERROR:  on "c": function nothing\(\) does not exist\nDETAIL:  The row has the key \{.*"Id": 5(?s:.*)\nSet apply_search_path/, 'a trigger that names something without its schema');
unlike($errors, qr/secret [46]/, 'no other row is told');
is(contents('c', 'shop.s'), $before, 'nothing has changed');
sql('c', 'DROP FUNCTION shop.does() CASCADE');
sql('c', q{CREATE TABLE shop.log (v text); CREATE FUNCTION shop.does() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO shop.log SELECT concat_ws(' ', current_setting('synchronous_commit'), current_setting('search_path'), current_setting('session_replication_role'), current_setting('row_security')); RETURN new; END$$;
	CREATE TRIGGER does BEFORE INSERT ON shop.s FOR EACH ROW EXECUTE FUNCTION shop.does(); ALTER TABLE shop.s ENABLE ALWAYS TRIGGER does; ALTER DATABASE c SET synchronous_commit = off});
is(sorts("direction => 'pull', apply_search_path => 'shop, public', as_replica => true"), 'insert applied 3', 'as replication does');
is(sql('c', 'SELECT DISTINCT v FROM shop.log'), 'local shop, public replica off', 'with these settings');
sql('c', 'ALTER DATABASE c RESET synchronous_commit; DROP FUNCTION shop.does() CASCADE');
sql('d', 'DELETE FROM shop.s WHERE "Id" = 6');
like(sorts("direction => 'pull', apply_search_path => 'a,,b'"), qr/^ERROR:  on "c": invalid value for parameter "search_path"/, 'which is checked');
sql('c', "SELECT pg_replication_origin_create('mender')");
is(sorts("direction => 'pull', origin => 'mender'"), 'delete applied 1', 'under which a repair writes');
sql('c', "SELECT pg_replication_origin_drop('mender')");
unlike(slurp_file($_->logfile), qr/secret [46]/, 'no log has rows') foreach @servers;

# an error before the first statement, such as a cancel
is(sql('desk', "SET search_path = iblt_internal; SELECT concat_ws(' ', x -> 0 ->> 'failed', x -> 0 ->> 'state', failed, (e).state)
	FROM repair_execute_statements(NULL, NULL, NULL, NULL, NULL, NULL) AS x, repair_run(NULL, '{\"(,,,,,)\"}', NULL)"), '1 22004 1 22004', 'no error is taken for success');

# which row wins
each_of('cd', 'CREATE TABLE shop.w (id int PRIMARY KEY, u int, at timestamptz)');
sql('c', "INSERT INTO shop.w VALUES (1, 1, '2026-01-01'), (2, 2, '2026-01-02')");
sql('d', "INSERT INTO shop.w VALUES (1, 2, '2026-01-03'), (2, 1, '2026-01-01')");
is(call('desk', $repair . both_of('c', 'shop.w', 'd') . ", direction => 'pull', winner => 'newest', newest_by => 'at', key_columns => '{id}'$plain)"), "1 update preview\n2 update skipped", 'the newer row wins');
like(call('desk', $repair . both_of('c', 'shop.w', 'd') . ", direction => 'pull', winner => 'newest'$plain)"), qr/^ERROR:  the commit times of the rows of shop.w cannot be read/, 'commit times are not read');
{
	my $writer = holding($servers[1], "BEGIN; SELECT pg_advisory_xact_lock(1768057972, ('shop.w'::regclass::oid::int8 - 2147483648)::int4)", 'd');
	sql('d', 'UPDATE shop.w SET at = NULL');
	# what is altered before the target is locked
	my $waiting = IbltTest::Session->new($servers[0], 'postgres')->start("SELECT concat_ws(' ', key ->> 'id', action, status, detail) FROM iblt_repair" . both_of('c', 'shop.w', 'd') . ", direction => 'push', apply => true, progress => true$plain) ORDER BY 1");
	$servers[1]->poll_query_until('d', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
	sql('d', "CREATE FUNCTION shop.late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON shop.w DEFERRABLE FOR EACH ROW EXECUTE FUNCTION shop.late()");
	$writer->run('ROLLBACK');
	is($waiting->done, "1 update applied\n2 update applied", 'is described again');
	like($waiting->{err}, qr/the repair starts again/, 'and so it says');
	$_->quit foreach $writer, $waiting;
	# a statement that is cancelled there is not cancelled here
	sql('d', 'UPDATE shop.w SET at = NULL');
	sql('d', q{CREATE FUNCTION shop.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NEW; END'; CREATE TRIGGER slow BEFORE UPDATE ON shop.w FOR EACH ROW EXECUTE FUNCTION shop.slow(); ALTER DATABASE d SET statement_timeout = '500 ms'});
	like(failure('SELECT * FROM iblt_repair' . both_of('c', 'shop.w', 'd') . ", direction => 'push', apply => true$plain)"), qr/ERROR:  IB005: on "d": canceling statement due to statement timeout/, 'a timeout there');
	sql('d', 'ALTER DATABASE d RESET statement_timeout');
}
each_of('cd', 'CREATE TABLE shop.x (id int PRIMARY KEY, g int)');
sql('d', 'INSERT INTO shop.x VALUES (1, 1)');
{
	my $citus = 'SET allow_system_table_mods = on; ';
	sql('c', "$citus CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass); INSERT INTO pg_dist_partition VALUES ('shop.x')");
	is(call('desk', $repair . both_of('c', 'shop.x', 'd') . ", direction => 'pull'$plain)"), '1 insert preview', 'a preview for a table of Citus');
	like(call('desk', $repair . both_of('c', 'shop.x', 'd') . ", direction => 'pull', apply => true$plain)"), qr/^ERROR:  shop.x cannot be repaired with apply: it is a table of Citus/, 'which is not changed');
	sql('c', "$citus DROP TABLE pg_catalog.pg_dist_partition");
}
nothing_left('after repairs without iblt', @servers);

# rights
$_->safe_psql('postgres', 'CREATE ROLE reader LOGIN') foreach @servers;
sql($_, 'GRANT USAGE ON SCHEMA shop TO reader; GRANT SELECT ON shop.g TO reader') foreach qw(a b);
sql('a', 'GRANT USAGE ON SCHEMA "Their Iblt" TO reader');
sub as_reader { my ($name) = @_; my ($server, $db) = @{ $db{$name} }; return literal($server->connstr($db) . ' user=reader') }
my $readers = "(here_peer => ${\ as_reader('a')}, here_relation => 'shop.g', peer => ${\ as_reader('b')}";
is(call('desk', "$sum$readers)"), 3, 'those who may read compare');
like(call('desk', "$repair$readers, direction => 'pull', apply => true)"), qr/^ERROR:  on "here": permission denied for table g/, 'and do not repair');
is(dump_of('a', 'g') . dump_of('b', 'g'), $was_a . $was_b, 'nothing has changed');
nothing_left('at the end', @servers);
is(sql('desk', "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'shop'"), 0, 'the conductor has nothing of theirs');

# --- a conductor with another encoding ----------------------------------------------------------------

$servers[0]->safe_psql('postgres', "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
$db{latin} = [ $servers[0], 'latin' ];
sql('latin', 'CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE EXTENSION dblink');
each_of('ab', "CREATE TABLE shop.e (id text PRIMARY KEY, v text); INSERT INTO shop.e SELECT 'é' || g, 'ü' || g FROM generate_series(1, 100) AS g");
sql('b', "UPDATE shop.e SET v = 'ß' WHERE id = 'é7'");
my $latin = "(here_peer => ${\ string('a')}, here_relation => 'shop.e', peer => ${\ string('b')}";
is(call('latin', "SELECT key = '{\"id\": \"\\u00e97\"}', there ->> 'v' = U&'\\00df' FROM iblt_compare$latin, rows => true)"), 't|t', 'a conductor in LATIN1');
sql('b', "UPDATE shop.e SET v = '日' WHERE id = 'é8'");
is(call('latin', "$sum$latin)"), 2, 'compares what it cannot write');
like(call('latin', "$sum$latin, rows => true)"), qr/^ERROR:  on "there": .*has no equivalent in encoding "LATIN1"/, 'and fails where it would have to');

done_testing();
