# IbltProxy.pm
#	A proxy in front of a server's Unix socket, which counts what passes and
#	can cut every connection.
#
#	new(NODE)     starts it
#	connstr()     leads to NODE through it
#	counted()     waits for the end of a connection: bytes sent to the server,
#	              bytes received from it, bytes of sketches in text form in the latter, in the former
#	cut()         closes all connections on both sides, as a network that breaks
#	stop()        ends it
package IbltProxy;

use strict;
use warnings;

use IO::Handle;
use IO::Select;
use IO::Socket::UNIX;
use POSIX ();
use PostgreSQL::Test::Utils;
use Socket qw(SOCK_STREAM);

sub new
{
	my ($class, $node) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $self = bless { connstr => "host=$dir port=1 dbname=postgres" }, $class;
	my $listener = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => "$dir/.s.PGSQL.1", Listen => 8) or die "listen: $!";
	pipe($self->{results}, my $results) or die "pipe: $!";
	$self->{pid} = fork() // die "fork: $!";
	if ($self->{pid} == 0)
	{
		# the servers are the parent's: nothing of it may run at the exit
		$results->autoflush(1);
		eval { serve($listener, $node->host . '/.s.PGSQL.' . $node->port, $results) };
		print STDERR "proxy: $@" if $@;
		POSIX::_exit(1);
	}
	return $self;
}

sub connstr { my ($self) = @_; return $self->{connstr} }

sub cut { my ($self) = @_; kill 'USR1', $self->{pid}; return }

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
	alarm $PostgreSQL::Test::Utils::timeout_default;
	my $line = readline $self->{results};
	alarm 0;
	return split ' ', $line;
}

# Bytes of sketches in what passed.  In base64 they begin with these letters and
# are a multiple of four; the next message may begin with a letter, too.
sub sketch_bytes
{
	my ($text) = @_;
	my $bytes = 0;
	$bytes += length($1) & ~3 while $text =~ m{(SUJMVA[A-Za-z0-9+/]{100,}={0,2})}g;
	return $bytes;
}

# The proxy's process.
sub serve
{
	my ($listener, $target, $results) = @_;
	my $select = IO::Select->new($listener);
	my (%other, %data, $cut);
	my $end = sub {
		my ($client) = grep { exists $data{$_} } @_;
		my $c = delete $data{$client};
		delete @other{@_};
		$select->remove(@_);
		$_->close foreach @_;
		print $results join(' ', length $c->{sent}, length $c->{received}, sketch_bytes($c->{received}), sketch_bytes($c->{sent})), "\n";
	};
	local $SIG{USR1} = sub { $cut = 1 };
	local $SIG{PIPE} = 'IGNORE';

	while (1)
	{
		# a signal that arrives just before the wait is seen soon after it
		my @ready = $select->can_read(0.2);
		if ($cut)
		{
			$end->($data{$_}{client}, $data{$_}{server}) foreach keys %data;
			$cut = 0;
			next;
		}
		foreach my $socket (@ready)
		{
			if ($socket == $listener)
			{
				my $client = $listener->accept;
				my $server = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $target);
				if (!$server) { $client->close; next }
				$data{$client} = { client => $client, server => $server, sent => '', received => '' };
				@other{ $client, $server } = ($server, $client);
				$select->add($client, $server);
				next;
			}
			my $other = $other{$socket} or next;
			my $direction = $data{$socket} ? 'sent' : 'received';
			if (!sysread $socket, my $bytes, 65536) { $end->($socket, $other) }
			else
			{
				$data{ $data{$socket} ? $socket : $other }{$direction} .= $bytes;
				my $from = 0;
				while ($from < length $bytes)
				{
					my $n = syswrite $other, $bytes, length($bytes) - $from, $from;
					last unless $n;
					$from += $n;
				}
			}
		}
	}
}

1;
