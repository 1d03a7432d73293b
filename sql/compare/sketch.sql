-- Sketches -----------------------------------------------------------------------------
--
-- Both sides are scanned at the same time, each into a sketch.  The session of each side keeps its
-- own and gives folds of it, until one is large enough for the difference.

-- Cells of a subtable of the next fold to ask for: enough for that many keys, and at least twice
-- what is known.  The cells of the whole sketch say which sizes there are.
CREATE FUNCTION iblt_compare_next(whole integer, known integer, wanted integer)
RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The keys of two lists that iblt_compare_decode made as one, in order.
CREATE FUNCTION iblt_compare_join(s @extschema@.iblt, a bytea, b bytea) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- The name under which a session keeps the sketch of a side, in place of the one before.
-- Two sides may be relations of one session.  Behind a pooler, another comparison may use the same
-- session.  It must not take this sketch for its own.
CREATE FUNCTION kept_name(plan plan, s side) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN concat('iblt ', CASE s.side WHEN 'there' THEN 'there' ELSE 'here' END, chr(9),
		plan.kept);

-- A query for what the scan of a side gives, or its digest.
CREATE FUNCTION scan_sql(plan plan, s side, capacity integer) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL SAFE
	RETURN format('SELECT scan_answer(%L, s, f, ms(%s))::text FROM (SELECT %s OFFSET 0) AS q(s, f)',
		kept_name(plan, s), begun_sql(s), sketch_sql(plan, s, capacity));

