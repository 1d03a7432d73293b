# Two servers that differ in all that a checksum must not depend on: encoding,
# locale, settings, OIDs, dropped columns, storage and parallel plans.  The
# checksums of the same rows must be the same, and those that doc/checksum.md
# tells another program to compute.

use File::Temp;
use IbltTest;

my @columns = qw(i t v c n e b f r d ts tz iv j x ba u mo ra mr m ma p pa rec
  dom h ci tv tq reg typ fn acl nul);

# The types of the table, in the order that OIDs are to be given out.
my %types = (
	mood => "CREATE TYPE mood AS ENUM ('größe', 'ok', 'sad')",
	pair => 'CREATE TYPE pair AS (a int, "ü" text)',
	floatrange => 'CREATE TYPE floatrange AS RANGE (subtype = float8)',
	code => "CREATE DOMAIN code AS text CHECK (value <> '')",
);

# The rows hold what every encoding here can say.
my $rows = <<'SQL';
INSERT INTO rows
SELECT i,
	CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'é' || i ELSE repeat('naïve ', i) END,
	'straße', 'nn', i * 1.10, i::float4 / 3, i % 2 = 0, CASE i WHEN 5 THEN 'nan' ELSE i / 7.0 END, i / 3.0,
	date '2024-01-01' + i, timestamp '2024-01-01 12:00' + i * interval '1 hour',
	timestamptz '2024-01-01 12:00+00' + i * interval '1 hour', i * interval '1 month 3 hours',
	'{"é": [1, "ü"], "z": 1.50, "zz": {"ä": null, "b": 2, "ö": ""}}'::jsonb,
	('<a b="é">' || i || '</a>')::xml, decode(md5(i::text), 'hex'), md5(i::text)::uuid,
	(ARRAY['größe', 'ok', 'sad'])[1 + i % 3]::mood, floatrange(i / 3.0, i),
	CASE i % 3 WHEN 0 THEN 'empty' ELSE '[é,ü)' END::textrange,
	('1' || i || '.25')::numeric::money, ARRAY['größe', NULL]::mood[], ROW(i, 'ÿ')::pair,
	ARRAY[ROW(i, 'ÿ')::pair, NULL], ROW(i, ARRAY['ç'])::pair2, 'dé',
	hstore(ARRAY['é', 'zz', 'a', 'ü'], ARRAY['1', NULL, 'ö', i::text]), 'CÎtext',
	'''é'':1 ''zz'':2A ''z'' ''ü'':3'::tsvector, '''é'' & !''z'':A*'::tsquery,
	'"tàble"'::regclass, 'mood'::regtype, 'do_it(mood)'::regprocedure, 'pg_monitor=r/pg_monitor'::aclitem, NULL
FROM generate_series(1, 40) i;
INSERT INTO rows (i, t, ba)
SELECT 100 + n, repeat('é', 3000 * n), convert_to(repeat(md5(n::text), 200 * n), 'SQL_ASCII') FROM generate_series(1, 5) n;
SQL

# Loads the database: what comes before each part is the caller's affair.
sub load_database
{
	my ($node, $database, $order, $before, $after) = @_;
	my $sql = "SET client_encoding = 'UTF8';\nSET client_min_messages = warning;\n";

	$sql .= "CREATE EXTENSION iblt;\nCREATE EXTENSION hstore;\nCREATE EXTENSION citext;\n";
	$sql .= $before . join('', map { "$types{$_};\n" } @$order);
	$sql .= <<'SQL';
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");
CREATE TABLE "tàble" (x int);
CREATE FUNCTION do_it(mood) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE TABLE rows (gone int, i int, t text, v varchar(20), c char(5), n numeric, e float4, b bool, f float8, r float4,
	d date, ts timestamp, tz timestamptz, iv interval, j jsonb, also_gone text, x xml, ba bytea, u uuid, mo mood,
	ra floatrange, mr textrange, m money, ma mood[], p pair, pa pair[], rec pair2, dom code, h hstore, ci citext,
	tv tsvector, tq tsquery, reg regclass, typ regtype, fn regprocedure, acl aclitem, nul int);
ALTER TABLE rows DROP gone, DROP also_gone;
SQL
	$sql =~ s/(CREATE TABLE rows)/CREATE TYPE pair2 AS (a int, b text[]);\n$1/;
	$node->safe_psql($database, $sql . $after . $rows);
}

