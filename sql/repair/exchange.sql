-- Rows that exchange unique values -----------------------------------------------------
--
-- An update may need a value that another row is still to give away.  The statements find an order
-- themselves (repair_send), unless rows wait for each other: (1,10), (2,20) that are to
-- become (1,20), (2,10).  A deferrable constraint is checked later, but an index on an expression
-- or with a condition is always checked at once.  So such rows are deleted, and inserted behind
-- all updates, where nothing can tell the difference.  Elsewhere they are skipped with the reason.
--
-- The target's server finds out which row has a value that another one is to get, because an
-- index may be on an expression.  Rows wait for each other in one repair of a pair of relations
-- only: those of several runs, or of several nodes, are not looked at together.

-- The steps of an action, each as the text of an array: the key's columns, and then these columns,
-- if they are compared; and the ids of those with long values, which have NULL in their place.
CREATE FUNCTION repair_unique_rows(work repair_work, columns text[], action text,
	OUT ids text[], OUT rows text[], OUT long text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	places integer[] := ARRAY(SELECT c.i + 1 FROM unnest(plan.columns) AS c WHERE c.key
			ORDER BY c.i)
		|| ARRAY(SELECT c.i + 1 FROM unnest(columns) WITH ORDINALITY AS u(name, n)
			LEFT JOIN unnest(plan.columns) AS c USING (name) ORDER BY u.n);
	x record;
BEGIN
	ids := '{}';
	rows := '{}';
	long := '{}';
	FOR n IN 1 .. work.batches LOOP
		SELECT array_agg(s.id ORDER BY s.ordinality) AS ids, array_agg(ARRAY(
				SELECT CASE WHEN s.long IS NULL OR NOT is_long(s.texts[p.i]) THEN s.texts[p.i] END
				FROM unnest(places) WITH ORDINALITY AS p(i, n) ORDER BY p.n)::text
			ORDER BY s.ordinality) AS rows,
			array_agg(s.id) FILTER (WHERE s.long IS NOT NULL) AS long INTO x
		FROM unnest(repair_due(work, n, action)) WITH ORDINALITY AS s;
		ids := ids || x.ids;
		rows := rows || x.rows;
		long := long || x.long;
	END LOOP;
END
$$;

-- What the target's server says to a query over iblt_v, the texts of these rows, and iblt_o, these
-- columns of the rows that it has of the same keys.
CREATE FUNCTION repair_ask_rows(plan repair_plan, rows text[], columns text, query text)
RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s side := plan.target;
BEGIN
	RETURN (ask_values(ARRAY[s.place], ARRAY[(
		SELECT format('WITH iblt_v AS MATERIALIZED (SELECT iblt_n, iblt_r::text[] AS iblt_r'
				' FROM unnest(%s) WITH ORDINALITY AS iblt_u(iblt_r, iblt_n)),'
				' iblt_o AS MATERIALIZED (SELECT iblt_v.iblt_n, %s FROM iblt_v JOIN %s AS t ON %s)'
				'%s', CASE WHEN s.bare THEN format('%L::text[]', rows) ELSE '$1' END, columns,
			relation_sql(s), string_agg(CASE WHEN t.type LIKE 'pg_catalog.%'
				THEN format('t.%s %s (iblt_v.iblt_r[%s])%s', k.identifier,
					coalesce(k.equal, 'OPERATOR(pg_catalog.=)'), k.n, k.suffix)
				ELSE format('format(''%%s'', t.%s) = iblt_v.iblt_r[%s]', k.identifier, k.n) END,
				' AND ' ORDER BY k.n), query)
		FROM (SELECT c.*, row_number() OVER (ORDER BY c.i) AS n
			FROM unnest(plan.columns) AS c WHERE c.key) AS k
		LEFT JOIN unnest((plan.described).columns) AS t USING (name))], NULL,
		ROW('read_planned', rows, NULL, NULL, reads(s))::reading))[1];
END
$$;

-- The pairs of steps for these rows on the target's server of which the first is to get a value of
-- an index on these columns that the second has, and the number of that index, in the order of the
-- second.
-- Values of types that are not PostgreSQL's own stay texts, because a cast could run code.  What is
-- not compared stays as it is.
CREATE FUNCTION repair_waiting(plan repair_plan, uniques repair_unique[], columns text[],
	rows text[], OUT wants integer[], OUT has integer[], OUT by_index integer[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	of_keys integer := (SELECT count(*) FROM unnest(plan.columns) AS k WHERE k.key);
	x record;
BEGIN
	SELECT string_agg(format(CASE WHEN u.own THEN 't.%1$I'
				ELSE 'CASE WHEN t.%1$I IS NOT NULL THEN format(''%%s'', t.%1$I) END' END
			|| ' AS %1$I', u.name), ', ' ORDER BY u.n) AS has,
		string_agg(format(CASE WHEN u.compared THEN '(iblt_v.iblt_r[%2$s])%3$s AS %1$I'
				ELSE 'iblt_o.%1$I AS %1$I' END, u.name, u.n + of_keys,
			CASE WHEN u.own THEN concat_ws(' ', u.suffix, u.collated) END), ', ' ORDER BY u.n)
			AS wants INTO x
	FROM (SELECT u.name, u.n, t.type LIKE 'pg_catalog.%' AS own, t.collated, c.suffix,
			c.name IS NOT NULL AS compared
		FROM unnest(columns) WITH ORDINALITY AS u(name, n)
		LEFT JOIN unnest((plan.described).columns) AS t USING (name)
		LEFT JOIN unnest(plan.columns) AS c USING (name)) AS u;
	SELECT coalesce(array_agg(p.pair[1] ORDER BY p.pair[2]), '{}'),
		coalesce(array_agg(p.pair[2] ORDER BY p.pair[2]), '{}'),
		coalesce(array_agg(p.pair[3] ORDER BY p.pair[2]), '{}') INTO wants, has, by_index
	FROM unnest(repair_ask_rows(plan, rows, x.has, (
		SELECT format(', iblt_w AS MATERIALIZED (SELECT iblt_v.iblt_n, %s FROM iblt_v'
				' LEFT JOIN iblt_o ON iblt_o.iblt_n = iblt_v.iblt_n)'
				' SELECT coalesce(array_agg(iblt_p), ''{}'')::text FROM (%s) AS iblt_q(iblt_p)',
			x.wants, string_agg(p.pairs, ' UNION ALL '))
		FROM unnest(uniques) WITH ORDINALITY AS u, LATERAL (
			SELECT format('SELECT concat_ws('' '', a.iblt_n, b.iblt_n, %s)'
					' FROM (SELECT iblt_n, %s FROM iblt_w%s) AS a'
					' JOIN (SELECT iblt_n, %2$s FROM iblt_o%3$s) AS b ON %s'
					' WHERE a.iblt_n <> b.iblt_n', u.ordinality, u.keys, ' WHERE ' || u.condition,
				u.same)) AS p(pairs)))) AS answer(said),
	LATERAL (SELECT string_to_array(answer.said, ' ')::integer[] OFFSET 0) AS p(pair);
END
$$;

-- The rows that no order helps: those that wait for each other, and those that wait for them.
-- Of n rows, wants[i] waits for has[i], and "has" is in order.  A row that waits for nobody goes
-- first, and then those that have waited for it alone.
CREATE FUNCTION repair_stuck(n integer, wants integer[], has integer[]) RETURNS integer[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	waits integer[] := array_fill(0, ARRAY[n]);
	first integer[] := array_fill(0, ARRAY[n]);
	free integer[];
	done integer := 0;
	i integer;
BEGIN
	FOR i IN REVERSE cardinality(wants) .. 1 LOOP
		waits[wants[i]] := waits[wants[i]] + 1;
		first[has[i]] := i;
	END LOOP;
	free := ARRAY(SELECT w.place FROM unnest(waits) WITH ORDINALITY AS w(number, place)
		WHERE w.number = 0);
	WHILE done < cardinality(free) LOOP
		done := done + 1;
		i := first[free[done]];
		WHILE i > 0 AND has[i] = free[done] LOOP
			waits[wants[i]] := waits[wants[i]] - 1;
			IF waits[wants[i]] = 0 THEN
				free := array_append(free, wants[i]);
			END IF;
			i := CASE WHEN i < cardinality(has) THEN i + 1 ELSE 0 END;
		END LOOP;
	END LOOP;
	RETURN ARRAY(SELECT w.place FROM unnest(waits) WITH ORDINALITY AS w(number, place)
		WHERE w.number > 0 ORDER BY 1);
END
$$;

-- The work in which updates that no order helps are deletes and inserts, or skipped.
-- Rows that others refer to, or with long values, are skipped with those that wait for their
-- values, and the rest is done.  No row can begin to refer to one that the claim has locked.
CREATE FUNCTION repair_exchange(INOUT work repair_work) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	asked repair_options := plan.asked;
	-- the indexes that updates may violate for a while; none sets the columns of the key
	uniques repair_unique[] := ARRAY(SELECT u FROM unnest((plan.described).uniques) AS u
		WHERE (plan.compared).is_unique AND NOT u.columns <@ ARRAY(
			SELECT c.name FROM unnest(plan.columns) AS c WHERE c.key));
	names text[];			-- the columns of these indexes
	triggers text := repair_triggers(plan, '{insert,update,delete}');
	others text := (SELECT string_agg(quote_ident(t.name), ', ')
		FROM unnest((plan.described).columns) AS t
		WHERE NOT t.generated AND t.name NOT IN (SELECT c.name FROM unnest(plan.columns) AS c));
	problem text;
	part text;
	ids text[] := '{}';
	rows text[] := '{}';
	long text[] := '{}';
	waiting record;
	stuck integer[];		-- places in these lists
	said text;
	x record;
BEGIN
	IF uniques <> '{}' THEN
		names := ARRAY(SELECT DISTINCT c FROM generate_series(1, work.batches) AS n,
				unnest(repair_due(work, n, 'update')) AS s, unnest(s.columns) AS c)
			|| ARRAY(SELECT t.name FROM unnest((plan.described).columns) AS t WHERE t.generated);
		uniques := ARRAY(SELECT u FROM unnest(uniques) AS u WHERE u.columns && names);
	END IF;
	IF uniques = '{}' THEN
		RETURN;
	END IF;
	names := ARRAY(SELECT DISTINCT c FROM unnest(uniques) AS u, unnest(u.columns) AS c
		ORDER BY 1);
	-- inserts may wait for the updates
	FOREACH part IN ARRAY '{update,insert}'::text[] LOOP
		x := repair_unique_rows(work, names, part);
		ids := ids || x.ids;
		rows := rows || x.rows;
		long := long || x.long;
		waiting := repair_waiting(plan, uniques, names, rows);
		stuck := repair_stuck(cardinality(ids), waiting.wants, waiting.has);
		IF stuck = '{}' THEN
			RETURN;
		END IF;
		said := coalesce(said, format('exchanges values of %s with other rows', (
			SELECT string_agg(u.name, ', ') FROM unnest(uniques) WITH ORDINALITY AS u
			WHERE u.ordinality IN (
				SELECT w.by_index FROM unnest(waiting.wants, waiting.by_index) AS w(wants, by_index)
				WHERE w.wants = ANY (stuck)))));
	END LOOP;
	problem := CASE WHEN asked.winner = 'newest' THEN 'winner => ''newest'''
		WHEN NOT asked.deletes THEN 'deletes => false'
		WHEN NOT asked.inserts THEN 'inserts => false'
		WHEN triggers <> '' THEN 'triggers would fire: ' || triggers
		WHEN (plan.described).rules THEN 'the table may have rules'
		WHEN others <> '' THEN 'columns that are not compared would be lost: ' || others
		WHEN EXISTS (SELECT FROM unnest((plan.described).foreign_keys) AS k WHERE k.self)
		THEN 'the table refers to itself' END;
	-- why they must not be deleted and inserted, and the places of those for which that is so
	FOR x IN SELECT problem, stuck AS places WHERE problem IS NOT NULL
			UNION ALL
			SELECT format('rows of %s, which may not be read, may refer to them by constraint %s',
				k.relation, k.name), stuck
			FROM unnest((plan.described).foreign_keys) AS k
			WHERE problem IS NULL AND NOT k.readable
			UNION ALL
			SELECT format('rows of %s refer to them by constraint %s', k.relation, k.name),
				repair_ask_rows(plan, rows,
					(SELECT string_agg(format('t.%I', c), ', ') FROM unnest(k.referenced) AS c),
					format(' SELECT coalesce(array_agg(DISTINCT iblt_n), ''{}'')::text'
						' FROM iblt_o AS iblt_d JOIN %s AS r ON %s', k.relation, k.matches)
					)::integer[]
			FROM unnest((plan.described).foreign_keys) AS k
			WHERE problem IS NULL AND k.readable
			UNION ALL
			SELECT 'a value is too long to be read again', ARRAY(SELECT u.place
				FROM unnest(ids) WITH ORDINALITY AS u(id, place) WHERE u.id = ANY (long)) LOOP
		-- with those that wait for their values
		PERFORM repair_skip_all(work, ARRAY(
				WITH RECURSIVE waiter AS (
					SELECT place FROM unnest(x.places) AS place WHERE place = ANY (stuck)
					UNION
					SELECT w.wants FROM waiter
					JOIN unnest(waiting.wants, waiting.has) AS w(wants, has) ON w.has = place)
				SELECT ids[place] FROM waiter),
			said || ': ' || x.problem);
	END LOOP;
	-- the updates of the other keys become deletes and inserts
	FOR n IN 1 .. work.batches LOOP
		SELECT array_agg(u.s) FILTER (WHERE NOT c.chosen) AS others,
			array_agg(jsonb_populate_record(u.s, c.change || '{"action": "delete"}'))
				FILTER (WHERE c.chosen) AS deletes,
			array_agg(jsonb_populate_record(u.s, c.change || '{"action": "insert"}'))
				FILTER (WHERE c.chosen) AS inserts INTO x
		FROM (SELECT unnest(repair_batch(work, n)) AS s) AS u,
		LATERAL (SELECT (u.s).action = 'update'
				AND (u.s).id IN (SELECT ids[place] FROM unnest(stuck) AS place),
			jsonb_build_object('columns', NULL, 'detail', said)) AS c(chosen, change);
		CONTINUE WHEN x.inserts IS NULL;
		PERFORM iblt_repair_put(plan.secret, n, x.inserts || x.others);
		work.parts[n] := '';
		work := repair_add(work, x.deletes);
	END LOOP;
END
$$;
