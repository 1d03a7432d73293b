-- What the drivers pin, here and on the peer, and the seeds that they use: what
-- is compared must not depend on the settings of a session.
\i test/sql/common.psql

SET search_path = public, iblt_internal;
-- a name of pg_catalog would be called in the place of ours, or ours in its place
SELECT kind, name FROM (SELECT 'function', proname, pronamespace FROM pg_proc UNION ALL SELECT 'type', typname, typnamespace FROM pg_type
	UNION ALL SELECT 'relation', relname, relnamespace FROM pg_class) AS o(kind, name, schema)
GROUP BY kind, name HAVING bool_or(schema = 'iblt_internal'::regnamespace) AND bool_or(schema = 'pg_catalog'::regnamespace);

-- the drivers' settings, as text
CREATE TEMP TABLE pinned AS
SELECT p.proname::text AS driver, split_part(c, '=', 1) AS setting, substr(c, strpos(c, '=') + 1) AS value
FROM pg_proc p, unnest(p.proconfig) AS c WHERE p.proname IN ('iblt_compare', 'iblt_audit', 'iblt_repair',
	'iblt_audit_recheck', 'run_step');

-- the peer's: what the statement of a driver changes in a session that has others
SET DateStyle = 'ISO, DMY';
SET IntervalStyle = 'postgres';
CREATE TEMP TABLE statement AS SELECT iblt_internal.peer_settings() AS query;
SELECT count(set_config(name, value, false)) AS settings FROM (VALUES ('DateStyle', 'German'), ('IntervalStyle', 'sql_standard'), ('TimeZone', 'Asia/Kolkata'), ('timezone_abbreviations', 'Australia'), ('extra_float_digits', '-3'),
	('bytea_output', 'escape'), ('xmlbinary', 'hex'), ('xmloption', 'document'), ('array_nulls', 'off'), ('quote_all_identifiers', 'on'), ('lc_monetary', 'POSIX'),
	('lc_numeric', 'POSIX'), ('lc_time', 'POSIX'), ('row_security', 'on'), ('enable_indexonlyscan', 'on'), ('jit', 'on'), ('transform_null_equals', 'on'),
	('gin_fuzzy_search_limit', '7')) AS v(name, value);
CREATE TEMP TABLE peer (setting text, value text);
DO $$
DECLARE
	before json := (SELECT json_object_agg(name, setting) FROM pg_settings);
BEGIN
	EXECUTE (SELECT query FROM statement);
	RAISE EXCEPTION '%', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(name, pg_catalog.current_setting(name)))
		FROM pg_catalog.pg_settings WHERE setting OPERATOR(pg_catalog.<>) (before OPERATOR(pg_catalog.->>) name)
		-- not on all systems
		AND name OPERATOR(pg_catalog.<>) 'client_connection_check_interval');
EXCEPTION WHEN raise_exception THEN
	-- which takes the settings back, so that the table can be written
	INSERT INTO peer SELECT e ->> 0, e ->> 1 FROM json_array_elements(SQLERRM::json) AS e;
END $$;
RESET ALL;
SET search_path = public, iblt_internal;
SELECT * FROM peer ORDER BY setting COLLATE "C";

-- here is what is there, but for these; only the peer's transactions are read-only
SELECT d.driver, s.setting, here.value AS here, peer.value AS there
FROM unnest('{iblt_compare,iblt_audit,iblt_repair,iblt_audit_recheck,run_step}'::text[]) AS d(driver)
CROSS JOIN (SELECT setting FROM pinned UNION SELECT setting FROM peer) AS s
LEFT JOIN pinned AS here ON here.driver = d.driver AND here.setting = s.setting
LEFT JOIN peer ON peer.setting = s.setting
WHERE lower(here.value) IS DISTINCT FROM lower(split_part(peer.value, ', DMY', 1))
AND s.setting <> 'transaction_read_only' ORDER BY s.setting COLLATE "C", d.driver COLLATE "C";

-- they end with the statement
SET TimeZone = 'Asia/Kolkata';
DO $$ BEGIN EXECUTE iblt_internal.peer_settings(); END $$;
SHOW TimeZone;
RESET TimeZone;