# One line a column with a digest of the checksums of all rows, and one of
# whole rows.
sub sums
{
	my ($node, $database, $settings) = @_;
	my @exprs = ('rows', @columns);
	my $sql = $settings // '';

	$sql .= "SELECT '$_ ' || count(iblt_checksum($_)) || ' ' || md5(string_agg(iblt_checksum($_)::text, ' ' ORDER BY i)) FROM rows;\n" for @exprs;
	return $node->safe_psql($database, $sql);
}

my $a = PostgreSQL::Test::Cluster->new('a');
$a->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$a->start;
my $b = PostgreSQL::Test::Cluster->new('b');
$b->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$b->append_conf('postgresql.conf', <<'CONF');
DateStyle = 'German, DMY'
IntervalStyle = 'sql_standard'
TimeZone = 'Asia/Kathmandu'
extra_float_digits = -10
bytea_output = 'escape'
quote_all_identifiers = on
xmlbinary = hex
CONF
$b->append_conf('postgresql.conf', "default_toast_compression = pglz\n");
$b->start;

# Databases on the second server; where there is no C.UTF-8, C must do.
my $utf8_locale = (grep { /^C\.utf-?8$/i } split /\n/, `locale -a`)[0] // 'C';
my %databases = (
	latin1 => [ 'LATIN1', 'C' ],
	latin9 => [ 'LATIN9', 'C' ],
	utf8 => [ 'UTF8', $utf8_locale ],
	ascii => [ 'SQL_ASCII', 'C' ]);
for my $name (sort keys %databases)
{
	my ($encoding, $locale) = @{ $databases{$name} };
	$b->safe_psql('postgres',
		"CREATE DATABASE $name TEMPLATE template0 ENCODING '$encoding' LC_COLLATE '$locale' LC_CTYPE '$locale'");
}

load_database($a, 'postgres', [qw(mood pair floatrange code)], '', '');
load_database($b, $_, [qw(code floatrange pair mood)],
	"CREATE TYPE other AS ENUM ('a', 'b', 'c');\nCREATE TABLE filler (x int, y text);\n",
	'ALTER TABLE rows ALTER t SET STORAGE external, ALTER ba SET STORAGE external, ALTER j SET STORAGE plain;')
  for sort keys %databases;

my $expected = sums($a, 'postgres');
is(scalar(() = $expected =~ /^\w+ 45 \w{32}$/mg), 1 + @columns, 'checksums of every column and row');
is($a->safe_psql('postgres', 'SELECT count(DISTINCT iblt_checksum(rows.*)) FROM rows'), 45, 'all rows differ');
isnt(
	$a->safe_psql('postgres', "SELECT 'mood'::regtype::oid"),
	$b->safe_psql('utf8', "SELECT 'mood'::regtype::oid"),
	'OIDs differ');
is(sums($b, $_), $expected, "database $_") for sort keys %databases;

# client_encoding has no say, and is left as it was.
for my $encoding (qw(LATIN1 WIN1252 UTF8))
{
	is(sums($a, 'postgres', "SET client_encoding = '$encoding';\n"), $expected, "UTF8, client $encoding");
	is(sums($b, 'latin1', "SET client_encoding = '$encoding';\n"), $expected, "LATIN1, client $encoding")
	  if $encoding ne 'WIN1252';
}
is( $b->safe_psql('latin1', <<'SQL'), "\xe9\n\xc3\xa9", 'client encoding is kept');
SET client_encoding = 'LATIN1';
SELECT count(iblt_checksum(rows.*)) FROM rows \g /dev/null
SELECT chr(233);
SET client_encoding = 'UTF8';
SELECT count(iblt_checksum(rows.*)) FROM rows \g /dev/null
SELECT chr(233);
SQL

