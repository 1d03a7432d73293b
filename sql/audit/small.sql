-- Many small tables ------------------------------------------------------------------
--
-- A small table costs little but its questions to the peer.  So both sides are asked about
-- many of them at once.  Each answers with a checksum of its rows and a hash of its description,
-- and this side with the description.  A table that has the same of both is equal.  All others,
-- also those with an error, are compared alone, as if there was no such question.
--
-- Plain queries take two messages: one describes all tables, and one sums them up.  After an
-- error on the peer, all tables are compared alone.
--
-- As in audit_table, a table's work is rolled back on both sides to free its locks.

-- A small table with its plan, made of what both sides told (plain queries: twice), and with the
-- number of its rows; without a plan after an error, which shows again when it is compared alone.
CREATE FUNCTION audit_plan_small(small audit_small, conns text[], mine jsonb, theirs jsonb,
	plain boolean, rows bigint DEFAULT NULL) RETURNS audit_small
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compare options := small.compare;
	h side;
	t side;
	checked record;
BEGIN
	-- with plain queries, a side may have iblt, but has not described itself
	h := described(mine || jsonb_build_object('condition', compare.condition, 'bare', plain),
		'here', conns[1]);
	t := described(theirs || jsonb_build_object('condition', compare.peer_condition, 'bare', plain),
		'there', conns[2]);
	-- by another name, it may have another peer
	IF (small.item).relid::oid::text <> split_part(h.identity, ' ', -1) THEN
		RETURN small;
	END IF;
	checked := audit_adjust_plan(small.item, CASE
		WHEN plain THEN plain_plan(ARRAY[h, t], ARRAY[mine, theirs], compare)
		ELSE checked_plan(h, t, compare) END, compare);
	PERFORM require_version_rights(checked.plan);
	small.item := checked.item;
	small.plan := checked.plan;
	small.rows := rows;
	RETURN small;
EXCEPTION WHEN @on_error@ THEN
	RETURN small;
END
$$;

