-- Rows of a run ------------------------------------------------------------------------
--
-- They are read as they are at this moment.  Who writes one takes the lock of the run
-- first, and reads it under the lock.

-- An error unless what a run has stored is there.
-- REFRESH MATERIALIZED VIEW empties a store, and what was in it must not look done.
CREATE FUNCTION run_require_stored(run bigint, stored boolean) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF stored IS NOT TRUE THEN
		RAISE data_corrupted USING
			MESSAGE = format('a part of run %s is not in its store any more', run),
			DETAIL = 'REFRESH MATERIALIZED VIEW removes it.',
			HINT = 'Begin another run, and leave out schema iblt_internal where you refresh '
				'all materialized views.';
	END IF;
END
$$;

-- A run of this role; an error if there is none.
CREATE FUNCTION run_head_of(run bigint) RETURNS run_head
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	heads run_head[] := ARRAY(SELECT h FROM iblt_run_rows(NULL::run_head, run) AS h);
BEGIN
	IF run IS NULL THEN
		-- it would stand for any run, without locks
		RAISE null_value_not_allowed USING MESSAGE = 'run must not be null';
	ELSIF cardinality(heads) <> 1 THEN
		PERFORM iblt_run_lock(run);		-- an error that says why
	END IF;
	RETURN heads[1];
END
$$;

-- A table of a run.
CREATE FUNCTION run_table_of(run bigint, table_number integer) RETURNS run_table
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
AS $$
	SELECT x FROM iblt_run_rows(NULL::run_table, run, table_number) AS x
$$;

-- Deletes what a run has stored of its slices, of a table or of all.
CREATE FUNCTION run_clear(run bigint, table_number integer DEFAULT NULL, own boolean DEFAULT true)
RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
AS $$
	SELECT iblt_run_remove(NULL::run_slice, run, table_number, own => own),
		iblt_run_remove(NULL::run_difference, run, table_number, own => own),
		iblt_run_remove(NULL::run_range, run, table_number, own => own)
$$;

-- What the differences that a run keeps rest on: the fingerprints of both sides, and a hash of what
-- ids are made of, the key and how it is kept.
CREATE FUNCTION run_basis(plan plan) RETURNS text[]
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN ARRAY[(plan.here).fingerprint, (plan.there).fingerprint,
		audit_hash(convert_to(concat_ws(' ', plan.by_hash, plan.whole_row, plan.key_size,
			(SELECT jsonb_agg(jsonb_build_array(k.name, k.cast_to, k.base, k.base_there))
				FROM unnest(plan.key) AS k)), getdatabaseencoding()))];

-- An error if a table is not what it was when a run compared it.
-- What the run found tells nothing of columns that have come since, and ids of stored differences
-- can be looked up only by the key that they were made of.
CREATE FUNCTION run_require_same(t run_table, plan plan) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF run_basis(plan) IS DISTINCT FROM t.shape[1:3] THEN
		RAISE SQLSTATE 'IB004' USING
			MESSAGE = format('%s was altered since run %s compared it', t.relation, t.run),
			DETAIL = 'Its key or its columns are not what they were, on one side or both.',
			HINT = 'Begin another run.';
	END IF;
END
$$;

-- Are all tables of a run compared?
CREATE FUNCTION run_over(run bigint) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	open boolean[] := ARRAY(SELECT x.status IS NULL FROM iblt_run_rows(NULL::run_table, run) AS x);
BEGIN
	PERFORM run_require_stored(run, open <> '{}');
	RETURN true <> ALL (open);
END
$$;
