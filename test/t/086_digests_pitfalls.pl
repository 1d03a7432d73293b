# What a live digest relies on: whatever breaks it ends in "not trustworthy, because",
# never in a wrong digest, and a rebuild heals it.  No statement of a user fails.
use IbltTest;

my $node = ready('pitfalls', 'max_prepared_transactions = 10', 'fsync = off', 'autovacuum = off');
inside($node);
sides($node, $node);
$node->safe_psql('postgres', 'CREATE ROLE other LOGIN');

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

# Says whether the digest is that of a scan.
sub right { my ($table) = @_; return sql("SELECT iblt_internal.live_is_right('$table', iblt_internal.iblt_live_options('$table'))") }

sub healed
{
	my ($table, $text) = @_;
	sql("CALL iblt_live_rebuild('$table')");
	is(right($table), 't', "$text: a rebuild heals it");
	is(sql("SELECT state FROM iblt_live_status() WHERE relation = '$table'::regclass"), 'live', "$text: and the status says so");
	return;
}

# --- one table, many ways to harm its digest ------------------------------------------

sql(q{CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE TYPE pair AS (a int, b text);
	CREATE TABLE t (id int PRIMARY KEY, a text, m mood, p pair, n numeric NOT NULL DEFAULT 0);
	INSERT INTO t SELECT g, 'row ' || g, 'good', ROW(g, 'x')::pair FROM generate_series(1, 50) g;
	CALL iblt_track('t', capacity => 50)});
is(right('t'), 't', 'the digest is right at first');

