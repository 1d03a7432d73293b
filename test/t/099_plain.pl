# method => 'plain': the peer's database has no iblt, and the role there may only read.
use IbltAudit;
use IbltCompare;
use IbltRuns ();

random_seed();

my ($here, $there) = map { server($_) } qw(here there);
inside($here, $there);
sides($here, $there);
$here->safe_psql('postgres', 'CREATE SCHEMA "db ""link"; CREATE EXTENSION dblink SCHEMA "db ""link"; CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live');
# Settings of the role that would change the texts of values, and names that would be
# taken for built-in ones.
$there->safe_psql('postgres', q{
	CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader;
	CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO reader;
	CREATE FUNCTION evil.hashtextextended(text, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
	CREATE FUNCTION evil.concat(VARIADIC text[]) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
	CREATE FUNCTION evil.same(text, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''evil''; END';
	CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.same);
	ALTER ROLE reader SET default_transaction_read_only = off; ALTER ROLE reader SET search_path = evil, pg_catalog; ALTER ROLE reader SET DateStyle = 'German'; ALTER ROLE reader SET IntervalStyle = 'sql_standard';
	ALTER ROLE reader SET TimeZone = 'Asia/Tokyo'; ALTER ROLE reader SET extra_float_digits = -5; ALTER ROLE reader SET bytea_output = 'escape';
	ALTER ROLE reader SET array_nulls = off; ALTER ROLE reader SET default_transaction_isolation = 'serializable';
	ALTER ROLE reader SET log_statement = 'all'});
$there->safe_psql('postgres', $_) foreach before(19, 'ALTER ROLE reader SET standard_conforming_strings = off');
my $peer = literal($there->connstr('postgres') . ' user=reader');

# Most comparisons are made by one session, for a new one would compile all functions again.
my $session = IbltTest::Session->new($here);
sub query { return $session->checked(@_) }

sub plain
{
	my ($relation, $options) = @_;
	return join("\n", sort split /\n/, query("SELECT concat_ws(' ', key, side, here_count, there_count) FROM iblt_compare($relation, $peer, method => 'plain'" . ($options ? ", $options" : '') . ')'));
}

sub refused
{
	my ($expected, $relation, $options, $text) = @_;
	$session->run("SELECT * FROM iblt_compare($relation, $peer, method => 'plain'" . ($options ? ", $options" : '') . ')');
	return like($session->{err}, $expected, $text);
}

# The progress messages of a comparison.
sub stages
{
	my ($relation) = @_;
	query("SELECT * FROM iblt_compare($relation, $peer, method => 'plain', progress => true)");
	return $session->{err};
}

# --- types ------------------------------------------------------------------------------

# Values of each type, which differ from each other.
my @types = ([ 'bool', qw(t f) ], [ 'bytea', '', '\x00', '\x0001', '\x5c' ], [ 'name', '', 'a', 'A' ], [ 'int8', 0, -1, '9223372036854775807', '-9223372036854775808' ],
	[ 'int2', 0, -32768 ], [ 'int4', 0, 1, -1 ], [ 'text', '', ' ', 'NULL', 'null', '"', '\\', '(,)', "a\nb", 'é', 'e' . "\x{cc}\x{81}", '{}', "it's" ],
	[ 'oid', 0, '4294967295' ], [ 'json', '1', '1.0', '{"a":1}', '{"a": 1}', '{"a":1,"a":2}', 'null', '"\u0061"', '"a"' ],
	[ 'point', '(0,0)', '(-0,0)', '(NaN,1)', '(0.1,0.30000000000000004)', '(0.1,0.3)' ], [ 'lseg', '[(0,0),(1,1)]', '[(1,1),(0,0)]' ],
	[ 'path', '((0,0),(1,1))', '[(0,0),(1,1)]' ], [ 'box', '(1,1),(0,0)', '(2,1),(0,0)' ], [ 'polygon', '((0,0),(1,1))', '((1,1),(0,0))' ],
	[ 'line', '{1,2,3}', '{2,4,6}' ], [ 'circle', '<(0,0),1>', '<(0,0),-0>' ], [ 'cidr', '10.0.0.0/8', '10.0.0.0/9', '::/0' ],
	[ 'inet', '10.0.0.1', '10.0.0.1/31', '::1', '::ffff:10.0.0.1' ], [ 'float4', '0', '-0', 'NaN', 'Infinity', '-Infinity', '0.1', '0.10000001', '1e-45' ],
	[ 'float8', '0', '-0', 'NaN', 'Infinity', '0.1', '0.10000000000000002', '5e-324', '1.7976931348623157e308' ], [ 'macaddr8', '08:00:2b:01:02:03:04:05', '08:00:2b:01:02:03:04:06' ],
	[ 'macaddr', '08:00:2b:01:02:03', '08:00:2b:01:02:04' ], [ 'character(5)', 'a', 'b', '', ' a' ], [ 'varchar', 'a', 'a ', '' ],
	[ 'date', '2000-01-01', 'infinity', '-infinity', '0001-01-01 BC', '0001-01-01' ], [ 'time', '00:00', '24:00', '12:00:00.000001' ],
	[ 'timestamp', '2000-01-01', '2000-01-01 00:00:00.000001', 'infinity', '-infinity', '0044-03-15 BC' ],
	[ 'timestamptz', '2000-01-01 00:00+00', '2000-01-01 00:00+09', 'infinity', '-infinity' ],
	[ 'interval', '1 mon', '30 days', '720:00', '1 year', '-1 mon', '1 mon -30 days', '-1 day +24:00', '00:00', '0.000001 s', '-0.000001 s', '1 day', '24:00' ],
	[ 'timetz', '12:00+00', '12:00+01', '13:00+01', '12:00:00+00:00:01' ], [ 'bit(3)', '000', '100', '001' ], [ 'varbit', '', '0', '00', '1' ],
	[ 'numeric', '1', '1.0', '1.00', '0', '0.0', 'NaN', 'Infinity', '-Infinity', '1e30', '-1' ],
	[ 'uuid', '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000001' ], [ 'pg_lsn', '0/0', '1/0', '0/1' ],
	[ 'tsvector', '', 'a', 'a:1', 'a:1A', 'a b', q{'a b'}, q{'a'':1'} ], [ 'jsonb', '1', '1.0', '{"a": 1}', '[1]', 'null', '"null"', '{}', '[]', '{"a": "1"}' ],
	[ 'int4range', 'empty', '[1,2)', '(,2)', '(,)', '[1,)' ], [ 'numrange', '[1,2)', '[1,2]', '[1.0,2)', '(1,2)', 'empty' ], [ 'int8range', 'empty', '[1,2)' ],
	[ 'tsrange', '[2000-01-01,infinity)', '[2000-01-01,)', '(,)', '[2000-01-01,infinity]' ], [ 'tstzrange', '[2000-01-01 00:00+00,)', '[2000-01-01 00:00+01,)' ],
	[ 'daterange', '[2000-01-01,2000-01-02)', 'empty' ], [ 'int4multirange', '{}', '{[1,2)}', '{[1,2),[4,5)}' ], [ 'int8multirange', '{}', '{[1,2)}' ],
	[ 'nummultirange', '{}', '{[1,2)}', '{[1.0,2)}' ], [ 'tsmultirange', '{}', '{[2000-01-01,)}' ], [ 'tstzmultirange', '{}', '{[2000-01-01 00:00+00,)}' ],
	[ 'datemultirange', '{}', '{[2000-01-01,)}' ],
	[ 'int4[]', '{}', '{NULL}', '{1}', '{{1}}', '{1,2}', '{{1,2}}', '{{1},{2}}', '[0:1]={1,2}', '[2:3]={1,2}' ], [ 'text[]', '{}', '{NULL}', '{"NULL"}', '{""}', '{"a,b"}', '{a,b}', '{"{}"}', '{"\""}' ],
	[ 'box[]', '{(1,1),(0,0)}', '{(1,1),(0,0);(1,1),(0,0)}' ], [ 'numeric[]', '{1}', '{1.0}' ], [ 'bpchar[]', '{a}', '{"a "}' ], [ 'varbit[]', '{101}', '{1}' ], [ 'jsonb[]', '{1}', '{1.0}', '{NULL}', '{"null"}' ],
	[ 'public.mood', 'sad', 'ok' ], [ 'public.mood[]', '{sad}', '{ok}', '{}', '{NULL}' ], [ 'public.shout', 'A', 'B', '' ], [ 'public.letters', 'a', 'b' ], [ 'public.moody', 'sad', 'ok' ],
	[ 'public.citext', 'a', 'A', '' ], [ 'public.citext[]', '{a}', '{A}' ], [ 'public.anycase', 'a', 'A' ], [ 'public.hstore', '', 'a=>1', 'a=>NULL', 'a=>"NULL"', '"a"=>"1", "b"=>"2"', '"a=>1"=>2' ], [ 'public.ltree', '', 'a.b', 'a_b' ],
	[ 'money', '1', '1.01', '-1' ], [ 'money[]', '{}', '{1}', '{1.01}' ], [ '"char"', '', 'a', 'A', '\\\\377' ], [ '"char"[]', '{}', '{a}' ], [ 'xml[]', '{<a/>}', '{<b/>}' ], [ 'xml', '<a/>', '<a></a>', '<a b="1"/>' ], [ 'public.twin', '(1,)', '(,1)', '(1,"")', '(1,"a,b")', '(1,"(1,a)")' ], [ 'public.twin[]', '{}', '{"(1,)"}', '{"(1,\\"\\")"}' ],
	[ 'public.floats', 'empty', '[0,1)', '[0,1]', '[-0,1)', '(,)' ], [ 'public.floatss', '{}', '{[0,1)}' ]);
my @values;
my $id = 0;
foreach my $n (0 .. $#types)
{
	my ($type, @all) = @{ $types[$n] };
	@all = ('NULL', map { "E'" . s/\\/\\\\/gr =~ s/'/''/gr . "'" } @all);
	foreach my $mine (@all)
	{
		push @values, [ ++$id, $n, $mine, $_ ] foreach (@all);
	}
}
sub insert_types
{
	my ($name, $which) = @_;
	my @rows;
	push @{ $rows[ $$_[1] ] }, "($$_[0], $$_[$which])" foreach (@values);
	return join('', map { "INSERT INTO $name (id, c$_) VALUES " . join(', ', @{ $rows[$_] }) . ';' } 0 .. $#types);
}
sub fill_types
{
	my ($name, $which) = @_;
	return "CREATE TABLE $name (id int PRIMARY KEY, " . join(', ', map { "c$_ $types[$_][0]" } 0 .. $#types) . ');'
	  . insert_types($name, $which) . "ANALYZE $name";
}
both(q{CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN shout AS text CHECK (VALUE = upper(VALUE)); CREATE DOMAIN letters AS character(4); CREATE DOMAIN moody AS mood; CREATE EXTENSION citext; CREATE EXTENSION hstore; CREATE EXTENSION ltree; CREATE DOMAIN anycase AS citext;
	CREATE TYPE twin AS (a int, b text); CREATE TYPE floats AS RANGE (subtype = float8, multirange_type_name = floatss)});
$here->safe_psql('postgres', "BEGIN;" . fill_types('v', 2) . ';' . fill_types('w', 3) . '; COMMIT');
$there->safe_psql('postgres', "BEGIN;" . fill_types('v', 3) . '; COMMIT');
my $expected = compare("'v'", "peer_relation => 'w'", peer => 'NULL');
is(join(' ', sort { $a <=> $b } $expected =~ /"id": (\d+)/g), join(' ', map { $$_[0] } grep { $$_[2] ne $$_[3] } @values), 'the values differ');
is(plain("'v'"), $expected, 'plain queries tell them apart, too');
is($here->safe_psql('postgres', 'CREATE TABLE v2 AS SELECT * FROM v; ALTER TABLE v2 ADD PRIMARY KEY (id); INSERT INTO v2 (id) VALUES (100000);'
	. "SELECT action, status, count(*) FROM iblt_repair('v2', $peer, 'v', direction => 'pull', apply => true, method => 'plain', condition => 'id % 10 < 2') GROUP BY 1, 2 ORDER BY 1"),
	'delete|applied|1' . "\nupdate|applied|" . scalar(grep { $$_[0] % 10 < 2 && $$_[2] ne $$_[3] } @values), 'a repair writes values of all types');
is(compare("'v2'", "peer_relation => 'w'", peer => 'NULL'), join("\n", grep { /"id": \d*([2-9])\}/ } split /\n/, $expected), 'as they are on the peer, and no others');
# the same in the other direction, by a role with such settings
$there->safe_psql('postgres', 'CREATE TABLE v3 (LIKE v INCLUDING ALL); INSERT INTO v3 SELECT * FROM v; GRANT INSERT, UPDATE, DELETE ON v3 TO reader');
is(query("SELECT action, status, count(*) FROM iblt_repair('v', $peer, 'v3', direction => 'push', apply => true, method => 'plain', condition => 'id % 10 < 2') GROUP BY 1, 2"),
	'update|applied|' . scalar(grep { $$_[0] % 10 < 2 && $$_[2] ne $$_[3] } @values), 'and to the peer');
is(plain("'v'", "peer_relation => 'v3'"), join("\n", grep { /"id": \d*([2-9])\}/ } split /\n/, $expected), 'which has them then, and no others');
# The hashes themselves, without the exact comparison that follows.
is($here->safe_psql('postgres', q{SET extra_float_digits = 1; SET search_path = iblt_internal, pg_catalog;
	CREATE FUNCTION public.untold() RETURNS SETOF text LANGUAGE plpgsql SET search_path = iblt_internal, pg_catalog AS $$
	DECLARE
		s iblt_internal.side := iblt_internal.described(iblt_internal.describe('public.v'), 'here');
		c iblt_internal.plan_column;
		one text;
	BEGIN
		FOREACH c IN ARRAY iblt_internal.common_columns(s, s, NULL) LOOP
			one := format('SELECT id, %s AS h, public.iblt_checksum(ROW(t.%I)) AS k FROM public.v AS t', iblt_internal.plain_chain_sql(iblt_internal.plain_texts_sql(ARRAY[c], 5), '5'), c.name);
			RETURN QUERY EXECUTE format('SELECT %L FROM (%s) AS a JOIN (%s) AS b USING (id) WHERE (a.h = b.h) IS DISTINCT FROM (a.k = b.k)',
				c.type_here, one, replace(one, 'public.v AS t', 'public.w AS t'));
		END LOOP;
	END $$;
	SELECT public.untold()}), '', 'the hash of the text tells what the checksum tells');
is($here->safe_psql('postgres', q{SELECT string_agg(oid::text, ', ') FROM unnest(iblt_internal.plain_types()) AS oid WHERE NOT EXISTS (
	SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = 'v'::regclass AND oid IN (a.atttypid, t.typbasetype))}), '', 'each type that is taken is among them');
$there->safe_psql('postgres', 'TRUNCATE v;' . insert_types('v', 2));
is(plain("'v'"), '', 'the same values, where the role has other settings');
unlike(stages("'v'"), qr/reading the rows/, 'no row had to travel');

both(q{CREATE DOMAIN word AS text; CREATE TYPE pair AS (a int, b regclass); CREATE TYPE lsnrange AS RANGE (subtype = xid8); CREATE EXTENSION seg;
	CREATE TABLE unsafe (id int PRIMARY KEY, a regclass, b regproc, c seg, d seg[], e tsquery, f jsonpath, g tid, h pair, i lsnrange, j word[], k xid, l regtype[], m int2vector, n pair[], o aclitem, p word)});
my $unsafe = join(', ', map { qr/"$_" is \S+/ } 'a' .. 'o');
refused(qr/0A000: cannot compare by plain queries: their text does not tell all values of some columns apart: $unsafe$/m, "'unsafe'", '', 'columns that are refused');
is(plain("'unsafe'", "columns => '{p}'"), '', 'a domain alone is not');
both('CREATE TABLE cast_me (id int PRIMARY KEY)');
$there->safe_psql('postgres', 'ALTER TABLE cast_me ALTER id TYPE bigint');
refused(qr/42804: column types differ.*HINT:  Exclude the columns, or use method => 'sketch'/s, "'cast_me'", '', 'other types');
refused(qr/0A000: cannot compare.*"id" is integer here and bigint on the peer/, "'cast_me'", 'cast_types => true', 'they are not cast');
# 147_types.pl has types of one name that are made of other types.

# what an expression means depends on the types, of which texts do not tell all
both(q{CREATE TYPE single AS ENUM ('sad', 'ok')});
$here->safe_psql('postgres', q{CREATE TYPE twofold AS ENUM ('sad', 'ok'); CREATE TABLE meant (id int PRIMARY KEY, e single, f twofold, c int)});
$there->safe_psql('postgres', q{CREATE TYPE twofold AS (a int, b text); CREATE TABLE meant (id int PRIMARY KEY, e single, f twofold, c "char"); INSERT INTO meant VALUES (3, 'ok', ROW(3, NULL), '1')});
refused(qr/0A000: .*an expression may mean something else on the peer, because of columns that it names: "$_->[0]"/, "'meant'", "columns => '{id,e}', condition => '$_->[1]', peer_condition => '$_->[1]'", "a condition of $_->[0]") foreach [ f => 'f IS NOT NULL' ], [ c => q{c <> ''10''} ];
is(plain("'meant'", q{columns => '{id,e}', condition => 'e = ''ok''', peer_condition => 'e = ''ok'''}), '{"id": 3} there 0 1', 'one of an enum');

# --- keys, columns and rows -------------------------------------------------------------------

both(q{CREATE TABLE t (id bigint PRIMARY KEY, a text NOT NULL, "b ""c" int, t numeric);
	INSERT INTO t SELECT g, 'secret' || g, g, g / 8.0 FROM generate_series(1, 8000) g; ANALYZE t;
	CREATE TABLE two (a text COLLATE "C", b int, c text, PRIMARY KEY (a, b)); INSERT INTO two SELECT 'k' || g % 50, g, 'x' FROM generate_series(1, 2000) g;
	CREATE TABLE bare ()});
unlike(stages("'t'"), qr/reading the rows/, 'equal tables send no rows');
$there->safe_psql('postgres', q{UPDATE t SET a = 'other' WHERE id IN (5, 700); DELETE FROM t WHERE id = 7900; INSERT INTO t VALUES (30000, '', NULL, NULL); UPDATE t SET t = 1.0 WHERE id = 8;
	UPDATE two SET c = NULL WHERE b % 500 = 0; DELETE FROM two WHERE b = 77});
is(plain("'two'"), truth('two', 'a, b'), 'a key of two columns: the differences');
is($here->safe_psql('postgres', "SELECT key, side, here, there, confirmed IS NULL FROM iblt_compare('t', $peer, columns => '{a}', rows => true, method => 'plain') AS c ORDER BY (key ->> 'id')::int"),
	q({"id": 5}|both|{"a": "secret5", "id": 5}|{"a": "other", "id": 5}|t
{"id": 700}|both|{"a": "secret700", "id": 700}|{"a": "other", "id": 700}|t
{"id": 7900}|here|{"a": "secret7900", "id": 7900}||t
{"id": 30000}|there||{"a": "", "id": 30000}|t), 'the rows');
is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('t', $peer, method => 'plain'); SELECT relation, rows_here, rows_there, differences, unconfirmed, method, complete, messages FROM iblt_compare_stats()"),
	"5\npublic.t|8000|8000|5|0|plain|t|6", 'the figures');
is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('t', peer_relation => 't', condition => 'id < 5', peer_condition => 'id < 6'); SELECT method FROM iblt_compare_stats()"),
	"1\nsketch", 'the figures of another comparison');

my $wide = join(', ', map { "c$_ text" } 1 .. 1200);
both("CREATE TABLE wide (id int PRIMARY KEY, $wide); INSERT INTO wide SELECT g FROM generate_series(1, 20) g");
$there->safe_psql('postgres', "UPDATE wide SET c1200 = '' WHERE id = 7");
is(plain("'wide'"), '{"id": 7} both 1 1', 'the last of many columns differs');
# Two rows that exchange values, or a value that moves to the next column.
both("CREATE TABLE swap (id int PRIMARY KEY, a text, b text); INSERT INTO swap VALUES (1, 'x', 'y'), (2, 'y', 'x'), (3, 'xy', ''), (4, NULL, 'x'), (5, 'x', NULL), (6, '', NULL)");
$there->safe_psql('postgres', "UPDATE swap SET a = b, b = a WHERE id <> 3; UPDATE swap SET a = 'x', b = 'y' WHERE id = 3");
is($here->safe_psql('postgres', q{SET search_path = iblt_internal, pg_catalog; SELECT string_agg(iblt_internal.plain_persist(ARRAY['{0,0,0,0}', b], ARRAY['{0,0,0,0}', a])::text, ' ' ORDER BY n)
	FROM (VALUES (1, '{5,4,3,0}', '{5,4,-3,0}'), (2, '{5,4,0,0}', '{5,-4,0,0}'), (3, '{5,4,3,2}', '{5,1,1,1}'), (4, '{5,4}', '{5,4}'), (5, '{0,5,4,0}', '{3,0,4,0}')) AS v(n, b, a)}),
	'true false false true false', 'what differs in most buckets is the same');
is(plain("'swap'", 'seed => ' . int(rand(1e9))), truth('swap', 'id'), 'values that change places');

# The seed chooses the buckets.  Few rows are in few buckets, of which most differ.
both('CREATE TABLE r (k int, v numeric, w text)');
foreach my $round (1 .. 2)
{
	my $rows = int(10**(1 + rand(3)));
	my $some = 'INSERT INTO r SELECT g, g, g FROM generate_series(1, %d) g WHERE random() < %f; UPDATE r SET v = (random() * 3)::int, w = NULL WHERE random() < 0.02;'
	  . 'INSERT INTO r SELECT * FROM r WHERE random() < 0.01; ANALYZE r';
	$_->safe_psql('postgres', 'TRUNCATE r; SELECT setseed(' . rand() . ');' . sprintf($some, $rows, 1 - rand(0.1))) foreach ($here, $there);
	is(plain("'r'", $_ ? "key_columns => '{$_}'" : ''), truth('r', $_ || 'k, v, w'), "random rows, $rows, key ($_)") foreach ('k', 'w', '');
}

# --- too many ------------------------------------------------------------------------------

$there->safe_psql('postgres', 'CREATE TABLE half AS SELECT id, CASE WHEN id % 10 > 0 THEN a END AS a FROM t WHERE id <= 8000');
$here->safe_psql('postgres', 'CREATE TABLE half AS SELECT id, a FROM t');
refused(qr/IB002: too many differences: .*max_differences is 50\b/, "'half'", "key_columns => '{id}', max_differences => 50", 'more buckets than max_differences');
refused(qr/IB002: too many differences: .*max_differences is 500\b/, "'half'", "key_columns => '{id}', max_differences => 500", 'more differences than that');
is(lines(plain("'half'", "key_columns => '{id}', max_differences => 3000")), lines(truth('half', 'id')), 'and not more');
refused(qr/0A000: .*it gives no sample/, "'half'", "on_too_many => 'sample'", 'no sample');

# --- what is refused ---------------------------------------------------------------------

refused(qr/0A000: .*live digests are not read/, "'t'", "live => 'require'", 'live digests');
refused(qr/0A000: .*there are no columns/, "'bare'", '', 'no columns');
like(failure("SELECT * FROM iblt_compare('t', method => 'plain', peer_relation => 'nokey')"), qr/0A000: .*there is no peer/, 'no peer');
$here->safe_psql('postgres', q{CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0});
$here->safe_psql('latin', 'CREATE TABLE t AS SELECT 1 AS id');
like(failure("SELECT * FROM iblt_compare('t', " . literal($here->connstr('latin')) . ", method => 'plain')"), qr/0A000: .*the encoding is UTF8 here and LATIN1 on the peer/, 'another encoding');

SKIP:
{
	skip 'built without ICU', 3 unless $here->safe_psql('postgres', q{SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i')}) eq 't';
	both(q{CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE TABLE cased (id int PRIMARY KEY, v text COLLATE anycase)});
	$here->safe_psql('postgres', q{INSERT INTO cased VALUES (1, 'a'), (2, 'b')});
	$there->safe_psql('postgres', q{INSERT INTO cased VALUES (1, 'A'), (2, 'b')});
	is(plain("'cased'"), '{"id": 1} both 1 1', 'texts that a collation takes for equal');
	both('CREATE TABLE vague (id int PRIMARY KEY, v text)');
	$there->safe_psql('postgres', 'ALTER TABLE vague ALTER v TYPE text COLLATE anycase');
	refused(qr/0A000: .*because of columns that it names: "v"/, "'vague'", q{condition => $$v = 'a'$$}, 'a condition that it would make another one');
	$_->[0]->safe_psql('postgres', "ALTER TABLE vague ALTER v TYPE text COLLATE $_->[1]") foreach ([ $here, 'anycase' ], [ $there, '"C"' ]);
	refused(qr/0A000: .*because of columns that it names: "v"/, "'vague'", q{condition => $$v = 'a'$$}, 'or that it makes another one here');
}

# --- the peer's transactions -----------------------------------------------------------------

both("CREATE TABLE mode (id int PRIMARY KEY, v text); INSERT INTO mode VALUES (1, 'on')");
$there->safe_psql('postgres', "CREATE VIEW mode_view AS SELECT id, current_setting('transaction_read_only') AS v FROM mode");
is(plain("'mode'", "peer_relation => 'mode_view', key_columns => '{id}'"), '', 'only read');

# --- repairs -----------------------------------------------------------------------------

foreach my $method (qw(plain auto))
{
	is(query("SELECT concat_ws(' ', action, status, detail, count(*)) FROM iblt_repair('t', $peer, direction => 'push', method => '$method') GROUP BY action, status, detail ORDER BY 1"), "delete preview 1\ninsert preview 1\nupdate preview 3", "a preview of a push, method => $method");
	like(failure("SELECT * FROM iblt_repair('t', $peer, direction => 'push', method => '$method', apply => true)"), qr/42501: on the peer: permission denied for table t/, 'which takes rights');
}
is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_repair('two', $peer, direction => 'pull', method => 'auto', apply => true); SELECT method, differences FROM iblt_compare_stats()"), "5\nplain|5", 'auto');
is(truth('two', 'a, b'), '', 'repairs');
both('CREATE TABLE looks (id int PRIMARY KEY, v text)');
$there->safe_psql('postgres', q{INSERT INTO looks VALUES (1, 'iblt long value')});
is($here->safe_psql('postgres', "SELECT status, detail FROM iblt_repair('looks', $peer, direction => 'pull', method => 'plain', apply => true)"), 'applied|', 'a value that looks like what stands for a long one elsewhere');

# --- conditions --------------------------------------------------------------------------

both(q{CREATE SCHEMA own; CREATE FUNCTION own.is_even(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 = 0';
	CREATE FUNCTION own.felt(int) RETURNS mood LANGUAGE sql IMMUTABLE AS 'SELECT ''ok''::public.mood';
	CREATE OPERATOR own.=== (leftarg = int, rightarg = int, function = int4eq); CREATE OPERATOR own.=== (leftarg = anyenum, rightarg = anyenum, function = enum_eq); CREATE DOMAIN own.even AS int CHECK (own.is_even(VALUE)); CREATE DOMAIN own.good AS mood;
	CREATE TABLE c (id int PRIMARY KEY, v text, feeling mood, day timestamptz, w text COLLATE "C", n numeric, more mood[], letters letters, one int, two text);
	INSERT INTO c SELECT g, 'v' || g, CASE WHEN g % 3 = 0 THEN 'ok' ELSE 'sad' END::mood, '2024-01-01 00:00+00'::timestamptz + g * interval '1 day', 'w' || g, g / 2.0, '{ok}', 'ab', g, g FROM generate_series(1, 200) g});
$there->safe_psql('postgres', q{UPDATE c SET v = 'other' WHERE id IN (10, 50, 120); UPDATE c SET feeling = 'sad' WHERE id IN (30, 33); DELETE FROM c WHERE id = 60; UPDATE c SET n = 500 WHERE id = 70;
	ALTER TABLE c ALTER one TYPE bigint, DROP two});
foreach my $condition ("id <= 100", "v LIKE 'v1%' AND feeling = 'ok'", "feeling IN ('ok', 'sad') AND id > 40", q{day < '2024-03-01'}, q{w COLLATE "C" < 'w3' COLLATE "C"},
	"n BETWEEN 10 AND 40 OR n IS NULL", "id = ANY ('{10,30,60}')", q{CASE WHEN id < 50 THEN v = 'other' ELSE length(v COLLATE "C") = 4 END}, 'id % 10 = 0 -- a comment', "letters = 'ab' AND id < 40",
	"more = '{ok}' AND coalesce(feeling, 'sad') = 'ok'")
{
	is(plain("'c'", "exclude => '{one,two}', condition => " . literal($condition)), truth('c', 'id', columns => 'id, v, feeling, day, w, n, more, letters', where => "($condition\n)"), "condition $condition");
}
is(plain("'c'", "columns => '{v}', condition => 'id < 100', peer_condition => 'id <= 60'"), truth('c', 'id', columns => 'id, v', where => 'id < 100', peer_where => 'id <= 60'), 'a condition for each side');
foreach my $case ([ 'own.is_even(id)', 'function is_even' ], [ "v > 'v5'", 'a collation' ], [ q{w < 'w3'}, 'a collation' ], [ "lower(v) = 'v5'", 'a collation' ], [ "feeling > 'sad'", 'the order of an enum' ], [ "more > '{ok}'", 'the order of an enum' ], [ "feeling::text = 'sad'", 'function enum_out', 'condition depends on' ], [ 'length(v) = 4', 'a collation' ],
	[ 'one < 5', '"one"' ], [ 'two IS NULL', '"two"' ], [ 'ROW(id, v) < ROW(5, v)', 'a collation' ], [ 't IS NULL', 'a whole row' ], [ "v = '\\'", 'a backslash' ],
	# what is behind a name of a user may be something else there
	[ 'id OPERATOR(own.===) 3', 'operator ===' ], [ "feeling OPERATOR(own.===) 'ok'", 'operator ===' ], [ "feeling = ANY (ARRAY[own.felt(id), 'ok'])", 'function felt' ], [ 'enum_larger(feeling, feeling) IS NULL', 'the order of an enum' ],
	[ q('{2}'::own.even[] IS NULL), 'type own.even[]' ], [ q('{ok}'::own.good[] IS NULL), 'type own.good[]' ],
	[ 'id < random()', 'more than the row', 'condition depends on' ], [ 'EXISTS (SELECT FROM c)', 'a subquery', 'condition depends on' ])
{
	my ($condition, $reason, $message) = @$case;
	$message //= 'cannot compare by plain queries: an expression may mean something else on the peer';
	refused(qr/0A000: $message.*\Q$reason\E/, "'c'", "extra_columns => 'ignore', columns => '{id,v}', condition => " . literal($condition), "refused: $condition");
}
refused(qr/0A000: .*depends on more than the row/, "'c'", "columns => '{v}', condition => 'id < 5', peer_condition => $$_[0]", "on the peer: $$_[1]") foreach ([ q('id < random() * 100'), 'a random number' ], [ q('EXISTS (SELECT FROM c)'), 'a subquery' ]);
is(plain("'c'", "columns => '{v}', condition => 'own.is_even(id)', peer_condition => 'id % 2 = 0'"), truth('c', 'id', columns => 'id, v', where => 'id % 2 = 0'), 'what runs here only may be anything');

# --- rows in flight --------------------------------------------------------------------------
#
# The peer publishes some tables, and is subscribed to others.

both(q{CREATE TABLE down (id int PRIMARY KEY, v text); CREATE TABLE up (id int PRIMARY KEY, v text); CREATE TABLE down_keyless (a text, b int); ALTER TABLE down_keyless REPLICA IDENTITY FULL;
	CREATE TABLE down_money (id int PRIMARY KEY, v tsquery); CREATE TABLE down_half (id int PRIMARY KEY, v text, twice int GENERATED ALWAYS AS (id * 2) STORED)});
$there->safe_psql('postgres', q{INSERT INTO down SELECT g, 'key' || g FROM generate_series(70001, 70300) g; INSERT INTO down_keyless SELECT 'k' || g % 10, g % 3 FROM generate_series(1, 100) g;
	INSERT INTO down_half SELECT g, g FROM generate_series(1, 50) g; CREATE PUBLICATION down FOR TABLE down, down_keyless, down_money});
$here->safe_psql('postgres', q{INSERT INTO up SELECT g, g FROM generate_series(1, 300) g; CREATE PUBLICATION up FOR TABLE up});
$there->safe_psql('postgres', 'CREATE PUBLICATION half FOR TABLE down_half' . (major_version() >= 15 ? ' WHERE (id <= 30)' : ''));
$here->safe_psql('postgres', "CREATE SUBSCRIPTION down CONNECTION ${\ conninfo($there)} PUBLICATION down, half");
$there->safe_psql('postgres', "CREATE SUBSCRIPTION up CONNECTION ${\ conninfo($here)} PUBLICATION up");
subscribed($here, 4);
subscribed($there, 1);
$here->safe_psql('postgres', "UPDATE down SET v = 'drift' WHERE id = 70007; DELETE FROM down_keyless WHERE a = 'k3'");
$there->safe_psql('postgres', "UPDATE up SET v = 'drift' WHERE id = 7; INSERT INTO up VALUES (1000, 'drift')");
$there->safe_psql('postgres', "UPDATE down SET v = 'new' WHERE id = 70020; DELETE FROM down WHERE id = 70030");
$there->wait_for_catchup('down');
is($here->safe_psql('postgres', "SELECT key, side, here_count, there_count, confirmed FROM iblt_compare('down_keyless', $peer, method => 'plain') ORDER BY key ->> 'b'"),
	join("\n", map { qq({"a": "k3", "b": $_}|there|0|@{[ $_ == 0 ? 4 : 3 ]}|t) } (0 .. 2)), 'rows without a key are rechecked');

# Without a subscription, a look some seconds later is all there is.  Few buckets do not
# tell how many keys differ, so the rows do.
both('CREATE TABLE alone (id int PRIMARY KEY, hash text)');
$there->safe_psql('postgres', 'INSERT INTO alone SELECT g, g FROM generate_series(1, 100) g');
like(failure("SELECT * FROM iblt_compare('alone', $peer, method => 'plain', max_differences => 50, recheck => 1)"), qr/IB002: too many differences: 100 keys .*\nDETAIL:  No differences are returned\.$/m,
	'too many, once more');
{
	my $caller = IbltTest::Session->new($here);
	$caller->start("SELECT count(*), bool_and(confirmed) FROM iblt_compare('alone', $peer, method => 'plain', progress => true, recheck => 1, condition => 'id > 85')");
	$caller->seen(qr/to look at 15 keys again/);
	$here->safe_psql('postgres', 'INSERT INTO alone SELECT g, g FROM generate_series(1, 90) g');
	is($caller->done, '10|t', 'rows that come meanwhile are no differences, with a condition');
	unlike($caller->{err}, qr/waiting for replication, to compare once more/, 'of few, all are looked at again, without a second sum');
	$caller->quit;
}

# What is asked by its body gives what the function gives.
my $calls = join(', ', map { literal($_) } ("audit_tables('public')", "audit_subscribed(to_regclass('public.down'))", "audit_subscribed(to_regclass('public.down_half'))", "run_probe(to_regclass('public.t'))", "audit_subscription('down')", "audit_published('{up,x}'::text[])", "slot_applied('up')", "slot_applied('x')", "slot_received('down')", "slot_said('up')", "follower_said('down')", 'follower_said(NULL)',
	"wal_replayed(0)", "writers('public.up'::regclass)"));
is($here->safe_psql('postgres', qq{CREATE FUNCTION value_of(query text) RETURNS text LANGUAGE plpgsql AS \$\$ DECLARE v text; BEGIN EXECUTE query INTO v; RETURN v; END \$\$; SET search_path = iblt_internal, pg_catalog; SET jit = off;
	SELECT count(*), count(DISTINCT c) FILTER (WHERE public.value_of('SELECT iblt_internal.' || c) IS DISTINCT FROM public.value_of(iblt_internal.plain_call(c))) FROM unnest(ARRAY[$calls]) AS c}), '14|0', 'bodies of functions');
cmp_ok($here->safe_psql('postgres', q{SET search_path = iblt_internal, pg_catalog; SELECT public.value_of(iblt_internal.plain_call('wal_position(true)'))}), '>', 0, 'a position');
# What a reader pins is pinned there, too, whatever functions of its name there are.
my $pinned = q{SET jit = off; SELECT iblt_internal.plain_settings(NULL, 'read_heap')};
my $settings = $here->safe_psql('postgres', $pinned);
like($settings, qr/set_config\('search_path', 'pg_catalog, pg_temp', true\).*'jit', 'off'|'jit', 'off'.*set_config\('search_path', 'pg_catalog, pg_temp', true\)/, 'settings of a reader');
my @names = sort $settings =~ /set_config\('(\w+)'/g;
is_deeply(\@names, [ sort keys %{ { map { $_ => 1 } @names } } ], 'each once');
is($here->safe_psql('postgres', "CREATE FUNCTION public.read_heap() RETURNS int LANGUAGE sql SET search_path = public SET jit = on AS 'SELECT 1'; $pinned; DROP FUNCTION public.read_heap()"), $settings, 'and not those of another function');

# --- audits ------------------------------------------------------------------------------

sub audit_subscription_here
{
	my ($options) = @_;
	return IbltAudit::rows("iblt_audit(subscription => 'down', peer => $peer, method => 'plain'" . ($options ? ", $options" : '') . ')', node => $here);
}
sub details { my ($got) = @_; return { map { ($_ => $got->{$_}{detail}) } keys %$got } }

$there->wait_for_catchup('down');
{
	my ($got, $messages) = audit_subscription_here();
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'public.down' => 'differs 299 299 0 0 1 0', 'public.down_keyless' => 'differs 90 100 3 0 0 0',
			'public.down_money' => 'not comparable - - - - - -', 'public.down_half' => (major_version() >= 15 ? 'equal 30 30 0 0 0 0' : 'equal 50 50 0 0 0 0') }, 'an audit of a subscription');
	my $details = details($got);
	is($details->{'public.down'}, 'compared by plain queries', 'it says how it compared');
	like($details->{'public.down_half'}, major_version() >= 15 ? qr/^compared by plain queries; row filter \(\(id <= 30\)\)$/ : qr/^compared by plain queries$/, 'and which rows');
	like($details->{'public.down_money'}, qr/^cannot compare by plain queries: .*"v" is tsquery; exclude these columns, or use method => 'sketch' with iblt on both sides$/, 'and what it cannot');
	is($messages, '', 'and needs no message');
	($got, $messages) = IbltAudit::rows("iblt_audit(subscription => 'down', peer => $peer, method => 'auto')", node => $here);
	is(line($got->{'public.down'}), 'differs 299 299 0 0 1 0', 'auto');
	is($messages, 'psql:<stdin>:1: NOTICE:  the peer has no extension iblt, and is compared by plain queries', 'says that once');
}
both('CREATE SCHEMA shop; CREATE TABLE shop.same (id int PRIMARY KEY, v text); CREATE TABLE shop."Odd ""name" (a text, b int); CREATE TABLE shop.changed (id int PRIMARY KEY, v text); CREATE TABLE shop.seen (id int); CREATE TABLE shop.p (id int PRIMARY KEY) PARTITION BY RANGE (id);
	CREATE TABLE shop.p_1 PARTITION OF shop.p DEFAULT; INSERT INTO shop.p SELECT generate_series(1, 10)');
$here->safe_psql('postgres', q{CREATE TABLE shop.only_here (id int); INSERT INTO shop.changed SELECT g, g FROM generate_series(1, 10) g; ALTER TABLE shop.same ADD more int});
$there->safe_psql('postgres', q{CREATE TABLE shop.only_there (id int); INSERT INTO shop.changed SELECT g, g % 9 FROM generate_series(2, 12) g; DROP TABLE shop.seen; CREATE VIEW shop.seen AS SELECT 1 AS id;
	CREATE PUBLICATION shop FOR TABLE shop.changed, shop.p WITH (publish = 'insert')});
{
	my ($got, $messages) = audit("schema => 'shop', method => 'plain', extra_columns => 'warn'", peer => $peer);
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'shop.same' => 'equal 0 0 0 0 0 0', 'shop."Odd ""name"' => 'equal 0 0 0 0 0 0', 'shop.changed' => counts('shop.changed'), 'shop.seen' => 'not comparable - - - - - -',
			'shop.p' => 'equal 10 10 0 0 0 0', 'shop.only_here' => 'not comparable - - - - - -', 'shop.only_there' => 'not comparable - - - - - -' }, 'an audit of a schema');
	my $details = details($got);
	is($details->{'shop.same'}, 'compared by plain queries; columns only here: "more"', 'a column on one side');
	is($details->{'shop.changed'}, 'compared by plain queries; differences were not rechecked, so they may be rows in flight', 'without replication that it sees');
	like($details->{'shop.only_here'}, qr/^relation shop.only_here does not exist on the peer/, 'only here');
	is($details->{'shop.only_there'}, 'the table does not exist here', 'only there');
	($got) = audit("publication => 'shop', method => 'plain'", peer => $peer);
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'shop.changed' => counts('shop.changed'), 'shop.p_1' => 'equal 10 10 0 0 0 0' }, 'an audit of a publication');
	like($got->{'shop.p_1'}{detail}, qr/^compared by plain queries; not published: update, delete, truncate$/, 'with what it lets through');
	($got) = audit("publication => 'shop', method => 'plain', live => 'auto'", peer => $peer);
	is_deeply({ map { ($_ => line($got->{$_})) } keys %$got }, { 'shop.changed' => counts('shop.changed'), 'shop.p_1' => 'equal 10 10 0 0 0 0' }, 'whose partitions have no digest there');
	($got) = audit(q{tables => '{shop.same,c,unsafe}', method => 'plain', extra_columns => 'warn', max_differences => 1}, peer => $peer);
	is(line($got->{'shop.same'}), 'equal 0 0 0 0 0 0', 'an audit of tables');
	is($got->{'public.c'}{sqlstate}, '42804', 'types that differ');
	is($got->{'public.unsafe'}{sqlstate}, '0A000', 'types that are not taken');
}

# Many small tables are described in one message and summed up in another.
both('CREATE SCHEMA many; ' . join(' ', map { "CREATE TABLE many.t$_ (id int PRIMARY KEY, v text); INSERT INTO many.t$_ SELECT g, g FROM generate_series(1, $_) g;" } 1 .. 40) . ' CREATE TABLE many.other (id int PRIMARY KEY, v text); CREATE TABLE many.gone (id int); CREATE TABLE many.coins (id int PRIMARY KEY, v tsquery)');
$there->safe_psql('postgres', q{UPDATE many.t37 SET v = '' WHERE id = 5; ALTER TABLE many.other ALTER v TYPE varchar; ALTER TABLE many.t5 ADD w int; DROP TABLE many.gone; DELETE FROM many.t39; CREATE TABLE many.twice (id int); REVOKE pg_read_all_data FROM reader; GRANT USAGE ON SCHEMA many TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA many TO reader});
sub many_tables
{
	my $before = -s $there->logfile;
	my ($got) = audit("schema => 'many', method => 'plain', extra_columns => 'warn'", peer => $peer);
	my $statements = () = slurp_file($there->logfile, $before) =~ /LOG:  statement:/g;
	return ($statements, { map { ($_ =~ s/^many\.//r => line($got->{$_})) } keys %$got });
}
my %expected = ((map { ("t$_" => "equal $_ $_ 0 0 0 0") } 1 .. 40), t37 => 'differs 37 37 0 0 1 0', t39 => 'differs 39 0 0 39 0 0', other => 'not comparable - - - - - -', gone => 'not comparable - - - - - -', twice => 'not comparable - - - - - -',
	coins => 'not comparable - - - - - -', t5 => 'equal 5 5 0 0 0 0');
{
	my ($statements, $got) = many_tables();
	is_deeply($got, \%expected, 'many small tables');
	cmp_ok($statements, '<', 30, 'in few messages');
	$there->safe_psql('postgres', 'REVOKE SELECT ON many.t3 FROM reader');
	($statements, $got) = many_tables();
	is_deeply($got, { %expected, t3 => 'error - - - - - -' }, 'after an error on the peer, each for itself');
	cmp_ok($statements, '>', 30, 'in many messages');
}
both('DROP SCHEMA many CASCADE');
$there->safe_psql('postgres', 'GRANT pg_read_all_data TO reader');

# --- runs --------------------------------------------------------------------------------

like(failure("CALL iblt_audit_run($peer, schema => 'shop')"), qr/55000: extension iblt is not installed in the peer's database/, 'without a method, the extension is missed');
like(failure("CALL iblt_audit_run($peer, schema => 'shop', method => 'plain', check_indexes => true)"), qr/0A000: cannot compare by plain queries: indexes of the peer are not checked/, 'refused: check_indexes');
is($here->safe_psql('postgres', 'SELECT count(*) FROM iblt_audit_run_stats'), 0, 'and leave nothing behind');

both(q{CREATE SCHEMA runs; SET search_path = runs, public; CREATE TABLE numbers (id bigint PRIMARY KEY, v text); INSERT INTO numbers SELECT g * 3, 'v' || g FROM generate_series(-3000, 9000) g;
	CREATE TABLE uuids (id uuid PRIMARY KEY, v int); INSERT INTO uuids SELECT md5(g::text)::uuid, g FROM generate_series(1, 4000) g;
	CREATE TABLE texts (id text COLLATE "C" PRIMARY KEY, v int); INSERT INTO texts SELECT E'o''\\\\é' || g, g FROM generate_series(1, 4000) g;
	CREATE TABLE words (id text COLLATE "und-x-icu" PRIMARY KEY, v int); INSERT INTO words SELECT 'w' || g, g FROM generate_series(1, 3000) g;
	CREATE TABLE pairs (a timestamptz, b numeric, v int, PRIMARY KEY (b, a)); INSERT INTO pairs SELECT '2000-01-01'::timestamptz + g * interval '1 h', g / 700 / 8.0, g FROM generate_series(1, 4000) g;
	CREATE TABLE bits (id bit(16) PRIMARY KEY, v int); INSERT INTO bits SELECT g::bit(16), g FROM generate_series(1, 3000) g; CREATE TABLE blanks (id character(6) COLLATE "C" PRIMARY KEY, v int); INSERT INTO blanks SELECT g, g FROM generate_series(1, 3000) g;
	CREATE TABLE floats (id float8 PRIMARY KEY, v int); INSERT INTO floats SELECT sqrt(g) * CASE WHEN g % 2 = 0 THEN -1 ELSE 1 END, g FROM generate_series(1, 3000) g; INSERT INTO floats VALUES ('-0', 0), ('NaN', 0), ('Infinity', 0);
	CREATE TABLE loose (a int, b text); INSERT INTO loose SELECT g % 300, 'x' || g % 7 FROM generate_series(1, 3000) g; CREATE TABLE coins (id int PRIMARY KEY, v tsquery)});
$here->safe_psql('postgres', q{SET search_path = runs; CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1800); CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
	CREATE TABLE emptied (id int PRIMARY KEY); INSERT INTO emptied SELECT generate_series(1, 2500); DELETE FROM numbers WHERE id IN (-9000, 300); UPDATE uuids SET v = 0 WHERE v % 1000 = 7; DELETE FROM floats WHERE id = 'NaN'});
$there->safe_psql('postgres', q{SET search_path = runs; CREATE TABLE parts (id int PRIMARY KEY, v text); CREATE TABLE emptied (id int PRIMARY KEY); UPDATE numbers SET v = NULL WHERE id % 5001 = 0; INSERT INTO numbers SELECT g, 'new' FROM generate_series(27001, 29500) g;
	DELETE FROM texts WHERE v IN (1, 3999); UPDATE words SET v = -v WHERE v = 77; UPDATE pairs SET v = 0 WHERE v % 1333 = 5; INSERT INTO pairs VALUES ('-infinity', 'NaN', 1); DELETE FROM bits WHERE v = 2999; UPDATE blanks SET v = 0 WHERE v = 3000; UPDATE floats SET v = -1 WHERE id = '0';
	DELETE FROM loose WHERE ctid = '(0,9)'});
both("SET search_path = runs; INSERT INTO parts SELECT g, 'p' || g FROM generate_series(1, 4000) g; ANALYZE");
$there->safe_psql('postgres', 'DELETE FROM runs.parts WHERE id IN (1, 1799, 1800, 4000)');
# as JSON, which has the keys as a run keeps them
sub run_truth
{
	my ($table) = @_;
	return $here->safe_psql('postgres', "SELECT key, side FROM iblt_compare('runs.$table', $peer, method => 'plain') ORDER BY 1, 2");
}
sub run_tables { my ($run) = @_; return { map { ($_->{relation} => $_) } IbltRuns::rows_as_json($here, "SELECT * FROM iblt_audit_table_stats WHERE run = $run") } }
sub run_found { my ($run, $table) = @_; return $here->safe_psql('postgres', "SELECT key, side FROM iblt_audit_differences WHERE run = $run AND relation = 'runs.$table' ORDER BY 1, 2") }
{
	my (undef, $messages) = IbltRuns::begin_run("schema => 'runs', method => 'auto', max_time => '0', slice_ms => 20", peer => $peer);
	like($messages, qr/^\S+ NOTICE:  the peer has no extension iblt, and is compared by plain queries\n.*run 1 has 12 tables$/m, 'auto says once how it compares');
	like(IbltRuns::resume(1, undef, peer => literal($there->connstr('template1'))), qr/run 1 was begun with another peer/, 'another database of the peer');
	like(IbltRuns::resume(1, "max_lag => '1 GB'", peer => $peer), qr/permission denied to see how replication lags \(there\)/, 'a role that may not see the lag');
	like(IbltRuns::resume(1, "max_lag => '1 GB', max_time => '0'", peer => conninfo($there)), qr/run 1 has stopped at max_time/, 'and one that may');
	unlike(IbltRuns::resume(1, undef, peer => $peer), qr/ERROR|is compared by plain queries/, 'it goes on as it began');
	my $got = run_tables(1);
	my ($audited) = audit("schema => 'runs', method => 'plain'", peer => $peer);
	foreach my $table (qw(numbers uuids texts words pairs bits blanks floats loose parts emptied))
	{
		my $truth = run_truth($table);
		is(run_found(1, $table), $truth, "$table: a run finds what differs");
		is(line($got->{"runs.$table"}), line($audited->{"runs.$table"}), "$table: and counts as an audit does");
		my $slices = $got->{"runs.$table"}{slices};
		if ($table eq 'loose') { is($slices, 1, "$table: in one slice") }
		else { cmp_ok($slices, '>', 1, "$table: in slices") }
	}
	like($got->{'runs.numbers'}{detail}, qr/^compared by plain queries; .*read by index runs.numbers_pkey \(not checked\) here, runs.numbers_pkey \(not checked\) there; a scan counted as many rows$/, 'what it rests on');
	like($got->{'runs.coins'}{detail}, qr/^cannot compare by plain queries: .*"v" is tsquery; exclude these columns, /, 'types that are not taken');
}
$there->safe_psql('postgres', "UPDATE runs.numbers SET v = 'v100' WHERE id = 300; INSERT INTO runs.bits VALUES (2999::bit(16), 2999)");
is($here->safe_psql('postgres', "SELECT before, after, status FROM iblt_audit_recheck(1, $peer) WHERE relation = 'runs.bits'"), '1|0|equal', 'looking again');
like(failure("SELECT * FROM iblt_repair(run => 1, peer => $peer, direction => 'push', apply => true)"), qr/42501: on the peer: permission denied/, 'a push of what the run found takes rights');
is($here->safe_psql('postgres', "SELECT bool_and(status = 'applied') FROM iblt_repair(run => 1, peer => $peer, direction => 'pull', apply => true)"), 't', 'a repair of what the run found');
{
	my $run = IbltRuns::begin_run("schema => 'runs', method => 'plain', slice_ms => 20, progress => false", peer => $peer);
	my $got = run_tables($run);
	is(join(' ', map { $got->{$_}{status} } sort grep { $_ ne 'runs.coins' } keys %$got), join(' ', ('equal') x 11), 'and all is equal');
	$run = IbltRuns::begin_run("subscription => 'down', method => 'plain', progress => false", peer => $peer);
	my ($audited) = audit_subscription_here();
	is_deeply({ map { ($_ => line($audited->{$_})) } keys %$audited }, { map { ($_ => line($_ ? run_tables($run)->{$_} : undef)) } keys %$audited }, 'a run of a subscription, with rows that are confirmed');
}
# An index of the peer's that does not find rows.
{
	unnoticed($there, 'runs.bits_pkey', 'INSERT INTO runs.bits SELECT g::bit(16), g FROM generate_series(5001, 7000) g');
	$there->safe_psql('postgres', 'ANALYZE runs.bits');
	my $run = IbltRuns::begin_run("tables => '{runs.bits}', method => 'plain', progress => false", peer => $peer);
	my $got = run_tables($run)->{'runs.bits'};
	like(join(' ', map { $_ // '-' } @$got{qw(status sqlstate detail)}), qr/^error XX002 an index of runs\.bits does not find rows that the table has \(there\): Of a sample of \d+ rows/, 'an index that does not find rows');
	$there->safe_psql('postgres', 'DELETE FROM runs.bits WHERE v > 5000; REINDEX TABLE runs.bits');
}

# --- auto --------------------------------------------------------------------------------

my ($rc, $out, $err) = $here->psql('postgres', "SELECT key FROM iblt_compare('two', $peer, method => 'auto'); SELECT method FROM iblt_compare_stats()");
like($err, qr/NOTICE:  the peer has no extension iblt, and is compared by plain queries/, 'auto says that it compares by plain queries');
like($out, qr/^plain$/m, 'and does');
like(failure("SELECT * FROM iblt_compare('two', $peer)"), qr/55000: extension iblt is not installed in the peer's database/, 'without it, the extension is missed');
my $log = slurp_file($there->logfile);
like($log, qr/hashtextextended/, 'the log of the peer shows the queries');
unlike($log, qr/statement:.*(secret\d|\b(30000|700\d\d)\b)/, 'but no key and no value');
unlike($log, qr/statement:.*\b(CREATE|INSERT|UPDATE|DELETE|LOCK|iblt_internal)\b.*reader/, 'and nothing but queries');
$there->safe_psql('postgres', 'ALTER ROLE reader RESET search_path; CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live');
($rc, $out, $err) = $here->psql('postgres', "SELECT key FROM iblt_compare('two', " . conninfo($there) . ", method => 'auto'); SELECT method FROM iblt_compare_stats()");
is($err, '', 'with the extension there, auto has nothing to say');
like($out, qr/^sketch$/m, 'and takes it');
$there->safe_psql('postgres', 'REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public');
is($here->safe_psql('postgres', "SELECT status FROM iblt_audit($peer, tables => '{up}', method => '$_')"), $here->safe_psql('postgres', "SELECT status FROM iblt_audit(${\ conninfo($there)}, tables => '{up}')"), "$_: without the right to the server's identifier") foreach (qw(plain sketch));
$there->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION pg_control_system() TO public');
# Both are reached over a connection of one name.
{
	my $there_too = conninfo($there);
	$there->safe_psql('postgres', 'UPDATE runs.uuids SET v = -1 WHERE v = 3');
	my ($sketch, $messages) = IbltRuns::begin_run("tables => '{runs.uuids}', method => 'auto'", peer => $there_too);
	unlike($messages, qr/plain queries/, 'a run takes sketches, too');
	is($here->safe_psql('postgres', "BEGIN; SELECT count(*) FROM iblt_audit_recheck(1, $peer); SELECT relation, before, after FROM iblt_audit_recheck($sketch, $there_too); COMMIT") =~ s/^\d+\n//r, 'runs.uuids|1|1', 'runs of both methods in one transaction');
}
nothing_left('no connection is left');

$session->quit;

done_testing();
