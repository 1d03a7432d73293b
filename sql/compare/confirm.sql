-- Confirming --------------------------------------------------------------------------
--
-- A difference may be a row in flight.  iblt looks at the rows of both sides in turn with
-- their replication: look, settle, look, wait, look, settle, look.  To settle is to wait
-- until the source shows all that the follower may show already.  To wait is to wait until
-- the follower shows all that the source shows.  A difference is confirmed if its row
-- versions are the same in all four looks.
--
-- If the source has the row, it had it from the second look to the fourth.  The follower
-- of the third look has it from the source, and all that it shows of later changes too.
-- There were none, or the fourth look would have seen them.
--
-- If only the follower has the row, it had it from the first look to the third.  The
-- transaction that made it was visible to the second look.  What removed it before the
-- second look had reached the follower by the third.
--
-- This holds for each link of a plan alone, so it holds for chains and stars of nodes, whose plan
-- has a link for each pair that replicates.  If no node's rows changed from look to look, each
-- link has delivered what there was to deliver, and a row that goes over several links has
-- passed the nodes between.
--
-- It does not hold where the follower may change what it has from the source, and send that back.
-- It may remove a row between the wait and the third look.  So where a follower is a source too,
-- iblt waits and looks once more, and the source has lost the row by then.
-- test/sim/sim_recheck.c goes through all orders of these steps and those of two writers.
--
-- It rests on links that are all the replication there is, on rows that have versions (of a view,
-- contents that changed and changed back look the same), and on settling.  A follower
-- may show what was committed before a look, and committing() knows all of these transactions
-- (src/protocol/position.c).  A server without iblt does not tell whether a transaction that
-- has written has committed, so there iblt waits until all of them have ended.

-- What is kept of a look. After the look of a round before it, rows are marked that are the
-- same. After an earlier look of the same round, with "settled", only those keep their mark, and
-- none if the sources did not settle.
CREATE FUNCTION hold(differences difference[], before held DEFAULT NULL,
	settled boolean DEFAULT NULL) RETURNS held
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT ROW(coalesce(array_agg(d.id ORDER BY d.n), '{}'),
		array_agg(CASE WHEN settled IS NULL OR settled AND h.mark = b.mark THEN h.mark END
			ORDER BY d.n),
		array_agg(CASE WHEN h.mark = b.mark AND settled IS NOT FALSE
			THEN coalesce(b.waits, 0) + (settled IS NULL)::integer ELSE 0 END ORDER BY d.n),
		differences)::held
	FROM unnest(iblt_field(differences, 'id'), iblt_field(differences, 'mark')) WITH ORDINALITY
		AS d(id, mark, n)
	LEFT JOIN unnest(before.ids, before.marks, before.waits) AS b(id, mark, waits) USING (id),
	LATERAL (SELECT hashtextextended(d.mark, 0)) AS h(mark));

