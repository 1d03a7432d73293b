-- Sketches -----------------------------------------------------------------------------
--
-- Both sides are scanned at the same time, each into a sketch.  The peer keeps its own and
-- sends folds of it, until one is large enough for the difference.

CREATE FUNCTION iblt_internal.iblt_compare_refine(s iblt, evens iblt) RETURNS iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_internal.iblt_compare_refine(iblt, iblt) IS
'a sketch with twice the cells, from a fold of it by two and its even cells (iblt_session_evens)';

CREATE FUNCTION iblt_internal.iblt_compare_decode(s iblt, OUT complete boolean,
	OUT recovered bigint, OUT estimated bigint, OUT keys text[], OUT sides text[]) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_internal.iblt_compare_decode(iblt) IS
'as iblt_decode_status, but "estimated" counts keys; and if complete, the keys of a difference '
'"here - there" in order, each once and in one word (the text of the key, or of an array of its '
'columns), and the sides that they are on';

CREATE FUNCTION iblt_internal.sketch_sql(plan iblt_internal.plan, s iblt_internal.side,
	capacity integer) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	f iblt_internal.finder := iblt_internal.finder(plan, s);
BEGIN
	IF s.shards <> '{}' THEN
		RETURN iblt_internal.shards_sketch_sql(plan, s, capacity);
	ELSIF s.distributed THEN
		RETURN iblt_internal.distributed_sketch_sql(plan, s, capacity);
	END IF;
	RETURN format('%s.iblt_agg(%s, %s, iblt_internal.iblt_compare_template(%s, %s, %L)), %s'
		' FROM %s AS t%s', s.schema, f.key, iblt_internal.row_checksum_sql(plan, s),
		capacity, plan.key_size, plan.seed, iblt_internal.fingerprint_sql(s),
		s.relation, iblt_internal.condition_sql(plan, s));
END
$$;
COMMENT ON FUNCTION iblt_internal.sketch_sql(iblt_internal.plan, iblt_internal.side, integer) IS
'the sketch of a side and the fingerprint, as the rest of a SELECT';

CREATE FUNCTION iblt_internal.scan_here(plan iblt_internal.plan, query text,
	OUT sketch @extschema@.iblt, OUT fingerprint text) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	read record;
BEGIN
	IF iblt_internal.in_slice(plan) THEN
		read := iblt_internal.slice_sketch(query, plan.lo, plan.hi);
		sketch := read.sketch;
		fingerprint := read.fingerprint;
	ELSE
		EXECUTE query INTO sketch, fingerprint;
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.scan_here(iblt_internal.plan, text) IS
'the sketch and the fingerprint that a query gives here';

-- The first message is a small fold, which carries the meter.
CREATE FUNCTION iblt_internal.start_scan_there(conn text, plan iblt_internal.plan, query text)
RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	query := format(
		'SELECT json_build_array(%1$s.iblt_fold(%1$s.iblt_session_keep(%2$L, s), 10, 0.1),'
		' 1000 * extract(epoch FROM clock_timestamp() - statement_timestamp()), f)'
		' FROM (SELECT %3$s OFFSET 0) AS q(s, f)', (plan.there).schema, conn, query);
	IF iblt_internal.in_slice(plan) THEN
		PERFORM iblt_internal.peer_send_keys(conn, query, format(
			'SELECT iblt_internal.run_slice(%L, %L, %L)', query, plan.lo, plan.hi));
	ELSE
		PERFORM iblt_internal.peer_send(conn, query);
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.start_scan_there(text, iblt_internal.plan, text) IS
'starts the scan of the peer, which keeps its sketch under the name of the connection';

CREATE FUNCTION iblt_internal.scan(conn text, plan iblt_internal.plan, capacity integer,
	INOUT figures iblt_internal.figures, OUT mine @extschema@.iblt, OUT theirs @extschema@.iblt)
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	query text := iblt_internal.sketch_sql(plan, plan.there, capacity);
	read record;
	answer json;
	here text;	-- fingerprints
	there text;
	there_ms numeric;
