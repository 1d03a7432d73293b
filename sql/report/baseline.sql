-- Baselines ----------------------------------------------------------------------------
--
-- A baseline is a text with a sketch of each table at a moment, so that a database is compared
-- later with what it was, also after it was restored elsewhere.  A line is a JSON object: a
-- head, the tables, and the SHA-256 of all lines before it.  A sketch has no rows, so it names
-- as many keys as its capacity allows, and no contents.

-- What a baseline has of a table, and what is asked of it later.
CREATE TYPE baseline_table AS (
	relation text,			-- schema.name, quoted
	columns text[],			-- names and types of what is compared, in order
	key text[],				-- its columns
	by_hash boolean,		-- are keys in the sketch as hashes?
	capacity integer,		-- keys that it can name
	seed bigint,
	lsn pg_lsn,				-- of this server when it was read
	read_at timestamptz,
	rows bigint,
	sketch @extschema@.iblt,
	hash text				-- SHA-256 of the sketch, in its place if capacity is 0
);

-- A row of the comparison with a baseline; "there" is the baseline.
CREATE TYPE baseline_row AS (
	relation text,
	status text,
	detail text,
	sqlstate text,
	rows_here bigint,
	rows_there bigint,
	missing bigint,
	extra bigint,
	changed bigint,
	keys jsonb				-- that differ, each with its side
);

-- A table as it is now, read as a comparison reads it, whole and in one snapshot; with the plan,
-- which is that of its comparison with a table of the same kind.
CREATE FUNCTION baseline_read(
	relation regclass,
	capacity integer,
	seed bigint,
	OUT plan plan, OUT result baseline_table)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	max_differences bigint := coalesce(nullif(capacity, 0), 100);
	content text := 'none';
	recheck integer := 0;
	options options := @arguments options@;
	side side;
	scanned scanned[];
BEGIN
	PERFORM check_options(relation, options);
	side := (describe_sides('{NULL}', ARRAY[relation::oid::text], '{}', '{}', NULL,
		false)).sides[1];
	plan := make_plan(side, side, options);
	IF (plan.here).kind NOT IN ('r', 'p', 'm') OR (plan.here).remote OR (plan.here).distributed
			OR (plan.here).shards <> '{}' THEN
		RAISE wrong_object_type USING
			MESSAGE = format('no baseline can be made of %s', (plan.here).relation),
			DETAIL = 'It is neither a table nor a materialized view of this server alone.';
	END IF;
	result.relation := (plan.here).relation;
	-- a type of one name may be made of other types by then
	result.columns := ARRAY(SELECT concat_ws(' ', c.name, c.type, c.parts)
		FROM unnest((plan.here).columns) AS c);
	result.key := iblt_field(plan.key);
	result.by_hash := plan.by_hash;
	result.capacity := capacity;
	result.seed := plan.seed;
	result.lsn := CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
		ELSE pg_current_wal_lsn() END;
	result.read_at := clock_timestamp();
	scanned := ask_values('{NULL}', ARRAY[scan_sql(plan, plan.here, max_differences::integer)],
		how => reading_of(plan))::scanned[];
	PERFORM require_side_described(plan.here, scanned[1].fingerprint),
		require_side_described(plan.there, scanned[1].fingerprint);
	result.sketch := iblt_session_get(kept_name(plan, plan.here));
	PERFORM iblt_session_drop(kept_name(plan, plan.here));
	result.rows := (iblt_header(result.sketch)).rows;
	IF capacity = 0 THEN
		result.hash := encode(sha256(result.sketch::bytea), 'hex');
		result.sketch := NULL;
	END IF;
END
$$;

-- The first line of a baseline, perhaps with what a receipt says.
CREATE FUNCTION baseline_head(schema text, listed boolean, receipt json DEFAULT NULL) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL SAFE
	RETURN json_strip_nulls(json_build_object('iblt_baseline', 1, 'protocol', protocol(),
		'database', current_database(), 'schema', schema, 'listed', listed,
		'made_at', clock_timestamp(), 'receipt', receipt))::text;

-- The lines of the tables.
CREATE FUNCTION baseline_tables(tables regclass[], schema text, capacity integer) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	content text := 'none';
	lines text := '';
	target audit_target := audit_make_target(tables, schema, NULL, NULL);
	item audit_item;
