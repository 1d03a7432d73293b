# Live digests that somebody forged: sketches of other parameters, given to the functions or
# found in the stores, end in an error or in "not trustworthy", never in a crash.
use IbltTest;

IbltTest::share_sessions(0);

my $node = ready('forged', 'fsync = off', 'autovacuum = off', 'allow_system_table_mods = on');
inside($node);
sides($node, $node);
sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

sub right { my ($table) = @_; return sql("SELECT iblt_internal.live_is_right('$table', iblt_internal.iblt_live_options('$table'))") }
sub generation { my ($table) = @_; return sql("SELECT (iblt_internal.iblt_live_options('$table')).generation") }
sub state { my ($table) = @_; return sql("SELECT state, reason FROM iblt_live_status() WHERE relation = '$table'::regclass") }

# Nothing but C functions writes the stores, so the test makes one an ordinary table for a moment.
sub forge
{
	my ($store, $sql) = @_;
	my $change = sub { return "UPDATE pg_class SET relkind = '$_[0]', relhasrules = $_[1], relispopulated = NOT $_[1] WHERE oid = 'iblt_internal.$store'::regclass" };
	sql(join ";\n", 'BEGIN', $change->('r', 'false'), $sql, $change->('m', 'true'), 'COMMIT');
	return;
}

sql(q{CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1000) g;
	CREATE TABLE two (a int, b date, PRIMARY KEY (a, b)); INSERT INTO two VALUES (1, '2020-01-01');
	CALL iblt_track('t', capacity => 3000); CALL iblt_track('two', capacity => 100); INSERT INTO t VALUES (0, 'new')});

# --- sketches as arguments --------------------------------------------------------------

my $template = q{(iblt_internal.iblt_live_options('t')).template};
my $info = "iblt_info($template)";
my $seed = sql("SELECT ($info).seed");
my $agg = sub { my ($made, $key) = @_; return "(SELECT iblt_agg(${\ ($key // 'id')}, iblt_checksum(v), $made) FROM t)" };
my %forged = (
	'a large template' => 'iblt_new(1000000, key_size => 8)',
	'a small template' => 'iblt_new(100)',
	'the template itself' => "iblt_internal.iblt_compare_template(3000, 32, $seed)",
	'another seed' => $agg->("iblt_internal.iblt_compare_template(3000, 32, $seed # 1)"),
	'fewer cells' => $agg->("iblt_internal.iblt_compare_template(1000, 32, $seed)"),
	'more cells' => $agg->("iblt_internal.iblt_compare_template(9000, 32, $seed)"),
	'cells of no fold' => $agg->("iblt_new(500, seed => $seed)"),
	'more hashes' => $agg->("iblt_new(3000, hashes => 5, seed => $seed)"),
	'a subtable dropped' => 'iblt_drop_subtable(' . $agg->("iblt_internal.iblt_compare_template(3000, 32, $seed)") . ', 1)',
	'keys of another type' => $agg->("iblt_internal.iblt_compare_template(3000, 32, $seed)", 'id::text'),
	'uuids' => $agg->("iblt_internal.iblt_compare_template(3000, 32, $seed)", 'md5(id::text)::uuid'),
	'values' => "(SELECT iblt_agg(id, v, iblt_new(3000, with_values => true, seed => $seed)) FROM t)");
my $generation = generation('t');
foreach my $name (sort keys %forged)
{
	like(failure("SELECT iblt_internal.iblt_live_base('t', $forged{$name})"), qr/ERROR:  22023: /, "iblt_live_base: $name");
	like(failure("SELECT iblt_internal.iblt_track_set_base('t', $generation, $forged{$name})"), qr/ERROR:  22023: /, "iblt_track_set_base: $name");
}
my $long = q{SELECT iblt_agg(ROW(a, b), 0, iblt_internal.iblt_compare_template(100, 64, (iblt_info((iblt_internal.iblt_live_options('two')).template)).seed)) FROM two};
like(failure("SELECT iblt_internal.iblt_track_set_base('two', ${\ generation('two')}, ($long))"), qr/ERROR:  22023: .*key sizes? differ/, 'iblt_track_set_base: longer keys');
is(right('t'), 't', 'the digest is as it was');

my $begin = sub { return "BEGIN; SELECT iblt_internal.iblt_track_begin('t', '$_[1]'::text[] || '$_[2]', cardinality('$_[1]'::text[]), true, false, false, 100, $_[0]); COMMIT" };
my %template = (
	'a typed sketch' => $forged{'another seed'},
	'a template with values' => 'iblt_new(100, with_values => true)',
	'a template without a subtable' => 'iblt_drop_subtable(iblt_new(100), 2)');
like(failure($begin->($template{$_}, '{id}', '{id,v}')), qr/ERROR:  22023: /, "iblt_track_begin: $_") foreach sort keys %template;
like(failure($begin->('iblt_new(100)', '{}', '{id,v}')), qr/ERROR:  22023: /, 'iblt_track_begin: no key');
like(failure($begin->('iblt_new(100)', '{id}', '{}')), qr/ERROR:  22023: /, 'iblt_track_begin: no columns');
sql('UPDATE t SET v = v || v WHERE id < 10');
is(right('t'), 't', 'and the digest is as it was');