my $changed = 'its columns or their types have changed';
my $rewritten = 'it was rewritten, by TRUNCATE, ALTER TABLE, VACUUM FULL, REPACK or the like';
my $triggers = 'its triggers have changed, or were disabled';
foreach my $case (
	[ 'TRUNCATE', 'TRUNCATE t', 'it was truncated' ],
	[ 'TRUNCATE with changes', 'BEGIN; INSERT INTO t VALUES (1); TRUNCATE t; INSERT INTO t SELECT g FROM generate_series(1, 60) g; COMMIT', 'it was truncated' ],
	[ 'ADD COLUMN', 'ALTER TABLE t ADD COLUMN extra int', $changed ],
	[ 'ADD COLUMN with a default', 'ALTER TABLE t ADD COLUMN more int DEFAULT 7', $changed ],
	[ 'DROP COLUMN', 'ALTER TABLE t DROP COLUMN extra', $changed, 'one of its columns was dropped' ],
	[ 'a changed type', 'ALTER TABLE t ALTER a TYPE varchar(100)', $changed ],
	[ 'a rewrite with the same type', q{ALTER TABLE t ALTER a TYPE varchar(100) USING a || '!'}, $rewritten ],
	[ 'VACUUM FULL', 'VACUUM FULL t', $rewritten ],
	[ 'CLUSTER', 'CLUSTER t USING t_pkey', $rewritten ],
	(major_version() < 19 ? () : ([ 'REPACK', 'REPACK t', $rewritten ], [ 'REPACK CONCURRENTLY', 'REPACK (CONCURRENTLY) t', $rewritten ])),
	[ 'UNLOGGED for a while', 'ALTER TABLE t SET UNLOGGED; ALTER TABLE t SET LOGGED', $rewritten ],
	[ 'a type changed and changed back, and a row meanwhile', 'ALTER TABLE t ALTER a TYPE text; INSERT INTO t (id, a) VALUES (900, $$new$$); ALTER TABLE t ALTER a TYPE varchar', $changed ],
	[ 'a label renamed and renamed back', q{ALTER TYPE mood RENAME VALUE 'bad' TO 'poor'; INSERT INTO t (id, m) VALUES (901, 'poor'); ALTER TYPE mood RENAME VALUE 'poor' TO 'bad'}, $changed ],
	[ 'an attribute added and dropped', q{ALTER TYPE pair ADD ATTRIBUTE d int; INSERT INTO t (id, p) VALUES (902, '(1,2,3)'); ALTER TYPE pair DROP ATTRIBUTE d}, $changed ],
	[ 'a renamed enum label', q{ALTER TYPE mood RENAME VALUE 'good' TO 'fine'}, $changed ],
	[ 'a new attribute of a composite type', 'ALTER TYPE pair ADD ATTRIBUTE c int', $changed ],
	[ 'a disabled trigger', 'ALTER TABLE t DISABLE TRIGGER iblt_track_row; INSERT INTO t (id) VALUES (1001)', $triggers ],
	[ 'triggers disabled for a moment', 'ALTER TABLE t DISABLE TRIGGER USER; INSERT INTO t (id) VALUES (1002); ALTER TABLE t ENABLE TRIGGER USER', $triggers ],
	[ 'the same, with ALWAYS put back', 'BEGIN; ALTER TABLE t DISABLE TRIGGER ALL; INSERT INTO t (id) VALUES (1003); ALTER TABLE t ENABLE TRIGGER ALL;
		ALTER TABLE t ENABLE ALWAYS TRIGGER iblt_track_row; ALTER TABLE t ENABLE ALWAYS TRIGGER iblt_track_truncate; COMMIT', $triggers ],
	[ 'a trigger that is not ALWAYS', 'ALTER TABLE t ENABLE TRIGGER iblt_track_row', $triggers ],
	[ 'a dropped trigger', 'DROP TRIGGER iblt_track_row ON t; INSERT INTO t (id) VALUES (1004)', $triggers ],
	[ 'UNLOGGED', 'ALTER TABLE t SET UNLOGGED', 'it is an unlogged table', undef, 'ALTER TABLE t SET LOGGED' ],
	[ 'inheritance', 'CREATE TABLE child () INHERITS (t); INSERT INTO child (id) VALUES (1)', 'other tables inherit from it', undef, 'DROP TABLE child' ],
	[ 'REFRESH of the store', 'REFRESH MATERIALIZED VIEW iblt_internal.changes_1', 'its changes were removed from the store' ],
	[ 'REFRESH of the base', 'REFRESH MATERIALIZED VIEW iblt_internal.base', 'its first scan has not been finished' ])
{
	my ($name, $harm, $reason, $other, $first) = @$case;

	sql($harm);
	my $error = failure("SELECT iblt_live('t')");
	like($error, qr/ERROR:  IB008: digest of table "t" is not trustworthy, because (\Q$reason\E|\Q${\ ($other \/\/ $reason)}\E)$/m, "$name: no digest");
	like($error, qr/HINT:  CALL iblt_live_rebuild\('public.t'\);/, "$name: and a hint");
	like(sql("SELECT state, reason FROM iblt_live_status() WHERE relation = 't'::regclass"), qr/^not trustworthy\|/, "$name: the status says so");
	# work goes on
	sql("INSERT INTO t (id) VALUES (2000); UPDATE t SET n = n + 1 WHERE id > 30; DELETE FROM t WHERE id = 2000");
	like(failure("SELECT iblt_live('t')"), qr/IB008/, "$name: and it stays so");
	sql($first) if $first;
	healed('t', $name);
	sql("INSERT INTO t (id) VALUES (3000); UPDATE t SET n = n + 1 WHERE id > 40; DELETE FROM t WHERE id = 3000");
	is(right('t'), 't', "$name: changes are recorded again");
}

# --- what is harmless ---------------------------------------------------------------------

foreach my $case (
	[ 'a harm that is rolled back', 'BEGIN; ALTER TABLE t DISABLE TRIGGER USER; TRUNCATE t; ALTER TABLE t ADD COLUMN no int; INSERT INTO t (id) VALUES (1); ROLLBACK' ],
	[ 'a TRUNCATE that is rolled back to a savepoint', 'BEGIN; SAVEPOINT a; TRUNCATE t; ROLLBACK TO a; INSERT INTO t (id) VALUES (4000); COMMIT' ],
	[ 'a role of replica', "SET session_replication_role = replica; INSERT INTO t (id) VALUES (4001); UPDATE t SET n = -1 WHERE id < 5" ],
	[ 'an index and a constraint', 'CREATE INDEX ON t (a); ALTER TABLE t ADD CHECK (n > -5); ALTER TABLE t ALTER a SET STATISTICS 100; ANALYZE t' ],
	[ 'a second trigger', 'CREATE TRIGGER again AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION iblt_internal.iblt_track_row(); INSERT INTO t (id) VALUES (4010)' ],
	[ 'that it goes', 'DROP TRIGGER again ON t; INSERT INTO t (id) VALUES (4011)' ],
	[ 'another trigger', q{CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION nothing(); INSERT INTO t (id) VALUES (4002)} ],
	[ 'COPY FREEZE into another table', q{BEGIN; CREATE TABLE f (id int); COPY f FROM PROGRAM 'echo 1' WITH (FREEZE); COMMIT} ],
	[ 'renaming', 'ALTER TABLE t RENAME COLUMN a TO label; ALTER TABLE t RENAME TO renamed; INSERT INTO renamed (id, label) VALUES (4003, $$x$$); ALTER TABLE renamed RENAME TO t; ALTER TABLE t RENAME COLUMN label TO a' ])
{
	my ($name, $sql) = @$case;
	sql($sql);
	is(right('t'), 't', "$name is harmless");
}

# Triggers of our function that somebody else made do not record all changes, or not in time.
sql('CREATE TABLE own (id int PRIMARY KEY, a int)');
foreach my $case (
	[ 'a deferred trigger', 'CONSTRAINT TRIGGER x AFTER INSERT OR UPDATE OR DELETE ON own DEFERRABLE INITIALLY DEFERRED FOR EACH ROW' ],
	[ 'a trigger with WHEN', 'TRIGGER x AFTER INSERT OR UPDATE OR DELETE ON own FOR EACH ROW WHEN (pg_trigger_depth() > 1)' ],
	[ 'a trigger of some columns', 'TRIGGER x AFTER INSERT OR UPDATE OF a OR DELETE ON own FOR EACH ROW' ],
	[ 'a trigger of some changes', 'TRIGGER x AFTER INSERT OR UPDATE ON own FOR EACH ROW' ])
{
	my ($name, $trigger) = @$case;
	sql("CREATE $trigger EXECUTE FUNCTION iblt_internal.iblt_track_row(); CALL iblt_track('own')");
	is(sql(q{BEGIN; INSERT INTO own SELECT generate_series(1, 5); UPDATE own SET id = 7 WHERE id = 1; DELETE FROM own WHERE id = 2;
		SELECT iblt_internal.live_is_right('own', iblt_internal.iblt_live_options('own')); ROLLBACK}), 't', "$name is not relied on");
	is(sql(q{SELECT string_agg(tgname, ' ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = 'own'::regclass}), 'iblt_track_row iblt_track_truncate', "$name is replaced");
	sql(q{CALL iblt_untrack('own')});
}

# --- partitions ------------------------------------------------------------------------------

sql(q{CREATE TABLE part (id int, k int, a text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
	CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
	CREATE TABLE part_2 PARTITION OF part FOR VALUES IN (2) PARTITION BY RANGE (id);
	CREATE TABLE part_2a PARTITION OF part_2 FOR VALUES FROM (0) TO (1000);
	INSERT INTO part SELECT g, 1 + g % 2, 'x' FROM generate_series(1, 99) g; CALL iblt_track('part')});
my $row = sql(q{SELECT tgname FROM pg_trigger WHERE tgrelid = 'part'::regclass AND tgname ~ '^iblt_track_row'});
my $partitions = 'its columns, their types or its partitions have changed';
my $passing = 'a partition that it did not have was written to';
foreach my $case (
	[ 'ATTACH', q{CREATE TABLE part_3 (a text, id int NOT NULL, k int NOT NULL); INSERT INTO part_3 VALUES ('z', 1, 3); ALTER TABLE part ATTACH PARTITION part_3 FOR VALUES IN (3)}, $partitions ],
	[ 'DETACH', 'ALTER TABLE part DETACH PARTITION part_3', $partitions ],
	[ 'a new partition', 'CREATE TABLE part_2b PARTITION OF part_2 FOR VALUES FROM (1000) TO (2000)', $partitions ],
	[ 'TRUNCATE of a partition', 'TRUNCATE part_1', $rewritten ],
	[ 'TRUNCATE of all', 'TRUNCATE part', 'it was truncated' ],
	[ 'a disabled trigger of a partition', "ALTER TABLE part_2a DISABLE TRIGGER $row; INSERT INTO part VALUES (500, 2); ALTER TABLE part_2a ENABLE ALWAYS TRIGGER $row", $triggers ],
	[ 'a dropped partition', 'DROP TABLE part_2b', $partitions ],
	[ 'a partition that comes and goes', 'CREATE TABLE part_4 PARTITION OF part FOR VALUES IN (4); INSERT INTO part VALUES (1, 4); DROP TABLE part_4', $passing ],
	[ 'one that had been tracked with it', 'ALTER TABLE part ATTACH PARTITION part_3 FOR VALUES IN (3); DELETE FROM part WHERE k = 3; ALTER TABLE part DETACH PARTITION part_3', $passing ])
{
	my ($name, $harm, $reason) = @$case;
	sql($harm);
	like(failure("SELECT iblt_live('part')"), qr/IB008: .* because \Q$reason\E$/m, "$name: no digest");
	sql('INSERT INTO part SELECT g, 1 + g % 2, $$y$$ FROM generate_series(101, 150) g; DELETE FROM part WHERE id > 100');
	healed('part', $name);
	sql('INSERT INTO part SELECT g, 1 + g % 2, $$y$$ FROM generate_series(101, 150) g; UPDATE part SET k = 3 - k WHERE id > 140');
	is(right('part'), 't', "$name: changes are recorded again");
	sql('DELETE FROM part WHERE id > 100');
}

# --- rows that cannot be recorded ----------------------------------------------------------

# A type whose send function fails on demand.
sql(q{CREATE TYPE fragile; CREATE FUNCTION fragile_in(cstring) RETURNS fragile LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
	CREATE FUNCTION fragile_out(fragile) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
	CREATE FUNCTION fragile_int(fragile) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'int4up';
	CREATE TYPE fragile (INPUT = fragile_in, OUTPUT = fragile_out, LIKE = int4);
	CREATE FUNCTION fragile_send(fragile) RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN
		IF public.fragile_int($1) = 7 THEN RAISE EXCEPTION USING ERRCODE = 'query_canceled'; END IF;
		RETURN int4send(10 / public.fragile_int($1)); END $$;
	ALTER TYPE fragile SET (SEND = fragile_send);
	CREATE TABLE brittle (id int PRIMARY KEY, f fragile); INSERT INTO brittle VALUES (1, '5'); CALL iblt_track('brittle')});
is(right('brittle'), 't', 'a type with a send function of its own is tracked');
sql(q{INSERT INTO brittle VALUES (2, '2'); UPDATE brittle SET f = '3' WHERE id = 1});
is(right('brittle'), 't', 'and its changes are recorded');
sql(q{INSERT INTO brittle VALUES (3, '0')});
is(sql('SELECT count(*) FROM brittle'), '3', 'a value whose send function fails is inserted');
like(failure("SELECT iblt_live('brittle')"), qr/IB008: .* because a value could not be read$/m, 'and there is no digest');
sql(q{UPDATE brittle SET f = '9' WHERE id = 3});
healed('brittle', 'a value that cannot be read');
sql(q{DO $$ BEGIN
	BEGIN UPDATE brittle SET f = '7' WHERE id = 1; EXCEPTION WHEN query_canceled THEN NULL; END;
	UPDATE brittle SET f = '4' WHERE id = 1; END $$});
is(right('brittle'), 't', 'a statement that is cancelled while it reads a value leaves nothing behind in the transaction');

# A send function that writes to the table fires the trigger while the trigger reads a row.
sql(q{CREATE OR REPLACE FUNCTION fragile_send(fragile) RETURNS bytea LANGUAGE plpgsql AS $$ DECLARE harm text := current_setting('x.harm', true); BEGIN
		IF harm ~ 'altered' AND public.fragile_int($1) = 8 THEN GRANT SELECT ON public.brittle TO other; END IF;
		IF harm <> '' AND public.fragile_int($1) = 8 THEN
			BEGIN
				INSERT INTO public.brittle VALUES (100, '5', 'inner');
				IF harm !~ 'kept' THEN RAISE 'undo'; END IF;
			EXCEPTION WHEN raise_exception THEN NULL; END;
		END IF;
		RETURN int4send(public.fragile_int($1)); END $$;
	ALTER TABLE brittle ADD COLUMN a text; CALL iblt_live_rebuild('brittle')});
foreach my $harm ('undone', 'undone, altered', 'kept', 'kept, altered')
{
	my $write = "SET x.harm = '$harm'; INSERT INTO brittle VALUES (8, '8', 'outer')";
	if ($harm =~ /kept/)
	{
		like(failure("$write; SELECT iblt_live('brittle')"), qr/IB008: .* because a value could not be read$/m, "a row that a send function writes ($harm): no digest");
		sql(q{DELETE FROM brittle WHERE id = 100; CALL iblt_live_rebuild('brittle')});
	}
	else
	{
		sql($write);
		is(right('brittle'), 't', "a row that a send function writes ($harm) leaves the digest right");
	}
	sql('DELETE FROM brittle WHERE id = 8');
}
is(right('brittle'), 't', 'and changes are recorded again');

# --- reading at the wrong moment --------------------------------------------------------------

sql(q{CREATE FUNCTION peek() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM iblt_live('t'); RETURN 1; END $$;
	CREATE FUNCTION peeking() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM peek(); RETURN NULL; END $$});
my $half = qr/55006: digest of table "t" cannot be read while a statement may be changing it/;
like(failure('INSERT INTO t (id) VALUES (6000) RETURNING peek()'), $half, 'RETURNING sees rows whose triggers have not fired, and no digest');
sql('CREATE TRIGGER a_peek AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION peeking()');
like(failure('INSERT INTO t (id) VALUES (6001)'), $half, 'and so does a trigger');
sql('DROP TRIGGER a_peek ON t');
like(failure("BEGIN; DECLARE c CURSOR FOR SELECT iblt_live('t'); INSERT INTO t (id) VALUES (6002); FETCH c"),
	qr/55000: digest cannot be read in a snapshot that is older/, 'a snapshot that is older than own changes gives no digest');
like(failure("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT iblt_live_merge('t')"), qr/25001: digests cannot be written/, 'a merge in REPEATABLE READ is refused');
is(sql("BEGIN; INSERT INTO t (id) VALUES (6003); PREPARE TRANSACTION 'x'; SELECT iblt_internal.live_is_right('t', iblt_internal.iblt_live_options('t')); COMMIT PREPARED 'x'"), 't',
	'the changes of a prepared transaction are not there yet');
is(right('t'), 't', 'and are there once it has committed');

# The two transactions of a start, with changes in between.
my $generation = sql("SELECT iblt_internal.track_start('t', NULL, NULL, 50, NULL)");
like(failure("SELECT iblt_live('t')"), qr/IB008: .* because its first scan has not been finished$/m, 'there is no digest before the first scan');
sql('INSERT INTO t (id) VALUES (6500), (6501); UPDATE t SET n = n + 7 WHERE id < 20; DELETE FROM t WHERE id = 6501');
is(sql("SELECT iblt_live_merge('t')"), '0', 'nor anything to merge');
sql("SELECT iblt_internal.track_scan('t', $generation)");
is(right('t'), 't', 'changes before the first scan count once');
sql("CALL iblt_live_rebuild('t')");
like(failure("SELECT iblt_internal.track_scan('t', $generation)"), qr/55000: tracking of the table was started or ended by another session/, 'a scan for an earlier start is refused');
is(right('t'), 't', 'and changes nothing');

# Sessions with another default can start, and the digest has what commits during the scan.
is(sql(q{SET default_transaction_isolation = serializable; CALL iblt_live_rebuild('t'); SELECT state FROM iblt_live_status() WHERE relation = 't'::regclass}), 'live',
	'a rebuild in SERIALIZABLE');
is(right('t'), 't', 'is right, too');

# --- memory and merging ---------------------------------------------------------------------------

sql(q{CREATE TABLE big (id bigint PRIMARY KEY, a int); CALL iblt_track('big', capacity => 1000)});
my $sketch = sql("SELECT bytes FROM iblt_info(iblt_live('big'))");
my $many = 100_000;
my $changes = "INSERT INTO big SELECT g, g FROM generate_series(1, 3 * $many) g; SAVEPOINT a; UPDATE big SET a = a + 1 WHERE id <= 2 * $many";
{
	my $bytes = sql("BEGIN; $changes; SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'iblt changes'; COMMIT");
	cmp_ok($bytes, '<', 4 * $sketch + 20000, 5 * $many . " changes take $bytes bytes, with sketches of $sketch");
}
{
	my $levels = q{DO $$ BEGIN FOR i IN 1 .. 2000 LOOP
		BEGIN UPDATE big SET a = a + 1 WHERE id = i; IF i % 2 = 0 THEN RAISE no_data_found; END IF; EXCEPTION WHEN no_data_found THEN NULL; END; END LOOP; END $$};
	my $bytes = sql("BEGIN; $levels; SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'iblt changes'; ROLLBACK");
	cmp_ok($bytes, '<', 4 * $sketch + 20000, "changes in many savepoints take $bytes bytes, too");
}
is(right('big'), 't', 'and are in the digest');
wait_for($node, "SELECT unmerged = 0 FROM iblt_live_status() WHERE relation = 'big'::regclass");
is(right('big'), 't', 'a worker merges them by itself');
sql('UPDATE big SET a = a + 1 WHERE id = 1') foreach 1 .. 3;
is(sql("SELECT unmerged FROM iblt_live_status() WHERE relation = 'big'::regclass"), '3', 'few changes are left alone');
is(sql("SELECT iblt_live_merge('big')"), '3', 'until they are merged');
is(sql("SELECT unmerged, rows FROM iblt_live_status() WHERE relation = 'big'::regclass"), '0|' . 3 * $many, 'and the status shows it');

# At the release of a savepoint it is too late for an error.
SKIP:
{
	skip 'no prlimit', 3 if system('command -v prlimit > /dev/null') != 0;
	sql(q{CREATE TABLE scarce (id int PRIMARY KEY); CALL iblt_track('scarce', capacity => 100000)});
	my $session = holding($node, 'BEGIN; INSERT INTO scarce SELECT generate_series(1, 70000); SAVEPOINT a; INSERT INTO scarce SELECT generate_series(70001, 140000)');
	system('prlimit', '--pid', $session->{pid}, '--as=1:') == 0 || die 'prlimit fails';
	$session->run('RELEASE a');
	system('prlimit', '--pid', $session->{pid}, '--as=unlimited:') == 0 || die 'prlimit fails';
	$session->run(q{SAVEPOINT b; INSERT INTO scarce VALUES (0); RELEASE b; COMMIT; SET statement_timeout = '1 ms'; SELECT pg_sleep(10)});
	like($session->{err}, qr/ERROR:  57014: canceling statement due to statement timeout$/m, 'a session that had no memory for the changes of a savepoint can be cancelled');
	$session->quit;
	is(sql('SELECT count(*) FROM scarce'), '140001', 'and has committed');
	like(failure("SELECT iblt_live('scarce')"), qr/IB008: .* because there was not enough memory for its changes$/m, 'but there is no digest');
}

# --- a scan that finds other rows -----------------------------------------------------------------

$node->safe_psql('postgres', 'SET session_replication_role = replica; SET allow_system_table_mods = on; UPDATE pg_class SET relhastriggers = false WHERE relname = $$big$$');
sql('DELETE FROM big WHERE id = 7; UPDATE pg_class SET relhastriggers = true WHERE relname = $$big$$');
is(sql("SELECT iblt_live_verify('big')"), 'f', 'iblt_live_verify finds what no trigger saw');
like(failure("SELECT iblt_live('big')"), qr/IB008: .* because a scan has found other rows$/m, 'and there is no digest from then on');
healed('big', 'a scan that finds other rows');

sql('DROP TABLE brittle; DROP TYPE fragile CASCADE');

# --- functions of a type -------------------------------------------------------------------------

sql(q{CREATE TYPE unit; CREATE FUNCTION unit_in(cstring) RETURNS unit LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
	CREATE FUNCTION unit_out(unit) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
	CREATE FUNCTION unit_send(unit) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int4send';
	CREATE FUNCTION unit_bytes(unit) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int4send';
	CREATE TYPE unit (INPUT = unit_in, OUTPUT = unit_out, SEND = unit_send, LIKE = int4);
	CREATE TABLE units (id int PRIMARY KEY, v unit, w unit[]); INSERT INTO units VALUES (1, '1', '{2}'); CALL iblt_track('units')});
foreach my $case (
	[ 'a replaced send function', q{CREATE OR REPLACE FUNCTION unit_send(unit) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int2send'} ],
	[ 'another send function', 'ALTER TYPE unit SET (SEND = unit_bytes)' ])
{
	my ($name, $harm) = @$case;
	sql($harm);
	sql(q{INSERT INTO units SELECT max(id) + 1, '1', '{2}' FROM units});
	like(failure("SELECT iblt_live('units')"), qr/IB008: .* because \Q$changed\E$/m, "$name: no digest");
	healed('units', $name);
}

# --- stores that are not found -------------------------------------------------------------------

# A session that has found a store knows it by its OID.
IbltTest::share_sessions(0);

foreach my $rename ([ 'SCHEMA iblt_internal', 'SCHEMA elsewhere', 'elsewhere' ], map { [ "MATERIALIZED VIEW iblt_internal.$_", "MATERIALIZED VIEW iblt_internal.${_}x", "${_}x" ] } 'tracked', map { "changes_$_" } 1, 4, 8)
{
	my ($before, $after, $name) = @$rename;
	sql("ALTER $before RENAME TO $name");
	my ($failed, $none, $said) = $node->psql('postgres', "INSERT INTO units SELECT max(id) + 1, '1', '{2}' FROM units");
	like($said, qr/ERROR:  changes of tracked tables cannot be recorded/, "without $before, statements fail") if $before =~ /SCHEMA|tracked/;
	sql("ALTER $after RENAME TO " . $before =~ s/.*[ .]//r);
	is(right('units'), 't', "no change is lost while $before has another name");
}

# --- stores with exchanged names -----------------------------------------------------------------

# What a new session writes while another relation has a store's name, or two stores have
# exchanged theirs, is not lost: the statement fails, or the digest has it.
my $swap = sub { my ($a, $b) = @_; return "ALTER MATERIALIZED VIEW iblt_internal.$a RENAME TO iblt_x; ALTER MATERIALIZED VIEW iblt_internal.$b RENAME TO $a; ALTER MATERIALIZED VIEW iblt_internal.iblt_x RENAME TO $b" };
foreach my $name ('tracked', 'base', map { "changes_$_" } 1, 4, 8)
{
	sql("ALTER MATERIALIZED VIEW iblt_internal.$name RENAME TO away; CREATE MATERIALIZED VIEW iblt_internal.$name AS SELECT * FROM iblt_internal.away WITH NO DATA");
	my $before = sql('SELECT count(*) FROM units');
	my ($failed, $none, $said) = $node->psql('postgres', "INSERT INTO units SELECT max(id) + 1, '1', '{2}' FROM units");
	my $after = sql('SELECT count(*) FROM units');
	like($said, qr/ERROR:  changes of tracked tables cannot be recorded/, "$name is another relation: the statement fails") if $after == $before;
	sql("DROP MATERIALIZED VIEW iblt_internal.$name; ALTER MATERIALIZED VIEW iblt_internal.away RENAME TO $name");
	is(right('units'), 't', "no change is lost while another relation is $name");
}
foreach my $pair ([ 'tracked', 'base' ], [ 'tracked', 'changes_8' ], [ 'base', 'changes_1' ], map { [ 'changes_1', "changes_$_" ] } 2, 8)
{
	my ($one, $other) = @$pair;
	sql($swap->($one, $other));
	$node->psql('postgres', "INSERT INTO units SELECT max(id) + 1, '1', '{2}' FROM units");
	sql($swap->($one, $other));
	is(right('units'), 't', "no change is lost while $one and $other have exchanged names");
}

# --- copies of the database ----------------------------------------------------------------------

$node->command_ok([ 'pg_dump', '-h', $node->host, '-p', $node->port, '-Fc', '-f', $node->basedir . '/dump', 'postgres' ], 'the database is dumped');
sql('CREATE DATABASE restored');
$node->command_ok([ 'pg_restore', '-h', $node->host, '-p', $node->port, '-d', 'restored', $node->basedir . '/dump' ], 'and restored');
is($node->safe_psql('restored', q{SELECT DISTINCT state, reason, rows FROM iblt_live_status()}), 'not trustworthy|this database has no record of it|', 'the dump has no digests, and the status says so');
is($node->safe_psql('restored', q{SELECT string_agg(relation::text, ' ') FROM iblt_live_status()}), sql(q{SELECT string_agg(relation::text, ' ') FROM iblt_live_status()}), 'of all tables that were tracked');
is($node->safe_psql('restored', 'CREATE ROLE unprivileged; SET ROLE unprivileged; SELECT count(*) FROM iblt_live_status()'), '0', 'but not to roles that cannot read them');
$node->safe_psql('restored', 'UPDATE t SET n = n + 1');
my ($rc, $out, $err) = $node->psql('restored', "SELECT iblt_live('t')");
like($err, qr/not trustworthy, because this database has no record of it/, 'restored triggers without a digest are noticed');
$node->safe_psql('restored', "CALL iblt_track('t')");
is($node->safe_psql('restored', "SELECT iblt_live_verify('t')"), 't', 'iblt_track makes a new one');
foreach my $call ("SELECT iblt_live('part')", "SELECT iblt_live_verify('part')", "CALL iblt_live_rebuild('part')")
{
	my (undef, undef, $said) = $node->psql('restored', $call);
	like($said, qr/HINT:  CALL iblt_track\('public.part'\)/, "$call: a hint what to call");
}
$node->safe_psql('restored', "CALL iblt_track('public.part')");
is($node->safe_psql('restored', "SELECT iblt_live_verify('part')"), 't', 'which heals it');
sql('SELECT 1');
$node->safe_psql('template1', 'CREATE DATABASE copied TEMPLATE postgres');
($rc, $out, $err) = $node->psql('copied', "SELECT iblt_live('t')");
like($err, qr/not trustworthy, because this is a copy of the database that made it/, 'a copy of the database is noticed');
$node->safe_psql('copied', "CALL iblt_live_rebuild('t')");
is($node->safe_psql('copied', "SELECT iblt_live_verify('t')"), 't', 'and rebuilt');

# --- the extension and the table go -------------------------------------------------------------------

$node->safe_psql('copied', q{BEGIN; INSERT INTO t (id) VALUES (7000); SET client_min_messages = error; DROP EXTENSION iblt CASCADE; INSERT INTO t (id) VALUES (7001); COMMIT});
is($node->safe_psql('copied', 'SELECT count(*) FROM t WHERE id >= 7000'), '2', 'a transaction that drops the extension commits its changes');
sql('BEGIN; INSERT INTO big VALUES (-1); DROP TABLE big; COMMIT');
is(sql("SELECT count(*) FROM iblt_live_status() WHERE relation::text = 'big'"), '0', 'a dropped table is no longer listed');
sql("CALL iblt_untrack('t')");
is(sql("SELECT count(*) FROM pg_trigger WHERE tgrelid = 't'::regclass AND tgname ~ 'iblt'"), '0', 'iblt_untrack removes the triggers');
like(failure("SELECT iblt_live('t')"), qr/55000: table "t" is not tracked/, 'and the digest');

done_testing();
