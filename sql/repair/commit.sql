-- The COMMIT of the peer ------------------------------------------------------------

-- An error unless the peer has committed, which says whether it may have.
-- If the peer reports an error and its session goes on, it did not commit, unless the
-- error tells of a connection (class 08) or of an intervention (57).
-- A cancel there is not a cancel of the caller's statement.
CREATE FUNCTION repair_judge_commit(conn text, answer text, e failure, answers boolean)
RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF e.reported AND answers AND left(e.state, 2) NOT IN ('08', '57') THEN
		PERFORM peer_refuse(conn, e);
	ELSIF e.state IS NULL AND answer = 'ROLLBACK' THEN
		RAISE transaction_rollback USING
			MESSAGE = format('on %s: the transaction was rolled back', peer_title(conn));
	ELSIF e.state IS NULL AND answer IS DISTINCT FROM 'COMMIT' THEN
		e.state := '08006';
		e.message := 'the connection was lost';
	END IF;
	IF e.state IS NOT NULL THEN
		e.state := CASE WHEN e.reported AND e.state = '57014' THEN 'IB005' ELSE e.state END;
		e.message := format('the outcome is unknown: %s''s answer to COMMIT was lost (%s%s)',
			peer_title(conn), format(CASE WHEN e.reported THEN 'on %s: ' END, peer_title(conn)),
			e.message);
		e.secret := true;
		PERFORM iblt_raise(e);
	END IF;
END
$$;

-- Commits on the target's server, and closes the connection; an error if it did not commit, or
-- may not have.  This database commits with the caller.
CREATE FUNCTION repair_commit(conn text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	tried record;
	answer text;
	e failure;
	answers boolean;
BEGIN
	IF conn IS NULL THEN
		RETURN;
	END IF;
	BEGIN
		PERFORM peer_send(conn, 'COMMIT');
		tried := iblt_peer_fetch(conn, NULL::text);
		e := tried.e;
		answer := tried.answer;
		IF e.state IS NOT NULL THEN
			-- errors of level FATAL and PANIC end the session
			BEGIN
				answers := ask_one(conn, 'SELECT 1') = '1';
			EXCEPTION WHEN @on_error@ THEN
				answers := false;
			END;
		END IF;
		PERFORM peers_close(ARRAY[conn], false);
	EXCEPTION WHEN @on_any_error@ THEN
		-- of this side, also a cancel
		@take_failure@;
		e.reported := false;
	END;
	PERFORM repair_judge_commit(conn, answer, e, answers);
END
$$;
