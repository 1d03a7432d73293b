# IbltReader.pm
#	The readers in test/format, which know the formats without our C code.
#
#	run_reader(PROGRAM, INPUT, ARGUMENT, ...)   the output, in list context also the exit
#	                                            status and the errors.  An exit status
#	                                            that no reader should have ends the test.
#	doors(NODE, TYPE, JUDGE, CALL, ...)                from here on, the functions below are about values of
#	                                            this type on this server.  JUDGE gives the reader's status
#	                                            and reason, a call is SQL with %s for bytes
#	refused(NAME, BYTES), accepted(NAME, BYTES) two tests: what the reader, and every door of the server, says
#	with_bytes(BYTES, OFFSET, BYTES)            a copy with others from this offset on
#	resealed(BYTES)                             them as text, with a checksum that is right
#	damaged(BYTES, OFFSET, TEMPLATE, VALUE)     both, with what pack makes of the value
package IbltReader;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(dirname);
use IPC::Open2;
use JSON::PP ();
use MIME::Base64 qw(decode_base64 encode_base64);
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(run_reader doors refused accepted with_bytes resealed damaged);

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

my ($node, $type, $judge, $file, @calls);

# JUDGE gives the exit status of the reader and its reason.
sub doors
{
	($node, $type, $judge, @calls) = @_;
	$file = PostgreSQL::Test::Utils::tempdir() . '/copy.bin';
	$node->safe_psql('postgres', "CREATE TABLE IF NOT EXISTS loaded (s $type);
		CREATE FUNCTION refusal(statement text) RETURNS text LANGUAGE plpgsql AS \$\$
		BEGIN
			EXECUTE statement;
			RETURN 'accepted';
		EXCEPTION WHEN OTHERS THEN
			RETURN sqlstate || ' ' || sqlerrm;
		END \$\$");
	return;
}

# What comes of bytes at every door of the server.
sub said
{
	my ($bytes) = @_;
	my $hex = "'\\x" . unpack('H*', $bytes) . "'";
	open my $copy, '>:raw', $file or die "$file: $!";
	print $copy "PGCOPY\n\xff\r\n\0", pack('N N n N', 0, 0, 1, length $bytes), $bytes, pack('n', 0xffff);
	close $copy or die "$file: $!";
	return $node->safe_psql('postgres', join '', map { "SELECT refusal(\$s\$$_\$s\$);" } "SELECT '${\ encode_base64($bytes, '')}'::$type", "SELECT $hex\::bytea::$type",
		(map { sprintf "SELECT $_", $hex } @calls), "COPY loaded FROM '$file' (FORMAT binary)");
}

sub refused
{
	my ($name, $bytes) = @_;
	my ($status, $reason) = $judge->(encode_base64($bytes, ''));
	chomp $reason;
	is($status, 2, "$name: the reader refuses ($reason)");
	is(said($bytes), join("\n", ("22P03 invalid value of type $type") x (3 + @calls)), "$name: every door of the server refuses");
	return;
}

sub accepted
{
	my ($name, $bytes) = @_;
	my ($status, $reason) = $judge->(encode_base64($bytes, ''));
	cmp_ok($status, '<', 2, "$name: the reader accepts") or diag($reason);
	is(said($bytes), join("\n", ('accepted') x (3 + @calls)), "$name: every door of the server accepts");
	return;
}

sub with_bytes
{
	my ($bytes, $offset, $new) = @_;
	substr($bytes, $offset, length($new)) = $new;
	return $bytes;
}

sub resealed { my ($bytes) = @_; return scalar run_reader('iblt_reader.py', encode_base64($bytes, ''), 'reseal', '-') }

sub damaged
{
	my ($bytes, $offset, $template, @values) = @_;
	return decode_base64(resealed(with_bytes($bytes, $offset, pack($template, @values))));
}

1;
