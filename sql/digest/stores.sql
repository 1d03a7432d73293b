-- Live digests: stores ---------------------------------------------------------------
--
-- Materialized views that are never refreshed: C functions write them (src/digest/store.h).
-- Users have no privileges on them, because a template has the secret seed.
-- A row of changes fills a page at most, and only sketches go out of line.

-- The tracked tables, written by C functions; do not refresh it.
CREATE MATERIALIZED VIEW tracked USING heap AS
	SELECT NULL::oid AS relation, NULL::bigint AS generation, NULL::integer AS version,
		NULL::bigint AS system, NULL::oid AS database, NULL::oid AS store,
		NULL::integer AS keys, NULL::smallint[] AS columns, NULL::oid[] AS types,
		NULL::oid[] AS parts, NULL::oid AS trigger,
		NULL::boolean AS all_columns, NULL::boolean AS by_hash,
		NULL::boolean AS from_peer, NULL::integer AS capacity, NULL::bytea AS template,
		NULL::bigint AS shape, NULL::bigint AS triggers, NULL::bigint AS files
	WITH NO DATA;

-- The base of each live digest, written by C functions; do not refresh it.
CREATE MATERIALIZED VIEW base USING heap AS
	SELECT NULL::oid AS relation, NULL::bigint AS generation,
		NULL::timestamptz AS verified_at, NULL::bytea AS sketch, NULL::bytea AS fold
	WITH NO DATA;
ALTER MATERIALIZED VIEW base ALTER COLUMN sketch SET STORAGE EXTERNAL,
	ALTER COLUMN fold SET STORAGE EXTERNAL;

-- IBLT_CHANGE_STORES of them
DO $do$
BEGIN
	FOR n IN 1 .. 8 LOOP
		EXECUTE format($q$
			CREATE MATERIALIZED VIEW changes_%1$s USING heap
				WITH (toast_tuple_target = 8160) AS
				SELECT NULL::oid AS relation, NULL::integer AS number, NULL::"char" AS kind,
					NULL::bytea AS changes, NULL::bytea AS sketch WITH NO DATA;
			ALTER MATERIALIZED VIEW changes_%1$s
				ALTER COLUMN changes SET STORAGE EXTERNAL,
				ALTER COLUMN sketch SET STORAGE EXTERNAL;
			COMMENT ON MATERIALIZED VIEW changes_%1$s IS
			'changes of tracked tables, written by C functions; do not refresh it'$q$, n);
	END LOOP;
END
$do$;
