# Triggers during a repair: under which search_path they run, and which ones run when
# it applies as replication does.  What a preview says of them and of rows that would be lost, and what an
# error says of the way out.
use IbltRepair;

my ($here, $there) = repair_servers();
sub node { return $_[0] eq 'pull' ? $here : $there }
sub prefix { return $_[0] eq 'pull' ? '' : 'on the peer: ' }
sub all { return 'SELECT * FROM ' . call(@_) }

# Row 2 is another one on the target, 3 is missing, and it alone has 9.
sub drift
{
	my ($direction, $table) = @_;
	$_->safe_psql('postgres', "SET search_path = \"the App\", public; SET session_replication_role = replica; DELETE FROM $table; INSERT INTO $table SELECT g, g FROM generate_series(1, 5) g") foreach ($here, $there);
	node($direction)->safe_psql('postgres', "SET search_path = \"the App\", public; SET session_replication_role = replica; UPDATE $table SET v = 'drift' WHERE id = 2; DELETE FROM $table WHERE id = 3; INSERT INTO $table VALUES (9, 'extra')");
	return;
}

# --- search_path ---------------------------------------------------------------------------

# The trigger, a default, a check, and a trigger at the end name what they use without a schema.
both(q{CREATE SCHEMA "the App"; SET search_path = "the App", public;
	CREATE TABLE journal (what text, path text);
	CREATE FUNCTION note(text) RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO journal VALUES ($1, current_setting(''search_path'')); END';
	CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM note(TG_NAME); RETURN coalesce(NEW, OLD); END';
	CREATE FUNCTION standard() RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM note(''default''); RETURN 1; END';
	CREATE FUNCTION valid(int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM note(''check''); RETURN true; END';
	CREATE TABLE items (id int PRIMARY KEY, v text, extra int DEFAULT standard(), CHECK (valid(id)));
	CREATE TRIGGER before_row BEFORE INSERT OR UPDATE OR DELETE ON items FOR EACH ROW EXECUTE FUNCTION noted();
	CREATE CONSTRAINT TRIGGER at_end AFTER INSERT ON items DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION noted();
	CREATE SCHEMA evil; CREATE FUNCTION evil.bad(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	CREATE OPERATOR evil.<> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.bad); CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.bad);
	CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS 'SELECT ''evil''::text'});
