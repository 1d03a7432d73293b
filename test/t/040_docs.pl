# Runs every example in README.md and doc/*.md and compares what it prints
# with what the page shows.
#
# A block fenced as "sql" is run, and so is one fenced as "sh", except that its
# "make" only looks whether the target exists; a plain block right after it is its
# expected output, compared without regard to psql's borders, footers and padding.
# A comment <!-- setup ... --> is SQL that is run first and not shown to readers.  If it
# begins with <!-- setup node_b node_c, each of these is first made a database with iblt
# and a foreign server.  The next example after <!-- from PostgreSQL 14 --> is not run by
# older servers.  A "text" block is not run.  If it has a command for a user, the line
# above it is <!-- not run: REASON -->.  Any other fence is an error.  Each page has a
# database of its own and one session.
use Cwd qw(abs_path);
use File::Basename;
use File::Find;
use IbltTest;

my $top = abs_path(dirname(__FILE__) . '/../..');

# A line that a user would type: a program, or a statement of SQL.  A function's signature is none.
my $command = qr/^(?:\s*(?:\$ |# |sudo )?(?:iblt-audit|make|apt|apt-get|dnf|psql|pg_\w+|docker|podman|git|sudo|cd|export|[A-Z]+=\S+ \S+) .*|(?:ALTER|CALL|COPY|CREATE|DELETE|DROP|GRANT|INSERT|REINDEX|RESET|REVOKE|SELECT|SET|TRUNCATE|UPDATE|VACUUM|WITH) +["*(\w].*)$/m;

# SQL that makes databases with iblt, and foreign servers of these names that lead there.
sub nodes
{
	return join '', @_ ? "SET client_min_messages = warning;\nCREATE EXTENSION IF NOT EXISTS iblt_audit CASCADE;\nCREATE EXTENSION dblink;\n" : (), map {
		qq(SELECT current_database() || '_${_}' AS node \\gset
CREATE DATABASE :"node";
CREATE SERVER $_ FOREIGN DATA WRAPPER iblt_fdw OPTIONS (host :'HOST', port :'PORT', dbname :'node');
CREATE USER MAPPING FOR CURRENT_USER SERVER $_;
SELECT dblink_exec('${_}', 'CREATE EXTENSION iblt') AS made \\gset
)
	} @_;
}

# The parts of a page in order: setup, sql or sh, the line it begins at, and the
# expected output; and what is wrong with its fences.
sub examples
{
	my ($text) = @_;
	my (@parts, @problems, $open);
	my ($number, $end, $from, $above) = (0, -1, 0, '');

	foreach my $line (split /\n/, $text)
	{
		$number++;
		if (!$open)
		{
			$from = $1 if $line =~ /^<!-- from PostgreSQL (\d+) -->$/;
			if ($line =~ /^\s*(?:```+|~~~+)(.*)$|^<!-- (setup)((?: \w+)*)$/)
			{
				$open = { kind => $2 // $1, line => $number, text => nodes(split ' ', $3 // ''), behind => $end == $number - 1, above => $above };
			}
			$above = $line;
		}
		elsif ($line eq ($open->{kind} eq 'setup' ? '-->' : '```'))
		{
			if ($open->{kind} =~ /^(setup|sql|sh)$/)
			{
				$open->{old} = "before PostgreSQL $from" if $from && major_version() < $from;
				push @parts, $open;
				$from = 0;
				$end = $number if $open->{kind} ne 'setup';
			}
			elsif ($open->{kind} eq '' && $open->{behind})
			{
				$parts[-1]{expected} = $open->{text};
			}
			elsif ($open->{kind} ne 'text')
			{
				push @problems, "line $open->{line}: a block that is neither run nor the output of one: $open->{kind}";
			}
			elsif ($open->{text} =~ /$command/m && $open->{above} !~ /^<!-- not run: \S.* -->$/)
			{
				push @problems, "line $open->{line}: a command that is not run, without <!-- not run: REASON --> above it: $&";
			}
			$open = undef;
		}
		else
		{
			$open->{text} .= "$line\n";
		}
	}
	push @problems, "line $open->{line}: not closed" if $open;
	return (\@parts, join("\n", @problems));
}

# Rows with single spaces, without rules, row counts and which servers; errors without places.
sub normalise
{
	my ($text) = @_;

	$text =~ s/^psql:\S+: //gm;
	$text =~ s/^[-+]+$//gm;
	$text =~ s/^\(\d+ rows?\)$//gm;
	$text =~ s/^(here|there): .*\bPostgreSQL \d.*$/$1: a server/gm;
	$text =~ s/[ \t]+/ /g;
	$text =~ s/ ?\n ?/\n/g;
	$text =~ s/\n+/\n/g;
	$text =~ s/^\s+|\s+$//g;
	return $text;
}

sub anchors
{
	my ($text) = @_;

	utf8::decode($text);
	return ($text =~ /<a id="([^"]+)">/g), map { s/[^\w\- ]//gr =~ tr/ /-/r } map { lc } $text =~ /^#+ +(.*)$/gm;
}

my @pages = ("$top/README.md", sort glob("$top/doc/*.md $top/doc/*/*.md"));

my $node = server('docs', 'client_min_messages = warning', 'max_locks_per_transaction = 256', 'autovacuum = off');
# a role that must give its password to the database on the other side
hba($node, 'local shop_b auditor scram-sha-256');

# A shell script with a "make" that only looks, and its exit status if it fails.
sub shell_command
{
	my ($page, $name, $text) = @_;
	my $file = $node->basedir . "/$name";
	append_to_file("$file.sh", "make() { command make -s -n -C '$top' \"\$@\" >/dev/null; }\nset -e\n$text");
	return "\\! cd '${\ $node->basedir}' && PATH='$top/bin':'$top/doc':'$top/doc/examples':\"\$PATH\" PGHOST='${\ $node->host}' PGPORT=${\ $node->port} PGDATABASE='doc_$page' "
	  . "sh '$file.sh' >'$file.out' 2>&1 || echo 'ERROR: exit status '\$? >>'$file.out'\n";
}

my $shown = 0;
foreach my $page (@pages)
{
	my $name = basename($page, '.md');
	my ($parts, $problems) = examples(slurp_file($page));
	is($problems, '', "$name: every block is an example that is run, its output, or text");
	next unless @$parts;

	# One session a page, with a mark behind each part.
	my $file = $node->basedir . "/$name";
	my $n = 0;
	my $script = join '', map { ($_->{old} ? '' : $_->{kind} eq 'sh' ? shell_command($name, "$name." . $n++, $_->{text}) : $_->{text}) . "\n\\echo ~~~~\n\\warn ~~~~\n" } @$parts;
	$node->safe_psql('postgres', qq(CREATE DATABASE "doc_$name"));
	append_to_file("$file.sql", $script);
	my ($out, $err) = run_command([
		'psql', '-X', '-q', '-h', $node->host, '-p', $node->port,
		'-d', "doc_$name", '-f', "$file.sql" ]);
	my @out = split /^~~~~\n?/m, $out, -1;
	my @err = split /^~~~~\n?/m, $err, -1;
	is(scalar(@out) - 1, scalar(@$parts), "$name: the session went on to the end");

	$n = 0;
	foreach my $i (0 .. $#$parts)
	{
		my $part = $parts->[$i];
		if ($part->{old})
		{
			SKIP: { skip "$name, line $part->{line}: $part->{old}", 1 }
			next;
		}
		my $got = normalise(($out[$i] // '') . "\n" . ($err[$i] // '') . ($part->{kind} eq 'sh' ? slurp_file("$file." . $n++ . '.out') : ''));
		my ($first) = $part->{text} =~ /(\S.*)/;

		if (defined $part->{expected})
		{
			is($got, normalise($part->{expected}), "$name, line $part->{line}: $first");
			$shown++;
		}
		else
		{
			unlike($got, qr/ERROR|FATAL|WARNING/, "$name, line $part->{line}: runs: $first");
		}
	}
}

# What the extensions have outside of their private schemas is what the pages document:
# each function is in the list of the index, and has a heading in the reference,
# with its signature below.
my $public = $node->safe_psql('doc_sketches', create_extensions('') . q{
	SELECT string_agg(DISTINCT p.proname, ' ' ORDER BY p.proname) FROM pg_depend d
	JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
	JOIN pg_namespace n ON n.oid = p.pronamespace
	WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
	AND d.refobjid IN (SELECT oid FROM pg_extension WHERE } . of_extensions() . q{)
	AND n.nspname !~ '_internal$'});
my @indexed = slurp_file("$top/doc/index.md") =~ /^## Functions\n(.*?)^## /ms ? $1 =~ /\[`((?:iblt|kbf)_\w+)`\]\(/g : ();
my (%headed, @unsigned);
foreach my $name (qw(sketches checksum compare nodes audit structure repair kbf/filters digests runs))
{
	my $text = slurp_file("$top/doc/$name.md");
	while ($text =~ /^###? (`(?:iblt|kbf)_[^\n]*)\n(?:\n```text\n(.*?)^```$)?/gms)
	{
		my ($heading, $signatures) = ($1, $2 // '');
		foreach my $function ($heading =~ /`(\w+)`/g)
		{
			$headed{$function} = 1;
			push @unsigned, "$name: $function" if $signatures !~ /^$function\(/m;
		}
	}
}
cmp_ok(scalar(@indexed), '>=', 25, 'the index has functions');
is($public, join(' ', sort @indexed), 'the public functions are those in the index');
is(join(' ', sort keys %headed), join(' ', sort @indexed), 'and those with a heading in the reference');
is(join("\n", @unsigned), '', 'below such a heading stand the signatures of its functions');
cmp_ok($shown, '>=', 10, 'examples with output were found');

# A link leads to a file of the source, and its anchor to a heading there.  GitHub's
# name for a heading: small letters, no punctuation, hyphens for spaces.
my %anchors;
my @lost;
foreach my $page (@pages)
{
	$anchors{$page} = { map { $_ => 1 } anchors(slurp_file($page)) };
}
foreach my $page (@pages)
{
	foreach my $link (slurp_file($page) =~ /\]\(([^)\s]+)\)/g)
	{
		next if $link =~ /^https?:/;
		my ($file, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
		my $to = $file eq '' ? $page : abs_path(dirname($page) . "/$file");
		push @lost, basename($page) . ": $link" if !defined $to || !-e $to || defined $anchor && !$anchors{$to}{$anchor};
	}
}
is(join("\n", @lost), '', 'every link leads to a page and a heading');

# --- length ---------------------------------------------------------------------------------

# What a DBA reads is bounded: each fact stands once, on the page that owns it.
my $words = 0;
foreach my $file (grep { !/(?:sketches|checksum|compatibility)\.md$/ } "$top/README.md", glob("$top/doc/*.md"))
{
	$words += () = slurp_file($file) =~ /\S+/g;
}
cmp_ok($words, '<=', 24000, 'the pages for a DBA have at most 24,000 words');

# --- messages ------------------------------------------------------------------------------

# Those of doc/troubleshooting.md, and of the end of doc/sketches.md, are those of the source.  A row of its tables that begins with code
# quotes messages or details, in which an ellipsis stands for what is put in.  All the rest must be in
# the source, word for word.  The other way round, every SQLSTATE that the source raises must be on the page.
my $page = slurp_file("$top/doc/troubleshooting.md") . (slurp_file("$top/doc/sketches.md") =~ /^(## Messages\n.*?)(?:^## |\z)/ms)[0];
utf8::decode($page);

my @sources;
find({ wanted => sub { push @sources, $_ if /\.[ch]$|\.sql$/ && !/--[\d.]+\.sql$/ }, no_chdir => 1 }, "$top/src", "$top/sql");
cmp_ok(scalar(@sources), '>', 20, 'the source is there');
my $source = join "\n", map { slurp_file($_) } sort @sources;

# As the reader sees it: a string may go on in the next line, and quotes in it are
# doubled in SQL and escaped in C.
my $text = $source =~ s/(['"])\s*(?:\|\|)?\s*\n\s*(?:\|\|)?\s*\1//gr =~ s/''/'/gr =~ s/\\"/"/gr =~ s/%%/%/gr;

my ($quoted, @strange) = (0);
foreach my $message (map { split /`, `/ } $page =~ /^\| `([^`]+(?:`, `[^`]+)*)` \|/gm)
{
	# neither SQLSTATEs, nor the answers of libpq, nor arguments
	next if $message =~ /^[0-9A-Z]{5}$|^Non-superuser|^FATAL|=>|^(equal|differs|not comparable|error)$/;
	$quoted++;
	foreach my $part (split /\x{2026}/, $message)
	{
		$part =~ s/^[\s"():.]+|[\s"():.]+$//g;
		next if length($part) < 4;
		push @strange, "\"$part\" of \"$message\"" if index($text, $part) < 0;
	}
}
cmp_ok($quoted, '>', 80, 'the page quotes messages');
is(join("\n", @strange), '', 'every message on the page is one of the source');

# Names of conditions, from PostgreSQL's own list.
my ($sharedir) = run_command([ 'pg_config', '--sharedir' ]);
my %code = (IBLT_INCOMPLETE => 'IB001', IBLT_UNKNOWN_VALUE => 'IB006', IBLT_NOT_IN_FILTER => 'IB007', IBLT_NOT_TRUSTWORTHY => 'IB008', IBLT_ALTERED => 'IB004');
SKIP:
{
	skip 'errcodes.txt is not installed', 1 if !-e "$sharedir/errcodes.txt";
	foreach (split /\n/, slurp_file("$sharedir/errcodes.txt"))
	{
		next unless /^([0-9A-Z]{5})\s+[EWS]\s+ERRCODE_(\w+)(?:\s+(\w+))?/;
		$code{$2} //= $1;
		$code{$3} //= $1 if defined $3;
	}
	# IB000 never leaves an audit
	my %raised = map { $_ => 1 } grep { $_ ne 'IB000' }
	  $source =~ /errcode\(ERRCODE_(\w+)\)/g, $source =~ /ERRCODE = '(\w+)'/g,
	  $source =~ /\bRAISE (?!EXCEPTION)(?:SQLSTATE ')?(\w+)'? USING/g;
	my @absent = grep { my $state = $code{$_} // $_; $page !~ /`\Q$state\E`/ } sort keys %raised;
	is(join(' ', @absent), '', 'every SQLSTATE that the source raises is on the page');
}
done_testing();
