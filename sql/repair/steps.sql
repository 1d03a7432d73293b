-- The steps ------------------------------------------------------------------------
--
-- The steps of a batch of differences are in memory, and those of all batches in a
-- temporary file.  Steps that are skipped are in a list of their own.

-- Forgets a list, and those whose names go on with a slash.
CREATE FUNCTION iblt_repair_drop(list text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- The steps of a batch.
CREATE FUNCTION repair_batch(work repair_work, n integer) RETURNS repair_step[]
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN iblt_repair_get((work.plan).secret, n, NULL::repair_step[]);

-- Keeps the steps of one more batch.
CREATE FUNCTION repair_add(INOUT work repair_work, steps repair_step[]) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF steps <> '{}' THEN
		work.parts := array_append(work.parts,
			CASE WHEN (work.plan).indexed THEN (steps[1]).action ELSE '' END);
		work.keys := work.keys + CASE WHEN ((work.plan).compared).is_unique THEN cardinality(steps)
			ELSE (SELECT count(DISTINCT id) FROM unnest(iblt_field(steps, 'id')) AS id) END;
		PERFORM iblt_repair_put((work.plan).secret, cardinality(work.parts), steps);
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

-- The steps that were skipped, of those in a list.
-- One more array, which is empty, tells how many there are.
CREATE FUNCTION repair_skipped(list text) RETURNS SETOF repair_step
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
AS $$
	SELECT s.* FROM generate_series(1,
			iblt_repair_put(list || '/skipped', NULL, '{}'::repair_step[])) AS n,
		unnest(iblt_repair_get(list || '/skipped', n, NULL::repair_step[])) AS s
$$;

-- The steps without those of these keys, which are skipped for a reason.
CREATE FUNCTION repair_skip(plan repair_plan, steps repair_step[], ids text[], reason text)
RETURNS repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM iblt_repair_put(plan.secret || '/skipped', NULL, ARRAY(
		SELECT jsonb_populate_record(u.s, jsonb_build_object('detail', reason, 'texts', NULL))
		FROM (SELECT unnest(steps) AS s) AS u WHERE (u.s).id IN (SELECT unnest(ids))));
	RETURN ARRAY(SELECT u.s FROM (SELECT unnest(steps) AS s) AS u
		WHERE ((u.s).id IN (SELECT unnest(ids))) IS NOT TRUE);
END
$$;

-- Skips the steps of some batches for these keys for a reason.
CREATE FUNCTION repair_skip_kept(work repair_work, first integer, last integer, ids text[],
	reason text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	FOR n IN first .. CASE WHEN coalesce(ids, '{}') = '{}' THEN 0 ELSE last END LOOP
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
	cause text, special boolean) RETURNS repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	asked repair_options := plan.asked;
	alone text := CASE asked.winner WHEN 'source' THEN ''
		ELSE 'one side lacks the row, so none wins: ' END;
	x record;
BEGIN
	IF asked.deletes AND asked.inserts AND asked.updates AND NOT special
			AND unconfirmed = '{}' THEN
		RETURN steps;
	END IF;
	FOR x IN SELECT r.reason, array_agg(s.id) AS ids
			FROM unnest(steps) AS s, LATERAL (SELECT CASE
				WHEN s.id IN (SELECT unnest(unconfirmed))
				THEN 'not confirmed: ' || unconfirmed_cause(cause)
				WHEN s.action = 'delete' AND NOT asked.deletes THEN alone || 'deletes => false'
				WHEN s.action = 'insert' AND NOT asked.inserts THEN alone || 'inserts => false'
				WHEN s.action = 'update' AND NOT asked.updates THEN 'updates => false'
				ELSE s.detail END) AS r(reason)
			WHERE r.reason IS NOT NULL GROUP BY 1 ORDER BY r.reason COLLATE "C" LOOP
		steps := repair_skip(plan, steps, x.ids, x.reason);
	END LOOP;
	RETURN steps;
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
	unconfirmed text[] := ARRAY(SELECT (u.d).id FROM (SELECT unnest(differences) AS d) AS u
		WHERE NOT (u.d).confirmed);
	steps repair_step[];
	special boolean := (plan.asked).winner = 'newest';
	parts text[] := '{delete,update,insert}';
	part text;
BEGIN
	IF plan.indexed THEN
		steps := ARRAY(SELECT ROW(u.id, u.key, u.action, u.problem, u.n, NULL, NULL, NULL,
				u.source_checksum, u.target_checksum, NULL)::repair_step
			FROM repair_unique_changes(differences, plan.place, special) AS u);
	ELSE
		IF NOT (plan.compared).is_unique AND EXISTS (SELECT FROM unnest(differences) AS d,
				LATERAL (VALUES (d.here, d.here_checksum), (d.there, d.there_checksum))
					AS s(rows, checksum)
				-- as in lookup_by_hash_sql
				WHERE s.checksum IS DISTINCT FROM (SELECT encode(sha256(string_agg(concat(
						r ->> 2, '*', r ->> 0), ',' ORDER BY (r ->> 2)::bigint)::bytea), 'hex')
					FROM jsonb_array_elements(s.rows) AS r)) THEN
			RAISE data_exception USING
				MESSAGE = 'a side answered with other rows of a key than it counted';
		END IF;
		EXECUTE repair_steps_sql(plan, format('%s($1, %L, %L) AS x, LATERAL (SELECT %s OFFSET 0)'
				' AS v(%s)', CASE WHEN (plan.compared).is_unique THEN 'repair_unique_changes'
				ELSE 'repair_counted_changes' END, plan.place, special,
			concat_ws(', ', repair_each_sql(plan.columns, 'x.source_texts ->> %s'),
				repair_each_sql(plan.columns, 'x.target_texts ->> %s'), '0'),
			concat_ws(', ', repair_each_sql(plan.columns, 'n%s'),
				repair_each_sql(plan.columns, 'o%s'), 'more')), NULL, 'x.checksum')
		INTO steps, special USING differences;
		parts := ARRAY[''];
	END IF;
	FOREACH part IN ARRAY parts LOOP
		work := repair_add(work, repair_judged(plan, ARRAY(SELECT u.s
			FROM (SELECT unnest(steps) AS s) AS u WHERE part IN ((u.s).action, '')),
			unconfirmed, cause, special));
	END LOOP;
END
$$;
