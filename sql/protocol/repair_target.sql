-- The target -----------------------------------------------------------------------
--
-- What a repair has to know of the relation to be changed.  The functions run on its
-- side, and name types and operators with their schemas.  A server without iblt is asked for
-- their bodies (plain_call), so they name nothing but what PostgreSQL has, and each other.

-- The name of a type with its schema.
CREATE FUNCTION repair_type(type oid) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (SELECT format(CASE WHEN e.oid IS NULL THEN '%I.%I' ELSE '%I.%I[]' END,
		n.nspname, coalesce(e.typname, t.typname))
	FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
	JOIN pg_namespace n ON n.oid = coalesce(e.typnamespace, t.typnamespace) WHERE t.oid = type);
END
$$;

-- What the name of a relation means: the OIDs of the relation and of its schema, and the version of
-- the schema's row.
-- ALTER SCHEMA RENAME locks no table.  It makes another version of that row, and so does GRANT ON
-- SCHEMA.  Two looks that give the same text prove that the schema has had one name between them.
-- The lock on the relation keeps the relation's own name.
CREATE FUNCTION repair_naming(relation regclass) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (SELECT concat_ws(' ', c.oid, n.oid, n.xmin, n.ctid)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
END
$$;

-- A relation as a repair wants to know it, in the form of type repair_description.
-- The actions of foreign keys that refer to it may change what refers to a changed row.  Where
-- replication does not check them, rows may come to refer to rows that are not there.
-- With session_replication_role = replica, no trigger checks deferrable constraints.
-- Of a column it tells the operator by which an index finds a value ("equal"), and the type of an
-- array of texts of values, from which a value is made as from a literal ("list"), NULL if there is
-- none.  The elements of an array cannot be arrays, and unnest() takes composite ones apart.  A
-- cast of a text to such a type reads it as a literal, unless somebody has made another cast.
CREATE FUNCTION repair_describe(relation regclass) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
	-- planning takes twice as long as running, and no table needs a plan of its own
	SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
	RETURN (WITH tree AS (
		SELECT relation::oid AS relid
		UNION
		SELECT relid FROM pg_partition_tree(relation)
	)
	SELECT jsonb_build_object(
		'naming', repair_naming(relation),
		'partitions', (SELECT coalesce(jsonb_agg(relid::oid ORDER BY relid::oid), '[]')
			FROM pg_partition_tree(relation)),
		'kind', CASE WHEN c.relkind = 'r'
				AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = relation)
			THEN 'a table that others inherit from'
			ELSE '{"r": "table", "p": "partitioned table", "v": "a view",
				"m": "a materialized view", "f": "a foreign table",
				"S": "a sequence"}'::jsonb ->> c.relkind::text END,
		'foreign_keys', (SELECT coalesce(jsonb_agg(jsonb_build_object(
				'name', quote_ident(k.conname), 'relation', format('%I.%I', n.nspname, r.relname),
				'self', k.conrelid = k.confrelid,
				'readable', has_table_privilege(k.conrelid, 'SELECT'),
				'on_delete', action.name ->> k.confdeltype::text,
				'on_update', action.name ->> k.confupdtype::text,
				'referenced', columns.referenced, 'matches', columns.matches) ORDER BY k.oid), '[]')
			FROM (SELECT '{"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL",
				"d": "SET DEFAULT"}'::jsonb) AS action(name),
			pg_constraint k JOIN pg_class r ON r.oid = k.conrelid
			JOIN pg_namespace n ON n.oid = r.relnamespace,
			LATERAL (SELECT jsonb_agg(u.attname), string_agg(format(
					'iblt_d.%I OPERATOR(%I.%s) r.%I', u.attname, m.nspname, o.oprname, r.attname),
					' AND ')
				FROM unnest(k.confkey, k.conkey, k.conpfeqop) AS x(referenced, referring, operator)
				JOIN pg_attribute u ON u.attrelid = k.confrelid AND u.attnum = x.referenced
				JOIN pg_attribute r ON r.attrelid = k.conrelid AND r.attnum = x.referring
				JOIN pg_operator o ON o.oid = x.operator
				JOIN pg_namespace m ON m.oid = o.oprnamespace) AS columns(referenced, matches)
			WHERE k.contype = 'f' AND k.confrelid IN (SELECT relid FROM tree)
			AND NOT EXISTS (SELECT FROM pg_constraint p
				WHERE p.oid = k.conparentid AND p.confrelid IN (SELECT relid FROM tree))),
		'deferrable_constraints', (SELECT coalesce(jsonb_agg(DISTINCT quote_ident(k.conname)), '[]')
			FROM pg_constraint k WHERE k.contype IN ('p', 'u', 'x') AND k.condeferrable
			AND k.conrelid IN (SELECT relid FROM tree)),
		-- those that statements may fire, without live digests, which change nothing that users see
		'triggers', (SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object('name',
				quote_ident(t.tgname), 'enabled', t.tgenabled, 'events', (
					SELECT jsonb_agg(e.name ORDER BY e.bit)
					FROM (VALUES (4, 'INSERT'), (16, 'UPDATE'), (8, 'DELETE')) AS e(bit, name)
					WHERE t.tgtype & e.bit > 0))), '[]')
			FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
			WHERE @user_trigger@ AND t.tgenabled <> 'D' AND t.tgtype & 28 > 0
			AND p.pronamespace IS DISTINCT FROM to_regnamespace('iblt_internal')
			AND t.tgrelid IN (SELECT relid FROM tree)),
		'replica', current_setting('session_replication_role') = 'replica',
		'read_only', current_setting('default_transaction_read_only') = 'on',
		'rules', c.relhasrules,
		-- what names the catalog of Citus is planned only where it is
		'distributed', CASE WHEN to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN false
			ELSE query_to_xml(format('SELECT 1 FROM pg_catalog.pg_dist_partition'
				' WHERE logicalrelid = %s::oid', c.oid), false, false, '')::text ~ '<row' END,
		'columns', (SELECT coalesce(jsonb_agg(jsonb_build_object('name', a.attname,
				'type', repair_type(a.atttypid), 'equal', (
					WITH RECURSIVE base AS (
						SELECT t.oid, t.typtype, t.typbasetype
						UNION ALL
						SELECT b.oid, b.typtype, b.typbasetype FROM base
						JOIN pg_type b ON b.oid = base.typbasetype WHERE base.typtype = 'd')
					SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname)
					FROM base JOIN pg_opclass k ON k.opcintype = CASE base.oid
							WHEN 'varchar'::regtype THEN 'text'::regtype ELSE base.oid END
					JOIN pg_am m ON m.oid = k.opcmethod AND m.amname = 'btree'
					JOIN pg_amop p ON p.amopfamily = k.opcfamily AND p.amoplefttype = k.opcintype
						AND p.amoprighttype = k.opcintype AND p.amopstrategy = 3
					JOIN pg_operator o ON o.oid = p.amopopr
					JOIN pg_namespace n ON n.oid = o.oprnamespace
					WHERE k.opcdefault AND base.typtype <> 'd' LIMIT 1),
				'list', CASE WHEN t.typcategory NOT IN ('A', 'C')
					THEN CASE WHEN t.typarray <> 0 AND t.typdelim = ',' THEN repair_type(t.typarray)
						END
					WHEN NOT EXISTS (SELECT FROM pg_cast s
						WHERE s.castsource = 'text'::regtype AND s.casttarget = t.oid)
					THEN 'pg_catalog.text[]' END,
				'generated', a.attgenerated <> '', 'always', a.attidentity = 'a')
				ORDER BY a.attnum), '[]')
			FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
			WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped))
	FROM pg_class c WHERE c.oid = relation);
END
$$;

-- When the transaction that wrote a row was committed; NULL if that is not known.
-- Relies on: the row as the statement that calls it reads it.
CREATE FUNCTION iblt_row_time(relation oid, row_version tid, xmin xid) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
