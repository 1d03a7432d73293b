-- Shards -------------------------------------------------------------------------------
--
-- A partitioned table may have its rows on other servers.  Then each partition is summed
-- up on its own, because postgres_fdw sends a whole aggregate to a server, but not a part
-- of one.  Lookups name the keys in a condition, which is sent, too.

-- Does a side of this database have rows of other servers?
CREATE FUNCTION is_remote_here(plan plan) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (plan.here).remote AND (plan.here).place IS NULL
		OR (plan.there).remote AND (plan.there).place IS NULL;
END
$$;

-- Citus
--
-- Citus may run a whole statement on a worker.  So what must happen in this session, and
-- what reads this server's catalogs, is in PL/pgSQL functions that run a statement.  It
-- pushes an aggregate down if its arguments are bigint, and plans a subquery with OFFSET
-- on its own.
