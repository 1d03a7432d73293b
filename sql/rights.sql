-- Who may call what ----------------------------------------------------------------------
--
-- Public functions run as the caller, so everybody may call what they call.  Nobody calls
-- the functions of types and wrappers, those that take "internal", and those that the planner asks:
-- the server does, and it looks at the privileges of an aggregate's owner only.  Citus looks at
-- the caller's, so the parts of iblt_agg_bigint are left to everybody.  The script's own schema
-- for these functions is the first one in its path.
-- doc/internals/functions.md lists all functions in C.

DO $do$
DECLARE
	part regprocedure;
BEGIN
	FOR part IN SELECT p.oid FROM pg_proc p
		WHERE p.pronamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema())
		AND ('internal'::regtype = ANY (p.proargtypes)
			OR p.oid IN (SELECT unnest(ARRAY[t.typinput, t.typoutput, t.typsend]) FROM pg_type t)
			OR p.oid IN (SELECT w.fdwvalidator FROM pg_foreign_data_wrapper w))
	LOOP
		EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', part);
	END LOOP;
END
$do$;
