-- Comparing with a server without iblt -----------------------------------------------------

-- The plan for two relations, as describe_sides described both; an error for what plain queries
-- cannot compare.
-- A peer without iblt cannot check a condition or an expression.  So it is checked on the relation
-- of the other side, and must mean the same there: it may consist of what PostgreSQL itself has,
-- and of columns that both sides have with the same types.
CREATE FUNCTION plain_plan(sides side[], told jsonb[], options options) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	mine jsonb := told[1];
	theirs jsonb := told[2];
	mappings jsonb[] := ARRAY[options.mapping, options.peer_mapping];
	mapped jsonb[] := told;
	s side;
	other side;
	read side;
	checks side;
	expression record;
	used text[];			-- columns
	problems text;			-- columns whose values texts do not compare safely
	types text[];
	plan plan;
BEGIN
	PERFORM plain_check(CASE
		WHEN least((mine ->> 'version')::integer, (theirs ->> 'version')::integer) < 140000
			THEN 'both servers must have PostgreSQL 14 or later'
		-- the same bytes may be other characters
		WHEN mine -> 'encoding' <> theirs -> 'encoding'
			THEN format('the encoding is %s here and %s on the peer', mine ->> 'encoding',
				theirs ->> 'encoding')
		-- all rows would travel, and their keys not be found again
		WHEN mine -> 'hash' <> theirs -> 'hash'
			THEN 'the peer hashes texts differently, perhaps because of its byte order' END);
	FOR n IN 1 .. 2 LOOP
		s := sides[n];
		other := sides[3 - n];
		read := with_own_rows(s, other, options);
		PERFORM plain_check(CASE WHEN read.remote OR read.distributed
				THEN format('rows of %s (%s) are on other servers', s.relation, s.side) END);
		-- the other side checks the condition and the expressions of one without iblt
		checks := CASE WHEN s.bare THEN other ELSE s END;
		FOR expression IN SELECT * FROM (SELECT s.condition, true UNION ALL SELECT value, false
					FROM jsonb_each_text(mappings[n] -> 'expressions')) AS e(text, is_condition)
				WHERE e.text IS NOT NULL AND s.bare LOOP
			PERFORM plain_check(CASE WHEN other.bare
					THEN concat('there is ', CASE WHEN expression.is_condition THEN 'a condition'
						ELSE 'an expression' END, ', and no side is asked through iblt, which '
						'checks it') END,
				'Install iblt on one of the sides, and compare there.');
			used := ask_one(other.place, format('SELECT (iblt_internal'
				'.iblt_compare_check_expression(%L, %L, %L, true)).columns', other.relation,
				expression.text, expression.is_condition));
			SELECT string_agg(format('"%s"', name), ', ') INTO problems FROM unnest(used) AS name
			LEFT JOIN jsonb_to_recordset(told[3 - n] -> 'columns') AS h(name text, text text,
				type text, parts text, vague boolean) USING (name)
			LEFT JOIN jsonb_to_recordset(told[n] -> 'columns') AS t(name text, text text,
				type text, parts text, vague boolean) USING (name)
			WHERE NOT coalesce(h.text = t.text AND NOT (h.vague OR t.vague)
				AND (h.text !~ '^enum' OR h.type = t.type AND h.parts = t.parts
					AND h.parts ~ ' enum([[]])?$'), false);
			PERFORM plain_check('an expression may mean something else on the peer, because of '
					'columns that it names: ' || problems,
				'Compare columns that both sides have, of the same built-in types or enums.');
		END LOOP;
		IF mappings[n] IS NOT NULL THEN
			mapped[n] := map_columns(told[n], mappings[n], ask_call(checks.place, format(
				'made_columns(%L::pg_catalog.regclass, %L)', checks.relation, mappings[n]))::jsonb);
		END IF;
		IF s.bare THEN
			sides[n] := jsonb_populate_record(s, jsonb_build_object('columns',
				mapped[n] -> 'columns', 'keys', mapped[n] -> 'keys', 'mapped',
				mapped[n] -> 'mapped'));
		END IF;
	END LOOP;
	plan := checked_plan(sides[1], sides[2], options);
	SELECT string_agg(CASE WHEN c.type_here = c.type_there
			THEN format('"%s" is %s', c.name, c.type_here)
			ELSE format('"%s" is %s here and %s on the peer', c.name, c.type_here, c.type_there)
			END, ', ') FILTER (WHERE c.cast_to <> '' OR (h.text = t.text) IS NOT TRUE),
		-- the type that values of both sides become: text for an enum.  A type has no length here:
		-- "character" and "bit" would be of one
		array_agg(CASE h.text WHEN 'enum' THEN 'text' WHEN 'enum[]' THEN '_text'
			ELSE (SELECT typname FROM pg_type WHERE oid = coalesce(text_type(
				plan.columns[c.ordinality])::regtype, h.text::regtype)) END ORDER BY c.ordinality)
	INTO problems, types
	FROM unnest(plan.columns) WITH ORDINALITY AS c
	LEFT JOIN jsonb_to_recordset(mapped[1] -> 'columns') AS h(name text, text text) USING (name)
	LEFT JOIN jsonb_to_recordset(mapped[2] -> 'columns') AS t(name text, text text) USING (name);
	PERFORM plain_check(CASE WHEN plan.columns = '{}' THEN 'there are no columns'
		ELSE 'their text does not tell all values of some columns apart: ' || problems END,
		'Exclude these columns, or use method => ''sketch'' with iblt on both sides.');
	FOR i IN 1 .. cardinality(types) LOOP
		plan.columns[i].read_as := types[i];
	END LOOP;
	plan.by_hash := true;
	plan.buckets := plain_buckets(greatest((mine -> 'size' ->> 'rows')::bigint,
		(theirs -> 'size' ->> 'rows')::bigint, 0));
	plan.bytes := greatest((mine -> 'size' ->> 'bytes')::bigint,
		(theirs -> 'size' ->> 'bytes')::bigint, 0);
	RETURN plan;
