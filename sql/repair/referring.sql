-- What refers to the rows ----------------------------------------------------------

-- Says what foreign keys would change too, or what would violate them, if the rows of all steps of
-- an action were changed: in the steps of a preview, or before a repair is applied in an error,
-- unless the caller asked for it.
-- No row can begin to refer to one that the claim has locked.  No statement sets a generated
-- column, but each update may change it.
CREATE FUNCTION repair_cascades(work repair_work) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	asked repair_options := plan.asked;
	part text;
	k repair_foreign_key;
	does text;
	ids text[];
	found bigint;
	problems text[];
	said text[] := '{}';	-- of deletes and of updates
	problem text;
	prefix text := CASE WHEN asked.as_replica
		THEN 'foreign keys are not enforced, for all such rows: ' ELSE 'with all such rows: ' END;
BEGIN
	FOREACH part IN ARRAY '{delete,update}'::text[] LOOP
		problems := '{}';
		FOREACH k IN ARRAY (plan.described).foreign_keys LOOP
			does := CASE part WHEN 'delete' THEN k.on_delete ELSE k.on_update END;
			-- as_replica: nothing checks it there
			CONTINUE WHEN does IN ('NO ACTION', 'RESTRICT') AND NOT asked.as_replica;
			-- of the keys whose steps change what it refers to, or may do so
			ids := ARRAY(SELECT DISTINCT s.id FROM generate_subscripts(work.parts, 1) AS n,
				unnest(repair_batch(work, n)) AS s
				WHERE s.action = part
				AND (s.action = 'delete' OR s.columns && k.referenced
					OR EXISTS (SELECT FROM unnest((plan.described).columns) AS t
						WHERE t.generated AND t.name = ANY (k.referenced))));
			CONTINUE WHEN ids = '{}';
			does := format('by constraint %s ON %s %s', k.name, upper(part), does);
			IF NOT k.readable THEN
				problems := problems || format(
					'rows of %s, which may not be read, may refer to such rows %s', k.relation,
					does);
				CONTINUE;
			END IF;
			-- the rows that refer to rows of these keys, and are none of them
			found := repair_ask(plan, ids, format('WITH iblt_d AS MATERIALIZED (SELECT'
					' t.tableoid AS iblt_o, t.ctid AS iblt_c, %s FROM ',
				(SELECT string_agg(format('t.%I', c), ', ') FROM unnest(k.referenced) AS c)),
				format(') SELECT count(*)::text FROM %s AS r JOIN iblt_d ON %s WHERE NOT EXISTS'
					' (SELECT FROM iblt_d AS x WHERE x.iblt_o = r.tableoid AND x.iblt_c = r.ctid)',
				k.relation, k.matches), '{tableoid,ctid}' || k.referenced, k.relation);
			IF found > 0 THEN
				problems := problems || format('%s of %s to such rows %s',
					found || CASE found WHEN 1 THEN ' row' ELSE ' rows' END,
					k.relation || CASE found WHEN 1 THEN ' refers' ELSE ' refer' END, does);
			END IF;
		END LOOP;
		said := array_append(said, nullif(array_to_string(problems, '; '), ''));
	END LOOP;
	problem := array_to_string(said, '; ');
	IF problem <> '' AND asked.apply AND NOT asked."cascade" THEN
		RAISE dependent_objects_still_exist USING MESSAGE = CASE WHEN asked.as_replica
				THEN 'the repair would leave rows that refer to missing rows'
				ELSE 'the repair would change rows beyond those compared' END,
			DETAIL = format('Of the rows to be deleted or updated: %s. Nothing was changed.',
				problem),
			HINT = 'Repair those tables first, or allow it by cascade => true.';
	ELSIF problem = '' THEN
		RETURN;
	END IF;
	FOR n IN 1 .. cardinality(work.parts) LOOP
		PERFORM iblt_repair_put(plan.secret, n, ARRAY(
			SELECT CASE WHEN x.problem <> ''
				THEN jsonb_populate_record(u.s, jsonb_build_object('detail', prefix || x.problem))
				ELSE u.s END
			FROM (SELECT unnest(repair_batch(work, n)) AS s) AS u,
			LATERAL (SELECT CASE (u.s).action WHEN 'delete' THEN said[1]
				WHEN 'update' THEN said[2] END) AS x(problem)));
	END LOOP;
END
$$;
