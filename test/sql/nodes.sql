-- iblt_compare_nodes as far as one database shows it: the arguments, the verdicts, and why
-- nodes are compared in pairs.
\i test/sql/common.psql
SET client_min_messages = warning;

-- One weighted sum of all sketches instead of differences of two: copies of a row cancel, and it
-- decodes as if all nodes had the same rows.  The differences of two do not.
CREATE TABLE nodes_copies (node int, copies int);
INSERT INTO nodes_copies VALUES (1, 2), (2, 0), (3, 1), (4, 5), (5, 2), (6, 3);
CREATE TABLE nodes_sketches AS SELECT node, (SELECT iblt_agg(7::bigint, 1::bigint, iblt_new(capacity => 10, seed => 1))
	FROM generate_series(1, copies)) AS s FROM nodes_copies;
SELECT weights, status.complete, status.recovered FROM (
	SELECT '1, 1, -2' AS weights, a.s + b.s - c.s - c.s AS s FROM nodes_sketches a, nodes_sketches b, nodes_sketches c
	WHERE (a.node, b.node, c.node) = (1, 2, 3)
	UNION ALL SELECT '1, 2, -3', a.s + b.s + b.s - c.s - c.s - c.s FROM nodes_sketches a, nodes_sketches b, nodes_sketches c
	WHERE (a.node, b.node, c.node) = (4, 5, 6)) AS sums, iblt_decode_status(s) AS status ORDER BY 1;
SELECT a.node, b.node, status.complete, status.recovered FROM nodes_sketches a JOIN nodes_sketches b
	ON b.node IN (a.node + 1, a.node + 2) AND (a.node - 1) / 3 = (b.node - 1) / 3, iblt_decode_status(a.s - b.s) AS status ORDER BY 1, 2;

-- verdicts, of the rows of each node as one letter
SELECT named, checksums, v.* FROM (VALUES
	(3, '{x,x,y}'), (3, '{x,y,y}'), (3, '{x,y,z}'), (3, '{NULL,x,NULL}'), (3, '{x,NULL,x}'), (2, '{x,y}'), (2, '{NULL,x}'),
	(4, '{x,x,y,y}'), (4, '{y,x,x,x}'), (4, '{x,x,y}'), (5, '{x,x,y}'), (5, '{y,x,x,x}'), (5, '{z,x,x,y,y}'), (5, '{NULL,y,x,NULL,NULL}'))
	AS t(named, checksums), iblt_internal.nodes_verdict((ARRAY['a', 'b', 'c', 'd', 'e'])[: cardinality(checksums::text[])], named, checksums::text[]) AS v;

SET search_path = iblt_internal, public;
-- what is repaired on which node and as where, and what is left: what is not confirmed, and ties
CREATE TEMPORARY TABLE nodes_keys AS SELECT ARRAY(SELECT jsonb_populate_record(NULL::difference, jsonb_build_object('id', key, 'key', key, 'checksums', checksums, 'confirmed', confirmed)) FROM (VALUES ('k1', '{x,x,y}'::text[], true),
	('k2', '{x,y,z}', true), ('k3', '{y,x,x}', NULL), ('k4', '{x,x,y}', false), ('k5', '{NULL,x,x}', true), ('k6', '{NULL,x,NULL}', true), ('k7', '{y,x,x}', true)) AS v(key, checksums, confirmed)) AS keys,
	'{here,b,c}'::text[] AS names;
SELECT s.source, p.target, p.source AS as_on, p.ids FROM nodes_keys, unnest('{b,NULL}'::text[]) WITH ORDINALITY AS s(source, n), LATERAL nodes_pairs(names, 3, keys, s.source) WITH ORDINALITY AS p(target, source, ids, key, place) ORDER BY s.n, p.place;
SELECT source, l.node, l.key, l.status, l.detail FROM nodes_keys, unnest('{b,NULL}'::text[]) WITH ORDINALITY AS s(source, n), LATERAL nodes_left(names, 3, keys, source, NULL) AS l ORDER BY s.n, l.key;
DROP TABLE nodes_keys;
CREATE FUNCTION pg_temp.sides(j jsonb) RETURNS side[] LANGUAGE sql AS 'SELECT ARRAY(SELECT s FROM jsonb_populate_recordset(NULL::iblt_internal.side, j) AS s)';
-- which nodes replicate to which, and whether rows may pass over a server that is not a node
SELECT title, (SELECT string_agg(concat_ws(' ', l.source, '->', l.follower, l.slot, CASE WHEN NOT l.ready THEN 'not ready' END), '; ') FROM unnest(links(s)) AS l) AS links, EXISTS (SELECT FROM unnest(links(s)) AS l WHERE l.source IS NULL) AS by_others
FROM (VALUES ('none', '[]', '[]', '[]', '[]', '[]', '[]'), ('a chain', '["ab"]', '[]', '["bc"]', '["ab"]', '[]', '["bc"]'), ('a star', '["ab", "ac"]', '[]', '[]', '["ab"]', '[]', '["ac"]'), ('a ring', '["ab"]', '["ca"]', '["bc"]', '["ab"]', '["ca"]', '["bc"]'),
	('one is fed by another server', '[]', '["xa"]', '[]', '[]', '[]', '[]'), ('two are', '[]', '["xa"]', '[]', '["xb"]', '[]', '[]'), ('by slots of one name', '[]', '["x"]', '[]', '[]', '[]', '["x"]'),
	('a chain with one between that is no node', '["ax"]', '[]', '[]', '["xb"]', '[]', '[]'), ('beside a link', '["ab", "ax"]', '[]', '[]', '["ab", "xb"]', '[]', '[]'), ('into the first of a chain', '["ab"]', '["xa"]', '["bc"]', '["ab"]', '[]', '["bc"]'),
	('out of the last', '["ab"]', '[]', '["bc"]', '["ab"]', '["cx"]', '["bc"]'), ('both', '["ab"]', '["xa"]', '["bc"]', '["ab"]', '["cx"]', '["bc"]'),
	('two slots of one name, one of a node', '["s"]', '[]', '[]', '["s", "s"]', '[]', '[]'), ('and one leads out', '["s", "ax"]', '[]', '[]', '["s", "s"]', '[]', '[]'), ('two of nodes', '["s"]', '[]', '["s"]', '[]', '[]', '["s", "s"]'))
	AS v(title, sa, fa, sb, fb, sc, fc), LATERAL (SELECT pg_temp.sides(jsonb_agg(jsonb_build_object('side', side, 'recovery', false, 'slots', slots::jsonb, 'subscriptions',
		(SELECT coalesce(jsonb_agg(jsonb_build_object('name', 'sub' || n, 'slot', slot, 'ready', true)), '[]') FROM jsonb_array_elements_text(fed::jsonb) WITH ORDINALITY AS f(slot, n))))) FROM (VALUES ('a', sa, fa), ('b', sb, fb), ('c', sc, fc)) AS n(side, slots, fed)) AS x(s);
