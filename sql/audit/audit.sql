-- Audits -------------------------------------------------------------------------------
--
-- iblt_audit makes the list (list.sql), compares small tables together (small.sql), and all
-- that are not equal one after the other (table.sql).

-- The arguments

-- The one of these that is not null, or the whole database, which schema may also say by '*'.
CREATE FUNCTION audit_make_target(tables regclass[], schema text, publication text,
	subscription text, peer_schema text DEFAULT NULL, here_tables text[] DEFAULT NULL)
RETURNS audit_target
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
BEGIN
	RETURN ROW(CASE
			WHEN num_nonnulls(tables, here_tables, schema, publication, subscription) > 1 THEN NULL
			WHEN num_nonnulls(tables, here_tables) > 0 THEN 'tables'
			WHEN schema <> '*' THEN 'schema'
			WHEN publication IS NOT NULL THEN 'publication'
			WHEN subscription IS NOT NULL THEN 'subscription' ELSE 'database' END,
		coalesce(nullif(schema, '*'), publication, subscription), tables, here_tables,
		peer_schema)::audit_target;
END
$$;

-- The other arguments of an audit.  Mappings of columns are an object from the names of tables to
-- objects with the arguments of iblt_compare.
CREATE FUNCTION audit_make_options(compare options, trust_filters boolean, mappings jsonb)
RETURNS audit_options
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
DECLARE
	twice boolean;
BEGIN
	IF jsonb_path_exists(mappings, 'strict $ ? (@.type() != "object")')
			OR jsonb_path_exists(mappings, '$.* ? (@.type() != "object")')
			OR jsonb_path_exists(mappings, '$.*.keyvalue() ? (@.key != "peer_columns"
				&& @.key != "expressions" && @.key != "peer_expressions")') THEN
		PERFORM refuse_early('mappings must be a JSON object of tables',
			'Write it as ''{"shop.items": {"peer_columns": {"price": "unit_price"}, '
			'"expressions": {"price": "round(price, 2)"}}}''. '
			'peer_expressions may be there, too.');
	END IF;
	BEGIN
		twice := (SELECT count(DISTINCT parse_ident(key)) < count(*) FROM jsonb_each(mappings));
	EXCEPTION WHEN invalid_parameter_value THEN
		PERFORM refuse_early('mappings must name tables: ' || SQLERRM,
			'Write a table as ''shop.items'', and ''shop."Items"'' if it must be quoted.');
	END;
	IF twice THEN
		PERFORM refuse_early('mappings names a table twice', NULL);
	END IF;
	mappings := (SELECT jsonb_object_agg((SELECT string_agg(quote_ident(part), '.')
				FROM unnest(parse_ident(key)) AS part), jsonb_build_object(
			'here', make_mapping(NULL, value -> 'expressions'), 'there', make_mapping(
				value -> 'peer_columns',
				coalesce(value -> 'peer_expressions', value -> 'expressions'))))
		FROM jsonb_each(mappings));
	RETURN ROW(compare, coalesce(trust_filters, false), mappings)::audit_options;
END
$$;

-- An error for arguments that do not fit; "alone" without a peer, "elsewhere" with here.
CREATE FUNCTION audit_check(alone boolean, elsewhere boolean, target audit_target,
	options options) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	rounds integer := coalesce(options.recheck,
		CASE target.kind WHEN 'subscription' THEN 1 ELSE 0 END);
