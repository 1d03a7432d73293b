-- The steps of an audit that need no peer: which tables are listed, what a publication
-- leaves out, and when a table is not comparable.  Peers are tested in test/t.
SET client_min_messages = error;	-- wal_level may be too low for publications
CREATE EXTENSION IF NOT EXISTS iblt;
CREATE SCHEMA aud;
CREATE SCHEMA aud_parts;
SET search_path = aud, public, iblt_internal;
CREATE FUNCTION outcome(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate || ' ' || sqlerrm;
END $$;
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
FROM iblt_internal.audit_list_tables('{parts,a,parts,4294967295}') AS x(items), generate_subscripts(items, 1) AS n ORDER BY n;
SELECT iblt_internal.audit_generated('a'), iblt_internal.audit_generated('parts');

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
SELECT outcome('SELECT iblt_internal.audit_list(NULL, target(''{"kind": "tables", "tables": []}''))') AS no_tables;
SELECT iblt_internal.audit_notes(published('{"operations_left_out": "insert"}')) AS note, iblt_internal.audit_notes(published('{"operations_left_out": ""}')) AS nothing, iblt_internal.audit_notes(NULL) AS unknown;
-- what forbids to compare a table
SELECT iblt_internal.audit_subscribed_problem('S "s', subscribed, published, state) AS problem, subscribed, published, state
FROM (VALUES (true, true, 'r'), (false, true, NULL), (true, false, 'r'), (true, true, 'i'), (true, true, 'd'), (true, true, 'f'), (true, true, 's')) AS v(subscribed, published, state);
SELECT iblt_internal.audit_twofold_problem(published(mine), published(theirs)) AS problem
FROM (VALUES (NULL, '{"unpublished": []}'::jsonb), ('{"unpublished": []}'::jsonb, NULL), ('{"filter": "a", "unpublished": []}', '{"filter": "a", "unpublished": []}'),
	('{"filter": "a", "unpublished": []}', '{"filter": "b", "unpublished": []}'), ('{"filter": null, "unpublished": []}', '{"filter": "b", "unpublished": []}'),
	('{"filter": null, "unpublished": []}', '{"filter": null, "unpublished": [{"name": "x", "generated": false}]}')) AS v(mine, theirs);
SELECT iblt_internal.audit_only_source(ARRAY(SELECT f FROM jsonb_populate_recordset(NULL::iblt_internal.feed, feeds) AS f),
	published('{"publications": ["p"], "others": ["o"]}')) AS alone, feeds
FROM unnest(ARRAY['[{"publications": ["p"]}]', '[{"publications": ["p", "q"]}]', '[{"publications": ["p", "o"]}]', '[{"publications": ["q"]}]', '[]',
	'[{"publications": ["p"]}, {"publications": ["q"]}]']::jsonb[]) AS feeds;
SELECT outcome('SELECT iblt_internal.audit_check_filter(''here'', ''x > 1'', false)') AS of_the_peer, outcome('SELECT iblt_internal.audit_check_filter(''here'', ''x > 1'', true)') AS trusted;
SELECT outcome(format('SELECT iblt_internal.audit_refuse_foreign(plan(''{"here": {"kind": "%s"}, "there": {"kind": "%s"}}''))', here, there)) AS foreign_table, here, there
FROM (VALUES ('r', 'r'), ('f', 'r'), ('p', 'f'), ('f', 'f')) AS v(here, there);
SELECT outcome(format('SELECT iblt_internal.audit_check_columns(plan(''{"columns_left_out": ["x"], "here": {"columns": [{"name": "%s"}]}, "there": {"columns": [{"name": "%s"}]}}''), ''%s'')', here, there, side)) AS lacks, side
FROM (VALUES ('x', 'y', 'here'), ('x', 'y', 'there'), ('y', 'x', 'here'), ('y', 'x', 'there')) AS v(here, there, side);

-- what an error says of a table
CREATE FUNCTION failure(state text, message text, detail text) RETURNS iblt_internal.failure LANGUAGE sql
	AS $$SELECT jsonb_populate_record(NULL::iblt_internal.failure, jsonb_build_object('state', state, 'message', message, 'detail', detail))$$;
SELECT state, (f).relation, (f).peer_relation, (f).status, (f).detail, (f).sqlstate
FROM unnest('{IB002,IB003,IB004,IB005,42P01,42703,42804,42809,0A000,57014,42501,XX002,NULL}'::text[]) AS state,
	 LATERAL (SELECT iblt_internal.audit_failed(item('{"relid": 1, "schema": "s", "name": "T t", "notes": ["one", "two"]}'), failure(state, 'what', 'detail'))) AS x(f);
SELECT (iblt_internal.audit_failed(item('{"relid": 1, "schema": "s", "name": "t", "unready": true}'), failure('IB003', 'too many', ''))).status AS unready,
	   (iblt_internal.audit_failed(item('{"schema": "s", "name": "t", "problem": "why", "absent": true}'), NULL)).*;

-- the status of a table by its differences
CREATE FUNCTION result(item jsonb, sides text[], confirmed boolean[]) RETURNS iblt_internal.audit_row LANGUAGE sql AS $$
	SELECT iblt_internal.audit_result(item(item), ROW(plan('{"here": {"relation": "s.t", "columns": [{"name": "x"}]}, "there": {"relation": "s.t"}, "columns_left_out": ["x", "y"]}'),
		jsonb_populate_record(NULL::iblt_internal.figures, '{"rows_here": 7, "rows_there": 8, "bytes_sent": 1, "bytes_received": 2}'),
		ARRAY(SELECT ROW('1', '1', side, NULL, NULL, 1, 1, NULL, c, NULL, NULL, NULL)::iblt_internal.difference FROM unnest(sides, confirmed) AS d(side, c)))::iblt_internal.comparison)
$$;
SELECT what, (r).status, (r).missing, (r).extra, (r).changed, (r).unconfirmed, (r).rows_here, (r).rows_there, (r).bytes, (r).detail
FROM (VALUES ('none', '{}'::text[], '{}'::boolean[], '{}'::jsonb), ('not rechecked', '{here,there,there,both}', '{}', '{}'), ('confirmed', '{both}', '{t}', '{}'),
	('one is confirmed', '{here,both}', '{t,f}', '{}'), ('unconfirmed', '{both,here}', '{f,f}', '{}'), ('unready', '{both,here}', '{}', '{"unready": true}'),
	('unready and none', '{}', '{}', '{"unready": true, "notes": ["note"]}')) AS v(what, sides, confirmed, item),
	LATERAL (SELECT result(item, sides, confirmed)) AS x(r);

-- audits that make no sense
SELECT (t).* FROM (VALUES (NULL::regclass[], 's', NULL), ('{a}', NULL, NULL), (NULL, NULL, 'p'), (NULL, NULL, NULL), ('{a}', 's', NULL), (NULL, 's', 'p')) AS v(tables, schema, publication),
	LATERAL (SELECT iblt_internal.audit_make_target(tables, schema, publication, NULL)) AS x(t);
SELECT outcome(format('SELECT iblt_internal.audit_check(%L, false, target(%L), options())', alone, what)) AS problem, alone, what
FROM (VALUES (false, '{"kind": "schema", "name": "s"}'), (false, '{}'), (true, '{}'), (true, '{"kind": "schema", "name": "s"}'), (false, '{"kind": "tables", "tables": [1, null]}'),
	(true, '{"kind": "subscription", "name": "s"}')) AS v(alone, what);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outcome($$SELECT iblt_internal.audit_check(false, false, target('{"kind": "schema", "name": "s"}'), options())$$) AS plain,
	   outcome($$SELECT iblt_internal.audit_check(false, false, target('{"kind": "schema", "name": "s"}'), options(1))$$) AS rechecked,
	   outcome($$SELECT iblt_internal.audit_check(false, false, target('{"kind": "subscription", "name": "s"}'), options())$$) AS subscription,
	   outcome($$SELECT iblt_internal.audit_check(false, false, target('{"kind": "subscription", "name": "s"}'), options(0))$$) AS not_rechecked;
COMMIT;
SELECT outcome($$SELECT * FROM iblt_audit(NULL, '{aud.a}')$$) AS no_peer, outcome($$SELECT * FROM iblt_audit(subscription => 'no such subscription')$$) AS no_subscription;

DROP PUBLICATION p_all, p_changes, p_inserts, p_none, p_empty;
DROP SCHEMA aud, aud_parts CASCADE;
