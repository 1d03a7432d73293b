-- The script of the extension kbf ------------------------------------------------------
-- The key-value Bloom filter of Xiong, Yao, Cao & He 2014, "kBF: a Bloom filter for
-- key-value storage with an application on approximate state machines".

\echo Use "CREATE EXTENSION kbf" to load this file. \quit

-- sql/iblt.sql says why the script looks nothing up in the schema that users call.
SET LOCAL search_path = kbf_internal, pg_temp;

CREATE SCHEMA kbf_internal;
COMMENT ON SCHEMA kbf_internal IS
'parts of the extension kbf that are not documented: they can change in every release';
GRANT USAGE ON SCHEMA kbf_internal TO PUBLIC;

@value_type kbf; kbf_internal; kbf; a filter@
COMMENT ON TYPE @extschema@.kbf IS
'key-value Bloom filter (Xiong, Yao, Cao & He 2014): an approximate map from keys to few '
'different values, which can be added and subtracted';

-- Making and describing filters ---------------------------------------------------------

CREATE FUNCTION @extschema@.kbf_new(capacity integer, distinct_values integer DEFAULT 255,
	failure double precision DEFAULT 0.001, superposed integer DEFAULT 3, seed bigint DEFAULT 0)
RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_new(integer, integer, double precision, integer, bigint) IS
'an empty filter to be used as a template, with values 1 to "distinct_values"';

CREATE FUNCTION @extschema@.kbf_new(capacity integer, labels text[],
	failure double precision DEFAULT 0.001,
	superposed integer DEFAULT 3, seed bigint DEFAULT 0) RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME', 'kbf_new_labels' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_new(integer, text[], double precision, integer, bigint) IS
'an empty filter to be used as a template, whose values are labels';

CREATE FUNCTION @extschema@.kbf_info(s @extschema@.kbf, OUT version integer, OUT cells integer,
	OUT hashes integer,
	OUT degree integer, OUT superposed integer, OUT distinct_values integer, OUT labels text[],
	OUT key_type text, OUT seed bigint, OUT capacity bigint, OUT keys bigint,
	OUT load double precision, OUT full_cells integer, OUT bytes bigint,
	OUT bits_per_key double precision, OUT unknown double precision,
	OUT false_positive double precision, OUT absent_unknown double precision)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10000;
COMMENT ON FUNCTION @extschema@.kbf_info IS
'parameters of a filter, its number of keys, its size in bytes, and the rates to expect now';

-- Linear algebra on filters ---------------------------------------------------------------

COMMENT ON OPERATOR @extschema@.+ (@extschema@.kbf, @extschema@.kbf) IS
'the pairs of both filters, which must have the same parameters';
COMMENT ON OPERATOR @extschema@.- (@extschema@.kbf, @extschema@.kbf) IS
'the left filter without the pairs of the right one; error IB007 if its cells show that it does '
'not have them';

COMMENT ON OPERATOR @extschema@.= (@extschema@.kbf, @extschema@.kbf) IS
'do both filters have the same cells and number of keys?';
COMMENT ON OPERATOR @extschema@.<> (@extschema@.kbf, @extschema@.kbf) IS
'do the filters differ in a cell or in the number of keys?';

-- Smaller, same pairs ----------------------------------------------------------------------

CREATE FUNCTION @extschema@.kbf_fold(s @extschema@.kbf, capacity integer,
	failure double precision DEFAULT 0.001)
RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_fold(@extschema@.kbf, integer, double precision) IS
'the filter of the same pairs with fewer cells, as few as halving leaves room for "capacity" keys, '
'which must not be fewer than it has';

CREATE FUNCTION @extschema@.kbf_fold(s @extschema@.kbf, template @extschema@.kbf)
RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME', 'kbf_fold_like' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_fold(@extschema@.kbf, @extschema@.kbf) IS
'the filter of the same pairs with as many cells as a template';

-- Growing --------------------------------------------------------------------------------

CREATE FUNCTION @extschema@.kbf_add_labels(s @extschema@.kbf, labels text[]) RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_add_labels IS
'the filter with those of the labels that it does not have yet';

CREATE FUNCTION @extschema@.kbf_append(s @extschema@.kbf[], more @extschema@.kbf,
	failure double precision DEFAULT 0.001)
