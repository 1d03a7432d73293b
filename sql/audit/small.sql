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
-- As in audit_attempt, a table's work is rolled back on both sides to free its locks.

-- A small table of an audit.
CREATE TYPE audit_small AS (
	n integer,				-- its place in the list
	item audit_item,
	compare options,
	here jsonb,				-- as described; NULL if this side is elsewhere
	core text				-- of that
);

-- What is asked of a small table.  It travels as text, because the names of fields would be as long
-- as what is in them.
CREATE TYPE audit_question AS (
	relation text,
	condition text,
	exclude text[],
	seed bigint,
	own_rows text,
	core text,				-- of this side; NULL: the answer has its own
	described jsonb			-- the relation, which is asked for with true
);

-- What a side says of it: all that its description may have otherwise than the other side's.
CREATE TYPE audit_reply AS (
	checksum text,			-- of all rows, NULL if the table was altered
	rows bigint,
	identity text,
	fingerprint text,
	versions boolean,
	version_rights boolean,
	most_rows bigint,
	collations text[],
	subscriptions jsonb,
	core text,
	described jsonb
);

-- 128 bits of a SHA-256, in hexadecimal.
CREATE FUNCTION audit_hash(bytes bytea) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT left(encode(sha256(bytes), 'hex'), 32)
$$;

-- A hash of what both sides must have in common, for a table of at most 1 MB; otherwise NULL.
-- What a plan depends on, except what audit_answer gives, and the names of indexes, by which
-- nothing is looked up in an equal table.  NULL unless the table is small:
-- views and foreign tables have no upper bound of their rows.
CREATE FUNCTION audit_core(described jsonb) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	-- PostgreSQL does not know the size of a table of Citus
	IF described -> 'most_rows' = 'null' OR described -> 'distributed' IS DISTINCT FROM 'false' THEN
		RETURN NULL;
	END IF;
	RETURN CASE WHEN (described ->> 'most_rows')::numeric * 28 <= 1048576
		THEN audit_hash(convert_to(jsonb_build_array(described -> 'kind', described -> 'ordinary',
			described -> 'columns', ARRAY(SELECT key - 'index' FROM jsonb_array_elements(
				described -> 'keys') AS key))::text, getdatabaseencoding())) END;
END
$$;

-- A checksum of a table's rows, and their number; NULL if the table was altered.
-- Relies on: read_heap, in one snapshot under its lock.
CREATE FUNCTION audit_checksum(described jsonb, options options,
	OUT checksum text, OUT rows bigint) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s side := described(described, 'here');
	plan plan := make_plan(s, s, options);
	answer record;
BEGIN
	PERFORM check_code(plan);
	answer := read_heap(format('SELECT * FROM (SELECT %s OFFSET 0)'
		' AS iblt_r(sketch, fingerprint)', sketch_sql(plan, plan.here, 1)),
		described => reads(plan.here));
	IF answer.fingerprint = s.fingerprint THEN
		checksum := audit_hash((answer.sketch)::bytea);
		rows := (iblt_header(answer.sketch)).rows;
	END IF;
END
$$;

-- What is asked

-- What is to be known of a small table: the checksum, the number of rows, and what the other
-- side's description cannot tell; NULL if it must be compared alone.
-- A question of this database has its description, so that it is not made again.  One of another
-- server that has no hash wants that of here, and of this side the description.
CREATE FUNCTION audit_answer(question audit_question) RETURNS audit_reply
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	options options := jsonb_populate_record(NULL::options,
		to_jsonb(question) || '{"content": "none", "extra_columns": "ignore"}');
	described jsonb := coalesce(nullif(question.described, 'true'),
		describe(to_regclass(question.relation), question.condition));
	core text := audit_core(described);
	found record;
BEGIN
	IF core IS NULL OR core <> question.core THEN
		RETURN NULL;
	END IF;
	found := audit_checksum(described, options);
	RETURN jsonb_populate_record(NULL::audit_reply, described || jsonb_build_object(
		'checksum', found.checksum, 'rows', found.rows,
		'core', CASE WHEN question.core IS NULL THEN core END,
		'described', CASE WHEN question.described = 'true' THEN described END));
END
$$;

-- The answers about small tables, and what is the same for all tables of this database.
CREATE FUNCTION audit_answers(questions audit_question[]) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	question audit_question;
	reply audit_reply;
	answers jsonb := '[]';
	server jsonb := describe('pg_class', NULL);
BEGIN
	FOREACH question IN ARRAY questions LOOP
		reply := NULL;
		BEGIN
			reply := audit_answer(question);
			RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'compared';
		EXCEPTION WHEN @on_error@ THEN
			-- an error shows again when the table is compared alone
			NULL;
		END;
		answers := answers || jsonb_build_array(reply::text);
	END LOOP;
	RETURN jsonb_build_object('tables', answers, 'server', jsonb_build_object(
		'system', server -> 'system', 'recovery', server -> 'recovery',
		'slots', server -> 'slots'));
END
$$;

-- Which tables

-- An item with what it takes to compare it with many others; NULL after an error.
CREATE FUNCTION audit_describe_small(conns text[], item audit_item, options audit_options)
RETURNS audit_small
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	small audit_small;
BEGIN
	BEGIN
		small.item := audit_scope(conns, item, options.trust_filters);
		small.compare := audit_compare_options(small.item, options);
		IF conns[1] IS NULL THEN
			PERFORM check_options(item.relid, options.compare);
			small.here := describe(item.relid, (small.compare).condition);
			-- by another name, it may have another peer
			IF small.here ->> 'relation' <> audit_name(item) THEN
				RETURN NULL;
			END IF;
		END IF;
		RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'described';
	EXCEPTION WHEN @on_error@ THEN
		IF SQLSTATE <> 'IB000' THEN
			RETURN NULL;
		END IF;
	END;
	RETURN small;
