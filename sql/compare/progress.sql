-- Progress, times and seeds --------------------------------------------------------

-- Says where a comparison is.
CREATE FUNCTION progress(shown boolean, message text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM iblt_tell(CASE WHEN shown THEN 'notice' ELSE 'debug' END, message);
END
$$;

-- Until the client's message ends, progress is due each so many milliseconds; NULL: never.
CREATE FUNCTION iblt_progress_every(ms integer) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Is it due now? The next time is that much later.
CREATE FUNCTION iblt_progress_due() RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Lets scans of this database and progress_timely say something every 10 seconds from now on, or
-- not any more.
CREATE FUNCTION progress_by_time(shown boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM iblt_progress_every(CASE WHEN shown THEN 10000 END);
END
$$;

-- Says how far something long has come, if it has said nothing for 10 seconds.
CREATE FUNCTION progress_timely(message text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF iblt_progress_due() THEN
		PERFORM iblt_tell('notice', message);
	END IF;
END
$$;

-- Milliseconds since then.
CREATE FUNCTION ms(since timestamptz) RETURNS numeric
	LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
	SELECT round(1000.0 * extract(epoch FROM clock_timestamp() - since)::numeric, 1)
$$;

-- A random seed that nobody can foresee.
CREATE FUNCTION random_seed() RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
	-- the other digits of a uuid are not all random
	SELECT concat('x', left(gen_random_uuid()::text, 8), right(gen_random_uuid()::text, 8))::bit(64)
		::bigint
$$;