# An error under the pinned encoding gives the client's encoding back too.
$b->safe_psql('postgres', "CREATE DATABASE win TEMPLATE template0 ENCODING 'WIN1252' LC_COLLATE 'C' LC_CTYPE 'C'");
$b->safe_psql('win', 'CREATE EXTENSION iblt');
my ($ret, $out, $err) = $b->psql('win', <<'SQL', on_error_stop => 0, extra_params => ['-At']);
SET client_encoding = 'WIN1252';
SELECT iblt_checksum(('''' || chr(129) || '''')::tsvector);
SELECT chr(233);
SQL
like($err, qr/has no equivalent in encoding "UTF8"/, 'what UTF-8 cannot say is an error');
is($out, "\xe9", 'client encoding is kept after an error');

# A multibyte encoding whose order is not that of UTF-8.
$b->safe_psql('postgres', "CREATE DATABASE eucjp TEMPLATE template0 ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C'");
$b->safe_psql('eucjp', 'CREATE EXTENSION iblt; CREATE EXTENSION hstore');
my $japanese = <<'SQL';
SET client_encoding = 'UTF8';
SELECT iblt_checksum('日本'::text), iblt_checksum('{"日": 1, "あ": 2, "abc": 3, "亜": {"本": "語"}, "一": 3}'::jsonb),
	iblt_checksum('日 あ abc ア 亜 一'::tsvector), iblt_checksum('日=>1, abc=>2, あ=>本, 亜=>4, 一=>5, abcd=>3, abcdef=>4'::hstore), iblt_checksum('"日"'::jsonb);
SQL
is($b->safe_psql('eucjp', $japanese), $a->safe_psql('postgres', $japanese), 'EUC_JP');

# Parallel workers, which may set neither encoding nor settings as others do.
my $force = major_version() < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
my $parallel = <<"SQL";
SET client_encoding = 'UTF8';
SET $force = on;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 4;
SQL
for my $database (qw(latin1 utf8))
{
	my $serial = $b->safe_psql($database, 'SELECT i, iblt_checksum(rows.*), iblt_checksum(ROW(i, p, rec)) FROM rows ORDER BY i');
	my $query = 'SELECT i, iblt_checksum(rows.*), iblt_checksum(ROW(i, p, rec)) FROM rows ORDER BY i';
	like($b->safe_psql($database, $parallel . "EXPLAIN (VERBOSE, COSTS OFF) $query"),
		qr/Gather.*Output:[^\n]*iblt_checksum.*Scan/s, "a parallel plan in $database");
	is($b->safe_psql($database, $parallel . $query), $serial, "workers in $database");
	is(sums($b, $database, $parallel), $expected, "workers and aggregates in $database");
}

# Storage does not matter, and is as different as it is meant to be.
is( $b->safe_psql('utf8', 'SELECT bool_and(pg_column_size(t) = octet_length(t)) FROM rows WHERE i > 100'),
	't', 'stored uncompressed');
is( $a->safe_psql('postgres', 'SELECT bool_and(pg_column_size(t) < octet_length(t)) FROM rows WHERE i > 100'),
	't', 'stored compressed');

# Another program, from doc/checksum.md alone.
my $program = <<'PYTHON';
import struct, uuid
from iblt_reader import keystream, xxh3_64

def item(b):
    if b is None:
        return b'\0'
    n, out = len(b) + 1, b''
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n]) + b

def array(lower, *items):
    return struct.pack('>Bii', 1, len(items), lower) + b''.join(items)

