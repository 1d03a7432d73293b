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
BEGIN
	whole.content := 'none';
	IF (plan.target).condition IS NOT NULL THEN
		whole.here.condition := NULL;
		whole.there.condition := NULL;
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
	ids text[];
BEGIN
	IF NOT (plan.compared).is_unique OR (plan.target).condition IS NULL THEN
		RETURN steps;
	END IF;
	-- whose rows are to be inserted or deleted
	ids := ARRAY(SELECT DISTINCT (u.s).id FROM (SELECT unnest(steps) AS s) AS u
		WHERE (u.s).status = 'due' AND (u.s).action <> 'update');
	IF ids = '{}' THEN
		RETURN steps;
	END IF;
	RETURN repair_skip(steps, ARRAY(SELECT unnest(ids) EXCEPT
			SELECT a.id FROM unnest(look_at_ids(repair_whole(plan), ids)) AS a
				WHERE a.side <> 'both'),
		'both sides have a row of this key, but the condition is true of one only');
END
$$;

-- Those of the keys of which a scan finds a row on a side.
-- Relies on: read_heap, under the locks of the claim.
CREATE FUNCTION repair_present(plan plan, s side, ids text[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	hashes text[] := hashes_of_keys(plan, ids);
	found found_rows[];
BEGIN
	IF ids = '{}' THEN
		RETURN '{}';
	END IF;
	plan.by_hash := true;
	plan.by_index := false;
	found := find_rows(ARRAY[s.place], ARRAY[(finder(plan, s)).lookup], reading_of(plan, hashes));
	PERFORM require_side_described(s, found[1].fingerprint);
	RETURN ARRAY(SELECT k.id FROM unnest(ids, hashes) AS k(id, hash)
		WHERE k.hash IN (SELECT split_part(u, ' ', 1) FROM unnest(found[1].id) AS u));
END
$$;

-- Skips the steps for keys that are not absent; an error if an index is damaged.
-- A lookup by hash is a scan.  If two scans find a row that stood still, the index is
-- damaged, which is an error.  Otherwise the row came since.
CREATE FUNCTION repair_absent(work repair_work) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	whole plan := index_plan(repair_whole(plan));
	target_side text := (plan.asked).target_side;
	size CONSTANT integer := 1000000;		-- keys of a scan
	deletes text[] := '{}';
	inserts text[] := '{}';
	present text[] := '{}';
BEGIN
	IF (plan.compared).by_hash THEN
		RETURN;
	END IF;
	FOR n IN 1 .. work.batches LOOP
		deletes := deletes || repair_ids(plan, repair_due(work, n, 'delete'));
		inserts := inserts || repair_ids(plan, repair_due(work, n, 'insert'));
	END LOOP;
	IF deletes || inserts = '{}' THEN
		RETURN;
	END IF;
	PERFORM progress(whole.progress, format('scanning for the rows of %s keys that one side lacks',
		cardinality(deletes || inserts)));
	FOR i IN 1 .. greatest(cardinality(deletes), cardinality(inserts)) BY size LOOP
		present := present || repair_present(whole, repair_source_of(target_side, whole.here,
				whole.there), deletes[i : i + size - 1])
			|| repair_present(whole, repair_target_of(target_side, whole.here, whole.there),
				inserts[i : i + size - 1]);
	END LOOP;
	PERFORM check_index(repair_whole(plan), present),
		repair_skip_all(work, present, 'changed since it was compared');
END
$$;
