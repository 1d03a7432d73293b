# What each extension needs: a peer that has iblt alone is compared, audited and repaired, digests
# need iblt_live on the server that keeps them, and connections are made by iblt_audit alone.
use IbltTest;

my ($here, $there) = (server('here'), server('there'));
sides($here, $there);
$here->safe_psql('postgres', 'CREATE EXTENSION iblt; CREATE EXTENSION iblt_audit; CREATE EXTENSION dblink');
$there->safe_psql('postgres', 'CREATE EXTENSION iblt');
my $peer = conninfo($there);
my $made = 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, g FROM generate_series(1, 2000) g; CREATE TABLE same AS TABLE t; ALTER TABLE same ADD PRIMARY KEY (id);';
both($made);
sub drift { $there->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 5; DELETE FROM t WHERE id = (SELECT max(id) FROM t); INSERT INTO t SELECT min(id) - 1, 1 FROM t'); return }
sub here { my ($sql) = @_; return $here->safe_psql('postgres', $sql) }
sub told { my ($sql) = @_; my (undef, $out, $err) = $here->psql('postgres', $sql); return "$out$err" }

# --- a peer with iblt alone -------------------------------------------------------------------

drift();
is(here("SELECT string_agg(key ->> 'id' || side, ' ' ORDER BY key ->> 'id') FROM iblt_compare('t', $peer)"), '0there 2000here 5both', 'compared');
is(here("SELECT string_agg(relation || ' ' || status, ', ' ORDER BY relation) FROM iblt_audit($peer, schema => 'public')"), 'public.same equal, public.t differs', 'audited');
is(here("SELECT count(*) FROM iblt_compare_nodes('public.t', ARRAY[NULL, $peer])"), '3', 'compared as a node');
is(here("SELECT count(*) FROM iblt_audit_structure($peer, schema => 'public')"), '0', 'its structure is audited');
here("CALL iblt_audit_run($peer, '{t,same}', progress => false)");
is(here('SELECT string_agg(concat_ws(\' \', relation, status), \', \' ORDER BY relation) FROM iblt_audit_tables'), 'public.same equal, public.t differs', 'audited by a run');
is(here("SELECT count(*) FROM iblt_repair('t', $peer, direction => 'push', apply => true) WHERE status = 'applied'"), '3', 'repaired');
drift();
is(here("SELECT count(*) FROM iblt_repair('t', $peer, direction => 'pull', apply => true) WHERE status = 'applied'"), '3', 'and so is this side');
is(here("SELECT count(*) FROM iblt_compare('t', $peer)"), '0', 'equal afterwards');
is($there->safe_psql('postgres', "SELECT count(*) FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
	WHERE concat(p.prosrc, pg_get_function_sqlbody(p.oid)) ~ 'iblt_peers?_(open|send|fetch)'"), '0', 'no function there makes a connection');

# --- digests ------------------------------------------------------------------------------------

is(here("SELECT count(*) FROM iblt_compare('t', $peer, live => 'auto')"), '0', 'without iblt_live, relations are scanned');
like(told("SELECT count(*) FROM iblt_compare('t', $peer, live => 'require')"), qr/live digests cannot be used: public\.t is not tracked \(here\)/, 'and there is no digest to require');
like(told("CALL iblt_track_all($peer, '{t}')"), qr/ERROR: +extension iblt_live is not installed here\nHINT: +Run CREATE EXTENSION iblt_live there\./, 'tracking needs iblt_live here');
here('CREATE EXTENSION iblt_live');
like(told("CALL iblt_track_all($peer, '{t}')"), qr/ERROR: +extension iblt_live is not installed on the peer/, 'and on the peer');
$there->safe_psql('postgres', 'CREATE EXTENSION iblt_live');
is(here("CALL iblt_track_all($peer, '{t}')"), '1|0', 'then both are tracked');
drift();
is(here("SELECT count(*) FROM iblt_compare('t', $peer, live => 'require')"), '3', 'and compared by their digests');
like(($there->psql('postgres', 'DROP EXTENSION iblt_live'))[2], qr/cannot drop extension iblt_live because other objects depend on it/, 'triggers keep the extension');
$there->safe_psql('postgres', 'SET client_min_messages = error; DROP EXTENSION iblt_live CASCADE; INSERT INTO t VALUES (-9, 2)');
is(here("SELECT count(*) FROM iblt_compare('t', $peer, live => 'auto')"), '4', 'without it, the relations are scanned again');
like(told("SELECT count(*) FROM iblt_compare('t', $peer, live => 'require')"), qr/is not tracked \(there\)/, 'and the digest is gone');
like((here('DROP EXTENSION iblt_audit CASCADE; SELECT count(*) FROM iblt_live_status()')), qr/^1$/, 'the conductor goes without the digests');

done_testing();
