# IbltTest.pm
#	The tests share this: strict and warnings, PostgreSQL's modules and Test::More, servers, sessions, waiting.
#
#	random_seed()                srand with IBLT_TEST_SEED or a new seed, which it prints
#	pick(LIST)                   one of it, by that seed
#	major_version()              that of the servers under test
#	before(VERSION, LIST)        the list on servers before that version, nothing on later ones
#	server(NAME, SETTING, ...)   starts a server that can publish
#	ready(NAME, SETTING, ...)    one whose database postgres has dblink and our extensions except kbf
#	two_servers(SETTING, ...)    two such that the functions below use, here and there, and
#	                             the connection string of the second one as an SQL literal
#	awkward_servers([SETTING, ...], [SETTING, ...])  these two with the extensions in awkward schemas, and dblink here alone
#	standby(PRIMARY, NAME, ...)  a hot standby of it that has caught up; settings may follow
#	replayed(PRIMARY, STANDBY)   waits until it has caught up again
#	hba(NODE, LINE, ...)         puts lines before all others in pg_hba.conf
#	foreign_server(NODE, NAME, TO [, ROLE, PASSWORD])  a foreign server that leads to TO, and a user mapping.  A role
#	                             that is given may use it, and TO asks that role for the password
#	share_sessions(ON)           whether calls of psql share sessions (IbltPool.pm), as they do at first
#	sides(HERE, THERE)           sets the two servers that the functions below use
#	extensions(), create_extensions(OPTIONS), of_extensions()
#	                             the names of our extensions, the statements that create all, and
#	                             the condition on pg_extension that chooses them
#	inside(NODE, ...)            sessions find the functions of iblt_internal by their names alone
#	both(SQL)                    runs SQL on both
#	literal(TEXT)                TEXT as an SQL literal
#	conninfo(NODE)               its connection string as an SQL literal
#	lines(TEXT)                  the number of lines
#	audit_stats(CALL)            a subquery: the rows of iblt_audit_stats after that call of iblt_audit
#	failure(SQL)                 the error, with its SQLSTATE; '' if there is none
#	changed(NODE, FUNCTION, FROM, TO)  a function of iblt_internal has TO in place of FROM, which it must have, from then
#	                             on.  Returns the SQL that takes it back
#	unnoticed(NODE, INDEX, SQL, ...)  runs SQL whose rows the index is not told of
#	wait_for(NODE, QUERY)        waits until the query gives true
#	subscribed(NODE, NUMBER [, SUBSCRIPTION])  waits until that number of tables is copied
#	synchronous(NODE, NAMES)     sets synchronous_standby_names; commits wait for them from then on
#	holding(NODE, SQL [, DATABASE])  a session that has run SQL, and holds what that has taken
#	compiled(SOURCE, DIRECTORY)  a test: a C file compiles.  Returns its library
#	background(NODE, SQL)        starts psql, which runs SQL while the test goes on: out, err
#	finish(RUN)                  waits for its end and returns its output
#	time_limit()                 of a program that a test runs, for IPC::Run
#	start_load(NODE, SCRIPT, OPTION, ...)   pgbench
#	stop_load(RUN, TEXT)         two tests: it still ran, and met no error
#	connections(NODE)            the number of connections of the extension to it
#	nothing_left(TEXT, NODE, ...)  a test for each node, or for the peer if none is given: no session of iblt's is at work
#	IbltTest::Session            a psql that the test gives one command after the other
package IbltTest;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter;
use File::Basename qw(basename dirname);
use IbltPool ();
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @ISA = qw(Exporter);
our @EXPORT = (@PostgreSQL::Test::Utils::EXPORT, @Test::More::EXPORT, qw(inside random_seed pick major_version before server ready two_servers awkward_servers standby replayed hba foreign_server sides extensions create_extensions of_extensions both literal conninfo lines audit_stats failure changed unnoticed wait_for subscribed
	synchronous holding compiled background finish start_load stop_load connections nothing_left));

our ($here, $there);
my $ready = 'CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE EXTENSION dblink';

