-- Live digests in one session: kinds of keys and columns, arguments, and rights.
-- test/t/085_digests.pl and the like test them with several sessions.

\set SHOW_CONTEXT never
\i test/sql/common.psql
SET client_min_messages = warning;
SET search_path = public, iblt_internal;
CREATE EXTENSION IF NOT EXISTS dblink;
CREATE FUNCTION is_right(relation regclass) RETURNS boolean LANGUAGE sql AS $$
	SELECT iblt_internal.live_is_right(relation, iblt_internal.iblt_live_options(relation))
$$;

-- other triggers, and those of foreign keys, are not taken for those of a digest
CREATE TABLE tracking_other (id int PRIMARY KEY, up int REFERENCES tracking_other);
CREATE TRIGGER other BEFORE UPDATE ON tracking_other FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
SELECT count(*) FROM iblt_live_status();
DROP TABLE tracking_other;

-- whether digests tell what a plan asks, and what is said of them
CREATE FUNCTION live_of(change jsonb) RETURNS iblt_internal.plan LANGUAGE sql AS $$
	SELECT jsonb_populate_record(NULL::iblt_internal.plan, '{"columns": [{"name": "id", "cast_to": ""}, {"name": "v", "cast_to": ""}], "key": [{"name": "id"}], "by_hash": false, "key_size": 8, "live": "auto"}' || (change - 'here' - 'there') || jsonb_build_object(
		'here', '{"relation": "a.t", "side": "here", "mapped": false}' || coalesce(change -> 'here' -> 'side', '{}') || jsonb_build_object('live', live || coalesce(change -> 'here' -> 'live', '{}')),
		'there', '{"relation": "a.t", "side": "there", "mapped": false}' || coalesce(change -> 'there' -> 'side', '{}') || jsonb_build_object('live', live || coalesce(change -> 'there' -> 'live', '{}'))))
	FROM (SELECT '{"generation": 1, "seed_hash": 1, "key_columns": ["id"], "columns": ["id", "v"], "by_hash": false, "key_size": 8, "hashes": 3, "subtable_cells": 140}'::jsonb) AS l(live)
$$;
CREATE FUNCTION refused(plan iblt_internal.plan, OUT state text, OUT problem text, OUT hint text) LANGUAGE plpgsql AS $$
BEGIN
	plan := iblt_internal.live_plan(plan, NULL);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, problem = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
END $$;
SELECT change, u.* FROM unnest(ARRAY['{}', '{"here": {"side": {"condition": "true"}}}', '{"there": {"side": {"condition": "true"}}}', '{"columns": [{"name": "id", "cast_to": ""}, {"name": "v", "cast_to": "text"}]}', '{"there": {"live": {"seed_hash": 2}}}',
	'{"there": {"live": {"key_columns": ["v"]}}}', '{"there": {"live": {"columns": ["v", "id"]}}}', '{"there": {"live": {"by_hash": true}}}', '{"there": {"live": {"key_size": 16}}}', '{"there": {"live": {"hashes": 4}}}', '{"there": {"live": {"subtable_cells": 210}}}',
	'{"there": {"live": {"subtable_cells": 207}}}', '{"here": {"live": {"subtable_cells": 138}}, "there": {"live": {"subtable_cells": 207}}}', '{"here": {"side": {"mapped": true}}}', '{"there": {"side": {"mapped": true}}}', '{"key": [{"name": "v"}]}', '{"key": [{"name": "id"}, {"name": "v"}]}',
	'{"columns": [{"name": "v", "cast_to": ""}, {"name": "id", "cast_to": ""}]}', '{"columns": [{"name": "id", "cast_to": ""}]}', '{"by_hash": true}', '{"key_size": 1}', '{"key_size": 9}']::jsonb[]) AS change, refused(live_of(change || '{"live": "require"}')) AS u;
SELECT change, u.* FROM unnest(ARRAY['{}', '{"here": {"live": {"generation": null}}}', '{"here": {"live": {"reason": "why"}}}', '{"here": {"side": {"place": "iblt_x"}, "live": {"reason": "why"}}}']::jsonb[]) AS change, refused(live_of(change || '{"live": "require"}')) AS u;
SELECT digests, here, there, iblt_internal.live_said(jsonb_populate_record(live_of(jsonb_build_object('here', jsonb_build_object('live', jsonb_build_object('verified_at', here)), 'there', jsonb_build_object('live', jsonb_build_object('verified_at', there)))),
	jsonb_build_object('from_digests', digests, 'live_problem', problem)))
