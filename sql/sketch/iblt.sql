-- The type --------------------------------------------------------------------

@value_type iblt; iblt_internal; iblt; a sketch@
COMMENT ON TYPE @extschema@.iblt IS
'invertible Bloom lookup table: a sketch of rows (key, checksum) that can be subtracted and '
'decoded';

-- Making and describing sketches ----------------------------------------------

CREATE FUNCTION @extschema@.iblt_new(capacity integer DEFAULT 100, key_size integer DEFAULT 32,
	failure double precision DEFAULT 0.0001, with_values boolean DEFAULT false,
	value_size integer DEFAULT 0, get_success double precision DEFAULT NULL,
	hashes integer DEFAULT NULL, seed bigint DEFAULT 0) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_new IS
'an empty sketch to be used as a template, so that both sides build alike';

@own@
CREATE FUNCTION @extschema@.iblt_info(s @extschema@.iblt, OUT version integer, OUT hashes integer,
	OUT cells integer,
	OUT capacity integer, OUT key_type text, OUT key_size integer, OUT with_values boolean,
	OUT value_type text, OUT value_size integer, OUT seed bigint, OUT rows bigint, OUT bytes bigint,
	OUT get_success double precision, OUT subtables integer[])
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_info IS
'parameters of a sketch, its net number of rows, its size in bytes, and how likely iblt_get '
'finds a key';

-- Linear algebra on sketches ---------------------------------------------------

CREATE FUNCTION iblt_internal.iblt_negate(@extschema@.iblt) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON OPERATOR @extschema@.+ (@extschema@.iblt, @extschema@.iblt) IS
'the rows of both sketches';
COMMENT ON OPERATOR @extschema@.- (@extschema@.iblt, @extschema@.iblt) IS
'the difference: rows of the left less rows of the right sketch';

CREATE OPERATOR @extschema@.- (
	RIGHTARG = @extschema@.iblt, FUNCTION = iblt_internal.iblt_negate
);
COMMENT ON OPERATOR @extschema@.- (NONE, @extschema@.iblt) IS 'every row with its sign turned';
COMMENT ON OPERATOR @extschema@.= (@extschema@.iblt, @extschema@.iblt) IS
'do both sketches hold the same rows?';
COMMENT ON OPERATOR @extschema@.<> (@extschema@.iblt, @extschema@.iblt) IS
'do the sketches hold different rows?';

-- Smaller, same contents ----------------------------------------------------------

@own@
CREATE FUNCTION @extschema@.iblt_fold(s @extschema@.iblt, capacity integer,
	failure double precision DEFAULT 0.0001)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_fold(@extschema@.iblt, integer, double precision) IS
'the sketch of the same rows with fewer cells, as few as it can be folded to for a capacity';

CREATE FUNCTION @extschema@.iblt_fold(s @extschema@.iblt, template @extschema@.iblt)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME', 'iblt_fold_like' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_fold(@extschema@.iblt, @extschema@.iblt) IS
'the sketch of the same rows with as many cells as a template';

CREATE FUNCTION @extschema@.iblt_drop_subtable(s @extschema@.iblt, subtable integer)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_drop_subtable IS
'the sketch of the same rows without one subtable, counted from 1';

