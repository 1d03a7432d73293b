-- Rows that are said to be absent ------------------------------------------------------
--
-- A delete relies on the absence of a row on the source, and an insert on its absence on
-- the target.  An index that lacks an entry would make both do damage.  So a scan has to
-- confirm each key that one side has alone, one scan of a side for all keys.

-- Skips the steps for keys that are not absent; an error if an index is damaged.
-- A lookup by hash is a scan.  If two scans find a row that stood still, the index is
-- damaged, which is an error.  Otherwise the row came since.
-- A condition on the target leaves out a row that has changed on one side only.  A repair would
-- delete what the source has outside of the condition, or insert what the target has there.  So the
-- scan does not have the condition.  If only the source has one, its other rows are not wanted.
-- Relies on: read_heap, under the locks of the claim.
CREATE FUNCTION repair_absent(work repair_work) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	compared plan := index_plan(plan.compared);
	narrowed boolean := (plan.target).condition IS NOT NULL;
	scan plan;
	size integer;			-- keys of a scan
	action text;
	place integer;
	ids text[];
	part text[];
	hashes text[];
	found found_rows;
	present text[] := '{}';
BEGIN
	IF NOT compared.is_unique OR compared.by_hash AND NOT narrowed THEN
		RETURN;
	ELSIF narrowed THEN
		compared.here.condition := NULL;
		compared.there.condition := NULL;
	END IF;
	scan := compared;
	scan.by_hash := true;
	scan.by_index := false;
	size := CASE WHEN scan.buckets IS NULL THEN 1000000 ELSE batch_size(scan) END;
	FOREACH action IN ARRAY '{delete,insert}'::text[] LOOP
		ids := '{}';
		FOR n IN 1 .. cardinality(work.parts) LOOP
			ids := ids || iblt_field(repair_due(work, n, action), 'id');
		END LOOP;
		CONTINUE WHEN ids = '{}';
		PERFORM progress(compared.progress, format(
			'scanning for the rows of %s keys that the %s lacks', cardinality(ids),
			CASE action WHEN 'delete' THEN 'source' ELSE 'target' END));
		place := CASE action WHEN 'insert' THEN plan.place ELSE 3 - plan.place END;
		FOR i IN 1 .. cardinality(ids) BY size LOOP
			part := ids[i : i + size - 1];
			hashes := CASE WHEN compared.by_hash THEN keys_of_ids(compared, part)
				ELSE hashes_of_keys(compared, part) END;
			found := (find_sides(scan, hashes, place))[1];
			present := present || ARRAY(SELECT k.id FROM unnest(part, hashes) AS k(id, hash)
				WHERE k.hash IN (SELECT split_part(u, ' ', 1) FROM unnest(found.id) AS u));
		END LOOP;
	END LOOP;
	IF NOT compared.by_hash THEN
		PERFORM check_index(compared, present);
	END IF;
	PERFORM repair_skip_kept(work, 1, cardinality(work.parts), present, CASE WHEN narrowed
		THEN 'the other side has a row of this key, of which the condition may not be true'
		ELSE 'changed since it was compared' END);
END
$$;
