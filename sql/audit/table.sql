-- One table of an audit ----------------------------------------------------------------

-- What a side is whose rows are elsewhere, otherwise NULL.
CREATE FUNCTION foreign_kind(s side) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN s.kind = 'f' THEN 'a foreign table'
		WHEN s.remote THEN CASE s.kind WHEN 'v' THEN 'a view of foreign tables'
			ELSE 'a table with foreign partitions' END END
$$;

-- What is asked of the comparison of one table, whose scope is known.
CREATE FUNCTION audit_compare_options(item audit_item, options audit_options) RETURNS options
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
DECLARE
	compare options := options.compare;
	published jsonb;		-- the mapping of the publisher
BEGIN
	compare.relation_name := audit_name(item);
	compare.label := 'iblt_audit ' || compare.relation_name;
	compare.own_rows := CASE WHEN item.subscriber IS NOT NULL THEN 'always' END;
	compare.condition := item.condition;
	compare.peer_condition := item.peer_condition;
	compare.mapping := nullif(options.mappings #> ARRAY[compare.relation_name, 'here'], 'null');
	compare.peer_mapping := nullif(options.mappings #> ARRAY[compare.relation_name, 'there'],
		'null');
	published := CASE item.subscriber WHEN 'here' THEN compare.peer_mapping
		WHEN 'there' THEN compare.mapping END;
	-- a publisher may have expressions in their place
	compare.exclude := ARRAY(SELECT name FROM unnest(item.exclude) AS own,
			mapped_name(published, own) AS name
		WHERE NOT coalesce(published -> 'expressions' ? name, false));
	-- of published columns, audit_adjust_plan says more
	compare.extra_columns := CASE WHEN compare.extra_columns <> 'error' THEN 'ignore'
		WHEN item.subscriber IS NOT NULL THEN 'later' ELSE 'error' END;
	compare.seed := coalesce(compare.seed, random_seed());
	compare.not_unique := item.not_unique;
	RETURN compare;
END
$$;

-- The item of a plan with what there is to say of it, and the plan of its comparison.
-- The plan of iblt_compare, with three changes.  Notes take the place of warnings.  Where
-- replication is not ready, nothing is rechecked, because nothing could be confirmed.
-- Where the peer does not have the slot of the subscription that is audited, rows are
-- rechecked all the same.  Published columns that the subscriber lacks are an error, because
-- replication stops at one.
CREATE FUNCTION audit_adjust_plan(INOUT item audit_item,
	INOUT plan plan, compare options) RETURNS record
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	here text := foreign_kind(plan.here);
	there text := foreign_kind(plan.there);
	names text[];
BEGIN
	IF item.listed AND coalesce(here, there) IS NOT NULL THEN
		-- a foreign table that leads to the other side's table would be compared with itself
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
			MESSAGE = 'it is ' || CASE WHEN here = there THEN here || ' on both sides'
				ELSE concat_ws(' and ', here || ' here', there || ' on the peer') END,
			DETAIL = 'Its rows are elsewhere. Name it in tables to compare it all the same.';
	END IF;
	IF item.not_unique IS NOT NULL THEN
		item.notes := item.notes || item.not_unique;
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
	IF unready(plan) IS NOT NULL THEN
		plan.recheck := 0;
		item.unready := true;
	ELSIF plan.links = '{}' AND compare.recheck IS NULL AND item.subscription IS NOT NULL THEN
		plan.recheck := 3;
		plan.versions := (plan.here).versions AND (plan.there).versions;
		item.notes := item.notes || text 'the peer does not have the subscription''s slot, so the '
			'audit did not wait for replication';
	END IF;
END
$$;

-- The plan of the comparison of one table, and its item with what there is to say of it.
CREATE FUNCTION audit_plan(conns text[], INOUT item audit_item,
	options audit_options, OUT plan plan) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compare options;
	checked record;
BEGIN
	PERFORM check_options(CASE WHEN conns[1] IS NULL THEN item.relid ELSE 'pg_catalog.pg_class' END,
		options.compare);
	item := audit_scope(conns, item, options.trust_filters);
	compare := audit_compare_options(item, options);
	checked := audit_adjust_plan(item,
		prepare(conns, item.relid, audit_peer_name(item), compare), compare);
	item := checked.item;
	plan := checked.plan;
END
$$;

-- Its row in the answer

-- What there is to say of a table that was compared.
CREATE FUNCTION audit_detail(item audit_item, plan plan,
	unconfirmed bigint, differences bigint, problem text DEFAULT NULL) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	mine text[] := iblt_field((plan.here).columns);
BEGIN
	RETURN nullif(concat_ws('; ',
		CASE WHEN unconfirmed = 0 THEN NULL
			WHEN item.unready THEN 'differences cannot be confirmed: replication of this table is '
				'not ready (the subscription is disabled or still copies it, or other servers '
				'replicate to both sides, or there is a standby between the sides)'
			ELSE format('%s differences could not be confirmed: %s', unconfirmed,
				unconfirmed_cause(problem)) END,
		live_said(plan),
		CASE WHEN plan.buckets IS NOT NULL THEN 'compared by plain queries' END,
		by_index_note(reads_by_index(plan)),
		CASE WHEN plan.buckets IS NOT NULL AND plan.recheck = 0 AND differences > 0
				AND item.unready IS NOT TRUE
			THEN 'differences were not rechecked, so they may be rows in flight' END,
		'columns only here: ' || quoted(
			ARRAY(SELECT x FROM unnest(plan.columns_left_out) AS x WHERE x = ANY (mine))),
		'columns only on the peer: ' || quoted(
			ARRAY(SELECT x FROM unnest(plan.columns_left_out) AS x WHERE x <> ALL (mine))),
		nullif(array_to_string(item.notes, '; '), '')), '');
END
$$;

-- The status of a table that was compared.
CREATE FUNCTION audit_status(differences bigint, unconfirmed bigint) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE differences WHEN 0 THEN 'equal' WHEN unconfirmed THEN 'not comparable'
		ELSE 'differs' END
$$;

-- The row for a table that was compared, from its counts of differences.
CREATE FUNCTION audit_verdict(item audit_item, plan plan, figures figures, INOUT result audit_row,
	problem text DEFAULT NULL) RETURNS audit_row
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
AS $$
DECLARE
	differences bigint := result.missing + result.extra + result.changed;
BEGIN
	result.relation := (plan.here).relation;
	result.peer_relation := (plan.there).relation;
	result.status := audit_status(differences, result.unconfirmed);
	result.detail := audit_detail(item, plan, result.unconfirmed, differences, problem);
	result.rows_here := figures.rows_here;
	result.rows_there := figures.rows_there;
	result.bytes := figures.bytes_sent + figures.bytes_received;
END
$$;

-- Counts differences of a table in its row.
CREATE FUNCTION audit_count(item audit_item, differences difference[], INOUT result audit_row)
RETURNS audit_row
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	counted audit_row;
BEGIN
	-- in FROM, unnest would have the planner look for ways to hash a batch
	SELECT count(*) FILTER (WHERE (u.d).side = 'there'),
		count(*) FILTER (WHERE (u.d).side = 'here'),
		count(*) FILTER (WHERE (u.d).side = 'both'),
		count(*) FILTER (WHERE (u.d).confirmed IS FALSE OR item.unready)
	INTO counted.missing, counted.extra, counted.changed, counted.unconfirmed
	FROM (SELECT unnest(differences) AS d) AS u;
	@each audit_counts: result.% := coalesce(result.%, 0) + counted.%;@
END
$$;

-- The row for a table of which all differences are known.
CREATE FUNCTION audit_result(item audit_item, compared comparison) RETURNS audit_row
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
AS $$
BEGIN
	RETURN audit_verdict(item, compared.plan, compared.figures,
		audit_count(item, compared.differences, NULL));
END
$$;

-- The row for a table that was not compared.
-- Without an error, the list knows a problem already.
CREATE FUNCTION audit_failed(item audit_item, e failure) RETURNS audit_row
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	result audit_row;
	one_table text := CASE WHEN item IS NULL THEN 'iblt_compare_nodes' ELSE 'iblt_compare' END;
	-- a hint may name what an audit does not have, but the comparison of one table
	advice text := CASE WHEN e.state = '42P01'
			-- nodes have one name for it
			THEN 'create it there' || CASE one_table WHEN 'iblt_compare'
				THEN ', or compare it by iblt_compare under its other name' ELSE '' END
		WHEN e.state = '42804' AND e.hint ~ 'cast_types'
			THEN format('set cast_types => true, or leave the columns out by %s', one_table)
		ELSE regexp_replace(CASE WHEN e.hint ~ '^[A-Z][a-z]'
				THEN lower(left(e.hint, 1)) || substr(e.hint, 2) ELSE e.hint END,
			'exclude (the columns|them)', format('leave \1 out by %s', one_table)) END;
	told record := told_too_many(e);
BEGIN
	result.relation := audit_name(item);
	result.peer_relation := CASE WHEN e.state IS DISTINCT FROM '42P01'
		THEN audit_peer_name(item) END;
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

-- Comparing it

-- Compares one table, again if it is altered meanwhile: its row, which says what went wrong, and
-- where replication is stuck.  Differences are counted.  If rows are asked for, the first ones are
-- kept for a page, without values of more than 20 kB.
-- The table's work is always rolled back.  That frees its locks, which the transaction
-- would otherwise keep until the last table was compared.  A cancel of this side, which
-- OTHERS does not include, ends the audit.
CREATE FUNCTION audit_table(conns text[], peers text[], item audit_item, options audit_options,
	INOUT stuck text, OUT result audit_row) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan;
	again boolean;
	e failure;
BEGIN
	IF item.problem IS NOT NULL OR item.absent THEN
		result := audit_failed(item, NULL);
		RETURN;
	END IF;
	FOR attempt IN 1 .. 3 LOOP
		result := NULL;
		plan := NULL;
		DECLARE
			planned record;
			noted audit_item := item;
			found found_keys;
			b batch;
			counted audit_row;
			shown difference[] := '{}';
			problem text;
		BEGIN
			-- an error may have closed them
			conns := connect(peers, conns, again => true);
			planned := audit_plan(conns, item, options);
			noted := planned.item;
			plan := planned.plan;
			plan.stuck := stuck;
			found := find_keys(plan);
			FOR b IN SELECT * FROM differences(found) LOOP
				counted := audit_count(noted, b.differences, counted);
				IF plan.content <> 'none' AND cardinality(shown) < 25 THEN
					shown := shown || b.differences[: 25 - cardinality(shown)];
				END IF;
				problem := coalesce((b.waited).problem, problem);
				stuck := coalesce((b.waited).stuck, stuck);
			END LOOP;
			counted.differences := (SELECT jsonb_agg(to_jsonb(d) - CASE WHEN
						coalesce(pg_column_size((d).here), 0)
						+ coalesce(pg_column_size((d).there), 0) < 20000
					THEN '{id,mark,checksums,contents}'::text[]
					ELSE '{id,mark,here,there,checksums,contents}' END)
				FROM (SELECT unnest(shown) AS d) AS u);
			result := audit_verdict(noted, found.plan, b.figures, counted, problem);
			RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'compared';
		EXCEPTION WHEN @on_error@ THEN
			EXIT WHEN result.status IS NOT NULL;
			@take_failure@;
			stuck := coalesce((told_too_many(e)).stuck, stuck);
			result := audit_failed(noted, e);
			-- these two are raised here, between questions to the peer
			IF e.state NOT IN ('IB002', 'IB003') THEN
				PERFORM peers_close(conns);
			END IF;
		END;
		again := restarts(conns, peers, plan, attempt, e);
		EXIT WHEN NOT again;
		options.compare := options_again(options.compare, e);
		item.not_unique := (options.compare).not_unique;
	END LOOP;
EXCEPTION WHEN SQLSTATE 'IB004' THEN
	@take_failure@;
	result := audit_failed(item, e);
END
$$;
