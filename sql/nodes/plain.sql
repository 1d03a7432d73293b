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
	PERFORM peers_bare(CASE method WHEN 'plain' THEN conns ELSE '{}' END);
	RETURN method;
END
$$;

-- The sides of a comparison by plain queries, NULL for a relation that does not exist, and what the
-- nodes told of their relations.
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
		sides[n] := CASE WHEN told[n] = 'null' THEN NULL WHEN conns[n] IS NULL
			THEN side_of(describe(relation::regclass, options.condition), names[n])
			ELSE side_of(told[n] || jsonb_build_object('condition',
				options.condition), names[n], conns[n]) END;
	END LOOP;
END
$$;

-- The keys on which nodes disagree, by plain queries, and how many in words, if too many.
CREATE FUNCTION nodes_plain_read(nodes node_set, OUT differences node_difference[], OUT many text,
	OUT sums text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan := nodes.plan;
	summed record := plain_sums(plan, nodes.sides);
	most figures;
	size integer;
BEGIN
	most.rows_here := (SELECT max(number) FROM unnest(summed.rows) AS number);
	most.rows_there := most.rows_here;
	size := plain_batch(plan, most);
	sums := summed.sums;
	many := plain_many(plan, most, cardinality(summed.buckets));
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
