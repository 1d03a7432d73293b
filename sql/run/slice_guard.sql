-- The guard ------------------------------------------------------------------------------
--
-- Slices by key trust an index, which a scan does not.  A row that the index of one side
-- lacks looks like a difference, or a lookup by key says that the index is damaged.  A row that
-- the indexes of both sides lack is in no slice, and nobody compares it.
--
-- amcheck finds that.  It reads the whole relation in one statement.  Its fingerprints of
-- all index entries are in maintenance_work_mem: where this is too small, it may overlook
-- a row, in about 2 of 100 cases.
--
-- Without amcheck, a sample is looked up: rows of some blocks of the relation, by the index that
-- the planner takes, in one snapshot.  It finds an index that lacks many rows, as one with the
-- order of another library does, or one that was not kept up for a time.  It takes milliseconds,
-- but does not find a single row.
--
-- So after the last slice of a small table, a scan of each side counts the rows.  No slice reads a
-- row twice, or one of another slice (condition_sql).  So where the slices have read as many, they
-- have read all, unless a writer made up for it.  Where they have not, an index lacks rows, or
-- somebody wrote meanwhile, or a row stands in a partition that bounds exclude.  Then the table is
-- compared once more, as one slice, which needs no index.  A scan of a large table would cost as
-- much as amcheck, and hold back vacuum.

-- What a verdict by slices rests on, after a check of what slices of each side are read by:
-- thoroughly with amcheck, or by a sample of the rows, which are looked up by their key; an error
-- if an index is damaged.  A sample has about 300 blocks, and about 3000 rows of them.  The planner
-- chooses the index, as it does for slices.  "probes" are those of run_see.
CREATE FUNCTION slice_guard(plan plan, thorough boolean, probes jsonb[]) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	k slice_key := slice_key(plan);
	s side;
	names text[];
	collations text[];
	share numeric;
	queries text[];
	answers jsonb[];
	notes text[];
BEGIN
	FOR n IN 1 .. 2 LOOP
		s := (sides_of(plan))[n];
		names := own_names(s, k.columns);
		collations := (CASE n WHEN 1 THEN k.here ELSE k.there END).collations;
		share := least(1, 300.0 / greatest(1, (probes[n] ->> 'blocks')::bigint));
		-- OFFSET keeps the planner from reading all keys once, by an index or not
		queries[n] := CASE WHEN thorough THEN format(
				'SELECT iblt_internal.slice_check(%L::pg_catalog.regclass, %L)', s.relation, names)
			ELSE format('SELECT jsonb_build_object(''rows'', count(*),'
				' ''lost'', count(*) FILTER (WHERE NOT found))::text FROM ('
				'SELECT EXISTS (SELECT FROM %1$s AS f WHERE %2$s OFFSET 0) AS found'
				' FROM %1$s AS t TABLESAMPLE system (%3$s) WHERE random() < %4$s) AS s',
			relation_sql(s), (SELECT string_agg(format('f.%1$I%2$s = t.%1$I', names[i],
				' COLLATE ' || collations[i]), ' AND ') FROM generate_subscripts(names, 1) AS i),
			100 * share, 3000 / share / greatest(1, (probes[n] ->> 'rows')::bigint)) END;
	END LOOP;
	answers := ask_values(places_of(plan), queries,
		how => ROW(CASE WHEN NOT thorough THEN 'read_slice' END, NULL, NULL, NULL,
			reads(sides_of(plan), peers_known('bare')))::reading);
	FOR n IN 1 .. 2 LOOP
		IF (answers[n] ->> 'lost')::bigint > 0 THEN
			RAISE index_corrupted USING
				MESSAGE = format('an index of %s does not find rows that the table has (%s)',
					((sides_of(plan))[n]).relation, CASE n WHEN 1 THEN 'here' ELSE 'there' END),
				DETAIL = format('Of a sample of %s rows, it does not find %s.',
					answers[n] ->> 'rows', answers[n] ->> 'lost'),
				HINT = 'Find the index with amcheck (bt_index_check with heapallindexed), '
					'and REINDEX it.';
		END IF;
		notes[n] := CASE WHEN NOT thorough THEN 'not checked'
			WHEN answers[n] = '{"checked": 1, "others": 0}' THEN 'checked'
			ELSE format('indexes checked: %s, not checked: %s', answers[n] ->> 'checked',
				answers[n] ->> 'others') END;
	END LOOP;
	RETURN format('read by index %s (%s) here, %s (%s) there', (k.here).index, notes[1],
		(k.there).index, notes[2]);
END
$$;
