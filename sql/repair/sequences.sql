-- Sequences that are behind ------------------------------------------------------------------
--
-- iblt_repair_sequences moves sequences of this side forward: up to the next value of the
-- peer's, and past the values of the columns that they number.

-- What is done with a sequence.
CREATE TYPE sequence_step AS (
	sequence text,
	here numeric,			-- the next values
	there numeric,
	reached numeric,		-- in the columns here
	target numeric,			-- the next value that it should have, NULL if it stays
	increment numeric,
	status text,
	detail text,
	naming text				-- what its name meant here (repair_naming)
);

-- The next value that a sequence should have: a step of its own that is not before the peer's,
-- and past what its columns have; NULL if the one that it has will do.
CREATE FUNCTION sequence_target(step sequence_step) RETURNS numeric
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT step.here + step.increment * nullif(greatest(ceil(greatest(
			(step.there - step.here) * sign(step.increment),
			(step.reached - step.here) * sign(step.increment) + 1) / abs(step.increment)), 0), 0)
$$;

-- What is done with a sequence of which both sides have these facts, NULL where it is not.
CREATE FUNCTION sequence_plan(name text, mine jsonb, theirs jsonb) RETURNS sequence_step
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	step sequence_step;
	problem text := coalesce(mine #>> '{next value,unknown}', mine #>> '{reached,unknown}',
		'on the peer: ' || (theirs #>> '{next value,unknown}'));
BEGIN
	step.sequence := name;
	step.increment := mine ->> 'increment';
	step.naming := mine ->> 'naming';
	IF problem IS NOT NULL THEN
		step.status := 'unknown';
		step.detail := problem;
		RETURN step;
	END IF;
	step.here := mine ->> 'next value';
	step.there := theirs ->> 'next value';
	step.reached := mine ->> 'reached';
	IF mine IS NULL THEN
		step.detail := 'it does not exist here';
	ELSIF mine @> '{"cycle": true}' OR theirs @> '{"cycle": true}' THEN
		step.detail := CASE WHEN step.here <> step.there THEN 'it cycles' END;
	ELSIF sign(step.increment) <> sign((theirs ->> 'increment')::numeric) THEN
		step.detail := 'it goes the other way on the peer';
	ELSE
		step.target := sequence_target(step);
		IF step.target - step.increment NOT BETWEEN (mine ->> 'minimum')::numeric
				AND (mine ->> 'maximum')::numeric THEN
			step.target := NULL;
			step.detail := format('it ends at %s',
				mine ->> CASE WHEN step.increment > 0 THEN 'maximum' ELSE 'minimum' END);
		END IF;
	END IF;
	step.status := CASE WHEN step.target IS NOT NULL THEN 'preview'
		WHEN step.detail IS NOT NULL THEN 'skipped' END;
	RETURN step;
END
$$;

-- The statements that move a sequence, unless another session has moved it so far meanwhile, as
-- the last one tells: where it was, its increment, and where it is to go, NULL for nowhere.
-- setval takes no lock that keeps nextval out, so it could undo what nextval did since the
-- look before.  ALTER SEQUENCE takes one, and lets other sessions forget the values that they
-- keep.  It waits for the transactions that have called nextval, and nextval waits for it, so
-- it must not wait for long.  A rollback undoes the setval behind it.
-- Meanwhile the schema may get another name, so the block makes sure that it has locked what was
-- described.  What is read and moved behind it is the sequence with that OID.
CREATE FUNCTION sequence_move_sql(step sequence_step) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT format('DO %L; ', format($q$BEGIN
			IF current_setting('lock_timeout') = '0' THEN
				PERFORM set_config('lock_timeout', '5s', true);
			END IF;
			EXECUTE (SELECT format('ALTER SEQUENCE %%s INCREMENT BY %%s', seqrelid::regclass,
				seqincrement) FROM pg_sequence WHERE seqrelid = %1$L::regclass);
			IF %2$L IS DISTINCT FROM (SELECT concat_ws(' ', c.oid, n.oid, n.xmin, n.ctid)
					FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
					WHERE c.oid = %1$L::regclass) THEN
				RAISE EXCEPTION 'sequence %% was altered while it was compared', %1$L
					USING ERRCODE = 'IB004';
			END IF;
		END$q$, step.sequence, step.naming))
		|| format($q$SELECT ARRAY[iblt_s.here, iblt_s.increment, iblt_s.target,
				setval(%5$s::regclass, (iblt_s.target - iblt_s.increment)::bigint)]::text
			FROM (SELECT step.here, step.increment, (%2$s) AS target FROM (
					SELECT last_value + CASE WHEN is_called THEN seqincrement ELSE 0 END AS here,
						seqincrement::numeric AS increment, %3$L::numeric AS there,
						%4$L::numeric AS reached
					FROM %1$s AS q, pg_sequence WHERE q.tableoid = %5$s AND seqrelid = %5$s) AS step
				OFFSET 0) AS iblt_s$q$,
			step.sequence, p.prosrc, step.there, step.reached, split_part(step.naming, ' ', 1))
	FROM pg_proc p
	WHERE p.pronamespace = 'iblt_internal'::regnamespace AND p.proname = 'sequence_target');

CREATE FUNCTION @extschema@.iblt_repair_sequences(
	peer text,
	@iblt_audit: schema peer_schema@
	apply boolean DEFAULT false,
	here_peer text DEFAULT NULL)
RETURNS TABLE (sequence text, here numeric, there numeric, reached numeric, sql text,
	status text, detail text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@driver conns; peers_secret(peers)@
AS $$
DECLARE
	peers text[] := ARRAY[here_peer, peer];
	conns text[] := peer_conns(peers);
	answer structure;
	step sequence_step;
	query text;
	patience text := current_setting('lock_timeout');
	moved numeric[];
BEGIN
	answer := structure_of(conns, peers, schema, peer_schema, false, '{sequence}');
	IF apply AND conns[1] IS NOT NULL THEN
		PERFORM peer_send(conns[1], 'BEGIN ISOLATION LEVEL READ COMMITTED'),
			peer_value(conns[1]), ask_call(conns[1], 'repair_open(false)');
	END IF;
	FOR step IN SELECT p.* FROM unnest(answer.here) AS h
		FULL JOIN unnest(answer.there) AS t ON t.object = h.object,
		LATERAL sequence_plan(coalesce(h.object, t.object), h.facts, t.facts) AS p
		WHERE p.status IS NOT NULL ORDER BY p.sequence COLLATE "C"
	LOOP
		IF apply AND step.status = 'preview' THEN
			query := sequence_move_sql(step);
			IF conns[1] IS NULL THEN
				EXECUTE query INTO moved;
				PERFORM set_config('lock_timeout', patience, true);
			ELSE
				PERFORM peer_send(conns[1], plain_settings(writes => true) || query);
				moved := peer_value(conns[1]);
			END IF;
			step.here := moved[1];
			step.increment := moved[2];
			step.target := moved[3];
			step.status := CASE WHEN step.target IS NULL THEN 'skipped' ELSE 'applied' END;
			step.detail := CASE WHEN step.target IS NULL
				THEN 'another session has moved it' END;
		END IF;
		RETURN QUERY SELECT step.sequence, step.here, step.there, step.reached,
			'SELECT pg_catalog.setval(' || quote_literal(step.sequence) || ', '
			|| (step.target - step.increment) || ');', step.status, step.detail;
	END LOOP;
	-- all or none are moved
	IF apply THEN
		PERFORM repair_commit(conns[1]);
	END IF;
	PERFORM peers_close(conns);
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_repair_sequences IS
'the statements that move sequences here forward to the peer''s and past their columns, which '
'are run only with apply => true';