SELECT title, (SELECT string_agg(concat_ws(' ', l.source, '->', l.follower, l.slot, CASE WHEN NOT l.ready THEN 'not ready' END), '; ') FROM unnest(links(s)) AS l) AS links, EXISTS (SELECT FROM unnest(links(s)) AS l WHERE l.source IS NULL) AS by_others
FROM (VALUES ('a primary and its standby, both fed', 'false', '"1"', '["x"]', 'true', '"1"'), ('a standby whose primary is not a node', 'false', '"2"', '["x"]', 'true', '"1"'), ('two standbys', 'true', '"1"', '["x"]', 'true', '"1"'), ('servers that are not known', 'false', 'null', '[]', 'true', 'null'))
	AS v(title, ra, sa, fed, rb, sb), LATERAL (SELECT pg_temp.sides(jsonb_agg(jsonb_build_object('side', side, 'recovery', recovery::boolean, 'system', system::jsonb, 'slots', '[]'::jsonb, 'subscriptions',
		(SELECT coalesce(jsonb_agg(jsonb_build_object('name', 'sub', 'slot', slot, 'ready', true)), '[]') FROM jsonb_array_elements_text(fed::jsonb) AS f(slot))))) FROM (VALUES ('a', ra, sa), ('b', rb, sb)) AS n(side, recovery, system)) AS x(s);
RESET search_path;

-- arguments
\set VERBOSITY terse
SELECT * FROM pg_temp.refusals('* FROM iblt_compare_nodes(%s)', $$'t', '{NULL,host=b}'$$, $$'a.b.c', '{NULL,host=b}'$$, $$NULL, '{NULL,host=b}'$$,
	$$'public.t', NULL$$, $$'public.t', '{NULL}'$$, $$'public.t', '{{NULL,a},{b,c}}'$$, $$'public.t', array_fill(NULL::text, '{17}')$$,
	$$'public.t', '{NULL,NULL}'$$, $$'public.t', '{NULL,host=b}', without => 'warn'$$, $$'public.t', '{NULL,host=b}', without => NULL$$,
	$$'public.t', '{NULL,host=b}', rows => NULL$$, $$'public.t', '{NULL,host=b}', max_differences => 200001$$,
	$$'public.t', '{NULL,host=b}', max_differences => 0$$, $$'public.t', '{NULL,host=b}', recheck => 1001$$, $$'public.t', '{NULL,a}'$$);
DROP TABLE nodes_copies, nodes_sketches;

-- a standby has no vote of its own in a repair
CREATE FUNCTION voters(a text, b text) RETURNS text LANGUAGE plpgsql SET search_path = iblt_internal, public, pg_temp AS $$
BEGIN
	PERFORM iblt_internal.nodes_check_standby(ARRAY[jsonb_populate_record(NULL::iblt_internal.side, a::jsonb || '{"side": "a"}'),
		jsonb_populate_record(NULL::iblt_internal.side, b::jsonb || '{"side": "b"}')]);
	RETURN 'both';
EXCEPTION WHEN invalid_parameter_value THEN
	RETURN SQLERRM;
END $$;
SELECT title, voters(format('{"system": "1", "identity": "2026-01-01 00:00:00 UTC 5 70", "recovery": %s}', a), b) FROM (VALUES
	('a primary and its standby', 'false', '{"system": "1", "identity": "2026-01-02 00:00:00 UTC 5 70", "recovery": true}'),
	('two standbys', 'true', '{"system": "1", "identity": "2026-01-02 00:00:00 UTC 5 70", "recovery": true}'),
	('a copy that was promoted', 'false', '{"system": "1", "identity": "2026-01-02 00:00:00 UTC 5 70", "recovery": false}'),
	('another database of the standby', 'false', '{"system": "1", "identity": "2026-01-02 00:00:00 UTC 6 70", "recovery": true}'),
	('a standby of another server', 'false', '{"system": "2", "identity": "2026-01-02 00:00:00 UTC 5 70", "recovery": true}'),
	('a server that is not known', 'false', '{"identity": "2026-01-02 00:00:00 UTC 5 70", "recovery": true}')) AS v(title, a, b);
DROP FUNCTION voters;
