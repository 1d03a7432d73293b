# What passes between two servers, step by step: the first question and its refusals,
# errors and cancels of the peer, settings, and what is left behind.  One server
# with several databases is enough.
use IO::Socket::UNIX ();

use IbltTest;

my $here = ready('here', "timezone = 'Asia/Kolkata'");
inside($here);
sides($here, $here);
$here->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE postgres") foreach qw(there older newer);
$here->safe_psql('postgres', 'CREATE DATABASE bare');
my $tables = 'CREATE TABLE items (id int PRIMARY KEY, v text); INSERT INTO items SELECT g, md5(g::text) FROM generate_series(1, 3000) g;
	CREATE VIEW one AS SELECT 1 AS id, 2 AS v;';
$here->safe_psql($_, $tables) foreach qw(postgres there);
$here->safe_psql('there', 'UPDATE items SET v = 0 WHERE id % 3 = 0');

sub peer { my ($database, $more) = @_; return literal($here->connstr($database) . ($more // '')) }
my $peer = peer('there');

# --- the first question --------------------------------------------------------------------

my $protocol = $here->safe_psql('postgres', 'SELECT iblt_internal.protocol()');
my $version = $here->safe_psql('postgres', "SELECT extversion FROM pg_extension WHERE extname = 'iblt'");
my $next = $protocol + 1;
$here->safe_psql('older', 'ALTER SCHEMA iblt_internal RENAME TO iblt_not_yet');
$here->safe_psql('newer', "CREATE OR REPLACE FUNCTION iblt_internal.protocol() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $next'");
my $cannot = qr/ERROR:  55000: iblt \Q$version\E here and iblt \Q$version\E on the peer cannot talk to each other$/m;

my $text;
like(failure("SELECT * FROM iblt_compare('items', ${\ peer($_)})"), qr/ERROR:  55000: extension iblt is not installed in the peer's database$/m, "a peer without iblt ($_): an error")
	foreach qw(bare older);
$text = failure("SELECT * FROM iblt_compare('items', ${\ peer('newer')})");
like($text, $cannot, 'a peer with another protocol: an error');
like($text, qr/DETAIL:  This side has protocol $protocol, the peer has protocol $next\.$/m, 'that names both');
$text = failure("SELECT * FROM iblt_compare('items', $peer, peer_condition => 'nothing(id)')");
like($text, qr/ERROR:  42883: on the peer: function nothing\(integer\) does not exist$/m, 'a function of the condition that is not there: an error about it');
$text = failure("SELECT * FROM iblt_compare('items', $peer, peer_condition => 'nowhere.nothing(id)')");
like($text, qr/ERROR:  3F000: on the peer: schema "nowhere" does not exist$/m, 'a schema of the condition that is not there: an error about it');
$text = failure("SELECT * FROM iblt_compare('items', $peer, 'nothing')");
like($text, qr/ERROR:  42P01: relation public\.nothing does not exist on the peer$/m, 'no such relation there: an error');
nothing_left('after these errors', $here);

# --- settings ------------------------------------------------------------------------------

# a setting of the role, or of a function of users, does not make it write
$here->safe_psql('postgres', "ALTER DATABASE there SET default_transaction_read_only = off");
foreach my $setting (qw(TimeZone row_security transaction_read_only))
{
	my $view = lc $setting;
	$here->safe_psql($_, "CREATE VIEW $view AS SELECT 1 AS id, current_setting('$setting') AS v") foreach qw(postgres there);
}
is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('timezone', $peer, key_columns => '{id}'); SELECT settled FROM iblt_compare_stats()"), "0\n0",
	'a scan of the peer has the settings of this side');
is($here->safe_psql('postgres', "SELECT there ->> 'v' FROM iblt_compare('one', $peer, 'public.$_', key_columns => '{id}', cast_types => true, rows => true)"),
	{ timezone => 'UTC', row_security => 'off', transaction_read_only => 'on' }->{$_}, "a lookup there has them, too: $_") foreach qw(timezone row_security transaction_read_only);

# --- names of peers ------------------------------------------------------------------------

# What is neither a foreign server nor a connection string is not given to libpq.
foreach my $name ('nosuch', 'Node_b', '')
{
	my ($rc, $out, $err) = $here->psql('postgres', "\\set VERBOSITY verbose\nSELECT * FROM iblt_compare('items', '$name')");
	like($err, qr/ERROR:  42704: peer is neither a foreign server nor a connection string/, "a peer called \"$name\"");
}

# What looks like a connection string is one: another role may give a server such a name.
$here->safe_psql('postgres', "CREATE SERVER \"host=/nowhere port=1\" FOREIGN DATA WRAPPER iblt_fdw OPTIONS (host '${\ $here->host}', port '${\ $here->port}', dbname 'there'); CREATE USER MAPPING FOR CURRENT_USER SERVER \"host=/nowhere port=1\"");
like(failure("SELECT * FROM iblt_compare('items', 'host=/nowhere port=1')"), qr/08001: could not connect to the peer\n/, 'a foreign server whose name is a connection string is not asked');

# --- errors and cancels --------------------------------------------------------------------

$here->safe_psql('there', q{CREATE FUNCTION complain(id int, about text) RETURNS boolean LANGUAGE plpgsql AS $$
	BEGIN
		IF current_query() LIKE about THEN
			RAISE EXCEPTION 'it complains' USING ERRCODE = '22023', DETAIL = 'What it was.', HINT = 'What to do.';
		END IF;
		RETURN true;
	END $$;
	CREATE FUNCTION sleep(about text) RETURNS boolean LANGUAGE plpgsql AS $$
	BEGIN
		IF current_query() LIKE about THEN
			PERFORM pg_sleep(600);
		END IF;
		RETURN true;
	END $$;
	CREATE VIEW complaining AS SELECT id, v FROM items WHERE complain(id, '%');
	CREATE VIEW complaining_later AS SELECT 47114711 AS id, 'x'::text AS v FROM complain(1, '%iblt_k%');
	CREATE VIEW slow AS SELECT id, v FROM items, pg_sleep(600);
	CREATE VIEW slow_later AS SELECT 1 AS id, 'x'::text AS v FROM sleep('%iblt_k%');});
$text = failure("SELECT * FROM iblt_compare('items', $peer, 'complaining')");
like($text, qr/ERROR:  22023: on the peer: it complains\nDETAIL:  What it was\.\nHINT:  What to do\.$/m, 'an error of the peer: all that it says');

# An error writes the statement to the log of the peer, and here the rows asked for are in it.
$here->safe_psql('postgres', "CREATE TABLE numbered (id int PRIMARY KEY, v text)");
my $log = -s $here->logfile;
like(failure("SELECT * FROM iblt_compare('numbered', $peer, 'complaining_later', key_columns => '{id}')"), qr/on the peer: it complains/, 'an error in a lookup');
$text = slurp_file($here->logfile, $log);
like($text, qr/STATEMENT:  iblt: SELECT /, 'the log shows what was asked');
unlike($text, qr/47114711/, 'but no key');

$text = failure("SELECT * FROM iblt_compare('items', ${\ peer('there', q( options='-c statement_timeout=300'))}, 'slow', key_columns => '{id}')");
like($text, qr/ERROR:  IB005: on the peer: canceling statement due to statement timeout$/m, 'a statement that is cancelled on the peer has its own SQLSTATE');
$text = failure("SELECT * FROM iblt_compare('items', ${\ peer('there', q( options='-c statement_timeout=300'))}, 'slow_later', key_columns => '{id}')");
like($text, qr/ERROR:  IB005: on the peer: canceling statement due to statement timeout$/m, 'also in a lookup');
$log = -s $here->logfile;
$text = failure("SET statement_timeout = '1s'; SELECT * FROM iblt_compare('items', $peer, 'slow', key_columns => '{id}')");
like($text, qr/ERROR:  57014: canceling statement due to statement timeout$/m, 'one that is cancelled here is what it is');
nothing_left('after errors and cancels', $here);
like(slurp_file($here->logfile, $log), qr/FATAL:  connection to client lost/, 'and then the peer finds the connection closed');

# --- the connection ------------------------------------------------------------------------

IbltTest::share_sessions(0);
my $session = IbltTest::Session->new($here);
my $sessions = "FROM pg_stat_activity WHERE datname = 'there' AND application_name LIKE 'iblt%'";
is($session->run("SELECT count(*) FROM iblt_compare('items', $peer, condition => 'id < 3')"), '0', 'a comparison');
my $before = $here->safe_psql('postgres', "SELECT pid $sessions AND state = 'idle'");
like($before, qr/^\d+$/, 'keeps its connection');
$here->safe_psql('postgres', 'CREATE TABLE only_here (id int PRIMARY KEY)');
is($session->run($_), '0', 'which the next one uses') || diag($session->{err}) foreach "SELECT count(*) FROM iblt_compare('items', $peer, method => 'plain', condition => 'id < 3')", "SELECT count(*) FROM iblt_audit($peer, '{only_here,one}') WHERE status = 'failed'", "SELECT count(*) FROM iblt_repair('items', $peer, direction => 'push', condition => 'id < 3')",
	"SELECT count(*) FROM iblt_compare_nodes('public.items', ARRAY[NULL, $peer], condition => 'id < 3')", "SELECT count(*) FROM iblt_compare('items', $peer, condition => 'id < 3')";
is($here->safe_psql('postgres', "SELECT pid $sessions"), $before, 'so it is the same one still');
is($session->run("SELECT count(*) FROM iblt_repair('items', $peer, direction => 'push', condition => 'id = 3', apply => true)"), '1', 'a repair writes over it');
wait_for($here, "SELECT count(*) = 0 $sessions");
pass('and closes it');
$session->run("SET statement_timeout = '1s'; SELECT * FROM iblt_compare('items', $peer, 'slow', key_columns => '{id}', method => 'plain')");
$session->run('RESET statement_timeout');
wait_for($here, "SELECT count(*) = 0 $sessions");
pass('it is closed after a cancel here');
is($session->run("SELECT count(*) FROM iblt_compare('items', $peer, condition => 'id < 3', method => 'plain')"), '0', 'another one is made');
$here->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $sessions");
wait_for($here, "SELECT count(*) = 0 $sessions");
is($session->run("SELECT count(*) FROM iblt_compare('items', $peer, condition => 'id < 3', method => 'plain')"), '0', 'also after the kept one has ended there');
is($session->run('BEGIN; CREATE ROLE other; GRANT other TO CURRENT_USER; SET LOCAL ROLE other; SELECT iblt_disconnect(); ROLLBACK'), '0', 'another role has no part in it');
is($session->run('SELECT iblt_disconnect()'), '1', 'it is closed');
is($session->run('SELECT iblt_disconnect()'), '0', 'once');
nothing_left('after the cancels', $here);
$here->safe_psql('postgres', "CREATE SERVER moves FOREIGN DATA WRAPPER iblt_fdw OPTIONS (host '${\ $here->host}', port '${\ $here->port}', dbname 'there'); CREATE USER MAPPING FOR CURRENT_USER SERVER moves");
is($session->run("SELECT count(c) FROM iblt_internal.connect('{moves,moves}', '{x,y}') AS c; SELECT iblt_internal.peers_close('{x,y}', true); ALTER SERVER moves OPTIONS (SET dbname 'postgres');
	SELECT iblt_internal.connect('{moves}', '{z}'); SELECT iblt_internal.ask_one('z', 'SELECT pg_catalog.current_database()'); SELECT iblt_internal.peers_close('{z}', false)"), "1\n\n{z}\npostgres\n", 'none of several that were kept leads where a server has led before');
$session->start("SELECT * FROM iblt_compare('items', $peer, 'slow', key_columns => '{id}')");
my $asleep = "FROM pg_stat_activity WHERE datname = 'there' AND wait_event = 'PgSleep'";
wait_for($here, "SELECT count(*) = 1 $asleep");
$here->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $asleep");
is($session->done, '', 'a session of the peer that ends: no answer');
like($session->{err}, qr/\A\S+ ERROR:  (57P01: on the peer: terminating connection|08006: on the peer: server closed the connection)/, 'but an error, and nothing before it');
my $mine = 'mine';
is($session->run("SELECT iblt_internal.connect(ARRAY[$peer], '{$mine}'); SELECT length(iblt_internal.ask_one('$mine', 'SELECT pg_catalog.repeat(''x'', 200000000)')); SELECT iblt_internal.peers_close('{$mine}', true); SELECT iblt_disconnect()"), "{$mine}\n200000000\n\n0", 'with the memory of a long value, it is not kept');
$session->run("SELECT iblt_internal.connect(ARRAY[$peer], '{$mine}')");
is($session->run("SELECT iblt_internal.iblt_peer_is_open('$mine'), iblt_internal.iblt_peer_is_open('another'), iblt_internal.iblt_peer_is_open(NULL)"), 't|f|f', 'a connection is open by its name');
is($session->run("SELECT iblt_internal.ask_values(ARRAY['$mine'], ARRAY['SELECT pg_catalog.array_to_string(\$1, ''+'')'], how => ROW('read_planned', '{a,b}', NULL, NULL, NULL))"), '{a+b}', 'a question with keys');
$session->run("SELECT iblt_internal.ask_one('$mine', 'SELECT 1/0')");
like($session->{err}, qr/ERROR:  22012: on the peer: division by zero/, 'an error');
is($session->run("SELECT iblt_internal.iblt_peer_address('$mine')"), '', 'which has no address then');
is($session->run("SELECT iblt_internal.iblt_peer_is_open('$mine')"), 'f', 'with which the transaction and the use of the connection end');
# The error with which a question ends, as a value.
sub problem
{
	my ($question) = @_;
	$session->run("SELECT iblt_internal.connect(ARRAY[$peer], '{$mine}')");
	return $session->run("SELECT (e).reported, (e).state FROM iblt_internal.peer_send('$mine', iblt_internal.peer_settings() || '$question') AS sent,
		LATERAL iblt_internal.iblt_peer_fetch('$mine', left(sent::text, 0))");
}
is(problem('SELECT 1/0'), 't|22012', 'an error of the peer as a value');
is($session->run("SELECT iblt_internal.ask_one('$mine', 'SELECT 43')"), '43', 'and the next question in the same session');
problem('SELECT 1, 2');
like($session->{err}, qr/ERROR:  42804: the peer answered with 2 columns instead of 1/, 'other columns are an error of this side');
problem('COPY (SELECT 1) TO STDOUT');
like($session->{err}, qr/ERROR:  08P01: the peer did not answer with rows/, 'so is another protocol');
$session->run("SELECT iblt_internal.connect(ARRAY[$peer], '{$mine}')");
is($session->run("SELECT iblt_internal.peers_close('{$mine}'); SELECT iblt_internal.iblt_peer_is_open('$mine')"), "\nf", 'no driver uses it');
$session->quit;
nothing_left('at the end of the session', $here);

# --- the rule for passwords ------------------------------------------------------------------

# A connection counts once the rule is checked, also if another one at the same time is waited for
# in vain, and the error is caught.
{
	my $dir = File::Temp->newdir;
	my $mute = IO::Socket::UNIX->new(Type => Socket::SOCK_STREAM(), Local => "$dir/.s.PGSQL.1", Listen => 8) or die "listen: $!";
	$here->safe_psql('postgres', 'CREATE ROLE ordinary LOGIN');
	my $silent = literal("host=$dir port=1 password=x connect_timeout=60");
	my $trusted = literal($here->connstr('postgres') . ' user=' . $here->safe_psql('postgres', 'SELECT current_user') . ' password=x');
	like(failure("SELECT * FROM iblt_compare('items', $trusted)", user => 'ordinary'), qr/2F003: could not connect to the peer\nDETAIL:  Non-superusers cannot connect if the server does not ask for the password/, 'a password that nobody asks for');
	# an older libpq does not know the option, and then the string is wrong
	like(failure("SELECT * FROM iblt_compare('items', ${\ peer('there', \" password=x $_=/nowhere\")})", user => 'ordinary'), qr/42501: could not connect to the peer\nDETAIL:  Only superusers may give the option $_\.|08001: could not connect to the peer$/m, "not with $_")
	  foreach qw(sslkeylogfile servicefile oauth_issuer);
	like(failure("SET statement_timeout = '1s'; DO \$\$ BEGIN BEGIN PERFORM iblt_internal.iblt_peers_open('{a,b}', ARRAY[$trusted, $silent], 'infinity'); EXCEPTION WHEN query_canceled THEN NULL; END;
		PERFORM iblt_internal.iblt_peer_send('a', 'SELECT 1'); END \$\$", user => 'ordinary'), qr/08003: the connection is closed/, 'nor is it used after a cancel meanwhile');
}
nothing_left('after these connections', $here);

# --- slots and subscriptions of one database -----------------------------------------------

$here->safe_psql('there', "CREATE PUBLICATION pub FOR TABLE items; SELECT pg_create_logical_replication_slot('iblt_slot', 'pgoutput');
	SELECT pg_create_physical_replication_slot('iblt_physical')");
$here->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION $peer PUBLICATION pub WITH (create_slot = false, slot_name = 'iblt_slot', copy_data = false)");
wait_for($here, "SELECT EXISTS (SELECT FROM pg_stat_subscription WHERE received_lsn IS NOT NULL)");
my $describe = "SELECT iblt_internal.describe_replication('items') ->";
is($here->safe_psql('there', "$describe 'slots'"), '["iblt_slot"]', 'the slots of a publisher');
is($here->safe_psql('postgres', "$describe 'slots'"), '[]', 'are not those of another database');
is($here->safe_psql('postgres', "$describe 'subscriptions'"), '[{"name": "sub", "slot": "iblt_slot", "ready": true}]', 'the subscription of a subscriber');
is($here->safe_psql('there', "$describe 'subscriptions'"), '[]', 'is not that of another database');
my $applied = "SELECT iblt_internal.slot_applied('iblt_slot') > 0, iblt_internal.slot_applied('another') IS NULL";
is($here->safe_psql('there', $applied), 't|t', 'the position of a slot, by its name');
is($here->safe_psql('postgres', $applied), '|t', 'in its database');
my $known = "SELECT cardinality(iblt_internal.slot_received('iblt_slot')), iblt_internal.slot_received('another')";
is($here->safe_psql('postgres', $known), '1|{}', 'what a subscription has received, by its slot');
is($here->safe_psql('there', $known), '0|{}', 'in its database');
$here->safe_psql('postgres', 'DROP SUBSCRIPTION sub');
$here->safe_psql('there', "SELECT pg_drop_replication_slot('iblt_physical')");

done_testing();
