-- The type kbf: its forms, its doors, its parameters, and look-ups.
\i test/sql/common.psql

-- the identity, which makes a stored value that no door has seen
CREATE FUNCTION pg_temp.unseen(bytea) RETURNS kbf LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';

-- text and bytea round trips of templates and of filters of every kind of key
CREATE TYPE pg_temp.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TEMP TABLE filter AS
SELECT * FROM (VALUES
	('template', kbf_new(50)),
	('labels', kbf_new(50, labels => ARRAY['new', 'open', 'done', repeat('x', 255)])),
	('enum', kbf_new(50, labels => enum_range(NULL::mood)::text[], seed => -1)),
	('integer', (SELECT kbf_agg(i, i, 50) FROM generate_series(1, 50) i)),
	('uuid', (SELECT kbf_agg(md5(i::text)::uuid, i, 50) FROM generate_series(1, 50) i)),
	('text', (SELECT kbf_agg('key ' || i, i, kbf_new(50, 100, 0.1, 2)) FROM generate_series(1, 50) i)),
	('long text', (SELECT kbf_agg(repeat('key ', 2000) || i, i, 50) FROM generate_series(1, 50) i)),
	('row', (SELECT kbf_agg(ROW(i, 'key ' || i), i % 3 + 1, kbf_new(50, 3, superposed => 1, failure => 0.1)) FROM generate_series(1, 50) i)),
	('overfull', (SELECT kbf_agg(i, 1 + i % 255, 1) FROM generate_series(1, 5000) i))) v(name, s);

SELECT name,
	   s::text::kbf = s AS text_form,
	   s::bytea::kbf = s AS bytea_form,
	   length(s::bytea) = (kbf_info(s)).bytes AS size_told,
	   regexp_replace(s::text, '(....)', E'\\1 \n\t', 'g')::kbf = s AND (s::text || E'\n')::kbf = s AS with_white_space,
	   s::text ~ '^[A-Za-z0-9+/]+=*$' AS one_token,
	   left(s::text, 5) AS begins
FROM filter;

SELECT name, version, superposed, distinct_values, left(labels::text, 30) AS labels, key_type, seed, keys, full_cells > 0 AS has_full,
	   capacity >= 50 AS has_capacity, load = keys::float8 * hashes / cells AS load, bits_per_key = 8.0 * bytes / nullif(keys, 0) AS bits,
	   2 ^ degree > distinct_values AS degree
FROM filter, kbf_info(s);
-- the rates rise with the load, and are those that the capacity stands for
SELECT keys, unknown <= 0.001 AS unknown, false_positive <= 0.00001 AS false_positive, absent_unknown < 0.001 AS absent_unknown
FROM (SELECT kbf_agg(i, 1 + i % 255, 1000) FROM generate_series(1, 1000) i) x(s), kbf_info(s)
UNION ALL SELECT keys, unknown <= 0.001, false_positive <= 0.00001, absent_unknown < 0.001
FROM (SELECT kbf_agg(i, 1 + i % 255, 1000) FROM generate_series(1, 4000) i) x(s), kbf_info(s);
-- in a small filter, most other keys that get a value share cells with one of its keys
SELECT false_positive BETWEEN 3e-7 AND 4e-7 AS shares_cells FROM (SELECT kbf_agg(i, 1 + i % 255, 10) FROM generate_series(1, 10) i) x(s), kbf_info(s);
-- the size that issue and doc/kbf/kbf.md promise, at 255 values and 1 in 1,000
SELECT bits_per_key <= 120 AS small FROM (SELECT kbf_agg(i, 1 + i % 255, 100000) FROM generate_series(1, 100000) i) x(s), kbf_info(s);

-- stored values: short headers, out of line, and never changed in place
CREATE TEMP TABLE stored (s kbf);
INSERT INTO stored SELECT s FROM filter;
SELECT attstorage FROM pg_attribute WHERE attrelid = 'stored'::regclass AND attname = 's';
SELECT count(kbf_insert(s, 1, 1)) FROM stored WHERE (kbf_info(s)).key_type = 'bigint';
SELECT count(*) FROM stored JOIN filter ON stored.s::bytea = filter.s::bytea;

-- every door refuses the same bytes with the same words; test/t/020_format.pl has
-- the full list of damages and the binary door
SELECT damage,
	   pg_temp.refusal(format('SELECT %L::bytea::kbf', bad)) AS as_bytea,
	   pg_temp.refusal(format('SELECT %L::bytea::kbf', bad)) =
	   pg_temp.refusal(format('SELECT %L::kbf', translate(encode(bad, 'base64'), E'\n', ''))) AS as_text_the_same,
	   pg_temp.refusal(format('SELECT %L::bytea::kbf', bad)) = ALL (ARRAY[
	   pg_temp.refusal(format('SELECT kbf_info(pg_temp.unseen(%L))', bad)),
	   pg_temp.refusal(format('SELECT kbf_insert(pg_temp.unseen(%L), 1, 1)', bad)),
	   pg_temp.refusal(format('SELECT kbf_new(50) + pg_temp.unseen(%L)', bad)),
	   pg_temp.refusal(format('SELECT kbf_sum(pg_temp.unseen(%L))', bad)),
	   pg_temp.refusal(format('SELECT kbf_agg(1, 1, pg_temp.unseen(%L))', bad)),
	   pg_temp.refusal(format('SELECT kbf_fold(pg_temp.unseen(%L), 1)', bad))]) AS as_stored_the_same,
	   pg_temp.refusal(format('SELECT kbf_get(pg_temp.unseen(%L), 1)', bad)) AS get
