# IbltRepairs.pm
#	The table of repairs.  Each scenario is written once, and runs in every placement: with this side or the other one as the
#	target, both elsewhere, without iblt, nodes, and what a run found.
#
#	repairs()    runs the table: tests for each cell.  A cell that a placement cannot have is skipped, and says why.
#
#	A scenario has some of these.  In SQL, %s is the relation.
#
#	name
#	table, fill    the columns of its table, and the SELECT of the rows that both sides have
#	target, source SQL that changes that side
#	around         SQL on the target before the repair, such as a trigger, and undone with the table
#	options        of the repair
#	held, then     what another session does on the target in a transaction when the repair begins, and before its COMMIT, which
#	               comes when the repair waits for it
#	meanwhile      what the source does while it waits
#	aside          what a third session does on the target while it waits.  An exchange of schemas, here or on the source, is
#	               undone, and the other table must have no row
#	back           the name is given back while the next statement waits in the other table
#	steps          the rows of the repair: "action id", if they are applied, or "action id status detail"
#	of             steps that a form tells instead
#	left           says that the target is not like the source then
#	error          a pattern.  Nothing has changed
#	previewed      a preview shows the same steps, and changes nothing
#	besides        a query that must give true on the target afterwards
#	only           a pattern of the placements in which it is worth its time
#	not            placements, or their forms, that cannot have it: name => why
package IbltRepairs;

use IbltPlacements;

our @ISA = qw(IbltTest);
our @EXPORT = (@IbltPlacements::EXPORT, qw(repairs));

# sides: as iblt_repair names them; of nodes, the first one is where the call is made.  from: that database.
my @placements = (
	{ name => 'pull', sides => [qw(here there)], target => 'here', from => 'here', form => 'two' },
	{ name => 'push', sides => [qw(here there)], target => 'there', from => 'here', form => 'two' },
	{ name => 'pull elsewhere', sides => [qw(here there)], target => 'here', from => 'desk', form => 'two' },
	{ name => 'push elsewhere', sides => [qw(here there)], target => 'there', from => 'desk', form => 'two' },
	{ name => 'push without iblt', sides => [qw(near far)], target => 'far', from => 'near', form => 'two', method => 'plain' },
	{ name => 'pull elsewhere, without iblt', sides => [qw(far near)], target => 'far', from => 'desk', form => 'two', method => 'plain' },
	{ name => 'a node there', sides => [qw(here there)], target => 'there', from => 'here', form => 'nodes' },
	{ name => 'a node here', sides => [qw(here there)], target => 'here', from => 'here', form => 'nodes' },
	{ name => 'a node without iblt', sides => [qw(near far)], target => 'far', from => 'near', form => 'nodes', method => 'plain' },
	{ name => 'a run that pulls', sides => [qw(here there)], target => 'here', from => 'here', form => 'run' },
	{ name => 'a run that pushes', sides => [qw(here there)], target => 'there', from => 'here', form => 'run' });

my $no_option = { run => 'a repair of a run has no such option' };
my $three = "DELETE FROM %s WHERE id = 3; UPDATE %1\$s SET v = 'drift' WHERE id = 5; INSERT INTO %1\$s VALUES (300, 'more')";
my @three = ('insert 3', 'update 5', 'delete 300');
my $trigger = "CREATE FUNCTION %%s_does() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.id = 3 THEN %s END IF; RETURN NEW; END'; CREATE TRIGGER does BEFORE INSERT ON %%1\$s FOR EACH ROW EXECUTE FUNCTION %%1\$s_does()";
# A trigger that puts another one off until the commit, which does this
my $at_commit = "CREATE TABLE %%s_late (id int); INSERT INTO %%1\$s_late VALUES (1); CREATE FUNCTION %%1\$s_off() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN SET CONSTRAINTS ALL DEFERRED; UPDATE %%1\$s_late SET id = id; RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER put_off AFTER UPDATE ON %%1\$s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %%1\$s_off();
	CREATE FUNCTION %%1\$s_last() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN %s; RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER last AFTER UPDATE ON %%1\$s_late DEFERRABLE FOR EACH ROW EXECUTE FUNCTION %%1\$s_last()";
my %here = map { ($_ => 'the commit is that of the caller') } 'pull', 'a node here', 'a run that pulls';

