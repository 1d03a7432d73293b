-- Sketches -----------------------------------------------------------------------------
--
-- Both sides are scanned at the same time, each into a sketch.  Another server keeps its own
-- and sends folds of it, until one is large enough for the difference.

-- Cells of a subtable of the next fold to ask for: enough for that many keys, and at least twice
-- what is known.  The sketch says which sizes there are.
CREATE FUNCTION iblt_compare_next(s @extschema@.iblt, known integer, wanted integer)
RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The keys of two lists that iblt_compare_decode made as one, in order.
CREATE FUNCTION iblt_compare_join(s @extschema@.iblt, a bytea, b bytea) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- The name under which a session keeps the sketch of a side: another server's, where it takes the
-- place of the last one of that side and connection, or this one.
-- Behind a pooler, another comparison with a connection of this name may use the same
-- session there.  It must not take this sketch for its own.
CREATE FUNCTION kept_name(plan plan, s side) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT concat(coalesce(s.place, CASE s.side WHEN 'there' THEN 'iblt there'
		ELSE 'iblt here' END),
		CASE WHEN s.side = 'there' AND (plan.here).place = s.place THEN ' there' END,
		chr(9), plan.kept)
$$;

-- A query for what the scan of a side gives.
CREATE FUNCTION scan_sql(plan plan, s side, capacity integer) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
	SELECT format('SELECT scan_answer(%L, s, f, %s%s)::text FROM (SELECT %s OFFSET 0) AS q(s, f)',
		kept_name(plan, s), elapsed_sql(s), CASE WHEN s.place IS NULL THEN ', false' END,
		sketch_sql(plan, s, capacity))
$$;

-- The sketch of a side, which is not kept any more, or the fold of it that it has sent.
CREATE FUNCTION sketch_of(scanned scanned) RETURNS @extschema@.iblt
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s declared.sketch%TYPE;
BEGIN
	IF scanned.wire IS NULL THEN
		s := iblt_session_get(scanned.kept);
		PERFORM iblt_session_drop(scanned.kept);
		RETURN s;
	END IF;
	PERFORM iblt_traffic_add(0, 0, 0, octet_length(scanned.wire));
	RETURN scanned.wire;
END
$$;

-- An empty sketch of the size of those that both sides keep.
CREATE FUNCTION empty_sketch(plan plan, capacity integer) RETURNS @extschema@.iblt
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN CASE WHEN plan.from_digests
		THEN iblt_compare_fold(iblt_compare_template(4 * plan.live_cells, plan.key_size, plan.seed),
			plan.live_cells)
		ELSE iblt_compare_template(capacity, plan.key_size, plan.seed) END;
END
$$;

-- Cells of a subtable of the next fold to ask for; "whole" is all of the sketch of this database,
-- or an empty one of that size.
-- The estimate is 9 % off.  A round trip costs more than a fold that is a fifth larger.
CREATE FUNCTION larger_fold(whole @extschema@.iblt, theirs @extschema@.iblt, estimated numeric)
RETURNS integer
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	have record := iblt_header(theirs);
BEGIN
	RETURN iblt_compare_next(whole, have.cells / have.hashes,
		least(1.2 * estimated, (iblt_header(whole)).capacity)::integer);
END
$$;

-- The fold that a place answers; an error unless it has the size that was asked for, or the
-- exchange would not end.
CREATE FUNCTION fold_of(answer text, subtable_cells integer, place text) RETURNS @extschema@.iblt
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	fold declared.sketch%TYPE := answer;
	header record := iblt_header(fold);
BEGIN
	IF header.cells = header.hashes * subtable_cells THEN
		RETURN fold;
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'data_exception',
		MESSAGE = format('%s answered with a sketch of another size', peer_title(place)),
		DETAIL = format('%s cells in place of %s.', header.cells, header.hashes * subtable_cells);
END
$$;

-- Does an estimate say that surely more keys than that differ?
-- The estimate of keys is above 1.6 times their number in one case of a million.  Rows
-- of a key that is not unique may count more than once in it.
CREATE FUNCTION surely_more(plan plan, estimated bigint, most bigint) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN plan.is_unique AND estimated > 1.6 * most;
END
$$;

-- The keys that differ, from folds of the size that it takes; NULL if more differ than
-- sketches of that capacity can tell.
-- "number" is that of the keys, or an estimate.  "sample" is a small fold of the difference.
CREATE FUNCTION exchange(plan plan, capacity integer, INOUT figures figures,
	OUT keys bytea, OUT number bigint, OUT sample @extschema@.iblt) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	scanned scanned[];
	here declared.sketch%TYPE;
	there declared.sketch%TYPE;
	empty declared.sketch%TYPE;		-- if no side is here: the size of both
	most record;
	larger integer;
	folds text[];
	difference declared.sketch%TYPE;
	status record;
	more boolean;
