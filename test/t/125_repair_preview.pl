# What the preview of a repair says of triggers and of rows that would be lost, and what an
# error says of the way out.
use IbltRepair;

my ($here, $there) = repair_servers();
my $peer = conninfo($there);

# The messages of a call.
sub told
{
	my ($call) = @_;
	my ($rc, $out, $err) = $here->psql('postgres', "\\set SHOW_CONTEXT never\nSELECT count(*) FROM $call", extra_params => ['-q']);
	return ($rc == 0 ? '' : 'failed: ') . $err =~ s/^psql:[^ ]* //mgr;
}

both(q{CREATE SCHEMA s; CREATE TABLE s.item (id int PRIMARY KEY, v text, last_update timestamptz DEFAULT now()) PARTITION BY RANGE (id);
	CREATE TABLE s.low PARTITION OF s.item FOR VALUES FROM (0) TO (50); CREATE TABLE s.high PARTITION OF s.item FOR VALUES FROM (50) TO (1000);
	INSERT INTO s.item SELECT g, g, '2026-01-01 UTC' FROM generate_series(1, 100) g;
	CREATE FUNCTION s.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.last_update := clock_timestamp(); RETURN NEW; END';
	CREATE FUNCTION s.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN coalesce(NEW, OLD); END';
	CREATE TRIGGER "Last updated" BEFORE UPDATE ON s.item FOR EACH ROW EXECUTE FUNCTION s.touch();
	CREATE TRIGGER gone AFTER DELETE ON s.item FOR EACH ROW EXECUTE FUNCTION s.nothing();
	CREATE TRIGGER inserted AFTER INSERT ON s.low FOR EACH ROW EXECUTE FUNCTION s.nothing();
	CREATE TRIGGER always AFTER INSERT OR DELETE ON s.item FOR EACH STATEMENT EXECUTE FUNCTION s.nothing(); ALTER TABLE s.item ENABLE ALWAYS TRIGGER always;
	CREATE TRIGGER for_replicas AFTER DELETE ON s.item FOR EACH STATEMENT EXECUTE FUNCTION s.nothing(); ALTER TABLE s.item ENABLE REPLICA TRIGGER for_replicas;
	CREATE TRIGGER off AFTER DELETE ON s.item FOR EACH STATEMENT EXECUTE FUNCTION s.nothing(); ALTER TABLE s.item DISABLE TRIGGER off;
	CREATE TRIGGER emptied AFTER TRUNCATE ON s.item FOR EACH STATEMENT EXECUTE FUNCTION s.nothing()});
$there->safe_psql('postgres', q{SET session_replication_role = replica; UPDATE s.item SET v = 'x' WHERE id = 7});
my $hint = "HINT:  With as_replica => true, only triggers that are enabled ALWAYS or REPLICA fire.";
is(told(call('s.item', 'pull')), qq(NOTICE:  triggers of s.item will fire (here): "Last updated" (UPDATE)\n$hint), 'a preview names the triggers that will fire');
is(told(call('s.item', 'pull', 'as_replica => true')), '', 'none does as a replica');
is(told(call('s.item', 'pull', 'updates => false')), '', 'and none where nothing is updated');
like(told(call('s.item', 'pull', 'apply => true')), qr/^failed: ERROR:  after the repair, the rows of 1 keys are not as on the source\n.*HINT:  Look for a trigger, .*Triggers of the table: "Last updated" \(UPDATE\), always \(INSERT\), inserted \(INSERT\)\. Set as_replica => true to repair as replication does\.$/s,
	'the error for a row that a trigger changes names the trigger, and the way out');
$here->safe_psql('postgres', 'SET session_replication_role = replica; INSERT INTO s.item SELECT g FROM generate_series(101, 130) g; UPDATE s.item SET last_update = NULL WHERE id > 100; DELETE FROM s.item WHERE id = 1');
my $fire = q(NOTICE:  triggers of s.item will fire (%s): "Last updated" (UPDATE), always (%s), %s);
is(told(call('s.item', 'pull')), "NOTICE:  the repair will delete 30 of the 129 rows of s.item (here)\n" . sprintf($fire, 'here', 'INSERT, DELETE', 'gone (DELETE), inserted (INSERT)') . "\n$hint", 'a preview says how many rows of the target would be lost');
is(told(call('s.item', 'push')), "NOTICE:  the repair will delete 1 of the 100 rows of s.item (there)\n" . sprintf($fire, 'there', 'INSERT, DELETE', 'gone (DELETE), inserted (INSERT)') . "\n$hint", 'also on the peer');
is(told(call('s.item', 'pull', 'as_replica => true')), "NOTICE:  the repair will delete 30 of the 129 rows of s.item (here)\nNOTICE:  triggers of s.item will fire (here): always (INSERT, DELETE), for_replicas (DELETE)", 'as a replica, those that are enabled so');
my $run = $here->safe_psql('postgres', "CALL iblt_audit_run($peer, tables => '{s.item}', progress => false)");
is(told("iblt_repair(run => $run, peer => $peer, direction => 'pull', inserts => false)"), "NOTICE:  the repair will delete 30 of the 129 rows of s.item (here)\n" . sprintf($fire, 'here', 'DELETE', 'gone (DELETE)') . "\n$hint", 'and so does that of a run');
is(told(call('s.item', 'pull', 'deletes => false, updates => false, as_replica => true, apply => true')), '', 'what is applied says nothing');

# --- foreign keys ---------------------------------------------------------------------------------

both('CREATE TABLE s.parent (id int PRIMARY KEY); CREATE TABLE s.child (id int PRIMARY KEY, parent int REFERENCES s.parent); INSERT INTO s.parent VALUES (1), (2); INSERT INTO s.child VALUES (1, 1)');
$there->safe_psql('postgres', 'INSERT INTO s.parent VALUES (3); INSERT INTO s.child VALUES (3, 3)');
$here->safe_psql('postgres', 'INSERT INTO s.parent VALUES (4); INSERT INTO s.child VALUES (4, 4)');
my $together = qr/HINT:  Repair all tables that refer to each other in one transaction: CALL \S*iblt_audit_run\(\.\.\.\), and then iblt_repair\(run => \.\.\.\)/;
like(told(call('s.child', 'pull', 'apply => true')), qr/^failed: .*violates foreign key constraint.*$together/s, 'a row that refers to a missing row points to the repair of a run');
like(told(call('s.parent', 'pull', 'apply => true')), qr/^failed: .*violates foreign key constraint.*$together/s, 'and so does a row that others refer to');
$run = $here->safe_psql('postgres', "CALL iblt_audit_run($peer, tables => '{s.child,s.parent}', progress => false)");
is($here->safe_psql('postgres', "SELECT string_agg(concat_ws(' ', target, action, key ->> 'id', status), ', ' ORDER BY target, 2) FROM iblt_repair(run => $run, peer => $peer, direction => 'pull', apply => true)"),
	's.child delete 4 applied, s.child insert 3 applied, s.parent delete 4 applied, s.parent insert 3 applied', 'which repairs them, an extra parent with its extra child');

done_testing();
