-- What a structure consists of -----------------------------------------------------------
--
-- Both sides answer the query of each row.  A query names only what PostgreSQL 14 has.  What
-- a later release added is read through to_jsonb.  Deparsed text is used where all releases
-- print the same, and facts of the catalogs elsewhere.
--
-- A query gives objects: the kind, a name that is unique in it, the relation or publication that
-- it is a part of, the severity of its absence, and its properties.  A property is a text, a
-- number, true where it holds, false or null where there is none, or {"unknown": reason}.  A
-- regular expression finds the word for a letter of the catalogs.
--
-- structure_sql (structure.sql) puts the queries together.  It defines spaces (the schemas that
-- are compared), members (what belongs to an extension), tools (the extensions of an audit),
-- relations and types (those in the schemas), and replaces {owned ACL OWNER TYPE}, {owner OWNER}
-- and {granted ACL OWNER TYPE}, {code c.oid} by whether reading c would run code of another role,
-- and {encoding} by that of who asks.

-- "whole": only if all schemas are compared, because the objects are in none.
CREATE VIEW structure_kinds (kinds, whole, query) AS VALUES

-- What is in a schema speaks for itself.  The tools of an audit, iblt and dblink, and a schema
-- of theirs need not be there.
('schema', false, $q$
	SELECT 'schema', s.name, NULL, 'change', jsonb_build_object(
		'tools', s.oid IN (SELECT e.extnamespace FROM tools e),
		{owned s.nspacl s.nspowner n})
	FROM spaces s WHERE ('pg_namespace'::regclass, s.oid) NOT IN (TABLE members)$q$),

-- Only with rights.
('default rights', false, $q$
	SELECT 'default rights', format('on %s by %I in schema %s', substring('r tables, S sequences, '
			'f functions, T types, L large objects' FROM d.defaclobjtype::text || ' ([a-z ]+)'),
			pg_get_userbyid(d.defaclrole), s.name), NULL, 'change',
		jsonb_build_object({granted d.defaclacl d.defaclrole r})
	FROM pg_default_acl d JOIN spaces s ON s.oid = d.defaclnamespace$q$),

('default rights', true, $q$
	SELECT 'default rights', format('on %s by %I', substring('r tables, S sequences, f functions, '
			'T types, n schemas, L large objects' FROM d.defaclobjtype::text || ' ([a-z ]+)'),
			pg_get_userbyid(d.defaclrole)), NULL, 'change',
		jsonb_build_object({granted d.defaclacl d.defaclrole r})
	FROM pg_default_acl d WHERE d.defaclnamespace = 0$q$),

('table', false, $q$
	SELECT 'composite type', r.object, NULL, 'change', jsonb_build_object(
			'column order', (SELECT jsonb_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
				WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped),
			{owned y.typacl y.typowner T})
	FROM relations r JOIN pg_type y ON y.oid = r.reltype WHERE r.relkind = 'c'
	UNION ALL
	SELECT CASE r.relkind WHEN 'f' THEN 'foreign table' WHEN 'v' THEN 'view'
			WHEN 'm' THEN 'materialized view' ELSE 'table' END,
		r.object, NULL, CASE WHEN r.relkind IN ('r', 'p', 'f') THEN 'danger' ELSE 'change' END,
		jsonb_build_object(
			'column order', (SELECT jsonb_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
				WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped),
			'unlogged', r.relpersistence = 'u',
			'partition key', CASE r.relkind WHEN 'p' THEN pg_get_partkeydef(r.oid) END,
			'partition bound', pg_get_expr(r.relpartbound, r.oid),
			'inherits', (SELECT string_agg(concat(i.inhparent::regclass,
					CASE WHEN i.inhdetachpending THEN ' (detach pending)' END), ', '
					ORDER BY i.inhseqno)
				FROM pg_inherits i WHERE i.inhrelid = r.oid),
			'of type', nullif(r.reloftype, 0)::regtype,
			'row security', nullif(concat_ws(', ', CASE WHEN r.relrowsecurity THEN 'enabled' END,
				CASE WHEN r.relforcerowsecurity THEN 'forced' END), ''),
			'replica identity', CASE r.relreplident WHEN 'n' THEN 'nothing' WHEN 'f' THEN 'full'
				WHEN 'i' THEN coalesce((SELECT x.relname::text FROM pg_index i
					JOIN pg_class x ON x.oid = i.indexrelid
					WHERE i.indrelid = r.oid AND i.indisreplident), 'lost index') END,
			'definition', CASE WHEN r.relkind IN ('v', 'm') THEN pg_get_viewdef(r.oid) END,
			'not populated', NOT r.relispopulated,
			'server', (SELECT concat_ws(' ', s.srvname, f.ftoptions) FROM pg_foreign_table f
				JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE f.ftrelid = r.oid),
			CASE r.relkind WHEN 'v' THEN 'view options' ELSE 'options' END,
				(SELECT string_agg(o, ', ' ORDER BY o COLLATE "C") FROM unnest(r.reloptions) AS o),
			'access method', (SELECT m.amname FROM pg_am m WHERE m.oid = r.relam),
			'tablespace', (SELECT t.spcname FROM pg_tablespace t WHERE t.oid = r.reltablespace),
			{owned r.relacl r.relowner r})
	FROM relations r WHERE r.relkind NOT IN ('S', 'c')$q$),

