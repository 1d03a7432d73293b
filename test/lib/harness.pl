#!/usr/bin/env perl
# harness.pl [OPTION ...] TEST ...
#	Runs test programs that speak TAP with Perl's TAP::Harness, several at a time.
#	As soon as one ends, it prints its failures, seeds and skipped tests, and one
#	line with its numbers.  A TEST is a command line with spaces between its words.
#
#	--exec COMMAND      runs each test as "COMMAND TEST"
#	--failed COMMAND    runs "COMMAND TEST" after a test that failed, and shows its output
#	--jobs N            runs N tests at a time (IBLT_TEST_JOBS, or one more than
#	                    there are processors, because servers often wait)
#	--totals FILE       appends "passed failed skipped" for each test to FILE, and
#	                    "- what failed", in place of the last lines
#
#	harness.pl --sum FILE   prints the last lines for the totals in FILE
#
# At the end, it prints again what failed, shortly, because of a long output often
# only the end is kept.
#
#	IBLT_TEST_VERBOSE   1 shows every line of every test
#
# The last line says "N passed, N failed".  The exit status is 0 if at least one
# test passed and none failed, and 1 if not.  Any other status means that
# the harness itself failed.
#
# A program without a "not ok" counts as one failed test if it dies, prints no plan,
# does not keep its plan, or runs nothing and does not say why.
use strict;
use warnings;

use Getopt::Long;
use TAP::Harness;

$| = 1;

# A program that bails out ends only itself.
package OwnBailout
{
	use parent 'TAP::Parser::ResultFactory';

	sub make_result
	{
		my ($class, $token) = @_;
		$token->{type} = 'unknown' if $token->{type} eq 'bailout';
		return $class->SUPER::make_result($token);
	}
}

my ($passed, $failed, $skipped) = (0, 0, 0);
my @failed;		# what failed, a line each
my %option = (exec => '', jobs => $ENV{IBLT_TEST_JOBS} || 1 + qx{nproc 2>/dev/null || echo 1});

sub show { print map { "    | $_\n" } @_; return }

sub shell { my ($command) = @_; return split /\n/, qx{$command 2>&1} }

# What is wrong apart from tests that failed.
sub problems
{
	my ($parser, $all_skipped) = @_;
	my $wait = $parser->wait // 0;
	return ($wait & 127 ? 'ended by signal ' . ($wait & 127) : $wait ? 'exit status ' . ($wait >> 8) : (),
		$parser->parse_errors,
		$parser->tests_run || $all_skipped || $parser->parse_errors ? () : 'no test was run');
}

# The tests that failed, with their messages, but without the tests that passed.
sub failures
{
	my @lines = @_;
	shift @lines while @lines && $lines[0] !~ /^not ok/;
	@lines = grep { !/^ok / } @lines;
	return @lines > 100 ? (@lines[0 .. 99], '...') : @lines;
}

# The first test that failed and the start of its reason, or else the last lines.
sub in_short
{
	my ($name, @lines) = @_;
	@lines = grep { /\w/ && !/^1\.\.\d/ } @lines;
	@lines = @lines && $lines[0] =~ /^not ok/ ? splice(@lines, 0, 6) : splice(@lines, @lines > 3 ? -3 : 0);
	return map { substr($_, 0, 120) } $name, map { "  $_" } @lines;
}

sub count
{
	my ($file, $counts, @what_failed) = @_;
	$passed += $counts->[0];
	$failed += $counts->[1];
	$skipped += $counts->[2];
	push @failed, @what_failed;
	return unless defined $file;
	open(my $out, '>>', $file) or die "$file: $!\n";
	print $out "@$counts\n", map { "- $_\n" } @what_failed;
	close($out) or die "$file: $!\n";
	return;
}

# Shows and counts a test that has ended.
sub ended
{
	my ($name, $parser, @lines) = @_;
	my $all_skipped = grep { /^1\.\.0.*#\s*skip/i } @lines;
	my %ok = map { $_ => 1 } $parser->actual_passed;
	my $left_out = (grep { $ok{$_} } $parser->skipped) + (grep { !$ok{$_} } $parser->todo);
	my $not_passed = $parser->failed;
	my $good = $parser->tests_run - $not_passed - $left_out;
	my @problems = problems($parser, $all_skipped);
	my @what_failed;
	my @failures = failures(@lines);

	if (@problems && !@failures)
	{
		@failures = @lines > 40 ? @lines[-40 .. -1] : @lines;
	}
	if (@problems || $not_passed)
	{
		$not_passed ||= 1;
		print "  $name: ", join(', ', @problems), "\n" if @problems;
		show(@failures);
		@what_failed = in_short(join(': ', $name, @problems), @failures);
	}
	@lines = grep { /^#\s*(random )?seed|^(ok|1\.\.0).*#\s*skip/i } @lines if !$ENV{IBLT_TEST_VERBOSE};
	print map { "    $_\n" } @lines;
	$left_out ||= 1 if $all_skipped;
	printf "  %s: %d passed%s%s (%d s)\n", $name, $good, $not_passed ? ", $not_passed FAILED" : '',
		$left_out ? ", $left_out SKIPPED" : '', $parser->end_time - $parser->start_time;
	show(shell("$option{failed} $name")) if $not_passed && $option{failed};
	count($option{totals}, [ $good, $not_passed, $left_out ], @what_failed);
	return;
}

sub run
{
	my @tests = @_;
	my %lines;
	die "no test was given\n" unless @tests;
	my $harness = TAP::Harness->new({
		jobs => $option{jobs},
		merge => 1,
		verbosity => -3,
		# env, because a program that does not exist would end the harness
		exec => sub { return [ split ' ', "env $option{exec} $_[1]" ] } });

	$harness->callback(parser_args => sub { $_[0]{result_factory_class} = 'OwnBailout' });
	$harness->callback(made_parser => sub
	{
		my ($parser) = @_;
		my $of_parser = $lines{$parser} = [];
		$parser->callback(ALL => sub { push @$of_parser, $_[0]->raw });
	});
	$harness->callback(after_test => sub
	{
		my ($job, $parser) = @_;
		ended($job->[1], $parser, @{ delete $lines{$parser} });
	});
	$harness->runtests(@tests);
	return;
}

sub add_up
{
	my ($file) = @_;
	open(my $in, '<', $file) or die "$file: $!\n";
	while (my $line = <$in>)
	{
		if ($line =~ /^- (.*)/)
		{
			push @failed, $1;
			next;
		}
		die "$file: $line" unless $line =~ /^\d+ \d+ \d+$/;
		count(undef, [ split ' ', $line ]);
	}
	return;
}

open(STDIN, '<', '/dev/null') or die "/dev/null: $!\n";
my $ran = eval
{
	GetOptions(\%option, 'exec=s', 'failed=s', 'jobs=i', 'totals=s', 'sum=s') or die "wrong options\n";
	defined $option{sum} ? add_up($option{sum}) : run(@ARGV);
	1;
};
if (!$ran)
{
	print "harness.pl: $@";
	exit 2;
}
if (!defined $option{totals})
{
	print map { "FAILED: $_\n" } @failed;
	print "ATTENTION: $skipped tests were SKIPPED, see above\n" if $skipped;
	print "$passed passed, $failed failed\n";
}
exit($passed > 0 && $failed == 0 ? 0 : 1);
