-- Long values ----------------------------------------------------------------------
--
-- A difference has the hash of a long value in its place, and so has a step.  What is left
-- to execute or to show is filled in last: the value is read by its hash and in parts, and the
-- session keeps the statement.  So the value is in memory a few times only.  It is written
-- only if it has the hash of the value that was compared.

-- Texts kept in a session until its transaction ends

-- Appends part n to the text of a name, unless it has that part.
CREATE FUNCTION iblt_repair_keep(name text, n bigint, part text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Appends the text of the name "value" to that of another name, as a literal and as part n.
CREATE FUNCTION iblt_repair_quote(name text, n bigint, value text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- The text of a name, or NULL.
CREATE FUNCTION iblt_repair_kept(name text) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Executes a statement, or if that is NULL the one of a name, and returns how many rows it
-- changed.  The functions of triggers, defaults and checks may be of other roles (iblt_guard).
CREATE FUNCTION iblt_repair_execute(statement text, name text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Frees the texts whose names begin so.
CREATE FUNCTION iblt_repair_forget(prefix text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- A text in parts of whole characters.
CREATE FUNCTION iblt_repair_parts(whole text) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 10;

-- Where the values are, also on the peer

-- The bytes of a text, the same in every encoding.
CREATE FUNCTION repair_bytes(value text) RETURNS bytea
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT convert_to(value, CASE getdatabaseencoding() WHEN 'SQL_ASCII'
		THEN 'SQL_ASCII' ELSE 'UTF8' END)
$$;

-- The hash of a text.
CREATE FUNCTION repair_hash(value text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN encode(sha256(repair_bytes(value)), 'hex');
END
$$;

-- The texts of a row as a jsonb array, with {"sha256": hash} in place of a long one.
-- Which values are long must not depend on the encoding of a side.  PL/pgSQL would copy the
-- array.
CREATE FUNCTION repair_texts(texts text[]) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT jsonb_agg(CASE WHEN octet_length(u.value) > 16384
			AND octet_length(repair_bytes(u.value)) > 65536
		THEN jsonb_build_object('sha256', repair_hash(u.value)) ELSE to_jsonb(u.value) END)
	FROM (SELECT unnest(texts) AS value) AS u
$$;

-- The rows that a query of keys and of hashes gives: hash, n, and part n of the value.
CREATE FUNCTION repair_values(query text, keys text[], hashes text[], described described[])
RETURNS SETOF record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET row_security = off
AS $$
BEGIN
	PERFORM read_begin(described);
	RETURN QUERY EXECUTE query USING keys, hashes;
END
$$;

-- Reading them

-- A query for the values of columns with the hashes in $2, in the rows of the keys in $1 on
-- a side.
-- The hash tells that a value is the one that was compared, whatever finds the row.
CREATE FUNCTION repair_values_sql(plan plan, s side, columns integer[]) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	f finder := finder(plan, s);
BEGIN
	RETURN format('SELECT iblt_h.hash, iblt_p.n, iblt_p.part FROM %s JOIN %s ON %s,'
			' LATERAL (VALUES %s OFFSET 0) AS iblt_v(value),'
			' LATERAL (SELECT repair_hash(iblt_v.value) OFFSET 0) AS iblt_h(hash),'
			' LATERAL iblt_repair_parts(iblt_v.value)'
			' WITH ORDINALITY AS iblt_p(part, n)'
			' WHERE octet_length(iblt_v.value) > 16384 AND iblt_h.hash = ANY ($2)',
		f.keys, rows_sql(plan, s), f.matches,
		(SELECT string_agg(format('(%s)', text_sql(plan.columns[i + 1])), ', ')
			FROM unnest(columns) AS i));
END
$$;

-- Keeps the values with these hashes, in rows of the keys with these ids, that a side has.
-- Relies on: what lookups rely on, and the hashes of the values that were compared.
CREATE FUNCTION repair_fetch(plan repair_plan, s side, ids text[], columns integer[],
	hashes text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	query text := repair_values_sql(plan.compared, s, columns);
	keys text[] := keys_of_ids(plan.compared, ids);
	keep text := format('count(iblt_repair_keep(concat(%L, hash), n, part))',
		plan.secret || ' value ');
	answer text := 't(hash text, n bigint, part text)';
BEGIN
	IF s.place IS NULL THEN
		EXECUTE format('SELECT %s FROM repair_values($1, $2, $3, $4) AS %s', keep, answer)
			USING query, keys, hashes, reads(s);
		RETURN;
	END IF;
	PERFORM peer_send(s.place, peer_settings(NULL, query)
			|| format('SELECT * FROM repair_values(%L, %L, %L, %L) AS %s', query, keys, hashes,
				reads(s), answer)),
		peer_result(s.place, format('SELECT %s,'
			' iblt_traffic_add(1, 0, coalesce(sum(octet_length(part)), 0))'
			' FROM %s.dblink_get_result($1) AS %s', keep, iblt_peer_dblink(), answer), 0);
END
$$;

-- Filling them in

-- Keeps the values that steps lack, with the secret and the hash as their names.
-- The source has what is written, and the target what is looked for.
CREATE FUNCTION repair_fetch_all(plan repair_plan, steps repair_step[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s side;
	x record;
BEGIN
	FOREACH s IN ARRAY ARRAY[repair_source(plan), repair_target(plan)] LOOP
		SELECT array_agg(DISTINCT u.id) AS ids, array_agg(DISTINCT v.place[1]::integer) AS columns,
			array_agg(DISTINCT v.place[2]) AS hashes INTO x
		FROM unnest(steps) AS u,
		LATERAL unnest(string_to_array(u.sql, plan.secret)) WITH ORDINALITY AS p(piece, n),
		LATERAL (SELECT string_to_array(p.piece, ' ') OFFSET 0) AS v(place)
		WHERE u.status = 'due' AND strpos(u.sql, plan.secret) > 0 AND p.n % 2 = 0
		AND iblt_repair_kept(concat(plan.secret, ' value ', v.place[2])) IS NULL;
		EXIT WHEN x.ids IS NULL;
		PERFORM repair_fetch(plan, s, x.ids, x.columns, x.hashes);
	END LOOP;
END
$$;

-- Keeps a statement under a name, with the values that it lacks; false if one is not there.
-- What a peer says of a value is not enough.
CREATE FUNCTION repair_keep(name text, sql text, secret text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	pieces text[] := string_to_array(sql, secret);
	hash text;
	value text;
BEGIN
	FOR i IN 1 .. cardinality(pieces) LOOP
		IF i % 2 = 0 THEN
			hash := split_part(pieces[i], ' ', 2);
			value := concat(secret, ' value ', hash);
			IF repair_hash(iblt_repair_kept(value)) IS DISTINCT FROM hash THEN
				RETURN false;
			END IF;
			PERFORM iblt_repair_quote(name, i, value);
		ELSE
			PERFORM iblt_repair_keep(name, i, pieces[i]);
		END IF;
	END LOOP;
	RETURN true;
END
$$;

-- The steps, with their long values; those whose values are gone are skipped.
CREATE FUNCTION repair_fill(plan repair_plan, steps repair_step[]) RETURNS repair_step[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	long integer[] := ARRAY(SELECT u.n FROM (SELECT unnest(steps) AS s,
			generate_subscripts(steps, 1) AS n) AS u
		WHERE (u.s).status = 'due' AND strpos((u.s).sql, plan.secret) > 0);
	gone text[] := '{}';
	step repair_step;
BEGIN
	IF long = '{}' THEN
		RETURN steps;
	END IF;
	PERFORM progress((plan.compared).progress,
		format('reading the long values of %s statements', cardinality(long))),
		repair_fetch_all(plan, steps);
	FOR i IN 1 .. cardinality(long) LOOP
		step := steps[long[i]];
		step.kept := concat(plan.secret, ' statement ', gen_random_uuid());
		IF repair_keep(step.kept, step.sql, plan.secret) THEN
			step.sql := NULL;
			steps[long[i]] := step;
		ELSE
			gone := gone || step.id;
		END IF;
	END LOOP;
	PERFORM iblt_repair_forget(plan.secret || ' value');
	RETURN repair_skip(steps, gone, 'changed since it was compared');
END
$$;
