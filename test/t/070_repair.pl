# iblt_repair on real servers: what its options choose, how many rows it repairs, and what it refuses.
use IbltCompare qw(compare truth);
use IbltRepair;

my ($here, $there) = repair_servers();

# --- options -----------------------------------------------------------------------

both("CREATE TABLE opt (id int PRIMARY KEY, v text); INSERT INTO opt SELECT g, 'v' || g FROM generate_series(1, 20) g");
$there->safe_psql('postgres', "DELETE FROM opt WHERE id = 3; UPDATE opt SET v = NULL WHERE id = 5; INSERT INTO opt VALUES (30, 'new')");
repair('opt', 'pull', 'deletes => false, apply => true');
is($here->safe_psql('postgres', 'SELECT count(*) FROM ' . call('opt', 'pull', 'deletes => false, apply => true') . '; SELECT rows_here, relation, differences, settled, unconfirmed FROM iblt_compare_stats()'), "1\n21|public.opt|1|0|0", 'what is skipped still counts as a difference, and not as settled');
repair('opt', 'pull', 'apply => true');
$here->safe_psql('postgres', "UPDATE opt SET v = 'mine'");
is($here->safe_psql('postgres', 'BEGIN; SELECT DISTINCT status FROM ' . call('opt', 'pull', 'apply => true') . '; ROLLBACK; SELECT count(*) FROM opt WHERE v = \'mine\''),
	"applied\n20", 'a pull is part of the transaction that calls it');
$there->safe_psql('postgres', "UPDATE opt SET v = 'theirs' WHERE id = 12");
is(repair('opt', 'pull', "condition => 'id = 12', recheck => 1, apply => true"), 'update {"id": 12} applied', 'what is confirmed is applied');
repair('opt', 'push', 'apply => true');
same('opt', 'push');

# --- keys and shapes -----------------------------------------------------------------

# 075_random.pl, 072_repair_types.pl and IbltRepairs.pm have keys and tables of all kinds.

# rows of a key that is not unique
both("CREATE TABLE several (k int, v text, x point); INSERT INTO several VALUES (1, 'a', '(1,2)'), (1, 'a', '(1,2)'), (1, 'b', NULL), (2, 'x', NULL), (3, 'y', NULL)");
$there->safe_psql('postgres', "DELETE FROM several WHERE v = 'b' OR k = 3; INSERT INTO several VALUES (2, 'x', NULL), (1, 'c', '(3,4)'), (1, 'c', '(3,4)'), (4, NULL, NULL)");
is(repair('several', 'pull', "key_columns => '{k}', deletes => false, apply => true"),
	join("\n", 'delete {"k": 1} skipped deletes => false', 'delete {"k": 3} skipped deletes => false', 'insert {"k": 1} skipped deletes => false', 'insert {"k": 2} applied', 'insert {"k": 4} applied'),
	'a key with several rows is repaired as a whole');

# columns that are left out, and that the source lacks
both('CREATE TABLE wide (id int PRIMARY KEY, v text, own int DEFAULT 7); INSERT INTO wide SELECT g, g, g FROM generate_series(1, 50) g');
$here->safe_psql('postgres', 'ALTER TABLE wide ADD more int DEFAULT 8; UPDATE wide SET own = -1; DELETE FROM wide WHERE id = 9; UPDATE wide SET v = NULL WHERE id = 8');
is(repair('wide', 'pull', "exclude => '{own}', apply => true"), "insert {\"id\": 9} applied\nupdate {\"id\": 8} applied", 'exclude');
is($here->safe_psql('postgres', 'SELECT own, more, v FROM wide WHERE id IN (8, 9) ORDER BY id'), "-1|8|8\n7|8|9", 'columns left out are not written, or get their default');

