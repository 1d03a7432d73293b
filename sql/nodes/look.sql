-- The rows of nodes ------------------------------------------------------------------------
--
-- The rows of the keys are looked up on all nodes at the same time.  Nodes with equal rows
-- agree, and so do nodes without a row: nodes_verdict says which is the majority.

-- Those of the keys whose rows, which were found on the nodes, are not the same on all.
CREATE FUNCTION nodes_differing(nodes node_set, rows found_rows[], keys text[])
RETURNS SETOF node_difference
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RETURN QUERY EXECUTE format($q$
		WITH iblt_f AS (
			SELECT * FROM unnest($1) WITH ORDINALITY AS f(id, key, n, rows_checksum, checksum, mark,
				content, columns, fingerprint, node)
		), line AS (%s)
		SELECT id, (array_agg(key) FILTER (WHERE key IS NOT NULL))[1],
			array_agg(checksum ORDER BY node), array_agg(content ORDER BY node),
			hashtextextended(string_agg(concat(checksum, ' ', mark), ',' ORDER BY node), 0),
			NULL::integer, NULL::boolean
		FROM (SELECT DISTINCT id FROM line) AS i CROSS JOIN generate_series(1, $3) AS g(node)
		LEFT JOIN line USING (id, node) GROUP BY id
		HAVING count(checksum) BETWEEN 1 AND $3 - 1 OR min(checksum) <> max(checksum)
		$q$, CASE WHEN (nodes.plan).by_hash
			THEN 'SELECT r.id, r.key, f.node, r.checksum, r.mark, r.content FROM iblt_f AS f,'
				' unnest(f.id, f.key, f.rows_checksum, f.mark, f.content)'
				' AS r(id, key, checksum, mark, content)'
			ELSE format('SELECT id, %s AS key, node, checksum::text, mark, content'
				' FROM (SELECT node, unnest($2) AS id, unnest(checksum) AS checksum,'
				' unnest(mark) AS mark, unnest(content) AS content FROM iblt_f) AS r',
				key_json_sql((nodes.plan).key)) END)
	USING rows, keys, cardinality(nodes.names);
END
$$;

-- The plan of a comparison of the base with another node.
CREATE FUNCTION nodes_two(nodes node_set, base integer, node integer) RETURNS plan
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	plan plan := nodes.plan;
BEGIN
	plan.here := nodes.sides[base];
	plan.there := nodes.sides[node];
	plan.links := '{}';	-- those of all nodes
	RETURN plan;
END
$$;

-- Looking

-- The keys of that list on which nodes disagree; an error if an index hides a row, or digests are
-- wrong about one.
CREATE FUNCTION nodes_first_look(nodes node_set, base integer, said node_keys[], list bytea,
	sample @extschema@.iblt, number bigint) RETURNS SETOF node_difference
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	size integer := batch_size(nodes.plan);
	keys text[];
	found found_rows[];
	doubtful text[];
	doubts jsonb := '{}';
BEGIN
	FOR done IN 0 .. number - 1 BY size LOOP
		keys := (iblt_compare_keys(sample, list, done::integer, size)).keys;
		found := find_sides(nodes.plan, nodes.sides, keys);
		FOR n IN 1 .. cardinality(found) LOOP
			-- What an index found of the base or this node is not what is in their sketches.  A key
			-- without a difference has no side and weighs nothing.
			doubtful := (SELECT doubtful(nodes.plan, keys, array_agg(d.side ORDER BY k.place),
					array_agg(coalesce(d.weight, 0) ORDER BY k.place), (found[base]).checksum,
					(found[n]).checksum)
				FROM unnest(keys) WITH ORDINALITY AS k(id, place)
				LEFT JOIN unnest((said[n]).keys, (said[n]).sides, (said[n]).weights)
					AS d(id, side, weight) USING (id));
			IF doubtful <> '{}' THEN
				doubts := jsonb_set(doubts, ARRAY[n::text],
					coalesce(doubts -> n::text, '[]') || to_jsonb(doubtful));
			END IF;
		END LOOP;
		RETURN QUERY SELECT * FROM nodes_differing(nodes, found, keys);
	END LOOP;
	FOR n IN 1 .. cardinality(nodes.names) LOOP
		CONTINUE WHEN NOT doubts ? n::text;
		PERFORM check_looked(nodes_two(nodes, base, n),
			ARRAY(SELECT DISTINCT jsonb_array_elements_text(doubts -> n::text)));
	END LOOP;
