-- What is left of a damaged sketch ------------------------------------------------
-- Goodrich & Mitzenmacher 2011, on lost subblocks.

CREATE FUNCTION @extschema@.iblt_salvage(
	bytes bytea,
	without integer[] DEFAULT NULL,
	other @extschema@.iblt DEFAULT NULL,
	OUT s @extschema@.iblt,
	OUT complete boolean,
	OUT recovered bigint,
	OUT lost integer[])
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10000;
COMMENT ON FUNCTION @extschema@.iblt_salvage IS
'restores a damaged sketch from the subtables that agree; s is NULL unless its checksum proves '
'every byte';

CREATE FUNCTION @extschema@.iblt_salvage_keys(
	bytes bytea, without integer[] DEFAULT NULL, other @extschema@.iblt DEFAULT NULL)
RETURNS TABLE (key text, side text, count bigint, value text)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10000 ROWS 100;
COMMENT ON FUNCTION @extschema@.iblt_salvage_keys IS
'the keys of a damaged sketch, or those by which it differs from "other"; a warning if there '
'may be more';