-- the seed of a comparison goes into contents, keys and cells, and no two have one
CREATE TABLE seeded (id int PRIMARY KEY, v text);
CREATE FUNCTION pg_temp.plan_of(seed bigint, by_hash boolean) RETURNS iblt_internal.plan LANGUAGE plpgsql AS $$
DECLARE
	d iblt_internal.side := iblt_internal.described(iblt_internal.describe('seeded'), 'here');
	plan iblt_internal.plan := iblt_internal.make_plan(d, d, jsonb_populate_record(NULL::iblt_internal.options,
		jsonb_build_object('content', 'none', 'cast_types', false, 'method', 'sketch', 'seed', seed)));
BEGIN
	plan.by_hash := by_hash;
	RETURN plan;
END $$;
SELECT seed, by_hash, iblt_internal.checksum_sql((plan).columns, (plan).seed) LIKE '%(''' || seed || '''::%' AS content,
	iblt_internal.key_sql(plan) LIKE '%(''' || (seed # 1) || '''::%' = by_hash AS key,
	iblt_internal.sketch_sql(plan, (plan).here, 10) LIKE '%iblt_compare_template(10, %, ''' || seed || ''')%' AS cells
FROM (VALUES (4711::bigint), (4712)) AS s(seed), (VALUES (false), (true)) AS h(by_hash), LATERAL (SELECT pg_temp.plan_of(seed, by_hash) AS plan) AS p
ORDER BY seed, by_hash;
SELECT iblt_internal.random_seed() <> iblt_internal.random_seed() AS another;
DROP TABLE seeded;

-- iblt's own errors have the context of the caller alone, and others that of iblt, too
CREATE TABLE told (id int PRIMARY KEY, v int);
INSERT INTO told VALUES (1, 0);
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
CREATE FUNCTION pg_temp.asks(query text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE query; END $$;
CREATE FUNCTION not_zero(v int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE 'zero'; END $$;
CREATE FUNCTION pg_temp.context(query text, OUT state text, OUT own text[], OUT private boolean) LANGUAGE plpgsql AS $$
DECLARE
	context text;
BEGIN
	PERFORM pg_temp.asks(query);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, context = PG_EXCEPTION_CONTEXT;
	own := ARRAY(SELECT m[1] FROM regexp_matches(context, '^PL/pgSQL function (?:\S+\.)?(\w+)\(', 'gn') WITH ORDINALITY AS x(m, n)
		WHERE m[1] ~ '^(iblt|asks|not_zero)' ORDER BY n);
	private := EXISTS (SELECT FROM regexp_matches(context, '^PL/pgSQL function (?:\S+\.)?(\w+)\(', 'gn') AS m, pg_proc p
		WHERE p.proname = m[1] AND p.pronamespace = 'iblt_internal'::regnamespace);
END $$;
SELECT query, c.* FROM unnest(ARRAY[
	$$SELECT * FROM iblt_compare('told', NULL, 'told', method => 'other')$$,
	$$SELECT * FROM iblt_audit('no such server', schema => 'public')$$,
	$$SELECT * FROM iblt_repair('told', NULL, 'told', direction => 'aside')$$,
	$$SELECT * FROM iblt_audit_recheck(4711)$$,
	$$SELECT * FROM iblt_compare('told', NULL, 'told', condition => '1 / v = 1', peer_condition => '1 / v = 1')$$,
	$$SELECT * FROM iblt_compare('told', NULL, 'told', condition => 'public.not_zero(v) = 1', peer_condition => 'true')$$,
	$$SELECT * FROM iblt_compare('told', NULL, 'no such table')$$,
	$$CALL iblt_untrack('pg_stat_activity')$$,
	$$SELECT iblt_live_verify('told')$$]) WITH ORDINALITY AS q(query, n), LATERAL pg_temp.context(query) AS c ORDER BY n;
-- what iblt_track and iblt_live_rebuild say
CALL iblt_track('told', columns => '{w}');
\echo :SQLSTATE
CALL iblt_track('told', capacity => -1);
\echo :SQLSTATE
CALL iblt_track('told', peer_relation => 'told');
\echo :SQLSTATE
CALL iblt_track('unlogged');
\echo :SQLSTATE
CALL iblt_live_rebuild('told');
\echo :SQLSTATE
SELECT (pg_temp.context('CALL iblt_track(''told'')')).*;
DROP TABLE told, unlogged;
DROP FUNCTION not_zero;
