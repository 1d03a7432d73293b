-- Slices by blocks -----------------------------------------------------------------------
--
-- slice_by => 'blocks' reads a table in ranges of its blocks, on each side by itself.  It
-- needs neither a key nor an index.  Sketches add up, so a run keeps one for a table: that of
-- all slices here less those there.  When the last slice is in it, its keys are looked up, as
-- those of a comparison of the whole table are.
--
-- A row that is updated moves from one block to another.  If it moved from a block that is
-- still to come to one that is done, nobody would look at it.  So a moment of each side is
-- noted when a table begins, and each block is proved to be as it was then before it is read
-- (src/run/blocks.c).  A block that is not is an error (IB009), with which the table ends.
-- What is written to blocks that are done is of no matter: all slices together are the
-- table as it was at that moment.

-- A side is asked for these.  They are part of the protocol.

-- For TABLESAMPLE: a range of blocks, with an error unless they are as they were at a moment.
CREATE FUNCTION iblt_blocks_at_rest(internal) RETURNS tsm_handler
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- A moment of a table, and its blocks.
-- The order matters: a transaction that was not over at the first step, or wrote behind the
-- second, is found out; and what was added before the second is among the blocks.  A file
-- that takes its place in between is found out by the scan.
CREATE FUNCTION blocks_moment(relation regclass) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	first xid8 := pg_snapshot_xmin(pg_current_snapshot());
	reached pg_lsn := CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
		ELSE iblt_wal_position() END;
	c pg_class := (SELECT x FROM pg_class x WHERE x.oid = relation);
BEGIN
	IF c.relpersistence <> 'p' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('blocks of %s cannot be proved to be at rest', relation),
			DETAIL = 'It is an unlogged or temporary table.',
			HINT = 'Compare it by key.';
	END IF;
	RETURN jsonb_build_object('file', c.relfilenode, 'started', pg_postmaster_start_time(),
		'lsn', reached, 'xmin', first::text,
		'blocks', pg_relation_size(relation) / current_setting('block_size')::bigint);
END
$$;

-- Beginning a table

-- Why the relations of a plan cannot be compared by blocks, NULL if they can; an error for a
-- partitioned table.
CREATE FUNCTION blocks_problem(plan plan) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	s side;
BEGIN
	FOREACH s IN ARRAY ARRAY[plan.here, plan.there] LOOP
		IF s.kind = 'p' THEN
			RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
				MESSAGE = format('a partitioned table is not compared by blocks (%s)', s.side),
				DETAIL = 'Name its partitions in tables, or compare it by key.';
		ELSIF s.kind <> 'r' OR NOT s.ordinary OR NOT s.versions OR s.distributed THEN
			RETURN format('not an ordinary table (%s)', s.side);
		END IF;
	END LOOP;
	RETURN NULL;
END
$$;

-- The moments of both sides of a table that begins, and what there is to say of how it is read.
CREATE FUNCTION blocks_begin(w run_worker, seen run_seen) RETURNS run_seen
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	problem text := blocks_problem(w.plan);
	call text := 'blocks_moment(%L::pg_catalog.regclass)';
	-- how many differences can be told: the sketch is stored after each slice, so it is not large
	capacity bigint := least(10000, greatest(100, (w.options).most_kept),
		greatest(100, coalesce(((w.plan).here).most_rows + ((w.plan).there).most_rows, 10000)));
	moments text[];
BEGIN
	seen.whole := problem IS NOT NULL;
	IF seen.whole THEN
		seen.how := 'compared in one slice: ' || problem;
		RETURN seen;
	END IF;
	moments := ask_calls(places_of(w.plan), format(call, ((w.plan).here).relation),
		format(call, ((w.plan).there).relation));
	seen.moments := jsonb_build_object('capacity', capacity, 'here', moments[1]::jsonb,
		'there', moments[2]::jsonb);
	seen.how := format('read by blocks, as they were when the run began with it (%s)',
		to_char(clock_timestamp(), 'YYYY-MM-DD HH24:MI:SS TZ'));
	RETURN seen;
END
$$;

-- Cutting