FROM (VALUES (true, NULL, NULL, NULL), (true, '2026-01-01 10:00+00', NULL, NULL), (true, NULL, '2026-01-02 10:00+00', NULL), (false, NULL, NULL, 'why'), (false, NULL, NULL, NULL)) AS v(digests, here, there, problem);
DROP FUNCTION live_of, refused;

-- keys of each kind, and the changes of each kind
CREATE DOMAIN tracking_domain AS int CHECK (VALUE > 0);
CREATE TEMP TABLE kinds AS SELECT * FROM (VALUES
	(1, 'small', 'id smallint PRIMARY KEY, v text', $x$g, 'v' || g$x$, 'UPDATE %s SET id = -id, v = NULL WHERE id < 20'),
	(2, 'uuid', 'id uuid PRIMARY KEY, v text', $x$md5(g::text)::uuid, 'v' || g$x$, $x$UPDATE %s SET id = md5(v)::uuid WHERE id < '80000000-0000-0000-0000-000000000000'$x$),
	(3, 'date', 'id date PRIMARY KEY, v text', $x$date '2020-01-01' + g, 'v' || g$x$, $x$UPDATE %s SET v = v || '!'$x$),
	(4, 'text', 'id text PRIMARY KEY, v text', $x$repeat('k', g) || g, 'v' || g$x$, 'UPDATE %s SET id = id || v WHERE length(id) > 50'),
	(5, 'two', 'a int, b timestamptz, v text, PRIMARY KEY (b, a)', $x$g, timestamptz '2020-01-01 UTC' + g * interval '1 h', 'v' || g$x$, $x$UPDATE %s SET a = a + 1, b = b + interval '1 day'$x$),
	(6, 'long', 'a int8, b uuid, c timestamptz, v text, PRIMARY KEY (a, b, c)', $x$g, md5(g::text)::uuid, timestamptz '2020-01-01 UTC', 'v' || g$x$, 'DELETE FROM %s WHERE mod(a, 2) = 0'),
	(7, 'one', 'id int PRIMARY KEY', 'g', 'UPDATE %s SET id = id + 1000'), (8, 't', 't int PRIMARY KEY', 'g', 'UPDATE %s SET t = -t'),
	(9, 'domain_key', 'id tracking_domain PRIMARY KEY, v tracking_domain[]', 'g, ARRAY[g, 1]', 'UPDATE %s SET v = NULL WHERE id > 50')) AS v(n, name, columns, filled, change);
DO $$
DECLARE
	k record;
	fill CONSTANT text := 'INSERT INTO tracking_%s SELECT %s FROM generate_series(%s, %s) g';
BEGIN
	FOR k IN SELECT * FROM pg_temp.kinds ORDER BY n LOOP
		EXECUTE format('CREATE TABLE tracking_%s (%s)', k.name, k.columns);
		EXECUTE format(fill, k.name, k.filled, 1, 100);
		IF k.name = 'small' THEN
			CALL iblt_track('tracking_small');
		ELSE
			CALL iblt_track(('tracking_' || k.name)::regclass, capacity => 100);
		END IF;
		EXECUTE format(fill, k.name, k.filled, 101, 120);
		COMMIT;
		EXECUTE format(k.change, 'tracking_' || k.name);
		COMMIT;
	END LOOP;
END $$;
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
SELECT bool_and(iblt_live('tracking_small', n) = iblt_fold(iblt_live('tracking_small'), n)) AS folds FROM generate_series(10, 3010, 50) AS n;
SELECT side, key FROM iblt_decode(iblt_live('tracking_small') - iblt_session_get('before'), NULL::smallint)
ORDER BY 1, 2;
ROLLBACK;