# --- sketches in the stores ---------------------------------------------------------------

my $problem = 'not trustworthy|its base is damaged, or not a sketch of these keys';
my $untrusted = qr/ERROR:  IB008: digest of table "t" is not trustworthy, because its base is damaged, or not a sketch of these keys$/m;
foreach my $name (sort keys %forged)
{
	forge('base', "UPDATE iblt_internal.base SET sketch = $forged{$name}::bytea WHERE relation = 't'::regclass");
	like(failure("SELECT iblt_live('t')"), $untrusted, "a stored base, $name: no digest");
	like(failure("SELECT iblt_live('t', 10)"), $untrusted, "a stored base, $name: no fold of it");
	is(state('t'), $problem, "a stored base, $name: the status says so");
	is(sql("SELECT iblt_live_merge('t')"), '0', "a stored base, $name: a merge leaves it");
}
forge('base', q{UPDATE iblt_internal.base SET sketch = '\x00' WHERE relation = 't'::regclass});
like(failure("SELECT iblt_live('t')"), $untrusted, 'a stored base that is not a sketch: no digest');
is(state('t'), $problem, 'a stored base that is not a sketch: the status says so');
foreach my $column ('sketch', 'verified_at')
{
	forge('base', "UPDATE iblt_internal.base SET $column = NULL WHERE relation = 't'::regclass");
	like(failure("SELECT iblt_live('t')"), $untrusted, "a stored base without $column: no digest");
}

# as many changes as make a reader and a writer start a worker
sql(q{UPDATE t SET v = v || 'y'; DO $$ BEGIN FOR i IN 1 .. 12 LOOP UPDATE t SET v = i; COMMIT; END LOOP; END $$});
wait_for($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'iblt merge'});
$node->restart;
is(state('t'), $problem, 'the server lives');
sql("CALL iblt_live_rebuild('t')");
is(right('t'), 't', 'and a rebuild heals the digest');

foreach my $name (sort keys %forged)
{
	sql("UPDATE t SET v = '$name'");
	forge('changes_1', "INSERT INTO iblt_internal.changes_1 (relation, number, kind, sketch) SELECT 't'::regclass, 1, 's', $forged{$name}::bytea");
	like(failure("SELECT iblt_live('t')"), qr/ERROR:  IB008: .* because a change in its store cannot be read$/m, "stored changes, $name: no digest");
	is(sql("SELECT iblt_live_merge('t')"), '0', "stored changes, $name: a merge leaves them");
	forge('changes_1', "DELETE FROM iblt_internal.changes_1 WHERE kind = 's'");
}
forge('changes_1', q{INSERT INTO iblt_internal.changes_1 (relation, number, kind, sketch) VALUES ('t'::regclass, 1, 's', '\x00')});
is(state('t'), 'not trustworthy|a change in its store cannot be read', 'stored changes that are not a sketch: the status says so');
forge('changes_1', q{DELETE FROM iblt_internal.changes_1 WHERE kind = 's'});
is(right('t'), 't', 'without them the digest is right');

sql("SELECT iblt_live_merge('t')");
my %packed = (
	'no checksum' => '00' . '00' x 8, 'an unknown flag' => '04' . '00' x 8, 'another one' => '05' . '00' x 16, 'half a key' => '01' . '00' x 4,
	'half a checksum' => '01' . '00' x 15, 'one checksum of two' => '03' . '00' x 16, 'a second change that is cut off' => '02' . '00' x 16 . '02');
foreach my $name (sort keys %packed)
{
	forge('changes_1', "INSERT INTO iblt_internal.changes_1 (relation, number, kind, changes) SELECT 't'::regclass, 0, 'c', '\\x$packed{$name}'");
	like(failure("SELECT iblt_live('t')"), qr/ERROR:  IB008: .* because a change in its store cannot be read$/m, "a packed change with $name: no digest");
	is(sql("SELECT iblt_live_merge('t')"), '0', "a packed change with $name: a merge leaves it");
	forge('changes_1', "DELETE FROM iblt_internal.changes_1 WHERE kind = 'c'");
}
is(right('t'), 't', 'without them the digest is right, too');

# --- a merge that fails ---------------------------------------------------------------------

sql(join ';', map { "CREATE TABLE $_ (id int PRIMARY KEY, v int); INSERT INTO $_ SELECT g, 0 FROM generate_series(1, 1000) g; CALL iblt_track('$_', capacity => 20)" } 'before', 'bad', 'after');
# counts that can be added to a digest once, but not twice
my $spoil = q{DO $$ DECLARE s iblt; BEGIN
	s := (SELECT iblt_agg(id, 0::bigint, (iblt_internal.iblt_live_options('bad')).template) FROM bad WHERE id = 1);
	FOR i IN 1 .. 30 LOOP s := s + s; END LOOP;
	INSERT INTO iblt_internal.changes_4 (relation, number, kind, sketch) SELECT 'bad'::regclass, 1, 's', s::bytea FROM generate_series(1, 2);
	END $$};
