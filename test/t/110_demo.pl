# What "make demo" prints, so that neither it nor what it shows goes stale.  It runs with
# servers of its own, the iblt that is installed, and a small table.
use IbltTest;

IbltTest::share_sessions(0);

my $work = PostgreSQL::Test::Utils::tempdir_short();
mkdir "$work/s" or die;
my %settings = (IBLT_WORK => $work, DEMO_INSTALLED => 1, DEMO_SCALE => 1, DEMO_SEED => 1);
local @ENV{ keys %settings } = values %settings;
# (libpq would give this name to the worker of the subscription)
delete local @ENV{qw(PGHOST PGPORT PGAPPNAME)};
my $said = qx{bash test/demo.sh 2>&1};
is($?, 0, 'the demo succeeds') or diag($said);

# The chapters, with each number as N and without regard to where lines break.  (pgbench may have
# made a balance that is shown negative.)
sub chapters
{
	my ($text) = @_;
	my %chapters;
	while ($text =~ /^(\d)\. (.*?)(?=^\d\. |\z)/msg)
	{
		my ($number, $chapter) = ($1, $2);
		$chapter =~ s/-{3,}[-+]*//g;
		$chapter =~ s/-?\d+(?:[,:]\d+)*/N/g;
		$chapter =~ s/\s+/ /g;
		$chapters{$number} = $chapter =~ s/\s+\z//r;
	}
	return \%chapters;
}

# The figure that README.md shows has chapters 3 and 4 up to a full comparison, and the result.
my $figure = join "\n", map { s/&lt;/</gr =~ s/&gt;/>/gr =~ s/&amp;/&/gr } slurp_file('doc/figures/demo.svg') =~ m{<text[^>]*>(.*?)</text>}gs;
my $part = $said =~ s/^   Is that the truth\?.*?(?=^Result:)//msr;
my ($chapters, $of_figure) = (chapters($part), chapters($figure));
is($chapters->{$_}, $of_figure->{$_}, "chapter $_ is as the figure shows it") foreach 3, 4;
is(join(' ', sort keys %{ chapters($said) }), '1 2 3 4 5 6 7 8 9', 'all chapters');
# The demo compares each answer with what it has to be, and fails if it is another one.  So these end as they should.
foreach ('the same keys, each with the same side: 100 of 100', 'Too small, and it says so.  Again, with the capacity it recommends:', 'the same keys: 100', 'none skipped; the statements were exactly those of the preview',
	'and inserts one, has arrived', 'the audit by scans says the same: no digest has missed a change', 'the desk made new like old, in one transaction')
{
	like($said, qr/^    \Q$_\E/m, $_);
}
like($said, qr/^2\. Business as usual.*^\s+pgbench_accounts \| equal  \| 100000 \| 100000 \|       0 \|     0 \|       0 .*^3\./ms,
	'no difference under load');
like($said, qr/^\s+pgbench_accounts \| differs \| 100000 \| 100000 \|      30 \|    30 \|      40 /m, 'the audit finds what drifted');
like($said, qr/^    keys that differ: 100, as many as drifted/m, 'and so does the comparison');
like($said, qr/^    \.\.\. statements in all: 100$/m, 'and the repair');
like($said, qr/^Result: rows drifted: 100, found: 100, confirmed by a full comparison: 100, repaired: 100;$/m, 'the sum');

# what README.md and the demo tell of one another
my $readme = slurp_file('README.md');
my %calls = map { $_ => 1 } $readme =~ /\b(iblt_(?:compare|repair|agg|decode|track)\w*)\(/g;
foreach my $call (sort keys %calls)
{
	like($said, qr/\b$call\(/, "the demo shows $call as README.md does");
}
done_testing();
