-- The strata estimator ------------------------------------------------------------

CREATE TYPE iblt_strata;

CREATE FUNCTION iblt_internal.iblt_strata_in(cstring) RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION iblt_internal.iblt_strata_out(iblt_strata) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION iblt_internal.iblt_strata_recv(internal) RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION iblt_internal.iblt_strata_send(iblt_strata) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE iblt_strata (
	INPUT = iblt_internal.iblt_strata_in,
	OUTPUT = iblt_internal.iblt_strata_out,
	RECEIVE = iblt_internal.iblt_strata_recv,
	SEND = iblt_internal.iblt_strata_send,
	STORAGE = external
);
COMMENT ON TYPE iblt_strata IS
'strata estimator: of a difference between sets of rows, how many keys are in it';

-- The bytes of an estimator, as doc/internals/format.md describes them.
CREATE FUNCTION iblt_internal.iblt_strata_to_bytea(iblt_strata) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- An estimator from its bytes, which are validated.
CREATE FUNCTION iblt_internal.iblt_strata_from_bytea(bytea) RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (iblt_strata AS bytea) WITH FUNCTION iblt_internal.iblt_strata_to_bytea(iblt_strata);
COMMENT ON CAST (iblt_strata AS bytea) IS 'the bytes of an estimator';

CREATE CAST (bytea AS iblt_strata) WITH FUNCTION iblt_internal.iblt_strata_from_bytea(bytea);
COMMENT ON CAST (bytea AS iblt_strata) IS 'an estimator from its bytes, which are validated';

CREATE FUNCTION iblt_strata_new(strata integer DEFAULT 32, cells integer DEFAULT 80,
	hashes integer DEFAULT 4, seed bigint DEFAULT 0) RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_strata_new IS
'an empty estimator to be used as a template, so that both sides build alike';

CREATE FUNCTION iblt_strata_info(s iblt_strata, OUT version integer, OUT strata integer,
	OUT cells integer, OUT hashes integer, OUT key_type text, OUT seed bigint, OUT rows bigint,
	OUT bytes bigint) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_strata_info IS
'parameters of an estimator, its net number of rows and its size in bytes';

CREATE FUNCTION iblt_internal.iblt_strata_add(iblt_strata, iblt_strata) RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION iblt_internal.iblt_strata_subtract(iblt_strata, iblt_strata) RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION iblt_internal.iblt_strata_negate(iblt_strata) RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION iblt_internal.iblt_strata_eq(iblt_strata, iblt_strata) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION iblt_internal.iblt_strata_ne(iblt_strata, iblt_strata) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE OPERATOR + (
	LEFTARG = iblt_strata, RIGHTARG = iblt_strata, FUNCTION = iblt_internal.iblt_strata_add,
	COMMUTATOR = +
);
COMMENT ON OPERATOR + (iblt_strata, iblt_strata) IS 'the rows of both estimators';

CREATE OPERATOR - (
	LEFTARG = iblt_strata, RIGHTARG = iblt_strata, FUNCTION = iblt_internal.iblt_strata_subtract
);
COMMENT ON OPERATOR - (iblt_strata, iblt_strata) IS
'the difference: rows of the left less rows of the right estimator';

CREATE OPERATOR - (
	RIGHTARG = iblt_strata, FUNCTION = iblt_internal.iblt_strata_negate
);
COMMENT ON OPERATOR - (NONE, iblt_strata) IS 'every row with its sign turned';

CREATE OPERATOR = (
	LEFTARG = iblt_strata, RIGHTARG = iblt_strata, FUNCTION = iblt_internal.iblt_strata_eq,
	COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel
);
COMMENT ON OPERATOR = (iblt_strata, iblt_strata) IS 'do both estimators hold the same rows?';

