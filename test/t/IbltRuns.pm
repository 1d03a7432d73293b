# IbltRuns.pm
#	The tests of runs share this, in addition to IbltAudit.pm.
#
#	begin_run(OPTIONS)           CALL iblt_audit_run with the peer; its number and messages
#	start_run(OPTIONS)           the same in the background, and the number when there is one
#	resume(RUN [, OPTIONS])      CALL iblt_audit_resume; its messages
#	tables(RUN)                  the rows of iblt_audit_tables by name
#	run_row(RUN)                 the row of iblt_audit_run_stats
#	found(RUN, TABLE)            the differences that are kept, as "key side" lines
#	truth(TABLE)                 the same from a full comparison
package IbltRuns;

use IbltAudit;
use JSON::PP;

our @ISA = qw(IbltTest);
our @EXPORT = (@IbltAudit::EXPORT, qw(begin_run start_run resume tables run_row found truth rows_as_json));

sub peer { my ($how) = @_; return $how->{peer} // IbltAudit::conninfo(other($how->{node} // $IbltTest::here)) }

sub begin_run
{
	my ($options, %how) = @_;
	my $node = $how{node} // $IbltTest::here;
	my ($rc, $out, $err) = $node->psql('postgres', "CALL iblt_audit_run(${\ peer(\%how)}, $options)", extra_params => $how{user} ? [ '-U', $how{user} ] : []);
	die "$options: $err" if $rc != 0;
	return wantarray ? ($out, $err) : $out;
}

sub last_run
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT max(run) FROM iblt_audit_run_stats') || 0;
}

sub start_run
{
	my ($options, %how) = @_;
	my $node = $how{node} // $IbltTest::here;
	my $before = last_run($node);
	my $session = IbltTest::background($node, "CALL iblt_audit_run(${\ peer(\%how)}, $options)");
	IbltTest::wait_for($node, "SELECT max(run) > $before FROM iblt_audit_run_stats");
	return ($session, last_run($node));
}

sub resume
{
	my ($run, $options, %how) = @_;
	my $node = $how{node} // $IbltTest::here;
	my (undef, undef, $err) = $node->psql('postgres', "CALL iblt_audit_resume($run, ${\ peer(\%how)}" . ($options ? ", $options" : '') . ')');
	return $err;
}

sub rows_as_json
{
	my ($node, $query) = @_;
	return map { JSON::PP->new->utf8->decode($_) } split /\n/, $node->safe_psql('postgres', "SELECT to_json(x) FROM ($query) AS x");
}

sub tables
{
	my ($run, %how) = @_;
	return { map { ($_->{relation} => $_) } rows_as_json($how{node} // $IbltTest::here, "SELECT * FROM iblt_audit_table_stats WHERE run = $run") };
}

sub run_row
{
	my ($run, %how) = @_;
	return (rows_as_json($how{node} // $IbltTest::here, "SELECT * FROM iblt_audit_run_stats WHERE run = $run"))[0];
}

sub found
{
	my ($run, $table) = @_;
	return $IbltTest::here->safe_psql('postgres',
		"SELECT key, side FROM iblt_audit_differences WHERE run = $run AND relation = 'public.$table' ORDER BY 1, 2");
}

sub truth
{
	my ($table) = @_;
	return $IbltTest::here->safe_psql('postgres', "SELECT key, side FROM iblt_compare('$table', ${\ peer({})}) ORDER BY 1, 2");
}

1;
