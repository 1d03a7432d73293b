-- The steps of an audit that need no peer: which tables are listed, what a publication
-- leaves out, and when a table is not comparable.  Peers are tested in test/t.
\i test/sql/common.psql
SET client_min_messages = error;	-- wal_level may be too low for publications
CREATE SCHEMA aud;
CREATE SCHEMA aud_parts;
SET search_path = aud, public, iblt_internal;
CREATE FUNCTION item(j jsonb) RETURNS iblt_internal.audit_item LANGUAGE sql AS 'SELECT jsonb_populate_record(NULL::iblt_internal.audit_item, j)';
CREATE FUNCTION plan(j jsonb) RETURNS iblt_internal.plan LANGUAGE sql AS 'SELECT jsonb_populate_record(NULL::iblt_internal.plan, j)';
CREATE FUNCTION published(j jsonb) RETURNS iblt_internal.published_table LANGUAGE sql AS 'SELECT jsonb_populate_record(NULL::iblt_internal.published_table, j)';
CREATE FUNCTION target(j jsonb) RETURNS iblt_internal.audit_target LANGUAGE sql AS 'SELECT jsonb_populate_record(NULL::iblt_internal.audit_target, j)';
CREATE FUNCTION options(recheck integer DEFAULT NULL) RETURNS iblt_internal.options LANGUAGE sql
	AS $$SELECT jsonb_populate_record(NULL::iblt_internal.options, '{"max_differences": 100000, "content": "none", "cast_types": false, "extra_columns": "warn", "timeout": "1 minute",
		"progress": false, "live": "off", "method": "sketch", "by_index": false}' || jsonb_build_object('recheck', recheck))$$;

