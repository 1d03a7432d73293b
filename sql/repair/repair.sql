-- Repairs --------------------------------------------------------------------------
--
-- iblt_repair calls repair:
--
--	repair_plan_of			the plan (plan.sql)
--	find_keys, differences		the comparison (sql/compare)
--	repair_add_steps		what is to be done, or why nothing is (steps.sql); repair_add_found if
--				the claim finds that out
--	repair_show			a preview, which calls repair_exchange
--	repair_claim_all		locks the rows and looks again (claim.sql)
--	repair_apply			(apply.sql)
--	repair_rows			what was done
--	repair_commit			(commit.sql)
--
-- run_repair (run.sql) repairs what a run found.

-- Completes the steps of a preview, and gives its notices for a target of that many rows, if that
-- is known: which triggers fire, and how many rows would be lost.
CREATE FUNCTION repair_show(INOUT work repair_work, rows bigint) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan := work.plan;
	s side := plan.target;
	actions text[];
	lost bigint;
	triggers text;
BEGIN
	PERFORM repair_claim(work);
	SELECT array_agg(DISTINCT u.action), sum(u.n) FILTER (WHERE u.action = 'delete')
	INTO actions, lost
	FROM generate_series(1, work.batches) AS n, unnest(repair_batch(work, n)) AS u
	WHERE u.status = 'due';
	triggers := repair_triggers(plan, actions);
	IF lost > 0 THEN
		PERFORM iblt_tell('notice', format('the repair will delete %s rows of %s (%s)',
			concat_ws(' of the ', lost, rows), s.relation, s.side));
	END IF;
	IF triggers <> '' THEN
		PERFORM iblt_tell('notice',
			format('triggers of %s will fire (%s): %s', s.relation, s.side, triggers), NULL,
			CASE WHEN (plan.asked).as_replica THEN NULL ELSE 'With as_replica => true, only '
				'triggers that are enabled ALWAYS or REPLICA fire.' END);
	END IF;
	-- rows that are deleted and inserted are not lost
	work := repair_exchange(work);
END
$$;

-- Repairs, or previews, over connections of these names. The peer has yet to commit.
-- What is compared and claimed starts again if a relation is altered meanwhile.  From the first
-- statement that changes rows on, nothing does.
-- If nothing waits for replication, the keys that find_keys has found are claimed at once.
CREATE FUNCTION repair(conns text[], peers text[], relation regclass, here_relation text,
	peer_relation text, options options, asked repair_options) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	plan repair_plan;
	found found_keys;
	work repair_work;
	b batch;
	at_once boolean;
	started timestamptz;
	figures figures;
	again boolean;
	e failure;
BEGIN
	PERFORM repair_check_options(asked);
	options := compare_options('iblt_repair', relation, conns[1] IS NOT NULL, here_relation,
		options);
	FOR attempt IN 1 .. 3 LOOP
		BEGIN
			plan := NULL;
			conns := connect(peers, conns, options.timeout);
			options.method := plain_method(conns, options.method);
			options.own_rows := 'of two';
			plan := repair_plan_of(prepare(conns, relation, peer_relation, options), asked);
			found := find_keys(plan.compared);
			PERFORM live_notice(found.plan);
			IF reads_by_index(found.plan) THEN
				PERFORM iblt_tell('notice', by_index_note(true));
			END IF;
			-- with another seed, keys would have other hashes
			plan.compared := found.plan;
			work := ROW(plan, NULL, 0, '{}', 0, NULL)::repair_work;
			at_once := asked.apply AND asked.winner = 'source' AND repair_finds_by_index(plan)
				AND (plan.compared).recheck = 0 AND (plan.compared).buckets IS NULL
				AND (plan.compared).from_digests IS NOT TRUE;
			IF at_once THEN
				started := clock_timestamp();
				work := repair_add_found(work, found);
			ELSE
				FOR b IN SELECT * FROM differences(found) LOOP
					work := repair_add_steps(work, b.differences, (b.waited).problem);
				END LOOP;
				work.figures := b.figures;
			END IF;
			IF asked.apply THEN
				PERFORM repair_claim_all(ARRAY[work]);
			ELSE
				work := repair_show(work, repair_target_of(asked.target_side,
					(work.figures).rows_here, (work.figures).rows_there));
			END IF;
			IF at_once THEN
				figures := found.figures;
				figures.lookup_ms := CASE WHEN found.number > 0 THEN ms(started) END;
				work.figures := all_figures(plan.compared, figures, found.number, found.number
					- (SELECT count(*) FROM generate_series(1, work.batches) AS n,
						unnest(repair_due(work, n, 'skipped')) AS s
						WHERE s.detail = 'equal by now'), 0);
			END IF;
			EXIT;
		EXCEPTION WHEN @on_error@ THEN
			@take_failure@;
			again := restarts(conns, peers, plan.compared, attempt, e);
			IF NOT again THEN
				RAISE;
			END IF;
			options := options_again(options, e, 'repair');
		END;
	END LOOP;
	IF asked.apply THEN
		work := (repair_apply(ARRAY[work]))[1];
	END IF;
	RETURN work;
