# What "make demo" prints, so that neither it nor what it shows goes stale.  It runs with
# servers of its own, the iblt that is installed, and a small table.
use IbltTest;

IbltTest::share_sessions(0);

my $work = PostgreSQL::Test::Utils::tempdir_short();
mkdir "$work/s" or die;
my %settings = (IBLT_WORK => $work, DEMO_INSTALLED => 1, DEMO_SCALE => 1, DEMO_SEED => 1);
local @ENV{ keys %settings } = values %settings;
# (libpq would give this name to the worker of the subscription)
delete local @ENV{qw(PGHOST PGPORT PGAPPNAME)};
my $said = qx{bash test/demo.sh 2>&1};
is($?, 0, 'the demo succeeds') or diag($said);

# The chapters, with each number as N and without regard to where lines break.
sub chapters
{
	my ($text) = @_;
	my %chapters;
	while ($text =~ /^(\d)\. (.*?)(?=^\d\. |\z)/msg)
	{
		my ($number, $chapter) = ($1, $2);
		$chapter =~ s/-{3,}[-+]*//g;
		$chapter =~ s/\d+(?:[,:]\d+)*/N/g;
		$chapter =~ s/\s+/ /g;
		$chapter =~ s/(?:N )+\.\.\./N .../g;
		$chapter =~ s/(?:N N rows N in flight N ms |DIFFERS: account N both )+/N rows /g;
		$chapters{$number} = $chapter =~ s/\s+\z//r;
	}
	return \%chapters;
}

my $expected = join('', <DATA>);
my ($chapters, $expected_chapters) = (chapters($said), chapters($expected));
is($chapters->{$_}, $expected_chapters->{$_}, "chapter $_") foreach 3 .. 9;
is(join(' ', sort keys %$chapters), '1 2 3 4 5 6 7 8 9', 'all chapters');
like($said, qr/^2\. Business as usual.*^\s+pgbench_accounts \| equal  \| 100000 \| 100000 \|       0 \|     0 \|       0 .*^3\./ms,
	'no difference under load');
like($said, qr/^\s+pgbench_accounts \| differs \| 100000 \| 100000 \|      30 \|    30 \|      40 /m, 'the audit finds what drifted');
like($said, qr/^    keys that differ: 100, as many as drifted/m, 'and so does the comparison');
like($said, qr/^    \.\.\. statements in all: 100$/m, 'and the repair');
like($said, qr/^Result: rows drifted: 100, found: 100, confirmed by a full comparison: 100, repaired: 100;$/m, 'the sum');

