
-- The whole audit

CREATE FUNCTION iblt_internal.audit_check(alone boolean, what jsonb, options jsonb) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (SELECT count(*) FROM jsonb_object_keys(what)) <> 1 OR what -> 'subscription' = 'null' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = CASE WHEN what ? 'subscription' THEN 'subscription must not be null'
				ELSE 'exactly one of tables, schema and publication must be given' END;
	ELSIF alone AND NOT what ? 'subscription' THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'peer must not be null',
			DETAIL = 'Each table is compared with the one of the same name in another database.',
			HINT = 'To compare two relations of this database, use iblt_compare.';
	ELSIF what -> 'tables' @> '[null]' THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'tables must not contain nulls';
	ELSIF current_setting('transaction_isolation') <> 'read committed' AND coalesce((options ->> 'recheck')::integer,
			CASE WHEN what ? 'subscription' THEN 1 ELSE 0 END) > 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction',
			MESSAGE = 'rows cannot be looked at again in a transaction that sees one snapshot',
			HINT = 'Use isolation level READ COMMITTED, or recheck => 0.';
	END IF;
	PERFORM iblt_internal.compare_check_options('pg_class', options);
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_check(boolean, jsonb, jsonb) IS 'an error for an audit that makes no sense';

CREATE FUNCTION iblt_internal.audit_peer(subscription text, peer text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	this oid := (SELECT oid FROM pg_database WHERE datname = current_database());
BEGIN
	IF NOT EXISTS (SELECT FROM pg_subscription s WHERE s.subname = subscription AND s.subdbid = this) THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = format('subscription "%s" does not exist in this database', subscription);
	ELSIF peer IS NOT NULL THEN
		RETURN peer;
	ELSIF NOT has_column_privilege('pg_catalog.pg_subscription', 'subconninfo', 'SELECT') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('permission denied to read the connection string of subscription "%s"', subscription),
			HINT = format('GRANT SELECT (subconninfo) ON pg_catalog.pg_subscription TO %I (it shows the passwords in there), '
				'or give peer: a foreign server or a connection string.', current_user);
	END IF;
	RETURN (SELECT s.subconninfo FROM pg_subscription s WHERE s.subname = subscription AND s.subdbid = this);
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_peer(text, text) IS 'how to reach the publisher of a subscription';

-- A wrong port or name would otherwise make an audit that finds all equal.
CREATE FUNCTION iblt_internal.audit_check_peer(conn text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	query text := 'SELECT json_build_array(pg_postmaster_start_time(), (SELECT oid FROM pg_database WHERE datname = current_database()))';
BEGIN
	IF iblt_internal.peer_ask(conn, 'here', query) = iblt_internal.peer_ask(conn, 'there', query) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'the peer is this database itself',
			HINT = 'See that the foreign server or the connection string leads to the other one.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_check_peer(text) IS 'an error if the peer is this database';

CREATE FUNCTION iblt_internal.audit_run(peer text, what jsonb, options jsonb) RETURNS iblt_internal.audit_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	conn text := 'iblt_' || gen_random_uuid();
	figures text := current_setting('iblt.compare_stats', true);
	items jsonb[];
	started timestamptz;
	result iblt_internal.audit_row;
	results iblt_internal.audit_row[] := '{}';
	alone boolean := peer IS NULL;
	secret boolean;
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	BEGIN
		PERFORM iblt_internal.audit_check(alone, what, options);
		IF what ? 'subscription' THEN
			peer := iblt_internal.audit_peer(what ->> 'subscription', peer);
		END IF;
		conn := iblt_internal.peer_connect(peer, conn, 'iblt_audit');
		PERFORM iblt_internal.audit_check_peer(conn);
		options := options || jsonb_build_object('peer_schema', iblt_internal.compare_describe_peer(conn, 'pg_catalog.pg_class') -> 'schema');
		items := iblt_internal.audit_list(conn, what, options);
		FOR n IN 1 .. cardinality(items) LOOP
			started := clock_timestamp();
			result := iblt_internal.audit_table(conn, peer, items[n], options);
			result.seconds := round(iblt_internal.compare_ms(started) / 1000, 3);
			PERFORM iblt_internal.compare_progress(options, format('table %s of %s, %s: %s%s', n, cardinality(items),
				coalesce(result.relation, result.peer_relation), result.status, coalesce(': ' || result.detail, '')));
			results[n] := result;
		END LOOP;
		PERFORM iblt_internal.peer_close(conn);
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
			detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		secret := iblt_internal.peer_is_string(peer);
		PERFORM iblt_internal.peer_fail(conn, secret, state, message, detail, hint);
		RAISE;
	END;
	-- iblt_compare_stats() speaks of the last iblt_compare
	PERFORM set_config('iblt.compare_stats', coalesce(figures, ''), false);
	RETURN results;
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_run(text, jsonb, jsonb) IS 'compares all tables of a list, over one connection';

CREATE FUNCTION iblt_audit(
	peer text,
	tables regclass[] DEFAULT NULL,
	schema text DEFAULT NULL,
	publication text DEFAULT NULL,
	max_differences integer DEFAULT 100000,
	cast_types boolean DEFAULT false,
	extra_columns text DEFAULT 'warn',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	trust_filters boolean DEFAULT false,
	progress boolean DEFAULT false)
RETURNS TABLE (relation text, peer_relation text, status text, detail text, sqlstate text, rows_here bigint, rows_there bigint,
	missing bigint, extra bigint, changed bigint, unconfirmed bigint, bytes bigint, seconds numeric)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	SET search_path = pg_catalog, pg_temp
	SET row_security = off
	SET enable_indexonlyscan = off
	SET array_nulls = on
	SET quote_all_identifiers = off
	SET jit = off
	SET DateStyle = 'ISO'
	SET IntervalStyle = 'postgres'
	SET TimeZone = 'UTC'
	SET extra_float_digits = 1
	SET bytea_output = 'hex'
	SET xmlbinary = 'base64'
	SET xmloption = 'content'
	SET lc_monetary = 'C'
	SET lc_numeric = 'C'
	SET lc_time = 'C'
	SET transform_null_equals = off
	SET standard_conforming_strings = on
	SET gin_fuzzy_search_limit = 0
AS $$
DECLARE
	results iblt_internal.audit_row[];
BEGIN
	results := iblt_internal.audit_run(peer,
		jsonb_strip_nulls(jsonb_build_object('schema', schema, 'publication', publication))
			|| CASE WHEN tables IS NULL THEN '{}' ELSE jsonb_build_object('tables', tables::oid[]) END,
		jsonb_strip_nulls(iblt_internal.compare_defaults() || jsonb_build_object('max_differences', max_differences,
			'cast_types', cast_types, 'extra_columns', extra_columns, 'recheck', recheck, 'timeout', timeout,
			'trust_filters', coalesce(trust_filters, false), 'progress', progress)));
	RETURN QUERY SELECT r.* FROM unnest(results) AS r;
END
$$;
COMMENT ON FUNCTION iblt_audit(text, regclass[], text, text, integer, boolean, text, integer, interval, boolean, boolean) IS
'compares many tables with those of a peer: one row a table, with its status';

CREATE FUNCTION iblt_audit_subscription(
	subscription text,
	peer text DEFAULT NULL,
	max_differences integer DEFAULT 100000,
	cast_types boolean DEFAULT false,
	extra_columns text DEFAULT 'warn',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	trust_filters boolean DEFAULT false,
	progress boolean DEFAULT false)
RETURNS TABLE (relation text, peer_relation text, status text, detail text, sqlstate text, rows_here bigint, rows_there bigint,
	missing bigint, extra bigint, changed bigint, unconfirmed bigint, bytes bigint, seconds numeric)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	SET search_path = pg_catalog, pg_temp
	SET row_security = off
	SET enable_indexonlyscan = off
	SET array_nulls = on
	SET quote_all_identifiers = off
	SET jit = off
	SET DateStyle = 'ISO'
	SET IntervalStyle = 'postgres'
	SET TimeZone = 'UTC'
	SET extra_float_digits = 1
	SET bytea_output = 'hex'
	SET xmlbinary = 'base64'
	SET xmloption = 'content'
	SET lc_monetary = 'C'
	SET lc_numeric = 'C'
	SET lc_time = 'C'
	SET transform_null_equals = off
	SET standard_conforming_strings = on
	SET gin_fuzzy_search_limit = 0
AS $$
DECLARE
	results iblt_internal.audit_row[];
BEGIN
	results := iblt_internal.audit_run(peer,
		jsonb_build_object('subscription', subscription),
		jsonb_strip_nulls(iblt_internal.compare_defaults() || jsonb_build_object('max_differences', max_differences,
			'cast_types', cast_types, 'extra_columns', extra_columns, 'recheck', recheck, 'timeout', timeout,
			'trust_filters', coalesce(trust_filters, false), 'progress', progress)));
	RETURN QUERY SELECT r.* FROM unnest(results) AS r;
END
$$;
COMMENT ON FUNCTION iblt_audit_subscription(text, text, integer, boolean, text, integer, interval, boolean, boolean) IS
'compares all tables of a subscription with those of its publisher: one row a table, with its status';
