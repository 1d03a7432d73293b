-- Audits -----------------------------------------------------------------------
--
-- Functions named iblt_audit_* are the steps of iblt_audit and
-- iblt_audit_subscription.  What is to be audited becomes a list of items
-- (jsonb), one a table, made before the first table is compared:
--	relid		the table here, if it exists
--	schema, name	of it on both sides
--	problem		why it is not to be compared, if so
--	notes		what the answer's detail says in any case
--	listed		true if it was found by its name, and not given as a table
--	published	what the publisher says of it (iblt_audit_published), if it is
--				of a publication; subscriber: the side that is not the publisher

CREATE TYPE iblt_audit_row AS (
	relation text,
	peer_relation text,
	status text,
	detail text,
	sqlstate text,
	rows_here bigint,
	rows_there bigint,
	missing bigint,
	extra bigint,
	changed bigint,
	unconfirmed bigint,
	bytes bigint,
	seconds numeric
);
COMMENT ON TYPE iblt_audit_row IS 'what an audit says of one table';

-- What a side has; each of these runs on both, with its own copy of the extension

-- A partition is covered by an ancestor in the same schema.
CREATE FUNCTION iblt_audit_tables(schema text) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_agg(c.relname ORDER BY c.relname), '[]')
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = schema AND c.relkind IN ('r', 'p')
	AND NOT (c.relispartition AND EXISTS (SELECT FROM pg_partition_ancestors(c.oid) AS a
		JOIN pg_class p ON p.oid = a.relid WHERE p.oid <> c.oid AND p.relnamespace = c.relnamespace))
$$;
COMMENT ON FUNCTION iblt_audit_tables(text) IS
'names of the tables of a schema, without partitions of tables that are in it, too';

-- Columns of the view that are not in all releases are looked for by name.  Of
-- several publications, each adds rows: without a filter in one, there is none.
-- "others" are publications that may add rows to those of the filter.  The
-- planner overrates the cost, and compiling the query would take a second.
CREATE FUNCTION iblt_audit_published(publications text[]) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
	SET jit = off
AS $$
	WITH every AS MATERIALIZED (
		SELECT c.oid, t.schemaname AS schema, t.tablename AS name, p.pubname, p.pubname = ANY (publications) AS asked,
			p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate,
			to_jsonb(t) ->> 'rowfilter' AS filter, nullif(to_jsonb(t) -> 'attnames', 'null') AS columns
		FROM pg_publication_tables t JOIN pg_publication p ON p.pubname = t.pubname
		JOIN pg_namespace n ON n.nspname = t.schemaname
		JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
	), unpublished AS (
		SELECT oid, jsonb_agg(jsonb_build_object('name', attname, 'generated', generated) ORDER BY attnum) AS columns
		FROM (SELECT e.oid, a.attname, a.attnum, a.attgenerated <> '' AS generated
			FROM every AS e JOIN pg_attribute a ON a.attrelid = e.oid AND a.attnum > 0 AND NOT a.attisdropped
			WHERE e.asked GROUP BY e.oid, a.attname, a.attnum, a.attgenerated
			HAVING NOT bool_or(coalesce(e.columns ? a.attname::text, a.attgenerated = ''))) AS u
		GROUP BY oid
	), one AS (
		SELECT oid, schema, name, concat_ws(', ',
				CASE WHEN NOT bool_or(pubinsert) THEN 'insert' END, CASE WHEN NOT bool_or(pubupdate) THEN 'update' END,
				CASE WHEN NOT bool_or(pubdelete) THEN 'delete' END, CASE WHEN NOT bool_or(pubtruncate) THEN 'truncate' END) AS lacks,
			CASE WHEN bool_and(filter IS NOT NULL) THEN string_agg(DISTINCT format('(%s)', filter), ' OR ') END AS filter
		FROM every WHERE asked GROUP BY oid, schema, name
	)
	SELECT jsonb_build_object(
		'publications', (SELECT coalesce(jsonb_agg(pubname), '[]') FROM pg_publication WHERE pubname = ANY (publications)),
		'tables', (SELECT coalesce(jsonb_agg(jsonb_build_object('schema', schema, 'name', name, 'filter', filter,
				'publications', publications, 'operations_left_out', lacks, 'unpublished', coalesce(u.columns, '[]'),
				'others', CASE WHEN filter IS NOT NULL THEN (SELECT coalesce(jsonb_agg(e.pubname), '[]') FROM every AS e
					WHERE e.oid = one.oid AND NOT e.asked OR e.oid <> one.oid AND e.oid IN (SELECT relid FROM pg_partition_tree(one.oid)
						UNION ALL SELECT relid FROM pg_partition_ancestors(one.oid))) END,
				'covered', EXISTS (SELECT FROM pg_partition_ancestors(one.oid) AS a
					WHERE a.relid <> one.oid AND a.relid IN (SELECT oid FROM every WHERE asked)))
				ORDER BY schema COLLATE "C", name COLLATE "C"), '[]')
			FROM one LEFT JOIN unpublished AS u USING (oid)))
