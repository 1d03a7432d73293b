-- Look-ups: of stored values by slices, of several filters, and of damaged values.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS kbf;
RESET client_min_messages;

CREATE FUNCTION pg_temp.refusal(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE detail text;
BEGIN
	EXECUTE command;
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws('; ', SQLSTATE, SQLERRM, nullif(detail, ''));
END $$;
-- the identity, which makes a stored value that no door has seen
CREATE FUNCTION pg_temp.unseen(bytea) RETURNS kbf LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';

-- Stored in every way: out of line, compressed in both ways, in line, and from memory.  With
-- labels the header is longer than the first slice.  lz4, which later releases use, compresses more of them.
SET default_toast_compression = pglz;
CREATE TEMP TABLE filter AS
SELECT name, kbf_agg(i, 1 + i % 255, t) AS s
FROM (VALUES ('small', kbf_new(30)), ('large', kbf_new(4000)),
			 ('labels', kbf_new(4000, labels => (SELECT array_agg(repeat('label ', 5) || i ORDER BY i) FROM generate_series(1, 300) i)))) v(name, t),
	 generate_series(1, 4000) i
WHERE i <= 30 OR name <> 'small' GROUP BY name;
CREATE TABLE kbf_stored (name text, storage text, s kbf);
INSERT INTO kbf_stored SELECT name, 'external', s FROM filter;
ALTER TABLE kbf_stored ALTER s SET STORAGE extended;
INSERT INTO kbf_stored SELECT name, 'extended', s::bytea::kbf FROM filter;
-- nearly empty, so that it is compressed
INSERT INTO kbf_stored SELECT 'empty', 'extended', kbf_agg(i, 1 + i % 255, 40000) FROM generate_series(1, 30) i;
ALTER TABLE kbf_stored ALTER s SET STORAGE main;
INSERT INTO kbf_stored SELECT 'empty', 'main', kbf_agg(i, 1 + i % 255, 1000) FROM generate_series(1, 30) i;
SELECT name, storage, pg_column_size(s) < length(s::bytea) AS compressed, pg_column_size(s) > 2100 AS out_of_line FROM kbf_stored ORDER BY name, storage;
SELECT name, storage, count(*) FILTER (WHERE kbf_lookup(s, i) = kbf_lookup(s::bytea::kbf, i)) AS same,
	   count(*) FILTER (WHERE kbf_get(s, i, -1) = 1 + i % 255) > 25 AS right_, count(*) FILTER (WHERE kbf_get(s, -i, -1) IS NULL) > 25 AS absent
FROM kbf_stored, generate_series(1, 30) i GROUP BY name, storage ORDER BY name, storage;
SELECT storage, kbf_get_label(s, 299) FROM kbf_stored WHERE name = 'labels' ORDER BY storage;

-- a damaged value: refused for its header and its size, else the key's cells decide
INSERT INTO kbf_stored
SELECT damage, 'damaged', pg_temp.unseen(b)
FROM (SELECT s::bytea AS g FROM filter WHERE name = 'large') x, LATERAL (VALUES
	('one byte less', substring(g FROM 1 FOR length(g) - 1)), ('half', substring(g FROM 1 FOR length(g) / 2)), ('three bytes', substring(g FROM 1 FOR 3)),
	('magic', set_byte(g, 0, 0)), ('version', set_byte(g, 4, 9)), ('hashes', set_byte(g, 5, 7)), ('long labels', set_byte(g, 38, 16)),
	('longer description', set_byte(g, 33, 32)), ('checksum', set_byte(g, length(g) - 1, get_byte(g, length(g) - 1) # 1))) v(damage, b);
ALTER TABLE kbf_stored ALTER s SET STORAGE external;
UPDATE kbf_stored SET s = pg_temp.unseen(kbf_internal.b) FROM (SELECT ctid AS c, s::bytea AS b FROM kbf_stored) kbf_internal
WHERE kbf_internal.c = kbf_stored.ctid AND storage = 'damaged';
SELECT name, pg_temp.refusal(format('SELECT kbf_get(s, 1) FROM kbf_stored WHERE name = %L', name)) AS get,
	   pg_temp.refusal(format('SELECT kbf_info(s) FROM kbf_stored WHERE name = %L', name)) LIKE '22P03;%' AS info_refuses
FROM kbf_stored WHERE storage = 'damaged' ORDER BY name;
-- a cell that no value makes up: the fifth byte has content of the first cell with a pair
SELECT pg_temp.refusal(format('SELECT kbf_get(pg_temp.unseen(%L), 7)', set_byte(b, at + 1, get_byte(b, at + 1) # 255))) AS refusal
FROM (SELECT kbf_insert(kbf_new(10), 7, 1)::bytea) x(b), LATERAL (SELECT min(i) FROM generate_series(40, length(b) - 9) i WHERE get_byte(b, i) <> 0) y(at);
DROP TABLE kbf_stored;

-- what is not known: an error, a default, or a status
CREATE TEMP TABLE f AS
SELECT kbf_insert(kbf_insert(kbf_insert(kbf_new(100, labels => ARRAY['x', 'y', 'z']), 1, 'x'), 2, 'y'), 2, 'z') AS s, kbf_new(100) AS t;
SELECT k, kbf_get(s, k, -1) AS value, kbf_get(s, k, NULL) AS null_if_unknown, kbf_get_label(s, k, '?') AS label, l.*
FROM f, generate_series(1, 3) k, kbf_lookup(s, k) l;
SELECT kbf_get(t, 1), kbf_get(t, 'a'::text), (kbf_lookup(t, 1)).status FROM f;
SELECT pg_temp.refusal(format('SELECT %s FROM f', call)) AS refusal, call
FROM unnest(ARRAY['kbf_get(s, 2)', 'kbf_get_label(s, 2)', 'kbf_get(NULL, 1)', 'kbf_get(s, NULL::int)', 'kbf_get(s, ''a''::text)', 'kbf_get_label(t, 1)',
	'kbf_get_label(kbf_insert(t, 1, 1), 1)', 'kbf_lookup(NULL::kbf, 1)', 'kbf_lookup(s, NULL::int)', 'kbf_get(s, ''a'')']) call;

-- several filters: present only if all agree, absent only if all say so
CREATE TEMP TABLE g AS
SELECT kbf_agg(k, v, 50) FILTER (WHERE n = 1) AS a, kbf_agg(k, v, kbf_new(500, seed => 9)) FILTER (WHERE n = 2) AS b,
	   kbf_agg(k, v, kbf_new(50, failure => 0.01)) FILTER (WHERE n = 3) AS c
FROM (VALUES (1, 1, 11), (2, 2, 12), (3, 3, 13),				-- in one filter each
			 (1, 4, 14), (3, 4, 14),							-- in two, the same value
			 (1, 5, 15), (2, 5, 16),							-- in two, other values
			 (2, 6, 17), (2, 6, 18),							-- twice in one
			 (1, 7, 19), (2, 7, 19), (2, 7, 20), (3, 7, 19)) v(n, k, v);	-- in one that does not know, too
SELECT k, l.* FROM g, generate_series(1, 8) k, kbf_lookup(ARRAY[a, b, c], k) l;
SELECT k, bool_and(kbf_lookup(ARRAY[a, b, c], k) = kbf_lookup(ARRAY[c, a, b], k)) AS same_in_other_order
FROM g, generate_series(4, 8) k GROUP BY k ORDER BY k;
SELECT l.* FROM kbf_lookup('{}'::kbf[], 1) l;
SELECT l.* FROM f, kbf_lookup(ARRAY[s], 1) l;
SELECT pg_temp.refusal(format('SELECT %s FROM f, g', call)) LIKE expected AS refused, call
FROM (VALUES ('kbf_lookup(NULL::kbf[], 1)', '22004; kbf value must not be null%'), ('kbf_lookup(ARRAY[a, NULL], 1)', '22004; kbf value must not be null%'),
	('kbf_lookup(ARRAY[a, s], 1)', '22023; kbf values cannot be looked up together: %One has % 255 values,%The other has % 3 labels,%'),
	('kbf_lookup(ARRAY[kbf_new(100, 5), kbf_new(100, 6)], 1)', '22023; kbf values cannot be looked up together: %'),
	('kbf_lookup(ARRAY[s, kbf_new(100, labels => ARRAY[''x'', ''z'', ''y''])], 1)', '22023; kbf values cannot be looked up together: %'),
	('kbf_lookup(ARRAY[a, kbf_insert(t, ''a''::text, 1)], 1)', '42804; key type bigint does not match the filter''s key type text%'),
	('kbf_lookup(ARRAY[a], NULL::int)', '22004; key of a kbf must not be null%')) v(call, expected);
