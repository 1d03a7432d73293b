-- Figures ------------------------------------------------------------------------------
--
-- What iblt_compare_stats tells of a comparison, and what it says itself at the end.

-- Keeps the figures of a comparison for iblt_compare_stats.
CREATE FUNCTION keep_figures(figures figures) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
AS $$
	SELECT set_config('iblt.compare_stats', to_jsonb(figures)::text, false)
$$;

-- The figures of the last comparison of this session.
CREATE FUNCTION compare_stats() RETURNS figures
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
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

CREATE FUNCTION @extschema@.iblt_compare_stats() RETURNS figures
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
BEGIN
	RETURN compare_stats();
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_compare_stats IS
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
	kept jsonb := current_setting('iblt.compare_stats')::jsonb
		|| jsonb_build_object('total_ms', ms(started), 'finished_at', clock_timestamp());
BEGIN
	PERFORM set_config('iblt.compare_stats', kept::text, false);
	IF (kept ->> 'by_index')::boolean THEN
		PERFORM iblt_tell('notice', by_index_note(true));
	END IF;
	IF NOT (kept ->> 'complete')::boolean THEN
		PERFORM iblt_tell('warning',
			format('too many differences: these %s are a sample of about %s',
				kept ->> 'differences', kept ->> 'estimated'),
			format('A hash divides the keys into %s parts. These are those of one part.',
				kept ->> 'parts'), 'See iblt_compare_stats() for the figures.');
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
	live boolean := coalesce(plan.from_digests, false);
BEGIN
	RETURN ROW((plan.here).relation, (plan.there).relation, figures.rows_here, figures.rows_there,
		differences, unconfirmed, greatest(decoded - differences, 0), iblt_field(plan.key),
		iblt_field(plan.columns), plan.columns_left_out, traffic.messages, traffic.sent,
		traffic.received, traffic.sketches, figures.scan_here_ms, figures.scan_there_ms,
		figures.scan_ms, coalesce(figures.lookup_ms, 0), coalesce(figures.recheck_ms, 0), NULL,
		NULL, plan.parts IS NULL, plan.parts, coalesce(figures.estimated, differences), live,
		CASE WHEN live THEN ((plan.here).live).verified_at END,
		CASE WHEN live THEN ((plan.there).live).verified_at END,
		CASE WHEN plan.buckets IS NULL THEN 'sketch' ELSE 'plain' END,
		reads_by_index(plan))::figures;
END
$$;