$$;
COMMENT ON FUNCTION iblt_audit_published(text[]) IS
'the tables of publications, with row filter and columns and operations that are not published; which of the publications exist';

CREATE FUNCTION iblt_audit_feeds(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object('subscription', s.subname, 'publications', s.subpublications)), '[]')
	FROM pg_subscription_rel r
	-- not everybody may read pg_subscription.oid in all releases
	JOIN pg_stat_subscription st ON st.subid = r.srsubid
	JOIN pg_subscription s ON s.subname = st.subname
		AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
	WHERE r.srrelid IN (SELECT relation UNION ALL SELECT relid FROM pg_partition_tree(relation)
		UNION ALL SELECT relid FROM pg_partition_ancestors(relation))
$$;
COMMENT ON FUNCTION iblt_audit_feeds(regclass) IS 'the subscriptions of this database that feed a table';

CREATE FUNCTION iblt_audit_generated(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_agg(a.attname), '[]') FROM pg_attribute a
	WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> ''
$$;
COMMENT ON FUNCTION iblt_audit_generated(regclass) IS 'names of the generated columns';

CREATE FUNCTION iblt_audit_ask(conn text, side text, options jsonb, call text) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN @extschema@.iblt_peer_ask(conn, side, format('SELECT %s.%s',
		CASE side WHEN 'here' THEN '@extschema@' ELSE options ->> 'peer_schema' END, call));
END
$$;
COMMENT ON FUNCTION iblt_audit_ask(text, text, jsonb, text) IS 'what a function of iblt says on a side';

-- The list

