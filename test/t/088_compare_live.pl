# Comparisons of live digests: with live => 'require' no table is scanned, whatever its
# key, and the answer is that of a full comparison.  Whatever makes a digest not
# trustworthy, or not fit, is an error then, and 'auto' scans and says why.
use IbltCompare;

IbltTest::share_sessions(0);
random_seed();

my ($here, $there, $peer) = two_servers('fsync = off', 'autovacuum = off', 'client_min_messages = notice', 'max_parallel_workers_per_gather = 0');
inside($here, $there);

sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }

# The differences of two sides whose digests are read, and the messages.
sub live
{
	my ($table, %how) = @_;
	my $other = exists $how{peer} ? $how{peer} : $peer;
	my ($rc, $out, $err) = ($how{node} // $here)->psql('postgres', ($how{setup} // '') . "SELECT concat_ws(' ', key, side, here_count, there_count) FROM iblt_compare('$table', "
		  . ($other // 'NULL') . ', live => ' . ($how{live} // "'require'") . ($how{options} ? ", $how{options}" : '') . ") ORDER BY 1;
		SELECT 'live ' || live || CASE WHEN num_nonnulls(verified_here, verified_there) = 2 THEN ', verified' ELSE '' END FROM iblt_compare_stats()",
		extra_params => [ '-q', $how{user} ? ('-U', $how{user}) : () ]);
	my @lines = split /\n/, $out;
	return ($rc == 0 ? pop @lines : 'none', join("\n", sort @lines), $err);
}

# All of a comparison by digests: the same keys as a full comparison finds.
sub live_is
{
	my ($table, $key, $number, $text, %how) = @_;
	my ($kind, $found, $err) = live($table, %how);
	is($kind, 'live true, verified', "$text: from digests") or diag($err);
	is($found, $how{truth} // truth($table, $key), "$text: what a full comparison finds");
	is(lines($found), $number, "$text: in that number");
	is($err, '', "$text: without a message");
	return;
}

# 'require' is an error, and 'auto' scans and says so.
sub not_live
{
	my ($table, $key, $state, $problem, $hint, $text, %how) = @_;
	my $options = $how{options} ? ", $how{options}" : '';
	my $error = failure("SELECT count(*) FROM iblt_compare('$table', $peer, live => 'require'$options)");
	like($error, qr/ERROR:  $state: (on the peer: )?(live digests cannot be used: )?\Q$problem\E/, "$text: not with require");
	like($error, qr/^HINT:  \Q$hint\E/m, "$text: what to do");
	my ($kind, $found, $err) = live($table, live => "'auto'", %how);
	like($err, qr/NOTICE:  live digests are not used: \Q$problem\E/, "$text: auto says why it scans");
	is($kind, 'live false', "$text: and that it did");
	is($found, $how{truth} // truth($table, $key), "$text: and finds what differs") unless $how{any};
	return;
}

# --- tables with all kinds of keys --------------------------------------------------------

my $rows = 6000;
my @tables = (
	[ 'by_int', 'id', 'id int PRIMARY KEY', 'g' ],
	[ 'by_two', 'id, day', 'id bigint NOT NULL, day date NOT NULL, PRIMARY KEY (day, id)', q{g % 100, date '2020-01-01' + g / 100} ],
	[ 'by_uuid', 'id', 'id uuid PRIMARY KEY', 'md5(g::text)::uuid' ],
	[ 'by_text', 'id', 'id text PRIMARY KEY', q{'key ' || g} ]);
foreach my $table (@tables)
{
	my ($name, $key, $ddl, $values) = @$table;
	both("CREATE TABLE $name (n int, v text NOT NULL DEFAULT '', $ddl); INSERT INTO $name (n, $key) SELECT g, $values FROM generate_series(1, $rows) g; ANALYZE $name");
}
# the other columns of a partition stand elsewhere
push @tables, [ 'parts', 'id', undef, undef ];
both("CREATE TABLE parts (n int, v text NOT NULL DEFAULT '', id bigint PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (3000)");
sql($here, 'CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (3000) TO (9000)');
sql($there, "CREATE TABLE parts_2 (v text NOT NULL DEFAULT '', id bigint NOT NULL, gone int, n int); ALTER TABLE parts_2 DROP COLUMN gone; ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (3000) TO (9000)");
both("INSERT INTO parts SELECT g, '', g FROM generate_series(1, $rows) g; ANALYZE parts");

my %capacity = (by_two => 30000, by_uuid => 10);
foreach my $table (@tables)
{
	my $name = $table->[0];
	sql($there, "CALL iblt_track('$name', capacity => " . ($name eq 'by_uuid' ? 6000 : 1000) . ')');
	sql($here, "CALL iblt_track('$name', peer => $peer" . ($capacity{$name} ? ", capacity => $capacity{$name}" : '') . ')');
}
my @capacities = map { +{ map { split /\|/ } split /\n/, sql($_, 'SELECT relation, (iblt_info(iblt_live(relation))).capacity FROM iblt_live_status()') } } ($here, $there);
is($capacities[0]{by_int}, $capacities[1]{by_int}, 'the peer\'s capacity by default');
cmp_ok($capacities[0]{by_two}, '>=', 30000, 'a larger one that was asked for');
cmp_ok($capacities[0]{by_uuid}, '<', $capacities[1]{by_uuid}, 'and a smaller one');

sub all_tables
{
	my ($number, $text, @truth) = @_;
	live_is($_->[0], $_->[1], $number, "$text, $_->[0]", @truth) foreach @tables;
	return;
}

both('SELECT pg_stat_reset()');
all_tables(0, 'nothing differs', truth => '');
sql($here, "UPDATE $_->[0] SET v = 'x' WHERE n = 3007") foreach @tables;
live_is('by_int', 'id', 1, 'one row differs, by_int');
is(join(' ', live($_->[0])) =~ /^live true, verified \S+.* both 1 1 $/, 1, "one row differs, $_->[0]") foreach @tables;
foreach my $table (@tables)
{
	my ($name, $key) = @$table;
	sql($here, "UPDATE $name SET v = 'y' WHERE n % 100 = 9; DELETE FROM $name WHERE n % 300 = 5");
	sql($there, "DELETE FROM $name WHERE n % 300 = 33");
}
all_tables(101, '101 rows differ');

# The comparison of a table with live => 'off' comes last, and is counted once.
nothing_left('so far', $there);
is(sql($there, "SELECT count(*) FROM iblt_compare('by_int', ${\ conninfo($here)}, live => 'off')"), 101, 'a scan finds the same');
foreach my $node ($here, $there)
{
	wait_for($node, q{SELECT seq_scan >= } . ($node == $here ? 6 : 4) . q{ FROM pg_stat_user_tables WHERE relname = 'by_int'});
	# truth() scans, and the statements above
	is(sql($node, q{SELECT string_agg(concat(relname, ' ', seq_scan - } . ($node == $here ? 4 : 2) . q{), ', ' ORDER BY relname) FROM pg_stat_user_tables
		WHERE relname ~ '^(by_|parts_)'}), 'by_int 2, by_text 2, by_two 0, by_uuid 0, parts_1 0, parts_2 0', 'scans on ' . $node->name);
}

# (a shared session would tell the statistics of its scans later)
IbltTest::share_sessions(1);

# --- too many for the digests ----------------------------------------------------------

sql($here, "UPDATE $_ SET v = 'many' WHERE n <= 5000") foreach ('by_int', 'by_text');
foreach my $table ('by_int', 'by_text')
{
	my $error = failure("SELECT count(*) FROM iblt_compare('$table', $peer, live => 'require')");
	like($error, qr/ERROR:  IB002: too many differences: about [3-8]\d{3} keys differ, more than live digests of this capacity can tell/, "$table: too many keys for digests");
	like($error, qr/^HINT:  CALL iblt_track with a larger capacity on both sides/m, "$table: what to do");
	my ($kind, $found, $err) = live($table, live => "'auto'");
	is("$kind $err" =~ s/.*?NOTICE: /NOTICE/r, "NOTICE live digests are not used: more keys differ than digests of their capacity can tell", "$table: auto scans");
	is($found, truth($table, 'id'), "$table: and finds them");
}
like(failure("SELECT count(*) FROM iblt_compare('by_int', $peer, max_differences => 1000, live => 'auto')"),
	qr/ERROR:  IB002: too many differences: about \d+ keys differ, and max_differences is 1000/, 'surely more than are allowed: no scan, and the usual error');

# --- what a comparison may be, and who may make it ---------------------------------------

live_is('by_two', 'id, day', 101, 'from the other side', node => $there, peer => conninfo($here), truth => truth('by_two', 'id, day', node => $there, peer => $here));
live_is('by_two', 'id, day', 101, 'a transaction that sees one snapshot', setup => 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 WHERE false;');
my ($kind, $found) = live('by_two', setup => q{BEGIN; SET LOCAL client_min_messages = warning; UPDATE by_two SET v = 'mine' WHERE n = 4;});
is($kind . ' ' . lines($found), 'live true, verified 102', 'a transaction finds its own changes');
($kind, $found, my $said) = live('by_two', live => "'auto'", setup => 'BEGIN; TRUNCATE by_two;');
is($kind . ' ' . lines($found), 'live false 5980', 'a transaction that has truncated the table scans it');
like($said, qr/NOTICE:  live digests are not used: the digest of public.by_two is not trustworthy, because it was rewritten/, 'and says so');
# a value whose send function fails, and which is gone again
sql($here, q{CREATE TYPE fragile; CREATE FUNCTION fragile_in(cstring) RETURNS fragile LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
	CREATE FUNCTION fragile_out(fragile) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
	CREATE FUNCTION fragile_int(fragile) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'int4up';
	CREATE TYPE fragile (INPUT = fragile_in, OUTPUT = fragile_out, LIKE = int4);
	CREATE FUNCTION fragile_send(fragile) RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN RETURN int4send(10 / public.fragile_int($1)); END $$;
	ALTER TYPE fragile SET (SEND = fragile_send);
	CREATE TABLE brittle (id int PRIMARY KEY, f fragile); INSERT INTO brittle VALUES (1, '5'); CREATE TABLE like_it (LIKE brittle INCLUDING ALL);
	CALL iblt_track('brittle'); CALL iblt_track('like_it', peer_relation => 'brittle')});
my $break = q{BEGIN; INSERT INTO brittle VALUES (2, '0'); DELETE FROM brittle WHERE id = 2;};
($kind, $found, $said) = live('brittle', peer => undef, live => "'auto'", options => "peer_relation => 'like_it'", setup => $break);
is("$kind $found", 'live false {"id": 1} here 1 0', 'a digest that proves not trustworthy when it is read: a scan');
like($said, qr/NOTICE:  live digests are not used: digest of table "brittle" is not trustworthy, because a value could not be read/, 'and auto says so');
($kind, $found, $said) = live('brittle', peer => undef, options => "peer_relation => 'like_it'", setup => $break);
like($said, qr/ERROR:  digest of table "brittle" is not trustworthy, because a value could not be read/, 'and it is an error with require');
sql($here, "CREATE TABLE copied AS TABLE by_two; ALTER TABLE copied ADD PRIMARY KEY (day, id); CALL iblt_track('copied', peer_relation => 'by_two');
	DELETE FROM copied WHERE n = 40; CREATE ROLE reader LOGIN; GRANT SELECT ON copied, by_two TO reader");
live_is('copied', 'id, day', 1, 'a reader, and two tables of one database', peer => undef, options => "peer_relation => 'by_two'", user => 'reader', truth => '{"id": 40, "day": "2020-01-01"} there 0 1');
sql($here, q{REVOKE SELECT ON copied FROM reader; GRANT SELECT (id, day) ON copied TO reader});
like(failure("SELECT count(*) FROM iblt_compare('copied', NULL, 'by_two', columns => '{id}', live => 'require')", user => 'reader'),
	qr/IB008: live digests cannot be used: permission denied for the digest of public.copied \(here\)\n.*HINT:  GRANT SELECT on the whole table/s, 'a role that may not read the whole table does not learn of its digest');
sql($here, q{CALL iblt_untrack('copied')});
like(failure("SELECT count(*) FROM iblt_compare('copied', NULL, 'by_two', columns => '{id}', live => 'require')", user => 'reader'), qr/IB008: .* permission denied for the digest of public.copied \(here\)/, 'nor that there is none');
my $standby = standby($there, 'standby');
sql($there, "UPDATE by_uuid SET v = 'more' WHERE n = 77");
replayed($there, $standby);
live_is('by_uuid', 'id', 102, 'a standby as the peer', peer => conninfo($standby), truth => truth('by_uuid', 'id'));
$standby->stop('immediate');

# --- digests that do not fit -------------------------------------------------------------

both("CREATE TABLE small (id int PRIMARY KEY, a int NOT NULL UNIQUE, b int); INSERT INTO small SELECT g, g, g FROM generate_series(1, 100) g");
sql($here, 'UPDATE small SET b = 0 WHERE id = 9');
my @one = (truth => '{"id": 9} both 1 1');
my $track_here = "CALL iblt_track('public.small'), with the other side as its peer if that is tracked.";
not_live('small', 'id', 'IB008', 'public.small is not tracked (here)', $track_here, 'no side is tracked', @one);
sql($there, "CALL iblt_track('small')");
not_live('small', 'id', 'IB008', 'public.small is not tracked (here)', $track_here, 'this side is not tracked', @one);
sql($there, "CALL iblt_untrack('small')");
sql($here, "CALL iblt_track('small')");
not_live('small', 'id', 'IB008', 'public.small is not tracked (there)', "On the peer, $track_here", 'the peer is not tracked', @one);
sql($there, "CALL iblt_track('small')");
my $another = 'the two digests were not made to be compared with each other';
my $again = 'CALL iblt_track on one side, with the other side as its peer.';
not_live('small', 'id', '0A000', $another, $again, 'each has a seed of its own', @one);
sql($there, "CALL iblt_track('small', peer => ${\ conninfo($here)})");
live_is('small', 'id', 1, 'made for each other', @one);
not_live('small', 'id', '0A000', 'only some rows are compared, and digests are of all rows', q{Compare with live => 'auto' or 'off'.}, 'a condition',
	options => q{condition => 'id < 50'}, @one);
not_live('small', 'a', '0A000', 'the key of the digests is "id"', 'Name these columns in key_columns.', 'another key', options => q{key_columns => '{a}'});
not_live('small', 'id', '0A000', 'the digests are of columns "id", "a", "b"', 'Name these in columns, or track the columns that are compared.', 'some columns',
	options => q{columns => '{a}'}, truth => '');
sql($there, "ALTER TABLE small ADD CONSTRAINT other UNIQUE (b)");
sql($here, q{CALL iblt_track('small', key_columns => '{b}')});
sql($there, "CALL iblt_track('small', peer => ${\ conninfo($here)})");
not_live('small', 'b', '0A000', 'the key of the digests is "b"', 'Name these columns in key_columns.', 'a key that is not unique here', any => 1);
live_is('small', 'b', 2, 'that key is in the digests as a hash', options => q{key_columns => '{b}'});
sql($here, "CALL iblt_track('small')");
sql($there, "ALTER TABLE small DROP CONSTRAINT other; ALTER TABLE small ADD COLUMN c int; CALL iblt_track('small', peer => ${\ conninfo($here)})");
live_is('small', 'id', 1, 'a column that one side lacks', options => q{extra_columns => 'ignore'}, @one);
sql($there, q{ALTER TABLE small ADD COLUMN d int});
live_is('small', 'id', 1, 'it is no matter', options => q{extra_columns => 'ignore'}, @one);
sql($there, q{ALTER TABLE small ALTER b TYPE bigint});
not_live('small', 'id', 'IB008', 'the digest of public.small is not trustworthy, because its columns or their types have changed (there)', "On the peer, CALL iblt_live_rebuild('public.small');",
	'a changed type', options => q{extra_columns => 'ignore', cast_types => true}, @one);

# --- digests that are not trustworthy ------------------------------------------------------

# 086_digests_pitfalls.pl has all reasons.

sql($there, q{ALTER TABLE small ALTER b TYPE int, DROP COLUMN c, DROP COLUMN d});
sql($there, "CALL iblt_track('small', peer => ${\ conninfo($here)})");
foreach my $node ($here, $there)
{
	my $where = $node == $here ? 'here' : 'there';
	my $hint = ($node == $here ? '' : 'On the peer, ') . "CALL iblt_live_rebuild('public.small');";
	sql($node, 'BEGIN; CREATE TEMP TABLE kept AS TABLE small; TRUNCATE small; INSERT INTO small TABLE kept; COMMIT');
	not_live('small', 'id', 'IB008', "the digest of public.small is not trustworthy, because it was truncated ($where)", $hint, "$where, it was truncated", @one);
	sql($node, "CALL iblt_live_rebuild('small')");
	live_is('small', 'id', 1, "$where: a rebuild heals it", @one);
}
# between the plan and the reading
my $begun = 'SELECT iblt_internal.live_read(%s::text, generation + %s, 630) IS NOT NULL FROM iblt_internal.iblt_live_options(%1$s)';
is(sql($here, sprintf $begun, "'public.small'", 0), 't', 'the digest that was described');
like(failure(sprintf $begun, "'public.small'", 1), qr/IB004: relation public.small was altered while it was compared \(here\)\nDETAIL:  Its digest was started again\./, 'another one is not read, and the comparison begins again');

# --- what triggers did not see, and what an index does not find ----------------------------

# A change that no trigger sees, as a disk might make it.
sub unseen
{
	my ($node, $sql) = @_;
	sql($node, "SET session_replication_role = replica; SET allow_system_table_mods = on; UPDATE pg_class SET relhastriggers = $_->[0] WHERE relname = 'by_uuid'; $_->[1]")
	  foreach ([ 'false', '' ], [ 'false', $sql ], [ 'true', '' ]);
	return;
}
sql($here, "UPDATE by_uuid SET v = 'same'; DELETE FROM by_uuid WHERE n > 300 AND n % 300 IN (5, 33)");
sql($there, "UPDATE by_uuid SET v = 'same'; DELETE FROM by_uuid WHERE n > 300 AND n % 300 IN (5, 33)");
sql($here, 'DELETE FROM by_uuid WHERE n IN (5, 33)');
sql($there, 'DELETE FROM by_uuid WHERE n IN (5, 33)');
live_is('by_uuid', 'id', 0, 'no difference is left');
unseen($here, "UPDATE by_uuid SET v = 'drift' WHERE n = 7");
is(join(' ', live('by_uuid')), 'live true, verified  ', 'digests do not know of it');
is((live('by_uuid', live => "'off'"))[1], truth('by_uuid', 'id'), 'a scan does');
is(lines(truth('by_uuid', 'id')), 1, 'it is there');
my $status = 'SELECT status, sqlstate, detail FROM ' . audit_stats("iblt_audit($peer, '{by_uuid}', live => '%s')") . ' AS a';
my $time = qr/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/;
like(sql($here, sprintf $status, 'require'), qr/^equal\|\|from live digests, last verified by a scan at $time here and at $time there$/, 'an audit says what its answer is worth');
# a change that makes the digest differ, and the rows equal
sql($here, "UPDATE by_uuid SET v = 'same' WHERE n = 7");
is(truth('by_uuid', 'id'), '', 'no row differs');
my $against = 'they contradict the rows that an index finds';
not_live('by_uuid', 'id', 'IB008', $against, q{Compare with live => 'off', which tells damaged indexes, and CALL iblt_live_rebuild on both sides.}, 'a digest that is wrong');
like(sql($here, sprintf $status, 'auto'), qr/^equal\|\|live digests are not used: \Q$against\E$/, 'an audit says so');
like(sql($here, sprintf $status, 'require'), qr/^not comparable\|IB008\|live digests cannot be used: \Q$against\E; compare with live => 'off', .*$/, 'or does not compare');
is(sql($here, "SELECT iblt_live_verify('by_uuid')"), 'f', 'a verification finds it');
not_live('by_uuid', 'id', 'IB008', 'the digest of public.by_uuid is not trustworthy, because a scan has found other rows (here)', "CALL iblt_live_rebuild('public.by_uuid');", 'and then the digest is not trustworthy');
sql($here, "CALL iblt_live_rebuild('by_uuid')");
live_is('by_uuid', 'id', 0, 'a rebuild heals it');
unnoticed($there, 'by_uuid_pkey', "INSERT INTO by_uuid VALUES (1, 'x', md5('x')::uuid)");
like(failure("SELECT count(*) FROM iblt_compare('by_uuid', $peer, live => 'require')"), qr/IB008: live digests cannot be used: \Q$against\E/, 'a damaged index: not equal');
like(failure("SELECT count(*) FROM iblt_compare('by_uuid', $peer, live => 'auto')"), qr/XX002: an index of public.by_uuid does not find rows that the table has \(there\)/, 'a scan tells why');
{
	my $was = changed($here, 'check_looked', 'figures);', 'figures); e.keys := NULL;');
	like(failure("SELECT count(*) FROM iblt_compare('by_uuid', $peer, live => 'require')"), qr/IB008: live digests cannot be used: \Q$against\E/, 'also if too many rows differ by then for the digests to name them');
	sql($here, $was);
}
sql($there, 'REINDEX TABLE by_uuid');
live_is('by_uuid', 'id', 1, 'with a new index');

# --- one question ----------------------------------------------------------------------------

# The keys that differ, the figures, and what has been asked.
# the log is to have the statements of comparisons alone
IbltTest::share_sessions(0);
sql($there, "ALTER SYSTEM SET log_statement = 'all'");
sql($there, 'SELECT pg_reload_conf()');
wait_for($there, "SELECT current_setting('log_statement') = 'all'");
sub to_there { my ($name, $options) = @_; sql($here, "CREATE SERVER $name FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '${\ $there->host}', port '${\ $there->port}', dbname 'postgres', options '$options'); CREATE USER MAPPING FOR CURRENT_USER SERVER $name"); return }
to_there('lent', '-c DateStyle=ISO');
sub lent
{
	my ($arguments) = @_;
	my $from = -s $there->logfile;
	my @said = split /\n/, $here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare($arguments); SELECT messages, live FROM iblt_compare_stats()");
	my $asked = () = substr(slurp_file($there->logfile), $from) =~ /LOG:  statement: SET TRANSACTION|LOG:  statement: iblt: /g;
	return "$said[-2] $said[-1], $asked";
}
both("CREATE TABLE turns (id int PRIMARY KEY, v int NOT NULL, w text); INSERT INTO turns SELECT g, g, 'x' FROM generate_series(1, 20000) g");
sql($here, "CALL iblt_track('turns')");
sql($there, "CALL iblt_track('turns', peer => ${\ conninfo($here)})");
my $turns = "'turns', 'lent', live => 'require'";
is(lent($turns), '0 2|t, 1', 'equal tables: one question');
sql($there, 'UPDATE turns SET v = 0 WHERE id % 200 = 7');
is(lent($turns), '100 4|t, 2', '100 differing rows: one more');
is(lent("'turns', 'lent', live => 'auto', condition => 'true'"), lent("'turns', 'lent', condition => 'true'"), 'auto costs no turn where a scan is needed');
sql($there, 'UPDATE turns SET v = id WHERE id % 200 = 7');
# Between two calls over one connection, in sessions that know the tables, something changes.
my $new = 'ALTER TABLE turns RENAME TO turned; CREATE TABLE turns (LIKE turned INCLUDING ALL)';
my $old = 'DROP TABLE turns; ALTER TABLE turned RENAME TO turns';
my @narrow = ('ALTER TABLE turns ALTER w TYPE varchar(9)', 'ALTER TABLE turns ALTER w TYPE text');
my $altered = 'because its columns or their types have changed';
my $protocol = sql($here, "SELECT iblt_internal.protocol()");
my $speak = q{CREATE OR REPLACE FUNCTION iblt_internal.protocol() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT %s'};
foreach my $case (
	[ $here, @narrow, qr/column types differ|$altered \(here\)/ ], [ $there, @narrow, qr/column types differ|$altered \(there\)/ ],
	[ $here, 'ALTER TABLE turns DROP CONSTRAINT turns_pkey', 'ALTER TABLE turns ADD PRIMARY KEY (id)', qr/unique indexes are not as they were/ ],
	[ $here, $new, $old, qr/public.turns is not tracked \(here\)/ ], [ $there, $new, $old, qr/public.turns is not tracked \(there\)/ ],
	[ $there, sprintf($speak, 99), sprintf($speak, $protocol), qr/cannot talk to each other/ ])
{
	my ($node, $ddl, $back, $expected) = @$case;
	my $change = "SELECT dblink_connect('change', ${\ conninfo($node)}); SELECT dblink_exec('change', ${\ literal($ddl)})";
	like(failure("SELECT count(*) FROM iblt_compare($turns); $change; SELECT count(*) FROM iblt_compare($turns)"), $expected, $ddl . ($node == $here ? ' here' : ' there'));
	sql($node, $back);
	sql($_, "CALL iblt_live_rebuild('turns')") foreach ($here, $there);
	is(lent($turns), '0 2|t, 1', 'and back');
}
both('CREATE SCHEMA strange; CREATE TABLE strange.turns (id int PRIMARY KEY)');
sql($there, 'CREATE ROLE stranger');
to_there('strange', '-c role=stranger');
to_there('elsewhere', '-c search_path=strange');
like(failure("SELECT count(*) FROM iblt_compare('turns', 'strange', live => 'require')"),
	qr/permission denied for the digest of public.turns \(there\)\n.*HINT:  On the peer, GRANT SELECT/s, 'another role there does not learn of the digest');
like(failure("SELECT count(*) FROM iblt_compare($turns); SET search_path = strange, public; SELECT count(*) FROM iblt_compare($turns)"),
	qr/strange.turns is not tracked \(here\)/, 'another search_path names another table');
is(lent("'turns', 'elsewhere', live => 'require'"), '0 2|t, 1', 'that of the peer\'s session is no matter');

# A digest counts for nothing unless it is of the relation that was described.
foreach my $case ([ $here, 'here' ], [ $there, 'there' ])
{
	my ($node, $where) = @$case;
	sql($node, q{ALTER FUNCTION iblt_internal.iblt_compare_fingerprint(regclass, text) RENAME TO right_fingerprint;
		CREATE FUNCTION iblt_internal.iblt_compare_fingerprint(relation regclass) RETURNS text LANGUAGE sql AS $$ SELECT 'another one' $$});
	like(failure("SELECT count(*) FROM iblt_compare('turns', $peer, live => 'require')"), qr/IB004: relation public.turns was altered while it was compared \($where\)/, "another fingerprint $where: not equal");
	sql($node, 'DROP FUNCTION iblt_internal.iblt_compare_fingerprint(regclass); ALTER FUNCTION iblt_internal.right_fingerprint(regclass, text) RENAME TO iblt_compare_fingerprint');
}
is($here->safe_psql('postgres', q{SELECT string_agg(DISTINCT provolatile::text, '') FROM pg_proc WHERE proname IN ('live_digest', 'iblt_live', 'iblt_live_options', 'iblt_live_state')}),
	's', 'a digest and what is told of it are of one snapshot');
is(lent($turns), '0 2|t, 1', 'nothing is left of that');
# digests of some columns, which come with the description, and do not say what is asked
both("CREATE TABLE partly (id int PRIMARY KEY, a int, b int); INSERT INTO partly SELECT g, g, g FROM generate_series(1, 1000) g");
sql($here, q{CALL iblt_track('partly', columns => '{id,a}')});
sql($there, "CALL iblt_track('partly', peer => ${\ conninfo($here)})");
sql($there, 'UPDATE partly SET b = 0 WHERE id = 7');
is(join("\n", (live('partly', live => "'auto'"))[0, 1]), qq(live false\n{"id": 7} both 1 1), 'digests of some columns do not say that others are equal');
is(lent("'partly', 'lent', live => 'require', columns => '{id,a}'"), '0 2|t, 1', 'but that their columns are');
# a first fold that is too small
sql($there, q{ALTER FUNCTION iblt_internal.iblt_compare_decode(iblt) RENAME TO right_decode;
	CREATE FUNCTION iblt_internal.iblt_compare_decode(s iblt, OUT complete boolean, OUT recovered bigint, OUT estimated bigint, OUT keys bytea) STABLE LANGUAGE sql AS 'SELECT true, 0::bigint, 0::bigint, NULL::bytea';
	UPDATE turns SET v = 0 WHERE id % 200 = 7});
is(lent($turns), '100 8|t, 4', 'a fold that is too small tells nothing: the digests are read again');
sql($there, 'DROP FUNCTION iblt_internal.iblt_compare_decode(iblt); ALTER FUNCTION iblt_internal.right_decode(iblt) RENAME TO iblt_compare_decode; ALTER SYSTEM RESET log_statement');
sql($there, 'SELECT pg_reload_conf()');
IbltTest::share_sessions(1);

# --- audits of both kinds of tables, and repairs ---------------------------------------------

sql($here, "CALL iblt_untrack('parts')");
is(sql($here, "SELECT relation, status, missing, extra, changed, detail ~ '^from live digests', detail ~ '^live digests are not used: public.parts is not tracked .here.\$'
		FROM iblt_audit($peer, '{by_two,parts,by_text}', live => 'auto')"),
	"public.by_two|differs|20|20|61|t|f\npublic.parts|differs|20|20|61|f|t\npublic.by_text|differs|20|20|4976|f|f", 'an audit of tables of both kinds');
is(sql($here, 'SELECT relation, status, sqlstate FROM ' . audit_stats("iblt_audit($peer, '{by_two,parts,by_text}', live => 'require')") . ' AS a'),
	"public.by_two|differs|\npublic.parts|not comparable|IB008\npublic.by_text|differs|IB002", 'and one that scans nothing');
is(sql($here, "SELECT count(*), min(status) FROM iblt_repair('by_two', $peer, direction => 'pull', apply => true, live => 'require')"), '101|applied', 'a repair');
live_is('by_two', 'id, day', 0, 'after the repair');
chomp(my $script = `pg_config --bindir`);
my $cron = sub {
	my ($out, $err) = ('', '');
	local %ENV = (%ENV, PGHOST => $here->host, PGPORT => $here->port, PGDATABASE => 'postgres');
	IPC::Run::run([ 'sh', "$script/iblt-audit", '--json', "peer=$_[0]", 'tables={public.by_two}', 'live=require' ], '>', \$out, '2>', \$err);
	return ($? >> 8) . " $out";
};
foreign_server($here, 'node_b', $there);
like($cron->('node_b'), qr/^0 .*"equal".*from live digests/s, 'cron asks for it too');

# --- rows on their way -------------------------------------------------------------------------

# 087_digests_rounds.pl has a load.
#
# More keys in flight than digests tell, or nearly so, and what differs besides: when
# replication has passed, the answer is that of a scan.
both('CREATE TABLE late (id int PRIMARY KEY, v int NOT NULL)');
sql($there, q{INSERT INTO late SELECT g, 0 FROM generate_series(1, 20000) g; CALL iblt_track('late', capacity => 1000); CREATE PUBLICATION pub FOR TABLE late});
sql($here, "CALL iblt_track('late', peer => $peer)");
sql($here, "CREATE SUBSCRIPTION sub CONNECTION $peer PUBLICATION pub");
subscribed($here, 1);
$there->wait_for_catchup('sub');
my ($most) = sql($here, "SELECT (iblt_info(iblt_live('late'))).capacity");
my ($holder, $caller) = map { IbltTest::Session->new($here) } 1 .. 2;
foreach my $case ([ 1.2, 0, "'require'" ], [ 1.2, 30, "'require'" ], [ 3, 30, "'require'" ], [ 3, 300, "'require'" ], [ 3, 30, "'auto'" ], [ 3, 1.2 * $most, "'require'" ])
{
	my ($times, $drift, $live) = ($case->[0], int $case->[1], $case->[2]);
	my $text = "$times times the capacity in flight, $drift keys differ, live => $live";
	sql($here, "UPDATE late SET v = -1 WHERE id > 20000 - $drift");
	$holder->run('BEGIN; LOCK TABLE late IN SHARE MODE');
	sql($there, 'UPDATE late SET v = v + 1 WHERE id <= ' . int($times * $most));
	$caller->start("SELECT count(*) || ' ' || bool_and(confirmed) FROM iblt_compare('late', $peer, progress => true, live => $live)");
	$caller->seen(qr/waiting for replication|looking \d+ keys up|ERROR/);
	$holder->run('COMMIT');
	my $out = $caller->done || ($caller->{err} =~ /ERROR: +(\w+)/)[0];
	is($out // '', $most < $drift ? 'IB002' : $drift ? "$drift true" : '', $text) or diag($caller->{err});
	$there->wait_for_catchup('sub');
	sql($here, "UPDATE late SET v = 0 WHERE v < 0");
}
$_->quit foreach ($holder, $caller);

done_testing();
