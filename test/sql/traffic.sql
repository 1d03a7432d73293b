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

-- functions of dblink are called by those who may, and if they are what they should be
CREATE FUNCTION waited(prepared text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF prepared IS NOT NULL THEN
		ALTER EXTENSION dblink DROP FUNCTION public.dblink_is_busy(text);
		DROP FUNCTION public.dblink_is_busy(text);
		EXECUTE prepared;
	END IF;
	RETURN iblt_internal.iblt_peer_wait('nobody', 0, now());
EXCEPTION WHEN OTHERS THEN
	RETURN sqlerrm;
END $$;
BEGIN;
DROP EXTENSION IF EXISTS dblink CASCADE;
CREATE EXTENSION dblink SCHEMA public;
CREATE FUNCTION pick(integer, text) RETURNS integer LANGUAGE sql AS 'SELECT $1';
SELECT waited() AS connection;
SELECT waited($$CREATE FUNCTION public.dblink_is_busy(text) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'$$) AS type,
	waited($$CREATE FUNCTION public.dblink_is_busy(text) RETURNS SETOF integer LANGUAGE sql AS 'SELECT 0'$$) AS a_set,
	waited($$CREATE AGGREGATE public.dblink_is_busy(text) (SFUNC = pick, STYPE = integer)$$) AS aggregate;
REVOKE EXECUTE ON FUNCTION public.dblink_is_busy(text) FROM PUBLIC;
CREATE ROLE regress_iblt_traffic;
SET LOCAL ROLE regress_iblt_traffic;
SELECT waited() AS no_right;
ROLLBACK;

DROP FUNCTION waited;
DROP TABLE traffic;
