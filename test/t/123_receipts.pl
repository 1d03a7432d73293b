# Receipts of audits: --receipt, --since and --still.  A receipt says that nothing was committed on
# either server only if that is so, and has no values of rows.
use IbltAudit;
use IPC::Run;
use JSON::PP;

my ($here, $there) = two_servers('autovacuum = off', 'restart_after_crash = on');
foreign_server($here, 'node_b', $there);
my $dir = PostgreSQL::Test::Utils::tempdir();
my @shop = ('peer=node_b', 'schema=shop');
my $receipt = "$dir/a receipt.json";

both(q{CREATE SCHEMA shop; CREATE TABLE shop.items (id text PRIMARY KEY, v text); INSERT INTO shop.items SELECT 'key ' || g, 'value ' || g FROM generate_series(1, 50) g;
	CREATE TABLE shop.parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE shop.parts1 PARTITION OF shop.parts FOR VALUES FROM (0) TO (1000); INSERT INTO shop.parts SELECT g, g FROM generate_series(1, 500) g;
	CREATE TABLE other (v int)});

sub since_is
{
	my ($expected, $label, @arguments) = @_;
	my ($status, $out, $err) = program([ '--since', $receipt, @arguments ? @arguments : 'peer=node_b' ]);
	my ($wanted, $pattern) = @$expected;
	is($status, $wanted, "$label: the status of --since");
	like($wanted == 0 ? $out : $err, $pattern, "$label: what it says");
	is($wanted == 0 ? $err : $out, '', "$label: and nothing else");
	return;
}

sub receipt_is
{
	my ($expected, $label, @arguments) = @_;
	my ($status, $out, $err) = program([ '--receipt', $receipt, @arguments ]);
	is($status, $expected, "$label: the status") or note("$out$err");
	my @lines = split /\n/, slurp_file($receipt);
	return ((map { JSON::PP->new->utf8->decode($_) } @lines), $out, $err);
}

my $unchanged = [ 0, qr/\Aall was equal at \S+Z, at [0-9A-F\/]+ here and [0-9A-F\/]+ there, and no transaction has ended on either server since\n\z/ ];

# --- nothing was committed ---------------------------------------------------------------------

my @said = receipt_is(0, 'equal', @shop);
is(scalar(@said), 6, 'equal: a head, two tables and a seal');
my $head = $said[0]{receipt};
is(join(' ', $head->{verdict}, $head->{still} ? 'still' : 'not still', map { "$_->{relation}:$_->{status}:$_->{rows_here}:$_->{rows_there}" } @{ $head->{tables} }),
	'equal still shop.items:equal:50:50 shop.parts:equal:500:500', 'equal: what it says');
