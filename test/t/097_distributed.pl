# What takes the place of Citus, which cannot be in the tests: a catalog that calls tables
# distributed.  They are compared by the statements that Citus plans, with the same results.
use File::Basename qw(dirname);

use IbltCompare;

my ($here, $there) = two_servers();
both(q{CREATE TABLE items (id int PRIMARY KEY, name text, price numeric);
	INSERT INTO items SELECT i, 'n' || i, i / 3.0 FROM generate_series(1, 3000) AS i;
	CREATE TABLE pairs (a uuid, b int, v text, PRIMARY KEY (a, b));
	INSERT INTO pairs SELECT md5(i::text)::uuid, i, 'v' FROM generate_series(1, 500) AS i;
	CREATE TABLE loose (v text, n int); INSERT INTO loose SELECT 'v' || i % 50, i % 7 FROM generate_series(1, 500) AS i;
	CREATE TABLE nothing (id bigint PRIMARY KEY, v text)});
$there->safe_psql('postgres', q{UPDATE items SET name = NULL WHERE id IN (7, 2999); DELETE FROM items WHERE id = 12; INSERT INTO items VALUES (-5, 'more');
	DELETE FROM pairs WHERE b = 3; UPDATE pairs SET v = 'w' WHERE b = 4; DELETE FROM loose WHERE ctid = '(0,1)'; INSERT INTO loose VALUES ('v3', NULL)});

my @cases = (
	[ 'items', '' ],
	[ 'items', "condition => 'id < 100 -- few'" ],
	[ 'items', "recheck => 2" ],
	[ 'items', "rows => true, max_differences => 4" ],
	[ 'items', "key_columns => '{name}'" ],
	[ 'items', "condition => 'id < -100'" ],
	[ 'pairs', '' ],
	[ 'loose', '' ],
	[ 'nothing', '' ]);
my @plain = map { compare("'$$_[0]'", $$_[1]) } @cases;
is($plain[0], join("\n", '{"id": -5} there 0 1', '{"id": 12} here 1 0', '{"id": 2999} both 1 1', '{"id": 7} both 1 1'), 'plain tables');
my $flow = "SELECT string_agg(sql, ' ' ORDER BY key) FROM iblt_repair('items', ${\ conninfo($there)}, direction => '%s')";
my @repairs = map { $here->safe_psql('postgres', sprintf($flow, $_)) } ('pull', 'push');

