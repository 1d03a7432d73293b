-- Comparisons --------------------------------------------------------------------------
--
-- iblt_compare calls the steps: prepare (prepare.sql), find_keys (many.sql), and
-- differences, which calls look (lookup.sql), check_index (damaged_index.sql) and recheck
-- (confirm.sql).  doc/internals/walk.md follows one call.

-- The steps after the plan
--
-- find_keys gives the keys that differ, and differences() their rows as a stream,
-- which is never in memory as a whole.  Beside the rows, its figures go through the
-- setting that iblt_compare_stats reads.

-- What differs now, where keys differed in that many scans and no difference is left, and "gone" of
-- them had no row any more, nor perhaps had some of those that were rechecked; NULL if all that
-- differed has become equal.
-- A row that was deleted before the other side had it tells nothing: perhaps that side would never
-- have got it.  What has come since shows whether it gets such rows.  Of buckets only the next sums
-- tell what has become of their rows; of a small relation, all rows are read.
CREATE FUNCTION read_again(before found_keys, gone bigint, rechecked held[], scans integer)
RETURNS found_keys
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan := before.plan;
	keys text[] := keys_of_ids(plan, ARRAY(SELECT unnest(b.ids) FROM unnest(rechecked) AS b));
	-- a try without keys that are gone is enough
	most integer := CASE WHEN is_small(before.figures) THEN 10 ELSE 3 END;
	found found_keys := before;
BEGIN
	IF keys <> '{}' THEN
		gone := gone + keys_gone(plan, before.figures, keys, find_sides(plan, keys));
	END IF;
	IF gone = 0 AND (plan.buckets IS NULL OR cardinality(before.buckets) = plan.buckets) THEN
		RETURN NULL;
	ELSIF plan.buckets IS NOT NULL AND scans < most AND is_small(before.figures)
			AND plan.bytes <= 10e6 THEN
		found.buckets := ARRAY(SELECT n FROM generate_series(0, plan.buckets - 1) AS n);
		RETURN found;
	ELSIF gone = 0 OR scans < most THEN
		PERFORM progress(plan.progress,
			'what differed is equal or gone by now: the relations are read once more');
		plan.found := NULL;
		plan.part := NULL;		-- of a sample
		plan.parts := NULL;
		found := find_keys(plan);
		IF gone = 0 AND plain_arrived(before, found) THEN
			RETURN NULL;
		ELSIF scans < most THEN
			RETURN found;
		END IF;
	END IF;
	RAISE SQLSTATE 'IB003' USING DATATYPE = concat((before.figures).rows_here, ' ',
			(before.figures).rows_there, ' '),
		MESSAGE = 'rows kept changing: what differed was gone when it was looked up',
		DETAIL = format('In each of %s scans, rows differed that neither side had any more when '
			'they were looked up. Perhaps such rows do not reach the other side.', most),
		HINT = 'Compare at a quieter moment, or in slices (iblt_audit_run), which look sooner.';
END
$$;

-- The differences among the keys that find_keys gave, in batches, and behind them the figures.
-- Plain queries give buckets in place of keys.  Only when the rows of these are read, they tell
-- whether too many keys differ.  Then find_keys waits for replication, or ends in an error.  Rows
-- that are not rechecked are answered as they are read.
-- If no difference is left, all may have to be read once more (read_again).
CREATE FUNCTION differences(answer found_keys) RETURNS SETOF batch
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz;
	plan plan := answer.plan;
	figures figures;
	plain boolean := plan.buckets IS NOT NULL;
	number bigint;			-- of keys, or of buckets
	size integer;
	named key_sides;
	rows found_rows[];
	looked difference[];
	total bigint;
	batches held[];
	doubtful text[] := '{}';
	differences bigint := 0;	-- that are answered
	unconfirmed bigint := 0;
	gone bigint;			-- keys that have no row any more
	b batch;
