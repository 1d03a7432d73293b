-- Applying -------------------------------------------------------------------------

-- Locks the target's rows of keys.
CREATE FUNCTION repair_lock(plan repair_plan, ids text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM progress((plan.compared).progress,
		format('locking the rows of %s keys', cardinality(ids)));
	PERFORM repair_ask(plan, format(
		'SELECT count(*) FROM (SELECT FROM %s FOR UPDATE OF t) AS l',
		repair_rows_sql(plan)), ids);
END
$$;

-- The keys with these ids whose rows differ now, without their contents if the winner does not
-- depend on them.
-- Digests tell what has changed.  The rows themselves may be large.
CREATE FUNCTION repair_look(plan repair_plan, ids text[]) RETURNS difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
BEGIN
	compared.content := CASE (plan.asked).winner WHEN 'source' THEN 'none'
		WHEN 'newest' THEN 'stamp' ELSE 'texts' END;
	RETURN look_at_ids(compared, ids);
END
$$;

-- Locks the rows and looks at them again: the steps that are still to be run, and the
-- differences there are now.
-- repair_begin has locked both relations, so what is seen here is as other repairs have
-- left it.  From here on, the target stays what was described.
-- Relies on: what lookups rely on, behind its locks.
CREATE FUNCTION repair_claim(plan repair_plan, differences difference[],
	INOUT steps repair_step[], OUT again difference[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	ids text[] := repair_ids(steps);
BEGIN
	IF ids = '{}' THEN
		RETURN;
	END IF;
	-- a lock takes the right to update, which inserting must not ask for
	IF EXISTS (SELECT FROM unnest(steps) AS s
			WHERE s.status = 'preview' AND s.action <> 'insert') THEN
		PERFORM repair_lock(plan, ids);
	END IF;
	again := repair_look(plan, ids);
	PERFORM check_index(plan.compared, run_unseen(plan.compared, ids, again));
	steps := repair_unchanged(steps, differences, again);
	steps := repair_absent(plan, repair_outside(plan, steps));
	steps := repair_fill(plan, steps);
	IF repair_ids(steps) <> '{}' THEN
		steps := repair_cascades(plan, steps);
	END IF;
END
$$;

-- A text that a server takes: before PostgreSQL 15, the text of a "char" may be half a
-- character.
CREATE FUNCTION repair_valid(key text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM convert_to(key, getdatabaseencoding());
	RETURN key;
EXCEPTION WHEN character_not_in_repertoire THEN
	RETURN '(not valid text)';
END
$$;

-- Sends the peer a statement that this session keeps, in messages that it does not show.
CREATE FUNCTION repair_send(conn text, name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM peer_send(conn, peer_settings(NULL, 'iblt_repair_keep')
			|| format('SELECT iblt_repair_keep(%L, %s, %L)', name, p.n, p.part)),
		peer_value(conn)
	FROM iblt_repair_parts(iblt_repair_kept(name)) WITH ORDINALITY AS p(part, n);
END
$$;

-- Runs statements on the peer, in one message that it does not show, behind those that are
-- kept.
CREATE FUNCTION repair_run_there(conn text, statements text[], kept text[], n bigint[],
	at_most boolean[], keys text[], asked repair_options) RETURNS integer
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF current_setting('server_version_num')::integer < 150000 THEN
		keys := ARRAY(SELECT repair_valid(key)
			FROM unnest(keys) WITH ORDINALITY AS k(key, i) ORDER BY i);
	END IF;
	PERFORM repair_send(conn, k) FROM unnest(kept) AS k WHERE k IS NOT NULL;
	PERFORM peer_send(conn, peer_settings(NULL,
			format('iblt_repair_execute of %s statements', cardinality(statements)))
		|| format('SELECT repair_execute(%L, %L, %L, %L, %L, %L, %L, %L)', statements, kept,
			n, at_most, keys, asked.search_path, asked.as_replica, asked.origin));
	RETURN peer_value(conn, 0.01);
END
$$;

-- May a row that is to be deleted be gone with another one?
-- A row may go with the row that it refers to.
CREATE FUNCTION repair_may_go(plan repair_plan) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN NOT (plan.asked).as_replica AND EXISTS (
		SELECT FROM unnest((plan.target).foreign_keys) AS k
		WHERE k.self AND k.on_delete = 'CASCADE');
END
$$;

-- Runs the statements on the target.
-- Of several relations, all deletes come before the updates and inserts.
CREATE FUNCTION repair_run(works repair_work[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	asked repair_options := ((works[1]).plan).asked;
	conn text := place_of(((works[1]).plan).compared, asked.target);
	x record;
	done integer;
BEGIN
	SELECT coalesce(array_agg(s.sql), '{}') AS statements, array_agg(s.kept) AS kept,
		array_agg(s.n) AS n,
		array_agg(s.action = 'delete' AND s.may_go) AS at_most,
		array_agg(s.key::text) AS keys INTO x
	FROM (SELECT u.*, w.may_go FROM (SELECT v.steps, v.ordinality AS work,
				repair_may_go(v.plan) AS may_go
			FROM unnest(works) WITH ORDINALITY AS v OFFSET 0) AS w,
		unnest(w.steps) WITH ORDINALITY AS u WHERE u.status = 'preview'
		ORDER BY array_position('{delete,update,insert}', u.action), w.work, u.ordinality) AS s;
	IF x.statements = '{}' THEN
		RETURN;
	END IF;
	PERFORM progress((((works[1]).plan).compared).progress,
		format('running %s statements', cardinality(x.statements)));
	IF conn IS NOT NULL THEN
		done := repair_run_there(conn, x.statements, x.kept, x.n, x.at_most, x.keys, asked);
	ELSE
		done := repair_execute(x.statements, x.kept, x.n, x.at_most, x.keys,
			asked.search_path, asked.as_replica, asked.origin);
	END IF;
	IF done IS DISTINCT FROM cardinality(x.statements) THEN
		RAISE EXCEPTION USING ERRCODE = 'connection_failure',
			MESSAGE = format('%s''s answer was lost', peer_title(conn)),
			DETAIL = 'Nothing was changed.';
	END IF;
END
$$;

-- An error unless the target's rows of keys are what the repair was to write; the ids of
-- those that differ again, because the source has changed since.
-- Relies on: what lookups rely on, in the transaction that has changed the rows.
CREATE FUNCTION repair_verify(plan repair_plan, ids text[],
	wanted difference[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	pull boolean := (plan.asked).target = 'here';
	differ text[];
	again difference[] := repair_look(plan, ids);
	unfilled text[] := CASE (plan.asked).winner WHEN 'not null'
		THEN repair_not_filled(plan, ids, wanted, again) END;
	wrong text;
	found bigint;
BEGIN
	SELECT coalesce(array_agg(a.id) FILTER (WHERE a.id IS NOT NULL), '{}'),
		min(coalesce(a.key, w.key)::text) FILTER (WHERE x.wrong),
		count(*) FILTER (WHERE x.wrong) INTO differ, wrong, found
	FROM unnest(again) AS a FULL JOIN unnest(wanted) AS w USING (id), LATERAL (SELECT CASE
		WHEN unfilled IS NOT NULL THEN id IN (SELECT unnest(unfilled))
		WHEN a.id IS NULL THEN false
		WHEN pull THEN a.here_digest IS DISTINCT FROM w.there_digest
			OR a.there_digest IS NOT DISTINCT FROM w.there_digest
		ELSE a.there_digest IS DISTINCT FROM w.here_digest
			OR a.here_digest IS NOT DISTINCT FROM w.here_digest END
		) AS x(wrong);
	IF found > 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'triggered_data_change_violation',
			MESSAGE = format('after the repair, the rows of %s keys are not as on the source',
				found),
			DETAIL = format('One key is %s. Nothing was changed.', wrong),
			HINT = 'Look for a trigger, a rule, a column that another expression generates, '
				'or one that the condition names and the repair leaves out.'
				|| coalesce(E'\nTriggers of the table: ' || repair_triggers(plan, '{insert,update}')
					|| '. Set as_replica => true to repair as replication does.', '');
	END IF;
	RETURN differ;
END
$$;

-- Changes the rows that were claimed, of one relation or several, and reads them once more;
-- the peer has yet to commit.
CREATE FUNCTION repair_apply(works repair_work[]) RETURNS repair_work[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	work repair_work;
	ids text[];
BEGIN
	PERFORM repair_run(works);
	FOR i IN 1 .. cardinality(works) LOOP
		work := works[i];
		ids := repair_ids(work.steps);
		CONTINUE WHEN ids = '{}';
		PERFORM progress(((work.plan).compared).progress,
			format('reading the rows of %s keys once more', cardinality(ids)));
		work.differ := repair_verify(work.plan, ids, work.again);
		work.steps := ARRAY(SELECT ROW(s.id, s.key, s.action, s.sql,
				CASE s.status WHEN 'preview' THEN 'applied' ELSE s.status END,
				s.detail, s.n, s.columns, s.kept)::repair_step
			FROM unnest(work.steps) WITH ORDINALITY AS s ORDER BY s.ordinality);
		works[i] := work;
	END LOOP;
	RETURN works;
END
$$;

-- The COMMIT of the peer

-- The error for a COMMIT that may or may not have been carried out.
-- A cancel there is not a cancel of the caller's statement.
CREATE FUNCTION repair_unknown(conn text, e failure) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	e.state := CASE WHEN e.reported AND e.state = '57014' THEN 'IB005' ELSE e.state END;
	e.message := format('the outcome is unknown: %s''s answer to COMMIT was lost (%s%s)',
		peer_title(conn), format(CASE WHEN e.reported THEN 'on %s: ' END, peer_title(conn)),
		e.message);
	e.secret := true;
	PERFORM iblt_raise(e);
END
$$;

-- Does the peer's session go on after an error?
-- Errors of level FATAL and PANIC end the session.
CREATE FUNCTION repair_answers(conn text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RETURN ask_one(conn, 'SELECT 1', 0.01) = '1';
EXCEPTION WHEN OTHERS THEN
	RETURN false;
END
$$;

-- An error unless the peer has committed, which says whether it may have.
-- If the peer reports an error and its session goes on, it did not commit, unless the
-- error tells of a connection (class 08) or of an intervention (57).
CREATE FUNCTION repair_judge_commit(conn text, answer text, e failure, answers boolean)
RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF e.reported AND answers AND left(e.state, 2) NOT IN ('08', '57') THEN
		PERFORM peer_refuse(conn, e);
	ELSIF e.state IS NOT NULL THEN
		PERFORM repair_unknown(conn, e);
	ELSIF answer = 'ROLLBACK' THEN
		RAISE EXCEPTION USING ERRCODE = 'transaction_rollback',
			MESSAGE = format('on %s: the transaction was rolled back', peer_title(conn));
	ELSIF answer IS DISTINCT FROM 'COMMIT' THEN
		e.state := '08006';
		e.message := 'the connection was lost';
		PERFORM repair_unknown(conn, e);
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
		tried := peer_try(conn, 0.01, 0);
		e := tried.e;
		answer := tried.value;
		IF e.state IS NOT NULL THEN
			answers := repair_answers(conn);
		END IF;
		PERFORM peer_close(conn);
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		-- of this side, also a cancel
		GET STACKED DIAGNOSTICS e.state = RETURNED_SQLSTATE, e.message = MESSAGE_TEXT,
			e.detail = PG_EXCEPTION_DETAIL, e.hint = PG_EXCEPTION_HINT;
		e.reported := false;
	END;
	PERFORM repair_judge_commit(conn, answer, e, answers);
END
$$;
