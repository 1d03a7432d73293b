# The applications: doc/applications/*.md.  040_docs runs the pages.  This tests what they say
# in general, with random data and against answers that are found in another way:
# - network flows: what a sketch lists, batch by batch, against a plain table;
# - states: what a filter answers after each batch, against a plain table;
# - files: two random trees, whose differences are known because the test made them;
# - oblivious selection: what the server sees, read from its log of statements.
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use IPC::Run qw(run);
use IbltTest;

my $seed = random_seed();
my $examples = abs_path(dirname(__FILE__) . '/../../doc/examples');
my $node = server('applications');
foreach my $database (qw(flows states files oblivious))
{
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, 'CREATE EXTENSION ' . ($database eq 'states' ? 'kbf' : 'iblt'));
}

# --- network flows -----------------------------------------------------------------------

sub flows { my ($query) = @_; return $node->safe_psql('flows', $query) }

# 3,000 flows that start in batches 1 to 4 and end in the same one or a later one, up
# to batch 8.  Some lose their first packet, some their last.
sub traffic
{
	my ($number) = @_;
	my ($syn, $lost) = (1 + int(rand(4)), rand());
	my $fin = $syn + int(rand(9 - $syn));
	return sprintf("('(10.%d.%d.%d,%d,192.0.2.%d,443)', %d, %s, %s)", rand(256), rand(256), rand(256), 1024 + $number, rand(256), 1e9 + rand(1e9),
		$lost < 0.01 ? 'NULL' : $syn, $lost > 0.99 ? 'NULL' : $fin);
}

# What a plain table says is open after a batch: flow, start, and 1, or -1 without a beginning.
sub open_flows
{
	my ($batch) = @_;
	return "SELECT * FROM (SELECT f, started, (syn <= $batch IS TRUE)::int - (fin <= $batch IS TRUE)::int AS c FROM traffic) AS t WHERE c <> 0";
}

