-- After a run ----------------------------------------------------------------------------

-- Why a table of a run is not equal because these differences, which are of one seed, are none any
-- more; NULL if it is.
-- If a side has fewer rows of a key than the run found, they have not become equal, but are gone.
-- That tells nothing (read_again): others, which the run has not seen, may have come.
CREATE FUNCTION run_gone(plan plan, t run_table, kept run_difference[]) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	size integer := batch_size(plan);
	part run_difference[];
	keys text[];
	found found_rows[];
	gone bigint := 0;
BEGIN
	IF (run_see(plan)).shape[4:5] IS DISTINCT FROM t.shape[4:5] THEN
		RETURN 'it was truncated or rewritten, or its partitions changed';
	END IF;
	FOR i IN 1 .. cardinality(kept) BY size LOOP
		part := kept[i : i + size - 1];
		keys := keys_of_ids(plan, iblt_field(part, 'id'));
		found := find_sides(index_plan(plan), keys);
		gone := gone + (SELECT count(*) FROM unnest(part) AS k LEFT JOIN (
				SELECT f.id, CASE count(*) WHEN 2 THEN min(f.n) END AS n FROM (
					SELECT s.id, s.n FROM unnest(found) AS r, unnest(r.id, r.n) AS s(id, n)
					WHERE plan.by_hash
					UNION ALL
					SELECT s.id, num_nonnulls(s.checksum)
					FROM unnest(found) AS r, unnest(keys, r.checksum) AS s(id, checksum)
					WHERE NOT plan.by_hash) AS f
				GROUP BY f.id) AS now USING (id)
			WHERE greatest(k.here_count, k.there_count) > coalesce(now.n, 0));
	END LOOP;
	RETURN CASE WHEN gone > 0 THEN
		format('rows that differed are gone (%s keys), and others may have come', gone) END;
END
$$;

-- Keeps other differences of a table in place of those it has; a note goes to a table that was
-- compared.
CREATE FUNCTION run_replace(w run_worker, t run_table, differences run_difference[], note text,
	gone text) RETURNS run_table
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	ended timestamptz := t.finished_at;	-- the run has not read the table since
	expected bigint := t.missing + t.extra + t.changed - t.kept + cardinality(differences);
	ranges run_range[] := ARRAY(SELECT ROW(NULL, r.run, r.table_number, r.number, r.after, r.up_to,
			r.rows_here, r.rows_there, r.missing + coalesce(c.missing, 0),
			r.extra + coalesce(c.extra, 0), r.changed + coalesce(c.changed, 0),
			r.unconfirmed + coalesce(c.unconfirmed, 0), r.found_at)::run_range
		FROM iblt_run_rows(NULL::run_range, t.run, t.table_number) AS r
		LEFT JOIN (SELECT u.slice, sum(u.n) FILTER (WHERE u.side = 'there'),
				sum(u.n) FILTER (WHERE u.side = 'here'), sum(u.n) FILTER (WHERE u.side = 'both'),
				sum(u.n) FILTER (WHERE NOT u.confirmed)
			FROM (SELECT 1, x.slice, x.side, x.confirmed FROM unnest(differences) AS x
				UNION ALL SELECT -1, x.slice, x.side, x.confirmed FROM iblt_run_rows(
					NULL::run_difference, t.run, t.table_number) AS x)
				AS u(n, slice, side, confirmed)
			GROUP BY u.slice) AS c(slice, missing, extra, changed, unconfirmed)
			ON c.slice = r.number);
BEGIN
	t.gone := coalesce(t.gone, run_replace.gone);
	SELECT coalesce(sum(r.missing), 0), coalesce(sum(r.extra), 0), coalesce(sum(r.changed), 0),
		coalesce(sum(r.unconfirmed), 0)
	INTO t.missing, t.extra, t.changed, t.unconfirmed FROM unnest(ranges) AS r;
	PERFORM run_require_stored(t.run, t.missing + t.extra + t.changed = expected);
	t.kept := cardinality(differences);
	FOR n IN 1 .. t.kept LOOP
		differences[n].number := n;
	END LOOP;
	PERFORM iblt_run_remove(NULL::run_difference, t.run, t.table_number),
		iblt_run_add(VARIADIC differences),
		iblt_run_remove(NULL::run_range, t.run, t.table_number),
		iblt_run_add(VARIADIC ARRAY(SELECT r FROM unnest(ranges) AS r
			WHERE r.missing + r.extra + r.changed > 0));
	IF t.status IS NOT NULL AND t.sqlstate IS NULL THEN
		t := run_finish_table(w, t);
		t.finished_at := ended;
		t.detail := concat_ws('; ', t.detail, note);
	END IF;
	PERFORM iblt_run_put(t);
	RETURN t;
