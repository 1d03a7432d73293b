#!/usr/bin/env bash
# check-catalog.sh
#	The rules that the SQL objects keep, as TAP, on the server that PGHOST and
#	PGPORT name:
#	- every object that users see has a comment; what is in the internal schemas has one in the source;
#	- a function is parallel unsafe if it writes, calls such a function, or begins a
#	  subtransaction, and no C function is by default;
#	- a function that takes "internal" belongs to an aggregate;
#	- doc/internals/functions.md lists the functions in C, and says who may call them;
#	- everybody may execute a function of iblt_internal or kbf_internal only where what users call leads to it;
#	- no function has other privileges than its caller;
#	- what users, views and committing procedures call pins search_path, and such a procedure names
#	  schemas; a function that iblt has twice is the same in both schemas;
#	- plpgsql_check finds nothing in the functions written in PL/pgSQL, if the
#	  server has it.

set -euo pipefail
# shellcheck source=test/lib/tap.sh
. "$(dirname "$0")/tap.sh"

# no_rows TEXT QUERY: passed if the query finds nothing.
no_rows() {
	local rows rc=0
	rows=$(psql -X -q -At -v ON_ERROR_STOP=1 -d check_catalog -c "$2" 2>&1) || rc=$?
	verdict "$1" $((rc + ${#rows})) "$rows"
}

controls=("$(dirname "$0")"/../../*.control)
extensions=("${controls[@]##*/}")
extensions=("${extensions[@]%.control}")
names=$(printf ", '%s'" "${extensions[@]}")
names=${names#, }
members="
	FROM pg_depend d
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid IN (SELECT oid FROM pg_extension WHERE extname IN ($names))"
# the schemas of what users do not call
internal="(SELECT oid FROM pg_namespace WHERE nspname ~ '^[a-z]+_internal\$')"
create=$(printf 'CREATE EXTENSION IF NOT EXISTS %s CASCADE; ' "${extensions[@]}")

psql -X -q -v ON_ERROR_STOP=1 -d postgres -c 'CREATE DATABASE check_catalog'
# functions are checked under the path that those who call them pin
psql -X -q -v ON_ERROR_STOP=1 -d postgres -c 'ALTER DATABASE check_catalog SET search_path = public, iblt_internal'
psql -X -q -v ON_ERROR_STOP=1 -d check_catalog -c "$create"

no_rows "each extension has members" "SELECT name FROM unnest(ARRAY[$names]) AS name
	WHERE NOT EXISTS (SELECT $members AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = name))"

no_rows "every SQL object that users see has a comment" "
	SELECT pg_describe_object(d.classid, d.objid, d.objsubid) $members
	AND obj_description(d.objid, (SELECT relname FROM pg_class WHERE oid = d.classid)) IS NULL
	AND NOT EXISTS (SELECT FROM pg_type t WHERE d.classid = 'pg_type'::regclass AND t.oid = d.objid
		AND (t.typcategory = 'A' OR t.typrelid <> 0))
	AND coalesce((pg_identify_object(d.classid, d.objid, 0)).schema, '') !~ '^[a-z]+_internal\$'
	ORDER BY 1"

# These write, set, lock for the transaction, or take the latest snapshot.  A parallel plan can
# do none of it, not even in its leader.
unsafe="ask_values|iblt_live_merge|iblt_live_tables|iblt_live_note_scan|iblt_peer_settings|iblt_repair_execute|iblt_run_\w+|iblt_track_\w+|read_(heap|planned|slice)"
no_rows "C functions are parallel unsafe if they write, and no others are" "
	SELECT p.oid::regprocedure, p.proparallel FROM pg_proc p
	WHERE p.oid IN (SELECT d.objid $members AND d.classid = 'pg_proc'::regclass)
	AND p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'c')
	AND (p.proparallel = 'u') <> (p.proname ~ '^($unsafe)\$')"

# What a function runs as a statement is not in quotes.
calls="
	WITH called AS (
		SELECT proname, max(CASE proparallel WHEN 's' THEN 1 WHEN 'r' THEN 2 ELSE 3 END) AS unsafe
		FROM pg_proc WHERE prokind = 'f' GROUP BY proname
	), caller AS (
		SELECT p.oid, p.proparallel, CASE p.proparallel WHEN 's' THEN 1 WHEN 'r' THEN 2 ELSE 3 END AS unsafe,
			regexp_replace(concat(p.prosrc, pg_get_function_sqlbody(p.oid)), E'--[^\n]*|''[^'']*''|\\\\\$q\\\\\$.*?\\\\\$q\\\\\$', '', 'g') AS source
		FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname IN ('sql', 'plpgsql')
		WHERE p.oid IN (SELECT d.objid $members AND d.classid = 'pg_proc'::regclass)
	)"
no_rows "no function is more parallel safe than one that it calls" "$calls
	SELECT a.oid::regprocedure, a.proparallel, string_agg(b.proname, ' ') FROM caller a
	JOIN called b ON b.unsafe > a.unsafe AND a.source ~ ('\m' || b.proname || '\s*\(')
	GROUP BY 1, 2 ORDER BY 1"
no_rows "a function that handles errors is parallel unsafe, because of the subtransaction" "$calls
	SELECT oid::regprocedure FROM caller WHERE proparallel <> 'u' AND source ~ 'EXCEPTION\s+WHEN'"

# These are stable because they call output functions.  Ours give them text, names and
# numbers, whose output depends on nothing.
texts="array_to_string|concat|concat_ws|format|json_build_array|json_build_object|jsonb_agg|jsonb_build_array|jsonb_build_object"
no_rows "no immutable function calls one that is not, except to make text" "
	WITH called AS (
		SELECT proname FROM pg_proc WHERE prokind IN ('f', 'a') GROUP BY proname HAVING bool_and(provolatile <> 'i')
	), caller AS (
		SELECT p.oid, regexp_replace(concat(p.prosrc, pg_get_function_sqlbody(p.oid)), E'--[^\n]*|''[^'']*''|\\\\\$q\\\\\$.*?\\\\\$q\\\\\$', '', 'g') AS source
		FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname IN ('sql', 'plpgsql')
		WHERE p.provolatile = 'i' AND p.oid IN (SELECT d.objid $members AND d.classid = 'pg_proc'::regclass)
	)
	SELECT a.oid::regprocedure, string_agg(DISTINCT b.proname, ' ') FROM caller a,
		regexp_matches(a.source, '(\w+)\s*\\(', 'g') AS call
	JOIN called b ON b.proname = call[1] AND b.proname !~ '^($texts)\$'
	GROUP BY 1 ORDER BY 1"
no_rows "no immutable function reads a catalog" "
	SELECT p.oid::regprocedure FROM pg_proc p
	WHERE p.provolatile = 'i' AND p.oid IN (SELECT d.objid $members AND d.classid = 'pg_proc'::regclass)
	AND regexp_replace(concat(p.prosrc, pg_get_function_sqlbody(p.oid)), E'--[^\n]*|''[^'']*''|\\\\\$q\\\\\$.*?\\\\\$q\\\\\$', '', 'g') ~ '(FROM|JOIN)\s+pg_\w+(?!\w*\s*\\()'"

no_rows "functions of aggregates take internal, no others do" "
	SELECT p.oid::regprocedure FROM pg_proc p
	WHERE 'internal'::regtype = ANY (p.proargtypes) AND p.oid IN (SELECT d.objid $members
		AND d.classid = 'pg_proc'::regclass)
	AND NOT EXISTS (SELECT FROM pg_aggregate a WHERE p.oid IN (a.aggtransfn, a.aggfinalfn,
		a.aggcombinefn, a.aggserialfn, a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn))
	AND NOT EXISTS (SELECT FROM pg_type t WHERE p.oid IN (t.typreceive))
	AND p.prosupport = 0 AND p.prorettype <> 'internal'::regtype"

# The names in doc/internals/functions.md as rows (who, name): those at the beginning of lines and of
# rows of tables.
listed=$(awk '
	/^## What only the server calls/ { who = "server" }
	/^## What (depends|reads)/ { who = "everybody" }
	/^## What runs/ { who = "" }
	who != "" && /^(\| )?`/ {
		if (/^\|/) { split($0, cells, "|"); $0 = cells[2] }
		while (match($0, /`[^`]*`/)) {
			printf "%s(\047%s\047, \047%s\047)", sep, who, substr($0, RSTART + 1, RLENGTH - 2)
			$0 = substr($0, RSTART + RLENGTH)
			sep = ", "
		}
	}' "$(dirname "$0")/../../doc/internals/functions.md")

no_rows "doc/internals/functions.md says who may call which function in C" "
	WITH listed (who, name) AS (VALUES $listed), here AS (
		SELECT DISTINCT p.proname::text AS name, CASE WHEN EXISTS (
			SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) WHERE grantee = 0)
			THEN 'everybody' ELSE 'server' END AS who
		FROM pg_proc p WHERE p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'c')
		AND p.oid IN (SELECT d.objid $members AND d.classid = 'pg_proc'::regclass))
	SELECT concat(name, ' is for ', coalesce(here.who, 'nobody'), ', and listed for ', coalesce(listed.who, 'nobody'))
	FROM here FULL JOIN listed USING (name) WHERE here.who IS DISTINCT FROM listed.who
	UNION ALL SELECT name || ' is listed twice' FROM listed GROUP BY name HAVING count(*) > 1"

