# What a statement reads under a snapshot that is older than its locks, here and on the
# peer: in REPEATABLE READ and SERIALIZABLE, which may be a mere default.  A table that
# was truncated or rewritten meanwhile reads as empty there, though it never was.
#
# And how a statement ends that waits for a peer which does not answer any more.
use File::Temp ();
use IbltCompare;
use IbltProxy;
use IO::Socket::UNIX;

my ($here, $there, $peer) = two_servers();
inside($here, $there);
my $session = IbltTest::Session->new($here);

# A message and its SQLSTATE, or the number of rows.
sub answer { my ($out) = @_; return ($session->{err} =~ /ERROR: +(\w+: .*)/)[0] // $out }

# --- here ------------------------------------------------------------------------------

# On each side 1,000 rows, committed at every moment, of which all differ.  The names
# are those of the two sides, which are both here unless a case is about the peer.
my $tables = q{CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (id int PRIMARY KEY, v int); INSERT INTO a SELECT g, 1 FROM generate_series(1, 1000) g; INSERT INTO b SELECT g, 2 FROM generate_series(1, 1000) g;
	CREATE TABLE pa (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE pb (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
	CREATE TABLE pa1 PARTITION OF pa FOR VALUES FROM (0) TO (2000); CREATE TABLE pb1 PARTITION OF pb FOR VALUES FROM (0) TO (2000); INSERT INTO pa TABLE a; INSERT INTO pb TABLE b;
	CREATE TABLE ia (id int, v int); CREATE TABLE ia1 () INHERITS (ia); CREATE TABLE ib (id int, v int); CREATE TABLE ib1 () INHERITS (ib); INSERT INTO ia1 TABLE a; INSERT INTO ib1 TABLE b;
	CREATE VIEW va AS SELECT x.id, x.v FROM (SELECT * FROM a WHERE EXISTS (SELECT FROM pa)) AS x;
	CREATE VIEW vc AS WITH w AS MATERIALIZED (TABLE b) TABLE w; CREATE VIEW vb AS TABLE vc;
	CREATE MATERIALIZED VIEW ma AS TABLE a; CREATE MATERIALIZED VIEW mb AS TABLE b};
both($tables);
my %reload = map { my $t = $_; $t => "TRUNCATE $t; INSERT INTO $t SELECT g, " . ($t =~ /a/ ? 1 : 2) . ' FROM generate_series(1, 1000) g' } qw(a b pa1 pb1 ia1 ib1);
foreach my $case (
	[ 'TRUNCATE', 'a', 'b', "$reload{a}; $reload{b}" ],
	[ 'SET UNLOGGED', 'a', 'b', 'ALTER TABLE a SET UNLOGGED; ALTER TABLE b SET UNLOGGED; ALTER TABLE a SET LOGGED; ALTER TABLE b SET LOGGED' ],
	[ 'two ALTER TYPE', 'pa', 'pb', join '; ', map { my $t = $_; map { "ALTER TABLE $t ALTER v TYPE $_" } qw(bigint int) } qw(pa pb) ],
	[ 'TRUNCATE of partitions', 'pa', 'pb', "$reload{pa1}; $reload{pb1}" ],
	[ 'another partition', 'pa', 'pb', join '; ', map { "ALTER TABLE p$_ DETACH PARTITION p${_}1; CREATE TABLE p${_}2 (LIKE p$_ INCLUDING ALL); INSERT INTO p${_}2 TABLE p${_}1; DROP TABLE p${_}1;
		ALTER TABLE p${_}2 RENAME TO p${_}1; ALTER TABLE p$_ ATTACH PARTITION p${_}1 FOR VALUES FROM (0) TO (2000)" } qw(a b) ],
	[ 'rows moved to the parent', 'ia', 'ib', join '; ', map { "ALTER TABLE i${_}1 NO INHERIT i$_; INSERT INTO i$_ TABLE i${_}1" } qw(a b) ],
	[ 'children that come back', 'ia', 'ib', join '; ', map { "TRUNCATE i$_; ALTER TABLE i${_}1 INHERIT i$_" } qw(a b) ],
	[ 'TRUNCATE of children', 'ia', 'ib', "$reload{ia1}; $reload{ib1}" ],
	[ 'TRUNCATE under views', 'va', 'vb', "$reload{a}; $reload{b}" ],
	[ 'REFRESH', 'ma', 'mb', 'REFRESH MATERIALIZED VIEW ma; REFRESH MATERIALIZED VIEW mb' ])
{
	my ($what, $left, $right, $ddl) = @$case;
	my $key = $left =~ /^[ap]/ ? '' : ", key_columns => '{id}'";
	my $compare = "SELECT count(*) FROM iblt_compare('$left', NULL, '$right', recheck => 0, max_differences => 5000$key)";
	foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
	{
		$session->run("BEGIN ISOLATION LEVEL $level; SELECT 1");
		$here->safe_psql('postgres', "BEGIN; $ddl; COMMIT");
		is(answer($session->run($compare)), "IB004: relation public.$left was altered while it was compared (here)", "$what, $level: an error");
		like($session->{err}, qr/HINT: +Begin another transaction\..* rewritten, by TRUNCATE, VACUUM FULL, REPACK/, "$what, $level: a hint");
		$session->run("ROLLBACK; BEGIN ISOLATION LEVEL $level");
		is(answer($session->run($compare)), '1000', "$what, $level: the rows in a transaction that begins later");
		$session->run('ROLLBACK');
		last if $what ne 'TRUNCATE';
	}
}

# A materialized view has row versions, so differences in it can be confirmed.
is($session->run("SELECT count(*) FROM iblt_compare('ma', $peer, 'mb', recheck => 1, key_columns => '{id}', method => '$_') WHERE confirmed"), '1000', "materialized views, $_: confirmed") foreach qw(sketch plain);

# Only the second side, by plain queries, and an audit.
foreach my $case ([ 'there', "SELECT count(*) FROM iblt_compare('pa', NULL, 'b', recheck => 0)", 'IB004: relation public.b was altered while it was compared (there)' ],
	[ 'plain', "SELECT count(*) FROM iblt_compare('b', $peer, 'pa', recheck => 0, method => 'plain')", 'IB004: relation public.b was altered while it was compared (here)' ],
	[ 'an audit', "SELECT string_agg(concat_ws(' ', relation, status, sqlstate), ', ') FROM " . audit_stats("iblt_audit($peer, tables => '{a,b}', recheck => 0)") . ' AS a', 'public.a equal, public.b not comparable IB004' ])
{
	my ($what, $sql, $expected) = @$case;
	$there->safe_psql('postgres', 'DELETE FROM b');
	$session->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$here->safe_psql('postgres', "BEGIN; $reload{b}; COMMIT");
	is(answer($session->run($sql)), $expected, "$what: an error");
	$session->run('ROLLBACK');
}

# What one transaction does itself, and DDL that leaves the files alone, are no matter.
my $count = "SELECT count(*) FROM iblt_compare('a', NULL, 'pb', recheck => 0)";
$session->run("BEGIN ISOLATION LEVEL REPEATABLE READ; $reload{a}; $reload{pb1}; CREATE TABLE pb3 PARTITION OF pb FOR VALUES FROM (3000) TO (4000)");
is(answer($session->run($count)), '1000', 'its own TRUNCATE: the rows');
$session->run('ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$here->safe_psql('postgres', "ALTER TABLE a ALTER v SET DEFAULT 3, SET (fillfactor = 90); CREATE INDEX ON pb1 (v); GRANT SELECT ON a TO public; VACUUM a; ANALYZE a");
is(answer($session->run($count)), '1000', 'harmless DDL: the rows');
$session->run('ROLLBACK');

# --- the peer ----------------------------------------------------------------------------

# There, statements wait for a lock while a table gets its rows anew.  Here it is empty.
both('CREATE TABLE w (id int PRIMARY KEY, v int); CREATE TABLE x (id int PRIMARY KEY, v int)');
my $altering = IbltTest::Session->new($there);
foreach my $level ('repeatable read', 'serializable')
{
	$there->safe_psql('postgres', "ALTER DATABASE postgres SET default_transaction_isolation = '$level'; TRUNCATE w; INSERT INTO w SELECT g, 2 FROM generate_series(1, 1000) g");
	foreach my $ddl ('TRUNCATE w; INSERT INTO w SELECT g, 2 FROM generate_series(1, 1000) g', $level eq 'serializable' ? () : ('ALTER TABLE w SET UNLOGGED; ALTER TABLE w SET LOGGED', 'ALTER TABLE w ALTER v TYPE bigint; ALTER TABLE w ALTER v TYPE int'))
	{
		foreach my $case ([ 'iblt_compare', "SELECT count(*) FROM iblt_compare('w', $peer)", '1000' ], [ 'plain', "SELECT count(*) FROM iblt_compare('w', $peer, method => 'plain')", '1000' ],
			[ 'iblt_audit', "SELECT string_agg(concat_ws(' ', relation, status, missing), ', ') FROM iblt_audit($peer, tables => '{w,x}')", 'public.w differs 1000, public.x equal 0' ])
		{
			my ($what, $sql, $expected) = @$case;
			$altering->run("BEGIN; $ddl");
			$session->start($sql);
			wait_for($there, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'w'::regclass");
			$altering->run('COMMIT');
			is(answer($session->done), $expected, "the peer is $level, $ddl: $what finds the rows");
		}
	}
}
$there->safe_psql('postgres', 'ALTER DATABASE postgres RESET default_transaction_isolation');

# READ UNCOMMITTED is READ COMMITTED in PostgreSQL.
like($session->run("BEGIN ISOLATION LEVEL READ UNCOMMITTED; SELECT count(*) FROM iblt_compare('a', $peer, recheck => 1, max_differences => 5000)") . $session->{err}, qr/^\d+$/m, 'READ UNCOMMITTED: a recheck');
is(answer($session->run("SELECT count(*) FROM iblt_repair('x', $peer, direction => 'pull', apply => true)")), '0', 'READ UNCOMMITTED: a repair');
$session->run('ROLLBACK');

# A foreign data wrapper shows rows as of the first query of a transaction, and those that
# came after a TRUNCATE are none of them: a repair would delete all rows here.
$here->safe_psql('postgres', "CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '${\ $there->host}', port '${\ $there->port}', dbname 'postgres');
	CREATE USER MAPPING FOR CURRENT_USER SERVER far; CREATE FOREIGN TABLE far_b (id int NOT NULL, v int) SERVER far OPTIONS (table_name 'b'); CREATE FOREIGN TABLE far_x (id int) SERVER far OPTIONS (table_name 'x'); CREATE TABLE mine AS TABLE b");
$there->safe_psql('postgres', $reload{b});
my $pull = "SELECT count(*) FROM iblt_repair('mine', NULL, 'far_b', key_columns => '{id}', direction => 'pull', apply => true)";
$session->run('BEGIN; SELECT FROM far_x');
$there->safe_psql('postgres', "BEGIN; $reload{b}; COMMIT");
like(answer($session->run($pull)), qr/^25001: cannot apply a repair with foreign tables/, 'foreign tables in a transaction: not repaired');
$session->run('ROLLBACK');
is(answer($session->run($pull)) . $session->run('SELECT count(*) FROM mine'), '01000', 'but outside of one');
is(answer($session->run("SELECT count(*) FROM iblt_repair('mine', NULL, 'far_b', key_columns => '{id}', condition => 'id < 5', direction => 'pull')")), '0', 'a condition on a foreign table');
like($session->{err}, qr/perhaps read by an index \(not checked\)/, 'an index there may say which rows it is true of, and the repair says so');
# another table was read before in the same statement, also where its locks are gone
both('CREATE TABLE c AS SELECT 1 AS id');
$there->safe_psql('postgres', 'CREATE TABLE d AS SELECT 1 AS id');
$here->safe_psql('postgres', "CREATE FOREIGN TABLE far_c (id int NOT NULL) SERVER far OPTIONS (table_name 'c'); CREATE FOREIGN TABLE far_d (id int NOT NULL) SERVER far OPTIONS (table_name 'd')");
my $second = "iblt_repair('c', NULL, 'far_c', key_columns => '{id}', direction => 'pull', apply => true)";
my $between = "dblink_exec(${\ conninfo($there)}, 'BEGIN; TRUNCATE c; INSERT INTO c VALUES (1); COMMIT')";
foreach my $call ("DO \$\$ BEGIN PERFORM FROM far_d; PERFORM $between; PERFORM $second; END \$\$",
	"DO \$\$ BEGIN BEGIN PERFORM 1 / (SELECT 0 FROM far_d); EXCEPTION WHEN division_by_zero THEN NULL; END; PERFORM $between; PERFORM $second; END \$\$",
	"SELECT count(*) FROM far_d, LATERAL (SELECT $between WHERE far_d.id = 1) AS b, LATERAL $second AS r WHERE b IS NOT NULL")
{
	like(answer($session->run($call)), qr/^25001: cannot apply a repair with foreign tables/, 'nor behind other foreign tables in a statement');
	is($session->run('SELECT count(*) FROM c'), '1', 'and no row is deleted');
}
my $reader = holding($here, 'BEGIN; SELECT FROM far_d');
is(answer($session->run("SELECT count(*) FROM $second")), '0', 'but in one of its own, whatever other sessions read');
$reader->quit;

# --- a peer that does not answer any more ----------------------------------------------------

# The proxy stands for a frozen network: it takes no connection and passes nothing on, so
# a cancel that is sent to the peer is not answered either.
both('CREATE TABLE f (id int PRIMARY KEY, v int); INSERT INTO f SELECT g, 1 FROM generate_series(1, 100) g');
my $proxy = IbltProxy->new($there);
my $frozen = literal($proxy->connstr);
foreach my $case ([ 'statement_timeout', '', '' ], [ 'statement_timeout, plain', ", method => 'plain'", '' ], [ 'a cancel', '', 'pg_cancel_backend' ], [ 'the end of the session', '', 'pg_terminate_backend' ])
{
	my ($what, $options, $end) = @$case;
	my $caller = IbltTest::Session->new($here);
	# a slow machine needs longer to reach the message than the first timeouts allow
	foreach my $seconds (1, 4, 16, 64)
	{
		$caller->run("SET statement_timeout = '$seconds s'") unless $end;
		$proxy->hold('sent', $options ? 'array_agg' : 'scan_answer');
		$caller->start("SELECT count(*) FROM iblt_compare('f', $frozen$options)");
		last if $proxy->held(sub { !$end && $caller->ended });
		$caller->done;
	}
	$here->safe_psql('postgres', "SELECT $end($caller->{pid})") if $end;
	if ($end eq 'pg_terminate_backend')
	{
		wait_for($here, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $caller->{pid}");
		pass("$what: the backend is gone");
		eval { $caller->{psql}->finish };
	}
	else
	{
		is($caller->done, '', "$what: no rows");
		like($caller->{err}, qr/ERROR: +57014: canceling statement due to (statement timeout|user request)/, "$what: it ends");
		$caller->quit;
	}
	$proxy->release;
	nothing_left($what, $there);
}

# A server that takes a connection and says nothing.
{
	my $dir = File::Temp->newdir;
	my $mute = IO::Socket::UNIX->new(Type => Socket::SOCK_STREAM(), Local => "$dir/.s.PGSQL.1", Listen => 8) or die "listen: $!";
	$here->safe_psql('postgres', "CREATE SERVER mute FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '$dir', port '1', connect_timeout '2'); CREATE USER MAPPING FOR CURRENT_USER SERVER mute");
	foreach my $to (literal("host=$dir port=1"), "'mute'")
	{
		$session->run("SELECT count(*) FROM iblt_compare('f', $to" . ($to eq "'mute'" ? ')' : ", timeout => '2 s')"));
		like($session->{err}, qr/ERROR: +08001: could not connect to the peer(?:, foreign server mute)?\n.*DETAIL: +.*timeout expired/, "no answer to connecting: an error ($to)");
	}
}
nothing_left('after all', $there);
$proxy->stop;

$_->quit foreach ($session, $altering);
done_testing();