my $bad = sql(q{SELECT 'bad'::regclass::oid});
sub merged
{
	sql('DO $$ BEGIN FOR i IN 1 .. 12 LOOP UPDATE before SET v = v + 1; UPDATE after SET v = v + 1; END LOOP; END $$');
	wait_for($node, q{SELECT count(*) = 2 FROM iblt_live_status() WHERE relation IN ('before'::regclass, 'after'::regclass) AND unmerged = 0});
	wait_for($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'iblt merge'});
	my @said = slurp_file($node->logfile) =~ /WARNING:  could not merge changes of relation .*/g;
	note($_) foreach @said;
	return scalar(grep { /relation $bad / } @said);
}
forge('changes_4', $spoil);
my $said = merged();
cmp_ok($said, '>', 0, 'a table whose merge fails does not hold up the others, and the log says so');
forge('changes_4', "DELETE FROM iblt_internal.changes_4 WHERE kind = 's'");
is(sql("SELECT iblt_live_merge('bad')"), '0', 'it can be merged again');
is(right('bad'), 't', 'and its digest is right');
sql('UPDATE bad SET v = 1 WHERE id = 1');
is(sql("SELECT iblt_live_merge('bad')"), '1', 'after a change, it has one');
forge('changes_4', $spoil);
cmp_ok(merged(), '>', $said, 'and the log tells of the next time');

# --- parallel plans ------------------------------------------------------------------------

# Functions that write or take the latest snapshot are never below a Gather node, nor above one.
my $forced = (major_version() < 16 ? 'force_parallel_mode' : 'debug_parallel_query') . ' = on';
my $parallel = join '; ', map { "SET $_" } $forced, 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0';
sql('CREATE TABLE large AS SELECT g FROM generate_series(1, 1000) g; ALTER TABLE large SET (parallel_workers = 2); ANALYZE large');
my $counted = 'FROM (SELECT count(*) FROM large OFFSET 0) AS l (number)';
is(sql("$parallel; SELECT count(*) FROM large CROSS JOIN iblt_live_status()"), '5000', 'a parallel plan with iblt_live_status');
is(sql("$parallel; SELECT number, iblt_live_verify('t') $counted"), '1000|t', 'with iblt_live_verify');
is(sql("$parallel; SELECT number, iblt_live_merge('t') >= 0 $counted"), '1000|t', 'with iblt_live_merge');
is(sql("$parallel; SELECT number, iblt_live('t') IS NOT NULL $counted"), '1000|t', 'with iblt_live');
is(sql("$parallel; CALL iblt_live_rebuild('t'); SELECT iblt_live_verify('t')"), 't', 'and a rebuild');

# --- descriptions ---------------------------------------------------------------------------

# Each with the reason that iblt_live and the status give.
my @described = (
	[ 'version', 'version + 1', 'another version of iblt made it' ],
	[ 'system', 'system + 1', 'this is a copy of the database that made it' ],
	[ 'database', 'oid(database::bigint + 1)', 'this is a copy of the database that made it' ],
	[ 'generation', 'generation + 1', 'its first scan has not been finished' ],
	[ 'columns', q('{1,2,99,2}'), 'one of its columns was dropped' ],
	[ 'columns', q('{1,2,-1,2}'), 'one of its columns was dropped' ],
	[ 'columns', q('{1,2,0,2}'), 'one of its columns was dropped' ]);
sql('UPDATE two SET a = a + 1');
foreach (@described)
{
	my ($column, $value, $reason) = @$_;
	forge('tracked', "CREATE TABLE saved AS TABLE iblt_internal.tracked; UPDATE iblt_internal.tracked SET $column = $value WHERE relation = 'two'::regclass");
	like(failure("SELECT iblt_live('two')"), qr/ERROR:  IB008: .* because $reason$/m, "a description with $column $value: no digest");
	is(state('two'), "not trustworthy|$reason", "a description with $column $value: the status says so");
	is(sql("SELECT iblt_live_merge('two')"), '0', "a description with $column $value: a merge leaves the changes") if $column =~ /^(?:version|generation)$/;
	forge('tracked', "UPDATE iblt_internal.tracked AS t SET $column = s.$column FROM saved AS s WHERE t.relation = s.relation; DROP TABLE saved");
}
is(right('two'), 't', 'the digest of before is right');
forge('tracked', "UPDATE iblt_internal.tracked SET columns = '{1,NULL}' WHERE relation = 'two'::regclass");
like(failure("SELECT iblt_live('two')"), qr/ERROR:  XX000: unexpected array in iblt_internal.tracked/, 'a description with a column that is null: an error');
forge('tracked', "UPDATE iblt_internal.tracked SET files = NULL WHERE relation = 'two'::regclass");
like(failure("SELECT iblt_live('two')"), qr/ERROR:  XX000: unexpected null in iblt_internal.tracked/, 'a description that lacks a column: an error');

done_testing();
