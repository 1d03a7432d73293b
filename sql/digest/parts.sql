-- Live digests: parts in C -------------------------------------------------------------

-- Records the change of a row of a tracked table; it never fails a statement.
CREATE FUNCTION iblt_track_row() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Records that a tracked table was truncated.
CREATE FUNCTION iblt_track_truncate() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Begins to record changes of a table whose triggers exist, and returns a number for this
-- digest.  The first columns are its keys.
CREATE FUNCTION iblt_track_begin(relation regclass, columns text[], keys integer,
	all_columns boolean, by_hash boolean, from_peer boolean, capacity integer,
	template @extschema@.iblt) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Writes the first base of a digest.
CREATE FUNCTION iblt_track_set_base(relation regclass, generation bigint, base @extschema@.iblt)
RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Removes all that is kept of a table.
CREATE FUNCTION iblt_track_end(relation regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- The sketch of a scan in the same statement, less the changes recorded since the start.
CREATE FUNCTION iblt_live_base(relation regclass, scanned @extschema@.iblt) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;

-- Notes the result of a scan.
CREATE FUNCTION iblt_live_note_scan(relation regclass, equal boolean, at timestamptz) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