END
$$;

-- As search(): the buckets in which rows differ, by how much the sums of each bucket differ from
-- those of the first side, as a list for each side, and about how many keys do; without "keys" if
-- these are surely too many.
-- If d of n buckets differ, about -n ln(1 - d/n) keys do.  If all of them differ, no more is known
-- than that they are many.
CREATE FUNCTION plain_search(plan plan, figures figures) RETURNS found_keys
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	sides side[] := sides_of(plan);
	number double precision := plan.buckets;
	answers text[];
	words text[];
	differ numeric[];
	rows bigint[];
	times numeric[];
	found found_keys;
BEGIN
	PERFORM progress(plan.progress, format('summing the rows of %s relations up in %s buckets',
		cardinality(sides), plan.buckets));
	answers := ask_values(places_of(plan),
		ARRAY(SELECT plain_sums_sql(plan, s) FROM unnest(sides) AS s), NULL, reading_of(plan));
	found.buckets := '{}';
	FOR n IN 1 .. cardinality(sides) LOOP
		words := string_to_array(answers[n], ' ');
		PERFORM require_side_described(sides[n], words[1]);
		rows[n] := words[2];
		times[n] := words[4];
		IF n = 1 THEN
			found.first := words[3];
		END IF;
		-- 0.5 is that of no rows, which no sum is
		differ := ARRAY(SELECT coalesce(u.a, 0.5) - coalesce(u.b, 0.5)
			FROM unnest(found.first, words[3]::numeric[]) WITH ORDINALITY AS u(a, b, n)
			ORDER BY u.n);
		found.sums[n] := differ;
		found.buckets := ARRAY(SELECT u.n - 1 FROM unnest(differ) WITH ORDINALITY AS u(sum, n)
			WHERE u.sum <> 0 UNION SELECT unnest(found.buckets)::bigint ORDER BY 1);
	END LOOP;
	figures.rows_here := rows[1];
	figures.rows_there := (SELECT max(r) FROM unnest(rows[2 :]) AS r);
	figures.scan_here_ms := coalesce(figures.scan_here_ms, 0) + times[1];
	figures.scan_there_ms := coalesce(figures.scan_there_ms, 0) + times[2];
	figures.scan_ms := coalesce(figures.scan_ms, 0) + ms(started);
	found.plan := plan;
	found.figures := figures;
	found.number := cardinality(found.buckets);
	IF found.number <= plan.max_differences AND (greatest(figures.rows_here, figures.rows_there)
			< 200000 OR -number * ln(1 - least(found.number, number - 1) / number)
			<= plan.max_differences) THEN
		found.keys := '';
	ELSIF found.number < number THEN
		found.number := round(-number * ln(1 - found.number / number));
		found.exact := false;
	END IF;
	RETURN found;
