-- Live comparison ----------------------------------------------------------------------
--
-- iblt_compare calls compare, which calls the steps: prepare (35), find_keys (50), look (60),
-- check_index (80), recheck (70).  doc/walk.md follows one call.

-- Figures

CREATE FUNCTION iblt_internal.keep_figures(figures iblt_internal.figures) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM set_config('iblt.compare_stats', to_jsonb(figures)::text, false);
END
$$;
COMMENT ON FUNCTION iblt_internal.keep_figures(iblt_internal.figures) IS
'keeps the figures of a comparison for iblt_compare_stats';

CREATE FUNCTION iblt_compare_stats() RETURNS iblt_internal.figures
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kept text := nullif(current_setting('iblt.compare_stats', true), '');
BEGIN
	IF kept IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'no iblt_compare has finished in this session';
	END IF;
	RETURN jsonb_populate_record(NULL::iblt_internal.figures, kept::jsonb);
END
$$;
COMMENT ON FUNCTION iblt_compare_stats() IS
'figures of the last iblt_compare that finished in this session: rows, differences, messages, '
'bytes, times';

CREATE FUNCTION iblt_internal.all_figures(plan iblt_internal.plan, figures iblt_internal.figures,
	decoded integer, differences iblt_internal.difference[]) RETURNS iblt_internal.figures
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	traffic record := iblt_internal.iblt_traffic_take();
BEGIN
	figures.relation := (plan.here).relation;
	figures.peer_relation := (plan.there).relation;
	figures.key_columns := iblt_internal.names_of(plan.key);
	figures.columns := iblt_internal.names_of(plan.columns);
	figures.columns_left_out := plan.columns_left_out;
	figures.differences := cardinality(differences);
	figures.settled := greatest(decoded - figures.differences, 0);
	figures.unconfirmed := CASE WHEN plan.recheck > 0
		THEN (SELECT count(*) FROM unnest(differences) AS d WHERE NOT d.confirmed) ELSE 0 END;
	figures.lookup_ms := coalesce(figures.lookup_ms, 0);
	figures.recheck_ms := coalesce(figures.recheck_ms, 0);
	figures.messages := traffic.messages;
	figures.bytes_sent := traffic.sent;
	figures.bytes_received := traffic.received;
	figures.sketch_bytes := traffic.sketches;
	RETURN figures;
END
$$;
COMMENT ON FUNCTION iblt_internal.all_figures(iblt_internal.plan, iblt_internal.figures, integer,
	iblt_internal.difference[]) IS 'the figures of a comparison that has ended';

-- The steps after the plan

CREATE FUNCTION iblt_internal.run(conn text, plan iblt_internal.plan)
RETURNS iblt_internal.comparison
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	started timestamptz;
	found record;
	figures iblt_internal.figures;
	decoded integer;
	differences iblt_internal.difference[] := '{}';
BEGIN
	IF plan.versions THEN
		PERFORM iblt_internal.require_version_rights(plan);
	END IF;
	found := iblt_internal.find_keys(conn, plan, figures);
	plan := found.plan;
	figures := found.figures;
	decoded := cardinality(found.keys);
	IF decoded > 0 THEN
		PERFORM iblt_internal.progress(plan.progress,
			format('looking %s keys up on both sides', decoded));
		started := clock_timestamp();
		differences := iblt_internal.look(conn, plan, found.keys);
		PERFORM iblt_internal.check_index(conn, plan, found.keys, found.sides, differences);
		figures.lookup_ms := iblt_internal.ms(started);
	END IF;
	IF plan.recheck > 0 AND differences <> '{}' THEN
		started := clock_timestamp();
		differences := iblt_internal.recheck(conn, plan, differences);
		figures.recheck_ms := iblt_internal.ms(started);
	END IF;
	RETURN ROW(plan, iblt_internal.all_figures(plan, figures, decoded, differences), differences);
END
$$;
COMMENT ON FUNCTION iblt_internal.run(text, iblt_internal.plan) IS 'compares as a plan says';

-- Starting again

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
	FOREACH s IN ARRAY ARRAY[plan.here, plan.there] LOOP
		found := iblt_internal.peer_ask(conn, s.side, format(
			'SELECT iblt_internal.iblt_compare_fingerprint(pg_catalog.to_regclass(%L))',
			s.relation));
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
COMMENT ON FUNCTION iblt_internal.altered_side(text, text, iblt_internal.plan) IS
'the side whose relation is not what was described any more, asked over a new connection; or NULL';

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
	IF state = 'IB004' THEN
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
COMMENT ON FUNCTION iblt_internal.restarts(text, text, iblt_internal.plan, integer, text, text) IS
'after an error: should a driver start again, because a relation was altered? After three '
'attempts, an error that says so';

