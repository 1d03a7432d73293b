-- The strata estimator ------------------------------------------------------------

@value_type iblt_strata; iblt_internal; iblt; an estimator@
COMMENT ON TYPE @extschema@.iblt_strata IS
'strata estimator: of a difference between sets of rows, how many keys are in it';

CREATE FUNCTION @extschema@.iblt_strata_new(strata integer DEFAULT 32, cells integer DEFAULT 80,
	hashes integer DEFAULT 4, seed bigint DEFAULT 0) RETURNS @extschema@.iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_strata_new IS
'an empty estimator to be used as a template, so that both sides build alike';

CREATE FUNCTION @extschema@.iblt_strata_info(s @extschema@.iblt_strata, OUT version integer,
	OUT strata integer,
	OUT cells integer, OUT hashes integer, OUT key_type text, OUT seed bigint, OUT rows bigint,
	OUT bytes bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_strata_info IS
'parameters of an estimator, its net number of rows and its size in bytes';

CREATE FUNCTION iblt_internal.iblt_strata_negate(@extschema@.iblt_strata)
RETURNS @extschema@.iblt_strata
	AS 'MODULE_PATHNAME', 'iblt_negate' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON OPERATOR @extschema@.+ (@extschema@.iblt_strata, @extschema@.iblt_strata) IS
'the rows of both estimators';
COMMENT ON OPERATOR @extschema@.- (@extschema@.iblt_strata, @extschema@.iblt_strata) IS
'the difference: rows of the left less rows of the right estimator';

CREATE OPERATOR @extschema@.- (
	RIGHTARG = @extschema@.iblt_strata, FUNCTION = iblt_internal.iblt_strata_negate
);
COMMENT ON OPERATOR @extschema@.- (NONE, @extschema@.iblt_strata) IS
'every row with its sign turned';
COMMENT ON OPERATOR @extschema@.= (@extschema@.iblt_strata, @extschema@.iblt_strata) IS
'do both estimators hold the same rows?';
COMMENT ON OPERATOR @extschema@.<> (@extschema@.iblt_strata, @extschema@.iblt_strata) IS
'do the estimators hold different rows?';

CREATE FUNCTION @extschema@.iblt_strata_insert(s @extschema@.iblt_strata, key anyelement,
	checksum bigint)
RETURNS @extschema@.iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_strata_insert IS
'the estimator with one row more';

CREATE FUNCTION @extschema@.iblt_strata_delete(s @extschema@.iblt_strata, key anyelement,
	checksum bigint)
RETURNS @extschema@.iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_strata_delete IS
'the estimator with one row less, which need not have been in it';

CREATE FUNCTION iblt_internal.iblt_strata_agg_trans(internal, anyelement, bigint) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 4;
CREATE FUNCTION iblt_internal.iblt_strata_agg_trans(internal, anyelement, bigint,
	@extschema@.iblt_strata)
RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 4;
CREATE FUNCTION iblt_internal.iblt_strata_agg_inverse(internal, anyelement, bigint) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 4;
CREATE FUNCTION iblt_internal.iblt_strata_agg_inverse(internal, anyelement, bigint,
	@extschema@.iblt_strata)
RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 4;
CREATE FUNCTION iblt_internal.iblt_strata_agg_final(internal, anyelement, bigint)
RETURNS @extschema@.iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1500;
CREATE FUNCTION iblt_internal.iblt_strata_agg_final(internal, anyelement, bigint,
	@extschema@.iblt_strata)
RETURNS @extschema@.iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1500;
CREATE FUNCTION iblt_internal.iblt_strata_agg_serial(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 3000;
CREATE FUNCTION iblt_internal.iblt_strata_agg_deserial(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 4500;
CREATE FUNCTION iblt_internal.iblt_strata_agg_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'iblt_agg_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2100;

CREATE AGGREGATE @extschema@.iblt_strata_agg(key anyelement, checksum bigint) (
@moving_aggregate iblt_strata_agg; 73728@
);
COMMENT ON AGGREGATE @extschema@.iblt_strata_agg(anyelement, bigint) IS
'estimator of rows, each given by its key and a checksum of its contents';

CREATE AGGREGATE @extschema@.iblt_strata_agg(key anyelement, checksum bigint,
	template @extschema@.iblt_strata) (
@moving_aggregate iblt_strata_agg; 73728@
);
COMMENT ON AGGREGATE @extschema@.iblt_strata_agg(anyelement, bigint, @extschema@.iblt_strata) IS
'estimator of rows with the parameters of a template';

CREATE FUNCTION @extschema@.iblt_strata_estimate(a @extschema@.iblt_strata,
	b @extschema@.iblt_strata)
RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_strata_estimate(@extschema@.iblt_strata,
	@extschema@.iblt_strata) IS
'how many keys differ between the two, exact while they are few';

CREATE FUNCTION @extschema@.iblt_strata_estimate(d @extschema@.iblt_strata) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.iblt_strata_estimate(@extschema@.iblt_strata) IS
'how many keys are in a difference, exact while they are few';
