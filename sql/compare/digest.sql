-- Live digests in place of scans ------------------------------------------------------
--
-- With live => 'auto' or 'require', both digests take the place of the sketches that scans
-- make, if triggers keep them up to date and they fit the comparison.  The first question to
-- the peer already has a small fold of the digest here (prepare).  The peer subtracts it from
-- its own, sees how many keys differ, and answers with its description and a fold of the size
-- for them (hello_live).  Only then does the plan say whether the digests fit, and the two
-- fingerprints whether they are of what was described (prepare).  If the fold was too small,
-- or digests are read again, the question is live_answer, and the peer keeps its digest.

-- Why the digest of a side is not there or not trustworthy, or NULL.
CREATE FUNCTION live_untrusted(s side, OUT state text,
	OUT problem text, OUT hint text) RETURNS record
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	digest live_digest := s.live;
	place text := CASE WHEN s.place IS NULL THEN ''
		ELSE format('On %s, ', peer_title(s.place)) END;
BEGIN
	IF digest.generation IS NULL AND digest.reason = 'unreadable' THEN
		problem := format('permission denied for the digest of %s (%s)', s.relation, s.side);
		hint := format('%sGRANT SELECT on the whole table to this role. No policy may hide rows '
			'from it.', place);
	ELSIF digest.generation IS NULL THEN
		problem := format('%s is not tracked (%s)', s.relation, s.side);
		hint := format('%sCALL iblt_track(%L), with the other side as its peer if that is '
			'tracked.', place, s.relation);
	ELSIF digest.reason IS NOT NULL THEN
		problem := format('the digest of %s is not trustworthy, because %s (%s)', s.relation,
			digest.reason, s.side);
		hint := format('%sCALL iblt_live_rebuild(%L);', place, s.relation);
	END IF;
	state := CASE WHEN problem IS NOT NULL THEN 'IB008' END;
END
$$;

-- Why two trustworthy digests do not tell what a plan asks, or NULL.
-- Both sides hash the columns in the order in which they are tracked.
CREATE FUNCTION live_unfit(plan plan, OUT state text, OUT problem text,
	OUT hint text) RETURNS record
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	here live_digest := (plan.here).live;
	there live_digest := (plan.there).live;
	key text[] := iblt_field(plan.key);
	columns text[] := iblt_field(plan.columns);
BEGIN
	IF num_nonnulls((plan.here).condition, (plan.there).condition, plan.lo, plan.hi) > 0 THEN
		problem := 'only some rows are compared, and digests are of all rows';
	ELSIF EXISTS (SELECT FROM unnest(plan.columns) AS c WHERE c.cast_to <> '') THEN
		problem := 'columns are compared in another type';
	ELSIF here.seed_hash <> there.seed_hash OR here.key_columns <> there.key_columns
			OR here.columns <> there.columns OR here.by_hash <> there.by_hash
			OR here.key_size <> there.key_size OR here.hashes <> there.hashes
			OR gcd(here.subtable_cells, there.subtable_cells) < 70 THEN
		problem := 'the two digests were not made to be compared with each other';
		hint := 'CALL iblt_track on one side, with the other side as its peer.';
	ELSIF (plan.here).mapped OR (plan.there).mapped THEN
		problem := 'columns have other names, or expressions stand for them';
	ELSIF NOT (here.key_columns @> key AND here.key_columns <@ key) THEN
		problem := format('the key of the digests is %s',
			quoted(here.key_columns));
		hint := 'Name these columns in key_columns.';
	ELSIF NOT (here.columns @> columns AND here.columns <@ columns) THEN
		problem := format('the digests are of columns %s', quoted(here.columns));
		hint := 'Name these in columns, or track the columns that are compared.';
	ELSIF here.by_hash <> plan.by_hash OR here.key_size <> (plan.key_size + 7) / 8 * 8 THEN
		problem := 'unique indexes are not as they were when the digests were begun';
		hint := 'CALL iblt_track again on both sides.';
	END IF;
	state := CASE WHEN problem IS NOT NULL THEN '0A000' END;
END
$$;

