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

CREATE FUNCTION iblt_internal.repair_one_sided(steps iblt_internal.repair_step[]) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT DISTINCT s.id FROM unnest(steps) AS s
		WHERE s.status = 'preview' AND s.action <> 'update')
$$;
COMMENT ON FUNCTION iblt_internal.repair_one_sided(iblt_internal.repair_step[]) IS
'the ids of the keys whose rows are to be inserted or deleted';

CREATE FUNCTION iblt_internal.repair_skip(steps iblt_internal.repair_step[], ids text[],
	reason text) RETURNS iblt_internal.repair_step[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(ROW(s.id, s.key, s.action, CASE WHEN NOT x.skip THEN s.sql END,
			CASE WHEN x.skip THEN 'skipped' ELSE s.status END,
			CASE WHEN x.skip THEN reason ELSE s.detail END, s.n, s.columns
			)::iblt_internal.repair_step
		ORDER BY x.skip OR s.status = 'skipped', s.ordinality), '{}')
	FROM unnest(steps) WITH ORDINALITY AS s,
	LATERAL (SELECT s.status = 'preview' AND s.id = ANY (ids)) AS x(skip)
$$;
COMMENT ON FUNCTION iblt_internal.repair_skip(iblt_internal.repair_step[], text[], text) IS
'the steps, of which those of keys are skipped for a reason';

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
