-- Live digests in place of scans ------------------------------------------------------
--
-- With live => 'auto' or 'require', both digests take the place of the sketches that scans
-- make, if triggers keep them up to date and they fit the comparison.  The first question to
-- the peer already has a small fold of the digest here (prepare).  The peer subtracts it from
-- its own, sees how many keys differ, and answers with its description and a fold of the size
-- for them (hello).  Only then does the plan say whether the digests fit (prepare), and the
-- two fingerprints whether they are of what was described (exchange).  If the fold was too small,
-- or digests are read again, they are read as sketches of scans are (scan_sql).

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
-- Both sides hash the columns in the order in which they are tracked.
CREATE FUNCTION live_plan(plan plan, problem text) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	here live_digest := (plan.here).live;
	there live_digest := (plan.there).live;
	key text[] := iblt_field(plan.key);
	columns text[] := iblt_field(plan.columns);
	s side;
	digest live_digest;
	state text := 'IB008';
	hint text;
BEGIN
	plan.live_problem := problem;
	IF problem IS NOT NULL THEN
		RETURN plan;
	END IF;
	FOREACH s IN ARRAY ARRAY[plan.here, plan.there] LOOP
		EXIT WHEN problem IS NOT NULL;
		digest := s.live;
		IF digest.generation IS NULL AND digest.reason = 'unreadable' THEN
			problem := format('permission denied for the digest of %s (%s)', s.relation, s.side);
			hint := 'GRANT SELECT on the whole table to this role. '
				'No policy may hide rows from it.';
		ELSIF digest.generation IS NULL THEN
			problem := format('%s is not tracked (%s)', s.relation, s.side);
			hint := format('CALL iblt_track(%L), with the other side as its peer if that is '
				'tracked.', s.relation);
		ELSIF digest.reason IS NOT NULL THEN
			problem := format('the digest of %s is not trustworthy, because %s (%s)', s.relation,
				digest.reason, s.side);
			hint := format('CALL iblt_live_rebuild(%L);', s.relation);
		END IF;
		IF hint IS NOT NULL AND s.place IS NOT NULL THEN
			hint := format('On %s, %s', peer_title(s.place), hint);
		END IF;
	END LOOP;
	state := CASE WHEN problem IS NULL THEN '0A000' ELSE state END;
	IF problem IS NOT NULL THEN
		NULL;
	ELSIF num_nonnulls((plan.here).condition, (plan.there).condition) > 0 THEN
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
		problem := format('the key of the digests is %s', quoted(here.key_columns));
		hint := 'Name these columns in key_columns.';
	ELSIF NOT (here.columns @> columns AND here.columns <@ columns) THEN
		problem := format('the digests are of columns %s', quoted(here.columns));
		hint := 'Name these in columns, or track the columns that are compared.';
	ELSIF here.by_hash <> plan.by_hash OR here.key_size <> (plan.key_size + 7) / 8 * 8 THEN
		problem := 'unique indexes are not as they were when the digests were begun';
		hint := 'CALL iblt_track again on both sides.';
	END IF;
	IF problem IS NULL THEN
		plan.from_digests := true;
		plan.live_cells := gcd(here.subtable_cells, there.subtable_cells);
		plan.key := iblt_rows_named(plan.key, here.key_columns);
		IF plan.by_hash THEN
			-- rows are looked up by the hashes that are in the digests
			plan.seed := ask_one((plan.here).place, format('SELECT i.seed FROM'
				' iblt_live_options(to_regclass(%L)) AS o, iblt_info(o.template) AS i',
				(plan.here).relation));
		END IF;
	ELSIF plan.live = 'require' THEN
		PERFORM live_refuse(state, problem, hint);
	END IF;
	plan.live_problem := problem;
	RETURN plan;
END
$$;

-- A plan that scans, because digests that were read do not do.
CREATE FUNCTION live_give_up(plan plan, problem text) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	plan.from_digests := false;
	plan.found := NULL;
	plan.live_problem := problem;
	PERFORM progress(plan.progress,
		'live digests are not used, the relations are scanned: ' || problem);
	RETURN plan;
END
$$;

-- Says why relations are scanned in spite of live => 'auto'.
CREATE FUNCTION live_notice(plan plan) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN iblt_tell('notice', 'live digests are not used: ' || plan.live_problem);

-- What an audit says of live digests, NULL with live => 'off'.
CREATE FUNCTION live_said(plan plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE WHEN plan.from_digests THEN (SELECT 'from live digests, ' ||
			CASE count((s.live).verified_at) WHEN 0 THEN 'never verified'
				ELSE 'last verified by a scan ' || string_agg(coalesce(to_char((s.live).verified_at
					AT TIME ZONE 'UTC', '"at "YYYY-MM-DD HH24:MI:SS "UTC"'), 'never') || ' '
				|| CASE WHEN plan.sides IS NULL THEN s.side ELSE format('on "%s"', s.side) END,
				' and ' ORDER BY s.ordinality) END
			FROM unnest(sides_of(plan)) WITH ORDINALITY AS s)
		ELSE 'live digests are not used: ' || plan.live_problem END;