# types that differ
both('CREATE TABLE cast_ (id int PRIMARY KEY, n numeric(10,2), v varchar(20), at date); INSERT INTO cast_ SELECT g, g, g, \'2026-01-01\' FROM generate_series(1, 50) g');
$there->safe_psql('postgres', "ALTER TABLE cast_ ALTER id TYPE bigint, ALTER n TYPE int, ALTER v TYPE varchar(5); UPDATE cast_ SET n = 77, v = 'short' WHERE id = 7; DELETE FROM cast_ WHERE id = 9");
like(failure('SELECT * FROM ' . call('cast_', 'push')), qr/42804: column types differ/, 'types that differ are an error');
is(repair('cast_', 'push', 'cast_types => true, apply => true'), "insert {\"id\": 9} applied\nupdate {\"id\": 7} applied", 'cast_types');
same('cast_', 'cast_types', 'id::int, n::int, v, at');
$here->safe_psql('postgres', "UPDATE cast_ SET v = 'longer than five' WHERE id = 1");
{
	my $before = contents($there, 'cast_');
	like(failure('SELECT * FROM ' . call('cast_', 'push', 'cast_types => true, apply => true')), qr/22001: on the peer: value too long for type character varying\(5\)/, 'a value that does not fit is an error, not cut');
	$here->safe_psql('postgres', "UPDATE cast_ SET v = '1', n = 0.5 WHERE id = 1");
	like(failure('SELECT * FROM ' . call('cast_', 'push', 'cast_types => true, apply => true')), qr/22P02: on the peer: invalid input syntax for type integer/, 'nor rounded');
	is(contents($there, 'cast_'), $before, 'and nothing was changed');
}
both('CREATE TABLE scale (id int PRIMARY KEY, at timestamp); INSERT INTO scale SELECT g, \'2026-01-01 00:00:00.25\'::timestamp FROM generate_series(1, 5) g');
$there->safe_psql('postgres', 'ALTER TABLE scale ALTER at TYPE timestamp(0)');
{
	my $before = contents($there, 'scale');
	like(failure('SELECT * FROM ' . call('scale', 'push', 'apply => true')), qr/27000: after the repair, the rows of 5 keys are not as on the source/, 'a modifier that rounds is an error');
	is(contents($there, 'scale'), $before, 'and nothing was changed');
}

# in one database
$here->safe_psql('postgres', "CREATE TABLE opt_b AS TABLE opt; ALTER TABLE opt_b ADD PRIMARY KEY (id); UPDATE opt_b SET v = 'b' WHERE id < 5; DELETE FROM opt_b WHERE id = 7");
is(repair('opt', 'push', "peer_relation => 'opt_b', deletes => false, updates => false, apply => true", peer => 'NULL'),
	join("\n", 'insert {"id": 7} applied', map { "update {\"id\": $_} skipped updates => false" } 1, 2, 4), 'peer => NULL, push');
is(repair('opt', 'pull', "peer_relation => 'opt_b', apply => true", peer => 'NULL'), join("\n", map { "update {\"id\": $_} applied" } 1, 2, 4), 'peer => NULL, pull');
is($here->safe_psql('postgres', 'SELECT count(*) FROM (TABLE opt EXCEPT TABLE opt_b) x; SELECT count(*) FROM opt'), "0\n20", 'they are equal');

# --- what cannot be repaired -----------------------------------------------------------

$here->safe_psql('postgres', q{CREATE VIEW v_opt AS TABLE opt; CREATE TABLE heirs (id int PRIMARY KEY, v text); CREATE TABLE heir () INHERITS (heirs);
	CREATE EXTENSION IF NOT EXISTS postgres_fdw; CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw; CREATE FOREIGN TABLE f_opt (id int, v text) SERVER loop});
like(failure('SELECT * FROM ' . call('v_opt', 'pull', "peer_relation => 'opt', key_columns => '{id}'")), qr/42809: public.v_opt cannot be repaired: it is a view/, 'a view');
like(failure('SELECT * FROM ' . call('heirs', 'pull', "peer_relation => 'opt'")), qr/42809: public.heirs cannot be repaired: it is a table that others inherit from/, 'a parent');
like(failure('SELECT * FROM ' . call('f_opt', 'pull', "peer_relation => 'opt'")), qr/42809: public.f_opt cannot be repaired: it is a foreign table/, 'a foreign table');
like(repair('v_opt', 'push', "peer_relation => 'opt', key_columns => '{id}'"), qr/preview/, 'but a view can be the source');
like(failure("SELECT * FROM iblt_repair('opt', $_, direction => 'pull', condition => 'id < 3', peer_condition => 'id < 4')"), qr/22023: a relation cannot be repaired from itself/, 'from itself')
  foreach ('NULL', conninfo($here));

# --- names, search_path --------------------------------------------------------------------

my $odd = qq{"Sch\x{c3}\x{a9}ma ""x'"."t %I \\ \$1 %s"};
both(qq{CREATE SCHEMA "Sch\x{c3}\x{a9}ma ""x'"; CREATE TABLE $odd ("ID key" int, "caf\x{c3}\x{a9}'s %s" text, t int, "select" text, PRIMARY KEY ("ID key", t));
	INSERT INTO $odd SELECT g, 'v', g FROM generate_series(1, 100) g});
