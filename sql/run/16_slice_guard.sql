-- The guard ------------------------------------------------------------------------------
--
-- Slices by key trust an index, which a scan does not.

CREATE FUNCTION iblt_internal.slice_guard(conn text, plan iblt_internal.plan, check_index boolean)
RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	k iblt_internal.slice_key := iblt_internal.slice_key(plan);
BEGIN
	IF check_index THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'not there yet';
	END IF;
	RETURN format('read by index %s here and %s there, which were not checked', (k.here).index,
		(k.there).index);
END
$$;
COMMENT ON FUNCTION iblt_internal.slice_guard(text, iblt_internal.plan, boolean) IS
'what a verdict by slices rests on; an error if an index is damaged';
