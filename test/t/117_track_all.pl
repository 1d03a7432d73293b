# iblt_track_all: digests of all tables of a subscription or a schema, on both sides, in one
# call; what cannot be tracked, and why; and a second call, which has nothing to do.
use IbltTest;

sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }

my ($here, $there) = (server('here', 'wal_level = logical'), server('there', 'wal_level = logical'));
sides($here, $there);
awkward_extensions();
sql($there, 'ALTER ROLE CURRENT_USER SET search_path = public, "Their Iblt"');
my $peer = conninfo($there);


# The row of a call, and what it tells of each table, without the levels.
sub track_all
{
	my ($arguments) = @_;
	my ($rc, $out, $err) = $here->psql('postgres', "CALL iblt_track_all($arguments)", extra_params => [ '-q' ]);
	return join "\n", $out, sort map { s/^psql:\S+ (NOTICE|WARNING):  //r } grep { /NOTICE|WARNING|ERROR/ } split /\n/, $err;
}
sub tracked { my ($node) = @_; return sql($node, "SELECT string_agg(concat_ws(' ', relation, state), ', ' ORDER BY relation::text) FROM iblt_live_status()") }
sub audit { my ($arguments) = @_; return sql($here, "SELECT relation || ' ' || status || ' ' || coalesce(substring(detail FROM 'from live digests'), '') FROM iblt_audit($arguments) ORDER BY 1") }

# --- a subscription -------------------------------------------------------------------------------

both(q{CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE "B ""b" (id uuid PRIMARY KEY, v text); CREATE TABLE keyless (v text);
	CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100); CREATE TABLE p2 PARTITION OF p DEFAULT;
	CREATE TABLE other (id int PRIMARY KEY)});
sql($there, q{INSERT INTO a SELECT g, g FROM generate_series(1, 1000) g; INSERT INTO "B ""b" SELECT md5(g::text)::uuid, g FROM generate_series(1, 300) g; INSERT INTO p SELECT g, g FROM generate_series(1, 200) g;
	INSERT INTO keyless VALUES ('x'); CREATE PUBLICATION pub FOR TABLE a, "B ""b", keyless, p});
sql($here, "CREATE SUBSCRIPTION sub CONNECTION $peer PUBLICATION pub");
subscribed($here, 5, 'sub');
my $refused = 'on the peer: table "public.keyless" cannot be tracked, because it has no unique key';
is(track_all("subscription => 'sub'"), qq(4|1\ntable public."B ""b" is tracked\ntable public.a is tracked\ntable public.keyless is not tracked: $refused\ntable public.p1 is tracked\ntable public.p2 is tracked),
	'a subscription: all tables that have a key, and partitions as they are subscribed');
is(tracked($_), '"B ""b" live, a live, p1 live, p2 live', 'on both sides') foreach $here, $there;
is(track_all("subscription => 'sub'"), qq(4|1\ntable public."B ""b" is tracked already\ntable public.a is tracked already\ntable public.keyless is not tracked: $refused\ntable public.p1 is tracked already\ntable public.p2 is tracked already),
	'a second call has nothing to do');
sql($there, q{UPDATE a SET v = 'new' WHERE id < 50; DELETE FROM p WHERE id = 150});
$there->wait_for_catchup('sub');
is(audit("subscription => 'sub', live => 'auto'"), qq(public."B ""b" equal from live digests\npublic.a equal from live digests\npublic.keyless equal \npublic.p1 equal from live digests\npublic.p2 equal from live digests),
	'an audit reads them');
sql($here, q{UPDATE p SET v = 'drift' WHERE id = 5});
is(audit("subscription => 'sub', live => 'auto'") =~ s/.*(public.p1 .*)\n.*/$1/sr, 'public.p1 differs from live digests', 'and finds drift');

