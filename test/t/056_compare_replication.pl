# iblt_compare under replication and a load: rows on their way are never
# confirmed as differences, in whatever topology, and what truly differs is found.
use IbltCompare;

random_seed();

my ($here, $there) = two_servers();
my $version = $here->safe_psql('postgres', 'SHOW server_version_num');

# iblt_compare's differences as {key and side}{confirmed}, the sides being those
# of $here and $there whichever it runs on; and how many rows it saw on their way.
sub differences
{
	my ($session, $relation, $peer, %how) = @_;
	my $options = $how{options} ? ", $how{options}" : '';
	$session->start("SELECT key, side, coalesce(confirmed::text, 'untested') FROM iblt_compare('$relation', ${\ literal($peer)}$options)");
	$how{meanwhile}->() if $how{meanwhile};
	my %found;
	foreach my $line (split /\n/, $session->done)
	{
		my ($key, $side, $confirmed) = split /\|/, $line;
		$side = $side eq 'here' ? 'there' : 'here' if $how{turned} && $side ne 'both';
		$found{"$key $side"} = $confirmed;
	}
	my $errors = $session->{err};
	fail("no error: $errors") if $errors =~ /ERROR|FATAL/;
	my $settled = $session->run('SELECT settled FROM iblt_compare_stats()');
	return (\%found, $settled, $errors);
}

sub sorted { return join("\n", sort @_) }

# What was injected is found and confirmed, nothing else is confirmed.
sub as_injected
{
	my ($found, $injected, $text) = @_;
	my $ok = is(sorted(grep { $found->{$_} eq 'true' } keys %$found), sorted(keys %$injected), "$text: what is confirmed is what was injected");
	diag('unconfirmed: ', join ' ', grep { $found->{$_} ne 'true' } keys %$found) unless $ok;
	return $ok;
}

# --- rounds of random drift under a load --------------------------------------------------

# IBLT_TEST_LONG: 20 of them

