-- What a side has --------------------------------------------------------------------
--
-- An audit asks these functions of both sides.  They answer jsonb, which reads the same
-- on all servers.

-- Schemas and names of the tables of a schema, NULL if there is no such schema; or with NULL of
-- all schemas.
-- A partition is covered by an ancestor that is listed.  All schemas are those that are not
-- of the system, without what belongs to an extension.
CREATE FUNCTION audit_tables(schema text) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN schema IS NULL
		OR EXISTS (SELECT FROM pg_namespace WHERE nspname = schema) THEN (
	WITH listed AS (
		SELECT c.oid, n.nspname, c.relname, c.relispartition
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND CASE WHEN schema IS NOT NULL THEN n.nspname = schema
			ELSE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
				AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
					AND d.objid = c.oid AND d.deptype = 'e') END
	)
	SELECT coalesce(jsonb_agg(jsonb_build_array(l.nspname, l.relname)
		ORDER BY l.nspname, l.relname), '[]') FROM listed AS l
	WHERE NOT (l.relispartition AND EXISTS (SELECT FROM pg_partition_ancestors(l.oid) AS a
		JOIN listed AS p ON p.oid = a.relid WHERE p.oid <> l.oid))) END
$$;

-- What says in which partition of a table a row is, as an array with a row for each table of the
-- tree; NULL unless two servers on which it is the same put each row in the same partition.
-- Expressions, and types and operator classes of users, may do otherwise on another server, and a
-- collation that is not what it was may have done so.  Hashes depend on the processor.
CREATE FUNCTION audit_partitioning(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN bool_and(k.sure IS NOT FALSE) THEN jsonb_agg(jsonb_build_array(
			n.nspname, c.relname, t.level, (SELECT format('%I.%I', m.nspname, p.relname)
				FROM pg_class p JOIN pg_namespace m ON m.oid = p.relnamespace
				WHERE p.oid = t.parentrelid),
			pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(c.oid), k.columns,
			CASE WHEN p.partstrat = 'h' THEN hashtextextended('iblt', 1) END)
		ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C") END
	FROM pg_partition_tree(relation) AS t JOIN pg_class c ON c.oid = t.relid
	JOIN pg_namespace n ON n.oid = c.relnamespace
	LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid,
	LATERAL (SELECT bool_and(a.atttypid IS NOT NULL AND a.atttypid < 16384 AND o.oid < 16384
				AND s.problem IS NULL) AS sure,
			jsonb_agg(jsonb_build_array(format_type(a.atttypid, NULL), o.opcname, s.sorted)
				ORDER BY i) AS columns
		FROM generate_series(0, p.partnatts - 1) AS i
		-- none is the column of an expression
		LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = nullif(p.partattrs[i], 0)
		LEFT JOIN pg_opclass o ON o.oid = p.partclass[i]
		LEFT JOIN LATERAL (SELECT x.* FROM collation_order(nullif(p.partcollation[i], 0)) AS x)
			AS s ON true) AS k
$$;

-- The partitioned tables that the caller can read a trustworthy digest of: the schema, the name,
-- the names of all their partitions that have rows, and which row is in which.
CREATE FUNCTION audit_parents() RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL UNSAFE
AS $$
	SELECT coalesce(jsonb_agg(jsonb_build_array(n.nspname, c.relname, (
		SELECT coalesce(jsonb_agg(format('%I.%I', m.nspname, l.relname)), '[]')
		FROM pg_partition_tree(c.oid) AS t JOIN pg_class l ON l.oid = t.relid
		JOIN pg_namespace m ON m.oid = l.relnamespace WHERE t.isleaf),
		audit_partitioning(c.oid))), '[]')
	FROM unnest(iblt_live_tables()) AS tracked(relid) JOIN pg_class c ON c.oid = tracked.relid
	JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL iblt_live_state(c.oid) AS s
	WHERE c.relkind = 'p' AND s.unmerged IS NOT NULL AND s.reason IS NULL
		AND has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid)
$$;

-- Publications

-- The tables of publications, and which of the publications exist, in the form of type
-- published.
-- Each publication adds rows and columns: if one has no filter, there is none, and without
-- a list it has all columns that are not generated.  Releases before 18 publish none that
-- is generated, though the view may name it.  Its columns attnames and rowfilter are not in
-- all releases.  The planner overestimates the cost, and compiling the query would take a
-- second.
CREATE FUNCTION audit_published(publications text[]) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
	SET jit = off
AS $$
	WITH every AS MATERIALIZED (
		SELECT c.oid AS relid, t.schemaname AS schema, t.tablename AS name, p.*,
			j.v ->> 'rowfilter' AS filter, nullif(j.v -> 'attnames', 'null') AS columns
		FROM pg_publication_tables t JOIN pg_publication p ON p.pubname = t.pubname
		JOIN pg_namespace n ON n.nspname = t.schemaname
		JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename,
		LATERAL (SELECT to_jsonb(t)) AS j(v)
	), one AS MATERIALIZED (
		SELECT relid, schema, name, array_agg(columns) AS lists,
			CASE WHEN bool_and(filter IS NOT NULL)
				THEN string_agg(DISTINCT format('(%s)', filter), ' OR ') END AS filter,
			concat_ws(', ', CASE WHEN NOT bool_or(pubinsert) THEN 'insert' END,
				CASE WHEN NOT bool_or(pubupdate) THEN 'update' END,
				CASE WHEN NOT bool_or(pubdelete) THEN 'delete' END,
				CASE WHEN NOT bool_or(pubtruncate) THEN 'truncate' END) AS left_out
		FROM every WHERE pubname = ANY (publications) GROUP BY relid, schema, name
	)
	SELECT jsonb_build_object('publications', (SELECT coalesce(jsonb_agg(pubname), '[]')
			FROM pg_publication WHERE pubname = ANY (publications)),
		'tables', (SELECT coalesce(jsonb_agg(jsonb_build_object('schema', schema, 'name', name,
				'filter', filter, 'publications', publications, 'operations_left_out', left_out,
				'unpublished', (SELECT coalesce(jsonb_agg(jsonb_build_object('name', a.attname,
						'generated', a.attgenerated <> '') ORDER BY a.attnum), '[]')
					FROM pg_attribute a WHERE a.attrelid = relid AND a.attnum > 0
					AND NOT a.attisdropped AND NOT EXISTS (SELECT FROM unnest(lists) AS list
						WHERE coalesce(list ? a.attname, a.attgenerated = '')
						AND (a.attgenerated = ''
							OR current_setting('server_version_num')::integer >= 180000))),
				'others', CASE WHEN filter IS NOT NULL THEN (
					SELECT coalesce(jsonb_agg(e.pubname), '[]') FROM every AS e
					WHERE e.relid = t.relid AND e.pubname <> ALL (publications)
					OR e.relid <> t.relid AND e.relid IN (
						SELECT relid FROM pg_partition_tree(t.relid)
						UNION ALL SELECT relid FROM pg_partition_ancestors(t.relid))) END,
				'covered', EXISTS (SELECT FROM pg_partition_ancestors(t.relid) AS a
					WHERE a.relid <> t.relid AND a.relid IN (SELECT one.relid FROM one)))
				ORDER BY schema COLLATE "C", name COLLATE "C"), '[]') FROM one AS t))
$$;

-- Subscriptions

-- A subscription of this database, in the form of type subscribing; NULL if there is none.
CREATE FUNCTION audit_subscription(subscription text) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL RESTRICTED
AS $$
	SELECT jsonb_build_object('publications', s.subpublications, 'enabled', s.subenabled,
		'tables', (SELECT coalesce(jsonb_agg(jsonb_build_object('schema', n.nspname,
				'name', c.relname, 'state', r.srsubstate)), '[]')
			-- PostgreSQL 19 replicates sequences, too
			FROM pg_subscription_rel r JOIN pg_class c ON c.oid = r.srrelid AND c.relkind <> 'S'
			JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE r.srsubid IN (SELECT st.subid FROM pg_stat_subscription st
				WHERE st.subname = subscription)))
	FROM pg_subscription s WHERE s.subname = subscription
	AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
$$;

-- The subscriptions of this database that feed a table, as an array of feed.
CREATE FUNCTION audit_feeds(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL RESTRICTED
AS $$
	SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object('subscription', s.subname,
		'publications', s.subpublications)), '[]')
	FROM pg_subscription_rel r
	-- not everybody may read pg_subscription.oid in all releases
	JOIN pg_stat_subscription st ON st.subid = r.srsubid
	JOIN pg_subscription s ON s.subname = st.subname
		AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
	WHERE r.srrelid IN (SELECT relation
		UNION ALL SELECT relid FROM pg_partition_tree(relation)
		UNION ALL SELECT relid FROM pg_partition_ancestors(relation))
