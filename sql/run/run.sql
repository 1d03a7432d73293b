-- Runs -----------------------------------------------------------------------------------
--
-- iblt_audit_run and iblt_audit_resume call run_step until nothing is left to do, or max_time
-- is over, and commit after each step:
--
-- begin.sql: run_begin adds a run with its tables, or run_open goes on with one.
-- claim.sql: run_claim compares small tables together (small.sql), or takes a slice that was
-- left by a session that died, or cuts the next one (bounds.sql, slice_guard.sql).
-- work.sql: run_work compares the slice and stores what it found in one transaction.
-- run_step waits for a moment, where one of these asks for a pause (pause.sql).
--
-- claim.sql and work.sql end with their step, so read them from the end.
--
-- A slice is stored until what it has shown is stored in its place, and it is locked while a
-- session compares it.  So no slice is lost or counted twice.
--
-- after.sql rechecks what a run has found, and deletes old runs; sql/repair/run.sql repairs what a
-- run has found.  A recheck or a repair locks the run, so that it does not go on meanwhile.
--
-- A procedure that commits has no settings of its own, so it uses no operator, and leaves
-- all to its steps.

-- One step of a session that works on a run; after an error, no connection is left.
-- The lock shows who works on the run.
CREATE FUNCTION run_step(w run_worker) RETURNS run_worker
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	@pinned_settings@
AS $$
DECLARE
	begun boolean := w.act NOT IN ('begin', 'resume');
	secret boolean;
	e failure;
BEGIN
	BEGIN
		secret := begun OR peers_secret(w.peers);
		IF begun THEN
			-- all runs of a session have the same connections, whose peers are asked and called
			-- as they were when this run connected to them
			PERFORM iblt_run_lock(w.run, 0, 1, true),
				set_config('iblt.peers', coalesce(w.said, ''), true);
		END IF;
		CASE w.act
			WHEN 'begin' THEN w := run_begin(w);
			WHEN 'resume' THEN
				w := run_open(w, w.run);
				PERFORM run_reopen(w.run, w.progress);
				w.act := 'claim';
			WHEN 'claim' THEN w := run_claim(w);
			WHEN 'work' THEN w := run_work(w);
			WHEN 'pause' THEN
				-- for a moment, so a pause holds no snapshot for longer, and ends with the run
				PERFORM pg_sleep(greatest(least(extract(epoch FROM w.until - clock_timestamp()),
					0.2), 0));
				IF clock_timestamp() >= w.until OR clock_timestamp() >= w.deadline
						OR run_over(w.run) THEN
					w.act := 'claim';
				END IF;
		END CASE;
		IF NOT begun THEN
			-- max_time is for slices, however long it takes to connect
			w.deadline := w.deadline + (clock_timestamp() - w.last);
			w.last := clock_timestamp();
		END IF;
		RETURN w;
	EXCEPTION WHEN @on_any_error@ THEN
		@take_failure@;
		IF begun THEN
			e.hint := concat_ws(' ', nullif(e.hint, ''),
				format('CALL iblt_audit_resume(%s) continues the run.', w.run));
		END IF;
		PERFORM iblt_raise(peers_fail(w.conns, secret, e), 3);
		RAISE;
	END;
END
$$;

CREATE PROCEDURE @extschema@.iblt_audit_run(
	@iblt_audit: peer tables schema publication subscription@
	slice_ms integer DEFAULT 1000,
	max_load double precision DEFAULT NULL,
	max_rate bigint DEFAULT NULL,
	max_lag text DEFAULT NULL,
	max_time interval DEFAULT NULL,
	rows anycompatible DEFAULT false,
	check_indexes boolean DEFAULT false,
	@iblt_audit: max_differences cast_types extra_columns recheck timeout seed trust_filters method@
	progress boolean DEFAULT true,
	@iblt_audit: peer_schema mappings here_peer here_tables@
	INOUT run bigint DEFAULT NULL)
	LANGUAGE plpgsql
AS $$
DECLARE
	compare iblt_internal.options;
	w iblt_internal.run_worker;
BEGIN
	PERFORM iblt_internal.iblt_require_no_block('iblt_audit_run');
	w := iblt_internal.run_worker_of(here_peer, peer, progress, 'begin', max_time);
	w.target := iblt_internal.audit_make_target(tables, schema, publication, subscription,
		peer_schema, here_tables);
	compare := iblt_internal.audit_make_options(@arguments options@);
	w.options := @arguments run_options@;
	WHILE w.act IS NOT NULL LOOP
		w := iblt_internal.run_step(w);
		run := w.run;
		COMMIT;
	END LOOP;
END
$$;
COMMENT ON PROCEDURE @extschema@.iblt_audit_run IS
'compares many tables with those of a peer in slices, which are committed one by one; gives the '
'number of the run';

CREATE PROCEDURE @extschema@.iblt_audit_resume(
	run bigint,
	@iblt_audit_run: peer max_time max_load max_rate max_lag progress@
	here_peer text DEFAULT NULL)
	LANGUAGE plpgsql
AS $$
DECLARE
	w iblt_internal.run_worker;
BEGIN
	PERFORM iblt_internal.iblt_require_no_block('iblt_audit_resume');
	w := iblt_internal.run_worker_of(here_peer, peer, progress, 'resume', max_time);
	w.run := run;
	w.options := @arguments run_options@;
	WHILE w.act IS NOT NULL LOOP
		w := iblt_internal.run_step(w);
		COMMIT;
	END LOOP;
END
$$;
COMMENT ON PROCEDURE @extschema@.iblt_audit_resume IS
'continues a run, or joins its sessions';
