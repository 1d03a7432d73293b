# Code of other roles: the owner of a table has his functions run by whoever reads what he has made of it.
# Whatever he does while a superuser compares, audits, repairs or tracks his table, no function of his runs as
# the superuser, on either side, with iblt or without.
#
# He holds a lock that describing or reading waits for.  In the window "described" the table of the other side is
# locked, so his has been described.  The server's log tells what has run as whom, even in a transaction
# that only reads or that was rolled back.  IBLT_TEST_LONG=1 runs the whole table of drivers, attacks, sides and
# windows.  Otherwise each driver meets some attacks, and iblt_compare all of them.
use IbltTest;

IbltTest::share_sessions(0);

my $node = server('node', 'max_prepared_transactions = 0');
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
# the functions of mallory, and what is read
my $evil = q{CREATE FUNCTION app.evil(v int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN RAISE LOG 'evil ran as %', current_user; RETURN v; END $$;
	CREATE FUNCTION app.inlined(v int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT app.evil(v)';
	CREATE FUNCTION app.definer(v int) RETURNS int LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$ BEGIN RAISE LOG 'evil ran as definer'; RETURN v; END $$;
	CREATE FUNCTION app.named("V!" int, "\{" int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT app.evil(1)';
	CREATE FUNCTION app.evil_json(v app.mood) RETURNS json LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM app.evil(1); RETURN '{}'; END $$;
	CREATE FUNCTION app.evil_text(v app.mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM app.evil(1); RETURN 'x'; END $$;};
my $fresh = qq{DROP SCHEMA IF EXISTS app, app_old CASCADE; CREATE SCHEMA app; CREATE TYPE app.mood AS ENUM ('x', 'y'); $evil
	CREATE TABLE app.t (id int PRIMARY KEY, v int, p app.mood, pad text); INSERT INTO app.t SELECT g, g, 'x', repeat('x', 10) FROM generate_series(1, 50) g;
	CREATE TABLE app.s (id int PRIMARY KEY, v int); CREATE TABLE app.parted (id int NOT NULL, v int) PARTITION BY RANGE (id); CREATE TABLE app.part PARTITION OF app.parted FOR VALUES FROM (1) TO (1000);
	INSERT INTO app.parted SELECT g, g FROM generate_series(1, 50) g};
$node->safe_psql('postgres', 'CREATE ROLE mallory LOGIN; CREATE DATABASE peer; CREATE DATABASE bare; ALTER ROLE mallory SET lock_timeout = \'20s\'');
my ($super, $watch) = map { IbltTest::Session->new($node) } 1 .. 2;
my (%owner, %locker);
foreach my $db (qw(postgres peer bare))
{
	$node->safe_psql($db, "GRANT CREATE ON DATABASE $db TO mallory; CREATE EXTENSION IF NOT EXISTS postgres_fdw; GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO mallory;"
	  . ($db eq 'bare' ? '' : 'CREATE EXTENSION dblink; CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live;'));
	foreach my $sessions (\%owner, \%locker)
	{
		$sessions->{$db} = IbltTest::Session->new($node, $db);
		$sessions->{$db}->run("SET SESSION AUTHORIZATION mallory; SET client_min_messages = error; SET lock_timeout = '20s'");
	}
}
my $me = $node->safe_psql('postgres', 'SELECT current_user');
my %peer = map { $_ => literal($node->connstr($_)) } qw(peer bare);
my $log = $node->logfile;

# What mallory makes of a table t or of its partition.
my $aside = 'ALTER TABLE app.t RENAME TO aside;';
my $columns = 'id, %s AS v, p, pad';
my %attacks = (
	'a view with a function' => "$aside CREATE VIEW app.t AS SELECT id, app.evil(v) AS v, p, pad FROM app.aside",
	'a view with a SQL function' => "$aside CREATE VIEW app.t AS SELECT id, app.inlined(v) AS v, p, pad FROM app.aside",
	'a view with SECURITY DEFINER' => "$aside CREATE VIEW app.t AS SELECT id, app.definer(v) AS v, p, pad FROM app.aside",
	'a view that switches the guard off' => "$aside CREATE VIEW app.t AS SELECT id, CASE WHEN set_config('iblt.guard', NULL, true) IS NULL THEN app.evil(v) ELSE v END AS v, p, pad FROM app.aside",
	'a view with a function of PostgreSQL' => "$aside CREATE VIEW app.t AS SELECT id, v, p, pad FROM app.aside WHERE pg_create_restore_point('evil ran as postgres') IS NOT NULL",
	'a view over a view' => "$aside CREATE VIEW app.below AS SELECT id, app.evil(v) AS v, p, pad FROM app.aside; CREATE VIEW app.t AS SELECT * FROM app.below",
	'a domain' => "$aside CREATE DOMAIN app.d AS int CHECK (app.evil(1) > 0); CREATE VIEW app.t AS SELECT id, v::app.d::int AS v, p, pad FROM app.aside",
	'casts' => 'CREATE CAST (app.mood AS json) WITH FUNCTION app.evil_json(app.mood); CREATE CAST (app.mood AS text) WITH FUNCTION app.evil_text(app.mood)',
	'an index' => 'CREATE INDEX ON app.t ((v + app.evil(1))); CREATE INDEX ON app.part ((v + app.evil(1)))',
	'an index with names' => 'CREATE INDEX ON app.t ((v + app.named("V!" => 1, "{" => 1)))',
	'a partition key' => "$aside CREATE TABLE app.t (id int, v int, p app.mood, pad text) PARTITION BY RANGE ((v + app.evil(1))); CREATE TABLE app.t_1 PARTITION OF app.t DEFAULT",
	'a partial index' => 'CREATE INDEX ON app.t (v) WHERE app.evil(1) = 1',
	'statistics' => 'CREATE STATISTICS app.st ON (v + app.evil(1)), id FROM app.t',
	'a constraint' => 'ALTER TABLE app.t ADD CHECK (app.evil(1) > 0)',
	'a policy' => 'ALTER TABLE app.t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON app.t USING (app.evil(1) > 0)',
	'a rule' => 'CREATE RULE r AS ON INSERT TO app.t DO ALSO SELECT app.evil(1)',
	'another schema' => 'ALTER SCHEMA app RENAME TO app_old; CREATE SCHEMA app; CREATE VIEW app.t AS SELECT id, app_old.evil(v) AS v, p, pad FROM app_old.t',
	'a foreign partition' => 'DROP TABLE app.part; CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw; CREATE USER MAPPING FOR public SERVER self; CREATE FOREIGN TABLE app.part PARTITION OF app.parted FOR VALUES FROM (1) TO (1000) SERVER self');
$attacks{'a view by a rule'} = "$aside CREATE TABLE app.t (id int, v int, p app.mood, pad text); CREATE RULE \"_RETURN\" AS ON SELECT TO app.t DO INSTEAD SELECT id, app.evil(v) AS v, p, pad FROM app.aside" if $version < 160000;
my @attacks = sort keys %attacks;

# What a superuser runs in the database postgres; %s is the peer.  "bare" and "alone" say where.
my %drivers = (
	'iblt_compare' => "SELECT count(*) FROM iblt_compare('app.t', %s, rows => true, recheck => 1, cast_types => true)",
	'iblt_compare of its partitions' => "SELECT count(*) FROM iblt_compare('app.parted', %s)",
	'iblt_audit' => "SELECT count(*) FROM iblt_audit(%s, schema => 'app')",
	'iblt_audit of a large table' => "SELECT count(*) FROM iblt_audit(%s, tables => '{app.t}')",
	'iblt_repair, pull' => "SELECT count(*) FROM iblt_repair('app.t', %s, direction => 'pull', apply => true)",
	'iblt_repair, push' => "SELECT count(*) FROM iblt_repair('app.t', %s, direction => 'push', apply => true)",
	'iblt_compare_nodes' => "SELECT count(*) FROM iblt_compare_nodes('app.t', ARRAY[NULL, 'other'])",
	'iblt_audit_nodes' => "SELECT count(*) FROM iblt_audit_nodes(ARRAY[NULL, 'other'], tables => '{app.t}')",
	'iblt_audit_run' => 'CALL iblt_audit_run(%s, schema => \'app\')');
my %plain = (
	'iblt_compare, plain' => "SELECT count(*) FROM iblt_compare('app.t', %s, rows => true, method => 'plain')",
	'iblt_audit, plain' => "SELECT count(*) FROM iblt_audit(%s, schema => 'app', method => 'plain')",
	'iblt_repair, plain' => "SELECT count(*) FROM iblt_repair('app.t', %s, direction => 'push', apply => true, method => 'plain')",
	'iblt_compare_nodes, plain' => "SELECT count(*) FROM iblt_compare_nodes('app.t', ARRAY[NULL, 'other'], method => 'plain')");
my %alone = (
	'iblt_compare here' => "SELECT count(*) FROM iblt_compare('app.t', NULL, 'app.s', extra_columns => 'ignore', rows => true)",
	'iblt_track' => "CALL iblt_track('app.t')",
	'iblt_baseline' => "SELECT length(iblt_baseline(schema => 'app'))",
	'iblt_audit_baseline' => 'SELECT count(*) FROM iblt_audit_baseline(%s)');

# Foreign servers, as nodes are not given by connection strings here.
$node->safe_psql('postgres', "CREATE SERVER $_ FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '${\ $node->host}', port '${\ $node->port}', dbname '$_'); CREATE USER MAPPING FOR CURRENT_USER SERVER $_")
  foreach qw(peer bare);

sub fresh
{
	my (@dbs) = @_;
	foreach my $db (@dbs)
	{
		$owner{$db}->checked('DROP SERVER IF EXISTS self CASCADE; ' . $fresh);
		$owner{$db}->checked('UPDATE app.t SET v = -1 WHERE id = 7; DELETE FROM app.parted WHERE id = 9') if $db ne 'postgres';
	}
	return;
}

# Waits until a session waits for a lock, or the superuser's statement is over.
my $cell = 0;
sub waits
{
	for (1 .. 20000)
	{
		my $found = $watch->run("SELECT CASE WHEN EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation') THEN 'waits'
			WHEN EXISTS (SELECT FROM pg_stat_activity WHERE pid = $super->{pid} AND state LIKE 'idle%' AND query LIKE '%cell $cell *%') THEN 'over' END");
		return $found if $found;
	}
	die 'no session waits';
}

# Runs it while mallory does that in a database.  What has run as others, and what the superuser got.
sub attacked
{
	my ($sql, $db, $attack, $window) = @_;
	my $from = -s $log;
	my $lock = "BEGIN; LOCK TABLE app.t, app.parted IN ACCESS EXCLUSIVE MODE";
	my $other = $db eq 'postgres' ? $window : 'postgres';
	$cell++;
	if ($window eq '')
	{
		$owner{$db}->checked("$lock; $attacks{$attack}");
	}
	else
	{
		$locker{$other}->run($lock);
	}
	$super->start("/* cell $cell */ $sql");
	my $met = waits();
	if ($window eq '')
	{
		$owner{$db}->run('COMMIT');
	}
	else
	{
		$owner{$db}->run("BEGIN; SET LOCAL lock_timeout = '1s'; $attacks{$attack}; COMMIT");
		$owner{$db}->run('ROLLBACK');
		$locker{$other}->run('COMMIT');
	}
	my $out = $super->done;
	my ($error) = $super->{err} =~ /ERROR: +(.*)/;
	$super->run('ROLLBACK');
	my @ran = slurp_file($log, $from) =~ /((?:restore point ")?evil ran as (?!mallory)\w+)/g;
	return (join(', ', @ran), "$met, " . ($error // $out));
}

my $cells = 0;
sub table
{
	my ($drivers, $peer, $windows, @dbs) = @_;
	my @where = map { my $db = $_; map { [ $db, $_ ] } @$windows } @dbs;
	foreach my $driver (sort keys %$drivers)
	{
		foreach my $attack (@attacks)
		{
			next unless $ENV{IBLT_TEST_LONG} || $driver =~ /^iblt_compare(, plain)?$/ || $attack =~ /^a view with a function|^another schema/;
			foreach my $where ($ENV{IBLT_TEST_LONG} ? @where : $where[ $cells % @where ])
			{
				my ($db, $window) = @$where;
				fresh('postgres', $peer || ());
				my $text = "$driver, $attack" . ($db eq 'postgres' ? '' : " on $db") . ($window ? ', described' : '');
				my $sql = $drivers->{$driver};
				$sql = $driver eq 'iblt_audit_baseline' ? sprintf($sql, literal($super->run("SELECT iblt_baseline(schema => 'app')")))
				  : sprintf($sql, $peer{$peer} // '') =~ s/'other'/'$peer'/r;
				my ($ran, $got) = attacked($sql, $db, $attack, $window ? $peer : '');
				# what a repair writes is checked as for any statement of the superuser
				my $written = $attack eq 'a constraint' && ($driver eq 'iblt_repair, pull' && $db eq 'postgres' || $driver =~ /^iblt_repair, p(ush|lain)/ && $db ne 'postgres');
				is($ran, $written ? "evil ran as $me" : '', $text) or diag($got);
				note("$text: $got");
				$cells++;
			}
		}
	}
	return;
}

table(\%drivers, 'peer', [ 0, 1 ], qw(postgres peer));
# what is sent to a server without iblt means the same there
$node->safe_psql('postgres', $_) foreach before(19, 'ALTER DATABASE bare SET standard_conforming_strings = off');
table(\%plain, 'bare', [ 0, 1 ], qw(postgres bare));
table(\%alone, '', [0], 'postgres');
note("$cells cells");

# A repair also counts the rows that refer to its table, and an audit of structures reads the columns that sequences number.
fresh('postgres', 'bare');
$node->safe_psql($_, 'CREATE TABLE referred (id int PRIMARY KEY); GRANT REFERENCES ON referred TO mallory') foreach qw(postgres bare);
$node->safe_psql('bare', 'INSERT INTO referred VALUES (1)');
$owner{bare}->run('CREATE TABLE app.child (id serial, referred int REFERENCES public.referred ON DELETE CASCADE); CREATE INDEX ON app.child ((id + app.evil(1)))');
foreach my $case ([ "iblt_repair('referred', $peer{bare}, direction => 'push', method => 'plain')", qr/refusing to read app\.child/ ],
	[ "iblt_audit_structure($peer{bare}, schema => 'app')", qr/a column that it numbers cannot be read, or only by running code of another role/ ])
{
	my ($call, $said) = @$case;
	my $from = -s $log;
	my (undef, $out, $err) = $node->psql('postgres', "SELECT * FROM $call");
	like("$out$err", $said, ($call =~ /^(\w+)/)[0] . ' beside the table itself');
	unlike(slurp_file($log, $from), qr/evil ran as (?!mallory)/, 'runs nothing of his');
}

# The session keeps a function of a range type, which the planner calls, as it found it before.
fresh('postgres', 'peer', 'bare');
foreach my $db (qw(postgres peer bare))
{
	$owner{$db}->checked(q{CREATE FUNCTION app.apart(float8, float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM app.evil(1); RETURN $1 - $2; END';
		CREATE TYPE app.span AS RANGE (subtype = float8, subtype_diff = app.apart); CREATE TABLE app.spans (id int PRIMARY KEY, r app.span);
		INSERT INTO app.spans SELECT g, app.span(g, g + 10) FROM generate_series(1, 1000) g; ANALYZE app.spans;
		CREATE VIEW app.some AS SELECT id FROM app.spans WHERE r && app.span(1, 5); CREATE DOMAIN app.whole AS app.span; CREATE DOMAIN app.half AS app.whole;
		ALTER TABLE app.spans ADD h app.half; UPDATE app.spans SET h = r; ANALYZE app.spans; CREATE VIEW app.within AS SELECT id FROM app.spans WHERE h @> 5::float8});
}
foreach my $case ([ 'a condition', "iblt_compare('app.spans', $peer{peer}, condition => 'r && app.span(1, 5)')" ], [ 'a view', "iblt_compare('app.some', $peer{peer}, key_columns => '{id}')" ],
	[ 'a view of a server without iblt', "iblt_compare('app.spans', $peer{bare}, 'app.within', columns => '{id}', key_columns => '{id}', method => 'plain')" ])
{
	my $from = -s $log;
	my (undef, undef, $err) = $node->psql('postgres', "SELECT count(r::text) FROM app.spans; SELECT count(*) FROM $case->[1]");
	like($err, qr/refusing to (?:run function app\.apart|read app\.within)/, "the distance of ranges in $case->[0] is refused");
	unlike(slurp_file($log, $from), qr/evil ran as (?!mallory)/, 'and does not run');
}

# --- what may run ------------------------------------------------------------------------

# Under force_parallel_mode, statements run in a worker, which has the settings of its leader.
my $parallel = ($version < 160000 ? 'force_parallel_mode' : 'debug_parallel_query') . ' = on';
fresh(qw(postgres peer));
$node->safe_psql('postgres', q{CREATE SCHEMA own; CREATE FUNCTION own.f(v int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN v; END';
	CREATE VIEW own.calls_evil AS SELECT id, app.evil(v) AS v FROM app.t; CREATE VIEW own.calls_own AS SELECT id, own.f(v) AS v FROM app.t;
	CREATE VIEW own.inlines_evil AS SELECT id, app.inlined(v) AS v FROM app.t; CREATE VIEW own.rolls AS SELECT id, v, random() < 2 AS one FROM app.t;
	CREATE TABLE own.t AS SELECT id, v FROM app.t; CREATE TABLE own.three AS SELECT *, true AS one FROM own.t; GRANT USAGE ON SCHEMA own TO mallory; GRANT SELECT ON ALL TABLES IN SCHEMA own TO mallory});
sub compared { my ($view, $options, $with) = @_; my $out = $super->run("SELECT count(*) FROM iblt_compare('own.$view', NULL, 'own." . ($with // 't') . "', key_columns => '{id}'" . ($options // '') . ')'); return $out ne '' ? $out : ($super->{err} =~ /ERROR: +(.*)/)[0] }
foreach my $how ('RESET ALL', "SET $parallel")
{
	my $from = -s $log;
	$super->run($how);
	foreach my $view (qw(calls_evil inlines_evil))
	{
		is(compared($view), '42501: refusing to run function app.' . ($view =~ s/calls_//r =~ s/inlines_evil/inlined/r) . '(integer) of role "mallory"', "$how: $view, a view of the superuser that calls a function of mallory");
	}
	is(compared('calls_own'), '0', "$how: a view that calls a function of its own");
	is(compared('rolls', undef, 'three'), '0', "$how: a volatile function in a view of the superuser");
	is(compared('t', ", columns => '{id,v}', condition => 'app.evil(v) > 0'", 'three'), '42501: refusing to run function app.evil(integer) of role "mallory"', "$how: a condition that calls a function of mallory");
	is(compared('t', ", columns => '{id,v}', condition => 'own.f(v) > 0'", 'three'), '0', "$how: and a function of the superuser");
	unlike(slurp_file($log, $from), qr/evil ran/, "$how: nothing has run");
}
$super->run('RESET ALL');
is($super->run("SELECT app.evil(3)"), '3', 'outside of iblt, he calls what he wants');
$super->run('BEGIN; SELECT iblt_internal.iblt_guard()');
foreach my $off ('SET iblt.guard = off', 'RESET iblt.guard', 'SET LOCAL iblt.guard TO DEFAULT', "SELECT set_config('iblt.guard', NULL, true)", 'RESET ALL', 'DISCARD ALL')
{
	$super->run("SAVEPOINT s; $off; SELECT app.evil(4)");
	like($super->{err}, qr/ERROR: +42501: refusing to run function app\.evil|ERROR: +(55P02|25001)/, "$off does not switch it off");
	$super->run('ROLLBACK TO s');
}
$super->run('ROLLBACK');
$super->run("BEGIN; SELECT iblt_internal.iblt_read_lock('app.t', NULL, NULL, false)");
is(($super->run("SELECT iblt_internal.iblt_repair_execute('SELECT app.evil(1)')"), $super->{err} =~ /ERROR: +(.*)/)[1], '42501: a statement that reads cannot write', 'nor does what writes for a repair');
$super->run('ROLLBACK');

# mallory's own comparisons, and the triggers, defaults and checks of a repair.
my $owner = $owner{postgres};
is($owner->run("SET client_min_messages = notice; CREATE VIEW app.mine AS SELECT id, app.evil(v) AS v FROM app.t; SELECT count(*) FROM iblt_compare('app.mine', NULL, 'own.t', key_columns => '{id}')"), '0', 'he compares what he has made') or diag($owner->{err});
$owner->run(q{CREATE TABLE app.seen (what text); CREATE FUNCTION app.seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO app.seen VALUES (TG_OP); RETURN NEW; END $$;
	CREATE TABLE app.goes (id int PRIMARY KEY, v int CHECK (app.definer(v) = v), w int DEFAULT app.evil(5)); CREATE TABLE app.comes (id int PRIMARY KEY, v int);
	INSERT INTO app.comes SELECT g, g FROM generate_series(1, 3) g; CREATE TRIGGER seen BEFORE INSERT ON app.goes FOR EACH ROW EXECUTE FUNCTION app.seen();
	CREATE CONSTRAINT TRIGGER later AFTER INSERT ON app.goes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION app.seen()});
is($super->run("SELECT count(*), min(status) FROM iblt_repair('app.goes', NULL, 'app.comes', apply => true, direction => 'pull', extra_columns => 'ignore')"), '3|applied', 'the triggers, checks and defaults of a repair run as for any statement') or diag($super->{err});
is($super->run('SELECT count(*) FROM app.seen'), '6', 'all triggers have');
fresh('bare');
$owner{bare}->run(q{CREATE VIEW app.w AS SELECT count(*) FROM app.t; CREATE TABLE app.goes (id int PRIMARY KEY, v int); CREATE FUNCTION app.reads() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM * FROM app.w; RETURN NEW; END';
	CREATE TRIGGER reads BEFORE INSERT ON app.goes FOR EACH ROW EXECUTE FUNCTION app.reads()});
is($super->run("SELECT count(*), min(status) FROM iblt_repair('app.comes', $peer{bare}, 'app.goes', apply => true, direction => 'push', method => 'plain')"), '3|applied', 'nor does a peer without iblt refuse a trigger the views that it reads') or diag($super->{err});
is($super->run("SELECT count(*) FROM iblt_compare('app.goes', NULL, 'app.comes', extra_columns => 'ignore')"), '0', 'and a comparison still refuses nothing that it does not run');

# --- what a view of another role runs without a function of his ------------------------------

fresh(qw(postgres bare));
my $connect = literal($node->connstr('postgres') . " user=$me");
my $aggregate = qq{CREATE AGGREGATE app.runs(text) (sfunc = dblink_exec, stype = text, initcond = $connect);
	CREATE VIEW app.aggregate AS SELECT id, app.runs('DO \$r\$BEGIN RAISE LOG ''evil ran as aggregate''; END\$r\$') AS v FROM app.t GROUP BY id;};
my $hidden = q{CREATE DOMAIN app.logs AS text CHECK (pg_create_restore_point('evil ran as domain') IS NOT NULL); CREATE TYPE app.logged AS (a app.logs);
	CREATE VIEW app.casts AS SELECT id, pad::app.logs::text AS v FROM app.t;
	CREATE VIEW app.populates AS SELECT id, (json_populate_record(NULL::app.logged, '{"a":"x"}')).a::text AS v FROM app.t;
	CREATE VIEW app.records AS SELECT id, x.a::text AS v FROM app.t, json_to_record('{"a":"x"}') AS x(a app.logs);
	CREATE VIEW app.reads_xml AS SELECT id, x.a::text AS v FROM app.t, xmltable('/r' PASSING ('<r>1</r>'::xml) COLUMNS a app.logs PATH '.') AS x;
	CREATE VIEW app.arrays AS SELECT id, (concat('{', pad, '}')::app.logs[])::text AS v FROM app.t;
	CREATE VIEW app.pivots AS SELECT t.id, x.b AS v FROM app.t, public.crosstab('SELECT 1, 1, pg_create_restore_point(''evil ran as pivot'')::text') AS x(a int, b text);
	DROP SCHEMA IF EXISTS below CASCADE; CREATE SCHEMA below; CREATE VIEW below.v AS SELECT app.evil(1) AS v;
	CREATE VIEW app.to_xml AS SELECT id, schema_to_xml('below', true, true, '')::text AS v FROM app.t;
	CREATE DOMAIN app.fine AS text CHECK (length(VALUE) > 0);
	CREATE VIEW app.harmless AS SELECT id, CASE WHEN p = 'x' THEN upper(pad) END AS v, max(id) OVER () AS n FROM app.t;
	CREATE VIEW app.may_change AS SELECT id, pad::app.fine::text AS v FROM app.t; CREATE TABLE app.same AS SELECT * FROM app.harmless;};
foreach my $db (qw(postgres bare))
{
	$node->safe_psql($db, 'CREATE EXTENSION tablefunc');
	$owner{$db}->checked($hidden);
}
$owner{postgres}->run($aggregate);
$super->run(q{CREATE VIEW own.over AS SELECT * FROM app.aggregate; CREATE TABLE own.v AS SELECT 0 AS id, ''::text AS v; CREATE VIEW own.sums AS SELECT id, app.runs(v) AS v FROM own.v GROUP BY id});
foreach my $view (qw(app.casts app.populates app.records app.reads_xml app.arrays app.pivots app.to_xml app.may_change app.aggregate own.over own.sums))
{
	foreach my $method ('auto', $view =~ /own|aggregate/ ? () : 'plain')
	{
		my $from = -s $log;
		$super->run("SELECT count(*) FROM iblt_compare('own.v', " . ($method eq 'plain' ? $peer{bare} : 'NULL') . ", '$view', key_columns => '{id}', method => '$method')");
		like($super->{err}, qr/ERROR: +42501: .*refusing to read /, "$view, $method: refused");
		unlike(slurp_file($log, $from), qr/(?:LOG: +|restore point ")evil ran as/, "$view, $method: nothing has run");
	}
}
is($super->run("SELECT count(*) FROM iblt_compare('app.same', $peer{bare}, 'app.harmless', key_columns => '{id}', method => 'plain')"), '0', 'a harmless view is read') or diag($super->{err});
is($super->run("SELECT count(*) FROM iblt_compare('app.same', NULL, 'app.harmless', key_columns => '{id}')"), '0', 'also with iblt') or diag($super->{err});

# --- what the guard leaves in a session ------------------------------------------------------

$owner{postgres}->run(q{CREATE FUNCTION app.modulo(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v % 1000'; CREATE TABLE app.i (id int PRIMARY KEY, v int);
	INSERT INTO app.i SELECT g, g FROM generate_series(1, 9) g; CREATE UNIQUE INDEX ON app.i (app.modulo(v)); CREATE TABLE app.j AS SELECT * FROM app.i});
is($node->safe_psql('postgres', q{SELECT count(*) FROM iblt_compare('app.i', NULL, 'app.j', key_columns => '{id}'); INSERT INTO app.i VALUES (10, 1009) ON CONFLICT (app.modulo(v)) DO NOTHING}), '0', 'a session finds indexes by expressions after a comparison');
{
	local $ENV{PGOPTIONS} = '-c iblt.guard=views';
	is(($node->psql('postgres', "LOAD 'iblt'; SHOW iblt.guard"))[1], 'off', 'a client cannot set the guard when it connects');
}

done_testing();
