# IbltCompare.pm
#	What the tests of iblt_compare share: servers, sessions, the rows that
#	iblt_compare gives, and those that a full comparison gives.
#
#	random_seed()              srand with IBLT_TEST_SEED or a new seed, which it prints
#	compare_server(NAME, ...)  a server started for a test; settings may follow
#	sides(HERE, THERE)         the two servers that the functions below mean
#	both(SQL)                  runs SQL on both
#	literal(TEXT)              TEXT as a SQL literal
#	compare(RELATION, OPTIONS) iblt_compare's rows, a line each: "key side here_count there_count", sorted
#	truth(TABLE, KEY)          the same lines of a full comparison
#	lines(TEXT)                how many lines
#	failure(SQL)               the error, with its SQLSTATE; '' if there is none
#	nothing_left(TEXT)         a test: the peer has no connection of iblt_compare
#	IbltCompare::Session       psql that runs while the test does something else
package IbltCompare;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(random_seed compare_server sides both literal compare truth lines failure connections nothing_left);

my ($here, $there);

sub random_seed
{
	my $seed = $ENV{IBLT_TEST_SEED} || (time() ^ $$) % 1000000;
	srand($seed);
	note("seed $seed");
	return $seed;
}

sub compare_server
{
	my ($name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 'logical', extra => [ '-E', 'UTF8', '--no-locale' ]);
	$node->append_conf('postgresql.conf', join("\n",
		"max_worker_processes = 16", "max_parallel_workers_per_gather = 2", "log_statement = none",
		"log_min_messages = warning", "wal_receiver_status_interval = 1s", @settings) . "\n");
	$node->start;
	return $node;
}

sub sides { ($here, $there) = @_; return }

sub both
{
	my ($sql) = @_;
	$_->safe_psql('postgres', $sql) foreach ($here, $there);
	return;
}

sub literal
{
	my ($text) = @_;
	$text =~ s/'/''/g;
	return "'$text'";
}

# RELATION and OPTIONS are SQL.  node: where it runs; peer: SQL, or undef for
# relations of one database; setup: SQL before it.
sub compare
{
	my ($relation, $options, %how) = @_;
	my $node = $how{node} // $here;
	my $peer = exists $how{peer} ? $how{peer} : literal($there->connstr('postgres'));
	my $out = $node->safe_psql('postgres',
		($how{setup} // '') . "SELECT concat_ws(' ', key, side, here_count, there_count) FROM "
		  . "iblt_compare($relation, $peer" . ($options ? ", $options" : '') . ") AS c ORDER BY 1");
	return join("\n", sort split /\n/, $out);
}

# KEY is a list of columns of t.  node, peer: the servers; peer_table: its name
# there; columns, where: what of the table.
sub truth
{
	my ($table, $key, %how) = @_;
	my (%rows, %count, @lines);
	my @sides = ([ $how{node} // $here, 0, $table ], [ $how{peer} // $there, 1, $how{peer_table} // $table ]);
	my $columns = $how{columns} // '*';

	foreach my $side (@sides)
	{
		my ($node, $n, $name) = @$side;
		my $text = $node->safe_psql('postgres', "SET timezone = 'UTC'; SET bytea_output = 'hex'; SET extra_float_digits = 1;
			SELECT (SELECT to_jsonb(j) FROM (SELECT $key) AS j), to_jsonb(t) FROM (SELECT $columns FROM $name) AS t"
			  . ($how{where} ? " WHERE $how{where}" : ''));
		foreach my $line (split /\n/, $text)
		{
			my ($k, $row) = split /\|/, $line, 2;
			$rows{$k}{$row} += $n ? -1 : 1;
			$count{$k}[$n]++;
		}
	}
	foreach my $k (keys %rows)
	{
		next unless grep { $_ != 0 } values %{ $rows{$k} };
		my ($h, $t) = map { $count{$k}[$_] // 0 } (0, 1);
		push @lines, join ' ', $k, ($h && $t ? 'both' : $h ? 'here' : 'there'), $h, $t;
	}
	return join("\n", sort @lines);
}

sub lines { my ($text) = @_; return scalar(() = $text =~ /^.+$/mg) }

# node: where it runs; user: as whom.
sub failure
{
	my ($sql, %how) = @_;
	my ($rc, $out, $err) = ($how{node} // $here)->psql('postgres', "\\set VERBOSITY verbose\n$sql",
		($how{user} ? (extra_params => [ '-U', $how{user} ]) : ()));
	return $rc == 0 ? '' : $err;
}

sub connections
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'iblt_compare%'");
}

sub nothing_left
{
	my ($text, $node) = @_;
	ok(($node // $there)->poll_query_until('postgres',
			"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'iblt_compare%'"),
		"$text: no connection is left on the peer");
	return;
}

#	new(NODE)        connects
#	start(SQL)       sends SQL and does not wait
#	seen(REGEX)      waits until standard error (NOTICEs and errors) matches
#	done()           waits for what was sent: its output; {err} has the errors
#	run(SQL)         start and done
#	quit()           disconnects
package IbltCompare::Session;

use IPC::Run ();

sub new
{
	my ($class, $node) = @_;
	my $self = bless { in => '', out => '', err => '', number => 0 }, $class;
	$self->{timer} = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
	$self->{psql} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err}, $self->{timer});
	$self->{pid} = $self->run("\\set VERBOSITY verbose\nSELECT pg_backend_pid()");
	return $self;
}

sub start
{
	my ($self, $sql) = @_;
	$self->{number}++;
	($self->{out}, $self->{err}) = ('', '');
	$self->{timer}->start($PostgreSQL::Test::Utils::timeout_default);
	$self->{in} .= "$sql;\n\\echo done $self->{number}\n\\warn done $self->{number}\n";
	$self->{psql}->pump_nb;
	return $self;
}

sub seen
{
	my ($self, $pattern) = @_;
	$self->{psql}->pump until $self->{err} =~ $pattern;
	return;
}

sub done
{
	my ($self) = @_;
	$self->{psql}->pump until $self->{out} =~ s/^done $self->{number}\n\z//m;
	$self->{psql}->pump until $self->{err} =~ s/^done $self->{number}\n\z//m;
	return $self->{out} =~ s/\n\z//r;
}

sub run { my ($self, $sql) = @_; return $self->start($sql)->done }

sub quit
{
	my ($self) = @_;
	$self->{timer}->start($PostgreSQL::Test::Utils::timeout_default);
	$self->{in} .= "\\q\n";
	$self->{psql}->finish;
	return;
}

1;
