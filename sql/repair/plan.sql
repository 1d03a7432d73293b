-- The plan of a repair -------------------------------------------------------------

-- An error for options that make no sense.
CREATE FUNCTION repair_check_options(asked repair_options) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	problem text := CASE
		WHEN asked.target_side IS NULL THEN 'direction must be pull or push'
		WHEN num_nulls(asked.updates, asked."cascade", asked.apply, asked.as_replica) > 0
			THEN 'updates, cascade, apply and as_replica must not be null'
		WHEN coalesce(asked.winner, '') NOT IN ('source', 'newest')
			THEN 'winner must be source or newest'
		WHEN asked.newest_by IS NOT NULL AND asked.winner <> 'newest'
			THEN 'newest_by needs winner => ''newest''' END;
BEGIN
	IF problem IS NOT NULL THEN
		RAISE invalid_parameter_value USING MESSAGE = problem,
			HINT = CASE WHEN asked.target_side IS NULL THEN 'Set direction => ''pull'' to change '
				'this side, where the peer''s rows win, or ''push'' to change the peer, where the '
				'rows of this side win.' ELSE '' END;
	END IF;
END
$$;

-- An error if a repair cannot be applied in this transaction, which may show rows that are older
-- than this statement, or has written to a source of a repair that pushes, or has triggers that
-- another role deferred.
-- postgres_fdw shows the rows of one moment until the transaction ends.  What was truncated
-- and filled again after that moment reads as empty, and its rows would be deleted.  This
-- transaction may have read foreign tables before this repair if the call is not a statement of
-- its own, or if it has locked others than those of the plan.
-- A function with SECURITY DEFINER may call this one.  SET CONSTRAINTS would run triggers that its
-- caller has deferred as the role of that function.
CREATE FUNCTION repair_require_apart(pushes boolean, VARIADIC sides side[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	context text;
	own oid[] := relation_sources(ARRAY(SELECT s.relation::regclass
		FROM unnest(sides) AS s WHERE s.place IS NULL));
	outer_role text := coalesce(nullif(current_setting('role'), 'none'), session_user);
BEGIN
	GET DIAGNOSTICS context = PG_CONTEXT;
	IF own <> '{}' AND current_setting('transaction_isolation') !~ '^read' THEN
		RAISE active_sql_transaction USING
			MESSAGE = 'cannot apply a repair in a REPEATABLE READ or SERIALIZABLE transaction',
			HINT = 'Use isolation level READ COMMITTED.';
	ELSIF EXISTS (SELECT FROM unnest(sides) AS s WHERE s.place IS NULL AND s.remote)
			AND (transaction_timestamp() <> statement_timestamp()
			OR context !~ '[^a-zA-Z0-9_$]iblt_repair(_nodes)?\([^\n]*$'
			OR EXISTS (SELECT FROM pg_locks l JOIN pg_foreign_table f ON f.ftrelid = l.relation
				WHERE l.locktype = 'relation' AND l.pid = pg_backend_pid()
				AND l.database = (SELECT d.oid FROM pg_database d
					WHERE d.datname = current_database())
				AND l.relation <> ALL (own))) THEN
		RAISE active_sql_transaction USING
			MESSAGE = 'cannot apply a repair with foreign tables of this database in a transaction',
			DETAIL = 'A foreign data wrapper may show the same rows until the transaction ends, '
				'as postgres_fdw does.',
			HINT = 'Call iblt_repair once in a statement, outside of transaction blocks and '
				'functions, or on the other server.';
	ELSIF NOT pushes AND outer_role <> current_user AND EXISTS (SELECT FROM pg_locks l
			JOIN pg_trigger t ON t.tgrelid = l.relation AND t.tgdeferrable
			WHERE l.locktype = 'relation' AND l.pid = pg_backend_pid()
			AND l.mode = 'RowExclusiveLock') THEN
		RAISE insufficient_privilege USING
			MESSAGE = format('cannot run triggers that role "%s" may have deferred as role "%s"',
				outer_role, current_user),
			DETAIL = 'A repair runs all triggers of the transaction that are deferred.',
			HINT = 'COMMIT first.';
	ELSIF pushes AND has_changed(VARIADIC ARRAY(SELECT s.relation FROM unnest(sides) AS s
			WHERE s.place IS NULL)) THEN
		RAISE active_sql_transaction USING
			MESSAGE = format('cannot repair another server: this transaction has changed %s',
				(SELECT s.relation FROM unnest(sides) AS s WHERE s.place IS NULL LIMIT 1)),
			DETAIL = 'The other server commits, even if this transaction is rolled back.',
			HINT = 'COMMIT first.';
	END IF;
END
$$;

-- An error for what cannot be repaired, or not applied, or not safely.
-- Where a unique or exclusion constraint is deferrable, a trigger checks it, and
-- session_replication_role = replica turns that trigger off.
CREATE FUNCTION repair_check_target(plan repair_plan) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
	s side := plan.target;
BEGIN
	IF (plan.described).kind NOT IN ('table', 'partitioned table', CASE WHEN s.own_rows
			THEN 'a table that others inherit from' ELSE 'table' END) THEN
		RAISE wrong_object_type USING
			MESSAGE = format('%s cannot be repaired: it is %s', s.relation, (plan.described).kind),
			HINT = 'Choose another direction or relation. Only tables and partitioned tables '
				'can be changed.';
	ELSIF (plan.described).distributed AND (plan.asked).apply THEN
		RAISE feature_not_supported USING
			MESSAGE = format('%s cannot be repaired with apply: it is a table of Citus',
				s.relation),
			DETAIL = 'Citus does not lock rows of several shards, so they could change meanwhile.',
			HINT = 'Leave apply out, stop writing to the rows, '
				'and run the statements that are shown.';
	ELSIF (compared.here).identity = (compared.there).identity THEN
		RAISE invalid_parameter_value USING MESSAGE = 'a relation cannot be repaired from itself';
	ELSIF EXISTS (SELECT FROM unnest((compared.here).columns || (compared.there).columns) AS c
			WHERE c.expression IS NOT NULL AND c.name = ANY (iblt_field(compared.columns))) THEN
		RAISE feature_not_supported USING MESSAGE = 'values of expressions cannot be repaired',
			HINT = 'Exclude these columns.';
	ELSIF EXISTS (SELECT FROM unnest(s.columns) AS c WHERE c.source <> c.name
			AND c.source = ANY (iblt_field(compared.columns))) THEN
		RAISE feature_not_supported USING
			MESSAGE = 'columns of both sides cannot exchange names in a repair',
			HINT = 'Repair from the other server, where peer_columns is the other way round.';
	ELSIF NOT compared.is_unique
			AND EXISTS (SELECT FROM unnest(compared.columns) AS c WHERE c.cast_to <> '') THEN
		RAISE feature_not_supported USING
			MESSAGE = 'rows without a unique key cannot be repaired where column types differ',
			HINT = 'Exclude those columns, or create a unique index on columns that are not null '
				'on both sides.';
	END IF;
	IF (plan.asked).apply THEN
		PERFORM repair_require_apart(s.place IS NOT NULL, compared.here, compared.there);
	END IF;
	IF (plan.asked).apply AND s.recovery THEN
		RAISE read_only_sql_transaction USING
			MESSAGE = format('%s cannot be repaired: %s is a standby', s.relation,
				CASE WHEN s.place IS NOT NULL THEN peer_title(s.place)
				ELSE 'this server' END),
			HINT = 'Repair its primary.';
	ELSIF (plan.asked).apply AND s.place IS NOT NULL AND (plan.described).read_only THEN
		RAISE read_only_sql_transaction USING
			MESSAGE = format('%s cannot be repaired: %s has default_transaction_read_only = on',
				s.relation, peer_title(s.place)),
			HINT = 'If it is to be changed, repair it as a role for which this setting is off.';
	ELSIF (plan.asked).as_replica AND (plan.described).deferrable_constraints <> '{}' THEN
		RAISE feature_not_supported USING
			MESSAGE = format('%s cannot be repaired as replication does', s.relation),
			DETAIL = format('Nothing would check deferrable constraints: %s.',
				array_to_string((plan.described).deferrable_constraints, ', ')),
			HINT = 'Repair it with as_replica => false and session_replication_role = origin, '
				'or make the constraints NOT DEFERRABLE.';
	END IF;
END
$$;

-- The plan with what both sides say of their relations: the target's description, and what the name
-- of the source means.  An error unless they are those that the plan compares, or if they are asked
-- again and do not say what the plan has.
-- DDL that a lock of the target does not keep away can change a schema's name, and what is fired by
-- a change of rows: ATTACH PARTITION brings triggers of the partition.
-- Relies on: catalogs, as of a statement that begins after all that has written.
CREATE FUNCTION repair_describe_sides(INOUT plan repair_plan, again boolean) RETURNS repair_plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s side := plan.target;
	source side := plan.source;
	places text[] := ARRAY[s.place, source.place];
	id text := format('pg_catalog.to_regclass(%L)', s.relation);
	source_id text := format('pg_catalog.to_regclass(%L)', source.relation);
	said text[] := ask_calls(places, format('repair_describe(%s)', id),
		format('repair_naming(%s)', source_id));
	fingerprints text[] := ask_values(places, ARRAY['SELECT ' || read_fingerprint_sql(s, id),
		'SELECT ' || read_fingerprint_sql(source, source_id)]);
	now repair_plan := plan;
BEGIN
	PERFORM require_side_described(s, fingerprints[1]),
		require_side_described(source, fingerprints[2]);
	now.described := jsonb_populate_record(NULL::repair_description, said[1]::jsonb);
	now.source_naming := said[2];
	IF again AND now.described IS DISTINCT FROM plan.described THEN
		PERFORM refuse_altered(s.relation, s.side);
	ELSIF again AND now.source_naming IS DISTINCT FROM plan.source_naming THEN
		PERFORM refuse_altered(source.relation, source.side);
	END IF;
	plan := now;
END
$$;

-- The plan of a repair of what a plan compares.
CREATE FUNCTION repair_plan_of(compared plan, asked repair_options) RETURNS repair_plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan;
BEGIN
	IF asked.winner = 'newest' THEN
		compared.stamp := repair_stamp(compared, asked.newest_by);
	END IF;
	compared.stamp_columns := CASE WHEN asked.winner = 'newest' AND asked.newest_by IS NULL
		THEN '{tableoid,ctid,xmin}' ELSE '{}' END;
	plan.compared := compared;
	plan.place := CASE asked.target_side WHEN 'here' THEN 1 ELSE 2 END;
	plan.target := (sides_of(compared))[plan.place];
	plan.source := (sides_of(compared))[3 - plan.place];
	plan.indexed := compared.is_unique AND NOT compared.by_hash;
	plan.links := ARRAY(SELECT l FROM unnest(compared.links) AS l
		WHERE l.source <> (plan.target).side);
	plan := repair_describe_sides(plan, false);
	asked.as_replica := asked.as_replica OR (plan.described).replica;
	plan.asked := asked;
	-- How statements on the target write the compared columns, in their order.  A literal has the
	-- target's type but not its modifier.  A cast to varchar(3) would cut a value that an
	-- assignment refuses.
	SELECT coalesce(array_agg(ROW(c.own, t.type, t.equal,
			CASE WHEN c.through IS NULL THEN t.list
				WHEN c.through LIKE '%[]' THEN 'pg_catalog.text[]' ELSE c.through || '[]' END,
			t.generated, t.always, n - 1, quote_ident(c.own),
			concat('::' || c.through, '::', t.type),
			NOT compared.whole_row AND c.name = ANY (iblt_field(compared.key))
			)::repair_column ORDER BY n), '{}')
	INTO plan.columns
	FROM own_names(plan.target, compared.columns) AS names,
	generate_subscripts(compared.columns, 1) AS n,
	LATERAL (SELECT ((compared.columns)[n]).name, names[n], text_type((compared.columns)[n])
		) AS c(name, own, through)
	LEFT JOIN unnest((plan.described).columns) AS t ON t.name = c.own;
	plan.secret := gen_random_uuid();
	PERFORM repair_check_target(plan);
	IF (plan.described).kind = 'a table that others inherit from' THEN
		PERFORM progress(true, format('only the own rows of %s are repaired, not those of tables '
			'that inherit from it', (plan.target).relation));
	END IF;
	RETURN plan;
END
$$;

-- The triggers of the target that fire for such actions, with their events, in words; NULL if
-- there are none.
CREATE FUNCTION repair_triggers(plan repair_plan, actions text[]) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT string_agg(format('%s (%s)', t.name, events.list), ', '
			ORDER BY t.name COLLATE "C")
	FROM jsonb_to_recordset((plan.described).triggers)
			AS t(name text, enabled text, events text[]), LATERAL (
		SELECT string_agg(e, ', ' ORDER BY n) FROM unnest(t.events) WITH ORDINALITY AS u(e, n)
		WHERE lower(e) = ANY (actions)) AS events(list)
	WHERE t.enabled IN ('A', CASE WHEN (plan.asked).as_replica THEN 'R' ELSE 'O' END)
		AND events.list <> '');

-- The number that a query gives on the target's side, with the rows t of the keys with these ids
-- between its parts, as a FROM clause; they have other columns than those compared if these are
-- named.  The query may read another relation.
-- A server without iblt takes no parameters, but hashes of keys.
CREATE FUNCTION repair_ask(plan repair_plan, ids text[], before text, after text,
	more text[] DEFAULT '{}', other text DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s side := plan.target;
	f finder := finder(plan.compared, s);
	keys text[] := keys_of_ids(plan.compared, ids);
	described described[] := reads(ARRAY[s], peers_known('bare'));
	answers bigint[];
BEGIN
	IF s.bare THEN
		f.matches := plain_matches_sql(plan.compared, quote_literal(keys), false);
	END IF;
	IF other IS NOT NULL THEN
		described[2] := described[1];
		described[2].relation := other;
		described[2].fingerprint := NULL;
	END IF;
	answers := ask_values(ARRAY[s.place], ARRAY[format('%s%s JOIN %s ON %s%s', before, f.keys,
		rows_sql(plan.compared, s, more), f.matches, after)], NULL,
		ROW('read_planned', keys, NULL, NULL, described)::reading);
	RETURN answers[1];
END
$$;
