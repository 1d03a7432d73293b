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
	e found_keys;
	said key_sides[];
	named key_sides;
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
		said := e.said;
		IF said IS NULL THEN
			named := iblt_compare_keys(e.sample, e.keys, 0, e.number::integer);
			said := ARRAY[NULL, named];
		END IF;
		named := ROW(keys, NULL, NULL)::key_sides;
		IF e.keys IS NULL THEN
			said := NULL;	-- too many differ, so they say nothing of any key
			named.sides := array_fill(text 'unknown', ARRAY[cardinality(keys)]);
		END IF;
		keys := ARRAY(SELECT DISTINCT unnest(doubtful(plan, e.base, said, named, rows,
			find_sides(by_index, keys))));
	END LOOP;
	IF keys <> '{}' THEN
		PERFORM live_refuse('IB008', 'they contradict the rows that an index finds',
			'Compare with live => ''off'', which tells damaged indexes, and CALL '
			'iblt_live_rebuild on both sides.');
	END IF;
END
$$;
