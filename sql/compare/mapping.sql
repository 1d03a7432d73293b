-- Columns under other names, and expressions ---------------------------------------------
--
-- A mapping is a JSON object: "columns" are names that a plan has for columns of a relation,
-- and "expressions" what it compares in their place.  A described relation has the columns of the
-- plan, and from_sql (statements.sql) makes them of its own ones.

-- A mapping of these names and expressions, each a JSON object or NULL; NULL for none.
CREATE FUNCTION make_mapping(columns jsonb, expressions jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED
AS $$
BEGIN
	IF num_nonnulls(columns, expressions) = 0 THEN
		RETURN NULL;
	END IF;
	columns := coalesce(columns, '{}');
	expressions := coalesce(expressions, '{}');
	IF jsonb_typeof(columns) <> 'object' OR jsonb_typeof(expressions) <> 'object'
			OR jsonb_path_exists(jsonb_build_array(columns, expressions),
				'$[*].keyvalue() ? (@.value.type() != "string")') THEN
		PERFORM refuse_early('peer_columns and expressions must be JSON objects of texts',
			'Write them as ''{"price": "unit_price"}''.');
	END IF;
	RETURN jsonb_build_object('columns', columns, 'expressions', expressions);
END
$$;

-- An error for a mapping of a relation whose rows are summed up on other servers.
CREATE FUNCTION check_mapping(plan plan) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	s side;
BEGIN
	FOREACH s IN ARRAY ARRAY[plan.here, plan.there] LOOP
		IF s.mapped AND (s.remote OR s.distributed) THEN
			RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
				MESSAGE = format('peer_columns and expressions cannot be used with %s (%s)',
					s.relation, s.side),
				DETAIL = 'Its rows are on other servers.',
				HINT = 'Compare the parts on their own servers, or a view of them.';
		END IF;
	END LOOP;
END
$$;