-- Folds of that size of the sketches that these sides keep; an error for one of another size, or
-- the exchange would not end.
CREATE FUNCTION larger_folds(plan plan, numbers integer[], subtable_cells integer)
RETURNS @extschema@.iblt[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sides side[] := ARRAY(SELECT (sides_of(plan))[n] FROM unnest(numbers) AS n);
	form declared.sketch%TYPE;
	folds declared.sketches%TYPE := ask_values(iblt_field(sides, 'place'), ARRAY(SELECT format(
			'SELECT iblt_compare_fold(iblt_session_get(%L), %s)::text', kept_name(plan, s),
			subtable_cells) FROM unnest(sides) AS s), form => form);
	header record;
BEGIN
	FOR i IN 1 .. cardinality(folds) LOOP
		header := iblt_header(folds[i]);
		IF header.cells <> header.hashes * subtable_cells THEN
			RAISE data_exception USING MESSAGE = format('%s answered with a sketch of another size',
					peer_title(sides[i].place)),
				DETAIL = format('%s cells in place of %s.', header.cells,
					header.hashes * subtable_cells);
		END IF;
	END LOOP;
	RETURN folds;
END
$$;

-- Does an estimate say that surely more keys than that differ?
-- The estimate of keys is above 1.6 times their number in one case of a million.  Rows
-- of a key that is not unique may count more than once in it.
CREATE FUNCTION surely_more(plan plan, estimated bigint, most bigint) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN plan.is_unique AND estimated > 1.6 * most;

-- Cells of a subtable of the folds to ask for next, where about that number of keys differ and such
-- a fold was too small; NULL if larger ones are not there, or would not do.
-- The estimate is 9 % off, and a round trip costs more than a fold that is a fifth larger.
CREATE FUNCTION next_cells(plan plan, capacity integer, number bigint, fold @extschema@.iblt)
RETURNS integer
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	known record := iblt_header(fold);
	-- of an empty sketch of the size that all keep
	most record := iblt_header(CASE WHEN plan.from_digests
		THEN iblt_compare_fold(iblt_compare_template(4 * plan.live_cells, plan.key_size, plan.seed),
			plan.live_cells)
		ELSE iblt_compare_template(capacity, plan.key_size, plan.seed) END);
BEGIN
	RETURN CASE WHEN plan.found IS NOT NULL OR surely_more(plan, number, most.capacity)
			OR known.cells = most.cells THEN NULL
		ELSE iblt_compare_next(most.cells / most.hashes, known.cells / known.hashes,
			least(1.2 * number, most.capacity)::integer) END;
END
$$;

-- The keys that differ, from folds of the size that it takes; NULL if more differ than
-- sketches of that capacity can tell.  Figures are added to those given.
-- "number" is that of the keys, or an estimate of those of one side.
-- One side is the base, and its fold less that of each other side is decoded.  Rows
-- that are the same on all sides are in none of these differences, and a key on which any two sides
-- disagree is in one of them at least: of the two, one differs from the base.
CREATE FUNCTION exchange(plan plan, capacity integer, figures figures) RETURNS found_keys
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	sides side[] := sides_of(plan);
	places text[] := iblt_field(sides, 'place');
	s side;
	queries text[];
	scanned scanned[] := plan.found;
	folds declared.sketches%TYPE;
	larger declared.sketches%TYPE;
	several boolean;		-- NULL for two sides
	rows bigint[];
	cells integer;			-- of a subtable of the folds to ask for next
	list bytea;
	decoded bigint;			-- keys, of all sides
	waiting integer[];		-- sides whose differences are not decoded yet
	still integer[];
	difference declared.sketch%TYPE;
	status record;
	found found_keys;
BEGIN
	plan.kept := left(gen_random_uuid()::text, 13);
	IF plan.progress THEN
		PERFORM progress_by_time(true);
	END IF;
	IF scanned IS NULL THEN
		FOREACH s IN ARRAY sides LOOP
			queries := array_append(queries, scan_sql(plan, s, capacity));
		END LOOP;
		scanned := ask_values(places, queries, NULL, CASE WHEN plan.from_digests IS NOT TRUE
			THEN reading_of(plan) END)::scanned[];
	END IF;
	IF plan.progress THEN
		PERFORM progress_by_time(false);
	END IF;
	FOR n IN 1 .. cardinality(sides) LOOP
		IF scanned[n].fingerprint IS DISTINCT FROM sides[n].fingerprint THEN
			PERFORM refuse_altered(sides[n].relation, sides[n].side);
		END IF;
		folds[n] := scanned[n].fold;
		rows[n] := (iblt_header(folds[n])).rows;
		figures.sketch_bytes := coalesce(figures.sketch_bytes, 0)
			+ CASE WHEN places[n] IS NULL THEN 0 ELSE octet_length(scanned[n].fold) END;
	END LOOP;
	SELECT rows[1], rows[2], coalesce(figures.scan_here_ms, 0) + scanned[1].ms,
		coalesce(figures.scan_there_ms, 0) + scanned[2].ms,
		coalesce(figures.scan_ms, 0) + greatest(ms(started), scanned[1].ms, scanned[2].ms),
		-- there is no difference to decode of two folds that are the same to the byte
		1, 0, 0, '{}', CASE scanned[2].fold WHEN scanned[1].fold THEN '{}' ELSE '{2}' END
	INTO figures.rows_here, figures.rows_there, figures.scan_here_ms, figures.scan_there_ms,
		figures.scan_ms, found.base, found.number, decoded, still, waiting;
	IF cardinality(places) > 2 THEN
		several := true;
		found.small := folds;
		-- The one from which the others differ least.  If it were the one that deviates, all folds
		-- would have to be as large as its differences take.
		SELECT n INTO found.base
		FROM generate_subscripts(folds, 1) AS a, generate_subscripts(folds, 1) AS b,
			LATERAL (SELECT (iblt_compare_decode(iblt_subtract(folds[a], folds[b]))).estimated
				OFFSET 0) AS d, unnest(ARRAY[a, b]) AS n
		WHERE a < b GROUP BY n ORDER BY sum(d.estimated), n LIMIT 1;
		waiting := array_remove(ARRAY(SELECT generate_subscripts(sides, 1)), found.base);
		found.said := array_fill(NULL::key_sides, ARRAY[cardinality(sides)]);
	END IF;
	LOOP
		FOR i IN 1 .. cardinality(waiting) LOOP
			difference := iblt_subtract(folds[found.base], folds[waiting[i]]);
			status := iblt_compare_decode(difference);
			IF decoded = 0 AND (status.recovered > 0
					OR found.sample IS NULL AND NOT status.complete) THEN
				-- a difference without rows has no type of key
				found.sample := iblt_fold(difference, 9, 0.1);
			END IF;
			IF NOT status.complete THEN
				still := still || waiting[i];
				found.number := greatest(found.number, status.estimated);
				CONTINUE;
			END IF;
			list := CASE WHEN decoded = 0 THEN status.keys
				WHEN status.recovered = 0 THEN list
				ELSE iblt_compare_join(found.sample, list, status.keys) END;
			IF several AND status.recovered > 0 THEN
				found.said[waiting[i]] := iblt_compare_keys(found.sample, status.keys, 0,
					status.recovered::integer);
			END IF;
			decoded := decoded + status.recovered;
		END LOOP;
		IF still = '{}' THEN
			SELECT true, coalesce(list, ''), CASE WHEN several AND decoded > 0 THEN cardinality(
					(iblt_compare_keys(found.sample, list, 0, 2147483647)).keys) ELSE decoded END
			INTO found.exact, found.keys, found.number;
		ELSE
			found.exact := false;
			cells := next_cells(plan, capacity, found.number, folds[found.base]);
		END IF;
		IF plan.progress THEN
			PERFORM progress(true, format('sketches of %s rows: %s', array_to_string(rows, ' and '),
				format(CASE WHEN found.exact THEN '%s keys differ' WHEN cells > 0
					THEN 'about %s keys differ, asking for larger parts of the sketches'
					ELSE 'about %s keys differ, more than sketches of this size can name' END,
					found.number)));
		END IF;
		EXIT WHEN found.exact OR cells IS NULL;
		-- of the base and of those that are still waiting
		waiting := still;
		still := found.base || waiting;
		larger := larger_folds(plan, still, cells);
		FOR i IN 1 .. cardinality(still) LOOP
			folds[still[i]] := larger[i];
			-- it travels as base64
			figures.sketch_bytes := figures.sketch_bytes + CASE WHEN places[still[i]] IS NULL THEN 0
				ELSE 4 * ((pg_column_size(larger[i]) - 2) / 3) END;
		END LOOP;
		larger := NULL;
		still := '{}';
		found.number := 0;
	END LOOP;
	found.plan := plan;
	found.figures := figures;
	RETURN found;
END
$$;

-- The keys that differ, and the plan with the seed used; without keys, and with about how
-- many there are, if these are more than max_differences.
-- A large sketch slows a parallel scan down, so the first one is for at most 60000
-- differences (four subtables of 20160 cells), and for as many keys as the larger relation
-- has at most: of a small one, a sketch costs more than the scan.  Each foreign partition sends
-- one.  A slice is small, and so are its differences, as a rule: a sketch that stays in the
-- cache saves a twentieth of its scan.  Who repairs, and allows more differences than the
-- default, expects them: a second scan would cost more than a large sketch.
-- If the first sketch was too small, the next try is larger and has another seed.  An
-- estimate from cells of full capacity is 1.2 times the number of keys in two cases of a
-- hundred, and these cells fail to decode that many keys once in 10,000 times.  Of more keys it
-- has a standard deviation of a tenth.
-- The memory of a comparison is several sketches.  Those of more keys than 950000 are made
-- of one part of the keys after the other, each with a scan of its own.  Parts are for a number of
-- keys that an estimate which is 1.5 times too small would do for.
CREATE FUNCTION search(plan plan, figures figures) RETURNS found_keys
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	most bigint := plan.max_differences;
	capacity integer := least(950000, greatest(4000, least(most, CASE
			WHEN has_bounds(plan) THEN 8000
			WHEN (plan.here).remote OR (plan.there).remote THEN 4000
			WHEN plan.content = 'texts' AND most > 120000 THEN most / 2 ELSE 60000 END)),
		greatest(1000, coalesce((plan.here).most_rows, 60000),
			coalesce((plan.there).most_rows, 60000)));
	attempt integer := 1;	-- of three scans
	one found_keys;			-- of a part
	found found_keys;
BEGIN
	IF plan.buckets IS NOT NULL THEN
		RETURN plain_search(plan, figures);
	END IF;
	found := exchange(plan, capacity, figures);
	WHILE NOT found.exact LOOP
		IF plan.found IS NOT NULL THEN
			-- the fold that came with the description was too small
			plan.found := NULL;
			found := exchange(plan, capacity, figures);
			CONTINUE;
		END IF;
		EXIT WHEN attempt = 3 OR surely_more(plan, found.number, most);
		IF plan.from_digests THEN
			EXIT WHEN plan.live = 'require';
			plan := live_give_up(plan,
				'more keys differ than digests of their capacity can tell');
			found.sample := NULL;
			found.small := NULL;
		ELSE
			EXIT WHEN capacity * coalesce(plan.parts, 1) >= most AND found.number > 1.2 * most;
			PERFORM progress(plan.progress,
				'the sketches were too small, the relations are scanned again');
			capacity := least(most, 950000,
				greatest(4 * capacity, 1.7 * least(found.number, most)));
			plan.parts := nullif(
				ceil(attempt * 1.5 * least(found.number, most) / 950000), 1);
			plan.seed := random_seed();
			attempt := attempt + 1;
		END IF;
		FOR part IN 0 .. coalesce(plan.parts, 1) - 1 LOOP
			plan.part := part;
			one := exchange(plan, capacity, found.figures);
			-- of an attempt or a part before, the first small folds
			one.sample := coalesce(found.sample, one.sample);
			one.small := coalesce(found.small, one.small);
			IF part > 0 THEN
				one.number := found.number + one.number;
				one.figures.rows_here := (found.figures).rows_here + (one.figures).rows_here;
				one.figures.rows_there := (found.figures).rows_there + (one.figures).rows_there;
				-- a part without rows has no type of key
				one.keys := CASE found.number WHEN 0 THEN one.keys WHEN one.number THEN found.keys
					ELSE iblt_compare_join(one.sample, found.keys, one.keys) END;
			END IF;
			found := one;
			one := NULL;		-- of the memory of its keys
			IF NOT found.exact THEN
				found.keys := NULL;
				found.number := found.number * coalesce(plan.parts, 1) / (part + 1);
				EXIT;
			END IF;
		END LOOP;
		found.plan.parts := NULL;
	END LOOP;
	IF found.number > most THEN
		found.keys := NULL;
	END IF;
	RETURN found;
END
$$;
