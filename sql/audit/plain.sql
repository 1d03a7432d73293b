-- Many small tables of a peer without iblt ---------------------------------------------
--
-- As in small.sql, but in two messages: one describes all tables, and one sums
-- them up.  A table whose sums are the same on both sides is equal.  All others, also those
-- with an error here, are compared alone.  After an error on the peer, all are.

-- The rows for those small tables that are equal, and NULL for the others.
CREATE FUNCTION plain_compare_small(conns text[], smalls audit_small[]) RETURNS audit_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	traffic record := iblt_traffic_take();
	answers text[] := ask_values(conns, ARRAY(SELECT format('SELECT jsonb_agg((%s'
			' WHERE c.oid = to_regclass(iblt_r.name)) ORDER BY iblt_r.n)'
			' FROM unnest(%L::text[]) WITH ORDINALITY AS iblt_r(name, n)', plain_relations_sql(),
			ARRAY(SELECT CASE WHEN own THEN audit_name(s.item) ELSE audit_peer_name(s.item) END
				FROM unnest(smalls) AS s))
		FROM unnest('{true,false}'::boolean[]) WITH ORDINALITY AS u(own, side)
		ORDER BY u.side), 'iblt_audit');
	told jsonb[] := answers::jsonb[];
	small audit_small;
	mine jsonb;
	theirs jsonb;
	h side;
	t side;
	p plan;
	plans plan[];			-- NULL for those that must be compared alone
	asked text[] := '{}';	-- a query for the sums of each, here
	asked_there text[] := '{}';
	read described[] := '{}';
BEGIN
	FOR i IN 1 .. cardinality(smalls) LOOP
		small := smalls[i];
		mine := told[1] -> (i - 1);
		theirs := told[2] -> (i - 1);
		p := NULL;
		BEGIN
			IF mine <> 'null' AND theirs <> 'null' AND (small.here IS NOT NULL OR greatest(
					mine #> '{size,bytes}', theirs #> '{size,bytes}')::bigint <= 1048576) THEN
				PERFORM plain_check_options(conns, small.compare);
				-- where both are elsewhere, one may have iblt, but has not described itself
				h := described(coalesce(small.here, mine) || jsonb_build_object(
					'condition', (small.compare).condition), 'here', conns[1]);
				t := described(theirs || jsonb_build_object(
					'condition', (small.compare).peer_condition), 'there', conns[2]);
				h.bare := small.here IS NULL;
				t.bare := true;
				p := plain_plan(h, t, mine, theirs, small.compare);
			END IF;
		EXCEPTION WHEN @on_error@ THEN
			NULL;	-- an error shows again when the table is compared alone
		END;
		plans[i] := p;
		asked[i] := 'NULL';
		asked_there[i] := 'NULL';
		IF p.buckets IS NOT NULL THEN
			asked[i] := format('(%s)', plain_sums_sql(p, p.here));
			asked_there[i] := format('(%s)', plain_sums_sql(p, p.there));
			read := read || reads(p.here, p.there);
		END IF;
	END LOOP;
	answers := ask_values(conns, ARRAY[
			format('SELECT ARRAY[%s]::text[]::text', array_to_string(asked, ', ')),
			format('SELECT ARRAY[%s]::text[]::text', array_to_string(asked_there, ', '))],
		NULL, ROW('read_heap', NULL, NULL, NULL, read)::reading);
	traffic := iblt_traffic_take();
	-- each is the fingerprint, the number of rows, the sums and milliseconds
	RETURN ARRAY(SELECT CASE WHEN w.h[1] = ((plans[i]).here).fingerprint
				AND w.t[1] = ((plans[i]).there).fingerprint AND w.h[2:3] = w.t[2:3]
			THEN audit_equal_small(smalls[i], conns, NULL, NULL, plans[i], w.h[2]::bigint,
				(traffic.sent + traffic.received) / cardinality(smalls)) END
		FROM unnest(answers[1]::text[], answers[2]::text[]) WITH ORDINALITY AS u(mine, theirs, i),
		LATERAL (SELECT string_to_array(u.mine, ' '), string_to_array(u.theirs, ' ')) AS w(h, t)
		ORDER BY u.i);
END
$$;
