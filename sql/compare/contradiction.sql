-- Live digests that contradict the rows -----------------------------------------------
--
-- A key that the digests find and the index does not is mostly of a row in flight.  So its
-- rows are looked up, both digests read again, and the rows looked up once more.  If the
-- rows of both sides have stood still meanwhile, and the digests say something else, then
-- either an index lacks a row, or a digest is wrong.

-- An error if an index hid one of the doubtful keys, or if digests still say that some differ,
-- although their rows do not, or differ in another way.
-- With live => 'auto', the driver starts again and scans: nothing has been answered yet.
CREATE FUNCTION check_looked(plan plan, keys text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	by_index plan := index_plan(plan);
	rows found_rows[];
	again found_rows[];
	e record;
	said key_sides;
	still text[];
	figures figures;
BEGIN
	IF plan.from_digests IS NOT TRUE THEN
		PERFORM check_index(plan, keys);
		RETURN;
	END IF;
	plan.found := NULL;
	FOR round IN 1 .. 3 LOOP
		IF keys = '{}' THEN
			RETURN;
		END IF;
		PERFORM progress(plan.progress, format(
			'digests are read again, because rows of %s keys are not as they say',
			cardinality(keys)));
		rows := find_sides(by_index, keys);
		e := exchange(plan, NULL, figures);
		again := find_sides(by_index, keys);
		still := '{}';
		-- those whose rows stood still, although the digests say something else of them, or nothing
		-- of any key, because too many differ
		FOR n IN 1 .. cardinality(rows) LOOP
			CONTINUE WHEN n = e.base;
			said := e.said[n];
			IF e.said IS NULL THEN
				said := iblt_compare_keys(e.sample, e.keys, 0, e.number::integer);
			END IF;
			still := still || ARRAY(SELECT k.id FROM unnest(keys,
					(rows[e.base]).checksum, (rows[e.base]).mark, (rows[n]).checksum,
					(rows[n]).mark, (again[e.base]).checksum, (again[e.base]).mark,
					(again[n]).checksum, (again[n]).mark)
					AS k(id, h, hm, t, tm, h2, hm2, t2, tm2)
				LEFT JOIN unnest(said.keys, said.sides) AS f(id, side) ON f.id = k.id
				WHERE ROW(h, hm, t, tm) IS NOT DISTINCT FROM ROW(h2, hm2, t2, tm2)
					AND (e.keys IS NULL
						OR f.side IS DISTINCT FROM CASE WHEN h IS NOT DISTINCT FROM t THEN NULL
						WHEN t IS NULL THEN 'here' WHEN h IS NULL THEN 'there' ELSE 'both' END));
		END LOOP;
		keys := ARRAY(SELECT DISTINCT unnest(still));
	END LOOP;
	IF keys <> '{}' THEN
		PERFORM live_refuse('IB008', 'they contradict the rows that an index finds',
			'Compare with live => ''off'', which tells damaged indexes, and CALL '
			'iblt_live_rebuild on both sides.');
	END IF;
END
$$;
