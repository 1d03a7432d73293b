# The format: a reader and writer in another language, which knows no more than
# doc/internals/format.md and doc/checksum.md say, and the server must agree on every
# byte, on what a sketch decodes to, on when that is complete, and on what is
# refused.  And what the server says of keys that no value has.

use MIME::Base64 qw(decode_base64 encode_base64);

use IbltReader;
use IbltTest;

random_seed();
sub reader { return run_reader('iblt_reader.py', @_) }

sub sorted
{
	my ($lines) = @_;
	return join "\n", sort split /\n/, $lines;
}

my $node = server('main', "bytea_output = 'hex'");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# What the server decodes a value to, in the reader's form.
sub server_decodes
{
	my ($value, $partial) = @_;
	my $allow = $partial ? 'true' : 'false';
	return sorted(
		sql("COPY (SELECT key, side, count, value FROM iblt_decode(\$\$$value\$\$::iblt, $allow)) TO STDOUT"
		));
}

# Both decode a value completely, to the same rows, which are returned.
sub both_decode
{
	my ($value, $name) = @_;
	my ($rows, $status) = reader($value, 'decode', '-');
	is($status, 0, "$name: complete for the reader");
	is(sorted($rows), server_decodes($value), "$name: reader and server decode the same rows");
	return sorted($rows);
}

# Neither takes a value for complete, and what comes out in part is the same.
sub both_incomplete
{
	my ($value, $name) = @_;
	my ($rows, $status) = reader($value, 'decode', '-');
	my (undef, undef, $error) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT * FROM iblt_decode(\$\$$value\$\$::iblt)");
	is($status, 1, "$name: incomplete for the reader");
	like($error, qr/IB001/, "$name: incomplete for the server");
	is(sql("SELECT complete FROM iblt_decode_status(\$\$$value\$\$::iblt)"),
		'f', "$name: so says iblt_decode_status");
	if ($rows eq '')
	{
		# an empty result could be taken for "equal"
		(undef, undef, $error) = $node->psql('postgres',
			"\\set VERBOSITY verbose\nSELECT * FROM iblt_decode(\$\$$value\$\$::iblt, true)");
		like($error, qr/IB001/, "$name: no part to show is an error");
	}
	else
	{
		is(sorted($rows), server_decodes($value, 1), "$name: both decode the same part");
	}
	return;
}

# The header contradicts the cells: neither takes it for complete.
sub both_contradiction
{
	my ($value, $name) = @_;
	my (undef, $status) = reader($value, 'decode', '-');
	my (undef, undef, $error) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT * FROM iblt_decode(\$\$$value\$\$::iblt, true)");
	is($status, 1, "$name: not complete for the reader");
	like($error, qr/XX001/, "$name: a contradiction for the server");
	return;
}

# --- sketches of tables --------------------------------------------------------

sql(<<'SQL');
CREATE EXTENSION iblt;

-- The key of row g for each kind of key.
CREATE FUNCTION text_key(g int) RETURNS text IMMUTABLE LANGUAGE sql AS $$
	SELECT CASE g % 5
		WHEN 0 THEN 'row ' || g
		WHEN 1 THEN U&'\00E9\4E2D\+01F600 ' || g
		WHEN 2 THEN E'tab\t, line\n, back\\ "quoted", (' || g || ')'
		WHEN 3 THEN repeat(' ', (g - 3) % 30)
		ELSE g::text END $$;
CREATE FUNCTION bigint_key(g int) RETURNS bigint IMMUTABLE LANGUAGE sql AS $$
	SELECT CASE g
		WHEN 1 THEN -1
		WHEN 2 THEN 0
		WHEN 3 THEN 9223372036854775807
		WHEN 4 THEN -9223372036854775808
		WHEN 5 THEN 9007199254740993
		ELSE (g - 200) * 10000000019 END $$;

-- Side l(eft), side r(ight) or b(oth) has row g with this checksum.
CREATE TABLE rows (side "char", g int, y bigint);
INSERT INTO rows
	SELECT 'b', g, hashint8extended(g, 1) FROM generate_series(100, 300) g
	UNION ALL SELECT 'l', g, hashint8extended(g, 1) FROM generate_series(1, 12) g
	UNION ALL SELECT 'r', g, hashint8extended(g, 2) FROM generate_series(9, 20) g;