# A list in which each row refers to the one before it, and whose ids are in no order
my $chain = 'INSERT INTO %s SELECT (g * 617) %% 1009, g, CASE WHEN g > 1 THEN ((g - 1) * 617) %% 1009 END FROM generate_series(1, 400) AS g';
sub of_chain { my ($action, @n) = @_; return map { "$action " . $_ * 617 % 1009 } @n }
my $missing = "CREATE TABLE %s_p (v text PRIMARY KEY); INSERT INTO %1\$s_p SELECT DISTINCT v FROM %1\$s; DELETE FROM %1\$s_p WHERE v = 'row 3'; ALTER TABLE %1\$s ADD FOREIGN KEY (v) REFERENCES %1\$s_p";
my $refers = 'CREATE TABLE %%s_o (r int REFERENCES %%1$s%s); INSERT INTO %%1$s_o VALUES (300)';
my $says = '1 row of %%s_o refers to such rows by constraint %%2$s_o_r_fkey ON DELETE %s';
my $codes = "CREATE TABLE %s_o (id int, code text REFERENCES %1\$s (code) ON UPDATE CASCADE); INSERT INTO %1\$s_o SELECT g, 'c' || g FROM generate_series(1, 5) AS g";
my %coded = (table => '(id int PRIMARY KEY, code text UNIQUE, note text)', fill => "SELECT g, 'c' || g FROM generate_series(1, 10) AS g", around => $codes);
my %generated = (table => '(id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (v + 1) STORED)', fill => '(id, v) SELECT g, g FROM generate_series(1, 9) AS g', target => 'ALTER TABLE %s DROP w; ALTER TABLE %1$s ADD w int GENERATED ALWAYS AS (v + id %% 2) STORED');
my $tree = '(id int PRIMARY KEY, v text, up int REFERENCES %s ON DELETE CASCADE)';
my @of_tree = map { "delete $_" } 4, 12 .. 14, 36 .. 40;
my $none = 'SELECT 1 WHERE false';
# 3,000 rows take three statements
my $exchange = 'ALTER SCHEMA shop RENAME TO old; CREATE SCHEMA shop; CREATE TABLE %s (id int PRIMARY KEY, v text)';
my $altered = qr/relation shop\.\w+ was altered while it was compared/;
my %exchanged = (fill => $none, source => 'INSERT INTO %s SELECT g, g FROM generate_series(1, 3000) g', held => "INSERT INTO %s SELECT g, 'held' FROM generate_series(1, 3000) g", then => 'ROLLBACK; BEGIN', error => $altered);

