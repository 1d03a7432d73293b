# DDL beside live digests.  No statement fails because a table or its partition is tracked.
# Each digest is then that of a scan, or not trustworthy, and a rebuild heals it.  At the end,
# many levels of savepoints.
use IbltTest;

my $node = ready('ddl', 'fsync = off', 'autovacuum = off', 'max_prepared_transactions = 2');
inside($node);
sides($node, $node);
sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

# What a digest is now: right, refused with a reason, or wrong.
my $state = q{SELECT string_agg(t || ': ' || CASE s.state WHEN 'live'
		THEN CASE WHEN iblt_internal.live_is_right(t, iblt_internal.iblt_live_options(t)) THEN 'right' ELSE 'wrong' END
		WHEN 'not trustworthy' THEN 'refused' ELSE 'untracked' END, ' ' ORDER BY n)
	FROM unnest('{%s}'::regclass[]) WITH ORDINALITY AS u(t, n) LEFT JOIN iblt_live_status() AS s ON s.relation = t};

# What they are after some SQL.
sub states { my ($tables, $sql) = @_; return sql(($sql // '') . ';' . sprintf($state, $tables)) }
sub triggers { my ($table) = @_; return sql("SELECT count(*) FROM pg_trigger WHERE tgrelid = '$table'::regclass AND tgname ~ '^iblt'") }

# --- partitions and what they are partitions of, each tracked or not ------------------------

sql(q{CREATE TABLE p (id int, k int, a text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
	CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1);
	CREATE TABLE p_2 PARTITION OF p FOR VALUES IN (2) PARTITION BY RANGE (id);
	CREATE TABLE p_2a PARTITION OF p_2 FOR VALUES FROM (0) TO (10000);
	INSERT INTO p SELECT g, 1 + g % 2, 'x' FROM generate_series(1, 100) g;
	CREATE TABLE solo (gone int, a text, id int NOT NULL, k int NOT NULL, PRIMARY KEY (id, k)); ALTER TABLE solo DROP COLUMN gone;
	INSERT INTO solo SELECT 'y', g, 3 FROM generate_series(1, 100) g;
	CREATE TABLE mid (id int, k int, a text, PRIMARY KEY (id, k)) PARTITION BY RANGE (id);
	CREATE TABLE mid_a PARTITION OF mid FOR VALUES FROM (0) TO (10000);
	INSERT INTO mid SELECT g, 4, 'z' FROM generate_series(1, 100) g;
	CREATE TABLE bare (LIKE p INCLUDING ALL); INSERT INTO bare SELECT g, 5, 'b' FROM generate_series(1, 100) g;
	CALL iblt_track('p', capacity => 50); CALL iblt_track('solo', capacity => 50);
	CALL iblt_track('mid', capacity => 50); CALL iblt_track('mid_a', capacity => 50)});
my ($last, $all) = (1000, 'p,solo,mid,mid_a');
is(states($all), 'p: right solo: right mid: right mid_a: right', 'a partition can be tracked beside what it is a partition of');

foreach my $case (
	[ 'ATTACH of a tracked table', 'ALTER TABLE p ATTACH PARTITION solo FOR VALUES IN (3)', 'p' ],
	[ 'ATTACH of a tracked partitioned table', 'ALTER TABLE p ATTACH PARTITION mid FOR VALUES IN (4)', 'p' ],
	[ 'ATTACH of a table that is not tracked', 'ALTER TABLE p ATTACH PARTITION bare FOR VALUES IN (5)', 'p' ],
	[ 'a new partition', 'CREATE TABLE p_6 PARTITION OF p FOR VALUES IN (6); CREATE TABLE mid_b PARTITION OF mid FOR VALUES FROM (10000) TO (20000)', 'p,mid' ],
	[ 'LIKE', 'CREATE TABLE alike (LIKE p INCLUDING ALL)', '' ],
	[ 'TRUNCATE of a partition', 'TRUNCATE p_6, bare', 'p' ],
	[ 'TRUNCATE of a tracked partition', 'TRUNCATE mid_a', 'p,mid,mid_a' ],
	[ 'SET SCHEMA and RENAME', 'CREATE SCHEMA s; ALTER TABLE solo SET SCHEMA s; ALTER TABLE s.solo RENAME TO other; ALTER TABLE s.other RENAME TO solo; ALTER TABLE s.solo SET SCHEMA public;
		ALTER TABLE p RENAME COLUMN a TO b; ALTER TABLE p RENAME COLUMN b TO a', '' ],
	[ 'ALTER TYPE', 'ALTER TABLE p ALTER a TYPE varchar(100)', 'p,solo,mid,mid_a' ],
	[ 'columns', 'ALTER TABLE p ADD COLUMN more int DEFAULT 5', 'p,solo,mid,mid_a' ],
	[ 'another owner', 'CREATE ROLE someone LOGIN; ALTER TABLE p_1 OWNER TO someone', '' ],
	[ 'DETACH of a tracked table', 'ALTER TABLE p DETACH PARTITION solo', 'p' ],
	[ 'DETACH of a tracked partitioned table', 'ALTER TABLE p DETACH PARTITION mid CONCURRENTLY', 'p' ],
	[ 'DETACH of one that is not', 'ALTER TABLE p DETACH PARTITION bare', 'p' ],
	[ 'ATTACH and DETACH of a table between', 'ALTER TABLE mid DETACH PARTITION mid_b; DROP TABLE mid_b; CREATE TABLE top (LIKE mid INCLUDING ALL) PARTITION BY LIST (k); ALTER TABLE top ATTACH PARTITION mid FOR VALUES IN (4);
		ALTER TABLE p ATTACH PARTITION solo FOR VALUES IN (3); ALTER TABLE p DETACH PARTITION solo', 'mid' ],
	[ 'INHERITS and NO INHERIT', 'CREATE TABLE child () INHERITS (solo); INSERT INTO child SELECT * FROM solo; ALTER TABLE child NO INHERIT solo; DROP TABLE child', '' ],
	[ 'INHERIT', 'CREATE TABLE child (LIKE solo INCLUDING ALL); CALL iblt_track($$child$$); ALTER TABLE child INHERIT solo; INSERT INTO child VALUES ($$c$$, 1, 3); DROP TABLE child', '' ],
	[ 'DROP of a partition', 'DROP TABLE p_6', 'p' ])
{
	my ($name, $ddl, $refused) = @$case;

	is(failure("\\set ON_ERROR_STOP 1\n$ddl"), '', "$name does not fail");
	my %expected = map { $_ => 'refused' } split /,/, $refused;
	my $expected = join ' ', map { "$_: " . ($expected{$_} // 'right') } split /,/, $all;
	is(states($all), $expected, "$name: what the digests say");
	is(states($all, "INSERT INTO p SELECT $last + g, 1 + g % 2, 'new' FROM generate_series(1, 20) g; UPDATE p SET k = 3 - k WHERE id > $last + 10;
		INSERT INTO solo (id, k) SELECT $last + g, 3 FROM generate_series(1, 20) g; UPDATE mid SET a = a || '!' WHERE id < 50; DELETE FROM solo WHERE id = $last + 3;
		INSERT INTO mid (id, k) SELECT $last + g, 4 FROM generate_series(1, 20) g; DELETE FROM mid_a WHERE id = $last + 5"), $expected, "$name: and after changes");
	$last += 20;
	is(states($all, join('', map { "CALL iblt_live_rebuild('$_');\n" } sort keys %expected) . "INSERT INTO p SELECT $last + g, 1 + g % 2, 'new' FROM generate_series(1, 20) g;
		UPDATE solo SET a = a || '.'; INSERT INTO mid (id, k) SELECT $last + g, 4 FROM generate_series(1, 20) g"),
		'p: right solo: right mid: right mid_a: right', "$name: a rebuild heals them");
	$last += 20;
}
is(triggers('solo'), '2', 'a table that was a partition has its own triggers');
is(triggers('bare'), '0', 'and none if it was not tracked itself');
sql(q{CALL iblt_untrack('mid')});
is(states('mid,mid_a'), 'mid: untracked mid_a: right', 'a partition is tracked without what it is a partition of');
is(triggers('mid_a'), '2', 'and keeps its triggers');
sql(q{CALL iblt_untrack('mid_a'); CALL iblt_untrack('p')});
is(sql(q{SELECT count(*) FROM pg_trigger WHERE tgname ~ '^iblt' AND tgrelid <> 'solo'::regclass}), '0', 'iblt_untrack leaves no triggers');

# --- in the middle of a start ---------------------------------------------------------------

# What the scan saw and the start did not would be in the digest for ever.
foreach my $case (
	[ 'ATTACH', 'p', 'ALTER TABLE p ATTACH PARTITION bare FOR VALUES IN (5)', 'ALTER TABLE p DETACH PARTITION bare' ],
	[ 'INHERIT', 'solo', 'CREATE TABLE child () INHERITS (solo); INSERT INTO child (id, k) VALUES (1, 3)', 'DROP TABLE child' ],
	[ 'a new column', 'solo', 'ALTER TABLE solo ADD COLUMN n int DEFAULT 1', 'SELECT 1' ])
{
	my ($name, $table, $ddl, $back) = @$case;
	sql("INSERT INTO bare SELECT $last, 5, 'b'; CALL iblt_untrack('$table')") if $name eq 'ATTACH';
	my $generation = sql("SELECT iblt_internal.track_start('$table', NULL, NULL, 50, NULL)");
	sql($ddl);
	like(failure("SELECT iblt_internal.track_scan('$table', $generation)"), qr/IB008: digest of table "$table" is not trustworthy, because/, "$name between a start and its scan: no digest");
	sql($back);
	is(states($table), "$table: refused", "$name between a start and its scan: nor later");
	sql("CALL iblt_live_rebuild('$table')");
	is(states($table), "$table: right", "$name between a start and its scan: until a rebuild");
}

# A transaction that sees a partition which is being detached writes to it.
{
	my ($old, $ddl) = map { IbltTest::Session->new($node) } 1 .. 2;
	$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM p');
	$ddl->start('ALTER TABLE p DETACH PARTITION p_1 CONCURRENTLY');
	wait_for($node, q{SELECT bool_or(inhdetachpending) FROM pg_inherits WHERE inhparent = 'p'::regclass});
	$old->run(q{INSERT INTO p VALUES (-1, 1, 'late')});
	is($old->{err}, '', 'a row goes into a partition that is being detached');
	is($old->run(sprintf $state, 'p'), 'p: right', 'and into the digest');
	$old->run('COMMIT');
	$ddl->done;
	is(states('p'), 'p: refused', 'which is not trustworthy once the partition is gone');
	$_->quit foreach $old, $ddl;
	sql('ALTER TABLE p ATTACH PARTITION p_1 FOR VALUES IN (1)');
	is(states('p'), 'p: refused', 'also when it has come back');
	sql(q{CALL iblt_live_rebuild('p')});
}
is(states('p'), 'p: right', 'and a rebuild heals it');

# --- partitions of somebody else --------------------------------------------------------------

sql(q{CALL iblt_untrack('p'); CREATE ROLE parent LOGIN; ALTER TABLE p OWNER TO parent; ALTER TABLE p_2a OWNER TO someone; GRANT TRIGGER ON p_1, p_2, p_2a TO parent;
	ALTER TABLE p_1 ENABLE ROW LEVEL SECURITY; GRANT SELECT (id) ON p_1 TO parent});
is(failure(q{CALL iblt_track('p'); INSERT INTO p VALUES (9000, 1, 'x'), (9000, 2, 'x'); SELECT iblt_live('p'); CALL iblt_live_rebuild('p')}, user => 'parent'), '',
	'a table is tracked by its owner, whoever owns its partitions');
is(states('p'), 'p: right', 'and its digest is right');
like(failure(q{SELECT iblt_live('p')}, user => 'someone'), qr/42501: permission denied for table p$/m, 'who has a right to a partition alone does not read it');
sql(q{GRANT SELECT (id, k, a) ON p TO someone});
like(failure(q{SELECT iblt_live('p')}, user => 'someone'), qr/42501: permission denied for table p$/m, 'nor with rights to columns');
is(failure(q{CALL iblt_untrack('p')}, user => 'parent'), '', 'and the owner ends it');
is(triggers('p_2a'), '0', 'without a trace');

# --- a rebuild keeps what was chosen -----------------------------------------------------------

sql(q{CREATE TABLE one (id int PRIMARY KEY, a text, UNIQUE (a)); INSERT INTO one SELECT g, g FROM generate_series(1, 100) g; CREATE TABLE two (LIKE one INCLUDING ALL); INSERT INTO two SELECT * FROM one;
	CALL iblt_track('one', capacity => 50); CALL iblt_track('two', peer_relation => 'one');
	CREATE TABLE third (LIKE one INCLUDING ALL); CALL iblt_track('third', key_columns => '{a}', columns => '{id}', capacity => 50)});
my $fit = q{SELECT count(*) FROM iblt_decode(iblt_live('one') - iblt_live('two'), NULL::int)};
foreach my $case (
	[ 'a child comes and goes', 'CREATE TABLE child () INHERITS (one); DROP TABLE child' ],
	[ 'the unique index goes', 'ALTER TABLE one DROP CONSTRAINT one_pkey; ALTER TABLE third DROP CONSTRAINT third_a_key' ])
{
	my ($name, $ddl) = @$case;
	my $before = sql(q{SELECT md5((iblt_internal.iblt_live_options('third')).template::bytea)});
	sql("$ddl; CALL iblt_live_rebuild('one'); CALL iblt_live_rebuild('third')");
	is(sql($fit), '0', "$name: the digests still fit after a rebuild");
	is(sql(q{SELECT md5((iblt_internal.iblt_live_options('third')).template::bytea)}), $before, "$name: also one of hashed keys");
	is(states('one,two,third'), 'one: right two: right third: right', "$name: and are right");
}
sql(q{ALTER TABLE one ADD PRIMARY KEY (id); CREATE TABLE child () INHERITS (one); DROP TABLE child});
is(sql(q{SELECT count(*) FROM iblt_compare('one', peer_relation => 'two', live => 'require')}), '0', 'a child that came and went leaves digests comparable');
sql(q{ALTER TABLE one ALTER id TYPE uuid USING md5(id::text)::uuid; CALL iblt_live_rebuild('one')});
is(states('one'), 'one: right', 'a key of another type is chosen anew');

# --- the functions of the triggers --------------------------------------------------------------

sql(q{CREATE TABLE f (id int PRIMARY KEY); CALL iblt_track('f'); CREATE SCHEMA fake;
	CREATE MATERIALIZED VIEW fake.tracked AS SELECT * FROM iblt_internal.tracked WITH NO DATA});
sql(qq{CREATE MATERIALIZED VIEW fake.changes_$_ AS SELECT * FROM iblt_internal.changes_$_ WITH NO DATA}) foreach 1 .. 8;
my $library = q{AS '$libdir/iblt', 'iblt_track_%s' LANGUAGE C};
foreach my $function ('row', 'truncate')
{
	my $harm = $function eq 'row' ? 'INSERT INTO f SELECT max(id) + 1 FROM f' : 'TRUNCATE f';
	foreach my $case (
		[ 'replaced', "CREATE OR REPLACE FUNCTION iblt_internal.iblt_track_$function() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; $harm;
			CREATE OR REPLACE FUNCTION iblt_internal.iblt_track_$function() RETURNS trigger ${\ sprintf $library, $function}" ],
		[ 'moved', "ALTER FUNCTION iblt_internal.iblt_track_$function() SET SCHEMA fake; $harm; ALTER FUNCTION fake.iblt_track_$function() SET SCHEMA iblt_internal" ])
	{
		my ($name, $sql) = @$case;
		sql('INSERT INTO f VALUES (1)') if sql('SELECT count(*) FROM f') eq '0';
		sql(q{CALL iblt_live_rebuild('f')});
		is(states('f'), 'f: right', "iblt_track_$function: right at first");
		sql($sql);
		is(states('f'), 'f: refused', "iblt_track_$function $name for a moment: no digest");
	}
}
sql(q{CALL iblt_live_rebuild('f')});
is(states('f'), 'f: right', 'and a rebuild heals it');
# --- many levels of savepoints ---------------------------------------------------------------------

# Lists and sketches, small and large ones, meet when levels are released or rolled back.
sql(q{CREATE TABLE deep (id int PRIMARY KEY, v int DEFAULT 0); CREATE TABLE deep_too (id int PRIMARY KEY); CALL iblt_track('deep', capacity => 20); CALL iblt_track('deep_too', capacity => 20)});
my $both = sprintf $state, 'deep,deep_too';
foreach my $end ('COMMIT', 'RELEASE s200; COMMIT', 'ROLLBACK TO s100; COMMIT', "PREPARE TRANSACTION 'deep'; COMMIT PREPARED 'deep'", 'ROLLBACK')
{
	my $work = 'BEGIN;';
	foreach my $level (1 .. 400)
	{
		my $rows = ($level % 50 == 0 || $level % 60 == 1) ? 1500 : 1 + $level % 3;
		$work .= "SAVEPOINT s$level; INSERT INTO deep SELECT coalesce(max(id), 0) + g FROM deep, generate_series(1, $rows) g GROUP BY g;\n";
		$work .= "INSERT INTO deep_too SELECT coalesce(max(id), 0) + 1 FROM deep_too; UPDATE deep SET v = v + 1 WHERE id % 500 = 0;\n" if $level % 7 == 0;
		$work .= "ROLLBACK TO s$level;\n" if $level % 11 == 0;
		$work .= "RELEASE s$level;\n" if $level % 13 == 0;
		$work .= "$both;\n" if $level % 133 == 0;
	}
	is(sql("$work $both; $end; $both"), join("\n", ('deep: right deep_too: right') x 5), "400 levels of savepoints, $end");
	sql('DELETE FROM deep; DELETE FROM deep_too');
}

done_testing();
