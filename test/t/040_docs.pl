# Runs every example in README.md and doc/*.md and compares what it prints
# with what the page shows.
#
# A block fenced as "sql" is run; a plain block right behind it is its expected
# output, compared without regard to psql's borders, footers and padding.
# A comment <!-- setup ... --> is run first and not shown to readers.  Each page
# has a database of its own.
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = abs_path(dirname(__FILE__) . '/../..');

# The parts of a page: setup, sql and expected output, in order.
sub examples
{
	my ($text) = @_;
	my @parts;

	while ($text =~ /^<!-- setup\n(.*?)^-->$|^```sql\n(.*?)^```\n(?:^```\n(.*?)^```$)?/gms)
	{
		push @parts, defined $1 ? { sql => $1 } : { sql => $2, expected => $3 };
	}
	return @parts;
}

# Rows with single spaces, without rules and row counts; errors without places.
sub normalise
{
	my ($text) = @_;

	$text =~ s/^psql:\S+: //gm;
	$text =~ s/^[-+]+$//gm;
	$text =~ s/^\(\d+ rows?\)$//gm;
	$text =~ s/[ \t]+/ /g;
	$text =~ s/ ?\n ?/\n/g;
	$text =~ s/\n+/\n/g;
	$text =~ s/^\s+|\s+$//g;
	return $text;
}

my $node = PostgreSQL::Test::Cluster->new('docs');
$node->init;
$node->start;

my $shown = 0;
foreach my $page ("$top/README.md", sort glob("$top/doc/*.md"))
{
	my $name = basename($page, '.md');
	my @parts = examples(slurp_file($page));
	next unless @parts;

	# One session a page, with a mark behind each part.
	my $script = join '', map { "$_->{sql}\n\\echo ~~~~\n\\warn ~~~~\n" } @parts;
	$node->safe_psql('postgres', qq(CREATE DATABASE "doc_$name"));
	my $file = $node->basedir . "/$name.sql";
	append_to_file($file, $script);
	my ($out, $err) = run_command([
		'psql', '-X', '-q', '-h', $node->host, '-p', $node->port,
		'-d', "doc_$name", '-f', $file]);
	my @out = split /^~~~~\n?/m, $out, -1;
	my @err = split /^~~~~\n?/m, $err, -1;

	foreach my $i (0 .. $#parts)
	{
		my $got = normalise(($out[$i] // '') . "\n" . ($err[$i] // ''));
		my ($first) = $parts[$i]{sql} =~ /(\S.*)/;

		if (defined $parts[$i]{expected})
		{
			is($got, normalise($parts[$i]{expected}), "$name: $first");
			$shown++;
		}
		else
		{
			unlike($got, qr/ERROR|FATAL/, "$name: runs: $first");
		}
	}
}
cmp_ok($shown, '>=', 10, 'examples with output were found');
$node->stop;
done_testing();