-- Options that begin with pg_ are the server's own: minor releases of 2026 keep one in each
-- column.
('column', false, $q$
	SELECT 'column', r.object || '.' || quote_ident(a.attname), r.object,
		CASE WHEN r.relkind IN ('r', 'p', 'f') THEN 'danger' ELSE 'change' END,
		jsonb_build_object('type', format_type(a.atttypid, a.atttypmod),
			'collation', CASE WHEN a.attcollation <> t.typcollation
				THEN a.attcollation::regcollation END,
			'not null', CASE WHEN a.attnotnull THEN CASE WHEN EXISTS (SELECT FROM pg_constraint k
					WHERE k.conrelid = r.oid AND k.contype = 'n' AND NOT k.convalidated
					AND k.conkey = ARRAY[a.attnum]) THEN 'not valid' ELSE 'true' END END,
			CASE a.attgenerated WHEN '' THEN 'default' ELSE 'generated' END,
				(SELECT concat(pg_get_expr(d.adbin, d.adrelid),
					CASE a.attgenerated WHEN 's' THEN ' stored' WHEN 'v' THEN ' virtual' END)
				FROM pg_attrdef d WHERE d.adrelid = r.oid AND d.adnum = a.attnum),
			-- PostgreSQL 17 gives partitions that of their parent, which says it
			'identity', CASE WHEN NOT r.relispartition AND a.attidentity <> '' THEN substring(
				'a always, d by default' FROM concat(a.attidentity, ' ([a-z ]+)')) END,
			'inherited', CASE WHEN a.attinhcount > 0
				THEN CASE WHEN a.attislocal THEN 'and local' ELSE 'true' END END,
			'storage', CASE WHEN a.attstorage <> t.typstorage THEN a.attstorage END,
			'compression', nullif(a.attcompression, ''),
			'statistics', nullif(a.attstattarget, -1),
			'options', (SELECT string_agg(o, ', ' ORDER BY o COLLATE "C")
				FROM unnest(a.attoptions) AS o WHERE o !~ '^pg_'),
			'foreign options', a.attfdwoptions::text,
			{granted a.attacl r.relowner c})
	FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0
		AND NOT a.attisdropped JOIN pg_type t ON t.oid = a.atttypid
	WHERE r.relkind <> 'S'$q$),

