-- Rows that are said to be absent ------------------------------------------------------
--
-- A delete relies on the absence of a row on the source, and an insert on its absence on
-- the target.  An index that lacks an entry would make both do damage.  So a scan has to
-- confirm each key that one side has alone, one scan of a side for all keys.

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
-- A condition on the target leaves out a row that has changed on one side only.  A repair would
-- delete what the source has outside of the condition, or insert what the target has there.  So the
-- scan does not have the condition.  If only the source has one, its other rows are not wanted.
CREATE FUNCTION repair_absent(work repair_work) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	compared plan := index_plan(plan.compared);
	narrowed boolean := (plan.target).condition IS NOT NULL;
	size CONSTANT integer := 1000000;		-- keys of a scan
	deletes text[] := '{}';
	inserts text[] := '{}';
	present text[] := '{}';
BEGIN
	IF NOT compared.is_unique OR compared.by_hash AND NOT narrowed THEN
		RETURN;
	ELSIF narrowed THEN
		compared.here.condition := NULL;
		compared.there.condition := NULL;
		plan.source.condition := NULL;
		plan.target.condition := NULL;
	END IF;
	FOR n IN 1 .. work.batches LOOP
		deletes := deletes || repair_ids(plan, repair_due(work, n, 'delete'));
		inserts := inserts || repair_ids(plan, repair_due(work, n, 'insert'));
	END LOOP;
	IF deletes || inserts = '{}' THEN
		RETURN;
	END IF;
	PERFORM progress(compared.progress, format(
		'scanning for the rows of %s keys that one side lacks', cardinality(deletes || inserts)));
	IF compared.by_hash THEN
		inserts := deletes || inserts;
		FOR i IN 1 .. cardinality(inserts) BY batch_size(compared) LOOP
			deletes := inserts[i : i + batch_size(compared) - 1];
			present := present || ARRAY(SELECT unnest(deletes) EXCEPT SELECT d.id
				FROM unnest(look_at_ids(compared, deletes)) AS d WHERE d.side <> 'both');
		END LOOP;
	ELSE
		FOR i IN 1 .. greatest(cardinality(deletes), cardinality(inserts)) BY size LOOP
			present := present
				|| repair_present(compared, plan.source, deletes[i : i + size - 1])
				|| repair_present(compared, plan.target, inserts[i : i + size - 1]);
		END LOOP;
		PERFORM check_index(compared, present);
	END IF;
	PERFORM repair_skip_all(work, present, CASE WHEN narrowed
		THEN 'the other side has a row of this key, of which the condition may not be true'
		ELSE 'changed since it was compared' END);
END
$$;
