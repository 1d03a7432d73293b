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
	RETURN format('SELECT scan_answer(%L, s, f, %s)::text FROM (SELECT %s OFFSET 0) AS q(s, f)',
		kept_name(plan, s), elapsed_sql(s),
		CASE WHEN plan.from_digests THEN format('live_read(%L, %L, %L), %s', s.relation,
			(s.live).generation, plan.live_cells, fingerprint_sql(s))
		ELSE sketch_sql(plan, s, capacity) END);

-- An empty sketch of the size of those that both sides keep.
CREATE FUNCTION empty_sketch(plan plan, capacity integer) RETURNS @extschema@.iblt
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE WHEN plan.from_digests
		THEN iblt_compare_fold(iblt_compare_template(4 * plan.live_cells, plan.key_size, plan.seed),
			plan.live_cells)
		ELSE iblt_compare_template(capacity, plan.key_size, plan.seed) END;

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
			RAISE EXCEPTION USING ERRCODE = 'data_exception',
				MESSAGE = format('%s answered with a sketch of another size',
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

-- The one of several sides from which the others differ least.
-- Any would do, but if it were the one that deviates, all folds would have to be as large as its
-- differences take.
CREATE FUNCTION base_of(folds @extschema@.iblt[]) RETURNS integer
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT n
		FROM generate_subscripts(folds, 1) AS a, generate_subscripts(folds, 1) AS b,
			LATERAL (SELECT (iblt_compare_decode(iblt_subtract(folds[a], folds[b]))).estimated
				OFFSET 0) AS d, unnest(ARRAY[a, b]) AS n
		WHERE a < b GROUP BY n ORDER BY sum(d.estimated), n LIMIT 1);

