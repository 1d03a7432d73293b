# iblt_repair on real servers: after it, the target's rows are the source's, byte
# for byte, for every built-in type; what is shown is what is run; and whatever
# goes wrong, nothing is changed and nothing is left behind.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $seed = $ENV{IBLT_TEST_SEED} || (time() ^ $$) % 1000000;
srand($seed);
note("seed $seed");

# --- two servers ------------------------------------------------------------------

sub server
{
	my ($name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 1, extra => [ '-E', 'UTF8', '--no-locale' ]);
	$node->append_conf('postgresql.conf', join("\n", "max_prepared_transactions = 2", "log_statement = none", @settings) . "\n");
	$node->start;
	return $node;
}

# Settings under which text is read or written in another way; a locale of money
# is taken if there is one.
my ($money) = grep { /^(de_DE|en_GB|ja_JP|fr_FR)/i } split /\n/, `locale -a 2>/dev/null`;
my @awkward = ("datestyle = 'German'", "intervalstyle = 'sql_standard'", "bytea_output = 'escape'", "extra_float_digits = -5",
	"xmlbinary = 'hex'", "xmloption = 'document'", "timezone = 'Asia/Kolkata'", "standard_conforming_strings = off",
	"escape_string_warning = off", ($money ? "lc_monetary = '$money'" : ()));
my $here = server('here', @awkward);
my $there = server('there', @awkward, "datestyle = 'SQL, DMY'", "timezone = 'America/Caracas'", "intervalstyle = 'postgres_verbose'");
my $peer = $there->connstr('postgres');

# The extensions are in schemas that no search_path has, with awkward names.
$here->safe_psql('postgres', q{CREATE SCHEMA "db ""link"; CREATE EXTENSION dblink SCHEMA "db ""link"; CREATE EXTENSION iblt});
$there->safe_psql('postgres', q{CREATE SCHEMA "Their Iblt"; CREATE EXTENSION iblt SCHEMA "Their Iblt"});

sub both
{
	my ($sql) = @_;
	$_->safe_psql('postgres', $sql) foreach ($here, $there);
	return;
}

sub literal
{
	my ($text) = @_;
	$text =~ s/'/''/g;
	$text =~ s/\\/\\\\/g;
	return "E'$text'";
}

