-- The type kbf: its forms, its doors, its parameters.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS iblt_audit CASCADE; CREATE EXTENSION IF NOT EXISTS iblt_live;
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
WITH good AS (SELECT s::bytea AS b FROM filter WHERE name = 'integer'),
bad AS (
	SELECT 'nothing' AS damage, ''::bytea AS b
	UNION ALL SELECT 'noise', decode(repeat('5a', 1000), 'hex')
	UNION ALL SELECT 'an iblt', iblt_new()::bytea
	UNION ALL SELECT 'one byte less', substring(b FROM 1 FOR length(b) - 1) FROM good
	UNION ALL SELECT 'one byte more', b || '\x00' FROM good
	UNION ALL SELECT 'magic', set_byte(b, 0, 0) FROM good
	UNION ALL SELECT 'version', set_byte(b, 4, 2) FROM good
	UNION ALL SELECT 'hashes', set_byte(b, 5, 9) FROM good
	UNION ALL SELECT 'degree', set_byte(b, 6, 13) FROM good
	UNION ALL SELECT 'superposed', set_byte(b, 7, 4) FROM good
	UNION ALL SELECT 'kind of key', set_byte(b, 8, 4) FROM good
	UNION ALL SELECT 'reserved', set_byte(b, 9, 1) FROM good
	UNION ALL SELECT 'no values', set_byte(set_byte(b, 10, 0), 11, 0) FROM good
	UNION ALL SELECT 'no cells', set_byte(set_byte(b, 12, 0), 13, 0) FROM good
	UNION ALL SELECT 'labels', set_byte(b, 38, 255) FROM good
	UNION ALL SELECT 'a cell', set_byte(b, 100, get_byte(b, 100) # 1) FROM good
	UNION ALL SELECT 'the checksum', set_byte(b, length(b) - 1, get_byte(b, length(b) - 1) # 1) FROM good)
SELECT damage,
	   pg_temp.refusal(format('SELECT %L::bytea::kbf', b)) AS as_bytea,
	   pg_temp.refusal(format('SELECT %L::bytea::kbf', b)) =
	   pg_temp.refusal(format('SELECT %L::kbf', translate(encode(b, 'base64'), E'\n', ''))) AS as_text_the_same,
	   pg_temp.refusal(format('SELECT %L::bytea::kbf', b)) = ALL (ARRAY[
	   pg_temp.refusal(format('SELECT kbf_info(pg_temp.unseen(%L))', b)),
	   pg_temp.refusal(format('SELECT kbf_insert(pg_temp.unseen(%L), 1, 1)', b)),
	   pg_temp.refusal(format('SELECT kbf_new(50) + pg_temp.unseen(%L)', b)),
	   pg_temp.refusal(format('SELECT kbf_sum(pg_temp.unseen(%L))', b)),
	   pg_temp.refusal(format('SELECT kbf_agg(1, 1, pg_temp.unseen(%L))', b)),
	   pg_temp.refusal(format('SELECT kbf_fold(pg_temp.unseen(%L), 1)', b))]) AS as_stored_the_same,
	   pg_temp.refusal(format('SELECT kbf_get(pg_temp.unseen(%L), 1)', b)) AS get
FROM bad;

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
