# Merges delete the rows of a store that they put into the base: what snapshots, rolled back
# merges, other tables' rows, a crash, a standby and VACUUM make of that, and what amcheck and
# pg_visibility say of the pages.  The worker that merges: tables that fail, DROP DATABASE, slots.
use IbltTest;

my $node = ready('merges', 'fsync = off', 'autovacuum = off', 'max_prepared_transactions = 5', 'max_worker_processes = 2');
inside($node);
sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

# --- nine tables, so that the first and the last one share a store ----------------------

sql('CREATE EXTENSION amcheck; CREATE EXTENSION pg_visibility');
sql(join '', map { "CREATE TABLE t$_ (id int PRIMARY KEY, v int); INSERT INTO t$_ SELECT g, 0 FROM generate_series(1, 1000) g; CALL iblt_track('t$_', capacity => 20);\n" } 1 .. 9);

# Transactions of one change each, in turns, and one with so many that it writes a sketch.
sub change
{
	my ($number, @tables) = @_;
	my $updates = join '', map { "UPDATE $_ SET v = v + 1 WHERE id = i; COMMIT; " } @tables;
	return sql("DO \$\$ BEGIN FOR i IN 1 .. $number LOOP $updates END LOOP; END \$\$");
}

sub right { my ($on, @tables) = @_; return join ' ', map { $on->safe_psql('postgres', "SELECT iblt_internal.live_is_right('$_', iblt_internal.iblt_live_options('$_'))") } @tables }
sub unmerged { my ($on) = @_; return $on->safe_psql('postgres', q{SELECT string_agg(unmerged::text, ' ' ORDER BY relation::text) FROM iblt_live_status() WHERE relation IN ('t1'::regclass, 't9'::regclass)}) }

sub out_of_line { return sql("SELECT count(*) FROM ${\ sql(q{SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'iblt_internal.changes_1'::regclass})}") }

