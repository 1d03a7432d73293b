-- Progress, times and seeds --------------------------------------------------------

-- Says where a comparison is.
CREATE FUNCTION progress(shown boolean, message text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM iblt_tell(CASE WHEN shown THEN 'notice' ELSE 'debug' END, message);
END
$$;

-- Lets progress_timely say something from 10 seconds from now on, if progress is shown.
CREATE FUNCTION progress_by_time(shown boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM set_config('iblt.progress_due', CASE WHEN shown
		THEN (extract(epoch FROM clock_timestamp()) + 10)::text ELSE '' END, true);
END
$$;

-- Says how far something long has come, if it has said nothing for 10 seconds.
CREATE FUNCTION progress_timely(message text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	due text := current_setting('iblt.progress_due', true);
BEGIN
	IF due <> '' AND extract(epoch FROM clock_timestamp()) >= due::numeric THEN
		PERFORM iblt_tell('notice', message);
		PERFORM progress_by_time(true);
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
