# The statements that decide what a comparison or a repair says (doc/internals/walk.md has the list), each
# with what could make it decide wrongly: an index that lacks an entry, a snapshot older than
# what it reads, a second session that does the same, and a writer in between.
#
# The name of a test begins with its statements and the turn.  %turns says which file has it.
use IbltTest;
use File::Basename qw(dirname);

my $node = ready('deciding', 'max_parallel_workers_per_gather = 2', 'min_parallel_table_scan_size = 0', 'parallel_setup_cost = 0');
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE postgres") foreach qw(here there);
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
is(compare('vw', "key_columns => '{id}'"), '40001 here', 'scan, damaged index: the same in a view');
is(compare('num', "$n, method => 'plain'"), '40001 here', 'plain sums and plain rows, damaged index: the same here');
is(answer("SET enable_seqscan = off; SELECT key ->> 'id', side FROM iblt_compare('txt', $peer, $n)"), '40001 here', 'scan, damaged index: also if sequential scans are off');
if (major_version() >= 15)
{
	sql('there', 'CREATE PUBLICATION filtered FOR TABLE txt WHERE (n > 39990), small WHERE (n > 4990)');
	# a small table alone is compared like a large one
	sql('both', 'CREATE TABLE other (id int PRIMARY KEY)');
	sql('there', 'CREATE PUBLICATION together FOR TABLE small WHERE (n > 4990), other');
	foreach my $method (qw(sketch plain))
	{
		is(answer("SELECT relation, status, rows_here, rows_there FROM iblt_audit($peer, publication => 'filtered', method => '$method', recheck => 0, trust_filters => true)"),
			'public.small differs 11 10, public.txt differs 11 10', "scan and scan of small tables, damaged index: an audit over row filters ($method)");
		is(answer("SELECT relation, status, rows_here, rows_there FROM iblt_audit($peer, publication => 'together', method => '$method', recheck => 0, trust_filters => true)"),
			'public.other equal 0 0, public.small differs 11 10', "scan of small tables, damaged index: two in one question ($method)");
	}
}

if (major_version() >= 15)
{
	is(answer("CALL iblt_audit_run($peer, publication => 'filtered', recheck => 0, trust_filters => true); SELECT relation, status FROM iblt_audit_tables WHERE status = 'equal'") =~ s/^\d+(, )?//r,
		'', 'scan, damaged index: a run over row filters');
}

# The same with the index on the peer: it has the row, and this side does not.
sql('both', 'CREATE TABLE far (LIKE txt INCLUDING ALL); INSERT INTO far SELECT * FROM txt WHERE n <= 40000; ANALYZE far');
hide('there', 'far_n_idx', "INSERT INTO far VALUES ('40001', 40001, 'only there')");
is(compare('far', $n), '40001 there', 'scan, damaged index: on the peer');
is(compare('far', "$n, method => 'plain'"), '40001 there', 'plain sums and plain rows, damaged index: on the peer');

# An index that lookups use is checked by a scan, which must not use it either.
sql('both', 'CREATE TABLE pk (id int PRIMARY KEY, n int); INSERT INTO pk SELECT g, g FROM generate_series(1, 40000) g; ANALYZE pk');
hide('here', 'pk_pkey', 'INSERT INTO pk VALUES (40001, 1)');
like(compare('pk', q{condition => 'id > 39990'}), qr/^ERROR:  XX002: an index of public.pk does not find rows that the table has \(here\)/,
	'check of an index, damaged index: the scan finds what the index lacks');
is(compare('pk', q{condition => 'id > 39990', method => 'plain'}), '40001 here', 'plain sums and plain rows, damaged index: that of the key');

