# Calls that nobody would make: every C function of the extension, and every aggregate,
# operator, trigger function and sampling method made of one, called by an ordinary role
# with values of all kinds.  Whatever they answer, the server goes on, no error is an
# internal one (XX000), and what other roles own stays as it was.
#
# The functions are those in the catalog, so a new one is called, too.  An argument of a
# type that is not in %values gets texts for the type's input function.
#
#	IBLT_TEST_ROUNDS    how many calls of each function (40)
#	IBLT_TEST_LONG      1 makes them 400
use IbltReader;
use IbltTest;
use MIME::Base64 qw(decode_base64 encode_base64);

IbltTest::share_sessions(0);

my $seed = random_seed();
my $rounds = $ENV{IBLT_TEST_ROUNDS} || ($ENV{IBLT_TEST_LONG} ? 400 : 40);
my $most_memory = 3072;    # MB of a session.  A value has up to 1024.

# --- values -----------------------------------------------------------------------------------

# Of the types of the extension.  Templates have parameters and no cells.
my %made = (
	iblt => [ 'iblt_new(10)', 'iblt_new(100, key_size => 8)', 'iblt_new(1000000, key_size => 8)', 'iblt_new(100, hashes => 3)',
		'iblt_new(100, hashes => 8, key_size => 4096)', 'iblt_new(50, with_values => true)', 'iblt_new(20, value_size => 4096, key_size => 8)',
		'iblt_new(100, seed => -1)', 'iblt_new(1, failure => 0.1)', 'iblt_new(100, get_success => 0.9)', 'iblt_drop_subtable(iblt_new(10), 1)',
		map({ my $capacity = $_; map {; "iblt_internal.iblt_compare_template($capacity, $_, 7)" } 8, 16 } 100, 1000),
		map({; "iblt_live('$_')" } qw(mine.t mine.u mine.parts shown)), map({; "(SELECT template FROM iblt_internal.iblt_live_options('$_'))" } qw(mine.t mine.u)),
		map {; "(SELECT $_ FROM generate_series(1, 60) g)" } 'iblt_agg(g, 1)', '-iblt_agg(g::bigint, g)', 'iblt_agg(1::bigint, 1)', 'iblt_agg(g::bigint, 1, 1000)',
		'iblt_agg_bigint(g, 1, iblt_new())', 'iblt_agg(g::text, 1, 100)', 'iblt_agg(ROW(g, g::text), 1, iblt_new(50, key_size => 64))', 'iblt_agg(g, 1) - iblt_agg(g + 5, 1)',
		'iblt_agg(md5(g::text)::uuid, g, iblt_new(100, key_size => 16))', 'iblt_agg(g::numeric / 3, g::text, iblt_new(50, with_values => true))',
		'iblt_agg(g::bigint, 2, iblt_internal.iblt_compare_template(100, 8, 7))', 'iblt_drop_subtable(iblt_agg(g, 1), 1)' ],
	iblt_strata => [ 'iblt_strata_new()', 'iblt_strata_new(1)', 'iblt_strata_new(64, 8, 8)',
		map {; "(SELECT $_ FROM generate_series(1, 60) g)" } 'iblt_strata_agg(g, 1)', '-iblt_strata_agg(g::text, g)', 'iblt_strata_agg(g, 1) - iblt_strata_agg(g + 5, 1)' ],
	kbf => [ 'kbf_new(10)', 'kbf_new(1000, 2)', "kbf_new(10, ARRAY['a', 'b', 'c'])",
		map {; "(SELECT $_ FROM generate_series(1, 60) g)" } 'kbf_agg(g, g % 3 + 1, kbf_new(100, 3))', 'kbf_agg(g, 1, 10)',
		"kbf_agg(g::text, (ARRAY['a', 'b'])[g % 2 + 1], kbf_new(100, ARRAY['a', 'b']))" ]);
my %number = map { $_ => scalar @{ $made{$_} } } keys %made;
my @bytes;    # such values with changed bytes

sub stored { my ($type) = @_; return "(SELECT v FROM mine.${type}s WHERE n = " . int(rand($number{$type})) . ')' }

# Changed where it matters most, mostly with the checksum that goes with it.
sub changed
{
	my ($bytes) = @_;
	foreach (1 .. pick(1, 1, 1, 2, 5))
	{
		my $at = int(rand(pick(48, 48, 560, length $bytes)));
		substr($bytes, $at % length $bytes, 1) = chr(pick(0, 1, 2, 4, 8, 127, 128, 255, int(rand(256))));
	}
	return $bytes if pick(0 .. 9) == 0;
	my ($out) = run_reader('iblt_reader.py', encode_base64($bytes, ''), 'reseal', '-');
	return decode_base64($out);
}

my @relations = map {; "to_regclass('$_')" } qw(mine.t mine.t mine.u mine.parts mine.parts_1 mine.plain mine.view mine.plain_id mine.number mine.stored shown secret
	partly pg_catalog.pg_class pg_catalog.pg_locks pg_catalog.pg_class_oid_index iblt_internal.tracked iblt_internal.run_head pg_toast.pg_toast_1255);