# What constraints do is the same in all placements.
my @constraints = map { +{ only => qr/^(?:pull|push)$/, %$_ } } (
	{ name => 'rows that refer to each other in a list', table => '(id int PRIMARY KEY, v int, up int REFERENCES %s)', fill => $none, source => $chain, steps => [ of_chain('insert', 1 .. 400) ] },
	{ name => 'a list of which half is deleted', table => '(id int PRIMARY KEY, v int, up int REFERENCES %s)', fill => $none, target => $chain,
		source => "$chain; UPDATE %1\$s SET up = NULL; DELETE FROM %1\$s WHERE v %% 2 = 0; UPDATE %1\$s AS t SET up = s.id FROM %1\$s AS s WHERE s.v = t.v - 2", steps => [ of_chain('delete', grep { $_ % 2 == 0 } 1 .. 400), of_chain('update', grep { $_ % 2 && $_ > 1 } 1 .. 400) ] },
	{ name => 'a list that is deleted', table => '(id int PRIMARY KEY, v int, up int REFERENCES %s)', fill => $none, target => $chain, steps => [ of_chain('delete', 1 .. 400) ] },
	{ name => 'rows that refer to each other in a ring', table => '(id int PRIMARY KEY, next int REFERENCES %s DEFERRABLE)', fill => $none, source => 'BEGIN; SET CONSTRAINTS ALL DEFERRED; INSERT INTO %s VALUES (1, 2), (2, 3), (3, 1); COMMIT', steps => [ map { "insert $_" } 1 .. 3 ] },
	{ name => 'a row that refers to a missing one', target => $three, around => $missing, error => qr/^23503: .*violates foreign key constraint/ },
	{ name => 'such a row as a replica', target => $three, around => $missing, options => { as_replica => 'true' }, steps => \@three },
	{ name => 'rows that refer to one that is deleted, and keep it', target => $three, around => sprintf($refers, ''), error => qr/^23\d+: .*update or delete on table "r\d+" violates (?:RESTRICT setting of )?foreign key constraint/ },
	{ name => 'deletes => false, and rows that refer', target => $three, around => sprintf($refers, ' ON DELETE CASCADE'), options => { deletes => 'false' }, steps => [ 'insert 3', 'update 5', 'delete 300 skipped deletes => false' ], left => 1 },
	(map { my $action = $_; (
		{ name => "rows that refer, ON DELETE $action", target => $three, around => sprintf($refers, " ON DELETE $action"), error => qr/the repair would change rows beyond those compared.*1 row of shop\.\w+_o refers to such rows by constraint \w+ ON DELETE $action/s },
		{ name => "rows that refer, ON DELETE $action, cascade => true", target => $three, around => sprintf($refers, " ON DELETE $action"), options => { '"cascade"' => 'true' }, besides => 'SELECT count(*) = 1 AND count(r) = 0 FROM %s_o', steps => [ 'insert 3', 'update 5', 'delete 300 applied with all such rows: ' . sprintf($says, $action) ] })
	} 'SET NULL', 'SET DEFAULT'),
	(map { my $action = $_; (
		{ name => "as a replica, ON DELETE $action", target => $three, around => sprintf($refers, " ON DELETE $action"), options => { as_replica => 'true' }, error => qr/2BP01: the repair would leave rows that refer to missing rows.*1 row of shop\.\w+_o refers to such rows by constraint \w+ ON DELETE $action. Nothing was changed/s },
		{ name => "as a replica, ON DELETE $action, cascade => true", target => $three, around => sprintf($refers, " ON DELETE $action"), options => { as_replica => 'true', '"cascade"' => 'true' }, besides => 'SELECT count(*) = 1 AND bool_and(r = 300) FROM %s_o',
			previewed => 1, steps => [ 'insert 3', 'update 5', 'delete 300 applied foreign keys are not enforced, for all such rows: ' . sprintf($says, $action) ] })
	} 'NO ACTION', 'CASCADE', 'SET NULL'),
	(map { +{ name => 'rows of a tree that go together' . ($_ ? ', as a replica' : ''), table => $tree, fill => 'SELECT g, g, nullif(g / 3, 0) FROM generate_series(1, 40) AS g', source => 'DELETE FROM %s WHERE id = 4', options => $_ ? { as_replica => 'true' } : {}, steps => \@of_tree } } 0, 1),
	{ name => 'rows of a tree that do not go', table => $tree, fill => 'SELECT g, g, nullif(g / 3, 0) FROM generate_series(1, 40) AS g', source => 'UPDATE %s SET up = 1 WHERE up = 5; DELETE FROM %1$s WHERE id = 5', error => qr/3 rows of shop\.\w+ refer to such rows/ },
	{ %coded, name => 'ON UPDATE CASCADE', source => "UPDATE %s SET code = 'new' || code WHERE id IN (2, 9)", error => qr/1 row of shop\.\w+_o refers to such rows by constraint \w+ ON UPDATE CASCADE/ },
	{ %coded, name => 'ON UPDATE CASCADE, cascade => true', source => "UPDATE %s SET code = 'new' || code WHERE id IN (2, 9)", options => { '"cascade"' => 'true' }, besides => "SELECT bool_or(code = 'newc2') FROM %s_o", steps => [ map { "update $_ applied with all such rows: 1 row of %1\$s_o refers to such rows by constraint %2\$s_o_code_fkey ON UPDATE CASCADE" } 2, 9 ] },
	{ %coded, name => 'ON UPDATE CASCADE, and a column that nothing refers to', source => "UPDATE %s SET note = 'x' WHERE id = 3", steps => ['update 3'] },
	{ name => 'a generated column that is referred to', table => '(id int PRIMARY KEY, v int, code int GENERATED ALWAYS AS (v * 10) STORED UNIQUE)', fill => '(id, v) SELECT g, g FROM generate_series(1, 2) AS g', source => 'UPDATE %s SET v = 7 WHERE id = 1',
		around => 'CREATE TABLE %s_o (id int PRIMARY KEY, code int REFERENCES %1$s (code) ON UPDATE SET NULL); INSERT INTO %1$s_o VALUES (1, 10)', error => qr/^2BP01: .*1 row of shop\.\w+_o refers to such rows by constraint \w+ ON UPDATE SET NULL/s, besides => 'SELECT code = 10 FROM %s_o' },
	{ name => 'values that an exclusion constraint keeps apart', table => '(id int PRIMARY KEY, u int, EXCLUDE (u WITH =))', fill => 'SELECT g, g FROM generate_series(1, 9) AS g', target => 'UPDATE %s SET u = -u WHERE id IN (7, 8); UPDATE %1$s SET u = 15 - id WHERE id IN (7, 8)',
		steps => [ map { my $id = $_; map { "$_ $id applied rows exchange unique values" } 'delete', 'insert' } 7, 8 ] },
	{ name => 'unique values, checked at the end', table => '(id int PRIMARY KEY, u int UNIQUE DEFERRABLE)', fill => 'SELECT g, g FROM generate_series(1, 9) AS g', target => 'UPDATE %s SET u = 10 - u', steps => [ map { "update $_" } 1 .. 4, 6 .. 9 ] },
	{ name => 'unique values, checked at the end, as a replica', table => '(id int PRIMARY KEY, v text UNIQUE DEFERRABLE)', target => $three, options => { as_replica => 'true' }, error => qr/^0A000: shop\.\w+ cannot be repaired as replication does.*DETAIL:  Nothing would check deferrable constraints: \w+_v_key/s },
	{ %generated, name => 'a generated column of another expression', steps => [ map { "update $_ skipped differs only in generated columns: w" } 2, 4, 6, 8 ], left => 1 },
	{ %generated, name => 'a generated column of another expression, in a row that differs', source => 'UPDATE %s SET v = 100 WHERE id = 2', error => qr/^27000: .*after the repair, the rows of 1 keys are not as on the source.*One key is \{"id": 2\}/s },
	{ name => 'an identity that cannot be updated', table => '(id int PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY)', fill => '(id) SELECT g FROM generate_series(1, 9) AS g', source => 'DELETE FROM %s WHERE id = 4; INSERT INTO %1$s (id) VALUES (4), (20)',
		steps => [ 'insert 20', 'update 4 skipped differs in a column that is GENERATED ALWAYS AS IDENTITY: i' ], left => 1 });

