# ALTER EXTENSION UPDATE gives the same objects as a new installation, and keeps digests and
# runs.  test/releases has the scripts of releases, if there are any.  A made-up version after
# the current one proves the test: without its update script something is missing.  It has one
# more column in each store, so it also shows how an update script adds one.
use IbltRuns;

IbltTest::share_sessions(0);

chomp(my $extension = `pg_config --sharedir`);
$extension .= '/extension';
plan skip_all => "$extension belongs to somebody else" if !-w $extension;
my ($current) = slurp_file("$extension/iblt.control") =~ /default_version = '(.*)'/;
my @made;
END { unlink @made if @made }

sub make_file
{
	my ($name, $text) = @_;
	return if -e "$extension/$name";
	push @made, "$extension/$name";
	append_to_file("$extension/$name", $text);
	return;
}

my $new = q{
CREATE FUNCTION @extschema@.iblt_made_up(integer DEFAULT 1) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT $1';
COMMENT ON FUNCTION @extschema@.iblt_made_up(integer) IS 'made up';
};

# A store that C functions write cannot be altered and keeps its row type, which functions
# take.  As a view it can get columns at the end.  Its file stays what it was.
my $add_column = q{
DO $do$
DECLARE
	store record;
BEGIN
	FOR store IN SELECT c.oid::regclass AS name, rtrim(pg_get_viewdef(c.oid), ';') AS query, relam, reloptions FROM pg_class c
			JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
			WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = '%s') AND relkind = 'm' LOOP
		UPDATE pg_class SET relkind = 'v', relam = 0 WHERE oid = store.name;
		EXECUTE 'CREATE OR REPLACE VIEW ' || store.name || ' AS ' || store.query || ', NULL::text AS made_up';
		UPDATE pg_class SET relkind = 'm', relam = store.relam, reloptions = store.reloptions WHERE oid = store.name;
	END LOOP;
END
$do$;
};
foreach my $name ('iblt_live', 'iblt_audit')
{
	my $more = $name eq 'iblt_audit' ? $new : '';
	(my $with_column = slurp_file("$extension/$name--$current.sql")) =~ s/(?<!AS number\n\t)WITH NO DATA/, NULL::text AS made_up WITH NO DATA/g;
	# The views that name all columns, and functions that make whole rows, are made once more.
	$with_column =~ s/\)::run_(difference|range)\b/, NULL)::run_$1/g;
	my @again = grep { /^CREATE VIEW|, NULL\)::run_/ } $with_column =~ /^(CREATE VIEW [^;]+;|CREATE FUNCTION (?:(?!^CREATE ).)*?^\$\$;)/msg;
	s/^CREATE/CREATE OR REPLACE/ foreach @again;
	make_file("$name--$current.made.up.sql", $with_column . $more);
	make_file("$name--$current--$current.made.up.sql", join "\n", sprintf($add_column, $name), $more, $with_column =~ /^(SET LOCAL search_path.*)$/m, @again);
}
make_file("iblt_audit--$current.made.wrong.sql", slurp_file("$extension/iblt_audit--$current.sql") . $new);
make_file("iblt_audit--$current--$current.made.wrong.sql", '');

my ($there, $here) = (server('there'), server('here'));
sides($here, $there);
both('CREATE EXTENSION dblink');

# Every object of the extension with all that defines it.
sub objects
{
	my ($database) = @_;
	return $here->safe_psql($database, q{
		SELECT pg_describe_object(d.classid, d.objid, 0) || ': ' || md5(concat_ws('|', obj_description(d.objid, k.relname), p.proacl, c.relacl, t.typacl,
			CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) END, a.parts, CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END, c.relkind, c.relam, c.reloptions, c.relispopulated,
			(SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull, attstorage), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0),
			t.typlen, t.typalign, t.typstorage, t.typinput::regprocedure, t.typoutput::regprocedure))
		FROM pg_depend d JOIN pg_class k ON k.oid = d.classid
		LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
		LEFT JOIN (SELECT aggfnoid::oid AS o, concat_ws(' ', aggtransfn, aggfinalfn, aggcombinefn, aggmtransfn, aggtransspace) AS parts FROM pg_aggregate) a ON a.o = p.oid
		LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
		LEFT JOIN pg_type t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid
		WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND d.refobjid IN (SELECT oid FROM pg_extension WHERE } . of_extensions() . q{)
		ORDER BY 1});
}

# What one of two databases has and the other one does not.
sub differences
{
	my ($left, $right) = @_;
	my %n;
	$n{$_}++ foreach split /\n/, objects($left);
	$n{$_}-- foreach split /\n/, objects($right);
	return join "\n", map { "$_ is in " . ($n{$_} > 0 ? $left : $right) . ' alone' } sort grep { $n{$_} } keys %n;
}

