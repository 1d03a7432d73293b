# Audits, runs and iblt-audit between two databases, conducted from a third that has iblt and
# dblink and nothing of theirs.  Their answers are those of one of the two.
use IbltAudit;
use IPC::Run;
use JSON::PP;

my ($here, $there) = (ready('here'), ready('there', 'log_connections = on'));
sides($here, $there);
$here->safe_psql('postgres', 'CREATE DATABASE conductor TEMPLATE postgres');
my ($near, $peer) = (conninfo($here), conninfo($there));

# --- two databases ------------------------------------------------------------------------------

both(q{CREATE SCHEMA m; SET search_path = m, public;
	CREATE TYPE m.mood AS ENUM ('sad', 'ok'); CREATE DOMAIN m.word AS text; CREATE COLLATION m.german (provider = libc, locale = 'C');
	CREATE TABLE a_same AS SELECT g AS id, md5(g::text) AS v FROM generate_series(1, 50) g; ALTER TABLE a_same ADD PRIMARY KEY (id);
	CREATE TABLE b_empty (id int PRIMARY KEY); CREATE TABLE c_no_key AS SELECT g % 3 AS v FROM generate_series(1, 9) g;
	CREATE TABLE e_enum (id m.mood PRIMARY KEY, v m.mood[]); INSERT INTO e_enum VALUES ('sad', '{ok}'), ('ok', '{}');
	CREATE TABLE f_text (id m.word COLLATE m.german PRIMARY KEY, v jsonb); INSERT INTO f_text SELECT g, to_jsonb(g) FROM generate_series(1, 3000) g;
	CREATE TABLE g_parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE g_part_1 PARTITION OF g_parts FOR VALUES FROM (0) TO (10);
	CREATE TABLE g_part_2 PARTITION OF g_parts FOR VALUES FROM (10) TO (90); INSERT INTO g_parts SELECT g, g FROM generate_series(0, 20) g;
	CREATE TABLE "h ""odd"", name" ("a""b" int PRIMARY KEY, t int); INSERT INTO "h ""odd"", name" VALUES (1, 2);
	CREATE TABLE i_changed AS TABLE a_same; ALTER TABLE i_changed ADD PRIMARY KEY (id); CREATE TABLE j_missing AS TABLE i_changed;
	CREATE TABLE m_column (id int PRIMARY KEY, v int); INSERT INTO m_column VALUES (1, 2); CREATE TABLE n_types (id int PRIMARY KEY);
	CREATE TABLE o_view AS SELECT 1 AS id; CREATE TABLE s_large AS SELECT g AS id, repeat('x', 100) AS v FROM generate_series(1, 12000) g; ALTER TABLE s_large ADD PRIMARY KEY (id);
	CREATE TABLE t_here (id int)});
$here->safe_psql('postgres', q{SET search_path = m; CREATE TABLE k_here AS TABLE a_same; CREATE VIEW x_view AS SELECT 1 AS id});
$there->safe_psql('postgres', q{SET search_path = m, public; UPDATE i_changed SET v = 'x' WHERE id = 7; DELETE FROM j_missing WHERE id < 4; INSERT INTO j_missing VALUES (77, 'new');
	ALTER TABLE m_column ADD w int; ALTER TABLE n_types ALTER id TYPE bigint; DROP TABLE o_view; CREATE VIEW o_view AS SELECT 1 AS id;
	DROP TABLE t_here; CREATE TABLE t_there (id int); CREATE TABLE x_view (id int); UPDATE e_enum SET v = '{sad}' WHERE id = 'ok';
	UPDATE s_large SET v = 'y' WHERE id % 4000 = 5; DELETE FROM f_text WHERE id = '1500'; CREATE SCHEMA m2; CREATE TABLE m2.other (id int)});
# keys that only their own servers can order
my $icu = $here->safe_psql('postgres', q{SELECT count(*) > 0 FROM pg_collation WHERE collprovider = 'i'}) eq 't';
both(q{CREATE COLLATION m.english (provider = icu, locale = 'en'); CREATE TABLE m.q_icu (id text COLLATE m.english PRIMARY KEY);
	INSERT INTO m.q_icu SELECT CASE g % 2 WHEN 1 THEN 'key ' ELSE 'KEY ' END || md5(g::text) FROM generate_series(1, 4000) g}) if $icu;