# what README.md and the demo tell of one another
my $readme = slurp_file('README.md');
my %calls = map { $_ => 1 } $readme =~ /\b(iblt_(?:compare|repair|agg|decode|track)\w*)\(/g;
foreach my $call (sort keys %calls)
{
	like($said, qr/\b$call\(/, "the demo shows $call as README.md does");
}
done_testing();

__DATA__
3. Drift, behind replication's back (DEMO_SEED=1)
    on the subscriber, 40 accounts changed, 30 deleted, 30 inserted
    (one change sets a filler to a no-break space, which no eye can see, one a balance to NULL)
    subscriber> SELECT * FROM iblt_audit(subscription => 'shop_sub');
         relation     | status  |  here  | there  | missing | extra | changed | unconfirmed | detail
    ------------------+---------+--------+--------+---------+-------+---------+-------------+--------
     pgbench_accounts | differs | 100000 | 100000 |      30 |    30 |      40 |           0 |
     pgbench_branches | equal   |      1 |      1 |       0 |     0 |       0 |           0 |
     pgbench_history  | equal   |    129 |    129 |       0 |     0 |       0 |           0 |
     pgbench_tellers  | equal   |     10 |     10 |       0 |     0 |       0 |           0 |
    exactly what was done; a script for cron would exit with status 1

4. Which rows?  Both sides of each, from one call
    subscriber> SELECT * FROM iblt_compare('pgbench_accounts', 'publisher', rows => true);
    {"aid": 51459}   both  here  {"aid": 51459, "bid": 1, "filler": "\u00a0..", "abalance": 0}
                           there {"aid": 51459, "bid": 1, "filler": "..", "abalance": 0}
    {"aid": 52312}   both  here  {"aid": 52312, "bid": 1, "filler": "..", "abalance": null}
                           there {"aid": 52312, "bid": 1, "filler": "..", "abalance": 0}
    {"aid": 367}     both  here  {"aid": 367, "bid": 1, "filler": "..", "abalance": 8}
                           there {"aid": 367, "bid": 1, "filler": "..", "abalance": 0}
    {"aid": 100007}  here  here  {"aid": 100007, "bid": 1, "filler": "new..", "abalance": 0}
                           there -
    {"aid": 1533}    there here  -
                           there {"aid": 1533, "bid": 1, "filler": "..", "abalance": 0}
    keys that differ: 100, as many as drifted; each was looked at again, and confirmed

   Is that the truth?  EXCEPT over postgres_fdw, in both directions
    the same keys, each with the same side: 100 of 100
    iblt_compare       96 ms         79,747 bytes between the servers (sketches: 7,954)
    EXCEPT            240 ms      9,789,303 bytes, the whole table

5. What happened underneath: one value from each side, and their difference
    publisher> SELECT iblt_agg(aid, iblt_checksum(t.*)) FROM pgbench_accounts t;
    subscriber> SELECT iblt_agg(aid, iblt_checksum(t.*)) FROM pgbench_accounts t;
    sent to the subscriber: 13,292 bytes of text
    subscriber> SELECT key, side FROM iblt_decode(:'a'::iblt - :'b'::iblt);
       40 on both sides, contents differ:     367 3970 9719 14746 15072 ...
       30 only on the publisher ("left"):     1533 1552 1949 3754 4513 ...
       30 only on the subscriber ("right"):   100007 100014 100021 100028 100035 ...

   And a sketch that is too small?
    publisher> SELECT iblt_agg(aid, iblt_checksum(t.*), 10) FROM pgbench_accounts t;
    subscriber> SELECT iblt_agg(aid, iblt_checksum(t.*), 10) FROM pgbench_accounts t;
    sent to the subscriber: 4,928 bytes of text
    subscriber> SELECT key, side FROM iblt_decode(:'a'::iblt - :'b'::iblt);
    ERROR: IB001: iblt holds more keys than it can decode: 20 recovered, about 101 keys
        differ
    HINT: Build both sketches with capacity => 135. To see what was recovered, use
        allow_partial => true.
    Too small, and it says so.  Again, with the capacity it recommends:
    publisher> SELECT iblt_agg(aid, iblt_checksum(t.*), 135) FROM pgbench_accounts t;
    subscriber> SELECT iblt_agg(aid, iblt_checksum(t.*), 135) FROM pgbench_accounts t;
    sent to the subscriber: 16,428 bytes of text
    subscriber> SELECT key, side FROM iblt_decode(:'a'::iblt - :'b'::iblt);
    the same keys: 100

6. Repair: first the statements only, the publisher's rows win
    subscriber> SELECT * FROM iblt_repair('pgbench_accounts', 'publisher', direction => 'pull');
    DELETE FROM public.pgbench_accounts WHERE aid OPERATOR(pg_catalog.=)
        '100007'::pg_catalog.int4;
    INSERT INTO public.pgbench_accounts (aid, bid, abalance, filler) VALUES
        ('1533'::pg_catalog.int4, '1'::pg_catalog.int4, '0'::pg_catalog.int4,
        '..'::pg_catalog.bpchar);
    UPDATE public.pgbench_accounts SET abalance = '0'::pg_catalog.int4 WHERE aid
        OPERATOR(pg_catalog.=) '367'::pg_catalog.int4;
    ... statements in all: 100

   Then the same, applied in one transaction
    subscriber> SELECT * FROM iblt_repair('pgbench_accounts', 'publisher', direction => 'pull', apply => true);
     action | status  | count
    --------+---------+-------
     delete | applied |    30
     insert | applied |    30
     update | applied |    40
    none skipped; the statements were exactly those of the preview (153 ms)

7. Equal again
    subscriber> SELECT * FROM iblt_audit(subscription => 'shop_sub');
         relation     | status |  here  | there  | missing | extra | changed | unconfirmed | detail
    ------------------+--------+--------+--------+---------+-------+---------+-------------+--------
     pgbench_accounts | equal  | 100000 | 100000 |       0 |     0 |       0 |           0 |
     pgbench_branches | equal  |      1 |      1 |       0 |     0 |       0 |           0 |
     pgbench_history  | equal  |    129 |    129 |       0 |     0 |       0 |           0 |
     pgbench_tellers  | equal  |     10 |     10 |       0 |     0 |       0 |           0 |
    EXCEPT over postgres_fdw, in both directions: 0 rows
    replication goes on: a new transaction that changes every row that the repair wrote,
    and inserts one, has arrived (72 rows)

8. Live digests: an audit every second, while pgbench writes
    publisher> CALL iblt_track('pgbench_accounts');
    subscriber> CALL iblt_track('pgbench_accounts', peer => 'publisher');
    triggers keep a digest on each side from now on; to begin with, a scan of 45 ms
    subscriber> SELECT * FROM iblt_compare('pgbench_accounts', 'publisher', live => 'require');
    11:23:22    100,001 rows   0 in flight    44 ms
    11:23:23    100,001 rows   2 in flight    68 ms
    11:23:24    100,001 rows   0 in flight    50 ms
              (account 100007 has been changed on the subscriber)
    11:23:25    100,001 rows   1 in flight   149 ms  DIFFERS: account 100007 both
    11:23:26    100,001 rows   1 in flight   414 ms  DIFFERS: account 100007 both
    11:23:27    100,001 rows   0 in flight    55 ms
    subscriber> SELECT * FROM iblt_audit(subscription => 'shop_sub');
         relation     | status |  here  | there  | missing | extra | changed | unconfirmed | detail
    ------------------+--------+--------+--------+---------+-------+---------+-------------+--------
     pgbench_accounts | equal  | 100001 | 100001 |       0 |     0 |       0 |           0 |
     pgbench_branches | equal  |      1 |      1 |       0 |     0 |       0 |           0 |
     pgbench_history  | equal  |    672 |    672 |       0 |     0 |       0 |           0 |
     pgbench_tellers  | equal  |     10 |     10 |       0 |     0 |       0 |           0 |
    the audit by scans says the same: no digest has missed a change

9. From a desk: servers on which nothing is installed
    the databases old, new and spare have no iblt; desk has it, and no table
    desk> SELECT key, side, differs FROM iblt_compare(here_peer => 'old', here_relation => 'public.orders',
            peer => 'new', method => 'auto', rows => 'columns') ORDER BY key;
          key      | side | differs
    ---------------+------+---------
     {"id": 7}     | both | {price}
     {"id": 19000} | here |
    one row was changed on the way to the new server, and one was lost
    desk> SELECT key, verdict, agree, deviate FROM iblt_compare_nodes('public.orders', '{old,new,spare}',
            method => 'auto', recheck => 0) ORDER BY key;
          key      | verdict  |    agree    | deviate
    ---------------+----------+-------------+---------
     {"id": 7}     | majority | {old,spare} | {new}
     {"id": 300}   | majority | {old,new}   | {spare}
     {"id": 19000} | majority | {old,spare} | {new}
    three nodes: the majority says which one is wrong
    desk> SELECT key, action, status FROM iblt_repair(here_peer => 'old', here_relation => 'public.orders',
            peer => 'new', method => 'auto', direction => 'push', apply => true) ORDER BY key;
          key      | action | status
    ---------------+--------+---------
     {"id": 7}     | update | applied
     {"id": 19000} | insert | applied
    the desk made new like old, in one transaction

Result: rows drifted: 100, found: 100, confirmed by a full comparison: 100, repaired: 100;
now both sides are equal.  Bytes sent to find them: 79,747 instead of 9,789,303.