# Public functions run as the caller, who so needs EXECUTE on all that they call.  A name in the
# source of one, or in a statement that it makes, counts as a call.  So does an operator or a cast,
# and in place of iblt_checksum the planner calls one that its support function names.  Citus looks
# at the privileges on the parts of iblt_agg_bigint.
no_rows "everybody may execute what users' calls lead to, and nothing else" "
	WITH RECURSIVE member AS (SELECT d.classid, d.objid $members
	), function AS (SELECT p.* FROM pg_proc p JOIN member ON classid = 'pg_proc'::regclass AND objid = p.oid
	), source AS (
		SELECT p.oid, concat(p.prosrc, pg_get_function_sqlbody(p.oid)) AS body FROM function p JOIN pg_language l ON l.oid = p.prolang AND l.lanname IN ('sql', 'plpgsql')
		UNION ALL SELECT c.oid, pg_get_viewdef(c.oid) FROM pg_class c JOIN member ON classid = 'pg_class'::regclass AND objid = c.oid
		WHERE c.relkind = 'v'
	), word AS (SELECT DISTINCT oid, w[1] AS name FROM source, regexp_matches(body, '[a-z_0-9]+', 'g') AS w
	), called (oid) AS (
		SELECT oid FROM function WHERE pronamespace NOT IN $internal
		UNION SELECT oid FROM source JOIN member ON classid = 'pg_class'::regclass AND objid = oid
		UNION SELECT o.oprcode::oid FROM pg_operator o JOIN member ON classid = 'pg_operator'::regclass AND objid = o.oid
		UNION SELECT c.castfunc FROM pg_cast c JOIN member ON classid = 'pg_cast'::regclass AND objid = c.oid
		UNION SELECT oid FROM function WHERE proname ~ '^iblt_(agg_bigint_(trans|combine|final)|checksum(_seeded)?_immutable|peer_(settings|show))\$'
		UNION SELECT p.oid FROM called r JOIN word w ON w.oid = r.oid JOIN function p ON p.proname = w.name
	), right_of AS (
		SELECT p.oid, EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) WHERE grantee = 0) AS everybody,
			p.oid IN (SELECT oid FROM called) AND 'internal'::regtype <> ALL (p.proargtypes)
				AND NOT EXISTS (SELECT FROM pg_type t WHERE p.oid IN (t.typinput, t.typoutput, t.typreceive, t.typsend)) AS needed
		FROM function p WHERE pronamespace IN $internal)
	SELECT oid::regprocedure, everybody, needed FROM right_of WHERE everybody <> needed ORDER BY 1"
