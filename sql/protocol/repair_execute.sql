-- Executing the statements ---------------------------------------------------------
--
-- repair_execute_statements runs on the target's side.  It catches errors, to tell of the row that
-- failed and of no others: the statements of a repair are in no query's text, and an error that is
-- raised again has no other context.  apply.sql decides what becomes of the statements that failed.

-- Executes all statements, or none.  Separately, each is executed by itself.  The answer lists the
-- statements that failed and why, and these have changed nothing.  Each must change n rows, or at
-- most n.
-- Triggers, defaults and checks of users must not find iblt_internal, so a statement runs under
-- the path that is given, or under PostgreSQL's own.  A server without iblt runs the body of this
-- function, and is "bare".
CREATE FUNCTION repair_execute_statements(bare boolean, statements text[], n bigint[],
	at_most boolean[], path text, separately boolean, OUT answer jsonb) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	own text := current_setting('search_path');
	total integer := cardinality(statements);
	current integer;
	changed bigint;
	miscounted bigint;
	state text;
	message text;
	detail text;
	hint text;
	context text;
	schema_name text;
	table_name text;
	column_name text;
	datatype_name text;
	constraint_name text;
BEGIN
	answer := '[]';
	FOR start IN 1 .. CASE WHEN separately THEN total ELSE least(total, 1) END LOOP
		current := start;	-- an error on the way to the first one is also a failure
		miscounted := NULL;
		BEGIN
			IF bare AND start = 1 THEN
				PERFORM set_config('iblt.block', '', true);
			END IF;
			FOR i IN start .. CASE WHEN separately THEN start ELSE total END LOOP
				current := i;
				IF NOT bare THEN
					PERFORM progress_timely('running statements');
				END IF;
				PERFORM set_config('search_path', coalesce(path, 'pg_catalog, pg_temp'), true);
				IF bare THEN
					EXECUTE statements[i];
					GET DIAGNOSTICS changed = ROW_COUNT;
				ELSE
					changed := iblt_internal.iblt_repair_execute(statements[i]);
				END IF;
				PERFORM pg_catalog.set_config('search_path', own, true);
				IF changed <> n[i] AND NOT (at_most[i] AND changed < n[i]) THEN
					miscounted := changed;
					RAISE EXCEPTION 'miscounted';
				END IF;
			END LOOP;
		EXCEPTION WHEN @on_any_error@ THEN
			GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
				detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
				context = PG_EXCEPTION_CONTEXT, schema_name = SCHEMA_NAME,
				table_name = TABLE_NAME, column_name = COLUMN_NAME,
				datatype_name = PG_DATATYPE_NAME, constraint_name = CONSTRAINT_NAME;
			answer := answer || jsonb_build_array(jsonb_build_object('failed', current,
				'changed', miscounted, 'state', state, 'message', message, 'detail', detail,
				'hint', hint, 'context', context, 'schema_name', schema_name,
				'table_name', table_name, 'column_name', column_name,
				'datatype_name', datatype_name, 'constraint_name', constraint_name));
			EXIT WHEN state = '57014';
		END;
	END LOOP;
END
$$;

-- Prepares a session for the statements of a repair.
-- Who is told that a repair was applied must find it so after a crash, so the transaction waits
-- until its commit is on disk.  session_replication_role also decides what becomes of checks that
-- are deferred.
CREATE FUNCTION repair_open(as_replica boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'local', true);
	END IF;
	IF as_replica AND current_setting('session_replication_role') <> 'replica' THEN
		PERFORM set_config('session_replication_role', 'replica', true);
	END IF;
	SET CONSTRAINTS ALL DEFERRED;
END
$$;

-- Keeps DDL away from tables, and all writers from those without a unique key, until the
-- transaction ends.
CREATE FUNCTION repair_lock_tables(relations regclass[], keyless regclass[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	relation regclass;
BEGIN
	FOR relation IN SELECT r FROM unnest(relations) AS r ORDER BY 1 LOOP
		EXECUTE format('LOCK TABLE %s IN %s MODE', relation, CASE WHEN relation = ANY (keyless)
			THEN 'SHARE ROW EXCLUSIVE' ELSE 'ROW EXCLUSIVE' END);
	END LOOP;
END
$$;

-- Executes a statement, and returns how many rows it changed.  The functions of triggers, defaults
-- and checks may be of other roles (iblt_guard).
CREATE FUNCTION iblt_repair_execute(statement text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Keeps an array as number n of a list, in place of the one that is there, or behind the last one
-- if n is NULL; the number.
CREATE FUNCTION iblt_repair_put(list text, n integer, value anyarray) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Array n of a list, of the type of the last argument, which may be NULL.
CREATE FUNCTION iblt_repair_get(list text, n integer, type anyarray) RETURNS anyarray
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The value whose parts a text names: their list, the first and the last one.
CREATE FUNCTION repair_value(named text) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
	SELECT string_agg((iblt_repair_get(split_part(named, ' ', 3), n, NULL::text[]))[1], '')
	FROM generate_series(split_part(named, ' ', 4)::integer, split_part(named, ' ', 5)::integer)
		AS n
$$;
