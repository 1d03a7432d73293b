-- Repairing a server without iblt -------------------------------------------------------
--
-- The statements of a repair travel as texts.  A block of PL/pgSQL runs them there, so an error
-- takes back its statement alone, and is caught before the server logs the rows.  What else a
-- repair asks its target are plain queries and the bodies of functions (plain_call).

-- What repair_execute_statements answers for statements over a connection.
-- They are values of settings, so the text of the block is always the same.  The readers of a
-- comparison have switched indexes off until the transaction ends.
CREATE FUNCTION plain_execute_statements(conn text, statements text[], n bigint[],
	at_most boolean[], path text) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM peer_send(conn, plain_settings() || format(
		'SELECT octet_length(concat(%s, set_config(''iblt.statements'', %L, true),'
			' set_config(''iblt.rows'', %L, true), set_config(''iblt.at_most'', %L, true),'
			' set_config(''iblt.path'', %L, true))); %s; SELECT current_setting(''iblt.answer'')',
		(SELECT string_agg(format('set_config(%L, NULL, true)', split_part(c, '=', 1)), ', ')
			FROM pg_proc AS p, unnest(p.proconfig) AS c WHERE p.proname = 'read_heap'
			AND p.pronamespace = 'iblt_internal'::regnamespace),
		statements, n, at_most, coalesce(path, ''),
		plain_call($q$repair_execute_statements(current_setting('iblt.statements')::text[], NULL,
			current_setting('iblt.rows')::bigint[], current_setting('iblt.at_most')::boolean[],
			nullif(current_setting('iblt.path'), ''))$q$)));
	RETURN repair_answer(conn, 'running statements', 4)::jsonb;
END
$$;
