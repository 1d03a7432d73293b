-- Repairs --------------------------------------------------------------------------
--
-- iblt_repair calls:
--
--	repair_plan_of			the plan (plan.sql)
--	find_keys			the comparison (sql/compare)
--	repair_find
--	  repair_add_steps		what is to be done, or why nothing is (steps.sql), unless the claim
--				finds that out
--	  repair_show			a preview
--	  repair_claim		locks the rows and looks again (claim.sql)
--	repair_apply			(apply.sql)
--	repair_parts		what was done
--	repair_commit			(commit.sql)
--
-- run_repair (run.sql) repairs what a run found.

-- Completes the steps of a preview, and gives its notices for a target of that many rows, if that
-- is known: which triggers fire, and how many rows would be lost.
CREATE FUNCTION repair_show(work repair_work, rows bigint) RETURNS void
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
	FROM generate_subscripts(work.parts, 1) AS n, unnest(repair_batch(work, n)) AS u;
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
END
$$;

-- Keeps the steps for the keys that a comparison has found, and claims their rows, or shows what is
-- to be done.
-- If nothing waits for replication, the claim looks the keys up for the first time.
CREATE FUNCTION repair_find(plan repair_plan, answer found_keys) RETURNS repair_work
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	asked repair_options := plan.asked;
	started timestamptz := clock_timestamp();
	work repair_work;
	at_once boolean;
	size integer;
	named key_sides;
	part text;
	b batch;
	figures figures;
BEGIN
	-- with another seed, keys would have other hashes
	plan.compared := answer.plan;
	work := ROW(plan, NULL, '{}', 0, NULL, NULL, NULL, NULL)::repair_work;
	at_once := asked.apply AND asked.winner = 'source' AND plan.indexed
		AND (plan.compared).recheck = 0 AND (plan.compared).buckets IS NULL
		AND (plan.compared).from_digests IS NOT TRUE;
	size := batch_size(plan.compared);
	FOR done IN 0 .. CASE WHEN at_once THEN answer.number - 1 ELSE -1 END BY size LOOP
		named := iblt_compare_keys(answer.sample, answer.keys, done::integer, size);
		FOREACH part IN ARRAY '{both,here,there}'::text[] LOOP
			work := repair_add(work, ARRAY(SELECT ROW(k.id, NULL, CASE part
					WHEN 'both' THEN 'update' WHEN asked.target_side THEN 'delete'
					ELSE 'insert' END, NULL, 1, NULL, NULL, NULL, NULL, NULL,
					k.weight)::repair_step
				FROM (SELECT unnest(named.keys) AS id, unnest(named.sides) AS side,
					unnest(named.weights) AS weight) AS k WHERE k.side = part));
		END LOOP;
	END LOOP;
	IF NOT at_once THEN
		FOR b IN SELECT * FROM differences(answer) LOOP
			work := repair_add_steps(work, b.differences, (b.waited).problem);
		END LOOP;
		work.figures := b.figures;
	END IF;
	IF asked.apply THEN
		PERFORM repair_claim(work);
	ELSE
		PERFORM repair_show(work,
			(ARRAY[(work.figures).rows_here, (work.figures).rows_there])[plan.place]);
	END IF;
	IF at_once THEN
		figures := answer.figures;
		figures.lookup_ms := CASE WHEN answer.number > 0 THEN ms(started) END;
		work.figures := all_figures(plan.compared, figures, answer.number, answer.number
			- (SELECT count(*) FROM repair_skipped(plan.secret) AS s
				WHERE s.detail = 'equal by now'), 0);
	END IF;
	RETURN work;
END
$$;

-- The queries of what iblt_repair returns: of each relation its deletes, updates and inserts, batch
-- by batch, and then what is skipped.  Who returns the rows runs them, because a function in
-- between would write all rows to a file once more.
CREATE FUNCTION repair_parts(works repair_work[]) RETURNS SETOF text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	work repair_work;
	shown record;
