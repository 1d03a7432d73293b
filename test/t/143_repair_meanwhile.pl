# Triggers that a partition has from its parent or a constraint brings, and rows that exchange unique values.
# IbltRepairs.pm has what other sessions do while a repair waits.
use IbltTest;

my ($here, $there) = two_servers();
foreign_server($here, 'there', $there);
sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }

# --- whose triggers they are -----------------------------------------------------------------------

# PostgreSQL 14 has tgisinternal for triggers that a partition has from its parent.
both(q{CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (100);
	CREATE TABLE other (id int PRIMARY KEY); CREATE TABLE refers (id int PRIMARY KEY REFERENCES other, v text UNIQUE DEFERRABLE);
	CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE public.part SET v = ''changed'' WHERE id = NEW.id; RETURN NULL; END';
	CREATE TRIGGER change AFTER INSERT ON parted FOR EACH ROW EXECUTE FUNCTION change();
	UPDATE pg_trigger SET tgisinternal = true WHERE tgparentid <> 0});
sql($there, "ALTER TABLE parted DISABLE TRIGGER change; INSERT INTO parted SELECT g, g FROM generate_series(1, 9) g");
like(($here->psql('postgres', "SELECT count(*) FROM iblt_repair('part', 'there', direction => 'pull')"))[2], qr/NOTICE:  triggers of public\.part will fire \(here\): change \(INSERT\)/, 'a preview names a trigger that a partition has from its parent');
like(failure("SELECT * FROM iblt_repair('part', 'there', direction => 'pull', apply => true)"), qr/27000: after the repair, the rows of 9 keys are not as on the source/, 'a repair notices what it does');
is(sql($here, 'SELECT count(*) FROM part'), '0', 'and changes nothing');
sql($there, 'INSERT INTO other VALUES (1); INSERT INTO refers VALUES (1, 1)');
sql($here, 'INSERT INTO other VALUES (1)');
is(($here->psql('postgres', "SELECT status FROM iblt_repair('refers', 'there', direction => 'pull', apply => true)"))[2], '', 'triggers of constraints are not those of a user');

# --- rows that exchange unique values --------------------------------------------------------------

# Runs a repair: lines "action id status detail".
sub repaired { my ($options) = @_; return join "\n", sort split /\n/, sql($here, "SELECT concat_ws(' ', action, key ->> 'id', status, detail) FROM iblt_repair('ex', 'there', direction => 'pull', apply => true$options)") }
sub contents { my ($node) = @_; return sql($node, "SELECT string_agg(t::text, ' ' ORDER BY t::text) FROM ex AS t") }
sub fresh
{
	my ($node, $definition, $rows, @more) = @_;
	sql($node, join '; ', 'DROP TABLE IF EXISTS refers, ex', "CREATE TABLE ex $definition", grep({ /INDEX|PARTITION/ } @more), "INSERT INTO ex $rows", grep { !/INDEX|PARTITION/ } @more);
	return;
}
sub exchanged { return map { my $id = $_; map { "$_ $id applied rows exchange unique values" } 'delete', 'insert' } @_ }
my $skipped = 'skipped waits for a unique value of another row, and cannot be deleted and inserted:';

