# IbltPool.pm
#	Lets the psql calls of a test file share sessions, unless share_sessions(0).  A new session
#	costs more than most statements: a program, a connection, and caches on both servers.
#	A file that tests what a session keeps, or counts sessions, does without.
#
# psql, safe_psql and poll_query_until of PostgreSQL::Test::Cluster use a session that was
# used before if nobody can see the difference:
# - Between two calls, settings, roles, temporary tables, prepared statements, cursors and
#   locks of the session are reset.  Connections that iblt keeps stay.
# - A script that fails ends its session, as ON_ERROR_STOP says.  A single statement need not.
# - What begins a transaction and does not end it, calls psql's own commands, keeps a connection, or
#   changes the defaults of new sessions gets a session of its own.  So does a call with options.
package IbltPool;

use strict;
use warnings;

use IO::Select;
use IPC::Open3 ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Symbol ();
use Test::More;
use Time::HiRes ();

our $enabled = 1;
my %sessions;		# by node and by what decides about a connection
my %fresh;			# the methods of PostgreSQL::Test::Cluster
my $calls = 0;

# Scripts that need a session of their own: those that leave something behind, and those that
# begin a transaction and do not end it.
my $own = qr/dblink_connect|iblt_disconnect|pg_backend_pid|\bFROM\s+STDIN\b|\bLOAD\b
	|\bVACUUM\b|session_preload|pg_terminate_backend|pg_stat_force|iblt_session_/xi;
my $begins = qr/\bBEGIN\s*(?:;|ISOLATION|TRANSACTION|READ)|\bSTART\s+TRANSACTION\b/i;
my $ends = qr/\b(?:COMMIT|ROLLBACK)\s*;?\s*\z/i;
# And those that no session must outlive, nor a connection that iblt keeps in it.
my $ends_all = qr/\bALTER\s+(?:ROLE|USER|DATABASE|SYSTEM|GROUP)\b|\b(?:CREATE|DROP)\s+DATABASE\b|\bDROP\s+(?:EXTENSION|ROLE|USER)\b|pg_reload_conf/i;

# in one message
my $reset = join("\n", '\set ON_ERROR_STOP 1', '\set VERBOSITY default', join('\; ', 'SET SESSION AUTHORIZATION DEFAULT', 'RESET ALL', 'DEALLOCATE ALL', 'CLOSE ALL', 'UNLISTEN *',
	'SELECT pg_advisory_unlock_all()', 'DISCARD TEMP', 'DISCARD SEQUENCES') . ' \g /dev/null', '');

sub session_end
{
	my ($session) = @_;
	close($session->{in});
	waitpid($session->{pid}, 0);
	my $status = $?;
	close($session->{$_}) foreach qw(out err);
	return $status;
}

# Ends the sessions of the node that has this name.
sub node_end
{
	my ($name) = @_;
	my $of_node = delete $sessions{$name} or return;
	local $SIG{PIPE} = 'IGNORE';
	local $?;
	session_end($_) foreach values %$of_node;
	return;
}

sub all_end { node_end($_) foreach keys %sessions; return }

sub session_begin
{
	my ($node, $database, @options) = @_;
	my $session = { err => Symbol::gensym(), lines => 0 };
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port);
	$session->{pid} = IPC::Open3::open3($session->{in}, $session->{out}, $session->{err},
		'psql', '-XAtq', '-d', $node->connstr($database), '-v', 'ON_ERROR_STOP=1', '-f', '-', @options);
	$session->{in}->blocking(0);
	return $session;
}