# Rows from 20001 to 30000 have no load; the subscriber's drift there stays.  The
# load's own rows are changed, made and deleted, in transactions of some length.
both('CREATE TABLE by_int (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, v text);
	CREATE TABLE by_text (id text PRIMARY KEY, n int NOT NULL DEFAULT 0, v text)');
$here->safe_psql('postgres', q{INSERT INTO by_int SELECT g, 0, md5(g::text) FROM generate_series(1, 30000) g;
	INSERT INTO by_text SELECT 'key ' || g, 0, md5(g::text) FROM generate_series(1, 30000) g;
	CREATE PUBLICATION pub FOR TABLE by_int, by_text});
$there->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION ${\ conninfo($here)} PUBLICATION pub");
subscribed($there, 2);
my $load = start_load($here, <<'SQL', '-c', '2', '-R', '150');
\set id random(1, 20000)
\set new random(100000, 100000000)
BEGIN;
UPDATE by_int SET n = n + 1 WHERE id BETWEEN :id AND :id + 3 AND id <= 20000;
UPDATE by_text SET n = n + 1 WHERE id = 'key ' || :id;
INSERT INTO by_int VALUES (:new, 0, 'new') ON CONFLICT DO NOTHING;
INSERT INTO by_text VALUES ('key ' || :new, 0, 'new') ON CONFLICT DO NOTHING;
DELETE FROM by_int WHERE id = (SELECT id FROM by_int WHERE id > 100000 ORDER BY id LIMIT 1);
COMMIT;
SQL
wait_for($here, 'SELECT count(*) > 20 FROM by_int WHERE n > 0');

# The key of a table's row as SQL and as iblt_compare shows it.
my %key = (by_int => [ sub { $_[0] }, sub { qq({"id": $_[0]}) } ], by_text => [ sub { "'key $_[0]'" }, sub { qq({"id": "key $_[0]"}) } ]);
# What differs: {table}{id} is the kind of drift.
my %drift = (by_int => {}, by_text => {});

# One random change on the subscriber of one row, which may end its drift.
sub inject
{
	my ($table) = @_;
	my $fresh = rand() < 0.3;
	my $id = $fresh ? 30001 + int(rand(20000)) : 20001 + int(rand(10000));
	my ($known) = rand() < 0.2 ? keys %{ $drift{$table} } : ();
	$id = $known if defined $known;
	my $sql = $key{$table}[0]->($id);
	my $is = $drift{$table}{$id} // '';
	if ($is eq 'there') { delete $drift{$table}{$id}; return "DELETE FROM $table WHERE id = $sql" }
	if ($is eq 'here')
	{
		delete $drift{$table}{$id};
		return "INSERT INTO $table VALUES ($sql, 0, md5('$id'))";
	}
	if ($is eq 'both') { delete $drift{$table}{$id}; return "UPDATE $table SET v = md5('$id') WHERE id = $sql" }
	if ($id > 30000) { $drift{$table}{$id} = 'there'; return "INSERT INTO $table VALUES ($sql, 0, 'drift')" }
	if (rand() < 0.5) { $drift{$table}{$id} = 'here'; return "DELETE FROM $table WHERE id = $sql" }
	$drift{$table}{$id} = 'both';
	return "UPDATE $table SET v = 'drift' WHERE id = $sql";
}

sub injected { my ($table) = @_; return { map { $key{$table}[1]->($_) . " $drift{$table}{$_}" => 1 } keys %{ $drift{$table} } } }

my ($from_here, $from_there, $holder) = map { IbltTest::Session->new($_) } ($here, $there, $there);
foreach my $round (1 .. ($ENV{IBLT_TEST_LONG} ? 20 : 7))
{
	foreach my $table (qw(by_int by_text))
	{
		$there->safe_psql('postgres', join('; ', map { inject($table) } 1 .. 1 + int(rand(25))));
	}
	my $turned = $round % 2 == 0;
	foreach my $table (qw(by_int by_text))
	{
		my $session = $turned ? $from_there : $from_here;
		my %how = (turned => $turned, options => 'progress => true');
		# In some rounds the subscriber cannot apply until the rows were compared
		# once: then rows are certainly on their way.
		my $held = $round % 4 >= 2;
		if ($held)
		{
			$holder->run("BEGIN; LOCK TABLE $table IN SHARE MODE");
			$here->safe_psql('postgres', "UPDATE $table SET n = n + 1 WHERE id IN (" . join(', ', map { $key{$table}[0]->($_) } 1 .. 50) . ')');
			$how{meanwhile} = sub { $session->seen(qr/waiting for replication/); $holder->run('COMMIT') };
		}
		my $other = $turned ? $here : $there;
		my ($found, $settled) = differences($session, $table, $other->connstr('postgres'), %how);
		as_injected($found, injected($table), "round $round, $table from " . ($turned ? 'the subscriber' : 'the publisher'));
		cmp_ok($settled, '>=', 50, "round $round, $table: rows on their way were seen ($settled)") if $held;
	}
}
stop_load($load, 'rounds of drift');
$here->wait_for_catchup('sub');
foreach my $table (qw(by_int by_text))
{
	my $truth = truth($table, 't.id');
	cmp_ok(lines($truth), '>', 20, "$table: there is drift");
	is(compare("'$table'"), $truth, "$table: after the load, exactly the differences of a full comparison");
	my ($found) = differences($from_there, $table, $here->connstr('postgres'), turned => 1);
	is(sorted(keys %$found), join("\n", map { s/ \d+ \d+$//r } split /\n/, $truth), "$table: from the subscriber, too");
	as_injected($found, injected($table), "$table, after the load");
}
nothing_left('at the end', $here, $there);

# --- standbys of the subscriber and of the publisher ----------------------------------------

my @follows = ('hot_standby_feedback = on', 'max_standby_streaming_delay = -1');
my $there_standby = standby($there, 'there_standby', @follows);
my $here_standby = standby($here, 'here_standby', @follows);

$here->wait_for_catchup('sub');
replayed(@$_) foreach [ $there, $there_standby ], [ $here, $here_standby ];

# Nothing is on its way: exactly the drift differs; but no standby's replication
# from a subscriber's or to a publisher's is known, so that nothing is confirmed.
# 062_audit_subscription.pl and 080_cron.pl have a standby of one of the two.
foreach my $pair ([ $there_standby, $here_standby, 1, '' ], [ $here_standby, $there_standby, 0, "recheck => 2, timeout => '5 s'" ])
{
	my ($node, $peer, $turned, $options) = @$pair;
	my $text = $node->name . ' with ' . $peer->name . ($options ? ", $options" : '');
	my $session = IbltTest::Session->new($node);
	my ($found, undef, $errors) = differences($session, 'by_int', $peer->connstr('postgres'), turned => $turned, options => $options);
	is(sorted(keys %$found), sorted(keys %{ injected('by_int') }), "$text: what differs is found");
	is(join(' ', grep { $_ eq 'true' } values %$found), '', "$text: nothing is confirmed");
	like($errors, qr/WARNING: .*replication of this relation is not ready/, "$text: and it says so");
	$session->quit;
}

# A standby that goes away while it is waited for.
{
	my $session = IbltTest::Session->new($here);
	$here_standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$here->safe_psql('postgres', 'UPDATE by_int SET n = n + 1 WHERE id <= 5');
	$session->start("SELECT count(*) FROM iblt_compare('by_int', ${\ conninfo($here_standby)})");
	$here_standby->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'iblt_compare public.by_int'
		AND query LIKE '%wal_replayed(%'") or die 'it does not wait';
	$here_standby->stop('immediate');
	is($session->done, '', 'a standby that stops while it is waited for: no rows');
	like($session->{err}, qr/ERROR: .*peer/, 'but an error');
	is($session->run("SELECT count(*) > 0 FROM iblt_compare('by_int', ${\ conninfo($there)})"), 't', 'the session is usable');
	$session->quit;
}
$there_standby->stop;

# --- both directions ----------------------------------------------------------------------

# Each side sends what the other does not: the rows of its site by a row filter, or
# by origin = none what did not come to it by replication.
sub both_directions
{
	my ($by) = @_;
	my $where = $by eq 'row filters';
	both('CREATE TABLE mutual (site int, id int, n int NOT NULL DEFAULT 0, v text, PRIMARY KEY (site, id));
		INSERT INTO mutual SELECT site, g, 0, md5(g::text) FROM generate_series(1, 2) site, generate_series(1, 6000) g');
	my $number = 0;
	foreach my $pair ([ $here, $there ], [ $there, $here ])
	{
		my ($publisher, $subscriber) = @$pair;
		$number++;
		$publisher->safe_psql('postgres', "CREATE PUBLICATION mutual_$number FOR TABLE mutual" . ($where ? " WHERE (site = $number)" : ''));
		$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION mutual_$number CONNECTION ${\ conninfo($publisher)}
			PUBLICATION mutual_$number WITH (copy_data = false" . ($where ? ')' : ', origin = none)'));
	}
	wait_for($_, "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel") foreach ($here, $there);
	# each site changes its own rows, but for the last 1000
	my @load;
	foreach my $side ([ $here, 1 ], [ $there, 2 ])
	{
		my ($node, $site) = @$side;
		push @load, start_load($node, <<"SQL", '-c', '1', '-R', '100');
\\set id random(1, 5000)
\\set new random(10000, 100000000)
BEGIN;
UPDATE mutual SET n = n + 1 WHERE site = $site AND id = :id;
INSERT INTO mutual VALUES ($site, :new) ON CONFLICT DO NOTHING;
DELETE FROM mutual WHERE site = $site AND id = (SELECT id FROM mutual WHERE site = $site AND id >= 10000 ORDER BY id LIMIT 1);
COMMIT;
SQL
	}
	foreach my $node ($here, $there)
	{
		wait_for($node, 'SELECT count(DISTINCT site) = 2 FROM mutual WHERE n > 0');
	}
	# drift on the rows of the other site, which are not sent; where the site does not
	# matter, as if it had come by replication
	my ($hold_here, $hold_there, $drift_here, $drift_there) = map { IbltTest::Session->new($_) } ($here, $there, $here, $there);
	foreach my $session ($where ? () : ($drift_here, $drift_there))
	{
		$session->run("SELECT pg_replication_origin_create('drift'); SELECT pg_replication_origin_session_setup('drift')");
	}
	my %injected;
	foreach my $round (1 .. 3)
	{
		foreach my $side ([ $drift_here, 2, 'here', 'there' ], [ $drift_there, 1, 'there', 'here' ])
		{
			my ($session, $site, $mine, $other) = @$side;
			my ($gone, $changed, $new) = (5000 + 3 * $round + int(rand(3)), 5100 + 3 * $round + int(rand(3)), 6000 + 3 * $round + int(rand(3)));
			$session->run("DELETE FROM mutual WHERE site = $site AND id = $gone;
				UPDATE mutual SET v = 'drift' WHERE site = $site AND id = $changed; INSERT INTO mutual VALUES ($site, $new, 0, 'drift')");
			is($session->{err}, '', "both directions by $by, round $round: drift was made");
			@injected{ qq({"id": $gone, "site": $site} $other), qq({"id": $changed, "site": $site} both), qq({"id": $new, "site": $site} $mine) } = (1, 1, 1);
		}
		foreach my $direction ([ $from_here, $there, 0 ], [ $from_there, $here, 1 ])
		{
			my ($session, $other, $turned) = @$direction;
			my %how = (turned => $turned, options => 'progress => true');
			# In some rounds neither side can apply until the rows were compared once.
			my $held = $round % 2;
			if ($held)
			{
				$hold_here->run('BEGIN; SELECT FROM mutual WHERE site = 2 AND id = 1 FOR UPDATE');
				$hold_there->run('BEGIN; SELECT FROM mutual WHERE site = 1 AND id = 1 FOR UPDATE');
				$here->safe_psql('postgres', 'UPDATE mutual SET n = n + 1 WHERE site = 1 AND id <= 40');
				$there->safe_psql('postgres', 'UPDATE mutual SET n = n + 1 WHERE site = 2 AND id <= 40');
				$how{meanwhile} = sub { $session->seen(qr/waiting for replication/); $_->run('COMMIT') foreach ($hold_here, $hold_there) };
			}
			my $text = "both directions by $by, round $round, from " . ($turned ? 'there' : 'here');
			my ($found, $settled) = differences($session, 'mutual', $other->connstr('postgres'), %how);
			as_injected($found, \%injected, $text);
			cmp_ok($settled, '>=', 80, "$text: rows on their way were seen ($settled)") if $held;
		}
	}
	stop_load($_, "both directions by $by") foreach @load;
	$here->wait_for_catchup('mutual_1');
	$there->wait_for_catchup('mutual_2');
	is(compare("'mutual'"), truth('mutual', 't.site, t.id'), "both directions by $by: after the load, exactly the differences of a full comparison");
	$_->quit foreach ($hold_here, $hold_there, $drift_here, $drift_there);
	$there->safe_psql('postgres', 'DROP SUBSCRIPTION mutual_1');
	$here->safe_psql('postgres', 'DROP SUBSCRIPTION mutual_2');
	both('DROP TABLE mutual');
	$here->safe_psql('postgres', 'DROP PUBLICATION mutual_1');
	$there->safe_psql('postgres', 'DROP PUBLICATION mutual_2');
	return;
}

if ($version >= 150000)
{
	both_directions('row filters');
}
both_directions('origin') if $version >= 160000;

# --- more rows in flight than max_differences ------------------------------------------------

# A repair waits, and then changes what differs besides.  IbltScenarios.pm has comparisons.
my $drift = lines(truth('by_int', 't.id'));
{
	$holder->run('BEGIN; LOCK TABLE by_int IN SHARE MODE');
	$here->safe_psql('postgres', 'UPDATE by_int SET n = n + 1 WHERE id <= 20000');
	$from_there->start("SELECT count(*), bool_and(status = 'applied') FROM iblt_repair('by_int', ${\ conninfo($here)}, direction => 'pull', max_differences => 1000, apply => true, progress => true)");
	$from_there->seen(qr/waiting for replication, to compare once more/);
	$holder->run('COMMIT');
	is($from_there->done, "$drift|t", 'more rows in flight than max_differences: what differs besides is found, and repaired');
	my ($about) = $from_there->{err} =~ /: about (\d+) keys differ/;
	cmp_ok(abs(($about // 0) - 20000), '<', 5 * 0.09 * 20000, 'the progress says how many keys differed');
	is($from_there->run('SELECT differences, settled FROM iblt_compare_stats()'), "$drift|0", 'and the figures are those of the end');
}
is($there->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('by_int', ${\ conninfo($here)})"), 0, 'after the repair nothing differs');

$_->quit foreach ($from_here, $from_there, $holder);

$there->safe_psql('postgres', 'DROP SUBSCRIPTION sub');

done_testing();
