-- From arguments to a checked plan --------------------------------------------------

-- A mapping of these names and expressions, each a JSON object or NULL; NULL for none.
-- It is a JSON object: "columns" are names that a plan has for columns of a relation, and
-- "expressions" what it compares in their place.  A described relation has the columns of the plan,
-- and from_sql (statements.sql) makes them of its own ones.
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

-- An error if the conditions or expressions of two sides depend on collations, and not on the same;
-- or if only one does, although both sides have the same ones.
-- A side that has not checked them does not know.
CREATE FUNCTION check_collations(a side, b side) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	here text[] := a.collations;
	there text[] := b.collations;
BEGIN
	IF here <> there AND (here <> '{}' AND there <> '{}' OR NOT (a.bare OR b.bare)
			AND a.condition || ARRAY(SELECT c.expression FROM unnest(a.columns) AS c
				WHERE c.expression IS NOT NULL ORDER BY c.name)
			= b.condition || ARRAY(SELECT c.expression FROM unnest(b.columns) AS c
				WHERE c.expression IS NOT NULL ORDER BY c.name)) THEN
		RAISE feature_not_supported USING
			MESSAGE = format('the condition depends on %s that differ between the sides',
				CASE WHEN (here || there)::text LIKE '%enum (%'
					THEN 'collations or orders of enums' ELSE 'collations' END),
			DETAIL = format('%s here, %s on the peer.',
				coalesce(nullif(array_to_string(here, ', '), ''), 'none'),
				coalesce(nullif(array_to_string(there, ', '), ''), 'none')),
			HINT = CASE WHEN (here || there)::text LIKE '%enum (%'
				THEN 'Compare the labels of an enum by = or IN.'
				ELSE 'Write COLLATE "C" behind the columns that it compares.' END;
	END IF;
END
$$;

-- An error if a plan reads row versions, and this role may not read those of a side.
CREATE FUNCTION require_version_rights(plan plan) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	s side;
BEGIN
	FOREACH s IN ARRAY sides_of(plan) LOOP
		IF plan.versions AND NOT s.version_rights THEN
			RAISE insufficient_privilege USING
				MESSAGE = format('permission denied for row versions of %s (%s)',
					s.relation, s.side),
				DETAIL = 'To confirm differences, iblt reads the system columns '
					'tableoid, ctid and xmin.',
				HINT = 'Grant SELECT on the table, or on these columns too, or set recheck => 0.';
		END IF;
	END LOOP;
END
$$;

-- The plan of a comparison of two described relations, checked.
CREATE FUNCTION checked_plan(here side, there side, options options) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan;
	s side;
	trees text[];
BEGIN
	IF cardinality(here.collations) + cardinality(there.collations) > 0 THEN
		PERFORM check_collations(here, there);
	END IF;
	plan := make_plan(here, there, options);
	here := plan.here;		-- perhaps without rows of children, which may be elsewhere
	there := plan.there;
	IF options.by_index THEN
		-- is there a condition for an index to read?  Small tables (audit_answers) are read whole
		plan.by_index := (num_nonnulls(here.condition, there.condition) > 0
				OR 'v' IN (here.kind, there.kind))
			AND coalesce(greatest(here.most_rows, there.most_rows) * 28 > 1048576, true);
	END IF;
	IF options.live <> 'off' THEN
		plan := live_plan(plan, options.live_problem);
	END IF;
	-- a wrong port or name of a server would otherwise make it equal
	IF here.identity = there.identity AND here.condition IS NOT DISTINCT FROM there.condition THEN
		RAISE invalid_parameter_value USING MESSAGE = 'a relation cannot be compared with itself',
			HINT = CASE WHEN num_nonnulls(here.place, there.place) = 0
				THEN 'Give a peer, or another peer_relation of this database.'
				ELSE 'Check that the peer leads to the other server.' END;
	END IF;
	-- a partition or child shares its rows with its parent
	IF here.kind IN ('r', 'p') AND there.kind IN ('r', 'p')
			AND regexp_replace(here.identity, '[0-9]+$', '')
				= regexp_replace(there.identity, '[0-9]+$', '')
			AND num_nonnulls(here.condition, there.condition) = 0 THEN
		FOREACH s IN ARRAY ARRAY[here, there] LOOP
			trees := trees || ask_call(here.place,
				format('relation_sources(ARRAY[''%s''::pg_catalog.regclass])',
					split_part(s.identity, ' ', -1)));
		END LOOP;
		IF trees[1]::oid[] && trees[2]::oid[] THEN
			RAISE invalid_parameter_value USING
				MESSAGE = 'relations that have rows in common cannot be compared',
				DETAIL = 'One is a partition or child of the other, or they have one in common.';
		END IF;
	END IF;
	IF plan.recheck > 0 THEN
		IF num_nulls(here.place, there.place) > 0
				AND current_setting('transaction_isolation') !~ '^read' THEN
			RAISE active_sql_transaction USING MESSAGE = 'cannot recheck '
					'differences in a REPEATABLE READ or SERIALIZABLE transaction',
				HINT = 'Use isolation level READ COMMITTED, or recheck => 0.';
		ELSIF here.remote AND here.place IS NULL OR there.remote AND there.place IS NULL THEN
			RAISE feature_not_supported USING
				MESSAGE = 'cannot recheck differences in foreign tables of this database',
				DETAIL = 'A foreign data wrapper may show the same rows until the transaction '
					'ends, as postgres_fdw does.',
				HINT = 'Set recheck => 0, and compare again in another transaction.';
		END IF;
	END IF;
	s := CASE WHEN here.mapped AND (here.remote OR here.distributed) THEN here
		WHEN there.mapped AND (there.remote OR there.distributed) THEN there END;
	IF s.side IS NOT NULL THEN
		RAISE feature_not_supported USING
			MESSAGE = format('peer_columns and expressions cannot be used with %s (%s)', s.relation,
				s.side),
			DETAIL = 'Its rows are on other servers.',
			HINT = 'Compare the parts on their own servers, or a view of them.';
	END IF;
	IF plan.progress THEN
		PERFORM progress(true, format(
			'comparing %s with %s: %s columns, key (%s)', here.relation, there.relation,
			cardinality(plan.columns), CASE WHEN plan.whole_row
				THEN 'the whole row' ELSE array_to_string(iblt_field(plan.key), ', ') END));
	END IF;
	RETURN plan;
