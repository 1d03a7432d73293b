-- Columns that bear the name of their relation: SQL reads iblt_checksum(t) as
-- such a column where there is one, and different tables would read as equal.
\i test/sql/common.psql
SET client_min_messages = warning;
CREATE SCHEMA ambiguous;
SET search_path = ambiguous, public;

CREATE TABLE status (id int PRIMARY KEY, status text, note text);
INSERT INTO status VALUES (1, 'open', 'a'), (2, 'closed', 'b');
CREATE TABLE other AS SELECT id, status, note || '!' AS note FROM status;
CREATE VIEW status_view AS SELECT id, status AS v, note FROM status;
CREATE TABLE single (single int);
INSERT INTO single VALUES (1);
CREATE TABLE left_over (left_over int, id int);
INSERT INTO left_over VALUES (1);
ALTER TABLE left_over DROP id;
CREATE TYPE pair AS (x int, y int);
CREATE TABLE of_rows (id int, of_rows pair);

SELECT * FROM pg_temp.refusals('%s', 'iblt_checksum(status) FROM status', 'iblt_checksum_seeded(1, t) FROM status_view AS t(id, t, note)',
	'iblt_agg(status, 0) FROM status');

SELECT pg_temp.refusal(CASE WHEN q ~ '^(WITH|INSERT)' THEN q ELSE 'SELECT ' || q END), q FROM regexp_split_to_table($$iblt_checksum(status) FROM status; iblt_checksum(s.status) FROM status AS s; iblt_checksum(status.status) FROM status
iblt_checksum(t) FROM status AS t(id, t); iblt_checksum(t) FROM status AS t(id, x, t); iblt_checksum_seeded(7, status) FROM status
iblt_checksum(of_rows) FROM of_rows; iblt_checksum(v) FROM status_view v; iblt_checksum(v.*) FROM status_view v
iblt_checksum(v.*) FROM other LEFT JOIN status_view v USING (id); iblt_checksum(v) FROM other LEFT JOIN status_view v USING (id)
iblt_checksum(v) FROM (SELECT * FROM status_view OFFSET 0) v; iblt_checksum(v) FROM (SELECT id, upper(v) AS v FROM status_view) v
WITH v AS (SELECT * FROM status_view) SELECT iblt_checksum(v) FROM v
WITH v AS MATERIALIZED (SELECT * FROM status_view) SELECT iblt_checksum(v) FROM v; iblt_checksum(j) FROM (status JOIN other USING (id)) AS j(id, j)
iblt_checksum(j) FROM (other AS a JOIN other AS b USING (id)) AS j(id, j); iblt_checksum(s) FROM (VALUES (1, 'a'), (2, 'b')) s(r, s)
iblt_checksum(g) FROM generate_series(1, 3) WITH ORDINALITY g(g, n); iblt_checksum(g) FROM generate_series(1, 3) g; iblt_checksum(single) FROM single
iblt_checksum(left_over) FROM left_over; iblt_checksum(note) FROM other, (SELECT 1 AS q, 2 AS r OFFSET 0) AS q
INSERT INTO status SELECT id, iblt_checksum(note)::text FROM other WHERE id < 0 RETURNING id; iblt_checksum(note) FROM status
iblt_agg(note, 0) FROM status; (SELECT iblt_checksum(status)) FROM status; (SELECT iblt_checksum(status) FROM single) FROM status
1 FROM status WHERE iblt_checksum(status) <> 0; iblt_checksum(status.*) FROM status; iblt_checksum(ROW(status)) FROM status
iblt_checksum(id, status) FROM status; iblt_checksum(status) FROM other; iblt_agg(id, iblt_checksum(status)) FROM status
iblt_agg(id, iblt_checksum(status.*)) FROM status; iblt_agg(status, 0) FROM status; iblt_agg(status.*, 0) FROM status
iblt_agg(status, iblt_checksum(status.*)) FROM status; iblt_agg(v, 0) FROM status_view v; iblt_agg(v.*, 0) FROM status_view v
iblt_strata_agg(status, 0) FROM status; iblt_strata_agg(status.*, 0) FROM status$$, E'; |\n') WITH ORDINALITY AS u(q, n) ORDER BY n;

-- The tables differ, and t.* says so.
SELECT (SELECT iblt_agg(id, iblt_checksum(status.*)) FROM status)
	= (SELECT iblt_agg(id, iblt_checksum(status.*)) FROM other AS status) AS equal;

-- A parameter is not a column.
SET plan_cache_mode = force_generic_plan;
PREPARE parameter(int) AS SELECT iblt_checksum($1) = (SELECT iblt_checksum(7)) AS same FROM (SELECT id + 1 AS s, status AS b FROM status) AS s;
EXECUTE parameter(7);
RESET plan_cache_mode;

-- Comparisons name every column, whatever it is called.
CREATE TABLE t (t text PRIMARY KEY, id int);
CREATE TABLE u (t text PRIMARY KEY, id int);
INSERT INTO t VALUES ('a', 1), ('b', 2);
INSERT INTO u VALUES ('a', 1), ('b', 3);
SELECT key, side FROM iblt_compare('t', NULL, 'u');
CREATE VIEW t_view AS SELECT * FROM t;
SELECT key, side FROM iblt_compare('t_view', NULL, 'u', columns => '{t}');
SELECT key, side FROM iblt_compare('t_view', NULL, 'u');

DROP SCHEMA ambiguous CASCADE;
