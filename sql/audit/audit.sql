-- Audits -------------------------------------------------------------------------------
--
-- iblt_audit makes the list (list.sql), compares small tables together (small.sql), and all
-- that are not equal one after the other (table.sql).

-- The one of these that is not null, or the whole database, which schema may also say by '*'.
CREATE FUNCTION audit_make_target(tables regclass[], schema text, publication text,
	subscription text, peer_schema text DEFAULT NULL, here_tables text[] DEFAULT NULL)
RETURNS audit_target
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN ROW(CASE
			WHEN num_nonnulls(tables, here_tables, schema, publication, subscription) > 1 THEN NULL
			WHEN num_nonnulls(tables, here_tables) > 0 THEN 'tables'
			WHEN schema <> '*' THEN 'schema'
			WHEN publication IS NOT NULL THEN 'publication'
			WHEN subscription IS NOT NULL THEN 'subscription' ELSE 'database' END,
		coalesce(nullif(schema, '*'), publication, subscription), tables, here_tables,
		peer_schema)::audit_target;

-- The options of an audit.  Mappings of columns are an object from the names of tables to objects
-- with the arguments of iblt_compare.
CREATE FUNCTION audit_make_options(options options) RETURNS options
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
DECLARE
	mappings jsonb := options.mappings;
	twice boolean;