BEGIN
	IF target.kind IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'at most one of tables, schema, publication and subscription can be given';
	ELSIF target.peer_schema IS NOT NULL AND target.kind <> 'schema' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'peer_schema can only be given with schema';
	ELSIF elsewhere AND target.tables IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'with here_peer, tables are named by here_tables and not by tables',
			HINT = 'Give here_tables => ''{shop.items}''. They need not exist in this database.';
	ELSIF NOT elsewhere AND target.here_tables IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'here_tables needs here_peer',
			HINT = 'Give here_peer too, or name tables of this database in tables.';
	ELSIF alone AND elsewhere AND target.kind = 'subscription' THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
			MESSAGE = 'peer must not be null',
			DETAIL = 'The connection string of a subscription may lead elsewhere from this server.',
			HINT = 'Give the publisher as peer.';
	ELSIF alone AND target.kind <> 'subscription' THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
			MESSAGE = 'peer must not be null',
			DETAIL = 'Each table is compared with the one of the same name in another database.',
			HINT = 'Use iblt_compare for two relations of this database.';
	ELSIF array_position(target.tables, NULL) > 0
			OR array_position(target.here_tables, NULL) > 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
			MESSAGE = 'tables must not contain nulls';
	ELSIF rounds > 0 AND NOT elsewhere
			AND current_setting('transaction_isolation') !~ '^read' THEN
		RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction',
			MESSAGE = 'cannot recheck differences in a REPEATABLE READ or SERIALIZABLE transaction',
			HINT = 'Use isolation level READ COMMITTED, or recheck => 0.';
	END IF;
	PERFORM check_options('pg_class', options);
END
$$;

-- The peer

