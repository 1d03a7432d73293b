# Cases at the edge of iblt_compare: keys that are not what they seem, names that
# could be taken for others, types whose owner is not to be trusted, and rows in
# flight that look as if they stood still.
use IbltTest;

# --- two servers ------------------------------------------------------------------

# The schema here is a format that wants arguments, should anything take it for one.
my $here = server('here');
my $there = server('there');
$here->safe_psql('postgres', 'CREATE SCHEMA "100%s"; CREATE EXTENSION dblink; CREATE EXTENSION iblt_audit SCHEMA "100%s" CASCADE; CREATE EXTENSION iblt_live SCHEMA "100%s"');
$there->safe_psql('postgres', 'CREATE TYPE oids_differ AS (a int); CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live');
my $peer = conninfo($there);
sides($here, $there);

# iblt_compare's rows as lines "key side here_count there_count", sorted.
sub compare
{
	my ($table, $options, %how) = @_;
	my $out = $here->safe_psql('postgres', ($how{setup} // '')
		  . qq{SELECT concat_ws(' ', key, side, here_count, there_count) FROM "100%s".iblt_compare('$table', $peer}
		  . ($options ? ", $options" : '') . ')');
	return join("\n", sort split /\n/, $out);
}

# The error of a comparison, with its SQLSTATE; '' if there is none.
sub compare_failure
{
	my ($table, $options, %how) = @_;
	return failure(($how{setup} // '') . qq{SELECT * FROM "100%s".iblt_compare('$table', $peer} . ($options ? ", $options" : '') . ')');
}

# --- keys -------------------------------------------------------------------------

both('CREATE TABLE simple (id int PRIMARY KEY, v text); INSERT INTO simple VALUES (1, \'x\')');
$there->safe_psql('postgres', "UPDATE simple SET v = 'y'");
is(compare('simple'), '{"id": 1} both 1 1', 'iblt in a schema with a % in its name');

# The columns asked for as key are some of a primary key's: they are not unique.
both('CREATE TABLE part_of_key (a int, b int, v text, PRIMARY KEY (a, b)); INSERT INTO part_of_key VALUES (1, 1, \'x\'), (2, 1, \'y\'), (2, 2, \'z\')');
$there->safe_psql('postgres', "INSERT INTO part_of_key VALUES (1, 2, 'x')");
is(compare('part_of_key', "key_columns => '{a}', columns => '{v}'"), '{"a": 1} both 1 2', 'one more row of a key that is a part of the primary key');
$there->safe_psql('postgres', "DELETE FROM part_of_key; INSERT INTO part_of_key VALUES (1, 1, 'x'), (2, 1, 'Y'), (2, 2, 'z')");
is(compare('part_of_key', "key_columns => '{a}'"), '{"a": 2} both 2 2', 'a changed row of such a key');
both('CREATE TABLE other_key (a int NOT NULL, b int NOT NULL, v text); INSERT INTO other_key VALUES (1, 1, \'x\'), (2, 1, \'y\')');
$here->safe_psql('postgres', 'ALTER TABLE other_key ADD PRIMARY KEY (a)');
$there->safe_psql('postgres', 'ALTER TABLE other_key ADD PRIMARY KEY (b, a); INSERT INTO other_key VALUES (1, 2, \'new\')');
is(compare('other_key'), '{"a": 1} both 1 2', 'a primary key with more columns there');
$here->safe_psql('postgres', 'ALTER TABLE other_key DROP CONSTRAINT other_key_pkey, ADD PRIMARY KEY (a, b)');
is(compare('other_key'), '{"a": 1, "b": 2} there 0 1', 'and with the same columns in another order');

# A domain is over int here and over bigint there.
$here->safe_psql('postgres', 'CREATE DOMAIN number AS int');
$there->safe_psql('postgres', 'CREATE DOMAIN number AS bigint');
both('CREATE TABLE domains (id number PRIMARY KEY, v number); INSERT INTO domains VALUES (1, 1), (2, 2)');
like(compare_failure('domains'), qr/42804: column types differ: "id" is public.number \(made of integer\) here and public.number \(made of bigint\) on the peer/,
	'domains of one name over different types are different types');
is(compare('domains', 'cast_types => true'), '', 'and can be cast');
both("CREATE TYPE colour AS ENUM ('red', 'green'); CREATE DOMAIN shade AS colour; CREATE TABLE shades (id shade PRIMARY KEY, v shade[]); INSERT INTO shades VALUES ('red', '{red,green}')");
is(compare('shades'), '', 'while those over an enum, which has another OID there, are the same');

# 147_types.pl has types of one name that are made of other types.
$here->safe_psql('postgres', 'CREATE TYPE same AS (a text, b shade[])');
$there->safe_psql('postgres', 'CREATE TYPE same AS (lost int, a text, b shade[]); ALTER TYPE same DROP ATTRIBUTE lost');
both("CREATE TABLE made (id int PRIMARY KEY, v same); INSERT INTO made VALUES (1, ROW('x', '{red}')::same), (2, NULL)");
is(compare('made'), '', 'a dropped column of a row makes no difference');

# Some extension's type has a send function here, and in the version there it has none yet.
both("CREATE TYPE unit; CREATE FUNCTION unit_in(cstring) RETURNS unit LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
	CREATE FUNCTION unit_out(unit) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out'");
$here->safe_psql('postgres', "CREATE FUNCTION unit_send(unit) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int4send';
	CREATE TYPE unit (INPUT = unit_in, OUTPUT = unit_out, SEND = unit_send, LIKE = int4)");
$there->safe_psql('postgres', 'CREATE TYPE unit (INPUT = unit_in, OUTPUT = unit_out, LIKE = int4)');
both("CREATE TYPE measure AS (u unit, n int); CREATE TABLE measured (id int PRIMARY KEY, v unit, w measure[]);
	INSERT INTO measured SELECT g, g::text::unit, ARRAY[ROW(g::text::unit, g)]::measure[] FROM generate_series(1, 20) g");
like(compare_failure('measured'), qr/42804: column types differ: "v" is public.unit here and public.unit on the peer, which has a send function on one side only; "w" is public.measure\[\]/,
	'a type with a send function on one side only is another type');
is(compare('measured', "columns => '{id}'"), '', 'unless it is left out');
is(compare('measured', 'cast_types => true'), '', 'and can be compared as text');
$there->safe_psql('postgres', "UPDATE measured SET v = '99' WHERE id = 7");
is(compare('measured', 'cast_types => true'), '{"id": 7} both 1 1', 'with the differences there are');
$there->safe_psql('postgres', "DROP TABLE measured; DROP TYPE measure; DROP TYPE unit CASCADE; CREATE TYPE unit;
	CREATE FUNCTION unit_in(cstring) RETURNS unit LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
	CREATE FUNCTION unit_out(unit) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
	CREATE FUNCTION unit_send(unit) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int4send';
	CREATE TYPE unit (INPUT = unit_in, OUTPUT = unit_out, SEND = unit_send, LIKE = int4);
	CREATE TYPE measure AS (u unit, n int); CREATE TABLE measured (id int PRIMARY KEY, v unit, w measure[]);
	INSERT INTO measured SELECT g, g::text::unit, ARRAY[ROW(g::text::unit, g)]::measure[] FROM generate_series(1, 20) g");
is(compare('measured'), '', 'with one on both sides it is the same type');

# A row too many of a unique key is never taken for equal.
both('CREATE TABLE deferred (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text); INSERT INTO deferred VALUES (1, \'x\'), (2, \'y\')');
like(compare_failure('deferred', undef, setup => "BEGIN; INSERT INTO deferred VALUES (1, 'x');"), qr/21000: rows have the same key \(here\), although it is unique/, 'a unique key that is violated');

# 0 and -0: one key to an index, two in a sketch
foreach my $type ('float4', 'float8')
{
	both("CREATE TABLE zero_$type (f $type, i int, v int, PRIMARY KEY (f, i)); INSERT INTO zero_$type VALUES (0, 1, 1), ('NaN', 1, 1), ('-Infinity', 1, 1), (1, 1, 1)");
	$there->safe_psql('postgres', "UPDATE zero_$type SET f = '-0' WHERE f = 0; UPDATE zero_$type SET v = 2 WHERE f = 'NaN'");
	is(compare("zero_$type"), join("\n", sort '{"f": 0, "i": 1} here 1 0', '{"f": 0, "i": 1} there 0 1', '{"f": "NaN", "i": 1} both 1 1'),
		"$type: -0 is told from 0, each once");
}

both('CREATE TABLE db (id int PRIMARY KEY)');
like(compare_failure('simple', "peer_relation => 'db.public.simple'"), qr/0A000: on the peer: cross-database references are not implemented: "db.public.simple"/, 'the database in peer_relation is not taken for the table');
like(compare_failure('simple', "peer_relation => 'public.absent'"), qr/42P01: relation public.absent does not exist on the peer/, 'a peer_relation that is not there');

# The owner of a table, and of its types, makes casts that to_jsonb finds.
both(q{CREATE ROLE mallory; GRANT CREATE, USAGE ON SCHEMA public TO mallory; SET ROLE mallory;
	CREATE TYPE hostile AS ENUM ('a', 'b'); CREATE TYPE wrapped AS (i int, h hostile[]); CREATE DOMAIN covered AS hostile;
	CREATE FUNCTION to_json_of(hostile) RETURNS json LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	CREATE FUNCTION to_text_of(hostile) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
	CREATE CAST (hostile AS json) WITH FUNCTION to_json_of(hostile); CREATE CAST (hostile AS text) WITH FUNCTION to_text_of(hostile);
	CREATE TABLE bait (id int PRIMARY KEY, h hostile); INSERT INTO bait VALUES (1, 'a'), (2, 'a');
	CREATE TABLE bait_key (h covered PRIMARY KEY); INSERT INTO bait_key VALUES ('a'), ('b');
	CREATE TABLE bait_row (w wrapped); INSERT INTO bait_row VALUES (ROW(1, '{a}')), (ROW(2, '{b}'));
	CREATE TABLE bait_cast (id int PRIMARY KEY, h hostile); INSERT INTO bait_cast VALUES (1, 'a'), (2, 'a')});
$there->safe_psql('postgres', q{DELETE FROM bait WHERE id = 2; DELETE FROM bait_key WHERE h::hostile = 'b'; DELETE FROM bait_row WHERE (w).i = 2;
	ALTER TABLE bait_cast ALTER h TYPE varchar USING 'a'});
is(compare('bait'), '{"id": 2} here 1 0', 'a column of a type with a hostile cast is compared, for no value is cast');
my $code = qr/42501: refusing to run function (public\.)?to_(json|text)_of\((public\.)?hostile\) of role "mallory"/;
like(compare_failure('bait', 'rows => true'), $code, 'but not shown');
like(compare_failure('bait_key'), $code, 'nor is it a key');
like(compare_failure('bait_row'), $code, 'nor where it is inside of a column');
like(compare_failure('bait_cast', 'cast_types => true'), $code, 'nor cast');
both('ALTER FUNCTION to_json_of(hostile) OWNER TO CURRENT_USER; CREATE OR REPLACE FUNCTION to_json_of(hostile) RETURNS json LANGUAGE sql AS \'SELECT to_json(1)\'');
is(compare('bait', 'rows => true'), '{"id": 2} here 1 0', 'a superuser is trusted');

# A foreign table among the children has no row versions to look at, and may show the
# same rows until the end of the transaction.
both('CREATE TABLE parent (id int PRIMARY KEY, v text); INSERT INTO parent VALUES (1, \'x\')');
$here->safe_psql('postgres', q{CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
	CREATE FOREIGN TABLE child () INHERITS (parent) SERVER files OPTIONS (program 'echo 5,x', format 'csv')});
is(compare('parent'), '{"id": 5} here 1 0', 'a foreign table that inherits');
like(compare_failure('parent', 'recheck => 1'), qr/0A000: cannot recheck differences in foreign tables/, 'is not looked at again');

# --- replication --------------------------------------------------------------------------

# An asynchronous commit stays in flight until the publisher's WAL writer comes round,
# if no buffer is evicted that takes its WAL along.
$there->append_conf('postgresql.conf', "wal_writer_delay = 5s\nshared_buffers = 64MB");
$there->restart;
both('CREATE TABLE moving (id int PRIMARY KEY, v int)');
$there->safe_psql('postgres', 'INSERT INTO moving SELECT g, g FROM generate_series(1, 10) g; CREATE PUBLICATION moving FOR TABLE moving');
$here->safe_psql('postgres', "CREATE SUBSCRIPTION moving CONNECTION $peer PUBLICATION moving");
$here->poll_query_until('postgres', "SELECT count(*) = 1 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel") or die 'not ready';
$here->safe_psql('postgres', 'UPDATE moving SET v = 0 WHERE id = 3');
foreach my $try (1 .. 2)
{
	$there->safe_psql('postgres', "SET synchronous_commit = off; UPDATE moving SET v = -$try WHERE id = 7");
	is($here->safe_psql('postgres', qq{SELECT key, confirmed FROM "100%s".iblt_compare('moving', $peer)}), '{"id": 3}|t',
		'an asynchronous commit is waited for, and a difference is confirmed');
}

# The rows of a child that is still copied are in flight, too.
both('CREATE TABLE family (id int PRIMARY KEY); CREATE TABLE heir (PRIMARY KEY (id)) INHERITS (family)');
$here->safe_psql('postgres', 'INSERT INTO heir VALUES (1)');
$there->safe_psql('postgres', 'INSERT INTO heir VALUES (1), (2); CREATE PUBLICATION family FOR TABLE family');
$here->safe_psql('postgres', "CREATE SUBSCRIPTION family CONNECTION $peer PUBLICATION family");
wait_for($here, "SELECT srsubstate = 'r' FROM pg_subscription_rel WHERE srrelid = 'family'::regclass");
{
	my ($rc, $out, $err) = $here->psql('postgres', qq{SELECT key, confirmed FROM "100%s".iblt_compare('family', $peer)});
	is($out, '{"id": 2}|f', 'a table that inherits is not copied yet: nothing is confirmed');
	like($err, qr/WARNING:  replication of this relation is not ready/, 'with a warning');
}
$here->safe_psql('postgres', 'DELETE FROM heir');
$here->poll_query_until('postgres', "SELECT count(*) = 3 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel") or die 'not ready';
is(compare('family'), '', 'and once it is copied, all is equal');

$here->safe_psql('postgres', 'CREATE TABLE twin AS SELECT * FROM family');
is($here->safe_psql('postgres', qq{SELECT count(*) FROM "100%s".iblt_compare('family', ${\ conninfo($here)}, 'twin')}), '0', 'another relation of this server is no mistake');

# An index is not read because a scan costs more than the planner takes it for when it may not.
both(q{CREATE TABLE dear (id int PRIMARY KEY, c int); INSERT INTO dear SELECT g, g % 10 FROM generate_series(1, 20000) g; CREATE INDEX dear_c ON dear (c);
	CREATE FUNCTION dear(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 1e9 AS 'BEGIN RETURN true; END'});
unnoticed($there, 'dear_c', 'INSERT INTO dear VALUES (30001, 3)');
is($here->safe_psql('postgres', qq{SELECT key, side FROM "100%s".iblt_compare('dear', $peer, condition => 'c = 3 AND public.dear(id)')}), '{"id": 30001}|there', 'a damaged index, where a scan is dear');

done_testing();
