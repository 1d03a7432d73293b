# iblt_repair when all is against it: a hostile peer, missing rights, rows that
# change meanwhile, cancels and sessions that end; nothing is changed by half, and
# nothing is left behind.
use IbltRepair;

my ($here, $there) = repair_servers();

# --- a hostile peer -----------------------------------------------------------------------------

# Its owner can make it answer what it likes; what it says is data here, never SQL.
$there->safe_psql('postgres', 'CREATE DATABASE hostile');
$there->safe_psql('hostile', q{CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE TABLE bait (id int PRIMARY KEY, v text); INSERT INTO bait VALUES (1, '''); CREATE TABLE public.hijacked (); --')});
$here->safe_psql('postgres', 'CREATE TABLE bait (id int PRIMARY KEY, v text)');
{
	my $hostile = literal($there->connstr('hostile'));
	is($here->safe_psql('postgres', "SELECT sql FROM iblt_repair('bait', $hostile, direction => 'pull')"),
		"INSERT INTO public.bait (id, v) VALUES ('1'::pg_catalog.int4, '''); CREATE TABLE public.hijacked (); --'::pg_catalog.text);", 'a hostile peer: what it says is quoted');
	is($here->safe_psql('postgres', "SELECT status FROM iblt_repair('bait', $hostile, direction => 'pull', apply => true)"), 'applied', 'and applied as data');
	is($here->safe_psql('postgres', q{SELECT to_regclass('public.hijacked') IS NULL}), 't', 'never run');

	# to the rows that it is asked for it adds one
	my $table = 'CREATE TABLE listed (id int PRIMARY KEY, v int); INSERT INTO listed SELECT g, g FROM generate_series(1, 10) g';
	$_->[0]->safe_psql($_->[1], $table) foreach [ $here, 'postgres' ], [ $there, 'hostile' ];
	$here->safe_psql('postgres', 'UPDATE listed SET v = 0 WHERE id = 5');
	$there->safe_psql('hostile', q{CREATE OR REPLACE FUNCTION iblt_internal.read_planned(query text, keys text[] DEFAULT NULL, lo text[] DEFAULT NULL, hi text[] DEFAULT NULL,
			described iblt_internal.described[] DEFAULT NULL) RETURNS record LANGUAGE plpgsql SET row_security = off AS $$
		DECLARE
			answer record;
		BEGIN
			PERFORM iblt_internal.read_begin(described);
			IF query LIKE '%array_agg(iblt_c1)%' THEN
				query := format('SELECT id, key, n, r, checksum, mark, content, ARRAY[ARRAY[columns[1][1], ''1''], ARRAY[columns[2][1], ''666'']], fingerprint'
					' FROM (%s) AS q(id, key, n, r, checksum, mark, content, columns, fingerprint)', query);
			END IF;
			EXECUTE query INTO answer USING keys, lo, hi;
			RETURN answer;
		END $$});
	like(failure("SELECT * FROM iblt_repair('listed', $hostile, direction => 'pull', apply => true)"), qr/22000: a side answered with rows of other keys than it was asked for/, 'a row that it was not asked for');
	is($here->safe_psql('postgres', 'SELECT v FROM listed WHERE id IN (1, 5) ORDER BY id'), "1\n0", 'is not written');

	# in place of the row that it is asked for it gives another one, and says later that it has what the target has
	$there->safe_psql('hostile', q{CREATE TABLE shown (LIKE listed INCLUDING ALL); INSERT INTO shown VALUES (5, 0);
		CREATE OR REPLACE FUNCTION iblt_internal.read_planned(query text, keys text[] DEFAULT NULL, lo text[] DEFAULT NULL, hi text[] DEFAULT NULL,
			described iblt_internal.described[] DEFAULT NULL) RETURNS record LANGUAGE plpgsql SET row_security = off AS $$
		DECLARE
			answer record;
			names text := '(id, key, n, r, checksum, mark, content, columns, fingerprint)';
		BEGIN
			EXECUTE CASE WHEN query LIKE '%array_agg(iblt_c1)%'
				THEN format('SELECT id, key, n, r, checksum, mark, content, %L::text[], fingerprint FROM (%s) AS q%s', '{{1},{666}}', query, names)
				ELSE format('SELECT q.id, q.key, q.n, q.r, p.checksum, q.mark, q.content, q.columns, q.fingerprint FROM (%s) AS q%s, (%s) AS p%s',
					query, names, replace(query, 'public.listed', 'public.shown'), names) END INTO answer USING keys, lo, hi;
			RETURN answer;
		END $$});
	like(failure("SELECT * FROM iblt_repair('listed', $hostile, direction => 'pull', apply => true)"), qr/27000: after the repair, the rows of 1 keys are not as on the source/, 'another row than it was asked for');
	is($here->safe_psql('postgres', 'SELECT v FROM listed WHERE id IN (1, 5) ORDER BY id'), "1\n0", 'is not written either');

	# of a key that several rows may have it gives more rows than it has counted
	$_->[0]->safe_psql($_->[1], 'CREATE TABLE counted (k int, v text)') foreach [ $here, 'postgres' ], [ $there, 'hostile' ];
	$there->safe_psql('hostile', q{INSERT INTO counted VALUES (1, 'a')});
	$there->safe_psql('hostile', q{CREATE OR REPLACE FUNCTION iblt_internal.read_heap(query text, keys text[] DEFAULT NULL, lo text[] DEFAULT NULL, hi text[] DEFAULT NULL,
			described iblt_internal.described[] DEFAULT NULL) RETURNS record LANGUAGE plpgsql SET enable_indexscan = off AS $f$
		DECLARE
			answer record;
		BEGIN
			PERFORM iblt_internal.read_begin(described);
			EXECUTE replace(query, 'jsonb_agg(jsonb_build_array(n, content, checksum::text) ORDER BY checksum)', '$$[[1,["1","a"],"0"],[1,["2","b"],"0"]]$$::jsonb')
				INTO answer USING keys, lo, hi;
			RETURN answer;
		END $f$});
	like(failure("SELECT * FROM iblt_repair('counted', $hostile, key_columns => '{k}', direction => 'pull', apply => true)"), qr/22000: a side answered with other rows of a key than it counted/, 'more rows than it has counted');
	is($here->safe_psql('postgres', 'SELECT count(*) FROM counted'), '0', 'are not written');

	# for a key it gives the row of another one, in all that it answers
	$_->[0]->safe_psql($_->[1], 'CREATE TABLE moved (id int PRIMARY KEY, v int); INSERT INTO moved VALUES (1, 1)') foreach [ $here, 'postgres' ], [ $there, 'hostile' ];
	$there->safe_psql('hostile', 'INSERT INTO moved VALUES (6, 6)');
	$there->safe_psql('hostile', qq{CREATE OR REPLACE FUNCTION iblt_internal.$_(query text, keys text[] DEFAULT NULL, lo text[] DEFAULT NULL, hi text[] DEFAULT NULL,
			described iblt_internal.described[] DEFAULT NULL) RETURNS record LANGUAGE plpgsql SET row_security = off AS \$\$
		DECLARE
			answer record;
			id text := '(CASE t.id WHEN 6 THEN 7 ELSE t.id END)';
		BEGIN
			EXECUTE replace(replace(query, 't.id, t.v)', id || ', t.v)'), 't.id::pg_catalog.text', id || '::text') INTO answer USING keys, lo, hi;
			RETURN answer;
		END \$\$}) foreach qw(read_heap read_planned);
	like(failure("SELECT * FROM iblt_repair('moved', $hostile, direction => 'pull', apply => true)"), qr/27000: after the repair, the rows of 1 keys are not as on the source/, 'the row of another key');
	is($here->safe_psql('postgres', 'SELECT id FROM moved'), '1', 'is not inserted');
}

# --- rights -----------------------------------------------------------------------------------

both("CREATE ROLE fixer LOGIN PASSWORD 'right'; CREATE TABLE rights (id int PRIMARY KEY, v text); INSERT INTO rights SELECT g, g FROM generate_series(1, 100) g; GRANT SELECT ON rights TO fixer");
foreign_server($here, 'node b', $there, 'fixer', 'right');
$here->safe_psql('postgres', 'GRANT USAGE ON SCHEMA "db ""link" TO fixer');
$there->safe_psql('postgres', 'GRANT USAGE ON SCHEMA "Their Iblt" TO fixer');
foreach my $side ([ $here, $there, 'pull', '' ], [ $there, $here, 'push', 'on the peer: ' ])
{
	my ($node, $other, $direction, $where) = @$side;
	$node->safe_psql('postgres', 'DELETE FROM rights WHERE id = 7; UPDATE rights SET v = -1 WHERE id = 8; INSERT INTO rights VALUES (200)');
	my $all = sub { return 'SELECT * FROM ' . call('rights', $direction, $_[0], "'node b'") };
	my $before = contents($node, 'rights');
	is(failure($all->(''), user => 'fixer'), '', "$direction: SELECT is enough for a preview");
	like(failure($all->('apply => true'), user => 'fixer'), qr/42501: ${where}permission denied for table rights/, 'but not to apply');
	like(failure($all->('updates => false, deletes => false, apply => true'), user => 'fixer'), qr/42501: ${where}permission denied for table rights/, 'not even inserts');
	is(contents($node, 'rights'), $before, 'and nothing was changed');
	$node->safe_psql('postgres', 'GRANT INSERT ON rights TO fixer');
	is(repair('rights', $direction, 'updates => false, deletes => false, apply => true', user => 'fixer', peer => "'node b'"),
		"delete {\"id\": 200} skipped deletes => false\ninsert {\"id\": 7} applied\nupdate {\"id\": 8} skipped updates => false", 'INSERT is enough to insert');
	$node->safe_psql('postgres', 'GRANT UPDATE ON rights TO fixer');
	is(repair('rights', $direction, 'deletes => false, apply => true', user => 'fixer', peer => "'node b'"),
		"delete {\"id\": 200} skipped deletes => false\nupdate {\"id\": 8} applied", 'UPDATE to update');
	$node->safe_psql('postgres', 'GRANT DELETE ON rights TO fixer; CREATE TABLE refers (r int REFERENCES rights ON DELETE CASCADE)');
	like(failure($all->('apply => true'), user => 'fixer'), qr/2BP01: the repair would change rows beyond.*rows of public.refers, which may not be read, may refer/s, 'rows that may refer and may not be read are refused');
	$node->safe_psql('postgres', 'DROP TABLE refers');
	is(repair('rights', $direction, 'apply => true', user => 'fixer', peer => "'node b'"), 'delete {"id": 200} applied', 'DELETE to delete');
	same('rights', $direction);
	$node->safe_psql('postgres', 'ALTER TABLE rights ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON rights USING (id > 10)');
	like(failure($all->(''), user => 'fixer'), qr/42501: ${where}query would be affected by row-level security/, 'rows that a policy hides are not passed over');
	$node->safe_psql('postgres', 'ALTER TABLE rights DISABLE ROW LEVEL SECURITY');
}
{
	# a connection string is in no message or log
	my ($h, $t) = (-s $here->logfile, -s $there->logfile);
	$there->safe_psql('postgres', 'UPDATE rights SET v = NULL WHERE id = 5; REVOKE UPDATE ON rights FROM fixer');
	my $string = literal("host=${\ $there->host} port=${\ $there->port} dbname=postgres user=fixer password=right");
	my $err = failure('SELECT * FROM ' . call('rights', 'push', 'apply => true', $string));
	like($err, qr/42501: on the peer: permission denied/, 'an error with a connection string');
	unlike($err . slurp_file($here->logfile, $h) . slurp_file($there->logfile, $t), qr/password=right/, 'shows the password nowhere');
}

# --- a crash -----------------------------------------------------------------------------------

both(q{CREATE TABLE crash (id int PRIMARY KEY, v text); CREATE TABLE seen (said text); CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
	CREATE TRIGGER see AFTER INSERT ON crash FOR EACH ROW EXECUTE FUNCTION see()});
foreach my $side ([ $here, $there, 'pull' ], [ $there, $here, 'push' ])
{
	my ($node, $source, $direction) = @$side;
	my %kept = (off => 'local', remote_write => 'remote_write');
	foreach my $setting (sort keys %kept)
	{
		both('TRUNCATE crash, seen');
		$source->safe_psql('postgres', "INSERT INTO crash VALUES (1, 'lost?')");
		my $repair = call('crash', $direction, 'apply => true', literal($there->connstr('postgres') . " options='-c synchronous_commit=$setting'"));
		my $out = $here->safe_psql('postgres', "BEGIN; SET LOCAL synchronous_commit = $setting; SELECT status FROM $repair; SHOW synchronous_commit; COMMIT");
		is($out, "applied\n" . ($direction eq 'pull' ? $kept{$setting} : $setting), "$direction, synchronous_commit = $setting");
		is($node->safe_psql('postgres', 'SELECT said FROM seen'), $kept{$setting}, 'is what applies to the target');
	}
}

# --- what happens meanwhile -----------------------------------------------------------------

both("CREATE TABLE busy (id int PRIMARY KEY, v text); INSERT INTO busy SELECT g, g FROM generate_series(1, 100) g");
my $waiting = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR UPDATE OF%' AND state = 'active'";
my $waiting_here = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%iblt_repair(%' AND state = 'active'";
# A repair ends while it waits for a lock.  076_repair_errors.pl has those that end while they write.
foreach my $side ([ $here, 'pull' ], [ $there, 'push' ])
{
	my ($node, $direction) = @$side;
	foreach my $how ([ $here, 'pg_cancel_backend', qr/canceling statement due to user request/ ], [ $here, 'pg_terminate_backend', qr/terminating connection|server closed/ ],
		[ $there, 'pg_cancel_backend', qr/on the peer: canceling statement/ ], [ $there, 'pg_terminate_backend', qr/on the peer: |could not/ ])
	{
		my ($victim, $what, $error) = @$how;
		# while this side waits, the peer has nothing to cancel
		next if $direction eq 'pull' && $victim == $there && $what =~ /cancel/;
		$node->safe_psql('postgres', "UPDATE busy SET v = 'drift' || random() WHERE id BETWEEN 3 AND 9; DELETE FROM busy WHERE id > 90 OR id < 0; INSERT INTO busy VALUES (-1)");
		my $before = contents($node, 'busy');
		my $holder = holding($node, 'BEGIN; SELECT * FROM busy WHERE id = 5 FOR UPDATE');
		my $repair = background($here, 'SELECT count(*) FROM ' . call('busy', $direction, 'apply => true'));
		ok($node->poll_query_until('postgres', $direction eq 'pull' ? $waiting_here : $waiting), "$direction waits");
		$victim->safe_psql('postgres', "SELECT $what(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
			  . ($victim == $here ? "query LIKE 'SELECT count(*) FROM iblt_repair(%'" : "application_name LIKE 'iblt_repair%'"));
		# what ends there is noticed here when its answer is wanted
		$holder->run('COMMIT') if $direction eq 'pull' && $victim == $there;
		finish($repair);
		like($repair->{err}, $error, "$what of " . $victim->name . ': an error');
		is($repair->{out}, '', 'and no rows');
		$holder->quit;
		nothing_open("$direction, $what of " . $victim->name);
		is(contents($node, 'busy'), $before, 'nothing was changed');
	}
}
repair('busy', $_, 'apply => true') foreach ('pull', 'push');
same('busy', 'after all that');

# this side cannot tell what was done
{
	my $parts = 'iblt_internal.repair_parts(works iblt_internal.repair_work[])';
	$there->safe_psql('postgres', "UPDATE busy SET v = 'drift' WHERE id = 48");
	$here->safe_psql('postgres', "ALTER FUNCTION $parts RENAME TO repair_parts_it; CREATE FUNCTION $parts RETURNS SETOF text LANGUAGE sql AS 'SELECT p || '' WHERE 1 / 0 = 0'' FROM iblt_internal.repair_parts_it(works) AS p'");
	like(failure('SELECT * FROM ' . call('busy', 'push', 'apply => true')), qr/22012: division by zero/, 'an error here, when the peer has yet to COMMIT');
	is($there->safe_psql('postgres', 'SELECT v FROM busy WHERE id = 48'), 'drift', 'and nothing was changed there');
	$here->safe_psql('postgres', "DROP FUNCTION $parts; ALTER FUNCTION iblt_internal.repair_parts_it RENAME TO repair_parts");
	repair('busy', 'push', 'apply => true');
}

# This side is cancelled while the peer's COMMIT waits for a standby that does not exist.  IbltRepairs.pm has an answer that is lost.
$there->safe_psql('postgres', "UPDATE busy SET v = 'drift' WHERE id = 50");
synchronous($there, 'nobody');
{
	my $repair = background($here, 'SELECT count(*) FROM ' . call('busy', 'push', 'apply => true'));
	ok($there->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'iblt_repair%'"), 'COMMIT is under way');
	$here->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT count(*) FROM iblt_repair(%'");
	finish($repair);
	like($repair->{err}, qr/ERROR:  the outcome is unknown: the peer's answer to COMMIT was lost \(canceling statement due to user request\)/, 'nor does a cancel here tell whether the peer commits');
}
synchronous($there, '');

nothing_open('at the end');

done_testing();
