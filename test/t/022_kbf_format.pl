# The format of a key-value Bloom filter: a reader and writer in another language,
# which knows no more than doc/internals/format.md says, and the server must agree on every
# byte, on every answer and on what is refused.

use MIME::Base64 qw(decode_base64 encode_base64);

use IbltReader;
use IbltTest;

random_seed();
sub reader { return run_reader('kbf_reader.py', @_); }

my $node = server('main');

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql(<<'SQL');
CREATE EXTENSION kbf;
CREATE TABLE rows AS SELECT g, 1 + (g * 31) % 200 AS v FROM generate_series(1, 200) g;
-- the identity, which makes a stored value that no door has seen
CREATE FUNCTION unseen(bytea) RETURNS kbf LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
SQL
doors($node, 'kbf', sub { my ($text) = @_; return (reader('', 'check', $text))[1, 2] }, 'kbf_info(unseen(%s))', 'kbf_sum(unseen(%s))');

# --- the same bytes and answers ---------------------------------------------------

# A kind of key is what the reader calls it, the key's expression and its columns.
my @kinds = (
	[ 'integer', '(g - 100)::bigint * 10000000019' ],
	[ 'integer', '(-g)::smallint' ],
	[ 'uuid', 'md5(g::text)::uuid' ],
	[ 'text', q{CASE g % 3 WHEN 0 THEN '' WHEN 1 THEN U&'\00E9\+01F600 ' || g ELSE repeat('long ', 40) || g END || repeat(' ', g)} ],
	[ '(int4,text)', 'nullif(g, 20) - 20, CASE WHEN g % 5 <> 3 THEN g::text END' ]);

# What the server says of keys, in the reader's form.
sub server_gets
{
	my ($value, $key) = @_;
	return sql("COPY (SELECT l.status, l.value FROM generate_series(1, 230) g, kbf_lookup(\$\$$value\$\$::kbf, $key) l ORDER BY g) TO STDOUT");
}