-- Small tables with plan and rows, if both sides have the same.
CREATE FUNCTION audit_compare_small(conns text[], smalls audit_small[]) RETURNS audit_small[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answers jsonb[] := ask_values(conns, ARRAY(SELECT format('SELECT audit_answers(%L, %L)', (
			SELECT array_agg(jsonb_populate_record(NULL::options, jsonb_build_object(
				'relation_name', audit_name(s.item, NOT own), 'exclude', (s.compare).exclude,
				'condition', CASE WHEN own THEN (s.compare).condition
					ELSE (s.compare).peer_condition END,
				'seed', (s.compare).seed, 'own_rows', (s.compare).own_rows)) ORDER BY s.n)
			FROM unnest(smalls) AS s), own)
		FROM unnest('{true,false}'::boolean[]) WITH ORDINALITY AS u(own, side)
		ORDER BY u.side), 'iblt_audit')::jsonb[];
	mine audit_reply;
	theirs audit_reply;
BEGIN
	FOR i IN 1 .. cardinality(smalls) LOOP
		mine := (answers[1] -> 'tables' ->> (i - 1))::audit_reply;
		theirs := (answers[2] -> 'tables' ->> (i - 1))::audit_reply;
		IF mine.checksum = theirs.checksum AND mine.rows = theirs.rows AND mine.core = theirs.core
		THEN
			smalls[i] := audit_plan_small(smalls[i], conns, mine.described,
				mine.described || (answers[2] -> 'server') || to_jsonb(theirs)
				|| jsonb_build_object('relation', audit_name(smalls[i].item, true)), false,
				mine.rows);
		END IF;
	END LOOP;
	RETURN smalls;
END
$$;

-- The same by plain queries.
CREATE FUNCTION plain_compare_small(conns text[], smalls audit_small[]) RETURNS audit_small[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answers text[] := ask_values(conns, ARRAY(SELECT format('SELECT jsonb_agg((%s'
			' WHERE c.oid = to_regclass(iblt_r.name)) ORDER BY iblt_r.n)'
			' FROM unnest(%L::text[]) WITH ORDINALITY AS iblt_r(name, n)', plain_relations_sql(),
			ARRAY(SELECT audit_name(s.item, NOT own) FROM unnest(smalls) AS s))
		FROM unnest('{true,false}'::boolean[]) WITH ORDINALITY AS u(own, side)
		ORDER BY u.side), 'iblt_audit');
	told jsonb[] := answers::jsonb[];
	mine jsonb;
	theirs jsonb;
	p plan;
	sums text[] := '{NULL,NULL}';	-- queries for those of all tables, of each side
	read described[] := '{}';
	h text[];				-- the fingerprint, the number of rows, the sums and milliseconds
	t text[];
BEGIN
	FOR i IN 1 .. cardinality(smalls) LOOP
		mine := told[1] -> (i - 1);
		theirs := told[2] -> (i - 1);
		-- nothing bounds the rows of views and foreign tables
		IF ARRAY[mine ->> 'kind', theirs ->> 'kind'] <@ '{r,p,m}' AND greatest(
				mine #> '{size,bytes}', theirs #> '{size,bytes}')::bigint <= 1048576 THEN
			smalls[i] := audit_plan_small(smalls[i], conns, mine, theirs, true);
		END IF;
		p := smalls[i].plan;
		FOR n IN 1 .. 2 LOOP
			sums[n] := concat_ws(', ', sums[n], CASE WHEN p.buckets IS NULL THEN 'NULL'
				ELSE format('(%s)', plain_sums_sql(p, (sides_of(p))[n], 'iblt_f.known')) END);
		END LOOP;
		read := read || CASE WHEN p.buckets IS NOT NULL THEN reads(ARRAY[p.here, p.there],
			peers_known('bare')) END;
	END LOOP;
	-- the fingerprints are looked up by what each query in FROM has, under its lock
	answers := ask_values(conns, ARRAY(SELECT format('SELECT ARRAY[%s]::text[]::text FROM (SELECT'
				' jsonb_object_agg(id, fingerprint) FROM (%s) AS iblt_f) AS iblt_f(known)',
				sums[side], plain_fingerprints_sql(format('= ANY (%L::oid[])', ARRAY(
					SELECT split_part(((sides_of(s.plan))[side]).identity, ' ', -1)
					FROM unnest(smalls) AS s WHERE (s.plan).buckets IS NOT NULL))))
			FROM generate_series(1, 2) AS side ORDER BY side),
		NULL, ROW('read_heap', NULL, NULL, NULL, read)::reading);
	FOR i IN 1 .. cardinality(smalls) LOOP
		h := string_to_array((answers[1]::text[])[i], ' ');
		t := string_to_array((answers[2]::text[])[i], ' ');
		p := smalls[i].plan;
		IF h[1] = (p.here).fingerprint AND t[1] = (p.there).fingerprint AND h[2:3] = t[2:3] THEN
			smalls[i].rows := h[2];
		END IF;
	END LOOP;
	RETURN smalls;
END
$$;

-- The rows for equal small tables, at their places in the list, of that many items at most.
CREATE FUNCTION audit_batch(conns text[], peers text[], items audit_item[], first integer,
	most integer, options options) RETURNS audit_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	-- those that may be small
	places integer[] := ARRAY(SELECT n
		FROM generate_series(first, least(first + most - 1, cardinality(items))) AS n,
			LATERAL (SELECT (items[n]).problem, (items[n]).absent) AS i
		WHERE i.problem IS NULL AND i.absent IS NOT TRUE AND options.live = 'off'
		AND (options.mappings ? audit_name(items[n])) IS NOT TRUE ORDER BY n);
	place integer;
	scoped record;
	small audit_small;
	smalls audit_small[] := '{}';
	traffic record;
	figures figures;
	equal audit_row[];
BEGIN
	BEGIN
		conns := connect(peers, conns);
		FOREACH place IN ARRAY places LOOP
			BEGIN
				scoped := audit_scope(conns, items[place], options);
				smalls := array_append(smalls,
					ROW(place, scoped.item, scoped.compare, NULL, NULL)::audit_small);
			EXCEPTION WHEN @on_error@ THEN
				NULL;	-- it shows again when the table is compared alone
			END;
		END LOOP;
		-- one alone is described and compared in as many questions
		IF cardinality(smalls) < 2 THEN
			RETURN NULL;
		END IF;
		PERFORM iblt_traffic_take();
		smalls := CASE options.method
			WHEN 'plain' THEN plain_compare_small(conns, smalls)
			ELSE audit_compare_small(conns, smalls) END;
		traffic := iblt_traffic_take();
		RAISE SQLSTATE 'IB000' USING MESSAGE = 'compared';
	EXCEPTION WHEN @on_error@ THEN
		IF SQLSTATE <> 'IB000' THEN
			-- it shows again when the tables are compared alone
			PERFORM peers_close(conns);
			RETURN NULL;
		END IF;
	END;
	figures.bytes_sent := (traffic.sent + traffic.received) / cardinality(smalls);
	figures.bytes_received := 0;
	FOREACH small IN ARRAY smalls LOOP
		IF small.rows IS NOT NULL THEN
			figures.rows_here := small.rows;
			figures.rows_there := small.rows;
			equal[small.n] := audit_verdict(small.item, small.plan, figures,
				audit_count('{}', NULL));
			equal[small.n].total_ms := round(ms(started) / cardinality(smalls), 1);
		END IF;
	END LOOP;
	RETURN equal;
END
$$;
