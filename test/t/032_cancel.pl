# Work on a large sketch can be cancelled in the middle of each long step, and not
# only between them.  test/unit/test_interrupt.c shows it of the loops of src/core.
use IbltTest;

IbltTest::share_sessions(0);

my $node = PostgreSQL::Test::Cluster->new('cancel');
$node->init;
$node->append_conf('postgresql.conf', "jit = off\nmax_parallel_workers_per_gather = 0\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION iblt');

# One session keeps the sketch: nothing is read from a table.
my $session = IbltTest::Session->new($node);
my $template = 'iblt_new(4000000)';
$session->run("SELECT count(iblt_session_keep('large', iblt_delete(iblt_insert($template, 1, 1), 1, 1)))");

# Milliseconds that a query takes, and its error.
sub timed
{
	my ($query, $timeout) = @_;
	my $out = $session->run("SET statement_timeout = $timeout;\nSELECT clock_timestamp() AS begin \\gset\n$query;\nRESET statement_timeout;\n"
		. "SELECT extract(epoch FROM clock_timestamp() - :'begin') * 1000");
	my ($took) = $out =~ /([\d.]+)\s*\z/;
	return ($took, $session->{err});
}

# Cancelled after a third of the time it takes, a query must not run for most of
# it.  A busy machine may need another try.
sub cancelled
{
	my ($query, $name) = @_;
	my ($full, $took, $err);

	foreach my $try (1 .. 4)
	{
		($full, $err) = timed($query, 0);
		is($err, '', "$name: done") if $try == 1;
		($took, $err) = timed($query, int($full / 3) || 1);
		last if $err =~ /canceling statement/ && $took < 0.75 * $full;
	}
	like($err, qr/canceling statement due to statement timeout/, "$name: cancelled");
	cmp_ok($took, '<', 0.75 * $full, sprintf('%s: %.0f of %.0f ms', $name, $took, $full));
	return;
}

my $large = "iblt_session_get('large')";
cancelled("SELECT iblt_internal.iblt_out($large) IS NULL", 'text form');
cancelled("SELECT iblt_internal.iblt_in(iblt_internal.iblt_out($large)) IS NULL", 'text form and back');
cancelled("SELECT count(*) FROM iblt_decode($large)", 'decoding');
cancelled("SELECT iblt_fold($large, 1000) IS NULL", 'folding');

$session->quit;

done_testing();
