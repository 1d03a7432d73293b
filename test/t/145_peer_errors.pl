# What a peer's error does here.  A hostile peer chooses its SQLSTATE, also one that OTHERS leaves
# out or that iblt uses itself: no log of this side shows the statement, in which a connection
# string may be, and no function takes an error for an answer.  And errors in another language.
use IbltTest;

my $here = ready('here', 'log_min_error_statement = debug1', 'log_min_messages = notice');
sides($here, $here);
$here->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE postgres") foreach qw(hostile honest);
$here->safe_psql($_, 'CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, g FROM generate_series(1, 50) g; CREATE SEQUENCE s')
  foreach qw(postgres hostile honest);
my $string = literal($here->connstr('hostile') . ' password=s3cr3t');
my $honest = literal($here->connstr('honest') . ' password=s3cr3t');

# --- a hostile peer -----------------------------------------------------------------------------

# It fails where it is asked something that matches, with a SQLSTATE.
$here->safe_psql('hostile', q{DROP TABLE u; CREATE TABLE u (id int PRIMARY KEY, v int, more int); CREATE TABLE public.hostility (state text, at text, message text DEFAULT 'a hostile message'); GRANT SELECT ON public.hostility TO PUBLIC;
	CREATE FUNCTION public.fail_at(asked text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE h record;
	BEGIN
		SELECT * INTO h FROM public.hostility;
		IF asked ~ h.at AND asked !~ 'hostility' THEN
			RAISE EXCEPTION USING ERRCODE = h.state, MESSAGE = h.message;
		END IF;
	END $$;
	ALTER FUNCTION iblt_internal.iblt_peer_settings RENAME TO own_settings;
	CREATE FUNCTION iblt_internal.iblt_peer_settings(date_style text, interval_style text, timezone_abbreviations text, label text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM public.fail_at(current_query());
		PERFORM iblt_internal.own_settings(date_style, interval_style, timezone_abbreviations, label);
	END $$;
	ALTER FUNCTION iblt_internal.track_start RENAME TO own_start;
	CREATE FUNCTION iblt_internal.track_start(relation regclass, key_columns text[], columns text[], capacity integer, offer jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM public.fail_at('track_start');
		RETURN iblt_internal.own_start(relation, key_columns, columns, capacity, offer);
	END $$});
sub hostile { my ($state, $at) = @_; $here->safe_psql('hostile', "TRUNCATE public.hostility; INSERT INTO public.hostility VALUES ('$state', '$at')"); return }

# What is told of a call: its output, its messages, and the log of this database's sessions.
sub told
{
	my ($call) = @_;
	my $from = -s $here->logfile;
	my ($rc, $out, $err) = $here->psql('postgres', ($call =~ /^CALL|^SET/ ? $call : "SELECT * FROM $call"));
	return ($out, $err, slurp_file($here->logfile, $from));
}

my @calls = ("iblt_compare('t', $string)", "iblt_audit($string, '{t,u}')", "iblt_audit($string, schema => 'public')",
	"iblt_compare_nodes('public.t', ARRAY['here', $string])", "iblt_audit_nodes(ARRAY['here', $string, $honest], '{public.t}', without => 'skip')",
	"iblt_repair('t', $string, direction => 'pull')", "iblt_repair('t', $string, direction => 'push', apply => true)", "iblt_repair_nodes('public.t', ARRAY['here', $string, $honest], without => 'skip')",
	"CALL iblt_track('t', $string)", "CALL iblt_track_all($string, '{t,u}')", "CALL iblt_audit_run($string, '{t,u}', method => 'sketch')");
foreach my $state (qw(P0004 57014 IB000 IB002 IB004 08006))
{
	foreach my $at ('.', 'scan_answer|audit_answers|track_start|lock')
	{
		hostile($state, $at);
		foreach my $call ($at eq '.' ? @calls : grep { /track_all|compare\(|audit\(|run|repair\(/ } @calls)
		{
			my ($out, $err, $log) = told($call);
			my $name = $call =~ s/\(.*//sr;
			unlike($log . $err, qr/s3cr3t/, "$state, $name: no connection string in messages and the log") or diag($call);
			unlike($out, qr/\bequal\b|applied/, "$state, $name: nothing is equal or applied") if $at eq '.';
			unlike($err, qr/is tracked/, "$state, $name: nothing is tracked") if $call =~ /track_all/ && $at eq '.';
		}
	}
}
# one table that fails is not the end of the others
hostile('P0004', 'track_start');
like((told("CALL iblt_track_all($string, '{t,u}')"))[1], qr/table public.t is not tracked: on the peer: a hostile message.*table public.u is not tracked/s, 'a failed ASSERT of the peer is the problem of its table');
# the error of one node is not another node's
hostile('IB004', '.');
$here->safe_psql('hostile', q{UPDATE public.hostility SET message = 'on "node 3": it is lost'});
my $nodes = "ARRAY['here', $string, $honest]" =~ s/'here'/NULL/r;
like((told("iblt_compare_nodes('public.t', $nodes, without => 'skip')"))[1], qr/node "node 2" is left out/, 'a node cannot have another one left out');
$here->safe_psql('hostile', 'TRUNCATE public.hostility');
nothing_left('after all these errors', $here);

# a cancel here, while the peer works
foreach my $call ("CALL iblt_track_all($string, '{t}')", "CALL iblt_track('t', $string)", "SELECT count(*) FROM iblt_compare('t', $string)")
{
	my $holder = holding($here, 'BEGIN; LOCK TABLE t', $call =~ /compare/ ? 'hostile' : 'postgres');
	my ($out, $err, $log) = told("SET statement_timeout = '500ms'; $call");
	like($err, qr/canceling statement/, 'a cancel of this side');
	unlike($err . $log, qr/s3cr3t/, 'shows no connection string');
	$holder->run('ROLLBACK');
	$holder->quit;
}

# --- another language ------------------------------------------------------------------------------

# What may be shown of a connection that fails is known from the connection string, in any language.
foreach my $string ("password='s3cr3t", "password='s3''cr3t'", 'password=my secret=x', 'password=my bogus=s3cr3t', "password=my s3cr3t=''", "host=/nowhere dbname='host=x password=s3cr3t'", 'host=/nowhere dbname=postgresql://u:s3cr3t@h/d',
	'postgresql://u:s3/cr3t@127.0.0.1/d', 'postgresql://u:s3?cr3t@127.0.0.1/d', 'postgresql://u:s3@cr3t@127.0.0.1/d', 'postgresql://u:s3%cr3t@127.0.0.1/d', 'postgresql://u:p@127.0.0.1/d?s3cr3t', 'postgresql://u:p@127.0.0.1/d?bogus=s3cr3t')
{
	my ($out, $err, $log) = told("iblt_compare('t', ${\ literal($string)})");
	like($err, qr/could not connect to the peer\nHINT/, "a connection string that libpq may take apart elsewhere than its author thinks: $string");
	unlike($err . $log, qr/s3|cr3t|secret/, 'no part of it is shown');
}

SKIP:
{
	chomp(my $catalogs = `pg_config --localedir`);
	my $locales = PostgreSQL::Test::Utils::tempdir();
	skip 'no German messages', 1 if grep { !-e "$catalogs/de/LC_MESSAGES/$_-${\ major_version()}.mo" } qw(libpq5 postgres);
	skip 'localedef cannot make a German locale', 1 if system("localedef -i de_DE -f UTF-8 '$locales/de_DE.utf8' >/dev/null 2>&1") >> 8 > 1 || !-d "$locales/de_DE.utf8";
	local $ENV{LOCPATH} = $locales;
	$here->append_conf('postgresql.conf', "lc_messages = 'de_DE.utf8'");
	$here->restart;
	$here->safe_psql('postgres', 'CREATE TABLE hidden (id int PRIMARY KEY)');
	my $german = sub { my ($rc, $out, $err) = $here->psql('postgres', "\\set VERBOSITY verbose\n$_[0]"); return $err };
	my $host = $here->host;
	my $err = $german->("SELECT * FROM iblt_compare('t', 'host=$host port=1 password=s3cr3t')");
	like($err, qr/08001: could not connect to the peer\nDETAIL: .*Verbindung zum Server auf Socket/, 'no server there, in German');
	unlike($err, qr/s3cr3t/, 'without the password');
	like($german->("SELECT * FROM iblt_compare('t', ${\ literal($here->connstr('nowhere'))})"), qr/DETAIL: .*Datenbank .*nowhere.* existiert nicht/s, 'no database of that name');
	like($german->("SELECT * FROM iblt_compare('t', 'postgresql://u:s3cr3t\@/nowhere?host=$host&port=1')"), qr/DETAIL: .*Verbindung zum Server/, 'by a URI');
	$err = $german->("SELECT * FROM iblt_compare('t', 'host=$host password=s3 cr3t')");
	like($err, qr/could not connect to the peer\nHINT/, 'a string with a mistake: no detail');
	unlike($err, qr/s3 |cr3t/, 'and no part of it');
	$here->safe_psql('postgres', "CREATE SERVER far FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '$host', port '1'); CREATE USER MAPPING FOR CURRENT_USER SERVER far");
	like($german->("SELECT * FROM iblt_compare('t', 'far')"), qr/DETAIL: .*Verbindung zum Server/, 'a foreign server');
	# an error of iblt's own has no functions of iblt in its context, one of PostgreSQL's has them
	my $own = sub { return $german->("SELECT * FROM iblt_compare('t', 'home', $_[0])") };
	$here->safe_psql('postgres', "CREATE SERVER home FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '$host', port '${\ $here->port}', dbname 'honest'); CREATE USER MAPPING FOR CURRENT_USER SERVER home");
	unlike($own->($_), qr/(check_options|columns_|peer_|ask)\w*\(/, "an error of iblt's own: $_") foreach ('max_differences => -1', "columns => '{nothing}'", "peer_condition => '1/0 = id'");
	is($here->safe_psql('postgres', "SELECT string_agg(iblt_internal.failure_is_own(jsonb_populate_record(NULL::iblt_internal.failure, jsonb_build_object('state', '42501', 'context', line)))::text, ' ' ORDER BY n) FROM unnest(ARRAY['PL/pgSQL-Funktion ask_values(text[],text[],text,reading,anyelement) Zeile 6 bei EXECUTE',
		'PL/pgSQL-Funktion check_options(regclass,options) Zeile 6 bei RAISE', 'PL/pgSQL関数ask_values(text[],text[],text,reading,anyelement)の6行目 - EXECUTE', 'PL/pgSQL関数check_options(regclass,options)の6行目 - RAISE', 'SQL-Anweisung »SELECT iblt_raise(e)«', 'PL/pgSQL-Funktion public.f(integer) Zeile 6 bei EXECUTE']) WITH ORDINALITY AS u(line, n)"), 'false true false true true true', 'whose error it was, in two languages');
	like($own->("condition => '1/(id-7) = id'"), qr/22012: Division durch Null\n/, "and one of PostgreSQL's");
	is($german->("SELECT * FROM iblt_compare('t', $honest)"), '', 'and without a mistake, none');
}

done_testing();