-- The copies of a foreign key in partitions have other names in other releases, so it tells of
-- their triggers.  Constraints for NOT NULL are properties of columns, which all releases have.
('constraint', false, $q$
	SELECT 'constraint', quote_ident(k.conname) || ' on ' || o.object, o.object, 'danger',
		jsonb_build_object(
			'definition', regexp_replace(pg_get_constraintdef(k.oid),
				'( NOT VALID| NOT ENFORCED)+$', ''),
			'not valid', NOT k.convalidated, 'not enforced', to_jsonb(k) -> 'conenforced' = 'false',
			'triggers', (
				WITH RECURSIVE copy(oid) AS (
					SELECT k.oid
					UNION
					SELECT c.oid FROM copy JOIN pg_constraint c ON c.conparentid = copy.oid
						AND k.contype = 'f')
				SELECT string_agg(DISTINCT concat_ws(' ', substring('D disabled, R replica, '
						'A always' FROM concat(t.tgenabled, ' ([a-z]+)')), 'on',
					t.tgrelid::regclass) COLLATE "C", ', ')
				FROM copy JOIN pg_trigger t ON t.tgconstraint = copy.oid AND t.tgenabled <> 'O'),
			'invalid index', NOT (i.indisvalid AND i.indisready), 'clustered', i.indisclustered,
			'options', array_to_string(x.reloptions, ', '),
			'tablespace', (SELECT t.spcname FROM pg_tablespace t WHERE t.oid = x.reltablespace))
	FROM (SELECT r.oid, 0, r.object FROM relations r UNION ALL SELECT 0, t.oid, t.object
		FROM types t) AS o(relid, typid, object)
	JOIN pg_constraint k ON k.conrelid = o.relid AND k.contypid = o.typid
	LEFT JOIN pg_index i ON i.indexrelid = k.conindid AND k.contype IN ('p', 'u', 'x')
	LEFT JOIN pg_class x ON x.oid = i.indexrelid
	WHERE k.contype NOT IN ('n', 't') AND NOT (k.contype = 'f' AND k.conparentid <> 0)$q$),

('index', false, $q$
	SELECT 'index', quote_ident(x.relname) || ' on ' || r.object, r.object,
		CASE WHEN i.indisunique THEN 'danger' ELSE 'change' END,
		jsonb_build_object('method', m.amname, 'unique', i.indisunique,
			'nulls not distinct', to_jsonb(i) -> 'indnullsnotdistinct',
			'columns', (SELECT string_agg(concat_ws(' ',
					pg_get_indexdef(i.indexrelid, k.n::int, false),
					'COLLATE ' || nullif(k.coll, 0)::regcollation::text,
					(SELECT concat(o.opcnamespace::regnamespace, '.', quote_ident(o.opcname))
						FROM pg_opclass o WHERE o.oid = k.class),
					(SELECT string_agg(o, ', ' ORDER BY o COLLATE "C")
						FROM pg_attribute a, unnest(a.attoptions) AS o
						WHERE a.attrelid = i.indexrelid AND a.attnum = k.n AND o !~ '^pg_'),
					CASE WHEN k.flags & 1 = 1 THEN 'DESC' END,
					CASE WHEN k.flags & 2 = 2 THEN 'NULLS FIRST' END,
					CASE WHEN k.n > i.indnkeyatts THEN 'INCLUDE' END), ', ' ORDER BY k.n)
				FROM unnest(i.indkey::int2[], i.indclass::oid[], i.indcollation::oid[],
					i.indoption::int2[]) WITH ORDINALITY AS k(attnum, class, coll, flags, n)),
			'where', pg_get_expr(i.indpred, i.indrelid),
			'invalid', NOT (i.indisvalid AND i.indisready), 'clustered', i.indisclustered,
			'options', array_to_string(x.reloptions, ', '),
			'tablespace', (SELECT t.spcname FROM pg_tablespace t WHERE t.oid = x.reltablespace))
	FROM relations r JOIN pg_index i ON i.indrelid = r.oid
	JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
	WHERE NOT EXISTS (SELECT FROM pg_constraint k
		WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))$q$),