END
$$;

-- The rows that iblt_repair returns: of each relation its deletes, updates and inserts, and then
-- what is skipped.
CREATE FUNCTION repair_rows(works repair_work[])
RETURNS TABLE (target text, key jsonb, action text, sql text, status text, detail text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	work repair_work;
	shown record;
	query text;
	part text;
	steps repair_step[];
BEGIN
	FOREACH work IN ARRAY coalesce(works, '{}') LOOP
		target := ((work.plan).target).relation;
		shown := repair_shown_sql(work.plan, true);
		query := format('SELECT $2, x.key, x.action,'
			' CASE x.status WHEN ''due'' THEN %s || '';'' END,'
			' CASE x.status WHEN ''due'' THEN $3 ELSE x.status END, x.detail FROM %s',
			shown.statement, shown.item);
		FOREACH part IN ARRAY '{delete,update,insert,skipped}'::text[] LOOP
			FOR n IN 1 .. work.batches LOOP
				steps := repair_due(work, n, part);
				CONTINUE WHEN steps = '{}';
				RETURN QUERY EXECUTE query USING steps, target,
					CASE WHEN ((work.plan).asked).apply THEN 'applied' ELSE 'preview' END;
			END LOOP;
		END LOOP;
		PERFORM iblt_repair_drop((work.plan).secret),
			iblt_repair_drop((work.plan).secret || '/long');
	END LOOP;
END
$$;

CREATE FUNCTION @extschema@.iblt_repair(
	relation regclass DEFAULT NULL,
	peer text DEFAULT NULL,
	peer_relation text DEFAULT NULL,
	direction text DEFAULT NULL,
	columns text[] DEFAULT NULL,
	exclude text[] DEFAULT NULL,
	key_columns text[] DEFAULT NULL,
	condition text DEFAULT NULL,
	peer_condition text DEFAULT NULL,
	max_differences bigint DEFAULT 100000,
	cast_types boolean DEFAULT false,
	extra_columns text DEFAULT 'warn',
	recheck integer DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	seed bigint DEFAULT NULL,
	winner text DEFAULT 'source',
	newest_by text DEFAULT NULL,
	inserts boolean DEFAULT NULL,
	updates boolean DEFAULT true,
	deletes boolean DEFAULT NULL,
	"cascade" boolean DEFAULT false,
	apply boolean DEFAULT false,
	apply_search_path text DEFAULT NULL,
	as_replica boolean DEFAULT false,
	origin text DEFAULT NULL,
	progress boolean DEFAULT false,
	live text DEFAULT 'off',
	method text DEFAULT 'sketch',
	run bigint DEFAULT NULL,
	here_peer text DEFAULT NULL,
	here_relation text DEFAULT NULL,
	peer_columns jsonb DEFAULT NULL)
RETURNS TABLE (target text, key jsonb, action text, sql text, status text, detail text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
	SET IntervalStyle = 'iso_8601'
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	-- fields of the options that are not arguments
	content text := 'texts';
	peer_mapping jsonb := make_mapping(peer_columns, NULL);
	options options := @arguments options@;
	asked repair_options := @arguments repair_options@;
	peers text[] := ARRAY[here_peer, peer];
	-- those of a run have peers of its own
	conns text[] := peer_conns(CASE WHEN run IS NULL THEN peers ELSE '{here,there}' END);
	works repair_work[];
	figures figures;
	traffic record;
	e failure;
BEGIN
	BEGIN
		asked.target_side := CASE direction WHEN 'pull' THEN 'here' WHEN 'push' THEN 'there' END;
		asked.inserts := coalesce(inserts, winner = 'source');
		asked.deletes := coalesce(deletes, winner = 'source');
		works := CASE WHEN run IS NULL THEN ARRAY[
				repair(conns, peers, relation, here_relation, peer_relation, options, asked)]
			ELSE run_repair(conns, peers, run, relation, here_relation, peer_relation, options,
				asked) END;
		RETURN QUERY SELECT r.* FROM repair_rows(works) AS r;
		-- behind all that may end in an error, such as a cancel
		IF asked.apply AND works <> '{}' THEN
			PERFORM repair_commit((((works[1]).plan).target).place);
		END IF;
		PERFORM peers_close(conns);
		IF run IS NULL THEN
			-- of the comparison, with the messages of the repair since then
			figures := (works[1]).figures;
			traffic := iblt_traffic_take();
			figures.messages := figures.messages + traffic.messages;
			figures.bytes_sent := figures.bytes_sent + traffic.sent;
			figures.bytes_received := figures.bytes_received + traffic.received;
			figures.total_ms := ms(started);
			figures.finished_at := clock_timestamp();
			PERFORM keep_stats('iblt_compare', to_jsonb(figures));
		END IF;
	EXCEPTION WHEN @on_any_error@ THEN
		@take_failure@;
		e := iblt_raise(peers_fail(conns, peers_secret(peers), e));
		RAISE;
	END;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_repair IS
'the statements that make one side like the other, which are run only with apply => true';