BEGIN
	FOR i IN 1 .. coalesce(cardinality(works), 0) LOOP
		work := works[i];
		shown := repair_shown_sql(work.plan, true);
		RETURN QUERY SELECT format(
				'SELECT %L, x.key, x.action, %s || '';'', %L, x.detail FROM %s',
				((work.plan).target).relation, shown.statement,
				CASE WHEN ((work.plan).asked).apply THEN 'applied' ELSE 'preview' END,
				replace(shown.item, '$1', format(CASE kept.part WHEN '' THEN 'ARRAY(SELECT s FROM'
						' unnest(%1$s) AS s WHERE s.action = %2$L)' ELSE '%1$s' END,
					format('iblt_repair_get(%L, %s, NULL::repair_step[])', (work.plan).secret,
						kept.n), p.part)))
			FROM unnest('{delete,update,insert}'::text[]) WITH ORDINALITY AS p(part, turn),
				unnest(work.parts) WITH ORDINALITY AS kept(part, n)
			WHERE kept.part IN (p.part, '') ORDER BY p.turn, kept.n;
		RETURN NEXT format('SELECT %L, x.key, x.action, NULL::text, ''skipped'', x.detail'
			' FROM repair_skipped(%L) AS x', ((work.plan).target).relation, (work.plan).secret);
	END LOOP;
END
$$;

CREATE FUNCTION @extschema@.iblt_repair(
	@iblt_compare: relation peer peer_relation@
	direction text DEFAULT NULL,
	@iblt_compare: columns exclude key_columns condition peer_condition max_differences@
	@iblt_compare: cast_types extra_columns recheck timeout seed@
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
	@iblt_compare: progress live method@
	run bigint DEFAULT NULL,
	@iblt_compare: here_peer here_relation@
	peer_columns jsonb DEFAULT NULL)
RETURNS TABLE (target text, key jsonb, action text, sql text, status text, detail text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
	@pinned_settings@
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	-- fields of the options that are not arguments
	content text := 'texts';
	own_rows text := 'of two';
	peer_mapping jsonb := make_mapping(peer_columns, NULL);
	asked repair_options := @arguments repair_options@;
	a attempt := first_attempt(ARRAY[here_peer, peer], @arguments options@);
	plan repair_plan;
	seen found_keys;
	works repair_work[];
	part text;
	figures figures;
	traffic record;
	e failure;
BEGIN
	asked.target_side := CASE direction WHEN 'pull' THEN 'here' WHEN 'push' THEN 'there' END;
	asked.inserts := coalesce(inserts, winner = 'source');
	asked.deletes := coalesce(deletes, winner = 'source');
	LOOP
		BEGIN
			plan := NULL;
			-- those of a run have peers of its own
			a.conns := coalesce(a.conns, peer_conns(CASE WHEN run IS NULL THEN a.peers
				ELSE '{here,there}' END));
			PERFORM repair_check_options(asked);
			IF run IS NULL THEN
				a := begin_attempt(a, 'iblt_repair', relation, here_relation);
				plan := repair_plan_of(prepare(a.conns, relation, peer_relation, a.options), asked);
				seen := find_keys(plan.compared);
				PERFORM live_notice(seen.plan), iblt_tell('notice', by_index_note(seen.plan));
				works := ARRAY[repair_find(plan, seen)];
				plan := NULL;
			END IF;
			-- nothing begins again once rows may have been changed
			a.number := 3;
			IF run IS NOT NULL THEN
				works := run_repair(a.conns, a.peers, run, relation, here_relation, peer_relation,
					a.options, asked);
			ELSIF asked.apply THEN
				works := repair_apply(works);
			END IF;
			FOR part IN SELECT repair_parts(works) LOOP
				RETURN QUERY EXECUTE part;
			END LOOP;
			PERFORM iblt_repair_drop((w.plan).secret) FROM unnest(works) AS w;
			-- behind all that may end in an error, such as a cancel
			IF asked.apply AND works <> '{}' THEN
				PERFORM repair_commit((((works[1]).plan).target).place);
			END IF;
			PERFORM peers_close(a.conns);
			EXIT;
		EXCEPTION WHEN @on_any_error@ THEN
			@take_failure@;
			a := begin_again(a, plan.compared, e);
			IF a.number IS NULL THEN
				RAISE;
			END IF;
		END;
	END LOOP;
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
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_repair IS
'the statements that make one side like the other, which are run only with apply => true';
