-- What a table is on a side --------------------------------------------------------------

-- A side is asked for run_probe.  It is part of the protocol, and a peer without iblt is asked
-- for its body (plain_call).

-- What run_probe answers on both sides of a plan.
CREATE FUNCTION run_probes(plan plan) RETURNS jsonb[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	call text := 'run_probe(pg_catalog.to_regclass(%L))';
	answers text[] := ask_calls(places_of(plan), format(call, (plan.here).relation),
		format(call, (plan.there).relation));
BEGIN
	RETURN ARRAY[answers[1]::jsonb, answers[2]::jsonb];
END
$$;
