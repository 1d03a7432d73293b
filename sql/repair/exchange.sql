-- Rows that exchange unique values -----------------------------------------------------
--
-- An update may need a value that another row is still to give away.  The statements find an order
-- themselves (repair_send), unless rows wait for each other: (1,10), (2,20) that are to
-- become (1,20), (2,10).  A deferrable constraint is checked later, but an index on an expression
-- or with a condition is always checked at once.  So such rows are deleted and inserted, where
-- nothing can tell the difference.  Elsewhere they are skipped with the reason.  A preview executes
-- nothing, so it shows their updates.

-- Deletes and inserts the rows of statements that no order helps, or skips them.
-- A row to which others refer is skipped, and the others are tried again.  Some of these may wait
-- for its value.  Each attempt executes all of them, so after twenty those that are left are
-- skipped.  It is an error if a row that is not repaired has the value.
CREATE FUNCTION repair_exchange(INOUT works repair_work[], stuck repair_statement[])
RETURNS repair_work[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	said CONSTANT text := 'rows exchange unique values';
	work repair_work;
	plan repair_plan;
	ids text[];
	steps repair_step[];	-- deletes and inserts
	statements repair_statement[];
	shown record;
	reason text;			-- why some are skipped
	skipped text[];
	x record;
BEGIN
	FOR i IN 1 .. cardinality(works) LOOP
		work := works[i];
		plan := work.plan;
		ids := ARRAY(SELECT s.id FROM unnest(stuck) AS s WHERE s.list = plan.secret);
		CONTINUE WHEN ids = '{}';
		steps := ARRAY(SELECT jsonb_populate_record(s, jsonb_build_object('action', a.does)
				|| CASE s.action WHEN 'update'
				THEN jsonb_build_object('detail', said, 'columns', NULL) ELSE '{}' END)
			FROM generate_subscripts(work.parts, 1) AS n, unnest(repair_batch(work, n)) AS s,
			unnest(CASE s.action WHEN 'update' THEN '{delete,insert}' ELSE ARRAY[s.action] END)
				AS a(does)
			WHERE s.id = ANY (ids));
		reason := CASE WHEN (plan.asked).winner = 'newest' THEN 'winner => ''newest'''
			WHEN NOT (plan.asked).deletes THEN 'deletes => false'
			WHEN NOT (plan.asked).inserts THEN 'inserts => false'
			WHEN (plan.described).rules THEN 'the table may have rules'
			ELSE coalesce(
				'triggers would fire: ' || repair_triggers(plan, '{insert,update,delete}'),
				'columns that are not compared would be lost: '
				|| quoted(ARRAY(SELECT t.name FROM unnest((plan.described).columns) AS t
					WHERE NOT t.generated
					AND t.name NOT IN (SELECT c.name FROM unnest(plan.columns) AS c))),
				(SELECT min(CASE WHEN k.self THEN 'the table refers to itself'
						ELSE format('rows of %s may refer to them by constraint %s', k.relation,
							k.name) END)
					FROM unnest((plan.described).foreign_keys) AS k WHERE k.self
					OR NOT ARRAY[k.on_delete, k.on_update] <@ '{NO ACTION,RESTRICT}')) END;
		skipped := CASE WHEN reason IS NOT NULL THEN ids ELSE ARRAY(SELECT s.id
			FROM unnest(steps) AS s WHERE s.long IS NOT NULL AND s.detail = said) END;
		reason := coalesce(reason, 'a value is too long to be read again');
		shown := repair_shown_sql(plan, false);
		EXECUTE format('SELECT array_agg(ROW(%s, x.n, false, x.key::text, x.id, NULL)'
			'::repair_statement ORDER BY x.action) FROM %s', shown.statement, shown.item)
		INTO statements USING steps;
		FOR attempt IN 1 .. 21 LOOP
			PERFORM repair_skip_kept(work, 1, cardinality(work.parts), skipped, 'waits for a '
				'unique value of another row, and cannot be deleted and inserted: ' || reason);
			statements := ARRAY(SELECT s FROM unnest(statements) AS s WHERE s.id <> ALL (skipped));
			EXIT WHEN statements = '{}';
			SELECT * INTO x FROM repair_run((plan.target).place, statements,
				(plan.asked).apply_search_path);
			EXIT WHEN x.failed IS NULL;
			IF (x.e).state NOT IN ('23503', '23001', '23505', '23P01') OR attempt = 1
					AND skipped = '{}' AND (x.e).state IN ('23505', '23P01') THEN
				PERFORM repair_fail(x.e, statements[x.failed].sql, statements[x.failed].key);
			END IF;
			skipped := CASE WHEN attempt < 20 THEN ARRAY[statements[x.failed].id]
				ELSE iblt_field(statements, 'id') END;
			reason := (x.e).message;
		END LOOP;
		ids := iblt_field(statements, 'id');
		FOR n IN 1 .. cardinality(work.parts) LOOP
			PERFORM iblt_repair_put(plan.secret, n, ARRAY(SELECT u.s
				FROM (SELECT unnest(repair_batch(work, n)) AS s) AS u
				WHERE (u.s).action <> 'update' OR (u.s).id <> ALL (ids)));
		END LOOP;
		FOR x IN SELECT array_agg(s) AS done FROM unnest(steps) AS s
				WHERE s.detail = said AND s.id = ANY (ids) GROUP BY s.action LOOP
			work := repair_add(work, x.done);
		END LOOP;
		works[i] := work;
	END LOOP;
END
$$;
