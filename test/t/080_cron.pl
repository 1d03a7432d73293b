# bin/iblt-audit as cron runs it: 0 only if every table is equal, 1 only if
# one differs, 2 for all else; and every way to a false 0 that we know of.
use Cwd qw(abs_path);
use File::Basename;
use IbltAudit ();
use IbltTest;
use JSON::PP;

# --- a publisher, a subscriber, and a role that is no superuser on both -------------

my ($there, $here) = (server('there'), server('here', before(19, "standard_conforming_strings = off", "escape_string_warning = off")));
sides($here, $there);
both(q{CREATE SCHEMA "audit tools"; CREATE EXTENSION iblt_audit SCHEMA "audit tools" CASCADE; CREATE EXTENSION iblt_live SCHEMA "audit tools"; CREATE EXTENSION dblink SCHEMA "audit tools"; CREATE SCHEMA shop;
	CREATE ROLE auditor LOGIN PASSWORD 'tops3cret'; GRANT USAGE ON SCHEMA shop, "audit tools" TO auditor;
	ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT SELECT ON TABLES TO auditor});
hba($_, 'local all auditor scram-sha-256') foreach ($here, $there);
both(q{CREATE TABLE shop.items (id int PRIMARY KEY, name text); CREATE TABLE shop.stock (item int PRIMARY KEY, amount int)});
$there->safe_psql('postgres', q{INSERT INTO shop.items SELECT g, 'item ' || g FROM generate_series(1, 1000) g;
	INSERT INTO shop.stock SELECT g, g FROM generate_series(1, 1000) g; CREATE PUBLICATION shop FOR TABLE shop.items, shop.stock});
$here->safe_psql('postgres', "CREATE SUBSCRIPTION shop CONNECTION 'host=${\ $there->host} port=${\ $there->port} dbname=postgres' PUBLICATION shop");
foreign_server($here, 'node_b', $there, 'auditor', 'tops3cret');
subscribed($here, 2);
$there->wait_for_catchup('shop');

# --- running it ----------------------------------------------------------------------

my $home = PostgreSQL::Test::Utils::tempdir();
append_to_file("$home/.pgpass", "*:*:*:auditor:tops3cret\n");
chmod 0600, "$home/.pgpass";
my %libpq = (HOME => $home, PGPASSFILE => "$home/.pgpass", PGUSER => 'auditor');