BEGIN
	IF (plan.found).keys IS NOT NULL THEN
		figures.rows_here := (plan.found).rows_here;
		figures.rows_there := (plan.found).rows_there;
		figures.scan_here_ms := (plan.found).ms_here;
		figures.scan_there_ms := (plan.found).ms_there;
		figures.scan_ms := greatest((plan.found).ms_here, (plan.found).ms_there);
		keys := (plan.found).keys;
		number := (plan.found).number;
		sample := (plan.found).sample;
		PERFORM progress(plan.progress, format('sketches of %s and %s rows: %s keys differ',
			figures.rows_here, figures.rows_there, number));
		RETURN;
	END IF;
	plan.kept := substr(replace(gen_random_uuid()::text, '-', ''), 1, 12);
	IF plan.progress THEN
		PERFORM progress_by_time(true);
	END IF;
	IF plan.from_digests THEN
		scanned := live_sketches(plan);
	ELSE
		scanned := ask_values(places_of(plan), ARRAY[scan_sql(plan, plan.here, capacity),
			scan_sql(plan, plan.there, capacity)], 0.005, NULL, reading_of(plan))::scanned[];
	END IF;
	IF plan.progress THEN
		PERFORM progress_by_time(false);
	END IF;
	here := sketch_of(scanned[1]);
	there := sketch_of(scanned[2]);
	PERFORM require_side_described(plan.here, scanned[1].fingerprint),
		require_side_described(plan.there, scanned[2].fingerprint);
	figures.rows_here := (iblt_header(here)).rows;
	figures.rows_there := (iblt_header(there)).rows;
	figures.scan_here_ms := coalesce(figures.scan_here_ms, 0) + scanned[1].ms;
	figures.scan_there_ms := coalesce(figures.scan_there_ms, 0) + scanned[2].ms;
	figures.scan_ms := coalesce(figures.scan_ms, 0) + ms(started);
	-- a variable would be a copy
	IF is_elsewhere(plan) THEN
		empty := empty_sketch(plan, capacity);
	END IF;
	most := iblt_header(CASE WHEN empty IS NOT NULL THEN empty
		WHEN (plan.here).place IS NULL THEN here ELSE there END);
	LOOP
		difference := iblt_subtract(here, there);
		status := iblt_compare_decode(difference);
		sample := coalesce(sample, iblt_fold(difference, 9, 0.1));
		keys := status.keys;
		number := CASE WHEN status.complete THEN status.recovered ELSE status.estimated END;
		more := NOT status.complete AND NOT surely_more(plan, number, most.capacity)
			AND least((iblt_header(here)).cells, (iblt_header(there)).cells) <> most.cells;
		IF plan.progress THEN
			PERFORM progress(true, format('sketches of %s and %s rows: %s', figures.rows_here,
				figures.rows_there, format(CASE WHEN status.complete THEN '%s keys differ'
				WHEN more AND is_elsewhere(plan)
				THEN 'about %s keys differ, asking for larger parts of both sketches'
				WHEN more
				THEN 'about %s keys differ, asking for a larger part of the peer''s sketch'
				ELSE 'about %s keys differ, more than sketches of this size can name' END,
				number)));
		END IF;
		EXIT WHEN NOT more;
		larger := larger_fold(CASE WHEN empty IS NOT NULL THEN empty
			WHEN (plan.here).place IS NULL THEN here ELSE there END,
			CASE WHEN (plan.there).place IS NULL THEN here ELSE there END, status.estimated);
		folds := ask_values(array_remove(places_of(plan), NULL), ARRAY(SELECT
			format('SELECT iblt_compare_fold(iblt_session_get(%L), %s)::text', kept_name(plan, s),
				larger)
			FROM unnest(ARRAY[plan.here, plan.there]) AS s WHERE s.place IS NOT NULL), 0);
		PERFORM iblt_traffic_add(0, 0, 0, octet_length(folds[1])
			+ coalesce(octet_length(folds[2]), 0));
		IF (plan.here).place IS NOT NULL THEN
			here := fold_of(folds[1], larger, (plan.here).place);
		END IF;
		IF (plan.there).place IS NOT NULL THEN
			there := fold_of(folds[cardinality(folds)], larger, (plan.there).place);
		END IF;
	END LOOP;
END
$$;

