-- iblt_repair within one database: what it writes for each shape of table, what its
-- options choose, and what it refuses.  Peers are tested in test/t.
\i test/sql/common.psql
SET client_min_messages = warning;
CREATE SCHEMA rep;
SET search_path = rep, public;

-- the steps of a repair that makes a table like the one of its name with _there
CREATE FUNCTION steps(target text, options text DEFAULT '', direction text DEFAULT 'pull') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format($q$SELECT step FROM (
		SELECT concat_ws(' ', action, key, status, detail) FROM iblt_repair(%L, NULL, %L, direction => %L%s)) AS x(step) ORDER BY step COLLATE "C"$q$,
		target, target || '_there', direction, nullif(', ' || options, ', '));
END $$;
-- rows of one that the other lacks; the text of a row is not that of its values alone
CREATE FUNCTION unlike(target text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('WITH a AS (SELECT (row_.*)::text, to_jsonb(row_.*) FROM %1$I AS row_), b AS (SELECT (row_.*)::text, to_jsonb(row_.*) FROM %1$I_there AS row_)
		SELECT count(*) FROM ((TABLE a EXCEPT ALL TABLE b) UNION ALL (TABLE b EXCEPT ALL TABLE a)) AS x', target) INTO n;
	RETURN n;
END $$;
-- the steps of a repair, and whether both are the same then
CREATE FUNCTION repaired(target text, options text DEFAULT 'apply => true') RETURNS SETOF text LANGUAGE sql AS $$SELECT steps(target, options) UNION ALL SELECT 'unlike: ' || unlike(target)$$;
CREATE FUNCTION outcome(query text) RETURNS text LANGUAGE sql AS 'SELECT left(pg_temp.refusal(query), 66)';

-- what is refused
CALL pg_temp.pair('opt', 'id int PRIMARY KEY, v text', $$SELECT i, 'v' FROM generate_series(1, 9) i$$,
	$$SELECT i, CASE i WHEN 5 THEN 'new' ELSE 'v' END FROM generate_series(2, 10) i$$);
CREATE VIEW opt_view AS SELECT * FROM opt;
SELECT outcome(format($$SELECT * FROM iblt_repair(%s, peer_relation => 'opt_there')$$, arguments))
FROM unnest(ARRAY[$$'opt'$$, $$'opt', direction => NULL$$, $$'opt', direction => 'sideways'$$, $$'opt', direction => 'pull', updates => NULL$$, $$'opt', direction => 'pull', apply => NULL$$,
	$$'opt', direction => 'pull', "cascade" => NULL$$, $$'opt_view', direction => 'pull', key_columns => '{id}'$$, $$'opt_there', direction => 'pull'$$]) AS arguments;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outcome($$SELECT * FROM iblt_repair('opt', NULL, 'opt_there', direction => 'pull', apply => true)$$);
SELECT count(*) FROM iblt_repair('opt', NULL, 'opt_there', direction => 'pull');
COMMIT;
CALL pg_temp.pair('wide', 'a int, v int', 'VALUES (1, 2)', NULL, 'a int, v bigint');
SELECT outcome($$SELECT * FROM iblt_repair('wide', NULL, 'wide_there', direction => 'pull', cast_types => true)$$) AS casts_without_key,
	   outcome($$SELECT * FROM iblt_repair('wide', NULL, 'wide_there', direction => 'pull')$$) AS types;
-- a value that is compared as text has the form for a repair that it has for a comparison
CALL pg_temp.pair('lasts', 'id int PRIMARY KEY, v interval', $$VALUES (1, '1 day'::interval), (2, '-1 mons +2 days')$$, $$VALUES (1, '1 day'), (2, '-1 mons +2 days')$$, 'id int PRIMARY KEY, v text');
SELECT (SELECT count(*) FROM iblt_compare('lasts', NULL, 'lasts_there', cast_types => true)) AS differ, (SELECT count(*) FROM steps('lasts', 'cast_types => true')) AS repaired;

-- options that iblt_compare has too
CALL pg_temp.pair('more', 'id int PRIMARY KEY, v int', NULL, 'VALUES (1, 1, 1)', 'id int PRIMARY KEY, v int, extra int');
SELECT outcome($$SELECT steps('more', $o$extra_columns => 'error'$o$)$$);
SELECT outcome($$SELECT steps('more', 'timeout => NULL')$$);
SELECT steps('more', $$extra_columns => 'ignore', seed => 4711, apply => true$$);
SELECT rows_here, rows_there, differences, unconfirmed, columns_left_out, messages FROM iblt_compare_stats();

-- keys of several columns and keys by hash; columns that are written or not
CALL pg_temp.pair('pair', 'b text, x int, a int, v text, PRIMARY KEY (a, b)', $$SELECT i % 3, i, i, 'it''s \ ' || i FROM generate_series(1, 30) i$$, 'SELECT * FROM pair');
UPDATE pair_there SET v = NULL WHERE a = 4;
UPDATE pair SET v = NULL WHERE a = 5;
UPDATE pair_there SET v = v || '"', x = -1 WHERE a = 6;
UPDATE pair SET b = 'other' WHERE a = 7;
INSERT INTO pair SELECT 'same', 0, a, 'same' FROM generate_series(4, 7) a;
SELECT repaired('pair');
UPDATE pair SET v = 'this is not to be written', x = 77 WHERE a = 9;
SELECT steps('pair', $$columns => '{x}', apply => true$$);
SELECT x, v FROM pair WHERE a = 9;

-- values whose text is not all: blanks, rows of nulls, numbers of another scale
CREATE TYPE two AS (p int, q text);
CALL pg_temp.pair('texts', 'id int PRIMARY KEY, c char(5), r two, n numeric, s varchar(3), b "char", f float8, i interval', NULL,
	$$VALUES (1, 'a', ROW(NULL, NULL), 1.0, 'abc', 'x', 'NaN', '1 mon -1 day'), (2, '', NULL, 1.00, NULL, '', '-0', NULL),
	(3, NULL, ROW(1, NULL), 'NaN', '', NULL, 1 / 3.0, '0')$$);
INSERT INTO texts VALUES (1, '', NULL, 1, '', NULL, 0, '0'), (2, 'a', ROW(NULL, NULL), 1.0, '', 'y', '0', '1 day'), (3, '', ROW(NULL, NULL), 0, NULL, '', 0.3333333333333333, '1 mon');
SELECT repaired('texts');
ALTER TABLE texts_there ALTER s TYPE varchar(9);
UPDATE texts_there SET s = 'too long' WHERE id = 1;
SELECT outcome($$SELECT * FROM iblt_repair('texts', NULL, 'texts_there', direction => 'pull', apply => true)$$) AS too_long;
SELECT s AS not_cut FROM texts WHERE id = 1;

-- rows without a key: as many as there are, with nulls, and of types that have no "="
CALL pg_temp.pair('bag', 'a int, v text, j json', $$VALUES (1, 'x', '{}'), (1, 'x', '{}'), (1, 'x', '{}'), (2, NULL, NULL), (2, NULL, NULL), (3, 'z', '[ ]'), (NULL, NULL, NULL)$$,
	$$VALUES (1, 'x', '{}'), (2, NULL, NULL), (2, NULL, NULL), (2, NULL, NULL), (2, NULL, NULL), (3, 'z', '[]'), (NULL, '', NULL)$$);
SELECT steps('bag');
SELECT steps('bag', 'deletes => false');
SELECT repaired('bag');
CALL pg_temp.pair('nan', 'f float8', 'VALUES (0)', $$VALUES ('-0')$$);
SELECT steps('nan', 'apply => true');
SELECT f FROM nan;
-- of several rows of a key, some are missing: all or none
CALL pg_temp.pair('several', 'k int, v text', $$VALUES (1, 'a'), (1, 'b'), (2, 'x'), (3, 'y')$$, $$VALUES (1, 'a'), (1, 'c'), (2, 'x'), (2, 'x')$$);
SELECT steps('several', $$key_columns => '{k}', inserts => false$$);
SELECT repaired('several', $$key_columns => '{k}', apply => true$$);
-- and under a condition
INSERT INTO several VALUES (8, 'twice'), (8, 'twice');
INSERT INTO several_there VALUES (8, 'twice');
SELECT repaired('several', $$condition => 'k = 8 -- and no other', apply => true$$);

-- a condition on what is not compared
CALL pg_temp.pair('hidden', 'a int, slice text', $$VALUES (1, 'keep'), (1, 'drop'), (1, 'keep')$$);
SELECT steps('hidden', $$exclude => '{slice}', condition => 'slice = ''drop''', apply => true$$);
SELECT * FROM hidden;
-- two rows of a unique key, as a damaged index can have them
CALL pg_temp.pair('twice', 'id text PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v int', NULL, $$VALUES ('a', 1)$$, 'id text PRIMARY KEY, v int');
BEGIN;
INSERT INTO twice VALUES ('a', 2), ('a', 3);
SELECT steps('twice', 'apply => true');
ROLLBACK;

-- identity and generated columns
CALL pg_temp.pair('ident_bag', 'id int GENERATED ALWAYS AS IDENTITY, v int', NULL, 'VALUES (7, 7), (7, 7), (8, 8)', 'id int, v int');
SELECT repaired('ident_bag');

-- Foreign keys, unique values that move, triggers and what options choose are in test/t/IbltRepairs.pm.
CALL pg_temp.pair('self', 'id int PRIMARY KEY, up int REFERENCES self ON DELETE CASCADE', 'VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)', 'VALUES (4, NULL)',
	'id int PRIMARY KEY, up int');
SELECT repaired('self');

-- an order that works up to a row that no order would do for
CALL pg_temp.pair('checked', 'id int PRIMARY KEY, u int UNIQUE, v int CHECK (v > 0)', 'VALUES (1, 1, 1), (2, 2, 1), (3, 9, 1)', 'VALUES (1, 2, 1), (2, 3, 1), (3, 9, -1)',
	'id int PRIMARY KEY, u int, v int');
SELECT outcome($$SELECT steps('checked', 'apply => true')$$);

-- many rows in one statement, of types with several forms, against a statement for each row, which
-- a trigger of a user has them get
CREATE TYPE mood AS ENUM ('sad', 'it''s');
CREATE DOMAIN short AS varchar(9) CHECK (VALUE <> 'no');
CREATE TABLE many (id int PRIMARY KEY, t text, a text[], b point, m mood, d short, c "char", n numeric(9,2), p two, j jsonb, v char(4),
	i int GENERATED ALWAYS AS IDENTITY, g int GENERATED ALWAYS AS (id + 1) STORED);
CREATE TABLE many_there (LIKE many INCLUDING ALL);
INSERT INTO many_there OVERRIDING SYSTEM VALUE SELECT i, CASE WHEN i % 7 > 0 THEN E'a,"b\\ {' || i END, ARRAY[i::text, NULL, 'x,"y'], point(i, 1), CASE i % 2 WHEN 1 THEN 'it''s'::mood END,
	'short', 'c', i / 3.0, ROW(i, NULL)::two, jsonb_build_object('k', i), 'v', i FROM generate_series(1, 4000) i;
INSERT INTO many OVERRIDING SYSTEM VALUE SELECT id, t, a, b, m, d, c, n, p, j, v, i FROM many_there WHERE id <= 3000;
INSERT INTO many SELECT i FROM generate_series(5001, 6200) i;
UPDATE many SET t = 'x', a = '{}' WHERE id % 3 = 0;
UPDATE many SET n = NULL, v = NULL, p = NULL WHERE id % 5 = 0;
UPDATE many SET d = NULL, j = NULL, c = '', m = NULL WHERE id = 7;
CREATE TABLE single (LIKE many INCLUDING ALL);
CREATE TABLE single_there (LIKE many INCLUDING ALL);
INSERT INTO single OVERRIDING SYSTEM VALUE SELECT id, t, a, b, m, d, c, n, p, j, v, i FROM many;
INSERT INTO single_there OVERRIDING SYSTEM VALUE SELECT id, t, a, b, m, d, c, n, p, j, v, i FROM many_there;
CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN coalesce(NEW, OLD); END';
CREATE TRIGGER same BEFORE INSERT OR UPDATE OR DELETE ON single FOR EACH ROW EXECUTE FUNCTION same();
CREATE TEMP TABLE told AS SELECT * FROM iblt_repair('many', NULL, 'many_there', direction => 'pull', apply => true);
SELECT action, status, count(*) FROM told GROUP BY 1, 2 ORDER BY 1;
SELECT unlike('many');
SELECT count(*) AS told_otherwise FROM (SELECT key, action, replace(sql, 'many', 'single'), status, detail FROM told
	EXCEPT SELECT key, action, sql, status, detail FROM iblt_repair('single', NULL, 'single_there', direction => 'pull', apply => true)) AS x;
SELECT unlike('single');
-- one row of many fails, is not changed by a rule, or has to come behind another one
UPDATE many_there SET t = t || '!';
ALTER TABLE many ADD CHECK (id <> 2222 OR t NOT LIKE '%!');
SELECT outcome($$SELECT steps('many', 'apply => true')$$), unlike('many');
DO $$
DECLARE
	said text;
BEGIN
	PERFORM * FROM iblt_repair('rep.many', NULL, 'rep.many_there', direction => 'pull', apply => true);
EXCEPTION WHEN check_violation THEN
	GET STACKED DIAGNOSTICS said = PG_EXCEPTION_DETAIL;
	RAISE WARNING '%', substring(said from 'The row has the key .*');
END $$;
ALTER TABLE many DROP CONSTRAINT many_check;
CREATE RULE nothing AS ON UPDATE TO many WHERE NEW.id = 1111 DO INSTEAD NOTHING;
SELECT outcome($$SELECT steps('many', 'apply => true')$$);
DROP RULE nothing ON many;
-- a rule that writes elsewhere, and returns what it was given
CALL pg_temp.pair('ruled', 'id int PRIMARY KEY, v text');
CREATE TABLE aside (LIKE ruled);
INSERT INTO ruled_there SELECT i, 'v' FROM generate_series(1, 50) i;
CREATE RULE aside AS ON INSERT TO ruled DO INSTEAD INSERT INTO aside VALUES (new.*) RETURNING *;
SELECT outcome($$SELECT steps('ruled', 'apply => true')$$);
SELECT count(*) FROM aside;
-- a delete that does not delete, of one row and of many
BEGIN;
DELETE FROM many_there WHERE id = 5;
CREATE RULE nothing AS ON DELETE TO many DO INSTEAD NOTHING;
SELECT outcome($$SELECT steps('many', 'inserts => false, updates => false, apply => true')$$);
DELETE FROM many_there WHERE id < 100;
SELECT outcome($$SELECT steps('many', 'inserts => false, updates => false, apply => true')$$);
ROLLBACK;
SELECT count(*), unlike('many') FROM steps('many', 'apply => true');
CALL pg_temp.pair('chain', 'id int PRIMARY KEY, parent int REFERENCES chain, u int UNIQUE', NULL, 'SELECT i, CASE WHEN i < 1300 THEN i + 1 END, i FROM generate_series(1, 1300) i',
	'id int PRIMARY KEY, parent int, u int');
SELECT count(*) FROM steps('chain', 'apply => true');
UPDATE chain_there SET u = u + 1, parent = CASE WHEN id > 1 THEN id - 1 END WHERE id <= 300 OR id > 1200;
SELECT regexp_replace(s, ' {.*}', '') AS step, count(*) FROM steps('chain', 'apply => true') AS s GROUP BY 1 ORDER BY 1;
UPDATE chain_there SET u = u + 5000 WHERE id BETWEEN 301 AND 1200;
SELECT count(*), unlike('chain') FROM steps('chain', 'apply => true');
-- a row may be gone with another one only where a foreign key of the table deletes it
BEGIN;
INSERT INTO chain VALUES (0);
CREATE RULE nothing AS ON DELETE TO chain DO INSTEAD NOTHING;
SELECT outcome($$SELECT steps('chain', 'apply => true')$$);
INSERT INTO self VALUES (5, NULL);
CREATE RULE nothing AS ON DELETE TO self DO INSTEAD NOTHING;
ALTER TABLE self ENABLE ALWAYS RULE nothing;
SELECT outcome($$SELECT steps('self', 'apply => true')$$), outcome($$SELECT steps('self', 'apply => true, as_replica => true')$$) AS as_replica;
ROLLBACK;
DELETE FROM chain_there;
SELECT count(*), unlike('chain') FROM steps('chain', 'apply => true');
SELECT count(*) FROM chain;

SET search_path = iblt_internal, rep, public;
-- what the answer to COMMIT says: only an error of a peer that goes on is certain
SELECT answer, e ->> 'state' AS state, (e ->> 'reported')::boolean AS reported, answers, outcome(format('SELECT repair_judge_commit(''c'', %L, %L, %L)',
	answer, jsonb_populate_record(NULL::failure, e || '{"message": "m"}'), answers)) AS said
FROM (VALUES ('COMMIT', '{}'::jsonb, NULL), ('ROLLBACK', '{}', NULL), (NULL, '{}', NULL), ('SET', '{}', NULL), (NULL, '{"state": "23505", "reported": true}', true),
	(NULL, '{"state": "23505", "reported": true}', false), (NULL, '{"state": "23505", "reported": false}', true), ('COMMIT', '{"state": "23505", "reported": false}', NULL),
	(NULL, '{"state": "57014", "reported": true}', true), (NULL, '{"state": "57P01", "reported": true}', true), (NULL, '{"state": "08006", "reported": true}', true)) AS v(answer, e, answers);

SET search_path = rep, public, iblt_internal;
-- the operator by which an index finds a value, and how a list of values is written
CREATE TYPE unit;
CREATE FUNCTION unit_in(cstring) RETURNS unit LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION unit_out(unit) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE unit (INPUT = unit_in, OUTPUT = unit_out, LIKE = int4);
CREATE FUNCTION unit_cmp(unit, unit) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
DO $$ DECLARE o text[]; BEGIN
	FOREACH o SLICE 1 IN ARRAY '{{<,lt},{<=,le},{===,eq},{>=,ge},{>,gt}}'::text[] LOOP
		EXECUTE format('CREATE FUNCTION unit_%s(unit, unit) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS ''int4%1$s''', o[2]);
		EXECUTE format('CREATE OPERATOR %s (LEFTARG = unit, RIGHTARG = unit, FUNCTION = unit_%s)', o[1], o[2]);
	END LOOP;
END $$;
CREATE OPERATOR CLASS unit_ops DEFAULT FOR TYPE unit USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 ===, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 unit_cmp(unit, unit);
CREATE DOMAIN measured AS unit;
CREATE TEMP TABLE every (i int4, v varchar, u unit, m measured, p jsonpath, a int4[], b box, o opt);
SELECT c ->> 'name' AS name, c ->> 'equal' AS equal, c ->> 'list' AS list FROM jsonb_array_elements(repair_describe('every') -> 'columns') AS c;

SET search_path = iblt_internal, rep, public;
-- what this transaction has changed is not pushed
BEGIN;
UPDATE opt SET v = v WHERE id = 5;
SELECT t, place, outcome(format('SELECT repair_check_target(jsonb_populate_record(NULL::repair_plan, %L))', jsonb_build_object('asked', jsonb_build_object('apply', true, 'as_replica', false), 'described', '{"read_only": false, "deferrable_constraints": []}'::jsonb,
	'compared', jsonb_build_object('here', here, 'there', there), 'target', CASE t WHEN 'here' THEN here ELSE there END))) AS said
FROM (VALUES ('here', 'iblt_run'), ('there', 'iblt_run'), ('there', NULL)) AS v(t, place),
	LATERAL (SELECT '{"side": "here", "relation": "rep.opt", "recovery": false, "remote": false}'::jsonb, jsonb_build_object('side', 'there', 'relation', 'rep.opt', 'recovery', false, 'remote', false, 'place', place)) AS s(here, there);
ROLLBACK;
SET search_path = rep, public;

-- an insert changes a row that a statement for many rows has updated and seen
CALL pg_temp.pair('later', 'id int PRIMARY KEY, v int', 'VALUES (1, 1), (2, 2)', 'VALUES (1, 10), (2, 2), (3, 3)');
CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE rep.later SET v = 0 WHERE id = 1; RETURN NULL; END';
CREATE TRIGGER later AFTER INSERT ON later FOR EACH ROW EXECUTE FUNCTION later();
SELECT outcome($$SELECT steps('later', 'apply => true')$$);
SELECT * FROM later ORDER BY id;

-- rows that come before the scan of an absent one
\c -
SET client_min_messages = warning;
SET search_path = rep, public;
CREATE TABLE came AS SELECT unnest('{1,2,4}'::int[]) AS id;
CREATE TABLE came_there AS SELECT unnest('{2,3,5}'::int[]) AS id;
ALTER TABLE came ADD PRIMARY KEY (id);
ALTER TABLE came_there ADD PRIMARY KEY (id);
BEGIN;
ALTER FUNCTION iblt_internal.hashes_of_keys(iblt_internal.plan, text[]) RENAME TO hashes_of_keys_it;
CREATE FUNCTION iblt_internal.hashes_of_keys(iblt_internal.plan, text[]) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO rep.came_there VALUES (1) ON CONFLICT DO NOTHING;
	INSERT INTO rep.came VALUES (3) ON CONFLICT DO NOTHING;
	RETURN iblt_internal.hashes_of_keys_it($1, $2);
END $$;
SELECT * FROM steps('came', 'apply => true');
SELECT array(SELECT id FROM came ORDER BY id) AS came;
ROLLBACK;

DROP SCHEMA rep CASCADE;