# Both build the same bytes, and answer the same.
sub compare
{
	my ($kind, $columns, $template, $values) = @_;
	my $name = "$kind keys $columns, $template";
	my $key = $kind =~ /^\(/ ? "ROW($columns)" : $columns;
	my ($hashes, $cells, $degree, $superposed, $distinct, $labels, $seed) =
	  split /\|/, sql("SELECT hashes, cells / hashes, degree, superposed, distinct_values, array_to_string(labels, ','), seed FROM kbf_info($template)");
	my @parameters = (
		'--hashes' => $hashes, '--cells' => $cells, '--degree' => $degree, '--superposed' => $superposed,
		'--values' => $distinct, '--labels' => $labels, "--seed=$seed", '--kind' => $kind);
	my $rows = sql("COPY (SELECT $columns, 1 + v % $values FROM rows ORDER BY random()) TO STDOUT");
	my $server = sql("SELECT kbf_agg($key, 1 + v % $values, $template) FROM rows");
	my $built = reader("$rows\n", 'build', @parameters);
	ok($built eq $server, "$name: the reader builds the same bytes");
	is(reader(sql("COPY (SELECT $columns FROM generate_series(1, 230) g ORDER BY g) TO STDOUT") . "\n", 'get', $built),
		server_gets($built, $key), "$name: the same answers");

	# some pairs deleted and some changed
	my $changes = sql("COPY (SELECT $columns, 1 + v % $values, CASE g % 2 WHEN 0 THEN '-' ELSE '=' || 1 + g % $values END
		FROM rows WHERE g % 7 = 0 ORDER BY g) TO STDOUT");
	my $changed = sql(<<"SQL");
DO \$\$
DECLARE s kbf := (SELECT kbf_agg($key, 1 + v % $values, $template) FROM rows); row record;
BEGIN
	FOR row IN SELECT $key AS key, 1 + v % $values AS v, g FROM rows WHERE g % 7 = 0 ORDER BY g LOOP
		s := CASE row.g % 2 WHEN 0 THEN kbf_delete(s, row.key, row.v) ELSE kbf_update(s, row.key, row.v, 1 + row.g % $values) END;
	END LOOP;
	DELETE FROM loaded;
	INSERT INTO loaded VALUES (s);
END \$\$;
SELECT s FROM loaded;
SQL
	ok(reader("$rows\n$changes\n", 'build', @parameters) eq $changed, "$name: deleted and changed, the same bytes");
	is(reader(sql("COPY (SELECT $columns FROM generate_series(1, 230) g ORDER BY g) TO STDOUT") . "\n", 'get', $changed),
		server_gets($changed, $key), "$name: deleted and changed, the same answers");
	return ($server, $cells);
}

my $seed = int(rand(2**40));
foreach my $kind (@kinds)
{
	compare(@$kind, 'kbf_new(200)', 255);
	compare(@$kind, "kbf_new(150, 255, 0.1, 2, seed => -$seed)", 255);
	# overfull, so that cells are full, and of few values, so that equal ones cancel
	compare(@$kind, "kbf_new(20, 7, 0.1, seed => $seed)", 7);
	compare(@$kind, q{kbf_new(100, labels => ARRAY['new', 'open', U&'dr\00FCcken'], superposed => 1, failure => 0.1)}, 3);
}
my ($whole, $cells) = compare(@{$kinds[0]}, 'kbf_new(2000)', 255);

{
	my @part = map { sql("SELECT kbf_agg(g, v, kbf_new(100)) FROM rows WHERE g % 2 = $_") } 0, 1;
	my $sum = sql("SELECT '$part[0]'::kbf + '$part[1]'");
	ok(reader('', 'add', @part) eq $sum, 'the sum has the same bytes');
	ok(reader('', 'subtract', $sum, $part[0]) eq sql("SELECT '$sum'::kbf - '$part[0]'"), 'the difference has the same bytes');
	is((reader('', 'subtract', @part))[1], 2, 'the reader refuses what is not a part');
	like(sql("SELECT refusal('SELECT ''$part[0]''::kbf - ''$part[1]''')"), qr/^IB007/, 'and the server');
	# more labels on one side, and others on both
	my ($short, $long, $other) = map { sql("SELECT kbf_agg(g, 1 + v % 2, kbf_add_labels(kbf_new(300, labels => '{a,b}'), '$_')) FROM rows WHERE g < 100") } '{}', '{c,d}', '{e}';
	ok(reader('', 'add', $short, $long) eq sql("SELECT '$short'::kbf + '$long'"), 'labels that go on: the sum has the same bytes');
	ok(reader('', 'add', $long, $short) eq sql("SELECT '$short'::kbf + '$long'"), 'in either order');
	is((reader('', 'add', $long, $other))[1], 2, 'the reader refuses other labels');
	like(sql("SELECT refusal('SELECT ''$long''::kbf + ''$other''')"), qr/^22023/, 'and the server');
	my $folded = sql("SELECT kbf_fold('$whole'::kbf, 250)");
	my $divisor = $cells / sql("SELECT cells / hashes FROM kbf_info('$folded')");
	cmp_ok($divisor, '>', 1, "folded by $divisor");
	ok(reader('', 'fold', $whole, $divisor) eq $folded, 'the fold has the same bytes');
}

# Golden bytes: the pairs 1: 3, -1: 5, 42: 5.
my $golden = pack 'H*', '49424c4b010303020100070004000000' . '01000000000000000300000000000000'
  . '00000000000000005103008074004' . '41d63f8004817350000' . 'f5b0ba98afe14496';
{
	my $text = encode_base64($golden, '');
	is(reader("1\n-1\n42\n2\n", 'get', $text), "present\t3\npresent\t5\npresent\t5\nabsent\t\\N", 'golden bytes: what the reader gets');
	is( sql("COPY (SELECT l.status, l.value FROM unnest(ARRAY[1, -1, 42, 2]) WITH ORDINALITY u(k, n), kbf_lookup('$text'::kbf, k) l ORDER BY n) TO STDOUT"),
		"present\t3\npresent\t5\npresent\t5\nabsent\t\\N", 'golden bytes: what the server gets');
	ok(reader("1\t3\n-1\t5\n42\t5\n", 'build', '--hashes' => 3, '--cells' => 4, '--degree' => 3, '--superposed' => 2, '--values' => 7, '--seed' => 1) eq $text,
		'golden bytes: what the reader builds');
}

# --- what is refused ----------------------------------------------------------------

my $template = decode_base64(sql('SELECT kbf_new(10)'));
my $labels = decode_base64(sql(q{SELECT kbf_agg('key'::text, 'a'::text, kbf_new(1, labels => '{a,bc}'))}));
my $overfull = decode_base64(sql('SELECT kbf_agg(g, v, 1) FROM rows'));

accepted($_->[0], $_->[1])
  foreach [ 'golden bytes', $golden ], [ 'a template', $template ], [ 'labels', $labels ], [ 'full cells', $overfull ],
  [ 's = 1 in a template', damaged($template, 12, 'V', 1) ], [ 'another seed', damaged($golden, 16, 'Q<', ~0) ],
  [ 'fewer values', damaged($golden, 10, 'v', 1) ];

refused("damaged magic, byte $_", damaged($golden, $_, 'a', 'x')) foreach 0 .. 3;
refused("version $_", damaged($golden, 4, 'C', $_)) foreach 0, 2, 255;
refused("$_ hashes", damaged($golden, 5, 'C', $_)) foreach 0, 1, 2, 4, 9, 255;
refused("$_ hashes in a template", damaged($template, 5, 'C', $_)) foreach 0, 1, 9;
refused("degree $_ in a template", damaged($template, 6, 'C', $_)) foreach 0, 2, 7, 13;
refused("superposed $_ in a template", damaged($template, 7, 'C', $_)) foreach 0, 4, 255;
refused("kind $_", damaged($golden, 8, 'C', $_)) foreach 0, 3, 4, 255;
refused("reserved byte $_", damaged($golden, $_, 'C', 1)) foreach 9, 34, 35;
refused("V = $_", damaged($golden, 10, 'v', $_)) foreach 0, 8, 65535;
refused("s = $_", damaged($golden, 12, 'V', $_)) foreach 0, 3, 5, 2**32 - 1;
refused("s = $_ in a template", damaged($template, 12, 'V', $_)) foreach 0, 2**24 + 1, 2**31;
refused("net keys $_", damaged($golden, 24, 'Q<', $_)) foreach 0, 2, 4, 2**63;
refused('net keys of a template', damaged($template, 24, 'Q<', 1));
refused("T = $_", damaged($golden, 32, 'v', $_)) foreach 1, 65535;
refused("T = $_ for texts", damaged($labels, 32, 'v', $_)) foreach 0, 3, 5, 8193;
refused("N = $_", damaged($golden, 36, 'V', $_)) foreach 1, 8, 2**20 + 1, 2**32 - 1;
refused("N = $_ for labels", damaged($labels, 36, 'V', $_)) foreach 0, 2, 4, 6;
refused("description with $_->[0]", damaged($labels, 40, 'a*', $_->[1]))
  foreach [ 'a line feed', "te\nt" ], [ 'an end missing', "tex\xc3" ];
refused("labels with $_->[0]", damaged($labels, 44, 'a*', $_->[1]))
  foreach [ 'an empty one', "\0a\2bc" ], [ 'a long one', "\1a\3bc" ], [ 'a line feed', "\1\n\2bc" ], [ 'an end missing', "\1a\2b\xc3" ];
refused('padding of the text', damaged($labels, 49, 'C', 1));

# cells of golden bytes begin at 40 and have 10 bits
refused('content of an empty cell', damaged($golden, 43, 'C', ord(substr($golden, 43, 1)) ^ 4));
refused('counters that do not add up', damaged($golden, 40, 'C', ord(substr($golden, 40, 1)) ^ 2));
refused('contents that do not add up', damaged($golden, 40, 'C', ord(substr($golden, 40, 1)) ^ 0x20));
refused('bits behind the last cell', damaged($golden, 55, 'C', 1));
refused('nothing', '');
refused("the first $_ bytes", substr($golden, 0, $_)) foreach 1, 4, 39, 40, 47, 48, 63;
refused('a byte more', "$golden\0");
refused('a word more, with a right checksum', damaged($golden . ("\0" x 8), 40, ''));
refused('another checksum', substr($golden, 0, 63) . ~substr($golden, 63));
refused("a bit of byte $_ flipped", do { my $b = $overfull; vec($b, 8 * $_, 1) ^= 1; $b }) foreach map { int rand(length $overfull) } 1 .. 10;

done_testing();