like($head->{after}{$_}{position}, qr/^[0-9A-F]+\/[0-9A-F]+$/, "equal: the position $_") foreach qw(here there);
is(join(' ', map { $_->{relation} . ':' . ($_->{hash} =~ /^[0-9a-f]{64}$/ ? 'hash' : '') . ':' . ($_->{sketch} // '') } @said[1, 2]), 'shop.items:hash: shop.parts:hash:', 'equal: hashes and no sketches');
unlike(slurp_file($receipt), qr/key \d|value \d/, 'equal: no values of rows');
since_is($unchanged, 'nothing happened');
$_->safe_psql('postgres', 'SELECT count(*) FROM shop.items; CHECKPOINT; BEGIN; SELECT 1; COMMIT') foreach $here, $there;
since_is($unchanged, 'no row was written');
my ($status, $out, $err) = program([ '--still', @shop ]);
is("$status $err", '0 ', '--still: nothing was committed');
like($out, qr/^no transaction ended on either server during the audit\n\z/m, '--still: as it says');

# the tables themselves
($status, $out) = program([ '--against', $receipt ]);
is($status, 0, '--against a receipt: equal');
$here->safe_psql('postgres', q{UPDATE shop.items SET v = 'other' WHERE id = 'key 7'});
($status, $out) = program([ '--json', '--against', $receipt ]);
is(join(' ', $status, map { "$_->{relation}:$_->{status}:" . ($_->{keys} // 'no keys') } sort { $a->{relation} cmp $b->{relation} } @{ JSON::PP->new->utf8->decode($out)->{tables} }),
	'1 shop.items:differs:no keys shop.parts:equal:no keys', '--against a receipt: one row changed');
since_is([ 1, qr/transactions have ended on this side since the audit$/ ], 'a row changed here');
@said = receipt_is(1, 'differs', @shop);
since_is([ 1, qr/the audit of this receipt did not find everything equal$/ ], 'an audit that finds a difference');
$here->safe_psql('postgres', q{UPDATE shop.items SET v = 'value 7' WHERE id = 'key 7'});

# --- something was -----------------------------------------------------------------------------

foreach my $case ([ $there, 'the peer', 'INSERT INTO other VALUES (1)' ], [ $there, 'the peer', 'CREATE TABLE more (v int)' ], [ $here, 'this side', 'INSERT INTO other VALUES (1)' ])
{
	my ($node, $name, $sql) = @$case;
	receipt_is(0, "before $sql", @shop);
	$node->safe_psql('postgres', $sql);
	since_is([ 1, qr/transactions have ended on \Q$name\E since the audit$/ ], "$sql on $name");
}
# one that began before the audit, and took its xid then
my $late = holding($there, 'BEGIN; INSERT INTO other VALUES (2); SELECT 1');
receipt_is(0, 'a transaction that is open', @shop);
since_is($unchanged, 'it is still open');
$late->run('COMMIT');
since_is([ 1, qr/transactions have ended on the peer since/ ], 'it was committed');

# during the audit, which waits for a lock meanwhile
foreach my $side ($here, $there)
{
	my $writer = holding($side, 'BEGIN; LOCK TABLE shop.items; INSERT INTO other VALUES (3); SELECT 1');
	($status, $out, $err) = program([ '--still', '--receipt', $receipt, @shop ], meanwhile => sub {
		wait_for($side, q{SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)});
		$writer->run('COMMIT');
	});
	is($status, 2, 'a commit during the audit: could not tell');
	like($err, qr/^could not tell: 2 tables equal, schema=shop\n/m, 'a commit during the audit: all tables are equal');
	like($err, qr/^transactions ended during the audit$/m, 'a commit during the audit: as it says');
	since_is([ 1, qr/the audit of this receipt did not find everything equal$/ ], 'a commit during the audit');
}
# without --still the tables alone decide, and the receipt says so
{
	my $writer = holding($there, 'BEGIN; LOCK TABLE shop.items; INSERT INTO other VALUES (3); SELECT 1');
	($status) = program([ '--receipt', $receipt, @shop ], meanwhile => sub {
		wait_for($there, q{SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)});
		$writer->run('COMMIT');
	});
	is($status, 0, 'without --still: equal');
	since_is([ 1, qr/transactions ended during the audit of this receipt$/ ], 'without --still');
	is((program([ '--against', $receipt ]))[0], 2, 'without --still: hashes of what was audited are not known');
}
# forms
{
	my $writer = holding($there, 'BEGIN; LOCK TABLE shop.items; INSERT INTO other VALUES (3); SELECT 1');
	($status, $out) = program([ '--nagios', '--still', @shop ], meanwhile => sub {
		wait_for($there, q{SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)});
		$writer->run('COMMIT');
	});
	like("$status $out", qr/^3 IBLT UNKNOWN - could not tell: 2 tables equal, schema=shop; transactions ended during the audit \|/, 'Nagios: why');
	($status, $out) = program([ '--json', '--still', @shop ]);
	ok(JSON::PP->new->utf8->decode($out)->{still}, 'JSON: still');
	# reading all sequences locks them
	($status, $out) = program([ '--json', @shop ]);
	unlike($out, qr/"state"|"still"/, 'without --still, sequences are not read');
}

# --- what is seen, although a snapshot does not show it, or shows much -------------------------------

# the state has all transactions in progress
{
	my @open = map { my $session = IbltTest::Session->new($there); $session->run("BEGIN; INSERT INTO other VALUES ($_); SELECT 1"); $session } 1 .. 20;
	$there->safe_psql('postgres', 'INSERT INTO other VALUES (0)');
	cmp_ok(length($there->safe_psql('postgres', 'SELECT pg_current_snapshot()')), '>', 60, 'many transactions in progress: a long snapshot');
	receipt_is(0, 'many transactions in progress', @shop);
	$open[19]->run('COMMIT');
	since_is([ 1, qr/transactions have ended on the peer since/ ], 'the last one of many was committed');
	$_->quit foreach @open;
}
# numbers of sequences are given without a transaction, and taken back by none
both('CREATE SEQUENCE shop.numbers; SELECT nextval($$shop.numbers$$) \\g /dev/null');
receipt_is(0, 'a sequence', @shop);
$there->safe_psql('postgres', 'SELECT nextval($$shop.numbers$$) \g /dev/null');
since_is([ 1, qr/transactions have ended on the peer since/ ], 'a number of a sequence');
both('DROP SEQUENCE shop.numbers');
if (major_version() >= 15)
{
	$there->safe_psql('postgres', 'CREATE UNLOGGED SEQUENCE shop.free');
	receipt_is(0, 'a sequence that is not logged', @shop);
	$there->safe_psql('postgres', 'SELECT setval($$shop.free$$, 1000, false) \g /dev/null');
	since_is([ 1, qr/transactions have ended on the peer since/ ], 'which was set');
	$there->safe_psql('postgres', 'DROP SEQUENCE shop.free');
}
# what was accepted is not equal
$here->safe_psql('postgres', q{UPDATE shop.items SET v = 'other' WHERE id = 'key 7'});
append_to_file("$dir/accepted", "rows | shop.items | differs | | tolerated\n");
receipt_is(0, 'an accepted difference', '--accept', "$dir/accepted", @shop);
since_is([ 0, qr/\Aall was equal but for accepted differences \(1\) at / ], 'an accepted difference');
$here->safe_psql('postgres', 'DELETE FROM shop.items WHERE id = $$key 8$$');
($status, $out) = program([ '--json', '--against', $receipt ]);
is(join(' ', $status, map { "$_->{relation}:$_->{status}" } @{ JSON::PP->new->utf8->decode($out)->{tables} }), '2 shop.parts:equal shop.items:not comparable', 'and its table has no hash');
$here->safe_psql('postgres', q{UPDATE shop.items SET v = 'value 7' WHERE id = 'key 7'; INSERT INTO shop.items SELECT * FROM dblink('node_b', 'SELECT * FROM shop.items WHERE id = $$key 8$$') AS t(id text, v text)});
# a transaction with one snapshot sees nothing that happens meanwhile
receipt_is(0, 'one snapshot', @shop);
{
	my $session = IbltTest::Session->new($here);
	my $asked = "SELECT coalesce(unchanged::text, 'unknown') FROM iblt_audit_since(" . literal(slurp_file($receipt)) . ", 'node_b')";
	is($session->run($asked), 'true', 'in SQL');
	is($session->run("BEGIN ISOLATION LEVEL REPEATABLE READ; $asked"), 'unknown', 'in SQL, with one snapshot');
	$session->run('ROLLBACK');
	$session->quit;
}
# a standby shows commits before it has replayed them
{
	my $standby = standby($there, 'standby');
	receipt_is(2, 'a standby', '--still', 'peer=' . $standby->connstr('postgres'), 'schema=shop');
	$standby->stop;
}
# a crash may lose commits, and gives their numbers again
receipt_is(0, 'before a crash', @shop);
{
	my $victim = $there->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity WHERE backend_type = $$background writer$$');
	my $started = $there->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
	IbltTest::share_sessions(0);	# those of before would tell of the crash
	kill 'KILL', $victim;
	# it refuses connections meanwhile
	foreach (1 .. 1200)
	{
		my ($rc, $out) = $there->psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'background writer' AND pid <> $victim");
		last if $rc == 0 && $out eq '1';
		select undef, undef, undef, 0.1;
	}
	is($there->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $started, 'a crash: the server is the same');
}
since_is([ 2, qr/the peer is another database than that of the receipt, or its server was restarted$/ ], 'a crash');
# definitions may hold values and passwords
$here->safe_psql('postgres', q{CREATE VIEW shop.far AS SELECT 'password=s3cret' AS how});
receipt_is(1, 'definitions', '--all', @shop);
unlike(slurp_file($receipt), qr/s3cret/, 'definitions are not in a receipt');
like(slurp_file($receipt), qr/shop\.far/, 'but what differs');
$here->safe_psql('postgres', 'DROP VIEW shop.far');
# --watch keeps the receipt of the last pass alone
{
	unlink $receipt;
	$here->safe_psql('postgres', q{INSERT INTO shop.parts VALUES (900, 1)});
	my $seen;
	($status, $out, $err) = program([ '--watch', '1', '--receipt', $receipt, @shop ], meanwhile => sub {
		my ($run) = @_;
		while ($run->pumpable && ++$seen <= 30) { $run->pump_nb; select undef, undef, undef, 0.1 }
		$seen = -e $receipt;
		$here->safe_psql('postgres', 'DELETE FROM shop.parts WHERE id = 900');
	});
	is("$status " . ($seen ? 'receipt' : 'none'), '0 none', '--watch: no receipt before all is equal');
	is(JSON::PP->new->utf8->decode((split /\n/, slurp_file($receipt))[0])->{receipt}{verdict}, 'equal', '--watch: the receipt');
}

# --- from elsewhere ----------------------------------------------------------------------------

my @ends = map { "$_->[0]=host=${\ $_->[1]->host} port=${\ $_->[1]->port} dbname=postgres user=${\ $_->[1]->safe_psql('postgres', 'SELECT current_user')}" } [ 'from', $there ], [ 'to', $here ];
my @via = ('via=' . $here->connstr('postgres'));
@said = receipt_is(0, 'from elsewhere', @ends, @via, 'schema=shop');
is(scalar(@said), 4, 'from elsewhere: no hashes');
since_is($unchanged, 'from elsewhere', @ends, @via);
($status, $out) = program([ '--json', '--against', $receipt ]);
is(join(' ', $status, map { "$_->{relation}:$_->{status}" } @{ JSON::PP->new->utf8->decode($out)->{tables} }), '2 shop.items:not comparable shop.parts:not comparable', 'from elsewhere: --against');
since_is([ 2, qr/this side is another database than that of the receipt, or its server was restarted$/ ], 'sides changed over', 'from=' . $ends[1] =~ s/^to=//r, 'to=' . $ends[0] =~ s/^from=//r, @via);
since_is([ 2, qr/no answer from the peer$/ ], 'no peer', 'peer=host=/nonexistent dbname=postgres');

# --- what is no receipt --------------------------------------------------------------------------

receipt_is(0, 'a receipt', @shop);
my $text = slurp_file($receipt);
foreach my $case ([ $text =~ s/"rows_here":50/"rows_here":51/r, qr/the baseline is damaged/ ], [ $text =~ s/equal/equaL/r, qr/the baseline is damaged/ ], [ $text =~ s/\n.*\n\z/\n/r, qr/the baseline is damaged/ ], [ '', qr/the baseline is damaged/ ])
{
	isnt($case->[0], $text, 'it was altered');
	unlink $receipt;
	append_to_file($receipt, $case->[0]);
	since_is([ 2, $case->[1] ], 'a damaged receipt');
}
is((program([ '--save', $receipt, 'schema=shop' ]))[0], 0, 'a baseline');
since_is([ 2, qr/this is a baseline, and no receipt of an audit/ ], 'a baseline');
foreach my $case ([ [ '--since', "$dir/none", 'peer=node_b' ], qr/--since: there is no such file/ ], [ [ '--json', '--since', $receipt, 'peer=node_b' ], qr/--since makes no report/ ],
	[ [ '--since', $receipt, 'schema=shop' ], qr/unknown name/ ], [ [ '--still', '--against', $receipt ], qr/--still and --receipt go with an audit of now/ ], [ [ '--receipt', $receipt, '--run', @shop ], qr/--still and --receipt go with an audit of now/ ],
	[ [ '--receipt', "$dir/none/x", @shop ], qr/--receipt: no file can be written there/ ])
{
	my ($rc, $none, $why) = program($case->[0]);
	is("$rc|$none", $case->[0][0] eq '--json' ? "2|{\"verdict\": \"unknown\", \"tables\": []}\n" : '2|', "@{ $case->[0] }: the status");
	like($why, $case->[1], 'and why');
}

# a server that was restarted may have lost what it had
receipt_is(0, 'before a restart', @shop);
$there->restart;
since_is([ 2, qr/the peer is another database than that of the receipt, or its server was restarted$/ ], 'a restart');

done_testing();
