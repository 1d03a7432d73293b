# bin/iblt-audit with --run, --resume and --jobs: the exit status is 0 only if every
# table of the run was compared and is equal.
use IbltRuns;
use JSON::PP;

my ($here, $there) = audit_servers();
foreign_server($here, 'node_b', $there);
both('CREATE SCHEMA shop; CREATE TABLE shop.items (id int PRIMARY KEY, v int); INSERT INTO shop.items SELECT g, g FROM generate_series(1, 12000) g;
	CREATE TABLE shop.stock (id int PRIMARY KEY, v int); INSERT INTO shop.stock SELECT g, g FROM generate_series(1, 3000) g');
my @shop = ('peer=node_b', 'schema=shop');

# An audit whose status must be this one; its document.
sub audit_is
{
	my ($arguments, $status, $text, %how) = @_;
	my ($got, $out, $err) = program([ '--json', @$arguments ], %how);
	my $document = eval { JSON::PP->new->utf8->decode($out) } // { verdict => 'none', tables => [] };
	is("$got $document->{verdict}", "$status " . (qw(equal differs unknown))[$status], $text) or note("$out$err");
	like($err, $how{stderr}, "$text: message") if $how{stderr};
	return ($document, $err);
}

sub statuses { return join(', ', map { "$_->{relation} $_->{status}" } sort { $a->{relation} cmp $b->{relation} } @{ $_[0]->{tables} }) }

my ($first, $err) = audit_is([ '--run', @shop ], 0, 'a run', stderr => qr/^iblt-audit: run \d+\n.*is finished/s);
is(statuses($first), 'shop.items equal, shop.stock equal', 'its tables');
is(run_row($first->{run})->{state}, 'finished', 'its number is in the answer');
# How many sessions a call takes.
sub sessions_of
{
	my ($arguments, $status, $text) = @_;
	my $from = -s $here->logfile;
	my ($document) = audit_is($arguments, $status, $text);
	return (scalar(() = substr(slurp_file($here->logfile), $from) =~ /connection authorized: .*application_name=iblt-audit/g), $document);
}
$here->safe_psql('postgres', 'ALTER SYSTEM SET log_connections = on');
$here->reload;
wait_for($here, "SELECT current_setting('log_connections') NOT IN ('off', '')");
my ($took, $counted) = sessions_of([@shop], 0, 'an audit');
is($took, 1, 'takes one session');
($took, $counted) = sessions_of([ '--run', @shop ], 0, 'a run');
is($took, 1, 'takes one session');
is((sessions_of([ '--resume', $counted->{run} ], 0, 'which was finished'))[0], 1, 'takes one session');
is((sessions_of([ '--run', '--jobs', 2, @shop ], 0, 'a run of two sessions'))[0], 3, 'takes one more');
my ($second) = audit_is([ '--run', '--jobs', 3, @shop, 'slice_ms=1', 'max_load=0.5', 'progress=false' ], 0, 'three sessions');
is(join(' ', map { tables($second->{run})->{$_}{rows_here} } qw(shop.items shop.stock)), '12000 3000', 'each row was counted once');

my ($stopped) = audit_is([ '--run', @shop, 'max_time=0 s' ], 2, 'max_time: could not tell');
is(statuses($stopped), 'shop.items waiting, shop.stock waiting', 'no table is called equal');
audit_is([ '--resume', $stopped->{run}, '--jobs', 2 ], 0, 'which goes on');
audit_is([ '--resume', $stopped->{run} ], 0, 'and is finished');

$there->safe_psql('postgres', 'DELETE FROM shop.stock WHERE id = 7');
my ($differs) = audit_is([ '--run', @shop ], 1, 'one differs');
is(statuses($differs), 'shop.items equal, shop.stock differs', 'its tables');
audit_is([ '--resume', $first->{run} ], 0, 'what a run has compared, it does not compare again');
my ($status, $out) = program([ '--tsv', '--run', @shop ]);
is("$status " . join(' ', map { scalar(split /\t/, $_, -1) } split /\n/, $out), '1 ' . join(' ', (scalar(() = $here->safe_psql('postgres',
	"SELECT attname FROM pg_attribute WHERE attrelid = 'iblt_audit_table_stats'::regclass AND attnum > 0") =~ /^/mg)) x 3), 'TSV: a line a table, and a header');
$there->safe_psql('postgres', 'INSERT INTO shop.stock VALUES (7, 7); ALTER TABLE shop.stock ADD more int');
audit_is([ '--run', @shop ], 2, 'a column that one side lacks');
audit_is([ '--run', @shop, 'extra_columns=ignore' ], 0, 'unless it may');
$there->safe_psql('postgres', 'ALTER TABLE shop.stock DROP more');

# what is wrong
audit_is([ '--run' ], 2, 'no arguments', stderr => qr/usage/);
audit_is([ '--run', 'peer=node_b' ], 0, 'all tables of the database');
audit_is([ '--run', @shop, 'publication=shop' ], 2, 'two lists of tables', stderr => qr/at most one/);
audit_is([ '--resume', $_, '--jobs', 2 ], 2, "--resume $_: no such run", stderr => qr/there is no run/) foreach 987654321, 0;
audit_is([ '--resume', @$_ ], 2, "--resume @$_", stderr => qr/--resume needs the number of a run/) foreach [], ['x'], ['-1'], ['1;2'], [ '1' . '0' x 18 ];
audit_is([ '--run', '--jobs', @$_ ], 2, "--jobs @$_", stderr => qr/--jobs needs a number/) foreach [], ['0'], ['x'], ['100'];
audit_is([ '--jobs', 2, @shop ], 2, '--jobs without a run', stderr => qr/argument 1 is no option/);
audit_is([ '--run', '--resume', 1, @shop ], 2, 'a run and another one', stderr => qr/argument 1 is no option/);
audit_is([ '--resume', $first->{run}, $_ ], 2, "--resume with $_", stderr => qr/argument 1 has an unknown name/) foreach 'schema=shop', 'run=1', 'rows=true', 'max_tim=1 s';
audit_is([ '--run', $_, @shop ], 2, "--run with $_", stderr => qr/argument 1 has an unknown name/) foreach 'live=require', 'by_index=true';
audit_is([ @shop, 'max_time=1 s' ], 2, 'an argument of runs alone', stderr => qr/argument 3 has an unknown name/);
audit_is([ '--run', 'peer=host=x password=tops3cret', 'schema=shop' ], 2, 'a password', stderr => qr/a password on a command line/);
foreach my $name (split /\n/, $here->safe_psql('postgres', "SELECT DISTINCT p.proname || ':' || a FROM pg_proc p, unnest(p.proargnames[1:pronargs]) AS a
	WHERE p.proname IN ('iblt_audit_run', 'iblt_audit_resume') AND a <> 'run'"))
{
	my ($function, $argument) = split /:/, $name;
	my ($status, $out, $err) = program([ $function =~ /run/ ? '--run' : ('--resume', 0), "$argument=" ]);
	unlike($err, qr/unknown name/, "$name is known");
}

# again, until a run finds all equal
{
	my $runs = q{SELECT count(*) FROM iblt_audit_run_stats WHERE state = 'finished'};
	my $before = $here->safe_psql('postgres', $runs);
	$here->safe_psql('postgres', 'INSERT INTO shop.items VALUES (20000, 1)');
	my ($document) = audit_is([ '--watch', 1, '--run', @shop, 'max_load=0.9', 'progress=false' ], 0, '--watch with runs', stderr => qr/differs: 1 of 2 tables.*that was pass 1, which ended at/s, meanwhile => sub {
		wait_for($here, "SELECT ($runs) > $before");
		$here->safe_psql('postgres', 'DELETE FROM shop.items WHERE id = 20000');
	});
	is($document->{run}, $here->safe_psql('postgres', 'SELECT max(run) FROM iblt_audit_run_stats'), 'it answers with the last one');
}

# sessions that end
my $application = q{FROM pg_stat_activity WHERE application_name = 'iblt-audit' AND query LIKE 'CALL%resume%'};
my $two_of = sub { $here->poll_query_until('postgres', "SELECT count(*) = $_[0] $application") or die };
my @slowly = ('--run', '--jobs', 2, @shop, 'slice_ms=1', 'max_load=0.3', 'progress=false');
audit_is(\@slowly, 0, 'one of two sessions is terminated', meanwhile => sub { $two_of->(2); $here->safe_psql('postgres', "SELECT pg_terminate_backend(min(pid)) $application") });
my ($none) = audit_is(\@slowly, 2, 'both are', stderr => qr/no session has ended without an error; see --resume \d+/,
	meanwhile => sub { $two_of->(2); $here->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $application") });
($status, $out) = program(\@slowly, meanwhile => sub { $two_of->(2); $_[0]->signal('TERM') });
is("$status $out", '143 ', 'killed: no answer');
$two_of->(0);
pass('and no session goes on');
audit_is([ '--resume', $here->safe_psql('postgres', 'SELECT max(run) FROM iblt_audit_run_stats') ], 0, 'but the run does, if asked to');

done_testing();
