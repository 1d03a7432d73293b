-- A peer without iblt -----------------------------------------------------------------
--
-- With method => 'plain' the peer answers queries of built-in functions only: nothing has
-- to be installed there.  Each message has its settings in front, is read-only, and names
-- no key and no value, except the bounds of the slices of a run.  This file describes both
-- sides in the same way, statements.sql makes the statements, and sql/compare/plain.sql plans and
-- compares.  The statements of a repair write, and have rows (sql/repair/apply.sql).

-- Types
--
-- A type is taken if its text is a function of the value and of the settings above, if
-- different canonical bytes have different texts, and if the text reads back as the value.
-- test/t/099_plain.pl has a row for each.  "char", xml and money are read through another type
-- (text_type).  Of others, whose text tells values apart but need not be read back here, the texts
-- themselves are compared: enums, composite types and ranges made of types above, and some of
-- well-known extensions, if the output function is a superuser's.  Not among them: other types of
-- extensions (texts of their versions), reg* (names of other objects), tsquery, jsonpath, aclitem
-- and tid (texts of releases, or of one database).

-- A query of built-in functions that describes relations, each as a jsonb in the form of type
-- side with more of it: its bytes, and an estimate of its rows.
-- Row versions and what replicates it are as append_storage (src/relation/describe.c)
-- and describe_replication give them.
-- Its unique keys, the best first, are those that iblt_describe gives.
-- Each column tells how its text is read: the OID of a built-in type, enum, enum[], or null.
-- "enum" stands for each type whose text is all that is compared.
-- Domains count as what they are over.  An array of domains is not taken.
-- OFFSET keeps the planner from planning the columns of a key, and what is exact, several times.
CREATE FUNCTION plain_relations_sql() RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format($q$SELECT jsonb_build_object(
			'version', current_setting('server_version_num')::integer,
			'encoding', getdatabaseencoding(),
			'relation', format('%%I.%%I', n.nspname, c.relname),
			'system', CASE WHEN has_function_privilege('pg_control_system()', 'execute')
				-- a statement of its own, since each needs the right to what it calls
				THEN substring(query_to_xml('SELECT system_identifier FROM pg_control_system()',
					false, false, '')::text FROM '<system_identifier>([0-9]+)<') END,
			'recovery', pg_is_in_recovery(),
			'identity', concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
				(SELECT oid FROM pg_database WHERE datname = current_database()), c.oid),
			'fingerprint', %1$s,
			'kind', c.relkind,
			'ordinary', c.relkind = 'p' OR c.relkind = 'r'
				AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid),
			'remote', EXISTS (SELECT FROM pg_class AS f
				WHERE f.oid = ANY ((%2$s)::oid[]) AND f.relkind = 'f'),
			'distributed', false, 'shards', '[]'::jsonb,
			'collations', '[]'::jsonb, 'hash', hashtextextended('iblt', 1),
			'columns', (
			SELECT coalesce(jsonb_agg(jsonb_build_object('name', a.attname,
				'type', format_type(a.atttypid, CASE
					WHEN a.atttypid::bigint = ANY (%5$L::bigint[]) THEN a.atttypmod ELSE -1 END),
				'base', b.oid::bigint, 'textual', '[]'::jsonb, 'not_null', a.attnotnull,
				-- of a domain, as iblt_describe_type tells
				'parts', CASE WHEN y.exact THEN CASE x.typtype
						WHEN 'c' THEN (SELECT concat('(', string_agg(concat(to_json(m.attname), ' ',
								format_type(m.atttypid, CASE WHEN m.atttypid::bigint
									= ANY (%5$L::bigint[]) THEN m.atttypmod END)), ', '
								ORDER BY m.attnum), ')')
							FROM pg_attribute m WHERE m.attrelid = x.typrelid AND m.attnum > 0
							AND NOT m.attisdropped)
						WHEN 'e' THEN format_type(x.oid, NULL) || ' enum'
						WHEN 'b' THEN format_type(x.oid, NULL)
						ELSE (SELECT concat(format_type(x.oid, NULL), ' of ', format_type(
								g.rngsubtype, CASE WHEN g.rngsubtype::bigint
									= ANY (%5$L::bigint[]) THEN -1 END))
							FROM pg_range g WHERE x.oid IN (g.rngtypid, g.rngmultitypid)) END
						|| CASE WHEN e.oid IS NULL THEN '' ELSE '[]' END
					WHEN a.atttypid <> b.oid THEN format_type(b.oid,
					CASE WHEN b.oid::bigint = ANY (%5$L::bigint[]) THEN b.modifier END) END,
				-- values that are equal may differ
				'vague', NOT coalesce((SELECT collisdeterministic FROM pg_collation
					WHERE oid = a.attcollation), true),
				'text', CASE WHEN b.oid::bigint = ANY (%4$L::bigint[])
						OR e.oid::bigint = ANY (%4$L::bigint[])
						-- through another type (text_type): "char", xml, money
						OR b.oid IN (18, 1002, 142, 143, 790, 791) THEN b.oid::text
					WHEN y.exact AND e.oid IS NULL THEN 'enum'
					WHEN y.exact AND e.typdelim = ',' THEN 'enum[]' END)
				ORDER BY a.attnum), '[]')
			FROM pg_attribute a, LATERAL (
				WITH RECURSIVE base AS (
					SELECT t.oid, t.typtype, t.typbasetype, t.typelem, a.atttypmod AS modifier,
						t.typtypmod
					FROM pg_type t WHERE t.oid = a.atttypid
					UNION ALL
					SELECT t.oid, t.typtype, t.typbasetype, t.typelem, base.typtypmod, t.typtypmod
					FROM base JOIN pg_type t ON t.oid = base.typbasetype WHERE base.typtype = 'd')
				SELECT * FROM base WHERE typtype <> 'd' LIMIT 1) AS b
			LEFT JOIN pg_type e ON e.oid = b.typelem AND e.typarray = b.oid
			JOIN pg_type x ON x.oid = coalesce(e.oid, b.oid)
			CROSS JOIN LATERAL (SELECT x.oid >= 16384 AND CASE x.typtype WHEN 'e' THEN true
				WHEN 'c' THEN NOT EXISTS (SELECT FROM pg_attribute m
					LEFT JOIN pg_type i ON i.typarray = m.atttypid
					WHERE m.attrelid = x.typrelid AND m.attnum > 0 AND NOT m.attisdropped
					AND coalesce(i.oid, m.atttypid)::bigint <> ALL (%4$L::bigint[]))
				WHEN 'b' THEN EXISTS (SELECT FROM pg_depend d
					JOIN pg_extension own ON own.oid = d.refobjid
					JOIN pg_proc p ON p.oid = x.typoutput
					JOIN pg_roles o ON o.oid = p.proowner AND o.rolsuper
					WHERE d.classid = 'pg_type'::regclass AND d.objid = x.oid AND d.deptype = 'e'
					AND d.refclassid = 'pg_extension'::regclass
					AND concat(own.extname, '.', x.typname) = ANY ('{citext.citext,hstore.hstore,'
						'ltree.ltree,postgis.geometry,postgis.geography,vector.vector,'
						'vector.halfvec,vector.sparsevec}'::text[]))
				ELSE EXISTS (SELECT FROM pg_range g WHERE x.oid IN (g.rngtypid, g.rngmultitypid)
					AND g.rngsubtype::bigint = ANY (%4$L::bigint[])) END OFFSET 0)
				AS y(exact)
			WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
			'keys', (
			SELECT coalesce(jsonb_agg(jsonb_build_object('columns', u.columns) || (%3$s)
				ORDER BY u.indisprimary DESC, cardinality(u.columns), u.indexrelid), '[]')
			FROM (SELECT i.indisprimary, i.indexrelid, i.indnkeyatts, ARRAY(
					SELECT a.attname::text
					FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS x(attnum, position)
					JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = x.attnum
						AND a.attnotnull
						AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = i.indrelid
							AND k.contype = 'n' AND NOT k.convalidated
							AND a.attnum = ANY (k.conkey))
					WHERE x.position <= i.indnkeyatts ORDER BY x.position) AS columns
				FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
				JOIN pg_am m ON m.oid = x.relam
				WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND m.amname = 'btree'
				AND i.indpred IS NULL AND i.indexprs IS NULL OFFSET 0) AS u
			WHERE cardinality(u.columns) = u.indnkeyatts)) || (
			WITH RECURSIVE tree AS (
				SELECT c.oid AS member
				UNION
				SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.member)
			SELECT jsonb_build_object(
				'size', (SELECT jsonb_build_object('bytes', sum(pg_table_size(r.oid)), 'rows', sum(
					CASE WHEN r.relkind IN ('v', 'f') THEN greatest(r.reltuples, 1000000)
					WHEN r.relpages > 0 AND r.reltuples > 0 THEN r.reltuples / r.relpages
						* (pg_relation_size(r.oid) / current_setting('block_size')::float8)
					ELSE pg_relation_size(r.oid) / 100 END)::bigint)
					FROM tree JOIN pg_class r ON r.oid = tree.member AND r.relkind <> 'p'),
				'versions', NOT EXISTS (SELECT FROM tree JOIN pg_class l ON l.oid = tree.member
					LEFT JOIN pg_am m ON m.oid = l.relam
					WHERE l.relkind <> 'p' AND m.amname IS DISTINCT FROM 'heap'),
				'version_rights', c.relkind IN ('r', 'p', 'm')
					AND (NOT has_any_column_privilege(c.oid, 'SELECT')
					OR (SELECT bool_and(has_column_privilege(c.oid, name, 'SELECT'))
						FROM unnest('{tableoid,ctid,xmin}'::text[]) AS name)),
			@replication@))
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace$q$,
		plain_fingerprint_sql('c.oid'), plain_call('relation_sources(ARRAY[c.oid::regclass])'),
		plain_call('describe_order(u.indexrelid)'), plain_types(),
		-- canonical bytes of char, bit, numeric and their arrays depend on the modifier
		'{1042,1014,1560,1561,1700,1231}');
