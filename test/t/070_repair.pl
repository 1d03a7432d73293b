# iblt_repair on real servers: after it, the target's rows are the source's, for
# every kind of key and table; what its options choose, and what it refuses.
use IbltRepair;

random_seed();
my ($here, $there) = repair_servers();
both(q{CREATE TYPE "E num" AS ENUM ('it''s', 'other')});

# --- options -----------------------------------------------------------------------

both("CREATE TABLE opt (id int PRIMARY KEY, v text); INSERT INTO opt SELECT g, 'v' || g FROM generate_series(1, 20) g");
$there->safe_psql('postgres', "DELETE FROM opt WHERE id = 3; UPDATE opt SET v = NULL WHERE id = 5; INSERT INTO opt VALUES (30, 'new')");
my $opt_before = contents($here, 'opt');
is(repair('opt', 'pull'), "delete {\"id\": 3} preview\ninsert {\"id\": 30} preview\nupdate {\"id\": 5} preview", 'a preview is the default');
is(contents($here, 'opt'), $opt_before, 'and changes nothing');
is(repair('opt', 'pull', 'updates => false, deletes => false, apply => true'),
	"delete {\"id\": 3} skipped deletes => false\ninsert {\"id\": 30} applied\nupdate {\"id\": 5} skipped updates => false", 'insert only');
is($here->safe_psql('postgres', 'SELECT count(*), count(v), count(*) FILTER (WHERE id IN (3, 30)) FROM opt'), '21|21|2', 'that is what was done');
is(repair('opt', 'pull', 'deletes => false, inserts => false, apply => true'),
	"delete {\"id\": 3} skipped deletes => false\nupdate {\"id\": 5} applied", 'update only');
is($here->safe_psql('postgres', 'SELECT count(*) FROM ' . call('opt', 'pull', 'deletes => false, apply => true') . '; SELECT differences, settled, unconfirmed FROM iblt_compare_stats()'), "1\n1|0|0", 'what is skipped still counts as a difference, and not as settled');
is(repair('opt', 'pull', 'apply => true'), 'delete {"id": 3} applied', 'the rest');
same('opt', 'step by step');
is(repair('opt', 'pull', 'apply => true'), '', 'nothing is left to do');
is(repair('opt', 'push', 'apply => true'), '', 'nor the other way');
is($here->safe_psql('postgres', "SELECT rows_here, differences, relation FROM iblt_compare_stats()" =~ s/^/SELECT count(*) FROM ${\ call('opt', 'pull')}; /r), "0\n20|0|public.opt", 'iblt_compare_stats() knows of it');
like(failure('SELECT * FROM ' . call('opt', 'sideways')), qr/22023: direction must be pull or push/, 'another direction is an error');
like(failure('SELECT * FROM ' . call('opt', 'pull', 'apply => NULL')), qr/22023: updates, cascade, apply and as_replica must not be null/, 'so is NULL');
like(failure('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM ' . call('opt', 'pull', 'apply => true')), qr/25001: cannot apply a repair in a REPEATABLE READ/, 'and one snapshot');
$here->safe_psql('postgres', "UPDATE opt SET v = 'mine'");
is($here->safe_psql('postgres', 'BEGIN; SELECT DISTINCT status FROM ' . call('opt', 'pull', 'apply => true') . '; ROLLBACK; SELECT count(*) FROM opt WHERE v = \'mine\''),
	"applied\n20", 'a pull is part of the transaction that calls it');
is(lines(repair('opt', 'pull', "condition => 'id <= 7 -- not all', apply => true")), 6, 'condition: rows that it selects');
is($here->safe_psql('postgres', "SELECT count(*) FROM opt WHERE v = 'mine'"), '14', 'and no others');
$there->safe_psql('postgres', "UPDATE opt SET v = 'theirs' WHERE id = 12");
is(repair('opt', 'pull', "condition => 'id = 12', recheck => 1, timeout => '0', apply => true"),
	'update {"id": 12} skipped not confirmed: there was no time to look again', 'what is not confirmed is skipped');