foreach my $direction ('pull', 'push')
{
	$there->safe_psql('postgres', qq{UPDATE $odd SET "caf\x{c3}\x{a9}'s %s" = '\x{c3}\x{a9}' || random() WHERE t = 50; DELETE FROM $odd WHERE t = (SELECT max(t) FROM $odd); INSERT INTO $odd SELECT min("ID key") - 9, NULL, 7 FROM $odd});
	is(lines(repair($odd, $direction, 'apply => true')), 3, 'names with quotes, spaces, upper case, non-ASCII');
	same($odd, $direction);
}
both(q{CREATE TABLE k_none (a int, b text, c json); INSERT INTO k_none SELECT g % 100, nullif('dup ' || g % 50, 'dup 7'), '{"a": 1}' FROM generate_series(1, 600) g;
	CREATE SCHEMA evil; CREATE FUNCTION evil.bad(int, int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	CREATE OPERATOR evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.bad); CREATE DOMAIN evil.int4 AS int CHECK (VALUE IS NULL); CREATE DOMAIN evil.text AS pg_catalog.text CHECK (VALUE IS NULL);
	CREATE FUNCTION evil.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql AS 'SELECT 1/0; SELECT $1';
	CREATE FUNCTION evil.generate_series(int, int) RETURNS SETOF int LANGUAGE sql AS 'SELECT 1/0';
	ALTER DATABASE postgres SET search_path = evil, pg_catalog, public});
$there->safe_psql('postgres', "SET search_path = public; UPDATE opt SET v = 'x' || random() WHERE id = 8; DELETE FROM opt WHERE id OPERATOR(pg_catalog.=) 4; INSERT INTO k_none VALUES (-1, NULL, NULL), (-1, NULL, NULL)"
	=~ s/id = 8/id OPERATOR(pg_catalog.=) 8/r);
foreach my $table ('opt', 'k_none')
{
	my $sql = $here->safe_psql('postgres', "SELECT sql FROM public." . call("public.$table", 'pull'));
	my $shown = $here->safe_psql('postgres', "BEGIN; $sql $plain_settings SELECT t::text FROM public.$table AS t ORDER BY t::text COLLATE \"C\"; ROLLBACK");
	is($shown, contents($there, "public.$table"), "$table: what is shown is right under a hostile search_path");
	$here->safe_psql('postgres', 'SELECT * FROM public.' . call("public.$table", 'pull', 'apply => true'));
	same("public.$table", 'a hostile search_path on both sides');
}
both('ALTER DATABASE postgres RESET search_path; DROP SCHEMA evil CASCADE');

# --- how many --------------------------------------------------------------------------------

# so many that the relations are scanned twice, the second time with another seed, of which hashes of keys depend
both('CREATE TABLE hashed (id text PRIMARY KEY, v int)');
$there->safe_psql('postgres', "INSERT INTO hashed SELECT 'key ' || g, g FROM generate_series(1, 65000) g");
is($here->safe_psql('postgres', 'SELECT status, count(*) FROM ' . call('hashed', 'pull', 'apply => true') . ' GROUP BY status'), 'applied|65000', '65,000 keys by hash');
same('hashed', 'keys by hash');

# --- a standby ---------------------------------------------------------------------------------

my $standby = standby($there, 'standby');
$here->safe_psql('postgres', "UPDATE opt SET v = 'here' WHERE id = 1");
replayed($there, $standby);
my $standby_peer = conninfo($standby);
$there->safe_psql('postgres', 'ALTER DATABASE postgres SET default_transaction_read_only = on');
like(failure('SELECT * FROM ' . call('opt', 'push', 'apply => true')), qr/25006: public.opt cannot be repaired: the peer has default_transaction_read_only = on/, 'a server that is to be read only cannot be the target');
is(repair('opt', 'push'), 'update {"id": 1} preview', 'but a preview is possible there');
$there->safe_psql('postgres', 'SET default_transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only');
like(failure('SELECT * FROM ' . call('opt', 'push', 'apply => true', $standby_peer)), qr/25006: public.opt cannot be repaired: the peer is a standby/, 'a standby cannot be the target');
is(repair('opt', 'push', '', peer => $standby_peer), 'update {"id": 1} preview', 'but a preview is possible');
is(repair('opt', 'pull', 'apply => true', peer => $standby_peer), 'update {"id": 1} applied', 'and it can be the source');
same('opt', 'from a standby');
$standby->stop;

# --- columns of names that statements use --------------------------------------------------------

# As keys, as contents and without a table in conditions.  The names are all words of the statements that a
# peer gets, so that a new one is not forgotten.
my $peer = conninfo($there);
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

