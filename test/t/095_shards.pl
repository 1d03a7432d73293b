# Foreign tables and partitioned tables of foreign partitions on a side: the shards sum
# their rows up, lookups bring the rows of the keys alone, and nothing is confirmed that
# postgres_fdw reads as of one moment.
use IbltCompare;
use IbltProxy;

IbltTest::share_sessions(0);

# The shards have other settings than the server that asks them.
my $here = ready('here');
inside($here);
my $there = ready('there', "datestyle = 'SQL, DMY'", "timezone = 'America/Caracas'", "intervalstyle = 'postgres_verbose'",
	"bytea_output = 'escape'", "extra_float_digits = -5", "xmlbinary = 'hex'", "log_statement = all");
sides($here, $there);
my @shards = ('shard_0', 'shard_1');
$there->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE postgres") foreach @shards;
my $proxy = IbltProxy->new($there);
my ($host, $port) = $proxy->connstr =~ /host=(\S+) port=(\d+)/;
$here->safe_psql('postgres', 'CREATE EXTENSION postgres_fdw');

# --- two shards with the rows of one table ---------------------------------------------------

my $columns = 'id bigint NOT NULL, g int, name text, price numeric, f float8, at timestamptz, span interval, data bytea, doc jsonb,
	code uuid, day date, list int[], short varchar(10), padded char(5), yes bool, addr inet, during tstzrange';
my $rows = q{SELECT i, i % 7, CASE WHEN i % 5 > 0 THEN 'nämé ' || i END, i / 7.0, CASE i % 6 WHEN 0 THEN 'NaN' WHEN 1 THEN -0.0 WHEN 2 THEN 1e300 ELSE i / 3.0 END::float8,
	'2026-01-01 UTC'::timestamptz + i * interval '0.123457 s', i * interval '1 day 0.1 s', ('\x' || md5(i::text))::bytea, jsonb_build_object('k', i, 'l', i / 3.0),
	md5(i::text)::uuid, '2026-01-01'::date + i % 999, ARRAY[i, NULL, i % 3], 'v' || i % 100, 'p' || i % 10, i % 2 = 0, ('10.0.0.' || i % 250)::inet,
	tstzrange('2026-01-01 UTC'::timestamptz, '2026-01-01 UTC'::timestamptz + i * interval '1 h') FROM generate_series(1, 20000) AS i};

