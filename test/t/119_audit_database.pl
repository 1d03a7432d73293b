# An audit of a whole database, of a schema that has another name on the peer, and of tables
# that lost a column.
use IbltAudit;
use IbltRuns qw(begin_run tables);

my ($here, $there) = audit_servers();
my $peer = conninfo($there);

sub said
{
	my ($rows) = @_;
	return join "\n", map { join ' ', map { $_ // '-' } @$_{qw(relation peer_relation status)} } @$rows;
}

# --- a whole database -------------------------------------------------------------------------

both(q{CREATE SCHEMA a; CREATE SCHEMA "B ""c"; CREATE TABLE a.t (id int PRIMARY KEY, v text); INSERT INTO a.t VALUES (1, 'x'); CREATE TABLE "B ""c"."T t" (id int PRIMARY KEY);
	CREATE TABLE public.parted (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE a.part PARTITION OF parted FOR VALUES FROM (0) TO (9); INSERT INTO parted VALUES (3);
	CREATE VIEW a.seen AS SELECT * FROM a.t; CREATE MATERIALIZED VIEW a.kept AS SELECT * FROM a.t; CREATE UNLOGGED TABLE a.unlogged (id int PRIMARY KEY); CREATE TABLE public.of_extension (id int PRIMARY KEY)});
# Extensions are not of this test, so a table is made a member of one.
$here->safe_psql('postgres', q{ALTER EXTENSION iblt ADD TABLE public.of_extension; CREATE SCHEMA mine; CREATE TABLE mine.sole (id int)});
$there->safe_psql('postgres', q{ALTER EXTENSION iblt ADD TABLE public.of_extension; CREATE SCHEMA theirs; CREATE TABLE theirs.sole (id int); CREATE TABLE a.lost (id int); UPDATE a.t SET v = 'y'; ALTER TABLE "B ""c"."T t" ADD gone int;
	ALTER TABLE a.kept RENAME TO kept_there});
my $all = q{"B ""c"."T t" "B ""c"."T t" not comparable
a.lost a.lost not comparable
a.t a.t differs
a.unlogged a.unlogged equal
mine.sole - not comparable
public.parted public.parted equal
theirs.sole theirs.sole not comparable};
{
	my ($got, $err, $rows) = audit("schema => '*'");
	is(said($rows), $all, 'the whole database by its name');
	($got, $err, $rows) = audit('recheck => 0');
	is(said($rows), $all, 'every table of either side, in the schemas of both, and none of the system or of extensions');
	is($got->{'a.lost'}{detail}, 'the table does not exist here', 'a table of the peer alone has its name');
	is($got->{'theirs.sole'}{detail}, 'the table does not exist here', 'also in a schema of the peer alone');
	like($got->{'"B ""c"."T t"'}{detail}, qr/^columns exist on one side only: only on the peer: "gone"; leave them out by iblt_compare, or set extra_columns => 'warn' or 'ignore'$/, 'a table that lost a column is not equal');
	is($err, '', 'and no warnings');
	($got) = audit("extra_columns => 'warn'");
	is(line($got->{'"B ""c"."T t"'}), 'equal 0 0 0 0 0 0', "unless extra_columns => 'warn' says so");
	(undef, undef, $rows) = audit('recheck => 0', node => $there);
	is(said($rows), $all =~ s/mine.sole -/mine.sole mine.sole/r =~ s/(theirs.sole|a.lost) \S+/$1 -/gr, 'the same from the other side');
	my $run = begin_run('progress => false');
	my $tables = tables($run);
	is(join("\n", map { "$_ $tables->{$_}{status}" } sort keys %$tables), $all =~ s/^("B ""c"."T t"|\S+) ("B ""c"."T t"|\S+) /$1 /gmr, 'a run has the same tables');
	is($here->safe_psql('postgres', "SELECT target FROM iblt_audit_run_stats WHERE run = $run"), 'database', 'and says what it is of');
	my ($rc, $out) = (0, '');
	($rc, $out) = $here->psql('postgres', "SELECT string_agg(DISTINCT status, ' ') FROM iblt_audit($peer, method => 'plain')");
	is($out, 'differs equal not comparable', 'and by plain queries');
}
like(failure('SELECT * FROM iblt_audit(NULL)'), qr/22004: peer must not be null/, 'without a peer it is an error');
like(failure("SELECT * FROM iblt_audit($peer, '{a.t}', schema => '$_')"), qr/22023: at most one of tables, schema, publication and subscription can be given/, 'two things to audit are an error') foreach 'a', '*';

# --- a schema of another name -------------------------------------------------------------------

my $made = q{CREATE TYPE "Mood" AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a int, "b .x" "Mood"); CREATE DOMAIN small AS int; CREATE TYPE span AS RANGE (subtype = int);
	CREATE TABLE typed (id int PRIMARY KEY, m "Mood", ms "Mood"[], p pair, ps pair[], s small, r span); INSERT INTO typed SELECT g, 'ok', '{sad}', ROW(g, 'sad'::"Mood")::pair, ARRAY[ROW(g, 'ok'::"Mood")::pair], g, span(g, g + 2) FROM generate_series(1, 50) g;
	CREATE TABLE by_mood (m "Mood" PRIMARY KEY, v text); INSERT INTO by_mood VALUES ('sad', 'x'); CREATE TABLE changed AS TABLE typed; ALTER TABLE changed ADD PRIMARY KEY (id);
	CREATE TABLE decoy (id int PRIMARY KEY, v int); INSERT INTO decoy VALUES (1, 1); CREATE TABLE together_1 (id int PRIMARY KEY); CREATE TABLE together_2 (i int PRIMARY KEY, v text); CREATE TABLE together_3 (a int, b int, t text, PRIMARY KEY (a, b));
	CREATE TABLE other (id int PRIMARY KEY, v %s); CREATE TABLE made_of (id int PRIMARY KEY, p halves);};
my $old = '"Old.* s"';
$here->safe_psql('postgres', "CREATE SCHEMA $old; SET search_path = $old; CREATE TYPE halves AS (a int, b int); " . sprintf($made, 'pair') . 'CREATE TABLE only_here (id int)');
$there->safe_psql('postgres', 'CREATE SCHEMA new_; SET search_path = new_; CREATE TYPE halves AS (a int, b date); ' . sprintf($made, 'public.pair') =~ s/CREATE TABLE other/CREATE TYPE public.pair AS (a int, "b .x" "Mood"); CREATE TABLE other/r .
	"CREATE TABLE only_there (id int); UPDATE changed SET m = 'sad' WHERE id = 7; UPDATE decoy SET v = 2;
	CREATE SCHEMA $old; CREATE TABLE $old.changed (id int PRIMARY KEY); CREATE TABLE $old.decoy (id int PRIMARY KEY, v int); INSERT INTO $old.decoy VALUES (1, 1)");
my $renamed = join("\n", map { s/^(\S+) (\S+) /"$old.$1 " . ($2 eq '-' ? '-' : "new_.$2") . ' '/er } split /\n/, 'by_mood by_mood equal
changed changed differs
decoy decoy differs
made_of made_of not comparable
only_here - not comparable
only_there only_there not comparable
other other not comparable
together_1 together_1 equal
together_2 together_2 equal
together_3 together_3 equal
typed typed equal');
my $schema = "schema => 'Old.* s', peer_schema => 'new_'";
foreach my $method ('sketch', 'plain')
{
	my ($got, $err, $rows) = audit("$schema, method => '$method'");
	is(join("\n", map { join ' ', map { $_ // '-' } @$_{qw(relation peer_relation status)} } @$rows), $method eq 'sketch' ? $renamed : $renamed =~ s/(typed|changed) (equal|differs)/$1 not comparable/gr,
		"peer_schema: each table is compared with its namesake there, and types of the schema are the same ($method)");
	my %bytes = map { $_ => 1 } map { $got->{"$old.$_"}{bytes} } qw(together_1 together_2 together_3);
	is(keys %bytes, 1, 'small tables are compared together, so that they have equal shares of the bytes');
	next if $method eq 'plain';
	is(line($got->{"$old.changed"}), 'differs 50 50 0 0 1 0', 'a difference is found');
	like($got->{"$old.made_of"}{detail}, qr/^column types differ: "p" is "Old\.\* s"\.halves \(made of \("a" integer, "b" integer\)\) here and new_\.halves \(made of \("a" integer, "b" date\)\) on the peer; set cast_types => true, or leave the columns out by iblt_compare$/, 'a type that is made of others is another type');
	like($got->{"$old.other"}{detail}, qr/^column types differ: "v" is "Old\.\* s"\.pair here and public\.pair on the peer; set cast_types => true, or leave the columns out by iblt_compare$/, 'and so is one of another schema');
}
{
	my $run = begin_run("$schema, rows => 'columns', progress => false");
	is($here->safe_psql('postgres', "SELECT relation, peer_relation, status FROM iblt_audit_table_stats WHERE run = $run ORDER BY 1") =~ tr/|/ /r, $renamed =~ s/ - /  /r, 'a run knows peer_schema');
	is($here->safe_psql('postgres', "SELECT target, (SELECT differs FROM iblt_audit_differences d WHERE d.run = r.run AND d.key = '{\"id\": 7}') FROM iblt_audit_run_stats r WHERE run = $run"), 'schema Old.* s (new_ on the peer)|{m}', 'and says so');
	is($here->safe_psql('postgres', "SELECT key, status FROM iblt_repair(run => $run, peer => $peer, direction => 'push', apply => true) ORDER BY 1"), qq({"id": 1}|applied\n{"id": 7}|applied), 'what it found is repaired there');
	is($there->safe_psql('postgres', 'SELECT m FROM new_.changed WHERE id = 7'), 'ok', 'in the schema of the other name');
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('$old.typed', $peer, 'new_.typed')"), '0', 'iblt_compare takes types of the two schemas for the same, too');
}
like(failure("SELECT * FROM iblt_audit($peer, peer_schema => 'new_')"), qr/22023: peer_schema can only be given with schema/, 'peer_schema needs schema');
like(failure("SELECT * FROM iblt_audit($peer, schema => 'no such', peer_schema => 'nor this')"), qr/3F000: schema "no such" does not exist here, nor "nor this" on the peer/, 'one of the two must exist');

# --- what SELECT * shows ----------------------------------------------------------------------------

# As psql shows it, with names and numbers of a real schema.
sub widest { my (undef, $out) = $here->psql('postgres', $_[0], extra_params => [qw(-P format=aligned -P tuples_only=off)]); return (sort { $b <=> $a } map { length } split /\n/, $out)[0] }

both(q{CREATE SCHEMA sales; CREATE TABLE sales.customers (id int PRIMARY KEY); CREATE TABLE sales.purchase_order_lines (id int PRIMARY KEY, v int);
	INSERT INTO sales.purchase_order_lines SELECT g, g FROM generate_series(1, 120000) g});
$there->safe_psql('postgres', 'UPDATE sales.purchase_order_lines SET v = 0 WHERE id % 7 = 0');
{
	my $run = begin_run("schema => 'sales', progress => false");
	cmp_ok(widest("SELECT * FROM iblt_audit($peer, schema => 'sales')"), '<=', 120, 'an audit fits into 120 columns');
	cmp_ok(widest("SELECT run, relation, status, rows_here, rows_there, missing, extra, changed, unconfirmed FROM iblt_audit_tables WHERE run = $run"), '<=', 120, 'and so do the tables of a run');
	is($here->safe_psql('postgres', "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'iblt_audit_tables'::regclass AND attnum > 0"),
		'run relation status rows_here rows_there missing extra changed unconfirmed detail', 'which also have a detail that says how they were read');
}
like(failure('SELECT * FROM iblt_audit_stats()'), qr/55000: no iblt_audit has finished in this session/, 'before an audit, nothing is known of it');
nothing_left('after all', $here, $there);

# --- two schemas of one database ------------------------------------------------------------------

$here->safe_psql('postgres', q{CREATE SCHEMA one; CREATE SCHEMA other; CREATE TABLE one.t (id int PRIMARY KEY, v int); INSERT INTO one.t SELECT g, g FROM generate_series(1, 500) g;
	CREATE TABLE one.same AS TABLE one.t; CREATE TABLE other.same AS TABLE one.t; CREATE TABLE one.alone (id int); CREATE TABLE other.t (LIKE one.t INCLUDING ALL); INSERT INTO other.t SELECT id, nullif(v, 7) FROM one.t WHERE id <> 9});
is($here->safe_psql('postgres', "SELECT string_agg(concat_ws(' ', relation, status, rows_here, rows_there, missing, extra, changed), ', ' ORDER BY relation) FROM iblt_audit(schema => 'one', peer_schema => 'other')"),
	'one.alone not comparable, one.same equal 500 500 0 0 0, one.t differs 500 499 0 1 1', 'two schemas of one database');
foreach ("iblt_audit(schema => 'one', peer_schema => 'one')", "iblt_audit(schema => 'one')", "iblt_audit(schema => 'one', peer_schema => 'other', here_peer => ${\ conninfo($there)})")
{
	like(failure("SELECT * FROM $_"), qr/22004: peer must not be null/, $_);
}
like(failure("CALL iblt_audit_run(NULL, schema => 'one', peer_schema => 'other')"), qr/22004: peer must not be null/, 'a run needs a peer');
# rows that both have are no copies
$here->safe_psql('postgres', q{CREATE SCHEMA parents; CREATE SCHEMA children; CREATE TABLE parents.t (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE children.t PARTITION OF parents.t FOR VALUES FROM (0) TO (100);
	INSERT INTO parents.t VALUES (1), (2); CREATE TABLE parents.u (id int PRIMARY KEY); CREATE TABLE children.u (PRIMARY KEY (id)) INHERITS (parents.u); INSERT INTO children.u VALUES (1)});
foreach my $call ("schema => 'parents', peer_schema => 'children'", "schema => 'children', peer_schema => 'parents'")
{
	is($here->safe_psql('postgres', "SELECT DISTINCT concat_ws(' ', status, split_part(detail, ':', 1)) FROM iblt_audit($call)"), 'error relations that have rows in common cannot be compared', "partitions and children: $call");
}
foreach my $method (qw(sketch plain))
{
	like(failure("SELECT * FROM iblt_compare('parents.t', ${\ conninfo($here)}, 'children.t', method => '$method')"), qr/22023: relations that have rows in common cannot be compared/, "a partition and its parent ($method)");
}

done_testing();
