-- What describes a relation ---------------------------------------------------------------
--
-- PL/pgSQL plans a query once for all tables of an audit.  iblt_describe is in C, because a new
-- session would plan a query for each catalog.

-- What the catalogs say of a relation; NULL if it does not exist.  If "more" is true, describe()
-- has to look further.
CREATE FUNCTION iblt_describe(relation regclass, ordered_types oid[]) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;

-- Gives iblt_compare_fingerprint its second argument.
CREATE FUNCTION iblt_compare_fingerprint_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- A hash of the identity of a relation and of its columns, as the statement that calls it
-- reads them.  The planner gives what it reads with the relation.
CREATE FUNCTION iblt_compare_fingerprint(relation regclass, planned text DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE
	SUPPORT iblt_compare_fingerprint_support;

-- The type of an expression on the rows of a relation, the collations that it depends on, 0 for
-- the encoding, its columns, and the enums whose order it depends on; an error unless it depends on
-- the row alone, or is a condition and not true or false.  If portable, an error also unless it
-- means the same on any server whose columns have the same types.
CREATE FUNCTION iblt_compare_check_expression(relation regclass, expression text,
	is_condition boolean, portable boolean DEFAULT false, OUT type oid, OUT base oid,
	OUT typmod integer, OUT collations oid[], OUT columns text[], OUT enums oid[]) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
	SET search_path = iblt_internal, pg_catalog, pg_temp;

-- A function of another user that a value of the type would run on its way to json or text.
-- to_jsonb looks for casts to json of elements and fields too, and a cast to text for
-- one of the column's type.  A superuser's functions are trusted, and one's own.
CREATE FUNCTION describe_cast_code(type oid, target regtype) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (WITH RECURSIVE part(oid) AS (
			SELECT type
			UNION
			SELECT x.oid FROM part JOIN pg_type t ON t.oid = part.oid, LATERAL (
				SELECT t.typbasetype WHERE t.typtype = 'd'
				UNION ALL
				SELECT t.typelem WHERE target = 'json'::regtype
				UNION ALL
				SELECT a.atttypid FROM pg_attribute a
					WHERE target = 'json'::regtype AND a.attrelid = t.typrelid) AS x(oid)
			WHERE x.oid >= 16384
		)
		SELECT min(p.oid::regprocedure::text)
		FROM part JOIN pg_cast c ON c.castsource = part.oid AND c.casttarget = target
		JOIN pg_proc p ON p.oid = c.castfunc JOIN pg_roles r ON r.oid = p.proowner
		WHERE NOT r.rolsuper AND r.rolname <> current_user);
END
$$;

-- A relation, its partitions and all others that inherit from it.
CREATE FUNCTION relation_tree(relation regclass) RETURNS TABLE (relid oid)
	LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 1
AS $$
BEGIN
	RETURN QUERY WITH RECURSIVE tree AS (
		SELECT relation::oid AS member
		UNION
		SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.member
	)
	SELECT member FROM tree;
END
$$;

-- Relations and all that their rows may come from, in the order of their OIDs: partitions,
-- children, and what a view reads.
-- A peer without iblt is asked for its body (plain_call).
CREATE FUNCTION relation_sources(relations regclass[]) RETURNS oid[]
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	WITH RECURSIVE source AS (
		SELECT unnest(relations)::oid AS member
		UNION
		SELECT x.member FROM source, LATERAL (
			SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = source.member
			UNION ALL
			SELECT d.refobjid FROM pg_class v JOIN pg_rewrite r ON r.ev_class = v.oid
				JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
					AND d.refclassid = 'pg_class'::regclass
				WHERE v.oid = source.member AND v.relkind = 'v') AS x(member)
	)
	SELECT ARRAY(SELECT member FROM source ORDER BY 1)
$$;

-- Slots of this database, and the subscriptions that feed a relation or a part of it.
CREATE FUNCTION describe_replication(relation regclass) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
AS $$
BEGIN
	-- the views below take long to plan, and most servers have nothing in them
	IF NOT EXISTS (SELECT FROM pg_get_replication_slots())
			AND NOT EXISTS (SELECT FROM pg_subscription_rel) THEN
		RETURN '{"slots": [], "subscriptions": []}';
	END IF;
	RETURN (SELECT jsonb_build_object(
			-- a standby's copies of its primary's slots (from 17 on) say nothing of itself
			'slots', (SELECT coalesce(jsonb_agg(s.slot_name), '[]') FROM pg_replication_slots s
				WHERE s.slot_type = 'logical' AND s.database = current_database()
				AND NOT (pg_is_in_recovery()
					AND coalesce((to_jsonb(s) ->> 'synced')::boolean, false))),
			'subscriptions', (SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object(
					'name', s.subname, 'slot', s.subslotname,
					'ready', r.srsubstate = 'r' AND s.subenabled)), '[]')
				FROM pg_subscription_rel r
				JOIN pg_stat_subscription st ON st.subid = r.srsubid
				JOIN pg_subscription s ON s.subname = st.subname AND s.subslotname IS NOT NULL
					AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
				WHERE r.srrelid IN (SELECT relid FROM relation_tree(relation)
					UNION ALL SELECT relid FROM pg_partition_ancestors(relation)))));