# tables with columns of these names
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
like(failure("SELECT * FROM iblt_audit($peer, tables => '{mapped}', mappings => '$_')"), qr/22023: mappings must be a JSON object of tables/, "not a mapping: $_") foreach ('[]', '{"mapped": 1}', '{"mapped": {"columns": {}}}', '{"mapped": {"exclude": "id"}}', '{"mapped": {"exclude": [1]}}');
# columns that an audit leaves out, and a run and its repair
both('CREATE TABLE visits (id int PRIMARY KEY, v int, seen int); INSERT INTO visits SELECT g, g, g FROM generate_series(1, 9) g');
$there->safe_psql('postgres', 'UPDATE visits SET seen = 0 WHERE id > 3; UPDATE visits SET v = 0 WHERE id = 5; INSERT INTO visits VALUES (10, 10, 10)');
my $seen = q{mappings => '{"public.visits": {"exclude": ["seen"]}}'};
like($here->safe_psql('postgres', "SELECT changed, missing, detail FROM iblt_audit($peer, tables => '{visits}', $seen$_)"), qr/^1\|1\|(?:compared by plain .*; )?columns left out: "seen"$/, "an audit without a column$_") foreach '', ", method => 'plain'";
is($here->safe_psql('postgres', "SELECT changed FROM iblt_audit($peer, tables => '{visits}')"), 6, 'with it');
like(failure("SELECT detail FROM iblt_audit($peer, tables => '{visits}', mappings => '{\"public.visits\": {\"exclude\": [\"seem\"]}}')") || $here->safe_psql('postgres', "SELECT detail FROM iblt_audit($peer, tables => '{visits}', mappings => '{\"public.visits\": {\"exclude\": [\"seem\"]}}')"), qr/seem/, 'a column that is not there');
$run = $here->safe_psql('postgres', "CALL iblt_audit_run($peer, tables => '{visits}', $seen, rows => 'columns')");
is($here->safe_psql('postgres', "SELECT changed, missing FROM iblt_audit_tables WHERE run = $run; SELECT key, differs FROM iblt_audit_differences WHERE run = $run ORDER BY (key ->> 'id')::int"), "1|1\n{\"id\": 5}|{v}\n{\"id\": 10}|", 'a run');
$here->safe_psql('postgres', "SELECT count(*) FROM iblt_repair(peer => $peer, run => $run, direction => 'pull', apply => true)");
is($here->safe_psql('postgres', 'SELECT * FROM visits WHERE id IN (4, 5, 10) ORDER BY id'), "4|4|4\n5|0|5\n10|10|", 'and its repair leave it alone');

repair('mapped', 'pull', "exclude => '{price,email}', $mapping, apply => true");
is($here->safe_psql('postgres', 'SELECT n FROM mapped WHERE id = 7'), '0', 'a pull writes the names of this side');
repair('mapped', 'push', "exclude => '{email}', $mapping, apply => true");
is($there->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE unit_price = item * 1.234) FROM mapped'), '299|299', 'a push those of the other side');

# --- tables without columns ----------------------------------------------------------------------

# Their rows are all the same, and there are more of them or fewer.  And tables whose columns are
# all generated, whose rows need no values.
sub fill
{
	my ($node, $number) = @_;
	$node->safe_psql('postgres', "TRUNCATE bare; INSERT INTO bare SELECT FROM generate_series(1, $number)");
	return;
}

sub rows_of { my ($node, $table) = @_; return $node->safe_psql('postgres', "SELECT count(*) FROM $table") }

both('CREATE TABLE bare ()');
is(compare("'bare'"), '', 'no rows on either side: equal');
foreach my $case ([ 7, 7, '' ], [ 1, 0, '{} here 1 0' ], [ 0, 3, '{} there 0 3' ], [ 5, 4, '{} both 5 4' ], [ 70000, 3, '{} both 70000 3' ])
{
	my ($mine, $theirs, $differences) = @$case;
	fill($here, $mine);
	fill($there, $theirs);
	is(compare("'bare'"), $differences, "$mine and $theirs rows");
	is(compare("'bare'", 'rows => true, recheck => 1'), $differences, 'looked at again, and with the rows');
}
is($here->safe_psql('postgres', "SELECT status, rows_here, rows_there, changed FROM iblt_audit($peer, tables => '{bare}')"), 'differs|70000|3|1', 'in an audit');
is($here->safe_psql('postgres', "SELECT key, here, there, confirmed FROM iblt_compare('bare', $peer, rows => true, recheck => 1)"), '{}|{}|{}|t', 'the row that they share is {}');
is(compare("'bare'", "condition => 'false', peer_condition => 'false'"), '', 'a condition that is true of no row');
is(compare("'bare'", "condition => 'false', peer_condition => 'true'"), '{} there 0 3', 'a condition on one side');

foreach my $case ([ 4, 9 ], [ 5, 4 ], [ 0, 1 ])
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

both('CREATE TABLE made (v int GENERATED ALWAYS AS (7) STORED); CREATE TABLE made_key (v int GENERATED ALWAYS AS (7) STORED PRIMARY KEY)');
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