END
$$;

-- The small tables from a place in the list on: of that many items at most, and if they are
-- described here, of some 80 KB for each.
CREATE FUNCTION audit_find_small(conns text[], items audit_item[], first integer,
	options audit_options, most integer, OUT smalls audit_small[], OUT last integer) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	places integer[];		-- of those that may be small
	candidates audit_item[];
	small audit_small;
	pages numeric := 0;
BEGIN
	smalls := '{}';
	last := least(first + most - 1, cardinality(items));
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
		small := audit_describe_small(conns, candidates[i], options);
		small.core := audit_core(small.here);
		IF small.core IS NOT NULL OR conns[1] IS NOT NULL AND (small.item).name <> '' THEN
			small.n := places[i];
			smalls := smalls || small;
			pages := pages + coalesce((small.here ->> 'most_rows')::numeric * 28 / 8192, 0);
		END IF;
		IF pages > 10 * most THEN
			last := places[i];
			EXIT;
		END IF;
	END LOOP;
END
$$;

-- The question about tables; to this side with its own descriptions, or for them.
CREATE FUNCTION audit_small_sql(smalls audit_small[], own boolean) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT format('SELECT audit_answers(%L)', array_agg(jsonb_populate_record(NULL::audit_question,
		to_jsonb(s.compare) || jsonb_build_object('core', s.core, 'relation',
			CASE WHEN own THEN audit_name(s.item) ELSE audit_peer_name(s.item) END,
			'condition', CASE WHEN own THEN (s.compare).condition
				ELSE (s.compare).peer_condition END,
			'described', CASE WHEN own THEN coalesce(s.here, 'true') END)) ORDER BY n))
	FROM unnest(smalls) WITH ORDINALITY AS s(place, item, compare, here, core, n)
$$;

-- The row for a small table with that many equal rows on each side; an error if its plan has
-- one.
CREATE FUNCTION audit_equal_small(small audit_small,
	plan plan, rows bigint, bytes bigint) RETURNS audit_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	checked record := audit_adjust_plan(small.item, plan, small.compare);
	figures figures;
BEGIN
	PERFORM require_version_rights(checked.plan);
	figures.rows_here := rows;
	figures.rows_there := rows;
	figures.bytes_sent := bytes;
	figures.bytes_received := 0;
	RETURN audit_result(checked.item, ROW(checked.plan, figures, '{}', NULL));
END
$$;

-- The row for a small table that is equal, from the answers of both sides; NULL for one that
-- must be compared alone.
CREATE FUNCTION audit_judge_small(small audit_small, conns text[], server jsonb,
	mine audit_reply, theirs audit_reply, bytes bigint) RETURNS audit_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF (mine.checksum = theirs.checksum AND mine.rows = theirs.rows
			AND (small.core IS NOT NULL OR mine.core = theirs.core)) IS NOT TRUE THEN
		RETURN NULL;
	END IF;
	small.here := coalesce(small.here, mine.described);
	RETURN audit_equal_small(small, checked_plan(
		described(small.here, 'here', conns[1]),
		described(small.here || server || to_jsonb(theirs) || jsonb_build_object(
			'relation', audit_peer_name(small.item), 'condition', (small.compare).peer_condition),
			'there', conns[2]), small.compare),
		mine.rows, bytes);
EXCEPTION WHEN @on_error@ THEN
	-- an error shows again when the table is compared alone
	RETURN NULL;
END
$$;

-- The rows for those small tables that are equal, and NULL for the others; none if a peer
-- could not answer.
CREATE FUNCTION audit_compare_small(conns text[], smalls audit_small[]) RETURNS audit_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	traffic record := iblt_traffic_take();
	answers text[];
	here jsonb;
	there jsonb;
BEGIN
	BEGIN
		answers := ask_values(conns, ARRAY[audit_small_sql(smalls, true),
			audit_small_sql(smalls, false)], 0.005, 'iblt_audit');
	EXCEPTION WHEN @on_error@ THEN
		PERFORM peers_close(conns);
		RETURN '{}';
	END;
	here := answers[1];
	there := answers[2];
	traffic := iblt_traffic_take();
	RETURN ARRAY(SELECT audit_judge_small(smalls[i], conns, there -> 'server',
			(here -> 'tables' ->> (i - 1))::audit_reply,
			(there -> 'tables' ->> (i - 1))::audit_reply,
			(traffic.sent + traffic.received) / cardinality(smalls))
		FROM generate_subscripts(smalls, 1) AS i);
END
$$;

-- The rows for equal small tables, at their places in the list, and the last place looked at.
CREATE FUNCTION audit_batch(conns text[], peers text[], items audit_item[], first integer,
	options audit_options, most integer, OUT equal audit_row[], OUT last integer) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	chosen record;
	smalls audit_small[];
	compared audit_row[];
	one audit_row;
BEGIN
	BEGIN
		conns := audit_begin(conns, peers);
		chosen := audit_find_small(conns, items, first, options, most);
	EXCEPTION WHEN @on_error@ THEN
		-- an error shows again when the tables are compared alone
		PERFORM peers_close(conns);
		last := least(first + most - 1, cardinality(items));
		RETURN;
	END;
	smalls := chosen.smalls;
	last := chosen.last;
	IF cardinality(smalls) < 2 THEN
		RETURN;
	END IF;
	compared := CASE (options.compare).method
		WHEN 'plain' THEN plain_compare_small(conns, smalls)
		ELSE audit_compare_small(conns, smalls) END;
	FOR i IN 1 .. cardinality(compared) LOOP
		one := compared[i];
		one.total_ms := round(ms(started) / cardinality(smalls), 1);
		equal[(smalls[i]).n] := one;
	END LOOP;
END
$$;
