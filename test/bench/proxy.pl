# proxy.pl LISTEN TARGET [MS]
#	Forwards connections from one Unix socket to another and, when it is told to
#	end by SIGTERM, prints how many bytes went to the target, how many came
#	back, how many of these were sketches as they travel, and how many questions were
#	asked.  What it forwards waits MS milliseconds in each direction.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../t";
use IbltProxy;
use IO::Socket::UNIX;
use Socket qw(SOCK_STREAM);

my ($listen, $target, $ms) = @ARGV;
my $listener = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $listen, Listen => 8) or die "cannot listen: $!\n";
my @total = (0, 0, 0, 0);
IbltProxy::serve($listener, $target, sub { $total[$_] += $_[ $_ == 3 ? 4 : $_ ] foreach 0 .. 3 }, $ms ? sub { select undef, undef, undef, $ms / 1000 } : undef);
print "@total\n";