my $wire = "iblt_internal.iblt_compare_fold(iblt_live('mine.t'), 90)::text";
my @texts = (map({ literal($_) } '', 'id', 'body', 'mine.t', 'nothing', 'iblt', '00000', 'P0001', 'UTC', 'ISO, MDY', 'postgres', 'Default', 'a', "\x01%s%n", '\\', 'id > 5',
	'id > 5 OR (SELECT true)', 'body IS NOT NULL AND id = 1', 'random() > 0', ') --', 'int8', 'read_heap', 'sketch', 'SELECT 1 AS id, 2 AS body', 'id = ANY (ARRAY[1, 2])', 'mine.own(id) > 0', "body LIKE '%1%'", '$1 = id', 'id'),
	"repeat('x', 100000)", $wire, "left($wire, 500)",
	map {; "overlay($wire PLACING '$_' FROM " . (1 + int(rand(200))) . ')' } qw(! ~ A 0 zzzz));
my @integers = (0, 1, 1, 2, 3, 4, 7, 8, 9, 16, 24, 64, 100, 100, 1000, 2520, 5040, 65536, 16777216, 16777217, -1, -2147483648, 2147483647);
my @stores = map {; "iblt_internal.$_" } qw(run_head run_table run_slice run_difference run_range);

sub relation { return pick(@relations, @relations, '0::regclass', '4294967295::regclass', '(SELECT gone FROM mine.gone)::regclass') }

sub generation { return "(SELECT generation FROM iblt_internal.iblt_live_options('" . pick('mine.t', 'mine.u') . "'))" }

# A row of a store of runs, or of something that is none.
sub row
{
	my ($run, $table_number, $number, $relid) = map { pick('null', 0, 1, 1, 2, -1, 2147483647) } 1 .. 4;
	return pick('(SELECT t FROM mine.t AS t LIMIT 1)', map {; "NULL::$_" } @stores, 'iblt_internal.tracking', 'iblt_internal.base', 'mine.plain') if pick(0, 1);
	return 'jsonb_populate_record(NULL::' . pick(@stores) . ', ' . literal(qq({"run": $run, "table_number": $table_number, "number": $number, "relid": $relid, "options": {},
		"lo": ["1"], "hi": ["x", null], "seed": -1, "kept": 9223372036854775807})) . ')';
}

sub head
{
	return 'jsonb_populate_record(NULL::iblt_internal.run_head, ' . literal(sprintf '{"run": 1, "table_number": %s, "number": %s, "options": {}, "target": "x"}', pick(0, 0, 'null'), pick(0, 0, -1)) . ')';
}

my @any = ('1', '1::bigint', '-1::smallint', "'a'::text", "''::text", "'x'::varchar(3)", "repeat('y', 100000)", '1.5', "'NaN'::numeric", '1e100::numeric', "'{}'::int[]",
	'ARRAY[1, NULL, 3]', "'[5:6]={1,2}'::int[]", "ARRAY['a', NULL]", 'ROW(1, NULL)', "ROW(1, 'a'::text)", 'ROW()', "'a'::bytea", "'\\x'::bytea", 'now()', "'infinity'::timestamptz",
	'current_date', "'1 mon'::interval", "'[1,5)'::int4range", "'happy'::mine.mood", '5::mine.positive', literal('{"a": 1}') . '::jsonb', "'[]'::json", 'gen_random_uuid()', "'1.2.3.4'::inet",
	"B'101'", 'NULL::int', 'NULL::text', 'NULL::mine.positive', "'pg_class'::regclass", '1::money', "'a'::name", "'x'::\"char\"", 'true', "'(1,2)'::point", "'a b'::tsvector",
	'(SELECT p FROM mine.plain AS p LIMIT 1)', "'NaN'::float8", '-0.0::float8', "'0/0'::pg_lsn", "'<a/>'::xml", 'NULL', "'untyped'");

sub any_value { return pick(@any, @any, row(), stored('iblt'), stored('kbf')) }