no_rows "nobody else has a right to the stores, or may create something beside them" "
	SELECT c.oid::regclass, a.privilege_type FROM pg_class c, aclexplode(c.relacl) AS a
	WHERE c.relnamespace IN $internal AND a.grantee <> c.relowner AND c.relkind <> 'v'
	UNION ALL SELECT n.oid, a.privilege_type FROM pg_namespace n, aclexplode(n.nspacl) AS a
	WHERE n.oid IN $internal AND a.grantee <> n.nspowner AND (a.grantee, a.privilege_type) <> (0, 'USAGE')"

no_rows "no function has other privileges than its caller" "
	SELECT d.objid::regprocedure $members AND d.classid = 'pg_proc'::regclass
	AND EXISTS (SELECT FROM pg_proc p WHERE p.oid = d.objid AND p.prosecdef)"

no_rows "functions that users call pin search_path, except procedures that commit" "
	SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname IN ('sql', 'plpgsql')
	WHERE p.oid IN (SELECT d.objid $members AND d.classid = 'pg_proc'::regclass)
	AND p.pronamespace NOT IN $internal
	AND NOT coalesce('search_path=iblt_internal, pg_catalog, pg_temp' = ANY (p.proconfig), false)
	AND NOT (p.prokind = 'p' AND p.proconfig IS NULL AND p.prosrc ~ '\mCOMMIT;')"

