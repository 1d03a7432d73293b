-- Live digests in one session: kinds of keys and columns, arguments, and rights.
-- test/t/085_digests.pl and the like test them with several sessions.

\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt;
SET search_path = public, iblt_internal;
CREATE EXTENSION IF NOT EXISTS dblink;
CREATE FUNCTION is_right(relation regclass) RETURNS boolean LANGUAGE sql AS $$
	SELECT iblt_internal.live_is_right(relation, iblt_internal.iblt_track_options(relation))
$$;

-- keys of each kind, and the changes of each kind
CREATE TABLE tracking_small (id smallint PRIMARY KEY, v text);
CREATE TABLE tracking_uuid (id uuid PRIMARY KEY, v text);
CREATE TABLE tracking_date (id date PRIMARY KEY, v text);
CREATE TABLE tracking_text (id text PRIMARY KEY, v text);
CREATE TABLE tracking_two (a int, b timestamptz, v text, PRIMARY KEY (b, a));
CREATE TABLE tracking_long (a int8, b uuid, c timestamptz, v text, PRIMARY KEY (a, b, c));
CREATE TABLE tracking_one (id int PRIMARY KEY);
CREATE TABLE tracking_t (t int PRIMARY KEY);
CREATE DOMAIN tracking_domain AS int CHECK (VALUE > 0);
CREATE TABLE tracking_domain_key (id tracking_domain PRIMARY KEY, v tracking_domain[]);
DO $$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY '{small,uuid,date,text,two,long,one,t,domain_key}'::text[] LOOP
		EXECUTE format('CREATE FUNCTION tracking_fill_%s(n int, m int) RETURNS void LANGUAGE sql AS %L', name,
			format('INSERT INTO tracking_%s SELECT %s FROM generate_series(n, m) g', name, CASE name
				WHEN 'small' THEN $x$g, 'v' || g$x$
				WHEN 'uuid' THEN $x$md5(g::text)::uuid, 'v' || g$x$
				WHEN 'date' THEN $x$date '2020-01-01' + g, 'v' || g$x$
				WHEN 'text' THEN $x$repeat('k', g) || g, 'v' || g$x$
				WHEN 'two' THEN $x$g, timestamptz '2020-01-01 UTC' + g * interval '1 h', 'v' || g$x$
				WHEN 'long' THEN $x$g, md5(g::text)::uuid, timestamptz '2020-01-01 UTC', 'v' || g$x$
				WHEN 'domain_key' THEN $x$g, ARRAY[g, 1]$x$
				ELSE 'g' END));
		EXECUTE format('SELECT tracking_fill_%s(1, 100)', name);
	END LOOP;
END
$$;
CALL iblt_track('tracking_small');
CALL iblt_track('tracking_uuid', capacity => 100);
CALL iblt_track('tracking_date', capacity => 100);
CALL iblt_track('tracking_text', capacity => 100);
CALL iblt_track('tracking_two', capacity => 100);
CALL iblt_track('tracking_long', capacity => 100);
CALL iblt_track('tracking_one', capacity => 100);
CALL iblt_track('tracking_t', capacity => 100);
CALL iblt_track('tracking_domain_key', capacity => 100);
SELECT tracking_fill_small(101, 120), tracking_fill_uuid(101, 120), tracking_fill_date(101, 120),
	tracking_fill_text(101, 120), tracking_fill_two(101, 120), tracking_fill_long(101, 120),
	tracking_fill_one(101, 120), tracking_fill_t(101, 120), tracking_fill_domain_key(101, 120);
UPDATE tracking_small SET id = -id, v = NULL WHERE id < 20;
UPDATE tracking_uuid SET id = md5(v)::uuid WHERE id < '80000000-0000-0000-0000-000000000000';
UPDATE tracking_date SET v = v || '!';
UPDATE tracking_text SET id = id || v WHERE length(id) > 50;
UPDATE tracking_two SET a = a + 1, b = b + interval '1 day';
DELETE FROM tracking_long WHERE a % 2 = 0;
UPDATE tracking_one SET id = id + 1000;
UPDATE tracking_t SET t = -t;
UPDATE tracking_domain_key SET v = NULL WHERE id > 50;
SELECT relation, state, reason, rows, unmerged, is_right(relation) FROM iblt_live_status()
WHERE relation::text LIKE 'tracking_%';
SELECT relation, iblt_live_merge(relation), is_right(relation) FROM iblt_live_status()
WHERE relation::text LIKE 'tracking_%';

-- the digest is a sketch like others
SELECT rows, key_type FROM iblt_info(iblt_live('tracking_small'));
SELECT iblt_live('tracking_small', 100) = iblt_fold(iblt_live('tracking_small'), 100);
SELECT iblt_live('tracking_small', 1000000);
BEGIN;
SELECT iblt_session_keep('before', iblt_live('tracking_small')) IS NOT NULL;
DELETE FROM tracking_small WHERE id = 50;
INSERT INTO tracking_small VALUES (500, 'new');
SELECT side, key FROM iblt_decode(iblt_live('tracking_small') - iblt_session_get('before'), NULL::smallint)
ORDER BY 1, 2;
ROLLBACK;

