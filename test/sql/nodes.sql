-- iblt_compare_nodes as far as one database shows it: the arguments, the verdicts, and why
-- nodes are compared in pairs.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt;

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
SELECT named, digests, v.* FROM (VALUES
	(3, '{x,x,y}'), (3, '{x,y,y}'), (3, '{x,y,z}'), (3, '{NULL,x,NULL}'), (3, '{x,NULL,x}'), (2, '{x,y}'), (2, '{NULL,x}'),
	(4, '{x,x,y,y}'), (4, '{y,x,x,x}'), (4, '{x,x,y}'), (5, '{x,x,y}'), (5, '{y,x,x,x}'), (5, '{z,x,x,y,y}'), (5, '{NULL,y,x,NULL,NULL}'))
	AS t(named, digests), iblt_internal.nodes_verdict((ARRAY['a', 'b', 'c', 'd', 'e'])[: cardinality(digests::text[])], named, digests::text[]) AS v;

SET search_path = iblt_internal, public;
-- what is repaired on which node and as where, and what is left: what is not confirmed, and ties
CREATE TEMPORARY TABLE nodes_keys AS SELECT ARRAY(SELECT ROW(key, to_jsonb(key), digests, NULL, 1, confirmed)::node_difference FROM (VALUES ('k1', '{x,x,y}'::text[], true),
	('k2', '{x,y,z}', true), ('k3', '{y,x,x}', NULL), ('k4', '{x,x,y}', false), ('k5', '{NULL,x,x}', true), ('k6', '{NULL,x,NULL}', true), ('k7', '{y,x,x}', true)) AS v(key, digests, confirmed)) AS keys,
	jsonb_populate_record(NULL::node_set, '{"names": ["here", "b", "c"], "named": 3}') AS nodes;
SELECT s.source, p.target, p.source AS as_on, p.ids FROM nodes_keys, unnest('{b,NULL}'::text[]) WITH ORDINALITY AS s(source, n), LATERAL nodes_pairs(nodes, keys, s.source) WITH ORDINALITY AS p(target, source, ids, key, place) ORDER BY s.n, p.place;
SELECT source, l.node, l.key, l.status, l.detail FROM nodes_keys, unnest('{b,NULL}'::text[]) WITH ORDINALITY AS s(source, n), LATERAL nodes_left(nodes, keys, source) AS l ORDER BY s.n, l.key;
DROP TABLE nodes_keys;
-- what follows an error: a node is left out, the next attempt, or none
SELECT without, state, message, number, a.attempt AS next, a.nodes, a.names, a.failed, (a.options).live_problem FROM (VALUES
	('skip', '08006', 'on "a": gone', 1, '{x,y,z}', '{a,b,c}'), ('skip', '08006', 'on "b": gone', 1, '{x,y,z}', '{a,b,c}'), ('skip', '08006', 'on "c": gone', 3, '{x,y,z}', '{a,b,c}'),
	('skip', '08006', 'on "d": gone', 1, '{x,y,z}', '{a,b,c}'), ('skip', '08006', 'on "b": gone', 1, '{x,y}', '{a,b}'), ('error', '08006', 'on "b": gone', 1, '{x,y,z}', '{a,b,c}'),
	('skip', 'IB008', 'on "b": no digest', 1, '{x,y,z}', '{a,b,c}'), ('error', 'IB004', 'altered', 2, '{x,y,z}', '{a,b,c}'), ('error', 'IB004', 'altered', 3, '{x,y,z}', '{a,b,c}')) AS v(without, state, message, number, places, titles),
	LATERAL (SELECT nodes_again(without, jsonb_populate_record(NULL::failure, jsonb_build_object('state', state, 'message', message)), number, places::text[], titles::text[],
		jsonb_populate_record(NULL::options, '{"live": "auto"}')) AS a OFFSET 0) AS y, LATERAL (SELECT (y.a).*) AS a;
RESET search_path;

-- arguments
\set VERBOSITY terse
SELECT * FROM iblt_compare_nodes('t', '{NULL,a}');
SELECT * FROM iblt_compare_nodes('a.b.c', '{NULL,a}');
SELECT * FROM iblt_compare_nodes(NULL, '{NULL,a}');
SELECT * FROM iblt_compare_nodes('public.t', NULL);
SELECT * FROM iblt_compare_nodes('public.t', '{NULL}');
SELECT * FROM iblt_compare_nodes('public.t', '{{NULL,a},{b,c}}');
SELECT * FROM iblt_compare_nodes('public.t', array_fill(NULL::text, '{17}'));
SELECT * FROM iblt_compare_nodes('public.t', '{NULL,NULL}');
SELECT * FROM iblt_compare_nodes('public.t', '{NULL,host=b}', without => 'warn');
SELECT * FROM iblt_compare_nodes('public.t', '{NULL,host=b}', without => NULL);
SELECT * FROM iblt_compare_nodes('public.t', '{NULL,a}', rows => NULL);
SELECT * FROM iblt_compare_nodes('public.t', '{NULL,a}', max_differences => 200001);
SELECT * FROM iblt_compare_nodes('public.t', '{NULL,a}', max_differences => 0);
SELECT * FROM iblt_compare_nodes('public.t', '{NULL,a}', recheck => 1001);
SELECT * FROM iblt_compare_nodes('public.t', '{NULL,a}');
DROP TABLE nodes_copies, nodes_sketches;

-- a standby has no vote of its own in a repair
CREATE FUNCTION voters(a text, b text) RETURNS text LANGUAGE plpgsql SET search_path = iblt_internal, public, pg_temp AS $$
BEGIN
	PERFORM iblt_internal.nodes_refuse_standby(ARRAY[jsonb_populate_record(NULL::iblt_internal.side, a::jsonb || '{"side": "a"}'),
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
