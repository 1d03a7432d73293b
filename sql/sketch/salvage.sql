-- What is left of a damaged sketch ------------------------------------------------
-- Goodrich & Mitzenmacher 2011, on lost subblocks.

CREATE FUNCTION @extschema@.iblt_salvage(
	bytes bytea,
	without integer[] DEFAULT NULL,
	other iblt DEFAULT NULL,
	OUT s iblt,
	OUT complete boolean,
	OUT recovered bigint,
	OUT lost integer[])
RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10000;
COMMENT ON FUNCTION iblt_salvage(bytea, integer[], iblt) IS
'a damaged sketch, put together again from the subtables that agree, which are found or are those '
'not named in "without"; "other" is an undamaged sketch of nearly the same rows; complete if its '
'own checksum proves that every byte is what it was, otherwise s is NULL';

CREATE FUNCTION @extschema@.iblt_salvage_keys(
	bytes bytea, without integer[] DEFAULT NULL, other iblt DEFAULT NULL)
RETURNS TABLE (key text, side text, count bigint, value text)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10000 ROWS 100;
COMMENT ON FUNCTION iblt_salvage_keys(bytea, integer[], iblt) IS
'the keys of a damaged sketch, or those by which it differs from "other", as iblt_decode lists '
'them; with a warning if nothing proves that these are all';
