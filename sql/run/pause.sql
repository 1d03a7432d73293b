-- Pauses of a run ------------------------------------------------------------------------
--
-- max_lag pauses a run before a slice (run_claim), max_load and max_rate after one (run_store) or
-- after small tables (run_claim).

-- max_lag as one of the two that it may be.
CREATE FUNCTION run_lag_limit(max_lag text, OUT bytes numeric, OUT seconds numeric)
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
AS $$
BEGIN
	IF max_lag ~* '^\s*\d+(\.\d+)?\s*(b|bytes|kb|mb|gb|tb)\s*$' THEN
		bytes := pg_size_bytes(max_lag);
	ELSE
		seconds := extract(epoch FROM max_lag::interval);
	END IF;
EXCEPTION WHEN @on_error@ THEN
	RAISE invalid_parameter_value USING
		MESSAGE = 'max_lag must be an interval or a number of bytes',
		HINT = 'Write ''30 s'' or ''64 MB'', for example.';
END
$$;

-- Does a follower of either side lag behind by more than that?  NULL for no limit.
CREATE FUNCTION run_lagging(conns text[], max_lag text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	allowed record := run_lag_limit(max_lag);
	lags jsonb[] := CASE WHEN max_lag IS NOT NULL
		THEN ask_calls(conns, 'run_lag()', 'run_lag()')::jsonb[] END;
	hidden text := CASE WHEN (lags[1] ->> 'hidden')::boolean THEN 'here'
		WHEN (lags[2] ->> 'hidden')::boolean THEN 'there' END;
BEGIN
	IF hidden IS NOT NULL THEN
		RAISE insufficient_privilege USING
			MESSAGE = format('permission denied to see how replication lags (%s)', hidden),
			HINT = 'max_lag needs the privileges of pg_monitor on both sides.';
	END IF;
	RETURN (SELECT bool_or((lag ->> 'bytes')::numeric > allowed.bytes
			OR (lag ->> 'seconds')::numeric > allowed.seconds)
		FROM unnest(lags) AS lag);
END
$$;

-- How long to pause after so many rows in so many seconds, as max_load and max_rate ask for.
CREATE FUNCTION run_pause_seconds(options run_options, spent double precision,
	rows bigint) RETURNS double precision
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN greatest(0, spent * (1 / options.max_load - 1),
		rows / options.max_rate::double precision - spent);

-- Has a worker wait for so many seconds, as run_step does, and then claim a slice.
CREATE FUNCTION run_wait_then_claim(w run_worker, seconds double precision DEFAULT 0)
RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	w.act := CASE WHEN seconds > 0.001 THEN 'pause' ELSE 'claim' END;
	w.until := clock_timestamp() + make_interval(secs => least(seconds, 1e6));
	RETURN w;
END
$$;

-- Notes why a run pauses, which the views show, or with NULL that it does not.
CREATE FUNCTION run_say_paused(w run_worker, reason text) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	head run_head;
BEGIN
	IF w.paused IS DISTINCT FROM reason THEN
		PERFORM iblt_run_lock(w.run);
		head := run_head_of(w.run);
		head.paused := reason;
		PERFORM iblt_run_put(head);
		PERFORM progress(w.progress,
			format('run %s %s', w.run, coalesce('pauses: ' || reason, 'goes on')));
		w.paused := reason;
	END IF;
	RETURN w;
END
$$;