END
$$;

-- Keeps the differences that still differ; an error if an index hides one.
-- The lock keeps the run from going on meanwhile.
CREATE FUNCTION @extschema@.iblt_audit_recheck(
	run bigint,
	peer text DEFAULT NULL,
	progress boolean DEFAULT false,
	here_peer text DEFAULT NULL)
RETURNS TABLE (relation text, before bigint, after bigint, status text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@driver w.conns; peers_secret(w.peers)@
AS $$
DECLARE
	w run_worker := run_worker_of(here_peer, peer, progress);
	t run_table;
	planned record;
	plan plan;
	kept run_difference[];
	looked record;			-- what has become of them
	doubtful text[];
	gone text;
	still run_difference[];
	old bigint;
BEGIN
	w := run_open(w, run);
	PERFORM iblt_run_lock(run);
	FOR t IN SELECT x.* FROM iblt_run_rows(NULL::run_table, w.run)
			AS x WHERE x.kept > 0 ORDER BY x.table_number LOOP
		old := t.missing + t.extra + t.changed;
		IF t.shape IS NOT NULL THEN		-- otherwise it is to begin again
			doubtful := '{}';
			gone := NULL;
			still := '{}';
			planned := audit_plan(w.conns,
				jsonb_populate_record(NULL::audit_item, t.item), (w.options).compare);
			w.item := planned.item;
			w.plan := planned.plan;
			plan := w.plan;
			PERFORM run_require_same(t, plan);
			FOR kept IN SELECT array_agg(d.x)
					FROM (SELECT x, row_number() OVER (PARTITION BY x.seed) / 10000 AS part
						FROM iblt_run_rows(NULL::run_difference, t.run, t.table_number) AS x)
						AS d
					GROUP BY (d.x).seed, d.part LOOP
				plan.seed := kept[1].seed;
				looked := recheck(plan, iblt_field(kept, 'id'));
				-- a key that has come since is of the same range as the first one
				still := still || ARRAY(SELECT jsonb_populate_record(coalesce(k, kept[1]),
						to_jsonb(d) || jsonb_build_object('found_at', clock_timestamp()))
					FROM unnest(looked.differences) AS d LEFT JOIN unnest(kept) AS k USING (id));
				doubtful := doubtful || looked.doubtful;
				gone := coalesce(gone, run_gone(plan, t, ARRAY(SELECT k FROM unnest(kept) AS k
					WHERE k.id NOT IN (SELECT d.id FROM unnest(looked.differences) AS d))));
			END LOOP;
			PERFORM check_index(plan, doubtful);
			t := run_replace(w, t, still, 'differences were looked at again', gone);
		END IF;
		RETURN QUERY SELECT t.relation, old, t.missing + t.extra + t.changed, t.status;
	END LOOP;
	PERFORM peers_close(w.conns);
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_recheck IS
'rechecks the differences of a run, and keeps the ones that still differ';

CREATE FUNCTION @extschema@.iblt_audit_prune(older_than interval DEFAULT '30 days') RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
	SELECT coalesce(sum(r.heads), 0)::bigint
	FROM iblt_run_rows(NULL::run_head, own => false) AS h, LATERAL (SELECT
		run_clear(h.run, own => false), iblt_run_remove(NULL::run_table, h.run, own => false),
		iblt_run_remove(NULL::run_head, h.run, own => false) OFFSET 0) AS r(slices, tables, heads)
	WHERE h.run <> ALL (ARRAY(SELECT w.run FROM run_workers() AS w))
	AND clock_timestamp() - older_than > greatest(h.started_at,
		(SELECT max(greatest(t.started_at, t.finished_at))
		FROM iblt_run_rows(NULL::run_table, h.run, own => false) AS t))
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_prune IS
'deletes runs on which nobody works and that did not get further for that long; returns how many';
