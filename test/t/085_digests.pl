# Digests that triggers keep up to date: in every snapshot the digest is the sketch
# of a scan, byte for byte, while sessions write, roll back, prepare and merge, and
# after immediate shutdowns.  A standby reads them.  087_digests_rounds.pl has a subscriber.
#
#	IBLT_TEST_LONG    1: ten times as long
use IbltTest;

my $seed = random_seed();
my $long = $ENV{IBLT_TEST_LONG} ? 10 : 1;
my $node = ready('tracked', 'max_connections = 40', 'max_prepared_transactions = 40', 'deadlock_timeout = 50ms', 'fsync = off', 'autovacuum_naptime = 1s');
inside($node);
my $dir = $node->basedir;
# before PostgreSQL 15, pgbench gives a client up after a deadlock
my $deadlock = major_version() < 15 ? 'EXCEPTION WHEN deadlock_detected THEN RETURN NULL;' : '';

# --- tables of many kinds, and random work on them ------------------------------------

append_to_file("$dir/items.copy", join('', map { "$_\tcopied $_\t0.5\n" } 500 .. 620));
chmod 0644, "$dir/items.copy";
$node->safe_psql('postgres', qq{
	CREATE TABLE items (id int PRIMARY KEY, name text, price numeric);
	CREATE TABLE parts (item int REFERENCES items ON DELETE CASCADE ON UPDATE CASCADE, n smallint, note text COLLATE "C", PRIMARY KEY (item, n));
	CREATE TABLE names (name text PRIMARY KEY, id uuid, tags text[], doc jsonb, twice int GENERATED ALWAYS AS (length(name) * 2) STORED);
	CREATE TABLE days (day date, id bigint, what text, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
	CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2020-01-01') TO ('2020-01-11');
	CREATE TABLE days_2 (gone int, what text, id bigint NOT NULL, day date NOT NULL);
	ALTER TABLE days_2 DROP COLUMN gone;
	ALTER TABLE days ATTACH PARTITION days_2 FOR VALUES FROM ('2020-01-11') TO ('2021-01-01');
	INSERT INTO items SELECT g, 'item ' || g, g FROM generate_series(1, 300) g;
	INSERT INTO parts SELECT g, 1, 'part' FROM generate_series(1, 300) g;

	-- what other triggers do
	CREATE FUNCTION tidy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.note := NEW.note || ''.''; RETURN NEW; END';
	CREATE TRIGGER tidy BEFORE INSERT OR UPDATE ON parts FOR EACH ROW EXECUTE FUNCTION tidy();
	CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
		UPDATE names SET tags = tags || ''later''::text WHERE name = ''n'' || NEW.id % 50; RETURN NULL; $deadlock END';
	CREATE CONSTRAINT TRIGGER later AFTER INSERT OR UPDATE ON items DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION later();

	-- one random piece of work
	CREATE FUNCTION work(r int, k int) RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		CASE r
		WHEN 1 THEN INSERT INTO items VALUES (k, 'new', k) ON CONFLICT (id) DO UPDATE SET price = items.price + 1;
		WHEN 2 THEN DELETE FROM items WHERE id BETWEEN k AND k + 3;
		WHEN 3 THEN UPDATE items SET id = id + 1000 WHERE id = k;
		WHEN 4 THEN INSERT INTO parts SELECT id, k % 5, repeat('long ', k) FROM items WHERE id > k LIMIT 5 ON CONFLICT DO NOTHING;
		WHEN 5 THEN UPDATE parts SET note = note || k WHERE item = k;
		WHEN 6 THEN INSERT INTO names VALUES ('n' || k % 60, gen_random_uuid(), ARRAY[k::text], jsonb_build_object('k', k))
			ON CONFLICT (name) DO UPDATE SET doc = excluded.doc, id = NULL;
		WHEN 7 THEN DELETE FROM names WHERE name = 'n' || k % 60;
		WHEN 8 THEN INSERT INTO days SELECT date '2020-01-01' + k % 20, g, 'x' FROM generate_series(k, k + 20) g ON CONFLICT DO NOTHING;
		WHEN 9 THEN UPDATE days SET day = day + 10 WHERE day = date '2020-01-01' + k % 10 AND id < k AND day < '2020-01-11';
		WHEN 10 THEN DELETE FROM days WHERE id % 7 = k % 7;
		WHEN 11 THEN DELETE FROM items WHERE id BETWEEN 500 AND 620; COPY items FROM '$dir/items.copy';
		WHEN 12 THEN UPDATE items SET name = name WHERE id > k;
		WHEN 13 THEN
			IF current_setting('server_version_num')::int >= 150000 THEN
				EXECUTE 'MERGE INTO items USING generate_series(\$1, \$1 + 5) AS g(id) ON items.id = g.id
					WHEN MATCHED AND g.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET name = ''merged'' WHEN NOT MATCHED THEN INSERT VALUES (g.id, ''m'', 0)' USING k;
			END IF;
		ELSE UPDATE items SET price = price + 1 WHERE id % 2 = k % 2;
		END CASE;
	END \$\$;
	-- the same in a savepoint that is rolled back if it fails, or sometimes if it does not
	CREATE FUNCTION try(r int, k int, undo boolean) RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM work(r, k);
		BEGIN
			PERFORM work(1 + (r + k) % 14, k);
			IF k % 3 = 0 THEN RAISE EXCEPTION 'inner'; END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
		IF undo THEN RAISE EXCEPTION 'undone'; END IF;
	EXCEPTION WHEN raise_exception OR serialization_failure OR deadlock_detected OR unique_violation OR foreign_key_violation THEN NULL;
	END \$\$;

	-- how many digests were compared, which no rollback takes back
	CREATE SEQUENCE "compared in read committed";
	CREATE SEQUENCE "compared in repeatable read";
	-- the same table scanned by an expression that is written here, in the same snapshot
	CREATE FUNCTION items_are_right() RETURNS boolean LANGUAGE plpgsql STABLE AS \$\$
	DECLARE
		t iblt := (iblt_internal.iblt_live_options('items')).template;
		s bigint := (iblt_info(t)).seed;
		scanned bytea := (SELECT iblt_agg(id, iblt_checksum_seeded(s, id, name, price), t) FROM items)::bytea;
	BEGIN RETURN scanned = iblt_live('items')::bytea; END \$\$;
	CREATE FUNCTION check_one(relation text) RETURNS boolean LANGUAGE plpgsql STABLE AS \$\$
	BEGIN
		IF relation = 'items' AND NOT items_are_right()
			OR NOT iblt_internal.live_is_right(relation::regclass, iblt_internal.iblt_live_options(relation::regclass)) THEN
			RAISE '% differ', relation;
		END IF;
		IF NOT pg_is_in_recovery() THEN
			PERFORM nextval(quote_ident('compared in ' || current_setting('transaction_isolation')));
		END IF;
		RETURN true;
	END \$\$;
	CREATE FUNCTION check_all() RETURNS boolean LANGUAGE sql STABLE AS \$\$
		SELECT bool_and(check_one(t)) FROM unnest(ARRAY['items', 'parts', 'names', 'days']) t \$\$;
	-- what is being rebuilt has no digest for a moment
	CREATE FUNCTION check_meanwhile() RETURNS boolean LANGUAGE plpgsql STABLE AS \$\$
	BEGIN
		PERFORM check_one('parts'), check_one('names');
		PERFORM check_one('items'), check_one('days');
		RETURN true;
	EXCEPTION WHEN SQLSTATE 'IB008' THEN
		IF SQLERRM !~ '"(items|days)".* first scan has not been finished' THEN RAISE; END IF;
		RETURN false;
	END \$\$;
});

my $random = q{\set r random(1, 14)
\set k random(1, 400)
\set u random(0, 1)
\set r2 random(1, 14)
\set k2 random(1, 400)
\set end random(1, 8)
};
# A session that holds this lock alone lets all of them begin at once.
$random = "SELECT pg_advisory_xact_lock_shared(85);\n$random";
append_to_file("$dir/write.sql", $random . q{BEGIN;
SELECT try(:r, :k, :u = 1);
SAVEPOINT a;
SELECT try(:r2, :k2, false);
\if :end = 1
ROLLBACK TO a;
\elif :end = 2
RELEASE a;
SAVEPOINT b;
SELECT try(:r, :k2, false);
\endif
SELECT try(:r2, :k, false);
\if :end = 3
ROLLBACK;
\elif :end = 4
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
\else
COMMIT;
\endif
});
append_to_file("$dir/prepare.sql", $random . q{BEGIN;
SELECT try(:r, :k, false);
SAVEPOINT a;
SELECT try(:r2, :k2, :u = 1);
PREPARE TRANSACTION 'p:client_id';
\if :end > 3
COMMIT PREPARED 'p:client_id';
\else
ROLLBACK PREPARED 'p:client_id';
\endif
});
# mostly the same table, so that two merges meet
append_to_file("$dir/merge.sql", q{\set wait random(1, 20)
\sleep :wait ms
\set t random_exponential(1, 4, 5)
SELECT iblt_live_merge((ARRAY['items', 'parts', 'names', 'days'])[:t]::regclass);
});
append_to_file("$dir/check.sql", q{SELECT check_meanwhile();
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT check_meanwhile();
SELECT check_meanwhile();
COMMIT;
});
# a writer sees its own changes in the digest at once
append_to_file("$dir/own.sql", $random . q{BEGIN;
SELECT try(:r, :k, false);
SELECT check_meanwhile();
SAVEPOINT a;
SELECT try(:r2, :k2, false);
SELECT check_meanwhile();
\if :u = 1
ROLLBACK TO a;
SELECT check_meanwhile();
\endif
COMMIT;
});

my %clients = (write => 3, prepare => 2, merge => 2, check => 2, own => 1);

sub load
{
	my ($seconds) = @_;
	return map {
		my ($name, $out) = ($_, '');
		my $run = IPC::Run::start([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', $clients{$name}, '-j', 1, '-T', $seconds,
			'-M', 'simple', "--random-seed=$seed", '-f', "$dir/$name.sql", 'postgres' ], '<', '/dev/null', '>&', \$out, IbltTest::time_limit());
		{ name => $name, run => $run, out => \$out };
	} sort keys %clients;
}

# Transactions of each kind; a failed check would end its client.
sub ended
{
	my ($text, @runs) = @_;
	my %done;
	foreach my $run (@runs)
	{
		$run->{run}->finish;
		($done{ $run->{name} }) = ${ $run->{out} } =~ /transactions actually processed: (\d+)/;
		unlike(${ $run->{out} }, qr/ERROR|aborted/, "$text: no error of $run->{name}");
	}
	return \%done;
}

is($node->safe_psql('postgres', 'SELECT count(work(r, 7 * r)) FROM generate_series(1, 14) AS r'), '14', 'each piece of work succeeds alone');

# --- tracking starts under load --------------------------------------------------------

# They write a fixed number of times, so a slow machine does not leave the tracking without writers.
my $gate = holding($node, 'SELECT pg_advisory_lock(85)');
my @before = map { my $name = $_; my $out = '';
	{ name => $name, out => \$out, run => IPC::Run::start([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', 2, '-t', 300, "--random-seed=$seed",
		'-f', "$dir/$name.sql", 'postgres' ], '<', '/dev/null', '>&', \$out, IbltTest::time_limit()) } } ('write', 'prepare');
wait_for($node, "SELECT count(*) = 4 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
$gate->quit;
# a sketch of capacity 20 is smaller than the changes of a large statement
$node->safe_psql('postgres', "CALL iblt_track('$_->[0]', capacity => $_->[1])") foreach ([ 'items', 100 ], [ 'parts', 20 ], [ 'names', 1000 ], [ 'days', 20 ]);
is($node->safe_psql('postgres', 'SELECT check_all()'), 't', 'tracking starts while others write');
ended('start', @before);
$node->safe_psql('postgres', 'CREATE TABLE with_triggers (id int PRIMARY KEY); CREATE TABLE of_a_key (id int REFERENCES with_triggers)');
is($node->safe_psql('postgres', "SELECT string_agg(relation || ' ' || state, ', ') FROM iblt_live_status()"), 'days live, items live, names live, parts live', 'all are live');

# --- under load -----------------------------------------------------------------------

# How much is done in a time depends on the machine, and on who waits for whose locks.
my (%done, %compared);
foreach (1 .. 20)
{
	my @runs = load(3 * $long);
	foreach (1 .. 2 * $long)
	{
		$node->safe_psql('postgres', "CALL iblt_live_rebuild('items'); CALL iblt_live_rebuild('days')");
	}
	my $now = ended('load', @runs);
	$done{$_} += $now->{$_} foreach keys %$now;
	%compared = map { $_ => $node->safe_psql('postgres', qq{SELECT last_value FROM "compared in $_"}) } ('read committed', 'repeatable read');
	last if $done{prepare} > 20 && $done{merge} > 20 && !grep { $_ <= 200 * $long } values %compared;
}
note(join ', ', map({ "$done{$_} of $_" } sort keys %done), map { "$compared{$_} digests compared in $_" } sort keys %compared);
cmp_ok($compared{$_}, '>', 200 * $long, "many digests were compared in $_") foreach sort keys %compared;
cmp_ok($done{prepare}, '>', 20, 'transactions were prepared');
cmp_ok($done{merge}, '>', 20, 'changes were merged');
is($node->safe_psql('postgres', 'SELECT check_all()'), 't', 'all are right at the end');

# --- immediate shutdowns ----------------------------------------------------------------

foreach my $n (1 .. 2 * $long)
{
	my @crashed = load(20);
	wait_for($node, "SELECT count(*) >= 10 FROM pg_stat_activity WHERE backend_type = 'client backend'");
	select undef, undef, undef, 0.5 + rand;
	$node->stop('immediate');
	$_->{run}->finish foreach @crashed;
	my @wrong = grep { ${ $_->{out} } =~ /differ|trustworthy/ } @crashed;
	is(scalar(@wrong), 0, "crash $n: no digest was wrong before it");
	$node->start;
	is($node->safe_psql('postgres', 'SELECT check_all()'), 't', "crash $n: the digests are right after it");
	my @left = split /\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');
	foreach my $gid (@left)
	{
		$node->safe_psql('postgres', (rand() < 0.5 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$gid'");
		is($node->safe_psql('postgres', 'SELECT check_all()'), 't', "crash $n: and after $gid has ended");
	}
}

# --- a standby --------------------------------------------------------------------------

my $standby = standby($node, 'reader');
is($standby->safe_psql('postgres', 'SELECT check_all()'), 't', 'a standby reads the digests');
$node->safe_psql('postgres', "INSERT INTO items SELECT g, 'more', g FROM generate_series(5000, 6000) g; UPDATE names SET id = NULL");
replayed($node, $standby);
is($standby->safe_psql('postgres', 'SELECT check_all()'), 't', 'and the changes after its base backup');
is($standby->safe_psql('postgres', "SELECT iblt_live_verify('items')"), 't', 'and verifies');
is($standby->safe_psql('postgres', "SELECT iblt_live('items')::bytea"), $node->safe_psql('postgres', "SELECT iblt_live('items')::bytea"), 'to the same bytes');
$standby->stop;

$node->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_publication_tables WHERE schemaname = 'iblt_internal'"), '0', 'the stores are not published');

done_testing();
