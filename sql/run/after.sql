-- After a run ----------------------------------------------------------------------------

-- Looking again

-- What the keys of differences are made of, as one text.
-- The keys of what was found are texts, so the key has to be what it was.
CREATE FUNCTION run_key(plan plan) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN md5(concat_ws(' ', plan.by_hash, plan.whole_row, plan.key_size,
		(SELECT jsonb_agg(jsonb_build_array(k.name, k.cast_to, k.base, k.base_there))
			FROM unnest(plan.key) AS k)));
END
$$;

-- Keys that no longer differ, and whose rows an index does not find on a side.
-- An index that lost an entry looks like a row that was deleted, so a scan has to look for
-- the rows of these keys.
CREATE FUNCTION run_unseen(plan plan, ids text[],
	differences difference[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	gone text[] := ARRAY(SELECT unnest(ids) EXCEPT SELECT d.id FROM unnest(differences) AS d);
	keys text[] := keys_of_ids(plan, gone);
	found record;
BEGIN
	IF plan.by_hash OR plan.buckets IS NOT NULL OR keys = '{}' THEN
		RETURN '{}';
	END IF;
	found := find_both(index_plan(plan), keys);
	RETURN ARRAY(SELECT u.key
		FROM unnest(keys, (found.here).checksum, (found.there).checksum) AS u(key, here, there)
		WHERE u.here IS NULL OR u.there IS NULL);
END
$$;

-- The differences of a table that still differ; an error if an index hides one.
CREATE FUNCTION run_look(w run_worker) RETURNS run_difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan plan := w.plan;
	batch record;
	differences difference[];
	unseen text[] := '{}';
	result run_difference[] := '{}';
BEGIN
	FOR batch IN SELECT d.seed, array_agg(d.id) AS ids
			FROM (SELECT x.*, row_number() OVER (PARTITION BY x.seed) / 10000 AS part
				FROM iblt_run_rows(NULL::run_difference, w.run, w.item)
					AS x) AS d
			GROUP BY d.seed, d.part LOOP
		plan.seed := batch.seed;
		differences := look_at_ids(plan, batch.ids);
		IF plan.recheck > 0 AND differences <> '{}' THEN
			differences := recheck(plan, differences);
		END IF;
		result := result || ARRAY(SELECT ROW(NULL, w.run, w.item, 0, d.id, batch.seed, d.key,
			d.side, d.here, d.there, d.confirmed, d.here_count, d.there_count,
			clock_timestamp(), d.differs)::run_difference FROM unnest(differences) AS d);
		unseen := unseen || run_unseen(plan, batch.ids, differences);
	END LOOP;
	PERFORM check_index(plan, unseen);
	RETURN result;
END
$$;

-- Keeps other differences of a table in place of those it has; a note goes to a table that was
-- compared.
CREATE FUNCTION run_replace(w run_worker, t run_table, differences run_difference[], note text)
RETURNS run_table
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	change record;
	d run_difference;
BEGIN
	SELECT coalesce(sum(u.n) FILTER (WHERE u.side = 'there'), 0) AS missing,
		coalesce(sum(u.n) FILTER (WHERE u.side = 'here'), 0) AS extra,
		coalesce(sum(u.n) FILTER (WHERE u.side = 'both'), 0) AS changed,
		coalesce(sum(u.n) FILTER (WHERE u.confirmed IS FALSE), 0) AS unconfirmed INTO change
	FROM (SELECT 1 AS n, x.side, x.confirmed FROM unnest(differences) AS x
		UNION ALL SELECT -1, x.side, x.confirmed FROM iblt_run_rows(
			NULL::run_difference, t.run, t.item) AS x) AS u;
	t.missing := t.missing + change.missing;
	t.extra := t.extra + change.extra;
	t.changed := t.changed + change.changed;
	t.unconfirmed := t.unconfirmed + CASE WHEN (w.entry).unready
		THEN change.missing + change.extra + change.changed ELSE change.unconfirmed END;
	t.kept := cardinality(differences);
	PERFORM iblt_run_remove(NULL::run_difference, t.run, t.item);
	FOR n IN 1 .. t.kept LOOP
		d := differences[n];
		d.number := n;
		PERFORM iblt_run_add(d);
	END LOOP;
	IF t.status IS NOT NULL AND t.sqlstate IS NULL THEN
		t := run_finish_table(w, t);
		t.detail := concat_ws('; ', t.detail, note);
	END IF;
	PERFORM iblt_run_put(t);
	RETURN t;
END
$$;

-- Looks at the differences of a table again.
CREATE FUNCTION run_look_table(w run_worker, t run_table) RETURNS run_table
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	w.item := t.item;
	w := run_plan(w, t);
	IF run_key(w.plan) IS DISTINCT FROM t.key THEN
		RAISE EXCEPTION USING ERRCODE = 'IB004',
			MESSAGE = format('the key of %s is not what it was in run %s', t.relation, t.run),
			HINT = 'Begin another run.';
	END IF;
	RETURN run_replace(w, t, run_look(w), 'differences were looked at again');
END
$$;

-- The lock keeps the run from going on meanwhile.
CREATE FUNCTION @extschema@.iblt_audit_recheck(
	run bigint,
	peer text DEFAULT NULL,
	progress boolean DEFAULT false,
	here_peer text DEFAULT NULL)
RETURNS TABLE (relation text, before bigint, after bigint, status text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
AS $$
DECLARE
	w run_worker := run_worker_of(here_peer, peer, progress);
	t run_table;
	old bigint;
	e failure;
BEGIN
	BEGIN
		w := run_open(w, run);
		PERFORM run_write(run);
		FOR t IN SELECT x.* FROM iblt_run_rows(NULL::run_table, w.run)
				AS x WHERE x.kept > 0 ORDER BY x.item LOOP
			old := t.missing + t.extra + t.changed;
			t := run_look_table(w, t);
			RETURN QUERY SELECT t.relation, old, t.missing + t.extra + t.changed, t.status;
		END LOOP;
		PERFORM peers_close(w.conns);
	EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
		@take_failure@;
		e := iblt_raise(peers_fail(w.conns, peers_secret(w.peers), e));
		RAISE;
	END;
END
$$;
COMMENT ON FUNCTION iblt_audit_recheck IS
'rechecks the differences of a run, and keeps the ones that still differ';

-- Pruning

CREATE FUNCTION @extschema@.iblt_audit_prune(older_than interval DEFAULT '30 days') RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
DECLARE
	at_work bigint[] := ARRAY(SELECT w.run FROM run_workers() AS w);
	doomed bigint;
	n bigint := 0;
BEGIN
	FOR doomed IN SELECT h.run
			FROM iblt_run_rows(NULL::run_head, own => false) AS h
			WHERE h.run <> ALL (at_work) AND clock_timestamp() - older_than > greatest(h.started_at,
				(SELECT max(greatest(t.started_at, t.finished_at)) FROM iblt_run_rows(
					NULL::run_table, h.run, own => false) AS t)) LOOP
		PERFORM iblt_run_remove(NULL::run_difference, doomed, own => false);
		PERFORM iblt_run_remove(NULL::run_range, doomed, own => false);
		PERFORM iblt_run_remove(NULL::run_slice, doomed, own => false);
		PERFORM iblt_run_remove(NULL::run_sketch, doomed, own => false);
		PERFORM iblt_run_remove(NULL::run_table, doomed, own => false);
		n := n + iblt_run_remove(NULL::run_head, doomed, own => false);
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION iblt_audit_prune IS
'deletes runs on which nobody works and that did not get further for that long; returns how many';