BEGIN
	FOR scan IN 1 .. 10 LOOP
		gone := 0;
		LOOP
			started := clock_timestamp();
			plan := answer.plan;
			figures := answer.figures;
			number := CASE WHEN plain THEN cardinality(answer.buckets) ELSE answer.number END;
			size := CASE WHEN plain THEN plain_batch(plan, figures) ELSE batch_size(plan) END;
			batches := '{}';
			total := 0;
			FOR done IN 0 .. number - 1 BY size LOOP
				IF plain THEN
					named.keys := answer.buckets[done + 1 : done + size];
				ELSE
					named := iblt_compare_keys(answer.sample, answer.keys, done::integer, size);
				END IF;
				PERFORM progress(plan.progress, format(CASE
					WHEN plain THEN 'reading the rows of %s buckets on %s sides'
					ELSE 'looking %s keys up on %s sides%s' END,
					cardinality(named.keys),
					CASE WHEN plan.sides IS NULL THEN 'both' ELSE 'all' END,
					CASE WHEN number > size THEN format(', %s of %s are done', done, number) END));
				IF plain THEN
					rows := plain_find(plan, named.keys, true);
				ELSE
					rows := find_sides(plan, named.keys);
					doubtful := doubtful || doubtful(plan, answer.base, answer.said, named, rows);
				END IF;
				looked := differing(plan, rows, named.keys);
				IF NOT plain AND cardinality(looked) < cardinality(named.keys) THEN
					gone := gone + keys_gone(plan, figures, named.keys, rows);
				END IF;
				total := total + cardinality(looked);
				answer.exact := CASE WHEN done + size >= number THEN true END;
				EXIT WHEN plain AND total > plan.max_differences;
				IF plan.recheck > 0 THEN
					batches := kept(batches, hold(looked), number > size);
				ELSE
					differences := differences + cardinality(looked);
					RETURN NEXT ROW(looked, NULL, NULL, NULL)::batch;
				END IF;
			END LOOP;
			IF number > 0 THEN
				figures.lookup_ms := coalesce(figures.lookup_ms, 0) + ms(started);
			END IF;
			EXIT WHEN NOT plain OR total <= plan.max_differences;
			answer.number := total;
			answer.keys := NULL;
			answer.figures := figures;
			answer := find_keys(plan, answer);
		END LOOP;
		IF cardinality(doubtful) > 0 THEN
			PERFORM check_looked(plan, ARRAY(SELECT DISTINCT unnest(doubtful)));
			figures.lookup_ms := ms(started);
			doubtful := '{}';
		END IF;
		started := clock_timestamp();
		IF cardinality(batches) > 0 THEN
			FOR b IN SELECT * FROM recheck_batches(plan, batches) LOOP
				differences := differences + cardinality(b.differences);
				unconfirmed := unconfirmed
					+ (SELECT count(*) FROM unnest(b.differences) AS d WHERE NOT d.confirmed);
				RETURN NEXT b;
			END LOOP;
			figures.recheck_ms := ms(started);
		END IF;
		EXIT WHEN differences > 0 OR number = 0;
		answer.figures := figures;
		answer := read_again(answer, gone, batches, scan);
		EXIT WHEN answer.number IS NULL;
	END LOOP;
	RETURN NEXT ROW('{}', NULL, all_figures(plan, figures,
		CASE WHEN plain THEN total ELSE number END, differences, unconfirmed), plan)::batch;
END
$$;

-- All differences among the keys that find_keys gave, in memory.
CREATE FUNCTION comparison_of(answer found_keys) RETURNS batch
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	b batch;
	result batch;
BEGIN
	FOR b IN SELECT * FROM differences(answer) LOOP
		b.differences := result.differences || b.differences;
		b.waited := coalesce(b.waited, result.waited);
		result := b;
	END LOOP;
	RETURN result;
END
$$;

-- What the argument rows asks for, as options have it, '' for another value.
-- It is of any type, so that it takes a boolean and a text.
CREATE FUNCTION content_of(rows anycompatible) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN rows IS NULL THEN NULL
		WHEN lower(rows::text) IN ('false', 'f', 'off', 'no', '0') THEN 'none'
		WHEN lower(rows::text) IN ('true', 't', 'on', 'yes', '1') THEN 'rows'
		WHEN rows::text IN ('columns', 'changed') THEN rows::text ELSE '' END
$$;

