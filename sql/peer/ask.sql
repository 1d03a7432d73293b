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
-- Questions to one place are put as one statement.
CREATE FUNCTION ask_values(places text[], queries text[], label text DEFAULT NULL,
	how reading DEFAULT NULL, form anyelement DEFAULT NULL::text) RETURNS anyarray
	AS 'MODULE_PATHNAME', 'iblt_ask_values' LANGUAGE C VOLATILE PARALLEL UNSAFE;

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

-- How the sides of a plan are read, perhaps keys that an index finds.
-- Bounds and conditions must hide nothing.  A slice trusts an index, which slice_guard
-- checks, a key is looked up by one, which check_index checks, and by_index trusts one.
CREATE FUNCTION reading_of(plan plan, keys text[] DEFAULT NULL, indexed boolean DEFAULT false)
RETURNS reading
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN ROW(CASE WHEN has_bounds(plan) THEN 'read_slice'
			WHEN indexed OR plan.by_index IS TRUE THEN 'read_planned' ELSE 'read_heap' END, keys,
		plan.lo, plan.hi, reads(sides_of(plan), peers_known('bare')))::reading;

-- When a side has begun with the question that is being made, as an expression.
CREATE FUNCTION begun_sql(s side) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL SAFE
	RETURN CASE WHEN s.place IS NULL THEN format('%L::timestamptz', clock_timestamp())
		ELSE 'statement_timestamp()' END;