i4 = lambda x: struct.pack('>i', x)
i8 = lambda x: struct.pack('>q', x)
f8 = lambda x: struct.pack('>d', x)
num = lambda weight, sign, scale, *digits: struct.pack('>hhHH', len(digits), weight, sign, scale) + b''.join(struct.pack('>h', d) for d in digits)
inner = item(i4(1)) + item('é'.encode())
cases = [
    (0, "1, 11", [i4(1), i4(11)]),
    (0, "NULL::int, ''::text, 'é'::text", [None, b'', 'é'.encode()]),
    (0, "repeat('x', 126), repeat('x', 127), repeat('x', 20000)", [b'x' * 126, b'x' * 127, b'x' * 20000]),
    (0, "1::bigint, -1::smallint, true, 1.5::float8, 'nan'::float8", [i8(1), b'\xff\xff', b'\1', f8(1.5), bytes.fromhex('7ff8000000000000')]),
    (0, "12345.6700, -0.5, 'nan'::numeric, 0.00", [num(1, 0, 4, 1, 2345, 6700), num(-1, 0x4000, 1, 5000), num(0, 0xC000, 0), num(0, 0, 2)]),
    (0, "date '2000-01-02', timestamptz '2000-01-01 00:00:01+00', interval '1 month 2 days 3 seconds'", [i4(1), i8(1000000), i8(3000000) + i4(2) + i4(1)]),
    (0, "uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x00ff'::bytea", [uuid.UUID('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11').bytes, b'\0\xff']),
    (0, "'[5:6]={7,NULL}'::int[], '{}'::text[]", [array(5, item(i4(7)), item(None)), b'\0']),
    (0, "1, ROW(1, 'é'::text), ARRAY[ROW(1, 'é')::pair]", [i4(1), inner, array(1, item(inner))]),
    (0, "ROW(1, 'é'::text)", [i4(1), 'é'.encode()]),
    (0, "'größe'::mood, '[1,5]'::int4range, '(,2]'::int8range", ['größe'.encode(), b'\2' + item(i4(1)) + item(i4(6)), b'\x08' + item(i8(3))]),
    (0, '\'{"zz": 1.50, "é": [null]}\'::jsonb', [b'\1' + '{"zz": 1.50, "é": [null]}'.encode()]),
    (0, "NULL::pair", b'\x80\0'),
    (2**63 + 5, "1, 'x'::text", [i4(1), b'x']),
    (7, "'seed'::text", [b'seed']),
]
for seed, sql, values in cases:
    data = values if isinstance(values, bytes) else b''.join(map(item, values))
    total = xxh3_64(data, keystream(b'iblt row', seed)[:192])
    total -= (total >> 63) << 64
    seed -= (seed >> 63) << 64
    print('%d\t%d\t%s' % (seed, total, sql))
PYTHON
my $file = File::Temp->new(SUFFIX => '.py');
print $file $program;
$file->flush;
my $cases = `PYTHONPATH=test/format PYTHONIOENCODING=utf-8 /usr/bin/python3 $file`;
my @cases = map { [ split /\t/ ] } split /\n/, $cases;
is(scalar(@cases), 15, 'the other program ran');
for (@cases)
{
	my ($seed, $sum, $sql) = @$_;
	is($a->safe_psql('postgres', "SET client_encoding = 'UTF8'; SELECT iblt_checksum_seeded($seed, $sql)"), $sum, "from the documentation: $sql");
}

# A row type that another session alters while the first row's columns are looked up.
$a->safe_psql('postgres', q{
	CREATE TYPE altered AS (a int, r int4range);
	CREATE FUNCTION altered(i int) RETURNS altered LANGUAGE plpgsql VOLATILE AS $$
	DECLARE
		made record;
	BEGIN
		EXECUTE CASE i WHEN 1 THEN 'SELECT ROW(1, NULL)::altered AS v' ELSE 'SELECT ROW(1, NULL, 2)::altered AS v' END INTO made;
		RETURN made.v;
	END $$});
my ($locker, $reader) = map { IbltTest::Session->new($a) } 1 .. 2;
$locker->run('BEGIN; LOCK TABLE pg_range IN ACCESS EXCLUSIVE MODE');
$reader->start('SELECT iblt_checksum(altered(i)) FROM generate_series(1, 2) AS i');
wait_for($a, "SELECT count(*) = 1 FROM pg_locks WHERE relation = 'pg_range'::regclass AND NOT granted");
$a->safe_psql('postgres', 'ALTER TYPE altered ADD ATTRIBUTE c int');
$locker->run('COMMIT');
is($reader->done, $a->safe_psql('postgres', 'SELECT iblt_checksum(1, NULL::int4range, c) FROM unnest(ARRAY[NULL, 2]) AS c'),
	'a row type that is altered between two rows');
$_->quit for $locker, $reader;

done_testing();
