-- Figures ------------------------------------------------------------------------------
--
-- What iblt_compare_stats tells of a comparison, and what it says itself at the end.

-- Keeps the figures of a comparison for iblt_compare_stats.
CREATE FUNCTION keep_figures(figures figures) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM set_config('iblt.compare_stats', to_jsonb(figures)::text, false);
END
$$;

CREATE FUNCTION @extschema@.iblt_compare_stats() RETURNS figures
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
DECLARE
	kept text := nullif(current_setting('iblt.compare_stats', true), '');
BEGIN
	IF kept IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'no iblt_compare has finished in this session';
	END IF;
	RETURN jsonb_populate_record(NULL::figures, kept::jsonb);
END
$$;
COMMENT ON FUNCTION iblt_compare_stats() IS
'figures of the last iblt_compare that finished in this session: rows, differences, messages, '
'bytes, times';

-- May an index, which nothing checks, say which rows a condition is true of?
-- Our settings do not reach the servers that have the rows of foreign tables and of Citus.
CREATE FUNCTION reads_by_index(plan plan) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT coalesce(plan.by_index
		OR (plan.here).condition IS NOT NULL AND ((plan.here).remote OR (plan.here).distributed)
		OR (plan.there).condition IS NOT NULL AND ((plan.there).remote OR (plan.there).distributed),
		false)
$$;

-- What there is to say of reads_by_index, or NULL.
-- In the words of runs (slice_note).
CREATE FUNCTION by_index_note(by_index boolean) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN by_index THEN 'perhaps read by an index (not checked)' END
$$;

-- Adds to the figures that are kept how long all of a comparison took, and says what it
-- cannot be sure of.
CREATE FUNCTION finish_figures(started timestamptz) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	figures figures := @extschema@.iblt_compare_stats();
BEGIN
	figures.total_ms := ms(started);
	figures.finished_at := clock_timestamp();
	PERFORM keep_figures(figures);
	IF figures.by_index THEN
		RAISE NOTICE '%', by_index_note(true);
	END IF;
	IF NOT figures.complete THEN
		RAISE WARNING USING
			MESSAGE = format('too many differences: these %s are a sample of about %s',
				figures.differences, figures.estimated),
			DETAIL = format('A hash divides the keys into %s parts. These are those of one part.',
				figures.parts),
			HINT = 'See iblt_compare_stats() for the figures.';
	END IF;
END
$$;

-- The figures of a comparison that has ended.
CREATE FUNCTION all_figures(plan plan, figures figures,
	decoded bigint, differences bigint, unconfirmed bigint) RETURNS figures
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	traffic record := iblt_traffic_take();
BEGIN
	figures.relation := (plan.here).relation;
	figures.peer_relation := (plan.there).relation;
	figures.key_columns := names_of(plan.key);
	figures.columns := names_of(plan.columns);
	figures.columns_left_out := plan.columns_left_out;
	figures.differences := differences;
	figures.settled := greatest(decoded - differences, 0);
	figures.unconfirmed := unconfirmed;
	figures.lookup_ms := coalesce(figures.lookup_ms, 0);
	figures.recheck_ms := coalesce(figures.recheck_ms, 0);
	figures.messages := traffic.messages;
	figures.bytes_sent := traffic.sent;
	figures.bytes_received := traffic.received;
	figures.sketch_bytes := traffic.sketches;
	figures.complete := plan.parts IS NULL;
	figures.parts := plan.parts;
	figures.estimated := coalesce(figures.estimated, differences);
	figures.live := coalesce(plan.from_digests, false);
	figures.method := CASE WHEN plan.buckets IS NULL THEN 'sketch' ELSE 'plain' END;
	figures.by_index := reads_by_index(plan);
	IF figures.live THEN
		figures.verified_here := ((plan.here).live).verified_at;
		figures.verified_there := ((plan.there).live).verified_at;
	END IF;
	RETURN figures;
END
$$;