sub call
{
	my ($table, $direction, $options, $with) = @_;
	return "iblt_repair(${\ literal($table)}, " . ($with // literal($peer)) . ", '$direction'" . ($options ? ", $options" : '') . ")";
}

# What iblt_repair returns: a line "action key status detail" for each row, sorted.
sub repair
{
	my ($table, $direction, $options, %how) = @_;
	my $out = $here->safe_psql('postgres', ($how{setup} // '') . "SELECT concat_ws(' ', action, key, status, detail) FROM "
		  . call($table, $direction, $options, $how{peer}) . ' AS r', extra_params => ($how{user} ? [ '-U', $how{user} ] : []));
	return join("\n", sort split /\n/, $out);
}

# What goes wrong, as one text; '' if nothing does.
sub failure
{
	my ($sql, %how) = @_;
	my ($rc, $out, $err) = $here->psql('postgres', "\\set VERBOSITY verbose\n$sql", extra_params => ($how{user} ? [ '-U', $how{user} ] : []));
	return $rc == 0 ? '' : $err;
}

# A full fingerprint of a table that needs nothing of ours: every row, as text
# under one set of settings.
my $settings = "SET datestyle = ISO; SET intervalstyle = postgres; SET timezone = UTC; SET extra_float_digits = 1; SET bytea_output = hex;"
  . " SET xmlbinary = base64; SET lc_monetary = 'C'; SET search_path = pg_catalog, public;";
sub contents
{
	my ($node, $table, $columns) = @_;
	$columns //= '*';
	return $node->safe_psql('postgres', "$settings SELECT t::text FROM (SELECT $columns FROM $table) AS t ORDER BY t::text COLLATE \"C\"");
}

sub same
{
	my ($table, $text, $columns) = @_;
	my ($h, $t) = map { contents($_, $table, $columns) } ($here, $there);
	ok($h eq $t && $h ne '', "$text: both sides are equal") or note("here:\n$h\nthere:\n$t");
	return;
}

sub no_connection
{
	my ($text) = @_;
	ok($there->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'iblt%'"),
		"$text: no connection is left on the peer");
	is($here->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE relation IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)"),
		'0', "$text: no lock is left here");
	return;
}

# A session that is told what to do step by step.
sub session
{
	my ($node) = @_;
	my %s = (in => '', out => '', err => '', n => 0);
	$s{run} = IPC::Run::start([ 'psql', '-X', '-At', '-d', $node->connstr('postgres') ], '<', \$s{in}, '>', \$s{out}, '2>', \$s{err},
		IPC::Run::timeout(120));
	return \%s;
}

sub step
{
	my ($s, $sql) = @_;
	my $mark = 'mark' . ++$s->{n};
	$s->{in} .= "$sql;\n\\echo $mark\n";
	$s->{run}->pump until $s->{out} =~ /$mark\n/ || $s->{err} =~ /server closed|terminating|lost/;
	return;
}

sub leave { my ($s) = @_; $s->{in} .= "\\q\n"; $s->{run}->finish; return "$s->{out}$s->{err}" }

# A repair in the background, and what it said.
sub start
{
	my ($sql) = @_;
	my %s = (out => '', err => '');
	$s{run} = IPC::Run::start([ 'psql', '-X', '-At', '-d', $here->connstr('postgres'), '-c', $sql ], '<', \'', '>', \$s{out}, '2>', \$s{err},
		IPC::Run::timeout(120));
	return \%s;
}

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
	regdictionary => [ q{'simple'} ],
	regnamespace => [ q{'pg_catalog'}, q{'"Sche ma"'} ],
	regoper => [ q{('pg_catalog.+(integer,integer)'::regoperator::oid)}, q{'0'}, q{'!!'} ],
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
push @{ $values{numeric} }, q{'-Infinity'} if $here->pg_version >= 14;
push @{ $values{interval} }, q{INTERVAL '-infinity'} if $here->pg_version >= 17;

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
	my $array = 'ARRAY[' . join(', ', map { $cast->($_) } @v) . ", NULL]::$sql\[]";
	my $first = 'ARRAY[' . $cast->($v[0]) . "]::$sql\[]";
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
	foreach my $other ('SET standard_conforming_strings = off; SET xmloption = content;',
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
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('$table', ${\ literal($peer)})"), '0', "$table: iblt_compare says so, too");
}

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
is(repair('opt', 'pull', 'apply => true'), 'delete {"id": 3} applied', 'the rest');
same('opt', 'step by step');
is(repair('opt', 'pull', 'apply => true'), '', 'nothing is left to do');
is(repair('opt', 'push', 'apply => true'), '', 'nor the other way');
is($here->safe_psql('postgres', "SELECT rows_here, differences, relation FROM iblt_compare_stats()" =~ s/^/SELECT count(*) FROM ${\ call('opt', 'pull')}; /r), "0\n20|0|public.opt", 'iblt_compare_stats() knows of it');
like(failure('SELECT * FROM ' . call('opt', 'sideways')), qr/22023: direction must be pull or push/, 'another direction is an error');
like(failure('SELECT * FROM ' . call('opt', 'pull', 'apply => NULL')), qr/22023: inserts, updates, deletes, cascade and apply must not be null/, 'so is NULL');
like(failure('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM ' . call('opt', 'pull', 'apply => true')), qr/25001: a repair cannot be applied/, 'and one snapshot');
$here->safe_psql('postgres', "UPDATE opt SET v = 'mine'");
is($here->safe_psql('postgres', 'BEGIN; SELECT DISTINCT status FROM ' . call('opt', 'pull', 'apply => true') . '; ROLLBACK; SELECT count(*) FROM opt WHERE v = \'mine\''),
	"applied\n20", 'a pull is part of the transaction that calls it');
is(lines(repair('opt', 'pull', "condition => 'id <= 7 -- not all', apply => true")), 6, 'condition: rows that it selects');
is($here->safe_psql('postgres', "SELECT count(*) FROM opt WHERE v = 'mine'"), '14', 'and no others');
$there->safe_psql('postgres', "UPDATE opt SET v = 'theirs' WHERE id = 12");
is(repair('opt', 'pull', "condition => 'id = 12', recheck => 1, timeout => '0', apply => true"),
	'update {"id": 12} skipped not confirmed: its rows kept changing, or replication did not pass in time', 'what is not confirmed is skipped');
is($here->safe_psql('postgres', "SELECT v FROM opt WHERE id = 12"), 'mine', 'and not changed');
is(repair('opt', 'pull', "condition => 'id = 12', recheck => 1, apply => true"), 'update {"id": 12} applied', 'what is confirmed is applied');
like(failure('SELECT * FROM ' . call('opt', 'pull', 'max_differences => 5')), qr/IB002: too many differences/, 'max_differences');
repair('opt', 'push', 'apply => true');
same('opt', 'push');
sub lines { my ($text) = @_; return scalar(() = $text =~ /^.+$/mg) }

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
	no_connection('after an error on the peer');
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
both("CREATE TABLE coded (id int PRIMARY KEY, code text UNIQUE); INSERT INTO coded SELECT g, 'c' || g FROM generate_series(1, 10) g;
	CREATE TABLE uses (id int, code text REFERENCES coded (code) ON UPDATE CASCADE); INSERT INTO uses SELECT g, 'c' || g FROM generate_series(1, 5) g");
$there->safe_psql('postgres', "UPDATE coded SET code = 'new' || code WHERE id IN (2, 9)");
like(failure('SELECT * FROM ' . call('coded', 'pull', 'apply => true')), qr/1 row of public.uses refers to such rows by constraint uses_code_fkey ON UPDATE CASCADE/, 'ON UPDATE CASCADE is refused, too');
repair('coded', 'pull', 'apply => true, cascade => true');
same('coded', 'ON UPDATE CASCADE');

both("CREATE TABLE uniq (id int PRIMARY KEY, u int UNIQUE, v text); INSERT INTO uniq SELECT g, g FROM generate_series(1, 300) g");
$there->safe_psql('postgres', 'DELETE FROM uniq WHERE id = 300; UPDATE uniq SET u = u + 1000; UPDATE uniq SET u = u - 999; DELETE FROM uniq WHERE id = 1; INSERT INTO uniq VALUES (900, 1)');
repair('uniq', 'pull', 'apply => true');
same('uniq', 'unique values that move from row to row');
$there->safe_psql('postgres', 'UPDATE uniq SET u = -u WHERE id IN (7, 8); UPDATE uniq SET u = CASE id WHEN 7 THEN 9 ELSE 8 END WHERE id IN (7, 8)');
{
	my $before = contents($here, 'uniq');
	like(failure('SELECT * FROM ' . call('uniq', 'pull', 'apply => true')), qr/23505: duplicate key value violates unique constraint "uniq_u_key".*HINT:  Nothing was changed.*exchange/s, 'unique values that rows exchange are an error');
	is(contents($here, 'uniq'), $before, 'and nothing was changed');
	$here->safe_psql('postgres', 'ALTER TABLE uniq DROP CONSTRAINT uniq_u_key, ADD UNIQUE (u) DEFERRABLE');
	repair('uniq', 'pull', 'apply => true');
	same('uniq', 'but not when the constraint is deferrable');
}

both('CREATE TABLE trig (id int PRIMARY KEY, v int); INSERT INTO trig SELECT g, g FROM generate_series(1, 50) g');
$there->safe_psql('postgres', 'UPDATE trig SET v = 0 WHERE id = 9; INSERT INTO trig VALUES (60, 1); DELETE FROM trig WHERE id = 3');
my @triggers = (
	[ 'changes the row', 'BEGIN NEW.v = NEW.v + 1; RETURN NEW; END', 'BEFORE INSERT OR UPDATE', 'CREATE TRIGGER', qr/27000: .*after the repair, the rows of 2 keys are not as on the source.*Nothing was changed/s ],
	[ 'suppresses the change', 'BEGIN RETURN NULL; END', 'BEFORE INSERT', 'CREATE TRIGGER', qr/27000: .*a statement of the repair changed 0 rows instead of 1/ ],
	[ 'does so at the end', 'BEGIN UPDATE public.trig SET v = v + 1 WHERE id = NEW.id AND pg_trigger_depth() = 1; RETURN NULL; END', 'AFTER UPDATE', 'CREATE CONSTRAINT TRIGGER', qr/27000: .*the rows of 1 keys are not as/ ],
);
foreach my $trigger (@triggers)
{
	my ($what, $body, $when, $create, $error) = @$trigger;
	foreach my $side ([ $here, 'pull' ], [ $there, 'push' ])
	{
		my ($node, $direction) = @$side;
		$node->safe_psql('postgres', "CREATE FUNCTION trig() RETURNS trigger LANGUAGE plpgsql AS '$body'; $create trig $when ON trig "
			  . ($create =~ /CONSTRAINT/ ? 'DEFERRABLE INITIALLY DEFERRED ' : '') . 'FOR EACH ROW EXECUTE FUNCTION trig()');
		my $before = contents($node, 'trig');
		like(failure('SELECT * FROM ' . call('trig', $direction, 'apply => true')), $error, "$direction: a trigger $what: an error");
		is(contents($node, 'trig'), $before, 'and nothing was changed');
		$node->safe_psql('postgres', 'DROP FUNCTION trig CASCADE');
	}
}
both('CREATE TABLE gen (id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (v + 1) STORED); INSERT INTO gen SELECT g, g FROM generate_series(1, 9) g');
$there->safe_psql('postgres', 'ALTER TABLE gen DROP w; ALTER TABLE gen ADD w int GENERATED ALWAYS AS (v + id % 2) STORED');
like(repair('gen', 'pull', 'apply => true'), qr/^update \{"id": 2\} skipped differs only in generated columns: w$/m, 'a generated column with another expression is skipped');
$there->safe_psql('postgres', 'UPDATE gen SET v = 100 WHERE id = 2');
like(failure('SELECT * FROM ' . call('gen', 'pull', 'apply => true')), qr/27000: after the repair, the rows of 1 keys are not as on the source.*One is \{"id": 2\}/s, 'or an error');
both('CREATE TABLE ident (id int PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY); INSERT INTO ident SELECT g FROM generate_series(1, 9) g');
$there->safe_psql('postgres', 'DELETE FROM ident WHERE id = 4; INSERT INTO ident VALUES (4), (20)');
is(repair('ident', 'pull', 'apply => true'), "insert {\"id\": 20} applied\nupdate {\"id\": 4} skipped differs in a column that is GENERATED ALWAYS AS IDENTITY: i", 'an identity column that cannot be updated');

# --- what cannot be repaired -----------------------------------------------------------

$here->safe_psql('postgres', q{CREATE VIEW v_opt AS TABLE opt; CREATE TABLE heirs (id int PRIMARY KEY, v text); CREATE TABLE heir () INHERITS (heirs);
	CREATE EXTENSION IF NOT EXISTS postgres_fdw; CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw; CREATE FOREIGN TABLE f_opt (id int, v text) SERVER loop});
like(failure('SELECT * FROM ' . call('v_opt', 'pull', "peer_relation => 'opt', key_columns => '{id}'")), qr/42809: public.v_opt cannot be repaired: it is a view/, 'a view');
like(failure('SELECT * FROM ' . call('heirs', 'pull', "peer_relation => 'opt'")), qr/42809: public.heirs cannot be repaired: it is a table that others inherit from/, 'a parent');
like(failure('SELECT * FROM ' . call('f_opt', 'pull', "peer_relation => 'opt'")), qr/42809: public.f_opt cannot be repaired: it is a foreign table/, 'a foreign table');
like(repair('v_opt', 'push', "peer_relation => 'opt', key_columns => '{id}'"), qr/preview/, 'but a view can be the source');
like(failure('SELECT * FROM iblt_repair(\'opt\', NULL, \'pull\', condition => \'id < 3\', peer_condition => \'id < 4\')'), qr/22023: a relation cannot be repaired from itself/, 'from itself');

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
	my $shown = $here->safe_psql('postgres', "BEGIN; $sql $settings SELECT t::text FROM public.$table AS t ORDER BY t::text COLLATE \"C\"; ROLLBACK");
	is($shown, contents($there, "public.$table"), "$table: what is shown is right under a hostile search_path");
	$here->safe_psql('postgres', 'SELECT * FROM public.' . call("public.$table", 'pull', 'apply => true'));
	same("public.$table", 'a hostile search_path on both sides');
}
both('ALTER DATABASE postgres RESET search_path; DROP SCHEMA evil CASCADE');

# --- a hostile peer -----------------------------------------------------------------------------

# Its owner can make it answer what it likes; what it says is data here, never SQL.
$there->safe_psql('postgres', 'CREATE DATABASE hostile');
$there->safe_psql('hostile', q{CREATE EXTENSION iblt; CREATE TABLE bait (id int PRIMARY KEY, v text); INSERT INTO bait VALUES (1, 'victim');
	ALTER FUNCTION pg_catalog.to_jsonb(anyelement) RENAME TO to_jsonb_it;
	CREATE FUNCTION pg_catalog.to_jsonb(anyelement) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
	BEGIN
		IF $1::text LIKE '%victim%' THEN RETURN '["1", "''); CREATE TABLE public.hijacked (); --"]'; END IF;
		RETURN to_jsonb_it($1);
	END $$});
$here->safe_psql('postgres', 'CREATE TABLE bait (id int PRIMARY KEY, v text)');
{
	my $hostile = literal($there->connstr('hostile'));
	is($here->safe_psql('postgres', "SELECT sql FROM iblt_repair('bait', $hostile, 'pull')"),
		"INSERT INTO public.bait (id, v) VALUES ('1'::pg_catalog.int4, '''); CREATE TABLE public.hijacked (); --'::pg_catalog.text);", 'a hostile peer: what it says is quoted');
	# what it reads again is what it said, and not what this side has
	like(failure("SELECT * FROM iblt_repair('bait', $hostile, 'pull', apply => true)"), qr/27000|^$/, 'and applied as data, or not at all');
	is($here->safe_psql('postgres', q{SELECT to_regclass('public.hijacked') IS NULL}), 't', 'never run');
}

# --- rights -----------------------------------------------------------------------------------

both("CREATE ROLE fixer LOGIN PASSWORD 'right'; CREATE TABLE rights (id int PRIMARY KEY, v text); INSERT INTO rights SELECT g, g FROM generate_series(1, 100) g; GRANT SELECT ON rights TO fixer");
$here->safe_psql('postgres', qq{GRANT USAGE ON SCHEMA "db ""link" TO fixer;
	CREATE SERVER "node b" FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '${\ $there->host}', port '${\ $there->port}', dbname 'postgres');
	GRANT USAGE ON FOREIGN SERVER "node b" TO fixer; CREATE USER MAPPING FOR fixer SERVER "node b" OPTIONS (user 'fixer', password 'right')});