BEGIN
	IF jsonb_path_exists(mappings, 'strict $ ? (@.type() != "object")')
			OR jsonb_path_exists(mappings, 'strict $.* ? (@.type() != "object")')
			OR jsonb_path_exists(mappings, '$.*.keyvalue() ? (@.key != "peer_columns" && @.key '
				'!= "expressions" && @.key != "peer_expressions" && @.key != "exclude")')
			OR jsonb_path_exists(mappings, '$.*.keyvalue() ? (@.key == "exclude" && (@.value.type()'
				' != "array" || exists (@.value[*] ? (@.type() != "string"))))') THEN
		PERFORM refuse_early('mappings must be a JSON object of tables',
			'Write it as ''{"shop.items": {"peer_columns": {"price": "unit_price"}, '
			'"expressions": {"price": "round(price, 2)"}, "exclude": ["seen"]}}''. '
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
	options.mappings := (SELECT jsonb_object_agg((SELECT string_agg(quote_ident(part), '.')
				FROM unnest(parse_ident(key)) AS part), jsonb_build_object(
			'here', make_mapping(NULL, value -> 'expressions'), 'there', make_mapping(
				value -> 'peer_columns',
				coalesce(value -> 'peer_expressions', value -> 'expressions')),
			'exclude', value -> 'exclude'))
		FROM jsonb_each(mappings));
	RETURN options;
END
$$;

-- An error for arguments that do not fit; "alone" without a peer, "elsewhere" if no side or node is
-- this database.
CREATE FUNCTION audit_check(alone boolean, elsewhere boolean, target audit_target,
	options options, of_nodes boolean DEFAULT false) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	wrong record;
BEGIN
	SELECT w.* INTO wrong FROM (VALUES
		(of_nodes AND coalesce(target.kind, 'database') = 'database', '22023',
			'exactly one of tables and schema must be given', '', ''),
		(target.kind IS NULL, '22023',
			'at most one of tables, schema, publication and subscription can be given', '', ''),
		(target.peer_schema IS NOT NULL AND target.kind <> 'schema', '22023',
			'peer_schema can only be given with schema', '', ''),
		(elsewhere AND target.tables IS NOT NULL, '22023',
			'with here_peer, tables are named by here_tables and not by tables', '',
			'Give here_tables => ''{shop.items}''. They need not exist in this database.'),
		(NOT (elsewhere OR of_nodes) AND target.here_tables IS NOT NULL, '22023',
			'here_tables needs here_peer', '',
			'Give here_peer too, or name tables of this database in tables.'),
		(alone AND elsewhere AND target.kind = 'subscription', '22004', 'peer must not be null',
			'The connection string of a subscription may lead elsewhere from this server.',
			'Give the publisher as peer.'),
		(alone AND target.kind <> 'subscription', '22004', 'peer must not be null',
			'Each table is compared with the one of the same name in another database.',
			'Use iblt_compare for two relations of this database, or iblt_audit with peer_schema '
			'for two schemas.'),
		(array_position(target.tables, NULL) > 0 OR array_position(target.here_tables, NULL) > 0,
			'22004', 'tables must not contain nulls', '', ''),
		(coalesce(options.recheck, (of_nodes OR target.kind = 'subscription')::integer) > 0
			AND NOT elsewhere AND current_setting('transaction_isolation') !~ '^read', '25001',
			'cannot recheck differences in a REPEATABLE READ or SERIALIZABLE transaction', '',
			'Use isolation level READ COMMITTED, or recheck => 0.')
		) AS w(holds, state, message, detail, hint) WHERE w.holds LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = wrong.state, MESSAGE = wrong.message,
			DETAIL = wrong.detail, HINT = wrong.hint;
	END IF;
	PERFORM check_options('pg_class', options, of_nodes);
END
$$;

-- How to reach the publisher of a subscription of this database, which may have a foreign server
-- from PostgreSQL 19 on.  Before, subserver is the column of the line with VALUES.
CREATE FUNCTION audit_peer(subscription text, peer text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	this oid := (SELECT oid FROM pg_database WHERE datname = current_database());
	server text := (SELECT (SELECT f.srvname FROM pg_subscription s
			JOIN pg_foreign_server f ON f.oid = subserver
			WHERE s.subname = subscription AND s.subdbid = this)
		FROM (VALUES (NULL::oid)) AS older(subserver));
BEGIN
	IF NOT EXISTS (SELECT FROM pg_subscription s
			WHERE s.subname = subscription AND s.subdbid = this) THEN
		RAISE undefined_object USING
			MESSAGE = format('subscription "%s" does not exist in this database', subscription);
	ELSIF coalesce(peer, server) IS NOT NULL THEN
		RETURN coalesce(peer, server);
	ELSIF NOT has_column_privilege('pg_catalog.pg_subscription', 'subconninfo', 'SELECT') THEN
		RAISE insufficient_privilege USING
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

-- Both sides, or all nodes, or an error if two are one database, or a peer cannot talk to this one.
-- The first question to peers, which also checks their versions, is of a table that all have and
-- that has no key of names, whose order describe_order would plan a query for.
-- A wrong port or name of a server would otherwise make everything equal.  A label is the
-- application_name of peers.
CREATE FUNCTION audit_check_peers(conns text[], label text DEFAULT 'iblt_audit',
	nodes text[] DEFAULT '{here,there}') RETURNS side[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sides side[] := (describe_sides(conns,
		array_fill(text 'pg_catalog.pg_inherits', ARRAY[cardinality(conns)]), '{}', '{}', label,
		(SELECT bool_or(peer_is_bare(conn)) FROM unnest(conns) AS conn), nodes)).sides;
BEGIN
	PERFORM require_other_databases(sides);
	RETURN sides;
END
$$;

-- Makes the list, and compares one table after the other: the row of each.
CREATE FUNCTION audit_drive(a attempt, target audit_target, label text) RETURNS audit_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	of_nodes boolean := a.names IS NOT NULL;
	items audit_item[];
	equal audit_row[];		-- those that were compared together
	compared record;
	stuck text;
	result audit_row;
	rows audit_row[];
	e failure;
BEGIN
	a.options.label := label;	-- they are checked
	LOOP
		BEGIN
			a := begin_attempt(a, label);
			IF num_nonnulls(VARIADIC a.conns) > 0 THEN
				PERFORM audit_check_peers(a.conns, label, coalesce(a.names, '{here,there}'));
			END IF;
			EXIT;
		EXCEPTION WHEN @on_error@ THEN
			@take_failure@;
			a := begin_again(a, NULL, e);
			IF a.number IS NULL THEN
				RAISE;
			END IF;
		END;
	END LOOP;
	items := audit_list(a.conns, target, (a.options).mappings, of_nodes);
	FOR n IN 1 .. cardinality(items) LOOP
		IF n % 100 = 1 AND NOT of_nodes AND cardinality(items) > 1 THEN
			equal := audit_batch(a.conns, a.peers, items, n, 100, a.options);
		END IF;
		result := equal[n];
		IF result.status IS NULL THEN
			compared := audit_table(a, items[n], stuck);
			stuck := compared.stuck;
			result := compared.result;
		END IF;
		PERFORM progress((a.options).progress, format('table %s of %s, %s: %s%s', n,
			cardinality(items), coalesce(result.relation, result.peer_relation), result.status,
			': ' || result.detail));
		rows[n] := result;
	END LOOP;
	PERFORM peers_close(a.conns);
	RETURN rows;
END
$$;

CREATE FUNCTION @extschema@.iblt_audit(
	peer text DEFAULT NULL,
	tables regclass[] DEFAULT NULL,
	schema text DEFAULT NULL,
	publication text DEFAULT NULL,
	subscription text DEFAULT NULL,
	@iblt_compare: max_differences cast_types@
	extra_columns text DEFAULT 'error',
	@iblt_compare: recheck timeout seed@
	trust_filters boolean DEFAULT false,
	@iblt_compare: progress live method by_index@
	peer_schema text DEFAULT NULL,
	mappings jsonb DEFAULT NULL,
	here_peer text DEFAULT NULL,
	here_tables text[] DEFAULT NULL,
	rows anycompatible DEFAULT false)
RETURNS SETOF audit_line
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@driver a.conns; peers_secret(a.peers)@
AS $$
DECLARE
	target audit_target := audit_make_target(tables, schema, publication, subscription,
		peer_schema, here_tables);
	a attempt := first_attempt(ARRAY[here_peer, peer], audit_make_options(@arguments options@));
	kept jsonb;
BEGIN
	a.options.content := content_of(rows);
	-- without a peer, two schemas of this database
	PERFORM audit_check(peer IS NULL AND (here_peer IS NOT NULL
			OR nullif(peer_schema, schema) IS NULL), here_peer IS NOT NULL, target, a.options);
	IF target.kind = 'subscription' AND here_peer IS NULL THEN
		a.peers[2] := audit_peer(target.name, peer);
	END IF;
	a.conns := peer_conns(a.peers);
	kept := to_jsonb(audit_drive(a, target, 'iblt_audit'));
	PERFORM keep_stats('iblt_audit', kept);
	RETURN QUERY SELECT * FROM jsonb_populate_recordset(NULL::audit_line, kept);
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit IS
'compares many tables, or all of the database, with those of a peer, or of the publisher of a '
'subscription: one row a table, with its status';

CREATE FUNCTION @extschema@.iblt_audit_stats() RETURNS SETOF audit_row
	LANGUAGE sql STABLE PARALLEL RESTRICTED ROWS 100
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
	SELECT * FROM jsonb_populate_recordset(NULL::audit_row, kept_stats('iblt_audit'))
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_stats IS
'the tables of the last iblt_audit that finished in this session, with all that is known of each: '
'also the names on the peer, SQLSTATEs, bytes and times';
