# What a comparison takes for the same value and for the same type, and what it does with several
# rows of a unique key: numbers of different types, char(n) and numeric(n, m) inside of arrays,
# domains and rows, and tables whose unique index is damaged.  In every twin: with iblt on
# the other side and without, audits, runs, nodes, digests and repairs.
use IbltCompare;

my $here = ready('here', 'client_min_messages = warning', 'allow_system_table_mods = on');
my $there = ready('there', 'allow_system_table_mods = on');
sides($here, $there);
$there->safe_psql('postgres', 'CREATE DATABASE bare');
my $peer = conninfo($there);
my $bare = literal($there->connstr('bare'));

# On both sides, and in the database without iblt.
sub all { my ($here_sql, $there_sql) = @_; $here->safe_psql('postgres', $here_sql); $there->safe_psql($_, $there_sql // $here_sql) foreach qw(postgres bare); return }

# What a statement answers and says, or its error with the SQLSTATE.
sub told
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $here->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	return $rc == 0 ? join("\n", (sort split /\n/, $out), $err =~ /(WARNING: .*(?:\n(?:DETAIL|HINT): .*)*)/g) : $err =~ s/.*?ERROR:\s+(.*?)(?:\nLOCATION.*|\nCONTEXT.*|$)/$1/sr;
}

# --- numbers of different types ---------------------------------------------------------

# Values of the first type and of the second one, and whether they are equal.
my @numbers = (
	[ 'float8', 'numeric', [ '1.5', '1.50', 1 ], [ '0.1', '0.1', 1 ], [ '0.1', '0.10000000000000001', 0 ], [ '0.1', '0.1000000000000000055511151231257827', 0 ],
		[ '0.30000000000000004', '0.3', 0 ], [ '0.30000000000000004', '0.300000000000000040', 1 ], [ 'NaN', 'NaN', 1 ], [ 'Infinity', 'Infinity', 1 ], [ '-Infinity', 'Infinity', 0 ],
		[ '-0', '0.00', 1 ], [ '1e17', '100000000000000000', 1 ], [ '1e17', '100000000000000001', 0 ], [ '1.7976931348623157e308', '1.7976931348623157e308', 1 ],
		[ '5e-324', '5e-324', 1 ], [ '5e-324', '0', 0 ], [ '1234567890123456.8', '1234567890123456.8', 1 ], [ '1234567890123456.8', '1234567890123457', 0 ], [ '-1.5', '1.5', 0 ] ],
	[ 'float8', 'int8', [ '1e17', '100000000000000000', 1 ], [ '9007199254740992', '9007199254740992', 1 ], [ '9007199254740992', '9007199254740993', 0 ],
		[ '1152921504606846976', '1152921504606846976', 1 ], [ '1152921504606846976', '1152921504606847000', 0 ], [ '9223372036854775807', '9223372036854775807', 0 ],
		[ '-9223372036854775808', '-9223372036854775808', 1 ], [ '1.5', '1', 0 ], [ '1.5', '2', 0 ], [ 'NaN', '0', 0 ], [ 'Infinity', '9223372036854775807', 0 ], [ '-0', '0', 1 ], [ '1e300', '9223372036854775807', 0 ] ],
	[ 'float4', 'numeric', [ '0.1', '0.1', 1 ], [ '0.1', '0.100000001490116', 0 ], [ '1.5', '1.500', 1 ], [ '1e10', '10000000000', 1 ], [ '3.4028235e38', '3.4028235e38', 1 ], [ 'NaN', 'NaN', 1 ] ],
	[ 'float4', 'int4', [ '16777216', '16777216', 1 ], [ '16777216', '16777217', 0 ], [ '123456792', '123456792', 1 ], [ '123456792', '123456790', 0 ], [ '0.5', '0', 0 ] ],
	[ 'float8', 'float4', [ '0.5', '0.5', 1 ], [ '0.1', '0.1', 0 ], [ '0.10000000149011612', '0.1', 1 ], [ 'NaN', 'NaN', 1 ] ],
	[ 'int8', 'numeric', [ '7', '7.00', 1 ], [ '7', '7.01', 0 ], [ '9007199254740993', '9007199254740992', 0 ] ],
	[ 'numeric(10,2)[]', 'numeric(12,4)[]', [ '{1.50,-2,NULL}', '{1.5,-2.0000,NULL}', 1 ], [ '{100}', '{10}', 0 ], [ '{100.10}', '{100.1}', 1 ], [ '{0.05}', '{0.5}', 0 ], [ '[0:1]={1,2}', '{1,2}', 0 ],
		[ '[0:1]={1,2}', '[0:1]={1.0,2}', 1 ], [ '{{1.10},{2}}', '{{1.1},{2.0}}', 1 ], [ '{{1,2}}', '{1,2}', 0 ], [ '{NaN,100,0.00}', '{NaN,100,0}', 1 ], [ '{}', '{}', 1 ] ],
	[ 'int4[]', 'numeric', [ '{1}', '1', 0 ] ],
	[ 'int4[]', 'numeric[]', [ '{10,200}', '{10.0,2e2}', 1 ], [ '{10}', '{1}', 0 ] ],
	[ 'char(3)[]', 'char(5)[]', [ '{a,"b "}', '{a,b}', 1 ], [ '{a}', '{b}', 0 ] ],
	[ 'char(3)', 'char(5)', [ 'a', 'a', 1 ], [ 'a', 'b', 0 ] ]);
foreach my $case (@numbers)
{
	foreach my $swap (0, 1)
	{
		my ($a, $b, @pairs) = @$case;
		my @sides = $swap ? ($there, $here) : ($here, $there);
		foreach (0, 1)
		{
			my $n = $_;
			$sides[$n]->safe_psql('postgres', "CREATE TABLE number (id int PRIMARY KEY, v ${\ ($a, $b)[$n]}); INSERT INTO number VALUES (0, NULL), "
				  . join(', ', map { "(" . ($_ + 1) . ", '$pairs[$_][$n]')" } 0 .. $#pairs));
		}
		my @types = $swap ? ($b, $a) : ($a, $b);
		is(compare("'number'", 'cast_types => true'), join("\n", sort map { $pairs[$_][2] ? () : '{"id": ' . ($_ + 1) . '} both 1 1' } 0 .. $#pairs), "$types[0] and $types[1]");
		both('DROP TABLE number');
	}
}

# As a key, and inside of domains.
$here->safe_psql('postgres', 'CREATE DOMAIN amount AS float8; CREATE TABLE keyed (k numeric PRIMARY KEY, v amount)');
$there->safe_psql('postgres', 'CREATE DOMAIN amount AS int8; CREATE TABLE keyed (k float8 PRIMARY KEY, v amount)');
both('INSERT INTO keyed SELECT g / 8.0, g FROM generate_series(-20, 20) g');
$there->safe_psql('postgres', 'DELETE FROM keyed WHERE k = 2.25; UPDATE keyed SET v = 100 WHERE k = 0.125');
is(compare("'keyed'", 'cast_types => true'), qq({"k": 0.125} both 1 1\n{"k": 2.25} here 1 0), 'a numeric key and a floating-point one');
# A repair writes what the other side reads as the same value.
is(told("SELECT action, status FROM iblt_repair('keyed', $peer, direction => 'push', cast_types => true, apply => true)"), "insert|applied\nupdate|applied", 'repaired by value');
is(compare("'keyed'", 'cast_types => true'), '', 'and equal then');
$here->safe_psql('postgres', 'CREATE TABLE written (id int PRIMARY KEY, v float8, w numeric(10,2)[], x float8); INSERT INTO written SELECT g, g / 3.0, ARRAY[g], g::float8 * 2 ^ 55 FROM generate_series(1, 30) g');
$there->safe_psql('postgres', 'CREATE TABLE written (id int PRIMARY KEY, v numeric, w numeric(12,4)[], x int8); INSERT INTO written SELECT g, 0.25, ARRAY[g / 4.0], 7 FROM generate_series(11, 40) g');
is(told("SELECT count(*), status FROM iblt_repair('written', $peer, direction => 'push', cast_types => true, apply => true) GROUP BY status"), '40|applied', 'floating-point numbers to numeric and bigint, and an array of numeric');
is(compare("'written'", 'cast_types => true'), '', 'equal then');
$there->safe_psql('postgres', 'UPDATE written SET v = 1.25 WHERE id % 2 = 0');
is(told("SELECT count(*), status FROM iblt_repair('written', $peer, direction => 'pull', cast_types => true, apply => true) GROUP BY status"), '15|applied', 'and the other way');
is(compare("'written'", 'cast_types => true'), '', 'equal then');
# What the target's type cannot hold is an error.
$there->safe_psql('postgres', 'UPDATE written SET v = 0.1000000000000000055511151231257827 WHERE id = 3');
like(told("SELECT * FROM iblt_repair('written', $peer, direction => 'pull', cast_types => true, apply => true)"), qr/^27000: after the repair, the rows of 1 keys are not as on the source\n.*\nHINT: .*\nColumns whose type on the target may not have the values: "v", "w", "x"\./, 'a numeric that no floating-point number is');

# --- types of one name that are not the same -------------------------------------------

# IbltScenarios.pm has the first of them in all placements.  The type, what makes it here and there, a value, and what messages call it on each side.
my @inside = (
	[ 'an array', 'numeric(10,2)[]', 'numeric(12,4)[]', '', '', 'ARRAY[g]', 'numeric(10,2)[]', 'numeric(12,4)[]', 1 ],
	[ 'an array of char', 'char(3)[]', 'char(5)[]', '', '', "ARRAY['a']", 'character(3)[]', 'character(5)[]', 1 ],
	[ 'an array of bit', 'bit(3)[]', 'bit(4)[]', '', '', 'ARRAY[B\'%\']', 'bit(3)[]', 'bit(4)[]', 0 ],
	[ 'a domain', 'price', 'price', 'CREATE DOMAIN price AS numeric(10,2)', 'CREATE DOMAIN price AS numeric(12,4)', 'g', 'public.price (made of numeric(10,2))', 'public.price (made of numeric(12,4))', 1 ],
	[ 'a domain over a domain', 'fare', 'fare', 'CREATE DOMAIN price AS char(3); CREATE DOMAIN fare AS price', 'CREATE DOMAIN price AS char(4); CREATE DOMAIN fare AS price', 'g', 'public.fare (made of character(3))', 'public.fare (made of character(4))', 1 ],
	[ 'a domain over an array', 'prices', 'prices', 'CREATE DOMAIN prices AS numeric(10,2)[]', 'CREATE DOMAIN prices AS numeric(12,4)[]', 'ARRAY[g]', 'public.prices (made of numeric(10,2)[])', 'public.prices (made of numeric(12,4)[])', 1 ],
	[ 'an array of domains', 'price[]', 'price[]', 'CREATE DOMAIN price AS numeric(10,2)', 'CREATE DOMAIN price AS numeric(12,4)', 'ARRAY[g]', 'public.price[] (made of numeric(10,2)[])', 'public.price[] (made of numeric(12,4)[])', 0 ],
	[ 'a row', 'bill', 'bill', 'CREATE TYPE bill AS (n int, c char(3))', 'CREATE TYPE bill AS (n int, c char(5))', "ROW(g, 'a')::bill", 'public.bill (made of ("n" integer, "c" character(3)))', 'public.bill (made of ("n" integer, "c" character(5)))', 0 ],
	[ 'an array of rows', 'bill[]', 'bill[]', 'CREATE TYPE bill AS (a numeric(10,2)[])', 'CREATE TYPE bill AS (a numeric(12,4)[])', 'ARRAY[ROW(ARRAY[g])::bill]', 'public.bill[] (made of ("a" numeric(10,2)[])[])', 'public.bill[] (made of ("a" numeric(12,4)[])[])', 0 ],
	# made of other types, whose values may have the same bytes or the same text
	[ 'an array of domains over another type', 'day[]', 'day[]', 'CREATE DOMAIN day AS int', 'CREATE DOMAIN day AS date', "'{}'::day[]", 'public.day[] (made of integer[])', 'public.day[] (made of date[])', 0 ],
	[ 'a range', 'span', 'span', 'CREATE TYPE span AS RANGE (subtype = int)', 'CREATE TYPE span AS RANGE (subtype = date)', "'empty'::span", 'public.span (made of public.span of integer)', 'public.span (made of public.span of date)', 0 ],
	[ 'an array of ranges', 'span[]', 'span[]', 'CREATE TYPE span AS RANGE (subtype = int4)', 'CREATE TYPE span AS RANGE (subtype = int8)', "'{}'::span[]", 'public.span[] (made of public.span of integer[])', 'public.span[] (made of public.span of bigint[])', 0 ],
	[ 'an array of rows in another order', 'pair[]', 'pair[]', 'CREATE TYPE pair AS (a int, b int)', 'CREATE TYPE pair AS (b int, a int)', "'{}'::pair[]", 'public.pair[] (made of ("a" integer, "b" integer)[])', 'public.pair[] (made of ("b" integer, "a" integer)[])', 0 ],
	[ 'a domain over a row', 'couple', 'couple', 'CREATE TYPE pair AS (a int, b text); CREATE DOMAIN couple AS pair', 'CREATE TYPE pair AS (a int, b varchar); CREATE DOMAIN couple AS pair', 'ROW(g, 1)::pair', 'public.couple (made of ("a" integer, "b" text))', 'public.couple (made of ("a" integer, "b" character varying))', 0 ],
	[ 'an enum and a domain', 'mixed', 'mixed', "CREATE TYPE mixed AS ENUM ('1', '2')", 'CREATE DOMAIN mixed AS text', "'1'::mixed", 'public.mixed (made of public.mixed enum)', 'public.mixed (made of text)', 0 ],
	[ 'an enum and a row', 'mixed', 'mixed', "CREATE TYPE mixed AS ENUM ('(1)')", 'CREATE TYPE mixed AS (a int)', "'(1)'::mixed", 'public.mixed (made of public.mixed enum)', 'public.mixed (made of ("a" integer))', 0 ]);
my $drop = 'DROP TABLE inside; DROP TYPE IF EXISTS fare, prices, price, bill, day, span, couple, pair, mixed';
foreach (@inside)
{
	my ($title, $a, $b, $first, $second, $value, $mine, $theirs, $by_value) = @$_;
	my $fill = 'INSERT INTO inside SELECT g, %s FROM generate_series(1, 20) g';
	all("$first; CREATE TABLE inside (id int PRIMARY KEY, v $a); " . sprintf($fill, $value =~ s/%/101/r), "$second; CREATE TABLE inside (id int PRIMARY KEY, v $b); " . sprintf($fill, $value =~ s/%/1010/r));
	my $said = qr/column types differ: "v" is \Q$mine\E here and \Q$theirs\E on the peer/;
	like(told("SELECT * FROM iblt_compare('inside', $peer)"), qr/^42804: $said\nHINT:  Set cast_types => true/, "$title: not the same type");
	is(compare("'inside'", 'cast_types => true'), '', "$title: compared by value") if $by_value;
	# without iblt, arrays of domains are refused all the same
	my $plain = $title =~ /of domains/ ? qr/^0A000: / : qr/^42804: $said\nHINT:  Exclude the columns/;
	like(told("SELECT * FROM iblt_compare('inside', $bare, method => 'plain')"), $plain, "$title: without iblt");
	$there->safe_psql('postgres', "CALL iblt_track('inside')");
	like(told("CALL iblt_track('inside', peer => $peer)"), qr/^42804: tracked columns do not have the same types on both sides/, "$title: tracked");
	# the same type on both sides
	all('DROP TABLE inside', $drop);
	$there->safe_psql($_, "$first; CREATE TABLE inside (id int PRIMARY KEY, v $a); " . sprintf($fill, $value =~ s/%/101/r)) foreach qw(postgres bare);
	$here->safe_psql('postgres', "CREATE TABLE inside (id int PRIMARY KEY, v $a); " . sprintf($fill, $value =~ s/%/101/r) . ' WHERE g <> 7');
	is(compare("'inside'"), '{"id": 7} there 0 1', "$title: the same type");
	is(compare("'inside'", "method => 'plain'", peer => $bare), '{"id": 7} there 0 1', "$title: the same type, without iblt") unless $title =~ /of domains/;
	all($drop);
}
# An expression has a modifier, too.
both('CREATE TABLE made (id int PRIMARY KEY, v numeric[]); INSERT INTO made VALUES (1, \'{1.5}\')');
like(told("SELECT * FROM iblt_compare('made', $peer, expressions => '{\"v\": \"v::numeric(10,2)[]\"}', peer_expressions => '{\"v\": \"v::numeric(12,4)[]\"}')"),
	qr/^42804: column types differ: "v" is numeric\(10,2\)\[\] here and numeric\(12,4\)\[\] on the peer/, 'expressions of other modifiers');
is(compare("'made'", "expressions => '{\"v\": \"v::numeric(10,2)[]\"}'"), '', 'and of the same');

# --- several rows of a unique key -------------------------------------------------------

# A unique index that does not know of it any more, as after a damage.
sub insert_twice
{
	my ($node, $db, $table, $sql) = @_;
	$node->safe_psql($db, "UPDATE pg_index SET indisunique = false WHERE indrelid = '$table'::regclass");
	$node->safe_psql($db, $sql);
	$node->safe_psql($db, "UPDATE pg_index SET indisunique = true WHERE indrelid = '$table'::regclass");
	return;
}
# All twins of the comparison, and repairs.
sub refuse_several
{
	my ($type, $seven, $found, $refused) = @_;
	is(told("SELECT concat_ws(' ', key, side, here_count, there_count) FROM iblt_compare('several', $bare, method => 'plain')"), $found, "$type: by plain queries");
	like(told("SELECT * FROM $_"), $refused, "$type: " . s/\(.*//r) foreach "iblt_compare_nodes('public.several', ARRAY[NULL, $peer])", "iblt_repair_nodes('public.several', ARRAY[NULL, $peer], source => 'here')",
		map { "iblt_repair('several', $peer, direction => '$_', apply => true)" } 'push', 'pull';
	my $error = qr/^error\|rows have the same key \(here\), although it is unique: One such key is \Q$seven\E/;
	like(told("SELECT status, detail FROM $_"), $error, "$type: " . s/\(.*//r) foreach "iblt_audit($peer, tables => '{several}')", "iblt_audit_nodes(ARRAY[NULL, $peer], tables => '{public.several}')";
	$here->safe_psql('postgres', "CALL iblt_audit_run($peer, tables => '{several}')");
	like(told('SELECT status, detail FROM iblt_audit_tables WHERE run = (SELECT max(run) FROM iblt_audit_run_stats)'), $error, "$type: in a run");
	is($here->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT string_agg(v::text, ',' ORDER BY v) FROM several"), '1,2,3,4,5,6,7,8,9,70', "$type: no row was changed");
	unlike(told("SELECT key, action, status FROM iblt_repair('several', $peer, direction => 'pull', key_columns => '{k,v}', apply => true)"), qr/skipped|\d{5}:/, "$type: with more columns as key, it is repaired");
	is(compare("'several'"), '', "$type: and equal");
	return;
}

my %keys = (int => 'g', uuid => "lpad(g::text, 32, '0')::uuid");
foreach my $type ('int', 'uuid')
{
	my $key = $keys{$type};
	my $seven = $type eq 'int' ? '{"k": 7}' : '{"k": "00000000-0000-0000-0000-000000000007"}';
	my $line = sub { my ($n, $rest) = @_; return $seven =~ s/7("?\})$/sprintf('%s', $n) . $1/re . " $rest" };
	all("CREATE TABLE several (k $type PRIMARY KEY, v int NOT NULL); INSERT INTO several SELECT $key, g FROM generate_series(1, 9) g");
	insert_twice($here, 'postgres', 'several', "INSERT INTO several SELECT $key, 70 FROM generate_series(7, 7) g");
	$there->safe_psql($_, 'UPDATE several SET v = 30 WHERE v = 3; DELETE FROM several WHERE v = 4') foreach qw(postgres bare);
	my $found = join("\n", sort $line->(3, 'both 1 1'), $line->(4, 'here 1 0'), $line->(7, 'both 2 1'));
	my $refused = qr/^21000: rows have the same key \(here\), although it is unique\nDETAIL:  One such key is \Q$seven\E\. A unique index is damaged or was dropped meanwhile, or this transaction has violated a deferred constraint\.\nHINT:  If the index is there, delete the rows that are too many, and REINDEX\. Until then, name more columns/;
	like(told("SELECT * FROM iblt_compare('several', $peer)"), $refused, "$type: several rows of one key are an error");
	refuse_several($type, $seven, $found, $refused) if $type eq 'int';
	all('DROP TABLE several');
}

# A second row of a key on both sides, which neither index has: the sides of the key do not tell, its
# rows do.  IbltScenarios.pm has comparisons.
both('CREATE TABLE hidden (k int PRIMARY KEY, v text); INSERT INTO hidden SELECT g, g FROM generate_series(1, 20000) g; ANALYZE hidden');
$here->safe_psql('postgres', "UPDATE hidden SET v = 'a' WHERE k = 7");
unnoticed($here, 'hidden_pkey', "INSERT INTO hidden VALUES (7, 'b')");
unnoticed($there, 'hidden_pkey', "INSERT INTO hidden VALUES (7, 'c')");
foreach my $recheck (0, 1)
{
	unlike(told("SELECT status FROM iblt_repair('hidden', $peer, direction => 'pull', recheck => $recheck, apply => true)"), qr/applied/, "a repair does not say that it was applied, recheck $recheck");
}
both('DROP TABLE hidden');

# Of digests, one that is required is not left; and a key of this transaction's own.
both('CREATE TABLE several (a int, b int, v int, PRIMARY KEY (a, b) DEFERRABLE INITIALLY DEFERRED); INSERT INTO several SELECT g, g, g FROM generate_series(1, 9) g');
my $own = "BEGIN; INSERT INTO several VALUES (7, 7, 70);";
like(told("$own SELECT * FROM iblt_compare('several', $peer);"), qr/^21000: rows have the same key \(here\), although it is unique\nDETAIL:  One such key is \{"a": 7, "b": 7\}\./, 'a deferred constraint that is violated');
both('ALTER TABLE several DROP CONSTRAINT several_pkey, ADD PRIMARY KEY (a, b)');
$there->safe_psql('postgres', "CALL iblt_track('several')");
$here->safe_psql('postgres', "CALL iblt_track('several', peer => $peer)");
insert_twice($here, 'postgres', 'several', 'INSERT INTO several VALUES (7, 7, 70)');
like(told("SELECT concat_ws(' ', key, side, here_count, there_count) FROM iblt_compare('several', $peer, live => 'require')"), qr/^IB008: live digests cannot be used: they contradict the rows that an index finds/, 'with digests that are required, it is an error');
like(told("SELECT * FROM iblt_compare('several', $peer, live => 'auto')"), qr/^21000: rows have the same key/, 'otherwise a scan, which tells why');
# The same SQLSTATE, from a subquery of a view, is told as it is.
both('CREATE VIEW sub AS SELECT a AS id, (SELECT s.v FROM several s) AS v FROM several');
is(told("SELECT * FROM iblt_compare('sub', $peer, key_columns => '{id}')") =~ s/^21000: (on the peer: )?//r, 'more than one row returned by a subquery used as an expression', 'another error with this SQLSTATE');

done_testing();