# As "use strict" and "use warnings" do, for the file that uses this or a module made of it.
sub import
{
	my ($class, @names) = @_;
	strict->import;
	warnings->import;
	return $class->export_to_level(1, $class, @names);
}

sub random_seed
{
	my $seed = $ENV{IBLT_TEST_SEED} || (time() ^ $$) % 1000000;
	srand($seed);
	note("seed $seed");
	return $seed;
}

sub pick { return $_[ int(rand(@_)) ] }

sub major_version { return (`postgres --version` =~ /(\d+)/)[0] }

# For settings that later servers refuse.
sub before
{
	my ($version, @list) = @_;
	return major_version() < $version ? @list : ();
}

sub server { my ($name, @settings) = @_; return prepared('', $name, @settings) }
sub ready { my ($name, @settings) = @_; return prepared($ready, $name, @settings) }

# test/lib/initdb.sh may have run the SQL already, once for many servers.
sub prepared
{
	my ($sql, $name, @settings) = @_;
	local $ENV{INITDB_SQL} = $sql;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 'logical', extra => [ '-E', 'UTF8', '--no-locale' ]);
	# The 1 MB of Cluster.pm is less than the catalogs that a comparison reads.  What is run once is not worth compiling.
	# A follower tells its publisher what the WAL writer has written.  Comparisons poll until then.
	$node->append_conf('postgresql.conf', join("\n",
		"max_connections = 30", "max_worker_processes = 20", "max_logical_replication_workers = 12", "max_replication_slots = 12", "max_wal_senders = 14",
		"max_parallel_workers_per_gather = 2", "wal_receiver_status_interval = 1s", "wal_retrieve_retry_interval = 100ms", "wal_writer_delay = 10ms",
		"shared_buffers = 16MB", "jit = off", "password_encryption = 'scram-sha-256'", "log_statement = none", "log_min_messages = warning", @settings) . "\n");
	$node->start;
	$node->safe_psql('postgres', $sql) unless $sql eq '' || -e $node->data_dir . '/prepared';
	return $node;
}

sub two_servers
{
	my (@settings) = @_;
	sides(map { ready($_, @settings) } 'here', 'there');
	return ($here, $there, conninfo($there));
}

sub standby
{
	my ($primary, $name, @settings) = @_;
	my $backup = "for_$name";
	$primary->backup($backup);
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($primary, $backup, has_streaming => 1);
	$node->append_conf('postgresql.conf', join("\n", @settings) . "\n");
	$node->start;
	replayed($primary, $node);
	return $node;
}

sub replayed
{
	my ($primary, $node) = @_;
	# An apply worker commits asynchronously, so its changes may not be written yet.
	# This commit waits until all changes before it are.
	$primary->safe_psql('postgres', "SELECT pg_logical_emit_message(true, '', '')");
	$primary->wait_for_catchup($node, 'replay', $primary->lsn('write'));
	return;
}

sub hba
{
	my ($node, @lines) = @_;
	my $file = $node->data_dir . '/pg_hba.conf';
	my $old = slurp_file($file);
	unlink $file;
	append_to_file($file, join("\n", @lines) . "\n$old");
	$node->reload;
	return;
}

sub foreign_server
{
	my ($node, $name, $to, $role, $password) = @_;
	hba($to, "local all $role scram-sha-256") if $role;
	return $node->safe_psql('postgres', qq{CREATE SERVER "$name" FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '${\ $to->host}', port '${\ $to->port}', dbname 'postgres'); CREATE USER MAPPING FOR }
		  . ($role ? qq{$role SERVER "$name" OPTIONS (user '$role', password '$password'); GRANT USAGE ON FOREIGN SERVER "$name" TO $role} : qq{CURRENT_USER SERVER "$name"}));
}

sub share_sessions { my ($on) = @_; IbltPool::all_end() unless $on; $IbltPool::enabled = $on; return }

sub sides { ($here, $there) = @_; return }

# For tests that call functions which only others call, and these pin the path.
sub inside
{
	$_->safe_psql('postgres', 'ALTER ROLE CURRENT_USER SET search_path = public, iblt_internal') foreach @_;
	return;
}

sub extensions { return map { basename($_, '.control') } sort glob abs_path(dirname(__FILE__) . '/../..') . '/*.control' }

