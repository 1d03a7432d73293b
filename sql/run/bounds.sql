-- The next bound of a table --------------------------------------------------------------------

-- The smaller one of two bounds that are not null, in the order of the index here.
CREATE FUNCTION smaller_bound(plan plan, a text[], b text[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	k slice_key := slice_key(plan);
	s side := plan.here;
	answers boolean[];
BEGIN
	IF a IS NULL OR b IS NULL THEN
		RETURN coalesce(a, b);
	END IF;
	answers := ask_values(ARRAY[s.place], ARRAY[format('SELECT ((%s) <= (%s))::text',
			(SELECT string_agg(concat(x, ' COLLATE ' || (k.here).collations[i]), ', ' ORDER BY i)
				FROM unnest(bound_sql(plan, s, k, '$2', a)) WITH ORDINALITY AS u(x, i)),
			array_to_string(bound_sql(plan, s, k, '$3', b), ', '))],
		how => ROW('read_planned', NULL, a, b, NULL)::reading);
	RETURN CASE WHEN answers[1] THEN a ELSE b END;
END
$$;

-- The upper bound of the slice after lo (NULL: the first one) that has so many rows, on the side
-- with more of them or else here; NULL if the slice goes to the end; an error for an answer that is
-- not a key, or not above lo.  Rows that compare with it as null would be in no slice, and the run
-- would not end.
-- To walk over a key costs a quarter of what its row does.  So a slice of more than a fiftieth of
-- an estimated table ends at a bound of the planner's histogram here.  Behind the last one, and
-- without statistics, both sides walk at once.
CREATE FUNCTION slice_next(plan plan, lo text[], rows bigint, walk_there boolean DEFAULT true,
	estimate bigint DEFAULT NULL) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	k slice_key := require_slice_key(plan);
	s side;
	row_of text[];
	queries text[];
	name text[];
	bounds text[];
	bound text[];
BEGIN
	FOR n IN 1 .. 2 LOOP
		s := (sides_of(plan))[n];
		s.condition := NULL;
		row_of := slice_row_sql(k, CASE n WHEN 1 THEN k.here ELSE k.there END);
		-- no text is made of the keys that are passed over
		queries[n] := format('SELECT (SELECT ARRAY[%s]::text[]::text FROM (SELECT %s FROM %s%s'
				' ORDER BY %s LIMIT 1 OFFSET %s - 1) AS t)',
			(SELECT string_agg(values_sql(k.columns[i]) || '::text', ', ' ORDER BY i)
				FROM generate_subscripts(k.columns, 1) AS i),
			(SELECT string_agg(format('t.%I', c.name), ', ') FROM unnest(k.columns) AS c),
			from_sql(plan, s),
			CASE WHEN lo IS NULL THEN '' ELSE ' WHERE ' || above_sql(row_of,
				bound_sql(plan, s, k, '$2', lo), 1) END,
			array_to_string(row_of, ', '), rows);
	END LOOP;
	s := plan.here;
	IF NOT walk_there AND rows > estimate / 50 THEN
		walk_there := true;
		IF cardinality(k.columns) = 1 AND (k.columns[1]).cast_to = '' AND s.mapped IS NOT TRUE
				AND (k.here).collations[1] IS NULL THEN
			name := parse_ident(s.relation);
			bounds := ask_values(ARRAY[s.place], ARRAY[format('SELECT (SELECT ARRAY[b[least('
						'n + 1 + %s::int8 * (cardinality(b) - 1) / %s,'
						' greatest(cardinality(b), n + 1))]]::text[]::text'
						' FROM (SELECT histogram_bounds::text::%s[] AS b'
						' FROM pg_catalog.pg_stats WHERE schemaname = %L AND tablename = %L'
						' AND attname = %L ORDER BY inherited DESC LIMIT 1) AS p,'
						' width_bucket(%s, b) AS n)', rows, greatest(estimate, 1),
					key_type(k.columns[1]), name[1], name[2], (own_names(s, k.columns))[1],
					(bound_sql(plan, s, k, '$2', lo))[1])],
				how => ROW('read_planned', NULL, lo, NULL, NULL)::reading);
			bounds := nullif(bounds, '{"{NULL}"}');
		END IF;
	ELSIF NOT walk_there THEN
		bounds := ask_values(ARRAY[s.place], queries[:1],
			how => ROW('slice_bound', NULL, lo, NULL, reads(ARRAY[plan.here],
				peers_known('bare')))::reading);
	END IF;
	IF bounds[1] IS NULL THEN
		bounds := ask_values(places_of(plan), queries,
			how => ROW('slice_bound', NULL, lo, NULL, reads(sides_of(plan),
				peers_known('bare')))::reading);
	END IF;
	FOR n IN 1 .. cardinality(bounds) LOOP
		bound := bounds[n];
		IF bound IS NOT NULL AND (array_ndims(bound) = 1 AND array_lower(bound, 1) = 1
				AND cardinality(bound) = cardinality(plan.key)
				AND array_position(bound, NULL) IS NULL) IS NOT TRUE THEN
			RAISE data_exception USING MESSAGE = format(
				'%s answered with a bound that is not a key', peer_title((places_of(plan))[n]));
		END IF;
	END LOOP;
	bound := smaller_bound(plan, bounds[1]::text[], bounds[2]::text[]);
	IF lo IS NOT NULL AND bound = smaller_bound(plan, bound, lo) THEN
		RAISE index_corrupted USING
			MESSAGE = format('a bound of %s is not above the one before it', (plan.here).relation),
			DETAIL = 'An index of the key is damaged, here or on the peer.',
			HINT = 'Find the index with amcheck (bt_index_check), and REINDEX it.';
	END IF;
	RETURN bound;
END
$$;