CREATE FUNCTION @extschema@.iblt_compare(
	relation regclass DEFAULT NULL,
	peer text DEFAULT NULL,
	peer_relation text DEFAULT NULL,
	columns text[] DEFAULT NULL,
	exclude text[] DEFAULT NULL,
	key_columns text[] DEFAULT NULL,
	condition text DEFAULT NULL,
	peer_condition text DEFAULT NULL,
	max_differences bigint DEFAULT 100000,
	rows anycompatible DEFAULT false,
	cast_types boolean DEFAULT false,
	extra_columns text DEFAULT 'warn',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	seed bigint DEFAULT NULL,
	progress boolean DEFAULT false,
	on_too_many text DEFAULT 'error',
	live text DEFAULT 'off',
	method text DEFAULT 'sketch',
	by_index boolean DEFAULT false,
	here_peer text DEFAULT NULL,
	here_relation text DEFAULT NULL,
	peer_columns jsonb DEFAULT NULL,
	expressions jsonb DEFAULT NULL,
	peer_expressions jsonb DEFAULT NULL)
RETURNS TABLE (key jsonb, side text, differs text[], here jsonb, there jsonb, confirmed boolean,
	here_count bigint, there_count bigint)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	content text := content_of(rows);
	mapping jsonb := CASE WHEN expressions IS NOT NULL THEN make_mapping(NULL, expressions) END;
	peer_mapping jsonb := CASE WHEN num_nulls(peer_columns, peer_expressions, expressions) < 3
		THEN make_mapping(peer_columns, coalesce(peer_expressions, expressions)) END;
	a attempt := first_attempt(ARRAY[here_peer, peer], @arguments options@);
	plan plan;
	answer found_keys;
	b batch;
	e failure;
BEGIN
	LOOP
		BEGIN
			a.conns := coalesce(a.conns, peer_conns(a.peers));
			a := begin_attempt(a, 'iblt_compare', relation, here_relation);
			IF on_too_many IS DISTINCT FROM 'error' THEN
				IF on_too_many IS DISTINCT FROM 'sample' THEN
					RAISE invalid_parameter_value USING
						MESSAGE = 'on_too_many must be error or sample';
				ELSIF (a.options).method = 'plain' THEN
					PERFORM plain_check('it gives no sample', 'Leave on_too_many out.');
				END IF;
			END IF;
			plan := prepare(a.conns, relation, peer_relation, a.options);
			IF plan.live_problem IS NOT NULL THEN
				PERFORM live_notice(plan);
			END IF;
			plan.sample := on_too_many = 'sample';
			answer := find_keys(plan);
			IF plan.from_digests THEN
				PERFORM live_notice(answer.plan);
			END IF;
			IF answer.number = 0 THEN
				b.figures := all_figures(answer.plan, answer.figures, 0, 0, 0);
			ELSE
				FOR b IN SELECT * FROM differences(answer) LOOP
					CONTINUE WHEN cardinality(b.differences) = 0;	-- before a query is planned
					-- in FROM, unnest would have the planner look for ways to hash a batch
					RETURN QUERY SELECT (u.d).key, (u.d).side, (u.d).differs, (u.d).here,
						(u.d).there, (u.d).confirmed, (u.d).here_count, (u.d).there_count
						FROM (SELECT unnest(b.differences) AS d) AS u;
				END LOOP;
			END IF;
			PERFORM peers_close(a.conns);
			EXIT;
		EXCEPTION WHEN @on_any_error@ THEN
			@take_failure@;
			a := begin_again(a, plan, e);
			IF a.number IS NULL THEN
				RAISE;
			END IF;
			plan := NULL;
		END;
	END LOOP;
	PERFORM keep_stats('iblt_compare', to_jsonb(b.figures)
		|| jsonb_build_object('total_ms', ms(started), 'finished_at', clock_timestamp()));
	IF (b.figures).by_index THEN
		PERFORM iblt_tell('notice', by_index_note(answer.plan));
	END IF;
	IF NOT (b.figures).complete THEN
		PERFORM iblt_tell('warning',
			format('too many differences: these %s are a sample of about %s',
				(b.figures).differences, (b.figures).estimated),
			format('A hash divides the keys into %s parts. These are those of one part.',
				(b.figures).parts), 'See iblt_compare_stats() for the figures.');
	END IF;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_compare IS
'the rows that differ between a relation here and one on a peer, or in this database: key, side, '
'columns that differ, both rows';