-- Live digests are not part of a structure.
('trigger', false, $q$
	SELECT 'trigger', quote_ident(t.tgname) || ' on ' || r.object, r.object, 'danger',
		jsonb_build_object('definition', pg_get_triggerdef(t.oid, false), 'enabled', substring(
			'O true, D false, R replica, A always' FROM concat(t.tgenabled, ' ([a-z]+)')))
	FROM relations r JOIN pg_trigger t ON t.tgrelid = r.oid
	WHERE @user_trigger@
	AND t.tgfoid NOT IN (SELECT d.objid FROM pg_depend d JOIN tools e ON e.oid = d.refobjid
		WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e')$q$),

('rule', false, $q$
	SELECT 'rule', quote_ident(w.rulename) || ' on ' || r.object, r.object, 'danger',
		jsonb_build_object('definition', pg_get_ruledef(w.oid), 'enabled', substring(
			'O true, D false, R replica, A always' FROM concat(w.ev_enabled, ' ([a-z]+)')))
	FROM relations r JOIN pg_rewrite w ON w.ev_class = r.oid AND w.rulename <> '_RETURN'$q$),

('policy', false, $q$
	SELECT 'policy', quote_ident(p.polname) || ' on ' || r.object, r.object, 'danger',
		jsonb_build_object(
			'kind', CASE WHEN p.polpermissive THEN 'permissive' ELSE 'restrictive' END,
			'command', coalesce(substring('r SELECT, a INSERT, w UPDATE, d DELETE'
				FROM concat('[', p.polcmd, '] ([A-Z]+)')), 'ALL'),
			'roles', (SELECT string_agg(name, ', ' ORDER BY name COLLATE "C")
				FROM unnest(p.polroles) AS o, LATERAL (SELECT CASE o WHEN 0 THEN 'PUBLIC'
					ELSE quote_ident(pg_get_userbyid(o)) END) AS y(name)),
			'using', pg_get_expr(p.polqual, p.polrelid),
			'check', pg_get_expr(p.polwithcheck, p.polrelid))
	FROM relations r JOIN pg_policy p ON p.polrelid = r.oid$q$),

-- What was reached is the greatest value, or the least for a descending sequence, in the
-- columns that own the sequence or have it in their default.  The naming is that of
-- repair_naming.  nextval logs up to 32 values
-- ahead, and a standby shows what was logged.
('sequence', false, $q$
	SELECT 'sequence', r.object, NULL, 'danger', jsonb_build_object(
		'type', format_type(q.seqtypid, NULL), 'start', q.seqstart, 'increment', q.seqincrement,
		'minimum', q.seqmin, 'maximum', q.seqmax, 'cycle', q.seqcycle, 'cache', q.seqcache,
		'unlogged', r.relpersistence = 'u', 'owned by', o.owner, 'numbers', o.names,
		'reached', o.reached,
		'next value', CASE WHEN y.problem IS NOT NULL THEN jsonb_build_object('unknown', y.problem)
			ELSE to_jsonb(split_part(w.state, ' ', 1)::numeric) END,
		'naming', (SELECT concat_ws(' ', r.oid, n.oid, n.xmin, n.ctid) FROM pg_namespace n
			WHERE n.oid = r.relnamespace),
		'logged', split_part(w.state, ' ', 2)::numeric,
		'logged ahead', pg_is_in_recovery() AND split_part(w.state, ' ', 3) = 't',
		{owned r.relacl r.relowner s})
	FROM relations r JOIN pg_sequence q ON q.seqrelid = r.oid, LATERAL (SELECT CASE
			WHEN NOT (has_schema_privilege(r.relnamespace, 'USAGE')
				AND has_sequence_privilege(r.oid, 'SELECT')) THEN 'no right to read the sequence'
			WHEN r.relpersistence = 'u' AND pg_is_in_recovery() THEN 'unlogged, on a standby' END)
		AS y(problem), LATERAL (SELECT CASE WHEN y.problem IS NULL THEN substring(
			query_to_xml(format('SELECT concat_ws('' '', next, next'
				' + log_cnt * %1$s::numeric, is_called) AS v FROM (SELECT *, last_value'
				' + CASE WHEN is_called THEN %1$s ELSE 0 END::numeric AS next FROM %2$s) AS s',
				q.seqincrement, r.object), false, false, '')::text FROM '<v>([^<]*)</v>')
			END) AS w(state), LATERAL (
		SELECT string_agg(x.name, ', ' ORDER BY x.name COLLATE "C") FILTER (WHERE d.owns) AS owner,
			string_agg(x.name, ', ' ORDER BY x.name COLLATE "C") FILTER (WHERE z.counts) AS names,
			CASE WHEN bool_or(NOT x.readable)
				THEN '{"unknown": "a column that it numbers cannot be read, or only by running'
					' code of another role"}'
			ELSE to_jsonb(CASE WHEN q.seqincrement > 0 THEN max(v.v) ELSE min(v.v) END)
			END AS reached
		FROM (SELECT u.relid, u.attnum, bool_or(u.owns) FROM (
				SELECT p.refobjid, p.refobjsubid, true FROM pg_depend p
				WHERE p.classid = 'pg_class'::regclass AND p.objid = r.oid
				AND p.refclassid = 'pg_class'::regclass AND p.refobjsubid > 0
				AND p.deptype IN ('a', 'i')
				UNION ALL
				SELECT f.adrelid, f.adnum, false
				FROM pg_depend p JOIN pg_attrdef f ON f.oid = p.objid
				WHERE p.classid = 'pg_attrdef'::regclass AND p.refobjid = r.oid
				AND p.refclassid = 'pg_class'::regclass) AS u(relid, attnum, owns)
			GROUP BY u.relid, u.attnum) AS d(relid, attnum, owns)
		JOIN pg_class c ON c.oid = d.relid JOIN pg_attribute a ON a.attrelid = c.oid
			AND a.attnum = d.attnum JOIN pg_type t ON t.oid = a.atttypid,
		LATERAL (SELECT concat(c.relnamespace::regnamespace, '.', quote_ident(c.relname)),
			t.typoutput IN ('int2out'::regproc, 'int4out'::regproc, 'int8out'::regproc,
				'numeric_out'::regproc)) AS z(relation, counts),
		LATERAL (SELECT z.relation || '.' || quote_ident(a.attname),
			-- NULL for a column that does not count
			CASE WHEN z.counts THEN has_schema_privilege(c.relnamespace, 'USAGE')
				AND has_column_privilege(c.oid, a.attnum, 'SELECT')
				AND NOT row_security_active(c.oid) AND NOT {code c.oid} AND NOT EXISTS (
					WITH RECURSIVE tree AS (SELECT c.oid UNION SELECT i.inhrelid
						FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid)
					SELECT FROM tree JOIN pg_class b ON b.oid = tree.oid
					WHERE b.relkind NOT IN ('r', 'p')
					OR b.relpersistence = 'u' AND pg_is_in_recovery()) END OFFSET 0)
			AS x(name, readable),
		LATERAL (SELECT CASE WHEN x.readable THEN substring(query_to_xml(format(
			'SELECT %s(%I) AS v FROM %s', CASE WHEN q.seqincrement > 0 THEN 'max' ELSE 'min' END,
			a.attname, z.relation), false, false, '')::text FROM '<v>([^<]*)</v>')::numeric END)
			AS v(v)) AS o
	WHERE r.relkind = 'S'$q$),

-- md5 is not there in all builds.
('function', false, $q$
	SELECT CASE p.prokind WHEN 'p' THEN 'procedure' WHEN 'a' THEN 'aggregate' ELSE 'function' END,
		format('%s.%I(%s)', s.name, p.proname, pg_get_function_identity_arguments(p.oid)), NULL,
		'danger', jsonb_build_object(
			'arguments', pg_get_function_arguments(p.oid),
			'returns', pg_get_function_result(p.oid), 'language', l.lanname,
			'source', CASE WHEN p.prosqlbody IS NULL THEN left(encode(sha256(convert_to(
				concat_ws(' ', p.prosrc, p.probin), CASE getdatabaseencoding()
				WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END)), 'hex'), 32) END,
			-- to be shown, if no encoding stands between, and if it may be
			'source text', (SELECT y.said FROM concat_ws(' ', p.prosrc, p.probin) AS y(said)
				WHERE p.prosqlbody IS NULL AND length(y.said) < 30000
				AND (getdatabaseencoding() = {encoding} AND {encoding} <> 'SQL_ASCII'
					OR y.said !~ '[^\x01-\x7f]') AND y.said !~* 'passw|pwd|secret|://[^ ]*@'),
			'body', pg_get_function_sqlbody(p.oid),
			'aggregate', (SELECT concat_ws(' ', g.aggkind, g.aggnumdirectargs, g.aggtransfn,
					g.aggfinalfn, g.aggcombinefn, g.aggserialfn, g.aggdeserialfn, g.aggmtransfn,
					g.aggminvtransfn, g.aggmfinalfn, g.aggfinalextra, g.aggmfinalextra,
					g.aggfinalmodify, g.aggmfinalmodify, nullif(g.aggsortop, 0)::regoperator,
					g.aggtranstype::regtype, g.aggtransspace, nullif(g.aggmtranstype, 0)::regtype,
					g.aggmtransspace, quote_nullable(g.agginitval), quote_nullable(g.aggminitval))
				FROM pg_aggregate g WHERE g.aggfnoid = p.oid),
			'volatility', substring('immutable stable volatile'
				FROM concat(p.provolatile, '[a-z]+')), 'strict', p.proisstrict,
			'window', p.prokind = 'w', 'security definer', p.prosecdef, 'leakproof', p.proleakproof,
			'settings', array_to_string(p.proconfig, ', '), 'transforms', (SELECT string_agg(
				format_type(o, NULL), ', ' ORDER BY n) FROM unnest(p.protrftypes)
				WITH ORDINALITY AS u(o, n)),
			'parallel', substring('safe restricted unsafe' FROM concat(p.proparallel, '[a-z]+')),
			'cost', p.procost, 'rows', p.prorows, 'support', nullif(p.prosupport, 0)::regproc,
			{owned p.proacl p.proowner f})
	FROM pg_proc p JOIN spaces s ON s.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
	WHERE ('pg_proc'::regclass, p.oid) NOT IN (TABLE members)
	-- those of a range come with it
	AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass
		AND d.objid = p.oid AND d.deptype = 'i' AND d.refclassid = 'pg_type'::regclass)$q$),

('type', false, $q$
	SELECT CASE t.typtype WHEN 'e' THEN 'enum' WHEN 'd' THEN 'domain' WHEN 'r' THEN 'range'
			ELSE 'type' END, t.object, NULL, 'danger', jsonb_build_object(
			'labels', (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
				FROM pg_enum e WHERE e.enumtypid = t.oid),
			'type', CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod) END,
			'not null', t.typnotnull,
			'default', CASE t.typtype WHEN 'd' THEN pg_get_expr(t.typdefaultbin, 0)
				ELSE t.typdefault END,
			'collation', CASE WHEN t.typtype = 'd' AND t.typcollation <> (SELECT b.typcollation
				FROM pg_type b WHERE b.oid = t.typbasetype) THEN t.typcollation::regcollation END,
			'definition', CASE t.typtype WHEN 'r' THEN (
				SELECT concat_ws(' ', g.rngsubtype::regtype,
					nullif(g.rngcollation, 0)::regcollation,
					(SELECT o.opcname FROM pg_opclass o WHERE o.oid = g.rngsubopc),
					nullif(g.rngcanonical, 0)::regproc, nullif(g.rngsubdiff, 0)::regproc,
					g.rngmultitypid::regtype)
				FROM pg_range g WHERE g.rngtypid = t.oid)
				WHEN 'b' THEN concat_ws(' ', t.typinput, t.typoutput, t.typreceive, t.typsend,
					t.typlen, t.typbyval, t.typalign, t.typstorage, t.typelem::regtype, t.typdelim,
					t.typcategory, t.typispreferred, t.typmodin, t.typmodout) END,
			{owned t.typacl t.typowner T})
	FROM types t WHERE t.typtype IN ('e', 'd', 'r')
	OR t.typtype = 'b' AND NOT EXISTS (SELECT FROM pg_type e WHERE e.typarray = t.oid)$q$),

