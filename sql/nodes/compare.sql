-- iblt_compare_nodes -----------------------------------------------------------------------

-- The plan of a comparison of nodes; an error that names a node without the relation.
CREATE FUNCTION nodes_prepare(names text[], named integer, conns text[], relation text,
	options options) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan;
	sides side[];
	described record;
	told jsonb[];
	number integer[] := ARRAY[cardinality(conns)];
BEGIN
	options.method := plain_method(conns, options.method, names);
	IF options.method = 'plain' THEN
		PERFORM plain_check(CASE options.live WHEN 'require' THEN 'live digests are not read' END,
			'Leave live out.');
		options.live := 'off';
		described := plain_sides(conns, array_fill(relation, number),
			array_fill(options.condition, number), '{}', options.label);
		sides := described.sides;
		told := described.told;
	ELSE
		-- the name of a relation that is not in this database would be an error
		sides := describe_sides(conns,
			ARRAY(SELECT CASE WHEN u.conn IS NULL THEN to_regclass(relation)::text ELSE relation END
				FROM unnest(conns) WITH ORDINALITY AS u(conn, n) ORDER BY u.n),
			array_fill(options.condition, number), options.live <> 'off', options.label);
	END IF;
	FOR n IN 1 .. cardinality(conns) LOOP
		IF (sides[n]).relation IS NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'undefined_table',
				MESSAGE = format('on "%s": relation %s does not exist', names[n], relation);
		END IF;
		sides[n].side := names[n];
	END LOOP;
	plan := nodes_plan(names, sides, options, told);
	plan.named := named;
	-- see reads_by_index
	IF options.condition IS NOT NULL AND EXISTS (SELECT FROM unnest(sides) AS s
			WHERE s.remote OR s.distributed) THEN
		PERFORM iblt_tell('notice', by_index_note(true));
	END IF;
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

-- The options of a comparison of nodes, checked, with a label.
CREATE FUNCTION nodes_options(options options, label text) RETURNS options
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
BEGIN
	IF coalesce(options.max_differences, 0) NOT BETWEEN 1 AND 200000 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'max_differences must be between 1 and 200000',
			DETAIL = 'The sketches and keys of all nodes are in memory.';
	END IF;
	-- any relation: that of the nodes may not be here
	PERFORM check_options('pg_catalog.pg_class', options);
	options.seed := coalesce(options.seed, random_seed());
	options.label := label;
	RETURN options;
END
$$;

-- The warning for a node that is left out.
CREATE FUNCTION nodes_warn(name text, e failure) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM iblt_tell('warning', format('node "%s" is left out', name),
		concat_ws(' ', e.message || '.', nullif(e.detail, '')));
END
$$;

-- After an error: the number of the next attempt, with the nodes, their names, their connections
-- and the options to begin it with, and the name of a node that is left out; without an attempt,
-- the error to raise.
-- A node that is left out does not count as an attempt.  A digest that is not trustworthy any
-- more does not fail a node, nor does a relation that was altered, before the third attempt.
CREATE FUNCTION nodes_again(without text, plan plan, INOUT e failure, INOUT attempt integer,
	INOUT nodes text[], INOUT names text[], INOUT conns text[], INOUT options options,
	OUT failed text) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	n integer := CASE WHEN e.state <> 'IB008' AND without = 'skip' AND cardinality(names) > 2
		THEN nodes_failed(names, e.message) END;
	again boolean;
BEGIN
	BEGIN
		again := restarts(conns, nodes, plan, attempt, e);
	EXCEPTION WHEN SQLSTATE 'IB004' THEN
		again := false;
		IF n IS NULL THEN
			@take_failure@;
		END IF;
	END;
	IF again THEN
		options := options_again(options, e);
		attempt := attempt + 1;
	ELSIF n IS NOT NULL THEN
		failed := names[n];
		nodes := nodes[: n - 1] || nodes[n + 1 :];
		names := names[: n - 1] || names[n + 1 :];
		conns := conns[: n - 1] || conns[n + 1 :];
	ELSE
		attempt := NULL;
	END IF;
END
$$;

CREATE FUNCTION @extschema@.iblt_compare_nodes(
	relation text,
	nodes text[],
	columns text[] DEFAULT NULL,
	exclude text[] DEFAULT NULL,
	key_columns text[] DEFAULT NULL,
	condition text DEFAULT NULL,
	max_differences bigint DEFAULT 100000,
	rows boolean DEFAULT false,
	without text DEFAULT 'error',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	seed bigint DEFAULT NULL,
	progress boolean DEFAULT false,
	method text DEFAULT 'sketch',
	live text DEFAULT 'off')
RETURNS TABLE (key jsonb, verdict text, agree text[], deviate text[], missing text[],
	confirmed boolean, node_rows jsonb)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
AS $$
DECLARE
	content text := CASE rows WHEN true THEN 'rows' WHEN false THEN 'none' END;
	extra_columns text := 'ignore';
	options options := @arguments options@;
	done record;
	names text[];
BEGIN
	done := nodes_drive(relation, nodes, options, without, NULL, NULL);
	names := iblt_field(((done.compared).plan).sides, 'side');
	RETURN QUERY SELECT d.key, v.verdict, v.agree, v.deviate, v.missing, d.confirmed,
			CASE WHEN rows THEN (SELECT jsonb_object_agg(name, node_row)
				FROM unnest(names, d.contents) AS u(name, node_row)) END
		FROM unnest((done.compared).differences) AS d,
			nodes_verdict(names, ((done.compared).plan).named, d.checksums) AS v;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_compare_nodes IS
'the keys on which a relation differs between up to 16 nodes: which of them agree, and which '
'deviate';
