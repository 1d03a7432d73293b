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

CREATE TYPE iblt_internal.audit_row AS (
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
COMMENT ON TYPE iblt_internal.audit_row IS 'what an audit says of one table';

-- What a side has; each of these runs on both, with its own copy of the extension

-- A partition is covered by an ancestor in the same schema.
CREATE FUNCTION iblt_internal.audit_tables(schema text) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_agg(c.relname ORDER BY c.relname), '[]')
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = schema AND c.relkind IN ('r', 'p')
	AND NOT (c.relispartition AND EXISTS (SELECT FROM pg_partition_ancestors(c.oid) AS a
		JOIN pg_class p ON p.oid = a.relid WHERE p.oid <> c.oid AND p.relnamespace = c.relnamespace))
$$;
COMMENT ON FUNCTION iblt_internal.audit_tables(text) IS
'names of the tables of a schema, without partitions of tables that are in it, too';

-- Columns of the view that are not in all releases are looked for by name.  Of
-- several publications, each adds rows: without a filter in one, there is none.
-- "others" are publications that may add rows to those of the filter.  The
-- planner overrates the cost, and compiling the query would take a second.
CREATE FUNCTION iblt_internal.audit_published(publications text[]) RETURNS jsonb
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
COMMENT ON FUNCTION iblt_internal.audit_published(text[]) IS
'the tables of publications, with row filter and columns and operations that are not published; which of the publications exist';

CREATE FUNCTION iblt_internal.audit_feeds(relation regclass) RETURNS jsonb
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
COMMENT ON FUNCTION iblt_internal.audit_feeds(regclass) IS 'the subscriptions of this database that feed a table';

CREATE FUNCTION iblt_internal.audit_generated(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_agg(a.attname), '[]') FROM pg_attribute a
	WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> ''
$$;
COMMENT ON FUNCTION iblt_internal.audit_generated(regclass) IS 'names of the generated columns';

CREATE FUNCTION iblt_internal.audit_ask(conn text, side text, options jsonb, call text) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN iblt_internal.peer_ask(conn, side, 'SELECT iblt_internal.' || call);
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_ask(text, text, jsonb, text) IS 'what a function of iblt says on a side';

-- The list

