-- Messages and bytes between this session and its peers: counted across transactions,
-- taken by a driver when it begins, and shown with its figures.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt;
SET search_path = public, iblt_internal;
CREATE TABLE traffic (id int PRIMARY KEY);

SELECT count(*) AS from_before FROM iblt_internal.iblt_traffic_take();
SELECT * FROM iblt_internal.iblt_traffic_take();
SELECT iblt_internal.iblt_traffic_add(1, 20, 300, 4000), iblt_internal.iblt_traffic_add(1, 20, 300);
SELECT * FROM iblt_internal.iblt_traffic_take();
SELECT * FROM iblt_internal.iblt_traffic_take();
-- NULL counts as nothing
SELECT iblt_internal.iblt_traffic_add(NULL, 20, 300, 4000), iblt_internal.iblt_traffic_add(1, NULL, 300, 4000),
	iblt_internal.iblt_traffic_add(1, 20, NULL, 4000), iblt_internal.iblt_traffic_add(1, 20, 300, NULL);
SELECT * FROM iblt_internal.iblt_traffic_take();
-- what was sent was sent
BEGIN;
SELECT iblt_internal.iblt_traffic_add(1, 2, 3, 4);
ROLLBACK;
SELECT * FROM iblt_internal.iblt_traffic_take();

-- the figures of a comparison take them
CREATE FUNCTION traffic_plan() RETURNS iblt_internal.plan LANGUAGE sql AS $$
	SELECT iblt_internal.make_plan(iblt_internal.described(d, 'here'), iblt_internal.described(d, 'there'),
		jsonb_populate_record(NULL::iblt_internal.options, '{"max_differences": 100000, "content": "none", "cast_types": true, "method": "sketch", "seed": 1}'))
	FROM iblt_internal.describe('traffic') AS d
$$;
SELECT iblt_internal.iblt_traffic_add(1, 20, 300, 4000);
SELECT messages, bytes_sent, bytes_received, sketch_bytes FROM iblt_internal.all_figures(traffic_plan(), NULL, 0, 0, 0);
SELECT messages, bytes_sent, bytes_received, sketch_bytes FROM iblt_internal.all_figures(traffic_plan(), NULL, 0, 0, 0);
-- a driver begins with none, also after one that failed
SELECT iblt_internal.iblt_traffic_add(1, 20, 300, 4000);
SELECT count(*) FROM iblt_compare('traffic', NULL, 'traffic', peer_condition => 'true');
SELECT messages, bytes_sent, bytes_received, sketch_bytes FROM iblt_compare_stats();

DROP FUNCTION traffic_plan();
DROP TABLE traffic;