# a tracked partitioned table stands for its partitions, as long as both have the same
sql($_, "CALL iblt_untrack('p1'); CALL iblt_untrack('p2')") foreach $here, $there;
sql($there, "CREATE SCHEMA \"p.p\"; CALL iblt_track('p')");
is(audit("subscription => 'sub', live => 'auto'") =~ s/^public\.[^p].*\n//gmr, "public.p1 differs \npublic.p2 equal ", 'a partitioned table that only one side tracks');
sql($here, "CALL iblt_track('p', peer => $peer)");
my $by_parent = sub { return sql($here, "SELECT relation, status, changed, rows_here, substring(detail FROM 'from live digests|live digests are not used'), substring(detail FROM '. partitions .*') FROM iblt_audit($_[0]) WHERE relation ~ '[.]p[0-9]?\$'") };
is($by_parent->("subscription => 'sub', live => 'auto'"), 'public.p|differs|1|199|from live digests|2 partitions are compared together', 'one that both track is compared in place of its partitions');
is($by_parent->("$peer, publication => 'pub', live => 'require'"), 'public.p|differs|1|199|from live digests|2 partitions are compared together', 'also of a publication');
sql($there, 'CREATE PUBLICATION part FOR TABLE p2');
is($by_parent->("$peer, publication => 'part', live => 'auto'"), 'public.p2|equal|0|100|live digests are not used|', 'unless only some of them are audited');
is($by_parent->("subscription => 'sub'"), "public.p1|differs|1|99||\npublic.p2|equal|0|100||", 'but not by scans');
is($by_parent->("$peer, '{p1,p2}', live => 'auto'"), "public.p1|differs|1|99|live digests are not used|\npublic.p2|equal|0|100|live digests are not used|", 'nor where the partitions are named');
like(track_all("subscription => 'sub'"), qr/^table public\.p is tracked already$/m, 'a call tracks no partitions of it');
sql($here, q{SET session_replication_role = replica; UPDATE p SET v = '5' WHERE id = 5});
is($by_parent->("subscription => 'sub', live => 'require'"), 'public.p|equal|0|199|from live digests|2 partitions are compared together', 'equal again');
sql($there, "CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (1000) TO (2000); CALL iblt_live_rebuild('p')");
$there->wait_for_catchup('sub');
is($by_parent->("subscription => 'sub', live => 'auto'"), "public.p1|equal|0|99|live digests are not used|\npublic.p2|equal|0|100|live digests are not used|\npublic.p3|not comparable||||",
	'with a partition on one side alone, each is compared by itself');
sql($here, "CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (1000) TO (2000); CALL iblt_live_rebuild('p')");
like($by_parent->("subscription => 'sub', live => 'auto'"), qr/^public\.p1\|equal.*\npublic\.p2\|equal.*\npublic\.p3\|not comparable/, 'also with one that is published and not subscribed');
sql($_, "DROP TABLE p3; CALL iblt_live_rebuild('p')") foreach $here, $there;
foreach my $part ([ 'p1, p2', " WITH (publish = 'insert')" ], major_version() < 15 ? () : ([ 'p1 (id), p2 (id)', '' ], [ 'p1 WHERE (id >= 0), p2 WHERE (id >= 0)', '' ]))
{
	sql($there, "DROP PUBLICATION part; CREATE PUBLICATION part FOR TABLE $part->[0]$part->[1]");
	like($by_parent->("$peer, publication => 'part', live => 'auto', trust_filters => true"), qr/^public\.p1\|equal.*\npublic\.p2\|equal/, "a publication of a part: $part->[0]$part->[1]");
}
sql($here, "ALTER TABLE p DETACH PARTITION p2; DELETE FROM p2 WHERE id = 120; ALTER TABLE p ATTACH PARTITION p2 DEFAULT; CALL iblt_live_rebuild('p')");
sql($there, "CALL iblt_live_rebuild('p')");
is($by_parent->("subscription => 'sub', live => 'auto'"), 'public.p|differs|0|198|from live digests|2 partitions are compared together', 'detached and attached, and rebuilt');
sql($here, 'ALTER TABLE p DETACH PARTITION p2');
is($by_parent->("subscription => 'sub', live => 'auto'"), "public.p1|equal|0|99|live digests are not used|\npublic.p2|differs|0|99|live digests are not used|", 'detached: each by itself');
sql($here, "ALTER TABLE p ATTACH PARTITION p2 DEFAULT; INSERT INTO p2 VALUES (120, '120'); CALL iblt_untrack('p')");
sql($there, "CALL iblt_untrack('p')");
is(track_all("subscription => 'sub'") =~ s/\n.*//sr, '4|1', 'and tracked by themselves again');

# Nor does it stand for partitions of other rows, although it has the same rows.
foreach my $case (
	[ 'the same range', 'RANGE (a)', 'FOR VALUES FROM (0) TO (100)', 'DEFAULT' ],
	[ 'the same hash', 'HASH (t)', 'FOR VALUES WITH (MODULUS 2, REMAINDER 0)', 'FOR VALUES WITH (MODULUS 2, REMAINDER 1)' ],
	[ 'the same levels', 'LIST (b)', 'FOR VALUES IN (0, 1) PARTITION BY RANGE (a); CREATE TABLE q1a PARTITION OF q1 FOR VALUES FROM (0) TO (50); CREATE TABLE q1b PARTITION OF q1 DEFAULT', 'DEFAULT' ],
	[ 'other bounds', 'RANGE (a)', 'FOR VALUES FROM (0) TO (100)', 'DEFAULT', 'RANGE (a)', 'FOR VALUES FROM (0) TO (150)', 'DEFAULT' ],
	[ 'exchanged remainders', 'HASH (a)', 'FOR VALUES WITH (MODULUS 2, REMAINDER 0)', 'FOR VALUES WITH (MODULUS 2, REMAINDER 1)', 'HASH (a)', 'FOR VALUES WITH (MODULUS 2, REMAINDER 1)', 'FOR VALUES WITH (MODULUS 2, REMAINDER 0)' ],
	[ 'another key', 'RANGE (a)', 'FOR VALUES FROM (0) TO (2)', 'DEFAULT', 'RANGE (b)', 'FOR VALUES FROM (0) TO (2)', 'DEFAULT' ],
	[ 'another strategy', 'LIST (b)', 'DEFAULT', 'FOR VALUES IN (1)', 'RANGE (b)', 'DEFAULT', 'FOR VALUES FROM (1) TO (3)' ],
	[ 'another operator class', 'RANGE (t text_pattern_ops)', q{FOR VALUES FROM ('row 2') TO ('row 5')}, 'DEFAULT', 'RANGE (t)', q{FOR VALUES FROM ('row 2') TO ('row 5')}, 'DEFAULT', 'equal' ],
	[ 'an expression', 'RANGE ((a + 0))', 'FOR VALUES FROM (0) TO (100)', 'DEFAULT', 'RANGE ((a + 0))', 'FOR VALUES FROM (0) TO (100)', 'DEFAULT', 'equal' ],
	[ 'the order of a type of the database', 'RANGE (e)', q{FOR VALUES FROM ('one') TO ('two')}, 'DEFAULT', 'RANGE (e)', q{FOR VALUES FROM ('one') TO ('two')}, 'DEFAULT' ],
	[ 'bounds of the second level', 'LIST (b)', 'FOR VALUES IN (0, 1) PARTITION BY RANGE (a); CREATE TABLE q1a PARTITION OF q1 FOR VALUES FROM (0) TO (50); CREATE TABLE q1b PARTITION OF q1 DEFAULT', 'DEFAULT',
		'LIST (b)', 'FOR VALUES IN (0, 1) PARTITION BY RANGE (a); CREATE TABLE q1a PARTITION OF q1 FOR VALUES FROM (0) TO (60); CREATE TABLE q1b PARTITION OF q1 DEFAULT', 'DEFAULT' ])
{
	my ($name, @parts) = @$case;	# and whether scans find them equal all the same
	my $same = @parts == 3;
	my $make = sub { my ($key, $first, $second) = @_; return "CREATE TABLE q (a int, b int, t text, e late, PRIMARY KEY (a, b, t, e)) PARTITION BY $key; CREATE TABLE q1 PARTITION OF q $first; CREATE TABLE q2 PARTITION OF q $second;
		INSERT INTO q SELECT g, g % 3, 'row ' || g, CASE WHEN g < 40 THEN 'one' WHEN g < 90 THEN 'three' ELSE 'two' END::late FROM generate_series(1, 200) g" };
	# no primary key on an expression
	my $sql = sub { my ($text) = $make->(@_); $text =~ s/, PRIMARY KEY \(a, b, t, e\)// if $name eq 'an expression'; return $text };
	sql($there, q{CREATE TYPE late AS ENUM ('one', 'three', 'two')}), sql($here, q{CREATE TYPE late AS ENUM ('one', 'two', 'three')});
	sql($there, $sql->(@parts[ 0 .. 2 ])), sql($here, $sql->($same ? @parts : @parts[ 3 .. 5 ]));
	my $keys = $name eq 'an expression' ? ", key_columns => '{a}'" : '';
	sql($there, "CALL iblt_track('q'$keys); CREATE PUBLICATION q FOR TABLE q"), sql($here, "CALL iblt_track('q', peer => $peer)");
	my $rows = sub { return sql($here, "SELECT relation, status, missing, extra FROM iblt_audit($peer, publication => 'q', live => '$_[0]') ORDER BY 1") };
	my $scans = $rows->('off');
	unlike($scans, qr/^public.q[|]/m, "$name: partitions are compared");
	like($scans, qr/differs/, "$name: they differ") if !$same && !$parts[6];
	is($rows->('auto'), $same ? 'public.q|equal|0|0' : $scans, $same ? "$name: their digest is compared in their place" : "$name: also if there are digests of all of them");
	sql($there, 'DROP PUBLICATION q');
	sql($_, 'DROP TABLE q; DROP TYPE late') foreach $here, $there;
}

# what is not trustworthy any more is made so again, on either side
sql($there, 'ALTER TABLE a DISABLE TRIGGER iblt_track_row; INSERT INTO a VALUES (-1); ALTER TABLE a ENABLE ALWAYS TRIGGER iblt_track_row');
sql($here, q{ALTER TABLE "B ""b" DISABLE TRIGGER ALL; CALL iblt_untrack('p2')});
$there->wait_for_catchup('sub');
like(tracked($there), qr/a not trustworthy/, 'a digest there cannot be trusted');
is(track_all("subscription => 'sub'") =~ s/\n.*//sr, '4|1', 'is read again');
is(tracked($_), '"B ""b" live, a live, p1 live, p2 live', 'all are live') foreach $here, $there;

# --- a schema, and what goes wrong -------------------------------------------------------------------

both('CREATE SCHEMA s; CREATE TABLE s.fine (id int PRIMARY KEY, v int); CREATE TABLE s.here_only (id int PRIMARY KEY); CREATE TABLE s.typed (id int PRIMARY KEY, v int); CREATE TABLE s.mine (id int PRIMARY KEY);
	 INSERT INTO s.fine SELECT g, g FROM generate_series(1, 9) g');
sql($there, 'DROP TABLE s.here_only; ALTER TABLE s.typed ALTER v TYPE bigint; CREATE TABLE s.there_only (id int PRIMARY KEY)');
is(track_all("$peer, schema => 's', capacity => 500"), qq(2|3\ntable s.fine is tracked\ntable s.here_only is not tracked: on the peer: relation "s.here_only" does not exist\ntable s.mine is tracked\n)
	. qq(table s.there_only is not tracked: it does not exist here\ntable s.typed is not tracked: tracked columns do not have the same types on both sides), 'a schema: of each table what prevents it');
is(sql($_, "SELECT string_agg(relation::text, ' ' ORDER BY relation::text) FROM iblt_live_status() WHERE relation::text LIKE 's.%'"), 's.fine s.mine', 'nothing is left of those that failed') foreach $here, $there;
is(sql($_, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 's.typed'::regclass"), '0', 'nor triggers') foreach $here, $there;
sql($there, "CALL iblt_track('s.typed')");
like(track_all("$peer, tables => '{s.typed}'"), qr/^0\|1\ntable s.typed is not tracked: tracked columns do not have the same types/, 'the same where the peer tracks it already');
is(sql($there, "SELECT state FROM iblt_live_status() WHERE relation = 's.typed'::regclass; CALL iblt_untrack('s.typed')"), 'live', 'which goes on');
is(sql($_, "SELECT (iblt_info(iblt_live('s.fine'))).capacity >= 500"), 't', 'of the capacity that was given') foreach $here, $there;

# a peer that does not say all of how it tracks its table
{
	my $change = sub { sql($there, "DO \$do\$ BEGIN PERFORM set_config('search_path', 'iblt_internal, pg_catalog', true); EXECUTE replace(pg_get_functiondef('track_offer'::regproc), '$_[0]', '$_[1]'); END \$do\$") };
	my @words = ('IF options.template', 'options.key_columns := NULL; IF options.template');
	sql($here, "CALL iblt_untrack('s.fine')");
	$change->(@words);
	is(track_all("$peer, tables => '{s.fine}'"), "0|1\ntable s.fine is not tracked: the peer does not track its table", 'an offer without the key');
	$change->(reverse @words);
	is(track_all("$peer, tables => '{s.fine}'"), "1|0\ntable s.fine is tracked", 'and with it');
}
sql($_, "CALL iblt_untrack('s.fine'); CALL iblt_untrack('s.mine')") foreach $here, $there;
is(track_all("schema => 's'"), qq(4|0\ntable s.fine is tracked\ntable s.here_only is tracked\ntable s.mine is tracked\ntable s.typed is tracked), 'without a peer: only here');
is(sql($there, "SELECT count(*) FROM iblt_live_status() WHERE relation::text LIKE 's.%'"), '0', 'nothing there');
like(track_all("schema => '*'"), qr/^\d+\|\d+\ntable (?s:.*)^table s.fine is tracked$/m, 'all tables, if asked for by name');
like(track_all("$peer, tables => '{s.fine}'"), qr/^1\|0\ntable s.fine is tracked$/, 'a digest that does not fit the one there is made anew');
is(audit("$peer, tables => '{s.fine}', live => 'require'"), 's.fine equal from live digests', 'so that they fit');

like(failure("CALL iblt_track_all($peer)"), qr/22023: exactly one of tables, schema, publication and subscription/, 'nothing to track');
like(failure("CALL iblt_track_all(${\ conninfo($here)}, schema => 's')"), qr/22023: the peer is this database itself/, 'this database as its peer');
like(failure("CALL iblt_track_all('host=/nonexistent password=s3cret', schema => 's')"), qr/could not connect to the peer/, 'no peer');
like(failure("BEGIN; CALL iblt_track_all(schema => 's')"), qr/25001: iblt_track_all cannot run inside a transaction block/, 'in a transaction block');
{
	my $holder = IbltTest::Session->new($there);
	$holder->run('BEGIN; LOCK TABLE s.mine IN ROW EXCLUSIVE MODE');
	like(failure("SET statement_timeout = '1 s'; CALL iblt_track_all($peer, tables => '{s.fine,s.mine}')"), qr/57014/, 'a timeout while the peer waits for a lock ends the call');
	nothing_left('after a timeout');
	$holder->run('COMMIT');
	$holder->quit;
	is(sql($there, "SELECT string_agg(relation::text || ' ' || state, ' ') FROM iblt_live_status() WHERE relation::text LIKE 's.%'"), 's.fine live', 'and what was done before stays');
	is(track_all("$peer, tables => '{s.fine,s.mine}'"), "2|0\ntable s.fine is tracked already\ntable s.mine is tracked", 'the next call goes on');
}
nothing_left('at the end');

done_testing();