CREATE FUNCTION iblt_audit_name(item jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT concat_ws('.', quote_ident(item ->> 'schema'), quote_ident(item ->> 'name'))
$$;
COMMENT ON FUNCTION iblt_audit_name(jsonb) IS 'the name of an item''s table, quoted';

CREATE FUNCTION iblt_audit_list_tables(tables regclass[]) RETURNS jsonb[]
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT array_agg(jsonb_build_object('relid', t.relid::oid, 'schema', n.nspname, 'name', coalesce(c.relname, t.relid::text))
		ORDER BY t.position)
	FROM (SELECT relid, min(position) AS position FROM unnest(tables) WITH ORDINALITY AS u(relid, position) GROUP BY relid) AS t
	LEFT JOIN pg_class c ON c.oid = t.relid LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
$$;
COMMENT ON FUNCTION iblt_audit_list_tables(regclass[]) IS 'the items of an audit of given tables';

-- A table there can be anything here that has its name, a partition or a view.
CREATE FUNCTION iblt_audit_list_schema(conn text, schema text, options jsonb) RETURNS jsonb[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mine jsonb := @extschema@.iblt_audit_tables(schema);
	theirs jsonb := @extschema@.iblt_audit_ask(conn, 'there', options, format('iblt_audit_tables(%L)', schema));
	namespace oid := (SELECT oid FROM pg_namespace WHERE nspname = schema);
BEGIN
	IF namespace IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_schema_name', MESSAGE = format('schema "%s" does not exist here', schema);
	END IF;
	RETURN (SELECT array_agg(jsonb_build_object('relid', c.oid, 'schema', schema, 'name', t.name, 'listed', true) ORDER BY t.name COLLATE "C")
		FROM (SELECT jsonb_array_elements_text(mine) UNION SELECT jsonb_array_elements_text(theirs)) AS t(name)
		LEFT JOIN pg_class c ON c.relnamespace = namespace AND c.relname = t.name);
END
$$;
COMMENT ON FUNCTION iblt_audit_list_schema(text, text, jsonb) IS
'the items of an audit of a schema: tables of either side';

CREATE FUNCTION iblt_audit_notes(published jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN published ->> 'operations_left_out' <> ''
		THEN jsonb_build_array('not published: ' || (published ->> 'operations_left_out')) ELSE '[]' END
$$;
COMMENT ON FUNCTION iblt_audit_notes(jsonb) IS 'what is to be known of a published table';

-- Where each side has a publication of the name (both publish to each other, or it
-- came with a dump), no table of either may be passed over.
CREATE FUNCTION iblt_audit_twofold_problem(mine jsonb, theirs jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE
		WHEN mine IS NULL THEN 'only the publication of this name on the peer has this table, and not the one here'
		WHEN theirs IS NULL THEN 'only the publication of this name here has this table, and not the one on the peer'
		WHEN mine -> 'filter' <> theirs -> 'filter' OR mine -> 'unpublished' <> theirs -> 'unpublished'
			THEN 'the publications of this name here and on the peer differ in the rows or columns of this table' END
$$;
COMMENT ON FUNCTION iblt_audit_twofold_problem(jsonb, jsonb) IS
'what forbids to compare a table by publications of one name on both sides, or NULL';

CREATE FUNCTION iblt_audit_list_publication(conn text, publication text, options jsonb) RETURNS jsonb[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mine jsonb := @extschema@.iblt_audit_published(ARRAY[publication]);
	theirs jsonb := @extschema@.iblt_audit_ask(conn, 'there', options, format('iblt_audit_published(ARRAY[%L])', publication));
	subscriber text := CASE mine -> 'publications' WHEN '[]' THEN 'here' ELSE 'there' END;
	twofold boolean := mine -> 'publications' <> '[]' AND theirs -> 'publications' <> '[]';
BEGIN
	IF mine -> 'publications' = '[]' AND theirs -> 'publications' = '[]' THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = format('publication "%s" exists neither here nor on the peer', publication);
	END IF;
	RETURN (SELECT array_agg(jsonb_build_object('relid', c.oid, 'schema', schema, 'name', name,
			'problem', CASE WHEN twofold THEN @extschema@.iblt_audit_twofold_problem(h.t, p.t) END,
			'published', coalesce(h.t, p.t), 'subscriber', subscriber, 'listed', true,
			'notes', @extschema@.iblt_audit_notes(coalesce(h.t, p.t))) ORDER BY schema COLLATE "C", name COLLATE "C")
		FROM (SELECT t ->> 'schema' AS schema, t ->> 'name' AS name, t FROM jsonb_array_elements(mine -> 'tables') AS t) AS h
		FULL JOIN (SELECT t ->> 'schema' AS schema, t ->> 'name' AS name, t FROM jsonb_array_elements(theirs -> 'tables') AS t) AS p
			USING (schema, name)
		LEFT JOIN pg_namespace n ON n.nspname = schema
		LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = name);
END
$$;
COMMENT ON FUNCTION iblt_audit_list_publication(text, text, jsonb) IS 'the items of an audit of a publication, of either side';

CREATE FUNCTION iblt_audit_subscribed_problem(subscription text, subscribed boolean, published boolean, state text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE
		WHEN NOT subscribed THEN format('published, but not subscribed: ALTER SUBSCRIPTION %I REFRESH PUBLICATION', subscription)
		WHEN NOT published THEN format('subscribed, but not published by the peer (any more): ALTER SUBSCRIPTION %I REFRESH PUBLICATION', subscription)
		WHEN state <> 'r' THEN format('the subscription is not ready for this table: state "%s", %s', state, CASE state
			WHEN 'i' THEN 'not copied yet' WHEN 'd' THEN 'it is being copied' WHEN 'f' THEN 'it has been copied'
			ELSE 'it has been copied and catches up' END) END
$$;
COMMENT ON FUNCTION iblt_audit_subscribed_problem(text, boolean, boolean, text) IS
'why a table of a subscription cannot be compared, or NULL';

CREATE FUNCTION iblt_audit_list_subscription(conn text, subscription text, options jsonb) RETURNS jsonb[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	names text[];
	enabled boolean;
	found jsonb;
	absent text;
BEGIN
	SELECT s.subpublications, s.subenabled INTO names, enabled FROM pg_subscription s
		WHERE s.subname = subscription AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database());
	found := @extschema@.iblt_audit_ask(conn, 'there', options, format('iblt_audit_published(%L)', names));
	absent := (SELECT string_agg(format('publication "%s" does not exist on the peer', name), '; ')
		FROM unnest(names) AS name WHERE NOT (found -> 'publications') ? name);
	RETURN (
		WITH published AS (
			SELECT t ->> 'schema' AS schema, t ->> 'name' AS name, t FROM jsonb_array_elements(found -> 'tables') AS t
		), subscribed AS (
			SELECT n.nspname::text AS schema, c.relname::text AS name, r.srrelid, r.srsubstate::text AS state
			FROM pg_subscription_rel r JOIN pg_class c ON c.oid = r.srrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE r.srsubid IN (SELECT st.subid FROM pg_stat_subscription st WHERE st.subname = subscription)
		)
		SELECT array_agg(jsonb_build_object('relid', coalesce(s.srrelid, c.oid), 'schema', schema, 'name', name,
			'problem', @extschema@.iblt_audit_subscribed_problem(subscription, s.srrelid IS NOT NULL, p.t IS NOT NULL, s.state),
			'published', p.t, 'subscriber', 'here', 'subscription', subscription,
			'notes', @extschema@.iblt_audit_notes(p.t) || CASE WHEN enabled THEN '[]' ELSE '["the subscription is disabled"]' END::jsonb
				|| CASE WHEN absent IS NULL THEN '[]' ELSE jsonb_build_array(absent) END)
			ORDER BY schema COLLATE "C", name COLLATE "C")
		FROM published AS p FULL JOIN subscribed AS s USING (schema, name)
		LEFT JOIN pg_namespace n ON n.nspname = schema
		LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = name
		-- its root is published by another of the publications
		WHERE s.srrelid IS NOT NULL OR NOT (p.t ->> 'covered')::boolean);
END
$$;
COMMENT ON FUNCTION iblt_audit_list_subscription(text, text, jsonb) IS
'the items of an audit of a subscription: tables that are subscribed here or published there';

CREATE FUNCTION iblt_audit_list(conn text, what jsonb, options jsonb) RETURNS jsonb[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kind text := (SELECT jsonb_object_keys(what));
	items jsonb[] := CASE kind
		WHEN 'tables' THEN @extschema@.iblt_audit_list_tables(ARRAY(SELECT t::oid::regclass
			FROM jsonb_array_elements_text(what -> 'tables') WITH ORDINALITY AS a(t, position) ORDER BY position))
		WHEN 'schema' THEN @extschema@.iblt_audit_list_schema(conn, what ->> kind, options)
		WHEN 'publication' THEN @extschema@.iblt_audit_list_publication(conn, what ->> kind, options)
		WHEN 'subscription' THEN @extschema@.iblt_audit_list_subscription(conn, what ->> kind, options) END;
BEGIN
	IF items IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'no_data_found',
			MESSAGE = 'there are no tables to audit' || CASE kind WHEN 'tables' THEN '' ELSE format(' in %s "%s"', kind, what ->> kind) END,
			DETAIL = 'An answer without tables would read as if all were equal.';
	END IF;
	RETURN items;
END
$$;
COMMENT ON FUNCTION iblt_audit_list(text, jsonb, jsonb) IS 'the items of an audit; an error if there are none';

-- One table

-- The subscriber holds rows of the filter only, and any other is to be found as
-- extra; unless another source may have put it there.
CREATE FUNCTION iblt_audit_only_source(feeds jsonb, published jsonb) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_array_length(feeds) = 1
		AND EXISTS (SELECT FROM jsonb_array_elements_text(feeds -> 0 -> 'publications') AS p WHERE (published -> 'publications') ? p)
		AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(feeds -> 0 -> 'publications') AS p WHERE (published -> 'others') ? p)
$$;
COMMENT ON FUNCTION iblt_audit_only_source(jsonb, jsonb) IS
'do all rows of a table come through the publications that are audited?';

CREATE FUNCTION iblt_audit_quoted(names jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(format('"%s"', name), ', ' ORDER BY position)
	FROM jsonb_array_elements_text(names) WITH ORDINALITY AS a(name, position)
$$;
COMMENT ON FUNCTION iblt_audit_quoted(jsonb) IS 'names for a message';

-- The filter as the peer tells it could be any SQL; those of this server hold
-- nothing but operators and functions of PostgreSQL's own.
CREATE FUNCTION iblt_audit_check_filter(filter text, trusted boolean) RETURNS void
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
COMMENT ON FUNCTION iblt_audit_check_filter(text, boolean) IS 'an error for a condition of the peer''s that may not be run here';

-- Which rows and columns of a published table are compared: item.options are
-- those of iblt_compare.  A generated column that is not published is computed
-- on the subscriber if it is one there, too.
CREATE FUNCTION iblt_audit_scope(conn text, INOUT item jsonb, options jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	side text := item ->> 'subscriber';
	published jsonb := item -> 'published';
	filter text := published ->> 'filter';
	regclass text := format('(to_regclass(%L))', @extschema@.iblt_audit_name(item));
	computed jsonb := '[]';
	feeds jsonb;
	excluded jsonb;
	alone boolean;
	compare jsonb := '{}';
	notes jsonb := coalesce(item -> 'notes', '[]');
BEGIN
	IF published -> 'unpublished' @> '[{"generated": true}]' THEN
		computed := @extschema@.iblt_audit_ask(conn, side, options, 'iblt_audit_generated' || regclass);
	END IF;
	SELECT jsonb_agg(u -> 'name') INTO excluded FROM jsonb_array_elements(published -> 'unpublished') AS u
		WHERE NOT ((u ->> 'generated')::boolean AND computed ? (u ->> 'name'));
	IF excluded IS NOT NULL THEN
		compare := jsonb_build_object('exclude', excluded);
		notes := notes || jsonb_build_array('columns not published: ' || @extschema@.iblt_audit_quoted(excluded));
	END IF;
	IF published IS NOT NULL AND published <> 'null' THEN
		feeds := @extschema@.iblt_audit_ask(conn, side, options, 'iblt_audit_feeds' || regclass);
		alone := @extschema@.iblt_audit_only_source(feeds, published);
		IF filter IS NOT NULL THEN
			PERFORM @extschema@.iblt_audit_check_filter(filter, alone OR side = 'there' OR (options ->> 'trust_filters')::boolean);
			compare := compare || jsonb_build_object(CASE side WHEN 'here' THEN 'peer_condition' ELSE 'condition' END, filter)
				|| CASE WHEN alone THEN '{}' ELSE jsonb_build_object(CASE side WHEN 'here' THEN 'condition' ELSE 'peer_condition' END, filter) END;
			notes := notes || jsonb_build_array('row filter ' || filter || CASE WHEN alone THEN ''
				ELSE ' on both sides, since rows of the subscriber may be from elsewhere' END);
		END IF;
		IF jsonb_array_length(feeds) > 1 THEN
			notes := notes || jsonb_build_array('fed by subscriptions '
				|| @extschema@.iblt_audit_quoted(jsonb_path_query_array(feeds, '$[*].subscription')));
		END IF;
	END IF;
	item := item || jsonb_build_object('options', compare, 'notes', notes);
END
$$;
COMMENT ON FUNCTION iblt_audit_scope(text, jsonb, jsonb) IS 'an item with the rows and columns that are to be compared';

-- A published column that the subscriber lacks stops replication.
CREATE FUNCTION iblt_audit_check_columns(plan jsonb, subscriber text) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM @extschema@.iblt_compare_refuse_names(ARRAY(SELECT name FROM jsonb_array_elements_text(plan -> 'extra') AS name
		WHERE NOT jsonb_path_query_array(plan -> subscriber -> 'columns', '$[*].name') ? name),
		CASE subscriber WHEN 'here' THEN 'published columns are not here: %s' ELSE 'published columns are not on the peer: %s' END,
		'Logical replication needs them on the subscriber.');
END
$$;
COMMENT ON FUNCTION iblt_audit_check_columns(jsonb, text) IS 'an error for published columns that are not on the subscriber';

-- One that leads to the other side's table would be equal to itself.
CREATE FUNCTION iblt_audit_refuse_foreign(plan jsonb) RETURNS void
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
COMMENT ON FUNCTION iblt_audit_refuse_foreign(jsonb) IS 'an error for a table that is a foreign table on a side';

-- Changes between the steps of iblt_compare: what would be a warning becomes a
-- note; without a subscription that runs nothing can be confirmed, so it is not
-- tried; and where a subscription is audited whose slot the peer does not show
-- (and which is no standby), rows are looked at again all the same.
CREATE FUNCTION iblt_audit_plan(conn text, INOUT item jsonb, options jsonb, OUT plan jsonb) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	relation regclass := (item ->> 'relid')::oid;
	links jsonb;
BEGIN
	PERFORM @extschema@.iblt_compare_check_options(relation, options);
	item := @extschema@.iblt_audit_scope(conn, item, options);
	plan := @extschema@.iblt_compare_prepare(conn, relation, NULL, options || (item -> 'options') || jsonb_build_object(
		'extra_columns', CASE options ->> 'extra_columns' WHEN 'error' THEN 'error' ELSE 'ignore' END,
		'name', @extschema@.iblt_audit_name(item)));
	IF item -> 'listed' = 'true' THEN
		PERFORM @extschema@.iblt_audit_refuse_foreign(plan);
	END IF;
	IF item ->> 'subscriber' IS NOT NULL THEN
		PERFORM @extschema@.iblt_audit_check_columns(plan, item ->> 'subscriber');
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
COMMENT ON FUNCTION iblt_audit_plan(text, jsonb, jsonb) IS 'the plan of the comparison of one table, and what is to be said of it';

CREATE FUNCTION iblt_audit_detail(plan jsonb, item jsonb, unconfirmed bigint) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT nullif(concat_ws('; ',
		CASE WHEN unconfirmed = 0 THEN NULL
			WHEN (item ->> 'unready')::boolean THEN 'differences cannot be confirmed: replication of this table is not ready'
				|| ' (the subscription is disabled or still copies it, or there is a standby between the sides)'
			ELSE unconfirmed || ' differences could not be confirmed: rows kept changing, or replication did not pass in time' END,
		'columns only here: ' || (SELECT @extschema@.iblt_audit_quoted(jsonb_agg(name)) FROM jsonb_array_elements_text(plan -> 'extra') AS name
			WHERE jsonb_path_query_array(plan -> 'here' -> 'columns', '$[*].name') ? name),
		'columns only on the peer: ' || (SELECT @extschema@.iblt_audit_quoted(jsonb_agg(name)) FROM jsonb_array_elements_text(plan -> 'extra') AS name
			WHERE NOT jsonb_path_query_array(plan -> 'here' -> 'columns', '$[*].name') ? name),
		(SELECT string_agg(note, '; ' ORDER BY position) FROM jsonb_array_elements_text(item -> 'notes') WITH ORDINALITY AS a(note, position))), '')
$$;
COMMENT ON FUNCTION iblt_audit_detail(jsonb, jsonb, bigint) IS 'what there is to say of a table that was compared';

CREATE FUNCTION iblt_audit_result(plan jsonb, item jsonb, differences @extschema@.iblt_difference[]) RETURNS @extschema@.iblt_audit_row
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	figures jsonb := current_setting('iblt.compare_stats')::jsonb;
	result @extschema@.iblt_audit_row;
BEGIN
	SELECT count(*) FILTER (WHERE side = 'there'), count(*) FILTER (WHERE side = 'here'), count(*) FILTER (WHERE side = 'both'),
		count(*) FILTER (WHERE confirmed IS FALSE OR item -> 'unready' = 'true')
	INTO result.missing, result.extra, result.changed, result.unconfirmed FROM unnest(differences);
	result.relation := plan -> 'here' ->> 'relation';
	result.peer_relation := plan -> 'there' ->> 'relation';
	result.status := CASE cardinality(differences) WHEN 0 THEN 'equal'
		WHEN result.unconfirmed THEN 'not comparable' ELSE 'differs' END;
	result.detail := @extschema@.iblt_audit_detail(plan, item, result.unconfirmed);
	result.rows_here := figures ->> 'rows_here';
	result.rows_there := figures ->> 'rows_there';
	result.bytes := (figures ->> 'bytes_sent')::bigint + (figures ->> 'bytes_received')::bigint;
	RETURN result;
END
$$;
COMMENT ON FUNCTION iblt_audit_result(jsonb, jsonb, iblt_difference[]) IS 'the answer for a table that was compared';

-- Also for a table that there was no error of: its problem is known, then.
CREATE FUNCTION iblt_audit_failed(item jsonb, state text, message text, detail text) RETURNS @extschema@.iblt_audit_row
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result @extschema@.iblt_audit_row;
	name text := @extschema@.iblt_audit_name(item);
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
COMMENT ON FUNCTION iblt_audit_failed(jsonb, text, text, text) IS 'the answer for a table that was not compared';

CREATE FUNCTION iblt_audit_connected(conn text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	names text[];
BEGIN
	EXECUTE format('SELECT %s.dblink_get_connections()', @extschema@.iblt_peer_dblink()) INTO names;
	RETURN coalesce(conn = ANY (names), false);
END
$$;
COMMENT ON FUNCTION iblt_audit_connected(text) IS 'is there a connection of this name?';

-- Ready for the next table: figures that begin anew, and a connection, which an
-- error may have ended.
CREATE FUNCTION iblt_audit_begin(conn text, peer text, item jsonb) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT @extschema@.iblt_audit_connected(conn) THEN
		conn := @extschema@.iblt_peer_connect(peer, conn, 'iblt_audit');
	END IF;
	PERFORM @extschema@.iblt_peer_note('{}', true);
	PERFORM @extschema@.iblt_peer_ask(conn, 'there', format('SELECT set_config(''application_name'', %L, false)',
		left('iblt_audit ' || @extschema@.iblt_audit_name(item), 63)));
	RETURN conn;
END
$$;
COMMENT ON FUNCTION iblt_audit_begin(text, text, jsonb) IS 'prepares the connection for a table, and returns its name';

-- The table's work is always rolled back: that gives its locks back, which would
-- otherwise be kept until the last table was compared.  A cancel that was meant
-- for this side ends the audit; an error leaves the connection in an unknown
-- state, unless it was raised here between questions to the peer, as those for too
-- many differences are.
CREATE FUNCTION iblt_audit_attempt(conn text, peer text, item jsonb, options jsonb, OUT result @extschema@.iblt_audit_row,
	OUT plan jsonb, OUT state text, OUT message text) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	done boolean := false;
	detail text;
BEGIN
	BEGIN
		conn := @extschema@.iblt_audit_begin(conn, peer, item);
		SELECT p.item, p.plan INTO item, plan FROM @extschema@.iblt_audit_plan(conn, item, options) AS p;
		result := @extschema@.iblt_audit_result(plan, item, @extschema@.iblt_compare_run(conn, plan));
		done := true;
		RAISE EXCEPTION USING ERRCODE = 'IB000', MESSAGE = 'compared';
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
		IF state = '57014' AND message NOT LIKE 'on the peer: %' THEN
			RAISE;
		ELSIF done THEN
			state := NULL;
		ELSE
			result := @extschema@.iblt_audit_failed(item, state, message, detail);
			IF state NOT IN ('IB002', 'IB003')
				AND (plan IS NOT NULL OR message LIKE 'on the peer: %' OR state NOT IN ('42P01', '42703', '42804')) THEN
				PERFORM @extschema@.iblt_peer_close(conn);
			END IF;
		END IF;
	END;
END
$$;
COMMENT ON FUNCTION iblt_audit_attempt(text, text, jsonb, jsonb) IS
'compares one table; what goes wrong is in the answer, with the plan, the SQLSTATE and the message of an error';

CREATE FUNCTION iblt_audit_table(conn text, peer text, item jsonb, options jsonb) RETURNS @extschema@.iblt_audit_row
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
		RETURN @extschema@.iblt_audit_failed(item, NULL, concat_ws('; ', item ->> 'problem',
			CASE WHEN item ->> 'relid' IS NULL THEN 'the table does not exist here' END), NULL);
	END IF;
	FOR attempt IN 1 .. 3 LOOP
		tried := @extschema@.iblt_audit_attempt(conn, peer, item, options);
		EXIT WHEN tried.state IS NULL;
		restart := @extschema@.iblt_compare_restart(conn, peer, tried.plan, attempt, tried.state, tried.message);
		EXIT WHEN NOT restart;
	END LOOP;
	RETURN tried.result;
EXCEPTION WHEN SQLSTATE 'IB004' THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RETURN @extschema@.iblt_audit_failed(item, 'IB004', message, detail);
END
$$;
COMMENT ON FUNCTION iblt_audit_table(text, text, jsonb, jsonb) IS 'compares one table, again if it is altered meanwhile';

-- The whole audit

CREATE FUNCTION iblt_audit_check(alone boolean, what jsonb, options jsonb) RETURNS void
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
	PERFORM @extschema@.iblt_compare_check_options('pg_class', options);
END
$$;
COMMENT ON FUNCTION iblt_audit_check(boolean, jsonb, jsonb) IS 'an error for an audit that makes no sense';

CREATE FUNCTION iblt_audit_peer(subscription text, peer text) RETURNS text
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
COMMENT ON FUNCTION iblt_audit_peer(text, text) IS 'how to reach the publisher of a subscription';

-- A wrong port or name would otherwise make an audit that finds all equal.
CREATE FUNCTION iblt_audit_check_peer(conn text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	query text := 'SELECT json_build_array(pg_postmaster_start_time(), (SELECT oid FROM pg_database WHERE datname = current_database()))';
BEGIN
	IF @extschema@.iblt_peer_ask(conn, 'here', query) = @extschema@.iblt_peer_ask(conn, 'there', query) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'the peer is this database itself',
			HINT = 'See that the foreign server or the connection string leads to the other one.';
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_audit_check_peer(text) IS 'an error if the peer is this database';

CREATE FUNCTION iblt_audit_run(peer text, what jsonb, options jsonb) RETURNS @extschema@.iblt_audit_row[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	conn text := 'iblt_' || gen_random_uuid();
	figures text := current_setting('iblt.compare_stats', true);
	items jsonb[];
	started timestamptz;
	result @extschema@.iblt_audit_row;
	results @extschema@.iblt_audit_row[] := '{}';
	alone boolean := peer IS NULL;
	secret boolean;
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	BEGIN
		PERFORM @extschema@.iblt_audit_check(alone, what, options);
		IF what ? 'subscription' THEN
			peer := @extschema@.iblt_audit_peer(what ->> 'subscription', peer);
		END IF;
		conn := @extschema@.iblt_peer_connect(peer, conn, 'iblt_audit');
		PERFORM @extschema@.iblt_audit_check_peer(conn);
		options := options || jsonb_build_object('peer_schema', @extschema@.iblt_compare_describe_peer(conn, 'pg_catalog.pg_class') -> 'schema');
		items := @extschema@.iblt_audit_list(conn, what, options);
		FOR n IN 1 .. cardinality(items) LOOP
			started := clock_timestamp();
			result := @extschema@.iblt_audit_table(conn, peer, items[n], options);
			result.seconds := round(@extschema@.iblt_compare_ms(started) / 1000, 3);
			PERFORM @extschema@.iblt_compare_progress(options, format('table %s of %s, %s: %s%s', n, cardinality(items),
				coalesce(result.relation, result.peer_relation), result.status, coalesce(': ' || result.detail, '')));
			results[n] := result;
		END LOOP;
		PERFORM @extschema@.iblt_peer_close(conn);
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
			detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		secret := @extschema@.iblt_peer_is_string(peer);
		PERFORM @extschema@.iblt_peer_fail(conn, secret, state, message, detail, hint);
		RAISE;
	END;
	-- iblt_compare_stats() speaks of the last iblt_compare
	PERFORM set_config('iblt.compare_stats', coalesce(figures, ''), false);
	RETURN results;
END
$$;
COMMENT ON FUNCTION iblt_audit_run(text, jsonb, jsonb) IS 'compares all tables of a list, over one connection';

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
	results @extschema@.iblt_audit_row[];
BEGIN
	results := @extschema@.iblt_audit_run(peer,
		jsonb_strip_nulls(jsonb_build_object('schema', schema, 'publication', publication))
			|| CASE WHEN tables IS NULL THEN '{}' ELSE jsonb_build_object('tables', tables::oid[]) END,
		jsonb_strip_nulls(@extschema@.iblt_compare_defaults() || jsonb_build_object('max_differences', max_differences,
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
	results @extschema@.iblt_audit_row[];
BEGIN
	results := @extschema@.iblt_audit_run(peer,
		jsonb_build_object('subscription', subscription),
		jsonb_strip_nulls(@extschema@.iblt_compare_defaults() || jsonb_build_object('max_differences', max_differences,
			'cast_types', cast_types, 'extra_columns', extra_columns, 'recheck', recheck, 'timeout', timeout,
			'trust_filters', coalesce(trust_filters, false), 'progress', progress)));
	RETURN QUERY SELECT r.* FROM unnest(results) AS r;
END
$$;
COMMENT ON FUNCTION iblt_audit_subscription(text, text, integer, boolean, text, integer, interval, boolean, boolean) IS
'compares all tables of a subscription with those of its publisher: one row a table, with its status';
