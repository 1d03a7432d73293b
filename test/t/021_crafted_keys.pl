# Keys and values that no value has: a sketch whose cells hold any bytes, and whose description
# claims a type for them.  Decoding gives a value that has just these bytes, or an
# error; it never shows two keys as one, and takes no memory for what is not there.
use MIME::Base64 qw(decode_base64 encode_base64);

use IbltReader;
use IbltTest;

my ($description_size, $value_description_size, $description) = (32, 36, 552);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '-E', 'UTF8', '--no-locale' ]);
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION iblt; CREATE TYPE mood AS ENUM ('sad', 'happy');
	CREATE FUNCTION outcome(s text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		RETURN (SELECT string_agg(coalesce(value, key), ' ') FROM iblt_decode(s::iblt));
	EXCEPTION WHEN OTHERS THEN
		RETURN sqlstate || ' ' || sqlerrm;
	END $$});

# A sketch with another description, sealed again.
sub described_as
{
	my ($bytes, $type, $size_at) = @_;
	my $old = unpack('v', substr($bytes, $size_at, 2));
	my $padded = sub { my ($size) = @_; return ($size + 7) & ~7 };
	substr($bytes, $description, $padded->($old)) = pack('a' . $padded->(length $type), $type);
	substr($bytes, $size_at, 2) = pack('v', length $type);
	my ($out, $status, $err) = run_reader('iblt_reader.py', encode_base64($bytes, ''), 'reseal', '-');
	die "reseal: $err" if $status != 0;
	return $out;
}

# What a sketch decodes to whose one key is the SQL expression, read as another type.
sub read_as
{
	my ($key, $type) = @_;
	my $made = $node->safe_psql('postgres', "SELECT iblt_agg($key, 1, iblt_new(10, key_size => 64))");
	return $node->safe_psql('postgres', 'SELECT outcome(' . literal(described_as(decode_base64($made), $type, $description_size)) . ')');
}

# The same of a value.
sub read_value_as
{
	my ($value, $type) = @_;
	my $made = $node->safe_psql('postgres', "SELECT iblt_agg(1, $value, iblt_new(10, value_size => 64))");
	return $node->safe_psql('postgres', 'SELECT outcome(' . literal(described_as(decode_base64($made), $type, $value_description_size)) . ')');
}

my $malformed = 'XX001 malformed canonical bytes: ';
my $early = qr/^${malformed}they end too early$/;
my $late = qr/^${malformed}a value has bytes after its end$/;
my $other = qr/^${malformed}they are not the canonical form of their value$/;

