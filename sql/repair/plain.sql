-- Repairing a server without iblt -------------------------------------------------------
--
-- The statements of a repair travel as texts.  A block of PL/pgSQL runs them there, so an error
-- takes back its statement alone, and is caught before the server logs the rows.  What else a
-- repair asks its target are plain queries and the bodies of functions (plain_call).

-- What repair_execute_statements answers for statements over a connection.
-- A block takes no parameters.  They are an array in the setting iblt.block, so its text is always
-- the same.  The readers of a comparison have switched indexes off until the transaction ends.
CREATE FUNCTION plain_execute_statements(conn text, statements text[], n bigint[],
	at_most boolean[], path text, separately boolean) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM peer_send(conn, plain_settings() || format(
		'SELECT octet_length(concat(%s, set_config(''iblt.block'', %L, true))); %s;'
			' SELECT current_setting(''iblt.block'')',
		(SELECT string_agg(format('set_config(%L, NULL, true)', split_part(c, '=', 1)), ', ')
			FROM pg_proc AS p, unnest(p.proconfig) AS c WHERE p.proname = 'read_heap'
			AND p.pronamespace = 'iblt_internal'::regnamespace),
		ARRAY[statements::text, n::text, at_most::text, path, separately::text],
		plain_call($q$repair_execute_statements(
			(current_setting('iblt.block')::text[])[1]::text[], NULL,
			(current_setting('iblt.block')::text[])[2]::bigint[],
			(current_setting('iblt.block')::text[])[3]::boolean[],
			(current_setting('iblt.block')::text[])[4],
			(current_setting('iblt.block')::text[])[5]::boolean)$q$)));
	RETURN repair_answer(conn, 'running statements', 4)::jsonb;
END
$$;
