# Columns that bear the names which the statements of iblt_compare and iblt_repair use
# themselves, as keys, as contents and without a table in conditions.  The names are
# all words of the statements that a peer gets, so that a new one is not forgotten.
use IbltCompare;
use IbltRepair qw(repair_servers repair same);

my ($here, $there) = repair_servers();
my $peer = conninfo($there);

# --- the words -----------------------------------------------------------------------

my $log_start = -s $there->logfile;
$there->safe_psql('postgres', q{ALTER SYSTEM SET log_statement = 'all'; SELECT pg_reload_conf()});
wait_for($there, "SELECT current_setting('log_statement') = 'all'");
foreach my $key ('id int PRIMARY KEY', 'id int, k int, PRIMARY KEY (id, k)', 'id text PRIMARY KEY', 'id int')
{
	my $referring = $key =~ /int PRIMARY/ ? 'CREATE TABLE referring (r int REFERENCES plain ON DELETE CASCADE); INSERT INTO referring VALUES (5)' : '';
	both("CREATE TABLE plain ($key, v int); ALTER TABLE plain ALTER v SET DEFAULT 1;
		INSERT INTO plain SELECT g" . ($key =~ /k int/ ? ', g' : '') . " FROM generate_series(1, 9) g; $referring");
	$here->safe_psql('postgres', "UPDATE plain SET v = 2 WHERE id = '3'; DELETE FROM plain WHERE id = '5'");
	compare("'plain'", "rows => true, recheck => 1, condition => 'v <> 7'");
	repair('plain', 'push', "condition => 'v <> 7', recheck => 1, apply => true, cascade => true");
	same('plain', "the words of a key ($key)");
	both('DROP TABLE plain CASCADE; DROP TABLE IF EXISTS referring');
}
$there->safe_psql('postgres', 'ALTER SYSTEM RESET log_statement; SELECT pg_reload_conf()');
(my $statements = slurp_file($there->logfile, $log_start)) =~ s/iblt_(repair_)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}//g;
my %words = map { $_ => 1 } $statements =~ /\b[a-z_][a-z0-9_]*\b/g;
# and those of the statements that are made for this side alone
$words{$_} = 1 foreach (qw(id u s q r x l h e d a b c o r1 iblt_r1 position value name here there t_n h_n));
delete @words{qw(tableoid ctid xmin xmax cmin cmax)};
my @words = sort keys %words;
ok($words{$_}, "a word of a statement: $_") foreach (qw(t iblt_k iblt_k1 iblt_k2 iblt_n iblt_u iblt_j iblt_key iblt_a iblt_b iblt_l iblt_d iblt_o iblt_c hash key checksum mark content rows_checksum));
note(scalar(@words) . " words: @words");

# --- tables with columns of these names ------------------------------------------------

