# iblt_track_all: digests of all tables of a subscription or a schema, on both sides, in one
# call; what cannot be tracked, and why; and a second call, which has nothing to do.
use IbltTest;

sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }

my ($here, $there) = awkward_servers([], []);
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

sql($here, q{UPDATE p SET v = '5' WHERE id = 5});

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
	sql($here, "CALL iblt_untrack('s.fine')");
	my $offer = changed($there, 'track_offer', 'to_jsonb(o.*)', "(to_jsonb(o.*) - 'key_columns')");
	is(track_all("$peer, tables => '{s.fine}'"), "0|1\ntable s.fine is not tracked: the peer does not track its table", 'an offer without the key');
	sql($there, $offer);
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
	my $holder = holding($there, 'BEGIN; LOCK TABLE s.mine IN ROW EXCLUSIVE MODE');
	like(failure("SET statement_timeout = '1 s'; CALL iblt_track_all($peer, tables => '{s.fine,s.mine}')"), qr/57014/, 'a timeout while the peer waits for a lock ends the call');
	nothing_left('after a timeout');
	$holder->run('COMMIT');
	$holder->quit;
	is(sql($there, "SELECT string_agg(relation::text || ' ' || state, ' ') FROM iblt_live_status() WHERE relation::text LIKE 's.%'"), 's.fine live', 'and what was done before stays');
	is(track_all("$peer, tables => '{s.fine,s.mine}'"), "2|0\ntable s.fine is tracked already\ntable s.mine is tracked", 'the next call goes on');
}
nothing_left('at the end');

done_testing();