# IbltRepairs.pm has a constraint in all placements.  Nothing can defer other indexes.
both(q{CREATE FUNCTION own(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 / 10'; CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN coalesce(NEW, OLD); END'});
my @indexes = (
	[ 'an expression of a function of a user', '(id int PRIMARY KEY, u int)', 'CREATE UNIQUE INDEX ex_u ON ex (own(u))', 'VALUES (1,10), (2,20)', 'VALUES (1,20), (2,10)' ],
	[ 'a condition', '(id int PRIMARY KEY, u int, on_ boolean)', 'CREATE UNIQUE INDEX ex_u ON ex (u) WHERE on_', 'VALUES (1,1,true), (2,2,true), (3,1,false), (4,4,true)', 'VALUES (1,2,true), (2,1,true), (3,4,true), (4,4,false)' ],
	[ 'partitions', '(id int, u int, PRIMARY KEY (id, u)) PARTITION BY LIST (u)', 'CREATE TABLE ex_1 PARTITION OF ex DEFAULT; CREATE UNIQUE INDEX ex_u ON ex (u)', 'VALUES (1,1), (2,2)', 'VALUES (1,2), (2,1)' ],
	[ 'one partition', '(id int PRIMARY KEY, u int) PARTITION BY LIST (id)', 'CREATE TABLE ex_1 PARTITION OF ex FOR VALUES IN (1, 2); CREATE TABLE ex_2 PARTITION OF ex DEFAULT; CREATE UNIQUE INDEX ON ex_1 (u)', 'VALUES (1,1), (2,2), (3,2)', 'VALUES (1,2), (2,1), (3,1)' ],
	[ 'a generated column', '(id int PRIMARY KEY, v int, u int GENERATED ALWAYS AS (v * 2) STORED)', 'CREATE UNIQUE INDEX ex_u ON ex (u)', '(id, v) VALUES (1,1), (2,2)', '(id, v) VALUES (1,2), (2,1)' ],
	[ 'an identity column', '(id int PRIMARY KEY, u int, n int GENERATED ALWAYS AS IDENTITY)', 'CREATE UNIQUE INDEX ex_u ON ex (u)', '(id, u) VALUES (1,1), (2,2)', '(id, u) VALUES (1,2), (2,1)' ]);
foreach my $index (@indexes)
{
	my ($what, $definition, $create, $is, $wanted) = @$index;
	fresh($here, $definition, $is, $create);
	fresh($there, $definition, $wanted, $create);
	is(sql($here, "SELECT count(*) FROM iblt_repair('ex', 'there', direction => 'pull') WHERE action = 'update' AND status = 'preview'"), $what =~ /condition/ ? 4 : $what =~ /one partition/ ? 3 : $what =~ /partitions/ ? 0 : 2, "$what: a preview shows updates");
	repaired('');
	is(contents($here), contents($there), "an index with $what: both sides are equal");
}

# Where something could tell the difference, they are skipped and the rest is repaired.  1 and 2 exchange values, and
# so do 3, 4 and 5.  6 gets the value of 7, which gets another one.  8 has changed, 9 is missing, and 10 is more.
my $is = 'VALUES (1,10), (2,20), (3,30), (4,40), (5,50), (6,60), (7,70), (8,80), (10,75)';
my $wanted = 'VALUES (1,20), (2,10), (3,40), (4,50), (5,30), (6,70), (7,75), (8,81), (9,90)';
my @rest = ('delete 10 applied', 'insert 9 applied', map { "update $_ applied" } 6 .. 8);
my @reasons = (
	[ 'a trigger', 'CREATE TRIGGER nothing BEFORE DELETE ON ex FOR EACH ROW EXECUTE FUNCTION nothing()', '', 'triggers would fire: nothing (DELETE)' ],
	[ 'a column that is not compared', 'ALTER TABLE ex ADD mine int', ", extra_columns => 'ignore'", 'columns that are not compared would be lost: "mine"' ],
	[ 'a table that refers to itself', 'ALTER TABLE ex ADD up int REFERENCES ex', '', 'the table refers to itself' ],
	[ 'a table whose rows would go, too', 'CREATE TABLE refers (r int REFERENCES ex ON DELETE CASCADE); INSERT INTO refers VALUES (1)', '', 'rows of public.refers may refer to them by constraint refers_r_fkey' ],
	[ 'a caller who wants no inserts', '', ', inserts => false', 'inserts => false' ]);
foreach my $reason (@reasons)
{
	my ($what, $sql, $options, $says) = @$reason;
	fresh($here, '(id int PRIMARY KEY, u int UNIQUE)', $is, $sql);
	fresh($there, '(id int PRIMARY KEY, u int UNIQUE)', $wanted, $what =~ /itself/ ? $sql : ());
	is(repaired($options), join("\n", sort map({ s/(insert.*) applied/$1 skipped inserts => false/r } $what =~ /no inserts/ ? @rest : ()), ($what =~ /no inserts/ ? () : @rest), map { "update $_ $skipped $says" } 1 .. 5), "$what: they are skipped with the reason, and the rest is repaired");
	is(sql($here, 'SELECT count(*) FROM refers'), '1', "$what: nothing else is lost") if $sql =~ /CASCADE/;
}
# Of several pairs, rows refer to one, and one has a long value.  A row that waits for a value of a skipped one is skipped, too.
fresh($here, '(id int PRIMARY KEY, u int UNIQUE, w int UNIQUE, long text)', "VALUES (1,10,1), (2,20,2), (3,30,3), (4,40,4), (7,70,70), (8,80,80)", 'CREATE TABLE refers (r int REFERENCES ex)', 'INSERT INTO refers VALUES (1)');
fresh($there, '(id int PRIMARY KEY, u int UNIQUE, w int UNIQUE, long text)', "VALUES (1,20,7,NULL), (2,10,2,NULL), (3,40,3,NULL), (4,30,4,NULL), (5,50,1,NULL), (6,60,6,NULL), (7,80,70,repeat('b', 100000)), (8,70,80,NULL)");
is(repaired(''), join("\n", sort { $a cmp $b } exchanged(3, 4), 'insert 6 applied', "insert 5 $skipped duplicate key value violates unique constraint \"ex_w_key\"", "update 7 $skipped a value is too long to be read again",
		qq{update 1 $skipped update or delete on table "ex" violates foreign key constraint "refers_r_fkey" on table "refers"}, map { "update $_ $skipped duplicate key value violates unique constraint \"ex_u_key\"" } 2, 8), 'each pair has its own reason');
# Values that a row has that stays
fresh($here, '(id int PRIMARY KEY, u int UNIQUE)', 'VALUES (0, 0)');
fresh($there, '(id int PRIMARY KEY, u int)', 'SELECT g, 0 FROM generate_series(0, 30) AS g UNION ALL VALUES (31, 1)');
like(failure("SELECT * FROM iblt_repair('ex', 'there', direction => 'pull', apply => true)"), qr/23505: .*ex_u_key.*Nothing was changed, because no statement order/s, 'values that the source has twice');
fresh($here, '(id int PRIMARY KEY, u int UNIQUE)', 'VALUES (0, 0), (1, 1), (2, 2)');
fresh($there, '(id int PRIMARY KEY, u int)', 'VALUES (0, 0), (1, 2), (2, 0)');
like(failure("SELECT * FROM iblt_repair('ex', 'there', direction => 'pull', apply => true)"), qr/23505: .*ex_u_key.*The row has the key \{"id": 2\}/s, 'also by an update');
# Many to which rows refer
fresh($here, '(id int PRIMARY KEY, u int UNIQUE)', 'SELECT g, g FROM generate_series(1, 60) AS g', 'CREATE TABLE refers (r int REFERENCES ex)', 'INSERT INTO refers SELECT id FROM ex');
fresh($there, '(id int PRIMARY KEY, u int UNIQUE)', 'SELECT g, 61 - g FROM generate_series(1, 60) AS g UNION ALL VALUES (61, 61)');
is(join("\n", grep { !/^update \d+ \Q$skipped\E update or delete / } split /\n/, repaired('')), 'insert 61 applied', 'many rows to which others refer are skipped');

# At random: values move between rows in all ways.
my $seed = random_seed();
my $exchanges = 0;
foreach my $round (1 .. 8)
{
	my $number = 5 + int rand 40;
	my $shuffled = sub { my @list = @_; for (my $i = @list; --$i;) { my $j = int rand($i + 1); @list[ $i, $j ] = @list[ $j, $i ] } return @list };
	my %rows;
	foreach my $node ($here, $there)
	{
		my @a = $shuffled->(1 .. $number + 3);
		my @b = $shuffled->(1 .. $number + 3);
		$rows{ $node->name } = join ', ', map { sprintf "(%d, '%s', %d)", $_, chr(96 + $a[$_] % 26) x ($a[$_] % 26 + $a[$_]), $b[$_] } grep { rand() < 0.9 } 1 .. $number;
		fresh($node, '(id int PRIMARY KEY, a text, b int UNIQUE)', 'VALUES ' . $rows{ $node->name }, 'CREATE UNIQUE INDEX ON ex (upper(a))');
	}
	my $lines = repaired('');
	is(contents($here), contents($there), "round $round, seed $seed: both sides are equal") or diag("$rows{here}\n$rows{there}\n$lines");
	$exchanges += () = $lines =~ /^insert .* exchange/mg;
}
cmp_ok($exchanges, '>', 0, "seed $seed: some rows have exchanged values");

nothing_left('at the end');

done_testing();