-- Batches and one more, unless that is empty.
-- Of several batches, the rows are not kept.
CREATE FUNCTION kept(batches held[], batch held, several boolean) RETURNS held[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN batch.ids = '{}' THEN batches
		WHEN several
		THEN array_append(batches, ROW(batch.ids, batch.marks, batch.waits, NULL)::held)
		ELSE array_append(batches, batch) END;

-- The differences that still differ, held as hold() says.
-- iblt looks at all batches before it waits again, so it waits once for all of them.
CREATE FUNCTION look_again(plan plan,
	batches held[], settled boolean DEFAULT NULL) RETURNS held[]
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
AS $$
	SELECT coalesce(array_agg(k), '{}')
	FROM (SELECT unnest(batches) AS b) AS u,
		LATERAL (SELECT hold(look_at_ids(plan, (b).ids), b, settled) AS h OFFSET 0) AS x,
		unnest(kept('{}', h, cardinality(batches) > 1)) AS k
$$;

-- Has this transaction changed rows of relations of this database? Its locks tell.
-- A savepoint that is rolled back, or a block that has caught an error, gives them back.
CREATE FUNCTION has_changed(VARIADIC relations text[]) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RETURN pg_current_xact_id_if_assigned() IS NOT NULL AND EXISTS (SELECT FROM pg_locks l
		WHERE l.locktype = 'relation' AND l.pid = pg_backend_pid()
		AND l.relation = ANY (relation_sources(relations::regclass[]))
		AND l.mode IN ('RowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'));
END
$$;

-- Why replication, for which differences should wait, cannot pass; NULL if it can.
-- Each look sees what this transaction has changed, and the follower gets it only afterwards.
CREATE FUNCTION unready(plan plan) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RETURN CASE WHEN plan.recheck = 0 THEN NULL
		WHEN EXISTS (SELECT FROM unnest(plan.links) AS l WHERE NOT l.ready)
		THEN 'The subscription is disabled or still copies the relation, or servers that are '
			'not compared replicate to these, or there is a standby between them.'
		WHEN EXISTS (SELECT FROM unnest(plan.links) AS l
			WHERE l.source_place IS NULL AND has_changed(l.relation))
		THEN 'This transaction has changed the relation, and has to end first.' END;
END
$$;

-- The differences that have stood still for so many waits, or the others, with "confirmed" set.
CREATE FUNCTION judged(batch held, needed integer, confirmed boolean) RETURNS difference[]
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN ARRAY(SELECT jsonb_populate_record(u.d,
			jsonb_build_object('confirmed', judged.confirmed))
		FROM (SELECT d, row_number() OVER () AS n FROM unnest(batch.differences) AS d) AS u
		WHERE (batch.waits[u.n] >= needed) = judged.confirmed ORDER BY u.n);

-- Looks at differences again, without those that replication removes, and says which are
-- confirmed.
-- In the last look of a round, those that are confirmed are answered batch by batch.  The others
-- are answered at the end, and of many batches their rows are read once more.
-- Relies on: what lookups rely on, in a snapshot of each look.
CREATE FUNCTION recheck_batches(plan plan, batches held[]) RETURNS SETOF batch
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	deadline timestamptz := clock_timestamp() + plan.timeout;
	-- for how many waits a difference has to stand still
	needed integer := CASE WHEN EXISTS (SELECT FROM unnest(plan.links) AS a,
		unnest(plan.links) AS b WHERE a.follower = b.source) THEN 2 ELSE 1 END;
	settled boolean;	-- NULL where nothing replicates
	rest held[];
	batch held;
	waited waited;
	problem text;
BEGIN
	IF batches <> '{}' AND unready(plan) IS NOT NULL THEN
		waited.problem := 'replication of this relation is not ready';
		IF plan.noted IS NOT TRUE THEN
			PERFORM iblt_tell('warning',
				'replication of this relation is not ready, differences cannot be confirmed',
				unready(plan));
		END IF;
	ELSIF batches <> '{}' THEN
		IF plan.links <> '{}' THEN
			problem := settle_all(plan, deadline);
			waited.problem := problem;
			batches := look_again(plan, batches, problem IS NULL);
		END IF;
		FOR round IN 2 - needed .. CASE WHEN problem IS NULL THEN plan.recheck ELSE -1 END LOOP
			EXIT WHEN batches = '{}';
			PERFORM progress(plan.progress, format(
				'waiting for replication, to look at %s keys again',
				(SELECT sum(cardinality(b.ids)) FROM unnest(batches) AS b)));
			IF plan.sides IS NOT NULL AND plan.links <> '{}' THEN
				-- for replication between nodes that PostgreSQL does not know
				PERFORM pg_sleep(least(1, greatest(0,
					extract(epoch FROM deadline - clock_timestamp()))));
			END IF;
			waited := pass(plan, deadline);
			EXIT WHEN waited.problem IS NOT NULL;
			IF plan.links <> '{}' THEN
				batches := look_again(plan, batches);
				problem := CASE WHEN batches <> '{}' THEN settle_all(plan, deadline) END;
				settled := problem IS NULL;
			END IF;
			waited.problem := coalesce(problem, 'rows kept changing');
			rest := '{}';
			FOR i IN 1 .. cardinality(batches) LOOP
				batch := batches[i];
				batch := hold(look_at_ids(plan, batch.ids), batch, settled);
				RETURN NEXT ROW(judged(batch, needed, true), NULL, NULL, NULL)::batch;
				batch.differences := judged(batch, needed, false);
				SELECT coalesce(array_agg(r.id ORDER BY r.n), '{}'), array_agg(r.mark ORDER BY r.n),
					array_agg(r.waits ORDER BY r.n)
				INTO batch.ids, batch.marks, batch.waits
				FROM unnest(batch.ids, batch.marks, batch.waits) WITH ORDINALITY
					AS r(id, mark, waits, n)
				WHERE r.waits < needed;
				rest := kept(rest, batch, cardinality(batches) > 1);
			END LOOP;
			batches := rest;
		END LOOP;
	END IF;
	FOR i IN 1 .. cardinality(batches) LOOP
		batch := batches[i];
		IF batch.differences IS NULL THEN
			batch := hold(look_at_ids(plan, batch.ids));
		END IF;
		RETURN NEXT ROW(judged(batch, needed, false), waited, NULL, NULL)::batch;
	END LOOP;
END
$$;

-- What has become of the keys with these ids: those whose rows still differ, looked at as often as
-- the plan says, why some are not confirmed, and keys that do not differ, and whose rows an index
-- does not find on a side.
-- An index that lost an entry looks like a row that was deleted, so a scan has to look for
-- the rows of these keys (check_index).
CREATE FUNCTION recheck(plan plan, ids text[], OUT differences difference[], OUT problem text,
	OUT doubtful text[])
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	batches held[];
	b batch;
	keys text[];
	found found_rows[];
BEGIN
	differences := look_at_ids(plan, ids);
	IF plan.recheck > 0 AND differences <> '{}' THEN
		batches := ARRAY[hold(differences)];
		differences := '{}';
		FOR b IN SELECT * FROM recheck_batches(plan, batches) LOOP
			differences := differences || b.differences;
			problem := (b.waited).problem;
		END LOOP;
	END IF;
	keys := keys_of_ids(plan,
		ARRAY(SELECT unnest(ids) EXCEPT SELECT d.id FROM unnest(differences) AS d));
	IF NOT plan.by_hash AND keys <> '{}' THEN
		found := find_sides(index_plan(plan), keys);
		doubtful := ARRAY(SELECT u.key
			FROM unnest(keys, (found[1]).checksum, (found[2]).checksum) AS u(key, here, there)
			WHERE u.here IS NULL OR u.there IS NULL);
	END IF;
END
$$;
