-- Messages and bytes between this session and its peers: counted across transactions,
-- taken by a driver when it begins, and shown with its figures.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt_audit CASCADE; CREATE EXTENSION IF NOT EXISTS iblt_live;
SET search_path = public, iblt_internal;
CREATE TABLE traffic (id int PRIMARY KEY);

-- a driver begins with none, also after one that failed
SELECT iblt_internal.iblt_traffic_add(1, 20, 300, 4000);
SELECT count(*) FROM iblt_compare('traffic', NULL, 'traffic', peer_condition => 'true');
SELECT messages, bytes_sent, bytes_received, sketch_bytes FROM iblt_compare_stats();

DROP TABLE traffic;
