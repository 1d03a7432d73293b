-- Comparisons of slices: ranges of the key, which an index cuts.  What all slices of a
-- relation find is what one comparison of the whole finds.
\i test/sql/common.psql
SET client_min_messages = warning;
CREATE SCHEMA slices;
SET search_path = slices, public, iblt_internal;
SELECT setseed(0.4711);

CREATE FUNCTION plan_of(here regclass, there regclass, options jsonb DEFAULT '{}') RETURNS iblt_internal.plan LANGUAGE sql AS $$
	SELECT iblt_internal.prepare('{NULL,NULL}', here, there::text,
		jsonb_populate_record(jsonb_populate_record(NULL::iblt_internal.options, jsonb_build_object('relation_name', iblt_internal.relation_name(here), 'seed', iblt_internal.random_seed()) || '{"max_differences": 100000, "content": "none", "cast_types": true, "extra_columns": "ignore", "recheck": 0, "timeout": "1 minute", "progress": false, "live": "off", "method": "sketch", "by_index": false}'), options))
$$;
CREATE FUNCTION refusal(here regclass, there regclass, options jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
	SELECT (iblt_internal.slice_key(plan_of(here, there, options))).problem
$$;

-- the slices of about that many rows, and what each finds
CREATE FUNCTION sliced(here regclass, there regclass, size bigint, options jsonb DEFAULT '{}')
RETURNS TABLE (lo text[], hi text[], rows_here bigint, rows_there bigint, differences text[])
	LANGUAGE plpgsql
	SET DateStyle = 'ISO' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC' SET extra_float_digits = 1
AS $$
DECLARE
	plan iblt_internal.plan := slices.plan_of(here, there, options);
	r iblt_internal.batch;
BEGIN
	LOOP
		hi := iblt_internal.slice_next(plan, lo, size);
		plan.lo := lo;
		plan.hi := hi;
		r := iblt_internal.comparison_of(iblt_internal.find_keys(plan));
		rows_here := (r.figures).rows_here;
		rows_there := (r.figures).rows_there;
		differences := ARRAY(SELECT concat_ws(' ', d.key, d.side, d.here_count, d.there_count) FROM unnest(r.differences) AS d);
		RETURN NEXT;
		EXIT WHEN hi IS NULL;
		lo := hi;
	END LOOP;
END $$;
-- Do slices find what one comparison finds, and read each row once?  Have they the size that was asked for?
CREATE FUNCTION same(here regclass, there regclass, size bigint, options jsonb DEFAULT '{}', OUT slices bigint, OUT differ bigint,
	OUT all_found boolean, OUT each_once boolean, OUT not_larger boolean)
	LANGUAGE plpgsql
	SET DateStyle = 'ISO' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC' SET extra_float_digits = 1
AS $$
DECLARE
	whole iblt_internal.batch := iblt_internal.comparison_of(iblt_internal.find_keys(slices.plan_of(here, there, options)));
	found text[];
	lines text;
BEGIN
	found := ARRAY(SELECT concat_ws(' ', d.key, d.side, d.here_count, d.there_count) FROM unnest(whole.differences) AS d ORDER BY 1);
	differ := cardinality(found);
	SELECT count(*), (whole.figures).rows_here = sum(s.rows_here) AND (whole.figures).rows_there = sum(s.rows_there),
		bool_and(greatest(s.rows_here, s.rows_there) <= size),
		string_agg(array_to_string(s.differences, E'\n'), E'\n') FILTER (WHERE s.differences <> '{}')
	INTO slices, each_once, not_larger, lines
	FROM slices.sliced(here, there, size, options) AS s;
	all_found := found = ARRAY(SELECT u FROM unnest(string_to_array(lines, E'\n')) AS u ORDER BY 1);
END $$;

CREATE TABLE mine (id int PRIMARY KEY, v text);
CREATE TABLE theirs (id bigint PRIMARY KEY, v text);
INSERT INTO mine SELECT i, 'v' || i FROM generate_series(1, 1000) AS i;
INSERT INTO theirs TABLE mine;
DELETE FROM mine WHERE id IN (1, 100, 500, 1000);
DELETE FROM theirs WHERE id IN (2, 200, 501, 999);
UPDATE theirs SET v = 'x' WHERE id IN (3, 300, 502, 998);

SELECT * FROM sliced('mine', 'theirs', 300);
SELECT * FROM same('mine', 'theirs', 300);
SELECT * FROM same('mine', 'theirs', 1000000);
SELECT * FROM same('mine', 'theirs', 70, '{"condition": "id % 3 <> 0 -- every"}');
-- a table of a run starts again if its slices would not all be of the same columns and rows
CREATE FUNCTION shape(options jsonb) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	plan iblt_internal.plan := slices.plan_of('mine', 'theirs', options);
BEGIN
	RETURN (iblt_internal.run_see(plan)).shape;
END $$;
SELECT change, shape(change) = shape('{}') AS same FROM unnest(ARRAY['{}', '{"seed": 5}', '{"condition": "id > 0"}', '{"condition": "id > 0", "peer_condition": "id > 1"}', '{"exclude": ["v"]}']::jsonb[]) AS change;
SELECT shape('{"condition": "id > 0"}') = shape('{"peer_condition": "id > 0"}') AS same;
-- one side is empty
CREATE TABLE none (LIKE mine INCLUDING ALL);
SELECT lo, hi, rows_here, rows_there, cardinality(differences) FROM sliced('none', 'mine', 400);
CREATE TABLE nothing (LIKE mine INCLUDING ALL);
SELECT lo, hi, rows_here, rows_there FROM sliced('none', 'nothing', 400);

-- Keys of many types, with random rows: those of one side only, and changed ones.
CREATE FUNCTION try(type text, value text, columns text DEFAULT 'k', there text DEFAULT NULL, size bigint DEFAULT 130, options jsonb DEFAULT '{}')
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	detail text;
BEGIN
	EXECUTE format('DROP TABLE IF EXISTS a, b;
		CREATE TABLE a (%1$s, v int, PRIMARY KEY (%4$s)); CREATE TABLE b (%2$s, v int, PRIMARY KEY (%4$s));
		INSERT INTO a SELECT %3$s, 0 FROM generate_series(-200, 200) AS i WHERE random() < 0.97 ON CONFLICT DO NOTHING;
		INSERT INTO b SELECT * FROM a WHERE random() < 0.97; INSERT INTO b SELECT %3$s, 0 FROM generate_series(-200, 200) AS i WHERE random() < 0.1
			ON CONFLICT DO NOTHING;
		UPDATE b SET v = 1 WHERE random() < 0.02', type, coalesce(there, type), value, columns);
	r := slices.same('a', 'b', size, options);
	RETURN CASE WHEN r.slices > 1 AND r.differ > 0 AND r.all_found AND r.each_once AND r.not_larger THEN 'ok' ELSE r::text END;
EXCEPTION WHEN feature_not_supported THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	-- without the version of ICU and the encoding of the database
	RETURN regexp_replace(detail, '( [0-9.]+)? (UTF8|SQL_ASCII)', '', 'g');
END $$;
SELECT n, type, there, try(type, value, columns, there) FROM (VALUES
	(1, 'k smallint', 'i', 'k', NULL),
	(2, 'k int', 'i * 1000000', 'k', NULL),
	(3, 'k bigint', 'i * 1000000000000', 'k', NULL),
	(4, 'k int', 'i', 'k', 'k bigint'),
	(5, 'k bigint', 'i', 'k', 'k smallint'),
	(6, 'k oid', 'i + 2147483648', 'k', NULL),
	(7, 'k uuid', 'md5(i::text)::uuid', 'k', NULL),
	(8, 'k date', 'CASE i WHEN -200 THEN ''-infinity'' WHEN 200 THEN ''infinity'' ELSE date ''0001-02-03'' + i END', 'k', NULL),
	(9, 'k timestamp', 'timestamp ''2026-03-29 00:00'' + i * interval ''7.000001 min''', 'k', NULL),
	(10, 'k timestamptz', 'timestamptz ''2026-03-29 00:00Z'' + i * interval ''7.000001 min''', 'k', NULL),
	(11, 'k time', 'time ''12:00'' + i * interval ''1.5 min''', 'k', NULL),
	(12, 'k timetz', '((time ''12:00'' + i * interval ''1.5 min'')::text || CASE WHEN i % 2 = 0 THEN ''+02'' ELSE ''-03'' END)::timetz', 'k', NULL),
	(13, 'k interval', 'i * interval ''1 day 1 min''', 'k', NULL),
	(14, 'k real', 'i / 3.0', 'k', NULL),
	(15, 'k float8', 'CASE i WHEN 200 THEN ''NaN'' WHEN 199 THEN ''Infinity'' ELSE i / 3.0::float8 END', 'k', NULL),
	(16, 'k real', 'i / 4.0', 'k', 'k float8'),
	(17, 'k numeric', 'i / 7.0', 'k', NULL),
	(18, 'k numeric(10, 2)', 'i / 4.0', 'k', 'k numeric(12, 4)'),
	(19, 'k text', '''k'' || i', 'k', NULL),
	(20, 'k varchar(20)', 'chr(200 + i % 3) || ''k '' || i', 'k', 'k varchar(30)'),
	(21, 'k varchar(20)', '''k\"{,}'' || i', 'k', 'k text'),
	(22, 'k char(6)', '''k '' || i', 'k', NULL),
	(23, 'k name', '''K'' || i', 'k', NULL),
	(24, 'k bytea', 'decode(md5(i::text), ''hex'')', 'k', NULL),
	(25, 'k inet', '(''10.0.'' || abs(i) / 250 || ''.'' || abs(i) % 250 || CASE WHEN i > 0 THEN ''/32'' ELSE ''/24'' END)::inet', 'k', NULL),
	(26, 'k macaddr', '(''08:00:2b:01:'' || lpad(to_hex((i + 400) / 256), 2, ''0'') || '':'' || lpad(to_hex((i + 400) % 256), 2, ''0''))::macaddr', 'k', NULL),
	(27, 'k bit(12)', '(i + 400)::bit(12)', 'k', NULL),
	(28, 'k varbit', '(i + 400)::bit(12)::varbit', 'k', NULL),
	(29, 'k pg_lsn', '(''1/'' || to_hex(i + 400))::pg_lsn', 'k', NULL),
	(30, 'a int, b text', 'i / 100, ''b'' || i', 'a, b', NULL),
	(31, 'b text, a boolean, c uuid', '''b'' || i % 3, i > 0, md5(i::text)::uuid', 'b, a, c', 'b text, a boolean, c uuid'),
	(32, 'a int, b int', '1, i', 'a, b', 'a bigint, b smallint'),
	(33, 'k text COLLATE "und-x-icu"', 'CASE WHEN i % 2 = 0 THEN ''k'' ELSE ''K'' END || i', 'k', NULL),
	(34, 'k text', '''k'' || i', 'k', 'k text COLLATE "POSIX"'),
	(35, 'k int', 'i', 'k', 'k numeric'),
	(36, 'k text COLLATE "und-x-icu"', '''k'' || i', 'k', 'k text'),
	(37, 'k int', 'i', 'k', 'k text'),
	(38, 'k money', 'i::money', 'k', NULL),
	(39, 'k int[]', 'ARRAY[i]', 'k', NULL)
	) AS t(n, type, value, columns, there) ORDER BY n;

-- What cannot be cut
CREATE VIEW seen AS TABLE mine;
CREATE TABLE bare (id int, v text);
CREATE TABLE parent (id int PRIMARY KEY, v text);
CREATE TABLE child () INHERITS (parent);
CREATE TABLE nullable (id int UNIQUE, v text);
CREATE TABLE two (id text PRIMARY KEY, v text);
CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE folding (id text COLLATE folded PRIMARY KEY, v text);
CREATE TABLE icu (id text COLLATE "und-x-icu" PRIMARY KEY, v text);
CREATE TABLE icu2 (LIKE icu INCLUDING ALL);
CREATE TABLE patterns (id text NOT NULL, v text);
CREATE UNIQUE INDEX ON patterns (id text_pattern_ops);
CREATE TYPE mood AS ENUM ('fine', 'so so');
CREATE TABLE enums (id mood PRIMARY KEY, v text);
CREATE TABLE pairs (a int, b int, v text, PRIMARY KEY (a, b));
CREATE TABLE pairs_back (a int, b int, v text, PRIMARY KEY (b, a));
CREATE TABLE pairs_mixed (a int NOT NULL, b int NOT NULL, v text);
CREATE UNIQUE INDEX ON pairs_mixed (a, b DESC);
CREATE TABLE pairs_down (a int NOT NULL, b int NOT NULL, v text);
CREATE UNIQUE INDEX ON pairs_down (a DESC, b DESC);
SELECT refusal('mine', 'seen'), refusal('bare', 'mine') AS bare, refusal('mine', 'parent') AS parent, refusal('nullable', 'mine') AS nullable \gx
CREATE TABLE enums2 (id mood PRIMARY KEY, v text);
SELECT refusal('mine', 'theirs') IS NULL AS fine, refusal('two', 'folding') AS folding, refusal('two', 'patterns') AS patterns, refusal('enums', 'enums2') AS enums \gx
SELECT refusal('pairs', 'pairs_back') AS turned, refusal('pairs', 'pairs_mixed') AS mixed, refusal('pairs', 'pairs_down') IS NULL AS down, refusal('mine', 'theirs', '{"key_columns": ["v"]}') AS another \gx
SELECT pg_temp.refusal($$SELECT iblt_internal.slice_next(slices.plan_of('bare', 'mine'), NULL, 10)$$);
-- an index that both have, in whatever order its columns are named
CREATE UNIQUE INDEX ON pairs (b, a);
INSERT INTO pairs SELECT i % 10, i, 'v' FROM generate_series(1, 100) AS i;
INSERT INTO pairs_back SELECT i % 10, i, 'v' || nullif(i % 50, 0) FROM generate_series(1, 100) AS i;
INSERT INTO pairs_down TABLE pairs;
UPDATE pairs_down SET v = 'x' WHERE b = 77;
SELECT iblt_internal.order_text((iblt_internal.slice_key(plan_of('pairs', 'pairs_back'))).here) AS slice_order, lo, hi FROM sliced('pairs', 'pairs_back', 40);
SELECT * FROM same('pairs', 'pairs_back', 5, '{"key_columns": ["a", "b"]}');
SELECT iblt_internal.order_text((iblt_internal.slice_key(plan_of('pairs', 'pairs_down'))).here) AS slice_order, lo, hi, differences FROM sliced('pairs', 'pairs_down', 40);
-- text of two collations, and an index of each side that sorts by bytes
CREATE TABLE icu_bytes (id text COLLATE "und-x-icu" PRIMARY KEY, v text);
INSERT INTO two SELECT CASE WHEN i % 2 = 0 THEN 'k' ELSE 'K' END || i, i FROM generate_series(1, 300) AS i;
INSERT INTO icu_bytes TABLE two;
UPDATE icu_bytes SET v = 'x' WHERE v IN ('17', '170');
SELECT refusal('two', 'icu_bytes') LIKE 'the sides order the key differently: (id by C %) here, (id by i und %) there' AS before;
CREATE UNIQUE INDEX ON icu_bytes (id COLLATE "C");
SELECT refusal('two', 'icu_bytes') IS NULL AS after, s.* FROM same('two', 'icu_bytes', 45) AS s;
SELECT refusal('icu', 'icu_bytes') IS NULL AS by_both;
-- the library changed since an index was built, perhaps
BEGIN;
UPDATE pg_collation SET collversion = '0.1' WHERE collname = 'und-x-icu';
SELECT regexp_replace(refusal('icu', 'icu2'), '[0-9.]+\)', 'N)') LIKE 'index slices.icu_pkey: collation "und-x-icu" had version 0.1 when it was recorded, and has %(here)' AS changed;
SELECT refusal('two', 'icu_bytes') IS NULL AS by_bytes;
UPDATE pg_collation SET collversion = NULL WHERE collname = 'und-x-icu';
SELECT refusal('icu', 'icu2');
-- by which order collations sort
SELECT collname, regexp_replace(o ->> 'sorted', ' [0-9][0-9.]*', ' N') AS sorted, o ->> 'problem' AS problem FROM pg_collation AS c, iblt_internal.collation_order(c.oid) AS o WHERE collname IN ('C', 'POSIX', 'folded', 'und-x-icu') ORDER BY collname COLLATE "C";
ROLLBACK;

-- Partitions: the indexes of those are read that a slice is in.  A plan is looked at as a slice has it.
CREATE FUNCTION explained(plan iblt_internal.plan, lo text[], hi text[], by_hash boolean DEFAULT false,
	OUT relations text, OUT by_index boolean, OUT few_blocks boolean) LANGUAGE plpgsql
	SET enable_seqscan = off SET search_path = iblt_internal, pg_catalog, pg_temp SET enable_indexonlyscan = off
AS $$
DECLARE
	query text;
	j jsonb;
BEGIN
	plan.lo := lo;
	plan.hi := hi;
	plan.by_hash := by_hash OR plan.by_hash;
	query := CASE WHEN by_hash THEN (iblt_internal.finder(plan, plan.here)).lookup ELSE 'SELECT ' || iblt_internal.sketch_sql(plan, plan.here, 4000) END;
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || query INTO j USING '{1,2,3}'::text[], lo, hi;
	SELECT string_agg(DISTINCT n ->> 'Relation Name', ', '), bool_or(n ->> 'Node Type' LIKE '%Index%') AND NOT bool_or(n ->> 'Node Type' = 'Seq Scan')
	INTO relations, by_index FROM jsonb_path_query(j, '$.**') AS n;
	few_blocks := (j #>> '{0,Plan,Shared Hit Blocks}')::bigint + (j #>> '{0,Plan,Shared Read Blocks}')::bigint < 60;
END $$;
CREATE TABLE parts (id int, at date, v text, PRIMARY KEY (id, at)) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10000);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10000) TO (20000) PARTITION BY HASH (at);
CREATE TABLE parts_21 PARTITION OF parts_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_22 PARTITION OF parts_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (20000) TO (30000);
INSERT INTO parts SELECT i * 10, date '2026-01-01' + i, 'v' FROM generate_series(0, 2999) AS i;
CREATE TABLE whole (id int, at date, v text, PRIMARY KEY (id, at));
INSERT INTO whole SELECT id, at, CASE WHEN id % 3000 = 0 THEN 'x' ELSE v END FROM parts WHERE id % 3001 <> 0 OR id % 10 = 0;
CREATE TABLE tenant (a int, b int, v text, PRIMARY KEY (a, b));
INSERT INTO tenant SELECT 1, i, 'v' FROM generate_series(1, 50000) AS i;
INSERT INTO tenant SELECT i, 1, 'v' FROM generate_series(0, 100) AS i WHERE i <> 1;
ANALYZE;
SELECT * FROM same('parts', 'whole', 700);
SELECT * FROM explained(plan_of('parts', 'whole'), '{4000,2026-01-01}', '{9000,2026-01-01}');
SELECT * FROM explained(plan_of('parts', 'whole'), '{9990,2026-01-01}', '{12000,2026-01-01}');
SELECT * FROM explained(plan_of('parts', 'whole'), NULL, '{200,2026-01-01}', true);
-- all rows but a few are of one value of the first column: a slice reads its own rows
CREATE TABLE tenant2 (LIKE tenant INCLUDING ALL);
SELECT * FROM explained(plan_of('tenant', 'tenant2'), '{1,25000}', '{1,26000}');
SELECT * FROM explained(plan_of('tenant', 'tenant2'), '{1,49500}', '{5,1}');
SELECT * FROM explained(plan_of('tenant', 'tenant2'), NULL, '{1,500}');
SELECT * FROM explained(plan_of('tenant', 'tenant2'), '{1,49000}', NULL);
SELECT * FROM explained(plan_of('tenant', 'tenant2'), '{1,25000}', '{1,26000}', true);
-- and a walk does not read them before it begins
SELECT iblt_internal.slice_next(plan_of('tenant', 'tenant2'), '{1,49000}', 500);
-- what the planner finds no index for
CREATE TABLE crossed (a int NOT NULL, b int NOT NULL, v text) PARTITION BY RANGE (a);
CREATE TABLE crossed_1 PARTITION OF crossed FOR VALUES FROM (0) TO (10);
CREATE UNIQUE INDEX ON crossed_1 (a, b DESC);
CREATE UNIQUE INDEX ON crossed (a, b);
INSERT INTO crossed SELECT i % 10, i, 'v' FROM generate_series(1, 1000) AS i;
SELECT pg_temp.refusal($$SELECT iblt_internal.slice_next(slices.plan_of('crossed', 'pairs'), NULL, 10)$$);

CREATE TABLE one (id bigint PRIMARY KEY, v text);
INSERT INTO one SELECT i, 'v' FROM generate_series(1, 20000) AS i;
CREATE TABLE one2 (LIKE one INCLUDING ALL);
-- large slices of a table with statistics end at a bound of the histogram, and at the last one
ANALYZE one;
SELECT lo, rows, iblt_internal.slice_next(plan_of('one', 'one2'), ARRAY[lo], rows, false, 20000) AS bound
FROM (VALUES ('1000', 5000), ('1000', 300), ('1000', 30000000), ('18000', 5000), ('20000', 5000)) AS v(lo, rows);
-- two columns have none
SELECT iblt_internal.slice_next(plan_of('tenant', 'tenant2'), '{1,40000}', 5000, false, 50000);
SELECT * FROM explained(plan_of('one', 'one2'), '{5000}', '{5100}');
-- of another access method, rows are read by an index
CREATE ACCESS METHOD heap_too TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE other (id bigint PRIMARY KEY, v text) USING heap_too;
INSERT INTO other TABLE one;
SELECT * FROM explained(plan_of('other', 'one'), '{5000}', '{5100}');
SELECT * FROM same('other', 'one', 7000);
DROP TABLE other;
DROP ACCESS METHOD heap_too;
CREATE TABLE pieces (id bigint PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE pieces_1 PARTITION OF pieces FOR VALUES FROM (0) TO (6000);
CREATE TABLE pieces_2 PARTITION OF pieces FOR VALUES FROM (6000) TO (30000);
INSERT INTO pieces TABLE one;
SELECT * FROM explained(plan_of('pieces', 'one'), '{5000}', '{5100}');
SELECT * FROM same('pieces', 'one', 7000);
-- bounds that an index here has no values for
CREATE TABLE narrow (id int PRIMARY KEY, v text);
INSERT INTO narrow SELECT i, 'v' FROM generate_series(1, 1000) AS i;
INSERT INTO one2 SELECT i * 10000000::bigint, 'v' FROM generate_series(1, 1000) AS i;
SELECT * FROM same('narrow', 'one2', 300);

-- The guard
CREATE FUNCTION guard(here regclass, there regclass, thorough boolean, options jsonb DEFAULT '{}') RETURNS text LANGUAGE sql SET search_path = iblt_internal, pg_catalog, pg_temp AS $$
	SELECT iblt_internal.slice_guard(plan, thorough, (iblt_internal.run_see(plan)).probes) FROM (SELECT slices.plan_of(here, there, options) AS plan OFFSET 0) AS p
$$;
SELECT guard('parts', 'whole', false);
SELECT pg_temp.refusal($$SELECT slices.guard('parts', 'whole', true)$$);
CREATE SCHEMA "am check";
CREATE EXTENSION amcheck SCHEMA "am check";
SELECT guard('parts', 'whole', true);
-- the planner may read by any index on a column of the key
CREATE INDEX ON whole (v);
CREATE INDEX ON whole (at, v);
CREATE INDEX whole_brin ON whole USING brin (id);
SELECT guard('parts', 'whole', true);
CREATE ROLE regress_iblt_checker;
GRANT USAGE ON SCHEMA slices, "am check" TO regress_iblt_checker;
GRANT SELECT ON parts, whole TO regress_iblt_checker;
SET ROLE regress_iblt_checker;
SELECT guard('parts', 'whole', false) LIKE 'read by index%' AS sampled;
SELECT pg_temp.refusal($$SELECT slices.guard('parts', 'whole', true)$$);
RESET ROLE;
DROP OWNED BY regress_iblt_checker;
DROP ROLE regress_iblt_checker;

-- Indexes that lack rows
CREATE FUNCTION keep_up(index regclass, ready boolean) RETURNS void LANGUAGE sql SET allow_system_table_mods = on AS $$
	UPDATE pg_index SET indisready = ready, indisvalid = ready WHERE indexrelid = index
$$;
CREATE TABLE h (id int PRIMARY KEY, v text);
CREATE TABLE t (LIKE h INCLUDING ALL);
INSERT INTO h SELECT i, 'v' FROM generate_series(1, 2000) AS i WHERE i NOT IN (777, 1500);
INSERT INTO t TABLE h;
ANALYZE;
CREATE TABLE sparse (id int);
INSERT INTO sparse SELECT i FROM generate_series(1, 2000) AS i;
SELECT relation, p ->> 'rows' AS rows, p ->> 'blocks' AS blocks, p ->> 'file' ~ '^\d+$' AS a_file, p ->> 'file' ~ '^[0-9a-f]{32}$' AS files FROM unnest('{h,crossed}'::text[]) AS relation, LATERAL iblt_internal.run_probe(relation::regclass) AS p;
SELECT (p ->> 'rows')::bigint BETWEEN 600 AND 800 AS without_statistics FROM iblt_internal.run_probe('sparse') AS p;
SELECT here, there, buckets, bytes, iblt_internal.slice_may_count(jsonb_populate_record(NULL::iblt_internal.plan, jsonb_build_object('buckets', buckets, 'bytes', bytes, 'here', jsonb_build_object('most_rows', here), 'there', jsonb_build_object('most_rows', there)))) AS counts
FROM (VALUES (9586980, 9586980, NULL, NULL), (9586981, 0, NULL, NULL), (0, 9586981, NULL, NULL), (NULL, 0, NULL, NULL), (0, NULL, NULL, NULL), (NULL, NULL, 16, NULL), (NULL, NULL, 16, 268435456), (NULL, NULL, 16, 268435457)) AS v(here, there, buckets, bytes);
-- a table of Citus on either side
SELECT distributed, (iblt_internal.slice_key(jsonb_populate_record(NULL::iblt_internal.plan, jsonb_build_object('is_unique', true, distributed, '{"distributed": true}'::jsonb)))).problem AS refused FROM unnest('{here,there}'::text[]) AS distributed;
-- Two other servers say that a type of users has an order.  Its OID may be that of any type here.
SELECT base, (iblt_internal.slice_key(jsonb_populate_record(NULL::iblt_internal.plan, jsonb_build_object('is_unique', true, 'here', side, 'there', side,
	'key', jsonb_build_array(jsonb_build_object('name', 'k', 'cast_to', '', 'base', base, 'base_there', base, 'type_here', 'their.type')))))).problem AS refused
FROM unnest('{25,16384}'::int[]) AS base, LATERAL (SELECT '{"keys": [{"columns": ["k"], "orders": ["C"]}]}'::jsonb) AS s(side);
-- a relation without a page has nothing to look up
CREATE TABLE empty (id int PRIMARY KEY);
CREATE TABLE empty2 (LIKE empty INCLUDING ALL);
SELECT guard('empty', 'empty2', false);
-- on both sides, with other contents, where slices find nothing (test/t/092_slices.pl): a scan finds it
BEGIN;
SELECT keep_up('h_pkey', false), keep_up('t_pkey', false);
INSERT INTO h VALUES (1500, 'here');
INSERT INTO t VALUES (1500, 'there');
SELECT keep_up('h_pkey', true), keep_up('t_pkey', true);
-- (and whoever looks whether the index finds a row does not trust it, though the scan of a condition may)
SELECT pg_temp.refusal($$SELECT iblt_internal.check_index(slices.plan_of('h', 't', '{"condition": "id = 1500", "by_index": true}'), '{1500}')$$) AS looked_for;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SELECT pg_temp.refusal($$SELECT iblt_internal.comparison_of(iblt_internal.find_keys(slices.plan_of('h', 't')))$$) AS by_scan;
ROLLBACK;
-- no index serves the condition of a slice, so it finds what such an index lacks, and a lookup does not
BEGIN;
CREATE INDEX h_v ON h (v);
CREATE INDEX t_v ON t (v);
SELECT keep_up('h_v', false), keep_up('t_v', false);
INSERT INTO h VALUES (777, 'here');
SELECT keep_up('h_v', true), keep_up('t_v', true);
ANALYZE h, t;
SELECT pg_temp.refusal($$SELECT count(*) FROM slices.sliced('h', 't', 900, '{"condition": "v = ''here''", "peer_condition": "v = ''here''"}')$$);
ROLLBACK;
-- many rows: the sample finds that
BEGIN;
SELECT keep_up('t_pkey', false);
INSERT INTO t SELECT i, 'v' FROM generate_series(10001, 11000) AS i;
SELECT keep_up('t_pkey', true);
SELECT regexp_replace(pg_temp.refusal($$SELECT slices.guard('h', 't', false)$$), '[0-9]+ rows, it does not find [0-9]+', 'N rows, it does not find M');
ROLLBACK;
-- nothing is written where nothing may be
BEGIN READ ONLY;
SELECT pg_temp.refusal($$SELECT iblt_internal.iblt_run_add(r) FROM (SELECT NULL::iblt_internal.run_table) AS x(n), LATERAL jsonb_populate_record(n, '{"run": 1, "table_number": 1, "number": 0}') AS r$$);
SELECT pg_temp.refusal($$SELECT iblt_internal.iblt_run_remove(NULL::iblt_internal.run_table, 0, NULL, NULL, NULL)$$);
ROLLBACK;
-- rows that are null
SELECT pg_temp.refusal($$SELECT iblt_internal.iblt_run_add(NULL::iblt_internal.run_table)$$), pg_temp.refusal($$SELECT iblt_internal.iblt_run_put(NULL::iblt_internal.run_table)$$);
-- a store that is not one of ours any more
BEGIN;
SET LOCAL allow_system_table_mods = on;
UPDATE pg_class SET relkind = 'r', relhasrules = false WHERE oid = 'iblt_internal.run_table'::regclass;
SELECT pg_temp.refusal($$SELECT iblt_internal.iblt_run_rows(NULL::iblt_internal.run_table, NULL, NULL, NULL)$$);
ROLLBACK;
-- an index that has another order than its collation, as after an upgrade of a library
CREATE TABLE sh (id text COLLATE "und-x-icu" PRIMARY KEY, v text);
INSERT INTO sh SELECT CASE WHEN i % 2 = 0 THEN 'k' ELSE 'K' END || i, 'here' FROM generate_series(1, 2000) AS i;
CREATE TABLE st (LIKE sh INCLUDING ALL);
INSERT INTO st SELECT id, 'there' FROM sh;
ANALYZE sh, st;
SET allow_system_table_mods = on;
UPDATE pg_index SET indcollation = '950' WHERE indexrelid IN ('sh_pkey'::regclass, 'st_pkey'::regclass);
UPDATE pg_attribute SET attcollation = 950 WHERE attname = 'id' AND attrelid IN ('sh'::regclass, 'sh_pkey'::regclass, 'st'::regclass, 'st_pkey'::regclass);
-- another session has not yet seen the indexes
\c -
\i test/sql/common.psql
SET client_min_messages = warning;
SET search_path = slices, public, iblt_internal;
SELECT refusal('sh', 'st') IS NULL AS sliced, all_found, each_once FROM same('sh', 'st', 500);
SELECT pg_temp.refusal($$SELECT slices.guard('sh', 'st', false)$$) ~ '^XX002 an index of slices.(sh|st) does not find rows' AS sample;
SELECT pg_temp.refusal($$SELECT slices.guard('sh', 'st', true)$$) ~ '^XX002 index slices.(sh|st)_pkey is damaged .amcheck: item order invariant violated for index' AS amcheck;
DROP TABLE sh, st;
