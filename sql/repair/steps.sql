-- The steps ------------------------------------------------------------------------
--
-- A step is run if its status is 'preview'.  The others are skipped, and stand behind.

-- The ids of the keys whose steps are to be run.
CREATE FUNCTION repair_ids(steps repair_step[]) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT ARRAY(SELECT DISTINCT (u.s).id FROM (SELECT unnest(steps) AS s) AS u
		WHERE (u.s).status = 'preview')
$$;

-- The steps that make the rows of keys on the target like those of the source, in their
-- order.
-- The rows of a key that is not unique are repaired all or none.
CREATE FUNCTION repair_steps(plan repair_plan, differences difference[]) RETURNS repair_step[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	steps repair_step[] := repair_all_steps(plan, differences);
	unconfirmed text[] := ARRAY(SELECT (u.d).id FROM (SELECT unnest(differences) AS d) AS u
		WHERE NOT (u.d).confirmed);
	no_delete text[];
	no_insert text[];
	alone text := CASE (plan.asked).winner WHEN 'source' THEN ''
		ELSE 'one side lacks the row, so none wins: ' END;
BEGIN
	SELECT array_agg((u.s).id) FILTER (WHERE (u.s).action = 'delete'
			AND NOT (plan.asked).deletes),
		array_agg((u.s).id) FILTER (WHERE (u.s).action = 'insert' AND NOT (plan.asked).inserts)
	INTO no_delete, no_insert FROM (SELECT unnest(steps) AS s) AS u;
	RETURN ARRAY(SELECT ROW(id, key, action, CASE WHEN reason IS NULL THEN sql END,
			CASE WHEN reason IS NULL THEN 'preview' ELSE 'skipped' END, reason, n, columns, kept
			)::repair_step
		FROM (SELECT (u.s).*, CASE WHEN (u.s).id IN (SELECT unnest(unconfirmed))
				THEN 'not confirmed: ' || unconfirmed_cause()
			WHEN (u.s).id IN (SELECT unnest(no_delete)) THEN alone || 'deletes => false'
			WHEN (u.s).id IN (SELECT unnest(no_insert)) THEN alone || 'inserts => false'
			WHEN (u.s).action = 'update' AND NOT (plan.asked).updates THEN 'updates => false'
			ELSE (u.s).detail END AS reason FROM (SELECT unnest(steps) AS s) AS u) AS judged
		ORDER BY reason IS NOT NULL, array_position('{delete,update,insert}', action), key, sql);
END
$$;

-- The ids of the keys whose rows are to be inserted or deleted.
CREATE FUNCTION repair_one_sided(steps repair_step[]) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT ARRAY(SELECT DISTINCT (u.s).id FROM (SELECT unnest(steps) AS s) AS u
		WHERE (u.s).status = 'preview' AND (u.s).action <> 'update')
$$;

-- The steps, with those of these keys skipped for a reason.
-- A statement may be large, so steps are copied only if they change.
CREATE FUNCTION repair_skip(steps repair_step[], ids text[], reason text) RETURNS repair_step[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF ids = '{}' THEN
		RETURN steps;
	END IF;
	RETURN ARRAY(SELECT ROW(s.id, s.key, s.action, CASE WHEN NOT x.skip THEN s.sql END,
			CASE WHEN x.skip THEN 'skipped' ELSE s.status END,
			CASE WHEN x.skip THEN reason ELSE s.detail END, s.n, s.columns,
			CASE WHEN NOT x.skip THEN s.kept END
			)::repair_step
		FROM unnest(steps) WITH ORDINALITY AS s,
		LATERAL (SELECT s.status = 'preview' AND s.id IN (SELECT unnest(ids))) AS x(skip)
		ORDER BY x.skip OR s.status = 'skipped', s.ordinality);
END
$$;

-- The steps, without those of rows that have changed since they were compared, which are
-- skipped.
CREATE FUNCTION repair_unchanged(steps repair_step[], before difference[], again difference[])
RETURNS repair_step[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	x record;
BEGIN
	SELECT coalesce(array_agg((b.d).id) FILTER (WHERE a.id IS NULL), '{}') AS equal,
		coalesce(array_agg((b.d).id) FILTER (WHERE a.id IS NOT NULL), '{}') AS changed INTO x
	FROM (SELECT unnest(before) AS d) AS b LEFT JOIN unnest(again) AS a ON a.id = (b.d).id
	WHERE a.id IS NULL OR a.here_digest IS DISTINCT FROM (b.d).here_digest
		OR a.there_digest IS DISTINCT FROM (b.d).there_digest
		-- without contents, there is no stamp
		OR a.here #> '{0,1,-1}' <> (b.d).here #> '{0,1,-1}'
		OR a.there #> '{0,1,-1}' <> (b.d).there #> '{0,1,-1}';
	RETURN repair_skip(repair_skip(steps, x.equal, 'equal by now'),
		x.changed, 'changed since it was compared');
END
$$;
