-- The steps ------------------------------------------------------------------------
--
-- The steps of a batch of differences are in memory, and those of all batches in a
-- temporary file.  Steps that are skipped are in a list of their own.

-- Arrays kept in a temporary file until the transaction ends

-- Forgets a list.
CREATE FUNCTION iblt_repair_drop(list text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Forgets what is kept of repairs.
CREATE FUNCTION repair_forget(works repair_work[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM iblt_repair_drop((w.plan).secret || list)
		FROM unnest(works) AS w, unnest('{"",/long,/skipped}'::text[]) AS list;
END
$$;

-- The steps of a batch.
CREATE FUNCTION repair_batch(work repair_work, n integer) RETURNS repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RETURN iblt_repair_get((work.plan).secret, n, NULL::repair_step[]);
END
$$;

-- Keeps the steps of one more batch.
CREATE FUNCTION repair_add(INOUT work repair_work, steps repair_step[]) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF steps <> '{}' THEN
		work.batches := work.batches + 1;
		work.parts := array_append(work.parts,
			CASE WHEN (work.plan).indexed THEN (steps[1]).action ELSE '' END);
		work.keys := work.keys + cardinality(repair_ids(work.plan, steps));
		PERFORM iblt_repair_put((work.plan).secret, work.batches, steps);
	END IF;
END
$$;

-- The steps of batch n of an action.
CREATE FUNCTION repair_due(work repair_work, n integer, part text) RETURNS repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RETURN CASE work.parts[n] WHEN part THEN repair_batch(work, n)
		WHEN '' THEN ARRAY(SELECT u.s FROM (SELECT unnest(repair_batch(work, n)) AS s) AS u
			WHERE (u.s).action = part)
		ELSE '{}' END;
END
$$;

-- The ids of the keys of steps, in their order.
CREATE FUNCTION repair_ids(plan repair_plan, steps repair_step[]) RETURNS text[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN CASE WHEN (plan.compared).is_unique THEN iblt_field(steps, 'id')
		ELSE ARRAY(SELECT DISTINCT unnest(iblt_field(steps, 'id'))) END;
END
$$;

-- The steps that were skipped.
CREATE FUNCTION repair_skipped(plan repair_plan) RETURNS SETOF repair_step
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	list text := plan.secret || '/skipped';
BEGIN
	-- one more, which is empty, tells how many there are
	FOR n IN 1 .. iblt_repair_put(list, NULL, '{}'::repair_step[]) LOOP
		RETURN QUERY SELECT s.* FROM unnest(iblt_repair_get(list, n, NULL::repair_step[])) AS s;
	END LOOP;
END
$$;

-- The steps without those of these keys, which are skipped for a reason, or if it is NULL for that
-- in their detail.
CREATE FUNCTION repair_skip(plan repair_plan, steps repair_step[], ids text[], reason text)
RETURNS repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF coalesce(ids, '{}') = '{}' THEN
		RETURN steps;
	END IF;
	PERFORM iblt_repair_put(plan.secret || '/skipped', NULL, ARRAY(
		SELECT jsonb_populate_record(u.s, jsonb_build_object(
			'detail', coalesce(reason, (u.s).detail), 'texts', NULL))
		FROM (SELECT unnest(steps) AS s) AS u WHERE (u.s).id IN (SELECT unnest(ids))));
	RETURN ARRAY(SELECT u.s FROM (SELECT unnest(steps) AS s) AS u
		WHERE ((u.s).id IN (SELECT unnest(ids))) IS NOT TRUE);
END
$$;

-- Skips the steps of all batches for these keys for a reason.
CREATE FUNCTION repair_skip_all(work repair_work, ids text[], reason text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	FOR n IN 1 .. CASE WHEN ids = '{}' THEN 0 ELSE work.batches END LOOP
		PERFORM iblt_repair_put((work.plan).secret, n,
			repair_skip(work.plan, repair_batch(work, n), ids, reason));
	END LOOP;
END
$$;

-- A checksum of rows, with their stamp if that tells which row is newer.
CREATE FUNCTION repair_checksum(checksum text, content jsonb, newest boolean) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN newest THEN checksum || coalesce(' ' || (content #>> '{0,1,-1}'), '')
		ELSE checksum END;

-- The steps, without those that the caller has not asked for or that cannot be made, which are
-- skipped.
-- The rows of a key that is not unique are repaired all or none.
CREATE FUNCTION repair_judged(plan repair_plan, steps repair_step[], unconfirmed text[],
	cause text, problems boolean) RETURNS repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	asked repair_options := plan.asked;
	alone text := CASE asked.winner WHEN 'source' THEN ''
		ELSE 'one side lacks the row, so none wins: ' END;
	x record;
BEGIN
	steps := repair_skip(plan, steps, unconfirmed, 'not confirmed: ' || unconfirmed_cause(cause));
	IF asked.deletes AND asked.inserts AND asked.updates AND NOT problems THEN
		RETURN steps;
	END IF;
	SELECT array_agg(s.id) FILTER (WHERE s.action = 'delete' AND NOT asked.deletes) AS no_delete,
		array_agg(s.id) FILTER (WHERE s.action = 'insert' AND NOT asked.inserts) AS no_insert,
		array_agg(s.id) FILTER (WHERE s.action = 'update' AND NOT asked.updates) AS no_update,
		array_agg(s.id) FILTER (WHERE s.detail IS NOT NULL) AS problems INTO x
	FROM unnest(steps) AS s;
	steps := repair_skip(plan, steps, x.no_delete, alone || 'deletes => false');
	steps := repair_skip(plan, steps, x.no_insert, alone || 'inserts => false');
	steps := repair_skip(plan, steps, x.no_update, 'updates => false');
	RETURN repair_skip(plan, steps, x.problems, NULL);
END
$$;

-- Keeps the steps that make the rows of keys on the target like those of the source, with why some
-- differences are not confirmed.
CREATE FUNCTION repair_add_steps(INOUT work repair_work, differences difference[],
	cause text DEFAULT NULL) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	asked repair_options := plan.asked;
	unconfirmed text[] := ARRAY(SELECT (u.d).id FROM (SELECT unnest(differences) AS d) AS u
		WHERE NOT (u.d).confirmed);
	steps repair_step[];
	problems boolean := asked.winner = 'newest';
	parts text[] := '{delete,update,insert}';
	part text;
BEGIN
	IF plan.indexed THEN
		steps := ARRAY(SELECT ROW(u.id, u.key, u.action, u.problem, u.n, NULL, NULL, NULL,
				u.source_checksum, u.target_checksum, NULL)::repair_step
			FROM repair_unique_changes(differences, asked.target_side, problems) AS u);
	ELSE
		IF NOT (plan.compared).is_unique AND EXISTS (SELECT FROM unnest(differences) AS d,
				LATERAL (VALUES (d.here, d.here_checksum), (d.there, d.there_checksum))
					AS s(rows, checksum)
				-- as in lookup_by_hash_sql
				WHERE s.checksum IS DISTINCT FROM (SELECT encode(sha256(string_agg(concat(
						r ->> 2, '*', r ->> 0), ',' ORDER BY (r ->> 2)::bigint)::bytea), 'hex')
					FROM jsonb_array_elements(s.rows) AS r)) THEN
			RAISE EXCEPTION USING ERRCODE = 'data_exception',
				MESSAGE = 'a side answered with other rows of a key than it counted';
		END IF;
		EXECUTE repair_steps_sql(plan, format('%s($1, %L, %L) AS x, LATERAL (SELECT %s OFFSET 0)'
				' AS v(%s)', CASE WHEN (plan.compared).is_unique THEN 'repair_unique_changes'
				ELSE 'repair_counted_changes' END, asked.target_side, problems,
			concat_ws(', ', repair_each_sql(plan.columns, 'x.source_texts ->> %s'),
				repair_each_sql(plan.columns, 'x.target_texts ->> %s'), '0'),
			concat_ws(', ', repair_each_sql(plan.columns, 'n%s'),
				repair_each_sql(plan.columns, 'o%s'), 'more')), NULL, 'x.checksum')
		INTO steps, problems USING differences;
		parts := ARRAY[''];
	END IF;
	FOREACH part IN ARRAY parts LOOP
		work := repair_add(work, repair_judged(plan, ARRAY(SELECT u.s
			FROM (SELECT unnest(steps) AS s) AS u WHERE part IN ((u.s).action, '')),
			unconfirmed, cause, problems));
	END LOOP;
END
$$;