committing="
	WITH committing AS (
		SELECT p.oid, regexp_replace(concat(p.prosrc, pg_get_function_sqlbody(p.oid)), E'--[^\n]*|''[^'']*''', '', 'g') AS source FROM pg_proc p
		WHERE p.prokind = 'p' AND p.proconfig IS NULL AND p.oid IN (SELECT d.objid $members AND d.classid = 'pg_proc'::regclass)
	)"
no_rows "procedures that commit use no operator, and name the schema of each function and type" "$committing
	SELECT oid::regprocedure, found FROM committing, LATERAL (
		SELECT m[1] FROM regexp_matches(source, '(?<![.\w])((?!ROW\M)\w+\s*\()', 'g') AS m
		UNION ALL SELECT m[1] FROM regexp_matches(replace(replace(source, ':=', ''), '::', ''), '([-+*/<>=~!@#%^&|?]+)', 'g') AS m
		UNION ALL SELECT m[1] FROM regexp_matches(source, '::\s*(?!iblt_internal\.|pg_catalog\.)(\w+)', 'g') AS m) AS x(found)"
# A body that was bound when the extension was created names the same everywhere, unless what it
# calls does not.
no_rows "what such procedures and views call pins search_path, is bound, or is in C" "$committing
	SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname IN ('sql', 'plpgsql')
	WHERE p.pronamespace = 'iblt_internal'::regnamespace
	AND NOT coalesce('search_path=iblt_internal, pg_catalog, pg_temp' = ANY (p.proconfig), false)
	AND (p.prosqlbody IS NULL OR EXISTS (SELECT FROM pg_depend d JOIN pg_proc q ON q.oid = d.refobjid
		JOIN pg_language m ON m.oid = q.prolang AND m.lanname IN ('sql', 'plpgsql')
		WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.refclassid = 'pg_proc'::regclass))
	AND (EXISTS (SELECT FROM committing c WHERE c.source ~ ('iblt_internal\.' || p.proname || '\s*\('))
		OR EXISTS (SELECT FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
			WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid
			AND r.ev_class IN (SELECT d.objid $members AND d.classid = 'pg_class'::regclass)))"
no_rows "a function that iblt calls and users call is the same in both schemas" "
	WITH both_of AS (
		SELECT p.oid, p.pronamespace IN $internal AS internal, p.proname, p.proargtypes, p.probin,
			jsonb_build_array(to_jsonb(p) - '{oid,pronamespace,proacl}'::text[], to_jsonb(a) - 'aggfnoid') AS said
		FROM pg_proc p LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid
		WHERE p.oid IN (SELECT d.objid $members AND d.classid = 'pg_proc'::regclass)
	)
	SELECT i.oid::regprocedure, u.oid::regprocedure, i.said, u.said FROM both_of i
	LEFT JOIN both_of u ON NOT u.internal AND u.proname = i.proname AND u.proargtypes = i.proargtypes
	WHERE i.internal AND i.proname IN (SELECT proname FROM both_of WHERE NOT internal)
	AND (i.said - 0) || regexp_replace((i.said -> 0)::text, ' :location -?[0-9]+', '', 'g')::jsonb
		IS DISTINCT FROM (u.said - 0) || regexp_replace((u.said -> 0)::text, ' :location -?[0-9]+', '', 'g')::jsonb"