my %values = (
	boolean => sub { pick('true', 'false') },
	integer => sub { pick(@integers) },
	bigint => sub { pick(@integers, '9223372036854775807', "'-9223372036854775808'::bigint", 4294967296, generation()) },
	jsonb => sub { pick(map {; "'$_'" } '{}', '[]', '[null]', '1', '{"bare": {"a": 1}}', '{"columns": [{"name": "id"}], "keys": [], "bare": ["a"]}') },
	interval => sub { pick(map {; "'$_'" } '0', '1 s', '-1 s', '2 years', '178000000 years') },
	'double precision' => sub { pick(qw(0 1 0.5 0.001 0.999999 1e-300 1e300 -1 'NaN' 'Infinity' '-Infinity')) },
	text => sub { pick(@texts) },
	'text[]' => sub { pick("'{}'", 'ARRAY[NULL]::text[]', "ARRAY['SELECT 1', 'SELECT 2']", "ARRAY['id']", "ARRAY['body', 'id']", "ARRAY['id', 'id']", 'ARRAY[NULL]', "'{{id,body},{a,b}}'", "'[5:6]={id,body}'", "ARRAY['ctid']", "ARRAY['']",
			"array_fill('body'::text, ARRAY[2000])", 'ARRAY(SELECT g::text FROM generate_series(1, 300) g)') },
	'integer[]' => sub { pick("'{}'", 'ARRAY[1]', 'ARRAY[1, 2, 3, 4]', 'ARRAY[NULL, 8, 0, -1, 2147483647]', "'{{1,2},{3,4}}'", "'[5:6]={1,2}'", 'array_fill(2, ARRAY[2000])') },
	'iblt_internal.run_head' => \&head,
	bytea => sub { pick("''", "'\\x00'", "decode(repeat('00', 64), 'hex')", "decode(repeat('ff', 100), 'hex')", "(SELECT keys FROM iblt_internal.iblt_compare_decode(iblt_live('mine.t')) LIMIT 1)",
			stored(pick(sort keys %made)) . '::bytea', "'\\x" . (@bytes ? unpack('H*', pick(@bytes)) : '') . "'") },
	regclass => \&relation,
	oid => sub { pick(relation(), relation(), 0, 1, 4294967295) },
	tid => sub { pick(map {; "'$_'" } '(0,1)', '(0,1)', '(1,1)', '(0,0)', '(0,65535)', '(100,1)', '(2147483648,1)', '(4294967294,1)', '(4294967295,0)', '(4294967295,1)') },
	xid => sub { pick(map {; "'$_'" } 0, 1, 2, 3, 3, 1000, 4294967295) },
	cstring => sub { '(' . pick(@texts, stored(pick(sort keys %made)) . '::text', (@bytes ? literal(encode_base64(pick(@bytes))) : ())) . ')' },
	'timestamp with time zone' => sub { pick('now()', "'infinity'", "'-infinity'", "'4714-11-24 BC'", "'294276-12-31'") },
	'kbf[]' => sub { pick("'{}'", 'ARRAY[' . stored('kbf') . ', ' . stored('kbf') . ']', 'ARRAY[NULL, ' . stored('kbf') . ']', 'ARRAY[[' . stored('kbf') . ']]') },
	anyarray => sub { pick("'{}'::text[]", 'ARRAY[1, NULL]', "ARRAY['sad'::mine.mood, NULL]", map { argument("iblt_internal.$_\[]") } qw(side_column plan_column side)) },
	anyelement => \&any_value, anycompatible => \&any_value, '"any"' => \&any_value,
	map { my $type = $_; $type => sub { stored($type) } } keys %made);

sub template { return '(SELECT v FROM mine.iblts WHERE n = ' . int(rand(17)) . ')' }

# What an argument of this name is for, so that a call comes past the first checks.
my %likely = (
	relation => sub { pick(map {; "'$_'::regclass" } qw(mine.t mine.t mine.t mine.u shown)) },
	generation => \&generation,
	key_columns => sub { "ARRAY['id']" },
	columns => sub { "ARRAY['body']" },
	keys => $values{bytea},
	capacity => sub { pick(10, 100, 1000) },
	subtable_cells => sub { pick(8, 24, 2520) },
	condition => sub { pick(grep { /id/ } @texts) },
	name => sub { pick("'a'", "'b'") },
	store => \&row,
	row => \&row,
	run => sub { pick(1, 2) },
	table_number => sub { pick(0, 1) },
	number => sub { pick(0, 1) },
	base => \&template, scanned => \&template, template => \&template,
	at => sub { 'now()' });

my %fields;    # the types of the fields of each composite type
our $depth = 0;

