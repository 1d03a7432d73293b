#!/usr/bin/env perl
# picture.pl
#	Draws parts 3 and 4 of what the demo prints, and its result, as a terminal shows them:
#	make demo | test/lib/picture.pl >doc/figures/demo.svg
use strict;
use warnings;

my ($width, $height, $margin) = (7.3, 17, 16);
my (@lines, $wanted, $done);

while (<STDIN>)
{
	chomp;
	$wanted = /^[34R]/ if /^(?:\d+\. |Result:|   Is that)/;
	push @lines, $_ if $wanted;
	$done ||= /^Result:/;
}
die "the demo did not come to its result\n" unless $done;

my ($columns) = sort { $b <=> $a } map { length } @lines;
my ($w, $h) = ($columns * $width + 2 * $margin, @lines * $height + 2 * $margin);
print qq(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $w $h" role="img" aria-label="What make demo prints">\n),
  qq(<style>text{font:12px ui-monospace,"DejaVu Sans Mono",monospace;fill:#d7dae0;white-space:pre}),
  qq(.sql{fill:#8fc7ff}.bad{fill:#ffb86b}.head{fill:#fff;font-weight:bold}</style>\n),
  qq(<rect width="$w" height="$h" rx="8" fill="#1b1f27"/>\n);
my $y = $margin - 4;
foreach (@lines)
{
	my $class = /^(?:\d+\. |Result)/ ? 'head' : /^ +\w+> / ? 'sql' : /\bdiffers\b/ ? 'bad' : '';
	my $length = length() * $width;
	s/&/&amp;/g;
	s/</&lt;/g;
	$y += $height;
	print qq(<text x="$margin" y="$y" class="$class" textLength="$length" lengthAdjust="spacingAndGlyphs" xml:space="preserve">$_</text>\n) if /\S/;
}
print "</svg>\n";
