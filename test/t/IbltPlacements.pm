# IbltPlacements.pm
#	Where the sides of a comparison are, and which function compares them.  A placement maps a relation
#	and the options of iblt_compare to a call of its own, and what that returns to the same few words:
#
#	rows     "key side confirmed" for each key, in order, for example "7 both t, 9 here t".  Side is here
#	         if only this side has the row, and there if only the other one.  Placements that count
#	         give "here N, there N, both N, unconfirmed N"
#	error    SQLSTATE, message, detail and hint, without the name of the side
#	notes    warnings, and the detail of an audit
#
#	placements()             all of them, each with its name
#	why_not(PLACEMENT, OPTIONS)      the option that it lacks, as a reason
#	servers_of_placements()  starts the servers that all of them share; server_of(DATABASE) is one of them
#	on(ROLE, SQL)            runs SQL in each database that is here, there or third
#	call(PLACEMENT, RELATION, OPTIONS, HOW)  starts the call; HOW{there} is a function that changes the peer's string, HOW{first} a
#	                         statement before it; with HOW{together} each placement has a session of its own; HOW{deviates} is the node;
#	                         HOW{site} are other nodes, all elsewhere
#	answer(PLACEMENT)        waits for it and returns what it says
#	expected(PLACEMENT, ROWS)        the rows of a scenario as this placement tells them
#
#	The databases: "here", "third" and "desk" (which only conducts) on one server, "there" on the other one.
#	"near" and "far" are another pair, of which "far" has no iblt.
package IbltPlacements;

use IbltTest;

our @ISA = qw(IbltTest);
our @EXPORT = (@IbltTest::EXPORT, qw(placements why_not servers_of_placements server_of on sql string session call answer expected));

my (@servers, %sessions);
my %server_of = (desk => 0, here => 0, third => 0, near => 0, there => 1, far => 1);
my %role_of = (here => 'here', third => 'here', near => 'here', there => 'there', far => 'there');

my %of_audits = map { ($_ => 'an audit has no such option') } qw(columns exclude key_columns condition);
my %of_nodes = map { ($_ => 'nodes have no such option') } qw(cast_types extra_columns peer_condition);

# site: the databases of its sides.  from: the one that calls.  form: what comes back.
my @placements = (
	{ name => 'here and peer', site => [qw(here there)], from => 'here', form => 'compare' },
	{ name => 'elsewhere', site => [qw(here there)], from => 'desk', form => 'compare', elsewhere => 1 },
	{ name => 'without iblt', site => [qw(near far)], from => 'near', form => 'compare', method => 'plain' },
	{ name => 'elsewhere, without iblt', site => [qw(near far)], from => 'desk', form => 'compare', elsewhere => 1, method => 'plain' },
	{ name => 'digests', site => [qw(here there)], from => 'here', form => 'compare', live => 1, lacks => { condition => 'a digest has all rows' } },
	{ name => 'two nodes', site => [qw(here there)], from => 'here', form => 'nodes', lacks => \%of_nodes },
	{ name => 'three nodes', site => [qw(here there third)], from => 'here', form => 'nodes', lacks => \%of_nodes },
	{ name => 'nodes elsewhere', site => [qw(here there third)], from => 'desk', form => 'nodes', elsewhere => 1, lacks => \%of_nodes },
	{ name => 'nodes without iblt', site => [qw(near far)], from => 'near', form => 'nodes', method => 'plain', lacks => \%of_nodes },
	{ name => 'audit', site => [qw(here there)], from => 'here', form => 'audit', lacks => \%of_audits },
	{ name => 'audit without iblt', site => [qw(near far)], from => 'near', form => 'audit', method => 'plain', lacks => \%of_audits },
	{ name => 'audit elsewhere', site => [qw(here there)], from => 'desk', form => 'audit', elsewhere => 1, lacks => \%of_audits },
	{ name => 'audit elsewhere, without iblt', site => [qw(near far)], from => 'desk', form => 'audit', elsewhere => 1, method => 'plain', lacks => \%of_audits },
	{ name => 'audit of nodes', site => [qw(here there third)], from => 'here', form => 'audit_nodes', lacks => { %of_audits, %of_nodes } },
	{ name => 'run', site => [qw(here there)], from => 'here', form => 'run', lacks => \%of_audits },
	{ name => 'run elsewhere', site => [qw(here there)], from => 'desk', form => 'run', elsewhere => 1, lacks => \%of_audits },
	{ name => 'run without iblt', site => [qw(near far)], from => 'near', form => 'run', method => 'plain', lacks => \%of_audits });