sub create_extensions { my ($options) = @_; return join ' ', map { "CREATE EXTENSION IF NOT EXISTS $_ $options CASCADE;" } extensions() }

sub of_extensions { return 'extname IN (' . join(', ', map { "'$_'" } extensions()) . ')' }

# The schemas are not in search_path, and their names must be quoted.
sub awkward_servers
{
	my ($of_here, $of_there) = @_;
	sides(prepared(q{CREATE SCHEMA "db ""link"; CREATE EXTENSION dblink SCHEMA "db ""link"; CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live}, 'here', @$of_here),
		prepared(q{CREATE SCHEMA "Their Iblt"; CREATE EXTENSION iblt_audit SCHEMA "Their Iblt" CASCADE; CREATE EXTENSION iblt_live SCHEMA "Their Iblt"}, 'there', @$of_there));
	return ($here, $there);
}

sub both
{
	my ($sql) = @_;
	$_->safe_psql('postgres', $sql) foreach ($here, $there);
	return;
}

# Correct for both values of standard_conforming_strings.
sub literal
{
	my ($text) = @_;
	$text =~ s/'/''/g;
	return $text =~ s/\\/\\\\/g ? "E'$text'" : "'$text'";
}

sub conninfo { my ($node) = @_; return literal($node->connstr('postgres')) }

sub lines { my ($text) = @_; return scalar(() = $text =~ /^.+$/mg) }

