# Cases at the edge of iblt_repair, in which it could do damage; and the repair of what a
# run found, which must be what was reviewed and nothing else.
use IbltCompare qw(batch_size);
use IbltTest;

my ($here, $there, $peer) = two_servers();

# "action key status", a line each
sub repair
{
	my ($table, $options) = @_;
	my $out = $here->safe_psql('postgres', "SELECT concat_ws(' ', action, key, status) FROM iblt_repair('$table', $peer, $options)");
	return join "\n", sort split /\n/, $out;
}

sub rows { my ($node, $table) = @_; return $node->safe_psql('postgres', "SELECT string_agg(t::text, ' ' ORDER BY t) FROM $table AS t") }

# --- conditions -------------------------------------------------------------------------

# Row 3 has changed, and by its contents the condition leaves it out there.
foreach my $type ('int', 'text')
{
	both("CREATE TABLE slice_$type (id $type PRIMARY KEY, v int); INSERT INTO slice_$type SELECT g, 20 FROM generate_series(1, 6) g");
	my $table = "slice_$type";
	my $q = $type eq 'text' ? '"' : '';
	$there->safe_psql('postgres', "UPDATE $table SET v = 5 WHERE id = '3'; DELETE FROM $table WHERE id = '4'; UPDATE $table SET v = 30 WHERE id = '5'");
	$here->safe_psql('postgres', "UPDATE $table SET v = 5 WHERE id = '6'");
	my $changed = "delete {\"id\": ${q}3${q}} skipped\ninsert {\"id\": ${q}6${q}} skipped";
	is(repair($table, "direction => 'pull', condition => 'v > 10'"), join("\n", sort split(/\n/, $changed), "delete {\"id\": ${q}4${q}} preview", "update {\"id\": ${q}5${q}} preview"),
		"$type key: rows that the condition leaves out on one side are shown as skipped");
	is(repair($table, "direction => 'pull', condition => 'v > 10', apply => true"), join("\n", sort split(/\n/, $changed), "delete {\"id\": ${q}4${q}} applied", "update {\"id\": ${q}5${q}} applied"), 'and so they are');
	is(rows($here, $table), '(1,20) (2,20) (3,20) (5,30) (6,5)', 'a row that the source has was not deleted');
	is(repair($table, "direction => 'push', condition => 'v > 10', apply => true"), join("\n", sort "insert {\"id\": ${q}3${q}} skipped", "delete {\"id\": ${q}6${q}} skipped"), 'nor by a push');
	is(repair($table, "direction => 'pull', peer_condition => 'v > 10', apply => true"), join("\n", sort "delete {\"id\": ${q}3${q}} applied", "update {\"id\": ${q}6${q}} applied"),
		'where the source alone has a condition, its other rows are not wanted');
	is(rows($here, $table), $there->safe_psql('postgres', "SELECT string_agg(t::text, ' ' ORDER BY t) FROM $table AS t WHERE v > 10"), 'as with a row filter');
}

# A row that the target's condition leaves out once it is written is still missing, or changed.
{
	both("CREATE TABLE left_out (id int PRIMARY KEY, v int, region text DEFAULT 'none'); INSERT INTO left_out SELECT g, g, 'eu' FROM generate_series(1, 3) g");
	$here->safe_psql('postgres', 'DELETE FROM left_out WHERE id = 3');
	$there->safe_psql('postgres', 'UPDATE left_out SET v = 500 WHERE id = 1');
	my $before = rows($here, 'left_out');
	foreach my $options ([ q{exclude => '{region}', condition => $$region = 'eu'$$}, 'by a column that is not compared' ],
		[ q{condition => 'v < 100', peer_condition => 'true', inserts => false}, 'where only the target has it' ])
	{
		like(failure("SELECT * FROM iblt_repair('left_out', $peer, direction => 'pull', apply => true, $options->[0])"),
			qr/27000: after the repair, the rows of 1 keys are not as on the source/, "a row that a condition leaves out once it is written, $options->[1], is not said to be repaired");
		is(rows($here, 'left_out'), $before, 'and nothing was changed');
	}
}

