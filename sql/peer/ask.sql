-- Questions to places --------------------------------------------------------------------
--
-- A comparison asks its sides.  A place is where a side is: the name of a connection, or
-- NULL for this database.  ask_values sends each question that is for another server, answers
-- those for this database meanwhile, and then collects the answers, in the order of the
-- places.  Everything that is asked of two sides goes through it.

-- How a place answers a question: by a function of read.sql, with these parameters.
CREATE TYPE reading AS (
	reader text,			-- NULL: a statement that reads no relation
	keys text[],
	lo text[],
	hi text[],
	described described[]	-- of all places
);

-- What each of these places answers to its question: one value of the type of "form", or the rows
-- of keys if that is found_rows; a label is the application_name there, from the first question on.
-- Questions to one place are put as one statement, so the answers are of one snapshot.  Two would
-- show what was written in between as a difference.
-- An error names the statements under way, and the log shows them with it, also those of
-- parallel workers.  So keys and bounds are not part of a question: it has them as its
-- parameters.  Another server gets them in a message that it does not show.
CREATE FUNCTION ask_values(places text[], queries text[], label text DEFAULT NULL,
	how reading DEFAULT NULL, form anyelement DEFAULT NULL::text, OUT answers anyarray)
RETURNS anyarray
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	many integer := cardinality(places);
	at_once boolean := many > 1 AND num_nulls(VARIADIC places) IN (0, many)
		AND coalesce(places[1] = ALL (places), true);
	one_value boolean := pg_typeof(form) <> 'found_rows'::regtype;
	columns text := 'value text';
	answer_sql text := '%s.value::text';	-- what an item of FROM tells
	names text := '(value)';
	items text[];
	rows text[];
	query text;
	described described[];
	taken record;
BEGIN
	IF NOT one_value THEN
		columns := 'id text[], key jsonb[], n bigint[], rows_checksum text[], checksum bigint[],'
			' mark text[], content jsonb[], columns text[], fingerprint text';
		answer_sql := 'ROW(%s.*)::found_rows';
		names := NULL;
	END IF;
	IF at_once THEN
		FOR n IN 1 .. many LOOP
			rows[n] := format(answer_sql, 'q' || n);
			items[n] := format('(%s OFFSET 0) AS q%s%s', queries[n], n, names);
		END LOOP;
		queries := ARRAY[format('SELECT ARRAY[%s] AS answer FROM %s', array_to_string(rows, ', '),
			array_to_string(items, ', '))];
		columns := CASE WHEN one_value THEN 'answer text[]' ELSE 'answer found_rows[]' END;
		many := 1;
	END IF;
	-- the questions to other servers first, so that all answer at the same time
	FOR turn IN 1 .. 2 LOOP
		FOR n IN 1 .. many LOOP
			CONTINUE WHEN (places[n] IS NULL) = (turn = 1);
			described := iblt_rows_with(how.described, 'place', places[n]);
			query := queries[n];
			IF turn = 1 THEN
				IF peer_is_bare(places[n]) THEN
					query := plain_settings(label, how.reader, nullif(described, '{}'),
						asks => true) || query;
				ELSE
					IF how.reader IS NOT NULL THEN
						query := format('SELECT * FROM iblt_internal.%s(%L, %L, %L, %L, %L)'
								' AS iblt_r(%s)',
							how.reader, query, how.keys, how.lo, how.hi, described, columns);
					END IF;
					query := peer_settings(label, CASE WHEN num_nonnulls(how.keys, how.lo,
						how.hi) > 0 THEN queries[n] END) || query;
				END IF;
				-- a PERFORM would be planned for each message
				CONTINUE WHEN iblt_peer_send(places[n], query) OR peer_unsent(places[n]);
			ELSIF NOT at_once THEN
				query := format('SELECT %s AS answer FROM (%s) AS iblt_r%s',
					format(answer_sql, 'iblt_r'), query, names);
			END IF;
			IF how.reader IS NULL THEN
				EXECUTE query INTO taken;
			ELSE
				-- as it stands: a function in FROM would write a large row to a file
				taken := CASE how.reader
					WHEN 'read_heap' THEN read_heap(query, how.keys, how.lo, how.hi, described)
					WHEN 'read_planned'
						THEN read_planned(query, how.keys, how.lo, how.hi, described)
					WHEN 'read_slice' THEN read_slice(query, how.keys, how.lo, how.hi, described)
					WHEN 'slice_bound' THEN slice_bound(query, how.keys, how.lo, how.hi, described)
					END;
			END IF;
			IF at_once THEN
				answers := taken.answer;
			ELSE
				answers[n] := taken.answer;
			END IF;
		END LOOP;
	END LOOP;
	FOR n IN 1 .. many LOOP
		CONTINUE WHEN places[n] IS NULL;
		IF at_once THEN
			taken := iblt_peer_fetch(places[n], 2, answers);
			answers := taken.answer;
		ELSE
			taken := iblt_peer_fetch(places[n], 2, form);
			answers[n] := taken.answer;
		END IF;
		IF (taken.e).state IS NOT NULL THEN
			PERFORM peer_refuse(places[n], taken.e);
		END IF;
	END LOOP;
END
$$;

-- What one place answers.
CREATE FUNCTION ask_one(place text, query text, label text DEFAULT NULL) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN (ask_values(ARRAY[place], ARRAY[query], label))[1];

-- What calls of functions of schema iblt_internal answer.
CREATE FUNCTION ask_calls(places text[], VARIADIC calls text[]) RETURNS text[]
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN ask_values(places, ARRAY(SELECT CASE WHEN peer_is_bare(place) THEN plain_call(call)
			ELSE 'SELECT iblt_internal.' || call END
		FROM unnest(places, calls) WITH ORDINALITY AS u(place, call, n) ORDER BY n));

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
	RETURN CASE WHEN plan.sides IS NULL THEN ARRAY[plan.here, plan.there] ELSE plan.sides END;

-- Where they are.
CREATE FUNCTION places_of(plan plan) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN iblt_field(sides_of(plan), 'place');

-- What was described of sides, for a statement that reads them.
-- A place that has iblt may have been described by plain queries, whose fingerprints are
-- others.  Then only the fingerprint that comes with the rows is compared.
CREATE FUNCTION reads(VARIADIC sides side[]) RETURNS described[]
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN ARRAY(SELECT described_as(sides[n],
			sides[n].bare AND NOT peer_is_bare(sides[n].place))
		FROM generate_subscripts(sides, 1) AS n ORDER BY n);

-- The function that reads for a plan, perhaps keys that an index finds.
-- Bounds and conditions must hide nothing.  A slice trusts an index, which slice_guard
-- checks, a key is looked up by one, which check_index checks, and by_index trusts one.
CREATE FUNCTION reader(plan plan, indexed boolean DEFAULT false) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN has_bounds(plan) THEN 'read_slice'
		WHEN indexed OR plan.by_index IS TRUE THEN 'read_planned'
		ELSE 'read_heap' END;

-- How the sides of a plan are read, as reader() says, perhaps keys that an index finds.
CREATE FUNCTION reading_of(plan plan, keys text[] DEFAULT NULL, indexed boolean DEFAULT false)
RETURNS reading
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN ROW(reader(plan, indexed), keys, plan.lo, plan.hi,
		reads(VARIADIC sides_of(plan)))::reading;

-- When a side has begun with the question that is being made, as an expression.
CREATE FUNCTION begun_sql(s side) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL SAFE
	RETURN CASE WHEN s.place IS NULL THEN format('%L::timestamptz', clock_timestamp())
		ELSE 'statement_timestamp()' END;
