# What audits and runs say in each form of a report: for people, on stderr for cron, for
# Nagios, and for Prometheus.
use Cwd qw(abs_path);
use File::Basename;
use IbltRuns;
use IPC::Run;
use JSON::PP;

my ($here, $there) = audit_servers();
foreign_server($here, 'node_b', $there);
both('CREATE SCHEMA shop; CREATE TABLE shop.customers (id int PRIMARY KEY); INSERT INTO shop.customers SELECT generate_series(1, 500);
	CREATE TABLE shop.items (id int PRIMARY KEY, v int); INSERT INTO shop.items SELECT g, g FROM generate_series(1, 2000) g');
my @shop = ('peer=node_b', 'schema=shop');

# Which servers the sides are, which other tests leave out.
my $sides = qr{^here: socket:\d+, database postgres, PostgreSQL \d\S*, at \w+/\w+, [\d-]+T[\d:]+Z\nthere: node_b, ${\ $there->host}:${\ $there->port}, database postgres, PostgreSQL \d\S*, at \w+/\w+, [\d-]+T[\d:]+Z\n}m;
# of a run, no position and no time, which would be those of now
my $sides_of_run = qr{^here: socket:\d+, database postgres, PostgreSQL \d[^,\n]*\nthere: node_b, ${\ $there->host}:${\ $there->port}, database postgres, PostgreSQL \d[^,\n]*\n}m;
sub script_is
{
	my ($arguments, $status, $out, $err, $text) = @_;
	my @got = program($arguments);
	s/$sides// || s/$sides_of_run// foreach @got[ 1, 2 ];
	is($got[0], $status, "$text: status") or note("$got[1]$got[2]");
	ref $out ? like($got[1], $out, "$text: stdout") : is($got[1], $out, "$text: stdout");
	ref $err ? like($got[2], $err, "$text: stderr") : is($got[2], $err, "$text: stderr");
	return;
}

# --- help ------------------------------------------------------------------------------------

script_is(['--help'], 0, qr/\Aiblt-audit \[OPTION \.\.\.\] NAME=VALUE.*--prometheus FILE.*status 0 .*table differs\.\n\z/s, '', '--help');
script_is([], 2, '', qr/^iblt-audit: usage: .*--help$/, 'no arguments');

# --- for people -----------------------------------------------------------------------------

script_is(\@shop, 0, <<'END', '', 'equal');
equal: 2 tables, schema=shop
status  table            here  there  missing  extra  changed
equal   shop.customers    500    500        0      0        0
equal   shop.items      2,000  2,000        0      0        0
END
$here->safe_psql('postgres', 'DELETE FROM shop.items WHERE id IN (1, 2); UPDATE shop.items SET v = 0 WHERE id = 3; INSERT INTO shop.items VALUES (9999, 1);
	CREATE TABLE shop.notes (id int PRIMARY KEY)');
my $text = <<'END';
differs: 1 of 3 tables, 1 not compared, schema=shop
status          table            here  there  missing  extra  changed
differs         shop.items      1,999  2,000        2      1        1
not comparable  shop.notes
    relation shop.notes does not exist on the peer; create it there, or compare it by iblt_compare under its other name
equal           shop.customers    500    500        0      0        0
END
my $summary = <<'END';
differs: 1 of 3 tables, 1 not compared, schema=shop
  shop.items differs: 2 missing, 1 extra, 1 changed
  shop.notes not comparable: relation shop.notes does not exist on the peer; create it there, or compare it by iblt_compare under its other name
END
script_is(\@shop, 1, $text, $summary, 'differs');
like($_, qr/\Adiffers: .*\n$sides/, 'both servers are named') foreach (program(\@shop))[ 1, 2 ];
my $document = JSON::PP->new->utf8->decode((program([ '--json', @shop ]))[1]);
is(join(' ', map { "$_->{database} $_->{address} " . ($_->{server} // '-') } @$document{qw(here there)}), "postgres socket:${\ $here->port} - postgres ${\ $there->host}:${\ $there->port} node_b", 'in JSON, too');
script_is([ '--text', @shop ], 1, $text, $summary, '--text');
script_is([ '--tsv', @shop ], 1, qr/^relation\t/, $summary, '--tsv');
script_is([ '--json', @shop ], 1, qr/^\{"verdict": "differs"/, $summary, '--json');
script_is([ 'peer=node_b', 'tables={shop.notes}' ], 2, qr/^could not tell: 1 of 1 table not compared, tables=\{shop\.notes\}\n/,
	"could not tell: 1 of 1 table not compared, tables={shop.notes}\n  shop.notes not comparable: relation shop.notes does not exist on the peer; create it there, or compare it by iblt_compare under its other name\n", 'could not tell');
script_is([ 'peer=node_b', 'schema=nosuch' ], 2, '', qr/schema "nosuch" exists neither here nor on the peer/, 'no answer');
my $ended = qr/, ended at \d{4}(?:-\d\d){2} \d\d(?::\d\d){2} UTC\n/;
my $of_run = join $ended, map { quotemeta } split /(?<=schema=shop)\n/, $summary;
script_is([ '--run', @shop ], 1, qr/\A(differs: 1 of 3 tables, 1 not compared, schema=shop$ended).*\ndiffers +shop\.items .*\n    read by index.*\nequal /s, qr/\Aiblt-audit: run 1\n.*run 1: shop\.items: differs: 2 missing, 1 extra, 1 changed; read by .*\n$of_run\z/s, 'a run');
like($here->safe_psql('postgres', "SELECT iblt_audit_report(run => 1, form => 'summary', name => 'schema=shop')") =~ s/$sides_of_run//r . "\n", qr/\A$of_run\z/, 'in SQL');
is($here->safe_psql('postgres', "SELECT iblt_audit_report(json_agg(a), 'text', 'schema=shop') FROM iblt_audit('node_b', schema => 'shop', extra_columns => 'error') AS a") . "\n", $text,
	'in SQL, of an audit');
script_is([ '--run', @shop, 'max_time=0 s' ], 2, qr/\Acould not tell: 3 of 3 tables not compared, schema=shop\n/, qr/shop\.items waiting\n/, 'a run that has not begun');

# names and errors cannot write on a terminal, nor forge lines
is($here->safe_psql('postgres', q{SELECT iblt_audit_report(json_build_array(json_build_object('relation', E'a\n  b equal\x1b[2J' || chr(155), 'status', 'error', 'detail', E'x\r\ny')), 'summary')}),
	"could not tell: 1 of 1 table not compared\n  a   b equal [2J  error: x y", 'control characters');

# verdicts
foreach ([ '[]', 'unknown' ], [ '[{}]', 'unknown' ], [ '[{"status": "equal"}]', 'equal' ], [ '[{"status": "equal"}, {"status": null}]', 'unknown' ], [ '[{"status": "Equal"}]', 'unknown' ],
	[ '[{"status": "error"}, {"status": "equal"}]', 'unknown' ], [ '[{"status": "error"}, {"status": "differs"}]', 'differs' ])
{
	is($here->safe_psql('postgres', "SELECT iblt_audit_report('$_->[0]'::json, 'verdict')"), $_->[1], "the verdict on $_->[0]");
}
like(failure("SELECT iblt_audit_report('[]'::json, '$_')"), qr/22023: form must be/, "form $_") foreach 'nosuch', '';
like(failure("SELECT iblt_audit_report('[]'::json, NULL)"), qr/22023: form must be/, 'form NULL');
unlike(failure("SELECT iblt_audit_report('[]'::json, 'nosuch')"), qr/at RAISE/, 'an error without the context of private functions');
foreach ('CALL iblt_audit_run(NULL)', "CALL iblt_audit_run('node_b', schema => 'nosuch')", "CALL iblt_audit_run('node_b', slice_ms => 0)", 'CALL iblt_audit_resume(4711)',
	"CALL iblt_track_all(schema => 'nosuch')", "CALL iblt_track_all('nosuch', schema => 'shop')", "CALL iblt_track_all(subscription => 'nosuch')")
{
	my $error = failure($_);
	like($error, qr/^.*ERROR:  \w{5}: /s, "$_: an error");
	unlike($error, qr/PL\/pgSQL function|SQL statement/, 'without the context of functions of iblt');
}
like(failure('SELECT iblt_audit_report(run => 987654321)'), qr/42704: there is no run 987654321, or it is not yours/, 'no such run');
is($here->safe_psql('postgres', q{SELECT count(*), max(x) FROM regexp_split_to_table(iblt_audit_report((SELECT json_agg(json_build_object('relation', 't' || g, 'status', 'error')) FROM generate_series(1, 30) g), 'summary'), E'\n') AS x
	WHERE x ~ 'more'}), '1|  and 10 more', 'a summary is short');

# --- for Nagios ------------------------------------------------------------------------------

script_is([ '--nagios', @shop ], 2,
	"IBLT CRITICAL - differs: 1 of 3 tables, 1 not compared, schema=shop: shop.items differs, shop.notes not comparable | tables=3 differs=1 not_compared=1 missing=2 extra=1 changed=1 unconfirmed=0\n",
	'', 'Nagios: differs');
script_is([ '--nagios', 'peer=node_b', 'tables={shop.customers}' ], 0,
	"IBLT OK - equal: 1 table, tables={shop.customers} | tables=1 differs=0 not_compared=0 missing=0 extra=0 changed=0 unconfirmed=0\n", '', 'Nagios: equal');
script_is([ '--nagios', 'peer=node_b', 'tables={shop.notes}' ], 3, qr/\AIBLT UNKNOWN - could not tell: 1 of 1 table .*\| tables=1 differs=0 not_compared=1 .*\n\z/, '', 'Nagios: could not tell');
script_is([ '--nagios', 'peer=nowhere', 'schema=shop' ], 3, "IBLT UNKNOWN - no answer, because of the error above\n", qr/neither a foreign server/, 'Nagios: no answer');
script_is([ '--nagios', 'shop' ], 3, "IBLT UNKNOWN - argument 1 is not NAME=VALUE\n", qr/NAME=VALUE/, 'Nagios: wrong arguments');
is($here->safe_psql('postgres', q{SELECT iblt_audit_report('[{"relation": "a|b=1", "status": "differs", "missing": null}]'::json, 'nagios')}),
	'IBLT CRITICAL - differs: 1 of 1 table: a/b=1 differs | tables=1 differs=1 not_compared=0 missing=0 extra=0 changed=0 unconfirmed=0', 'Nagios: a bar in a name');

# --- for Prometheus -----------------------------------------------------------------------

my $dir = PostgreSQL::Test::Utils::tempdir();
my $promtool = `sh -c 'command -v promtool'`;
chomp $promtool;

# The samples of a file, by name and labels; and what breaks the rules of the format.
sub samples
{
	my ($content) = @_;
	my (%sample, %type, $series);
	my @problems = $content =~ /\n\z/ ? () : ('no newline at the end');
	foreach my $line (split /\n/, $content)
	{
		if ($line =~ /^# HELP ([a-z_]+) (.+)$/) { push @problems, "twice: $1" if $type{$1}; $series = $1; push @problems, "help: $2" if $2 =~ /\\(?![\\n])/; }
		elsif ($line =~ /^# TYPE ([a-z_]+) gauge$/) { push @problems, "type: $line" if $1 ne $series; $type{$1} = 1; }
		elsif ($line =~ /^([a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\}) (-?[0-9.]+)$/)
		{
			push @problems, "not behind its type: $line" if $1 ne $series || !$type{$1};
			push @problems, "twice: $line" if exists $sample{"$1$2"};
			$sample{"$1$2"} = $3;
		}
		else { push @problems, "line: $line" }
	}
	is(join("\n", @problems), '', 'the rules of the text format');
	SKIP:
	{
		skip 'there is no promtool', 1 unless $promtool;
		my ($out, $err);
		IPC::Run::run([ $promtool, 'check', 'metrics' ], '<', \$content, '>', \$out, '2>', \$err);
		is("$?$out$err", '0', 'promtool agrees');
	}
	return \%sample;
}

sub metrics_are
{
	my ($arguments, $verdict, $text) = @_;
	my $before = time;
	my ($status, $out, $err) = program([ '--prometheus', "$dir/shop.prom", @$arguments ]);
	my $sample = samples(slurp_file("$dir/shop.prom"));
	is(join(' ', "$status:", map { $sample->{qq(iblt_audit_verdict{audit="shop",verdict="$_"})} } qw(equal differs unknown)), $verdict, $text) or note("$out$err");
	my $finished = $sample->{'iblt_audit_finished_timestamp_seconds{audit="shop"}'};
	ok($finished >= $before - 1 && $finished <= time + 1, "$text: when");
	is(join(' ', glob("$dir/*")), "$dir/shop.prom", "$text: one file is left");
	return $sample;
}

my $sample = metrics_are(\@shop, '1: 0 1 0', 'Prometheus: differs');
my %expected = ('tables{audit="shop",status="equal"}' => 1, 'tables{audit="shop",status="differs"}' => 1, 'tables{audit="shop",status="not compared"}' => 1,
	'rows{audit="shop",side="here"}' => 2499, 'rows{audit="shop",side="there"}' => 2500,
	'table_not_equal{audit="shop",relation="shop.items",status="differs"}' => 1, 'table_not_equal{audit="shop",relation="shop.notes",status="not comparable"}' => 1,
	'table_differences{audit="shop",relation="shop.items",kind="missing"}' => 2, 'table_differences{audit="shop",relation="shop.items",kind="extra"}' => 1,
	'table_differences{audit="shop",relation="shop.items",kind="changed"}' => 1, 'table_differences{audit="shop",relation="shop.items",kind="unconfirmed"}' => 0,
	'tables_left_out{audit="shop"}' => 0);
is(join("\n", map { "$_ $sample->{$_}" } sort grep { !/_audit_(verdict|finished)/ } keys %$sample), join("\n", map { "iblt_audit_$_ $expected{$_}" } sort keys %expected), 'Prometheus: all series');
my %series = map { /^(\w+)/ => 1 } 'iblt_audit_structure_differences', keys %$sample;
metrics_are([ 'peer=node_b', 'tables={shop.customers}' ], '0: 1 0 0', 'Prometheus: equal');
metrics_are([ 'peer=nowhere', 'schema=shop' ], '2: 0 0 1', 'Prometheus: no answer takes the place of the last one');
metrics_are([ 'peer=node_b', 'tables={shop.customers}' ], '0: 1 0 0', 'Prometheus: equal again');
metrics_are(['shop'], '2: 0 0 1', 'Prometheus: wrong arguments');
script_is([ '--prometheus', $_, @shop ], 2, '', qr/^iblt-audit: --prometheus/, "--prometheus $_") foreach "$dir/nosuch/x.prom", "$dir/", $dir, '', "$dir/a b.prom", qq($dir/x"y.prom);
$sample = samples($here->safe_psql('postgres', q{SELECT iblt_audit_report((SELECT json_agg(json_build_object('relation', E't "\\\\" ' || g, 'status', 'error', 'missing', 1)) FROM generate_series(1, 1003) g), 'prometheus', E'a\\\\b\n"c"')}) . "\n");
is(join(' ', scalar(grep { /^iblt_audit_table_not_equal/ } keys %$sample), (map { $sample->{$_} } grep { /left_out/ } keys %$sample)), '1000 3', 'the number of series is bounded');
is(scalar(grep { !/\{audit="a\\\\b \\"c\\""/ } keys %$sample), 0, 'labels are quoted');

# the dashboard reads these series and no others
my $top = abs_path(dirname(__FILE__) . '/../..');
my $dashboard = JSON::PP->new->utf8->decode(slurp_file("$top/doc/examples/grafana.json"));
my %read = map { $_ => 1 } map { $_->{expr} =~ /\b(iblt_\w+)/g } map { @{ $_->{targets} // [] } } @{ $dashboard->{panels} };
is(join(' ', sort keys %read), join(' ', sort keys %series), 'the dashboard reads the series that there are');
my %described = map { $_ => 1 } slurp_file("$top/doc/program.md") =~ /^\| `(iblt_audit_\w+)/mg;
is(join(' ', sort keys %described), join(' ', sort keys %series), 'program.md describes them');

# --- with the structure --------------------------------------------------------------------

both('CREATE SCHEMA hall; CREATE TABLE hall.a (id int PRIMARY KEY); INSERT INTO hall.a VALUES (1)');
my @hall = ('--all', 'peer=node_b', 'schema=hall');
script_is(\@hall, 0, "equal: 1 table, structure equal, schema=hall\nstatus  table   here  there  missing  extra  changed\nequal   hall.a     1      1        0      0        0\n", '', '--all: equal');
script_is([ '--run', @hall ], 0, qr/^equal: 1 table, structure equal, /, qr/is finished/, '--all, a run: equal');
# rights that are lost are a difference, if they are not left out
$there->safe_psql('postgres', 'CREATE ROLE clerk; GRANT SELECT ON hall.a TO clerk');
script_is(\@hall, 1, qr/^differs: 1 table equal, differences in structure: 1 \(without danger to data: 1\), schema=hall\n.*\n  table hall\.a: rights of clerk: nothing here, SELECT there \(change\)\n\z/s,
	qr/rights of clerk/, '--all: a right that is lost');
script_is([ @hall, 'rights=false' ], 0, qr/^equal: 1 table, structure equal, /, '', '--all: rights=false');
script_is([ @$_, 'peer=node_b' ], 2, '', qr/rights=true or rights=false goes with --all/, "@$_") foreach [ '--all', 'rights=no' ], ['rights=true'];
$there->safe_psql('postgres', 'REVOKE SELECT ON hall.a FROM clerk');
$there->safe_psql('postgres', 'CREATE VIEW hall.v AS SELECT 1 AS one; CREATE SEQUENCE hall.s');
script_is(\@hall, 1, qr/^differs: 1 table equal, differences in structure: 2 \(without danger to data: 1\), schema=hall\n.*\nequal +hall\.a.*\n  view hall\.v: exists: nothing here, true there \(change\)\n\z/s,
	qr/\Adiffers: 1 table equal, differences in structure: 2 \(without danger to data: 1\), schema=hall\n  sequence hall\.s: exists: nothing here, /, '--all: a view and a sequence that are not here');
script_is([ '--nagios', @hall ], 2, qr/^IBLT CRITICAL - differs: 1 table equal, differences in structure: 2 \(without danger to data: 1\), schema=hall \| tables=1 differs=0 /, '', '--all: Nagios');
my ($all_status, $all) = program([ '--json', @hall ]);
is(join(' ', $all_status, map { "$_->{kind} $_->{object}" } @{ JSON::PP->new->utf8->decode($all)->{structure} }), '1 sequence hall.s view hall.v', '--all: JSON');
$all = metrics_are(\@hall, '1: 0 1 0', '--all: Prometheus');
is(join(' ', map { $all->{qq(iblt_audit_structure_differences{audit="shop",severity="$_"})} } qw(danger unknown change)), '1 0 1', '--all: its series');
script_is([ '--all', 'peer=node_b' ], 1, qr/^differs: 1 of 4 tables, 1 not compared, differences in structure: \d+ \(without danger to data: \d+\)\n/, qr/view hall\.v/, '--all: the whole database');
# again, until all is equal
{
	my $watched = "$dir/watched page.html";
	$here->safe_psql('postgres', 'INSERT INTO hall.a VALUES (2)');
	my ($status, $out, $err) = program([ '--watch', '1', '--html', $watched, 'peer=node_b', 'schema=hall' ], meanwhile => sub {
		my ($run) = @_;
		while (!-e $watched && $run->pumpable) { $run->pump_nb; select undef, undef, undef, 0.1 }
		$here->safe_psql('postgres', 'DELETE FROM hall.a WHERE id = 2');
	});
	is($status, 0, '--watch: the first pass in which all is equal');
	like($out, qr/\Aequal: 1 table, schema=hall\n$sides.*\nequal /s, '--watch: its answer, with positions and times');
	like($err, qr/\A(?:differs: 1 of 1 table, schema=hall\n$sides  hall\.a differs: 1 extra\niblt-audit: that was pass \d+, which ended at [-\d]+ [\d:]+ UTC\n)+\z/, '--watch: what was not equal');
	like(slurp_file($watched), qr/<h1 class="equal">/, '--watch: the last page');
}
is((program([ '--watch', 1, 'peer=node_b', 'tables={' ]))[0], 2, '--watch: not again what can have no answer');
like((program([ '--watch', 1, '--html', "$dir/watched page.html", '--watch', 1, 'peer=node_b', 'schema=hall' ]))[2], qr/argument 1 is no option/, '--watch: twice');
script_is([ '--watch', $_, @hall ], 2, '', qr/--watch needs a number of seconds/, "--watch $_") foreach '', 'x', '-1';
script_is([ '--watch', 1, '--resume', 1 ], 2, '', qr/--watch makes audits or runs, and resumes none/, '--watch: no --resume');

# where texts differ
sub shown
{
	my ($mine, $theirs) = @_;
	my $rows = JSON::PP->new->encode([ { kind => 'function', object => 's.f', property => 'source', here => $mine, there => $theirs, severity => 'danger' } ]);
	return $here->safe_psql('postgres', "SELECT iblt_audit_report('[{\"status\": \"equal\"}]', 'summary', structure => ${\ literal($rows)})") =~ /function s\.f: source: (.*) \(danger\)$/m ? $1 : '';
}
is(shown('a', 'b'), 'a here, b there', 'short texts');
is(shown("begin\n  x := 1;\n  return x;\nend", "begin\n  x := 1;\n  return y;\nend"), 'line 3: ...   return x; end here, line 3: ...   return y; end there', 'lines');
is(shown('x' x 1000 . 'a' . 'z' x 500, 'x' x 1000 . 'b' . 'z' x 500), join(' here, ', map { 'line 1: ... ' . 'x' x 66 . $_ . 'z' x 133 . ' ...' } qw(a b)) . ' there', 'a long line');
is(shown("begin\r\n\treturn 1", "begin\n  return 1"), 'begin<CR><LF><TAB>return 1 here, begin<LF>  return 1 there', 'white space');
is(shown("a\nb", "a\nb\n"), 'line 2: ... b here, line 2: ... b<LF> there', 'the end');
is(shown("one\ntwo", undef), 'one two here, nothing there', 'one text');

# --- what is meant to be --------------------------------------------------------------------

sub accepting { my (@lines) = @_; unlink "$dir/known"; append_to_file("$dir/known", join("\n", '# known', '', @lines) . "\n"); return ('--accept', "$dir/known") }
my $seen_hall = 'view | hall.v | exists | | only there';
script_is([ accepting($seen_hall), @hall ], 1, qr/^differs: 1 table equal, differences in structure: 1, accepted: 1, schema=hall\n.*\n  sequence hall\.s: .*\n  accepted: view hall\.v: exists \(only there\)\n\z/s,
	qr/\Adiffers: .*accepted: 1.*accepted: view hall\.v/s, '--accept: everything else decides');
my @both = ($seen_hall, "seq*\t| hall.? | * | 2999-12-31 | no numbers", 'sequence | hall.* | exists | - | made later');
script_is([ accepting(@both), @hall ], 0, qr/^equal: 1 table, structure equal, accepted: 2, schema=hall\n.*\n  accepted: sequence hall\.s: exists \(made later\)\n  accepted: view hall\.v: exists \(only there\)\n  accepted, but fits no difference: line 4: seq\* \| hall\.\? \| \*\n\z/s,
	'', '--accept: all of them, with a line that means nothing');
program([ '--html', "$dir/known page.html", accepting(@both), @hall ]);
like(slurp_file("$dir/known page.html"), qr/Accepted \(2\).*<b>hall\.v<\/b>.*accepted, but fits no difference: line 4: seq\*/s, '--accept: the page has them, too');
script_is([ accepting($seen_hall, 'sequence | hall.s | exists | 2026-01-31 | for a month'), @hall ], 1, qr/accepted: 1,.*\n  accepted, but until 2026-01-31: line 4: sequence \| hall\.s \| exists\n/s, qr/accepted: 1/, '--accept: a line that has expired');
script_is([ accepting('sequence | hall%s | exists | | not a pattern', 'sequence | hall_s | exists | | nor this', 'SEQUENCE | hall.s | exists | | nor that'), @hall ], 1, qr/differences in structure: 2 [^,]*, schema/, qr/differences in structure: 2 /, '--accept: nothing else is a pattern');
script_is([ accepting($_), @hall ], 2, '', qr/line 3 of what is accepted does not have the form/, "--accept: $_")
  foreach 'view', 'view | hall.v | exists | | ', 'view | hall.v | exists | soon | why', 'view | hall.v | exists | | why | not', ' | hall.v | exists | | why', '*|*|*|*|*';
script_is([ '--accept', "$dir/nosuch", @hall ], 2, '', qr/--accept: there is no such file/, '--accept: no file');
script_is([ accepting('rows | shop.items | differs | | known', 'rows | shop.notes | not comparable | 2999-01-01 | not moved'), @shop ], 0, qr/^equal: \d tables?, accepted: 2, schema=shop\n.*\n  accepted: rows shop\.items: differs \(known\)\n  accepted: rows shop\.notes: not comparable \(not moved\)\n\z/s, '', '--accept: rows');
both(qq{CREATE SCHEMA forged; CREATE TABLE forged."a b" (id int PRIMARY KEY); CREATE TABLE forged."a\nb" (id int PRIMARY KEY)});
$there->safe_psql('postgres', qq{INSERT INTO forged."a\nb" VALUES (1)});
script_is([ accepting('rows | forged."a b" | differs | | known'), 'peer=node_b', 'schema=forged' ], 1, qr/^differs: 1 of 2 tables, schema=forged\n/, qr/accepted, but fits no difference/, '--accept: another name that looks the same');
both('DROP SCHEMA forged CASCADE');
script_is([ accepting('rows | * | equal | | none', 'rows | shop.items | not comparable | | none'), @shop ], 1, qr/^differs: 1 of \d tables?, 1 not compared, schema=shop\n/, qr/shop\.items differs/, '--accept: another status');
script_is([ accepting('rows | * | * | | all'), 'peer=node_b', 'tables={shop.items,shop.notes}' ], 2, qr/^could not tell: no tables, accepted: 2, /, qr/^could not tell/, '--accept: nothing is left');
is(join(' ', map { "$_->{kind} $_->{object} $_->{reason}" } @{ JSON::PP->new->utf8->decode((program([ '--json', accepting($seen_hall), @hall ]))[1])->{accepted} }), 'view hall.v only there', '--accept: JSON');
foreach ([ '--all', 'subscription=shop' ], [ '--all', 'peer=node_b', 'tables={hall.a}' ], [ '--all', '--resume', 1 ], [ '--all', '--save', "$dir/x" ], [ '--all', 'schema=hall' ])
{
	script_is($_, 2, '', qr/--all is for a peer, and for a schema or the whole database/, "@$_");
}
foreach ([ '[]', 'equal' ], [ '[{"severity": "danger"}]', 'differs' ], [ '[{"severity": "change"}]', 'differs' ], [ '[{"severity": "unknown"}]', 'unknown' ], [ '[{}]', 'differs' ], [ '[{"severity": "unknown"}, {"severity": "change"}]', 'differs' ], [ '[{"severity": "unknown"}, {"severity": "danger"}]', 'differs' ])
{
	is($here->safe_psql('postgres', qq(SELECT iblt_audit_report('[{"status": "equal"}]'::json, 'verdict', structure => '$_->[0]'))), $_->[1], "the verdict with a structure of $_->[0]");
}
is($here->safe_psql('postgres', q{SELECT iblt_audit_report('[]'::json, 'verdict', structure => '[]')}), 'unknown', 'without tables, nothing is equal');
like($here->safe_psql('postgres', q{SELECT iblt_audit_report('[]'::json, 'html', structure => '[{"severity": "danger", "kind": "view", "object": "<script>"}]')}), qr/Structure and sequences \(1\).*<b>&lt;script&gt;<\/b> <span class="kind">view<\/span>/s, 'the page has it, too');
both('DROP SCHEMA hall CASCADE');

# --- the state of a subscription ------------------------------------------------------------

$there->safe_psql('postgres', 'CREATE PUBLICATION shop FOR TABLE shop.items');
$here->safe_psql('postgres', "CREATE SUBSCRIPTION shop CONNECTION 'host=${\ $there->host} port=${\ $there->port} dbname=postgres' PUBLICATION shop WITH (copy_data = false)");
subscribed($here, 1);
my @subscription = ('subscription=shop', 'recheck=0');
script_is(\@subscription, 1, qr/^differs/, qr/\nsubscription "shop" has an apply worker, the slot is \d+ \w+ behind\n\z/, 'a subscription');
$here->safe_psql('postgres', 'ALTER SUBSCRIPTION shop DISABLE');
$here->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_subscription WHERE pid IS NOT NULL') or die;
script_is(['subscription=shop'], 2, qr/^could not tell/, qr/\nsubscription "shop" is disabled, nothing is connected to the slot, which is \d+ \w+ behind\n\z/, 'it is disabled');
script_is([ '--run', 'subscription=shop' ], 2, qr/^could not tell/, qr/\nsubscription "shop" is disabled, /, 'a run');
# a worker that cannot start
inside($here);
$there->safe_psql('postgres', "SELECT pg_drop_replication_slot('shop')");
$here->safe_psql('postgres', 'ALTER SUBSCRIPTION shop ENABLE');
$here->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_subscription WHERE pid IS NOT NULL") or die;
like($here->safe_psql('postgres', "SELECT iblt_internal.subscription_state('shop', 'node_b', NULL)"), qr/^subscription "shop" has (no apply worker, and the log of its server says why|an apply worker)/, 'it is enabled and cannot work');
nothing_left('connections', $there);

# --- the page --------------------------------------------------------------------------------

# It is whole, bounded, and safe against what tables contain.  A browser looks at it, if there is one.
$here->safe_psql('postgres', $_) foreach 'ALTER SUBSCRIPTION shop DISABLE', 'ALTER SUBSCRIPTION shop SET (slot_name = NONE)', 'DROP SUBSCRIPTION shop';
both('SET client_min_messages = error; DROP SCHEMA shop CASCADE');
$dir = PostgreSQL::Test::Utils::tempdir();
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
		push @problems, "element $tag$attributes" if $tag !~ /^(?:html|head|meta|title|style|body|header|section|h[123]|p|b|i|br|code|ul|li|div|table|thead|tbody|tr|th|td|mark|span|figure|figcaption|svg|g|rect|line|details|summary)$/
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
my $page = $here->safe_psql('postgres', "SELECT iblt_audit_report(run => $run, form => 'html')");
append_to_file("$dir/evil.html", "$page\n");
is(problems($page), '', 'every element is closed, and nothing else is an element');
unlike($page, qr/<(?:script|img|link|iframe|a)\b|javascript:|https?:/i, 'nothing that runs or is fetched');
like($page, qr/Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/, 'and nothing may');
my $seen = seen($page);
like($seen, qr/^differs: 2 of 4 tables, 1 not compared/m, 'the verdict comes first');
like($seen, qr/\Qshop."$quoted"\E\|2,901\|3,000\|100\|1\|4\|/, 'a table that differs');
like($seen, qr/\Q$evil\E\|/, 'a value is shown as it is');
like($seen, qr/changed\|here\|2\|(long ){60}\Q &hellip; 499,700 more characters|\E/, 'a long value is cut, with a note');
like($seen, qr/changed\|here\|3\|NULL\|empty\|s\|there\|3\|value 3\|g\|s\|/, 'NULL is not an empty value');
like($seen, qr/a&middot;&middot;\[0mb/, 'control characters');
like($seen, qr/Columns that differ: v 4, gone 1\./, 'columns that differ, the most frequent first');
like($page, qr{<td><mark>value 3</mark></td><td><mark>g</mark></td><td>s</td>}, 'changed values are marked');
like($seen, qr/missing\|there\|2901\|value 2901\|/, 'a row that one side lacks');
like($page, qr{<span class="key-column">[^<]*</span></th><th scope="col">[^<]*</th>}, 'columns of the key are marked');
like($seen, qr/The page shows 25 of 105 differences\..*Large objects, and rows of materialized views and of foreign tables, unless the page lists them\./s, 'it says what it leaves out');
is(scalar(() = $seen =~ /The page shows/g), 1, 'and nothing of what it shows whole');
like($seen, qr/changedrows: 1 here, 2 there\|here\|1\|there\|1\|/, 'several rows of a key');
like($seen, qr/Not compared, and why \(1\).*shop\.alone\|not comparable\|.*does not exist on the peer/s, 'what was not compared, and why');
like($seen, qr/Equal \(1\).*shop\.equal\|0\|0\|0\|0\|0\|/s, 'what is equal');

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
my $wide = $here->safe_psql('postgres', "SELECT iblt_audit_report(run => $run, form => 'html')");
is(problems($wide), '', 'a wide table');
cmp_ok(length $wide, '<', 500000, 'its part is bounded');
like(seen($wide), qr/\|\|id\|c150\|c1\|c2\|.*The page shows 12 of 201 columns\..*The page shows 25 of 50 differences\./s, 'with the columns that differ');
$run = begin_run("tables => '{shop.wide}', progress => false");
$wide = $here->safe_psql('postgres', "SELECT iblt_audit_report(run => $run, form => 'html')");
is(problems($wide), '', 'without rows');
like(seen($wide), qr/The run kept keys and no rows/, 'which it says');
$run = begin_run("tables => '{shop.wide}', rows => 'columns', progress => false");
like(seen($here->safe_psql('postgres', "SELECT iblt_audit_report(run => $run, form => 'html')")), qr/Columns that differ: c150 50\..*changedc150\|here\|1\|/s, 'with the names of columns alone');

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