# --- a search_path in which operators are not PostgreSQL's own -----------------------------

both(q{CREATE TABLE parts (a int, v text) PARTITION BY LIST (a); CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE parts_0 PARTITION OF parts DEFAULT;
	INSERT INTO parts VALUES (1, 'x'), (1, 'x'), (2, 'y'), (2, 'y'), (3, NULL)});
$there->safe_psql('postgres', q{DELETE FROM parts WHERE ctid = '(0,1)'});
$here->safe_psql('postgres', q{CREATE SCHEMA evil; CREATE FUNCTION evil.never(oid, oid) RETURNS boolean LANGUAGE sql AS 'SELECT false'; CREATE FUNCTION evil.never(tid, tid) RETURNS boolean LANGUAGE sql AS 'SELECT false';
	CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.never); CREATE OPERATOR evil.= (LEFTARG = tid, RIGHTARG = tid, FUNCTION = evil.never)});
my $sql = $here->safe_psql('postgres', "SELECT sql FROM iblt_repair('parts', $peer, direction => 'pull')");
is($here->safe_psql('postgres', "BEGIN; SET search_path = evil, pg_catalog; $sql SELECT count(*) FROM public.parts; ROLLBACK"), '3', 'a preview of a partitioned table without a key means the same there');

# --- what a run found ----------------------------------------------------------------------

foreign_server($here, 'node_b', $there);
both(q{CREATE SCHEMA run; CREATE TABLE run.parent (id int PRIMARY KEY, v text); CREATE TABLE run.child (id uuid PRIMARY KEY, parent int REFERENCES run.parent, v interval);
	CREATE TABLE run.bare (i interval, n int); CREATE TABLE run.words (w text PRIMARY KEY, v int)});
my %right = (parent => q{SELECT g, 'v' || g FROM generate_series(1, 200) g}, child => q{SELECT md5(g::text)::uuid, g, g * interval '1 day -2 hours' FROM generate_series(1, 200) g},
	bare => q{SELECT g * interval '1 day -2 hours', g FROM generate_series(1, 50) g}, words => q{SELECT 'w ' || g, g FROM generate_series(1, 200) g});
my @tables = qw(parent child bare words);

# Both sides are equal, but for the same differences each time.
sub drift
{
	both('TRUNCATE ' . join(', ', map { "run.$_" } @tables) . '; ' . join('; ', map { "INSERT INTO run.$_ $right{$_}" } @tables));
	$here->safe_psql('postgres', q{DELETE FROM run.child WHERE parent IN (5, 6); DELETE FROM run.parent WHERE id = 5; UPDATE run.child SET v = '1 h' WHERE parent = 8;
		UPDATE run.parent SET v = 'x' WHERE id BETWEEN 10 AND 14; INSERT INTO run.parent VALUES (1000, 'new'); INSERT INTO run.child VALUES (md5('1000')::uuid, 1000, '0');
		DELETE FROM run.bare WHERE n = 7; UPDATE run.bare SET i = i + '3 h' WHERE n = 9; INSERT INTO run.bare VALUES ('1 mon', 1), ('1 mon', 1);
		DELETE FROM run.words WHERE v = 3; UPDATE run.words SET v = -4 WHERE v = 4});
	return;
}