@own@
CREATE FUNCTION @extschema@.iblt_estimate(s @extschema@.iblt, OUT rows bigint,
	OUT rows_upper_bound bigint,
	OUT keys bigint, OUT keys_upper_bound bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_estimate IS
'about how many rows and keys are in a difference, with bounds that hold with 99 % certainty';

-- One row at a time --------------------------------------------------------------

CREATE FUNCTION @extschema@.iblt_insert(s @extschema@.iblt, key anyelement, value anycompatible)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_insert IS
'the sketch with one row more; value is the row''s value, or its checksum in a sketch without '
'values';

CREATE FUNCTION @extschema@.iblt_delete(s @extschema@.iblt, key anyelement, value anycompatible)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_delete IS
'the sketch with one row less, which need not have been in it';

CREATE FUNCTION @extschema@.iblt_get(s @extschema@.iblt, key anyelement, list boolean DEFAULT false,
	OUT status text,
	OUT count bigint, OUT value bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_get(@extschema@.iblt, anyelement, boolean) IS
'is a key in the sketch: present, absent or unknown, with its count of rows and its value; reads '
'the header and the cells of the key alone and trusts the rest, and with list lists the whole '
'sketch where these cells do not tell';

CREATE FUNCTION @extschema@.iblt_get(s @extschema@.iblt, key anyelement, value_type anycompatible,
	list boolean DEFAULT false, OUT status text, OUT count bigint, OUT value anycompatible)
	AS 'MODULE_PATHNAME', 'iblt_get_typed' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_get(@extschema@.iblt, anyelement, anycompatible, boolean) IS
'is a key in the sketch: present, absent or unknown, with its count of rows and its value as the '
'type of value_type';

-- Aggregates ---------------------------------------------------------------------
-- The planner takes the state that a worker hands over for a value of 36 bytes.  So
-- the costs of the functions that make, read and add states speak for their bytes,
-- those of the default capacity, in units of about 10 ns; a worker for few rows of
-- each of many groups is then dearer than none.

CREATE FUNCTION iblt_internal.iblt_agg_trans(internal, anyelement, bigint) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 3;
CREATE FUNCTION iblt_internal.iblt_agg_trans(internal, anyelement, bigint, integer) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 3;
CREATE FUNCTION iblt_internal.iblt_agg_trans(internal, anyelement, anycompatible, @extschema@.iblt)
RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 3;
CREATE FUNCTION iblt_internal.iblt_agg_inverse(internal, anyelement, bigint) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 3;
CREATE FUNCTION iblt_internal.iblt_agg_inverse(internal, anyelement, bigint, integer)
RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 3;
CREATE FUNCTION iblt_internal.iblt_agg_inverse(internal, anyelement, anycompatible,
	@extschema@.iblt)
RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 3;
CREATE FUNCTION iblt_internal.iblt_agg_final(internal, anyelement, bigint) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 300;
CREATE FUNCTION iblt_internal.iblt_agg_final(internal, anyelement, bigint, integer)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 300;
CREATE FUNCTION iblt_internal.iblt_agg_final(internal, anyelement, anycompatible, @extschema@.iblt)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 300;
CREATE FUNCTION iblt_internal.iblt_agg_serial(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 500;
CREATE FUNCTION iblt_internal.iblt_agg_deserial(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 700;
CREATE FUNCTION iblt_internal.iblt_agg_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 300;

CREATE AGGREGATE @extschema@.iblt_agg(key anyelement, checksum bigint) (
@moving_aggregate iblt_agg; 10368@
);
COMMENT ON AGGREGATE @extschema@.iblt_agg(anyelement, bigint) IS
'sketch of rows, each given by its key and a checksum of its contents';

CREATE AGGREGATE @extschema@.iblt_agg(key anyelement, checksum bigint, capacity integer) (
@moving_aggregate iblt_agg; 10368@
);
COMMENT ON AGGREGATE @extschema@.iblt_agg(anyelement, bigint, integer) IS
'sketch of rows that can decode that many differing keys';

@own@
CREATE AGGREGATE @extschema@.iblt_agg(key anyelement, value anycompatible,
	template @extschema@.iblt) (
@moving_aggregate iblt_agg; 10368@
);
COMMENT ON AGGREGATE @extschema@.iblt_agg(anyelement, anycompatible, @extschema@.iblt) IS
'sketch of rows with the parameters of a template; value is the row''s value, or its checksum if '
'the template has no values';

-- The same for bigint keys and checksums, with a state that Citus can send from a worker.
-- Over no rows it is NULL, because a worker without rows does not know the parameters.

CREATE FUNCTION iblt_internal.iblt_agg_bigint_trans(@extschema@.iblt, bigint, bigint,
	@extschema@.iblt)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 3;
CREATE FUNCTION iblt_internal.iblt_agg_bigint_combine(@extschema@.iblt, @extschema@.iblt)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 300;
CREATE FUNCTION iblt_internal.iblt_agg_bigint_final(@extschema@.iblt) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 300;

@own@
CREATE AGGREGATE @extschema@.iblt_agg_bigint(key bigint, checksum bigint,
	template @extschema@.iblt) (
	SFUNC = iblt_internal.iblt_agg_bigint_trans, STYPE = @extschema@.iblt, SSPACE = 10368,
	FINALFUNC = iblt_internal.iblt_agg_bigint_final,
	COMBINEFUNC = iblt_internal.iblt_agg_bigint_combine,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.iblt_agg_bigint(bigint, bigint, @extschema@.iblt) IS
'iblt_agg for bigint keys and a template without values, whose work Citus leaves to its workers; '
'NULL over no rows';

CREATE FUNCTION iblt_internal.iblt_sum_trans(internal, @extschema@.iblt) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 500;
CREATE FUNCTION iblt_internal.iblt_sum_inverse(internal, @extschema@.iblt) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 500;
CREATE FUNCTION iblt_internal.iblt_sum_final(internal) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 300;

@own@
CREATE AGGREGATE @extschema@.iblt_sum(@extschema@.iblt) (
	SFUNC = iblt_internal.iblt_sum_trans, STYPE = internal, SSPACE = 10368,
	FINALFUNC = iblt_internal.iblt_sum_final,
	COMBINEFUNC = iblt_internal.iblt_agg_combine,
	SERIALFUNC = iblt_internal.iblt_agg_serial, DESERIALFUNC = iblt_internal.iblt_agg_deserial,
	MSFUNC = iblt_internal.iblt_sum_trans, MINVFUNC = iblt_internal.iblt_sum_inverse,
	MSTYPE = internal, MSSPACE = 10368,
	MFINALFUNC = iblt_internal.iblt_sum_final,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.iblt_sum(@extschema@.iblt) IS
'sum of sketches: of shards, partitions or changes';

-- Decoding -----------------------------------------------------------------------

CREATE FUNCTION @extschema@.iblt_decode(s @extschema@.iblt, allow_partial boolean DEFAULT false)
RETURNS TABLE (key text, side text, count bigint, value text)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE ROWS 100;
COMMENT ON FUNCTION @extschema@.iblt_decode(@extschema@.iblt, boolean) IS
'the keys and values in a sketch, as text, with the side they are on; an error if there are more '
'than it can decode';

CREATE FUNCTION @extschema@.iblt_decode(s @extschema@.iblt, key_type anyelement,
	allow_partial boolean DEFAULT false)
RETURNS TABLE (key anyelement, side text, count bigint, value bigint)
	AS 'MODULE_PATHNAME', 'iblt_decode_typed' LANGUAGE C STABLE PARALLEL SAFE ROWS 100;
COMMENT ON FUNCTION @extschema@.iblt_decode(@extschema@.iblt, anyelement, boolean) IS
'the keys in a sketch, as the type of the second argument, with the side they are on; an error if '
'there are more than it can decode';

CREATE FUNCTION @extschema@.iblt_decode(
	s @extschema@.iblt, key_type anyelement, value_type anycompatible,
	allow_partial boolean DEFAULT false)
RETURNS TABLE (key anyelement, side text, count bigint, value anycompatible)
	AS 'MODULE_PATHNAME', 'iblt_decode_typed_values' LANGUAGE C STABLE PARALLEL SAFE ROWS 100;
COMMENT ON FUNCTION @extschema@.iblt_decode(@extschema@.iblt, anyelement, anycompatible, boolean) IS
'the keys and values in a sketch, as the types of the second and third argument, with the side '
'they are on; an error if there are more than it can decode';

CREATE FUNCTION @extschema@.iblt_decode_status(s @extschema@.iblt, OUT complete boolean,
	OUT recovered bigint,
	OUT rows_estimated bigint, OUT recommended_capacity integer)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_decode_status IS
'whether a sketch can be decoded, how many keys are recovered, about how many rows differ, and '
'which capacity to use';

-- Row checksums --------------------------------------------------------------------

-- Planner support: a row argument becomes its columns.
CREATE FUNCTION iblt_internal.iblt_checksum_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- STABLE, not IMMUTABLE: enum labels and the names behind reg* values can be
-- changed without the stored value changing.
CREATE FUNCTION @extschema@.iblt_checksum(VARIADIC "any") RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 5
	SUPPORT iblt_internal.iblt_checksum_support;

COMMENT ON FUNCTION @extschema@.iblt_checksum IS
	'checksum of a row''s values, the same on every server; a sole row means its columns';

@own@
CREATE FUNCTION @extschema@.iblt_checksum_seeded(seed bigint, VARIADIC "any") RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 5
	SUPPORT iblt_internal.iblt_checksum_support;

COMMENT ON FUNCTION @extschema@.iblt_checksum_seeded IS
	'checksum of a row''s values under a seed, which both sides must share';

-- What the planner support puts in the place of these where no argument has a type whose
-- bytes can change.  Another server may have a column of another type under that name.

-- iblt_checksum of values without enums, reg* types and rows; an error if the values have
-- other types than those named.
CREATE FUNCTION iblt_internal.iblt_checksum_immutable(types text, VARIADIC "any") RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 5;

-- iblt_checksum_seeded of values without enums, reg* types and rows; an error if the values
-- have other types than those named.
CREATE FUNCTION iblt_internal.iblt_checksum_seeded_immutable(types text, seed bigint,
	VARIADIC "any") RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 5;
