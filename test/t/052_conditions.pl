# A condition is a property of the row alone: what else could decide which rows are
# compared is an error, on both sides, before anything is read.  Otherwise rows that
# are the same on both sides would be reported, and a repair would delete them.
use IbltCompare;

# Settings that a condition must not depend on.
my $here = ready('here', "timezone = 'Asia/Kolkata'", "datestyle = 'German'", "timezone_abbreviations = 'India'",
	before(19, 'standard_conforming_strings = off', 'escape_string_warning = off'));
my $there = ready('there', "datestyle = 'ISO, MDY'", 'transform_null_equals = on', 'gin_fuzzy_search_limit = 3', "xmloption = 'document'");
my $peer = conninfo($there);
sides($here, $there);

my $refused = qr/^(?:psql\S+ )?ERROR:  0A000: condition depends on more than the row: /m;

sub refusal
{
	my ($text, $call, $pattern) = @_;
	like(failure("SELECT * FROM $call"), $pattern, $text);
	return;
}

# --- what would go wrong -------------------------------------------------------------------

# Each statement on the peer has a now() of its own, and the transaction here has
# only one: of the rows between the two, one side finds none.
both('CREATE TABLE logged (ts timestamptz, v text); CREATE TABLE keyed (id int PRIMARY KEY, ts timestamptz); CREATE TABLE chosen (id int);
	CREATE TABLE plain (id int, v text); INSERT INTO plain SELECT g, md5(g::text) FROM generate_series(1, 300) g');
$here->safe_psql('postgres', 'INSERT INTO chosen SELECT generate_series(1, 100)');
{
	my $session = IbltTest::Session->new($here);
	my $now = $session->run("SET timezone = 'UTC'; SET datestyle = 'ISO'; BEGIN; SELECT now()") =~ s/.*\n//sr;
	both("INSERT INTO logged SELECT timestamptz '$now' - interval '1 hour' + g * interval '1 microsecond', 'v' || g FROM generate_series(1, 200) g;
		INSERT INTO keyed SELECT g, timestamptz '$now' - interval '1 hour' + g * interval '1 microsecond' FROM generate_series(1, 200) g");
	wait_for($there, "SELECT now() > timestamptz '$now' + interval '1 millisecond'");
	my $ago = "condition => \$\$ts > now() - interval '1 hour'\$\$";
	is($session->run("SAVEPOINT s; SELECT count(*) FROM iblt_compare('keyed', $peer, $ago, recheck => 1)"), '', 'a condition with a clock: no difference is reported');
	like($session->{err}, $refused, 'but an error');
	like($session->{err}, qr/function now\(\) is not immutable$/m, 'that names the function');
	like($session->{err}, qr/^HINT:  Use constants and immutable functions, as in condition => format\('ts > %L', now\(\) - interval '1 hour'\)\.$/m, 'and shows how to write it with a constant');
	$session->run("ROLLBACK TO s; SELECT count(*) FROM iblt_repair('logged', $peer, direction => 'pull', $ago, apply => true)");
	like($session->{err}, $refused, 'a repair with it is an error');
	$session->run('COMMIT');
	is($here->safe_psql('postgres', 'SELECT count(*) FROM logged'), '200', 'and deletes no row that is the same on both sides');
	my $constant = "condition => format('ts > %L', timestamptz '$now' - interval '1 hour')";
	is($session->run("RESET timezone; RESET datestyle; SELECT count(*) FROM iblt_compare('logged', $peer, $constant)"), '0',
		'with a constant, all is equal, also in a session with a DateStyle of its own');
	is($session->run('SELECT rows_here, rows_there FROM iblt_compare_stats()'), '200|200', 'of the rows it is true of');
	$session->quit;
}
{
	my $in = "condition => 'id IN (SELECT id FROM public.chosen)'";
	refusal('a subquery', "iblt_repair('plain', $peer, direction => 'pull', $in, apply => true)", qr/${refused}it has a subquery$/m);
	is($here->safe_psql('postgres', 'SELECT count(*) FROM plain'), '300', 'deletes no row that is the same on both sides');
	refusal('with a hint', "iblt_compare('plain', $peer, $in)", qr/HINT:  Use the subquery's result as a constant, as in condition => format\('id = ANY \(%L\)', ARRAY\(SELECT id FROM chosen\)\)\./);
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('plain', $peer, condition => format('id = ANY (%L)', ARRAY(SELECT id FROM chosen)));
		SELECT rows_here, rows_there FROM iblt_compare_stats()"), "0\n100|100", 'which works');
}

# --- on which side -----------------------------------------------------------------------------

# It would say that it was run.
both(q{CREATE FUNCTION loud(int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''it was run''; END'});
refusal('nothing is run', "iblt_compare('plain', $peer, condition => 'public.loud(id)')", qr/${refused}function public\.loud\(integer\) is not immutable$/m);
refusal('the peer refuses its own condition', "iblt_compare('plain', $peer, peer_condition => 'public.loud(id)')",
	qr/ERROR:  0A000: on the peer: condition depends on more than the row: function public\.loud\(integer\) is not immutable\nHINT:  Use constants/);
refusal('with another one here', "iblt_compare('plain', $peer, condition => 'id > 1', peer_condition => 'id > 1 AND now() > ''2000-01-01''')", qr/ERROR:  0A000: on the peer: condition depends/);
refusal('a repair, too', "iblt_repair('plain', $peer, direction => 'push', peer_condition => 'random() < 2', apply => true)", qr/ERROR:  0A000: on the peer: condition depends/);
both('CREATE TABLE other AS SELECT * FROM plain');
refusal('a relation of this database', "iblt_compare('plain', NULL, 'other', peer_condition => 'now() > ''2000-01-01''')", $refused);
# Each side has a function of this name, of which one is not immutable.
$here->safe_psql('postgres', "CREATE FUNCTION kept(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT \$1 > 1'");
$there->safe_psql('postgres', "CREATE FUNCTION kept(int) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT \$1 > 1'");
refusal('what is a property of the row here is none there', "iblt_compare('plain', $peer, condition => 'public.kept(id)')",
	qr/ERROR:  0A000: on the peer: condition depends on more than the row: function public\.kept\(integer\)/);
nothing_left('here');

# --- what is refused, and what is not -------------------------------------------------------------

both(q{CREATE TYPE colour AS ENUM ('red', 'green'); CREATE TYPE dated AS (d date, s text); CREATE TYPE measure AS (i interval);
	CREATE DOMAIN day AS date; CREATE DOMAIN past AS date CHECK (VALUE < now()); CREATE DOMAIN small AS int CHECK (VALUE < 1000);
	CREATE FUNCTION since(int, timestamptz DEFAULT now()) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $2 > ''2000-01-01''';
	CREATE FUNCTION beyond(int, int DEFAULT 3) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > $2';
	CREATE TABLE x (id int, name text, ts timestamptz, tm timestamp, d date, at time, n numeric, j jsonb, a int[], ta timestamptz[], e colour,
		i interval, p dated, x xml, m money, b boolean, r tstzrange, f float8, by bytea, u uuid, c char(5), q measure);
	INSERT INTO x SELECT g, CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN 'today' ELSE 'name ' || g END, '2024-01-01 UTC'::timestamptz + g * interval '1 hour',
		'2024-01-01'::timestamp + g * interval '1 hour', '2024-01-01'::date + g, '00:00'::time + g * interval '1 minute', g / 7.0,
		jsonb_build_object('a', g, 'd', '2024-01-01'::date + g), ARRAY[g, g % 3], ARRAY['2024-01-01 UTC'::timestamptz], (ARRAY['red', 'green'])[g % 2 + 1]::colour,
		g * interval '1 day', ROW('2024-01-01'::date + g, 'today')::dated, xmlparse(content '<a/>'), g, g % 2 = 0,
		tstzrange('2024-01-01 UTC', '2024-01-01 UTC'::timestamptz + g * interval '1 hour'), g / 3.0, int4send(g), md5(g::text)::uuid, g, ROW(NULL)::measure
		FROM generate_series(1, 200) g});

# What the check says of each condition, and iblt_compare.
both(q{CREATE FUNCTION verdict(condition text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM iblt_internal.iblt_compare_check_expression('public.x', condition, true);
		RETURN 'allowed';
	EXCEPTION WHEN OTHERS THEN
		RETURN concat(SQLSTATE, ' ', replace(SQLERRM, 'condition depends on more than the row: ', ': '));
	END $$;
	CREATE FUNCTION outcome(condition text, peer text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		n bigint := (SELECT count(*) FROM public.iblt_compare('public.x', peer, condition => outcome.condition));
	BEGIN
		RETURN (SELECT format('%s different of %s and %s', n, s.rows_here, s.rows_there) FROM public.iblt_compare_stats() AS s);
	EXCEPTION WHEN OTHERS THEN
		RETURN concat(SQLSTATE, ' ', SQLERRM);
	END $$});
sub of_each
{
	my ($call, @conditions) = @_;
	return split /\n/, $here->safe_psql('postgres', "SET standard_conforming_strings = on; SELECT $call FROM unnest(ARRAY["
		. join(', ', map { "\$q\$$_\$q\$" } @conditions) . ']) WITH ORDINALITY AS u(c, n) ORDER BY n');
}

my $constant = 'of type timestamp with time zone is not always the same';
my @wrong = (
	# clocks, users, settings, chance
	[ q{ts > now()}, '0A000 : function now() is not immutable' ],
	[ q{ts > clock_timestamp() - interval '1 h'}, '0A000 : function clock_timestamp() is not immutable' ],
	[ q{d = CURRENT_DATE}, '0A000 : the clock or the user' ],
	[ q{name = current_user}, '0A000 : the clock or the user' ],
	[ q{CASE WHEN id > 1 THEN random() < 0.5 END}, '0A000 : function random() is not immutable' ],
	[ q{to_tsvector(name) @@ 'x'}, '0A000 : function to_tsvector(text) is not immutable' ],
	# literals that read the clock
	[ q{ts > 'now'}, "0A000 : 'now' $constant" ],
	[ q{ts > ' Now '::timestamptz(0)}, "0A000 : ' Now ' $constant" ],
	[ q{ts > E'n\157w'}, "0A000 : 'now' $constant" ],
	[ q{id > 0 AND 'pg_monitor=r/pg_monitor'::aclitem IS NOT NULL}, "0A000 : 'pg_monitor=r/pg_monitor' of type aclitem is not always the same" ],
	[ q{d = ANY ('{epoch,now}'::date[])}, "0A000 : '{epoch,now}' of type date[] is not always the same" ],
	[ q{d = 'today'::public.day}, "0A000 : 'today' of type date is not always the same" ],
	[ q{ta @> '{"n\\ow"}'}, "0A000 : '{\"n\\ow\"}' of type timestamp with time zone[] is not always the same" ],
	[ q{r @> '[today,)'::tstzrange}, "0A000 : '[today,)' of type tstzrange is not always the same" ],
	[ q{p = '(today,x)'::public.dated}, "0A000 : '(today,x)' of type public.dated is not always the same" ],
	[ q{by = U&'\\00e9'::bytea}, "0A000 : '\xc3\xa9' of type bytea is not always the same" ],
	[ q{U&'\\00e9'::tsquery IS NULL}, "0A000 : '\xc3\xa9' of type tsquery is not always the same" ],
	[ q{id = 'public.x'::regclass::oid}, "0A000 : 'public.x' of type regclass is not always the same" ],
	# text that is read, or written, when the condition is run
	[ q{name::date > '2024-01-01'}, '0A000 : function date_in(cstring) is not immutable' ],
	[ q{'now'::text::date = d}, '0A000 : function date_in(cstring) is not immutable' ],
	[ q{name::public.dated IS NULL}, '0A000 : function record_in(cstring,oid,integer) is not immutable' ],
	[ q{name::regclass IS NULL}, undef ],
	[ q{i::text = '1 day'}, '0A000 : function interval_out(interval) is not immutable' ],
	[ q{'' || q = ''}, '0A000 : function textanycat(text,anynonarray) is not immutable' ],
	[ q{pg_typeof(id)::text = 'integer'}, '0A000 : function pg_typeof("any") is not immutable' ],
	# other rows, other relations
	[ q{id IN (SELECT id FROM public.chosen)}, '0A000 : it has a subquery' ],
	[ q{id = (SELECT max(id) FROM public.x)}, '0A000 : it has a subquery' ],
	[ q{id IN (SELECT id FROM no_such_table)}, '0A000 : it has a subquery' ],
	[ q{count(*) > 1}, '42803 aggregate functions are not allowed in WHERE' ],
	[ q{row_number() OVER () > 1}, '42P20 window functions are not allowed in WHERE' ],
	[ q{generate_series(1, id) = 1}, '0A000 set-returning functions are not allowed in WHERE' ],
	[ q{id = $1}, '42P02 there is no parameter $1' ],
	# labels have other OIDs on each server
	[ q{hashenum(e) % 2 = 0}, '0A000 : function hashenum(anyenum) hashes the OIDs of labels' ],
	[ q{hash_array(ARRAY[e]) % 2 = 0}, '0A000 : function hash_array(anyarray) hashes the OIDs of labels' ],
	# where the row is
	[ q{ctid = '(0,1)'}, '0A000 : system column ctid' ],
	[ q{t.xmin::text <> ''}, '0A000 : system column xmin' ],
	# what SQL/JSON reads from text
	major_version() < 17 ? () : ([ q{JSON_VALUE(j, '$.d' RETURNING date) > '2024-01-01'}, '0A000 : function date_in(cstring) is not immutable' ],
		[ q{JSON_VALUE(j, '$.a' RETURNING date DEFAULT 'now' ON EMPTY) > '2024-01-01'}, undef ]),
	# what a function or type brings along
	[ q{public.since(id)}, '0A000 : a function or a default of its arguments is not immutable' ],
	# not one expression
	[ q{true) OR (false}, '42601 syntax error at or near ")"' ],
	[ q{true; SELECT true}, undef ],
	[ q{true, true}, '42601 condition must be one expression' ],
	[ q{true FROM public.chosen}, '42601 condition must be one expression' ],
	[ q{true WHERE id > 1}, '42601 condition must be one expression' ],
	[ q{*}, '42601 condition must be one expression' ],
	[ q{}, '42601 condition must be one expression' ],
	[ q{id > 1 /* }, undef ],
	[ q{id}, '42804 argument of condition must be type boolean, not type integer' ],
	[ q{no_such > 1}, '42703 column "no_such" does not exist' ],
);
my @got = of_each('verdict(c)', map { $_->[0] } @wrong);
foreach my $n (0 .. $#wrong)
{
	my ($condition, $error) = @{ $wrong[$n] };
	defined $error ? is($got[$n], $error, "refused: $condition") : isnt($got[$n], 'allowed', "refused: $condition");
}

# PostgreSQL calls these stable, so they are in no predicate of an index either.
my @stable = (
	q{left(name, 3) || id = 'nam12'}, q{concat(name, ts, e) LIKE '%2024-01-0%'}, q{ts::date = '2024-01-04'}, q{ts > d - 100}, q{ts >= tm}, q{ts + '1 day' > '2024-01-05 00:00 IST'}, q{interval '1 day' + ts > '2024-01-05'}, q{ts - interval '1 month' < '2023-12-05'},
	q{date_trunc('day', ts) = '2024-01-02'}, q{extract(hour FROM ts) = 5}, q{date_part('dow', ts) = 0}, q{ts::text LIKE '% 07:%'}, q{to_char(ts, 'HH24') = '07'}, q{to_char(ts, 'TMDay') = 'Tuesday'}, q{to_date(j ->> 'd', 'YYYY-MM-DD') > '2024-02-01'}, q{a::text LIKE '_1%'}, q{e::text = 'red'}, q{m::numeric > 100}, q{to_char(n, '999D9') LIKE '%.1'},
);
@got = of_each('verdict(c)', @stable);
like($got[$_], qr/^0A000 : function .* is not immutable$/, "refused: $stable[$_]") foreach 0 .. $#stable;

# These choose the same rows of equal tables, though the servers' settings differ.
my @right = (
	q{d::public.past IS NOT NULL},
	q{t IS NOT NULL OR b}, q{id BETWEEN 10 AND 150}, q{id % 2 = 0 AND NOT (id = 4)}, q{id IN (1, 2, 3)}, q{id = ANY ('{1,2}')}, q{id <> ALL (ARRAY[1, 2])},
	q{id = 1 -- and no other}, q{b}, q{b IS NOT TRUE}, q{id IS DISTINCT FROM 3}, q{nullif(id, 3) IS NULL}, q{coalesce(name, '') <> ''},
	q{CASE WHEN id > 100 THEN b ELSE n > 3 END}, q{CASE id % 3 WHEN 0 THEN b WHEN 1 THEN true END}, q{GREATEST(id, 3) = 3}, q{id::public.small > 10},
	q{public.beyond(id)}, q{public.beyond(id, 7)}, q{(id, n) >= (100, 3)}, q{(id, name) = (1, 'today')}, q{ROW(id, d) IN (ROW(1, '2024-01-02'))},
	# text
	q{name = 'today'}, q{name IN ('today', 'name 2')}, q{name LIKE 'name %7'}, q{name ILIKE 'NAME 1%'}, q{name ~ '[[:digit:]]{3}$'}, q{name < 'name 5'}, q{name SIMILAR TO '%(1|2)'},
	q{lower(name) = 'name 12'}, q{name COLLATE "C" > 'name'}, q{c = '7'}, q{md5(name) > '8'},
	q{name = NULL}, q{name IS NULL}, q{length(name) > 6}, q{to_tsvector('english', name) @@ to_tsquery('english', 'name')},
	# dates and times
	q{ts > '2024-01-03'},
	q{d > '05/03/2024'}, q{d > '2024-02-01' AND d < 'infinity'}, q{tm >= 'epoch' AND at > 'allballs'},
	q{ts AT TIME ZONE 'Europe/Berlin' > '2024-01-02'}, q{ts = ANY ('{2024-01-01 05:00+00,2024-01-02 00:00+00}')}, q{r @> '2024-01-02 00:00+00'::timestamptz}, q{ts <@ '[2024-01-02 UTC,2024-01-03 UTC)'::tstzrange},
	q{(ts, ts) OVERLAPS ('2024-01-02'::timestamptz, '2024-01-03')},
	q{i > '100 days'}, q{make_date(2024, 2, 1) < d}, q{ta @> ARRAY['2024-01-01 UTC'::timestamptz]},
	# other types
	q{j @> '{"a": 7}'}, q{j ->> 'd' > '2024-02-01'}, q{j ? 'a'}, major_version() < 17 ? () : (q{JSON_VALUE(j, '$.a' RETURNING int) > 100}, q{JSON_EXISTS(j, '$.a')}), q{(j -> 'a')::int > 100}, q{j @@ '$.a > 100'}, q{j <> '"now"'}, q{jsonb_path_exists(j, '$.a ? (@ > 20)')},
	q{a @> '{1}'}, q{a[1] > 100}, q{a && ARRAY[0]}, q{e = 'red'}, q{e IN ('red')}, q{e > 'red'}, q{p = ROW('2024-01-03'::date, 'today'::text)}, q{(p).s = 'today'}, q{(t.p).d > '2024-02-01'}, q{p > ROW('2024-02-01', '')::public.dated},
	q{x IS DOCUMENT}, q{xpath_exists('/a', x)}, q{m > '$100.00'}, q{f > 20.5 AND f < 'Infinity'}, q{f::text LIKE '%33333'}, q{by > '\x00000040'}, q{by > decode('00000040', 'hex')}, q{u > '80000000-0000-0000-0000-000000000000'}, q{u::text LIKE 'a%'},
	q{n::int = 7},
	# a word of the clock in a literal that reads none
	q{to_tsvector('english', name) @@ 'name & !snow'::tsquery}, q{j @? '$.a ? (@ > 20 || @ == "now")'}, q{by <> 'snow'::bytea},
);
@got = of_each('verdict(c)', @right);
my @outcome = of_each("outcome(c, $peer)", @right);
foreach my $n (0 .. $#right)
{
	is($got[$n], 'allowed', "allowed: $right[$n]");
	like($outcome[$n], $right[$n] eq 'name = NULL' ? qr/^0 different of 0 and 0$/ : qr/^0 different of ([1-9]\d*) and \1$/, 'both sides have the same rows of it');
}
# --- settings ----------------------------------------------------------------------------------

# What is not the same everywhere is as it is here: a day with the day first, and India's IST.
is((of_each("outcome(c, $peer)", $_))[0], '0 different of 137 and 137', "as here: $_") foreach (q{d > '04/03/2024' AND d <= '19/07/2024'}, q{id >= 64});
is((of_each("outcome(c, $peer)", $_))[0], '0 different of 100 and 100', "as here: $_") foreach (q{ts > '2024-01-05 09:30 IST'}, q{id > 100});

# A fuzzy limit gives some of the rows that an index finds.
both("CREATE TABLE tagged (id int PRIMARY KEY, a int[]); INSERT INTO tagged SELECT g, ARRAY[g % 7, 100 + g % 2] FROM generate_series(1, 20000) g;
	CREATE INDEX ON tagged USING gin (a); ANALYZE tagged; ALTER DATABASE postgres SET enable_seqscan = off");
is(compare("'tagged'", "condition => 'a @> ''{3,101}'''"), '', 'gin_fuzzy_search_limit leaves out no row of a condition');
both('ALTER DATABASE postgres RESET enable_seqscan; DROP TABLE tagged');
if (before(19, 1))
{
	my $off = literal($there->connstr('postgres') . " options='-c standard_conforming_strings=off -c escape_string_warning=off'");
	is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('x', $off, condition => 'name = ''today''')"), '0', 'standard_conforming_strings = off there is no matter');
	like(failure("SELECT * FROM iblt_compare('x', $off, condition => \$q\$name ~ '\\d'\$q\$)"),
		qr/0A000: on the peer: condition contains a backslash while standard_conforming_strings is off/, 'unless the condition has a backslash');
}
is($here->safe_psql('postgres', "SELECT count(*) FROM iblt_compare('x', $peer, condition => \$q\$name ~ '\\d'\$q\$);
	SELECT rows_here, rows_there FROM iblt_compare_stats()"), "0\n120|120", 'off here is no matter at all');

# --- collations ------------------------------------------------------------------------------------

# The database here is sorted by bytes.
sub sorted
{
	my ($condition, $options) = @_;
	my ($rc, $out, $err) = $here->psql('sorted', "\\set VERBOSITY verbose\nSELECT count(*) FROM iblt_compare('words', ${\ literal($there->connstr('sorted'))}, condition => \$q\$$condition\$q\$"
		. ($options ? ", $options" : '') . ')');
	return $rc == 0 ? $out : $err;
}
SKIP:
{
	my ($rc) = $there->psql('postgres', "CREATE DATABASE sorted TEMPLATE template0 LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'");
	skip 'no locale C.UTF-8', 1 if $rc != 0;
	$here->safe_psql('postgres', 'CREATE DATABASE sorted');
	$_->safe_psql('sorted', q{CREATE EXTENSION IF NOT EXISTS dblink; CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE EXTENSION citext;
		CREATE TABLE words (w text PRIMARY KEY, v text COLLATE "POSIX"); INSERT INTO words VALUES ('aas', 'x'), ('Zoo', 'X')}) foreach ($here, $there);
	my $differ = qr/0A000: the condition depends on collations that differ between the sides\nDETAIL:  C(?:, encoding UTF8)? here, (?:C, )?c C\.UTF-8.* on the peer\.\nHINT:  Write COLLATE "C"/;
	like(sorted($_), $differ, "collations that differ: $_") foreach (q{w < 'm'}, q{w ILIKE 'z%'}, q{upper(w) = 'ZOO'}, q{w ~ '^[[:alpha:]]'}, q{(w, w) > ('m', '')},
		q{GREATEST(w, 'm') = 'm'}, q{ARRAY[w] < ARRAY['m']}, q{t > ROW('m', '')}, q{w COLLATE "default" >= 'm'},
		q{w = GREATEST('Zoo', 'aas')}, q{'a' < ANY ('{B}'::text[])}, q{regexp_instr('Ee', 'e', length(v COLLATE "C"), 1, 0, 'i') > 1},
		map({ q{('"' || w || '"')::jsonb } . $_ } q{< ANY (ARRAY['"m"'::jsonb])}, q{BETWEEN '"m"' AND '"z"'}), q{(('"' || w || '"')::jsonb, 1) < ('"m"'::jsonb, 2)},
		q{ARRAY[('"' || w || '"')::jsonb] < ARRAY['"m"'::jsonb]}, q{width_bucket(('"' || w || '"')::jsonb, ARRAY['"m"'::jsonb]) = 1},
		q{length(w) = 3}, q{substr(w, 1, 1) = 'Z'}, q{ts_headline('simple', ('"' || w || '"')::jsonb, 'zoo'::tsquery) IS NOT NULL}, q{ARRAY[w::public.citext] = ARRAY['AAS'::public.citext]},
		map { q{('"' || w || '"')::jsonb } . $_ } q{@? '$ ? (@ like_regex "^Z" flag "i")'}, q{@@ '$ like_regex "^[[:alpha:]]"'}, q{@? ('$ ? (@ == "' || w || '")')::jsonpath}, q{IS NOT NULL AND to_tsvector('simple', ('"' || w || '"')::jsonb) @@ 'zoo'::tsquery});
	like(sorted($_), qr/the condition depends on collations that differ between the sides/, "words are found by that of the database: $_")
		foreach q{to_tsvector('simple', w COLLATE "C") @@ 'zoo'::tsquery}, q{ts_lexize('simple', w COLLATE "C") = '{zoo}'}, q{w::tsvector @@ 'zoo'::tsquery}, q{(w COLLATE "C")::tsquery IS NOT NULL};
	is(sorted($_), '0', "not by collation: $_") foreach (q{w = 'aas'}, q{w IN ('aas', 'Zoo')}, q{w LIKE 'a%'}, q{w COLLATE "C" < 'm'}, q{v < 'm'}, q{v COLLATE "C" < 'm'}, q{length(w COLLATE "C") = 3}, q{substr(w COLLATE "C", 1, 1) = 'Z'}, q{ARRAY[w] = ARRAY['aas']});
	is(sorted(q{w < 'm' COLLATE "C"}), '0', 'nor with a collation of its own');
	$there->safe_psql('postgres', "CREATE DATABASE latin2 TEMPLATE template0 ENCODING 'LATIN2' LC_COLLATE 'C' LC_CTYPE 'C'");
	$there->safe_psql('latin2', q{CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE TABLE words (w text PRIMARY KEY, v text COLLATE "POSIX"); INSERT INTO words VALUES ('aas', 'x'), ('Zoo', 'X')});
	foreach my $of ([q{md5(w) LIKE '8%'}, 'C, encoding \w+ here, C LATIN2, encoding LATIN2 on the peer'], [q{w < 'm' COLLATE "C"}, 'C.* here, C LATIN2 on the peer'], [q{length(w) = 3}, 'C, encoding \w+ here, C LATIN2, encoding LATIN2 on the peer'], [q{w <> chr(164)}, 'encoding \w+ here, encoding LATIN2 on the peer'], [q{w LIKE '_as'}, undef])
	{
		my ($rc, $out, $err) = $here->psql('sorted', "SELECT count(*) FROM iblt_compare('words', ${\ literal($there->connstr('latin2'))}, condition => \$q\$$of->[0]\$q\$)");
		defined $of->[1] ? like($err, qr/DETAIL:  $of->[1]/, "bytes of another encoding: $of->[0]") : is($out, '0', "not of the encoding: $of->[0]");
	}
	$there->safe_psql('postgres', "CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'");
	$there->safe_psql('bytes', q{CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE TABLE words (w text PRIMARY KEY, v text COLLATE "POSIX"); INSERT INTO words VALUES ('aas', 'x'), ('Zoo', 'X')});
	like(($here->psql('sorted', "SELECT count(*) FROM iblt_compare('words', ${\ literal($there->connstr('bytes'))}, condition => \$q\$w LIKE '_as'\$q\$)"))[2], qr/DETAIL:  none here, encoding SQL_ASCII on the peer/, 'LIKE in a database without an encoding');
	is(($here->psql('sorted', "SELECT count(*) FROM iblt_compare('words', ${\ literal($there->connstr('bytes'))}, condition => \$q\$w = 'aas'\$q\$)"))[1], '0', 'and equality');
	foreach ([ $here, 'red', 'green' ], [ $there, 'green', 'red' ])
	{
		my ($node, @labels) = @$_;
		$node->safe_psql('sorted', "CREATE TYPE colour AS ENUM ('$labels[0]', '$labels[1]'); ALTER TABLE words ADD e colour DEFAULT 'red'");
	}
	like(sorted($_), qr/0A000: the condition depends on collations or orders of enums that differ between the sides\nDETAIL:  .*enum \(red, green\) here, .*enum \(green, red\) on the peer\.\nHINT:  Compare the labels/, "enums of another order: $_")
		foreach q{e > 'green'}, q{e BETWEEN 'green' AND 'red'}, q{GREATEST(e, 'green') = 'green'}, q{e > ANY (ARRAY['green'::public.colour])}, q{(e, 1) > ('green', 1)}, q{ARRAY[e] > ARRAY['green'::public.colour]}, q{t > t};
	is(sorted($_), '0', "labels of them: $_") foreach q{e = 'red'}, q{e <> 'green'}, q{e IN ('red', 'green')}, q{e IS DISTINCT FROM 'green'}, q{ARRAY[e] = ARRAY['red'::public.colour]};
	is(sorted(q{w < 'zz'}, q{peer_condition => 'true'}), '0', 'on one side only, it is no matter');
	like(sorted('true', q{expressions => '{"v": "lower(w)"}'}), $differ, 'an expression that depends on one');
	is(sorted('true', q{expressions => '{"v": "nullif(w, ''aas'')"}'}), '0', 'and one that does not');
	$_->safe_psql('postgres', 'DROP DATABASE sorted') foreach ($here, $there);
}

# Columns of one type may have collations of their own.
SKIP:
{
	skip 'built without ICU', 1 unless $here->safe_psql('postgres', q{SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i')}) eq 't';
	$here->safe_psql('postgres', q{CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE COLLATION cased (provider = icu, locale = 'und-u-ks-level2')});
	$here->safe_psql('postgres', q{CREATE COLLATION ruled (provider = icu, locale = 'und-u-ks-level2', rules = '&z < a')}) if major_version() >= 16;
	$here->safe_psql('postgres', qq{CREATE TABLE by_$_->[0] (id int PRIMARY KEY, v text COLLATE $_->[1]); INSERT INTO by_$_->[0] VALUES (1, 'a'), (2, 'A')})
		foreach ([ 'anycase', 'anycase' ], [ 'again', 'anycase' ], [ 'cased', 'cased' ], [ 'bytes', '"C"' ], major_version() < 16 ? () : [ 'ruled', 'ruled' ]);
	foreach my $case ([ 'anycase', 'bytes', q{v = 'a'}, 'und-u-ks-level2.* nondeterministic here, none' ], [ 'bytes', 'anycase', q{v = 'a'}, 'none here, i und-u-ks-level2' ],
		[ 'anycase', 'cased', q{v <= 'a'}, 'und-u-ks-level2.* nondeterministic here, i und-u-ks-level2' ], [ 'anycase', 'again', q{v <= 'a'} ], [ 'cased', 'bytes', q{v = 'a'} ], [ 'anycase', 'bytes', q{id > 1} ],
		[ 'anycase', 'bytes', q{t < t}, 'und-u-ks-level2 .*nondeterministic here, C' ], [ 'cased', 'bytes', q{ARRAY[ROW(v)] < ARRAY[ROW(v)]}, 'und-u-ks-level2.* here, C' ],
		[ 'anycase', 'bytes', q{v COLLATE "C" = 'a'} ], major_version() < 16 ? () : [ 'cased', 'ruled', q{v <= 'a'}, 'und-u-ks-level2.* here, i und-u-ks-level2.*&z < a' ])
	{
		my ($left, $right, $condition, $differ) = @$case;
		foreach my $options ("condition => \$\$$condition\$\$", "expressions => json_build_object('x', '(' || \$\$$condition\$\$ || ') IS NOT NULL')::jsonb")
		{
			my $call = "iblt_compare('by_$left', NULL, 'by_$right', $options)";
			$differ ? refusal("$left and $right: $condition", $call, qr/0A000: the condition depends on collations that differ between the sides\nDETAIL:  .*$differ.* on the peer\.\n/)
				: is($here->safe_psql('postgres', "SELECT count(*) FROM $call"), '0', "$left and $right: $condition");
		}
	}
	# types of one name may have collations of their own inside
	$_->[0]->safe_psql('postgres', qq{CREATE TYPE texts AS RANGE (subtype = text, collation = $_->[1]); CREATE TYPE pair AS (v text COLLATE $_->[1]); CREATE TYPE pairs AS (p pair[], r texts);
		CREATE TABLE inside (id int PRIMARY KEY, r texts, p pair, pp pairs)}) foreach [ $here, 'cased' ], [ $there, '"C"' ];
	refusal("a collation in $_", "iblt_compare('inside', $peer, condition => \$\$$_\$\$)", qr/0A000: the condition depends on collations that differ between the sides\nDETAIL:  .*und-u-ks-level2.* here, .*C on the peer/)
		foreach q{r < '[a,b)'::public.texts}, q{p = ROW('a')::public.pair}, q{pp < ROW(NULL, r)::public.pairs}, q{ARRAY[p] < ARRAY[ROW('a')::public.pair]}, q{(id, r) < (1, '[a,b)'::public.texts)};
	is($here->safe_psql('postgres', q{SELECT count(*) FROM iblt_compare('by_anycase', NULL, 'by_bytes', condition => $$v = 'a'$$, peer_condition => $$v IN ('a', 'A')$$)}), '0', 'another condition for the other collation');
}

# --- audits ---------------------------------------------------------------------------------------------

if (major_version() >= 15)
{
	# what a publication takes: built-in functions that are immutable, and built-in types
	my @filters = (q{name = 'today' OR name IS NULL}, q{ts > '2024-01-03 00:00 UTC'}, q{j ->> 'd' > '2024-02-01'}, q{CASE WHEN b THEN id > 5 ELSE n > 3 END}, q{(id, n) > (50, 3)},
		q{by > E'\\\\x00000040'::bytea}, q{name COLLATE "C" > 'name'}, q{extract(year FROM d) = 2024}, q{id = -1 OR ta IS NOT NULL});
	my ($published) = (0);
	foreach my $n (0 .. $#filters)
	{
		both("CREATE TABLE f$n (LIKE x); ALTER TABLE f$n DROP e, DROP p, DROP q; INSERT INTO f$n SELECT id, name, ts, tm, d, at, n, j, a, ta, i, x, m, b, r, f, by, u, c FROM x");
		my ($rc, $out, $err) = $here->psql('postgres', "CREATE PUBLICATION p$n FOR TABLE f$n WHERE ($filters[$n])");
		if ($rc != 0)
		{
			note("no filter: $filters[$n]: $err");
			next;
		}
		$published++;
		my $by = $here->safe_psql('postgres', q{SELECT concat_ws(' ', status, rows_here = rows_there, rows_here > 0, sqlstate, detail) FROM } . audit_stats("iblt_audit($peer, publication => 'p$n')") . ' AS a');
		like($by, qr/^equal t t row filter /, "an audit with the row filter $filters[$n]");
	}
	cmp_ok($published, '>=', 8, 'of a number of filters');
	# the one expression of filters that depends on how a value is written
	$here->safe_psql('postgres', 'CREATE PUBLICATION px FOR TABLE f0 WHERE (xmlelement(name a, i) IS DOCUMENT)');
	is($here->safe_psql('postgres', 'SELECT status, sqlstate, detail FROM ' . audit_stats("iblt_audit($peer, publication => 'px')") . ' AS a'),
		"not comparable|0A000|condition depends on more than the row: an XML constructor; use constants and immutable functions, as in condition => format('ts > %L', now() - interval '1 hour')", 'a row filter that is refused makes a table not comparable');
	nothing_left('at the end');
}

done_testing();
