# IbltRepair.pm
#	The tests of iblt_repair share this, in addition to IbltTest.pm: two servers, the
#	rows that iblt_repair returns, and the contents of a table.
#
#	repair_servers()               the two servers, here and there
#	call(TABLE, DIRECTION, OPTIONS, PEER)  SQL that calls iblt_repair; PEER is SQL
#	repair(TABLE, DIRECTION, OPTIONS)      its rows, one on a line: "action key status detail", sorted
#	contents(NODE, TABLE, COLUMNS) every row as text under the same settings, with all columns if none are given
#	same(TABLE, TEXT, COLUMNS)     a test: both sides have the same rows, at least one
#	nothing_open(TEXT)             two tests: no connection is left there, and no lock here
package IbltRepair;

use IbltTest;

our @ISA = qw(IbltTest);
our @EXPORT = (@IbltTest::EXPORT, qw(repair_servers call repair contents same nothing_open $money $plain_settings));

my ($here, $there, $peer);

# Settings that change how values are read from text and written as text.  A locale
# for money is set only if the machine has one.
our ($money) = grep { /^(de_DE|en_GB|ja_JP|fr_FR)/i } split /\n/, `locale -a 2>/dev/null`;

# With these settings the text of a value does not depend on the server's settings.
our $plain_settings = "SET datestyle = ISO; SET intervalstyle = postgres; SET timezone = UTC; SET extra_float_digits = 1; SET bytea_output = hex;"
  . " SET xmlbinary = base64; SET lc_monetary = 'C'; SET search_path = pg_catalog, public;";

sub repair_servers
{
	# pg_stat_activity shows a statement as a whole
	my @awkward = ('track_activity_query_size = 16384', "datestyle = 'German'", "intervalstyle = 'sql_standard'", "bytea_output = 'escape'", "extra_float_digits = -5",
		"xmlbinary = 'hex'", "xmloption = 'document'", "timezone = 'Asia/Kolkata'",
		before(19, "standard_conforming_strings = off", "escape_string_warning = off"), ($money ? "lc_monetary = '$money'" : ()));
	($here, $there) = awkward_servers(\@awkward, [ @awkward, "datestyle = 'SQL, DMY'", "timezone = 'America/Caracas'", "intervalstyle = 'postgres_verbose'" ]);
	$peer = conninfo($there);
	return ($here, $there);
}

sub call
{
	my ($table, $direction, $options, $with) = @_;
	return "iblt_repair(${\ literal($table)}, " . ($with // $peer) . ", direction => '$direction'" . ($options ? ", $options" : '') . ")";
}

# peer: SQL.  user: the role.
sub repair
{
	my ($table, $direction, $options, %how) = @_;
	my $out = $here->safe_psql('postgres', "SELECT concat_ws(' ', action, key, status, detail) FROM "
		  . call($table, $direction, $options, $how{peer}) . ' AS r', extra_params => ($how{user} ? [ '-U', $how{user} ] : []));
	return join("\n", sort split /\n/, $out);
}

sub contents
{
	my ($node, $table, $columns) = @_;
	$columns //= '*';
	return $node->safe_psql('postgres', "$plain_settings SELECT t::text FROM (SELECT $columns FROM $table) AS t ORDER BY t::text COLLATE \"C\"");
}

sub same
{
	my ($table, $text, $columns) = @_;
	my ($h, $t) = map { contents($_, $table, $columns) } ($here, $there);
	ok($h eq $t && $h ne '', "$text: both sides are equal") or note("here:\n$h\nthere:\n$t");
	return;
}

sub nothing_open
{
	my ($text) = @_;
	nothing_left($text);
	ok($here->poll_query_until('postgres',
			"SELECT count(*) = 0 FROM pg_locks WHERE relation IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
				AND pid NOT IN (SELECT pid FROM pg_stat_activity WHERE backend_type = 'autovacuum worker')"),
		"$text: no lock is left here");
	return;
}

1;