sub placements { return @placements }

sub why_not
{
	my ($p, $options) = @_;
	foreach my $name (sort keys %{ $options // {} })
	{
		return "$name: $p->{lacks}{$name}" if $p->{lacks}{$name};
	}
	return;
}

sub server_of { my ($db) = @_; return $servers[ $server_of{$db} ] }

sub sql { my ($db, $sql) = @_; return server_of($db)->safe_psql($db eq 'desk' ? 'postgres' : $db, $sql) }

sub on
{
	my ($role, $sql) = @_;
	sql($_, $sql) foreach grep { $role eq 'both' || $role_of{$_} eq $role } sort keys %role_of;
	return;
}

# Sessions of tests that stay.
sub session
{
	my ($db, $use) = @_;
	return $sessions{"$db $use"} //= IbltTest::Session->new(server_of($db), $db eq 'desk' ? 'postgres' : $db);
}

sub string { my ($db) = @_; return server_of($db)->connstr($db) }

sub servers_of_placements
{
	my (@settings) = @_;
	@servers = map { ready($_, 'max_connections = 100', @settings) } qw(one two);
	sides(@servers);
	server_of($_)->safe_psql('template1', "CREATE DATABASE $_ TEMPLATE " . ($_ eq 'far' ? 'template0' : 'postgres')) foreach sort keys %role_of;
	on('both', 'CREATE SCHEMA shop');
	return @servers;
}

# --- calls ----------------------------------------------------------------------------------

sub list { my ($options) = @_; return map { ", $_ => $options->{$_}" } sort keys %$options }

sub call
{
	my ($p, $relation, $options, %how) = @_;
	my %options = ($p->{method} ? (method => "'$p->{method}'") : (), $p->{live} ? (live => "'require'") : (), %{ $options // {} });
	my $changed = $how{there} // sub { $_[0] };
	my $elsewhere = $p->{elsewhere} || $how{site};
	my @strings = map { literal($role_of{$_} eq 'there' ? $changed->(string($_), $_) : string($_)) } @{ $how{site} // $p->{site} };
	my $peer = $strings[1];
	my $key = "array_to_string(ARRAY(SELECT value FROM jsonb_each_text(key)), ',', 'null')";
	my $more = join '', list(\%options);
	my $nodes = 'ARRAY[' . join(', ', $elsewhere ? @strings : ('NULL', @strings[ 1 .. $#strings ])) . ']';
	$p->{deviates} = $how{deviates} // 'node 2';
	my $tables = $p->{elsewhere} ? "here_peer => $strings[0], here_tables => '{$relation}'" : "tables => '{$relation}'";
	my $sql;
	if ($p->{form} eq 'compare')
	{
		my $of = $p->{elsewhere} ? "here_peer => $strings[0], here_relation => '$relation', peer => $peer" : "'$relation', $peer";
		$sql = "SELECT concat_ws(' ', $key, side, confirmed) FROM iblt_compare($of$more)";
	}
	elsif ($p->{form} eq 'nodes')
	{
		$sql = "SELECT concat_ws('|', $key, verdict, agree, deviate, missing, confirmed) FROM iblt_compare_nodes('$relation', $nodes$more)";
	}
	elsif ($p->{form} eq 'audit')
	{
		$sql = "SELECT concat_ws('|', status, coalesce(sqlstate, ''), extra, missing, changed, unconfirmed, detail) FROM " . audit_stats("iblt_audit($peer, $tables$more)") . ' AS a';
	}
	elsif ($p->{form} eq 'audit_nodes')
	{
		my $counts = join ', ', map { "coalesce(($_ ->> '$p->{deviates}')::int, 0)" } qw(missing extra changed);
		$sql = "SELECT concat_ws('|', status, coalesce(sqlstate, ''), $counts + coalesce(ties, 0), unconfirmed, detail) FROM iblt_audit_nodes($nodes, tables => '{$relation}'$more)";
	}
	else
	{
		$sql = "CALL iblt_audit_run($peer, $tables$more)";
	}
	$sql = "$how{first}; $sql" if $how{first};
	$p->{session} = session($p->{from}, $how{together} ? $p->{name} : 'calls');
	return $p->{session}->start($sql);
}

# --- answers --------------------------------------------------------------------------------

sub unnamed { my ($text) = @_; return $text =~ s/\bon (?:the peer|"[^"]*"): //gr }

# Which of two or three nodes deviates is the peer, whose placements have the others equal, or the node that the scenario names.
sub row_of_nodes
{
	my ($line, $node) = @_;
	my ($key, $verdict, $agree, $deviate, $missing, $confirmed) = split /\|/, $line;
	my $two = $agree !~ /,/;
	my $expected = $two ? $verdict eq 'tie' : $verdict eq 'majority';
	return "($line)" if !$expected || $deviate ne qq({"$node"});
	my $side = $missing =~ /$node/ ? 'here' : $missing eq '{}' ? 'both' : 'there';
	return join ' ', $key, $side, $confirmed // ();
}

sub counted { my (@n) = @_; return sprintf 'here %d, there %d, both %d, unconfirmed %d', @n }

# What an audit says of the one table.
sub audited
{
	my ($line) = @_;
	my ($status, $state, @rest) = split /\|/, $line, 7;
	return { status => $status, error => unnamed("$state: $rest[-1]"), rows => '', notes => '' } if $state ne '';
	my ($here, $there, $both, $unconfirmed, $detail) = @rest;
	my $n = $here + $there + $both;
	my $right = !$n ? 'equal' : $n == $unconfirmed ? 'not comparable' : 'differs';
	return { status => $status, error => '', notes => $detail // '', rows => counted($here, $there, $both, $unconfirmed) . ($status eq $right ? '' : ", but $status") };
}

sub answer
{
	my ($p) = @_;
	my $session = $p->{session};
	my $out = $session->done;
	my $err = $session->{err} =~ s/^LINE \d+:.*\n.*\n//mgr =~ s/^psql:\S+ //mgr;
	my ($error) = $err =~ /ERROR:  (.*(?:\n(?:DETAIL|HINT|CONTEXT): .*)*)/;
	return { raw => $err, error => unnamed($error), rows => '', notes => '', status => '' } if defined $error;
	if ($p->{form} eq 'run')
	{
		my ($run) = $out =~ /^(\d+)$/m or return { raw => $err, error => "no run: $out", rows => '', notes => '' };
		my $stats = $session->run("SELECT concat_ws('|', status, coalesce(sqlstate, ''), coalesce(extra, 0), coalesce(missing, 0), coalesce(changed, 0), coalesce(unconfirmed, 0), detail) FROM iblt_audit_table_stats WHERE run = $run");
		my $kept = $session->run("SELECT concat_ws(' ', array_to_string(ARRAY(SELECT value FROM jsonb_each_text(key)), ',', 'null'), side, confirmed) FROM iblt_audit_differences WHERE run = $run");
		my $said = audited($stats);
		my $rows = $said->{rows} =~ /but/ ? $said->{rows} : join ', ', sort split /\n/, $kept;
		return { %$said, raw => $err, rows => $rows, counts => $said->{rows} };
	}
	return { raw => $err, %{ audited($out) } } if $p->{form} =~ /audit/;
	my @rows = split /\n/, $out;
	@rows = map { row_of_nodes($_, $p->{deviates}) } @rows if $p->{form} eq 'nodes';
	return { raw => $err, error => '', rows => join(', ', sort @rows), notes => join("\n", $err =~ /(?:WARNING: .*(?:\n(?:DETAIL|HINT): .*)*)/g) };
}

sub expected
{
	my ($p, @rows) = @_;
	return join ', ', sort @rows if $p->{form} !~ /audit/;
	my $text = join "\n", @rows;
	return counted(map { my $word = $_; scalar(() = $text =~ /$word/mg) } ' here\b', ' there\b', ' both\b', ' f$');
}

1;