-- The keys that differ, from folds of the size that it takes; NULL if more differ than
-- sketches of that capacity can tell.
-- "number" is that of the keys, or an estimate of those of one side.  "sample" is a small fold of a
-- difference.  One side is the base, and its fold less that of each other side is decoded.  Rows
-- that are the same on all sides are in none of these differences, and a key on which any two sides
-- disagree is in one of them at least: of the two, one differs from the base.
CREATE FUNCTION exchange(plan plan, capacity integer, INOUT figures figures,
	OUT keys bytea, OUT number bigint, OUT sample @extschema@.iblt, OUT base integer,
	OUT said key_sides[], OUT small @extschema@.iblt[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	sides side[] := sides_of(plan);
	places text[] := places_of(plan);
	several boolean := cardinality(places) > 2;
	queries text[];
	scanned scanned[];
	folds declared.sketches%TYPE;
	larger declared.sketches%TYPE;
	rows bigint[];
	header record;
	most record;			-- the header of a sketch of the size that all keep
	whole integer;			-- cells of a subtable of that
	cells integer;			-- and of the folds
	list bytea;
	decoded bigint := 0;	-- keys, of all sides
	waiting integer[];		-- sides whose differences are not decoded yet
	still integer[];
	difference declared.sketch%TYPE;
	status record;
	more boolean;
BEGIN
	plan.kept := substr(replace(gen_random_uuid()::text, '-', ''), 1, 12);
	PERFORM progress_by_time(nullif(plan.progress, false));
	scanned := plan.found;
	IF scanned IS NULL THEN
		FOR n IN 1 .. cardinality(sides) LOOP
			queries[n] := scan_sql(plan, sides[n], capacity);
		END LOOP;
		scanned := ask_values(places, queries, NULL, CASE WHEN plan.from_digests IS NOT TRUE
			THEN reading_of(plan) END)::scanned[];
	END IF;
	PERFORM progress_by_time(CASE WHEN plan.progress THEN false END);
	FOR n IN 1 .. cardinality(sides) LOOP
		PERFORM require_side_described(sides[n], scanned[n].fingerprint);
		folds[n] := scanned[n].fold;
		figures.sketch_bytes := coalesce(figures.sketch_bytes, 0)
			+ CASE WHEN places[n] IS NULL THEN 0 ELSE octet_length(scanned[n].fold) END;
		header := iblt_header(folds[n]);
		rows[n] := header.rows;
		cells := least(cells, header.cells / header.hashes);
	END LOOP;
	figures.rows_here := rows[1];
	figures.rows_there := rows[2];
	figures.scan_here_ms := coalesce(figures.scan_here_ms, 0) + scanned[1].ms;
	figures.scan_there_ms := coalesce(figures.scan_there_ms, 0) + scanned[2].ms;
	figures.scan_ms := coalesce(figures.scan_ms, 0)
		+ greatest(ms(started), scanned[1].ms, scanned[2].ms);
	base := 1;
	waiting := '{2}';
	IF several THEN
		small := folds;
		base := base_of(small);
		waiting := array_remove(ARRAY(SELECT generate_subscripts(sides, 1)), base);
		said := array_fill(NULL::key_sides, ARRAY[cardinality(sides)]);
	END IF;
	LOOP
		still := '{}';
		number := 0;
		FOR i IN 1 .. cardinality(waiting) LOOP
			difference := iblt_subtract(folds[base], folds[waiting[i]]);
			status := iblt_compare_decode(difference);
			IF decoded = 0 AND (status.recovered > 0 OR sample IS NULL AND NOT status.complete) THEN
				-- a difference without rows has no type of key
				sample := iblt_fold(difference, 9, 0.1);
			END IF;
			IF NOT status.complete THEN
				still := still || waiting[i];
				number := greatest(number, status.estimated);
				CONTINUE;
			END IF;
			list := CASE WHEN decoded = 0 THEN status.keys
				WHEN status.recovered = 0 THEN list
				ELSE iblt_compare_join(sample, list, status.keys) END;
			IF several AND status.recovered > 0 THEN
				said[waiting[i]] := iblt_compare_keys(sample, status.keys, 0,
					status.recovered::integer);
			END IF;
			decoded := decoded + status.recovered;
		END LOOP;
		waiting := still;
		IF waiting = '{}' THEN
			keys := list;
			number := CASE WHEN several AND decoded > 0 THEN cardinality(
				(iblt_compare_keys(sample, list, 0, 2147483647)).keys) ELSE decoded END;
		END IF;
		more := waiting <> '{}' AND plan.found IS NULL;
		IF more THEN
			IF whole IS NULL THEN
				most := iblt_header(empty_sketch(plan, capacity));
				whole := most.cells / most.hashes;
			END IF;
			more := NOT surely_more(plan, number, most.capacity) AND cells <> whole;
		END IF;
		PERFORM progress(plan.progress, format('sketches of %s rows: %s',
			array_to_string(rows, ' and '), format(CASE WHEN keys IS NOT NULL
				THEN '%s keys differ' WHEN more
				THEN 'about %s keys differ, asking for larger parts of the sketches'
				ELSE 'about %s keys differ, more than sketches of this size can name' END,
				number)));
		EXIT WHEN NOT more;
		-- the estimate is 9 % off, and a round trip costs more than a fold that is a fifth larger
		cells := iblt_compare_next(whole, cells, least(1.2 * number, most.capacity)::integer);
		-- of the base and of those that are still waiting
		still := base || waiting;
		larger := larger_folds(plan, still, cells);
		FOR i IN 1 .. cardinality(still) LOOP
			folds[still[i]] := larger[i];
			-- it travels as base64
			figures.sketch_bytes := figures.sketch_bytes + CASE WHEN places[still[i]] IS NULL THEN 0
				ELSE 4 * ((pg_column_size(larger[i]) - 2) / 3) END;
		END LOOP;
		larger := NULL;
	END LOOP;
	-- what this session keeps may be large
	FOR n IN 1 .. cardinality(sides) LOOP
		CONTINUE WHEN places[n] IS NOT NULL;
		PERFORM iblt_session_drop(kept_name(plan, sides[n]));
	END LOOP;
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
-- The memory of a comparison is several sketches.  Those of more keys than part_capacity are made
-- of one part of the keys after the other, each with a scan of its own.  Parts are for a number of
-- keys that an estimate which is 1.5 times too small would do for.
CREATE FUNCTION search(plan plan, figures figures) RETURNS found_keys
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	most bigint := plan.max_differences;
	part_capacity CONSTANT integer := 950000;
	capacity integer := least(part_capacity, greatest(4000, least(most, CASE
			WHEN has_bounds(plan) THEN 8000
			WHEN (plan.here).remote OR (plan.there).remote THEN 4000
			WHEN plan.content = 'texts' AND most > 120000 THEN most / 2 ELSE 60000 END)),
		greatest(1000, coalesce((plan.here).most_rows, 60000),
			coalesce((plan.there).most_rows, 60000)));
	e record;
	list bytea;
	number bigint;
	rows_here bigint;
	rows_there bigint;
	found found_keys;
BEGIN
	IF plan.buckets IS NOT NULL THEN
		RETURN plain_search(plan, figures);
	END IF;
	plan.parts := 1;
	FOR attempt IN CASE WHEN plan.from_digests THEN 0 ELSE 1 END .. 3 LOOP
		number := 0;
		rows_here := 0;
		rows_there := 0;
		FOR part IN 0 .. plan.parts - 1 LOOP
			plan.part := part;
			e := exchange(plan, capacity, figures);
			IF plan.found IS NOT NULL AND e.keys IS NULL THEN
				-- the fold that came with the description was too small
				plan.found := NULL;
				e := exchange(plan, capacity, figures);
			END IF;
			figures := e.figures;
			found.exact := e.keys IS NOT NULL;
			number := number + e.number;
			rows_here := rows_here + figures.rows_here;
			rows_there := rows_there + figures.rows_there;
			found.sample := coalesce(found.sample, e.sample);
			-- a part without rows has no type of key
			list := CASE WHEN number = e.number THEN e.keys WHEN e.number = 0 THEN list
				ELSE iblt_compare_join(found.sample, list, e.keys) END;
			IF NOT found.exact THEN
				number := number * plan.parts / (part + 1);
				EXIT;
			END IF;
		END LOOP;
		figures.rows_here := rows_here;
		figures.rows_there := rows_there;
		found.base := e.base;
		found.said := e.said;
		found.small := coalesce(found.small, e.small);
		IF found.exact AND number <= most THEN
			found.keys := list;
			EXIT;
		END IF;
		EXIT WHEN found.exact OR attempt = 3 OR surely_more(plan, number, most);
		IF plan.from_digests THEN
			EXIT WHEN plan.live = 'require';
			plan := live_give_up(plan,
				'more keys differ than digests of their capacity can tell');
			found.sample := NULL;
			found.small := NULL;
			CONTINUE;
		END IF;
		EXIT WHEN capacity::bigint * plan.parts >= most AND number > 1.2 * most;
		PERFORM progress(plan.progress,
			'the sketches were too small, the relations are scanned again');
		capacity := least(most, part_capacity,
			greatest(4 * capacity, 1.7 * least(number, most)));
		plan.parts := ceil(attempt * 1.5 * least(number, most) / part_capacity);
		plan.seed := random_seed();
	END LOOP;
	plan.parts := NULL;
	found.plan := plan;
	found.figures := figures;
	found.number := number;
	RETURN found;
END
$$;