sub composite
{
	my ($type) = @_;
	local $depth = $depth + 1;
	return "NULL::$type" if $depth > 3;
	return 'ROW(' . join(', ', map { $values{$_} || $fields{s/\[\]$//r} ? argument($_) : 'NULL' } @{ $fields{$type} }) . ")::$type";
}

sub argument
{
	my ($type, $name) = @_;
	my $any = $type =~ /any/;
	my $one = $type =~ s/\[\]$//r;
	return pick('NULL::int', 'NULL::text', 'NULL::iblt_internal.run_head') if $any and pick(0 .. 14) == 0;
	return "NULL::$type" if not $any and pick(0 .. 14) == 0;
	return $likely{$name}->() if $likely{ $name // '' } and pick(0 .. 9) < 6;
	return composite($type) if $fields{$type} and not $values{$type};
	return 'ARRAY[' . join(', ', map { composite($one) } 1 .. pick(0, 1, 1, 2, 3)) . "]::$type" if $fields{$one};
	return pick(@texts) . "::text::$type" if not $values{$type};
	return $values{$type}->() . ($any ? '' : "::$type");
}

# --- the server, and what the values name -------------------------------------------------------

my $node = server('forged', 'fsync = off', 'max_prepared_transactions = 5', 'log_error_verbosity = verbose', 'restart_after_crash = on', 'max_locks_per_transaction = 256', 'track_commit_timestamp = on');
my $secret = "hush$seed";
my $largest = 0;

$node->safe_psql('postgres', create_extensions('') . qq{CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE postgres TO mallory;
	CREATE TABLE shown (id bigint PRIMARY KEY, body text); INSERT INTO shown SELECT g, g FROM generate_series(1, 100) g; GRANT SELECT ON shown TO mallory;
	CALL iblt_track('shown', capacity => 100); UPDATE shown SET body = 'new' WHERE id < 10;
	CREATE TABLE secret AS SELECT 1 AS id, '$secret' AS body;
	CREATE TABLE partly (id bigint PRIMARY KEY, body text); INSERT INTO partly VALUES (1, '$secret'); GRANT SELECT (id) ON partly TO mallory;
	SELECT iblt_internal.iblt_run_add(jsonb_populate_record(NULL::iblt_internal.run_head, '{"run": 1, "table_number": 0, "number": 0, "target": "$secret"}'))});

# What must be the same at the end.
my $others = q{SELECT iblt_live_verify('shown'), generation FROM iblt_internal.iblt_live_options('shown');
	SELECT * FROM iblt_internal.iblt_run_rows(NULL::iblt_internal.run_head)};
# Nobody writes to these.
$others .= q{; SELECT c.oid::regclass, pg_relation_size(c.oid) FROM pg_class c WHERE c.oid IN ('shown'::regclass, 'secret'::regclass, 'partly'::regclass) OR c.relname ~ '^pg_(am|language|ts_parser|authid|database|tablespace)(_|$)' ORDER BY 1};
my $before = $node->safe_psql('postgres', $others);

# Runs statements as the role in a session.  Errors are in the server's log.
sub run_as_role
{
	my (@statements) = @_;
	my $file = $node->basedir . '/forged.sql';
	unlink $file;
	append_to_file($file, "SET client_min_messages = error; SET statement_timeout = '500ms'; SELECT pg_backend_pid() AS pid \\gset\n" . join(";\n", @statements) . ";\n"
		  . "\\setenv FORGED_PID :pid\n\\! echo memory \$(grep -s VmHWM /proc/\$FORGED_PID/status)\n");
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-U', 'mallory', '-d', $node->connstr('postgres'), '-f', $file ], '>', \$out, '2>', \$err,
		IbltTest::time_limit());
	$largest = $1 / 1024 if $out =~ /^memory VmHWM: *(\d+) kB/m and $1 / 1024 > $largest;
	unlike("$out$err", qr/\Q$secret/, 'nothing of what the role may not read is in an answer') if "$out$err" =~ /\Q$secret/;
	$node->poll_query_until('postgres', 'SELECT true') if $err =~ /connection to server was lost|server closed the connection/;
	return $err;
}

# What each session has anew.
my @tables = split /;\n/, q{RESET search_path; DROP TABLE IF EXISTS mine.t, mine.u, mine.parts;
CREATE TABLE mine.t (id bigint PRIMARY KEY, gone int, body text, n int DEFAULT 1); ALTER TABLE mine.t DROP COLUMN gone;
INSERT INTO mine.t SELECT g, g FROM generate_series(1, 200) g;
CREATE TABLE mine.u (id uuid PRIMARY KEY, body text); INSERT INTO mine.u SELECT md5(g::text)::uuid, g FROM generate_series(1, 50) g;
CREATE TABLE mine.parts (id bigint PRIMARY KEY, body text) PARTITION BY RANGE (id);
CREATE TABLE mine.parts_1 PARTITION OF mine.parts FOR VALUES FROM (0) TO (100); CREATE TABLE mine.parts_2 PARTITION OF mine.parts DEFAULT;
INSERT INTO mine.parts SELECT g, g FROM generate_series(1, 150) g;
CALL iblt_track('mine.t', capacity => 100); CALL iblt_track('mine.u', capacity => 100); CALL iblt_track('mine.parts', capacity => 100);
UPDATE mine.t SET body = body || 'x' WHERE id < 20};

my $complaints = run_as_role(q{CREATE SCHEMA mine; CREATE TYPE mine.mood AS ENUM ('sad', 'happy'); CREATE DOMAIN mine.positive AS integer CHECK (VALUE > 0);
	CREATE TABLE mine.plain (id bigint, body text, mood mine.mood, parts int[]); CREATE INDEX plain_id ON mine.plain (id);
	INSERT INTO mine.plain SELECT g, repeat('x', g), 'sad', ARRAY[g, NULL] FROM generate_series(1, 300) g;
	CREATE SEQUENCE mine.number; CREATE MATERIALIZED VIEW mine.stored AS SELECT * FROM mine.plain; CREATE VIEW mine.view AS SELECT * FROM mine.plain;
	CREATE FUNCTION mine.own(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $1'; CREATE TABLE mine.big AS SELECT g::bigint AS id FROM generate_series(1, 300) g;
	CREATE TABLE mine.short (); CREATE TABLE mine.gone AS SELECT 'mine.short'::regclass::oid AS gone; DROP TABLE mine.short},
	@tables, map { my $type = $_; my $n = 0; ("CREATE TABLE mine.${type}s (n int PRIMARY KEY, v $type)", map {; "INSERT INTO mine.${type}s VALUES (" . $n++ . ", $_)" } @{ $made{$type} }) } sort keys %made);
is($complaints, '', 'all values could be made');

# Values with changed bytes.  Those that are refused are still texts and bytes.
run_as_role(map
	{
		my $type = $_;
		my @right = map { pack('H*', $_) } split /\n/, $node->safe_psql('postgres', "SELECT encode(v::bytea, 'hex') FROM mine.${type}s WHERE length(v::bytea) < 60000 ORDER BY n");
		my @changed = map { changed(pick(@right)) } 1 .. 60;
		push @bytes, @changed;
		map {; "INSERT INTO mine.${type}s SELECT count(*), '\\x" . unpack('H*', $_) . "'::bytea::$type FROM mine.${type}s" } @changed;
	} sort keys %made);
$number{$_} = $node->safe_psql('postgres', "SELECT count(*) FROM mine.${_}s") foreach keys %made;
note('values: ' . join(', ', map {; "$number{$_} of $_" } sort keys %made));

# --- what can be called ------------------------------------------------------------------------

# Aggregates of the role's own, of every function whose result can be its first argument again.
my $steps = qq{(SELECT p.oid, p.oid::regproc AS name, p.prorettype::regtype AS type, oidvectortypes(p.proargtypes) AS types,
	regexp_replace(oidvectortypes(p.proargtypes), '^[^,]*, ', '') AS rest
	FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid AND @{[ of_extensions() ]}
	WHERE p.prokind = 'f' AND p.pronargs > 1 AND p.proargtypes[0] = p.prorettype AND p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'c'))};
run_as_role(split /\n/, $node->safe_psql('postgres', qq{
	SELECT format('CREATE AGGREGATE mine.own_%s(%s) (SFUNC = %s, STYPE = %s%s)', s.oid, rest, name, type,
		CASE WHEN s.oid::int % 2 = 0 AND type = 'iblt'::regtype THEN (SELECT ', INITCOND = ' || quote_literal(v) FROM mine.iblts WHERE n = s.oid::int % 30) END) FROM $steps AS s;
	SELECT format('CREATE AGGREGATE mine.moving_%s_%s(%s) (SFUNC = %s, STYPE = %s, MSFUNC = %s, MINVFUNC = %s, MSTYPE = %s)', a.oid, b.oid, a.rest, a.name, a.type, a.name, b.name, a.type)
	FROM $steps AS a JOIN $steps AS b USING (types)}));

my $functions = qq{SELECT p.oid::regproc, CASE WHEN p.prokind = 'a' THEN 'a' WHEN 'internal'::regtype = ANY (p.proargtypes) THEN 'i'
		WHEN p.prorettype = 'trigger'::regtype THEN 't' ELSE 'f' END, p.provariadic <> 0,
		array_to_string(ARRAY(SELECT format_type(t, NULL) || ':' || coalesce(p.proargnames[i], '') FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS x(t, i) ORDER BY i), ','), p.oid
	FROM pg_proc p LEFT JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e' LEFT JOIN pg_extension e ON e.oid = d.refobjid
	WHERE p.prokind = 'f' AND @{[ of_extensions() ]} AND p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'c')
		OR p.prokind = 'a' AND (@{[ of_extensions() ]} OR p.proowner = 'mallory'::regrole) ORDER BY p.oid};
push @{ $fields{ $_->[0] } }, $_->[1] foreach map { [ split /\|/ ] } split /\n/, $node->safe_psql('postgres', "SELECT c.reltype::regtype, format_type(a.atttypid, NULL)
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind = 'c' AND c.relnamespace = 'iblt_internal'::regnamespace ORDER BY 1, a.attnum");
my %called;
foreach (split /\n/, $node->safe_psql('postgres', $functions))
{
	my ($name, $kind, $variadic, $arguments, $oid) = split /\|/;
	push @{ $called{$kind} }, { name => $name, variadic => $variadic eq 't', arguments => [ map { [ split /:/ ] } split /,/, $arguments ], oid => $oid };
}
note(join ', ', map { scalar @{ $called{$_} } . " of kind $_" } sort keys %called);
cmp_ok(scalar @{ $called{$_} }, '>', 1, "the catalog has functions of kind $_") foreach qw(f a t i);

# Functions that take "internal" cannot be called by name.  They belong to something that is called.
is($node->safe_psql('postgres', 'SELECT p::regprocedure FROM unnest(ARRAY[' . join(', ', map { $_->{oid} } @{ $called{i} }) . q{]) AS p
	WHERE NOT EXISTS (SELECT FROM pg_aggregate WHERE p IN (aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn, aggmtransfn, aggminvtransfn, aggmfinalfn))
	AND NOT EXISTS (SELECT FROM pg_type WHERE typreceive = p) AND NOT EXISTS (SELECT FROM pg_proc WHERE prosupport = p)}), '', 'all that take "internal" are part of something that is called');

# Arguments that are right, of functions that random ones seldom get into.
my $difference = '(SELECT iblt_agg(g, 1) - iblt_agg(g + 5, 1) FROM generate_series(1, 60) g)';
my $keys = "(SELECT keys FROM iblt_internal.iblt_compare_decode($difference))";
my %right = (
	iblt_in => ["iblt_live('mine.t')::text::cstring"],
	kbf_in => ['kbf_new(10)::text::cstring'],
	iblt_fold => [ $difference, 10 ],
	iblt_insert => [ 'iblt_new(10)', '1', '1::bigint' ],
	iblt_delete => [ "iblt_live('mine.t')", '1', '1::bigint' ],
	kbf_insert => [ 'kbf_new(10)', '1', '1' ],
	kbf_update => [ '(SELECT kbf_agg(g, 2, 10) FROM generate_series(1, 8) g)', '1', '2', '1' ],
	kbf_delete => [ '(SELECT kbf_agg(g, 2, 10) FROM generate_series(1, 8) g)', '1', '2' ],
	iblt_compare_fold => [ "iblt_live('mine.t')", 90 ],
	iblt_salvage_keys => [ "set_byte($difference::bytea, 1500, 7)", 'NULL', 'NULL' ],
	iblt_compare_next => [ 360, 90, 100 ],
	iblt_compare_join => [ $difference, $keys, $keys ],
	iblt_compare_keys => [ $difference, $keys, 0, 10 ],
	iblt_track_begin => [ "'mine.t'::regclass", "ARRAY['id', 'body']", '1', 'false', 'false', 'false', '100', 'iblt_internal.iblt_compare_template(100, 8, 7)' ],
	iblt_track_set_base => [ "'mine.t'::regclass", "(SELECT generation FROM iblt_internal.iblt_live_options('mine.t'))", "iblt_live('mine.t')" ],
	iblt_live_fold => [ "'mine.t'::regclass", 10, 90, 0.1 ],
	iblt_live_base => [ "'mine.t'::regclass", "iblt_live('mine.t')" ],
	iblt_agg_bigint_trans => [ 'NULL', 1, 1, 'iblt_new()' ],
	iblt_peer_settings => [ "'ISO'", "'postgres'", "'Default'", "'a'" ],
	iblt_run_add => [ qq{jsonb_populate_record(NULL::iblt_internal.run_head, '{"run": 0, "table_number": 0, "number": 0}')} ],
	iblt_salvage => [ "set_byte($difference::bytea, 1500, 7)", 'NULL', '(SELECT iblt_agg(g, 1) - iblt_agg(g + 4, 1) FROM generate_series(1, 60) g)' ],
	iblt_run_lock => [ 1, 0, 0, 'true' ],
	iblt_row_time => [ "'shown'::regclass", "'(0,1)'", '(SELECT xmin FROM shown LIMIT 1)' ]);

sub arguments
{
	my ($function, @first) = @_;
	my @arguments = map { argument(@$_) } @{ $function->{arguments} };
	my $right = $right{ $function->{name} =~ s/.*\.//r } // [];
	# all of them, all but about one, or none
	my $wrong = pick(0, 3, 1);
	@arguments = map { int(rand(4)) < $wrong ? $arguments[$_] : $right->[$_] // $arguments[$_] } 0 .. $#arguments;
	splice(@arguments, 0, scalar @first, @first);
	return @arguments if not $function->{variadic};
	pop @arguments;
	return (@arguments, 'VARIADIC ' . any_value()) if pick(0 .. 4) == 0;
	return (@arguments, map { any_value() } 1 .. pick(0, 1, 1, 2, 3, 99, 101));
}

sub called_as { my ($function, @arguments) = @_; return "$function->{name}(" . join(', ', @arguments) . ')' }

sub call
{
	my ($function) = @_;
	my @arguments = arguments($function);
	my $call = called_as($function, @arguments);
	my $parallel = q{SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL max_parallel_workers_per_gather = 1; };
	my $how = pick(0 .. 19);
	return "SELECT $call" if $how <= 2;
	return "SELECT * FROM $call" if $how <= 5;
	return "$parallel SELECT count(*) FROM mine.big WHERE $call IS NULL" if $how == 6;
	return "$parallel SELECT count(*) FROM mine.big CROSS JOIN (SELECT $call OFFSET 0) AS x" if $how == 7;
	return "SELECT pg_column_size($call)" if $how <= 16 or $function->{variadic} or not @arguments;
	my @names = map {; "a$_" } 1 .. @arguments;
	return 'SELECT pg_column_size(' . called_as($function, @names) . ') FROM (SELECT ' . join(', ', @arguments) . ' FROM generate_series(1, 3) OFFSET 0) AS x(' . join(', ', @names) . ')';
}

sub aggregate
{
	my ($function) = @_;
	my $call = called_as($function, arguments($function, pick(0, 1) ? 'g' : ()));
	my $how = pick(0 .. 5);
	return "SELECT pg_column_size($call OVER (ORDER BY g ROWS BETWEEN " . pick('1 PRECEDING AND CURRENT ROW', '2 PRECEDING AND 1 PRECEDING', 'CURRENT ROW AND UNBOUNDED FOLLOWING') . ')) FROM generate_series(1, 6) g'
	  if $how <= 1;
	return "SELECT pg_column_size($call) FROM generate_series(1, 6) g GROUP BY GROUPING SETS ((g % 2), ())" if $how == 2;
	return "SELECT pg_column_size($call) FROM (SELECT id AS g FROM mine.big) x" if $how == 3;
	return "SELECT pg_column_size($call FILTER (WHERE g > 3)) FROM generate_series(1, 6) g" if $how == 4;
	return "SELECT pg_column_size($call) FROM generate_series(1, " . pick(0, 1, 3, 30) . ') g';
}

my @writes = ("INSERT INTO mine.t (id, body) SELECT g, 'y' FROM generate_series(190, 210) g ON CONFLICT (id) DO UPDATE SET body = excluded.body", 'UPDATE mine.t SET body = NULL WHERE id % 7 = 0',
	'DELETE FROM mine.t WHERE id > 205', 'UPDATE mine.t SET id = id + 1000 WHERE id < 3', 'UPDATE mine.u SET body = body || 1', 'UPDATE mine.parts SET id = id + 60', 'DELETE FROM mine.parts WHERE id > 140');
my @changes = (@writes, @writes, @writes, 'TRUNCATE mine.u', 'TRUNCATE mine.parts_1', 'ALTER TABLE mine.t ADD COLUMN more int DEFAULT 5', 'ALTER TABLE mine.t ALTER n TYPE bigint', 'ALTER TABLE mine.u DROP COLUMN body',
	'ALTER TABLE mine.t DISABLE TRIGGER USER', 'DROP TRIGGER iblt_track_row ON mine.t', 'ALTER TABLE mine.parts DETACH PARTITION mine.parts_1', 'ALTER TABLE mine.t RENAME body TO other', 'DROP TABLE mine.u',
	"SELECT iblt_live_verify('mine.t')", 'SELECT count(*) FROM iblt_live_status()', 'SELECT count(*) FROM iblt_audit_run_stats', 'SELECT count(*) FROM iblt_audit_differences', "CALL iblt_live_rebuild('mine.t')", "CALL iblt_untrack('mine.u')");

# A trigger that fires.
sub trigger
{
	my ($function) = @_;
	my $table = pick(qw(mine.t mine.u mine.plain mine.plain mine.parts mine.view));
	my $name = pick(qw(forged iblt_track_row iblt_track_truncate));
	my $rows = pick('ROW', 'ROW', 'STATEMENT');
	my $constraint = $rows eq 'ROW' ? pick('', '', ' CONSTRAINT') : '';
	my $event = $rows eq 'ROW' ? pick('INSERT OR UPDATE OR DELETE', 'UPDATE OF body') : pick('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE');
	my $tables = $rows eq 'STATEMENT' && pick(0, 1) ? { INSERT => 'NEW', DELETE => 'OLD', UPDATE => 'OLD' }->{$event} : undef;
	return "SELECT $function->{name}()" if pick(0 .. 19) == 0;
	return ("DROP TRIGGER IF EXISTS $name ON $table",
		"CREATE$constraint TRIGGER $name " . ($constraint ? 'AFTER' : pick('AFTER', 'AFTER', 'BEFORE', 'INSTEAD OF')) . " $event ON $table " . ($constraint ? 'DEFERRABLE INITIALLY DEFERRED ' : '') . ($tables ? "REFERENCING $tables TABLE AS x " : '')
		  . "FOR EACH $rows " . pick('', '', 'WHEN (true) ') . "EXECUTE FUNCTION $function->{name}(" . pick('', '', "'a'", "'1', '2', '3'") . ')',
		pick(@writes), "INSERT INTO $table (body) VALUES ('x')", "INSERT INTO $table (id, body) SELECT id, body FROM mine.t LIMIT 1", "UPDATE $table SET body = 'z'", 'SET CONSTRAINTS ALL IMMEDIATE', "DELETE FROM $table",
		($table eq 'mine.plain' || pick(0 .. 3) ? ("DROP TRIGGER IF EXISTS $name ON $table") : ()));
}

# --- the calls ---------------------------------------------------------------------------------

my %make = (f => \&call, a => \&aggregate, t => \&trigger);
my $operators = $node->safe_psql('postgres', qq{SELECT coalesce(oprleft::regtype::text, ''), oprname, oprright::regtype FROM pg_operator WHERE oprcode::oid IN
	(SELECT objid FROM pg_depend d JOIN pg_extension e ON e.oid = refobjid WHERE @{[ of_extensions() ]} AND classid = 'pg_proc'::regclass) ORDER BY oid});
my @calls = map { my ($left, $name, $right) = split /\|/; map { [ 'SELECT ' . ($left eq '-' ? '' : argument($left)) . " $name " . argument($right) ] } 1 .. $rounds } split /\n/, $operators;
foreach my $kind (sort keys %make)
{
	my $often = { t => 2, a => 0.5 }->{$kind} // 1;
	foreach my $function (@{ $called{$kind} })
	{
		push @calls, map { [ $make{$kind}->($function) ] } 1 .. $often * $rounds;
	}
}
for (my $i = @calls; --$i > 0;)
{
	my $j = int(rand($i + 1));
	@calls[ $i, $j ] = @calls[ $j, $i ];
}

# Some are alone, some share a transaction, which goes on after an error.
sub transaction
{
	my (@together) = @_;
	return map { @$_ } @together if pick(0, 1);
	my $end = pick('COMMIT', 'COMMIT', 'ROLLBACK', "PREPARE TRANSACTION 'forged'; " . pick('COMMIT', 'ROLLBACK') . " PREPARED 'forged'");
	return ('BEGIN ' . pick('', '', '', 'ISOLATION LEVEL REPEATABLE READ', 'ISOLATION LEVEL SERIALIZABLE', 'READ ONLY'), (map { (pick(0 .. 2) ? () : pick(@changes), @$_) } @together), $end);
}

# Calls that once ended the server, or met an internal error.
my $finish = "SELECT iblt_internal.iblt_track_set_base('mine.t', (SELECT generation FROM iblt_internal.iblt_live_options('mine.t'))";
unshift @calls, map { [$_] } map({; "SELECT iblt_internal.iblt_live_base('mine.t', iblt_new($_, key_size => 8))" } 100, 1000000),
	map({; ("$finish, iblt_new($_, key_size => 8))", "SELECT iblt_live('mine.t')") } 100, 1000000),
	"SELECT iblt_internal.iblt_compare_check_expression('mine.t', 'id > 5 OR (SELECT true)', true, true)", 'SELECT iblt_live(0)', 'SELECT iblt_internal.iblt_track_row()',
	"SELECT iblt_internal.iblt_run_add(jsonb_populate_record(NULL::iblt_internal.run_head, '{}'))", 'SELECT iblt_internal.iblt_run_put(NULL::iblt_internal.run_head)',
	q{SELECT iblt_internal.iblt_rows_named(array_fill(2000000000, ARRAY[9]), '{a}')}, map({; "SELECT iblt_internal.iblt_repair_put('a', $_, ARRAY[1])" } 178956971, 2147483647), q{SELECT iblt_internal.key_size(ARRAY[jsonb_populate_record(NULL::iblt_internal.plan_column, '{"cast_to": ""}')])};
my $number = scalar @calls;
while (@calls)
{
	my @session = splice(@calls, 0, 1000);
	my @statements = ("\\set ON_ERROR_ROLLBACK on", @tables);
	push @statements, transaction(splice(@session, 0, pick(1, 3, 8))) while @session;
	run_as_role(@statements, 'SELECT count(*) FROM iblt_live_status()', map {; "SELECT iblt_live_merge('$_')" } qw(mine.t mine.u mine.parts));
}
note("$number calls, the largest session had " . int($largest) . ' MB');

# --- what came of them ---------------------------------------------------------------------------

# Values as a client sends them in binary.
my $copy = 0;
run_as_role(map
	{
		my $file = $node->basedir . '/' . $copy++ . '.copy';
		append_to_file($file, "PGCOPY\n\xff\r\n\0" . pack('NNnN/a*n', 0, 0, 1, pick(@bytes), -1));
		map { "\\copy mine.${_}s (v) FROM $file WITH (FORMAT binary)\nSELECT" } sort keys %made;
	} 1 .. 20);

is($node->safe_psql('postgres', $others), $before, 'what others own is as it was');
cmp_ok($largest, '<', $most_memory, "no session takes $most_memory MB");
my $log = slurp_file($node->logfile);
my @entries = split /^(?=\d{4}-\d\d-\d\d )/m, $log;
my %seen;
# a parallel worker that is not needed any more says FATAL
my @crashes = grep { !/57P01: terminating background worker "parallel worker"/ } grep { /PANIC|FATAL|TRAP|terminated by signal|runtime error|AddressSanitizer|server process .* exited|Failed process/ } @entries;
is(join('', map { substr($_, 0, 3000) } grep { !$seen{$_}++ } @crashes[ 0 .. ($#crashes < 20 ? $#crashes : 20) ]), '', 'the server went on');
my %internal;
foreach my $i (0 .. $#entries)
{
	my $following = join('', @entries[ $i + 1 .. ($i + 5 > $#entries ? $#entries : $i + 5) ]);
	next if $entries[$i] !~ / ERROR:  (XX000: .*|.*(?:during a parallel operation|in a parallel worker).*)/;
	my $message = $1;
	# it raises what it is told to
	next if $following =~ /LOCATION:  iblt_raise,/;
	my ($statement) = $following =~ /STATEMENT:  (.*)/;
	$internal{ $message =~ s/\d+/N/gr } //= "$message\n\t" . substr($statement // '', 0, 1500);
}
is(join("\n", map { $internal{$_} } sort keys %internal), '', 'no error is an internal one');
done_testing();
