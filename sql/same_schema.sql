-- The schema of iblt -----------------------------------------------------------------------
--
-- The script names the type iblt with the schema of its own extension.  In another schema than
-- that of iblt, a type of this name is somebody else's, and C functions would take its values for
-- sketches.

DO $do$
DECLARE
	here name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
		WHERE e.extname = 'iblt');
	other name := (SELECT min(e.extname) FROM pg_extension e
		JOIN pg_namespace n ON n.oid = e.extnamespace
		WHERE e.extname IN ('iblt_live', 'iblt_audit') AND n.nspname <> here);
BEGIN
	IF other IS NOT NULL THEN
		RAISE invalid_schema_name USING
			MESSAGE = format('extension %s must be in the schema of iblt', other),
			HINT = format('CREATE EXTENSION %I SCHEMA %I;', other, here);
	END IF;
END
$do$;
