# Changes that are made while a transaction commits.  If the library is loaded by
# another extension's callback then, its own callback is not called, and the changes
# are lost.  The digest is not trustworthy then, and the fences that see to it are
# removed in all other transactions.
use IbltTest;

IbltTest::share_sessions(0);

my $node = ready('late', 'max_prepared_transactions = 10', 'fsync = off', 'autovacuum = off');
inside($node);
sides($node, $node);

# Each call is a session of its own, so that the library is loaded anew.
sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

# --- an extension that runs SQL while a transaction commits ----------------------------

my $library = compiled('test/late/late.c', $node->basedir);
sql(qq{CREATE FUNCTION late(text, read_only boolean DEFAULT false) RETURNS void AS '$library' LANGUAGE C STRICT;
	CREATE TABLE t (id int PRIMARY KEY, a int DEFAULT 0);
	CREATE TABLE u (id int PRIMARY KEY);
	INSERT INTO t SELECT generate_series(1, 100);
	CREATE FUNCTION is_right() RETURNS boolean LANGUAGE plpgsql STABLE AS \$\$ BEGIN
		RETURN iblt_internal.live_is_right('t', iblt_internal.iblt_live_options('t')); END \$\$;
	CREATE FUNCTION expect_right() RETURNS void LANGUAGE plpgsql STABLE AS \$\$ BEGIN
		IF NOT is_right() THEN RAISE 'the digest is wrong'; END IF; END \$\$;
	CALL iblt_track('t', capacity => 20);
	CALL iblt_track('u', capacity => 20)});

# --- lost changes ------------------------------------------------------------------------

my $lost = qr/IB008: digest of table "t" is not trustworthy, because changes of a transaction were lost$/m;

sub lost
{
	my ($text) = @_;
	like(failure("SELECT iblt_live('t')"), $lost, "$text: no digest");
	is(sql("SELECT state FROM iblt_live_status() WHERE relation = 't'::regclass"), 'not trustworthy', "$text: the status says so");
	is(sql("SELECT iblt_live_merge('t')"), '0', "$text: nothing is merged");
	sql("CALL iblt_live_rebuild('t')");
	is(sql('SELECT is_right()'), 't', "$text: a rebuild heals it");
	return;
}

sql(q{SELECT late('INSERT INTO t VALUES (201)')});
is(sql('SELECT count(*) FROM t WHERE id = 201'), '1', 'a change is made late');
lost('a late change');
sql(q{SELECT late('DO $$ BEGIN BEGIN INSERT INTO t VALUES (202); EXCEPTION WHEN OTHERS THEN NULL; END; UPDATE t SET a = 1 WHERE id < 50; PERFORM expect_right(); END $$')});
lost('late changes in a savepoint, which see themselves');
sql(q{SELECT late('DO $$ BEGIN INSERT INTO t VALUES (203); BEGIN UPDATE t SET a = 2; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; END $$')});
lost('late changes, some of them rolled back');
sql(q{SELECT late('TRUNCATE u; DELETE FROM t WHERE id = 5')});
lost('a late TRUNCATE of another table');
sql("CALL iblt_live_rebuild('u')");
sql(q{BEGIN; SELECT late('INSERT INTO t VALUES (204)'); PREPARE TRANSACTION 'late'});
is(sql('SELECT is_right()'), 't', 'a late change of a prepared transaction does no harm before it is committed');
sql(q{COMMIT PREPARED 'late'});
lost('a late change of a prepared transaction');

# --- late changes that are not lost -------------------------------------------------------

foreach my $case (
	[ 'a late change that is rolled back', q{SELECT late('DO $$ BEGIN INSERT INTO t VALUES (300); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END $$')} ],
	[ 'a late change after others', q{BEGIN; UPDATE t SET a = 3; SELECT late('INSERT INTO t VALUES (301)'); COMMIT} ],
	[ 'a late change before others go to the store', q{SELECT late('SELECT 1'); BEGIN; SELECT late('INSERT INTO t VALUES (302)'); UPDATE t SET a = 4; COMMIT} ],
	[ 'a late change in a second transaction', q{INSERT INTO u VALUES (1); SELECT late('INSERT INTO t VALUES (303)')} ],
	[ 'a late read of changes', q{SELECT late('SELECT 1'); BEGIN; UPDATE t SET a = 5 WHERE id < 9; SELECT late('SELECT expect_right()', true); COMMIT} ],
	[ 'the same in a second transaction', q{SELECT late('SELECT 1'); DELETE FROM u; BEGIN; UPDATE t SET a = 6 WHERE id < 9; SELECT late('SELECT expect_right()', true); COMMIT} ],
	[ 'a late change and a read of it', q{SELECT late('SELECT 1'); BEGIN; UPDATE t SET a = 7; SELECT late('UPDATE t SET a = a + 1; SELECT expect_right()'); COMMIT} ])
{
	my ($name, $sql) = @$case;
	sql($sql);
	is(sql('SELECT is_right()'), 't', "$name is in the digest");
}