my $number = 0;
foreach my $key ([ 'int', 'iblt_n' ], [ 'int', 'iblt_k1' ], [ 'int', 'iblt_k' ], [ 'int', 'iblt_n', 'iblt_k2', 't', 'iblt_k1' ], [ 'text', 'iblt_key' ], [ 'text', 't', 'iblt_n' ],
	[ 'text', 'key', 'iblt_k1', 'iblt_j', 'id', 'hash' ], [])
{
	my ($type, @key) = @$key;
	my $unique = @key > 0;
	my $table = 'names_' . ++$number;
	my %of_key = map { $_ => 1 } @key;
	my $columns = join ', ', map { "\"$_\" " . ($of_key{$_} ? $type : 'int') . ' NOT NULL' } @words;
	my $list = join ', ', map { "\"$_\"" } @key;
	both("CREATE TABLE $table ($columns" . ($unique ? ", PRIMARY KEY ($list)" : '') . ');
		INSERT INTO ' . $table . ' SELECT ' . join(', ', ('g') x @words) . ' FROM generate_series(1, 20) g');
	@key = ('iblt_n') unless $unique;
	my $text = "$table ($type: @key)";
	# row 7 differs, and the condition leaves it out on both sides
	my $condition = join ' AND ', map { "\"$_\"::int <> 7" } @words;
	my $quoted = literal($condition);
	my $spoil = sub {
		my ($node) = @_;
		$node->safe_psql('postgres', qq(UPDATE $table SET "content" = 33 WHERE "$key[0]" = '3'; UPDATE $table SET "content" = 77 WHERE "$key[0]" = '7';
			DELETE FROM $table WHERE "$key[0]" = '5'; INSERT INTO $table SELECT ) . join(', ', ('50') x @words));
	};
	$spoil->($there);
	my $truth = truth($table, join(', ', map { "t.\"$_\"" } $unique ? @key : @words), where => $condition);
	is(lines($truth), $unique ? 3 : 4, "$text: there are differences");
	is(compare("'$table'", "condition => $quoted"), $truth, "$text: they are found");
	is(compare("'$table'", "condition => $quoted, rows => true, recheck => 1"), $truth, 'and looked at again, with the rows');
	is(compare("'$table'", "condition => 't.' || $quoted"), $truth, 'a column may be given with the table t');
	is(lines(compare("'$table'", 'recheck => 1')), lines(truth($table, join(', ', map { "t.\"$_\"" } $unique ? @key : @words))), 'and without a condition');
	foreach my $direction ('pull', 'push')
	{
		my @steps = repair($table, $direction, "condition => $quoted, recheck => 1, apply => true") =~ / (applied)$/mg;
		is(scalar(@steps), lines($truth), "$text: $direction repairs them");
		is(compare("'$table'", "condition => $quoted"), '', 'all of them');
		both("DELETE FROM $table WHERE \"$key[0]\"::int NOT BETWEEN 1 AND 20 OR \"$key[0]\"::int IN (3, 5); INSERT INTO $table SELECT " . join(', ', ('g') x @words) . ' FROM unnest(ARRAY[3, 5]) g');
		$spoil->($here);
	}
	both("DROP TABLE $table");
}

# --- rows that refer to those, and rights ------------------------------------------------

# Foreign keys on a column that is not compared, and columns of the names in use.
both('CREATE TABLE referred (iblt_n int PRIMARY KEY, iblt_k1 int UNIQUE NOT NULL, iblt_o int, iblt_r1 int, unseen int);
	INSERT INTO referred SELECT g, g, g, g FROM generate_series(1, 9) g;
	CREATE TABLE iblt_d (iblt_r1 int, iblt_o int, iblt_c int REFERENCES referred (iblt_k1) ON DELETE CASCADE, r int, x int); INSERT INTO iblt_d (iblt_c) VALUES (4), (5), (5)');
$there->safe_psql('postgres', 'ALTER TABLE iblt_d DROP CONSTRAINT iblt_d_iblt_c_fkey; DELETE FROM referred WHERE iblt_n = 5');
like(repair('referred', 'pull', "exclude => '{iblt_k1}', condition => 'iblt_n > 4 AND iblt_o > 4 AND iblt_k1 > 4'"),
	qr/^delete \{"iblt_n": 5\} preview with all such rows: 2 rows of public\.iblt_d refer to such rows/, 'rows that refer to a column that is not compared are counted');
like(failure("SELECT * FROM iblt_repair('referred', $peer, direction => 'pull', condition => 'iblt_n > 4', apply => true)"), qr/2BP01: .*2 rows of public\.iblt_d/s, 'and not deleted');
repair('referred', 'pull', "condition => 'iblt_n > 4', apply => true, cascade => true");
is($here->safe_psql('postgres', 'SELECT count(*) FROM iblt_d'), '1', 'unless asked for');

both('CREATE ROLE reader LOGIN; GRANT SELECT (iblt_n, iblt_o, iblt_k1) ON referred TO reader; ALTER TABLE referred ALTER iblt_n TYPE bigint');
foreach my $type ('bigint', 'text')
{
	both("ALTER TABLE referred ALTER iblt_n TYPE $type");
	$there->safe_psql('postgres', 'DELETE FROM referred WHERE iblt_k1 = 6');
	my $sql = 'SELECT key FROM iblt_compare(\'referred\', ' . literal($there->connstr('postgres') . ' user=reader') . ", columns => '{iblt_o}', condition => 'iblt_k1 > 4')";
	$here->safe_psql('postgres', 'GRANT USAGE ON SCHEMA "db ""link" TO reader');
	$there->safe_psql('postgres', 'GRANT USAGE ON SCHEMA "Their Iblt" TO reader');
	is($there->safe_psql('postgres', 'SELECT count(*) FROM referred'), '7', 'a row is gone');
	is($here->safe_psql('postgres', $sql), $type eq 'text' ? '{"iblt_n": "6"}' : '{"iblt_n": 6}', "$type key: no right is needed to columns that neither are compared nor in the condition");
}

# --- other names on the peer ---------------------------------------------------------------

# test/sql/mapping.sql has the rest.  A plain peer makes the values itself, too.
$here->safe_psql('postgres', q{CREATE TABLE mapped (id int PRIMARY KEY, price numeric, email text, n int) PARTITION BY RANGE (id);
	CREATE TABLE mapped_1 PARTITION OF mapped FOR VALUES FROM (0) TO (150); CREATE TABLE mapped_2 PARTITION OF mapped DEFAULT;
	INSERT INTO mapped SELECT g, g * 1.234, 'User' || g, g FROM generate_series(1, 300) g});
$there->safe_psql('postgres', q{CREATE TABLE mapped (unit_price numeric, item int PRIMARY KEY, email text, n int);
	INSERT INTO mapped SELECT round(g * 1.234, 2), g, lower('User' || g), g FROM generate_series(1, 300) g;
	UPDATE mapped SET n = 0 WHERE item = 7; UPDATE mapped SET unit_price = unit_price + 1 WHERE item = 8; UPDATE mapped SET email = upper(email) WHERE item = 9; DELETE FROM mapped WHERE item = 200});
my $mapping = q{peer_columns => '{"id": "item", "price": "unit_price"}'};
my $mapped = sub { $here->safe_psql('postgres', "SELECT key, differs, confirmed FROM iblt_compare('mapped', $peer, rows => true, $mapping, $_[0]) ORDER BY key") };
my $price = qq({"id": 8}|{price}|);
foreach my $method ('sketch', 'plain')
{
	my $other = $method eq 'sketch' ? q('{}') : q{jsonb_build_object('email', 'lower(email COLLATE "C")')};
	is($mapped->(qq(method => '$method', expressions => '{"price": "round(price, 2)", "email": "lower(email)"}', peer_expressions => $other)),
		qq({"id": 7}|{n}|\n$price\n) . ($method eq 'sketch' ? qq({"id": 9}|{email}|\n) : '') . '{"id": 200}||', "$method: other names and expressions");
	is($mapped->(qq(method => '$method', expressions => '{"price": "round(price, 2)"}', peer_expressions => '{}', exclude => '{email}', recheck => 2, condition => 'n between 5 and 8', peer_condition => 'n between 5 and 8')),
		qq({"id": 7}||t\n{"id": 8}|{price}|t), "$method: with row versions, and a condition of the relation's own names");
}
like(failure(qq(SELECT * FROM iblt_compare('mapped', $peer, $mapping, method => 'plain', expressions => '{"price": "unit_price + 1"}'))), qr/42703: .*"unit_price" does not exist/, 'plain: an expression is checked here');
like(failure(qq(SELECT * FROM iblt_compare('mapped', $peer, $mapping, method => 'plain', expressions => '{"email": "upper(email)"}', peer_expressions => '{"email": "upper(email)"}'))), qr/0A000: cannot compare by plain queries/, 'and may hold only what means the same there');
# audits and runs, for one of their tables
both('CREATE TABLE unmapped (id int PRIMARY KEY); INSERT INTO unmapped VALUES (1)');
my $mappings = q{mappings => jsonb_build_object('"public".mapped', jsonb_build_object('peer_columns', '{"id": "item", "price": "unit_price"}'::jsonb,
	'expressions', '{"price": "round(price, 2)", "email": "lower(email)"}'::jsonb, 'peer_expressions', '{}'::jsonb))};
my $audited = "public.mapped|differs|300|299|0|1|3\npublic.unmapped|equal|1|1|0|0|0";
my $columns = 'relation, status, rows_here, rows_there, missing, extra, changed';
is($here->safe_psql('postgres', "SELECT $columns FROM iblt_audit($peer, tables => '{mapped,unmapped}', $mappings)"), $audited, 'an audit with a mapping of one table');
my $run = $here->safe_psql('postgres', "CALL iblt_audit_run($peer, tables => '{mapped,unmapped}', $mappings, slice_ms => 1, rows => 'columns')");
is($here->safe_psql('postgres', "SELECT $columns FROM iblt_audit_tables WHERE run = $run"), $audited, 'a run');
is($here->safe_psql('postgres', "SELECT key, differs FROM iblt_audit_differences WHERE run = $run ORDER BY (key ->> 'id')::int LIMIT 2"), qq({"id": 7}|{n}\n{"id": 8}|{price}), 'which names the columns');
like(failure("SELECT * FROM iblt_repair(peer => $peer, run => $run, direction => 'pull')"), qr/0A000: values of expressions cannot be repaired/, 'and is not repaired');
like(failure("SELECT * FROM iblt_audit($peer, tables => '{mapped}', mappings => '{\"public.mappd\": {}}')"), qr/42P01: mappings names tables that are not compared: public\.mappd/, 'a name that is not among the tables is an error');
like(failure("SELECT * FROM iblt_audit($peer, tables => '{mapped}', mappings => '{\"public.mapped\": {}, \"PUBLIC.mapped\": {}}')"), qr/22023: mappings names a table twice/, 'nor is one with two');
like(failure("SELECT * FROM iblt_audit($peer, tables => '{mapped}', mappings => '$_')"), qr/22023: mappings must be a JSON object of tables/, "not a mapping: $_") foreach ('[]', '{"mapped": 1}', '{"mapped": {"columns": {}}}');

repair('mapped', 'pull', "exclude => '{price,email}', $mapping, apply => true");
is($here->safe_psql('postgres', 'SELECT n FROM mapped WHERE id = 7'), '0', 'a pull writes the names of this side');
repair('mapped', 'push', "exclude => '{email}', $mapping, apply => true");
is($there->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE unit_price = item * 1.234) FROM mapped'), '299|299', 'a push those of the other side');

done_testing();
