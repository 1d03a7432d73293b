-- Applying -------------------------------------------------------------------------

-- The claim

-- Says what is done with the steps of a batch: of the first one, and later by time.
CREATE FUNCTION repair_progress(work repair_work, what text, n integer) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	shown boolean := ((work.plan).compared).progress;
	message text := format('%s of %s keys%s', what, work.keys,
		CASE WHEN n > 1 THEN format(', %s of %s batches are done', n - 1, work.batches) END);
BEGIN
	IF n = 1 THEN
		PERFORM progress(shown, message), progress_by_time(shown);
	ELSE
		PERFORM progress_timely(message);
	END IF;
END
$$;

-- Locks the target's rows of keys.
CREATE FUNCTION repair_lock(plan repair_plan, ids text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM repair_ask(plan, format(
		'SELECT count(*)::text FROM (SELECT FROM %s FOR UPDATE OF t) AS l',
		repair_rows_sql(plan, ids)), ids);
END
$$;

-- A digest of rows, with their stamp if that tells which row is newer.
CREATE FUNCTION repair_digest(digest text, content jsonb, newest boolean) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE WHEN newest THEN digest || coalesce(' ' || (content #>> '{0,1,-1}'), '')
		ELSE digest END
$$;

-- The digests of the rows of keys on both sides, at least of the keys whose rows differ now;
-- with "claim", behind locks on the target's rows, and with stamps.
-- Digests tell what has changed.  The rows themselves may be large.
CREATE FUNCTION repair_look(plan repair_plan, INOUT ids text[], claim boolean, lock boolean,
	OUT here text[], OUT there text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
	newest boolean := claim AND (plan.asked).winner = 'newest';
	found record;
BEGIN
	compared.content := CASE WHEN newest THEN 'stamp' ELSE 'none' END;
	compared.versions := false;
	IF repair_by_action(plan) AND NOT newest THEN
		-- in the order of the steps, in which rows are locked
		found := find_both(compared, ids, CASE WHEN lock THEN (plan.asked).target END);
		here := (found.here).checksum;
		there := (found.there).checksum;
		RETURN;
	ELSIF lock THEN
		PERFORM repair_lock(plan, ids);
	END IF;
	SELECT array_agg(d.id), array_agg(repair_digest(d.here_digest, d.here, newest)),
		array_agg(repair_digest(d.there_digest, d.there, newest))
	INTO ids, here, there FROM unnest(look_at_ids(compared, ids)) AS d;
END
$$;

-- The keys of steps that are to be run, and the digests of their rows when they were compared.
CREATE FUNCTION repair_compared(steps repair_step[], OUT ids text[], OUT here text[],
	OUT there text[]) RETURNS record
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT array_agg((u.s).id), array_agg((u.s).here_digest), array_agg((u.s).there_digest)
	FROM (SELECT unnest(steps) AS s) AS u WHERE (u.s).status = 'preview'
$$;

-- Those of the keys whose rows are not equal after all, if they were found behind locks.
-- A row that came while one was locked is not in the snapshot of the lock.
CREATE FUNCTION repair_unequal(plan repair_plan, ids text[], lock boolean) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	now record;
BEGIN
	IF NOT lock OR coalesce(ids, '{}') = '{}' THEN
		RETURN '{}';
	END IF;
	now := repair_look(plan, ids, false, false);
	RETURN ARRAY(SELECT n.id FROM unnest(now.ids, now.here, now.there) AS n(id, here, there)
		WHERE n.here IS DISTINCT FROM n.there);
END
$$;

-- The steps of a batch, without those of rows that have changed since they were compared, which
-- are skipped, and the keys whose rows an index may hide.
-- repair_begin has locked both relations, so what is seen here is as other repairs have
-- left it.  From here on, the target stays what was described.
-- Relies on: what lookups rely on, behind its locks.
CREATE FUNCTION repair_claim_batch(plan repair_plan, INOUT steps repair_step[],
	OUT unseen text[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	-- a lock takes the right to update, which inserting must not ask for
	lock boolean := EXISTS (SELECT FROM (SELECT unnest(steps) AS s) AS u
		WHERE (u.s).status = 'preview' AND (u.s).action <> 'insert');
	before record := repair_compared(steps);
	now record := repair_look(plan, repair_ids(plan, steps), true, lock);
	equal text[];
	changed text[];
BEGIN
	unseen := '{}';
	IF now IS DISTINCT FROM before THEN
		SELECT array_agg(DISTINCT b.id) FILTER (WHERE n.here IS NOT DISTINCT FROM n.there),
			array_agg(DISTINCT b.id) FILTER (WHERE n.here IS DISTINCT FROM n.there)
		INTO equal, changed
		FROM unnest(before.ids, before.here, before.there) AS b(id, here, there)
		LEFT JOIN unnest(now.ids, now.here, now.there) AS n(id, here, there) USING (id)
		WHERE n.here IS NOT DISTINCT FROM n.there
			OR n.here IS DISTINCT FROM b.here OR n.there IS DISTINCT FROM b.there;
		changed := changed || repair_unequal(plan, equal, lock);
		unseen := run_unseen(plan.compared, ARRAY(SELECT unnest(equal)
			EXCEPT SELECT unnest(changed)), '{}');
		steps := repair_skip(repair_skip(steps, changed, 'changed since it was compared'),
			equal, 'equal by now');
	END IF;
	steps := repair_fill(plan, repair_outside(plan, steps));
END
$$;

-- Locks the rows and looks at them again, batch by batch, those to be updated first.
CREATE FUNCTION repair_claim(work repair_work) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	batches integer[] := ARRAY(SELECT p.n FROM unnest(work.parts) WITH ORDINALITY AS p(part, n)
		ORDER BY p.part DESC, p.n);
	steps repair_step[];
	claimed record;
	unseen text[] := '{}';
BEGIN
	FOR n IN 1 .. work.batches LOOP
		PERFORM repair_progress(work, 'locking the rows', n);
		steps := repair_batch(work, batches[n]);
		CONTINUE WHEN repair_status(steps, 1) <> 'preview';
		claimed := repair_claim_batch(plan, steps);
		unseen := unseen || claimed.unseen;
		PERFORM iblt_repair_put(plan.secret, batches[n], claimed.steps);
	END LOOP;
	PERFORM check_index(plan.compared, unseen);
	PERFORM repair_absent(work), repair_cascades(work);
END
$$;

-- Locks what is to be changed of one relation or several, and claims the rows.
CREATE FUNCTION repair_claim_all(works repair_work[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM repair_begin(ARRAY(SELECT w.plan FROM unnest(works) AS w),
		ARRAY(SELECT w.plan FROM unnest(works) AS w WHERE w.keys > 0));
	FOR i IN 1 .. cardinality(works) LOOP
		PERFORM repair_claim(works[i]);
	END LOOP;
END
$$;

-- Running the statements on the target

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

-- Runs statements for many rows where the target is; the numbers of those that failed.
CREATE FUNCTION repair_run_many(conn text, statements text[], n bigint[], at_most boolean,
	path text) RETURNS integer[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF statements = '{}' THEN
		RETURN '{}';
	ELSIF conn IS NULL OR peer_is_bare(conn) THEN
		RETURN repair_execute_many(statements, n, at_most, path, conn);
	END IF;
	RETURN repair_call(conn, format('iblt_repair_execute of %s statements for many rows',
			cardinality(statements)),
		format('repair_execute_many(%L, %L, %L, %L)', statements, n, at_most, path),
		'running statements');
END
$$;

-- Runs the statements of steps, each by itself, where the target is; those that may succeed
-- behind others.  "last" runs those that are left until all have succeeded.
CREATE FUNCTION repair_run_rows(conn text, steps repair_step[], at_most boolean[], path text,
	last boolean) RETURNS integer[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	many text := format('%s statements', cardinality(steps));
	x record;
BEGIN
	SELECT array_agg(s.sql ORDER BY i) AS statements, array_agg(s.kept ORDER BY i) AS kept,
		array_agg(s.n ORDER BY i) AS n, array_agg(s.key::text ORDER BY i) AS keys INTO x
	FROM unnest(steps) WITH ORDINALITY AS s(id, key, action, sql, status, detail, n, columns, kept,
		texts, here_digest, there_digest, i);
	IF conn IS NULL OR peer_is_bare(conn) THEN
		RETURN repair_execute(x.statements, x.kept, x.n, at_most, x.keys, path, last, conn);
	ELSIF current_setting('server_version_num')::integer < 150000 THEN
		x.keys := ARRAY(SELECT repair_valid(key)
			FROM unnest(x.keys) WITH ORDINALITY AS k(key, i) ORDER BY i);
	END IF;
	PERFORM repair_send(conn, k) FROM unnest(x.kept) AS k WHERE k IS NOT NULL;
	RETURN repair_call(conn, 'iblt_repair_execute of ' || many, format(
		'repair_execute(%L, %L, %L, %L, %L, %L, %L)', x.statements, x.kept, x.n, at_most, x.keys,
		path, last),
		'running ' || many);
END
$$;

-- Runs steps of an action, many rows at once where that does what single statements do; the
-- steps that may succeed behind others, and whether statements have seen what they wrote.
-- Triggers of users could tell the difference, so they get a statement for each row.
CREATE FUNCTION repair_run_steps(plan repair_plan, action text, steps repair_step[],
	at_most boolean, OUT later repair_step[], OUT seen boolean) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	conn text := (repair_side(plan)).place;
	path text := (plan.asked).apply_search_path;
	m record;
	statements text[] := '{}';
	n bigint[] := '{}';
	failed integer[];
	members bigint[] := '{}';		-- places of steps
	statement_of integer[] := '{}';	-- of each member
	rest repair_step[];
BEGIN
	IF repair_triggers(plan, ARRAY[action]) IS NULL THEN
		FOR m IN SELECT * FROM repair_many(plan, action, steps) LOOP
			statements := statements || m.sql;
			n := n || cardinality(m.members)::bigint;
			members := members || m.members;
			statement_of := statement_of
				|| array_fill(cardinality(statements), ARRAY[cardinality(m.members)]);
		END LOOP;
		failed := repair_run_many(conn, statements, n, at_most, path);
	END IF;
	seen := failed = '{}' AND cardinality(members) = cardinality(steps);
	IF seen THEN
		seen := repair_sees(plan);
		later := '{}';
		RETURN;
	END IF;
	seen := false;
	rest := ARRAY(SELECT ROW(s.id, s.key, s.action, s.made, s.status, s.detail, s.n, s.columns,
			s.kept, s.texts, s.here_digest, s.there_digest)::repair_step
		FROM ROWS FROM (unnest(steps), unnest(repair_statements(plan, steps))) WITH ORDINALITY
			AS s(id, key, action, sql, status, detail, n, columns, kept, texts, here_digest,
			there_digest, made, i) WHERE s.i NOT IN (SELECT x.member
			FROM unnest(members, statement_of)
				AS x(member, statement) WHERE x.statement <> ALL (failed)));
	failed := repair_run_rows(conn, rest, array_fill(at_most, ARRAY[cardinality(rest)]), path,
		false);
	later := ARRAY(SELECT u.s FROM (SELECT unnest(rest) AS s, generate_subscripts(rest, 1) AS i)
		AS u WHERE u.i = ANY (failed));
END
$$;

-- Runs the statements of several relations, all deletes before the updates and inserts; have they
-- seen what they wrote?
CREATE FUNCTION repair_run_all(works repair_work[]) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	size CONSTANT integer := 10000;		-- steps that are run at a time
	work repair_work;
	action text;
	may_go boolean;
	steps repair_step[];
	run record;
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
					run := repair_run_steps(work.plan, action, steps[i : i + size - 1], may_go);
					seen := seen AND run.seen;
					rest := rest || run.later;
					at_most := at_most || array_fill(may_go, ARRAY[cardinality(run.later)]);
				END LOOP;
			END LOOP;
		END LOOP;
	END LOOP;
	IF rest <> '{}' THEN
		PERFORM repair_run_rows((repair_side(work.plan)).place, rest, at_most,
			((work.plan).asked).apply_search_path, true);
	END IF;
	RETURN seen;
END
$$;

-- The same on the target, in a session that is prepared for it.
CREATE FUNCTION repair_run_open(works repair_work[]) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := (works[1]).plan;
	asked repair_options := plan.asked;
	conn text := (repair_side(plan)).place;
	role text;
	seen boolean;
BEGIN
	IF peer_is_bare(conn) THEN
		PERFORM plain_open(conn, asked.as_replica AND NOT (plan.target).replica);
		PERFORM repair_run_all(works);
		PERFORM repair_check_deferred(asked.apply_search_path, conn);
		RETURN false;
	END IF;
	role := ask_call(conn, format('repair_open(%L, %L)', asked.apply_search_path,
		asked.as_replica));
	seen := repair_run_all(works);
	PERFORM ask_call(conn, format('repair_close(%L, %L)', asked.apply_search_path, role));
	RETURN seen;
END
$$;

-- The same under a replication origin, if one is given.
-- The origin belongs to the session and not to the transaction.  Each change that is written
-- under it names it in the log.  After an error, the session of a peer ends.
CREATE FUNCTION repair_run(works repair_work[]) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	origin text := (((works[1]).plan).asked).origin;
	conn text := (repair_side((works[1]).plan)).place;
	reset text := 'SELECT pg_catalog.pg_replication_origin_session_reset()';
	seen boolean;
BEGIN
	IF NOT EXISTS (SELECT FROM unnest(works) AS w WHERE w.keys > 0) THEN
		RETURN true;
	ELSIF origin IS NULL THEN
		RETURN repair_run_open(works);
	END IF;
	PERFORM ask_one(conn, format('SELECT pg_catalog.pg_replication_origin_session_setup(%L)',
		origin));
	BEGIN
		seen := repair_run_open(works);
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		IF conn IS NULL THEN
			PERFORM ask_one(conn, reset);
		END IF;
		RAISE;
	END;
	PERFORM ask_one(conn, reset);
	RETURN seen;
END
$$;
