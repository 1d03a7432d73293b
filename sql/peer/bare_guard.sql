-- Code of other roles on a peer without iblt ---------------------------------------------
--
-- There is nothing on such a peer that refuses a call (src/relation/guard.c).  So each message
-- that reads first locks its relation, and makes sure under the lock that it is what was
-- described, and that reading it calls nothing of other roles.  From PostgreSQL 14.13, 15.8
-- and 16.4 on, the server itself refuses views and foreign tables that were not asked for.
-- No pattern has a backslash, because standard_conforming_strings may be off there.

-- A query that tells whether reading a relation, whose OID is the expression id, would call a
-- function of another role: if the planner calls it, or a view of another role calls it, or
-- calls a volatile one.
-- The planner evaluates calls without a column in indexes, statistics and partition keys.  "t" is
-- the text of an expression whose nodes are in braces.  Names in it, as of arguments, have a
-- backslash before braces, parentheses and blanks, which are taken out.  In each round, an
-- innermost node becomes )V( if a column is in it, which no such text has.
-- The text of a view's rule has all functions that it calls, but not those of a domain's
-- constraints.  So a view that makes values of a type that may have some is refused.  A function of
-- an extension may run a query that it is given, as crosstab does, unless it is immutable.
-- table_to_xml and its like read any relation.  Where a view compares ranges, the planner asks a
-- function of their type how far bounds are apart.
CREATE FUNCTION plain_code_sql(id text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format($q$
		WITH RECURSIVE function(oid) AS (
			SELECT p.oid FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
			WHERE p.oid >= 16384 AND NOT r.rolsuper AND r.rolname <> current_user
		), source(ids) AS MATERIALIZED (
			SELECT (%s)::oid[]
		), expression(t) AS (
			SELECT concat(i.indexprs::text, i.indpred::text) FROM source, pg_index i
			WHERE i.indrelid = ANY (ids) AND num_nonnulls(i.indexprs, i.indpred) > 0
			UNION ALL
			SELECT s.stxexprs::text FROM source, pg_statistic_ext s
			WHERE s.stxrelid = ANY (ids) AND s.stxexprs IS NOT NULL
			UNION ALL
			SELECT p.partexprs::text FROM source, pg_partitioned_table p
			WHERE p.partrelid = ANY (ids) AND p.partexprs IS NOT NULL
		), called(ids) AS (
			SELECT string_agg(DISTINCT m[1], '|') FROM expression, function,
				regexp_matches(t, ':(?:op)?funcid ([0-9]+) ', 'g') AS m
			WHERE m[1] = function.oid::text
		), step(t, calls) AS (
			SELECT regexp_replace(regexp_replace(t, concat(chr(92), chr(92), '.'), '_', 'g'),
				'[{]VAR [^{}]*[}]', ')V(', 'g'), false FROM expression, called
			WHERE ids IS NOT NULL
			UNION ALL
			SELECT regexp_replace(regexp_replace(t, '[{][^{}]*[)]V[(][^{}]*[}]', ')V(', 'g'),
					'[{][^{}]*[}]', '_', 'g'),
				EXISTS (SELECT FROM regexp_matches(t, '[{][^{}]*[}]', 'g') AS m
					WHERE m[1] !~ '[)]V[(]' AND m[1] ~ concat(':(op)?funcid (', ids, ') '))
			FROM step, called WHERE t ~ '[{][^{}]*[}]' AND NOT calls
		), rule(action) AS (
			SELECT r.ev_action::text FROM source, pg_class v JOIN pg_rewrite r ON r.ev_class = v.oid
			JOIN pg_roles o ON o.oid = v.relowner
			WHERE v.oid = ANY (ids) AND v.relkind = 'v'
				AND NOT o.rolsuper AND o.rolname <> current_user
		), read(type) AS (
			SELECT a.atttypid FROM source, pg_attribute a WHERE a.attrelid = ANY (ids)
				AND EXISTS (SELECT FROM pg_class v WHERE v.oid = ANY (ids) AND v.relkind = 'v')
			UNION
			SELECT t.typbasetype FROM read JOIN pg_type t ON t.oid = read.type AND t.typtype = 'd'
		)
		SELECT EXISTS (SELECT FROM step WHERE calls)
			OR EXISTS (SELECT FROM read JOIN pg_range r ON type IN (r.rngtypid, r.rngmultitypid)
				JOIN function ON function.oid = r.rngsubdiff)
			OR EXISTS (SELECT FROM rule, regexp_matches(action,
					':(?:resulttype|funcresulttype|opresulttype|consttype|typid) ([0-9]+) '
						'|:(?:funccoltypes|coltypes) [(]o ([0-9 ]+)[)]', 'g') AS m,
				regexp_split_to_table(concat(m[1], m[2]), ' ') AS id
				JOIN pg_type t ON t.oid = id::oid AND t.oid >= 16384
				LEFT JOIN pg_type e ON e.oid = t.typelem
				WHERE t.typtype IN ('c', 'd', 'm', 'r') OR e.typtype IN ('c', 'd', 'm', 'r'))
			OR EXISTS (SELECT FROM rule WHERE action ~ '[{]COERCETODOMAIN ')
			OR EXISTS (SELECT FROM rule, regexp_matches(action,
					':(?:funcid|opfuncid|aggfnoid|winfnoid) ([0-9]+) ', 'g') AS m
				JOIN pg_proc p ON p.oid = m[1]::oid
				WHERE p.provolatile = 'v' OR p.oid >= 16384 AND p.provolatile <> 'i'
					OR p.proname ~ '^(table|schema|database)_to_xml'
					OR p.oid IN (SELECT oid FROM function))$q$,
		plain_call(format('relation_sources(ARRAY[(%s)::regclass])', id)));

-- A statement of PL/pgSQL that locks relations until the transaction ends, and raises an error if
-- one is not what was described, or the planner would call code of other roles.  Without a
-- fingerprint, any relation will do.
-- PREPARE takes the lock that a query takes, needs no right, and calls nothing.  The name is
-- looked up before, so that it is not prepared in vain, and after that once more.  The question of
-- code takes long to plan, and is put only of a view, or where other roles have functions.
-- A loop, because what it does is planned once for all relations of a message.
CREATE FUNCTION plain_lock_sql(described described[]) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL SAFE
	RETURN (SELECT format($q$
		DECLARE
			iblt_d record;
		BEGIN
			FOR iblt_d IN SELECT * FROM (VALUES %1$s)
					AS d(n, relation, side, server, fingerprint, name),
					generate_series(1, 2) AS look ORDER BY n, look LOOP
				IF (iblt_d.server = extract(epoch FROM pg_postmaster_start_time())::text
						AND left(%2$s, 32) LIKE coalesce(iblt_d.fingerprint, '%%')) IS NOT TRUE THEN
					RAISE SQLSTATE 'IB004' USING MESSAGE = concat('relation ',
						iblt_d.relation, ' was altered while it was compared (', iblt_d.side, ')'),
						HINT = 'Compare when no other session alters, renames or drops it.';
				ELSIF iblt_d.look = 1 THEN
					EXECUTE concat('PREPARE ', iblt_d.name, ' AS SELECT FROM ', iblt_d.relation);
					EXECUTE concat('DEALLOCATE ', iblt_d.name);
				ELSIF EXISTS (SELECT FROM pg_class
						WHERE oid = to_regclass(iblt_d.relation) AND relkind = 'v')
					OR EXISTS (SELECT FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
						WHERE p.oid >= 16384 AND NOT r.rolsuper AND r.rolname <> current_user) THEN
					IF (%3$s) THEN
						RAISE insufficient_privilege USING
							MESSAGE = concat('refusing to read ', iblt_d.relation),
							DETAIL = 'An index, statistics, a partition key or a view would run '
								'code of another role.',
							HINT = 'Install iblt there, or compare as that role.';
					END IF;
				END IF;
			END LOOP;
		END;$q$,
		string_agg(format('(%s, %L, %L, %L, %L, %L)', n, d.relation, d.side, d.server,
			d.fingerprint, format('"iblt_%s"', gen_random_uuid())), ', '),
		plain_fingerprint_sql('to_regclass(iblt_d.relation)::oid'),
		plain_code_sql('to_regclass(iblt_d.relation)'))
	FROM unnest(described)
		WITH ORDINALITY AS d(place, side, relation, server, fingerprint, views, n));