sub audit { my ($arguments, %how) = @_; return IbltAudit::program($arguments, %how, env => { %libpq, %{ $how{env} // {} } }) }

# A run whose status and verdict must be these; returns its tables by name.
sub audit_is
{
	my ($arguments, $status, $text, %how) = @_;
	my ($got, $out, $err) = audit([ '--json', @$arguments ], %how);
	my $document = eval { JSON::PP->new->utf8->decode($out) } // {};
	is("$got " . ($document->{verdict} // "not JSON: $out"), "$status " . (qw(equal differs unknown))[$status], $text) or note($err);
	unlike("$out$err", qr/tops3cret/, "$text: the password is nowhere");
	like($err, $how{stderr}, "$text: stderr") if $how{stderr};
	return { map { ($_->{relation} // $_->{peer_relation}) => $_ } @{ $document->{tables} // [] } };
}

sub statuses { my ($tables) = @_; return join ', ', map { "$_ $tables->{$_}{status}" } sort keys %$tables }

my @subscription = ('subscription=shop', 'peer=node_b');
my @schema = ('peer=node_b', 'schema=shop');

# --- the three outcomes -----------------------------------------------------------

foreach my $shell ('sh', 'bash')
{
	is(statuses(audit_is(\@subscription, 0, "$shell: equal", shell => $shell, stderr => qr/^$/)),
		'shop.items equal, shop.stock equal', "$shell: all tables are in the answer");
}
audit_is(\@schema, 0, 'a schema, equal');
audit_is([ 'peer=node_b', 'publication=shop' ], 0, 'a publication, equal');
audit_is([ 'peer=node_b', 'tables={shop.stock}' ], 0, 'a table, equal');
audit_is([ 'subscription=shop' ], 0, "with the subscription's own connection string", env => { PGUSER => getpwuid($<) });
{
	# the line of the page, with its role, as cron runs it
	my $top = abs_path(dirname(__FILE__) . '/../..');
	my ($line) = slurp_file("$top/doc/subscriber.md") =~ /^\d+ \d+ \* \* \*\s+(.*)$/m;
	$line =~ s{/usr/bin/}{$top/bin/};
	$line =~ s{/var/log/iblt/}{$home/};
	$line =~ s/PGDATABASE=\S+/PGDATABASE=postgres/;
	is(system('env', '-i', "HOME=$home", 'LOGNAME=auditor', 'SHELL=/bin/sh', 'PATH=/usr/bin:/bin', 'PGHOST=' . $here->host, 'PGPORT=' . $here->port, '/bin/sh', '-c', $line), 0, "cron: $line");
	like(slurp_file("$home/shop.txt"), qr/^equal: 2 tables, subscription=shop\n/, 'its answer');
}
audit_is([ 'subscription=shop' ], 2, 'without the right to read the connection string', stderr => qr/permission denied to read the connection string/);

$here->safe_psql('postgres', q{UPDATE shop.items SET name = 'other' WHERE id = 7; DELETE FROM shop.items WHERE id IN (8, 9); INSERT INTO shop.items VALUES (1001, 'more')});
foreach my $arguments (\@subscription, \@schema, [ 'peer=node_b', 'publication=shop' ])
{
	my $tables = audit_is($arguments, 1, "@$arguments: differs");
	is(statuses($tables), 'shop.items differs, shop.stock equal', 'which one');
	is(join(' ', map { $tables->{'shop.items'}{$_} } qw(rows_here rows_there missing extra changed unconfirmed)), '999 1000 2 1 1 0', 'and how');
}
audit_is([ 'peer=node_b', 'tables={shop.stock}' ], 0, 'the other table');
audit_is([ @schema, 'max_differences=1' ], 1, 'more differences than max_differences are differences');

# something that differs and something that cannot be told
both('CREATE TABLE shop.types (id int PRIMARY KEY)');
$here->safe_psql('postgres', 'ALTER TABLE shop.types ALTER id TYPE bigint');
is(statuses(audit_is(\@schema, 1, 'one differs, one is not comparable')), 'shop.items differs, shop.stock equal, shop.types not comparable', 'all are shown');
$here->safe_psql('postgres', 'TRUNCATE shop.items');
$there->safe_psql('postgres', 'TRUNCATE shop.items');
$there->wait_for_catchup('shop');
audit_is(\@schema, 2, 'one is not comparable, the others are equal');
audit_is([ @schema, 'cast_types=true' ], 0, 'cast_types is handed on');
audit_is([ @schema, 'cast_types=true', 'by_index=true' ], 0, 'and by_index');
both('DROP TABLE shop.types');

# --- tab-separated values ------------------------------------------------------------

my $awkward = qq(tab\there, "quote" \\n back\\slash % \x{e9}\nline);
(my $quoted = $awkward) =~ s/"/""/g;
utf8::encode($_) foreach ($awkward, $quoted);
both(qq(CREATE TABLE shop."$quoted" (id int PRIMARY KEY)));
$here->safe_psql('postgres', qq(INSERT INTO shop."$quoted" VALUES (1)));
my ($status, $out) = audit([ '--tsv', @schema ]);
is($status, 1, 'TSV: status');
my @lines = split /\n/, $out;
is($lines[0], join("\t", qw(relation peer_relation status detail sqlstate rows_here rows_there missing extra changed unconfirmed bytes total_ms differences)), 'TSV: header');
is(scalar(@lines), 4, 'TSV: a line a table');
is(scalar(grep { scalar(split /\t/, $_, -1) != 14 } @lines), 0, 'TSV: as many fields as there are columns');
$here->safe_psql('postgres', "CREATE TABLE answer (relation text, peer_relation text, status text, detail text, sqlstate text, rows_here bigint,
	rows_there bigint, missing bigint, extra bigint, changed bigint, unconfirmed bigint, bytes bigint, total_ms numeric, differences jsonb)");
append_to_file("$home/answer.tsv", join("\n", @lines[ 1 .. $#lines ]) . "\n");
$here->safe_psql('postgres', "\\copy answer FROM '$home/answer.tsv'");
is($here->safe_psql('postgres', "SELECT count(*) FROM answer JOIN pg_class c ON answer.relation = format('shop.%I', c.relname) AND c.relnamespace = 'shop'::regnamespace
	WHERE status = CASE WHEN relname LIKE 'tab%' THEN 'differs' ELSE 'equal' END AND sqlstate IS NULL AND extra = (relname LIKE 'tab%')::int"), '3', 'TSV: COPY reads it back');
utf8::decode(my $decoded = $awkward);
my $relation = 'shop."' . $decoded =~ s/"/""/gr . '"';
is(audit_is(\@schema, 1, 'JSON with an awkward name')->{$relation}{status}, 'differs', 'JSON: the name is right');
is(audit_is(\@schema, 1, "JSON for a client of another encoding", env => { PGCLIENTENCODING => 'LATIN1' })->{$relation}{status}, 'differs', 'JSON: it is in UTF-8');
both(qq(DROP TABLE shop."$quoted"));
($status, $out) = audit([ '--tsv', 'peer=nowhere', 'schema=shop' ]);
is("$status $out", '2 ', 'TSV: nothing if there is no answer');

# --- could not tell ------------------------------------------------------------------

audit_is([], 2, 'no arguments', stderr => qr/usage/);
audit_is([$_], 2, "argument $_") foreach ('shop', '--hell', '=', 'peer', "subscription", 'schema=shop', 'subscription=', 'peer=');
audit_is([ @schema, 'publication=shop' ], 2, 'two lists of tables', stderr => qr/at most one/);
audit_is([ @schema, 'nosuch=1' ], 2, 'an argument that the function lacks', stderr => qr/^iblt-audit: argument 3 has an unknown name/);
audit_is([ @schema, 'schema=shop' ], 2, 'an argument twice');
audit_is([ 'peer=node_b', "schema=shop'); SELECT 'verdict equal'; --" ], 2, 'quotes in an argument', stderr => qr/exists neither here nor on the peer/);
audit_is([ 'peer=node_b', q(schema=shop\\') ], 2, 'a backslash in an argument', stderr => qr/exists neither here nor on the peer/);
foreach my $name (split /\n/, $here->safe_psql('postgres', "SELECT DISTINCT unnest(proargnames[1:pronargs]) FROM pg_proc WHERE proname = 'iblt_audit'"))
{
	my ($status, $out, $err) = audit([ 'peer=node_b', 'schema=nosuch', "$name=" ]);
	unlike($err, qr/unknown name/, "argument $name is known");
}
{
	# not even where each statement is logged
	$here->safe_psql('postgres', "ALTER ROLE auditor SET log_statement = 'all'");
	my $before = -s $here->logfile;
	my $host = "host=${\ $there->host} user=auditor";
	my $uri = 'postgresql://auditor:tops3cret@localhost/postgres';
	audit_is([ $_, 'schema=shop' ], 2, "a password in an argument: $_", stderr => qr/^iblt-audit: a password on a command line.*a foreign server$/)
	  foreach ("peer=$host password=tops3cret", "peer=$host password = tops3cret", "peer=$host password\n\t=\n\t'tops3cret'", "peer=$host PASSWORD=tops3cret",
		"peer=$host sslpassword=tops3cret", "peer=$host Passwd=tops3cret", "peer=password='tops3cret' $host", "peer=$host oauth_client_secret=tops3cret", "peer=$uri", "peer=$uri?sslmode=disable",
		'peer=POSTGRESQL://auditor:tops3cret@localhost/postgres', 'peer=postgresql://auditor@localhost/postgres?password=tops3cret', "subscription=$host password=tops3cret",
		"schema=$uri", "tables={$uri}", "timeout=$host password=tops3cret");
	audit_is([ $_, 'schema=shop' ], 2, "a name that is not known: $_", stderr => qr/^iblt-audit: argument 1 has an unknown name; (?!.*tops3cret)/)
	  foreach ("Peer=$host password=tops3cret", "PEER=$uri?application_name=x", "Peer=tops3cret", "peer =$host password=tops3cret", " peer=$host password=tops3cret", "peer tables=tops3cret",
		"$host password=tops3cret", 'password=tops3cret', 'tops3cret=1', "$uri?sslmode=disable", "peer_relation=tops3cret", "\"peer=tops3cret\"");
	audit_is([ $_, 'schema=shop' ], 2, "no name: $_", stderr => qr/^iblt-audit: argument 1 is (?:not NAME=VALUE|no option; options come first[^;]*)$/) foreach ($uri, 'tops3cret', '--tops3cret');
	audit_is([ $_->[0], 'schema=shop' ], 2, "$_->[0]: what is meant", stderr => qr/^iblt-audit: argument 1 .*; perhaps $_->[1] is meant$/) foreach [ 'peeer=node_b', 'peer' ], [ 'Peer=tops3cret', 'peer' ], [ '--htlm', '--html' ], [ '--jsom', '--json' ];
	audit_is([ '--tsv', "Peer=$uri" ], 2, 'two forms of answer', stderr => qr/^iblt-audit: argument 1 is no option; options come first, each once, and one of [^;]*$/);
	is(slurp_file($here->logfile, $before) =~ /tops3cret|unnest|iblt_audit/ ? 'sent' : '', '', 'nothing of them is sent to the server');
	$here->safe_psql('postgres', 'ALTER ROLE auditor RESET log_statement');
}
both('CREATE SCHEMA empty; GRANT USAGE ON SCHEMA empty TO auditor');
audit_is([ 'peer=node_b', 'schema=empty' ], 2, 'no tables', stderr => qr/no tables to audit/);
audit_is([ 'peer=node_b', 'tables={}' ], 2, 'an empty list', stderr => qr/no tables to audit/);
audit_is([ 'peer=node_b', 'tables={items}' ], 2, 'a name without a schema');
audit_is([ 'subscription=other', 'peer=node_b' ], 2, 'no such subscription');
audit_is(\@schema, 2, 'connection refused', env => { PGPORT => 1 }, stderr => qr/no connection to the server that conducts/);
audit_is(\@schema, 2, 'wrong password, and nobody is asked', env => { PGPASSFILE => '/dev/null' }, stderr => qr/\A(?!.*Password for user).*no connection to the server that conducts/s);
audit_is(\@schema, 2, 'another database, without iblt', env => { PGDATABASE => 'template1' }, stderr => qr/not installed/);
audit_is(\@schema, 2, 'no psql', env => { PATH => $home, }, shell => '/bin/sh', stderr => qr/psql ended with status 127/);
foreign_server($here, 'mirror', $here, 'auditor', 'tops3cret');
audit_is([ 'peer=mirror', 'schema=shop' ], 2, 'the peer is this side', stderr => qr/this database itself/);

$here->safe_psql('postgres', 'ALTER TABLE shop.stock ADD shelf int');
audit_is(\@schema, 2, 'a column that one side lacks');
audit_is([ @schema, 'extra_columns=warn' ], 0, 'a column that may be left out');
audit_is([ 'extra_columns=ignore', @subscription ], 0, 'the same for a subscription, in another order');
$here->safe_psql('postgres', 'ALTER TABLE shop.stock DROP shelf');
both('CREATE TABLE shop.secret (id int)');
$there->safe_psql('postgres', 'REVOKE SELECT ON shop.secret FROM auditor');
is(statuses(audit_is(\@schema, 2, 'a table that may not be read')), 'shop.items equal, shop.secret error, shop.stock equal', 'the others are shown');
both('DROP TABLE shop.secret');

# differences that nobody can confirm
$here->safe_psql('postgres', 'ALTER SUBSCRIPTION shop DISABLE');
$there->safe_psql('postgres', 'INSERT INTO shop.stock VALUES (2000, 0)');
is(statuses(audit_is(\@subscription, 2, 'unconfirmed only')), 'shop.items equal, shop.stock not comparable', 'and why');
$here->safe_psql('postgres', 'ALTER SUBSCRIPTION shop ENABLE');
$there->wait_for_catchup('shop');
audit_is(\@subscription, 0, 'replicated by now');
$there->safe_psql('postgres', 'CREATE TABLE shop.new (id int PRIMARY KEY); ALTER PUBLICATION shop ADD TABLE shop.new');
audit_is(\@subscription, 2, 'a table that is published, but not subscribed');
$there->safe_psql('postgres', 'DROP TABLE shop.new');

# --- settings that others have made -------------------------------------------------

append_to_file("$home/.psqlrc", "\\set ON_ERROR_STOP off\n\\set AUTOCOMMIT off\n\\pset format html\nSELECT 'verdict equal';\n\\o /dev/null\n");
audit_is(\@schema, 0, 'a ~/.psqlrc is not read: equal');
audit_is([ 'peer=node_b', 'schema=empty' ], 2, 'a ~/.psqlrc is not read: error');
unlink "$home/.psqlrc";
foreach my $setting ('default_transaction_isolation = serializable', "search_path = evil, pg_catalog", "client_encoding = latin1",
	'client_min_messages = debug5', 'default_transaction_read_only = on', before(19, 'standard_conforming_strings = off'))
{
	$here->safe_psql('postgres', q(CREATE SCHEMA IF NOT EXISTS evil AUTHORIZATION auditor; SET search_path = evil;
		CREATE OR REPLACE FUNCTION iblt_audit(peer text, schema text) RETURNS TABLE (status text)
			LANGUAGE sql AS 'SELECT ''equal''';
		CREATE OR REPLACE FUNCTION bool_or(boolean) RETURNS boolean LANGUAGE sql AS 'SELECT false';) . "ALTER ROLE auditor SET $setting");
	$there->safe_psql('postgres', 'INSERT INTO shop.stock VALUES (-1, 0)');
	$there->wait_for_catchup('shop');
	audit_is(\@schema, 0, "$setting: equal");
	$here->safe_psql('postgres', 'DELETE FROM shop.stock WHERE item = -1');
	audit_is(\@schema, 1, "$setting: differs");
	$there->safe_psql('postgres', 'DELETE FROM shop.stock WHERE item = -1');
	$there->wait_for_catchup('shop');
	$here->safe_psql('postgres', 'ALTER ROLE auditor RESET ALL; DROP SCHEMA evil CASCADE');
}

# --- interrupted -----------------------------------------------------------------------

sub wait_blocked
{
	my ($node, $table) = @_;
	return wait_for($node, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = '$table'::regclass");
}

# The audit waits for a lock on its second table, here or there; $act is done then.
sub interrupted
{
	my ($node, $act, %how) = @_;
	my $holder = holding($node, 'BEGIN; LOCK TABLE shop.stock');
	return audit([ '--json', @schema ], %how, meanwhile => sub {
		local %ENV = %ENV;
		delete @ENV{qw(PGUSER PGPASSFILE)};
		wait_blocked($node, 'shop.stock');
		$act->($_[0]);
		$holder->quit;
	});
}

sub interrupted_is
{
	my ($node, $text, $act, %how) = @_;
	my ($status, $out, $err) = interrupted($node, $act, %how);
	is("$status $out", qq(2 {"verdict": "unknown", "tables": []}\n), $text) or note($err);
	return;
}

my $of_audit = q{FROM pg_stat_activity WHERE application_name = 'iblt-audit'};
interrupted_is($here, 'cancelled', sub { $here->safe_psql('postgres', "SELECT pg_cancel_backend(pid) $of_audit") });
interrupted_is($there, 'cancelled while the peer works', sub { $here->safe_psql('postgres', "SELECT pg_cancel_backend(pid) $of_audit") });
interrupted_is($here, 'terminated', sub { $here->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $of_audit") });
$here->safe_psql('postgres', "ALTER ROLE auditor SET statement_timeout = '2s'");
interrupted_is($there, 'statement_timeout', sub {
	$here->poll_query_until('postgres', "SELECT count(*) = 0 $of_audit") });
$here->safe_psql('postgres', 'ALTER ROLE auditor RESET statement_timeout');
# many small tables are asked for in one message, and each alone if that fails
($status, $out) = interrupted($there, sub {
	foreach my $time (1, 2)
	{
		wait_blocked($there, 'shop.stock');
		my $pid = $there->safe_psql('postgres', "SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'shop.stock'::regclass");
		$there->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		$there->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid") or die;
	} });
my $document = JSON::PP->new->utf8->decode($out);
is("$status $document->{verdict} " . join(' ', map { $_->{status} } @{ $document->{tables} }), '2 unknown equal error', "the peer's session is terminated");
($status, $out) = interrupted($here, sub { $_[0]->signal('TERM') });
unlike("$status $out", qr/^[01] |verdict/, 'killed: neither 0 nor 1, and no verdict');
$here->poll_query_until('postgres', "SELECT count(*) = 0 $of_audit") or die;
audit_is(\@schema, 0, 'after all that');

# --- answers that are not whole ----------------------------------------------------------

# In place of psql, programs that fail in one way or another after it has answered.
my $psql = `sh -c 'command -v psql'`;
chomp $psql;
my %stub = (
	'fails after the answer' => qq("$psql" "\$@"; exit 3),
	'is killed after the answer' => qq("$psql" "\$@"; kill -9 \$\$),
	'says nothing' => 'cat > /dev/null',
	'says nothing but that all is equal' => 'cat > /dev/null; echo verdict equal',
	'loses the end of the answer' => qq("$psql" "\$@" | head -n 3),
	'loses the beginning of the answer' => qq("$psql" "\$@" | tail -n 3),
	'says something before' => qq(echo hello; "$psql" "\$@"),
	'says something behind' => qq("$psql" "\$@"; echo hello),
	'does not read its input' => 'exec < /dev/null; echo verdict equal; echo; echo end of answe',
);
foreach my $how (sort keys %stub)
{
	my $bin = PostgreSQL::Test::Utils::tempdir();
	append_to_file("$bin/psql", "#!/bin/sh\n$stub{$how}\n");
	chmod 0755, "$bin/psql";
	audit_is(\@schema, 2, "psql $how", env => { PATH => "$bin:$ENV{PATH}" });
}
SKIP:
{
	skip 'there is no /dev/full', 1 unless -c '/dev/full';
	is((audit(\@schema, to => '/dev/full'))[0], '2', 'the answer cannot be written');
	is((audit(\@schema, to => '/dev/full', shell => 'bash'))[0], '2', 'the answer cannot be written (bash)');
}
{
	pipe(my $reader, my $writer) or die;
	close $reader;
	local $SIG{PIPE} = 'DEFAULT';	# for the script, too
	is((audit(\@schema, to => $writer))[0], '2', 'nobody reads the answer');
}
my $closed = system('sh', '-c', '"$@" >&-', 'sh', 'env', (map { "$_=$libpq{$_}" } keys %libpq), 'PGHOST=' . $here->host, 'PGPORT=' . $here->port, 'PGDATABASE=postgres', 'sh', $IbltAudit::audit_sh, @schema);
is($closed >> 8, 2, 'stdout is closed');

# --- a standby of the subscriber --------------------------------------------------------

my $standby = standby($here, 'standby');
my %on_standby = (env => { PGHOST => $standby->host, PGPORT => $standby->port });
audit_is(\@subscription, 0, 'on a standby of the subscriber: equal', %on_standby);
$here->safe_psql('postgres', 'DELETE FROM shop.stock WHERE item = 5');
replayed($here, $standby);
audit_is(\@subscription, 2, 'there, nothing can be confirmed', %on_standby);
$here->stop;
my $holder = holding($there, 'BEGIN; LOCK TABLE shop.items');
($status) = audit(\@schema, %on_standby, meanwhile => sub {
	local %ENV = %ENV;
	delete @ENV{qw(PGUSER PGPASSFILE)};
	wait_blocked($there, 'shop.items');
	$standby->promote;
	$holder->quit;
});
isnt($status, 0, 'promoted meanwhile: it is not called equal');
$standby->safe_psql('postgres', 'ALTER SUBSCRIPTION shop DISABLE');
audit_is([ @schema, 'recheck=0' ], 1, 'after the promotion', %on_standby);

done_testing();