INSERT INTO rows VALUES
	('l', 21, -1), ('l', 21, -1), ('l', 21, -1),	-- a row three times
	('l', 22, 1), ('l', 22, 2),						-- two rows of one key
	('l', 23, 7), ('l', 23, 7), ('r', 23, 7),		-- less one of the same
	('l', 24, 7), ('l', 24, 8), ('r', 24, 9),		-- less one that is another
	('l', 25, 0), ('r', 25, 0),						-- no difference
	('r', 26, 9223372036854775807), ('l', 27, -9223372036854775808),
	('r', 28, -5), ('r', 28, -5);
SQL

# A kind of key is what the reader calls it, the key's expression and, where
# they differ from it, its columns.
my @kinds = (
	{ kind => 'integer', key => 'bigint_key(g)' },
	{ kind => 'integer', key => '(-g)::int' },
	{ kind => 'integer', key => 'g::smallint' },
	{ kind => 'uuid', key => 'md5(g::text)::uuid' },
	{ kind => 'text', key => 'text_key(g)', size => 64 },
	{
		kind => '(int4,text)',
		columns => 'nullif(g, 20) - 20, CASE WHEN g % 5 <> 3 THEN text_key(g) END',
		size => 80
	},);
$_->{columns} //= $_->{key}, $_->{key} //= "ROW($_->{columns})" foreach @kinds;

# The value of a row, for each type that the reader knows.
my %values = (
	integer => 'y',
	uuid => 'md5(y::text)::uuid',
	text => q{CASE y WHEN 7 THEN '' WHEN 8 THEN E'tab\t, back\\\\ "quoted"' ELSE U&'\00E9 ' || y END},);

# The rows in which both sides differ, found without a sketch.
sub truth
{
	my ($kind, $values) = @_;
	my $value = $values ? "CASE WHEN count(*) = 1 THEN min(($values{$values})::text) END" : 'NULL';
	return sorted(sql(<<"SQL"));
COPY (WITH net AS (
		SELECT $kind->{key} AS key, y, sum(CASE side WHEN 'l' THEN 1 WHEN 'r' THEN -1 ELSE 0 END) AS c
		FROM rows GROUP BY 1, 2)
	SELECT key, (ARRAY['right', 'both', 'left'])[sign(sum(c)) + 2], sum(c), $value
	FROM net WHERE c <> 0 GROUP BY key) TO STDOUT
SQL
}

# Compare server and reader for one kind of key and one set of parameters.
sub compare
{
	my ($kind, $hashes, $sketch_seed, $values) = @_;
	my $name = "$kind->{key}, $hashes hashes, seed $sketch_seed" . ($values ? ", $values values" : '');
	my $y = $values ? $values{$values} : 'y';
	my $size = $kind->{size} // 32;
	my $with = $values ? 'true' : 'false';
	my $template = "iblt_new(40, $size, with_values => $with, hashes => $hashes, seed => $sketch_seed)";
	my $cells = sql("SELECT cells / hashes FROM iblt_info($template)");
	my (%server, %built);

	foreach my $side (qw(l r))
	{
		my $where = "WHERE side IN ('$side', 'b')";
		$server{$side} = sql("SELECT iblt_agg($kind->{key}, $y, $template) FROM rows $where");
		my $rows =
		  sql("COPY (SELECT $kind->{columns}, $y FROM rows $where ORDER BY random()) TO STDOUT");
		$built{$side} = reader(
			"$rows\n", 'build',
			'--hashes' => $hashes,
			'--cells' => $cells,
			"--seed=$sketch_seed",
			'--kind' => $kind->{kind},
			'--key-size' => $size,
			$values ? ('--values' => $values) : ());
		ok($built{$side} eq $server{$side}, "$name, side $side: the reader builds the same bytes");
	}
	# The server reads what the reader has written.
	my ($difference, $estimated) = split /\|/, sql(<<"SQL");
SELECT l - r, rows_estimated
FROM (SELECT \$\$$built{l}\$\$::iblt AS l, \$\$$built{r}\$\$::iblt AS r) v, iblt_decode_status(l - r)
SQL
	ok(reader('', 'subtract', $server{l}, $server{r}) eq $difference,
		"$name: the reader subtracts to the same bytes");
	is(reader($difference, 'estimate', '-'), $estimated, "$name: the same estimate");
	is(both_decode($difference, $name), truth($kind, $values), "$name: the rows are the truth");
	return;
}