CREATE FUNCTION iblt_internal.connect(peer text, conn text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	traffic record := iblt_internal.iblt_traffic_take();
BEGIN
	IF conn IS NOT NULL THEN
		conn := iblt_internal.peer_connect(peer, conn);
	END IF;
	RETURN conn;
END
$$;
COMMENT ON FUNCTION iblt_internal.connect(text, text) IS
'begins an attempt of a driver: with counters at 0, and a connection unless both relations are '
'here';

CREATE FUNCTION iblt_internal.compare(conn text, peer text, relation regclass, peer_relation text,
	options iblt_internal.options) RETURNS iblt_internal.comparison
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	plan iblt_internal.plan;
	again boolean;
	state text;
	message text;
BEGIN
	PERFORM iblt_internal.check_options(relation, options);
	options.label := 'iblt_compare ' || relation::text;
	FOR attempt IN 1 .. 3 LOOP
		BEGIN
			plan := NULL;
			conn := iblt_internal.connect(peer, conn);
			plan := iblt_internal.prepare(conn, relation, peer_relation, options);
			RETURN iblt_internal.run(conn, plan);
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
			again := iblt_internal.restarts(conn, peer, plan, attempt, state, message);
			IF NOT again THEN
				RAISE;
			END IF;
			PERFORM iblt_internal.progress(options.progress,
				'a relation was altered, the comparison starts again');
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION iblt_internal.compare(text, text, regclass, text, iblt_internal.options) IS
'compares over a connection of that name, again if a relation is altered meanwhile';

-- The driver

CREATE FUNCTION iblt_internal.make_options(relation regclass, columns text[], exclude text[],
	key_columns text[], condition text, peer_condition text, max_differences bigint,
	content text, cast_types boolean, extra_columns text, recheck integer, timeout interval,
	seed bigint, progress boolean) RETURNS iblt_internal.options
	LANGUAGE sql VOLATILE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ROW(iblt_internal.peer_name(relation, NULL), columns, exclude, key_columns, condition,
		coalesce(peer_condition, condition), max_differences, content, cast_types, extra_columns,
		recheck, timeout, coalesce(seed, iblt_internal.random_seed()), progress, NULL, NULL, NULL
		)::iblt_internal.options
$$;
COMMENT ON FUNCTION iblt_internal.make_options(regclass, text[], text[], text[], text, text, bigint,
	text, boolean, text, integer, interval, bigint, boolean) IS
'the arguments of a driver, with a random seed if there is none';

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
	progress boolean DEFAULT false)
RETURNS TABLE (key jsonb, side text, here jsonb, there jsonb, confirmed boolean,
	here_count bigint, there_count bigint)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	SET search_path = pg_catalog, pg_temp
	SET row_security = off
	SET enable_indexonlyscan = off
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
		recheck, timeout, seed, progress);
	conn text := CASE WHEN peer IS NOT NULL THEN 'iblt_' || gen_random_uuid() END;
	result iblt_internal.comparison;
	figures iblt_internal.figures;
	secret boolean;
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	BEGIN
		result := iblt_internal.compare(conn, peer, relation, peer_relation, options);
		PERFORM iblt_internal.peer_close(conn);
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
			detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		secret := iblt_internal.peer_is_string(peer);
		PERFORM iblt_internal.peer_fail(conn, secret, state, message, detail, hint);
		RAISE;
	END;
	figures := result.figures;
	figures.total_ms := iblt_internal.ms(started);
	figures.finished_at := clock_timestamp();
	PERFORM iblt_internal.keep_figures(figures);
	RETURN QUERY SELECT d.key, d.side, d.here, d.there, d.confirmed, d.here_count, d.there_count
		FROM unnest(result.differences) AS d;
END
$$;
COMMENT ON FUNCTION iblt_compare(regclass, text, text, text[], text[], text[], text, text, bigint,
	boolean, boolean, text, integer, interval, bigint, boolean) IS
'the rows that differ between a relation here and one on a peer, or in this database: key, side, '
'both rows';
