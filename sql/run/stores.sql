-- Runs: stores -------------------------------------------------------------------------
--
-- A run is an audit in slices, which is kept (run.sql says how it goes).  What is known of
-- it is in materialized views that are never refreshed: C functions write and read them
-- (src/run/rows.c).

-- The runs.  Of the last one, the number stays.  It is not a sequence, because setval would set
-- that back.
CREATE MATERIALIZED VIEW run_head USING heap AS
	SELECT NULL::oid AS owner, NULL::bigint AS run, NULL::integer AS table_number,
		NULL::bigint AS number,
		NULL::text[] AS peers,			-- foreign servers, or NULL for connection strings
		NULL::text AS subscription,		-- whose connection string it is, if none was given
		NULL::text[] AS identities,		-- of the databases of both sides, NULL for this one
		NULL::text AS target,			-- what is audited, for people
		NULL::jsonb AS options,			-- run_options
		NULL::text AS paused,			-- why nobody works just now
		NULL::timestamptz AS started_at
	WITH NO DATA;

-- The tables of runs.
CREATE MATERIALIZED VIEW run_table USING heap AS
	SELECT NULL::oid AS owner, NULL::bigint AS run, NULL::integer AS table_number,
		NULL::bigint AS number,
		NULL::text AS relation, NULL::text AS peer_relation,
		NULL::jsonb AS item,			-- audit_item, with the OID of the table here
		NULL::text AS status,			-- NULL while there is work
		NULL::text AS detail, NULL::text AS sqlstate,
		NULL::text AS how,				-- how it is read, for the detail
		NULL::bigint AS generation,		-- how often it has begun
		NULL::text[] AS shape,			-- run_see, NULL before it begins
		NULL::text[] AS frontier,		-- up to where slices are cut, as hi of a slice
		NULL::boolean AS at_end,		-- there are no more to cut
		NULL::bigint AS cut, NULL::bigint AS done,	-- slices
		NULL::bigint AS slice_rows,		-- of the next slice, NULL if all rows are one
		NULL::bigint AS estimate,		-- rows of the larger side
		@each audit_counts: NULL::bigint AS %,@
		NULL::bigint AS kept,			-- how many of its differences are stored
		NULL::text AS gone,				-- why it is not equal without them (run_gone)
		NULL::bigint AS bytes,
		NULL::double precision AS work_ms, NULL::double precision AS wall_ms,
		NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at
	WITH NO DATA;

-- The slices of runs that are cut and not compared yet.
CREATE MATERIALIZED VIEW run_slice USING heap AS
	SELECT NULL::oid AS owner, NULL::bigint AS run, NULL::integer AS table_number,
		NULL::bigint AS number,
		NULL::bigint AS generation,
		NULL::text[] AS lo, NULL::text[] AS hi,	-- keys
		NULL::bigint AS rows,			-- about so many, NULL for all of its table
		NULL::boolean AS final			-- without rows: the count that ends its table
	WITH NO DATA;

-- The differences that runs found.
CREATE MATERIALIZED VIEW run_difference USING heap AS
	SELECT NULL::oid AS owner, NULL::bigint AS run, NULL::integer AS table_number,
		NULL::bigint AS number,
		NULL::text AS id, NULL::bigint AS seed, NULL::jsonb AS key, NULL::text AS side,
		NULL::jsonb AS here, NULL::jsonb AS there, NULL::boolean AS confirmed,
		NULL::bigint AS here_count, NULL::bigint AS there_count, NULL::timestamptz AS found_at,
		NULL::text[] AS differs,		-- columns
		NULL::bigint AS slice,			-- the number of its range
		NULL::text AS here_checksum, NULL::text AS there_checksum
	WITH NO DATA;

-- What slices of runs with differences have shown, less what a recheck or a repair found equal.
CREATE MATERIALIZED VIEW run_range USING heap AS
	SELECT NULL::oid AS owner, NULL::bigint AS run, NULL::integer AS table_number,
		NULL::bigint AS number,
		NULL::jsonb AS after, NULL::jsonb AS up_to,		-- keys, NULL for the first and the last
		@each audit_counts: NULL::bigint AS %,@
		NULL::timestamptz AS found_at
	WITH NO DATA;

-- A role writes rows of its own alone, whatever owner a row names.  With own => false, it
-- reads and deletes those of the roles whose privileges it has.

-- The rows of a store, given by its row type, as they are at this moment.
CREATE FUNCTION iblt_run_rows(store anyelement, run bigint DEFAULT NULL,
	table_number integer DEFAULT NULL, number bigint DEFAULT NULL, own boolean DEFAULT true)
RETURNS SETOF anyelement
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Adds rows of runs of this role to the store of their type, or a run, and gives its number,
-- which no other has or had.
CREATE FUNCTION iblt_run_add(VARIADIC rows anyarray) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Puts rows in place of those with the same numbers; the caller holds the lock of the run.
CREATE FUNCTION iblt_run_put(VARIADIC rows anyarray) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Deletes rows of a store, and returns how many.
CREATE FUNCTION iblt_run_remove(store anyelement, run bigint, table_number integer DEFAULT NULL,
	number bigint DEFAULT NULL, own boolean DEFAULT true) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Takes a lock of a run of this role until the transaction ends: (0, 0) to write it, (0, 1)
-- shared by those who work on it, (table_number, 0) to begin a table, otherwise of a slice; false
-- if another session has it.
CREATE FUNCTION iblt_run_lock(run bigint, table_number integer DEFAULT 0, number bigint DEFAULT 0,
	wait boolean DEFAULT true) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
