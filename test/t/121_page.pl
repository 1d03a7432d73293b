# The page of an audit: whole, bounded, and safe against what tables contain.  A browser
# looks at it, if there is one.
use IbltRuns;
use IPC::Run;

my ($here, $there) = audit_servers();
node_b();
my $dir = PostgreSQL::Test::Utils::tempdir();
chomp(my $browser = `sh -c 'command -v chromium || command -v chromium-headless-shell'` // '');

# What an element may not be closed by, is not closed, or does not belong there.
sub problems
{
	my ($page) = @_;
	my (@open, @problems);
	$page =~ s/<!DOCTYPE html>\n//;
	$page =~ s{<style>[^<]*</style>}{};
	while ($page =~ m{\G(?:[^<>&]|&(?:[a-z]+|#\d+);)*+(?:<(/?)([a-z][a-z0-9]*)((?: [a-zA-Z0-9-]+="[^"<>]*")*)(/?)>|(\z)|(.{1,60}))}gcs)
	{
		last if defined $5;
		if (defined $6) { push @problems, "stray: $6"; last }
		my ($end, $tag, $attributes, $empty) = ($1, $2, $3, $4);
		push @problems, "element $tag$attributes" if $tag !~ /^(?:html|head|meta|title|style|body|header|section|h[123]|p|b|i|br|code|ul|li|div|table|thead|tbody|tr|th|td|mark|span|figure|figcaption|svg|g|rect|line)$/
		  || $attributes =~ / (?:on\w+|href|src|style)=/;
		next if $empty || $tag =~ /^(?:meta|br)$/;
		if (!$end) { push @open, $tag }
		elsif (!@open || pop @open ne $tag) { push @problems, "closed: $tag"; last }
	}
	return join("\n", @problems, map { "open: $_" } @open);
}

# What a reader sees, more or less: cells are divided by bars.
sub seen
{
	my ($html) = @_;
	$html =~ s{<style>.*?</style>}{}s;
	$html =~ s{</t[dh]>}{|}g;
	$html =~ s/<[^>]*>//g;
	$html =~ s/&lt;/</g; $html =~ s/&gt;/>/g; $html =~ s/&quot;/"/g; $html =~ s/&#39;/'/g; $html =~ s/&amp;/&/g;
	return $html;
}

sub dom
{
	my ($file, @options) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ $browser, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', "--user-data-dir=$dir/browser", @options, "file://$file" ],
		'<', '/dev/null', '>', \$out, '2>', \$err, IbltTest::time_limit());
	return $out;
}

# --- contents that would like to be more ----------------------------------------------------

my $evil = q{</td></tr></table></mark><script>document.title = "owned"</script><img src=x onerror='document.title = "owned"'>"><svg/onload=alert(1)>&lt;&amp;};
my $name = qq(it's "<b>bold</b>" & more);
(my $quoted = $name) =~ s/"/""/g;
both(qq(CREATE SCHEMA shop; CREATE TABLE shop."$quoted" ("<i>id</i>" int PRIMARY KEY, v text, "same" text, gone text);
	INSERT INTO shop."$quoted" SELECT g, 'value ' || g, 's', 'g' FROM generate_series(1, 3000) g));
$here->safe_psql('postgres', qq(UPDATE shop."$quoted" SET v = ${\ literal($evil)} WHERE "<i>id</i>" = 1;
	UPDATE shop."$quoted" SET v = repeat('long ', 100000) WHERE "<i>id</i>" = 2; UPDATE shop."$quoted" SET v = NULL, gone = '' WHERE "<i>id</i>" = 3;
	UPDATE shop."$quoted" SET v = E'a\\x01\\x1b[0mb' WHERE "<i>id</i>" = 4; DELETE FROM shop."$quoted" WHERE "<i>id</i>" BETWEEN 2901 AND 3000;
	INSERT INTO shop."$quoted" VALUES (9999, 'extra')));
both('CREATE TABLE shop.equal (id int PRIMARY KEY); CREATE TABLE shop.pairs (v int); INSERT INTO shop.pairs VALUES (1), (1), (2)');
$here->safe_psql('postgres', 'DELETE FROM shop.pairs WHERE ctid = (SELECT min(ctid) FROM shop.pairs); CREATE TABLE shop.alone (id int)');
my $run = begin_run("schema => 'shop', rows => true, slice_ms => 1, progress => false");
my $page = $here->safe_psql('postgres', "SELECT iblt_audit_report($run, 'html')");
append_to_file("$dir/evil.html", "$page\n");
is(problems($page), '', 'every element is closed, and nothing else is an element');
unlike($page, qr/<(?:script|img|link|iframe|a)\b|javascript:|https?:/i, 'nothing that runs or is fetched');
like($page, qr/Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/, 'and nothing may');
my $seen = seen($page);
like($seen, qr/^differs: 2 of 4 tables, 1 not compared/m, 'the verdict comes first');
like($seen, qr/\Qshop."$quoted"\E\|differs\|2,901\|3,000\|100\|1\|4\|\|/, 'a table that differs');
like($seen, qr/\Q$evil\E\|/, 'a value is shown as it is');
like($seen, qr/changed\|here\|2\|(long ){60}\Q &hellip; 499,700 more characters|\E/, 'a long value is cut, with a note');
like($seen, qr/changed\|here\|3\|NULL\|empty\|s\|there\|3\|value 3\|g\|s\|/, 'NULL is not an empty value');
like($seen, qr/a&middot;&middot;\[0mb/, 'control characters');
like($seen, qr/Columns that differ: v 4, gone 1\./, 'columns that differ, the most frequent first');
like($page, qr{<td><mark>value 3</mark></td><td><mark>g</mark></td><td>s</td>}, 'changed values are marked');
like($seen, qr/missing\|here\|no row\|there\|2901\|value 2901\|/, 'a row that one side lacks');
like($seen, qr/The page shows 25 of 105 differences\..*Large objects, and rows of materialized views and of foreign tables, unless the page lists them\./s, 'it says what it leaves out');
is(scalar(() = $seen =~ /The page shows/g), 1, 'and nothing of what it shows whole');
like($seen, qr/changedrows: 1 here, 2 there\|here\|1\|there\|1\|/, 'several rows of a key');
like($seen, qr/Not compared, and why \(1\).*shop\.alone\|not comparable\|.*does not exist on the peer/s, 'what was not compared, and why');
like($seen, qr/Equal \(1\).*shop\.equal\|equal\|0\|0\|0\|0\|0\|/s, 'what is equal');

# the picture
my ($picture) = $page =~ m{<figure>(.*?)</figure>}s;
my @bars = $picture =~ m{<g><title>(.*?)</title>}g;
is(scalar(@bars), $here->safe_psql('postgres', "SELECT count(*) FROM iblt_audit_ranges WHERE run = $run AND relation ~ 'bold'"), 'a bar of the picture for each slice with differences');
my $ranges = "FROM iblt_audit_ranges WHERE run = $run AND relation ~ 'bold'";
is(join('|', map { /.*: (.*)/ } @bars), $here->safe_psql('postgres', "SELECT string_agg(concat_ws(', ', nullif(missing, 0) || ' missing', nullif(extra, 0) || ' extra', nullif(changed, 0) || ' changed'),
	'|' ORDER BY (up_to ->> '<i>id</i>')::int) $ranges"), 'in the order of the key');
my @heights = $picture =~ m{<rect class="\w+" x="[\d.]+" y="[\d.]+" width="46" height="([\d.]+)"/>}g;
is(join(' ', @heights), $here->safe_psql('postgres', "SELECT string_agg(greatest(2, round(100.0 * x.n / (SELECT max(missing + extra + changed) $ranges), 1))::text, ' ' ORDER BY (up_to ->> '<i>id</i>')::int, x.place)
	FROM (SELECT * $ranges) AS r, unnest(ARRAY[missing, extra, changed]) WITH ORDINALITY AS x(n, place) WHERE x.n > 0"), 'as high as there are differences, and high enough to be seen');

# --- bounds -----------------------------------------------------------------------------------

is(problems($here->safe_psql('postgres', "SELECT iblt_audit_report('[]'::json, 'html')")), '', 'no tables');
my $audit = $here->safe_psql('postgres', "SELECT iblt_audit_report(json_agg(a), 'html') FROM iblt_audit('node_b', schema => 'shop') AS a");
is(problems($audit), '', 'an audit');
like(seen($audit), qr/Which columns and rows differ, and where\. A run keeps them/, 'which says that it has no rows');
my $large = $here->safe_psql('postgres', q{SELECT iblt_audit_report((SELECT json_agg(json_build_object('relation', 't' || g, 'detail', repeat('x', 2000),
	'status', (ARRAY['differs', 'error', 'equal'])[g % 3 + 1])) FROM generate_series(1, 9000) g), 'html')});
is(problems($large), '', 'nine thousand tables');
unlike(seen($large), qr/What differs|Structure/, 'without what an audit has not kept, and what it was not given');
cmp_ok(length $large, '<', 1500000, 'the page is bounded');
like(seen($large), qr/The page shows 200 of 3,000 tables\..*The page shows 200 of 3,000 tables\..*The page shows 500 of 3,000 tables\./s, 'and says what it leaves out');
both('CREATE TABLE shop.wide (id int PRIMARY KEY, ' . join(', ', map { "c$_ text DEFAULT repeat('w', 500)" } 1 .. 200) . '); INSERT INTO shop.wide SELECT generate_series(1, 50)');
$here->safe_psql('postgres', "UPDATE shop.wide SET c150 = repeat('x', 500)");
$run = begin_run("tables => '{shop.wide}', rows => true, progress => false");
my $wide = $here->safe_psql('postgres', "SELECT iblt_audit_report($run, 'html')");
is(problems($wide), '', 'a wide table');
cmp_ok(length $wide, '<', 500000, 'its part is bounded');
like(seen($wide), qr/\|\|id\|c150\|c1\|c2\|.*The page shows 12 of 201 columns\..*The page shows 25 of 50 differences\./s, 'with the columns that differ');
$run = begin_run("tables => '{shop.wide}', progress => false");
$wide = $here->safe_psql('postgres', "SELECT iblt_audit_report($run, 'html')");
is(problems($wide), '', 'without rows');
like(seen($wide), qr/The run kept keys and no rows/, 'which it says');
$run = begin_run("tables => '{shop.wide}', rows => 'columns', progress => false");
like(seen($here->safe_psql('postgres', "SELECT iblt_audit_report($run, 'html')")), qr/Columns that differ: c150 50\..*changedc150\|here\|1\|/s, 'with the names of columns alone');

# --- the program ------------------------------------------------------------------------------

my ($status, $out, $err) = program([ '--html', "$dir/a page.html", '--run', 'peer=node_b', 'schema=shop', 'rows=changed' ]);
is($status, 1, '--html: status') or note($err);
$page = slurp_file("$dir/a page.html");
is(problems($page =~ s/\n\z//r), '', '--html: the page is whole');
like(seen($page), qr/^differs: 3 of 5 tables/m, '--html: the verdict');
my $rows_of_run = $page;
is(join(' ', map { s{.*/}{}r } glob("$dir/*page*")), 'a page.html', '--html: nothing else is left') or note(join(' ', glob("$dir/*")));
program([ '--html', "$dir/a page.html", 'peer=node_b', 'schema=shop' ]);
$page = slurp_file("$dir/a page.html");
is(problems($page =~ s/\n\z//r), '', '--html, an audit: the page is whole');
is(join(' ', map { scalar(() = $page =~ /$_/g) } '<h3>', '<mark>', '<script'), join(' ', map { scalar(() = $rows_of_run =~ /$_/g) } '<h3>', '<mark>', '<script'), 'with the rows that a page of a run has');
like(seen($page), qr/All but the first rows that differ, and where they are\. A run keeps them/, 'and says what it leaves out');
program([ '--html', "$dir/a page.html", 'peer=node_b', 'tables={shop.equal}' ]);
like(slurp_file("$dir/a page.html"), qr/<h1 class="equal">equal: 1 table</, '--html: the next page takes its place');
($status) = program([ '--html', '|touch pipe.html', 'peer=node_b', 'tables={shop.equal}' ]);
ok(!-e 'pipe.html', 'the name of a file is not a command');
unlink '|touch pipe.html';
is((program([ '--html', "$dir/a page.html", 'peer=node_b', 'schema=nosuch' ]))[0], 2, '--html: no answer');
like(slurp_file("$dir/a page.html"), qr/<h1 class="equal">equal: 1 table</, '--html: the last page stays');
# psql that is killed while it writes
{
	my $bin = PostgreSQL::Test::Utils::tempdir();
	chomp(my $psql = `sh -c 'command -v psql'`);
	append_to_file("$bin/psql", qq(#!/bin/sh\n"$psql" "\$@"\nfor f in "$dir"/*page.html.*; do head -c 500 "\$f" > "\$f"x; cat "\$f"x > "\$f"; rm "\$f"x; done\n));
	chmod 0755, "$bin/psql";
	local $ENV{PATH} = "$bin:$ENV{PATH}";
	my ($status, $out, $err) = program([ '--html', "$dir/a page.html", 'peer=node_b', 'tables={shop.equal}' ]);
	is($status, 2, '--html: half a page');
	like($err, qr/page\.html could not be written/, '--html: which it says');
}
like(slurp_file("$dir/a page.html"), qr/<\/html>\n\z/, '--html: the whole one stays');
opendir(my $entries, $dir) or die;
is(join(' ', grep { /page\.html\./ } readdir $entries), '', '--html: and no part of another');
is((program([ '--html', "$dir/nosuch/page.html", 'peer=node_b', 'tables={shop.equal}' ]))[0], 2, '--html: no such directory');

# --- in a browser ------------------------------------------------------------------------------

SKIP:
{
	skip 'there is no chromium', 4 unless $browser;
	my $dom = dom("$dir/evil.html", '--dump-dom');
	skip 'chromium does not work here', 4 unless $dom =~ /<body>/;
	like($dom, qr{<title>differs: 2 of 4 tables, 1 not compared</title>}, 'a browser shows the title, which no value has changed');
	is(scalar(() = $dom =~ /<(?:script|img)\b/g), 0, 'no value has become an element');
	is(seen($dom =~ s/&nbsp;/ /gr) =~ /\Q$evil\E/ ? 'shown' : 'not shown', 'shown', 'it is shown as it is');
	dom("$dir/evil.html", "--screenshot=$dir/evil.png", '--window-size=1200,900');
	cmp_ok(-s "$dir/evil.png" // 0, '>', 10000, 'it can be seen');
}

done_testing();