sub begin
{
	my ($options, $with) = @_;
	return $here->safe_psql('postgres', "CALL iblt_audit_run(${\ ($with // q('node_b'))}, progress => false, " . ($options // "schema => 'run', rows => true") . ')');
}

# "target action key status detail", a line each; SQL before and after it in one transaction
sub mend
{
	my ($run, $options, %how) = @_;
	my ($rc, $out, $err) = $here->psql('postgres', ($how{before} // '') . "SELECT concat_ws(' ', target, action, key, status, detail) FROM iblt_repair(run => $run, $options);" . ($how{after} // ''), extra_params => [ '-q' ]);
	die $err if $rc != 0;
	my $text = join "\n", sort split /\n/, $out;
	return wantarray ? ($text, $err) : $text;
}

sub kept { my ($run) = @_; return $here->safe_psql('postgres', "SELECT string_agg(concat_ws(' ', relation, status, missing, extra, changed, kept), '; ' ORDER BY table_number) FROM iblt_audit_table_stats WHERE run = $run") }
sub left { my ($run) = @_; return $here->safe_psql('postgres', "SELECT relation, key, side, here, there FROM iblt_audit_differences WHERE run = $run ORDER BY 1, 2::text") }
sub all_rows { my ($node) = @_; return join ' | ', map { rows($node, "run.$_") } @tables }

my $found = 'run.bare differs 2 2 0 4; run.child differs 2 1 1 4; run.parent differs 1 1 5 7; run.words differs 1 0 1 2';
foreach my $direction ('pull', 'push')
{
	drift();
	batch_size($direction eq 'pull' ? 10000 : 2);	# of up to seven differences of a table
	my ($target, $source) = $direction eq 'pull' ? ($here, $there) : ($there, $here);
	my $run = begin();
	is(kept($run), $found, 'a run');
	my ($before, $differences) = (all_rows($target), left($run));
	my $preview = mend($run, "direction => '$direction'");
	is(scalar(() = $preview =~ / preview$/mg), 17, "$direction: a preview has a step for each difference");
	is(all_rows($target) . kept($run) . left($run), $before . $found . $differences, 'and changes nothing, not even the run');
	# what happens before the repair: one row is equal by now, one differs otherwise, others begin to differ
	my $skipped = q(run.parent update {"id": 10} skipped equal by now
run.parent update {"id": 11} skipped differs in another way than the run found
run.words W {"w": "w 4"} skipped differs in another way than the run found);
	$skipped =~ s/W/$direction eq 'pull' ? 'insert' : 'delete'/e;
	$here->safe_psql('postgres', q{UPDATE run.parent SET v = 'v10' WHERE id = 10; UPDATE run.parent SET v = 'y' WHERE id = 11; DELETE FROM run.words WHERE w = 'w 4';
		UPDATE run.parent SET v = 'later' WHERE id = 150; INSERT INTO run.bare VALUES ('later', 0) ON CONFLICT DO NOTHING} =~ s/'later', 0/'9 y', 0/r);
	my ($mine, $theirs) = (all_rows($here), all_rows($there));
	is(join("\n", grep { /skipped/ } split /\n/, mend($run, "direction => '$direction'")), $skipped, "$direction: a preview shows what is not as it was reviewed");
	my @others = grep { !/"id": 1[01]\}|"w 4"/ } split /\n/, $preview =~ s/preview/applied/gr;
	is(mend($run, "direction => '$direction', apply => true", before => 'BEGIN;', after => 'ROLLBACK'), join("\n", sort @others, split /\n/, $skipped), "$direction: it applies the others");
	is(all_rows($direction eq 'pull' ? $here : $there) eq ($direction eq 'pull' ? $mine : $theirs) ? 't' : 'f', $direction eq 'pull' ? 't' : 'f', 'a rollback takes a pull back, and not a push');
	is(kept($run) . left($run), $found . $differences, 'the run is as it was');
	my $second = mend($run, "direction => '$direction', apply => true");
	is(scalar(() = $second =~ / equal by now$/mg), $direction eq 'pull' ? 1 : 15, 'a second call finds what there is');
	# the push has deleted rows that the second call does not find on any side
	my $equal = $direction eq 'pull' ? 'equal' : 'not comparable';
	is(kept($run), "run.bare $equal 0 0 0 0; run.child $equal 0 0 0 0; run.parent differs 0 0 1 1; run.words differs 0 0 1 1", 'what is repaired goes from the run');
	is(left($run), join("\n", grep { /"id": 11\}|w 4/ } split /\n/, $differences), 'the rest is as it was found');
	like($here->safe_psql('postgres', "SELECT detail FROM iblt_audit_tables WHERE run = $run AND relation = 'run.bare'"), $direction eq 'pull' ? qr/4 differences are equal since iblt_repair/ : qr/^rows that differed are gone \(2 keys\), .*; 4 differences are equal since iblt_repair/, 'and the detail says so');
	is($here->safe_psql('postgres', q{SELECT relation, key FROM unnest('{run.parent,run.child,run.bare,run.words}'::text[]) AS relation, iblt_compare(relation::regclass, 'node_b') ORDER BY 1, 2::text}),
		"run.bare|{\"i\": \"9 years\", \"n\": 0}\nrun.parent|{\"id\": 11}\nrun.parent|{\"id\": 150}\nrun.words|{\"w\": \"w 4\"}", 'what was found later, or differs otherwise, was not touched');
	$here->safe_psql('postgres', "SELECT * FROM iblt_audit_recheck($run)");
	is(mend($run, "direction => '$direction', apply => true"), $direction eq 'pull' ? "run.parent update {\"id\": 11} applied\nrun.words insert {\"w\": \"w 4\"} applied" : "run.parent update {\"id\": 11} applied\nrun.words delete {\"w\": \"w 4\"} applied",
		'iblt_audit_recheck takes them up as they are now, to be reviewed and repaired');
	is(kept($run), "run.bare $equal 0 0 0 0; run.child $equal 0 0 0 0; run.parent $equal 0 0 0 0; run.words $equal 0 0 0 0", 'until nothing is left');
	is($here->safe_psql('postgres', "SELECT * FROM iblt_audit_ranges WHERE run = $run"), '', 'in no range');
	is(mend($run, "direction => '$direction', apply => true"), '', 'and there is nothing to do');
}

# Differences of several seeds are repaired together, and without contents it is the side that counts.
batch_size(10000);
{
	drift();
	my $run = begin("tables => '{run.parent}'");
	$here->safe_psql('postgres', "DO \$\$ DECLARE d iblt_internal.run_difference; BEGIN
		FOR d IN SELECT * FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_difference, $run) WHERE number IN (1, 7) LOOP d.seed := d.number; PERFORM iblt_internal.iblt_run_put(d); END LOOP; END \$\$");
	$there->safe_psql('postgres', q{UPDATE run.parent SET v = 'z' WHERE id = 12; UPDATE run.parent SET v = 'x' WHERE id = 13; UPDATE run.child SET parent = 15 WHERE parent = 14; DELETE FROM run.parent WHERE id = 14});
	$here->safe_psql('postgres', 'UPDATE run.child SET parent = 15 WHERE parent = 14; DELETE FROM run.child WHERE parent = 1000');
	is(mend($run, "direction => 'pull', apply => true"), q(run.parent delete {"id": 1000} applied
run.parent delete {"id": 14} skipped differs in another way than the run found
run.parent insert {"id": 5} applied
run.parent update {"id": 10} applied
run.parent update {"id": 11} applied
run.parent update {"id": 12} applied
run.parent update {"id": 13} skipped equal by now), 'a run without the contents of rows');
	is(left($run), 'run.parent|{"id": 14}|both||', 'and of three seeds');
}

# One transaction for all tables, and for the run.
foreach my $direction ('pull', 'push')
{
	drift();
	my $run = begin();
	my $node = $direction eq 'pull' ? $here : $there;
	$node->safe_psql('postgres', q{CREATE FUNCTION run.no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not today''; END'; CREATE TRIGGER no BEFORE UPDATE OR DELETE OR INSERT ON run.words FOR EACH ROW EXECUTE FUNCTION run.no()});
	my ($rows, $differences) = (all_rows($node), left($run));
	like(failure("SELECT * FROM iblt_repair(run => $run, direction => '$direction', apply => true)"), qr/not today/, "$direction: an error in one table");
	is(all_rows($node) . left($run), $rows . $differences, 'nothing was changed in any, nor in the run');
	is(lines(mend($run, "relation => 'run.parent', direction => '$direction', updates => false, deletes => false, apply => true")), 7, 'relation chooses one table');
	is(kept($run), $direction eq 'pull' ? $found =~ s/run.parent differs 1 1 5 7/run.parent differs 0 1 5 6/r : $found =~ s/run.parent differs 1 1 5 7/run.parent differs 1 0 5 6/r, 'and what is left out stays in the run');
	$node->safe_psql('postgres', 'DROP FUNCTION run.no() CASCADE');
}

# A source that changes again.  IbltRepairs.pm has rows that change while a repair waits for them.
{
	drift();
	# the source writes a row again as soon as the target has it
	$there->safe_psql('postgres', "UPDATE run.parent SET v = 'v10' WHERE id = 10");
	$here->safe_psql('postgres', "UPDATE run.parent SET v = 'x' WHERE id IN (10, 12)");
	my $run = begin("tables => '{run.parent}'");
	$here->safe_psql('postgres', qq{CREATE FUNCTION run.again() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM public.dblink_exec(''node_b'', ''UPDATE run.parent SET v = v || v WHERE id = 12''); RETURN NEW; END'; CREATE TRIGGER again BEFORE UPDATE ON run.parent FOR EACH ROW WHEN (NEW.id = 12) EXECUTE FUNCTION run.again()});
	like(mend($run, "direction => 'pull', apply => true, deletes => false"), qr/^run.parent update \{"id": 12\} applied$/m, 'a source that changes again at once');
	is($here->safe_psql('postgres', "SELECT string_agg(key ->> 'id', ' ' ORDER BY key) FROM iblt_audit_differences WHERE run = $run"), '12 1000', 'is still a difference of the run');
	$here->safe_psql('postgres', 'DROP FUNCTION run.again() CASCADE');
}

# What is not confirmed, and what a run does not have.
{
	drift();
	my $run = begin("tables => '{run.parent,run.child}', max_differences => 2");
	my ($out, $err) = mend($run, "direction => 'pull', recheck => 1, timeout => '0', apply => true");
	is(scalar(() = $out =~ / skipped not confirmed: there was no time to look again/mg), 4, 'what is not confirmed is skipped');
	like($err, qr/WARNING:  run $run does not have all differences of 2 tables
DETAIL:  run.parent: 2 differences were kept, and the others counted.*
run.child: 2 differences were kept.*
HINT:  Begin another run after the repair/, 'a warning of differences that were not kept');
	($out, $err) = mend($run, "direction => 'pull', inserts => false, apply => true");
	is(kept($run), 'run.parent differs 1 1 4 1; run.child differs 2 0 1 1', 'what is kept is repaired, and the others are still counted') or diag($out);
	like($err, qr/does not have all differences of 2 tables/, 'with the warning');
	unlike((mend($run, "relation => 'run.child', direction => 'pull'"))[1], qr/run\.parent/, 'of the table that is asked for');
	$run = begin("schema => 'run', max_time => '0'");
	($out, $err) = mend($run, "direction => 'pull', apply => true");
	is($out, '', 'a run that has not begun');
	like($err, qr/WARNING:  run $run does not have all differences of 4 tables
DETAIL:  run.bare: not compared to its end/, 'says so');
}

# What it refuses.
{
	my $run = begin("tables => '{run.parent,run.words}'");
	my $writer = holding($here, "BEGIN; SELECT iblt_internal.iblt_run_lock($run, 0, 0, true)");
	like(failure("SET lock_timeout = '50 ms'; SELECT * FROM iblt_repair(run => $run, direction => 'pull', apply => true)"), qr/55P03: canceling statement due to lock timeout/, 'a repair waits for those who write the run');
	is(failure("SET lock_timeout = '50 ms'; SELECT * FROM iblt_repair(run => $run, direction => 'pull')"), '', 'and a preview does not');
	$writer->quit;
	my $refused = sub { my ($arguments, @more) = @_; return failure("SELECT * FROM iblt_repair($arguments)", @more) };
	like($refused->("run => $run"), qr/22023: direction must be pull or push/, 'a repair without a direction');
	like($refused->("run => 987654, direction => 'pull'"), qr/42704: there is no run 987654 of this role/, 'no such run');
	like($refused->("'run.child', run => $run, direction => 'pull'"), qr/22023: run $run has no table run\.child/, 'another table');
	like($refused->("run => $run, direction => 'pull', condition => 'id = 1', exclude => '{v}', max_differences => 5, seed => 7, peer_columns => '{\"id\": \"v\"}'"), qr/22023: arguments that do not go with run: exclude, condition, peer_columns, max_differences, seed/, 'arguments of a comparison');
	$here->safe_psql('postgres', 'CREATE ROLE ann LOGIN SUPERUSER');
	like($refused->("run => $run, direction => 'pull'", user => 'ann'), qr/42704: there is no run $run of this role/, 'a run of another role');
	my $by_string = begin("tables => '{run.parent}'", $peer);
	like($refused->("run => $by_string, direction => 'pull'"), qr/22004: the connection string of the peer of run $by_string was not kept/, 'a connection string is not kept');
	like($refused->("run => $by_string, peer => ${\ literal($here->connstr('postgres'))}, direction => 'pull'"), qr/22023: the peer is this database itself/, 'another peer, this database');
	like(mend($by_string, "peer => $peer, direction => 'pull', apply => true", before => 'BEGIN;', after => 'ROLLBACK'), qr/^run.parent insert \{"id": 5\} applied$/m, 'the same peer');
	both('VACUUM FULL run.parent');
	like(mend($run, "direction => 'pull'"), qr/^run.parent insert \{"id": 5\} preview$/m, 'a table that was rewritten is the same');
	my $loose = begin("tables => '{run.parent}', extra_columns => 'ignore'");
	$there->safe_psql('postgres', 'ALTER TABLE run.parent ADD w int');
	like($refused->("run => $loose, direction => 'pull'"), qr/IB004: run\.parent was altered since run $loose compared it/, 'one with another column on the peer is not');
	like(failure("SELECT * FROM iblt_audit_recheck($loose)"), qr/IB004: run\.parent was altered since run $loose compared it/, 'nor can it be rechecked: the run has not compared that column');
	$there->safe_psql('postgres', 'ALTER TABLE run.parent DROP w');
	both('ALTER TABLE run.parent ADD w int');
	like($refused->("run => $run, direction => 'pull'"), qr/IB004: run\.parent was altered since run $run compared it/, 'one with other columns is not');
	both('ALTER TABLE run.parent DROP w');
	foreach my $node ($here, $there)
	{
		# what the run reads is as it was
		$node->safe_psql('postgres', 'ALTER TABLE run.parent ADD w int');
		like($refused->("run => $loose, direction => 'pull'"), qr/IB004: run\.parent was altered since run $loose compared it/, 'nor with a column on one side: ' . $node->name);
		$node->safe_psql('postgres', 'ALTER TABLE run.parent DROP w');
	}
	like($refused->("run => $run, direction => 'pull', apply => true, cascade => false") // '', qr/^$/, 'as before, it is');
	# as if a damaged index had ended it
	$here->safe_psql('postgres', "SET search_path = iblt_internal, public; SELECT iblt_run_put(jsonb_populate_record(t, '{\"shape\": null, \"status\": null}')) FROM iblt_run_rows(NULL::run_table, $loose) AS t");
	my ($shown, $warned) = mend($loose, "direction => 'pull'");
	is($shown, '', 'a table that is to begin again is passed over');
	like($warned, qr/run $loose does not have all differences of 1 tables\nDETAIL:  run\.parent: not compared to its end/, 'with a warning');
	is($here->safe_psql('postgres', "SELECT * FROM iblt_audit_recheck($loose)"), 'run.parent|6|6|', 'and a recheck leaves it as it is');
}
done_testing();