# A store's dead and visible rows are as its pages say.
sub whole
{
	my ($text) = @_;
	is(sql("SELECT count(*) FROM pg_class, LATERAL (SELECT 1 FROM verify_heapam(oid) UNION ALL SELECT 2 FROM pg_check_visible(oid)) AS damage
		WHERE relnamespace = 'iblt_internal'::regnamespace AND relkind = 'm'"), '0', "$text: no page is damaged");
	return;
}

change(400, 't1', 't9');
sql('DO $$ BEGIN FOR i IN 1 .. 4 LOOP UPDATE t1 SET v = v + 1; UPDATE t9 SET v = v + 1; END LOOP; END $$');
is(unmerged($node), '4400 4400', 'both tables have changes');
is(right($node, 't1', 't9'), 't t', 'which the digests have');
cmp_ok(out_of_line(), '>', 0, 'also those of a sketch');

# --- snapshots -------------------------------------------------------------------------

# all pages are in the visibility map
sql('VACUUM iblt_internal.changes_1');
my $standby = standby($node, 'reader');
my $session = IbltTest::Session->new($node);
my $far = IbltTest::Session->new($standby);
my $read = q{SELECT md5(iblt_live('t1')::bytea) || md5(iblt_live('t9')::bytea)};
my $before = $session->run("BEGIN ISOLATION LEVEL REPEATABLE READ; $read");
is($far->run("BEGIN ISOLATION LEVEL REPEATABLE READ; $read"), $before, 'a standby reads the same digests');

sql("BEGIN; SELECT iblt_live_merge('t1'); ROLLBACK");
is(unmerged($node), '4400 4400', 'a merge that is rolled back keeps the changes');
is(right($node, 't1', 't9'), 't t', 'which the digests still have');

is(sql("BEGIN; SAVEPOINT a; SELECT iblt_live_merge('t1'); ROLLBACK TO a; SELECT iblt_live_merge('t1'); COMMIT"), "4400\n4400", 'a merge after two that were rolled back');
is(unmerged($node), '0 4400', 'takes the changes of its table alone');
is(right($node, 't1', 't9'), 't t', 'and the digests are right');
is($session->run($read), $before, 'a snapshot from before the merge sees what it saw');
whole('after merges');

replayed($node, $standby);
is(unmerged($standby), '0 4400', 'a standby has merged, too');
is(right($standby, 't1', 't9'), 't t', 'and its digests are right');
is($far->run($read), $before, 'its snapshot from before the merge sees what it saw');
$_->run('COMMIT'), $_->quit foreach $session, $far;

# --- rows of this transaction, a prepared one, and a crash ---------------------------------

change(300, 't1', 't9');
my $verified = q{SELECT verified_at FROM iblt_live_status() WHERE relation = 't9'::regclass};
like(sql("BEGIN; SELECT iblt_live_verify('t9'); DECLARE c CURSOR FOR $verified; SELECT iblt_live_merge('t9'); FETCH c; COMMIT; $verified"),
	qr/^t\n4700\n(.+)\n\g1$/, 'a merge takes the note of a scan of its own transaction, which a cursor still sees');
is(unmerged($node), '300 0', 'and the changes');
sql("BEGIN; SELECT iblt_live_merge('t1'); PREPARE TRANSACTION 'merge'");
is(unmerged($node), '300 0', 'a prepared merge has taken nothing yet');
$node->stop('immediate');
$node->start;
is(right($node, 't1', 't9'), 't t', 'the digests are right after a crash');
sql("COMMIT PREPARED 'merge'");
is(unmerged($node), '0 0', 'and the prepared merge takes the changes');
is(out_of_line(), '0', 'with what was out of line');
is(right($node, 't1', 't9'), 't t', 'once');
whole('after a crash');

my ($first, $second) = map { IbltTest::Session->new($node) } 1, 2;
change(2, 't1');
is($first->run("BEGIN; SELECT iblt_live_merge('t1')"), '2', 'while a merge is not committed');
$second->start("SELECT iblt_live_merge('t1')");
wait_for($node, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $second->{pid}");
$first->run('COMMIT');
is($second->done . $second->{err}, '0', 'another one waits, and has nothing left to merge');
is(right($node, 't1'), 't', 'and the digest is right');
$_->quit foreach $first, $second;

# --- VACUUM ------------------------------------------------------------------------------

# A snapshot that is held open keeps them, and the status of all tables of the store says so.
my $store = q{SELECT DISTINCT store_bytes / 8192, store_bytes = pg_relation_size('iblt_internal.changes_1') FROM iblt_live_status() WHERE relation IN ('t1'::regclass, 't9'::regclass)};
my $holder = holding($node, "BEGIN ISOLATION LEVEL REPEATABLE READ; $read");
change(500, 't1');
sql("SELECT iblt_live_merge('t1'); VACUUM iblt_internal.changes_1");
like(sql($store), qr/^(?:[4-9]|\d\d+)\|t$/, 'the status shows what an old snapshot keeps in the store');
is(unmerged($node), '0 0', 'though nothing is unmerged');
$holder->run('COMMIT');
$holder->quit;
sql('VACUUM iblt_internal.changes_1');
like(sql($store), qr/^[0-3]\|t$/, 'until the snapshot is gone');
cmp_ok(sql("SELECT pg_relation_size('iblt_internal.changes_1')"), '<=', 3 * 8192, 'VACUUM removes the rows');
whole('after VACUUM');
change(50, 't1', 't9');
is(right($node, 't1', 't9'), 't t', 'and changes are recorded as before');
replayed($node, $standby);
is(right($standby, 't1', 't9'), 't t', 'also for the standby');
$standby->stop;

# --- the worker ----------------------------------------------------------------------------

my $no_worker = q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = '%s'};
my $many = q{DO $$ BEGIN FOR i IN 1 .. 12 LOOP UPDATE t1 SET v = v + 1; END LOOP; END $$};

# Two slots: one has the launcher of logical replication, and a parallel query takes the other.
my $busy = IbltTest::Session->new($node);
my $writer = IbltTest::Session->new($node);
$busy->run('SET ' . (major_version() < 16 ? 'force_parallel_mode' : 'debug_parallel_query') . ' = on');
$busy->start('SELECT pg_sleep(1000)');
wait_for($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'parallel worker'});
$writer->run($many);
like(unmerged($node), qr/^12\d\d\d 50$/, 'no slot is free for a worker that merges');
sql("SELECT pg_cancel_backend($busy->{pid})");
$busy->done;
wait_for($node, sprintf $no_worker, 'parallel worker');
# PostgreSQL frees the slot a moment later
foreach (1 .. 30)
{
	$writer->run('UPDATE t1 SET v = v + 1 WHERE id = 1');
	last if unmerged($node) !~ /^12/;
}
like(unmerged($node), qr/^\d{1,2} 50$/, 'the next transaction starts one as soon as there is');
$_->quit foreach $busy, $writer;

# DROP DATABASE waits for the worker, which is in a merge, but not longer than five seconds.
sql('CREATE DATABASE victim');
$node->safe_psql('victim', q{CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g FROM generate_series(1, 40) g; CALL iblt_track('t', capacity => 20)});
$holder = IbltTest::Session->new($node);
$holder->run('\c victim');
$holder->run('BEGIN; REFRESH MATERIALIZED VIEW iblt_internal.base');
$node->safe_psql('victim', q{DO $$ BEGIN FOR i IN 1 .. 300 LOOP UPDATE t SET v = i; COMMIT; END LOOP; END $$});
wait_for($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'iblt merge' AND wait_event_type = 'Lock'});
my $drop = background($node, 'DROP DATABASE victim');
wait_for($node, q{SELECT count(*) = 1 FROM pg_locks WHERE classid = 'pg_database'::regclass AND mode = 'AccessExclusiveLock' AND granted});
$holder->run('ROLLBACK');
wait_for($node, sprintf $no_worker, 'iblt merge');
is($holder->run('SELECT unmerged FROM iblt_live_status()'), '12000', 'a merge ends for those who want the database');
finish($drop);
like($drop->{err}, qr/is being accessed by other users/, 'which another session holds up');
$holder->quit;
sql('DROP DATABASE victim');

