
-- One table

-- The subscriber holds rows of the filter only, and any other is to be found as
-- extra; unless another source may have put it there.
CREATE FUNCTION iblt_internal.audit_only_source(feeds jsonb, published jsonb) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_array_length(feeds) = 1
		AND EXISTS (SELECT FROM jsonb_array_elements_text(feeds -> 0 -> 'publications') AS p WHERE (published -> 'publications') ? p)
		AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(feeds -> 0 -> 'publications') AS p WHERE (published -> 'others') ? p)
$$;
COMMENT ON FUNCTION iblt_internal.audit_only_source(jsonb, jsonb) IS
'do all rows of a table come through the publications that are audited?';

CREATE FUNCTION iblt_internal.audit_quoted(names jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(format('"%s"', name), ', ' ORDER BY position)
	FROM jsonb_array_elements_text(names) WITH ORDINALITY AS a(name, position)
$$;
COMMENT ON FUNCTION iblt_internal.audit_quoted(jsonb) IS 'names for a message';

-- The filter as the peer tells it could be any SQL; those of this server hold
-- nothing but operators and functions of PostgreSQL's own.
CREATE FUNCTION iblt_internal.audit_check_filter(filter text, trusted boolean) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT trusted THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = 'rows here may be from elsewhere, and only the peer''s row filter tells which are its own',
			DETAIL = 'trust_filters => true would run this condition here: ' || filter;
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_check_filter(text, boolean) IS 'an error for a condition of the peer''s that may not be run here';

-- Which rows and columns of a published table are compared: item.options are
-- those of iblt_compare.  A generated column that is not published is computed
-- on the subscriber if it is one there, too.
CREATE FUNCTION iblt_internal.audit_scope(conn text, INOUT item jsonb, options jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	side text := item ->> 'subscriber';
	published jsonb := item -> 'published';
	filter text := published ->> 'filter';
	regclass text := format('(to_regclass(%L))', iblt_internal.audit_name(item));
	computed jsonb := '[]';
	feeds jsonb;
	excluded jsonb;
	alone boolean;
	compare jsonb := '{}';
	notes jsonb := coalesce(item -> 'notes', '[]');
BEGIN
	IF published -> 'unpublished' @> '[{"generated": true}]' THEN
		computed := iblt_internal.audit_ask(conn, side, options, 'audit_generated' || regclass);
	END IF;
	SELECT jsonb_agg(u -> 'name') INTO excluded FROM jsonb_array_elements(published -> 'unpublished') AS u
		WHERE NOT ((u ->> 'generated')::boolean AND computed ? (u ->> 'name'));
	IF excluded IS NOT NULL THEN
		compare := jsonb_build_object('exclude', excluded);
		notes := notes || jsonb_build_array('columns not published: ' || iblt_internal.audit_quoted(excluded));
	END IF;
	IF published IS NOT NULL AND published <> 'null' THEN
		feeds := iblt_internal.audit_ask(conn, side, options, 'audit_feeds' || regclass);
		alone := iblt_internal.audit_only_source(feeds, published);
		IF filter IS NOT NULL THEN
			PERFORM iblt_internal.audit_check_filter(filter, alone OR side = 'there' OR (options ->> 'trust_filters')::boolean);
			compare := compare || jsonb_build_object(CASE side WHEN 'here' THEN 'peer_condition' ELSE 'condition' END, filter)
				|| CASE WHEN alone THEN '{}' ELSE jsonb_build_object(CASE side WHEN 'here' THEN 'condition' ELSE 'peer_condition' END, filter) END;
			notes := notes || jsonb_build_array('row filter ' || filter || CASE WHEN alone THEN ''
				ELSE ' on both sides, since rows of the subscriber may be from elsewhere' END);
		END IF;
		IF jsonb_array_length(feeds) > 1 THEN
			notes := notes || jsonb_build_array('fed by subscriptions '
				|| iblt_internal.audit_quoted(jsonb_path_query_array(feeds, '$[*].subscription')));
		END IF;
	END IF;
	item := item || jsonb_build_object('options', compare, 'notes', notes);
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_scope(text, jsonb, jsonb) IS 'an item with the rows and columns that are to be compared';

-- A published column that the subscriber lacks stops replication.
CREATE FUNCTION iblt_internal.audit_check_columns(plan jsonb, subscriber text) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM iblt_internal.compare_refuse_names(ARRAY(SELECT name FROM jsonb_array_elements_text(plan -> 'extra') AS name
		WHERE NOT jsonb_path_query_array(plan -> subscriber -> 'columns', '$[*].name') ? name),
		CASE subscriber WHEN 'here' THEN 'published columns are not here: %s' ELSE 'published columns are not on the peer: %s' END,
		'Logical replication needs them on the subscriber.');
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_check_columns(jsonb, text) IS 'an error for published columns that are not on the subscriber';

-- One that leads to the other side's table would be equal to itself.
CREATE FUNCTION iblt_internal.audit_refuse_foreign(plan jsonb) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF plan -> 'here' ->> 'kind' = 'f' OR plan -> 'there' ->> 'kind' = 'f' THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
			MESSAGE = format('it is a foreign table %s, whose rows are elsewhere', CASE WHEN plan -> 'there' ->> 'kind' <> 'f' THEN 'here'
				WHEN plan -> 'here' ->> 'kind' = 'f' THEN 'on both sides' ELSE 'on the peer' END),
			DETAIL = 'given in the list "tables", it is compared all the same';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_refuse_foreign(jsonb) IS 'an error for a table that is a foreign table on a side';

-- Changes between the steps of iblt_compare: what would be a warning becomes a
-- note; without a subscription that runs nothing can be confirmed, so it is not
-- tried; and where a subscription is audited whose slot the peer does not show
-- (and which is no standby), rows are looked at again all the same.
CREATE FUNCTION iblt_internal.audit_plan(conn text, INOUT item jsonb, options jsonb, OUT plan jsonb) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	relation regclass := (item ->> 'relid')::oid;
	links jsonb;
BEGIN
	PERFORM iblt_internal.compare_check_options(relation, options);
	item := iblt_internal.audit_scope(conn, item, options);
	plan := iblt_internal.compare_prepare(conn, relation, NULL, options || (item -> 'options') || jsonb_build_object(
		'extra_columns', CASE options ->> 'extra_columns' WHEN 'error' THEN 'error' ELSE 'ignore' END,
		'name', iblt_internal.audit_name(item)));
	IF item -> 'listed' = 'true' THEN
		PERFORM iblt_internal.audit_refuse_foreign(plan);
	END IF;
	IF item ->> 'subscriber' IS NOT NULL THEN
		PERFORM iblt_internal.audit_check_columns(plan, item ->> 'subscriber');
	END IF;
	links := plan -> 'links';
	IF jsonb_path_exists(links, '$[*] ? (@.ready == false)') AND (plan ->> 'recheck')::integer > 0 THEN
		plan := plan || '{"recheck": 0, "unready": true}';
		item := item || '{"unready": true}';
	ELSIF links = '[]' AND options ->> 'recheck' IS NULL AND item ->> 'subscription' IS NOT NULL THEN
		plan := plan || jsonb_build_object('recheck', 3, 'versions',
			(plan -> 'here' ->> 'versions')::boolean AND (plan -> 'there' ->> 'versions')::boolean);
		item := item || jsonb_build_object('notes', item -> 'notes'
			|| '["the peer does not have the subscription''s slot, so it was not waited for replication"]');
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_plan(text, jsonb, jsonb) IS 'the plan of the comparison of one table, and what is to be said of it';

CREATE FUNCTION iblt_internal.audit_detail(plan jsonb, item jsonb, unconfirmed bigint) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT nullif(concat_ws('; ',
		CASE WHEN unconfirmed = 0 THEN NULL
			WHEN (item ->> 'unready')::boolean THEN 'differences cannot be confirmed: replication of this table is not ready'
				|| ' (the subscription is disabled or still copies it, or there is a standby between the sides)'
			ELSE unconfirmed || ' differences could not be confirmed: rows kept changing, or replication did not pass in time' END,
		'columns only here: ' || (SELECT iblt_internal.audit_quoted(jsonb_agg(name)) FROM jsonb_array_elements_text(plan -> 'extra') AS name
			WHERE jsonb_path_query_array(plan -> 'here' -> 'columns', '$[*].name') ? name),
		'columns only on the peer: ' || (SELECT iblt_internal.audit_quoted(jsonb_agg(name)) FROM jsonb_array_elements_text(plan -> 'extra') AS name
			WHERE NOT jsonb_path_query_array(plan -> 'here' -> 'columns', '$[*].name') ? name),
		(SELECT string_agg(note, '; ' ORDER BY position) FROM jsonb_array_elements_text(item -> 'notes') WITH ORDINALITY AS a(note, position))), '')
$$;
COMMENT ON FUNCTION iblt_internal.audit_detail(jsonb, jsonb, bigint) IS 'what there is to say of a table that was compared';

CREATE FUNCTION iblt_internal.audit_result(plan jsonb, item jsonb, differences iblt_internal.difference[]) RETURNS iblt_internal.audit_row
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	figures jsonb := current_setting('iblt.compare_stats')::jsonb;
	result iblt_internal.audit_row;
BEGIN
	SELECT count(*) FILTER (WHERE side = 'there'), count(*) FILTER (WHERE side = 'here'), count(*) FILTER (WHERE side = 'both'),
		count(*) FILTER (WHERE confirmed IS FALSE OR item -> 'unready' = 'true')
	INTO result.missing, result.extra, result.changed, result.unconfirmed FROM unnest(differences);
	result.relation := plan -> 'here' ->> 'relation';
	result.peer_relation := plan -> 'there' ->> 'relation';
	result.status := CASE cardinality(differences) WHEN 0 THEN 'equal'
		WHEN result.unconfirmed THEN 'not comparable' ELSE 'differs' END;
	result.detail := iblt_internal.audit_detail(plan, item, result.unconfirmed);
	result.rows_here := figures ->> 'rows_here';
	result.rows_there := figures ->> 'rows_there';
	result.bytes := (figures ->> 'bytes_sent')::bigint + (figures ->> 'bytes_received')::bigint;
	RETURN result;
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_result(jsonb, jsonb, iblt_internal.difference[]) IS 'the answer for a table that was compared';

-- Also for a table that there was no error of: its problem is known, then.
CREATE FUNCTION iblt_internal.audit_failed(item jsonb, state text, message text, detail text) RETURNS iblt_internal.audit_row
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result iblt_internal.audit_row;
	name text := iblt_internal.audit_name(item);
BEGIN
	result.relation := CASE WHEN item ->> 'relid' IS NOT NULL THEN name END;
	result.peer_relation := CASE WHEN state IS DISTINCT FROM '42P01' THEN name END;
	result.status := CASE
		WHEN state = 'IB002' THEN 'differs'
		-- rows in flight perhaps, no such table, no such column, types that differ, not a table, a filter not to be run, an altered table
		WHEN state IS NULL OR state IN ('IB003', 'IB004', '42P01', '42703', '42804', '42809', '0A000') THEN 'not comparable'
		ELSE 'error' END;
	result.detail := concat_ws('; ', message || coalesce(': ' || nullif(detail, ''), ''),
		(SELECT string_agg(note, '; ' ORDER BY position) FROM jsonb_array_elements_text(item -> 'notes') WITH ORDINALITY AS a(note, position)));
	result.sqlstate := state;
	RETURN result;
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_failed(jsonb, text, text, text) IS 'the answer for a table that was not compared';

CREATE FUNCTION iblt_internal.audit_connected(conn text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	names text[];
BEGIN
	EXECUTE format('SELECT %s.dblink_get_connections()', iblt_internal.peer_dblink()) INTO names;
	RETURN coalesce(conn = ANY (names), false);
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_connected(text) IS 'is there a connection of this name?';

-- Ready for the next table: figures that begin anew, and a connection, which an
-- error may have ended.
CREATE FUNCTION iblt_internal.audit_begin(conn text, peer text, item jsonb) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT iblt_internal.audit_connected(conn) THEN
		conn := iblt_internal.peer_connect(peer, conn, 'iblt_audit');
	END IF;
	PERFORM iblt_internal.peer_note('{}', true);
	PERFORM iblt_internal.peer_ask(conn, 'there', format('SELECT set_config(''application_name'', %L, false)',
		left('iblt_audit ' || iblt_internal.audit_name(item), 63)));
	RETURN conn;
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_begin(text, text, jsonb) IS 'prepares the connection for a table, and returns its name';

-- The table's work is always rolled back: that gives its locks back, which would
-- otherwise be kept until the last table was compared.  A cancel that was meant
-- for this side ends the audit; an error leaves the connection in an unknown
-- state, unless it was raised here between questions to the peer, as those for too
-- many differences are.
CREATE FUNCTION iblt_internal.audit_attempt(conn text, peer text, item jsonb, options jsonb, OUT result iblt_internal.audit_row,
	OUT plan jsonb, OUT state text, OUT message text) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	done boolean := false;
	detail text;
BEGIN
	BEGIN
		conn := iblt_internal.audit_begin(conn, peer, item);
		SELECT p.item, p.plan INTO item, plan FROM iblt_internal.audit_plan(conn, item, options) AS p;
		result := iblt_internal.audit_result(plan, item, iblt_internal.compare_run(conn, plan));
		done := true;
		RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'compared';
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
		IF state = '57014' AND message NOT LIKE 'on the peer: %' THEN
			RAISE;
		ELSIF done THEN
			state := NULL;
		ELSE
			result := iblt_internal.audit_failed(item, state, message, detail);
			IF state NOT IN ('IB002', 'IB003')
				AND (plan IS NOT NULL OR message LIKE 'on the peer: %' OR state NOT IN ('42P01', '42703', '42804')) THEN
				PERFORM iblt_internal.peer_close(conn);
			END IF;
		END IF;
	END;
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_attempt(text, text, jsonb, jsonb) IS
'compares one table; what goes wrong is in the answer, with the plan, the SQLSTATE and the message of an error';

CREATE FUNCTION iblt_internal.audit_table(conn text, peer text, item jsonb, options jsonb) RETURNS iblt_internal.audit_row
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	tried record;
	restart boolean;
	message text;
	detail text;
BEGIN
	IF item ->> 'problem' IS NOT NULL OR item ->> 'relid' IS NULL THEN
		RETURN iblt_internal.audit_failed(item, NULL, concat_ws('; ', item ->> 'problem',
			CASE WHEN item ->> 'relid' IS NULL THEN 'the table does not exist here' END), NULL);
	END IF;
	FOR attempt IN 1 .. 3 LOOP
		tried := iblt_internal.audit_attempt(conn, peer, item, options);
		EXIT WHEN tried.state IS NULL;
		restart := iblt_internal.compare_restart(conn, peer, tried.plan, attempt, tried.state, tried.message);
		EXIT WHEN NOT restart;
	END LOOP;
	RETURN tried.result;
EXCEPTION WHEN SQLSTATE 'IB004' THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RETURN iblt_internal.audit_failed(item, 'IB004', message, detail);
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_table(text, text, jsonb, jsonb) IS 'compares one table, again if it is altered meanwhile';