-- from which size on a fold of it is told with the description
SELECT cells, (live_digest('tracking_small', true, iblt_compare_fold(iblt_live('tracking_small'), 70)::text, cells)).fold IS NOT NULL AS folded FROM unnest('{70,60}'::int[]) AS cells;
-- a sample is not read from digests
CREATE TABLE tracking_sample (id int PRIMARY KEY);
CREATE TABLE tracking_sample_there (id int PRIMARY KEY);
CALL iblt_track('tracking_sample', capacity => 1000);
CALL iblt_track('tracking_sample_there', peer_relation => 'tracking_sample');
INSERT INTO tracking_sample SELECT generate_series(1, 400);
SET client_min_messages = error;
SELECT count(*) BETWEEN 1 AND 20 AS sample, bool_and(side = 'here') AS here FROM iblt_compare('tracking_sample', NULL, 'tracking_sample_there', live => 'auto', max_differences => 20, on_too_many => 'sample', seed => 1);
SELECT live FROM iblt_compare_stats();
SET client_min_messages = warning;
DROP TABLE tracking_sample, tracking_sample_there;

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
-- an empty list would mean the key alone
CALL iblt_track('tracking_copy', columns => '{}');
CALL iblt_track('tracking_copy', columns => '{v,NULL}');
CALL iblt_track('tracking_copy', key_columns => '{}');

-- what cannot be tracked
CREATE TABLE tracking_bare (id int, v text);
CALL iblt_track('tracking_bare');
CALL iblt_track('tracking_bare', key_columns => '{id}', capacity => 100);
INSERT INTO tracking_bare VALUES (1, 'a'), (1, 'b'), (NULL, 'c'), (NULL, 'c');
DELETE FROM tracking_bare WHERE v = 'a';
SELECT is_right('tracking_bare');
CREATE VIEW tracking_view AS SELECT * FROM tracking_small;
CALL iblt_track('tracking_view');
CALL iblt_track(0);
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
SELECT * FROM pg_temp.refusals('iblt_live(%s)', $$'tracking_names'$$, $$'tracking_view'$$, 'NULL', '0');
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
SET row_security = off;
SELECT rows FROM iblt_internal.iblt_live_state('tracking_date'::regclass);
RESET row_security;
SET ROLE tracking_owner;
ALTER TABLE tracking_date FORCE ROW LEVEL SECURITY;
CALL iblt_live_rebuild('tracking_date');
RESET ROLE;
SELECT is_right('tracking_date');
ALTER TABLE tracking_date OWNER TO CURRENT_USER;

-- keys whose type is dropped
CREATE DOMAIN tracking_number AS int;
CREATE TABLE tracking_falls (n tracking_number PRIMARY KEY);
CREATE TABLE tracking_fallen (id int, n tracking_number, PRIMARY KEY (id, n));
INSERT INTO tracking_falls VALUES (1);
INSERT INTO tracking_fallen VALUES (1, 1);
CALL iblt_track('tracking_falls');
CALL iblt_track('tracking_fallen');
DROP DOMAIN tracking_number CASCADE;
SELECT relation, state, reason FROM iblt_live_status() WHERE relation::text IN ('tracking_falls', 'tracking_fallen') ORDER BY relation::text;
SELECT iblt_live('tracking_falls');
SELECT iblt_live('tracking_fallen');
-- a key that may be null by now
CREATE TABLE tracking_null (id int PRIMARY KEY, v int);
CALL iblt_track('tracking_null');
ALTER TABLE tracking_null DROP CONSTRAINT tracking_null_pkey, ALTER id DROP NOT NULL;
INSERT INTO tracking_null VALUES (1, 2);
SELECT is_right('tracking_null');
INSERT INTO tracking_null VALUES (NULL, 2);
SELECT iblt_live('tracking_null');
-- changes of savepoints in all sizes: up to 2844 of them are a list that is smaller than a sketch
CREATE TABLE tracking_levels (id int PRIMARY KEY, v int DEFAULT 0);
INSERT INTO tracking_levels SELECT generate_series(1, 2900);
CALL iblt_track('tracking_levels', capacity => 10);
SELECT bytes / 25 AS of_25_bytes FROM iblt_info(iblt_live('tracking_levels'));
DO $$
DECLARE
	n int;
	m int;
BEGIN
	FOR n, m IN VALUES (0, 2850), (10, 20), (20, 10), (2840, 20), (2840, 2850), (2850, 20), (2850, 2840), (2850, 2860), (2860, 2850) LOOP
		UPDATE tracking_levels SET v = v + 1 WHERE id <= n;
		BEGIN UPDATE tracking_levels SET v = v + 1 WHERE id > 2900 - m; EXCEPTION WHEN no_data_found THEN NULL; END;
		UPDATE tracking_levels SET v = v + 1 WHERE id = 7;
		ASSERT is_right('tracking_levels'), format('%s changes and %s of a savepoint', n, m);
		COMMIT;
		ASSERT is_right('tracking_levels'), format('%s changes and %s of a savepoint, after COMMIT', n, m);
	END LOOP;