# The library's callback is called if the library was loaded before.
{
	local $ENV{PGOPTIONS} = '-c session_preload_libraries=iblt';
	sql(q{SELECT late('INSERT INTO t VALUES (304)')});
}
is(sql('SELECT count(*), is_right() FROM t WHERE id = 304'), '1|t', 'a late change of a session that loads the library when it begins is in the digest');

# --- the first transaction of a session ------------------------------------------------------

# All of them put up fences, and none is left.  Most look at their own digest meanwhile.
my $see = 'SELECT expect_right()';
foreach my $case (
	[ 'one change', "INSERT INTO t VALUES (400)" ],
	[ 'a change that is read', "BEGIN; INSERT INTO t VALUES (401); $see; COMMIT" ],
	[ 'a rollback', "BEGIN; INSERT INTO t VALUES (402); $see; ROLLBACK" ],
	[ 'savepoints', "BEGIN; SAVEPOINT a; DELETE FROM t WHERE id = 1; $see; SAVEPOINT b; DELETE FROM t WHERE id = 2; $see; ROLLBACK TO b; $see;
		RELEASE a; $see; DELETE FROM t WHERE id = 3; SAVEPOINT c; DELETE FROM t WHERE id = 4; RELEASE c; $see; COMMIT" ],
	[ 'a savepoint rolled back before a change', "BEGIN; SAVEPOINT a; DELETE FROM t WHERE id = 11; $see; ROLLBACK TO a; $see; SAVEPOINT b; DELETE FROM t WHERE id = 12; $see; COMMIT" ],
	[ 'a change before a savepoint that is rolled back', "BEGIN; DELETE FROM t WHERE id = 13; SAVEPOINT a; DELETE FROM t WHERE id = 14; DELETE FROM u; $see; ROLLBACK TO a; $see; COMMIT" ],
	[ 'many changes', "BEGIN; INSERT INTO t SELECT generate_series(1000, 3000); $see; SAVEPOINT a; DELETE FROM t WHERE id > 1000; RELEASE a; $see; COMMIT" ],
	[ 'a prepared transaction', "BEGIN; INSERT INTO t VALUES (403); SAVEPOINT a; INSERT INTO u VALUES (403); PREPARE TRANSACTION 'p'; $see; COMMIT PREPARED 'p'" ],
	[ 'a merge', "BEGIN; INSERT INTO t VALUES (404); SELECT iblt_live_merge('t'); $see; COMMIT" ],
	[ 'a verification', "BEGIN; INSERT INTO t VALUES (405); SELECT iblt_live_verify('t'); $see; COMMIT" ],
	[ 'REPEATABLE READ', "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; INSERT INTO t VALUES (406); $see; COMMIT" ],
	[ 'another table that is no longer tracked', "BEGIN; INSERT INTO u VALUES (1000); INSERT INTO t VALUES (407); CALL iblt_untrack('u'); $see; COMMIT" ])
{
	my ($name, $sql) = @$case;
	sql($sql);
	is(sql('SELECT is_right()'), 't', "first transaction, $name: the digest is right");
	is(sql("SELECT state FROM iblt_live_status() WHERE relation = 't'::regclass"), 'live', "first transaction, $name: the status says live");
}
sql("BEGIN; INSERT INTO t VALUES (500); REFRESH MATERIALIZED VIEW iblt_internal.changes_1; REFRESH MATERIALIZED VIEW iblt_internal.changes_2; COMMIT");
is(sql('SELECT count(*) FROM t WHERE id = 500'), '1', 'a transaction that refreshes the stores commits');
like(failure("SELECT iblt_live('t')"), qr/IB008: .* because its changes were removed from the store$/m, 'and the digest is not trustworthy');
sql("CALL iblt_live_rebuild('t')");
is(sql('SELECT is_right()'), 't', 'until it is rebuilt');

done_testing();