END
$$;

-- Describes the relations of both sides, or of these nodes, and makes the plan of their comparison,
-- over connections to those that are not here.  If the first is not, "relation" is NULL, and the
-- options have its name.  Nodes have one name for it.
-- With digests, the question to the peer has a fold of the digest here, and the answer a fold of
-- the digest there.  Both are read with a fingerprint.  Reading the digest here locks the relation,
-- but its digest may be started again, and gets another generation.
-- Relies on: the stores of the digest, in the snapshot of a statement.
CREATE FUNCTION prepare(conns text[], relation regclass, peer_relation text, options options,
	nodes text[] DEFAULT NULL, named integer DEFAULT NULL) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	names text[] := array_fill(options.relation_name, ARRAY[cardinality(conns)]);
	conditions text[] := ARRAY[options.condition]
		|| array_fill(options.peer_condition, ARRAY[cardinality(conns) - 1]);
	asked text[];
	described record;
	sides side[];
	missing integer;
	own live_digest;
	theirs live_digest;
	mine declared.sketch%TYPE;
	fold declared.sketch%TYPE;
	header record;
	plan plan;
BEGIN
	IF peer_relation IS NOT NULL THEN
		names[2] := peer_name(names[1], peer_relation);
	END IF;
	asked := names;
	IF options.method = 'plain' THEN
		PERFORM plain_check(CASE
			WHEN num_nonnulls(VARIADIC conns) = 0 THEN 'there is no peer'
			WHEN options.live = 'require' THEN 'live digests are not read' END,
			'Leave the option out, or use method => ''sketch'' with iblt on both sides.');
		options.live := 'off';
	ELSE
		IF options.live <> 'off' AND options.live_problem IS NULL AND nodes IS NULL
				AND conns[1] IS NULL AND conns[2] IS NOT NULL
				AND num_nonnulls(options.condition, options.peer_condition, options.mapping,
					options.peer_mapping) = 0 THEN
			own := live_digest(relation, true);
		END IF;
		IF relation IS NOT NULL THEN
			asked[1] := relation::oid;
		ELSIF nodes IS NOT NULL AND num_nulls(VARIADIC conns) > 0 THEN
			-- the name of a relation that is not in this database would be an error
			asked[array_position(conns, NULL)] := to_regclass(names[1]);
		END IF;
	END IF;
	described := describe_sides(conns, asked, conditions,
		ARRAY[options.mapping, options.peer_mapping], options.label, options.method = 'plain',
		coalesce(nodes, '{here,there}'), options.live <> 'off', own.fold, own.subtable_cells);
	sides := described.sides;
	IF own.fold IS NOT NULL THEN
		sides[1].live := own;
	END IF;
	-- by another name, it may have another peer
	IF relation IS NOT NULL AND (sides[1].relation IS DISTINCT FROM names[1]
			OR split_part(sides[1].identity, ' ', -1) <> relation::oid::text) THEN
		PERFORM refuse_altered(names[1], 'here');
	END IF;
	missing := array_position(iblt_field(sides, 'relation'), NULL);
	IF missing > 0 THEN
		IF nodes IS NULL AND conns[missing] IS NULL THEN
			-- it was there
			PERFORM refuse_altered(names[missing],
				CASE missing WHEN 1 THEN 'here' ELSE 'there' END);
		END IF;
		RAISE undefined_table USING MESSAGE = CASE WHEN nodes IS NULL
				THEN format('relation %s does not exist on %s', names[missing],
					peer_title(conns[missing]))
				ELSE format('on "%s": relation %s does not exist', nodes[missing], names[1]) END,
			HINT = CASE WHEN nodes IS NOT NULL THEN ''
				WHEN missing = 1 THEN 'Give its name there as here_relation, with its schema.'
				ELSE 'If it has another name there, give that as peer_relation, with its '
					'schema.' END;
	END IF;
	IF nodes IS NOT NULL THEN
		plan := nodes_plan(nodes, sides, options, described.told);
		plan.named := named;
	ELSIF options.method = 'plain' THEN
		plan := plain_plan(sides, described.told, options);
	ELSE
		plan := checked_plan(sides[1], sides[2], options);
	END IF;
	IF own.fold IS NULL THEN
		RETURN plan;
	END IF;
	theirs := (plan.there).live;
	IF plan.from_digests AND theirs.fold IS NOT NULL THEN
		mine := own.fold;
		fold := theirs.fold;
		header := iblt_header(fold);
		IF header.cells <> (iblt_header(mine)).cells THEN
			own.fold := live_read((plan.here).relation, own.generation,
				header.cells / header.hashes)::text;
		END IF;
		plan.found := ARRAY[ROW(own.fingerprint, own.ms, own.fold)::scanned,
			ROW(theirs.fingerprint, theirs.ms, theirs.fold)::scanned];
	END IF;
	own.fold := NULL;
	theirs.fold := NULL;
	plan.here.live := own;
	plan.there.live := theirs;
	RETURN plan;
END
$$;
