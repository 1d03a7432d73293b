-- Checksums of large values: each byte counts, on either side of the 1 MiB at which
-- the buffer of a call is given back, and the rows behind a large one are not touched.
\i test/sql/common.psql
CREATE TEMP TABLE large AS SELECT n, repeat('x', n) AS a, repeat('x', n - 1) || 'y' AS b
FROM unnest(ARRAY[1000, 1048575, 1048576, 1048577, 1500000, 3145728]) AS n;

-- the last byte, the first one and one in the middle, of text, bytea, json, an array, a row; the seed, too
SELECT n, iblt_checksum(a) <> iblt_checksum(b) AS last, iblt_checksum(a) <> iblt_checksum(overlay(a PLACING 'y' FROM 1)) AS first,
	iblt_checksum(a) <> iblt_checksum(overlay(a PLACING 'y' FROM n / 2)) AS middle, iblt_checksum(a) <> iblt_checksum(a || 'x') AS longer,
	iblt_checksum(a::bytea) <> iblt_checksum(b::bytea) AS bytea, iblt_checksum(to_jsonb(a)) <> iblt_checksum(to_jsonb(b)) AS jsonb,
	iblt_checksum(ARRAY[a, 'z']) <> iblt_checksum(ARRAY[b, 'z']) AS array, iblt_checksum(ROW(a, 1)) <> iblt_checksum(ROW(b, 1)) AS row,
	iblt_checksum(1, a) <> iblt_checksum(1, b) AS columns, iblt_checksum(VARIADIC ARRAY['z', a]) <> iblt_checksum(VARIADIC ARRAY['z', b]) AS variadic,
	iblt_checksum_seeded(7, a) <> iblt_checksum_seeded(7, b) AS seeded, iblt_checksum_seeded(7, a) <> iblt_checksum_seeded(8, a) AS seeds
FROM large ORDER BY n;
-- a small column behind a large one
SELECT n, iblt_checksum(a, 'p'::text) <> iblt_checksum(a, 'q'::text) AS behind FROM large ORDER BY n;
-- one call for rows of all sizes in turn gives what a call for each row gives
CREATE FUNCTION pg_temp.alone(v text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE c bigint; BEGIN EXECUTE 'SELECT iblt_checksum($1)' INTO c USING v; RETURN c; END $$;
SELECT count(*), bool_and(together = alone) AS same FROM (
	SELECT iblt_checksum(v) AS together, pg_temp.alone(v)
	FROM (SELECT a AS v, n, 1 AS k FROM large UNION ALL SELECT b, n, 2 FROM large UNION ALL SELECT 'small ' || n, n, 3 FROM large ORDER BY n, k) AS q) AS r;
-- compressed and out of line, or not
CREATE TEMP TABLE stored (v text);
ALTER TABLE stored ALTER v SET STORAGE EXTERNAL;
INSERT INTO stored SELECT a FROM large UNION ALL SELECT b FROM large;
SELECT count(*), count(DISTINCT iblt_checksum(v)), bool_and(iblt_checksum(v) = iblt_checksum(v || '')) AS same FROM stored;
-- and in a comparison
CREATE TABLE large_here (id int PRIMARY KEY, v text);
INSERT INTO large_here SELECT n, a FROM large;
CREATE TABLE large_there AS SELECT * FROM large_here;
ALTER TABLE large_there ADD PRIMARY KEY (id);
UPDATE large_there SET v = left(v, -1) || 'y' WHERE id IN (1048577, 3145728);
SELECT key, side FROM iblt_compare('large_here', peer_relation => 'large_there') ORDER BY key;
DROP TABLE large_here, large_there;
