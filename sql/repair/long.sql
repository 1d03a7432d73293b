-- Long values ----------------------------------------------------------------------
--
-- A checksum stands for a long value when rows are compared (short_text_sql).  The value itself is
-- read alone when its row is claimed or shown, in parts, which are arrays of a list in the
-- temporary file here, and on the target's server if the repair is applied.  The statement of its
-- row takes the value from there.  So one such value at a time is in memory.  A part counts only if
-- its row has the checksum of the row that was compared.

-- Keeps the text of a column of a step's row; where its parts are, NULL if the row is not there any
-- more.
-- A scan finds the row if a part of its key is long, too, or if the key is not unique.
-- Relies on: what lookups rely on, and the checksum of the row that was compared.
CREATE FUNCTION repair_fetch(plan repair_plan, step repair_step, i integer) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
	target side := plan.target;
	s side := CASE step.action WHEN 'delete' THEN target ELSE plan.source END;
	key text[] := ARRAY(SELECT step.texts[array_position(iblt_field(compared.columns), u.name)]
		FROM unnest(iblt_field(compared.key)) WITH ORDINALITY AS u(name, n) ORDER BY u.n);
	list text := plan.secret || '/long';
	keys text[] := keys_of_ids(compared, ARRAY[step.id]);
	part text;
	size integer;
	first integer;
	last integer;
	done bigint := 1;
	bytes bigint := 0;
	f finder;
BEGIN
	IF compared.is_unique AND NOT EXISTS (SELECT FROM unnest(compared.key) AS k
			WHERE k.base >= 16384 OR k.cast_to <> '')
			AND NOT EXISTS (SELECT FROM unnest(key) AS k WHERE is_long(k)) THEN
		compared.by_hash := false;
		keys := ARRAY[CASE cardinality(key) WHEN 1 THEN key[1] ELSE key::text END];
	END IF;
	f := finder(compared, s);
	LOOP
		-- each part reads all of the row again, so there are few: later ones are larger
		size := least(67108864, greatest(4194304, done / 4));
		part := (ask_values(ARRAY[s.place], ARRAY[format('SELECT min(iblt_p.part)'
				' FROM (SELECT substr(%s, %s, %s) AS part'
				' FROM %s JOIN %s ON %s WHERE %s = %L LIMIT 1) AS iblt_p',
				text_sql(compared.columns[i]), done, size, f.keys, rows_sql(compared, s), f.matches,
				checksum_sql(compared.columns, compared.seed), step.long)], NULL,
			reading_of(compared, keys, NOT compared.by_hash)))[1];
		IF part IS NULL THEN
			RETURN NULL;
		END IF;
		last := iblt_repair_put(list, NULL, ARRAY[part]);
		IF (plan.asked).apply AND target.place IS NOT NULL THEN
			-- in a message that the peer does not show
			PERFORM peer_send(target.place, peer_settings(NULL, 'iblt_repair_put')
					|| format('SELECT iblt_internal.iblt_repair_put(%L, %s, %L::text[])', list,
						last, ARRAY[part])),
				peer_value(target.place);
		END IF;
		first := coalesce(first, last);
		done := done + length(part);
		bytes := bytes + octet_length(part);
		IF bytes > 1073741823 THEN
			RAISE data_exception USING
				MESSAGE = format('a value of column "%s" is longer than a value can be (%s)',
					(compared.columns[i]).name, s.side);
		END IF;
		EXIT WHEN length(part) < size;
	END LOOP;
	RETURN format('iblt long %s %s %s', list, first, last);
END
$$;

-- The steps, whose long values the session keeps; those whose rows are not there any more are
-- skipped.
CREATE FUNCTION repair_fill(plan repair_plan, steps repair_step[]) RETURNS repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	long integer[] := ARRAY(SELECT u.n FROM (SELECT unnest(steps) AS s,
			generate_subscripts(steps, 1) AS n) AS u
		WHERE (u.s).long IS NOT NULL);
	gone text[] := '{}';
	step repair_step;
	c repair_column;
	kept text;
BEGIN
	IF long <> '{}' THEN
		PERFORM progress((plan.compared).progress,
			format('reading the long values of %s rows', cardinality(long)));
	END IF;
	FOR n IN 1 .. cardinality(long) LOOP
		step := steps[long[n]];
		FOREACH c IN ARRAY plan.columns LOOP
			CONTINUE WHEN is_long(step.texts[c.i + 1]) IS NOT TRUE;
			kept := CASE WHEN c.key OR NOT (plan.compared).is_unique OR step.action = 'insert'
				OR c.name = ANY (step.columns) THEN repair_fetch(plan, step, c.i + 1) ELSE '' END;
			IF kept IS NULL THEN
				gone := gone || step.id;
				EXIT;
			END IF;
			step.texts[c.i + 1] := nullif(kept, '');
		END LOOP;
		steps[long[n]] := step;
	END LOOP;
	RETURN repair_skip(plan, steps, gone, 'changed since it was compared');
END
$$;