-- The error where relations would have to be scanned.
CREATE FUNCTION live_refuse(state text, problem text, hint text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = state, MESSAGE = 'live digests cannot be used: ' || problem,
		HINT = coalesce(hint, 'Compare with live => ''auto'' or ''off''.');
END
$$;

-- A plan that reads live digests if they are there, trustworthy and fit, or an error if they
-- must be; the problem is one of an earlier attempt.
CREATE FUNCTION live_plan(plan plan, problem text) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	here side := plan.here;
	there side := plan.there;
	refused record;
BEGIN
	plan.live_problem := problem;
	IF problem IS NOT NULL THEN
		RETURN plan;
	END IF;
	SELECT x.* INTO refused FROM (
		SELECT 1 AS n, * FROM live_untrusted(here)
		UNION ALL SELECT 2, * FROM live_untrusted(there)
		UNION ALL SELECT 3, * FROM live_unfit(plan)) AS x
	WHERE x.problem IS NOT NULL ORDER BY n LIMIT 1;
	IF refused.problem IS NULL THEN
		plan.from_digests := true;
		plan.live_cells := gcd((here.live).subtable_cells, (there.live).subtable_cells);
		plan.key := columns_named(plan.key, (here.live).key_columns);
		IF plan.by_hash THEN
			-- rows are looked up by the hashes that are in the digests
			plan.seed := ask_one(here.place, format('SELECT i.seed FROM'
				' iblt_live_options(to_regclass(%L)) AS o, iblt_info(o.template) AS i',
				here.relation));
		END IF;
		RETURN plan;
	ELSIF plan.live = 'require' THEN
		PERFORM live_refuse(refused.state, refused.problem, refused.hint);
	END IF;
	plan.live_problem := refused.problem;
	RETURN plan;
END
$$;

-- A plan that scans, because digests that were read do not do.
CREATE FUNCTION live_give_up(plan plan, problem text) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	plan.from_digests := false;
	plan.live_problem := problem;
	PERFORM progress(plan.progress,
		'live digests are not used, the relations are scanned: ' || problem);
	RETURN plan;
END
$$;

-- Says why relations are scanned in spite of live => 'auto'.
CREATE FUNCTION live_notice(plan plan) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF plan.live_problem IS NOT NULL THEN
		PERFORM iblt_tell('notice', 'live digests are not used: ' || plan.live_problem);
	END IF;
END
$$;

-- What an audit says of live digests, NULL with live => 'off'.
CREATE FUNCTION live_said(plan plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN plan.from_digests THEN (SELECT 'from live digests, ' ||
			CASE count((s.live).verified_at) WHEN 0 THEN 'never verified'
				ELSE 'last verified by a scan ' || string_agg(coalesce(to_char((s.live).verified_at
					AT TIME ZONE 'UTC', '"at "YYYY-MM-DD HH24:MI:SS "UTC"'), 'never') || ' '
				|| CASE WHEN plan.sides IS NULL THEN s.side ELSE format('on "%s"', s.side) END,
				' and ' ORDER BY s.ordinality) END
			FROM unnest(sides_of(plan)) WITH ORDINALITY AS s)
		ELSE 'live digests are not used: ' || plan.live_problem END
$$;

-- What the digests of the sides give.
-- If one of two sides is this database, it is asked first, because the question to the other server
-- has a small fold of its answer.  That is a parameter, for it has keys in it.
CREATE FUNCTION live_sketches(plan plan) RETURNS scanned[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	places text[] := places_of(plan);
	fitting boolean := cardinality(places) = 2 AND num_nulls(VARIADIC places) = 1;
	-- the digest as a whole, or of another server a small fold, or one of the size that the
	-- difference from the small fold in $1 takes
	queries text[] := ARRAY(SELECT format(CASE WHEN s.place IS NULL OR NOT fitting
			THEN 'SELECT scan_answer(%1$L, s, f, %2$s, %7$L)::text'
				' FROM (SELECT %3$s, live_read(%4$L, %5$L, %6$L) OFFSET 0) AS q(f, s)'
			ELSE 'SELECT ROW(f, %2$s, NULL, w)::scanned::text'
				' FROM (SELECT %3$s, live_answer(%4$L, %5$L, %6$L, $1[1], %1$L)'
				' OFFSET 0) AS q(f, w)' END, kept_name(plan, s), elapsed_sql(s), fingerprint_sql(s),
			s.relation, (s.live).generation, plan.live_cells, s.place IS NOT NULL)
		FROM unnest(sides_of(plan)) AS s);
	mine integer := CASE WHEN places[1] IS NULL THEN 1 ELSE 2 END;
	answers scanned[];
	small text;
BEGIN
	IF NOT fitting THEN
		RETURN ask_values(places, queries)::scanned[];
	END IF;
	answers[mine] := ask_one(places[mine], queries[mine]);
	small := iblt_fold(iblt_session_get(answers[mine].kept), 10, 0.1);
	answers[3 - mine] := (ask_values(places[3 - mine : 3 - mine], queries[3 - mine : 3 - mine],
		how => ROW('read_planned', ARRAY[small], NULL, NULL, NULL)::reading))[1];
	RETURN answers;
END
$$;