sub fresh
{
	my ($database, $version, @names) = @_;
	$here->safe_psql('postgres', "CREATE DATABASE $database");
	$here->safe_psql($database, 'CREATE EXTENSION IF NOT EXISTS iblt');
	$here->safe_psql($database, "CREATE EXTENSION IF NOT EXISTS $_ VERSION '$version'") foreach @names;
	return;
}

# --- releases ------------------------------------------------------------------------------------

foreach my $script (sort glob('test/releases/*--*.sql'))
{
	my ($name, $release) = $script =~ m{([^/]+)--(.*)\.sql$};
	make_file("$name--$release.sql", slurp_file($script));
	fresh("new_$name", $current, $name) if $here->safe_psql('postgres', "SELECT NOT EXISTS (SELECT FROM pg_database WHERE datname = 'new_$name')") eq 't';
	my $old = 'old_' . "${name}_$release" =~ s/\W/_/gr;
	fresh($old, $release, $name);
	$here->safe_psql($old, "ALTER EXTENSION $name UPDATE TO '$current'");
	is(differences($old, "new_$name"), '', "$name: $release updated to $current has the objects of $current");
}

# --- a made-up version, a digest and a run --------------------------------------------------------

my $tables = 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, g FROM generate_series(1, 5000) g; CREATE TABLE u (id int PRIMARY KEY);';
both("CREATE EXTENSION iblt_audit VERSION '$current' CASCADE; CREATE EXTENSION iblt_live VERSION '$current'; $tables");
$here->safe_psql('postgres', "INSERT INTO u VALUES (1); CALL iblt_track('t'); INSERT INTO t VALUES (-1, -1)");
my ($run) = begin_run("'{u,t}', slice_ms => 1");
my $session = IbltTest::Session->new($here);
$session->run('INSERT INTO t VALUES (-2, -2)');
my @kept = map { $here->safe_psql('postgres', $_) } my @queries = ("SELECT r FROM iblt_audit_run_stats r", "SELECT d FROM iblt_audit_differences d", "SELECT state, reason, rows, unmerged, verified_at FROM iblt_live_status()");
$here->safe_psql('postgres', "ALTER EXTENSION $_ UPDATE TO '$current.made.up'") foreach 'iblt_live', 'iblt_audit';
fresh('newer', "$current.made.up", 'iblt_live', 'iblt_audit');
is(scalar(() = objects('newer') =~ /^function iblt_made_up/mg), 1, 'a made-up version has one function more');
is($here->safe_psql('newer', "SELECT count(*) FROM pg_attribute WHERE attname = 'made_up'"), 15, 'and one column more in each of 15 stores');
is(differences('postgres', 'newer'), '', 'updated to it, a database has the objects of a new one');
is($here->safe_psql('postgres', $queries[$_]), $kept[$_], "as before: $queries[$_]") foreach 0 .. $#queries;
$session->run('INSERT INTO t VALUES (-3, -3)');
is($session->{err}, '', 'a session that began before goes on writing');
is($here->safe_psql('postgres', "INSERT INTO t VALUES (0, 0); SELECT iblt_live_merge('t'), iblt_live_verify('t')"), '4|t', 'a live digest goes on, with the changes of before');
is(tables($run)->{'public.u'}{extra}, 1, 'a run is there');
my ($rc, undef, $err) = $here->psql('postgres', "CALL iblt_audit_resume($run, ${\ conninfo($there)})");
is($rc, 0, 'and can be resumed') or diag($err);
is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_audit_recheck($run, ${\ conninfo($there)})"), '2', 'and both tables with differences rechecked');
is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('t', ${\ conninfo($there)})"), '4', 'and compared with a peer that was not updated');

# A library that is newer than the objects: what it cannot keep is an error.
$there->safe_psql('postgres', q{ALTER EXTENSION iblt_live DROP MATERIALIZED VIEW iblt_internal.base; DROP MATERIALIZED VIEW iblt_internal.base;
	CREATE MATERIALIZED VIEW iblt_internal.base AS SELECT NULL::oid AS relation, NULL::bigint AS generation, NULL::timestamptz AS verified_at WITH NO DATA; ALTER EXTENSION iblt_live ADD MATERIALIZED VIEW iblt_internal.base});
like(($there->psql('postgres', "CALL iblt_track('t')"))[2], qr/ERROR: +the installed iblt needs newer objects.*HINT: +Run ALTER EXTENSION iblt_live UPDATE/s, 'a store of an older version: an error with a hint');

fresh('wrong', $current, 'iblt_audit');
$here->safe_psql('wrong', "ALTER EXTENSION iblt_audit UPDATE TO '$current.made.wrong'");
fresh('whole', "$current.made.wrong", 'iblt_audit');
like(differences('wrong', 'whole'), qr/^function iblt_made_up\(integer\): \w+ is in whole alone$/, 'an update script that forgets a function is noticed');

done_testing();
