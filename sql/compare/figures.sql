-- Figures ------------------------------------------------------------------------------
--
-- What iblt_compare_stats tells of a comparison, and what it says itself at the end.

-- Keeps what a driver tells of a comparison or an audit that has finished, in this session.
-- A function that returns nothing would not be inlined.
CREATE FUNCTION keep_stats(kind text, stats jsonb) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN set_config('iblt.stats', (coalesce(nullif(current_setting('iblt.stats', true), ''),
		'{}')::jsonb || jsonb_build_object(kind, stats))::text, false);

-- What was kept last.
CREATE FUNCTION kept_stats(kind text) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
AS $$
DECLARE
	kept jsonb := nullif(current_setting('iblt.stats', true), '')::jsonb -> kind;
BEGIN
	IF kept IS NULL THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('no %s has finished in this session', kind);
	END IF;
	RETURN kept;
END
$$;

CREATE FUNCTION @extschema@.iblt_compare_stats() RETURNS figures
	LANGUAGE sql STABLE PARALLEL RESTRICTED
	SET search_path = iblt_internal, pg_catalog, pg_temp
	RETURN jsonb_populate_record(NULL::figures, kept_stats('iblt_compare'));
COMMENT ON FUNCTION @extschema@.iblt_compare_stats IS
'figures of the last iblt_compare that finished in this session: rows, differences, messages, '
'bytes, times';

-- What there is to say, in the words of runs (slice_guard), if an index, which nothing checks, may
-- say which rows a condition is true of; otherwise NULL.
-- Our settings do not reach the servers that have the rows of foreign tables and of Citus.
CREATE FUNCTION by_index_note(plan plan) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN plan.by_index OR EXISTS (SELECT FROM unnest(sides_of(plan)) AS s
			WHERE s.condition IS NOT NULL AND (s.remote OR s.distributed))
		THEN 'perhaps read by an index (not checked)' END;

-- The figures of a comparison that has ended.
CREATE FUNCTION all_figures(plan plan, figures figures,
	decoded bigint, differences bigint, unconfirmed bigint) RETURNS figures
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	traffic record := iblt_traffic_take();
BEGIN
	IF num_nonnulls((plan.here).condition, (plan.there).condition) > 0 THEN
		plan.by_index := by_index_note(plan) IS NOT NULL;
	END IF;
	RETURN ROW((plan.here).relation, (plan.there).relation, figures.rows_here, figures.rows_there,
		differences, unconfirmed, greatest(decoded - differences, 0), iblt_field(plan.key),
		iblt_field(plan.columns), plan.columns_left_out, traffic.messages, traffic.sent,
		traffic.received, coalesce(figures.sketch_bytes, 0), figures.scan_here_ms,
		figures.scan_there_ms, figures.scan_ms, coalesce(figures.lookup_ms, 0),
		coalesce(figures.recheck_ms, 0), NULL, NULL, plan.parts IS NULL, plan.parts,
		coalesce(figures.estimated, differences), coalesce(plan.from_digests, false),
		CASE WHEN plan.from_digests THEN ((plan.here).live).verified_at END,
		CASE WHEN plan.from_digests THEN ((plan.there).live).verified_at END,
		CASE WHEN plan.buckets IS NULL THEN 'sketch' ELSE 'plain' END,
		coalesce(plan.by_index, false))::figures;
END
$$;
