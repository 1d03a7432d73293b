-- One table of an audit ----------------------------------------------------------------

-- What is asked of the comparison of one table: the columns and rows that are published, and the
-- item with the columns that are not, and what there is to say of both.
-- A subscriber computes a generated column that is not published, if it has one too.
CREATE FUNCTION audit_scope(conns text[], INOUT item audit_item, INOUT compare options)
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
DECLARE
	published published_table := item.published;
	filter text := published.filter;
	excluded text[];
	feeds feed[] := item.feeds;
	alone boolean;			-- do all rows come through the publications that are audited?
	mapping jsonb;			-- of the publisher
BEGIN
	excluded := ARRAY(SELECT u.name
		FROM jsonb_to_recordset(published.unpublished) AS u(name text, generated boolean)
		WHERE NOT (u.generated AND u.name = ANY (item.generated)));
	IF excluded <> '{}' THEN
		item.exclude := excluded;
		item.notes := item.notes || ('columns not published: ' || quoted(excluded));
	END IF;
	-- then the subscriber holds rows of the filter only, and any other row of it is extra
	alone := cardinality(feeds) = 1 AND (feeds[1]).publications && published.publications
		AND NOT (feeds[1]).publications && coalesce(published.others, '{}');
	IF filter IS NOT NULL THEN
		-- Another server can send any SQL.  The filters of this server hold operators and
		-- functions of PostgreSQL alone.
		IF (alone OR compare.trust_filters OR item.subscriber = 'there' AND conns[1] IS NULL)
				IS NOT TRUE THEN
			RAISE feature_not_supported USING MESSAGE = CASE item.subscriber
					WHEN 'here' THEN 'refusing to run the peer''s row filter here'
					ELSE 'refusing to run the row filter of here on the peer' END,
				DETAIL = CASE item.subscriber WHEN 'here' THEN 'Rows here'
					ELSE 'Rows of the peer' END || ' may come from elsewhere, so the filter must '
					'select them. Set trust_filters => true to run this condition: ' || filter;
		END IF;
		compare.condition := CASE WHEN item.subscriber = 'there' OR NOT alone THEN filter END;
		compare.peer_condition := CASE WHEN item.subscriber = 'here' OR NOT alone THEN filter END;
		item.notes := item.notes || concat('row filter ', filter, CASE WHEN NOT alone
			THEN ' on both sides, since rows of the subscriber may be from elsewhere' END);
	END IF;
	IF cardinality(feeds) > 1 THEN
		item.notes := item.notes
			|| ('fed by subscriptions ' || quoted(iblt_field(feeds, 'subscription')));
	END IF;
	compare.relation_name := audit_name(item);
	compare.label := 'iblt_audit ' || compare.relation_name;
	compare.own_rows := CASE WHEN item.subscriber IS NOT NULL THEN 'always' END;
	compare.mapping := nullif(compare.mappings #> ARRAY[compare.relation_name, 'here'], 'null');
	compare.peer_mapping := nullif(compare.mappings #> ARRAY[compare.relation_name, 'there'],
		'null');
	mapping := CASE item.subscriber WHEN 'here' THEN compare.peer_mapping
		WHEN 'there' THEN compare.mapping END;
	excluded := ARRAY(SELECT jsonb_array_elements_text(nullif(compare.mappings
		#> ARRAY[compare.relation_name, 'exclude'], 'null')));
	IF excluded <> '{}' THEN
		item.notes := item.notes || ('columns left out: ' || quoted(excluded));
	END IF;
	-- a publisher may have expressions in place of what is not published
	compare.exclude := ARRAY(SELECT name FROM unnest(item.exclude) AS own,
			mapped_name(mapping, own) AS name
		WHERE NOT coalesce(mapping -> 'expressions' ? name, false)
		UNION SELECT x FROM unnest(excluded) AS x);
	-- of published columns, audit_adjust_plan says more
	compare.extra_columns := CASE WHEN compare.extra_columns <> 'error' THEN 'ignore'
		WHEN item.subscriber IS NOT NULL THEN 'later' ELSE 'error' END;
	compare.seed := coalesce(compare.seed, random_seed());
END
$$;

-- The item of a plan with what there is to say of it, and the plan of its comparison.
-- The plan of iblt_compare, with three changes.  Notes take the place of warnings.  Where the peer
-- does not have the slot of the subscription that is audited, rows are rechecked all the same.
-- Published columns that the subscriber lacks are an error, because replication stops at one.
CREATE FUNCTION audit_adjust_plan(INOUT item audit_item,
	INOUT plan plan, compare options)
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
DECLARE
	kinds text;
	names text[];
	s side;
BEGIN
	FOREACH s IN ARRAY CASE WHEN item.listed THEN sides_of(plan) ELSE '{}' END LOOP
		CONTINUE WHEN s.kind NOT IN ('f', 'v') AND NOT s.remote;
		kinds := concat(kinds || ' and ', CASE s.kind WHEN 'f' THEN 'a foreign table'
			WHEN 'v' THEN 'a view' ELSE 'a table with foreign partitions' END,
			CASE WHEN plan.sides IS NOT NULL THEN format(' on "%s"', s.side)
			WHEN s.side = 'here' THEN ' here' ELSE ' on the peer' END);
	END LOOP;
	IF kinds IS NOT NULL THEN
		-- a foreign table that leads to the other side's table would be compared with itself, and
		-- so would a view of one, or of a function that asks there
		RAISE wrong_object_type USING MESSAGE = 'it is ' || kinds,
			DETAIL = 'Its rows may be elsewhere. Name it in tables to compare it all the same.';
	END IF;
	IF item.subscriber IS NOT NULL THEN
		-- columns by the names that the plan has for them
		names := iblt_field(
				(CASE item.subscriber WHEN 'here' THEN plan.here ELSE plan.there END).columns)
			|| ARRAY(SELECT mapped_name(CASE item.subscriber WHEN 'here' THEN compare.peer_mapping
				ELSE compare.mapping END, own) FROM unnest(item.exclude) AS own);
		PERFORM require_none(
			ARRAY(SELECT x FROM unnest(plan.columns_left_out) AS x WHERE x <> ALL (names)),
			CASE item.subscriber WHEN 'here' THEN 'published columns are not here: %s'
				ELSE 'published columns are not on the peer: %s' END,
			'Add them to the subscriber. Logical replication needs them there.');
	END IF;
	IF compare.extra_columns = 'later' THEN
		compare.extra_columns := 'error';
		PERFORM columns_left_out(plan.here, plan.there, compare);
	END IF;
	plan.noted := true;
	IF plan.links = '{}' AND compare.recheck IS NULL AND item.subscription IS NOT NULL THEN
		plan.recheck := 3;
		plan.versions := (plan.here).versions AND (plan.there).versions;
		item.notes := item.notes || text 'the peer does not have the subscription''s slot, so the '
			'audit did not wait for replication';
	END IF;
END
$$;

-- The plan of the comparison of one table, perhaps of nodes, and its item with what there is to say
-- of it.
CREATE FUNCTION audit_plan(conns text[], INOUT item audit_item, options options,
	OUT plan plan, nodes text[] DEFAULT NULL, named integer DEFAULT NULL)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	scoped record;
	checked record;
BEGIN
	IF nodes IS NULL AND conns[1] IS NULL THEN
		PERFORM check_options(item.relid, options);
	END IF;
	scoped := audit_scope(conns, item, options);
	checked := audit_adjust_plan(scoped.item, prepare(conns, item.relid, audit_name(item, true),
		scoped.compare, nodes, named), scoped.compare);
	item := checked.item;
	plan := checked.plan;
END
$$;

-- The row for a table that was compared, from its counts of differences.
CREATE FUNCTION audit_verdict(item audit_item, plan plan, figures figures, INOUT result audit_row,
	problem text DEFAULT NULL) RETURNS audit_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	differences bigint := result.missing + result.extra + result.changed;
	mine text[] := iblt_field((plan.here).columns);
BEGIN
	result.relation := (plan.here).relation;
	result.peer_relation := (plan.there).relation;
	result.status := CASE differences WHEN 0 THEN 'equal'
		WHEN result.unconfirmed THEN 'not comparable' ELSE 'differs' END;
	result.rows_here := figures.rows_here;
	result.rows_there := figures.rows_there;
	result.bytes := figures.bytes_sent + figures.bytes_received;
	result.detail := nullif(concat_ws('; ',
		CASE WHEN result.unconfirmed = 0 THEN NULL
			WHEN unready(plan) IS NOT NULL THEN format('differences cannot be confirmed: '
				'replication of this table is not ready (%s)',
				regexp_replace(unready(plan), '^The (.*)\.$', 'the \1'))
			ELSE format('%s differences could not be confirmed: %s', result.unconfirmed,
				unconfirmed_cause(problem)) END,
		CASE WHEN plan.live <> 'off' THEN live_said(plan) END,
		CASE WHEN plan.buckets IS NOT NULL THEN 'compared by plain queries' END,
		by_index_note(plan),
		CASE WHEN plan.buckets IS NOT NULL AND plan.recheck = 0 AND differences > 0
			THEN 'differences were not rechecked, so they may be rows in flight' END,
		'columns only here: ' || quoted(
			ARRAY(SELECT x FROM unnest(plan.columns_left_out) AS x WHERE x = ANY (mine))),
		'columns only on the peer: ' || quoted(
			ARRAY(SELECT x FROM unnest(plan.columns_left_out) AS x WHERE x <> ALL (mine))),
		nullif(array_to_string(item.notes, '; '), '')), '');
END
$$;

-- The row of a table with more differences counted.
-- In FROM, unnest would have the planner look for ways to hash a batch.
CREATE FUNCTION audit_count(differences difference[], result audit_row) RETURNS audit_row
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT jsonb_populate_record(result, jsonb_build_object(
			'missing', coalesce(result.missing, 0) + count(*) FILTER (WHERE (u.d).side = 'there'),
			'extra', coalesce(result.extra, 0) + count(*) FILTER (WHERE (u.d).side = 'here'),
			'changed', coalesce(result.changed, 0) + count(*) FILTER (WHERE (u.d).side = 'both'),
			'unconfirmed', coalesce(result.unconfirmed, 0)
				+ count(*) FILTER (WHERE NOT (u.d).confirmed)))
		FROM (SELECT unnest(differences) AS d) AS u);

-- The row for a table that was not compared, perhaps of nodes.
-- Without an error, the list knows a problem already.
CREATE FUNCTION audit_failed(item audit_item, e failure, of_nodes boolean DEFAULT false)
RETURNS audit_row
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	result audit_row;
	one_table text := CASE WHEN of_nodes THEN 'iblt_compare_nodes' ELSE 'iblt_compare' END;
	-- a hint may name what an audit does not have, but the comparison of one table
	advice text := CASE WHEN e.state = '42P01' AND of_nodes
			THEN 'create it there'		-- they have one name for it
		WHEN e.state = '42P01'
			THEN 'create it there, or compare it by iblt_compare under its other name'
		WHEN e.state = '42804' AND e.hint ~ 'cast_types'
			THEN format('set cast_types => true, or leave the columns out by %s', one_table)
		ELSE regexp_replace(CASE WHEN e.hint ~ '^[A-Z][a-z]'
				THEN lower(left(e.hint, 1)) || substr(e.hint, 2) ELSE e.hint END,
			'exclude (the columns|them)', format('leave \1 out by %s', one_table)) END;
	told record := told_too_many(e);
BEGIN
	result.relation := audit_name(item);
	result.peer_relation := CASE WHEN e.state IS DISTINCT FROM '42P01'
		THEN audit_name(item, true) END;
	result.status := CASE
		WHEN e.state = 'IB002' THEN 'differs'
		-- perhaps rows in flight, an altered table or one that was written to, no such
		-- table or column, types that differ, not a table, a filter that must not run
		WHEN e.state IS NULL
				OR e.state IN ('IB003', 'IB004', 'IB008', '42P01', '42703', '42804', '42809',
					'0A000')
			THEN 'not comparable'
		ELSE 'error' END;
	result.detail := concat_ws('; ', CASE WHEN e.state IS NULL THEN item.problem END,
		CASE WHEN e.state IS NULL AND item.absent THEN 'the table does not exist here' END,
		regexp_replace(e.message || coalesce(': ' || nullif(e.detail, ''), ''),
			CASE WHEN advice <> '' THEN '\.$' ELSE '' END, ''), rtrim(nullif(advice, ''), '.'),
		nullif(array_to_string(item.notes, '; '), ''));
	result.sqlstate := e.state;
	result.rows_here := told.rows_here;
	result.rows_there := told.rows_there;
	RETURN result;
END
$$;

-- What nodes have otherwise than their majority, counted, as the fields of a node_audit_row.
-- What is missing, extra or changed is so for the majority, so a tie blames no node.
CREATE FUNCTION audit_count_nodes(plan plan, differences difference[]) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (WITH d AS MATERIALIZED (
		SELECT v.verdict, v.agree, v.deviate, v.missing
		FROM (SELECT iblt_field(plan.sides, 'side') OFFSET 0) AS s(names),
			unnest(differences) AS d, nodes_verdict(s.names, plan.named, d.checksums) AS v
	), n AS (
		SELECT CASE WHEN name = ANY (d.missing) THEN 'missing'
			WHEN d.agree[1] = ANY (d.missing) THEN 'extra' ELSE 'changed' END AS kind,
			name, count(*) AS number
		FROM d, unnest(d.deviate) AS name WHERE d.verdict = 'majority' GROUP BY 1, 2
	)
	SELECT jsonb_build_object('differences', count(*),
			'ties', count(*) FILTER (WHERE d.verdict = 'tie'))
		|| '{"missing": {}, "extra": {}, "changed": {}}'
		|| coalesce((SELECT jsonb_object_agg(kind, numbers) FROM (SELECT kind,
			jsonb_object_agg(name, number) AS numbers FROM n GROUP BY kind) AS k), '{}') FROM d);

-- Compares one table, again if it is altered meanwhile: its row, which says what went wrong, and
-- where replication is stuck.  Differences are counted, and those of nodes by node.  If rows are
-- asked for, the first ones are kept for a page, without values of more than 20 kB.
-- The table's work is always rolled back.  That frees its locks, which the transaction
-- would otherwise keep until the last table was compared.  A cancel of this side, which
-- OTHERS does not include, ends the audit.
CREATE FUNCTION audit_table(a attempt, item audit_item, INOUT stuck text,
	OUT result audit_row)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	of_nodes boolean := a.names IS NOT NULL;
	started timestamptz := clock_timestamp();
	noted audit_item := item;
	plan plan;
	next record;
	e failure;
BEGIN
	WHILE item.problem IS NULL AND item.absent IS NOT TRUE LOOP
		result := NULL;
		plan := NULL;
		noted := item;
		DECLARE
			planned record;
			found found_keys;
			b batch;
			counted audit_row;
			shown difference[] := '{}';
			problem text;
		BEGIN
			-- an error may have closed them
			a.conns := connect(a.peers, a.conns, (a.options).timeout, names => a.names);
			IF of_nodes THEN
				-- another table may have been compared without one of them
				PERFORM plain_method(a.conns, (a.options).method, a.names);
			END IF;
			planned := audit_plan(a.conns, item, a.options, a.names, a.named);
			noted := planned.item;
			plan := planned.plan;
			plan.stuck := stuck;
			found := find_keys(plan);
			FOR b IN SELECT * FROM differences(found) LOOP
				counted := audit_count(b.differences, counted);
				IF of_nodes THEN
					shown := shown || b.differences;
				ELSIF plan.content <> 'none' AND cardinality(shown) < 25 THEN
					shown := shown || b.differences[: 25 - cardinality(shown)];
				END IF;
				problem := coalesce((b.waited).problem, problem);
				stuck := coalesce((b.waited).stuck, stuck);
			END LOOP;
			IF of_nodes THEN
				counted.differences := audit_count_nodes(found.plan, shown);
				counted.changed := cardinality(shown);
			ELSE
				counted.differences := (SELECT jsonb_agg(to_jsonb(d) - CASE WHEN
							coalesce(pg_column_size((d).here), 0)
							+ coalesce(pg_column_size((d).there), 0) < 20000
						THEN '{id,mark,checksums,contents}'::text[]
						ELSE '{id,mark,here,there,checksums,contents}' END)
					FROM (SELECT unnest(shown) AS d) AS u);
			END IF;
			result := audit_verdict(noted, found.plan, b.figures, counted, problem);
			RAISE SQLSTATE 'IB000' USING MESSAGE = 'compared';
		EXCEPTION WHEN @on_error@ THEN
			EXIT WHEN result.status IS NOT NULL;
			@take_failure@;
			stuck := coalesce((told_too_many(e)).stuck, stuck);
			PERFORM peers_close(a.conns);
		END;
		next := next_attempt(a, plan, e);
		a := next.a;
		IF a.number IS NULL THEN
			e := next.e;
			EXIT;
		ELSIF next.failed IS NOT NULL THEN
			item.notes := item.notes || format('without "%s": %s', next.failed, e.message);
		END IF;
	END LOOP;
	IF result.status IS NULL THEN
		result := audit_failed(noted, e, of_nodes);
	END IF;
	-- nodes may be equal without one that is not
	IF cardinality(a.names) < a.named THEN
		result.status := CASE result.status WHEN 'equal' THEN 'not comparable'
			ELSE result.status END;
		result.detail := concat_ws('; ', format('%s of %s nodes were compared',
			cardinality(a.names), a.named), result.detail);
	END IF;
	result.total_ms := ms(started);
END
$$;