RETURNS @extschema@.kbf[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_append IS
'filters with the pairs of one more, which is added to the last one if that has room, or '
'appended';

-- One pair at a time --------------------------------------------------------------------
-- A value is an integer of any width, or a label as text or as a value of an enum type.

CREATE FUNCTION @extschema@.kbf_insert(s @extschema@.kbf, key anyelement, value anycompatible)
RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_insert IS
'the filter with one pair more; a key that is inserted twice is unknown';

CREATE FUNCTION @extschema@.kbf_update(s @extschema@.kbf, key anyelement, new anycompatible)
RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_update(@extschema@.kbf, anyelement, anycompatible) IS
'the filter with another value for a key, whose old value is looked up';

CREATE FUNCTION @extschema@.kbf_update(s @extschema@.kbf, key anyelement, old anycompatible,
	new anycompatible)
RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_update(@extschema@.kbf, anyelement, anycompatible,
	anycompatible) IS
'the filter with another value for a key, which must have the value "old"';

CREATE FUNCTION @extschema@.kbf_delete(s @extschema@.kbf, key anyelement) RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_delete(@extschema@.kbf, anyelement) IS
'the filter without a key, whose value is looked up';

CREATE FUNCTION @extschema@.kbf_delete(s @extschema@.kbf, key anyelement, value anycompatible)
RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.kbf_delete(@extschema@.kbf, anyelement, anycompatible) IS
'the filter without a pair, which must be in it';

-- Looking keys up ---------------------------------------------------------------------------

CREATE FUNCTION @extschema@.kbf_get(s @extschema@.kbf, key anyelement) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION @extschema@.kbf_get(@extschema@.kbf, anyelement) IS
'the value of a key, or NULL if it is absent; error IB006 if the filter does not determine it';

CREATE FUNCTION @extschema@.kbf_get(s @extschema@.kbf, key anyelement, if_unknown integer)
RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION @extschema@.kbf_get(@extschema@.kbf, anyelement, integer) IS
'the value of a key, NULL if it is absent, or "if_unknown" if the filter does not determine it';

CREATE FUNCTION @extschema@.kbf_get_label(s @extschema@.kbf, key anyelement) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION @extschema@.kbf_get_label(@extschema@.kbf, anyelement) IS
'the label of the value of a key, or NULL if it is absent; error IB006 if the filter does not '
'determine it';

CREATE FUNCTION @extschema@.kbf_get_label(s @extschema@.kbf, key anyelement, if_unknown text)
RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION @extschema@.kbf_get_label(@extschema@.kbf, anyelement, text) IS
'the label of the value of a key, NULL if it is absent, or "if_unknown" if the filter does not '
'determine it';

CREATE FUNCTION @extschema@.kbf_lookup(s @extschema@.kbf, key anyelement, OUT status text,
	OUT value integer,
	OUT label text)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION @extschema@.kbf_lookup(@extschema@.kbf, anyelement) IS
'is a key in the filter: present with its value and label, absent or unknown';

CREATE FUNCTION @extschema@.kbf_lookup(s @extschema@.kbf[], key anyelement, OUT status text,
	OUT value integer,
	OUT label text, OUT "position" integer)
	AS 'MODULE_PATHNAME', 'kbf_lookup_array' LANGUAGE C STABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION @extschema@.kbf_lookup(@extschema@.kbf[], anyelement) IS
'the same over several filters, with the position of the only one that has the key, counted '
'from 1';

-- Aggregates ---------------------------------------------------------------------------------
-- Without inverse transition functions, because a cell that became full forgets its
-- pairs.  The costs are those of a filter of some 100 keys, as for iblt_agg.

CREATE FUNCTION kbf_internal.kbf_agg_trans(internal, anyelement, anycompatible, integer)
RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 4;
CREATE FUNCTION kbf_internal.kbf_agg_trans(internal, anyelement, anycompatible, @extschema@.kbf)
RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 4;
CREATE FUNCTION kbf_internal.kbf_agg_final(internal, anyelement, anycompatible, integer)
RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 300;
CREATE FUNCTION kbf_internal.kbf_agg_final(internal, anyelement, anycompatible, @extschema@.kbf)
RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 300;
CREATE FUNCTION kbf_internal.kbf_agg_serial(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 500;
CREATE FUNCTION kbf_internal.kbf_agg_deserial(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 700;
CREATE FUNCTION kbf_internal.kbf_agg_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 300;

CREATE AGGREGATE @extschema@.kbf_agg(key anyelement, value anycompatible, capacity integer) (
	SFUNC = kbf_internal.kbf_agg_trans, STYPE = internal, SSPACE = 4096,
	FINALFUNC = kbf_internal.kbf_agg_final, FINALFUNC_EXTRA,
	COMBINEFUNC = kbf_internal.kbf_agg_combine,
	SERIALFUNC = kbf_internal.kbf_agg_serial, DESERIALFUNC = kbf_internal.kbf_agg_deserial,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.kbf_agg(anyelement, anycompatible, integer) IS
'filter of pairs of a key and a value, with room for "capacity" keys, as of kbf_new(capacity); the '
'values are integers from 1 to 255, or those of an enum type; no rows give an empty filter';

CREATE AGGREGATE @extschema@.kbf_agg(key anyelement, value anycompatible,
	template @extschema@.kbf) (
	SFUNC = kbf_internal.kbf_agg_trans, STYPE = internal, SSPACE = 4096,
	FINALFUNC = kbf_internal.kbf_agg_final, FINALFUNC_EXTRA,
	COMBINEFUNC = kbf_internal.kbf_agg_combine,
	SERIALFUNC = kbf_internal.kbf_agg_serial, DESERIALFUNC = kbf_internal.kbf_agg_deserial,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.kbf_agg(anyelement, anycompatible, @extschema@.kbf) IS
'filter of pairs of a key and a value with the parameters of a template; the values are integers '
'from 1, or labels as text or as values of an enum type, whose labels may go on after those of the '
'template; no rows give an empty filter';

CREATE FUNCTION kbf_internal.kbf_sum_trans(internal, @extschema@.kbf) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 500;
CREATE FUNCTION kbf_internal.kbf_sum_final(internal) RETURNS @extschema@.kbf
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 300;

CREATE AGGREGATE @extschema@.kbf_sum(@extschema@.kbf) (
	SFUNC = kbf_internal.kbf_sum_trans, STYPE = internal, SSPACE = 4096,
	FINALFUNC = kbf_internal.kbf_sum_final,
	COMBINEFUNC = kbf_internal.kbf_agg_combine,
	SERIALFUNC = kbf_internal.kbf_agg_serial, DESERIALFUNC = kbf_internal.kbf_agg_deserial,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.kbf_sum(@extschema@.kbf) IS
'sum of filters of the same parameters: of shards, partitions or changes';
