# iblt_repair with foreign keys, unique columns, triggers and generated columns: the
# rows are in an order that works, or there is an error and nothing was changed.  And tables
# without columns.
use IbltCompare qw(compare);
use IbltRepair;

my ($here, $there) = repair_servers();

# --- foreign keys, unique columns, triggers ----------------------------------------------

# ids are in no order of the tree
both('CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree, v text)');
$there->safe_psql('postgres', 'INSERT INTO tree SELECT (g * 617) % 1009, CASE WHEN g > 1 THEN ((g - 1) * 617) % 1009 END, g FROM generate_series(1, 400) g');
repair('tree', 'pull', 'apply => true');
same('tree', 'a chain of 400 rows that refer to each other is inserted');
$here->safe_psql('postgres', 'UPDATE tree SET up = NULL; DELETE FROM tree WHERE v::int % 2 = 0; UPDATE tree t SET up = s.id FROM tree s WHERE s.v::int = t.v::int - 2');
repair('tree', 'push', 'apply => true');
same('tree', 'half of it is deleted, the rest refers to other rows');
$here->safe_psql('postgres', 'TRUNCATE tree');
repair('tree', 'push', 'apply => true');
is(contents($there, 'tree'), '', 'all is deleted');
both("CREATE TABLE ring (id int PRIMARY KEY, next int REFERENCES ring DEFERRABLE)");
$there->safe_psql('postgres', 'BEGIN; SET CONSTRAINTS ALL DEFERRED; INSERT INTO ring VALUES (1, 2), (2, 3), (3, 1); COMMIT');
repair('ring', 'pull', 'apply => true');
same('ring', 'rows that refer to each other in a ring, by a constraint that is deferrable');

both('CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent SELECT generate_series(1, 10);
	CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent); INSERT INTO child SELECT g, g FROM generate_series(1, 10) g');
$there->safe_psql('postgres', "INSERT INTO parent VALUES (11); INSERT INTO child VALUES (11, 11); UPDATE child SET p = 1 WHERE id = 2");
foreach my $constraint ('', 'ALTER TABLE child ALTER CONSTRAINT child_p_fkey DEFERRABLE INITIALLY DEFERRED')
{
	$here->safe_psql('postgres', $constraint) if $constraint;
	my $before = contents($here, 'child');
	like(failure('SELECT * FROM ' . call('child', 'pull', 'apply => true')), qr/23503: insert or update on table "child" violates foreign key constraint "child_p_fkey".*\(p\)=\(11\)/s,
		'a parent that is missing is an error' . ($constraint && ', when the constraint is deferred, too'));
	is(contents($here, 'child'), $before, 'and nothing was changed');
}
repair('parent', 'pull', 'apply => true');
repair('child', 'pull', 'apply => true');
same('child', 'after its parent');
$here->safe_psql('postgres', 'ALTER TABLE child ALTER CONSTRAINT child_p_fkey NOT DEFERRABLE; DELETE FROM child WHERE p = 3; DELETE FROM parent WHERE id = 3');
{
	my $before = contents($there, 'parent');
	like(failure('SELECT * FROM ' . call('parent', 'push', 'apply => true')), qr/23\d+: on the peer: update or delete on table "parent" violates foreign key constraint/, 'a row that is referred to is not deleted');
	is(contents($there, 'parent'), $before, 'and nothing was changed');
	nothing_open('after an error on the peer');
}