$there->safe_psql('postgres', q{DELETE FROM m.q_icu WHERE id LIKE '% 00%'}) if $icu;
both('CREATE SCHEMA checks; CREATE EXTENSION amcheck SCHEMA checks; ANALYZE');
foreach my $node ($here, $there)
{
	IbltPool::node_end($node);
	$node->safe_psql('template1', 'CREATE DATABASE bare TEMPLATE postgres');
	$node->safe_psql('bare', 'DROP EXTENSION iblt CASCADE; DROP EXTENSION dblink');
}

# What is said of the servers has their names instead of what one of them calls the other.
sub normal { my ($text) = @_; return $text =~ s/on "there"/on the peer/gr =~ s/on "here": //gr =~ s/"(?:here|there)" (has|and)/the peer $1/gr }

my $columns = "coalesce(relation, peer_relation), peer_relation, status, sqlstate, CASE WHEN sqlstate = '42P01' THEN 'no relation' ELSE detail END, rows_here, rows_there, missing, extra, changed, unconfirmed";
# Tables that were asked for together, which have the same share of the bytes.
my $together;
sub audited
{
	my ($node, $database, $arguments) = @_;
	my ($rc, $out, $err) = $node->psql($database, "SET client_min_messages = error; SELECT FROM iblt_audit($arguments);
		SELECT max(n) FROM (SELECT count(*) AS n FROM iblt_audit_stats() WHERE status = 'equal' GROUP BY bytes) AS b; SELECT $columns FROM iblt_audit_stats()");
	$together = $out =~ s/^\n*(\d*)\n// ? $1 : undef;
	return normal($rc == 0 ? $out =~ s/^\n+//r : $err =~ s/^psql:[^ ]* //r =~ s/^LINE.*//msr);
}

# The same audit from here and from elsewhere.
sub same_audit
{
	my ($arguments, $text, %how) = @_;
	my $from_here = audited($here, 'postgres', "$peer, " . ($how{tables} ? "tables => '{$how{tables}}', " : '') . $arguments);
	my $from_elsewhere = audited($here, 'conductor', "$peer, here_peer => $near, " . ($how{tables} ? "here_tables => '{$how{tables}}', " : '') . $arguments);
	is($from_elsewhere, $from_here, $text);
	return $from_elsewhere;
}

my $found = same_audit("schema => 'm'", 'a schema');
cmp_ok($together, '>=', 4, 'small tables are compared together');
like($found, qr/^m\.s_large\|m\.s_large\|differs\|\|\|12000\|12000\|0\|0\|3\|0$/m, 'with what differs');
like($found, qr/^m\.t_there\|.*the table does not exist here/m, 'and what is only there');
like($found, qr/^m\.x_view\|/m, 'and what is something else here');
same_audit("seed => 5", 'tables by name', tables => 'm.a_same,m.a_same,m.g_parts,m.i_changed,m.s_large,m.g_part_1');
same_audit("schema => 'm', method => 'plain'", 'by plain queries, though both have iblt');
same_audit("schema => 'm2'", 'a schema of the peer alone');
same_audit("schema => 'none'", 'a schema of no side');
same_audit("schema => 'm', peer_schema => 'm2'", 'a schema with another name there');

# neither has iblt, or one of them
{
	my ($bare_near, $bare_peer) = map { literal($_->connstr('bare')) } ($here, $there);
	my $plain = audited($here, 'postgres', "$bare_peer, schema => 'm', method => 'plain'");
	foreach ([ $bare_near, $bare_peer, 'no side has' ], [ $bare_near, $peer, 'the first side has no' ], [ $near, $bare_peer, 'the second side has no' ])
	{
		is(audited($here, 'conductor', "$_->[1], schema => 'm', method => 'auto', here_peer => $_->[0]"), $plain, "$_->[2] iblt");
		cmp_ok($together, '>=', 4, 'small tables are compared together');
	}
	like(audited($here, 'conductor', "$peer, schema => 'm', here_peer => $bare_near"), qr/extension iblt is not installed in the peer's database|iblt is not installed in "here"/, 'by sketches, that is an error');
}

# --- what is refused ------------------------------------------------------------------------------

sub fails { my ($sql) = @_; my (undef, undef, $err) = $here->psql('conductor', "\\set VERBOSITY verbose\n$sql"); return $err }
like(fails("SELECT * FROM iblt_audit($peer, here_peer => $peer)"), qr/22023: here and the peer are the same database/, 'one database');
like(fails("SELECT * FROM iblt_audit($peer, tables => '{pg_class}', here_peer => $near)"), qr/22023: with here_peer, tables are named by here_tables/, 'tables of the conductor');
like(fails("SELECT * FROM iblt_audit($peer, here_tables => '{m.a_same}')"), qr/22023: here_tables needs here_peer/, 'here_tables alone');
like(fails("SELECT * FROM iblt_audit($peer, here_tables => '{a_same}', here_peer => $near)"), qr/22023: here_tables must be a name with its schema/, 'a name without its schema');
like(fails("SELECT * FROM iblt_audit($peer, here_tables => '{m.a_same,NULL}', here_peer => $near)"), qr/22004: tables must not contain nulls/, 'a null');
like(fails("SELECT * FROM iblt_audit($peer, schema => 'm', here_tables => '{m.a_same}', here_peer => $near)"), qr/22023: at most one of/, 'two lists');
like(fails("SELECT * FROM iblt_audit(here_peer => $near)"), qr/22004: peer must not be null/, 'no peer');

# --- publications and subscriptions ---------------------------------------------------------------

my $filter = major_version() >= 15 ? ' WHERE (id < 1000)' : '';
both('CREATE SCHEMA p; CREATE TABLE p.a (id int PRIMARY KEY, v text); CREATE TABLE p.b (id int PRIMARY KEY, v text, twice int GENERATED ALWAYS AS (id * 2) STORED); CREATE TABLE p.large (id int PRIMARY KEY, v text);
	CREATE TABLE p.later (id int PRIMARY KEY)');
$there->safe_psql('postgres', "INSERT INTO p.a SELECT g, 'a' FROM generate_series(1, 1500) g; INSERT INTO p.b SELECT g, 'b' FROM generate_series(1, 30) g; INSERT INTO p.large SELECT g, repeat('x', 100) FROM generate_series(1, 12000) g;
	CREATE PUBLICATION pub FOR TABLE p.a$filter, p.b, p.large; CREATE PUBLICATION mine FOR TABLE p.b");
# the conductor has publications and subscriptions of these names, too
$here->safe_psql('conductor', q{CREATE TABLE decoy (id int); CREATE PUBLICATION pub FOR TABLE decoy; CREATE PUBLICATION mine FOR TABLE decoy;
	CREATE SUBSCRIPTION sub CONNECTION 'host=/nonexistent' PUBLICATION pub WITH (connect = false, slot_name = NONE)});
$here->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION $peer PUBLICATION pub");
subscribed($here, 3, 'sub');
$there->wait_for_catchup('sub');
sub same_subscription
{
	my ($text, $options) = @_;
	return same_audit("subscription => 'sub'" . ($options // ''), $text);
}
like(same_subscription('a subscription'), qr/\A(?:.*\|equal\|.*\n?){3}\z/, 'all is equal');
is($together, 2, 'small published tables are compared together');
audited($here, 'conductor', "$near, publication => 'pub', here_peer => $peer");
is($together, 2, 'in the other direction, too');
$here->safe_psql('postgres', "UPDATE p.a SET v = 'drift' WHERE id < 4; DELETE FROM p.b WHERE id = 5; INSERT INTO p.large VALUES (-1, ''); INSERT INTO p.a VALUES (2000, 'extra')");
like(same_subscription('with drift'), qr/^p\.b\|p\.b\|differs\|.*\|29\|30\|1\|0\|0\|0$/m, 'which is confirmed');
same_audit("publication => 'pub'", 'a publication of the peer');
is(audited($there, 'postgres', "$near, publication => 'pub'"), audited($here, 'conductor', "$near, here_peer => $peer, publication => 'pub'"), 'a publication of this side');
$there->safe_psql('postgres', 'ALTER PUBLICATION pub ADD TABLE p.later');
like(same_subscription('a table that is published, but not subscribed'), qr/^p\.later\|.*not comparable.*ALTER SUBSCRIPTION/m, 'with what to do');
same_audit("publication => 'none'", 'no such publication');
$here->safe_psql('postgres', 'ALTER FUNCTION iblt_internal.audit_subscribed(regclass) RENAME TO nobody_subscribed');
like(fails("SELECT * FROM iblt_audit($peer, subscription => 'sub', here_peer => $near)"), qr/42883: on "here": function iblt_internal.audit_subscribed/, 'what one side cannot answer for many tables');
$here->safe_psql('postgres', 'ALTER FUNCTION iblt_internal.nobody_subscribed(regclass) RENAME TO audit_subscribed');
like(fails("SELECT * FROM iblt_audit($peer, subscription => 'none', here_peer => $near)"), qr/42704: subscription "none" does not exist in the database of "here"/, 'no such subscription');
like(fails("SELECT * FROM iblt_audit(subscription => 'sub', here_peer => $near)"), qr/22004: peer must not be null.*connection string of a subscription may lead elsewhere/s, 'its connection string is not used elsewhere');
if (major_version() >= 15)
{
	# a second source, so that the filter would have to run on the subscriber
	$there->safe_psql('postgres', 'CREATE PUBLICATION second FOR TABLE p.a');
	$here->safe_psql('postgres', "CREATE SUBSCRIPTION other CONNECTION $peer PUBLICATION second WITH (copy_data = false, enabled = false, create_slot = false, slot_name = other)");
	like(same_subscription('two sources'), qr/^p\.a\|.*refusing to run the peer's row filter here/m, 'a filter of another server');
	same_subscription('a filter that is trusted', ', trust_filters => true');
	like(audited($here, 'conductor', "$near, here_peer => $peer, publication => 'pub'"), qr/^p\.a\|.*refusing to run the row filter of here on the peer/m, 'the other way round');
	$here->safe_psql('postgres', 'ALTER SUBSCRIPTION other SET (slot_name = NONE); DROP SUBSCRIPTION other');
}
my $report = $here->safe_psql('conductor', "SET client_min_messages = error; SELECT FROM iblt_audit($peer, subscription => 'sub', here_peer => $near);
	SELECT iblt_audit_report((SELECT json_agg(row_to_json(s)) FROM iblt_audit_stats() AS s), subscription => 'sub', peer => $peer, here_peer => $near)");
like($report, qr/^subscription "sub" has an apply worker, the slot is \d+ \w+ behind/m, 'a report says how the subscription of that side does');

# --- runs -------------------------------------------------------------------------------------------

my $run_columns = "relation, peer_relation, status, sqlstate, rows_here, rows_there, missing, extra, changed, unconfirmed, kept";
sub of_run
{
	my ($database, $run) = @_;
	return $here->safe_psql($database, "SELECT $run_columns FROM iblt_audit_table_stats WHERE run = $run ORDER BY table_number;
		SELECT relation, key, side, here, there, confirmed FROM iblt_audit_differences WHERE run = $run ORDER BY relation, key::text");
}
sub begin_at { my ($database, $arguments) = @_; return $here->safe_psql($database, "SET client_min_messages = error; CALL iblt_audit_run($arguments, progress => false)") }
my $from_here = begin_at('postgres', "$peer, schema => 'm', rows => true, slice_ms => 2");
my $from_elsewhere = begin_at('conductor', "$peer, schema => 'm', rows => true, slice_ms => 2, max_lag => '1 day', here_peer => $near");
is(of_run('conductor', $from_elsewhere), of_run('postgres', $from_here), 'a run has the same tables and differences');
cmp_ok($here->safe_psql('conductor', "SELECT max(slices) FROM iblt_audit_table_stats WHERE run = $from_elsewhere"), '>', 2, 'in slices');
cmp_ok($here->safe_psql('conductor', "SELECT slices FROM iblt_audit_table_stats WHERE run = $from_elsewhere AND relation = 'm.q_icu'"), '>', 2, 'also where this database has not the collation') if $icu;
is($here->safe_psql('conductor', "SELECT state, here, peer FROM iblt_audit_run_stats WHERE run = $from_elsewhere"), 'finished||', 'no connection string is kept');
my $checked = begin_at('conductor', "$peer, here_tables => '{m.s_large}', check_indexes => true, here_peer => $near");
like($here->safe_psql('conductor', "SELECT detail FROM iblt_audit_tables WHERE run = $checked"), qr/read by index m\.s_large_pkey \(checked\) here, m\.s_large_pkey \(checked\) there/, 'amcheck is asked of both');
my ($bare_near, $bare_peer) = map { literal($_->connstr('bare')) } ($here, $there);
my $plain_here = of_run('postgres', begin_at('postgres', "$bare_peer, schema => 'm', method => 'plain', slice_ms => 10"));
is(of_run('conductor', begin_at('conductor', "$_->[1], schema => 'm', method => 'auto', slice_ms => 10, here_peer => $_->[0]")), $plain_here, "where $_->[2] no iblt")
	foreach [ $bare_near, $bare_peer, 'both sides have' ], [ $bare_near, $peer, 'the first side has' ], [ $near, $bare_peer, 'the second side has' ];

# stopped, gone on with, and by two sessions
{
	my $stopped = begin_at('conductor', "$peer, schema => 'm', max_time => '0', here_peer => $near");
	is($here->safe_psql('conductor', "SELECT state, tables_done FROM iblt_audit_run_stats WHERE run = $stopped"), 'stopped|0', 'a run that has not begun');
	like(fails("CALL iblt_audit_resume($stopped, $peer)"), qr/22004: the connection string of here of run $stopped was not kept/, 'connection strings are not kept');
	like(fails("CALL iblt_audit_resume($stopped, here_peer => $near)"), qr/22004: the connection string of the peer of run $stopped was not kept/, 'of either side');
	like(fails("CALL iblt_audit_resume($stopped, $peer, here_peer => ${\ literal($here->connstr('conductor'))})"), qr/22023: run $stopped was begun with another here_peer/, 'another database');
	like(fails("CALL iblt_audit_resume($stopped, ${\ literal($here->connstr('conductor'))}, here_peer => $near)"), qr/22023: run $stopped was begun with another peer/, 'on either side');
	my @sessions = map { IbltTest::Session->new($here, 'conductor')->start("CALL iblt_audit_resume($stopped, $peer, progress => false, here_peer => $near)") } 1 .. 2;
	$_->done, is($_->{err} =~ s/^NOTICE.*\n//mgr, '', 'a session without an error'), $_->quit foreach @sessions;
	is($here->safe_psql('conductor', "SELECT count(*) FROM iblt_audit_tables WHERE run = $stopped AND status = 'waiting'"), 0, 'two sessions go on with it');
	is(of_run('conductor', $stopped) =~ s/^.*\|(?:here|there|both)\|.*\n?//mgr, of_run('postgres', $from_here) =~ s/^.*\|(?:here|there|both)\|.*\n?//mgr, 'and find the same');
}
my $local = begin_at('postgres', "$peer, tables => '{m.a_same}', max_time => '0'");
my (undef, undef, $err) = $here->psql('postgres', "CALL iblt_audit_resume($local, $peer, here_peer => $near)");
like($err, qr/run $local compares tables of this database/, 'a run of this database has no other');

# foreign servers are kept
foreach my $server ([ near => $here ], [ far => $there ])
{
	my ($name, $node) = @$server;
	$here->safe_psql('conductor', "CREATE SERVER $name FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '${\ $node->host}', port '${\ $node->port}', dbname 'postgres'); CREATE USER MAPPING FOR CURRENT_USER SERVER $name");
}
my $run = begin_at('conductor', "'far', here_tables => '{m.i_changed,m.j_missing,m.s_large}', max_time => '0', here_peer => 'near', rows => true, slice_ms => 2");
$here->safe_psql('conductor', "CALL iblt_audit_resume($run, progress => false)");
is($here->safe_psql('conductor', "SELECT state, here, peer, missing, extra, changed FROM iblt_audit_run_stats WHERE run = $run"), 'finished|near|far|1|3|4', 'foreign servers are');

# --- after a run ------------------------------------------------------------------------------------

$there->safe_psql('postgres', 'UPDATE m.s_large SET v = (SELECT v FROM m.s_large WHERE id = 1) WHERE id = 5');
is($here->safe_psql('conductor', "SELECT relation, before, after FROM iblt_audit_recheck($run)"), "m.i_changed|1|1\nm.j_missing|4|4\nm.s_large|3|2", 'its differences are looked at again');
my $preview = "SELECT target, action, count(*), min(status) FROM iblt_repair(run => $run, direction => DIRECTION) GROUP BY 1, 2 ORDER BY 1, 2";
is($here->safe_psql('conductor', $preview =~ s/DIRECTION/'pull'/r), "m.i_changed|update|1|preview\nm.j_missing|delete|3|preview\nm.j_missing|insert|1|preview\nm.s_large|update|2|preview", 'a preview of its repair');
is($here->safe_psql('conductor', "SELECT action, status FROM iblt_repair(run => $run, here_relation => 'm.i_changed', direction => 'push', apply => true)"), 'update|applied', 'the other side is repaired');
is($there->safe_psql('postgres', 'SELECT v = md5(id::text) FROM m.i_changed WHERE id = 7'), 't', 'really');
is($here->safe_psql('conductor', "SELECT count(*), min(status), max(status) FROM iblt_repair(run => $run, direction => 'pull', apply => true)"), '6|applied|applied', 'and this side');
is($here->safe_psql('conductor', "SELECT status, count(*), sum(kept) FROM iblt_audit_table_stats WHERE run = $run GROUP BY 1"), 'equal|3|0', 'then the run has none left');
is($here->safe_psql('conductor', "SELECT status, count(*) FROM iblt_audit('far', here_tables => '{m.i_changed,m.j_missing,m.s_large}', here_peer => 'near') GROUP BY 1"), 'equal|3', 'and an audit finds none');
# the same where neither has iblt
my $tables = '{m.e_enum,m.i_changed,m.j_missing}';
my $bare = begin_at('conductor', "$bare_peer, here_tables => '$tables', method => 'auto', rows => true, here_peer => $bare_near");
my $mend = "SELECT target, action, count(*), min(status), max(status) FROM iblt_repair(run => $bare, peer => $bare_peer, here_peer => $bare_near, direction => 'push'";
my $mended = "m.e_enum|update|1|STATUS|STATUS\nm.i_changed|update|1|STATUS|STATUS\nm.j_missing|delete|1|STATUS|STATUS\nm.j_missing|insert|3|STATUS|STATUS";
is($here->safe_psql('conductor', "$mend) GROUP BY 1, 2 ORDER BY 1, 2"), $mended =~ s/STATUS/preview/gr, 'a preview of the repair of a run without iblt');
is($here->safe_psql('conductor', "$mend, apply => true) GROUP BY 1, 2 ORDER BY 1, 2"), $mended =~ s/STATUS/applied/gr, 'and the repair');
is($here->safe_psql('conductor', "SELECT status, count(*), sum(kept) FROM iblt_audit_table_stats WHERE run = $bare GROUP BY 1"), 'equal|3|0', 'after which the run has none left');
my $all = join ', ', map { "(SELECT md5(string_agg(t::text, ',' ORDER BY t)) FROM $_ AS t)" } $tables =~ /[\w.]+/g;
is($there->safe_psql('bare', "SELECT $all"), $here->safe_psql('bare', "SELECT $all"), 'and the tables are the same');
nothing_left('after all that', $there, $here);

# --- the script -------------------------------------------------------------------------------------

my $home = PostgreSQL::Test::Utils::tempdir();
my $tmp = PostgreSQL::Test::Utils::tempdir_short();
both(q{CREATE ROLE auditor LOGIN PASSWORD 'tops3cret'; GRANT USAGE ON SCHEMA m TO auditor; GRANT SELECT ON ALL TABLES IN SCHEMA m TO auditor});
hba($_, 'local all auditor scram-sha-256') foreach ($here, $there);
append_to_file("$home/.pgpass", "*:*:*:auditor:tops3cret\n");
chmod 0600, "$home/.pgpass";
append_to_file("$home/services", "[old]\nhost=${\ $there->host}\nport=${\ $there->port}\ndbname=postgres\nuser=auditor\n");
my @sides = ('from=old', "to=host=${\ $here->host} port=${\ $here->port} dbname=postgres user=auditor");

sub script
{
	my ($arguments, %how) = @_;
	rmdir foreach glob("$tmp/server-*");    # its server is made of the same copy each time
	local $SIG{INT} = 'DEFAULT';    # a job in the background ignores it, and so does what it starts
	return program($arguments, %how, env => { HOME => $home, PGPASSFILE => "$home/.pgpass", PGSERVICEFILE => "$home/services", TMPDIR => $tmp, TESTDIR => $tmp,
		PGDATABASE => 'nowhere', PGHOST => '/nowhere', PGPORT => 1, %{ $how{env} // {} } });
}

# Directories of servers, and these.
sub servers_left { return join(' ', grep { !/server-/ } glob("$tmp/*")) . join(' ', grep { /\Q$tmp\E/ } split /\n/, `ps -eo args`) }

mkdir "$tmp/it's";
my ($status, $out) = script([ @sides, "tables={m.a_same,m.i_changed,m.s_large}" ], env => { TMPDIR => "$tmp/it's" });
is($status, 0, 'from, to: equal') or note($out);
like($out, qr/^equal: 3 tables.*^equal +m\.s_large +12,000 +12,000 /ms, 'with the tables');
ok(rmdir("$tmp/it's"), 'the directory of its server is gone');
is(servers_left(), '', 'nothing is left of it');
$here->safe_psql('postgres', 'DELETE FROM m.a_same WHERE id = 5');
my $answered;
($status, $out) = script([ '--json', '--run', '--jobs', '2', @sides, 'tables={m.a_same,m.i_changed}', 'max_load=1' ]);
$answered = eval { JSON::PP->new->decode($out) } // {};
is("$status $answered->{verdict} " . join(',', map { "$_->{relation} $_->{status} $_->{missing}" } @{ $answered->{tables} // [] }), '1 differs m.a_same differs 1,m.i_changed equal 0', 'a run by two sessions: differs') or note($out);
($status, $out, $err) = script([ '--all', @sides, 'schema=m' ]);
is($status, 1, 'structure and sequences, too');
like($out, qr/table m\.k_here: exists: true here, nothing there/, 'with what differs') or note("$out $err");
($status, $out) = script([ '--nagios', $sides[0], 'to=nowhere', 'schema=m' ]);
is($status, 3, 'a service that is not known: could not tell');
like($out, qr/^IBLT UNKNOWN/, 'in its form');
($status, $out, $err) = script([ '--json', @sides, 'schema=m' ], env => { PGPASSFILE => '/dev/null' });
is($status, 2, 'no password: could not tell');
is($out, qq({"verdict": "unknown", "tables": []}\n), 'in its form');
($status, $out, $err) = script([ '--json', @sides, 'password=tops3cret' ]);
is($status, 2, 'a name that is not known');
is(servers_left(), '', 'nothing is left after errors');
($status, $out) = script([ '--json', "from=host=${\ $there->host} port=${\ $there->port} dbname=postgres", "to=host=${\ $here->host} port=${\ $here->port} dbname=postgres", 'tables={m.i_changed}',
		"via=host=${\ $here->host} port=${\ $here->port} dbname=conductor" ]);
is($status, 0, 'conducted by a database that is given') or note($out);
($status, $out, $err) = script([ '--all', '--json', $sides[0], 'schema=m', "via=host=${\ $here->host} port=${\ $here->port} dbname=conductor" ]);
is($status, 2, 'from without to: that database is not the other side') or note($out);
like($err, qr/from= and to= go together/, 'as it says');

# It is ended while it waits for a lock.
foreach my $signal (qw(TERM INT))
{
	my $holder = holding($there, 'BEGIN; LOCK TABLE m.a_same');
	($status) = script([ '--json', @sides, 'tables={m.a_same}' ], meanwhile => sub {
			local %ENV = %ENV;
			delete @ENV{qw(PGDATABASE PGHOST PGPORT PGPASSFILE PGSERVICEFILE)};
			wait_for($there, q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'm.a_same'::regclass});
			isnt(servers_left(), '', "SIG$signal: its server runs");
			# as somebody does who is impatient
			foreach my $time (1 .. 10)
			{
				$_[0]->signal($signal);
				select undef, undef, undef, 0.01;
			}
		});
	is($status, { TERM => 143, INT => 130 }->{$signal}, "SIG$signal: its status");
	is(servers_left(), '', "SIG$signal: nothing is left of its server");
	$holder->quit;
}
unlike(slurp_file($_->logfile), qr/tops3cret(?!'; GRANT)/, 'the password is in no log') foreach ($here, $there);

done_testing();