-- The blocks here and there before which the next slice ends; NULL if that is the end of
-- both.
-- As large a part of one side's blocks as of the other side's.
CREATE FUNCTION blocks_bound(t run_table) RETURNS text[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	here bigint := (t.moments #>> '{here,blocks}')::bigint;
	there bigint := (t.moments #>> '{there,blocks}')::bigint;
	part numeric := t.slice_rows / greatest(t.estimate, 1)::numeric;
	bound bigint[] := ARRAY[
		least(here, coalesce(t.frontier[1]::bigint, 0) + ceil(part * here)::bigint),
		least(there, coalesce(t.frontier[2]::bigint, 0) + ceil(part * there)::bigint)];
BEGIN
	RETURN CASE WHEN bound <> ARRAY[here, there] THEN bound::text[] END;
END
$$;

-- Comparing

-- The sketch of a range of blocks of a side and the fingerprint, as the rest of a SELECT.
-- Relies on: blocks that are as they were at that moment, in one snapshot.
CREATE FUNCTION blocks_sketch_sql(plan plan, s side, moments jsonb, lo text, hi text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	moment jsonb := moments -> s.side;
BEGIN
	RETURN format('iblt_agg(%s, %s, iblt_compare_template(%s, %s, %L)), %s'
		' FROM %s%s',
		key_sql(plan, s), row_checksum_sql(plan),
		moments ->> 'capacity', plan.key_size, plan.seed, fingerprint_sql(s),
		from_sql(plan, s, '{}', format(
			' TABLESAMPLE iblt_blocks_at_rest(%L, %L, %L, %L, %L, %L)',
			coalesce(lo, '0'), coalesce(hi, moment ->> 'blocks'), moment ->> 'file',
			moment ->> 'started', moment ->> 'lsn', moment ->> 'xmin')),
		condition_sql(plan, s));
END
$$;

-- A query for what the scan of a slice by blocks gives.
CREATE FUNCTION blocks_sql(plan plan, s side, moments jsonb, lo text, hi text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
BEGIN
	RETURN format(CASE WHEN s.place IS NULL THEN 'SELECT scan_answer(%L, s, f, %s, false)::text'
			ELSE 'SELECT ROW(f, %2$s, NULL, s::text)::scanned::text' END
			|| ' FROM (SELECT %3$s OFFSET 0) AS q(s, f)',
		kept_name(plan, s), elapsed_sql(s), blocks_sketch_sql(plan, s, moments, lo, hi));
END
$$;

-- The sketch of a slice here less that of the slice there, and how many rows they have.
CREATE FUNCTION blocks_scan(plan plan, moments jsonb, s run_slice, OUT figures figures,
	OUT difference @extschema@.iblt) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	scanned scanned[] := ask_values(places_of(plan), ARRAY[
		blocks_sql(plan, plan.here, moments, s.lo[1], s.hi[1]),
		blocks_sql(plan, plan.there, moments, s.lo[2], s.hi[2])], 0.005,
		how => ROW('read_planned', NULL, NULL, NULL,
			reads(plan.here, plan.there))::reading)::scanned[];
	here declared.sketch%TYPE := sketch_of(scanned[1]);
	there declared.sketch%TYPE := sketch_of(scanned[2]);
BEGIN
	figures := take_scanned(plan, scanned, started, here, there, NULL);
	difference := iblt_subtract(here, there);
END
$$;

-- Adds the sketch of a slice to that of its table, unless the table was altered or ended
-- meanwhile.
-- The lock of the run is held until the slice is stored, in the same transaction.
CREATE FUNCTION blocks_add(s run_slice, difference @extschema@.iblt) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	t run_table;
	kept run_sketch;
BEGIN
	PERFORM run_lock_to_write(s.run);
	t := run_table_of(s.run, s.table_number);
	IF t.status IS NOT NULL OR t.shape IS NULL OR t.generation <> s.generation THEN
		RETURN;
	END IF;
	SELECT x.* INTO kept
	FROM iblt_run_rows(NULL::run_sketch, s.run, s.table_number) AS x;
	PERFORM run_require_stored(s.run, kept.sketch IS NOT NULL OR t.done = 0);
	kept.run := s.run;
	kept.table_number := s.table_number;
	kept.number := 0;
	kept.sketch := CASE WHEN kept.sketch IS NULL THEN difference
		ELSE iblt_add(kept.sketch, difference) END;
	PERFORM iblt_run_put(kept);
END
$$;

-- The differences of a table all of whose blocks are in its sketch, as they are now.
CREATE FUNCTION blocks_find(plan plan, t run_table) RETURNS comparison
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sketch declared.sketch%TYPE := (SELECT x.sketch
		FROM iblt_run_rows(NULL::run_sketch, t.run, t.table_number) AS x);
	decoded record;
	figures figures;
	differences difference[];
BEGIN
	PERFORM run_require_stored(t.run, sketch IS NOT NULL);
	decoded := iblt_compare_decode(sketch);
	IF decoded.complete IS NOT TRUE THEN
		RAISE EXCEPTION USING ERRCODE = 'IB002',
			MESSAGE = format('too many differences: about %s keys differ, and a run by blocks '
				'can find %s in this table', decoded.estimated, t.moments ->> 'capacity'),
			HINT = 'Compare it by key, or by iblt_compare.';
	END IF;
	PERFORM require_version_rights(plan);
	figures.rows_here := 0;
	figures.rows_there := 0;
	differences := ARRAY(SELECT unnest(b.batch) FROM differences(plan, figures, decoded.keys,
		decoded.recovered, iblt_fold(sketch, 9, 0.1)) AS b(batch));
	-- it was not equal when the run began with it
	IF decoded.recovered > 0 AND differences = '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'IB009',
			MESSAGE = format('relation %s was written to after a run had read its blocks',
				(plan.here).relation),
			DETAIL = format('Keys that differed, and differ no longer: %s.', decoded.recovered),
			HINT = 'CALL iblt_audit_resume begins again with the table.';
	END IF;
	PERFORM iblt_run_remove(NULL::run_sketch, t.run, t.table_number);
	RETURN ROW(plan, compare_stats(), differences);
END
$$;
