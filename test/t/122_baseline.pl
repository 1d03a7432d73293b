# Baselines: a database is compared later with what it was, keys that differ are named, and
# nothing is called equal of which that is not known.
use IbltAudit;
use IPC::Run;
use JSON::PP;

my $seed = random_seed();
my ($here, $there) = audit_servers();
my $dir = PostgreSQL::Test::Utils::tempdir();

sub sql { return $here->safe_psql('postgres', $_[0]) }

# The status of the program, and the rows by table.
sub against
{
	my ($file, %how) = @_;
	my ($status, $out, $err) = program([ '--json', '--against', $file ], %how);
	my $document = eval { JSON::PP->new->utf8->decode($out) } // { tables => [] };
	note($err) if $how{note};
	return ($status, { map { $_->{relation} => $_ } @{ $document->{tables} } }, $err);
}

sub statuses { my ($tables) = @_; return join(', ', map { "$_ $tables->{$_}{status}" } sort keys %$tables) }

sub keys_of { my ($row) = @_; my $json = JSON::PP->new->canonical; return join(' ', sort map { $_->{side} . ':' . $json->allow_nonref->encode($_->{key}) } @{ $row->{keys} // [] }) }

sql(q{CREATE SCHEMA shop;
	CREATE TABLE shop.items (id int PRIMARY KEY, v text); INSERT INTO shop.items SELECT g, 'v' || g FROM generate_series(1, 5000) g;
	CREATE TABLE shop.pair (a int, b bigint, v text, PRIMARY KEY (a, b)); INSERT INTO shop.pair SELECT g % 7, g, 'v' FROM generate_series(1, 500) g;
	CREATE TABLE shop.named (name text PRIMARY KEY, v int); INSERT INTO shop.named SELECT 'n' || g, g FROM generate_series(1, 500) g;
	CREATE TABLE shop.loose (v int); INSERT INTO shop.loose SELECT g / 2 FROM generate_series(1, 100) g;
	CREATE TABLE shop.parts (id uuid PRIMARY KEY, n int) PARTITION BY HASH (id); CREATE TABLE shop.parts0 PARTITION OF shop.parts FOR VALUES WITH (modulus 2, remainder 0);
	CREATE TABLE shop.parts1 PARTITION OF shop.parts FOR VALUES WITH (modulus 2, remainder 1); INSERT INTO shop.parts SELECT md5(g::text)::uuid, g FROM generate_series(1, 300) g;
	CREATE TABLE shop.empty (id int PRIMARY KEY, w int)});
my $equal = 'shop.empty equal, shop.items equal, shop.loose equal, shop.named equal, shop.pair equal, shop.parts equal';

# --- saved and equal --------------------------------------------------------------------------

my ($status, $out, $err) = program([ '--save', "$dir/shop base.json", 'schema=shop' ]);
is("$status|$out|$err", '0||', '--save');
opendir(my $entries, $dir) or die;
is(join('|', grep { !/^\./ } readdir $entries), 'shop base.json', 'one file is left');
my ($rc, $tables) = against("$dir/shop base.json");
is("$rc " . statuses($tables), "0 $equal", 'nothing has changed');
is(join(' ', map { $tables->{'shop.items'}{$_} } qw(rows_here rows_there missing extra changed)), '5000 5000 0 0 0', 'its counts');
like($tables->{'shop.items'}{detail}, qr/^baseline of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, [0-9A-F]+\/[0-9A-F]+$/, 'when, and where in the WAL');
sql('VACUUM FULL shop.items; CREATE INDEX ON shop.items (v)');
is((against("$dir/shop base.json"))[0], 0, 'what does not change rows does not matter');

# --- keys that differ --------------------------------------------------------------------------

sql(q{UPDATE shop.items SET v = 'other' WHERE id IN (7, 8); DELETE FROM shop.items WHERE id = 9; INSERT INTO shop.items VALUES (6000, 'new');
	UPDATE shop.pair SET v = 'w' WHERE a = 3 AND b = 3; UPDATE shop.named SET v = -1 WHERE name = 'n5'; DELETE FROM shop.named WHERE name = 'n6'; INSERT INTO shop.named VALUES ('new', 1);
	DELETE FROM shop.loose WHERE ctid = (SELECT min(ctid) FROM shop.loose WHERE v = 10); INSERT INTO shop.loose VALUES (1000); UPDATE shop.parts SET n = 0 WHERE n = 5});
($rc, $tables) = against("$dir/shop base.json");
is("$rc " . statuses($tables), '1 shop.empty equal, shop.items differs, shop.loose differs, shop.named differs, shop.pair differs, shop.parts differs', 'all differences are found');
is(keys_of($tables->{'shop.items'}), 'both:{"id":7} both:{"id":8} here:{"id":6000} there:{"id":9}', 'keys as they are');
is(join(' ', map { $tables->{'shop.items'}{$_} } qw(rows_here rows_there missing extra changed)), '5000 5000 1 1 2', 'and how many');
is(keys_of($tables->{'shop.pair'}), 'both:{"a":3,"b":3}', 'of two columns');
is(keys_of($tables->{'shop.named'}), 'both:{"name":"n5"} here:{"name":"new"} there:null', 'by a hash: all but those that are gone');
is(keys_of($tables->{'shop.loose'}), 'here:{"v":1000} there:{"v":10}', 'rows without a key, one of which is there once and was there twice');
is(keys_of($tables->{'shop.parts'}), 'both:{"id":"' . sql(q{SELECT md5('5')::uuid}) . '"}', 'a partitioned table');
($status, $out, $err) = program([ '--against', "$dir/shop base.json" ]);
like($err, qr/\Adiffers: 5 of 6 tables, against .*shop base\.json\n  shop\.items differs: 1 missing, 1 extra, 2 changed\n/, 'the summary');
like($out, qr/^differs +shop\.items +5,000 +5,000 +1 +1 +2\n    baseline of /m, 'the text');

# random changes against the truth
sql('CREATE TABLE shop.random (id int PRIMARY KEY, v int); INSERT INTO shop.random SELECT g, g FROM generate_series(1, 3000) g');
foreach my $round (1 .. ($ENV{IBLT_TEST_ROUNDS} || 5))
{
	my $many = int(rand(300));
	my $found = sql("CREATE TEMP TABLE before AS TABLE shop.random; CREATE TEMP TABLE base AS SELECT iblt_baseline('{shop.random}'::regclass[], capacity => 400) AS b;
		SELECT setseed(${\ rand()}) \\g /dev/null
		INSERT INTO shop.random SELECT (3000 + random() * 1000000)::int, 0 FROM generate_series(1, $many / 3) ON CONFLICT DO NOTHING;
		UPDATE shop.random SET v = v + 1 WHERE random() < $many / 9000.0; DELETE FROM shop.random WHERE random() < $many / 9000.0;
		SELECT CASE WHEN f = t THEN 'found' ELSE concat(a.status, ' ', a.detail, ' found ', f, ' and not ', t) END
		FROM base, iblt_audit_baseline(b) AS a, LATERAL (SELECT coalesce(string_agg((e -> 'key' ->> 'id') || (e ->> 'side'), ' ' ORDER BY (e -> 'key' ->> 'id')::int), '') FROM jsonb_array_elements(a.keys) AS e) AS x(f),
		LATERAL (SELECT coalesce(string_agg(id || CASE WHEN h IS NULL THEN 'there' WHEN t IS NULL THEN 'here' ELSE 'both' END, ' ' ORDER BY id), '') FROM shop.random AS h FULL JOIN before AS t USING (id)
			WHERE h.v IS DISTINCT FROM t.v) AS y(t)");
	is($found, 'found', "round $round: about $many random changes");
}
sql('DROP TABLE shop.random');

# --- more than it can name ----------------------------------------------------------------------

program([ '--save', "$dir/small.json", 'tables={shop.items,shop.empty}', 'capacity=20' ]);
foreach my $number (1, 8, 100, 700, 4000)
{
	sql("UPDATE shop.items SET v = v || '.' WHERE id <= $number");
	($rc, $tables) = against("$dir/small.json");
	is("$rc $tables->{'shop.items'}{status}", '1 differs', "$number rows differ");
	is($tables->{'shop.items'}{changed}, sql("SELECT count(*) FROM shop.items WHERE id <= $number"), 'and are counted') if $number < 20;
	like($tables->{'shop.items'}{detail}, qr/more keys differ than a baseline with capacity 20 can name: about \d+$/, 'it says that it cannot name them') if $number > 2000;
}
sql('TRUNCATE shop.items');
is((against("$dir/small.json"))[0], 1, 'no row is left');
sql("INSERT INTO shop.items SELECT g, 'v' || g FROM generate_series(1, 5000) g");
is((against("$dir/small.json"))[0], 1, 'other rows in their place');

# --- other tables ---------------------------------------------------------------------------------

sql('CREATE DOMAIN shop.word AS int; ALTER TABLE shop.loose ALTER v TYPE shop.word');
program([ '--save', "$dir/shop.json", 'schema=shop' ]);
is((against("$dir/shop.json"))[0], 0, 'saved again');
my @changes = (
	'a column more' => 'ALTER TABLE shop.empty ADD more int', 'ALTER TABLE shop.empty DROP more', 'empty', qr/^baseline of .*; columns or key were altered: id integer, w integer, key \(id\) in the baseline, and id integer, w integer, more integer, key \(id\) now$/,
	'a column less' => 'ALTER TABLE shop.empty DROP w', 'ALTER TABLE shop.empty ADD w int', 'empty', qr/altered/,
	'another name' => 'ALTER TABLE shop.pair RENAME v TO w', 'ALTER TABLE shop.pair RENAME w TO v', 'pair', qr/altered/,
	'another type' => 'ALTER TABLE shop.empty ALTER id TYPE bigint', 'ALTER TABLE shop.empty ALTER id TYPE int', 'empty', qr/altered/,
	'another type of that name, whose values have the same bytes' => q{ALTER TABLE shop.loose ALTER v TYPE int; DROP DOMAIN shop.word; CREATE DOMAIN shop.word AS date; ALTER TABLE shop.loose ALTER v TYPE shop.word USING date '2000-01-01' + v},
		q{ALTER TABLE shop.loose ALTER v TYPE int USING v - date '2000-01-01'; DROP DOMAIN shop.word; CREATE DOMAIN shop.word AS int; ALTER TABLE shop.loose ALTER v TYPE shop.word}, 'loose', qr/altered/,
	'no key' => 'ALTER TABLE shop.empty DROP CONSTRAINT empty_pkey', 'ALTER TABLE shop.empty ADD PRIMARY KEY (id)', 'empty', qr/altered/,
	'no table' => 'ALTER TABLE shop.empty RENAME TO gone', 'ALTER TABLE shop.gone RENAME TO empty', 'empty', qr/^relation "shop\.empty" does not exist$/,
	'a view' => 'ALTER TABLE shop.empty RENAME TO gone; CREATE VIEW shop.empty AS TABLE shop.gone', 'DROP VIEW shop.empty; ALTER TABLE shop.gone RENAME TO empty', 'empty', qr/^no baseline can be made of shop\.empty$/,
);
while (my ($what, $do, $undo, $table, $detail) = splice @changes, 0, 5)
{
	sql($do);
	($rc, $tables) = against("$dir/shop.json");
	is("$rc $tables->{\"shop.$table\"}{status}", '2 not comparable', $what);
	like($tables->{"shop.$table"}{detail}, $detail, "$what: the detail");
	sql($undo);
}
sql('CREATE TABLE shop.another (id int)');
($rc, $tables) = against("$dir/shop.json");
is("$rc $tables->{'shop.another'}{status} $tables->{'shop.another'}{detail}", '2 not comparable the baseline has no such table', 'a table that is new');
sql('DROP TABLE shop.another; CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA shop TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA shop TO reader; REVOKE SELECT ON shop.pair FROM reader');
($rc, $tables) = against("$dir/shop.json", env => { PGUSER => 'reader' });
is("$rc $tables->{'shop.pair'}{status} $tables->{'shop.pair'}{sqlstate} $tables->{'shop.items'}{status}", '2 error 42501 equal', 'a table that may not be read');
program([ '--save', "$dir/no.json", 'schema=shop' ], env => { PGUSER => 'reader' });
ok(!-e "$dir/no.json", 'then nothing is saved');
is((against("$dir/shop.json"))[0], 0, 'after all that');

# a whole database
sql('CREATE SCHEMA "An other"; CREATE TABLE "An other"."Table" (id int PRIMARY KEY)');
is((program([ '--save', "$dir/all.json" ]))[0], 0, 'all tables are saved');
($rc, $tables) = against("$dir/all.json");
is("$rc " . statuses($tables), qq(0 "An other"."Table" equal, $equal), 'and compared');
sql('CREATE TABLE "An other".more (id int)');
($rc, $tables) = against("$dir/all.json");
is("$rc $tables->{'\"An other\".more'}{status}", '2 not comparable', 'a table that is new in any schema');
sql('DROP SCHEMA "An other" CASCADE');
is((against("$dir/all.json"))[0], 2, 'a schema that is gone');

# --- restored elsewhere ---------------------------------------------------------------------------

{
	my ($dump, $said) = ('', '');
	IPC::Run::run([ 'pg_dump', '--no-privileges', '-h', $here->host, '-p', $here->port, '-n', 'shop', 'postgres' ], '>', \$dump, '2>', \$said) or die $said;
	append_to_file("$dir/dump.sql", $dump);
	$there->safe_psql('postgres', "SET client_min_messages = error; \\i $dir/dump.sql");
	($rc, $tables) = against("$dir/shop.json", node => $there);
	is("$rc " . statuses($tables), "0 $equal", 'a backup that was restored on another server');
	$there->safe_psql('postgres', "DELETE FROM shop.items WHERE id = 4999");
	($rc, $tables) = against("$dir/shop.json", node => $there);
	is("$rc " . keys_of($tables->{'shop.items'}), '1 there:{"id":4999}', 'one that lost a row');
}

# --- damaged files --------------------------------------------------------------------------------

my $whole = slurp_file("$dir/small.json");
my @lines = split /^/, $whole;
my $sealed = sub { my ($text) = @_; return sql("SELECT iblt_internal.baseline_sealed(${\ literal($text =~ s/\n\z//r)})") . "\n" };
my %damaged = (
	'nothing' => '', 'no last line' => join('', @lines[ 0 .. $#lines - 1 ]), 'no first line' => join('', @lines[ 1 .. $#lines ]), 'a table less' => join('', @lines[ 0, 2 .. $#lines ]),
	'a table twice' => join('', @lines[ 0, 1, 1 .. $#lines ]), 'another order' => join('', @lines[ 0, 2, 1, 3 .. $#lines ]), 'half of it' => substr($whole, 0, length($whole) / 2),
	'something behind' => $whole . "{}\n", 'an empty line within' => $whole =~ s/\n/\n\n/r, 'other rows' => $whole =~ s/"rows":5000/"rows":5001/r, 'another seed' => $whole =~ s/"seed":(-?\d)/"seed":${1}1/r,
	'the head alone, sealed' => $sealed->($lines[0]), 'not JSON' => "hello\n", 'other programs' => "\\echo verdict equal\n\\! touch $dir/owned\n",
	'another version, sealed' => $sealed->(join('', $lines[0] =~ s/"iblt_baseline":1/"iblt_baseline":2/r, @lines[ 1 .. $#lines - 1 ])),
	'another protocol, sealed' => $sealed->(join('', $lines[0] =~ s/"protocol":\d+/"protocol":0/r, @lines[ 1 .. $#lines - 1 ])),
);
foreach my $what (sort keys %damaged)
{
	isnt($damaged{$what}, $whole, "$what: is another text");
	unlink "$dir/damaged.json";
	append_to_file("$dir/damaged.json", $damaged{$what});
	my ($rc, $tables, $err) = against("$dir/damaged.json");
	is("$rc " . keys %$tables, '2 0', "$what: is refused");
	like($err, qr/the baseline is (damaged|of another version of iblt)/, "$what: which the message says");
}
ok(!-e "$dir/owned", 'no line of a file is a command');
$whole = slurp_file("$dir/shop.json");
is(sql("CREATE TEMP TABLE whole AS SELECT ${\ literal($whole)}::text AS b; SELECT setseed(${\ rand()}) \\g /dev/null
	CREATE FUNCTION pg_temp.refused(b text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM count(*) FROM public.iblt_audit_baseline(b); RETURN false; EXCEPTION WHEN data_corrupted THEN RETURN true; END';
	SELECT count(*) FROM whole, generate_series(1, 40) AS n, LATERAL (SELECT 1 + (random() * (length(b) - 3))::int + 0 * n AS at) AS p,
		LATERAL (SELECT overlay(b PLACING chr(33 + (ascii(substr(b, at, 1)) + 1 + n) % 90) FROM at FOR 1) AS changed) AS c
	WHERE changed <> b AND NOT pg_temp.refused(changed)"), '0', 'no change of a byte is overlooked');

foreach ("SELECT iblt_baseline(schema => 'nosuch')", "SELECT * FROM iblt_audit_baseline('x')")
{
	my $error = failure($_);
	like($error, qr/ERROR: +(3F000|XX001): /, $_);
	unlike($error, qr/baseline_\w+\(/, 'without the context of private functions');
}

# --- wrong arguments ------------------------------------------------------------------------------

foreach ([ [ '--save', "$dir/nosuch/x.json", 'schema=shop' ], qr/--save: no file can be written there/ ], [ [ '--save', "$dir/x.json", 'peer=node_b' ], qr/argument 1 has an unknown name/ ],
	[ [ '--save', "$dir/x.json", 'schema=shop', 'tables={}' ], qr/at most one of tables, schema/ ], [ [ '--save', "$dir/x.json", 'schema=nosuch' ], qr/schema "nosuch" does not exist/ ],
	[ [ '--save', "$dir/x.json", 'schema=shop', 'capacity=-1' ], qr/capacity must be between/ ], [ [ '--against', "$dir/nosuch.json" ], qr/--against: there is no such file/ ],
	[ [ '--against', "$dir/shop.json", 'schema=shop' ], qr/argument 1 has an unknown name/ ], [ [ '--save', "$dir/x.json", '--against', "$dir/shop.json" ], qr/argument 1 is no option/ ],
	map { [ [ '--save', "$dir/x.json", @$_, 'schema=shop' ], qr/--save makes no report/ ] } [ '--html', "$dir/x.html" ], [ '--prometheus', "$dir/x.prom" ], ['--json'])
{
	my ($status, $out, $err) = program($_->[0]);
	is($status, 2, "@{ $_->[0] }") or note("$out$err");
	like($err, $_->[1], 'its message');
}
ok(!-e "$dir/x.json", 'and no file');
is(join(' ', glob("$dir/*.json.*")), '', 'nor a part of one');

done_testing();
