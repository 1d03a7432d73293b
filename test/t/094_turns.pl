# How many questions and bytes it takes, as a proxy between the servers counts them.
# Seeds are fixed, since how many cells it takes depends on chance.
use IbltCompare;
use IbltProxy;

IbltTest::share_sessions(0);

my ($here, $there) = two_servers();
inside($here, $there);
both('CREATE TABLE equal (id int PRIMARY KEY, a text, b timestamptz, c numeric);
	INSERT INTO equal SELECT g, md5(g::text), timestamptz \'2026-01-01 00:00+00\' + g * interval \'1 s\', g / 7.0 FROM generate_series(1, 1000) g;
	CREATE UNLOGGED TABLE large AS SELECT g::bigint AS id, 7 * g AS v FROM generate_series(2, 1000000, 5) g; ALTER TABLE large ADD PRIMARY KEY (id)');
$there->safe_psql('postgres', 'CREATE UNLOGGED TABLE hundred AS SELECT id, CASE id % 10000 WHEN 7 THEN 0 ELSE v END AS v FROM large; ALTER TABLE hundred ADD PRIMARY KEY (id);
	CREATE UNLOGGED TABLE thousands AS SELECT id, CASE id % 100 WHEN 7 THEN 0 ELSE v END AS v FROM large; ALTER TABLE thousands ADD PRIMARY KEY (id)');

my $proxy = IbltProxy->new($there);

# What a comparison takes: its rows, all bytes with those of connecting, bytes of sketches, questions.
sub taken
{
	my ($arguments) = @_;
	my $count = $here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare($arguments)" =~ s/PEER/literal($proxy->connstr)/er);
	my ($sent, $received, $sketches, undef, $questions) = $proxy->counted;
	note("$arguments: $sent bytes sent, $received received, $sketches of sketches, $questions questions");
	return ($count, $sent + $received, $sketches, $questions);
}

my ($count, $bytes, $sketches, $questions) = taken(q('equal', PEER));
is("$count $questions", '0 2', 'an equal table takes two questions');
cmp_ok($bytes, '<=', 5600, 'and at most 5.6 KB, with those of connecting');

foreach my $seed (1 .. 3)
{
	($count, $bytes, $sketches, $questions) = taken("'large', PEER, 'hundred', seed => $seed");
	is("$count $questions", '100 4', "100 of 200,000 rows take four questions (seed $seed)");
	cmp_ok($sketches, '<=', 10240, 'and at most 10 KB of sketches');
	($count, $bytes, $sketches, $questions) = taken("'large', PEER, 'thousands', seed => $seed");
	is("$count $questions", '10000 4', "10,000 of 200,000 rows take no more (seed $seed)");
	cmp_ok($sketches, '<=', 700000, 'and at most 700 KB of sketches');
}

(my $plain_bytes) = (taken("'large', PEER, 'hundred', seed => 1"))[1];
($count, $bytes, undef, $questions) = taken("'large', PEER, 'hundred', seed => 1, rows => 'columns'");
is("$count $questions", '100 4', 'the names of the columns that differ take no further question');
cmp_ok($bytes - $plain_bytes, '<=', 4000, 'and at most 40 bytes for each row of a column beside the key');

# --- rows on one side only, and keys that are hashes ------------------------------------------

both('CREATE TABLE texts AS SELECT md5(g::text) AS id, g AS v FROM generate_series(1, 20000) g; ALTER TABLE texts ADD PRIMARY KEY (id)');
$there->safe_psql('postgres', 'DELETE FROM texts WHERE v % 4 = 0; UPDATE texts SET v = -v WHERE v % 100 = 1; INSERT INTO texts SELECT \'new \' || g, g FROM generate_series(1, 300) g');
my $truth = truth('texts', 't.id');
foreach my $options ('seed => 1', "seed => 2, condition => 'v <= 7000'", "seed => 3, condition => 'v <= 700'", "seed => 4, condition => 'v <= 7'")
{
	my $where = $options =~ /'(.*)'/ ? $1 : 'true';
	is(compare(q('texts'), $options), truth('texts', 't.id', where => $where), "the differences of a full comparison ($options)");
}
($count, $bytes, $sketches, $questions) = taken(q('texts', PEER, seed => 5));
is("$count $questions", lines($truth) . ' 4', 'thousands on one side only take four questions');
cmp_ok($sketches, '<=', 58 * lines($truth), 'and at most 58 bytes of sketches each');

# A peer that is empty has a sketch without cells.
$there->safe_psql('postgres', 'TRUNCATE texts');
is(lines(compare(q('texts'), 'seed => 6')), 20000, 'all rows, if the peer has none');
is(lines(compare(q('texts'), 'seed => 7', node => $there, peer => conninfo($here))), 20000, 'and the other way round');

# --- audits of small tables ---------------------------------------------------------------------

# Tables of every kind, some of which must be compared alone.
my $many = 150;
both("CREATE SCHEMA many; DO \$\$ BEGIN FOR i IN 1 .. $many LOOP
		EXECUTE format('CREATE TABLE many.table_%s (id int PRIMARY KEY, v text, n numeric); INSERT INTO many.table_%1\$s SELECT g, md5(g::text), g FROM generate_series(1, 20) g', i);
	END LOOP; END \$\$;");
my ($audited) = $here->safe_psql('postgres', 'SELECT status, count(*), min(bytes) > 0 FROM ' . audit_stats("iblt_audit(${\ literal($proxy->connstr)}, schema => 'many')") . ' AS a GROUP BY status');
is($audited, "equal|$many|t", 'many small tables are equal');
my ($sent, $received, undef, undef, $asked) = $proxy->counted;
note("$many small tables: $sent bytes sent, $received received, $asked questions");
is($asked, 4, 'one question to begin with, one for the list, and one for each hundred tables');
cmp_ok($sent + $received, '<=', $many * 400, 'and at most 400 bytes a table');
$here->safe_psql('postgres', "CALL iblt_audit_run(${\ literal($proxy->connstr)}, schema => 'many', progress => false)");
my ($run_sent, $run_received, undef, undef, $run_asked) = $proxy->counted;
note("$many small tables by a run: $run_sent bytes sent, $run_received received, $run_asked questions");
is($run_asked, 4, 'a run takes no more');
cmp_ok($run_sent + $run_received, '<=', $many * 400, 'and no more bytes');
is($here->safe_psql('postgres', "SELECT status, count(*), min(rows_here), max(rows_there), bool_and(percent = 100), count(finished_at), min(slices), max(slices), max(missing + extra + changed + unconfirmed) FROM iblt_audit_table_stats GROUP BY status"), "equal|$many|20|20|t|$many|1|1|0", 'and says the same');
$here->safe_psql('postgres', "CALL iblt_audit_run(${\ literal($proxy->connstr)}, schema => 'many', slice_ms => 200, progress => false)");
is(($proxy->counted)[4], 10, 'with less time for a slice, fewer tables are compared together');
# A third database asks each of the two as often, and takes their questions at the same time.
$here->safe_psql('postgres', 'CREATE DATABASE conductor');
$here->safe_psql('conductor', 'CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE EXTENSION dblink');
my $near = IbltProxy->new($here);
my $elsewhere = "${\ literal($proxy->connstr)}, schema => 'many', here_peer => ${\ literal($near->connstr)}";
is($here->safe_psql('conductor', "SELECT status, count(*) FROM iblt_audit($elsewhere) GROUP BY status"), "equal|$many", 'a third database finds the same');
is(join(' ', map { ($_->counted)[4] } $near, $proxy), '4 4', 'with no more questions to either');
$here->safe_psql('conductor', "CALL iblt_audit_run($elsewhere, progress => false)");
is(join(' ', map { ($_->counted)[4] } $near, $proxy), '5 4', 'a run asks once more for the sizes');
is($here->safe_psql('conductor', 'SELECT status, count(*) FROM iblt_audit_tables GROUP BY status'), "equal|$many", 'and says the same');
$near->stop;
both('DROP SCHEMA many CASCADE');

both(q{CREATE SCHEMA mixed; SET search_path = mixed, public;
	CREATE ROLE auditor LOGIN; GRANT USAGE ON SCHEMA mixed TO auditor; ALTER DEFAULT PRIVILEGES IN SCHEMA mixed GRANT SELECT ON TABLES TO auditor;
	CREATE TYPE mood AS ENUM ('sad', 'ok');
	CREATE TABLE a_same AS SELECT g AS id, md5(g::text) AS v FROM generate_series(1, 50) g; ALTER TABLE a_same ADD PRIMARY KEY (id);
	CREATE TABLE b_empty (id int PRIMARY KEY); CREATE TABLE c_no_key AS SELECT g % 3 AS v FROM generate_series(1, 9) g; CREATE TABLE d_bare ();
	CREATE TABLE e_enum (id mood PRIMARY KEY, v mood[]); INSERT INTO e_enum VALUES ('sad', '{ok}');
	CREATE TABLE f_text (id text PRIMARY KEY, v jsonb); INSERT INTO f_text SELECT g, to_jsonb(g) FROM generate_series(1, 30) g;
	CREATE TABLE g_parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE g_part_1 PARTITION OF g_parts FOR VALUES FROM (0) TO (10);
	CREATE TABLE g_part_2 PARTITION OF g_parts FOR VALUES FROM (10) TO (90); INSERT INTO g_parts SELECT g, g FROM generate_series(0, 20) g;
	CREATE TABLE "h ""odd"", name" ("a""b" int PRIMARY KEY, t int, "É" text); INSERT INTO "h ""odd"", name" VALUES (1, 2, '3');
	CREATE TABLE i_changed AS TABLE a_same; ALTER TABLE i_changed ADD PRIMARY KEY (id); CREATE TABLE j_missing AS TABLE i_changed;
	CREATE TABLE l_denied_there AS TABLE a_same; CREATE TABLE m_column (id int PRIMARY KEY, v int); INSERT INTO m_column VALUES (1, 2); CREATE TABLE n_types (id int PRIMARY KEY);
	CREATE TABLE o_view AS SELECT 1 AS id; CREATE TABLE p_key AS TABLE a_same; CREATE TABLE q_policy AS TABLE a_same; CREATE TABLE r_order (a int, b int); INSERT INTO r_order VALUES (1, 1);
	CREATE TABLE s_large AS SELECT g AS id, repeat('x', 100) AS v FROM generate_series(1, 12000) g; CREATE TABLE t_here (id int); CREATE TABLE u_swapped (id int PRIMARY KEY, v int);
	INSERT INTO u_swapped VALUES (1, 2); CREATE TABLE v_versions AS TABLE a_same; CREATE TABLE w_error AS TABLE a_same;});
$here->safe_psql('postgres', q{SET search_path = mixed; CREATE TABLE k_here AS TABLE a_same});
$there->safe_psql('postgres', q{SET search_path = mixed; UPDATE i_changed SET v = 'x' WHERE id = 7; DELETE FROM j_missing WHERE id < 4; INSERT INTO j_missing VALUES (77, 'new'); REVOKE ALL ON l_denied_there FROM auditor;
	ALTER TABLE m_column ADD w int; ALTER TABLE n_types ALTER id TYPE bigint; DROP TABLE o_view; CREATE VIEW o_view AS SELECT 1 AS id; ALTER TABLE p_key ADD PRIMARY KEY (id);
	ALTER TABLE q_policy ENABLE ROW LEVEL SECURITY; ALTER TABLE r_order DROP a, ADD a int; UPDATE r_order SET a = 1; DROP TABLE t_here; CREATE TABLE t_there (id int);
	UPDATE u_swapped SET id = 2, v = 1; REVOKE ALL ON v_versions FROM auditor; GRANT SELECT (id, v) ON v_versions TO auditor; CREATE TABLE x_there (id int)});
$here->safe_psql('postgres', "CREATE PUBLICATION partly FOR TABLE mixed.a_same (id), mixed.i_changed, mixed.b_empty, mixed.f_text WHERE (id < '2'), mixed.j_missing WITH (publish = 'insert')") if major_version() >= 15;
my @columns = qw(relation peer_relation status detail sqlstate rows_here rows_there missing extra changed unconfirmed);
my $answers = $here->safe_psql('postgres', "SELECT pg_get_functiondef('iblt_internal.audit_answers'::regproc)");
my @cases = ([ q(schema => 'mixed') ], [ q(schema => 'mixed', recheck => 1) ], [ q(schema => 'mixed'), 'auditor' ], [ q(schema => 'mixed', recheck => 1), 'auditor' ], [ q(schema => 'mixed', extra_columns => 'error', cast_types => true) ],
	(major_version() >= 15 ? ([q(publication => 'partly')]) : ()), [ q(tables => '{mixed.a_same,mixed.a_same,mixed.g_part_1,mixed.g_parts,mixed.q_policy,pg_catalog.pg_am}', seed => 5) ]);
foreach my $case (@cases)
{
	my ($arguments, $user) = @$case;
	my $peer = literal($there->connstr('postgres') . ($user ? " user=$user" : ''));
	my $query = 'SELECT ' . join(', ', @columns) . ' FROM ' . audit_stats("iblt_audit($peer, $arguments)") . ' AS a';
	my $together = $here->safe_psql('postgres', $query);
	$here->safe_psql('postgres', "CREATE OR REPLACE FUNCTION iblt_internal.audit_answers(questions iblt_internal.options[], tells boolean) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb'");
	my $alone = $here->safe_psql('postgres', $query);
	$here->safe_psql('postgres', $answers);
	if ($case == $cases[0])
	{
		my $by_run = sub {
			$here->safe_psql('postgres', "CALL iblt_audit_run($peer, $arguments, progress => false, slice_ms => $_[0])");
			return $here->safe_psql('postgres', q{SELECT coalesce(relation, peer_relation), status, sqlstate, CASE WHEN sqlstate IS NULL THEN concat_ws(' ', rows_here, rows_there, missing, extra, changed, unconfirmed) END
				FROM iblt_audit_table_stats WHERE run = (SELECT max(run) FROM iblt_audit_run_stats) ORDER BY table_number});
		};
		my $whole = $by_run->(1000);
		cmp_ok($here->safe_psql('postgres', q{SELECT count(*) FROM iblt_audit_tables WHERE run = (SELECT max(run) FROM iblt_audit_run_stats) AND detail LIKE '%together with other small tables'}), '>', 8, 'a run compares small tables together, too');
		is($whole, $by_run->(10), 'and has the same answers as for each alone');
	}
	is($together, $alone, 'many tables in one message have the same answers as each alone: ' . $arguments . ($user ? " as $user there" : ''));
	note($alone);
}

done_testing();
