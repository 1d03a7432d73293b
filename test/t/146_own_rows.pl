# Tables that others inherit from.  A publication has the own rows of a table, so an audit, a run
# and a repair of what a publication has compare and change these alone, in each way to read them.
use IbltTest;

my ($here, $there, $peer) = two_servers();

sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }
sub audit { my ($options, $target) = @_; return sql($here, 'SELECT relation, status, rows_here, rows_there, missing, extra, changed FROM ' . audit_stats("iblt_audit($peer, ${\ ($target // q{publication => 'own'})}$options)") . ' AS a ORDER BY 1') }
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
	'an audit' => sub { return audit('') },
	'a plain one' => sub { return audit(", method => 'plain'") },
	'one with digests' => sub { return audit(", live => 'auto'") },
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

is(audit(''), "public.flat|equal|20|20|0|0|0\npublic.par|equal|6000|6000|0|0|0\npublic.small|equal|20|20|0|0|0", 'equal');
# a row moves into a child, which the publication does not have; all rows together stay the same
sql($there, q{DELETE FROM ONLY par WHERE id = 1000; INSERT INTO kid SELECT 1000, md5('1000') || repeat('x', 200);
	DELETE FROM ONLY small WHERE id = 3; INSERT INTO small_kid VALUES (3, 'row')});
is(sql($here, "SELECT count(*) FROM iblt_compare('par', $peer)"), '0', 'a comparison of the table by its name has the rows of its children');
same_in("public.flat|equal|20|20|0|0|0\npublic.par|differs|6000|5999|0|1|0\npublic.small|differs|20|19|0|1|0", 'a row that moved into a child', sort keys %ways);

# --- repairs ---------------------------------------------------------------------------------

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
is(audit(''), "public.flat|equal|20|20|0|0|0\npublic.par|equal|6000|6000|0|0|0\npublic.small|equal|20|20|0|0|0", 'equal again');

foreach my $method ('sketch', 'plain')
{
	sql($there, q{DELETE FROM ONLY par WHERE id = 200; UPDATE ONLY par SET v = 'drift' WHERE id = 250; INSERT INTO par VALUES (-7, 'extra')});
	my ($rc, $out, $err) = $here->psql('postgres', "SELECT action, status, sql FROM iblt_repair('par', $peer, direction => 'push', apply => true, method => '$method') ORDER BY action");
	like($out, qr/^delete[|]applied[|]DELETE FROM ONLY public.par .*\ninsert[|]applied[|].*\nupdate[|]applied[|]UPDATE ONLY public.par/, "$method: a repair of a table that others inherit from on both sides");
	like($err, qr/NOTICE:  only the own rows of public.par are repaired, not those of tables that inherit from it/, "$method: says so");
	is(sql($there, $kids), $before, "$method: and changes no row of a child");
	is(sql($here, "SELECT count(*) FROM iblt_repair('par', $peer, direction => 'push', method => '$method')"), '0', "$method: nothing is left");
}

# --- children of one side ----------------------------------------------------------------------

sql($there, q{DROP TABLE small_kid; CREATE TABLE own_kid (PRIMARY KEY (id)) INHERITS (flat); INSERT INTO own_kid SELECT generate_series(15, 40)});
same_in("public.flat|equal|20|20|0|0|0\npublic.par|equal|6000|6000|0|0|0\npublic.small|equal|20|20|0|0|0", 'children that are not published, and rows of the other side\'s own ones', 'an audit', 'a plain one', 'a run');
like(failure("SELECT * FROM iblt_repair('flat', $peer, direction => 'push')"), qr/42809: public.flat cannot be repaired: it is a table that others inherit from/, 'if only the target is such a table, a repair does not know what is meant');
# a wrapper without a handler: no statement may read the foreign table
sql($here, 'CREATE SERVER nowhere FOREIGN DATA WRAPPER dblink_fdw; CREATE FOREIGN TABLE far () INHERITS (par) SERVER nowhere');
same_in("public.flat|equal|20|20|0|0|0\npublic.par|equal|6000|6000|0|0|0\npublic.small|equal|20|20|0|0|0", 'a foreign table inherits', 'an audit', 'a plain one');
sql($here, 'DROP FOREIGN TABLE far');
sql($here, 'DROP PUBLICATION own; CREATE PUBLICATION own FOR TABLE small');
is(audit(''), "public.small|equal|20|20|0|0|0\npublic.small_kid|not comparable|||||", 'children that are published are compared by themselves');

# without a unique key; and a partitioned table, whose rows are all in partitions
both(q{CREATE TABLE bare (v text); CREATE TABLE bare_kid () INHERITS (bare); INSERT INTO bare VALUES ('a'), ('a'), ('b'); INSERT INTO bare_kid VALUES ('a');
	CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY HASH (id); CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0); INSERT INTO parted SELECT generate_series(1, 9)});
sql($here, q{DROP PUBLICATION own; CREATE PUBLICATION own FOR TABLE ONLY bare, parted WITH (publish_via_partition_root)});
sql($there, q{INSERT INTO bare VALUES ('a'); DELETE FROM parted WHERE id = 3});
my $lines = "public.bare|differs|3|4|0|0|1\npublic.parted|differs|9|8|0|1|0";
is(audit(''), $lines, 'rows without a key, and a partitioned table');
is(audit(", method => 'plain'"), $lines, 'by plain queries');
$run = sql($here, "CALL iblt_audit_run($peer, publication => 'own', progress => false)");
is(sql($here, "SELECT target, action, status FROM iblt_repair(run => $run, peer => $peer, direction => 'push', apply => true) ORDER BY 1"), "public.bare|delete|applied\npublic.parted|insert|applied", 'a repair of these');
is(sql($there, 'SELECT (SELECT count(*) FROM ONLY bare), (SELECT count(*) FROM bare_kid)'), '3|1', 'deletes the right one of equal rows');

# --- a subscription ----------------------------------------------------------------------------

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

done_testing();
