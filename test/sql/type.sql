-- The type iblt: its forms, its doors, its parameters.
\i test/sql/common.psql

-- text and bytea round trips of templates and of sketches of every kind of key
CREATE TEMP TABLE sketch AS
SELECT * FROM (VALUES
	('template', iblt_new()),
	('integer', (SELECT iblt_agg(i, i) FROM generate_series(1, 50) i)),
	('uuid', (SELECT iblt_agg(md5(i::text)::uuid, i) FROM generate_series(1, 50) i)),
	('text', (SELECT iblt_agg('key ' || i, i) FROM generate_series(1, 50) i)),
	('row', (SELECT iblt_agg(ROW(i, 'key ' || i), i) FROM generate_series(1, 50) i)),
	('values', iblt_insert(iblt_new(with_values => true), 7, 42)),
	('difference', iblt_delete(iblt_new(seed => -1), 7, 42))) v(name, s);

SELECT name,
	   s::text::iblt = s AS text_form,
	   s::bytea::iblt = s AS bytea_form,
	   length(s::bytea) = (iblt_info(s)).bytes AS size_told,
	   regexp_replace(s::text, '(....)', E'\\1 \n\t', 'g')::iblt = s AND (s::text || E'\n')::iblt = s AS with_white_space,
	   s::text ~ '^[A-Za-z0-9+/]+=*$' AS one_token,
	   left(s::text, 5) AS begins
FROM sketch;

SELECT name, i.*
FROM sketch, iblt_info(s) i;

-- stored values: short headers, out of line, and never changed in place
CREATE TEMP TABLE stored (s iblt);
INSERT INTO stored SELECT s FROM sketch;
SELECT attstorage FROM pg_attribute WHERE attrelid = 'stored'::regclass AND attname = 's';
SELECT count(*) FROM stored JOIN sketch ON stored.s::bytea = sketch.s::bytea;
SELECT count(iblt_insert(s - s, 1, 1)) FROM stored WHERE (iblt_info(s)).key_type = 'bigint';
SELECT count(*) FROM stored JOIN sketch ON stored.s::bytea = sketch.s::bytea;

-- every door refuses the same bytes with the same words; test/t/020_format.pl has
-- the full list of damages and the binary door

SELECT damage,
	   pg_temp.refusal(format('SELECT %L::bytea::iblt', bad)) AS as_bytea,
	   pg_temp.refusal(format('SELECT %L::bytea::iblt', bad)) =
	   pg_temp.refusal(format('SELECT %L::iblt', translate(encode(bad, 'base64'), E'\n', ''))) AS as_text_the_same
FROM (SELECT s::bytea AS b FROM sketch WHERE name = 'integer') AS good,
	LATERAL (VALUES ('nothing', ''::bytea), ('noise', decode(repeat('5a', 1000), 'hex')), ('one byte less', substring(b FROM 1 FOR length(b) - 1)), ('one byte more', b || '\x00'),
	('magic', set_byte(b, 0, 0)), ('version', set_byte(b, 4, 2)), ('hashes', set_byte(b, 5, 9)), ('two hashes', set_byte(set_byte(b, 5, 2), 6, 3)), ('no subtables', set_byte(b, 6, 0)), ('five subtables', set_byte(b, 6, 31)), ('a cell', set_byte(b, 1000, get_byte(b, 1000) # 1)),
	('the checksum', set_byte(b, length(b) - 1, get_byte(b, length(b) - 1) # 1))) v(damage, bad);

SELECT pg_temp.refusal($$SELECT 'not base64!'::iblt$$);
SELECT pg_temp.refusal($$SELECT ''::iblt$$);

-- as many subtables as there can be
SELECT hashes, subtables FROM iblt_info(iblt_new(10, hashes => 8));

-- parameters out of range
SELECT pg_temp.refusal(format('SELECT iblt_new(%s)', arguments)) AS refusal, arguments
FROM unnest(ARRAY['0', '-1', '2147483647', 'hashes => 2', 'hashes => 9', 'key_size => 0',
				  'key_size => 4097', 'NULL', 'seed => NULL', 'with_values => NULL']) arguments;

-- parameters that are allowed
SELECT (iblt_info(iblt_new(capacity, hashes => hashes))).capacity >= capacity AS enough, count(*)
FROM generate_series(3, 8) hashes, unnest(ARRAY[1, 2, 3, 10, 100, 1000, 12345, 1000000]) capacity
GROUP BY 1;
SELECT key_size, (iblt_info(iblt_new(key_size => key_size))).key_size AS rounded
FROM unnest(ARRAY[1, 8, 9, 32, 4096]) key_size;

-- too large for a value: refused before memory is taken
SELECT pg_temp.refusal($$SELECT iblt_agg('a'::text, 1, iblt_new(5000000, key_size => 4096))$$);
