-- What audits and runs ask ------------------------------------------------------------------

-- What a side says of a small table: all that its description may have otherwise than the other
-- side's.  It travels as text, because the names of fields would be as long as what is in them.
CREATE TYPE audit_reply AS (
	checksum text,			-- of all rows, NULL if the table was altered
	rows bigint,
	identity text,
	fingerprint text,
	versions boolean,
	version_rights boolean,
	most_rows bigint,
	collations text[],
	subscriptions jsonb,
	core text,				-- a hash of what both sides must have in common
	described jsonb			-- NULL unless it was asked for
);

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

-- A subscription of this database, in the form of type published; NULL if there is none.
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

-- What a subscriber has of a table: "feeds", the subscriptions of this database that feed it, and
-- "generated", the names of its generated columns.
CREATE FUNCTION audit_subscribed(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL RESTRICTED
AS $$
	SELECT jsonb_build_object('feeds', (
		SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object('subscription', s.subname,
			'publications', s.subpublications)), '[]')
		FROM pg_subscription_rel r
		-- not everybody may read pg_subscription.oid in all releases
		JOIN pg_stat_subscription st ON st.subid = r.srsubid
		JOIN pg_subscription s ON s.subname = st.subname
			AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
		WHERE r.srrelid IN (SELECT relation
			UNION ALL SELECT relid FROM pg_partition_tree(relation)
			UNION ALL SELECT relid FROM pg_partition_ancestors(relation))), 'generated', (
		SELECT coalesce(jsonb_agg(a.attname), '[]') FROM pg_attribute a
		WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
		AND a.attgenerated <> ''))
$$;

-- 128 bits of a SHA-256, in hexadecimal.
CREATE FUNCTION audit_hash(bytes bytea) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN left(encode(sha256(bytes), 'hex'), 32);

-- What is to be known of small tables, whose options name the relation: of each a checksum of its
-- rows and their number, NULL if it was altered, and what the other side's description cannot
-- tell; NULL if it must be compared alone.  With "tells", the description too.  Beside them, what
-- is the same for all tables of this database.
-- Both sides must have in common what a plan depends on, except what the reply gives, and the names
-- of indexes, by which nothing is looked up in an equal table.
-- Relies on: read_heap, in one snapshot under its lock.
CREATE FUNCTION audit_answers(questions options[], tells boolean) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	asked options;
	described jsonb;
	s side;
	plan plan;
	answer record;
	reply audit_reply;
	answers jsonb := '[]';
	server jsonb := describe('pg_class', NULL);
BEGIN
	FOREACH asked IN ARRAY questions LOOP
		reply := NULL;
		BEGIN
			described := describe(to_regclass(asked.relation_name), asked.condition);
			-- Views and foreign tables have no upper bound of their rows, and PostgreSQL does not
			-- know the size of a table of Citus.
			IF described -> 'distributed' = 'false'
					AND (described ->> 'most_rows')::numeric * 28 <= 1048576 THEN
				asked.content := 'none';
				asked.extra_columns := 'ignore';
				s := described(described, 'here');
				plan := make_plan(s, s, asked);
				reply := jsonb_populate_record(NULL::audit_reply, described || jsonb_build_object(
					'core', audit_hash(convert_to(jsonb_build_array(described -> 'kind',
						described -> 'ordinary', described -> 'columns', ARRAY(SELECT key - 'index'
							FROM jsonb_array_elements(described -> 'keys') AS key))::text,
						getdatabaseencoding())),
					'described', CASE WHEN tells THEN described END));
				answer := read_heap(format('SELECT * FROM (SELECT %s OFFSET 0)'
					' AS iblt_r(sketch, fingerprint)', sketch_sql(plan, plan.here, 1)),
					described => reads(ARRAY[s]));
				reply.rows := (iblt_header(answer.sketch)).rows;
				reply.checksum := CASE WHEN answer.fingerprint = s.fingerprint
					THEN audit_hash((answer.sketch)::bytea) END;
			END IF;
			RAISE SQLSTATE 'IB000' USING MESSAGE = 'compared';
		EXCEPTION WHEN @on_error@ THEN
			NULL;	-- an error shows again when the table is compared alone
		END;
		answers := answers || jsonb_build_array(reply::text);
	END LOOP;
	RETURN jsonb_build_object('tables', answers, 'server', jsonb_build_object(
		'system', server -> 'system', 'recovery', server -> 'recovery',
		'slots', server -> 'slots'));
END
$$;

