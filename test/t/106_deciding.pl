# The statements that decide what a comparison or a repair says, each with what could make
# it decide wrongly: an index that lacks an entry, a row that partitions or constraints would
# rule out, and a writer in between.  doc/walk.md has the list of these statements.
use strict;
use warnings;

use IbltTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = server('deciding', 'max_parallel_workers_per_gather = 2', 'min_parallel_table_scan_size = 0', 'parallel_setup_cost = 0');
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(here there);
our $peer = literal($node->connstr('there'));

sub sql
{
	my ($sides, $sql) = @_;
	return join "\n", map { $node->safe_psql($_, $sql) } ($sides eq 'both' ? qw(here there) : $sides);
}

# The rows that a statement gives here, on one line, or its error.  {notices} has what it said.
my $notices;
sub answer
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('here', "\\set VERBOSITY verbose\n$sql");
	$notices = join "\n", $err =~ /(?:NOTICE|WARNING): +(?:\w{5}: )?(.*)/g;
	return $err =~ /(ERROR: .*)/ ? $1 : join ', ', map { s/\|/ /gr } split /\n/, $out;
}

sub compare
{
	my ($relation, $options, $key) = @_;
	return answer("SELECT key ->> '${\ ($key // 'id')}', side FROM iblt_compare('$relation', $peer, $options) AS c ORDER BY 1");
}

# Runs a statement while an index is not kept up.
sub hide
{
	my ($sides, $index, $sql) = @_;
	my ($lose, $back) = map { "SET allow_system_table_mods = on; UPDATE pg_index SET indisready = $_ WHERE indexrelid = '$index'::regclass" } qw(false true);
	sql($sides, $_) foreach ($lose, $sql, $back);
	return;
}

sql('both', 'CREATE EXTENSION dblink; CREATE EXTENSION iblt');

# --- a damaged index ---------------------------------------------------------------------
#
# A condition on n could be read by an index that lacks the entry of a row on one side.

