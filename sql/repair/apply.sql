-- Applying -------------------------------------------------------------------------
--
-- repair_apply executes the statements for what was claimed, and reads the rows once more:
--
--	repair_exchange		what no order of updates can do (exchange.sql)
--	repair_execute		under a replication origin
--	  repair_execute_session	in a session that is prepared for it
--	    repair_execute_works	all deletes before the updates and inserts
--	      repair_execute_steps	of one relation and action
--	        repair_send_bulk	statements for many rows: repair_execute_bulk
--	        repair_send_each	statements for one row: repair_execute_each
--	      repair_send_each		and what succeeds behind others only: repair_execute_left
--	repair_verify_all	(verify.sql)
--
-- repair_execute_bulk, _each and _left run on the target's side (execute.sql).

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
CREATE FUNCTION repair_send_kept(conn text, name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM peer_send(conn, peer_settings(NULL, 'iblt_repair_keep')
			|| format('SELECT iblt_repair_keep(%L, %s, %L)', name, p.n, p.part)),
		peer_value(conn)
	FROM iblt_repair_parts(iblt_repair_kept(name)) WITH ORDINALITY AS p(part, n);
END
$$;

-- May a row that is to be deleted be gone with another one?
-- A row may go with the row that it refers to.
CREATE FUNCTION repair_may_go(plan repair_plan) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN NOT (plan.asked).as_replica AND EXISTS (
		SELECT FROM unnest((plan.described).foreign_keys) AS k
		WHERE k.self AND k.on_delete = 'CASCADE');
END
$$;

-- What the target's server answers behind so many results; says by time how far the repair has
-- come.
CREATE FUNCTION repair_answer(conn text, message text, before integer) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	answer text;
BEGIN
	WHILE NOT iblt_peer_wait(conn, 0.01, clock_timestamp() + interval '10 s') LOOP
		PERFORM progress_timely(message);
	END LOOP;
	answer := peer_value(conn, 0.01, before);
	IF answer IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'connection_failure',
			MESSAGE = format('%s''s answer was lost', peer_title(conn)),
			DETAIL = 'Nothing was changed.';
	END IF;
	RETURN answer;
END
$$;

-- Sends the target's server a call of a function with rows, which it does not show, and waits
-- for its answer.
CREATE FUNCTION repair_call(conn text, label text, call text, message text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM peer_send(conn, peer_settings(NULL, label) || 'SELECT iblt_internal.' || call);
	RETURN repair_answer(conn, message, 2);
END
$$;

-- Executes statements for many rows each where the target is; the numbers of those that failed.
CREATE FUNCTION repair_send_bulk(conn text, statements text[], n bigint[], at_most boolean,
	path text) RETURNS integer[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF statements = '{}' THEN
		RETURN '{}';
	ELSIF conn IS NULL OR peer_is_bare(conn) THEN
		RETURN repair_execute_bulk(statements, n, at_most, path, conn);
	END IF;
	RETURN repair_call(conn, format('iblt_repair_execute of %s statements for many rows',
			cardinality(statements)),
		format('repair_execute_bulk(%L, %L, %L, %L)', statements, n, at_most, path),
		'running statements');
END
$$;

-- Executes the statements of steps where the target is; the numbers of those that may succeed
-- behind others.  With "again", those are the steps, and none may be left.
CREATE FUNCTION repair_send_each(conn text, steps repair_step[], at_most boolean[], path text,
	again boolean) RETURNS integer[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	many text := format('%s statements', cardinality(steps));
	x record;
BEGIN
	SELECT array_agg(s.sql ORDER BY s.ordinality) AS statements,
		array_agg(s.kept ORDER BY s.ordinality) AS kept, array_agg(s.n ORDER BY s.ordinality) AS n,
		array_agg(s.key::text ORDER BY s.ordinality) AS keys INTO x
	FROM unnest(steps) WITH ORDINALITY AS s;
	IF conn IS NULL OR peer_is_bare(conn) THEN
		RETURN CASE WHEN again
			THEN repair_execute_left(x.statements, x.kept, x.n, at_most, x.keys, path, conn)
			ELSE repair_execute_each(x.statements, x.kept, x.n, at_most, x.keys, path, conn) END;
	ELSIF current_setting('server_version_num')::integer < 150000 THEN
		x.keys := ARRAY(SELECT repair_valid(key)
			FROM unnest(x.keys) WITH ORDINALITY AS k(key, i) ORDER BY i);
	END IF;
	PERFORM repair_send_kept(conn, k) FROM unnest(x.kept) AS k WHERE k IS NOT NULL;
	RETURN repair_call(conn, 'iblt_repair_execute of ' || many,
		format('repair_execute_%s(%L, %L, %L, %L, %L, %L)', CASE WHEN again THEN 'left'
			ELSE 'each' END, x.statements, x.kept, x.n, at_most, x.keys, path),
		'running ' || many);
END
$$;

-- Executes steps of an action, many rows at once where that does what single statements do; the
-- steps that may succeed behind others, and whether statements have seen what they wrote.
-- Triggers of users could tell the difference, so they get a statement for each row.
CREATE FUNCTION repair_execute_steps(plan repair_plan, action text, steps repair_step[],
	at_most boolean, OUT later repair_step[], OUT seen boolean) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	conn text := (repair_target(plan)).place;
	path text := (plan.asked).apply_search_path;
	m record;
	statements text[] := '{}';
	n bigint[] := '{}';
	failed integer[];
	members bigint[] := '{}';		-- places of steps
	statement_of integer[] := '{}';	-- of each member
	made text[];
	i integer;
	one repair_step;
	rest repair_step[] := '{}';
BEGIN
	IF NOT EXISTS (SELECT FROM unnest((plan.described).triggers) AS t
			WHERE repair_fires(t, ARRAY[action], (plan.asked).as_replica)) THEN
		FOR m IN SELECT * FROM repair_many(plan, action, steps) LOOP
			statements := statements || m.sql;
			n := n || cardinality(m.members)::bigint;
			members := members || m.members;
			statement_of := statement_of
				|| array_fill(cardinality(statements), ARRAY[cardinality(m.members)]);
		END LOOP;
		failed := repair_send_bulk(conn, statements, n, at_most, path);
	END IF;
	seen := failed = '{}' AND cardinality(members) = cardinality(steps);
	IF seen THEN
		seen := repair_sees(plan);
		later := '{}';
		RETURN;
	END IF;
	seen := false;
	made := repair_statements(plan, steps);
	FOR i IN SELECT generate_subscripts(steps, 1) EXCEPT SELECT x.member
			FROM unnest(members, statement_of) AS x(member, statement)
			WHERE x.statement <> ALL (failed) ORDER BY 1 LOOP
		one := steps[i];
		one.sql := made[i];
		rest := array_append(rest, one);
	END LOOP;
	failed := repair_send_each(conn, rest, array_fill(at_most, ARRAY[cardinality(rest)]), path,
		false);
	later := ARRAY(SELECT u.s FROM (SELECT unnest(rest) AS s, generate_subscripts(rest, 1) AS i)
		AS u WHERE u.i = ANY (failed));
END
$$;

-- Executes the steps for several relations, all deletes before the updates and inserts; have
-- statements seen all that they wrote?
CREATE FUNCTION repair_execute_works(works repair_work[]) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	size CONSTANT integer := 10000;		-- steps at a time
	work repair_work;
	action text;
	may_go boolean;
	steps repair_step[];
	executed record;
	seen boolean := true;
	rest repair_step[] := '{}';
	at_most boolean[] := '{}';
BEGIN
	FOREACH action IN ARRAY '{delete,update,insert}'::text[] LOOP
		FOREACH work IN ARRAY works LOOP
			may_go := action = 'delete' AND repair_may_go(work.plan);
			FOR n IN 1 .. work.batches LOOP
				PERFORM repair_progress(work, format('running statements (%s)', action), n);
				steps := repair_due(work, n, action);
				FOR i IN 1 .. cardinality(steps) BY size LOOP
					executed := repair_execute_steps(work.plan, action, steps[i : i + size - 1],
						may_go);
					seen := seen AND executed.seen;
					rest := rest || executed.later;
					at_most := at_most
						|| array_fill(may_go, ARRAY[cardinality(executed.later)]);
				END LOOP;
			END LOOP;
		END LOOP;
	END LOOP;
	IF rest <> '{}' THEN
		PERFORM repair_send_each((repair_target(work.plan)).place, rest, at_most,
			((work.plan).asked).apply_search_path, true);
	END IF;
	RETURN seen;
END
$$;

-- Executes the steps for several relations, in a session of the target's that is prepared for it;
-- have statements seen all that they wrote?
CREATE FUNCTION repair_execute_session(works repair_work[]) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := (works[1]).plan;
	asked repair_options := plan.asked;
	conn text := (repair_target(plan)).place;
	role text;
	seen boolean;
BEGIN
	IF peer_is_bare(conn) THEN
		PERFORM plain_open(conn, asked.as_replica AND NOT (plan.described).replica);
		PERFORM repair_execute_works(works);
		PERFORM repair_execute_deferred(asked.apply_search_path, conn),
			plain_close(conn, asked.as_replica AND NOT (plan.described).replica);
		RETURN false;
	END IF;
	role := ask_call(conn, format('repair_open(%L, %L)', asked.apply_search_path,
		asked.as_replica));
	seen := repair_execute_works(works);
	PERFORM ask_call(conn, format('repair_close(%L, %L)', asked.apply_search_path, role));
	RETURN seen;
END
$$;

-- Executes the steps for several relations, under a replication origin if one is given; have
-- statements seen all that they wrote?
-- The origin belongs to the session and not to the transaction.  Each change that is written
-- under it names it in the log.  After an error, the session of a peer ends.
CREATE FUNCTION repair_execute(works repair_work[]) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	origin text := (((works[1]).plan).asked).origin;
	conn text := (repair_target((works[1]).plan)).place;
	reset text := 'SELECT pg_catalog.pg_replication_origin_session_reset()';
	seen boolean;
BEGIN
	IF NOT EXISTS (SELECT FROM unnest(works) AS w WHERE w.keys > 0) THEN
		RETURN true;
	ELSIF origin IS NULL THEN
		RETURN repair_execute_session(works);
	END IF;
	PERFORM ask_one(conn, format('SELECT pg_catalog.pg_replication_origin_session_setup(%L)',
		origin));
	BEGIN
		seen := repair_execute_session(works);
	EXCEPTION WHEN @on_any_error@ THEN
		IF conn IS NULL THEN
			PERFORM ask_one(conn, reset);
		END IF;
		RAISE;
	END;
	PERFORM ask_one(conn, reset);
	RETURN seen;
END
$$;

-- Changes the rows that were claimed, of one relation or several, and takes the last look at them;
-- the peer has yet to commit.
CREATE FUNCTION repair_apply(works repair_work[]) RETURNS repair_work[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	seen boolean;
BEGIN
	FOR i IN 1 .. cardinality(works) LOOP
		works[i] := repair_exchange(works[i]);
	END LOOP;
	seen := repair_execute(works);
	FOR i IN 1 .. cardinality(works) LOOP
		works[i] := repair_verify_all(works[i], seen);
	END LOOP;
	RETURN works;
END
$$;
