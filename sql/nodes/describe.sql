-- Describing nodes ------------------------------------------------------------------------
--
-- All nodes describe their relation.  The plan is the same for any two of them, or an error
-- names the two.

-- The names of nodes in answers and messages: of a connection string, which may hold a
-- password, its place in the list; an error for what is neither that nor a foreign server, nor
-- a connection of the caller's.
-- No query may have such a string among its values (peer_is_string), so this is a loop.
CREATE FUNCTION nodes_names(nodes text[], conns text[]) RETURNS text[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	names text[] := '{}';
BEGIN
	FOR n IN 1 .. coalesce(cardinality(nodes), 0) LOOP
		names[n] := CASE WHEN nodes[n] IS NULL THEN 'here'
			WHEN nodes[n] <> conns[n] AND iblt_peer_is_string(nodes[n]) THEN 'node ' || n
			ELSE nodes[n] END;
		IF nodes[n] <> conns[n] AND iblt_peer_is_string(nodes[n]) AND strpos(nodes[n], '=') = 0
				AND strpos(nodes[n], '://') = 0 THEN
			RAISE EXCEPTION USING ERRCODE = 'undefined_object',
				MESSAGE = format('node %s is neither a foreign server nor a connection string', n),
				HINT = 'Give the name of a foreign server, or a string'
					' such as ''host=node_b dbname=shop''.';
		END IF;
	END LOOP;
	RETURN names;
END
$$;

-- How many dimensions a list of nodes has that begins with number 1; NULL for another list.
CREATE FUNCTION nodes_dimensions(nodes text[]) RETURNS integer
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN CASE array_lower(nodes, 1) WHEN 1 THEN array_ndims(nodes) END;
END
$$;

-- An error for a list of nodes, with these names, that cannot be compared.
CREATE FUNCTION nodes_check(names text[], dimensions integer, without text) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	twice text := (SELECT min(name) FROM (SELECT name FROM unnest(names) AS u(name)
		GROUP BY name HAVING count(*) > 1) AS t);
	problem text := CASE
		WHEN coalesce(dimensions, 0) <> 1 OR cardinality(names) NOT BETWEEN 2 AND 16
			THEN 'nodes must be a list of 2 to 16 nodes'
		WHEN twice IS NOT NULL THEN format('node "%s" is named twice', twice)
		WHEN coalesce(without, '') NOT IN ('error', 'skip')
			THEN 'without must be error or skip' END;
BEGIN
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = problem;
	END IF;
END
$$;

-- Connecting

-- Names for the connections to nodes; NULL for this database.  The caller may lend connections,
-- which have their own names (peer_conn), if nothing is to be written over them.
CREATE FUNCTION nodes_conns(nodes text[], lent boolean) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	conns text[] := '{}';
BEGIN
	lent := lent AND EXISTS (SELECT FROM pg_extension WHERE extname = 'dblink');
	FOR n IN 1 .. coalesce(cardinality(nodes), 0) LOOP
		conns[n] := peer_conn(nodes[n], lent);
	END LOOP;
	RETURN conns;
END
$$;

-- Opens those connections to nodes that are not open; with "borrow", an error if one of the
-- caller's is in a transaction.
CREATE FUNCTION nodes_connect(nodes text[], names text[], conns text[], timeout interval,
	borrow boolean) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM nodes_title(names, conns);
	FOR n IN 1 .. cardinality(nodes) LOOP
		IF borrow AND conns[n] = nodes[n] OR NOT iblt_peer_is_open(conns[n]) THEN
			conns[n] := peer_connect(nodes[n], conns[n], timeout);
		END IF;
	END LOOP;
	RETURN conns;
END
$$;

-- Closes connections to nodes.
CREATE FUNCTION nodes_close(conns text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	conn text;
BEGIN
	FOREACH conn IN ARRAY conns LOOP
		PERFORM peer_close(conn);
	END LOOP;
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

-- Describing

-- The error for a node without the relation.
CREATE FUNCTION nodes_refuse_missing(name text, relation text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'undefined_table',
		MESSAGE = format('on "%s": relation %s does not exist', name, relation);
END
$$;

-- The sides of a comparison of nodes; an error that names a node without the relation.
CREATE FUNCTION nodes_sides(conns text[], names text[], relation text, options options)
RETURNS side[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	here oid := to_regclass(relation);
	relations text[] := '{}';
	sides side[];
BEGIN
	FOR n IN 1 .. cardinality(conns) LOOP
		IF conns[n] IS NULL AND here IS NULL THEN
			PERFORM nodes_refuse_missing(names[n], relation);
		END IF;
		relations[n] := CASE WHEN conns[n] IS NULL THEN here::text ELSE relation END;
	END LOOP;
	sides := describe_sides(conns, relations,
		array_fill(options.condition, ARRAY[cardinality(conns)]), options.live <> 'off',
		options.label);
	FOR n IN 1 .. cardinality(conns) LOOP
		IF sides[n].relation IS NULL THEN
			PERFORM nodes_refuse_missing(names[n], relation);
		END IF;
		sides[n].side := names[n];
	END LOOP;
	RETURN sides;
END
$$;

-- The plan

-- An error for columns that some nodes have and others do not, unless the options name or
-- exclude them.
CREATE FUNCTION nodes_check_columns(names text[], sides side[], options options) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	missing text := (SELECT string_agg(format('"%s" on %s', c, nodes), ', ' ORDER BY c)
		FROM (SELECT a.c, string_agg(format('"%s"', names[n]), ', ' ORDER BY n) AS nodes
			FROM (SELECT DISTINCT unnest(iblt_field(s.columns)) AS c FROM unnest(sides) AS s) AS a,
				generate_subscripts(sides, 1) AS n
			WHERE a.c <> ALL (iblt_field((sides[n]).columns)) GROUP BY a.c) AS m
		WHERE c <> ALL (coalesce(options.exclude, '{}')));
BEGIN
	PERFORM require_none(ARRAY(SELECT c FROM unnest(options.exclude) AS c
			WHERE NOT EXISTS (SELECT FROM unnest(sides) AS s
				WHERE c = ANY (iblt_field(s.columns)))),
		'excluded columns are on no node: %s', 'Names are case-sensitive.');
	IF options.columns IS NULL AND missing IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_column',
			MESSAGE = 'columns are not on all nodes', DETAIL = format('Missing: %s.', missing),
			HINT = 'Exclude them, or name in columns what is to be compared.';
	END IF;
END
$$;

-- The columns that identify a row on all nodes: as asked, or of a unique index of the first
-- node that has one; NULL for none.
CREATE FUNCTION nodes_key(sides side[], options options) RETURNS text[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	key text[] := options.key_columns;
	common text[] := iblt_field((sides[1]).columns);
	s side;
BEGIN
	FOREACH s IN ARRAY sides LOOP
		common := ARRAY(SELECT c FROM unnest(common) AS c WHERE c = ANY (iblt_field(s.columns))
			AND c <> ALL (coalesce(options.exclude, '{}')));
	END LOOP;
	FOREACH s IN ARRAY sides LOOP
		key := key_names(s, s, common, key);
	END LOOP;
	RETURN key;
END
$$;

-- The plan of a comparison of two nodes; with what these told, by plain queries.
CREATE FUNCTION nodes_pair(a side, b side, options options, mine jsonb, theirs jsonb) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan;
	e failure;
BEGIN
	-- other nodes may have the rest
	options.exclude := ARRAY(SELECT c FROM unnest(options.exclude) AS c
		WHERE c = ANY (iblt_field(a.columns) || iblt_field(b.columns)));
	plan := checked_plan(a, b, options);
	IF mine IS NOT NULL THEN
		-- conditions are looked up in this database
		PERFORM plain_check_sides(plan.here, mine, theirs), plain_check_types(plan, mine, theirs),
			plain_check(CASE WHEN a.place IS NOT NULL AND a.condition IS NOT NULL
				THEN 'there is a condition, and no node is this database' END,
				'Name this database among the nodes, or install iblt on all of them.');
		IF b.condition IS NOT NULL THEN
			PERFORM plain_check_expression(plan.here, b.condition, true, mine, theirs);
		END IF;
	END IF;
	RETURN plan;
EXCEPTION WHEN @on_error@ THEN
	@take_failure@;
	IF e.state = '42804' THEN
		e.hint := 'Exclude the columns.';	-- cast_types is between two
	END IF;
	e.message := format('"%s" (here) and "%s" (the peer): %s', a.side, b.side, e.message);
	PERFORM iblt_raise(e);
	RAISE;
END
$$;

-- An error if two nodes are one database, or have conditions that mean something else there.
-- A relation that were there twice would have two votes.
CREATE FUNCTION nodes_check_pairs(sides side[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	a side;
	b side;
BEGIN
	FOREACH a IN ARRAY sides LOOP
		FOREACH b IN ARRAY sides LOOP
			IF a.side <> b.side AND a.identity = b.identity THEN
				RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
					MESSAGE = format('nodes "%s" and "%s" are the same database', a.side, b.side),
					HINT = 'Check where the foreign servers or connection strings lead to.';
			END IF;
			PERFORM check_collations(a.collations, b.collations, texts_of(a) = texts_of(b));
		END LOOP;
	END LOOP;
END
$$;

-- A plan that reads live digests in place of scans, or an error if it must, after a plan for each
-- pair of the first node with another one: if digests of all fit, they are folded to one size.
CREATE FUNCTION nodes_live(plan plan, pairs plan[], options options) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	cells integer := 0;
	problem text;
BEGIN
	FOR n IN 1 .. cardinality(pairs) LOOP
		cells := gcd(cells, pairs[n].live_cells);
		problem := coalesce(problem, pairs[n].live_problem);
	END LOOP;
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
	RETURN plan;
END
$$;

-- Replication

-- Can a row be on its way to a node over a server that is not a node? Such a server feeds the node,
-- and either it or another one feeds a second node, or a second node feeds such a server.
-- Slots of several publishers may have one name, and each subscription has one of them.  A
-- standby shows the subscriptions of its primary, so it is fed by others if no node is of its
-- server.
CREATE FUNCTION nodes_by_others(sides side[]) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	WITH node AS (
		SELECT n, (sides[n]).recovery, (sides[n]).system, (sides[n]).slots,
			(sides[n]).subscriptions
		FROM generate_subscripts(sides, 1) AS n
	), flow AS (
		SELECT n, CASE WHEN recovery THEN NOT EXISTS (SELECT FROM node AS o
					WHERE o.n <> node.n AND o.system = node.system)
				ELSE (SELECT count(DISTINCT s.name) FROM unnest(subscriptions) AS s)
					> (SELECT coalesce(sum(least(of_slot.number, (SELECT count(*) FROM node AS o
							WHERE o.n <> node.n AND of_slot.slot = ANY (o.slots)))), 0)
						FROM (SELECT s.slot, count(DISTINCT s.name) FROM unnest(subscriptions) AS s
							GROUP BY s.slot) AS of_slot(slot, number)) END AS fed,
			EXISTS (SELECT FROM unnest(slots) AS u(slot) WHERE NOT EXISTS (
				SELECT FROM node AS o, unnest(o.subscriptions) AS s
				WHERE o.n <> node.n AND s.slot = u.slot)) AS feeds
		FROM node
	)
	SELECT EXISTS (SELECT FROM flow AS a JOIN flow AS b ON a.n <> b.n
		WHERE a.fed AND (b.fed OR b.feeds))
$$;

-- The links of all pairs of nodes, and one that is not ready if rows may come over others.
CREATE FUNCTION nodes_links(sides side[]) RETURNS link[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	link link;
	result link[] := '{}';
BEGIN
	FOR a IN 1 .. cardinality(sides) LOOP
		FOR b IN a + 1 .. cardinality(sides) LOOP
			FOREACH link IN ARRAY links(sides[a], sides[b], false) LOOP
				link.source := (sides[CASE link.source WHEN 'here' THEN a ELSE b END]).side;
				link.follower := (sides[CASE link.follower WHEN 'here' THEN a ELSE b END]).side;
				result := array_append(result, link);
			END LOOP;
		END LOOP;
	END LOOP;
	IF nodes_by_others(sides) THEN
		link := NULL;
		link.ready := false;
		result := array_append(result, link);
	END IF;
	RETURN result;
END
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
	pairs plan[] := '{}';
	is_unique boolean := true;
	versions boolean := true;
	again boolean := true;	-- unless foreign tables here may show the same rows again
	first integer := coalesce(array_position(names, 'here'), 1);
	s side;
BEGIN
	PERFORM nodes_check_pairs(sides), nodes_check_columns(names, sides, options);
	options.key_columns := nodes_key(sides, options);
	FOREACH s IN ARRAY sides LOOP
		versions := versions AND s.versions;
		again := again AND NOT (s.place IS NULL AND s.remote);
	END LOOP;
	options.recheck := coalesce(options.recheck, again::integer);
	FOR n IN 1 .. cardinality(sides) LOOP
		CONTINUE WHEN n = first;
		pair := nodes_pair(sides[first], sides[n], options, told[first], told[n]);
		IF plan IS NULL OR pair.by_hash THEN
			plan := pair;
		END IF;
		is_unique := is_unique AND pair.is_unique;
		pairs := array_append(pairs, pair);
	END LOOP;
	IF options.live <> 'off' THEN
		plan := nodes_live(plan, pairs, options);
	END IF;
	plan.is_unique := is_unique;
	plan.versions := versions AND plan.recheck > 0;
	FOREACH pair IN ARRAY CASE WHEN plan.versions THEN pairs ELSE '{}' END LOOP
		PERFORM require_version_rights(pair);
	END LOOP;
	plan.links := CASE WHEN plan.recheck > 0 THEN nodes_links(sides) ELSE '{}' END;
	RETURN CASE WHEN told IS NULL THEN plan ELSE nodes_plain_plan(plan, told) END;
END
$$;