CREATE OPERATOR <> (
	LEFTARG = iblt_strata, RIGHTARG = iblt_strata, FUNCTION = iblt_internal.iblt_strata_ne,
	COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR <> (iblt_strata, iblt_strata) IS 'do the estimators hold different rows?';

CREATE FUNCTION iblt_strata_insert(s iblt_strata, key anyelement, checksum bigint)
RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_strata_insert IS
'the estimator with one row more';

CREATE FUNCTION iblt_strata_delete(s iblt_strata, key anyelement, checksum bigint)
RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_strata_delete IS
'the estimator with one row less, which need not have been in it';

CREATE FUNCTION iblt_internal.iblt_strata_agg_trans(internal, anyelement, bigint) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 4;
CREATE FUNCTION iblt_internal.iblt_strata_agg_trans(internal, anyelement, bigint, iblt_strata)
RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 4;
CREATE FUNCTION iblt_internal.iblt_strata_agg_inverse(internal, anyelement, bigint) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 4;
CREATE FUNCTION iblt_internal.iblt_strata_agg_inverse(internal, anyelement, bigint, iblt_strata)
RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 4;
CREATE FUNCTION iblt_internal.iblt_strata_agg_final(internal, anyelement, bigint)
RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1500;
CREATE FUNCTION iblt_internal.iblt_strata_agg_final(internal, anyelement, bigint, iblt_strata)
RETURNS iblt_strata
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1500;
CREATE FUNCTION iblt_internal.iblt_strata_agg_serial(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 3000;
CREATE FUNCTION iblt_internal.iblt_strata_agg_deserial(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 4500;
CREATE FUNCTION iblt_internal.iblt_strata_agg_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2100;

CREATE AGGREGATE iblt_strata_agg(key anyelement, checksum bigint) (
	SFUNC = iblt_internal.iblt_strata_agg_trans, STYPE = internal, SSPACE = 73728,
	FINALFUNC = iblt_internal.iblt_strata_agg_final, FINALFUNC_EXTRA,
	COMBINEFUNC = iblt_internal.iblt_strata_agg_combine,
	SERIALFUNC = iblt_internal.iblt_strata_agg_serial,
	DESERIALFUNC = iblt_internal.iblt_strata_agg_deserial,
	MSFUNC = iblt_internal.iblt_strata_agg_trans, MINVFUNC = iblt_internal.iblt_strata_agg_inverse,
	MSTYPE = internal, MSSPACE = 73728,
	MFINALFUNC = iblt_internal.iblt_strata_agg_final, MFINALFUNC_EXTRA,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE iblt_strata_agg(anyelement, bigint) IS
'estimator of rows, each given by its key and a checksum of its contents';

CREATE AGGREGATE iblt_strata_agg(key anyelement, checksum bigint, template iblt_strata) (
	SFUNC = iblt_internal.iblt_strata_agg_trans, STYPE = internal, SSPACE = 73728,
	FINALFUNC = iblt_internal.iblt_strata_agg_final, FINALFUNC_EXTRA,
	COMBINEFUNC = iblt_internal.iblt_strata_agg_combine,
	SERIALFUNC = iblt_internal.iblt_strata_agg_serial,
	DESERIALFUNC = iblt_internal.iblt_strata_agg_deserial,
	MSFUNC = iblt_internal.iblt_strata_agg_trans, MINVFUNC = iblt_internal.iblt_strata_agg_inverse,
	MSTYPE = internal, MSSPACE = 73728,
	MFINALFUNC = iblt_internal.iblt_strata_agg_final, MFINALFUNC_EXTRA,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE iblt_strata_agg(anyelement, bigint, iblt_strata) IS
'estimator of rows with the parameters of a template';

CREATE FUNCTION iblt_strata_estimate(a iblt_strata, b iblt_strata) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_strata_estimate(iblt_strata, iblt_strata) IS
'how many keys differ between the two, exact while they are few';

CREATE FUNCTION iblt_strata_estimate(d iblt_strata) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION iblt_strata_estimate(iblt_strata) IS
'how many keys are in a difference, exact while they are few';
