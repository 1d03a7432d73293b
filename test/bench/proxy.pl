# proxy.pl LISTEN TARGET
#	Forwards connections from one Unix socket to another and, when it is told to
#	end by SIGTERM, prints how many bytes went to the target, how many came
#	back, and how many of these were sketches in their text form.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../t";
use IbltProxy;
use IO::Socket::UNIX;
use Socket qw(SOCK_STREAM);

my ($listen, $target) = @ARGV;
my $listener = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $listen, Listen => 8) or die "cannot listen: $!\n";
my @total = (0, 0, 0);
IbltProxy::serve($listener, $target, sub { $total[$_] += $_[$_] foreach 0 .. 2 });
print "@total\n";
