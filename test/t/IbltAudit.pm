# IbltAudit.pm
#	The tests of audits share this, in addition to IbltTest.pm: a publisher and a
#	subscriber, the rows of an audit, and the counts of a full comparison.
#
#	audit_servers()              the two servers, here and there
#	other(NODE)                  the other one
#	audit(OPTIONS)               all that iblt_audit knows by name, its messages, and the rows in order
#	audit_subscription(OPTIONS)  the same of a subscription
#	line(ROW)                    a row as "status rows_here rows_there missing extra changed unconfirmed"
#	counts(TABLE)                the same from a full comparison
#	program(ARGUMENTS)           runs iblt-audit: its status ("signal N" if it did not exit), stdout and stderr
package IbltAudit;

use IbltCompare ();
use IbltTest;
use IPC::Run ();
use JSON::PP;

our @ISA = qw(IbltTest);
our @EXPORT = (@IbltTest::EXPORT, qw(audit_servers other audit audit_subscription line counts program $audit_sh));

# where "make install" put it
chomp(our $audit_sh = `pg_config --bindir`);
$audit_sh .= '/iblt-audit';

sub audit_servers
{
	my ($here, $there) = awkward_servers([ "timezone = 'Asia/Kolkata'", "datestyle = 'German'" ], [ "bytea_output = 'escape'", 'log_connections = on' ]);
	$there->safe_psql('postgres', 'CREATE EXTENSION dblink');
	return ($here, $there);
}

sub other { my ($node) = @_; return $node == $IbltTest::here ? $IbltTest::there : $IbltTest::here }

sub function
{
	my ($node, $name) = @_;
	return $node == $IbltTest::there ? qq("Their Iblt".$name) : $name;
}

sub rows
{
	my ($sql, %how) = @_;
	my ($rc, $out, $err) = $how{node}->psql('postgres', "SELECT to_json(a) FROM ${\ audit_stats($sql)} AS a",
		extra_params => $how{user} ? [ '-U', $how{user} ] : []);
	die "$sql: $err" if $rc != 0;
	my @rows = map { JSON::PP->new->utf8->decode($_) } split /\n/, $out;
	my %by_name;
	foreach my $row (@rows)
	{
		my $name = $row->{relation} // $row->{peer_relation};
		die "$name is there twice" if $by_name{$name};
		$by_name{$name} = $row;
	}
	return (\%by_name, $err, \@rows);
}

# node: where it runs.  peer: SQL.  user: the role.
sub audit
{
	my ($options, %how) = @_;
	my $node = $how{node} // $IbltTest::here;
	return rows(function($node, 'iblt_audit') . '(' . ($how{peer} // conninfo(other($node))) . ", $options)", %how, node => $node);
}

sub audit_subscription
{
	my ($options, %how) = @_;
	return rows(function($IbltTest::there, 'iblt_audit') . "(subscription => $options)", %how, node => $IbltTest::there);
}

sub line
{
	my ($row) = @_;
	return 'no such row' unless $row;
	return join ' ', map { $_ // '-' } @$row{qw(status rows_here rows_there missing extra changed unconfirmed)};
}

# The key is id.  node: where the audit runs.  columns, where, peer_where: of the table.
sub counts
{
	my ($table, %how) = @_;
	my $node = $how{node} // $IbltTest::here;
	my $differences = IbltCompare::truth($table, 't.id', %how, node => $node, peer => other($node));
	my ($mine, $theirs) = map { my ($side, $where) = @$_;
		$side->safe_psql('postgres', "SELECT count(*) FROM $table" . ($where ? " WHERE $where" : ''))
	} ([ $node, $how{where} ], [ other($node), $how{peer_where} // $how{where} ]);
	my ($missing, $extra, $changed) = map { scalar(() = $differences =~ / $_ \d+ \d+$/mg) } qw(there here both);
	return join ' ', $differences eq '' ? 'equal' : 'differs', $mine, $theirs, $missing, $extra, $changed, 0;
}

# node: where it runs.  env: variables of its own.  shell: that interprets it.  to: where its
# output goes.  meanwhile: gets the run of IPC::Run.
sub program
{
	my ($arguments, %how) = @_;
	my $node = $how{node} // $IbltTest::here;
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres', PGAPPNAME => '', %{ $how{env} // {} });
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ $how{shell} // 'sh', $audit_sh, @$arguments ], '<', '/dev/null', '>', $how{to} // \$out, '2>', \$err, IbltTest::time_limit());
	$how{meanwhile}->($run) if $how{meanwhile};
	$run->finish;
	my $status = $run->full_result(0);
	return ($status & 127 ? 'signal ' . ($status & 127) : $status >> 8, $out, $err);
}

1;
