-- Progress, times and seeds --------------------------------------------------------

-- Says where a comparison is.
CREATE FUNCTION progress(shown boolean, message text) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	RETURN CASE WHEN shown THEN iblt_tell('notice', message) END;

-- Until the client's message ends, progress is due each so many milliseconds; NULL: never.
CREATE FUNCTION iblt_progress_every(ms integer) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Lets scans of this database and progress_timely say something every 10 seconds from now on, or
-- not any more; NULL leaves that as it is.
CREATE FUNCTION progress_by_time(shown boolean) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	RETURN CASE WHEN shown IS NOT NULL THEN iblt_progress_every(CASE WHEN shown THEN 10000 END) END;