flows("CREATE TYPE flow AS (src inet, sport int, dst inet, dport int);
	CREATE TABLE sketch (empty iblt, flows iblt);
	INSERT INTO sketch SELECT t, t FROM iblt_new(300, key_size => 32, with_values => true, seed => $seed) t;
	CREATE TABLE traffic (f flow, started bigint, syn int, fin int);
	INSERT INTO traffic VALUES " . join(', ', map { traffic($_) } 1 .. 3000));
my $size = flows('SELECT bytes FROM sketch, traffic, iblt_info(iblt_insert(empty, f, started)) LIMIT 1');
my %seen;
foreach my $batch (1 .. 8)
{
	# the ends first
	flows("UPDATE sketch s SET flows = s.flows - (SELECT iblt_agg(f, started, s.empty) FROM traffic WHERE fin = $batch)
		+ (SELECT iblt_agg(f, started, s.empty) FROM traffic WHERE syn = $batch)");
	my ($keys, $rows) = split /\|/, flows('SELECT count(*), sum(c) FROM (' . open_flows($batch) . ') AS o');
	my ($complete, $counted, $bytes) = split /\|/, flows('SELECT complete, rows, bytes FROM sketch, iblt_decode_status(flows), iblt_info(flows)');
	is($counted, $rows, "after batch $batch, with $keys open flows, the number of rows is exact");
	is($bytes, $size, 'and the size is that of one flow');
	is($complete, $keys < 300 ? 't' : 'f', 'it lists them, or says that it cannot') if $keys < 300 || $keys > 600;
	$seen{$complete} = 1;
	if ($complete eq 't')
	{
		my $listed = 'SELECT key::flow, value::bigint, count::int FROM sketch, iblt_decode(flows)';
		my $truth = open_flows($batch);
		is(flows("SELECT count(*) FROM (($listed EXCEPT ALL $truth) UNION ALL ($truth EXCEPT ALL $listed)) AS d"), 0, 'the list is that of the plain table');
	}
	else
	{
		like(failure("\\c flows\n\\set VERBOSITY verbose\nSELECT key FROM sketch, iblt_decode(flows)", node => $node), qr/IB001/, 'the list is an error');
		is(flows("SELECT count(*) FROM sketch, traffic, iblt_get(flows, f) g WHERE g.status = 'absent'
			AND (f, started) IN (SELECT f, started FROM (" . open_flows($batch) . ') AS o)'), 0, 'no open flow is "absent"');
	}
}
is(join(' ', sort keys %seen), 'f t', 'there was a spike, and it was over');
is(flows("SELECT count(DISTINCT side) FROM sketch, iblt_decode(flows)"), 2, 'flows without an end and flows without a beginning are left');
flows("CREATE TABLE stale AS SELECT key::flow AS f, side, value::bigint FROM sketch, iblt_decode(flows);
	UPDATE sketch s SET flows = s.flows - (SELECT iblt_agg(f, value, s.empty) FROM stale WHERE side = 'left') + (SELECT iblt_agg(f, value, s.empty) FROM stale WHERE side = 'right')");
is(flows('SELECT count(*) FROM sketch, iblt_decode(flows)'), 0, 'they can be taken out');

# What the page says about events that are not as they should be.
my $f = q{ROW('10.0.0.1', 1, '10.0.0.2', 2)::flow};
foreach my $case ([ 'a first packet that counts twice', "iblt_insert(iblt_insert(empty, $f, 5), $f, 5)", 'left|2|5' ],
	[ 'a flow that comes again after a lost end', "iblt_insert(iblt_insert(empty, $f, 5), $f, 9)", 'left|2|' ],
	[ 'an end with another start', "iblt_delete(iblt_insert(empty, $f, 5), $f, 6)", 'both|0|' ])
{
	my ($text, $sketch, $expected) = @$case;
	is(flows("SELECT side, count, value FROM sketch, iblt_decode($sketch)"), $expected, $text);
}
my %long = (32 => q{('255.255.255.255', 65535, '255.255.255.255', 65535)}, 56 => q{('2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', 65535, '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', 65535)});
foreach my $size (sort keys %long)
{
	is(flows("SELECT key_size FROM iblt_info(iblt_insert(iblt_new(key_size => $size), ROW$long{$size}::flow, 1))"), $size, "a key_size of $size is enough");
}

# The page's statement, when two sessions run it: no event is lost or counted twice.
my $add = q{WITH e AS (DELETE FROM events RETURNING *)
	UPDATE sketch s SET flows = s.flows + (SELECT iblt_agg(f, started, s.empty) FROM e WHERE kind = 'syn')
	- (SELECT iblt_agg(f, started, s.empty) FROM e WHERE kind = 'fin')};
flows("UPDATE sketch SET flows = empty; CREATE TABLE events (kind text, f flow, started bigint)");
my ($one, $two) = map { IbltTest::Session->new($node) } 1 .. 2;
$_->run("\\c flows\nSELECT 1") foreach $one, $two;
$one->run("BEGIN; INSERT INTO events SELECT 'syn', f, started FROM traffic WHERE (f).sport <= 1034; $add");
$two->run("INSERT INTO events SELECT 'fin', f, started FROM traffic WHERE (f).sport <= 1033");
$two->start($add);
wait_for($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'});
$one->run('COMMIT');
$two->done;
is($two->{err}, '', 'the second one waits for the first, and then goes on');
is(flows('SELECT (key::flow).sport, side, (SELECT count(*) FROM events) FROM sketch, iblt_decode(flows)'), '1034|left|0', 'and both are added once');
$_->quit foreach $one, $two;

# --- states of flows -----------------------------------------------------------------------

# The statement of the page, with packets at random.  Some 900 flows of 1,200 are there in
# a filter for 900, of which 0.5 % are in doubt.  A flow that is not there may seem to be,
# once in 20,000 times.  That ends the comparison, because the page says what it does.
# Three of 300 at a time would be so once in 1,800,000 times.
my ($add_batch) = slurp_file(abs_path(dirname(__FILE__) . '/../../doc/applications/states.md')) =~ /PREPARE add_batch AS\n(.*?;)\n/s;
ok($add_batch, 'the page has the statement that adds a batch');

sub states { my ($query) = @_; return $node->safe_psql('states', $query) }

sub add_packets
{
	my ($packets) = @_;
	states("INSERT INTO packets (f, flag) VALUES " . join(', ', map { "($_->[0], '$_->[1]')" } @$packets));
	states("BEGIN; SELECT FROM sensor FOR UPDATE; $add_batch COMMIT");
}

states("CREATE TYPE state AS ENUM ('opening', 'open', 'closing', 'reset');
	CREATE TABLE packets (n bigint GENERATED ALWAYS AS IDENTITY, f int, flag text);
	CREATE TABLE moves (flag text PRIMARY KEY, next state);
	INSERT INTO moves VALUES ('SYN', 'opening'), ('ACK', 'open'), ('FIN', 'closing'), ('RST', 'reset'), ('last', NULL);
	CREATE TABLE doubts (f int PRIMARY KEY, next state);
	CREATE TABLE sensor (name text PRIMARY KEY, states kbf);
	INSERT INTO sensor VALUES ('eth0', kbf_new(900, enum_range(NULL::state)::text[], failure => 0.005, seed => $seed))");
my (%flag, $doubts);
my $batches = 0;
foreach my $batch (1 .. 12)
{
	my @packets;
	my $absent = join(', ', grep { ($flag{$_} // 'last') eq 'last' } 1 .. 1200);
	my $seem = states("SELECT count(*) FROM sensor, unnest(ARRAY[$absent]) AS f, kbf_lookup(states, f) AS k WHERE k.status = 'present' AND f NOT IN (SELECT f FROM doubts)");
	if ($seem > 0) { cmp_ok($seem, '<', 3, "$seem flows seem to be there before batch $batch"); last; }
	my $share = $batch > 8 ? 0.3 : 0.75;
	foreach my $f (map { 1 + int(rand(1200)) } 1 .. 2000)
	{
		$flag{$f} = rand() < $share ? (qw(SYN ACK FIN RST))[ rand(4) ] : 'last';
		push @packets, [ $f, $flag{$f} ];
	}
	add_packets(\@packets);
	$batches++;
	my $truth = join(', ', map { "($_, '$flag{$_}')" } sort { $a <=> $b } keys %flag);
	# of each flow: what the tables of the page say, and what is true
	my ($wrong, $unknown, $there) = split /\|/, states("
		SELECT count(*) FILTER (WHERE said IS DISTINCT FROM next::text AND status <> 'unknown' AND (status <> 'present' OR next IS NOT NULL)), count(*) FILTER (WHERE status = 'unknown'), count(next)
		FROM (SELECT m.next, CASE WHEN d.f IS NULL THEN k.status ELSE 'doubt' END AS status, CASE WHEN d.f IS NULL THEN k.label ELSE d.next::text END AS said
			FROM (VALUES $truth) AS v(f, flag) JOIN moves AS m USING (flag) LEFT JOIN doubts AS d USING (f), sensor, kbf_lookup(states, v.f) AS k) AS x");
	is($wrong, 0, "after batch $batch, with $there flows, no state is wrong");
	$doubts += states('SELECT count(*) FROM doubts');
}
isnt($doubts, 0, 'flows were in doubt') if $batches > 4;
ok($batches > 0, "$batches batches were compared");

# --- files ---------------------------------------------------------------------------------

my $work = $node->basedir;
sub hex_of { my ($bytes) = @_; return unpack 'H*', $bytes }

# A name of random bytes: spaces, quotes, newlines, and what is not UTF-8.
sub name
{
	my $name;
	do { $name = join '', map { my $byte; do { $byte = int(rand(256)) } while $byte == 0 || $byte == 47; chr $byte } 1 .. 1 + int(rand(20)) } while $name =~ /^\.\.?$/;
	return $name;
}

sub write_file
{
	my ($path, $contents) = @_;
	make_path(dirname($path));
	open my $file, '>:raw', $path or die "$path: $!";
	print $file $contents;
	close $file or die "$path: $!";
	return;
}

# The script's lines, its exit status and its errors.
sub hashes
{
	my ($directory) = @_;
	my ($out, $err);
	run [ "$examples/tree_hashes.sh", $directory ], '<', \undef, '>', \$out, '2>', \$err;
	return ($out, $? >> 8, $err);
}

sub load
{
	my ($table, $directory) = @_;
	my ($lines, $status, $err) = hashes($directory);
	is("$status$err", 0, "$table: the whole tree is read");
	write_file("$work/$table.copy", $lines);
	$node->safe_psql('files', "TRUNCATE $table; COPY $table (path, contents) FROM '$work/$table.copy'");
	return;
}

# Files by path on both sides; what differs, from what the test knows.
my (%left, %right, @known);
$left{ join '/', map { name() } 0 .. int(rand(3)) } = $_ foreach 1 .. 200;
delete @left{ grep { my $path = $_; grep { m{^\Q$path\E/} } keys %left } keys %left };	# a file and not a directory
%right = %left;
foreach my $path (sort keys %left)
{
	my $what = rand(20);
	delete $right{$path} if $what < 1;
	$right{$path} .= 'x' if $what >= 1 && $what < 2;
	if ($what >= 2 && $what < 3) { delete $left{$path}; }
	push @known, hex_of($path) . ($what < 1 ? '|left' : $what < 2 ? '|both' : '|right') if $what < 3;
}
foreach my $side ([ 'a', \%left ], [ 'b', \%right ])
{
	mkdir "$work/$$side[0]";
	write_file("$work/$$side[0]/$_", $$side[1]{$_}) foreach keys %{ $$side[1] };
	$node->safe_psql('files', "CREATE TABLE $$side[0] (id uuid GENERATED ALWAYS AS (encode(substring(sha256(path) FOR 16), 'hex')::uuid) STORED PRIMARY KEY, path bytea NOT NULL, contents bytea NOT NULL)");
}
foreach my $link ([ 'a', "link\n1", 'x' ], [ 'b', "link\n1", "x\n" ], [ 'a', 'link 2', "\xff" ], [ 'b', 'link 2', "\xff" ], [ 'a', 'link 3', 'nowhere' ])
{
	my ($side, $name, $target) = @$link;
	symlink($target, "$work/$side/$name") or die "symlink: $!";
}
push @known, hex_of("link\n1") . '|both', hex_of('link 3') . '|left';
load($_, "$work/$_") foreach qw(a b);

my $by_path = q{SELECT encode(key, 'hex'), side FROM iblt_decode((SELECT iblt_agg(path, iblt_checksum(contents), iblt_new(200, key_size => 96)) FROM a)
	- (SELECT iblt_agg(path, iblt_checksum(contents), iblt_new(200, key_size => 96)) FROM b), NULL::bytea) ORDER BY 1};
my $by_hash = q{SELECT encode(coalesce(a.path, b.path), 'hex'), side FROM iblt_decode((SELECT iblt_agg(id, iblt_checksum(contents), 200) FROM a)
	- (SELECT iblt_agg(id, iblt_checksum(contents), 200) FROM b), NULL::uuid) LEFT JOIN a ON a.id = key LEFT JOIN b ON b.id = key ORDER BY 1};
my $known = join "\n", sort { (split /\|/, $a)[0] cmp (split /\|/, $b)[0] } @known;	# by path, as ORDER BY 1
is($node->safe_psql('files', 'SELECT count(*) FROM a'), keys(%left) + 3, 'a row for each file and link');
is($node->safe_psql('files', $by_path), $known, scalar(@known) . ' differences, with paths as keys');
is($node->safe_psql('files', $by_hash), $known, 'with hashes as keys');

# The longest path that can be opened: "./" and 4,093 bytes.
sub deep
{
	my ($length) = @_;
	my $path = 'd' x ($length % 200);
	$path .= '/' . 'd' x 199 while length($path) < $length;
	remove_tree("$work/deep");
	mkdir "$work/deep";
	my ($out, $err);
	my $ok = run [ 'sh', '-c', "cd '$work/deep' && mkdir -p \"\${1%/*}\" && cd \"\${1%/*}\" && printf x >\"\${1##*/}\"", 'sh', $path ], ">", \$out, "2>", \$err;
	die "no deep path: $err" if !$ok;
	return length($path);
}
is(deep(4093), 4093, 'a path of 4,093 bytes');
load('a', "$work/deep");
is($node->safe_psql('files', 'SELECT key_size FROM iblt_info((SELECT iblt_agg(path, 0, iblt_new(key_size => 4096)) FROM a))'), 4096, 'fits into a key of 4,096 bytes');
deep(4094);
my (undef, $status, $err) = hashes("$work/deep");
is($status, 123, 'a longer one is not read');
like($err, qr/File name too long/, 'and the error says why');

my ($lines, $rc) = hashes("$work/deep/none");
is("$lines$rc", 1, 'a directory that does not exist');
mkdir "$work/empty";
is(join(' ', hashes("$work/empty")), ' 0 ', 'an empty directory has no lines');
foreach my $unreadable ('file', 'directory/file')
{
	write_file("$work/empty/$unreadable", 'x');
	chmod 0, "$work/empty/" . ($unreadable =~ s{/.*}{}r);
	(undef, $rc, $err) = hashes("$work/empty");
	cmp_ok($rc, '>', 0, "what cannot be read fails: $unreadable");
	like($err, qr/Permission denied/, 'and the error says why');
	chmod 0700, "$work/empty/" . ($unreadable =~ s{/.*}{}r);
	remove_tree("$work/empty", { keep_root => 1 });
}

# --- oblivious selection -------------------------------------------------------------------

local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
local $ENV{PGDATABASE} = 'oblivious';
local $ENV{PGAPPNAME} = 'client';

# Output, exit status and errors of the program.
sub client
{
	my ($input, @arguments) = @_;
	my ($out, $err) = ('', '');
	run [ '/usr/bin/python3', "$examples/oblivious_selection.py", @arguments ], '<', \$input, '>', \$out, '2>', \$err;
	die $err if $err =~ /Traceback/;
	return wantarray ? ($out, $? >> 8, $err) : $out;
}

sub store
{
	my (%texts) = @_;
	$node->safe_psql('oblivious', 'DROP TABLE IF EXISTS items');
	my ($out, $status, $err) = client(join('', map { "$_\t$texts{$_}\n" } sort { $a <=> $b } keys %texts), 'store', 'items');
	is("$status$err", '0', 'items are stored');
	return;
}

# What the server sees of a selection: its statements, with the length of each
# ciphertext in place of its bytes.  %ciphertexts has how often each one was seen.
# %written has the last one of each cell.
my (%ciphertexts, %written);
sub view
{
	my (@arguments) = @_;
	my $from = -s $node->logfile;
	my ($out, $status, $err) = client('', 'select', 'items', @arguments);
	my $log = substr slurp_file($node->logfile), $from;
	my @statements = $log =~ /LOG:  statement: (.*)/g;
	foreach (@statements)
	{
		$written{ $2 // $3 } = $1 // $4 if /^UPDATE cells SET cell = '\\x(\w+)'::bytea WHERE number = (\d+)|^INSERT INTO cells VALUES \((\d+), '\\x(\w+)'/;
		s/'\\x([0-9a-f]+)'::bytea/$ciphertexts{$1}++; '<' . length($1) . '>'/ge;
	}
	return (join("\n", @statements), $out, "$status$err");
}

chomp($ENV{SECRET} = client('', 'secret'));
# the log is to have the client's statements alone
IbltTest::share_sessions(0);
$node->safe_psql('oblivious', q{ALTER DATABASE oblivious SET log_statement = 'all'});
my @keys = map { $_ * 1000003 + int(rand(1000000)) } 1 .. 40;
my %texts = map { $keys[$_] => $_ % 9 == 4 ? "red $_" : "blue $_" } 0 .. 39;
store(%texts);
my $red = join '', map { "$_\t$texts{$_}\n" } grep { $texts{$_} =~ /red/ } @keys;

my ($first, $answer, $end) = view(8, 'red');
is("$answer$end", "${red}0", 'the items that match');
my $hashes = $node->safe_psql('oblivious', 'SELECT hashes FROM iblt_info(iblt_new(8))');
my $cells = $node->safe_psql('oblivious', 'SELECT cells FROM iblt_info(iblt_new(8))');
is(scalar(() = $first =~ /^SELECT item /mg), 41, 'each item is read, and their number');
is(scalar(() = $first =~ /^SELECT cell /mg), 40 * $hashes + $cells, 'the cells of each item are read, and all of them at the end');
is(scalar(() = $first =~ /^UPDATE cells SET cell = <\d+> WHERE number = \d+$/mg), 40 * $hashes, 'the cells of each item are written');
is(scalar(() = $first =~ /^INSERT INTO cells /mg), $cells, 'all cells are made');

foreach my $case ([ 'one item', 'red 4$', "$keys[4]\tred 4\n0" ], [ 'no item', 'green', '0' ],
	[ 'as many as the capacity', ' [1-8]$', join('', map { "$keys[$_]\t$texts{$keys[$_]}\n" } 1 .. 8) . '0' ],
	[ 'one more than the capacity', ' [0-8]$', "1oblivious_selection.py: 9 items match, more than the capacity 8\n" ],
	[ 'all items', '', "1oblivious_selection.py: 40 items match, more than the capacity 8\n" ])
{
	my ($text, $pattern, $expected) = @$case;
	my ($view, $found, $how) = view(8, $pattern);
	is("$found$how", $expected, "$text: the answer");
	ok($view eq $first, "$text: the server sees the same");
}

# other texts under the same keys, all of which match, and of other lengths
store(map { $_ => 'red' x (1 + rand(39)) } @keys);
my ($view) = view(8, 'red');
ok($view eq $first, 'other items with the same keys: the server sees the same');
store(map { $_ + 1 => 'red' } @keys);
($view) = view(8, 'red');
ok($view ne $first, 'other keys: it does not');
is(join(' ', grep { $_ > 1 } values %ciphertexts), '', keys(%ciphertexts) . ' ciphertexts, and no two are the same');
cmp_ok(scalar(keys %ciphertexts), '>=', 8 * 40 * $hashes, 'so many were written');

# What a server may do that is not honest.
store(%texts);
$node->safe_psql('oblivious', 'CREATE TABLE honest AS TABLE items');
my $refused = '1oblivious_selection.py: ';
foreach my $case ([ 'a changed item', q{UPDATE items SET item = set_byte(item, 20, get_byte(item, 20) # 1) WHERE position = 3}, 'the server changed item 3 of items' ],
	[ 'two exchanged items', q{UPDATE items a SET item = b.item FROM items b WHERE (a.position, b.position) IN ((1, 2), (2, 1))}, 'the server changed item 1 of items' ],
	[ 'a hidden item', q{DELETE FROM items WHERE position = 40}, 'the server lacks item 40 of items' ],
	[ 'hidden items', q{DELETE FROM items}, 'the server lacks item 0 of items' ],
	[ 'a short item', q{UPDATE items SET item = '\x00' WHERE position = 0}, 'the server changed item 0 of items' ])
{
	my ($text, $attack, $message) = @$case;
	$node->safe_psql('oblivious', "TRUNCATE items; INSERT INTO items TABLE honest; $attack");
	is(join('', (view(8, 'red'))[ 1, 2 ]), "$refused$message\n", $text);
}

# Writes that are left out: all, or those to the last subtable.  And the cells of an
# earlier selection, which found as many items.
$node->safe_psql('oblivious', q{TRUNCATE items;
	INSERT INTO items TABLE honest;
	CREATE TABLE saved (number int PRIMARY KEY, cell bytea);
	CREATE TABLE attack (condition text, function text);
	CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
	CREATE FUNCTION replay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN SELECT cell INTO NEW.cell FROM saved WHERE number = NEW.number; RETURN NEW; END $$;
	CREATE FUNCTION spoil() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		IF to_regclass('pg_temp.cells') IS NOT NULL THEN
			EXECUTE (SELECT format('CREATE TRIGGER t BEFORE UPDATE ON pg_temp.cells FOR EACH ROW WHEN (%s) EXECUTE FUNCTION %s()', condition, function) FROM attack);
		END IF;
	END $$;
	CREATE EVENT TRIGGER spoil ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION spoil();
	ALTER EVENT TRIGGER spoil DISABLE});
view(8, 'red 4$');
$node->safe_psql('oblivious', "INSERT INTO saved VALUES ($_, '\\x$written{$_}')") foreach sort keys %written;
is(scalar(keys %written), $cells, 'the cells of a selection are kept');
$node->safe_psql('oblivious', 'ALTER EVENT TRIGGER spoil ENABLE');
my $last = $cells - $cells / $hashes;
foreach my $case ([ 'red', 'true', 'forget', 'cannot list all of the 4 items that match' ], [ 'red', "old.number >= $last", 'forget', 'cannot list all of the 4 items that match' ],
	[ 'blue 5$', 'true', 'replay', 'the server changed cell \d+ of selection \w+' ])
{
	my ($pattern, $condition, $function, $message) = @$case;
	$node->safe_psql('oblivious', "TRUNCATE attack; INSERT INTO attack VALUES ('$condition', '$function')");
	like(join('', (view(8, $pattern))[ 1, 2 ]), qr/^$refused$message\n\z/, "writes that are not done: $function where $condition");
}
$node->safe_psql('oblivious', 'DROP EVENT TRIGGER spoil');

# Input that is refused, with one line.
foreach my $case ([ "1\tx\n1\ty\n", 'a key occurs twice' ], [ "x\ty\n", 'a line needs a number, a tab and a text of at most 119 bytes' ],
	[ "1\t" . 'x' x 120, 'a line needs a number, a tab and a text of at most 119 bytes' ])
{
	is(join('', client($$case[0], 'store', 'other')), "$refused$$case[1]\n", $$case[1]);
}
like(join('', client('', 'select', 'items', 0, 'x')), qr/^1oblivious_selection.py: .*capacity/, 'a capacity that the extension refuses');
is(join('', client('', 'select', 'items')), "${refused}usage: secret | store TABLE | select TABLE CAPACITY PATTERN\n", 'too few arguments');
$ENV{SECRET} = '';
is(join('', client('', 'select', 'items', 8, 'x')), "${refused}the variable SECRET must hold what \"secret\" printed\n", 'no secret');
chomp($ENV{SECRET} = client('', 'secret'));
is(join('', client('', 'select', 'items', 8, 'x')), "${refused}the server changed item 0 of items\n", 'another secret');

done_testing();