-- Of these, little more than the names is compared.
('other', false, $q$
	SELECT i.type, i.identity, NULL, CASE i.type WHEN 'collation' THEN 'danger' ELSE 'change' END,
		jsonb_build_object('definition', x.definition, {owner x.owner})
	FROM (SELECT 'pg_collation'::regclass, c.oid, c.collnamespace, c.collowner,
			concat_ws(' ', c.collprovider,
			c.collisdeterministic, replace(lower(coalesce(c.collcollate, '')), '-', ''),
			replace(lower(coalesce(c.collctype, '')), '-', ''), coalesce(j ->> 'colllocale',
				j ->> 'colliculocale'), j ->> 'collicurules')
			FROM pg_collation c, LATERAL (SELECT to_jsonb(c)) AS y(j)
			WHERE c.collnamespace IN (SELECT s.oid FROM spaces s)
		UNION ALL SELECT 'pg_statistic_ext'::regclass, e.oid, e.stxnamespace, e.stxowner,
			concat_ws(' ', pg_get_statisticsobjdef(e.oid), nullif(to_jsonb(e) ->> 'stxstattarget',
			'-1')) FROM pg_statistic_ext e
		UNION ALL SELECT 'pg_operator'::regclass, o.oid, o.oprnamespace, o.oprowner,
			concat_ws(' ', o.oprcode, o.oprresult::regtype, o.oprrest, o.oprjoin, o.oprcanmerge,
			o.oprcanhash, nullif(o.oprcom, 0)::regoperator,
			'negator ' || nullif(o.oprnegate, 0)::regoperator::text)
			FROM pg_operator o WHERE o.oprnamespace IN (SELECT s.oid FROM spaces s)
		UNION ALL SELECT 'pg_opclass'::regclass, oid, opcnamespace, opcowner, NULL FROM pg_opclass
		UNION ALL SELECT 'pg_opfamily'::regclass, oid, opfnamespace, opfowner, NULL FROM pg_opfamily
		UNION ALL SELECT 'pg_conversion'::regclass, oid, connamespace, conowner, concat_ws(' ',
			pg_encoding_to_char(conforencoding), pg_encoding_to_char(contoencoding), conproc,
			condefault) FROM pg_conversion
		UNION ALL SELECT 'pg_ts_config'::regclass, oid, cfgnamespace, cfgowner, NULL
			FROM pg_ts_config
		UNION ALL SELECT 'pg_ts_dict'::regclass, d.oid, d.dictnamespace, d.dictowner, concat_ws(' ',
			(SELECT t.tmplname FROM pg_ts_template t WHERE t.oid = d.dicttemplate),
			d.dictinitoption) FROM pg_ts_dict d)
		AS x(classid, objid, namespace, owner, definition)
	JOIN spaces s ON s.oid = x.namespace,
	LATERAL pg_identify_object(x.classid, x.objid, 0) AS i
	WHERE (x.classid, x.objid) NOT IN (TABLE members)$q$),