END
$$;

-- The version of the collation of this database, given as its row of pg_database.
CREATE FUNCTION describe_own_collation(own jsonb) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF current_setting('server_version_num')::integer >= 150000 THEN
		RETURN pg_database_collation_actual_version((own ->> 'oid')::oid);
	END IF;
	RETURN (SELECT max(pg_collation_actual_version(c.oid)) FROM pg_collation c
		WHERE c.collprovider = 'c' AND c.collcollate = own ->> 'datcollate');
END
$$;

-- Provider, locale, version and rules of collations, as an array.  OID 0 stands for the encoding.
-- The database's own collation has OID 100.  "C" and "POSIX" order by bytes everywhere, which
-- in UTF-8 and LATIN1 is the order of characters in Unicode.
-- Some columns have other names, or are not there, in other releases.
CREATE FUNCTION describe_collations(collations oid[]) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	own jsonb := (SELECT to_jsonb(d) FROM pg_database d WHERE d.datname = current_database());
	encoding text := getdatabaseencoding();
BEGIN
	IF collations = '{}' THEN
		RETURN '[]';
	END IF;
	RETURN CASE WHEN 0 = ANY(collations) THEN jsonb_build_array('encoding ' || encoding)
		ELSE '[]' END || (SELECT coalesce(jsonb_agg(DISTINCT CASE
			WHEN sorts IN ('C', 'POSIX') AND folds IN ('C', 'POSIX')
				THEN concat_ws(' ', 'C', nullif(nullif(encoding, 'UTF8'), 'LATIN1'))
			ELSE regexp_replace(concat_ws(' ', provider, sorts, nullif(folds, sorts), version,
					j ->> 'daticurules', j ->> 'collicurules',
					CASE j ->> 'collisdeterministic' WHEN 'false' THEN 'nondeterministic' END),
				'utf-?8', 'UTF-8', 'gi') END), '[]')
		FROM unnest(collations) AS o(id) JOIN pg_collation c ON c.oid = o.id,
		LATERAL (SELECT CASE o.id WHEN 100 THEN own ELSE to_jsonb(c) END) AS r(j),
		LATERAL (SELECT coalesce(j ->> 'datlocprovider', j ->> 'collprovider', 'c'),
			coalesce(j ->> 'datlocale', j ->> 'daticulocale', j ->> 'colllocale',
				j ->> 'colliculocale'),
			CASE o.id WHEN 100 THEN describe_own_collation(own)
				ELSE pg_collation_actual_version(o.id) END) AS x(provider, locale, version),
		LATERAL (SELECT coalesce(locale, j ->> 'datcollate', j ->> 'collcollate'),
			coalesce(locale, j ->> 'datctype', j ->> 'collctype')) AS y(sorts, folds));
END
$$;

