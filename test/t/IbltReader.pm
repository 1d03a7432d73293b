# IbltReader.pm
#	The readers in test/format, which know the formats without our C code.
#
#	run_reader(PROGRAM, INPUT, ARGUMENT, ...)   the output, in list context also the exit
#	                                            status and the errors.  An exit status
#	                                            that no reader should have ends the test.
package IbltReader;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(dirname);
use IPC::Open2;
use JSON::PP ();

our @EXPORT = qw(run_reader);

my $format = abs_path(dirname(__FILE__)) . '/../format';
my $json = JSON::PP->new->ascii->allow_nonref;
my %running;

# One process for each reader.  It ends with this one, which closes its input.
sub running
{
	my ($program) = @_;
	my ($from, $to);
	$running{$program} //= do
	{
		open2($from, $to, '/usr/bin/python3', '-B', "$format/answer.py", $program =~ s/\.py$//r);
		{ from => $from, to => $to };
	};
	return $running{$program};
}

sub run_reader
{
	my ($program, $input, @arguments) = @_;
	my $reader = running($program);
	print { $reader->{to} } $json->encode([ $input, map { "$_" } @arguments ]), "\n";
	$reader->{to}->flush;
	my $answer = readline($reader->{from}) // die "$program has died\n";
	my ($status, $out, $err) = @{ $json->decode($answer) };
	chomp $out;
	die "the reader failed: $err" if $status > 2 or $err =~ /Traceback/;
	return wantarray ? ($out, $status, $err) : $out;
}

1;