END
$$;

-- Those of some differences that still differ, and how many waits they stood still for, as hold()
-- does it for two sides.
CREATE FUNCTION nodes_look_again(nodes node_set, before node_difference[],
	settled boolean DEFAULT NULL) RETURNS SETOF node_difference
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	size integer := batch_size(nodes.plan);
	part node_difference[];
	keys text[];
BEGIN
	FOR i IN 1 .. cardinality(before) BY size LOOP
		part := before[i : i + size - 1];
		keys := keys_of_ids(nodes.plan, ARRAY(SELECT u.id FROM unnest(part) AS u));
		RETURN QUERY SELECT l.id, l.key, l.checksums, l.contents,
				held_mark(l.mark, b.mark, settled), held_waits(l.mark, b.mark, b.waits, settled),
				NULL::boolean
			FROM nodes_differing(nodes, find_sides(nodes.plan, nodes.sides, keys), keys) AS l
			JOIN unnest(part) AS b ON b.id = l.id;
	END LOOP;
END
$$;

-- Looks at differences again, up to as many times as the plan says, without those that are gone;
-- "confirmed" says which stood still while replication passed.
-- As recheck_batches: with links, a round has two looks, and one comes before the first.
-- Relies on: what lookups rely on, in a snapshot of each look.
CREATE FUNCTION nodes_recheck(nodes node_set, INOUT differences node_difference[],
	OUT waited waited) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan := nodes.plan;
	linked boolean := plan.links <> '{}';
	needed integer := waits_needed(plan);
	deadline timestamptz := clock_timestamp() + plan.timeout;
	settled boolean;	-- NULL where nothing replicates
	problem text;
	confirmed node_difference[] := '{}';
BEGIN
	IF differences <> '{}' AND is_ready(plan) THEN
		IF linked THEN
			waited.problem := settle_all(plan, deadline);
			settled := waited.problem IS NULL;
			differences := ARRAY(SELECT d FROM nodes_look_again(nodes, differences, settled) AS d);
		END IF;
		FOR round IN 2 - needed .. CASE WHEN settled IS FALSE THEN -1 ELSE plan.recheck END LOOP
			EXIT WHEN differences = '{}';
			PERFORM progress(plan.progress, format(
				'waiting a second or longer, to look at %s keys again', cardinality(differences)));
			-- the second is for replication that PostgreSQL does not know
			IF clock_timestamp() > deadline - interval '1 s' THEN
				waited.problem := 'there was no time to look again';
				EXIT;
			END IF;
			PERFORM pg_sleep(1);
			waited := CASE WHEN linked THEN pass(plan, deadline) END;
			EXIT WHEN waited.problem IS NOT NULL;
			IF linked THEN
				differences := ARRAY(SELECT d FROM nodes_look_again(nodes, differences) AS d);
				problem := CASE WHEN differences <> '{}' THEN settle_all(plan, deadline) END;
				settled := problem IS NULL;
			END IF;
			waited.problem := coalesce(problem, 'rows kept changing');
			differences := ARRAY(SELECT d FROM nodes_look_again(nodes, differences, settled) AS d);
			confirmed := confirmed
				|| ARRAY(SELECT d FROM unnest(differences) AS d WHERE d.waits >= needed);
			differences := ARRAY(SELECT d FROM unnest(differences) AS d WHERE d.waits < needed);
		END LOOP;
	END IF;
	differences := ARRAY(SELECT ROW(d.id, d.key, d.checksums, d.contents, d.mark, d.waits,
		coalesce(d.waits >= needed, false))::node_difference
		FROM unnest(confirmed || differences) AS d);
END
$$;

-- Verdicts

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
