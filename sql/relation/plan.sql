-- The plan -------------------------------------------------------------------------
--
-- Both relations are described, and make_plan decides once what is compared and how.
-- Every later step is given the plan, whose sides say where they are.

-- An error for options that do not fit.  Of nodes, all sketches and keys are in memory.
CREATE FUNCTION check_options(relation regclass, options options, of_nodes boolean DEFAULT false)
RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	most integer := CASE WHEN of_nodes THEN 200000 ELSE 2147483647 END;
	problem text := CASE
		WHEN relation IS NULL THEN 'relation must not be null'
		WHEN coalesce(options.max_differences, 0) NOT BETWEEN 1 AND most
			THEN format('max_differences must be between 1 and %s', most)
		WHEN coalesce(options.recheck, 0) NOT BETWEEN 0 AND 1000
			THEN 'recheck must be between 0 and 1000'
		WHEN coalesce(options.extra_columns, '') NOT IN ('warn', 'error', 'ignore')
			THEN 'extra_columns must be warn, error or ignore'
		WHEN coalesce(options.timeout, '-1 s') NOT BETWEEN '0 s' AND '1 year'
			THEN 'timeout must be between 0 and 1 year'
		WHEN cardinality(options.columns) = 0 OR cardinality(options.key_columns) = 0
			THEN 'columns and key_columns must not be empty'
		WHEN array_position(options.columns || options.exclude || options.key_columns, NULL) > 0
			THEN 'columns, exclude and key_columns must not contain nulls'
		WHEN options.content IS NULL OR options.cast_types IS NULL OR options.progress IS NULL
				OR options.by_index IS NULL
			THEN 'rows, cast_types, progress and by_index must not be null'
		WHEN options.content = '' THEN 'rows must be false, columns, changed or true'
		WHEN coalesce(options.live, '') NOT IN ('off', 'auto', 'require')
			THEN 'live must be off, auto or require'
		WHEN coalesce(options.method, '') NOT IN ('sketch', 'plain', 'auto')
			THEN 'method must be sketch, plain or auto' END;
BEGIN
	IF problem IS NOT NULL THEN
		RAISE invalid_parameter_value USING MESSAGE = problem;
	ELSIF pg_table_is_visible(relation) IS NULL THEN
		RAISE undefined_table USING
			MESSAGE = format('relation with OID %s does not exist', relation::oid);
	END IF;
END
$$;

-- A relation of this database as schema.name, quoted.
CREATE FUNCTION relation_name(relation regclass) RETURNS text
	AS 'MODULE_PATHNAME', 'iblt_relation_name' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- The peer's relation as schema.name, quoted: as the one here, whose name is given in that form,
-- unless it names another name or schema.
CREATE FUNCTION peer_name(relation text, peer_relation text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT coalesce(string_agg(quote_ident(part), '.' ORDER BY n), relation)
	FROM unnest((parse_ident(relation))[: 2 - cardinality(parse_ident(peer_relation))]
		|| parse_ident(peer_relation)) WITH ORDINALITY AS u(part, n));

-- Names for a message, NULL if there are none.
CREATE FUNCTION quoted(names text[]) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN '"' || nullif(array_to_string(names, '", "'), '') || '"';

-- An error that names columns, if there are any.
CREATE FUNCTION require_none(names text[], message text, hint text) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF cardinality(names) > 0 THEN
		RAISE undefined_column USING HINT = hint, MESSAGE = format(message, quoted(names));
	END IF;
END
$$;

