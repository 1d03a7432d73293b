# Look-alikes: whoever may create in a database or in a schema makes functions, operators, types
# and relations with the names of those that the scripts of the extensions name, and with types that fit
# better.  Whatever the script, a view or a driver bound or called of them would run as the
# superuser who installs, compares or repairs.  They are made of the scripts themselves, in each place
# from which it might take one: in the schema that users call before iblt comes, in that schema
# afterwards, and in a schema that takes the name of that one.
use IbltTest;

IbltTest::share_sessions(0);

my $server = server('lookalikes');

sub run { my ($database, $sql) = @_; return $server->safe_psql($database, $sql) }

# As mallory, who is no superuser, in many statements.
sub as_mallory
{
	my ($database, @statements) = @_;
	my ($rc, $out, $err) = $server->psql($database, join(";\n", 'BEGIN', 'SET client_min_messages = error', 'SET ROLE mallory', @statements, 'COMMIT'), on_error_stop => 1);
	die $err if $rc != 0;
	return scalar @statements;
}

# --- what the script names --------------------------------------------------------------------

chomp(my $share = `pg_config --sharedir`);
my $script = join '', map { my ($file) = glob "$share/extension/$_--[0-9]*[0-9].sql"; slurp_file($file) } extensions();
my %word = map { $_ => 1 } $script =~ /\b([a-z_][a-z0-9_]*)\b/g;
my $words = join ', ', map { "'$_'" } sort keys %word;
my %token = map { $_ => 1 } $script =~ m{([-+*/<>=~!@#%^&|?]+)}g;

run('postgres', 'CREATE ROLE mallory LOGIN');
run('postgres', 'CREATE DATABASE clean');
run('clean', create_extensions(''));

# Functions of PostgreSQL, and those that iblt makes, as name, types of arguments, the type of an
# argument VARIADIC, type of the result, and whether it is a set.
my @functions = map { [ split /\|/, $_, -1 ] } split /\n/, run('clean', "
	SELECT p.proname, array_to_string(ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS u(t, i) ORDER BY i), ';'),
		CASE p.provariadic WHEN 0 THEN '' ELSE format_type(p.provariadic, NULL) END, format_type(p.prorettype, NULL), p.proretset
	FROM pg_proc p WHERE p.pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^(pg_catalog|[a-z]+_internal|public)\$') AND p.proname IN ($words)
	AND NOT EXISTS (SELECT FROM unnest(p.proargtypes || p.prorettype) AS t WHERE t::regtype::text IN ('internal', 'cstring', 'trigger', 'event_trigger', 'language_handler', 'table_am_handler', 'index_am_handler', 'tsm_handler', 'fdw_handler')
		OR (SELECT x.typnamespace <> 'pg_catalog'::regnamespace FROM pg_type x WHERE x.oid = t)) ORDER BY 1, 2");
my %public = map { $_ => 1 } split /\n/, run('clean', "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace");
my %driver = map { $_ => 1 } split /\n/, run('clean', "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prolang IN (SELECT oid FROM pg_language WHERE lanname IN ('sql', 'plpgsql'))");
cmp_ok(scalar @functions, '>', 500, 'functions with names that the script has');

my @types = ('text', 'integer', 'bigint', 'oid', 'name', 'jsonb', 'regclass', 'regnamespace', 'boolean', 'double precision');
my %poly = map { $_ => '%' } qw(anyelement anynonarray anycompatible anycompatiblenonarray), '"any"';
$poly{$_} = '%[]' foreach qw(anyarray anycompatiblearray);
my @instead = ([ qw(text name) ], [ 'text', 'character varying' ], [ qw(name text) ], [ qw(bigint integer) ], [ qw(integer bigint) ], [ qw(oid regclass) ], [ qw(oid regnamespace) ],
	[ qw(regclass oid) ], [ qw(regclass text) ], [ qw(numeric integer) ], [ 'double precision', 'numeric' ], [ 'timestamp with time zone', 'timestamp without time zone' ]);

# The lists of types that calls of a function may fit better.
sub better
{
	my ($types, $variadic, $name) = @_;
	my @own = split /;/, $types;
	my @lists;
	foreach my $type (@types)
	{
		my $fill = sub { my ($t) = @_; my $to = $poly{$t} // return $t; return $type eq 'anyelement' ? $t : $to =~ s/%/$type/r };
		my @fixed = $variadic eq '' ? @own : @own[ 0 .. $#own - 1 ];
		push @lists, [ map { $fill->($_) } @own ] if $variadic ne '"any"';
		push @lists, map { [ (map { $fill->($_) } @fixed), ($type) x $_ ] } 1 .. 3 if $variadic ne '';
		last if $variadic eq '' && !grep { $poly{$_} } @own;
	}
	foreach my $pair (@instead)
	{
		push @lists, [ map { $_ eq $pair->[0] ? $pair->[1] : $_ } @own ] if grep { $_ eq $pair->[0] } @own;
	}
	push @lists, [ ('anyelement') x @own ], [ ('text') x @own ] if @own && $variadic eq '';
	# a call that leaves defaults out
	push @lists, map({ [ ('text') x $_ ] } 1 .. 3), map({ [ @own[ 0 .. $_ ] ] } 0 .. ($#own < 3 ? $#own : 3)), [ 'regclass', 'text' ] if $public{$name};
	return grep { @$_ < 7 && !grep { /^"any"$|^any(?!element)/ } @$_ } @lists;
}

# The statement for a function of mallory's, which tells the log that it ran.
sub trap
{
	my ($schema, $name, $args, $result, $set) = @_;
	my $list = join ', ', @$args;
	$result = $args->[0] =~ s/\[\]$//r if $result =~ /^any.*(?<!array)$/ && @$args;
	$result = $args->[0] if $result =~ /^any/ && @$args;
	$result = 'text' if $result =~ /^any|^record$/ && !grep { $_ eq $result } @$args;
	my $return = $set eq 't' || $result eq 'void' ? '' : 'NULL';
	return qq{CREATE FUNCTION $schema."$name"($list) RETURNS } . ($set eq 't' ? 'SETOF ' : '') . qq{$result LANGUAGE plpgsql SET search_path = pg_catalog
		AS \$t\$ BEGIN RAISE LOG 'trap: % as %', '$schema.$name($list)', current_user; IF current_setting('is_superuser') = 'on' THEN ALTER ROLE mallory SUPERUSER; END IF; RETURN $return; END \$t\$};
}

# Before iblt comes, none has the name of a function that users call, because CREATE EXTENSION would
# end at its comment.  Afterwards, these only: $taken has the signatures that are there.
sub traps_of_functions
{
	my ($schema, $taken) = @_;
	my $late = defined $taken ? 1 : 0;
	my (@statements, %seen);
	foreach my $f (@functions)
	{
		my ($name, $types, $variadic, $result, $set) = @$f;
		next if ($public{$name} // 0) != $late;
		foreach my $args (better($types, $variadic, $name))
		{
			my $signature = "$name(" . join(',', @$args) . ')';
			push @statements, trap($schema, $name, $args, $result, $set) unless $seen{$signature}++ || $taken->{$signature};
		}
	}
	return @statements;
}

# Operators: for all pairs of types, and for those that PostgreSQL has.
sub traps_of_operators
{
	my ($schema) = @_;
	my @pairs = split /\n/, run('clean', q{SELECT DISTINCT format_type(oprleft, NULL) || ';' || format_type(oprright, NULL) FROM pg_operator WHERE oprname IN ('=', '<>', '||', '->', '->>', '~', '@>') AND oprleft <> 0
		AND oprleft::regtype::text !~ '^any' AND oprright::regtype::text !~ '^any' AND oprnamespace = 'pg_catalog'::regnamespace});
	my @mine = ('text', 'name', 'oid', 'integer', 'bigint', 'regclass', 'regnamespace', 'regtype', '"char"', 'jsonb', 'boolean', 'anyelement');
	my %pair = map { $_ => 1 } @pairs, map { my $left = $_; map {; "$left;$_" } @mine, 'text[]' } @mine;
	my @names = grep { $token{$_} } split /\n/, run('clean', q{SELECT DISTINCT oprname FROM pg_operator WHERE oprleft <> 0});
	my (@statements, $n);
	foreach my $pair (sort keys %pair)
	{
		my ($left, $right) = split /;/, $pair;
		next if ($left eq 'anyelement') != ($right eq 'anyelement');
		push @statements, trap($schema, 'operator_' . ++$n, [ $left, $right ], 'boolean', 'f');
		push @statements, map {; qq{CREATE OPERATOR $schema.$_ (LEFTARG = $left, RIGHTARG = $right, FUNCTION = $schema."operator_$n")} } @names;
	}
	return @statements;
}

sub traps_of_names
{
	my ($schema) = @_;
	my @types = split /\n/, run('clean', "SELECT quote_ident(typname) FROM pg_type WHERE typname IN ($words) AND typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typcategory <> 'A'");
	my @relations = split /\n/, run('clean', "SELECT quote_ident(relname) FROM pg_class WHERE relname IN ($words) AND relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v')");
	return map({ "CREATE DOMAIN $schema.$_ AS pg_catalog.$_" } @types), map({ "CREATE VIEW $schema.$_ AS SELECT 1 AS oid" } @relations);
}

# What iblt's objects need of a schema that is not iblt's own.
sub bound
{
	my ($database, $schema) = @_;
	return run($database, "WITH member AS (SELECT classid, objid FROM pg_depend WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass AND refobjid IN (SELECT oid FROM pg_extension WHERE ${\ of_extensions() }))
		SELECT pg_describe_object(d.classid, d.objid, 0), pg_describe_object(d.refclassid, d.refobjid, 0) FROM pg_depend d, LATERAL pg_identify_object(d.refclassid, d.refobjid, 0) AS o
		WHERE o.schema = '$schema' AND (d.refclassid, d.refobjid) NOT IN (SELECT * FROM member)
		AND NOT (d.refclassid = 'pg_type'::regclass AND ('pg_type'::regclass, (SELECT typelem FROM pg_type t WHERE t.oid = d.refobjid)) IN (SELECT * FROM member))
		AND ((d.classid, d.objid) IN (SELECT * FROM member)
			OR d.classid = 'pg_rewrite'::regclass AND ('pg_class'::regclass, (SELECT ev_class FROM pg_rewrite r WHERE r.oid = d.objid)) IN (SELECT * FROM member)
			OR d.classid = 'pg_attrdef'::regclass AND ('pg_class'::regclass, (SELECT adrelid FROM pg_attrdef a WHERE a.oid = d.objid)) IN (SELECT * FROM member))");
}

my $seen = 0;
my $told = 0;

# No trap has run, and nobody became superuser.
sub nothing_ran
{
	my ($text) = @_;
	my $log = slurp_file($server->logfile, $seen);
	$seen = -s $server->logfile;
	is(join("\n", grep { defined } (sort keys %{ { map { $_ => 1 } $log =~ /(trap: .*)/g } })[ 0 .. 9 ]), '', "$text: no look-alike runs");
	is(run('postgres', "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"), 'f', "$text: and nobody becomes superuser");
	run('postgres', 'ALTER ROLE mallory NOSUPERUSER');
	return;
}

# --- the drivers ----------------------------------------------------------------------------------

# All that users call in PL/pgSQL and SQL, under a path that has the look-alikes first.  Arguments
# have names, so that no look-alike in the schema itself is meant.
sub drivers
{
	my ($database, $far, $schema, $text) = @_;
	my $peer = literal($server->connstr($far)) . '::pg_catalog.text';
	my $both = "relation => 'shop.items'::regclass, peer => $peer";
	my @calls = (
		map({ "SELECT * FROM iblt_compare($both, recheck => 0$_)" } '', ", method => 'plain'::text"),
		"SELECT * FROM iblt_compare($both, rows => 'changed'::text, recheck => 1, key_columns => '{id}'::text[], condition => 'id > 0'::text)",
		"SELECT * FROM iblt_compare(here_peer => $peer, here_relation => 'shop.items'::text, peer => $peer, peer_relation => 'shop.copy'::text)",
		'SELECT * FROM iblt_compare_stats()',
		"SELECT * FROM iblt_compare_nodes(relation => 'shop.items'::text, nodes => ARRAY[NULL, $peer])",
		"SELECT * FROM iblt_audit_nodes(schema => 'shop'::text, nodes => ARRAY[NULL, $peer])",
		"SELECT * FROM iblt_repair_nodes(relation => 'shop.items'::text, nodes => ARRAY[NULL, $peer], source => 'node 2'::text)",
		"SELECT * FROM iblt_audit(peer => $peer, schema => 'shop'::text)", 'SELECT * FROM iblt_audit_stats()',
		"SELECT iblt_audit_report(tables => '[]'::json, form => 'html'::text)",
		"SELECT * FROM iblt_audit(peer => $peer, schema => 'shop'::text, method => 'plain'::text)",
		"SELECT * FROM iblt_audit_structure(peer => $peer, schema => 'shop'::text)",
		"SELECT * FROM iblt_repair_sequences(peer => $peer, schema => 'shop'::text)",
		map({ "SELECT * FROM iblt_repair($both, direction => 'pull'::text, recheck => 0$_)" } '', ", method => 'plain'::text", ", apply => true", ", apply => true"),
		map({ "CALL iblt_track(relation => 'shop.$_'::regclass)" } qw(items parts)), "CALL iblt_live_rebuild(relation => 'shop.items'::regclass)",
		"SELECT iblt_live_merge(relation => 'shop.items'::regclass)", "SELECT iblt_live_verify(relation => 'shop.items'::regclass)", 'SELECT * FROM iblt_live_status()',
		"CALL iblt_track_all(peer => $peer, schema => 'shop'::text)",
		"SELECT * FROM iblt_compare($both, live => 'require'::text, recheck => 0)",
		"SELECT iblt_audit_prune(older_than => '1 day'::interval)",
		map({ "CALL iblt_audit_run(peer => $peer, schema => 'shop'::text, rows => true, recheck => 0$_)" } ", max_time => '0'::interval", ", method => 'plain'::text"),
		'CALL iblt_audit_resume(run => 1, peer => PEER)',
		'SELECT * FROM iblt_audit_recheck(run => 1, peer => PEER)',
		'SELECT iblt_audit_report(run => 1, form => \'text\'::text)',
		map({ "SELECT * FROM VIEW.iblt_audit_$_" } qw(runs tables table_stats differences ranges columns)),
		"SELECT unchanged FROM iblt_audit_since(receipt => (SELECT iblt_audit_report(tables => '[{\"relation\": \"shop.items\", \"status\": \"equal\"}]'::json, form => 'receipt'::text, peer => $peer)), peer => $peer)",
		"SELECT * FROM iblt_baseline(schema => 'shop'::text)", "SELECT * FROM iblt_audit_baseline(baseline => (SELECT iblt_baseline(schema => 'shop'::text)))",
		map({ "CALL iblt_untrack(relation => 'shop.$_'::regclass)" } qw(items parts)));
	my $all = join ' ', @calls;
	is(join(' ', grep { $all !~ /\b$_\(/ } sort keys %driver), '', "$text: all drivers are called") unless $told++;
	foreach my $call (@calls)
	{
		$call =~ s/VIEW/$schema/g;
		$call =~ s/PEER/$peer/g;
		$call =~ s/\b(iblt_\w+)\(/$schema.$1(/g;
		$call =~ s/\b(jsonb_build_object|row_to_json)\(/pg_catalog.$1(/g;
	}
	my (undef, undef, $err) = $server->psql($database, join(";\n", 'SET client_min_messages = error', "SET search_path = $schema", @calls), on_error_stop => 0);
	is($err, '', "$text: and none fails");
	nothing_ran($text);
	return;
}

sub database
{
	my ($name, $grants) = @_;
	run('postgres', "CREATE DATABASE $name");
	run($name, "CREATE SCHEMA dbl; CREATE EXTENSION dblink SCHEMA dbl; CREATE SCHEMA shop; $grants;
		CREATE TABLE shop.items (id bigint PRIMARY KEY, body text, n integer); INSERT INTO shop.items SELECT g, 'body ' || g, g FROM generate_series(1, 2000) g;
		CREATE TABLE shop.copy (LIKE shop.items INCLUDING ALL); INSERT INTO shop.copy TABLE shop.items;
		CREATE TABLE shop.words (id text PRIMARY KEY, body text); INSERT INTO shop.words SELECT g, g FROM generate_series(1, 300) g;
		CREATE TABLE shop.parts (id bigint PRIMARY KEY, n integer) PARTITION BY RANGE (id); CREATE TABLE shop.p1 PARTITION OF shop.parts FOR VALUES FROM (0) TO (100); CREATE TABLE shop.p2 PARTITION OF shop.parts FOR VALUES FROM (100) TO (200);
		INSERT INTO shop.parts SELECT g, g FROM generate_series(1, 199) g; CREATE SEQUENCE shop.counter; CREATE VIEW shop.seen AS SELECT * FROM shop.items; ANALYZE");
	return;
}

# A copy of a database, with other rows.
sub copied
{
	my ($name) = @_;
	run('postgres', "CREATE DATABASE far_$name TEMPLATE $name");
	run("far_$name", "GRANT CREATE ON DATABASE far_$name TO mallory; UPDATE shop.items SET body = 'new' WHERE id OPERATOR(pg_catalog.<) 5; DELETE FROM shop.items WHERE id OPERATOR(pg_catalog.=) 7; UPDATE shop.words SET body = 'new' WHERE id OPERATOR(pg_catalog.=) '5'; UPDATE shop.parts SET n = 0 WHERE id OPERATOR(pg_catalog.=) 150");
	return;
}

# What the extension has in a schema: look-alikes must not have the same signatures.
sub taken
{
	my ($database, $schema) = @_;
	return { map { $_ => 1 } split /\n/, run($database, "SELECT format('%s(%s)', p.proname, (SELECT string_agg(format_type(t, NULL), ',' ORDER BY i) FROM unnest(p.proargtypes) WITH ORDINALITY AS u(t, i)))
		FROM pg_proc p WHERE p.pronamespace = '$schema'::regnamespace") };
}

# --- in a schema that an ordinary role makes, before iblt comes, and a superuser installs into --------

database('owned', 'GRANT CREATE ON DATABASE owned TO mallory');
as_mallory('owned', 'CREATE SCHEMA evil');
my $made = as_mallory('owned', traps_of_functions('evil'), traps_of_operators('evil'), traps_of_names('evil'));
cmp_ok($made, '>', 5000, "$made look-alikes in the schema that iblt is installed into");
run('postgres', 'CREATE DATABASE installed TEMPLATE owned');
my (undef, undef, $err) = $server->psql('installed', 'SET search_path = pg_catalog; ' . create_extensions('SCHEMA evil'), on_error_stop => 1);
is($err, '', 'a superuser installs all there');
nothing_ran('installed by a superuser');
is(bound('installed', 'evil'), '', 'and nothing of them needs a look-alike');

# --- installed by that role, with others that come afterwards -----------------------------------------

(undef, undef, $err) = $server->psql('owned', 'CREATE EXTENSION iblt SCHEMA evil; CREATE EXTENSION kbf SCHEMA evil', on_error_stop => 1, extra_params => [ '-U', 'mallory' ]);
is($err, '', 'an ordinary role installs what is trusted');
like(($server->psql('owned', "CREATE EXTENSION $_ SCHEMA evil", extra_params => [ '-U', 'mallory' ]))[2], qr/permission denied to create extension "$_"/, "and not $_") foreach 'iblt_live', 'iblt_audit';
(undef, undef, $err) = $server->psql('owned', 'SET search_path = pg_catalog; SET client_min_messages = warning; ' . create_extensions('SCHEMA evil'), on_error_stop => 1);
is($err, '', 'a superuser installs the others there');
nothing_ran('installed by an ordinary role');
is(bound('owned', 'evil'), '', 'and nothing of them needs a look-alike');
is(run('owned', q{SELECT nspowner, has_schema_privilege('mallory', oid, 'CREATE') FROM pg_namespace WHERE nspname ~ '_internal$' ORDER BY nspname}), "10|f\n10|f", 'the schemas of their other parts are not that role\'s');
$made = as_mallory('owned', traps_of_functions('evil', taken('owned', 'evil')));
cmp_ok($made, '>', 100, "$made look-alikes of what users call");
copied('owned');
drivers('owned', 'far_owned', 'evil', 'drivers');

# Cron calls the functions in that schema by their names.
chomp(my $program = `pg_config --bindir`);
{
	local @ENV{qw(PGHOST PGPORT PGDATABASE)} = ($server->host, $server->port, 'owned');
	command_checks_all([ 'sh', "$program/iblt-audit", 'peer=' . $server->connstr('far_owned'), 'schema=shop' ], 2, [qr/^/], [qr/schema evil has functions with names of iblt/], 'iblt-audit does not call look-alikes');
}
nothing_ran('iblt-audit');

# --- another schema takes the name of that one --------------------------------------------------------

foreach my $database ('owned', 'far_owned')
{
	as_mallory($database, 'ALTER SCHEMA evil RENAME TO genuine', 'CREATE SCHEMA evil');
	my @same = split /\n/, run($database, q{SELECT format('%s;%s', proname, (SELECT string_agg(format_type(t, NULL), ',' ORDER BY i) FROM unnest(p.proargtypes) WITH ORDINALITY AS u(t, i)))
		FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' WHERE pronamespace = 'genuine'::regnamespace AND prokind <> 'p' AND 2276 <> ALL (proargtypes)});
	as_mallory($database, map({ my ($name, $args) = split /;/, $_, -1; trap('evil', $name, [ split /,/, $args ], 'text', 'f') } @same),
		map({ trap('evil', "check_$_", [ "genuine.$_" ], 'boolean', 'f'), "CREATE DOMAIN evil.$_ AS genuine.$_ CHECK (evil.check_$_(VALUE))" } 'iblt', 'iblt_strata', 'kbf'));
}
drivers('owned', 'far_owned', 'genuine', 'under another name');

# --- iblt in one schema, and a type of its name in the other one ----------------------------------------

database('apart', 'GRANT CREATE ON DATABASE apart TO mallory; CREATE SCHEMA genuine; CREATE EXTENSION iblt SCHEMA genuine');
as_mallory('apart', 'CREATE SCHEMA evil', 'CREATE DOMAIN evil.iblt AS bigint');
like(($server->psql('apart', "SET search_path = evil; CREATE EXTENSION $_"))[2],
	qr/ERROR:  extension $_ must be in the schema of iblt\nHINT:  CREATE EXTENSION $_ SCHEMA genuine;/, "$_ does not take it for a sketch") foreach 'iblt_live', 'iblt_audit';

# --- a peer that has no iblt, and a schema of that name -----------------------------------------------

database('bare', 'GRANT CREATE ON DATABASE bare TO mallory');
my %internal = map { $_ => 1 } split /\n/, run('clean', "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'iblt_internal'::regnamespace");
my %first;
as_mallory('bare', 'CREATE SCHEMA iblt_internal', 'GRANT USAGE ON SCHEMA iblt_internal TO PUBLIC', 'CREATE VIEW iblt_internal.installed AS SELECT 1',
	map({ my ($name, $types, $variadic, $result, $set) = @$_; trap('iblt_internal', $name, [ split /;/, $types ], $result, $set) }
		grep { $internal{$_->[0]} && $_->[2] eq '' && $_->[1] !~ /"any"|any/ && !$public{$_->[0]} && !$first{"$_->[0]($_->[1])"}++ } @functions));
my $bare = literal($server->connstr('bare'));
my $both = "relation => 'shop.items'::regclass, peer => $bare";
my @refused = ("SELECT * FROM genuine.iblt_compare($both)", "SELECT * FROM genuine.iblt_audit(peer => $bare, schema => 'shop')", "SELECT * FROM genuine.iblt_repair($both, direction => 'pull')",
	"SELECT * FROM genuine.iblt_compare_nodes(relation => 'shop.items', nodes => ARRAY[NULL, $bare])", "CALL genuine.iblt_track($both)", "CALL genuine.iblt_track_all(peer => $bare, schema => 'shop')", "CALL genuine.iblt_audit_run(peer => $bare, schema => 'shop')");
foreach my $call (@refused)
{
	(undef, undef, $err) = $server->psql('owned', $call);
	like($err, qr/ERROR: .*(iblt is not installed|schema "pg_no superuser owns the schema iblt_internal" does not exist)/, "a schema iblt_internal that somebody else made is refused: " . $call =~ s/\(.*//r =~ s/.*[.]//r) or diag($err);
}
run('owned', "SELECT * FROM genuine.iblt_compare($both, method => 'plain')");
# the name of a schema that the check makes its error of, and a schema that has another name during the check
like(($server->psql('bare', 'CREATE SCHEMA "pg_no superuser owns the schema iblt_internal"'))[2], qr/unacceptable schema name/, 'nobody can make the schema that the check names');
my $renames = IbltTest::background($server, 'DO $$ BEGIN LOOP ALTER SCHEMA iblt_internal RENAME TO away; COMMIT; ALTER SCHEMA away RENAME TO iblt_internal; COMMIT; END LOOP; END $$', 'bare');
(undef, undef, $err) = $server->psql('owned', join(";\n", ($refused[0]) x 150), on_error_stop => 0);
is(scalar(() = $err =~ /ERROR: .*(?:iblt is not installed|no superuser owns|does not exist)/g), 150, 'a schema that goes and comes is refused each time');
run('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'bare' AND query LIKE 'DO %'");
IbltTest::finish($renames);
nothing_ran('a peer without iblt');

# --- builds that follow FIPS: md5 is an error ---------------------------------------------------------

database('fips', 'CREATE SCHEMA own');
run('fips', "SET allow_system_table_mods = on; UPDATE pg_proc SET proname = 'was_md5' WHERE proname = 'md5';
	CREATE FUNCTION pg_catalog.md5(text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE LOG ''trap: md5(text)''; RAISE EXCEPTION ''could not compute MD5 hash: unsupported''; END';
	CREATE FUNCTION pg_catalog.md5(bytea) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE LOG ''trap: md5(bytea)''; RAISE EXCEPTION ''could not compute MD5 hash: unsupported''; END'");
run('fips', create_extensions('SCHEMA own'));
copied('fips');
drivers('fips', 'far_fips', 'own', 'without md5');

done_testing();
