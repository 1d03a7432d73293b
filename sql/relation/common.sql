-- Messages, times and seeds ---------------------------------------------------------------
--
-- What the functions of a server that is compared share with those of the one that compares.

-- Sends the client a WARNING, or for another level a NOTICE; nothing without a message.
-- The log shows neither the statement nor the functions that led to it, as RAISE would.
CREATE FUNCTION iblt_tell(level text, message text, detail text DEFAULT NULL,
	hint text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL SAFE;

-- An error in a transaction block or a function, for procedures that commit.
CREATE FUNCTION iblt_require_no_block(what text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Says how far something long has come, if it has said nothing for 10 seconds.
CREATE FUNCTION progress_timely(message text) RETURNS void
	AS 'MODULE_PATHNAME', 'iblt_progress_timely' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- The error for a relation that is not what was described.
CREATE FUNCTION refuse_altered(relation text, side text, detail text DEFAULT '') RETURNS void
	AS 'MODULE_PATHNAME', 'iblt_refuse_altered' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Milliseconds since then.
CREATE FUNCTION ms(since timestamptz) RETURNS numeric
	AS 'MODULE_PATHNAME', 'iblt_ms' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

-- A random seed that nobody can foresee.
CREATE FUNCTION random_seed() RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL SAFE
	RETURN uuid_hash_extended(gen_random_uuid(), 0);	-- of 122 random bits

-- The name of a relation that is elsewhere, with its schema, quoted; "argument" names it.
CREATE FUNCTION nodes_relation(relation text, argument text DEFAULT 'relation') RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	parts text[] := parse_ident(relation);
BEGIN
	IF cardinality(parts) IS DISTINCT FROM 2 THEN
		RAISE invalid_parameter_value USING MESSAGE = argument || ' must be a name with its schema',
			HINT = 'Write it as ''shop.items''. Other databases may have other search paths.';
	END IF;
	RETURN format('%I.%I', parts[1], parts[2]);
END
$$;

-- Lets scans of this database and progress_timely say something every 10 seconds until the client's
-- message ends, or not any more; NULL leaves that as it is.
CREATE FUNCTION progress_by_time(shown boolean, ms integer DEFAULT 10000) RETURNS void
	AS 'MODULE_PATHNAME', 'iblt_progress_by_time' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
