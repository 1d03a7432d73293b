-- Rows that are said to be absent ------------------------------------------------------
--
-- A delete relies on the absence of a row on the source, and an insert on its absence on
-- the target.  An index that lacks an entry would make both do damage.  So a scan has to
-- confirm each key that one side has alone, one scan of a side for all keys.

-- A plan that sees a row also where a condition on the target leaves it out, but no contents.
-- If only the source has a condition, its other rows are not wanted.
CREATE FUNCTION repair_whole(plan repair_plan) RETURNS plan
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	whole plan := plan.compared;
	s side := repair_side(plan);
BEGIN
	whole.content := 'none';
	IF s.condition IS NOT NULL THEN
		s := whole.here;
		s.condition := NULL;
		whole.here := s;
		s := whole.there;
		s.condition := NULL;
		whole.there := s;
	END IF;
	RETURN whole;
END
$$;

-- The steps, without those of rows outside of a condition on the other side, which are
-- skipped.
-- Under a condition on columns that differ, a changed row is on one side only.  A repair
-- would delete what the other side has outside of the condition, or insert it twice.
-- Relies on: what lookups rely on.  Before rows are changed, repair_absent follows.
CREATE FUNCTION repair_outside(plan repair_plan,
	steps repair_step[]) RETURNS repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	ids text[] := repair_one_sided(steps);
BEGIN
	IF ids = '{}' OR NOT (plan.compared).is_unique
			OR (repair_side(plan)).condition IS NULL THEN
		RETURN steps;
	END IF;
	RETURN repair_skip(steps, ARRAY(SELECT unnest(ids) EXCEPT
			SELECT a.id FROM unnest(look_at_ids(repair_whole(plan), ids)) AS a
				WHERE a.side <> 'both'),
		'both sides have a row of this key, but the condition is true of one only');
END
$$;

-- Those of the keys whose row a scan finds on the side that is said to lack it.
CREATE FUNCTION repair_present(plan repair_plan,
	steps repair_step[], ids text[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	by_scan plan := index_plan(repair_whole(plan));
	hashes text[] := hashes_of_keys(plan.compared, ids);
	found record;
BEGIN
	by_scan.by_hash := true;
	found := find_both(by_scan, hashes);
	RETURN ARRAY(SELECT s.id FROM unnest(steps) AS s
		JOIN unnest(ids, hashes) AS k(id, hash) USING (id)
		JOIN (SELECT split_part(unnest((found.here).id), ' ', 1), 'here'
			UNION SELECT split_part(unnest((found.there).id), ' ', 1), 'there') AS f(hash, side)
			ON f.hash = k.hash AND (f.side = (plan.asked).target) = (s.action = 'insert')
		WHERE s.status = 'preview' AND s.action <> 'update');
END
$$;

-- The steps, without those for keys that are not absent; an error if an index is damaged.
-- A lookup by hash is a scan.  If two scans find a row that stood still, the index is
-- damaged, which is an error.  Otherwise the row came since.
-- Relies on: read_heap, behind the locks of the claim.
CREATE FUNCTION repair_absent(plan repair_plan,
	steps repair_step[]) RETURNS repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	ids text[] := repair_one_sided(steps);
	size integer := 100000;		-- keys of a scan
	present text[] := '{}';
BEGIN
	IF ids = '{}' OR (plan.compared).by_hash THEN
		RETURN steps;
	END IF;
	PERFORM progress((plan.compared).progress,
		format('scanning for the rows of %s keys that one side lacks', cardinality(ids)));
	FOR i IN 1 .. cardinality(ids) BY size LOOP
		present := present
			|| repair_present(plan, steps, ids[i : i + size - 1]);
	END LOOP;
	PERFORM check_index(repair_whole(plan), present);
	RETURN repair_skip(steps, present, 'changed since it was compared');
END
$$;
