# Cases at the edge of audits, in which "equal" would be wrong: rows that an index
# lacks, publications that are not what they seem, settings that change what is
# read, and tables that others inherit from.
use IbltTest;

my ($here, $there, $peer) = two_servers();
inside($here, $there);

# "status missing extra changed unconfirmed" of each table, a line each.
sub audit
{
	my ($what, %how) = @_;
	return ($how{node} // $here)->safe_psql('postgres', ($how{setup} // '')
		  . "SELECT concat_ws(' ', relation, status, missing, extra, changed, unconfirmed) FROM $what ORDER BY 1");
}

sub detail
{
	my ($call, $where) = $_[0] =~ /^(.*\))( WHERE .*)?$/;
	return $here->safe_psql('postgres', "SELECT concat_ws(' ', sqlstate, detail) FROM ${\ audit_stats($call)} AS a" . ($where // ''));
}

# --- damaged indexes ----------------------------------------------------------------

# IbltScenarios.pm has them in all placements.
both('CREATE TABLE damaged (id int PRIMARY KEY, v text); INSERT INTO damaged SELECT g, g FROM generate_series(1, 20000) g; VACUUM ANALYZE damaged');
unnoticed($here, 'damaged_pkey', "INSERT INTO damaged VALUES (200000, 'x'), (200001, 'x')");
is($here->safe_psql('postgres', 'SELECT count(*) FROM damaged; SELECT count(*) FROM damaged WHERE id >= 200000'), "20002\n0", 'rows that the index does not find');
is(detail("iblt_audit($peer, '{damaged}')"), 'XX002 an index of public.damaged does not find rows that the table has (here): One has the key {"id": 200000}, of 2; find the index with amcheck (bt_index_check with heapallindexed), and REINDEX it. A row may also be in the wrong partition',
	'the detail says why');
like(failure("SELECT * FROM iblt_repair('damaged', $peer, direction => 'pull')"), qr/XX002/, 'nor does iblt_repair take them for equal');
$there->safe_psql('postgres', 'CREATE ROLE reader LOGIN; GRANT SELECT (id, v) ON damaged TO reader');
like(failure("SELECT * FROM iblt_compare('damaged', ${\ literal($there->connstr('postgres') . ' user=reader')})"), qr/XX002: an index of public\.damaged /,
	'nor one whose rights on the peer are to columns alone');

# What a run found is not taken for equal because an index has lost the row meanwhile.
both('CREATE TABLE lost (id int PRIMARY KEY, v text); INSERT INTO lost SELECT g, g FROM generate_series(1, 20000) g; VACUUM ANALYZE lost');
$_->[0]->safe_psql('postgres', $_->[1]) foreach [ $here, "INSERT INTO lost VALUES (200000, 'here')" ], [ $there, "DELETE FROM lost WHERE id = 7" ];
{
	my $run = $here->safe_psql('postgres', "CALL iblt_audit_run($peer, '{lost}', progress => false)");
	is($here->safe_psql('postgres', "SELECT string_agg(key::text || side, ' ' ORDER BY key) FROM iblt_audit_differences WHERE run = $run"), '{"id": 7}here {"id": 200000}here', 'a run finds two rows');
	$here->safe_psql('postgres', 'DELETE FROM lost WHERE id IN (7, 200000)');
	$here->safe_psql('postgres', 'VACUUM lost');
	unnoticed($here, 'lost_pkey', "INSERT INTO lost VALUES (200000, 'here')");
	like(failure("SELECT * FROM iblt_audit_recheck($run, $peer)"), qr/XX002: an index of public\.lost does not find rows that the table has \(here\)/, 'iblt_audit_recheck, after the index has lost one');
	like(failure("SELECT * FROM iblt_repair(run => $run, peer => $peer, direction => 'pull')"), qr/XX002: an index of public\.lost /, 'nor is it equal by now for iblt_repair');
	is($here->safe_psql('postgres', "SELECT status, kept FROM iblt_audit_table_stats WHERE run = $run"), 'differs|2', 'the run stays as it was');
	$here->safe_psql('postgres', 'REINDEX TABLE lost');
	is($here->safe_psql('postgres', "SELECT * FROM iblt_audit_recheck($run, $peer)"), 'public.lost|2|1|differs', 'and after REINDEX, the row that was deleted goes');
}

# A second row of a key, which the index does not know of.
both('CREATE TABLE twice (id int PRIMARY KEY, v text); INSERT INTO twice SELECT g, g FROM generate_series(1, 20000) g; VACUUM ANALYZE twice; CREATE ROLE reader_of_columns LOGIN; GRANT SELECT (id, v, tableoid, ctid) ON twice TO reader_of_columns');
unnoticed($there, 'twice_pkey', "INSERT INTO twice VALUES (7, 'x')");
like(failure("SELECT * FROM iblt_compare('twice', ${\ literal($there->connstr('postgres') . ' user=reader_of_columns')})"), qr/XX002: an index of public\.twice /,
	'a second row of a key that is unique, and rights to columns alone');

# A row that differs is not taken for one that is missing: a repair would insert it again.
$there->safe_psql('postgres', "INSERT INTO damaged VALUES (200000, 'y'), (200001, 'y')");
is(audit("iblt_audit($peer, '{damaged}')"), 'public.damaged error', 'a row that differs, and that the index lacks here');
like(failure("SELECT * FROM iblt_repair('damaged', $peer, direction => 'pull', apply => true)"), qr/XX002/, 'is not repaired');
is($here->safe_psql('postgres', 'SELECT count(*) FROM damaged'), '20002', 'nor inserted again');

# Rows that have come and gone meanwhile are no damage: they are not in the same version before and after.
both('CREATE TABLE restless (id int PRIMARY KEY, v int); INSERT INTO restless SELECT g, 0 FROM generate_series(1, 2000) g');
{
	my $script = "DO \$\$ BEGIN FOR i IN 1 .. 100000 LOOP UPDATE restless SET v = i WHERE id BETWEEN 1 + i * 7 % 1990 AND 11 + i * 7 % 1990; "
	  . "DELETE FROM restless WHERE id = 1 + i % 2000; COMMIT; INSERT INTO restless VALUES (1 + i % 2000, 0); COMMIT; END LOOP; END \$\$";
	my $load = IPC::Run::start([ 'psql', '-XAtq', '-d', $there->connstr('postgres'), '-c', $script ], '<', \'', '>', \my $out, '2>', \my $err);
	my $failed = join '', map { failure("SELECT * FROM iblt_compare('restless', $peer)") } 1 .. 15;
	$load->signal('INT');    # psql cancels the statement, and does not leave it running
	eval { $load->finish };
	is($failed, '', 'rows that come and go under a load are no damage');
}

# The second scan may find none of the rows of the first.
is($here->safe_psql('postgres', q{SELECT iblt_internal.unfound(s, none, none, '{a}'), iblt_internal.unfound(s, none, NULL, '{a}'), iblt_internal.unfound(s, none, s, '{a}'), iblt_internal.unfound(s, none, s, '{b}')
	FROM (SELECT ROW('{a}', NULL, NULL, '{d}', NULL, '{1}', NULL, NULL, NULL)::iblt_internal.found_rows, ROW(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::iblt_internal.found_rows) AS x(s, none)}),
	'{}|{}|{a}|{}', 'nothing is proved by rows that are gone, or are not those');

# A scan of a table's index alone would not see rows that it lacks.
both('CREATE TABLE pairs (a int, b int, PRIMARY KEY (a, b)) WITH (fillfactor = 20); INSERT INTO pairs SELECT g, g FROM generate_series(1, 20000) g');
unnoticed($here, 'pairs_pkey', 'INSERT INTO pairs VALUES (0, 1), (0, 2)');
both('VACUUM ANALYZE pairs');
like($here->safe_psql('postgres', 'EXPLAIN SELECT sum(a + b) FROM pairs'), qr/Index Only Scan/, 'the planner would read the index alone');
is(audit("iblt_audit($peer, '{pairs}')"), 'public.pairs error', 'but the table is read');
is(audit("iblt_audit(${\ literal($here->connstr('postgres'))}, '{pairs}')", node => $there), 'public.pairs error', 'on the peer, too');

# --- tables that are not there ----------------------------------------------------------

# A foreign table that leads to the other side would be equal to itself.
both('CREATE EXTENSION postgres_fdw; CREATE SCHEMA far; CREATE TABLE far.kept (id int PRIMARY KEY)');
$there->safe_psql('postgres', 'CREATE TABLE far.left_behind (id int PRIMARY KEY); INSERT INTO far.left_behind VALUES (1), (2); CREATE PUBLICATION far FOR TABLE far.left_behind');
$here->safe_psql('postgres', "CREATE SERVER old FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host ${\ literal($there->host)}, port '${\ $there->port}', dbname 'postgres');
	CREATE USER MAPPING FOR PUBLIC SERVER old; CREATE FOREIGN TABLE far.left_behind (id int NOT NULL) SERVER old");
is(audit("iblt_audit($peer, schema => 'far')"), "far.kept equal 0 0 0 0\nfar.left_behind not comparable", 'a foreign table here has no rows of its own');
is(detail("iblt_audit($peer, publication => 'far')"), '42809 it is a foreign table here: Its rows may be elsewhere. Name it in tables to compare it all the same.', 'the detail says so');
$there->safe_psql('postgres', 'CREATE TABLE far.moved (id int NOT NULL); INSERT INTO far.moved VALUES (1)');
$here->safe_psql('postgres', 'CREATE FOREIGN TABLE moved (id int NOT NULL) SERVER old; ALTER FOREIGN TABLE moved OPTIONS (schema_name $$far$$); CREATE VIEW far.moved AS SELECT * FROM (SELECT id FROM moved) AS m');
is(audit("iblt_audit($peer, schema => 'far')"), "far.kept equal 0 0 0 0\nfar.left_behind not comparable\nfar.moved not comparable", 'nor has a view of one');
like(detail("iblt_audit($peer, schema => 'far')"), qr/42809 it is a view here: Its rows/, 'which the detail calls so');
# A function may ask there, and no catalog says so.
$here->safe_psql('postgres', "CREATE OR REPLACE VIEW far.moved AS SELECT id FROM dblink(${\ literal($there->connstr('postgres'))}, 'SELECT id FROM far.moved') AS m(id int)");
is(audit("iblt_audit($peer, schema => 'far')"), "far.kept equal 0 0 0 0\nfar.left_behind not comparable\nfar.moved not comparable", 'nor has a view of what a function reads there');
foreach my $method ('sketch', 'plain')
{
	is(audit("iblt_audit(${\ literal($here->connstr('postgres'))}, schema => 'far', method => '$method')", node => $there), "far.kept equal 0 0 0 0\nfar.left_behind not comparable\nfar.moved not comparable", "nor has one there ($method)");
}
$there->safe_psql('postgres', 'DROP TABLE far.moved; CREATE TABLE far.attached (id int NOT NULL); INSERT INTO far.attached VALUES (1)');
$here->safe_psql('postgres', 'DROP VIEW far.moved; CREATE TABLE far.attached (id int NOT NULL) PARTITION BY RANGE (id); CREATE FOREIGN TABLE attached_1 PARTITION OF far.attached DEFAULT SERVER old OPTIONS (schema_name $$far$$, table_name $$attached$$)');
is(audit("iblt_audit($peer, schema => 'far')"), "far.attached not comparable\nfar.kept equal 0 0 0 0\nfar.left_behind not comparable", 'nor has a table with a foreign partition');
like(detail("iblt_audit($peer, schema => 'far')"), qr/42809 it is a table with foreign partitions here: Its rows/, 'which the detail calls so');
$_->safe_psql('postgres', 'DROP TABLE far.attached') foreach ($here, $there);
is(audit("iblt_audit($peer, '{far.left_behind}')"), 'far.left_behind equal 0 0 0 0', 'given as a table, it is compared');
is(audit("iblt_audit(${\ literal($here->connstr('postgres'))}, schema => 'far')", node => $there), "far.kept equal 0 0 0 0\nfar.left_behind not comparable", 'nor one there');

# --- messages ---------------------------------------------------------------------------

$here->safe_psql('postgres', 'CREATE ROLE stranger LOGIN; CREATE SERVER locked FOREIGN DATA WRAPPER dblink_fdw');
my $asked = "SELECT * FROM iblt_audit('locked', '{far.kept}')";
sub as_stranger { my ($rc, $out, $err) = $here->psql('postgres', $asked, extra_params => [ '-U', 'stranger' ]); return $err }
$here->safe_psql('postgres', 'GRANT USAGE ON SCHEMA far TO stranger');
like(as_stranger(), qr/could not connect to the peer, foreign server locked\nDETAIL:  You lack the USAGE privilege on the foreign server/, 'no right to use a foreign server');
$here->safe_psql('postgres', 'GRANT USAGE ON FOREIGN SERVER locked TO stranger');
like(as_stranger(), qr/could not connect to the peer, foreign server locked\nDETAIL:  The foreign server has no user mapping for stranger/, 'no user mapping');

# --- publications ---------------------------------------------------------------------

# One came with the schema's dump, and has not been kept up since.
both('CREATE TABLE pub_a (id int PRIMARY KEY); CREATE TABLE pub_b (id int PRIMARY KEY); CREATE TABLE pub_c (id int PRIMARY KEY); CREATE PUBLICATION two FOR TABLE pub_a, pub_c');
$there->safe_psql('postgres', 'ALTER PUBLICATION two ADD TABLE pub_b; INSERT INTO pub_b VALUES (1)');
is(audit("iblt_audit($peer, publication => 'two')"), "public.pub_a equal 0 0 0 0\npublic.pub_b not comparable\npublic.pub_c equal 0 0 0 0",
	'publications of one name on both sides: no table of either is passed over');
is(detail("iblt_audit($peer, publication => 'two') WHERE relation = 'public.pub_b'"),
	'only the publication of this name on the peer has this table, not the one here', 'the detail says which has it');
$here->safe_psql('postgres', 'ALTER PUBLICATION two ADD TABLE pub_b; CREATE TABLE pub_d (id int); ALTER PUBLICATION two ADD TABLE pub_d');
is(audit("iblt_audit($peer, publication => 'two') WHERE relation ~ '_[bd]\$'"), "public.pub_b differs 1 0 0 0\npublic.pub_d not comparable", 'nor the other way round');
if (major_version() >= 15)
{
	$here->safe_psql('postgres', 'ALTER PUBLICATION two SET TABLE pub_a, pub_b WHERE (id > 1), pub_c');
	is(audit("iblt_audit($peer, publication => 'two') WHERE relation ~ '_b\$'"), 'public.pub_b not comparable', 'nor rows, by the filter of one of them');
}

# --- settings -------------------------------------------------------------------------

both('CREATE TABLE arrays (id int PRIMARY KEY, v int[]); INSERT INTO arrays VALUES (1, \'{1}\')');
$here->safe_psql('postgres', "INSERT INTO arrays VALUES (2, '{2}')");
$there->safe_psql('postgres', "INSERT INTO arrays VALUES (3, '{3,NULL}')");
is(audit("iblt_audit($peer, '{arrays}')", setup => 'SET array_nulls = off; '), 'public.arrays differs 1 1 0 0', 'array_nulls = off');
is(audit("iblt_audit($peer, '{arrays}')", setup => 'SET quote_all_identifiers = on; '), 'public.arrays differs 1 1 0 0', 'quote_all_identifiers = on');
is(audit("iblt_audit(${\ literal($there->connstr('postgres') . ' options=-cquote_all_identifiers=on')}, '{arrays}')"), 'public.arrays differs 1 1 0 0', 'and there');
is($here->safe_psql('postgres', "SET array_nulls = off; BEGIN; SELECT action, status FROM iblt_repair('arrays', $peer, direction => 'pull', apply => true); SELECT v FROM arrays WHERE id = 3; ROLLBACK"),
	"delete|applied\ninsert|applied\n{3,NULL}", 'in a repair');
is($here->safe_psql('postgres', "SET array_nulls = off; SELECT count(*) FROM iblt_repair('arrays', ${\ literal($there->connstr('postgres') . ' options=-carray_nulls=off')}, direction => 'push', apply => true)"), '2', 'and there');

# --- tables that others inherit from --------------------------------------------------------------

# A publication has the own rows of a table, so an audit, a run and a repair of what a publication has compare
# and change these alone, in each way to read them.
sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }
sub own_audit { my ($options, $target) = @_; return sql($here, 'SELECT relation, status, rows_here, rows_there, missing, extra, changed FROM ' . audit_stats("iblt_audit($peer, ${\ ($target // q{publication => 'own'})}$options)") . ' AS a ORDER BY 1') }
sub run
{
	my ($options) = @_;
	my $run = sql($here, "CALL iblt_audit_run($peer, publication => 'own', progress => false$options)");
	return sql($here, "SELECT relation, status, rows_here, rows_there, missing, extra, changed FROM iblt_audit_table_stats WHERE run = $run ORDER BY 1");
}

# "small" is compared together with other small tables, "par" is larger, and "flat" has children on no side.
both(q{CREATE TABLE par (id int PRIMARY KEY, v text); CREATE TABLE kid (PRIMARY KEY (id)) INHERITS (par);
	CREATE TABLE small (id int PRIMARY KEY, v text); CREATE TABLE small_kid (PRIMARY KEY (id)) INHERITS (small); CREATE TABLE flat (id int PRIMARY KEY);
	INSERT INTO par SELECT g, md5(g::text) || repeat('x', 200) FROM generate_series(1, 6000) g; INSERT INTO kid SELECT g, 'kid' FROM generate_series(100, 300) g;
	INSERT INTO small SELECT g, 'row' FROM generate_series(1, 20) g; INSERT INTO small_kid SELECT g, 'kid' FROM generate_series(5, 25) g; INSERT INTO flat SELECT generate_series(1, 20)});
sql($here, 'CREATE PUBLICATION own FOR TABLE ONLY par, ONLY small, flat; VACUUM ANALYZE');
sql($there, 'VACUUM ANALYZE');

my %ways = (
	'an audit' => sub { return own_audit('') },
	'a plain one' => sub { return own_audit(", method => 'plain'") },
	'one with digests' => sub { return own_audit(", live => 'auto'") },
	'one of this side by a peer' => sub { return sql($there, 'SELECT relation, status, rows_here, rows_there, missing, extra, changed FROM ' . audit_stats("iblt_audit($peer, publication => 'own', here_peer => ${\ conninfo($here)})") . ' AS a ORDER BY 1') },
	'a run' => sub { return run('') },
	'a run of small slices' => sub { return run(', slice_ms => 1') },
	'a plain run of slices' => sub { return run(", slice_ms => 1, method => 'plain'") });
sub same_in
{
	my ($expected, $text, @names) = @_;
	is($ways{$_}->(), $expected, "$text: $_") foreach @names;
	return;
}

is(own_audit(''), "public.flat|equal|20|20|0|0|0\npublic.par|equal|6000|6000|0|0|0\npublic.small|equal|20|20|0|0|0", 'equal');
# a row moves into a child, which the publication does not have; all rows together stay the same
sql($there, q{DELETE FROM ONLY par WHERE id = 1000; INSERT INTO kid SELECT 1000, md5('1000') || repeat('x', 200);
	DELETE FROM ONLY small WHERE id = 3; INSERT INTO small_kid VALUES (3, 'row')});
is(sql($here, "SELECT count(*) FROM iblt_compare('par', $peer)"), '0', 'a comparison of the table by its name has the rows of its children');
same_in("public.flat|equal|20|20|0|0|0\npublic.par|differs|6000|5999|0|1|0\npublic.small|differs|20|19|0|1|0", 'a row that moved into a child', sort keys %ways);

my $kids = 'SELECT (SELECT md5(string_agg(k::text, $$,$$ ORDER BY id)) FROM kid AS k) || (SELECT md5(string_agg(k::text, $$,$$ ORDER BY id)) FROM small_kid AS k)';
my $before = sql($there, $kids);
# rows of the parent that a child has, too: one to delete, one to change, and one without a unique key
sql($there, q{INSERT INTO par VALUES (20000, 'extra'); INSERT INTO kid VALUES (20000, 'a kid'); UPDATE ONLY par SET v = 'drift' WHERE id IN (150, 6000);
	UPDATE ONLY small SET v = 'drift' WHERE id = 6});
$before = sql($there, $kids);
my $run = sql($here, "CALL iblt_audit_run($peer, publication => 'own', progress => false)");
is(sql($here, "SELECT target, count(*), string_agg(DISTINCT action || ' ' || status, ',' ORDER BY action || ' ' || status) FROM iblt_repair(run => $run, peer => $peer, direction => 'push', apply => true) GROUP BY 1 ORDER BY 1"),
	"public.par|4|delete applied,insert applied,update applied\npublic.small|2|insert applied,update applied", 'a repair of what a run has found');
is(sql($there, $kids), $before, 'changes no row of a child');
is(own_audit(''), "public.flat|equal|20|20|0|0|0\npublic.par|equal|6000|6000|0|0|0\npublic.small|equal|20|20|0|0|0", 'equal again');

foreach my $method ('sketch', 'plain')
{
	sql($there, q{DELETE FROM ONLY par WHERE id = 200; UPDATE ONLY par SET v = 'drift' WHERE id = 250; INSERT INTO par VALUES (-7, 'extra')});
	my ($rc, $out, $err) = $here->psql('postgres', "SELECT action, status, sql FROM iblt_repair('par', $peer, direction => 'push', apply => true, method => '$method') ORDER BY action");
	like($out, qr/^delete[|]applied[|]DELETE FROM ONLY public.par .*\ninsert[|]applied[|].*\nupdate[|]applied[|]UPDATE ONLY public.par/, "$method: a repair of a table that others inherit from on both sides");
	like($err, qr/NOTICE:  only the own rows of public.par are repaired, not those of tables that inherit from it/, "$method: says so");
	is(sql($there, $kids), $before, "$method: and changes no row of a child");
	is(sql($here, "SELECT count(*) FROM iblt_repair('par', $peer, direction => 'push', method => '$method')"), '0', "$method: nothing is left");
}

sql($there, q{DROP TABLE small_kid; CREATE TABLE own_kid (PRIMARY KEY (id)) INHERITS (flat); INSERT INTO own_kid SELECT generate_series(15, 40)});
same_in("public.flat|equal|20|20|0|0|0\npublic.par|equal|6000|6000|0|0|0\npublic.small|equal|20|20|0|0|0", 'children that are not published, and rows of the other side\'s own ones', 'an audit', 'a plain one', 'a run');
like(failure("SELECT * FROM iblt_repair('flat', $peer, direction => 'push')"), qr/42809: public.flat cannot be repaired: it is a table that others inherit from/, 'if only the target is such a table, a repair does not know what is meant');
# a wrapper without a handler: no statement may read the foreign table
sql($here, 'CREATE SERVER nowhere FOREIGN DATA WRAPPER dblink_fdw; CREATE FOREIGN TABLE far () INHERITS (par) SERVER nowhere');
same_in("public.flat|equal|20|20|0|0|0\npublic.par|equal|6000|6000|0|0|0\npublic.small|equal|20|20|0|0|0", 'a foreign table inherits', 'an audit', 'a plain one');
sql($here, 'DROP FOREIGN TABLE far');
sql($here, 'DROP PUBLICATION own; CREATE PUBLICATION own FOR TABLE small');
is(own_audit(''), "public.small|equal|20|20|0|0|0\npublic.small_kid|not comparable|||||", 'children that are published are compared by themselves');

# without a unique key; and a partitioned table, whose rows are all in partitions
both(q{CREATE TABLE bare (v text); CREATE TABLE bare_kid () INHERITS (bare); INSERT INTO bare VALUES ('a'), ('a'), ('b'); INSERT INTO bare_kid VALUES ('a');
	CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY HASH (id); CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0); INSERT INTO parted SELECT generate_series(1, 9)});
sql($here, q{DROP PUBLICATION own; CREATE PUBLICATION own FOR TABLE ONLY bare, parted WITH (publish_via_partition_root)});
sql($there, q{INSERT INTO bare VALUES ('a'); DELETE FROM parted WHERE id = 3});
my $lines = "public.bare|differs|3|4|0|0|1\npublic.parted|differs|9|8|0|1|0";
is(own_audit(''), $lines, 'rows without a key, and a partitioned table');
is(own_audit(", method => 'plain'"), $lines, 'by plain queries');
$run = sql($here, "CALL iblt_audit_run($peer, publication => 'own', progress => false)");
is(sql($here, "SELECT target, action, status FROM iblt_repair(run => $run, peer => $peer, direction => 'push', apply => true) ORDER BY 1"), "public.bare|delete|applied\npublic.parted|insert|applied", 'a repair of these');
is(sql($there, 'SELECT (SELECT count(*) FROM ONLY bare), (SELECT count(*) FROM bare_kid)'), '3|1', 'deletes the right one of equal rows');

# a subscription
both('CREATE TABLE sub_par (id int PRIMARY KEY, v int); CREATE TABLE sub_kid () INHERITS (sub_par)');
sql($here, 'INSERT INTO sub_par SELECT g, g FROM generate_series(1, 100) g; INSERT INTO sub_kid VALUES (7, 7); CREATE PUBLICATION pub FOR TABLE ONLY sub_par');
sql($there, "CREATE SUBSCRIPTION sub CONNECTION ${\ conninfo($here)} PUBLICATION pub");
subscribed($there, 1);
sql($there, 'INSERT INTO sub_kid SELECT g, 0 FROM generate_series(50, 60) g');
my $of_sub = sub { return sql($there, 'SELECT status, rows_here, missing, extra, unconfirmed FROM ' . audit_stats(q{iblt_audit(subscription => 'sub')}) . ' AS a') };
is($of_sub->(), 'equal|100|0|0|0', 'a subscriber has rows of its own in a child');
sql($here, 'UPDATE sub_par SET v = -v WHERE id < 20');
sql($there, 'SET session_replication_role = replica; DELETE FROM ONLY sub_par WHERE id = 55');
is($of_sub->(), 'differs|99|1|0|0', 'and lacks one of the parent that a child has: confirmed');

# --- a pooler ------------------------------------------------------------------------

# A pooler may give each query another session, and each session to other clients: a
# query brings its settings along, and leaves none behind.
foreach my $style ('postgres', 'iso_8601')
{
	my $conn = 'iblt_00000000-0000-0000-0000-000000000000';
	my $session = IbltTest::Session->new($here);
	$session->run("SET IntervalStyle = $style");
	my $ask = sub { $session->run("SELECT iblt_internal.ask_one('$conn', ${\ literal($_[0])})") };
	my $settings = 'SELECT concat_ws(\' \', current_setting(\'row_security\'), current_setting(\'transaction_read_only\'), current_setting(\'search_path\'),
		now()::date - 1 = current_date - 1, timestamptz \'2026-01-02 03:04+00\', interval \'1 day\', 0.1::float8 + 0.2, current_setting(\'transaction_isolation\'))';
	my $expected = 'off on iblt_internal, pg_catalog, pg_temp t 2026-01-02 03:04:00+00 ' . ($style eq 'iso_8601' ? 'P1D' : '1 day') . ' 0.30000000000000004 read committed';
	$session->run("SELECT iblt_internal.connect(ARRAY[$peer], '{$conn}')");
	is($ask->($settings), $expected, "IntervalStyle $style: a query has its settings");
	my $there_run = sub { $session->run("SELECT answer FROM iblt_internal.iblt_peer_send('$conn', ${\ literal($_[0])}) AS sent, LATERAL iblt_internal.iblt_peer_fetch('$conn', left(sent::text, 0))") };
	is($there_run->("SELECT coalesce(string_agg(name, ' ' ORDER BY name), 'none') FROM pg_settings
		WHERE source = 'session' AND name NOT IN ('application_name', 'transaction_isolation')"), 'none', 'and leaves none behind');
	$there_run->("SET row_security = on; SET search_path = evil, pg_catalog; SET DateStyle = German; SET TimeZone = 'Asia/Tokyo';
		SET IntervalStyle = sql_standard; SET extra_float_digits = -3; SET default_transaction_isolation = serializable");
	is($ask->($settings), $expected, 'in a session that has others, too');
	$ask->('SELECT set_config(\'transaction_read_only\', \'off\', true)');
	like($session->{err}, qr/ERROR: .*read-write mode must be set before any query/, 'and cannot write');
	$session->run("SELECT iblt_internal.peers_close('{$conn}')");
	$session->quit;
}

done_testing();
