-- Live comparison ----------------------------------------------------------------------
--
-- iblt_compare calls the steps: prepare (35), find_keys (52), and differences, which calls
-- look (60), check_index (80) and recheck (70).  doc/internals/walk.md follows one call.

-- The steps after the plan
--
-- find_keys (52) gives the keys that differ, and differences() their rows as a stream,
-- which is never in memory as a whole.  Beside the rows, its figures go through the
-- setting that iblt_compare_stats reads.

-- Differences among the keys of a batch of a list of that number, and those that an index may
-- hide.
CREATE FUNCTION iblt_internal.look_batch(conn text, plan iblt_internal.plan,
	sample @extschema@.iblt, keys bytea, done integer, number integer,
	OUT differences iblt_internal.difference[], OUT doubtful text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	size integer := iblt_internal.batch_size(plan);
	batch record := iblt_internal.iblt_compare_keys(sample, keys, done, size);
BEGIN
	PERFORM iblt_internal.progress(plan.progress, format('looking %s keys up on both sides%s',
		cardinality(batch.keys), CASE WHEN number > size
			THEN format(', %s of %s are done', done, number) END));
	differences := iblt_internal.look(conn, plan, batch.keys);
	doubtful := CASE WHEN plan.by_hash THEN '{}'
		ELSE iblt_internal.doubtful(batch.keys, batch.sides, differences) END;
END
$$;

-- The differences among the keys that find_keys gave; at the end, the figures are kept.
CREATE FUNCTION iblt_internal.differences(conn text, plan iblt_internal.plan,
	figures iblt_internal.figures, keys bytea, number bigint, sample @extschema@.iblt)
RETURNS SETOF iblt_internal.difference
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	size integer := iblt_internal.batch_size(plan);
	looked record;
	d iblt_internal.difference;
	batches iblt_internal.held[] := '{}';
	doubtful text[] := '{}';
	differences bigint := 0;
	unconfirmed bigint := 0;
BEGIN
	IF plan.buckets IS NOT NULL THEN
		RETURN QUERY SELECT * FROM iblt_internal.plain_differences(conn, plan);
		RETURN;
	END IF;
	FOR done IN 0 .. number - 1 BY size LOOP
		looked := iblt_internal.look_batch(conn, plan, sample, keys, done, number::integer);
		doubtful := doubtful || looked.doubtful;
		IF plan.recheck > 0 THEN
			batches := iblt_internal.kept(batches, iblt_internal.hold(looked.differences),
				number > size);
		ELSE
			differences := differences + cardinality(looked.differences);
			RETURN QUERY SELECT * FROM unnest(looked.differences);
		END IF;
	END LOOP;
	PERFORM iblt_internal.check_looked(conn, plan, doubtful);
	figures.lookup_ms := CASE WHEN number > 0 THEN iblt_internal.ms(started) END;
	IF batches <> '{}' THEN
		started := clock_timestamp();
		FOR d IN SELECT * FROM iblt_internal.recheck_batches(conn, plan, batches) LOOP
			differences := differences + 1;
			unconfirmed := unconfirmed + (NOT d.confirmed)::integer;
			RETURN NEXT d;
		END LOOP;
		figures.recheck_ms := iblt_internal.ms(started);
	END IF;
	PERFORM iblt_internal.keep_figures(iblt_internal.all_figures(plan, figures, number,
		differences, unconfirmed));
END
$$;

-- Compares as a plan says, with all differences in memory.
CREATE FUNCTION iblt_internal.run(conn text, plan iblt_internal.plan)
RETURNS iblt_internal.comparison
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found record := iblt_internal.find_keys(conn, plan, NULL);
	differences iblt_internal.difference[];
BEGIN
	differences := ARRAY(SELECT d FROM iblt_internal.differences(conn, found.plan, found.figures,
		found.keys, found.number, found.sample) AS d);
	RETURN ROW(found.plan, @extschema@.iblt_compare_stats(), differences);
END
$$;

-- Starting again

-- The side whose relation is not what was described any more, asked over a new connection; or
-- NULL.
CREATE FUNCTION iblt_internal.altered_side(conn text, peer text, plan iblt_internal.plan)
RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s iblt_internal.side;
	found text;
BEGIN
	IF conn IS NOT NULL THEN
		conn := iblt_internal.peer_connect(peer, conn);
	END IF;
	IF plan.buckets IS NOT NULL THEN
		PERFORM iblt_internal.peer_bare(conn);
	END IF;
	FOREACH s IN ARRAY ARRAY[plan.here, plan.there] LOOP
		found := iblt_internal.peer_ask(conn, s.side, 'SELECT '
			|| iblt_internal.read_fingerprint_sql(plan, s,
				format('pg_catalog.to_regclass(%L)', s.relation)));
		IF found IS DISTINCT FROM s.fingerprint THEN
			RETURN s.side;
		END IF;
	END LOOP;
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	-- the driver raises the error before this one
	RETURN NULL;
END
$$;

-- After an error: should a driver start again, because a relation was altered? After three
-- attempts, an error that says so.
-- For the handler of a driver, which raises the error again if this gives false.  A
-- statement may also fail because a column is not there any more, or is of another type.
CREATE FUNCTION iblt_internal.restarts(conn text, peer text, plan iblt_internal.plan,
	attempt integer, state text, message text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	altered text;
BEGIN
	IF state = 'IB004' OR state = 'IB008' AND plan.from_digests AND plan.live = 'auto' THEN
		PERFORM iblt_internal.peer_close(conn);
		RETURN attempt < 3;
	ELSIF plan IS NULL OR left(state, 2) NOT IN ('0A', '22', '3F', '42', 'XX') THEN
		RETURN false;
	END IF;
	PERFORM iblt_internal.peer_close(conn);
	altered := iblt_internal.altered_side(conn, peer, plan);
	PERFORM iblt_internal.peer_close(conn);
	IF altered IS NOT NULL AND attempt = 3 THEN
		PERFORM iblt_internal.refuse_altered(
			CASE altered WHEN 'here' THEN (plan.here).relation ELSE (plan.there).relation END,
			altered, message);
	END IF;
	RETURN altered IS NOT NULL;
END
$$;

-- Begins an attempt of a driver: with counters at 0, and a connection unless both relations
-- are here.
CREATE FUNCTION iblt_internal.connect(peer text, conn text, timeout interval DEFAULT NULL)
RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	traffic record := iblt_internal.iblt_traffic_take();
BEGIN
	IF conn IS NOT NULL THEN
		conn := iblt_internal.peer_connect(peer, conn, timeout);
	END IF;
	RETURN conn;
END
$$;

-- Is a sample the answer to too many differences? An error for another value.
CREATE FUNCTION iblt_internal.sampling(on_too_many text) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(on_too_many, '') NOT IN ('error', 'sample') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'on_too_many must be error or sample';
	END IF;
	RETURN on_too_many = 'sample';
END
$$;

-- Options with a label, or an error for those that do not fit.
CREATE FUNCTION iblt_internal.compare_options(relation regclass, options iblt_internal.options)
RETURNS iblt_internal.options
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- in a later attempt the relation may be gone, which is said of it by its name
	IF options.label IS NULL THEN
		PERFORM iblt_internal.check_options(relation, options);
		options.label := 'iblt_compare ' || relation::text;
	END IF;
	RETURN options;
END
$$;

-- The plan of iblt_compare.
CREATE FUNCTION iblt_internal.compare_plan(conn text, relation regclass, peer_relation text,
	options iblt_internal.options, on_too_many text) RETURNS iblt_internal.plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	plan iblt_internal.plan;
	sample boolean := iblt_internal.sampling(on_too_many);
BEGIN
	options.method := iblt_internal.plain_method(conn, options.method);
	IF options.method = 'plain' AND sample THEN
		PERFORM iblt_internal.plain_refuse('it gives no sample', 'Leave on_too_many out.');
	END IF;
	plan := iblt_internal.prepare(conn, relation, peer_relation, options);
	PERFORM iblt_internal.live_notice(plan);
	plan.sample := sample;
	RETURN plan;
END
$$;

-- What find_keys gives, and a notice if digests did not do.
CREATE FUNCTION iblt_internal.compare_find(conn text, plan iblt_internal.plan) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found record := iblt_internal.find_keys(conn, plan, NULL);
BEGIN
	IF plan.from_digests THEN
		PERFORM iblt_internal.live_notice(found.plan);
	END IF;
	RETURN found;
END
$$;

-- After an error: should a comparison start again? If not, the connection is closed, and the
-- error raised if the statement may hold a secret.
-- For the handler of iblt_compare.
CREATE FUNCTION iblt_internal.compare_failed(conn text, peer text, plan iblt_internal.plan,
	progress boolean, attempt integer, state text, message text, detail text, hint text)
RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	again boolean := false;
	secret boolean;
BEGIN
	BEGIN
		again := state NOT IN ('57014', 'P0004')
			AND iblt_internal.restarts(conn, peer, plan, attempt, state, message);
	EXCEPTION WHEN query_canceled OR OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
			detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		secret := iblt_internal.peer_is_string(peer);
		PERFORM iblt_internal.peer_fail(conn, secret, state, message, detail, hint);
		RAISE;
	END;
	IF again THEN
		PERFORM iblt_internal.progress(progress, CASE state
			WHEN 'IB008' THEN 'digests do not do, the comparison starts again and scans'
			ELSE 'a relation was altered, the comparison starts again' END);
		RETURN true;
	END IF;
	secret := iblt_internal.peer_is_string(peer);
	PERFORM iblt_internal.peer_fail(conn, secret, state, message, detail, hint);
	RETURN false;
END
$$;

-- The driver

-- The arguments of a driver, with a random seed if there is none.
CREATE FUNCTION iblt_internal.make_options(relation regclass, columns text[], exclude text[],
	key_columns text[], condition text, peer_condition text, max_differences bigint,
	content text, cast_types boolean, extra_columns text, recheck integer, timeout interval,
	seed bigint, progress boolean, live text DEFAULT 'off', method text DEFAULT 'sketch',
	by_index boolean DEFAULT false)
RETURNS iblt_internal.options
	LANGUAGE sql VOLATILE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ROW(iblt_internal.peer_name(relation, NULL), columns, exclude, key_columns, condition,
		coalesce(peer_condition, condition), max_differences, content, cast_types, extra_columns,
		recheck, timeout, coalesce(seed, iblt_internal.random_seed()), progress, NULL, NULL, NULL,
		live, NULL, method, by_index)::iblt_internal.options
$$;

CREATE FUNCTION iblt_compare(
	relation regclass,
	peer text DEFAULT NULL,
	peer_relation text DEFAULT NULL,
	columns text[] DEFAULT NULL,
	exclude text[] DEFAULT NULL,
	key_columns text[] DEFAULT NULL,
	condition text DEFAULT NULL,
	peer_condition text DEFAULT NULL,
	max_differences bigint DEFAULT 100000,
	rows boolean DEFAULT false,
	cast_types boolean DEFAULT false,
	extra_columns text DEFAULT 'warn',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	seed bigint DEFAULT NULL,
	progress boolean DEFAULT false,
	on_too_many text DEFAULT 'error',
	live text DEFAULT 'off',
	method text DEFAULT 'sketch',
	by_index boolean DEFAULT false)
RETURNS TABLE (key jsonb, side text, here jsonb, there jsonb, confirmed boolean,
	here_count bigint, there_count bigint)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	SET search_path = pg_catalog, pg_temp
	SET row_security = off
	SET enable_indexonlyscan = off
	SET constraint_exclusion = off
	SET array_nulls = on
	SET quote_all_identifiers = off
	SET jit = off
	SET DateStyle = 'ISO'
	SET IntervalStyle = 'postgres'
	SET TimeZone = 'UTC'
	SET extra_float_digits = 1
	SET bytea_output = 'hex'
	SET xmlbinary = 'base64'
	SET xmloption = 'content'
	SET lc_monetary = 'C'
	SET lc_numeric = 'C'
	SET lc_time = 'C'
	SET transform_null_equals = off
	SET standard_conforming_strings = on
	SET gin_fuzzy_search_limit = 0
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	options iblt_internal.options := iblt_internal.make_options(relation, columns, exclude,
		key_columns, condition, peer_condition, max_differences,
		CASE rows WHEN true THEN 'rows' WHEN false THEN 'none' END, cast_types, extra_columns,
		recheck, timeout, seed, progress, live, method, by_index);
	conn text := iblt_internal.peer_conn(peer);
	plan iblt_internal.plan;
	found record;
	again boolean;
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	FOR attempt IN 1 .. 3 LOOP
		BEGIN
			plan := NULL;
			options := iblt_internal.compare_options(relation, options);
			conn := iblt_internal.connect(peer, conn, timeout);
			plan := iblt_internal.compare_plan(conn, relation, peer_relation, options, on_too_many);
			found := iblt_internal.compare_find(conn, plan);
			RETURN QUERY SELECT d.key, d.side, d.here, d.there, d.confirmed,
				d.here_count, d.there_count FROM iblt_internal.differences(conn, found.plan,
					found.figures, found.keys, found.number, found.sample) AS d;
			PERFORM iblt_internal.peer_close(conn);
			EXIT;
		EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
			GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
				detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
			again := iblt_internal.compare_failed(conn, peer, plan, options.progress, attempt,
				state, message, detail, hint);
			IF NOT again THEN
				RAISE;
			END IF;
			options := iblt_internal.live_again(options, state, message);
		END;
	END LOOP;
	PERFORM iblt_internal.finish_figures(started);
END
$$;
COMMENT ON FUNCTION iblt_compare(regclass, text, text, text[], text[], text[], text, text, bigint,
	boolean, boolean, text, integer, interval, bigint, boolean, text, text, text, boolean) IS
'the rows that differ between a relation here and one on a peer, or in this database: key, side, '
'both rows';
