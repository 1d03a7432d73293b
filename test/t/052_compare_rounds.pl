# What iblt_compare does in each of its steps, where only a fault in one of them would
# tell: rows that change between two looks and then stand still, rows of one key in
# another order, and conditions in the sketches and in the lookups.
#
# Both relations are in one database, and a step of the extension is replaced by one
# that changes rows first, so that nothing depends on time.
use IbltTest;

my $node = ready('node');
sides($node, $node);

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

# The same in a transaction that is rolled back.
my $session = IbltTest::Session->new($node);
sub undone
{
	my ($sql) = @_;
	return $session->checked("BEGIN;\n$sql;\nROLLBACK");
}

# iblt_compare's rows of the tables mine and theirs as a list, in order, on one line.
sub compare
{
	my ($options, %how) = @_;
	my $sql = "SELECT concat_ws(' ', key ->> 'id', side, here_count, there_count, confirmed) FROM iblt_compare('mine', peer_relation => 'theirs', $options)";
	return join ', ', sort split /\n/, $how{undone} ? undone($sql) : sql($sql);
}

# A step that counts itself first, and does what the table script has for its number.
sql(q{CREATE TABLE script (step text, number int, statement text); CREATE SEQUENCE counted;
	CREATE FUNCTION act(name text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE n int := coalesce(nullif(current_setting('steps.' || name, true), ''), '0')::int + 1; s text;
	BEGIN
		PERFORM set_config('steps.' || name, n::text, true);
		FOR s IN SELECT statement FROM public.script WHERE step = name AND number IN (n, 0) LOOP EXECUTE s; END LOOP;
	END $$});
foreach my $step ([ 'wait', 'pass', 'iblt_internal.plan, timestamptz', 'iblt_internal.waited' ], [ 'settle', 'settle_all', 'iblt_internal.plan, timestamptz', 'text' ],
	[ 'look', 'find_sides', 'iblt_internal.plan, text[], integer DEFAULT NULL, boolean DEFAULT false', 'iblt_internal.found_rows[]' ])
{
	my ($name, $function, $arguments, $returns) = @$step;
	my $numbers = join ', ', map { "\$$_" } 1 .. 1 + ($arguments =~ tr/,//);
	sql("ALTER FUNCTION iblt_internal.$function RENAME TO ${function}_it;
		CREATE FUNCTION iblt_internal.$function($arguments) RETURNS $returns LANGUAGE plpgsql AS
		'DECLARE stack text; BEGIN GET DIAGNOSTICS stack = PG_CONTEXT;
		-- not the lookups that check an index
		IF ''$name'' <> ''look'' OR (string_to_array(stack, chr(10)))[2:3]::text ~ '' (differences|look_at_ids)\\('' THEN PERFORM public.act(''$name''); END IF;
		RETURN " . ($name eq 'look' ? "iblt_internal.${function}_it($numbers)" : 'NULL') . "; END'");
}

# Replication of this side from the other, as far as the steps are concerned.
my $link = q{[{"source": "there", "follower": "here", "slot": null, "ready": true}]};
sub linked
{
	my ($links) = @_;
	sql("CREATE OR REPLACE FUNCTION iblt_internal.links(sides iblt_internal.side[]) RETURNS iblt_internal.link[] LANGUAGE sql IMMUTABLE AS
		\$\$SELECT ARRAY(SELECT l FROM pg_catalog.jsonb_populate_recordset(NULL::iblt_internal.link, '$links') AS l)\$\$");
	return;
}

# --- rows that stand still, or do not ------------------------------------------------------

# A difference is confirmed if its rows are the same in four looks: before and after the
# first settle, and behind the wait, before and after the second one.  From round to
# round the last two count for the next.
my $change = "UPDATE %s SET v = v + 1 WHERE id = '7'";
my $gone = "UPDATE %s SET v = 7 WHERE id = '7'";
my @cases = (
	# what changes it, the replies for recheck => 1, 2, 3, 4
	[ 'nothing', '', 't', 't', 't', 't' ],
	[ 'before the first settle', 'settle 1', 'f', 't', 't', 't' ],
	[ 'while the first round waits', 'wait 1', 'f', 't', 't', 't' ],
	[ 'before the settle of the first round', 'settle 2', 'f', 'f', 't', 't' ],
	[ 'while the first and the second round wait', 'wait 1, wait 2', 'f', 'f', 't', 't' ],
	[ 'while the second round waits, when it is confirmed', 'wait 2', 't', 't', 't', 't' ],
	[ 'in each wait', 'wait 0', 'f', 'f', 'f', 'f' ],
	[ 'in each settle', 'settle 0', 'f', 'f', 'f', 'f' ],
	[ 'before the first settle and in the third round', 'settle 1, wait 3', 'f', 't', 't', 't' ],
);
foreach my $type ('int', 'text')
{
	sql("CREATE TABLE mine (id $type PRIMARY KEY, v int); INSERT INTO mine SELECT g, g FROM generate_series(1, 10) g; CREATE TABLE theirs (LIKE mine INCLUDING ALL); INSERT INTO theirs TABLE mine;
		UPDATE theirs SET v = 0 WHERE id IN ('3', '7')");
	foreach my $links ('[]', $link)
	{
		linked($links);
		foreach my $case (@cases)
		{
			my ($text, $steps, @confirmed) = @$case;
			# without a link, nothing is settled, and a round has one look
			next if $links eq '[]' && $steps =~ /settle/;
			foreach my $table ('mine', 'theirs')
			{
				sql('TRUNCATE script');
				sql("INSERT INTO script VALUES ('$1', $2, \$\$" . sprintf($change, "public.$table") . '$$)') while $steps =~ /(\w+) (\d)/g;
				is(join(' ', map { my $out = compare("recheck => $_, rows => true", undone => 1); $out =~ /^3 both 1 1 t, 7 both 1 1 ([tf])$/ ? $1 : "($out)" } 1 .. 4),
					"@confirmed", "$type key" . ($links eq '[]' ? '' : ', replication') . ", $table changes: $text");
			}
		}
		sql("TRUNCATE script; INSERT INTO script VALUES ('wait', 1, \$\$" . sprintf($gone, 'public.theirs') . '$$)');
		is(compare('recheck => 2', undone => 1), '3 both 1 1 t', "$type key: a difference that vanishes in the first round");
		# a row that changes is returned as it was seen last
		sql("TRUNCATE script; INSERT INTO script VALUES ('wait', 1, \$\$" . sprintf($change, 'public.theirs') . '$$)');
		is(undone("SELECT here ->> 'v', there ->> 'v', confirmed FROM iblt_compare('mine', peer_relation => 'theirs', rows => true, recheck => 2) WHERE key ->> 'id' = '7'"),
			'7|1|t', "$type key: what is returned of it is new, too");
	}
	sql('DROP TABLE mine, theirs; TRUNCATE script');
}
linked('[]');

# --- rows of one key in another order ----------------------------------------------------------

# They are put in order before they are hashed: one plan sorts them, the other hashes,
# and at the next look the other way round.
sql(q{CREATE TABLE mine (id int, v text); CREATE TABLE theirs (id int, v text);
	INSERT INTO mine SELECT g % 3, md5((g / 2)::text) FROM generate_series(1, 600) g ORDER BY md5(g::text); INSERT INTO theirs SELECT * FROM mine ORDER BY v DESC;
	INSERT INTO mine VALUES (1, 'more'); DELETE FROM theirs WHERE ctid = (SELECT min(ctid) FROM theirs WHERE id = 2);
	-- equal again when the rows are looked up
	INSERT INTO script VALUES ('look', 1, 'DELETE FROM public.mine WHERE v = ''more''');
	ALTER FUNCTION iblt_internal.find_sides RENAME TO find_sides_acts;
	CREATE FUNCTION iblt_internal.find_sides(plan iblt_internal.plan, keys text[], place int DEFAULT NULL, lock boolean DEFAULT false) RETURNS iblt_internal.found_rows[] LANGUAGE plpgsql AS $$
	DECLARE found iblt_internal.found_rows[]; sides iblt_internal.found_rows[]; sorted boolean := current_setting('steps.look', true) ~ '[13579]$';
	BEGIN
		IF place IS NOT NULL THEN RETURN iblt_internal.find_sides_acts(plan, keys, place, lock); END IF;
		FOR i IN 1 .. 2 LOOP
			PERFORM set_config('enable_hashagg', (NOT sorted)::text, true), set_config('enable_sort', sorted::text, true), set_config('enable_incremental_sort', sorted::text, true);
			found := CASE i WHEN 1 THEN iblt_internal.find_sides_acts(plan, keys) ELSE iblt_internal.find_sides_it(plan, keys) END;
			sides[i] := found[i];
			sorted := NOT sorted;
		END LOOP;
		RESET enable_hashagg; RESET enable_sort; RESET enable_incremental_sort;
		RETURN sides;
	END $$});
foreach my $options ('', ', rows => true', ", condition => 'v <> ''x'''")
{
	is(compare("key_columns => '{id}'$options", undone => 1), '2 both 200 199', "many rows of a key that are the same in another order$options");
}
is(undone("DELETE FROM script; SELECT jsonb_array_length(there) > 50 AND jsonb_path_query_array(here, '\$[*] ? (\@.v != \"more\")') = there
	FROM iblt_compare('mine', peer_relation => 'theirs', key_columns => '{id}', rows => true) WHERE key ->> 'id' = '1'"), 't', 'and they are shown in the same order');
my $repaired = undone("DELETE FROM script; SELECT count(*), min(status) FROM iblt_repair('mine', NULL, 'theirs', direction => 'pull', key_columns => '{id}', apply => true);
	SELECT count(*) FROM iblt_compare('mine', peer_relation => 'theirs')");
is($repaired, "2|applied\n0", 'a repair does not mind the order either');
sql('DROP TABLE mine, theirs; TRUNCATE script; DROP FUNCTION iblt_internal.find_sides; ALTER FUNCTION iblt_internal.find_sides_acts RENAME TO find_sides');

# --- conditions --------------------------------------------------------------------------------

# Rows outside of the condition, were they in one of the sketches, would be too many.
foreach my $type ('int', 'text')
{
	sql("CREATE TABLE mine (id $type PRIMARY KEY, n int, v int); INSERT INTO mine SELECT g, g, g FROM generate_series(1, 2000) g; CREATE TABLE theirs (LIKE mine INCLUDING ALL); INSERT INTO theirs TABLE mine;
		UPDATE theirs SET v = 0 WHERE n = 3");
	my $ten = "condition => 'n <= 10', max_differences => 20";
	is(compare($ten), '3 both 1 1', "$type key: the condition is in both sketches");
	sql('UPDATE theirs SET v = -v WHERE n > 10');
	is(compare($ten), '3 both 1 1', "$type key: also where all else differs");
	is(compare("condition => 'n <= 5', peer_condition => 'n <= 10', max_differences => 20"), '10 there 0 1, 3 both 1 1, 6 there 0 1, 7 there 0 1, 8 there 0 1, 9 there 0 1', "$type key: each with its own");
	is(compare("condition => 'n <= 10', peer_condition => 'n <= 8', max_differences => 20"), '10 here 1 0, 3 both 1 1, 9 here 1 0', "$type key: on either side");
	# the lookup sees rows of the keys found that the condition leaves out
	is(compare("condition => 'n <= 10 AND v > 0', max_differences => 20"), '3 here 1 0', "$type key: the condition is in the lookup there");
	is(compare("peer_condition => 'n <= 10 AND v > 0', condition => 'n <= 10', max_differences => 20"), '3 here 1 0', "$type key: of the peer alone");
	sql('UPDATE theirs SET v = 3 WHERE n = 3; UPDATE mine SET v = 0 WHERE n = 3');
	is(compare("condition => 'n <= 10 AND v > 0', max_differences => 20"), '3 there 0 1', "$type key: the condition is in the lookup here");
	is(compare("condition => 'n <= 10 AND v > 0', peer_condition => 'n <= 10', max_differences => 20"), '3 there 0 1', "$type key: of this side alone");
	sql('DROP TABLE mine, theirs');
}

$session->quit;

done_testing();