# The query for what plpgsql_check finds in the functions $1, without false alarms.
# NULL in the list means any function.
plpgsql_findings() {
	cat <<-SQL
		WITH false_alarm (message, functions, reason) AS (VALUES
			('target type is different type than source type|cast "text" value to %', NULL,
				'PL/pgSQL reads text, such as a field of jsonb, with the input function of the target type'),
			('composite OUT variable % is not single argument|%', NULL, 'it is not meant to be'),
			('cannot determinate a result of dynamic SQL|%', NULL, 'so it says itself'),
			('record "answer" is not assigned yet|%', NULL, 'its columns are those of dynamic SQL, or of find_keys'),
			('never read variable "answer"|%', NULL, 'it is read, see above'),
			('record "taken" is not assigned yet|%', '{ask_values}', 'its columns are those of dynamic SQL'),
			('never read variable "taken"|%', '{ask_values}', 'it is read, see above'),
			('never read variable "traffic"|%', '{connect}', 'an assignment calls a function for its effect'),
			('relation "pg_catalog.pg_dist_partition" does not exist|%', '{describe}', 'it is there with Citus only'),
			('control reached end of function without RETURN|%', '{compare,wait_position}',
				'the function ends with RETURN or an error before'),
			('unreachable code|%', '{audit_answers,audit_batch,iblt_audit_baseline}',
				'what follows a block that always ends with an error, which it catches, is reached'),
			('expression is not pure expression|%', '{key_size}', 'an aggregate needs a FROM'),
			('routine is marked as IMMUTABLE, but expression is STABLE|%', NULL, 'the tests above tell more precisely'),
			('routine is marked as STABLE, but expression is VOLATILE|%', '{collation_order,describe,describe_replication,describe_storage,describe_system,live_digest,live_plan,live_read,repair_describe}',
				'stable, to read in the snapshot of their callers; volatile are built-in functions and views, and ones that raise errors'),
			('text type variable is not sanitized|%', '{ask_values,differing,find_distributed,iblt_repair,nodes_rows,plain_find,slice_bound,sum_distributed,slice_condition_sql,repair_add_steps,repair_claim_batch,repair_exchange,repair_execute_steps,structure_here}',
				'it runs a whole statement that others put together with format()'),
			('OUT variable % is maybe unmodified|%', '{iblt_repair}', 'RETURN QUERY EXECUTE gives them')
		), finding AS (
			SELECT p.proname, f.* FROM pg_proc p, LATERAL plpgsql_check_function_tb(p.oid, fatal_errors => false,
				other_warnings => true, extra_warnings => true, performance_warnings => false, security_warnings => true) AS f
			WHERE p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'plpgsql') AND p.oid IN ($1)
		)
		SELECT concat_ws(': ', f.proname, f.lineno, f.level, f.message, f.detail, f.hint) FROM finding f
		WHERE NOT EXISTS (SELECT FROM false_alarm a WHERE concat(f.message, '|', f.detail) LIKE a.message
			AND (a.functions IS NULL OR f.proname = ANY (a.functions::name[])))
		ORDER BY f.proname, f.lineno
	SQL
}

# Four functions, in each of which it must find something.
faulty='
	CREATE FUNCTION faulty_a() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM nowhere FROM pg_class; END $$;
	CREATE FUNCTION faulty_b() RETURNS void LANGUAGE plpgsql AS $$ DECLARE unused integer; BEGIN NULL; END $$;
	CREATE FUNCTION faulty_c() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN NULL; END $$;
	CREATE FUNCTION faulty_d(sql text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE sql; END $$;'

available="SELECT count(*) FROM pg_available_extensions WHERE name = 'plpgsql_check'"
if [ "$(psql -X -q -At -d check_catalog -c "$available")" = 1 ]; then
	psql -X -q -v ON_ERROR_STOP=1 -d check_catalog -c 'CREATE EXTENSION plpgsql_check' -c "$faulty"
	no_rows "plpgsql_check finds faults" "
		SELECT name FROM unnest(ARRAY['faulty_a', 'faulty_b', 'faulty_c', 'faulty_d']) AS name
		WHERE name NOT IN (SELECT split_part(found, ':', 1) FROM ($(plpgsql_findings \
			"SELECT oid FROM pg_proc WHERE proname LIKE 'faulty_%'")) AS f (found))"
	no_rows "plpgsql_check finds none in the extensions" "$(plpgsql_findings \
		"SELECT d.objid $members AND d.classid = 'pg_proc'::regclass")"
else
	skipped "plpgsql_check finds faults" "the server has no plpgsql_check"
	skipped "plpgsql_check finds none in the extensions" "the server has no plpgsql_check"
fi

no_rows "the extensions can be dropped and created again" "
	DROP EXTENSION $(IFS=,; echo "${extensions[*]}"); $create"

done_testing
