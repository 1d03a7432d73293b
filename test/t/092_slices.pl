# Slices of a relation, which are ranges of its key, with a peer: what moves about in the
# heap, logs, plans, and indexes that a side must not trust.
use IbltTest;

random_seed();
my ($here, $there) = awkward_servers([], []);
inside($here, $there);
both('CREATE SCHEMA checks; CREATE EXTENSION amcheck SCHEMA checks');

# All slices of about that many rows: what each finds.
$here->safe_psql('postgres', q{CREATE FUNCTION sliced(relation regclass, peer text, size bigint, options jsonb DEFAULT '{}', thorough boolean DEFAULT NULL)
	RETURNS TABLE (lo text[], hi text[], rows_here bigint, rows_there bigint, keys jsonb[], note text)
	LANGUAGE plpgsql SET search_path = iblt_internal, pg_catalog, pg_temp SET enable_indexonlyscan = off SET DateStyle = 'ISO' SET TimeZone = 'UTC' AS $$
	DECLARE
		conns text[];
		plan iblt_internal.plan;
		r iblt_internal.batch;
	BEGIN
		conns := iblt_internal.connect(ARRAY[NULL, peer], '{NULL,iblt_sliced}');
		plan := iblt_internal.prepare(conns, relation, NULL, jsonb_populate_record(jsonb_populate_record(NULL::iblt_internal.options, jsonb_build_object('relation_name', iblt_internal.relation_name(relation), 'seed', iblt_internal.random_seed()) ||
			'{"max_differences": 100000, "content": "none", "cast_types": false, "extra_columns": "warn", "recheck": 0,
			"timeout": "1 minute", "progress": false, "live": "off", "method": "sketch", "by_index": false}'), options || '{"label": "iblt sliced"}'));
		note := (iblt_internal.slice_key(plan)).problem;
		IF note IS NULL AND thorough IS NOT NULL THEN
			note := iblt_internal.slice_guard(plan, thorough, (iblt_internal.run_see(plan)).probes);
		END IF;
		LOOP
			hi := CASE WHEN (iblt_internal.slice_key(plan)).problem IS NULL THEN iblt_internal.slice_next(plan, lo, size) END;
			plan.lo := lo;
			plan.hi := hi;
			r := iblt_internal.comparison_of(iblt_internal.find_keys(plan));
			rows_here := (r.figures).rows_here;
			rows_there := (r.figures).rows_there;
			keys := ARRAY(SELECT d.key FROM unnest(r.differences) AS d);
			RETURN NEXT;
			EXIT WHEN hi IS NULL;
			IF lo = hi THEN
				RAISE EXCEPTION 'a slice without end';
			END IF;
			lo := hi;
		END LOOP;
		PERFORM iblt_internal.peers_close(conns);
	EXCEPTION WHEN OTHERS THEN
		PERFORM iblt_internal.peers_close(conns);
		RAISE;
	END $$});
my $peer = conninfo($there);
sub sliced { my ($columns, $arguments) = @_; return $here->safe_psql('postgres', "SELECT $columns FROM sliced($arguments)") }

# --- rows that move about in the heap ---------------------------------------------------------

# n changes all the time, on both sides, and moves its row to another block; v does not.
my $rows = 4000;
foreach my $type ('int', 'text')
{
	my $key = $type eq 'int' ? '$1' : "md5(\$1::text)";
	my $value = sub { my ($sql) = @_; return $key =~ s/\$1/$sql/r };
	both("DROP TABLE IF EXISTS moving; CREATE TABLE moving (id $type PRIMARY KEY, v text, n int, room text DEFAULT repeat('x', 200)) WITH (autovacuum_enabled = off);
		INSERT INTO moving SELECT ${\ $value->('i')}, 'v', i FROM generate_series(1, $rows) AS i; CREATE INDEX ON moving (n)");
	my @changed = map { 1 + int(rand($rows)) } (1 .. 20);
	$there->safe_psql('postgres', "UPDATE moving SET v = 'x' WHERE id IN (${\ join(', ', map { $value->($_) } @changed)}); DELETE FROM moving WHERE id = ${\ $value->('17')}");
	my $some = join(', ', map { $value->($_) } @changed);
	my $script = "\\set i random(1, $rows)\nUPDATE moving SET n = n + 1 WHERE id = ${\ $value->(':i')};\nUPDATE moving SET n = n - 1 WHERE id IN ($some);\n";
	my @loads = map { start_load($_, $script, '-c', 1, '-R', 300) } ($here, $there);
	my $expected = $here->safe_psql('postgres', "SELECT string_agg(id::text, ' ' ORDER BY id::text COLLATE \"C\") FROM moving
		WHERE id IN ($some, ${\ $value->('17')})");
	foreach my $round (1 .. 3)
	{
		my $size = 200 + int(rand(2000));
		my ($slices, $here_rows, $there_rows, $found) = split /\|/, $here->safe_psql('postgres', "SELECT count(*), sum(rows_here), sum(rows_there),
			(SELECT string_agg(k ->> 'id', ' ' ORDER BY k ->> 'id' COLLATE \"C\") FROM unnest(string_to_array(string_agg(nullif(array_to_string(keys, E'\\n'), ''), E'\\n'), E'\\n')::jsonb[]) AS k)
			FROM sliced('moving', $peer, $size, '{\"columns\": [\"id\", \"v\"]}')");
		cmp_ok($slices, '>=', $rows / $size, "$type, slices of $size rows: $slices");
		is("$here_rows $there_rows", "$rows ${\ ($rows - 1)}", 'each row is read once on each side');
		is($found, $expected, 'all keys that differ are found, and no others');
	}
	stop_load($_, $type) foreach @loads;
}

# --- plans and logs ---------------------------------------------------------------------------

{
	my $parallel = "session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 -c auto_explain.log_analyze=on"
	  . " -c auto_explain.log_nested_statements=on -c min_parallel_index_scan_size=0 -c min_parallel_table_scan_size=0 -c parallel_setup_cost=0 -c parallel_tuple_cost=0";
	both('CREATE TABLE wide (id bigint PRIMARY KEY, v text); INSERT INTO wide SELECT i, i FROM generate_series(1, 30000) AS i; VACUUM ANALYZE wide');
	my @logs = map { [ $_, -s $_->logfile ] } ($here, $there);
	{
		local $ENV{PGOPTIONS} = "-c $parallel";
		is(sliced("string_agg(concat(rows_here, ' ', rows_there), ', ' ORDER BY lo)", "'wide', " . literal($there->connstr('postgres') . " options='-c $parallel'") . ', 20000'),
			'10000 10000, 20000 20000', 'two slices');
	}
	foreach my $side (@logs)
	{
		my $log = slurp_file($side->[0]->logfile, $side->[1]);
		like($log, qr/Aggregate [^\n]*\n[^\n]*Bitmap Heap Scan on (public\.)?wide .*?Bitmap Index Scan on wide_pkey /s, "an index gives the rows of a slice on " . $side->[0]->name);
		unlike($log, qr/Parallel [A-Z][a-z ]+Scan (using wide_pkey )?on (public\.)?wide/, 'and no workers are started');
		unlike($log, qr/Seq Scan on (public\.)?wide/, 'and reads its rows only');
		like($log, qr/Limit .*?Index Only Scan using wide_pkey on (public\.)?wide/s, 'a walk reads the index');
	}
}

# An error writes the statement to the log of the peer, and the message has the bounds.
{
	both("CREATE TABLE logged (id text PRIMARY KEY, n int); INSERT INTO logged SELECT 'key' || 4711000000 + i, 1 FROM generate_series(1, 3000) AS i");
	$there->safe_psql('postgres', "UPDATE logged SET n = 0 WHERE id = 'key4711001500'");
	my @logs = map { [ $_, -s $_->logfile ] } ($here, $there);
	$here->safe_psql('postgres', "ALTER SYSTEM SET log_min_duration_statement = 0; ALTER SYSTEM SET log_parameter_max_length_on_error = -1; SELECT pg_reload_conf()");
	wait_for($here, "SELECT current_setting('log_min_duration_statement') = '0'");
	like(failure("SELECT count(*) FROM sliced('logged', $peer, 1000, '{\"condition\": \"1 / n > 0\", \"peer_condition\": \"1 / n > 0\"}')"),
		qr/ERROR:  22012: on the peer: division by zero/, 'an error in a slice');
	is(sliced('sum(cardinality(keys))', "'logged', $peer, 1000"), 1, 'and one without');
	foreach my $side (@logs)
	{
		my ($node, $from) = @$side;
		my $log = slurp_file($node->logfile, $from);
		unlike($log, qr/key4711/, 'no bound is in the log of ' . $node->name);
		like($log, qr/ERROR:  division by zero.*STATEMENT:  iblt: SELECT scan_answer\(/s, 'which shows what was asked') if $node == $there;
		like($log, qr/duration: .*sliced\('logged'/, 'which shows what was called') if $node == $here;
	}
	$here->safe_psql('postgres', "ALTER SYSTEM RESET ALL; SELECT pg_reload_conf()");
}

# --- damaged indexes ----------------------------------------------------------------------------

# 098_runs_drift.pl has the index of the key.
both('CREATE TABLE weak (id int PRIMARY KEY, v text); INSERT INTO weak SELECT i, i FROM generate_series(1, 5000) AS i; ANALYZE weak');
is(sliced('DISTINCT note', "'weak', $peer, 2000, thorough => false"),
	'read by index public.weak_pkey (not checked) here, public.weak_pkey (not checked) there', 'a verdict says that indexes were not checked');
both('CREATE INDEX weak_some ON weak (v) WHERE id > 4000; CREATE INDEX weak_text ON weak ((id::text))');
is(sliced('DISTINCT note', "'weak', $peer, 2000, thorough => true"),
	'read by index public.weak_pkey (indexes checked: 3, not checked: 0) here, public.weak_pkey (indexes checked: 3, not checked: 0) there', 'indexes of some rows, or of expressions, too');
unnoticed($there, 'weak_some', "INSERT INTO weak VALUES (6000, 'v')");
like(failure("SELECT * FROM sliced('weak', $peer, 2000, thorough => true)"), qr/ERROR:  XX002: on the peer: index (public\.)?weak_some is damaged/, 'which the planner may take for a slice');

# --- the order of text ----------------------------------------------------------------------------

if (major_version() >= 15)
{
	foreach my $node ($here, $there)
	{
		my $schema = $node == $here ? 'public' : '"Their Iblt"';
		$node->safe_psql('postgres', "CREATE DATABASE icu TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'und'");
		$node->safe_psql('icu', "CREATE TABLE words (id text PRIMARY KEY, v text); INSERT INTO words SELECT CASE WHEN i % 3 = 0 THEN 'k' ELSE 'K' END || i, i FROM generate_series(1, 900) AS i");
	}
	$here->safe_psql('icu', 'CREATE EXTENSION dblink; CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live');
	$there->safe_psql('icu', 'CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; DELETE FROM words WHERE id = \'K400\'');
	my $definition = $here->safe_psql('postgres', "SELECT pg_get_functiondef('sliced'::regproc)");
	$here->safe_psql('icu', $definition);
	my $words = "SELECT count(*), sum(rows_here), sum(rows_there), sum(cardinality(keys)), min(note) FROM sliced('words', " . literal($there->connstr('icu')) . ', 300)';
	is($here->safe_psql('icu', $words), '4|900|899|1|', 'an ICU database: both sides sort alike');
	$there->safe_psql('postgres', "UPDATE pg_database SET datcollversion = '0.1' WHERE datname = 'icu'");
	like($here->safe_psql('icu', $words), qr/^1\|900\|899\|1\|index public\.words_pkey: collation "?default"? had version 0\.1 when it was recorded, and has [\d.]+ now \(there\)$/,
		'of another version once: one slice');
	$there->safe_psql('icu', 'CREATE UNIQUE INDEX ON words (id COLLATE "C")');
	like($here->safe_psql('icu', $words), qr/^1\|/, 'an index by bytes on one side is not enough');
	$here->safe_psql('icu', 'CREATE UNIQUE INDEX ON words (id COLLATE "C")');
	is($here->safe_psql('icu', $words), '4|900|899|1|', 'on both it is');
}

nothing_left('after all');
done_testing();
