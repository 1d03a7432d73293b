-- Where replication is ----------------------------------------------------------------------

-- A position in this server's WAL behind all that is visible now, which is flushed, so a crash
-- does not lose it.
CREATE FUNCTION iblt_wal_position() RETURNS pg_lsn
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- The same of a peer without iblt, perhaps not flushed, or behind what is flushed.
-- A number, because arithmetic on pg_lsn is not in all releases.  Where the next
-- record would begin behind a page header, the last one ended before it.  A
-- standby shows a commit shortly before it counts as replayed.
CREATE FUNCTION wal_position(flushed boolean) RETURNS numeric
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT p - CASE WHEN p % current_setting('wal_block_size')::numeric IN (24, 40)
		THEN p % current_setting('wal_block_size')::numeric ELSE 0 END
	FROM (SELECT CASE
		WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_replay_lsn(), pg_last_wal_receive_lsn())
		WHEN flushed THEN pg_current_wal_flush_lsn()
		ELSE pg_current_wal_insert_lsn() END - '0/0'::pg_lsn) AS w(p)
$$;

-- Has this standby passed a position?
CREATE FUNCTION wal_replayed("position" numeric) RETURNS boolean
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT NOT pg_is_in_recovery()
		OR pg_last_wal_replay_lsn() - '0/0'::pg_lsn >= wal_replayed."position"
$$;

-- The position up to which a slot's subscriber has applied everything.
CREATE FUNCTION slot_applied(slot text) RETURNS numeric
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT s.confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots s
	WHERE s.slot_name = slot AND s.database = current_database()
$$;

-- The positions that subscriptions of a slot have received.
-- Several subscriptions may have slots of one name, on different publishers.
CREATE FUNCTION slot_received(slot text) RETURNS numeric[]
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT coalesce(array_agg(st.received_lsn - '0/0'::pg_lsn), '{}')
	FROM pg_subscription s JOIN pg_stat_subscription st ON st.subname = s.subname
	WHERE s.subslotname = slot
	AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND st.subid IN (SELECT srsubid FROM pg_subscription_rel)
	AND st.relid IS NULL AND st.received_lsn IS NOT NULL
$$;

-- How a slot is behind, for people.
CREATE FUNCTION slot_said(slot text) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT concat(CASE WHEN NOT s.active THEN 'nothing is connected to the slot, which is '
			ELSE 'the slot is ' END,
		pg_size_pretty(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
			ELSE pg_current_wal_lsn() END - s.confirmed_flush_lsn), ' behind')
	FROM pg_replication_slots s WHERE s.slot_name = slot AND s.database = current_database()
$$;

-- How the subscription of a slot does, or without a slot this standby, for people.
CREATE FUNCTION follower_said(slot text) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT CASE WHEN slot IS NOT NULL THEN (
			SELECT string_agg(format(CASE WHEN NOT s.subenabled THEN 'subscription "%s" is disabled'
				WHEN NOT EXISTS (SELECT FROM pg_stat_subscription st WHERE st.subid = s.oid
					AND st.relid IS NULL AND st.pid IS NOT NULL)
				THEN 'subscription "%s" has no apply worker, and the log of its server says why'
				ELSE 'subscription "%s" has an apply worker' END, s.subname), ', ')
			FROM pg_subscription s WHERE s.subslotname = slot
			AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()))
		WHEN NOT pg_is_in_recovery() THEN NULL
		WHEN pg_is_wal_replay_paused() THEN 'replay on the standby is paused'
		ELSE format('the standby has still to replay %s of what it has received',
			pg_size_pretty(pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn())) END
$$;

-- The transactions under way that may have written to a relation of this primary; for a view,
-- all that have written anything.
-- A transaction keeps its locks until it is visible, long after its WAL was sent if
-- it waits for a synchronous standby.  A snapshot would not do: it does not name the
-- latest transactions.  A partition attached in the same transaction is not in the
-- tree yet; its parent is locked in a weaker mode.
CREATE FUNCTION writers(target regclass) RETURNS text[]
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	WITH RECURSIVE tree AS (
		SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = target
		UNION
		SELECT c.oid, c.relkind FROM tree
		JOIN pg_inherits i ON i.inhparent = tree.oid JOIN pg_class c ON c.oid = i.inhrelid
	)
	SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}')
	FROM pg_locks l LEFT JOIN tree ON tree.oid = l.relation
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND NOT pg_is_in_recovery()
	AND CASE WHEN EXISTS (SELECT FROM tree WHERE relkind NOT IN ('r', 'p', 'm'))
		THEN l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'
		ELSE l.locktype = 'relation' AND (tree.relkind = 'p' AND l.mode = 'ShareUpdateExclusiveLock'
			OR tree.oid IS NOT NULL AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock',
				'ExclusiveLock', 'AccessExclusiveLock')) END
$$;

-- Those of running transactions that may have inserted their commit records before the call.
-- Followers may show their rows, and this server does not.
CREATE FUNCTION iblt_committing(xids xid[]) RETURNS xid[]
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Those that may have written to a relation of this primary.
-- A transaction without an ID has not inserted a commit record.  It is asked for its ID after
-- its lock was seen, so a transaction that has none by then was visible or had not committed.
CREATE FUNCTION committing(target regclass) RETURNS xid[]
	LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED
AS $$
DECLARE
	writers text[] := writers(target);
BEGIN
	RETURN iblt_committing(ARRAY(SELECT l.transactionid FROM pg_locks l
		WHERE l.granted AND l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'
		AND l.virtualtransaction = ANY (writers)));
END
$$;