-- The capacity of the sketches of the first scan.
-- A large sketch slows a parallel scan down, so the first one is for at most 60000
-- differences (four subtables of 20160 cells), and for as many keys as the larger relation
-- has at most: of a small one, a sketch costs more than the scan.  Each foreign partition sends
-- one.  A slice is small, and so are its differences, as a rule: a sketch that stays in the
-- cache saves a twentieth of its scan.  Who repairs, and allows more differences than the
-- default, expects them: a second scan would cost more than a large sketch.
CREATE FUNCTION first_capacity(plan plan) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT least(greatest(4000, least(plan.max_differences, CASE
			WHEN has_bounds(plan) THEN 8000
			WHEN (plan.here).remote OR (plan.there).remote THEN 4000
			WHEN plan.content = 'texts' AND plan.max_differences > 120000
			THEN plan.max_differences / 2 ELSE 60000 END)),
		greatest(1000, coalesce((plan.here).most_rows, 60000),
			coalesce((plan.there).most_rows, 60000)))::integer
$$;

-- The largest capacity of a sketch that both sides are scanned into.
-- The memory of a comparison is several sketches.  Those of more keys than this are
-- made of one part of the keys after the other, each with a scan of its own.
CREATE FUNCTION part_capacity() RETURNS integer
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT 950000
$$;

-- As exchange, for all parts of the keys, one after the other.
CREATE FUNCTION exchange_parts(plan plan, capacity integer, INOUT figures figures,
	OUT keys bytea, OUT number bigint, OUT sample @extschema@.iblt) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	e record;
	rows_here bigint := 0;
	rows_there bigint := 0;
BEGIN
	number := 0;
	FOR part IN 0 .. plan.parts - 1 LOOP
		plan.part := part;
		e := exchange(plan, capacity, figures);
		figures := e.figures;
		rows_here := rows_here + figures.rows_here;
		rows_there := rows_there + figures.rows_there;
		number := number + e.number;
		IF e.keys IS NULL THEN
			keys := NULL;
			number := number * plan.parts / (part + 1);
			EXIT;
		ELSIF part = 0 OR e.number > 0 THEN
			-- a part without rows has no type of key
			keys := CASE WHEN sample IS NULL OR number = e.number THEN e.keys
				ELSE iblt_compare_join(e.sample, keys, e.keys) END;
			sample := e.sample;
		END IF;
	END LOOP;
	sample := coalesce(sample, e.sample);
	figures.rows_here := rows_here;
	figures.rows_there := rows_there;
END
$$;

-- The keys that differ, and the plan with the seed used; without keys, and with about how
-- many there are, if these are more than max_differences.
-- If the first sketch was too small, the next try is larger and has another seed.  An
-- estimate from cells of full capacity is 1.2 times the number of keys in two cases of a
-- hundred, and these cells fail to decode that many keys once in 10,000 times.  Of more keys it
-- has a standard deviation of a tenth.  Parts are
-- for so many keys that an estimate which is 1.5 times too small would do.
CREATE FUNCTION search(INOUT plan plan, INOUT figures figures, OUT number bigint,
	OUT exact boolean, OUT keys bytea, OUT sample @extschema@.iblt) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	most bigint := plan.max_differences;
	capacity integer := least(first_capacity(plan), part_capacity());
	e record;
BEGIN
	plan.parts := 1;
	FOR attempt IN CASE WHEN plan.from_digests THEN 0 ELSE 1 END .. 3 LOOP
		IF plan.parts = 1 THEN
			e := exchange(plan, capacity, figures);
		ELSE
			e := exchange_parts(plan, capacity, figures);
		END IF;
		plan.found := NULL;
		figures := e.figures;
		exact := e.keys IS NOT NULL;
		number := e.number;
		sample := coalesce(sample, e.sample);
		IF exact AND number <= most THEN
			keys := e.keys;
			EXIT;
		END IF;
		EXIT WHEN exact OR attempt = 3 OR surely_more(plan, number, most);
		IF plan.from_digests THEN
			EXIT WHEN plan.live = 'require';
			plan := live_give_up(plan,
				'more keys differ than digests of their capacity can tell');
			sample := NULL;
			CONTINUE;
		END IF;
		EXIT WHEN capacity::bigint * plan.parts >= most AND number > 1.2 * most;
		PERFORM progress(plan.progress,
			'the sketches were too small, the relations are scanned again');
		capacity := least(most, part_capacity(),
			greatest(4 * capacity, 1.7 * least(number, most)));
		plan.parts := ceil(attempt * 1.5 * least(number, most) / part_capacity());
		plan.seed := random_seed();
	END LOOP;
	plan.parts := NULL;
END
$$;
