-- What describes a relation ---------------------------------------------------------------
--
-- PL/pgSQL plans a query once for all tables of an audit.  iblt_describe is in C, because a new
-- session would plan a query for each catalog.

-- What the catalogs say of a relation; NULL if it does not exist.  If "more" is true, describe()
-- has to look further.
CREATE FUNCTION iblt_describe(relation regclass, ordered_types oid[]) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;

-- What it says of the type of a column: its name, its base, and of a type of users what it is made
-- of, and the types in it without a send function.
CREATE FUNCTION iblt_describe_type(type oid, modifier integer) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

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
-- the row alone, or is a condition and not true or false, or no condition and a record, which does
-- not tell the types of its columns.  If portable, an error also unless it means the same on any
-- server whose columns have the same types.
CREATE FUNCTION iblt_compare_check_expression(relation regclass, expression text,
	is_condition boolean, portable boolean DEFAULT false, OUT type oid, OUT typmod integer,
	OUT collations oid[], OUT columns text[], OUT enums oid[])
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
	SET search_path = iblt_internal, pg_catalog, pg_temp;

-- Relations and all that their rows may come from, in the order of their OIDs: partitions,
-- children, and what a view reads.
-- A peer without iblt is asked for its body (plain_call).
CREATE FUNCTION relation_sources(relations regclass[]) RETURNS oid[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (WITH RECURSIVE source AS (
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
	SELECT ARRAY(SELECT member FROM source ORDER BY 1));
END
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
	RETURN (WITH RECURSIVE tree AS (
			SELECT relation::oid AS member
			UNION
			SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.member)
		SELECT jsonb_build_object(
			@replication@));
END
$$;

-- A relation as a comparison wants to know it, in the form of type side; an error for a
-- condition or an expression that looks beyond the row.
-- iblt_describe tells all of most tables.  It leaves out all orders of keys, what conditions depend
-- on, rows elsewhere, and replication.
-- Relies on: catalogs.  The fingerprint of each later statement has to be this one.
CREATE FUNCTION describe(relation regclass, condition text DEFAULT NULL,
	mapping jsonb DEFAULT NULL) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
AS $$
DECLARE
	d jsonb := iblt_describe(relation, ordered_types());
	made jsonb;
	value record;
	collations oid[] := '{}';
	enums oid[] := '{}';
	distributed boolean;	-- is it a table of Citus, distributed or not?
BEGIN
	IF ((d ->> 'more')::boolean OR num_nonnulls(condition, mapping) > 0) IS NOT TRUE THEN
		RETURN d;
	END IF;
	d := d || jsonb_build_object('condition', condition);
	IF mapping IS NOT NULL AND d IS NOT NULL THEN
		made := made_columns(relation, mapping);
		d := map_columns(d, mapping, made);
		collations := ARRAY(SELECT jsonb_path_query(made, '$.collations[*][*]') #>> '{}');
		enums := ARRAY(SELECT jsonb_path_query(made, '$.enums[*][*]') #>> '{}');
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
	IF cardinality(collations) > 0 OR cardinality(enums) > 0 THEN
		-- collation 0 stands for the encoding; servers must give one order
		d := jsonb_set(d, '{collations}', (SELECT jsonb_agg(o.x ORDER BY o.x COLLATE "C") FROM (
			SELECT 'encoding ' || getdatabaseencoding() WHERE 0 = ANY (collations)
			UNION
			SELECT collation_order(c.id) ->> 'described'
			FROM unnest(collations) AS c(id) WHERE c.id <> 0
			UNION
			SELECT format('enum (%s)', string_agg(enumlabel, ', ' ORDER BY enumsortorder))
			FROM pg_enum WHERE enumtypid = ANY (enums) GROUP BY enumtypid) AS o(x)));
	END IF;
	-- whether rows are on other servers, and what is otherwise because of that
	IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
		EXECUTE 'SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1)'
			INTO distributed USING relation;
	END IF;
	RETURN d || describe_replication(relation) || CASE WHEN distributed
		THEN '{"distributed": true, "versions": false, "version_rights": true, "most_rows": null}'
		WHEN d ->> 'kind' = 'r' AND (d ->> 'ordinary')::boolean THEN '{}'
		ELSE jsonb_build_object('shards', shards(relation), 'remote', EXISTS (SELECT FROM pg_class
			WHERE oid = ANY (relation_sources(ARRAY[relation])) AND relkind = 'f')) END;
END
$$;

-- The answer of describe() as a row; NULL for NULL.
CREATE FUNCTION described(described jsonb, side text, place text DEFAULT NULL) RETURNS side
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN jsonb_populate_record(NULL::side,
		'{"bare": false}' || described || jsonb_build_object('side', side, 'place', place));