sub audit_stats
{
	my ($call) = @_;
	my ($schema) = $call =~ /^(.*?)iblt_audit\(/;
	# OFFSET keeps the planner from reading them first
	return "(SELECT s.* FROM (SELECT count(*) FROM $call) AS a(n), LATERAL (SELECT * FROM ${schema}iblt_audit_stats() WHERE n > 0 OFFSET 0) AS s)";
}

# node: where it runs.  user: the role.
sub failure
{
	my ($sql, %how) = @_;
	my ($rc, $out, $err) = ($how{node} // $here)->psql('postgres', "\\set VERBOSITY verbose\n$sql",
		($how{user} ? (extra_params => [ '-U', $how{user} ]) : ()));
	return $rc == 0 ? '' : $err;
}

sub changed
{
	my ($node, $function, $from, $to) = @_;
	my $path = 'SET search_path = iblt_internal, pg_catalog; ';
	my $was = $path . $node->safe_psql('postgres', "${path}SELECT pg_get_functiondef('$function'::regproc)");
	die "$function does not have: $from" if index($was, $from) < 0;
	$node->safe_psql('postgres', $was =~ s/\Q$from\E/$to/gr);
	return $was;
}

sub unnoticed
{
	my ($node, $index, @sql) = @_;
	my $set = "UPDATE pg_index SET indisready = %s, indisvalid = %1\$s WHERE indexrelid = '$index'::regclass";
	$node->safe_psql('postgres', $_) foreach (sprintf($set, 'false'), @sql, sprintf($set, 'true'));
	return;
}

sub wait_for
{
	my ($node, $query) = @_;
	return $node->poll_query_until('postgres', $query) || die "not so: $query";
}

sub subscribed
{
	my ($node, $number, $subscription) = @_;
	return wait_for($node, "SELECT count(*) = $number AND bool_and(srsubstate = 'r') FROM pg_subscription_rel r
		JOIN pg_subscription s ON s.oid = r.srsubid" . ($subscription ? ' WHERE s.subname = ' . literal($subscription) : ''));
}

sub synchronous
{
	my ($node, $names) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = '$names'");
	$node->reload;
	return wait_for($node, "SELECT current_setting('synchronous_standby_names') = '$names'");
}

# No program that a test runs needs that long, on a slow machine either.
sub time_limit { return IPC::Run::timeout(10 * $PostgreSQL::Test::Utils::timeout_default) }

sub holding
{
	my ($node, $sql, $database) = @_;
	my $session = IbltTest::Session->new($node, $database);
	$session->run($sql);
	return $session;
}

sub compiled
{
	my ($source, $directory) = @_;
	my $library = "$directory/" . basename($source, '.c') . '.so';
	my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
	chomp(my $include = `$pg_config --includedir-server`);
	command_ok([ 'cc', '-shared', '-fPIC', '-Wall', '-Werror=implicit-function-declaration', "-I$include", '-o', $library, $source ], "$source compiles");
	return $library;
}

sub background
{
	my ($node, $sql, $database) = @_;
	my $run = { out => '', err => '' };
	$run->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr($database // 'postgres'), '-c', $sql ],
		'<', \'', '>', \$run->{out}, '2>', \$run->{err}, IbltTest::time_limit());
	return $run;
}

sub finish
{
	my ($run) = @_;
	$run->{run}->finish;
	return $run->{out};
}

sub start_load
{
	my ($node, $script, @options) = @_;
	my $file = $node->basedir . '/' . rand() . '.sql';
	append_to_file($file, $script);
	my $run = { out => '' };
	$run->{run} = IPC::Run::start([ 'pgbench', '-n', '-T', '1000', @options, '-f', $file, $node->connstr('postgres') ],
		'<', \undef, '>&', \$run->{out});
	return $run;
}

sub stop_load
{
	my ($run, $text) = @_;
	ok($run->{run}->pumpable, "$text: the load still runs") or diag($run->{out});
	$run->{run}->signal('TERM');
	$run->{run}->finish;
	unlike($run->{out}, qr/aborted|ERROR/, "$text: the load met no error");
	return;
}

my $ours = "FROM pg_stat_activity WHERE application_name LIKE 'iblt%'";
sub connections
{
	my ($node) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) $ours");
}

sub nothing_left
{
	my ($text, @nodes) = @_;
	foreach my $node (@nodes ? @nodes : $there)
	{
		ok($node->poll_query_until('postgres', "SELECT count(*) = 0 $ours AND state <> 'idle'"), "$text: nothing is left at work on " . $node->name);
	}
	return;
}

#	new(NODE [, DATABASE])  connects
#	start(SQL)       sends SQL and does not wait
#	seen(REGEX)      waits until standard error (NOTICEs and errors) matches
#	done()           waits until that is done and returns its output; {err} has the errors
#	ended()          is that done?
#	run(SQL)         start and done
#	quit()           disconnects
package IbltTest::Session;

sub new
{
	my ($class, $node, $database) = @_;
	my $self = bless { in => '', out => '', err => '', number => 0 }, $class;
	$self->{timer} = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
	$self->{psql} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr($database // 'postgres'), '-f', '-' ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err}, $self->{timer});
	$self->{pid} = $self->run("\\set VERBOSITY verbose\nSELECT pg_backend_pid()");
	return $self;
}

sub start
{
	my ($self, $sql) = @_;
	$self->{number}++;
	($self->{out}, $self->{err}) = ('', '');
	$self->{timer}->start($PostgreSQL::Test::Utils::timeout_default);
	$self->{in} .= "$sql;\n\\echo done $self->{number}\n\\warn done $self->{number}\n";
	$self->{psql}->pump_nb;
	return $self;
}

sub seen
{
	my ($self, $pattern) = @_;
	$self->{psql}->pump until $self->{err} =~ $pattern;
	return;
}

sub done
{
	my ($self) = @_;
	$self->{psql}->pump until $self->{out} =~ s/^done $self->{number}\n\z//m;
	$self->{psql}->pump until $self->{err} =~ s/^done $self->{number}\n\z//m;
	return $self->{out} =~ s/\n\z//r;
}

# Has what was started ended?
sub ended
{
	my ($self) = @_;
	$self->{psql}->pump_nb;
	return $self->{out} =~ /^done $self->{number}\n\z/m;
}

sub run { my ($self, $sql) = @_; return $self->start($sql)->done }

# The same of SQL that must not fail.
sub checked
{
	my ($self, $sql) = @_;
	my $out = $self->run($sql);
	die "$sql: $self->{err}" if $self->{err} =~ /ERROR/;
	return $out;
}

sub quit
{
	my ($self) = @_;
	$self->{timer}->start($PostgreSQL::Test::Utils::timeout_default);
	$self->{in} .= "\\q\n";
	$self->{psql}->finish;
	return;
}

1;