BEGIN
	PERFORM audit_check(false, false, target, @arguments options@);
	FOREACH item IN ARRAY audit_list('{NULL}', target) LOOP
		lines := concat(lines, chr(10),
			row_to_json((baseline_read(item.relid, capacity, random_seed())).result));
	END LOOP;
	RETURN lines;
END
$$;

-- All lines of a baseline, with the last one, for the lines before it.
CREATE FUNCTION baseline_sealed(lines text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN concat(lines, chr(10), json_build_object('sha256',
		encode(sha256(convert_to(lines, 'UTF8')), 'hex')));

-- The lines of a baseline but for the last one; an error if it is not whole.
CREATE FUNCTION baseline_lines(baseline text) RETURNS json[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	whole text := rtrim(baseline, E'\r\n');
	texts text[] := string_to_array(whole, chr(10));
	last integer := cardinality(texts);
	lines json[];
BEGIN
	IF coalesce(last, 0) < 2
			OR whole <> baseline_sealed(array_to_string(texts[1:last - 1], chr(10)))
			OR last = 2 AND texts[1]::json -> 'receipt' IS NULL THEN
		RAISE data_corrupted USING MESSAGE = 'the baseline is damaged',
			DETAIL = 'It is not the whole text that was saved.';
	END IF;
	lines := texts[1:last - 1]::json[];
	IF (lines[1] ->> 'iblt_baseline' = '1' AND lines[1] ->> 'protocol' = protocol()::text)
			IS NOT TRUE THEN
		RAISE feature_not_supported USING MESSAGE = 'the baseline is of another version of iblt',
			HINT = 'Make another baseline.';
	END IF;
	RETURN lines;
END
$$;

CREATE FUNCTION @extschema@.iblt_baseline(
	@iblt_audit: tables schema@
	capacity integer DEFAULT 1000)
RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	@driver '{NULL}'; false@
AS $$
DECLARE
	head text;
BEGIN
	IF coalesce(capacity, -1) NOT BETWEEN 0 AND 100000 THEN
		RAISE invalid_parameter_value USING MESSAGE = 'capacity must be between 0 and 100000';
	END IF;
	head := baseline_head((audit_make_target(tables, schema, NULL, NULL)).name,
		tables IS NOT NULL);
	RETURN baseline_sealed(head || baseline_tables(tables, schema, capacity));
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_baseline IS
'a text with a sketch of each table as it is now, for iblt_audit_baseline';

-- An error of a table is in its row.  What was done for the table is rolled back, which frees its
-- locks.
CREATE FUNCTION @extschema@.iblt_audit_baseline(baseline text) RETURNS SETOF baseline_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@driver '{NULL}'; false@
AS $$
DECLARE
	lines json[];
	before baseline_table;
	names text[] := '{}';
	result baseline_row;
	made record;
	plan plan;
	now baseline_table;
	difference declared.sketch%TYPE;
	decoded record;
	keys record;
	rows found_rows[];
BEGIN
	lines := baseline_lines(baseline);
	FOR n IN 2 .. cardinality(lines) LOOP
		before := json_populate_record(NULL::baseline_table, lines[n]);
		names := names || before.relation;
		BEGIN
			made := baseline_read(before.relation::regclass, before.capacity, before.seed);
			plan := made.plan;
			now := made.result;
			result := ROW(before.relation, NULL, format('baseline of %s, %s', to_char(
				before.read_at, 'YYYY-MM-DD HH24:MI:SS "UTC"'), before.lsn), NULL, now.rows,
				before.rows, NULL, NULL, NULL, NULL);
			IF (now.columns, now.key, now.by_hash)
					IS DISTINCT FROM (before.columns, before.key, before.by_hash) THEN
				result.status := 'not comparable';
				result.detail := concat_ws('; ', result.detail, format('columns or key were '
					'altered: %s, key (%s) in the baseline, and %s, key (%s) now', array_to_string(
					before.columns, ', '), array_to_string(before.key, ', '), array_to_string(
					now.columns, ', '), array_to_string(now.key, ', ')));
			ELSIF now.hash = before.hash AND now.rows = before.rows THEN
				SELECT 'equal', 0, 0, 0
				INTO result.status, result.missing, result.extra, result.changed;
			ELSIF before.hash IS NOT NULL THEN
				result.status := 'differs';
			END IF;
			IF result.status IS NOT NULL THEN
				RAISE SQLSTATE 'IB000' USING MESSAGE = 'compared';
			END IF;
			difference := iblt_subtract(now.sketch, before.sketch);
			decoded := iblt_compare_decode(difference);
			result.status := CASE WHEN decoded.complete AND decoded.recovered = 0 THEN 'equal'
				ELSE 'differs' END;
			IF NOT decoded.complete THEN
				result.sqlstate := 'IB002';
				result.detail := format('%s; more keys differ than a baseline with capacity %s can '
					'name: about %s', result.detail, before.capacity, decoded.estimated);
				RAISE SQLSTATE 'IB000' USING MESSAGE = 'compared';
			ELSIF decoded.recovered = 0 AND now.rows <> before.rows THEN
				RAISE data_corrupted USING
					MESSAGE = 'the sketches are equal, and the numbers of rows are not';
			END IF;
			keys := iblt_compare_keys(difference, decoded.keys, 0, decoded.recovered::integer);
			SELECT count(*) FILTER (WHERE side = 'there'), count(*) FILTER (WHERE side = 'here'),
				count(*) FILTER (WHERE side = 'both')
			INTO result.missing, result.extra, result.changed FROM unnest(keys.sides) AS side;
			IF plan.by_hash AND decoded.recovered > 0 THEN
				-- a scan finds the keys of hashes, except for those that only the baseline has
				rows := find_sides(plan, keys.keys, 1);
				result.keys := (SELECT jsonb_agg(jsonb_build_object('key', r.key, 'side', d.side)
						ORDER BY d.n)
					FROM unnest(keys.keys, keys.sides) WITH ORDINALITY AS d(hash, side, n)
					LEFT JOIN unnest(rows[1].id, rows[1].key) AS r(id, key)
						ON split_part(r.id, ' ', 1) = d.hash);
			ELSE
				EXECUTE format('SELECT jsonb_agg(jsonb_build_object(''key'', %s, ''side'', side)'
					' ORDER BY n) FROM unnest($1, $2) WITH ORDINALITY AS iblt_k(id, side, n)',
					key_json_sql(plan.key)) INTO result.keys USING keys.keys, keys.sides;
			END IF;
			RAISE SQLSTATE 'IB000' USING MESSAGE = 'compared';
		EXCEPTION WHEN @on_error@ THEN
			IF SQLSTATE <> 'IB000' THEN
				@take_failure@;
				-- its schema may be gone, too
				result := ROW(before.relation, CASE e.state WHEN '3F000' THEN 'not comparable'
						ELSE (audit_failed(NULL, e)).status END, e.message, e.state, NULL,
					before.rows, NULL, NULL, NULL, NULL);
			END IF;
		END;
		RETURN NEXT result;
	END LOOP;
	RETURN QUERY SELECT (ROW(x.name, 'not comparable', 'the receipt has no hash of this table',
			NULL, NULL, NULL, NULL, NULL, NULL, NULL)::baseline_row).*
		FROM unnest('{tables,accepted}'::text[]) WITH ORDINALITY AS l(list, n),
			json_array_elements(lines[1] #> ARRAY['receipt', l.list]) WITH ORDINALITY AS t(told, n),
		LATERAL (SELECT CASE WHEN l.list = 'tables' THEN t.told ->> 'relation'
			WHEN t.told ->> 'kind' = 'rows' THEN t.told ->> 'object' END) AS x(name)
		WHERE x.name <> ALL (names) ORDER BY l.n, t.n;
	IF NOT (lines[1] ->> 'listed')::boolean THEN
		RETURN QUERY SELECT (ROW(x.name, 'not comparable', 'the baseline has no such table', NULL,
				NULL, NULL, NULL, NULL, NULL, NULL)::baseline_row).*
			FROM jsonb_array_elements(audit_tables(lines[1] ->> 'schema'))
				WITH ORDINALITY AS t(pair, n),
			LATERAL (SELECT format('%I.%I', t.pair ->> 0, t.pair ->> 1)) AS x(name)
			WHERE x.name <> ALL (names) ORDER BY t.n;
	END IF;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_baseline IS
'compares tables with a baseline that iblt_baseline made: one row a table, with the keys that '
'differ';
