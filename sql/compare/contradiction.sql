-- Live digests that contradict the rows -----------------------------------------------
--
-- A key that the digests find and the index does not is mostly of a row in flight.  So its
-- rows are looked up, both digests read again, and the rows looked up once more.  If the
-- rows of both sides have stood still meanwhile, and the digests say something else, then
-- either an index lacks a row, or a digest is wrong.

-- The keys whose rows stood still, although digests that were read meanwhile say something
-- else of them.
CREATE FUNCTION live_suspects(keys text[], here found_rows, there found_rows, here_again found_rows,
	there_again found_rows, decoded text[], sides text[]) RETURNS text[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN ARRAY(SELECT k.id FROM unnest(keys, here.checksum, here.mark, there.checksum,
			there.mark, here_again.checksum, here_again.mark, there_again.checksum,
			there_again.mark) WITH ORDINALITY AS k(id, h, hm, t, tm, h2, hm2, t2, tm2, position)
		LEFT JOIN unnest(decoded, sides) AS f(id, side) ON f.id = k.id
		WHERE ROW(h, hm, t, tm) IS NOT DISTINCT FROM ROW(h2, hm2, t2, tm2)
			AND f.side IS DISTINCT FROM CASE WHEN h IS NOT DISTINCT FROM t THEN NULL
				WHEN t IS NULL THEN 'here' WHEN h IS NULL THEN 'there' ELSE 'both' END
		ORDER BY k.position);
END
$$;

-- An error if the digests still say that these doubtful keys differ, although their rows do
-- not, or differ in another way.
-- With live => 'auto', the driver starts again and scans: nothing has been answered yet.
CREATE FUNCTION live_check(plan plan, keys text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	by_index plan := index_plan(plan);
	rows record;
	again record;
	e record;
	decoded record;
	figures figures;
BEGIN
	FOR round IN 1 .. 3 LOOP
		IF keys = '{}' THEN
			RETURN;
		END IF;
		PERFORM progress(plan.progress, format(
			'digests are read again, because rows of %s keys are not as they say',
			cardinality(keys)));
		rows := find_both(by_index, keys);
		e := exchange(plan, NULL, figures);
		again := find_both(by_index, keys);
		decoded := iblt_compare_keys(e.sample, e.keys, 0, e.number::integer);
		keys := live_suspects(keys, rows.here, rows.there, again.here, again.there,
			decoded.keys, decoded.sides);
	END LOOP;
	IF keys <> '{}' THEN
		PERFORM live_refuse('IB008', 'they contradict the rows that an index finds',
			'Compare with live => ''off'', which tells damaged indexes, and CALL '
			'iblt_live_rebuild on both sides.');
	END IF;
END
$$;

-- An error if an index hid one of the doubtful keys, or digests are wrong about one.
CREATE FUNCTION check_looked(plan plan, doubtful text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF plan.from_digests IS TRUE THEN
		PERFORM live_check(plan, doubtful);
	ELSE
		PERFORM check_index(plan, doubtful);
	END IF;
END
$$;