# --- serializable transactions ---------------------------------------------------------------

# One writes a tracked table and has read `other`.  One reads a digest and writes `other`.
# They cannot both commit unless the digest is that of another table in the same store.
sql('CREATE TABLE other (id int); UPDATE t1 SET v = 0; UPDATE t9 SET v = 0');
my $begin = 'BEGIN ISOLATION LEVEL SERIALIZABLE';
my $reading = q{SELECT rows FROM iblt_info(iblt_live('t1')); INSERT INTO other VALUES (1); COMMIT};
sub writing { my ($table) = @_; return "SELECT count(*) FROM other; UPDATE $table SET v = v + 1 WHERE id = 7" }
my ($reader, $one) = map { IbltTest::Session->new($node) } 1, 2;

# (the first change of a session leaves a fence, which a reader would see)
$one->run('UPDATE t1 SET v = v WHERE id = 8');
$one->run("$begin; " . writing('t1'));
$reader->run("$begin; $reading");
$one->run('COMMIT');
like($reader->{err} . $one->{err}, qr/40001/, 'a digest is read before a writer commits: not serializable');
$_->run('ROLLBACK') foreach $reader, $one;

$reader->run("$begin; SELECT 1");
$reader->run('SELECT count(*) FROM t2');
$one->run("$begin; " . writing('t1') . '; COMMIT');
is($one->{err}, '', 'a writer commits');
$reader->run($reading);
like($reader->{err}, qr/40001/, 'a digest is read in a snapshot from before: not serializable');
$reader->run('ROLLBACK');

# a writer of a partition, behind a reader of the whole
sql('CREATE TABLE whole (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (100); INSERT INTO whole VALUES (7, 0)');
sql("CALL iblt_track('whole')");
$one->run("$begin; SELECT count(*) FROM other");
$reader->run("$begin; " . $reading =~ s/'t1'/'whole'/r =~ s/; COMMIT//r);
my $errors = join '', map { my ($session, $sql) = @$_; $session->run($sql); $session->{err} } [ $one, 'UPDATE part SET v = v + 1 WHERE id = 7' ], [ $reader, 'COMMIT' ], [ $one, 'COMMIT' ];
like($errors, qr/40001/, 'a digest is read before the writer of a partition writes: not serializable');
$_->run('ROLLBACK') foreach $reader, $one;
$one->run("$begin; SELECT count(*) FROM other; UPDATE part SET v = v + 1 WHERE id = 7");
$reader->run("$begin; " . $reading =~ s/'t1'/'whole'/r);
$one->run('COMMIT');
like($reader->{err} . $one->{err}, qr/40001/, 'or before it commits');
$_->run('ROLLBACK') foreach $reader, $one;

$one->run("$begin; " . writing('t9'));
$reader->run("$begin; $reading");
$one->run('COMMIT');
is($reader->{err} . $one->{err}, '', 'a digest of another table of the store: serializable');
$reader->run("$begin; SELECT count(*) FROM t2");
$one->run("$begin; " . writing('t9') . '; COMMIT');
$reader->run($reading);
is($reader->{err} . $one->{err}, '', 'also in a snapshot from before');
is($reader->run("$begin; SELECT iblt_internal.live_is_right('t1', iblt_internal.iblt_live_options('t1')); COMMIT"), 't', 'and the digest is right');
$_->quit foreach $reader, $one;

# --- a reader that finds many changes ------------------------------------------------------------

# Two sessions have made them, each too few to start a worker itself.
sql("SELECT iblt_live_merge('t1')");
sql('VACUUM iblt_internal.changes_1');
foreach (1, 2)
{
	my $session = IbltTest::Session->new($node);
	$session->run('DO $$ BEGIN FOR i IN 1 .. 6 LOOP UPDATE t1 SET v = v + 1; END LOOP; END $$');
	$session->quit;
}
like(unmerged($node), qr/^12000 /, 'nobody has merged many changes');
sql("SELECT iblt_live('t1') IS NULL");
foreach (1 .. 50)
{
	last if unmerged($node) =~ /^0 /;
	sql('SELECT pg_sleep(0.1)');
}
like(unmerged($node), qr/^0 /, 'until a reader starts a worker');

done_testing();
