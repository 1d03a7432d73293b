-- What drivers call -----------------------------------------------------------------
--
-- The schema that users call may belong to anybody.  Its owner can give a function there the
-- name of one of iblt's and arguments that fit a call better, or rename the schema and make
-- another one of that name.  So iblt itself names nothing in it.  What follows @own@, here and
-- in iblt.sql, is made once more in iblt_internal.  test/lib/check-catalog.sh compares each with
-- its sister.

-- iblt_live of users.
CREATE FUNCTION iblt_live(relation regclass, capacity integer DEFAULT NULL)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED;

CREATE FUNCTION @extschema@.iblt_session_keep(name text, s @extschema@.iblt)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.iblt_session_keep IS
'keeps a sketch in this session under a name, across transactions, and returns it';

@own@
CREATE FUNCTION @extschema@.iblt_session_get(name text) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.iblt_session_get(text) IS
'the sketch that this session keeps under a name';

@own@
CREATE FUNCTION @extschema@.iblt_session_drop(name text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.iblt_session_drop IS
'forgets a sketch that this session keeps, and returns whether there was one';
