-- Nodes without iblt ----------------------------------------------------------------------
--
-- If a node has no iblt, all are compared by plain queries, as a peer without it is (sql/plain):
-- each sums its rows up in buckets, and the rows of buckets in which two nodes differ are read
-- on all of them and compared here.

-- The method for these nodes, sketch or plain, and with auto a notice of the latter; from now
-- on, they are asked as it says.
CREATE FUNCTION nodes_method(conns text[], names text[], method text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	without text[] := '{}';
BEGIN
	IF method = 'auto' THEN
		without := ARRAY(SELECT u.name FROM unnest(plain_without(conns), names) WITH ORDINALITY
			AS u(conn, name, n) WHERE u.conn IS NOT NULL ORDER BY u.n);
	END IF;
	IF without <> '{}' THEN
		PERFORM iblt_tell('notice', format('nodes %s have no extension iblt, so all are compared '
			'by plain queries', quoted(without)));
	END IF;
	method := CASE WHEN method = 'plain' OR without <> '{}' THEN 'plain' ELSE 'sketch' END;
	PERFORM peer_bare(CASE method WHEN 'plain' THEN array_to_string(conns, ' ') ELSE '' END);
	RETURN method;
END
$$;

-- The sides of a comparison by plain queries, and what the nodes told of their relations.
CREATE FUNCTION nodes_plain_sides(conns text[], names text[], relation text, options options,
	OUT sides side[], OUT told jsonb[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	query text := plain_describe_sql(relation);
	answers text[];
BEGIN
	answers := ask_values(conns, array_fill(query, ARRAY[cardinality(conns)]), 0.001,
		options.label);
	FOR n IN 1 .. cardinality(conns) LOOP
		told[n] := answers[n];
		IF told[n] = 'null' THEN
			PERFORM nodes_refuse_missing(names[n], relation);
		END IF;
		sides[n] := CASE WHEN conns[n] IS NULL
			THEN described(describe(relation::regclass, options.condition), names[n])
			ELSE described(told[n] || jsonb_build_object('condition',
				options.condition), names[n], conns[n]) END;
	END LOOP;
END
$$;

-- An error for two nodes that plain queries cannot compare.
-- Conditions are looked up in this database.
CREATE FUNCTION nodes_plain_check(plan plan, mine jsonb, theirs jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM plain_check_sides(plan.here, mine, theirs), plain_check_types(plan, mine, theirs),
		plain_check(CASE
			WHEN (plan.here).place IS NOT NULL AND (plan.here).condition IS NOT NULL
			THEN 'there is a condition, and no node is this database' END,
			'Name this database among the nodes, or install iblt on all of them.');
	IF (plan.there).condition IS NOT NULL THEN
		PERFORM plain_check_expression(plan.here, (plan.there).condition, true, mine, theirs);
	END IF;
END
$$;

-- The plan of a comparison by plain queries.
CREATE FUNCTION nodes_plain_plan(plan plan, told jsonb[]) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	most bigint := 0;
	described jsonb;
BEGIN
	plan.columns := plain_read_as(plan.columns, told[1]);
	plan.by_hash := true;
	plan.bytes := 0;
	FOREACH described IN ARRAY told LOOP
		most := greatest(most, (described -> 'size' ->> 'rows')::bigint);
		plan.bytes := greatest(plan.bytes, (described -> 'size' ->> 'bytes')::bigint);
	END LOOP;
	plan.buckets := plain_buckets(most);
	RETURN plan;
END
$$;

-- The buckets in which two nodes differ, by how much the sums of each node differ from those of
-- the first, as a list for each node, and the largest number of rows, in figures.
CREATE FUNCTION nodes_plain_sums(nodes node_set, OUT figures figures, OUT buckets integer[],
	OUT sums text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	places text[] := '{}';
	queries text[] := '{}';
	answers text[];
	words text[];
	first numeric[];
	differ numeric[];
	s side;
BEGIN
	buckets := '{}';
	FOREACH s IN ARRAY nodes.sides LOOP
		places := array_append(places, s.place);
		queries := array_append(queries, plain_sums_sql(nodes.plan, s));
	END LOOP;
	answers := ask_values(places, queries, 0, NULL, reading_all(nodes.plan, nodes.sides));
	FOR n IN 1 .. cardinality(places) LOOP
		words := string_to_array(answers[n], ' ');
		PERFORM require_side_described(nodes.sides[n], words[1]);
		figures.rows_here := greatest(figures.rows_here, words[2]::bigint);
		first := coalesce(first, words[3]::numeric[]);
		-- 0.5 is that of no rows, which no sum is
		differ := ARRAY(SELECT coalesce(u.a, 0.5) - coalesce(u.b, 0.5)
			FROM unnest(first, words[3]::numeric[]) WITH ORDINALITY AS u(a, b, n) ORDER BY u.n);
		sums[n] := differ;
		buckets := ARRAY(SELECT u.n - 1 FROM unnest(differ) WITH ORDINALITY AS u(sum, n)
			WHERE u.sum <> 0 UNION SELECT unnest(buckets) ORDER BY 1);
	END LOOP;
	figures.rows_there := figures.rows_here;
END
$$;

-- The keys on which nodes disagree, by plain queries, and how many in words, if too many.
CREATE FUNCTION nodes_plain_read(nodes node_set, OUT differences node_difference[], OUT many text,
	OUT sums text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan := nodes.plan;
	summed record := nodes_plain_sums(nodes);
	size integer := plain_batch(plan, summed.figures);
BEGIN
	sums := summed.sums;
	many := plain_many(plan, summed.figures, cardinality(summed.buckets));
	differences := '{}';
	FOR done IN 0 .. cardinality(summed.buckets) - 1 BY size LOOP
		EXIT WHEN many IS NOT NULL;
		differences := differences || ARRAY(SELECT d FROM nodes_differing(nodes,
			plain_find(plan, nodes.sides, summed.buckets[done + 1 : done + size]::text[], true),
			NULL) AS d);
		many := CASE WHEN cardinality(differences) > plan.max_differences
			THEN 'at least ' || cardinality(differences) END;
	END LOOP;
END
$$;

-- As plain_persist, of the node that differs most from the first one now.
CREATE FUNCTION nodes_plain_persist(before text[], after text[]) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT plain_persist(before[n]::numeric[], after[n]::numeric[])
	FROM generate_subscripts(after, 1) AS n
	ORDER BY (SELECT count(*) FROM unnest(after[n]::numeric[]) AS u(sum) WHERE sum <> 0) DESC
	LIMIT 1
$$;

-- As nodes_plain_read; an error if there are too many, also after a wait for what is in flight.
-- As plain_search does it for two sides.
CREATE FUNCTION nodes_plain_look(INOUT nodes node_set, OUT differences node_difference[])
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	read record := nodes_plain_read(nodes);
	before text[] := read.sums;
	deadline timestamptz := clock_timestamp() + (nodes.plan).timeout;
	problem text := unready_problem(nodes.plan);
BEGIN
	IF read.many IS NOT NULL AND problem IS NULL AND (nodes.plan).recheck > 0 THEN
		problem := await_replication(nodes.plan, deadline);
		IF problem IS NULL THEN
			nodes.plan.timeout := greatest(deadline - clock_timestamp(), '0 s');
			read := nodes_plain_read(nodes);
			problem := CASE WHEN NOT nodes_plain_persist(before, read.sums)
				THEN 'Perhaps most of them did not differ before replication passed.' END;
		END IF;
	END IF;
	IF read.many IS NOT NULL THEN
		PERFORM plain_refuse_many(nodes.plan, read.many, problem);
	END IF;
	differences := read.differences;
END
$$;