-- an UPDATE of a column that the digest does not cover is not a change
CREATE TABLE tracking_some (id int PRIMARY KEY, seen int, unseen int);
INSERT INTO tracking_some SELECT g, g, g FROM generate_series(1, 10) g;
CALL iblt_track('tracking_some', columns => '{seen}', capacity => 100);
UPDATE tracking_some SET unseen = unseen + 1;
ALTER TABLE tracking_some ADD COLUMN later int;
SELECT state, unmerged, is_right(relation) FROM iblt_live_status() WHERE relation = 'tracking_some'::regclass;
UPDATE tracking_some SET seen = seen + 1;
SELECT state, unmerged, is_right(relation) FROM iblt_live_status() WHERE relation = 'tracking_some'::regclass;
ALTER TABLE tracking_some DROP COLUMN seen;
SELECT state, reason FROM iblt_live_status() WHERE relation = 'tracking_some'::regclass;
CALL iblt_live_rebuild('tracking_some');
CALL iblt_track('tracking_some', capacity => 100);
SELECT state, is_right(relation) FROM iblt_live_status() WHERE relation = 'tracking_some'::regclass;

-- another table of this database, with the same template
CREATE TABLE tracking_copy (v text, id smallint PRIMARY KEY, more int);
INSERT INTO tracking_copy SELECT v, id, 1 FROM tracking_small WHERE id <> 30;
CALL iblt_track('tracking_copy', peer_relation => 'tracking_small');
UPDATE tracking_copy SET v = 'other' WHERE id = 40;
SELECT side, key FROM iblt_decode(iblt_live('tracking_small') - iblt_live('tracking_copy'), NULL::smallint)
ORDER BY 1, 2;
CALL iblt_live_rebuild('tracking_copy');
SELECT count(*) FROM iblt_decode(iblt_live('tracking_small') - iblt_live('tracking_copy'), NULL::smallint);
CALL iblt_track('tracking_copy', peer_relation => 'tracking_uuid');
CALL iblt_track('tracking_copy', peer_relation => 'tracking_copy2');
CALL iblt_track('tracking_copy', columns => '{v}', peer_relation => 'tracking_small');

-- what cannot be tracked
CREATE TABLE tracking_bare (id int, v text);
CALL iblt_track('tracking_bare');
CALL iblt_track('tracking_bare', key_columns => '{id}', capacity => 100);
INSERT INTO tracking_bare VALUES (1, 'a'), (1, 'b'), (NULL, 'c'), (NULL, 'c');
DELETE FROM tracking_bare WHERE v = 'a';
SELECT is_right('tracking_bare');
CREATE VIEW tracking_view AS SELECT * FROM tracking_small;
CALL iblt_track('tracking_view');
CREATE TEMPORARY TABLE tracking_temp (id int PRIMARY KEY);
CALL iblt_track('tracking_temp');
CREATE UNLOGGED TABLE tracking_unlogged (id int PRIMARY KEY);
CALL iblt_track('tracking_unlogged');
CREATE TABLE tracking_names (id int PRIMARY KEY, r regclass);
CALL iblt_track('tracking_names');
CREATE TABLE tracking_rows (id int PRIMARY KEY, r pg_catalog.pg_aggregate);
CALL iblt_track('tracking_rows');
CALL iblt_track(NULL);
CALL iblt_track('tracking_one', capacity => 0);
CALL iblt_track('tracking_one', columns => '{nothing}');
BEGIN;
CALL iblt_track('tracking_one');
ROLLBACK;
CALL iblt_live_rebuild('tracking_names');
SELECT iblt_live('tracking_names');
SELECT iblt_live('tracking_view');
SELECT iblt_live(NULL);
SELECT is_right('tracking_one');

-- rights
CREATE ROLE tracking_owner;
CREATE ROLE tracking_reader;
CREATE ROLE tracking_writer;
ALTER TABLE tracking_date OWNER TO tracking_owner;
GRANT SELECT ON tracking_date TO tracking_reader;
GRANT INSERT ON tracking_date TO tracking_writer;
SET ROLE tracking_reader;
SELECT relation, rows FROM iblt_live_status();
SELECT rows FROM iblt_info(iblt_live('tracking_date'));
SELECT iblt_live_merge('tracking_date');
SELECT iblt_live_verify('tracking_date');
CALL iblt_live_rebuild('tracking_date');
CALL iblt_untrack('tracking_date');
SELECT iblt_internal.iblt_track_options('tracking_date');
SELECT * FROM iblt_internal.tracked;
SET ROLE tracking_writer;
INSERT INTO tracking_date VALUES ('2030-01-01', 'by another role');
SELECT iblt_live('tracking_date');
SELECT count(*) FROM iblt_live_status();
SET ROLE tracking_owner;
SELECT iblt_live_verify('tracking_date'), iblt_live_merge('tracking_date');
CALL iblt_live_rebuild('tracking_date');
ALTER TABLE tracking_date ENABLE ROW LEVEL SECURITY;
SET ROLE tracking_reader;
SELECT iblt_live('tracking_date');
SELECT count(*) FROM iblt_live_status();
SELECT rows FROM iblt_internal.iblt_live_state('tracking_date'::regclass);
SET ROLE tracking_owner;
ALTER TABLE tracking_date FORCE ROW LEVEL SECURITY;
CALL iblt_live_rebuild('tracking_date');
RESET ROLE;
SELECT is_right('tracking_date');
ALTER TABLE tracking_date OWNER TO CURRENT_USER;

-- the stores
INSERT INTO iblt_internal.changes_1 VALUES (1);
SELECT * FROM iblt_internal.tracked;

DO $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT relation::text FROM iblt_live_status() WHERE relation::text LIKE 'tracking_%' LOOP
		EXECUTE format('CALL iblt_untrack(%L)', name);
		EXECUTE format('DROP TABLE %s CASCADE', name);
	END LOOP;
END
$$;
SELECT count(*) FROM iblt_live_status();
DROP TABLE tracking_names, tracking_rows, tracking_unlogged;
DROP OWNED BY tracking_owner, tracking_reader, tracking_writer;
DROP ROLE tracking_owner, tracking_reader, tracking_writer;
