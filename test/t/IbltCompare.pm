# IbltCompare.pm
#	The tests of iblt_compare share this, in addition to IbltTest.pm: the rows that
#	iblt_compare returns, and those that a full comparison returns.
#
#	compare(RELATION, OPTIONS) iblt_compare's rows, one on a line: "key side here_count there_count", sorted
#	truth(TABLE, KEY)          the same lines of a full comparison
#	batch_size(NUMBER)         from here on, so many keys are looked up at a time
package IbltCompare;

use IbltTest;

our @ISA = qw(IbltTest);
our @EXPORT = (@IbltTest::EXPORT, qw(compare truth batch_size));

# RELATION and OPTIONS are SQL.  node: where it runs.  peer: SQL, or undef for
# relations of one database.  setup: SQL that runs before it.
sub compare
{
	my ($relation, $options, %how) = @_;
	my $node = $how{node} // $IbltTest::here;
	my $peer = exists $how{peer} ? $how{peer} : conninfo($IbltTest::there);
	my $out = $node->safe_psql('postgres',
		($how{setup} // '') . "SELECT concat_ws(' ', key, side, here_count, there_count) FROM "
		  . "iblt_compare($relation, $peer" . ($options ? ", $options" : '') . ") AS c ORDER BY 1");
	return join("\n", sort split /\n/, $out);
}

sub batch_size
{
	my ($size) = @_;
	$IbltTest::here->safe_psql('postgres', "CREATE OR REPLACE FUNCTION iblt_internal.batch_size(plan iblt_internal.plan) RETURNS integer
		LANGUAGE sql IMMUTABLE AS 'SELECT $size'");
	return;
}

# KEY is a list of columns of t.  node, peer: the servers.  peer_table: the table's
# name there.  columns, where: a part of the table.  peer_where: the condition there,
# if it differs.
sub truth
{
	my ($table, $key, %how) = @_;
	my (%net, @of_side, %count, @lines);
	my @sides = ([ $how{node} // $IbltTest::here, 0, $table, $how{where} ],
		[ $how{peer} // $IbltTest::there, 1, $how{peer_table} // $table, $how{peer_where} // $how{where} ]);
	my $columns = $how{columns} // '*';

	foreach my $side (@sides)
	{
		my ($node, $n, $name, $where) = @$side;
		my $text = $node->safe_psql('postgres', "SET timezone = 'UTC'; SET bytea_output = 'hex'; SET extra_float_digits = 1;
			SELECT (SELECT to_jsonb(j.*) FROM (SELECT $key) AS j), to_jsonb(t.*) FROM (SELECT $columns FROM $name) AS t"
			  . ($where ? " WHERE $where" : ''));
		$of_side[$n] = [ split /\n/, $text ];
		$net{$_} += $n ? -1 : 1 foreach @{ $of_side[$n] };
	}
	# a line is a key and a row
	my %differs = map { substr($_, 0, index($_, '|')) => 1 } grep { $net{$_} } keys %net;
	foreach my $n (0, 1)
	{
		foreach my $k (map { substr($_, 0, index($_, '|')) } @{ $of_side[$n] })
		{
			$count{$k}[$n]++ if $differs{$k};
		}
	}
	foreach my $k (keys %differs)
	{
		my ($h, $t) = map { $count{$k}[$_] // 0 } (0, 1);
		push @lines, join ' ', $k, ($h && $t ? 'both' : $h ? 'here' : 'there'), $h, $t;
	}
	return join("\n", sort @lines);
}

1;
