# Servers that are not what they seem.  Each speaks PostgreSQL's protocol as far as its case goes.
# Whatever it answers, and however slowly, the call ends with an error that says whose it is, at once
# or by the caller's timeout, without more memory than one row takes, and the session goes on.
use File::Temp ();
use IO::Socket::UNIX ();
use POSIX ();

use IbltTest;

IbltTest::share_sessions(0);

my $here = ready('here');
inside($here);
$here->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, g FROM generate_series(1, 50) g');

# --- their server --------------------------------------------------------------------------------

sub message { my ($type, $body) = @_; return $type . pack('N', 4 + length $body) . $body }
sub columns { my ($n) = @_; return message('T', pack('n', $n) . join '', map { "c\0" . pack('NnNnNn', 0, 0, 25, 65535, 4294967295, 0) } 1 .. $n) }
sub row { return message('D', pack('n', scalar @_) . join '', map { pack('N', length) . $_ } @_) }

my $ready = message('Z', 'I');
my $hello = message('R', pack('N', 0)) . message('S', "server_version\0" . "15.0\0") . message('S', "client_encoding\0UTF8\0") . message('K', pack('NN', 1, 2)) . $ready;
# behind the results of the statements with settings
my $settings = message('C', "SET\0") . message('C', "LOCK TABLE\0") . message('C', "SELECT 0\0") x 2;
my $selected = message('C', "SELECT 1\0") . $ready;
my $notice = message('N', "SNOTICE\0C00000\0Mlisten to me\0\0");

# How a case answers the attempt to connect, how it answers a question, and what it then repeats.
my %cases = (
	mute => {},
	garbage => { hello => "HTTP/1.1 400 Bad Request\r\n\r\n" x 10 },
	closing => { hello => '', closes => 1 },
	cut => { hello => "E\0\0\0\x08oops", closes => 1 },
	stranger => { hello => message('R', pack('N', 99)) },
	silent => { hello => $hello },
	stalled => { hello => $hello, answer => $settings . columns(1) . row('{}') },
	unasked => { hello => $hello, answer => $settings . columns(1) . row('{}') . $selected, closes => 1 },
	nonsense => { hello => $hello, answer => "\0\1\2\3" x 1000 },
	half => { hello => $hello, answer => $settings . columns(1) . substr(row('{}'), 0, 9), closes => 1 },
	huge => { hello => $hello, answer => $settings . columns(1) . 'D' . pack('N', 0x7fffffff), again => 'x' x 65536 },
	wide => { hello => $hello, answer => $settings . columns(3) . row('{}', '{}', '{}') . $selected },
	undescribed => { hello => $hello, answer => $settings . row('{}') . $selected },
	empty => { hello => $hello, answer => $settings . columns(1) . $selected },
	text => { hello => $hello, answer => $settings . columns(1) . row('this is no JSON') . $selected },
	array => { hello => $hello, answer => $settings . columns(1) . row('[1, 2]') . $selected },
	encoding => { hello => $hello, answer => $settings . columns(1) . row("{\"a\": \"\xff\xfe\"}") . $selected },
	rows => { hello => $hello, answer => $settings . columns(1), again => row('x' x 8000) x 8 },
	notices => { hello => $hello, again => $notice x 100 },
	notifications => { hello => $hello, again => message('A', pack('N', 1) . "channel\0" . 'x' x 7000 . "\0") },
	parameters => { hello => $hello, again => message('S', "application_name\0" . 'x' x 20000 . "\0") },
	results => { hello => $hello, again => message('C', "SELECT 1\0") x 1000 },
	errors => { hello => $hello, again => message('E', "SERROR\0C22023\0Mno\0\0") x 100 },
	transaction => { hello => $hello, answer => $settings . columns(1) . row('{}') . message('C', "SELECT 1\0") . message('Z', 'T') },
	deaf => { hello => $hello, deaf => 1 },
	names => { hello => message('R', pack('N', 0)), names => 1 },
);

sub serve
{
	my ($socket) = @_;
	my $read = sub {
		my ($length) = @_;
		my $bytes = '';
		while (length $bytes < $length) { sysread($socket, $bytes, $length - length $bytes, length $bytes) || POSIX::_exit(0) }
		return $bytes;
	};
	my ($name) = $read->(unpack('N', $read->(4)) - 4) =~ /database\0(\w+)\0/ or POSIX::_exit(1);
	my $case = $cases{$name};
	syswrite $socket, $case->{hello} if $case->{hello};
	POSIX::_exit(0) if $case->{closes} && !$case->{answer};
	for (my $n = 0; $case->{names}; $n++) { defined syswrite($socket, message('S', "name$n" . 'x' x 8000 . "\0\0")) || POSIX::_exit(0) }
	sleep 600 if $case->{deaf} || !defined $case->{hello};
	while (1)
	{
		$read->(unpack('N', substr($read->(5), 1)) - 4);
		syswrite $socket, $case->{answer} if $case->{answer};
		POSIX::_exit(0) if $case->{closes};
		while ($case->{again}) { defined syswrite($socket, $case->{again}) || POSIX::_exit(0) }
	}
}

