-- Describing nodes ------------------------------------------------------------------------
--
-- All nodes describe their relation.  The plan is the same for any two of them, or an error
-- names the two.

-- The names of nodes in answers and messages: of a connection string, which may hold a
-- password, its place in the list; an error for a list of nodes that cannot be compared.
-- No query, and no plan that the server logs, may have such a string among its values
-- (peer_is_string), so this is a loop, and "dimensions" an expression without a query.
CREATE FUNCTION nodes_names(nodes text[], without text) RETURNS text[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	dimensions integer := CASE array_lower(nodes, 1) WHEN 1 THEN array_ndims(nodes) END;
	names text[] := '{}';
	twice text;
	problem text;
BEGIN
	FOR n IN 1 .. coalesce(cardinality(nodes), 0) LOOP
		names[n] := CASE WHEN nodes[n] IS NULL THEN 'here'
			WHEN iblt_peer_is_string(nodes[n]) THEN 'node ' || n
			ELSE nodes[n] END;
		-- two sides of one peer would share a connection (peer_conns)
		twice := coalesce(twice, CASE WHEN names[n] = ANY (names[: n - 1])
			OR nodes[n] = ANY (nodes[: n - 1]) THEN names[n] END);
	END LOOP;
	problem := CASE
		WHEN coalesce(dimensions, 0) <> 1 OR cardinality(names) NOT BETWEEN 2 AND 16
			THEN 'nodes must be a list of 2 to 16 nodes'
		WHEN twice IS NOT NULL THEN format('node "%s" is named twice', twice)
		WHEN coalesce(without, '') NOT IN ('error', 'skip')
			THEN 'without must be error or skip' END;
	IF problem IS NOT NULL THEN
		RAISE invalid_parameter_value USING MESSAGE = problem;
	END IF;
	RETURN names;
END
$$;

-- The place in a list of names of the node that an error is of, NULL for none of them.
CREATE FUNCTION nodes_failed(names text[], message text) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT min(n)::integer FROM unnest(names) WITH ORDINALITY AS u(name, n),
		unnest('{"on \"%s\": ", "could not connect to \"%s\"", "could not send a query to \"%s\"",
			"extension iblt is not installed in \"%s\"''s"}'::text[]) AS f(form)
	WHERE starts_with(message, format(form, name))
$$;

-- The error for two sides, or two nodes, that are one database; "place" is where the first is.
CREATE FUNCTION refuse_one_database(place text, first text DEFAULT 'here',
	second text DEFAULT 'there') RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RAISE invalid_parameter_value USING MESSAGE = CASE WHEN second <> 'there'
			THEN format('nodes "%s" and "%s" are the same database', first, second)
			WHEN place IS NULL THEN 'the peer is this database itself'
			ELSE 'here and the peer are the same database' END,
		HINT = 'Check that foreign servers or connection strings lead to different databases.';
END
$$;

-- An error if two sides are one database, or have conditions that mean something else there.
-- A relation of nodes that were there twice would have two votes.
CREATE FUNCTION require_other_databases(sides side[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM refuse_one_database(x.place, x.first, x.second)
	FROM (SELECT a.place, a.side AS first, b.side AS second
		FROM unnest(sides) WITH ORDINALITY AS a
		JOIN unnest(sides) WITH ORDINALITY AS b USING (identity)
		WHERE a.ordinality < b.ordinality ORDER BY a.ordinality, b.ordinality LIMIT 1) AS x;
	PERFORM check_collations(a, b) FROM unnest(sides) AS a, unnest(sides) AS b;
END
$$;

-- Which nodes agree, by the checksums of their rows, of so many nodes that were named: the largest
-- group, of several of one size that of the first node.  One line.
-- Nodes that were left out agree with nobody, so they can only make a tie.  For many keys, a query
-- becomes part of the caller's.
CREATE FUNCTION nodes_verdict(names text[], named integer, checksums text[])
RETURNS TABLE (verdict text, agree text[], deviate text[], missing text[])
	LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
AS $$
	SELECT CASE WHEN 2 * g.size > named THEN 'majority' ELSE 'tie' END, g.agree,
		ARRAY(SELECT u.name FROM unnest(names) WITH ORDINALITY AS u(name, n)
			WHERE u.name <> ALL (g.agree) ORDER BY u.n),
		ARRAY(SELECT u.name FROM unnest(names, checksums) WITH ORDINALITY AS u(name, checksum, n)
			WHERE u.checksum IS NULL ORDER BY u.n)
	FROM (SELECT count(*) AS size, array_agg(u.name ORDER BY u.n) AS agree
		FROM unnest(names, checksums) WITH ORDINALITY AS u(name, checksum, n)
		GROUP BY u.checksum ORDER BY count(*) DESC, min(u.n) LIMIT 1) AS g
$$;

-- The plan of a comparison of nodes: all pairs have the same columns, in the same types, and the
-- same key, which goes into the sketches in the same way.  With what the nodes told, by plain
-- queries.
-- This database is the first of each pair if it is a node: its types can be looked up.
CREATE FUNCTION nodes_plan(names text[], sides side[], options options,
	told jsonb[]) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan;
	pair plan;
	of_two options;
	e failure;
	missing text;
	common text[] := ARRAY(SELECT c FROM unnest(iblt_field((sides[1]).columns)) AS c
		WHERE c <> ALL (coalesce(options.exclude, '{}')) AND NOT EXISTS (
			SELECT FROM unnest(sides) AS o WHERE c <> ALL (iblt_field(o.columns))));
	is_unique boolean := true;
	-- foreign tables here may show the same rows again
	again boolean := NOT EXISTS (SELECT FROM unnest(sides) AS o WHERE o.place IS NULL AND o.remote);
	first integer := coalesce(array_position(names, 'here'), 1);
	cells integer := 0;
	problem text;
	s side;
BEGIN
	PERFORM require_other_databases(sides);
	-- columns that some nodes have and others do not
	PERFORM require_none(ARRAY(SELECT c FROM unnest(options.exclude) AS c
			WHERE NOT EXISTS (SELECT FROM unnest(sides) AS o
				WHERE c = ANY (iblt_field(o.columns)))),
		'excluded columns are on no node: %s', 'Names are case-sensitive.');
	missing := (SELECT string_agg(format('"%s" on %s', c, nodes), ', ' ORDER BY c)
		FROM (SELECT a.c, string_agg(format('"%s"', names[n]), ', ' ORDER BY n) AS nodes
			FROM (SELECT DISTINCT unnest(iblt_field(o.columns)) AS c FROM unnest(sides) AS o) AS a,
				generate_subscripts(sides, 1) AS n
			WHERE a.c <> ALL (iblt_field((sides[n]).columns)) GROUP BY a.c) AS m
		WHERE c <> ALL (coalesce(options.exclude, '{}')));
	IF options.columns IS NULL AND missing IS NOT NULL THEN
		RAISE undefined_column USING
			MESSAGE = 'columns are not on all nodes', DETAIL = format('Missing: %s.', missing),
			HINT = 'Exclude them, or name in columns what is to be compared.';
	END IF;
	-- as asked, or a unique index of the first node that has one
	FOREACH s IN ARRAY sides LOOP
		options.key_columns := key_names(s, s, common, options.key_columns);
	END LOOP;
	options.recheck := coalesce(options.recheck, again::integer);
	FOR n IN 1 .. cardinality(sides) LOOP
		CONTINUE WHEN n = first;
		of_two := options;
		-- other nodes may have the rest
		of_two.exclude := ARRAY(SELECT c FROM unnest(options.exclude) AS c
			WHERE c = ANY (iblt_field(sides[first].columns) || iblt_field(sides[n].columns)));
		BEGIN
			pair := CASE WHEN told IS NULL THEN checked_plan(sides[first], sides[n], of_two)
				ELSE plain_plan(ARRAY[sides[first], sides[n]], ARRAY[told[first], told[n]], of_two)
				END;
		EXCEPTION WHEN @on_error@ THEN
			@take_failure@;
			IF e.state = '42804' THEN
				e.hint := 'Exclude the columns.';	-- cast_types is between two
			END IF;
			e.message := format('"%s" (here) and "%s" (the peer): %s', names[first], names[n],
				e.message);
			PERFORM iblt_raise(e);
			RAISE;
		END;
		-- of plain queries, for the largest relation of all
		pair.buckets := greatest(pair.buckets, plan.buckets);
		pair.bytes := greatest(pair.bytes, plan.bytes);
		IF plan IS NULL OR pair.by_hash THEN
			plan := pair;
		END IF;
		is_unique := is_unique AND pair.is_unique;
		cells := gcd(cells, pair.live_cells);
		problem := coalesce(problem, pair.live_problem);
	END LOOP;
	IF options.live <> 'off' THEN
		-- digests of all are folded to one size
		IF problem IS NULL AND cells < 70 THEN
			problem := 'their sizes have no common part that is large enough';
			IF options.live = 'require' THEN
				PERFORM live_refuse('0A000', problem,
					'CALL iblt_track on all nodes, with one of them as the peer.');
			END IF;
		END IF;
		plan.from_digests := problem IS NULL;
		plan.live_cells := cells;
		plan.live_problem := problem;
		plan.seed := CASE WHEN plan.from_digests THEN plan.seed ELSE options.seed END;
	END IF;
	plan.sides := sides;
	plan.is_unique := is_unique;
	plan.versions := plan.recheck > 0
		AND NOT EXISTS (SELECT FROM unnest(sides) AS o WHERE o.versions IS NOT TRUE);
	plan.links := CASE WHEN plan.recheck > 0 THEN links(sides) ELSE '{}' END;
	RETURN plan;
END
$$;