-- The columns of both sides without those excluded, in the order of this side.
-- A schema may have another name on the peer, and the types in it.
CREATE FUNCTION common_columns(here side, there side, exclude text[]) RETURNS plan_column[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	theirs text[] := iblt_field(there.columns);
	pattern text;			-- of the schema there in the name of a type, and what takes its place
	new text;
	h side_column;
	t side_column;			-- with types of its relation's schema as if they were of the one here
	type_there text;
	bases bigint[];
	cast_to text;			-- the type to compare in, '' for their own; values_sql converts
	n integer;
	result plan_column[] := '{}';
BEGIN
	IF here.relation <> there.relation THEN
		pattern := '(^|[ (])' || regexp_replace(quote_ident((parse_ident(there.relation))[1])
			|| '.', '(\W)', '\\\1', 'g');
		new := '\1' || replace(quote_ident((parse_ident(here.relation))[1]), '\', '\\') || '.';
	END IF;
	FOREACH h IN ARRAY coalesce(here.columns, '{}') LOOP
		n := array_position(theirs, h.name);
		IF n IS NOT NULL AND h.name <> ALL (coalesce(exclude, '{}')) THEN
			t := there.columns[n];
			type_there := t.type;
			IF pattern IS NOT NULL THEN
				t.type := regexp_replace(t.type, pattern, new, 'g');
				t.parts := regexp_replace(t.parts, pattern, new, 'g');
			END IF;
			cast_to := '';
			-- A type of one name may be made of different types.  plain_plan knows the rest
			-- of parts.
			IF (h.type = t.type AND (h.base = t.base OR least(h.base, t.base) >= 16384)
					AND (h.parts = t.parts) IS NOT FALSE
					AND h.textual::text = t.textual::text) IS NOT TRUE THEN
				IF h.type = t.type AND h.parts <> t.parts THEN
					-- what they are made of is what differs
					type_there := format('%s (made of %s)', type_there,
						(there.columns[n]).parts);
					h.type := format('%s (made of %s)', h.type, h.parts);
				END IF;
				bases := ARRAY[h.base, t.base];
				cast_to := CASE WHEN bases <@ '{20,21,23}' THEN 'int8'
					WHEN bases <@ '{700,701}' THEN 'float8'
					WHEN bases <@ '{20,21,23,700,701,1700}' THEN 'numeric'
					WHEN bases <@ '{1005,1007,1016,1231}' THEN 'numeric[]'
					WHEN bases <@ '{1009,1014,1015}' THEN 'text[]' ELSE 'text' END;
			END IF;
			result := array_append(result, ROW(h.name, cast_to, h.base, t.base, h.type, type_there,
				h.textual::text = t.textual::text, h.not_null AND t.not_null, NULL)::plan_column);
		END IF;
	END LOOP;
	RETURN result;
END
$$;

-- The columns on one side only, unless columns are asked for; named in a warning or an error, as
-- the options ask for.
CREATE FUNCTION columns_left_out(here side, there side, options options) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
DECLARE
	mine text[] := iblt_field(here.columns);
	theirs text[] := iblt_field(there.columns);
	only_here text[];
	only_there text[];
	message text;
BEGIN
	IF options.columns IS NOT NULL THEN
		RETURN '{}';
	END IF;
	only_here := ARRAY(SELECT x FROM unnest(mine) AS x WHERE x <> ALL (theirs || options.exclude)
		ORDER BY 1);
	only_there := ARRAY(SELECT x FROM unnest(theirs) AS x WHERE x <> ALL (mine || options.exclude)
		ORDER BY 1);
	message := concat_ws('; ', 'only here: ' || quoted(only_here),
		'only on the peer: ' || quoted(only_there));
	IF message <> '' AND options.extra_columns = 'error' THEN
		RAISE undefined_column USING MESSAGE = 'columns exist on one side only', DETAIL = message,
			HINT = 'Exclude them, or set extra_columns => ''warn'' or ''ignore''.';
	ELSIF message <> '' AND options.extra_columns = 'warn' THEN
		PERFORM iblt_tell('warning',
			format('columns on one side only are not compared (%s)', message), NULL,
			'Set extra_columns => ''error'' or ''ignore'' to get an error or no message.');
	END IF;
	RETURN ARRAY(SELECT x FROM unnest(only_here || only_there) AS x ORDER BY 1);
END
$$;

-- The columns that identify a row: as asked, or of a unique index here or there; NULL for
-- none.
CREATE FUNCTION key_names(here side, there side, common text[], asked text[]) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN coalesce(asked, (SELECT k.columns
		FROM unnest(here.keys || there.keys) WITH ORDINALITY AS k
		WHERE k.columns <@ common ORDER BY k.ordinality LIMIT 1));

-- Bytes of a canonical key of these columns, NULL if it must go into a sketch as a hash.
CREATE FUNCTION key_size(key plan_column[]) RETURNS integer
	AS 'MODULE_PATHNAME', 'iblt_key_size' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- A side, of which only its own rows are compared if the options ask for that.
-- Replication takes each table by itself.  What inherits from it may be published or not, and need
-- not be there on the other side.  A partitioned table has no rows of its own, and nothing inherits
-- from a table of Citus.
CREATE FUNCTION with_own_rows(s side, other side, options options) RETURNS side
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	s.own_rows := s.kind = 'r' AND NOT s.distributed
		AND (options.own_rows = 'always' OR options.own_rows = 'of two'
			AND other.kind = 'r' AND NOT (s.ordinary OR other.ordinary));
	IF s.own_rows AND NOT s.ordinary THEN
		-- its unique indexes are of all rows that are read, which are not elsewhere
		s.ordinary := true;
		s.remote := false;
	END IF;
	RETURN s;
END
$$;

-- What a comparison of two described relations does; an error for columns that an option names and
-- that are not there.
CREATE FUNCTION make_plan(here side, there side, options options) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
DECLARE
	plan plan;
	as_described side;
	excluded text[];
	asked text[];
	mine text[];
	theirs text[];
	common plan_column[];
	c plan_column;
	problems text;			-- columns of different types
	names text[];
	size integer;
	direct boolean;			-- does one side replicate to the other?
BEGIN
	IF options.own_rows IS NOT NULL THEN
		as_described := here;
		here := with_own_rows(here, there, options);
		there := with_own_rows(there, as_described, options);
	END IF;
	IF num_nonnulls(options.columns, options.exclude, options.key_columns) > 0 THEN
		excluded := coalesce(options.exclude, '{}');
		asked := coalesce(options.columns, '{}') || options.key_columns;
		mine := iblt_field(here.columns);
		theirs := iblt_field(there.columns);
		PERFORM require_none(
			ARRAY(SELECT x FROM unnest(excluded) AS x WHERE x <> ALL (mine) AND x <> ALL (theirs)),
			'excluded columns are on neither side: %s', 'Names are case-sensitive.');
		PERFORM require_none(ARRAY(SELECT x FROM unnest(asked) AS x WHERE x <> ALL (mine)),
			'columns are not here: %s', 'Names are case-sensitive.');
		PERFORM require_none(ARRAY(SELECT x FROM unnest(asked) AS x WHERE x <> ALL (theirs)),
			'columns are not on the peer: %s',
			'Names are case-sensitive. What is compared must be on both sides.');
		PERFORM require_none(ARRAY(SELECT x FROM unnest(asked) AS x WHERE x = ANY (excluded)),
			'columns are both asked for and excluded: %s', 'Name them in one of the lists.');
	END IF;
	common := common_columns(here, there, options.exclude);
	IF options.key_columns IS NULL AND (here.keys[1]).columns <@ iblt_field(common) THEN
		names := (here.keys[1]).columns;
	ELSE
		names := key_names(here, there, iblt_field(common), options.key_columns);
	END IF;
	plan.columns_left_out := CASE WHEN cardinality(common) = ALL
			(ARRAY[cardinality(here.columns), cardinality(there.columns)])
		THEN '{}' ELSE columns_left_out(here, there, options) END;
	IF options.columns IS NULL THEN
		plan.columns := common;
	ELSE
		plan.columns := ARRAY(SELECT u FROM unnest(common) AS u
			WHERE u.name = ANY (options.columns) OR u.name = ANY (names));
	END IF;
	-- neither has a column: then they are equal if they have as many rows
	IF cardinality(plan.columns) = 0
			AND cardinality(here.columns) + cardinality(there.columns) > 0 THEN
		RAISE undefined_column USING MESSAGE = 'the relations have no columns to compare';
	ELSIF NOT options.cast_types AND '' <> ANY (iblt_field(plan.columns, 'cast_to')) THEN
		-- plain queries cast nothing, and plain_plan refuses what has one name on both sides
		FOREACH c IN ARRAY plan.columns LOOP
			IF c.cast_to <> '' AND (options.method = 'plain' AND c.type_here = c.type_there)
					IS NOT TRUE THEN
				problems := concat_ws('; ', problems, format('"%s" is %s here and %s on the peer%s',
					c.name, c.type_here, c.type_there, CASE WHEN c.type_here <> c.type_there THEN ''
					WHEN NOT c.same_textual THEN ', which has a send function on one side only'
					ELSE ', which is made of another type there' END));
			END IF;
		END LOOP;
		IF problems IS NOT NULL THEN
			RAISE datatype_mismatch USING MESSAGE = 'column types differ: ' || problems,
				HINT = CASE options.method WHEN 'plain' THEN 'Exclude the columns, or use '
						'method => ''sketch'' with iblt on both sides.'
					ELSE 'Set cast_types => true to compare numbers by value and all else as text, '
						'or exclude the columns.' END;
		END IF;
	END IF;
	SELECT names IS NULL,
		CASE WHEN names IS NULL THEN plan.columns ELSE iblt_rows_named(common, names) END,
		-- unique indexes of all rows of both sides
		names IS NOT NULL AND here.ordinary AND there.ordinary, links(ARRAY[here, there])
	INTO plan.whole_row, plan.key, plan.is_unique, plan.links;
	direct := cardinality(array_remove(iblt_field(plan.links, 'source'), NULL)) > 0;
	IF plan.is_unique THEN
		IF (names = (here.keys[1]).columns AND names = (there.keys[1]).columns) IS NOT TRUE THEN
			plan.is_unique := (SELECT bool_and(EXISTS (SELECT FROM unnest(s.keys) AS k
					WHERE k.columns @> names AND k.columns <@ names))
				FROM unnest(ARRAY[here, there]) AS s);
		END IF;
		size := CASE WHEN plan.is_unique THEN key_size(plan.key) END;
	END IF;
	-- for Citus, a key that goes into sketches as it is becomes bigint (iblt_agg_bigint)
	SELECT here, there, size IS NULL OR size > 32 OR (here.distributed OR there.distributed)
			AND NOT (cardinality(plan.key) = 1
			AND ((plan.key[1]).cast_to = 'int8' OR (plan.key[1]).base IN (20, 21, 23))),
		least(coalesce(size, 8), 32), coalesce(options.recheck,
			CASE WHEN NOT direct OR here.remote THEN 0 ELSE 5 END),
		options.content, options.max_differences, options.timeout, options.seed,
		options.progress, options.live
	INTO plan.here, plan.there, plan.by_hash, plan.key_size, plan.recheck, plan.content,
		plan.max_differences, plan.timeout, plan.seed, plan.progress, plan.live;
	IF plan.recheck = 0 AND NOT direct THEN
		plan.links := '{}';
	END IF;
	plan.versions := plan.recheck > 0 AND here.versions AND there.versions;
	RETURN plan;
END
$$;

-- Logical subscriptions and physical replication between sides, each with its direction, and a link
-- of no side that is not ready if a row can be on its way over a server that is not a side.  Such a
-- server feeds a side, and either it or another one feeds a second side, or a second side feeds
-- such a server.
-- Slots of several publishers may have one name, and each subscription has one of them.  A
-- standby shows the subscriptions of its primary, so it is fed by others if no side is of its
-- server.
CREATE FUNCTION links(sides side[]) RETURNS link[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	one side;
	replicates boolean := false;
BEGIN
	FOREACH one IN ARRAY sides LOOP
		replicates := replicates OR one.recovery OR cardinality(one.subscriptions) > 0;
	END LOOP;
	IF NOT replicates THEN
		RETURN '{}';
	END IF;
	RETURN (
		WITH node AS (
			SELECT n, (sides[n]).* FROM generate_subscripts(sides, 1) AS n
		), link(f, t, slot, ready) AS (
			SELECT f.n, t.n, s.slot, s.ready AND NOT t.recovery
			FROM node AS f, node AS t, unnest(t.subscriptions) AS s
			WHERE f.n <> t.n AND s.slot = ANY (f.slots)
			UNION
			-- It may be a standby of the publisher, and the subscriber may be ahead of it.
			SELECT f.n, t.n, s.slot, false
			FROM node AS f, node AS t, unnest(t.subscriptions) AS s
			WHERE f.n <> t.n AND f.recovery AND s.slot <> ALL (f.slots)
				AND coalesce(f.system <> t.system, true)
			UNION
			-- Of a server that is not known, it may be the standby.
			SELECT f.n, t.n, NULL, coalesce(f.system = t.system, false) FROM node AS f, node AS t
			WHERE f.n <> t.n AND t.recovery AND coalesce(f.system = t.system, true)
		), flow AS (
			SELECT n, CASE WHEN recovery THEN NOT EXISTS (SELECT FROM node AS o
						WHERE o.n <> node.n AND o.system = node.system)
					ELSE (SELECT count(DISTINCT s.name) FROM unnest(subscriptions) AS s)
						> (SELECT coalesce(sum(least(of_slot.number, (SELECT count(*)
								FROM node AS o WHERE o.n <> node.n
									AND of_slot.slot = ANY (o.slots)))), 0)
							FROM (SELECT s.slot, count(DISTINCT s.name)
								FROM unnest(subscriptions) AS s GROUP BY s.slot)
								AS of_slot(slot, number)) END AS fed,
				EXISTS (SELECT FROM unnest(slots) AS u(slot) WHERE NOT EXISTS (
					SELECT FROM node AS o, unnest(o.subscriptions) AS s
					WHERE o.n <> node.n AND s.slot = u.slot)) AS feeds
			FROM node
		)
		SELECT coalesce(array_agg(ROW((sides[f]).side, (sides[t]).side, slot, ready,
				(sides[f]).place, (sides[t]).place, (sides[f]).relation)::link
				ORDER BY least(f, t), greatest(f, t), f, slot, ready), '{}')
			|| ARRAY(SELECT ROW(NULL, NULL, NULL, false, NULL, NULL, NULL)::link
				WHERE EXISTS (SELECT FROM flow AS a JOIN flow AS b ON a.n <> b.n
					WHERE a.fed AND (b.fed OR b.feeds)))
		FROM link);
END
$$;