-- What a relation is now: "file", which changes when the relation is rewritten, and is a hash of
-- the files of a partitioned table's partitions; "rows", as the planner estimates; "blocks", how
-- many of them it has.
CREATE FUNCTION run_probe(relation regclass) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL RESTRICTED
AS $$
	SELECT jsonb_build_object('file', CASE count(*) WHEN 1 THEN pg_relation_filenode(relation)::text
			ELSE left(encode(sha256(string_agg(concat(c.oid, ' ', pg_relation_filenode(c.oid)), ', '
				ORDER BY c.oid)::bytea), 'hex'), 32) END,
		'rows', coalesce(sum(CASE WHEN c.reltuples > 0 AND c.relpages > 0
			THEN c.reltuples / c.relpages * size
				/ current_setting('block_size')::integer
			ELSE size / 100 END), 0)::bigint,
		'blocks', sum(size)::bigint / current_setting('block_size')::integer)
	FROM (SELECT relation::oid UNION SELECT relid FROM pg_partition_tree(relation)) AS p(oid),
	LATERAL (SELECT k.*, CASE WHEN k.relkind IN ('r', 'm')
			THEN coalesce(pg_relation_size(k.oid), 0) ELSE 0 END AS size
		FROM pg_class k WHERE k.oid = p.oid OFFSET 0) AS c
$$;

-- How far the followers of this server are behind it, and this standby behind what it
-- received.
-- A side is asked for it.  It is part of the protocol, and a peer without iblt is asked for its
-- body (plain_call).
CREATE FUNCTION run_lag() RETURNS jsonb
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT jsonb_build_object(
		'hidden', coalesce(bool_or(r.pid IS NOT NULL AND r.state IS NULL), false),
		'bytes', greatest(max(behind), max(pg_wal_lsn_diff(reached, r.replay_lsn)), 0),
		'seconds', greatest(max(extract(epoch FROM r.replay_lag)), 0,
			CASE WHEN max(behind) > 0 THEN
				extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END))
	FROM (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
			ELSE pg_current_wal_lsn() END AS reached OFFSET 0) AS w,
	LATERAL (SELECT CASE WHEN pg_is_in_recovery()
		THEN greatest(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), reached), 0)
		ELSE 0 END AS behind) AS b
	LEFT JOIN pg_stat_replication r ON true
$$;

-- Checks each index with these columns by amcheck, also those of partitions: how many were
-- checked, and how many others there are; an error if one is damaged.
-- The planner may take one of some rows, or on an expression, too.
CREATE FUNCTION slice_check(relation regclass, names text[]) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	schema text := (SELECT n.nspname FROM pg_extension e
		JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck');
	amcheck regprocedure :=
		to_regprocedure(quote_ident(schema) || '.bt_index_check(regclass, boolean)');
	checked bigint := 0;
	others bigint := 0;
	x record;
	problem text;
BEGIN
	IF amcheck IS NULL THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = 'extension amcheck is not installed in this database',
			DETAIL = 'It checks the indexes by which slices are read.',
			HINT = 'Run CREATE EXTENSION amcheck on both sides.';
	END IF;
	FOR x IN SELECT i.indexrelid::regclass AS index, m.amname = 'btree' AS checkable
			FROM unnest(relation_sources(ARRAY[relation])) AS tree(relid)
			JOIN pg_index i ON i.indrelid = tree.relid AND i.indisvalid
			JOIN pg_class c ON c.oid = i.indexrelid AND c.relkind = 'i'
			JOIN pg_am m ON m.oid = c.relam
			WHERE num_nonnulls(i.indexprs, i.indpred) > 0
				OR EXISTS (SELECT FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
				JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
				WHERE a.attname = ANY (names) AND k.n <= i.indnkeyatts)
			ORDER BY i.indexrelid LOOP
		IF x.checkable THEN
			EXECUTE format('SELECT %I.bt_index_check(index => %L, heapallindexed => true)',
				schema, x.index);
			checked := checked + 1;
		ELSE
			others := others + 1;
		END IF;
	END LOOP;
	RETURN jsonb_build_object('checked', checked, 'others', others);
EXCEPTION WHEN data_corrupted OR index_corrupted THEN
	GET STACKED DIAGNOSTICS problem = MESSAGE_TEXT;
	RAISE index_corrupted USING MESSAGE = format('index %s is damaged', x.index),
		DETAIL = format('amcheck: %s.', problem), HINT = 'REINDEX it.';
END
$$;