# An item of these bytes, as the type's.
foreach my $case (
	[ 'int4', '00000007', '7' ],
	[ 'int4', '000007', qr/^08P01/ ],
	[ 'int4', '0000000700', $late ],
	[ 'text', '6162', 'ab' ],
	[ 'text', 'ff', qr/^22021/ ],
	[ 'text', '610062', qr/^22021/ ],
	[ 'bool', '02', $other ],
	[ 'float8', '7ff8000000000001', $other ],
	[ 'float8', '7ff8000000000000', 'NaN' ],
	[ 'numeric', '0002000000000000' . '00010000', $other ],
	[ 'path', '010fffffff', qr/^${malformed}a count is too large for the bytes$/ ],
	[ 'varbit', '7fffffff00', qr/^${malformed}a count is too large for the bytes$/ ],
	[ 'int4[]', '00', '{}' ],
	[ 'int4[]', '01' . '00000001' . '00000001' . '0500000007', '{7}' ],
	[ 'int4[]', '01' . '00000001' . '00000001' . '050000000700', $late ],
	[ 'int4[]', '01' . '00000001' . '00000001' . '08000000', $early ],
	[ 'int4[]', '01' . '00000002' . '00000001' . '0500000007', $early ],
	[ 'int4[]', '01' . '7fffff00' . '00000001' . '0500000007', qr/^${malformed}an array has more elements than bytes$/ ],
	[ 'int4[]', '02' . '00010000' . '00000001' . '00010000' . '00000001', qr/^${malformed}an array has more elements than bytes$/ ],
	[ 'int4[]', '01' . '00000000' . '00000001', qr/^${malformed}an array has impossible bounds$/ ],
	[ 'int4[]', '01' . '00000001' . '7fffffff' . '00', qr/^${malformed}an array has impossible bounds$/ ],
	[ 'int4[]', '07' . '0000000100000001' x 7 . '00', qr/^${malformed}an array has too many dimensions$/ ],
	[ 'int4[]', '01' . '00000001' . '00000001' . '850000000007', qr/^${malformed}a length is not in its shortest form$/ ],
	[ 'int2vector', '01' . '00000001' . '00000000' . '00', qr/^${malformed}they are not the canonical form of their value$/ ],
	[ 'int2vector', '01' . '00000001' . '00000001' . '030001', qr/^${malformed}they are not the canonical form of their value$/ ],
	[ 'int4range', '02' . '0500000001' . '0500000003', '[1,3)' ],
	[ 'int4range', '06' . '0500000001' . '0500000003', $other ],
	[ 'int4range', '03', qr/^$malformed/ ],
	[ 'int4range', '80', qr/^$malformed/ ],
	# a bound that is not there must not be compared
	[ 'numrange', '60', qr/^$malformed/ ],
	[ 'numrange', '30', qr/^$malformed/ ],
	[ 'int4range', '0a' . '0500000001', qr/^$malformed/ ],
	[ 'int4range', '02' . '00' . '0500000003', qr/^${malformed}a range bound is null$/ ],
	[ 'int4range', '02' . '0500000003' . '0500000001', qr/^22000/ ],
	[ '(int4,text)', '0500000007' . '0261', '(7,a)', 'row' ],
	[ '(int4,text)', '0500000007', $early, 'row' ],
	[ '(int4,text)', '0500000007' . '0261' . '0262', $late, 'row' ])
{
	my ($type, $hex, $wanted, $row) = @$case;
	# a row's items are all that its own item holds, so it is read as a column of one
	my $got = $row ? read_as("ROW('\\x$hex'::bytea)", "($type)") : read_as("'\\x$hex'::bytea", $type);
	$wanted = qr/^\("\(7,a\)"\)$/ if $row && !ref $wanted;
	ref $wanted ? like($got, $wanted, "$type: $hex") : is($got, $wanted, "$type: $hex");
}

# What is behind the key must be padding.
my $claims = qr/^XX001 key in the iblt does not match its declared type$/;
is(read_as(q{ROW(7, 'a'::text)}, '(int4,text)'), '(7,a)', 'the type that it has');
like(read_as(q{ROW(7, 'a'::text)}, '(int4)'), $claims, 'a column more than is claimed');
like(read_as(q{ROW(7, NULL::text, 8)}, '(int4)'), $claims, 'with a null before it, which looks like padding');
like(read_as('ROW(NULL::int4)', 'int4'), $claims, 'a null in place of a key');
like(read_as('ROW(7, 8)', 'int4'), $claims, 'a row in place of its first column');
is(read_as('ROW(7)', 'int4'), '7', 'though one column is the same as none');

# The same holds for values.
my $value_claims = qr/^XX001 value in the iblt does not match its declared type$/;
is(read_value_as(q{ROW(7, 'a'::text)}, '(int4,text)'), '(7,a)', 'a value of the type that it has');
is(read_value_as(q{'\x00000007'::bytea}, 'int4'), '7', 'a value as another type of the same bytes');
like(read_value_as(q{'\xff'::bytea}, 'text'), qr/^22021/, 'a value that is not text');
like(read_value_as(q{'\x02'::bytea}, 'bool'), $other, 'a value that is not canonical');
like(read_value_as(q{ROW(7, 'a'::text)}, '(int4)'), $value_claims, 'a value of a column more than is claimed');
like(read_value_as('ROW(NULL::int4)', 'int4'), $value_claims, 'a null in place of a value');
like(read_value_as(q{'a'::text}, 'no_type'), qr/^(42704|XX001)/, 'a value of a type that does not exist');

done_testing();