$there->safe_psql('postgres', 'GRANT USAGE ON SCHEMA "Their Iblt" TO fixer');
{
	my $hba = $there->data_dir . '/pg_hba.conf';
	my $old = slurp_file($hba);
	unlink $hba;
	append_to_file($hba, "local all fixer scram-sha-256\n$old");
	$there->reload;
}
foreach my $side ([ $here, $there, 'pull', '' ], [ $there, $here, 'push', 'on the peer: ' ])
{
	my ($node, $other, $direction, $where) = @$side;
	$node->safe_psql('postgres', 'DELETE FROM rights WHERE id = 7; UPDATE rights SET v = -1 WHERE id = 8; INSERT INTO rights VALUES (200)');
	my $all = sub { return 'SELECT * FROM ' . call('rights', $direction, $_[0], "'node b'") };
	my $before = contents($node, 'rights');
	is(failure($all->(''), user => 'fixer'), '', "$direction: SELECT is enough for a preview");
	like(failure($all->('apply => true'), user => 'fixer'), qr/42501: ${where}permission denied for table rights/, 'but not to apply');
	like(failure($all->('updates => false, deletes => false, apply => true'), user => 'fixer'), qr/42501: ${where}permission denied for table rights/, 'not even inserts');
	is(contents($node, 'rights'), $before, 'and nothing was changed');
	$node->safe_psql('postgres', 'GRANT INSERT ON rights TO fixer');
	is(repair('rights', $direction, 'updates => false, deletes => false, apply => true', user => 'fixer', peer => "'node b'"),
		"delete {\"id\": 200} skipped deletes => false\ninsert {\"id\": 7} applied\nupdate {\"id\": 8} skipped updates => false", 'INSERT is enough to insert');
	$node->safe_psql('postgres', 'GRANT UPDATE ON rights TO fixer');
	is(repair('rights', $direction, 'deletes => false, apply => true', user => 'fixer', peer => "'node b'"),
		"delete {\"id\": 200} skipped deletes => false\nupdate {\"id\": 8} applied", 'UPDATE to update');
	$node->safe_psql('postgres', 'GRANT DELETE ON rights TO fixer; CREATE TABLE refers (r int REFERENCES rights ON DELETE CASCADE)');
	like(failure($all->('apply => true'), user => 'fixer'), qr/2BP01: the repair would change rows beyond.*rows of public.refers, which may not be read, may refer/s, 'rows that may refer and may not be read are refused');
	$node->safe_psql('postgres', 'DROP TABLE refers');
	is(repair('rights', $direction, 'apply => true', user => 'fixer', peer => "'node b'"), 'delete {"id": 200} applied', 'DELETE to delete');
	same('rights', $direction);
	$node->safe_psql('postgres', 'ALTER TABLE rights ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON rights USING (id > 10)');
	like(failure($all->(''), user => 'fixer'), qr/42501: ${where}query would be affected by row-level security/, 'rows that a policy hides are not passed over');
	$node->safe_psql('postgres', 'ALTER TABLE rights DISABLE ROW LEVEL SECURITY');
}
{
	# a connection string is in no message or log
	my ($h, $t) = (-s $here->logfile, -s $there->logfile);
	$there->safe_psql('postgres', 'UPDATE rights SET v = NULL WHERE id = 5; REVOKE UPDATE ON rights FROM fixer');
	my $string = literal("host=${\ $there->host} port=${\ $there->port} dbname=postgres user=fixer password=right");
	my $err = failure('SELECT * FROM ' . call('rights', 'push', 'apply => true', $string));
	like($err, qr/42501: on the peer: permission denied/, 'an error with a connection string');
	unlike($err . slurp_file($here->logfile, $h) . slurp_file($there->logfile, $t), qr/password=right/, 'shows the password nowhere');
}

