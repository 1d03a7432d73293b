-- iblt_repair_nodes ------------------------------------------------------------------------
--
-- What deviates on a node becomes like the majority, or like a node that is named.  Rows come
-- from a node that agrees, and the repair of such a pair is that of iblt_repair (sql/repair).
-- All pairs of one target are a transaction of its own, and an error there does not undo what
-- was done on other nodes.

-- What is to be repaired, in the order of the nodes: those that have not the rows of the source, or
-- without one, of the majority.
-- This database is the last one: its changes are not committed, so it is no source from then on.
CREATE FUNCTION nodes_pairs(names text[], named integer, differences difference[], source text)
RETURNS SETOF node_pair
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT array_position(names, t.name), w.place, array_agg(d.id), array_agg(d.key)
	FROM unnest(differences) AS d, nodes_verdict(names, named, d.checksums) AS v,
		LATERAL (SELECT array_position(names, coalesce(source, v.agree[1]))) AS w(place),
		unnest(names, d.checksums) AS t(name, checksum)
	WHERE d.confirmed IS NOT FALSE AND (source IS NOT NULL OR v.verdict = 'majority')
		AND t.checksum IS DISTINCT FROM d.checksums[w.place]
	GROUP BY t.name, 1, 2 ORDER BY t.name = 'here', 1, 2
$$;

-- The rows for keys that are left on all nodes, because of a problem or a tie.
CREATE FUNCTION nodes_left(names text[], named integer, differences difference[], source text,
	problem text) RETURNS SETOF node_repair_row
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT NULL, d.key, NULL, NULL, 'skipped', CASE WHEN d.confirmed IS FALSE
		THEN 'not confirmed: ' || unconfirmed_cause(problem)
		ELSE 'a tie: no majority of the nodes agrees' END
	FROM unnest(differences) AS d, nodes_verdict(names, named, d.checksums) AS v
	WHERE d.confirmed IS FALSE OR source IS NULL AND v.verdict = 'tie' ORDER BY d.key
$$;

-- The rows for the steps of a node.
CREATE FUNCTION nodes_rows(node text, works repair_work[]) RETURNS node_repair_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	part text;
	made node_repair_row[];
	rows node_repair_row[] := '{}';
BEGIN
	FOR part IN SELECT repair_parts(works) LOOP
		EXECUTE format('SELECT array_agg(ROW($1, r.key, r.action, r.sql, r.status, r.detail)'
			'::node_repair_row) FROM (%s) AS r(target, key, action, sql, status, detail)', part)
		INTO made USING node;
		rows := rows || made;
	END LOOP;
	PERFORM iblt_repair_drop((w.plan).secret) FROM unnest(works) AS w;
	RETURN rows;
END
$$;

-- Repairs a target and commits there, or previews that: what is said of each of its keys.  After an
-- error nothing is changed there, unless the outcome of its COMMIT is unknown, and a warning says
-- why.
CREATE FUNCTION nodes_repair_target(nodes text[], s plan, pairs node_pair[],
	asked repair_options, source text) RETURNS node_repair_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	names text[] := iblt_field(s.sides, 'side');
	name text := names[pairs[1].target];
	reached plan := s;		-- the nodes that can be reached now: others agree with nobody
	compared plan;
	size integer;
	work repair_work;
	planned repair_work[] := '{}';
	works repair_work[];	-- NULL until all pairs have their steps
	rows node_repair_row[];	-- what was done, before the commit
	steps repair_step[];
	ids text[];
	failures failure[];
	failed text;
	broken integer;
	e failure;
