-- Live digests, for a server that compares -----------------------------------------------
--
-- Without iblt_live, no table is tracked, and these say so.

-- The tracked tables, and those that have been dropped since.
CREATE FUNCTION iblt_live_tables() RETURNS oid[]
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE;

-- How a table is tracked.
CREATE TYPE tracking AS (
	generation bigint,		-- a number that no other digest has
	key_columns text[],
	columns text[],
	all_columns boolean,	-- they were not asked for by name
	by_hash boolean,		-- keys go into the sketch as hashes (see finder)
	from_peer boolean,
	capacity integer,
	template @extschema@.iblt			-- has the seed of all hashes, which is a secret
);

-- The same of a table, for its owner and those who may read its digest; NULL if it is not tracked.
CREATE FUNCTION iblt_live_options(relation regclass) RETURNS tracking
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;

-- The state of a tracked table; NULL if it is not tracked or was dropped.
CREATE FUNCTION iblt_live_state(relation oid, OUT reason text, OUT rows bigint, OUT unmerged bigint,
	OUT bytes bigint, OUT verified_at timestamptz, OUT store_bytes bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;

-- A sketch folded to that many cells a subtable.
CREATE FUNCTION iblt_compare_fold(s @extschema@.iblt, subtable_cells integer)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- As iblt_decode_status, but "estimated" counts keys; and if complete, the keys of a
-- difference "here - there" in order, each once, as iblt_compare_keys reads them.
CREATE FUNCTION iblt_compare_decode(s @extschema@.iblt, OUT complete boolean,
	OUT recovered bigint, OUT estimated bigint, OUT keys bytea)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;

-- The digest of a relation, as iblt_live gives it, folded to that many cells a subtable and further
-- to a capacity, unless these are NULL.
CREATE FUNCTION iblt_live_fold(relation regclass, capacity integer, subtable_cells integer,
	failure double precision DEFAULT 0.01) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED;

-- The digest of a relation as it was described, folded; an error if it is not trustworthy.
-- A digest that was started again may be of other columns.
-- Relies on: the stores of the digest, in the snapshot of the statement that calls it.
CREATE FUNCTION live_read(relation text, generation bigint,
	subtable_cells integer) RETURNS @extschema@.iblt
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
AS $$
BEGIN
	IF generation IS DISTINCT FROM (iblt_live_options(to_regclass(relation))).generation THEN
		PERFORM refuse_altered(relation, 'here', 'Its digest was started again.');
	END IF;
	RETURN iblt_live_fold(to_regclass(relation), NULL, subtable_cells);
END
$$;

-- What the live digest of a relation is of, and why it is not trustworthy.  If it is, and is
-- "wanted", this comes with a small fold, or with one that is large enough to tell how it differs
-- from another server's of the same kind, of which "small" is a fold.
-- What cannot be answered is left out, and the asker reads the digests later or scans.
-- Relies on: the stores of the digest, in the snapshot of the statement that calls it.
CREATE FUNCTION live_digest(relation regclass, wanted boolean, small text DEFAULT NULL,
	other_cells integer DEFAULT NULL) RETURNS live_digest
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
AS $$
DECLARE
	begun timestamptz := clock_timestamp();
	options tracking := iblt_live_options(relation);
	info record;
	state record;
	digest live_digest;
	own declared.sketch%TYPE;
	asked declared.sketch%TYPE;
	difference record;
	cells integer;
	most integer;
	capacity integer;
BEGIN
	SELECT s.* INTO state FROM iblt_live_state(relation) AS s;
	IF state.unmerged IS NULL THEN
		-- otherwise the role does not learn whether it is tracked
		digest.reason := CASE WHEN has_table_privilege(relation, 'SELECT')
			AND NOT row_security_active(relation) THEN 'it is not tracked' ELSE 'unreadable' END;
		RETURN digest;
	END IF;
	info := iblt_info(options.template);
	SELECT state.reason, options.generation, options.key_columns, options.columns, options.by_hash,
		info.key_size, info.hashes, info.cells / info.hashes,
		encode(sha256(int8send(info.seed)), 'hex'), state.verified_at, NULL, NULL, NULL
	INTO digest;
	cells := CASE WHEN small IS NULL THEN digest.subtable_cells
		ELSE gcd(other_cells, digest.subtable_cells) END;
	IF wanted AND digest.reason IS NULL AND cells >= 70 THEN
		BEGIN
			own := iblt_live_fold(relation, 10, cells, 0.1);
			digest.fingerprint := iblt_compare_fingerprint(relation);
			IF small IS NOT NULL THEN
				asked := small;
				difference := iblt_compare_decode(iblt_subtract(asked, own));
				most := info.capacity * cells::bigint / digest.subtable_cells;
				IF NOT difference.complete AND difference.estimated <= 1.6 * most THEN
					-- a third more than the estimate nearly always does, and saves another question
					capacity := 1.3 * difference.estimated + 10;
					own := iblt_live_fold(relation, CASE WHEN capacity < most THEN capacity END,
						cells);
				END IF;
			END IF;
			digest.fold := own;
			digest.ms := ms(begun);
		EXCEPTION WHEN @on_error@ THEN
			NULL;	-- digests of different kinds, or one that has just become untrustworthy
		END;
	END IF;
	RETURN digest;
END
$$;
