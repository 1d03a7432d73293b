# proxy.pl LISTEN TARGET
#	Forwards connections from one Unix socket to another and, when it is told to
#	end by SIGTERM, prints how many bytes went to the target, how many came
#	back, and how many of these were sketches in their text form.
use strict;
use warnings;

use IO::Select;
use IO::Socket::UNIX;

my ($listen, $target) = @ARGV;
my $listener = IO::Socket::UNIX->new(Local => $listen, Listen => 8) or die "cannot listen: $!\n";
my $select = IO::Select->new($listener);
my (%other, %is_client);
my ($sent, $received) = (0, '');

# In base64, format version 1 begins with these letters.
$SIG{TERM} = sub {
	my $sketches = 0;
	$sketches += length($1) & ~3 while $received =~ m{(SUJMVA[A-Za-z0-9+/]{100,}={0,2})}g;
	print join(' ', $sent, length $received, $sketches), "\n";
	exit 0;
};

sub forward
{
	my ($socket) = @_;
	my $other = $other{$socket} or return;
	my $bytes;
	if (!sysread $socket, $bytes, 65536)
	{
		$select->remove($socket, $other);
		delete @other{ $socket, $other };
		close $_ foreach ($socket, $other);
		return;
	}
	if ($is_client{$socket}) { $sent += length $bytes }
	else { $received .= $bytes }
	for (my $from = 0; $from < length $bytes;)
	{
		$from += syswrite($other, $bytes, length($bytes) - $from, $from) // return;
	}
	return;
}

while (1)
{
	foreach my $socket ($select->can_read)
	{
		if ($socket != $listener) { forward($socket); next }
		my $client = $listener->accept or next;
		my $server = IO::Socket::UNIX->new(Peer => $target) or die "cannot connect: $!\n";
		@other{ $client, $server } = ($server, $client);
		$is_client{$client} = 1;
		$select->add($client, $server);
	}
}
