-- The steps ------------------------------------------------------------------------
--
-- A step is run if its status is 'preview'.  The others are skipped, and stand behind.

CREATE FUNCTION iblt_internal.repair_ids(steps iblt_internal.repair_step[]) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT DISTINCT s.id FROM unnest(steps) AS s WHERE s.status = 'preview')
$$;
COMMENT ON FUNCTION iblt_internal.repair_ids(iblt_internal.repair_step[]) IS
'the ids of the keys whose steps are to be run';

-- The rows of a key that is not unique are repaired all or none.
CREATE FUNCTION iblt_internal.repair_steps(plan iblt_internal.repair_plan,
	differences iblt_internal.difference[]) RETURNS iblt_internal.repair_step[]
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	WITH step AS (
		SELECT s.*,
			bool_or(s.action = 'delete' AND NOT (plan.asked).deletes) OVER of_key AS no_delete,
			bool_or(s.action = 'insert' AND NOT (plan.asked).inserts) OVER of_key AS no_insert,
			s.action = 'update' AND NOT (plan.asked).updates AS no_update
		FROM unnest(iblt_internal.repair_all_steps(plan, differences)) AS s
		WINDOW of_key AS (PARTITION BY s.id)
	), judged AS (
		SELECT step.*, CASE WHEN d.confirmed = false
				THEN 'not confirmed: its rows kept changing, or replication did not pass in time'
			WHEN step.no_delete THEN 'deletes => false' WHEN step.no_insert THEN 'inserts => false'
			WHEN step.no_update THEN 'updates => false' ELSE step.detail END AS reason
		FROM step JOIN unnest(differences) AS d USING (id)
	)
	SELECT coalesce(array_agg(ROW(id, key, action, CASE WHEN reason IS NULL THEN sql END,
			CASE WHEN reason IS NULL THEN 'preview' ELSE 'skipped' END, reason, n, columns
			)::iblt_internal.repair_step
		ORDER BY reason IS NOT NULL, array_position('{delete,update,insert}', action), key, sql),
		'{}')
	FROM judged
$$;
COMMENT ON FUNCTION iblt_internal.repair_steps(iblt_internal.repair_plan,
	iblt_internal.difference[]) IS
'the steps that make the rows of keys on the target like those of the source, in their order';

-- Under a condition on columns that differ, a changed row is on one side only.  A repair
-- would delete what the other side has outside of the condition, or insert it twice.  If
-- only the source has a condition, its other rows are not wanted.
CREATE FUNCTION iblt_internal.repair_outside(conn text, plan iblt_internal.repair_plan,
	steps iblt_internal.repair_step[]) RETURNS iblt_internal.repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	whole iblt_internal.plan := plan.compared;
	s iblt_internal.side := iblt_internal.repair_side(plan);
	ids text[] := ARRAY(SELECT DISTINCT x.id FROM unnest(steps) AS x
		WHERE x.status = 'preview' AND x.action <> 'update');
BEGIN
	IF ids = '{}' OR NOT whole.is_unique OR s.condition IS NULL THEN
		RETURN steps;
	END IF;
	s := whole.here;
	s.condition := NULL;
	whole.here := s;
	s := whole.there;
	s.condition := NULL;
	whole.there := s;
	ids := ARRAY(SELECT unnest(ids) EXCEPT
		SELECT a.id FROM unnest(iblt_internal.look_at_ids(conn, whole, ids)) AS a
		WHERE a.side <> 'both');
	RETURN ARRAY(SELECT ROW(x.id, x.key, x.action, CASE WHEN NOT o.outside THEN x.sql END,
			CASE WHEN o.outside THEN 'skipped' ELSE x.status END,
			CASE WHEN o.outside
				THEN 'both sides have a row of this key, but the condition is true of one only'
				ELSE x.detail END, x.n, x.columns)::iblt_internal.repair_step
		FROM unnest(steps) WITH ORDINALITY AS x,
		LATERAL (SELECT x.status = 'preview' AND x.id = ANY (ids)) AS o(outside)
		ORDER BY o.outside OR x.status = 'skipped', x.ordinality);
END
$$;
COMMENT ON FUNCTION iblt_internal.repair_outside(text, iblt_internal.repair_plan,
	iblt_internal.repair_step[]) IS
'the steps, without those of rows outside of a condition on the other side, which are skipped';

CREATE FUNCTION iblt_internal.repair_unchanged(steps iblt_internal.repair_step[],
	before iblt_internal.difference[], again iblt_internal.difference[])
RETURNS iblt_internal.repair_step[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(ROW(s.id, s.key, s.action, CASE WHEN x.reason IS NULL THEN s.sql END,
			CASE WHEN x.reason IS NULL THEN s.status ELSE 'skipped' END,
			coalesce(x.reason, s.detail), s.n, s.columns)::iblt_internal.repair_step
		ORDER BY x.reason IS NOT NULL OR s.status = 'skipped', s.ordinality), '{}')
	FROM unnest(steps) WITH ORDINALITY AS s LEFT JOIN unnest(before) AS b ON b.id = s.id
	LEFT JOIN unnest(again) AS a ON a.id = s.id,
	LATERAL (SELECT CASE WHEN s.status = 'skipped' THEN NULL
		WHEN a.id IS NULL THEN 'equal by now'
		WHEN a.here IS DISTINCT FROM b.here OR a.there IS DISTINCT FROM b.there
		THEN 'changed since it was compared' END) AS x(reason)
$$;
COMMENT ON FUNCTION iblt_internal.repair_unchanged(iblt_internal.repair_step[],
	iblt_internal.difference[], iblt_internal.difference[]) IS
'the steps, without those of rows that have changed since they were compared, which are skipped';