$$;

-- Names of the generated columns.
CREATE FUNCTION audit_generated(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT coalesce(jsonb_agg(a.attname), '[]') FROM pg_attribute a
	WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> ''
$$;

-- Asking them

-- The names that calls of these functions answer at some places, each once.
CREATE FUNCTION audit_ask_names(places text[], call text) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RETURN ARRAY(SELECT DISTINCT name
		FROM unnest(ask_calls(places, VARIADIC array_fill(call, ARRAY[cardinality(places)])))
			AS answer, jsonb_array_elements_text(answer::jsonb) AS name);
END
$$;

-- What places publish in publications.
CREATE FUNCTION audit_ask_published(places text[], publications text[]) RETURNS published[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	call text := format('audit_published(%L::pg_catalog.text[])', publications);
BEGIN
	RETURN ARRAY(SELECT jsonb_populate_record(NULL::published, answer::jsonb)
		FROM unnest(ask_calls(places, VARIADIC array_fill(call, ARRAY[cardinality(places)])))
			WITH ORDINALITY AS u(answer, n) ORDER BY n);
END
$$;

-- What calls of functions answer of the table of each item, c, at a place, each time as an array of
-- jsonb; without calls, its OID.
CREATE FUNCTION audit_ask_each(place text, items audit_item[], calls text[] DEFAULT '{}')
RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	asked text := CASE WHEN calls = '{}' THEN 'c.oid' ELSE format('jsonb_build_array(%s)',
		(SELECT string_agg(format('(%s)', CASE WHEN peer_is_bare(place) THEN plain_call(call)
			ELSE 'SELECT iblt_internal.' || call END), ', ' ORDER BY n)
		FROM unnest(calls) WITH ORDINALITY AS u(call, n))) END;
BEGIN
	RETURN ask_one(place, format('SELECT ARRAY(SELECT %s'
			' FROM unnest(%L::text[], %L::text[]) WITH ORDINALITY AS u(schema, name, n)'
			' LEFT JOIN pg_namespace AS s ON s.nspname = u.schema'
			' LEFT JOIN pg_class AS c ON c.relnamespace = s.oid AND c.relname = u.name'
			' ORDER BY u.n)::text', asked,
		ARRAY(SELECT i.schema FROM unnest(items) WITH ORDINALITY AS i ORDER BY i.ordinality),
		ARRAY(SELECT i.name FROM unnest(items) WITH ORDINALITY AS i ORDER BY i.ordinality)));
END
$$;