foreach my $action ('CASCADE', 'SET NULL', 'SET DEFAULT')
{
	both("DROP TABLE child; CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE $action)");
	$there->safe_psql('postgres', 'DELETE FROM parent; INSERT INTO parent SELECT generate_series(1, 10); INSERT INTO child SELECT g, 1 + g % 5 FROM generate_series(1, 20) g');
	$here->safe_psql('postgres', 'DELETE FROM parent; INSERT INTO parent SELECT g FROM generate_series(3, 12) g');
	my ($before, $child) = map { contents($there, $_) } ('parent', 'child');
	my $says = "8 rows of public.child refer to such rows by constraint child_p_fkey ON DELETE $action";
	like(repair('parent', 'push'), qr/^delete \{"id": 1\} preview with all such rows: $says$/m, "$action: the preview tells of it");
	like(failure('SELECT * FROM ' . call('parent', 'push', 'apply => true')), qr/2BP01: the repair would change rows beyond those compared.*$says/s, "$action: it is refused");
	is(contents($there, $_), $_ eq 'parent' ? $before : $child, "$action: nothing was changed in $_") foreach ('parent', 'child');
	unlike(repair('parent', 'push', 'deletes => false, apply => true'), qr/child/, "$action: nothing is refused when nothing is deleted");
	like(repair('parent', 'push', 'cascade => true, apply => true'), qr/^delete \{"id": 1\} applied with all such rows: $says$/m, "$action: cascade => true");
	same('parent', "$action: cascade => true");
	is($there->safe_psql('postgres', 'SELECT count(*) FROM child WHERE p IS NOT NULL'), '12', "$action: the rows that referred are changed");
}
both('CREATE TABLE self (id int PRIMARY KEY, up int REFERENCES self ON DELETE CASCADE); INSERT INTO self SELECT g, nullif(g / 3, 0) FROM generate_series(1, 40) g');
$here->safe_psql('postgres', 'DELETE FROM self WHERE id = 4');
like(repair('self', 'push', 'apply => true'), qr/^delete \{"id": 4\} applied$/m, 'a tree with ON DELETE CASCADE: rows that go together');
same('self', 'a tree with ON DELETE CASCADE');
$here->safe_psql('postgres', 'UPDATE self SET up = 1 WHERE up = 5; DELETE FROM self WHERE id = 5');
like(failure('SELECT * FROM ' . call('self', 'push', 'apply => true')), qr/3 rows of public.self refer to such rows/, 'rows that do not go are not lost');
both("CREATE TABLE coded (id int PRIMARY KEY, code text UNIQUE, note text); INSERT INTO coded SELECT g, 'c' || g FROM generate_series(1, 10) g;
	CREATE TABLE uses (id int, code text REFERENCES coded (code) ON UPDATE CASCADE); INSERT INTO uses SELECT g, 'c' || g FROM generate_series(1, 5) g");
$there->safe_psql('postgres', "UPDATE coded SET code = 'new' || code WHERE id IN (2, 9)");
like(failure('SELECT * FROM ' . call('coded', 'pull', 'apply => true')), qr/1 row of public.uses refers to such rows by constraint uses_code_fkey ON UPDATE CASCADE/, 'ON UPDATE CASCADE is refused, too');
repair('coded', 'pull', 'apply => true, cascade => true');
same('coded', 'ON UPDATE CASCADE');
$there->safe_psql('postgres', "UPDATE coded SET note = 'x' WHERE id = 3");
repair('coded', 'pull', 'apply => true');
same('coded', 'a column that nothing refers to');
both('CREATE TABLE made (id int PRIMARY KEY, v int, code int GENERATED ALWAYS AS (v * 10) STORED UNIQUE); INSERT INTO made (id, v) VALUES (1, 1), (2, 2);
	CREATE TABLE of_made (id int PRIMARY KEY, code int REFERENCES made (code) ON UPDATE SET NULL); INSERT INTO of_made VALUES (1, 10)');
$there->safe_psql('postgres', 'UPDATE made SET v = 7 WHERE id = 1');
like(failure('SELECT * FROM ' . call('made', 'pull', 'apply => true')), qr/2BP01: .*1 row of public.of_made refers to such rows by constraint of_made_code_fkey ON UPDATE SET NULL/s, 'and where it refers to a generated column, which no statement sets');
is(contents($here, 'of_made'), '(1,10)', 'and nothing was changed');

both("CREATE TABLE uniq (id int PRIMARY KEY, u int UNIQUE, v text); INSERT INTO uniq SELECT g, g FROM generate_series(1, 300) g");
$there->safe_psql('postgres', 'DELETE FROM uniq WHERE id = 300; UPDATE uniq SET u = u + 1000; UPDATE uniq SET u = u - 999; DELETE FROM uniq WHERE id = 1; INSERT INTO uniq VALUES (900, 1)');
repair('uniq', 'pull', 'apply => true');
same('uniq', 'unique values that move from row to row');
$there->safe_psql('postgres', 'UPDATE uniq SET u = -u WHERE id IN (7, 8); UPDATE uniq SET u = CASE id WHEN 7 THEN 9 ELSE 8 END WHERE id IN (7, 8)');
{
	# 143_repair_meanwhile.pl has those of unique indexes
	$here->safe_psql('postgres', 'ALTER TABLE uniq DROP CONSTRAINT uniq_u_key, ADD CONSTRAINT uniq_u_key EXCLUDE (u WITH =)');
	my $before = contents($here, 'uniq');
	like(failure('SELECT * FROM ' . call('uniq', 'pull', 'apply => true')), qr/23P01: conflicting key value violates exclusion constraint "uniq_u_key".*Nothing was changed.*HINT:  .*exchange/s, 'values of an exclusion constraint that rows exchange are an error');
	is(contents($here, 'uniq'), $before, 'and nothing was changed');
	$here->safe_psql('postgres', 'ALTER TABLE uniq DROP CONSTRAINT uniq_u_key, ADD UNIQUE (u) DEFERRABLE');
	repair('uniq', 'pull', 'apply => true');
	same('uniq', 'but not when the constraint is deferrable');
}

both('CREATE TABLE gen (id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (v + 1) STORED); INSERT INTO gen SELECT g, g FROM generate_series(1, 9) g');
$there->safe_psql('postgres', 'ALTER TABLE gen DROP w; ALTER TABLE gen ADD w int GENERATED ALWAYS AS (v + id % 2) STORED');
like(repair('gen', 'pull', 'apply => true'), qr/^update \{"id": 2\} skipped differs only in generated columns: w$/m, 'a generated column with another expression is skipped');
$there->safe_psql('postgres', 'UPDATE gen SET v = 100 WHERE id = 2');
like(failure('SELECT * FROM ' . call('gen', 'pull', 'apply => true')), qr/27000: after the repair, the rows of 1 keys are not as on the source.*One key is \{"id": 2\}/s, 'or an error');
both('CREATE TABLE ident (id int PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY); INSERT INTO ident SELECT g FROM generate_series(1, 9) g');
$there->safe_psql('postgres', 'DELETE FROM ident WHERE id = 4; INSERT INTO ident VALUES (4), (20)');
is(repair('ident', 'pull', 'apply => true'), "insert {\"id\": 20} applied\nupdate {\"id\": 4} skipped differs in a column that is GENERATED ALWAYS AS IDENTITY: i", 'an identity column that cannot be updated');

# --- tables without columns ---------------------------------------------------------------------

# Their rows are all the same, and there are more of them or fewer.  And tables whose columns are all
# generated, whose rows need no values.
my $peer = conninfo($there);
sub fill
{
	my ($node, $number) = @_;
	$node->safe_psql('postgres', "TRUNCATE bare; INSERT INTO bare SELECT FROM generate_series(1, $number)");
	return;
}

sub rows_of { my ($node, $table) = @_; return $node->safe_psql('postgres', "SELECT count(*) FROM $table") }

sub audited
{
	return join ', ', split /\n/, $here->safe_psql('postgres', "SELECT concat_ws(' ', relation, status, rows_here, rows_there, missing, extra, changed)
		FROM iblt_audit($peer, tables => '{bare}')");
}

both('CREATE TABLE bare ()');
is(compare("'bare'"), '', 'no rows on either side: equal');
is(audited(), 'public.bare equal 0 0 0 0 0', 'an audit says so');
foreach my $case ([ 1, 1, '' ], [ 7, 7, '' ], [ 1, 0, '{} here 1 0', '0 1 0' ], [ 0, 3, '{} there 0 3', '1 0 0' ], [ 5, 4, '{} both 5 4', '0 0 1' ],
	[ 2, 30000, '{} both 2 30000', '0 0 1' ], [ 70000, 3, '{} both 70000 3', '0 0 1' ])
{
	my ($mine, $theirs, $differences, $counts) = @$case;
	fill($here, $mine);
	fill($there, $theirs);
	is(compare("'bare'"), $differences, "$mine and $theirs rows");
	is(compare("'bare'", 'rows => true, recheck => 1'), $differences, 'looked at again, and with the rows');
	is(audited(), $differences ? "public.bare differs $mine $theirs $counts" : "public.bare equal $mine $theirs 0 0 0", 'in an audit');
}
is($here->safe_psql('postgres', "SELECT key, here, there, confirmed FROM iblt_compare('bare', $peer, rows => true, recheck => 1)"), '{}|{}|{}|t', 'the row that they share is {}');
is(compare("'bare'", "condition => 'false', peer_condition => 'false'"), '', 'a condition that is true of no row');
is(compare("'bare'", "condition => 'false', peer_condition => 'true'"), '{} there 0 3', 'a condition on one side');

foreach my $case ([ 4, 9 ], [ 9, 4 ], [ 4, 5 ], [ 5, 4 ], [ 0, 1 ], [ 1, 0 ])
{
	foreach my $direction (qw(pull push))
	{
		fill($here, $$case[0]);
		fill($there, $$case[1]);
		like(repair('bare', $direction, 'apply => true'), qr/^(insert|delete) \{\} applied$/, "$direction, @$case");
		is(join(' ', map { rows_of($_, 'bare') } ($here, $there)), join(' ', ($$case[ $direction eq 'pull' ]) x 2), 'as many rows on both sides');
	}
}
fill($_, 4) foreach ($here, $there);
is(repair('bare', 'pull', 'apply => true'), '', 'nothing to repair');

both('DROP TABLE of_made, made; CREATE TABLE made (v int GENERATED ALWAYS AS (7) STORED); CREATE TABLE made_key (v int GENERATED ALWAYS AS (7) STORED PRIMARY KEY)');
$there->safe_psql('postgres', 'INSERT INTO made_key DEFAULT VALUES; INSERT INTO made DEFAULT VALUES; INSERT INTO made DEFAULT VALUES; INSERT INTO made DEFAULT VALUES');
like(repair('made_key', 'pull', 'apply => true'), qr/^insert \{"v": 7\} applied$/, 'a row whose key is generated');
same('made_key', 'is inserted');
like(repair('made', 'pull', 'apply => true'), qr/^insert \{"v": 7\} applied$/, 'rows of generated columns only');
same('made', 'are inserted');

# and what is not such a table
my $refused = qr/42703: the relations have no columns to compare/;
both('CREATE TABLE filled (a int, b text); INSERT INTO filled VALUES (1, \'x\')');
like(failure("SELECT * FROM iblt_compare('filled', $peer, exclude => '{a,b}')"), $refused, 'columns that are all excluded');
foreach my $side ($here, $there)
{
	my $other = $side == $here ? $there : $here;
	$side->safe_psql('postgres', 'ALTER TABLE bare ADD c int');
	like(failure("SELECT * FROM iblt_compare('bare', $peer, extra_columns => 'ignore')"), $refused, 'no columns on ' . $other->name . ' only');
	like(failure("SELECT * FROM iblt_compare('bare', $peer, exclude => '{c}')"), $refused, 'also if the others are excluded');
	unlike($here->safe_psql('postgres', "SELECT status FROM iblt_audit($peer, tables => '{bare}')"), qr/equal|differs/, 'an audit cannot tell');
	$side->safe_psql('postgres', 'ALTER TABLE bare DROP c');
}
is(compare("'bare'"), '', 'columns that were dropped are none');

nothing_open('at the end');

done_testing();
