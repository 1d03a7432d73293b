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

-- Has the subscriber of a link applied everything up to a position? NULL if the slot's
-- subscriber seems to be another one.
-- Slot names are not unique across servers: in a chain all may have the same.  Positions
-- tell them apart.  A subscriber has received what its slot was told is applied, and not
-- more than its publisher has written.
CREATE FUNCTION reached_by_slot(plan plan, link link, target numeric) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	applied numeric := ask_call(place_of(plan, link.source), format('slot_applied(%L)', link.slot));
	received numeric[];
	written numeric;
BEGIN
	IF applied IS NULL OR applied < target THEN
		RETURN false;
	END IF;
	received := ask_call(place_of(plan, link.follower), format('slot_received(%L)', link.slot));
	IF received = '{}' THEN
		RETURN false;
	END IF;
	written := position_at(place_of(plan, link.source));
	-- the position is one before a page header, which has at most 40 bytes
	RETURN nullif(EXISTS (SELECT FROM unnest(received) AS r
		WHERE r BETWEEN applied AND written + 40), false);
END
$$;

-- Has the follower of a link applied everything up to a position? NULL as in reached_by_slot.
CREATE FUNCTION reached(plan plan, link link, target numeric) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF link.slot IS NULL THEN
		RETURN ask_call(place_of(plan, link.follower), format('wal_replayed(%s)', target));
	END IF;
	RETURN reached_by_slot(plan, link, target);
END
$$;