END $$;
-- a statement that is cancelled at the release of a savepoint ends after it
DO $$
DECLARE
	sent boolean;
BEGIN
	UPDATE tracking_levels SET v = v + 1 WHERE id <= 2850;
	BEGIN
		UPDATE tracking_levels SET v = v + 1 WHERE id > 50;
		sent := pg_cancel_backend(pg_backend_pid());
	EXCEPTION WHEN no_data_found THEN NULL;
	END;
	NULL;
END $$;
-- and of keys whose sketch has their types: 5000 are no list
BEGIN;
INSERT INTO tracking_two SELECT g, '2030-01-01', 'v' FROM generate_series(1, 5000) AS g;
SELECT is_right('tracking_two'), bytes / 25 < 5000 AS smaller FROM iblt_info(iblt_live('tracking_two'));
ROLLBACK;
-- triggers that somebody else made of the function change nothing
CREATE TRIGGER early BEFORE INSERT OR UPDATE OR DELETE ON tracking_levels FOR EACH ROW EXECUTE FUNCTION iblt_internal.iblt_track_row();
CREATE TRIGGER statements AFTER INSERT OR UPDATE OR DELETE ON tracking_levels FOR EACH STATEMENT EXECUTE FUNCTION iblt_internal.iblt_track_row();
UPDATE tracking_levels SET v = -1 WHERE id = 1 RETURNING *;
DELETE FROM tracking_levels WHERE id = 2 RETURNING id;
INSERT INTO tracking_levels VALUES (2, -2) RETURNING *;
SELECT is_right('tracking_levels');
-- a partition that is elsewhere
CREATE FOREIGN DATA WRAPPER tracking_wrapper;
CREATE SERVER tracking_server FOREIGN DATA WRAPPER tracking_wrapper;
CREATE TABLE tracking_whole (id int) PARTITION BY LIST (id);
CREATE TABLE tracking_near PARTITION OF tracking_whole (PRIMARY KEY (id)) FOR VALUES IN (1);
CREATE FOREIGN TABLE tracking_far PARTITION OF tracking_whole FOR VALUES IN (2) SERVER tracking_server;
CALL iblt_track('tracking_whole', key_columns => '{id}');
CALL iblt_track('tracking_far', key_columns => '{id}');
DROP TABLE tracking_whole;
DROP FOREIGN DATA WRAPPER tracking_wrapper CASCADE;
-- a merge of nothing writes nothing
-- (the first merges what a worker has not merged yet)
SELECT iblt_live_merge('tracking_levels') IS NOT NULL AS merged;
BEGIN;
SELECT pg_stat_get_xact_tuples_inserted('iblt_internal.base'::regclass) AS before \gset
SELECT iblt_live_merge('tracking_levels'), pg_stat_get_xact_tuples_inserted('iblt_internal.base'::regclass) - :before AS written;
-- but it takes the note of a scan
SELECT iblt_live_verify('tracking_levels');
SELECT iblt_live_merge('tracking_levels'), pg_stat_get_xact_tuples_inserted('iblt_internal.base'::regclass) - :before AS written;
COMMIT;

-- stores that are not ours any more
BEGIN;
SET LOCAL allow_system_table_mods = on;
UPDATE pg_class SET relkind = 'r', relhasrules = false WHERE oid = 'iblt_internal.base'::regclass;
SELECT state, reason FROM iblt_live_status() WHERE relation = 'tracking_levels'::regclass;
UPDATE pg_class SET relkind = 'r', relhasrules = false WHERE oid = 'iblt_internal.tracked'::regclass;
SELECT state, reason FROM iblt_live_status() WHERE relation = 'tracking_levels'::regclass;
ROLLBACK;
-- a store that was refreshed has a row of nulls, which is not that of a table
BEGIN;
REFRESH MATERIALIZED VIEW iblt_internal.tracked;
SELECT iblt_internal.iblt_live_tables();
ROLLBACK;
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