my @scenarios = (
	{ name => 'rows that are missing, changed and more', target => $three, steps => \@three, previewed => 1 },
	{ name => 'deletes => false', target => $three, options => { deletes => 'false' }, steps => [ 'insert 3', 'update 5', 'delete 300 skipped deletes => false' ], left => 1 },
	{ name => 'updates and inserts => false', target => $three, options => { updates => 'false', inserts => 'false' }, steps => [ 'insert 3 skipped inserts => false', 'update 5 skipped updates => false', 'delete 300' ], left => 1 },
	{ name => 'nothing to do', steps => [] },
	{ name => 'a condition', target => $three, options => { condition => q('id < 5') }, steps => ['insert 3'], left => 1, not => $no_option },
	{ name => 'what is not confirmed', target => $three, options => { recheck => 1, timeout => "'0'" }, steps => [ map { "$_ skipped not confirmed: there was no time to look again" } @three ], left => 1,
		of => { nodes => [ map { "$_ skipped not confirmed: there was no time to look again" } 3, 5, 300 ] } },
	{ name => 'too many', target => $three, options => { max_differences => 2 }, error => qr/too many differences: 3 keys differ|too many differences: about/, not => $no_option },
	{ name => 'a key of text and long values', table => '(id text PRIMARY KEY, v text)', fill => "SELECT E'it''s \\\\\\\\ ' || g, repeat('long', 30000) FROM generate_series(1, 9) AS g", target => "UPDATE %s SET v = v || 'er' WHERE id LIKE '%% 5'; DELETE FROM %1\$s WHERE id LIKE '%% 3'",
		steps => [ q(insert it's \\\\ 3), q(update it's \\\\ 5) ] },
	{ name => 'no primary key', table => '(id int, v text)', fill => "SELECT g %% 5, 'v' || g %% 3 FROM generate_series(1, 30) AS g", target => "DELETE FROM %s WHERE id = 2 AND v = 'v0'; INSERT INTO %1\$s VALUES (7, NULL), (7, NULL), (4, 'v1')", steps => [ 'insert 2', 'delete 7', 'delete 4' ] },
	{ name => 'several rows of a key', table => '(id int, v text)', fill => "SELECT g %% 5, 'v' || g FROM generate_series(1, 20) AS g", options => { key_columns => q('{id}') }, target => "UPDATE %s SET v = 'x' WHERE id = 3 AND v = 'v3'; INSERT INTO %1\$s VALUES (7, 'x')",
		steps => [ 'delete 3', 'insert 3', 'delete 7' ], not => $no_option },
	{ name => 'partitions', table => '(id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id); CREATE TABLE %s_1 PARTITION OF %1$s FOR VALUES FROM (MINVALUE) TO (5); CREATE TABLE %1$s_2 PARTITION OF %1$s DEFAULT', target => $three, steps => \@three },
	{ name => 'generated columns, an identity, unique values that move, and references to the table itself',
		table => '(id int PRIMARY KEY, v text, n int GENERATED ALWAYS AS IDENTITY, twice int GENERATED ALWAYS AS (id * 2) STORED, u int UNIQUE, p int REFERENCES %s)', fill => "(id) VALUES (1)",
		source => 'TRUNCATE %s RESTART IDENTITY; INSERT INTO %1$s (id, v, u, p) SELECT g, g, g, nullif(g - 1, 0) FROM generate_series(1, 20) AS g',
		target => 'TRUNCATE %s RESTART IDENTITY; INSERT INTO %1$s (id, v, u, p) SELECT g, g, g + 1, nullif(g - 1, 0) FROM generate_series(1, 9) AS g; INSERT INTO %1$s (id, p) SELECT g, nullif(g + 1, 33) FROM generate_series(32, 31, -1) AS g',
		steps => [ (map { "update $_" } 1 .. 9), (map { "insert $_" } 10 .. 20), map { "delete $_" } 31, 32 ] },
	# 1 and 2 exchange values, and so do 3, 4 and 5.  6 gets the value of 7, which gets another one.
	{ name => 'rows that exchange unique values', table => '(id int PRIMARY KEY, u int UNIQUE)', fill => 'SELECT 1 WHERE false',
		source => 'INSERT INTO %s VALUES (1, 20), (2, 10), (3, 40), (4, 50), (5, 30), (6, 70), (7, 75), (8, 81), (9, 90)', target => 'INSERT INTO %s VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (6, 60), (7, 70), (8, 80), (10, 75)',
		steps => [ 'delete 10', (map { my $id = $_; map { "$_ $id applied rows exchange unique values" } 'delete', 'insert' } 1 .. 5), (map { "update $_" } 6 .. 8), 'insert 9' ] },
	{ name => 'rows that refer to one that is deleted', target => $three, around => 'CREATE TABLE %s_o (r int REFERENCES %1$s ON DELETE CASCADE); INSERT INTO %1$s_o VALUES (300)', error => qr/the repair would change rows beyond those compared.*1 row of shop\.\w+_o refers to such rows/s },
	{ name => 'cascade => true', target => $three, around => 'CREATE TABLE %s_o (r int REFERENCES %1$s ON DELETE CASCADE); INSERT INTO %1$s_o VALUES (300)', options => { '"cascade"' => 'true' },
		steps => [ 'insert 3', 'update 5', 'delete 300 applied with all such rows: 1 row of %s_o refers to such rows by constraint %2$s_o_r_fkey ON DELETE CASCADE' ] },
	{ name => 'a trigger that suppresses a row', target => $three, around => sprintf($trigger, 'RETURN NULL;'), error => qr/a statement of the repair changed 0 rows instead of 1.*key \{"id": 3\}/s },
	{ name => 'a trigger that changes a row', target => $three, around => sprintf($trigger, 'NEW.v := 7;'), error => qr/after the repair, the rows of 1 keys are not as on the source/ },
	{ name => 'a trigger that changes a row at the end', target => $three, error => qr/after the repair, the rows of 1 keys are not as on the source/,
		around => "CREATE FUNCTION %s_does() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE %1\$s SET v = 7 WHERE id = NEW.id AND pg_trigger_depth() = 1; RETURN NULL; END'; CREATE CONSTRAINT TRIGGER does AFTER UPDATE ON %1\$s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %1\$s_does()" },
	{ name => 'a trigger that fails', target => $three, around => sprintf($trigger, "RAISE EXCEPTION ''the disk is full'';"), error => qr/the disk is full.*key \{"id": 3\}/s },
	{ name => 'such a trigger as a replica', target => $three, around => sprintf($trigger, "RAISE EXCEPTION ''the disk is full'';"), options => { as_replica => 'true' }, steps => \@three },
	{ name => 'an origin that is not there', target => $three, options => { origin => "'nobody'" }, error => qr/replication origin "nobody" does not exist/ },
	{ name => 'a foreign key that is checked at the end', target => $three, around => "$missing DEFERRABLE INITIALLY DEFERRED", error => qr/violates foreign key constraint/ },
	{ name => 'an error of the commit', target => $three, around => sprintf($at_commit, "RAISE EXCEPTION ''not today''"), error => qr/not today/, not => \%here },
	{ name => 'an answer to the commit that is lost', target => $three, around => sprintf($at_commit, 'PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(5)'), error => qr/the outcome is unknown(?!.*is not repaired)/s, not => \%here },
	{ name => 'another repair of the table', target => $three, held => q{SELECT pg_advisory_xact_lock(1768057972, ('%s'::regclass::oid::int8 - 2147483648)::int4)}, options => { timeout => "'1 s'" }, error => qr/could not lock shop\.\w+ for a repair/ },
	{ name => 'a writer to a table without a key', table => '(id int, v text)', target => $three, held => "INSERT INTO %s VALUES (1000, 'x')", options => { timeout => "'1 s'" }, error => qr/could not lock shop\.\w+ for a repair/, not => { 'a node without iblt' => 'such a writer is waited for before' } },
	# the snapshot of the lock has neither of the two
	{ name => 'a row that another one replaces while the repair waits', target => "INSERT INTO %s VALUES (300, 'more')", held => "DELETE FROM %s WHERE id = 300; INSERT INTO %1\$s VALUES (300, 'again')", then => 'SELECT',
		steps => ['delete 300 skipped changed since it was compared'], left => 1 },
	{ name => 'rows that change while the repair waits for them', target => "$three; UPDATE %1\$s SET v = 'drift' WHERE id IN (11, 12, 13, 14); INSERT INTO %1\$s VALUES (301, 'more')", held => 'SELECT FROM %s WHERE id IN (5, 11, 12, 13, 14, 300) FOR UPDATE',
		then => "UPDATE %s SET v = 'changed' WHERE id = 11; UPDATE %1\$s SET v = 'row 12' WHERE id = 12; DELETE FROM %1\$s WHERE id = 13; DELETE FROM %1\$s WHERE id = 300; INSERT INTO %1\$s VALUES (300, 'again')", meanwhile => "UPDATE %s SET v = 'source' WHERE id = 14; INSERT INTO %1\$s VALUES (301, 'source')",
		steps => [ 'insert 3', 'update 5', 'update 12 skipped equal by now', map { "$_ skipped changed since it was compared" } 'update 11', 'update 13', 'update 14', 'delete 300', 'delete 301' ], left => 1 },
	{ %exchanged, name => 'another table has the name', aside => $exchange, only => qr/^(?:pull|push|push elsewhere|push without iblt|pull elsewhere, without iblt|a node there|a node here|a run that pushes)$/ },
	{ %exchanged, name => 'another table had the name', aside => $exchange, back => 1, only => qr/^(?:pull|push|push without iblt)$/ },
	{ %exchanged, name => 'another source has the name', meanwhile => $exchange, only => qr/^(?:pull|push|push without iblt)$/ },
	# both take SHARE UPDATE EXCLUSIVE, which does not wait for the lock of a repair
	{ %exchanged, name => 'a partition with a trigger that comes meanwhile', only => qr/^(?:pull|push|push without iblt|a run that pushes)$/, held => "INSERT INTO %s SELECT g, 'held' FROM generate_series(1, 1000) g",
		table => '(id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE %s_1 PARTITION OF %1$s FOR VALUES FROM (1) TO (1001)', source => 'CREATE TABLE %s_2 PARTITION OF %1$s FOR VALUES FROM (1001) TO (2001); INSERT INTO %1$s SELECT g, g FROM generate_series(1, 2000) g',
		around => "CREATE TABLE %s_2 (LIKE %1\$s INCLUDING ALL); CREATE FUNCTION %1\$s_does() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE %1\$s_2 SET v = ''changed'' WHERE id = NEW.id; RETURN NULL; END'; CREATE TRIGGER does AFTER INSERT ON %1\$s_2 FOR EACH ROW EXECUTE FUNCTION %1\$s_does()",
		aside => 'ALTER TABLE %s ATTACH PARTITION %1$s_2 FOR VALUES FROM (1001) TO (2001)' },
	{ %exchanged, name => 'a child that comes meanwhile', aside => 'CREATE TABLE %s_child () INHERITS (%1$s)', only => qr/^push$/ },
	@constraints);