-- A relation as a comparison wants to know it, in the form of type side; an error for a
-- condition or an expression that looks beyond the row.
-- iblt_describe does not tell what types of users are made of, all orders of keys, what conditions
-- depend on, and what most tables do not have: rows elsewhere, and replication.
-- Relies on: catalogs.  The fingerprint of each later statement has to be this one.
CREATE FUNCTION describe(relation regclass, condition text DEFAULT NULL,
	mapping jsonb DEFAULT NULL) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
AS $$
DECLARE
	d jsonb := iblt_describe(relation, ordered_types()) || jsonb_build_object(
		'condition', condition, 'collations', '{}'::text[]);
	made jsonb;
	value record;
	collations oid[] := '{}';
	enums oid[] := '{}';
	distributed boolean;	-- is it a table of Citus, distributed or not?
	elsewhere jsonb;
BEGIN
	IF ((d ->> 'more')::boolean OR num_nonnulls(condition, mapping) > 0) IS NOT TRUE THEN
		RETURN d;
	END IF;
	IF mapping IS NOT NULL AND d IS NOT NULL THEN
		made := made_columns(relation, mapping);
		d := map_columns(d, mapping, made);
		collations := ARRAY(SELECT jsonb_array_elements_text(made -> 'collations'));
		enums := ARRAY(SELECT jsonb_array_elements_text(made -> 'enums'));
	END IF;
	IF d @? '$.columns[*].own' THEN
		d := jsonb_set(d, '{columns}', (SELECT jsonb_agg(c - 'own'
				|| CASE WHEN type IS NULL THEN '{}' ELSE jsonb_build_object(
					'textual', describe_textual(type),
					'to_json', describe_cast_code(type, 'json'),
					'to_text', describe_cast_code(type, 'text'),
					'parts', describe_parts(type)) END ORDER BY n)
			FROM jsonb_array_elements(d -> 'columns') WITH ORDINALITY AS x(c, n),
			LATERAL (SELECT (c ->> 'own')::oid) AS own(type)));
	END IF;
	IF d @? '$.keys[*].own' THEN
		d := jsonb_set(d, '{keys}', (SELECT jsonb_agg(CASE WHEN k ? 'own'
				THEN k - 'own' || describe_order((k ->> 'own')::oid) ELSE k END ORDER BY n)
			FROM jsonb_array_elements(d -> 'keys') WITH ORDINALITY AS x(k, n)));
	END IF;
	IF condition IS NOT NULL THEN
		value := iblt_compare_check_expression(relation, condition, true);
		collations := collations || value.collations;
		enums := enums || value.enums;
	END IF;
	-- an operator on '{}' would be looked for among all of its name
	IF cardinality(collations) > 0 OR cardinality(enums) > 0 THEN
		d := jsonb_set(d, '{collations}', describe_collations(collations)
			|| (SELECT coalesce(jsonb_agg(DISTINCT o.labels), '[]')
			FROM (SELECT format('enum (%s)', string_agg(enumlabel, ', ' ORDER BY enumsortorder))
				FROM pg_enum WHERE enumtypid = ANY (enums) GROUP BY enumtypid) AS o(labels)));
	END IF;
	-- whether rows are on other servers, and what is otherwise because of that
	IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
		EXECUTE 'SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1)'
			INTO distributed USING relation;
	END IF;
	IF distributed THEN
		elsewhere := '{"remote": false, "shards": [], "distributed": true, "versions": false,
			"version_rights": true, "most_rows": null}';
	ELSIF d ->> 'kind' = 'r' AND (d ->> 'ordinary')::boolean THEN
		elsewhere := '{"remote": false, "shards": [], "distributed": false}';
	ELSE
		elsewhere := jsonb_build_object('remote', EXISTS (SELECT FROM pg_class
				WHERE oid = ANY (relation_sources(ARRAY[relation])) AND relkind = 'f'),
			'shards', shards(relation), 'distributed', false);
	END IF;
	RETURN d || elsewhere || describe_replication(relation) || '{"more": true}';
END
$$;

-- The answer of describe() as a row; NULL for NULL.
CREATE FUNCTION described(described jsonb, side text, place text DEFAULT NULL) RETURNS side
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT jsonb_populate_record(NULL::side,
		'{"bare": false}' || described || jsonb_build_object('side', side, 'place', place))
$$;