('global', true, $q$
	SELECT i.type, i.identity, NULL, 'change',
		jsonb_build_object('definition', x.definition, 'enabled', x.enabled, {owner x.owner})
	FROM (SELECT 'pg_event_trigger'::regclass, e.oid, concat_ws(' ', e.evtevent,
			e.evtfoid::regproc, e.evttags), substring('O true, D false, R replica, A always'
			FROM concat(e.evtenabled, ' ([a-z]+)')), e.evtowner FROM pg_event_trigger e
		UNION ALL SELECT 'pg_cast'::regclass, c.oid, concat_ws(' ', c.castcontext, c.castmethod,
			nullif(c.castfunc, 0)::regprocedure), NULL, NULL FROM pg_cast c)
		AS x(classid, objid, definition, enabled, owner),
	LATERAL pg_identify_object(x.classid, x.objid, 0) AS i
	WHERE x.objid >= 16384 AND NOT EXISTS (SELECT FROM pg_depend d
		WHERE d.classid = x.classid AND d.objid = x.objid AND d.deptype IN ('e', 'i'))$q$),

('language', true, $q$
	SELECT 'language', quote_ident(l.lanname), NULL, 'change', jsonb_build_object(
		'trusted', l.lanpltrusted, 'handler', nullif(l.lanplcallfoid, 0)::regproc,
		{owned l.lanacl l.lanowner l})
	FROM pg_language l WHERE l.lanname NOT IN ('internal', 'c')$q$),