-- The warning for a slot whose positions do not fit.
CREATE FUNCTION warn_other_subscriber(slot text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM iblt_tell('warning', format('replication slot "%s" is another subscriber''s, '
			'differences cannot be confirmed', slot),
		'A subscription uses a slot of this name, but the WAL positions of the two do not fit.',
		'Compare a subscriber with its own publisher.');
END
$$;

-- How long a source without iblt may take to flush the WAL of what is visible on it; NULL for
-- another one, which has flushed it (position_at).
-- WAL that it has not even flushed after a while is of no commit that was visible.
CREATE FUNCTION flush_grace(source text) RETURNS interval
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
AS $$
	SELECT greatest('1 s', 5 * ask_one(source,
		'SELECT pg_catalog.current_setting(''wal_writer_delay'')')::interval)
	WHERE peer_is_bare(source)
$$;

-- Waits until the follower of a link has applied everything up to a position; false if that
-- takes too long.
CREATE FUNCTION wait_position(plan plan, link link, target numeric,
	deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	fitted timestamptz := started;
	reached boolean;
	source text := place_of(plan, link.source);
	grace interval := flush_grace(source);
	pause double precision := 0.01;
BEGIN
	LOOP
		reached := reached(plan, link, target);
		IF reached THEN
			RETURN true;
		ELSIF reached IS NULL AND clock_timestamp() > fitted + interval '2 s' THEN
			-- a subscriber shows what it received within microseconds of its answer to the slot
			PERFORM warn_other_subscriber(link.slot);
			RETURN false;
		ELSIF clock_timestamp() > deadline THEN
			RETURN false;
		END IF;
		fitted := CASE WHEN reached IS NULL THEN fitted ELSE clock_timestamp() END;
		IF grace IS NOT NULL AND clock_timestamp() - started > grace THEN
			target := least(target, ask_call(source, 'wal_position(true)')::numeric);
			grace := NULL;
		END IF;
		PERFORM pg_sleep(pause);
		pause := least(pause * 1.5, 0.1);
	END LOOP;
END
$$;

-- Waits until what the source of a link shows now has reached the follower; false if that
-- takes too long.
-- iblt checks twice that positions fit, the second time beyond all there was the first
-- time: on a busy source, the range in which they fit is not small.
CREATE FUNCTION wait_link(plan plan, link link, deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF link.slot IS NOT NULL AND NOT wait_position(plan, link, 0, deadline) THEN
		RETURN false;
	END IF;
	RETURN wait_position(plan, link, position_at(place_of(plan, link.source)), deadline);
END
$$;

-- Why differences that are looked at again are not confirmed, for people.
-- The last look says it, and this transaction remembers it.
CREATE FUNCTION set_cause(cause text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	PERFORM set_config('iblt.cause', cause, true);
END
$$;

-- The same, or what is always true.
CREATE FUNCTION unconfirmed_cause() RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN coalesce(nullif(current_setting('iblt.cause', true), ''),
		'rows kept changing, or replication did not pass in time');
END
$$;

-- Why replication over a link did not pass in time.
CREATE FUNCTION late_cause(plan plan, link link) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	said text := CASE WHEN link.slot IS NULL
		THEN ask_call(place_of(plan, link.follower), 'standby_said()')
		ELSE concat_ws(', ',
			ask_call(place_of(plan, link.follower), format('subscription_said(%L)', link.slot)),
			ask_call(place_of(plan, link.source), format('slot_said(%L)', link.slot))) END;
BEGIN
	RETURN 'replication did not pass in time' || coalesce(' (' || nullif(said, '') || ')', '');
END
$$;

-- The positions of the slots of a comparison, NULL if there are none.
CREATE FUNCTION slot_positions(plan plan) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	link link;
	positions text;
BEGIN
	FOREACH link IN ARRAY plan.links LOOP
		IF link.slot IS NOT NULL THEN
			positions := concat_ws(', ', positions, link.slot,
				ask_call(place_of(plan, link.source), format('slot_applied(%L)', link.slot)));
		END IF;
	END LOOP;
	RETURN positions;
END
$$;

-- Is replication where it was when another table of this audit or run had waited for it in
-- vain?
CREATE FUNCTION is_stuck(plan plan) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RETURN coalesce(current_setting('iblt.stuck', true), '') <> ''
		AND slot_positions(plan) IS NOT DISTINCT FROM current_setting('iblt.stuck');
END
$$;

-- Waits until all that either side shows now has reached the other; false if that takes too
-- long.  Where replication was then, iblt.late says, unless it was known to be stuck.
CREATE FUNCTION passed(plan plan, deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	link link;
	stuck boolean := is_stuck(plan);
BEGIN
	IF plan.links = '{}' THEN
		PERFORM pg_sleep(least(1, greatest(0, extract(epoch FROM deadline - clock_timestamp()))));
		IF clock_timestamp() > deadline THEN
			PERFORM set_cause('there was no time to look again');
			RETURN false;
		END IF;
		RETURN true;
	END IF;
	IF stuck THEN
		PERFORM progress(plan.progress, 'replication has not moved, and is not waited for again');
		deadline := clock_timestamp();
	END IF;
	FOREACH link IN ARRAY plan.links LOOP
		IF NOT wait_link(plan, link, deadline) THEN
			PERFORM set_cause(late_cause(plan, link)), set_config('iblt.late',
				CASE WHEN NOT stuck THEN coalesce(slot_positions(plan), '') END, true);
			RETURN false;
		END IF;
	END LOOP;
	RETURN true;
END
$$;

-- Settling

-- Waits until a source shows what it has sent; false if that takes too long.
-- Without synchronous replication, only a page of pg_xact keeps a commit that was sent
-- from being visible, and a transaction that still runs after a second has not committed.
CREATE FUNCTION settle(s side, deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	call text := format('writers(%L::pg_catalog.regclass)', s.relation);
	writers text[] := ask_call(s.place, call);
	synchronous boolean;
	pause double precision := 0.002;
BEGIN
	WHILE writers <> '{}' LOOP
		synchronous := coalesce(synchronous, ask_one(s.place,
			'SELECT pg_catalog.current_setting(''synchronous_standby_names'')') <> '');
		IF NOT synchronous AND clock_timestamp() > started + interval '1 s' THEN
			RETURN true;
		ELSIF clock_timestamp() > deadline THEN
			RETURN false;
		END IF;
		PERFORM pg_sleep(pause);
		pause := least(pause * 1.5, 0.1);
		writers := ARRAY(SELECT unnest(writers)
			INTERSECT SELECT unnest(ask_call(s.place, call)::text[]));
	END LOOP;
	RETURN true;
END
$$;

-- Waits until the sources show what they have sent; false if that takes too long.
CREATE FUNCTION settled(plan plan, deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s side;
	result boolean := true;
BEGIN
	FOREACH s IN ARRAY ARRAY[plan.here, plan.there] LOOP
		IF EXISTS (SELECT FROM unnest(plan.links) AS l WHERE l.source = s.side) THEN
			result := settle(s, deadline) AND result;
		END IF;
	END LOOP;
	IF NOT result THEN
		PERFORM set_cause('transactions that may have written to the relation did not end in time');
	END IF;
	RETURN result;
END
$$;

-- Batches

-- What is kept of a look. After the look of a round before it, rows are marked that are the
-- same. After an earlier look of the same round, with "settled", only those keep their mark.
CREATE FUNCTION hold(differences difference[], before held DEFAULT NULL,
	settled boolean DEFAULT NULL) RETURNS held
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	result held;
BEGIN
	SELECT coalesce(array_agg(d.id ORDER BY d.n), '{}'),
		array_agg(CASE WHEN settled IS NULL OR settled AND h.mark = b.mark THEN h.mark END
			ORDER BY d.n),
		array_agg(coalesce(h.mark = b.mark AND (settled IS NULL OR settled AND b.same), false)
			ORDER BY d.n)
	INTO result.ids, result.marks, result.same
	FROM unnest(differences) WITH ORDINALITY
		AS d(id, key, side, here, there, here_count, there_count, mark, confirmed,
			here_checksum, there_checksum, differs, n)
	LEFT JOIN unnest(before.ids, before.marks, before.same) AS b(id, mark, same) USING (id),
	LATERAL (SELECT hashtextextended(d.mark, 0)) AS h(mark);
	result.differences := differences;
	RETURN result;
END
$$;

-- Batches and one more, unless that is empty.
-- Of several batches, the rows are not kept.
CREATE FUNCTION kept(batches held[], batch held, several boolean) RETURNS held[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF batch.ids = '{}' THEN
		RETURN batches;
	ELSIF several THEN
		batch.differences := NULL;
	END IF;
	RETURN array_append(batches, batch);
END
$$;

-- The differences that still differ, held as hold() says.
-- iblt looks at all batches before it waits again, so it waits once for all of them.
CREATE FUNCTION look_again(plan plan,
	batches held[], settled boolean DEFAULT NULL) RETURNS held[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	several boolean := cardinality(batches) > 1;
	result held[] := '{}';
	batch held;
BEGIN
	FOR i IN 1 .. cardinality(batches) LOOP
		batch := batches[i];
		batch := hold(look_at_ids(plan, batch.ids), batch, settled);
		result := kept(result, batch, several);
	END LOOP;
	RETURN result;
END
$$;

-- Settles, and looks at differences again.
CREATE FUNCTION steady(plan plan, batches held[], deadline timestamptz) RETURNS held[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF plan.links = '{}' OR batches = '{}' THEN
		RETURN batches;
	END IF;
	RETURN look_again(plan, batches, settled(plan, deadline));
END
$$;

-- Rechecking

-- Should differences wait for replication, which cannot pass?
CREATE FUNCTION unready(plan plan) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF NOT plan.wait THEN
		RETURN false;
	END IF;
	RETURN EXISTS (SELECT FROM unnest(plan.links) AS l WHERE NOT l.ready);
END
$$;

-- Can differences wait for replication? With a warning if not.
CREATE FUNCTION is_ready(plan plan) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF NOT unready(plan) THEN
		RETURN true;
	END IF;
	PERFORM iblt_tell('warning',
		'replication of this relation is not ready, differences cannot be confirmed',
		'The subscription is disabled or still copies the relation, '
			'or other servers replicate to both sides, '
			'or there is a standby between the sides, or one of a server that is not known.');
	RETURN false;
END
$$;

-- The differences whose rows are the same as a round before, or the others, with "confirmed"
-- set.
CREATE FUNCTION judged(batch held, confirmed boolean) RETURNS difference[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN ARRAY(SELECT ROW(d.id, d.key, d.side, d.here, d.there, d.here_count, d.there_count,
			d.mark, judged.confirmed, d.here_checksum, d.there_checksum, d.differs)::difference
		FROM unnest(batch.differences) WITH ORDINALITY
			AS d(id, key, side, here, there, here_count, there_count, mark, confirmed,
			here_checksum, there_checksum, differs, n)
		WHERE batch.same[d.n] = judged.confirmed ORDER BY d.n);
END
$$;

-- A batch without the differences that are confirmed.
CREATE FUNCTION rest(batch held) RETURNS held
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	result held;
BEGIN
	SELECT coalesce(array_agg(r.id ORDER BY r.n), '{}'), array_agg(r.mark ORDER BY r.n),
		array_agg(r.same ORDER BY r.n)
	INTO result.ids, result.marks, result.same
	FROM unnest(batch.ids, batch.marks, batch.same) WITH ORDINALITY AS r(id, mark, same, n)
	WHERE NOT r.same;
	result.differences := judged(batch, false);
	RETURN result;
END
$$;

-- How many differences batches have.
CREATE FUNCTION number_of(batches held[]) RETURNS bigint
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	number bigint := 0;
BEGIN
	FOR i IN 1 .. cardinality(batches) LOOP
		number := number + cardinality(batches[i].ids);
	END LOOP;
	RETURN number;
END
$$;

-- Differences as they were seen last, or are now, none of them confirmed, in batches.
CREATE FUNCTION unconfirmed(plan plan, batches held[]) RETURNS SETOF difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	batch held;
BEGIN
	FOR i IN 1 .. cardinality(batches) LOOP
		batch := batches[i];
		IF batch.differences IS NULL THEN
			batch := hold(look_at_ids(plan, batch.ids));
		END IF;
		RETURN NEXT judged(batch, false);
	END LOOP;
END
$$;

-- Looks at differences again, without those that replication removes, and says which are
-- confirmed.
-- In the last look of a round, those that are confirmed are answered batch by batch.  For
-- the unconfirmed ones of many batches, rows are read once more.
-- Relies on: what lookups rely on, in a snapshot of each look.
CREATE FUNCTION recheck_batches(plan plan, batches held[]) RETURNS SETOF difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	deadline timestamptz := clock_timestamp() + plan.timeout;
	settled boolean;	-- NULL where nothing replicates
	rest held[];
	batch held;
BEGIN
	IF is_ready(plan) THEN
		batches := steady(plan, batches, deadline);
		FOR round IN 1 .. plan.recheck LOOP
			EXIT WHEN batches = '{}';
			PERFORM set_cause('rows kept changing');
			PERFORM progress(plan.progress, format(
				'waiting for replication, to look at %s keys again',
				number_of(batches)));
			EXIT WHEN NOT passed(plan, deadline);
			IF plan.links <> '{}' THEN
				batches := look_again(plan, batches);
				settled := batches <> '{}' AND settled(plan, deadline);
			END IF;
			rest := '{}';
			FOR i IN 1 .. cardinality(batches) LOOP
				batch := batches[i];
				batch := hold(look_at_ids(plan, batch.ids), batch, settled);
				RETURN NEXT judged(batch, true);
				rest := kept(rest, rest(batch), cardinality(batches) > 1);
			END LOOP;
			batches := rest;
		END LOOP;
	END IF;
	RETURN QUERY SELECT * FROM unconfirmed(plan, batches);
END
$$;

-- The same for differences that are one batch.
CREATE FUNCTION recheck(plan plan, differences difference[]) RETURNS difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	RETURN ARRAY(SELECT unnest(b.batch) FROM recheck_batches(plan,
		kept('{}', hold(differences), false)) AS b(batch));
END
$$;