is($here->safe_psql('postgres', "SELECT v FROM opt WHERE id = 12"), 'mine', 'and not changed');
is(repair('opt', 'pull', "condition => 'id = 12', recheck => 1, apply => true"), 'update {"id": 12} applied', 'what is confirmed is applied');
like(failure('SELECT * FROM ' . call('opt', 'pull', 'max_differences => 5')), qr/IB002: too many differences/, 'max_differences');
repair('opt', 'push', 'apply => true');
same('opt', 'push');

# --- keys and shapes -----------------------------------------------------------------

my @shapes = (
	[ 'k_pair', 'a text, v int, b date, PRIMARY KEY (b, a)', q{'it''s ' || g % 50, g, '2026-01-01'::date + g / 50}, 'v = v + 1', q{'new' || g, g, 'infinity'} ],
	[ 'k_text', 'id text PRIMARY KEY, v jsonb', q{'key \\ " ' || g, jsonb_build_object('g', g)}, q{v = NULL}, q{'NEW ' || g, '[]'} ],
	[ 'k_uuid', 'id uuid PRIMARY KEY, v bytea', q{md5(g::text)::uuid, int4send(g)}, q{v = ''}, q{md5('n' || g)::uuid, NULL} ],
	[ 'k_numeric', 'id numeric PRIMARY KEY, v text', q{g * 1.10, 'v'}, q{id = id * 1.00}, q{-g, NULL} ],
	[ 'k_char', 'id char(9) PRIMARY KEY, v char(5)', q{g, g % 100}, q{v = '  x'}, q{'n' || g, ''} ],
	[ 'k_enum', 'e "E num", id timestamptz, v float8, PRIMARY KEY (id, e)', q{'it''s', '2026-01-01'::timestamptz + g * interval '1.000001 s', g / 7.0}, q{v = v * 1.000000000001}, q{'it''s', '-infinity'::timestamptz + g * interval '0', 'NaN' WHERE g = 1} ],
	[ 'k_range', 'id int4range PRIMARY KEY, a int[]', q{int4range(g, g + 1), ARRAY[g, NULL]}, q{a = '{}'}, q{int4range(-g, NULL), NULL} ],
	[ 'k_unique', 'v text, id int NOT NULL UNIQUE', q{'v' || g, g}, q{v = v || '!'}, q{NULL, -g} ],
	[ 'k_generated', 'id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int, w int GENERATED ALWAYS AS (v * 2) STORED, x int GENERATED BY DEFAULT AS IDENTITY', undef, 'v = -v', undef ],
	[ 'k_none', 'a int, b text, c json', q{g % 100, nullif('dup ' || g % 50, 'dup 7'), '{"a": 1}'}, q{b = b || '?'}, q{g % 3, NULL, NULL} ],
	[ 'k_part', 'id int PRIMARY KEY, v text) PARTITION BY RANGE (id', q{g, 'v' || g}, q{v = NULL}, q{100000 + g, 'new'} ],
	[ 'k_part_none', 'id int, v text) PARTITION BY RANGE (id', q{g % 100, 'v' || g % 100}, q{v = NULL}, q{100000 + g % 2, 'new'} ],
);
foreach my $shape (@shapes)
{
	my ($table, $columns, $row, $spoil, $new) = @$shape;
	both('SET standard_conforming_strings = on; CREATE TABLE ' . "$table ($columns);"
		  . ($table =~ /part/ ? "CREATE TABLE ${table}_1 PARTITION OF $table FOR VALUES FROM (MINVALUE) TO (50); CREATE TABLE ${table}_2 PARTITION OF $table DEFAULT;" : '')
		  . (defined $row ? "INSERT INTO $table SELECT $row FROM generate_series(1, 600) g" : "INSERT INTO $table (v) SELECT g FROM generate_series(1, 600) g"));
	foreach my $direction ('pull', 'push')
	{
		foreach my $node ($here, $there)
		{
			my $random = rand();
			$node->safe_psql('postgres', "SET standard_conforming_strings = on; SELECT setseed($random); DELETE FROM $table WHERE (tableoid, ctid) IN (SELECT tableoid, ctid FROM $table ORDER BY random() LIMIT 9);
				UPDATE $table SET $spoil WHERE (tableoid, ctid) IN (SELECT tableoid, ctid FROM $table ORDER BY random() LIMIT 12)");
		}
		# rows on one side only: each time on the other one
		my $node = $direction eq 'pull' ? $there : $here;
		my ($select, $where) = split / WHERE /, $new // 'g';
		my $into = defined $new ? $table : "$table (v)";
		my ($low, $high) = $direction eq 'pull' ? (1, 7) : (11, 17);
		# (a repair does not move sequences)
		$node->safe_psql('postgres', "SELECT setval(pg_get_serial_sequence('$table', 'id'), (SELECT max(id) FROM $table))") if !defined $new;
		$node->safe_psql('postgres', "SET standard_conforming_strings = on; INSERT INTO $into SELECT $select FROM generate_series($low, $high) g" . ($where ? " WHERE $where" : ''))
		  unless $where && $direction eq 'push';
		my $source = $direction eq 'pull' ? $there : $here;
		my $truth = contents($source, $table);
		isnt(contents($here, $table), contents($there, $table), "$table: they differ");
		my $out = repair($table, $direction, 'apply => true');
		is(join(' ', sort keys %{ { map { / (applied|skipped)\b/ ? ($1 => 1) : ($_ => 1) } split /\n/, $out } }), 'applied', "$table, $direction: all is applied");
		is(contents($source, $table), $truth, "$table, $direction: the source is as it was");
		same($table, "$table, $direction");
	}
}

# rows of a key that is not unique
both("CREATE TABLE several (k int, v text, x point); INSERT INTO several VALUES (1, 'a', '(1,2)'), (1, 'a', '(1,2)'), (1, 'b', NULL), (2, 'x', NULL), (3, 'y', NULL)");
$there->safe_psql('postgres', "DELETE FROM several WHERE v = 'b' OR k = 3; INSERT INTO several VALUES (2, 'x', NULL), (1, 'c', '(3,4)'), (1, 'c', '(3,4)'), (4, NULL, NULL)");
is(repair('several', 'pull', "key_columns => '{k}', deletes => false, apply => true"),
	join("\n", 'delete {"k": 1} skipped deletes => false', 'delete {"k": 3} skipped deletes => false', 'insert {"k": 1} skipped deletes => false', 'insert {"k": 2} applied', 'insert {"k": 4} applied'),
	'a key with several rows is repaired as a whole');
is(repair('several', 'pull', "key_columns => '{k}', apply => true"),
	join("\n", 'delete {"k": 1} applied', 'delete {"k": 3} applied', 'insert {"k": 1} applied'), 'by deleting and inserting');
same('several', 'several rows of a key');

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
both(q{CREATE SCHEMA evil; CREATE FUNCTION evil.bad(int, int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
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

both('CREATE TABLE much (id int PRIMARY KEY, v text, f float8); INSERT INTO much SELECT g, md5(g::text), g / 7.0 FROM generate_series(1, 20000) g; ANALYZE much');
$there->safe_psql('postgres', "UPDATE much SET v = v || E'\\\\''' WHERE id % 8 = 0; DELETE FROM much WHERE id % 16 = 1; INSERT INTO much SELECT -g, NULL, sqrt(g) FROM generate_series(1, 1250) g");
my $truth = contents($there, 'much');
is(lines(repair('much', 'pull', 'apply => true')), 5000, '5,000 differences in one repair');
same('much', 'pull');
$here->safe_psql('postgres', 'UPDATE much SET f = -f WHERE id % 5 = 0');
is(lines(repair('much', 'push', 'apply => true')), $here->safe_psql('postgres', 'SELECT count(*) FROM much WHERE id % 5 = 0'), 'and back');
same('much', 'push');
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

like(failure(qq{SELECT "db ""link".dblink_connect('mine', ${\ conninfo($there)}); SELECT * FROM } . call('opt', 'pull', '', "'mine'")), qr/neither a foreign server nor a connection string|could not connect|missing "="/, 'a repair does not borrow a connection of the caller');
nothing_open('at the end');
is($here->safe_psql('postgres', q{SELECT coalesce("db ""link".dblink_get_connections(), '{}')}), '{}', 'no connection is left here');

done_testing();