# Writes text and reads until both outputs end with the mark, and with what is behind it: that
# or nothing if psql has ended, and the outputs.
sub exchange
{
	my ($session, $text, $mark) = @_;
	my ($state, $ended) = ('', '');
	my ($read, $write) = (IO::Select->new($session->{out}, $session->{err}), IO::Select->new($session->{in}));
	my %got = (out => '', err => '');
	my $deadline = time() + 5 * $PostgreSQL::Test::Utils::timeout_default;
	$session->{lines} += ($text =~ tr/\n//);
	utf8::encode($text) if utf8::is_utf8($text);
	while ($read->count)
	{
		my ($readable, $writable) = IO::Select->select($read, length($text) ? $write : undef, undef, 10);
		if ($writable && @$writable)
		{
			my $done = syswrite($session->{in}, $text);
			$text = defined $done ? substr($text, $done) : $!{EAGAIN} ? $text : '';
		}
		foreach my $handle ($readable ? @$readable : ())
		{
			my $name = $handle == $session->{out} ? 'out' : 'err';
			my $done = sysread($handle, $got{$name}, 65536, length($got{$name}));
			$ended = 1 if !$done;
			$read->remove($handle) if !$done || $got{$name} =~ s/^\Q$mark\E (\w+)\n\z//m && ($state = $1);
		}
		die "psql has not answered to: $text" if time() > $deadline;
	}
	return ($ended ? undef : $state, @got{qw(out err)});
}

# A session that is as a new one.
sub session
{
	my ($node, $database, @options) = @_;
	my $key = join("\0", $database, @options, map { "$_=$ENV{$_}" } grep { /^PG/ } sort keys %ENV);
	my $of_node = $sessions{ $node->name } //= {};
	my $session = $of_node->{$key};
	if ($session && $session->{mark})
	{
		my ($state) = exchange($session, '', $session->{mark});
		return $session if $state;
		session_end($session);
	}
	# for each of a test's databases and roles one, and not more than the server has
	node_end($node->name) if keys %$of_node > 7;
	return $sessions{ $node->name }{$key} = session_begin($node, $database, @options);
}

# Runs a script: its status and its two outputs.
sub run
{
	my ($node, $database, $sql, @options) = @_;
	local $SIG{PIPE} = 'IGNORE';
	local ($?, $@);
	my $session = session($node, $database, @options);
	my $mark = 'done ' . ++$calls;
	my $before = $session->{lines} + 1;
	$sql =~ s/\s+\z//;
	# after a single statement, :ERROR tells what its own exit would
	my $stop = $sql =~ /;\s*\S|--[^\n]*\z/ ? 1 : 0;
	my $end = $sql =~ /--[^\n]*\z/ ? "\n;" : $sql =~ /;\z/ ? '' : ';';
	my ($state, $out, $err) = exchange($session, "\\set ON_ERROR_STOP $stop\n$sql$end\n\\echo $mark :ERROR\n\\warn $mark :ERROR\n", $mark);
	my $status = 0;
	if ($state)
	{
		$status = 3 << 8 if $state eq 'true';
		$session->{mark} = "reset $calls";
		$session->{lines} += ($reset =~ tr/\n//) + 2;
		syswrite($session->{in}, "$reset\\echo reset $calls yes\n\\warn reset $calls yes\n");
	}
	else
	{
		my $of_node = $sessions{ $node->name };
		delete @$of_node{ grep { $of_node->{$_} == $session } keys %$of_node };
		$status = session_end($session);
	}
	$err =~ s/(psql:<stdin>:)(\d+)/$1 . ($2 - $before)/ge;
	chomp($out, $err);
	return ($status >> 8, $out, $err);
}

# May a script share a session?  If it changes what others stand on, they end.
sub shares
{
	my ($node, $database, $sql, $params) = @_;
	# a condition that leaves out the session itself, and names that are quoted, which call nothing
	$sql =~ s/\bpid <> pg_backend_pid\(\)|"\w+"//g;
	if ($sql =~ $ends_all)
	{
		all_end();
		return 0;
	}
	my $options = join(' ', @{ $params->{extra_params} // [] });
	my $unquoted = $sql =~ s/^\\set VERBOSITY verbose\n//r =~ s/'(?:[^'\\]|''|\\.)*'//gsr;
	return $enabled && $database ne 'template1' && $sql !~ $own && ($sql !~ $begins || $sql =~ $ends) && $unquoted !~ /\\/ && $options =~ /^(?:-q)? ?(?:-U \w+)?$/
		&& !grep { !/^(?:stdout|stderr|on_error_die|on_error_stop|extra_params)$/ } keys %$params;
}

sub psql
{
	my ($node, $database, $sql, %params) = @_;
	my $stops = $params{on_error_stop} // 1;
	my $all = wantarray;
	if (!$stops || !shares($node, $database, $sql, \%params) || !($all || $params{stdout} && $params{stderr}))
	{
		return $fresh{psql}->(@_);
	}
	my ($status, $out, $err) = run($node, $database, $sql, @{ $params{extra_params} // [] });
	${ $params{stdout} } = $out if $params{stdout};
	${ $params{stderr} } = $err if $params{stderr};
	die "error $status of psql: '$err'\nwhile running '$sql'" if $status && $params{on_error_die};
	return $all ? ($status, $out, $err) : $status;
}

sub poll_query_until
{
	my ($node, $database, $query, $expected) = @_;
	return $fresh{poll_query_until}->(@_) if !defined $query || !shares($node, $database, $query, {});
	$expected //= 't';
	my ($status, $out, $err);
	foreach (1 .. 20 * $PostgreSQL::Test::Utils::timeout_default)
	{
		($status, $out, $err) = run($node, $database, $query);
		return 1 if $out eq $expected && $err eq '';
		Time::HiRes::usleep(50_000);
	}
	diag("not so, in vain: $query\nexpected: $expected\nlast: $out\n$err");
	return 0;
}

{
	no warnings 'redefine';
	no strict 'refs';	## no critic
	my $class = 'PostgreSQL::Test::Cluster';
	foreach my $name (qw(psql poll_query_until))
	{
		$fresh{$name} = $class->can($name);
		*{"${class}::$name"} = \&{$name};
	}
	foreach my $name (grep { $class->can($_) } qw(stop restart reload promote teardown_node kill9 clean_node))
	{
		my $method = $class->can($name);
		*{"${class}::$name"} = sub { all_end(); goto &$method };
	}
}

1;