# what the session has when rows are looked up, told by a condition that says that it is immutable
$_->safe_psql('postgres', q{CREATE TABLE seen (path text, role text); CREATE FUNCTION see() RETURNS void LANGUAGE plpgsql AS
	'BEGIN IF current_setting(''transaction_read_only'') = ''off'' THEN INSERT INTO public.seen VALUES (current_setting(''search_path''), current_setting(''session_replication_role'')); END IF; END';
	CREATE FUNCTION seen(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM public.see(); RETURN true; END'})
  foreach ($here, $there);
my $seen = "condition => 'public.seen(id)', exclude => '{extra}'";
my $table = '"the App".items';
foreach my $direction ('pull', 'push')
{
	my $node = node($direction);
	drift($direction, $table);
	$node->safe_psql('postgres', 'TRUNCATE "the App".journal, seen');
	my $before = contents($node, $table);
	like(failure(all($table, $direction, "apply => true, $seen")),
		qr/42883: ${\ prefix($direction)}function note\(name\) does not exist.*Context: PL\/pgSQL function "the App"\.noted\(\) line 1 at PERFORM.*HINT:  .*Set apply_search_path if a trigger/s,
		"$direction: a trigger that names things without a schema: an error, and a hint at the option");
	like(failure(all($table, $direction, "apply => true, apply_search_path => 'public', $seen")), qr/42883: (?!.*apply_search_path)/s, 'without one if it was used');
	like(failure(all($table, $direction, "apply => true, apply_search_path => '\"the App', $seen")), qr/22023: ${\ prefix($direction)}invalid value for parameter "search_path"/, 'a malformed path is an error, in a preview, too');
	is(contents($node, $table), $before, 'and nothing was changed');
	is($node->safe_psql('postgres', 'SELECT * FROM "the App".journal'), '', 'by a trigger neither');

	# PostgreSQL's own functions are not first in this one
	my $path = 'evil, "the App", pg_catalog';
	my $session = holding($here, "SET search_path = public, evil; BEGIN");
	is($session->run('SELECT count(*) FROM ' . call($table, $direction, "apply => true, apply_search_path => '$path', $seen")), '3', "$direction: with the option it is repaired");
	is($session->run('SHOW search_path; COMMIT; SHOW search_path'), "public, evil\npublic, evil", 'this session has its own search_path again');
	$session->quit;
	same($table, $direction);
	# (evil.current_setting, which is in the path)
	is($node->safe_psql('postgres', 'SELECT what, path, count(*) FROM "the App".journal GROUP BY 1, 2 ORDER BY 1'),
		"at_end|evil|1\nbefore_row|evil|3\ncheck|evil|2\ndefault|evil|1", 'triggers, defaults and checks ran under that path');
	is($node->safe_psql('postgres', 'SELECT DISTINCT path, role FROM seen'), 'iblt_internal, pg_catalog, pg_temp|origin', 'and nothing else of the repair');
}
is($here->safe_psql('postgres', 'SELECT count(*) FROM ' . call($table, 'pull', "apply_search_path => ''")), '0', 'an empty path is one, too');

# the order of statements is found under the path as well
both('SET search_path = "the App"; CREATE TABLE tree (id int PRIMARY KEY, v text, up int REFERENCES tree);
	CREATE TRIGGER before_row BEFORE INSERT OR UPDATE OR DELETE ON tree FOR EACH ROW EXECUTE FUNCTION noted()');
$there->safe_psql('postgres', 'SET search_path = "the App"; INSERT INTO tree VALUES (5, 5, NULL), (3, 3, 5), (1, 1, 3)');
repair('"the App".tree', 'pull', q{apply => true, apply_search_path => '"the App"'});
same('"the App".tree', 'rows that refer to each other');

# --- as replication does --------------------------------------------------------------------

both(q{CREATE TABLE fired (name text, role text); CREATE TABLE rep (id int PRIMARY KEY, v text);
	CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.fired VALUES (TG_NAME, current_setting(''session_replication_role'')); RETURN coalesce(NEW, OLD); END';
	CREATE TRIGGER ordinary BEFORE INSERT OR UPDATE OR DELETE ON rep FOR EACH ROW EXECUTE FUNCTION fire();
	CREATE TRIGGER always BEFORE INSERT OR UPDATE OR DELETE ON rep FOR EACH ROW EXECUTE FUNCTION fire(); ALTER TABLE rep ENABLE ALWAYS TRIGGER always;
	CREATE TRIGGER replica BEFORE INSERT OR UPDATE OR DELETE ON rep FOR EACH ROW EXECUTE FUNCTION fire(); ALTER TABLE rep ENABLE REPLICA TRIGGER replica;
	CREATE CONSTRAINT TRIGGER replica_at_end AFTER UPDATE ON rep DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fire(); ALTER TABLE rep ENABLE REPLICA TRIGGER replica_at_end;
	CREATE TRIGGER disabled BEFORE INSERT OR UPDATE OR DELETE ON rep FOR EACH ROW EXECUTE FUNCTION fire(); ALTER TABLE rep DISABLE TRIGGER disabled;
	CREATE ROLE fixer LOGIN PASSWORD 'right'; GRANT SELECT, INSERT, UPDATE, DELETE ON rep TO fixer; GRANT INSERT ON fired, seen TO fixer});
foreign_server($here, 'node b', $there, 'fixer', 'right');
$here->safe_psql('postgres', 'GRANT USAGE ON SCHEMA "db ""link", public TO fixer');
$there->safe_psql('postgres', 'GRANT USAGE ON SCHEMA "Their Iblt" TO fixer');
my $fired = "SELECT name || ' ' || role || ' ' || count(*) FROM fired GROUP BY name, role ORDER BY name";
foreach my $direction ('pull', 'push')
{
	my $node = node($direction);
	drift($direction, 'rep');
	$node->safe_psql('postgres', 'TRUNCATE fired, seen');
	my $session = holding($here, 'SET session_replication_role = local; BEGIN');
	is($session->run('SELECT status, count(*) FROM ' . call('rep', $direction, "apply => true, as_replica => true, condition => 'public.seen(id)'") . ' GROUP BY 1'), 'applied|3', "$direction, as_replica: it is repaired");
	is($session->run('SHOW session_replication_role; COMMIT; SHOW session_replication_role'), "local\nlocal", 'this session has its own role again');
	$session->quit;
	same('rep', "$direction, as_replica");
	is($node->safe_psql('postgres', $fired), "always replica 3\nreplica replica 3\nreplica_at_end replica 1", 'triggers for replicas have fired, no others');
	is($node->safe_psql('postgres', 'SELECT DISTINCT role FROM seen'), $direction eq 'pull' ? 'local' : 'origin', 'nothing else of the repair ran so');

	drift($direction, 'rep');
	$node->safe_psql('postgres', 'TRUNCATE fired');
	repair('rep', $direction, 'apply => true');
	is($node->safe_psql('postgres', $fired), "always origin 3\nordinary origin 3", 'without the option, others');
	like(failure(all('rep', $direction, 'apply => true, as_replica => NULL')), qr/22023: .*as_replica must not be null/, 'NULL is an error');

	# who may not
	drift($direction, 'rep');
	my $before = contents($node, 'rep');
	like(failure(all('rep', $direction, 'apply => true, as_replica => true', "'node b'"), user => 'fixer'),
		qr/42501: ${\ prefix($direction)}permission denied to set parameter "session_replication_role"/, "$direction: who may not set the role: an error");
	is(contents($node, 'rep'), $before, 'and nothing was changed');
	is(failure(all('rep', $direction, 'as_replica => true', "'node b'"), user => 'fixer'), '', 'a preview takes no such right');
	if (major_version() >= 15)
	{
		$node->safe_psql('postgres', 'GRANT SET ON PARAMETER session_replication_role TO fixer');
		is(repair('rep', $direction, 'apply => true, as_replica => true', user => 'fixer', peer => "'node b'"),
			"delete {\"id\": 9} applied\ninsert {\"id\": 3} applied\nupdate {\"id\": 2} applied", 'with the right to, it is repaired');
	}
}

both('CREATE TABLE referred (id int PRIMARY KEY, v text); CREATE TABLE def (id int PRIMARY KEY, v text UNIQUE DEFERRABLE)');
drift('pull', 'def');
like(failure('SET session_replication_role = replica; ' . all('def', 'pull', 'apply => true')), qr/0A000: public\.def cannot/, 'deferrable unique constraints are refused also if the session has that role already');

# what the caller has deferred before is checked as it was meant
both('CREATE TABLE late (id int PRIMARY KEY, v int REFERENCES referred DEFERRABLE INITIALLY DEFERRED)');
drift('pull', 'rep');
like(failure('BEGIN; INSERT INTO late VALUES (1, 12345); ' . all('rep', 'pull', 'apply => true, as_replica => true')), qr/23503: .*"late_v_fkey"/, 'a violation that the caller deferred is not lost');
$here->safe_psql('postgres', 'BEGIN; INSERT INTO rep VALUES (50, 50); SELECT * FROM ' . call('rep', 'pull', 'apply => true, as_replica => true') . '; COMMIT');
same('rep', 'after statements of the caller');

# --- what a preview says -------------------------------------------------------------------------

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

both('CREATE TABLE s.parent (id int PRIMARY KEY); CREATE TABLE s.child (id int PRIMARY KEY, parent int REFERENCES s.parent); INSERT INTO s.parent VALUES (1), (2); INSERT INTO s.child VALUES (1, 1)');
$there->safe_psql('postgres', 'INSERT INTO s.parent VALUES (3); INSERT INTO s.child VALUES (3, 3)');
$here->safe_psql('postgres', 'INSERT INTO s.parent VALUES (4); INSERT INTO s.child VALUES (4, 4)');
my $together = qr/HINT:  Repair all tables that refer to each other in one transaction: CALL \S*iblt_audit_run\(\.\.\.\), and then iblt_repair\(run => \.\.\.\)/;
like(told(call('s.child', 'pull', 'apply => true')), qr/^failed: .*violates foreign key constraint.*$together/s, 'a row that refers to a missing row points to the repair of a run');
like(told(call('s.parent', 'pull', 'apply => true')), qr/^failed: .*violates foreign key constraint.*$together/s, 'and so does a row that others refer to');
$run = $here->safe_psql('postgres', "CALL iblt_audit_run($peer, tables => '{s.child,s.parent}', progress => false)");
is($here->safe_psql('postgres', "SELECT string_agg(concat_ws(' ', target, action, key ->> 'id', status), ', ' ORDER BY target, 2) FROM iblt_repair(run => $run, peer => $peer, direction => 'pull', apply => true)"),
	's.child delete 4 applied, s.child insert 3 applied, s.parent delete 4 applied, s.parent insert 3 applied', 'which repairs them, an extra parent with its extra child');

# --- defaults that write -----------------------------------------------------------------------------

# A statement has seen the row that it updated.  The default of a later one changes the row.
both(q{CREATE FUNCTION s.meddle() RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE s.sly SET v = ''meddled'' WHERE id = 1; RETURN 0; END';
	CREATE TABLE s.sly (id int PRIMARY KEY, v text, extra int DEFAULT s.meddle()); INSERT INTO s.sly VALUES (1, 'a', 0), (2, 'b', 0)});
foreach my $direction ('pull', 'push')
{
	my $node = node($direction);
	$node->safe_psql('postgres', q{UPDATE s.sly SET v = 'drift' WHERE id = 1; DELETE FROM s.sly WHERE id = 2});
	like(failure(all('s.sly', $direction, "exclude => '{extra}', apply => true")), qr/27000: after the repair, the rows of 1 keys are not as on the source\nDETAIL:  One key is \{"id": 1\}/, "$direction: a default that changes a row behind its statement");
	is($node->safe_psql('postgres', 'SELECT v FROM s.sly'), 'drift', 'nothing was changed');
	$node->safe_psql('postgres', 'ALTER TABLE s.sly ALTER extra DROP DEFAULT');
	is(repair('s.sly', $direction, "exclude => '{extra}', apply => true"), qq(insert {"id": 2} applied\nupdate {"id": 1} applied), 'without it they are repaired');
}

# Where nobody counts changes, and rows have statements of their own, the rows are read all the same.
$here->safe_psql('postgres', q{CREATE FUNCTION s.spoil() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := ''spoilt''; RETURN NEW; END';
	CREATE TRIGGER spoil BEFORE UPDATE ON s.sly FOR EACH ROW EXECUTE FUNCTION s.spoil(); ALTER TABLE s.sly DISABLE TRIGGER spoil; UPDATE s.sly SET v = 'drift' WHERE id = 1; ALTER TABLE s.sly ENABLE TRIGGER spoil});
like(failure('SET track_counts = off; ' . all('s.sly', 'pull', "exclude => '{extra}', apply => true")), qr/27000: after the repair, the rows of 1 keys/, 'a trigger that changes a row where nobody counts');
$here->safe_psql('postgres', 'DROP TRIGGER spoil ON s.sly');

# --- whose triggers --------------------------------------------------------------------------------

# The caller of a function with SECURITY DEFINER has deferred a trigger of his.  SET CONSTRAINTS would run it as that role.
both('CREATE TABLE s.wrapped (id int PRIMARY KEY)');
$there->safe_psql('postgres', 'INSERT INTO s.wrapped VALUES (1)');
$here->safe_psql('postgres', 'CREATE ROLE mallory LOGIN; CREATE SCHEMA own AUTHORIZATION mallory; CREATE TABLE own.ran (who name); GRANT INSERT ON own.ran TO PUBLIC;
	CREATE FUNCTION public.fix() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS ' . literal('SELECT count(*) FROM ' . call('s.wrapped', 'pull', 'apply => true')) . ';
	SET ROLE mallory; CREATE TABLE own.t (id int); CREATE FUNCTION own.evil() RETURNS trigger LANGUAGE plpgsql AS \'BEGIN INSERT INTO own.ran VALUES (current_user); RETURN NULL; END\';
	CREATE CONSTRAINT TRIGGER evil AFTER INSERT ON own.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION own.evil()');
my @mallory = (extra_params => [ '-U', 'mallory' ]);
my (undef, undef, $said) = $here->psql('postgres', 'BEGIN; INSERT INTO own.t VALUES (1); SELECT public.fix(); COMMIT', @mallory);
like($said, qr/ERROR:  cannot run triggers that role "mallory" may have deferred as role "\w+"/, 'triggers that the caller has deferred are not run as another role');
is($here->safe_psql('postgres', 'SELECT count(*) FROM own.ran'), '0', 'none has run');
is($here->safe_psql('postgres', 'BEGIN; SET LOCAL ROLE mallory; SELECT public.fix(); COMMIT'), '1', 'a caller who has not written repairs');
is($here->safe_psql('postgres', 'BEGIN; INSERT INTO own.t VALUES (2); DELETE FROM s.wrapped; SELECT public.fix(); COMMIT; SELECT count(*) FROM own.ran'), "1\n1", 'and so does one of that role');

nothing_open('at the end');

done_testing();
