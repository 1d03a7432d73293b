# iblt_agg_bigint as Citus calls it: its functions are looked up for each row, on behalf of
# an aggregate of another name, and states travel as text.  fresh_calls.c does that.
use strict;
use warnings;

use File::Basename qw(dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = dirname(__FILE__) . '/fresh_calls.c';
my $config = $ENV{PG_CONFIG} // 'pg_config';
my $include = `$config --includedir-server`;
my $compiler = `$config --cc`;
chomp($include, $compiler);
my $library = PostgreSQL::Test::Utils::tempdir() . '/fresh_calls.so';
$compiler = 'cc' if system("command -v $compiler > /dev/null 2>&1") != 0;
plan(skip_all => 'no C compiler') if system("command -v $compiler > /dev/null 2>&1") != 0;
is(system("$compiler -shared -fPIC -O1 -Wall -Werror=implicit-function-declaration -I'$include' -o '$library' '$source'"), 0, 'fresh_calls.c compiles');
chmod 0755, dirname($library), $library;

my $node = PostgreSQL::Test::Cluster->new('fresh');
$node->init;
$node->start;
$node->safe_psql('postgres', "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live;
	CREATE FUNCTION fresh_text(internal) RETURNS text AS '$library' LANGUAGE C;
	CREATE FUNCTION fresh_final(internal) RETURNS text AS '$library' LANGUAGE C;
	CREATE FUNCTION fresh_combine(internal, oid, text) RETURNS internal AS '$library' LANGUAGE C;
	CREATE AGGREGATE combined(oid, text) (SFUNC = fresh_combine, STYPE = internal, FINALFUNC = fresh_final);
	CREATE TABLE k AS SELECT (i * 7919) \% 1000003 AS id, hashint8extended(i, 0) AS c, i \% 4 AS shard FROM generate_series(1, 30000) AS i");
$node->safe_psql('postgres', "CREATE FUNCTION fresh_trans(internal, oid, bigint, bigint, iblt) RETURNS internal AS '$library' LANGUAGE C;
	CREATE AGGREGATE fresh(oid, bigint, bigint, iblt) (SFUNC = fresh_trans, STYPE = internal, FINALFUNC = fresh_text)");
my $agg = "'iblt_agg_bigint(bigint, bigint, iblt)'::regprocedure";
my $fresh = "fresh($agg, id, c, iblt_new(60000, seed => 77))";
my $whole = '(SELECT iblt_agg(id, c, iblt_new(60000, seed => 77)) FROM k)';
is($node->safe_psql('postgres', "SELECT $fresh\::iblt::bytea = ${whole}::bytea FROM k"), 't', 'one group');
is($node->safe_psql('postgres', "SELECT combined($agg, s)::iblt::bytea = ${whole}::bytea FROM (SELECT $fresh AS s FROM k GROUP BY shard) AS w"), 't', 'groups that are combined');
is($node->safe_psql('postgres', "SELECT combined($agg, s)::iblt::bytea = ${whole}::bytea FROM (SELECT $fresh AS s FROM k UNION ALL SELECT $fresh FROM k WHERE false) AS w"),
	't', 'with a worker that has no rows');
is($node->safe_psql('postgres', "SELECT combined($agg, s) IS NULL FROM (SELECT $fresh AS s FROM k WHERE false) AS w"), 't', 'no rows at all');
my (undef, undef, $error) = $node->psql('postgres', "SELECT fresh($agg, id, c, iblt_new(5, seed => shard)) FROM k");
like($error, qr/iblt values cannot be combined: seeds differ/, 'templates that differ are found without memory of the last call');
($error) = ($node->psql('postgres', "SELECT fresh($agg, id, nullif(c, c), iblt_new()) FROM k"))[2];
like($error, qr/checksum of a row must not be null/, 'a NULL');

done_testing();