$there->safe_psql('postgres', "CREATE TABLE items ($columns, PRIMARY KEY (id)); INSERT INTO items $rows");
my $partitions = '';
foreach my $n (0, 1)
{
	$there->safe_psql($shards[$n], "CREATE TABLE items ($columns, PRIMARY KEY (id));
		INSERT INTO items SELECT * FROM ($rows) AS r(id) WHERE id % 2 = $n");
	$here->safe_psql('postgres', "CREATE SERVER shard_$n FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '$host', port '$port', dbname 'shard_$n', extensions 'iblt', async_capable 'true');
		CREATE USER MAPPING FOR PUBLIC SERVER shard_$n OPTIONS (password_required 'false', user " . literal($here->safe_psql('postgres', 'SELECT current_user')) . ");
		CREATE FOREIGN TABLE one_$n ($columns) SERVER shard_$n OPTIONS (table_name 'items')");
	$partitions .= "CREATE FOREIGN TABLE items_$n PARTITION OF items FOR VALUES IN ($n) SERVER shard_$n OPTIONS (table_name 'items');";
}
$here->safe_psql('postgres', "CREATE TABLE items ($columns) PARTITION BY LIST ((id % 2)); $partitions");

# What the shards were asked since the last call.
my $seen = 0;
sub asked
{
	my $log = slurp_file($there->logfile);
	my $new = substr($log, $seen);
	$seen = length $log;
	return join "\n", $new =~ /DECLARE c\d+ CURSOR FOR\n\t(.*)/g;
}

# The bytes that a comparison in a session of its own brought from the shards.
sub received { my ($shards) = @_; my $sum = 0; $sum += ($proxy->counted)[1] foreach 1 .. $shards; return $sum }

my $sum = qr/^SELECT iblt_internal\.iblt_agg\(.*iblt_checksum_seeded_immutable\(.*, id, g, name, .*FROM public\.items$/m;
my $by_id = "key_columns => '{id}'";

asked();
is(compare("'items'", $by_id), '', 'equal');
my $queries = asked();
is(scalar(() = $queries =~ /$sum/g), 2, 'each shard is asked for the sketch of its rows');
is(scalar(() = $queries =~ /^SELECT/mg), 2, 'and for nothing else');
cmp_ok(received(2), '<', 800_000, 'the rows did not travel');
is(compare("'items'", $by_id, node => $there, peer => conninfo($here)), '', 'equal, with the shards on the side of the peer');
is(scalar(() = asked() =~ /$sum/g), 2, 'as above');
received(2);

$there->safe_psql('shard_0', "UPDATE items SET f = 0.0 WHERE id = 8; DELETE FROM items WHERE id = 100");
$there->safe_psql('shard_1', "UPDATE items SET doc = '{\"k\": 1}' WHERE id = 77; UPDATE items SET name = '' WHERE id = 15;
	INSERT INTO items (id, name) VALUES (20001, 'more')");
my $different = join "\n", '{"id": 100} there 0 1', '{"id": 15} both 1 1', '{"id": 20001} here 1 0', '{"id": 77} both 1 1', '{"id": 8} both 1 1';
asked();
is(compare("'items'", $by_id), $different, 'differences in both shards');
$queries = asked();
like($queries, qr/^SELECT id, .* WHERE .*iblt_checksum_seeded_immutable\(.*, id\) = ANY \('\{[-,\d]+\}'::bigint\[\]\)/m, 'the lookup names the keys');
is(scalar(() = $queries =~ /^SELECT/mg), 4, 'in one question for each shard');
cmp_ok(received(2), '<', 800_000, 'and only their rows travelled');
is(compare("'items'", "$by_id, rows => true", node => $there, peer => conninfo($here)), $different =~ s/(there 0 1|here 1 0)/$1 eq 'here 1 0' ? 'there 0 1' : 'here 1 0'/ger,
	'the same from the other side');
received(2);
is(compare("'items'", "$by_id, condition => 'id % 2 = 0'"), join("\n", '{"id": 100} there 0 1', '{"id": 8} both 1 1'), 'a condition');
received(2);
is(compare("'items'", "key_columns => '{g,day}', columns => '{g,day,doc}'"), truth('items', 'g, day', columns => 'g, day, doc'), 'a key of two columns that is not unique');
is(lines(compare("'items'", "columns => '{name,f}'")), 4, 'by default the key is that of the other side');
is(compare("'one_0'", "peer_relation => 'items', $by_id, peer_condition => 'id % 2 = 0'"), join("\n", '{"id": 100} there 0 1', '{"id": 8} both 1 1'), 'a foreign table');
like(asked(), $sum, 'is summed up on its server');
received(1);
$here->safe_psql('postgres', 'CREATE VIEW through AS SELECT * FROM items WHERE g >= 0 OR g IS NULL');
is(compare("'through'", "peer_relation => 'items', $by_id"), $different, 'a view on them');
received(2);
is(compare("'one_0'", "peer_relation => 'one_1', columns => '{g}', key_columns => '{g}', condition => 'id < 0', peer_condition => 'id = 1'", peer => 'NULL'),
	'{"g": 1} there 0 1', 'two shards, without a peer');

# --- what is not sent ---------------------------------------------------------------------------

# labels can be renamed, and names depend on the server: their rows travel
both(q{CREATE TYPE mood AS ENUM ('sad', 'ok')});
$there->safe_psql('shard_1', q{CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE moods (id int PRIMARY KEY, m mood); INSERT INTO moods VALUES (1, 'sad'), (2, 'ok')});
$there->safe_psql('postgres', q{CREATE TABLE moods (id int PRIMARY KEY, m mood); INSERT INTO moods VALUES (1, 'sad'), (2, 'sad')});
$here->safe_psql('postgres', q{CREATE FOREIGN TABLE moods (id int, m mood) SERVER shard_1});
asked();
is(compare("'moods'", $by_id), '{"id": 2} both 1 1', 'a column of an enum type');
unlike(asked(), qr/iblt_agg/, 'is summed up here');

# a shard would sum up other values than those that are read here, and find them equal
$there->safe_psql('shard_1', q{CREATE TABLE bytes (id int PRIMARY KEY, b bytea, v varchar(9)); INSERT INTO bytes VALUES (1, decode('5c', 'hex'), 'x')});
$there->safe_psql('postgres', q{CREATE TABLE bytes (id int PRIMARY KEY, b text, v text); INSERT INTO bytes VALUES (1, chr(92), 'x')});
$here->safe_psql('postgres', q{CREATE FOREIGN TABLE bytes (id int, b text, v text) SERVER shard_1});
like(failure("SELECT * FROM iblt_compare('bytes', ${\ conninfo($there)}, $by_id)"), qr/42804: columns of this server do not have the types that the other server has declared/,
	'a column with another type than on the shard');
$here->safe_psql('postgres', q{ALTER SERVER shard_1 OPTIONS (DROP extensions)});
is(compare("'bytes'", $by_id), '{"id": 1} both 1 1', 'without the extension there, the values that are read here count');
$here->safe_psql('postgres', q{ALTER SERVER shard_1 OPTIONS (ADD extensions 'iblt')});
is(compare("'bytes'", "$by_id, columns => '{v}'"), '', 'varchar and text are alike');

# the parent's rights count, where the partitions cannot be named
$here->safe_psql('postgres', 'CREATE ROLE reader LOGIN SUPERUSER; ALTER ROLE reader NOSUPERUSER; GRANT SELECT ON items TO reader');
my $count = $here->safe_psql('postgres', "SELECT iblt_internal.shards('items')::text || (SELECT count(*) FROM items)", extra_params => [ '-U', 'reader' ]);
is($count, '{}20000', 'a role without rights to the partitions reads through the table');
is($here->safe_psql('postgres', "SELECT iblt_internal.shards('items')"), '{public.items_0,public.items_1}', 'a superuser names the partitions');

# --- rows in flight -----------------------------------------------------------------------------

like(failure("SELECT * FROM iblt_compare('items', ${\ conninfo($there)}, recheck => 1)"),
	qr/0A000: cannot recheck differences in foreign tables of this database/, 'no recheck, because the transaction would see the same rows again');
like(failure("SELECT * FROM iblt_compare('one_0', peer_relation => 'one_1', recheck => 1)"), qr/0A000: cannot recheck/, 'nor of two foreign tables');
$here->safe_psql('postgres', 'CREATE TABLE local_items AS SELECT * FROM items WHERE false');
like(failure("SELECT * FROM iblt_compare('local_items', peer_relation => 'through', $by_id, recheck => 1)"), qr/0A000: cannot recheck/, 'nor of a view as the other relation');
is(compare("'items'", "$by_id, recheck => 1", node => $there, peer => conninfo($here)) =~ tr/\n//, 4, 'on the peer each question is a transaction of its own');

# A partition that is attached after the sides were described is not left out.
my $slow = IbltProxy->new($there);
$slow->hold('received', qr/"protocol"/);
my $run = background($here, "SELECT concat_ws(' ', key, side) FROM iblt_compare('items', '${\ $slow->connstr}', $by_id, columns => '{id}') ORDER BY 1");
$slow->held;
$here->safe_psql('postgres', q{CREATE TABLE items_2 (LIKE items INCLUDING ALL); INSERT INTO items_2 (id) VALUES (-1);
	ALTER TABLE items ATTACH PARTITION items_2 FOR VALUES IN (-1)});
$slow->release;
like(finish($run), qr/^\{"id": -1\} here$/m, 'a partition that is attached while they are compared');

# a parent that is not partitioned has its own rows, and is read with its children
$here->safe_psql('postgres', "CREATE TABLE heirs ($columns); INSERT INTO heirs (id) VALUES (-1); CREATE FOREIGN TABLE heir () INHERITS (heirs) SERVER shard_0 OPTIONS (table_name 'items'); CREATE TABLE all_heirs AS TABLE heirs");
is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('heirs', NULL, 'all_heirs', $by_id); SELECT rows_here = rows_there FROM iblt_compare_stats()"), "0\nt", 'a table that a foreign table inherits from');

done_testing();
