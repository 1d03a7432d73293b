-- Errors and messages ------------------------------------------------------------------
--
-- Neither an error nor a message shows a connection string, here or in the log.

-- An error that was caught.
CREATE TYPE failure AS (
	state text,				-- NULL for none
	message text,
	detail text,
	hint text,
	context text,
	schema_name text,
	table_name text,
	column_name text,
	datatype_name text,
	constraint_name text,
	reported boolean,		-- by the peer; otherwise it arose on this side
	secret boolean			-- the statement is not for the log, as it may hold a password
);

-- Raises an error that was caught, without the context of then; NULL if there is none.
-- The context leaves out that many frames: 1 for the function that calls it by an assignment, 3 for
-- a PERFORM, its function, and the one that assigns what that returns.
CREATE FUNCTION iblt_raise(e failure, frames integer DEFAULT 0) RETURNS failure
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Raises an error of an argument before a driver has a handler.
-- The log does not show the statement, as another argument may be a connection string.
CREATE FUNCTION refuse_early(message text, hint text) RETURNS void
	AS 'MODULE_PATHNAME', 'iblt_refuse_early' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Does an error tell its user all without its context?
-- It does unless it arose in a PL/pgSQL function of iblt that neither RAISEs nor calls a C
-- function.  lc_messages may translate all of the line of such a function but its name, its number
-- and RAISE.
CREATE FUNCTION failure_is_own(e failure) RETURNS boolean
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT e.state LIKE 'IB%' OR strpos(l.line, 'SELECT iblt_raise(') > 0
		OR c.at IS NULL OR c.at[2] !~ '[0-9]'
		OR (c.at[2] ~ '\yRAISE\y' OR e.state IN ('0A000', '22023', '55000')) AND c.at[1] IN
			(SELECT proname FROM pg_proc WHERE pronamespace = 'iblt_internal'::regnamespace)
	FROM (SELECT split_part(e.context, E'\n', 1)) AS l(line), LATERAL (SELECT regexp_match(l.line,
		'(?:^|[^a-zA-Z0-9_.$"])(?:iblt_internal\.)?([a-z_]+)\([^()]*\)([^()]*)$')) AS c(at)
$$;

-- Says where a comparison is.
CREATE FUNCTION progress(shown boolean, message text) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	RETURN CASE WHEN shown THEN iblt_tell('notice', message) END;