BEGIN
	reached.sides := '{}';
	BEGIN
		failures := iblt_peers_open(places_of(s), nodes, extract(epoch FROM s.timeout));
		FOR n IN 1 .. cardinality(names) LOOP
			IF (failures[n]).state IS NULL THEN
				reached.sides := array_append(reached.sides, s.sides[n]);
			END IF;
		END LOOP;
		FOR i IN 1 .. cardinality(pairs) LOOP
			compared := s;
			compared.here := s.sides[pairs[i].source];
			compared.there := s.sides[pairs[i].target];
			compared.sides := NULL;
			compared.content := 'texts';
			compared.links := links(s.sides);
			work := ROW(repair_plan_of(compared, asked), NULL, '{}', 0, NULL, NULL,
				NULL, NULL)::repair_work;
			compared := (work.plan).compared;
			size := batch_size(compared);
			FOR n IN 1 .. cardinality(pairs[i].ids) BY size LOOP
				work := repair_add_steps(work,
					look_at_ids(compared, pairs[i].ids[n : n + size - 1]));
			END LOOP;
			IF NOT asked.apply THEN
				PERFORM repair_show(work, NULL);
			END IF;
			planned := array_append(planned, work);
		END LOOP;
		works := planned;
		IF asked.apply AND EXISTS (SELECT FROM unnest(works) AS w WHERE w.keys > 0) THEN
			-- finds the rows of the two nodes of each pair as they were compared
			PERFORM repair_claim(VARIADIC works);
			FOR i IN 1 .. CASE WHEN source IS NULL THEN cardinality(works) ELSE 0 END LOOP
				work := works[i];
				FOR n IN 1 .. cardinality(work.parts) LOOP
					steps := repair_batch(work, n);
					ids := iblt_field(steps, 'id');
					CONTINUE WHEN ids = '{}';
					-- without keys on which the nodes still agree as they did, on what steps write
					ids := ARRAY(SELECT unnest(ids) EXCEPT SELECT d.id
						FROM unnest(look_at_ids(reached, ids)) AS d
						JOIN unnest(steps) AS u USING (id),
						nodes_verdict(iblt_field(reached.sides, 'side'), s.named, d.checksums) AS v
						WHERE v.verdict = 'majority' AND names[pairs[i].source] = ANY (v.agree)
						AND name = ANY (v.deviate) AND u.source_checksum IS NOT DISTINCT FROM
							d.checksums[array_position(iblt_field(reached.sides, 'side'),
								names[pairs[i].source])]);
					PERFORM repair_skip_kept(work, n, n, ids, 'changed since it was compared');
				END LOOP;
			END LOOP;
			works := repair_apply(works);
			rows := nodes_rows(name, works);
			PERFORM repair_commit((s.sides[pairs[1].target]).place);
		END IF;
	EXCEPTION WHEN @on_error@ THEN
		@take_failure@;
		failed := CASE WHEN e.message LIKE 'the outcome is unknown: %' THEN 'unknown'
			ELSE 'failed' END;
		PERFORM iblt_tell('warning', format(CASE failed WHEN 'unknown'
				THEN 'node "%s" may or may not be repaired' ELSE 'node "%s" is not repaired' END,
				name),
			concat_ws(' ', e.message || '.', nullif(e.detail, ''), nullif(e.hint, '')));
		-- what is open there is rolled back
		broken := nodes_failed(names, e.message);
		PERFORM peers_close(array_agg(x.place), false) FROM (SELECT (s.sides[pairs[1].target]).place
			UNION SELECT (s.sides[p.source]).place FROM unnest(pairs) AS p
			UNION SELECT (s.sides[broken]).place) AS x(place);
	END;
	RETURN ARRAY(SELECT ROW(name, r.key, r.action, r.sql, x.status,
			CASE x.status WHEN failed THEN e.message ELSE r.detail END)::node_repair_row
		FROM unnest(coalesce(rows, nodes_rows(name, works))) AS r,
		LATERAL (SELECT CASE WHEN r.status = 'skipped' THEN r.status
			ELSE coalesce(failed, r.status) END) AS x(status)
		UNION ALL
		SELECT ROW(name, k, NULL, NULL, failed, e.message)::node_repair_row
		FROM unnest(pairs) AS p, unnest(p.keys) AS k WHERE works IS NULL);
END
$$;

-- An error if one of two nodes is a standby of the other one, or both of a third server, or if a
-- node reads foreign tables, which may be of another node, or has something else than a table.
-- They would have two votes for what one server says.  A view may call a function that asks
-- another node, and a materialized view may have kept its answer.
CREATE FUNCTION nodes_check_standby(sides side[]) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	standby text := (SELECT min(format('node "%s" %s a standby with the rows of node "%s"',
			a.side, CASE WHEN a.system = b.system THEN 'is' ELSE 'may be' END, b.side))
		FROM unnest(sides) AS a JOIN unnest(sides) AS b ON a.side <> b.side AND a.recovery
			AND coalesce(a.system = b.system, true)
			-- an identity ends with the OIDs of the database and the relation
			AND substring(a.identity FROM '\d+ \d+$') = substring(b.identity FROM '\d+ \d+$'));
	reader text := (SELECT min(format('node "%s" reads rows of other servers', s.side))
		FROM unnest(sides) AS s WHERE s.remote);
	other text := (SELECT min(format('relation %s of node "%s" is not a table', s.relation, s.side))
		FROM unnest(sides) AS s WHERE s.kind NOT IN ('r', 'p'));
BEGIN
	IF num_nonnulls(standby, reader, other) > 0 THEN
		RAISE invalid_parameter_value USING MESSAGE = coalesce(standby, reader, other),
			DETAIL = CASE WHEN standby IS NULL THEN 'Its rows may come from another node, and '
				'both would have a vote for them.' ELSE 'Both would have a vote.' END,
			HINT = 'Leave that node out, or name a source.';
	END IF;
END
$$;

CREATE FUNCTION @extschema@.iblt_repair_nodes(
	relation text,
	nodes text[],
	@iblt_compare: columns exclude key_columns condition max_differences@
	source text DEFAULT NULL,
	without text DEFAULT 'error',
	@iblt_compare: recheck timeout seed@
	inserts boolean DEFAULT true,
	updates boolean DEFAULT true,
	deletes boolean DEFAULT true,
	@iblt_repair: cascade apply apply_search_path as_replica origin@
	@iblt_compare: progress live@
	method text DEFAULT 'sketch')
RETURNS SETOF node_repair_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
AS $$
DECLARE
	-- fields of the options that are not arguments
	content text := 'none';
	extra_columns text := 'ignore';
	target_side text := 'there';
	winner text := 'source';
	a attempt := first_attempt(nodes, @arguments options@, coalesce(without, ''));
	asked repair_options := @arguments repair_options@;
	done record;
BEGIN
	asked.inserts := coalesce(inserts, true);
	asked.deletes := coalesce(deletes, true);
	done := nodes_drive(relation, a, asked, source);
	RETURN QUERY SELECT * FROM unnest(done.rows);
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_repair_nodes IS
'the statements that make nodes like the majority of them, or like one of them, which are run only '
'with apply => true';
