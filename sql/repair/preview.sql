-- What a preview says ----------------------------------------------------------------
--
-- A preview shows statements.  What else they would do is said in notices: which triggers fire,
-- and how many rows would be lost.

-- Completes the steps of a preview, and gives its notices for a target of that many rows, if that
-- is known.
CREATE FUNCTION repair_show(INOUT work repair_work, rows bigint) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	s side := repair_target(plan);
	actions text[];
	lost bigint;
	triggers text;
BEGIN
	PERFORM repair_claim(work);
	SELECT array_agg(DISTINCT u.action), sum(u.n) FILTER (WHERE u.action = 'delete')
	INTO actions, lost
	FROM generate_series(1, work.batches) AS n, unnest(repair_batch(work, n)) AS u
	WHERE u.status = 'due';
	triggers := repair_triggers(plan, actions);
	IF lost > 0 THEN
		PERFORM iblt_tell('notice', format('the repair will delete %s rows of %s (%s)',
			concat_ws(' of the ', lost, rows), s.relation, s.side));
	END IF;
	IF triggers <> '' THEN
		PERFORM iblt_tell('notice',
			format('triggers of %s will fire (%s): %s', s.relation, s.side, triggers), NULL,
			CASE WHEN (plan.asked).as_replica THEN NULL ELSE 'With as_replica => true, only '
				'triggers that are enabled ALWAYS or REPLICA fire.' END);
	END IF;
	-- rows that are deleted and inserted are not lost
	work := repair_exchange(work);
END
$$;