-- The foreign server of a subscription of this database, which one may have from PostgreSQL 19 on;
-- otherwise NULL.
CREATE FUNCTION audit_server(subscription text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	known name := (SELECT attname FROM pg_attribute WHERE attname = 'subserver'
		AND attrelid = 'pg_catalog.pg_subscription'::regclass);
	server text;
BEGIN
	IF known IS NOT NULL THEN
		EXECUTE format('SELECT f.srvname FROM pg_subscription s'
				' JOIN pg_foreign_server f ON f.oid = s.%I JOIN pg_database d'
				' ON d.oid = s.subdbid AND d.datname = current_database() WHERE s.subname = $1',
			known) INTO server USING subscription;
	END IF;
	RETURN server;
END
$$;

-- How to reach the publisher of a subscription of this database.
CREATE FUNCTION audit_peer(subscription text, peer text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	this oid := (SELECT oid FROM pg_database WHERE datname = current_database());
	server text := audit_server(subscription);
BEGIN
	IF NOT EXISTS (SELECT FROM pg_subscription s
			WHERE s.subname = subscription AND s.subdbid = this) THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = format('subscription "%s" does not exist in this database', subscription);
	ELSIF coalesce(peer, server) IS NOT NULL THEN
		RETURN coalesce(peer, server);
	ELSIF NOT has_column_privilege('pg_catalog.pg_subscription', 'subconninfo', 'SELECT') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('permission denied to read the connection string of subscription "%s"',
				subscription),
			HINT = format('GRANT SELECT (subconninfo) ON pg_catalog.pg_subscription TO %I '
				'(it shows the passwords in there), or give peer: a foreign server or a connection '
				'string.', current_user);
	END IF;
	RETURN (SELECT s.subconninfo FROM pg_subscription s
		WHERE s.subname = subscription AND s.subdbid = this);
END
$$;

-- Names for the connections to both sides; NULL for this side unless it is elsewhere.
CREATE FUNCTION audit_conns(elsewhere boolean) RETURNS text[]
	LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
	SELECT ARRAY[CASE WHEN elsewhere THEN 'iblt_' || gen_random_uuid() END,
		'iblt_' || gen_random_uuid()]
$$;

-- The error for sides that are one database.
CREATE FUNCTION refuse_one_database(conns text[]) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
		MESSAGE = CASE WHEN conns[1] IS NULL THEN 'the peer is this database itself'
			ELSE 'here and the peer are the same database' END,
		HINT = 'Check that the foreign server or the connection string leads to the other one.';
END
$$;

-- The first question to sides, for a table that all surely have; a label is the application_name
-- of peers.
CREATE FUNCTION audit_greet(conns text[], label text) RETURNS side[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	relations text[] := array_fill(text 'pg_catalog.pg_class', ARRAY[cardinality(conns)]);
	conn text;
BEGIN
	FOREACH conn IN ARRAY conns LOOP
		IF peer_is_bare(conn) THEN
			RETURN (plain_sides(conns, relations, '{}', '{}', label)).sides;
		END IF;
	END LOOP;
	RETURN describe_sides(conns, relations, '{}', false, label);
END
$$;

-- Both sides, or an error if they are one database, or a peer cannot talk to this one.
-- The first question to peers, which also checks their versions.  A wrong port or name
-- of a server would otherwise make everything equal.
CREATE FUNCTION audit_check_peers(conns text[]) RETURNS side[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sides side[] := audit_greet(conns, 'iblt_audit');
BEGIN
	IF sides[1].identity = sides[2].identity THEN
		PERFORM refuse_one_database(conns);
	END IF;
	RETURN sides;
END
$$;

CREATE FUNCTION @extschema@.iblt_audit(
	peer text DEFAULT NULL,
	tables regclass[] DEFAULT NULL,
	schema text DEFAULT NULL,
	publication text DEFAULT NULL,
	subscription text DEFAULT NULL,
	max_differences bigint DEFAULT 100000,
	cast_types boolean DEFAULT false,
	extra_columns text DEFAULT 'error',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	seed bigint DEFAULT NULL,
	trust_filters boolean DEFAULT false,
	progress boolean DEFAULT false,
	live text DEFAULT 'off',
	method text DEFAULT 'sketch',
	by_index boolean DEFAULT false,
	peer_schema text DEFAULT NULL,
	mappings jsonb DEFAULT NULL,
	here_peer text DEFAULT NULL,
	here_tables text[] DEFAULT NULL,
	rows anycompatible DEFAULT false)
RETURNS SETOF audit_line
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
AS $$
DECLARE
	peers text[] := ARRAY[here_peer, peer];
	conns text[] := audit_conns(here_peer IS NOT NULL);
	target audit_target := audit_make_target(tables, schema, publication, subscription,
		peer_schema, here_tables);
	options audit_options := audit_make_options(@arguments options@, trust_filters, mappings);
	items audit_item[];
	batch record;
	done integer := 0;
	started timestamptz;
	compared record;
	stuck text;
	result audit_row;
	results audit_row[] := '{}';
	kept jsonb;
	e failure;
BEGIN
	BEGIN
		options.compare.content := content_of(rows);
		PERFORM audit_check(peer IS NULL, here_peer IS NOT NULL, target, options.compare);
		IF target.kind = 'subscription' AND here_peer IS NULL THEN
			peers[2] := audit_peer(target.name, peer);
		END IF;
		conns := connect(peers, conns, (options.compare).timeout);
		options.compare.method := plain_method(conns, (options.compare).method);
		PERFORM audit_check_peers(conns);
		items := audit_list(conns, target, options.mappings);
		IF (options.compare).live <> 'off' AND (options.compare).method <> 'plain'
				AND options.mappings IS NULL AND target.kind IN ('publication', 'subscription') THEN
			items := audit_by_parent(conns, items);
		END IF;
		FOR n IN 1 .. cardinality(items) LOOP
			IF n > done THEN
				batch := audit_batch(conns, peers, items, n, options, 100);
				done := batch.last;
			END IF;
			result := batch.equal[n];
			IF result.status IS NULL THEN
				started := clock_timestamp();
				compared := audit_table(conns, peers, items[n], options, stuck);
				stuck := compared.stuck;
				result := compared.result;
				result.total_ms := ms(started);
			END IF;
			PERFORM progress((options.compare).progress, format(
				'table %s of %s, %s: %s%s', n, cardinality(items),
				coalesce(result.relation, result.peer_relation), result.status,
				': ' || result.detail));
			results[n] := result;
		END LOOP;
		PERFORM peers_close(conns);
		kept := to_jsonb(results);
		PERFORM keep_stats('iblt_audit', kept);
		RETURN QUERY SELECT * FROM jsonb_populate_recordset(NULL::audit_line, kept);
	EXCEPTION WHEN @on_any_error@ THEN
		@take_failure@;
		e := iblt_raise(peers_fail(conns, peers_secret(peers), e));
		RAISE;
	END;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit IS
'compares many tables, or all of the database, with those of a peer, or of the publisher of a '
'subscription: one row a table, with its status';

CREATE FUNCTION @extschema@.iblt_audit_stats() RETURNS SETOF audit_row
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED ROWS 100
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY SELECT * FROM jsonb_populate_recordset(NULL::audit_row,
		kept_stats('iblt_audit'));
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_stats IS
'the tables of the last iblt_audit that finished in this session, with all that is known of each: '
'also the names on the peer, SQLSTATEs, bytes and times';
