-- Running the statements -----------------------------------------------------------
--
-- These functions run on the target's side.  They catch errors, to tell of the row that
-- failed and of no others: the statements of a repair are in no query's text, and an error
-- that is raised again has no other context.

-- Raises the error of a statement again, with the key of its row.
-- The context of what ran inside of the statement is kept, such as that of triggers.
CREATE FUNCTION repair_fail(e failure, sql text, kept text, key text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	inside text := regexp_replace(left(e.context,
		strpos(e.context, coalesce(sql, iblt_repair_kept(kept)))), '\n?[^\n]*$', '');
BEGIN
	e.detail := concat_ws(E'\n', nullif(e.detail, ''),
		format('The row has the key %s.', left(key, 1000)), 'Context: ' || nullif(inside, ''));
	IF e.state IN ('23503', '23001') THEN
		e.hint := concat_ws(E'\n', nullif(e.hint, ''), 'Repair all tables that refer to each '
			'other in one transaction: CALL iblt_audit_run(...), and then '
			'iblt_repair(run => ...).');
	END IF;
	PERFORM iblt_raise(e);
END
$$;

-- Runs a statement, which the session may keep under a name, and which must change that many
-- rows; under a search_path if one is given.
-- Triggers, defaults and checks of users must not find iblt_internal, so this function has
-- another path than those that call it.  The names in it are PostgreSQL's own, because only
-- the statement is to run under the path that is given.
CREATE FUNCTION repair_statement(sql text, kept text, n bigint, at_most boolean,
	path text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	changed bigint;
BEGIN
	IF path IS NOT NULL THEN
		PERFORM pg_catalog.set_config('search_path', path, true);
	END IF;
	IF kept IS NULL THEN
		EXECUTE sql;
		GET DIAGNOSTICS changed = ROW_COUNT;
	ELSE
		changed := iblt_internal.iblt_repair_run(kept);
	END IF;
	IF path IS NOT NULL THEN
		PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	END IF;
	IF changed <> n AND NOT (at_most AND changed < n) THEN
		RAISE EXCEPTION USING ERRCODE = 'triggered_data_change_violation',
			MESSAGE = format('a statement of the repair changed %s rows instead of %s', changed, n),
			DETAIL = left(coalesce(sql, iblt_internal.iblt_repair_kept(kept)), 1000)
				|| E'\nNothing was changed.',
			HINT = 'Look for a trigger, a rule or another session that changes such rows. '
				'Without a unique key, look for a value whose bytes are not those of its text: '
				'a row of a type that was altered, or a NaN of another sign.';
	END IF;
END
$$;

-- Runs all statements; or none, and returns the number of the first that failed and its
-- error.
CREATE FUNCTION repair_try(statements text[], kept text[], n bigint[], at_most boolean[],
	path text, OUT failed integer, OUT e failure) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	current integer;
BEGIN
	FOR i IN 1 .. cardinality(statements) LOOP
		current := i;
		PERFORM repair_statement(statements[i], kept[i], n[i], at_most[i], path);
	END LOOP;
EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
	GET STACKED DIAGNOSTICS e.state = RETURNED_SQLSTATE, e.message = MESSAGE_TEXT,
		e.detail = PG_EXCEPTION_DETAIL, e.hint = PG_EXCEPTION_HINT,
		e.context = PG_EXCEPTION_CONTEXT, e.schema_name = SCHEMA_NAME,
		e.table_name = TABLE_NAME, e.column_name = COLUMN_NAME,
		e.datatype_name = PG_DATATYPE_NAME, e.constraint_name = CONSTRAINT_NAME;
	IF path IS NULL AND e.state IN ('42P01', '42883', '42704', '3F000') THEN
		e.hint := concat_ws(E'\n', nullif(e.hint, ''), 'Set apply_search_path if a trigger, '
			'a default or a check names objects without their schema.');
	END IF;
	failed := current;
END
$$;

-- May a statement with that error succeed behind others?
-- foreign_key_violation, restrict_violation, unique_violation, exclusion_violation
CREATE FUNCTION repair_is_order(state text) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT state IN ('23503', '23001', '23505', '23P01')
$$;

-- Runs statements in an order that foreign keys and unique indexes allow.
-- Some statements succeed in another order only (a table that refers to itself, values
-- that must be unique).  They are tried again behind the others, until none succeeds.  The
-- order turns each time, so that neither direction of a chain takes many rounds.
CREATE FUNCTION repair_execute_passes(statements text[], kept text[], n bigint[],
	at_most boolean[], keys text[], path text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	remaining integer[] := ARRAY(SELECT i FROM generate_subscripts(statements, 1) AS i);
	failed integer[];
	i integer;
	e failure;
BEGIN
	WHILE remaining <> '{}' LOOP
		failed := '{}';
		FOREACH i IN ARRAY remaining LOOP
			e := (repair_try(statements[i:i], kept[i:i], n[i:i], at_most[i:i], path)).e;
			CONTINUE WHEN e.state IS NULL;
			IF NOT repair_is_order(e.state) THEN
				PERFORM repair_fail(e, statements[i], kept[i], keys[i]);
			END IF;
			failed := failed || i;
			IF cardinality(failed) = cardinality(remaining) THEN
				e.detail := concat_ws(E'\n', nullif(e.detail, ''),
					'Nothing was changed, because no statement order satisfies all constraints.');
				e.hint := CASE WHEN e.state IN ('23505', '23P01') THEN 'If rows exchange values '
					'that must be unique, make the constraint DEFERRABLE.' END;
				PERFORM repair_fail(e, statements[i], kept[i], keys[i]);
			END IF;
		END LOOP;
		remaining := ARRAY(SELECT f FROM unnest(failed) WITH ORDINALITY AS x(f, position)
			ORDER BY position DESC);
	END LOOP;
END
$$;

-- Runs all triggers and checks that are deferred.
CREATE FUNCTION repair_check_deferred(path text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sql text := 'SET CONSTRAINTS ALL IMMEDIATE';
	try record := repair_try(ARRAY[sql], '{NULL}', '{0}', '{f}', path);
BEGIN
	IF try.failed IS NOT NULL THEN
		PERFORM repair_fail(try.e, sql, NULL, NULL);
	END IF;
END
$$;

-- Lets the transaction wait until its commit is on disk, if it would not.
-- Who is told that a repair was applied must find it so after a crash.
CREATE FUNCTION repair_flushed() RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'local', true);
	END IF;
END
$$;

-- Runs the statements of a repair, each of which must change a number of rows.
-- session_replication_role also decides what becomes of checks that are deferred.  Those
-- that the caller deferred before run first, under the role that they were meant for.
CREATE FUNCTION repair_execute_all(statements text[], kept text[], n bigint[], at_most boolean[],
	keys text[], path text, as_replica boolean) RETURNS integer
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	role text := current_setting('session_replication_role');
	change boolean := as_replica AND role <> 'replica';
	try record;
BEGIN
	PERFORM repair_flushed();
	IF change THEN
		PERFORM repair_check_deferred(path);
		PERFORM set_config('session_replication_role', 'replica', true);
	END IF;
	SET CONSTRAINTS ALL DEFERRED;
	try := repair_try(statements, kept, n, at_most, path);
	IF repair_is_order((try.e).state) THEN
		PERFORM repair_execute_passes(statements, kept, n, at_most, keys, path);
	ELSIF try.failed IS NOT NULL THEN
		PERFORM repair_fail(try.e, statements[try.failed], kept[try.failed], keys[try.failed]);
	END IF;
	-- before anyone is told that the repair was applied
	PERFORM repair_check_deferred(path);
	IF change THEN
		PERFORM set_config('session_replication_role', role, true);
	END IF;
	RETURN cardinality(statements);
END
$$;

-- The same under a replication origin, if one is given.
-- The origin belongs to the session and not to the transaction.  Each change that is written
-- under it names it in the log.
CREATE FUNCTION repair_execute(statements text[], kept text[], n bigint[], at_most boolean[],
	keys text[], path text, as_replica boolean, origin text) RETURNS integer
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	done integer;
BEGIN
	IF origin IS NULL THEN
		RETURN repair_execute_all(statements, kept, n, at_most, keys, path, as_replica);
	END IF;
	PERFORM pg_replication_origin_session_setup(origin);
	BEGIN
		done := repair_execute_all(statements, kept, n, at_most, keys, path, as_replica);
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		PERFORM pg_replication_origin_session_reset();
		RAISE;
	END;
	PERFORM pg_replication_origin_session_reset();
	RETURN done;
END
$$;