# An index that leads from a key to the row of another one, which has the place of a row that the index did not lose.
sql('both', 'CREATE TABLE astray (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off);
	INSERT INTO astray SELECT g, g FROM generate_series(1, 40000) g WHERE g <> 11; ANALYZE astray');
sql('there', q{INSERT INTO astray VALUES (11, '11')});
hide('here', 'astray_pkey', "DELETE FROM astray WHERE id = 7;\nVACUUM astray;\nUPDATE pg_class SET relhasindex = true WHERE relname = 'astray';\nINSERT INTO astray VALUES (11, '11')");
is(compare('astray', 'recheck => 0'), '7 there', 'lookup by key, damaged index: the row that it leads to is of another key');
like(answer("SELECT action, status FROM iblt_repair('astray', $peer, direction => 'pull', recheck => 1, apply => true)"),
	qr/^ERROR:  23505: duplicate key value violates unique constraint "astray_pkey"/, 'lookup by key, damaged index: which a repair does not write over');
is(sql('here', 'SELECT count(*) FROM astray WHERE v = $$11$$'), 1, 'and which is still there');
hide('here', 'astray_pkey', q{INSERT INTO astray VALUES (7, 'new')});
like(compare('astray', 'recheck => 0'), qr/^ERROR:  XX002: an index of public.astray does not find rows that the table has \(here\)/,
	'check of an index, damaged index: it leads to another row than the scan');

# A table whose columns are all in an index, which sequential scans compete with.
sql('here', 'CREATE TABLE keys_only (id int PRIMARY KEY); INSERT INTO keys_only SELECT generate_series(1, 5000)');
hide('here', 'keys_only_pkey', 'INSERT INTO keys_only VALUES (5001)');
sql('here', 'VACUUM ANALYZE keys_only');
is(answer(q{SET enable_seqscan = off; SET seq_page_cost = 1000; CALL iblt_track('keys_only'); SELECT (iblt_info(iblt_live('keys_only'))).rows; SELECT iblt_live_verify('keys_only')}), '5001, t',
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
is(repair('same', q{condition => 'id > 39990', apply => true}), '', 'scan, damaged index: a repair has nothing to do where both sides are the same');
is(sql('here', 'SELECT count(*) FROM same'), 40001, 'and nothing was deleted');

# The condition is true of the row here only, and an index of the peer lacks it.
sql('both', 'CREATE TABLE outside (id int PRIMARY KEY, n int); INSERT INTO outside SELECT g, g FROM generate_series(1, 40000) g; ANALYZE outside');
sql('here', 'INSERT INTO outside VALUES (40001, 40001)');
hide('there', 'outside_pkey', 'INSERT INTO outside VALUES (40001, 1)');
like(repair('outside', "$n, apply => true"), qr/^ERROR:  XX002: an index of public.outside does not find rows that the table has \(there\)/,
	'absence, damaged index: a row of the peer that the condition leaves out keeps the one here');
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
is(compare('part', q{condition => 'k < 50', method => 'plain'}), '7 both', 'plain sums and plain rows, pruned partitions');

sql('both', "CREATE TABLE parent (id int, n int, v text); CREATE TABLE child () INHERITS (parent); INSERT INTO child VALUES (1, 500, current_database());
	ALTER TABLE child ADD CONSTRAINT bound CHECK (n < 100) NOT VALID; $valid");
is(compare('parent', q{condition => 'n > 400', key_columns => '{id}'}), '1 both', 'scan, constraint exclusion: a child with a constraint that its row breaks');
is(compare('parent', q{condition => 'n > 400', key_columns => '{id}', method => 'plain'}), '1 both', 'plain sums and plain rows, constraint exclusion');

sql('both', "CREATE TABLE checked (id int PRIMARY KEY, n int); INSERT INTO checked VALUES (1, 500);
	ALTER TABLE checked ADD CONSTRAINT bound CHECK (n < 100) NOT VALID; $valid");
sql('postgres', 'ALTER DATABASE there SET constraint_exclusion = on');
is(compare('checked', q{condition => 'n > 400'}), '', 'scan, constraint_exclusion = on on one side: no false difference');
is(compare('checked', q{condition => 'n > 400', method => 'plain'}), '', 'plain sums and plain rows, constraint_exclusion = on on one side');
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
if (major_version() >= 15)
{
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
is(in_one('writing', 'wc', "key_columns => '{id}'"), '', 'scan, writer: no difference in one database that no snapshot had');
is(in_one('wc', 'writing', "key_columns => '{id}'"), '', 'the same the other way round');
sql('here', 'UPDATE wc SET v = 0 WHERE id = 8; INSERT INTO w VALUES (101, 1)');
is(in_one('writing', 'wc', "key_columns => '{id}', rows => true, recheck => 1"), '101 here, 8 both', 'lookup by hash and recheck, writer: in one database');

sql('here', q{UPDATE wc SET v = 8 WHERE id = 8; DELETE FROM w WHERE id = 101; CALL iblt_track('w'); CALL iblt_track('wc', peer_relation => 'w');
	ALTER FUNCTION iblt_internal.live_read(text, bigint, integer) RENAME TO live_read_it;
	CREATE FUNCTION iblt_internal.live_read(relation text, generation bigint, subtable_cells integer) RETURNS iblt STABLE LANGUAGE plpgsql AS
	'DECLARE result public.iblt := iblt_internal.live_read_it(relation, generation, subtable_cells); BEGIN PERFORM public.written(); RETURN result; END'});
is(answer(q{SELECT key, side FROM iblt_compare('w', NULL, 'wc', live => 'require'); SELECT live, settled FROM iblt_compare_stats()}), 't 0',
	'digest, writer: no difference in one database that no snapshot had');

# --- a writer, and a second session -------------------------------------------------------------

# What a comparison says of its progress tells where it is.  Another session then writes.
sql('here', q{CREATE OR REPLACE FUNCTION iblt_internal.progress(shown boolean, message text) RETURNS void LANGUAGE plpgsql AS
	$$ BEGIN IF message ~ current_setting('test.at', true) THEN PERFORM public.dblink_exec(current_setting('test.peer'), current_setting('test.write')); END IF; END $$});
sub written
{
	my ($at, $database, $write, $sql) = @_;
	return answer("SET test.at = ${\ literal($at)}; SET test.peer = ${\ literal($node->connstr($database))}; SET test.write = ${\ literal($write)}; $sql");
}

# Of each table, the row 1 differs, 2 is here, and 3 there.
foreach my $t ([ 'by_key', 'int' ], [ 'by_hash', 'text' ])
{
	sql('both', "CREATE TABLE $$t[0] (id $$t[1] PRIMARY KEY, v text); INSERT INTO $$t[0] SELECT g, CASE g WHEN 1 THEN current_database() END FROM generate_series(1, 100) g");
	sql('here', "DELETE FROM $$t[0] WHERE id = '3'");
	sql('there', "DELETE FROM $$t[0] WHERE id = '2'");
}
foreach my $case (
	[ 'by_key', 'sketch', '^looking', 'lookup by key and check of an index' ],
	[ 'by_hash', 'sketch', '^looking', 'lookup by hash' ],
	[ 'by_key', 'plain', '^reading the rows of .* buckets', 'plain sums and plain rows' ],
	[ 'by_key', 'sketch', '^waiting', 'recheck' ],
	[ 'by_hash', 'sketch', '^waiting', 'recheck' ])
{
	my ($table, $method, $at, $statement) = @$case;
	my $recheck = $statement eq 'recheck' ? 1 : 0;
	is(written($at, 'there', "UPDATE $table SET v = 'here' WHERE id = '1'",
			"SELECT key ->> 'id', side FROM iblt_compare('$table', $peer, recheck => $recheck, method => '$method', progress => true) AS c ORDER BY 1"),
		'2 here, 3 there', "$statement, writer: a row that becomes equal ($table)");
	sql('there', "UPDATE $table SET v = 'there' WHERE id = '1'");
}

my $all = '1 both, 2 here, 3 there';
foreach my $case ([ 'by_key', 'sketch', 'scan and lookup by key' ], [ 'by_hash', 'sketch', 'scan and lookup by hash' ], [ 'by_hash', 'plain', 'plain sums and plain rows' ])
{
	my ($table, $method, $statement) = @$case;
	my $compare = "SELECT key ->> 'id' || ' ' || side FROM iblt_compare('$table', $peer, recheck => 1, method => '$method') AS c ORDER BY 1";
	my @runs = map { IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('here'), '-c', $compare ], '<', \undef, '>', \$_->{out}) } my @second = ({}, {});
	$_->finish foreach @runs;
	is(join('; ', map { join ', ', split /\n/, $_->{out} } @second), "$all; $all", "$statement and recheck, second session: both find the same");
}

# A repair: what is written just before a step of it
foreach my $case (
	[ '^locking', 'claim', 'delete 2 skipped changed since it was compared, insert 3 applied , update 1 skipped changed since it was compared',
		"UPDATE by_key SET v = 'other' WHERE id = 1; INSERT INTO by_key VALUES (2, 'other')" ],
	[ '^scanning for .* source', 'absence', 'delete 2 skipped changed since it was compared, insert 3 applied , update 1 applied ', 'INSERT INTO by_key VALUES (2)' ],
	[ 'once more', 'last look', 'delete 2 applied , insert 3 applied , update 1 applied ', "UPDATE by_key SET v = 'other' WHERE id = 1" ])
{
	my ($at, $statement, $expected, $write) = @$case;
	# the last look reads rows if no statistics say that the statements have made all changes
	my $uncounted = $statement eq 'last look' ? 'SET LOCAL track_counts = off; ' : '';
	is(written($at, 'there', $write, "BEGIN; ${uncounted}SELECT action, key ->> 'id', status, detail FROM iblt_repair('by_key', $peer, direction => 'pull', apply => true) ORDER BY 1; ROLLBACK"),
		$expected, "$statement, writer: on the source");
	isnt(sql('there', 'SELECT string_agg(id || coalesce(v, \'\'), \' \' ORDER BY id) FROM by_key WHERE id < 3'), '1there', "$statement, writer: it wrote");
	sql('there', "DELETE FROM by_key WHERE id = 2; UPDATE by_key SET v = 'there' WHERE id = 1");
}

# --- the plans ------------------------------------------------------------------------------

# The plans on both sides, as auto_explain logs them: of scans with workers, and of lookups
# of keys by their index, which is checked afterwards.
sql('both', 'CREATE TABLE large (id int PRIMARY KEY, n int); CREATE INDEX ON large (n);
	INSERT INTO large SELECT g, g FROM generate_series(1, 100000) g; ANALYZE large');
sql('there', 'UPDATE large SET n = n + 1 WHERE id = 99995');
sql('here', 'CREATE SCHEMA copy; CREATE TABLE copy.large (LIKE large INCLUDING ALL); INSERT INTO copy.large SELECT id, CASE id WHEN 99995 THEN 0 ELSE n END FROM large; ANALYZE copy.large');
sub plans
{
	my ($options, $here_alone) = @_;
	my $offset = -s $node->logfile;
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_" } 'session_preload_libraries=auto_explain', 'auto_explain.log_min_duration=0',
		'auto_explain.log_nested_statements=on', 'auto_explain.log_analyze=on', 'parallel_tuple_cost=0', 'parallel_setup_cost=0';
	local $peer = literal($node->connstr('there') . " options='$ENV{PGOPTIONS}'");
	$peer = 'NULL' if $here_alone;
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
	$plans = plans("peer_relation => 'copy.large', $condition", 1);
	is($plans->{'Parallel Seq Scan on large, in parallel'}, 2, 'scan of both sides in one database: with workers, too') or diag(explain($plans));
	is($plans->{'Index Scan using large_pkey on large'}, 2, 'lookups: both use the index of the key') or diag(explain($plans));
	$plans = plans("$condition, method => 'plain'");
	is($plans->{'Parallel Seq Scan on large, in parallel'}, 4, 'plain sums and rows: both sides read the table whole, with workers') or diag(explain($plans));
	$plans = plans("$condition, by_index => true");
	is($plans->{'Index Scan using large_pkey on large'}, 4, 'by_index: scans use the index, too') or diag(explain($plans));
}

$node->stop;

# --- the list -----------------------------------------------------------------------------------

# Where the tests of each statement are: a damaged index, an older snapshot, a second
# session, a writer.  Empty where a turn changes nothing: a description reads catalogs and
# is compared with what is read later, digests have no index, small tables that seem to differ are compared once more, a
# recheck has only what lookups found, a long value has to have the hash of the one that was compared, what statements have
# met is asked of catalogs, the last look is of rows that the repair has just written, and a count is of a run, which needs READ
# COMMITTED and stores it under a lock.
my @turns = ('damaged index', 'older snapshot', 'second session', 'writer');
my %turns = (
	'description' => [ '', '107_isolation', '', '053_ddl_in_flight' ],
	'scan' => [ '106_deciding', '107_isolation', '106_deciding', '106_deciding' ],
	'scan of small tables' => [ '106_deciding', '107_isolation', '', '062_audit_subscription' ],
	'slice' => [ '098_runs_drift', '', '090_runs', '098_runs_drift' ],
	'count after slices' => [ '098_runs_drift', '', '', '098_runs_drift' ],
	'digest' => [ '', '088_compare_live', '087_digests_rounds', '106_deciding' ],
	'scan for a digest' => [ '106_deciding', '086_digests_pitfalls', '086_digests_pitfalls', '086_digests_pitfalls' ],
	'lookup by key' => [ '106_deciding', '053_ddl_in_flight', '106_deciding', '106_deciding' ],
	'lookup by hash' => [ '106_deciding', '053_ddl_in_flight', '106_deciding', '106_deciding' ],
	'check of an index' => [ '106_deciding', '053_ddl_in_flight', '', '106_deciding' ],
	'recheck' => [ '', '050_compare', '106_deciding', '106_deciding' ],
	'plain sums' => [ '106_deciding', '107_isolation', '106_deciding', '106_deciding' ],
	'plain rows' => [ '106_deciding', '107_isolation', '106_deciding', '106_deciding' ],
	'absence' => [ '106_deciding', '070_repair', '108_repair_pairs', '106_deciding' ],
	'claim' => [ '108_repair_pairs', '070_repair', '108_repair_pairs', '106_deciding' ],
	'which row wins' => [ '', '', '', '118_repair_origin' ],
	'long values' => [ '', '', '', '072_repair_types' ],
	'what statements have met' => [ '', '', '143_repair_meanwhile', '' ],
	'taking back' => [ '', '', '', '150_deleted_meanwhile' ],
	'last look' => [ '', '070_repair', '108_repair_pairs', '106_deciding' ]);

my $top = dirname(__FILE__) . '/../..';
my %tested;
foreach my $name (map { $_->{name} } Test::More->builder->details)
{
	my ($statements, $turn) = $name =~ /^([^,:]+), ([a-z ]+):/ or next;
	$tested{$_}{$turn} = 1 foreach split / and /, $statements;
}
my ($list) = slurp_file("$top/doc/internals/walk.md") =~ /^## What decides\n(.*?)^## /ms;
my %listed = map { /^\| ([^|]+?) \| ([^|]+?) \|/ ? ($1 => $2) : () } grep { !/^\| statement|^\|---/ } split /\n/, $list;
is(join(', ', sort keys %turns), join(', ', sort keys %listed), 'the statements here are those of doc/internals/walk.md');
foreach my $statement (sort keys %turns)
{
	my @where = @{ $turns{$statement} };
	is(join(', ', grep { $tested{$statement}{$_} } @turns), join(', ', map { $turns[$_] } grep { $where[$_] eq '106_deciding' } 0 .. 3),
		"$statement: what is tested here");
	is(join(', ', grep { $_ ne '' && !-e "$top/test/t/$_.pl" } @where), '', "$statement: the other tests are there");
	foreach my $function ($listed{$statement} =~ /`(\w+)`/g)
	{
		is(scalar(grep { slurp_file($_) =~ /^-- Relies on: [^\n]*\nCREATE FUNCTION $function\(/m } glob "$top/sql/*/*.sql"), 1,
			"$statement: $function says what it relies on");
	}
}

done_testing();
