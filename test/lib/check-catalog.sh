#!/usr/bin/env bash
# check-catalog.sh
#	The rules that the SQL objects keep, as TAP, asked of the server that PGHOST
#	and PGPORT name:
#	- every object of the extension has a comment;
#	- every function says whether it is parallel safe, and is not left volatile
#	  by forgetting (PARALLEL UNSAFE together with VOLATILE is the default);
#	- the script holds no function that takes "internal" without being an
#	  aggregate's.

set -euo pipefail

number=0
failed=0

# no_rows TEXT QUERY: passed if the query finds nothing.
no_rows() {
	local rows rc=0
	number=$((number + 1))
	rows=$(psql -X -q -At -v ON_ERROR_STOP=1 -d check_catalog -c "$2" 2>&1) || rc=$?
	if [ $rc -eq 0 ] && [ -z "$rows" ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		printf '%s\n' "$rows" | sed 's/^/# /'
		failed=1
	fi
}

members="
	FROM pg_depend d
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'iblt')"

psql -X -q -v ON_ERROR_STOP=1 -d postgres -c 'CREATE DATABASE check_catalog'
psql -X -q -v ON_ERROR_STOP=1 -d check_catalog -c 'CREATE EXTENSION iblt'

no_rows "the extension has members" "SELECT 'none' WHERE NOT EXISTS (SELECT $members)"

no_rows "every SQL object has a comment" "
	SELECT pg_describe_object(d.classid, d.objid, d.objsubid) $members
	AND obj_description(d.objid, (SELECT relname FROM pg_class WHERE oid = d.classid)) IS NULL
	AND NOT EXISTS (SELECT FROM pg_type t WHERE d.classid = 'pg_type'::regclass AND t.oid = d.objid
		AND (t.typcategory = 'A' OR t.typrelid <> 0))
	ORDER BY 1"

no_rows "no function is volatile and parallel unsafe by default" "
	SELECT d.objid::regprocedure $members
	AND d.classid = 'pg_proc'::regclass AND EXISTS (SELECT FROM pg_proc p
		WHERE p.oid = d.objid AND p.provolatile = 'v' AND p.proparallel = 'u'
		AND p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'c'))"

no_rows "functions of aggregates take internal, no others do" "
	SELECT p.oid::regprocedure FROM pg_proc p
	WHERE 'internal'::regtype = ANY (p.proargtypes) AND p.oid IN (SELECT d.objid $members
		AND d.classid = 'pg_proc'::regclass)
	AND NOT EXISTS (SELECT FROM pg_aggregate a WHERE p.oid IN (a.aggtransfn, a.aggfinalfn,
		a.aggcombinefn, a.aggserialfn, a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn))
	AND NOT EXISTS (SELECT FROM pg_type t WHERE p.oid IN (t.typreceive))
	AND p.prosupport = 0 AND p.prorettype <> 'internal'::regtype"

no_rows "the extension can be dropped and created again" "
	DROP EXTENSION iblt; CREATE EXTENSION iblt"

echo "1..$number"
exit $failed
