# The messages and SQLSTATEs of doc/troubleshooting.md are those of the source.
#
# A row of its tables that begins with code quotes a message or a detail, in which
# an ellipsis stands for what is put in.  All the rest must be in the source, word
# for word.  The other way round, every SQLSTATE that the source raises must be on
# the page.
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;
use File::Find;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = abs_path(dirname(__FILE__) . '/../..');
my $page = slurp_file("$top/doc/troubleshooting.md");
utf8::decode($page);

my @sources;
find({ wanted => sub { push @sources, $_ if /\.[ch]$|\.sql$/ && !/--[\d.]+\.sql$/ }, no_chdir => 1 }, "$top/src", "$top/sql");
cmp_ok(scalar(@sources), '>', 20, 'the source is there');
my $source = join "\n", map { slurp_file($_) } sort @sources;

# As the reader sees it: a string may go on in the next line, and quotes in it are
# doubled in SQL and escaped in C.
my $text = $source =~ s/(['"])\s*(?:\|\|)?\s*\n\s*(?:\|\|)?\s*\1//gr =~ s/''/'/gr =~ s/\\"/"/gr =~ s/%%/%/gr;

my ($quoted, @strange) = (0);
foreach my $message ($page =~ /^\| `([^`]+)` \|/gm)
{
	# neither SQLSTATEs, nor the answers of libpq, nor arguments
	next if $message =~ /^[0-9A-Z]{5}$|^Non-superuser|^FATAL|=>|^(equal|differs|not comparable|error)$/;
	$quoted++;
	foreach my $part (split /\x{2026}/, $message)
	{
		$part =~ s/^[\s"():.]+|[\s"():.]+$//g;
		next if length($part) < 4;
		push @strange, "\"$part\" of \"$message\"" if index($text, $part) < 0;
	}
}
cmp_ok($quoted, '>', 100, 'the page quotes messages');
is(join("\n", @strange), '', 'every message on the page is one of the source');

# Names of conditions, from PostgreSQL's own list.
my ($sharedir) = run_command([ 'pg_config', '--sharedir' ]);
my %code = (IBLT_INCOMPLETE => 'IB001', IBLT_UNKNOWN_VALUE => 'IB006', IBLT_NOT_IN_FILTER => 'IB007', IBLT_NOT_TRUSTWORTHY => 'IB008', IBLT_ALTERED => 'IB004');
SKIP:
{
	skip 'errcodes.txt is not installed', 1 if !-e "$sharedir/errcodes.txt";
	foreach (split /\n/, slurp_file("$sharedir/errcodes.txt"))
	{
		next unless /^([0-9A-Z]{5})\s+[EWS]\s+ERRCODE_(\w+)(?:\s+(\w+))?/;
		$code{$2} //= $1;
		$code{$3} //= $1 if defined $3;
	}
	# IB000 never leaves an audit
	my %raised = map { $_ => 1 } grep { $_ ne 'IB000' }
	  $source =~ /errcode\(ERRCODE_(\w+)\)/g, $source =~ /ERRCODE = '(\w+)'/g;
	my @absent = grep { my $state = $code{$_} // $_; $page !~ /`\Q$state\E`/ } sort keys %raised;
	is(join(' ', @absent), '', 'every SQLSTATE that the source raises is on the page');
}
done_testing();