-- tables of a schema: partitions are covered by an ancestor in it, and by no other
CREATE TABLE a (id int PRIMARY KEY, v int, twice int GENERATED ALWAYS AS (v * 2) STORED);
CREATE TABLE "B ""b" (id int PRIMARY KEY);
CREATE TABLE parts (id int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (10) PARTITION BY RANGE (id);
CREATE TABLE parts_1_1 PARTITION OF parts_1 FOR VALUES FROM (1) TO (5);
CREATE TABLE aud_parts.parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
CREATE VIEW seen AS SELECT * FROM a;
CREATE SEQUENCE seq;
CREATE MATERIALIZED VIEW kept AS SELECT * FROM a;
SELECT iblt_internal.audit_tables('aud'), iblt_internal.audit_tables('aud_parts'), iblt_internal.audit_tables('no such');
-- tables given, in their order, each once, and one that is not there
SELECT (items[n]).schema, (items[n]).name, (items[n]).relid IS NOT NULL AS relid, (items[n]).listed
FROM iblt_internal.audit_list(NULL, iblt_internal.audit_make_target('{parts,a,parts,4294967295}', NULL, NULL, NULL)) AS x(items), generate_subscripts(items, 1) AS n ORDER BY n;
SELECT iblt_internal.audit_subscribed('a'), iblt_internal.audit_subscribed('parts');

-- publications
CREATE PUBLICATION p_all FOR TABLE a, "B ""b";
CREATE PUBLICATION p_changes FOR TABLE a WITH (publish = 'update, delete');
CREATE PUBLICATION p_inserts FOR TABLE a, "B ""b" WITH (publish = 'insert, truncate');
CREATE PUBLICATION p_none FOR TABLE a WITH (publish = 'truncate');
CREATE PUBLICATION p_empty;
SELECT asked, p -> 'publications' AS there, (SELECT string_agg(concat_ws(' ', t ->> 'name', 'lacks', t ->> 'operations_left_out'), '; ' ORDER BY n)
	FROM jsonb_array_elements(p -> 'tables') WITH ORDINALITY AS x(t, n)) AS tables
FROM unnest('{p_all,p_changes,p_inserts,p_none,p_empty,p_missing}'::text[]) AS asked, LATERAL (SELECT iblt_internal.audit_published(ARRAY[asked])) AS y(p);
SELECT (SELECT string_agg(concat_ws(' ', t ->> 'name', 'lacks', t ->> 'operations_left_out'), '; ' ORDER BY n) FROM jsonb_array_elements(p -> 'tables') WITH ORDINALITY AS x(t, n)) AS of_two
FROM iblt_internal.audit_published('{p_changes,p_inserts}') AS p;
-- what an error says of a table
CREATE FUNCTION failure(state text, message text, detail text) RETURNS iblt_internal.failure LANGUAGE sql
	AS $$SELECT jsonb_populate_record(NULL::iblt_internal.failure, jsonb_build_object('state', state, 'message', message, 'detail', detail))$$;
SELECT state, (f).relation, (f).peer_relation, (f).status, (f).detail, (f).sqlstate
FROM unnest('{IB002,IB003,IB004,IB005,42P01,42703,42804,42809,0A000,57014,42501,XX002,NULL}'::text[]) AS state,
	 LATERAL (SELECT iblt_internal.audit_failed(item('{"relid": 1, "schema": "s", "name": "T t", "notes": ["one", "two"]}'), failure(state, 'what', 'detail'))) AS x(f);
SELECT (iblt_internal.audit_failed(item('{"relid": 1, "schema": "s", "name": "t"}'), failure('IB003', 'too many', ''))).status AS unready,
	   (iblt_internal.audit_failed(item('{"schema": "s", "name": "t", "problem": "why", "absent": true}'), NULL)).*;

-- the status of a table by its differences
CREATE FUNCTION result(item jsonb, sides text[], confirmed boolean[]) RETURNS iblt_internal.audit_row LANGUAGE sql AS $$
	SELECT iblt_internal.audit_verdict(item(item), plan('{"here": {"relation": "s.t", "columns": [{"name": "x"}]}, "there": {"relation": "s.t"}, "columns_left_out": ["x", "y"]}'::jsonb || item),
		jsonb_populate_record(NULL::iblt_internal.figures, '{"rows_here": 7, "rows_there": 8, "bytes_sent": 1, "bytes_received": 2}'),
		iblt_internal.audit_count(ARRAY(SELECT ROW('1', '1', side, NULL, NULL, 1, 1, NULL, c, NULL, NULL, NULL, NULL, NULL)::iblt_internal.difference FROM unnest(sides, confirmed) AS d(side, c)), NULL))
$$;
SELECT what, (r).status, (r).missing, (r).extra, (r).changed, (r).unconfirmed, (r).rows_here, (r).rows_there, (r).bytes, (r).detail
FROM (VALUES ('none', '{}'::text[], '{}'::boolean[], '{}'::jsonb), ('not rechecked', '{here,there,there,both}', '{}', '{}'), ('confirmed', '{both}', '{t}', '{}'),
	('one is confirmed', '{here,both}', '{t,f}', '{}'), ('unconfirmed', '{both,here}', '{f,f}', '{}'), ('unready', '{both,here}', '{f,f}', '{"links": [{"ready": false}]}'),
	('unready and none', '{}', '{}', '{"links": [{"ready": false}], "notes": ["note"]}')) AS v(what, sides, confirmed, item),
	LATERAL (SELECT result(item, sides, confirmed)) AS x(r);

-- which columns and rows of a published table are compared
CREATE SUBSCRIPTION s CONNECTION 'host=/nonexistent' PUBLICATION p_parts, p_leaf, p_missing WITH (connect = false, slot_name = NONE, enabled = false);
CREATE PUBLICATION p_parts FOR TABLE parts WITH (publish_via_partition_root = true);
CREATE PUBLICATION p_leaf FOR TABLE parts_1_1, "B ""b";
SELECT iblt_internal.audit_subscription('s'), iblt_internal.audit_subscription('none');
SELECT (i).schema, (i).name, (i).problem, (i).notes, (i).absent, (i).listed, (i).subscriber, (i).subscription FROM unnest(iblt_internal.audit_list_published('{NULL,NULL}', target('{"kind": "subscription", "name": "s"}'))) AS i;
-- a report says how a subscription does, unless all is equal
SELECT status, subscription, regexp_replace(public.iblt_audit_report(json_build_array(json_build_object('relation', 't', 'status', status)), 'summary', subscription => subscription),
	'(here): \S+, database \w+, PostgreSQL \S+, at \w+/\w+, \S+Z', '\1') AS report
FROM (VALUES ('differs', 's'), ('error', 's'), ('equal', 's'), ('differs', 'none'), ('differs', NULL)) AS v(status, subscription);
DROP SUBSCRIPTION s;
DROP PUBLICATION p_parts, p_leaf;
-- reports in all forms
CREATE FUNCTION reported(form text, tables json, structure json DEFAULT NULL, name text DEFAULT 'a "name"') RETURNS text LANGUAGE sql AS $$
	SELECT regexp_replace(public.iblt_audit_report(tables, form, name, structure => structure), '(finished": "|seconds\{[^}]*\} |made at )[^"<\n]*', '\1NOW', 'g')
$$;
SELECT html(U&'<\202Eb\2066c\0001d\00E9') AS shown;
CREATE TABLE reported AS SELECT json_agg(t ORDER BY n) AS tables FROM unnest(ARRAY['{"relation": "a.few", "status": "differs", "rows_here": 1234, "rows_there": 1235, "missing": 2, "extra": 1, "changed": 1000, "unconfirmed": 3, "detail": "said"}',
	'{"relation": "a.equal", "status": "equal", "rows_here": 5, "rows_there": 5, "missing": 0, "extra": 0, "changed": 0, "unconfirmed": 0, "detail": "note"}', '{"peer_relation": "a.there", "status": "not comparable", "detail": "tab\tline\nback\\"}',
	'{"relation": "a.many", "status": "differs", "detail": "too many"}', '{"relation": "a.b", "status": "error", "detail": ""}', '{}']::json[]) WITH ORDINALITY AS u(t, n);
\pset format unaligned
SELECT reported(form, tables, structure) FROM reported, unnest('{text,summary,verdict,json,tsv,nagios,prometheus}'::text[]) WITH ORDINALITY AS f(form, n),
	(VALUES (NULL::json), ('[{"kind": "view", "object": "a.v", "property": "exists", "here": "true", "severity": "change"}, {"kind": "index", "object": "a.i", "property": "method", "there": "hash", "severity": "danger"}]')) AS s(structure)
WHERE structure IS NULL OR form NOT IN ('verdict', 'tsv') ORDER BY n, structure IS NOT NULL;
SELECT regexp_replace(regexp_replace(reported('html', tables), '<style>.*</style>', ''), 'database \w+', 'database') FROM reported;
SELECT n, split_part(reported(form, (SELECT json_agg(json_build_object('relation', 't' || g, 'status', 'error')) FROM generate_series(1, n) AS g), structure), E'\n', line) AS line
FROM (VALUES ('summary', 20, NULL::json, -1), ('summary', 21, NULL, -1), ('nagios', 5, NULL, 1), ('nagios', 6, NULL, 1), ('summary', 1, (SELECT json_agg(json_build_object('kind', 'k' || g)) FROM generate_series(1, 20) AS g), -1),
	('summary', 1, (SELECT json_agg(json_build_object('kind', 'k' || g)) FROM generate_series(1, 21) AS g), -1)) AS v(form, n, structure, line);
SELECT reported('nagios', tables, structure, NULL) FROM (VALUES ('[]'::json, NULL::json), ('[{"status": "equal"}]', '[]'), ('[{"status": "equal"}, {"status": "equal"}]', NULL), ('[{"status": "equal"}]', '[{"severity": "unknown"}]'), ('[{"status": "error"}, {"status": "equal"}]', NULL)) AS v(tables, structure);
\pset format aligned
-- baselines: what cannot be one, and what tables have become
CREATE TABLE base (id int PRIMARY KEY, v text);
CREATE TABLE hashed (id text PRIMARY KEY, v int);
INSERT INTO base SELECT i, i FROM generate_series(1, 40) AS i;
INSERT INTO hashed SELECT 'k' || i, i FROM generate_series(1, 40) AS i;
SELECT call, pg_temp.refusal('SELECT public.iblt_baseline(' || call || ')') AS said FROM unnest(ARRAY[$$'{aud.base}', capacity => -1$$, $$'{aud.base}', capacity => 1$$, $$'{aud.base}', capacity => 100000$$, $$'{aud.base}', capacity => 100001$$, $$'{aud.base}', capacity => NULL$$, $$'{aud.base,NULL}'$$,
	$$'{aud.base}', schema => 'aud'$$, $$'{}'$$, $$schema => 'aud_none'$$, $$'{aud.seen}'$$]) AS call;
-- tables are read once each, in the order given
SELECT listed, (SELECT string_agg(line::json ->> 'relation', ', ' ORDER BY n) FROM string_to_table(public.iblt_baseline(listed::regclass[]), chr(10)) WITH ORDINALITY AS u(line, n)) AS tables
FROM (VALUES ('{aud.base,aud.hashed,aud.base}'), ('{aud.hashed,aud.base,aud.hashed}')) AS v(listed);
SELECT public.iblt_baseline('{aud.base,aud.hashed}', capacity => 20) AS b \gset
CREATE VIEW against AS SELECT n, relation, status, sqlstate, rows_here, rows_there, missing, extra, changed, regexp_replace(regexp_replace(detail, '^baseline of [^;]*', 'baseline'), 'about \d+', 'about N') AS detail,
	(SELECT jsonb_agg(k ORDER BY k) FROM jsonb_array_elements(keys) AS k) AS keys FROM public.iblt_audit_baseline(current_setting('aud.baseline')) WITH ORDINALITY AS b(relation, status, detail, sqlstate, rows_here, rows_there, missing, extra, changed, keys, n);
SELECT set_config('aud.baseline', :'b', false) <> '' AS kept;
TABLE against ORDER BY n;
DELETE FROM base WHERE id = 7;
INSERT INTO base VALUES (100, 'new');
UPDATE base SET v = 'x' WHERE id = 9;
DELETE FROM hashed WHERE id = 'k7';
INSERT INTO hashed VALUES ('more', 0);
UPDATE hashed SET v = 0 WHERE id = 'k9';
TABLE against ORDER BY n;
INSERT INTO base SELECT i, '' FROM generate_series(1001, 3000) AS i;
ALTER TABLE hashed ADD w int;
SELECT relation, status, sqlstate, rows_here, rows_there, missing, keys, detail FROM against ORDER BY n;
-- a hash in place of the sketch says whether a table differs, and no keys
SELECT public.iblt_baseline('{aud.base}', capacity => 0) AS b \gset
SELECT :'b' ~ '"sketch":null,"hash":"[0-9a-f]{64}"' AS hashed, set_config('aud.baseline', :'b', false) <> '' AS kept;
SELECT relation, status, sqlstate, rows_here, rows_there, missing, keys, detail FROM against ORDER BY n;
UPDATE base SET v = 'y' WHERE id = 9;
SELECT relation, status, sqlstate, rows_here, rows_there, missing, keys, detail FROM against ORDER BY n;
UPDATE base SET v = 'x' WHERE id = 9;
SELECT relation, status, sqlstate, rows_here, rows_there, missing, keys, detail FROM against ORDER BY n;
SELECT set_config('aud.baseline', public.iblt_baseline('{aud.base,aud.hashed}', capacity => 20), false) <> '' AS kept;
DROP TABLE hashed;
SELECT relation, status, sqlstate, rows_here, rows_there, detail FROM against WHERE n = 2;
DROP VIEW against;
DROP TABLE base;

-- audits that make no sense
SELECT (t).* FROM (VALUES (NULL::regclass[], 's', NULL), ('{a}', NULL, NULL), (NULL, NULL, 'p'), (NULL, NULL, NULL), ('{a}', 's', NULL), (NULL, 's', 'p')) AS v(tables, schema, publication),
	LATERAL (SELECT iblt_internal.audit_make_target(tables, schema, publication, NULL)) AS x(t);
SELECT pg_temp.refusal(format('SELECT iblt_internal.audit_check(%L, false, target(%L), options())', alone, what)) AS problem, alone, what
FROM (VALUES (false, '{"kind": "schema", "name": "s"}'), (false, '{}'), (true, '{}'), (true, '{"kind": "schema", "name": "s"}'), (false, '{"kind": "tables", "tables": [1, null]}'),
	(true, '{"kind": "subscription", "name": "s"}'), (false, '{"kind": "tables", "here_tables": ["a.b"]}'), (false, '{"kind": "publication", "peer_schema": "x"}'), (false, '{"kind": "schema", "peer_schema": "x"}')) AS v(alone, what);
SELECT pg_temp.refusal(format('SELECT iblt_internal.audit_check(%L, true, target(%L), options())', alone, what)) AS elsewhere, alone, what
FROM (VALUES (false, '{"kind": "tables", "tables": [1]}'), (false, '{"kind": "tables", "here_tables": ["a.b"]}'), (false, '{"kind": "tables", "here_tables": ["a.b", null]}'), (true, '{"kind": "subscription"}'), (false, '{"kind": "subscription"}'), (true, '{"kind": "schema"}')) AS v(alone, what);
SELECT iblt_internal.audit_make_target(NULL, '*', NULL, NULL), iblt_internal.audit_make_target(NULL, '*', 'p', NULL), iblt_internal.audit_make_target(NULL, NULL, NULL, 's'), iblt_internal.audit_make_target(NULL, NULL, NULL, NULL, here_tables => '{a.b}'), iblt_internal.audit_make_target('{a}', NULL, NULL, NULL, here_tables => '{a.b}');
SELECT (i).schema, (i).name, (i).absent, (i).listed FROM unnest(iblt_internal.audit_list(NULL, iblt_internal.audit_make_target(NULL, NULL, NULL, NULL, here_tables => '{b.c,"a.\"B b\"",b.c}'))) AS i;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pg_temp.refusal($$SELECT iblt_internal.audit_check(false, false, target('{"kind": "schema", "name": "s"}'), options())$$) AS plain,
	   pg_temp.refusal($$SELECT iblt_internal.audit_check(false, false, target('{"kind": "schema", "name": "s"}'), options(1))$$) AS rechecked,
	   pg_temp.refusal($$SELECT iblt_internal.audit_check(false, true, target('{"kind": "schema", "name": "s"}'), options(1))$$) AS elsewhere,
	   pg_temp.refusal($$SELECT iblt_internal.audit_check(false, false, target('{"kind": "subscription", "name": "s"}'), options())$$) AS subscription,
	   pg_temp.refusal($$SELECT iblt_internal.audit_check(false, false, target('{"kind": "subscription", "name": "s"}'), options(0))$$) AS not_rechecked;
COMMIT;
SELECT pg_temp.refusal($$SELECT * FROM iblt_audit(NULL, '{aud.a}')$$) AS no_peer, pg_temp.refusal($$SELECT * FROM iblt_audit(subscription => 'no such subscription')$$) AS no_subscription;

DROP PUBLICATION p_all, p_changes, p_inserts, p_none, p_empty;
DROP SCHEMA aud, aud_parts CASCADE;
