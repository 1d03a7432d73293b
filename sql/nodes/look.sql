-- Verdicts on nodes ----------------------------------------------------------------------
--
-- Nodes with equal rows agree, and so do nodes without a row: nodes_verdict says which is the
-- majority.

-- The plan of a comparison of two of the nodes.
CREATE FUNCTION nodes_two(plan plan, base integer, node integer) RETURNS plan
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	plan.here := plan.sides[base];
	plan.there := plan.sides[node];
	plan.links := '{}';	-- those of all nodes
	plan.sides := NULL;
	RETURN plan;
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
