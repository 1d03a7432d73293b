-- Many small tables ------------------------------------------------------------------
--
-- A small table costs little but its questions to the peer.  So both sides are asked about
-- many of them at once, each with a hash of its description here.  Where that of the peer
-- is the same, the peer answers with a checksum of its rows, as this side does.  A table with
-- the same checksum is equal.  All others, also those with an error, are compared alone, as if
-- there was no such question.  plain.sql says how a peer without iblt is asked.
--
-- If this side is elsewhere, both are asked without hashes and answer with their own, and this
-- side with its description.
--
-- As in audit_table, a table's work is rolled back on both sides to free its locks.

-- The row for a small table with that many equal rows on each side, whose plan is made of what both
-- have told, unless there is one; NULL after an error, which shows again when the table is compared
-- alone.
CREATE FUNCTION audit_equal_small(small audit_small, conns text[], mine jsonb, theirs jsonb,
	plan plan, rows bigint, bytes bigint) RETURNS audit_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	checked record;
	figures figures;
BEGIN
	IF mine IS NOT NULL THEN
		plan := checked_plan(described(mine, 'here', conns[1]),
			described(theirs, 'there', conns[2]), small.compare);
	END IF;
	checked := audit_adjust_plan(small.item, plan, small.compare);
	PERFORM require_version_rights(checked.plan);
	figures.rows_here := rows;
	figures.rows_there := rows;
	figures.bytes_sent := bytes;
	figures.bytes_received := 0;
	RETURN audit_result(checked.item, ROW(checked.plan, figures, '{}', NULL));
EXCEPTION WHEN @on_error@ THEN
	RETURN NULL;
END
$$;

-- The rows for those small tables that are equal, and NULL for the others.
CREATE FUNCTION audit_compare_small(conns text[], smalls audit_small[]) RETURNS audit_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	traffic record := iblt_traffic_take();
	-- this side gets its own descriptions, or is asked for them
	answers jsonb[] := ask_values(conns, ARRAY(SELECT format('SELECT audit_answers(%L)', (
			SELECT array_agg(jsonb_populate_record(NULL::audit_question, to_jsonb(s.compare)
				|| jsonb_build_object('core', s.core, 'relation',
				CASE WHEN own THEN audit_name(s.item) ELSE audit_peer_name(s.item) END,
				'condition', CASE WHEN own THEN (s.compare).condition
					ELSE (s.compare).peer_condition END,
				'described', CASE WHEN own THEN coalesce(s.here, 'true') END)) ORDER BY s.n)
			FROM unnest(smalls) WITH ORDINALITY AS s(place, item, compare, here, core, n)))
		FROM unnest('{true,false}'::boolean[]) WITH ORDINALITY AS u(own, side)
		ORDER BY u.side), 'iblt_audit')::jsonb[];
	small audit_small;
	mine audit_reply;
	theirs audit_reply;
	described jsonb;
	result audit_row[] := array_fill(NULL::audit_row, ARRAY[cardinality(smalls)]);
BEGIN
	traffic := iblt_traffic_take();
	FOR i IN 1 .. cardinality(smalls) LOOP
		small := smalls[i];
		mine := (answers[1] -> 'tables' ->> (i - 1))::audit_reply;
		theirs := (answers[2] -> 'tables' ->> (i - 1))::audit_reply;
		IF mine.checksum = theirs.checksum AND mine.rows = theirs.rows
				AND (small.core IS NOT NULL OR mine.core = theirs.core) THEN
			described := coalesce(small.here, mine.described);
			result[i] := audit_equal_small(small, conns, described, described
				|| (answers[2] -> 'server') || to_jsonb(theirs) || jsonb_build_object('relation',
				audit_peer_name(small.item), 'condition', (small.compare).peer_condition), NULL,
				mine.rows, (traffic.sent + traffic.received) / cardinality(smalls));
		END IF;
	END LOOP;
	RETURN result;
END
$$;

-- The rows for equal small tables, at their places in the list, and the last place looked at: of
-- that many items at most, and if they are described here, of some 80 KB for each.
CREATE FUNCTION audit_batch(conns text[], peers text[], items audit_item[], first integer,
	options audit_options, most integer, OUT equal audit_row[], OUT last integer) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	places integer[];		-- of those that may be small
	candidates audit_item[];
	small audit_small;
	smalls audit_small[] := '{}';
	pages numeric := 0;
	compared audit_row[];
	one audit_row;
BEGIN
	last := least(first + most - 1, cardinality(items));
	BEGIN
		conns := connect(peers, conns);
		places := ARRAY(SELECT n FROM generate_series(first, last) AS n,
				LATERAL (SELECT (items[n]).problem, (items[n]).absent) AS i
			WHERE i.problem IS NULL AND i.absent IS NOT TRUE AND (options.compare).live = 'off'
			AND (options.mappings ? audit_name(items[n])) IS NOT TRUE ORDER BY n);
		-- one alone is described and compared in as many questions
		IF cardinality(places) < 2 THEN
			RETURN;
		END IF;
		candidates := audit_ask_scopes(conns,
			ARRAY(SELECT items[n] FROM unnest(places) WITH ORDINALITY AS u(n, i) ORDER BY i));
		FOR i IN 1 .. cardinality(candidates) LOOP
			small := NULL;
			BEGIN
				small.item := audit_scope(conns, candidates[i], options.trust_filters);
				small.compare := audit_compare_options(small.item, options);
				IF conns[1] IS NULL THEN
					PERFORM check_options((candidates[i]).relid, options.compare);
					small.here := describe((candidates[i]).relid, (small.compare).condition);
				END IF;
				RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'described';
			EXCEPTION WHEN @on_error@ THEN
				-- by another name, it may have another peer
				CONTINUE WHEN SQLSTATE <> 'IB000'
					OR small.here ->> 'relation' <> audit_name(small.item);
			END;
			small.core := audit_core(small.here);
			IF small.core IS NOT NULL OR conns[1] IS NOT NULL THEN
				small.n := places[i];
				smalls := smalls || small;
				pages := pages + coalesce((small.here ->> 'most_rows')::numeric * 28 / 8192, 0);
			END IF;
			IF pages > 10 * most THEN
				last := places[i];
				EXIT;
			END IF;
		END LOOP;
		IF cardinality(smalls) < 2 THEN
			RETURN;
		END IF;
		compared := CASE (options.compare).method
			WHEN 'plain' THEN plain_compare_small(conns, smalls)
			ELSE audit_compare_small(conns, smalls) END;
		RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'compared';
	EXCEPTION WHEN @on_error@ THEN
		IF SQLSTATE <> 'IB000' THEN
			-- it shows again when the tables are compared alone
			PERFORM peers_close(conns);
			RETURN;
		END IF;
	END;
	FOR i IN 1 .. coalesce(cardinality(compared), 0) LOOP
		one := compared[i];
		one.total_ms := round(ms(started) / cardinality(smalls), 1);
		equal[(smalls[i]).n] := one;
	END LOOP;
END
$$;