BEGIN
	IF conn IS NOT NULL THEN
		PERFORM iblt_internal.start_scan_there(conn, plan, query);
	END IF;
	read := iblt_internal.scan_here(plan,
		'SELECT ' || iblt_internal.sketch_sql(plan, plan.here, capacity));
	mine := read.sketch;
	here := read.fingerprint;
	figures.scan_here_ms := coalesce(figures.scan_here_ms, 0) + iblt_internal.ms(started);
	IF conn IS NULL THEN
		read := iblt_internal.scan_here(plan, 'SELECT ' || query);
		theirs := read.sketch;
		there := read.fingerprint;
		there_ms := iblt_internal.ms(started);
	ELSE
		answer := iblt_internal.peer_value(conn, 0.005,
			CASE WHEN iblt_internal.in_slice(plan) THEN 2 ELSE 1 END);
		theirs := answer ->> 0;
		there := answer ->> 2;
		there_ms := round((answer ->> 1)::numeric, 1);
		PERFORM iblt_internal.iblt_traffic_add(0, 0, 0, length(answer ->> 0));
	END IF;
	PERFORM iblt_internal.require_described(plan, here, there);
	figures.rows_here := (@extschema@.iblt_info(mine)).rows;
	figures.rows_there := (@extschema@.iblt_info(theirs)).rows;
	figures.scan_there_ms := coalesce(figures.scan_there_ms, 0) + there_ms;
	figures.scan_ms := coalesce(figures.scan_ms, 0) + iblt_internal.ms(started);
END
$$;
COMMENT ON FUNCTION iblt_internal.scan(text, iblt_internal.plan, integer, iblt_internal.figures) IS
'scans both sides at the same time: the sketch here, and a fold of the one there';

CREATE FUNCTION iblt_internal.cells_for(s @extschema@.iblt, wanted integer) RETURNS integer
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (SELECT CASE WHEN wanted < i.capacity
		THEN (@extschema@.iblt_info(@extschema@.iblt_fold(s, wanted, 0.01))).cells ELSE i.cells END
	FROM @extschema@.iblt_info(s) AS i);
END
$$;
COMMENT ON FUNCTION iblt_internal.cells_for(iblt, integer) IS
'cells of the fold that has a capacity in 99 of 100 cases';

-- A fold that could not be decoded is made larger: to twice its cells, and then half of
-- these are sent, or else to the size that the estimate of keys asks for.
CREATE FUNCTION iblt_internal.larger_fold(conn text, schema text, mine @extschema@.iblt,
	theirs @extschema@.iblt, estimated numeric) RETURNS @extschema@.iblt
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	most record := @extschema@.iblt_info(mine);
	have record := @extschema@.iblt_info(theirs);
	wanted integer := least(most.capacity, greatest(1.1 * estimated, 10));
	needed integer := iblt_internal.cells_for(mine, wanted);
BEGIN
	IF needed <= 2 * have.cells AND most.cells % (2 * have.cells) = 0 THEN
		RETURN iblt_internal.iblt_compare_refine(theirs, iblt_internal.peer_sketch(conn,
			format('SELECT iblt_internal.iblt_session_evens(%L, %s)',
				conn, 2 * have.cells / have.hashes)));
	END IF;
	-- it must become larger, or it would be asked for again and again
	WHILE needed < 2 * have.cells AND needed < most.cells LOOP
		wanted := least(most.capacity, wanted + wanted::bigint / 4 + 1);
		needed := iblt_internal.cells_for(mine, wanted);
	END LOOP;
	RETURN iblt_internal.peer_sketch(conn, CASE WHEN needed = most.cells
		THEN format('SELECT %s.iblt_session_get(%L)', schema, conn)
		ELSE format('SELECT %1$s.iblt_fold(%1$s.iblt_session_get(%2$L), %3$s, 0.01)',
			schema, conn, wanted) END);
END
$$;
COMMENT ON FUNCTION iblt_internal.larger_fold(text, text, iblt, iblt, numeric) IS
'a larger fold of the sketch that the peer keeps, where iblt is in that schema';

-- The estimate of keys is above 1.6 times their number in one case of a million.  Rows
-- of a key that is not unique may count more than once in it.
CREATE FUNCTION iblt_internal.surely_more(plan iblt_internal.plan, estimated bigint, most bigint)
RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN plan.is_unique AND estimated > 1.6 * most;
END
$$;
COMMENT ON FUNCTION iblt_internal.surely_more(iblt_internal.plan, bigint, bigint) IS
'does an estimate say that surely more keys than that differ?';