# --- what happens meanwhile -----------------------------------------------------------------

both("CREATE TABLE busy (id int PRIMARY KEY, v text); INSERT INTO busy SELECT g, g FROM generate_series(1, 100) g");
my $waiting = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR UPDATE OF%' AND state = 'active'";
my $waiting_here = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%iblt_repair(%' AND state = 'active'";
foreach my $side ([ $here, 'pull', $waiting_here ], [ $there, 'push', $waiting ])
{
	my ($node, $direction, $query) = @$side;
	my $source = $node == $here ? $there : $here;
	$node->safe_psql('postgres', "TRUNCATE busy; INSERT INTO busy SELECT g, g FROM generate_series(1, 100) g; UPDATE busy SET v = 'drift' WHERE id <= 6");
	$source->safe_psql('postgres', "TRUNCATE busy; INSERT INTO busy SELECT g, g FROM generate_series(1, 100) g");
	my $holder = session($node);
	step($holder, 'BEGIN; SELECT * FROM busy WHERE id = 1 FOR UPDATE');
	my $repair = start('SELECT key, action, status, detail FROM ' . call('busy', $direction, 'apply => true'));
	ok($node->poll_query_until('postgres', $query), "$direction: the repair waits for a row");
	# another session changes some, makes one right, deletes one; the source changes one
	$source->safe_psql('postgres', "UPDATE busy SET v = 'source' WHERE id = 4");
	step($holder, "UPDATE busy SET v = 'changed' WHERE id = 1; UPDATE busy SET v = '2' WHERE id = 2; DELETE FROM busy WHERE id = 3; COMMIT");
	$repair->{run}->finish;
	my @wanted = ('{"id": 1}|update|skipped|changed since it was compared', '{"id": 2}|update|skipped|equal by now', '{"id": 3}|update|skipped|changed since it was compared',
		'{"id": 4}|update|skipped|changed since it was compared', '{"id": 5}|update|applied|', '{"id": 6}|update|applied|');
	is(join("\n", sort split /\n/, $repair->{out}), join("\n", @wanted), "$direction: rows that changed since are skipped");
	leave($holder);
	is($node->safe_psql('postgres', 'SELECT v FROM busy WHERE id IN (1, 2, 5, 6) ORDER BY id'), "changed\n2\n5\n6", 'and are as the other session left them');
	repair('busy', $direction, 'apply => true');
	same('busy', "$direction: the next repair does them");
}
# a trigger on the target is slow: it is interrupted in the middle, or while it waits for a lock
both("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.id = 4 THEN PERFORM pg_sleep(60); END IF; RETURN NEW; END'");
foreach my $side ([ $here, 'pull' ], [ $there, 'push' ])
{
	my ($node, $direction) = @$side;
	foreach my $stage ('waits for a lock', 'writes')
	{
		foreach my $how ([ $here, 'pg_cancel_backend', qr/canceling statement due to user request/ ], [ $here, 'pg_terminate_backend', qr/terminating connection|server closed/ ],
			[ $there, 'pg_cancel_backend', qr/on the peer: canceling statement/ ], [ $there, 'pg_terminate_backend', qr/on the peer: |could not/ ])
		{
			my ($victim, $what, $error) = @$how;
			# while this side waits or writes, the peer has nothing to cancel
			next if $direction eq 'pull' && $victim == $there && $what =~ /cancel/;
			$node->safe_psql('postgres', "UPDATE busy SET v = 'drift' || random() WHERE id BETWEEN 3 AND 9; DELETE FROM busy WHERE id > 90 OR id < 0; INSERT INTO busy VALUES (-1)");
			my $before = contents($node, 'busy');
			my $holder = session($node);
			$node->safe_psql('postgres', 'CREATE TRIGGER slow BEFORE UPDATE ON busy FOR EACH ROW EXECUTE FUNCTION slow()') if $stage eq 'writes';
			step($holder, 'BEGIN; SELECT * FROM busy WHERE id = 5 FOR UPDATE') unless $stage eq 'writes';
			my $repair = start('SELECT count(*) FROM ' . call('busy', $direction, 'apply => true'));
			ok($node->poll_query_until('postgres', $stage eq 'writes' ? "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%iblt_repair_execute%' OR query LIKE '%iblt_repair(%' AND wait_event = 'PgSleep' AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_stat_activity.pid AND l.mode = 'RowExclusiveLock')"
				: $direction eq 'pull' ? $waiting_here : $waiting), "$direction, while it $stage");
			$victim->safe_psql('postgres', "SELECT $what(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
				  . ($victim == $here ? "query LIKE 'SELECT count(*) FROM iblt_repair(%'" : "application_name LIKE 'iblt_repair%'"));
			# what ends there is noticed here when its answer is wanted
			if ($direction eq 'pull' && $victim == $there)
			{
				step($holder, 'COMMIT') unless $stage eq 'writes';
				$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%iblt_repair(%'") if $stage eq 'writes';
			}
			$repair->{run}->finish;
			like($repair->{err}, $stage eq 'writes' && $direction eq 'pull' && $victim == $there ? qr/ERROR/ : $error, "$what of " . $victim->name . ': an error');
			is($repair->{out}, '', 'and no rows');
			leave($holder);
			no_connection("$direction, $stage, $what of " . $victim->name);
			is(contents($node, 'busy'), $before, 'nothing was changed');
			$node->safe_psql('postgres', 'DROP TRIGGER IF EXISTS slow ON busy');
		}
	}
}
repair('busy', $_, 'apply => true') foreach ('pull', 'push');
same('busy', 'after all that');

# the peer's answer to COMMIT is lost: it waits for a standby that does not exist
$there->safe_psql('postgres', "UPDATE busy SET v = 'drift' WHERE id = 50");
$there->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
$there->reload;
{
	my $repair = start('SELECT count(*) FROM ' . call('busy', 'push', 'apply => true'));
	ok($there->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'iblt_repair%'"), 'COMMIT is under way');
	$there->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'iblt_repair%'");
	$repair->{run}->finish;
	like($repair->{err}, qr/ERROR:  the outcome is unknown: the peer's answer to COMMIT was lost/, 'an answer that is lost is said to be unknown');
	$repair = start('SELECT count(*) FROM ' . call('busy', 'push', 'apply => true'));
	$repair->{run}->finish;
	is($repair->{out}, "0\n", 'this time it had been committed');
}
$there->safe_psql('postgres', 'ALTER SYSTEM RESET synchronous_standby_names');
$there->reload;

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

$there->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($there, 'base', has_streaming => 1);
$standby->start;
$here->safe_psql('postgres', "UPDATE opt SET v = 'here' WHERE id = 1");
$there->wait_for_catchup($standby, 'replay', $there->lsn('write'));
my $standby_peer = literal($standby->connstr('postgres'));
like(failure('SELECT * FROM ' . call('opt', 'push', 'apply => true', $standby_peer)), qr/25006: public.opt cannot be repaired: the peer is a standby/, 'a standby cannot be the target');
is(repair('opt', 'push', '', peer => $standby_peer), 'update {"id": 1} preview', 'but a preview is possible');
is(repair('opt', 'pull', 'apply => true', peer => $standby_peer), 'update {"id": 1} applied', 'and it can be the source');
same('opt', 'from a standby');
$standby->stop;

no_connection('at the end');
is($here->safe_psql('postgres', q{SELECT coalesce("db ""link".dblink_get_connections(), '{}')}), '{}', 'no connection is left here');
$_->stop foreach ($here, $there);
done_testing();
