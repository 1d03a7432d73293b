# Rows that are on their way to the other side although the link between the sides has passed: over a
# third server, or because the transaction that made them calls.
use IbltTest;

my ($publisher, $subscriber) = map { ready($_) } 'publisher', 'subscriber';
sides($publisher, $subscriber);
my ($to, $back) = map { conninfo($_) } $subscriber, $publisher;
my $between = literal($subscriber->connstr('between'));

# Inserts go directly, and updates over another database.
$subscriber->safe_psql('postgres', 'CREATE DATABASE between');
my $tables = 'CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE own (id int PRIMARY KEY, v int)';
both($tables);
$subscriber->safe_psql('between', $tables);
$publisher->safe_psql('postgres', "INSERT INTO t SELECT g, 0 FROM generate_series(1, 20) g; INSERT INTO own SELECT g, 0 FROM generate_series(1, 20) g;
	CREATE PUBLICATION inserts FOR TABLE t WITH (publish = 'insert'); CREATE PUBLICATION updates FOR TABLE t WITH (publish = 'update'); CREATE PUBLICATION own FOR TABLE own");
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION direct CONNECTION $back PUBLICATION inserts, own");
$subscriber->safe_psql('between', "CREATE PUBLICATION updates FOR TABLE t WITH (publish = 'update'); CREATE SUBSCRIPTION over CONNECTION $back PUBLICATION updates");
$subscriber->safe_psql('between', "SELECT pg_create_logical_replication_slot('last', 'pgoutput')");
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION last CONNECTION $between PUBLICATION updates WITH (copy_data = false, create_slot = false, slot_name = last)");
subscribed($subscriber, 2, 'direct');
subscribed($subscriber, 1, 'last');
$subscriber->poll_query_until('between', q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}) or die;
$subscriber->safe_psql('between', 'ALTER SUBSCRIPTION over DISABLE');
wait_for($publisher, q{SELECT NOT active FROM pg_replication_slots WHERE slot_name = 'over'});
$publisher->safe_psql('postgres', 'UPDATE t SET v = 1 WHERE id = 1');
foreach my $side ([ $publisher, $to ], [ $subscriber, $back ])
{
	my ($node, $peer) = @$side;
	my $name = $node->name;
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT key ->> 'id', confirmed FROM iblt_compare('t', $peer, timeout => '2 s')");
	is($out, '1|f', "$name: a row on its way over another server is not confirmed");
	like($err, qr/WARNING:  replication of this relation is not ready.*\nDETAIL:  .*servers that are not compared replicate to these/, 'a warning says why');
	is($node->safe_psql('postgres', "SELECT status, unconfirmed FROM iblt_audit($peer, tables => '{t}', recheck => 1, timeout => '2 s')"), 'not comparable|1', 'and an audit cannot tell');
}
is($publisher->safe_psql('postgres', "SELECT status FROM iblt_repair('t', $to, direction => 'push', apply => true, timeout => '2 s')"), 'skipped', 'nor is it repaired');
$subscriber->safe_psql('between', 'ALTER SUBSCRIPTION over ENABLE');
wait_for($subscriber, 'SELECT v = 1 FROM t WHERE id = 1');
is($publisher->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('t', $to)"), 0, 'it was on its way');

# What this transaction has changed
my $changes = 'BEGIN; INSERT INTO own VALUES (100, 0); UPDATE own SET v = 1 WHERE id = 2; DELETE FROM own WHERE id = 3;';
is($publisher->safe_psql('postgres', "$changes SELECT key ->> 'id', confirmed FROM $_ ORDER BY 1; ROLLBACK"), "100|f\n2|f\n3|f", "what the caller has changed is not confirmed: $_")
  foreach "iblt_compare('own', $to, timeout => '2 s')", "iblt_compare_nodes('public.own', ARRAY[NULL, $to], timeout => '2 s')";
is($publisher->safe_psql('postgres', "$changes SELECT status, unconfirmed FROM iblt_audit($to, tables => '{own}', recheck => 1, timeout => '2 s'); ROLLBACK"), 'not comparable|3', 'nor by an audit');
is($publisher->safe_psql('postgres', "$changes SELECT DISTINCT status FROM iblt_repair('own', $to, direction => 'pull', apply => true, timeout => '2 s'); SELECT count(*) FROM own; ROLLBACK"), "skipped\n20", 'nor does a repair take it back');
$subscriber->safe_psql('postgres', 'DELETE FROM own WHERE id = 5');
is($publisher->safe_psql('postgres', "SELECT key ->> 'id', confirmed FROM iblt_compare('own', $to)"), '5|t', 'what others have changed is');
is($subscriber->safe_psql('postgres', "BEGIN; UPDATE own SET v = 7 WHERE id = 7; SELECT key ->> 'id', confirmed FROM iblt_compare('own', $back) ORDER BY 1; ROLLBACK"), "5|t\n7|t", 'and what a follower changes');

# Two subscribers of one publisher, of which one is late
$subscriber->safe_psql('between', "CREATE SUBSCRIPTION other CONNECTION $back PUBLICATION own");
$subscriber->safe_psql('between', 'CREATE EXTENSION iblt');
$subscriber->poll_query_until('between', q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}) or die;
$subscriber->safe_psql('between', 'ALTER SUBSCRIPTION other DISABLE');
wait_for($publisher, q{SELECT NOT active FROM pg_replication_slots WHERE slot_name = 'other'});
$publisher->safe_psql('postgres', 'UPDATE own SET v = 9 WHERE id = 9');
wait_for($subscriber, 'SELECT v = 9 FROM own WHERE id = 9');
is($subscriber->safe_psql('postgres', "SELECT key ->> 'id', confirmed FROM iblt_compare('own', $between, recheck => $_->[0]) WHERE key ->> 'id' = '9'"), $_->[1], "between two subscribers, recheck => $_->[0]")
  foreach [ 'NULL', '9|' ], [ 2, '9|f' ];

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION last; DROP SUBSCRIPTION direct');
$subscriber->safe_psql('between', 'DROP SUBSCRIPTION over; DROP SUBSCRIPTION other');
done_testing();
