-- Locks ------------------------------------------------------------------------------
--
-- Two repairs at the same time would both find what is to be done, and do it twice.  Two
-- that take each other's target for their source would exchange the rows.  So a repair
-- takes an advisory lock on its target and on its source, each on its own server, before
-- it looks for the last time.  That of the target lasts until the commit.  That of the
-- source need not be kept longer than until both are there: what repairs the source
-- meanwhile waits for the lock of this target.
--
-- Servers are locked in one order, and relations of a server in that of their OIDs.  A
-- deadlock across servers is still possible, for example if a transaction calls several
-- repairs.  So each wait ends by itself.
--
-- An advisory lock says nothing to other writers.  A unique index on the key does: if
-- somebody inserts the same row, one of the two fails.  Where no such index is on the
-- target, the table itself is locked.  In any case it is locked against DDL, such as a
-- foreign key with ON DELETE CASCADE.  DDL that this lock does not keep away is found before COMMIT
-- (repair_describe_sides).

-- Begins transactions on the other servers, of which that of the target may write and goes on, and
-- locks what some of the plans of a repair, which have one target, are about to change, and their
-- sources; an error if they are not what was described.
-- An identity begins with that of the server.  1768057972 is "iblt" in ASCII.
CREATE FUNCTION repair_begin(plans repair_plan[], locked repair_plan[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	target_place text := ((plans[1]).target).place;
	before text := current_setting('lock_timeout');
	patience text := 'SELECT pg_catalog.set_config(name, %s, true) FROM pg_catalog.pg_settings'
		' WHERE name = ''lock_timeout''';
	places text[] := ARRAY(SELECT DISTINCT o.place
		FROM unnest(plans) AS p, unnest(places_of(p.compared)) AS o(place));
	place text;
	plan repair_plan;
	x record;
	members oid[];
BEGIN
	FOREACH place IN ARRAY array_remove(places, NULL) LOOP
		PERFORM peer_send(place, 'BEGIN ISOLATION LEVEL READ COMMITTED READ '
				|| CASE WHEN place = target_place THEN 'WRITE' ELSE 'ONLY' END),
			peer_value(place);
	END LOOP;
	IF locked <> '{}' THEN
		-- how long a transaction waits for a lock, unless its session waits less
		PERFORM ask_values(places, array_fill(format(patience, format(
			'least(nullif(setting::int8, 0), %s)::text', greatest(1, least(2147483647, round(1000
			* extract(epoch FROM ((plans[1]).compared).timeout)))))), ARRAY[cardinality(places)]));
		FOR x IN SELECT s.place, array_agg(DISTINCT s.relation) AS relations
				FROM unnest(locked) AS p, unnest(ARRAY[p.source, p.target]) AS s
				GROUP BY 1 ORDER BY min(s.identity COLLATE "C") LOOP
			members := ask_call(x.place,
				format('relation_sources(%L::pg_catalog.regclass[])', x.relations));
			PERFORM ask_one(x.place, format('SELECT pg_catalog.count('
				'pg_catalog.pg_advisory_xact_lock(1768057972, (m::int8 - 2147483648)::int4))'
				' FROM pg_catalog.unnest(%L::oid[]) AS m', members));
		END LOOP;
		PERFORM ask_call(target_place, format(
			'repair_lock_tables(%L::pg_catalog.regclass[], %L::pg_catalog.regclass[])',
			ARRAY(SELECT (p.target).relation FROM unnest(locked) AS p),
			ARRAY(SELECT (p.target).relation FROM unnest(locked) AS p
				WHERE NOT (p.compared).is_unique)));
		-- That loses a SET since the session began, so it is restored here.  Those of peers have
		-- none.
		PERFORM ask_values(places, array_fill(format(patience, 'reset_val'),
				ARRAY[cardinality(places)])),
			set_config('lock_timeout', before, true);
	END IF;
	FOREACH plan IN ARRAY locked LOOP
		PERFORM repair_describe_sides(plan, true);
	END LOOP;
	FOREACH place IN ARRAY array_remove(array_remove(places, target_place), NULL) LOOP
		PERFORM peer_send(place, 'COMMIT'), peer_value(place);
	END LOOP;
EXCEPTION WHEN lock_not_available THEN
	RAISE lock_not_available USING MESSAGE = format('could not lock %s for a repair: %s',
			((locked[1]).target).relation, SQLERRM),
		DETAIL = 'Another repair has locked it or its source, or a transaction has written to it '
			'and it has no unique key.',
		HINT = 'Repair when that transaction has ended, or give a longer timeout.';
END
$$;