('extension', true, $q$
	SELECT 'extension', quote_ident(e.extname), NULL, 'change',
		jsonb_build_object('version', e.extversion, 'schema', e.extnamespace::regnamespace)
	FROM pg_extension e WHERE e.oid NOT IN (SELECT t.oid FROM tools t)$q$),

-- The view's columns are not the same in all releases.  Which generated columns it names
-- differs, too.
('publication', true, $q$
	SELECT 'publication', quote_ident(p.pubname), NULL, 'change', jsonb_build_object(
		'all tables', p.puballtables,
		'operations', concat_ws(', ', CASE WHEN p.pubinsert THEN 'insert' END,
			CASE WHEN p.pubupdate THEN 'update' END, CASE WHEN p.pubdelete THEN 'delete' END,
			CASE WHEN p.pubtruncate THEN 'truncate' END),
		'via root', p.pubviaroot, 'generated columns', nullif(to_jsonb(p) ->> 'pubgencols', 'n'),
		'all sequences', to_jsonb(p) -> 'puballsequences',
		'schemas', CASE WHEN to_regclass('pg_catalog.pg_publication_namespace') IS NOT NULL THEN
			substring(query_to_xml(format('SELECT string_agg(quote_ident(n.nspname), %L'
				' ORDER BY n.nspname) AS v FROM pg_publication_namespace s JOIN pg_namespace n'
				' ON n.oid = s.pnnspid WHERE s.pnpubid = %s', ', ', p.oid), false, false, '')::text
				FROM '<v>([^<]*)</v>') END, {owner p.pubowner})
	FROM pg_publication p
	UNION ALL
	SELECT 'published table', format('%s in %I', y.name, t.pubname),
		format('publication %I', t.pubname), 'change', jsonb_build_object(
			'filter', y.j ->> 'rowfilter',
			-- NULL: it is named itself, or all tables are published
			'through', CASE WHEN NOT p.puballtables THEN (
				SELECT CASE count(*) WHEN 0 THEN 'its schema' ELSE nullif(string_agg(concat_ws(' ',
					CASE WHEN r.prrelid <> c.oid THEN r.prrelid::regclass END,
					CASE WHEN to_jsonb(r) ->> 'prattrs' IS NOT NULL THEN 'with a list of columns'
						END), ', ' ORDER BY r.prrelid::regclass::text COLLATE "C"), '') END
				FROM pg_publication_rel r WHERE r.prpubid = p.oid AND (r.prrelid = c.oid
					OR r.prrelid IN (SELECT pg_partition_ancestors(c.oid)))) END,
			'columns left out', (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
				FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
				AND a.attgenerated = '' AND NOT coalesce(nullif(y.j -> 'attnames', 'null')
					? a.attname::text, true)))
	FROM pg_publication_tables t JOIN pg_publication p ON p.pubname = t.pubname
	JOIN pg_namespace n ON n.nspname = t.schemaname
	JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename, LATERAL (
		SELECT to_jsonb(t), format('%I.%I', t.schemaname, t.tablename)) AS y(j, name)$q$),

-- Names of locales are written in several ways.
('database', true, $q$
	SELECT 'database', 'this database', NULL, 'change', jsonb_build_object(
		'encoding', getdatabaseencoding(),
		'collation', concat_ws(' ', coalesce(j ->> 'datlocprovider', 'c'),
			replace(lower(d.datcollate::text), '-', ''), coalesce(j ->> 'datlocale',
				j ->> 'daticulocale'), j ->> 'daticurules'),
		'character type', replace(lower(d.datctype::text), '-', ''),
		'connection limit', nullif(d.datconnlimit, -1),
		{owned d.datacl d.datdba d})
		|| (SELECT coalesce(jsonb_object_agg('setting ' || split_part(c, '=', 1)
				|| CASE WHEN r.setrole <> 0 THEN ' of ' || quote_ident(pg_get_userbyid(r.setrole))
					ELSE '' END, substr(c, strpos(c, '=') + 1)), '{}')
			FROM pg_db_role_setting r, unnest(r.setconfig) AS c WHERE r.setdatabase = d.oid)
	FROM pg_database d, LATERAL (SELECT to_jsonb(d)) AS y(j)
	WHERE d.datname = current_database()$q$);

GRANT SELECT ON structure_kinds TO PUBLIC;