my $dir = File::Temp->newdir;
my $listener = IO::Socket::UNIX->new(Type => Socket::SOCK_STREAM(), Local => "$dir/.s.PGSQL.1", Listen => 16) or die "listen: $!";
my $server = fork() // die "fork: $!";
if ($server == 0)
{
	# the parent owns the servers: its END blocks must not run here
	setpgrp 0, 0;
	$SIG{CHLD} = 'IGNORE';
	$SIG{PIPE} = 'IGNORE';
	while (1)
	{
		my $socket = $listener->accept or next;
		if (!(fork() // die "fork: $!")) { serve($socket) }
		$socket->close;
	}
}
END { local $?; kill 'KILL', -$server if $server }

# --- what is told of them ------------------------------------------------------------------------

my $connect = qr/ERROR:  08001: could not connect to the peer\n/;
my $cancelled = qr/ERROR:  57014: canceling statement due to statement timeout\n/;
my $lost = qr/ERROR:  08006: on the peer: /;
my %told = (
	mute => qr/${connect}DETAIL:  .*timeout expired/, garbage => $connect, cut => $connect, closing => qr/${connect}DETAIL:  .*closed the connection/, stranger => $connect,
	names => qr/${connect}DETAIL:  It sends more than a server does before it is connected/,
	silent => $cancelled, nonsense => qr/$lost|$cancelled/, half => $lost, huge => qr/$lost|$cancelled/,
	wide => qr/ERROR:  42804: the peer answered with 3 columns instead of 1\n/, undescribed => $lost, empty => qr/42P01: relation public\.t does not exist on the peer/,
	text => qr/ERROR:  22P02: invalid input syntax for type json/, array => qr/ERROR:  \w{5}: /, encoding => qr/ERROR:  22021: invalid byte sequence/,
	(map { $_ => $cancelled } qw(rows notices notifications parameters results errors deaf stalled)), transaction => qr/42P01: relation public\.t does not exist on the peer/,
	unasked => qr/42P01: relation public\.t does not exist on the peer/,
);

my $session = IbltTest::Session->new($here);
sub peer { my ($case) = @_; return literal("host=$dir port=1 user=u dbname=$case password=s3cr3t connect_timeout=2 sslmode=disable gssencmode=disable") }

# The most memory that the session's process has had, in MB.
sub most_memory { return slurp_file("/proc/$session->{pid}/status") =~ /^VmHWM:\s+(\d+)/m ? $1 / 1024 : 0 }

my $before = most_memory();
foreach my $case (sort keys %cases)
{
	my $query = $case eq 'deaf' ? "SELECT iblt_internal.connect(ARRAY[${\ peer($case)}], '{deaf}'), iblt_internal.iblt_peer_send('deaf', repeat('x', 30000000))"
	  : "SELECT * FROM iblt_compare('t', ${\ peer($case)})";
	my $started = time;
	$session->run("SET statement_timeout = '" . ($case eq 'mute' ? '9s' : '700ms') . "'; $query");
	like($session->{err}, $told{$case}, "$case: the error");
	unlike($session->{err}, qr/s3cr3t/, "$case: without the password");
	cmp_ok(time - $started, '<=', 60, "$case: it ends");
	is($session->run('SELECT 1'), '1', "$case: the session goes on");
	is($session->run('SELECT iblt_disconnect()'), '0', "$case: and keeps no connection");
}
# a report does without what it would say of itself
$session->run('RESET statement_timeout');
foreach my $case (qw(text array empty wide half closing garbage encoding transaction silent stalled))
{
	my $started = time;
	my $said = $session->run("SELECT iblt_audit_report('[{\"relation\": \"t\", \"status\": \"equal\"}]', peer => ${\ peer($case)})");
	like($said, qr/\Aequal: 1 table\nhere: socket:\d+, .*\nthere: (?:no answer|\Q$dir\E:1)\nstatus /, "$case: a report") or note($session->{err});
	cmp_ok(time - $started, '<=', 30, "$case: in its time");
}
cmp_ok(most_memory() - $before, '<=', 200, 'none of them takes memory') if $^O eq 'linux';
$session->quit;

done_testing();
