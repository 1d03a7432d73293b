-- What drivers call -----------------------------------------------------------------
--
-- The schema that users call may belong to anybody.  Its owner can give a function there the
-- name of one of iblt's and arguments that fit a call better, or rename the schema and make
-- another one of that name.  So iblt itself names nothing in it.  These are what users call,
-- once more.  test/lib/check-catalog.sh compares each with its sister.

-- iblt_info of users.
CREATE FUNCTION iblt_info(s @extschema@.iblt, OUT version integer, OUT hashes integer,
	OUT cells integer, OUT capacity integer, OUT key_type text, OUT key_size integer,
	OUT with_values boolean, OUT value_type text, OUT value_size integer, OUT seed bigint,
	OUT rows bigint, OUT bytes bigint, OUT get_success double precision, OUT subtables integer[])
RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;

-- iblt_fold of users, to a capacity.
CREATE FUNCTION iblt_fold(s @extschema@.iblt, capacity integer,
	failure double precision DEFAULT 0.0001) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- iblt_estimate of users.
CREATE FUNCTION iblt_estimate(s @extschema@.iblt, OUT rows bigint, OUT rows_upper_bound bigint,
	OUT keys bigint, OUT keys_upper_bound bigint) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- iblt_checksum_seeded of users.
CREATE FUNCTION iblt_checksum_seeded(seed bigint, VARIADIC "any") RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 5
	SUPPORT iblt_checksum_support;

CREATE AGGREGATE iblt_agg(key anyelement, value anycompatible, template @extschema@.iblt) (
@moving_aggregate iblt_agg 10368@
);

CREATE AGGREGATE iblt_agg_bigint(key bigint, checksum bigint, template @extschema@.iblt) (
	SFUNC = iblt_internal.iblt_agg_bigint_trans, STYPE = @extschema@.iblt, SSPACE = 10368,
	FINALFUNC = iblt_internal.iblt_agg_bigint_final,
	COMBINEFUNC = iblt_internal.iblt_agg_bigint_combine,
	PARALLEL = SAFE
);

CREATE AGGREGATE iblt_sum(@extschema@.iblt) (
	SFUNC = iblt_internal.iblt_sum_trans, STYPE = internal, SSPACE = 10368,
	FINALFUNC = iblt_internal.iblt_sum_final,
	COMBINEFUNC = iblt_internal.iblt_agg_combine,
	SERIALFUNC = iblt_internal.iblt_agg_serial, DESERIALFUNC = iblt_internal.iblt_agg_deserial,
	MSFUNC = iblt_internal.iblt_sum_trans, MINVFUNC = iblt_internal.iblt_sum_inverse,
	MSTYPE = internal, MSSPACE = 10368,
	MFINALFUNC = iblt_internal.iblt_sum_final,
	PARALLEL = SAFE
);

-- iblt_session_keep of users.
CREATE FUNCTION iblt_session_keep(name text, s @extschema@.iblt) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- iblt_session_get of users.
CREATE FUNCTION iblt_session_get(name text) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- iblt_session_drop of users.
CREATE FUNCTION iblt_session_drop(name text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- iblt_live of users.
CREATE FUNCTION iblt_live(relation regclass, capacity integer DEFAULT NULL)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED;

CREATE FUNCTION @extschema@.iblt_session_keep(name text, s @extschema@.iblt)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.iblt_session_keep IS
'keeps a sketch in this session under a name, across transactions, and returns it';

CREATE FUNCTION @extschema@.iblt_session_get(name text) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.iblt_session_get(text) IS
'the sketch that this session keeps under a name';

CREATE FUNCTION @extschema@.iblt_session_drop(name text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.iblt_session_drop IS
'forgets a sketch that this session keeps, and returns whether there was one';