-- "number" is that of the keys, or an estimate.  "sample" is a small fold of the difference.
CREATE FUNCTION iblt_internal.exchange(conn text, plan iblt_internal.plan, capacity integer,
	INOUT figures iblt_internal.figures, OUT keys text[], OUT sides text[], OUT number bigint,
	OUT sample @extschema@.iblt) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	scanned record := iblt_internal.scan(conn, plan, capacity, figures);
	theirs @extschema@.iblt := scanned.theirs;
	most record := @extschema@.iblt_info(scanned.mine);
	difference @extschema@.iblt;
	status record;
BEGIN
	figures := scanned.figures;
	LOOP
		difference := scanned.mine OPERATOR(@extschema@.-) theirs;
		status := iblt_internal.iblt_compare_decode(difference);
		PERFORM iblt_internal.progress(plan.progress, format(
			'sketches of %s and %s rows: about %s keys differ, %s decoded, %s',
			figures.rows_here, figures.rows_there, status.estimated, status.recovered,
			CASE WHEN status.complete THEN 'complete' ELSE 'not all' END));
		sample := coalesce(sample, @extschema@.iblt_fold(difference, 10, 0.1));
		keys := status.keys;
		sides := status.sides;
		number := CASE WHEN status.complete THEN status.recovered ELSE status.estimated END;
		EXIT WHEN status.complete OR (@extschema@.iblt_info(theirs)).cells = most.cells
			OR iblt_internal.surely_more(plan, number, most.capacity);
		theirs := iblt_internal.larger_fold(conn, (plan.there).schema, scanned.mine, theirs,
			status.estimated);
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_internal.exchange(text, iblt_internal.plan, integer,
	iblt_internal.figures) IS
'the keys that differ and their sides, from folds of the size that it takes; NULL if more differ '
'than sketches of that capacity can tell';

-- A large sketch slows a parallel scan down, so the first one is for at most 60000
-- differences (four subtables of 20160 cells), and not larger than the relations.  Each
-- foreign partition sends one.
CREATE FUNCTION iblt_internal.first_capacity(plan iblt_internal.plan) RETURNS integer
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN greatest(4000, least(plan.max_differences,
		CASE WHEN (plan.here).remote OR (plan.there).remote THEN 4000 ELSE 60000 END, coalesce(
		(plan.here).most_rows + (plan.there).most_rows, plan.max_differences)))::integer;
END
$$;
COMMENT ON FUNCTION iblt_internal.first_capacity(iblt_internal.plan) IS
'the capacity of the sketches of the first scan';

-- If the first sketch was too small, the next try is larger and has another seed.  An
-- estimate from cells of full capacity is 1.2 times the number of keys in two cases of a
-- hundred, and these cells fail to decode that many keys once in 10,000 times.
CREATE FUNCTION iblt_internal.search(conn text, INOUT plan iblt_internal.plan,
	INOUT figures iblt_internal.figures, OUT keys text[], OUT sides text[], OUT number bigint,
	OUT exact boolean, OUT sample @extschema@.iblt) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	most bigint := plan.max_differences;
	capacity integer := iblt_internal.first_capacity(plan);
	e record;
BEGIN
	FOR attempt IN 1 .. 3 LOOP
		e := iblt_internal.exchange(conn, plan, capacity, figures);
		figures := e.figures;
		exact := e.keys IS NOT NULL;
		number := e.number;
		sample := coalesce(sample, e.sample);
		IF exact AND number <= most THEN
			keys := e.keys;
			sides := e.sides;
		END IF;
		EXIT WHEN exact OR attempt = 3 OR iblt_internal.surely_more(plan, number, most)
			OR capacity >= most AND number > 1.2 * most;
		PERFORM iblt_internal.progress(plan.progress,
			'the sketches were too small, the relations are scanned again');
		capacity := least(most, greatest(16::bigint * capacity, 4 * least(number, most)));
		plan.seed := iblt_internal.random_seed();
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_internal.search(text, iblt_internal.plan, iblt_internal.figures) IS
'the keys that differ, their sides, and the plan with the seed used; without keys, and with about '
'how many there are, if these are more than max_differences';