# Citus's catalog, as far as iblt reads it
sub distribute
{
	my ($node, @tables) = @_;
	$node->safe_psql('postgres', "SET allow_system_table_mods = on; CREATE TABLE IF NOT EXISTS pg_catalog.pg_dist_partition (logicalrelid regclass);
		GRANT SELECT ON pg_catalog.pg_dist_partition TO PUBLIC; TRUNCATE pg_catalog.pg_dist_partition;
		INSERT INTO pg_catalog.pg_dist_partition SELECT unnest('{" . join(',', @tables) . "}'::text[])::regclass");
	return;
}

foreach my $sides ([$here], [$there], [ $here, $there ])
{
	distribute($_) foreach ($here, $there);
	distribute($_, qw(items pairs loose nothing)) foreach @$sides;
	my $names = join ' and ', map { $_->name } @$sides;
	my @now = map { compare("'$$_[0]'", $$_[1]) } @cases;
	is($now[$_], $plain[$_], "$cases[$_][0] ($cases[$_][1]), distributed: $names") foreach 0 .. $#cases;
}
is($here->safe_psql('postgres', sprintf($flow, 'pull')), $repairs[0], 'a repair shows the same statements');
is($here->safe_psql('postgres', sprintf($flow, 'push')), $repairs[1], 'in both directions');
foreach my $direction ('pull', 'push')
{
	like(failure("SELECT * FROM iblt_repair('items', ${\ conninfo($there)}, direction => '$direction', apply => true)"),
		qr/0A000: public\.items cannot be repaired with apply: it is a table of Citus/, "and does not apply them ($direction)");
}

# --- the statements -------------------------------------------------------------------------

# The statements on distributed tables that a comparison runs here, without those around them.
sub statements
{
	my ($table) = @_;
	my $before = -s $here->logfile;
	compare("'$table'", '', setup => "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on; SET log_min_messages = log;");
	return grep { /FROM public\.$table AS t/ && !/_distributed\(/ } substr(slurp_file($here->logfile), $before) =~ /Query Text: (.*?)\n\t[A-Z][^\n]*\(cost=/gs;
}

my ($sum, $lookup) = statements('items');
like($sum, qr/^SELECT iblt_internal\.iblt_agg_bigint\(t\.id, iblt_internal\.iblt_checksum_seeded\(.*\) FROM public\.items AS t$/, 'the sum is of declared types, and a statement of its own');
like($lookup, qr/ LEFT JOIN \(SELECT [^()]* FROM public\.items AS t WHERE \(t\.id = ANY \(\$1::integer\[\]\)\s+\) OFFSET 0\) AS t ON /, 'so is a lookup, by keys');
unlike("$sum $lookup", qr/ctid|xmin|tableoid|iblt_compare_fingerprint|iblt_session_keep/, 'they read no system columns, nothing of a worker, and keep nothing there');
($sum, $lookup) = statements('pairs');
like($sum, qr/^SELECT iblt_internal\.iblt_agg_bigint\(iblt_internal\.iblt_checksum_seeded\(/, 'a key that is not an integer goes by its hash');
like($lookup, qr/WHERE \(iblt_internal\.iblt_checksum_seeded\([^()]*, t\.a, t\.b\) = ANY \(\$1::int8\[\]\)\s+\) OFFSET 0\)/, 'also in lookups');

# Plain queries to a peer: Citus plans no fingerprint beside an aggregate of a distributed table.
{
	distribute($here);
	distribute($there, 'items');
	my $before = -s $there->logfile;
	my $logged = literal($there->connstr('postgres') . " options='-c log_min_duration_statement=0'");
	is(compare(q('items'), "method => 'plain'", peer => $logged), $plain[0], 'plain queries to a distributed table');
	like(substr(slurp_file($there->logfile), $before),
		qr/; SELECT concat\(CASE WHEN '[\d.]+' = extract\(epoch FROM pg_postmaster_start_time\(\)\)::text THEN \(SELECT [^;]*\) END, ' ', iblt_rows\) FROM \(SELECT coalesce\(array_agg\(iblt_row\), '\{\}'\) AS iblt_rows FROM \([^;]* OFFSET 0\) AS iblt_a$/m,
		'rows are put together in a subquery that is planned on its own');
}

# --- iblt_agg_bigint as Citus calls it ---------------------------------------------------------

# Its functions are looked up for each row, on behalf of an aggregate of another name, and states
# travel as text.  fresh_calls.c does that.
my $library = compiled(dirname(__FILE__) . '/fresh_calls.c', $here->basedir);
$here->safe_psql('postgres', "CREATE FUNCTION fresh_text(internal) RETURNS text AS '$library' LANGUAGE C;
	CREATE FUNCTION fresh_final(internal) RETURNS text AS '$library' LANGUAGE C;
	CREATE FUNCTION fresh_combine(internal, oid, text) RETURNS internal AS '$library' LANGUAGE C;
	CREATE AGGREGATE combined(oid, text) (SFUNC = fresh_combine, STYPE = internal, FINALFUNC = fresh_final);
	CREATE TABLE k AS SELECT (i * 7919) \% 1000003 AS id, hashint8extended(i, 0) AS c, i \% 4 AS shard FROM generate_series(1, 30000) AS i;
	CREATE FUNCTION fresh_trans(internal, oid, bigint, bigint, iblt) RETURNS internal AS '$library' LANGUAGE C;
	CREATE AGGREGATE fresh(oid, bigint, bigint, iblt) (SFUNC = fresh_trans, STYPE = internal, FINALFUNC = fresh_text)");
my $agg = "'iblt_agg_bigint(bigint, bigint, iblt)'::regprocedure";
my $fresh = "fresh($agg, id, c, iblt_new(60000, seed => 77))";
my $whole = '(SELECT iblt_agg(id, c, iblt_new(60000, seed => 77)) FROM k)';
is($here->safe_psql('postgres', "SELECT $fresh\::iblt::bytea = ${whole}::bytea FROM k"), 't', 'one group');
is($here->safe_psql('postgres', "SELECT combined($agg, s)::iblt::bytea = ${whole}::bytea FROM (SELECT $fresh AS s FROM k GROUP BY shard) AS w"), 't', 'groups that are combined');
is($here->safe_psql('postgres', "SELECT combined($agg, s)::iblt::bytea = ${whole}::bytea FROM (SELECT $fresh AS s FROM k UNION ALL SELECT $fresh FROM k WHERE false) AS w"),
	't', 'with a worker that has no rows');
is($here->safe_psql('postgres', "SELECT combined($agg, s) IS NULL FROM (SELECT $fresh AS s FROM k WHERE false) AS w"), 't', 'no rows at all');
my ($error) = ($here->psql('postgres', "SELECT fresh($agg, id, nullif(c, c), iblt_new()) FROM k"))[2];
like($error, qr/checksum or value of a row must not be null/, 'a NULL');

done_testing();
