-- Waiting for replication ----------------------------------------------------------------
--
-- links() finds the replication between sides.  pass() waits until followers show what sources
-- show, and settle_all() until sources show what followers may show already.  Both take the links
-- of a plan, of two sides or of many nodes.  confirm.sql says what follows for differences.

-- Waits until the follower of a link has applied everything up to a position; false if that
-- takes too long, or the slot's subscriber seems to be another one.
-- Slot names are not unique across servers: in a chain all may have the same.  Positions
-- tell them apart.  A subscriber has received what its slot was told is applied, and not
-- more than its publisher has written.
CREATE FUNCTION wait_position(link link, target numeric, deadline timestamptz) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	fitted timestamptz := started;
	reached boolean;			-- NULL: the slot's subscriber seems to be another one
	applied numeric;
	received numeric[];
	written numeric;
	-- WAL that a source without iblt has not flushed after that is of no commit that was visible.
	-- Another one has flushed it (position_at).
	grace interval := CASE WHEN peer_is_bare(link.source_place) THEN greatest('1 s',
		5 * ask_one(link.source_place,
			'SELECT pg_catalog.current_setting(''wal_writer_delay'')')::interval) END;
	pause double precision := 0.01;
BEGIN
	LOOP
		IF link.slot IS NULL THEN
			reached := ask_call(link.follower_place, format('wal_replayed(%s)', target));
		ELSE
			applied := ask_call(link.source_place, format('slot_applied(%L)', link.slot));
			reached := coalesce(applied >= target, false);
			IF reached THEN
				received := ask_call(link.follower_place, format('slot_received(%L)', link.slot));
				reached := received <> '{}';
			END IF;
			IF reached THEN
				written := position_at(link.source_place);
				-- the position is one before a page header, which has at most 40 bytes
				reached := nullif(EXISTS (SELECT FROM unnest(received) AS r
					WHERE r BETWEEN applied AND written + 40), false);
			END IF;
		END IF;
		IF reached THEN
			RETURN true;
		ELSIF reached IS NULL AND clock_timestamp() > fitted + interval '2 s' THEN
			-- a subscriber shows what it received within microseconds of its answer to the slot
			PERFORM iblt_tell('warning', format('replication slot "%s" is another subscriber''s, '
					'differences cannot be confirmed', link.slot),
				'A subscription uses a slot of this name, but the WAL positions of the two do not '
					'fit.',
				'Compare a subscriber with its own publisher.');
			RETURN false;
		ELSIF clock_timestamp() > deadline THEN
			RETURN false;
		END IF;
		fitted := CASE WHEN reached IS NULL THEN fitted ELSE clock_timestamp() END;
		IF grace IS NOT NULL AND clock_timestamp() - started > grace THEN
			target := least(target, ask_call(link.source_place, 'wal_position(true)')::numeric);
			grace := NULL;
		END IF;
		PERFORM pg_sleep(pause);
		pause := least(pause * 1.5, 0.1);
	END LOOP;
END
$$;

-- Why differences are not confirmed, for people.
CREATE FUNCTION unconfirmed_cause(problem text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN coalesce(problem, 'rows kept changing, or replication did not pass in time');

-- The positions of the slots of a comparison, NULL if there are none.
CREATE FUNCTION slot_positions(plan plan) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN (SELECT string_agg(concat_ws(', ', l.slot,
		ask_call(l.source_place, format('slot_applied(%L)', l.slot))), ', ' ORDER BY l.ordinality)
	FROM unnest(plan.links) WITH ORDINALITY AS l WHERE l.slot IS NOT NULL);

-- Waits until what the source of each link shows now has reached its follower, but not again where
-- replication has not moved since another table of this audit or run waited for it in vain.
-- iblt checks twice that positions fit, the second time beyond all there was the first
-- time: on a busy source, the range in which they fit is not small.
CREATE FUNCTION pass(plan plan, deadline timestamptz) RETURNS waited
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	link link;
	stuck boolean;
	passed boolean;
	said text;
	waited waited;
BEGIN
	IF plan.links = '{}' THEN
		PERFORM pg_sleep(least(1, greatest(0, extract(epoch FROM deadline - clock_timestamp()))));
		IF clock_timestamp() > deadline THEN
			waited.problem := 'there was no time to look again';
		END IF;
		RETURN waited;
	END IF;
	stuck := CASE WHEN plan.stuck IS NULL THEN false
		ELSE slot_positions(plan) IS NOT DISTINCT FROM plan.stuck END;
	IF stuck THEN
		PERFORM progress(plan.progress, 'replication has not moved, and is not waited for again');
		deadline := clock_timestamp();
	END IF;
	FOREACH link IN ARRAY plan.links LOOP
		passed := link.slot IS NULL OR wait_position(link, 0, deadline);
		IF passed THEN
			passed := wait_position(link, position_at(link.source_place), deadline);
		END IF;
		IF NOT passed THEN
			said := concat_ws(', ',
				ask_call(link.follower_place, format('follower_said(%L)', link.slot)),
				ask_call(link.source_place, format('slot_said(%L)', link.slot)));
			waited.problem := 'replication did not pass in time'
				|| coalesce(' (' || nullif(said, '') || ')', '');
			IF NOT stuck THEN
				waited.stuck := slot_positions(plan);
			END IF;
			EXIT;
		END IF;
	END LOOP;
	RETURN waited;
END
$$;

-- Waits until the sources of all links show what followers may show already; NULL, or why that
-- takes too long.
-- A server without iblt tells who has written, and not who of them has committed.
CREATE FUNCTION settle_all(plan plan, deadline timestamptz) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	s record;
	call text;
	transactions text[];
	pause double precision;
	problem text;
BEGIN
	FOR s IN SELECT DISTINCT l.source_place AS place, l.relation,
			peer_is_bare(l.source_place) AS bare FROM unnest(plan.links) AS l LOOP
		call := format(CASE WHEN s.bare THEN 'writers(%L::pg_catalog.regclass)'
			ELSE 'committing(%L::pg_catalog.regclass)' END, s.relation);
		transactions := ask_call(s.place, call);
		pause := 0.002;
		WHILE transactions <> '{}' LOOP
			IF clock_timestamp() > deadline THEN
				problem := CASE WHEN s.bare THEN 'transactions that write to the relation did not '
						'end in time, and without iblt on their server nothing tells whether they '
						'have committed'
					ELSE 'transactions that have committed did not become visible in time' END;
				EXIT;
			END IF;
			PERFORM pg_sleep(pause);
			pause := least(pause * 1.5, 0.1);
			transactions := CASE WHEN s.bare THEN ARRAY(SELECT unnest(transactions)
					INTERSECT SELECT unnest(ask_call(s.place, call)::text[]))
				ELSE ask_call(s.place, format('iblt_committing(%L)', transactions))::text[] END;
		END LOOP;
	END LOOP;
	RETURN problem;
END
$$;
