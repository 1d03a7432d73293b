# iblt_repair restores every built-in type byte for byte, under whatever settings,
# and the SQL that it shows does the same.  At the end, long values.
#
# IBLT_TEST_LONG=1   also a value that does not end, which takes 1 GB
use IbltRepair;

my ($here, $there) = repair_servers();

# --- every built-in type ------------------------------------------------------------

# Values as SQL; "all" makes arrays of them besides.
my %values = (
	aclitem => [ q{'"Ro ""le"=r*w/"Ro ""le"'}, q{'=U/"Ro ""le"'} ],
	bit => [ q{B'1'::bit(1)}, q{B'0'::bit(1)} ],
	'bit(11)' => [ q{B'10110011101'}, q{B'00000000000'} ],
	bool => [ 'true', 'false' ],
	box => [ q{'(1,2),(3,4.000000000000001)'}, q{'(-0,Infinity),(-1e-300,-Infinity)'} ],
	bpchar => [ q{'no length   '}, q{''}, q{'   '} ],
	'bpchar(7)' => [ q{'a'}, q{''}, q{' é '}, q{'1234567'} ],
	bytea => [ q{'\x00ff5c27'}, q{''}, q{'\x5c5c2727225c'}, q{decode(repeat('a0', 5000), 'hex')} ],
	char => [ q{'a'}, q{''}, q{''''}, q{'\\'}, q{(-23)}, q{(-128)}, q{127} ],
	cid => [ q{'0'}, q{'4294967295'} ],
	cidr => [ q{'10.0.0.0/8'}, q{'2001:db8::/32'}, q{'1.2.3.4/32'} ],
	circle => [ q{'<(1,2),3.1415926535897931>'}, q{'<(0,-0),Infinity>'} ],
	date => [ q{'2026-03-04'}, q{'0044-03-15 BC'}, q{'infinity'}, q{'-infinity'}, q{'5874897-12-31'}, q{'0001-01-01'}, q{'4713-01-01 BC'} ],
	float4 => [ q{'0.1'}, q{'-0'}, q{'NaN'}, q{'Infinity'}, q{'-Infinity'}, q{'1e-45'}, q{'3.4028235e38'}, q{'16777217'} ],
	float8 => [ q{'0.1'}, q{'-0'}, q{'NaN'}, q{'Infinity'}, q{'-Infinity'}, q{'5e-324'}, q{'1.7976931348623157e308'}, q{'0.30000000000000004'}, q{'1e23'} ],
	inet => [ q{'1.2.3.4'}, q{'1.2.3.4/8'}, q{'::ffff:1.2.3.4/96'}, q{'::1'} ],
	int2 => [ q{'-32768'}, q{'32767'}, q{'0'} ],
	int2vector => [ q{'1 -2 3'}, q{''} ],
	int4 => [ q{'-2147483648'}, q{'2147483647'} ],
	int8 => [ q{'-9223372036854775808'}, q{'9223372036854775807'} ],
	interval => [ q{INTERVAL 'P1Y-2M3DT-4H5M-6.000007S'}, q{INTERVAL '-1 days +02:03:04'}, q{INTERVAL '1 year -1 day'}, q{INTERVAL '-0.000001 s'},
		q{INTERVAL '178000000 years'}, q{INTERVAL '0'}, q{INTERVAL '24:00:00'}, q{INTERVAL '1 day'}, q{-INTERVAL '596523 hours 14 minutes 7.999999 s'} ],
	'interval day to second(2)' => [ q{INTERVAL '1 02:03:04.56'}, q{INTERVAL '-1 02:03:04.5'} ],
	json => [ q{'{"b": 1,  "a": "\u00e9 \" '' \\\\", "a": null}'}, q{'"x"'}, q{'null'}, q{' [1.0, 1.00]'} ],
	jsonb => [ q{'{"b": 1.00, "a": ["\u00e9 \" '' \\\\", null, 1e400]}'}, q{'"x"'}, q{'null'}, q{'[]'} ],
	jsonpath => [ q{'$.a[*] ? (@."b ''" > 1.50)'}, q{'strict $'} ],
	line => [ q{'{1,-2,0.1}'}, q{'{0,-1,-0}'} ],
	lseg => [ q{'[(1,2),(-0,1e-300)]'} ],
	macaddr => [ q{'08:00:2b:01:02:03'} ],
	macaddr8 => [ q{'08:00:2b:01:02:03:04:05'} ],
	money => [ q{(0.00::numeric::money)}, q{((-92233720368547758.08)::numeric::money)}, q{(92233720368547758.07::numeric::money)}, q{(1234567.89::numeric::money)}, q{((-0.05)::numeric::money)} ],
	name => [ q{'Na"me '' \\\\'}, q{''} ],
	numeric => [ q{'1.10'}, q{'-0.000'}, q{'NaN'}, q{'1e500'}, q{'123456789012345678901234567890.1234567890'}, q{'-1e-300'} ],
	'numeric(12,3)' => [ q{'1.1'}, q{'NaN'}, q{'-99999999.999'} ],
	oid => [ q{'4294967295'}, q{'0'} ],
	oid8 => [ q{'18446744073709551615'}, q{'0'} ],
	oidvector => [ q{'1 4294967295'}, q{''} ],
	path => [ q{'[(1,2),(3,4)]'}, q{'((1,2),(3,4),(-0,NaN))'} ],
	pg_lsn => [ q{'FFFFFFFF/FFFFFFFF'}, q{'0/0'} ],
	pg_snapshot => [ q{'10:20:10,14,15'} ],
	point => [ q{'(-0,NaN)'}, q{'(0.1,1e300)'} ],
	polygon => [ q{'((0,0),(1,1),(2,0.1))'} ],
	refcursor => [ q{'cur "sor'} ],
	regclass => [ q{'pg_class'}, q{'public."T able"'}, q{'-'}, q{'4000000000'} ],
	regcollation => [ q{'"C"'}, q{'"default"'} ],
	regconfig => [ q{'english'} ],
	regdatabase => [ q{'postgres'}, q{'template1'}, q{'-'} ],
	regdictionary => [ q{'simple'} ],
	regnamespace => [ q{'pg_catalog'}, q{'"Sche ma"'} ],
	regoper => [ q{('pg_catalog.+(integer,integer)'::regoperator::oid)}, q{'0'}, q{'||/'} ],
	regoperator => [ q{'pg_catalog.+(integer,integer)'}, q{'-(NONE,int8)'}, q{'0'} ],
	regproc => [ q{('pg_catalog.sum(integer)'::regprocedure::oid)}, q{'now'}, q{'-'} ],
	regprocedure => [ q{'pg_catalog.sum(integer)'}, q{'public."F unc"("T able", text[])'}, q{'-'} ],
	regrole => [ q{'"Ro ""le"'}, q{'-'} ],
	regtype => [ q{'integer'}, q{'public."T able"[]'}, q{'"char"'}, q{'character varying'}, q{'timestamp with time zone'}, q{'-'} ],
	text => [ q{'it''s "quoted" \\\\ back'}, q{'NULL'}, q{''}, qq{'two\nlines\ttab'}, qq{'\x{c3}\x{a9}\x{e2}\x{82}\x{ac}\x{f0}\x{9f}\x{98}\x{80}'}, q{U&'\0001\007f'}, q{'$1 %I %s :x ;--'}, q{repeat('long ''\\\\', 5000)} ],
	tid => [ q{'(4294967295,65535)'}, q{'(0,1)'} ],
	time => [ q{'24:00:00'}, q{'00:00:00.000001'} ],
	'time(2)' => [ q{'12:34:56.78'} ],
	timestamp => [ q{'2026-02-03 04:05:06.789012'}, q{'infinity'}, q{'-infinity'}, q{'4713-01-01 00:00:00 BC'}, q{'294276-12-31 23:59:59.999999'} ],
	'timestamp(0)' => [ q{'2026-02-03 04:05:06'} ],
	timestamptz => [ q{'2026-02-03 04:05:06.789012+05:30'}, q{'infinity'}, q{'-infinity'}, q{'0044-03-15 BC'}, q{'294276-12-31 23:59:59.999999+00'}, q{'1890-01-01 00:00:00+00'} ],
	timetz => [ q{'24:00:00+15:59:59'}, q{'00:00:00.000001-15:59'}, q{'10:00:00+00'} ],
	tsquery => [ q{$$'it''s' & !'b\\\\\\\\' <3> 'c':*AB$$}, q{''} ],
	tsvector => [ q{$$'it''s':1A,3 'b\\\\\\\\':2$$}, q{''} ],
	txid_snapshot => [ q{'10:20:10,14,15'} ],
	uuid => [ q{'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'} ],
	varbit => [ q{B'101'}, q{B''} ],
	'varbit(9)' => [ q{B'101010101'} ],
	varchar => [ q{'blanks   '}, q{''} ],
	'varchar(9)' => [ q{'123456789'}, q{'    '} ],
	xid => [ q{'4294967295'} ],
	xid8 => [ q{'18446744073709551615'} ],
	xml => [ q{XMLPARSE(CONTENT '<a b="c">it''s <!-- x --> &lt; \\\\</a>tail')}, q{XMLPARSE(DOCUMENT '<?xml version="1.0" standalone="yes"?><a/>')},
		q{XMLPARSE(DOCUMENT '<?xml version="1.0" encoding="UTF-8"?><a/>')}, q{XMLPARSE(CONTENT '')}, q{XMLPARSE(DOCUMENT '<!DOCTYPE a [<!ENTITY x "y">]><a/>')} ],
	int4range => [ q{'[1,5)'}, q{'empty'}, q{'(,)'} ], int8range => [ q{'(,9223372036854775807)'} ],
	numrange => [ q{'[1.0,2.00]'}, q{'(-1e-9,)'} ], daterange => [ q{'[2026-01-01,infinity]'}, q{'[0044-03-15 BC,)'} ],
	tsrange => [ q{'["2026-01-02 03:04:05.000001",infinity)'} ], tstzrange => [ q{'(,"2026-01-02 03:04:05.000001+00")'} ],
	int4multirange => [ q{'{[1,3),[5,)}'}, q{'{}'} ], int8multirange => [ q{'{[1,3)}'} ], nummultirange => [ q{'{[1.0,2.00]}'} ],
	datemultirange => [ q{'{[2026-02-03,2026-02-05)}'} ], tsmultirange => [ q{'{["2026-02-03 00:00:00",infinity)}'} ], tstzmultirange => [ q{'{["2026-02-03 00:00:00+00",)}'} ],
	# types of one's own
	'public."E num"' => [ q{'it''s'}, q{'B "x" \\\\'} ],
	'public."Do main"' => [ q{'dom ''ain'} ],
	'public.cents' => [ q{(1.50::numeric::money)} ],
	'public."Com posite"' => [ q{ROW('t "''\\\\,()', 'infinity', '0.1', INTERVAL 'P1Y-2M3DT-4H', '\x00ff', NULL, ARRAY['it''s']::public."E num"[])}, q{ROW(NULL, NULL, NULL, NULL, NULL, NULL, NULL)} ],
	'public."Ra nge"' => [ q{'[-0.2,0.1]'}, q{'(,NaN)'} ],
);
push @{ $values{numeric} }, q{'-Infinity'};
push @{ $values{interval} }, q{INTERVAL '-infinity'} if major_version() >= 17;

both(q{CREATE ROLE "Ro ""le"; CREATE SCHEMA "Sche ma"; CREATE TABLE "T able" (a int); CREATE FUNCTION "F unc"("T able", text[]) RETURNS int LANGUAGE sql AS 'SELECT 1';
	CREATE TYPE "E num" AS ENUM ('it''s', E'B "x" \\\\\\\\'); CREATE DOMAIN "Do main" AS text CHECK (VALUE <> ''); CREATE DOMAIN cents AS money;
	CREATE TYPE "Com posite" AS (t text, d date, f float8, i interval, b bytea, "n N" int, e "E num"[]); CREATE TYPE "Ra nge" AS RANGE (subtype = float8)});

# No type of this release is forgotten.
my %exists = map { $_ => 1 } split /\n/, $here->safe_psql('postgres', q{SELECT typname FROM pg_type t
	WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'r', 'm') AND typrelid = 0
	AND NOT EXISTS (SELECT FROM pg_type e WHERE e.typarray = t.oid)});
# values of these are made by the server alone: there is no input
delete $exists{$_} foreach qw(gtsvector pg_brin_bloom_summary pg_brin_minmax_multi_summary pg_dependencies pg_mcv_list pg_ndistinct pg_node_tree);
is(join(' ', sort grep { !$values{$_} } keys %exists), '', 'every built-in type has values to test');
my @types = sort grep { /^public\./ || $exists{ s/[ (].*//r } } keys %values;
is(scalar(grep { !/^public\.|[ (]/ } @types), scalar(keys %exists), 'and is tested');

# A table with a column of each and of its array; row i has the i-th values.
my $rows = 10;
my (@columns, @lists, $n);
foreach my $type (@types)
{
	my $sql = $type =~ s/^char$/"char"/r =~ s/^bit$/bit(1)/r;
	$n++;
	push @columns, "c$n $sql";
	my @v = @{ $values{$type} };
	my $plain = $sql =~ s/ .*//r;
	$plain = $sql if $sql =~ /^public\./;
	my $cast = sub { my $v = shift; return $type eq 'char' && $v =~ /\d/ ? "(${v}::int4::\"char\")" : $type eq 'regoper' || $type eq 'regproc' ? "(${v}::$type)" : "($v)::$sql" };
	push @lists, [ map { my $i = $_; $i < @v ? $cast->($v[$i]) : $i == 9 ? 'NULL' : $cast->($v[$i % @v]) } 0 .. $rows - 1 ];
	# some types have no array of modified elements that reads well: the plain type will do
	next if $sql =~ /[ (]/ && $sql !~ /^public/ || $type eq 'bit';
	push @columns, "a$n $sql\[]";
	my $array_of = sub { 'ARRAY[' . join(', ', map { $_ eq 'NULL' ? $_ : $cast->($_) } @_) . "]::$sql\[]" };
	my ($array, $first) = ($array_of->(@v, 'NULL'), $array_of->($v[0]));
	my @other = ("'{}'::$sql\[]", $first, "ARRAY[$first, $first]");
	push @lists, [ map { $_ == 0 ? $array : $_ == 9 ? 'NULL' : $other[ $_ % 3 ] } 0 .. $rows - 1 ];
}
push @columns, 'low int4[]';
push @lists, [ map { $_ % 2 ? "'[-1:0][2:3]={{1,NULL},{3,4}}'::int4[]" : "'{}'::int4[]" } 1 .. $rows ];

# md5 of what each column's send function gives; of the text of types with our OIDs
# and of those that send OIDs.
my $prints = join(', ', map { my ($name) = /^(\S+)/; "sends('$name', every.$name)" } @columns);
both(q{CREATE FUNCTION sends(name text, value anyelement) RETURNS text LANGUAGE plpgsql
	SET datestyle = ISO SET intervalstyle = iso_8601 SET timezone = 'UTC' SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C' SET search_path = pg_catalog, public AS $$
	DECLARE t record; answer text;
	BEGIN
		SELECT typsend, typnamespace, typcategory INTO t FROM pg_type WHERE oid = pg_typeof(value);
		IF t.typsend = 0 OR t.typnamespace <> 'pg_catalog'::regnamespace OR pg_typeof(value)::text LIKE '%public.%' OR pg_typeof(value)::text ~ '^(aclitem|refcursor|reg)' THEN
			RETURN name || ':' || md5(format('%L', value));
		END IF;
		EXECUTE format('SELECT encode(%s($1), ''hex'')', t.typsend) INTO answer USING value;
		RETURN name || ':' || coalesce(md5(answer), 'NULL');
	END $$});

sub build
{
	my ($table, $key, @order) = @_;
	return "CREATE TABLE $table (id int $key, " . join(', ', @columns) . ");\n" . fill($table, @order);
}

# Rows of which row i has the values of row order[i].
sub fill
{
	my ($table, @order) = @_;
	return join "\n", map { my $i = $_; defined $order[$i] ? "INSERT INTO $table VALUES (" . join(', ', $i, map { $_->[ $order[$i] ] } @lists) . ");" : '' } 0 .. $#order;
}

sub fingerprint
{
	my ($node, $table) = @_;
	return $node->safe_psql('postgres', "SELECT id, $prints FROM $table AS every ORDER BY id, 2, 3, 4, 5, 6, 7, 8");
}

# Names the columns that differ, if any do.
sub alike
{
	my ($got, $wanted, $text) = @_;
	my @got = split /[|\n]/, $got;
	my @wanted = split /[|\n]/, $wanted;
	my %types = map { split / /, $_, 2 } @columns;
	my %differ = map { my ($c) = $wanted[$_] =~ /^(\w+):/; ($c ? "$c $types{$c}" : 'id') => 1 }
	  grep { ($got[$_] // '') ne $wanted[$_] } 0 .. $#wanted;
	is(join(', ', sort keys %differ), '', $text);
	is(scalar(@got), scalar(@wanted), "$text: and as many rows");
	return;
}

# psql would take the backslashes of values for its own with these settings
my $plainly = 'SET standard_conforming_strings = on; SET xmloption = content;';
my @source = (0 .. $rows - 1);
my @target = map { $_ == 3 ? undef : ($_ + 1) % $rows } 0 .. $rows;
foreach my $table ('every', 'every_bag')
{
	my $key = $table eq 'every' ? 'PRIMARY KEY' : '';
	$there->safe_psql('postgres', $plainly . build($table, $key, @source));
	$here->safe_psql('postgres', $plainly . build($table, $key, @target));
	my $truth = fingerprint($there, $table);
	my $before = fingerprint($here, $table);
	isnt($before, $truth, "$table: they differ");

	# the SQL that is shown, under other settings, gives the same
	my $sql = $here->safe_psql('postgres', "SELECT sql FROM " . call($table, 'pull'));
	alike(fingerprint($here, $table), $before, "$table: a preview changes nothing here");
	alike(fingerprint($there, $table), $truth, "$table: nor there");
	foreach my $other (join('', before(19, 'SET standard_conforming_strings = off;')) . ' SET xmloption = content;',
		"SET datestyle = 'Postgres, DMY'; SET intervalstyle = postgres; SET timezone = 'Pacific/Chatham'; SET xmloption = content;"
		. ($money ? " SET lc_monetary = '$money';" : ''))
	{
		alike($here->safe_psql('postgres', "$other BEGIN; $sql\n SELECT id, $prints FROM $table AS every ORDER BY id, 2, 3, 4, 5, 6, 7, 8; ROLLBACK"),
			$truth, "$table: what is shown, run by psql, makes this side like the other");
	}
	alike(fingerprint($here, $table), $before, "$table: it was rolled back");

	my $applied = $here->safe_psql('postgres', "SELECT sql FROM " . call($table, 'pull', 'apply => true') . " WHERE status = 'applied'");
	alike(fingerprint($here, $table), $truth, "$table, pull: every built-in type, byte for byte");
	is($applied, $sql, "$table: what is run is what was shown");
	alike(fingerprint($there, $table), $truth, "$table: the source is as it was");

	# and the other way, from the old rows
	$here->safe_psql('postgres', "$plainly TRUNCATE $table; " . fill($table, @target));
	$here->safe_psql('postgres', 'SELECT count(*) FROM ' . call($table, 'push', 'apply => true'));
	alike(fingerprint($there, $table), $before, "$table, push: every built-in type, byte for byte");
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('$table', ${\ conninfo($there)})"), '0', "$table: iblt_compare says so, too");
}

# Composite values whose first column reads like such a value, in statements for many rows.
both(q{CREATE TYPE one AS (t text); CREATE TYPE two AS (t text, u text); CREATE DOMAIN as_two AS two;
	CREATE TABLE inside (k one PRIMARY KEY, c two, d as_two, n text); INSERT INTO inside VALUES (ROW('zzz'), ROW('x', 'y'), ROW('x', 'y'), 'a')});
$here->safe_psql('postgres', q{INSERT INTO inside VALUES (ROW('(zzz)'), ROW('x', 'y'), ROW('x', 'y'), 'a')});
$there->safe_psql('postgres', q{UPDATE inside SET c = ROW('(1,2)', 'u'), d = ROW('(1,2)', 'u'), n = 'b'; INSERT INTO inside VALUES (ROW('("(new)")'), ROW('(3,4)', 'v'), ROW('(3,4)', 'v'), 'c')});
is(repair('inside', 'pull', 'apply => true'), join("\n", 'delete {"k": {"t": "(zzz)"}} applied', 'insert {"k": {"t": "(\\"(new)\\")"}} applied', 'update {"k": {"t": "zzz"}} applied'), 'composite values are not taken apart');
same('inside', 'composite values');

# --- long values ----------------------------------------------------------------------------

# The statements are right, a row that changes meanwhile is not repaired, nothing is kept
# afterwards, and the memory is a few times that of the row.
sub target { my ($direction) = @_; return $direction eq 'pull' ? $here : $there }
sub source { my ($direction) = @_; return $direction eq 'pull' ? $there : $here }

# Two of more than 4 MB, so that they travel in parts, which end within a character.
my @values = (
	q{'x' || repeat('é', 2500000)},
	q{'xx' || repeat('é', 2500000)},
	q{(SELECT string_agg(md5(g::text) || E'''"\\\\ %s $1 é €\n', '') FROM generate_series(1, 3000) AS g)},
	q{repeat('"{\"sha256\": 1}', 7000)},
);

# --- what is written ----------------------------------------------------------------------

my %tables = (
	docs => 'id int PRIMARY KEY, n int, t text, b bytea, j jsonb',
	bare => 'id int, n int, t text, b bytea, j jsonb',
	keyed => 'k text, id int, n int, t text, b bytea, j jsonb, PRIMARY KEY (k, id)',
	parts => 'id int, n int, t text, b bytea, j jsonb, PRIMARY KEY (id)) PARTITION BY RANGE (id',
);
my $columns = 'id, n, t, b, j';

sub fill_long
{
	my ($table, $direction) = @_;
	both("DROP TABLE IF EXISTS $table; CREATE TABLE $table ($tables{$table})");
	both("CREATE TABLE ${table}_1 PARTITION OF $table FOR VALUES FROM (0) TO (3); CREATE TABLE ${table}_2 PARTITION OF $table DEFAULT") if $table eq 'parts';
	both("ALTER TABLE $table ALTER k SET DEFAULT repeat('key', 40000)") if $table eq 'keyed';
	my ($i, $length) = (0, $table eq 'docs' ? 5000000 : 70000);
	both("INSERT INTO $table ($columns) SELECT ${\ ++$i}, 1, v, convert_to(left(v, 40000), 'UTF8'), to_jsonb(left(v, 70000)) FROM (SELECT left($_, $length) AS v) AS x; INSERT INTO $table ($columns) VALUES ($i + 10, 1, 'short', NULL, NULL)") foreach @values;
	source($direction)->safe_psql('postgres', "UPDATE $table SET t = t || 'changed' WHERE id = 1; UPDATE $table SET n = 2 WHERE id = 2; UPDATE $table SET b = NULL, t = 's' WHERE id = 3;
		UPDATE $table SET t = (SELECT t FROM $table WHERE id = 2), n = 2 WHERE id = 11; UPDATE $table SET n = 2 WHERE id = 12;
		INSERT INTO $table ($columns) SELECT 21, n, t, b, j FROM $table WHERE id = 4; INSERT INTO $table ($columns) SELECT 22, n, t, b, j FROM $table WHERE id = 4");
	target($direction)->safe_psql('postgres', "INSERT INTO $table ($columns) SELECT 31, n, t, b, j FROM $table WHERE id = 3; UPDATE $table SET t = reverse(t), j = NULL WHERE id = 4");
	return if $table ne 'bare';
	source($direction)->safe_psql('postgres', "INSERT INTO $table SELECT * FROM $table WHERE id IN (1, 21)");
	target($direction)->safe_psql('postgres', "INSERT INTO $table SELECT * FROM $table WHERE id = 31");
	return;
}

my $secret = qr/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-/;

# What a direction decides does not depend on the kind of key.
foreach my $table (sort keys %tables)
{
	foreach my $direction ($table eq 'docs' ? ('pull', 'push') : $table eq 'keyed' ? 'push' : 'pull')
	{
		fill_long($table, $direction);
		my $shown = "SELECT action, count(*), sum(length(sql)), min(left(status, 7)), md5(string_agg(md5(sql), ' ' ORDER BY md5(sql))) FROM ";
		# asked for once, since it takes long
		my $preview = "CREATE TEMP TABLE preview AS SELECT * FROM ${\ call($table, $direction)}; $shown preview GROUP BY 1 ORDER BY 1";
		($preview, my $ends, my $left) = split /^~\n/m, $here->safe_psql('postgres', $direction eq 'push' ? $preview : "$preview; SELECT '~'; SELECT left(sql, 60), right(sql, 60) FROM preview; SELECT '~';
			BEGIN; SELECT sql FROM preview \\gexec\nSELECT 'left', count(*) FROM iblt_compare('$table', ${\ conninfo($there)}); ROLLBACK");
		chomp $preview;
		my $what = "$table, $direction";
		is(join(' ', map { (split /\|/)[ 0, 1 ] } split /\n/, $preview), $table eq 'bare' ? 'delete 7 insert 8' : 'delete 1 insert 2 update 6', "$what: the statements");
		if ($direction eq 'pull')
		{
			is($left, 'left|0', 'the statements that are shown do it');
			unlike($ends, $secret, 'and have no random characters');
		}
		my $applied = $here->safe_psql('postgres', $shown . call($table, $direction, 'apply => true') . ' GROUP BY 1 ORDER BY 1');
		is($applied, $preview =~ s/preview/applied/gr, 'and are run');
		is($_->safe_psql('postgres', "SELECT count(*) FROM $table"), $table eq 'bare' ? 12 : 10, 'rows of ' . $_->name) foreach $here, $there;
		is($here->safe_psql('postgres', "SELECT md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))) FROM (SELECT $columns FROM $table) AS t"),
			$there->safe_psql('postgres', "SELECT md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))) FROM (SELECT $columns FROM $table) AS t"), 'with the same values');
	}
}
nothing_open('repairs');

# --- orders, errors and what is left ---------------------------------------------------------

my $kept = q{SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'iblt steps'};

both('CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree, v text)');
foreach my $direction ('pull', 'push')
{
	both('TRUNCATE tree');
	source($direction)->safe_psql('postgres', "INSERT INTO tree SELECT g, nullif(g + 1, 5), repeat('v' || g, 100000) FROM generate_series(1, 4) AS g");
	is($here->safe_psql('postgres', "BEGIN; SELECT count(*) FROM ${\ call('tree', $direction, 'apply => true')} WHERE status = 'applied'; $kept; COMMIT"), "4\n0", "$direction: statements that are tried again, and nothing is kept");
	same('tree', $direction);

	my $target = target($direction);
	source($direction)->safe_psql('postgres', "UPDATE tree SET v = v || 'bad' WHERE id = 2");
	$target->safe_psql('postgres', "ALTER TABLE tree ADD CONSTRAINT good CHECK (v NOT LIKE '%bad')");
	like(failure_of("SELECT * FROM ${\ call('tree', $direction, 'apply => true')}"), qr/violates check constraint "good"\nDETAIL:  Failing row.*\nThe row has the key \{"id": 2\}/s, 'an error tells of the row');
	$target->safe_psql('postgres', 'ALTER TABLE tree DROP CONSTRAINT good; CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; CREATE TRIGGER nothing BEFORE UPDATE ON tree FOR EACH ROW EXECUTE FUNCTION nothing()');
	like(failure_of("SELECT * FROM ${\ call('tree', $direction, 'apply => true')}"), qr/changed 0 rows instead of 1\nDETAIL:  UPDATE public\.tree SET v = \(SELECT iblt_internal\.repair_value\('iblt long /, 'also one whose rows are counted');
	$target->safe_psql('postgres', 'DROP FUNCTION nothing() CASCADE');

	# A value changes after its row was compared.
	my $fetch = "iblt_internal.repair_fetch(iblt_internal.repair_plan, iblt_internal.repair_step, integer)";
	$here->safe_psql('postgres', qq{ALTER FUNCTION $fetch RENAME TO repair_fetch_it; CREATE FUNCTION $fetch RETURNS text LANGUAGE plpgsql AS \$\$
		BEGIN PERFORM "db ""link".dblink_exec(${\ conninfo(source($direction))}, 'UPDATE tree SET v = v || ''worse'' WHERE id = 2'); RETURN repair_fetch_it(\$1, \$2, \$3); END\$\$});
	foreach my $apply ('false', 'true')
	{
		is(repair('tree', $direction, "apply => $apply"), 'update {"id": 2} skipped changed since it was compared', "$direction, apply => $apply: a value that changes");
	}
	is($target->safe_psql('postgres', "SELECT count(*) FROM tree WHERE v = repeat('v' || id, 100000)"), 4, 'is not written');
	$here->safe_psql('postgres', "DROP FUNCTION $fetch; ALTER FUNCTION iblt_internal.repair_fetch_it RENAME TO repair_fetch");

	# by a run
	my $run = $here->safe_psql('postgres', "CALL iblt_audit_run(${\ conninfo($there)}, tables => '{tree}', progress => false)");
	is($here->safe_psql('postgres', "SELECT action, status, length(sql) > 65536 FROM iblt_repair(run => $run, peer => ${\ conninfo($there)}, direction => '$direction'$_)"), $_ ? 'update|applied|t' : 'update|preview|t', "$direction: a run$_") foreach '', ', apply => true';
	same('tree', "$direction, run");
}

sub failure_of { my ($sql) = @_; my ($rc, $out, $err) = $here->psql('postgres', $sql, on_error_stop => 0); return $err }

# --- encodings --------------------------------------------------------------------------------

$there->safe_psql('postgres', q{CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0});
$there->safe_psql('latin', 'CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live');
$there->safe_psql('latin', "SET client_encoding = 'UTF8'; CREATE TABLE words (id int PRIMARY KEY, n int, t text); INSERT INTO words SELECT g, 1, repeat('é', g * 20000) FROM generate_series(1, 4) AS g");
$here->safe_psql('postgres', "CREATE TABLE words (id int PRIMARY KEY, n int, t text); INSERT INTO words SELECT g, 2, repeat('é', g * 20000) FROM generate_series(1, 4) AS g; INSERT INTO words VALUES (5, 1, repeat('é', 50000))");
my $words = call('words', 'push', 'apply => true', literal($there->connstr('latin')));
is($here->safe_psql('postgres', "SELECT key ->> 'id', action, status, left(sql, 33), length(sql) > 50000 FROM $words ORDER BY 1"),
	join("\n", (map { "$_|update|applied|UPDATE public.words SET n = '2'::|f" } 1 .. 4), '5|insert|applied|INSERT INTO public.words (id, n, |t'),
	'another encoding: a value is long on both sides or on none');
is($there->safe_psql('latin', "SET client_encoding = 'UTF8'; SELECT count(*) FROM words WHERE t = repeat('é', length(t)) AND length(t) = CASE id WHEN 5 THEN 50000 ELSE id * 20000 END"), 5, 'and is written in it');

# --- a hostile peer ---------------------------------------------------------------------------

# A value whose parts do not end takes 1 GB.
SKIP:
{
	skip 'a value of 1 GB: set IBLT_TEST_LONG', 1 unless $ENV{IBLT_TEST_LONG};
	both("CREATE TABLE endless (id int PRIMARY KEY, v text); INSERT INTO endless VALUES (1, repeat('v', 100000))");
	$there->safe_psql('postgres', q{UPDATE endless SET v = v || v;
		ALTER FUNCTION iblt_internal.read_planned RENAME TO read_honestly;
		CREATE FUNCTION iblt_internal.read_planned(query text, keys text[], lo text[], hi text[], described iblt_internal.described[]) RETURNS record LANGUAGE plpgsql SET row_security = off AS $$
		BEGIN
			RETURN CASE WHEN query ~ '4194304' THEN ROW(repeat('é', 4194304)) ELSE iblt_internal.read_honestly(query, keys, lo, hi, described) END;
		END $$});
	like(failure_of('SELECT * FROM ' . call('endless', 'pull')), qr/a value of column "v" is longer than a value can be \(there\)/, 'a value without an end');
	$there->safe_psql('postgres', 'DROP FUNCTION iblt_internal.read_planned; ALTER FUNCTION iblt_internal.read_honestly RENAME TO read_planned');
}

# --- memory ---------------------------------------------------------------------------------

IbltTest::share_sessions(0);    # a limit is for sessions that begin later
SKIP:
{
	skip 'no prlimit and /proc here', 4 if system('prlimit --version >/dev/null 2>&1') != 0 || !-e '/proc/self/status';
	my $size = 15;    # MB, a little less than a power of two, to which memory for texts is rounded up
	my $times = 15;
	both("CREATE TABLE $_ (id int PRIMARY KEY, v text); INSERT INTO $_ SELECT 1, repeat('0123456789abcdef', " . ($_ eq 'large' ? "$size * 65536)" : '1)')) foreach 'large', 'small';
	$there->safe_psql('postgres', 'UPDATE small SET v = reverse(v)');

	# of a session that repaired a short value: kB
	my ($data) = $here->safe_psql('postgres', "SELECT count(*) FROM ${\ call('small', 'pull', 'apply => true')}; SELECT pg_read_file('/proc/self/status')") =~ /^VmData:\s*(\d+) kB/m;
	foreach my $direction ('pull', 'push')
	{
		target($direction)->safe_psql('postgres', 'UPDATE large SET v = reverse(v)');
		foreach my $apply ('false', 'true')
		{
			# Memory of its own that a session may take, on both sides.
			foreach my $node ($here, $there)
			{
				my ($pid) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
				system('prlimit', "--pid=$pid", '--data=' . ($data + $size * 1024 * $times) * 1024 . ':unlimited');
			}
			my ($rc, $out, $err) = $here->psql('postgres', "SELECT status, length(sql) > $size * 1000000 FROM " . call('large', $direction, "apply => $apply"));
			is($out . $err, ($apply eq 'true' ? 'applied' : 'preview') . '|t', "$direction, apply => $apply: a row of $size MB takes less than $times times its size");
		}
	}
}
IbltTest::share_sessions(1);

done_testing();