# Each kind with three sets of parameters, of which each has three kinds or more.
my @sets = ([ 3, 0, 0 ], [ 4, -1, 0 ], [ 8, '-9223372036854775808', 0 ], [ 4, 42, 'integer' ], [ 5, int(rand(2**40)), 'text' ], [ 3, 5, 'uuid' ]);
foreach my $n (0 .. $#kinds)
{
	compare($kinds[$n], @{ $sets[ ($n + $_) % @sets ] }) foreach 0, 2, 3;
}

# Row by row instead of with the aggregate, and some rows deleted again.
{
	my $built = reader("-1\t-1\n5\t7\n5\t7\t-1\n6\t8\t-1\n", 'build', '--cells' => 28, '--values' => 'integer');
	my $inserted = sql(<<'SQL');
SELECT iblt_delete(iblt_delete(iblt_insert(iblt_insert(
	iblt_new(10, with_values => true), -1, -1), 5, 7), 5, 7), 6, 8)
SQL
	ok($built eq $inserted, 'inserted and deleted: the same bytes');
	is( both_decode($built, 'inserted and deleted'),
		"-1\tleft\t1\t-1\n6\tright\t-1\t8",
		'inserted and deleted: the rows');
}

# --- crafted values --------------------------------------------------------------

use constant {
	NET_ROWS => 24,
	DESCRIPTION_SIZE => 32,
	VALUE_DESCRIPTION_SIZE => 36,
	METER => 40,
	DESCRIPTION => 552
};

# A bigint sketch: 3 hashes, cells of 28 bytes, counts at their begin.
my $rows = "1\t10\n2\t20\n3\t30\n4\t40\n";
my $full = decode_base64(reader($rows, 'build', '--hashes' => 3, '--cells' => 28));
my $empty = decode_base64(reader('', 'build', '--hashes' => 3, '--cells' => 28));
my $small = decode_base64(reader('', 'build', '--hashes' => 3, '--cells' => 1));

both_decode(resealed(with_bytes($full, METER, pack('v', 12345))), 'a wrong meter');
both_contradiction(resealed(with_bytes($full, NET_ROWS, pack('q<', $_))), "net rows $_")
  foreach 0, 5, 4 - 2**32;
is(both_decode(resealed($empty), 'an empty sketch'), '', 'an empty sketch: no rows');
both_contradiction(resealed(with_bytes($empty, NET_ROWS, pack('q<', 2**32))),
	'net rows and no cells');
both_contradiction(resealed(with_bytes($empty, METER, pack('v', 1))), 'a meter and no cells');
both_contradiction(resealed(with_bytes($empty, DESCRIPTION, pack('l<', 1))), 'a count and nothing else');
both_contradiction(resealed(with_bytes($empty, DESCRIPTION + 20, pack('Q<', 1))),
	'a check and nothing else');

# One cell of a key alone: taking it out puts its opposite into the others, and
# so on, forever if a cell could be taken more than once.
{
	my $one = decode_base64(reader("1\t10\n", 'build', '--hashes' => 3, '--cells' => 1));
	my $cell = substr($one, DESCRIPTION, 28);
	both_contradiction(resealed(with_bytes($small, DESCRIPTION, $cell)), 'a cell of a key alone');
}

# A value without the second subtable: hashes 0 and 2 are kept.
{
	my $without = with_bytes($full, 6, pack('C', 5));
	substr($without, DESCRIPTION + 28 * 28, 28 * 28) = '';
	is(both_decode(resealed($without), 'two subtables of three'),
		"1\tleft\t1\t\\N\n2\tleft\t1\t\\N\n3\tleft\t1\t\\N\n4\tleft\t1\t\\N",
		'two subtables of three: the rows');
}

# More rows than the cells can tell apart.
both_incomplete(sql('SELECT iblt_agg(g, g, 10) FROM generate_series(1, 200) g'), 'too many rows');

# --- what is refused --------------------------------------------------------------

doors($node, 'iblt', sub { my ($text) = @_; return (reader($text, 'decode', '-'))[1, 2] }, 'iblt_internal.iblt_from_bytea(%s)');
my $template = decode_base64(sql('SELECT iblt_new(10, hashes => 3)'));
my $uuids = decode_base64(sql("SELECT iblt_agg(md5('')::uuid, 1, 10)"));
my $texts = decode_base64(sql("SELECT iblt_agg('key'::text, 1, 10)"));
my $values = decode_base64(sql("SELECT iblt_agg('key'::text, 'value'::varchar, iblt_new(10, value_size => 16))"));
my $integers = decode_base64(sql("SELECT iblt_agg(1, 2, iblt_new(10, with_values => true))"));
my $p = ~0 - 58;    # 2^64 - 59

accepted($_->[0], $_->[1])
  foreach [ 'a bigint sketch', $full ], [ 'a uuid sketch', $uuids ], [ 'a text sketch', $texts ],
  [ 'a template', $template ], [ 'p - 1', damaged($full, DESCRIPTION + 4, 'Q<', $p - 1) ],
  [ 's = 2^24 in a template', damaged($template, 12, 'V', 2**24) ],
  [ 'L = 512 in a template', damaged($template, 10, 'v', 512) ],
  [ 'values of type text', $values ], [ 'values of type bigint', $integers ],
  [ 'V = 512 in a template', damaged($template, 34, 'v', 512) ],
  [ 'another seed', damaged($full, 16, 'Q<', ~0) ];

refused("damaged magic, byte $_", damaged($full, $_, 'a', 'x')) foreach 0 .. 3;
refused("version $_", damaged($full, 4, 'C', $_)) foreach 0, 2, 255;
refused("$_ hashes", damaged($full, 5, 'C', $_)) foreach 0, 2, 9, 255;
refused("subtables $_", damaged($full, 6, 'C', $_)) foreach 0, 3, 8, 15, 135;
refused("reserved byte 7 = $_", damaged($full, 7, 'C', $_)) foreach 1, 2, 128;
refused("kind $_", damaged($full, 8, 'C', $_)) foreach 0, 2, 3, 4, 255;
refused("reserved byte $_", damaged($full, $_, 'C', 1)) foreach 38, 39;
refused("kind of value $_ without values", damaged($full, 9, 'C', $_)) foreach 1 .. 4;
refused("kind of value $_", damaged($values, 9, 'C', $_)) foreach 0, 1, 2, 4, 255;
refused("kind of value $_ in a template", damaged($template, 9, 'C', $_)) foreach 1, 3;
refused("kind of value $_ for bigints", damaged($integers, 9, 'C', $_)) foreach 0, 2, 3;
refused("V = $_ without values", damaged($full, 34, 'v', $_)) foreach 1, 2;
refused("V = $_", damaged($values, 34, 'v', $_)) foreach 0, 1, 3, 513, 65535;
refused("V = $_ for bigints", damaged($integers, 34, 'v', $_)) foreach 0, 2;
refused("V = $_ in a template", damaged($template, 34, 'v', $_)) foreach 513, 65535;
refused("U = $_ without values", damaged($full, 36, 'v', $_)) foreach 1, 65535;
refused("U = $_", damaged($values, 36, 'v', $_)) foreach 0, 3, 5, 8193;
refused("T = $_, the rest of it the value's", damaged($values, DESCRIPTION_SIZE, 'v', $_)) foreach 0, 3, 5;
refused('a line feed in the description of a value', damaged($values, DESCRIPTION + 4, 'a', "\n"));
refused('T, U and the limits of both', damaged(damaged($values, DESCRIPTION_SIZE, 'v', 8), 36, 'v', 0));
refused('p as the last limb of a value', damaged($values, length($values) - 16, 'Q<', $p));
refused("L = $_", damaged($full, 10, 'v', $_)) foreach 0, 2, 513;
refused("L = $_ in a template", damaged($template, 10, 'v', $_)) foreach 0, 513, 65535;
refused("L = $_ for uuids", damaged($uuids, 10, 'v', $_)) foreach 1, 3;
refused("s = $_", damaged($full, 12, 'V', $_)) foreach 0, 11, 14, 56, 2**32 - 1;
refused("s = $_ in a template", damaged($template, 12, 'V', $_))
  foreach 0, 11, 27, 25, 49, 2**24 * 3, 2**24 * 5, 2**25, 2**31;
refused("T = $_", damaged($full, DESCRIPTION_SIZE, 'v', $_)) foreach 1, 65535;
refused('a description of a bigint',
	decode_base64(resealed(
			with_bytes(substr($full, 0, DESCRIPTION) . "text\0\0\0\0" . substr($full, DESCRIPTION),
				DESCRIPTION_SIZE, pack('v', 4)))));
refused("T = $_ for texts", damaged($texts, DESCRIPTION_SIZE, 'v', $_)) foreach 0, 3, 5, 9, 8193;
refused("description with $_->[0]", damaged($texts, DESCRIPTION, 'a*', $_->[1]))
  foreach [ 'a null byte', "te\0t" ], [ 'a line feed', "te\nt" ], [ 'a delete', "te\x7ft" ],
  [ 'an end alone', "te\x80t" ], [ 'an end missing', "tex\xc3" ],
  [ 'an overlong form', "te\xc1\xbf" ], [ 'an overlong form of three bytes', "t\xe0\x9f\xbf" ],
  [ 'an overlong form of four bytes', "\xf0\x8f\xbf\xbf" ], [ 'a surrogate', "t\xed\xa0\x80" ],
  [ 'a character beyond all', "\xf4\x90\x80\x80" ];
refused("padding byte $_", damaged($texts, DESCRIPTION + $_, 'C', 1)) foreach 4, 7;
refused("p + $_->[1] as $_->[0]", damaged($full, DESCRIPTION + $_->[2], 'Q<', $p + $_->[1]))
  foreach [ 'weight', 0, 4 ], [ 'limb', 0, 12 ], [ 'check', 0, 20 ], [ 'weight', 58, 4 ],
  [ 'the last check', 1, 84 * 28 - 8 ];
refused('a template with rows', damaged($template, NET_ROWS, 'q<', -1));
refused('a template with a meter', damaged($template, METER + 510, 'v', 1));
refused('nothing', '');
refused("the first $_ bytes", substr($full, 0, $_)) foreach 1, 4, 39, 559, 560, length($full) - 1;
refused('truncated, with a right checksum', decode_base64(resealed(substr($full, 0, -8))));
refused('a byte more', "$full\0");
refused('a cell more, with a right checksum',
	decode_base64(resealed(substr($full, 0, -8) . substr($full, -36))));
refused('another checksum', with_bytes($full, length($full) - 1, ~substr($full, -1)));
refused("a bit of byte $_ flipped", with_bytes($full, $_, ~substr($full, $_, 1) ^ "\xfe"))
  foreach NET_ROWS, METER + 100, DESCRIPTION, map { int rand(length $full) } 1 .. 10;

# Text that is not even base64.
{
	my (undef, $status) = reader('SUJM*', 'decode', '-');
	is($status, 2, 'not base64: the reader refuses');
	is(sql("SELECT refusal(\$\$SELECT 'SUJM*'::iblt\$\$)"),
		'22P02 invalid value of type iblt',
		'not base64: the server refuses');
	my $spaced = encode_base64($full, "\n ");
	is(sql("SELECT '$spaced'::iblt = '\\x@{[unpack 'H*', $full]}'::bytea::iblt"),
		't', 'white space is passed over');
	is((reader($spaced, 'decode', '-'))[1], 0, 'also by the reader');
}

# --- keys and values that no value has ----------------------------------------------

# A sketch whose cells hold any bytes, and whose description claims a type for them.  Decoding gives
# a value that has just these bytes, or an error.  It never shows two keys as one, and takes no memory
# for what is not there.
sql(q{CREATE TYPE mood AS ENUM ('sad', 'happy');
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
	substr($bytes, DESCRIPTION, $padded->($old)) = pack('a' . $padded->(length $type), $type);
	substr($bytes, $size_at, 2) = pack('v', length $type);
	return resealed($bytes);
}

# What a sketch decodes to whose one key is the SQL expression, read as another type.
sub read_as
{
	my ($key, $type) = @_;
	my $made = sql("SELECT iblt_agg($key, 1, iblt_new(10, key_size => 64))");
	return sql('SELECT outcome(' . literal(described_as(decode_base64($made), $type, DESCRIPTION_SIZE)) . ')');
}

# The same of a value.
sub read_value_as
{
	my ($value, $type) = @_;
	my $made = sql("SELECT iblt_agg(1, $value, iblt_new(10, value_size => 64))");
	return sql('SELECT outcome(' . literal(described_as(decode_base64($made), $type, VALUE_DESCRIPTION_SIZE)) . ')');
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