END
$$;

-- Of how many buckets rows are read at a time.
-- The rows of a batch are in memory on both sides, as texts: about 100 MB.
CREATE FUNCTION plain_batch(plan plan, figures figures) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN greatest(1, least(plan.buckets, least(100e6 * plan.buckets / greatest(plan.bytes, 1),
		5e5 * plan.buckets / greatest(figures.rows_here, figures.rows_there, 1))))::integer;

-- The rows on each side whose keys have these hashes, or are in these buckets.
-- Each side answers with a fingerprint and an array of rows, each an array of texts.
-- A cast to text would lose the blanks of a character(n); format uses the type's output.
-- Citus does not plan a fingerprint beside an aggregate, but a subquery with OFFSET on its own.
-- Relies on: read_heap, or a slice, in one snapshot under its lock.
CREATE FUNCTION plain_find(plan plan, keys text[], in_buckets boolean) RETURNS found_rows[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sides side[] := sides_of(plan);
	-- System columns and the hash of its key that a row brings.  Rows that are looked at again by
	-- these hashes come with them, in case this side makes another one of a key.
	extra text[] := CASE WHEN plan.versions THEN '{tableoid,ctid,xmin}'::text[] ELSE '{}' END
		|| CASE WHEN plan.recheck > 0 OR plan.content = 'texts' THEN '{hash}'::text[] ELSE '{}' END;
	came side := plan.here;
	lookup text;			-- finds the rows that came as texts
	texts text := concat_ws(', ', (SELECT string_agg(format(
			'CASE WHEN %1$s IS DISTINCT FROM NULL THEN format(''%%s'', %1$s) END',
				plain_value_sql(columns[n])), ', ' ORDER BY n)
			FROM (SELECT plan.columns) AS p(columns), generate_subscripts(columns, 1) AS n),
		(SELECT string_agg(CASE name WHEN 'hash' THEN plain_key_sql(plan)
			ELSE 't.' || name END || '::text', ', ' ORDER BY n)
			FROM unnest(extra) WITH ORDINALITY AS e(name, n)));
	answers text[] := ask_values(places_of(plan),
		ARRAY(SELECT format('SELECT concat(%s, '' '', iblt_rows) FROM (SELECT coalesce(array_agg('
				'iblt_row), ''{}'') AS iblt_rows FROM (SELECT ARRAY[%s]::text AS iblt_row FROM %s'
				' WHERE %s) AS iblt_r OFFSET 0) AS iblt_a',
			read_fingerprint_sql(s, format('%L::regclass', s.relation)), texts, rows_sql(plan, s),
			plain_matches_sql(plan, quote_literal(plain_find.keys), in_buckets))
			FROM unnest(sides) AS s), NULL, reading_of(plan));
	fingerprint text;
	rows text[];
	found found_rows;
	result found_rows[];
BEGIN
	came.distributed := true;	-- the fingerprint comes with the rows
	lookup := lookup_by_hash_sql(plan, came, ROW('(SELECT 1) AS iblt_k', concat_ws(' AND ',
			plain_matches_sql(plan, '$1', in_buckets), CASE WHEN extra @> '{hash}'
			THEN format('%s = iblt_r.iblt_a[%s]::int8', plain_key_sql(plan),
				cardinality(plan.columns) + cardinality(extra)) END), NULL)::finder,
		(SELECT format('(unnest($2) AS iblt_row'
			' CROSS JOIN LATERAL (SELECT iblt_row::text[] AS iblt_a OFFSET 0) AS iblt_r'
			' CROSS JOIN LATERAL (SELECT %s) AS t)', string_agg(part, ', ' ORDER BY n))
		FROM (SELECT i AS n, format('iblt_r.iblt_a[%s]::pg_catalog.%I AS %I', i,
				(plan.columns[i]).read_as, (plan.columns[i]).name) AS part
			FROM generate_subscripts(plan.columns, 1) AS i
			UNION ALL
			SELECT cardinality(plan.columns) + e.n, format('iblt_r.iblt_a[%s] AS %I',
				cardinality(plan.columns) + e.n, name)
			FROM unnest(extra) WITH ORDINALITY AS e(name, n) WHERE name <> 'hash') AS p));
	FOR n IN 1 .. cardinality(sides) LOOP
		fingerprint := split_part(answers[n], ' ', 1);
		PERFORM require_side_described(sides[n], fingerprint);
		rows := substr(answers[n], length(fingerprint) + 2)::text[];
		EXECUTE lookup INTO found USING keys, rows;
		found.fingerprint := fingerprint;
		result[n] := found;
		PERFORM plain_check(CASE
			WHEN (SELECT coalesce(sum(u.number), 0) FROM unnest(found.n) AS u(number))
					<> cardinality(rows)
				THEN 'a key of the peer has another text or hash here' END);
	END LOOP;
	RETURN result;
END
$$;

-- Is all that differed before in buckets the same now, and as a side had it before that had no
-- fewer rows than others?  Then the others have got what they lacked, and it was not deleted.
CREATE FUNCTION plain_arrived(before found_keys, after found_keys) RETURNS boolean
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN NOT before.buckets && after.buckets AND (SELECT bool_and(arrived) FROM (
		SELECT coalesce(max(c.rows) = max(c.rows)
			FILTER (WHERE x.total = coalesce(f.now, 0.5)), false)
		FROM unnest(before.buckets) AS b(bucket)
		JOIN unnest(before.first, after.first) WITH ORDINALITY AS f(was, now, n)
			ON f.n - 1 = b.bucket::bigint
		JOIN (SELECT unnest(before.sums)::numeric[]) AS s(list) ON true
		JOIN LATERAL unnest(s.list) WITH ORDINALITY AS d(differ, n) ON d.n = f.n,
		LATERAL (SELECT coalesce(f.was, 0.5) - d.differ) AS x(total),
		LATERAL (SELECT (trunc(x.total) % 100000 + 100000) % 100000) AS c(rows)
		GROUP BY f.n) AS a(arrived));

-- Did most of what differs now differ before, in the same way, on the side that differs most from
-- the first one now? False, too, if buckets do not tell.
-- As persist() of sketches.  A bucket with the same sum has the same rows that differ.  The
-- others may have many more keys, so it takes more than half of the buckets.
CREATE FUNCTION plain_persist(before text[], after text[]) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT 2 * same > number
	FROM generate_subscripts(after, 1) AS n, LATERAL (SELECT count(*), count(*) FILTER (WHERE a = b)
		FROM unnest(before[n]::numeric[], after[n]::numeric[]) AS u(b, a) WHERE a <> 0)
		AS c(number, same)
	ORDER BY number DESC LIMIT 1);