# The repair of a placement as SQL.
sub repair
{
	my ($p, $relation, $options, $apply) = @_;
	my %options = (recheck => 0, $p->{method} && $p->{form} ne 'run' ? (method => "'$p->{method}'") : (), %{ $options // {} }, apply => $apply);
	my ($first, $second) = @{ $p->{sides} };
	my $peer = literal(string($second));
	my $more = join ', ', map { "$_ => $options{$_}" } sort keys %options;
	my $direction = "direction => '" . ($p->{target} eq $first ? 'pull' : 'push') . "'";
	my $call = $p->{form} eq 'nodes' ? "iblt_repair_nodes('$relation', ARRAY[NULL, $peer], source => '" . ($p->{target} eq $first ? 'node 2' : 'here') . "'"
	  : $p->{form} eq 'run' ? "iblt_repair(run => $p->{run}, peer => $peer, $direction"
	  : $p->{from} eq 'desk' ? "iblt_repair(here_peer => ${\ literal(string($first))}, here_relation => '$relation', peer => $peer, $direction" : "iblt_repair('$relation', $peer, $direction";
	return "SELECT concat_ws(' ', action, key ->> 'id', status, detail) FROM $call, $more)";
}

# Its rows in order, or its error, which a repair of nodes has in a row and in a warning.
sub outcome
{
	my ($session) = @_;
	my $out = join "\n", sort split /\n/, $session->done;
	my ($error) = $session->{err} =~ /ERROR:  (.*)/s;
	$error //= "$1\n$session->{err}" if $out =~ /(?:failed|unknown) (.*)/s;
	return ($error, $out);
}

sub cell
{
	my ($s, $p, $number) = @_;
	no warnings 'redundant';
	my $text = "$s->{name}, $p->{name}";
	my $relation = "shop.r$number";
	my $sql = sub { return sprintf $_[0], $relation, ($relation) x 30 };
	my ($source) = grep { $_ ne $p->{target} } @{ $p->{sides} };
	# what each side has, as the last line of what its statements give
	my $contents = "SELECT coalesce(md5(string_agg(t::text, ',' ORDER BY t::text)), 'none') FROM $relation AS t";
	my $does = sub { return (split /\n/, sql($_[0], $sql->($_[1]) . $contents))[-1] };
	my %before = map { my $side = $_ eq $source ? 'source' : 'target';
		($_ => $does->($_, join('; ', 'CREATE TABLE %s ' . ($s->{table} // '(id int PRIMARY KEY, v text)'), 'INSERT INTO %1$s ' . ($s->{fill} // "SELECT g, 'row ' || g FROM generate_series(1, 50) AS g"),
			$s->{$side} // (), $side eq 'target' ? $s->{around} // () : ()) . '; ')) } $p->{target}, $source;
	my $session = session($p->{from}, 'calls');
	$p->{run} = $session->run("CALL iblt_audit_run(${\ literal(string($p->{sides}[1]))}, tables => '{$relation}', progress => false)") if $p->{form} eq 'run';
	my @steps = map { sprintf /\b(?:skipped|applied)\b/ ? $_ : "$_ applied", $relation, "r$number" } @{ $s->{of}{ $p->{form} } // $s->{steps} // [] };
	if ($s->{previewed})
	{
		is((outcome($session->start(repair($p, $relation, $s->{options}, 'false'))))[1], join("\n", sort map { s/ applied/ preview/r } @steps), "$text: a preview");
		is(sql($p->{target}, $contents), $before{ $p->{target} }, "$text: which changes nothing");
	}
	my $holder = session($p->{target}, 'holds');
	$holder->run($sql->("BEGIN; $s->{held}")) if $s->{held};
	$session->start(repair($p, $relation, $s->{options}, 'true'));
	if ($s->{then})
	{
		waits($p->{target}, $holder, $session);
		sql($source, $sql->($s->{meanwhile})) if $s->{meanwhile};
		sql($p->{target}, $sql->($s->{aside})) if $s->{aside};
		my $other = $s->{back} ? session($p->{target}, 'holds, too') : undef;
		$other->run($sql->("BEGIN; $s->{held}")) if $other;
		$holder->run($sql->("$s->{then}; COMMIT"));
		if ($other)
		{
			waits($p->{target}, $other, $session);
			sql($p->{target}, 'ALTER SCHEMA shop RENAME TO other; ALTER SCHEMA old RENAME TO shop; ALTER SCHEMA other RENAME TO old');
			$other->run('ROLLBACK');
		}
	}
	my ($error, $rows) = outcome($session);
	$holder->run('ROLLBACK') if $s->{held};
	foreach my $db (map { $_->[0] } grep { ($s->{ $_->[1] } // '') eq $exchange } [ $p->{target}, 'aside' ], [ $source, 'meanwhile' ])
	{
		sql($db, 'ALTER SCHEMA shop RENAME TO other; ALTER SCHEMA old RENAME TO shop; ALTER SCHEMA other RENAME TO old') if !$s->{back};
		is(sql($db, "SELECT count(*) FROM old.r$number; DROP SCHEMA old CASCADE"), '0', "$text: no row in the other table");
	}
	if ($s->{error})
	{
		like($error // $rows, $s->{error}, $text) or note($session->{err});
		unlike($session->{err}, qr/\brow (?![35]\b)\d/, "$text: no other row is told of") if !$s->{table};
	}
	else { is($error // $rows, join("\n", sort @steps), $text) or note($session->{err}) }
	my ($is, $source_is) = map { [ split /\n/, sql($_, $sql->(join '; ', $_ eq $p->{target} ? $s->{besides} // () : (), '') . "$contents; SET client_min_messages = error; DROP TABLE $relation CASCADE; DROP TABLE IF EXISTS ${relation}_o, ${relation}_p") ] } $p->{target}, $source;
	is($is->[-1], $before{ $s->{error} ? $p->{target} : $source }, $s->{error} ? "$text: nothing has changed" : "$text: the target is as the source") if !$s->{left};
	is($source_is->[-1], $before{$source}, "$text: the source is as it was") if !$s->{meanwhile};
	is($is->[0], 't', "$text: $s->{besides}") if $s->{besides};
	return;
}

# Waits until the repair waits for the holder, or has ended.
sub waits
{
	my ($db, $holder, $session) = @_;
	until ($session->ended || server_of($db)->safe_psql('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE $holder->{pid} = ANY (pg_blocking_pids(pid))") eq 't') { select undef, undef, undef, 0.02 }
	return;
}

sub repairs
{
	my @servers = servers_of_placements();
	my $only = $ENV{IBLT_TEST_SCENARIO} ? qr/$ENV{IBLT_TEST_SCENARIO}/ : qr/./;
	my $number = 0;
	foreach my $s (grep { $_->{name} =~ $only } @scenarios)
	{
		foreach my $p (grep { !$s->{only} || $_->{name} =~ $s->{only} } @placements)
		{
			my $why = $s->{not}{ $p->{name} } // $s->{not}{ $p->{form} };
		  SKIP:
			{
				skip("$s->{name}, $p->{name}: $why", 1) if $why;
				cell($s, $p, ++$number);
			}
		}
	}
	nothing_left('at the end', @servers);
	return;
}

1;