foreach my $t ([ 'num', 'int' ], [ 'txt', 'text' ])
{
	my ($name, $type) = @$t;
	sql('both', "CREATE TABLE $name (id $type PRIMARY KEY, n int, v text); CREATE INDEX ${name}_n ON $name (n);
		INSERT INTO $name SELECT g, g, 'row ' || g FROM generate_series(1, 40000) g; ANALYZE $name");
	hide('here', "${name}_n", "INSERT INTO $name VALUES ('40001', 40001, 'only here')");
}
sql('both', 'CREATE VIEW vw AS SELECT id, n, v FROM num WHERE n > 39990;
	CREATE TABLE small (id text PRIMARY KEY, n int); CREATE INDEX small_n ON small (n);
	INSERT INTO small SELECT g, g FROM generate_series(1, 5000) g; ANALYZE small');
hide('here', 'small_n', q{INSERT INTO small VALUES ('5001', 5001)});

my $n = q{condition => 'n > 39990'};
is(compare('txt', $n), '40001 here', 'scan and lookup by hash, damaged index: a row that an index on the condition lacks');
like(compare('num', $n), qr/^ERROR:  XX002: an index of public.num does not find rows that the table has \(here\)|^40001 here$/,
	'scan, damaged index: the same, or an error of a lookup that uses that index, too');
is(compare('vw', "key_columns => '{id}'"), '40001 here', 'scan of a view, damaged index: the same');
is(compare('num', "$n, method => 'plain'"), '40001 here', 'plain sums and rows here, damaged index: the same');
is(answer("SET enable_seqscan = off; SELECT key ->> 'id', side FROM iblt_compare('txt', $peer, $n)"), '40001 here', 'scan, damaged index: also if sequential scans are off');
SKIP:
{
	skip 'row filters need PostgreSQL 15', 3 if major_version() < 15;
	sql('there', 'CREATE PUBLICATION filtered FOR TABLE txt WHERE (n > 39990), small WHERE (n > 4990)');
	foreach my $method (qw(sketch plain))
	{
		is(answer("SELECT relation, status, rows_here, rows_there FROM iblt_audit($peer, publication => 'filtered', method => '$method', recheck => 0, trust_filters => true)"),
			'public.small differs 11 10, public.txt differs 11 10', "scan and scan of small tables, damaged index: an audit over row filters ($method)");
	}
}

# The same with the index on the peer: it has the row, and this side does not.
sql('both', 'CREATE TABLE far (LIKE txt INCLUDING ALL); INSERT INTO far SELECT * FROM txt WHERE n <= 40000; ANALYZE far');
hide('there', 'far_n_idx', "INSERT INTO far VALUES ('40001', 40001, 'only there')");
is(compare('far', $n), '40001 there', 'scan on the peer, damaged index');
is(compare('far', "$n, method => 'plain'"), '40001 there', 'plain sums and rows on the peer, damaged index');

# An index that lookups use is checked by a scan, which must not use it either.
sql('both', 'CREATE TABLE pk (id int PRIMARY KEY, n int); INSERT INTO pk SELECT g, g FROM generate_series(1, 40000) g; ANALYZE pk');
hide('here', 'pk_pkey', 'INSERT INTO pk VALUES (40001, 1)');
like(compare('pk', q{condition => 'id > 39990'}), qr/^ERROR:  XX002: an index of public.pk does not find rows that the table has \(here\)/,
	'check of an index, damaged index: the scan finds what the index lacks');
is(compare('pk', q{condition => 'id > 39990', method => 'plain'}), '40001 here', 'plain sums and rows, damaged index of the key');

# A table whose columns are all in an index, which sequential scans compete with.
sql('here', 'CREATE TABLE keys_only (id int PRIMARY KEY); INSERT INTO keys_only SELECT generate_series(1, 5000)');
hide('here', 'keys_only_pkey', 'INSERT INTO keys_only VALUES (5001)');
sql('here', 'VACUUM ANALYZE keys_only');
is(answer(q{SET enable_seqscan = off; CALL iblt_track('keys_only'); SELECT (iblt_info(iblt_live('keys_only'))).rows; SELECT iblt_live_verify('keys_only')}), '5001, t',
	'scan for a digest, damaged index: the digest has a row that an index-only scan would miss');

# --- outside of a condition ---------------------------------------------------------------

sub repair
{
	my ($relation, $options) = @_;
	return answer("SELECT action, key ->> 'id', status, detail FROM iblt_repair('$relation', $peer, direction => 'pull', $options)");
}

# The same row on both sides, which an index of the peer lacks.
sql('both', 'CREATE TABLE same (id int PRIMARY KEY, n int); INSERT INTO same SELECT g, g FROM generate_series(1, 40000) g; ANALYZE same');
sql('here', 'INSERT INTO same VALUES (40001, 40001)');
hide('there', 'same_pkey', 'INSERT INTO same VALUES (40001, 40001)');
is(repair('same', q{condition => 'id > 39990', apply => true}), '', 'scan for a repair, damaged index: nothing to do where both sides are the same');
is(sql('here', 'SELECT count(*) FROM same'), 40001, 'and nothing was deleted');

# The condition is true of the row here only, and an index of the peer lacks it.
sql('both', 'CREATE TABLE outside (id int PRIMARY KEY, n int); INSERT INTO outside SELECT g, g FROM generate_series(1, 40000) g; ANALYZE outside');
sql('here', 'INSERT INTO outside VALUES (40001, 40001)');
hide('there', 'outside_pkey', 'INSERT INTO outside VALUES (40001, 1)');
like(repair('outside', "$n, apply => true"), qr/^ERROR:  XX002: an index of public.outside does not find rows that the table has \(there\)/,
	'outside of a condition, damaged index: a row of the peer keeps the one here');
is(sql('here', 'SELECT count(*) FROM outside'), 40001, 'and nothing was deleted');

# --- partitions and constraints --------------------------------------------------------------
#
# What rules tables out trusts that their rows are as their constraints say.

my $valid = "SET allow_system_table_mods = on; UPDATE pg_constraint SET convalidated = true WHERE conname = 'bound'";
sql('both', "CREATE TABLE part (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY RANGE (k);
	CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100);
	CREATE TABLE part_2 (id int NOT NULL, k int NOT NULL, v text, PRIMARY KEY (id, k));
	INSERT INTO part_2 VALUES (7, 7, current_database()), (8, 108, 'same');
	ALTER TABLE part_2 ADD CONSTRAINT bound CHECK (k IS NOT NULL AND k >= 100 AND k < 200) NOT VALID; $valid;
	ALTER TABLE part ATTACH PARTITION part_2 FOR VALUES FROM (100) TO (200); ALTER TABLE part_2 DROP CONSTRAINT bound");
like(compare('part', q{condition => 'k < 50'}), qr/^ERROR:  XX002: an index of public.part does not find rows/,
	'scan, pruned partitions: a row in the wrong one is seen, and lookups that prune it are found out');
is(compare('part', q{condition => 'k < 50', method => 'plain'}), '7 both', 'plain sums and rows, pruned partitions');

sql('both', "CREATE TABLE parent (id int, n int, v text); CREATE TABLE child () INHERITS (parent); INSERT INTO child VALUES (1, 500, current_database());
	ALTER TABLE child ADD CONSTRAINT bound CHECK (n < 100) NOT VALID; $valid");
is(compare('parent', q{condition => 'n > 400', key_columns => '{id}'}), '1 both', 'scan, constraint exclusion: a child with a constraint that its row breaks');
is(compare('parent', q{condition => 'n > 400', key_columns => '{id}', method => 'plain'}), '1 both', 'plain sums and rows, constraint exclusion');

sql('both', "CREATE TABLE checked (id int PRIMARY KEY, n int); INSERT INTO checked VALUES (1, 500);
	ALTER TABLE checked ADD CONSTRAINT bound CHECK (n < 100) NOT VALID; $valid");
sql('postgres', 'ALTER DATABASE there SET constraint_exclusion = on');
is(compare('checked', q{condition => 'n > 400'}), '', 'scan, constraint_exclusion = on on one side: no false difference');
is(compare('checked', q{condition => 'n > 400', method => 'plain'}), '', 'plain sums and rows, constraint_exclusion = on on one side');
sql('postgres', 'ALTER DATABASE there RESET constraint_exclusion');

# --- by_index => true ------------------------------------------------------------------------

is(compare('txt', "$n, by_index => true"), '', 'by_index: reads by the index, which hides the row');
is($notices, 'perhaps read by an index (not checked)', 'and says so');
is(answer("SET client_min_messages = warning; SELECT count(*) FROM iblt_compare('txt', $peer, $n, by_index => true); SELECT by_index FROM iblt_compare_stats()"),
	'0, t', 'so do the figures');
is(compare('txt', "$n, by_index => true, method => 'plain'"), '', 'by_index, by plain queries');
is($notices, 'perhaps read by an index (not checked)', 'and says so');
is(compare('txt', 'by_index => true'), '40001 here', 'by_index without a condition: there is no index to trust');
is($notices, '', 'and nothing to say');
is(compare('vw', "key_columns => '{id}', by_index => true"), '', 'by_index, a view with a condition');
SKIP:
{
	skip 'row filters need PostgreSQL 15', 1 if major_version() < 15;
	is(answer("SELECT relation, status, detail LIKE 'perhaps read by an index (not checked);%' FROM iblt_audit($peer, publication => 'filtered', by_index => true, recheck => 0, trust_filters => true)"),
		'public.small differs f, public.txt equal t', 'by_index, an audit: small tables are read whole');
}
like(compare('txt', 'by_index => NULL'), qr/22023: .*by_index must not be null/, 'by_index: not null');

# --- one database ------------------------------------------------------------------------------
#
# Both sides of a comparison in one database are of one snapshot, whatever is written in
# between: here by the side that is read first, whose trigger keeps a copy.

sql('here', q{CREATE TABLE w (id int PRIMARY KEY, v int); CREATE TABLE wc (LIKE w INCLUDING ALL);
	CREATE FUNCTION copy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE public.wc SET v = NEW.v WHERE id = NEW.id; RETURN NEW; END';
	CREATE TRIGGER copy AFTER UPDATE ON w FOR EACH ROW EXECUTE FUNCTION copy();
	INSERT INTO w SELECT g, g FROM generate_series(1, 100) g; INSERT INTO wc SELECT * FROM w;
	CREATE FUNCTION written() RETURNS SETOF w LANGUAGE plpgsql AS $$ BEGIN PERFORM public.dblink_exec(format('host=%s port=%s dbname=here',
		split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port')), 'UPDATE public.w SET v = v + 1 WHERE id = 7'); RETURN; END $$;
	CREATE VIEW writing AS TABLE w UNION ALL SELECT * FROM written()});
sub in_one
{
	my ($first, $second, $options) = @_;
	my $before = sql('here', 'SELECT v FROM w WHERE id = 7');
	my $found = answer("SELECT key ->> 'id', side FROM iblt_compare('$first', NULL, '$second', $options) ORDER BY 1");
	return $found . (sql('here', 'SELECT v FROM w WHERE id = 7') > $before ? '' : 'nothing was written');
}
is(in_one('writing', 'wc', "key_columns => '{id}'"), '', 'scan in one database, a writer in between: no difference that no snapshot had');
is(in_one('wc', 'writing', "key_columns => '{id}'"), '', 'the same the other way round');
sql('here', 'UPDATE wc SET v = 0 WHERE id = 8; INSERT INTO w VALUES (101, 1)');
is(in_one('writing', 'wc', "key_columns => '{id}', rows => true, recheck => 1"), '101 here, 8 both', 'lookup and recheck in one database, a writer in between');

sql('here', q{UPDATE wc SET v = 8 WHERE id = 8; DELETE FROM w WHERE id = 101; CALL iblt_track('w'); CALL iblt_track('wc', peer_relation => 'w');
	ALTER FUNCTION iblt_internal.live_read(text, bigint, integer) RENAME TO live_read_it;
	CREATE FUNCTION iblt_internal.live_read(relation text, generation bigint, subtable_cells integer) RETURNS iblt STABLE LANGUAGE plpgsql AS
	'DECLARE result public.iblt := iblt_internal.live_read_it(relation, generation, subtable_cells); BEGIN PERFORM public.written(); RETURN result; END'});
is(answer(q{SELECT key, side FROM iblt_compare('w', NULL, 'wc', live => 'require'); SELECT live, settled FROM iblt_compare_stats()}), 't 0',
	'digests in one database, a writer in between: no difference that no snapshot had');

# --- the plans ------------------------------------------------------------------------------

# The plans on both sides, as auto_explain logs them: of scans with workers, and of lookups
# of keys by their index, which is checked afterwards.
sql('both', 'CREATE TABLE large (id int PRIMARY KEY, n int); CREATE INDEX ON large (n);
	INSERT INTO large SELECT g, g FROM generate_series(1, 100000) g; ANALYZE large');
sql('there', 'UPDATE large SET n = n + 1 WHERE id = 99995');
sub plans
{
	my ($options) = @_;
	my $offset = -s $node->logfile;
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_" } 'session_preload_libraries=auto_explain', 'auto_explain.log_min_duration=0',
		'auto_explain.log_nested_statements=on', 'auto_explain.log_analyze=on', 'parallel_tuple_cost=0', 'parallel_setup_cost=0';
	local $peer = literal($node->connstr('there') . " options='$ENV{PGOPTIONS}'");
	is(compare('large', $options), '99995 both', "the plans of a comparison ($options)");
	my $log = slurp_file($node->logfile, $offset);
	my %number;
	$number{ $1 . ($2 > 1 ? ', in parallel' : '') }++ while $log =~ /->  (.* on (?:public\.)?large\b).* loops=(\d+)/g;
	return \%number;
}
{
	my $condition = q{condition => 'id > 99990'};
	my $plans = plans($condition);
	is($plans->{'Parallel Seq Scan on large, in parallel'}, 2, 'scans: both sides read the table whole, with workers') or diag(explain($plans));
	is($plans->{'Index Scan using large_pkey on large'}, 2, 'lookups: both sides use the index of the key');
	$plans = plans("$condition, method => 'plain'");
	is($plans->{'Parallel Seq Scan on large, in parallel'}, 4, 'plain sums and rows: both sides read the table whole, with workers') or diag(explain($plans));
	$plans = plans("$condition, by_index => true");
	is($plans->{'Index Scan using large_pkey on large'}, 4, 'by_index: scans use the index, too') or diag(explain($plans));
}

$node->stop;
done_testing();
