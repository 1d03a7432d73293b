# IbltProxy.pm
#	A proxy in front of a server's Unix socket.  It counts the bytes that pass, can
#	cut all connections, and can hold a message.
#
#	new(NODE)     starts it
#	connstr()     the connection string to NODE through it
#	counted()     waits for the end of a connection and returns the bytes sent to the server,
#	              the bytes received from it, and the bytes of sketches as they travel among those
#	              received and among those sent, and the number of questions
#	cut()         closes all connections on both sides, as a network failure does
#	hold(DIRECTION, REGEX, NTH)  holds the first (or NTH) message "sent" to the server or
#	              "received" from it that matches, and everything behind it
#	held(CODE)    waits until it does, or until CODE, if given, says that it will not.  Returns which
#	release()     lets it pass
#	stop()        ends it
#
#	serve(LISTENER, TARGET, ENDED, PASSING)  forwards from a listening socket to the socket at a
#	              path, until SIGTERM.  It calls ENDED at the end of each connection, with the
#	              numbers of counted().  It calls PASSING, if given, with the direction and the
#	              bytes before they pass.  test/bench/proxy.pl uses it, so it does not need
#	              PostgreSQL's test modules.
package IbltProxy;

use strict;
use warnings;

use File::Temp ();
use IO::Handle;
use IO::Select;
use IO::Socket::UNIX;
use POSIX ();
use Socket qw(SOCK_STREAM);

sub new
{
	my ($class, $node) = @_;
	my $dir = File::Temp->newdir;
	my $self = bless { dir => $dir, connstr => "host=$dir port=1 dbname=postgres" }, $class;
	my $listener = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => "$dir/.s.PGSQL.1", Listen => 8) or die "listen: $!";
	pipe($self->{results}, my $results) or die "pipe: $!";
	$self->{pid} = fork() // die "fork: $!";
	if ($self->{pid} == 0)
	{
		# the parent owns the servers: its END blocks must not run here
		$results->autoflush(1);
		eval { serve($listener, $node->host . '/.s.PGSQL.' . $node->port, sub { print $results "@_\n" }, sub { passing($dir, @_) }) };
		print STDERR "proxy: $@" if $@;
		POSIX::_exit(1);
	}
	return $self;
}

sub connstr { my ($self) = @_; return $self->{connstr} }

sub cut { my ($self) = @_; kill 'USR1', $self->{pid}; return }

# The two processes talk through two files: "hold" says what to hold, and "held" that
# it is held.
sub hold
{
	my ($self, $direction, $regex, $nth) = @_;
	open my $file, '>', "$self->{dir}/new" or die "open: $!";
	print $file join("\n", $direction, $nth // 1, $regex);
	close $file or die "close: $!";
	rename "$self->{dir}/new", "$self->{dir}/hold" or die "rename: $!";
	return;
}

sub held
{
	my ($self, $given_up) = @_;
	foreach (1 .. 18000)
	{
		return 1 if -e "$self->{dir}/held";
		return 0 if $given_up && $given_up->();
		select undef, undef, undef, 0.01;
	}
	die "no such message\n";
}

sub release { my ($self) = @_; unlink "$self->{dir}/hold", "$self->{dir}/held"; return }

my $passed = 0;    # messages that match
sub passing
{
	my ($dir, $direction, $bytes) = @_;
	open my $file, '<', "$dir/hold" or return;
	chomp(my ($which, $nth, $regex) = <$file>);
	close $file;
	return unless $direction eq $which && $bytes =~ /$regex/ && ++$passed == $nth;
	$passed = 0;
	open my $held, '>', "$dir/held" or die "open: $!";
	close $held;
	select undef, undef, undef, 0.01 while -e "$dir/held";
	return;
}

sub stop
{
	my ($self) = @_;
	return unless $self->{pid};
	kill 'KILL', $self->{pid};
	local $?;
	waitpid $self->{pid}, 0;
	$self->{pid} = 0;
	return;
}

sub DESTROY { my ($self) = @_; $self->stop; return }

sub counted
{
	my ($self) = @_;
	local $SIG{ALRM} = sub { die "no connection through the proxy has ended\n" };
	alarm 180;
	my $line = readline $self->{results};
	alarm 0;
	return split ' ', $line;
}

# The number of bytes of sketches in what passed.  Their text form is base64, which begins with the
# magic "IBLT" and version 1.
sub sketch_bytes
{
	my ($text) = @_;
	my $bytes = 0;
	$bytes += length $& while $text =~ m{SUJMVAE[D-I][A-Za-z0-9+/]*=*}g;
	return $bytes;
}

# The number of queries that were sent.  The first message, which connects, has no type.
sub questions
{
	my ($text) = @_;
	my $questions = 0;
	for (my $at = unpack 'N', $text; $at + 5 <= length $text; $at += 1 + unpack 'N', substr($text, $at + 1, 4))
	{
		$questions++ if substr($text, $at, 1) eq 'Q';
	}
	return $questions;
}

sub forward
{
	my ($to, $bytes) = @_;
	for (my $from = 0; $from < length $bytes;)
	{
		$from += syswrite($to, $bytes, length($bytes) - $from, $from) // return;
	}
	return;
}

# All that was read is counted, even if the other side does not take it any more.
sub serve
{
	my ($listener, $target, $ended, $passing) = @_;
	my $select = IO::Select->new($listener);
	my (%connection, $cut, $stop);    # of both of its sockets
	my $end = sub {
		my ($c) = @_;
		delete @connection{ $c->{client}, $c->{server} };
		$select->remove($c->{client}, $c->{server});
		$_->close foreach ($c->{client}, $c->{server});
		$ended->(length $c->{sent}, length $c->{received}, sketch_bytes($c->{received}), sketch_bytes($c->{sent}),
			questions($c->{sent}));
	};
	local $SIG{USR1} = sub { $cut = 1 };
	local $SIG{TERM} = sub { $cut = $stop = 1 };
	local $SIG{PIPE} = 'IGNORE';

	until ($stop && !$cut)
	{
		# not for long, because a signal just before the wait does not interrupt it
		my @ready = $select->can_read(0.2);
		if ($cut)
		{
			my %each = map { ($_ => $_) } values %connection;
			$end->($_) foreach values %each;
			$cut = 0;
			next;
		}
		foreach my $socket (@ready)
		{
			if ($socket == $listener)
			{
				my $client = $listener->accept or next;
				my $server = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $target);
				if (!$server) { $client->close; next }
				@connection{ $client, $server } = ({ client => $client, server => $server, sent => '', received => '' }) x 2;
				$select->add($client, $server);
				next;
			}
			my $c = $connection{$socket} or next;
			my ($direction, $to) = $socket == $c->{client} ? ('sent', $c->{server}) : ('received', $c->{client});
			if (!sysread $socket, my $bytes, 65536) { $end->($c) }
			else
			{
				$c->{$direction} .= $bytes;
				$passing->($direction, $bytes) if $passing;
				forward($to, $bytes);
			}
		}
	}
	return;
}

1;
