#!/usr/bin/env perl
# rooms.pl
#	Prints each call from a room of sql/ to a room above it.  The Makefile lists the rooms of each
#	extension from the floor upwards, and the extensions in the order in which they need each
#	other.  Only sql/track calls iblt_live, which may not be installed.  Names in strings are
#	not calls: they are questions to a server, which functions.md and protocol.md list.
use strict;
use warnings;

local $/;
open my $makefile, '<', 'Makefile' or die "Makefile: $!";
my $text = <$makefile> =~ s/\\\n//gr;
my (%rank, %room_of, %text_of, %extension_of);
foreach my $extension (qw(iblt iblt_live iblt_audit))
{
	my ($parts) = $text =~ /^SQL_PARTS_$extension = (.*)/m or die "the Makefile has no parts of $extension";
	foreach my $part (split ' ', $parts)
	{
		my ($room) = $part =~ m{^(\w+)/} or next;
		$rank{$room} //= keys %rank;
		$extension_of{$room} = $extension;
		open my $file, '<', "sql/$part.sql" or die "sql/$part.sql: $!";
		($text_of{"sql/$part.sql"} = <$file>) =~ s/--[^\n]*|'(?:[^']|'')*'//g;
	}
}
foreach my $file (keys %text_of)
{
	my ($room) = $file =~ m{/(\w+)/};
	$room_of{$1}{$room} = 1 while $text_of{$file} =~ /^CREATE (?:FUNCTION|PROCEDURE) (?:\@extschema\@\.)?(\w+)/mg;
}
foreach my $file (sort keys %text_of)
{
	my ($room) = $file =~ m{/(\w+)/};
	my %seen;
	while ($text_of{$file} =~ /(?<![\w.])(?:iblt_internal\.)?(\w+)\s*\(/g)
	{
		my @rooms = keys %{ $room_of{$1} // {} };
		next if $seen{$1}++ || @rooms != 1;
		print "$file calls $1 of sql/$rooms[0]\n"
		  if $rank{ $rooms[0] } > $rank{$room}
		  || $extension_of{ $rooms[0] } eq 'iblt_live' && $extension_of{$room} eq 'iblt_audit' && $room ne 'track';
	}
}

# The questions of the protocol: each has a row in protocol.md, and each row a function.
open my $page, '<', 'doc/internals/protocol.md' or die "protocol.md: $!";
my %listed = map { $_ => 1 } map { /`(\w+)`/g } map { (split /\|/)[1] } grep { /^\| `/ } split /\n/, <$page>;
my %called;
foreach my $file (grep { $extension_of{ m{/(\w+)/} && $1 } ne 'iblt_audit' } keys %text_of)
{
	$called{$1} = 1 while $text_of{$file} =~ /(?<!FUNCTION )(?<![\w.])(?:iblt_internal\.)?(\w+)\s*\(/g;
}
foreach my $file (grep { m{^sql/protocol/} } sort keys %text_of)
{
	while ($text_of{$file} =~ /^CREATE FUNCTION (\w+)/mg)
	{
		next if $called{$1} || $listed{$1} || $1 =~ /^iblt_peer_(?:settings|show)$/;
		print "doc/internals/protocol.md does not list $1\n";
	}
}
foreach my $name (sort keys %listed)
{
	my @homes = grep { ($extension_of{$_} // '') ne 'iblt_audit' } keys %{ $room_of{$name} // {} };
	print "doc/internals/protocol.md lists $name, which no server answers\n" if !@homes;
}
