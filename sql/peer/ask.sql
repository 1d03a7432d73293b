-- Questions to places --------------------------------------------------------------------
--
-- A comparison asks its sides.  A place is where a side is: the name of a connection, or
-- NULL for this database.  ask_values sends each question that is for another server, answers
-- those for this database meanwhile, and then collects the answers, in the order of the
-- places.  Everything that is asked of two sides goes through it.

-- The relations of a place among those that a question reads, NULL for none.
CREATE FUNCTION described_at(how reading, place text) RETURNS described[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	d described;
	result described[];
BEGIN
	FOREACH d IN ARRAY coalesce(how.described, '{}') LOOP
		IF d.place IS NOT DISTINCT FROM place THEN
			d.place := NULL;	-- its name tells other servers nothing
			result := array_append(result, d);
		END IF;
	END LOOP;
	RETURN result;
END
$$;

-- How a question is told to a place, with the settings before it.
-- An error names the statements under way, and the log shows them with it, also those of
-- parallel workers.  So keys and bounds are not part of a question: it has them as its
-- parameters.  Another server gets them in a message that it does not show.
-- A label comes with the first question over a connection.
CREATE FUNCTION ask_sql(place text, query text, columns text, how reading, label text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
DECLARE
	shown text := CASE WHEN num_nonnulls(how.keys, how.lo, how.hi) > 0 THEN query END;
BEGIN
	IF peer_is_bare(place) THEN
		RETURN plain_settings(label, how.reader, described_at(how, place), asks => true) || query;
	END IF;
	IF how.reader IS NOT NULL THEN
		query := format('SELECT * FROM iblt_internal.%s(%L, %L, %L, %L, %L) AS iblt_r(%s)',
			how.reader, query, how.keys, how.lo, how.hi, described_at(how, place), columns);
	END IF;
	RETURN peer_settings(label, shown) || query;
END
$$;

-- What a query in this database gives in its column "answer".
-- A reader is called as it stands: a function in FROM would write a large row to a file.
CREATE FUNCTION ask_here(query text, how reading, INOUT answer anyelement) RETURNS anyelement
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	taken record;
	described described[] := described_at(how, NULL);
BEGIN
	IF how.reader IS NULL THEN
		EXECUTE query INTO taken;
	ELSE
		taken := CASE how.reader
			WHEN 'read_heap' THEN read_heap(query, how.keys, how.lo, how.hi, described)
			WHEN 'read_planned' THEN read_planned(query, how.keys, how.lo, how.hi, described)
			WHEN 'read_slice' THEN read_slice(query, how.keys, how.lo, how.hi, described)
			WHEN 'slice_bound' THEN slice_bound(query, how.keys, how.lo, how.hi, described) END;
	END IF;
	answer := taken.answer;
END
$$;

-- What each of these places answers to its question: one value of the type of "form", or the rows
-- of keys if that is found_rows; a label is the application_name there.
-- Questions to one place are put as one statement, so the answers are of one snapshot.  Two would
-- show what was written in between as a difference.
CREATE FUNCTION ask_values(places text[], queries text[], label text DEFAULT NULL,
	how reading DEFAULT NULL, form anyelement DEFAULT NULL::text, OUT answers anyarray)
RETURNS anyarray
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	many integer := cardinality(places);
	one_value boolean := pg_typeof(form) <> 'found_rows'::regtype;
	columns text := CASE WHEN one_value THEN 'value text' ELSE 'id text[], key jsonb[], n bigint[],'
		' rows_checksum text[], checksum bigint[], mark text[], content jsonb[], columns text[],'
		' fingerprint text' END;
	names text := regexp_replace(columns, '(\w+) [^,]+', '\1', 'g');
	-- what an item of FROM tells
	answer_sql text := CASE WHEN one_value THEN '%s.value::text' ELSE 'ROW(%s.*)::found_rows' END;
	items text[];
	rows text[];
	query text;
BEGIN
	IF many > 1 AND (places[1] = ALL (places) OR num_nonnulls(VARIADIC places) = 0) THEN
		FOR n IN 1 .. many LOOP
			rows[n] := format(answer_sql, 'q' || n);
			items[n] := format('(%s OFFSET 0) AS q%s(%s)', queries[n], n, names);
		END LOOP;
		query := format('SELECT ARRAY[%s] AS answer FROM %s', array_to_string(rows, ', '),
			array_to_string(items, ', '));
		IF places[1] IS NULL THEN
			answers := ask_here(query, how, answers);
			RETURN;
		END IF;
		PERFORM peer_send(places[1], ask_sql(places[1], query,
			CASE WHEN one_value THEN 'answer text[]' ELSE 'answer found_rows[]' END, how, label));
		answers := peer_answer(places[1], answers);
		RETURN;
	END IF;
	FOR n IN 1 .. many LOOP
		-- a PERFORM would be planned for each message
		CONTINUE WHEN places[n] IS NULL
			OR peer_send(places[n], ask_sql(places[n], queries[n], columns, how, label));
	END LOOP;
	FOR n IN 1 .. many LOOP
		IF places[n] IS NULL THEN
			answers[n] := ask_here(format('SELECT %s AS answer FROM (%s) AS iblt_r(%s)',
				format(answer_sql, 'iblt_r'), queries[n], names), how, form);
		END IF;
	END LOOP;
	FOR n IN 1 .. many LOOP
		IF places[n] IS NOT NULL THEN
			answers[n] := peer_answer(places[n], form);
		END IF;
	END LOOP;
END
$$;

-- Takes what places still answer after an error of one of them, for they take no question before
-- that.
CREATE FUNCTION ask_discard(places text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM iblt_peer_fetch(place, 0, ''::text) FROM unnest(places) AS place
	WHERE place IS NOT NULL;
END
$$;

-- What one place answers.
CREATE FUNCTION ask_one(place text, query text, label text DEFAULT NULL) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN (ask_values(ARRAY[place], ARRAY[query], label))[1];

-- What calls of functions of schema iblt_internal answer.
CREATE FUNCTION ask_calls(places text[], VARIADIC calls text[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	FOR n IN 1 .. cardinality(places) LOOP
		calls[n] := CASE WHEN peer_is_bare(places[n]) THEN plain_call(calls[n])
			ELSE 'SELECT iblt_internal.' || calls[n] END;
	END LOOP;
	RETURN ask_values(places, calls);
END
$$;

-- The same of one place.
CREATE FUNCTION ask_call(place text, call text) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN (ask_calls(ARRAY[place], call))[1];

-- A position in the WAL of a place behind all that is visible there now.
CREATE FUNCTION position_at(place text) RETURNS numeric
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN ask_call(place, CASE WHEN peer_is_bare(place) THEN 'wal_position(false)'
		ELSE 'iblt_wal_position() - ''0/0''::pg_catalog.pg_lsn' END)::numeric;

-- The sides that are compared.
CREATE FUNCTION sides_of(plan plan) RETURNS side[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN plan.sides IS NULL THEN ARRAY[plan.here, plan.there] ELSE plan.sides END
$$;

-- Where they are.
CREATE FUNCTION places_of(plan plan) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN plan.sides IS NULL THEN ARRAY[(plan.here).place, (plan.there).place]
		ELSE iblt_field(plan.sides, 'place') END
$$;

-- Is no side in this database?
CREATE FUNCTION is_elsewhere(plan plan) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT num_nonnulls((plan.here).place, (plan.there).place) = 2
$$;

-- The answer of describe() as a side, which may be asked by plain queries; NULL for NULL.
CREATE FUNCTION side_of(described jsonb, side text, place text DEFAULT NULL) RETURNS side
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT described(described || jsonb_build_object('bare', peer_is_bare(place)), side, place)
$$;

-- What was described of sides, for a statement that reads them.
-- A place that has iblt may have been described by plain queries, whose fingerprints are
-- others.  Then only the fingerprint that comes with the rows is compared.
CREATE FUNCTION reads(VARIADIC sides side[]) RETURNS described[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	s side;
	result described[] := '{}';
BEGIN
	FOREACH s IN ARRAY sides LOOP
		result := array_append(result, described_as(s));
		IF s.bare AND NOT peer_is_bare(s.place) THEN
			result[cardinality(result)].fingerprint := NULL;
		END IF;
	END LOOP;
	RETURN result;
END
$$;

-- The function that reads for a plan, perhaps keys that an index finds.
-- Bounds and conditions must hide nothing.  A slice trusts an index, which slice_guard
-- checks, a key is looked up by one, which check_index checks, and by_index trusts one.
CREATE FUNCTION reader(plan plan, indexed boolean DEFAULT false) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN has_bounds(plan) THEN 'read_slice'
		WHEN indexed OR plan.by_index IS TRUE THEN 'read_planned'
		ELSE 'read_heap' END
$$;

-- How the sides of a plan are read, as reader() says, perhaps keys that an index finds.
CREATE FUNCTION reading_of(plan plan, keys text[] DEFAULT NULL, indexed boolean DEFAULT false)
RETURNS reading
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT ROW(reader(plan, indexed), keys, plan.lo, plan.hi,
		reads(VARIADIC sides_of(plan)))::reading
$$;

-- How long a side takes for the question that is being made, in milliseconds, as an
-- expression.
CREATE FUNCTION elapsed_sql(s side) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
	SELECT format('round(1000.0 * extract(epoch FROM clock_timestamp() - %s)::numeric, 1)',
		CASE WHEN s.place IS NULL THEN format('%L::timestamptz', clock_timestamp())
			ELSE 'statement_timestamp()' END)
$$;