-- Too many

CREATE FUNCTION iblt_internal.refuse_too_many(plan iblt_internal.plan, number bigint, exact boolean,
	problem text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	how_many text := format('%s%s keys differ, and max_differences is %s',
		CASE WHEN exact THEN '' ELSE 'about ' END, number, plan.max_differences);
	estimate text := CASE WHEN exact THEN NULL
		WHEN plan.is_unique
		THEN 'The number is an estimate, with a standard deviation of about 10 %.'
		ELSE 'The number is an estimate. A key with several rows may count more than once.' END;
BEGIN
	IF problem IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'IB002', MESSAGE = 'too many differences: ' || how_many,
			DETAIL = concat_ws(' ', 'No differences are returned.', estimate,
				CASE WHEN plan.recheck > 0 AND plan.links <> '{}'
				THEN 'Replication had passed before the relations were compared once more.' END),
			HINT = 'Raise max_differences, or compare a part of the rows by a condition.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'IB003',
		MESSAGE = 'too many differences to confirm: ' || how_many,
		DETAIL = concat_ws(' ', 'These may be rows in flight.', problem, estimate),
		HINT = 'Compare again when replication has caught up, or raise max_differences or timeout.';
END
$$;
COMMENT ON FUNCTION iblt_internal.refuse_too_many(iblt_internal.plan, bigint, boolean, text) IS
'the error for more differences than allowed; another one if a problem leaves open whether they '
'are rows in flight';

-- Rows of "before" and "after" cancel if both differences have them: of n and m rows
-- with c in common, n + m - 2c are left.  Fewer than n if c is more than half of m.
CREATE FUNCTION iblt_internal.persist(before @extschema@.iblt, after @extschema@.iblt)
RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (@extschema@.iblt_estimate(after OPERATOR(@extschema@.-) before)).estimated
		< (@extschema@.iblt_estimate(before)).estimated;
END
$$;
COMMENT ON FUNCTION iblt_internal.persist(iblt, iblt) IS
'did most of what differs now differ before, in the same way? Both sketches have one seed and size';

-- Too many differences are not rechecked one by one, and may all be rows in flight.  When
-- replication has passed, everything is compared once more, with the seed of the first time.
CREATE FUNCTION iblt_internal.find_keys(conn text, INOUT plan iblt_internal.plan,
	INOUT figures iblt_internal.figures, OUT keys text[], OUT sides text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found record := iblt_internal.search(conn, plan, figures);
	before @extschema@.iblt := found.sample;
	deadline timestamptz := clock_timestamp() + plan.timeout;
	problem text;
BEGIN
	IF found.keys IS NULL AND iblt_internal.unready(plan) THEN
		problem := 'Replication of this relation is not ready: the subscription is disabled or '
			'still copies the relation, or there is a standby between the sides.';
	ELSIF found.keys IS NULL AND plan.recheck > 0 THEN
		PERFORM iblt_internal.progress(plan.progress, format(
			'more than %s keys differ: waiting for replication, to compare once more',
			plan.max_differences));
		IF iblt_internal.settled(conn, plan, deadline)
				AND iblt_internal.passed(conn, plan, deadline) THEN
			plan.timeout := greatest(deadline - clock_timestamp(), '0 s');
			found := iblt_internal.search(conn, plan, found.figures);
			problem := CASE WHEN NOT iblt_internal.persist(before, found.sample)
				THEN 'Most of them did not differ before replication passed.' END;
		ELSE
			problem := format('iblt_compare did not see replication pass within the timeout (%s).',
				plan.timeout);
		END IF;
	END IF;
	IF found.keys IS NULL THEN
		PERFORM iblt_internal.refuse_too_many(plan, found.number, found.exact, problem);
	END IF;
	plan := found.plan;
	figures := found.figures;
	keys := found.keys;
	sides := found.sides;
END
$$;
COMMENT ON FUNCTION iblt_internal.find_keys(text, iblt_internal.plan, iblt_internal.figures) IS
'the keys that differ and their sides, at most max_differences, and the plan with the seed used; '
'if there are more, after a wait for what is in flight';
