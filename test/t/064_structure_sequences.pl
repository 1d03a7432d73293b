# Sequences: behind the other side's, behind the columns that they number, not readable,
# moved forward, and never back.  And what else an audit of the structure cannot see.
use IbltTest;

random_seed();
my $node = server('here', 'max_prepared_transactions = 2');
foreach my $database (qw(a b))
{
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, 'CREATE SCHEMA s');
}
$node->safe_psql('postgres', 'CREATE DATABASE conductor');
$node->safe_psql($_, 'CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE EXTENSION dblink') foreach qw(a conductor);
my ($peer, $near) = map { literal($node->connstr($_)) } qw(b a);
my $repairs = 0;

sub on { my ($database, $sql) = @_; return $node->safe_psql($database, $sql) }
sub both_run { my ($sql) = @_; on($_, $sql) foreach qw(a b); return }

# Rows of iblt_audit_structure for sequences, and of iblt_repair_sequences.  A database that has
# nothing of these sees the same, and every second repair is its.
sub audit
{
	my ($options, $user) = @_;
	my ($rc, $out, $err) = $node->psql('a', "SELECT concat_ws('|', kind, object, property, coalesce(here, ''), coalesce(there, ''), severity)
		FROM iblt_audit_structure($peer, schema => 's'" . ($options // '') . ')', extra_params => [ $user ? ('-U', $user) : () ]);
	is(on('conductor', "SELECT concat_ws('|', kind, object, property, coalesce(here, ''), coalesce(there, ''), severity)
		FROM iblt_audit_structure($peer, schema => 's', here_peer => $near" . ($options // '') . ')'), $out, 'conducted from elsewhere') if !$user;
	return $rc == 0 ? $out : $err;
}
sub repair
{
	my ($options, $user) = @_;
	my ($from, $here) = $user || ++$repairs % 2 ? ('a', '') : ('conductor', ", here_peer => $near");
	my ($rc, $out, $err) = $node->psql($from, "SELECT concat_ws('|', sequence, coalesce(here::text, ''), coalesce(there::text, ''), coalesce(reached::text, ''), coalesce(sql, ''), status, coalesce(detail, ''))
		FROM iblt_repair_sequences($peer, schema => 's'" . ($options // '') . "$here)", extra_params => [ $user ? ('-U', $user) : () ]);
	return $rc == 0 ? $out : $err;
}
sub state { my ($database, $name) = @_; return on($database, "SELECT last_value, is_called FROM $name") }
sub setval { my ($database, @arguments) = @_; on($database, "SELECT setval(" . join(', ', @arguments) . ')'); return }
sub drop { both_run('DROP SCHEMA s CASCADE; CREATE SCHEMA s'); return }

# --- behind the other side ------------------------------------------------------------------

both_run(q{CREATE SEQUENCE s.q; SELECT setval('s.q', 10)});
is(audit(), '', 'no difference');
is(repair(), '', 'and nothing to repair');
setval(b => "'s.q'", 15);
is(audit(), 'sequence|s.q|next value|11|16|danger', 'behind the other side');
is(repair(), q{s.q|11|16||SELECT pg_catalog.setval('s.q', 15);|preview|}, 'a preview');
is(state('a', 's.q'), '10|t', 'changes nothing');
is(repair(', apply => true'), q{s.q|11|16||SELECT pg_catalog.setval('s.q', 15);|applied|}, 'is moved');
is(state('a', 's.q'), '15|t', 'to the same place');
is(audit(), '', 'no difference any more');
setval(a => "'s.q'", 20);
is(audit(), 'sequence|s.q|next value|21|16|change', 'ahead of the other side');
is(repair(', apply => true'), '', 'is not moved back');
is(state('a', 's.q'), '20|t', 'really');
setval(a => "'s.q'", 16, 'false');
is(audit(), '', 'the next value counts, and not how it was set');

# The rows of every pair of states, against arithmetic.
foreach my $case ([ 1, 1, undef ], [ 5, 3, 0 ], [ -1, -1, undef ], [ -4, -9, 2 ], [ 3, 1, 1 ], [ -2, -3, 1 ], (map { [ 0 ] } 1 .. 20))
{
	my ($increment, $other) = @$case;
	$increment ||= (1 + int rand 7) * (rand() < 0.5 ? -1 : 1);
	$other //= (1 + int rand 7) * ($increment <=> 0);
	drop();
	on('a', "CREATE SEQUENCE s.q INCREMENT $increment MINVALUE -1000 MAXVALUE 1000 START 0");
	on('b', "CREATE SEQUENCE s.q INCREMENT $other MINVALUE -1000 MAXVALUE 1000 START 0");
	my ($mine, $theirs) = map { int(rand 200) - 100 } 1 .. 2;
	my ($called, $also) = map { rand() < 0.5 ? 1 : 0 } 1 .. 2;
	setval(a => "'s.q'", $mine, $called ? 'true' : 'false');
	setval(b => "'s.q'", $theirs, $also ? 'true' : 'false');
	my ($here, $there) = ($mine + $called * $increment, $theirs + $also * $other);
	my $text = "by $increment here at $here, by $other there at $there";
	my $target = $here;
	if ($increment > 0) { $target += $increment while $target < $there }
	else { $target += $increment while $target > $there }
	my $behind = $target != $here;
	my $severity = $behind ? 'danger' : 'change';
	is((grep { /next value/ } split /\n/, audit())[0] // '', $here == $there ? '' : "sequence|s.q|next value|$here|$there|$severity", "$text: the audit");
	my ($sequence, undef, undef, undef, undef, $status) = split /\|/, repair(', apply => true');
	is($status // '', $behind ? 'applied' : '', "$text: the repair");
	is(on('a', "SELECT nextval('s.q')"), $target, "$text: the next value");
}

# --- behind the column ------------------------------------------------------------------------

drop();
both_run('CREATE TABLE s.t (id serial PRIMARY KEY, "O""dd" int GENERATED BY DEFAULT AS IDENTITY)');
both_run('INSERT INTO s.t VALUES (7, 3)');
is(audit(), join("\n", 'sequence|s."t_O""dd_seq"|behind its column|s.t."O""dd" has 3|s.t."O""dd" has 3|danger', 'sequence|s.t_id_seq|behind its column|s.t.id has 7|s.t.id has 7|danger'),
	'behind their columns on both sides alike');
is(repair(', apply => true'), join("\n", q{s."t_O""dd_seq"|1|1|3|SELECT pg_catalog.setval('s."t_O""dd_seq"', 3);|applied|}, q{s.t_id_seq|1|1|7|SELECT pg_catalog.setval('s.t_id_seq', 7);|applied|}), 'both are moved');
is(on('a', 'INSERT INTO s.t DEFAULT VALUES RETURNING id, "O""dd"'), '8|4', 'past the values');
is(audit(), join("\n", map { 'sequence|s.' . $_ } '"t_O""dd_seq"|behind its column||s.t."O""dd" has 3|danger', 't_id_seq|behind its column||s.t.id has 7|danger',
	'"t_O""dd_seq"|next value|5|1|change', 't_id_seq|next value|9|1|change'), 'the peer is still behind');
on('b', q{SELECT setval('s.t_id_seq', 8), setval('s."t_O""dd_seq"', 4)});
is(audit(), '', 'until it is moved, too');
foreach my $next (7, 8)
{
	setval($_ => "'s.t_id_seq'", $next, 'false') foreach qw(a b);
	on('b', 'DELETE FROM s.t; INSERT INTO s.t VALUES (7, 1)');
	on('a', 'DELETE FROM s.t; INSERT INTO s.t VALUES (7, 1)');
	is(audit(), $next == 8 ? '' : 'sequence|s.t_id_seq|behind its column|s.t.id has 7|s.t.id has 7|danger', "7 is there, $next is next");
	is(repair(), $next == 8 ? '' : q{s.t_id_seq|7|7|7|SELECT pg_catalog.setval('s.t_id_seq', 7);|preview|}, 'the repair agrees');
}

drop();
both_run(q{CREATE SEQUENCE s.shared; CREATE TABLE s.one (id int DEFAULT nextval('s.shared')); CREATE TABLE s.two (id bigint DEFAULT nextval('s.shared'), code text DEFAULT 'x' || nextval('s.shared'));
	INSERT INTO s.one VALUES (5); INSERT INTO s.two VALUES (9, 'x7'), (NULL, NULL)});
like(audit(), qr/^sequence\|s\.shared\|behind its column\|s\.one\.id, s\.two\.id has 9\|/, 'a sequence that is the default of several columns');
is(repair(', apply => true'), q{s.shared|1|1|9|SELECT pg_catalog.setval('s.shared', 9);|applied|}, 'is moved past all of them');
drop();
both_run('CREATE SEQUENCE s.down INCREMENT -2 MINVALUE -100 MAXVALUE -1; CREATE TABLE s.t (id numeric); ALTER SEQUENCE s.down OWNED BY s.t.id; INSERT INTO s.t VALUES (-6), (5)');
like(audit(), qr/^sequence\|s\.down\|behind its column\|s\.t\.id has -6\|s\.t\.id has -6\|danger$/, 'a descending sequence has the least value to pass');
is(repair(', apply => true'), q{s.down|-1|-1|-6|SELECT pg_catalog.setval('s.down', -5);|applied|}, 'and keeps its steps');
is(on('a', q{SELECT nextval('s.down')}), -7, 'below the least');
both_run(q{INSERT INTO s.t VALUES (-400)});
like(repair(', apply => true'), qr/^s\.down\|-9\|-1\|-400\|\|skipped\|it ends at -100$/, 'what is beyond the end of a sequence is not reached');
both_run('ALTER SEQUENCE s.down CYCLE');
is(repair(', apply => true'), 's.down|-9|-1|-400||skipped|it cycles', 'nor is a sequence moved that cycles');
unlike(audit(), qr/behind/, 'of which nobody can tell what is behind');
on('b', 'ALTER SEQUENCE s.down NO CYCLE INCREMENT 3');
on('a', 'ALTER SEQUENCE s.down NO CYCLE');
like(repair(', apply => true'), qr/\|skipped\|it goes the other way on the peer$/, 'nor one that goes the other way');

# --- on one side only ---------------------------------------------------------------------------

drop();
on('b', 'CREATE SEQUENCE s.q');
is(audit(), 'sequence|s.q|exists||true|danger', 'a sequence of the peer');
is(repair(', apply => true'), 's.q||1|||skipped|it does not exist here', 'is not made');
on('b', 'DROP SEQUENCE s.q');
on('a', 'CREATE TABLE s.t (id serial); INSERT INTO s.t VALUES (4)');
is(audit(), join("\n", 'sequence|s.t_id_seq|behind its column|s.t.id has 4||danger', 'sequence|s.t_id_seq|exists|true||danger', 'table|s.t|exists|true||danger'), 'one that only this side has');
is(repair(', apply => true'), q{s.t_id_seq|1||4|SELECT pg_catalog.setval('s.t_id_seq', 4);|applied|}, 'is moved past its column');

# --- rights ---------------------------------------------------------------------------------------

drop();
$node->safe_psql('postgres', 'CREATE ROLE reader LOGIN SUPERUSER; CREATE ROLE weak LOGIN');
$node->safe_psql('a', 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC');
hba($node, 'local b weak scram-sha-256');
$node->safe_psql('postgres', q{ALTER ROLE weak PASSWORD 'w'});
my $strong = $peer;
my $weak = literal($node->connstr('b') . ' user=weak password=w');
both_run('CREATE TABLE s.t (id serial); INSERT INTO s.t VALUES (1); CREATE SEQUENCE s.q');
setval($_ => "'s.t_id_seq'", 1) foreach qw(a b);
setval(b => "'s.q'", 500);
my $no_sequence = 'unknown: no right to read the sequence';
my $no_column = 'unknown: no right to read all rows of a column that it numbers';
$peer = $weak;
is(audit('', 'weak'), join("\n", map { "sequence|$_|unknown" } sort "s.q|next value|$no_sequence|$no_sequence", "s.t_id_seq|behind its column|$no_column|$no_column", "s.t_id_seq|next value|$no_sequence|$no_sequence"),
	'a role without any right knows nothing');
is(repair('', 'weak'), join("\n", 's.q|||||unknown|no right to read the sequence', 's.t_id_seq|||||unknown|no right to read the sequence'), 'and repairs nothing');
both_run('GRANT USAGE ON SCHEMA s TO weak; GRANT USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA s TO weak');
like(audit('', 'weak'), qr/^sequence\|s\.q\|next value\|$no_sequence\|$no_sequence\|unknown$/m, 'USAGE of a sequence is not SELECT');
on('a', 'GRANT SELECT ON ALL SEQUENCES IN SCHEMA s TO weak; GRANT SELECT ON s.t TO weak');
like(audit('', 'weak'), qr/^sequence\|s\.q\|next value\|1\|$no_sequence\|unknown$/m, 'not readable on the peer');
is(repair('', 'weak'), join("\n", map { "$_|||||unknown|on the peer: no right to read the sequence" } 's.q', 's.t_id_seq'), 'the repair says where');
on('b', 'GRANT SELECT ON ALL SEQUENCES IN SCHEMA s TO weak');
is(audit('', 'weak'), join("\n", 'sequence|s.q|next value|1|501|danger', "sequence|s.t_id_seq|behind its column||$no_column|unknown"), 'the column of the peer is not readable');
on('b', 'GRANT SELECT (id) ON s.t TO weak');
is(audit('', 'weak'), 'sequence|s.q|next value|1|501|danger', 'with all rights');
is(repair('', 'weak'), q{s.q|1|501||SELECT pg_catalog.setval('s.q', 500);|preview|}, 'a preview needs no more');
like(repair(', apply => true', 'weak'), qr/must be owner of sequence q/, 'only the owner moves a sequence');
is(state('a', 's.q'), '1|f', 'nothing happened');
both_run('ALTER TABLE s.t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON s.t USING (id < 1)');
like(audit('', 'weak'), qr/^sequence\|s\.t_id_seq\|behind its column\|$no_column\|$no_column\|unknown$/m, 'rows that a policy hides may be any');
both_run('REVOKE USAGE ON SCHEMA s FROM weak');
like(audit('', 'weak'), qr/^sequence\|s\.q\|next value\|$no_sequence/m, 'without USAGE of the schema');
$peer = $strong;

# --- what cannot be read ------------------------------------------------------------------------

drop();
both_run('CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;
	CREATE TABLE s.t (id int) PARTITION BY RANGE (id); CREATE FOREIGN TABLE s.far PARTITION OF s.t FOR VALUES FROM (1) TO (10) SERVER nowhere; CREATE SEQUENCE s.q OWNED BY s.t.id');
like(audit(), qr/^sequence\|s\.q\|behind its column\|$no_column\|$no_column\|unknown$/, 'a partition that is elsewhere');

# --- concurrent sessions ------------------------------------------------------------------------

drop();
both_run('CREATE SEQUENCE s.q CACHE 10; CREATE SEQUENCE s.z');
setval(b => "'s.q'", 100);
my $other = IbltTest::Session->new($node, 'a');
is($other->run(q{SELECT nextval('s.q')}), 1, 'a session keeps ten values');
my $busy = IbltTest::Session->new($node, 'a');
$busy->run(q{BEGIN; SELECT nextval('s.q')});
like(repair(', apply => true'), qr/lock timeout/, 'a transaction that has called nextval: the repair gives up after a while') foreach 1, 2;
my $repair = IbltTest::Session->new($node, 'a');
$repair->run(q{SET lock_timeout = '1h'});
$repair->start("SELECT status, coalesce(detail, '') FROM iblt_repair_sequences($peer, schema => 's', apply => true)");
wait_for($node, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted");
$busy->run('COMMIT');
is($repair->done, 'applied|', 'or waits for it');
is($repair->run('SHOW lock_timeout'), '1h', 'and leaves the setting alone');
is($other->run(q{SELECT nextval('s.q')}), 101, 'the session forgot the values that it kept');
setval(b => "'s.q'", 200);
$busy->run(q{BEGIN; SELECT nextval('s.q')});
$repair->start("SELECT status, detail, here FROM iblt_repair_sequences($peer, schema => 's', apply => true)");
wait_for($node, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted");
$busy->run(q{SELECT setval('s.q', 300); COMMIT});
is($repair->done, 'skipped|another session has moved it|301', 'a sequence that was moved meanwhile is not moved back');
is(state('a', 's.q'), '300|t', 'really');
setval(b => "'s.q'", 400);
$repair->run("BEGIN; SELECT FROM iblt_repair_sequences($peer, schema => 's', apply => true); ROLLBACK");
is(state('a', 's.q'), '300|t', 'a rollback undoes it');
# If one cannot be moved, none is.
on('a', 'ALTER SEQUENCE s.q RESTART 301');
setval(b => "'s.z'", 50);
$busy->run(q{BEGIN; SELECT nextval('s.z')});
like(repair(', apply => true'), qr/lock timeout/, 'a sequence that cannot be moved') foreach 1, 2;
is(state('a', 's.q'), '301|f', 'the one before it is not moved, either');
$busy->run('COMMIT');
like(repair(', apply => true'), qr/^s\.q.*\|applied\|\ns\.z.*\|applied\|$/, 'both are moved');
# Another sequence gets the name while the repair waits for the lock.
foreach my $from ('a', 'conductor')
{
	both_run('DROP SCHEMA IF EXISTS old CASCADE');
	drop();
	both_run('CREATE SEQUENCE s.q');
	on('a', 'CREATE SCHEMA next; CREATE SEQUENCE next.q');
	setval(b => "'s.q'", 100);
	$busy->run(q{BEGIN; SELECT nextval('s.q')});
	my $run = background($node, "SET lock_timeout = '1h'; SELECT status, detail FROM iblt_repair_sequences($peer, schema => 's', apply => true" . ($from eq 'a' ? ')' : ", here_peer => $near)"), $from);
	wait_for($node, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted");
	on('a', 'ALTER SCHEMA s RENAME TO old; ALTER SCHEMA next RENAME TO s');
	$busy->run('COMMIT');
	finish($run);
	like($run->{err}, qr/ERROR: .*sequence s\.q was altered while it was compared/, "a sequence that another one has taken the name of, from $from");
	is(state('a', 's.q'), '1|f', 'the other one is left as it is');
}
$_->quit foreach $other, $busy, $repair;

# --- arguments, and schemas of another name ------------------------------------------------------

like(failure("SELECT * FROM iblt_audit_structure(NULL)", node => $node), qr/does not exist/, 'iblt is in database a alone');
sub fails { my ($sql) = @_; my (undef, undef, $err) = $node->psql('a', "\\set VERBOSITY verbose\nSELECT * FROM $sql"); return $err }
like(fails('iblt_audit_structure(NULL)'), qr/22004: peer must not be null/, 'no peer');
like(fails("iblt_audit_structure($peer, peer_schema => 's')"), qr/22023: peer_schema can only be given with schema/, 'peer_schema alone');
like(fails("iblt_audit_structure($peer, schema => 'none')"), qr/3F000: schema "none" exists neither here nor on the peer/, 'no such schema');
is(fails("iblt_audit_structure($peer, schema => 'none', peer_schema => 's')"), '', 'a schema of one side');
like(fails('iblt_audit_structure(' . literal($node->connstr('a')) . ')'), qr/22023: the peer is this database itself/, 'itself');
# the side that is moved needs no iblt
drop();
both_run('CREATE SEQUENCE s.q');
setval(a => "'s.q'", 40);
my $move = "SELECT status FROM iblt_repair_sequences($near, schema => 's', here_peer => $peer, apply => true)";
on('a', 'ALTER DATABASE b SET default_transaction_read_only = on');
like(($node->psql('conductor', $move))[2], qr/cannot execute ALTER SEQUENCE in a read-only transaction/, 'a server that is to be read only');
on('a', 'ALTER DATABASE b RESET default_transaction_read_only');
is(state('b', 's.q'), '1|f', 'is left as it is');
is(on('conductor', $move), 'applied', 'a sequence of a database without iblt');
is(state('b', 's.q'), '40|t', 'is moved');

like(fails("iblt_audit_structure($peer, here_peer => $peer)"), qr/22023: here and the peer are the same database/, 'the same database twice');
like(fails('iblt_audit_structure(' . literal($node->connstr('nowhere')) . ')'), qr/could not connect to the peer/, 'no such database');
like(fails("iblt_audit_structure($peer, here_peer => " . literal($node->connstr('nowhere')) . ')'), qr/could not connect to "here"/, 'no such database on this side');
foreach my $function (qw(iblt_audit_structure iblt_repair_sequences))
{
	my $hush = literal($node->connstr('nowhere') . ' password=hush');
	unlike(fails("$function($_)"), qr/hush|PL\/pgSQL function (?!public\.)/, "$function: no password in an error, and no private function")
		foreach $hush, "$peer, here_peer => $hush";
	is($node->safe_psql('a', "SELECT FROM iblt_internal.iblt_traffic_take(); SELECT FROM $function($peer); SELECT messages FROM iblt_internal.iblt_traffic_take()") =~ s/\n//gr, 2, 'one question and one answer');
}
unlike(slurp_file($node->logfile), qr/hush/, 'nor in the log');

drop();
my $objects = q{CREATE DOMAIN NAME.d AS int; CREATE TABLE NAME.t (id serial PRIMARY KEY, d NAME.d DEFAULT 5, note text DEFAULT 'see s.t', CHECK (note <> 's.x'));
	CREATE VIEW NAME.v AS SELECT t.id, u.note FROM NAME.t JOIN NAME.t AS u USING (id); CREATE INDEX i ON NAME.t ((note || 's.'));
	CREATE FUNCTION NAME.f(NAME.d) RETURNS NAME.d LANGUAGE sql AS 'SELECT 1'};
on('a', $objects =~ s/NAME/s/gr);
on('b', 'CREATE SCHEMA "Ol.d"; ' . $objects =~ s/NAME/"Ol.d"/gr);
my $audited = sub { $node->safe_psql('a', "SELECT concat_ws('|', kind, object, property, coalesce(here, ''), coalesce(there, ''), severity) FROM iblt_audit_structure($peer, schema => 's', peer_schema => 'Ol.d')") };
is($audited->(), '', 'a schema that has another name there');
on('b', q{ALTER TABLE "Ol.d".t ALTER note SET DEFAULT 'see "Ol.d".t'});
is($audited->(), q{column|s.t.note|default|'see s.t'::text|'see "Ol.d".t'::text|danger}, 'names in texts are not names');
on('b', q{ALTER TABLE "Ol.d".t ALTER note SET DEFAULT 'see s.t'; ALTER TABLE "Ol.d".t ALTER d DROP DEFAULT; INSERT INTO "Ol.d".t VALUES (3)});
is($audited->(), "column|s.t.d|default|5||danger\nsequence|s.t_id_seq|behind its column||s.t.id has 3|danger", 'a difference');
$node->safe_psql('b', q{SELECT setval('"Ol.d".t_id_seq', 3)});
is($node->safe_psql('a', "SELECT sql FROM iblt_repair_sequences($peer, schema => 's', peer_schema => 'Ol.d')"), q{SELECT pg_catalog.setval('s.t_id_seq', 3);}, 'sequences of that schema');

# nextval logs values ahead, and a standby shows what was logged
drop();
my $standby = standby($node, 'there', "shared_buffers = '16MB'");
on('a', 'CREATE SEQUENCE s.up; CREATE SEQUENCE s.down INCREMENT -3 MAXVALUE -1; CREATE SEQUENCE s.new; CREATE SEQUENCE s.set; CREATE SEQUENCE s.last MAXVALUE 20');
on('a', "SELECT nextval('s.up'), nextval('s.down'), nextval('s.last') FROM generate_series(1, 5); SELECT setval('s.set', 77)");
replayed($node, $standby);
my $follower = sub { return $node->safe_psql('a', "SELECT concat_ws('|', object, property, here, there, severity) FROM iblt_audit_structure($_[0], schema => 's')") };
my $to = sub { return literal($standby->connstr($_[0])) };
isnt($standby->safe_psql('a', 'SELECT last_value FROM s.up'), on('a', 'SELECT last_value FROM s.up'), 'a standby shows another value than its primary');
is($follower->($to->('a')), '', 'which is not a difference');
is($follower->($to->('a') . ", here_peer => $near"), '', 'between two servers that are elsewhere, either');
on('a', "SELECT nextval('s.up')");
is($follower->($to->('a')), '', 'nor is one value more');
on('a', "ALTER SEQUENCE s.up RESTART 7");
# of another database, what its standby shows may be more than was used
on('b', 'CREATE SEQUENCE s.up; CREATE SEQUENCE s.down INCREMENT -3 MAXVALUE -1; CREATE SEQUENCE s.new; CREATE SEQUENCE s.set; CREATE SEQUENCE s.last MAXVALUE 20');
on('b', "SELECT setval('s.set', 80); SELECT nextval('s.down'), nextval('s.last'), nextval('s.up') FROM generate_series(1, 7)");
on('b', "SELECT nextval('s.down') FROM generate_series(1, 40)");
replayed($node, $standby);
my $ahead = 'or up to 32 steps before, as a standby says|unknown';
my $shown = sub { return $standby->safe_psql('b', "SELECT last_value + (SELECT seqincrement FROM pg_sequence WHERE seqrelid = '$_[0]'::regclass) FROM $_[0]") };
my $told = $follower->($to->('b'));
like($told, qr/^s\.up\|next value\|7\|${\ $shown->('s.up')}, \Q$ahead\E$/m, 'another server may be ahead: not known');
like($told, qr/^s\.last\|next value\|6\|${\ $shown->('s.last')}, \Q$ahead\E$/m, 'up to its end');
like($told, qr/^s\.down\|next value\|-16\|${\ $shown->('s.down')}\|danger$/m, 'further than that: behind');
like($told, qr/^s\.set\|next value\|78\|81, \Q$ahead\E$/m, 'one that was set');
unlike($told, qr/s\.new/, 'one that was not used is as it is');
$standby->stop;

ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'iblt%'"), 'no connection is left');
done_testing();