FROM (SELECT s::bytea AS b FROM filter WHERE name = 'integer') AS good,
	LATERAL (VALUES ('nothing', ''::bytea), ('noise', decode(repeat('5a', 1000), 'hex')), ('an iblt', iblt_new()::bytea), ('one byte less', substring(b FROM 1 FOR length(b) - 1)),
	('one byte more', b || '\x00'), ('magic', set_byte(b, 0, 0)), ('version', set_byte(b, 4, 2)), ('hashes', set_byte(b, 5, 9)), ('degree', set_byte(b, 6, 13)),
	('superposed', set_byte(b, 7, 4)), ('kind of key', set_byte(b, 8, 4)), ('reserved', set_byte(b, 9, 1)), ('no values', set_byte(set_byte(b, 10, 0), 11, 0)),
	('no cells', set_byte(set_byte(b, 12, 0), 13, 0)), ('labels', set_byte(b, 38, 255)), ('a cell', set_byte(b, 100, get_byte(b, 100) # 1)),
	('the checksum', set_byte(b, length(b) - 1, get_byte(b, length(b) - 1) # 1))) v(damage, bad);

SELECT pg_temp.refusal($$SELECT 'not base64!'::kbf$$);
SELECT pg_temp.refusal($$SELECT kbf_new(1)::bytea::iblt$$);

-- parameters out of range
SELECT pg_temp.refusal(format('SELECT kbf_new(%s)', arguments)) AS refusal, arguments
FROM unnest(ARRAY['0', '-1', '2147483647', 'NULL', '1, 0', '1, -1', '1, 4096', '1, 2147483647', '1, NULL::int', '1, failure => 0',
				  '1, failure => 1', '1, failure => ''NaN''', '1, failure => NULL', '1, superposed => 0', '1, superposed => 4',
				  '1, superposed => NULL', '1, seed => NULL', '1, labels => NULL', '1, labels => ''{}''', '1, labels => ''{a,a}''',
				  '1, labels => ''{a,NULL}''', '1, labels => ''{a,""}''', '1, labels => ''{{a,b},{c,d}}''', '1, labels => ARRAY[''a'', E''b\n'']',
				  '1, labels => ARRAY[repeat(''x'', 256)]', '1, labels => ''{a}'', failure => NULL', '0, labels => ''{a}''',
				  '1, labels => (SELECT array_agg(i::text) FROM generate_series(1, 4096) i)']) arguments;

-- parameters that are allowed
SELECT count(*), bool_and((kbf_info(kbf_new(capacity, v, failure, t))).capacity IS NOT NULL) AS told
FROM unnest(ARRAY[1, 1000, 1000000]) capacity, unnest(ARRAY[1, 255]) v, unnest(ARRAY[0.1, 0.0001]) failure, generate_series(1, 3) t;
SELECT distinct_values, array_length(labels, 1) AS labels, labels[300]
FROM kbf_info(kbf_new(1, labels => (SELECT array_agg('label ' || i ORDER BY i) FROM generate_series(1, 300) i)));
SELECT distinct_values, array_length(labels, 1) AS labels
FROM kbf_info(kbf_new(1, labels => (SELECT array_agg(i::text) FROM generate_series(1, 4095) i)));

--
-- Look-ups: of stored values by slices, of several filters, and of damaged values.
--
DROP TABLE filter, stored;
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
	   pg_temp.refusal(format('SELECT kbf_info(s) FROM kbf_stored WHERE name = %L', name)) LIKE '22P03 %' AS info_refuses
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
FROM (VALUES ('kbf_lookup(NULL::kbf[], 1)', '22004 kbf value must not be null%'), ('kbf_lookup(ARRAY[a, NULL], 1)', '22004 kbf value must not be null%'),
	('kbf_lookup(ARRAY[a, s], 1)', '22023 kbf values cannot be looked up together: %One has % 255 values,%The other has % 3 labels,%'),
	('kbf_lookup(ARRAY[kbf_new(100, 5), kbf_new(100, 6)], 1)', '22023 kbf values cannot be looked up together: %'),
	('kbf_lookup(ARRAY[s, kbf_new(100, labels => ARRAY[''x'', ''z'', ''y''])], 1)', '22023 kbf values cannot be looked up together: %'),
	('kbf_lookup(ARRAY[a, kbf_insert(t, ''a''::text, 1)], 1)', '42804 key type bigint does not match the filter''s key type text%'),
	('kbf_lookup(ARRAY[a], NULL::int)', '22004 key of a kbf must not be null%')) v(call, expected);
