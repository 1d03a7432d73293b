-- Damaged sketches.  The cells of a bigint key have 28 bytes and begin at byte 552.
\i test/sql/common.psql
SET client_min_messages = warning;
-- other bytes in a cell of a subtable, which are counted from 1
CREATE FUNCTION pg_temp.damage(s iblt, subtable integer, number integer DEFAULT 0) RETURNS bytea LANGUAGE sql AS $$
	SELECT overlay(s::bytea PLACING decode(repeat('5a', 28), 'hex') FROM 553 + 28 * ((subtable - 1) * cells / hashes + number)) FROM iblt_info(s)
$$;
CREATE TEMP TABLE sketch AS
SELECT iblt_agg(i, i * 7) FILTER (WHERE i <= 40) AS s, iblt_agg(i, i * 7, 100) AS many,
	   iblt_agg(i, i * 7 + (i = 500)::int, 100) FILTER (WHERE i > 3) AS other, iblt_agg(i::text, i) FILTER (WHERE i <= 40) AS texts,
	   iblt_agg(i::text, i) FILTER (WHERE false) AS no_texts, iblt_agg(i, 'v' || i, iblt_new(value_size => 16)) FILTER (WHERE i <= 40) AS with_values
FROM generate_series(1, 1000) i;

-- without damage, and with a damaged subtable, which is found: the same value, to the byte
SELECT complete, recovered, lost, r.s::bytea = sketch.s::bytea AS same FROM sketch, iblt_salvage(s::bytea) r;
SELECT pg_temp.outcome(format('SELECT %L::bytea::iblt', pg_temp.damage(s, 2)::text)) AS cast FROM sketch;
SELECT n, complete, recovered, lost, r.s::bytea = sketch.s::bytea AS same FROM sketch, generate_series(1, 4) n, iblt_salvage(pg_temp.damage(sketch.s, n)) r;
SELECT complete, recovered, lost, r.s::bytea = with_values::bytea AS same FROM sketch, iblt_salvage(set_byte(with_values::bytea, 2000, 1)) r;
-- two of them, and two that are named: leaving out what is right does no harm
SELECT complete, recovered, lost, r.s::bytea = sketch.s::bytea AS same
FROM sketch, iblt_salvage(overlay(pg_temp.damage(sketch.s, 1) PLACING '\x0102' FROM 552 + 28 * 84 * 3 + 100)) r;
SELECT complete, recovered, lost, r.s::bytea = sketch.s::bytea AS same FROM sketch, iblt_salvage(pg_temp.damage(sketch.s, 3), without => '{3,4}') r;
SELECT complete, recovered, lost, r.s IS NULL AS none FROM sketch, iblt_salvage(pg_temp.damage(many, 3), without => '{4}') r;
-- the keys, as iblt_decode has them
SELECT count(*), count(*) FILTER (WHERE d.* = k.*) AS same FROM sketch, LATERAL iblt_decode(s) d FULL JOIN LATERAL iblt_salvage_keys(pg_temp.damage((SELECT s FROM sketch), 2)) k USING (key);
SELECT k.* FROM sketch, iblt_salvage_keys(set_byte(with_values::bytea, 2000, 1)) k ORDER BY length(key), key LIMIT 2;

-- far more rows than can be listed: with another sketch of nearly the same rows only the difference is listed
SELECT complete, recovered, lost, r.s IS NULL AS none FROM sketch, iblt_salvage(pg_temp.damage(many, 3)) r;
SELECT complete, recovered, lost, r.s::bytea = many::bytea AS same FROM sketch, iblt_salvage(pg_temp.damage(many, 3), other => other) r;
SELECT k.* FROM sketch, iblt_salvage_keys(pg_temp.damage(many, 3), other => other) k ORDER BY key::int;
SELECT complete, recovered, lost, r.s::bytea = many::bytea AS same FROM sketch, iblt_salvage(pg_temp.damage(many, 3), other => many) r;
SELECT pg_temp.outcome('SELECT iblt_salvage_keys(pg_temp.damage(many, 3)) FROM sketch');

-- damage of the header, of the checksum and of every subtable, and pages that changed places
SELECT what, pg_temp.outcome(format('SELECT (complete, recovered, lost) FROM iblt_salvage(%L)', b::text)) AS salvage,
	   pg_temp.outcome(format('SELECT count(*) FROM iblt_salvage_keys(%L)', b::text)) AS keys
FROM sketch, LATERAL (VALUES ('magic', set_byte(s::bytea, 0, 0)), ('hashes', set_byte(s::bytea, 5, 5)), ('seed', set_byte(s::bytea, 16, 1)), ('rows', set_byte(s::bytea, 24, 39)),
	('meter', set_byte(s::bytea, 100, 77)), ('checksum', set_byte(s::bytea, length(s::bytea) - 1, get_byte(s::bytea, length(s::bytea) - 1) # 1)), ('short', substr(s::bytea, 1, 9000)),
	('places', overlay(overlay(s::bytea PLACING substr(s::bytea, 553, 28 * 42) FROM 553 + 28 * 42) PLACING substr(s::bytea, 553 + 28 * 42, 28 * 42) FROM 553)),
	('every subtable', overlay(overlay(overlay(pg_temp.damage(s, 1) PLACING '\x010203' FROM 3030) PLACING '\x010203' FROM 5300) PLACING '\x010203' FROM 8030)), ('template', iblt_new()::bytea)) d(what, b);
-- nothing proves the type of keys then, unless an undamaged sketch has the same
SELECT pg_temp.outcome(format('SELECT count(*) FROM iblt_salvage_keys(%L)', b::text)) AS alone, pg_temp.outcome(format('SELECT count(*) FROM iblt_salvage_keys(%L, other => %L)', b::text, no_texts)) AS with_other
FROM sketch, set_byte(texts::bytea, 100, 77) b;
SELECT pg_temp.outcome(format('SELECT (complete, recovered, lost) FROM iblt_salvage(%L, other => %L)', set_byte(texts::bytea, 552, 120)::text, no_texts)) FROM sketch;

-- arguments that are refused
SELECT call, pg_temp.outcome('SELECT ' || call || ' FROM sketch') AS outcome
FROM unnest(ARRAY['iblt_salvage(NULL)', 'iblt_salvage_keys(NULL)', 'iblt_salvage(s::bytea, ''{0}'')', 'iblt_salvage(s::bytea, ''{5}'')', 'iblt_salvage(s::bytea, ''{NULL}'')',
	'iblt_salvage(s::bytea, ''{1,2,3,4}'')', 'iblt_salvage(iblt_drop_subtable(s, 2)::bytea, ''{2}'')', 'iblt_salvage(s::bytea, other => iblt_new(seed => 1))', 'iblt_salvage(s::bytea, other => texts)']) call;
SELECT complete, recovered, lost FROM sketch, iblt_salvage(iblt_drop_subtable(s, 2)::bytea, '{1}') r;
