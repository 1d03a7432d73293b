# What a peer's error does here.  A hostile peer chooses its SQLSTATE, also one that OTHERS leaves
# out or that iblt uses itself: no log of this side shows the statement, in which a connection
# string may be, and no function takes an error for an answer.  And errors in another language.
use strict;
use warnings;

use IbltTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

IbltTest::share_sessions();

my $here = server('here', 'log_min_error_statement = debug1', 'log_min_messages = notice');
sides($here, $here);
$here->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(hostile honest);
$here->safe_psql($_, 'CREATE EXTENSION iblt; CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, g FROM generate_series(1, 50) g; CREATE SEQUENCE s')
  foreach qw(postgres hostile honest);
$here->safe_psql('postgres', 'CREATE EXTENSION dblink');
my $string = literal($here->connstr('hostile') . ' password=s3cr3t');
my $honest = literal($here->connstr('honest') . ' password=s3cr3t');

# --- a hostile peer -----------------------------------------------------------------------------

# It fails where it is asked something that matches, with a SQLSTATE.
$here->safe_psql('hostile', q{DROP TABLE u; CREATE TABLE u (id int PRIMARY KEY, v int, more int); CREATE TABLE public.hostility (state text, at text); GRANT SELECT ON public.hostility TO PUBLIC;
	CREATE FUNCTION public.fail_at(asked text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE h record;
	BEGIN
		SELECT * INTO h FROM public.hostility;
		IF asked ~ h.at AND asked !~ 'hostility' THEN
			RAISE EXCEPTION USING ERRCODE = h.state, MESSAGE = 'a hostile message';
		END IF;
	END $$;
	ALTER FUNCTION iblt_internal.iblt_peer_settings RENAME TO own_settings;
	CREATE FUNCTION iblt_internal.iblt_peer_settings(date_style text, interval_style text, timezone_abbreviations text, label text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM public.fail_at(current_query());
		PERFORM iblt_internal.own_settings(date_style, interval_style, timezone_abbreviations, label);
	END $$;
	ALTER FUNCTION iblt_internal.track_start RENAME TO own_start;
	CREATE FUNCTION iblt_internal.track_start(relation regclass, key_columns text[], columns text[], capacity integer, peer text, peer_relation text) RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM public.fail_at('track_start');
		RETURN iblt_internal.own_start(relation, key_columns, columns, capacity, peer, peer_relation);
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

my @calls = ("iblt_compare('t', $string)", "iblt_compare_ranges('t', $string)", "iblt_audit($string, '{t,u}')", "iblt_audit($string, schema => 'public')",
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
$here->safe_psql('hostile', 'TRUNCATE public.hostility');
nothing_left('after all these errors', $here);

# a cancel here, while the peer works
foreach my $call ("CALL iblt_track_all($string, '{t}')", "CALL iblt_track('t', $string)", "SELECT count(*) FROM iblt_compare('t', $string)")
{
	my $holder = IbltTest::Session->new($here, $call =~ /compare/ ? 'hostile' : 'postgres');
	$holder->run('BEGIN; LOCK TABLE t');
	my ($out, $err, $log) = told("SET statement_timeout = '500ms'; $call");
	like($err, qr/canceling statement/, 'a cancel of this side');
	unlike($err . $log, qr/s3cr3t/, 'shows no connection string');
	$holder->run('ROLLBACK');
	$holder->quit;
}

$here->stop;
done_testing();