CREATE FUNCTION iblt_internal.audit_name(item jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT concat_ws('.', quote_ident(item ->> 'schema'), quote_ident(item ->> 'name'))
$$;
COMMENT ON FUNCTION iblt_internal.audit_name(jsonb) IS 'the name of an item''s table, quoted';

CREATE FUNCTION iblt_internal.audit_list_tables(tables regclass[]) RETURNS jsonb[]
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT array_agg(jsonb_build_object('relid', t.relid::oid, 'schema', n.nspname, 'name', coalesce(c.relname, t.relid::text))
		ORDER BY t.position)
	FROM (SELECT relid, min(position) AS position FROM unnest(tables) WITH ORDINALITY AS u(relid, position) GROUP BY relid) AS t
	LEFT JOIN pg_class c ON c.oid = t.relid LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
$$;
COMMENT ON FUNCTION iblt_internal.audit_list_tables(regclass[]) IS 'the items of an audit of given tables';

-- A table there can be anything here that has its name, a partition or a view.
CREATE FUNCTION iblt_internal.audit_list_schema(conn text, schema text, options jsonb) RETURNS jsonb[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mine jsonb := iblt_internal.audit_tables(schema);
	theirs jsonb := iblt_internal.audit_ask(conn, 'there', options, format('audit_tables(%L)', schema));
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
COMMENT ON FUNCTION iblt_internal.audit_list_schema(text, text, jsonb) IS
'the items of an audit of a schema: tables of either side';

CREATE FUNCTION iblt_internal.audit_notes(published jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN published ->> 'operations_left_out' <> ''
		THEN jsonb_build_array('not published: ' || (published ->> 'operations_left_out')) ELSE '[]' END
$$;
COMMENT ON FUNCTION iblt_internal.audit_notes(jsonb) IS 'what is to be known of a published table';

-- Where each side has a publication of the name (both publish to each other, or it
-- came with a dump), no table of either may be passed over.
CREATE FUNCTION iblt_internal.audit_twofold_problem(mine jsonb, theirs jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE
		WHEN mine IS NULL THEN 'only the publication of this name on the peer has this table, and not the one here'
		WHEN theirs IS NULL THEN 'only the publication of this name here has this table, and not the one on the peer'
		WHEN mine -> 'filter' <> theirs -> 'filter' OR mine -> 'unpublished' <> theirs -> 'unpublished'
			THEN 'the publications of this name here and on the peer differ in the rows or columns of this table' END
$$;
COMMENT ON FUNCTION iblt_internal.audit_twofold_problem(jsonb, jsonb) IS
'what forbids to compare a table by publications of one name on both sides, or NULL';

CREATE FUNCTION iblt_internal.audit_list_publication(conn text, publication text, options jsonb) RETURNS jsonb[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mine jsonb := iblt_internal.audit_published(ARRAY[publication]);
	theirs jsonb := iblt_internal.audit_ask(conn, 'there', options, format('audit_published(ARRAY[%L])', publication));
	subscriber text := CASE mine -> 'publications' WHEN '[]' THEN 'here' ELSE 'there' END;
	twofold boolean := mine -> 'publications' <> '[]' AND theirs -> 'publications' <> '[]';
BEGIN
	IF mine -> 'publications' = '[]' AND theirs -> 'publications' = '[]' THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = format('publication "%s" exists neither here nor on the peer', publication);
	END IF;
	RETURN (SELECT array_agg(jsonb_build_object('relid', c.oid, 'schema', schema, 'name', name,
			'problem', CASE WHEN twofold THEN iblt_internal.audit_twofold_problem(h.t, p.t) END,
			'published', coalesce(h.t, p.t), 'subscriber', subscriber, 'listed', true,
			'notes', iblt_internal.audit_notes(coalesce(h.t, p.t))) ORDER BY schema COLLATE "C", name COLLATE "C")
		FROM (SELECT t ->> 'schema' AS schema, t ->> 'name' AS name, t FROM jsonb_array_elements(mine -> 'tables') AS t) AS h
		FULL JOIN (SELECT t ->> 'schema' AS schema, t ->> 'name' AS name, t FROM jsonb_array_elements(theirs -> 'tables') AS t) AS p
			USING (schema, name)
		LEFT JOIN pg_namespace n ON n.nspname = schema
		LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = name);
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_list_publication(text, text, jsonb) IS 'the items of an audit of a publication, of either side';

CREATE FUNCTION iblt_internal.audit_subscribed_problem(subscription text, subscribed boolean, published boolean, state text) RETURNS text
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
COMMENT ON FUNCTION iblt_internal.audit_subscribed_problem(text, boolean, boolean, text) IS
'why a table of a subscription cannot be compared, or NULL';

CREATE FUNCTION iblt_internal.audit_list_subscription(conn text, subscription text, options jsonb) RETURNS jsonb[]
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
	found := iblt_internal.audit_ask(conn, 'there', options, format('audit_published(%L)', names));
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
			'problem', iblt_internal.audit_subscribed_problem(subscription, s.srrelid IS NOT NULL, p.t IS NOT NULL, s.state),
			'published', p.t, 'subscriber', 'here', 'subscription', subscription,
			'notes', iblt_internal.audit_notes(p.t) || CASE WHEN enabled THEN '[]' ELSE '["the subscription is disabled"]' END::jsonb
				|| CASE WHEN absent IS NULL THEN '[]' ELSE jsonb_build_array(absent) END)
			ORDER BY schema COLLATE "C", name COLLATE "C")
		FROM published AS p FULL JOIN subscribed AS s USING (schema, name)
		LEFT JOIN pg_namespace n ON n.nspname = schema
		LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = name
		-- its root is published by another of the publications
		WHERE s.srrelid IS NOT NULL OR NOT (p.t ->> 'covered')::boolean);
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_list_subscription(text, text, jsonb) IS
'the items of an audit of a subscription: tables that are subscribed here or published there';

CREATE FUNCTION iblt_internal.audit_list(conn text, what jsonb, options jsonb) RETURNS jsonb[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kind text := (SELECT jsonb_object_keys(what));
	items jsonb[] := CASE kind
		WHEN 'tables' THEN iblt_internal.audit_list_tables(ARRAY(SELECT t::oid::regclass
			FROM jsonb_array_elements_text(what -> 'tables') WITH ORDINALITY AS a(t, position) ORDER BY position))
		WHEN 'schema' THEN iblt_internal.audit_list_schema(conn, what ->> kind, options)
		WHEN 'publication' THEN iblt_internal.audit_list_publication(conn, what ->> kind, options)
		WHEN 'subscription' THEN iblt_internal.audit_list_subscription(conn, what ->> kind, options) END;
BEGIN
	IF items IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'no_data_found',
			MESSAGE = 'there are no tables to audit' || CASE kind WHEN 'tables' THEN '' ELSE format(' in %s "%s"', kind, what ->> kind) END,
			DETAIL = 'An answer without tables would read as if all were equal.';
	END IF;
	RETURN items;
END
$$;
COMMENT ON FUNCTION iblt_internal.audit_list(text, jsonb, jsonb) IS 'the items of an audit; an error if there are none';
